/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of a configured issuer: the spine, and the cache of verified tokens;
 * see jwt_int.h for the other parts. Runs in the daemon: called on every
 * thread that serves requests, before anything else of the request is looked
 * at (I1). Nothing of a token is logged or put into an error (I7).
 */
#include <string.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

/* ---- verified tokens ---------------------------------------------------- */

static struct jwt_cached *set_of(struct jwt_cache *c,
                                 const unsigned char *hash)
{
    return c->slot[((size_t)hash[0] << 8 | hash[1]) % JWT_CACHE_SETS];
}

static bool is_good(const struct jwt_cached *e, uint64_t keys, int64_t now_ms)
{
    return e->until_ms > now_ms && e->keys == keys;
}

bool auth_jwt_cache_get(struct jwt_cache *c,
                        const unsigned char hash[HASH_SIZE], uint64_t keys,
                        int64_t now_ms, struct principal *ret)
{
    struct jwt_cached *set = set_of(c, hash);

    for (size_t i = 0; i < JWT_CACHE_WAYS; i++)
        if (is_good(&set[i], keys, now_ms) &&
            hash_equal(set[i].hash, hash, HASH_SIZE)) {
            set[i].used = ++c->uses;
            *ret = set[i].who;
            return true;
        }
    return false;
}

void auth_jwt_cache_put(struct jwt_cache *c,
                        const unsigned char hash[HASH_SIZE], uint64_t keys,
                        int64_t now_ms, int64_t until_ms,
                        const struct principal *who)
{
    struct jwt_cached *set = set_of(c, hash), *place = &set[0];

    for (size_t i = 0; i < JWT_CACHE_WAYS; i++) {
        if (!is_good(&set[i], keys, now_ms)) {
            place = &set[i];
            break;
        }
        if (set[i].used < place->used)
            place = &set[i];
    }
    *place = (struct jwt_cached){
        .who = *who, .until_ms = until_ms, .keys = keys, .used = ++c->uses};
    memcpy(place->hash, hash, HASH_SIZE);
}

/* ---- the spine ---------------------------------------------------------- */

static bool find_cached(struct auth_jwt *j, const unsigned char *hash,
                        struct principal *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&j->lock);

    return auth_jwt_cache_get(j->cache, hash, j->generation, clock_real_ms(),
                              ret);
}

/* The token's key, counted; an unknown one may be newer than what we have. */
static EVP_PKEY *find_key(struct auth_jwt *j, const struct jwt_token *t,
                          uint64_t *ret_generation)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&j->lock);
    EVP_PKEY *key = auth_jwt_keys_find(j->keys, t->kid, t->alg);
    /* An attempt under way may have begun before there was such a key. */
    unsigned tries = j->trying ? 2 : 1;

    while (!key && tries-- > 0 && auth_jwt_fetch_again(j))
        key = auth_jwt_keys_find(j->keys, t->kid, t->alg);
    if (key && EVP_PKEY_up_ref(key) != 1)
        return NULL;
    *ret_generation = j->generation;
    return key;
}

/* Reads a token and checks its signature; ret_generation: of the keys. */
static int read_signed(struct auth_jwt *j, const char *token,
                       struct jwt_token *ret, uint64_t *ret_generation,
                       struct error *err)
{
    int r = auth_jwt_token_read(token, ret, err);
    EVP_PKEY *key;
    bool right;

    if (r < 0)
        return r;
    key = find_key(j, ret, ret_generation);
    if (!key)
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the token's key is not known");
    right = auth_jwt_verify(ret->alg, key, ret->text, ret->text_len,
                            ret->signature, ret->signature_len);
    EVP_PKEY_free(key);
    return right ? 0
                 : error_set(err, ERR_UNAUTHENTICATED,
                             "the token's signature is wrong");
}

int auth_jwt_check(struct auth_jwt *j, const char *token,
                   struct principal *ret, struct error *err)
{
    struct jwt_token t cleanup(auth_jwt_token_done) = {0};
    unsigned char hash[HASH_SIZE];
    int64_t now = clock_real_ms(), until;
    uint64_t generation = 0;
    int r;

    hash_sha256(token, strnlen(token, JWT_TOKEN_MAX + 1), hash);
    if (find_cached(j, hash, ret))
        return 0;
    r = read_signed(j, token, &t, &generation, err);
    if (r == 0)
        r = auth_jwt_claims(&j->rules, t.claims, now, ret, &until, err);
    if (r == 0) {
        struct mutex *held cleanup(mutex_release) = mutex_hold(&j->lock);

        auth_jwt_cache_put(j->cache, hash, generation, now, until, ret);
    }
    return r;
}

/* Is the claim this text? In constant time for texts of that length. */
static bool claim_is(const json_t *claims, const char *name, const char *text)
{
    const char *value = json_string_value(json_object_get(claims, name));

    return value && strlen(value) == strlen(text) &&
           hash_equal(value, text, strlen(text));
}

int auth_jwt_check_id(struct auth_jwt *j, const char *token, char *client,
                      const char *nonce, struct principal *ret,
                      struct error *err)
{
    struct jwt_token t cleanup(auth_jwt_token_done) = {0};
    struct jwt_rules rules = j->rules; /* borrows all but the audience */
    uint64_t generation;
    int64_t until;
    int r = read_signed(j, token, &t, &generation, err);

    if (r < 0)
        return r;
    if (!claim_is(t.claims, "nonce", nonce))
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the token is of another sign-in");
    if ((json_array_size(json_object_get(t.claims, "aud")) > 1 ||
         json_object_get(t.claims, "azp")) &&
        !claim_is(t.claims, "azp", client))
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the token was issued to another client");
    rules.audiences[0] = client;
    rules.audience_count = 1;
    return auth_jwt_claims(&rules, t.claims, clock_real_ms(), ret, &until,
                           err);
}

/* ---- opening and closing ------------------------------------------------ */

int auth_jwt_open(struct auth *a, const struct auth_jwt_settings *settings,
                  struct error *err)
{
    struct auth_jwt *j;
    int r;

    if (!settings->issuer || !settings->issuer[0])
        return 0;
    j = xcalloc(1, sizeof(*j)); /* these cannot fail on Linux */
    mutex_init(&j->lock);
    cond_init(&j->wake);
    cond_init(&j->tried);
    j->cache = xcalloc(1, sizeof(*j->cache));
    if (settings->jwks_url && settings->jwks_url[0])
        j->url = xstrdup(settings->jwks_url);
    else if (settings->jwks_file && settings->jwks_file[0])
        j->file = xstrdup(settings->jwks_file);
    r = auth_jwt_rules_init(&j->rules, settings, err);
    if (r == 0 && !j->url && !j->file)
        r = error_set(err, ERR_INVALID,
                      "jwt_issuer needs jwt_jwks_url or jwt_jwks_file");
    if (r == 0)
        r = auth_jwt_fetch_start(j, err);
    if (r < 0) {
        auth_jwt_free(j);
        return r;
    }
    a->jwt = j;
    return 0;
}

void auth_jwt_free(struct auth_jwt *j)
{
    if (!j)
        return;
    auth_jwt_fetch_stop(j);
    auth_jwt_rules_done(&j->rules);
    auth_jwt_keys_free(j->keys);
    cond_done(&j->wake);
    cond_done(&j->tried);
    mutex_done(&j->lock);
    free(j->cache);
    free(j->url);
    free(j->file);
    free(j);
}
