/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of the issuer, from a JWK set; see jwt_int.h. Runs in the daemon:
 * parsed by the thread that fetches, looked up by those that serve requests.
 * Only public keys that verify are taken, each of a size that is neither weak
 * nor a burden; of others in the set, such as those to encrypt with, nothing
 * is wanted.
 */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <string.h>

#include "auth/jwt_int.h"
#include "base/mem.h"
#include "json/json.h"

static const struct {
    const char *name;
    const char *group; /* libcrypto's name */
    size_t bytes;      /* of a coordinate */
} curves[] = {
    {"P-256", "prime256v1", 32},
    {"P-384", "secp384r1", 48},
    {"P-521", "secp521r1", 66},
};

/* For cleanup(). */
static void free_params(OSSL_PARAM **p)
{
    OSSL_PARAM_free(*p);
}

static void free_builder(OSSL_PARAM_BLD **b)
{
    OSSL_PARAM_BLD_free(*b);
}

static void free_number(BIGNUM **n)
{
    BN_free(*n);
}

static void free_key_ctx(EVP_PKEY_CTX **c)
{
    EVP_PKEY_CTX_free(*c);
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* A member in base64url; NULL when it is not there or malformed. */
static unsigned char *bytes_of(const json_t *jwk, const char *name,
                               size_t *ret_len)
{
    const char *text = text_of(jwk, name);

    *ret_len = 0;
    return text ? auth_jwt_base64(text, strlen(text), ret_len) : NULL;
}

static BIGNUM *number_of(const json_t *jwk, const char *name)
{
    size_t len;
    unsigned char *bytes cleanup(mem_free) = bytes_of(jwk, name, &len);

    return bytes && len > 0 && len <= JWT_RSA_MAX_BITS / 8
               ? BN_bin2bn(bytes, (int)len, NULL)
               : NULL;
}

/* The public key of these parameters, if it is one; NULL otherwise. */
static EVP_PKEY *make_key(const char *type, OSSL_PARAM_BLD *builder)
{
    OSSL_PARAM *params cleanup(free_params) = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *ctx cleanup(free_key_ctx) =
        EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY_CTX *check cleanup(free_key_ctx) = NULL;
    EVP_PKEY *key = NULL;

    if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) <= 0 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) <= 0)
        return NULL;
    check = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    if (!check || EVP_PKEY_public_check(check) <= 0) {
        EVP_PKEY_free(key);
        return NULL;
    }
    return key;
}

static EVP_PKEY *rsa_key(const json_t *jwk)
{
    OSSL_PARAM_BLD *builder cleanup(free_builder) = OSSL_PARAM_BLD_new();
    BIGNUM *n cleanup(free_number) = number_of(jwk, "n");
    BIGNUM *e cleanup(free_number) = number_of(jwk, "e");

    if (!builder || !n || !e || BN_num_bits(n) < JWT_RSA_MIN_BITS ||
        BN_num_bits(n) > JWT_RSA_MAX_BITS || BN_num_bits(e) > 64 ||
        !BN_is_odd(e) || BN_is_one(e) ||
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) != 1 ||
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) != 1)
        return NULL;
    return make_key("RSA", builder);
}

static EVP_PKEY *ec_key(const json_t *jwk, const char **ret_curve)
{
    OSSL_PARAM_BLD *builder cleanup(free_builder) = OSSL_PARAM_BLD_new();
    unsigned char point[1 + 2 * 66] = {POINT_CONVERSION_UNCOMPRESSED};
    const char *name = text_of(jwk, "crv");
    size_t x_len, y_len, i = 0;
    unsigned char *x cleanup(mem_free) = bytes_of(jwk, "x", &x_len);
    unsigned char *y cleanup(mem_free) = bytes_of(jwk, "y", &y_len);

    while (i < ARRAY_SIZE(curves) && name && strcmp(curves[i].name, name) != 0)
        i++;
    if (!builder || !name || !x || !y || i == ARRAY_SIZE(curves) ||
        x_len != curves[i].bytes || y_len != curves[i].bytes)
        return NULL;
    memcpy(point + 1, x, x_len);
    memcpy(point + 1 + x_len, y, y_len);
    if (OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME,
                                        curves[i].group, 0) != 1 ||
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY,
                                         point, 1 + x_len + y_len) != 1)
        return NULL;
    *ret_curve = curves[i].name;
    return make_key("EC", builder);
}

