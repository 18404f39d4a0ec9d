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
#include "base/size.h"
#include "cli/common.h"

extern char **environ;

/* ---- backup ------------------------------------------------------------- */

struct backup_flags {
    const char *every;
    uint64_t keep;
    bool status;
};

static void print_schedule(const json_t *s)
{
    uint64_t every = cli_json_number(s, "every_s");
    const char *error = cli_json_text(s, "error", NULL);
    char text[24], size[16];

    if (every)
        (void)printf("schedule  every %s, the last %llu are kept\n",
                     cli_format_duration(every * 1000, text),
                     (unsigned long long)cli_json_number(s, "keep"));
    else
        (void)printf("schedule  none\n");
    (void)printf("folder    %s, %llu in it\n",
                 cli_json_text(s, "directory", ""),
                 (unsigned long long)cli_json_number(s, "kept"));
    (void)printf("last      %s",
                 cli_json_text(s, "last_success_at", "none was made yet"));
    if (cli_json_text(s, "name", NULL))
        (void)printf(", %s, %s", cli_json_text(s, "name", ""),
                     size_format(cli_json_number(s, "bytes"), size));
    (void)printf("\nnext      %s\n",
                 json_is_true(json_object_get(s, "running"))
                     ? "is being made"
                     : cli_json_text(s, "next_at", "none"));
    if (error) {
        unsigned long long times = cli_json_number(s, "failures");

        (void)printf("failed    %llu time%s since: %s\n", times,
                     times == 1 ? "" : "s", error);
    }
}

static int set_schedule(struct cli *c, const struct backup_flags *f)
{
    json_t *body cleanup(json_unref) = NULL;
    json_t *answer cleanup(json_unref) = NULL;
    uint64_t every = 0;
    struct error err;

    if (strcmp(f->every, "off") != 0 &&
        cli_values_duration(f->every, &every) < 0)
        return cli_usage_error(c, "--every is a duration (24h, 7d) or off");
    body = json_pack("{s:I}", "every_s", (json_int_t)every);
    if (cli_command_given(c, "keep"))
        (void)json_object_set_new(body, "keep",
                                  json_integer((json_int_t)f->keep));
    if (cli_http_json(c, "PUT", "/api/backups/schedule", body, &answer, &err) <
        0)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(c, answer);
        return CLI_EXIT_OK;
    }
    print_schedule(answer);
    if (every)
        (void)printf(
            "Keep a copy of the key elsewhere: without it no backup can be "
            "restored.\nIt is %s.\n",
            cli_json_text(answer, "key_file",
                          "backup.key in the service's data directory"));
    return CLI_EXIT_OK;
}

static int run_sealed(struct cli *c)
{
    json_t *done cleanup(json_unref) = NULL;
    struct error err;

    if (cli_http_job(c, "/api/backups", NULL, &done, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, done,
                  "The encrypted backup is %s/%s. `glovebox restore FILE "
                  "--backup-key KEY` restores it.",
                  cli_json_text(done, "directory", ""),
                  cli_json_text(done, "name", ""));
    return CLI_EXIT_OK;
}

static int run_folder(struct cli *c, const char *dir)
{
    char *path cleanup(mem_free) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    json_t *done cleanup(json_unref) = NULL;
    char here[PATH_MAX];
    struct error err;

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

static int run_backup(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct backup_flags *f = arg;
    json_t *state cleanup(json_unref) = NULL;
    struct error err;

    if (words->count && (f->status || f->every))
        return cli_usage_error(c, "a schedule writes to backup_dir of the "
                                  "service's configuration, not to DIR");
    if (cli_command_given(c, "keep") && !f->every)
        return cli_usage_error(c, "--keep belongs to --every");
    if (words->count)
        return run_folder(c, words->items[0]);
    if (f->every)
        return set_schedule(c, f);
    if (!f->status)
        return run_sealed(c);
    if (cli_http_json(c, "GET", "/api/backups/schedule", NULL, &state, &err) <
        0)
        return cli_fail(c, &err);

    /* The state; 1 when the last attempt failed. */
    if (c->json)
        cli_print_json(c, state);
    else
        print_schedule(state);
    return cli_json_number(state, "failures") ? CLI_EXIT_CODE : CLI_EXIT_OK;
}

const struct cli_command cli_backup = {
    .name = "backup",
    .summary = "Copy everything the service stores, while it runs",
    .notes =
        "Without DIR the backup is one encrypted file in backup_dir of the\n"
        "service's configuration. With --every the service makes one at once\n"
        "and then regularly, also after a restart, and removes all but the\n"
        "newest --keep (14) after each success. A failure is repeated after\n"
        "15 minutes; --status, the metrics and the log report it.\n\n"
        "The key is backup_key_file of the configuration, or backup.key of\n"
        "the data directory. Keep a copy of it elsewhere.\n\n"
        "With DIR the backup is a folder, not encrypted. DIR is on the\n"
        "service's machine, and the service can write it; it is created, or\n"
        "must be empty, and gets a list of hashes to check it by.\n\n"
        "The service goes on meanwhile: a backup holds everything up to one\n"
        "moment. Needs a key of scope admin.\n",
    .online = true,
    .options =
        (const struct cli_option[]){
            {"every", 0, CLI_OPT_TEXT, offsetof(struct backup_flags, every),
             "DURATION", "make one regularly: 24h, 7d; off ends that", NULL},
            {"keep", 0, CLI_OPT_COUNT, offsetof(struct backup_flags, keep),
             "N", "with --every: how many are kept (14)", NULL},
            {"status", 0, CLI_OPT_FLAG, offsetof(struct backup_flags, status),
             NULL, "show the schedule; exit status 1 if the last failed",
             NULL},
            {0},
        },
    .flags_size = sizeof(struct backup_flags),
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "[DIR]", .run = run_backup},
            {0},
        },
};

