/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of glovebox-egress only: its state and its inner calls. */
#ifndef GLOVEBOX_EGRESS_EGRESS_INT_H
#define GLOVEBOX_EGRESS_EGRESS_INT_H

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "egress/http.h"
#include "wire/dns.h"
#include "wire/egress_msg.h"

#define HEAD_MS 10000u
#define CONNECT_MS 10000u
#define IDLE_MS 60000u
#define ANSWER_MS 5000u
#define FINISH_MS 10000u

#define PEER_IN_MAX 65536u   /* read ahead of one side */
#define PEER_OUT_MAX 262144u /* waiting to be taken by one side */
#define REPORTS_WAITING 64u  /* unread ones at which nothing new begins */
#define CONNS_OVER 8u        /* told that there are too many */
#define ADDRESSES_MAX 16u
#define ASKED_MAX 1024u
#define LOOKUPS_AT_ONCE 16u
#define PACKAGES_HOST "packages.glovebox"

struct egress;
struct conn;
struct dial;
struct package_job;
struct names_query;

/* ---- loop.c ------------------------------------------------------------- */

struct watch {
    int fd; /* borrowed */
    uint32_t events;
    bool added;
    void (*on_event)(void *ctx, uint32_t events);
    void *ctx;
};

/* events 0: not told of anything, not even of its end. */
void egress_loop_watch(struct egress *e, struct watch *w, uint32_t events);

/* ---- peer.c: one side of a connection ----------------------------------- */

struct peer {
    struct watch watch;
    int fd;
    SSL *ssl;              /* NULL: in the clear */
    BIO *raw_in, *raw_out; /* of ssl, which owns them */
    struct buf in;         /* to be read by us, in the clear */
    struct buf out;        /* to be sent, as it goes on the wire */
    bool ready;            /* the handshake, if any, is done */
    bool eof;              /* it properly ended its stream */
    bool broken;           /* or it did not */
    bool ending, ended;    /* we end ours when all is sent; we have */
};

void egress_peer_init(struct peer *p, int fd); /* taken */
void egress_peer_done(struct peer *p);
/* From now on TLS; what is in `in` already belongs to it. ssl: taken. */
void egress_peer_secure(struct peer *p, SSL *ssl);
void egress_peer_read(struct peer *p); /* what there is, within bounds */
void egress_peer_write(struct peer *p, const void *bytes, size_t len);
void egress_peer_flush(struct peer *p);
void egress_peer_end(struct peer *p); /* after what is still to be sent */
bool egress_peer_full(const struct peer *p);
/* Wanted events; reading: whether more is wanted at all. */
void egress_peer_arm(struct egress *e, struct peer *p, bool reading);

/* ---- cert_authority.c: certificates of a session's own authority
 * -------------------
 */

struct cert_authority;

struct cert_authority *egress_ca_new(void); /* NULL: the library failed */
void egress_ca_free(struct cert_authority *m);
const char *egress_ca_certificate(const struct cert_authority *m); /* PEM */
/* A server's side of TLS for that host; owned by caller; NULL on failure. */
SSL *egress_ca_accept(struct cert_authority *m, SSL_CTX *ctx, const char *host,
                      bool address);

/* ---- grant.c: a session, what it was granted, what is left -------------- */

enum budget {
    BUDGET_BYTES,
    BUDGET_CONNECTIONS,
    BUDGET_REQUESTS,
    BUDGET_LOOKUPS,
    BUDGET_MAX
};

struct granted_session {
    struct granted_session *next;
    struct egress *e;
    struct egress_grant grant; /* its budgets count down */
    struct egress_rule *rules;
    struct watch tcp, udp;
    struct cert_authority *ca;
    uint32_t conns, over;  /* open; of these, over the limit */
    uint32_t lookups;      /* under way */
    bool told[BUDGET_MAX]; /* that it is used up */
    char **asked;          /* questions that were answered with yes */
    size_t asked_count;
};

struct granted_session *egress_grant_find(struct egress *e, uint64_t handle);
/* -EINVAL with *ret_why; rules: taken on success. */
int egress_grant_set(struct egress *e, const struct egress_grant *grant,
                     struct egress_rule *rules, int tcp, int udp,
                     struct granted_session **ret, const char **ret_why);
void egress_grant_revoke(struct egress *e, struct granted_session *g);
/* One request or lookup; false, and reported, when none is left. */
bool egress_grant_spend(struct granted_session *g, enum budget what);
bool egress_grant_spend_bytes(struct granted_session *g, uint64_t bytes);
void egress_grant_used_up(struct granted_session *g, enum budget what);
const char *egress_grant_budget(enum budget what); /* a sentence */
bool egress_grant_was_asked(const struct granted_session *g, const char *what);
void egress_grant_remember(struct granted_session *g, const char *what);
void egress_grant_arm(struct granted_session *g); /* accept, or not now */

