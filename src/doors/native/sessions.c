/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sessions. Runs on a worker of the daemon; see native.h. */
#include "doors/native/native.h"

#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_DEFAULT 20

static void respond(struct doors_call *call, unsigned status,
                    const struct session_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    native_encode_session(&w, NULL, info);
    http_respond_json(call->http, status, &body);
}

int native_sessions_create(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    json_t *body cleanup(json_unref) = NULL;
    struct session_spec spec;
    int r =
        http_body_json(call->http, call->doors->conf->json_bytes, &body, err);

    if (r == 0)
        r = native_spec_session(call, body, &spec, err);
    if (r == 0)
        r = session_create(call->doors->sessions, &call->actor, &spec, &info,
                           err);
    if (r == 0)
        respond(call, 201, &info);
    return r;
}

int native_sessions_get(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_get(call->doors->sessions, &call->actor, call->params[0],
                        &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

int native_sessions_patch(struct doors_call *call, struct error *err)
{
    static const struct json_field fields[] = {
        {"sharing", JSON_KIND_STRING, .required = true, .min = 1, .max = 16},
    };
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    json_t *body cleanup(json_unref) = NULL;
    enum session_sharing sharing = SESSION_SHARING_DEFAULT;
    const char *text = NULL;
    int r =
        native_ask_body(call, fields, ARRAY_SIZE(fields), &text, &body, err);

    if (r == 0)
        r = native_spec_sharing(text, &sharing, err);
    if (r == 0)
        r = session_share(call->doors->sessions, &call->actor, call->params[0],
                          sharing, &info, err);
    if (r == 0)
        respond(call, 200, &info);
    return r;
}

static void respond_list(struct doors_call *call, struct session_info *infos,
                         size_t count, bool more)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_open(&w, "data", '[');
    for (size_t i = 0; i < count; i++) {
        native_encode_session(&w, NULL, &infos[i]);
        session_info_done(&infos[i]);
    }
    json_write_close(&w, ']');
    json_write_bool(&w, "has_more", more);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
}

int native_sessions_list(struct doors_call *call, struct error *err)
{
    struct session_info *infos cleanup(mem_free) = NULL;
    const char *after = NULL;
    int64_t limit = 0;
    size_t count = 0;
    bool more = false;
    int r =
        doors_query_int(call, "limit", 1, LIST_MAX, LIST_DEFAULT, &limit, err);

    if (r == 0)
        r = http_query(call->http, "after", &after, err);
    if (r == 0)
        r = session_list(call->doors->sessions, &call->actor, (unsigned)limit,
                         after, &infos, &count, &more, err);
    if (r == 0)
        respond_list(call, infos, count, more);
    return r;
}

int native_sessions_delete(struct doors_call *call, struct error *err)
{
    int r = session_delete(call->doors->sessions, &call->actor,
                           call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_sessions_reset(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_reset(call->doors->sessions, &call->actor, call->params[0],
                          &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

int native_sessions_refresh(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    uint32_t changed = 0;
    int r = session_refresh(call->doors->sessions, &call->actor,
                            call->params[0], &changed, &info, err);

    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_int(&w, "changed", changed);
    native_encode_session(&w, "session", &info);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_sessions_interrupt(struct doors_call *call, struct error *err)
{
    int r = session_interrupt(call->doors->sessions, &call->actor,
                              call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 202);
    return r;
}
