/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execute_python, run_shell and run_code, and the function with which all
 * tools run something in a session: on the call's own worker, to its end.
 * (Borrowing a second worker could leave all of them waiting for each other.)
 *
 * The thread mcp-progress serves all calls: a few times a second it looks
 * whether a call was cancelled and whether there is output to report. It runs
 * while there are calls and a while longer, so that a short call costs two
 * pointers and no thread. Its list is the only state of this file that
 * outlives a call. That is safe because an entry is on its caller's stack from
 * tool_watch_begin to tool_watch_end, which waits while the thread uses it.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
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
        whole.prompt = call->prompt;
        r = execution_submit(call->doors->sessions, call->actor, session,
                             &whole, on_submit, &later, &e, err);
    }
    if (r < 0)
        return r;
    if (later.job) {
        tool_watch_begin(&watch, call, e);
        later.job(later.arg);
        tool_watch_end(&watch);
    } else { /* policy denied it, or it waits for approval */
        r = tool_held(call, spec, &e);
    }
    if (r == 0)
        *ret = take_ptr(e);
    return r;
}

/* ---- the tools ------------------------------------------------------ */

struct run_args {
    const char *code, *session, *workspace;
    int64_t timeout;
    int language; /* of other_languages */
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

static const char *const other_languages[] = {"javascript", "r",    "c", "go",
                                              "java",       "bash", NULL};

static const struct api_field code_arguments[] = {
    {"language", API_CHOICE, API_REQUIRED | API_LATER, ARG(language),
     .choices = other_languages},
    {"code", API_STRING, API_REQUIRED | API_LATER, ARG(code),
     .max = CODE_CHARS_MAX, .help = "Source of a cell or a whole program"},
    TOOL_SESSION(struct run_args),
    TIMEOUT(PYTHON_SECONDS_MAX),
    {"workspace", API_STRING, ARG(workspace), .min = 1, .max = ID_MAX,
     .help = "A workspace, ws_…, to work on instead of one of its own; for a "
             "new session"},
};
TOOL_INPUT(run_code, struct run_args, code_arguments);

static int run_in(struct mcp_call *call, const struct run_args *a,
                  enum exec_language language,
                  const struct api_resource *output, struct mcp_answer *ret,
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
        tool_result(call, &session, e, output, ret);
    return r;
}

int tool_execute_python(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    struct run_args a = {.code = NULL};
    int r = api_read(args, &tool_execute_python_input, &a, err);

    return r < 0 ? r
                 : run_in(call, &a, EXEC_PYTHON, &tool_execute_python_output,
                          ret, err);
}

int tool_run_shell(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    struct run_args a = {.code = NULL};
    int r = api_read(args, &tool_run_shell_input, &a, err);

    return r < 0 ? r
                 : run_in(call, &a, EXEC_SHELL, &tool_run_shell_output, ret,
                          err);
}

int tool_run_code(struct mcp_call *call, const json_t *args,
                  struct mcp_answer *ret, struct error *err)
{
    struct run_args a = {.code = NULL};
    int r = api_read(args, &tool_run_code_input, &a, err);

    return r < 0 ? r
                 : run_in(call, &a,
                          (enum exec_language)language_find(
                              other_languages[a.language]),
                          &tool_run_code_output, ret, err);
}

/* ---- their words -------------------------------------------------------- */

#define OUTCOMES                                                              \
    "If status is not ok: error, read the traceback and correct the code; "   \
    "timeout, do less per call or raise timeout; oom, use less memory (read " \
    "files in pieces, delete large objects); limit, the message names the "   \
    "limit; killed or crashed, the interpreter ended and the next call "      \
    "starts a new one, so define variables again; cancelled, it was "         \
    "stopped; denied, a policy forbids it or a file or workspace is "         \
    "read-only; pending_approval, a person has to approve it first, see "     \
    "check_approval; isolation_failed, nothing ran, try again later. "        \
    "not_found or expired for a session: leave session_id out and continue "  \
    "with the new session. "

#define FILES                                                                 \
    "Files written below /mnt/data are kept with their versions after the "   \
    "session ends and are returned as resource links; other files are lost. "

const char tool_execute_python_text[] =
    "Runs Python in a persistent, isolated interpreter and returns the printed "
    "text, the value of the last expression, charts as images, and the files "
    "it created. Use it for calculations, data analysis, charts (matplotlib, "
    "plotly), documents and file conversion. Variables and imports are kept "
    "for the next call with the same session_id, which the first answer "
    "returns. pandas, numpy, scipy, matplotlib, openpyxl, Pillow and more are "
    "installed. " MCP_NETWORK " " FILES
    "Limits: 20,000 characters of code; timeout 5 to 900 s, default 120; 1 GiB "
    "of memory unless the pool is configured otherwise. stdout beyond 4,000 "
    "and stderr beyond 2,000 characters are cut in the middle, and the answer "
    "names the file with the full text. After 20 idle minutes the session "
    "sleeps. The next call wakes it with its files and, where possible, its "
    "variables: the interpreter field is woken, or new if they are lost. " OUTCOMES;

const char tool_run_shell_text[] =
    "Runs a bash command in the session's sandbox and returns stdout, stderr "
    "and the exit code. Use it for command-line tools (ls, grep, rg, awk, jq, "
    "sqlite3, zip, git, pdftotext …). For Python code use execute_python, "
    "whose variables and working directory the shell does not share. It "
    "begins in /mnt/data; the working directory, variables, functions and "
    "aliases last from call to call, as in a terminal. A "
    "non-zero exit code is reported as status error. " FILES MCP_NETWORK
    " Limits: timeout 5 to 240 s, default 120; 20,000 characters of command; "
    "stdout beyond 4,000 and stderr beyond 2,000 characters are cut in the "
    "middle, and the answer names the file with the full text. " OUTCOMES;

const char tool_run_code_text[] =
    "Runs code in a language other than Python in the session's sandbox. "
    "javascript (Node; top-level await and import work) and r keep their "
    "variables for the next call with the same session_id, return the value "
    "of the last expression, and show R plots as images; bash keeps its "
    "working directory and variables, as run_shell does. c, go and java are "
    "whole programs with a main function that are compiled and run once; "
    "errors of the compiler are in stderr with status error. All languages "
    "share the files below /mnt/data. If the session's runtime does not have "
    "a language, the call is refused and the answer names a runtime that "
    "has it. " FILES MCP_NETWORK
    " Limits: 20,000 characters of code; timeout 5 to 900 s, default 120; "
    "stdout beyond 4,000 and stderr beyond 2,000 characters are cut in the "
    "middle, and the answer names the file with the full text. " OUTCOMES;

/* ---- progress ----------------------------------------------------------- */

#define LOOK_MS 200u
#define TELL_MS 1000u /* at least so often, also of nothing new */
#define IDLE_LOOKS 50u

static struct {
    struct mutex lock;
    struct cond looked;
    struct tool_watch *first;
    bool running;
} watcher = {.lock = MUTEX_INIT, .looked = COND_INIT};

/* ---- one look ----------------------------------------------------------- */

/* Keeps the last line that has something in it, as far as there is room. */
static void note_output(struct tool_watch *w, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n' || text[i] == '\r') {
            w->line_ended = true;
            continue;
        }
        if (w->line_ended)
            w->line_len = 0;
        w->line_ended = false;
        if (w->line_len + 1 < sizeof(w->line))
            w->line[w->line_len++] = text[i];
    }
}

