/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's own outbound HTTP requests, over libcurl: signing keys of a
 * token issuer, webhooks, audit events for a collector, objects in S3.
 * Redirects are not followed, https is verified, and plain http ignores
 * proxies, since it is only configured for this machine. Sessions never come
 * here; their traffic goes through glovebox-egress.
 *
 * fetch() is one request on a connection of its own. A client (client.c) keeps
 * connections, streams bodies both ways and bounds how many requests run at
 * once.
 */
#ifndef GLOVEBOX_FETCH_FETCH_H
#define GLOVEBOX_FETCH_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct error;

struct fetch_request {
    const char *url;            /* http: or https: */
    const char *const *headers; /* "Name: value", up to NULL; or NULL */
    const char *body;           /* POST; NULL: GET */
    size_t body_len;
    size_t answer_max; /* a larger answer is an error; 0: it is discarded */
    unsigned connect_ms, total_ms; /* connect_ms 0: total_ms alone counts */
    const _Atomic bool *cancel;    /* ends the transfer once true; or NULL */
};

/* Before the first thread that fetches; each with one fetch_stop. */
int fetch_start(struct error *err);
void fetch_stop(void);

/* Blocks until the answer is complete. ret_answer: appended to; NULL where
 * answer_max is 0. ERR_UNAVAILABLE if there is no complete answer. Any status
 * is a success here. */
int fetch(const struct fetch_request *rq, struct buf *ret_answer,
          long *ret_status, struct error *err);

/* ---- a client of one server --------------------------------------------- */

struct fetch_client;

struct fetch_client_settings {
    const char *ca_file;  /* PEM, instead of the host's; "" or NULL: those */
    unsigned connections; /* requests at once; further ones wait */
    unsigned connect_ms;
    unsigned stall_ms; /* without a byte either way, then it fails */
};

struct fetch_exchange {
    const char *method;
    const char *url;
    const char *const *headers; /* "Name: value", up to NULL; or NULL */
    /* The body: bytes in memory, or body_len bytes of body_fd from body_at. */
    bool has_body;
    const void *body;
    int body_fd;
    uint64_t body_at, body_len;
    uint64_t deadline_ms;       /* monotonic; also for the wait for a turn */
    const _Atomic bool *cancel; /* or NULL */
    /* Called for each piece of the answer's body, the status being known.
     * Anything but 0 ends the exchange. */
    int (*on_bytes)(void *ctx, long status, const void *bytes, size_t len);
    void *ctx;
    /* Results: */
    long status;
    struct buf *head; /* "name: value" lines, names in lower case; appended */
    uint64_t sent, received;
};

/* Borrows nothing. */
struct fetch_client *fetch_client_new(const struct fetch_client_settings *s);
void fetch_client_free(struct fetch_client *c); /* accepts NULL */
/* Blocks until the answer is complete. 1: on_bytes ended it. ERR_UNAVAILABLE
 * if there is no complete answer. Any thread. */
int fetch_client_run(struct fetch_client *c, struct fetch_exchange *x,
                     struct error *err);
/* The value of a header in `head`; false if there is none or it does not
 * fit. name in lower case. */
bool fetch_head_find(const struct buf *head, const char *name, char *ret,
                     size_t size);

#endif
