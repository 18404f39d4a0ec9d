/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/execution/; execution.h lists the files.
 *
 * executions.lock protects the tables of executions, and is never held
 * together with a lock of session/. execution.lock and executions.runner_lock
 * are leaves.
 */
#ifndef GLOVEBOX_EXECUTION_EXECUTION_INT_H
#define GLOVEBOX_EXECUTION_EXECUTION_INT_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/thread.h"
#include "box/box.h"
#include "conf/conf.h"
#include "core/core.h"
#include "execution/execution.h"
#include "govern/govern.h"
#include "policy/policy.h"
#include "session/turn.h"
#include "wire/kernel_msg.h"
#include "workspace/workspace.h"

/* ---- executions.c: the module, history, runners --------------------------
 */

/* What a running execution borrows: an eventfd and buffers. */
struct runner {
    struct runner *next;
    int wake; /* eventfd, non-blocking */
    char *io; /* SESSION_IO_SIZE */
    struct buf frames;
};

struct executions {
    const struct conf *conf;
    const struct core *core;
    struct govern govern;
    struct workspaces *workspaces;
    struct sessions *sessions;
    atomic_uint approved_runs; /* threads of approved ones */

    struct mutex lock;
    struct idmap runs;                 /* executions by id */
    struct idmap histories;            /* struct history by session id */
    struct stored *stored;             /* of stored.c */
    struct execution *running;         /* not finished, by running_next */
    struct execution *oldest, *latest; /* finished, by last use */
    uint64_t history_bytes;

    struct mutex runner_lock;
    struct runner *runners;
    unsigned runner_count;
};

/* The executions of one session that can still be found. */
struct history {
    struct idmap_node node;
    char id[ID_MAX];
    struct session *session; /* borrowed: it is forgotten before it is freed */
    struct execution *first, *last; /* in order of creation */
    unsigned finished;              /* of these */
};

/* NULL: out of descriptors. */
struct runner *execution_runner_get(struct executions *x);
/* signalled: its eventfd may hold a count. */
void execution_runner_put(struct executions *x, struct runner *r,
                          bool signalled);

/* On creation. */
void execution_history_add(struct executions *x, struct session *se,
                           struct execution *e);
/* It was not accepted after all. */
void execution_history_remove(struct executions *x, struct execution *e);
/* It is finished: counts it, forgets what is too much. */
void execution_history_record(struct executions *x, struct execution *e,
                              size_t bytes);

/* ---- execution.c: the object and its events ----------------------------- */

struct event_chunk;

struct watcher {
    struct watcher *next;
    uint64_t handle;
    uint32_t after;
    bool firing;
    void (*fn)(void *ctx);
    void *ctx;
};

#define EXEC_CHECKS_MAX 64u

struct execution {
    atomic_uint refs;
    struct idmap_node node;
    struct executions *all;
    const char *tenant;      /* valid until sessions_close */
    struct session *session; /* referenced until finished */
    struct turn turn;
    bool counted;      /* in the queue, until it is finished */
    atomic_bool noted; /* other nodes know that it runs here */
    char *code;
    size_t code_len;
    char author[ID_MAX];             /* the key that asked */
    char author_name[AUTH_NAME_MAX]; /* that key's name, or "" */
    char token[ID_MAX];              /* its token that was shown, or "" */
    bool author_admin;
    char request[ID_MAX], source[INET6_ADDRSTRLEN]; /* its; "" : none */
    char *conversation, *message, *prompt;
    char **lock_tokens; /* lock_count of them */
    size_t lock_count;
    enum policy_action action; /* POLICY_EXECUTE, _SEARCH or _REPORT */
    uint32_t timeout_s;
    uint64_t output_cap; /* 0: the pool's */
    char door[16], tool[64], trigger[16];
    uint32_t scopes;
    char retry_of[ID_MAX];
    bool clean; /* a shell without the session's shell state */
    bool input; /* the client answers input() */
    char notice[SESSION_NOTICE];
    bool fresh;               /* wants an interpreter that has run nothing */
    char base_commit[ID_MAX]; /* what was mounted; "" : nothing yet, or not
                                 known by its id */
    int64_t base_seq;         /* the same by its number; 0: nothing was */
    unsigned char code_hash[32];
    struct policy_decision decision;
    /* executions.lock: */
    struct history *home;            /* NULL: it cannot be found (any more) */
    bool recorded;                   /* finished and counted in the history */
    struct execution *prev, *next;   /* of the session */
    struct execution *older, *newer; /* by last use, when recorded */
    struct execution *history_next;  /* on its way out */
    struct execution *running_prev, *running_next; /* while it runs */
    uint64_t base_cpu_ns;  /* of its sandbox, when it started */
    int64_t started_at_ms; /* as in info, which has another lock */
    bool listed;           /* in that list */
    size_t bytes;

