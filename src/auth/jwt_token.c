/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and verifies one token; see jwt_int.h. Runs in the daemon on the
 * threads that serve requests, on bytes from anybody: bounded, strict, without
 * locks or state. Nothing a token says counts before its signature is
 * verified.
 *
 * libcrypto verifies signatures. libjwt of the distribution would do less: it
 * has no PS algorithms and no key sets, and it takes the algorithm from the
 * token.
 */
#include <openssl/ecdsa.h>
#include <openssl/rsa.h>
#include <string.h>
#include <strings.h>

#include "auth/jwt_int.h"
#include "base/mem.h"
#include "json/json.h"

/* ---- signatures --------------------------------------------------------- */

static const struct jwt_alg algs[] = {
    {"RS256", "SHA256", JWT_RSA, false, NULL, 0},
    {"RS384", "SHA384", JWT_RSA, false, NULL, 0},
    {"RS512", "SHA512", JWT_RSA, false, NULL, 0},
    {"PS256", "SHA256", JWT_RSA, true, NULL, 0},
    {"PS384", "SHA384", JWT_RSA, true, NULL, 0},
    {"PS512", "SHA512", JWT_RSA, true, NULL, 0},
    {"ES256", "SHA256", JWT_EC, false, "P-256", 32},
    {"ES384", "SHA384", JWT_EC, false, "P-384", 48},
    {"ES512", "SHA512", JWT_EC, false, "P-521", 66},
};

const struct jwt_alg *auth_jwt_alg(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(algs); i++)
        if (strcmp(algs[i].name, name) == 0)
            return &algs[i];
    return NULL;
}

static void free_ctx(EVP_MD_CTX **ctx)
{
    EVP_MD_CTX_free(*ctx);
}

static void free_signature(ECDSA_SIG **sig)
{
    ECDSA_SIG_free(*sig);
}

/* Two numbers side by side to what libcrypto wants; NULL on any other length.
 * Owned by caller, who gives it back to libcrypto. */
static unsigned char *to_der(const struct jwt_alg *alg,
                             const unsigned char *raw, size_t len,
                             size_t *ret_len)
{
    ECDSA_SIG *sig cleanup(free_signature) = NULL;
    BIGNUM *first, *second;
    unsigned char *der = NULL;
    int n;

    if (len != 2 * alg->half)
        return NULL;
    sig = ECDSA_SIG_new();
    first = BN_bin2bn(raw, (int)alg->half, NULL);
    second = BN_bin2bn(raw + alg->half, (int)alg->half, NULL);
    if (!sig || !first || !second || ECDSA_SIG_set0(sig, first, second) != 1) {
        BN_free(first);
        BN_free(second);
        return NULL;
    }
    n = i2d_ECDSA_SIG(sig, &der);
    if (n <= 0)
        return NULL;
    *ret_len = (size_t)n;
    return der;
}

static bool set_padding(const struct jwt_alg *alg, EVP_PKEY_CTX *key)
{
    if (alg->family != JWT_RSA)
        return true;
    if (!alg->pss)
        return EVP_PKEY_CTX_set_rsa_padding(key, RSA_PKCS1_PADDING) > 0;
    return EVP_PKEY_CTX_set_rsa_padding(key, RSA_PKCS1_PSS_PADDING) > 0 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(key, RSA_PSS_SALTLEN_DIGEST) > 0;
}

bool auth_jwt_verify(const struct jwt_alg *alg, EVP_PKEY *key,
                     const void *text, size_t text_len,
                     const unsigned char *signature, size_t signature_len)
{
    EVP_MD_CTX *ctx cleanup(free_ctx) = EVP_MD_CTX_new();
    EVP_PKEY_CTX *how = NULL; /* ctx's */
    unsigned char *der = NULL;
    bool good;

    if (!ctx)
        return false;
    if (alg->family == JWT_EC) {
        der = to_der(alg, signature, signature_len, &signature_len);
        if (!der)
            return false;
    }
    good = EVP_DigestVerifyInit_ex(ctx, &how, alg->digest, NULL, NULL, key,
                                   NULL) == 1 &&
           set_padding(alg, how) &&
           EVP_DigestVerify(ctx, der ? der : signature, signature_len, text,
                            text_len) == 1;
    OPENSSL_free(der);
    return good;
}

