/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service for one command: gloveboxd on a free loopback port, with a private
 * data directory that is removed afterwards or with one that stays. It is the
 * child of a keeper, a fork of ours that waits for the other end of a socket
 * to close. However this program ends, be it by SIGKILL, the keeper stops the
 * service and removes what was private. The keeper lives in a session of its
 * own, so that Ctrl-C reaches only us.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"
#include "conf/conf.h"
#include "conf/runtime.h"

#define STOP_MS 20000
#define TAIL_BYTES 1500
#define LOG_MAX (1u << 20)
#define DEPTH_MAX 32
#define EXIT_TAKEN 3 /* of gloveboxd: another one serves the directory */
#define STOP_S 2     /* what still runs when the command ends is stopped */

struct cli_embedded {
    char *dir;  /* private: configuration, log, and data unless they stay */
    char *data; /* the data directory */
    pid_t keeper;
    int life; /* the keeper stops everything when this closes */
};

/* Not the user's runtime directory for root: the service drops to its own
 * account, which may not look in there. */
static const char *parent_dir(void)
{
    const char *run = getenv("XDG_RUNTIME_DIR");

    if (geteuid() != 0 && run && run[0] == '/' && access(run, W_OK) == 0)
        return run;
    return "/tmp";
}

/* Owned by caller; NULL: err says why. */
static char *make_dir(struct error *err)
{
    char *dir cleanup(mem_free) =
        xasprintf("%s/glovebox-XXXXXX", parent_dir());

    if (!mkdtemp(dir)) {
        (void)error_errno(err, ERR_INTERNAL, errno, "cannot make %s", dir);
        return NULL;
    }
    return take_ptr(dir);
}

/* Said here, because the service would wait for an image to appear. */
static int check_image(const struct conf *conf, struct error *err)
{
    struct conf_runtime found cleanup(conf_runtime_done) = {0};
    const char *name = conf->pools[0].runtime;
    int r = conf_runtime_find(conf->runtime_defs, conf->runtime_dir, name,
                              &found, err);

    if (r < 0 || found.built)
        return r;
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the image of runtime '%s' is not built", name);
    return error_hint(err, "Build it with `glovebox runtime build %s`.", name);
}

static void set_quiet_log(struct conf *conf)
{
    conf->stop_deadline_s = STOP_S;
    free(conf->log_level);
    conf->log_level = xstrdup("warn");
}

/* Data that stay may hold sessions of any pool. */
static int keep_all(struct conf *conf, struct error *err)
{
    for (size_t i = 0; i < conf->pool_count; i++)
        conf->pools[i].ready = MIN(conf->pools[i].ready, i == 0 ? 1u : 0u);
    set_quiet_log(conf);
    conf->stop_deadline_s = 1; /* a host wants its servers gone at once */
    return check_image(conf, err);
}

/* This machine's settings with the one pool that is wanted, and one ready
 * sandbox in it, which is all a single command needs. */
static int select_one_pool(struct conf *conf, const char *pool,
                           const char *runtime, struct error *err)
{
    size_t at = 0;
    struct conf_pool wanted;

    while (pool && at < conf->pool_count &&
           strcmp(conf->pools[at].name, pool) != 0)
        at++;
    if (at == conf->pool_count)
        return error_set(err, ERR_NOT_FOUND, "no pool '%.64s' is configured",
                         pool);
    wanted = conf->pools[at];
    conf->pools[at] = conf->pools[0];
    conf->pools[0] = wanted;
    conf->pool_count = 1;
    conf->pools[0].ready = 1;
    conf->disk_reserve_bytes = 0; /* for data that go with the command */
    if (runtime) {
        free(conf->pools[0].runtime);
        conf->pools[0].runtime = xstrdup(runtime);
    }
    /* It is on a loopback port and for this command alone. */
    free(conf->tls);
    conf->tls = xstrdup("manual");
    conf->tls_certificate[0] = conf->tls_key[0] = '\0';
    set_quiet_log(conf);
    return check_image(conf, err);
}

static int write_config(const char *path, const char *pool,
                        const char *runtime, bool lasting, struct error *err)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    FILE *out;
    int r = conf_load(0, NULL, &conf, err);

    if (r == 0)
        r = lasting ? keep_all(conf, err)
                    : select_one_pool(conf, pool, runtime, err);
    if (r < 0)
        return r;
    out = fopen(path, "wxe");
    if (!out)
        return error_errno(err, ERR_INTERNAL, errno, "cannot write %s", path);
    conf_dump(conf, out);
    return fclose(out) == 0 ? 0
                            : error_errno(err, ERR_INTERNAL, errno,
                                          "cannot write %s", path);
}

/* ---- in the keeper ------------------------------------------------------ */

/* By descriptor all the way: the service's account owns this tree and must
 * not be able to lead us out of it. What cannot go is left. */
static void remove_below(int dir_fd, int depth)
{
    int copy = fd_dup(dir_fd, 3);
    DIR *dir cleanup(fd_closedir) = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *entry;

    while (dir && depth > 0 && (entry = readdir(dir))) {
        int fd cleanup(fd_close) = -1;

        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dir_fd, entry->d_name, 0) == 0)
            continue;
        fd = openat(dir_fd, entry->d_name,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            remove_below(fd, depth - 1);
        (void)unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR);
    }
}

static void remove_tree(const char *path)
{
    int fd cleanup(fd_close) =
        open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        remove_below(fd, DEPTH_MAX);
    (void)rmdir(path);
}

