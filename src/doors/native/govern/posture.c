/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/posture: what the gate finds, looked at anew for each request, and the
 * settings an auditor wants beside it. Runs on a worker of the daemon.
 */
#include "posture/posture.h"

#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "warden/call.h"

/* ---- resources ---------------------------------------------------------- */

static const char *const check_names[] = {
    "environment", "outbound", "identity", "walls",
    "policy",      "audit",    "data",     NULL};
static const char *const check_states[] = {"ok", "accepted", "failed", NULL};

#define ROW(member) API_AT(struct posture_row, member)

static const struct api_field gate_check_fields[] = {
    {"name", API_CHOICE, ROW(name), .choices = check_names},
    {"state", API_CHOICE, ROW(state), .choices = check_states},
    {"why", API_STRING, ROW(why), .help = "what was found"},
    {"fix", API_STRING, API_NULLABLE, ROW(fix)},
};
API_OUTPUT(native_gate_check, "GateCheck", struct posture_row,
           gate_check_fields, "One of the gate's checks, as it stands now.");

struct gate {
    bool open;
    struct posture_row *rows;
    size_t count;
};

static const struct api_field gate_fields[] = {
    {"open", API_BOOL, API_AT(struct gate, open),
     .help = "no code runs while it is closed"},
    {"checks", API_ARRAY, API_LIST(struct gate, rows, count),
     .of = &native_gate_check},
};
API_OUTPUT(native_gate, "Gate", struct gate, gate_fields,
           "What must be so before code may run.");

struct service {
    const char *version, *configuration;
    uint32_t uid;
    bool local, tls, audit_required;
};

#define SERVICE(member) API_AT(struct service, member)

static const struct api_field posture_service_fields[] = {
    {"version", API_STRING, SERVICE(version)},
    {"uid", API_INT, SERVICE(uid)},
    {"configuration", API_STRING, SERVICE(configuration),
     .help = "its file; empty: defaults"},
    {"local", API_BOOL, SERVICE(local), .help = "served on loopback only"},
    {"tls", API_BOOL, SERVICE(tls)},
    {"audit_required", API_BOOL, SERVICE(audit_required)},
};
API_OUTPUT(native_posture_service, "PostureService", struct service,
           posture_service_fields, "The service itself.");

#define STATUS(member) API_AT(struct warden_status, member)

static const struct api_field posture_sandboxes_fields[] = {
    {"in_use", API_INT, STATUS(slots), .help = "ready ones included"},
    {"cgroup_version", API_INT, STATUS(cgroup_version)},
};
API_OUTPUT(native_posture_sandboxes, "PostureSandboxes", struct warden_status,
           posture_sandboxes_fields, "What the warden holds.");

struct memory {
    uint64_t machine_bytes, granted_bytes;
    uint32_t overcommit;
    bool exceeded;
};

#define MEMORY(member) API_AT(struct memory, member)

static const struct api_field posture_memory_fields[] = {
    {"machine_bytes", API_INT, MEMORY(machine_bytes),
     .help = "or of the service's control group"},
    {"granted_bytes", API_INT, MEMORY(granted_bytes),
     .help = "limits of live sessions together"},
    {"overcommit", API_INT, MEMORY(overcommit),
     .help = "memory_overcommit; 0: no limit"},
    {"exceeded", API_BOOL, MEMORY(exceeded),
     .help = "more is granted than there is"},
};
API_OUTPUT(native_posture_memory, "PostureMemory", struct memory,
           posture_memory_fields,
           "What live sessions may use, and what there is.");

#define POOL(member) API_AT(struct conf_pool, member)

static const struct api_field posture_pool_fields[] = {
    {"name", API_STRING, POOL(name)},
    {"runtime", API_STRING, POOL(runtime)},
    {"isolation", API_STRING, POOL(isolation), .help = "the tier"},
    {"persistence", API_CHOICE, POOL(persistence),
     .choices = native_persistences},
    {"egress", API_CHOICE, POOL(egress), .choices = session_egress_names},
    {"packages", API_BOOL, POOL(packages)},
    {"lifetime_s", API_INT, POOL(lifetime_s)},
    {"cooldown_s", API_INT, POOL(cooldown_s)},
    {"python_timeout_max_s", API_INT, POOL(python_timeout_max_s)},
    {"output_bytes", API_INT, POOL(output_bytes)},
    {"memory_bytes", API_INT, POOL(memory_bytes)},
    {"max_memory_bytes", API_INT, POOL(max_memory_bytes)},
    {"processes", API_INT, POOL(processes)},
};
API_OUTPUT(native_posture_pool, "PosturePool", struct conf_pool,
           posture_pool_fields,
           "A pool's settings that bound what code can do.");

