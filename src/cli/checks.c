/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doctor's own rows: the programs, the images, the account, the service and
 * the disk, as seen without privilege; and the reading of the warden's.
 */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/checks.h"
#include "cli/cli_int.h"
#include "conf/conf.h"
#include "conf/descriptors.h"
#include "conf/runtime.h"

#define DISK_LOW (1ull << 30)
#define DISK_NONE (100ull << 20)

void cli_checks_add(struct cli_checks *k, const char *name, const char *state,
                    bool required, const char *why, const char *fix)
{
    struct cli_check *row;

    if (k->count == CLI_CHECKS_MAX)
        return;
    row = &k->rows[k->count++];
    (void)snprintf(row->name, sizeof(row->name), "%s", name);
    (void)snprintf(row->state, sizeof(row->state), "%s", state);
    (void)snprintf(row->why, sizeof(row->why), "%s", why);
    (void)snprintf(row->fix, sizeof(row->fix), "%s", fix);
    row->required = required;
}

bool cli_checks_line(struct cli_checks *k, const char *line, size_t len)
{
    char *copy cleanup(mem_free) = xstrndup(line, len);
    char *fields[5] = {copy};
    size_t count = 1;

    for (char *tab = strchr(copy, '\t'); tab && count < ARRAY_SIZE(fields);
         tab = strchr(tab + 1, '\t')) {
        *tab = '\0';
        fields[count++] = tab + 1;
    }
    if (count < 3)
        return false;
    if (strcmp(fields[1], "ok") != 0 && strcmp(fields[1], "missing") != 0 &&
        strcmp(fields[1], "warn") != 0)
        return false;
    cli_checks_add(k, fields[0], fields[1], strcmp(fields[2], "yes") == 0,
                   count > 3 ? fields[3] : "", count > 4 ? fields[4] : "");
    return true;
}

/* ---- one check each ----------------------------------------------------- */

/* Without it everything works but a session's network. */
static void check_proxy(struct cli_checks *k)
{
    char *path cleanup(mem_free) = NULL;

    if (cli_connect_program("glovebox-egress", &path) == 0)
        cli_checks_add(k, "glovebox-egress", "ok", false, path, "");
    else
        cli_checks_add(k, "glovebox-egress", "warn", false,
                       "neither beside this program nor in "
                       "../libexec/glovebox; sessions can have no network",
                       "Build it with `make`, or install the package.");
}

static void check_programs(struct cli_checks *k)
{
    static const char *const programs[] = {"gloveboxd", "glovebox-warden"};
    static const char *const extensions[] = {"../lib/kernel/_glovebox.abi3.so",
                                             "kernel/_glovebox.abi3.so"};
    bool found = false;

    for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
        char *path cleanup(mem_free) = NULL;

        if (cli_connect_program(programs[i], &path) == 0)
            cli_checks_add(k, programs[i], "ok", true, path, "");
        else
            cli_checks_add(k, programs[i], "missing", true,
                           "neither beside this program nor in "
                           "../libexec/glovebox",
                           "Build it with `make`, or install the package.");
    }
    check_proxy(k);
    for (size_t i = 0; i < ARRAY_SIZE(extensions) && !found; i++) {
        char *path cleanup(mem_free) = NULL;

        if (cli_connect_file(extensions[i], &path) < 0)
            continue;
        found = true;
        cli_checks_add(k, "kernel extension", "ok", true, path, "");
    }
    if (!found)
        cli_checks_add(k, "kernel extension", "missing", true,
                       "_glovebox.abi3.so is not where sessions look for it",
                       "Build it with `make`, or install the package.");
}

