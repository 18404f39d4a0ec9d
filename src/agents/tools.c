/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved tools as rows: saved, listed, found and deleted. Runs in gloveboxd on
 * the caller's thread. Who may is a matter of the workspace's roles; policy is
 * asked before a change, which is one transaction with its event of the
 * trail. Events have names and numbers, never code.
 */
#include "agents/tools.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agents/agents_int.h"
#include "agents/schema.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "core/core.h"
#include "execution/execution.h"
#include "govern/govern.h"
#include "store/store.h"
#include "workspace/workspace.h"
#include "json/json.h"

void saved_tool_done(struct saved_tool *t)
{
    free(take_ptr(t->description));
    free(take_ptr(t->code));
    json_decref(take_ptr(t->parameters));
}

void saved_tools_free(struct saved_tool *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        saved_tool_done(&list[i]);
    free(list);
}

/* ---- what may be saved ---------------------------------------------------
 */

static bool name_valid(const char *name, size_t max)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < len; i++)
        if (!(name[i] >= 'a' && name[i] <= 'z') && name[i] != '_' &&
            !(name[i] >= '0' && name[i] <= '9'))
            return false;
    return len >= 1 && len <= max && name[0] >= 'a' && name[0] <= 'z';
}

static bool python_keyword(const char *name)
{
    static const char *const words[] = {
        "and",    "as",       "assert", "async",  "await",    "break",
        "class",  "continue", "def",    "del",    "elif",     "else",
        "except", "finally",  "for",    "from",   "global",   "if",
        "import", "in",       "is",     "lambda", "nonlocal", "not",
        "or",     "pass",     "raise",  "return", "try",      "while",
        "with",   "yield"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(words[i], name) == 0)
            return true;
    return false;
}

static int check_names(const json_t *properties, struct error *err)
{
    const char *name;
    json_t *each;

    if (json_object_size(properties) > SAVED_TOOL_PARAMETERS_MAX)
        return error_set(err, ERR_INVALID,
                         "a tool must not have more than %u parameters",
                         SAVED_TOOL_PARAMETERS_MAX);
    json_object_foreach ((json_t *)(uintptr_t)properties, name, each) {
        if (!name_valid(name, SAVED_TOOL_NAME_MAX) || python_keyword(name)) {
            (void)error_set(err, ERR_INVALID,
                            "parameters.properties.%.48s: a parameter cannot "
                            "have this name",
                            name);
            return error_hint(err, "Use lower-case letters, digits and '_', "
                                   "a letter first, and no keyword of "
                                   "Python.");
        }
    }
    return 0;
}

/* The schema as it is kept: an object that takes no other members. ret: owned
 * by caller */
static int make_schema(const json_t *given, json_t **ret, struct error *err)
{
    json_t *schema cleanup(json_unref) =
        given && !json_is_null(given) ? json_deep_copy(given) : json_object();
    const json_t *type = json_object_get(schema, "type");
    const json_t *others = json_object_get(schema, "additionalProperties");
    char *text cleanup(mem_free) = NULL;
    int r;

    if (!json_is_object(schema) ||
        (type && (!json_is_string(type) ||
                  strcmp(json_string_value(type), "object") != 0)))
        return error_set(err, ERR_INVALID,
                         "parameters must be a JSON Schema of type object");
    if (others && !json_is_false(others))
        return error_set(err, ERR_INVALID,
                         "parameters.additionalProperties must be false: "
                         "every parameter has a name");
    (void)json_object_set_new(schema, "type", json_string("object"));
    if (!json_object_get(schema, "properties"))
        (void)json_object_set_new(schema, "properties", json_object());
    (void)json_object_set_new(schema, "additionalProperties", json_false());
    r = schema_check(schema, "parameters", err);
    if (r == 0)
        r = check_names(json_object_get(schema, "properties"), err);
    if (r < 0)
        return r;
    text = json_dumps(schema, JSON_COMPACT);
    if (!text || strlen(text) > SAVED_TOOL_SCHEMA_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "parameters must not have more than %u bytes",
                         SAVED_TOOL_SCHEMA_MAX);
    *ret = take_ptr(schema);
    return 0;
}

