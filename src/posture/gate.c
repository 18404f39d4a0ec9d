/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the gate, one function each; see posture.h. Runs in gloveboxd.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "conf/runtime.h"
#include "policy/policy.h"
#include "posture/posture.h"
#include "warden/call.h"

static const struct {
    const char *name;
    uint32_t bit;
} walls[] = {
    {"uids", WARDEN_WALL_UIDS},       {"memory", WARDEN_WALL_MEMORY},
    {"pids", WARDEN_WALL_PIDS},       {"cpu", WARDEN_WALL_CPU},
    {"scratch", WARDEN_WALL_SCRATCH}, {"landlock", WARDEN_WALL_LANDLOCK},
    {"seccomp", WARDEN_WALL_SECCOMP}, {"userns", WARDEN_WALL_USERNS},
};

#define SAY(row, ...)                                                         \
    ((void)snprintf((row)->why, sizeof((row)->why), __VA_ARGS__))
#define FIX(row, ...)                                                         \
    ((void)snprintf((row)->fix, sizeof((row)->fix), __VA_ARGS__))

static void add_name(struct posture_row *row, const char *name, size_t len)
{
    size_t used = strlen(row->why);

    (void)snprintf(row->why + used, sizeof(row->why) - used, "%s%.*s",
                   used ? ", " : "", (int)MIN(len, (size_t)64), name);
}

/* It was dropped from the process image, too: names.c started us anew. */
static bool look_environment(const struct posture *p, struct posture_row *row)
{
    size_t found = 0;

    (void)p;
    for (char **e = environ; e && *e; e++) {
        size_t name = strcspn(*e, "=");

        if (!posture_secret_name(*e, name))
            continue;
        add_name(row, *e, name);
        found++;
    }
    FIX(row, "Take them out of keep_environment and of what starts the "
             "service.");
    if (!found)
        SAY(row, "the service's environment names no secret");
    return found == 0;
}

static bool look_outbound(const struct posture *p, struct posture_row *row)
{
    const struct conf *c = p->conf;
    size_t open = 0;

    for (size_t i = 0; i < c->pool_count; i++)
        if (strcmp(c->pools[i].egress, "open") == 0) {
            add_name(row, c->pools[i].name, strlen(c->pools[i].name));
            open++;
        }
    FIX(row, "Set egress to none or allowlist in these pools.");
    if (open) {
        size_t used = strlen(row->why);

        (void)snprintf(row->why + used, sizeof(row->why) - used,
                       ": egress is open");
        return false;
    }
    if (c->egress_lab[0]) {
        SAY(row, "egress_lab makes private addresses reachable: %.200s",
            c->egress_lab);
        FIX(row, "Empty egress_lab; it is for test networks.");
        return false;
    }
    SAY(row, "no pool lets code out but by a list");
    return true;
}

/* Keys that hold more than keys are to hold here. */
static bool look_identity(const struct posture *p, struct posture_row *row)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    uint32_t most = 0;
    size_t count = 0, wide = 0, valid = 0;
    struct error err;

    FIX(row, "Revoke these keys, or name their scopes in key_scopes.");
    if (!p->auth || auth_scopes_parse(p->conf->key_scopes, &most, &err) < 0 ||
        auth_key_list(p->auth, &keys, &count, &err) < 0) {
        SAY(row, "the keys cannot be looked at");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (keys[i].revoked_at_ms)
            continue;
        valid++;
        if ((keys[i].scopes & most) == keys[i].scopes)
            continue;
        add_name(row, keys[i].id, strlen(keys[i].id));
        wide++;
    }
    if (!wide)
        SAY(row, "%zu valid %s, none with more than %.150s", valid,
            valid == 1 ? "key" : "keys", p->conf->key_scopes);
    return wide == 0;
}

static bool look_walls(const struct posture *p, struct posture_row *row)
{
    struct warden_status status = {.walls = 0};
    size_t missing = 0;
    struct error err;

    FIX(row, "See `glovebox doctor` for how to build them.");
    if (!p->warden || warden_call_status(p->warden, &status, &err) < 0) {
        SAY(row, "the warden does not answer");
        return false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(walls); i++)
        if (!(status.walls & walls[i].bit)) {
            add_name(row, walls[i].name, strlen(walls[i].name));
            missing++;
        }
    if (!missing) {
        SAY(row, "all %zu stand", ARRAY_SIZE(walls));
        return true;
    }
    add_name(row, "missing", 7);
    if ((~status.walls & ~p->accepted_walls &
         (WARDEN_WALL_SERVICE_USER - 1)) == 0)
        row->state = POSTURE_ACCEPTED;
    return false;
}

static bool look_policy(const struct posture *p, struct posture_row *row)
{
    struct policy_state state = {.loaded = false};

    row->itself = true; /* it denies everything */
    FIX(row, "Mend the policy and reload it (`glovebox policy reload`).");
    if (p->policy)
        policy_state(p->policy, &state);
    if (!state.loaded) {
        SAY(row, "no policy can be applied%s%.250s",
            state.problem[0] ? ": " : "", state.problem);
        return false;
    }
    SAY(row, "version %lld is in force", (long long)state.version);
    return true;
}

