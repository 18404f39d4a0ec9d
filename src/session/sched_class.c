/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU scheduling class of sandboxes (X4). A sandbox is either in the
 * foreground class, where all begin, or in the background class, which gets
 * the CPU time that the foreground leaves. An execution starts in the
 * foreground and moves to the background after LONG_MS of CPU time. Processes
 * that an execution leaves behind run in the background. So does everything of
 * a tenant whose recent CPU use exceeds its burst (BURST_MS), because many
 * short executions are then one long one. A short execution therefore finds
 * the CPU free however many long ones there are, and the long ones share the
 * rest evenly.
 *
 * Background sandboxes that run something are counted for cpu_reserve.c. Runs
 * in gloveboxd on the execution's thread, with the turn. A sandbox that is
 * already in the right class costs nothing.
 */
#include "base/mem.h"
#include "session/session_int.h"
#include "wire/meters.h"

#define LONG_MS 50u      /* prompt for so long */
#define BURST_MS 1000u   /* of processor time of a tenant, at once */
#define REFILL 4u        /* milliseconds of the clock bring one of it back */
#define MAKE_MS 100u     /* for a sandbox: see session_sched_charge_create */
#define CHARGE_MOST 100u /* of one execution: prompt, on two processors */
#define DIED_MS 400u     /* for one that ended with its interpreter */
#define ALONE_MS 10000u  /* without another tenant's */

/* Nobody is in anybody's way where one tenant alone has begun anything for a
 * while. Of sessions, last_tenant is who began last; when that changes it is
 * shared for as long again. */
bool session_sched_alone(struct tenant *t)
{
    struct tenant *last = atomic_exchange(&t->m->last_tenant, t);
    uint64_t now = clock_mono_ms();

    if (last && last != t)
        atomic_store(&t->m->shared_until_ms, now + ALONE_MS);
    return now >= atomic_load(&t->m->shared_until_ms);
}

/* tenant.spent_ms is when all that was used will have been refilled. */
static bool over_burst(struct tenant *t)
{
    return !session_sched_alone(t) &&
           atomic_load(&t->spent_ms) >
               clock_mono_ms() + (uint64_t)BURST_MS * REFILL;
}

static void charge_cpu(struct tenant *t, uint64_t cpu_ms)
{
    uint64_t now = clock_mono_ms();
    uint64_t before = atomic_load(&t->spent_ms);

    while (!atomic_compare_exchange_weak(&t->spent_ms, &before,
                                         MAX(before, now) + cpu_ms * REFILL))
        ;
}

/* More than the processor time one takes (about 20 ms): nearly all of it is
 * the kernel's, here and in the warden, which it does not interrupt for
 * others. Ten at once, then one in 400 ms, are as prompt as executions. */
bool session_sched_charge_create(struct tenant *t)
{
    bool background = over_burst(t);

    charge_cpu(t, MAKE_MS);
    return background;
}

/* What is made for it is as much in others' way as what it runs. */
void session_sched_create_begin(struct tenant *t, bool background)
{
    atomic_fetch_add(&t->background, background);
    atomic_fetch_add(&t->m->background, background);
}

void session_sched_create_end(struct tenant *t, bool background)
{
    atomic_fetch_sub(&t->background, background);
    atomic_fetch_sub(&t->m->background, background);
}

/* Counted once, for whoever's it is; released by any thread. */
static void count_background(struct box *b, struct tenant *of)
{
    struct tenant *was = atomic_exchange(&b->background_of, of);

    if (was) {
        atomic_fetch_sub(&was->background, 1);
        atomic_fetch_sub(&was->m->background, 1);
    }
    if (of) {
        atomic_fetch_add(&of->background, 1);
        atomic_fetch_add(&of->m->background, 1);
    }
}

static void set_class(struct tenant *t, struct box *b, bool background)
{
    if (b->background != background)
        session_box_set_background(b, background);
    count_background(b, background ? t : NULL);
}

void session_sched_begin(struct session *se, struct collect *c)
{
    bool background = over_burst(se->tenant);

    set_class(se->tenant, c->box, background);
    c->background_ms = background ? 0 : clock_mono_ms() + LONG_MS;
    if (!background)
        session_cpu_reserve_request(se->tenant, c->box);
}

/* Has it had the processor for so long, or cannot that be told? */
static bool is_long(const struct collect *c)
{
    struct warden_usage now = {.alive = true};

    return meters_read(&c->box->meters, false, &now) < 0 ||
           now.cpu_ns >= c->box->base.cpu_ns + LONG_MS * UINT64_C(1000000);
}

/* By what it took, not by the clock: who is kept from the processor by others
 * would else be put behind them. */
void session_sched_step(struct collect *c)
{
    if (!c->background_ms || clock_left_ms(c->background_ms) > 0)
        return;
    if (is_long(c)) {
        c->background_ms = 0;
        set_class(c->e->tenant, c->box, true);
        return;
    }
    c->background_ms = clock_mono_ms() + LONG_MS;
    session_cpu_reserve_request(c->e->tenant, c->box);
}

void session_sched_end(struct session *se, struct collect *c)
{
    /* A thread or a process more than a session has of itself. */
    bool leaves = c->box->base.processes > c->box->alone;

    /* What it had, to the last page, the kernel takes back at once, and is
     * not interrupted for others: as with making, more than it took. */
    charge_cpu(se->tenant, c->observed->end == END_KERNEL
                               ? DIED_MS
                               : MIN(c->observed->cpu_ms, CHARGE_MOST));
    if (leaves)
        set_class(se->tenant, c->box, true);
    else
        count_background(c->box, NULL);
}

void session_sched_forget(struct box *b)
{
    count_background(b, NULL);
}
