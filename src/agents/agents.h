/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named agents: instructions, a model, tools and limits under a name that a
 * client can refer to. A name has immutable versions, numbered from 1; the
 * number of a name keeps rising when versions are deleted. Every principal of
 * a tenant sees and uses the tenant's agents. The owner and admins change
 * them; an agent that was made at a door whose resources belong to the whole
 * tenant (actor.shares) can be changed by every principal of the tenant.
 *
 * An agent owns nothing: sessions, files, responses and conversations made
 * with its help do not depend on it.
 *
 *   agents.c      found, and who may change them
 *   put.c, delete.c, list.c, rows.c   made, changed, deleted, listed; rows
 *   definition.c  what a definition may contain; pure
 *   template.c    {{…}} in instructions and tools; pure
 *   schema.c      JSON Schema, the part of it that parameters need; pure
 *   tools.c       saved tools of a workspace (tools.h); tool_code.c their runs
 *
 * Any thread may call, without a transaction open.
 */
#ifndef GLOVEBOX_AGENTS_AGENTS_H
#define GLOVEBOX_AGENTS_AGENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct actor;
struct agents;
struct buf;
struct core;
struct error;
struct models;
struct sessions;
struct workspaces;

#define AGENTS_NAME_MAX 63u
#define AGENTS_DESCRIPTION_MAX 512u        /* characters */
#define AGENTS_DEFINITION_MAX (256u << 10) /* bytes, as compact JSON */
#define AGENTS_TOOLS_MAX 128u              /* of one definition */
#define AGENTS_INPUTS_MAX 64u              /* structured inputs of one */
#define AGENTS_PER_TENANT 1000
#define AGENTS_VERSIONS_MAX 1000 /* of one agent, at one time */
#define AGENTS_VERSIONS_PER_TENANT 10000
#define AGENTS_BYTES_PER_TENANT (64 << 20)
#define AGENTS_METADATA_MAX 16u /* pairs; key 64, value 512 characters */

struct agents_limits {
    int64_t agents;   /* of a tenant */
    int64_t versions; /* of one agent, at one time */
    int64_t total;    /* versions of a tenant */
    int64_t bytes;    /* of all versions of a tenant */
};

struct agents_parts { /* all borrowed until agents_close */
    const struct core *core;
    struct models *models; /* NULL (unit tests): every name is accepted */
    struct workspaces *workspaces; /* these two for saved tools */
    struct sessions *sessions;
};
/* limits: NULL: the usual ones. */
struct agents *agents_open(const struct agents_parts *parts,
                           const struct agents_limits *limits);
void agents_close(struct agents *a); /* accepts NULL */

/* ---- one version ---------------------------------------------------------
 */

struct agent_version {
    char name[AGENTS_NAME_MAX + 1];
    int64_t number; /* "version" of the API, as a decimal string */
    char *description;
    json_t *metadata; /* object of strings */
    bool draft;
    int64_t created_at_ms;
    char created_by[ID_MAX];
    json_t *definition; /* as sent */

    /* Parts of the definition, borrowed from it. NULL: not set. */
    const char *model;
    const char *instructions; /* a template */
    const json_t *tools;      /* array; may contain templates */
    const json_t *tool_choice;
    const json_t *temperature, *top_p, *reasoning, *text;
    const json_t *structured_inputs; /* name -> declaration */
    /* Limits of one turn; -1: not set. */
    int64_t max_tool_calls, max_seconds, max_output_tokens;
};
void agent_version_done(struct agent_version *v); /* for cleanup() */

enum agents_pick {
    AGENTS_LATEST,  /* version NULL: the newest that is no draft */
    AGENTS_ENDPOINT /* version NULL: the one that the agent's endpoint
                       selects, else the newest */
};

/* For a response that refers to an agent: the version to use. version: a
 * decimal string, or NULL. ERR_NOT_FOUND: no such agent or version;
 * ERR_FORBIDDEN, message "agent '…' is disabled": it is disabled. */
int agents_find(struct agents *a, const struct actor *who, const char *name,
                const char *version, enum agents_pick pick,
                struct agent_version *ret, struct error *err);

/* ---- templates -----------------------------------------------------------
 * "{{name}}", "{{#if x}}…{{else}}…{{/if}}", "{{#unless x}}…{{/unless}}",
 * "{{#each list}}{{this}}{{/each}}" with "@index", "@first" and "@last", and
 * paths such as "customer.name". Nothing is escaped, and a value is never
 * expanded again. Text without inputs is not a template: do not expand it
 * when neither the definition declares inputs nor the request sends some. */

/* The values to expand with: what was given, else the declared default.
 * declared, given: objects or NULL. ERR_INVALID: a required input is missing,
 * or a value does not fit its schema; err->message has the reason and
 * ret_param "structured_inputs.<name>". *ret: owned by caller; NULL when there
 * are no inputs at all, so that nothing is expanded. */
