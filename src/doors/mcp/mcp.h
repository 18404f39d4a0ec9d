/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP door, /mcp (and …/mcp of an Azure pool): JSON-RPC in both eras of
 * the protocol, over the same core as every door. How the pieces work
 * together (mcp_int.h has what they share):
 *
 *   serve.c      spine: paths, checks in the order of the specification, era,
 *                dispatch by the table of methods
 *   gate.c       Origin, Host, credentials: before anything is read
 *   rpc.c        JSON-RPC: shape of a message, errors
 *   reply.c      one response, as JSON or as a stream; progress, log lines
 *   rev_2026.c   revision 2026-07-28: envelope, headers, discovery
 *   rev_2025.c   revisions of 2025: the handshake and what only they have;
 *                session.c has their sessions
 *   stream.c     an event stream that a client can leave and resume
 *   tools.c      tools/list, tools/call, the content of answers, the table of
 *                tools
 *   tool_*.c     the tools
 *   task.c       calls that outlive their request
 *   toolbox.c    some of the tools for the agent loop
 *   ask.c        questions to the user in the middle of a call
 *   subscribe.c  notifications of changes
 *   resources.c, prompts.c   the other methods
 *   mcp.c        state between requests
 *
 * A tool knows nothing of eras, HTTP or JSON-RPC: it gets its arguments and an
 * mcp_call, and fills an mcp_answer. It runs on a worker and may block.
 */
#ifndef GLOVEBOX_DOORS_MCP_MCP_H
#define GLOVEBOX_DOORS_MCP_MCP_H

#include <jansson.h>

#include "base/buf.h"
#include "doors/doors.h"
#include "json/json.h"

/* ---- a call, as a tool sees it ------------------------------------------ */

enum mcp_era {
    MCP_LEGACY,
    MCP_MODERN
};

struct mcp_call {
    const struct doors *doors;
    struct doors_call *door; /* the HTTP request; NULL in a task that outlives
                                it */
    const struct actor *actor;
    uint32_t scopes;
    enum mcp_era era;
    /* What calls have in common, so that they share a session when none is
     * named: the conversation of _meta ("com.glovebox/conversation"), the
     * process of `glovebox mcp`, the legacy MCP session; else "". Unique per
     * tenant only. */
    char common[160];
    char conversation[160], message[160]; /* of _meta, or "" */
    const char *pool;     /* of an Azure path; NULL: the first */
    const char *base_url; /* what URLs begin with; see doors_url_base */
    const char *prompt;   /* what the user asked a model, for evidence; or
                             NULL */
    /* Of the agent loop, whose client follows a stream: see chat_box_call.
     * NULL: a client, which is asked (tool_held.c). */
    void (*on_held)(void *ctx, const char *approval, const char *execution);
    void *held_ctx;
    uint32_t held_wait_ms;
    /* Set by a tool that created a session to which only its id leads back:
     * the id, and a sentence for the answer; arena. NULL: none. */
    const char *new_session, *new_session_text;
    struct arena *arena; /* lives as long as the call */
    /* Tells the client, if it wants to know: rises strictly; total 0: unknown;
     * message NULL: none. Cheap if the client did not ask for it. */
    void (*progress)(struct mcp_call *call, double progress, double total,
                     const char *message);
    /* Should the tool stop? True once the client cancelled or left. Cheap. */
    bool (*cancelled)(struct mcp_call *call);
    bool wants_progress;
    void *ctx; /* of the two above */
};

/* ---- tools.c: answers --------------------------------------------------- */

struct mcp_answer {
    struct buf content;    /* inside of "content":[…] */
    struct buf structured; /* a JSON object, or empty */
    struct buf meta;      /* members of "_meta" without the braces, or empty */
    struct json_writer w; /* over content; each block one value */
    bool is_error;
};

void mcp_answer_init(struct mcp_answer *a);
void mcp_answer_done(struct mcp_answer *a);
void mcp_answer_text(struct mcp_answer *a, const char *text, size_t len);
/* The same, with the session it came from in the block's own _meta: that is
 * where clients of a Foundry toolbox look for it. */
void mcp_answer_text_of(struct mcp_answer *a, const char *session,
                        const char *text, size_t len);
