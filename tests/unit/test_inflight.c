/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob/inflight: reservations of disk space at, below and above what one
 * tenant may take, and what is left for the next one.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "blob/inflight.h"

static uint64_t disk; /* free bytes of the pretended disk */

static uint64_t free_bytes(void *ctx)
{
    (void)ctx;
    return __atomic_load_n(&disk, __ATOMIC_SEQ_CST);
}

static int set_up(void **state)
{
    disk = 100;
    *state = inflight_new(free_bytes, NULL);
    return 0;
}

static int tear_down(void **state)
{
    inflight_free(*state);
    return 0;
}

/* Without waiting. */
static int take(struct inflight_hold *h, uint64_t bytes)
{
    struct error err = {0};

    return inflight_take(h, bytes, clock_mono_ms(), &err);
}

static void R4_a_tenant_alone_reserves_three_quarters(void **state)
{
    struct inflight_hold h, other;

    inflight_begin(*state, "a", &h);
    assert_int_equal(take(&h, 76), -ERR_SPACE); /* above */
    assert_int_equal(take(&h, 101), -ERR_SPACE);
    assert_int_equal(take(&h, UINT64_MAX), -ERR_SPACE);
    assert_int_equal(take(&h, 74), 0); /* below */
    assert_int_equal(take(&h, 1), 0);  /* at */
    assert_int_equal(inflight_bytes(*state), 75);
    assert_int_equal(take(&h, 1), -ERR_SPACE);
    /* It is the tenant that counts, not the single reservation. This one
     * would fit by itself, so it is worth trying again. */
    inflight_begin(*state, "a", &other);
    assert_int_equal(take(&other, 1), -ERR_BUSY);
    inflight_end(&other);
    inflight_end(&h);
    assert_int_equal(inflight_bytes(*state), 0);
    inflight_end(&h); /* a second time does nothing */
}

static void X4_a_second_tenant_finds_room(void **state)
{
    struct inflight_hold a, b;
    struct error err = {0};

    inflight_begin(*state, "a", &a);
    inflight_begin(*state, "b", &b);
    assert_int_equal(take(&a, 75), 0);
    assert_int_equal(inflight_take(&b, 19, clock_mono_ms(), &err), -ERR_BUSY);
    assert_true(err.retry_after_s > 0);
    assert_int_equal(take(&b, 18), 0);
    inflight_end(&a);
    assert_int_equal(take(&b, 57), 0); /* all that one tenant may */
    inflight_end(&b);
}

static void R4_written_bytes_are_counted_once(void **state)
{
    struct inflight_hold h;

    inflight_begin(*state, "a", &h);
    assert_int_equal(take(&h, 50), 0);
    inflight_wrote(&h, 50);
    disk = 50; /* as the disk shows it then */
    assert_int_equal(take(&h, 25), 0);
    assert_int_equal(take(&h, 1), -ERR_SPACE);
    inflight_wrote(&h, 1000); /* never more than was reserved */
    inflight_end(&h);
    /* What was stored stays on the disk: less is free for the next. */
    inflight_begin(*state, "a", &h);
    assert_int_equal(take(&h, 38), -ERR_SPACE);
    assert_int_equal(take(&h, 37), 0);
    inflight_end(&h);
}

static void R4_a_disk_that_cannot_tell_has_room(void **state)
{
    struct inflight_hold h;

    disk = UINT64_MAX;
    inflight_begin(*state, "a", &h);
    assert_int_equal(take(&h, 1ull << 40), 0);
    inflight_end(&h);
}

static void *end_soon(void *hold)
{
    struct timespec pause = {.tv_nsec = 50000000};

    (void)nanosleep(&pause, NULL);
    inflight_end(hold);
    return NULL;
}

static void X4_a_reservation_waits_for_others_to_end(void **state)
{
    struct inflight_hold a, b;
    struct error err = {0};
    pthread_t thread;

    inflight_begin(*state, "a", &a);
    inflight_begin(*state, "b", &b);
    assert_int_equal(take(&a, 75), 0);
    assert_int_equal(pthread_create(&thread, NULL, end_soon, &a), 0);
    assert_int_equal(inflight_take(&b, 75, clock_mono_ms() + 60000, &err), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    inflight_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            R4_a_tenant_alone_reserves_three_quarters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(X4_a_second_tenant_finds_room, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(R4_written_bytes_are_counted_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(R4_a_disk_that_cannot_tell_has_room,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            X4_a_reservation_waits_for_others_to_end, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
