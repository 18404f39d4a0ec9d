/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of glovebox-model: a request by libcurl, its answer fed to the
 * parser, frames to gloveboxd. No redirect is followed, no proxy is used, and
 * link-local addresses, where clouds keep their secrets, are never connected
 * to. What gloveboxd does not read holds the transfer up.
 */
#include "upstream/transfer_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define OUT_HIGH ((size_t)256 << 10)
#define OUT_LOW ((size_t)64 << 10)
#define DRAIN_MS 30000u /* for gloveboxd to read the end */

/* ---- out ---------------------------------------------------------------- */

static void add_frame(void *ctx, enum model_frame_type type, unsigned item,
                      const void *data, size_t len)
{
    struct transfer *t = ctx;
    struct model_frame head = {(uint32_t)type, item, (uint32_t)len};

    if (len > MODEL_FRAME_MAX)
        return; /* answer.c keeps its frames below */
    buf_add(&t->out, &head, sizeof(head));
    buf_add(&t->out, data, len);
}

void transfer_flush(struct transfer *t)
{
    size_t sent = 0;

    while (sent < t->out.len && !t->gone) {
        ssize_t n = send(t->stream, t->out.data + sent, t->out.len - sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            t->gone = true;
            break;
        }
        sent += (size_t)n;
    }
    buf_consume(&t->out, sent);
    if (t->paused && t->out.len < OUT_LOW && t->easy) {
        t->paused = false;
        t->last_ms = clock_mono_ms(); /* the pause was not the server's */
        (void)curl_easy_pause(t->easy, CURLPAUSE_CONT);
    }
}

void transfer_refuse(int stream, enum model_outcome outcome, const char *why)
{
    struct model_frame head = {MODEL_FRAME_END, 0, sizeof(struct model_end)};
    struct model_end end = {.outcome = outcome, .retry = MODEL_RETRY_NO};

    (void)snprintf(end.message, sizeof(end.message), "%s", why);
    (void)!send(stream, &head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)!send(stream, &end, sizeof(end), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- in ----------------------------------------------------------------- */

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;

    if (t->out.len > OUT_HIGH) {
        t->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    t->last_ms = clock_mono_ms();
    if (upstream_answer_feed(t->answer, bytes, size * count))
        return size * count;
    t->enough = true;
    return 0; /* ends the transfer */
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;
    size_t len = size * count;
    long status;
    char copy[64];

    t->last_ms = clock_mono_ms();
    t->connected = true;
    if (len > 5 && memcmp(line, "HTTP/", 5) == 0) {
        (void)snprintf(copy, sizeof(copy), "%.*s",
                       (int)MIN(len, sizeof(copy) - 1), line);
        if (sscanf(copy, "HTTP/%*s %ld", &status) == 1)
            upstream_answer_status(t->answer, status);
    } else {
        upstream_answer_header(t->answer, line, len);
    }
    return len;
}

/* Clouds serve credentials at link-local addresses. */
static bool is_refused4(uint32_t a, bool public_only)
{
    if (a >> 16 == 0xa9fe || a == 0 || a >> 28 >= 14)
        return true;
    return public_only &&
           (a >> 24 == 127 || a >> 24 == 10 || a >> 24 == 0 ||
            a >> 20 == 0xac1 || a >> 16 == 0xc0a8 || a >> 22 == 0x191);
}

static bool is_refused(const struct sockaddr *address, bool public_only)
{
    const struct in6_addr *a;
    uint32_t mapped;

    if (address->sa_family == AF_INET)
        return is_refused4(
            ntohl(((const struct sockaddr_in *)(const void *)address)
                      ->sin_addr.s_addr),
            public_only);
    if (address->sa_family != AF_INET6)
        return true;
    a = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    memcpy(&mapped, &a->s6_addr[12], sizeof(mapped));
    if (IN6_IS_ADDR_V4MAPPED(a))
        return is_refused4(ntohl(mapped), public_only);
    return IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_MULTICAST(a) ||
           IN6_IS_ADDR_UNSPECIFIED(a) ||
           (public_only &&
            (IN6_IS_ADDR_LOOPBACK(a) || (a->s6_addr[0] & 0xfe) == 0xfc));
}

static curl_socket_t on_socket(void *ctx, curlsocktype purpose,
                               struct curl_sockaddr *address)
{
    struct transfer *t = ctx;

    (void)purpose;
    if (is_refused(&address->addr, t->public_only)) {
        t->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC,
                  address->protocol);
}

/* ---- start -------------------------------------------------------------- */

static void add_header(struct transfer *t, const char *name, const char *value)
{
    char *line = xasprintf("%s: %s", name, value);

    t->headers = curl_slist_append(t->headers, line);
    explicit_bzero(line, strlen(line));
    free(line);
}

static void set_options(struct transfer *t, const struct model_call_msg *c,
                        const char *url, const char *ca_file)
{
    CURL *e = t->easy;

    (void)curl_easy_setopt(e, CURLOPT_URL, url);
    (void)curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->fault);
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(e, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    (void)curl_easy_setopt(e, CURLOPT_USERAGENT, "glovebox/" GLOVEBOX_VERSION);
    (void)curl_easy_setopt(e, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, t->body.data);
    (void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                           (curl_off_t)t->body.len);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)c->connect_ms);
    (void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)c->total_ms);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
    (void)curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    if (c->public_only) { /* no connection that another was allowed to make */
        (void)curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
        (void)curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
    }
    if (ca_file[0]) /* beside the host's, which are in a folder */
        (void)curl_easy_setopt(e, CURLOPT_CAINFO, ca_file);
}

