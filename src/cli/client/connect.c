/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the service is and with which key: what the caller named, or what a
 * running service wrote to its data directory. Finds the facts, asks
 * cli_choose(), and uses or starts the service, or says why there is none.
 */
#include <ctype.h>
#include <dirent.h>
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
#include "cli/common.h"
#include "conf/conf.h"

#define URL_MAX 1024
#define KEY_MAX 512
#define PIN_MAX 128
#define SYSTEM_DATA "/var/lib/glovebox"
/* What a service on SYSTEM_DATA tells every user: its address, not its key. */
#define SYSTEM_RUN "/run/glovebox"
#define START_SECONDS 60
#define POLL_MS 20u
#define TAKEN_MS 200u /* between two attempts to start a service */

static const char *env_value(const char *name)
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
    const char *key = env_value("GLOVEBOX_KEY");
    int r;

    if (c->key_file) {
        r = cli_connect_line(AT_FDCWD, c->key_file, KEY_MAX, &c->key);
        return r < 0 ? error_errno(err, ERR_INVALID, -r,
                                   "cannot read a key from %s", c->key_file)
                     : 0;
    }
    if (c->context || c->logging_in)
        return 0; /* the context has its own */
    c->key = xstrdup(key);
    for (const char *p = c->key; p && *p; p++)
        if (!isgraph((unsigned char)*p))
            return error_set(err, ERR_INVALID,
                             "GLOVEBOX_KEY holds a blank or a line end");
    return 0;
}

const char *cli_connect_cacert(const struct cli *c)
{
    if (c->cacert)
        return c->cacert;
    return c->context_cacert ? c->context_cacert
                             : env_value("GLOVEBOX_CACERT");
}

/* A file that cannot be read would only be a certificate that fails. */
static int check_cacert(const struct cli *c, struct error *err)
{
    const char *file = cli_connect_cacert(c);

    if (!file || access(file, R_OK) == 0)
        return 0;
    return error_errno(err, ERR_INVALID, errno,
                       "cannot read the certificates in %s", file);
}

/* ---- a data directory --------------------------------------------------- */

/* Does path answer? Why not is in err. */
static enum cli_endpoint probe_endpoint(struct cli *c, const char *path,
                                        struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    int r;

    t.method = "GET";
    t.path = path;
    r = cli_transfer_run(c, &t, err);
    if (r == 0)
        return CLI_ENDPOINT_ANSWERS;
    return t.untrusted ? CLI_ENDPOINT_UNTRUSTED : CLI_ENDPOINT_SILENT;
}

/* The service that wrote its address to dir. On success its key is known,
 * too, if none was named and the file can be read. */
static enum cli_endpoint find_endpoint_in(struct cli *c, const char *dir,
                                          struct error *err)
{
    int fd cleanup(fd_close) = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *url cleanup(mem_free) = NULL;
    enum cli_endpoint found;
    int r = fd < 0 ? -errno : cli_connect_line(fd, "endpoint", URL_MAX, &url);

    if (r == -EACCES)
        return CLI_ENDPOINT_HIDDEN;
    if (r < 0 || !url)
        return CLI_ENDPOINT_NONE;
    if (set_base(c, url, err) < 0)
        return CLI_ENDPOINT_SILENT;
    free(take_ptr(c->pin));
    (void)cli_connect_line(fd, "endpoint.pin", PIN_MAX, &c->pin);
    found = probe_endpoint(c, "/healthz", err);
    /* If the key cannot be read, the service answers 401, which explains it.
     */
    if (found == CLI_ENDPOINT_ANSWERS && !c->key)
        (void)cli_connect_line(fd, "admin.key", KEY_MAX, &c->key);
    return found;
}

/* Something is in it, or it cannot be looked into. */
static bool is_data_dir(const char *path)
{
    DIR *dir cleanup(fd_closedir) = opendir(path);
    struct dirent *entry;

    if (!dir)
        return errno != ENOENT;
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            return true;
    return false;
}

/* Does a context decide where the service is? --context does; the one that
 * the last login made does if nothing else is named. */
