/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth/jwt*.c: tokens of another issuer are read strictly, verified with the
 * right key by the right algorithm, and give what their claims and the rules
 * say, no more; keys come from a file and change; failures are slowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "scratch.h"
#include "store_choice.h"
#include "json/json.h"

#define ISSUER "https://issuer.example/v2"
#define AUDIENCE "https://dynamicsessions.io"
#define NOW_S INT64_C(1800000000)

/* ---- keys and tokens ---------------------------------------------------- */

enum {
    RSA_KEY,
    RSA_OTHER,
    P256,
    P384,
    P521,
    RSA_SMALL,
    KEYS
};

static EVP_PKEY *pair[KEYS];
static const char *const kids[KEYS] = {"rsa",  "other", "p256",
                                       "p384", "p521",  "small"};

static int make_pairs(void **state)
{
    (void)state;
    pair[RSA_KEY] = EVP_RSA_gen(2048);
    pair[RSA_OTHER] = EVP_RSA_gen(2048);
    pair[RSA_SMALL] = EVP_RSA_gen(1024);
    pair[P256] = EVP_EC_gen("P-256");
    pair[P384] = EVP_EC_gen("P-384");
    pair[P521] = EVP_EC_gen("P-521");
    return 0;
}

static int free_pairs(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEYS; i++)
        EVP_PKEY_free(pair[i]);
    return 0;
}

static void add_base64(struct buf *b, const void *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789-_";
    const unsigned char *p = bytes;

    for (size_t i = 0; i < len; i += 3) {
        uint32_t n = (uint32_t)p[i] << 16;

        n |= i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0;
        n |= i + 2 < len ? p[i + 2] : 0;
        buf_add(b, &digits[n >> 18], 1);
        buf_add(b, &digits[n >> 12 & 63], 1);
        if (i + 1 < len)
            buf_add(b, &digits[n >> 6 & 63], 1);
        if (i + 2 < len)
            buf_add(b, &digits[n & 63], 1);
    }
}

static void add_number(struct buf *b, const char *name, EVP_PKEY *key,
                       const char *param, int len)
{
    unsigned char bytes[1024];
    BIGNUM *n = NULL;

    assert_int_equal(EVP_PKEY_get_bn_param(key, param, &n), 1);
    len = len ? len : BN_num_bytes(n);
    assert_int_equal(BN_bn2binpad(n, bytes, len), len);
    BN_free(n);
    buf_addf(b, ",\"%s\":\"", name);
    add_base64(b, bytes, (size_t)len);
    buf_adds(b, "\"");
}

/* extra: more members, each after a comma. */
static void add_jwk(struct buf *b, int which, const char *extra)
{
    EVP_PKEY *key = pair[which];

    buf_addf(b, "{\"kid\":\"%s\"%s", kids[which], extra);
    if (EVP_PKEY_is_a(key, "RSA")) {
        buf_adds(b, ",\"kty\":\"RSA\"");
        add_number(b, "n", key, OSSL_PKEY_PARAM_RSA_N, 0);
        add_number(b, "e", key, OSSL_PKEY_PARAM_RSA_E, 0);
    } else {
        int bytes = which == P256 ? 32 : which == P384 ? 48 : 66;

        buf_addf(b, ",\"kty\":\"EC\",\"crv\":\"P-%d\"",
                 which == P521 ? 521 : bytes * 8);
        add_number(b, "x", key, OSSL_PKEY_PARAM_EC_PUB_X, bytes);
        add_number(b, "y", key, OSSL_PKEY_PARAM_EC_PUB_Y, bytes);
    }
    buf_adds(b, "}");
}

static struct jwt_keys *keys_of(const char *text)
{
    struct jwt_keys *k = NULL;
    struct error err;

    return auth_jwt_keys_parse(text, strlen(text), &k, &err) < 0 ? NULL : k;
}

static struct jwt_keys *all_keys(void)
{
    struct buf b cleanup(buf_done) = {0};
    struct jwt_keys *k;

    buf_adds(&b, "{\"keys\":[");
    for (int i = 0; i < RSA_SMALL; i++) {
        buf_adds(&b, i ? "," : "");
        add_jwk(&b, i, "");
    }
    buf_adds(&b, "]}");
    k = keys_of(b.data);
    assert_non_null(k);
    return k;
}

/* The signature as tokens carry it: r and s side by side for EC. */
static void add_signature(struct buf *b, const char *alg, EVP_PKEY *key,
                          const char *text, size_t len)
{
    const char *digest = strstr(alg, "256")   ? "SHA256"
                         : strstr(alg, "384") ? "SHA384"
                                              : "SHA512";
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char sig[1024], raw[132];
    const unsigned char *p = sig;
    EVP_PKEY_CTX *how;
    size_t n = sizeof(sig);
    ECDSA_SIG *ec;
    int half;

    assert_int_equal(
        EVP_DigestSignInit_ex(ctx, &how, digest, NULL, NULL, key, NULL), 1);
    if (alg[0] == 'P') {
        assert_true(EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING) >
                    0);
        assert_true(
            EVP_PKEY_CTX_set_rsa_pss_saltlen(how, RSA_PSS_SALTLEN_DIGEST) > 0);
    }
    assert_int_equal(
        EVP_DigestSign(ctx, sig, &n, (const unsigned char *)text, len), 1);
    EVP_MD_CTX_free(ctx);
    if (EVP_PKEY_is_a(key, "RSA")) {
        add_base64(b, sig, n);
        return;
    }
    half = (EVP_PKEY_get_bits(key) + 7) / 8;
    ec = d2i_ECDSA_SIG(NULL, &p, (long)n);
    assert_non_null(ec);
    BN_bn2binpad(ECDSA_SIG_get0_r(ec), raw, half);
    BN_bn2binpad(ECDSA_SIG_get0_s(ec), raw + half, half);
    ECDSA_SIG_free(ec);
    add_base64(b, raw, (size_t)half * 2);
}

