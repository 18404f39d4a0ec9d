/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the client asked, as seen by a worker: a copy of the request's head,
 * made by the event thread before the worker starts, so that a worker never
 * touches libmicrohttpd's connection. Also the counting of the request and
 * the suspending and resuming of its connection.
 */
#include "http/http.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_int.h"

/* ---- the copy ----------------------------------------------------------- */

static enum MHD_Result copy_header(void *cls, enum MHD_ValueKind kind,
                                   const char *name, const char *value)
{
    struct http_request *req = cls;

    (void)kind;
    if (!value)
        value = "";
    if (req->header_count == HTTP_HEADERS_MAX) {
        req->headers_bad = true;
        return MHD_NO;
    }
    req->headers[req->header_count++] = (struct http_pair){
        arena_strdup(req->arena, name), arena_strdup(req->arena, value)};
    return MHD_YES;
}

static enum MHD_Result copy_query(void *cls, enum MHD_ValueKind kind,
                                  const char *name, const char *value)
{
    struct http_request *req = cls;
    struct error ignored;
    char *n, *v;

    (void)kind;
    if (!value)
        value = "";
    if (req->query_count == HTTP_QUERY_MAX ||
        http_decode(req->arena, name, strlen(name), &n, &ignored) < 0 ||
        http_decode(req->arena, value, strlen(value), &v, &ignored) < 0) {
        req->query_bad = true;
        return MHD_NO;
    }
    req->query[req->query_count++] = (struct http_pair){n, v};
    return MHD_YES;
}

/* Of a target in absolute form (http://host/path) the path alone; that the
 * host is ours was checked. */
static const char *path_of(const char *url)
{
    const char *authority = url[0] == '/' ? NULL : strstr(url, "://");

    if (!authority)
        return url;
    url = strchr(authority + 3, '/');
    return url ? url : "/";
}

struct http_request *http_request_new(struct http_server *server,
                                      struct http_conn *conn,
                                      struct MHD_Connection *connection,
                                      const char *url, const char *method)
{
    struct http_request *req = xcalloc(1, sizeof(*req));

    req->refs = 1;
    req->server = server;
    req->connection = connection;
    req->fd = conn->fd;
    req->tls = server->tls ? http_tls_session(connection) : NULL;
    req->arena = arena_new();
    mutex_init(&req->lock);
    cond_init(&req->more);
    ids_make("req", req->id);
    memcpy(req->source, conn->source, sizeof(req->source));
    if (server->asks_clients && req->tls && !conn->pin[0])
        http_tls_pin(req->tls, conn->pin);
    memcpy(req->peer_pin, conn->pin, sizeof(req->peer_pin));
    req->method = arena_strdup(req->arena, method);
    req->path = arena_strdup(req->arena, path_of(url));
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, copy_header,
                                    req);
    (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND,
                                    copy_query, req);
    return req;
}

struct http_request *http_request_ref(struct http_request *req)
{
    req->refs++;
    return req;
}

void http_request_unref(struct http_request *req)
{
    if (!req || --req->refs > 0)
        return;
    if (req->response)
        MHD_destroy_response(req->response);
    cond_done(&req->more);
    mutex_done(&req->lock);
    arena_free(req->arena);
    free(req->early);
    free(req->kept);
    free(req->ring);
    free(req);
}

/* ---- framing ------------------------------------------------------------ */

/* How often a header came; its last value. */
static unsigned count_headers(const struct http_request *req, const char *name,
                              const char **ret_value)
{
    unsigned n = 0;

    for (size_t i = 0; i < req->header_count; i++)
        if (strcasecmp(req->headers[i].name, name) == 0) {
            *ret_value = req->headers[i].value;
            n++;
        }
    return n;
}

static int parse_length(const char *text, uint64_t *ret)
{
    uint64_t n = 0;

    if (!*text || strlen(text) > 18)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        n = n * 10 + (uint64_t)(*text - '0');
    }
    *ret = n;
    return 0;
}

/* The strict parser has refused all of this before; libmicrohttpd must not
 * have found another meaning in the same bytes. */
int http_request_frame(struct http_request *req, struct error *err)
{
    const char *length = NULL, *coding = NULL;
    unsigned lengths = count_headers(req, "Content-Length", &length);
    unsigned codings = count_headers(req, "Transfer-Encoding", &coding);

    if (req->query_bad)
        return error_set(err, ERR_INVALID,
                         "the query is malformed or has more than %d "
                         "parameters",
                         HTTP_QUERY_MAX);
    if (req->headers_bad || lengths > 1 || codings > 1 ||
        (lengths && codings) ||
        (codings && strcasecmp(coding, "chunked") != 0) ||
        (lengths && parse_length(length, &req->length) < 0))
        return error_set(err, ERR_INVALID, "the headers are ambiguous");
    if (codings)
        req->length = UINT64_MAX;
    return 0;
}

