/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the service, by libcurl. One transfer at a time; while it runs
 * the signal descriptor is polled with it. Bodies of files stream through
 * fixed buffers. The key is sent in one header and never printed; redirects
 * are not followed, so it goes nowhere else.
 */
#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define ANSWER_MAX (96u << 20) /* JSON kept in memory */
#define CONNECT_MS 5000L
#define JSON_SECONDS 120L
#define STALL_SECONDS 60L /* a file that moves nothing for so long is dead */
#define POLL_MS 1000

struct transfer {
    struct cli *c;
    CURL *easy;
    struct curl_slist *headers;
    struct buf answer; /* JSON, or an error's body */
    bool too_large;
    int retry_after_s;
    /* upload or download */
    int fd;
    int io_errno;
    bool to_fd;
    uint64_t moved, sent_max;
    const char *label;
    struct cli_progress progress;
    /* event stream */
    const struct cli_stream *stream;
    struct cli_sse sse;
    int stream_result;
    bool gave_up;
};

static void transfer_done(struct transfer *t)
{
    curl_slist_free_all(t->headers);
    if (t->easy)
        curl_easy_cleanup(t->easy);
    buf_done(&t->answer);
    cli_sse_done(&t->sse);
    cli_progress_end(&t->progress);
}

/* ---- curl's callbacks --------------------------------------------------- */

static long status_of(struct transfer *t)
{
    long status = 0;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_body(char *bytes, size_t one, size_t len, void *ctx)
{
    struct transfer *t = ctx;
    bool good = status_of(t) / 100 == 2;

    (void)one; /* always 1 */
    if (good && t->to_fd) {
        int r = fd_write_all(t->fd, bytes, len);

        if (r < 0) {
            t->io_errno = -r;
            return 0;
        }
        if (t->moved == 0) {
            curl_off_t total = -1;

            (void)curl_easy_getinfo(
                t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &total);
            if (total > 0)
                cli_progress_start(&t->progress, t->c, t->label,
                                   (uint64_t)total);
        }
        t->moved += len;
        cli_progress_step(&t->progress, t->moved);
        return len;
    }
    if (good && t->stream) {
        t->stream_result = cli_sse_feed(&t->sse, bytes, len,
                                        t->stream->on_event, t->stream->ctx);
        return t->stream_result == 0 ? len : 0;
    }
    if (t->answer.len + len > ANSWER_MAX) {
        t->too_large = true;
        return 0;
    }
    buf_add(&t->answer, bytes, len);
    return len;
}

static size_t on_upload(char *room, size_t one, size_t len, void *ctx)
{
    struct transfer *t = ctx;
    ssize_t n;

    /* Never past the length that was promised, even if the file grew. */
    len = MIN(one * len, t->sent_max - t->moved);
    do
        n = read(t->fd, room, len);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        t->io_errno = errno;
        return CURL_READFUNC_ABORT;
    }
    t->moved += (uint64_t)n;
    cli_progress_step(&t->progress, t->moved);
    return (size_t)n;
}

static size_t on_header(char *line, size_t one, size_t len, void *ctx)
{
    static const char name[] = "retry-after:";
    struct transfer *t = ctx;
    char text[64];

    (void)one;
    if (len > sizeof(name) && len < sizeof(text) &&
        strncasecmp(line, name, sizeof(name) - 1) == 0) {
        memcpy(text, line, len);
        text[len] = '\0';
        t->retry_after_s = (int)strtol(text + sizeof(name) - 1, NULL, 10);
    }
    return len;
}

/* ---- one transfer ------------------------------------------------------- */

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

static void add_header(struct transfer *t, const char *line)
{
    struct curl_slist *longer = curl_slist_append(t->headers, line);

    if (!longer)
        abort();
    t->headers = longer;
}