/* The code of an execution that the caller may see. */
static int code_of_execution(struct agents *a, const struct actor *who,
                             const char *id, struct saved_tool *ret,
                             struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct exec_info info;
    int r = execution_find(a->sessions, who, id, &e, err);

    if (r < 0)
        return r;
    execution_info(e, &info);
    if (!info.code || !info.code[0]) {
        (void)error_set(err, ERR_CONFLICT,
                        "the code of this execution was not kept");
        return error_hint(err, "Send the code itself.");
    }
    ret->code = xstrdup(info.code);
    ret->language = info.language;
    (void)snprintf(ret->execution, sizeof(ret->execution), "%s", id);
    return 0;
}

static int check_rest(const struct saved_tool *t, int64_t timeout_s,
                      struct error *err)
{
    if (t->language != EXEC_PYTHON && t->language != EXEC_SHELL)
        return error_set(err, ERR_INVALID,
                         "a tool must be in python or shell, not in %s",
                         language_get(t->language)->name);
    if (!t->code[0])
        return error_set(err, ERR_INVALID, "code must not be empty");
    if (strlen(t->code) > SAVED_TOOL_CODE_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "code must not have more than %u bytes",
                         SAVED_TOOL_CODE_MAX);
    if (agents_characters(t->description) > SAVED_TOOL_DESCRIPTION_MAX)
        return error_set(err, ERR_INVALID,
                         "description must not have more than %u characters",
                         SAVED_TOOL_DESCRIPTION_MAX);
    if (timeout_s != 0 && (timeout_s < (int64_t)EXEC_TIMEOUT_MIN_S ||
                           timeout_s > SAVED_TOOL_TIMEOUT_MAX))
        return error_set(err, ERR_INVALID, "timeout_s must be from %u to %d",
                         EXEC_TIMEOUT_MIN_S, SAVED_TOOL_TIMEOUT_MAX);
    return 0;
}

static int make_tool(struct agents *a, const struct actor *who,
                     const struct saved_tool_spec *spec,
                     struct saved_tool *ret, struct error *err)
{
    int r = 0;

    if (!name_valid(spec->name, SAVED_TOOL_NAME_MAX)) {
        (void)error_set(err, ERR_INVALID, "'%.60s' cannot name a tool",
                        spec->name);
        return error_hint(err,
                          "Use 1 to %u lower-case letters, digits and "
                          "'_', a letter first.",
                          SAVED_TOOL_NAME_MAX);
    }
    if (!spec->code == !spec->execution)
        return error_set(err, ERR_INVALID,
                         "a tool needs either code or execution");
    (void)snprintf(ret->workspace, sizeof(ret->workspace), "%s",
                   spec->workspace);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", spec->name);
    ret->description = xstrdup(spec->description ? spec->description : "");
    ret->timeout_s = (uint32_t)spec->timeout_s;
    (void)snprintf(ret->created_by, sizeof(ret->created_by), "%s", who->key);
    if (spec->execution) {
        r = code_of_execution(a, who, spec->execution, ret, err);
    } else {
        ret->code = xstrdup(spec->code);
        ret->language = spec->language;
    }
    if (r == 0)
        r = check_rest(ret, spec->timeout_s, err);
    if (r == 0)
        r = make_schema(spec->parameters, &ret->parameters, err);
    return r;
}

/* ---- rows ----------------------------------------------------------------
 */

#define COLUMNS                                                               \
    "v.workspace, v.name, v.number, v.language, v.description,"               \
    " v.parameters, v.code, v.timeout_s, v.execution, v.created_by,"          \
    " v.created_at_ms"

static int read_row(struct store_rows *rows, struct saved_tool *ret,
                    struct error *err)
{
    struct saved_tool t cleanup(saved_tool_done) = {
        .number = store_int(rows, 2),
        .timeout_s = (uint32_t)store_int(rows, 7),
        .created_at_ms = store_int(rows, 10)};
    int language = language_find(store_text(rows, 3));
    json_error_t why;

