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

/* A sandbox that is being created competes as much as one that runs. */
void session_sched_create_begin(struct tenant *t, bool background)
{
    if (background)
        box_count_add(&t->background, 1);
}

void session_sched_create_end(struct tenant *t, bool background)
{
    if (background)
        box_count_add(&t->background, -1);
}

static void set_class(struct tenant *t, struct box *b, bool background)
{
    if (box_is_background(b) != background)
        box_set_background(b, background);
    box_count_in(b, background ? &t->background : NULL);
}

void session_sched_begin(struct session *se, struct collect *c)
{
    bool background = over_burst(se->tenant);

    set_class(se->tenant, c->box, background);
    c->background_ms = background ? 0 : clock_mono_ms() + LONG_MS;
    if (!background)
        session_cpu_reserve_request(se->tenant, c->box);
}

/* By what it took, not by the clock: who is kept from the processor by others
 * would else be put behind them. */
void session_sched_step(struct collect *c)
{
    if (!c->background_ms || clock_left_ms(c->background_ms) > 0)
        return;
    if (box_used_cpu(c->box, LONG_MS * UINT64_C(1000000))) {
        c->background_ms = 0;
        set_class(c->e->tenant, c->box, true);
        return;
    }
    c->background_ms = clock_mono_ms() + LONG_MS;
    session_cpu_reserve_request(c->e->tenant, c->box);
}

void session_sched_end(struct session *se, struct collect *c)
{
    /* What it had, to the last page, the kernel takes back at once, and is
     * not interrupted for others: as with making, more than it took. */
    charge_cpu(se->tenant, c->observed->end == END_KERNEL
                               ? DIED_MS
                               : MIN(c->observed->cpu_ms, CHARGE_MOST));
    if (box_has_leftovers(c->box))
        set_class(se->tenant, c->box, true);
    else
        box_count_in(c->box, NULL);
}
