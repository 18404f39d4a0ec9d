/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/workspaces/{ws}/tools: code that members of a workspace keep as a tool,
 * and runs of it. A run is an execution, in a session of the caller's or in
 * one that is made for it. Runs on a worker of the daemon.
 */
#include "agents/tools.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- bodies ------------------------------------------------------------- */

struct tool_body {
    const char *name, *description, *code, *execution;
    int language; /* of languages */
    json_t *parameters;
    int64_t timeout_s;
};

static const char *const languages[] = {"python", "shell", NULL};

#define BODY(member) API_AT(struct tool_body, member)

static const struct api_field tool_spec_fields[] = {
    {"name", API_STRING, API_REQUIRED, BODY(name), .min = 1,
     .max = SAVED_TOOL_NAME_MAX, .help = "a-z, 0-9 and _, a letter first"},
    {"description", API_STRING, BODY(description),
     .max = 4 * SAVED_TOOL_DESCRIPTION_MAX,
     .help = "for people and models; at most 1000 characters"},
    {"parameters", API_OBJECT, BODY(parameters),
     .help = "a JSON Schema of type object; each property is a variable of "
             "the code"},
    {"code", API_STRING, BODY(code), .min = 1, .max = SAVED_TOOL_CODE_MAX,
     .help = "or execution"},
    {"language", API_CHOICE, BODY(language), .choices = languages,
     .help = "of the code; python unless set"},
    {"execution", API_STRING, BODY(execution), .min = 1, .max = ID_MAX - 1,
     .help = "keep the code of this execution"},
    {"timeout_s", API_INT, BODY(timeout_s), .min = EXEC_TIMEOUT_MIN_S,
     .max = SAVED_TOOL_TIMEOUT_MAX, .help = "else the pool's"},
};
API_INPUT(native_tool_spec, "ToolSpec", struct tool_body, tool_spec_fields,
          "Code to be kept as a tool.");

struct run_body {
    json_t *arguments;
    const char *session;
    int64_t version, timeout_s;
};

#define RUN(member) API_AT(struct run_body, member)

static const struct api_field tool_run_fields[] = {
    {"arguments", API_OBJECT, RUN(arguments),
     .help = "checked against the parameters of the tool"},
    {"version", API_INT, RUN(version), .min = 1, .max = INT64_MAX,
     .help = "else the newest"},
    {"session", API_STRING, RUN(session), .min = 1, .max = ID_MAX - 1,
     .help = "a session of the workspace; else one is made for the run"},
    {"timeout_s", API_INT, RUN(timeout_s), .min = EXEC_TIMEOUT_MIN_S,
     .max = SAVED_TOOL_TIMEOUT_MAX, .help = "else the tool's"},
};
API_INPUT(native_tool_run, "ToolRun", struct run_body, tool_run_fields,
          "A run of a tool.");

/* ---- answers ------------------------------------------------------------ */

struct tool_view {
    const char *workspace, *name, *language, *description, *code, *execution,
        *created_by;
    const char *parameters; /* JSON */
    int64_t number, timeout_s, created_at_ms;
};

#define TOOL(member) API_AT(struct tool_view, member)

static const struct api_field tool_fields[] = {
    {"workspace", API_STRING, TOOL(workspace)},
    {"name", API_STRING, TOOL(name)},
    {"number", API_INT, TOOL(number), .help = "of the version"},
    {"description", API_STRING, TOOL(description)},
    {"language", API_STRING, TOOL(language)},
    {"parameters", API_OBJECT, TOOL(parameters), .help = "a JSON Schema"},
    {"code", API_STRING, TOOL(code)},
    {"timeout_s", API_INT, API_NULLABLE, TOOL(timeout_s)},
    {"execution", API_STRING, API_NULLABLE, TOOL(execution),
     .help = "it was kept from"},
    {"created_by", API_STRING, TOOL(created_by)},
    {"created_by_name", API_STRING, API_NULLABLE | API_NAME_OF,
     TOOL(created_by)},
    {"created_at", API_TIME, TOOL(created_at_ms)},
};
API_OUTPUT(native_tool, "Tool", struct tool_view, tool_fields,
           "A version of a tool of a workspace; it never changes.");

static struct tool_view view(struct doors_call *call,
                             const struct saved_tool *t)
{
    char *parameters cleanup(mem_free) =
        json_dumps(t->parameters, JSON_COMPACT);

    return (struct tool_view){.workspace = t->workspace,
                              .name = t->name,
                              .number = t->number,
                              .description = t->description,
                              .language = language_get(t->language)->name,
                              .parameters =
                                  arena_strdup(http_arena(call->http),
                                               parameters ? parameters : "{}"),
                              .code = t->code,
                              .timeout_s = t->timeout_s,
                              .execution = t->execution,
                              .created_by = t->created_by,
                              .created_at_ms = t->created_at_ms};
}

static void respond_tool(struct doors_call *call, unsigned status,
                         const struct saved_tool *t)
{
    struct tool_view v = view(call, t);

    native_respond(call, status, &native_tool, &v);
}

