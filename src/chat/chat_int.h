/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of chat/ only: the module, a response, and how its parts call
 * each other. */
#ifndef GLOVEBOX_CHAT_CHAT_INT_H
#define GLOVEBOX_CHAT_CHAT_INT_H

#include <stdatomic.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/thread.h"
#include "chat/chat.h"
#include "model/model.h"

#define CHAT_ROOT "/mnt/data/"
#define CHAT_TOOL "python"
/* Where a function of the client is called `python`: */
#define CHAT_TOOL_OTHER "python_interpreter"
#define CHAT_NAME_MAX 132

struct execution;
struct store;

/* ---- the module --------------------------------------------------------- */

struct chat {
    struct chat_parts parts;
    const struct chat_box *box; /* NULL: none */
    void *box_self;
    struct mutex lock;
    struct cond some; /* a response waits for a thread, or stopping */
    struct cond gone; /* a thread ended, a conversation was unlocked */
    unsigned threads, idle;
    bool stopping;
    struct chat_response *waiting, **waiting_last; /* next_waiting */
    struct chat_response *known; /* running, or over for a short time */
    uint64_t kept_bytes;         /* of events of those that are over */
    struct chat_lock *locks;     /* conversations that are written */
    struct chat_metrics metrics;
};

/* ---- one response ------------------------------------------------------- */

struct chat_owner { /* an actor, copied */
    struct actor who;
    struct actor_bounds bounds;
    char tenant[64], key[ID_MAX], name[132], token[ID_MAX], door[16], tool[64],
        request[80], source[64];
};

struct chat_watch {
    struct chat_watch *next;
    uint64_t handle;
    int64_t after;
    void (*fn)(void *ctx);
    void *ctx;
    bool firing;
};

struct chat_line { /* an event; never changed once it is in the log */
    int64_t number;
    const char *type;
    char *text; /* without outputs, unless full is NULL */
    size_t len;
    char *full; /* with outputs of code; NULL: the same */
    size_t full_len;
};

struct chat_response {
    atomic_uint refs;
    struct chat *chat;
    struct chat_response *next;         /* of chat->known; chat->lock */
    struct chat_response *next_waiting; /* chat->lock */
    bool is_known, retired;             /* chat->lock */

    /* Constant once it runs. */
    char id[ID_MAX];
    struct chat_owner owner;
    char *model, *instructions; /* the model's name */
    bool images;                /* the model takes them */
    uint64_t context_tokens;    /* of the model; 0: not known */
    char tool[32];              /* what our code tool is called; "" : none */
    json_t *box;     /* tools of the service that are offered; NULL: none */
    uint32_t scopes; /* of the caller, for these */
    char *base_url;
    json_t *functions, *tool_choice, *options, *echo;
    bool json_answer, truncate, stored, background;
    int64_t max_output_tokens, max_tool_calls, max_seconds;
    char previous[ID_MAX], conversation[ID_MAX], agent[CHAT_NAME_MAX];
    int64_t created_ms;
    uint64_t started_mono_ms;
    bool loaded; /* from the store: over, its events are made up */

    /* Used by its own thread only, while it runs. */
    struct chat_items context, input;
    uint64_t memory_bytes;
    char session[ID_MAX], workspace[ID_MAX];
    bool session_explicit, session_new;
    struct saved_tool *saved; /* of the workspace; owned */
    size_t saved_count;
    char *prompt;    /* the last words of the user */
    bool locked;     /* it has the lock of its conversation */
    size_t linked;   /* outputs that are stored */
    size_t left_out; /* items of the context the model did not get */
    char *summary;   /* what the model made of them; NULL: a note */
    char through[CHAT_ITEM_ID]; /* the last of them */

    atomic_bool cancel; /* stop */
    atomic_bool left;   /* its only client is gone */

    struct mutex lock; /* all below */
    struct cond ended;
    enum chat_status status;
    bool over;
    bool ran; /* code ran, or something was handed out */
    struct error failure;
    const char *incomplete; /* reason, or NULL */
    struct chat_items output;
    struct model_usage usage;
    char pending_approval[ID_MAX];
    int64_t completed_ms;
    uint64_t over_mono_ms;
    struct arena *log; /* has the lines; NULL: none yet */
    struct chat_line **lines;
    size_t line_count, line_room;
    uint64_t line_bytes;
    struct chat_watch *watches;
    uint64_t last_handle;
    int64_t last_number; /* of a loaded one: of its last event, when it ran */
};

/* ---- chat.c ------------------------------------------------------------- */

