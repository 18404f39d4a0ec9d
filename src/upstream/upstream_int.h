/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of upstream/ only. */
#ifndef GLOVEBOX_UPSTREAM_UPSTREAM_INT_H
#define GLOVEBOX_UPSTREAM_UPSTREAM_INT_H

#include "base/buf.h"
#include "upstream/upstream.h"

/* ---- lenient.c ---------------------------------------------------------- */

/* JSON of a server: bounded, lone surrogates and bytes that are not UTF-8
 * replaced by U+FFFD. NULL: it is no JSON. New reference. */
json_t *upstream_json(const char *text, size_t len);
/* Members of objects, whatever they are; NULL and 0 where they are not. */
const char *upstream_text(const json_t *object, const char *name);
uint64_t upstream_number(const json_t *object, const char *name);

/* ---- sse.c -------------------------------------------------------------- */

#define SSE_LINE_MAX ((size_t)8 << 20)

struct sse {
    struct buf line, data;
    char event[64];
    bool after_cr, has_data, error_field;
    size_t seen; /* bytes of the stream, to skip a byte order mark */
};

/* One event; name "" for none. False: stop. */
typedef bool sse_event_fn(void *ctx, const char *name, const char *data,
                          size_t len);
/* -1: a line or an event is too long. 0: stopped by fn. 1: go on. */
int sse_feed(struct sse *s, const char *bytes, size_t len, sse_event_fn *fn,
             void *ctx);
/* The end of the stream: what was not ended by an empty line. */
int sse_end(struct sse *s, sse_event_fn *fn, void *ctx);
void sse_done(struct sse *s);

/* ---- answer.c ----------------------------------------------------------- */

enum slot_kind {
    SLOT_MESSAGE,
    SLOT_REASONING,
    SLOT_CALL
};

struct slot {
    enum slot_kind kind;
    bool done;     /* its ITEM was sent */
    int64_t index; /* the server's; -1: none */
    char *id;      /* the server's for a call; else NULL */
    char *call_id; /* ours for it, see answer_call; set with `begun` */
    char *name;    /* of a function; NULL: not known yet */
    bool begun;    /* its CALL was sent */
    size_t sent;   /* bytes of `text` that were sent as ARGUMENTS */
    bool cut;      /* incomplete: its JSON was cut */
    struct buf text, refusal;
    char *sealed; /* of reasoning: what the server wants back */
};

struct upstream_fault {
    bool set;
    enum model_outcome outcome;
    bool retry;
    char message[MODEL_TEXT_MAX];
};

struct upstream_answer {
    const struct dialect *dialect;
    bool embed, tools;
    upstream_frame_fn *frame;
    void *ctx;
    long status;
    bool started, whole; /* whole: the body is one JSON text */
    struct sse sse;
    struct buf body; /* of a whole answer or of an error */
    struct slot slots[MODEL_ITEMS_MAX];
    unsigned count;
    size_t bytes;                 /* kept so far */
    bool said, finished, stopped; /* finished: the server said so */
    struct upstream_fault fault;
    struct model_end end;
    int should_retry; /* x-should-retry: 1, 0, or -1: not said */
    unsigned vectors;
};

/* A dialect: what it asks for and how it reads an answer. */
struct dialect {
    const char *path; /* below the base URL */
    bool (*request)(const struct model_call_msg *call, const json_t *prompt,
                    json_t *body, const char **why);
    /* One event of the stream. */
    void (*event)(struct upstream_answer *a, const char *name,
                  const json_t *data);
    /* An answer that is no stream. */
    void (*whole)(struct upstream_answer *a, const json_t *body);
    /* The stream ended: is what was seen complete without the last word? */
    void (*end)(struct upstream_answer *a);
};
extern const struct dialect dialect_chat, dialect_responses, dialect_anthropic;

/* A new slot; NULL: there are too many, and the answer has failed. */
struct slot *answer_open(struct upstream_answer *a, enum slot_kind kind,
                         int64_t index);
/* The last slot if it is of that kind and open, else a new one. */
struct slot *answer_current(struct upstream_answer *a, enum slot_kind kind);
/* The open slot of that index, or NULL. */
struct slot *answer_find(struct upstream_answer *a, int64_t index);
void answer_text(struct upstream_answer *a, struct slot *s, const char *text,
                 size_t len);
void answer_refusal(struct upstream_answer *a, struct slot *s,
                    const char *text, size_t len);
/* Of a call: its id and name, where they are not known yet. */
void answer_call(struct upstream_answer *a, struct slot *s, const char *id,
                 const char *name);
/* Sends the ITEM; an empty message is dropped silently. */
void answer_close(struct upstream_answer *a, struct slot *s);
void answer_close_all(struct upstream_answer *a);
/* Closes every open slot that is not a call. */
void answer_close_text(struct upstream_answer *a);
/* The first failure counts. */
void answer_fail(struct upstream_answer *a, enum model_outcome outcome,
                 bool retry, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- fault.c ------------------------------------------------------------ */

/* An error object or text inside a stream that began with status 200. */
void answer_error(struct upstream_answer *a, const json_t *error);
/* The body of an answer with an error status. */
void answer_refused(struct upstream_answer *a);
/* "12", "1.5" or a date, as milliseconds from now; 0: no such thing. */
uint32_t upstream_retry_after(const char *value);

/* ---- request.c ---------------------------------------------------------- */

/* A piece of content. */
enum part_kind {
    PART_TEXT,
    PART_IMAGE
};

struct part {
    enum part_kind kind;
    const char *text; /* or the URL of the image; borrowed */
};

/* Walks the parts of a message's content or of a function's output. */
typedef void part_fn(void *ctx, const struct part *part);
void request_parts(const json_t *content, part_fn *fn, void *ctx);
/* The texts joined; owned by caller. */
char *request_text(const json_t *content, bool *ret_images);
/* A data URI of an image in base64; false: it is none. borrowed */
bool request_data_uri(const char *url, char ret_type[64],
                      const char **ret_base64);
/* Schema of a function without what servers choke on. New reference. */
json_t *request_schema(const json_t *tool);
/* options[name], or NULL. */
const json_t *request_option(const json_t *prompt, const char *name);
uint64_t request_most_tokens(const struct model_call_msg *call,
                             const json_t *prompt);
bool request_forces_tool(const json_t *prompt);

/* ---- turns.c ------------------------------------------------------------ */

struct turn_call {
    const json_t *call;   /* the function_call */
    const json_t *output; /* of function_call_output; NULL: none came */
};

enum turn_kind {
    TURN_SYSTEM,
    TURN_USER,
    TURN_ASSISTANT
};

struct turn {
    enum turn_kind kind;
    const json_t **messages; /* content of each */
    size_t message_count;
    const json_t **reasoning; /* items */
    size_t reasoning_count;
    struct turn_call *calls;
    size_t call_count;
    bool answered; /* an output came */
    bool last;     /* after the last message of the user */
};

struct turns {
    struct turn *row;
    size_t count;
};

/* Groups items so that each assistant turn has all its calls and all their
 * outputs. Borrows from input. An output without its call becomes a text of
 * the user. */
void turns_read(const json_t *input, struct turns *ret);
void turns_done(struct turns *t);

#endif