static bool read_events(struct tool_watch *w)
{
    struct exec_event event;
    bool some = false;

    while (execution_event(w->e, w->seen, &event)) {
        w->seen = event.number;
        if (event.type == EVENT_STATUS)
            w->running = event.len == strlen("running") &&
                         memcmp(event.data, "running", event.len) == 0;
        if (event.type != EVENT_STDOUT && event.type != EVENT_STDERR)
            continue;
        note_output(w, event.data, event.len);
        some = true;
    }
    return some;
}

static void send_progress(struct tool_watch *w, uint64_t now)
{
    struct buf text cleanup(buf_done) = {0};

    execution_digest_plain(&text, w->line,
                           w->line_len - utf8_partial(w->line, w->line_len));
    if (!text.len)
        buf_adds(&text, w->running ? "running" : "waiting for its turn");
    w->told_ms = now;
    w->call->progress(w->call, (double)(now - w->since_ms) / 1000, 0,
                      text.data);
}

static void report_progress(struct tool_watch *w)
{
    uint64_t now = clock_mono_ms();
    struct error ignored; /* it ended meanwhile */
    bool some;

    if (!w->cancelled && w->call->cancelled(w->call)) {
        w->cancelled = true;
        (void)execution_cancel(w->call->doors->sessions, w->call->actor,
                               w->execution, &ignored);
    }
    if (!w->call->wants_progress || w->cancelled || now <= w->told_ms)
        return;
    some = read_events(w);
    if (some || now - w->told_ms >= TELL_MS)
        send_progress(w, now);
}

/* ---- the thread --------------------------------------------------------- */

/* Releases the lock while it looks at one call. */
static void report_all(void)
{
    mutex_assert_held(&watcher.lock);
    for (struct tool_watch *w = watcher.first; w; w = w->next) {
        w->busy = true;
        mutex_unlock(&watcher.lock);
        report_progress(w);
        mutex_lock(&watcher.lock);
        w->busy = false;
        cond_broadcast(&watcher.looked);
    }
}

static void run_progress(void *arg)
{
    const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000L};
    unsigned idle = 0;

    (void)arg;
    mutex_lock(&watcher.lock);
    while (idle < IDLE_LOOKS) {
        mutex_unlock(&watcher.lock);
        (void)nanosleep(&nap, NULL); /* woken early is as good */
        mutex_lock(&watcher.lock);
        idle = watcher.first ? 0 : idle + 1;
        report_all();
    }
    watcher.running = false;
    mutex_unlock(&watcher.lock);
}

static void start_progress_thread(void)
{
    mutex_assert_held(&watcher.lock);
    watcher.running =
        thread_start_detached("mcp-progress", 0, run_progress, NULL) == 0;
    if (!watcher.running) /* calls run without progress reports */
        log_event(LOG_WARN, "mcp_progress", "error",
                  "cannot start the thread that reports progress", NULL);
}

void tool_watch_begin(struct tool_watch *w, struct mcp_call *call,
                      struct execution *e)
{
    struct exec_info info;

    execution_info(e, &info);
    *w = (struct tool_watch){.call = call, .e = e, .line_ended = true};
    (void)snprintf(w->execution, sizeof(w->execution), "%s", info.id);
    w->since_ms = w->told_ms = clock_mono_ms();
    mutex_lock(&watcher.lock);
    w->next = watcher.first;
    w->at = &watcher.first;
    if (w->next)
        w->next->at = &w->next;
    watcher.first = w;
    if (!watcher.running)
        start_progress_thread();
    mutex_unlock(&watcher.lock);
}

void tool_watch_end(struct tool_watch *w)
{
    mutex_lock(&watcher.lock);
    while (w->busy)
        cond_wait(&watcher.looked, &watcher.lock);
    *w->at = w->next;
    if (w->next)
        w->next->at = w->at;
    mutex_unlock(&watcher.lock);
}