    struct mutex lock;
    struct cond fired;
    struct exec_info info; /* its pointers are ours */
    char *failure, *warning, *metadata, *output_tails[2];
    struct arena *strings; /* what changes point into; NULL: none */
    struct exec_file_change *changes;
    struct {
        bool waiting;    /* the kernel waits, and no answer was left yet */
        uint32_t number; /* of its request */
        uint32_t how;    /* enum kernel_input_how of the answer; 0: none */
        struct buf answer;
    } asked;                     /* of input.c */
    struct watched *watched;     /* of watch.c; NULL: nothing yet */
    struct policy_check *checks; /* of policy; check_count of them, owned */
    size_t check_count;
    bool checks_cut; /* there were more than EXEC_CHECKS_MAX */
    size_t change_bytes;
    struct exec_event *events;
    uint32_t event_count, event_cap;
    struct event_chunk *chunks;
    size_t event_bytes;
    struct watcher *watchers;
    uint64_t next_handle;
};

/* Copies the bytes, numbers the event, wakes watchers. */
void execution_events_add(struct execution *e, enum exec_event_type type,
                          const void *data, size_t len);
/* The same with e->lock held; the caller then calls _fire without it. */
void execution_events_append(struct execution *e, enum exec_event_type type,
                             const void *data, size_t len);
void execution_events_fire(struct execution *e);
void execution_events_done(struct execution *e);

struct execution *execution_new(struct executions *x, struct session *se,
                                const struct actor *who,
                                const struct exec_spec *spec,
                                uint32_t timeout_s);
/* A foreign id looks like an unknown one. Both are referenced. */
int execution_lookup(struct executions *x, const struct actor *who,
                     const char *id, struct execution **ret,
                     struct session **ret_session, struct error *err);
/* Returns once it is finished, by whichever thread. */
void execution_wait(struct execution *e);
/* Marks it running on a new or the same interpreter; notice: as in exec_info.
 */
void execution_started(struct execution *e, enum session_interpreter how,
                       const char *notice);

/* executions.c: into and out of the list of those that run. */
void execution_running_add(struct executions *x, struct execution *e);
void execution_running_remove(struct executions *x, struct execution *e);
/* Sets the preview, from code or NULL. */
void execution_preview(const char *code, struct exec_info *ret);
/* Copies of those that the actor may see and whose code contains text (NULL:
 * all), without the code; ret: owned by caller. */
void execution_unfinished(struct executions *x, const struct actor *who,
                          const char *text, struct exec_info **ret,
                          size_t *ret_count);

/* ---- stored.c ------------------------------------------------------------
 */

void execution_stored_open(struct executions *x);
void execution_stored_close(struct executions *x); /* writes what waits */
/* It has finished; se: its session. */
void execution_stored_add(struct executions *x, const struct session *se,
                          struct execution *e);
/* Has its session run something in its language before? Known as long as the
 * output is stored, also after a restart of the service. */
bool execution_stored_ran(struct executions *x, const struct execution *e);
int execution_stored_find(struct executions *x, const struct actor *who,
                          const char *id, struct execution **ret,
                          struct error *err);
/* Adds those of the session to a list of `count` newer ones. */
void execution_stored_of_session(struct executions *x, const struct actor *who,
                                 const char *session, size_t max,
                                 struct exec_info *list, size_t *count,
                                 bool *ret_more);

/* execution.c: tells the feed its status; se: its session. */
void execution_publish(struct execution *e, const struct session *se);

/* The actor that requested it, borrowing from it and its session. */
struct actor execution_author(const struct execution *e);

struct outcome;
/* Makes it final: fields, last event, history, counts. Called once, by the
 * thread that took it out of the queue. */
void execution_finish(struct execution *e, const struct outcome *v);
void execution_finish_cancelled(struct execution *e, const char *why);

/* ---- admission.c, record_evidence.c, pending_approval.c ------------------
 */

const char *execution_language_name(enum exec_language language);
/* The request to policy about an execution of code, a search or a report. */
struct govern_request execution_govern_request(
    const struct govern_scope *scope, const struct session *se,
    const struct execution *e);
/* Quotas and policy: e->decision says what is to become of it. */
int execution_admit(struct executions *x, struct session *se,
                    const struct actor *who, const struct exec_spec *spec,
                    struct execution *e, struct error *err);
/* It was admitted and then not run for want of room. */
void execution_admit_undo(struct executions *x, const struct session *se,
                          const struct execution *e);
