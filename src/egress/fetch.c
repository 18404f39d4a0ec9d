/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GET to the package index the operator configured, or to where its pages
 * point. Runs in glovebox-egress on its loop. Uses the same reaching, TLS and
 * reading as what sessions ask for; follows a few redirects, because indexes
 * send one to the right spelling.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "egress/packages_int.h"

#define REDIRECTS_MAX 3u
/* What pip sends: the JSON form needs no guessing. */
#define ACCEPT_PAGE                                                           \
    "application/vnd.pypi.simple.v1+json, "                                   \
    "application/vnd.pypi.simple.v1+html;q=0.5, text/html;q=0.4, */*;q=0.1"

struct fetch {
    struct egress *e;
    struct conn *via; /* the pieces of a connection that we need */
    char *url, *index;
    int out;
    uint64_t most, got, deadline_ms;
    unsigned redirects;
    bool answered, over, moved, json;
    unsigned status;
    struct http_body body;
    struct buf page;
    void (*on_done)(void *ctx, unsigned status, const char *why);
    void *ctx;
};

static void fetch_begin(struct fetch *f);

static void fetch_finish(struct fetch *f, unsigned status, const char *why)
{
    if (f->over)
        return;
    f->over = true;
    egress_conn_leave(f->via);
    f->on_done(f->ctx, status, why);
}

/* "http[s]://host[:port]/path" */
static const char *parse_url(const char *url, struct http_target *ret,
                             bool *ret_tls)
{
    const char *at = url;
    size_t n;

    *ret_tls = strncasecmp(url, "https://", 8) == 0;
    if (*ret_tls)
        at += 8;
    else if (strncasecmp(url, "http://", 7) == 0)
        at += 7;
    else
        return "its address does not begin with http:// or https://";
    n = strcspn(at, "/?#");
    if (at[n] != '/')
        return "its address has no path";
    if (egress_url_authority((struct span){at, n}, *ret_tls ? 443 : 80, ret))
        return "its address has no host";
    return egress_url_origin((struct span){at + n, strlen(at + n)}, ret);
}

static void send_request(struct fetch *f)
{
    struct http_target t = {.port = 0};
    struct buf b cleanup(buf_done) = {0};
    bool tls = false, v6;

    (void)parse_url(f->url, &t, &tls); /* it was fine before */
    v6 = strchr(t.host, ':') != NULL;
    buf_addf(&b, "GET %.*s%.*s HTTP/1.1\r\nHost: %s%s%s", (int)t.path.len,
             t.path.at, (int)t.query.len, t.query.at, v6 ? "[" : "", t.host,
             v6 ? "]" : "");
    if (t.port != (tls ? 443 : 80))
        buf_addf(&b, ":%u", t.port);
    buf_addf(&b, "\r\nAccept: %s\r\n", f->out < 0 ? ACCEPT_PAGE : "*/*");
    buf_adds(
        &b,
        "Accept-Encoding: identity\r\nUser-Agent: glovebox-egress/" GLOVEBOX_VERSION
        "\r\nConnection: close\r\n\r\n");
    egress_peer_write(&f->via->server, b.data, b.len);
}

static void fetch_redirect(struct fetch *f, const struct http_head *h)
{
    const struct http_field *to = egress_head_field(h, "Location");
    char *next;

    if (!to || ++f->redirects > REDIRECTS_MAX || f->got) {
        fetch_finish(f, 0, "it redirects too often");
        return;
    }
    next =
        to->value.len && to->value.at[0] == '/'
            ? xasprintf("%.*s%.*s",
                        (int)(strchr(strstr(f->url, "://") + 3, '/') - f->url),
                        f->url, (int)to->value.len, to->value.at)
            : xstrndup(to->value.at, to->value.len);
    free(f->url);
    f->url = next;
    egress_conn_leave(f->via);
    fetch_begin(f);
}

static bool is_json(const struct http_head *h)
{
    static const char *const types[] = {"application/vnd.pypi.simple.v1+json",
                                        "application/json"};
    const struct http_field *type = egress_head_field(h, "Content-Type");

    for (size_t i = 0; type && i < ARRAY_SIZE(types); i++) {
        size_t len = strlen(types[i]);

        if (type->value.len >= len &&
            strncasecmp(type->value.at, types[i], len) == 0 &&
            (type->value.len == len || strchr("; ", type->value.at[len])))
            return true;
    }
    return false;
}

/* False: nothing more can be done now. */
static bool take_head(struct fetch *f)
{
    struct peer *p = &f->via->server;
    struct http_head h;
    ssize_t n = egress_head_end(p->in.data, p->in.len);

    if (n == 0)
        return false;
    if (n < 0 || egress_head_answer(p->in.data, (size_t)n, false, &h)) {
        fetch_finish(f, 0, "its answer is not HTTP");
        return false;
    }
    if (h.status >= 301 && h.status <= 308 && h.status != 304) {
        fetch_redirect(f, &h);
        return false;
    }
    if (h.status >= 200) {
        f->status = h.status;
        f->json = is_json(&h);
        f->answered = true;
        egress_body_init(&f->body, h.framing, h.length);
        if (h.status == 200 && h.framing == HTTP_BODY_LENGTH &&
            h.length > f->most) {
            fetch_finish(f, 0, "it is too large");
            return false;
        }
    }
    buf_consume(&p->in, (size_t)n);
    return true;
}

