/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fairness between tenants (X4): however one tenant behaves, a short execution
 * of another is neither refused nor slow. This module holds every constant
 * and every decision; the modules that own threads, queues, sandboxes and
 * processors act on them. docs/FAIRNESS.md describes the model and the
 * measured effect of each mechanism.
 *
 *   fair.c      constants, the names of the mechanisms, shares
 *   queue.c     places that tenants get in turn
 *   backoff.c   clients that are refused repeatedly
 *   cpu.c       CPU budget of tenants
 *   reserve.c   when a CPU is reserved for short executions
 *   priority.c  scheduling priority of our own threads
 *
 * Any thread may call anything here unless a function says otherwise.
 */
#ifndef GLOVEBOX_FAIR_FAIR_H
#define GLOVEBOX_FAIR_FAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct error;

/* ---- fair.c ------------------------------------------------------------- */

/* Every field is a row of the table in docs/FAIRNESS.md; `make lint` compares
 * names, values and units. */
struct fair_constants {
    unsigned share;              /* times */
    unsigned freeing_threads;    /* threads */
    unsigned refusal_cost_ms;    /* ms */
    unsigned refusal_free_ms;    /* ms */
    unsigned refusal_max_ms;     /* ms */
    unsigned refusal_hold_ms;    /* ms */
    unsigned create_extra;       /* sandboxes */
    unsigned create_alone_extra; /* sandboxes */
    unsigned alone_ms;           /* ms */
    unsigned long_cpu_ms;        /* ms of CPU time */
    unsigned budget_cpu_ms;      /* ms of CPU time */
    unsigned refill_ratio;       /* ms per ms of CPU time */
    unsigned create_cpu_ms;      /* ms of CPU time */
    unsigned run_cpu_max_ms;     /* ms of CPU time */
    unsigned crash_cpu_ms;       /* ms of CPU time */
    unsigned reserve_keep_ms;    /* ms */
    unsigned reserve_ratio;      /* CPUs per reserved CPU */
    unsigned end_yield_ms;       /* ms */
    unsigned service_nice;       /* nice levels */
    unsigned service_slice_ns;   /* ns */
    unsigned worker_nice;        /* nice levels */
    unsigned index_rest_us;      /* us */
    unsigned index_yield_us;     /* us */
};
extern const struct fair_constants fair;

/* What the benchmark can switch off one by one; see docs/FAIRNESS.md. */
enum fair_mechanism {
    FAIR_THREAD_TURNS,
    FAIR_THREAD_SHARE,
    FAIR_REFUSAL_BACKOFF,
    FAIR_EXECUTION_SHARE,
    FAIR_CREATE_QUEUE,
    FAIR_CREATE_WIDE,
    FAIR_CPU_CLASS,
    FAIR_CPU_BUDGET,
    FAIR_CPU_RESERVE,
    FAIR_END_YIELD,
    FAIR_PRIORITY,
    FAIR_WORKER_REST,
    FAIR_MECHANISMS
};
const char *fair_name(enum fair_mechanism m);
/* Always true in the product. The benchmark links a definition of its own
 * (tests/fairness/switches.c). */
bool fair_enabled(enum fair_mechanism m);

/* May a tenant that holds `own` of `max` places take another while all
 * tenants hold `used`? Its share is fair.share times the places that remain
 * for the others after that. */
bool fair_share_allows(unsigned own, unsigned used, unsigned max);

/* ---- queue.c ------------------------------------------------------------ */

/* Places that tenants get in turn: a free place goes to the waiting tenant
 * that holds the fewest, and among equals to the request that came first. */
struct fair_queue;
struct fair_queue *fair_queue_new(unsigned width);
void fair_queue_free(struct fair_queue *f); /* accepts NULL */
/* Waits for a place, at most until deadline_ms (monotonic). False: the
 * deadline passed. f NULL: true at once. */
bool fair_queue_enter(struct fair_queue *f, const char *tenant,
                      uint64_t deadline_ms);
/* The same; false also once *cancel is true. cancel NULL: never. */
bool fair_queue_enter_unless(struct fair_queue *f, const char *tenant,
                             uint64_t deadline_ms, const _Atomic bool *cancel);
void fair_queue_leave(struct fair_queue *f, const char *tenant);

/* ---- backoff.c ---------------------------------------------------------- */

struct fair_backoff;
struct fair_backoff *fair_backoff_new(void);
void fair_backoff_free(struct fair_backoff *b); /* accepts NULL */
/* The client was refused with 429. */
void fair_backoff_refused(struct fair_backoff *b, uint64_t client,
                          uint64_t now_ms);
/* True: leave its next request unread for now. */
bool fair_backoff_exceeded(struct fair_backoff *b, uint64_t client,
                           uint64_t now_ms);

/* ---- cpu.c -------------------------------------------------------------- */

/* CPU use of all tenants, and of one. Embed both zeroed. */
struct fair_cpu {
    _Atomic(struct fair_tenant *) last; /* that started something */
    _Atomic uint64_t shared_until_ms;
};
struct fair_tenant {
    struct fair_cpu *all;
    _Atomic uint64_t refilled_ms; /* when its budget is full again */
};

/* The tenant starts something. True: no other tenant has for
 * fair.alone_ms. */
bool fair_cpu_alone(struct fair_tenant *t);
/* True: the tenant has used up its budget and is not alone, so that its
 * sandboxes belong into the background class. */
bool fair_cpu_over_budget(struct fair_tenant *t);
/* Charges a new sandbox. True: create it in the background class. */
bool fair_cpu_charge_create(struct fair_tenant *t);
/* Charges an execution; crashed: its interpreter ended with it. */
void fair_cpu_charge_run(struct fair_tenant *t, uint64_t cpu_ms, bool crashed);

/* ---- reserve.c ---------------------------------------------------------- */

struct fair_reserve;
/* Reserves a CPU of the sandbox in `slot` for short executions, or ends the
 * reservation. Called on the thread "cpu-reserve". */
typedef void fair_reserve_fn(void *ctx, bool on, uint32_t slot);
int fair_reserve_start(fair_reserve_fn *set, void *ctx,
                       struct fair_reserve **ret, struct error *err);
void fair_reserve_stop(struct fair_reserve *r); /* accepts NULL */
/* A short execution in `slot` competes with background sandboxes of other
 * tenants. Never waits. */
void fair_reserve_request(struct fair_reserve *r, uint32_t slot);

/* ---- priority.c --------------------------------------------------------- */

/* Priority of the calling thread and of threads and processes it starts.
 * Takes what the process may have and ignores the rest. */
void fair_priority_raise(void); /* for threads that clients wait for */
void fair_priority_lower(void); /* for work that can wait */
/* Undoes fair_priority_raise, in a child that runs other code. */
void fair_priority_reset(void);

#endif
