/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/session/: one execution from its events to its outcome, and
 * the commit of what it changed. session_int.h says how it fits in.
 */
#ifndef GLOVEBOX_SESSION_RUN_INT_H
#define GLOVEBOX_SESSION_RUN_INT_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/thread.h"
#include "box/box.h"
#include "policy/policy.h"
#include "session/idmap.h"
#include "session/session.h"
#include "workspace/workspace.h"

struct pool;
struct runner;
struct session;
struct tenant;

/* ---- events.c, execution.c, history.c ----------------------------------- */

struct event_chunk;

struct watcher {
    struct watcher *next;
    uint64_t handle;
    uint32_t after;
    bool firing;
    void (*fn)(void *ctx);
    void *ctx;
};

struct execution {
    atomic_uint refs;
    struct idmap_node node;
    struct tenant *tenant;
    struct session *session;      /* referenced until finished */
    struct execution *queue_next; /* session.lock */
    bool queued;                  /* session.lock */
    atomic_uint requests;         /* enum exec_request bits */
    char *code;                   /* until finished */
    size_t code_len;
    char author[ID_MAX]; /* the key that asked */
    char token[ID_MAX];  /* its token that was shown, or "" */
    bool author_admin;
    char request[ID_MAX], source[INET6_ADDRSTRLEN]; /* its; "" : none */
    char *conversation, *message;
    char **lock_tokens; /* lock_count of them */
    size_t lock_count;
    uint32_t timeout_s;
    uint64_t output_cap; /* 0: the pool's */
    char door[16], tool[64];
    uint32_t scopes;
    char retry_of[ID_MAX];
    bool fresh;              /* wants an interpreter that has run nothing */
    bool (*left)(void *ctx); /* of exec_spec; NULL once it said so */
    void *left_ctx;
    char base_commit[ID_MAX]; /* what was mounted; "" : nothing yet, or not
                                 known by its id */
    int64_t base_seq;         /* the same by its number; 0: nothing was */
    unsigned char code_hash[32];
    struct policy_decision decision;
    /* sessions.lock: */
    bool counted;  /* as one of its tenant's; until it is finished */
    bool mapped;   /* in sessions.runs, which then holds a reference */
    bool recorded; /* finished and counted in the history */
    struct execution *prev, *next;   /* of the session */
    struct execution *older, *newer; /* by last use, when recorded */
    struct execution *history_next;  /* on its way out */
    struct session *home;            /* borrowed while mapped */
    size_t bytes;

    struct mutex lock;
    struct cond fired;
    struct exec_info info; /* its pointers are ours */
    char *failure, *warning, *metadata;
    struct arena *strings; /* what changes point into; NULL: none */
    struct exec_file_change *changes;
    struct watched *watched; /* of watch.c; NULL: nothing yet */
    size_t change_bytes;
    struct exec_event *events;
    uint32_t event_count, event_cap;
    struct event_chunk *chunks;
    size_t event_bytes;
    struct watcher *watchers;
    uint64_t next_handle;
};

/* Copies the bytes, numbers the event, wakes watchers. */
void session_events_add(struct execution *e, enum exec_event_type type,
                        const void *data, size_t len);
/* The same with e->lock held; the caller then calls _fire without it. */
void session_events_append(struct execution *e, enum exec_event_type type,
                           const void *data, size_t len);
void session_events_fire(struct execution *e);
void session_events_done(struct execution *e);

struct execution *session_execution_new(struct session *se,
                                        const struct actor *who,
                                        const struct exec_spec *spec,
                                        uint32_t timeout_s);
/* A foreign id looks like an unknown one. Both are referenced. */
int session_execution_find(struct sessions *m, const struct actor *who,
                           const char *id, struct execution **ret,
                           struct session **ret_session, struct error *err);
/* Returns once it is finished, by whichever thread. */
void session_execution_wait(struct execution *e);
/* Marks it running on a new or the same interpreter. */
void session_execution_started(struct execution *e, bool fresh);

/* Whoever asked for it, borrowing from it and its session. */
struct actor session_execution_author(const struct session *se,
                                      const struct execution *e);

struct outcome;
/* Makes it final: fields, last event, history, counts. Called once, by
 * whoever took it out of the queue. */
void session_execution_finish(struct execution *e, const struct outcome *v);
void session_execution_cancelled(struct execution *e, const char *why);

/* sessions.lock is held for add, touch and forget. */
void session_history_add(struct sessions *m, struct session *se,
                         struct execution *e); /* on creation */
/* It is finished: counts it, forgets what is too much. */
void session_history_record(struct sessions *m, struct session *se,
                            struct execution *e, size_t bytes);
void session_history_touch(struct sessions *m, struct execution *e);
/* What is dropped is pushed on *drop, for session_history_unref outside the
 * lock. */
