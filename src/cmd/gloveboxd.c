/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloveboxd: the service. Starts as root or as an ordinary user, starts the
 * warden with those rights, gives them up, and only then opens the store and
 * listens. `run` is the story; each step is a function above it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/priv.h"
#include "conf/conf.h"
#include "doors/doors.h"
#include "http/http.h"
#include "session/session.h"
#include "store/store.h"
#include "warden/call.h"

#define DESCRIPTORS ((rlim_t)65536)
#define ENDPOINT "endpoint"

struct service {
    struct conf *conf;
    struct priv_user user;
    bool drop; /* there is an account to become */
    int data_fd, lock_fd, signal_fd;
    uint32_t accepted; /* WARDEN_WALL_* */
    struct warden_link *warden;
    struct store *store;
    struct auth *auth;
    struct sessions *sessions;
    struct http_server *http;
    struct doors doors;
};

/* ---- before the rights are given up --------------------------------------
 */

static void start_log(const struct conf *conf)
{
    enum log_level level = LOG_INFO;

    (void)log_level_parse(conf->log_level, &level); /* checked by conf */
    log_setup("gloveboxd", level, strcmp(conf->log_format, "json") == 0);
}

static const struct {
    const char *name;
    uint32_t bit;
} walls[] = {
    {"uids", WARDEN_WALL_UIDS},
    {"memory", WARDEN_WALL_MEMORY},
    {"pids", WARDEN_WALL_PIDS},
    {"cpu", WARDEN_WALL_CPU},
    {"scratch", WARDEN_WALL_SCRATCH},
    {"landlock", WARDEN_WALL_LANDLOCK},
    {"seccomp", WARDEN_WALL_SECCOMP},
    {"userns", WARDEN_WALL_USERNS},
    {"service_user", WARDEN_WALL_SERVICE_USER},
};

/* accept_missing_walls: names with commas or spaces between. */
static int parse_walls(const char *text, uint32_t *ret, struct error *err)
{
    *ret = 0;
    while (*(text += strspn(text, ", "))) {
        size_t len = strcspn(text, ", "), i;

        for (i = 0; i < ARRAY_SIZE(walls); i++)
            if (strlen(walls[i].name) == len &&
                memcmp(walls[i].name, text, len) == 0)
                break;
        if (i == ARRAY_SIZE(walls)) {
            (void)error_set(err, ERR_INVALID,
                            "accept_missing_walls: no wall '%.*s'",
                            (int)MIN(len, (size_t)40), text);
            return error_hint(err, "Walls are uids, memory, pids, cpu, "
                                   "scratch, landlock, seccomp, userns and "
                                   "service_user.");
        }
        *ret |= walls[i].bit;
        text += len;
    }
    return 0;
}

/* Root becomes the service's account; an ordinary user stays. */
static int choose_user(struct service *s, struct error *err)
{
    int r;

    s->user = (struct priv_user){geteuid(), getegid()};
    if (geteuid() != 0)
        return 0;
    r = priv_find(s->conf->service_user, &s->user);
    s->drop = r == 0;
    if (r == 0 || (s->accepted & WARDEN_WALL_SERVICE_USER))
        return 0;
    (void)error_errno(err, ERR_INVALID, -r, "cannot run as the account '%s'",
                      s->conf->service_user);
    return error_hint(err,
                      "Make it with: useradd --system --no-create-home "
                      "%s",
                      s->conf->service_user);
}

static int claim_data(struct service *s, struct error *err)
{
    const char *dir = s->conf->data_dir;
    int r = priv_claim_dir(dir, &s->user, &s->data_fd);

    if (r == -ENOTEMPTY)
        return error_set(err, ERR_INVALID,
                         "%s exists, is not empty and not a data directory "
                         "of ours (owner, mode 0700)",
                         dir);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r,
                           "cannot use %s as data directory", dir);
    s->lock_fd = openat(s->data_fd, "lock",
                        O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot lock %s", dir);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, ERR_CONFLICT,
                         "another gloveboxd serves %s already", dir);
    if (mkdirat(s->data_fd, "scratch", 0700) < 0 && errno != EEXIST)
        return error_errno(err, ERR_INVALID, errno, "cannot make %s/scratch",
                           dir);
    return 0;
}

