/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three tools of an Azure pool's own MCP endpoint, by their names there:
 * an environment is a session of the pool. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/tool.h"

#define TIMEOUT_S 220u /* as that service has it */
#define ARGS_MAX 1000

struct remote_args {
    const char *environment, *code;
    json_t *words;
};

#define ARG(member) API_AT(struct remote_args, member)
#define ENVIRONMENT                                                           \
    {                                                                         \
        "environmentId", API_STRING, API_REQUIRED, ARG(environment),          \
            .min = 1, .max = ID_MAX, .help = "As launchShell returned it"     \
    }

const struct api_resource tool_launch_shell_input = {
    .name = "launchShell arguments",
    .size = sizeof(struct remote_args),
    .input = true};

static const struct api_field python_arguments[] = {
    ENVIRONMENT,
    {"pythonCode", API_STRING, API_REQUIRED, ARG(code), .max = INT64_MAX},
};
TOOL_INPUT(run_python_remote, struct remote_args, python_arguments);

static const struct api_field shell_arguments[] = {
    ENVIRONMENT,
    {"shellCommand", API_STRING, ARG(code), .min = 1, .max = INT64_MAX},
    {"execCommandAndArgs", API_ARRAY, ARG(words), .min = 1, .max = ARGS_MAX,
     .help = "A program and its arguments, each taken as it is"},
};
TOOL_INPUT(run_shell_remote, struct remote_args, shell_arguments);

struct launched {
    struct tool_status status;
    const char *environment;
};

static const struct api_field launched_fields[] = {
    {"environmentId", API_STRING, API_AT(struct launched, environment)},
};
TOOL_OUTPUT(launch_shell, struct launched, launched_fields);

int tool_launch_shell(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    struct session_info made cleanup(session_info_done) = {.metadata = NULL};
    struct session_spec spec = {.pool = call->pool};
    struct remote_args a = {.code = NULL};
    int r = api_read(args, &tool_launch_shell_input, &a, err);

    if (r == 0)
        r = session_create(call->doors->sessions, call->actor, &spec, &made,
                           err);
    if (r < 0)
        return r;
    mcp_answer_textf(ret, "Created the environment %s.", made.id);
    tool_answer(ret, &tool_launch_shell_output,
                &(struct launched){TOOL_OK, made.id});
    tool_files_meta(ret, NULL, made.id, NULL, NULL, 0);
    return 0;
}

static uint32_t timeout_of(struct mcp_call *call, const char *pool,
                           enum exec_language language)
{
    struct pool_info info cleanup(pool_info_done) = {.details = NULL};
    struct error ignored;

    if (session_pool_get(call->doors->sessions, call->actor, pool, &info,
                         &ignored) < 0)
        return 0;
    return MIN(TIMEOUT_S, language == EXEC_SHELL ? info.shell_timeout_max_s
                                                 : info.python_timeout_max_s);
}

static int run_remote(struct mcp_call *call, const char *environment,
                      enum exec_language language, const char *code,
                      struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct exec_spec spec = {
        .language = language, .code = code, .code_len = strlen(code)};
    int r = tool_session(call, TOOL_FIND, environment, NULL, &session, err);

    if (r == -ERR_NOT_FOUND || r == -ERR_EXPIRED)
        return error_hint(err, "Call launchShell for a new environment.");
    if (r < 0)
        return r;
    spec.timeout_s = timeout_of(call, session.pool, language);
    r = tool_execute(call, session.id, &spec, &e, err);
    if (r != 0)
        return r;
    tool_result(call, &session, e,
                language == EXEC_PYTHON ? &tool_run_python_remote_output
                                        : &tool_run_shell_remote_output,
                ret);
    return 0;
}

int tool_run_python_remote(struct mcp_call *call, const json_t *args,
                           struct mcp_answer *ret, struct error *err)
{
    struct remote_args a = {.code = NULL};
    int r = api_read(args, &tool_run_python_remote_input, &a, err);

    return r < 0 ? r
                 : run_remote(call, a.environment, EXEC_PYTHON, a.code, ret,
                              err);
}

/* The words of a command, each as it is. */
static void join_output(const json_t *words, struct buf *ret)
{
    json_t *word;
    size_t i;

    json_array_foreach (words, i, word) {
        if (i)
            buf_adds(ret, " ");
        tool_text_quote(ret, json_string_value(word));
    }
}

int tool_run_shell_remote(struct mcp_call *call, const json_t *args,
                          struct mcp_answer *ret, struct error *err)
{
    struct buf joined cleanup(buf_done) = {0};
    struct remote_args a = {.code = NULL};
    int r = api_read(args, &tool_run_shell_remote_input, &a, err);

    if (r == 0 && (a.code != NULL) == (a.words != NULL))
        r = error_set(err, ERR_INVALID,
                      "give exactly one of shellCommand and "
                      "execCommandAndArgs");
    if (r == 0 && a.words) { /* one word at least */
        join_output(a.words, &joined);
        a.code = joined.data;
    }
    if (r != 0) /* which is never positive */
        return r;
    return run_remote(call, a.environment, EXEC_SHELL,
                      tool_text_or(a.code, ""), ret, err);
}

/* ---- their words -------------------------------------------------------- */

const char tool_launch_shell_text[] =
    "Makes a remote environment, a sealed sandbox of this pool, and returns "
    "its environmentId for the two other tools. Its files below /mnt/data are "
    "kept; variables last until the pool's cooldown without use.";

const char tool_run_python_remote_text[] =
    "Runs Python in an environment and returns stdout, stderr, the value of "
    "the last expression, images and files. Variables stay between calls. At "
    "most 220 s. not_found: call launchShell for a new environment.";

const char tool_run_shell_remote_text[] =
    "Runs a shell command in an environment and returns stdout, stderr and "
    "the exit code. Give exactly one of shellCommand and execCommandAndArgs. "
    "At most 220 s. not_found: call launchShell for a new environment.";