    store_copy(rows, 0, t.workspace, sizeof(t.workspace));
    store_copy(rows, 1, t.name, sizeof(t.name));
    store_copy(rows, 8, t.execution, sizeof(t.execution));
    store_copy(rows, 9, t.created_by, sizeof(t.created_by));
    t.description = xstrdup(store_text(rows, 4));
    t.parameters = json_loads(store_text(rows, 5), 0, &why);
    t.code = xstrdup(store_text(rows, 6));
    if (!t.parameters || language < 0)
        return error_set(err, ERR_CORRUPT, "a stored tool is damaged");
    t.language = (enum exec_language)language;
    *ret = t;
    t = (struct saved_tool){.number = 0};
    return 0;
}

static int unknown_tool(const char *name, struct error *err)
{
    (void)error_set(err, ERR_NOT_FOUND,
                    "the workspace has no such tool or version: '%.48s'",
                    name);
    return error_hint(err, "GET /api/workspaces/{ws}/tools lists them.");
}

/* 1, 0, or -code. number 0: the newest. */
static int find_tool(struct store_tx *tx, const char *workspace,
                     const char *name, int64_t number, struct saved_tool *ret,
                     struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " COLUMNS " FROM tool_versions v"
                      " WHERE v.workspace = ?1 AND v.name = ?2"
                      " AND (?3 = 0 OR v.number = ?3)"
                      " ORDER BY v.number DESC LIMIT 1",
                      "tti", workspace, name, number);

    if (r <= 0)
        return r;
    r = read_row(rows, ret, err);
    return r < 0 ? r : 1;
}

static int need_role(struct agents *a, const struct actor *who,
                     const char *workspace, enum workspace_role role,
                     struct error *err)
{
    struct workspace_info info;
    int r = workspace_get(a->workspaces, who, workspace, &info, err);

    if (r < 0)
        return r;
    if (info.role >= role)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "this needs the role %s in the workspace",
                    workspace_role_name(role));
    return error_hint(err, "Its owner can change roles.");
}

static int collect(struct store_rows *rows, size_t most,
                   struct saved_tool **ret, size_t *ret_count,
                   struct error *err)
{
    struct saved_tool *list = xcalloc(most + 1, sizeof(*list));
    size_t count = 0;
    int r = 0;

    while (r == 0 && count < most && (r = store_next(rows, err)) > 0) {
        r = read_row(rows, &list[count], err);
        if (r == 0)
            count++;
    }
    if (r < 0) {
        saved_tools_free(list, count);
        return r;
    }
    *ret = list;
    *ret_count = count;
    return 0;
}

/* ---- looking -------------------------------------------------------------
 */

int saved_tools_list(struct agents *a, const struct actor *who,
                     const char *workspace, struct saved_tool **ret,
                     size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = need_role(a, who, workspace, ROLE_VIEWER, err);

    if (r == 0)
        r = store_begin(a->core->store, STORE_READ, "listing tools", &tx, err);
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT " COLUMNS " FROM tool_versions v"
                        " WHERE v.workspace = ?1 AND v.number ="
                        " (SELECT max(n.number) FROM tool_versions n"
                        "  WHERE n.workspace = v.workspace"
                        "  AND n.name = v.name)"
                        " ORDER BY v.name LIMIT ?2",
                        "ti", workspace, (int64_t)SAVED_TOOLS_MAX);
    return r < 0 ? r : collect(rows, SAVED_TOOLS_MAX, ret, ret_count, err);
}

int saved_tools_get(struct agents *a, const struct actor *who,
                    const char *workspace, const char *name, int64_t number,
                    struct saved_tool *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = need_role(a, who, workspace, ROLE_VIEWER, err);

    if (r == 0)
        r = store_begin(a->core->store, STORE_READ, "looking for a tool", &tx,
                        err);
    if (r < 0)
        return r;
    r = find_tool(tx, workspace, name, number, ret, err);
    return r == 0 ? unknown_tool(name, err) : MIN(r, 0);
}

int saved_tools_versions(struct agents *a, const struct actor *who,
                         const char *workspace, const char *name,
                         struct saved_tool **ret, size_t *ret_count,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = need_role(a, who, workspace, ROLE_VIEWER, err);

    if (r == 0)
        r = store_begin(a->core->store, STORE_READ, "listing tools", &tx, err);
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT " COLUMNS " FROM tool_versions v"
                        " WHERE v.workspace = ?1 AND v.name = ?2"
                        " ORDER BY v.number DESC LIMIT ?3",
                        "tti", workspace, name,
                        (int64_t)SAVED_TOOL_VERSIONS_MAX);
    if (r == 0)
        r = collect(rows, SAVED_TOOL_VERSIONS_MAX, ret, ret_count, err);
    if (r == 0 && *ret_count == 0) {
        saved_tools_free(*ret, 0);
        return unknown_tool(name, err);
    }
    return r;
}

