/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of one server, over libcurl: a bounded set of handles, each of
 * which keeps its connection between requests. Runs in gloveboxd on the
 * caller's thread. A handle is used by one thread at a time, so that libcurl
 * shares nothing between threads.
 */
#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fetch/fetch.h"

#define HEAD_MAX (64u << 10) /* of all headers of an answer */
#define TURN_MS 100u         /* how late a cancelled wait is noticed */

struct fetch_client {
    char *ca_file;
    unsigned connect_ms, stall_ms;
    struct mutex lock; /* around what follows */
    struct cond freed;
    CURL **idle; /* room for all */
    unsigned idle_count, used, most;
};

struct fetch_client *fetch_client_new(const struct fetch_client_settings *s)
{
    struct fetch_client *c = xcalloc(1, sizeof(*c));

    c->ca_file = s->ca_file && *s->ca_file ? xstrdup(s->ca_file) : NULL;
    c->connect_ms = s->connect_ms;
    c->stall_ms = s->stall_ms;
    c->most = MAX(s->connections, 1u);
    c->idle = xcalloc(c->most, sizeof(*c->idle));
    mutex_init(&c->lock);
    cond_init(&c->freed);
    return c;
}

void fetch_client_free(struct fetch_client *c)
{
    if (!c)
        return;
    for (unsigned i = 0; i < c->idle_count; i++)
        curl_easy_cleanup(c->idle[i]);
    cond_done(&c->freed);
    mutex_done(&c->lock);
    free(c->idle);
    free(c->ca_file);
    free(c);
}

static bool is_cancelled(const struct fetch_exchange *x)
{
    return x->cancel && atomic_load(x->cancel);
}

/* Waits for a turn. The handle may have a live connection. */
static int take_handle(struct fetch_client *c, const struct fetch_exchange *x,
                       CURL **ret, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);

    while (c->used == c->most) {
        uint64_t now_ms = clock_mono_ms();

        if (is_cancelled(x) || now_ms >= x->deadline_ms)
            return error_set(err, ERR_UNAVAILABLE,
                             "no connection became free in time");
        (void)cond_wait_until(&c->freed, &c->lock,
                              MIN(x->deadline_ms, now_ms + TURN_MS));
    }
    *ret = c->idle_count ? c->idle[--c->idle_count] : curl_easy_init();
    if (!*ret)
        return error_set(err, ERR_INTERNAL, "libcurl does not start");
    c->used++;
    return 0;
}

/* keep: false after a failure, so that the next request connects anew. */
static void return_handle(struct fetch_client *c, CURL *easy, bool keep)
{
    if (keep)
        curl_easy_reset(easy); /* its connection stays */
    else
        curl_easy_cleanup(easy);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);
    c->used--;
    if (keep)
        c->idle[c->idle_count++] = easy;
    cond_signal(&c->freed);
}

/* ---- what libcurl calls ------------------------------------------------- */

struct exchange {
    struct fetch_exchange *x;
    CURL *easy;
    uint64_t body_done;
    bool ended;
};

static size_t on_body_wanted(char *to, size_t size, size_t count, void *ctx)
{
    struct exchange *e = ctx;
    const struct fetch_exchange *x = e->x;
    size_t want =
        (size_t)MIN((uint64_t)(size * count), x->body_len - e->body_done);
    ssize_t n;

    if (x->body) {
        memcpy(to, (const char *)x->body + e->body_done, want);
        e->body_done += want;
        return want;
    }
    do
        n = pread(x->body_fd, to, want, (off_t)(x->body_at + e->body_done));
    while (n < 0 && errno == EINTR);
    if (n < 0 || (n == 0 && want > 0)) /* shorter than it was */
        return CURL_READFUNC_ABORT;
    e->body_done += (uint64_t)n;
    return (size_t)n;
}

/* libcurl sends a body again when a kept connection turned out closed. */
static int on_body_seek(void *ctx, curl_off_t at, int origin)
{
    struct exchange *e = ctx;

    if (origin != SEEK_SET || at < 0 || (uint64_t)at > e->x->body_len)
        return CURL_SEEKFUNC_FAIL;
    e->body_done = (uint64_t)at;
    return CURL_SEEKFUNC_OK;
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct exchange *e = ctx;
    struct buf *head = e->x->head;
    size_t len = size * count;
    const char *colon = memchr(line, ':', len);

    if (!head)
        return len;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0)
        buf_reset(head); /* that of "100 Continue" does not count */
    if (head->len + len > HEAD_MAX)
        return 0; /* ends the exchange */
    if (!colon)
        return len;
    for (const char *c = line; c < line + len; c++) {
        char byte = c < colon ? (char)tolower((unsigned char)*c) : *c;

        if (byte != '\r' && byte != '\n')
            buf_add(head, &byte, 1);
    }
    buf_adds(head, "\n");
    return len;
}

