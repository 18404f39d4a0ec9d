/* SPDX-License-Identifier: Apache-2.0 */
/* src/quota: limits of every kind, windows across a restart, loops, turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "quota/quota_int.h"
#include "scratch.h"
#include "store/store.h"
#include "store_choice.h"

#define T "acme"
#define HOUR 3600000
#define BEGIN 1700000000000

/* The saver thread reads them, too. */
static _Atomic int64_t real_now;
static _Atomic uint64_t mono_now;

static int64_t fake_real(void)
{
    return real_now;
}

static uint64_t fake_mono(void)
{
    return mono_now;
}

static void pass(uint64_t ms)
{
    real_now += (int64_t)ms;
    mono_now += ms;
}

struct fixture {
    char dir[64];
    struct store *store;
    struct audit *audit;
    struct quotas *q;
    struct error err;
};

static const struct actor OPERATOR = {.tenant = "default", .key = "key_op"};

static void open_quotas(struct fixture *f, uint64_t most)
{
    struct quota_limits limits;

    for (int k = 0; k < QUOTA_KINDS; k++)
        limits.most[k] = most;
    if (quotas_open(&limits, f->store, f->audit, &f->q, &f->err) < 0)
        fail_msg("%s", f->err.message);
    mutex_lock(&f->q->lock);
    f->q->real_ms = fake_real;
    f->q->mono_ms = fake_mono;
    mutex_unlock(&f->q->lock);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    real_now = clock_real_ms();
    mono_now = 1000000;
    if (!scratch_dir(f->dir, sizeof(f->dir), "test_quota") ||
        store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0 ||
        audit_open(f->store, f->dir, &f->audit, &f->err) < 0)
        abort();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    quotas_close(f->q);
    audit_close(f->audit);
    store_close(f->store);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static void set(struct fixture *f, const char *tenant, enum quota_kind kind,
                uint64_t most)
{
    const uint64_t *values[QUOTA_KINDS] = {0};

    values[kind] = &most;
    if (quota_set(f->q, &OPERATOR, tenant, values, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static int take(struct fixture *f, enum quota_kind kind, uint64_t amount)
{
    return quota_take(f->q, T, kind, amount, &f->err);
}

static uint64_t used(struct fixture *f, enum quota_kind kind)
{
    struct quota_use uses[QUOTA_KINDS];

    quota_uses(f->q, T, uses);
    return uses[kind].used;
}

/* ---- limits ------------------------------------------------------------- */

static void names_are_found_and_others_are_not(void **state)
{
    (void)state;
    for (int k = 0; k < QUOTA_KINDS; k++)
        assert_int_equal(quota_find(quota_name((enum quota_kind)k)), k);
    assert_int_equal(quota_find("nothing"), QUOTA_KINDS);
    assert_int_equal(quota_find(""), QUOTA_KINDS);
}

static void no_quotas_is_room(void **state)
{
    struct quota_use uses[QUOTA_KINDS];
    uint64_t refusals[QUOTA_REFUSALS];
    unsigned char code[32] = {1};
    struct error err;
    uint32_t repeats;

    (void)state;
    assert_int_equal(quota_take(NULL, T, QUOTA_SESSIONS, 1, &err), 0);
    assert_int_equal(quota_check(NULL, T, QUOTA_CPU, &err), 0);
    quota_give(NULL, T, QUOTA_SESSIONS, 1);
    quota_spend(NULL, T, QUOTA_CPU, 1);
    quota_repeat_note(NULL, T, "s", code, true);
    assert_int_equal(quota_repeat_check(NULL, T, "s", code, &repeats, &err),
                     0);
    quota_uses(NULL, T, uses);
    quota_refusals(NULL, refusals);
    assert_string_equal(uses[QUOTA_CPU].name, "cpu_s_per_hour");
    assert_int_equal(quota_most(NULL, T, QUOTA_CPU), 0);
}

static void R8_held_at_below_and_above(void **state)
{
    static const enum quota_kind held[] = {QUOTA_SESSIONS, QUOTA_EXECUTIONS,
                                           QUOTA_MEMORY};
    struct fixture *f = *state;

    open_quotas(f, 10);
    for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
        enum quota_kind k = held[i];

        assert_int_equal(take(f, k, 9), 0);          /* below */
        assert_int_equal(take(f, k, 1), 0);          /* at */
        assert_int_equal(take(f, k, 1), -ERR_LIMIT); /* above */
        assert_string_equal(f->err.quota, quota_name(k));
        assert_int_equal(f->err.quota_most, 10);
        assert_int_equal(f->err.quota_used, 10);
        assert_int_equal(f->err.quota_until_ms, 0);
        assert_true(f->err.retry_after_s >= 1);
        assert_true(f->err.hint[0]);
        assert_int_equal(quota_take(f->q, "other", k, 10, &f->err), 0);
        quota_give(f->q, T, k, 1);
        assert_int_equal(take(f, k, 2), -ERR_LIMIT);
        assert_int_equal(take(f, k, 1), 0);
        quota_give(f->q, T, k, 100); /* never below none */
        assert_int_equal(used(f, k), 0);
        assert_int_equal(take(f, k, 11), -ERR_LIMIT);
        assert_int_equal(take(f, k, UINT64_MAX), -ERR_LIMIT);
    }
}

static void R8_windows_at_below_and_above(void **state)
{
    static const enum quota_kind spent[] = {QUOTA_RUNS_PER_HOUR, QUOTA_CPU,
                                            QUOTA_EGRESS, QUOTA_OUTPUT};
    struct fixture *f = *state;
    struct quota_use uses[QUOTA_KINDS];

    open_quotas(f, 10);
    for (size_t i = 0; i < ARRAY_SIZE(spent); i++) {
        enum quota_kind k = spent[i];
        uint64_t window = k == QUOTA_EGRESS ? 24 * HOUR : HOUR;

        assert_int_equal(quota_check(f->q, T, k, &f->err), 0);
        quota_spend(f->q, T, k, 9);
        assert_int_equal(quota_check(f->q, T, k, &f->err), 0);
        pass(1500);
        assert_int_equal(take(f, k, 2), -ERR_LIMIT);
        assert_int_equal(take(f, k, 1), 0);
        assert_int_equal(quota_check(f->q, T, k, &f->err), -ERR_LIMIT);
        assert_int_equal(f->err.quota_used, 10);
        assert_int_equal(f->err.quota_until_ms,
                         real_now - 1500 + (int64_t)window);
        assert_int_equal(f->err.retry_after_s, window / 1000 - 1);
        quota_spend(f->q, T, k, 5); /* counted afterwards: may go over */
        quota_uses(f->q, T, uses);
        assert_int_equal(uses[k].used, 15);
        assert_int_equal(uses[k].resets_at_ms,
                         real_now - 1500 + (int64_t)window);
        pass(window - 1501);
        assert_int_equal(quota_check(f->q, T, k, &f->err), -ERR_LIMIT);
        assert_int_equal(f->err.retry_after_s, 1);
        pass(1);
        assert_int_equal(quota_check(f->q, T, k, &f->err), 0);
        assert_int_equal(used(f, k), 0);
    }
}

static void R8_rate_at_below_and_above(void **state)
{
    struct fixture *f = *state;
    struct quota_use uses[QUOTA_KINDS];

    open_quotas(f, 3);
    for (int i = 0; i < 6; i++) /* two seconds' worth */
        assert_int_equal(take(f, QUOTA_CREATIONS, 1), 0);
    assert_int_equal(take(f, QUOTA_CREATIONS, 1), -ERR_LIMIT);
    assert_string_equal(f->err.quota, "creations_per_s");
    assert_int_equal(f->err.retry_after_s, 1);
    quota_uses(f->q, T, uses);
    assert_int_equal(uses[QUOTA_CREATIONS].used, 3);
    assert_int_equal(uses[QUOTA_CREATIONS].resets_at_ms, real_now + 2000);
    pass(333);
    assert_int_equal(take(f, QUOTA_CREATIONS, 1), -ERR_LIMIT);
    pass(1);
    assert_int_equal(take(f, QUOTA_CREATIONS, 1), 0);
    pass(UINT32_MAX);
    for (int i = 0; i < 6; i++)
        assert_int_equal(take(f, QUOTA_CREATIONS, 1), 0);
    assert_int_equal(take(f, QUOTA_CREATIONS, 1), -ERR_LIMIT);
    set(f, T, QUOTA_CREATIONS, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(take(f, QUOTA_CREATIONS, 1), 0);
}

static void nothing_is_limited_at_0(void **state)
{
    struct fixture *f = *state;

    open_quotas(f, 0);
    for (int k = 0; k < QUOTA_KINDS; k++) {
        assert_int_equal(take(f, (enum quota_kind)k, 1ull << 40), 0);
        assert_int_equal(quota_check(f->q, T, (enum quota_kind)k, &f->err), 0);
    }
}

static void refusals_are_counted_by_kind(void **state)
{
    struct fixture *f = *state;
    uint64_t n[QUOTA_REFUSALS];

    open_quotas(f, 1);
    assert_int_equal(take(f, QUOTA_SESSIONS, 2), -ERR_LIMIT);
    assert_int_equal(take(f, QUOTA_CPU, 2), -ERR_LIMIT);
    assert_int_equal(take(f, QUOTA_CPU, 2), -ERR_LIMIT);
    (void)error_set(&f->err, ERR_SPACE, "full");
    assert_int_equal(quota_refuse(f->q, QUOTA_STORAGE, 10, 9, &f->err),
                     -ERR_SPACE);
    assert_string_equal(f->err.quota, "storage_bytes");
    quota_refusals(f->q, n);
    assert_int_equal(n[QUOTA_SESSIONS], 1);
    assert_int_equal(n[QUOTA_CPU], 2);
    assert_int_equal(n[QUOTA_STORAGE], 1);
    assert_int_equal(n[QUOTA_KINDS], 0);
}

/* ---- what outlives the process ------------------------------------------ */

static void reopen(struct fixture *f, uint64_t most)
{
    quotas_close(f->q);
    f->q = NULL;
    open_quotas(f, most);
}

static void own_limits_hold_and_survive(void **state)
{
    struct fixture *f = *state;
    struct quota_use uses[QUOTA_KINDS];

    open_quotas(f, 1);
    set(f, T, QUOTA_SESSIONS, 3);
    set(f, T, QUOTA_STORAGE, 77);
    assert_int_equal(take(f, QUOTA_SESSIONS, 3), 0);
    assert_int_equal(quota_take(f->q, "other", QUOTA_SESSIONS, 2, &f->err),
                     -ERR_LIMIT);
    reopen(f, 1);
    quota_uses(f->q, T, uses);
    assert_int_equal(uses[QUOTA_SESSIONS].most, 3);
    assert_true(uses[QUOTA_SESSIONS].own);
    assert_int_equal(uses[QUOTA_SESSIONS].used, 0); /* ended with it */
    assert_int_equal(quota_most(f->q, T, QUOTA_STORAGE), 77);
    assert_false(uses[QUOTA_CPU].own);
    set(f, T, QUOTA_SESSIONS, UINT64_MAX); /* the default again */
    assert_int_equal(quota_most(f->q, T, QUOTA_SESSIONS), 1);
    reopen(f, 1);
    assert_int_equal(quota_most(f->q, T, QUOTA_SESSIONS), 1);
    assert_int_equal(quota_most(f->q, T, QUOTA_STORAGE), 77);
}

static void a_limit_out_of_range_changes_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t good = QUOTA_VALUE_MAX, bad = QUOTA_VALUE_MAX + 1;
    const uint64_t *values[QUOTA_KINDS] = {
        [QUOTA_SESSIONS] = &good, [QUOTA_CPU] = &bad};

    open_quotas(f, 1);
    assert_int_equal(quota_set(f->q, &OPERATOR, T, values, &f->err),
                     -ERR_INVALID);
    assert_int_equal(quota_most(f->q, T, QUOTA_SESSIONS), 1);
    values[QUOTA_CPU] = NULL;
    assert_int_equal(quota_set(f->q, &OPERATOR, T, values, &f->err), 0);
    assert_int_equal(quota_most(f->q, T, QUOTA_SESSIONS), QUOTA_VALUE_MAX);
}

static void R8_a_restart_gives_no_second_helping(void **state)
{
    struct fixture *f = *state;

    open_quotas(f, 5);
    quota_spend(f->q, T, QUOTA_CPU, 5);
    assert_int_equal(take(f, QUOTA_RUNS_PER_HOUR, 4), 0);
    reopen(f, 5);
    assert_int_equal(quota_check(f->q, T, QUOTA_CPU, &f->err), -ERR_LIMIT);
    assert_int_equal(take(f, QUOTA_RUNS_PER_HOUR, 1), 0);
    assert_int_equal(take(f, QUOTA_RUNS_PER_HOUR, 1), -ERR_LIMIT);
    pass(HOUR / 2);
    reopen(f, 5);
    assert_int_equal(quota_check(f->q, T, QUOTA_CPU, &f->err), -ERR_LIMIT);
    assert_int_equal(f->err.retry_after_s, 1800);
    pass(HOUR / 2);
    reopen(f, 5);
    assert_int_equal(quota_check(f->q, T, QUOTA_CPU, &f->err), 0);
}

static void history_has_sums_and_maxima_by_the_hour(void **state)
{
    struct fixture *f = *state;
    struct quota_hour *hours = NULL;
    size_t count = 0;
    int64_t first;

    open_quotas(f, 100);
    first = real_now / HOUR * HOUR;
    assert_int_equal(take(f, QUOTA_SESSIONS, 3), 0);
    quota_give(f->q, T, QUOTA_SESSIONS, 2);
    assert_int_equal(take(f, QUOTA_SESSIONS, 1), 0);
    quota_spend(f->q, T, QUOTA_CPU, 5);
    reopen(f, 100); /* the hour goes on after a restart */
    quota_spend(f->q, T, QUOTA_CPU, 2);
    quota_persist_save(f->q); /* as the thread does within seconds */
    pass(2 * HOUR);
    quota_spend(f->q, T, QUOTA_EGRESS, 7);
    quota_spend(f->q, "other", QUOTA_CPU, 50);
    assert_int_equal(quota_history(f->q, T, first, &hours, &count, &f->err),
                     0);
    assert_int_equal(count, 2);
    assert_int_equal(hours[0].at_ms, first);
    assert_int_equal(hours[0].used[QUOTA_SESSIONS], 3);
    assert_int_equal(hours[0].used[QUOTA_CPU], 7);
    assert_int_equal(hours[1].at_ms, first + 2 * HOUR);
    assert_int_equal(hours[1].used[QUOTA_EGRESS], 7);
    assert_int_equal(hours[1].used[QUOTA_CPU], 0);
    free(hours);
    /* Only the hours asked for; the oldest are deleted. */
    assert_int_equal(
        quota_history(f->q, T, first + HOUR, &hours, &count, &f->err), 0);
    assert_int_equal(count, 1);
    free(hours);
    pass((uint64_t)(QUOTA_HISTORY_HOURS - 1) * HOUR);
    quota_spend(f->q, T, QUOTA_CPU, 1);
    assert_int_equal(quota_history(f->q, T, 0, &hours, &count, &f->err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(hours[0].at_ms, first + 2 * HOUR);
    free(hours);
}

static void what_is_written_meanwhile_survives_a_crash(void **state)
{
    struct fixture *f = *state;
    struct quotas *crashed;

    open_quotas(f, 5);
    quota_spend(f->q, T, QUOTA_CPU, 5);
    quota_persist_save(f->q);
    crashed = f->q;
    open_quotas(f, 5);
    assert_int_equal(quota_check(f->q, T, QUOTA_CPU, &f->err), -ERR_LIMIT);
    quotas_close(crashed);
}

static void a_clock_put_back_gives_no_second_helping(void **state)
{
    struct fixture *f = *state;

    open_quotas(f, 5);
    quota_spend(f->q, T, QUOTA_CPU, 5);
    real_now -= 10 * HOUR;
    assert_int_equal(quota_check(f->q, T, QUOTA_CPU, &f->err), -ERR_LIMIT);
    assert_int_equal(f->err.retry_after_s, 3600);
    pass(HOUR);
    assert_int_equal(quota_check(f->q, T, QUOTA_CPU, &f->err), 0);
}

static void idle_tenants_make_room(void **state)
{
    struct fixture *f = *state;
    char name[16];

    open_quotas(f, 5);
    set(f, "own", QUOTA_CPU, 9);
    for (unsigned i = 0; i < QUOTA_TENANTS_MAX - 2; i++) {
        (void)snprintf(name, sizeof(name), "t%u", i);
        assert_int_equal(quota_take(f->q, name, QUOTA_SESSIONS, 1, &f->err),
                         0);
    }
    assert_int_equal(quota_take(f->q, "at", QUOTA_SESSIONS, 1, &f->err), 0);
    assert_int_equal(quota_take(f->q, "over", QUOTA_SESSIONS, 1, &f->err),
                     -ERR_BUSY);
    assert_true(f->err.retry_after_s > 0);
    quota_give(f->q, "t7", QUOTA_SESSIONS, 1);
    quota_persist_save(f->q); /* what it used in this hour */
    pass(3000);
    assert_int_equal(quota_take(f->q, "over", QUOTA_SESSIONS, 1, &f->err), 0);
    assert_int_equal(quota_most(f->q, "own", QUOTA_CPU), 9);
}

/* ---- loops -------------------------------------------------------------- */

static void R8_loops_are_slowed_more_and_more(void **state)
{
    static const unsigned waits_s[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
    struct fixture *f = *state;
    unsigned char code[32] = {1}, other[32] = {2};
    uint64_t n[QUOTA_REFUSALS];
    uint32_t repeats = 9;

    open_quotas(f, 0);
    for (uint32_t i = 0; i < QUOTA_LOOP_FREE; i++) {
        assert_int_equal(
            quota_repeat_check(f->q, T, "s1", code, &repeats, &f->err), 0);
        assert_int_equal(repeats, i);
        quota_repeat_note(f->q, T, "s1", code, true);
    }
    for (uint32_t i = 0; i < ARRAY_SIZE(waits_s); i++) {
        assert_int_equal(
            quota_repeat_check(f->q, T, "s1", code, &repeats, &f->err),
            -ERR_LIMIT);
        assert_string_equal(f->err.quota, "repeated_failure");
        assert_int_equal(f->err.quota_used, QUOTA_LOOP_FREE + i);
        assert_int_equal(f->err.retry_after_s, waits_s[i]);
        assert_int_equal(f->err.quota_until_ms,
                         real_now + (int64_t)waits_s[i] * 1000);
        pass(waits_s[i] * 1000ull - 1);
        assert_int_equal(
            quota_repeat_check(f->q, T, "s1", code, &repeats, &f->err),
            -ERR_LIMIT);
        pass(1);
        assert_int_equal(
            quota_repeat_check(f->q, T, "s1", code, &repeats, &f->err), 0);
        assert_int_equal(repeats, QUOTA_LOOP_FREE + i);
        quota_repeat_note(f->q, T, "s1", code, true);
        /* Other code, and other sessions, are not touched. */
        assert_int_equal(
            quota_repeat_check(f->q, T, "s1", other, &repeats, &f->err), 0);
        assert_int_equal(
            quota_repeat_check(f->q, T, "s2", code, &repeats, &f->err), 0);
        assert_int_equal(repeats, 0);
    }
    quota_repeat_note(f->q, T, "s1", code, false); /* it worked */
    assert_int_equal(
        quota_repeat_check(f->q, T, "s1", code, &repeats, &f->err), 0);
    assert_int_equal(repeats, 0);
    quota_refusals(f->q, n);
    assert_int_equal(n[QUOTA_KINDS], 2 * ARRAY_SIZE(waits_s));
}

static void loops_are_reported_once(void **state)
{
    struct fixture *f = *state;
    struct audit_filter filter = {.action = "execution.repeated"};
    struct audit_line *lines = NULL;
    unsigned char code[32] = {1};
    uint32_t repeats;
    size_t count = 0;
    bool more;

    open_quotas(f, 0);
    for (unsigned i = 0; i < QUOTA_LOOP_FREE; i++)
        quota_repeat_note(f->q, T, "sess_1", code, true);
    for (int i = 0; i < 3; i++)
        (void)quota_repeat_check(f->q, T, "sess_1", code, &repeats, &f->err);
    audit_close(f->audit); /* writes what waits */
    if (audit_open(f->store, f->dir, &f->audit, &f->err) < 0 ||
        audit_query(f->audit, &filter, &lines, &count, &more, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(count, 1);
    assert_string_equal(lines[0].tenant, T);
    assert_string_equal(lines[0].object, "sess_1");
    audit_lines_free(lines, count);
    f->q->audit = f->audit;
}

static void loops_remember_so_many_codes_and_sessions(void **state)
{
    struct fixture *f = *state;
    unsigned char code[32] = {0};
    uint32_t repeats;
    char id[16];

    open_quotas(f, 0);
    for (unsigned i = 0; i <= QUOTA_LOOP_CODES; i++, pass(1)) {
        code[0] = (unsigned char)i;
        quota_repeat_note(f->q, T, "s", code, true);
    }
    for (unsigned i = 0; i <= QUOTA_LOOP_CODES; i++) {
        code[0] = (unsigned char)i;
        assert_int_equal(
            quota_repeat_check(f->q, T, "s", code, &repeats, &f->err), 0);
        assert_int_equal(repeats, i > 0); /* the first made room */
    }
    for (unsigned i = 0; i < QUOTA_LOOP_SESSIONS; i++, pass(1)) {
        (void)snprintf(id, sizeof(id), "x%u", i);
        quota_repeat_note(f->q, T, id, code, true);
    }
    assert_int_equal(f->q->loop_count, QUOTA_LOOP_SESSIONS);
    assert_int_equal(quota_repeat_check(f->q, T, "s", code, &repeats, &f->err),
                     0);
    assert_int_equal(repeats, 0);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_and_others_are_not),
        cmocka_unit_test(no_quotas_is_room),
        CASE(R8_held_at_below_and_above),
        CASE(R8_windows_at_below_and_above),
        CASE(R8_rate_at_below_and_above),
        CASE(nothing_is_limited_at_0),
        CASE(refusals_are_counted_by_kind),
        CASE(own_limits_hold_and_survive),
        CASE(a_limit_out_of_range_changes_nothing),
        CASE(R8_a_restart_gives_no_second_helping),
        CASE(history_has_sums_and_maxima_by_the_hour),
        CASE(what_is_written_meanwhile_survives_a_crash),
        CASE(a_clock_put_back_gives_no_second_helping),
        CASE(idle_tenants_make_room),
        CASE(R8_loops_are_slowed_more_and_more),
        CASE(loops_are_reported_once),
        CASE(loops_remember_so_many_codes_and_sessions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