/* A token of that header and content, signed as alg says; owned by caller. */
static char *sign(const char *header, const char *claims, const char *alg,
                  EVP_PKEY *key)
{
    struct buf b = {0};
    size_t len;

    add_base64(&b, header, strlen(header));
    buf_adds(&b, ".");
    add_base64(&b, claims, strlen(claims));
    len = b.len;
    buf_adds(&b, ".");
    add_signature(&b, alg, key, b.data, len);
    return buf_take(&b, NULL);
}

static char *sign_as(const char *alg, int which, const char *claims)
{
    char *header cleanup(mem_free) =
        xasprintf("{\"alg\":\"%s\",\"kid\":\"%s\"}", alg, kids[which]);

    return sign(header, claims, alg, pair[which]);
}

/* Is it right, as far as its signature goes? */
static bool verifies(const struct jwt_keys *keys, const char *token)
{
    struct jwt_token t cleanup(auth_jwt_token_done) = {0};
    struct error err;
    EVP_PKEY *key;

    if (auth_jwt_token_read(token, &t, &err) < 0) {
        assert_int_equal(err.code, ERR_UNAUTHENTICATED);
        return false;
    }
    key = auth_jwt_keys_find(keys, t.kid, t.alg);
    return key && auth_jwt_verify(t.alg, key, t.text, t.text_len, t.signature,
                                  t.signature_len);
}

/* ---- reading ------------------------------------------------------------ */

static void base64_is_read_strictly(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},         {"TQ", "M"},         {"TWE", "Ma"},
        {"TWFu", "Man"},  {"_-8", "\xff\xef"}, {"T", NULL},
        {"TQ==", NULL},   {"TR", NULL},        {"TWF", NULL},
        {"TW Fu", NULL},  {"TWFuT", NULL},     {"+/8", NULL},
        {"TW\xc3", NULL}, {"T.Q", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t len = 99;
        unsigned char *got cleanup(mem_free) =
            auth_jwt_base64(cases[i].text, strlen(cases[i].text), &len);

        assert_int_equal(got != NULL, cases[i].want != NULL);
        if (got) {
            assert_int_equal(len, strlen(cases[i].want));
            assert_memory_equal(got, cases[i].want, len);
        }
    }
}

static void H3_malformed_tokens_are_refused(void **state)
{
    static const char *const headers[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"alg\":\"RS256\"",
        "{\"alg\":1}",
        "{\"alg\":\"none\"}",
        "{\"alg\":\"None\"}",
        "{\"alg\":\"HS256\",\"kid\":\"rsa\"}",
        "{\"alg\":\"HS512\",\"kid\":\"rsa\"}",
        "{\"alg\":\"rs256\",\"kid\":\"rsa\"}",
        "{\"alg\":\"RS1\",\"kid\":\"rsa\"}",
        "{\"alg\":\"EdDSA\",\"kid\":\"rsa\"}",
        "{\"alg\":\"RSA-OAEP\",\"kid\":\"rsa\"}",
        "{\"alg\":\"HS256\",\"alg\":\"RS256\",\"kid\":\"rsa\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"crit\":[\"b64\"],\"b64\":false}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"typ\":\"secevent+jwt\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"typ\":7}",
        "{\"alg\":\"RS256\",\"kid\":7}",
        "{\"alg\":\"RS256\",\"kid\":\"unknown\"}",
        "{\"alg\":\"RS256\"}", /* two keys fit */
        "{\"alg\":\"RS256\",\"kid\":\"p256\"}",
        "{\"alg\":\"ES256\",\"kid\":\"rsa\"}",
        "{\"alg\":\"ES256\",\"kid\":\"p384\"}",
        "{\"alg\":\"PS256\",\"kid\":\"rsa\"}", /* signed as RS256 */
    };
    static const char *const good[] = {
        "{\"alg\":\"RS256\",\"kid\":\"rsa\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"typ\":\"JWT\"}",
        "{\"typ\":\"at+jwt\",\"alg\":\"RS256\",\"kid\":\"rsa\"}",
        "{\"typ\":\"application/at+JWT\",\"alg\":\"RS256\",\"kid\":\"rsa\"}",
    };
    struct jwt_keys *keys = all_keys();

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
        char *t cleanup(mem_free) =
            sign(headers[i], "{}", "RS256", pair[RSA_KEY]);

        if (verifies(keys, t))
            fail_msg("accepted %s", headers[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        char *t cleanup(mem_free) =
            sign(good[i], "{}", "RS256", pair[RSA_KEY]);

        if (!verifies(keys, t))
            fail_msg("refused %s", good[i]);
    }
    assert_false(verifies(keys, ""));
    assert_false(verifies(keys, "."));
    assert_false(verifies(keys, ".."));
    assert_false(verifies(keys, "..."));
    auth_jwt_keys_free(keys);
}

static void I2_only_the_signer_can_sign(void **state)
{
    static const struct {
        const char *alg;
        int which;
    } cases[] = {
        {"RS256", RSA_KEY}, {"RS384", RSA_KEY}, {"RS512", RSA_KEY},
        {"PS256", RSA_KEY}, {"PS384", RSA_KEY}, {"PS512", RSA_KEY},
        {"ES256", P256},    {"ES384", P384},    {"ES512", P521},
    };
    struct jwt_keys *keys = all_keys();

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *t cleanup(mem_free) =
            sign_as(cases[i].alg, cases[i].which, "{\"sub\":\"me\"}");
        char *dot = strrchr(t, '.');
        size_t len = strlen(t);

        if (!verifies(keys, t))
            fail_msg("refused %s", cases[i].alg);
        /* Any other byte anywhere is another token. */
        for (size_t at = 0; at < len; at += 7) {
            char was = t[at];

            t[at] = was == 'A' ? 'B' : 'A';
            assert_false(verifies(keys, t));
            t[at] = was;
        }
        /* So is a shorter or a longer one, or one without a signature. */
        t[len - 4] = '\0';
        assert_false(verifies(keys, t));
        dot[1] = '\0';
        assert_false(verifies(keys, t));
        dot[0] = '\0';
        assert_false(verifies(keys, t));
    }
    auth_jwt_keys_free(keys);
}

