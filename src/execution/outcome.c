/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives the outcome of an execution from what was observed (R9). Pure: no
 * lock and no system call. Runs in gloveboxd at the end of each execution.
 * Most observations come from wait statuses and control groups, which the
 * session cannot forge. Two come from the session itself: that a cell ended
 * well or with an exception, and the words "No space left on device" in its
 * output.
 *
 * The rules are tried in order; the first that matches decides.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/size.h"
#include "execution/execution_int.h"

#define SCRATCH_FULL_BYTES 65536u
#define SCRATCH_FULL_SHARE 512u /* of the whole: what ext4 keeps back */
#define SCRATCH_CHUNK_BYTES (8u << 20)
#define FRESH "the next execution starts a fresh interpreter"

struct rule {
    bool (*holds)(const struct observations *f);
    void (*say)(const struct observations *f, struct outcome *v);
};

__attribute__((format(printf, 2, 3))) static void sentence(struct outcome *v,
                                                           const char *fmt,
                                                           ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(v->failure, sizeof(v->failure), fmt, ap); /* may cut */
    va_end(ap);
}

static void limit(struct outcome *v, const char *name, uint64_t value,
                  uint64_t peak)
{
    v->limit_name = name;
    v->limit_value = value;
    v->limit_peak = peak;
}

static const char *signal_name(int sig, char ret[32])
{
    const char *name = sigabbrev_np(sig);

    if (name)
        (void)snprintf(ret, 32, "SIG%s", name);
    else
        (void)snprintf(ret, 32, "signal %d", sig);
    return ret;
}

static bool in_helper(const struct observations *f)
{
    return language_get(f->language)->how == LANGUAGE_HELPER;
}

/* Of the language that ran; of Python for a command. */
static bool lost_interpreter(const struct observations *f)
{
    switch (f->end) {
    case END_DONE:
        return false;
    case END_SHELL:
        return f->kernel_died;
    case END_KERNEL:
    case END_CLOSED:
    case END_BROKEN:
    case END_KILLED:
    case END_GONE:
    case END_UNMADE:
        return true;
    }
    return true;
}

/* A helper that ends takes no kernel with it. */
static bool lost_kernel(const struct observations *f)
{
    if (!in_helper(f))
        return lost_interpreter(f);
    return f->kernel_died || f->end == END_KILLED || f->end == END_GONE ||
           f->end == END_UNMADE;
}

static bool shell_failed(const struct observations *f)
{
    return f->end == END_SHELL &&
           !(WIFEXITED(f->wait_status) && WEXITSTATUS(f->wait_status) == 0);
}

static bool observed_failure(const struct observations *f)
{
    return shell_failed(f) ||
           (f->end == END_DONE && f->done_status == KERNEL_DONE_ERROR);
}

/* How the execution ended after it was asked to stop. */
static const char *stopped_how(const struct observations *f)
{
    switch (f->end) {
    case END_DONE:
        return "it was interrupted and its variables are kept";
    case END_SHELL:
        return f->shell_killed
                   ? "it ignored the interrupt and was killed; the "
                     "interpreter's variables are kept"
                   : "it was interrupted; the interpreter's variables are "
                     "kept";
    case END_KILLED:
    case END_GONE:
        return "it ignored the interrupt and was killed; " FRESH;
    case END_KERNEL:
        if (f->shell_killed)
            return "it ignored the interrupt and was killed; " FRESH;
        break;
    case END_CLOSED:
    case END_BROKEN:
    case END_UNMADE:
        break;
    }
    return "its interpreter ended; " FRESH;
}