static void redirect_output(const char *log)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
    }
    (void)dup2(out >= 0 ? out : null, STDERR_FILENO);
}

static pid_t start_daemon(char *const *argv)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    /* Dies with the keeper at the latest, while it keeps its account. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(argv[0], argv);
    _exit(127);
}

/* Waits until our side closes the socket or the daemon ends. */
static bool daemon_outlives(pid_t daemon, int life, int *ret_status)
{
    for (;;) {
        struct pollfd p = {.fd = life, .events = POLLIN};
        int n = poll(&p, 1, 100);

        if (waitpid(daemon, ret_status, WNOHANG) == daemon)
            return false;
        if (n > 0 && p.revents)
            return true;
    }
}

static void stop_daemon(pid_t daemon)
{
    uint64_t deadline = clock_mono_ms() + STOP_MS;
    struct timespec nap = {.tv_nsec = 5 * 1000 * 1000};

    (void)kill(daemon, SIGTERM);
    while (waitpid(daemon, NULL, WNOHANG) == 0) {
        if (clock_left_ms(deadline) == 0)
            (void)kill(daemon, SIGKILL);
        (void)nanosleep(&nap, NULL);
    }
}

static _Noreturn void supervise_daemon(const char *dir, const char *log,
                                       int life, char *const *argv)
{
    int status = 0;
    sigset_t none;
    pid_t daemon;

    (void)setsid(); /* fails only for a group leader, which a fork is not */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    redirect_output(log);
    daemon = start_daemon(argv);
    if (daemon > 0 && daemon_outlives(daemon, life, &status)) {
        stop_daemon(daemon);
    } else {
        /* It ended by itself: the parent learns its status, and may
         * want to read why before we wipe. */
        char byte = WIFEXITED(status) ? (char)WEXITSTATUS(status) : 1;

        (void)fd_write_all(life, &byte, 1);
        (void)shutdown(life, SHUT_WR);
        (void)fd_read_all(life, &byte, 1);
    }
    remove_tree(dir);
    _exit(0);
}

/* ---- in the command ----------------------------------------------------- */

/* Splits off the keeper. */
static int start_keeper(const char *dir, const char *log, char *const *argv,
                        struct cli_embedded *e, struct error *err)
{
    int ends[2];
    int r = fd_socketpair(SOCK_STREAM, ends);

    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot make a socket");
    (void)fflush(NULL); /* or the child would print it again */
    e->keeper = fork();
    if (e->keeper == 0) {
        (void)close(ends[1]); /* the only other holder is our parent */
        supervise_daemon(dir, log, ends[0], argv);
    }
    fd_close(&ends[0]);
    if (e->keeper < 0) {
        r = errno;
        fd_close(&ends[1]);
        return error_errno(err, ERR_INTERNAL, r, "cannot start a process");
    }
    e->life = ends[1];
    return 0;
}

int cli_embedded_start(const char *pool, const char *runtime, const char *data,
                       struct cli_embedded **ret, struct error *err)
{
    char *program cleanup(mem_free) = NULL;
    char *config cleanup(mem_free) = NULL;
    char *log cleanup(mem_free) = NULL;
    char *dir cleanup(mem_free) = NULL;
    struct cli_embedded *e;
    int r;

    if (cli_connect_program("gloveboxd", &program) < 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "no service is running, and gloveboxd is not beside "
                         "this program to start one");
    dir = make_dir(err);
    if (!dir)
        return -(int)err->code;
    config = xasprintf("%s/embedded.yaml", dir);
    log = xasprintf("%s/embedded.log", dir);
    r = write_config(config, pool, runtime, data != NULL, err);
    if (r < 0) {
        remove_tree(dir);
        return r;
    }
    {
        char o1[] = "--data", o2[] = "--config", o3[] = "--listen",
             any[] = "127.0.0.1:0";
        char *at = xstrdup(data ? data : dir);
        char *argv[] = {program, o1, at, o2, config, o3, any, NULL};

        e = xcalloc(1, sizeof(*e));
        e->data = at;

        r = start_keeper(dir, log, argv, e, err);
    }
    if (r < 0) {
        free(e->data);
        free(e);
        return r;
    }
    e->dir = take_ptr(dir);
    *ret = e;
    return 0;
}

const char *cli_embedded_dir(const struct cli_embedded *e)
{
    return e->data;
}

bool cli_embedded_alive(struct cli_embedded *e)
{
    struct pollfd p = {.fd = e->life, .events = POLLIN};

    /* The pipe becomes readable only when the service has ended. */
    return poll(&p, 1, 0) == 0;
}

bool cli_embedded_taken(struct cli_embedded *e)
{
    char status;

    return recv(e->life, &status, 1, MSG_DONTWAIT | MSG_PEEK) == 1 &&
           status == EXIT_TAKEN;
}

char *cli_embedded_log_tail(const struct cli_embedded *e)
{
    char *path cleanup(mem_free) = xasprintf("%s/embedded.log", e->dir);
    char *text cleanup(mem_free) = NULL;
    size_t len;

    if (fd_read_file(AT_FDCWD, path, LOG_MAX, &text, &len) < 0)
        return NULL;
    return xstrdup(len > TAIL_BYTES ? text + len - TAIL_BYTES : text);
}

void cli_embedded_stop(struct cli_embedded *e)
{
    if (!e)
        return;
    fd_close(&e->life);
    while (e->keeper > 0 && waitpid(e->keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    free(e->dir);
    free(e->data);
    free(e);
}