static size_t on_answer(char *bytes, size_t size, size_t count, void *ctx)
{
    struct exchange *e = ctx;
    long status = 0;

    e->x->received += size * count;
    if (!e->x->on_bytes)
        return size * count;
    (void)curl_easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &status);
    if (e->x->on_bytes(e->x->ctx, status, bytes, size * count) == 0)
        return size * count;
    e->ended = true;
    return 0;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                       curl_off_t d)
{
    const struct exchange *e = ctx;

    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return is_cancelled(e->x) || clock_mono_ms() >= e->x->deadline_ms;
}

/* ---- an exchange -------------------------------------------------------- */

static void set_options(struct fetch_client *c, struct exchange *e,
                        struct curl_slist *headers, char *why)
{
    const struct fetch_exchange *x = e->x;
    bool plain = strncmp(x->url, "http:", 5) == 0;
    CURL *easy = e->easy;

    (void)curl_easy_setopt(easy, CURLOPT_URL, x->url);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
                           plain ? "http" : "https");
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                           (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    if (c->connect_ms)
        (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                               (long)c->connect_ms);
    if (c->stall_ms) {
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                               (long)MAX(c->stall_ms / 1000, 1u));
    }
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT,
                           "glovebox/" GLOVEBOX_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    if (c->ca_file)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, c->ca_file);
    if (x->has_body) {
        (void)curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                               (curl_off_t)x->body_len);
        (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_body_wanted);
        (void)curl_easy_setopt(easy, CURLOPT_READDATA, e);
        (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_body_seek);
        (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, e);
    }
    if (strcmp(x->method, "HEAD") == 0)
        (void)curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, x->method);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, e);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, e);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, e);
    if (plain) /* this machine */
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

int fetch_client_run(struct fetch_client *c, struct fetch_exchange *x,
                     struct error *err)
{
    struct exchange e = {.x = x};
    char why[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    curl_off_t sent = 0;
    CURLcode code;
    int r = take_handle(c, x, &e.easy, err);

    if (r < 0)
        return r;
    /* Without this, libcurl waits a second for "100 Continue". */
    headers = curl_slist_append(headers, "Expect:");
    for (size_t i = 0; x->headers && x->headers[i]; i++)
        headers = curl_slist_append(headers, x->headers[i]);
    set_options(c, &e, headers, why);
    code = curl_easy_perform(e.easy);
    (void)curl_easy_getinfo(e.easy, CURLINFO_RESPONSE_CODE, &x->status);
    if (curl_easy_getinfo(e.easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK)
        x->sent += (uint64_t)sent;
    return_handle(c, e.easy, code == CURLE_OK);
    curl_slist_free_all(headers);
    if (e.ended)
        return 1;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return error_set(err, ERR_UNAVAILABLE, "%s",
                         is_cancelled(x) ? "the service is stopping"
                                         : "the deadline passed");
    if (code != CURLE_OK)
        return error_set(err, ERR_UNAVAILABLE, "%.200s",
                         why[0] ? why : curl_easy_strerror(code));
    return 0;
}

bool fetch_head_find(const struct buf *head, const char *name, char *ret,
                     size_t size)
{
    size_t name_len = strlen(name);
    const char *at = head->data, *end = head->data + head->len;

    while (at && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = stop ? (size_t)(stop - at) : (size_t)(end - at);

        if (len > name_len && memcmp(at, name, name_len) == 0 &&
            at[name_len] == ':') {
            const char *value = at + name_len + 1;
            size_t value_len = len - name_len - 1;

            while (value_len && (*value == ' ' || *value == '\t')) {
                value++;
                value_len--;
            }
            while (value_len && (value[value_len - 1] == ' ' ||
                                 value[value_len - 1] == '\t'))
                value_len--;
            if (value_len >= size)
                return false;
            memcpy(ret, value, value_len);
            ret[value_len] = '\0';
            return true;
        }
        at += len + 1;
    }
    return false;
}