/* ---- verify ------------------------------------------------------------- */

static void print_report(const json_t *report, bool ok)
{
    char size[16];

    (void)printf("%llu objects, %s: ",
                 (unsigned long long)cli_json_number(report, "blobs"),
                 size_format(cli_json_number(report, "bytes"), size));
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
        (void)printf("%llu unreferenced; the collector removes them\n",
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
        cli_print_json(c, report);
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

/* ---- gloveboxd in place of the service --------------------------------- */

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

int cli_daemon_run(struct cli *c, char *const argv[], const char *failure,
                   struct error *err)
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
    (void)error_set(err, ERR_INTERNAL, "%s", failure);
    return error_hint(err, "The messages of gloveboxd are above.");
}

int cli_daemon_find(char **ret, struct error *err)
{
    if (cli_connect_program("gloveboxd", ret) >= 0)
        return 0;
    (void)error_set(err, ERR_UNAVAILABLE, "gloveboxd was not found");
    return error_hint(err, "It belongs beside this program or in "
                           "../libexec/glovebox.");
}

/* ---- restore ------------------------------------------------------------ */

struct restore_flags {
    const char *data, *key_file, *store;
};

/* The daemon is beside this program; the data directory is the one that other
 * commands use. */
static int restore_backup(struct cli *c, const struct cli_words *words,
                          void *arg)
{
    const struct restore_flags *f = arg;
    char *from cleanup(mem_free) = realpath(words->items[0], NULL);
    char *program cleanup(mem_free) = NULL;
    char *to cleanup(mem_free) = NULL;
    char *key cleanup(mem_free) = NULL;
    char *store cleanup(mem_free) = NULL;
    char from_flag[] = "--restore-from", data_flag[] = "--data";
    char key_flag[] = "--backup-key", store_flag[] = "--store";
    char *argv[12] = {NULL};
    size_t n = 0;
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    c->data = f->data;
    to = cli_connect_data_dir(c);
    if (!from) {
        (void)error_errno(&err, ERR_INVALID, errno, "cannot open %s",
                          words->items[0]);
        return cli_fail(c, &err);
    }
    if (cli_daemon_find(&program, &err) < 0)
        return cli_fail(c, &err);
    argv[n++] = program;
    argv[n++] = from_flag;
    argv[n++] = from;
    if (f->key_file) {
        argv[n++] = key_flag;
        argv[n++] = key = xstrdup(f->key_file);
    }
    argv[n++] = data_flag;
    argv[n++] = to;
    if (f->store) {
        argv[n++] = store_flag;
        argv[n++] = store = xstrdup(f->store);
    }
    if (cli_daemon_run(c, argv, "the backup was not restored", &err) < 0)
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
        "BACKUP is what `glovebox backup` wrote: a folder, whose list of\n"
        "hashes is checked, or an encrypted file, for which --backup-key is\n"
        "needed. Everything is copied, and the copy is checked. No service may\n"
        "use the directory meanwhile. Without --data it is the one that\n"
        "`glovebox serve` would use.\n\n"
        "With --store postgres://..., or if the configuration has it, the\n"
        "metadata goes into that database, which must be empty. A backup of\n"
        "either engine can be restored into either.\n",
    .options =
        (const struct cli_option[]){
            {"data", 0, CLI_OPT_TEXT, offsetof(struct restore_flags, data),
             "DIR", "the directory to fill; empty, or not there", NULL},
            {"backup-key", 0, CLI_OPT_TEXT,
             offsetof(struct restore_flags, key_file), "FILE",
             "key of an encrypted backup", NULL},
            {"store", 0, CLI_OPT_TEXT, offsetof(struct restore_flags, store),
             "STORE", "sqlite, or the URL of an empty PostgreSQL database",
             NULL},
            {0},
        },
    .flags_size = sizeof(struct restore_flags),
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "BACKUP", .run = restore_backup},
            {0},
        },
};
