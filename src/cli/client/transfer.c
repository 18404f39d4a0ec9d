/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to the service and its answer, by libcurl. While it runs the
 * signal descriptor is polled with it. Bodies of files stream through fixed
 * buffers. The key is sent in one header and never printed; redirects are not
 * followed, so it goes nowhere else.
 */
#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/common.h"

#define ANSWER_MAX (96u << 20) /* the largest body that is held in memory */
#define CONNECT_MS 5000L
#define JSON_SECONDS 120L
#define STALL_SECONDS 60L /* a file that moves nothing for so long is dead */
#define POLL_MS 1000

struct cli_running {
    struct cli *c;
    struct cli_transfer *t;
    CURL *easy;
    struct curl_slist *headers;
    char *body;      /* text of the JSON; owned */
    curl_mime *form; /* or NULL */
    bool too_large;
    int retry_after_s;
    int io_errno;
    struct cli_progress progress;
    struct cli_sse sse;
    int stream_result;
    bool gave_up;
    char detail[CURL_ERROR_SIZE]; /* curl's words for a failure */
};

void cli_transfer_free(struct cli_running *r)
{
    if (!r)
        return;
    curl_slist_free_all(r->headers);
    if (r->easy)
        curl_easy_cleanup(r->easy);
    curl_mime_free(r->form);
    free(r->body);
    cli_sse_done(&r->sse);
    cli_progress_end(&r->progress);
    free(r);
}

static void curl_freep(struct cli_running **r)
{
    cli_transfer_free(*r);
}

/* ---- curl's callbacks --------------------------------------------------- */

static long status_of(struct cli_running *r)
{
    long status = 0;

    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static void start_bar(struct cli_running *r)
{
    struct cli_transfer *t = r->t;
    curl_off_t length = -1;
    uint64_t total = t->bar_total;

    (void)curl_easy_getinfo(r->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T,
                            &length);
    t->length = length;
    if (!total && length > 0)
        total = t->bar_before + (uint64_t)length;
    if (total)
        cli_progress_start(&r->progress, r->c, t->label, total);
}

static size_t to_file(struct cli_running *r, const char *bytes, size_t len)
{
    bool wanted = !r->t->from || status_of(r) == 206;
    int result = wanted ? fd_write_all(r->t->out, bytes, len) : -ESTALE;

    if (result < 0) {
        r->io_errno = -result;
        return 0;
    }
    if (r->t->moved == 0)
        start_bar(r);
    r->t->moved += len;
    cli_progress_step(&r->progress, r->t->bar_before + r->t->moved);
    return len;
}

static size_t on_body(char *bytes, size_t one, size_t len, void *ctx)
{
    struct cli_running *r = ctx;
    struct cli_transfer *t = r->t;
    bool good = status_of(r) / 100 == 2;

    (void)one;                                      /* always 1 */
    if (good && t->out >= 0 && status_of(r) != 202) /* held: see is_held */
        return to_file(r, bytes, len);
    if (good && t->stream) {
        r->stream_result = cli_sse_feed(&r->sse, bytes, len,
                                        t->stream->on_event, t->stream->ctx);
        return r->stream_result == 0 ? len : 0;
    }
    if (t->answer.len + len > ANSWER_MAX) {
        r->too_large = true;
        return 0;
    }
    buf_add(&t->answer, bytes, len);
    return len;
}

static size_t on_upload(char *room, size_t one, size_t len, void *ctx)
{
    struct cli_running *r = ctx;
    struct cli_transfer *t = r->t;
    ssize_t n;

    /* Never past the length that was promised, even if the file grew. */
    len = MIN(one * len, t->in_size - t->moved);
    do
        n = t->in_place
                ? pread(t->in, room, len, (off_t)(t->in_from + t->moved))
                : read(t->in, room, len);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        r->io_errno = errno;
        return CURL_READFUNC_ABORT;
    }
    t->moved += (uint64_t)n;
    if (t->bar) {
        t->bar->done += (uint64_t)n;
        cli_progress_step(&t->bar->progress, t->bar->done);
    } else {
        cli_progress_step(&r->progress, t->bar_before + t->moved);
    }
    return (size_t)n;
}

/* The value of a header line if it is that header: copied, trimmed. */
static bool header_value(const char *line, size_t len, const char *name,
                         char *ret, size_t size)
{
    size_t at = strlen(name);

    if (len <= at || strncasecmp(line, name, at) != 0)
        return false;
    while (at < len && line[at] == ' ')
        at++;
    while (len > at && (unsigned char)line[len - 1] <= ' ')
        len--;
    if (len - at >= size)
        return false;
    memcpy(ret, line + at, len - at);
    ret[len - at] = '\0';
    return true;
}

