/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base: the error object keeps its context, buffers and arenas keep their
 * shape, a logged value cannot forge a line, readers stop at their cap, and
 * names made to collide do not slow a table.
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
#include "base/digest.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/idmap.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/size.h"
#include "base/url.h"

/* ---- siphash ------------------------------------------------------------ */

/* The vectors published with SipHash-2-4: key 00 to 0f, message 00, 01, … */
static void siphash_agrees_with_the_published_vectors(void **state)
{
    static const unsigned char expected[][8] = {
        {0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72},
        {0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74},
        {0x5a, 0x4f, 0xa9, 0xd9, 0x09, 0x80, 0x6c, 0x0d},
        {0x2d, 0x7e, 0xfb, 0xd7, 0x96, 0x66, 0x67, 0x85},
        {0xb7, 0x87, 0x71, 0x27, 0xe0, 0x94, 0x27, 0xcf},
        {0x8d, 0xa6, 0x99, 0xcd, 0x64, 0x55, 0x76, 0x18},
        {0xce, 0xe3, 0xfe, 0x58, 0x6e, 0x46, 0xc9, 0xcb},
        {0x37, 0xd1, 0x01, 0x8b, 0xf5, 0x00, 0x02, 0xab},
        {0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93},
        {0xb0, 0xe4, 0xa9, 0x0b, 0xdf, 0x82, 0x00, 0x9e},
        {0xf3, 0xb9, 0xdd, 0x94, 0xc5, 0xbb, 0x5d, 0x7a},
        {0xa7, 0xad, 0x6b, 0x22, 0x46, 0x2f, 0xb3, 0xf4},
        {0xfb, 0xe5, 0x0e, 0x86, 0xbc, 0x8f, 0x1e, 0x75},
        {0x90, 0x3d, 0x84, 0xc0, 0x27, 0x56, 0xea, 0x14},
        {0xee, 0xf2, 0x7a, 0x8e, 0x90, 0xca, 0x23, 0xf7},
        {0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1},
    };
    unsigned char key[SIPHASH_KEY], message[ARRAY_SIZE(expected)];

    (void)state;
    for (unsigned i = 0; i < SIPHASH_KEY; i++)
        key[i] = (unsigned char)i;
    for (unsigned len = 0; len < ARRAY_SIZE(expected); len++) {
        uint64_t hash = siphash(key, message, len);

        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(hash >> 8 * i & 255, expected[len][i]);
        message[len] = (unsigned char)len;
    }
}

static void siphash_of_the_process_has_a_key(void **state)
{
    static const unsigned char none[SIPHASH_KEY];

    (void)state;
    assert_true(siphash_text("name") == siphash_bytes("name", 4));
    assert_true(siphash_text("name") != siphash_text("nome"));
    assert_true(siphash_text("name") != siphash(none, "name", 4));
}

/* ---- idmap -------------------------------------------------------------- */

