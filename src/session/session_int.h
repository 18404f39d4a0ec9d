/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/session/. How the pieces work together:
 *
 *   struct sessions   the manager: tables, pools, the reaper
 *   struct pools      pools, ready sandboxes and runtimes (pool/pool.h)
 *   struct session    what clients name; has a box or, dormant, only a row
 *   struct box        one sandbox (box/box.h)
 *   struct execution  one run: events, watchers, observations, place in
 *                     the queue
 *   struct runner     what a running execution borrows: eventfd and buffers
 *
 * Locks, in the order they may nest (a later one inside an earlier one):
 *
 *   0 pools.change_lock     (pool/pool_int.h)
 *     session_net.lock      a session's network; held over the proxy's calls
 *     sessions.sharing_lock one change of a session's sharing; held over the
 *                           store
 *   1 sessions.lock   tables, history, counts
 *   2 session.lock    state, box, queue, who runs
 *   3 pools.lock, runtime.lock   (never both)
 *   4 the locks of a box (box/box_int.h)
 *   5 execution.lock, sessions.runner_lock, session_metrics (leaves)
 *
 * 1 and 2 are never held over a system call that waits. A box's channels
 * except ctl belong to whoever has the session's turn.
 */
#ifndef GLOVEBOX_SESSION_SESSION_INT_H
#define GLOVEBOX_SESSION_SESSION_INT_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "box/box.h"
#include "conf/conf.h"
#include "session/idmap.h"
#include "session/run_int.h"
#include "session/session.h"
#include "warden/call.h"
#include "wire/kernel_msg.h"
#include "workspace/workspace.h"

/* The buffer of a runner: one read, one event. */
#define SESSION_IO_SIZE BOX_IO_SIZE
#define SESSION_NAME_MAX 128u
#define SESSION_METADATA_MAX 16384u

/* path_check.c: the path rules (F5) of session.h; ERR_INVALID says which was
 * broken. */
int session_path_check(const char *path, size_t len, struct error *err);

/* ---- the manager -------------------------------------------------------- */

struct tenant {
    struct idmap_node node;
    struct sessions *m;
    char *name;
    /* sessions.lock: */
    struct session *newest; /* of those that no row tells of */
    atomic_uint active;     /* executions queued or running; lock to change */
    _Atomic uint64_t spent_ms;   /* of the processor; see sched_class.c */
    _Atomic uint64_t cpu_ms;     /* of all its executions; see admission.c */
    struct box_count background; /* its boxes that run something; parent:
                                    sessions.background */
};

struct runner {
    struct runner *next;
    int wake;       /* eventfd, non-blocking */
    bool signalled; /* session.lock: it may hold a count */
    char *io;       /* SESSION_IO_SIZE */
    struct buf frames;
};

struct counters {
    struct mutex lock;
    uint64_t outcomes[OUTCOME_ISOLATION_FAILED + 1];
    uint64_t refusals_limit, refusals_busy;
    uint64_t created, deleted, woken, expired;
    uint64_t ready_taken, ready_missed;
    struct session_histogram start, execution;
};

struct sessions {
    const struct conf *conf;
    struct warden_link *link;
    struct workspaces *workspaces;
    struct sessions_parts parts;
    atomic_bool stopping;
    atomic_bool closed; /* the gate is; why is under lock */
    char closed_why[360];
    atomic_uint users; /* calls inside the module; close waits for them */

    struct mutex lock;
    struct cond idle;           /* active fell to 0 */
    struct idmap table;         /* sessions */
    struct idmap identified;    /* of these, those with an identifier */
    struct claim *claims;       /* identifiers of sessions being made */
    struct cond claimed;        /* one of them is settled */
    struct mutex sharing_lock;  /* see sharing.c; held over the store */
    struct idmap runs;          /* executions */
    struct idmap tenants;       /* as many as the operator has made */
    atomic_uint live;           /* sessions with a sandbox, or being made */
    _Atomic uint64_t granted;   /* memory that these may use */
    atomic_bool granted_warned; /* that it is more than there is */
    atomic_uint creating;       /* of these, not in the table yet */
    int64_t last_created_ms;
    atomic_uint active; /* executions queued or running; lock to change */
    _Atomic(struct tenant *) last_tenant; /* see sched_class.c, as the next */
    _Atomic uint64_t shared_until_ms;
    atomic_uint approved_runs;         /* threads of approved ones */
    struct execution *oldest, *latest; /* finished, by last use */
    uint64_t history_bytes;
    uint64_t memory_checked_ms;
    bool memory_short;

