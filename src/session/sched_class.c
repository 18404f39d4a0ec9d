/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU scheduling class of sandboxes (X4). A sandbox is either in the
 * foreground class, where all begin, or in the background class, which gets
 * the CPU time that the foreground leaves. An execution starts in the
 * foreground and moves to the background after fair.long_cpu_ms of CPU time.
 * Processes that an execution leaves behind run in the background. So does
 * everything of a tenant that is over its CPU budget (fair/cpu.c). A short
 * execution therefore finds the CPU free however many long ones there are, and
 * the long ones share the rest evenly.
 *
 * Background sandboxes that run something are counted: a short
 * execution of another tenant then requests a reserved CPU. Runs
 * in gloveboxd on the execution's thread, with the turn. A sandbox that is
 * already in the right class costs nothing.
 */
#include "base/error.h"
#include "base/log.h"
#include "quota/quota.h"
#include "session/session_int.h"
#include "warden/call.h"

/* On the thread "cpu-reserve". */
static void set_cpu_reserve(void *ctx, bool on, uint32_t slot)
{
    struct sessions *m = ctx;
    struct error err;

    if (warden_call_cpu_reserve(m->link, on, slot, &err) < 0)
        log_event(LOG_DEBUG, "cpu_reserve_failed", "error", err.message, NULL);
}

int session_sched_start(struct sessions *m, struct error *err)
{
    return fair_reserve_start(set_cpu_reserve, m, &m->cpu_reserve, err);
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
    if (!fair_enabled(FAIR_CPU_CLASS))
        background = false;
    if (box_is_background(b) != background)
        box_set_background(b, background);
    box_count_in(b, background ? &t->background : NULL);
}

/* Only background sandboxes of other tenants compete with it. */
static void request_cpu_reserve(struct tenant *t, const struct box *b)
{
    if (atomic_load(&t->m->background.boxes) >
        atomic_load(&t->background.boxes))
        fair_reserve_request(t->m->cpu_reserve, box_slot(b));
}

void session_sched_begin(struct session_sched *r, struct session *se,
                         struct box *box)
{
    bool background = fair_cpu_over_budget(&se->tenant->fair);

    *r = (struct session_sched){.se = se, .box = box};
    set_class(se->tenant, box, background);
    r->check_ms = background ? 0 : clock_mono_ms() + fair.long_cpu_ms;
    if (!background)
        request_cpu_reserve(se->tenant, box);
}

/* By CPU time, not by the clock: otherwise an execution that others keep from
 * the CPU would be put behind them. */
void session_sched_step(struct session_sched *r)
{
    if (!r->check_ms || clock_left_ms(r->check_ms) > 0)
        return;
    if (box_used_cpu(r->box, fair.long_cpu_ms * UINT64_C(1000000))) {
        r->check_ms = 0;
        set_class(r->se->tenant, r->box, true);
        return;
    }
    r->check_ms = clock_mono_ms() + fair.long_cpu_ms;
    request_cpu_reserve(r->se->tenant, r->box);
}

void session_sched_end(struct session_sched *r, bool died, uint64_t cpu_ms)
{
    struct tenant *t = r->se->tenant;

    fair_cpu_charge_run(&t->fair, cpu_ms, died);
    if (box_has_leftovers(r->box))
        set_class(t, r->box, true);
    else
        box_count_in(r->box, NULL);
}

/* Charges whole seconds of what all executions of the tenant took together:
 * the milliseconds of many short ones count, and no more than they are. */
void session_charge_cpu(struct session *se, uint64_t cpu_ms)
{
    struct tenant *t = se->tenant;
    uint64_t before = atomic_fetch_add(&t->cpu_ms, cpu_ms);

    quota_spend(t->m->core->quotas, t->name, QUOTA_CPU,
                (before + cpu_ms) / 1000 - before / 1000);
}
