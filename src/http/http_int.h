/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of http/; see http.h for how they work together. */
#ifndef GLOVEBOX_HTTP_HTTP_INT_H
#define GLOVEBOX_HTTP_HTTP_INT_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdatomic.h>

#include "base/ids.h"
#include "base/thread.h"
#include "fair/fair.h"
#include "http/http.h"
#include "http/strict.h"

#define HTTP_HEADERS_MAX 100
#define HTTP_HEADER_BYTES ((size_t)8 << 10)      /* of one */
#define HTTP_CREDENTIAL_BYTES ((size_t)24 << 10) /* of Authorization */
#define HTTP_HEADERS_BYTES ((size_t)32 << 10)    /* of all */
#define HTTP_COOKIES_MAX 100
#define HTTP_TRAILERS_MAX 16
#define HTTP_TRAILER_BYTES ((size_t)4 << 10) /* of all */
#define HTTP_QUERY_MAX 32
#define HTTP_REQUEST_LINE_MAX 8192
#define HTTP_METHOD_MAX 32
#define HTTP_BODY_SMALL                                                       \
    ((uint64_t)64 << 10) /* collected before the worker                       \
                          */
#define HTTP_RING_SIZE ((size_t)128 << 10)
#define HTTP_LINGER_MS 2000 /* to read a refusal, after which we close */
#define HTTP_PING_MS 15000  /* of silence, until a stream says it lives */
#define HTTP_DOUBT_MS 500   /* the same when the client seems gone */
#define HTTP_MIN_RATE 1024  /* bytes a second of a body */
#define HTTP_DATE_SIZE 32

struct http_pair {
    const char *name;
    const char *value;
};

/* Oldest first: by when they were opened or last carried a request. */
struct http_conns {
    struct http_conn *first, *last;
    unsigned count;
};

/* One connection of a client; made and freed by the event thread. The first
 * six members are under server->lock. */
struct http_conn {
    struct http_conns *list; /* which one it is in */
    struct http_conn *prev, *next;
    struct http_request *req;    /* the one under way, or NULL */
    uint64_t header_deadline_ms; /* while there is none */
    uint64_t refused_ms; /* when it was refused a malformed message, and
                            since when it is only drained; 0: never */
    int fd;              /* libmicrohttpd's */
    void *tls;           /* its GnuTLS session, or NULL */
    unsigned peer;       /* the source, as an index of strangers_of */
    char source[INET6_ADDRSTRLEN];
    char pin[65]; /* of its certificate; "": none; the event thread's */
    _Atomic unsigned quiet; /* ticks of the clock since bytes came or a
                               request ended */
    /* The event thread's own. */
    struct http_strict strict;
    unsigned done;    /* requests that were answered */
    uint64_t drained; /* bytes that were dropped */
};

#define HTTP_PEERS 1024u

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_settings settings;
    http_handler_fn *handler;
    void *ctx;
    struct http_work *work;
    struct fair_backoff *backoff;
    bool tls, asks_clients;
    uint16_t port;
    int listen_fd; /* ours again once quiesced, else -1 */
    struct thread clock;
    struct mutex lock; /* never taken while a request's lock is held */
    struct cond idle;  /* active became 0 */
    struct cond tick;  /* the clock thread's */
    /* Connections, under lock: those that have not authenticated (conns.c),
     * those that have, and those that are being closed. */
    struct http_conns strangers, trusted, leaving;
    unsigned strangers_of[HTTP_PEERS]; /* by source */
    unsigned strangers_max, strangers_of_max, trusted_max;
    unsigned active;          /* connections with a request under way */
    struct http_conn **by_fd; /* the event thread's; see gate.c */
    size_t by_fd_size;
    bool clock_stop;
    _Atomic bool stopping; /* new requests are refused */
    _Atomic bool cut;      /* what is still under way is dropped */
    _Atomic uint64_t classes[6];
};

