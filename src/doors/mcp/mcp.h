/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP door, /mcp (and …/mcp of an Azure pool): JSON-RPC in both eras of
 * the protocol, over the same core as every door. How the pieces work
 * together:
 *
 *   table.c      its one path; Origin and Host; which headers hold a key
 *   serve.c      spine: checks in the order of the specification, era,
 *                dispatch, answer as JSON or as a stream
 *   rpc.c        JSON-RPC: shape of a message, ids, errors
 *   modern.c     2026-07-28: envelope, headers, discovery, listening
 *   legacy.c     2025-…: handshake, sessions, GET streams, resumption
 *   call.c       tools/list and tools/call over the table of tools
 *   resources.c, prompts.c, complete.c, tasks.c, listen.c   the other methods
 *   answer.c     what a tool says, as content and structuredContent
 *   tool_*.c     the tools; tools.c is their table
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
    /* What calls of one conversation have in common, so that they share a
     * session when none is named: of a legacy MCP session its id, else the
     * conversation of _meta ("com.glovebox/conversation"), else "". Unique per
     * tenant only. */
    char common[160];
    char conversation[160], message[160]; /* of _meta, or "" */
    const char *pool;    /* of an Azure path; NULL: the first */
    struct arena *arena; /* lives as long as the call */
    /* Tells the client, if it wants to know: rises strictly; total 0: unknown;
     * message NULL: none. Costs nothing when nobody listens. */
    void (*progress)(struct mcp_call *call, double progress, double total,
                     const char *message);
    /* Should the tool stop? True once the client cancelled or left. Cheap. */
    bool (*cancelled)(struct mcp_call *call);
    bool wants_progress;
    void *ctx; /* of the two above */
};

/* ---- answer.c ----------------------------------------------------------- */

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

/* ---- tools.c: the table ------------------------------------------------- */

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

struct mcp_tool {
    const char *name, *title, *description;
    const char *input;  /* JSON Schema text, an object */
    const char *output; /* the same, or NULL */
    unsigned groups;    /* enum mcp_group */
    unsigned hints;     /* enum mcp_hint */
    uint32_t scope;     /* AUTH_* it needs */
    bool long_run;      /* may be answered as a task */
    /* args: an object, never NULL, not yet checked. Returns 0 with ret filled
     * (is_error included), or -code: a failure of ours, which the caller turns
     * into a tool error as mcp_answer_error does. */
    int (*run)(struct mcp_call *call, const json_t *args,
               struct mcp_answer *ret, struct error *err);
};

extern const struct mcp_tool mcp_tools[];
extern const size_t mcp_tools_count;
/* A test build fills these with what the conformance suite wants; NULL, 0 in
 * the product (fixtures.c has the weak definitions). */
extern const struct mcp_tool *const mcp_fixture_tools;
extern const size_t mcp_fixture_tools_count;

/* ---- uri.c: how files are named to a host --------------------------------
 * "workspace://ws_…/path/to/file" (each part percent-encoded). */

char *mcp_uri_make(struct arena *arena, const char *workspace,
                   const char *path);
/* False: not one of ours. Both are of the arena. */
bool mcp_uri_parse(struct arena *arena, const char *uri,
                   const char **ret_workspace, const char **ret_path);

#endif
