/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: created, found, used, woken, deleted; their files and their pools.
 * Every call names the tenant; an id of another tenant is answered exactly as
 * an unknown one (ERR_NOT_FOUND). Any thread may call; executions of one
 * session (execution/) take turns in the order they came, sessions run in
 * parallel.
 *
 * A session outlives its sandbox: idle past its cooldown it becomes dormant
 * (sandbox gone, files kept) and the next call wakes it. For tenants whose
 * expiry is final (conf: final_expiry_tenants) it is over then: what would
 * wake it, or reads or changes its files, is answered with ERR_EXPIRED.
 *
 * Clients call a session by its id (sess_…, or cntr_… for one made as a
 * container; both are good everywhere) or, within a pool, by an identifier of
 * their own.
 */
#ifndef GLOVEBOX_SESSION_SESSION_H
#define GLOVEBOX_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/ids.h"
#include "govern/govern.h"
#include "network/network.h"
#include "pool/pool.h"

struct actor;
struct arena;
struct egress_link;
struct session_attach;
struct session_file;
struct session_source;
struct workspace_commit;
struct conf;
struct core;
struct disk;
struct error;
struct session_info;
struct sessions;
struct warden_link;
struct workspaces;

/* ---- the manager -------------------------------------------------------- */

/* What the module is built on; all borrowed until close. Members of core that
 * are NULL (unit tests) allow everything, count and store nothing; store,
 * audit and blobs are required. */
struct sessions_parts {
    const struct conf *conf;
    const struct core *core;
    struct warden_link *warden;
    struct workspaces *workspaces;
    struct egress_link *egress; /* NULL: no session gets a network */
    struct disk *disk;          /* NULL: never full */
};

/* Starts zygotes, the ready pools and the module's threads; returns before
 * zygotes are warm. Sessions of earlier runs exist again, dormant. */
int sessions_open(const struct sessions_parts *parts, struct sessions **ret,
                  struct error *err);
/* Refuses new work, lets what runs finish until the deadline, cancels the
 * rest, ends every session. Calls may still come; they are refused. */
void sessions_stop(struct sessions *s, unsigned deadline_s);
/* Stops, if that was not done, and frees; no call may come any more. False: a
 * call is still running, and nothing was freed. Accepts NULL. */
bool sessions_close(struct sessions *s, unsigned deadline_s);
/* Until it is opened again no session is made or used: check is the one of
 * the gate (posture/) that fails, NULL: open. */
void sessions_gate(struct sessions *s, const char *check, const char *why);
/* True once every pool could start a session (a zygote is up). */
bool sessions_ready(struct sessions *s);

/* ---- sessions ----------------------------------------------------------- */

enum session_state {
    SESSION_STARTING,   /* a sandbox is being made */
    SESSION_IDLE,       /* sandbox up, nothing runs */
    SESSION_RUNNING,    /* an execution runs */
    SESSION_DORMANT,    /* no sandbox; files kept; the next call wakes it */
    SESSION_HIBERNATED, /* the same, and its memory is kept */
    SESSION_ENDED,      /* deleted */
};

/* What an execution ran on. */
enum session_interpreter {
    SESSION_INTERPRETER_SAME,
    SESSION_INTERPRETER_FRESH,
    SESSION_INTERPRETER_WOKEN, /* continues from an image */
};

