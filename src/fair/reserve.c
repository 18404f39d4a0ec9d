/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a CPU is reserved for short executions. While background sandboxes of
 * one tenant and a short execution of another compete, the background
 * sandboxes are kept off one CPU of the short execution, so that it does not
 * wait for work that the kernel would not preempt. The reservation ends
 * fair.reserve_keep_ms after the last short execution. Runs in gloveboxd: an
 * execution requests the reservation, and the thread "cpu-reserve" makes it,
 * so that no execution waits for the warden.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fair/fair.h"

#define IDLE_MS 3600000u /* only a request ends the wait */

struct fair_reserve {
    struct worker worker;
    fair_reserve_fn *set;
    void *ctx;
    _Atomic uint64_t until_ms;
    atomic_uint slot; /* of the latest request */
    atomic_bool on;   /* as last set */
};

void fair_reserve_request(struct fair_reserve *r, uint32_t slot)
{
    if (!fair_enabled(FAIR_CPU_RESERVE))
        return;
    atomic_store(&r->until_ms, clock_mono_ms() + fair.reserve_keep_ms);
    if (atomic_load(&r->on))
        return;
    atomic_store(&r->slot, slot);
    worker_wake(&r->worker);
}

static void fair_reserve_main(void *arg)
{
    struct fair_reserve *r = arg;
    uint64_t pause_ms = IDLE_MS;

    while (worker_wait(&r->worker, pause_ms)) {
        int64_t left_ms = clock_left_ms(atomic_load(&r->until_ms));
        bool want = left_ms > 0;

        if (want != atomic_load(&r->on)) {
            r->set(r->ctx, want, atomic_load(&r->slot));
            atomic_store(&r->on, want);
        }
        pause_ms = want ? (uint64_t)left_ms : IDLE_MS;
    }
}

int fair_reserve_start(fair_reserve_fn *set, void *ctx,
                       struct fair_reserve **ret, struct error *err)
{
    struct fair_reserve *r = xcalloc(1, sizeof(*r));
    int rc;

    r->set = set;
    r->ctx = ctx;
    worker_init(&r->worker);
    *ret = r; /* before the thread, whose callback may look at it */
    rc = worker_start(&r->worker, "cpu-reserve", fair_reserve_main, r, err);
    if (rc < 0) {
        *ret = NULL;
        worker_done(&r->worker);
        free(r);
    }
    return rc;
}

void fair_reserve_stop(struct fair_reserve *r)
{
    if (!r)
        return;
    worker_stop(&r->worker);
    worker_done(&r->worker);
    free(r);
}