void execution_admit_denied(const struct execution *e, struct outcome *ret);
/* Counts what it used and hands everything known of it to the evidence. */
void execution_account(struct executions *x, struct session *se,
                       struct execution *e, const char *code, size_t code_len);
/* record_evidence.c: everything known of it, to the evidence. */
void execution_record_evidence(struct executions *x, struct session *se,
                               struct execution *e, const char *code,
                               size_t code_len, uint64_t output_bytes);
/* Notes what the execution is about to see. Turn's owner. */
void execution_record_base(struct session *se, struct execution *e);
/* Held for a person: e is PENDING, and can be found by its id. */
int execution_pending_request(struct executions *x, struct session *se,
                              const struct actor *who,
                              const struct exec_spec *spec,
                              struct execution *e, struct error *err);
/* A held or denied execution, read from its row; referenced. */
int execution_pending_find(struct executions *x, const struct actor *who,
                           const char *id, struct execution **ret,
                           struct error *err);
/* Cancelling one that waits is withdrawing it. */
int execution_pending_cancel(struct executions *x, const struct actor *who,
                             const char *id, struct error *err);
/* A session_hooks.on_delete; ctx: struct executions. */
void execution_pending_withdraw(void *ctx, struct session *se,
                                const struct actor *who);

/* ---- watch.c: what code tried to reach, and what it read -----------------
 */

#define WATCH_CONNECTIONS_MAX 256u

/* Copies the connection into e, or counts it if e has the same one; what is
 * too much sets connections_truncated. Any thread may call; false: e was
 * finished already. ctx: struct execution; a network_connection_fn. */
bool execution_watch_add(void *ctx, const struct network_connection *c);
/* Copies into e what policy checked, for the evidence; too many set
 * checks_cut. Any thread may call. ctx: struct execution; a network_checks_fn.
 */
void execution_watch_checks(void *ctx, const struct policy_check *checks,
                            size_t count);
/* The payload of a READS frame; false: it is none. */
bool execution_watch_reads(struct execution *e, const char *payload,
                           size_t len);
/* Fetches what pid 1 recorded since the last call. io: SESSION_IO_SIZE. */
void execution_watch_fetch(struct box *box, struct execution *e, char *io);
/* It is being finished: puts into e->info what was added. e->lock is held. */
size_t execution_watch_publish(struct execution *e);
/* Afterwards: a line for the audit if anything was refused. */
void execution_watch_audit(struct executions *x, const char *workspace,
                           const struct actor *who,
                           const struct exec_info *info);
void execution_watch_done(struct execution *e);

/* ---- outcome.c ------------------------------------------------------------
 */

enum exec_end {
    END_DONE,   /* the kernel said DONE */
    END_KERNEL, /* the kernel process ended without */
    END_SHELL,  /* the shell ended */
    END_CLOSED, /* the kernel lives but closed its channel */
    END_BROKEN, /* the kernel sent nonsense */
    END_KILLED, /* we killed everything but pid 1 */
    END_GONE,   /* the sandbox is gone altogether */
    END_UNMADE, /* no sandbox could be made */
};

struct observations {
    enum exec_language language;
    enum exec_end end;
    uint32_t done_status; /* END_DONE */
    int wait_status;      /* END_KERNEL, END_SHELL; END_GONE: of pid 1 */
    bool timed_out;
    bool cancelled;
    bool interrupted;     /* by session_interrupt */
    bool shell_killed;    /* the shell or helper ignored the interrupt and we
                             killed it */
    bool kernel_died;     /* while a shell or a helper's cell ran */
    uint64_t oom_kills;   /* new ones */
    uint64_t pids_denied; /* new ones */
    uint32_t locks;       /* END_GONE because it held so many; or 0 */
    uint64_t peak_memory_bytes, cpu_ms;
    bool scanned; /* the next two are known */
    uint64_t scratch_free_bytes, scratch_free_inodes;
    bool said_full;            /* its own last words: no space left */
    size_t over_quota_new;     /* files the workspace had no room for, that no
                              earlier execution has told of */
    char over_quota_path[160]; /* the first of them; maybe cut */
    uint64_t quota_bytes;      /* the workspace's */
    char commit_failure[320];  /* "" or why files could not be kept */
    bool commit_denied;        /* because the author may only read, or not even
                                that (END_UNMADE) */
    uint32_t timeout_s;
    uint64_t wall_ms;
    const struct warden_limits *limits;
    const char *reason; /* END_UNMADE, or why it was cancelled; else NULL */
    bool overloaded;    /* END_UNMADE for want of room, now or by a quota */
    const char *quota;  /* its name; NULL: it was the machine */
    uint64_t quota_most, quota_used;
};