/* A program or folder beside ours, in a clone or installed. */
static int find_beside(const char *const *places, size_t count, char *ret,
                       size_t size, struct error *err)
{
    char exe[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot find myself");
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < count; i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", exe, places[i]);

        if (realpath(path, real) && strlen(real) < size) {
            memcpy(ret, real, strlen(real) + 1);
            return 0;
        }
    }
    return error_set(err, ERR_INVALID, "%s is not where this program is",
                     places[0]);
}

static int copy_path(char ret[WARDEN_PATH_MAX], const char *dir,
                     const char *name, struct error *err)
{
    int n = snprintf(ret, WARDEN_PATH_MAX, "%s%s", dir, name);

    if (n < 0 || n >= WARDEN_PATH_MAX)
        return error_set(err, ERR_INVALID, "the path %.80s... is too long",
                         dir);
    return 0;
}

/* What the warden will hold us to from then on. */
static void fill_bounds(const struct service *s, struct warden_setup *setup)
{
    const struct conf *c = s->conf;
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];

    hash_sha256(c->data_dir, strlen(c->data_dir), hash);
    (void)snprintf(setup->instance, sizeof(setup->instance), "gb-%.16s",
                   ids_hex(hash, sizeof(hash), hex));
    setup->accepted_walls = s->accepted;
    setup->uid_base = c->uid_base;
    setup->uid_count = c->uid_count;
    setup->zygote_max_age_s = c->zygote_max_age_s;
    setup->zygote_max_spawns = c->zygote_max_spawns;
    setup->max_slots = c->max_sessions + 16;
    for (size_t i = 0; i < c->pool_count; i++) {
        const struct conf_pool *p = &c->pools[i];

        setup->max_slots += p->ready;
        setup->spare_scratches += p->ready;
        setup->max_memory_bytes =
            MAX(setup->max_memory_bytes,
                MAX(p->memory_bytes, p->max_memory_bytes));
        setup->max_scratch_bytes =
            MAX(setup->max_scratch_bytes, p->scratch_bytes);
        setup->max_processes = MAX(setup->max_processes, p->processes);
        setup->max_cores = MAX(setup->max_cores, MAX(p->cores, p->max_cores));
    }
}

static int start_warden(struct service *s, struct error *err)
{
    static const char *const program[] = {"glovebox-warden"};
    static const char *const kernel[] = {"../lib/kernel", "kernel",
                                         "../libexec/glovebox/kernel"};
    struct warden_setup setup = {.max_slots = 0};
    char path[PATH_MAX];
    int r = find_beside(program, 1, path, sizeof(path), err);

    if (r == 0)
        r = find_beside(kernel, ARRAY_SIZE(kernel), setup.kernel_dir,
                        sizeof(setup.kernel_dir), err);
    if (r == 0)
        r = copy_path(setup.scratch_dir, s->conf->data_dir, "/scratch", err);
    if (r == 0)
        r = copy_path(setup.cache_dir, s->conf->runtime_dir, "", err);
    if (r < 0)
        return r;
    fill_bounds(s, &setup);
    return warden_call_open(path, &setup, &s->warden, err);
}

/* From root with every capability to the service's account with none; what
 * comes after reads bytes from outside. */
static int give_up_rights(struct service *s, struct error *err)
{
    struct rlimit files;
    int r;

    /* As many as we like, or as the machine lets us have. */
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = MAX(files.rlim_cur, MIN(files.rlim_max, DESCRIPTORS));
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (geteuid() == 0 && !s->drop) {
        log_event(LOG_WARN, "running_as_root", NULL);
        return 0;
    }
    r = priv_drop(&s->user);
    return r < 0
               ? error_errno(err, ERR_INTERNAL, -r, "cannot give up privilege")
               : 0;
}

/* ---- after ----------------------------------------------------------------
 */

/* Signals come by descriptor; set after the warden has started, which must
 * not inherit any of it. */
static int take_signals(struct service *s, struct error *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return s->signal_fd < 0
               ? error_errno(err, ERR_INTERNAL, errno, "cannot take signals")
               : 0;
}

static int start_core(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    int r = store_open(c->data_dir, &s->store, err);

    if (r == 0)
        r = auth_open(s->store, c->data_dir, c->auth_failures_per_min,
                      &s->auth, err);
    if (r == 0)
        r = sessions_open(c, s->warden, &s->sessions, err);
    return r;
}

