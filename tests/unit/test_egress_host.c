/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress/host: one form of every spelling, patterns that match what they say
 * and no more, and every range of forbidden addresses at, below and above its
 * bounds.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "egress/host.h"

static void assert_form(const char *text, const char *expected, bool number)
{
    char got[EGRESS_HOST_MAX] = "";
    bool address = !number;
    struct error err;

    if (egress_host_canonical(text, strlen(text), got, &address, &err) < 0)
        fail_msg("'%s': %s", text, err.message);
    assert_string_equal(got, expected);
    assert_int_equal(address, number);
}

static void assert_none(const char *text, size_t len)
{
    char got[EGRESS_HOST_MAX] = "kept";
    struct error err;

    if (egress_host_canonical(text, len, got, NULL, &err) == 0)
        fail_msg("'%s' is taken for '%s'", text, got);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(got, "kept");
}

static void E2_names_have_one_form(void **state)
{
    (void)state;
    assert_form("example.org", "example.org", false);
    assert_form("EXAMPLE.Org", "example.org", false);
    assert_form("example.org.", "example.org", false);
    assert_form("a", "a", false);
    assert_form("_dmarc.x-y.example", "_dmarc.x-y.example", false);
    assert_form("b\xc3\xbc"
                "cher.example",
                "xn--bcher-kva.example", false);
    assert_form("B\xc3\x9c"
                "CHER.example",
                "xn--bcher-kva.example", false);
    assert_form("XN--BCHER-KVA.example", "xn--bcher-kva.example", false);
    assert_form("\xef\xbd\x85xample.org", "example.org", false); /* wide e */
    assert_form("example\xe3\x80\x82org", "example.org", false); /* 。 */
    assert_form("1.2.3.4.example", "1.2.3.4.example", false);
    assert_form("0x7f.example", "0x7f.example", false);
    assert_form("3com", "3com", false);
}

static void E2_numbers_have_one_form(void **state)
{
    static const char *const loopback[] = {
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "0x7f.0.0.1",
        "0x7f.1",
        "0X7F.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127.000.000.001",
        "0x7f.0x0.0.1",
        "[::ffff:127.0.0.1]",
        "::ffff:7f00:1",
        "[::FFFF:127.0.0.1]",
        "\xef\xbc\x91"
        "27.0.0.1",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(loopback); i++)
        assert_form(loopback[i], "127.0.0.1", true);
    assert_form("0", "0.0.0.0", true);
    assert_form("4294967295", "255.255.255.255", true);
    assert_form("1.16777215", "1.255.255.255", true);
    assert_form("1.2.65535", "1.2.255.255", true);
    assert_form("[2001:DB8:0:0::1]", "2001:db8::1", true);
    assert_form("::1", "::1", true);
    assert_form("[::]", "::", true);
}

static void E2_what_is_no_host_is_refused(void **state)
{
    static const char *const none[] = {
        "",          ".",           "..",         "a..b",       ".a",
        "a..",       "a b",         "a\tb",       "a\nb",       "a%00",
        "a%2eb",     "a@b",         "a/b",        "a\\b",       "a?b",
        "a#b",       "a:80",        "[a]",        "[::1",       "::1]",
        "[]",        "[127.0.0.1]", "[::1%eth0]", "[::1]x",     "a,b",
        "-a",        "a-",          "a.-b",       "*.a",        "a*",
        "256.0.0.1", "1.2.3.4.5",   "4294967296", "1.16777216", "1.2.65536",
        "1.2.3.256", "08.0.0.1",    "0xg.1",      "xn--a",      "xn--\xc3\xbc",
        "\xff\xfe",  "a\xc0\xaf",   "1.2..4",
    };
    char label[80], name[300];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(none); i++)
        assert_none(none[i], strlen(none[i]));
    assert_form("1.2.3.", "1.2.0.3", true); /* as three parts are read */
    assert_form("0x", "0.0.0.0", true);
    assert_none("a\0b", 3);
    memset(label, 'a', sizeof(label));
    label[63] = '\0';
    assert_form(label, label, false);
    label[63] = 'a';
    label[64] = '\0';
    assert_none(label, 64);
    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = i % 2 ? '.' : 'a';
    name[253] = '\0';
    assert_form(name, name, false);
    name[251] = name[252] = name[253] = 'b';
    name[254] = '\0';
    assert_none(name, 254);
}

static void E2_patterns_match_what_they_say(void **state)
{
    (void)state;
    assert_true(egress_host_matches("a.example", "a.example"));
    assert_false(egress_host_matches("a.example", "b.a.example"));
    assert_false(egress_host_matches("a.example", "a.example.org"));
    assert_true(egress_host_matches("*.a.example", "b.a.example"));
    assert_true(egress_host_matches("*.a.example", "c.b.a.example"));
    assert_false(egress_host_matches("*.a.example", "a.example"));
    assert_false(egress_host_matches("*.a.example", ".a.example"));
    assert_false(egress_host_matches("*.a.example", "ba.example"));
    assert_false(egress_host_matches("", ""));
    assert_false(egress_host_matches("*.", "x"));
    assert_true(egress_host_matches("1.2.3.4", "1.2.3.4"));
}