struct chat_response *chat_response_new(struct chat *c,
                                        const struct actor *who);
struct chat_response *chat_response_ref(struct chat_response *r);
/* Hands it to a thread. ERR_BUSY when too many wait. */
int chat_submit(struct chat *c, struct chat_response *r, struct error *err);
/* It is over: it is kept for a while, for those that come back. */
void chat_retire(struct chat_response *r);
/* Tells the responses that run in a conversation to stop. */
void chat_cancel_conversation(struct chat *c, const char *id);
/* The response of this id, and those of this conversation ("": none), whose
 * rows were deleted, are not found again. */
void chat_forget(struct chat *c, const char *id, const char *conversation);
bool chat_stopped(struct chat *c);

/* ---- loop.c ------------------------------------------------------------- */

/* Runs it to its end, on a thread of the module. */
void chat_loop_run(struct chat_response *r);
/* Counts what a call of the model used. */
void chat_add_usage(struct chat_response *r, const struct model_usage *u);

/* ---- events.c ----------------------------------------------------------- */

/* Adds an event. event: an object without type and number, taken; full: the
 * same with outputs, taken, or NULL. type: static. */
void chat_event_add(struct chat_response *r, const char *type, json_t *event,
                    json_t *full);
bool chat_event_is_last(const char *type);
/* The last one was added: nothing follows. Wakes those that wait. */
void chat_event_end(struct chat_response *r);
void chat_event_free(struct chat_response *r);

/* ---- object.c ----------------------------------------------------------- */

/* Adds an event whose member is the whole response. */
void chat_object_event(struct chat_response *r, const char *type);
/* The object without its output, as it is stored. */
json_t *chat_object_body(struct chat_response *r);
/* Events of one that was loaded. */
void chat_object_replay(struct chat_response *r);
json_t *chat_object_error(const struct error *err);
json_t *chat_object_usage(const struct model_usage *u);
/* A string of bytes that may be anything: what is not UTF-8, and U+0000,
 * become U+FFFD. */
json_t *chat_text(const char *bytes, size_t len);
/* At least the given members of an object; values: taken. */
json_t *chat_pack(const char *fmt, ...);

/* ---- items.c, items_store.c --------------------------------------------- */

json_t *chat_item_message(const char *id, const char *status, json_t *content);
json_t *chat_item_output_text(const char *text, size_t len,
                              json_t *annotations);
/* Sets an id of ours with that prefix. */
void chat_item_make_id(json_t *body, const char *prefix);
bool chat_item_is(const struct chat_item *item, const char *type);
const char *chat_item_role(const struct chat_item *item);
const char *chat_item_status(const struct chat_item *item);
void chat_item_add_file(struct chat_item *item, const char *file,
                        const char *version, const char *path,
                        const char *change, uint64_t size);
/* Adds those of a list: part 0 context, 1 input, 2 output. */
int chat_items_of_response(struct store_tx *tx, const char *response, int part,
                           struct chat_items *ret, struct error *err);
int chat_items_of_conversation(struct store_tx *tx, const char *conversation,
                               struct chat_items *ret, struct error *err);
/* The caller's item of that id; 1, 0: none, -code. */
int chat_items_lookup(struct store_tx *tx, const struct actor *who,
                      const char *id, struct chat_item *ret,
                      struct error *err);

/* ---- response.c: rows --------------------------------------------------- */

/* The new response, its context and its input. */
int chat_row_create(struct chat_response *r, struct error *err);
/* Outputs that are complete by now. */
int chat_row_progress(struct chat_response *r, struct error *err);
/* How it ended; and what its conversation gets. */
int chat_row_finish(struct chat_response *r, struct error *err);
/* No more than that it failed, where there is no room for its end. */
int chat_row_fail(struct chat_response *r, struct error *err);
int chat_row_delete(struct chat *c, const struct actor *who, const char *id,
                    struct error *err);
int chat_row_load(struct chat *c, const struct actor *who, const char *id,
                  bool items, struct chat_response **ret, struct error *err);
/* What an earlier run of the service left. */
int chat_row_recover(struct chat *c, struct error *err);

/* ---- container.c -------------------------------------------------------- */

/* Settles which session code runs in, before anything is answered: an
 * explicit one must be usable, files that were named must exist. */
int chat_container_settle(struct chat_response *r,
                          const struct chat_request *rq,
                          struct chat_fault *fault, struct error *err);
