/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved tools: code with typed parameters, kept under a name in a workspace.
 * Members of the workspace share its tools: viewers see and run them, editors
 * save and delete them. A name has immutable versions, numbered from 1.
 *
 * A run is an execution like any other: saved_tool_call checks the arguments
 * and returns the code, which the caller runs in a session with the rights of
 * its own actor. Parameters are variables of the code: of Python with their
 * own types, of the shell as text (objects and arrays as JSON). A parameter
 * that was left out and has no default is None, or empty.
 *
 * Any thread may call, without a transaction open.
 */
#ifndef GLOVEBOX_AGENTS_TOOLS_H
#define GLOVEBOX_AGENTS_TOOLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ids.h"
#include "language/language.h"

struct actor;
struct agents;
struct error;

#define SAVED_TOOL_NAME_MAX 48u          /* a-z, 0-9 and _, from a letter on */
#define SAVED_TOOL_DESCRIPTION_MAX 1000u /* characters */
#define SAVED_TOOL_CODE_MAX (64u << 10)  /* bytes */
#define SAVED_TOOL_SCHEMA_MAX (16u << 10) /* bytes, as compact JSON */
#define SAVED_TOOL_PARAMETERS_MAX 32u
#define SAVED_TOOL_ARGUMENTS_MAX (64u << 10) /* bytes, as compact JSON */
#define SAVED_TOOLS_MAX 100                  /* of a workspace */
#define SAVED_TOOL_VERSIONS_MAX 100          /* of one tool, at one time */
#define SAVED_TOOL_TIMEOUT_MAX 86400
#define SAVED_TOOLS_VISIBLE_MAX 200 /* of all workspaces of one caller */

struct saved_tool { /* one version */
    char workspace[ID_MAX];
    char name[SAVED_TOOL_NAME_MAX + 1];
    /* The name among all tools that the caller sees: "name", or with the end
     * of the workspace's id where several workspaces have such a tool. Of
     * saved_tools_visible and saved_tools_named only. */
    char unique[SAVED_TOOL_NAME_MAX + 16];
    int64_t number;
    enum exec_language language; /* Python or shell */
    char *description;           /* owned, as are the next two */
    char *code;
    json_t *parameters;     /* a JSON Schema of type object */
    uint32_t timeout_s;     /* 0: the pool's */
    char execution[ID_MAX]; /* it was kept from; or "" */
    char created_by[ID_MAX];
    int64_t created_at_ms;
};
void saved_tool_done(struct saved_tool *t); /* for cleanup() */
void saved_tools_free(struct saved_tool *list, size_t count);

/* Borrowed. */
struct saved_tool_spec {
    const char *workspace, *name;
    const char *description;  /* NULL: "" */
    const json_t *parameters; /* NULL: none */
    /* The code, or an execution whose code is kept. */
    const char *code;
    enum exec_language language;
    const char *execution; /* exec_…, or NULL */
    int64_t timeout_s;     /* 0: the pool's */
};

/* Adds a version, unless the newest one is the same (*ret_new false). */
int saved_tools_save(struct agents *a, const struct actor *who,
                     const struct saved_tool_spec *spec,
                     struct saved_tool *ret, bool *ret_new, struct error *err);
/* The newest version of each tool of a workspace, by name. */
int saved_tools_list(struct agents *a, const struct actor *who,
                     const char *workspace, struct saved_tool **ret,
                     size_t *ret_count, struct error *err);
/* number 0: the newest. */
int saved_tools_get(struct agents *a, const struct actor *who,
                    const char *workspace, const char *name, int64_t number,
                    struct saved_tool *ret, struct error *err);
/* Newest first. */
int saved_tools_versions(struct agents *a, const struct actor *who,
                         const char *workspace, const char *name,
                         struct saved_tool **ret, size_t *ret_count,
                         struct error *err);
/* number 0: the tool with all its versions; the last version takes the tool
 * with it. */
int saved_tools_delete(struct agents *a, const struct actor *who,
                       const char *workspace, const char *name, int64_t number,
                       struct error *err);

/* ---- for MCP and the agent loop ----------------------------------------- */

/* The newest versions in all workspaces that the caller has a role in, by
 * unique name; at most SAVED_TOOLS_VISIBLE_MAX. workspace: only that one's;
 * or NULL. */
int saved_tools_visible(struct agents *a, const struct actor *who,
                        const char *workspace, struct saved_tool **ret,
                        size_t *ret_count, struct error *err);
/* One of these by its unique name. ERR_NOT_FOUND. */
int saved_tools_named(struct agents *a, const struct actor *who,
                      const char *unique, struct saved_tool *ret,
                      struct error *err);
/* Rises with every change of any tool; a number that differs when the tools
 * that the caller sees may differ. */
uint64_t saved_tools_changes(struct agents *a);
uint64_t saved_tools_mark(struct agents *a, const struct actor *who);

/* ---- running ------------------------------------------------------------ */

struct saved_tool_call { /* what to execute */
    enum exec_language language;
    struct buf code;
    uint32_t timeout_s;
    char *metadata; /* JSON: tool and version */
};
void saved_tool_call_done(struct saved_tool_call *c); /* for cleanup() */
/* ERR_INVALID names the argument ("arguments.rows[2]") and what is expected.
 * arguments: an object, or NULL for none. */
int saved_tool_call(const struct saved_tool *tool, const json_t *arguments,
                    struct saved_tool_call *ret, struct error *err);

#endif
