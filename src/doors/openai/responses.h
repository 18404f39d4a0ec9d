/* SPDX-License-Identifier: Apache-2.0 */
/* For the files responses*.c and others of this door that answer with
 * responses of the agent loop. */
#ifndef GLOVEBOX_DOORS_OPENAI_RESPONSES_H
#define GLOVEBOX_DOORS_OPENAI_RESPONSES_H

#include <jansson.h>
#include <stdbool.h>

#include "chat/chat.h"
#include "doors/openai/openai.h"
#include "session/session.h"

#define RESPONSES_BODY_BYTES ((size_t)48 << 20)

struct responses_request {
    struct chat_request chat; /* borrows from the rest and from body */
    struct session_attach files[OPENAI_FILES_MAX];
    json_t *functions, *echo, *options; /* owned */
    json_t *body; /* as it counts: with what an agent says; owned */
    bool stream;
    bool outputs; /* include has those of code */
    char agent_name[64], agent_version[32];
    int64_t agent_seconds; /* of a turn, as the agent says; -1: not said */
    bool agent;            /* the two are set */
};
void responses_request_done(struct responses_request *rq); /* for cleanup() */

/* responses_decode.c: body: borrowed as long as ret. */
int responses_decode(struct doors_call *call, const json_t *body,
                     struct responses_request *ret, struct error *err);
/* One value of `include`. */
int responses_include(const char *value, bool *ret_outputs,
                      struct openai_fault *fault, struct error *err);

/* responses_toolbox.c: a tool of the type mcp; at: "tools[0]". */
int responses_toolbox(struct doors_call *call, const json_t *tool,
                      const char *at, struct responses_request *ret,
                      struct error *err);

/* responses_agent.c: the body with what the named agent says, if it names one;
 * ret->body and ret->agent_*. */
int responses_agent(struct doors_call *call, const json_t *body,
                    struct responses_request *ret, struct error *err);

/* responses_stream.c: answers with the events after number `after`. r: taken.
 * own: the client that asked for the response; when it leaves, a response that
 * is not stored is stopped. */
void responses_stream(struct doors_call *call, struct chat_response *r,
                      int64_t after, bool outputs, bool own);

/* responses.c: answers with the JSON. json: taken. */
void responses_respond_json(struct doors_call *call, json_t *json);
/* Answers with a page of items. outputs: with those of code. */
void responses_respond_items(struct doors_call *call,
                             const struct chat_items *items, bool outputs,
                             bool more);
/* ?include=… and ?include[]=…, any number of them. */
int responses_query_include(struct doors_call *call, bool *ret_outputs,
                            struct error *err);
/* The fault of the loop in this door's words. */
int responses_refuse(struct doors_call *call, const struct chat_fault *fault,
                     struct error *err);
/* The status and words for a response that failed before anything happened.
 */
int responses_failed(struct doors_call *call, const struct error *failure,
                     struct error *err);

#endif
