/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the kernel of a new box comes from: fresh by this build, and from a
 * snapshot by a starter of the test. Warden, pid 1 and kernel are those of
 * session_fake.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "session_fake.h"

static const struct warden_limits limits = {.memory_bytes = 1 << 26};
static const atomic_bool stopping = false;

/* ---- the second starter ------------------------------------------------- */

static struct {
    unsigned woken, fresh;
    enum box_image_problem problem;
    enum error_code fail_wake, fail_fresh;
    struct box_origin origin; /* as it came */
} seen;

static int starter_fresh(struct box *b, struct error *err)
{
    seen.fresh++;
    if (seen.fail_fresh)
        return error_set(err, seen.fail_fresh, "no kernel");
    return box_kernel_start(b, err);
}

/* A woken kernel is played by a new one that the box does not know of. */
static int starter_wake(struct box *b, const struct box_origin *origin,
                        enum box_image_problem *ret_problem, struct error *err)
{
    seen.woken++;
    seen.origin = *origin;
    if (seen.fail_wake)
        return error_set(err, seen.fail_wake, "the sandbox ended");
    *ret_problem = seen.problem;
    return seen.problem ? 0 : box_kernel_start(b, err);
}

static const struct box_starter starter = {.fresh = starter_fresh,
                                           .wake = starter_wake};

/* ---- fixture ------------------------------------------------------------ */

static struct warden_link link_;

static int set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof(seen));
    (void)signal(SIGPIPE, SIG_IGN);
    return 0;
}

static int tear_down(void **state)
{
    int leaks = atomic_load(&fake.spawns) != atomic_load(&fake.releases);

    (void)state;
    fake_reset();
    return leaks;
}

static int open_from(struct box_origin origin, struct box **ret,
                     struct box_start *ret_start, struct error *err)
{
    const struct box_spec spec = {
        .runtime = 1, .limits = &limits, .origin = origin};

    return box_open(&link_, &spec, &stopping, ret, ret_start, err);
}

static void drop(struct box *b)
{
    box_release(b);
    box_unref(b);
}

/* A file whose every byte would show if somebody read it. */
static int image(void)
{
    int fd = memfd_create("image", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, "hostile", 7), 0);
    assert_int_equal(lseek(fd, 3, SEEK_SET), 3);
    return fd;
}

/* ---- tests -------------------------------------------------------------- */

static void box_starts_fresh_unless_told(void **state)
{
    struct box *b = NULL;
    struct box_start start = {.how = BOX_STARTED_WOKEN};
    struct error err = {0};

    (void)state;
    assert_int_equal(open_from((struct box_origin){0}, &b, &start, &err), 0);
    assert_int_equal(start.how, BOX_STARTED_FRESH);
    assert_int_equal(start.problem, BOX_IMAGE_USABLE);
    assert_true(box_kernel_alive(b));
    assert_false(box_is_touched(b));
    drop(b);
    /* Who does not care need not ask. */
    assert_int_equal(open_from((struct box_origin){0}, &b, NULL, &err), 0);
    drop(b);
}

