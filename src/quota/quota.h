/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of tenants: how much of each thing one may have at once, or use in a
 * while. What is asked beyond is refused with ERR_LIMIT that says what, how
 * much and until when (struct error's quota fields). Defaults are settings;
 * an operator sets single tenants' own, kept in the store. Use over a while
 * is kept too, so that a restart gives nobody a second helping.
 *
 * Also here: the fair turn (X4). Executions that wait for a thread, and
 * sandboxes that are made, are taken from the tenants in turn, so that who
 * asks a lot waits behind itself and not before the others.
 *
 * Any thread may call; nothing here waits for the disk but quota_set.
 */
#ifndef GLOVEBOX_QUOTA_QUOTA_H
#define GLOVEBOX_QUOTA_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actor;
struct audit;
struct error;
struct quotas;
struct store;

enum quota_kind {
    /* at once: taken and given back */
    QUOTA_SESSIONS,   /* "live_sessions" */
    QUOTA_EXECUTIONS, /* "executions": queued or running */
    QUOTA_MEMORY,     /* "memory_bytes": granted to live sessions */
    /* in a while: spent */
    QUOTA_CREATIONS,     /* "creations_per_s" */
    QUOTA_RUNS_PER_HOUR, /* "executions_per_hour" */
    QUOTA_CPU,           /* "cpu_s_per_hour" */
    QUOTA_EGRESS,        /* "egress_bytes_per_day" */
    QUOTA_OUTPUT,        /* "output_tokens_per_hour": four bytes are one */
    /* kept by workspace/; here only its limit */
    QUOTA_STORAGE, /* "storage_bytes" */
    QUOTA_KINDS
};

/* What is counted as refused: by each kind, and as a repeated failure. */
#define QUOTA_REFUSALS (QUOTA_KINDS + 1)
#define QUOTA_LOOP_NAME "repeated_failure"
#define QUOTA_VALUE_MAX (1ull << 50) /* of a limit; more is a mistake */

struct quota_limits {
    uint64_t most[QUOTA_KINDS]; /* 0: no limit */
};

/* store NULL (unit tests): nothing is kept. */
int quotas_open(const struct quota_limits *defaults, struct store *store,
                struct audit *audit, struct quotas **ret, struct error *err);
void quotas_close(struct quotas *q); /* accepts NULL; keeps what was used */

/* q NULL (unit tests): there is room. ERR_LIMIT otherwise. */
int quota_take(struct quotas *q, const char *tenant, enum quota_kind kind,
               uint64_t amount, struct error *err);
void quota_give(struct quotas *q, const char *tenant, enum quota_kind kind,
                uint64_t amount);
/* Is there anything left to spend? For what is counted afterwards. */
int quota_check(struct quotas *q, const char *tenant, enum quota_kind kind,
                struct error *err);
void quota_spend(struct quotas *q, const char *tenant, enum quota_kind kind,
                 uint64_t amount);

/* The same code failing again and again in one session is slowed: the first
 * ten times it costs nothing, then ERR_LIMIT ("repeated_failure") for a
 * while that doubles from a second to a minute; other code is not touched.
 * repeats: how often it has failed in a row. */
int quota_repeat_check(struct quotas *q, const char *tenant,
                       const char *session, const unsigned char code[32],
                       uint32_t *ret_repeats, struct error *err);
void quota_repeat_note(struct quotas *q, const char *tenant,
                       const char *session, const unsigned char code[32],
                       bool failed);

struct quota_use {
    const char *name; /* static */
    uint64_t most;    /* 0: no limit */
    uint64_t used;
    int64_t resets_at_ms; /* 0: when given back */
    bool own;             /* set for this tenant, not the default */
};
void quota_uses(struct quotas *q, const char *tenant,
                struct quota_use ret[QUOTA_KINDS]);
/* NULL for a field: as it was; UINT64_MAX as value: the default again. */
int quota_set(struct quotas *q, const struct actor *who, const char *tenant,
              const uint64_t *const values[QUOTA_KINDS], struct error *err);
/* QUOTA_KINDS when there is none of that name. */
enum quota_kind quota_find(const char *name);
const char *quota_name(enum quota_kind kind); /* QUOTA_KINDS: of the loop */
/* What others found to be full: fills err's quota fields and counts. Returns
 * -err->code. */
int quota_refuse(struct quotas *q, enum quota_kind kind, uint64_t most,
                 uint64_t used, struct error *err);
void quota_refusals(struct quotas *q, uint64_t ret[QUOTA_REFUSALS]);
uint64_t quota_most(struct quotas *q, const char *tenant,
                    enum quota_kind kind);

/* ---- fair_queue.c: turns between tenants
 * -------------------------------------- */

struct fair_queue;
/* Of `width` places; a tenant that has fewer of them than its even share is
 * served before one that has more; else first come, first served. */
struct fair_queue *fair_queue_new(unsigned width);
void fair_queue_free(struct fair_queue *f); /* accepts NULL */
/* Waits for a place, at most until deadline_ms (monotonic); false: it passed.
 * f NULL: at once. */
bool fair_queue_enter(struct fair_queue *f, const char *tenant,
                      uint64_t deadline_ms);
void fair_queue_leave(struct fair_queue *f, const char *tenant);

#endif
