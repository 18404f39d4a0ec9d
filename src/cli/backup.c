/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox backup and glovebox verify: jobs of the running service, which
 * reports its progress. glovebox restore: fills an empty data directory from
 * a backup. gloveboxd does the work, started for it as `gloveboxd
 * --restore-from DIR --data DIR`; it reports its progress in lines of its
 * standard output, `restore WHAT DONE TOTAL`, and errors on standard error.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

extern char **environ;

/* ---- backup ------------------------------------------------------------- */

static int run_backup(struct cli *c, const struct cli_words *words, void *arg)
{
    const char *dir = words->items[0];
    char *path cleanup(mem_free) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    json_t *done cleanup(json_unref) = NULL;
    char here[PATH_MAX];
    struct error err;

    (void)arg;
    /* The service needs an absolute path. */
    path = dir[0] == '/' || !getcwd(here, sizeof(here))
               ? xstrdup(dir)
               : xasprintf("%s/%s", here, dir);
    body = json_pack("{s:s}", "path", path);
    if (!body)
        return cli_usage_error(c, "the path is not valid UTF-8");
    if (cli_http_job(c, "/api/backup", body, &done, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(
        c, done, "The backup is in %s. `glovebox restore` restores it.", path);
    return CLI_EXIT_OK;
}

const struct cli_command cli_backup = {
    .name = "backup",
    .summary = "Copy everything the service stores, while it runs",
    .notes =
        "DIR is a folder on the service's machine that the service can write;\n"
        "it is created, or must be empty. The service goes on meanwhile: the\n"
        "backup holds everything up to one moment, and a list of hashes to\n"
        "check it by. Needs a key of scope admin.\n",
    .online = true,
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "DIR", .run = run_backup},
            {0},
        },
};

/* ---- verify ------------------------------------------------------------- */

static void print_report(const json_t *report, bool ok)
{
    char size[16];

    (void)printf("%llu objects, %s: ",
                 (unsigned long long)cli_json_number(report, "blobs"),
                 cli_format_size(cli_json_number(report, "bytes"), size));
    if (ok)
        (void)printf("every byte is as it was stored\n");
    else
        (void)printf("%llu damaged, %llu missing\nfirst: %s\n",
                     (unsigned long long)cli_json_number(report, "bad"),
                     (unsigned long long)cli_json_number(report, "missing"),
                     cli_json_text(report, "first_bad", "unknown"));
    if (cli_json_number(report, "lost"))
        (void)printf("%llu acts are missing: the database was rolled back, "
                     "and an operator accepted it\n",
                     (unsigned long long)cli_json_number(report, "lost"));
    if (cli_json_number(report, "orphans"))
        (void)printf("%llu nobody refers to; the collector takes them\n",
                     (unsigned long long)cli_json_number(report, "orphans"));
}

static int run_verify(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *report cleanup(json_unref) = NULL;
    struct error err;
    bool ok;

    (void)words;
    (void)arg;
    if (cli_http_job(c, "/api/verify", NULL, &report, &err) < 0)
        return cli_fail(c, &err);
    ok = json_is_true(json_object_get(report, "ok"));
    if (c->json)
        cli_print_json(report);
    else
        print_report(report, ok);
    return ok ? CLI_EXIT_OK : CLI_EXIT_CODE;
}

const struct cli_command cli_verify = {
    .name = "verify",
    .summary = "Read every stored byte again and compare it with its hash",
    .notes =
        "The service reads everything it stores again and compares it with\n"
        "the hashes; it goes on serving meanwhile. Exit status: 0 when all is\n"
        "well, 1 when something is damaged or missing. Needs a key of scope\n"
        "admin.\n",
    .online = true,
    .verbs =
        (const struct cli_verb[]){
            {"", .run = run_verify},
            {0},
        },
};

/* ---- restore ------------------------------------------------------------ */

struct restore {
    struct cli *c;
    struct cli_progress progress;
    char what[48];
};

