/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: settings that sessions share, and sandboxes kept ready for them.
 * Configured pools belong to no tenant and are visible to all; others are
 * created while the service runs, belong to a tenant and are stored. Another
 * tenant's pool is answered as an unknown one. Names are unique in the
 * service.
 *
 *   table.c     find, reference, show, list
 *   change.c    create, change and remove; settings in force; rows
 *   ready.c     ready sandboxes, refilled by the thread "pool-refill"
 *   runtime.c   runtimes and their handles at the warden
 *   settings.c  names of settings, and the limits that a pool grants
 *
 * Any thread may call. Holding a reference is enough to read a pool's settings
 * without a lock; pool_int.h says how.
 */
#ifndef GLOVEBOX_POOL_POOL_H
#define GLOVEBOX_POOL_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "language/language.h"

struct actor;
struct audit;
struct box;
struct conf;
struct conf_pool;
struct error;
struct mutex;
struct pool;
struct pools;
struct runtime;
struct store;
struct warden_limits;
struct warden_link;

/* ---- settings.c --------------------------------------------------------- */

/* Who in the tenant sees and uses a session. */
enum session_sharing {
    SESSION_SHARING_DEFAULT,   /* not chosen: the next setting decides */
    SESSION_SHARING_PRINCIPAL, /* its owner, and admins of the tenant */
    SESSION_SHARING_TENANT     /* every principal of the tenant */
};
/* "default", "principal", "tenant". */
const char *session_sharing_name(enum session_sharing sharing);
/* -ERR_INVALID: no such name. NULL and "" are the default. */
int session_sharing_parse(const char *name, enum session_sharing *ret);

/* What code in a session may reach. */
enum session_egress {
    SESSION_EGRESS_NONE,
    SESSION_EGRESS_ALLOWLIST,
    SESSION_EGRESS_OPEN /* every public address; logged as a warning */
};
#define SESSION_OPEN_MEANS                                                    \
    "untrusted code can send what it sees to any public address"
extern const char *const session_egress_names[]; /* ended by NULL */
const char *session_egress_name(enum session_egress mode);
int session_egress_parse(const char *name, enum session_egress *ret);

struct session_limits { /* 0: the pool's */
    uint64_t memory_bytes;
    uint64_t scratch_bytes;
    uint32_t scratch_inodes;
    uint32_t processes;
    uint32_t cores;
    uint32_t descriptors;
};
/* The limits of a session in the pool; ERR_INVALID: more than it permits. */
int pool_limits_grant(const struct conf_pool *pool,
                      const struct session_limits *asked,
                      struct warden_limits *ret, struct error *err);

/* ---- the module --------------------------------------------------------- */

struct pools_parts { /* all borrowed */
    const struct conf *conf;
    struct warden_link *link;
    struct store *store;
    struct audit *audit;
    const atomic_bool *stopping; /* set before pools_stop */
    const atomic_uint *live;     /* sessions with a sandbox */
    const atomic_uint *active;   /* executions queued or running */
};

/* Reads the rows; on failure *ret is set too, to be closed. */
int pools_open(const struct pools_parts *parts, struct pools **ret,
               struct error *err);
int pools_start(struct pools *ps, struct error *err); /* refilling */
void pools_stop(struct pools *ps);  /* and releases the ready boxes */
void pools_close(struct pools *ps); /* accepts NULL */
/* Has every configured pool started a sandbox once? */
bool pools_ready(struct pools *ps);

struct pool_gauge {
    char name[64];
    uint32_t ready, wanted, sessions;
};
/* Configured pools first, at most max; returns how many. */
size_t pools_gauges(struct pools *ps, struct pool_gauge *ret, size_t max);

/* ---- table.c: one pool -------------------------------------------------- */

/* Referenced, or NULL: unknown or another tenant's. name NULL: the first. A
 * pool that is being removed is found too. A session holds a reference. */
struct pool *pool_find(struct pools *ps, const char *tenant, const char *name);
/* The same for an actor: a pool that it is not bound to is unknown, and
 * without a name it is the first that it is bound to. */
struct pool *pool_open(struct pools *ps, const struct actor *who,
                       const char *name);
struct pool *pool_ref(struct pool *pool);
void pool_unref(struct pool *pool);   /* accepts NULL */
void pool_unrefp(struct pool **pool); /* for cleanup() */
/* ERR_INVALID, as for an unknown one, if it is NULL or being removed. */
int pool_check(const struct pool *pool, struct error *err);
bool pool_is_gone(const struct pool *pool); /* being removed */
/* Its settings now; the name never changes. */
const struct conf_pool *pool_conf(const struct pool *pool);
/* Live sessions, counted by their owner. */
unsigned pool_sessions(const struct pool *pool);
void pool_sessions_add(struct pool *pool, int delta);

/* A ready box with exactly these settings, referenced, or NULL. */
struct box *pool_take(struct pools *ps, struct pool *pool,
                      const struct runtime *runtime,
                      const struct warden_limits *limits);