/* The session exists when it returns. */
int chat_container_need(struct chat_response *r, struct error *err);
/* Puts files and images of the input into the session. */
int chat_container_files(struct chat_response *r, struct error *err);
/* The files that are there, one a line; nothing without a session. */
void chat_container_list(struct chat_response *r, struct buf *out);
/* Keeps bytes as a file of the session. */
int chat_container_keep(struct chat_response *r, const char *path,
                        const char *change, const void *bytes, size_t len,
                        struct chat_item *item, struct error *err);
/* A data: URI, or bare base64, to bytes; ret_type: media type or "". */
int chat_container_decode(const char *uri, unsigned char **ret,
                          size_t *ret_len, char ret_type[96],
                          struct error *err);
/* The bytes of a file by its id, at most max; ret: owned by caller. */
int chat_container_read(struct chat_response *r, const char *file, size_t max,
                        char **ret, size_t *ret_len, char ret_type[96],
                        struct error *err);

/* ---- view.c ------------------------------------------------------------- */

/* The items of context and input as a model gets them: an array of entries
 * for each; new. */
json_t *chat_view_items(struct chat_response *r);
/* The system text; owned by caller. */
char *chat_view_instructions(struct chat_response *r);
/* Our tool and the client's, as functions. */
json_t *chat_view_tools(struct chat_response *r);
/* Those of them that the choice allows. */
json_t *chat_view_offered(struct chat_response *r);
/* The choice for a model; forced choices hold for the first call only. */
json_t *chat_view_choice(struct chat_response *r, bool first, bool tools);
/* ---- writer.c ----------------------------------------------------------- */

enum chat_call_kind {
    CHAT_CALL_CODE,     /* its item is open; chat_tool_run closes it */
    CHAT_CALL_BOX,      /* the same; chat_toolbox_run closes it */
    CHAT_CALL_FUNCTION, /* of the client; its item is complete */
    CHAT_CALL_UNKNOWN   /* has no item */
};

/* A call that the model made. */
struct chat_call {
    enum chat_call_kind kind;
    /* Borrowed from the writer. */
    const char *call_id, *name;
    const char *arguments; /* BOX */
    const char *code;      /* CODE: to run; NULL: there is none, see why */
    const char *why;
    size_t output; /* CODE, BOX: its item */
};

/* What one call of a model says. */
struct chat_writer;
struct chat_writer *chat_writer_new(struct chat_response *r);
void chat_writer_free(struct chat_writer **w); /* for cleanup() */
/* A model_event_fn; ctx is the writer. */
bool chat_writer_event(void *ctx, const struct model_event *event);
/* What stopped it, if chat_writer_event returned false. */
const struct error *chat_writer_error(const struct chat_writer *w);
/* The call has ended; output: all its items. cut: a limit stopped it. */
void chat_writer_finish(struct chat_writer *w, const json_t *output, bool cut);
/* Writes items until the next call of a tool; false: all are written. */
bool chat_writer_next(struct chat_writer *w, struct chat_call *ret);
/* Has the model said anything? */
bool chat_writer_some(const struct chat_writer *w);
/* Closes what is open, because the response ends here. */
void chat_writer_abort(struct chat_writer *w);

/* Groups of events that writer.c and object.c both need. */
void chat_part_events(struct chat_response *r, const char *id, size_t output,
                      size_t content, json_t *part); /* a part from its first
                                                        event to its last */
void chat_part_open(struct chat_response *r, const char *id, size_t output,
                    size_t content, bool refusal);
void chat_part_delta(struct chat_response *r, const char *id, size_t output,
                     size_t content, bool refusal, const char *text,
                     size_t len);
void chat_part_close(struct chat_response *r, const char *id, size_t output,
                     size_t content, json_t *part);
void chat_summary_events(struct chat_response *r, const char *id,
                         size_t output, size_t index, const json_t *text);
/* An event that has nothing but the item it is about. */
void chat_item_event(struct chat_response *r, const char *type, const char *id,
                     size_t output);
/* Adds an output item and tells of it; body: taken. Its index. */
size_t chat_item_open(struct chat_response *r, json_t *body);
/* The item as it is from now on; body: taken, and no longer changed. */
void chat_item_close(struct chat_response *r, size_t output, json_t *body);
/* The same with what is stored beside the body; item: taken. */
void chat_item_replace(struct chat_response *r, size_t output,
                       struct chat_item *item);
void chat_item_done_event(struct chat_response *r, size_t output,
                          const struct chat_item *item);

/* A message of ours, whole. */
void chat_writer_message(struct chat_response *r, const char *text,
                         const char *phase);
