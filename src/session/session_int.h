/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/session/. How the pieces work together:
 *
 *   struct sessions   the manager: tables, pools, the reaper
 *   struct pools      pools, ready sandboxes and runtimes (pool/pool.h)
 *   struct session    what clients name; has a box or, dormant, only a row
 *   struct box        one sandbox (box/box.h)
 *   struct turn       the place of an execution in a session's queue
 *                     (session/turn.h); executions are above (execution/)
 *
 * Locks, in the order they may nest (a later one inside an earlier one):
 *
 *   0 pools.change_lock     (pool/pool_int.h)
 *     network.lock          (network/network_int.h)
 *     sessions.sharing_lock one change of a session's sharing; held over the
 *                           store
 *   1 sessions.lock   tables, counts
 *   2 session.lock    state, box, queue, running execution
 *   3 pools.lock, runtime.lock   (never both)
 *   4 the locks of a box (box/box_int.h)
 *   5 counters.lock (a leaf)
 *
 * 1 and 2 are never held over a system call that waits. A box's channels
 * except ctl belong to the thread that has the session's turn.
 */
#ifndef GLOVEBOX_SESSION_SESSION_INT_H
#define GLOVEBOX_SESSION_SESSION_INT_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "base/thread.h"
#include "box/box.h"
#include "conf/conf.h"
#include "core/core.h"
#include "fair/fair.h"
#include "session/image.h"
#include "session/session.h"
#include "session/turn.h"
#include "warden/call.h"
#include "wire/kernel_msg.h"
#include "workspace/workspace.h"

#define SESSION_NAME_MAX 128u

/* files.c: the path rules (F5) of session.h; ERR_INVALID says which was
 * broken. */
int session_path_check(const char *path, size_t len, struct error *err);

/* ---- the manager -------------------------------------------------------- */

struct tenant {
    struct idmap_node node;
    struct sessions *m;
    char *name;
    /* sessions.lock: */
    struct session *newest;  /* of those that no row tells of */
    atomic_uint active;      /* executions queued or running; lock to change */
    struct fair_tenant fair; /* see sched_class.c */
    _Atomic uint64_t cpu_ms; /* of all its executions; see admission.c */
    struct box_count background; /* its boxes that run something; parent:
                                    sessions.background */
};

struct counters {
    struct mutex lock;
    uint64_t outcomes[OUTCOME_LOST + 1];
    uint64_t refusals_limit, refusals_busy;
    uint64_t created, deleted, woken, expired, made_room;
    uint64_t hibernated, hibernate_failed, resumed, resume_failed;
    uint64_t undone, redone, branched;
    uint64_t ready_taken, ready_missed;
    struct session_histogram start, execution;
};

/* The functions of box.h for the memory of a kernel; unit tests have others.
 */
struct session_memory {
    int (*look)(struct box *b, struct box_memory *ret, struct error *err);
    int (*save)(struct box *b, int fd, uint64_t most_bytes,
                struct box_memory *ret, struct error *err);
    int (*point_add)(struct box *b, unsigned most, unsigned *ret_kept,
                     struct error *err);
    int (*point_undo)(struct box *b, unsigned back, struct error *err);
    int (*point_redo)(struct box *b, unsigned forward, struct error *err);
    void (*points_drop)(struct box *b);
    const struct box_starter *starter; /* NULL: this build's */
};
extern const struct session_memory session_memory_of_box;

struct sessions {
    const struct conf *conf;
    struct warden_link *link;
    struct workspaces *workspaces;
    const struct core *core;
    struct govern govern;
    struct egress_link *egress; /* NULL: no session gets a network */
    struct disk *disk;          /* NULL: never full */
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
    struct idmap tenants;       /* as many as the operator has made */
    atomic_uint live;           /* sessions with a sandbox, or being made */
    _Atomic uint64_t granted;   /* memory that these may use */
    atomic_bool granted_warned; /* that it is more than there is */
    atomic_uint creating;       /* of these, not in the table yet */
    int64_t last_created_ms;
    atomic_uint active;   /* executions queued or running; lock to change */
    struct fair_cpu fair; /* see sched_class.c */
    uint64_t memory_checked_ms;
    bool memory_short;

