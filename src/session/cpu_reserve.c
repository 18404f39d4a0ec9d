/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserves a CPU for short executions (X4). While background sandboxes
 * (sched_class.c) of one tenant and a short execution of another compete, the
 * warden keeps the background sandboxes off one CPU of the short execution, so
 * that it does not wait for work the kernel would not preempt. The reservation
 * ends KEEP_MS after the last short execution. A tenant that is alone never
 * causes one. Runs in gloveboxd: an execution requests the reservation, and
 * the thread "cpu-reserve" tells the warden, so that no execution waits for
 * the warden.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"
#include "warden/call.h"

#define KEEP_MS 500u     /* after the last short execution */
#define IDLE_MS 3600000u /* only a request ends the wait */

struct cpu_reserve {
    struct worker worker;
    _Atomic uint64_t until_ms;
    atomic_uint slot; /* of the latest request */
    atomic_bool on;   /* as last told to the warden */
};

void session_cpu_reserve_request(struct tenant *t, const struct box *b)
{
    struct cpu_reserve *r = t->m->cpu_reserve;

    /* Only background sandboxes of other tenants are in the way. */
    if (atomic_load(&t->m->background.boxes) <=
        atomic_load(&t->background.boxes))
        return;
    atomic_store(&r->until_ms, clock_mono_ms() + KEEP_MS);
    if (atomic_load(&r->on))
        return;
    atomic_store(&r->slot, box_slot(b));
    worker_wake(&r->worker);
}

static void tell_warden(struct sessions *m, bool on)
{
    struct cpu_reserve *r = m->cpu_reserve;
    struct error err;

    if (warden_call_room(m->link, on, atomic_load(&r->slot), &err) < 0)
        log_event(LOG_DEBUG, "room_failed", "error", err.message, NULL);
    atomic_store(&r->on, on);
}

static void cpu_reserve_main(void *arg)
{
    struct sessions *m = arg;
    struct cpu_reserve *r = m->cpu_reserve;
    uint64_t pause_ms = IDLE_MS;

    while (worker_wait(&r->worker, pause_ms)) {
        int64_t left_ms = clock_left_ms(atomic_load(&r->until_ms));
        bool want = left_ms > 0;

        if (want != atomic_load(&r->on))
            tell_warden(m, want);
        pause_ms = want ? (uint64_t)left_ms : IDLE_MS;
    }
}

int session_cpu_reserve_start(struct sessions *m, struct error *err)
{
    struct cpu_reserve *r = xcalloc(1, sizeof(*r));
    int rc;

    worker_init(&r->worker);
    m->cpu_reserve = r;
    rc = worker_start(&r->worker, "cpu-reserve", cpu_reserve_main, m, err);
    if (rc < 0)
        session_cpu_reserve_stop(m);
    return rc;
}

void session_cpu_reserve_stop(struct sessions *m)
{
    struct cpu_reserve *r = m->cpu_reserve;

    if (!r)
        return;
    worker_stop(&r->worker);
    worker_done(&r->worker);
    free(r);
    m->cpu_reserve = NULL;
}
