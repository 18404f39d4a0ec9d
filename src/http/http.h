/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd, wrapped. How the pieces work together:
 *
 * One event thread (libmicrohttpd's) moves bytes and nothing else. Before
 * libmicrohttpd sees a byte, a strict parser does (gate.c, strict.c), which
 * refuses malformed messages. When the headers of a request are in, the event
 * thread refuses what is too large or too much; the rest it hands to a worker
 * of a bounded pool (work.c) and suspends the connection. A worker runs the
 * handler as straight-line code: it may read the body (body.c, fed through a
 * bounded ring) and answers exactly once (respond.c, file.c, stream.c), which
 * resumes the connection. A small body is collected first, so that a slow
 * sender holds no worker. A refusal does not wait for the rest of a large one
 * (early_response.c). A clock thread (server.c) ends what misses a deadline.
 * When there are too many connections, those that have not authenticated go
 * first (conns.c).
 *
 * A request is shared by the event thread and its worker and counted; what
 * happens to the connection meanwhile never frees it under the worker.
 * Only the event thread queues responses; only it sees the connection close.
 */
#ifndef GLOVEBOX_HTTP_HTTP_H
#define GLOVEBOX_HTTP_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"

struct arena;
struct api_resource;
struct buf;
struct http_request;
struct http_server;
struct http_work;

/* ---- the server --------------------------------------------------------- */

struct http_settings {
    const char *host; /* a numeric address */
    uint16_t port;    /* 0: any free one */
    unsigned workers;
    unsigned connections;
    unsigned header_timeout_s, idle_timeout_s, body_timeout_s;
    uint64_t body_bytes; /* no route takes more */
    /* As PEM texts, for HTTPS; NULL: plain HTTP. Only until it has started. */
    const char *tls_certificate, *tls_key;
    /* Certificates that clients are asked for, as PEM (NULL: none is asked
     * for): a client that shows none is served all the same, and
     * http_peer_pin says so. */
    const char *tls_clients;
    /* Bodies can be read a second time (http_body_again), up to
     * HTTP_KEPT_BYTES. */
    bool keep_bodies;
    /* A client that is refused before the end of its body may send this much
     * more, for this long, so that it can read the answer. 0: the values
     * below. */
    unsigned drain_s;
    uint64_t drain_bytes;
};

#define HTTP_KEPT_BYTES ((size_t)4 << 20)
#define HTTP_DRAIN_S 30
#define HTTP_DRAIN_BYTES ((uint64_t)1 << 30)

/* Runs on a worker; answers once. */
typedef void http_handler_fn(void *ctx, struct http_request *req);

int http_start(const struct http_settings *settings, http_handler_fn *handler,
               void *ctx, struct http_server **ret, struct error *err);
/* Refuses new requests from now on; those under way go on. */
void http_quiesce(struct http_server *server);
/* Waits for what is under way until the deadline, cuts off the rest, joins
 * every thread, frees. */
void http_stop(struct http_server *server, unsigned deadline_s);
uint16_t http_port(const struct http_server *server);
struct http_work *http_workers(struct http_server *server);
/* Answers given, by first digit of the status. */
void http_counts(struct http_server *server, uint64_t ret_classes[6]);

/* ---- work.c: the worker pool -------------------------------------------- */

/* Threads start when a job finds none idle, up to max, and leave after some
 * idle seconds. At most queue_max jobs of one flow wait. */
struct http_work *http_work_new(unsigned max_threads, size_t queue_max);
/* Runs what is queued, waits for every thread, frees. */
void http_work_free(struct http_work *work);
/* -EAGAIN when too much of the flow waits (even_if_full: only when there is no
 * thread); the job is then not run. Flows are served in turn. On a worker that
 * is charged, the job is too, whatever the flow. */
int http_work_submit(struct http_work *work, uint64_t flow, bool even_if_full,
                     void (*job)(void *arg), void *arg);
uint64_t http_work_flow(const char *text); /* of the client of that name */
/* Until its job ends this worker counts as working for `who`. False: that one
 * has its share already, and the job should be refused. beyond: a job that
 * frees something; `who` has a few threads beyond its share for those, and
 * where these are in use too, it should be parked. */
bool http_work_charge(struct http_work *work, const char *who, bool beyond);
/* Runs the job as soon as `who` has one of those few threads again (beyond),
 * or a thread of its share. False: too many wait, and the job is not run. */
bool http_work_park(struct http_work *work, const char *who, bool beyond,
                    void (*run)(void *arg), void *arg);
/* For clean-up that must not be lost: queues even when full. */
void http_work_insist(struct http_work *work, void (*job)(void *arg),
                      void *arg);
/* Jobs waiting, threads alive. */
void http_work_load(struct http_work *work, size_t *ret_queued,
                    unsigned *ret_threads);

/* The handler is called again with this request, once `who` has a thread as
 * above; it must not have answered, and must not touch it any more. False: too
 * many wait, and nothing happens. */
bool http_park(struct http_request *req, const char *who, bool beyond);

/* ---- request.c, body.c: what the client asked --------------------------- */

/* All strings are borrowed from the request. */
const char *http_id(const struct http_request *req); /* X-Request-Id */
const char *http_method(const struct http_request *req);
const char *http_path(const struct http_request *req);   /* not decoded */
const char *http_source(const struct http_request *req); /* peer address */
struct http_server *http_server_of(const struct http_request *req);
struct arena *http_arena(struct http_request *req);
/* NULL when absent. */
const char *http_header(const struct http_request *req, const char *name);
/* All of them, as sent, in order. */
size_t http_header_count(const struct http_request *req);
const char *http_header_name(const struct http_request *req, size_t i);
const char *http_header_value(const struct http_request *req, size_t i);
/* The path and the query as one text, for the same request elsewhere. arena */
const char *http_target(struct http_request *req);
/* SHA-256 of the public key of the client's certificate in hex, whose private
 * key the client has; "": it showed none. */
const char *http_peer_pin(const struct http_request *req);
/* The request was received by another node: it keeps its id and its source. */
void http_adopt(struct http_request *req, const char *id, const char *source);
/* Decoded query parameters, in order. */
size_t http_query_count(const struct http_request *req);
const char *http_query_name(const struct http_request *req, size_t i);
const char *http_query_value(const struct http_request *req, size_t i);
/* ERR_INVALID for one that is given twice. *ret NULL when absent. */
int http_query(const struct http_request *req, const char *name,
               const char **ret, struct error *err);
/* Percent-decodes once; -ERR_INVALID on a bad escape or a NUL. arena */
int http_decode(struct arena *arena, const char *text, size_t len, char **ret,
                struct error *err);

/* The client has authenticated: its connection is no longer one of those
 * that are closed first when there are too many. Any thread. */
void http_trust(struct http_request *req);
/* The answer is sent late, by less than a second, and without a worker in the
 * meantime: for a client that keeps failing to authenticate. Call before
 * answering. */
void http_delay(struct http_request *req);

/* Has the client hung up? Looks at the socket; to stop work
 * whose client is gone. Cheap enough to call a few times a second. A client
 * that closes only its sending side counts as gone. */
bool http_left(struct http_request *req);

/* Blocks; bytes read, 0 at the end. ERR_TOO_LARGE past max in all. */
ssize_t http_body_read(struct http_request *req, void *bytes, size_t len,
                       uint64_t max, struct error *err);
/* Bytes of the body; UINT64_MAX: not known yet. */
uint64_t http_body_length(const struct http_request *req);
/* The body is read from its start again; false: it was too large to keep. */
bool http_body_again(struct http_request *req);
/* The whole body, at most max, as JSON; an empty one is refused.
 * ret: owned by caller. */
int http_body_json(struct http_request *req, size_t max, json_t **ret,
                   struct error *err);
/* The same where a body may be left out: *ret is NULL then. */
int http_body_json_maybe(struct http_request *req, size_t max, json_t **ret,
                         struct error *err);

/* ---- multipart.c: several files in one body ----------------------------- */

#define HTTP_PARTS_MAX 64u
#define HTTP_PART_HEADER_MAX ((size_t)8 << 10)
#define HTTP_BOUNDARY_MAX 70u

/* Where the bytes come from: as http_body_read. */
typedef ssize_t http_read_fn(void *ctx, void *bytes, size_t len,
                             struct error *err);

struct http_part { /* strings of the arena; NULL when not said */
    const char *name, *filename, *type;
};

struct http_multipart;
/* type: the Content-Type header, or NULL. ERR_INVALID when it is no
 * multipart/form-data with a boundary. arena: borrowed until it is freed. */
int http_multipart_new(const char *type, http_read_fn *read, void *ctx,
                       struct arena *arena, struct http_multipart **ret,
                       struct error *err);
/* The same of a body that is a form although its type says otherwise or names
 * no boundary: it begins with "--", and its first line is the boundary. */
int http_multipart_sniff(http_read_fn *read, void *ctx, struct arena *arena,
                         struct http_multipart **ret, struct error *err);
/* The next part, whatever was left of the one before skipped. 1, 0 after the
 * last, or -code. */
int http_multipart_next(struct http_multipart *m, struct http_part *ret,
                        struct error *err);
/* Bytes of the part; 0 at its end. */
ssize_t http_multipart_read(struct http_multipart *m, void *bytes, size_t len,
                            struct error *err);
void http_multipart_free(struct http_multipart **m); /* for cleanup() */

/* ---- respond.c, file.c, stream.c, pipe.c: one answer -------------------- */

/* Before answering; copied. At most 64. Cache-Control replaces the default,
 * which is no-store. */
void http_add_header(struct http_request *req, const char *name,
                     const char *value);
/* The status that was sent, 0 before the answer. For the request's worker. */
unsigned http_status(const struct http_request *req);
/* body: its bytes are taken; type: a media type. */
void http_respond(struct http_request *req, unsigned status, const char *type,
                  struct buf *body);
void http_respond_json(struct http_request *req, unsigned status,
                       struct buf *body);
void http_respond_empty(struct http_request *req, unsigned status);
void http_respond_error(struct http_request *req, const struct error *err);
/* 200 with bytes that stay as they are while the program runs. */
void http_respond_static(struct http_request *req, const char *type,
                         const void *bytes, size_t len);
/* A file as an inert download: attachment, no sniffing, sandboxed; with
 * ETag, If-None-Match and one Range. fd: taken on success. */
int http_respond_file(struct http_request *req, int fd, const struct stat *st,
                      const char *name, struct error *err);

struct http_download { /* all borrowed but fd */
    int fd;            /* taken on success */
    uint64_t size;
    const char *name;    /* the client gets its last component */
    const char *type;    /* NULL: by the name; one that a browser might run is
                            never told */
    const char *etag;    /* without the quotes */
    int64_t modified_ms; /* 0: not told */
    bool stable;         /* never shrinks or changes: sent without a copy */
};
int http_respond_download(struct http_request *req,
                          const struct http_download *d, struct error *err);

/* A Content-Disposition that never shows it in a browser: a plain name for
 * old clients and the true one (RFC 5987) beside it. Of the path only the
 * last part counts. arena */
const char *http_attachment(struct arena *arena, const char *path,
                            const char *suffix);

/* Where an event stream's bytes come from. next and watch run on the event
 * thread, close on any; next must not block. */
struct http_feed {
    /* Appends the next piece. 1: done so, 0: nothing yet, -1: the end, -2:
     * the end, but something is missing and the client must see that. */
    int (*next)(void *ctx, struct buf *out);
    /* Calls wake(arg) once when next would have something. */
    void (*watch)(void *ctx, void (*wake)(void *arg), void *arg);
    void (*close)(void *ctx);
};

/* text/event-stream with a comment every 15 s of silence. ctx: taken. */
void http_respond_stream(struct http_request *req,
                         const struct http_feed *feed, void *ctx);

/*
 * An answer of unknown length, written by the worker as it goes. At most
 * HTTP_PIPE_SIZE bytes wait here: a slow reader slows the writer, one that
 * left (or reads nothing for the idle timeout) ends it. An event stream (by
 * its type) also gets the signs of life of http_respond_stream.
 */
#define HTTP_PIPE_SIZE ((size_t)256 << 10)
struct http_pipe;
struct http_pipe *http_respond_pipe(struct http_request *req,
                                    const char *type);
/* The answer of another node: with its status and all its headers added
 * before. length: UINT64_MAX when it is not known. */
struct http_pipe *http_respond_relay(struct http_request *req, unsigned status,
                                     const char *type, uint64_t length);
/* Blocks while it is full. ERR_INVALID once the reader is gone. */
int http_pipe_write(struct http_pipe *p, const void *bytes, size_t len,
                    struct error *err);
/* Frees p. whole false: the connection ends without the answer's end. */
void http_pipe_end(struct http_pipe *p, bool whole);

/* ---- status.c ----------------------------------------------------------- */

unsigned http_status_of(enum error_code code);
/* {"error":{…}} */
void http_error_body(const struct error *err, struct buf *out);
/* Its tables: an error, and one that waits for approval. */
extern const struct api_resource http_error_resource, http_error_body_resource,
    http_error_quota_resource, http_held_resource, http_held_body_resource;

#endif