static void I2_another_key_does_not_do(void **state)
{
    struct jwt_keys *keys = all_keys();
    char *other cleanup(mem_free) = sign("{\"alg\":\"RS256\",\"kid\":\"rsa\"}",
                                         "{}", "RS256", pair[RSA_OTHER]);
    /* The public key as a shared secret: no such algorithm. */
    char *t cleanup(mem_free) = sign("{\"alg\":\"HS256\",\"kid\":\"rsa\"}",
                                     "{}", "RS256", pair[RSA_KEY]);

    (void)state;
    assert_false(verifies(keys, other));
    assert_false(verifies(keys, t));
    auth_jwt_keys_free(keys);
}

static void H3_tokens_are_bounded(void **state)
{
    struct jwt_keys *keys = all_keys();
    unsigned below = 0, above = 0;
    size_t len = 0;

    (void)state;
    /* Base64 makes of each byte one digit or two. */
    for (int pad = 12100; len < JWT_TOKEN_MAX + 4; pad++) {
        char *claims cleanup(mem_free) = xasprintf("{\"x\":\"%0*d\"}", pad, 0);
        char *t cleanup(mem_free) = sign_as("ES256", P256, claims);

        len = strlen(t);
        assert_int_equal(verifies(keys, t), len <= JWT_TOKEN_MAX);
        below += len <= JWT_TOKEN_MAX;
        above += len > JWT_TOKEN_MAX;
    }
    assert_true(below > 0 && above > 0);
    auth_jwt_keys_free(keys);
}

/* ---- keys --------------------------------------------------------------- */

