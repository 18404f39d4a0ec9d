/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened to files: history, provenance, differences, and what a
 * conversation caused. Runs on a worker of the daemon; changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_DEFAULT 100
#define CONVERSATION_MAX 256

/* ---- history ------------------------------------------------------------ */

int native_versions_history(struct doors_call *call, struct error *err)
{
    struct workspace_history_spec spec = {.path = NULL};
    struct workspace_event *events = NULL;
    struct buf body = {0};
    struct json_writer w = native_writer(call, &body);
    struct page_result got = {0};
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, LIST_DEFAULT,
                            &spec.limit, &spec.after, err);

    if (r == 0)
        r = http_query(call->http, "path", &spec.path, err);
    if (r == 0)
        r = http_query(call->http, "file", &spec.file_id, err);
    if (r == 0)
        r = workspace_history(call->doors->workspaces, &call->actor,
                              call->params[0], &spec, &events, &got, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < got.count; i++)
        api_write(&w, NULL, &native_version,
                  &(struct native_version_view){events[i], call->params[0]});
    native_encode_list_end(&w, got.has_more);
    workspace_events_free(events, got.count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_versions_conversation(struct doors_call *call, struct error *err)
{
    char *workspaces cleanup(mem_free) = NULL;
    struct workspace_event *events = NULL;
    struct buf body = {0};
    struct json_writer w = native_writer(call, &body);
    const char *after = NULL;
    unsigned limit = 0;
    struct page_result got = {0};
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, LIST_DEFAULT, &limit,
                            &after, err);

    if (r == 0 && strlen(call->params[0]) > CONVERSATION_MAX)
        r = error_set(err, ERR_INVALID,
                      "a conversation's id has at most %d bytes",
                      CONVERSATION_MAX);
    if (r == 0)
        r = workspace_conversation(
            call->doors->workspaces, &call->actor, call->params[0],
            &(struct page){.limit = limit, .after = after}, &events,
            &workspaces, &got, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < got.count; i++)
        api_write(
            &w, NULL, &native_version,
            &(struct native_version_view){events[i], workspaces + i * ID_MAX});
    native_encode_list_end(&w, got.has_more);
    workspace_events_free(events, got.count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* ---- provenance --------------------------------------------------------- */

struct provenance {
    struct native_version_view version;
    const char *base;
    char *code; /* NULL: there was none, or it is not there */
    size_t code_len;
};

static void write_code(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct provenance *p = object;

    if (p->code)
        json_write_text(w, key, p->code, p->code_len);
    else
        json_write_string(w, key, NULL);
}

#define PROVENANCE(member) API_AT(struct provenance, member)

static const struct api_field provenance_fields[] = {
    {"base_commit", API_STRING, API_NULLABLE, PROVENANCE(base),
     .help = "the state it could have read"},
    {"code_sha256", API_STRING, API_NULLABLE,
     PROVENANCE(version.event.code_sha256)},
    {"code", API_STRING, API_NULLABLE, .write = write_code,
     .help = "the text that ran"},
};
API_OUTPUT_OF(native_provenance, "Provenance", &native_version,
              struct provenance, provenance_fields, "What made a version.");

/* The code that ran, if it is stored; owned by caller (free). A reader of the
 * version may see the code that made it. */
static char *read_code(struct doors_call *call, const char *sha256,
                       size_t *ret_len)
{
    struct blobs *blobs = call->doors->core->blobs;
    char *text cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    struct error ignored;
    uint64_t size = 0;
    ssize_t n;

    if (!sha256[0] || blob_open(blobs, sha256, &fd, &size, &ignored) < 0 ||
        size > call->doors->conf->code_bytes)
        return NULL;
    text = xmalloc(size + 1);
    n = fd_read_all(fd, text, size);
    if (n < 0)
        return NULL;
    *ret_len = (size_t)n;
    return take_ptr(text);
}

int native_versions_provenance(struct doors_call *call, struct error *err)
{
    struct workspace_event event cleanup(workspace_event_done) = {.seq = 0};
    char workspace[ID_MAX], base[ID_MAX];
    struct provenance p;
    int r =
        workspace_provenance(call->doors->workspaces, &call->actor,
                             call->params[0], &event, workspace, base, err);

    if (r < 0)
        return r;
    p = (struct provenance){.version = {event, workspace}, .base = base};
    p.code = read_code(call, event.code_sha256, &p.code_len);
    native_respond(call, 200, &native_provenance, &p);
    free(p.code);
    return 0;
}

/* ---- differences -------------------------------------------------------- */

struct diff {
    const char *path, *from, *to;
    const struct buf *text;
};

static void write_diff(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct buf *text = ((const struct diff *)object)->text;

    json_write_text(w, key, text && text->data ? text->data : "",
                    text ? text->len : 0);
}

#define DIFF(member) API_AT(struct diff, member)

static const struct api_field diff_fields[] = {
    {"path", API_STRING, DIFF(path)},
    {"from", API_STRING, API_NULLABLE, DIFF(from)},
    {"to", API_STRING, DIFF(to)},
    {"diff", API_STRING, .write = write_diff},
};
API_OUTPUT(native_diff, "Diff", struct diff, diff_fields, "A unified diff.");

static void respond_diff(struct doors_call *call, const char *path,
                         const char *from, const char *to, struct buf *diff)
{
    const char *accept = http_header(call->http, "Accept");

    if (!accept || !strstr(accept, "application/json")) {
        http_add_header(call->http, "Content-Security-Policy",
                        "sandbox; default-src 'none'");
        http_respond(call->http, 200, "text/x-diff; charset=utf-8", diff);
        return;
    }
    native_respond(call, 200, &native_diff,
                   &(struct diff){path, from, to, diff});
}

int native_versions_diff(struct doors_call *call, struct error *err)
{
    struct workspace_file head cleanup(workspace_file_done) = {.path = NULL};
    struct buf diff cleanup(buf_done) = {0};
    const char *path = NULL, *from = NULL, *to = NULL;
    int r = http_query(call->http, "path", &path, err);

    if (r == 0)
        r = http_query(call->http, "from", &from, err);
    if (r == 0)
        r = http_query(call->http, "to", &to, err);
    if (r == 0 && !to) {
        r = workspace_file_get(call->doors->workspaces, &call->actor,
                               call->params[0], path, NULL, &head, err);
        to = head.version;
    }
    if (r == 0)
        r = workspace_diff(call->doors->workspaces, &call->actor,
                           call->params[0], path, from, to, &diff, err);
    if (r == 0)
        respond_diff(call, path, from, to, &diff);
    return r;
}
