/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox doctor: asks the warden which walls it could build here, adds what
 * this side can see (checks.c), and prints one table and a verdict. Changes
 * nothing on the machine.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/checks.h"
#include "cli/cli_int.h"

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

static void print_json(const struct cli_checks *k)
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
    cli_print_json(out);
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
        cli_print_json(gate);
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
        print_json(k);
    } else {
        print_table(c, k);
        print_verdict(k);
    }
    return count_missing(k) ? CLI_EXIT_CODE : CLI_EXIT_OK;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .summary = "Say which walls stand on this machine, and what to do",
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
