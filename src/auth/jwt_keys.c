/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The issuer's keys: parsed from a JWK set, fetched and kept fresh; see
 * jwt_int.h. Runs in the daemon: the thread jwt-keys fetches and parses, the
 * threads that serve requests look keys up.
 *
 * Only public keys for verifying are taken, of a size that is neither weak nor
 * slow. They come from an address, asked at the start and then every hour, or
 * from a file, checked every few seconds; and at once when a token names an
 * unknown key, with a limit on how often tokens can cause that. The last set
 * stays until a better one is loaded: users can log in while the issuer is
 * down.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <stdio.h>
#include <string.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "fetch/fetch.h"
#include "json/json.h"

/* ---- a JWK set ---------------------------------------------------------- */

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

static bool is_for_signatures(const json_t *jwk)
{
    const json_t *use = json_object_get(jwk, "use");
    const json_t *ops = json_object_get(jwk, "key_ops");

    if (use &&
        (!json_is_string(use) || strcmp(json_string_value(use), "sig") != 0))
        return false;
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const char *op = json_string_value(json_array_get(ops, i));

        if (op && strcmp(op, "verify") == 0)
            return true;
    }
    return !ops;
}

static bool key_fits_alg(const struct jwt_key *k, const struct jwt_alg *alg)
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
    if (k.alg && !key_fits_alg(&k, k.alg)) { /* it contradicts itself */
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

        if (!key_fits_alg(key, alg) ||
            (kid && (!key->kid || strcmp(key->kid, kid) != 0)))
            continue;
        if (found)
            return NULL; /* it could be either */
        found = key->key;
    }
    return found;
}

/* ---- fetching ----------------------------------------------------------- */

/* ---- one attempt -------------------------------------------------------- */

static int fetch_url(struct auth_jwt *j, struct buf *out, struct error *err)
{
    const struct fetch_request rq = {.url = j->url,
                                     .answer_max = JWT_SET_MAX,
                                     .total_ms = JWT_FETCH_MS,
                                     .cancel = &j->stopping};
    long status = 0;
    int r = fetch(&rq, out, &status, err);

    if (r == 0 && status != 200)
        r = error_set(err, ERR_UNAVAILABLE, "the answer has status %ld",
                      status);
    return r;
}

static int read_file(struct auth_jwt *j, struct buf *out, struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;
    int r = fd_read_file(AT_FDCWD, j->file, JWT_SET_MAX, &text, &len);

    if (r < 0)
        return error_errno(err, ERR_UNAVAILABLE, -r, "cannot read %s",
                           j->file);
    buf_add(out, text, len);
    return 0;
}

/* 1: there are new keys, 0: the same as before. */
static int load_keys(struct auth_jwt *j, struct error *err)
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char hash[HASH_SIZE];
    struct jwt_keys *keys = NULL, *old;
    int r = j->url ? fetch_url(j, &text, err) : read_file(j, &text, err);

    if (r < 0)
        return r;
    hash_sha256(text.data, text.len, hash);
    if (j->keys && memcmp(hash, j->known, HASH_SIZE) == 0)
        return 0; /* only this thread writes these two */
    r = auth_jwt_keys_parse(text.data ? text.data : "", text.len, &keys, err);
    if (r < 0)
        return r;
    mutex_lock(&j->lock);
    old = j->keys;
    j->keys = keys;
    j->generation++;
    memcpy(j->known, hash, HASH_SIZE);
    mutex_unlock(&j->lock);
    auth_jwt_keys_free(old); /* who verifies with one has counted it */
    return 1;
}

/* ---- the thread --------------------------------------------------------- */

struct state {
    unsigned failures; /* in a row */
    char told[sizeof(((struct error *)0)->message)];
};

