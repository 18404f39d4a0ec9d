/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/pool/. A pool created while the service runs is found by name in
 * pools.made, which holds a reference; each of its sessions holds another, and
 * so does each caller that works with it. A reference is enough to read its
 * settings. Therefore a change adds settings and points pool.conf at them; the
 * old ones are freed with the pool, or once only the table refers to it.
 *
 * Locks: change_lock is taken before all other locks of the service, for one
 * change of the created pools at a time, and is held over calls of the store.
 * lock protects the table and the ready boxes; no other lock is taken inside
 * it. runtime.lock is held while the warden registers a runtime.
 */
#ifndef GLOVEBOX_POOL_POOL_INT_H
#define GLOVEBOX_POOL_POOL_INT_H

#include "audit/audit.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/thread.h"
#include "box/box.h"
#include "conf/conf.h"
#include "pool/pool.h"
#include "warden/call.h"

#define POOL_NAME_MAX 63u
#define POOL_ALLOW_MAX 4096u /* bytes of egress_allow */
#define POOL_READY_MAX 100u
#define POOL_READY_USUAL 4u /* of a pool that sets none */
#define POOL_SESSIONS_MAX 100000u
#define POOL_COOLDOWN_MAX_S (30u * 86400u)
#define POOL_MEMORY_MIN (64ull << 20) /* or the first pool's, if less */
#define POOL_SETTINGS_MAX 1000u       /* kept at once, of one pool */

#define POOL_ADOPTED_MAX 8u /* imported images that no configured pool has */

struct store_tx;

struct pool_settings {
    struct pool_settings *next;
    struct conf_pool conf; /* strings: the pool's, or of the configuration */
    char *egress_allow;    /* this one its own */
};

struct pool_made {
    atomic_uint refs;
    char name[POOL_NAME_MAX + 1];
    char tenant[64];
    /* pools.lock: */
    struct pool_settings *settings; /* all that are kept */
    unsigned settings_count;
    enum pool_kind kind;
    char *details; /* or NULL */
    int64_t created_at_ms, updated_at_ms;
    int64_t max_timeout_s; /* of its row */
};

struct runtime {
    const char *name; /* borrowed from conf, or adopted */
    bool adopted;     /* the name is owned */
    bool zygote;
    struct mutex lock;
    bool known; /* lock: the warden has it */
    uint32_t handle;
    char image[128];            /* lock: the folder the warden was told */
    atomic_bool up;             /* a sandbox of it has started once */
    _Atomic uint32_t languages; /* 0: not looked for yet */
};

struct pool {
    const struct conf_pool *_Atomic conf; /* its name never changes */
    struct runtime *_Atomic runtime;
    atomic_uint sessions;
    struct pool_made *made; /* NULL: of the configuration */
    atomic_bool gone;       /* being removed: no session of it appears; set
                               under the lock given to remove */
    /* pools.lock: */
    struct warden_limits limits; /* of the ready ones */
    unsigned changes;            /* of limits and runtime, so far */
    struct box **ready;          /* room for the most it may want */
    unsigned ready_count;
    uint64_t last_take_ms;
    uint64_t not_before_ms; /* after a failure */
    uint32_t backoff_ms;    /* 0: the last one worked */
};

struct pools {
    struct pools_parts parts;
    const struct conf *conf;           /* of parts */
    struct pool pools[CONF_POOLS_MAX]; /* configured */
    size_t pool_count;
    struct mutex change_lock;
    struct mutex lock;
    struct cond cond;                  /* the refill thread has work */
    struct pool *made[POOLS_MADE_MAX]; /* lock: by name; each referenced */
    size_t made_count;                 /* lock */
    struct runtime runtimes[CONF_POOLS_MAX + POOL_ADOPTED_MAX];
    _Atomic size_t runtime_count; /* grows, under change_lock */
    uint64_t wanting_ms;  /* lock: since when one is missing; 0: none */
    uint64_t looked_ms;   /* refill thread: at the images */
    uint32_t image_swaps; /* refill thread: as the warden counts them */
    struct thread refill;
};