static void transfer_init(struct transfer *t, struct cli *c,
                          const char *method, const char *path)
{
    char *url cleanup(mem_free) = xasprintf("%s%s", c->base, path);

    *t = (struct transfer){.c = c, .fd = -1};
    t->easy = curl_easy_init();
    if (!t->easy)
        abort(); /* as any small allocation of ours */
    (void)curl_easy_setopt(t->easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, method);
    (void)curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(t->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(t->easy, CURLOPT_PATH_AS_IS, 1L);
    if (is_loopback(url)) /* the key must not travel by way of a proxy */
        (void)curl_easy_setopt(t->easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    if (c->key) {
        char *line = xasprintf("Authorization: Bearer %s", c->key);

        add_header(t, line);
        explicit_bzero(line, strlen(line));
        free(line);
    }
    add_header(t, "Expect:");
}

/* Reads one pending signal; 0 when there is none. */
static int next_signal(struct cli *c)
{
    struct signalfd_siginfo info;

    if (c->signal_fd < 0 ||
        read(c->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

static void take_signals(struct transfer *t)
{
    int number;

    while ((number = next_signal(t->c)) > 0)
        if (!t->stream || !t->stream->on_signal ||
            t->stream->on_signal(t->stream->ctx, number))
            t->gave_up = true;
}

/* Moves bytes until the transfer ends or a signal ends it. */
static CURLcode drive(struct transfer *t)
{
    CURLM *multi = curl_multi_init();
    struct curl_waitfd extra = {.fd = t->c->signal_fd,
                                .events = CURL_WAIT_POLLIN};
    unsigned extras = t->c->signal_fd >= 0 ? 1 : 0;
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int running = 1;

    if (!multi)
        abort();
    (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
    (void)curl_multi_add_handle(multi, t->easy);
    while (running && !t->gave_up) {
        struct CURLMsg *msg;
        int left;

        if (curl_multi_perform(multi, &running) != CURLM_OK)
            break;
        msg = curl_multi_info_read(multi, &left);
        if (msg && msg->msg == CURLMSG_DONE)
            result = msg->data.result;
        if (!running)
            break;
        (void)curl_multi_poll(multi, &extra, extras, POLL_MS, NULL);
        take_signals(t);
    }
    (void)curl_multi_remove_handle(multi, t->easy);
    (void)curl_multi_cleanup(multi);
    return result;
}

/* ---- what came of it ---------------------------------------------------- */

static enum error_code code_named(const char *name, long status)
{
    for (int i = ERR_NONE + 1; i < ERR_MAX; i++)
        if (strcmp(error_code_name((enum error_code)i), name) == 0)
            return (enum error_code)i;
    if (status == 401)
        return ERR_UNAUTHENTICATED;
    return status >= 500 ? ERR_INTERNAL : ERR_INVALID;
}

static int refused(struct transfer *t, long status, struct error *err)
{
    json_t *body cleanup(json_unref) =
        cli_json_load(t->answer.data, t->answer.len);
    const json_t *e = json_object_get(body, "error");
    const char *message = cli_json_text(e, "message", NULL);
    const char *hint = cli_json_text(e, "hint", "");

    if (message)
        (void)error_set(err, code_named(cli_json_text(e, "code", ""), status),
                        "%s", message);
    else
        (void)error_set(err, code_named("", status),
                        "the service at %s answered %ld", t->c->base, status);
    if (*hint)
        (void)error_hint(err, "%s", hint);
    else if (status == 401)
        (void)error_hint(err,
                         "Set GLOVEBOX_KEY to a valid key, or name a file "
                         "that holds one with --key-file.");
    return t->retry_after_s > 0 ? error_retry(err, t->retry_after_s)
                                : -(int)err->code;
}

static int finish(struct transfer *t, CURLcode result, struct error *err)
{
    long status = status_of(t);

    cli_progress_end(&t->progress);
    if (t->gave_up) {
        t->c->interrupted = true;
        (void)error_set(err, ERR_UNAVAILABLE, "interrupted");
        err->errnum = EINTR;
        return -(int)err->code;
    }
    if (t->io_errno)
        return error_errno(err, ERR_INTERNAL, t->io_errno, "%s",
                           t->to_fd ? "cannot write the file"
                                    : "cannot read the file");
    if (t->too_large)
        return error_set(err, ERR_TOO_LARGE, "the answer is over %u MiB",
                         ANSWER_MAX >> 20);
    /* A refusal may close the connection under an upload: it comes first. */
    if (status >= 300)
        return refused(t, status, err);
    if (t->stream_result < 0)
        return error_set(err, ERR_TOO_LARGE, "an event is over %u MiB",
                         CLI_SSE_EVENT_MAX >> 20);
    if (result != CURLE_OK && t->stream_result == 0) {
        (void)error_set(err, ERR_UNAVAILABLE, "cannot reach %s: %s",
                        t->c->base, curl_easy_strerror(result));
        err->errnum = status ? 0 : ECONNREFUSED;
        return -(int)err->code;
    }
    return 0;
}

static int answer_json(struct transfer *t, json_t **ret, struct error *err)
{
    json_t *value;

    if (!ret)
        return 0;
    if (t->answer.len == 0) {
        *ret = json_null();
        return 0;
    }
    value = cli_json_load(t->answer.data, t->answer.len);
    if (!value)
        return error_set(err, ERR_INTERNAL,
                         "the service at %s did not answer JSON", t->c->base);
    *ret = value;
    return 0;
}

/* ---- the requests ------------------------------------------------------- */

/* text: borrowed until the transfer is over. */
static void set_body(struct transfer *t, const char *text)
{
    (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, text);
    (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                           (curl_off_t)strlen(text));
    add_header(t, *text ? "Content-Type: application/json" : "Content-Type:");
}

int cli_http_json(struct cli *c, const char *method, const char *path,
                  const json_t *body, json_t **ret, struct error *err)
{
    char *text cleanup(mem_free) =
        body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct transfer t cleanup(transfer_done);
    int r;

    transfer_init(&t, c, method, path);
    if (text || strcmp(method, "POST") == 0)
        set_body(&t, text ? text : "");
    (void)curl_easy_setopt(t.easy, CURLOPT_TIMEOUT, JSON_SECONDS);
    r = finish(&t, drive(&t), err);
    return r < 0 ? r : answer_json(&t, ret, err);
}

static void set_stall_limit(struct transfer *t)
{
    (void)curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
}

int cli_http_put(struct cli *c, const char *path, int fd, uint64_t size,
                 const char *label, json_t **ret, struct error *err)
{
    struct transfer t cleanup(transfer_done);
    int r;

    transfer_init(&t, c, "PUT", path);
    t.fd = fd;
    t.sent_max = size;
    set_stall_limit(&t);
    (void)curl_easy_setopt(t.easy, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(t.easy, CURLOPT_READFUNCTION, on_upload);
    (void)curl_easy_setopt(t.easy, CURLOPT_READDATA, &t);
    (void)curl_easy_setopt(t.easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
    add_header(&t, "Content-Type: application/octet-stream");
    cli_progress_start(&t.progress, c, label, size);
    r = finish(&t, drive(&t), err);
    return r < 0 ? r : answer_json(&t, ret, err);
}

int cli_http_get(struct cli *c, const char *path, int fd, const char *label,
                 struct error *err)
{
    struct transfer t cleanup(transfer_done);

    transfer_init(&t, c, "GET", path);
    t.fd = fd;
    t.to_fd = true;
    t.label = label;
    set_stall_limit(&t);
    return finish(&t, drive(&t), err);
}

int cli_http_stream(struct cli *c, const char *method, const char *path,
                    const json_t *body, const struct cli_stream *stream,
                    struct error *err)
{
    char *text cleanup(mem_free) =
        body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct transfer t cleanup(transfer_done);

    transfer_init(&t, c, method, path);
    t.stream = stream;
    if (text)
        set_body(&t, text);
    add_header(&t, "Accept: text/event-stream");
    return finish(&t, drive(&t), err);
}

void cli_http_escape(struct buf *out, const char *text, bool keep_slash)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

    for (; *text; text++) {
        if (strchr(plain, *text) || (*text == '/' && keep_slash))
            buf_add(out, text, 1);
        else
            buf_addf(out, "%%%02X", (unsigned char)*text);
    }
}
