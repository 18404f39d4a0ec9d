/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress: what a grant's rules let, what is in a session's certificates, and
 * which names and links of a package index are taken.
 */
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
/* The inside of glovebox-egress: a test may look. */
#include "egress/egress_int.h"
#include "egress/packages_int.h"

static struct egress_grant grant = {.mode = EGRESS_MODE_ALLOWLIST};

static struct http_target to(const char *host, uint16_t port, const char *path)
{
    struct http_target t = {.port = port, .path = {path, strlen(path)}};

    (void)snprintf(t.host, sizeof(t.host), "%s", host);
    return t;
}

static struct decision connect_to(const struct egress_rule *rules,
                                  size_t count, const char *host,
                                  uint16_t port)
{
    struct http_target t = to(host, port, "/");
    struct decision d;

    grant.rule_count = (uint32_t)count;
    egress_rule_connect(&grant, rules, &t, &d);
    return d;
}

static struct decision ask(const struct egress_rule *rules, size_t count,
                           const char *method, const char *host, uint16_t port,
                           const char *path, bool tls)
{
    struct http_target t = to(host, port, path);
    struct decision d;

    grant.rule_count = (uint32_t)count;
    egress_rule_request(&grant, rules, &t,
                        (struct span){method, strlen(method)}, tls, &d);
    return d;
}

static void E2_nothing_listed_is_nothing_let(void **state)
{
    (void)state;
    assert_int_equal(connect_to(NULL, 0, "a.example", 443).verdict,
                     VERDICT_NO);
    assert_int_equal(ask(NULL, 0, "GET", "a.example", 80, "/", 0).verdict,
                     VERDICT_NO);
    grant.mode = EGRESS_MODE_NONE;
    assert_non_null(
        strstr(connect_to(NULL, 0, "a.example", 443).why, "no network"));
    grant.mode = EGRESS_MODE_ALLOWLIST;
}

static void E2_ports_are_80_and_443_or_those_listed(void **state)
{
    static const struct egress_rule rules[] = {
        {.host = "a.example"},
        {.host = "b.example", .ports = {1, 2, 3, 4, 5, 6, 7, 65535}}};
    static const uint16_t no[] = {79, 81, 442, 444, 1, 65535};

    (void)state;
    assert_int_equal(connect_to(rules, 2, "a.example", 443).verdict,
                     VERDICT_TUNNEL);
    assert_false(connect_to(rules, 2, "a.example", 443).port_listed);
    assert_int_equal(connect_to(rules, 2, "a.example", 80).verdict,
                     VERDICT_TUNNEL);
    for (size_t i = 0; i < ARRAY_SIZE(no); i++)
        assert_int_equal(connect_to(rules, 2, "a.example", no[i]).verdict,
                         VERDICT_NO);
    assert_int_equal(connect_to(rules, 2, "b.example", 65535).rule, 2);
    assert_true(connect_to(rules, 2, "b.example", 65535).port_listed);
    assert_int_equal(connect_to(rules, 2, "b.example", 443).verdict,
                     VERDICT_NO);
    assert_int_equal(connect_to(rules, 2, "b.example", 0).verdict, VERDICT_NO);
}

static void E2_what_cannot_be_seen_is_not_tunnelled(void **state)
{
    struct egress_rule rules[2] = {{.host = "a.example", .path = "/x"},
                                   {.host = "a.example"}};

    (void)state;
    assert_int_equal(connect_to(rules, 1, "a.example", 443).verdict,
                     VERDICT_NO);
    assert_int_equal(connect_to(rules, 2, "a.example", 443).rule, 2);
    rules[0] = (struct egress_rule){.host = "a.example", .methods = 1};
    assert_int_equal(connect_to(rules, 1, "a.example", 443).verdict,
                     VERDICT_NO);
    rules[0].inspect = 1;
    assert_int_equal(connect_to(rules, 2, "a.example", 443).verdict,
                     VERDICT_INSPECT);
    rules[0] = (struct egress_rule){.host = "a.example"};
    rules[1].inspect = 1; /* one that looks inside comes first */
    assert_int_equal(connect_to(rules, 2, "a.example", 443).verdict,
                     VERDICT_INSPECT);
}