struct http_request {
    _Atomic unsigned refs;
    struct http_server *server;
    struct arena *arena; /* the event thread's until dispatched, then the
                            worker's */
    const char *method, *path;
    struct http_pair headers[HTTP_HEADERS_MAX];
    struct http_pair query[HTTP_QUERY_MAX];
    size_t header_count, query_count;
    char id[ID_MAX];
    char source[INET6_ADDRSTRLEN];
    char peer_pin[65];      /* of the client's certificate */
    uint64_t flow;          /* the sender, as far as the request names it */
    uint64_t length;        /* of the body; UINT64_MAX: chunked */
    void *tls;              /* the connection's GnuTLS session, or NULL */
    struct http_conn *conn; /* under server->lock; NULL once completed */
    _Atomic bool trusted;   /* its connection is */
    bool headers_bad;       /* libmicrohttpd has read more than we did */
    bool query_bad;         /* the query is badly encoded, or the same */

    struct mutex lock; /* of what follows */
    struct cond more;
    struct MHD_Connection *connection; /* NULL once completed */
    int fd;                            /* its own; ours as long as that */
    bool suspended;
    bool large;          /* goes to a worker before its body is here */
    bool held;           /* left unread: its sender was refused a lot */
    bool let_in;         /* it was, and need not wait again */
    uint64_t held_ms;    /* since when */
    bool delay;          /* the answer is to be sent late (http_delay) */
    uint64_t delayed_ms; /* since when it waits for that; 0: it does not */
    bool queued;         /* libmicrohttpd has the answer */
    bool dispatched;     /* a worker has it, or had it */
    bool ended;          /* the body is complete */
    bool late;           /* the body missed its deadline */
    bool gone;           /* the client is */
    bool answered;       /* response was set or refused */
    bool stream;         /* and is an event stream */
    bool ping;           /* which should write, if only a comment */
    uint64_t sent_ms;    /* when it last did */
    char *ring;
    size_t ring_size, ring_start, ring_len;
    uint64_t received, consumed;
    /* The worker's: what it has read of the body, to be read again. */
    char *kept;
    size_t kept_len, kept_cap, kept_at;
    bool kept_lost;                       /* it was too much */
    uint64_t body_start_ms, body_last_ms; /* our own pauses taken out */
    uint64_t paused_ms;
    struct MHD_Response *response;
    unsigned status;
    char *early; /* the same answer as bytes, sent before the body's end */
    size_t early_len, early_sent;
    bool early_done;   /* all of it, or as much as can be */
    uint64_t drain_ms; /* since when the body is only dropped; 0: it is not */
    uint64_t drain_from;     /* received then */
    uint64_t drain_pause;    /* of a refused one: received, for this tick */
    bool drain_paused;       /* until the clock lets it go on */
    uint64_t linger_ms;      /* since when all was said and read; 0: not yet */
    bool lingered;           /* and the client had its time to read it */
    struct http_pair *extra; /* headers to add; array in the arena */
    size_t extra_count;
};

/* request.c */
struct http_request *http_request_new(struct http_server *server,
                                      struct http_conn *conn,
                                      struct MHD_Connection *connection,
                                      const char *url, const char *method);
struct http_request *http_request_ref(struct http_request *req);
void http_request_unref(struct http_request *req);
/* The length of the body, as libmicrohttpd has read it. ERR_INVALID when that
 * is not what the strict parser can have let through. */
int http_request_frame(struct http_request *req, struct error *err);
/* Call with the lock held. False when the server cuts off instead. */
bool http_request_suspend(struct http_request *req);
void http_request_resume(struct http_request *req);
/* Takes the lock; any thread. */
void http_request_wake(struct http_request *req);

/* body.c: the event thread's side of the ring; returns what it took. */
size_t http_body_feed(struct http_request *req, const char *bytes, size_t len);
/* Is the sender too slow? Call with the lock held. */
bool http_body_late(struct http_request *req, uint64_t now_ms);

/* early_response.c: an answer before the end of the body. Call with the
 * request's lock held. body: borrowed. */
void http_early_prepare(struct http_request *req, const char *body,
                        size_t len);
/* Sends what can be sent now; any thread, but over TLS only the event
 * thread. */