static bool wants_context(const struct cli *c)
{
    if (c->embedded || c->url || c->logging_in)
        return false;
    return c->context ||
           (!env_value("GLOVEBOX_URL") && !c->data &&
            !env_value("GLOVEBOX_DATA_DIR")) ||
           (env_value("GLOVEBOX_CONTEXT") && !env_value("GLOVEBOX_URL") &&
            !c->data);
}

static const char *named_url(const struct cli *c)
{
    if (c->url)
        return c->url;
    return c->context_url ? c->context_url : env_value("GLOVEBOX_URL");
}

/* err: why the endpoint does not do, if it does not. */
static struct cli_facts find_facts(struct cli *c, const char *dir,
                                   struct error *err)
{
    const char *url = named_url(c);
    bool named = c->data || env_value("GLOVEBOX_DATA_DIR");
    struct cli_facts facts = {.endpoint = CLI_ENDPOINT_NONE,
                              .embedded = c->embedded};

    if (c->embedded)
        return facts;
    if (url) {
        facts.endpoint = CLI_ENDPOINT_NAMED;
        return facts;
    }
    facts.endpoint = find_endpoint_in(c, dir, err);
    facts.data_dir = c->data || is_data_dir(dir);
    if (named)
        return facts;
    if (facts.endpoint == CLI_ENDPOINT_NONE && strcmp(dir, SYSTEM_DATA) != 0) {
        facts.endpoint = find_endpoint_in(c, SYSTEM_DATA, err);
        if (facts.endpoint == CLI_ENDPOINT_NONE)
            facts.data_dir = facts.data_dir || is_data_dir(SYSTEM_DATA);
    }
    if (facts.endpoint == CLI_ENDPOINT_HIDDEN) {
        enum cli_endpoint told = find_endpoint_in(c, SYSTEM_RUN, err);

        if (told != CLI_ENDPOINT_NONE)
            facts.endpoint = told;
    }
    return facts;
}

/* The address is known and no key: the usual case of a user whose service
 * root has started. */
static int explain_no_key(const struct cli *c, struct error *err)
{
    (void)error_set(err, ERR_UNAUTHENTICATED,
                    "the service at %.200s needs a key, and you have stored "
                    "none",
                    c->base);
    return error_hint(err,
                      "Run `sudo cat " SYSTEM_DATA "/admin.key | %s login` "
                      "once, or set GLOVEBOX_KEY.",
                      program_invocation_name);
}

/* ---- a service of our own ----------------------------------------------- */

