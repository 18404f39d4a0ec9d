/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execute_python and run_shell, and the one way all tools run something in a
 * session: on the call's own worker, to its end, while tool_watch.c tells the
 * client how it goes and stops it when nobody waits any more. Borrowing a
 * second worker instead could leave all of them waiting for each other.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/tool.h"

#define CODE_CHARS_MAX 20000u
#define PYTHON_SECONDS_MAX 900
#define SHELL_SECONDS_MAX 240

/* ---- running ------------------------------------------------------------ */

struct later {
    void (*job)(void *arg);
    void *arg;
};

static int on_submit(void *ctx, void (*job)(void *arg), void *arg)
{
    *(struct later *)ctx = (struct later){job, arg};
    return 0;
}

int tool_execute(struct mcp_call *call, const char *session,
                 const struct exec_spec *spec, struct execution **ret,
                 struct error *err)
{
    struct exec_spec whole = *spec;
    struct tool_watch watch;
    struct later later = {NULL, NULL};
    struct execution *e cleanup(execution_unrefp) = NULL;
    int r = tool_held_before(call, spec, &e, err);

    if (r == 0) {
        whole.conversation = tool_some(call->conversation);
        whole.message = tool_some(call->message);
        r = session_submit(call->doors->sessions, call->actor, session, &whole,
                           on_submit, &later, &e, err);
    }
    if (r < 0)
        return r;
    if (later.job) {
        tool_watch_begin(&watch, call, e);
        later.job(later.arg);
        tool_watch_end(&watch);
    } else { /* policy has said no, or that somebody is to be asked */
        r = tool_held(call, spec, &e);
    }
    if (r == 0)
        *ret = take_ptr(e);
    return r;
}

/* ---- the two tools ------------------------------------------------------ */

struct run_args {
    const char *code, *session, *workspace;
    int64_t timeout;
};

#define ARG(member) API_AT(struct run_args, member)
#define TIMEOUT(most)                                                         \
    {                                                                         \
        "timeout", API_INT, ARG(timeout),                                     \
            .min = EXEC_TIMEOUT_MIN_S, .max = (most),                         \
            .help = "Seconds it may run; 120 unless the pool says otherwise"  \
    }

static const struct api_field python_arguments[] = {
    {"code", API_STRING, API_REQUIRED | API_LATER, ARG(code),
     .max = CODE_CHARS_MAX,
     .help = "Python source. The value of a last line that is an expression "
             "is returned."},
    TOOL_SESSION(struct run_args),
    TIMEOUT(PYTHON_SECONDS_MAX),
    {"workspace", API_STRING, ARG(workspace), .min = 1, .max = ID_MAX,
     .help = "A workspace, ws_…, to work on instead of one of its own; for a "
             "new session"},
};
TOOL_INPUT(execute_python, struct run_args, python_arguments);

static const struct api_field shell_arguments[] = {
    {"command", API_STRING, API_REQUIRED | API_LATER, ARG(code), .min = 1,
     .max = CODE_CHARS_MAX, .help = "For bash; may have several lines"},
    TOOL_SESSION(struct run_args),
    TIMEOUT(SHELL_SECONDS_MAX),
};
TOOL_INPUT(run_shell, struct run_args, shell_arguments);

/* As tool_result.c writes it; tool_held.c, of one that waits. */
static const struct api_field error_fields[] = {
    {"name", API_STRING, API_ELSEWHERE},
    {"message", API_STRING, API_ELSEWHERE},
    {"traceback", API_STRING, API_ELSEWHERE},
};
static API_SCHEMA(error_resource, "error", NULL, error_fields, NULL);

static const struct api_field truncated_fields[] = {
    {"what", API_STRING, API_ELSEWHERE},
    {"characters", API_INT, API_ELSEWHERE},
    {"left_out", API_INT, API_ELSEWHERE},
    {"file", API_STRING, API_NULLABLE, API_ELSEWHERE},
};
static API_SCHEMA(truncated_resource, "truncated", NULL, truncated_fields,
                  NULL);

static const char *const interpreters[] = {"kept", "new", "lost", NULL};

