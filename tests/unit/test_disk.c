/* SPDX-License-Identifier: Apache-2.0 */
/* disk/: the marks below, at and above; what is refused and when it ends; a
 * probe that fails or does not return. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "disk/disk_int.h"

#define KEEP 8000u

/* What the disk answers. */
struct fake {
    struct disk_room room;
    int look, probe; /* negative errno */
    unsigned looks, probes;
};

static int fake_look(struct disk *d, struct disk_room *ret)
{
    struct fake *f = d->test;

    f->looks++;
    *ret = f->room;
    return f->look;
}

static int fake_probe(struct disk *d)
{
    struct fake *f = d->test;

    f->probes++;
    return f->probe;
}

/* Without a thread: tests turn it themselves. */
static void make(struct disk *d, struct fake *f)
{
    *f = (struct fake){.room = {.bytes = 2 * KEEP, .files = UINT64_MAX}};
    *d = (struct disk){
        .keep = KEEP, .look = fake_look, .probe = fake_probe, .test = f};
    d->room.files = UINT64_MAX;
    mutex_init(&d->lock);
}

static enum disk_mode mode_at(struct disk *d, uint64_t now_ms)
{
    struct disk_state state;

    disk_state_at(d, now_ms, &state);
    assert_int_equal(state.mode == DISK_WORKS, state.reason[0] == '\0');
    return state.mode;
}

/* ---- room ----------------------------------------------------------------
 */

static void D12_room_below_at_and_above_the_mark(void **unused)
{
    static const struct {
        uint64_t bytes, files, want;
        bool room;
    } rows[] = {
        {KEEP - 1, UINT64_MAX, 0, false},
        {KEEP, UINT64_MAX, 0, true},
        {KEEP + 1, UINT64_MAX, 0, true},
        {KEEP, UINT64_MAX, 1, false},
        {KEEP + 9, UINT64_MAX, 10, false},
        {KEEP + 10, UINT64_MAX, 10, true},
        {KEEP + 11, UINT64_MAX, 10, true},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, false},
        {2 * KEEP, DISK_FREE_FILES - 1, 0, false},
        {2 * KEEP, DISK_FREE_FILES, 0, true},
        {2 * KEEP, DISK_FREE_FILES + 1, 0, true},
        {0, 0, 0, false},
    };

    (void)unused;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct disk_room room = {rows[i].bytes, rows[i].files};

        assert_int_equal(disk_has_room(&room, KEEP, rows[i].want),
                         rows[i].room);
        /* Nothing is kept: it is used to its end. */
        assert_true(disk_has_room(&room, 0, rows[i].want));
    }
}

static void D12_full_ends_an_eighth_above_the_mark(void **unused)
{
    struct disk_room room = {.files = UINT64_MAX};

    (void)unused;
    room.bytes = KEEP - 1;
    assert_true(disk_is_full(&room, KEEP, false));
    room.bytes = KEEP;
    assert_false(disk_is_full(&room, KEEP, false));
    assert_true(disk_is_full(&room, KEEP, true));
    room.bytes = KEEP + KEEP / 8 - 1;
    assert_true(disk_is_full(&room, KEEP, true));
    room.bytes = KEEP + KEEP / 8;
    assert_false(disk_is_full(&room, KEEP, true));
    room.bytes++;
    assert_false(disk_is_full(&room, KEEP, true));
}

static void D12_a_refused_write_makes_it_full_until_there_is_room(
    void **unused)
{
    struct disk_state state;
    struct error err;
    struct disk d;
    struct fake f;

    (void)unused;
    make(&d, &f);
    f.room.bytes = KEEP + 100;
    assert_int_equal(disk_admit(&d, 100, &err), 0);
    assert_int_equal(mode_at(&d, 0), DISK_WORKS);
    assert_int_equal(disk_admit(&d, 101, &err), -ERR_SPACE);
    assert_non_null(strstr(err.hint, "purge"));
    assert_int_equal(mode_at(&d, 0), DISK_FULL);
    /* What would have fitted is refused as well, so that it does not go to
     * and fro. */
    assert_int_equal(disk_admit(&d, 0, &err), -ERR_SPACE);
    f.room.bytes = KEEP + KEEP / 8 - 1;
    disk_turn(&d, 1000);
    assert_int_equal(mode_at(&d, 1000), DISK_FULL);
    f.room.bytes = KEEP + KEEP / 8;
    assert_int_equal(disk_admit(&d, 0, &err), 0);
    assert_int_equal(mode_at(&d, 1000), DISK_WORKS);
    disk_state_at(&d, 1000, &state);
    assert_int_equal(state.refused, 2);
    assert_int_equal(state.kept_bytes, KEEP);
    assert_int_equal(state.free_bytes, KEEP + KEEP / 8);
    assert_true(disk_full_since(&d, d.was_full_ms));
    assert_false(disk_full_since(&d, d.was_full_ms + 1));
    assert_false(disk_full_since(NULL, 0));
    /* A disk without a bound, and one that cannot be looked at. */
    assert_int_equal(disk_admit(NULL, UINT64_MAX, &err), 0);
    f.look = -EIO;
    assert_int_equal(disk_admit(&d, UINT64_MAX, &err), 0);
}