/* What the process says of its image; the last two are not in the list. */
static void S1_box_of_this_build_starts_fresh_without_a_usable_image(
    void **state)
{
    static const struct {
        uint32_t said;
        enum box_image_problem problem;
    } cases[] = {
        {KERNEL_IMAGE_USABLE, BOX_IMAGE_USABLE},
        {KERNEL_IMAGE_UNSUPPORTED, BOX_IMAGE_UNSUPPORTED},
        {KERNEL_IMAGE_MISMATCH, BOX_IMAGE_MISMATCH},
        {KERNEL_IMAGE_DAMAGED, BOX_IMAGE_DAMAGED},
        {KERNEL_IMAGE_TOO_LARGE, BOX_IMAGE_TOO_LARGE},
        {KERNEL_IMAGE_AGAIN, BOX_IMAGE_DAMAGED},
        {KERNEL_IMAGE_AGAIN + 1, BOX_IMAGE_DAMAGED},
        {UINT32_MAX, BOX_IMAGE_DAMAGED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int fd cleanup(fd_close) = image();
        struct box *b = NULL;
        struct box_start start;
        struct error err = {0};

        atomic_store(&fake.image, cases[i].said);
        assert_int_equal(
            open_from((struct box_origin){.kind = BOX_ORIGIN_SNAPSHOT,
                                          .image_fd = fd},
                      &b, &start, &err),
            0);
        assert_int_equal(start.how, cases[i].problem ? BOX_STARTED_INSTEAD
                                                     : BOX_STARTED_WOKEN);
        assert_int_equal(start.problem, cases[i].problem);
        assert_true(box_kernel_alive(b));
        /* The image was carried, not read. */
        assert_int_equal(lseek(fd, 0, SEEK_CUR), 3);
        drop(b);
    }
    atomic_store(&fake.image, 0);
}

static void box_of_this_build_holds_no_images_by_name(void **state)
{
    struct box *b = NULL;
    struct box_start start;
    struct error err = {0};

    (void)state;
    assert_int_equal(open_from((struct box_origin){.kind = BOX_ORIGIN_SNAPSHOT,
                                                   .image_fd = -1,
                                                   .image_name = "snap-1"},
                               &b, &start, &err),
                     0);
    assert_int_equal(start.how, BOX_STARTED_INSTEAD);
    assert_int_equal(start.problem, BOX_IMAGE_UNSUPPORTED);
    drop(b);
}

static void box_wakes_from_a_snapshot(void **state)
{
    int fd cleanup(fd_close) = image();
    struct buf lines cleanup(buf_done) = {0};
    struct box *b = NULL;
    struct box_start start;
    struct error err = {0};

    (void)state;
    assert_int_equal(open_from((struct box_origin){.kind = BOX_ORIGIN_SNAPSHOT,
                                                   .image_fd = fd,
                                                   .starter = &starter},
                               &b, &start, &err),
                     0);
    assert_int_equal(start.how, BOX_STARTED_WOKEN);
    assert_int_equal(seen.woken, 1);
    assert_int_equal(seen.fresh, 0);
    /* The image was carried, not read. */
    assert_int_equal(seen.origin.image_fd, fd);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 3);
    assert_true(box_kernel_alive(b));
    /* Code has run in it, so it is not for another session. */
    assert_true(box_is_touched(b));
    /* What this box sets reaches the kernel, whatever the image holds. */
    assert_int_equal(box_guest_env_set(b, "A=1", 3, &err), 0);
    box_guest_env_take(b, &lines);
    assert_true(lines.len > 0);
    drop(b);

    assert_int_equal(open_from((struct box_origin){.kind = BOX_ORIGIN_SNAPSHOT,
                                                   .image_fd = -1,
                                                   .image_name = "snap-1",
                                                   .starter = &starter},
                               &b, &start, &err),
                     0);
    assert_string_equal(seen.origin.image_name, "snap-1");
    drop(b);
}

static void box_falls_back_from_an_unusable_snapshot(void **state)
{
    (void)state;
    for (int p = BOX_IMAGE_USABLE + 1; p <= BOX_IMAGE_PROBLEMS; p++) {
        struct box *b = NULL;
        struct box_start start;
        struct error err = {0};

        seen.problem = (enum box_image_problem)p;
        seen.fresh = 0;
        assert_int_equal(
            open_from((struct box_origin){.kind = BOX_ORIGIN_SNAPSHOT,
                                          .image_fd = -1,
                                          .image_name = "snap-1",
                                          .starter = &starter},
                      &b, &start, &err),
            0);
        assert_int_equal(start.how, BOX_STARTED_INSTEAD);
        assert_int_equal(start.problem, p);
        assert_true(box_image_problem_text(start.problem)[0] != '\0');
        assert_int_equal(seen.fresh, 1);
        assert_true(box_kernel_alive(b));
        assert_false(box_is_touched(b));
        drop(b);
    }
}

static void R7_box_that_fails_to_start_is_released(void **state)
{
    const struct box_origin snapshot = {.kind = BOX_ORIGIN_SNAPSHOT,
                                        .image_fd = -1,
                                        .image_name = "snap-1",
                                        .starter = &starter};
    struct box *b = NULL;
    struct box_start start;
    struct error err = {0};

    (void)state;
    /* An error ends the box; it is no reason to try a fresh kernel in it. */
    seen.fail_wake = ERR_GUEST;
    assert_int_equal(open_from(snapshot, &b, &start, &err), -ERR_GUEST);
    assert_null(b);
    assert_int_equal(seen.fresh, 0);
    assert_int_equal(atomic_load(&fake.releases), 1);
    /* Neither the image nor the zygote. */
    seen.fail_wake = ERR_NONE;
    seen.problem = BOX_IMAGE_DAMAGED;
    seen.fail_fresh = ERR_BUSY;
    assert_int_equal(open_from(snapshot, &b, &start, &err), -ERR_BUSY);
    assert_null(b);
    assert_int_equal(seen.fresh, 1);
    assert_int_equal(atomic_load(&fake.releases), 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(box_starts_fresh_unless_told),
        CASE(S1_box_of_this_build_starts_fresh_without_a_usable_image),
        CASE(box_of_this_build_holds_no_images_by_name),
        CASE(box_wakes_from_a_snapshot),
        CASE(box_falls_back_from_an_unusable_snapshot),
        CASE(R7_box_that_fails_to_start_is_released),
    };

    return cmocka_run_group_tests_name("box_start", tests, NULL, NULL);
}
