/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the scorecard and keeps its results. Runs in gloveboxd on the worker of
 * the request. The scorecard judges the service the way a client meets it, so
 * it stays one program: this starts `glovebox scorecard --json` beside the
 * daemon, as the same account, with a token that ends with it, and reads what
 * it prints.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "posture/posture.h"
#include "store/store.h"
#include "json/json.h"

#define RUN_MS 240000u
#define ANSWER_MAX ((size_t)1 << 20)
#define KEPT 200 /* results */

/* One at a time: two would see each other's probes. */
static struct mutex running = MUTEX_INIT;

/* Beside the daemon, or where `make install` puts it. */
static bool find_program(char ret[PATH_MAX])
{
    static const char *const places[] = {"glovebox", "../bin/glovebox",
                                         "../../bin/glovebox"};
    char dir[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

    if (n <= 0)
        return false;
    dir[n] = '\0';
    *strrchr(dir, '/') = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        int len = snprintf(ret, PATH_MAX, "%s/%s", dir, places[i]);

        if (len < PATH_MAX && access(ret, X_OK) == 0)
            return true;
    }
    return false;
}

static int start_program(const char *program, const char *data_dir,
                         const char *key, int out, pid_t *ret,
                         struct error *err)
{
    char *variable cleanup(mem_free) = xasprintf("GLOVEBOX_KEY=%s", key);
    char *data cleanup(mem_free) = xstrdup(data_dir);
    char name[] = "glovebox", verb[] = "scorecard", json[] = "--json";
    char flag[] = "--data", path[] = "PATH=/usr/bin:/bin";
    char home[] = "HOME=/nonexistent";
    char *const argv[] = {name, verb, json, flag, data, NULL};
    char *const env[] = {variable, path, home, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    int r;

    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY,
                                           0);
    (void)posix_spawn_file_actions_adddup2(&actions, out, 1);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY,
                                           0);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    r = posix_spawn(ret, program, &actions, &attr, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    explicit_bzero(variable, strlen(variable));
    return r ? error_errno(err, ERR_UNAVAILABLE, r,
                           "cannot start the scorecard")
             : 0;
}

static int read_output(int fd, struct buf *ret, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + RUN_MS;
    char piece[16384];

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_mono_ms();
        ssize_t n;

        if (now >= deadline || ret->len > ANSWER_MAX)
            return error_set(err, ERR_TIMEOUT,
                             "the scorecard did not finish in time");
        if (poll(&p, 1, (int)(deadline - now)) < 0 && errno != EINTR)
            return error_errno(err, ERR_INTERNAL, errno, "cannot wait");
        if (!p.revents)
            continue;
        n = read(fd, piece, sizeof(piece));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        buf_add(ret, piece, (size_t)n);
    }
}

static int run_program(const char *data_dir, const char *key, struct buf *ret,
                       struct error *err)
{
    char program[PATH_MAX];
    int in cleanup(fd_close) = -1, out cleanup(fd_close) = -1;
    int fds[2], status, r;
    pid_t pid;

    if (!find_program(program))
        return error_set(err, ERR_UNAVAILABLE,
                         "the program glovebox is not beside the service");
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_errno(err, ERR_BUSY, errno, "cannot make a pipe");
    in = fds[0];
    out = fds[1];
    r = start_program(program, data_dir, key, out, &pid, err);
    fd_close(&out);
    if (r < 0)
        return r;
    r = read_output(in, ret, err);
    if (r < 0)
        (void)kill(pid, SIGKILL); /* it may have ended */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return r;
}

static int check_answer(struct buf *text, json_t **ret, struct error *err)
{
    if (json_parse(text->data ? text->data : "", text->len, ret, err) < 0 ||
        !json_is_array(json_object_get(*ret, "controls")))
        return error_set(err, ERR_UNAVAILABLE,
                         "the scorecard could not look at the service");
    return 0;
}

int posture_scorecard_run(struct store *store, const char *data_dir,
                          const char *key, const char *by,
                          struct posture_scorecard *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct buf text cleanup(buf_done) = {0};
    json_t *card cleanup(json_unref) = NULL;
    int r;

    if (!mutex_trylock(&running)) {
        (void)error_set(err, ERR_BUSY, "the scorecard is running already");
        return error_retry(err, 30);
    }
    r = run_program(data_dir, key, &text, err);
    mutex_unlock(&running);
    if (r == 0)
        r = check_answer(&text, &card, err);
    if (r < 0)
        return r;
    *ret = (struct posture_scorecard){.at_ms = clock_real_ms(),
                                      .body = json_dumps(card, JSON_COMPACT)};
    (void)snprintf(ret->by, sizeof(ret->by), "%s", by);
    r = store_begin(store, STORE_WRITE, "storing a scorecard", &tx, err);
    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO scorecards (at_ms, made_by, body)"
                       " VALUES (?1, ?2, ?3)",
                       "itt", ret->at_ms, by, ret->body);
    if (r >= 0)
        r = store_exec(tx, err,
                       "DELETE FROM scorecards WHERE number NOT IN (SELECT"
                       " number FROM scorecards ORDER BY number DESC"
                       " LIMIT ?1)",
                       "i", (int64_t)KEPT);
    if (r >= 0)
        r = store_commit(&tx, err);
    if (r < 0)
        posture_scorecard_done(ret);
    return MIN(r, 0);
}

int posture_scorecard_list(struct store *store, unsigned limit,
                           struct posture_scorecard **ret, size_t *ret_count,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct posture_scorecard *list = xcalloc(limit + 1, sizeof(*list));
    size_t count = 0;
    int r = store_begin(store, STORE_READ, "listing scorecards", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT at_ms, made_by, body FROM scorecards"
                        " ORDER BY number DESC LIMIT ?1",
                        "i", (int64_t)limit);
    while (r == 0 && count < limit && (r = store_next(rows, err)) == 1) {
        list[count].at_ms = store_int(rows, 0);
        store_copy(rows, 1, list[count].by, sizeof(list[count].by));
        list[count++].body = xstrdup(store_text(rows, 2));
        r = 0;
    }
    if (r < 0) {
        for (size_t i = 0; i < count; i++)
            posture_scorecard_done(&list[i]);
        free(list);
        return r;
    }
    *ret = list;
    *ret_count = count;
    return 0;
}

void posture_scorecard_done(struct posture_scorecard *card)
{
    free(take_ptr(card->body));
}
