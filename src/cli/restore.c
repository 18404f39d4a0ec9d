/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox restore: fills an empty data directory from a backup. The work is
 * gloveboxd's, started for it as `gloveboxd --restore-from DIR --data DIR`;
 * it says how far it is in lines of its standard output, `restore WHAT DONE
 * TOTAL`, and complains on standard error.
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

struct restore {
    struct cli *c;
    struct cli_progress progress;
    char what[48];
};

/* Signals that this program blocks must reach it; its errors are ours. */
static int start(char *const argv[], int out, pid_t *ret_pid)
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

static void on_line(struct restore *r, const char *line)
{
    uint64_t done, total;
    char what[48];

    if (!cli_restore_line(line, what, &done, &total))
        return; /* the log's */
    if (strcmp(what, r->what) != 0 || total != r->progress.total) {
        cli_progress_end(&r->progress);
        memcpy(r->what, what, sizeof(what));
        cli_progress_count(&r->progress, r->c, r->what, total);
    }
    cli_progress_step(&r->progress, done);
}

static void read_lines(struct restore *r, int fd)
{
    FILE *in = fdopen(fd, "r");
    char line[512];

    while (in && fgets(line, sizeof(line), in)) {
        line[strcspn(line, "\n")] = '\0';
        on_line(r, line);
    }
    cli_progress_end(&r->progress);
    if (in)
        (void)fclose(in);
    else
        (void)close(fd);
}

static int run(struct cli *c, char *const argv[], struct error *err)
{
    struct restore r = {.c = c};
    int ends[2] = {-1, -1};
    int status = 0, result;
    pid_t pid = -1;

    result = fd_pipe(ends);
    if (result == 0)
        result = start(argv, ends[1], &pid);
    fd_close(&ends[1]);
    if (result < 0) {
        fd_close(&ends[0]);
        return error_errno(err, ERR_INTERNAL, -result, "cannot start %s",
                           argv[0]);
    }
    read_lines(&r, ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return 0;
    (void)error_set(err, ERR_INTERNAL, "the backup was not restored");
    return error_hint(err, "What gloveboxd said is above.");
}

/* Beside this program; the directory as the other commands choose it. */
static int restore(struct cli *c, const char *dir, const char *data)
{
    char *program cleanup(mem_free) = NULL;
    char *to cleanup(mem_free) = NULL;
    char *from cleanup(mem_free) = realpath(dir, NULL);
    char from_flag[] = "--restore-from", data_flag[] = "--data";
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    c->data = data;
    to = cli_connect_data_dir(c);
    if (!from) {
        (void)error_errno(&err, ERR_INVALID, errno, "cannot open %s", dir);
        return cli_fail(c, &err);
    }
    if (cli_connect_program("gloveboxd", &program) < 0) {
        (void)error_set(&err, ERR_UNAVAILABLE, "gloveboxd was not found");
        (void)error_hint(&err, "It belongs beside this program or in "
                               "../libexec/glovebox.");
        return cli_fail(c, &err);
    }
    if (run(c, (char *[]){program, from_flag, from, data_flag, to, NULL},
            &err) < 0)
        return cli_fail(c, &err);
    out = json_pack("{s:s, s:s}", "restored", from, "data", to);
    cli_show_done(c, out,
                  "restored to %s; `glovebox serve --data %s` serves "
                  "it",
                  to, to);
    return CLI_EXIT_OK;
}

int cli_restore(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    const char *data = NULL;
    const struct cli_opt table[] = {
        {"data", 0, CLI_OPT_TEXT, &data, "DIR",
         "the directory to fill; empty, or not there", NULL},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "DIR is what `glovebox backup` wrote. Its list of hashes is checked,\n"
        "everything is copied, and the copy is checked again. No service may\n"
        "use the directory meanwhile. Without --data it is the one that\n"
        "`glovebox serve` would use.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "restore");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (words.count != 1)
        return cli_usage_error(&c, "one backup to restore");
    return restore(&c, words.items[0], data);
}