/* ---- rule.c: pure ------------------------------------------------------- */

enum verdict {
    VERDICT_NO,
    VERDICT_TUNNEL,  /* CONNECT, bytes passed on */
    VERDICT_INSPECT, /* CONNECT, taken apart */
    VERDICT_REQUEST, /* a request in the clear, or taken out of TLS */
};

struct decision {
    enum verdict verdict;
    uint16_t rule;              /* from 1; 0: none, the mode lets it */
    bool port_listed;           /* the rule names the port */
    bool add;                   /* the rule's header is to be added */
    char path[EGRESS_PATH_MAX]; /* to be sent; "" as it came */
    char why[EGRESS_TEXT_MAX];  /* of a no */
};

void egress_rule_connect(const struct egress_grant *grant,
                         const struct egress_rule *rules,
                         const struct http_target *t, struct decision *ret);
/* tls: taken out of it. */
void egress_rule_request(const struct egress_grant *grant,
                         const struct egress_rule *rules,
                         const struct http_target *t, struct span method,
                         bool tls, struct decision *ret);
bool egress_rule_lookup(const struct egress_grant *grant,
                        const struct egress_rule *rules, const char *host);
/* NULL, or what is wrong with a rule gloveboxd sent. */
const char *egress_rule_fault(const struct egress_rule *r);

/* ---- report.c ----------------------------------------------------------- */

struct report_queue {
    struct watch watch;
    struct egress_report *rows; /* those gloveboxd has not taken */
    size_t count, cap;
    uint64_t questions;
};

void egress_report_send(struct egress *e, const struct egress_report *r);
/* Asks; returns the question's number. */
uint64_t egress_report_ask(struct egress *e, struct egress_report *r);
/* gloveboxd does not keep up: nothing new is begun. */
bool egress_report_stalled(const struct egress *e);

/* ---- dial.c ------------------------------------------------------------- */

/* Resolves, checks and connects to one destination; then calls back once. */
struct dial {
    struct egress *e;
    struct watch watch;
    int fd;
    bool any; /* the operator named it: not checked */
    bool over;
    struct names_query *query; /* under way, or NULL */
    uint64_t deadline_ms;
    uint16_t port;
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    size_t count, at;
    char address[46];                   /* reached */
    char why[EGRESS_TEXT_MAX];          /* or why not */
    bool forbidden;                     /* because of E3 */
    void (*on_done)(void *ctx, int fd); /* taken; -1: see why */
    void *ctx;
};

void egress_dial_start(struct dial *d, struct egress *e,
                       const struct http_target *t, bool any,
                       void (*on_done)(void *ctx, int fd), void *ctx);
/* No call back after this; safe at any time. */
void egress_dial_cancel(struct dial *d);
void egress_dial_tick(struct dial *d, uint64_t now_ms);

/* ---- names.c: the resolver we ask --------------------------------------- */

struct names;

/* on_done: status 0, or a negative errno: -ENOENT no such name, -EACCES one
 * of its addresses is forbidden (why says which), -EAGAIN. Addresses borrowed;
 * port 0. Returns something to cancel by; NULL: it is over already. */
typedef void (*names_done)(void *ctx, int status, const char *why,
                           const struct sockaddr_storage *addresses,
                           size_t count);
int egress_names_open(struct egress *e, const char *server,
                      struct names **ret);
void egress_names_close(struct names *n);
void egress_names_find(struct names *n, const char *host, int family, bool any,
                       names_done on_done, void *ctx,
                       struct names_query **ret);
void egress_names_cancel(struct names_query *q);
void egress_names_tick(struct names *n);

/* ---- conn.c ------------------------------------------------------------- */

/*
 *   HEAD -> ASK -> DIAL -> TUNNEL             CONNECT, passed on
 *   HEAD -> HELLO -> ACCEPT -> INNER -> ASK -> DIAL -> SECURE -> EXCHANGE
 *                                             CONNECT, taken apart
 *   HEAD -> ASK -> DIAL -> EXCHANGE           in the clear
 *   HEAD -> PACKAGE                           our own index
 *   any  -> FINISH                            what is left is sent
 */