/* ---- saving --------------------------------------------------------------
 */

static int enforce(struct agents *a, const struct actor *who,
                   const char *change, const struct saved_tool *t,
                   struct error *err)
{
    struct govern govern = {a->core->policy, a->core->approvals};
    struct govern_request rq = govern_tool(
        &(struct govern_scope){.actor = who}, language_get(t->language)->name,
        t->code ? strlen(t->code) : 0);
    char *summary cleanup(mem_free) =
        xasprintf("%s the tool '%s' in %s", change, t->name, t->workspace);

    rq.object = t->name;
    rq.workspace = t->workspace;
    rq.summary = summary;
    govern_add(&rq, "change", change);
    govern_add(&rq, "tool", t->name);
    govern_add(&rq, "workspace", t->workspace);
    govern_add(&rq, "code", t->code);
    return govern_enforce(&govern, &rq, err);
}

static bool same_tool(const struct saved_tool *a, const struct saved_tool *b)
{
    return a->language == b->language && a->timeout_s == b->timeout_s &&
           strcmp(a->code, b->code) == 0 &&
           strcmp(a->description, b->description) == 0 &&
           json_equal(a->parameters, b->parameters) == 1;
}

/* Whether it is known: 1, 0, or -code; with the numbers that decide what
 * happens. */
