/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries one request to another node and its answer back, over libcurl and
 * mutual TLS; see node.h. Runs in gloveboxd on the thread that serves the
 * request. No byte is kept: the body is read from the client as the other
 * node takes it, and the answer is written to the client as it comes, so a
 * slow side slows the other one.
 *
 * The address and the pin of the other node's key come from the store alone
 * (N4). This node shows its own key, whose pin the other node compares with
 * the store. Connections are kept and used again.
 */
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "node/node_int.h"

#define CHANNELS_MAX 64u
#define CONNECT_MS 2000L
#define LOOK_MS 200u
#define SILENT_MS 10000u /* unacknowledged bytes: the link is dead */
#define HEADERS_MAX 48u
#define HEADER_BYTES ((size_t)16 << 10)

struct node_channel {
    struct node_channel *next;
    CURL *easy;
    char node[ID_MAX];
    int64_t epoch;
};

struct transfer {
    struct nodes *n;
    const struct node_carry *carry;
    struct node_peer peer;
    bool sent;   /* something of the request may have been seen */
    bool headed; /* the head was given to the client */
    bool broken; /* the client left, or its body broke off */
    bool gone;   /* the other node's lease has ended */
    unsigned status;
    uint64_t length;
    uint64_t looked_ms;
    struct node_header headers[HEADERS_MAX];
    size_t count, used;
    char text[HEADER_BYTES];
};

/* ---- connections -------------------------------------------------------- */

static struct node_channel *channel_get(struct nodes *n,
                                        const struct node_peer *peer)
{
    struct node_channel **at, *c = NULL;

    mutex_lock(&n->lock);
    for (at = &n->channels; *at && !c; at = c ? at : &(*at)->next)
        if (strcmp((*at)->node, peer->info.id) == 0 &&
            (*at)->epoch == peer->info.epoch) {
            c = *at;
            *at = c->next;
            n->channel_count--;
            break;
        }
    mutex_unlock(&n->lock);
    if (c)
        return c;
    c = xcalloc(1, sizeof(*c));
    c->easy = curl_easy_init();
    c->epoch = peer->info.epoch;
    (void)snprintf(c->node, sizeof(c->node), "%s", peer->info.id);
    if (!c->easy)
        abort(); /* out of memory, as the x* wrappers do */
    return c;
}

static void channel_free(struct node_channel *c)
{
    curl_easy_cleanup(c->easy);
    free(c);
}

static void channel_put(struct nodes *n, struct node_channel *c, bool good)
{
    mutex_lock(&n->lock);
    if (good && n->channel_count < CHANNELS_MAX) {
        c->next = n->channels;
        n->channels = c;
        n->channel_count++;
        c = NULL;
    }
    mutex_unlock(&n->lock);
    if (c)
        channel_free(c);
}

void node_channels_close(struct nodes *n)
{
    while (n->channels) {
        struct node_channel *next = n->channels->next;

        channel_free(n->channels);
        n->channels = next;
    }
}

/* ---- what libcurl calls ------------------------------------------------- */

static size_t on_read(char *bytes, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;
    ssize_t n = t->carry->read(t->carry->ctx, bytes, size * count);

    t->sent = true;
    if (n < 0) {
        t->broken = true;
        return CURL_READFUNC_ABORT;
    }
    return (size_t)n;
}

/* Of the connection, not of the answer; or set again by this node. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {
        "Connection",
        "Keep-Alive",
        "Transfer-Encoding",
        "Content-Length",
        "Date",
        "X-Request-Id",
        "X-Accel-Buffering",
        "X-Content-Type-Options",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static bool keep_header(struct transfer *t, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    size_t name = colon ? (size_t)(colon - line) : 0;
    size_t at = name + 1;
    char *room = t->text + t->used;

    while (len > at && (line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    while (at < len && line[at] == ' ')
        at++;
    if (!colon || t->count == HEADERS_MAX ||
        t->used + len + 2 > sizeof(t->text))
        return colon == NULL;
    memcpy(room, line, name);
    room[name] = '\0';
    memcpy(room + name + 1, line + at, len - at);
    room[name + 1 + len - at] = '\0';
    if (strcasecmp(room, "Content-Length") == 0)
        t->length = strtoull(room + name + 1, NULL, 10);
    if (is_ours(room))
        return true;
    t->headers[t->count++] = (struct node_header){room, room + name + 1};
    t->used += name + len - at + 2;
    return true;
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;
    size_t len = size * count;
    bool end = len <= 2;

    t->sent = true;
    if (len > 9 && strncmp(line, "HTTP/", 5) == 0) {
        const char *space = memchr(line, ' ', len);

        t->status = space ? (unsigned)strtoul(space, NULL, 10) : 0;
        t->count = t->used = 0;
        t->length = UINT64_MAX;
        return len;
    }
    if (!end)
        return keep_header(t, line, len) ? len : 0;
    if (t->status < 200) /* 100 Continue: another head follows */
        return len;
    t->headed = true;
    if (t->carry->head(t->carry->ctx, t->status, t->headers, t->count,
                       t->length) == 0)
        return len;
    t->broken = true;
    return 0;
}

static size_t on_write(char *bytes, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;

    if (t->carry->write(t->carry->ctx, bytes, size * count) == 0)
        return size * count;
    t->broken = true;
    return 0;
}

/* Called at least once a second. */
static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                       curl_off_t d)
{
    struct transfer *t = ctx;
    uint64_t now = clock_mono_ms();
    struct node_peer peer;

    (void)a;
    (void)b;
    (void)c;
    (void)d;
    if (now < t->looked_ms + LOOK_MS)
        return 0;
    t->looked_ms = now;
    t->broken |= t->carry->left(t->carry->ctx);
    t->gone |= !node_peer_get(t->n, t->carry->node, &peer) ||
               peer.info.epoch != t->peer.info.epoch;
    return t->broken || t->gone;
}

