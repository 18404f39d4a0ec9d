/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the service is and with which key: what the caller named, else what
 * a running service left in its data directory, else (run and shell only) a
 * service of our own that lives as long as the command.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"
#include "conf/conf.h"

#define URL_MAX 1024
#define KEY_MAX 512
#define SYSTEM_DATA "/var/lib/glovebox"
#define START_SECONDS 60
#define NAP_MS 20L
#define TAKEN_MS 200L /* between two tries to be the one who serves */

static const char *env(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

char *cli_connect_data_dir(const struct cli *c)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    struct error ignored;

    if (c->data)
        return xstrdup(c->data);
    /* A client must work beside a configuration that is wrong. */
    if (conf_load(0, NULL, &conf, &ignored) < 0)
        return xstrdup(SYSTEM_DATA);
    return xstrdup(conf->data_dir);
}

static int find_beside(const char *name, int mode, char **ret_path)
{
    static const char *const places[] = {"", "../libexec/glovebox/"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (n <= 0)
        return -ENOENT;
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return -ENOENT;
    slash[1] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char *path cleanup(mem_free) =
            xasprintf("%s%s%s", self, places[i], name);

        if (access(path, mode) == 0) {
            char *real = realpath(path, NULL);

            *ret_path = real ? real : take_ptr(path);
            return 0;
        }
    }
    return -ENOENT;
}

int cli_connect_program(const char *name, char **ret_path)
{
    return find_beside(name, X_OK, ret_path);
}

int cli_connect_file(const char *name, char **ret_path)
{
    return find_beside(name, R_OK, ret_path);
}

int cli_connect_line(int dirfd, const char *path, size_t cap, char **ret)
{
    char *text cleanup(mem_free) = NULL;
    size_t len;
    int r = fd_read_file(dirfd, path, cap, &text, &len);

    if (r < 0)
        return r;
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (!isgraph((unsigned char)text[i]))
            return -EINVAL;
    if (len == 0)
        return -ENODATA;
    *ret = take_ptr(text);
    return 0;
}

static int set_base(struct cli *c, const char *url, struct error *err)
{
    size_t len = strlen(url);

    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return error_set(err, ERR_INVALID,
                         "'%s' is not an http or https address", url);
    if (len > URL_MAX)
        return error_set(err, ERR_INVALID, "the address is too long");
    while (len > 0 && url[len - 1] == '/')
        len--;
    free(c->base);
    c->base = xstrndup(url, len);
    return 0;
}

/* The key that was named, if any was. */
static int named_key(struct cli *c, struct error *err)
{
    const char *key = env("GLOVEBOX_KEY");
    int r;

    if (c->key_file) {
        r = cli_connect_line(AT_FDCWD, c->key_file, KEY_MAX, &c->key);
        return r < 0 ? error_errno(err, ERR_INVALID, -r,
                                   "cannot read a key from %s", c->key_file)
                     : 0;
    }
    c->key = xstrdup(key);
    for (const char *p = c->key; p && *p; p++)
        if (!isgraph((unsigned char)*p))
            return error_set(err, ERR_INVALID,
                             "GLOVEBOX_KEY holds a blank or a line end");
    return 0;
}

static bool reachable(struct cli *c, const char *path)
{
    struct error ignored;

    return cli_http_json(c, "GET", path, NULL, NULL, &ignored) == 0;
}

/* A service that left its address in dir and answers. */
static bool found_in(struct cli *c, const char *dir)
{
    int fd cleanup(fd_close) = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *url cleanup(mem_free) = NULL;
    struct error ignored;

    if (fd < 0 || cli_connect_line(fd, "endpoint", URL_MAX, &url) < 0 ||
        set_base(c, url, &ignored) < 0)
        return false;
    if (!reachable(c, "/healthz"))
        return false;
    /* Without the right to read the key, the service will say so. */
    if (!c->key)
        (void)cli_connect_line(fd, "admin.key", KEY_MAX, &c->key);
    return true;
}

static bool found_running(struct cli *c)
{
    char *dir cleanup(mem_free) = cli_connect_data_dir(c);
    bool named = c->data || env("GLOVEBOX_DATA_DIR");

    return found_in(c, dir) ||
           (!named && strcmp(dir, SYSTEM_DATA) && found_in(c, SYSTEM_DATA));
}