/* Chunks without their frames: what is kept is the content. */
static bool fetch_store_bytes(struct fetch *f, const char *bytes, size_t len)
{
    f->got += len;
    f->moved = true;
    if (f->got > f->most)
        return false;
    if (f->out < 0) {
        buf_add(&f->page, bytes, len);
        return true;
    }
    while (len) {
        ssize_t n = write(f->out, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* One byte at a time where it is framing, whole runs where it is data. */
static bool take_body(struct fetch *f)
{
    struct buf *in = &f->via->server.in;
    size_t at = 0;

    while (at < in->len && !f->body.done) {
        bool chunked = f->body.framing == HTTP_BODY_CHUNKED;
        size_t run =
            chunked ? egress_body_run(&f->body, in->len - at) : in->len - at;
        ssize_t n = egress_body_take(&f->body, in->data + at, run ? run : 1);

        if (n <= 0) {
            fetch_finish(f, 0, "its body is not framed as it says");
            return false;
        }
        if ((run || !chunked) && f->status == 200 &&
            !fetch_store_bytes(f, in->data + at, (size_t)n)) {
            fetch_finish(f, 0, "it is too large");
            return false;
        }
        at += (size_t)n;
    }
    buf_consume(in, at);
    return true;
}

static void fetch_step(struct fetch *f)
{
    struct peer *p = &f->via->server;

    egress_peer_flush(p);
    while (!f->answered)
        if (!take_head(f))
            break;
    if (f->over || p->fd < 0)
        return;
    if (f->answered && !take_body(f))
        return;
    if (f->answered &&
        (f->body.done || (f->body.framing == HTTP_BODY_CLOSE && p->eof)))
        fetch_finish(f, f->status, "");
    else if (p->eof || p->broken)
        fetch_finish(
            f, 0, p->ssl && !p->ready ? "TLS with it failed" : "it hung up");
    else
        egress_peer_arm(f->e, p, true);
}

static void on_server(void *ctx, uint32_t events)
{
    struct fetch *f = ctx;
    struct peer *p = &f->via->server;
    bool was_ready = p->ready;

    if (events & ~(uint32_t)EPOLLOUT)
        egress_peer_read(p);
    if (!was_ready && p->ready)
        send_request(f);
    fetch_step(f);
}

static void on_reached(void *ctx, int fd)
{
    struct fetch *f = ctx;
    struct conn *c = f->via;

    if (fd < 0) {
        fetch_finish(f, 0, c->dial.why);
        return;
    }
    egress_peer_init(&c->server, fd);
    c->server.watch.on_event = on_server;
    c->server.watch.ctx = f;
    if (c->inspected && !egress_inspect_connect(c)) {
        fetch_finish(f, 0, "TLS could not be begun");
        return;
    }
    if (!c->inspected)
        send_request(f);
    egress_peer_flush(&c->server);
    egress_peer_arm(f->e, &c->server, true);
}

static void fetch_begin(struct fetch *f)
{
    struct http_target index = {.port = 0};
    bool tls, index_tls;
    const char *why = parse_url(f->url, &f->via->target, &tls);

    if (!why)
        why = parse_url(f->index, &index, &index_tls);
    if (why) {
        fetch_finish(f, 0, why);
        return;
    }
    f->via->inspected = tls;
    f->deadline_ms = clock_mono_ms() + 3 * (uint64_t)f->e->setup.connect_ms;
    egress_dial_start(&f->via->dial, f->e, &f->via->target,
                      strcmp(index.host, f->via->target.host) == 0, on_reached,
                      f);
}

struct fetch *egress_fetch_start(struct egress *e, const char *url,
                                 const char *index, int out, uint64_t most,
                                 void (*on_done)(void *ctx, unsigned status,
                                                 const char *why),
                                 void *ctx)
{
    struct fetch *f = xcalloc(1, sizeof(*f));

    *f = (struct fetch){.e = e,
                        .via = xcalloc(1, sizeof(*f->via)),
                        .url = xstrdup(url),
                        .index = xstrdup(index),
                        .out = out,
                        .most = most,
                        .on_done = on_done,
                        .ctx = ctx};
    f->via->e = e;
    egress_peer_init(&f->via->server, -1);
    egress_peer_init(&f->via->client, -1);
    fetch_begin(f);
    return f;
}

const struct buf *egress_fetch_body(const struct fetch *f)
{
    return &f->page;
}

const char *egress_fetch_url(const struct fetch *f)
{
    return f->url;
}

bool egress_fetch_json(const struct fetch *f)
{
    return f->json;
}

bool egress_fetch_tick(struct fetch *f, uint64_t now_ms)
{
    bool moved = f->moved;

    f->moved = false;
    if (moved)
        f->deadline_ms = now_ms + f->e->setup.idle_ms;
    if (!f->over)
        egress_dial_tick(&f->via->dial, now_ms);
    if (!f->over && now_ms >= f->deadline_ms)
        fetch_finish(f, 0, "it did not answer in time");
    return moved;
}

void egress_fetch_free(struct fetch *f)
{
    if (!f)
        return;
    egress_conn_leave(f->via);
    free(f->via);
    free(f->url);
    free(f->index);
    buf_done(&f->page);
    free(f);
}
