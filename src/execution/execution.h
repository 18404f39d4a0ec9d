/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions: code that runs in a session, from admission to its record. Doors
 * call these functions. Every call names the tenant; an id of another tenant
 * is answered exactly as an unknown one (ERR_NOT_FOUND). Any thread may call.
 *
 *   execute.c           the spine: admit, wait, wake, run, commit, record
 *   admission.c         quotas and policy before, accounts after
 *   pending_approval.c  executions that wait for a person
 *   execution.c         the object and its events
 *   executions.c        the module; which executions can still be found
 *   collect.c           runs the code and collects output until its end
 *   frames.c            messages of the kernel
 *   digest.c            output, displays and errors, joined for readers
 *   outcome.c           derives the outcome from what was observed
 *   results.c           usage and changed files after the end
 *   watch.c             connections and files that were read
 *   stored.c            outputs in the store, lists of all executions
 *   record_evidence.c   evidence
 *
 * The module is above session/: a session gives turns and a sandbox and knows
 * no execution.
 */
#ifndef GLOVEBOX_EXECUTION_EXECUTION_H
#define GLOVEBOX_EXECUTION_EXECUTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ids.h"
#include "feed/feed.h"
#include "language/language.h"
#include "session/session.h"

struct actor;
struct approval_info;
struct error;
struct execution;
struct executions;
struct json_t;
struct sessions;

/* ---- the module --------------------------------------------------------- */

struct executions_parts { /* all borrowed until executions_close */
    const struct conf *conf;
    const struct core *core;
    struct workspaces *workspaces;
    struct sessions *sessions;
};
/* Before the first call on sessions. */
void executions_open(const struct executions_parts *parts,
                     struct executions **ret);
/* After sessions_close; accepts NULL. */
void executions_close(struct executions *x);

/* ---- executions --------------------------------------------------------- */

enum exec_status {
    EXEC_QUEUED,
    EXEC_RUNNING,
    EXEC_COMPLETED,
    EXEC_PENDING /* held until it is approved */
};

#define EXEC_TIMEOUT_MIN_S 5u /* the least a client may ask for */

#define EXEC_ABOUT_MAX 65536u
#define EXEC_PROMPT_MAX 8192u

struct exec_spec {
    enum exec_language language;
    const char *code;
    size_t code_len;
    uint32_t timeout_s; /* 0: the pool's default */
    /* POLICY_EXECUTE: the client's code. POLICY_SEARCH, POLICY_REPORT: a
     * program of ours, in shell; a report may take as long as Python may. */
    enum policy_action action;
    const char *about; /* what a program of ours works on, for approvers: at
                          most EXEC_ABOUT_MAX bytes are kept; or NULL */
    bool clean; /* a program of ours: its shell neither sees what earlier
                   shells left (folder, variables, functions) nor adds */
    bool input; /* the client answers input(), by execution_answer */
    bool fresh; /* on an interpreter that has run nothing; files stay */
    /* execution_run: has the client disconnected? Called twice a second while
     * the execution waits or runs, on that thread; true cancels it. NULL: it
     * goes on without a client. */
    bool (*left)(void *ctx);
    void *left_ctx;
    const char *metadata;               /* JSON object text or NULL */
    const char *conversation, *message; /* from metadata, or NULL */
    const char *prompt; /* what a person asked the model that wrote the code;
                           at most EXEC_PROMPT_MAX bytes are kept; or NULL */
    const char *const *lock_tokens; /* locks it may write through */
    size_t lock_count;
    bool ask; /* hold it for a person even if policy would let it run */
    const char *retry_of;        /* exec_… the client tries again, or NULL */
    const char *held, *approval; /* the id it was given when it was held, and
                                    what has been approved since; or NULL */
};

enum exec_event_type {
    EVENT_STATUS, /* text: "queued", "running" */
    EVENT_STDOUT, /* bytes as written */
    EVENT_STDERR,
    EVENT_DISPLAY, /* pairs payload of kernel_msg.h */
    EVENT_RESULT,  /* pairs payload */
    EVENT_ERROR,   /* pairs payload */
    EVENT_CLEAR,   /* clear_output() */
    EVENT_INPUT,   /* input(): one byte, 1 for a password; then the prompt */
    EVENT_DONE,    /* last; the execution's own fields are final now */
};

struct exec_event {
    uint32_t number; /* 1, 2, … */
    enum exec_event_type type;
    const char *data; /* borrowed from the execution while it is referenced;
                         events are never moved or removed */
    size_t len;
};

/* Runs it to its end on the calling thread. ret: referenced. */
int execution_run(struct sessions *s, const struct actor *who, const char *id,
                  const struct exec_spec *spec, struct execution **ret,
                  struct error *err);
/* Queues it, to be run by a thread of `submit`; ret: referenced. */
typedef int execution_submit_fn(void *ctx, void (*job)(void *arg), void *arg);
int execution_submit(struct sessions *s, const struct actor *who,
                     const char *id, const struct exec_spec *spec,
                     execution_submit_fn *submit, void *submit_ctx,
                     struct execution **ret, struct error *err);
