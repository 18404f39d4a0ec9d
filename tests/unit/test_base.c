/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base: the error object keeps its context, buffers and arenas keep their
 * shape, a logged value cannot forge a line, and readers stop at their cap.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"

/* ---- error -------------------------------------------------------------- */

static void error_set_returns_the_negative_code(void **state)
{
    struct error err = {.hint = "old", .errnum = 7, .retry_after_s = 9};

    (void)state;
    assert_int_equal(error_set(&err, ERR_NOT_FOUND, "no %s", "session"),
                     -ERR_NOT_FOUND);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(err.errnum, 0);
    assert_int_equal(err.retry_after_s, 0);
    assert_string_equal(err.message, "no session");
    assert_string_equal(err.hint, "");
}

static void error_errno_appends_the_reason(void **state)
{
    struct error err;

    (void)state;
    assert_int_equal(error_errno(&err, ERR_INTERNAL, ENOSPC, "cannot write"),
                     -ERR_INTERNAL);
    assert_int_equal(err.errnum, ENOSPC);
    assert_string_equal(err.message, "cannot write: No space left on device");
    (void)error_errno(&err, ERR_INTERNAL, 99999, "odd");
    assert_string_equal(err.message, "odd: unknown error");
}

static void error_wrap_prefixes_and_keeps_the_rest(void **state)
{
    struct error err;

    (void)state;
    (void)error_errno(&err, ERR_BUSY, EAGAIN, "fork");
    (void)error_hint(&err, "try %d", 2);
    (void)error_retry(&err, 5);
    assert_int_equal(error_wrap(&err, "session %s", "x"), -ERR_BUSY);
    assert_string_equal(err.message,
                        "session x: fork: Resource temporarily unavailable");
    assert_string_equal(err.hint, "try 2");
    assert_int_equal(err.errnum, EAGAIN);
    assert_int_equal(err.retry_after_s, 5);
}

/* At, below and above the room; whatever is cut stays terminated. */
static void error_message_is_cut_at_its_room(void **state)
{
    char text[sizeof(((struct error *)0)->message) + 1];
    struct error err;

    (void)state;
    for (size_t len = sizeof(text) - 3; len < sizeof(text); len++) {
        size_t kept = MIN(len, sizeof(err.message) - 1);

        memset(text, 'a', len);
        text[len] = '\0';
        (void)error_set(&err, ERR_INVALID, "%s", text);
        assert_int_equal(strlen(err.message), kept);
        (void)error_hint(&err, "%s", text);
        assert_int_equal(strlen(err.hint), kept);
        (void)error_wrap(&err, "%s", text);
        assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
        (void)error_errno(&err, ERR_INVALID, EIO, "%s", text);
        assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    }
}

static void error_code_name_knows_every_code(void **state)
{
    (void)state;
    for (int code = 0; code < ERR_MAX; code++)
        assert_non_null(error_code_name((enum error_code)code));
    assert_string_equal(error_code_name(ERR_NOT_FOUND), "not_found");
    assert_string_equal(error_code_name(ERR_MAX), "internal");
    assert_string_equal(error_code_name((enum error_code) - 1), "internal");
}

/* ---- buffers and arenas ------------------------------------------------- */