static void log_attempt(const struct auth_jwt *j, struct state *s, int result,
                        const struct error *err)
{
    const char *from = j->url ? j->url : j->file;
    char count[16];

    if (result >= 0) {
        (void)snprintf(count, sizeof(count), "%zu", j->keys->count);
        if (result > 0 || s->failures)
            log_event(LOG_INFO, "jwt_keys_loaded", "from", from, "keys", count,
                      NULL);
        s->told[0] = '\0';
    } else if (strcmp(s->told, err->message) != 0) { /* once for each cause */
        log_event(LOG_WARN, "jwt_keys_not_loaded", "from", from, "error",
                  err->message, "kept", j->keys ? "earlier ones" : "none",
                  NULL);
        (void)snprintf(s->told, sizeof(s->told), "%s", err->message);
    }
}

/* Seconds until the next attempt. */
static unsigned pause_after(const struct auth_jwt *j, const struct state *s)
{
    if (j->file)
        return JWT_FILE_EVERY_S;
    if (s->failures == 0)
        return JWT_FETCH_EVERY_S;
    return MIN(JWT_RETRY_FIRST_S << MIN(s->failures - 1, 10U),
               JWT_RETRY_MAX_S);
}

static void jwt_keys_main(void *arg)
{
    struct auth_jwt *j = arg;
    struct state s = {0};

    mutex_lock(&j->lock);
    while (!j->stopping) {
        struct error err = {0};
        int r;

        j->wanted = false;
        j->trying = true;
        mutex_unlock(&j->lock);
        r = load_keys(j, &err);
        log_attempt(j, &s, r, &err);
        s.failures = r < 0 ? s.failures + 1 : 0;
        mutex_lock(&j->lock);
        j->trying = false;
        j->attempts++;
        cond_broadcast(&j->tried);

        unsigned seconds = pause_after(j, &s);
        uint64_t deadline = clock_mono_ms() + 1000u * (uint64_t)seconds;

        while (!j->stopping && !j->wanted &&
               cond_wait_until(&j->wake, &j->lock, deadline))
            ;
    }
    cond_broadcast(&j->tried);
    mutex_unlock(&j->lock);
}

int auth_jwt_fetch_start(struct auth_jwt *j, struct error *err)
{
    j->asks_left = JWT_ASK_MAX;
    j->asks_at_ms = clock_mono_ms();
    if (j->url && fetch_start(err) < 0)
        return -(int)err->code;
    j->trying = true; /* the first attempt; callers wait for it */
    return thread_start(&j->thread, "jwt-keys", jwt_keys_main, j, err);
}

void auth_jwt_fetch_stop(struct auth_jwt *j)
{
    if (!j->thread.started)
        return;
    mutex_lock(&j->lock);
    j->stopping = true;
    cond_signal(&j->wake);
    mutex_unlock(&j->lock);
    thread_join(&j->thread);
    if (j->url)
        fetch_stop();
}

/* ---- for tokens whose key is not known ---------------------------------- */

/* May a token cause one more fetch? The lock is held. */
static bool take_fetch_credit(struct auth_jwt *j)
{
    uint64_t now = clock_mono_ms();
    uint64_t gained = (now - j->asks_at_ms) / (JWT_ASK_REGAIN_S * 1000u);

    if (gained > 0) {
        j->asks_left =
            (unsigned)MIN(j->asks_left + gained, (uint64_t)JWT_ASK_MAX);
        j->asks_at_ms = now;
    }
    if (j->asks_left == 0)
        return false;
    j->asks_left--;
    return true;
}

bool auth_jwt_fetch_again(struct auth_jwt *j)
{
    uint64_t deadline = clock_mono_ms() + JWT_FETCH_MS + 1000u;
    uint64_t seen = j->attempts;

    if (j->stopping || j->waiters == JWT_WAITERS_MAX)
        return false;
    if (!j->trying && !j->wanted) {
        if (!take_fetch_credit(j))
            return false;
        j->wanted = true;
        cond_signal(&j->wake);
    }
    j->waiters++;
    while (j->attempts == seen && !j->stopping &&
           cond_wait_until(&j->tried, &j->lock, deadline))
        ;
    j->waiters--;
    return j->attempts != seen;
}
