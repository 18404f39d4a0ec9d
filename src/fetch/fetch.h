/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's own outbound HTTP requests, over libcurl: signing keys of a
 * token issuer, webhooks, audit events for a collector. Redirects are not
 * followed, https is verified, and plain http ignores proxies, since it is
 * only configured for this machine. Sessions never come here; their traffic
 * goes through glovebox-egress.
 */
#ifndef GLOVEBOX_FETCH_FETCH_H
#define GLOVEBOX_FETCH_FETCH_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