static void buf_add_grows_and_terminates(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    (void)state;
    for (unsigned i = 0; i < 5000; i++) {
        buf_addf(&b, "%u,", i % 10);
        assert_int_equal(b.len, 2 * (size_t)(i + 1));
        assert_true(b.cap > b.len);
        assert_int_equal(b.data[b.len], '\0');
    }
    assert_memory_equal(b.data, "0,1,2,3,4,5,6,7,8,9,0,", 22);
    buf_reset(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
}

static void buf_consume_drops_the_front(void **state)
{
    struct buf b cleanup(buf_done) = {0};

    (void)state;
    buf_consume(&b, 3); /* of nothing */
    assert_int_equal(b.len, 0);
    buf_adds(&b, "abcdef");
    buf_consume(&b, 0);
    assert_string_equal(b.data, "abcdef");
    buf_consume(&b, 2);
    assert_string_equal(b.data, "cdef");
    buf_consume(&b, 4);
    assert_string_equal(b.data, "");
    buf_adds(&b, "xy");
    buf_consume(&b, 100);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
}

static void buf_take_hands_the_bytes_on(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    size_t len = 9;
    char *empty cleanup(mem_free) = buf_take(&b, &len);
    char *bytes cleanup(mem_free) = NULL;

    (void)state;
    assert_int_equal(len, 0);
    assert_string_equal(empty, "");
    buf_add_u16(&b, 0x0102);
    buf_add_u32(&b, 0x03040506);
    bytes = buf_take(&b, &len);
    assert_int_equal(len, 6);
    assert_memory_equal(bytes, "\x02\x01\x06\x05\x04\x03", 7);
    assert_null(b.data);
    assert_int_equal(b.cap, 0);
}

static void arena_alloc_is_aligned_and_zeroed(void **state)
{
    static const size_t sizes[] = {0,   1,    15,   16,   17,
                                   100, 8191, 8192, 8193, 100000};
    struct arena *a = arena_new();

    (void)state;
    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
            unsigned char *p = arena_alloc(a, sizes[i]);

            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(p[k], 0);
            memset(p, 0xa5, sizes[i]);
        }
    assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
    assert_string_equal(arena_strdup(a, ""), "");
    assert_null(arena_strdup(a, NULL));
    assert_string_equal(arena_printf(a, "%s-%d", "x", 7), "x-7");
    arena_free(a);
    arena_free(NULL);
}

/* ---- log ---------------------------------------------------------------- */

/* What one event writes to standard error; owned by caller. */
static char *logged(bool json, const char *value)
{
    int pair[2], saved = fd_dup(STDERR_FILENO, 3);
    char *text = xcalloc(1, 8192);

    assert_int_equal(fd_pipe(pair), 0);
    assert_true(dup3(pair[1], STDERR_FILENO, 0) >= 0);
    log_setup("test", LOG_INFO, json);
    log_event(LOG_DEBUG, "below_the_level", "v", value, NULL);
    log_event(LOG_WARN, "it", "v", value, "left_out", NULL, "last", "1", NULL);
    assert_true(dup3(saved, STDERR_FILENO, 0) >= 0);
    (void)close(saved);
    (void)close(pair[1]);
    assert_true(fd_read_all(pair[0], text, 8191) > 0);
    (void)close(pair[0]);
    return text;
}

