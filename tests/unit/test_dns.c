/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/dns: exactly the questions a resolver asks are read, everything else
 * is refused whole; an answer echoes its question and holds one address.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "wire/dns.h"

#define HEAD 12

struct query {
    unsigned char bytes[DNS_QUERY_MAX + 64];
    size_t len;
};

/* A question for a name given as text, dots between its labels. */
static struct query ask(const char *name, uint16_t type)
{
    struct query q = {.bytes = {0x12, 0x34, 0x01, 0, 0, 1}, .len = HEAD};

    while (*name) {
        size_t n = strcspn(name, ".");

        q.bytes[q.len++] = (unsigned char)n;
        memcpy(q.bytes + q.len, name, n);
        q.len += n;
        name += n + (name[n] == '.');
    }
    q.bytes[q.len++] = 0;
    q.bytes[q.len++] = (unsigned char)(type >> 8);
    q.bytes[q.len++] = (unsigned char)type;
    q.bytes[q.len++] = 0;
    q.bytes[q.len++] = DNS_IN;
    return q;
}

/* Read from the heap, so that a sanitizer guards its end. */
static int parse(const struct query *q, struct dns_question *ret)
{
    unsigned char *copy cleanup(mem_free) = xmalloc(q->len + 1);

    memcpy(copy, q->bytes, q->len);
    return dns_question_parse(copy, q->len, ret);
}

static void dns_reads_a_question(void **state)
{
    struct query q = ask("Example.COM", DNS_AAAA);
    struct dns_question d;

    (void)state;
    assert_int_equal(parse(&q, &d), 0);
    assert_int_equal(d.id, 0x1234);
    assert_int_equal(d.type, DNS_AAAA);
    assert_int_equal(d.class, DNS_IN);
    assert_string_equal(d.name, "example.com");
    assert_int_equal(d.raw_len, q.len);
    q = ask("", DNS_A);
    assert_int_equal(parse(&q, &d), 0);
    assert_string_equal(d.name, ".");
}

static void dns_takes_one_extended_record_and_no_more(void **state)
{
    struct query q = ask("a.b", DNS_A);
    struct dns_question d;

    (void)state;
    q.bytes[11] = 1; /* announced, but not there */
    assert_int_equal(parse(&q, &d), -EBADMSG);
    q.bytes[q.len + 2] = 41;
    q.len += 11;
    assert_int_equal(parse(&q, &d), 0);
    assert_int_equal(d.raw_len, q.len - 11);
    q.bytes[11] = 2;
    assert_int_equal(parse(&q, &d), -EBADMSG);
    q.bytes[11] = 0; /* there, but not announced */
    assert_int_equal(parse(&q, &d), -EBADMSG);
}

static void dns_refuses_what_is_no_question(void **state)
{
    static const struct {
        size_t at;
        unsigned char value;
    } faults[] = {
        {2, 0x80},  /* an answer */
        {2, 0x08},  /* another kind of request */
        {2, 0x02},  /* cut short */
        {5, 0},     /* no question */
        {5, 2},     /* two */
        {7, 1},     /* with an answer */
        {9, 1},     /* with an authority */
        {12, 0xc0}, /* a name elsewhere */
        {12, 64},   /* a label too long */
        {12, 0x40}, /* a kind of label nobody uses */
    };
    struct dns_question d;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        struct query q = ask("example.com", DNS_A);

        q.bytes[faults[i].at] = faults[i].value;
        if (parse(&q, &d) != -EBADMSG)
            fail_msg("fault %zu was taken", i);
    }
}

static void dns_refuses_every_beginning_of_a_question(void **state)
{
    struct query q = ask("www.example.com", DNS_A);
    struct dns_question d;

    (void)state;
    for (size_t whole = q.len; q.len > 0; q.len--)
        assert_int_equal(parse(&q, &d), q.len == whole ? 0 : -EBADMSG);
    assert_int_equal(parse(&q, &d), -EBADMSG);
}

static void dns_name_at_and_above_the_limit(void **state)
{
    char name[300] = "";
    struct dns_question d;
    struct query q;

    (void)state;
    for (int i = 0; i < 3; i++) { /* 3 × 64 on the wire */
        memset(name + i * 64, 'a' + i, 63);
        name[i * 64 + 63] = '.';
    }
    memset(name + 192, 'd', 61); /* 62 more, and the end: 255 */
    q = ask(name, DNS_A);
    assert_int_equal(q.len, HEAD + 255 + 4);
    assert_int_equal(parse(&q, &d), 0);
    assert_string_equal(d.name, name);
    assert_int_equal(strlen(d.name), 253);
    name[253] = 'd';
    q = ask(name, DNS_A);
    assert_int_equal(parse(&q, &d), -EBADMSG);
    q = ask("a", DNS_A);
    q.len = DNS_QUERY_MAX;
    q.bytes[11] = 1;
    assert_int_equal(parse(&q, &d), 0);
    q.len++;
    assert_int_equal(parse(&q, &d), -EBADMSG);
}