void session_history_forget(struct sessions *m, struct session *se,
                            struct execution **drop);
void session_history_unref(struct execution *drop);

/* ---- admission.c, pending_approval.c
 * ----------------------------------------------------
 */

const char *session_language_name(enum exec_language language);
/* Quotas and policy: e->decision says what is to become of it. */
int session_admit_execution(struct sessions *m, struct session *se,
                            const struct actor *who,
                            const struct exec_spec *spec, struct execution *e,
                            struct error *err);
/* It was admitted and then not run for want of room. */
void session_admit_undo(struct sessions *m, const struct session *se,
                        const struct execution *e);
void session_admit_denied(const struct execution *e, struct outcome *ret);
/* Counts what it used and hands everything known of it to the evidence. */
void session_account_execution(struct sessions *m, struct session *se,
                               struct execution *e, const char *code,
                               size_t code_len);
/* record_evidence.c: everything known of it, to the evidence. */
void session_record_evidence(struct sessions *m, struct session *se,
                             struct execution *e, const char *code,
                             size_t code_len, uint64_t output_bytes);
/* Notes what the execution is about to see. Turn's owner. */
void session_record_base(struct session *se, struct execution *e);
/* Held for a person: e is PENDING, and can be found by its id. */
int session_pending_request(struct sessions *m, struct session *se,
                            const struct actor *who,
                            const struct exec_spec *spec, struct execution *e,
                            struct error *err);
/* One that is held, or was and is denied, made from its row; referenced. */
int session_pending_find(struct sessions *m, const struct actor *who,
                         const char *id, struct execution **ret,
                         struct error *err);
/* Cancelling one that waits is withdrawing it. */
int session_pending_cancel(struct sessions *m, const struct actor *who,
                           const char *id, struct error *err);
/* Its session is deleted: what waits in it is withdrawn. */
void session_pending_withdraw(struct session *se, const struct actor *who);

/* ---- network*.c: what code may reach --------------------------------------
 */

struct session_net;
struct session_networks;

enum session_egress session_network_mode(const struct session *se);
/* The manager's part: its threads, and who listens to the proxy. Pools' own
 * settings are checked here. */
int session_networks_start(struct sessions *m, struct error *err);
void session_networks_stop(struct sessions *m);
void session_networks_free(struct sessions *m);
/* What a session that is being made is to have, if that may be; owned by
 * caller (session_net_free). */
int session_net_plan(struct sessions *m, const struct actor *who,
                     const struct session_network *asked, struct pool *pool,
                     const char *runtime, struct session_net **ret,
                     struct error *err);
/* Once it is there: one whose code reaches everything is told of loudly. */
void session_net_announce(const struct session *se, const struct actor *who);
/* Of a row. */
struct session_net *session_net_load(const char *text);
char *session_net_text(struct session *se); /* owned by caller */
/* Of an allowlist, commas between; NULL: it is none. Owned by caller. */
char *session_net_hosts(const struct session *se);
bool session_net_dirty(struct session *se);     /* and no longer */
void session_net_free(struct session_net *net); /* accepts NULL */
/* Its sandbox from now on, before any code runs in it. Fails with no network
 * in force; the session can be used all the same. */
int session_net_attach(struct session *se, struct box *box, struct error *err);
/* What was told while nothing ran belongs to the one that begins. */
void session_net_begin(struct session *se, struct execution *e);

/* ---- watch.c: what code tried to reach, and what it read -----------------
 */

#define WATCH_CONNECTIONS_MAX 256u

/* Copies it into e, and counts it there if the same came before; what is too
 * much sets connections_truncated. Any thread may call; false: e was finished
 * already, and so it belongs to no execution. */
bool session_watch_add(struct execution *e, const struct exec_connection *c);
/* The payload of a READS frame; false: it is none. */
bool session_watch_reads(struct execution *e, const char *payload, size_t len);
/* What pid 1 has noted since it was last asked. io: SESSION_IO_SIZE. */
void session_watch_fetch(struct box *box, struct execution *e, char *io);
/* It is being finished: puts into e->info what was added. e->lock is held. */
size_t session_watch_publish(struct execution *e);
/* Afterwards: a line for the audit if anything was refused. */
void session_watch_audit(struct sessions *m, const struct session *se,
                         const struct actor *who,
                         const struct exec_info *info);
void session_watch_done(struct execution *e);

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
    int exit_code;        /* END_DONE with KERNEL_DONE_EXIT */
    int wait_status;      /* END_KERNEL, END_SHELL; END_GONE: of pid 1 */
    bool timed_out;
    bool cancelled;
    bool interrupted;   /* by session_interrupt */
    bool shell_killed;  /* the shell ignored the interrupt and we killed it */
    bool kernel_died;   /* while a shell ran */
    uint64_t oom_kills; /* new ones */
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
    bool interpreter_lost;
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
void session_outcome_derive(const struct observations *f, struct outcome *ret);

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
};