static bool prepare(struct transfer *t, const struct model_call_msg *call,
                    const json_t *prompt, struct buf *url, const char **why)
{
    *why = "the request could not be made";
    if (!json_is_object(prompt) ||
        !upstream_request(call, prompt, url, &t->body, why))
        return false;
    add_header(t, "Content-Type", "application/json");
    add_header(t, "Accept",
               call->embed ? "application/json" : "text/event-stream");
    t->headers = curl_slist_append(t->headers, "Expect:");
    if (call->dialect == MODEL_DIALECT_ANTHROPIC)
        add_header(t, "anthropic-version", "2023-06-01");
    if (call->header[0])
        add_header(t, call->header, call->secret);
    t->easy = curl_easy_init();
    return t->easy != NULL;
}

struct transfer *transfer_new(CURLM *multi, const struct model_call_msg *call,
                              const char *prompt, size_t len, int stream,
                              const char *ca_file)
{
    struct transfer *t = xcalloc(1, sizeof(*t));
    json_t *value = json_loadb(prompt, len, JSON_ALLOW_NUL, NULL);
    struct buf url cleanup(buf_done) = {0};
    const char *why = NULL;

    t->stream = stream;
    t->idle_ms = call->idle_ms;
    t->public_only = call->public_only != 0;
    t->last_ms = clock_mono_ms();
    t->ends_ms = t->last_ms + call->total_ms + DRAIN_MS;
    t->answer = upstream_answer_new(
        (enum model_dialect)call->dialect, call->embed,
        json_array_size(json_object_get(value, "tools")) > 0, add_frame, t);
    if (!prepare(t, call, value, &url, &why)) {
        json_decref(value);
        transfer_refuse(stream, MODEL_REFUSED, why);
        return t;
    }
    json_decref(value);
    set_options(t, call, url.data, ca_file);
    if (curl_multi_add_handle(multi, t->easy) != CURLM_OK) {
        curl_easy_cleanup(t->easy);
        t->easy = NULL;
        transfer_refuse(stream, MODEL_BUSY, "libcurl takes no more calls");
    }
    return t;
}

/* ---- end ---------------------------------------------------------------- */

static void drop_easy(struct transfer *t, CURLM *multi)
{
    if (!t->easy)
        return;
    (void)curl_multi_remove_handle(multi, t->easy);
    curl_easy_cleanup(t->easy);
    t->easy = NULL;
}

void transfer_end(struct transfer *t, CURLM *multi, CURLcode code)
{
    enum upstream_transport how = UPSTREAM_COMPLETE;
    char why[CURL_ERROR_SIZE + 64];

    (void)snprintf(why, sizeof(why), "%s",
                   t->refused    ? "its address is link-local or private, and "
                                   "such addresses are not connected to"
                   : t->fault[0] ? t->fault
                                 : curl_easy_strerror(code));
    if (code == CURLE_OPERATION_TIMEDOUT)
        how = t->connected ? UPSTREAM_SLOW : UPSTREAM_UNREACHABLE;
    else if (code != CURLE_OK && !t->enough)
        how = t->connected ? UPSTREAM_BROKEN : UPSTREAM_UNREACHABLE;
    drop_easy(t, multi);
    upstream_answer_end(t->answer, how, why);
    transfer_flush(t);
}

void transfer_check(struct transfer *t, CURLM *multi, uint64_t now_ms)
{
    if (now_ms > t->ends_ms)
        t->gone = true;
    if (!t->easy || t->gone || t->paused || now_ms < t->last_ms + t->idle_ms)
        return;
    drop_easy(t, multi);
    upstream_answer_end(t->answer, UPSTREAM_SLOW,
                        t->connected ? "it sent nothing for too long"
                                     : "it did not answer in time");
    transfer_flush(t);
}

bool transfer_is_over(const struct transfer *t)
{
    return t->gone || (!t->easy && t->out.len == 0);
}

void transfer_free(struct transfer *t, CURLM *multi)
{
    drop_easy(t, multi);
    for (struct curl_slist *h = t->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(t->headers);
    upstream_answer_free(t->answer);
    buf_done(&t->body);
    buf_done(&t->out);
    fd_close(&t->stream);
    free(t);
}
