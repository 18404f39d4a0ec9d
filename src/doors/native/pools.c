/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/pools and /api/limits: what is configured, and pools made besides.
 * Runs on a worker of the daemon. Shapes are checked here; what a pool may
 * be the core decides.
 */
#include "doors/native/native.h"

#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

static const char *const sources[] = {"configuration", "made", NULL};
static const char *const sharings[] = {"default", "principal", "tenant", NULL};

/* ---- what they show ----------------------------------------------------- */

/* A pool, and what of it is only in the configuration. */
struct pool {
    struct pool_info info;
    struct conf_pool conf; /* the pool's own, or the first */
    bool made;
};

static struct pool pool_of(const struct conf *conf,
                           const struct pool_info *info)
{
    bool made = info->tenant[0] != '\0';

    return (struct pool){
        *info, *conf_pool_find(conf, made ? NULL : info->name), made};
}

static bool is_open(const void *object)
{
    return ((const struct pool *)object)->info.egress == SESSION_EGRESS_OPEN;
}

#define POOL(member) API_AT(struct pool, member)

static const struct api_field pool_limits_fields[] = {
    {"memory_bytes", API_INT, POOL(info.memory_bytes)},
    {"max_memory_bytes", API_INT, POOL(conf.max_memory_bytes)},
    {"processes", API_INT, POOL(conf.processes)},
    {"cores", API_INT, POOL(conf.cores)},
    {"max_cores", API_INT, POOL(conf.max_cores)},
    {"descriptors", API_INT, POOL(conf.descriptors)},
    {"scratch_bytes", API_INT, POOL(conf.scratch_bytes)},
    {"scratch_inodes", API_INT, POOL(conf.scratch_inodes)},
    {"tmp_bytes", API_INT, POOL(conf.tmp_bytes)},
    {"shm_bytes", API_INT, POOL(conf.shm_bytes)},
    {"python_timeout_s", API_INT, POOL(info.python_timeout_s)},
    {"python_timeout_max_s", API_INT, POOL(info.python_timeout_max_s)},
    {"shell_timeout_s", API_INT, POOL(info.shell_timeout_s)},
    {"shell_timeout_max_s", API_INT, POOL(info.shell_timeout_max_s)},
    {"output_bytes", API_INT, POOL(conf.output_bytes)},
};
API_OUTPUT(native_pool_limits, "PoolLimits", struct pool, pool_limits_fields,
           "What its sessions get and may ask for.");

static const struct api_field pool_fields[] = {
    {"name", API_STRING, POOL(info.name)},
    {"source", API_CHOICE, POOL(made), .choices = sources},
    {"tenant", API_STRING, API_NULLABLE, POOL(info.tenant),
     .help = "the tenant that owns it; null: all tenants may use it"},
    {"kind", API_CHOICE, POOL(info.kind), .choices = native_pool_kinds},
    {"runtime", API_STRING, POOL(info.runtime)},
    {"zygote", API_BOOL, POOL(info.zygote)},
    {"persistence", API_CHOICE, POOL(info.ephemeral),
     .choices = native_persistences},
    {"sharing", API_CHOICE, POOL(info.sharing), .choices = sharings,
     .help = "of new sessions that do not choose themselves"},
    {"limits", API_OBJECT, .of = &native_pool_limits},
    {"egress", API_CHOICE, POOL(info.egress), .choices = session_egress_names,
     .help = "what its sessions may reach"},
    {"egress_allow", API_STRING, POOL(info.egress_allow),
     .help = "host[:port],…"},
    {"packages", API_BOOL, POOL(info.packages),
     .help = "pip may install what policy allows"},
    {"egress_bytes", API_INT, POOL(conf.egress_bytes),
     .help = "of a session, both ways"},
    {"egress_connections", API_INT, POOL(conf.egress_connections),
     .help = "of a session at once"},
    {"egress_requests", API_INT, POOL(conf.egress_requests),
     .help = "of a session"},
    {"warning", API_STRING, API_OPTIONAL, .when = is_open,
     .write = native_encode_open_means, .help = "what open means"},
    {"cooldown_s", API_INT, POOL(info.cooldown_s)},
    {"lifetime_s", API_INT, POOL(conf.lifetime_s)},
    {"max_sessions", API_INT, POOL(info.max_sessions)},
    {"ready_wanted", API_INT, POOL(info.ready)},
    {"ready", API_INT, POOL(info.ready_now)},
    {"sessions", API_INT, POOL(info.sessions)},
    {"created_at", API_TIME, API_NULLABLE, POOL(info.created_at_ms),
     .help = "null: of the configuration"},
    {"updated_at", API_TIME, API_NULLABLE, POOL(info.updated_at_ms)},
};
API_OUTPUT(native_pool, "Pool", struct pool, pool_fields,
           "Settings of sessions.");

static void respond_pool(struct doors_call *call, unsigned status,
                         const struct pool_info *info)
{
    struct pool pool = pool_of(call->doors->conf, info);

    native_respond(call, status, &native_pool, &pool);
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
        struct pool pool = pool_of(call->doors->conf, &pools[i]);

        api_write(&w, NULL, &native_pool, &pool);
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
    int64_t ready, max_sessions, cooldown_s, memory_bytes, max_timeout_s;
};

#define BODY(member) API_AT(struct pool_body, member)