static uint32_t fnv1a(const char *text)
{
    uint32_t h = 2166136261u;

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

/* Names that a client could compute, because they share a bucket under a hash
 * without a key, must not share one. */
static void idmap_spreads_names_made_to_collide(void **state)
{
    enum {
        COUNT = 512
    };
    static struct {
        struct idmap_node node;
        char name[16];
    } objects[COUNT];
    struct idmap map = {0};
    unsigned made = 0, longest = 0;

    (void)state;
    for (unsigned n = 0; made < COUNT; n++) {
        (void)snprintf(objects[made].name, sizeof(objects[made].name), "n%u",
                       n);
        if ((fnv1a(objects[made].name) & (COUNT - 1)) == 0)
            made++;
    }
    for (unsigned i = 0; i < COUNT; i++)
        idmap_add(&map, &objects[i].node, objects[i].name);
    assert_int_equal(map.count, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        assert_ptr_equal(idmap_find(&map, objects[i].name), &objects[i].node);
    assert_null(idmap_find(&map, "n"));
    for (size_t b = 0; b < map.size; b++) {
        unsigned chain = 0;

        for (struct idmap_node *n = map.buckets[b]; n; n = n->next)
            chain++;
        longest = MAX(longest, chain);
    }
    /* With one name a bucket on average, 16 in one has a chance of 1e-11. */
    assert_in_range(longest, 1, 15);
    for (unsigned i = 0; i < COUNT; i++)
        idmap_remove(&map, &objects[i].node);
    assert_int_equal(map.count, 0);
    idmap_done(&map);
}

/* ---- size --------------------------------------------------------------- */

static void size_format_at_the_edges_of_each_unit(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1025, "1 KiB"},
        {1126, "1 KiB"}, /* 1.0996: rounded down */
        {1127, "1.1 KiB"},
        {1536, "1.5 KiB"},
        {10240, "10 KiB"},
        {12800, "12.5 KiB"},
        {1048575, "1023.9 KiB"},
        {1048576, "1 MiB"},
        {1153433, "1 MiB"},
        {1153434, "1.1 MiB"},
        {((uint64_t)1 << 30) - 1, "1023.9 MiB"},
        {(uint64_t)1 << 30, "1 GiB"},
        {(uint64_t)3 << 29, "1.5 GiB"},
        {((uint64_t)1 << 40) - 1, "1023.9 GiB"},
        {(uint64_t)1 << 40, "1 TiB"},
        {(uint64_t)1 << 50, "1 PiB"},
        {((uint64_t)1 << 60) - 1, "1023.9 PiB"},
        {(uint64_t)1 << 60, "1 EiB"},
        {UINT64_MAX, "15.9 EiB"},
    };
    char text[SIZE_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_string_equal(size_format(cases[i].bytes, text), cases[i].text);
}

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

static void hex_decode_takes_lower_case_only(void **state)
{
    unsigned char bytes[2] = {0};

    (void)state;
    assert_true(hex_decode("0fa0", bytes, 2));
    assert_int_equal(bytes[0], 0x0f);
    assert_int_equal(bytes[1], 0xa0);
    assert_true(hex_decode("ff00rest", bytes, 2));
    assert_int_equal(bytes[0], 0xff);
    assert_int_equal(bytes[1], 0);
    assert_false(hex_decode("0FA0", bytes, 2));
    assert_false(hex_decode("0fa", bytes, 2)); /* too short */
    assert_false(hex_decode("0fg0", bytes, 2));
    assert_true(hex_decode("", bytes, 0));
    assert_int_equal(hex_digit('9'), 9);
    assert_int_equal(hex_digit('f'), 15);
    assert_int_equal(hex_digit('F'), 15);
    assert_int_equal(hex_digit('g'), -1);
    assert_int_equal(hex_digit('/'), -1);
    assert_int_equal(hex_digit(':'), -1);
    assert_int_equal(hex_digit('@'), -1);
    assert_int_equal(hex_digit('\0'), -1);
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

/* Of RFC 7693 and of the reference implementation; added in parts of all
 * sizes, because the last block is treated differently. */
static void digest_is_blake2b(void **state)
{
    static const struct {
        size_t len;
        const char *hex;
    } cases[] = {
        {0,
         "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"},
        {3,
         "b316f3683ac87007461037a8ff6547de35618800044bb3a4e98b3560c92c3794"},
        {128,
         "14696d2a98d9f8a280da8b132b1045b345e1033759c6b02fcc4ee885c8ae7c37"},
        {1000,
         "6ac4bea923678eb024090384d6e767b5870f849057dc19b172d8d9f2df30bf8e"},
    };
    unsigned char bytes[1000], out[DIGEST_SIZE];
    char hex[2 * DIGEST_SIZE + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t part = 1; part <= 257; part++) {
            struct digest d;

            digest_begin(&d);
            for (size_t at = 0; at < cases[i].len; at += part)
                digest_add(&d, bytes + at, MIN(part, cases[i].len - at));
            digest_end(&d, out);
            for (size_t k = 0; k < sizeof(out); k++)
                (void)snprintf(hex + 2 * k, 3, "%02x", out[k]);
            assert_string_equal(hex, cases[i].hex);
        }
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

static void the_host_of_a_url_is_checked(void **state)
{
    static const char *const good[] = {
        "localhost",           "a",
        "127.0.0.1:8650",      "[::1]",
        "[2001:db8::1]:65535", "glovebox.example.com:1",
        "under_score.example", "example.com."};
    static const char *const bad[] = {"",
                                      ".",
                                      "a..b",
                                      ".a",
                                      "-a.example",
                                      "a b",
                                      "a/b",
                                      "a@b",
                                      "a?b",
                                      "a#b",
                                      "a\"b",
                                      "a\r\nb",
                                      "a:",
                                      "a:0",
                                      "a:65536",
                                      "a:99999",
                                      "a:8x",
                                      "a:123456",
                                      "[::1",
                                      "::1",
                                      "[]",
                                      "[::1]x",
                                      "[::1]:",
                                      "[1.2.3.4]",
                                      "[gggg::]",
                                      "b\xc3\xbc"
                                      "cher.example",
                                      "a,b",
                                      "a%20b"};
    char name[300];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_true(url_authority_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(url_authority_valid(bad[i], strlen(bad[i])));
    memset(name, 'a', sizeof(name));
    assert_true(url_authority_valid(name, 63)); /* a label */
    assert_false(url_authority_valid(name, 64));
    for (size_t i = 63; i < sizeof(name); i += 64)
        name[i] = '.';
    assert_true(url_authority_valid(name, 253));
    assert_false(url_authority_valid(name, 254));
}

static void R8_reserve_at_below_and_above_the_limit(void **state)
{
    struct rlimit limit, low;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 200;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    fd_reserve_set(50);
    assert_true(fd_reserve_holds(148));
    assert_true(fd_reserve_holds(149)); /* 150 taken, 50 free */
    assert_false(fd_reserve_holds(150));
    fd_reserve_set(1000000); /* at most half of the table */
    assert_true(fd_reserve_holds(99));
    assert_false(fd_reserve_holds(100));
    fd_reserve_set(0);
    assert_true(fd_reserve_holds(199));
    assert_false(fd_reserve_holds(200));
    assert_false(fd_reserve_holds(-1));
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
        cmocka_unit_test(hex_decode_takes_lower_case_only),
        cmocka_unit_test(I4_ids_are_well_formed_and_differ),
        cmocka_unit_test(I4_near_ids_share_a_beginning_for_a_moment),
        cmocka_unit_test(ids_valid_at_below_and_above),
        cmocka_unit_test(digest_is_blake2b),
        cmocka_unit_test(hash_gives_the_published_vectors),
        cmocka_unit_test(fd_read_file_at_below_and_above_the_cap),
        cmocka_unit_test(C5_descriptors_are_close_on_exec_from_birth),
        cmocka_unit_test(fd_set_nonblock_turns_on_and_off),
        cmocka_unit_test(size_format_at_the_edges_of_each_unit),
        cmocka_unit_test(siphash_agrees_with_the_published_vectors),
        cmocka_unit_test(siphash_of_the_process_has_a_key),
        cmocka_unit_test(idmap_spreads_names_made_to_collide),
        cmocka_unit_test(the_host_of_a_url_is_checked),
        cmocka_unit_test(R8_reserve_at_below_and_above_the_limit),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