    struct pools *pools;
    struct worker reaper;

    struct mutex runner_lock;
    struct runner *runners;
    unsigned runner_count;

    struct fair_queue *making;       /* sandboxes, by tenant */
    struct fair_queue *making_alone; /* the same, of one that is alone */
    struct fair_queue *crowd;        /* the same of those who make too many */
    struct box_count background;     /* of all tenants; see sched_class.c */
    struct cpu_reserve *cpu_reserve;

    struct counters counters;
    struct session_networks *networks;
};

/* ERR_ISOLATION while the gate is closed. */
int session_gate(struct sessions *m, struct error *err);

/* cpu_reserve.c: a short execution of the tenant begins. */
struct box;
void session_cpu_reserve_request(struct tenant *t, const struct box *b);
int session_cpu_reserve_start(struct sessions *m, struct error *err);
void session_cpu_reserve_stop(struct sessions *m);

/* Counts the caller in; ERR_UNAVAILABLE while stopping. */
int session_enter(struct sessions *m, struct error *err);
void session_leave(struct sessions *m);

/* runner.c; NULL: out of descriptors. */
struct runner *session_runner_get(struct sessions *m);
void session_runner_put(struct sessions *m, struct runner *r);
void session_runner_done(struct sessions *m);

/* ---- session.c, create.c, state.c, wake.c, queue.c, reaper.c ------------ */

enum exec_request {
    REQUEST_INTERRUPT = 1, /* SIGINT, nothing more */
    REQUEST_CANCEL = 2,    /* interrupt, then kill */
    REQUEST_KILL = 4,      /* a reset: kill at once, pid 1 stays */
    REQUEST_END = 8,       /* the session is being deleted */
};

/* How often a client that waits is looked for. */
#define LEFT_EVERY_MS 500u

struct session {
    atomic_uint refs;
    struct sessions *m;
    struct idmap_node node;
    char id[ID_MAX];
    struct tenant *tenant;
    struct pool *pool;
    struct runtime *runtime;
    char *name, *metadata;
    struct warden_limits limits;
    int64_t created_at_ms;
    char workspace[ID_MAX];
    char owner[ID_MAX]; /* the key it acts for */
    bool owner_admin;
    bool ephemeral;   /* nothing is committed */
    bool transient;   /* of a single run */
    bool stored;      /* has a row; it can be loaded again */
    char *identifier; /* NULL: none */
    _Atomic(enum session_sharing) sharing; /* never DEFAULT; sharing_lock to
                                              change */
    uint32_t cooldown_s;                   /* 0: the pool's */
    _Atomic int64_t policy_version;        /* held to at least this */
    struct session_net *net;               /* what its code may reach */
    bool (*left)(void *ctx); /* of session_spec, until it is made; or NULL */
    void *left_ctx;
    /* sessions.lock: */
    struct session *newer, *older;  /* of the tenant, unless stored */
    struct execution *first, *last; /* still findable, in order of creation */
    unsigned finished;              /* of these */
    char *identifier_key;           /* NULL: none */
    struct idmap_node identifier_node;
    bool identified; /* it is what its identifier means */

    struct mutex lock;
    struct cond cond; /* state, moving, running, exclusive or queue */
    enum session_state state;
    bool moving;     /* someone is making or dropping the box */
    bool exclusive;  /* a reset is under way: no new turn */
    struct box *box; /* referenced */
    unsigned pins;   /* uploads and file calls under way */
    /* What the box mounts, and the commit the session has seen: changes of
     * others after it are conflicts. Turn's owner, or moving. */
    struct workspace_tree tree;
    int64_t base;
    char base_id[ID_MAX]; /* the id of commit base_id_seq; lock */
    int64_t base_id_seq;
    bool made;         /* the workspace exists (a transient one's may not) */
    bool rescan;       /* something was not committed: look at all again */
    struct idmap seen; /* ephemeral: files there as of the last look */
    struct idmap over_quota; /* there was no room for, and it was told */
    struct execution *queue_head, *queue_tail;
    struct execution *running;
    struct runner *runner; /* of running */
    uint32_t queued, executions, interpreter;
    uint64_t used_ms, woken_ms; /* monotonic */
    int64_t last_used_at_ms;
    int64_t noted_at_ms; /* the last use its row knows of */
    uint64_t noted_ms;   /* and when that was written, monotonic */
};