/* Why a session starts with a new interpreter. Numbers are stored. */
enum session_loss {
    SESSION_LOSS_NONE,  /* nothing was lost, or no reason is known */
    SESSION_LOSS_RESET, /* it was wanted */
    /* not saved: */
    SESSION_LOSS_OFF,       /* the pool saves no memory */
    SESSION_LOSS_UNCARRIED, /* a thread or child process was alive */
    SESSION_LOSS_SPACE,     /* the disk is full, or a quota */
    SESSION_LOSS_LARGE,     /* more than an image may hold */
    SESSION_LOSS_WRITE,     /* the disk failed */
    SESSION_LOSS_KERNEL,    /* the interpreter did not answer */
    SESSION_LOSS_ENDED,     /* it had ended */
    SESSION_LOSS_STOPPED,   /* it was busy when the service stopped */
    SESSION_LOSS_BUILD,     /* its isolation or image saves none */
    /* not restored: */
    SESSION_LOSS_MISMATCH, /* another runtime, version, kernel or processor */
    SESSION_LOSS_DAMAGED,  /* not authentic, or not understood */
    SESSION_LOSS_MISSING,  /* no file */
    SESSION_LOSS_TAKEN,    /* it had been resumed before */
    SESSION_LOSS_LIMIT,    /* more than the memory limit now is */
    SESSION_LOSS_START,    /* the interpreter ended while it was restored */
    SESSION_LOSS_AGE,      /* older than hibernated_days */
    SESSION_LOSS_NODE,     /* it was saved on another node */
    /* not saved, as above: */
    SESSION_LOSS_NO_ZYGOTE, /* its runtime is used without a zygote */
    SESSION_LOSS_EPHEMERAL, /* the session is never written to the disk */
    SESSION_LOSSES
};
const char *session_loss_name(enum session_loss why); /* "no_room" */
/* The n-th thing of `uncarried`, from 0 on; NULL: there are no more. */
const char *session_uncarried_name(uint32_t bits, unsigned number);

/* Who in the tenant sees and uses a session; see sharing.c. */
struct session_spec {
    const char *pool;    /* NULL: the first */
    const char *name;    /* NULL: none; at most 128 bytes */
    const char *runtime; /* NULL: the pool's; else must be it or one that is
                            configured in another pool */
    struct session_limits limits;
    const char *metadata;  /* JSON object text, at most 16 KiB, or NULL */
    const char *workspace; /* ws_… to share; NULL: one of its own */
    bool ephemeral;        /* nothing is kept after its end; also set by
                              the pool */
    bool transient;        /* of a single run: not kept over a restart, and its
                              workspace only made when there is a file to keep */
    bool container;        /* its id is to be a cntr_… one */
    bool asleep;           /* it gets a sandbox when one is needed first, and
                              counts under no limit until then; ignored for an
                              ephemeral one and with a network */
    /* The client's own name for it, 1 to 128 bytes of printable ASCII without
     * blanks; NULL: none. Unique in the pool among the tenant's shared
     * sessions, and among one principal's private ones. */
    const char *identifier;
    enum session_sharing sharing; /* DEFAULT: the pool's setting, then the
                                     tenant's, then the door's */
    uint32_t cooldown_s; /* idle seconds until it expires; 0: the pool's */
    /* Files it has from the start: linked, not copied. */
    const struct session_attach *files;
    size_t file_count;
    const struct network_spec *network; /* NULL: the pool's */
    /* Of session_branch: where memory and files come from; NULL: nowhere. */
    const struct session_source *source;
    /* Has the client disconnected? Then no client would learn the id, and
     * the session is not created. NULL: not checked. */
    bool (*left)(void *ctx);
    void *left_ctx;
};

/* ---- settings.c: the network and the policy of a session ------------------
 */

int session_network_get(struct sessions *s, const struct actor *who,
                        const char *id, struct network_info *ret,
                        struct error *err);
/* A session and its network, for an actor that may decide about its requests,
 * whether or not the session is shared with the actor. The caller has checked
 * that right. */
int session_reach(struct sessions *s, const struct actor *who, const char *id,
                  struct session_info *ret_session,
                  struct network_info *ret_network, struct error *err);
/* See network_change. */
int session_network_set(struct sessions *s, const struct actor *who,
                        const char *id, const struct network_spec *net,
                        struct network_info *ret, struct error *err);
/* Takes over the newest policy where that loosens what held so far. */
int session_policy_adopt(struct sessions *s, const struct actor *who,
                         const char *id, struct error *err);

/* A file that is already kept, in a session under a path of its own. */
struct session_attach {
    const char *file; /* file_…, one the actor may read; its newest version */
    const char *path; /* where it is to be, below /mnt/data */
};

