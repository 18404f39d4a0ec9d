/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of tenants: how much a tenant may hold at once or use within a
 * window of time. A request beyond a quota fails with ERR_LIMIT, whose quota
 * fields name the quota, the limit, the use and the end of the window. The
 * defaults are settings; an operator can set limits of single tenants, which
 * the store keeps. The store keeps the use in windows too, so that a restart
 * does not reset it.
 *
 * Any thread may call. Only quota_set waits for the disk.
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
    /* held: taken and given back */
    QUOTA_SESSIONS,   /* "live_sessions" */
    QUOTA_EXECUTIONS, /* "executions": queued or running */
    QUOTA_MEMORY,     /* "memory_bytes": granted to live sessions */
    /* spent within a window */
    QUOTA_CREATIONS,     /* "creations_per_s" */
    QUOTA_RUNS_PER_HOUR, /* "executions_per_hour" */
    QUOTA_CPU,           /* "cpu_s_per_hour" */
    QUOTA_EGRESS,        /* "egress_bytes_per_day" */
    QUOTA_OUTPUT,        /* "output_tokens_per_hour": four bytes are one */
    QUOTA_MODEL_TOKENS,  /* "model_tokens_per_day" */
    QUOTA_MODEL_COST,    /* "model_microcents_per_day" */
    /* The same of one key or token's root; quota_key_name() is the tenant. */
    QUOTA_KEY_TOKENS, /* "key_model_tokens_per_day" */
    QUOTA_KEY_COST,   /* "key_model_microcents_per_day" */
    /* counted by workspace/; only its limit is here */
    QUOTA_STORAGE, /* "storage_bytes" */
    QUOTA_KINDS
};

/* Quotas of a key are those of a tenant of this name, which no tenant can
 * have. */
#define QUOTA_KEY_PREFIX "key:"
#define QUOTA_KEY_NAME 96
char *quota_key_name(const char *key, char ret[QUOTA_KEY_NAME]);

/* Refusals are counted by kind, and for repeated failures. */
#define QUOTA_REFUSALS (QUOTA_KINDS + 1)
#define QUOTA_LOOP_NAME "repeated_failure"
#define QUOTA_VALUE_MAX (1ull << 50) /* highest limit that can be set */

struct quota_limits {
    uint64_t most[QUOTA_KINDS]; /* 0: no limit */
};

/* store NULL (unit tests): nothing is persistent. */
int quotas_open(const struct quota_limits *defaults, struct store *store,
                struct audit *audit, struct quotas **ret, struct error *err);
void quotas_close(struct quotas *q); /* accepts NULL; saves the use */

/* ERR_LIMIT: it would exceed the quota. q NULL (unit tests): no limits. */
int quota_take(struct quotas *q, const char *tenant, enum quota_kind kind,
               uint64_t amount, struct error *err);
/* By how much an amount exceeds what is left: 0 when quota_take would succeed,
 * UINT64_MAX when the amount is above the limit by itself. Counts nothing. */
uint64_t quota_missing(struct quotas *q, const char *tenant,
                       enum quota_kind kind, uint64_t amount);
void quota_give(struct quotas *q, const char *tenant, enum quota_kind kind,
                uint64_t amount);
/* ERR_LIMIT: the quota is used up. For use that is only known afterwards. */
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

/* What a tenant used in one hour: the sum of what it spent, and the most that
 * it held at once. Kinds that are neither are 0. */
struct quota_hour {
    int64_t at_ms; /* when the hour began */
    uint64_t used[QUOTA_KINDS];
};
#define QUOTA_HISTORY_HOURS 720u /* stored; older hours are deleted */
/* The hours since `from_ms` in which the tenant used anything, oldest first;
 * at most QUOTA_HISTORY_HOURS + 1. ret: owned by caller. */
int quota_history(struct quotas *q, const char *tenant, int64_t from_ms,
                  struct quota_hour **ret, size_t *ret_count,
                  struct error *err);
/* NULL for a field: as it was; UINT64_MAX as value: the default again. */
/* Reads the limits again, after another node has set one; the notification is
 * on this channel. */
#define QUOTA_CHANNEL "quotas"
int quotas_reload(struct quotas *q, struct error *err);
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

#endif
