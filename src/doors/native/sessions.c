/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sessions. Runs on a worker of the daemon; see native.h. */
#include "doors/native/native.h"

#include "api/api.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_DEFAULT 20

struct refreshed {
    uint32_t changed;
    struct session_info session;
};

static const struct api_field refreshed_fields[] = {
    {"changed", API_INT, API_AT(struct refreshed, changed),
     .help = "files changed or removed in it"},
    {"session", API_OBJECT, API_AT(struct refreshed, session),
     .of = &native_session},
};
API_OUTPUT(native_refreshed, "Refreshed", struct refreshed, refreshed_fields,
           "A session after others' commits came in.");

static void respond(struct doors_call *call, unsigned status,
                    const struct session_info *info)
{
    native_respond(call, status, &native_session, info);
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

struct patch_body {
    int sharing; /* enum session_sharing */
};

static const struct api_field session_patch_fields[] = {
    {"sharing", API_CHOICE, API_REQUIRED, API_AT(struct patch_body, sharing),
     .min = SESSION_SHARING_PRINCIPAL, .choices = native_sharings,
     .help = "who in the tenant sees it"},
};
API_INPUT(native_session_patch, "SessionPatch", struct patch_body,
          session_patch_fields, "What of a session is to be changed.");

int native_sessions_patch(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct patch_body b = {0};
    int r = native_read(call, &native_session_patch, &b, &json, err);

    if (r == 0)
        r = session_share(call->doors->sessions, &call->actor, call->params[0],
                          (enum session_sharing)b.sharing, &info, err);
    if (r == 0)
        respond(call, 200, &info);
    return r;
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
    if (r < 0)
        return r;
    native_respond_list(call, &native_session, infos, count, more);
    for (size_t i = 0; i < count; i++)
        session_info_done(&infos[i]);
    return 0;
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
    uint32_t changed = 0;
    int r = session_refresh(call->doors->sessions, &call->actor,
                            call->params[0], &changed, &info, err);

    if (r < 0)
        return r;
    native_respond(call, 200, &native_refreshed,
                   &(struct refreshed){changed, info});
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
