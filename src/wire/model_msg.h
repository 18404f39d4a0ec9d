/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between gloveboxd and glovebox-model, the process that calls
 * language models. It has an account of its own (the service's where there is
 * none), no store, no key but those of the calls it makes, and no way to the
 * warden. What a model's server sends is parsed there and nowhere else.
 *
 *   ctl   SEQPACKET, gloveboxd -> model, struct model_order each:
 *         SETUP  first, once; answered by a struct model_setup_reply
 *         CALL   with two descriptors: a memfd of struct model_call_msg and
 *                `prompt_len` bytes of JSON, and one end of a stream socket;
 *                not answered
 *
 * The stream socket carries frames from glovebox-model: what the model says,
 * in order, and an END as the last one. A stream that ends without END means
 * that the process died. gloveboxd cancels a call by closing its end.
 *
 * What is malformed or untimely on ctl ends the process; gloveboxd starts a
 * new one, and the calls under way fail.
 */
#ifndef GLOVEBOX_WIRE_MODEL_MSG_H
#define GLOVEBOX_WIRE_MODEL_MSG_H

#include <stdint.h>

#define MODEL_URL_MAX 512
#define MODEL_ID_MAX 256      /* what a server calls a model */
#define MODEL_SECRET_MAX 8320 /* of a header, prefix included */
#define MODEL_HEADER_MAX 64
#define MODEL_PATH_MAX 512
#define MODEL_TEXT_MAX 320
#define MODEL_PROMPT_MAX (64u << 20) /* bytes of JSON */
#define MODEL_FRAME_MAX (16u << 20)  /* bytes of one frame */
#define MODEL_ANSWER_MAX                                                      \
    (16u << 20)                     /* bytes of one answer, items included    \
                                     */
#define MODEL_ITEMS_MAX 256u        /* items of one answer */
#define MODEL_CALLS_MAX 1024u       /* at once, of all models */
#define MODEL_DIMENSIONS_MAX 16384u /* of one vector */
#define MODEL_TEXTS_MAX 2048u       /* embedded at once */

enum model_order_type {
    MODEL_ORDER_SETUP = 1,
    MODEL_ORDER_CALL
};

struct model_order {
    uint32_t type;
    uint32_t reserved;
    char ca_file[MODEL_PATH_MAX]; /* SETUP: trusted besides the host's; "" */
};

struct model_setup_reply {
    int32_t errnum; /* 0: ready */
    char text[MODEL_TEXT_MAX];
};

enum model_dialect {
    MODEL_DIALECT_CHAT = 1,
    MODEL_DIALECT_RESPONSES,
    MODEL_DIALECT_ANTHROPIC,
    MODEL_DIALECT_MAX
};

struct model_call_msg {
    uint32_t dialect;
    uint32_t embed;       /* the prompt is {"texts": [...]} */
    uint32_t public_only; /* no address of this machine or a private network */
    uint32_t reserved;
    uint32_t connect_ms, idle_ms, total_ms;
    uint32_t prompt_len;
    uint64_t max_output_tokens; /* 0: the server's own */
    char url[MODEL_URL_MAX];
    char model[MODEL_ID_MAX];
    char header[MODEL_HEADER_MAX]; /* of the key; "": none */
    char secret[MODEL_SECRET_MAX];
};

enum model_frame_type {
    MODEL_FRAME_TEXT = 1,
    MODEL_FRAME_REFUSAL,
    MODEL_FRAME_REASONING,
    MODEL_FRAME_CALL, /* call_id NUL name NUL */
    MODEL_FRAME_ARGUMENTS,
    MODEL_FRAME_ITEM,   /* JSON */
    MODEL_FRAME_VECTOR, /* floats; item: of which text */
    MODEL_FRAME_END,    /* struct model_end */
    MODEL_FRAME_MAX_TYPE
};

struct model_frame {
    uint32_t type, item, len; /* len bytes follow */
};

enum model_outcome {
    MODEL_OK = 0,
    MODEL_UNREACHABLE, /* no connection, no name, no trust */
    MODEL_KEY,         /* 401, 403 */
    MODEL_RATE,        /* 429 */
    MODEL_MONEY,       /* its quota or credit is used up */
    MODEL_OVERLOADED,  /* 5xx, 529 */
    MODEL_TOO_LARGE,   /* the prompt does not fit */
    MODEL_REFUSED,     /* other 4xx: it does not accept the request */
    MODEL_NONSENSE,    /* what it sends cannot be read, or is too much */
    MODEL_CUT,         /* the stream broke */
    MODEL_SLOW,        /* a deadline passed */
    MODEL_BUSY,        /* glovebox-model has too many calls */
    MODEL_OUTCOMES
};

enum model_retry {
    MODEL_RETRY_NO = 0,
    MODEL_RETRY_YES
};

struct model_end {
    uint32_t outcome;        /* enum model_outcome */
    uint32_t finish;         /* 0 complete, 1 length, 2 withheld */
    uint32_t status;         /* HTTP; 0: none */
    uint32_t retry;          /* enum model_retry */
    uint32_t retry_after_ms; /* 0: the server did not say */
    uint32_t leaked;         /* calls of functions seem to be in the text */
    uint64_t input, cached, cache_write, output, reasoning; /* tokens */
    char message[MODEL_TEXT_MAX]; /* what the server or we say; "" if OK */
    char request_id[128];         /* the server's; "" none */
};

#endif
