/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep/seal, upkeep/sealed, upkeep/schedule: an encrypted stream opens as
 * what was written and not otherwise; when the next backup is due.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "upkeep/backup_int.h"
#include "upkeep/upkeep_int.h"

#define SECRET "sixteen bytes or more"
#define CHUNK 65536u
#define SEALED_CHUNK (CHUNK + 16u)
#define HEADER 64u

static int memory_file(void)
{
    int fd = memfd_create("seal", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void write_sealed(int fd, const char *bytes, size_t len)
{
    struct seal *s cleanup(seal_free) = NULL;
    struct error err = {0};

    assert_int_equal(seal_create(fd, SECRET, strlen(SECRET), &s, &err), 0);
    assert_int_equal(seal_write(s, bytes, len, &err), 0);
    assert_int_equal(seal_finish(s, &err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
}

static int read_sealed(int fd, const char *secret, char *ret, size_t len,
                       struct error *err)
{
    struct seal *s cleanup(seal_free) = NULL;
    int r;

    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    r = seal_open(fd, secret, strlen(secret), &s, err);
    if (r == 0)
        r = seal_read(s, ret, len, err);
    return r < 0 ? r : seal_read_end(s, err);
}

static void seal_keeps_every_length(void **state)
{
    static const size_t lengths[] = {0,         1,         CHUNK - 1,    CHUNK,
                                     CHUNK + 1, 2 * CHUNK, 3 * CHUNK - 1};
    char *in cleanup(mem_free) = xmalloc(3 * CHUNK);
    char *out cleanup(mem_free) = xmalloc(3 * CHUNK + 1);

    (void)state;
    for (size_t i = 0; i < 3 * CHUNK; i++)
        in[i] = (char)(i * 31 >> 3);
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        int fd cleanup(fd_close) = memory_file();
        struct error err = {0};

        write_sealed(fd, in, lengths[i]);
        assert_int_equal(read_sealed(fd, SECRET, out, lengths[i], &err), 0);
        assert_memory_equal(in, out, lengths[i]);
        /* One byte more or less than there is. */
        assert_int_equal(read_sealed(fd, SECRET, out, lengths[i] + 1, &err),
                         -ERR_CORRUPT);
        if (lengths[i])
            assert_int_equal(
                read_sealed(fd, SECRET, out, lengths[i] - 1, &err),
                -ERR_CORRUPT);
    }
}

static void seal_refuses_another_secret(void **state)
{
    int fd cleanup(fd_close) = memory_file();
    struct error err = {0};
    char out[8];

    (void)state;
    write_sealed(fd, "abcdefgh", 8);
    assert_int_equal(read_sealed(fd, SECRET "!", out, 8, &err), -ERR_CORRUPT);
    assert_non_null(strstr(err.message, "another key"));
}

/* A file without its last chunk, or whose last is from elsewhere in it. */
static void seal_refuses_cut_and_moved_chunks(void **state)
{
    char *in cleanup(mem_free) = xcalloc(1, 3 * CHUNK);
    char *raw cleanup(mem_free) = xmalloc(HEADER + 4 * SEALED_CHUNK);
    struct error err = {0};
    ssize_t size;

    (void)state;
    for (int what = 0; what < 3; what++) {
        int fd cleanup(fd_close) = memory_file();

        write_sealed(fd, in, 3 * CHUNK); /* and an empty last one */
        size = fd_read_all(fd, raw, HEADER + 4 * SEALED_CHUNK);
        assert_int_equal(size, HEADER + 3 * SEALED_CHUNK + 16);
        if (what == 0) {
            assert_int_equal(ftruncate(fd, HEADER + 3 * SEALED_CHUNK), 0);
        } else if (what == 1) {
            assert_int_equal(ftruncate(fd, HEADER + 2 * SEALED_CHUNK), 0);
        } else {
            assert_int_equal(
                pwrite(fd, raw + HEADER, SEALED_CHUNK, HEADER + SEALED_CHUNK),
                SEALED_CHUNK);
        }
        assert_int_equal(read_sealed(fd, SECRET, in, 3 * CHUNK, &err),
                         -ERR_CORRUPT);
    }
}

static void D5_seal_reports_a_full_disk(void **state)
{
    int fd cleanup(fd_close) = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct seal *s cleanup(seal_free) = NULL;
    struct error err = {0};

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(seal_create(fd, SECRET, strlen(SECRET), &s, &err),
                     -ERR_SPACE);
}

/* ---- files -------------------------------------------------------------- */

static void put_name(int fd, const char *name)
{
    struct seal *s cleanup(seal_free) = NULL;
    struct backup_file f = {.size = 0};
    int from cleanup(fd_close) = memory_file();
    struct error err = {0};

    (void)snprintf(f.name, sizeof(f.name), "%s", name);
    assert_int_equal(write(from, "abc", 3), 3);
    assert_int_equal(lseek(from, 0, SEEK_SET), 0);
    assert_int_equal(seal_create(fd, SECRET, strlen(SECRET), &s, &err), 0);
    assert_int_equal(sealed_add(s, from, NULL, &f, &err), 0);
    assert_int_equal(f.size, 3);
    assert_int_equal(sealed_end(s, 1, &err), 0);
}

static int first_name(int fd, struct backup_file *ret)
{
    struct seal *s cleanup(seal_free) = NULL;
    struct error err = {0};
    uint64_t files = 0;

    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(seal_open(fd, SECRET, strlen(SECRET), &s, &err), 0);
    return sealed_next(s, &files, ret, &err);
}

static void sealed_next_accepts_only_known_names(void **state)
{
    static const char *const good[] = {
        "glovebox.db", "admin.key",
        "blobs/ba/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015"
        "ad"};
    static const char *const bad[] = {
        "../etc/passwd", "/etc/passwd", "endpoint", "blobs/../admin.key",
        "blobs/bb/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015"
        "ad"};
    struct backup_file f;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        int fd cleanup(fd_close) = memory_file();

        put_name(fd, good[i]);
        assert_int_equal(first_name(fd, &f), 1);
        assert_string_equal(f.name, good[i]);
        assert_int_equal(f.size, 3);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        int fd cleanup(fd_close) = memory_file();

        put_name(fd, bad[i]);
        assert_int_equal(first_name(fd, &f), -ERR_CORRUPT);
    }
}

/* ---- when --------------------------------------------------------------- */

static void schedule_next_is_due_by_the_last_end(void **state)
{
    const int64_t now = 1000000000000, hour = 3600000;
    struct upkeep_backup_state s = {0};

    (void)state;
    assert_int_equal(upkeep_schedule_next(&s, now), 0);
    s.every_s = 86400;
    assert_int_equal(upkeep_schedule_next(&s, now), now); /* the first */
    s.succeeded_at_ms = s.attempted_at_ms = now - hour;
    assert_int_equal(upkeep_schedule_next(&s, now), now + 23 * hour);
    s.succeeded_at_ms = now - 30 * hour; /* the service was off */
    assert_true(upkeep_schedule_next(&s, now) <= now);
    s.failures = 1;
    s.attempted_at_ms = now;
    assert_int_equal(upkeep_schedule_next(&s, now), now + 900000);
    s.every_s = 60; /* more often than a failure is repeated */
    assert_int_equal(upkeep_schedule_next(&s, now), now + 60000);
    s.failures = 0;
    s.every_s = 3600;
    s.succeeded_at_ms = now + 1000 * hour; /* the clock was set back */
    assert_int_equal(upkeep_schedule_next(&s, now), now + hour);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seal_keeps_every_length),
        cmocka_unit_test(seal_refuses_another_secret),
        cmocka_unit_test(seal_refuses_cut_and_moved_chunks),
        cmocka_unit_test(D5_seal_reports_a_full_disk),
        cmocka_unit_test(sealed_next_accepts_only_known_names),
        cmocka_unit_test(schedule_next_is_due_by_the_last_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