static void E2_requests_match_method_and_path(void **state)
{
    static const struct egress_rule rules[] = {
        {.host = "a.example",
         .methods = EGRESS_GET | EGRESS_HEAD,
         .path = "/v1"},
        {.host = "*.b.example", .methods = EGRESS_OPTIONS}};
    struct decision d;

    (void)state;
    d = ask(rules, 2, "GET", "a.example", 80, "/x/../v1/%61", false);
    assert_int_equal(d.verdict, VERDICT_REQUEST);
    assert_string_equal(d.path, "/v1/a");
    assert_int_equal(ask(rules, 2, "POST", "a.example", 80, "/v1", 0).verdict,
                     VERDICT_NO);
    assert_int_equal(ask(rules, 2, "GETS", "a.example", 80, "/v1", 0).verdict,
                     VERDICT_NO);
    assert_int_equal(ask(rules, 2, "GET", "a.example", 80, "/v11", 0).verdict,
                     VERDICT_NO);
    assert_int_equal(
        ask(rules, 2, "GET", "a.example", 80, "/v1%2fx", 0).verdict,
        VERDICT_NO);
    d = ask(rules, 2, "OPTIONS", "x.b.example", 80, "//as%2Fit-is", false);
    assert_int_equal(d.verdict, VERDICT_REQUEST);
    assert_string_equal(d.path, "");
}

static void secrets_go_over_tls_or_where_the_port_is_named(void **state)
{
    struct egress_rule r = {
        .host = "a.example", .inspect = 1, .header = "X", .value = "y"};

    (void)state;
    assert_true(ask(&r, 1, "GET", "a.example", 443, "/", true).add);
    assert_int_equal(ask(&r, 1, "GET", "a.example", 80, "/", false).verdict,
                     VERDICT_NO);
    r.inspect = 0;
    assert_true(ask(&r, 1, "GET", "a.example", 80, "/", false).add);
    r.inspect = 1;
    r.ports[0] = 8080;
    assert_true(ask(&r, 1, "GET", "a.example", 8080, "/", false).add);
}

static void open_lets_all_names_and_keeps_its_rules(void **state)
{
    static const struct egress_rule r = {
        .host = "a.example", .inspect = 1, .header = "X", .value = "y"};

    (void)state;
    grant.mode = EGRESS_MODE_OPEN;
    assert_int_equal(connect_to(&r, 1, "z.example", 1).verdict,
                     VERDICT_TUNNEL);
    assert_int_equal(connect_to(&r, 1, "a.example", 443).verdict,
                     VERDICT_INSPECT);
    assert_false(ask(&r, 1, "GET", "z.example", 443, "/", true).add);
    assert_true(egress_rule_lookup(&grant, &r, "z.example"));
    grant.mode = EGRESS_MODE_ALLOWLIST;
    assert_false(egress_rule_lookup(&grant, &r, "z.example"));
    assert_true(egress_rule_lookup(&grant, &r, "a.example"));
}

static void E4_rules_that_are_not_canonical_are_refused(void **state)
{
    static const struct egress_rule good = {.host = "*.a.example",
                                            .path = "/x",
                                            .header = "Authorization",
                                            .value = "Bearer x"};
    struct egress_rule r = good;

    (void)state;
    assert_null(egress_rule_fault(&r));
    (void)snprintf(r.host, sizeof(r.host), "A.example");
    assert_non_null(egress_rule_fault(&r));
    r = good;
    (void)snprintf(r.path, sizeof(r.path), "/x/../y");
    assert_non_null(egress_rule_fault(&r));
    r = good;
    (void)snprintf(r.header, sizeof(r.header), "a:b");
    assert_non_null(egress_rule_fault(&r));
    r = good;
    (void)snprintf(r.value, sizeof(r.value), "a\nb");
    assert_non_null(egress_rule_fault(&r));
    r = good;
    memset(r.value, 'x', sizeof(r.value));
    assert_non_null(egress_rule_fault(&r));
    r.value[sizeof(r.value) - 1] = '\0';
    assert_null(egress_rule_fault(&r));
}