    struct nodes *nodes; /* NULL: this is the only node */
    struct pools *pools;
    struct worker reaper;
    struct worker points;        /* see undo.c */
    struct mutex points_lock;    /* a leaf */
    struct session *points_head; /* referenced; to be visited by it */
    struct images *images;       /* NULL: no memory is kept */
    const struct session_memory *memory;
    uint64_t swept_ms; /* images, by the reaper */

    struct fair_queue *create_queue;       /* creations of sandboxes */
    struct fair_queue *create_alone_queue; /* of a tenant that is alone */
    struct box_count background; /* of all tenants; see sched_class.c */
    struct fair_reserve *cpu_reserve;

    struct counters counters;
    struct networks *networks;
    struct session_hooks hooks;
};

/* manager.c: tell the module above, without a lock held; see turn.h. */
void session_hooks_forget(struct session *se);
void session_hooks_delete(struct session *se, const struct actor *who);

/* sched_class.c; to be called before the first execution. */
int session_sched_start(struct sessions *m, struct error *err);

/* ---- session.c, create.c, state.c, wake.c, queue.c, reaper.c ------------ */

/* The state of a session is a pair; state.c has the transitions. */
enum session_phase {   /* where its sandbox is */
    PHASE_CREATING,    /* being created with the session; in no table yet */
    PHASE_WAKING,      /* being created for a session that exists */
    PHASE_UP,          /* there is one */
    PHASE_SAVING,      /* being dropped: last files are committed */
    PHASE_DORMANT,     /* there is none; the workspace has the files */
    PHASE_HIBERNATING, /* its memory is being written */
    PHASE_HIBERNATED,  /* as DORMANT, and an image has the memory */
    PHASE_ENDED,       /* deleted; final */
};

enum session_turn { /* the owner of the sandbox's kernel */
    TURN_FREE,      /* the first execution of the queue takes it */
    TURN_EXECUTION, /* an execution has it */
    TURN_CLOSING,   /* the same; then the thread that closes gets it */
    TURN_EXCLUSIVE, /* a reset, refresh, attach or the last save has it */
};

