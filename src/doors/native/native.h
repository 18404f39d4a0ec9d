/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native door, /api/…: everything the product can do, in JSON. Each file
 * decodes a request into the core's own structures, makes one call, and
 * encodes the answer; docs/API.md is its contract.
 */
#ifndef GLOVEBOX_DOORS_NATIVE_NATIVE_H
#define GLOVEBOX_DOORS_NATIVE_NATIVE_H

#include <jansson.h>

#include "doors/doors.h"
#include "session/session.h"

struct buf;
struct json_writer;

doors_handler_fn native_sessions_create;
doors_handler_fn native_sessions_list;
doors_handler_fn native_sessions_get;
doors_handler_fn native_sessions_delete;
doors_handler_fn native_sessions_reset;
doors_handler_fn native_sessions_interrupt;

doors_handler_fn native_executions_create;
doors_handler_fn native_executions_get;
doors_handler_fn native_executions_events;
doors_handler_fn native_executions_cancel;
doors_handler_fn native_run;

doors_handler_fn native_files_list;
doors_handler_fn native_files_get;
doors_handler_fn native_files_put;
doors_handler_fn native_files_delete;

doors_handler_fn native_pools_list;
doors_handler_fn native_pools_get;
doors_handler_fn native_runtimes_list;
doors_handler_fn native_runtimes_get;
doors_handler_fn native_limits_get;

doors_handler_fn native_keys_create;
doors_handler_fn native_keys_list;
doors_handler_fn native_keys_revoke;

/* ---- shared within the door --------------------------------------------- */

enum native_mode {
    NATIVE_SYNC,
    NATIVE_STREAM,
    NATIVE_ASYNC
};

/* spec.c: a body to the core's own structures, which borrow from the body
 * and from the request. */
int native_spec_session(struct doors_call *call, const json_t *body,
                        struct session_spec *ret, struct error *err);
int native_spec_execution(struct doors_call *call, const json_t *body,
                          struct exec_spec *ret, enum native_mode *ret_mode,
                          struct error *err);
/* A run is both, and files (may be NULL). */
int native_spec_run(struct doors_call *call, const json_t *body,
                    struct session_spec *ret_session,
                    struct exec_spec *ret_exec, enum native_mode *ret_mode,
                    json_t **ret_files, struct error *err);

/* executions.c: runs a job of the core on our workers; ctx is the pool. */
session_submit_fn native_submit;

/* encode.c */
void native_encode_session(struct json_writer *w, const char *key,
                           const struct session_info *info);
void native_encode_execution(struct execution *e, struct buf *out);
/* One event as JSON; text is that of a stdout or stderr event. */
void native_encode_event(struct execution *e, const struct exec_event *event,
                         const char *text, size_t text_len, struct buf *out);

/* events.c: answers with the events after number `after`. e: taken. When the
 * answer is over session (may be NULL) is deleted. */
void native_events_respond(struct doors_call *call, struct execution *e,
                           uint32_t after, const char *session);

#endif