/* ---- suspending --------------------------------------------------------- */

bool http_request_suspend(struct http_request *req)
{
    if (req->server->cut)
        return false;
    req->suspended = true;
    req->paused_ms = clock_mono_ms();
    MHD_suspend_connection(req->connection);
    return true;
}

void http_request_resume(struct http_request *req)
{
    uint64_t now;

    if (!req->connection || !req->suspended)
        return;
    now = clock_mono_ms();
    req->suspended = false;
    req->body_start_ms += now - req->paused_ms;
    req->body_last_ms = now;
    MHD_resume_connection(req->connection);
}

void http_request_wake(struct http_request *req)
{
    mutex_lock(&req->lock);
    http_request_resume(req);
    mutex_unlock(&req->lock);
}

/* ---- for handlers ------------------------------------------------------- */

const char *http_id(const struct http_request *req)
{
    return req->id;
}

const char *http_method(const struct http_request *req)
{
    return req->method;
}

const char *http_path(const struct http_request *req)
{
    return req->path;
}

const char *http_source(const struct http_request *req)
{
    return req->source;
}

struct http_server *http_server_of(const struct http_request *req)
{
    return req->server;
}

struct arena *http_arena(struct http_request *req)
{
    return req->arena;
}

const char *http_header(const struct http_request *req, const char *name)
{
    const char *value = NULL;

    (void)count_headers(req, name, &value);
    return value;
}

size_t http_header_count(const struct http_request *req)
{
    return req->header_count;
}

const char *http_header_name(const struct http_request *req, size_t i)
{
    return req->headers[i].name;
}

const char *http_header_value(const struct http_request *req, size_t i)
{
    return req->headers[i].value;
}

const char *http_peer_pin(const struct http_request *req)
{
    return req->peer_pin;
}

void http_adopt(struct http_request *req, const char *id, const char *source)
{
    (void)snprintf(req->id, sizeof(req->id), "%s", id);
    (void)snprintf(req->source, sizeof(req->source), "%s", source);
}

static void add_escaped(struct buf *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

    for (; *text; text++)
        if (strchr(plain, *text))
            buf_add(out, text, 1);
        else
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

const char *http_target(struct http_request *req)
{
    struct buf out cleanup(buf_done) = {0};

    buf_adds(&out, req->path);
    for (size_t i = 0; i < req->query_count; i++) {
        buf_adds(&out, i ? "&" : "?");
        add_escaped(&out, req->query[i].name);
        buf_adds(&out, "=");
        add_escaped(&out, req->query[i].value);
    }
    return arena_strdup(req->arena, out.data);
}

size_t http_query_count(const struct http_request *req)
{
    return req->query_count;
}

const char *http_query_name(const struct http_request *req, size_t i)
{
    return req->query[i].name;
}

const char *http_query_value(const struct http_request *req, size_t i)
{
    return req->query[i].value;
}

int http_query(const struct http_request *req, const char *name,
               const char **ret, struct error *err)
{
    const char *value = NULL;

    for (size_t i = 0; i < req->query_count; i++)
        if (strcmp(req->query[i].name, name) == 0) {
            if (value)
                return error_set(err, ERR_INVALID,
                                 "parameter '%s' is given twice", name);
            value = req->query[i].value;
        }
    *ret = value;
    return 0;
}

bool http_left(struct http_request *req)
{
    bool left;

    /* Not reading: what the client may have said before it left, or the end
     * as TLS says it, would hide that it did. */
    mutex_lock(&req->lock);
    left = req->gone || !req->connection;
    if (!left) {
        struct pollfd p = {.fd = req->fd, .events = POLLRDHUP};

        left = poll(&p, 1, 0) == 1;
    }
    mutex_unlock(&req->lock);
    return left;
}

int http_decode(struct arena *arena, const char *text, size_t len, char **ret,
                struct error *err)
{
    char *out = arena_alloc(arena, len + 1);
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        int high, low;

        if (text[i] != '%') {
            out[used++] = text[i];
            continue;
        }
        high = len - i > 2 ? hex_digit(text[i + 1]) : -1;
        low = len - i > 2 ? hex_digit(text[i + 2]) : -1;
        if (high < 0 || low < 0)
            return error_set(err, ERR_INVALID,
                             "a percent sign is not followed by two hex "
                             "digits");
        if (high == 0 && low == 0)
            return error_set(err, ERR_INVALID, "an encoded NUL byte");
        out[used++] = (char)(high * 16 + low);
        i += 2;
    }
    *ret = out;
    return 0;
}
