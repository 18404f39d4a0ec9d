/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of language models as glovebox-model talks to them: requests in
 * their dialects, and their answers turned into the frames of
 * wire/model_msg.h. How the pieces work together:
 *
 *   serve.c      glovebox-model's loop: orders, transfers, deadlines
 *   transfer.c   one call: libcurl, the socket to gloveboxd
 *   request.c    the common part of requests; turns.c groups items to turns
 *   answer.c     the state of one answer; sse.c splits its bytes
 *   chat.c, responses.c, anthropic.c   a dialect each, both directions
 *   fault.c      what a failed answer means
 *   lenient.c    JSON of a server, bounded and repaired where it is bent
 *
 * Everything but serve.c and transfer.c is pure. Every byte of a server is
 * hostile: the amount that is kept is bounded before it is parsed.
 */
#ifndef GLOVEBOX_UPSTREAM_UPSTREAM_H
#define GLOVEBOX_UPSTREAM_UPSTREAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/model_msg.h"

struct buf;

/* serve.c: glovebox-model on its socket, taken. The exit status, once
 * gloveboxd hung up or said something malformed. */
int upstream_serve_run(int ctl);

/* ---- answers ------------------------------------------------------------ */

struct upstream_answer;

/* Where frames go; data is borrowed. */
typedef void upstream_frame_fn(void *ctx, enum model_frame_type type,
                               unsigned item, const void *data, size_t len);

struct upstream_answer *upstream_answer_new(enum model_dialect dialect,
                                            bool embed, bool tools,
                                            upstream_frame_fn *frame,
                                            void *ctx);
void upstream_answer_free(struct upstream_answer *a); /* accepts NULL */
/* The status line, and each header, in any order and before the body. */
void upstream_answer_status(struct upstream_answer *a, long status);
void upstream_answer_header(struct upstream_answer *a, const char *line,
                            size_t len);
/* Bytes of the body, in any pieces. False: enough was seen, end the
 * transfer. */
bool upstream_answer_feed(struct upstream_answer *a, const void *bytes,
                          size_t len);
enum upstream_transport {
    UPSTREAM_COMPLETE,    /* the server ended its answer */
    UPSTREAM_BROKEN,      /* the connection broke while it was read */
    UPSTREAM_UNREACHABLE, /* there was none */
    UPSTREAM_SLOW
};
/* Frames of what was not complete yet, then the END. why: of a transport that
 * failed; or NULL. */
void upstream_answer_end(struct upstream_answer *a,
                         enum upstream_transport how, const char *why);
/* Was any frame before END sent? */
bool upstream_answer_said(const struct upstream_answer *a);

/* ---- requests ----------------------------------------------------------- */

/* Appends the body, and the path below the base URL. prompt: an object with
 * instructions, input, tools, tool_choice and options, or texts. False: it
 * cannot be said in this dialect; why: static. */
bool upstream_request(const struct model_call_msg *call, const json_t *prompt,
                      struct buf *ret_url, struct buf *ret_body,
                      const char **ret_why);

#endif