static int on_socket(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    unsigned ms = SILENT_MS;

    (void)ctx;
    (void)purpose;
    /* Without it a dead link is noticed after minutes. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
    return CURL_SOCKOPT_OK;
}

/* ---- one request -------------------------------------------------------- */

/* "sha256//BASE64" of the pin, which the store has in hex. */
static bool pin_text(const char *hex, char ret[64])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                  "qrstuvwxyz0123456789+/";
    unsigned char b[33] = {0};
    size_t used;

    if (strlen(hex) != 64)
        return false;
    for (size_t i = 0; i < 32; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        b[i] = (unsigned char)(high * 16 + low);
    }
    used = (size_t)snprintf(ret, 64, "sha256//");
    for (size_t i = 0; i < 33; i += 3) {
        uint32_t v = (uint32_t)b[i] << 16 | (uint32_t)b[i + 1] << 8 | b[i + 2];

        for (int s = 18; s >= 0; s -= 6)
            ret[used++] = letters[v >> s & 63];
    }
    ret[used - 1] = '='; /* 32 bytes: 43 letters and one of padding */
    ret[used] = '\0';
    return true;
}

static struct curl_slist *headers_of(const struct node_carry *carry)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    for (size_t i = 0; i < carry->header_count; i++) {
        const struct node_header *h = &carry->headers[i];
        /* libcurl's way to send a header without a value. */
        char *line cleanup(mem_free) =
            h->value[0] ? xasprintf("%s: %s", h->name, h->value)
                        : xasprintf("%s;", h->name);

        list = curl_slist_append(list, line);
    }
    return list;
}

static void set_body(CURL *easy, struct transfer *t, struct curl_slist **list)
{
    const struct node_carry *carry = t->carry;

    if (strcmp(carry->method, "HEAD") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (carry->length == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, carry->method);
        if (strcmp(carry->method, "GET") != 0)
            *list = curl_slist_append(*list, "Content-Length: 0");
        return;
    }
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, carry->method);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, t);
    if (carry->length != UINT64_MAX)
        (void)curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                               (curl_off_t)carry->length);
    else
        *list = curl_slist_append(*list, "Transfer-Encoding: chunked");
}

static CURLcode perform(CURL *easy, struct transfer *t, const char *pin,
                        char *why)
{
    struct nodes *n = t->n;
    char *url cleanup(mem_free) =
        xasprintf("https://%s.invalid%s", t->peer.info.tag, t->carry->target);
    char *to cleanup(mem_free) = xasprintf("::%s", t->peer.info.address);
    struct curl_slist *list = headers_of(t->carry);
    struct curl_slist *connect = curl_slist_append(NULL, to);
    CURLcode code;

    curl_easy_reset(easy);
    set_body(easy, t, &list);
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                           (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 5L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 2L);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    /* The key itself is known from the store; no authority is asked. */
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_PINNEDPUBLICKEY, pin);
    (void)curl_easy_setopt(easy, CURLOPT_SSLVERSION,
                           (long)CURL_SSLVERSION_TLSv1_2);
    (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, n->certificate_file);
    (void)curl_easy_setopt(easy, CURLOPT_SSLKEY, n->key_file);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 64L << 10);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    code = curl_easy_perform(easy);
    curl_slist_free_all(list);
    curl_slist_free_all(connect);
    return code;
}

/* Nothing of the request can have been seen: there was no connection. */
static bool unconnected(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT ||
           code == CURLE_COULDNT_RESOLVE_HOST ||
           code == CURLE_SSL_CONNECT_ERROR ||
           code == CURLE_SSL_PINNEDPUBKEYNOTMATCH;
}

int node_carry(struct nodes *n, const struct node_carry *carry, bool *ret_sent,
               struct error *err)
{
    struct transfer *t cleanup(mem_free) = xcalloc(1, sizeof(*t));
    char why[CURL_ERROR_SIZE] = "", pin[64];
    struct node_channel *channel;
    long connects = 1;
    CURLcode code;

    t->n = n;
    t->carry = carry;
    t->length = UINT64_MAX;
    *ret_sent = false;
    if (!node_peer_find(n, carry->node, &t->peer) ||
        !pin_text(t->peer.info.pin, pin)) {
        (void)error_set(err, ERR_UNAVAILABLE, "the node is gone");
        return error_retry(err, 1);
    }
    channel = channel_get(n, &t->peer);
    code = perform(channel->easy, t, pin, why);
    (void)curl_easy_getinfo(channel->easy, CURLINFO_NUM_CONNECTS, &connects);
    channel_put(n, channel, code == CURLE_OK);
    *ret_sent = t->sent || !(unconnected(code) ||
                             (code == CURLE_OPERATION_TIMEDOUT && connects));
    if (code == CURLE_OK) {
        atomic_fetch_add(&n->carried, 1);
        return 0;
    }
    atomic_fetch_add(&n->carried_failed, 1);
    if (t->broken)
        return error_set(err, ERR_INVALID, "the client left");
    log_event(LOG_WARN, "node_not_reached", "node", carry->node, "address",
              t->peer.info.address, "error",
              why[0] ? why : curl_easy_strerror(code), NULL);
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the node that has the session does not answer%s%.120s",
                    why[0] ? ": " : "", why);
    (void)error_hint(err,
                     "If it is down, another node has the session within "
                     "%u seconds.",
                     (unsigned)(n->lease_ms / 1000 + 3));
    return error_retry(err, 2);
}
