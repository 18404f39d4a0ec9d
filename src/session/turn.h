/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of session/ for execution/: what an execution needs of the
 * session it runs in. session.h is for doors.
 *
 * Executions of a session take turns. A struct turn is the place of one in the
 * queue; the session knows nothing else of it. A thread that has the turn may
 * use the sandbox's kernel and commit its changes.
 */
#ifndef GLOVEBOX_SESSION_TURN_H
#define GLOVEBOX_SESSION_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/error.h"
#include "box/box.h"
#include "govern/govern.h"
#include "session/session.h"
#include "workspace/workspace.h"

struct error;
struct session;
struct sessions;

/* The buffer of one read, and of one event. */
#define SESSION_IO_SIZE BOX_IO_SIZE
#define SESSION_METADATA_MAX 16384u

/* ---- sessions ----------------------------------------------------------- */

/* Counts the caller in; ERR_UNAVAILABLE while stopping. */
int session_enter(struct sessions *m, struct error *err);
void session_leave(struct sessions *m);
/* ERR_ISOLATION while the gate is closed. */
int session_gate(struct sessions *m, struct error *err);

struct session *session_ref(struct session *se);
void session_unref(struct session *se); /* accepts NULL */
/* Referenced; NULL with err set when there is none, or none for this actor. */
struct session *session_find(struct sessions *m, const struct actor *who,
                             const char *id, struct error *err);
/* A call on a session: entered and referenced until released; NULL with err.
 */
struct session *session_acquire(struct sessions *m, const struct actor *who,
                                const char *id, struct error *err);
void session_release(struct session *se);
/* The one place that decides whether an actor sees a session: it is within
 * what the actor is bound to, and is shared, or the actor's own, or the actor
 * is an admin of the tenant. The caller has checked the tenant. */
bool session_visible(const struct session *se, const struct actor *who);
/* The actor a session is for, borrowing from it. */
struct actor session_actor(const struct session *se);
/* What a request about this session tells govern/. */
struct govern_scope session_govern_scope(const struct session *se,
                                         const struct actor *who);

/* Constant while the session is referenced; borrowed from it. */
struct session_facts {
    struct sessions *sessions;
    const char *id, *workspace;
    const char *tenant; /* valid until sessions_close */
    struct pool *pool;
    struct runtime *runtime;
    const struct warden_limits *limits;
    struct network *network;
    bool ephemeral; /* nothing is committed */
};
struct session_facts session_facts(const struct session *se);
/* False for a single run that has left no file. */
bool session_has_workspace(const struct session *se);
bool session_is_stopping(const struct session *se);
/* Its sandbox was stopped because this node loses its lease: what it wrote is
 * not kept. */
bool session_is_lost(const struct session *se);

struct feed_item;
/* Who may see what is published about the session; strings as of its facts. */
void session_feed_item(const struct session *se, struct feed_item *ret);
struct warden_usage;
/* CPU time and peak memory of the sandbox so far; ret_memory: bytes in use
 * now, 0 if they are not counted. False: it has no sandbox, or nothing is
 * counted on this host. Any thread. */
bool session_usage_so_far(struct session *se, struct warden_usage *ret,
                          uint64_t *ret_memory);

/* Called by session/; ctx is the module above. */
struct session_hooks {
    void *ctx;
    /* The session leaves the tables; its executions are forgotten. */
    void (*on_forget)(void *ctx, struct session *se);
    /* It was deleted: executions that wait for approval are withdrawn. */
    void (*on_delete)(void *ctx, struct session *se, const struct actor *who);
};
/* Once, before the first session is used. */
void sessions_set_hooks(struct sessions *m, const struct session_hooks *hooks);
void *sessions_hooks_ctx(const struct sessions *m);

/* A single run's session becomes one with a row, so that it still exists when
 * an approval is decided. An ephemeral one cannot. */
int session_keep_for_approval(struct session *se, const struct actor *who,
                              struct error *err);
/* No row tells of it (any more). False when that cannot be told. */
bool session_persist_gone(struct sessions *m, const char *id,
                          struct error *err);

/* ---- queue.c: turns, first come first served ---------------------------- */

enum exec_request {
    REQUEST_INTERRUPT = 1, /* SIGINT, nothing more */
    REQUEST_CANCEL = 2,    /* interrupt, then kill */
    REQUEST_KILL = 4,      /* a reset: kill at once, pid 1 stays */
    REQUEST_END = 8,       /* the session is being deleted */
    REQUEST_ANSWER = 16,   /* there is an answer to its input() */
};

/* How often a waiting execution asks whether its client is still there. */
#define LEFT_EVERY_MS 500u

struct turn {
    /* Called without a lock, by the thread that took it out of the queue. */
    void (*on_cancel)(struct turn *t, const char *why);
    bool (*left)(void *ctx); /* of exec_spec; NULL: no client is watched */
    void *left_ctx;
    atomic_uint requests; /* enum exec_request bits */
    int wake;             /* eventfd that a request wakes; -1: none */
    /* session.lock: */
    bool signalled; /* wake may hold a count */
    bool queued;
    struct turn *next;
};

/* Adds it to the queue if every limit leaves room, and counts it until
 * session_turn_done. It must stay valid until session_turn_wait has returned
 * true, session_turn_remove has, or on_cancel was called. */
int session_turn_add(struct session *se, struct turn *t, struct error *err);
/* Waits for its turn and takes it; false: it was taken out of the queue by
 * another thread, or cancelled here because its client left. */