void http_early_push(struct http_request *req);
/* The body has ended: nothing more is said over TLS. The event thread. */
void http_early_end(struct http_request *req);
/* Was it refused for being too much, and has it had what may be read and
 * dropped until the next tick? Then it should wait: an uploader that is
 * refused must not cost more than one that is served. */
bool http_early_enough(struct http_request *req);
/* Has the sender used up its time or bytes for draining? */
bool http_early_over(const struct http_request *req, uint64_t now_ms);

/* conns.c: how many connections there may be, and which one has to go. Call
 * with server->lock held. */
void http_conns_set_limits(struct http_server *server);
/* A new one, not authenticated. May close another. */
void http_conns_add(struct http_server *server, struct http_conn *conn);
void http_conns_remove(struct http_server *server, struct http_conn *conn);
/* A request of it has ended: it is the youngest of its list again. */
void http_conns_used(struct http_conn *conn);

/* gate.c: between the socket and libmicrohttpd; the event thread. */
void http_gate_open(struct http_server *server, struct http_conn *conn);
void http_gate_close(struct http_server *server, struct http_conn *conn);
/* Answers the malformed message of a connection, if it has one and all that
 * came before it is answered. */
void http_gate_settle(struct http_server *server, struct http_conn *conn);
/* May libmicrohttpd begin a request? Only one the gate has let through. */
bool http_gate_admits(const struct http_conn *conn);
/* Has a refused client had all the time there is to read its answer? */
bool http_gate_over(const struct http_conn *conn, uint64_t now_ms);
/* What libmicrohttpd calls in place of recv and gnutls_record_recv; see the
 * Makefile. */
ssize_t http_gate_recv(int fd, void *bytes, size_t len, int flags);
ssize_t http_gate_tls_recv(void *session, void *bytes, size_t len);

/* tls.c. The session is the connection's; these three on the event thread
 * only. */
void *http_tls_session(struct MHD_Connection *connection); /* NULL: plain */
/* Bytes sent, 0: not now (try with the same again), -1: it failed. */
ssize_t http_tls_send(void *session, const void *bytes, size_t len);
void http_tls_end(void *session);
/* Of the certificate that the client has shown; "" for none. */
void http_tls_pin(void *session, char ret[65]);
bool http_tls_supported(void);
/* Both as PEM. ERR_INVALID. */
int http_tls_check(const char *certificate, const char *key,
                   struct error *err);

/* respond.c: the response is taken; any thread. */
void http_respond_set(struct http_request *req, unsigned status,
                      struct MHD_Response *response);
/* The same error as the bytes of a whole answer that ends the connection, for
 * where libmicrohttpd cannot answer. */
void http_respond_bytes(unsigned status, const char *id,
                        const struct error *err, struct buf *out);
/* "Sun, 06 Nov 1994 08:49:37 GMT", in any locale; false when the year
 * is none HTTP can say. */
bool http_respond_date(int64_t ms, char ret[HTTP_DATE_SIZE]);

/* params.c: the parameter of that name in what follows the first word. *ret
 * NULL when it is not there; false when the text is malformed or has it twice.
 */
bool http_param_find(struct arena *arena, const char *text, const char *name,
                     const char **ret);
bool http_is_token(char c);

/* stream.c: the feed as an answer of that type; ctx: taken. size: UINT64_MAX
 * when it is not known. */
void http_stream_start(struct http_request *req, unsigned status,
                       const char *type, uint64_t size,
                       const struct http_feed *feed, void *ctx);

/* events.c: libmicrohttpd's callbacks. */
enum MHD_Result http_events_access(void *cls, struct MHD_Connection *c,
                                   const char *url, const char *method,
                                   const char *version, const char *data,
                                   size_t *data_size, void **con_cls);
void http_events_completed(void *cls, struct MHD_Connection *c, void **con_cls,
                           enum MHD_RequestTerminationCode why);
void http_events_connection(void *cls, struct MHD_Connection *c,
                            void **socket_context,
                            enum MHD_ConnectionNotificationCode code);

#endif
