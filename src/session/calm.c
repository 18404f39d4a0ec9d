/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn on the processor it is (X4). A session is one of two kinds to
 * the kernel: prompt, as all begin, or calm, which gets what the others leave.
 * An execution is prompt for its first moments of processor time and calm from
 * then on; what a session leaves running after its execution is calm; and so
 * is all of a tenant that has run so much lately that its many short
 * executions are one long one. So a short execution finds the processor free,
 * however many long ones there are, and those share it evenly. Boxes that are
 * calm and run something are counted, for room.c. Runs in gloveboxd on the
 * execution's thread, with the turn. A box that is as it should be costs
 * nothing.
 */
#include "base/mem.h"
#include "session/session_int.h"
#include "wire/meters.h"

#define LONG_MS 50u      /* prompt for so long */
#define BURST_MS 1000u   /* of processor time of a tenant, at once */
#define REFILL 4u        /* milliseconds of the clock bring one of it back */
#define MAKE_MS 100u     /* for a sandbox: see session_calm_make */
#define CHARGE_MOST 100u /* of one execution: prompt, on two processors */
#define DIED_MS 400u     /* for one that ended with its interpreter */
#define ALONE_MS 10000u  /* without another tenant's */

/* Nobody is in anybody's way where one tenant alone has begun anything for a
 * while. Of sessions, last_tenant is who began last; when that changes it is
 * shared for as long again. */
bool session_calm_alone(struct tenant *t)
{
    struct tenant *last = atomic_exchange(&t->m->last_tenant, t);
    uint64_t now = clock_mono_ms();

    if (last && last != t)
        atomic_store(&t->m->shared_until_ms, now + ALONE_MS);
    return now >= atomic_load(&t->m->shared_until_ms);
}

/* tenant.spent_ms is when all that was used will have been refilled. */
static bool crowds(struct tenant *t)
{
    return !session_calm_alone(t) &&
           atomic_load(&t->spent_ms) >
               clock_mono_ms() + (uint64_t)BURST_MS * REFILL;
}

static void spend(struct tenant *t, uint64_t cpu_ms)
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
bool session_calm_make(struct tenant *t)
{
    bool calm = crowds(t);

    spend(t, MAKE_MS);
    return calm;
}

/* What is made for it is as much in others' way as what it runs. */
void session_calm_making(struct tenant *t, bool calm)
{
    atomic_fetch_add(&t->calm, calm);
    atomic_fetch_add(&t->m->calm, calm);
}

void session_calm_made(struct tenant *t, bool calm)
{
    atomic_fetch_sub(&t->calm, calm);
    atomic_fetch_sub(&t->m->calm, calm);
}

/* Counted once, for whoever's it is; released by any thread. */
static void count(struct box *b, struct tenant *of)
{
    struct tenant *was = atomic_exchange(&b->calm_of, of);

    if (was) {
        atomic_fetch_sub(&was->calm, 1);
        atomic_fetch_sub(&was->m->calm, 1);
    }
    if (of) {
        atomic_fetch_add(&of->calm, 1);
        atomic_fetch_add(&of->m->calm, 1);
    }
}

static void set(struct tenant *t, struct box *b, bool calm)
{
    if (b->calm != calm)
        session_box_calm(b, calm);
    count(b, calm ? t : NULL);
}

void session_calm_begin(struct session *se, struct collect *c)
{
    bool calm = crowds(se->tenant);

    set(se->tenant, c->box, calm);
    c->calm_ms = calm ? 0 : clock_mono_ms() + LONG_MS;
    if (!calm)
        session_room_want(se->tenant, c->box);
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
void session_calm_step(struct collect *c)
{
    if (!c->calm_ms || clock_left_ms(c->calm_ms) > 0)
        return;
    if (is_long(c)) {
        c->calm_ms = 0;
        set(c->e->tenant, c->box, true);
        return;
    }
    c->calm_ms = clock_mono_ms() + LONG_MS;
    session_room_want(c->e->tenant, c->box);
}

void session_calm_end(struct session *se, struct collect *c)
{
    /* A thread or a process more than a session has of itself. */
    bool leaves = c->box->base.processes > c->box->alone;

    /* What it had, to the last page, the kernel takes back at once, and is
     * not interrupted for others: as with making, more than it took. */
    spend(se->tenant, c->facts->end == END_KERNEL
                          ? DIED_MS
                          : MIN(c->facts->cpu_ms, CHARGE_MOST));
    if (leaves)
        set(se->tenant, c->box, true);
    else
        count(c->box, NULL);
}

void session_calm_forget(struct box *b)
{
    count(b, NULL);
}