enum session_event {
    EV_CREATED,     /* session_create has a sandbox */
    EV_WAKE,        /* session_wake begins to create one */
    EV_REPLACE,     /* session_wake_replace does, for an untouched one */
    EV_WOKEN,       /* it is up */
    EV_WAKE_FAILED, /* it could not be created */
    EV_WAKE_BACK,   /* the same, and the image is as it was */
    EV_HIBERNATE,   /* session_hibernate_box begins */
    EV_HIBERNATED,  /* the image is stored, the sandbox gone */
    EV_STAY,        /* no image was made: the sandbox goes on */
    EV_LOSE,        /* the image is given up: a reset, or its end of life */
    EV_DROP,        /* session_wake_drop: it is bad or too old */
    EV_EXPIRE,      /* the reaper: unused for too long */
    EV_DROPPED,     /* it is gone */
    EV_TAKE,        /* an execution begins its turn */
    EV_RELEASE,     /* and ends it */
    EV_CLOSE,       /* keep new turns out */
    EV_OPEN,        /* no longer */
    EV_END,         /* session_end, or a session that could not be created */
};

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
    atomic_bool lost;      /* ended because the node's lease ends */
    _Atomic int64_t fence; /* under which this node has it; 0: not leased */
    _Atomic int64_t policy_version; /* held to at least this */
    struct network *net;            /* what its code may reach */
    bool (*left)(void *ctx); /* of session_spec, until it is made; or NULL */
    void *left_ctx;
    /* sessions.lock: */
    struct session *newer, *older; /* of the tenant, unless stored */
    char *identifier_key;          /* NULL: none */
    struct idmap_node identifier_node;
    bool identified; /* it is what its identifier means */

    struct mutex lock;
    struct cond cond; /* state or queue has changed */
    enum session_phase phase;
    enum session_turn turn;
    struct box *box; /* referenced; in phase UP only */
    unsigned pins;   /* uploads and file calls under way */
    /* What the box mounts, and the commit the session has seen: changes of
     * others after it are conflicts. For the thread that has the turn, or that
     * creates or drops the box. */
    struct workspace_tree tree;
    int64_t base;
    char base_id[ID_MAX]; /* the id of commit base_id_seq; lock */
    int64_t base_id_seq;
    bool made;         /* the workspace exists (a transient one's may not) */
    bool rescan;       /* something was not committed: look at all again */
    struct idmap seen; /* ephemeral: files there as of the last look */
    struct idmap over_quota; /* files over quota that were reported */
    struct turn *queue_head, *queue_tail;
    struct turn *running; /* in turns EXECUTION and CLOSING only */
    uint32_t queued, executions, interpreter;
    bool has_cells; /* a cell has run in it; of a restored one, may have */
    uint32_t helpers_used;  /* bits of helpers that have run a cell in it */
    const char *cells_lost; /* how the last interpreter ended; NULL: asleep */
    struct session_undo *undo; /* lock; see undo.c; NULL: no states */
    const struct session_source *source; /* until it is stored; or NULL */
    int64_t branched_at; /* the first commit of a branch's workspace */
    int64_t own_commit;  /* its last one, or the head it started on; as base */
    struct session *points_next; /* points_lock */
    bool points_queued;
    bool noted_run;             /* its row says that it has run something */
    struct session_image image; /* its memory on disk */
    bool resumed;     /* the kernel continues an image, and no new one began */
    bool resumed_new; /* the same, and no cell has run since */
    bool resumed_old; /* of an image from before the service ended */
    unsigned resume_tries;      /* that came to nothing */
    uint32_t uncarried;         /* enum box_uncarried, as last seen */
    bool memory_refused;        /* no image can be made, as last seen */
    uint64_t memory_bytes;      /* private memory, as last seen */
    uint64_t used_ms, woken_ms; /* monotonic */
    int64_t last_used_at_ms;
    uint64_t keep_ms;    /* a client keeps it awake until then, monotonic */
    int64_t noted_at_ms; /* the last use its row knows of */
    uint64_t noted_ms;   /* and when that was written, monotonic */
};

/* ---- sharing.c: who in the tenant sees and uses a session ----------------
 */

/* The same in SQL, of a row of `sessions` and without the bounds, so that a
 * foreign row costs what an unknown id costs (I3). The arguments are the
 * parameters of SESSION_VISIBLE(who), which are "it". */
#define SESSION_VISIBLE_SQL(all, key)                                         \
    "(" all " <> 0 OR sharing = 2 OR owner = " key ")"
#define SESSION_VISIBLE(who) (int64_t) session_sees_all(who), (who)->key
/* state.c: tells the feed what clients see of its state now. */
void session_state_publish(const struct session *se);
/* An admin of the tenant. */
bool session_sees_all(const struct actor *who);
/* The sharing of a new session: as requested, else the pool's setting, else
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
/* May the actor request it? A bound credential cannot widen the sharing. */
int session_sharing_may(const struct actor *who, enum session_sharing asked,
                        struct error *err);

/* settings.c: tells the network whose it is; once, when the session is made or
 * loaded. */
void session_bind_network(struct session *se);

/* For what has no row: soon in the trail. */
void session_audit(const struct session *se, const struct actor *who,
                   const char *action);
void session_fill_info(struct session *se, struct session_info *ret);
void session_touch(struct session *se); /* its lock is held */
/* Before its end: ends what runs and commits what it, or anything since, has
 * written; waits at most ms. True: it had a sandbox, which was asked. */