int execution_find(struct sessions *s, const struct actor *who, const char *id,
                   struct execution **ret, struct error *err);
/* At the start: pending ones whose session no longer exists are ended. */
int execution_pending_resume(struct sessions *s, struct error *err);
/* Runs a held one that has been approved, or ends it as denied; called by
 * approval/ (its approvals_fn; ctx is the manager), also after a restart. */
int execution_pending_decided(void *ctx, const struct approval_info *info);
/* Its approvals_mine_fn: no other node has the session. */
bool execution_pending_mine(void *ctx, const struct approval_info *info);
int execution_cancel(struct sessions *s, const struct actor *who,
                     const char *id, struct error *err);
#define EXEC_INPUTS_MAX 256u   /* answers of one execution */
#define EXEC_ANSWER_MAX 65536u /* bytes of one */
/* Answers input() of a running execution; text NULL: the end of input.
 * ERR_CONFLICT when it does not wait for an answer. */
int execution_answer(struct sessions *s, const struct actor *who,
                     const char *id, const char *text, size_t len,
                     struct error *err);
enum exec_look {
    LOOK_COMPLETE = 1,
    LOOK_INSPECT,
    LOOK_VARIABLES
};
#define EXEC_LOOK_CODE_MAX 65536u /* bytes of code */
#define EXEC_LOOK_MAX (2u << 20)  /* bytes of an answer */
/* What the interpreter knows, without running code: names that complete the
 * code at the cursor, the object there, the variables. ERR_CONFLICT while
 * something runs or waits. ret: an object, empty when the session has no
 * interpreter; owned by caller. */
int execution_look(struct sessions *s, const struct actor *who, const char *id,
                   enum exec_look what, const char *code, size_t len,
                   uint32_t cursor, struct json_t **ret, struct error *err);
struct execution *execution_ref(struct execution *e);
void execution_unref(struct execution *e);   /* accepts NULL */
void execution_unrefp(struct execution **e); /* for cleanup() */

/* The event after number `after`, if there is one already. */
bool execution_event(struct execution *e, uint32_t after,
                     struct exec_event *ret);
/* Calls fn(ctx) once, from another thread, as soon as an event after `after`
 * exists (at once, on this thread, if it does). Used to resume a stream.
 * Returns a handle for execution_unwatch, 0 when it was called at once. */
uint64_t execution_watch(struct execution *e, uint32_t after,
                         void (*fn)(void *ctx), void *ctx);
/* After this returns fn is not running and will not be called. */
void execution_unwatch(struct execution *e, uint64_t handle);

enum exec_file_fate { /* what became of a change; see workspace.h */
    EXEC_FILE_DONE,
    EXEC_FILE_CONFLICT, /* kept beside: path is the conflict name */
    EXEC_FILE_KEPT,     /* not deleted: others changed it meanwhile */
    EXEC_FILE_LOCKED,   /* not committed: another author holds the lock */
    EXEC_FILE_QUOTA,    /* not committed: no room in the workspace */
    EXEC_FILE_REFUSED,  /* not committed: no right to write there */
    EXEC_FILE_SKIPPED,  /* not a file we keep: why */
};

/* Strings borrowed while the execution is referenced; "" for none. */
struct exec_file_change {
    const char *path;
    const char *wanted; /* CONFLICT: the path the code wrote */
    const char *from;   /* renamed: from where */
    const char *change; /* created, modified, deleted, renamed */
    enum exec_file_fate fate;
    const char *why; /* fate other than DONE: a sentence */
    uint64_t size;
    const char *file, *version, *sha256, *mime; /* "" : ephemeral, deleted */
    const char *holder;                         /* LOCKED */
    int64_t lock_expires_at_ms;
};

#define EXEC_TAIL_BYTES 2048u /* kept of the end of a truncated stream */

/* A copy of the scalar fields; strings borrowed while e is referenced and
 * stable once completed. */