/* ---- the compact form: three texts in base64url ------------------------- */

static int refuse_token(struct error *err, const char *why)
{
    return error_set(err, ERR_UNAUTHENTICATED, "%s", why);
}

/* ---- base64url ---------------------------------------------------------- */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

unsigned char *auth_jwt_base64(const char *text, size_t len, size_t *ret_len)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    uint32_t bits = 0;
    unsigned have = 0;
    size_t used = 0;

    if (len % 4 == 1)
        return NULL;
    bytes = xmalloc(len / 4 * 3 + 3);
    for (size_t i = 0; i < len; i++) {
        int d = base64_digit(text[i]);

        if (d < 0)
            return NULL;
        bits = bits << 6 | (uint32_t)d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            bytes[used++] = (unsigned char)(bits >> have);
            bits &= (1u << have) - 1;
        }
    }
    if (bits) /* a second spelling of the same bytes */
        return NULL;
    bytes[used] = '\0'; /* for who looks at it as text */
    *ret_len = used;
    return take_ptr(bytes);
}

/* ---- parts -------------------------------------------------------------- */

static int read_object(const char *text, size_t len, const char *what,
                       json_t **ret, struct error *err)
{
    json_t *value cleanup(json_unref) = NULL;
    size_t bytes_len = 0;
    unsigned char *bytes cleanup(mem_free) =
        auth_jwt_base64(text, len, &bytes_len);
    struct error ignored;

    if (!bytes ||
        json_parse((const char *)bytes, bytes_len, &value, &ignored) < 0 ||
        !json_is_object(value))
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the token's %s is malformed", what);
    *ret = take_ptr(value);
    return 0;
}

/* "JWT", or what says that it is an access token (RFC 9068). */
static bool type_fits(const json_t *header)
{
    const json_t *type = json_object_get(header, "typ");
    const char *text = json_string_value(type);

    if (!type)
        return true;
    if (text && strncasecmp(text, "application/", 12) == 0)
        text += 12;
    return text &&
           (strcasecmp(text, "JWT") == 0 || strcasecmp(text, "at+jwt") == 0);
}

static int read_header(struct jwt_token *t, struct error *err)
{
    const json_t *kid = json_object_get(t->header, "kid");
    const char *alg = json_string_value(json_object_get(t->header, "alg"));

    t->alg = alg ? auth_jwt_alg(alg) : NULL;
    if (!t->alg)
        return refuse_token(err, "the token's algorithm is not one of ours");
    if (json_object_get(t->header, "crit"))
        return refuse_token(err,
                            "the token needs an extension we do not know");
    if (!type_fits(t->header))
        return refuse_token(err, "the token's type is another one");
    if (kid && !json_is_string(kid))
        return refuse_token(err, "the token's kid is not a text");
    t->kid = json_string_value(kid);
    return 0;
}

int auth_jwt_token_read(const char *text, struct jwt_token *ret,
                        struct error *err)
{
    struct jwt_token t cleanup(auth_jwt_token_done) = {.text = text};
    const char *first, *second;
    size_t len = strnlen(text, JWT_TOKEN_MAX + 1);

    if (len > JWT_TOKEN_MAX)
        return refuse_token(err, "the token is too long");
    first = strchr(text, '.');
    second = first ? strchr(first + 1, '.') : NULL;
    if (!second || strchr(second + 1, '.'))
        return refuse_token(err, "the token has not three parts");
    t.text_len = (size_t)(second - text);
    t.signature =
        auth_jwt_base64(second + 1, strlen(second + 1), &t.signature_len);
    if (!t.signature || t.signature_len == 0)
        return refuse_token(err, "the token's signature is malformed");
    if (read_object(text, (size_t)(first - text), "header", &t.header, err) <
            0 ||
        read_header(&t, err) < 0 ||
        read_object(first + 1, (size_t)(second - first) - 1, "content",
                    &t.claims, err) < 0)
        return -(int)err->code;
    *ret = t;
    t = (struct jwt_token){0};
    return 0;
}

void auth_jwt_token_done(struct jwt_token *t)
{
    free(t->signature);
    json_unref(&t->header);
    json_unref(&t->claims);
    t->signature = NULL;
}
