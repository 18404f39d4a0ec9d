/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of tokens, by libcrypto; see jwt_int.h. Runs in the daemon on
 * the threads that serve requests; holds no lock and no state. libjwt of the
 * distribution would do less: it has no PS algorithms and no key sets, and it
 * takes the algorithm from the token, so that everything but one call of
 * EVP_DigestVerify would have to be written around it.
 */
#include <openssl/ecdsa.h>
#include <openssl/rsa.h>
#include <string.h>

#include "auth/jwt_int.h"
#include "base/mem.h"

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
