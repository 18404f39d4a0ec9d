/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/quota/: one struct of counts per tenant, under one lock that is
 * never held during I/O of the store.
 *
 *   quota.c         the table of quotas; taking, giving back, spending,
 * reading persist.c       limits of single tenants and use in windows, in the
 * store history.c       what tenants used, by the hour repeat_guard.c  code
 * that fails again and again in one session
 */
#ifndef GLOVEBOX_QUOTA_QUOTA_INT_H
#define GLOVEBOX_QUOTA_QUOTA_INT_H

#include "base/buf.h"
#include "base/ids.h"
#include "base/thread.h"
#include "quota/quota.h"

struct store_tx;

#define QUOTA_BUCKETS 1024u
#define QUOTA_TENANTS_MAX 65536u
#define QUOTA_SAVE_MS 3000u /* between two writes of usage */
/* The same where daemons share a store: as late a daemon knows what others
 * have spent. */
#define QUOTA_SHARE_MS 1000u
#define QUOTA_TOKEN 1000u /* of the creation bucket, for one creation */
#define QUOTA_BURST_S 2u  /* this many seconds' worth at once */

#define QUOTA_LOOP_FREE 10u /* failures in a row that cost nothing */
#define QUOTA_LOOP_FIRST_MS 1000u
#define QUOTA_LOOP_MOST_MS 60000u
#define QUOTA_LOOP_CODES 32u /* per session */
#define QUOTA_LOOP_SESSIONS 2048u
#define QUOTA_LOOP_BUCKETS 512u

enum quota_sort {
    SORT_HELD,   /* taken and given back */
    SORT_BUCKET, /* a rate */
    SORT_WINDOW, /* spent, and 0 again once its window is over */
    SORT_LIMIT,  /* counted elsewhere */
};

struct quota_def {
    const char *name;
    enum quota_sort sort;
    int64_t window_ms;
    int retry_s;        /* where no window says when */
    const char *full;   /* a sentence with the limit as its one number */
    const char *advice; /* its hint */
};
extern const struct quota_def quota_defs[QUOTA_KINDS];

struct quota_tenant {
    struct quota_tenant *next; /* in its bucket */
    char *name;
    uint64_t used[QUOTA_KINDS];
    /* The part of `used` that the store has; of a shared store, with what
     * other daemons have added. */
    uint64_t saved[QUOTA_KINDS];
    int64_t since_ms[QUOTA_KINDS]; /* a window's begin, by the real clock */
    bool dirty[QUOTA_KINDS];       /* to be written */
    bool own[QUOTA_KINDS];
    uint64_t most[QUOTA_KINDS]; /* if own */
    uint64_t tokens, tokens_at_ms;
    /* This hour and the one before, by the parity of their number: the saver
     * writes an hour long before its slot is needed again. */
    struct quota_hour hours[2];
    bool hour_dirty[2];
};

struct quota_loop_code {
    unsigned char hash[32];
    uint32_t failures; /* in a row; 0: free */
    uint64_t not_before_ms, noted_ms;
    bool told;
};

struct quota_loop {
    struct quota_loop *next;
    char session[ID_MAX];
    uint64_t noted_ms;
    struct quota_loop_code codes[QUOTA_LOOP_CODES];
};

struct quotas {
    struct quota_limits defaults;
    struct store *store; /* NULL: nothing is kept */
    struct audit *audit;
    /* Clocks; tests replace them. */
    int64_t (*real_ms)(void);
    uint64_t (*mono_ms)(void);

    struct mutex lock; /* taken last */
    struct quota_tenant *tenants[QUOTA_BUCKETS];
    size_t tenant_count;
    struct quota_loop *loops[QUOTA_LOOP_BUCKETS];
    size_t loop_count;
    uint64_t refusals[QUOTA_REFUSALS];

    struct mutex set_lock;  /* taken before lock: one quota_set at a time */
    struct mutex save_lock; /* taken before lock: one writer of usage */
    int64_t sampled_ms;     /* the hour whose storage is written; save_lock */
    struct worker saver;
};

/* quota.c; these four need the lock. NULL: there are too many. */
struct quota_tenant *quota_tenant(struct quotas *q, const char *name);
struct quota_tenant *quota_tenant_find(struct quotas *q, const char *name);
uint64_t quota_limit(const struct quotas *q, const struct quota_tenant *t,
                     enum quota_kind kind);
/* Starts the window again if it is over. */
void quota_window(const struct quotas *q, struct quota_tenant *t,
                  enum quota_kind kind);

/* persist.c */
int quota_persist_load(struct quotas *q, struct error *err);
int quota_persist_start(struct quotas *q, struct error *err);
void quota_persist_stop(struct quotas *q); /* and writes the rest */
void quota_persist_save(struct quotas *q);

/* history.c; the first two need the lock. */
void quota_history_add(const struct quotas *q, struct quota_tenant *t,
                       enum quota_kind kind, uint64_t amount);
void quota_history_collect(struct quota_tenant *t, struct buf *hours);
/* The hour whose storage has yet to be written; 0: none. Needs save_lock. */
int64_t quota_history_due(const struct quotas *q);
/* Writes what quota_history_collect gave, and the storage of all tenants for
 * the hour that is due; deletes what is too old. */
int quota_history_write(struct quotas *q, struct store_tx *tx, int64_t due,
                        const struct buf *hours, struct error *err);
/* Loads the newest hour, so that a restart continues it. */
int quota_history_load(struct quotas *q, struct store_tx *tx,
                       struct error *err);
/* The write failed; the next save tries again. Takes the lock. Empties. */
void quota_history_retry(struct quotas *q, struct buf *hours);
void quota_history_free(struct buf *hours);

/* repeat_guard.c */
void quota_repeats_done(struct quotas *q);

#endif