/* Signals that this program blocks must reach the daemon. */
static int start_restore(char *const argv[], int out, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int r;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    r = posix_spawn(ret_pid, argv[0], &actions, &attributes, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return -r;
}

bool cli_restore_line(const char *line, char ret_what[48], uint64_t *ret_done,
                      uint64_t *ret_total)
{
    unsigned long long done, total;
    char what[48];
    int end = 0;

    if (sscanf(line, "restore %47s %llu %llu%n", what, &done, &total, &end) !=
            3 ||
        line[end] != '\0')
        return false;
    memcpy(ret_what, what, sizeof(what));
    *ret_done = done;
    *ret_total = total;
    return true;
}

static void on_restore_line(struct restore *r, const char *line)
{
    uint64_t done, total;
    char what[48];

    if (!cli_restore_line(line, what, &done, &total))
        return; /* a line of the log */
    if (strcmp(what, r->what) != 0 || total != r->progress.total) {
        cli_progress_end(&r->progress);
        memcpy(r->what, what, sizeof(what));
        cli_progress_count(&r->progress, r->c, r->what, total);
    }
    cli_progress_step(&r->progress, done);
}

static void read_restore_lines(struct restore *r, int fd)
{
    FILE *in = fdopen(fd, "r");
    char line[512];

    while (in && fgets(line, sizeof(line), in)) {
        line[strcspn(line, "\n")] = '\0';
        on_restore_line(r, line);
    }
    cli_progress_end(&r->progress);
    if (in)
        (void)fclose(in);
    else
        (void)close(fd);
}

static int run_restore(struct cli *c, char *const argv[], struct error *err)
{
    struct restore r = {.c = c};
    int ends[2] = {-1, -1};
    int status = 0, result;
    pid_t pid = -1;

    result = fd_pipe(ends);
    if (result == 0)
        result = start_restore(argv, ends[1], &pid);
    fd_close(&ends[1]);
    if (result < 0) {
        fd_close(&ends[0]);
        return error_errno(err, ERR_INTERNAL, -result, "cannot start %s",
                           argv[0]);
    }
    read_restore_lines(&r, ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return 0;
    (void)error_set(err, ERR_INTERNAL, "the backup was not restored");
    return error_hint(err, "The messages of gloveboxd are above.");
}

/* The daemon is beside this program; the data directory is the one that other
 * commands use. */
static int restore_backup(struct cli *c, const struct cli_words *words,
                          void *arg)
{
    const char *const *data = arg;
    char *from cleanup(mem_free) = realpath(words->items[0], NULL);
    char *program cleanup(mem_free) = NULL;
    char *to cleanup(mem_free) = NULL;
    char from_flag[] = "--restore-from", data_flag[] = "--data";
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    c->data = *data;
    to = cli_connect_data_dir(c);
    if (!from) {
        (void)error_errno(&err, ERR_INVALID, errno, "cannot open %s",
                          words->items[0]);
        return cli_fail(c, &err);
    }
    if (cli_connect_program("gloveboxd", &program) < 0) {
        (void)error_set(&err, ERR_UNAVAILABLE, "gloveboxd was not found");
        (void)error_hint(&err, "It belongs beside this program or in "
                               "../libexec/glovebox.");
        return cli_fail(c, &err);
    }
    if (run_restore(c,
                    (char *[]){program, from_flag, from, data_flag, to, NULL},
                    &err) < 0)
        return cli_fail(c, &err);
    out = json_pack("{s:s, s:s}", "restored", from, "data", to);
    cli_show_done(c, out,
                  "Restored the backup to %s. `glovebox serve --data %s` "
                  "serves it.",
                  to, to);
    return CLI_EXIT_OK;
}

const struct cli_command cli_restore = {
    .name = "restore",
    .summary = "Fill an empty data directory from a backup",
    .notes =
        "DIR is what `glovebox backup` wrote. Its list of hashes is checked,\n"
        "everything is copied, and the copy is checked again. No service may\n"
        "use the directory meanwhile. Without --data it is the one that\n"
        "`glovebox serve` would use.\n",
    .options =
        (const struct cli_option[]){
            {"data", 0, CLI_OPT_TEXT, 0, "DIR",
             "the directory to fill; empty, or not there", NULL},
            {0},
        },
    .flags_size = sizeof(const char *),
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "DIR", .run = restore_backup},
            {0},
        },
};