static void E2_patterns_people_write(void **state)
{
    static const char *const none[] = {
        "*",      "*.",        "*.org",   "**.a.b", "a.*.b",
        "*a.b.c", "*.1.2.3.4", "*.*.a.b", "",       "*.[::1]"};
    char got[EGRESS_HOST_MAX], name[300] = "*.";
    struct error err;

    (void)state;
    assert_int_equal(egress_host_pattern("*.Example.ORG.", got, &err), 0);
    assert_string_equal(got, "*.example.org");
    assert_int_equal(egress_host_pattern("0x7f.1", got, &err), 0);
    assert_string_equal(got, "127.0.0.1");
    for (size_t i = 0; i < ARRAY_SIZE(none); i++)
        if (egress_host_pattern(none[i], got, &err) == 0)
            fail_msg("'%s' is taken for '%s'", none[i], got);
    for (size_t i = 2; i < 253; i++)
        name[i] = i % 2 ? '.' : 'a';
    name[253] = '\0';
    assert_int_equal(egress_host_pattern(name, got, &err), 0);
    name[253] = 'a';
    name[254] = 'a';
    name[255] = '\0';
    assert_true(egress_host_pattern(name, got, &err) < 0);
}

/* ---- addresses ---------------------------------------------------------- */

static const char *judge(const char *text, const struct egress_setup *setup)
{
    unsigned char a[16];
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;

    assert_int_equal(inet_pton(family, text, a), 1);
    return egress_host_forbidden(family, a, setup);
}

static void assert_why(const char *text, const char *why)
{
    const char *got = judge(text, NULL);

    if (why ? !got || strcmp(got, why) != 0 : got != NULL)
        fail_msg("%s: %s, not %s", text, got ? got : "public",
                 why ? why : "public");
}

static void E3_ranges_of_ipv4(void **state)
{
    /* Below, first, last, above; what those outside are when not public. */
    static const struct {
        const char *below, *first, *last, *above, *why;
        const char *below_why, *above_why;
    } rows[] = {
        {NULL, "0.0.0.0", "0.255.255.255", "1.0.0.0", "reserved", 0, 0},
        {"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0", "private",
         0, 0},
        {"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0",
         "private", 0, 0},
        {"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0",
         "loopback", 0, 0},
        {"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0",
         "link-local", 0, 0},
        {"169.254.169.253", "169.254.169.254", "169.254.169.254",
         "169.254.169.255", "metadata", "link-local", "link-local"},
        {"169.254.170.1", "169.254.170.2", "169.254.170.2", "169.254.170.3",
         "metadata", "link-local", "link-local"},
        {"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0",
         "private", 0, 0},
        {"191.255.255.255", "192.0.0.0", "192.0.0.191", "192.0.1.0",
         "reserved", 0, 0},
        {"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0", "reserved", 0,
         0},
        {"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0",
         "reserved", 0, 0},
        {"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0",
         "private", 0, 0},
        {"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0",
         "reserved", 0, 0},
        {"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0",
         "reserved", 0, 0},
        {"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0",
         "reserved", 0, 0},
        {"223.255.255.255", "224.0.0.0", "239.255.255.255", "240.0.0.0",
         "multicast", 0, "reserved"},
        {"239.255.255.255", "240.0.0.0", "255.255.255.255", NULL, "reserved",
         "multicast", 0},
        {"168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17",
         "metadata", 0, 0},
        {"100.100.100.199", "100.100.100.200", "100.100.100.200",
         "100.100.100.201", "metadata", "private", "private"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].below)
            assert_why(rows[i].below, rows[i].below_why);
        assert_why(rows[i].first, rows[i].why);
        assert_why(rows[i].last, rows[i].why);
        if (rows[i].above)
            assert_why(rows[i].above, rows[i].above_why);
    }
    assert_why("192.0.0.192", "metadata");
    assert_why("8.8.8.8", NULL);
}