static bool look_audit(const struct posture *p, struct posture_row *row)
{
    struct error err;

    FIX(row, "Set audit_required, and see that the data directory has room.");
    if (!p->audit || audit_writable(p->audit, &err) < 0) {
        row->itself = true; /* no change is let through (O3) */
        SAY(row, "the trail cannot be written");
        return false;
    }
    SAY(row, p->conf->audit_required
                 ? "the trail is written, and nothing changes without it"
                 : "changes go on when the trail cannot be written");
    if (!p->conf->audit_required) /* which is to accept it */
        row->state = POSTURE_ACCEPTED;
    return p->conf->audit_required;
}

static bool look_data(const struct posture *p, struct posture_row *row)
{
    struct stat st;

    FIX(row, "chmod 700 the data directory, and give it to the service's "
             "account.");
    if (stat(p->conf->data_dir, &st) < 0) {
        SAY(row, "the data directory cannot be looked at: %s",
            strerror(errno));
        return false;
    }
    SAY(row, "mode %03o, owned by uid %u; the service is uid %u",
        (unsigned)st.st_mode & 0777u, (unsigned)st.st_uid,
        (unsigned)geteuid());
    return (st.st_mode & 077) == 0 && st.st_uid == geteuid();
}

#define SECURITY_MAX ((size_t)16 << 20)

/* What `glovebox runtime update` would repair: vulnerabilities that Debian has
 * fixed, and upgrades of its security archive. -1: never looked up. */
static int count_fixable(const struct conf *c, const char *runtime)
{
    struct conf_runtime rt cleanup(conf_runtime_done) = {.built = false};
    char *path cleanup(mem_free) = NULL, *text cleanup(mem_free) = NULL;
    json_t *security, *one;
    struct error err;
    size_t len, i;
    int count = 0;

    if (conf_runtime_find(c->runtime_defs, c->runtime_dir, runtime, &rt,
                          &err) < 0)
        return -1;
    path = xasprintf("%s/security.json", rt.image_path);
    if (fd_read_file(AT_FDCWD, path, SECURITY_MAX, &text, &len) < 0)
        return -1;
    security = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    json_array_foreach (json_object_get(security, "open"), i, one)
        count += json_is_string(json_object_get(one, "fixed"));
    json_array_foreach (json_object_get(security, "upgrades"), i, one)
        count += json_is_true(json_object_get(one, "security"));
    json_decref(security);
    return count;
}

static bool look_images(const struct posture *p, struct posture_row *row)
{
    const struct conf *c = p->conf;
    size_t unknown = 0, bad = 0;

    for (size_t i = 0; i < c->pool_count; i++) {
        int count = count_fixable(c, c->pools[i].runtime);

        unknown += count < 0;
        if (count <= 0)
            continue;
        bad++;
        add_name(row, c->pools[i].runtime, strlen(c->pools[i].runtime));
    }
    FIX(row, "Run `glovebox runtime update` for these; it needs no stop.");
    if (bad) {
        size_t used = strlen(row->why);

        (void)snprintf(row->why + used, sizeof(row->why) - used,
                       ": vulnerabilities that Debian has fixed");
        return false;
    }
    if (unknown)
        SAY(row, "vulnerabilities of %zu of %zu images are unknown", unknown,
            (size_t)c->pool_count);
    else
        SAY(row, "no image lacks a security fix known when it was checked");
    return true;
}

static const struct {
    const char *name;
    bool (*look)(const struct posture *p, struct posture_row *row);
} rows[POSTURE_ROWS] = {
    {"environment", look_environment},
    {"outbound", look_outbound},
    {"identity", look_identity},
    {"walls", look_walls},
    {"policy", look_policy},
    {"audit", look_audit},
    {"data", look_data},
    {"images", look_images},
};

static bool accepted(const char *list, const char *name)
{
    while (*(list += strspn(list, ", "))) {
        size_t n = strcspn(list, ", ");

        if (n == strlen(name) && memcmp(list, name, n) == 0)
            return true;
        list += n;
    }
    return false;
}

void posture_look(const struct posture *p,
                  struct posture_row ret[POSTURE_ROWS])
{
    for (size_t i = 0; i < POSTURE_ROWS; i++) {
        struct posture_row *row = &ret[i];

        *row = (struct posture_row){.name = rows[i].name,
                                    .state = POSTURE_FAILED};
        if (rows[i].look(p, row)) {
            row->state = POSTURE_OK;
            row->fix[0] = '\0';
        } else if (accepted(p->conf->accept_gate, row->name)) {
            row->state = POSTURE_ACCEPTED;
        }
    }
}

const struct posture_row *posture_closed(
    const struct posture_row list[POSTURE_ROWS])
{
    for (size_t i = 0; i < POSTURE_ROWS; i++)
        if (list[i].state == POSTURE_FAILED)
            return &list[i];
    return NULL;
}

const struct posture_row *posture_barred(
    const struct posture_row list[POSTURE_ROWS])
{
    for (size_t i = 0; i < POSTURE_ROWS; i++)
        if (list[i].state == POSTURE_FAILED && !list[i].itself)
            return &list[i];
    return NULL;
}

const char *posture_state_name(enum posture_state state)
{
    static const char *const names[] = {"ok", "accepted", "failed"};

    return names[state];
}

void posture_walls(const struct posture *p, uint32_t standing,
                   struct posture_wall ret[POSTURE_WALLS])
{
    static_assert(ARRAY_SIZE(walls) == POSTURE_WALLS, "");
    for (size_t i = 0; i < POSTURE_WALLS; i++)
        ret[i] = (struct posture_wall){.name = walls[i].name,
                                       .stands = standing & walls[i].bit,
                                       .accepted =
                                           p->accepted_walls & walls[i].bit};
}