struct session_info {
    char id[ID_MAX];
    char pool[64];
    char runtime[64];
    char name[132];
    char workspace[ID_MAX]; /* "" : ephemeral */
    bool ephemeral;
    enum session_state state;
    struct session_limits limits; /* as granted */
    uint32_t executions;          /* ever accepted */
    uint32_t queued;              /* waiting now */
    uint32_t interpreter;         /* how many interpreters it has had */
    int64_t created_at_ms;
    int64_t last_used_at_ms;
    int64_t expires_at_ms; /* goes dormant then unless used */
    bool expired;          /* that time is past, by the clock alone: it may
                              still have its sandbox, or have lost it earlier */
    bool final;            /* expired, and for this tenant that is the end */
    uint32_t cooldown_s;
    char identifier[132]; /* "" : none */
    char owner[ID_MAX];   /* the principal that made it: key_… or jwt_… */
    enum session_sharing sharing; /* never DEFAULT */
    int64_t policy_version;       /* it was made under, or has adopted */
    /* The memory of its interpreter. */
    uint64_t memory_bytes;      /* private, as last seen; 0: not known */
    uint64_t image_bytes;       /* on disk while it hibernates */
    int64_t image_at_ms;        /* 0: there is none */
    uint32_t uncarried;         /* would be lost, or were: see
                                   session_uncarried_name */
    bool hibernates;            /* it would be kept now */
    enum session_loss kept_not; /* why not */
    enum session_loss lost_why; /* why it was not kept */
    unsigned undo_points, redo_points; /* executions to be undone, redone */
    enum session_egress egress;
    char *hosts;    /* of an allowlist, commas between; the same */
    char *metadata; /* owned by caller; may be NULL */
};

void session_info_done(struct session_info *info);
const char *session_state_name(enum session_state state);

/* Is an expired session of this tenant over? */
bool session_expiry_final(const struct sessions *s, const char *tenant);

int session_create(struct sessions *s, const struct actor *who,
                   const struct session_spec *spec, struct session_info *ret,
                   struct error *err);
int session_get(struct sessions *s, const struct actor *who, const char *id,
                struct session_info *ret, struct error *err);
/* The same, and counts as a use of it, unless it has expired. */
int session_visit(struct sessions *s, const struct actor *who, const char *id,
                  struct session_info *ret, struct error *err);
/* The same, for a client that is attached: it does not go to sleep to make
 * room for another session during the next SESSION_KEEP_S seconds. */
#define SESSION_KEEP_S 120u
int session_keep_awake(struct sessions *s, const struct actor *who,
                       const char *id, struct session_info *ret,
                       struct error *err);
/* Can the caller use the pool, workspace and session of `only` (by enum
 * actor_bound; NULL: any)? What it cannot see is ERR_NOT_FOUND (I3). For
 * credentials that the caller hands out. */
int session_check_reach(struct sessions *s, const struct actor *who,
                        const char *const *only, struct error *err);
/* The session of spec->identifier in spec->pool; made if there is none (then
 * *ret_made). The caller's own one comes first; a shared one that another
 * principal made is found only where sharing with the tenant is the default.
 * Of two callers at once one makes it and both get it. Counts as
 * a use; wakes nothing. One that is over is given as it is. */
int session_ensure(struct sessions *s, const struct actor *who,
                   const struct session_spec *spec, bool *ret_made,
                   struct session_info *ret, struct error *err);
/* Neither creates the session nor counts as a use. pool: NULL for the
 * first. */
int session_identify(struct sessions *s, const struct actor *who,
                     const char *pool, const char *identifier,
                     struct session_info *ret, struct error *err);
/* Puts a kept file into a session and its workspace; where no code has run in
 * the sandbox yet, or there is none, without copying its bytes. ret: path
 * owned by caller (free). A file at the path is replaced. */
int session_attach(struct sessions *s, const struct actor *who, const char *id,
                   const struct session_attach *what, struct session_file *ret,
                   struct error *err);

struct session_filter {
    const char *pool;  /* NULL: of all */
    const char *name;  /* exactly; NULL: any */
    bool identified;   /* only those with an identifier */
    bool oldest_first; /* else newest first */
    const char *after; /* an id, or NULL; an unknown one: ERR_INVALID */
    unsigned skip;     /* so many are left out, after `after` */
    unsigned limit;    /* 1 to 1000 */
};
/* ret: owned by caller, each done. */
int session_query(struct sessions *s, const struct actor *who,
                  const struct session_filter *filter,
                  struct session_info **ret, size_t *ret_count, bool *ret_more,
                  struct error *err);
/* Newest first; after: an id or NULL. ret: owned by caller, each done. */
int session_list(struct sessions *s, const struct actor *who, unsigned limit,
                 const char *after, struct session_info **ret,
                 size_t *ret_count, bool *ret_more, struct error *err);
