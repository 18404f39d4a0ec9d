/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair: shares leave places for others, queues serve tenants in turn, clients
 * that are refused repeatedly wait, budgets run out and refill, and a CPU is
 * reserved only while it is wanted.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "fair/fair.h"

/* ---- shares ------------------------------------------------------------- */

/* Of 32 places a tenant that is alone gets 25, and the next tenant finds
 * some of the other seven. */
static void X4_fair_share_at_below_and_above(void **state)
{
    unsigned own = 0, other = 0;

    (void)state;
    while (own < 32 && fair_share_allows(own, own, 32))
        own++;
    assert_int_equal(own, 25);
    while (other < 32 && fair_share_allows(other, own + other, 32))
        other++;
    assert_int_equal(other, 6);
    /* Full, or over-full: the first places of a newcomer only. */
    assert_true(fair_share_allows(2, 32, 32));
    assert_false(fair_share_allows(3, 32, 32));
    assert_true(fair_share_allows(2, 40, 32));
    assert_false(fair_share_allows(3, 40, 32));
}

static void every_mechanism_has_a_name_and_is_on(void **state)
{
    (void)state;
    for (int m = 0; m < FAIR_MECHANISMS; m++) {
        assert_non_null(fair_name((enum fair_mechanism)m));
        assert_true(fair_enabled((enum fair_mechanism)m));
    }
}

/* ---- queue -------------------------------------------------------------- */

struct visitor {
    struct fair_queue *f;
    const char *tenant;
    atomic_int *order;
    int came;
    pthread_t thread;
    atomic_int tid;
};

static void *visit(void *arg)
{
    struct visitor *g = arg;

    atomic_store(&g->tid, (int)gettid());
    if (!fair_queue_enter(g->f, g->tenant, clock_mono_ms() + 20000))
        return NULL;
    g->came = atomic_fetch_add(g->order, 1);
    fair_queue_leave(g->f, g->tenant);
    return NULL;
}

static bool is_asleep(int tid)
{
    char path[64], text[256] = "";
    const char *state;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
    f = tid ? fopen(path, "re") : NULL;
    if (f) {
        (void)!fgets(text, sizeof(text), f);
        (void)fclose(f);
    }
    state = strrchr(text, ')');
    return state && state[1] == ' ' && state[2] == 'S';
}

/* The thread sleeps only in the queue: seen asleep five times, it is there. */
static void wait_until_queued(struct visitor *g)
{
    unsigned seen = 0;

    for (int i = 0; i < 10000 && seen < 5; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        seen = is_asleep(atomic_load(&g->tid)) ? seen + 1 : 0;
    }
    assert_int_equal(seen, 5);
}

