/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/sessions/{id}/network: what a session's code may reach, asked for and
 * shown. Runs on a worker of the daemon.
 */
#include "doors/native/native.h"

#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

static void encode_installed(struct json_writer *w,
                             const struct session_network_info *info)
{
    json_write_open(w, "installed", '[');
    for (size_t i = 0; i < info->installed_count; i++) {
        const struct session_package *p = &info->installed[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "name", p->name);
        json_write_string(w, "version", p->version);
        json_write_string(w, "sha256", p->sha256);
        json_write_time(w, "at", p->at_ms);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

static void respond(struct doors_call *call, const char *session,
                    const struct session_network_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "session", session);
    session_network_write(&w, &info->net);
    json_write_bool(&w, "granted", info->granted);
    native_encode_text(&w, "problem", info->problem);
    json_write_int(&w, "bytes_used", (int64_t)info->bytes_used);
    json_write_int(&w, "requests_used", (int64_t)info->requests_used);
    encode_installed(&w, info);
    if (info->net.mode == SESSION_EGRESS_OPEN)
        json_write_string(&w, "warning", SESSION_OPEN_MEANS);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
}

int native_network_get(struct doors_call *call, struct error *err)
{
    struct session_network_info info cleanup(session_network_info_done) = {0};
    int r = session_network_get(call->doors->sessions, &call->actor,
                                call->params[0], &info, err);

    if (r == 0)
        respond(call, call->params[0], &info);
    return r;
}

int native_network_put(struct doors_call *call, struct error *err)
{
    struct session_network asked = {0};
    struct session_network_info info cleanup(session_network_info_done) = {0};
    json_t *json cleanup(json_unref) = NULL;
    int r =
        http_body_json(call->http, call->doors->conf->json_bytes, &json, err);

    if (r == 0)
        r = session_network_read(json, http_arena(call->http), &asked, err);
    if (r == 0)
        r = session_network_set(call->doors->sessions, &call->actor,
                                call->params[0], &asked, &info, err);
    if (r == 0)
        respond(call, call->params[0], &info);
    return r;
}