static size_t on_header(char *line, size_t one, size_t len, void *ctx)
{
    struct cli_running *r = ctx;
    char text[32];

    (void)one;
    if (header_value(line, len, "retry-after:", text, sizeof(text)))
        r->retry_after_s = (int)strtol(text, NULL, 10);
    (void)header_value(line, len, "etag:", r->t->etag, sizeof(r->t->etag));
    return len;
}

/* ---- setting it up ------------------------------------------------------ */

/* Does the address lead to this machine itself? */
static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]",
                                        "0.0.0.0", "[::]"};
    const char *host = strstr(url, "://");

    for (size_t i = 0; host && i < ARRAY_SIZE(hosts); i++) {
        size_t len = strlen(hosts[i]);
        char next = strncmp(host + 3, hosts[i], len) ? 'x' : host[3 + len];

        if (next == '\0' || next == ':' || next == '/')
            return true;
    }
    return false;
}

/*
 * Which certificates are trusted, the first that applies: --cacert or
 * GLOVEBOX_CACERT; the key that the service in the data directory has
 * written there; SSL_CERT_FILE; those of this machine. With the service's own
 * key, neither the name in the certificate nor its issuer matters.
 */
static void set_trust(const struct cli *c, CURL *easy)
{
    const char *file = cli_connect_cacert(c);

    if (!file && c->pin) {
        (void)curl_easy_setopt(easy, CURLOPT_PINNEDPUBLICKEY, c->pin);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
        return;
    }
    if (!file)
        file = getenv("SSL_CERT_FILE");
    if (file && *file) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, file);
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
}

void cli_transfer_prepare(const struct cli *c, void *easy, const char *url)
{
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    /* The key must not travel by way of a proxy to this machine. */
    if (c->pin || is_loopback(url))
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    set_trust(c, easy);
}

static void add_header(struct cli_running *r, const char *line)
{
    struct curl_slist *longer = curl_slist_append(r->headers, line);

    if (!longer)
        abort();
    r->headers = longer;
}

static void set_headers(struct cli_running *r)
{
    const char *const *more = r->t->headers;

    if (r->c->key) {
        char *line = xasprintf("Authorization: Bearer %s", r->c->key);

        add_header(r, line);
        explicit_bzero(line, strlen(line));
        free(line);
    }
    add_header(r, "Expect:");
    for (; more && *more; more++)
        add_header(r, *more);
    if (r->t->stream)
        add_header(r, "Accept: text/event-stream");
    if (r->t->from) {
        char *range cleanup(mem_free) =
            xasprintf("Range: bytes=%llu-", (unsigned long long)r->t->from);
        char *of cleanup(mem_free) = xasprintf("If-Range: %s", r->t->of);

        add_header(r, range);
        add_header(r, of);
    }
}

static void set_request(struct cli_running *r)
{
    char *url cleanup(mem_free) = xasprintf("%s%s", r->c->base, r->t->path);

    cli_transfer_prepare(r->c, r->easy, url);
    (void)curl_easy_setopt(r->easy, CURLOPT_ERRORBUFFER, r->detail);
    (void)curl_easy_setopt(r->easy, CURLOPT_CUSTOMREQUEST, r->t->method);
    (void)curl_easy_setopt(r->easy, CURLOPT_PATH_AS_IS, 1L);
    if (strcmp(r->t->method, "HEAD") == 0)
        (void)curl_easy_setopt(r->easy, CURLOPT_NOBODY, 1L);
    (void)curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
    (void)curl_easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(r->easy, CURLOPT_HEADERDATA, r);
    set_headers(r);
}

