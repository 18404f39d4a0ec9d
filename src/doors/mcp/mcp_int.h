/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of doors/mcp/; see mcp.h for how they work together. */
#ifndef GLOVEBOX_DOORS_MCP_MCP_INT_H
#define GLOVEBOX_DOORS_MCP_MCP_INT_H

#include <stdatomic.h>

#include "base/ids.h"
#include "base/thread.h"
#include "doors/mcp/mcp.h"

#define MCP_VERSION "2026-07-28"
#define MCP_LEGACY_NEWEST "2025-11-25"
#define MCP_LEGACY_BATCH "2025-03-26" /* the only one with batches */

#define MCP_BODY_MAX ((size_t)4 << 20)
#define MCP_BATCH_MAX 50u
#define MCP_PAGE 100u /* entries of a list in one answer */

/* Keys of _meta. */
#define META_PREFIX "io.modelcontextprotocol/"
#define META_VERSION META_PREFIX "protocolVersion"
#define META_CAPABILITIES META_PREFIX "clientCapabilities"
#define META_LOG META_PREFIX "logLevel"
#define META_SERVER META_PREFIX "serverInfo"
#define META_SUBSCRIPTION META_PREFIX "subscriptionId"
#define META_TASKS META_PREFIX "tasks" /* the extension's name */
#define META_CONVERSATION "com.glovebox/conversation"
#define META_MESSAGE "com.glovebox/message"

enum rpc_code {
    RPC_PARSE = -32700,
    RPC_INVALID = -32600,
    RPC_METHOD = -32601,
    RPC_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_HEADER = -32020,     /* header and body disagree */
    RPC_CAPABILITY = -32021, /* the client did not declare it */
    RPC_VERSION = -32022,    /* not served */
    RPC_RESOURCE = -32002,   /* legacy only */
};

struct mcp_stream;
struct mcp_session;
struct mcp_listener;
struct mcp_task;
struct mcp_used;

/* ---- mcp.c: what the door remembers ------------------------------------- */

#define MCP_SESSION_BUCKETS 256u

struct mcp {
    const struct doors *doors;
    unsigned char secret[32]; /* of this process: signs states */
    struct mcp_used *used;    /* states that came back, see ask.c */
    size_t used_count;
    _Atomic bool stopping;
    struct worker watcher; /* runs mcp_watch_run */
    struct mutex lock;
    struct mcp_session *sessions[MCP_SESSION_BUCKETS];
    size_t session_count;
    struct mcp_listener *listeners;
    size_t listener_count;
    struct mcp_task *tasks;
    size_t task_count;
};

/* The lifecycle in struct doors_door. */
int mcp_open(struct doors *doors, struct error *err);
void mcp_stop(struct doors *doors);
void mcp_close(struct doors *doors);

/* ---- rpc.c -------------------------------------------------------------- */

enum rpc_kind {
    RPC_REQUEST,
    RPC_NOTIFICATION,
    RPC_RESPONSE
};

/* Everything is borrowed from the message. */
struct rpc_message {
    enum rpc_kind kind;
    const json_t *id; /* NULL: none, or none that could be read */
    const char *method;
    const json_t *params; /* NULL: none */
    const json_t *meta;   /* of params; NULL: none */
    const json_t *result, *error;
};

/* NULL, or what is wrong with it; ret->id is set either way. */
const char *mcp_rpc_read(const json_t *value, struct rpc_message *ret);
/* The claim of a modern message: its revision, or NULL. has: any claim. */
const char *mcp_rpc_claim(const struct rpc_message *m, bool *ret_has);
/* Which era a request or notification belongs to (A1); header: its
 * MCP-Protocol-Version or NULL. */
enum mcp_era mcp_rpc_era(const struct rpc_message *m, const char *header);
/* One of the legacy revisions, as ours; NULL otherwise. */
const char *mcp_rpc_legacy(const char *version);

