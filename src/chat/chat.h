/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent loop: a question comes in, a model answers it and runs code in a
 * session on the way. What is asked, said and run are items, in the words of
 * OpenAI's Responses API; doors translate for clients of other dialects.
 *
 *   chat.c         the module, its threads and the responses it knows
 *   request.c      a request checked, its context and its session found
 *   loop.c         the loop: model, tools, limits
 *   writer.c       what a model says, as items and events of the response
 *   tool.c         one call of the code tool, and its result for the model
 *   toolbox.c      calls of the service's other tools
 *   saved.c        saved tools of a workspace, offered beside the code tool
 *   container.c    the session of a response, and the files put there
 *   view.c         the context as a model gets it
 *   compact.c      a context that is too long, made to fit
 *   cite.c         files that an answer names or forgets to name
 *   events.c       the numbered events of a response; who follows them
 *   object.c       the response as an object, and its events once it is over
 *   items.c        items of clients checked and completed
 *   items_store.c  items in the store
 *   response.c     responses in the store
 *   conversation.c a conversation's lock, items and session
 *
 * A response is a job of this module, not of the request that made it: it runs
 * on a thread of a bounded pool, and any number of clients follow its events
 * or come back for them. A response and its items belong to the principal that
 * asked (tenant and key); an id of another principal is answered exactly as an
 * unknown one (ERR_NOT_FOUND). Text of files, tools and models is data: every
 * call is made with the rights of the principal that asked (L1).
 *
 * Any thread may call.
 */
#ifndef GLOVEBOX_CHAT_CHAT_H
#define GLOVEBOX_CHAT_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct actor;
struct agents;
struct buf;
struct chat;
struct conf;
struct core;
struct error;
struct models;
struct network_spec;
struct session_attach;
struct sessions;
struct store_tx;
struct workspaces;

/* ---- the module --------------------------------------------------------- */

/* How clients call files, by dialect; see doors/. ret: ID_MAX. */
struct chat_names {
    bool (*file)(const char *text, char *ret); /* to file_…; false: none */
    char *(*container)(const char *file, char *ret); /* file_… to cfile_… */
    char *(*library)(const char *file, char *ret);   /* file_… to file-… */
};

struct chat_parts { /* all borrowed until chat_close */
    const struct conf *conf;
    const struct chat_names *names;
    const struct core *core;
    struct workspaces *workspaces;
    struct sessions *sessions;
    struct models *models;
    struct agents *agents; /* NULL: no named agents */
};

/* Responses that an earlier run of the service left unfinished become failed,
 * with a reason. */
int chat_open(const struct chat_parts *parts, struct chat **ret,
              struct error *err);
/* Refuses new responses and ends those that run; each is stored as failed. */
void chat_stop(struct chat *c, unsigned deadline_s);
void chat_close(struct chat *c); /* after chat_stop; accepts NULL */
/* For metrics: responses that run or wait for a thread, and all so far. */
struct chat_metrics {
    uint64_t running, waiting, completed, failed, incomplete, cancelled;
};
void chat_metrics(struct chat *c, struct chat_metrics *ret);