static int count_tools(struct store_tx *tx, const struct saved_tool *t,
                       int64_t *ret_number, int64_t *ret_versions,
                       int64_t *ret_tools, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT coalesce((SELECT number FROM tools"
                      "  WHERE workspace = ?1 AND name = ?2), 0),"
                      " (SELECT count(*) FROM tool_versions"
                      "  WHERE workspace = ?1 AND name = ?2),"
                      " (SELECT count(*) FROM tools WHERE workspace = ?1)",
                      "tt", t->workspace, t->name);

    if (r <= 0)
        return r;
    *ret_number = store_int(rows, 0);
    *ret_versions = store_int(rows, 1);
    *ret_tools = store_int(rows, 2);
    return *ret_number > 0;
}

static int write_tool(struct store_tx *tx, const struct saved_tool *t,
                      struct error *err)
{
    char *parameters cleanup(mem_free) =
        json_dumps(t->parameters, JSON_COMPACT);
    int r = store_exec(tx, err,
                       "INSERT INTO tools (workspace, name, number,"
                       " created_by, created_at_ms, updated_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?5)"
                       " ON CONFLICT (workspace, name) DO UPDATE SET"
                       " number = ?3, updated_at_ms = ?5",
                       "ttiti", t->workspace, t->name, t->number,
                       t->created_by, t->created_at_ms);

    if (r >= 0)
        r = store_exec(tx, err,
                       "INSERT INTO tool_versions (workspace, name, number,"
                       " language, description, parameters, code, timeout_s,"
                       " execution, created_by, created_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
                       " ?11)",
                       "ttittttitti", t->workspace, t->name, t->number,
                       language_get(t->language)->name, t->description,
                       parameters, t->code, (int64_t)t->timeout_s,
                       t->execution, t->created_by, t->created_at_ms);
    return MIN(r, 0);
}

static int add_version(struct agents *a, const struct actor *who,
                       struct saved_tool *t, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t number = 0, versions = 0, tools = 0;
    char before[24], after[24];
    struct audit_event event = {.action = "tool.save",
                                .workspace = t->workspace,
                                .object = t->name,
                                .after = after};
    int r =
        store_begin(a->core->store, STORE_WRITE, "saving a tool", &tx, err);

    if (r == 0)
        r = count_tools(tx, t, &number, &versions, &tools, err);
    if (r < 0)
        return r;
    if (r == 0 && tools >= SAVED_TOOLS_MAX)
        return error_set(err, ERR_LIMIT, "a workspace may have %d tools",
                         SAVED_TOOLS_MAX);
    if (versions >= SAVED_TOOL_VERSIONS_MAX) {
        (void)error_set(err, ERR_LIMIT, "a tool may have %d versions",
                        SAVED_TOOL_VERSIONS_MAX);
        return error_hint(err, "Delete versions that are not needed.");
    }
    if (r == 1) {
        (void)snprintf(before, sizeof(before), "%lld", (long long)number);
        event.before = before;
    }
    t->number = number + 1;
    t->created_at_ms = clock_real_ms();
    (void)snprintf(after, sizeof(after), "%lld", (long long)t->number);
    r = write_tool(tx, t, err);
    if (r == 0)
        r = audit_add(a->core->audit, tx, who, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int saved_tools_save(struct agents *a, const struct actor *who,
                     const struct saved_tool_spec *spec,
                     struct saved_tool *ret, bool *ret_new, struct error *err)
{
    struct saved_tool made cleanup(saved_tool_done) = {.number = 0};
    struct saved_tool old cleanup(saved_tool_done) = {.number = 0};
    int r = need_role(a, who, spec->workspace, ROLE_EDITOR, err);

    if (r == 0)
        r = make_tool(a, who, spec, &made, err);
    if (r < 0)
        return r;
    r = saved_tools_get(a, who, spec->workspace, spec->name, 0, &old, err);
    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    *ret_new = r < 0 || !same_tool(&old, &made);
    if (*ret_new) {
        r = enforce(a, who, "save", &made, err);
        if (r == 0)
            r = add_version(a, who, &made, err);
        if (r < 0)
            return r;
        atomic_fetch_add(&a->tool_changes, 1);
        *ret = made;
        made = (struct saved_tool){.number = 0};
    } else {
        *ret = old;
        old = (struct saved_tool){.number = 0};
    }
    return 0;
}

/* ---- deleting ------------------------------------------------------------
 */

static int delete_rows(struct store_tx *tx, const char *workspace,
                       const char *name, int64_t number, struct error *err)
{
    int r = store_exec(tx, err,
                       "DELETE FROM tool_versions WHERE workspace = ?1"
                       " AND name = ?2 AND (?3 = 0 OR number = ?3)",
                       "tti", workspace, name, number);

    if (r == 0)
        return unknown_tool(name, err);
    if (r > 0)
        r = store_exec(tx, err,
                       "DELETE FROM tools WHERE workspace = ?1 AND name = ?2"
                       " AND NOT EXISTS (SELECT 1 FROM tool_versions v"
                       "  WHERE v.workspace = ?1 AND v.name = ?2)",
                       "tt", workspace, name);
    return MIN(r, 0);
}

int saved_tools_delete(struct agents *a, const struct actor *who,
                       const char *workspace, const char *name, int64_t number,
                       struct error *err)
{
    struct saved_tool old cleanup(saved_tool_done) = {.number = 0};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char before[24];
    struct audit_event event = {
        .action = "tool.delete", .workspace = workspace, .object = name};
    int r = saved_tools_get(a, who, workspace, name, number, &old, err);

    if (r == 0)
        r = need_role(a, who, workspace, ROLE_EDITOR, err);
    if (r == 0)
        r = enforce(a, who, "delete", &old, err);
    if (r == 0)
        r = store_begin(a->core->store, STORE_WRITE, "deleting a tool", &tx,
                        err);
    if (number > 0) {
        (void)snprintf(before, sizeof(before), "%lld", (long long)number);
        event.before = before;
    }
    if (r == 0)
        r = delete_rows(tx, workspace, name, number, err);
    if (r == 0)
        r = audit_add(a->core->audit, tx, who, &event, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        atomic_fetch_add(&a->tool_changes, 1);
    return r;
}

/* ---- of all workspaces ---------------------------------------------------
 */

#define WORKSPACES_MAX                                                        \
    100 /* with tools, of one tenant, that are looked at                      \
         */

/* Workspaces of the tenant that have tools, the oldest first. */
static int workspaces_with_tools(struct agents *a, const struct actor *who,
                                 char (*ret)[ID_MAX], size_t *ret_count,
                                 struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t count = 0;
    int r = store_begin(a->core->store, STORE_READ, "listing tools", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT w.id FROM workspaces w WHERE w.tenant = ?1"
                        " AND EXISTS (SELECT 1 FROM tools t"
                        "  WHERE t.workspace = w.id)"
                        " ORDER BY w.created_at_ms, w.id LIMIT ?2",
                        "ti", who->tenant, (int64_t)WORKSPACES_MAX);
    while (r == 0 && (r = store_next(rows, err)) > 0) {
        store_copy(rows, 0, ret[count++], ID_MAX);
        r = 0;
    }
    *ret_count = count;
    return r;
}

static int compare_unique(const void *a, const void *b)
{
    return strcmp(((const struct saved_tool *)a)->unique,
                  ((const struct saved_tool *)b)->unique);
}

/* Names that several workspaces have get the end of the workspace's id. */
static void make_unique(struct saved_tool *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct saved_tool *t = &list[i];
        size_t len = strlen(t->workspace);
        bool alone = true;

        for (size_t j = 0; alone && j < count; j++)
            alone = j == i || strcmp(list[j].name, t->name) != 0;
        (void)snprintf(t->unique, sizeof(t->unique), "%s%s%s", t->name,
                       alone ? "" : "_",
                       alone ? "" : t->workspace + (len > 8 ? len - 8 : 0));
    }
    qsort(list, count, sizeof(*list), compare_unique);
}

int saved_tools_visible(struct agents *a, const struct actor *who,
                        const char *workspace, struct saved_tool **ret,
                        size_t *ret_count, struct error *err)
{
    char(*ids)[ID_MAX] cleanup(mem_free) =
        xcalloc(WORKSPACES_MAX, sizeof(*ids));
    struct saved_tool *all =
        xcalloc(SAVED_TOOLS_VISIBLE_MAX + 1, sizeof(*all));
    size_t workspaces = 0, count = 0;
    int r = 0;

    if (workspace) {
        (void)snprintf(ids[workspaces++], ID_MAX, "%s", workspace);
    } else {
        r = workspaces_with_tools(a, who, ids, &workspaces, err);
    }
    for (size_t i = 0; r == 0 && i < workspaces; i++) {
        struct saved_tool *list = NULL;
        size_t n = 0;

        r = saved_tools_list(a, who, ids[i], &list, &n, err);
        if (r == -ERR_NOT_FOUND && !workspace) { /* not the caller's */
            r = 0;
            continue;
        }
        for (size_t j = 0; r == 0 && j < n; j++) {
            if (count < SAVED_TOOLS_VISIBLE_MAX)
                all[count++] = list[j];
            else
                saved_tool_done(&list[j]);
        }
        free(list);
    }
    if (r < 0) {
        saved_tools_free(all, count);
        return r;
    }
    make_unique(all, count);
    *ret = all;
    *ret_count = count;
    return 0;
}

int saved_tools_named(struct agents *a, const struct actor *who,
                      const char *unique, struct saved_tool *ret,
                      struct error *err)
{
    struct saved_tool *list = NULL;
    size_t count = 0;
    bool found = false;
    int r = saved_tools_visible(a, who, NULL, &list, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count && !found; i++) {
        found = strcmp(list[i].unique, unique) == 0;
        if (found) {
            *ret = list[i];
            list[i] = (struct saved_tool){.number = 0};
        }
    }
    saved_tools_free(list, count);
    return found ? 0 : unknown_tool(unique, err);
}

uint64_t saved_tools_changes(struct agents *a)
{
    return atomic_load(&a->tool_changes);
}

static void mix(uint64_t *mark, const char *text)
{
    for (; *text; text++)
        *mark = (*mark ^ (unsigned char)*text) * 1099511628211ull; /* FNV */
}

uint64_t saved_tools_mark(struct agents *a, const struct actor *who)
{
    struct saved_tool *list = NULL;
    uint64_t mark = 1469598103934665603ull;
    struct error ignored;
    size_t count = 0;

    if (saved_tools_visible(a, who, NULL, &list, &count, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        mix(&mark, list[i].unique);
        mix(&mark, list[i].workspace);
        mark = (mark ^ (uint64_t)list[i].number) * 1099511628211ull;
    }
    saved_tools_free(list, count);
    return mark;
}