/* Upper ends that the core knows better are left to it. */
static const struct api_field pool_change_fields[] = {
    {"kind", API_CHOICE, BODY(kind), .choices = native_pool_kinds,
     .help = "remembered, and shown"},
    {"runtime", API_STRING, BODY(runtime), .min = 1, .max = 63,
     .help = "one that a configured pool has"},
    {"persistence", API_CHOICE, BODY(persistence),
     .choices = native_persistences},
    {"ready_wanted", API_INT, BODY(ready), .max = 100,
     .help = "sandboxes kept ready"},
    {"max_sessions", API_INT, BODY(max_sessions), .min = 1, .max = 100000,
     .help = "awake at once"},
    {"cooldown_s", API_INT, BODY(cooldown_s), .min = 1, .max = 30 * 86400,
     .help = "idle until dormant"},
    {"memory_bytes", API_INT, BODY(memory_bytes), .min = 1, .max = INT64_MAX,
     .help = "of each session that asks for nothing else"},
    {"max_timeout_s", API_INT, BODY(max_timeout_s), .min = POOL_TIMEOUT_MIN_S,
     .max = POOL_TIMEOUT_MAX_S,
     .help = "most seconds that an execution may ask for"},
    {"egress", API_CHOICE, BODY(egress), .choices = session_egress_names,
     .help = "what sessions may reach"},
    {"egress_allow", API_STRING, BODY(egress_allow), .max = 4096,
     .help = "host[:port],… of the allowlist"},
    {"packages", API_BOOL, BODY(packages),
     .help = "pip may install what policy allows"},
    {"sharing", API_CHOICE, BODY(sharing), .choices = sharings,
     .help = "who in the tenant sees new sessions that do not choose "
             "themselves"},
};
API_INPUT(native_pool_change, "PoolChange", struct pool_body,
          pool_change_fields, "What of a pool is to be other than it is.");

static const struct api_field pool_spec_fields[] = {
    {"name", API_STRING, API_REQUIRED, BODY(name), .min = 1, .max = 63,
     .help = "a-z, 0-9 and -, beginning with a letter"},
};
API_INPUT_OF(native_pool_spec, "PoolSpec", &native_pool_change,
             struct pool_body, pool_spec_fields,
             "A pool to be made; else as the first pool is.");

static int put(struct doors_call *call, enum pool_put how, const char *name,
               struct pool_info *ret, struct error *err)
{
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
    int r = native_read(call, name ? &native_pool_change : &native_pool_spec,
                        &b, &json, err);

    if (r < 0)
        return r;
    spec = (struct pool_spec){
        .name = b.name,
        .runtime = b.runtime,
        .kind = b.kind,
        .persistence =
            b.persistence < 0 ? NULL : native_persistences[b.persistence],
        .ready = b.ready,
        .max_sessions = b.max_sessions,
        .cooldown_s = b.cooldown_s,
        .memory_bytes = b.memory_bytes,
        .max_timeout_s = b.max_timeout_s,
        .egress = b.egress < 0 ? NULL : session_egress_names[b.egress],
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

static void write_fixed(struct json_writer *w, const char *key,
                        const void *object)
{
    static const struct {
        const char *name;
        int64_t value;
    } rows[] = {
        {"upload_parts", UPLOAD_PARTS_MAX},
        {"form_parts", HTTP_PARTS_MAX},
        {"lock_ttl_max_s", LOCK_TTL_MAX_S},
    };
    int64_t value = strcmp(key, "json_depth") == 0
                        ? (int64_t)json_limits_body.depth
                        : (int64_t)json_limits_body.members;

    (void)object;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strcmp(rows[i].name, key) == 0)
            value = rows[i].value;
    json_write_int(w, key, value);
}

#define CONF(name)                                                            \
    {                                                                         \
#name, API_INT, API_AT(struct conf, name)                             \
    }
#define FIXED(name)                                                           \
    {                                                                         \
        (name), API_INT, .write = write_fixed                                 \
    }

static const struct api_field service_limits_fields[] = {
    CONF(json_bytes),
    FIXED("json_depth"),
    FIXED("json_members"),
    CONF(code_bytes),
    CONF(upload_bytes),
    CONF(file_bytes),
    FIXED("upload_parts"),
    FIXED("form_parts"),
    CONF(workspace_quota_bytes),
    CONF(tenant_quota_bytes),
    CONF(workspaces_per_tenant),
    CONF(restore_window_s),
    FIXED("lock_ttl_max_s"),
    CONF(index_text_bytes),
    CONF(index_document_bytes),
    CONF(max_executions),
    CONF(queue_per_session),
    CONF(sessions_per_tenant),
    CONF(max_sessions),
    CONF(creations_per_s),
    CONF(history_bytes),
    CONF(history_per_session),
    CONF(workers),
    CONF(connections),
    CONF(header_timeout_s),
    CONF(idle_timeout_s),
    CONF(body_timeout_s),
    CONF(auth_failures_per_min),
};
API_OUTPUT(native_service_limits, "ServiceLimits", struct conf,
           service_limits_fields,
           "Limits of the service, by the options' names.");

int native_limits_get(struct doors_call *call, struct error *err)
{
    (void)err;
    native_respond(call, 200, &native_service_limits, call->doors->conf);
    return 0;
}