int agents_inputs(const json_t *declared, const json_t *given, json_t **ret,
                  char ret_param[96], struct error *err);
/* Appends the expanded text. values NULL: the text as it is. ERR_INVALID: the
 * template is malformed; ERR_TOO_LARGE: the result exceeds the limit. */
#define AGENTS_EXPANDED_MAX (1u << 20)
int agents_expand(const char *text, const json_t *values, struct buf *ret,
                  struct error *err);
/* A copy of `tools` in which the places that may hold templates are expanded:
 * vector_store_ids, a container that is a string, file_ids of a container,
 * server_label, server_url and header values of mcp. Ids that become empty
 * are removed. values NULL: a plain copy. *ret: owned by caller. */
int agents_expand_tools(const json_t *tools, const json_t *values,
                        json_t **ret, struct error *err);
/* The same of the request's messages: the content of system and developer
 * messages is expanded; everything else is copied. */
int agents_expand_input(const json_t *input, const json_t *values,
                        json_t **ret, struct error *err);

/* ---- management ----------------------------------------------------------
 */

struct agent_info {
    char name[AGENTS_NAME_MAX + 1];
    bool enabled, shared;
    char owner[ID_MAX];
    int64_t created_at_ms, updated_at_ms;
    int64_t versions; /* how many there are */
    char *endpoint;   /* agent_endpoint, JSON text, or "" */
    char *card;       /* agent_card, JSON text, or "" */
    struct agent_version latest;
    struct agent_version put; /* of agents_put only: the one it made, or found
                                 to be equal */
};
void agent_info_done(struct agent_info *info); /* for cleanup() */
void agent_infos_free(struct agent_info *list, size_t count);

/* Borrowed. */
struct agent_spec {
    const char *name;
    const json_t *definition;
    const char *description; /* NULL: "" */
    const json_t *metadata;  /* NULL: {} */
    bool draft;
    int enabled; /* -1: as it is; else 0 or 1 */
    /* Merge patches of agent_endpoint and agent_card; NULL: as they are. */
    const json_t *endpoint, *card;
};

enum agents_mode {
    AGENTS_CREATE, /* the agent must not exist: ERR_CONFLICT */
    AGENTS_UPDATE, /* the agent must exist: ERR_NOT_FOUND */
    AGENTS_EITHER
};

/* What is wrong with a definition, for dialects that name the field. */
struct agents_fault {
    char param[96]; /* "definition.tools[2].type", or "" */
};

/* Adds a version, unless the newest one is equal in definition, description,
 * metadata and draft: then that one is *ret and *ret_new is false. fault may
 * be NULL. ERR_INVALID, ERR_TOO_LARGE, ERR_LIMIT, ERR_FORBIDDEN (not the
 * owner, or policy), ERR_APPROVAL. */
int agents_put(struct agents *a, const struct actor *who,
               const struct agent_spec *spec, enum agents_mode mode,
               struct agent_info *ret, bool *ret_new,
               struct agents_fault *fault, struct error *err);
/* Changes what is not versioned: enabled, endpoint, card; of spec. */
int agents_change(struct agents *a, const struct actor *who,
                  const struct agent_spec *spec, struct agent_info *ret,
                  struct agents_fault *fault, struct error *err);
int agents_get(struct agents *a, const struct actor *who, const char *name,
               struct agent_info *ret, struct error *err);
int agents_version(struct agents *a, const struct actor *who, const char *name,
                   const char *version, struct agent_version *ret,
                   struct error *err);
int agents_delete(struct agents *a, const struct actor *who, const char *name,
                  struct error *err);
/* Deleting the last version deletes the agent. */
int agents_delete_version(struct agents *a, const struct actor *who,
                          const char *name, const char *version,
                          struct error *err);

struct agents_page {
    unsigned limit; /* 1 to 1000 */
    bool oldest_first;
    const char *after, *before; /* ids: a name, or name:version; NULL: none */
    bool drafts;
};
/* Newest first by creation unless asked otherwise; owned by caller. */
int agents_list(struct agents *a, const struct actor *who,
                const struct agents_page *page, struct agent_info **ret,
                size_t *ret_count, bool *ret_more, struct error *err);
int agents_versions(struct agents *a, const struct actor *who,
                    const char *name, const struct agents_page *page,
                    struct agent_version **ret, size_t *ret_count,
                    bool *ret_more, struct error *err);
void agent_versions_free(struct agent_version *list, size_t count);

/* ---- definition.c, pure --------------------------------------------------
 */

/* Checks a definition of kind "prompt". ERR_INVALID with fault->param. */
int agents_check_definition(const json_t *definition,
                            struct agents_fault *fault, struct error *err);
/* Fills the borrowed parts of v from v->definition, which was checked. */
void agents_read_definition(struct agent_version *v);
/* 1 to 63 of letters, digits and hyphens, no hyphen at either end. */
bool agents_name_valid(const char *name);

#endif