/* Names the error of a command or a program; interpreters name their own. */
static void our_error(const struct observations *f, struct outcome *v)
{
    bool compiled = language_get(f->language)->how == LANGUAGE_COMPILED;
    char name[32];

    if (f->end != END_SHELL)
        return;
    (void)snprintf(v->error_name, sizeof(v->error_name), "%s",
                   compiled ? "ProgramError" : "ShellError");
    if (compiled && WIFEXITED(f->wait_status) &&
        WEXITSTATUS(f->wait_status) == LANGUAGE_NOT_COMPILED) {
        (void)snprintf(v->error_name, sizeof(v->error_name), "CompileError");
        (void)snprintf(v->error_text, sizeof(v->error_text),
                       "the compiler reported errors, see stderr");
        return;
    }
    if (WIFSIGNALED(f->wait_status))
        (void)snprintf(v->error_text, sizeof(v->error_text), "ended by %s",
                       signal_name(WTERMSIG(f->wait_status), name));
    else
        (void)snprintf(v->error_text, sizeof(v->error_text), "exit status %d",
                       WEXITSTATUS(f->wait_status));
}

/* ---- the rules ---------------------------------------------------------- */

static bool is_unmade(const struct observations *f)
{
    return f->end == END_UNMADE && !f->cancelled;
}

static void say_unmade(const struct observations *f, struct outcome *v)
{
    if (f->overloaded) {
        v->outcome = OUTCOME_LIMIT;
        limit(v, f->quota ? f->quota : "capacity", f->quota_most,
              f->quota_used);
        sentence(v,
                 "there was no room for a sandbox and nothing was run: %s; "
                 "try again",
                 f->reason ? f->reason : "unknown");
        return;
    }
    v->outcome = f->commit_denied ? OUTCOME_DENIED : OUTCOME_ISOLATION_FAILED;
    sentence(v, "no sandbox could be made for it: %s",
             f->reason ? f->reason : "unknown");
}

static bool is_cancelled(const struct observations *f)
{
    return f->cancelled;
}

static void say_cancelled(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_CANCELLED;
    if (f->reason)
        sentence(v, "%s", f->reason);
    else
        sentence(v, "the execution was cancelled; %s", stopped_how(f));
}

static bool is_timeout(const struct observations *f)
{
    return f->timed_out;
}

static void say_timeout(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_TIMEOUT;
    limit(v, "wall_s", f->timeout_s, (f->wall_ms + 999) / 1000);
    sentence(v, "the execution timed out after %u s; %s", f->timeout_s,
             stopped_how(f));
}

/* A child may have been killed while the cell went on and ended well: then
 * nothing failed that the code did not deal with itself. */
static bool is_oom(const struct observations *f)
{
    bool ended_well =
        (f->end == END_DONE || f->end == END_SHELL) && !observed_failure(f);

    return f->oom_kills > 0 && !ended_well;
}

static void say_oom(const struct observations *f, struct outcome *v)
{
    char size[32];

    v->outcome = OUTCOME_OOM;
    v->interpreter_lost = v->kernel_lost = true;
    v->kill_all = f->end != END_GONE && f->end != END_KILLED;
    limit(v, "memory_bytes", f->limits->memory_bytes, f->peak_memory_bytes);
    sentence(v,
             "the session used more than its %s of memory and was ended; "
             "files are kept and " FRESH,
             size_format(f->limits->memory_bytes, size));
}

static bool is_lock_limit(const struct observations *f)
{
    return f->end == END_GONE && f->locks > 0;
}

static void say_lock_limit(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_LIMIT;
    limit(v, "locks", WARDEN_LOCKS_MAX, f->locks);
    sentence(v,
             "the session may hold %d file locks and was ended for more; "
             "files are kept and " FRESH,
             WARDEN_LOCKS_MAX);
}

static bool is_gone(const struct observations *f)
{
    return f->end == END_GONE;
}

static void say_gone(const struct observations *f, struct outcome *v)
{
    bool killed =
        WIFSIGNALED(f->wait_status) && WTERMSIG(f->wait_status) == SIGKILL;

    v->outcome = killed ? OUTCOME_KILLED : OUTCOME_CRASHED;
    sentence(v, "the sandbox %s; files are kept and " FRESH,
             killed ? "was killed" : "ended unexpectedly");
}