static int start_http(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct http_settings settings = {
        .host = c->listen_host,
        .port = c->listen_port,
        .workers = c->workers,
        .connections = c->connections,
        .header_timeout_s = c->header_timeout_s,
        .idle_timeout_s = c->idle_timeout_s,
        .body_timeout_s = c->body_timeout_s,
        .body_bytes = MAX(c->upload_bytes, c->json_bytes),
    };

    s->doors =
        (struct doors){.conf = c, .auth = s->auth, .sessions = s->sessions};
    return http_start(&settings, serve_request, &s->doors, &s->http, err);
}

/* Tells people and programs where we are. */
static int announce(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    bool v6 = strchr(c->listen_host, ':') != NULL;
    char *url cleanup(mem_free) =
        xasprintf("http://%s%s%s:%u", v6 ? "[" : "", c->listen_host,
                  v6 ? "]" : "", http_port(s->http));
    char *line cleanup(mem_free) = xasprintf("%s\n", url);
    int fd cleanup(fd_close) =
        openat(s->data_fd, ENDPOINT ".new",
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || fd_write_all(fd, line, strlen(line)) < 0 ||
        renameat(s->data_fd, ENDPOINT ".new", s->data_fd, ENDPOINT) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot write %s/%s",
                           c->data_dir, ENDPOINT);
    (void)printf("glovebox " GLOVEBOX_VERSION " listening on %s\n"
                 "key in %s/admin.key\n"
                 "try: glovebox run -c 'print(6 * 7)'\n",
                 url, c->data_dir);
    (void)fflush(stdout);
    log_event(LOG_INFO, "listening", "url", url, NULL);
    return 0;
}

/* Until we are told to stop (0) or the warden is gone (-1). */
static int wait_for_end(struct service *s)
{
    struct pollfd fds[] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = warden_call_fd(s->warden)}, /* only its hanging up */
    };

    for (;;) {
        struct signalfd_siginfo info;

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
            return -1;
        if (fds[1].revents) {
            log_event(LOG_ERROR, "warden_gone", NULL);
            return -1;
        }
        /* Taken, or it would end us when signals are let through again. */
        if (fds[0].revents &&
            read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
            return 0;
    }
}

/* Also of a service that is half started. */
static void stop(struct service *s)
{
    sigset_t none;

    /* A second signal ends us at once; the next start cleans up. */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (s->http)
        (void)unlinkat(s->data_fd, ENDPOINT, 0);
    http_quiesce(s->http);
    sessions_stop(s->sessions, s->conf->stop_deadline_s);
    http_stop(s->http, 2); /* answers what the stop has ended */
    sessions_close(s->sessions, 0);
    auth_close(s->auth);
    store_close(s->store);
    warden_call_close(s->warden);
    fd_close(&s->signal_fd);
    fd_close(&s->lock_fd);
    fd_close(&s->data_fd);
}

static int run(struct service *s, struct error *err)
{
    int r = parse_walls(s->conf->accept_missing_walls, &s->accepted, err);

    if (r == 0)
        r = choose_user(s, err);
    if (r == 0)
        r = claim_data(s, err);
    if (r == 0)
        r = start_warden(s, err);
    if (r == 0)
        r = give_up_rights(s, err);
    if (r == 0)
        r = take_signals(s, err);
    if (r == 0)
        r = start_core(s, err);
    if (r == 0)
        r = start_http(s, err);
    if (r == 0)
        r = announce(s, err);
    if (r == 0 && wait_for_end(s) < 0)
        r = error_set(err, ERR_UNAVAILABLE, "the warden is gone");
    if (s->http)
        log_event(LOG_INFO, "stopping", NULL);
    stop(s);
    return r;
}

static int complain(const struct error *err)
{
    (void)fprintf(stderr, "gloveboxd: %s\n", err->message);
    if (err->hint[0])
        (void)fprintf(stderr, "gloveboxd: %s\n", err->hint);
    return err->code == ERR_INVALID ? 2 : 1;
}

int main(int argc, char **argv)
{
    struct service s = {.data_fd = -1, .lock_fd = -1, .signal_fd = -1};
    struct conf *conf cleanup(conf_freep) = NULL;
    struct error err;

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)puts("gloveboxd " GLOVEBOX_VERSION);
        return 0;
    }
    if (conf_load(argc - 1, argv + 1, &conf, &err) < 0)
        return complain(&err);
    if (conf_show(conf, stdout))
        return 0;
    start_log(conf);
    /* Two hundred threads would else get a heap each, mostly empty. */
    (void)mallopt(M_ARENA_MAX, 4);
    s.conf = conf;
    return run(&s, &err) < 0 ? complain(&err) : 0;
}