static void X4_fair_queue_serves_the_tenant_with_fewest_places(void **state)
{
    struct fair_queue *f = fair_queue_new(2);
    atomic_int order = 0;
    struct visitor visitors[6];

    (void)state;
    assert_true(fair_queue_enter(f, "a", 0));
    assert_true(fair_queue_enter(f, "a", 0));
    for (int i = 0; i < 6; i++) {
        visitors[i] = (struct visitor){
            f, i < 4 ? "a" : i == 4 ? "b" : "c", &order, -1, 0, 0};
        assert_int_equal(
            pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
        wait_until_queued(&visitors[i]);
    }
    fair_queue_leave(f, "a"); /* one place: b, then c, then the line of a */
    for (int i = 0; i < 6; i++)
        (void)pthread_join(visitors[i].thread, NULL);
    assert_int_equal(visitors[4].came, 0);
    assert_int_equal(visitors[5].came, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(visitors[i].came, 2 + i);
    fair_queue_leave(f, "a");
    fair_queue_free(f);
}

static void fair_queue_gives_up_at_the_deadline(void **state)
{
    struct fair_queue *f = fair_queue_new(1);

    (void)state;
    assert_true(fair_queue_enter(f, "a", 0));
    assert_false(fair_queue_enter(f, "b", clock_mono_ms() + 10));
    assert_false(fair_queue_enter(f, "a", 0));
    fair_queue_leave(f, "a");
    assert_true(fair_queue_enter(f, "b", 0));
    fair_queue_leave(f, "b");
    fair_queue_free(f);
    assert_true(fair_queue_enter(NULL, "a", 0));
    fair_queue_leave(NULL, "a");
    fair_queue_free(NULL);
}

/* ---- backoff ------------------------------------------------------------ */

/* A client that waits as told is not slowed by refusals of long ago. */
static void fair_backoff_counts_and_forgets(void **state)
{
    struct fair_backoff *p = fair_backoff_new();
    uint64_t now = 1000000;

    (void)state;
    for (int i = 0; i < 1000; i++)
        fair_backoff_refused(p, 7, now);
    assert_false(fair_backoff_exceeded(p, 7, now));
    fair_backoff_refused(p, 7, now);
    assert_true(fair_backoff_exceeded(p, 7, now));
    assert_false(fair_backoff_exceeded(p, 8, now));
    assert_false(fair_backoff_exceeded(p, 7, now + 10));
    for (int i = 0; i < 100000; i++)
        fair_backoff_refused(p, 7, now);
    assert_true(fair_backoff_exceeded(p, 7, now + 1999));
    assert_false(fair_backoff_exceeded(p, 7, now + 2000));
    /* Many others, of the same set too, do not make it forget. */
    for (uint64_t i = 8; i < 100000; i++)
        fair_backoff_refused(p, i, now);
    assert_true(fair_backoff_exceeded(p, 7, now));
    fair_backoff_free(p);
}

/* ---- CPU budget --------------------------------------------------------- */

/* A tenant is alone until another one starts something, and again some time
 * after the last change between them. */
static void X4_fair_cpu_alone_until_another_begins(void **state)
{
    struct fair_cpu all = {0};
    struct fair_tenant one = {.all = &all}, other = {.all = &all};

    (void)state;
    assert_true(fair_cpu_alone(&one));
    assert_true(fair_cpu_alone(&one));
    assert_false(fair_cpu_alone(&other));
    assert_false(fair_cpu_alone(&other)); /* not by being last alone */
    assert_false(fair_cpu_alone(&one));
    atomic_store(&all.shared_until_ms, clock_mono_ms() + 60000);
    assert_false(fair_cpu_alone(&one));
    atomic_store(&all.shared_until_ms, clock_mono_ms());
    assert_true(fair_cpu_alone(&one));
}

/* Beside another tenant, the budget pays for ten sandboxes at once and the
 * next ones are created in the background; a tenant that is alone has no
 * limit. */
static void X4_fair_cpu_budget_pays_for_ten_creations(void **state)
{
    struct fair_cpu all = {0};
    struct fair_tenant one = {.all = &all}, other = {.all = &all};
    unsigned prompt = 0;

    (void)state;
    for (int i = 0; i < 30; i++)
        assert_false(fair_cpu_charge_create(&other));
    atomic_store(&other.refilled_ms, 0);
    assert_false(fair_cpu_alone(&one));
    while (prompt < 30 && !fair_cpu_charge_create(&one))
        prompt++;
    assert_in_range(prompt, 10, 29); /* ten, unless the machine stood still */
    assert_false(fair_cpu_charge_create(&other));
    atomic_store(&one.refilled_ms, clock_mono_ms() + 60000);
    assert_true(fair_cpu_charge_create(&one));
    atomic_store(&one.refilled_ms, clock_mono_ms() + 4000); /* as after ten */
    assert_false(fair_cpu_charge_create(&one));
}

/* An execution costs what it used up to a limit, a crash more than that. */
static void X4_fair_cpu_charges_at_below_and_above(void **state)
{
    static const struct {
        uint64_t cpu_ms;
        bool crashed;
        unsigned charged;
    } cases[] = {{0, false, 0},     {1, false, 1},     {99, false, 99},
                 {100, false, 100}, {101, false, 100}, {60000, false, 100},
                 {0, true, 400},    {60000, true, 400}};
    struct fair_cpu all = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct fair_tenant t = {.all = &all, .refilled_ms = UINT64_C(1) << 40};

        fair_cpu_charge_run(&t, cases[i].cpu_ms, cases[i].crashed);
        assert_int_equal(atomic_load(&t.refilled_ms) - (UINT64_C(1) << 40),
                         cases[i].charged * fair.refill_ratio);
    }
}

/* ---- reserved CPU ------------------------------------------------------- */

struct reserved {
    atomic_bool on;
    atomic_uint slot, changes;
};

static void on_reserve(void *ctx, bool on, uint32_t slot)
{
    struct reserved *r = ctx;

    atomic_store(&r->slot, slot);
    atomic_store(&r->on, on);
    atomic_fetch_add(&r->changes, 1);
}

static bool reserve_becomes(struct reserved *r, bool on)
{
    for (int i = 0; i < 200 && atomic_load(&r->on) != on; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return atomic_load(&r->on) == on;
}

static void X4_fair_reserve_ends_after_the_last_request(void **state)
{
    struct reserved seen = {0};
    struct fair_reserve *r = NULL;
    struct error err;

    (void)state;
    assert_int_equal(fair_reserve_start(on_reserve, &seen, &r, &err), 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(atomic_load(&seen.changes), 0);
    fair_reserve_request(r, 7);
    assert_true(reserve_becomes(&seen, true));
    assert_int_equal(atomic_load(&seen.slot), 7);
    fair_reserve_request(r, 8); /* it is there already */
    assert_true(reserve_becomes(&seen, false));
    assert_int_equal(atomic_load(&seen.changes), 2);
    fair_reserve_request(r, 9);
    assert_true(reserve_becomes(&seen, true));
    assert_int_equal(atomic_load(&seen.slot), 9);
    fair_reserve_stop(r);
    fair_reserve_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(X4_fair_share_at_below_and_above),
        cmocka_unit_test(every_mechanism_has_a_name_and_is_on),
        cmocka_unit_test(X4_fair_queue_serves_the_tenant_with_fewest_places),
        cmocka_unit_test(fair_queue_gives_up_at_the_deadline),
        cmocka_unit_test(fair_backoff_counts_and_forgets),
        cmocka_unit_test(X4_fair_cpu_alone_until_another_begins),
        cmocka_unit_test(X4_fair_cpu_budget_pays_for_ten_creations),
        cmocka_unit_test(X4_fair_cpu_charges_at_below_and_above),
        cmocka_unit_test(X4_fair_reserve_ends_after_the_last_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
