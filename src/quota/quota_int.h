/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/quota/: one struct of counts a tenant, under one lock that is
 * never held over the store.
 *
 *   kinds.c   the table of quotas: names, windows, words of a refusal
 *   quota.c   taking, giving back, spending, looking
 *   persist.c    what outlives the process: own limits, and use in windows
 *   repeat_guard.c    the same code failing again and again
 *   fair_queue.c    turns between tenants
 */
#ifndef GLOVEBOX_QUOTA_QUOTA_INT_H
#define GLOVEBOX_QUOTA_QUOTA_INT_H

#include "base/ids.h"
#include "base/thread.h"
#include "quota/quota.h"

#define QUOTA_BUCKETS 1024u
#define QUOTA_TENANTS_MAX 65536u
#define QUOTA_SAVE_MS 3000u /* between two writes of what was used */
#define QUOTA_TOKEN 1000u   /* of the creation bucket, for one creation */
#define QUOTA_BURST_S 2u    /* this many seconds' worth at once */

#define QUOTA_LOOP_FREE 10u /* failures in a row that cost nothing */
#define QUOTA_LOOP_FIRST_MS 1000u
#define QUOTA_LOOP_MOST_MS 60000u
#define QUOTA_LOOP_CODES 32u /* remembered of one session */
#define QUOTA_LOOP_SESSIONS 2048u
#define QUOTA_LOOP_BUCKETS 512u

enum quota_sort {
    SORT_HELD,   /* taken and given back */
    SORT_BUCKET, /* a rate */
    SORT_WINDOW, /* spent, and forgotten once its window is over */
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
    int64_t since_ms[QUOTA_KINDS]; /* a window's begin, by the real clock */
    bool dirty[QUOTA_KINDS];       /* to be written */
    bool own[QUOTA_KINDS];
    uint64_t most[QUOTA_KINDS]; /* if own */
    uint64_t tokens, tokens_at_ms;
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
    /* Clocks; tests have their own. */
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
    struct worker saver;
};

/* quota.c; these four need the lock. NULL: there are too many. */
struct quota_tenant *quota_tenant(struct quotas *q, const char *name);
struct quota_tenant *quota_tenant_find(struct quotas *q, const char *name);
uint64_t quota_limit(const struct quotas *q, const struct quota_tenant *t,
                     enum quota_kind kind);
/* A window that is over begins anew. */
void quota_window(const struct quotas *q, struct quota_tenant *t,
                  enum quota_kind kind);
unsigned quota_hash(const char *text);

/* persist.c */
int quota_persist_load(struct quotas *q, struct error *err);
int quota_persist_start(struct quotas *q, struct error *err);
void quota_persist_stop(struct quotas *q); /* and writes the rest */
void quota_persist_save(struct quotas *q);

/* repeat_guard.c */
void quota_repeats_done(struct quotas *q);

#endif