static bool is_kernel_signalled(const struct observations *f)
{
    return f->end == END_KERNEL && WIFSIGNALED(f->wait_status);
}

static void say_kernel_signalled(const struct observations *f,
                                 struct outcome *v)
{
    int sig = WTERMSIG(f->wait_status);
    const char *meaning = sigdescr_np(sig);
    char name[32];

    v->outcome = sig == SIGKILL ? OUTCOME_KILLED : OUTCOME_CRASHED;
    sentence(v,
             "the interpreter was ended by %s (%s); files are kept and " FRESH,
             signal_name(sig, name), meaning ? meaning : "unknown");
}

static bool is_kernel_exited(const struct observations *f)
{
    return f->end == END_KERNEL;
}

static void say_kernel_exited(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_CRASHED;
    if (WEXITSTATUS(f->wait_status) == KERNEL_EXIT_BROKEN)
        sentence(v, "the code took away the interpreter's channel to the "
                    "service, so it ended; files are kept and " FRESH);
    else
        sentence(v,
                 "the interpreter ended with exit status %d in the middle of "
                 "the code; files are kept and " FRESH,
                 WEXITSTATUS(f->wait_status));
}

static bool is_torn(const struct observations *f)
{
    return f->end == END_CLOSED || f->end == END_BROKEN ||
           f->end == END_KILLED;
}

static void say_torn(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_CRASHED;
    /* The rest of the session is none of a helper's business. */
    v->kill_all = f->end != END_KILLED && !in_helper(f);
    sentence(v, "the code %s, so it was ended; files are kept and " FRESH,
             f->end == END_CLOSED
                 ? "closed the interpreter's channel to the service"
                 : "garbled the interpreter's channel to the service");
}

static bool is_interrupted(const struct observations *f)
{
    return f->interrupted && observed_failure(f);
}

static void say_interrupted(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_CANCELLED;
    sentence(v, "the execution was interrupted; %s",
             lost_interpreter(f) ? FRESH : "variables are kept");
}

static bool is_process_limit(const struct observations *f)
{
    return observed_failure(f) && f->pids_denied > 0;
}

static void say_process_limit(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_LIMIT;
    limit(v, "processes", f->limits->processes, f->limits->processes);
    our_error(f, v);
    sentence(v,
             "the session may have %u processes and threads and was refused "
             "more",
             f->limits->processes);
}

/* ext4 refuses data while a little is left, for the maps of what it has; and
 * since Linux 6.16 it writes in chunks of up to 8 MiB and refuses one that no
 * longer fits while smaller ones would. What is left does not tell then; what
 * the code said adds it. */
static bool is_scratch_limit(const struct observations *f)
{
    uint64_t full =
        MAX(SCRATCH_FULL_BYTES, f->limits->scratch_bytes / SCRATCH_FULL_SHARE);

    if (f->said_full)
        full = MAX(full, SCRATCH_CHUNK_BYTES);
    return observed_failure(f) && f->scanned &&
           (f->scratch_free_bytes < full || f->scratch_free_inodes == 0);
}

static void say_scratch_limit(const struct observations *f, struct outcome *v)
{
    const struct warden_limits *l = f->limits;
    uint64_t left = MIN(f->scratch_free_bytes, l->scratch_bytes);
    char size[32];

    v->outcome = OUTCOME_LIMIT;
    our_error(f, v);
    if (f->scratch_free_inodes == 0) {
        limit(v, "scratch_inodes", l->scratch_inodes, l->scratch_inodes);
        sentence(v,
                 "/mnt/data holds as many files as the session may have "
                 "(%u); delete some",
                 l->scratch_inodes);
        return;
    }
    limit(v, "scratch_bytes", l->scratch_bytes, l->scratch_bytes - left);
    sentence(v,
             "/mnt/data is full; the session may keep %s there; delete "
             "some files",
             size_format(l->scratch_bytes, size));
}

