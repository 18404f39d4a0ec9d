/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox doctor: asks the warden which walls it could build here, adds what
 * this side can see, and prints one table and a verdict. Changes
 * nothing on the machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/common.h"
#include "cli/operate/doctor.h"
#include "conf/conf.h"
#include "conf/descriptors.h"
#include "conf/runtime.h"

#define WARDEN_MS 60000
#define WARDEN_BYTES 65536

/* ---- the warden's walls ------------------------------------------------- */

static int spawn_warden(char *program, int out, pid_t *ret_pid)
{
    char flag[] = "--doctor";
    char *argv[] = {program, flag, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int r;

    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    r = posix_spawn(ret_pid, program, &actions, &attributes, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return -r;
}

/* All it prints until it ends, within a minute. */
static bool read_until_end(int fd, struct buf *ret)
{
    uint64_t deadline = clock_mono_ms() + WARDEN_MS;

    while (ret->len < WARDEN_BYTES) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (poll(&p, 1, clock_left_ms(deadline)) <= 0)
            return false;
        buf_reserve(ret, 4096);
        n = read(fd, ret->data + ret->len, 4096);
        if (n <= 0)
            return n == 0;
        ret->len += (size_t)n;
    }
    return false;
}

static void warden_says(struct cli_checks *k, const char *why)
{
    cli_checks_add(k, "warden", "missing", true, why,
                   "Build or install glovebox-warden of this version.");
}

static void ask_warden(struct cli_checks *k)
{
    char *program cleanup(mem_free) = NULL;
    struct buf text cleanup(buf_done) = {0};
    int ends[2] = {-1, -1};
    size_t lines = 0;
    pid_t pid;
    int r;

    if (cli_connect_program("glovebox-warden", &program) < 0)
        return; /* checks.c has said so */
    if (fd_pipe(ends) < 0)
        return warden_says(k, "could not be asked: no descriptors left");
    r = spawn_warden(program, ends[1], &pid);
    fd_close(&ends[1]);
    if (r == 0 && !read_until_end(ends[0], &text))
        (void)kill(pid, SIGKILL);
    fd_close(&ends[0]);
    if (r < 0)
        return warden_says(k, "could not be started");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.data) - at : text.len - at;

        lines += cli_checks_line(k, text.data + at, len);
        at += len + 1;
    }
    if (lines == 0)
        warden_says(k, "answered nothing about the walls");
}

/* ---- the table ---------------------------------------------------------- */

static bool is_ok(const struct cli_check *row)
{
    return strcmp(row->state, "ok") == 0;
}

static const char *row_color(const struct cli *c, const struct cli_check *row)
{
    if (!c->color_out || is_ok(row))
        return "";
    return row->required && strcmp(row->state, "missing") == 0 ? "\033[31m"
                                                               : "\033[33m";
}

static void print_table(const struct cli *c, const struct cli_checks *k)
{
    static const char *const headings[] = {"CHECK", "STATE", "NEEDED", "WHY"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf text cleanup(buf_done) = {0};
    const char *line;

    for (size_t i = 0; i < k->count; i++) {
        const struct cli_check *row = &k->rows[i];
        const char *cells[] = {row->name, row->state,
                               row->required ? "yes" : "no", row->why};

        cli_table_row(table, cells);
    }
    cli_table_print(table, &text);
    line = text.data;
    for (size_t i = 0; i <= k->count; i++) {
        const char *color = i ? row_color(c, &k->rows[i - 1]) : "";
        size_t len = strcspn(line, "\n");

        (void)printf("%s%.*s%s\n", color, (int)len, line,
                     *color ? "\033[0m" : "");
        line += len + 1;
    }
}

static size_t count_missing(const struct cli_checks *k)
{
    size_t missing = 0;

    for (size_t i = 0; i < k->count; i++)
        missing +=
            k->rows[i].required && strcmp(k->rows[i].state, "missing") == 0;
    return missing;
}

static void print_verdict(const struct cli_checks *k)
{
    size_t missing = count_missing(k), fixes = 0, warnings = 0;

    for (size_t i = 0; i < k->count; i++) {
        const struct cli_check *row = &k->rows[i];

        warnings += !is_ok(row);
        if (is_ok(row) || !row->fix[0])
            continue;
        if (fixes++ == 0)
            (void)puts("\nWhat to do:");
        (void)printf("  %s: %s\n", row->name, row->fix);
    }
    if (missing)
        (void)printf("\n%zu needed %s missing. Sessions are refused until "
                     "%s there, or accepted by\nname in the configuration "
                     "(accept_missing_walls).\n",
                     missing, missing == 1 ? "thing is" : "things are",
                     missing == 1 ? "it is" : "they are");
    else if (warnings)
        (void)puts("\nEverything needed is there; see above for what could "
                   "be better.");
    else
        (void)puts("\nEverything is there.");
}

static void print_json(const struct cli *c, const struct cli_checks *k)
{
    json_t *rows cleanup(json_unref) = json_array();
    json_t *out cleanup(json_unref) = NULL;

    for (size_t i = 0; i < k->count; i++) {
        const struct cli_check *row = &k->rows[i];

        (void)json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:b, s:s, s:s}", "name", row->name, "state",
                      row->state, "required", (int)row->required, "why",
                      row->why, "fix", row->fix));
    }
    out = json_pack("{s:b, s:O}", "ok", count_missing(k) == 0, "checks", rows);
    cli_print_json(c, out);
}