struct outcome {
    enum exec_outcome outcome;
    bool interpreter_lost;  /* of the language that ran, and perhaps others */
    bool kernel_lost;       /* the Python kernel is one of them */
    bool kill_all;          /* something half-dead may be left inside */
    int exit_code;          /* shell; -1 otherwise */
    const char *limit_name; /* static */
    uint64_t limit_value, limit_peak;
    char failure[640];   /* "" none */
    char warning[200];   /* "" none */
    char error_name[32]; /* "" unless an error event is ours to make */
    char error_text[160];
    uint64_t wall_ms, cpu_ms, peak_memory_bytes;
};

/* Derives the outcome. Pure; outcome.c says which observations the session
 * itself can influence. */
void execution_outcome_derive(const struct observations *f,
                              struct outcome *ret);

/* ---- execute.c, collect.c, output.c, after_run.c ---------------------------
 */

#define COLLECT_DISPLAYS_MAX 200u
#define COLLECT_DISPLAY_BYTES (32u << 20)
#define COLLECT_ERROR_BYTES (1u << 20) /* kept even above that */
#define COLLECT_CLEARS_MAX 1000u
#define COLLECT_OUTPUTS_MAX 20000u /* output events of one execution */

struct stream {
    enum exec_event_type type;
    int fd;
    uint64_t kept;
    bool truncated;
    char tail[4]; /* begins a character whose rest has not come yet */
    size_t tail_len;
    uint64_t written;
    char last[EXEC_TAIL_BYTES]; /* of what was discarded */
    size_t last_len;
};

enum collect_phase {
    COLLECT_RUNNING,
    COLLECT_INTERRUPTED, /* SIGINT sent, grace running */
    COLLECT_KILLED,      /* the shell's group was killed, its end is awaited */
};

struct collect {
    struct box *box;       /* referenced by the caller */
    struct execution *e;   /* borrowed */
    struct runner *runner; /* borrowed */
    struct observations *observed;
    const struct language *language;
    uint64_t output_cap;
    struct stream streams[2];
    enum collect_phase phase;
    uint64_t deadline_ms; /* of the phase */
    struct session_sched sched;
    uint64_t closed_ms; /* when the frames channel closed; 0 it has not */

    uint64_t nap_ms;  /* guest channels are not read before this */
    uint64_t look_ms; /* whether the client is there is asked then */
    struct buf out;   /* frames to the kernel not yet accepted */
    size_t out_pos;
    bool in_cell;
    bool ended;
    bool truncated_displays;
    uint32_t displays, results, errors, clears, outputs, frames, inputs;
    uint64_t display_bytes, discarded;
    uint64_t last_output_ms;
    bool shell_running;
    uint32_t shell_pid; /* inside; 0: not told */
};

/* Runs the cell in the box to its end; fills c->observed, publishes events. */
void execution_collect(struct collect *c);
/* Reads both pipes empty, at most `most` bytes each. */
void execution_output_drain(struct collect *c, size_t most);
/* Writes the rest of a character that was cut at the very end. */
void execution_output_flush(struct collect *c);

enum frames_state {
    FRAMES_OPEN,
    FRAMES_CLOSED,   /* the other end is closed everywhere */
    FRAMES_NONSENSE, /* malformed or untimely: the kernel is lost */
};
/* Reads once what the kernel says and publishes it; ends the collecting at
 * DONE. *ret_more: there may be more to read now. */
enum frames_state execution_frames_read(struct collect *c, bool *ret_more);
/* Sends as much as the kernel takes now and keeps the rest for _flush. */
enum frames_state execution_frames_send(struct collect *c, uint32_t type,
                                        const void *payload, size_t len);
enum frames_state execution_frames_flush(struct collect *c);

/* input.c: an INPUT frame, and the answer for the kernel; false: nonsense. */
bool execution_input_request(struct collect *c, const char *payload,
                             size_t len);
bool execution_input_deliver(struct collect *c);
void execution_input_done(struct execution *e);

/* After the end: reads usage, scans for changed files and commits them; adds
 * to c->observed and to e. On return the committed files are on disk. */
void execution_results(struct session *se, struct collect *c);

/* Lists what became of the changes as the execution's files; why: the commit
 * failed as a whole, or NULL. */
void execution_results_files(struct execution *e, const struct changes *ch,
                             const struct workspace_commit *done,
                             const struct error *why);

/* executions.c: of an execution that is not known here. ERR_ELSEWHERE, or the
 * error as it was. */
int execution_elsewhere(struct executions *x, const char *id,
                        struct error *err);
/* Tells the other nodes that it runs here, once. */
int execution_note(struct executions *x, struct execution *e,
                   struct error *err);

#endif
