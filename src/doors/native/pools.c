/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/pools and /api/limits: what is configured. Runs on a worker of the
 * daemon; reads the configuration and the core's counters, changes nothing.
 */
#include "doors/native/native.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

static void encode_pool(struct json_writer *w, const struct conf_pool *p,
                        const struct session_metrics *m)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "name", p->name);
    json_write_string(w, "runtime", p->runtime);
    json_write_bool(w, "zygote", p->zygote);
    json_write_string(w, "persistence", p->persistence);
    json_write_open(w, "limits", '{');
    json_write_int(w, "memory_bytes", (int64_t)p->memory_bytes);
    json_write_int(w, "max_memory_bytes", (int64_t)p->max_memory_bytes);
    json_write_int(w, "processes", p->processes);
    json_write_int(w, "cores", p->cores);
    json_write_int(w, "max_cores", p->max_cores);
    json_write_int(w, "descriptors", p->descriptors);
    json_write_int(w, "scratch_bytes", (int64_t)p->scratch_bytes);
    json_write_int(w, "scratch_inodes", p->scratch_inodes);
    json_write_int(w, "tmp_bytes", (int64_t)p->tmp_bytes);
    json_write_int(w, "shm_bytes", (int64_t)p->shm_bytes);
    json_write_int(w, "python_timeout_s", p->python_timeout_s);
    json_write_int(w, "python_timeout_max_s", p->python_timeout_max_s);
    json_write_int(w, "shell_timeout_s", p->shell_timeout_s);
    json_write_int(w, "shell_timeout_max_s", p->shell_timeout_max_s);
    json_write_int(w, "output_bytes", (int64_t)p->output_bytes);
    json_write_close(w, '}');
    json_write_int(w, "cooldown_s", p->cooldown_s);
    json_write_int(w, "lifetime_s", p->lifetime_s);
    json_write_int(w, "max_sessions", p->max_sessions);
    json_write_int(w, "ready_wanted", p->ready);
    for (size_t i = 0; i < m->pool_count; i++)
        if (strcmp(m->pools[i].name, p->name) == 0) {
            json_write_int(w, "ready", m->pools[i].ready);
            json_write_int(w, "sessions", m->pools[i].sessions);
        }
    json_write_close(w, '}');
}

int native_pools_list(struct doors_call *call, struct error *err)
{
    struct session_metrics *m cleanup(mem_free) = xcalloc(1, sizeof(*m));
    const struct conf *conf = call->doors->conf;
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    (void)err;
    sessions_metrics(call->doors->sessions, m);
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "data", '[');
    for (size_t i = 0; i < conf->pool_count; i++)
        encode_pool(&w, &conf->pools[i], m);
    json_write_close(&w, ']');
    json_write_bool(&w, "has_more", false);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_pools_get(struct doors_call *call, struct error *err)
{
    struct session_metrics *m cleanup(mem_free) = NULL;
    const struct conf_pool *pool =
        conf_pool_find(call->doors->conf, call->params[0]);
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    if (!pool)
        return error_set(err, ERR_NOT_FOUND, "no such pool");
    m = xcalloc(1, sizeof(*m));
    sessions_metrics(call->doors->sessions, m);
    encode_pool(&w, pool, m);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_limits_get(struct doors_call *call, struct error *err)
{
    const struct conf *c = call->doors->conf;
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"json_bytes", c->json_bytes},
        {"json_depth", json_limits_body.depth},
        {"json_members", json_limits_body.members},
        {"code_bytes", c->code_bytes},
        {"upload_bytes", c->upload_bytes},
        {"file_bytes", c->file_bytes},
        {"upload_parts", UPLOAD_PARTS_MAX},
        {"form_parts", HTTP_PARTS_MAX},
        {"workspace_quota_bytes", c->workspace_quota_bytes},
        {"tenant_quota_bytes", c->tenant_quota_bytes},
        {"workspaces_per_tenant", c->workspaces_per_tenant},
        {"restore_window_s", c->restore_window_s},
        {"lock_ttl_max_s", LOCK_TTL_MAX_S},
        {"index_text_bytes", c->index_text_bytes},
        {"index_document_bytes", c->index_document_bytes},
        {"max_executions", c->max_executions},
        {"queue_per_session", c->queue_per_session},
        {"sessions_per_tenant", c->sessions_per_tenant},
        {"max_sessions", c->max_sessions},
        {"creations_per_s", c->creations_per_s},
        {"history_bytes", c->history_bytes},
        {"history_per_session", c->history_per_session},
        {"workers", c->workers},
        {"connections", c->connections},
        {"header_timeout_s", c->header_timeout_s},
        {"idle_timeout_s", c->idle_timeout_s},
        {"body_timeout_s", c->body_timeout_s},
        {"auth_failures_per_min", c->auth_failures_per_min},
    };
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    (void)err;
    json_write_open(&w, NULL, '{');
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        json_write_int(&w, rows[i].name, (int64_t)rows[i].value);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}