static void only_keys_that_verify_are_taken(void **state)
{
    static const struct {
        int which;
        const char *extra;
        bool good;
    } cases[] = {
        {RSA_KEY, "", true},
        {RSA_KEY, ",\"use\":\"sig\"", true},
        {RSA_KEY, ",\"use\":\"enc\"", false},
        {RSA_KEY, ",\"use\":1", false},
        {RSA_KEY, ",\"key_ops\":[\"verify\"]", true},
        {RSA_KEY, ",\"key_ops\":[\"encrypt\"]", false},
        {RSA_KEY, ",\"alg\":\"PS256\"", true},
        {RSA_KEY, ",\"alg\":\"RSA-OAEP\"", false},
        {RSA_KEY, ",\"alg\":\"ES256\"", false},
        {RSA_KEY, ",\"d\":\"AQAB\"", false},
        {RSA_SMALL, "", false},
        {P256, "", true},
        {P256, ",\"alg\":\"ES256\"", true},
        {P256, ",\"alg\":\"ES384\"", false},
        {P384, "", true},
        {P521, "", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b cleanup(buf_done) = {0};
        struct jwt_keys *k;

        buf_adds(&b, "{\"keys\":[");
        add_jwk(&b, cases[i].which, cases[i].extra);
        buf_adds(&b, "]}");
        k = keys_of(b.data);
        if ((k != NULL) != cases[i].good)
            fail_msg("case %zu: %s", i, cases[i].extra);
        auth_jwt_keys_free(k);
    }
}

static void a_key_is_for_the_algorithm_it_names(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct jwt_keys *k;
    char *rs cleanup(mem_free) = sign_as("RS256", RSA_KEY, "{}");
    char *ps cleanup(mem_free) = sign_as("PS256", RSA_KEY, "{}");
    char *bare cleanup(mem_free) =
        sign("{\"alg\":\"PS256\"}", "{}", "PS256", pair[RSA_KEY]);

    (void)state;
    buf_adds(&b, "{\"keys\":[");
    add_jwk(&b, RSA_KEY, ",\"alg\":\"PS256\"");
    buf_adds(&b, "]}");
    k = keys_of(b.data);
    assert_false(verifies(k, rs));
    assert_true(verifies(k, ps));
    assert_true(verifies(k, bare)); /* the only one that fits */
    auth_jwt_keys_free(k);
}

static void bad_key_sets_are_refused(void **state)
{
    static const char *const sets[] = {
        "",
        "{}",
        "[]",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[1,null,\"x\",{}]}",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\",\"kid\":\"a\"}]}",
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\"}]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"\",\"e\":\"AQAB\"}]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\"}]}",
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":"
        "\"AA\"}]}",
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"secp256k1\",\"x\":\"AA\",\"y\":"
        "\"AA\"}]}",
        /* a point that is on no curve */
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":"
        "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\",\"y\":"
        "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\"}]}",
    };
    char *large cleanup(mem_free) = xcalloc(1, JWT_SET_MAX + 2);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
        if (keys_of(sets[i]))
            fail_msg("accepted %s", sets[i]);
    memset(large, ' ', JWT_SET_MAX + 1);
    assert_null(keys_of(large));
}

static void H3_key_sets_are_bounded(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct jwt_keys *k;

    (void)state;
    buf_adds(&b, "{\"keys\":[");
    for (int i = 0; i < JWT_KEYS_MAX + 10; i++) {
        buf_adds(&b, i ? "," : "");
        add_jwk(&b, P256, "");
    }
    buf_adds(&b, "]}");
    k = keys_of(b.data);
    assert_int_equal(k->count, JWT_KEYS_MAX);
    auth_jwt_keys_free(k);
}

/* ---- claims ------------------------------------------------------------- */

static const struct auth_jwt_settings settings = {
    .issuer = ISSUER,
    .audiences = AUDIENCE ",https://acasessions.io",
    .jwks_file = "-",
    .tenant_claim = "tid",
    .scope_claims = "scp roles",
    .scopes = "SessionExecutor=execute+files:read+files:write,"
              "Reader=files:read,Boss=admin",
    .default_scopes = "",
    .clock_skew_s = 60,
};

#define STANDARD                                                              \
    "\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"me\","         \
    "\"exp\":1800000100"

static int claim(const struct auth_jwt_settings *s, const char *text,
                 int64_t now_ms, struct principal *ret)
{
    json_t *claims cleanup(json_unref) = NULL;
    struct jwt_rules rules;
    struct error err = {0};
    int64_t until;
    int r;

    assert_int_equal(json_parse(text, strlen(text), &claims, &err), 0);
    assert_int_equal(auth_jwt_rules_init(&rules, s, &err), 0);
    r = auth_jwt_claims(&rules, claims, now_ms, ret, &until, &err);
    auth_jwt_rules_done(&rules);
    return r;
}

static void claims_are_checked(void **state)
{
    static const struct {
        const char *text;
        int want;
    } cases[] = {
        {STANDARD ",\"tid\":\"t\",\"roles\":[\"Reader\"]", 0},
        {STANDARD ",\"tid\":\"t\",\"roles\":\"Reader\"", 0},
        {STANDARD ",\"tid\":\"t\",\"scp\":\"x  Reader y\"", 0},
        {STANDARD ",\"tid\":\"t\"", -ERR_FORBIDDEN},
        {STANDARD ",\"tid\":\"t\",\"roles\":[\"reader\"]", -ERR_FORBIDDEN},
        {STANDARD ",\"tid\":\"t\",\"roles\":[\"execute\",1,null]",
         -ERR_FORBIDDEN},
        {STANDARD ",\"tid\":\"t\",\"groups\":[\"Reader\"]", -ERR_FORBIDDEN},
        {STANDARD ",\"roles\":[\"Reader\"]", -ERR_UNAUTHENTICATED},
        {STANDARD ",\"tid\":\"\",\"roles\":[\"Reader\"]",
         -ERR_UNAUTHENTICATED},
        {STANDARD ",\"tid\":7,\"roles\":[\"Reader\"]", -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER "/\",\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"exp\":1800000100,\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"exp\":1800000100,\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":[\"" ISSUER "\"],\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"exp\":1800000100,\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER
         "\",\"sub\":\"me\",\"exp\":1800000100,\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER
         "\",\"aud\":\"https://other\",\"sub\":\"me\",\"exp\":1800000100,"
         "\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER
         "\",\"aud\":[],\"sub\":\"me\",\"exp\":1800000100,\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER
         "\",\"aud\":[\"x\",\"https://acasessions.io\"],\"sub\":\"me\","
         "\"exp\":1800000100,\"tid\":\"t\",\"scp\":\"Reader\"",
         0},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"exp\":\"1800000100\",\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"exp\":1e300,\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"exp\":-1,\"tid\":\"t\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
         "\",\"sub\":\"me\",\"exp\":1800000100.5,\"tid\":\"t\",\"scp\":"
         "\"Reader\"",
         0},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
         "\",\"exp\":1800000100,\"tid\":\"t\",\"scp\":\"Reader\"",
         -ERR_UNAUTHENTICATED},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
         "\",\"sub\":\"\",\"exp\":1800000100,\"tid\":\"t\",\"scp\":"
         "\"Reader\"",
         -ERR_UNAUTHENTICATED},
        {STANDARD ",\"tid\":\"t\",\"scp\":\"Reader\",\"nbf\":\"soon\"",
         -ERR_UNAUTHENTICATED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text cleanup(mem_free) = xasprintf("{%s}", cases[i].text);
        struct principal who;
        int r = claim(&settings, text, NOW_S * 1000, &who);

        if (r != cases[i].want)
            fail_msg("%s: %d instead of %d", text, r, cases[i].want);
    }
}

static void times_are_checked_to_the_second(void **state)
{
    static const struct {
        int64_t exp, nbf; /* beside now, in seconds */
        uint32_t skew;
        bool good;
    } cases[] = {
        {1, 0, 0, true},       {0, 0, 0, false},      {-1, 0, 0, false},
        {-59, 0, 60, true},    {-60, 0, 60, false},   {100, 1, 0, false},
        {100, 60, 60, true},   {100, 61, 60, false},  {-599, 0, 600, true},
        {-600, 0, 600, false}, {-599, 0, 9999, true}, {-600, 0, 9999, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct auth_jwt_settings s = settings;
        struct principal who;
        char *text cleanup(mem_free) = xasprintf(
            "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
            "\",\"sub\":\"me\",\"tid\":\"t\",\"scp\":\"Reader\",\"exp\":%lld,"
            "\"nbf\":%lld}",
            (long long)(NOW_S + cases[i].exp),
            (long long)(NOW_S + cases[i].nbf));

        s.clock_skew_s = cases[i].skew;
        assert_int_equal(claim(&s, text, NOW_S * 1000, &who),
                         cases[i].good ? 0 : -ERR_UNAUTHENTICATED);
    }
}

static void principal_is_what_the_claims_say(void **state)
{
    struct auth_jwt_settings s = settings;
    struct principal a, b;

    (void)state;
    assert_int_equal(claim(&s,
                           "{" STANDARD ",\"tid\":\"Acme.Corp\xc3\xbc/1_2-3\","
                           "\"roles\":[\"SessionExecutor\"]}",
                           NOW_S * 1000, &a),
                     0);
    assert_string_equal(a.tenant, "acme-corp---1_2-3");
    assert_true(ids_valid("jwt", a.key_id));
    assert_int_equal(a.scopes,
                     AUTH_EXECUTE | AUTH_FILES_READ | AUTH_FILES_WRITE);
    /* The same subject is the same principal, whatever else is claimed. */
    assert_int_equal(claim(&s,
                           "{" STANDARD ",\"tid\":\"other\",\"scp\":\"Boss\"}",
                           NOW_S * 1000, &b),
                     0);
    assert_string_equal(a.key_id, b.key_id);
    assert_int_equal(b.scopes, AUTH_SCOPES_ALL);
    s.issuer = "https://issuer.example/v2m";
    assert_int_equal(
        claim(&s,
              "{\"iss\":\"https://issuer.example/v2m\",\"aud\":\"" AUDIENCE
              "\",\"sub\":\"e\",\"exp\":1800000100,\"tid\":\"t\",\"scp\":"
              "\"Boss\"}",
              NOW_S * 1000, &b),
        0);
    assert_string_not_equal(a.key_id, b.key_id);
    /* One tenant for all; something for everybody. */
    s = settings;
    s.tenant = "fixed";
    s.default_scopes = "execute,files:read";
    assert_int_equal(
        claim(&s, "{" STANDARD ",\"tid\":\"x\"}", NOW_S * 1000, &a), 0);
    assert_string_equal(a.tenant, "fixed");
    assert_int_equal(a.scopes, AUTH_EXECUTE | AUTH_FILES_READ);
}

#define WS_A "ws_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define WS_B "ws_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void claims_bind_to_pools_and_workspaces(void **state)
{
    static const struct {
        const char *claims;
        const char *pools, *workspaces; /* NULL: refused */
    } cases[] = {
        {"", "", ""},
        {",\"pools\":\"big\"", "big", ""},
        {",\"pools\":\" big  small \"", "big,small", ""},
        {",\"pools\":[\"big\",\"small\"]", "big,small", ""},
        {",\"ws\":\"" WS_A " " WS_B "\"", "", WS_A "," WS_B},
        /* There, and not to be read: no bound would be all. */
        {",\"pools\":\"\"", NULL, NULL},
        {",\"pools\":[]", NULL, NULL},
        {",\"pools\":null", NULL, NULL},
        {",\"pools\":{}", NULL, NULL},
        {",\"pools\":7", NULL, NULL},
        {",\"pools\":[\"big\",7]", NULL, NULL},
        {",\"pools\":[\"a,b\"]", NULL, NULL},
        {",\"ws\":\"ws_1\"", NULL, NULL},
        {",\"ws\":\"" WS_A " *\"", NULL, NULL},
    };
    struct auth_jwt_settings s = settings;

    (void)state;
    s.pool_claim = "pools";
    s.workspace_claim = "ws";
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text cleanup(mem_free) =
            xasprintf("{" STANDARD ",\"tid\":\"t\",\"scp\":\"Reader\"%s}",
                      cases[i].claims);
        struct principal who = {0};
        int r = claim(&s, text, NOW_S * 1000, &who);

        if (r != (cases[i].pools ? 0 : -ERR_UNAUTHENTICATED))
            fail_msg("%s", cases[i].claims);
        if (r < 0)
            continue;
        assert_string_equal(who.bounds.ids[ACTOR_POOLS], cases[i].pools);
        assert_string_equal(who.bounds.ids[ACTOR_WORKSPACES],
                            cases[i].workspaces);
        assert_int_equal(who.expires_at_ms, INT64_C(1800000160) * 1000);
    }
}

/* Whatever a token says of itself, it gets what the rules say of its words. */
static void scopes_are_no_broader_than_configured(void **state)
{
    static const char *const claims[] = {
        "\"scp\":\"Auditor admin execute\"",
        "\"scp\":[\"Auditor\",\"admin\",\"policy:admin\"]",
        "\"roles\":[\"Auditor\"],\"scope\":\"admin\",\"scopes\":\"admin\"",
        "\"scp\":\"Auditor=admin Auditor+admin Auditor,admin Auditor\"",
    };
    struct auth_jwt_settings s = settings;
    struct principal who;

    (void)state;
    s.scopes = "Auditor=audit:read+approve,Keeper=workspaces:admin,"
               "Ruler=policy:admin";
    for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
        char *text cleanup(mem_free) =
            xasprintf("{" STANDARD ",\"tid\":\"t\",%s}", claims[i]);

        assert_int_equal(claim(&s, text, NOW_S * 1000, &who), 0);
        assert_int_equal(who.scopes, AUTH_AUDIT_READ | AUTH_APPROVE);
    }
    assert_int_equal(
        claim(&s, "{" STANDARD ",\"tid\":\"t\",\"scp\":\"Keeper Ruler\"}",
              NOW_S * 1000, &who),
        0);
    assert_int_equal(who.scopes, AUTH_WORKSPACES_ADMIN | AUTH_POLICY_ADMIN);
    assert_int_equal(claim(&s,
                           "{" STANDARD ",\"tid\":\"t\",\"scp\":\"admin\"}",
                           NOW_S * 1000, &who),
                     -ERR_FORBIDDEN);
}

