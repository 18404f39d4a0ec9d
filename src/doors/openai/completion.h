/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat Completions, answered by the agent loop of the Responses API.
 *
 *   completion_request.c  the request as one of the Responses API; pure
 *   completion_answer.c   events of a response as a completion or as chunks;
 *                         pure
 *   completions.c         the handlers
 */
#ifndef GLOVEBOX_DOORS_OPENAI_COMPLETION_H
#define GLOVEBOX_DOORS_OPENAI_COMPLETION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "doors/openai/openai.h"

#define OPENAI_STOPS_MAX 4u
#define OPENAI_STOP_BYTES 256u

/* ---- completion_request.c ------------------------------------------------
 */

struct openai_completion {
    json_t *request; /* of the Responses API; owned */
    bool stream, include_usage, store;
    bool json; /* the answer is to be JSON: no link is added to it */
    /* Sequences that end the answer; borrowed from the body. */
    const char *stops[OPENAI_STOPS_MAX];
    size_t stop_count;
};

/* code_tool: the code tool is offered although the request does not name it.
 * ret must be cleared in both cases. */
int openai_completion_request(const json_t *body, bool code_tool,
                              struct openai_completion *ret,
                              struct openai_fault *fault, struct error *err);
void openai_completion_done(struct openai_completion *c); /* for cleanup() */

/* ---- completion_answer.c -------------------------------------------------
 */

/*
 * A completion under way. Events of the response go in, in order; the message
 * grows, and chunks for a stream come out. Where the text names a file of the
 * sandbox, the address of the file replaces the name. The response tells which
 * files these are only after the text, so a stream keeps back what follows the
 * first name until then.
 */
struct openai_answer {
    /* Set by the caller; borrowed. */
    const struct openai_completion *asked;
    const char *base; /* what addresses begin with: "http://host:port/v1" */
    struct buf *out;  /* chunks are added here; NULL: none are wanted */

    char id[ID_MAX]; /* chatcmpl-… */
    int64_t created;
    char *model; /* owned */
    struct buf content, refusal;
    struct buf tail;      /* may begin a sequence that ends the answer */
    struct buf held;      /* text from the first name of a file on */
    size_t part_chars;    /* characters of this part that left `tail` */
    size_t held_at;       /* of these, how many came before `held` */
    size_t content_chars; /* characters of content */
    json_t *citations;    /* of this part */
    json_t *calls;        /* functions called */
    json_t *annotations;  /* files, as URL citations */
    json_t *code;         /* items of the code tool */
    json_t *usage;        /* or NULL */
    const char *finish;   /* NULL: not over */
    bool said;            /* the first chunk is out */
    bool stopped;         /* a sequence ended it: stop the response */
    bool over;            /* the last event was seen */
    struct buf failure;   /* an error object, when it failed */
};

void openai_answer_init(struct openai_answer *a,
                        const struct openai_completion *asked,
                        const char *base, struct buf *out);
void openai_answer_done(struct openai_answer *a); /* for cleanup() */
void openai_answer_event(struct openai_answer *a, const char *type,
                         const char *text, size_t len);
/* The rest of a stream: what was held back, the last chunks and "[DONE]", or
 * the error. Once, after the last event or once it stopped. */
void openai_answer_end(struct openai_answer *a);
/* The completion object, once it is over. New. */
json_t *openai_answer_object(const struct openai_answer *a);

#endif