int session_delete(struct sessions *s, const struct actor *who, const char *id,
                   struct error *err);
/* Changes who sees the session, from the next call on. ERR_FORBIDDEN for
 * anyone but its owner and admins of the tenant, and for a credential that is
 * bound to sessions or workspaces; ERR_CONFLICT when its identifier is taken
 * where it would belong then. */
int session_share(struct sessions *s, const struct actor *who, const char *id,
                  enum session_sharing sharing, struct session_info *ret,
                  struct error *err);
/* Fresh interpreter, files kept. Cancels what runs or waits. */
int session_reset(struct sessions *s, const struct actor *who, const char *id,
                  struct session_info *ret, struct error *err);
/* Puts it to sleep with its memory, once what runs has ended. ERR_CONFLICT
 * when it is used for longer, or when its memory cannot be kept; then it stays
 * up. One that sleeps already stays as it is. */
int session_hibernate(struct sessions *s, const struct actor *who,
                      const char *id, struct session_info *ret,
                      struct error *err);
/* Undoes, or redoes, executions: memory and files as they were before them.
 * Files that others changed since stay as they are. ERR_CONFLICT: there is no
 * such state. */
struct session_undone {
    uint32_t executions;
    bool redo;
    char commit[ID_MAX]; /* that has the files; "" : none changed */
    uint32_t files;      /* that it changed */
    uint32_t refreshed;  /* files that changed in the sandbox */
    struct buf kept;     /* paths that others changed, one a line */
    uint32_t kept_count;
    bool helpers; /* interpreters of other languages keep their variables */
    struct session_info session;
};
int session_undo(struct sessions *s, const struct actor *who, const char *id,
                 uint32_t count, bool redo, struct session_undone *ret,
                 struct error *err);
void session_undone_done(struct session_undone *u);
/* Makes sessions that continue from the memory and the files of this one, all
 * or none. ERR_CONFLICT: its memory cannot be copied. ret: owned by caller,
 * each done. */
#define SESSION_BRANCHES_MAX 64u
struct session_branch_spec {
    const char *at;   /* exec_…: the state after it; NULL: the present one */
    const char *name; /* of the new ones; with a number if there are several */
    uint32_t count;   /* 1 to SESSION_BRANCHES_MAX */
};
int session_branch(struct sessions *s, const struct actor *who, const char *id,
                   const struct session_branch_spec *spec,
                   struct session_info **ret, size_t *ret_count,
                   struct error *err);
/* Commits what changed in the files of a branch to the workspace that it was
 * branched from, as a session that had worked there: what others changed stays
 * and conflicts are kept beside. ret: workspace_commit_done. */
int session_merge(struct sessions *s, const struct actor *who, const char *id,
                  struct workspace_commit *ret, char ret_workspace[ID_MAX],
                  struct error *err);
/* Brings commits of others to the workspace into the live session; ret_count:
 * files changed or removed in it. A dormant one sees them when it wakes. */
int session_refresh(struct sessions *s, const struct actor *who,
                    const char *id, uint32_t *ret_count,
                    struct session_info *ret, struct error *err);
/* Interrupts what runs now, if anything; state is kept. */
int session_interrupt(struct sessions *s, const struct actor *who,
                      const char *id, struct error *err);

/* ---- pools; see pool/pool.h ---------------------------------------------
 */

/* One of the configuration: ERR_CONFLICT. A change holds for sandboxes made
 * from now on. */
int session_pool_put(struct sessions *s, const struct actor *who,
                     enum pool_put how, const struct pool_spec *spec,
                     bool *ret_made, struct pool_info *ret, struct error *err);
/* name NULL: the first. */
int session_pool_get(struct sessions *s, const struct actor *who,
                     const char *name, struct pool_info *ret,
                     struct error *err);
/* The configuration's as it has them, then the others by name; owned by
 * caller, each done. */
int session_pool_list(struct sessions *s, const struct actor *who,
                      struct pool_info **ret, size_t *ret_count,
                      struct error *err);
/* With its sessions; their workspaces stay. */
int session_pool_remove(struct sessions *s, const struct actor *who,
                        const char *name, struct error *err);

/* ---- files: through the session's own broker --------------------------- */

struct session_file {
    char *path; /* owned */
    uint64_t size;
    int64_t modified_at_ms;
    char file[ID_MAX], version[ID_MAX]; /* "" when not committed (yet) */
    char sha256[65];
};