/* What its row holds, and what a spec comes to. */
struct pool_row {
    char name[POOL_NAME_MAX + 1];
    char tenant[64];
    char made_by[ID_MAX];
    enum pool_kind kind;
    char runtime[64];
    bool ephemeral;
    int64_t ready, max_sessions, cooldown_s, memory_bytes;
    int64_t max_timeout_s; /* 0: as the first pool has them */
    char *details;         /* owned; or NULL */
    int64_t created_at_ms, updated_at_ms;
    enum session_egress egress;
    char *egress_allow; /* owned */
    bool packages;
    enum session_sharing sharing;
};

void pool_row_done(struct pool_row *row); /* for cleanup() */

/* table.c. For these change_lock is held, or no other thread exists yet. */
struct pool *pools_made_find(struct pools *ps, const char *name);
bool pools_configured(const struct pools *ps, const char *name);
void pools_made_add(struct pools *ps, struct pool *pool);
void pools_made_drop(struct pools *ps, struct pool *pool);
/* ret: details owned by caller. */
void pools_info(struct pools *ps, struct pool *pool, struct pool_info *ret);

/* change.c */
int pools_name_check(const char *name, struct error *err);
/* The row that the spec makes of `old`, or of the first pool when that is
 * NULL; ERR_INVALID, ERR_LIMIT. ret: done by caller either way. */
int pools_spec_row(struct pools *ps, const struct pool_spec *spec,
                   struct pool *old, struct pool_row *ret, struct error *err);
/* A row of an earlier run, made to fit the configuration of this one. */
void pools_row_fit(struct pools *ps, struct pool_row *row);
/* Of a configured pool; started as the first pool's is, if some pool's is. */
struct runtime *pools_runtime(struct pools *ps, const char *name);

/* A pool of the row, referenced once. */
struct pool *pools_make(struct pools *ps, const struct pool_row *row);
/* Puts the row in force in a pool that is there, in two steps: the first may
 * fail, ERR_LIMIT, the second not. */
int pools_settings(struct pools *ps, struct pool *pool,
                   const struct pool_row *row,
                   const struct pool_settings **ret, struct error *err);
void pools_apply(struct pools *ps, struct pool *pool,
                 const struct pool_row *row,
                 const struct pool_settings *settings);
void pools_settings_free(struct pool_settings *s);

/* Each is one transaction with its event of the trail. */
int pools_rows_insert(struct pools *ps, const struct actor *who,
                      const struct pool_row *row, struct error *err);
int pools_rows_update(struct pools *ps, const struct actor *who,
                      const struct pool_row *row, struct error *err);
int pools_rows_delete(struct pools *ps, const struct actor *who,
                      const char *name, size_t sessions, struct error *err);
/* Rows, read at the start. */
int pools_load(struct pools *ps, struct error *err);

/* ready.c */
/* Puts settings in force (borrowed while the pool exists) and releases ready
 * boxes that do not fit them. */
void pool_set(struct pools *ps, struct pool *pool,
              const struct conf_pool *conf, struct runtime *runtime,
              const struct warden_limits *limits);
/* Releases all ready boxes; a pool that is gone gets no new ones. */
void pool_empty(struct pools *ps, struct pool *pool);
/* Releases every sandbox kept ready; those being made are not kept. */
void pools_renew(struct pools *ps);

/* table.c. All pools, configured ones first; lock is held. */
size_t pools_count(const struct pools *ps);
struct pool *pools_at(struct pools *ps, size_t i);

/* runtime.c */
void runtimes_init(struct pools *ps);
/* Tells the warden of images that were built since, and drops sandboxes kept
 * ready of earlier ones. No lock is held. */
void runtimes_look(struct pools *ps);
void runtimes_done(struct pools *ps);

/* An imported image as a runtime that made pools may have; NULL: there is no
 * such image, or no room. change_lock is held. */
struct runtime *runtime_adopt(struct pools *ps, const char *name);

#endif