struct session *session_ref(struct session *se);
void session_unref(struct session *se); /* accepts NULL */

/* ---- sharing.c: who in the tenant sees and uses a session ----------------
 */

/* The one decision: the session is within what the actor is bound to, and is
 * shared, its own, or of the tenant it is an admin of. The tenant itself is
 * checked by session_at_hand and the queries. */
bool session_visible(const struct session *se, const struct actor *who);
/* The same in SQL, of a row of `sessions` and without the bounds, so that a
 * foreign row costs what an unknown id costs (I3). The arguments are the
 * parameters of SESSION_VISIBLE(who), which are "it". */
#define SESSION_VISIBLE_SQL(all, key)                                         \
    "(" all " <> 0 OR sharing = 2 OR owner = " key ")"
#define SESSION_VISIBLE(who) (int64_t) session_sees_all(who), (who)->key
/* An admin of the tenant. */
bool session_sees_all(const struct actor *who);
/* What a new session is: what was asked for, else the pool's setting, else
 * the tenant's, else the door's. Never DEFAULT. */
enum session_sharing session_sharing_settle(const struct sessions *m,
                                            const struct actor *who,
                                            const struct conf_pool *pool,
                                            enum session_sharing asked);
/* The workspace that is to be made for it; borrows from it. */
struct workspace_spec session_workspace_spec(const struct session *se);
/* As its row has it now: 1, 0 when there is no row, or -code. For one that has
 * just been put into the table. */
int session_sharing_renew(struct session *se, struct error *err);
/* May the actor ask for it? A bound credential cannot widen who sees what. */
int session_sharing_may(const struct actor *who, enum session_sharing asked,
                        struct error *err);

/* Referenced; NULL with err set when there is none, or none for this actor. */
struct session *session_find(struct sessions *m, const struct actor *who,
                             const char *id, struct error *err);
/* A call on a session: entered and referenced until let; NULL with err. */
struct session *session_acquire(struct sessions *m, const struct actor *who,
                                const char *id, struct error *err);
void session_release(struct session *se);
/* For what has no row: soon in the trail. */
void session_audit(const struct session *se, const struct actor *who,
                   const char *action);
/* The actor a session is for, borrowing from it. */
struct actor session_actor(const struct session *se);
void session_fill_info(struct session *se, struct session_info *ret);
void session_touch(struct session *se); /* its lock is held */
/* Before its end: ends what runs and commits what it, or anything since, has
 * written; waits at most ms. True: it had a sandbox, which was asked. */
bool session_save(struct session *se, uint32_t ms);
/* Out of the tenant's list of those without a row; sessions.lock is held. */
void session_unlist(struct session *se);
/* Takes it out of the tables and ends it; false: someone else did. */
bool session_end(struct session *se);
/* A workspace that was made for it and never got a file goes with it. */
void session_tidy(struct sessions *m, const struct actor *owner,
                  const char *workspace);

/* Live sessions have a place under every limit (R8); state.c counts. */
int session_limits_room(const struct sessions *m, const struct pool *pool,
                        const struct warden_limits *limits, struct error *err);
/* A session becomes live, or stops to be. */
void session_limits_live(struct sessions *m,
                         const struct warden_limits *limits, bool live);
/* reserve.c, with sessions.lock held: the tenant, made if need be; and a
 * place, counted, for a session that is being made. */
struct tenant *session_tenant(struct sessions *m, const char *name);
int session_reserve(struct sessions *m, struct tenant *t, struct pool *pool,
                    const struct warden_limits *limits, struct error *err);
/* What of its tenant's quotas a live session has; state.c gives it back. */
int session_quota_take(struct sessions *m, const char *tenant,
                       const struct warden_limits *limits, struct error *err);