/* What is told to people is plain, whatever was asked. */
static void E1_dns_name_is_plain_text(void **state)
{
    struct dns_question d;
    struct query q = ask("ev.il", DNS_A);

    (void)state;
    memcpy(q.bytes + 13, ".\n", 2);
    memcpy(q.bytes + 16, "\x80 ", 2);
    assert_int_equal(parse(&q, &d), 0);
    assert_string_equal(d.name, "??.??");
}

static void dns_answers_echo_the_question(void **state)
{
    unsigned char out[DNS_ANSWER_MAX];
    struct query q = ask("Example.com", DNS_A);
    struct dns_question d;
    size_t len;

    (void)state;
    assert_int_equal(parse(&q, &d), 0);
    len = dns_answer_code(&d, DNS_NXDOMAIN, out);
    assert_int_equal(len, q.len);
    assert_memory_equal(out, q.bytes, 2);
    assert_int_equal(out[2], 0x81); /* an answer; recursion was wanted */
    assert_int_equal(out[3], 0x83);
    assert_memory_equal(out + 4, "\0\1\0\0\0\0\0\0", 8);
    assert_memory_equal(out + HEAD, q.bytes + HEAD, q.len - HEAD);
}

static void dns_answers_with_one_address(void **state)
{
    static const unsigned char four[4] = {192, 0, 2, 7};
    static const unsigned char six[16] = {0x20, 0x01, [15] = 9};
    unsigned char out[DNS_ANSWER_MAX];
    struct query q = ask("a.example", DNS_A);
    struct dns_question d;
    size_t len;

    (void)state;
    assert_int_equal(parse(&q, &d), 0);
    len = dns_answer_address(&d, DNS_A, four, 0x01020304, out);
    assert_int_equal(len, q.len + 16);
    assert_int_equal(out[3], 0x80);
    assert_int_equal(out[7], 1);
    assert_memory_equal(out + q.len, "\xc0\x0c\0\1\0\1\1\2\3\4\0\4", 12);
    assert_memory_equal(out + len - 4, four, 4);
    /* Not what was asked for: there is none of that kind. */
    len = dns_answer_address(&d, DNS_AAAA, six, 1, out);
    assert_int_equal(len, q.len);
    assert_int_equal(out[3], 0x80);
    assert_int_equal(out[7], 0);
    q = ask("a.example", DNS_AAAA);
    assert_int_equal(parse(&q, &d), 0);
    len = dns_answer_address(&d, DNS_AAAA, six, 1, out);
    assert_int_equal(len, q.len + 28);
    assert_memory_equal(out + len - 16, six, 16);
    q.bytes[q.len - 1] = 3; /* another class */
    assert_int_equal(parse(&q, &d), 0);
    assert_int_equal(dns_answer_address(&d, DNS_AAAA, six, 1, out), q.len);
}

static void dns_knows_the_sessions_own_names(void **state)
{
    static const struct {
        const char *name;
        uint16_t type;
        int answers; /* -1: not ours to answer */
        int code;
    } names[] = {
        {"localhost", DNS_A, 1, 0},
        {"LOCALHOST", DNS_AAAA, 1, 0},
        {"a.b.localhost", DNS_A, 1, 0},
        {"glovebox", DNS_A, 1, 0},
        {"localhost", 16, 0, 0},
        {"1.0.0.127.in-addr.arpa", DNS_PTR, 0, DNS_NXDOMAIN},
        {"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0."
         "ip6.arpa",
         DNS_PTR, 0, DNS_NXDOMAIN},
        {"notlocalhost", DNS_A, -1, 0},
        {"localhost.example.com", DNS_A, -1, 0},
        {"glovebox.example.com", DNS_A, -1, 0},
        {"8.8.8.8.in-addr.arpa", DNS_PTR, -1, 0},
        {"1.0.0.127.in-addr.arpa", DNS_A, -1, 0},
    };
    unsigned char out[DNS_ANSWER_MAX];
    struct dns_question d;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct query q = ask(names[i].name, names[i].type);
        size_t len;

        assert_int_equal(parse(&q, &d), 0);
        len = dns_answer_own(&d, out);
        if ((len == 0) != (names[i].answers < 0))
            fail_msg("%s", names[i].name);
        if (len) {
            assert_int_equal(out[7], names[i].answers);
            assert_int_equal(out[3] & 0xf, names[i].code);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dns_reads_a_question),
        cmocka_unit_test(dns_takes_one_extended_record_and_no_more),
        cmocka_unit_test(dns_refuses_what_is_no_question),
        cmocka_unit_test(dns_refuses_every_beginning_of_a_question),
        cmocka_unit_test(dns_name_at_and_above_the_limit),
        cmocka_unit_test(E1_dns_name_is_plain_text),
        cmocka_unit_test(dns_answers_echo_the_question),
        cmocka_unit_test(dns_answers_with_one_address),
        cmocka_unit_test(dns_knows_the_sessions_own_names),
    };

    return cmocka_run_group_tests_name("dns", tests, NULL, NULL);
}
