/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/session/pools*.c: pools made while the service runs.
 *
 *   pools.c         the table: find, reference, show, list
 *   pools_put.c     create and change; settings in force; rows
 *   pools_remove.c  remove, with all sessions
 *
 * A pool is found by name in sessions.made, which holds a reference; each of
 * its sessions holds another, and whoever works with it. Its settings are
 * read without a lock by whoever holds one. So a change adds settings and
 * points pool.conf at them; the old ones are freed when nobody but the table
 * refers to the pool, or with it.
 */
#ifndef GLOVEBOX_SESSION_POOLS_INT_H
#define GLOVEBOX_SESSION_POOLS_INT_H

#include "session/session_int.h"

#define POOL_NAME_MAX 63u
#define POOL_ALLOW_MAX 4096u /* bytes of egress_allow */
#define POOL_READY_MAX 100u
#define POOL_READY_USUAL 4u /* of one that asks for nothing */
#define POOL_SESSIONS_MAX 100000u
#define POOL_COOLDOWN_MAX_S (30u * 86400u)
#define POOL_MEMORY_MIN (64ull << 20) /* or the first pool's, if less */
#define POOL_SETTINGS_MAX 1000u       /* kept at once, of one pool */

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
    /* pool_lock: */
    struct pool_settings *settings; /* all that are kept */
    unsigned settings_count;
    enum pool_kind kind;
    char *details; /* or NULL */
    int64_t created_at_ms, updated_at_ms;
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
    char *details; /* owned; or NULL */
    int64_t created_at_ms, updated_at_ms;
    enum session_egress egress;
    char *egress_allow; /* owned */
    bool packages;
    enum session_sharing sharing;
};

void pool_row_done(struct pool_row *row); /* for cleanup() */

/* pools.c. For these pools_lock is held, or nobody else is there yet. */
struct pool *pools_made_find(struct sessions *m, const char *name);
bool pools_configured(const struct sessions *m, const char *name);
void pools_made_add(struct sessions *m, struct pool *pool);
void pools_made_drop(struct sessions *m, struct pool *pool);
/* ret: details owned by caller. */
void pools_info(struct sessions *m, struct pool *pool, struct pool_info *ret);

/* pools_put.c */
int pools_name_check(const char *name, struct error *err);
/* The row that the spec makes of `old`, or of the first pool when that is
 * NULL; ERR_INVALID, ERR_LIMIT. ret: done by caller either way. */
int pools_spec_row(struct sessions *m, const struct pool_spec *spec,
                   struct pool *old, struct pool_row *ret, struct error *err);
/* A row of an earlier run, made to fit the configuration of this one. */
void pools_row_fit(struct sessions *m, struct pool_row *row);
/* Of a configured pool; started as the first pool's is, if some pool's is. */
struct runtime *pools_runtime(struct sessions *m, const char *name);

/* A pool of the row, referenced once. */
struct pool *pools_make(struct sessions *m, const struct pool_row *row);
/* Puts the row in force in a pool that is there, in two steps: the first may
 * fail, ERR_LIMIT, the second not. */
int pools_settings(struct sessions *m, struct pool *pool,
                   const struct pool_row *row,
                   const struct pool_settings **ret, struct error *err);
void pools_apply(struct sessions *m, struct pool *pool,
                 const struct pool_row *row,
                 const struct pool_settings *settings);
void pools_settings_free(struct pool_settings *s);

/* network_spec.c: may whoever asks give a pool that network? ERR_INVALID for
 * destinations that are none. */
int pools_network_permit(struct sessions *m, const struct actor *who,
                         const struct pool_row *row, struct error *err);

/* Each is one transaction with its event of the trail. */
int pools_rows_insert(struct sessions *m, const struct actor *who,
                      const struct pool_row *row, struct error *err);
int pools_rows_update(struct sessions *m, const struct actor *who,
                      const struct pool_row *row, struct error *err);
int pools_rows_delete(struct sessions *m, const struct actor *who,
                      const char *name, size_t sessions, struct error *err);

#endif