void session_quota_give(struct sessions *m, const char *tenant,
                        const struct warden_limits *limits);

/* state.c; the session's lock is held. */
void session_state_set(struct session *se, enum session_state to);
void session_state_check(const struct session *se);
bool session_state_live(enum session_state state);
bool session_state_allows(enum session_state from, enum session_state to);

/* A box with a living pid 1, referenced; wakes the session if it must. */
int session_wake(struct session *se, struct box **ret, struct error *err);
/* The same for the turn's owner: with a living kernel. fresh: one that has run
 * nothing. */
int session_wake_kernel(struct session *se, bool fresh, struct box **ret,
                        struct error *err);
/* The box is bad or no longer wanted: dormant, files kept. idle_only: only
 * if nothing uses it. True if it was dropped. */
bool session_wake_drop(struct session *se, struct box *box, bool idle_only);
/* No code has run in its box, nobody has written to it, and the caller's pin
 * is the only one; the lock is held. */
bool session_wake_untouched(const struct session *se);
/* For who has `exclusive`: a fresh box on the workspace's head in the place of
 * such a one; 1: it no longer is. What fails leaves the session dormant. */
int session_wake_replace(struct session *se, struct error *err);

/* sandbox_create.c: the workspace below a sandbox. begin pins a tree of the
 * session's workspace; fill copies its files into a box that could not mount
 * it. */
int session_sandbox_pin_tree(struct session *se, struct workspace_tree *ret,
                             struct error *err);
/* Lets go of what the session has mounted; nothing: fine. */
void session_sandbox_unpin_tree(struct session *se);
bool session_sandbox_layers(const struct sessions *m);
int session_sandbox_create(struct session *se, uint32_t runtime,
                           const struct workspace_tree *tree, struct box **ret,
                           struct error *err);
/* create.c: fails when who asked for the session has gone away. */
int session_still_wanted(const struct session *se, struct error *err);
/* One file of the workspace into the box under its own name and mode. */
int session_sandbox_put(struct session *se, struct box *box,
                        const struct workspace_file *f, struct error *err);

/* identify.c: the names clients give. At most one call at a time makes the
 * session of an identifier; the others wait for it. */
struct claim {
    struct claim *next; /* sessions.lock */
    char *key;          /* owned; NULL: not held */
};
void session_identifiers_init(struct sessions *m);
void session_identifiers_done(struct sessions *m);
int session_identifier_check(const char *identifier, struct error *err);
/* Where an identifier is unique: the principal of private sessions, "" for
 * the tenant's shared ones. Borrowed. */
const char *session_identifier_space(enum session_sharing sharing,
                                     const char *owner);
/* tenant, pool, space and identifier in one; owned by caller. */
char *session_identifier_key(const char *tenant, const char *pool,
                             const char *space, const char *identifier);
/* Both with sessions.lock held; without an identifier they do nothing. */
void session_identifier_add(struct session *se);
void session_identifier_remove(struct session *se);
/* The same identifier in another space; sessions.lock is held. */
void session_identifier_move(struct session *se, const char *space);
/* The session an identifier means to the actor, referenced, or NULL: its own
 * private one, else its own shared one, else (sharing: what a new one would
 * be) that of the tenant. */
int session_identifier_find(struct sessions *m, const struct actor *who,
                            const char *pool, const char *identifier,
                            enum session_sharing sharing, struct session **ret,
                            struct error *err);
/* The session that has the identifier in that space, referenced; else *ret is
 * NULL and the claim is the caller's until done. */
int session_claim(struct sessions *m, const struct actor *who,
                  const char *pool, const char *identifier, const char *space,
                  struct claim *claim, struct session **ret,
                  struct error *err);
/* The id of one whose row comes before it is in the table; who has found the
 * row waits, sessions.lock held. */
void session_claim_id(struct sessions *m, const char *id, struct claim *claim);
void session_claim_wait(struct sessions *m, const char *id);
void session_claim_done(struct sessions *m, struct claim *claim);
/* create.c: as session_create, but one that is there already is *ret_found,
 * referenced (NULL: that is ERR_CONFLICT). The caller has entered. */