/* What it logged last is the reason; what it logged before may help. */
static int start_failed(struct cli *c, struct error *err)
{
    char *tail cleanup(mem_free) = cli_embedded_log_tail(c->embedded);
    size_t len = tail ? strlen(tail) : 0;
    char *last;

    while (len > 0 && tail[len - 1] == '\n')
        tail[--len] = '\0';
    last = tail ? strrchr(tail, '\n') : NULL;
    if (last)
        (void)fprintf(stderr, "%.*s\n", (int)(last - tail), tail);
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the embedded service did not start%s%s", len ? ": " : "",
                    len ? (last ? last + 1 : tail) : "");
    return error_hint(err, "`glovebox doctor` says what this machine lacks, "
                           "`glovebox runtime list` which images are built.");
}

static int interrupted(struct error *err)
{
    (void)error_set(err, ERR_UNAVAILABLE, "interrupted");
    err->errnum = EINTR;
    return -(int)err->code;
}

static bool hung_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* False when it is time to give up: Ctrl-C came between two requests, or
 * ended one; or whoever we work for has gone. */
static bool nap(const struct cli *c, long ms)
{
    struct timespec ts = {.tv_nsec = ms * 1000 * 1000};
    sigset_t set;

    (void)nanosleep(&ts, NULL);
    (void)sigpending(&set);
    return !c->interrupted && !hung_up(c->watch_fd) &&
           !sigismember(&set, SIGINT) && !sigismember(&set, SIGTERM) &&
           !sigismember(&set, SIGHUP);
}

static int embed(struct cli *c, const char *pool, const char *runtime,
                 struct error *err)
{
    uint64_t deadline = clock_mono_ms() + START_SECONDS * 1000;
    bool show = c->tty_err && !c->json;
    bool ready = false;
    int r;

    if (show)
        (void)fputs("starting an embedded service...", stderr);
    r = cli_embedded_start(pool, runtime, NULL, &c->embedded, err);
    while (r == 0 && !ready && clock_left_ms(deadline) > 0) {
        if (!nap(c, NAP_MS)) {
            r = interrupted(err);
        } else if (!cli_embedded_alive(c->embedded)) {
            break;
        } else {
            ready = found_in(c, cli_embedded_dir(c->embedded)) &&
                    reachable(c, "/readyz");
        }
    }
    if (show)
        (void)fputs("\r\033[K", stderr);
    if (r < 0 || ready)
        return r;
    return start_failed(c, err);
}

int cli_connect(struct cli *c, enum cli_connect_mode mode, const char *pool,
                const char *runtime, struct error *err)
{
    const char *url = c->url ? c->url : env("GLOVEBOX_URL");
    int r = named_key(c, err);

    if (r < 0)
        return r;
    if (url)
        return set_base(c, url, err);
    if (found_running(c))
        return 0;
    if (c->interrupted)
        return interrupted(err);
    if (mode == CLI_CONNECT_OR_EMBED) {
        free(take_ptr(c->key)); /* not a key of the new service */
        return embed(c, pool, runtime, err);
    }
    (void)error_set(err, ERR_UNAVAILABLE, "no running service was found");
    return error_hint(err, "Start one with `glovebox serve`, or say where it "
                           "is with GLOVEBOX_URL and GLOVEBOX_KEY.");
}

/* Whoever has the lock of the data directory has the service: ours, or that
 * of a command that was quicker, or for a moment still the one that is about
 * to end; so ours is started until one of them answers. Does not wait until
 * sessions can start: a request will. */
static int embed_lasting(struct cli *c, const char *dir, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + START_SECONDS * 1000;

    while (clock_left_ms(deadline) > 0) {
        int r = c->embedded
                    ? 0
                    : cli_embedded_start(NULL, NULL, dir, &c->embedded, err);

        if (r < 0)
            return r;
        if (!nap(c, NAP_MS))
            return interrupted(err);
        if (found_in(c, dir))
            return 0;
        if (cli_embedded_alive(c->embedded))
            continue;
        if (!cli_embedded_taken(c->embedded))
            return start_failed(c, err);
        cli_embedded_stop(take_ptr(c->embedded));
        if (!nap(c, TAKEN_MS))
            return interrupted(err);
        if (found_in(c, dir))
            return 0;
    }
    return error_set(err, ERR_UNAVAILABLE,
                     "a service was started, and did not answer in time");
}

int cli_connect_lasting(struct cli *c, struct error *err)
{
    const char *url = c->url ? c->url : env("GLOVEBOX_URL");
    char *dir cleanup(mem_free) = cli_connect_data_dir(c);
    int r = c->key ? 0 : named_key(c, err);

    if (r < 0)
        return r;
    if (url)
        return set_base(c, url, err);
    if (found_running(c))
        return 0;
    if (c->interrupted || hung_up(c->watch_fd))
        return interrupted(err);
    cli_embedded_stop(take_ptr(c->embedded)); /* it has ended by itself */
    return embed_lasting(c, dir, err);
}