static bool in_path(const char *program)
{
    char *copy cleanup(mem_free) = xstrdup(getenv("PATH"));
    char *rest = NULL;

    if (!copy)
        return false;
    for (char *dir = strtok_r(copy, ":", &rest); dir;
         dir = strtok_r(NULL, ":", &rest)) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", dir, program);

        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

static void check_builder(struct cli_checks *k)
{
    if (in_path("mmdebstrap"))
        cli_checks_add(k, "mmdebstrap", "ok", false,
                       "runtime images can be built here", "");
    else
        cli_checks_add(k, "mmdebstrap", "warn", false,
                       "not in PATH; runtime images cannot be built here",
                       "Install the package mmdebstrap.");
}

static void check_image(struct cli_checks *k, const struct conf *conf,
                        const char *name)
{
    struct conf_runtime found cleanup(conf_runtime_done) = {0};
    char *row cleanup(mem_free) = xasprintf("runtime %s", name);
    char *fix cleanup(mem_free) =
        xasprintf("Run `glovebox runtime build %s`.", name);
    struct error err;

    if (conf_runtime_find(conf->runtime_defs, conf->runtime_dir, name, &found,
                          &err) < 0)
        cli_checks_add(k, row, "missing", true, err.message, err.hint);
    else if (!found.built)
        cli_checks_add(k, row, "missing", true, "its image is not built", fix);
    else
        cli_checks_add(k, row, "ok", true, found.image_path, "");
}

/* The images that the configured pools start sessions from, each once. */
static void check_images(struct cli_checks *k, const struct conf *conf)
{
    for (size_t i = 0; i < conf->pool_count; i++) {
        bool seen = false;

        for (size_t j = 0; j < i; j++)
            seen |=
                strcmp(conf->pools[j].runtime, conf->pools[i].runtime) == 0;
        if (!seen)
            check_image(k, conf, conf->pools[i].runtime);
    }
}

static void check_user(struct cli_checks *k, const struct conf *conf)
{
    char *why cleanup(mem_free) = NULL;

    if (geteuid() != 0)
        return; /* the service keeps the account it is started from */
    errno = 0;
    if (getpwnam(conf->service_user)) {
        why = xasprintf("the service drops to '%s'", conf->service_user);
        cli_checks_add(k, "service user", "ok", true, why, "");
        return;
    }
    why = xasprintf("there is no account '%s' to drop to", conf->service_user);
    cli_checks_add(k, "service user", "missing", true, why,
                   "Make it with `useradd --system --no-create-home --shell "
                   "/usr/sbin/nologin`, or set service_user.");
}

/* path, or the nearest folder above it that exists. */
static bool space_at(const char *path, uint64_t *ret)
{
    char *at cleanup(mem_free) = xstrdup(path);
    struct statvfs fs;

    while (statvfs(at, &fs) < 0) {
        char *slash = strrchr(at, '/');

        if (!slash || errno != ENOENT || slash == at)
            return false;
        *slash = '\0';
    }
    *ret = (uint64_t)fs.f_bavail * fs.f_frsize;
    return true;
}

/* What a service has set aside in the files of its store: blocks that these
 * have and, so far, do not use. False: it cannot be seen from here. */
static bool reserve_at(const char *data_dir, uint64_t *ret)
{
    char *db cleanup(mem_free) = xasprintf("%s/glovebox.db", data_dir);
    char *log cleanup(mem_free) = xasprintf("%s/glovebox.db-wal", data_dir);
    struct stat st;
    uint64_t has;

    if (stat(db, &st) < 0)
        return false;
    has = (uint64_t)st.st_blocks * 512;
    *ret = has > (uint64_t)st.st_size ? has - (uint64_t)st.st_size : 0;
    if (stat(log, &st) == 0)
        *ret += (uint64_t)st.st_blocks * 512;
    return true;
}

/* conf: NULL for a disk that only holds images. */
static void check_disk(struct cli_checks *k, const char *name,
                       const char *path, const struct conf *conf)
{
    uint64_t keep = conf ? conf->disk_free_bytes : DISK_NONE;
    struct buf why cleanup(buf_done) = {0};
    const char *state = "ok";
    char size[16];
    uint64_t left, reserve;

    if (!space_at(path, &left)) {
        buf_addf(&why, "cannot look at %s", path);
        cli_checks_add(k, name, "warn", false, why.data, "");
        return;
    }
    if (left < MAX(DISK_LOW, keep))
        state = left < keep ? "missing" : "warn";
    buf_addf(&why, "%s free at %s", cli_format_size(left, size), path);
    if (conf) {
        buf_addf(&why, ", of which new work leaves %s",
                 cli_format_size(keep, size));
        if (reserve_at(path, &reserve))
            buf_addf(&why, "; %s set aside for deletes",
                     cli_format_size(reserve, size));
        if (left < keep)
            buf_adds(&why, "; full: reading and deleting only");
    }
    cli_checks_add(k, name, state, true, why.data,
                   *state == 'o' ? ""
                   : conf ? "Free some space: delete files and purge them "
                            "(`glovebox workspaces purge WS`), or choose "
                            "another place in the configuration."
                          : "Free some space, or choose another place in the "
                            "configuration.");
}

static void check_memory(struct cli_checks *k, const struct conf *conf)
{
    uint64_t machine = conf->machine_memory, most = 0;
    char *why cleanup(mem_free) = NULL;
    char a[16], b[16];

    for (size_t i = 0; i < conf->pool_count; i++)
        most = MAX(most, MAX(conf->pools[i].memory_bytes,
                             conf->pools[i].max_memory_bytes));
    if (conf->memory_overcommit)
        why = xasprintf("%s; a session may have %s, all live ones together "
                        "%u times the machine's (memory_overcommit)",
                        cli_format_size(machine, a), cli_format_size(most, b),
                        conf->memory_overcommit);
    else
        why = xasprintf("%s; a session may have %s, all live ones together "
                        "any amount (memory_overcommit is 0)",
                        cli_format_size(machine, a), cli_format_size(most, b));
    cli_checks_add(k, "memory", most > machine ? "warn" : "ok", false, why,
                   most > machine
                       ? "One session can use more than the machine has: "
                         "lower max_memory_bytes."
                       : "");
}

/* A session's disk is made as it is written, so it may not fit. */
static void check_scratch(struct cli_checks *k, const struct conf *conf,
                          const char *data)
{
    char *why cleanup(mem_free) = NULL;
    uint64_t most = 0, left;
    char a[16], b[16];

    for (size_t i = 0; i < conf->pool_count; i++)
        most = MAX(most, conf->pools[i].scratch_bytes);
    if (!space_at(data, &left) || most <= left)
        return;
    why = xasprintf("a session may write %s and %s are free",
                    cli_format_size(most, a), cli_format_size(left, b));
    cli_checks_add(k, "disk, sessions", "warn", false, why,
                   "Free some space, or lower scratch_bytes.");
}

/* Of the running service, for keys that may see it. */
static void check_granted(struct cli *c, struct cli_checks *k)
{
    json_t *posture cleanup(json_unref) = NULL;
    char *why cleanup(mem_free) = NULL;
    struct error err;
    const json_t *memory;
    char a[16], b[16];
    bool more;

    if (cli_http_json(c, "GET", "/api/posture", NULL, &posture, &err) < 0)
        return;
    memory = json_object_get(posture, "memory");
    if (!memory)
        return;
    more = json_is_true(json_object_get(memory, "exceeded"));
    why = xasprintf(
        "live sessions may use %s of %s",
        cli_format_size(cli_json_number(memory, "granted_bytes"), a),
        cli_format_size(cli_json_number(memory, "machine_bytes"), b));
    cli_checks_add(k, "memory, running", more ? "warn" : "ok", false, why,
                   more ? "If they use it all, the kernel ends some of them: "
                          "lower memory_overcommit or memory_bytes to rule "
                          "that out."
                        : "");
}

/* Of a service that is started from here. */
static void check_descriptors(struct cli_checks *k, const struct conf *conf)
{
    char *why cleanup(mem_free) = NULL;
    char *fix cleanup(mem_free) = NULL;
    struct rlimit files;
    uint64_t fit;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    fit = conf_descriptors_sessions(conf, files.rlim_max);
    why = xasprintf("at most %" PRIu64 ": room for %" PRIu64
                    " sessions of max_sessions %u",
                    (uint64_t)files.rlim_max, MIN(fit, conf->max_sessions),
                    conf->max_sessions);
    fix = xasprintf("Raise the limit to %" PRIu64
                    " (LimitNOFILE= of the unit, ulimit -Hn of a shell), or "
                    "set max_sessions lower.",
                    conf_descriptors_needed(conf));
    if (fit >= conf->max_sessions)
        cli_checks_add(k, "open files", "ok", true, why, "");
    else
        cli_checks_add(k, "open files", fit ? "warn" : "missing", !fit, why,
                       fix);
}

static void check_service(struct cli *c, struct cli_checks *k)
{
    char *why cleanup(mem_free) = NULL;
    struct error err;

    if (cli_connect(c, CLI_NEED_RUNNING, NULL, NULL, &err) < 0) {
        cli_checks_add(k, "service", "warn", false, err.message, err.hint);
        return;
    }
    if (cli_http_json(c, "GET", "/readyz", NULL, NULL, &err) < 0) {
        cli_checks_add(k, "service", "warn", false, err.message, err.hint);
        return;
    }
    why = xasprintf("ready at %s", c->base);
    cli_checks_add(k, "service", "ok", false, why, "");
    check_granted(c, k);
}

void cli_checks_host(struct cli *c, struct cli_checks *k)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    struct error err;

    check_programs(k);
    check_builder(k);
    if (conf_load(0, NULL, &conf, &err) < 0) {
        cli_checks_add(k, "configuration", "missing", true, err.message,
                       err.hint);
    } else {
        cli_checks_add(k, "configuration", "ok", true,
                       conf->file ? conf->file : "defaults, no file", "");
        check_images(k, conf);
        check_user(k, conf);
        check_disk(k, "disk, data", c->data ? c->data : conf->data_dir, conf);
        check_disk(k, "disk, runtimes", conf->runtime_dir, NULL);
        check_scratch(k, conf, c->data ? c->data : conf->data_dir);
        check_memory(k, conf);
        check_descriptors(k, conf);
    }
    check_service(c, k);
}