/* A failure as JSON-RPC. */
struct rpc_fault {
    int code; /* 0: none */
    char message[400];
    json_t *data; /* owned; NULL: none */
};
/* data: taken. Returns -1. */
int mcp_rpc_fault(struct rpc_fault *f, int code, json_t *data, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));
/* Of one of the core's. */
int mcp_rpc_blame(struct rpc_fault *f, const struct error *err);
void mcp_rpc_fault_done(struct rpc_fault *f);
/* {"code":…,"message":…,"data":…} */
void mcp_rpc_write_fault(struct json_writer *w, const char *key,
                         const struct rpc_fault *f);
void mcp_rpc_write_error(struct buf *out, const json_t *id,
                         const struct rpc_fault *f);
/* Any value of jansson's. */
void mcp_rpc_write_value(struct json_writer *w, const char *key,
                         const json_t *value);

/* ---- one request on its way --------------------------------------------- */

struct mcp_exchange {
    struct mcp *mcp;
    const struct doors *doors;
    struct doors_call *door; /* NULL in a task */
    const struct actor *actor;
    uint32_t scopes;
    struct arena *arena;
    enum mcp_era era;
    bool azure;
    const char *pool;
    const char *base_url;        /* as doors_url_base; arena */
    char process[ID_MAX];        /* of `glovebox mcp`: proc_…; or "" */
    unsigned groups;             /* of tools */
    struct mcp_session *session; /* legacy, referenced; or NULL */
    const char *version;
    struct rpc_message msg;
    const json_t *caps; /* of the client; NULL: none */
    int log_level;      /* least it wants; LOG_NONE: nothing */

    struct buf result; /* members of the result */
    struct json_writer w;
    struct buf meta;         /* members of its _meta */
    const char *result_type; /* NULL: "complete" */
    struct rpc_fault fault;

    struct buf *batch; /* answers are collected here instead */
    struct mcp_stream *stream;
    bool answered;
    uint64_t started_ms, looked_ms, progress_ms;
    double progress;
    struct mcp_exchange *next; /* of the session's running ones */
    _Atomic bool cancelled;
    struct mcp_task *task; /* it runs in; NULL: none */
    bool unkept;           /* it is of a session that keeps nothing */
    json_t *asks;          /* key -> {method, params}: still open */
    json_t *asked;         /* key -> result */
    const char *state;     /* of the round before; arena */
    const char *keep;      /* for the next; arena */
    bool keep_repeats;     /* which may come more than once */
    uint32_t scope;        /* that was missing; 0: none */
    /* Of the agent loop, which has no client here: whether it is to stop, how
     * it waits for approval, and what its user asked. NULL: it is a request.
     * stop_ctx is for both functions. */
    bool (*stop)(void *ctx);
    void *stop_ctx;
    void (*on_held)(void *ctx, const char *approval, const char *execution);
    uint32_t held_wait_ms;
    const char *prompt;
};

#define LOG_NONE 100
/* debug 0 … emergency 7; -1: no such level. */
int mcp_log_level(const char *name);

/* reply.c */
void mcp_exchange_init(struct mcp_exchange *x, struct doors_call *call);
void mcp_exchange_done(struct mcp_exchange *x);
/* The view of the exchange for a tool. */
void mcp_exchange_call(struct mcp_exchange *x, struct mcp_call *ret);
/* Makes the answer a stream, if it can be one. */
bool mcp_reply_begin(struct mcp_exchange *x);
/* A notification on the request's own stream; params: an object's members. */
void mcp_reply_notify(struct mcp_exchange *x, const char *method,
                      const struct buf *params, bool must);
/* Any message on it (a request to a legacy client). False: there is none. */
bool mcp_reply_send(struct mcp_exchange *x, const struct buf *message);
/* {"jsonrpc":"2.0","id":…,"result":{…}} or the error. */
void mcp_reply_write(const struct mcp_exchange *x, struct buf *out);
/* The members of a result, with its type and _meta, as an object. */
void mcp_reply_object(const struct mcp_exchange *x, struct buf *out);
/* Answers with what x has: result or fault. */
void mcp_reply(struct mcp_exchange *x);
/* No exchange yet: a status and an error. id: NULL for none. */
void mcp_reply_refuse(struct doors_call *call, unsigned status,
                      const json_t *id, const struct rpc_fault *f);