static void set_upload(struct cli_running *r)
{
    struct cli_transfer *t = r->t;

    (void)curl_easy_setopt(r->easy, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(r->easy, CURLOPT_READFUNCTION, on_upload);
    (void)curl_easy_setopt(r->easy, CURLOPT_READDATA, r);
    (void)curl_easy_setopt(r->easy, CURLOPT_INFILESIZE_LARGE,
                           t->in_size == UINT64_MAX ? (curl_off_t)-1
                                                    : (curl_off_t)t->in_size);
    add_header(r, "Content-Type: application/octet-stream");
    /* The body cannot be read a second time, so never reuse a connection that
     * may be dead. */
    (void)curl_easy_setopt(r->easy, CURLOPT_FRESH_CONNECT, 1L);
    (void)curl_easy_setopt(r->easy, CURLOPT_FORBID_REUSE, 1L);
    if (t->in_size != UINT64_MAX && !t->bar)
        cli_progress_start(&r->progress, r->c, t->label,
                           t->bar_total ? t->bar_total : t->in_size);
}

/* The file as a part of a form (multipart/form-data). */
static void set_form(struct cli_running *r)
{
    struct cli_transfer *t = r->t;
    curl_mimepart *part;

    r->form = curl_mime_init(r->easy);
    if (!r->form)
        abort(); /* as any small allocation of ours */
    part = curl_mime_addpart(r->form);
    (void)curl_mime_name(part, "purpose");
    (void)curl_mime_data(part, t->form_purpose, CURL_ZERO_TERMINATED);
    part = curl_mime_addpart(r->form);
    (void)curl_mime_name(part, "file");
    (void)curl_mime_filename(part, t->form_name);
    (void)curl_mime_type(part, "application/octet-stream");
    (void)curl_mime_data_cb(part, (curl_off_t)t->in_size, on_upload, NULL,
                            NULL, r);
    (void)curl_easy_setopt(r->easy, CURLOPT_MIMEPOST, r->form);
    cli_progress_start(&r->progress, r->c, t->label, t->in_size);
}

static void set_body(struct cli_running *r)
{
    struct cli_transfer *t = r->t;

    if (t->form_name) {
        set_form(r);
    } else if (t->in >= 0) {
        set_upload(r);
    } else if (t->body || strcmp(t->method, "POST") == 0) {
        r->body = t->body ? json_dumps(t->body, JSON_COMPACT) : xstrdup("");
        if (!r->body)
            abort();
        (void)curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS, r->body);
        (void)curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)strlen(r->body));
        add_header(r, t->body ? "Content-Type: application/json"
                              : "Content-Type:");
    }
    if (t->in >= 0 || t->out >= 0) {
        (void)curl_easy_setopt(r->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(r->easy, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
    } else if (!t->stream && !t->unhurried) {
        (void)curl_easy_setopt(r->easy, CURLOPT_TIMEOUT, JSON_SECONDS);
    }
}

/* ---- moving bytes ------------------------------------------------------- */

int cli_transfer_signal(struct cli *c)
{
    struct signalfd_siginfo info;

    if (c->signal_fd < 0 ||
        read(c->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

static void take_signals(struct cli_running *r)
{
    const struct cli_stream *stream = r->t->stream;
    int number;

    while ((number = cli_transfer_signal(r->c)) > 0)
        if (!stream || !stream->on_signal ||
            stream->on_signal(stream->ctx, number))
            r->gave_up = true;
}

/* Until the transfer ends or a signal ends it. */
static CURLcode drive_transfer(struct cli_running *r)
{
    CURLM *multi = curl_multi_init();
    struct curl_waitfd extra = {.fd = r->c->signal_fd,
                                .events = CURL_WAIT_POLLIN};
    unsigned extras = r->c->signal_fd >= 0 ? 1 : 0;
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int running = 1;

    if (!multi)
        abort();
    (void)curl_multi_add_handle(multi, r->easy);
    while (running && !r->gave_up) {
        struct CURLMsg *msg;
        int left;

        if (curl_multi_perform(multi, &running) != CURLM_OK)
            break;
        msg = curl_multi_info_read(multi, &left);
        if (msg && msg->msg == CURLMSG_DONE)
            result = msg->data.result;
        if (!running)
            break;
        if (r->t->stream && r->t->stream->on_pause)
            r->t->stream->on_pause(r->t->stream->ctx);
        (void)curl_multi_poll(multi, &extra, extras, POLL_MS, NULL);
        take_signals(r);
    }
    (void)curl_multi_remove_handle(multi, r->easy);
    (void)curl_multi_cleanup(multi);
    return result;
}

/* ---- what came of it ---------------------------------------------------- */

static int refused_error(struct cli_running *r, struct error *err)
{
    struct cli_transfer *t = r->t;
    json_t *body cleanup(json_unref) =
        cli_json_load(t->answer.data, t->answer.len);

    (void)cli_refused(body, t->status, r->c->base, err);
    return r->retry_after_s > 0 ? error_retry(err, r->retry_after_s)
                                : -(int)err->code;
}

/* 202 is also the status of a request that waits for approval: an error object
 * then, and nothing has been done. */
static bool is_held(const struct cli_transfer *t)
{
    json_t *body cleanup(json_unref) =
        t->status == 202 ? cli_json_load(t->answer.data, t->answer.len) : NULL;
    const json_t *error = json_object_get(body, "error");

    return strcmp(cli_json_text(error, "code", ""), "pending_approval") == 0;
}

bool cli_transfer_explain(const struct cli *c, int result, const char *detail,
                          struct error *err)
{
    const char *why =
        detail[0] ? detail : curl_easy_strerror((CURLcode)result);

    switch (result) {
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
        (void)error_set(err, ERR_UNAVAILABLE,
                        "what answers at %s is not the service that wrote "
                        "this address to the data directory: it has another "
                        "key",
                        c->base);
        (void)error_hint(err, "Another program may have taken the port. "
                              "Start the service again with `glovebox "
                              "serve`, or name the one you mean with --url "
                              "and --cacert.");
        return true;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        (void)error_set(err, ERR_UNAVAILABLE,
                        "the certificate of %s cannot be verified: %s",
                        c->base, why);
        (void)error_hint(err, "Name a file with the authority that issued it: "
                              "--cacert FILE, GLOVEBOX_CACERT or "
                              "SSL_CERT_FILE. A service with `tls: auto` "
                              "keeps its own in tls/ca.pem of its data "
                              "directory.");
        return true;
    default:
        (void)error_set(err, ERR_UNAVAILABLE, "cannot reach %s: %s", c->base,
                        curl_easy_strerror((CURLcode)result));
        (void)error_hint(err, "Is the service running? `glovebox serve` "
                              "starts one; --url or GLOVEBOX_URL names "
                              "another.");
        return false;
    }
}

static int finish_transfer(struct cli_running *r, CURLcode result,
                           struct error *err)
{
    struct cli_transfer *t = r->t;

    t->status = status_of(r);
    cli_progress_end(&r->progress);
    if (r->gave_up) {
        r->c->interrupted = true;
        (void)error_set(err, ERR_UNAVAILABLE, "interrupted");
        err->errnum = EINTR;
        return -(int)err->code;
    }
    if (r->io_errno == ESTALE) {
        (void)error_set(err, ERR_CONFLICT,
                        "the file changed while it was fetched");
        err->errnum = ESTALE;
        return -(int)err->code;
    }
    if (r->io_errno)
        return error_errno(err, ERR_INTERNAL, r->io_errno, "%s",
                           t->out >= 0 ? "cannot write the file"
                                       : "cannot read the file");
    if (r->too_large)
        return error_set(err, ERR_TOO_LARGE, "the answer is over %u MiB",
                         ANSWER_MAX >> 20);
    /* A refusal may close the connection under an upload: it comes first. */
    if (t->status >= 300 || is_held(t))
        return refused_error(r, err);
    if (r->stream_result < 0)
        return error_set(err, ERR_TOO_LARGE, "an event is over %u MiB",
                         CLI_SSE_EVENT_MAX >> 20);
    if (result != CURLE_OK && r->stream_result == 0) {
        t->broken = true;
        t->untrusted = cli_transfer_explain(r->c, result, r->detail, err);
        err->errnum = t->status ? 0 : ECONNREFUSED;
        return -(int)err->code;
    }
    return 0;
}

int cli_transfer_begin(struct cli *c, struct cli_transfer *t,
                       struct cli_running **ret, struct error *err)
{
    struct cli_running *r;
    int found =
        c->base ? 0 : cli_connect(c, CLI_NEED_RUNNING, NULL, NULL, err);

    if (found < 0)
        return found;
    t->status = 0;
    t->moved = 0;
    t->length = -1;
    t->etag[0] = '\0';
    t->broken = t->untrusted = false;
    buf_reset(&t->answer);
    r = xcalloc(1, sizeof(*r));
    r->c = c;
    r->t = t;
    r->easy = curl_easy_init();
    if (!r->easy)
        abort(); /* as any small allocation of ours */
    set_request(r);
    set_body(r);
    (void)curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
    *ret = r;
    return 0;
}

void *cli_transfer_easy(struct cli_running *r)
{
    return r->easy;
}

int cli_transfer_end(struct cli_running *r, int result, struct error *err)
{
    return finish_transfer(r, (CURLcode)result, err);
}

int cli_transfer_run(struct cli *c, struct cli_transfer *t, struct error *err)
{
    struct cli_running *r cleanup(curl_freep) = NULL;
    int rc = cli_transfer_begin(c, t, &r, err);

    return rc < 0 ? rc : finish_transfer(r, drive_transfer(r), err);
}

void cli_transfer_done(struct cli_transfer *t)
{
    buf_done(&t->answer);
}

/* ---- several at once ---------------------------------------------------- */

/*
 * Several requests at once, on one thread. The caller decides what is sent
 * next and what happens when a request ends. The first failure that the
 * caller does not handle ends all of them.
 */

#define PARALLEL_MAX 16u
#define PARALLEL_POLL_MS 100

struct member {
    struct cli_transfer *t;
    struct cli_running *r; /* NULL: free */
};

struct requests {
    struct cli *c;
    const struct cli_parallel *parallel;
    CURLM *multi;
    struct member members[PARALLEL_MAX];
    size_t count;
};

static void remove_request(struct requests *g, struct member *m)
{
    (void)curl_multi_remove_handle(g->multi, cli_transfer_easy(m->r));
    cli_transfer_free(m->r);
    *m = (struct member){0};
    g->count--;
}

static void requests_done(struct requests *g)
{
    for (size_t i = 0; i < PARALLEL_MAX; i++)
        if (g->members[i].r)
            remove_request(g, &g->members[i]);
    (void)curl_multi_cleanup(g->multi);
}

static int add_request(struct requests *g, struct cli_transfer *t,
                       struct error *err)
{
    struct member *m = g->members;
    int rc;

    while (m->r)
        m++;
    rc = cli_transfer_begin(g->c, t, &m->r, err);
    if (rc < 0)
        return rc;
    m->t = t;
    g->count++;
    (void)curl_multi_add_handle(g->multi, cli_transfer_easy(m->r));
    return 0;
}

/* 1: there may be more to do; 0: all have ended. */
static int add_requests(struct requests *g, struct error *err)
{
    while (g->count < PARALLEL_MAX) {
        struct cli_transfer *t = NULL;
        int rc;

        switch (g->parallel->next(g->parallel->ctx, &t, err)) {
        case CLI_PARALLEL_READY:
            rc = add_request(g, t, err);
            if (rc < 0)
                return rc;
            break;
        case CLI_PARALLEL_LATER:
            return 1;
        case CLI_PARALLEL_NONE:
            return 0;
        case CLI_PARALLEL_FAILED:
            return -(int)err->code;
        }
    }
    return 1;
}

static int end_request(struct requests *g, const struct CURLMsg *msg,
                       struct error *err)
{
    struct member *m = g->members;
    struct cli_transfer *t;
    int rc;

    while (!m->r || cli_transfer_easy(m->r) != msg->easy_handle)
        m++;
    t = m->t;
    rc = cli_transfer_end(m->r, (int)msg->data.result, err);
    remove_request(g, m);
    return g->parallel->ended(g->parallel->ctx, t, rc, err);
}

static int run_requests(struct requests *g, struct error *err)
{
    struct curl_waitfd extra = {.fd = g->c->signal_fd,
                                .events = CURL_WAIT_POLLIN};
    struct CURLMsg *msg;
    int running, left, rc = 0;

    if (curl_multi_perform(g->multi, &running) != CURLM_OK)
        return error_set(err, ERR_INTERNAL, "sending failed");
    while (rc == 0 && (msg = curl_multi_info_read(g->multi, &left)))
        if (msg->msg == CURLMSG_DONE)
            rc = end_request(g, msg, err);
    if (rc < 0 || running < (int)g->count)
        return rc;
    (void)curl_multi_poll(g->multi, &extra, g->c->signal_fd >= 0 ? 1 : 0,
                          PARALLEL_POLL_MS, NULL);
    if (cli_transfer_signal(g->c) == 0)
        return 0;
    g->c->interrupted = true;
    (void)error_set(err, ERR_UNAVAILABLE, "interrupted");
    err->errnum = EINTR;
    return -(int)err->code;
}

int cli_parallel_run(struct cli *c, const struct cli_parallel *parallel,
                     struct error *err)
{
    struct requests g cleanup(requests_done) = {
        .c = c, .parallel = parallel, .multi = curl_multi_init()};
    int rc;

    if (!g.multi)
        abort(); /* as every small allocation does */
    while ((rc = add_requests(&g, err)) > 0) {
        rc = run_requests(&g, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}