bool session_save(struct session *se, uint32_t ms);
/* Out of the tenant's list of those without a row; sessions.lock is held. */
void session_unlist(struct session *se);
/* Takes it out of the tables and ends it; false: another thread did. */
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
/* limits.c, with sessions.lock held: the tenant, made if need be; and a
 * place, counted, for a session that is being made. */
struct tenant *session_tenant(struct sessions *m, const char *name);
int session_reserve(struct sessions *m, struct tenant *t, struct pool *pool,
                    const struct warden_limits *limits, struct error *err);
/* Memory that other sessions would have to give back under the limit of the
 * machine; UINT64_MAX: it is more than the limit by itself. */
uint64_t session_limits_missing(const struct sessions *m,
                                const struct warden_limits *limits);
/* Takes a live session's share of its tenant's quotas; state.c returns it. */
int session_quota_take(struct sessions *m, const char *tenant,
                       const struct warden_limits *limits, struct error *err);
void session_quota_give(struct sessions *m, const char *tenant,
                        const struct warden_limits *limits);

/* make_room.c: what there is of sessions that cannot go to sleep. */
struct session_room {
    bool made; /* one or more went to sleep */
    unsigned busy, ephemeral, recent;
    uint64_t retry_ms; /* until the first of them can, as far as known */
};
/* Puts idle sessions of the tenant to sleep until a sandbox with these limits
 * fits, if it can. No lock is held. */
void session_make_room(struct sessions *m, const struct tenant *t,
                       const struct pool *pool,
                       const struct warden_limits *limits,
                       struct session_room *ret);
/* Adds to a refusal why no session could go to sleep, and when one can.
 * Returns the error's code. */
int session_room_explain(const struct session_room *room, struct error *err);
/* How often a place is looked for that another thread may take first. */
#define SESSION_ROOM_TRIES 8

/* state.c; the session's lock is held. */
void session_state_init(struct session *se, enum session_phase phase);
/* May the event happen now? Includes its guard. */
bool session_state_may(const struct session *se, enum session_event event);
/* Changes the state and wakes all waiting threads. The event must be one that
 * may happen. Callers that move the box with it do so right after. */
void session_state_event(struct session *se, enum session_event event);
/* Asserts that the other fields agree with the state. */
void session_state_check(const struct session *se);
/* Pure, without guards; false: no row allows the event. */
bool session_state_next(enum session_phase *phase, enum session_turn *turn,
                        enum session_event event);
enum session_state session_state_shown(const struct session *se);
/* It has no sandbox and will get one when it needs it. */
bool session_asleep(const struct session *se);
/* No thread is creating or dropping the sandbox. */
bool session_settled(const struct session *se);
/* No new turn is given: a reset or the like is under way, or waits for what
 * runs to end. */
bool session_closed(const struct session *se);
/* No code has run in its box, nothing was written to it, and the caller's pin
 * is the only one. */
bool session_untouched(const struct session *se);

/* hibernate.c: why the memory of the session is never saved;
 * SESSION_LOSS_NONE: it is saved when the session goes to sleep. */
enum session_loss session_memory_off(const struct session *se);
bool session_hibernates(const struct session *se);
/* Refuses `what` ("hibernate") to a session of a runtime without a zygote. */
int session_no_zygote(const struct session *se, const char *what,
                      struct error *err);
/* The largest image that it may have. */
uint64_t session_image_most(const struct session *se);
/* Puts it to sleep if nothing uses it: with its memory if that can be kept,
 * else without. True: it sleeps. */
bool session_sleep(struct session *se, struct box *box);
/* Every session that is idle, or becomes idle in time. */
void session_hibernate_all(struct sessions *m, uint64_t deadline_ms);
/* The memory of its kernel in a file without a name; the session goes on. The
 * caller has the turn, or the box alone. ERR_CONFLICT: it cannot be copied. */
int session_memory_file(struct session *se, struct box *box,
                        struct box_memory *ret, int *ret_fd,
                        uint64_t *ret_size, struct error *err);