int mcp_reply_refusef(struct doors_call *call, unsigned status,
                      const json_t *id, int code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
bool mcp_reply_cancelled(struct mcp_call *call);

/* ---- serve.c: methods --------------------------------------------------- */

/* Fills x->result or x->fault. Returns 0, -1 for a fault, or MCP_PENDING.
 * MCP_TAKEN: it answered by itself. */
#define MCP_TAKEN 2
typedef int mcp_method_fn(struct mcp_exchange *x);

struct mcp_method {
    const char *name;
    mcp_method_fn *run;
    unsigned flags;
};
enum {
    METHOD_MODERN = 1 << 0,
    METHOD_LEGACY = 1 << 1,
    METHOD_AZURE = 1 << 2, /* also at a pool of the Azure kind */
    METHOD_ASKS = 1 << 3,  /* may be answered with questions */
    METHOD_TASKS = 1 << 4, /* needs the tasks extension */
};
/* NULL: none here. */
const struct mcp_method *mcp_methods_find(const struct mcp_exchange *x);
/* Runs it and answers. */
void mcp_methods_run(struct mcp_exchange *x);

mcp_method_fn mcp_modern_discover, mcp_legacy_initialize, mcp_legacy_ping,
    mcp_legacy_set_level, mcp_legacy_subscribe, mcp_legacy_unsubscribe,
    mcp_call_list, mcp_call_run, mcp_resources_list, mcp_resources_templates,
    mcp_read, mcp_prompts_list, mcp_prompts_get, mcp_complete, mcp_listen,
    mcp_tasks_get, mcp_tasks_update, mcp_tasks_cancel;

/* ttlMs and cacheScope, where the era has them. */
void mcp_write_caching(struct mcp_exchange *x, bool shared, int64_t ttl_ms);
/* A string of params, or a fault that names it; NULL then. */
const char *mcp_need_string(struct mcp_exchange *x, const char *name);
/* The cursor's text ("" : the beginning); NULL: a fault. */
const char *mcp_need_cursor(struct mcp_exchange *x);

/* ---- gate.c ------------------------------------------------------------- */

/* Each returns 0, or -1 when it has answered. */
int mcp_gate_origin(struct doors_call *call);
int mcp_gate_key(struct doors_call *call, bool azure);
/* One is missing the scope: 403. */
void mcp_gate_scope(struct mcp_exchange *x);
bool mcp_has_scope(const struct mcp_exchange *x, uint32_t scope);
/* -1 with x->scope set. */
int mcp_need_scope(struct mcp_exchange *x, uint32_t scope);
void mcp_gate_preflight(struct doors_call *call);
bool mcp_gate_loopback(const char *host); /* a Host header's value */

/* ---- serve.c: paths ----------------------------------------------------- */

doors_handler_fn mcp_serve_post, mcp_serve_get, mcp_serve_delete,
    mcp_serve_options, mcp_gate_metadata;
/* Is it the MCP endpoint of an Azure pool? */
bool mcp_table_azure(const struct doors_call *call);

/* ---- rev_2026.c --------------------------------------------------------- */

struct mcp_headers { /* of a request over any transport */
    const char *(*get)(void *ctx, const char *name);
    void *ctx;
};

/* Checks 5 to 10 of the reference's order; 0, or -1 with the fault. */
int mcp_modern_check(const struct rpc_message *m, const struct mcp_headers *h,
                     struct arena *arena, struct rpc_fault *f);
/* The revision, capabilities and level of a message that passed. */
void mcp_modern_read(struct mcp_exchange *x);
/* Members of a discovery or handshake, for both eras. */
void mcp_write_capabilities(struct mcp_exchange *x);
void mcp_write_server(struct mcp_exchange *x, struct json_writer *w,
                      const char *key);
extern const char mcp_instructions[];

/* A header's value, trimmed and unwrapped; NULL: malformed. arena */
const char *mcp_header_decode(struct arena *arena, const char *value);
/* Mcp-Param-* against a tool's schema. */
int mcp_header_params(const struct mcp_tool *tool, const json_t *args,
                      const struct mcp_headers *h, struct arena *arena,
                      struct rpc_fault *f);

/* ---- stream.c ----------------------------------------------------------- */

/* number: of the stream in its session; 0: not to be taken up again. prime:
 * opens with an empty event, so that it can be from the start. */
struct mcp_stream *mcp_stream_new(uint64_t number, bool prime);
struct mcp_stream *mcp_stream_ref(struct mcp_stream *s);
void mcp_stream_unref(struct mcp_stream *s); /* accepts NULL */
/* Answers the request with the events after `last`; an earlier reader is
 * disconnected. */
void mcp_stream_attach(struct mcp_stream *s, struct http_request *req,
                       uint64_t last);
/* must false: dropped when the reader is far behind. */
void mcp_stream_add(struct mcp_stream *s, const struct buf *message,
                    bool must);
void mcp_stream_end(struct mcp_stream *s);
void mcp_stream_cut(struct mcp_stream *s);
bool mcp_stream_gone(struct mcp_stream *s);    /* its reader left */
bool mcp_stream_over(struct mcp_stream *s);    /* ended */
bool mcp_stream_read(struct mcp_stream *s);    /* has a reader now */
size_t mcp_stream_bytes(struct mcp_stream *s); /* kept */
uint64_t mcp_stream_number(const struct mcp_stream *s);

/* ---- session.c: legacy sessions ----------------------------------------- */

#define MCP_SESSIONS_MAX 4096u
#define MCP_SESSIONS_PER_KEY 256u
#define MCP_SESSION_IDLE_MS ((uint64_t)3600 * 1000)
#define MCP_SESSION_STREAMS 16u
#define MCP_SESSION_BYTES ((size_t)4 << 20) /* of events kept */

struct mcp_session {
    struct mcp_session *next; /* of its bucket */
    _Atomic unsigned refs;
    char id[ID_MAX]; /* mcp_… */
    char tenant[AUTH_TENANT_MAX], key[ID_MAX], token[ID_MAX];
    const char *version;
    json_t *caps;
    _Atomic bool ended;
    _Atomic int log_level;
    uint64_t used_ms; /* under mcp->lock */

    struct mutex lock; /* of what follows */
    struct cond answer;
    uint64_t streams_made, asks_made;
    struct mcp_stream *streams[MCP_SESSION_STREAMS]; /* newest first */
    struct mcp_stream *get;       /* the standing one, or NULL */
    struct mcp_exchange *running; /* requests */
    json_t *open;                 /* id of ours -> null or its response */
    struct mcp_listener *listener;
};

/* ret: referenced. -ERR_LIMIT when there are too many. */
int mcp_session_create(struct mcp *m, const struct principal *who,
                       const char *version, const json_t *caps,
                       struct mcp_session **ret, struct error *err);
/* Only the caller's own; NULL otherwise. Referenced; counts as a use. */
struct mcp_session *mcp_session_find(struct mcp *m, const char *id,
                                     const struct principal *who);
struct mcp_session *mcp_session_ref(struct mcp_session *s);
void mcp_session_unref(struct mcp_session *s); /* accepts NULL */
void mcp_session_end(struct mcp *m, struct mcp_session *s);
/* Ends sessions that were idle too long; all: every session. */
void mcp_session_sweep(struct mcp *m, bool all);
void mcp_session_stop(struct mcp *m); /* ends standing streams */
/* A stream of the session; referenced. */
struct mcp_stream *mcp_session_stream(struct mcp_session *s);
/* By an event's id; *ret_after: that event. NULL: unknown. Referenced. */
struct mcp_stream *mcp_session_resume(struct mcp_session *s, const char *event,
                                      uint64_t *ret_after);
/* The standing stream, made if there is none; NULL: it has a reader. */
struct mcp_stream *mcp_session_standing(struct mcp_session *s);
struct mcp_listener *mcp_session_listener(struct mcp_session *s); /* ref'd */
bool mcp_session_left(struct mcp_session *s); /* its standing stream */
void mcp_session_tell(struct mcp_session *s, const struct buf *message);
void mcp_session_begin(struct mcp_session *s, struct mcp_exchange *x);
void mcp_session_finish(struct mcp_session *s, struct mcp_exchange *x);
void mcp_session_cancel(struct mcp_session *s, const json_t *id);
void mcp_session_take(struct mcp_session *s, const struct rpc_message *m);

/* ---- rev_2025.c --------------------------------------------------------- */

void mcp_legacy_post(struct doors_call *call, const json_t *body);
void mcp_legacy_get(struct doors_call *call);
void mcp_legacy_delete(struct doors_call *call);

/* ---- ask.c -------------------------------------------------------------- */

/* The state of this request, if it carries one. 0, or -1 with the fault. */
int mcp_state_take(struct mcp_exchange *x);
void mcp_state_close(struct mcp *m);
/* The signed state that the client must return. arena */
const char *mcp_state_sign(const struct mcp_exchange *x);
/* Members of an input_required result. */
void mcp_ask_write(struct mcp_exchange *x);

/* ---- subscribe.c -------------------------------------------------------- */

#define MCP_LISTENERS_MAX 1024u
#define MCP_LISTENERS_PER_KEY 64u
#define MCP_LISTEN_URIS 64u

struct mcp_watched {
    char *uri, *workspace, *path; /* owned; workspace NULL: not a file */
    int64_t seq;                  /* the head last seen */
};

/* A subscriber to changes; notified through its stream or its session. */
struct mcp_listener {
    struct mcp_listener *next; /* under mcp->lock, as is listed */
    bool listed;
    _Atomic unsigned refs;
    struct principal who;
    unsigned lists; /* enum mcp_list */
    char *tag;      /* "_meta":{…} of each message; "" in the legacy era */
    char *last;     /* the result that ends it, or NULL */
    struct mcp_stream *stream;
    struct mcp_session *session; /* borrowed: it owns the listener */
    struct mutex lock;           /* of what follows */
    struct mcp_watched watched[MCP_LISTEN_URIS];
    size_t watched_count;
    char **tasks; /* ids; owned */
    size_t task_count;
    uint64_t mark;       /* of the lists of files, last seen */
    uint64_t tools_mark; /* of the saved tools, last seen; 0: not yet */
};

struct mcp_listener *mcp_listen_new(const struct principal *who);
struct mcp_listener *mcp_listen_ref(struct mcp_listener *l);
void mcp_listen_unref(struct mcp_listener *l); /* accepts NULL */
/* Subscribes; idempotent. -ERR_LIMIT. */
int mcp_listen_add(struct mcp *m, struct mcp_listener *l, struct error *err);
void mcp_listen_remove(struct mcp *m, struct mcp_listener *l);
/* Is it a resource of ours that the caller may see? 0, or -1 with a fault. */
int mcp_listen_watch(struct mcp_exchange *x, struct mcp_listener *l,
                     const char *uri);
void mcp_listen_forget(struct mcp_listener *l, const char *uri);
/* Sends it method with these members of params. */
void mcp_listen_tell(struct mcp_listener *l, const char *method,
                     const struct buf *params);
void mcp_listen_lists(struct mcp *m, unsigned lists);
/* members: of the task */
void mcp_listen_task(struct mcp *m, const char *task, const char *tenant,
                     const char *credential, const struct buf *members);
void mcp_listen_stop(struct mcp *m);
void mcp_listen_sweep(struct mcp *m);
/* The thread that looks for changes, and sweeps. */
void mcp_watch_run(void *arg); /* struct mcp */

/* ---- task.c ------------------------------------------------------------- */

#define MCP_TASKS_MAX 1024u
#define MCP_TASKS_PER_KEY 64u
#define MCP_TASK_TTL_MS ((int64_t)3600 * 1000)
#define MCP_TASK_POLL_MS 1000

/* Runs the tool as a task-to-be: 0 and MCP_PENDING as mcp_call_tool, when it
 * was done soon enough; MCP_TAKEN: x->result says it became a task; -1. */
int mcp_task_run(struct mcp_exchange *x, const struct mcp_tool *tool,
                 const json_t *args);
/* Referenced; NULL: none of the caller's. */
struct mcp_task *mcp_task_find(struct mcp_exchange *x, const char *id);
void mcp_task_unref(struct mcp_task *t);
void mcp_task_write(struct mcp_task *t, struct json_writer *w);
void mcp_task_cancel(struct mcp_task *t);
void mcp_task_answer(struct mcp_task *t, const json_t *responses);
bool mcp_task_is(struct mcp_task *t); /* the client knows of it */
bool mcp_task_cancelled(const struct mcp_task *t);
/* Blocks until every question of x is answered. */
int mcp_task_wait(struct mcp_task *t, struct mcp_exchange *x,
                  struct error *err);
void mcp_task_sweep(struct mcp *m);
void mcp_task_stop(struct mcp *m); /* cancels all */
void mcp_task_close(struct mcp *m);

/* ---- task.c: on disk ---------------------------------------------------- */

/* Call it before the client learns the id. */
int mcp_task_keep(struct mcp *m, const char *id, const struct principal *who,
                  int64_t created_ms, struct error *err);
/* members: of the task as it ended; NULL: only that it did. base_url: what the
 * URLs in them begin with. */
void mcp_task_keep_end(struct mcp *m, const char *id,
                       const struct buf *members, const char *base_url,
                       int64_t at_ms);
/* One of the caller's of which only the disk knows, as members to w (NULL:
 * only whether); -1: there is none. */
int mcp_task_kept(struct mcp_exchange *x, const char *id,
                  struct json_writer *w);
void mcp_task_kept_sweep(struct mcp *m);

/* ---- tools.c ------------------------------------------------------------ */

/* text, with what the pool's sessions can reach in place of MCP_NETWORK.
 * arena */
const char *mcp_network_words(const struct mcp_exchange *x, const char *text);
/* NULL: none that is listed here. */
/* tool_saved.c: the saved tools that the caller sees, as rows; the exchange's.
 * Returns how many. */
size_t mcp_saved_rows(struct mcp_exchange *x, const struct mcp_tool ***ret);
/* NULL: there is none of that name. */
const struct mcp_tool *mcp_saved_find(struct mcp_exchange *x,
                                      const char *name);
const struct mcp_tool *mcp_call_find(const struct mcp_exchange *x,
                                     const char *name);
/* May it change something now? 0, or -1 with the fault. */
int mcp_call_writable(struct mcp_exchange *x, const struct mcp_tool *tool);
/* Runs it on this thread; fills x->result or x->fault. */
int mcp_call_tool(struct mcp_exchange *x, const struct mcp_tool *tool,
                  const json_t *args);

/* ---- toolbox.c ---------------------------------------------------------- */

/* Offers tools of this door to the agent loop. */
void mcp_toolbox_open(struct doors *doors);

/* ---- resources.c, prompts.c --------------------------------------------- */

/* A resource that is no file of a workspace. */
struct mcp_resource {
    const char *uri, *name, *description, *mime;
    bool is_template; /* uri has one {id} */
    int (*read)(struct mcp_call *call, const char *uri, struct buf *ret,
                struct error *err);
};
extern const struct mcp_resource *const mcp_fixture_resources;
extern const size_t mcp_fixture_resources_count;
/* NULL: none of that name. */
const struct mcp_resource *mcp_resources_find(const char *uri);
/* The fault of a URI that names nothing the caller may see; -1. */
int mcp_resources_unknown(struct mcp_exchange *x, const char *uri);
/* Is it text, by its type and its bytes? */
bool mcp_resources_text(const char *mime, const char *bytes, size_t len);

struct mcp_prompt_argument {
    const char *name, *description;
    bool required;
    bool path;                  /* completes to files */
    const char *const *choices; /* completes to these; NULL: none */
};

#define MCP_PROMPT_ARGUMENTS 4u

struct mcp_prompt {
    const char *name, *title, *description;
    struct mcp_prompt_argument arguments[MCP_PROMPT_ARGUMENTS];
    /* Each block of ret becomes a message of the user's. As mcp_tool.run. */
    int (*get)(struct mcp_call *call, const json_t *args,
               struct mcp_answer *ret, struct error *err);
};
extern const struct mcp_prompt *const mcp_fixture_prompts;
extern const size_t mcp_fixture_prompts_count;
const struct mcp_prompt *mcp_prompts_find(const char *name);

#endif