/* The last line of its log is the reason; earlier lines may help. */
static int start_failed(struct cli *c, struct error *err)
{
    char *tail cleanup(mem_free) = cli_embedded_log_tail(c->service);
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

static int interrupted_error(struct error *err)
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
 * ended one; or the program that started this one is gone. */
static bool connect_wait(const struct cli *c, unsigned ms)
{
    return cli_sleep(c, ms) && !hung_up(c->watch_fd);
}

static int start_embedded(struct cli *c, const char *pool, const char *runtime,
                          struct error *err)
{
    uint64_t deadline = clock_mono_ms() + START_SECONDS * 1000;
    bool show = c->tty_err && !c->json;
    bool ready = false;
    int r;

    free(take_ptr(c->key)); /* not a key of the new service */

    /* Always said: the files, the rules and the trail are not those of any
     * other service. */
    (void)fprintf(stderr,
                  "glovebox: using an embedded throwaway service (%s); its "
                  "files are discarded when this command ends\n",
                  c->embedded ? "--embedded"
                              : "no service and no data directory were found");

    if (show)
        (void)fputs("starting an embedded service...", stderr);
    r = cli_embedded_start(pool, runtime, NULL, &c->service, err);
    while (r == 0 && !ready && clock_left_ms(deadline) > 0) {
        struct error ignored;

        if (!connect_wait(c, POLL_MS)) {
            r = interrupted_error(err);
        } else if (!cli_embedded_alive(c->service)) {
            break;
        } else {
            ready =
                find_endpoint_in(c, cli_embedded_dir(c->service), &ignored) ==
                    CLI_ENDPOINT_ANSWERS &&
                probe_endpoint(c, "/readyz", &ignored) == CLI_ENDPOINT_ANSWERS;
        }
    }
    if (show)
        (void)fputs("\r\033[K", stderr);
    if (r < 0 || ready)
        return r;
    return start_failed(c, err);
}

/* Ours, or that of a command that was quicker. */
static bool answers_on(struct cli *c, const char *dir)
{
    struct error ignored;

    if (find_endpoint_in(c, dir, &ignored) != CLI_ENDPOINT_ANSWERS)
        return false;
    if (cli_embedded_alive(c->service))
        (void)fprintf(stderr,
                      "glovebox: started a service on %s, which ends with "
                      "this command; its files are kept there\n",
                      dir);
    return true;
}

/* The holder of the data directory's lock runs the service: ours, or that
 * of a command that was quicker, or for a moment still the one that is about
 * to end; so ours is started until one of them answers. Does not wait until
 * sessions can start: a request will. */
static int start_on_data(struct cli *c, const char *dir, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + START_SECONDS * 1000;

    cli_embedded_stop(take_ptr(c->service)); /* it has ended by itself */
    while (clock_left_ms(deadline) > 0) {
        int r = c->service
                    ? 0
                    : cli_embedded_start(NULL, NULL, dir, &c->service, err);

        if (r < 0)
            return r;
        if (!connect_wait(c, POLL_MS))
            return interrupted_error(err);
        if (answers_on(c, dir))
            return 0;
        if (cli_embedded_alive(c->service))
            continue;
        if (!cli_embedded_taken(c->service))
            return start_failed(c, err);
        if (!connect_wait(c, TAKEN_MS))
            return interrupted_error(err);
        if (answers_on(c, dir))
            return 0;
        cli_embedded_stop(take_ptr(c->service));
    }
    (void)error_set(err, ERR_UNAVAILABLE,
                    "a service has the data directory %s, and did not answer "
                    "within %d s",
                    dir, START_SECONDS);
    return error_hint(err, "Look at the log of the gloveboxd that runs there, "
                           "or restart it.");
}

/* ---- carrying out the choice -------------------------------------------- */

/* why: of an endpoint that was found and does not do. */
static int explain_refusal(const struct cli *c, enum cli_need need,
                           const struct cli_facts *facts, const char *dir,
                           const struct error *why, struct error *err)
{
    const char *embedded =
        need == CLI_NEED_ANY
            ? " --embedded runs this in a throwaway service instead."
            : "";

    if (facts->embedded) {
        (void)error_set(err, ERR_INVALID,
                        "--embedded does not go with a session or a "
                        "workspace: a new service has none");
        return error_hint(err, "Leave it out to use the running service.");
    }
    if (facts->endpoint == CLI_ENDPOINT_UNTRUSTED) {
        *err = *why;
        return -(int)err->code;
    }
    if (facts->endpoint == CLI_ENDPOINT_SILENT) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "the service that wrote the file endpoint of its data "
                        "directory does not answer: %.160s",
                        why->message);
        return error_hint(err,
                          "Start it again with `glovebox serve`, or name "
                          "another with --url or GLOVEBOX_URL.%s",
                          embedded);
    }
    if (facts->endpoint == CLI_ENDPOINT_HIDDEN) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "a service has a data directory here that you may "
                        "not read");
        return error_hint(err,
                          "Name the service with GLOVEBOX_URL and "
                          "GLOVEBOX_KEY.%s",
                          embedded);
    }
    if (facts->data_dir) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "no running service was found on the data directory "
                        "%.200s",
                        c->data || is_data_dir(dir) ? dir : SYSTEM_DATA);
        return error_hint(err,
                          "Start it with `glovebox serve`, or name another "
                          "with GLOVEBOX_URL and GLOVEBOX_KEY.%s",
                          embedded);
    }
    (void)error_set(err, ERR_UNAVAILABLE, "no running service was found");
    return error_hint(err, "Start one with `glovebox serve`, or say where it "
                           "is with GLOVEBOX_URL and GLOVEBOX_KEY.");
}