static void E3_ranges_of_ipv6(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"::", "reserved"},
        {"::1", "loopback"},
        {"::2", "reserved"},
        {"::ffff:127.0.0.1", "loopback"},
        {"::ffff:8.8.8.8", "mapped"},
        {"::ffff:169.254.169.254", "metadata"},
        {"::127.0.0.1", "loopback"},
        {"::8.8.8.8", "mapped"},
        {"::ffff:0:10.0.0.1", "private"},
        {"::ffff:0:8.8.8.8", "mapped"},
        {"64:ff9b::10.0.0.1", "private"},
        {"64:ff9b::8.8.8.8", NULL},
        {"64:ff9b::1:808:808", "reserved"},
        {"64:ff9b:1::8.8.8.8", "private"},
        {"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "private"},
        {"64:ff9b:2::1", "reserved"},
        {"100::1", "reserved"},
        {"1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved"},
        {"2000::", NULL},
        {"2001::1", "reserved"}, /* Teredo whose server is 0.0.0.0 */
        {"2001:0:808:808:0:0:f7f7:f7f7", NULL},
        {"2001:0:808:808:0:0:f5ff:fffe", "private"}, /* client 10.0.0.1 */
        {"2001:0:a00:1:0:0:f7f7:f7f7", "private"},   /* server 10.0.0.1 */
        {"2001:1::1", "reserved"},
        {"2001:1ff:ffff::1", "reserved"},
        {"2001:200::1", NULL},
        {"2001:db7:ffff::1", NULL},
        {"2001:db8::", "reserved"},
        {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "reserved"},
        {"2001:db9::", NULL},
        {"2002:a00:1::1", "private"},
        {"2002:a9fe:a9fe::1", "metadata"},
        {"2002:808:808::1", NULL},
        {"2600::5efe:10.0.0.1", "private"},
        {"2600::200:5efe:127.0.0.1", "loopback"},
        {"2600::5efe:8.8.8.8", NULL},
        {"3ffe:ffff::1", NULL},
        {"3fff::1", "reserved"},
        {"3fff:fff:ffff::1", "reserved"},
        {"3fff:1000::1", NULL},
        {"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
        {"4000::", "reserved"},
        {"fbff:ffff::1", "reserved"},
        {"fc00::", "private"},
        {"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private"},
        {"fd00:ec2::254", "metadata"},
        {"fd00:ec2::253", "private"},
        {"fd00:ec2::255", "private"},
        {"fd20:ce::254", "metadata"},
        {"fe00::", "reserved"},
        {"fe7f:ffff::1", "reserved"},
        {"fe80::", "link-local"},
        {"febf:ffff::1", "link-local"},
        {"fec0::", "private"},
        {"feff:ffff::1", "private"},
        {"ff00::", "multicast"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"},
        {"2606:4700::1111", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_why(rows[i].text, rows[i].why);
}

static void E3_our_own_addresses_and_the_lab(void **state)
{
    struct egress_setup s = {
        .refused = {{4, 32, {5, 6, 7, 8}},
                    {6, 128, {0x26, 0x06, [15] = 9}},
                    {4, 24, {10, 9, 0}}},
        .lab = {{4, 16, {10, 9}},
                {4, 32, {169, 254, 169, 254}},
                {6, 64, {0xfd, 0x09}}},
    };

    (void)state;
    assert_string_equal(judge("5.6.7.8", &s), "our own");
    assert_null(judge("5.6.7.7", &s));
    assert_null(judge("5.6.7.9", &s));
    assert_string_equal(judge("2606::9", &s), "our own");
    assert_string_equal(judge("2002:506:708::1", &s), "our own");
    assert_string_equal(judge("::ffff:5.6.7.8", &s), "our own");
    assert_null(judge("10.9.255.255", &s));
    assert_string_equal(judge("10.9.0.3", &s), "our own"); /* before the lab */
    assert_string_equal(judge("10.10.0.0", &s), "private");
    assert_string_equal(judge("10.8.255.255", &s), "private");
    assert_string_equal(judge("169.254.169.254", &s), "metadata");
    assert_null(judge("fd09::1", &s));
    assert_string_equal(judge("fd09:0:0:1::1", &s), "private");
    assert_string_equal(judge("10.9.1.1", NULL), "private");
    assert_string_equal(egress_host_forbidden(AF_UNIX, "1234", &s),
                        "reserved");
}

/* What the text of a host tells before it is resolved. */
static void E3_never_by_text(void **state)
{
    static const char *const never[] = {
        "127.0.0.1", "10.0.0.1", "169.254.169.254", "::1",
        "fe80::1",   "fd00::1",  "localhost",       "a.localhost"};
    static const char *const maybe[] = {
        "example.com",           "8.8.8.8", "2606:4700::1", "notlocalhost",
        "localhost.example.com", "*.a.com"};
    struct egress_setup lab = {
        .lab = {{.family = 4, .bits = 8, .address = {10}}}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(never); i++)
        if (!egress_host_never(never[i], NULL))
            fail_msg("%s", never[i]);
    for (size_t i = 0; i < ARRAY_SIZE(maybe); i++)
        if (egress_host_never(maybe[i], NULL))
            fail_msg("%s", maybe[i]);
    assert_null(egress_host_never("10.0.0.1", &lab));
    assert_string_equal(egress_host_never("169.254.169.254", &lab),
                        "metadata");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E2_names_have_one_form),
        cmocka_unit_test(E2_numbers_have_one_form),
        cmocka_unit_test(E2_what_is_no_host_is_refused),
        cmocka_unit_test(E2_patterns_match_what_they_say),
        cmocka_unit_test(E2_patterns_people_write),
        cmocka_unit_test(E3_ranges_of_ipv4),
        cmocka_unit_test(E3_never_by_text),
        cmocka_unit_test(E3_ranges_of_ipv6),
        cmocka_unit_test(E3_our_own_addresses_and_the_lab),
    };

    return cmocka_run_group_tests_name("egress_host", tests, NULL, NULL);
}