/* Path rules (F5) are checked here: relative, UTF-8, no control characters,
 * no empty, "." or ".." part, 1024 bytes, 255 a part, 32 deep. */
int session_files_list(struct sessions *s, const struct actor *who,
                       const char *id, unsigned limit, const char *after,
                       struct session_file **ret, size_t *ret_count,
                       bool *ret_more, struct error *err);
void session_files_free(struct session_file *files, size_t count);
/* ret_fd: a regular file open for reading, owned by caller. */
int session_files_open(struct sessions *s, const struct actor *who,
                       const char *id, const char *path, int *ret_fd,
                       struct stat *ret_stat, struct error *err);

struct session_upload;
/* The file appears under its name, whole, at commit; else not at all. The
 * session stays awake meanwhile. */
int session_upload_begin(struct sessions *s, const struct actor *who,
                         const char *id, const char *path,
                         struct session_upload **ret, struct error *err);
/* Before the first byte: so many at most, whatever upload_bytes says. */
void session_upload_most(struct session_upload *u, uint64_t bytes);
/* It is to be a file of its own: if one has its name by the time it is
 * committed, it is `other` instead. Of a session that keeps nothing the last
 * one of a name stays. */
int session_upload_new(struct session_upload *u, const char *other,
                       struct error *err);
int session_upload_write(struct session_upload *u, const void *bytes,
                         size_t len, struct error *err);
/* Committed to the workspace and there in the session when it returns; frees
 * u. ret: path owned by caller (free). */
int session_upload_commit(struct session_upload *u, struct session_file *ret,
                          struct error *err);
void session_upload_abort(struct session_upload *u);
int session_files_remove(struct sessions *s, const struct actor *who,
                         const char *id, const char *path, struct error *err);

/* ---- several nodes; see node/node.h ------------------------------------- */

struct node_load;
/* Adds what this node has awake, queued and ready. */
void sessions_node_load(struct sessions *m, struct node_load *ret);
/* Puts what is idle to sleep and forgets it, so that other nodes wake it. */
void sessions_drain(struct sessions *m);
/* Ends every sandbox at once: nothing is committed any more. */
void sessions_lost(struct sessions *m);

/* ---- what operators see --------------------------------------------------
 */

/* How an execution ended; see execution/. */
enum exec_outcome {
    OUTCOME_NONE, /* not completed */
    OUTCOME_OK,
    OUTCOME_ERROR,
    OUTCOME_TIMEOUT,
    OUTCOME_OOM,
    OUTCOME_KILLED,
    OUTCOME_LIMIT,
    OUTCOME_CRASHED,
    OUTCOME_CANCELLED,
    OUTCOME_DENIED,
    OUTCOME_ISOLATION_FAILED,
    OUTCOME_LOST, /* the node that ran it stopped answering */
};

#define SESSION_HISTOGRAM_BUCKETS 14

struct session_histogram { /* upper bounds in session_histogram_bounds_ms */
    uint64_t buckets[SESSION_HISTOGRAM_BUCKETS + 1];
    uint64_t sum_us;
    uint64_t count;
};

extern const double session_histogram_bounds_ms[SESSION_HISTOGRAM_BUCKETS];

/* hibernated, not_hibernated, resumed, not_resumed, undone, redone, branched
 */
#define SESSION_MEMORY_EVENTS 7
const char *session_memory_event_name(size_t number);

struct session_metrics {
    uint64_t by_state[SESSION_ENDED + 1];
    uint64_t outcomes[OUTCOME_LOST + 1];
    uint64_t refusals_limit, refusals_busy;
    uint64_t created, deleted, woken, expired;
    uint64_t made_room; /* went to sleep so that another could start */
    uint64_t memory[SESSION_MEMORY_EVENTS];
    uint64_t ready_taken, ready_missed; /* from the ready pool, or made */
    uint64_t executions_active;         /* queued or running */
    uint64_t memory_granted;            /* to live sessions, together */
    struct session_histogram start;     /* creating a session */
    struct session_histogram execution;
    struct {
        char name[64];
        uint32_t ready, wanted, sessions;
    } pools[32];
    size_t pool_count;
};

void sessions_metrics(struct sessions *s, struct session_metrics *ret);

#endif