int cli_connect(struct cli *c, enum cli_need need, const char *pool,
                const char *runtime, struct error *err)
{
    char *dir cleanup(mem_free) = cli_connect_data_dir(c);
    struct error why = {0};
    struct cli_facts facts;
    int r = c->key ? 0 : named_key(c, err);

    if (r == 0 && wants_context(c))
        r = cli_contexts_use(c, err);
    if (r == 0)
        r = check_cacert(c, err);
    if (r < 0)
        return r;
    facts = find_facts(c, dir, &why);
    if (c->interrupted || hung_up(c->watch_fd))
        return interrupted_error(err);
    switch (cli_choose(need, &facts)) {
    case CLI_CHOICE_USE:
        if (facts.endpoint == CLI_ENDPOINT_NAMED)
            return set_base(c, named_url(c), err);
        return c->key || c->logging_in ? 0 : explain_no_key(c, err);
    case CLI_CHOICE_EMBED:
        return start_embedded(c, pool, runtime, err);
    case CLI_CHOICE_START:
        return start_on_data(c, dir, err);
    case CLI_CHOICE_REFUSE:
        break;
    }
    free(take_ptr(c->base)); /* nothing may be sent there */
    return explain_refusal(c, need, &facts, dir, &why, err);
}

/* ---- the choice --------------------------------------------------------- */

/*
 * Which service a command uses. This table is the only place that decides
 * it; cli_connect() finds the facts before and carries out the choice after.
 *
 * A throwaway service ignores the policy, the audit trail and the files of
 * the real one. It is therefore used only when the caller asks for it with
 * --embedded, or when this machine shows no sign of a real service: no
 * address is named, no data directory holds an address, and no data directory
 * exists. An address that does not answer, or whose certificate cannot be
 * verified, is an error.
 */

#define REFUSE CLI_CHOICE_REFUSE
#define USE CLI_CHOICE_USE
#define EMBED CLI_CHOICE_EMBED
#define START CLI_CHOICE_START

/* Without --embedded: [what the command needs][address][data directory]. */
static const enum cli_choice choices[][CLI_ENDPOINTS][2] = {
    [CLI_NEED_RUNNING] =
        {
            [CLI_ENDPOINT_NONE] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_NAMED] = {USE, USE},
            [CLI_ENDPOINT_ANSWERS] = {USE, USE},
            [CLI_ENDPOINT_SILENT] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_UNTRUSTED] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_HIDDEN] = {REFUSE, REFUSE},
        },
    [CLI_NEED_ANY] =
        {
            [CLI_ENDPOINT_NONE] = {EMBED, REFUSE},
            [CLI_ENDPOINT_NAMED] = {USE, USE},
            [CLI_ENDPOINT_ANSWERS] = {USE, USE},
            [CLI_ENDPOINT_SILENT] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_UNTRUSTED] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_HIDDEN] = {REFUSE, REFUSE},
        },
    /* A service on the data directory keeps its files, its policy and its
     * trail, and the directory's lock keeps a second one from starting. So
     * an address that a killed service left behind is no reason to refuse. */
    [CLI_NEED_DATA] =
        {
            [CLI_ENDPOINT_NONE] = {START, START},
            [CLI_ENDPOINT_NAMED] = {USE, USE},
            [CLI_ENDPOINT_ANSWERS] = {USE, USE},
            [CLI_ENDPOINT_SILENT] = {START, START},
            [CLI_ENDPOINT_UNTRUSTED] = {REFUSE, REFUSE},
            [CLI_ENDPOINT_HIDDEN] = {REFUSE, START},
        },
};

enum cli_choice cli_choose(enum cli_need need, const struct cli_facts *facts)
{
    if (facts->embedded)
        return need == CLI_NEED_ANY ? EMBED : REFUSE;
    return choices[need][facts->endpoint][facts->data_dir];
}