/* ---- certificates ------------------------------------------------------- */

/* Both ends of TLS in memory; true when the client took the certificate. */
static bool agree(struct cert_authority *m, const char *ca, const char *host,
                  bool address, const char *wanted)
{
    SSL_CTX *in = SSL_CTX_new(TLS_server_method());
    SSL_CTX *out = SSL_CTX_new(TLS_client_method());
    BIO *text = BIO_new_mem_buf(ca, -1);
    X509 *root = PEM_read_bio_X509(text, NULL, NULL, NULL);
    SSL *server = egress_ca_accept(m, in, host, address);
    SSL *client = SSL_new(out);
    BIO *a = NULL, *b = NULL;
    bool ok = false;

    assert_non_null(server);
    (void)X509_STORE_add_cert(SSL_CTX_get_cert_store(out), root);
    SSL_set_verify(client, SSL_VERIFY_PEER, NULL);
    X509_VERIFY_PARAM_set_flags(SSL_get0_param(client),
                                X509_V_FLAG_X509_STRICT);
    if (address)
        (void)X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(client), wanted);
    else
        (void)SSL_set1_host(client, wanted);
    (void)BIO_new_bio_pair(&a, 65536, &b, 65536);
    SSL_set_bio(server, a, a);
    SSL_set_bio(client, b, b);
    SSL_set_connect_state(client);
    for (int i = 0; i < 20 && !ok; i++) {
        (void)SSL_do_handshake(client);
        (void)SSL_do_handshake(server);
        ok = SSL_is_init_finished(client) && SSL_is_init_finished(server);
    }
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(in);
    SSL_CTX_free(out);
    X509_free(root);
    BIO_free(text);
    return ok;
}

static void certificates_hold_for_their_host_and_session(void **state)
{
    struct cert_authority *m = egress_ca_new(), *other = egress_ca_new();
    char longest[EGRESS_HOST_MAX] = "";

    (void)state;
    assert_non_null(m);
    assert_true(
        agree(m, egress_ca_certificate(m), "a.example", false, "a.example"));
    assert_true(
        agree(m, egress_ca_certificate(m), "a.example", false, "a.example"));
    assert_false(
        agree(m, egress_ca_certificate(m), "a.example", false, "b.example"));
    assert_false(agree(m, egress_ca_certificate(other), "a.example", false,
                       "a.example"));
    assert_true(
        agree(m, egress_ca_certificate(m), "1.2.3.4", true, "1.2.3.4"));
    assert_true(
        agree(m, egress_ca_certificate(m), "2600::1", true, "2600::1"));
    for (size_t i = 0; i < 253; i++)
        longest[i] = i % 2 ? '.' : 'a';
    assert_true(agree(m, egress_ca_certificate(m), longest, false, longest));
    for (int i = 0; i < 600; i++) { /* more hosts than are kept */
        char host[32];

        (void)snprintf(host, sizeof(host), "h%d.example", i);
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
        SSL *ssl = egress_ca_accept(m, ctx, host, false);

        assert_non_null(ssl);
        SSL_free(ssl);
        SSL_CTX_free(ctx);
    }
    egress_ca_free(m);
    egress_ca_free(other);
    egress_ca_free(NULL);
}

/* ---- packages ----------------------------------------------------------- */

static void package_names_are_normal(void **state)
{
    char got[PACKAGE_NAME_MAX], version[PACKAGE_VERSION_MAX], longest[200];

    (void)state;
    assert_true(egress_packages_normal((struct span){"A__b.-C", 7}, got));
    assert_string_equal(got, "a-b-c");
    assert_false(egress_packages_normal((struct span){"-a", 2}, got));
    assert_false(egress_packages_normal((struct span){"a_", 2}, got));
    assert_false(egress_packages_normal((struct span){"a/b", 3}, got));
    assert_false(egress_packages_normal((struct span){"", 0}, got));
    memset(longest, 'a', sizeof(longest));
    assert_true(egress_packages_normal((struct span){longest, 127}, got));
    assert_false(egress_packages_normal((struct span){longest, 128}, got));
    assert_true(egress_packages_file("Demo_Pkg-1.0.post1-py3-none-any.whl",
                                     got, version));
    assert_string_equal(got, "demo-pkg");
    assert_string_equal(version, "1.0.post1");
    assert_true(egress_packages_file("a-b-2.tar.gz", got, version));
    assert_string_equal(got, "a-b");
    assert_string_equal(version, "2");
    assert_false(egress_packages_file("a.whl", got, version));
    assert_false(egress_packages_file("a-1.whl", got, version));
    assert_false(
        egress_packages_file("../a-1-py3-none-any.whl", got, version));
    assert_false(egress_packages_file("a-1.exe", got, version));
    assert_false(egress_packages_file("-1.tar.gz", got, version));
}