/* Everything from the first pair on: what comes before has a clock in it. */
static void assert_pairs(bool json, const char *value, const char *expected)
{
    char *line cleanup(mem_free) = logged(json, value);
    const char *pairs = strstr(line, json ? ",\"v\":" : " v=");

    assert_non_null(pairs);
    assert_string_equal(pairs, expected);
    assert_null(strstr(line, "below_the_level"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void O1_log_value_cannot_forge_a_line_or_field(void **state)
{
    (void)state;
    assert_pairs(false, "plain", " v=\"plain\" last=\"1\"\n");
    assert_pairs(false, "a\" admin=\"yes",
                 " v=\"a\\\" admin=\\\"yes\" last=\"1\"\n");
    assert_pairs(false, "x\n2026-01-01T00:00:00.000Z error warden forged",
                 " v=\"x\\u000a2026-01-01T00:00:00.000Z error warden "
                 "forged\" last=\"1\"\n");
    assert_pairs(false, "\\\" \x1b[31m\x7f\xff",
                 " v=\"\\\\\\\" \\u001b[31m\\u007f\\u00ff\" last=\"1\"\n");
    assert_pairs(true, "a\",\"b\":\"\r\n",
                 ",\"v\":\"a\\\",\\\"b\\\":\\\"\\u000d\\u000a\","
                 "\"last\":\"1\"}\n");
}

static void O1_log_value_is_bounded(void **state)
{
    char long_value[2000];
    char *line cleanup(mem_free) = NULL;

    (void)state;
    memset(long_value, '\n', sizeof(long_value) - 1);
    long_value[sizeof(long_value) - 1] = '\0';
    line = logged(false, long_value);
    assert_true(strlen(line) < 4096); /* one atomic write to a pipe */
    assert_non_null(strstr(line, "...\" last=\"1\"\n"));
}

static void log_level_parse_knows_four_names(void **state)
{
    enum log_level level = LOG_DEBUG;

    (void)state;
    assert_int_equal(log_level_parse("error", &level), 0);
    assert_int_equal(level, LOG_ERROR);
    assert_int_equal(log_level_parse("Error", &level), -EINVAL);
    assert_int_equal(log_level_parse("", &level), -EINVAL);
    assert_int_equal(level, LOG_ERROR);
}

/* ---- clock, ids, hash --------------------------------------------------- */

static void clock_left_ms_at_below_and_above(void **state)
{
    uint64_t now = clock_mono_ms();
    int left;

    (void)state;
    assert_int_equal(clock_left_ms(0), 0);
    assert_int_equal(clock_left_ms(now), 0);
    left = clock_left_ms(now + 60000);
    assert_true(left > 50000 && left <= 60000);
    assert_int_equal(clock_left_ms(now + (uint64_t)INT_MAX + 60000), INT_MAX);
    assert_int_equal(clock_left_ms(UINT64_MAX), INT_MAX);
}

static void clock_format_ms_is_iso(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal(clock_format_ms(0, text), "1970-01-01T00:00:00.000Z");
    assert_string_equal(clock_format_ms(1769903999123, text),
                        "2026-01-31T23:59:59.123Z");
}

static void I4_ids_are_well_formed_and_differ(void **state)
{
    char a[ID_MAX], b[ID_MAX];

    (void)state;
    ids_make("sess", a);
    ids_make("sess", b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 4 + 1 + 32);
    assert_true(ids_valid("sess", a));
    assert_false(ids_valid("exec", a));
    assert_false(ids_valid("ses", a));
    ids_make("thirteenchars", a);
    assert_true(ids_valid("thirteenchars", a));
}

static void I4_near_ids_share_a_beginning_for_a_moment(void **state)
{
    static const char digits[] = "0123456789abcdef";
    char first[ID_MAX], id[ID_MAX], before[ID_MAX] = "";
    bool changed = false, rises = true, falls = true;
    unsigned shared = 0;

    (void)state;
    ids_make_near("ver", first);
    for (unsigned i = 0; i < 400; i++) {
        ids_make_near("ver", id);
        assert_int_equal(strncmp(id, "ver_", 4), 0);
        assert_int_equal(strlen(id), 44);
        assert_int_equal(strspn(id + 4, digits), 40);
        /* 128 bits that are its own, and in no order. */
        assert_string_not_equal(id + 12, first + 12);
        assert_string_not_equal(id, before);
        shared += strncmp(id, before, 12) == 0;
        changed |= strncmp(id, first, 12) != 0;
        if (i > 0) {
            rises &= strcmp(before, id) < 0;
            falls &= strcmp(before, id) > 0;
        }
        memcpy(before, id, sizeof(before));
        if (i == 200)
            (void)usleep(60000);
    }
    assert_true(shared > 100);
    assert_true(changed);
    assert_false(rises || falls);
}

static void ids_valid_at_below_and_above(void **state)
{
    static const char id[] = "k_0123456789abcdef0123456789abcdef";

    (void)state;
    assert_true(ids_valid("k", id));
    assert_false(ids_valid("k", "k_0123456789abcdef0123456789abcde"));
    assert_false(ids_valid("k", "k_0123456789abcdef0123456789abcdef0"));
    assert_false(ids_valid("k", "k_0123456789ABCDEF0123456789abcdef"));
    assert_false(ids_valid("k", "k_0123456789abcdef0123456789abcde/"));
    assert_false(ids_valid("k", "k-0123456789abcdef0123456789abcdef"));
    assert_false(ids_valid("k", "k"));
    assert_false(ids_valid("k", ""));
}

static void hash_gives_the_published_vectors(void **state)
{
    static const char abc[] =
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    static const char nothing[] =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    static const char hmac[] = /* RFC 4231, test case 2 */
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    unsigned char out[HASH_SIZE];
    char hex[HASH_HEX];
    struct hash_stream *h = hash_stream_new();

    (void)state;
    hash_stream_add(h, "a", 1);
    hash_stream_add(h, "bc", 2);
    hash_stream_end(h, out);
    assert_string_equal(ids_hex(out, sizeof(out), hex), abc);
    hash_sha256("", 0, out);
    assert_string_equal(ids_hex(out, sizeof(out), hex), nothing);
    hash_hmac("Jefe", 4, "what do ya want for nothing?", 28, out);
    assert_string_equal(ids_hex(out, sizeof(out), hex), hmac);
    assert_true(hash_equal("same", "same", 4));
    assert_false(hash_equal("same", "some", 4));
    hash_stream_free(NULL);
}

/* ---- descriptors -------------------------------------------------------- */

static void fd_read_file_at_below_and_above_the_cap(void **state)
{
    int dir = open("/tmp", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    char name[] = "/tmp/glovebox-test-base-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    const char *base = strrchr(name, '/') + 1;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    assert_true(dir >= 0 && fd >= 0);
    assert_int_equal(fd_write_all(fd, "123456789", 9), 0);
    assert_int_equal(fd_read_file(dir, base, 10, &text, &len), 0);
    assert_string_equal(text, "123456789");
    assert_int_equal(len, 9);
    free(take_ptr(text));
    assert_int_equal(fd_read_file(dir, base, 9, &text, NULL), 0);
    free(take_ptr(text));
    assert_int_equal(fd_read_file(dir, base, 8, &text, NULL), -EFBIG);
    assert_null(text);
    assert_int_equal(fd_read_file(dir, "not-there", 8, &text, NULL), -ENOENT);
    assert_int_equal(fd_write_file(dir, base, "x"), 0);
    assert_int_equal(fd_write_file(dir, "not-there", "x"), -ENOENT);
    assert_int_equal(access("/tmp/not-there", F_OK), -1);
    (void)unlink(name);
    fd_close(&fd);
    assert_int_equal(fd, -1);
    fd_close(&fd); /* twice is nothing */
    fd_close(&dir);
}

static void C5_descriptors_are_close_on_exec_from_birth(void **state)
{
    int fds[5];

    (void)state;
    assert_int_equal(fd_pipe(fds), 0);
    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, fds + 2), 0);
    fds[4] = fd_dup(STDERR_FILENO, 40);
    assert_true(fds[4] >= 40);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        fd_close(&fds[i]);
    }
}

static void fd_set_nonblock_turns_on_and_off(void **state)
{
    int fds[2];
    char byte;

    (void)state;
    assert_int_equal(fd_pipe(fds), 0);
    assert_int_equal(fd_set_nonblock(fds[0], 1), 0);
    assert_int_equal(read(fds[0], &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(fd_set_nonblock(fds[0], 0), 0);
    assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    fd_close(&fds[1]);
    assert_int_equal(fd_read_all(fds[0], &byte, 1), 0); /* end of file */
    fd_close(&fds[0]);
    assert_int_equal(fd_set_nonblock(-1, 1), -EBADF);
}

static void R8_reserve_at_below_and_above_the_limit(void **state)
{
    struct rlimit limit, low;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 200;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    reserve_set(50);
    assert_true(reserve_holds(148));
    assert_true(reserve_holds(149)); /* 150 taken, 50 free */
    assert_false(reserve_holds(150));
    reserve_set(1000000); /* at most half of the table */
    assert_true(reserve_holds(99));
    assert_false(reserve_holds(100));
    reserve_set(0);
    assert_true(reserve_holds(199));
    assert_false(reserve_holds(200));
    assert_false(reserve_holds(-1));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_set_returns_the_negative_code),
        cmocka_unit_test(error_errno_appends_the_reason),
        cmocka_unit_test(error_wrap_prefixes_and_keeps_the_rest),
        cmocka_unit_test(error_message_is_cut_at_its_room),
        cmocka_unit_test(error_code_name_knows_every_code),
        cmocka_unit_test(buf_add_grows_and_terminates),
        cmocka_unit_test(buf_consume_drops_the_front),
        cmocka_unit_test(buf_take_hands_the_bytes_on),
        cmocka_unit_test(arena_alloc_is_aligned_and_zeroed),
        cmocka_unit_test(O1_log_value_cannot_forge_a_line_or_field),
        cmocka_unit_test(O1_log_value_is_bounded),
        cmocka_unit_test(log_level_parse_knows_four_names),
        cmocka_unit_test(clock_left_ms_at_below_and_above),
        cmocka_unit_test(clock_format_ms_is_iso),
        cmocka_unit_test(I4_ids_are_well_formed_and_differ),
        cmocka_unit_test(I4_near_ids_share_a_beginning_for_a_moment),
        cmocka_unit_test(ids_valid_at_below_and_above),
        cmocka_unit_test(hash_gives_the_published_vectors),
        cmocka_unit_test(fd_read_file_at_below_and_above_the_cap),
        cmocka_unit_test(C5_descriptors_are_close_on_exec_from_birth),
        cmocka_unit_test(fd_set_nonblock_turns_on_and_off),
        cmocka_unit_test(R8_reserve_at_below_and_above_the_limit),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