enum conn_state {
    CONN_HEAD,     /* the request's head is coming */
    CONN_HELLO,    /* CONNECT was answered; the client's first bytes */
    CONN_ACCEPT,   /* TLS with the client */
    CONN_INNER,    /* the head inside of it */
    CONN_ASK,      /* waits for gloveboxd's decision */
    CONN_DIAL,     /* the destination is looked up and reached */
    CONN_SECURE,   /* TLS with the destination */
    CONN_EXCHANGE, /* request out, answer in */
    CONN_TUNNEL,   /* bytes both ways */
    CONN_PACKAGE,  /* packages.c has it */
    CONN_FINISH,   /* the last bytes to the client */
    CONN_DEAD,
};

struct conn {
    struct conn *next;
    struct egress *e;
    struct granted_session *guest; /* NULL once revoked */
    enum conn_state state;
    struct peer client, server;
    struct dial dial;
    bool dialing, over; /* over: past the session's limit */
    uint64_t started_ms, deadline_ms;
    struct egress_report report;
    bool reported;
    /* the request */
    bool connect, inspected, head_request, add;
    struct http_target target; /* its spans are only good in one step */
    struct decision decision;
    struct buf request; /* the head that goes to the destination */
    struct http_body up, down;
    uint64_t question;
    uint64_t
        again_ms; /* deadline of the answer to a repeated question, or 0 */
    int answer;   /* 1 yes, -1 no */
    char answer_why[EGRESS_TEXT_MAX];
    bool answered;      /* the answer's head went to the client */
    bool hello_checked; /* of a tunnel */
    struct package_job *job;
};

void egress_conn_new(struct granted_session *g, int fd); /* taken */
void egress_conn_state(struct conn *c, enum conn_state state);
void egress_conn_step(struct conn *c); /* as far as it goes */
/* Answers the client with an HTTP error where that is still possible. */
void egress_conn_refuse(struct conn *c, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends it at once; why: into the report. */
void egress_conn_abort(struct conn *c, const char *why);
void egress_conn_end(struct conn *c, const char *why); /* was allowed */
void egress_conn_leave(struct conn *c);                /* the destination */
void egress_conn_report(struct conn *c, bool allowed);
void egress_conn_answer(struct egress *e, const struct egress_answer *a);
void egress_conn_tick(struct conn *c, uint64_t now_ms);
void egress_conn_free(struct conn *c);
/* Of n bytes that are to pass; false: it is over. */
bool egress_conn_charge(struct conn *c, bool out, size_t n);
/* Ends it unless gloveboxd says yes, in time, to what goes on. */
void egress_conn_ask_again(struct conn *c);
/* The request may be made: ask if needed, then reach the destination. */
void egress_conn_allowed(struct conn *c);

/* Steps return whether to continue now or to wait. */
bool egress_request_head(struct conn *c);     /* HEAD and INNER */
bool egress_request_exchange(struct conn *c); /* EXCHANGE */
bool egress_tunnel_hello(struct conn *c);     /* HELLO */
bool egress_tunnel_relay(struct conn *c);     /* TUNNEL */
bool egress_inspect_accept(struct conn *c);   /* ACCEPT */
bool egress_inspect_secure(struct conn *c);   /* SECURE */
bool egress_inspect_connect(struct conn *c);  /* TLS with the destination */
/* NULL, or why these first bytes may not pass; more: wait. */
const char *egress_tunnel_judge(const struct conn *c, bool *ret_more,
                                bool *ret_tls);

/* ---- lookup.c, packages.c ----------------------------------------------- */

void egress_lookup_read(
    struct granted_session *g); /* what its UDP socket has */
void egress_lookup_answer(struct egress *e, const struct egress_answer *a);
void egress_lookup_tick(struct egress *e, uint64_t now_ms);
void egress_lookup_forget(struct granted_session *g);

/* The request of c is for our index; c->report has method and path. */
void egress_packages_serve(struct conn *c);
bool egress_packages_step(struct conn *c); /* PACKAGE */
void egress_packages_tick(struct conn *c, uint64_t now_ms);
bool egress_packages_answer(struct conn *c, const struct egress_answer *a);
void egress_packages_free(struct package_job *job);

/* ---- serve.c ------------------------------------------------------------ */

struct egress {
    int epoll;
    struct watch ctl;
    struct report_queue reports;
    struct egress_setup setup;
    bool set_up, stop;
    struct names *names;
    SSL_CTX *outward, *inward;             /* TLS to the world; to sessions */
    struct granted_session *guests, *gone; /* gone: freed after the round */
    struct conn *conns;
    struct lookup *pending; /* lookups under way */
    uint32_t conn_count;
    struct egress_status status;
};

int egress_loop_run(struct egress *e);
void egress_loop_arm(struct egress *e); /* every listener */
int egress_tls_open(struct egress *e);

#endif
