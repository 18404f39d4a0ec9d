/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of fairness, and the rule of shares; see fair.h. Runs in the
 * daemon and the warden.
 */
#include "fair/fair.h"

#include "base/mem.h"

const struct fair_constants fair = {
    .share = 3,
    .freeing_threads = 4,
    .refusal_cost_ms = 10,
    .refusal_free_ms = 10000,
    .refusal_max_ms = 12000,
    .refusal_hold_ms = 5000,
    .create_extra = 2,
    .create_alone_extra = 6,
    .alone_ms = 10000,
    .long_cpu_ms = 50,
    .budget_cpu_ms = 1000,
    .refill_ratio = 4,
    .create_cpu_ms = 100,
    .run_cpu_max_ms = 100,
    .crash_cpu_ms = 400,
    .reserve_keep_ms = 500,
    .reserve_ratio = 8,
    .end_yield_ms = 2000,
    .service_nice = 10,
    .service_slice_ns = 100000,
    .worker_nice = 15,
    .index_rest_us = 500,
    .index_yield_us = 12000,
};

const char *fair_name(enum fair_mechanism m)
{
    static const char *const names[FAIR_MECHANISMS] = {
        [FAIR_THREAD_TURNS] = "thread_turns",
        [FAIR_THREAD_SHARE] = "thread_share",
        [FAIR_REFUSAL_BACKOFF] = "refusal_backoff",
        [FAIR_EXECUTION_SHARE] = "execution_share",
        [FAIR_CREATE_QUEUE] = "create_queue",
        [FAIR_CREATE_WIDE] = "create_wide",
        [FAIR_CPU_CLASS] = "cpu_class",
        [FAIR_CPU_BUDGET] = "cpu_budget",
        [FAIR_CPU_RESERVE] = "cpu_reserve",
        [FAIR_END_YIELD] = "end_yield",
        [FAIR_PRIORITY] = "priority",
        [FAIR_WORKER_REST] = "worker_rest",
    };

    return names[m];
}

__attribute__((weak)) bool fair_enabled(enum fair_mechanism m)
{
    (void)m;
    return true;
}

bool fair_share_allows(unsigned own, unsigned used, unsigned max)
{
    unsigned left = max - MIN(used, max);

    return own < (left + 1) * fair.share;
}
