/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/posture: what the gate finds, looked at anew for each request, and the
 * settings an auditor wants beside it. Runs on a worker of the daemon.
 */
#include "posture/posture.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "warden/call.h"
#include "json/json.h"

static void write_gate(struct json_writer *w, struct sessions *sessions,
                       const struct posture *p)
{
    struct posture_row rows[POSTURE_ROWS];
    const struct posture_row *barred;

    posture_look(p, rows);
    barred = posture_barred(rows);
    sessions_gate(sessions, barred ? barred->name : NULL,
                  barred ? barred->why : "");
    json_write_open(w, "gate", '{');
    json_write_bool(w, "open", !posture_closed(rows));
    json_write_open(w, "checks", '[');
    for (size_t i = 0; i < POSTURE_ROWS; i++) {
        json_write_open(w, NULL, '{');
        json_write_string(w, "name", rows[i].name);
        json_write_string(w, "state", posture_state_name(rows[i].state));
        json_write_string(w, "why", rows[i].why);
        native_encode_text(w, "fix", rows[i].fix);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
    json_write_close(w, '}');
}

static void write_pools(struct json_writer *w, const struct conf *conf)
{
    json_write_open(w, "pools", '[');
    for (size_t i = 0; i < conf->pool_count; i++) {
        const struct conf_pool *p = &conf->pools[i];

        json_write_open(w, NULL, '{');
        json_write_string(w, "name", p->name);
        json_write_string(w, "runtime", p->runtime);
        json_write_string(w, "persistence", p->persistence);
        json_write_string(w, "egress", p->egress);
        json_write_bool(w, "packages", p->packages);
        json_write_int(w, "lifetime_s", p->lifetime_s);
        json_write_int(w, "cooldown_s", p->cooldown_s);
        json_write_int(w, "python_timeout_max_s", p->python_timeout_max_s);
        json_write_int(w, "output_bytes", (int64_t)p->output_bytes);
        json_write_int(w, "memory_bytes", (int64_t)p->memory_bytes);
        json_write_int(w, "max_memory_bytes", (int64_t)p->max_memory_bytes);
        json_write_int(w, "processes", p->processes);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

/* What live sessions may use together, beside what there is. */
static void write_memory(struct json_writer *w, const struct conf *conf,
                         struct sessions *sessions)
{
    struct session_metrics *m cleanup(mem_free) = xcalloc(1, sizeof(*m));

    sessions_metrics(sessions, m);
    json_write_open(w, "memory", '{');
    json_write_int(w, "machine_bytes", (int64_t)conf->machine_memory);
    json_write_int(w, "granted_bytes", (int64_t)m->memory_granted);
    json_write_int(w, "overcommit", conf->memory_overcommit);
    json_write_bool(w, "exceeded", m->memory_granted > conf->machine_memory);
    json_write_close(w, '}');
}

static void write_service(struct json_writer *w, const struct conf *conf)
{
    json_write_open(w, "service", '{');
    json_write_string(w, "version", GLOVEBOX_VERSION);
    json_write_int(w, "uid", geteuid());
    json_write_string(w, "configuration", conf->file ? conf->file : "");
    json_write_bool(w, "local", conf_is_local(conf));
    json_write_bool(w, "tls", conf_speaks_tls(conf));
    json_write_bool(w, "audit_required", conf->audit_required);
    json_write_close(w, '}');
}

/* Keys of every tenant and paths of the host are in it. */
static int check_operator(const struct doors_call *call, struct error *err)
{
    if (strcmp(call->who.tenant, OPERATORS) == 0)
        return 0;
    return error_set(err, ERR_FORBIDDEN,
                     "only keys of the tenant '%s' see the service's posture",
                     OPERATORS);
}

int native_posture_get(struct doors_call *call, struct error *err)
{
    const struct posture *p = call->doors->posture;
    struct warden_status status = {.walls = 0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    if (check_operator(call, err) < 0)
        return -(int)err->code;
    if (warden_call_status(p->warden, &status, err) < 0)
        return -(int)err->code;
    json_write_open(&w, NULL, '{');
    write_gate(&w, call->doors->sessions, p);
    write_service(&w, p->conf);
    json_write_open(&w, "sandboxes", '{');
    json_write_int(&w, "in_use", status.slots);
    json_write_int(&w, "cgroup_version", status.cgroup_version);
    json_write_close(&w, '}');
    write_memory(&w, p->conf, call->doors->sessions);
    write_pools(&w, p->conf);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}