static void tenant_names_are_bounded(void **state)
{
    (void)state;
    for (int len = AUTH_TENANT_MAX - 2; len <= AUTH_TENANT_MAX; len++) {
        char *text cleanup(mem_free) = xasprintf(
            "{" STANDARD ",\"scp\":\"Boss\",\"tid\":\"%0*d\"}", len, 0);
        struct principal who;

        assert_int_equal(claim(&settings, text, NOW_S * 1000, &who),
                         len < AUTH_TENANT_MAX ? 0 : -ERR_UNAUTHENTICATED);
    }
}

static void bad_rules_are_refused(void **state)
{
    static const struct {
        const char *scopes, *default_scopes, *audiences, *want;
    } cases[] = {
        {"Reader", "", "a", "is no rule"},
        {"=execute", "", "a", "is no rule"},
        {"Reader=read", "", "a", "unknown scope"},
        {"Reader=", "", "a", "unknown scope"},
        {"Reader=execute+", "", "a", "unknown scope"},
        {"", "reading", "a", "unknown scope"},
        {"", "", "", "jwt_audiences is empty"},
        {"", "", " , ", "jwt_audiences is empty"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct auth_jwt_settings s = settings;
        struct jwt_rules rules;
        struct error err = {0};

        s.scopes = cases[i].scopes;
        s.default_scopes = cases[i].default_scopes;
        s.audiences = cases[i].audiences;
        assert_int_equal(auth_jwt_rules_init(&rules, &s, &err), -ERR_INVALID);
        assert_non_null(strstr(err.message, cases[i].want));
        auth_jwt_rules_done(&rules);
    }
}

/* ---- the cache ---------------------------------------------------------- */

static void name_of(unsigned n, unsigned char ret[HASH_SIZE])
{
    hash_sha256(&n, sizeof(n), ret);
}

static void cache_forgets_in_time(void **state)
{
    struct jwt_cache *c cleanup(mem_free) = xcalloc(1, sizeof(*c));
    struct principal who = {.tenant = "t"}, got;
    unsigned char a[HASH_SIZE], b[HASH_SIZE];

    (void)state;
    name_of(1, a);
    name_of(2, b);
    assert_false(auth_jwt_cache_get(c, a, 1, 100, &got));
    auth_jwt_cache_put(c, a, 1, 100, 200, &who);
    assert_true(auth_jwt_cache_get(c, a, 1, 199, &got));
    assert_string_equal(got.tenant, "t");
    assert_false(auth_jwt_cache_get(c, b, 1, 199, &got));
    assert_false(auth_jwt_cache_get(c, a, 1, 200, &got)); /* over */
    assert_false(auth_jwt_cache_get(c, a, 2, 150, &got)); /* other keys */
}

static void R8_cache_is_bounded_and_keeps_the_used(void **state)
{
    struct jwt_cache *c cleanup(mem_free) = xcalloc(1, sizeof(*c));
    struct principal who = {.tenant = "t"}, got;
    unsigned char hash[HASH_SIZE], first[HASH_SIZE];
    size_t kept = 0;

    (void)state;
    name_of(0, first);
    auth_jwt_cache_put(c, first, 1, 100, 200, &who);
    for (unsigned i = 1; i <= 20000; i++) {
        name_of(i, hash);
        auth_jwt_cache_put(c, hash, 1, 100, 200, &who);
        assert_true(auth_jwt_cache_get(c, hash, 1, 100, &got));
        assert_true(auth_jwt_cache_get(c, first, 1, 100, &got));
    }
    for (unsigned i = 0; i <= 20000; i++) {
        name_of(i, hash);
        kept += auth_jwt_cache_get(c, hash, 1, 100, &got);
    }
    assert_true(kept <= (size_t)JWT_CACHE_SETS * JWT_CACHE_WAYS);
    assert_true(kept > (size_t)JWT_CACHE_SETS * JWT_CACHE_WAYS / 2);
}

/* ---- together ----------------------------------------------------------- */

struct fixture {
    char dir[64];
    char *file;
    struct store *store;
    struct auth *auth;
    struct error err;
};

static void write_keys(struct fixture *f, const char *text)
{
    char *fresh cleanup(mem_free) = xasprintf("%s.new", f->file);
    int fd cleanup(fd_close) =
        open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(rename(fresh, f->file), 0);
}

static void write_key(struct fixture *f, int which)
{
    struct buf b cleanup(buf_done) = {0};

    buf_adds(&b, "{\"keys\":[");
    add_jwk(&b, which, "");
    buf_adds(&b, "]}");
    write_keys(f, b.data);
}

static int set_up(void **state)
{
    struct auth_jwt_settings s = settings;
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_jwt"));
    f->file = xasprintf("%s/keys.json", f->dir);
    write_key(f, RSA_KEY);
    s.jwks_file = f->file;
    if (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0 ||
        auth_open(f->store, f->dir, 10, &f->auth, &f->err) < 0 ||
        auth_jwt_open(f->auth, &s, &f->err) < 0)
        fail_msg("%s", f->err.message);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    auth_close(f->auth);
    store_close(f->store);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f->file);
    free(f);
    return 0;
}