void session_memory_seen(struct session *se, const struct box_memory *memory);
int session_uncarried_refuse(const struct box_memory *memory,
                             struct error *err);

/* A box with a living pid 1, referenced; wakes the session if it must. */
int session_wake(struct session *se, struct box **ret, struct error *err);
/* In turn EXCLUSIVE: replaces an untouched box by a fresh one on the head of
 * the workspace; 1: it is no longer untouched. A failure leaves the session
 * dormant. */
int session_wake_replace(struct session *se, struct error *err);
/* The interpreter is gone or was replaced: gives up its image and its undo
 * points. */
void session_memory_gone(struct session *se, enum session_loss why);
/* branch.c: what a branch starts from. */
struct session_source {
    const char *session, *workspace;
    int64_t commit; /* its number */
    int image_fd;   /* the memory, readable any number of times */
    uint32_t uncarried;
    unsigned char zygote[WARDEN_ZYGOTE_ID]; /* that it is of */
};
struct store_tx;
/* For create.c: the workspace, the sandbox, and the row that session_merge
 * reads. */
int session_branch_files(struct session *se, const struct actor *who,
                         const struct session_source *source,
                         struct error *err);
int session_branch_box(struct session *se, const struct session_source *source,
                       struct box **ret, struct error *err);
int session_branch_row(struct session *se, const struct session_source *source,
                       struct store_tx *tx, struct error *err);

/* refresh.c: keeps new turns out until end; waits for what runs, a while:
 * ERR_CONFLICT. */
int session_exclusive_begin(struct session *se, struct error *err);
void session_exclusive_end(struct session *se);
/* Commits the session's own changes before anything can cover them. */
int session_keep_own(struct session *se, struct box *box, struct error *err);
/* Brings commits of others into the sandbox. Exclusive. */
int session_refresh_box(struct session *se, const struct actor *who,
                        struct box *box, uint32_t *ret_count,
                        struct error *err);
int session_points_start(struct sessions *m, struct error *err);
void session_points_stop(struct sessions *m);
/* How many states before the present one is that after the execution? */
int session_state_find(struct session *se, const char *execution,
                       unsigned *ret, struct error *err);
/* Calls fn while the memory is that of so many states before; exclusive. */
int session_state_visit(struct session *se, struct box *box, unsigned back,
                        int64_t *ret_commit,
                        int (*fn)(void *ctx, struct error *err), void *ctx,
                        struct error *err);
/* undo.c: there are no points any more. The lock is held. */
void session_points_forget(struct session *se);
void session_points_fill(const struct session *se, struct session_info *ret);
/* The interpreter ended otherwise than by falling asleep; see
 * session_wake_notice. The lock is held. */
void session_wake_lost(struct session *se, bool by_reset);

/* sandbox_create.c: the workspace below a sandbox. begin pins a tree of the
 * session's workspace; fill copies its files into a box that could not mount
 * it. */
int session_sandbox_pin_tree(struct session *se, struct workspace_tree *ret,
                             struct error *err);
/* Lets go of what the session has mounted; nothing: fine. */
void session_sandbox_unpin_tree(struct session *se);
bool session_sandbox_layers(const struct sessions *m);
/* Where the kernel of a new sandbox is to come from, and where it came from.
 */
struct session_origin {
    int image_fd;                 /* -1: fresh */
    const unsigned char *zygote;  /* that it is of */
    int (*image_wait)(void *ctx); /* as in struct box_origin, or NULL */
    void *image_ctx;
    bool tried;             /* the sandbox was started with it */
    struct box_start start; /* what became of it */
};
/* origin: NULL for fresh. */
int session_sandbox_create(struct session *se, uint32_t runtime,
                           const struct workspace_tree *tree,
                           struct session_origin *origin, struct box **ret,
                           struct error *err);
/* The same in a ready one, if one fits: 1; 0: none does. The tree is
 * pinned. */
int session_sandbox_ready(struct session *se, struct session_origin *origin,
                          struct box **ret, struct error *err);
