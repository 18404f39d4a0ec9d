/* SPDX-License-Identifier: Apache-2.0 */
/* For serve.c and transfer.c only: one call under way in glovebox-model. */
#ifndef GLOVEBOX_UPSTREAM_TRANSFER_INT_H
#define GLOVEBOX_UPSTREAM_TRANSFER_INT_H

#include <curl/curl.h>

#include "upstream/upstream_int.h"

struct transfer {
    struct transfer *next;
    CURL *easy; /* NULL: its END is on the way out */
    struct curl_slist *headers;
    int stream; /* to gloveboxd */
    struct buf body, out;
    struct upstream_answer *answer;
    uint64_t idle_ms, last_ms; /* last_ms: of the last byte; monotonic */
    uint64_t ends_ms;          /* whatever happens */
    bool public_only, refused; /* refused: an address was */
    bool paused, gone, enough, connected;
    char fault[CURL_ERROR_SIZE];
};

/* Takes the stream. The call may have failed already: then its END waits in
 * `out`. */
struct transfer *transfer_new(CURLM *multi, const struct model_call_msg *call,
                              const char *prompt, size_t len, int stream,
                              const char *ca_file);
/* What gloveboxd has not read yet. */
void transfer_flush(struct transfer *t);
/* libcurl is done with it. */
void transfer_end(struct transfer *t, CURLM *multi, CURLcode code);
/* Ends it when a deadline has passed. */
void transfer_check(struct transfer *t, CURLM *multi, uint64_t now_ms);
/* Nothing is left to do. */
bool transfer_is_over(const struct transfer *t);
void transfer_free(struct transfer *t, CURLM *multi);
/* A call that was refused before it began. */
void transfer_refuse(int stream, enum model_outcome outcome, const char *why);

#endif
