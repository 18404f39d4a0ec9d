/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions at the Azure door: one, all, and their end; by the names of
 * built-in pools and by those of custom containers, which differ in little
 * but spelling. Runs on a worker of the daemon. None of these makes a session
 * or keeps one alive.
 */
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define SKIP_MAX 1000000

static void encode_session(struct json_writer *w,
                           const struct session_info *info, const char *expiry)
{
    char guid[37], etag[64];

    (void)snprintf(etag, sizeof(etag), "%s-%llx",
                   azure_path_guid(info->id, guid),
                   (unsigned long long)info->last_used_at_ms);
    json_write_open(w, NULL, '{');
    json_write_string(w, "identifier", info->identifier);
    azure_encode_time(w, "createdAt", info->created_at_ms);
    azure_encode_time(w, "lastAccessedAt", info->last_used_at_ms);
    azure_encode_time(w, expiry, info->expires_at_ms);
    json_write_string(w, "etag", etag);
    json_write_close(w, '}');
}

/* ---- one ---------------------------------------------------------------- */

/* since: AZURE_NONE for calls that are older than versions. */
static int begin(struct doors_call *call, struct azure_ask *ret,
                 enum azure_version since, struct error *err)
{
    int r = azure_ask_begin(call, ret, err);

    if (r == 0)
        r = azure_ask_since(call, ret, since, err);
    return r;
}

static int look(struct doors_call *call, enum azure_version since,
                const char *expiry, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = begin(call, &ask, since, err);

    if (r == 0)
        r = azure_ask_identifier(call, NULL, &ask, err);
    if (r < 0)
        return r;
    r = azure_ask_existing(call, &ask, err);
    if (r == -ERR_NOT_FOUND) {
        azure_refuse_as(call, AZURE_GONE, "identifier");
        return error_set(err, ERR_INVALID,
                         "there is no session with this identifier");
    }
    if (r < 0)
        return r;
    encode_session(&w, &ask.session, expiry);
    azure_encode_respond(call, 200, &body);
    return 0;
}

int azure_sessions_get(struct doors_call *call, struct error *err)
{
    return look(call, AZURE_2025_02, "expireAt", err);
}

int azure_sessions_look(struct doors_call *call, struct error *err)
{
    return look(call, AZURE_NONE, "expiresAt", err);
}

/* *ret_found: there was one. */
static int end(struct doors_call *call, struct azure_ask *ask,
               enum azure_version since, bool *ret_found, struct error *err)
{
    int r = begin(call, ask, since, err);

    if (r == 0)
        r = azure_ask_identifier(call, NULL, ask, err);
    if (r < 0)
        return r;
    r = azure_ask_existing(call, ask, err);
    *ret_found = r == 0;
    if (r == 0)
        r = session_delete(call->doors->sessions, &call->actor,
                           ask->session.id, err);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

/* Gone is gone: one that is unknown was deleted just as well. */
int azure_sessions_delete(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    bool found;
    int r = end(call, &ask, AZURE_2025_02, &found, err);

    if (r == 0)
        azure_encode_empty(call, 204);
    return r;
}

int azure_sessions_stop(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    struct buf body = {0};
    bool found = false;
    int r = end(call, &ask, AZURE_NONE, &found, err);

    if (r < 0)
        return r;
    buf_addf(&body,
             found ? "Session with identifier '%s' in session pool '%s' was "
                     "stopped."
                   : "Session with identifier '%s' was not found in session "
                     "pool '%s'.",
             ask.identifier, ask.pool.name);
    if (!found)
        http_add_header(call->http, "x-ms-error-code", AZURE_GONE);
    azure_encode_headers(call);
    http_respond(call->http, found ? 200 : 400, "text/plain; charset=utf-8",
                 &body);
    return 0;
}

/* ---- all ---------------------------------------------------------------- */

static void sessions_free(struct session_info *infos, size_t count)
{
    for (size_t i = 0; i < count; i++)
        session_info_done(&infos[i]);
    free(infos);
}

/* The same call with a larger skip; arena. */
static const char *next_link(struct doors_call *call, unsigned skip)
{
    struct buf url cleanup(buf_done) = {0};
    const char *version = NULL;
    struct error ignored;

    buf_adds(&url, doors_url_base(call));
    buf_addf(&url, "%s?skip=%u", http_path(call->http), skip);
    if (http_query(call->http, "api-version", &version, &ignored) == 0 &&
        version)
        buf_addf(&url, "&api-version=%s", version);
    return arena_strdup(http_arena(call->http), url.data);
}

static int list(struct doors_call *call, bool built_in, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    struct session_info *infos = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int64_t skip = 0;
    size_t count = 0, shown = 0;
    bool more = false;
    int r = begin(call, &ask, built_in ? AZURE_2025_02 : AZURE_NONE, err);

    if (r == 0)
        r = doors_query_int(call, "skip", 0, SKIP_MAX, 0, &skip, err);
    if (r == 0)
        r = session_query(
            call->doors->sessions, &call->actor,
            &(struct session_filter){.pool = ask.pool.name,
                                     .identified = true,
                                     .oldest_first = true,
                                     .skip = (unsigned)skip,
                                     .limit = AZURE_SESSIONS_PAGE},
            &infos, &count, &more, err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_open(&w, built_in ? "sessions" : "value", '[');
    for (size_t i = 0; i < count; i++)
        if (!infos[i].final) { /* else it is over and only its files stay */
            encode_session(&w, &infos[i], built_in ? "expireAt" : "expiresAt");
            shown++;
        }
    json_write_close(&w, ']');
    if (!built_in)
        json_write_int(&w, "count", (int64_t)shown);
    json_write_string(&w, "nextLink",
                      more ? next_link(call, (unsigned)(skip + count)) : NULL);
    json_write_close(&w, '}');
    sessions_free(infos, count);
    azure_encode_respond(call, 200, &body);
    return 0;
}

int azure_sessions_list(struct doors_call *call, struct error *err)
{
    return list(call, true, err);
}

int azure_sessions_listed(struct doors_call *call, struct error *err)
{
    return list(call, false, err);
}