/* ---- health --------------------------------------------------------------
 */

static void D12_a_probe_that_fails_counts_until_one_succeeds(void **unused)
{
    struct disk_state state;
    struct disk d;
    struct fake f;

    (void)unused;
    make(&d, &f);
    disk_turn(&d, 1000);
    assert_int_equal(f.probes, 1);
    assert_int_equal(mode_at(&d, 1000), DISK_WORKS);
    f.probe = -EROFS;
    disk_turn(&d, 1000 + DISK_PROBE_MS - 1); /* not yet */
    assert_int_equal(f.probes, 1);
    assert_int_equal(mode_at(&d, 7000), DISK_WORKS);
    disk_turn(&d, 1000 + DISK_PROBE_MS);
    assert_int_equal(f.probes, 2);
    assert_int_equal(mode_at(&d, 7000), DISK_FAILED);
    disk_state_at(&d, 7000, &state);
    assert_non_null(strstr(state.reason, "Read-only file system"));
    disk_turn(&d, 7000); /* looks, and leaves the fault */
    assert_int_equal(mode_at(&d, 7000), DISK_FAILED);
    f.probe = -ENOSPC; /* no more than full */
    disk_turn(&d, 20000);
    assert_int_equal(mode_at(&d, 20000), DISK_FULL);
    f.probe = 0;
    disk_turn(&d, 30000);
    assert_int_equal(mode_at(&d, 30000), DISK_WORKS);
}

static void D12_a_probe_that_does_not_return_counts_as_failed(void **unused)
{
    struct disk d;
    struct fake f;

    (void)unused;
    make(&d, &f);
    d.begun_ms = 1000;
    assert_int_equal(mode_at(&d, 999), DISK_WORKS);
    assert_int_equal(mode_at(&d, 1000 + DISK_STALL_MS - 1), DISK_WORKS);
    assert_int_equal(mode_at(&d, 1000 + DISK_STALL_MS), DISK_FAILED);
    assert_int_equal(mode_at(&d, 1000 + DISK_STALL_MS + 1), DISK_FAILED);
    d.begun_ms = 0;
    assert_int_equal(mode_at(&d, 1000 + DISK_STALL_MS + 1), DISK_WORKS);
}

/* ---- the real thing ------------------------------------------------------
 */

static uint64_t count_calls(void *ctx)
{
    atomic_uint *calls = ctx;

    return 100u + atomic_fetch_add(calls, 1);
}

static void D12_opens_on_a_real_disk_and_refills(void **unused)
{
    char dir[] = "/tmp/glovebox-test-XXXXXX";
    struct disk_settings settings = {.data_dir = dir, .free_bytes = 1};
    struct disk_state state;
    struct disk *d = NULL;
    atomic_uint calls = 0;
    struct error err;
    struct stat st;
    char *file cleanup(mem_free) = NULL;

    (void)unused;
    assert_non_null(mkdtemp(dir));
    file = xasprintf("%s/" DISK_PROBE_FILE, dir);
    assert_int_equal(disk_open(&settings, &d, &err), 0);
    disk_state(d, &state);
    assert_int_equal(state.mode, DISK_WORKS);
    assert_true(state.free_bytes > 0);
    assert_int_equal(stat(file, &st), 0);
    assert_true(st.st_size > 0);
    disk_refill(d, count_calls, &calls);
    for (int i = 0; i < 600 && atomic_load(&calls) < 2; i++)
        (void)usleep(20000);
    disk_refill(d, NULL, NULL);
    assert_true(atomic_load(&calls) >= 2);
    disk_state(d, &state);
    assert_true(state.reserve_bytes >= 101);
    disk_close(d);

    /* More is to be kept than there is: a quarter is. */
    settings.free_bytes = UINT64_MAX;
    assert_int_equal(disk_open(&settings, &d, &err), 0);
    disk_state(d, &state);
    assert_int_equal(state.kept_bytes, d->total / 4);
    assert_int_equal(disk_share(d, d->total / 4 - 1), d->total / 4 - 1);
    assert_int_equal(disk_share(d, d->total / 4), d->total / 4);
    assert_int_equal(disk_share(d, d->total / 4 + 1), d->total / 4);
    assert_int_equal(disk_admit(d, UINT64_MAX, &err), -ERR_SPACE);
    disk_state(d, &state);
    assert_int_equal(state.mode, DISK_FULL);
    disk_close(d);
    disk_close(NULL);
    settings.data_dir = "/nowhere";
    assert_int_equal(disk_open(&settings, &d, &err), -ERR_INTERNAL);
    (void)unlink(file);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(D12_room_below_at_and_above_the_mark),
        cmocka_unit_test(D12_full_ends_an_eighth_above_the_mark),
        cmocka_unit_test(
            D12_a_refused_write_makes_it_full_until_there_is_room),
        cmocka_unit_test(D12_a_probe_that_fails_counts_until_one_succeeds),
        cmocka_unit_test(D12_a_probe_that_does_not_return_counts_as_failed),
        cmocka_unit_test(D12_opens_on_a_real_disk_and_refills),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