static const struct api_field run_fields[] = {
    {"session_id", API_STRING, API_ELSEWHERE},
    {"execution_id", API_STRING, API_ELSEWHERE},
    {"approval_id", API_STRING,
     .help = "Of status pending_approval: what has to be approved first"},
    {"warning", API_STRING,
     .help = "A limit that the code reached and outlived"},
    {"exit_code", API_INT, API_NULLABLE, API_ELSEWHERE},
    {"stdout", API_STRING, API_ELSEWHERE},
    {"stderr", API_STRING, API_ELSEWHERE},
    {"result", API_STRING, API_NULLABLE,
     .help = "Value of the last expression"},
    {"error", API_OBJECT, API_NULLABLE, .of = &error_resource},
    {"truncated", API_ARRAY, .of = &truncated_resource},
    {"duration_ms", API_INT, API_ELSEWHERE},
    {"interpreter", API_CHOICE, .choices = interpreters,
     .help = "new: variables of earlier calls are gone; lost: those of this "
             "call are"},
    {"images", API_INT, API_ELSEWHERE},
    {"network", API_OBJECT, .of = &tool_network_resource},
    {"files", API_ARRAY, .of = &tool_file_resource},
};
TOOL_OUTPUT_SCHEMA(execute_python, run_fields);
TOOL_OUTPUT_SCHEMA(run_shell, run_fields);

static int run(struct mcp_call *call, const struct run_args *a,
               enum exec_language language, struct mcp_answer *ret,
               struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct exec_spec spec = {.language = language,
                             .code = a->code,
                             .code_len = strlen(a->code),
                             .timeout_s = (uint32_t)a->timeout};
    int r = 0;

    if (tool_text_chars(a->code, spec.code_len) > CODE_CHARS_MAX) {
        (void)error_set(err, ERR_TOO_LARGE,
                        "the code has more than %u characters",
                        CODE_CHARS_MAX);
        r = error_hint(err, "Run it in steps, or put it into a file by "
                            "upload_file and run that.");
    }
    if (r == 0)
        r = tool_session(call, TOOL_MAKE, tool_held_session(call, a->session),
                         a->workspace, &session, err);
    if (r == 0)
        r = tool_execute(call, session.id, &spec, &e, err);
    if (r == 0)
        tool_result(call, &session, e, ret);
    return r;
}

int tool_execute_python(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    struct run_args a = {.code = NULL};
    int r = api_read(args, &tool_execute_python_input, &a, err);

    return r < 0 ? r : run(call, &a, EXEC_PYTHON, ret, err);
}

int tool_run_shell(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    struct run_args a = {.code = NULL};
    int r = api_read(args, &tool_run_shell_input, &a, err);

    return r < 0 ? r : run(call, &a, EXEC_SHELL, ret, err);
}

/* ---- their words -------------------------------------------------------- */

#define OUTCOMES                                                              \
    "When status is not ok: error, read the traceback and correct the code; " \
    "timeout, do less per call or raise timeout; oom, use less memory (read " \
    "files in pieces, drop what is not needed); limit, the message names "    \
    "the limit; killed or crashed, the interpreter ended and the next call "  \
    "starts with a new one, so define variables again; cancelled, somebody "  \
    "stopped it; denied, policy does not allow it, or a "                     \
    "file or workspace may not be written; pending_approval, a person has "   \
    "to approve it first, see check_approval; "                               \
    "isolation_failed, nothing ran, try again later. not_found or expired "   \
    "for a session: leave session_id out and go on with the new one. "

#define FILES                                                                 \
    "Files written below /mnt/data are kept with their versions after the "   \
    "session ends and come back as resource links; elsewhere they are lost. "

const char tool_execute_python_text[] =
    "Runs Python in a persistent, sealed interpreter and returns what it "
    "printed, the value of the last expression, charts as images, and the "
    "files it made. Use it for calculation, data analysis, charts "
    "(matplotlib, plotly), documents and file conversion. Variables and "
    "imports stay for the next call with the same session_id; the first "
    "answer names it. pandas, numpy, scipy, matplotlib, openpyxl, Pillow and "
    "more are there; there is no network and nothing can be installed from "
    "it. " FILES
    "Limits: 20,000 characters of code; timeout 5 to 900 s, 120 unless given; "
    "1 GiB of memory unless the pool says otherwise. stdout beyond 4,000 and "
    "stderr beyond 2,000 characters are cut in the middle, and the answer "
    "names the file that has all of it. After 20 idle minutes the interpreter "
    "is let go: files stay, variables do not, and the answer's interpreter "
    "field says new. " OUTCOMES;

const char tool_run_shell_text[] =
    "Runs a bash command in the session's sandbox, in /mnt/data, and returns "
    "stdout, stderr and the exit code. Use it for command-line tools (ls, "
    "grep, rg, awk, jq, sqlite3, zip, git, pdftotext …); for Python code use "
    "execute_python, whose variables this does not see. Each call is a new "
    "shell: its folder and variables do not stay, files do. A non-zero exit "
    "code is reported as status error. " FILES
    "There is no network. Limits: timeout 5 to 240 s, 120 unless given; 20,000 "
    "characters of command; stdout beyond 4,000 and stderr beyond 2,000 "
    "characters are cut in the middle, and the answer names the file that has "
    "all of it. " OUTCOMES;