static char *good_token(const char *alg, int which, const char *subject)
{
    char *claims cleanup(mem_free) = xasprintf(
        "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
        "\",\"sub\":\"%s\",\"tid\":\"acme\",\"roles\":[\"SessionExecutor\"],"
        "\"exp\":%lld}",
        subject, (long long)(clock_real_ms() / 1000 + 300));

    return sign_as(alg, which, claims);
}

static int check(struct fixture *f, const char *token, const char *source,
                 struct principal *ret)
{
    char *header cleanup(mem_free) = xasprintf("Bearer %s", token);
    struct principal scratch;

    memset(&f->err, 0, sizeof(f->err));
    return auth_check(f->auth, header, source, ret ? ret : &scratch, &f->err);
}

static char *shown_name(struct fixture *f, const char *id)
{
    static char name[AUTH_NAME_MAX];

    auth_key_name(f->auth, id, name);
    return name;
}

/* Lists show names of subjects long after their tokens are gone. */
static void subjects_keep_the_name_of_their_newest_token(void **state)
{
    struct fixture *f = *state;
    char *plain cleanup(mem_free) = good_token("RS256", RSA_KEY, "me");
    char *named cleanup(mem_free) = good_token(
        "RS256", RSA_KEY, "me\",\"preferred_username\":\"ada@example.org");
    struct principal who;

    assert_string_equal(shown_name(f, "jwt_00000000000000000000000000000000"),
                        "");
    assert_int_equal(check(f, plain, "1.2.3.4", &who), 0);
    assert_string_equal(shown_name(f, who.key_id),
                        "me"); /* before any write */
    assert_int_equal(check(f, named, "1.2.3.4", &who), 0);
    assert_string_equal(shown_name(f, who.key_id), "ada@example.org");
    auth_close(f->auth); /* writes what is new */
    assert_int_equal(auth_open(f->store, f->dir, 10, &f->auth, &f->err), 0);
    assert_string_equal(shown_name(f, who.key_id), "ada@example.org");
    assert_string_equal(shown_name(f, "jwt_00000000000000000000000000000000"),
                        "");
}