bool session_turn_wait(struct session *se, struct turn *t);
void session_turn_release(struct session *se);
/* Takes the turn at once, uncounted, for a moment; then session_turn_release.
 * ERR_CONFLICT when something runs or waits. Without a sandbox *ret is NULL
 * and nothing was taken. ret: referenced. */
int session_turn_try(struct session *se, struct turn *t, struct box **ret,
                     struct error *err);
/* Takes it out of the queue; false: it does not wait. */
bool session_turn_remove(struct session *se, struct turn *t);
/* Takes it out of the queue (true), or asks it to end if it runs. */
bool session_turn_cancel(struct session *se, struct turn *t);
/* Has the thread that runs it look for an answer to input(). */
void session_turn_wake(struct session *se, struct turn *t);
/* It is finished. queued: session_turn_add has counted it; else
 * session_turn_count has. */
void session_turn_done(struct session *se, bool queued);
/* Counts an execution that ends without having been queued. */
void session_turn_count(struct session *se);

/* ---- wake.c: the sandbox, for the thread that has the turn ---------------
 */

/* A box with a living kernel, referenced; wakes the session if it must. fresh:
 * a kernel that has run nothing. */
int session_wake_kernel(struct session *se, bool fresh, struct box **ret,
                        struct error *err);
#define SESSION_NOTICE 400
/* An execution begins. unused: the interpreter of the sandbox has run nothing;
 * kernel: this is a cell of it; asked: the client wanted a fresh one. ret: a
 * sentence for the client, or "": why the variables of earlier cells are gone,
 * or what will be lost when the session goes to sleep. */
enum session_interpreter session_wake_notice(struct session *se, bool unused,
                                             bool kernel, bool asked,
                                             char ret[SESSION_NOTICE]);
/* The same for a cell of a helper. earlier: one has run in this session, be it
 * before the service was restarted. */
const char *session_wake_helper_notice(struct session *se, uint32_t helper,
                                       bool fresh, bool earlier, bool asked);
/* The box is bad or no longer wanted: dormant, files kept. idle_only: only
 * if nothing uses it. True if it was dropped. */
bool session_wake_drop(struct session *se, struct box *box, bool idle_only);
/* Has the sandbox exceeded the lifetime of its pool? */
bool session_wake_is_old(struct session *se);

/* ---- undo.c: states to return to ----------------------------------------
 */

/* With the turn: before an execution begins, and after its files were
 * committed. kernel: it was a cell of the kernel; helper: of a helper. */
void session_points_begin(struct session *se, struct box *box);
void session_points_end(struct session *se, const char *execution, bool kernel,
                        bool helper);
/* After its answer was sent: a point of the present state is made soon. */
void session_points_due(struct session *se);

/* ---- sched_class.c: CPU scheduling class of a run ------------------------
 */

struct session_sched {
    struct session *se; /* borrowed */
    struct box *box;    /* borrowed */
    uint64_t check_ms;  /* next check of its class; 0: background */
};
/* Before an execution begins, after each of its events, and after its end.
 * died: with its interpreter. */
void session_sched_begin(struct session_sched *r, struct session *se,
                         struct box *box);
void session_sched_step(struct session_sched *r);
void session_sched_end(struct session_sched *r, bool died, uint64_t cpu_ms);
/* Charges the tenant's quota for CPU time. */
void session_charge_cpu(struct session *se, uint64_t cpu_ms);

/* ---- commit_changes.c, for the thread that has the turn ------------------
 */

/* The execution that made the changes; borrowed. */
struct session_commit_origin {
    struct actor author;
    const char *execution, *language;
    const char *code; /* NULL: not stored */
    size_t code_len;
    const char *conversation, *message;
    const char *const *lock_tokens;
    size_t lock_count;
};
struct session_commit_report {
    struct workspace_commit done; /* workspace_commit_done */
    int rc;
    struct error err;          /* rc < 0 */
    size_t over_quota_new;     /* files over quota that no earlier execution
                                  has reported */
    char over_quota_path[160]; /* the first of them; maybe cut */
    uint64_t quota_bytes;      /* the workspace's, if there are any */
};
/* Scans for what changed since the last scan; false: the sandbox did not
 * answer, and the next scan looks at everything. begin and end bracket work
 * that overlaps with the scan. io: SESSION_IO_SIZE. */
bool session_scan_begin(struct session *se, struct box *box);
bool session_scan_end(struct session *se, struct box *box, bool begun,
                      char *io, struct changes *ret,
                      struct broker_reply *ret_reply);
/* Stores and commits the changes; false: there were none. Not for ephemeral
 * sessions. */
bool session_commit_changes(struct session *se, struct box *box,
                            const struct session_commit_origin *origin,
                            struct changes *ch,
                            struct session_commit_report *ret);
/* The commit that the sandbox mounts: its number, 0 for none, and its id if
 * that is known, else "". */
int64_t session_base(struct session *se, char ret_id[ID_MAX]);
/* Finds out and keeps the id of that commit. */
void session_base_learn(struct session *se, int64_t seq, const char *id);
/* Names of files in an ephemeral session. True: it was known before. */
bool session_seen_add(struct session *se, const char *path);
bool session_seen_remove(struct session *se, const char *path);

/* ---- metrics.c ---------------------------------------------------------- */

void session_metrics_refused(struct sessions *m, const struct error *err);
void session_metrics_outcome(struct sessions *m, enum exec_outcome outcome,
                             bool started, uint64_t wall_us);

#endif