struct exec_info {
    char id[ID_MAX];
    char session[ID_MAX];
    enum exec_language language;
    enum exec_status status;
    enum exec_outcome outcome;
    bool interpreter_fresh; /* it ran on a new interpreter */
    int interpreter;        /* enum session_interpreter */
    const char *notice;     /* variables it may rely on are gone: a sentence
                               to show before its output; static; or NULL */
    bool interpreter_lost;  /* the next one will */
    bool truncated_stdout, truncated_stderr, truncated_displays;
    /* stdout, stderr: what the code wrote in all, and of a truncated stream
     * the end; the events have the beginning. */
    struct exec_output {
        uint64_t bytes;
        const char *tail; /* tail_len bytes; NULL: none */
        size_t tail_len;
    } output[2];
    int exit_code;          /* shell; -1 otherwise */
    const char *limit_name; /* NULL, or which: "memory_bytes", "wall_s",
                               "processes", "scratch_bytes", … */
    uint64_t limit_value, limit_peak;
    const char *failure; /* our sentence about timeout, oom, …; or NULL */
    const char *warning; /* our sentence about a limit that the code reached
                            and outlived; or NULL */
    uint64_t wall_ms, cpu_ms, peak_memory_bytes;
    int64_t created_at_ms, started_at_ms, finished_at_ms; /* 0: not yet */
    const char *metadata; /* JSON text or NULL */
    const char *code;     /* or NULL: not kept */
    char preview[128];    /* in lists: how the code begins, or "" */
    char author[ID_MAX];  /* the key that asked */
    char author_name[64]; /* its name, or "" */
    const struct exec_file_change *files;
    size_t file_count;
    bool files_truncated;  /* more changed than are listed; all are kept */
    size_t files_not_kept; /* the session has them, the workspace does not:
                              refused now, or before and still */
    const char *commit;    /* cmt_…, or "" when nothing was committed */
    char workspace[ID_MAX];
    enum session_egress egress; /* what it could reach, at its end */
    /* These three, and the next three, once it is completed. */
    const struct network_connection *connections;
    size_t connection_count;
    bool connections_truncated;
    const char *const *reads; /* paths below /mnt/data that Python opened for
                                 reading, as told by the session itself */
    size_t read_count;
    bool reads_truncated;
    const struct policy_decision *decision; /* NULL: no policy was applied */
    char approval[ID_MAX];                  /* apr_… or "" */
    uint32_t repeats; /* the same code had failed so often in a row */
};

void execution_info(struct execution *e, struct exec_info *ret);
/* The executions of a session that can still be found, newest first, at most
 * max; has_more: there are others. ret: owned by the caller; only the fields
 * that are no pointers may be used. */
int execution_list(struct sessions *s, const struct actor *who, const char *id,
                   size_t max, struct exec_info **ret, size_t *ret_count,
                   bool *ret_has_more, struct error *err);
/* What runs now, of all tenants, for live events. */
struct exec_progress {
    char id[ID_MAX];
    struct feed_item session; /* who may see it; borrowed for the call */
    uint64_t elapsed_ms;
    bool counted; /* the next three are known */
    uint64_t cpu_ms, peak_memory_bytes;
    uint64_t memory_bytes; /* now; 0: not counted */
};
void execution_progress(struct sessions *s,
                        void (*fn)(void *ctx, const struct exec_progress *p),
                        void *ctx);
/* All that the actor may see, of all sessions, newest first: those that are
 * not finished, and those that are stored. NULL or 0: any. */
struct exec_filter {
    const char *session, *workspace, *author, *language, *outcome;
    const char *text; /* in the code */
    int64_t from_ms, to_ms;
    const char *after; /* exec_… of the page before; unknown: ERR_INVALID */
    unsigned limit;
};
/* ret: as execution_list. */
int execution_list_all(struct sessions *s, const struct actor *who,
                       const struct exec_filter *filter,
                       struct exec_info **ret, size_t *ret_count,
                       bool *ret_more, struct error *err);
const char *exec_outcome_name(enum exec_outcome outcome);
const char *exec_status_name(enum exec_status status);

/* ---- digest.c: what an execution came to --------------------------------
 */

struct exec_image {
    const char *type; /* "image/png", "image/jpeg", "image/svg+xml", … */
    const char *data; /* raw bytes */
    size_t len;
};

#define EXEC_IMAGES_MAX 16u

struct exec_display {      /* something shown that is no picture */
    size_t at;             /* where in stdout_text */
    const char *text, *id; /* id: of display(display_id=…); NULL: none */
    size_t len, id_len;
};

#define EXEC_DISPLAYS_MAX 40u
#define EXEC_DISPLAY_BYTES 8192u /* shown of each */

/* Pointers are the execution's, which must be referenced meanwhile. */
struct exec_digest {
    struct buf stdout_text, stderr_text; /* joined; bytes as written */
    bool has_result;
    const char *result; /* text/plain of the last expression's value */
    size_t result_len;
    const char *result_text; /* the same for people and models: Markdown or a
                                short text where there is one */
    size_t result_text_len;
    bool result_opaque; /* result does not say what the value is */
    struct exec_display displays[EXEC_DISPLAYS_MAX]; /* in order */
    size_t display_count, displays_left_out;
    struct exec_image images[EXEC_IMAGES_MAX]; /* displayed, in order, then
                                                    the result's own */
    size_t image_count, images_left_out;
    bool has_error; /* the code raised; else see exec_info.failure */
    const char *error_name, *error_message;
    size_t error_name_len, error_message_len;
    struct buf traceback; /* lines joined, without colours */
    struct buf brief;     /* the frames of the client's own code; or empty */
};
void execution_digest_read(struct execution *e, struct exec_digest *ret);
void execution_digest_done(struct exec_digest *o);
/* Appends stdout with each display in its place, cut to EXEC_DISPLAY_BYTES.
 * ret_tail: where the displays that came after all of stdout begin. */
void execution_digest_output(const struct exec_digest *o, struct buf *out,
                             size_t *ret_tail);
/* Appends plain text without terminal escapes. */
void execution_digest_plain(struct buf *out, const char *text, size_t len);

/* Where there are several nodes: what runs here by now ends as `lost` if this
 * node is lost. Called every few seconds. */
void executions_note_running(struct executions *x);

#endif
