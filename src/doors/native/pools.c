/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/pools and /api/limits: what is configured, and pools made besides.
 * Runs on a worker of the daemon. Shapes are checked here; what a pool may
 * be the core decides.
 */
#include "doors/native/native.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

static const char *const kinds[] = {"python", "shell", NULL};
static const char *const egresses[] = {"none", "allowlist", "open", NULL};
static const char *const sharings[] = {"default", "principal", "tenant", NULL};
static const char *const persistences[] = {"workspace", "ephemeral", NULL};

/* ---- what they show ----------------------------------------------------- */

/* p: of the configuration: the pool's own, or the first. */
static void encode_limits(struct json_writer *w, const struct conf_pool *p,
                          const struct pool_info *info)
{
    json_write_open(w, "limits", '{');
    json_write_int(w, "memory_bytes", (int64_t)info->memory_bytes);
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
}

static void encode_egress(struct json_writer *w, const struct conf_pool *p,
                          const struct pool_info *info)
{
    json_write_string(w, "egress", egresses[info->egress]);
    json_write_string(w, "egress_allow", info->egress_allow);
    json_write_bool(w, "packages", info->packages);
    json_write_int(w, "egress_bytes", (int64_t)p->egress_bytes);
    json_write_int(w, "egress_connections", p->egress_connections);
    json_write_int(w, "egress_requests", p->egress_requests);
    if (info->egress == SESSION_EGRESS_OPEN)
        json_write_string(w, "warning", SESSION_OPEN_MEANS);
}

static void encode_pool(struct json_writer *w, const struct conf *conf,
                        const struct pool_info *info)
{
    bool made = info->tenant[0] != '\0';
    const struct conf_pool *p = conf_pool_find(conf, made ? NULL : info->name);

    json_write_open(w, NULL, '{');
    json_write_string(w, "name", info->name);
    json_write_string(w, "source", made ? "made" : "configuration");
    native_encode_text(w, "tenant", info->tenant);
    json_write_string(w, "kind", kinds[info->kind]);
    json_write_string(w, "runtime", info->runtime);
    json_write_bool(w, "zygote", info->zygote);
    json_write_string(w, "persistence", persistences[info->ephemeral]);
    json_write_string(w, "sharing", sharings[info->sharing]);
    encode_limits(w, p, info);
    encode_egress(w, p, info);
    json_write_int(w, "cooldown_s", info->cooldown_s);
    json_write_int(w, "lifetime_s", p->lifetime_s);
    json_write_int(w, "max_sessions", info->max_sessions);
    json_write_int(w, "ready_wanted", info->ready);
    json_write_int(w, "ready", info->ready_now);
    json_write_int(w, "sessions", info->sessions);
    json_write_time(w, "created_at", info->created_at_ms);
    json_write_time(w, "updated_at", info->updated_at_ms);
    json_write_close(w, '}');
}

static void respond_pool(struct doors_call *call, int status,
                         const struct pool_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    encode_pool(&w, call->doors->conf, info);
    http_respond_json(call->http, status, &body);
}

int native_pools_list(struct doors_call *call, struct error *err)
{
    struct pool_info *pools cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r = session_pool_list(call->doors->sessions, &call->actor, &pools,
                              &count, err);

    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++) {
        encode_pool(&w, call->doors->conf, &pools[i]);
        pool_info_done(&pools[i]);
    }
    native_encode_list_end(&w, false);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_pools_get(struct doors_call *call, struct error *err)
{
    struct pool_info info cleanup(pool_info_done) = {.details = NULL};
    int r = session_pool_get(call->doors->sessions, &call->actor,
                             call->params[0], &info, err);

    if (r == 0)
        respond_pool(call, 200, &info);
    return r;
}

/* ---- making and changing ------------------------------------------------ */

struct pool_body {
    const char *name, *runtime;
    const char *egress_allow;
    int kind, persistence, egress, sharing;
    bool packages;
    int64_t ready, max_sessions, cooldown_s, memory_bytes;
};

#define AT(field) .offset = offsetof(struct pool_body, field)

/* The first is the name, which a change has in its path. Upper ends that the
 * core knows better are left to it. */
static const struct json_field fields[] = {
    {"name", JSON_KIND_STRING, .required = true, AT(name), .min = 1,
     .max = 63},
    {"kind", JSON_KIND_CHOICE, AT(kind), .choices = kinds},
    {"runtime", JSON_KIND_STRING, AT(runtime), .min = 1, .max = 63},
    {"persistence", JSON_KIND_CHOICE, AT(persistence),
     .choices = persistences},
    {"ready_wanted", JSON_KIND_INT, AT(ready), .min = 0, .max = 100},
    {"max_sessions", JSON_KIND_INT, AT(max_sessions), .min = 1, .max = 100000},
    {"cooldown_s", JSON_KIND_INT, AT(cooldown_s), .min = 1, .max = 30 * 86400},
    {"memory_bytes", JSON_KIND_INT, AT(memory_bytes), .min = 1,
     .max = INT64_MAX},
    {"egress", JSON_KIND_CHOICE, AT(egress), .choices = egresses},
    {"egress_allow", JSON_KIND_STRING, AT(egress_allow), .max = 4096},
    {"packages", JSON_KIND_BOOL, AT(packages)},
    {"sharing", JSON_KIND_CHOICE, AT(sharing), .choices = sharings},
};

static int put(struct doors_call *call, enum pool_put how, const char *name,
               struct pool_info *ret, struct error *err)
{
    size_t skip = name ? 1 : 0;
    json_t *json cleanup(json_unref) = NULL;
    struct pool_body b = {.name = name,
                          .kind = -1,
                          .persistence = -1,
                          .egress = -1,
                          .sharing = -1,
                          .ready = -1,
                          .max_sessions = -1,
                          .cooldown_s = -1,
                          .memory_bytes = -1};
    struct pool_spec spec;
    int r = native_ask_body(call, fields + skip, ARRAY_SIZE(fields) - skip, &b,
                            &json, err);

    if (r < 0)
        return r;
    spec = (struct pool_spec){
        .name = b.name,
        .runtime = b.runtime,
        .kind = b.kind,
        .persistence = b.persistence < 0 ? NULL : persistences[b.persistence],
        .ready = b.ready,
        .max_sessions = b.max_sessions,
        .cooldown_s = b.cooldown_s,
        .memory_bytes = b.memory_bytes,
        .egress = b.egress < 0 ? NULL : egresses[b.egress],
        .egress_allow = b.egress_allow,
        .sharing = b.sharing < 0 ? NULL : sharings[b.sharing],
        .packages = !json_is_boolean(json_object_get(json, "packages")) ? 0
                    : b.packages                                        ? 1
                                                                        : -1};
    return session_pool_put(call->doors->sessions, &call->actor, how, &spec,
                            NULL, ret, err);
}

int native_pools_create(struct doors_call *call, struct error *err)
{
    struct pool_info info cleanup(pool_info_done) = {.details = NULL};
    int r = put(call, POOL_MAKE, NULL, &info, err);

    if (r == 0)
        respond_pool(call, 201, &info);
    return r;
}

int native_pools_patch(struct doors_call *call, struct error *err)
{
    struct pool_info info cleanup(pool_info_done) = {.details = NULL};
    int r = put(call, POOL_CHANGE, call->params[0], &info, err);

    if (r == 0)
        respond_pool(call, 200, &info);
    return r;
}

int native_pools_delete(struct doors_call *call, struct error *err)
{
    int r = session_pool_remove(call->doors->sessions, &call->actor,
                                call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

/* ---- limits of the service ---------------------------------------------- */

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