void mcp_answer_textf(struct mcp_answer *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void mcp_answer_image(struct mcp_answer *a, const char *type,
                      const void *bytes, size_t len);
struct mcp_link {
    const char *uri, *name;
    const char *title, *description, *mime; /* NULL: none */
    int64_t size;                           /* -1: unknown */
};
void mcp_answer_link(struct mcp_answer *a, const struct mcp_link *link);
/* An embedded resource: text, or bytes as blob when mime is none of text. */
void mcp_answer_resource(struct mcp_answer *a, const char *uri,
                         const char *mime, const void *bytes, size_t len);
/* A failure the model can act on: isError, the sentence, and a structured
 * {"status":code,"message":…,"hint":…}. */
void mcp_answer_error(struct mcp_answer *a, const struct error *err);
void mcp_answer_refuse(struct mcp_answer *a, const char *status,
                       const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- tools.c: the table of tools ---------------------------------------- */

#define MCP_TASK_AFTER_MS 5000u
/* In a description: a sentence about the network of the pool. */
#define MCP_NETWORK "{network}"

enum mcp_group { /* /mcp?tools=core|workspace|all; core is the default */
    MCP_CORE = 1 << 0,
    MCP_WORKSPACE = 1 << 1,
    MCP_AZURE = 1 << 2, /* only listed on the path of an Azure pool */
    MCP_FIXTURE = 1 << 3,
};

enum mcp_hint {
    MCP_READ_ONLY = 1 << 0,
    MCP_DESTRUCTIVE = 1 << 1,
    MCP_IDEMPOTENT = 1 << 2,
    MCP_OPEN_WORLD = 1 << 3,
};

struct api_resource;
struct mcp_tool {
    const char *name, *title, *description;
    const struct api_resource *input, *output;
    const char *schema; /* of its arguments, as text: of saved tools and of
                           tests' tools, which have no input */
    unsigned groups;    /* enum mcp_group */
    unsigned hints;     /* enum mcp_hint */
    uint32_t scope;     /* AUTH_* it needs */
    bool long_run;      /* may be answered as a task */
    bool task_only;     /* cannot be answered otherwise */
    /* How long a call may take before it becomes a task; 0:
     * MCP_TASK_AFTER_MS. */
    unsigned task_after_ms;
    /* args: an object, never NULL, not yet checked. Returns 0 with ret filled
     * (is_error included), MCP_PENDING (below), or -code: a failure of ours,
     * which the caller turns into a tool error as mcp_answer_error does. */
    int (*run)(struct mcp_call *call, const json_t *args,
               struct mcp_answer *ret, struct error *err);
};

extern const struct mcp_tool mcp_tools[];
extern const size_t mcp_tools_count;
/* A test build fills these with what the conformance suite wants; NULL, 0 in
 * the product (mcp.c has the weak definitions). */
extern const struct mcp_tool *const mcp_fixture_tools;
extern const size_t mcp_fixture_tools_count;

/* ---- resources.c: how files are named to a host -------------------------
 * "workspace://ws_…/path/to/file" (each part percent-encoded). */

char *mcp_uri_make(struct arena *arena, const char *workspace,
                   const char *path);
/* False: not one of ours. Both are of the arena. */
bool mcp_uri_parse(struct arena *arena, const char *uri,
                   const char **ret_workspace, const char **ret_path);

/* ---- what a tool may do besides answering ------------------------------- */

/* reply.c: a line for the client's log, if it wants lines of that level.
 * level: "debug", "info", … ; data: taken. */
void mcp_log(struct mcp_call *call, const char *level, json_t *data);
/* The call fails as JSON-RPC, not as a tool's answer; the tool returns the
 * result of this. */
int mcp_fail(struct mcp_call *call, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ask.c: does the client say it can do that ("elicitation")? */
bool mcp_capable(const struct mcp_call *call, const char *capability);
/* mcp_fail with what is missing, unless it can. */
int mcp_need(struct mcp_call *call, const char *capability);

/*
 * ask.c: asking the user (elicitation/create, sampling/createMessage,
 * roots/list). A tool states every question of a round, then waits:
 *
 *     mcp_ask(call, "ok", "elicitation/create", params);
 *     r = mcp_ask_wait(call, err);
 *     if (r != 0)
 *         return r;
 *     answer = mcp_asked(call, "ok");
 *
 * Where the answer comes with a call of its own the tool returns MCP_PENDING
 * and is run again from its beginning; elsewhere it is blocked meanwhile.
 */
#define MCP_PENDING 1
/* params: taken. Keys are used once. */
void mcp_ask(struct mcp_call *call, const char *key, const char *method,
             json_t *params);
int mcp_ask_wait(struct mcp_call *call, struct error *err);
/* The client's result, or NULL. Lives as long as the call. */
const json_t *mcp_asked(struct mcp_call *call, const char *key);
/* ask.c: what the tool gave to keep in the round before, or NULL; what it
 * gives now. Signed, bound to the caller, the call and its arguments. */
const char *mcp_state(struct mcp_call *call);
void mcp_state_keep(struct mcp_call *call, const char *text);
/* The same, good more than once: a repeat must do nothing anew. */
void mcp_state_keep_repeats(struct mcp_call *call, const char *text);

/* task.c: this will take long. True: the call is a task from now on; the
 * client has its answer. */
bool mcp_task_now(struct mcp_call *call);
/* Its session keeps nothing: nor is what it says kept on disk. */
void mcp_task_unkept(struct mcp_call *call);

/* subscribe.c: a list is not what it was. */
enum mcp_list {
    MCP_LIST_TOOLS = 1 << 0,
    MCP_LIST_PROMPTS = 1 << 1,
    MCP_LIST_RESOURCES = 1 << 2,
};
void mcp_list_changed(struct mcp_call *call, unsigned lists);
/* stream.c: ends the connection of a legacy call, not the call. */
void mcp_hang_up(struct mcp_call *call);

#endif