static bool is_quota(const struct observations *f)
{
    return f->over_quota_new > 0;
}

static void say_quota(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_LIMIT;
    limit(v, "workspace_bytes", f->quota_bytes, f->quota_bytes);
    sentence(v,
             "the workspace's quota is used up; %s%s not kept (see "
             "files.refused); delete old versions or ask for more",
             f->over_quota_path,
             f->over_quota_new > 1 ? " and others were" : " was");
}

static bool is_over_quota(const struct observations *f)
{
    return f->commit_failure[0] != '\0';
}

static void say_over_quota(const struct observations *f, struct outcome *v)
{
    v->outcome = f->commit_denied ? OUTCOME_DENIED : OUTCOME_ERROR;
    (void)snprintf(v->error_name, sizeof(v->error_name), "FilesNotKept");
    (void)snprintf(v->error_text, sizeof(v->error_text), "%.150s",
                   f->commit_failure);
    sentence(v, "the files it changed could not be kept: %s",
             f->commit_failure);
}

static bool is_error(const struct observations *f)
{
    return observed_failure(f);
}

static void say_error(const struct observations *f, struct outcome *v)
{
    v->outcome = OUTCOME_ERROR;
    our_error(f, v);
}

static bool is_anything(const struct observations *f)
{
    (void)f;
    return true;
}

static void say_ok(const struct observations *f, struct outcome *v)
{
    (void)f;
    v->outcome = OUTCOME_OK;
}

static const struct rule rules[] = {
    {is_unmade, say_unmade},
    {is_cancelled, say_cancelled},
    {is_timeout, say_timeout},
    {is_oom, say_oom},
    {is_lock_limit, say_lock_limit},
    {is_gone, say_gone},
    {is_kernel_signalled, say_kernel_signalled},
    {is_kernel_exited, say_kernel_exited},
    {is_torn, say_torn},
    {is_interrupted, say_interrupted},
    {is_process_limit, say_process_limit},
    {is_scratch_limit, say_scratch_limit},
    {is_quota, say_quota},
    {is_over_quota, say_over_quota},
    {is_error, say_error},
    {is_anything, say_ok},
};

/* Processes that the kernel ended at the memory limit while the execution went
 * on: they do not change its outcome, but the answer names the limit. */
static void note_oom_kills(const struct observations *f, struct outcome *v)
{
    char size[32];

    if (f->oom_kills == 0 || v->outcome == OUTCOME_OOM || f->end == END_UNMADE)
        return;
    if (!v->limit_name)
        limit(v, "memory_bytes", f->limits->memory_bytes,
              f->peak_memory_bytes);
    (void)snprintf(v->warning, sizeof(v->warning),
                   "the session reached its %s of memory and %llu of its "
                   "processes %s ended for that%s",
                   size_format(f->limits->memory_bytes, size),
                   (unsigned long long)f->oom_kills,
                   f->oom_kills == 1 ? "was" : "were",
                   v->interpreter_lost ? "" : "; the interpreter was not");
}

static int shell_exit_code(const struct observations *f)
{
    if (f->end != END_SHELL)
        return -1;
    return WIFSIGNALED(f->wait_status) ? 128 + WTERMSIG(f->wait_status)
                                       : WEXITSTATUS(f->wait_status);
}

void execution_outcome_derive(const struct observations *f,
                              struct outcome *ret)
{
    struct outcome v = {.interpreter_lost = lost_interpreter(f),
                        .kernel_lost = lost_kernel(f),
                        .exit_code = shell_exit_code(f),
                        .wall_ms = f->wall_ms,
                        .cpu_ms = f->cpu_ms,
                        .peak_memory_bytes = f->peak_memory_bytes};

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (rules[i].holds(f)) {
            rules[i].say(f, &v);
            break;
        }
    note_oom_kills(f, &v);
    *ret = v;
}