enum collect_phase {
    PHASE_RUNNING,
    PHASE_INTERRUPTED, /* SIGINT sent, grace running */
    PHASE_KILLED,      /* the shell's group was killed, its end is awaited */
};

struct collect {
    struct box *box;       /* referenced by the caller */
    struct execution *e;   /* borrowed */
    struct runner *runner; /* borrowed */
    struct observations *observed;
    uint64_t output_cap;
    struct stream streams[2];
    enum collect_phase phase;
    uint64_t deadline_ms;   /* of the phase */
    uint64_t closed_ms;     /* when the frames channel closed; 0 it has not */
    uint64_t background_ms; /* next check of its class; 0: background */
    uint64_t nap_ms;        /* guest channels are not read before this */
    uint64_t look_ms;       /* whether the client is there is asked then */
    struct buf out;         /* frames to the kernel not yet accepted */
    size_t out_pos;
    bool in_cell;
    bool ended;
    bool truncated_displays;
    uint32_t displays, results, errors, clears, outputs, frames;
    uint64_t display_bytes, discarded;
    uint64_t last_output_ms;
    bool shell_running;
    uint32_t shell_pid; /* inside; 0: not told */
};

/* sched_class.c. The tenant starts something. True: no other tenant has for a
 * while. */
bool session_sched_alone(struct tenant *t);
/* Charges the tenant for a new sandbox. True: create it in the background
 * class. */
bool session_sched_charge_create(struct tenant *t);
/* Called before and after the creation. */
void session_sched_create_begin(struct tenant *t, bool background);
void session_sched_create_end(struct tenant *t, bool background);
/* Before an execution begins, after each of its events, and after its end. */
void session_sched_begin(struct session *se, struct collect *c);
void session_sched_step(struct collect *c);
void session_sched_end(struct session *se, struct collect *c);
/* Runs the cell in the box to its end; fills c->observed, publishes events. */
void session_collect(struct collect *c);
/* Reads both pipes empty, at most `most` bytes each. */
void session_output_drain(struct collect *c, size_t most);
/* What is left of a character cut in the middle, at the very end. */
void session_output_flush(struct collect *c);

enum frames_state {
    FRAMES_OPEN,
    FRAMES_CLOSED,   /* the other end is closed everywhere */
    FRAMES_NONSENSE, /* malformed or untimely: the kernel is lost */
};
/* Reads once what the kernel says and publishes it; ends the collecting at
 * DONE. *ret_more: there may be more to read now. */
enum frames_state session_frames_read(struct collect *c, bool *ret_more);
/* Sends as much as the kernel takes now and keeps the rest for _flush. */
enum frames_state session_frames_send(struct collect *c, uint32_t type,
                                      const void *payload, size_t len);
enum frames_state session_frames_flush(struct collect *c);

/* After the end: reads usage, scans for changed files and commits them; adds
 * to c->observed and to e. On return the committed files are on disk. */
void session_after_run(struct session *se, struct collect *c);

/* ---- commit_changes.c ----------------------------------------------------
 */

/* Stores and commits the changes and lists the result of each in e; e NULL:
 * changes between executions. */
void session_commit_changes(struct session *se, struct box *box,
                            struct execution *e, struct changes *ch,
                            struct observations *observed);
/* The same for what happened since the last execution, before the box goes. */
void session_commit_rest(struct session *se, struct box *box);
/* Makes the workspace of a single run with its first file. */
int session_commit_make_workspace(struct session *se, const struct actor *who,
                                  struct error *err);
/* Of the workspace's blobs. */
int session_commit_domain(struct session *se, char ret[BLOB_OWNER],
                          struct error *err);
/* The session has seen its own commit, and nothing came between. */
void session_commit_advance(struct session *se,
                            const struct workspace_commit *done);
/* over_quota_files.c: files that exceed the workspace's quota. update records
 * the new ones in observed (NULL: between executions). */
void session_over_quota_update(struct session *se,
                               const struct workspace_commit *done,
                               struct observations *observed);
void session_over_quota_done(struct session *se);
/* file_results.c: what became of the changes, as the execution's files; why:
 * the commit failed as a whole, or NULL. */
void session_file_results(struct execution *e, const struct changes *ch,
                          const struct workspace_commit *done,
                          const struct error *why);
/* An ephemeral session's, by comparing names in memory. */
void session_file_results_ephemeral(struct session *se, struct execution *e,
                                    const struct changes *ch);
void session_seen_done(struct session *se);

#endif
