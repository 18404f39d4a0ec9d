/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-time links: a secret that stands for a principal for some seconds and
 * can be exchanged once, see auth.h. Runs in the daemon on a thread that
 * serves a request. Links are kept in memory only, as keyed hashes, in a
 * table of fixed size: a restart forgets them, and nobody can fill it for
 * others for longer than a link lives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

/* The lock is held. Frees what has ended and counts the rest of this one. */
static size_t count_links(struct auth *a, const char *key_id, uint64_t now,
                          struct auth_link ***ret_free,
                          struct auth_link ***ret_oldest)
{
    size_t own = 0;

    *ret_free = *ret_oldest = NULL;
    for (size_t i = 0; i < AUTH_LINKS_MAX; i++) {
        struct auth_link **slot = &a->links[i];

        if (*slot && (*slot)->ends_mono_ms <= now)
            free(take_ptr(*slot));
        if (!*slot) {
            *ret_free = slot;
            continue;
        }
        if (strcmp((*slot)->who.key_id, key_id) != 0)
            continue;
        own++;
        if (!*ret_oldest ||
            (*slot)->ends_mono_ms < (**ret_oldest)->ends_mono_ms)
            *ret_oldest = slot;
    }
    return own;
}

int auth_link_make(struct auth *a, const struct principal *who, uint32_t ttl_s,
                   char ret_secret[AUTH_LINK_SIZE], struct error *err)
{
    struct auth_link *link = xcalloc(1, sizeof(*link));
    struct auth_link **unused, **oldest;
    unsigned char raw[HASH_SIZE];
    uint64_t now = clock_mono_ms();

    ids_random(raw, sizeof(raw));
    memcpy(ret_secret, AUTH_LINK_PREFIX, strlen(AUTH_LINK_PREFIX));
    (void)ids_hex(raw, sizeof(raw), ret_secret + strlen(AUTH_LINK_PREFIX));
    explicit_bzero(raw, sizeof(raw));
    hash_hmac(a->secret, sizeof(a->secret), ret_secret, AUTH_SECRET_LEN,
              link->hash);
    link->who = *who;
    link->ends_mono_ms = now + 1000 * (uint64_t)ttl_s;

    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);

    if (count_links(a, who->key_id, now, &unused, &oldest) >=
        AUTH_LINKS_OF_ONE) {
        free(*oldest);
        unused = oldest;
    }
    if (!unused) {
        free(link);
        (void)error_set(err, ERR_LIMIT, "there are %u open links already",
                        AUTH_LINKS_MAX);
        return error_retry(err, (int)ttl_s);
    }
    *unused = link;
    return 0;
}

/* The same work for every text of the right length. The slot is emptied: a
 * link is good once. */
static bool take_link(struct auth *a, const char *secret,
                      struct principal *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    unsigned char hash[HASH_SIZE];
    uint64_t now = clock_mono_ms();
    bool found = false;

    hash_hmac(a->secret, sizeof(a->secret), secret, AUTH_SECRET_LEN, hash);
    for (size_t i = 0; i < AUTH_LINKS_MAX; i++) {
        struct auth_link *link = a->links[i];

        if (!link || !hash_equal(link->hash, hash, HASH_SIZE))
            continue;
        found = link->ends_mono_ms > now;
        if (found)
            *ret = link->who;
        free(take_ptr(a->links[i]));
    }
    return found;
}

int auth_link_take(struct auth *a, const char *secret, const char *source,
                   struct principal *ret, struct error *err)
{
    ret->slowed = false;
    if (strnlen(secret, AUTH_SECRET_LEN + 1) == AUTH_SECRET_LEN &&
        take_link(a, secret, ret))
        return 0;
    auth_refuse_guess(a, source, &ret->slowed);
    (void)error_set(err, ERR_UNAUTHENTICATED,
                    "the link is not valid: it was used, or it is too old");
    return error_hint(err, "make another one with `glovebox console`");
}

void auth_links_clear(struct auth *a)
{
    for (size_t i = 0; i < AUTH_LINKS_MAX; i++)
        free(take_ptr(a->links[i]));
}