/* What a refusal says besides its sentence, for dialects that name a field. */
struct chat_fault {
    const char *code; /* a constant; NULL: none */
    char param[96];   /* "" : none */
};
/* ERR_INVALID; param NULL: none. */
int chat_invalid(struct chat_fault *fault, const char *code, const char *param,
                 struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- items.c ------------------------------------------------------------ */

#define CHAT_ITEM_ID 132u                    /* with its NUL; clients' too */
#define CHAT_ITEMS_MAX 2000u                 /* of one request or context */
#define CHAT_ITEM_BYTES ((size_t)24 << 20)   /* of one item */
#define CHAT_STRING_CHARS ((size_t)10 << 20) /* of one text */

/* An item in the form it is stored and sent: with id, type and status. Of a
 * code call the body always has `outputs`; doors leave them out. */
struct chat_item {
    int64_t number; /* in the store; 0: not stored */
    bool kept;      /* that row is committed */
    json_t *body;   /* owned */
    char *result;   /* of a code call: what the model was told; or NULL */
    char execution[ID_MAX]; /* exec_… of a code call, or "" */
    char session[ID_MAX];   /* where it ran, or "" */
    int64_t created_at_ms;
    struct chat_item_file *files; /* it made or changed; owned */
    size_t file_count;
};
/* A version of a file, as an execution left it. */
struct chat_item_file {
    char file[ID_MAX], version[ID_MAX];
    char *path; /* below /mnt/data; owned */
    char change[16];
    uint64_t size;
};
struct chat_items {
    struct chat_item *list;
    size_t count, room;
};
void chat_items_done(struct chat_items *items); /* for cleanup() */
void chat_item_done(struct chat_item *item);
/* Adds an item; body: taken. */
struct chat_item *chat_items_add(struct chat_items *items, json_t *body);
/* A copy of it, which shares the body. */
void chat_items_copy(struct chat_items *to, const struct chat_item *item);
const char *chat_item_id(const struct chat_item *item);
const char *chat_item_type(const struct chat_item *item);

/* The items of a client: a string, or an array of at most max. Each is
 * checked, completed (id, type, status; text as parts) and, where it refers to
 * a stored one by id, replaced by that one. param: the field it came in, for
 * the fault. ret is added to. */
int chat_items_read(struct chat *c, const struct actor *who,
                    const json_t *input, const char *param, size_t max,
                    struct chat_items *ret, struct chat_fault *fault,
                    struct error *err);
/* Stores those that are not stored yet and sets their numbers. response: the
 * one that made them, or "". After the commit: chat_items_kept. */
int chat_items_store(struct chat *c, struct store_tx *tx,
                     const struct actor *who, const char *response,
                     struct chat_items *items, struct error *err);
void chat_items_kept(struct chat_items *items);
/* Removes items that lost a reference and that no response and no conversation
 * has any more. */
int chat_items_collect(struct store_tx *tx, struct error *err);
/* One that the caller owns, by id. */
int chat_items_find(struct chat *c, const struct actor *who, const char *id,
                    struct chat_item *ret, struct error *err);
/* The item for a client: outputs are null unless asked for. New. */
json_t *chat_item_show(const struct chat_item *item, bool outputs);

/* ---- conversation.c ----------------------------------------------------- */

struct chat_conversation {
    char id[ID_MAX];                         /* conv_… */
    char *metadata;                          /* a JSON object; owned */
    char *title;                             /* owned; "" : none */
    char session[ID_MAX], workspace[ID_MAX]; /* its container; or "" */
    char model[132], agent[132];             /* of the last response, or "" */
    int64_t created_at_ms, updated_at_ms;
};
void chat_conversation_done(struct chat_conversation *v); /* for cleanup() */
int chat_conversation_find(struct chat *c, const struct actor *who,
                           const char *id, struct chat_conversation *ret,
                           struct error *err);
/* One writer at a time. Waits its turn for wait_ms, then ERR_CONFLICT with a
 * retry hint. The response that runs has it until it ends. */
int chat_conversation_lock(struct chat *c, const char *id, unsigned wait_ms,
                           struct error *err);
void chat_conversation_unlock(struct chat *c, const char *id);
/* Its items from the first on. */
int chat_conversation_items(struct chat *c, const struct actor *who,
                            const char *id, struct chat_items *ret,
                            struct error *err);
/* Adds stored items at its end; the caller has the lock. An item that the
 * conversation has already stays where it is. */
int chat_conversation_append(struct store_tx *tx, const char *id,
                             const struct chat_items *items,
                             struct error *err);
/* The session that its code runs in from now on. */
int chat_conversation_own(struct store_tx *tx, const char *id,
                          const char *session, const char *workspace,
                          struct error *err);

/* ---- responses ---------------------------------------------------------- */

enum chat_status {
    CHAT_QUEUED,
    CHAT_IN_PROGRESS,
    CHAT_COMPLETED,
    CHAT_INCOMPLETE,
    CHAT_FAILED,
    CHAT_CANCELLED
};
const char *chat_status_name(enum chat_status status);

#define CHAT_FILES_MAX 50u      /* file_ids of a container */
#define CHAT_CITED_MAX 20u      /* files cited that the answer does not name */
#define CHAT_FUNCTIONS_MAX 128u /* function tools of a request */

/* What a response is to do; strings and JSON are borrowed for the call. A
 * member that is zero was not asked for. */
struct chat_request {
    const char *model;         /* NULL: the agent's, else the default one */
    const char *instructions;  /* for this response alone */
    const json_t *input;       /* a string or an array; NULL: none */
    const char *previous;      /* resp_… whose context it continues */
    const char *conversation;  /* conv_…; never both */
    const char *agent;         /* a named agent, or NULL */
    const char *agent_version; /* NULL: its newest */
    /* The code tool. */
    bool code;
    const char *container;              /* an explicit id; NULL: auto */
    const struct session_attach *files; /* to be put there; at most
                                           CHAT_FILES_MAX */
    size_t file_count;
    uint64_t memory_bytes;
    const struct network_spec *network;
    /* Tools of the service (chat_box): all, those of a list of names, or those
     * that only read. scopes, base_url: of the caller, for them. */
    bool box, box_read_only;
    const json_t *box_names; /* NULL: all */
    uint32_t scopes;
    const char *base_url;
    /* Tools of the client: function tools in their flat form. A call of one
     * ends the response. */
    const json_t *functions;
    const json_t *tool_choice; /* checked by the door */
    /* temperature, top_p, reasoning, text, parallel_tool_calls, user: for
     * model_request.options. */
    const json_t *options;
    const json_t *schema; /* text.format is json_schema or json_object: the
                             answer is JSON and has no links */
    int64_t max_output_tokens; /* of the whole response; 0: no limit */
    int64_t max_tool_calls;    /* -1: no limit but the operator's */
    int64_t max_seconds;       /* of the turn; 0: as the operator says */
    bool truncate;             /* the oldest items go when it is too long */
    bool store, background;
    /* Members of the response object that repeat the request. */
    const json_t *echo;
};

/* ---- toolbox.c: tools of the service besides code ------------------------
 * Another module has them; the loop offers them to the model when a request
 * asks for the MCP server CHAT_BOX_LABEL. */

#define CHAT_BOX_LABEL "glovebox"
#define CHAT_BOX_URL "glovebox:tools" /* where clients insist on a URL */

struct chat_box_call { /* all borrowed for the call */
    const struct actor *who;
    uint32_t scopes;
    const char *base_url, *name;
    const json_t *arguments; /* an object; with the session, if it takes one */
    const char *conversation, *message, *prompt;
    bool (*stop)(void *ctx); /* asked by the tool while it works */
    /* Policy holds the call: the tool waits up to held_wait_ms for the
     * decision, and then for its end. Called with the approval and the
     * execution when it begins to wait, with "" and "" when it ends. */
    void (*on_held)(void *ctx, const char *approval, const char *execution);
    uint32_t held_wait_ms;
    void *ctx;
};
struct chat_box_answer {
    char *text;     /* owned */
    json_t *images; /* data: URIs; owned; or NULL */
    bool failed;
    struct chat_item_file file;               /* it made; path NULL: none */
    char approval[ID_MAX], execution[ID_MAX]; /* still undecided, or "" */
};
void chat_box_answer_done(struct chat_box_answer *a); /* for cleanup() */
struct chat_box {
    /* {name, description, input_schema, annotations, session} of each tool
     * that such a caller may use; new. session: it takes a session_id, which
     * the loop fills in. */
    json_t *(*list)(void *self, uint32_t scopes);
    void (*run)(void *self, const struct chat_box_call *call,
                struct chat_box_answer *ret);
};
/* Before the first request; both borrowed until chat_stop. */
void chat_box_set(struct chat *c, const struct chat_box *box, void *self);

/* One response, running or over; counted. */
struct chat_response;

/* Checks everything that can be checked before the first byte of an answer;
 * then the response exists and runs. */
int chat_response_start(struct chat *c, const struct actor *who,
                        const struct chat_request *request,
                        struct chat_response **ret, struct chat_fault *fault,
                        struct error *err);
/* Tokens of what the model would be given for this request, about. Nothing
 * runs; the input may be missing. */
int chat_response_count(struct chat *c, const struct actor *who,
                        const struct chat_request *request, uint64_t *ret,
                        struct chat_fault *fault, struct error *err);
/* What the context and input came to, summarized by the model, as an object
 * with one item in place of all of them. Nothing is stored. */
int chat_response_compact(struct chat *c, const struct actor *who,
                          const struct chat_request *request, json_t **ret,
                          struct chat_fault *fault, struct error *err);
/* One that is stored, or still runs. */
int chat_response_find(struct chat *c, const struct actor *who, const char *id,
                       struct chat_response **ret, struct error *err);
void chat_response_unref(struct chat_response **r); /* for cleanup() */
const char *chat_response_id(const struct chat_response *r);
enum chat_status chat_response_status(struct chat_response *r);
bool chat_response_stored(const struct chat_response *r);
bool chat_response_background(const struct chat_response *r);
/* Did any code run, or was something handed to a client? Then the request must
 * not be repeated. */
bool chat_response_ran(struct chat_response *r);
/* What ended it, of one that failed: its code decides a door's status. */
void chat_response_failure(struct chat_response *r, struct error *ret);
/* The response object as it is now. */
json_t *chat_response_object(struct chat_response *r, bool outputs);
/* Waits until it is over. False: left(ctx), asked twice a second, said so. */
bool chat_response_wait(struct chat_response *r, bool (*left)(void *ctx),
                        void *ctx);
/* Stops it: the model's call, the code that runs. No more than a request; it
 * is over when its last event says so. One that is over stays as it is. */
void chat_response_cancel(struct chat_response *r);
/* A client that followed is gone: stops one that is not stored. */
void chat_response_abandon(struct chat_response *r);
/* Deletes a stored one, with the items that nothing else has. */
int chat_response_delete(struct chat *c, const struct actor *who,
                         const char *id, struct error *err);
/* Everything it was given: context, then input, in order. */
int chat_response_input(struct chat *c, const struct actor *who,
                        const char *id, struct chat_items *ret,
                        struct error *err);

/* ---- events.c: following a response -------------------------------------
 */

struct chat_event {
    int64_t number;   /* 0, 1, … : its sequence_number */
    const char *type; /* "response.created", …; borrowed while r is */
    const char *text; /* the JSON object; len bytes; borrowed while r is */
    size_t len;
    bool last; /* nothing comes after it */
};
/* The event after number `after` (-1: the first), if there is one already.
 * Outputs of code are in it when asked for. 1, 0: not yet, -1: there will be
 * none. */
int chat_event_next(struct chat_response *r, int64_t after, bool outputs,
                    struct chat_event *ret);
/* Calls fn(ctx) once as soon as there is an event after `after`, or none will
 * come; at once, on this thread, if so. Handle for chat_event_unwatch; 0: it
 * was called. */
uint64_t chat_event_watch(struct chat_response *r, int64_t after,
                          void (*fn)(void *ctx), void *ctx);
/* After this returns fn is not running and will not be called. */
void chat_event_unwatch(struct chat_response *r, uint64_t handle);

#endif