int session_create_or_find(struct sessions *m, const struct actor *who,
                           const struct session_spec *spec,
                           struct session **ret_found,
                           struct session_info *ret, struct error *err);

/* expiry.c: idle too long, by the clock. */
#define SESSION_COOLDOWN_MAX_S (30u * 86400u)
uint32_t session_cooldown(const struct session *se);
/* Pure: at the very end of the time it is not yet past. */
bool session_expiry_past(int64_t used_at_ms, uint32_t cooldown_s,
                         int64_t now_ms);
/* With the session's lock held. Something under way keeps it alive. */
bool session_expired(const struct session *se);
int64_t session_expires_at(const struct session *se);
/* ERR_EXPIRED when it is over; the session's lock is held. */
int session_expiry_check(const struct session *se, struct error *err);
/* The same, taking the lock; else it counts as a use. */
int session_use(struct session *se, struct error *err);

/* attach.c: kept files in a session. */
#define SESSION_FILES_MAX 50u
/* Paths are good and none comes twice; no more than may be. */
int session_attach_check(const struct session_attach *files, size_t count,
                         struct error *err);
/* Into the workspace, before it is mounted; makes it if need be. */
int session_attach_link(struct session *se, const struct actor *who,
                        const struct session_attach *files, size_t count,
                        struct error *err);
/* An ephemeral session's, into its box. */
int session_attach_copy(struct session *se, const struct actor *who,
                        struct box *box, const struct session_attach *files,
                        size_t count, struct error *err);

/* persist.c: rows of sessions. */
/* No row tells of it (any more). False when that cannot be told. */
bool session_persist_gone(struct sessions *m, const char *id,
                          struct error *err);
int session_persist_insert(struct session *se, const struct actor *who,
                           struct error *err);
int session_persist_delete(struct session *se, const struct actor *who,
                           struct error *err);
/* Interpreter, executions, last use; what fails is logged. */
void session_persist_note(struct session *se);
/* A dormant session made from its row; NULL: none (err says so), or failed. */
struct session *session_persist_load(struct sessions *m,
                                     const struct actor *who, const char *id,
                                     struct error *err);
/* Writes what session_share decided, with its event of the trail. */
int session_persist_share(struct session *se, const struct actor *who,
                          enum session_sharing sharing, struct error *err);
/* The same for many, in one transaction. */
void session_persist_note_all(struct sessions *m, struct session **list,
                              size_t count);
/* Is there still a row? 1 and what it says, 0, or -code. */
int session_persist_has(struct sessions *m, const char *id,
                        enum session_sharing *ret_sharing, struct error *err);
/* The id of the session of that identifier: 1, 0, or -code. */
int session_persist_identify(struct sessions *m, const char *tenant,
                             const char *pool, const char *identifier,
                             const char *space, char ret_id[ID_MAX],
                             struct error *err);

/* Rows a filter lets through, in its order; zeroed before begin. */
struct session_rows {
    struct sessions *m;
    const char *tenant;
    struct store_tx *tx;
    struct store_rows *rows;
};
/* than_ms: only those created later (oldest first) or earlier than that. Of
 * what the actor is bound to, pools are left to the caller. */
int session_rows_begin(struct session_rows *r, struct sessions *m,
                       const struct actor *who,
                       const struct session_filter *filter, int64_t than_ms,
                       struct error *err);
int session_rows_next(struct session_rows *r, struct error *err); /* 1, 0 */
int64_t session_rows_created(struct session_rows *r);
/* A session made from the row, not in the table. */
struct session *session_rows_take(struct session_rows *r);
void session_rows_done(struct session_rows *r); /* for cleanup() */
/* session.c: in the table, referenced, or NULL; sessions.lock is held. */
struct session *session_at_hand(struct sessions *m, const char *tenant,
                                const char *id);

/* queue.c: turns, first come first served. Except for wait, release and
 * cancel the session's lock is held. */
void session_queue_add(struct session *se, struct execution *e);
/* Waits for e's turn and takes it; false: it was cancelled before and is
 * finished. */
bool session_queue_wait(struct session *se, struct execution *e,
                        struct runner *runner);