/* ---- the gate ----------------------------------------------------------- */

static void gate_row(struct cli_checks *k, const json_t *row)
{
    const char *state = cli_json_text(row, "state", "failed");

    cli_checks_add(k, cli_json_text(row, "name", "?"),
                   strcmp(state, "failed") == 0     ? "missing"
                   : strcmp(state, "accepted") == 0 ? "warn"
                                                    : "ok",
                   true, cli_json_text(row, "why", ""),
                   cli_json_text(row, "fix", ""));
}

static int show_gate(struct cli *c, struct cli_checks *k)
{
    json_t *posture cleanup(json_unref) = NULL;
    const json_t *gate, *rows;
    struct error err;
    bool open;

    if (cli_connect(c, CLI_NEED_RUNNING, NULL, NULL, &err) < 0 ||
        cli_http_json(c, "GET", "/api/posture", NULL, &posture, &err) < 0)
        return cli_fail(c, &err);
    gate = json_object_get(posture, "gate");
    open = json_is_true(json_object_get(gate, "open"));
    if (c->json) {
        cli_print_json(c, gate);
        return open ? CLI_EXIT_OK : CLI_EXIT_CODE;
    }
    rows = json_object_get(gate, "checks");
    for (size_t i = 0; i < json_array_size(rows); i++)
        gate_row(k, json_array_get(rows, i));
    print_table(c, k);
    for (size_t i = 0; i < k->count; i++)
        if (!is_ok(&k->rows[i]) && k->rows[i].fix[0])
            (void)printf("%s%s: %s\n", i ? "" : "\n", k->rows[i].name,
                         k->rows[i].fix);
    (void)puts(open ? "\nThe gate is open: code may run."
                    : "\nThe gate is closed: no code runs until this is "
                      "mended, or accepted by name\nin the configuration "
                      "(accept_gate).");
    return open ? CLI_EXIT_OK : CLI_EXIT_CODE;
}

static int run_doctor(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_checks *k cleanup(mem_free) = xcalloc(1, sizeof(*k));
    const bool *gate = arg;

    (void)words;
    if (*gate)
        return show_gate(c, k);
    ask_warden(k);
    cli_checks_host(c, k);
    if (c->json) {
        print_json(c, k);
    } else {
        print_table(c, k);
        print_verdict(k);
    }
    return count_missing(k) ? CLI_EXIT_CODE : CLI_EXIT_OK;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .summary = "Report which isolation walls work here, and what to do",
    .notes =
        "--gate asks the running service, never an embedded one, and needs a\n"
        "key of scope audit:read. Exit status: 0 when everything needed is\n"
        "there, 1 when something is missing or the gate is closed.\n",
    .online = true,
    .options =
        (const struct cli_option[]){
            {"gate", 0, CLI_OPT_FLAG, 0, NULL,
             "only whether code may run at all, as the service says", NULL},
            {0},
        },
    .flags_size = sizeof(bool),
    .verbs = (const struct cli_verb[]){{"", .run = run_doctor}, {0}},
};

/* ---- rows --------------------------------------------------------------- */

/*
 * Doctor's own rows: the programs, the images, the account, the service and
 * the disk, as seen without privilege; and the reading of the warden's.
 */

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

