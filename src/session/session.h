/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product, first half: pools, sessions and executions. Doors call these
 * functions and nothing below them. Every call names the tenant; an id of
 * another tenant is answered exactly as an unknown one (ERR_NOT_FOUND).
 * Any thread may call; executions of one session take turns in the order
 * they came, sessions run in parallel.
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

#include "base/ids.h"
#include "govern/govern.h"
#include "pool/pool.h"

struct actor;
struct approval_info;
struct arena;
struct egress_link;
struct evidence;
struct quotas;
struct session_attach;
struct session_file;
struct vault;
struct conf;
struct error;
struct sessions;
struct execution;
struct warden_link;
struct workspaces;

/* ---- the manager -------------------------------------------------------- */

/* Who decides, counts and remembers besides; borrowed until close. One that
 * is NULL, or no struct at all (unit tests), allows, counts nothing, keeps
 * nothing. */
struct sessions_parts {
    struct govern govern; /* policy and approvals */
    struct quotas *quotas;
    struct evidence *evidence;
    struct vault *vault;
    struct egress_link *egress;
    struct disk *disk; /* or NULL */
};

/* conf, link, workspaces: borrowed until close. Starts zygotes, the ready
 * pools and the reaper thread; returns before they are warm. Sessions of
 * earlier runs are there again, dormant. */
int sessions_open(const struct conf *conf, struct warden_link *link,
                  struct workspaces *workspaces,
                  const struct sessions_parts *parts, struct sessions **ret,
                  struct error *err);
/* Refuses new work, lets what runs finish until the deadline, cancels the
 * rest, ends every session. Calls may still come; they are refused. */
void sessions_stop(struct sessions *s, unsigned deadline_s);
/* Stops, if that was not done, and frees; no call may come any more. */
void sessions_close(struct sessions *s, unsigned deadline_s);
/* Until it is opened again no session is made or used: check is the one of
 * the gate (posture/) that fails, NULL: open. */
void sessions_gate(struct sessions *s, const char *check, const char *why);
/* True once every pool could start a session (a zygote is up). */
bool sessions_ready(struct sessions *s);

/* ---- sessions ----------------------------------------------------------- */

enum session_state {
    SESSION_STARTING, /* a sandbox is being made */
    SESSION_IDLE,     /* sandbox up, nothing runs */
    SESSION_RUNNING,  /* an execution runs */
    SESSION_DORMANT,  /* no sandbox; files kept; the next call wakes it */
    SESSION_ENDED,    /* deleted */
};

/* Who in the tenant sees and uses a session; see sharing.c. */
struct session_spec {
    const char *pool;    /* NULL: the first */
    const char *name;    /* NULL: none; at most 128 bytes */
    const char *runtime; /* NULL: the pool's; else must be it or one that is
                            configured in another pool */
    struct session_limits limits;
    const char *metadata;  /* JSON object text, at most 16 KiB, or NULL */
    const char *workspace; /* ws_… to share; NULL: one of its own */
    bool ephemeral;        /* nothing is kept after its end; also when the
                              pool says so */
    bool transient;        /* of a single run: not kept over a restart, and its
                              workspace only made when there is a file to keep */
    bool container;        /* its id is to be a cntr_… one */
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
    const struct session_network *network; /* NULL: the pool's */
    /* Has who asked gone away? Then nobody would know of it, and it is not
     * made. NULL: it is made all the same. */
    bool (*left)(void *ctx);
    void *left_ctx;
};

/* ---- network.c: what a session's code may reach -------------------------
 * Nothing, unless it is granted; then only through the proxy (egress/). A
 * change holds at once, for what runs too.
 */

#define SESSION_DESTINATIONS_MAX 100u
#define SESSION_PORTS_MAX 8

struct session_destination {
    const char *host;                  /* "example.org", "*.example.org" */
    uint16_t ports[SESSION_PORTS_MAX]; /* 0: end; none: 80 and 443 */
    const char *methods;               /* "GET,HEAD"; NULL: any */
    const char *path;                  /* a prefix; NULL: any */
    const char *secret;                /* of vault/; NULL: none */
    bool inspect; /* TLS is taken apart by the proxy, under a certificate
                     authority of this session's own; needed for methods,
                     path or secret on https */
};

struct session_network {
    enum session_egress mode;
    const struct session_destination *destinations;
    size_t destination_count;
    bool packages;  /* pip may install what policy allows */
    uint64_t bytes; /* budgets; 0: the pool's */
    uint32_t connections, requests;
};

/* What pip was let install, as long as the session is kept. */
struct session_package {
    const char *name, *version, *sha256;
    int64_t at_ms;
};

struct session_network_info {
    struct session_network net; /* hosts are canonical */
    bool granted;               /* in force now */
    char problem[200];          /* why it is not, though it should be; or "" */
    uint64_t bytes_used, requests_used;
    const struct session_package *installed;
    size_t installed_count;
    int64_t permitted;  /* the policy's version that let it */
    struct arena *room; /* what all this points into */
};
void session_network_info_done(struct session_network_info *info);

/* network_json.c: {"mode": …, "destinations": […], …} and back; shapes only,
 * what may be is the core's to say. room: borrowed, has what ret points to. */
struct api_resource;
struct json_t;
struct json_writer;
extern const struct api_resource session_network_spec,
    session_destination_spec;
int session_network_read(const struct json_t *object, struct arena *room,
                         struct session_network *ret, struct error *err);
/* Its fields, into an open object. */
void session_network_write(struct json_writer *w,
                           const struct session_network *net);

int session_network_get(struct sessions *s, const struct actor *who,
                        const char *id, struct session_network_info *ret,
                        struct error *err);