static void subjects_in_memory_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct principal who = {.tenant = "acme"};

    for (unsigned i = 0; i <= AUTH_SUBJECTS_MAX; i++) {
        (void)snprintf(who.key_id, sizeof(who.key_id), "jwt_%032x", i);
        (void)snprintf(who.name, sizeof(who.name), "s%u", i);
        auth_subject_note(f->auth, &who);
        assert_int_equal(f->auth->subjects.count,
                         MIN(i + 1, AUTH_SUBJECTS_MAX));
    }
    assert_string_equal(shown_name(f, who.key_id), ""); /* no room for it */
    assert_int_equal(auth_subjects_flush(f->auth, &f->err), 0);
    assert_int_equal(f->auth->subjects.count, 0);
    assert_string_equal(shown_name(f, "jwt_00000000000000000000000000000007"),
                        "s7");
    auth_subject_note(f->auth, &who);
    assert_string_equal(shown_name(f, who.key_id), who.name);
    assert_int_equal(auth_subjects_flush(f->auth, &f->err), 0);
    assert_int_equal(f->auth->subjects.count, 1);
}

static void a_token_is_a_credential(void **state)
{
    struct fixture *f = *state;
    char *t cleanup(mem_free) = good_token("RS256", RSA_KEY, "me");
    char *other cleanup(mem_free) = good_token("PS384", RSA_KEY, "you");
    struct principal me, again, you;

    assert_int_equal(check(f, t, "1.2.3.4", &me), 0);
    assert_string_equal(me.tenant, "acme");
    assert_true(ids_valid("jwt", me.key_id));
    assert_string_equal(me.name, "me"); /* no better claim than the subject */
    assert_int_equal(check(f, t, "1.2.3.4", &again), 0); /* remembered */
    assert_memory_equal(&me, &again, sizeof(me));
    assert_int_equal(check(f, other, "1.2.3.4", &you), 0);
    assert_string_not_equal(me.key_id, you.key_id);
}

static void keys_change(void **state)
{
    struct fixture *f = *state;
    char *old cleanup(mem_free) = good_token("RS256", RSA_KEY, "me");
    char *new cleanup(mem_free) = good_token("ES256", P256, "me");

    assert_int_equal(check(f, old, "1.2.3.4", NULL), 0);
    write_key(f, P256);
    /* An unknown key has the file read again at once. */
    assert_int_equal(check(f, new, "1.2.3.4", NULL), 0);
    /* What the old one verified is forgotten with it. */
    assert_int_equal(check(f, old, "1.2.3.4", NULL), -ERR_UNAUTHENTICATED);
}