#define H64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static size_t page(const char *html, struct package_file **ret)
{
    return egress_packages_page(html, strlen(html),
                                "https://i.example/simple/a/", "a", ret);
}

static void package_pages_are_read(void **state)
{
    static const char *const links[][2] = {
        {"/f/a-1-py3-none-any.whl",
         "https://i.example/f/a-1-py3-none-any.whl"},
        {"../../f/a-1.tar.gz", "https://i.example/f/a-1.tar.gz"},
        {"../../../../a-1.tar.gz", "https://i.example/a-1.tar.gz"},
        {"a-1.tar.gz", "https://i.example/simple/a/a-1.tar.gz"},
        {"//f.example/a-1.tar.gz", "https://f.example/a-1.tar.gz"},
        {"http://f.example/a-1.tar.gz", "http://f.example/a-1.tar.gz"},
    };
    static const char *const none[] = {
        "<a href=\"/f/a-1.tar.gz\">",
        "<a href=\"/f/a-1.tar.gz#sha256=123\">",
        "<a href=\"/f/a-1.tar.gz#md5=" H64 "\">",
        "<a href=\"/f/b-1.tar.gz#sha256=" H64 "\">",
        "<a href=\"/f/a-1.tar.gz#sha256=" H64 "\" data-yanked=\"\">",
        "<a href=\"javascript://x/a-1.tar.gz#sha256=" H64 "\">",
        "<a href=\"/f/ a-1.tar.gz#sha256=" H64 "\">",
        "<a href=\"/f/a-1.tar.gz#sha256=" H64,
        "<b href=\"/f/a-1.tar.gz#sha256=" H64 "\">",
        "<a>",
        "<",
        "",
        "<a href=>",
        "<a href=\"",
    };
    struct package_file *files = NULL;
    struct buf b cleanup(buf_done) = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        char *html cleanup(mem_free) =
            xasprintf("<html><A class='x' href=\"%s#sha256=" H64
                      "\" data-requires-python='&gt;=3'>a</a>",
                      links[i][0]);

        assert_int_equal(page(html, &files), 1);
        assert_string_equal(files[0].url, links[i][1]);
        assert_string_equal(files[0].version, "1");
        assert_string_equal(files[0].sha256, H64);
        assert_string_equal(files[0].requires, "&gt;=3");
        egress_packages_files_free(files, 1);
    }
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        assert_int_equal(page(none[i], &files), 0);
        egress_packages_files_free(files, 0);
    }
    for (unsigned i = 0; i < PACKAGE_FILES_MAX + 1; i++)
        buf_addf(&b, "<a href=\"/a-%u.tar.gz#sha256=" H64 "\">", i);
    assert_int_equal(page(b.data, &files), PACKAGE_FILES_MAX);
    assert_string_equal(files[0].version, "512"); /* in place of the oldest */
    egress_packages_files_free(files, PACKAGE_FILES_MAX);
}

static size_t json_page(const char *json, struct package_file **ret)
{
    return egress_packages_json(json, strlen(json),
                                "https://i.example/simple/a/", "a", ret);
}

#define FILE_(more)                                                           \
    "{\"files\":[{\"filename\":\"a-1.tar.gz\",\"hashes\":{\"sha256\":"        \
    "\"" H64 "\"}" more "}]}"