/* A network wider than the pool's needs a rule of the policy that allows it,
 * or a key with policy:admin. Policy may deny or hold it (ERR_APPROVAL).
 * ERR_UNAVAILABLE: it is set, and cannot be put in force now; until it can,
 * the session has no network. */
int session_network_set(struct sessions *s, const struct actor *who,
                        const char *id, const struct session_network *net,
                        struct session_network_info *ret, struct error *err);
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
/* The session of spec->identifier in spec->pool; made if there is none (then
 * *ret_made). The caller's own one comes first; a shared one that another
 * principal made is found only where sharing with the tenant is the default.
 * Of two callers at once one makes it and both get it. Counts as
 * a use; wakes nothing. One that is over is given as it is. */
int session_ensure(struct sessions *s, const struct actor *who,
                   const struct session_spec *spec, bool *ret_made,
                   struct session_info *ret, struct error *err);
/* Neither makes it nor counts as a use. pool: NULL for the first. */
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

/* ---- executions --------------------------------------------------------- */

enum exec_language {
    EXEC_PYTHON,
    EXEC_SHELL
};

enum exec_status {
    EXEC_QUEUED,
    EXEC_RUNNING,
    EXEC_COMPLETED,
    EXEC_PENDING /* held until somebody has approved it */
};

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
};

#define EXEC_TIMEOUT_MIN_S 5u /* the least a client may ask for */

struct exec_spec {
    enum exec_language language;
    const char *code;
    size_t code_len;
    uint32_t timeout_s; /* 0: the pool's default */
    bool report; /* a command of ours that may take as long as Python may */
    bool fresh;  /* on an interpreter that has run nothing; files stay */
    /* session_execute: has who waits for it gone? Asked twice a second while
     * it waits or runs, on that thread; it is cancelled then. NULL: it goes on
     * whoever listens. */
    bool (*left)(void *ctx);
    void *left_ctx;
    const char *metadata;               /* JSON object text or NULL */
    const char *conversation, *message; /* from metadata, or NULL */
    const char *const *lock_tokens;     /* locks it may write through */
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
int session_execute(struct sessions *s, const struct actor *who,
                    const char *id, const struct exec_spec *spec,
                    struct execution **ret, struct error *err);
/* Queues it, to be run by a thread of `submit`; ret: referenced. */
typedef int session_submit_fn(void *ctx, void (*job)(void *arg), void *arg);
int session_submit(struct sessions *s, const struct actor *who, const char *id,
                   const struct exec_spec *spec, session_submit_fn *submit,
                   void *submit_ctx, struct execution **ret,
                   struct error *err);
int execution_find(struct sessions *s, const struct actor *who, const char *id,
                   struct execution **ret, struct error *err);
/* At the start: held ones whose session did not live on are ended. */
int session_pending_resume(struct sessions *m, struct error *err);
/* Runs a held one that has been approved, or ends it as denied; called by
 * approval/ (its approvals_fn; ctx is the manager), also after a restart. */
int session_pending_decided(void *ctx, const struct approval_info *info);
int execution_cancel(struct sessions *s, const struct actor *who,
                     const char *id, struct error *err);
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
    EXEC_FILE_LOCKED,   /* not committed: someone else holds the lock */
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

/* What code tried to reach and did not; and what it reached (allowed). */
struct exec_connection {
    int64_t at_ms;
    const char *what; /* "connect", "resolve", "http", "tunnel", "package" */
    const char *host;
    uint16_t port;
    bool allowed;
    const char *method, *path; /* "" none */
    const char *reason;        /* of a refusal */
    uint32_t count;
    uint64_t bytes_out, bytes_in;
};

/* A copy of the scalar fields; strings borrowed while e is referenced and
 * stable once completed. */
struct exec_info {
    char id[ID_MAX];
    char session[ID_MAX];
    enum exec_language language;
    enum exec_status status;
    enum exec_outcome outcome;
    bool interpreter_fresh; /* it ran on a new interpreter */
    bool interpreter_lost;  /* the next one will */
    bool truncated_stdout, truncated_stderr, truncated_displays;
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
    const struct exec_file_change *files;
    size_t file_count;
    bool files_truncated;  /* more changed than are listed; all are kept */
    size_t files_not_kept; /* the session has them, the workspace does not:
                              refused now, or before and still */
    const char *commit;    /* cmt_…, or "" when nothing was committed */
    char workspace[ID_MAX];
    enum session_egress egress; /* what it could reach, at its end */
    /* These three, and the next three, once it is completed. */
    const struct exec_connection *connections;
    size_t connection_count;
    bool connections_truncated;
    const char *const *reads; /* paths below /mnt/data that Python opened for
                                 reading, as told by the session itself */
    size_t read_count;
    bool reads_truncated;
    const struct policy_decision *decision; /* NULL: nobody was asked */
    char approval[ID_MAX];                  /* apr_… or "" */
    uint32_t repeats; /* the same code had failed so often in a row */
};

void execution_info(struct execution *e, struct exec_info *ret);
const char *exec_outcome_name(enum exec_outcome outcome);
const char *exec_status_name(enum exec_status status);

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

/* ---- what operators see --------------------------------------------------
 */

#define SESSION_HISTOGRAM_BUCKETS 14

struct session_histogram { /* upper bounds in session_histogram_bounds_ms */
    uint64_t buckets[SESSION_HISTOGRAM_BUCKETS + 1];
    uint64_t sum_us;
    uint64_t count;
};

extern const double session_histogram_bounds_ms[SESSION_HISTOGRAM_BUCKETS];

struct session_metrics {
    uint64_t by_state[SESSION_ENDED + 1];
    uint64_t outcomes[OUTCOME_ISOLATION_FAILED + 1];
    uint64_t refusals_limit, refusals_busy;
    uint64_t created, deleted, woken, expired;
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