/* The code of an item begins to run. */
void chat_writer_code_runs(struct chat_response *r, size_t output);
/* It has ended; item: as it is from now on, taken. */
void chat_writer_code_done(struct chat_response *r, size_t output,
                           struct chat_item *item);
/* It waits for a person. */
void chat_writer_held(struct chat_response *r, const char *approval,
                      const char *execution);

/* ---- tool.c ------------------------------------------------------------- */

struct chat_run {
    char *text;     /* for the model; owned */
    json_t *images; /* data: URIs for it; owned */
    bool failed;    /* the code raised, or was stopped */
    bool held;      /* it still waits for a person */
};
/* Runs code as output item `output`, which is open, and closes it. Negative:
 * the response cannot go on. */
int chat_tool_run(struct chat_response *r, size_t output, const char *code,
                  struct chat_run *ret, struct error *err);
/* Closes an item whose code does not run: why. */
void chat_tool_refuse(struct chat_response *r, size_t output, const char *code,
                      const char *why);
void chat_run_done(struct chat_run *run); /* for cleanup() */
/* The code in the arguments of a call; NULL: there is none, and *ret_why is
 * what to tell the model. Both owned by caller. */
char *chat_tool_code(const char *arguments, char **ret_why);

/* Is the response to stop? ctx: it. */
bool chat_is_left(void *ctx);

/* ---- toolbox.c ---------------------------------------------------------- */

/* Settles which tools of the service are offered. */
int chat_toolbox_settle(struct chat_response *r, const struct chat_request *rq,
                        struct chat_fault *fault, struct error *err);
/* Adds them to a list of tools. */
void chat_toolbox_offer(struct chat_response *r, json_t *tools);
/* The name of the tool that a model calls so; NULL: none of them. */
const char *chat_toolbox_name(const struct chat_response *r,
                              const char *called);
/* Writes the item that lists them, unless the context has one. */
void chat_toolbox_list(struct chat_response *r);
json_t *chat_toolbox_item(const char *id, const char *name, const char *status,
                          const char *arguments, size_t len);
/* Runs a call as output item `output`, which is open, and closes it. */
void chat_toolbox_run(struct chat_response *r, size_t output,
                      const char *called, const char *arguments,
                      struct chat_run *ret);
/* Closes an item whose tool does not run: why. */
void chat_toolbox_refuse(struct chat_response *r, size_t output,
                         const char *called, const char *arguments,
                         const char *why);

/* ---- compact.c ---------------------------------------------------------- */

/* The items of context and input for the model. What does not fit into its
 * context is replaced by a summary that the model writes, or by a note.
 * fixed: tokens of instructions and tools. New. */
json_t *chat_compact_view(struct chat_response *r, uint64_t fixed);
/* Shortens the oldest outputs of tools until all fits, between two calls of
 * the model. */
void chat_compact_outputs(const struct chat_response *r, json_t *input,
                          uint64_t fixed);
/* Tokens of the items of context and input, about. */
uint64_t chat_compact_tokens(struct chat_response *r);
/* A summary of all of them; owned by caller. NULL: the model gave none, and
 * err says why. */
char *chat_compact_all(struct chat_response *r, struct error *err);
/* The summary in an item of the type compaction; owned by caller. NULL: it is
 * none of ours. And the item of a summary; new. */
char *chat_compact_open(const json_t *body);
json_t *chat_compact_item(const char *summary);
/* What an earlier response of the chain or conversation left out. object: it,
 * or NULL. */
void chat_compact_inherit(struct chat_response *r, const json_t *object);

/* ---- saved.c ------------------------------------------------------------ */

/* Adds the saved tools of the response's workspace to a list of tools. */
void chat_saved_offer(struct chat_response *r, json_t *tools);
/* Was a tool of that name offered? */
bool chat_saved_is(const struct chat_response *r, const char *name);
/* The code of a call of one; owned by caller. NULL: *ret_why has the reason,
 * for the model; owned by caller. */
char *chat_saved_code(const struct chat_response *r, const char *name,
                      const char *arguments, char **ret_why);
void chat_saved_done(struct chat_response *r);
/* When the turn has to be over, by clock_mono_ms. */
uint64_t chat_deadline_ms(const struct chat_response *r);
/* Seconds that the turn may take. */
uint32_t chat_turn_s(const struct chat_response *r);

/* ---- cite.c ------------------------------------------------------------- */

/* Annotations of a text; final: files of this response that were not named
 * are added. New array. */
json_t *chat_cite(struct chat_response *r, const char *text, size_t len,
                  bool final);

#endif