static bool lists_verify(const json_t *ops)
{
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const char *op = json_string_value(json_array_get(ops, i));

        if (op && strcmp(op, "verify") == 0)
            return true;
    }
    return false;
}

static bool is_for_signatures(const json_t *jwk)
{
    const json_t *use = json_object_get(jwk, "use");
    const json_t *ops = json_object_get(jwk, "key_ops");

    if (use &&
        (!json_is_string(use) || strcmp(json_string_value(use), "sig") != 0))
        return false;
    return !ops || lists_verify(ops);
}

static bool fits(const struct jwt_key *k, const struct jwt_alg *alg)
{
    return k->family == alg->family && (!k->alg || k->alg == alg) &&
           (k->family == JWT_RSA || strcmp(k->curve, alg->curve) == 0);
}

/* False: not one of ours. */
static bool take_key(const json_t *jwk, struct jwt_key *ret)
{
    const char *type = text_of(jwk, "kty"), *kid = text_of(jwk, "kid");
    const char *alg = text_of(jwk, "alg");
    struct jwt_key k = {0};

    if (!type || !is_for_signatures(jwk) || json_object_get(jwk, "d"))
        return false;
    if (alg && !(k.alg = auth_jwt_alg(alg)))
        return false;
    if (strcmp(type, "RSA") == 0) {
        k.family = JWT_RSA;
        k.key = rsa_key(jwk);
    } else if (strcmp(type, "EC") == 0) {
        k.family = JWT_EC;
        k.key = ec_key(jwk, &k.curve);
    }
    if (!k.key)
        return false;
    if (k.alg && !fits(&k, k.alg)) { /* it contradicts itself */
        EVP_PKEY_free(k.key);
        return false;
    }
    k.kid = kid ? xstrdup(kid) : NULL;
    *ret = k;
    return true;
}

int auth_jwt_keys_parse(const char *text, size_t len, struct jwt_keys **ret,
                        struct error *err)
{
    json_t *set cleanup(json_unref) = NULL;
    const json_t *list;
    struct jwt_keys *k;

    if (len > JWT_SET_MAX)
        return error_set(err, ERR_INVALID,
                         "the key set is larger than %zu bytes", JWT_SET_MAX);
    if (json_parse(text, len, &set, err) < 0)
        return error_wrap(err, "the key set");
    list = json_object_get(set, "keys");
    if (!json_is_array(list))
        return error_set(err, ERR_INVALID, "the key set has no list 'keys'");
    k = xcalloc(1, sizeof(*k));
    for (size_t i = 0; i < json_array_size(list) && k->count < JWT_KEYS_MAX;
         i++)
        k->count += take_key(json_array_get(list, i), &k->key[k->count]);
    if (k->count == 0) {
        auth_jwt_keys_free(k);
        return error_set(err, ERR_INVALID,
                         "the key set has no key that verifies RS, PS or ES "
                         "signatures");
    }
    *ret = k;
    return 0;
}

void auth_jwt_keys_free(struct jwt_keys *k)
{
    for (size_t i = 0; k && i < k->count; i++) {
        free(k->key[i].kid);
        EVP_PKEY_free(k->key[i].key);
    }
    free(k);
}

EVP_PKEY *auth_jwt_keys_find(const struct jwt_keys *k, const char *kid,
                             const struct jwt_alg *alg)
{
    EVP_PKEY *found = NULL;

    for (size_t i = 0; k && i < k->count; i++) {
        const struct jwt_key *key = &k->key[i];

        if (!fits(key, alg) ||
            (kid && (!key->kid || strcmp(key->kid, kid) != 0)))
            continue;
        if (found)
            return NULL; /* it could be either */
        found = key->key;
    }
    return found;
}