/* The first sandbox of a session: a ready one if no file is to be mounted,
 * else a new one. Pins the tree. */
int session_sandbox_first(struct session *se, struct box **ret,
                          struct error *err);
/* create.c: fails if the client that asked for the session disconnected. */
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
/* Claims an id whose row is stored before the session is in the table. A
 * thread that finds the row waits; sessions.lock is held. */
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
int session_persist_insert(struct session *se, const struct actor *who,
                           struct error *err);
int session_persist_delete(struct session *se, const struct actor *who,
                           struct error *err);
/* Interpreter, executions, last use; what fails is logged. */
void session_persist_note(struct session *se);
/* A dormant session made from its row; NULL, with err: no row, or failed. */
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
/* lease.c: which node has a session, where there are several. */
/* One at hand, before it is used: 0; 1: another node had it meanwhile, and it
 * must be loaded again; ERR_ELSEWHERE. */
int session_lease_confirm(struct session *se, struct error *err);
/* One that is being loaded. */
int session_lease_take(struct session *se, struct error *err);
/* Before its sandbox is made, and once it is gone. */
int session_lease_wake(struct session *se, struct error *err);
void session_lease_sleep(struct session *se);
/* One without a row has ended. */
void session_lease_end(struct session *se);
/* No row of it is there: it may be another node's, without a row. */
int session_lease_locate(struct sessions *m, const struct actor *who,
                         const char *id, struct error *err);
/* Out of the table, if it is asleep and only the caller uses it. */
bool session_forget(struct session *se);
/* session.c: of a session that ended while it was used. ERR_NOT_FOUND, or
 * ERR_UNAVAILABLE if it only ended here, because the node lost its lease. */
int session_error_ended(const struct session *se, struct error *err);
/* session.c: in the table, referenced, or NULL; sessions.lock is held. */
struct session *session_at_hand(struct sessions *m, const char *tenant,
                                const char *id);

/* queue.c; the session's lock is held. */
/* Takes all that wait out, for session_queue_cancel without the lock. */
struct turn *session_queue_empty(struct session *se);
void session_queue_cancel(struct turn *waiting, const char *why);
/* Tells what runs, if anything does. */
void session_queue_request(struct session *se, enum exec_request what);

/* reset.c: cancels what waits, asks what runs to end, keeps new turns out and
 * waits; on success session.lock is held and the turn is EXCLUSIVE. */
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
/* The error of a locked path. */
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

/* ERR_FORBIDDEN if policy denies the session or its sharing. Asked before an
 * approval of the session's network is requested, which would be in vain. */
int session_admit_possible(struct sessions *m, const struct actor *who,
                           const struct session_spec *spec,
                           const struct pool *pool,
                           const struct runtime *runtime, struct error *err);
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

/* An act on the memory of a session: POLICY_HIBERNATE, _UNDO or _BRANCH. */
int session_admit_memory(struct session *se, const struct actor *who,
                         enum policy_action act, struct error *err);

/* ---- sched_class.c: CPU scheduling class (X4) ----------------------------
 */

/* The tenant starts something. True: no other tenant has for a while. */
bool session_sched_alone(struct tenant *t);
/* Charges the tenant for a new sandbox. True: create it in the background
 * class. */
bool session_sched_charge_create(struct tenant *t);
/* Called before and after the creation. */
void session_sched_create_begin(struct tenant *t, bool background);
void session_sched_create_end(struct tenant *t, bool background);

/* ---- commit_changes.c ----------------------------------------------------
 */

/* Commits what happened since the last execution, before the box goes. */
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
/* Files that exceed the workspace's quota are forgotten. */
void session_over_quota_done(struct session *se);
void session_seen_done(struct session *se);

/* ---- metrics.c ---------------------------------------------------------- */

void session_metrics_add(struct sessions *m, uint64_t *counter);
void session_metrics_time(struct sessions *m, struct session_histogram *h,
                          uint64_t us);

#endif