/* Without it everything works but answers of language models. */
static void check_model_process(struct cli_checks *k)
{
    char *path cleanup(mem_free) = NULL;

    if (cli_connect_program("glovebox-model", &path) == 0)
        cli_checks_add(k, "glovebox-model", "ok", false, path, "");
    else
        cli_checks_add(k, "glovebox-model", "warn", false,
                       "neither beside this program nor in "
                       "../libexec/glovebox; only the built-in model echo "
                       "works",
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
    check_model_process(k);
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

#define MANIFEST_MAX ((size_t)8 << 20)

/* A built image: where it is and what was left out of it. */
static void add_image(struct cli_checks *k, const char *row,
                      const struct conf_runtime *rt)
{
    char *text cleanup(mem_free) = NULL;
    json_t *manifest cleanup(json_unref) = NULL;
    struct buf why cleanup(buf_done) = {0};
    const json_t *items, *item;
    const char *kind;
    size_t len, i, count = 0;

    if (fd_read_file(AT_FDCWD, rt->manifest_path, MANIFEST_MAX, &text, &len) ==
        0)
        manifest = json_loadb(text, len, 0, NULL);
    buf_adds(&why, rt->image_path);
    json_object_foreach (json_object_get(manifest, "missing"), kind, items)
        json_array_foreach (items, i, item)
            buf_addf(&why, "%s%s", count++ ? ", " : "; left out: ",
                     cli_json_text(item, "name", "?"));
    cli_checks_add(k, row, "ok", true, why.data, "");
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
        add_image(k, row, &found);
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
    buf_addf(&why, "%s free at %s", size_format(left, size), path);
    if (conf) {
        buf_addf(&why, ", of which new work leaves %s",
                 size_format(keep, size));
        if (reserve_at(path, &reserve))
            buf_addf(&why, "; %s set aside for deletes",
                     size_format(reserve, size));
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
                        size_format(machine, a), size_format(most, b),
                        conf->memory_overcommit);
    else
        why = xasprintf("%s; a session may have %s, all live ones together "
                        "any amount (memory_overcommit is 0)",
                        size_format(machine, a), size_format(most, b));
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
                    size_format(most, a), size_format(left, b));
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
    why = xasprintf("live sessions may use %s of %s",
                    size_format(cli_json_number(memory, "granted_bytes"), a),
                    size_format(cli_json_number(memory, "machine_bytes"), b));
    cli_checks_add(k, "memory, running", more ? "warn" : "ok", false, why,
                   more ? "If they use it all, the kernel ends some of them: "
                          "lower memory_overcommit or memory_bytes to rule "
                          "that out."
                        : "");
}

/* Models of the running service whose server did not answer. The service works
 * without them. */
static void check_models(struct cli *c, struct cli_checks *k)
{
    json_t *answer cleanup(json_unref) = NULL, *model;
    struct error err;
    size_t i, bad = 0;

    if (cli_http_json(c, "GET", "/api/models", NULL, &answer, &err) < 0)
        return;
    json_array_foreach (json_object_get(answer, "data"), i, model) {
        const char *state = cli_json_text(model, "state", "");
        const char *name = cli_json_text(model, "name", "?");
        char *row cleanup(mem_free) = xasprintf("model %s", name);
        char *why cleanup(mem_free) =
            xasprintf("%s: %s", state, cli_json_text(model, "failure", ""));
        char *fix cleanup(mem_free) =
            xasprintf("Try it: glovebox model test %s", name);

        if (strcmp(state, "failing") != 0 && strcmp(state, "down") != 0)
            continue;
        bad++;
        cli_checks_add(k, row, "warn", false, why, fix);
    }
    if (!bad)
        cli_checks_add(k, "models, running", "ok", false,
                       "none failed when it was called last", "");
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

/* Whether a bucket works is the service's to say (/readyz); here: can it get
 * at its keys, and only it. */
static void check_buckets(struct cli_checks *k, const struct conf *conf)
{
    for (size_t i = 0; i < conf->bucket_count; i++) {
        const struct conf_bucket *b = &conf->buckets[i];
        char *name cleanup(mem_free) = xasprintf("bucket %s", b->name);
        char *why cleanup(mem_free) = NULL;
        struct stat st;

        if (!b->key_file[0]) {
            why = xasprintf("%s, keys of the environment", b->endpoint);
            cli_checks_add(k, name, "ok", true, why, "");
        } else if (stat(b->key_file, &st) < 0) {
            why = xasprintf("cannot look at %s: %s", b->key_file,
                            strerror(errno));
            cli_checks_add(k, name, "missing", true, why,
                           "Write access_key_id=… and secret_access_key=… "
                           "into key_file.");
        } else if (st.st_mode & 0007) {
            why = xasprintf("every user of the machine can read %s",
                            b->key_file);
            cli_checks_add(k, name, "warn", false, why,
                           "chmod 0600, owned by the service's account.");
        } else {
            why = xasprintf("%s, keys in %s", b->endpoint, b->key_file);
            cli_checks_add(k, name, "ok", true, why, "");
        }
    }
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
    check_models(c, k);
}

void cli_checks_host(struct cli *c, struct cli_checks *k)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    struct error err;

    check_programs(k);

    if (in_path("mmdebstrap"))
        cli_checks_add(k, "mmdebstrap", "ok", false,
                       "runtime images can be built here", "");
    else
        cli_checks_add(k, "mmdebstrap", "warn", false,
                       "not in PATH; runtime images cannot be built here",
                       "Install the package mmdebstrap.");

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
        check_buckets(k, conf);
    }
    check_service(c, k);
}