/* list: taken */
static void respond_tools(struct doors_call *call, struct saved_tool *list,
                          size_t count)
{
    struct tool_view *views cleanup(mem_free) =
        xcalloc(count + 1, sizeof(*views));

    for (size_t i = 0; i < count; i++)
        views[i] = view(call, &list[i]);
    native_respond_list(call, &native_tool, views, count, false);
    saved_tools_free(list, count);
}

/* ---- handlers ----------------------------------------------------------- */

int native_tools_save(struct doors_call *call, struct error *err)
{
    struct saved_tool made cleanup(saved_tool_done) = {.number = 0};
    json_t *json cleanup(json_unref) = NULL;
    struct tool_body b = {0};
    struct saved_tool_spec spec;
    bool is_new = false;
    int r = native_read(call, &native_tool_spec, &b, &json, err);

    if (r < 0)
        return r;
    spec = (struct saved_tool_spec){
        .workspace = call->params[0],
        .name = b.name,
        .description = b.description,
        .parameters = b.parameters,
        .code = b.code,
        .language = (enum exec_language)language_find(languages[b.language]),
        .execution = b.execution,
        .timeout_s = b.timeout_s};
    r = saved_tools_save(call->doors->agents, &call->actor, &spec, &made,
                         &is_new, err);
    if (r == 0)
        respond_tool(call, is_new ? 201 : 200, &made);
    return r;
}

int native_tools_list(struct doors_call *call, struct error *err)
{
    struct saved_tool *list = NULL;
    size_t count = 0;
    int r = saved_tools_list(call->doors->agents, &call->actor,
                             call->params[0], &list, &count, err);

    if (r == 0)
        respond_tools(call, list, count);
    return r;
}

int native_tools_all(struct doors_call *call, struct error *err)
{
    struct saved_tool *list = NULL;
    size_t count = 0;
    int r = saved_tools_visible(call->doors->agents, &call->actor, NULL, &list,
                                &count, err);

    if (r == 0)
        respond_tools(call, list, count);
    return r;
}

int native_tools_versions(struct doors_call *call, struct error *err)
{
    struct saved_tool *list = NULL;
    size_t count = 0;
    int r = saved_tools_versions(call->doors->agents, &call->actor,
                                 call->params[0], call->params[1], &list,
                                 &count, err);

    if (r == 0)
        respond_tools(call, list, count);
    return r;
}

/* The number of a version in the path; absent: 0. */
static int read_number(const struct doors_call *call, int64_t *ret,
                       struct error *err)
{
    const char *text = call->params[2];
    char *end = NULL;

    *ret = text ? strtoll(text, &end, 10) : 0;
    if (!text || (*end == '\0' && *ret > 0))
        return 0;
    return error_set(err, ERR_NOT_FOUND, "the tool has no such version");
}

int native_tools_get(struct doors_call *call, struct error *err)
{
    struct saved_tool t cleanup(saved_tool_done) = {.number = 0};
    int64_t number = 0;
    int r = read_number(call, &number, err);

    if (r == 0)
        r = saved_tools_get(call->doors->agents, &call->actor, call->params[0],
                            call->params[1], number, &t, err);
    if (r == 0)
        respond_tool(call, 200, &t);
    return r;
}

int native_tools_delete(struct doors_call *call, struct error *err)
{
    int64_t number = 0;
    int r = read_number(call, &number, err);

    if (r == 0)
        r = saved_tools_delete(call->doors->agents, &call->actor,
                               call->params[0], call->params[1], number, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

/* ---- running ------------------------------------------------------------ */

static int check_session(struct doors_call *call, const char *id,
                         struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_get(call->doors->sessions, &call->actor, id, &info, err);

    if (r < 0)
        return r;
    if (strcmp(info.workspace, call->params[0]) == 0)
        return 0;
    (void)error_set(err, ERR_CONFLICT,
                    "the session has another workspace than the tool");
    return error_hint(err,
                      "Leave session out, or create a session with "
                      "\"workspace\": \"%.60s\".",
                      call->params[0]);
}

int native_tools_run(struct doors_call *call, struct error *err)
{
    struct saved_tool t cleanup(saved_tool_done) = {.number = 0};
    struct saved_tool_call c cleanup(saved_tool_call_done) = {.timeout_s = 0};
    json_t *json cleanup(json_unref) = NULL;
    struct run_body b = {0};
    struct exec_spec spec;
    int r = native_read_maybe(call, &native_tool_run, &b, &json, err);

    if (r == 0)
        r = saved_tools_get(call->doors->agents, &call->actor, call->params[0],
                            call->params[1], b.version, &t, err);
    if (r == 0)
        r = saved_tool_call(&t, b.arguments, &c, err);
    if (r == 0 && b.session)
        r = check_session(call, b.session, err);
    if (r < 0)
        return r;
    spec = (struct exec_spec){.language = c.language,
                              .code = c.code.data,
                              .code_len = c.code.len,
                              .timeout_s = b.timeout_s ? (uint32_t)b.timeout_s
                                                       : c.timeout_s,
                              .metadata = c.metadata,
                              .left = doors_left,
                              .left_ctx = call->http};
    return b.session ? native_run_session(call, b.session, &spec, err)
                     : native_run_once(call, call->params[0], &spec, err);
}