static void broken_keys_change_nothing(void **state)
{
    struct fixture *f = *state;
    char *old cleanup(mem_free) = good_token("RS256", RSA_KEY, "me");
    char *again cleanup(mem_free) = good_token("RS512", RSA_KEY, "you");
    char *new cleanup(mem_free) = good_token("ES256", P256, "me");

    assert_int_equal(check(f, old, "1.2.3.4", NULL), 0);
    write_keys(f, "{\"keys\":[");
    assert_int_equal(check(f, new, "1.2.3.4", NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(check(f, old, "1.2.3.4", NULL), 0);
    assert_int_equal(check(f, again, "1.2.3.4", NULL), 0);
    write_keys(f, "");
    assert_int_equal(check(f, new, "1.2.3.4", NULL), -ERR_UNAUTHENTICATED);
    assert_int_equal(check(f, again, "1.2.3.4", NULL), 0);
    write_key(f, P256);
    assert_int_equal(check(f, new, "1.2.3.4", NULL), 0);
}

/* Unknown keys cannot have the issuer asked without end. */
static void R8_asking_for_keys_is_bounded(void **state)
{
    struct fixture *f = *state;
    char *t cleanup(mem_free) = good_token("ES256", P256, "me");
    uint64_t before, asked = 0;

    (void)check(f, t, "1.2.3.4", NULL);
    for (unsigned i = 0; i < 4 * JWT_ASK_MAX; i++) {
        before = f->auth->jwt->asks_left;
        (void)check(f, t, "1.2.3.4", NULL);
        asked += before - f->auth->jwt->asks_left;
    }
    assert_true(asked <= JWT_ASK_MAX);
    assert_int_equal(f->auth->jwt->asks_left, 0);
}

static void I5_failures_are_slowed_and_right_tokens_are_not(void **state)
{
    struct fixture *f = *state;
    char *good cleanup(mem_free) = good_token("RS256", RSA_KEY, "me");
    char *bad cleanup(mem_free) = good_token("RS256", RSA_KEY, "me");
    char *sent cleanup(mem_free) = NULL;
    struct principal p;

    bad[strlen(bad) - 9] ^= 1;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(check(f, bad, "1.2.3.4", &p), -ERR_UNAUTHENTICATED);
        assert_string_equal(f->err.message, "the key is not valid");
        assert_int_equal(p.slowed, i >= 10);
    }
    assert_int_equal(check(f, good, "1.2.3.4", &p), 0);
    assert_false(p.slowed);
    /* Tokens begin alike, so others are not slowed by it. */
    assert_int_equal(check(f, bad, "5.6.7.8", &p), -ERR_UNAUTHENTICATED);
    assert_false(p.slowed);
    /* And what looks like a key of ours is none. */
    sent = xasprintf("gbx_%s", good);
    assert_int_equal(check(f, sent, "5.6.7.9", NULL), -ERR_UNAUTHENTICATED);
}

static void without_an_issuer_there_are_no_tokens(void **state)
{
    struct fixture *f = *state;
    char *t cleanup(mem_free) = good_token("RS256", RSA_KEY, "me");

    auth_close(f->auth);
    assert_int_equal(auth_open(f->store, f->dir, 10, &f->auth, &f->err), 0);
    assert_int_equal(auth_jwt_open(f->auth,
                                   &(struct auth_jwt_settings){.issuer = ""},
                                   &f->err),
                     0);
    assert_null(f->auth->jwt);
    assert_int_equal(check(f, t, "1.2.3.4", NULL), -ERR_UNAUTHENTICATED);
}

#define WITH_FILE(name)                                                       \
    cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_is_read_strictly),
        cmocka_unit_test(H3_malformed_tokens_are_refused),
        cmocka_unit_test(I2_only_the_signer_can_sign),
        cmocka_unit_test(I2_another_key_does_not_do),
        cmocka_unit_test(H3_tokens_are_bounded),
        cmocka_unit_test(only_keys_that_verify_are_taken),
        cmocka_unit_test(a_key_is_for_the_algorithm_it_names),
        cmocka_unit_test(bad_key_sets_are_refused),
        cmocka_unit_test(H3_key_sets_are_bounded),
        cmocka_unit_test(claims_are_checked),
        cmocka_unit_test(times_are_checked_to_the_second),
        cmocka_unit_test(principal_is_what_the_claims_say),
        cmocka_unit_test(tenant_names_are_bounded),
        cmocka_unit_test(claims_bind_to_pools_and_workspaces),
        cmocka_unit_test(scopes_are_no_broader_than_configured),
        cmocka_unit_test(bad_rules_are_refused),
        cmocka_unit_test(cache_forgets_in_time),
        cmocka_unit_test(R8_cache_is_bounded_and_keeps_the_used),
        WITH_FILE(a_token_is_a_credential),
        WITH_FILE(subjects_keep_the_name_of_their_newest_token),
        WITH_FILE(subjects_in_memory_are_bounded),
        WITH_FILE(keys_change),
        WITH_FILE(broken_keys_change_nothing),
        WITH_FILE(R8_asking_for_keys_is_bounded),
        WITH_FILE(I5_failures_are_slowed_and_right_tokens_are_not),
        WITH_FILE(without_an_issuer_there_are_no_tokens),
    };

    return cmocka_run_group_tests_name("jwt", tests, make_pairs, free_pairs);
}
