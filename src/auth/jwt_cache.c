/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens that were found right, so that the next request with one costs a
 * hash instead of a signature; see jwt_int.h. Runs in the daemon under the
 * lock of struct auth_jwt. A table of fixed size: where a place is taken, the
 * one used longest ago gives way. Tokens themselves are not kept.
 */
#include <string.h>

#include "auth/jwt_int.h"

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