void session_queue_release(struct session *se);
/* Takes one that waits out of the queue; false: it does not wait. */
bool session_queue_remove(struct session *se, struct execution *e);
/* Takes all that wait out, for session_queue_cancel without the lock. */
struct execution *session_queue_empty(struct session *se);
void session_queue_cancel(struct execution *waiting, const char *why);
/* Tells what runs, if anything does. */
void session_queue_request(struct session *se, enum exec_request what);

/* reset.c: cancels what waits, asks what runs to end, keeps new turns out and
 * waits; on success session.lock is held and `exclusive` is the caller's. */
int session_quiet(struct session *se, enum exec_request how, const char *why,
                  uint32_t ms, struct error *err);

int session_reaper_start(struct sessions *m, struct error *err);
void session_reaper_stop(struct sessions *m);

/* ---- files.c, upload.c -------------------------------------------------- */

/* Finds and pins the session, so that it does not fall asleep meanwhile; NULL
 * with err set when there is none. end also drops the reference. */
struct session *session_files_begin(struct sessions *s,
                                    const struct actor *who, const char *id,
                                    struct error *err);
void session_files_end(struct session *se);
/* As box_broker_call, waking the session. ret_box: NULL, or the box that
 * answered, referenced. */
int session_files_call(struct session *se,
                       const struct broker_request *request, char *room,
                       size_t room_len, bool want_fd, struct box **ret_box,
                       struct broker_reply *ret, struct error *err);

/* put_file.c: a stored file, pinned by the caller, in a session and its
 * workspace. */
struct put_file {
    struct workspace_change put;
    const char *kind, *action; /* of the commit */
    bool fresh;                /* nothing may be there: ERR_PRECONDITION */
};
int session_put_file(struct session *se, const struct actor *who,
                     const struct put_file *what, struct session_file *ret,
                     struct error *err);
/* Its two halves. live: on behalf of the session and what it has seen. What
 * is staged has no name yet. ret->path is set, and owned by caller, if it is
 * kept under another one. */
int session_put_file_commit(struct session *se, const struct actor *who,
                            const struct put_file *what, bool live,
                            struct session_file *ret, struct error *err);
int session_put_file_stage(struct session *se, struct box *box,
                           const struct workspace_change *put,
                           uint32_t *ret_handle, struct error *err);

/* workspace_files.c: the same as the workspace has it. */
bool session_is_dormant(struct session *se); /* and not ephemeral */
int session_workspace_files_open(struct session *se, const char *path,
                                 int *ret_fd, struct stat *ret_stat,
                                 struct error *err);
int session_workspace_files_remove(struct session *se, const struct actor *who,
                                   const char *path, bool was_live,
                                   struct error *err);
/* The error of a path that someone holds. */
int session_workspace_files_locked(const struct workspace_result *r,
                                   struct error *err);
int session_workspace_files_list(struct session *se, unsigned limit,
                                 const char *after, struct session_file **ret,
                                 size_t *ret_count, bool *ret_more,
                                 struct error *err);
/* Adds ids to a live listing. */
void session_workspace_files_describe(struct session *se,
                                      struct session_file *files,
                                      size_t count);

/* ---- admission.c ---------------------------------------------------------
 */

/* What a request about this session tells govern/. */
struct govern_scope session_govern_scope(const struct session *se,
                                         const struct actor *who);
int session_admit_create(struct sessions *m, const struct actor *who,
                         const struct session_spec *spec,
                         const struct pool *pool,
                         const struct runtime *runtime, struct error *err);
/* A session that is to be shared with the tenant; se NULL: a new one. */
int session_admit_share(struct sessions *m, const struct actor *who,
                        const struct pool *pool, const struct session *se,
                        struct error *err);
/* A file that comes, by whichever way. */
int session_admit_upload(struct session *se, const struct actor *who,
                         const struct workspace_change *put,
                         struct error *err);
int session_admit_download(struct session *se, const struct actor *who,
                           const char *path, uint64_t size, struct error *err);

/* ---- metrics.c ---------------------------------------------------------- */

void session_metrics_refused(struct sessions *m, const struct error *err);
void session_metrics_add(struct sessions *m, uint64_t *counter);
void session_metrics_time(struct sessions *m, struct session_histogram *h,
                          uint64_t us);

#endif