/* ---- runtime.c ---------------------------------------------------------- */

/* The runtime of a pool for name NULL; NULL if no pool has that runtime. */
struct runtime *runtime_find(struct pools *ps, struct pool *pool,
                             const char *name);
const char *runtime_name(const struct runtime *rt);
/* Sessions are forks of one zygote (zygote: true). Only then another sandbox
 * can continue the memory of a session. */
bool runtime_forks(const struct runtime *rt);
/* The warden's handle; asks the image cache again until it is known. */
int runtime_handle(struct pools *ps, struct runtime *rt, uint32_t *ret,
                   struct error *err);
void runtime_set_up(struct runtime *rt); /* a sandbox of it has started */
/* What its image offers: bits of LANGUAGE_BIT; 0 while it is not built. */
uint32_t runtime_languages(const struct conf *conf, struct runtime *rt);
/* Names of built runtimes that offer it: "standard" or "full or mine"; NULL:
 * none. Owned by caller. */
char *runtime_with_language(const struct conf *conf, enum exec_language which);

/* ---- change.c ----------------------------------------------------------- */

enum pool_kind {
    /* What a door that names no language runs. Stored as numbers. */
    POOL_PYTHON,
    POOL_SHELL,
    POOL_JAVASCRIPT,
    POOL_CUSTOM, /* of an imported image: Python and commands */
    POOL_KINDS
};

#define POOLS_MADE_MAX 256u     /* in the service */
#define POOL_DETAILS_MAX 16384u /* bytes */
#define POOL_TIMEOUT_MIN_S 5u
#define POOL_TIMEOUT_MAX_S 86400u

/* NULL, -1, or 0 where that is no value: as the first pool of the
 * configuration has it, or as it was. */
struct pool_spec {
    const char *name;    /* [a-z0-9-]{1,63}, beginning with a letter */
    const char *runtime; /* one that some pool of the configuration has */
    int kind;            /* enum pool_kind */
    const char *persistence;
    int64_t ready, max_sessions, cooldown_s, memory_bytes;
    int64_t max_timeout_s; /* of an execution, whatever the language */
    const char *details;   /* a door's own JSON object, given back as it is */
    const char *egress;    /* "none", "allowlist", "open" */
    const char *egress_allow; /* "host[:port],…" */
    int packages;             /* 1: yes, -1: no, 0: as it was */
    const char *sharing;      /* "default", "principal", "tenant" */
};

struct pool_info {
    char name[64];
    char tenant[64]; /* "" : of the configuration */
    char runtime[64];
    enum pool_kind kind;
    bool zygote;
    bool ephemeral;
    uint32_t ready, ready_now, sessions, max_sessions, cooldown_s;
    uint32_t python_timeout_s, python_timeout_max_s;
    uint32_t shell_timeout_s, shell_timeout_max_s;
    uint64_t memory_bytes;
    int64_t created_at_ms, updated_at_ms; /* 0: of the configuration */
    char *details;                        /* owned by caller; may be NULL */
    enum session_egress egress;
    char *egress_allow; /* owned by caller */
    bool packages;
    enum session_sharing sharing; /* of its sessions that choose nothing */
};
void pool_info_done(struct pool_info *info);

enum pool_put {
    POOL_PUT,    /* make it, or change it */
    POOL_MAKE,   /* ERR_CONFLICT when it is there */
    POOL_CHANGE, /* ERR_NOT_FOUND when it is not */
};
/* May the actor give that pool its network? */
typedef int (*pools_permit_fn)(void *ctx, const struct actor *who,
                               const struct conf_pool *pool,
                               struct error *err);
/* A configured pool: ERR_CONFLICT. A change holds for sandboxes created from
 * now on. */
int pools_put(struct pools *ps, const struct actor *who, enum pool_put how,
              const struct pool_spec *spec, pools_permit_fn permit, void *ctx,
              bool *ret_made, struct pool_info *ret, struct error *err);
/* name NULL: the first. */
int pools_get(struct pools *ps, const struct actor *who, const char *name,
              struct pool_info *ret, struct error *err);
/* Configured pools in their order, then the others by name; owned by caller,
 * each done. */
void pools_list(struct pools *ps, const struct actor *who,
                struct pool_info **ret, size_t *ret_count);

/* Removing a pool. begin marks it gone, under `lock`, and returns it
 * referenced, or NULL with err set; its sessions are the caller's to end. end
 * deletes the row with its audit event and drops the pool; cancel makes it
 * usable again. */
struct pool *pools_remove_begin(struct pools *ps, const struct actor *who,
                                const char *name, struct mutex *lock,
                                struct error *err);
int pools_remove_end(struct pools *ps, const struct actor *who,
                     struct pool *pool, size_t sessions, struct error *err);
void pools_remove_cancel(struct pool *pool, struct mutex *lock);

#endif