static const char *const control_names[] = {
    "isolation", "ephemeral",    "egress", "secrets",
    "identity",  "dependencies", "audit",  "quotas",
    "approvals", "deployment",   NULL};

#define SETTING(member) API_AT(struct posture_setting, member)

static const struct api_field posture_setting_fields[] = {
    {"control", API_CHOICE, SETTING(control), .choices = control_names,
     .help = "the scorecard's control it belongs to"},
    {"name", API_STRING, SETTING(name)},
    {"ok", API_BOOL, SETTING(ok)},
    {"found", API_STRING, SETTING(found)},
    {"advice", API_STRING, API_NULLABLE, SETTING(advice),
     .help = "what to do; null when ok"},
};
API_OUTPUT(native_posture_setting, "PostureSetting", struct posture_setting,
           posture_setting_fields,
           "A setting of the service, and advice where it is weak.");

#define WALL(member) API_AT(struct posture_wall, member)

static const struct api_field posture_wall_fields[] = {
    {"name", API_STRING, WALL(name)},
    {"stands", API_BOOL, WALL(stands)},
    {"accepted", API_BOOL, WALL(accepted),
     .help = "accept_missing_walls names it"},
};
API_OUTPUT(native_posture_wall, "PostureWall", struct posture_wall,
           posture_wall_fields, "One of the walls around a session.");

struct whole {
    struct posture_wall *walls;
    size_t wall_count;
    struct gate gate;
    struct service service;
    struct warden_status sandboxes;
    struct memory memory;
    const struct conf_pool *pools;
    size_t pool_count;
    struct posture_setting *settings;
    size_t setting_count;
};

#define WHOLE(member) API_AT(struct whole, member)

static const struct api_field posture_fields[] = {
    {"gate", API_OBJECT, WHOLE(gate), .of = &native_gate},
    {"walls", API_ARRAY, API_LIST(struct whole, walls, wall_count),
     .of = &native_posture_wall, .help = "those of this host"},
    {"service", API_OBJECT, WHOLE(service), .of = &native_posture_service},
    {"sandboxes", API_OBJECT, WHOLE(sandboxes),
     .of = &native_posture_sandboxes},
    {"memory", API_OBJECT, WHOLE(memory), .of = &native_posture_memory},
    {"pools", API_ARRAY, API_LIST(struct whole, pools, pool_count),
     .of = &native_posture_pool, .help = "those of the configuration"},
    {"settings", API_ARRAY, API_LIST(struct whole, settings, setting_count),
     .of = &native_posture_setting,
     .help = "how the service is configured; the gate does not depend on it"},
};
API_OUTPUT(native_posture, "Posture", struct whole, posture_fields,
           "May code run here, and under which settings.");

/* ---- the route ---------------------------------------------------------- */

/* Keys of every tenant and paths of the host are in it. */
#define SEE_POSTURE "see the posture of the service"

int native_posture_get(struct doors_call *call, struct error *err)
{
    const struct posture *p = call->doors->posture;
    const struct conf *conf = p->conf;
    struct warden_status status = {.walls = 0};
    struct session_metrics *m cleanup(mem_free) = xcalloc(1, sizeof(*m));
    struct posture_row rows[POSTURE_ROWS];
    struct posture_setting settings[POSTURE_SETTINGS];
    struct posture_wall walls[POSTURE_WALLS];
    struct whole whole;

    if (native_operators_only(call, SEE_POSTURE, err) < 0)
        return -(int)err->code;
    if (warden_call_status(p->warden, &status, err) < 0)
        return -(int)err->code;

    const struct posture_row *barred;

    posture_look(p, rows);
    barred = posture_barred(rows);
    sessions_gate(call->doors->sessions, barred ? barred->name : NULL,
                  barred ? barred->why : "");

    posture_settings_check(p, settings);
    sessions_metrics(call->doors->sessions, m);
    posture_walls(p, status.walls, walls);
    whole = (struct whole){
        .walls = walls,
        .wall_count = POSTURE_WALLS,
        .gate = {!posture_closed(rows), rows, POSTURE_ROWS},
        .service = {.version = GLOVEBOX_VERSION,
                    .configuration = conf->file,
                    .uid = geteuid(),
                    .local = conf_is_local(conf),
                    .tls = conf_speaks_tls(conf),
                    .audit_required = conf->audit_required},
        .sandboxes = status,
        .memory = {.machine_bytes = conf->machine_memory,
                   .granted_bytes = m->memory_granted,
                   .overcommit = conf->memory_overcommit,
                   .exceeded = m->memory_granted > conf->machine_memory},
        .pools = conf->pools,
        .pool_count = conf->pool_count,
        .settings = settings,
        .setting_count = POSTURE_SETTINGS,
    };
    native_respond(call, 200, &native_posture, &whole);
    return 0;
}