static void package_pages_in_json_are_read(void **state)
{
    static const char *const good[][2] = {
        {FILE_(",\"url\":\"/f/a-1.tar.gz\""), ""},
        {FILE_(",\"url\" : \"..\\/..\\/f\\/a-1.tar.gz\",\"yanked\":false"),
         ""},
        {FILE_(",\"url\":\"\\u002ff/a-1.tar.gz\",\"requires-python\":null"),
         ""},
        {FILE_(",\"url\":\"/f/a-1.tar.gz\",\"requires-python\":\"<4\\u0026\""),
         "&lt;4&amp;"},
        {FILE_(",\"x\":{\"y\":[1,-2.5e3,{},[],\"\\u20ac\",null]},"
               "\"url\":\"/f/a-1.tar.gz\""),
         ""},
    };
    static const char *const none[] = {
        "",
        "[]",
        "{",
        "{}",
        "null",
        "{\"files\":[]}",
        "{\"files\":{}}",
        "{\"files\":[1]}",
        FILE_(""),
        FILE_(",\"url\":7"),
        FILE_(",\"url\":\"/f/\\u00e9\""),
        FILE_(",\"url\":\"/f/a b\""),
        FILE_(",\"url\":\"/f/a\",\"yanked\":true"),
        FILE_(",\"url\":\"/f/a\",\"yanked\":\"\""),
        FILE_(",\"url\":\"/f/a\",\"hashes\":{\"sha256\":\"00\"}"),
        FILE_(",\"url\":\"/f/a\",\"filename\":\"b-1.tar.gz\""),
        FILE_(",\"url\":\"/f/a\",\"filename\":\"../a-1.tar.gz\""),
        FILE_(",\"url\":\"/f/a\",\"x\":\"\n\""),
        FILE_(",\"url\":\"/f/a\",\"x\":\"\\q\""),
        FILE_(",\"url\":\"/f/a\",\"x\":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]"),
        "{\"files\":[{\"filename\":\"a-1.tar.gz",
        "{\"files\":[{\"filename\":\"a-1.tar.gz\\",
        "{\"files\":[{\"filename\":\"\\u00",
    };
    struct package_file *files = NULL;
    struct buf b cleanup(buf_done) = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(json_page(good[i][0], &files), 1);
        assert_string_equal(files[0].url, "https://i.example/f/a-1.tar.gz");
        assert_string_equal(files[0].name, "a-1.tar.gz");
        assert_string_equal(files[0].sha256, H64);
        assert_string_equal(files[0].requires, good[i][1]);
        egress_packages_files_free(files, 1);
    }
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        assert_int_equal(json_page(none[i], &files), 0);
        egress_packages_files_free(files, 0);
    }
    buf_adds(&b, "{\"files\":[");
    for (unsigned i = 0; i < PACKAGE_FILES_MAX + 1; i++)
        buf_addf(&b,
                 "%s{\"filename\":\"a-%u.tar.gz\",\"url\":\"x\",\"hashes\":{"
                 "\"sha256\":\"" H64 "\"}}",
                 i ? "," : "", i);
    buf_adds(&b, "]}");
    assert_int_equal(json_page(b.data, &files), PACKAGE_FILES_MAX);
    assert_string_equal(files[0].version, "512"); /* in place of the oldest */
    egress_packages_files_free(files, PACKAGE_FILES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E2_nothing_listed_is_nothing_let),
        cmocka_unit_test(E2_ports_are_80_and_443_or_those_listed),
        cmocka_unit_test(E2_what_cannot_be_seen_is_not_tunnelled),
        cmocka_unit_test(E2_requests_match_method_and_path),
        cmocka_unit_test(secrets_go_over_tls_or_where_the_port_is_named),
        cmocka_unit_test(open_lets_all_names_and_keeps_its_rules),
        cmocka_unit_test(E4_rules_that_are_not_canonical_are_refused),
        cmocka_unit_test(certificates_hold_for_their_host_and_session),
        cmocka_unit_test(package_names_are_normal),
        cmocka_unit_test(package_pages_are_read),
        cmocka_unit_test(package_pages_in_json_are_read),
    };

    return cmocka_run_group_tests_name("egress_rules", tests, NULL, NULL);
}
