/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throttles failed authentication: counts recent failures per client address
 * and per key prefix, and says for how long the answers to further failures
 * are delayed. Runs in the daemon, called by auth_check under its lock; does
 * no I/O and never grows. The table has a fixed size: a new entry replaces the
 * one whose last failure is oldest.
 *
 * An entry counts failures in a window of a minute. The one beyond the limit
 * starts a penalty of 15 s, and each penalty is twice as long as the last, up
 * to ten minutes. Failures during a penalty change nothing: it ends on time
 * whatever the other side does. Twenty quiet minutes forget the entry. A
 * client under a penalty still gets its 401, less than a second late: the
 * penalty limits how often one connection can guess, and makes no client that
 * sent a wrong key wait for a minute.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "auth/auth_int.h"
#include "base/ids.h"
#include "base/mem.h"

#define NONE UINT16_MAX
#define NAME_SIZE 16

struct entry {
    unsigned char name[NAME_SIZE]; /* keyed hash: fixed size, not readable */
    uint64_t window_start_ms;
    uint64_t refused_until_ms;
    uint64_t last_ms;
    uint32_t failures; /* in the window */
    uint32_t refusals; /* so far */
    uint16_t bucket_next;
    uint16_t older, newer; /* by last failure */
};

struct auth_throttle {
    uint32_t limit;
    uint16_t used;
    uint16_t oldest, newest;
    unsigned char salt[NAME_SIZE]; /* buckets cannot be aimed at */
    uint16_t buckets[AUTH_THROTTLE_ENTRIES];
    struct entry entries[AUTH_THROTTLE_ENTRIES];
};

_Static_assert(AUTH_THROTTLE_ENTRIES < NONE, "indices are 16 bits");

struct auth_throttle *auth_throttle_new(uint32_t failures_per_min)
{
    struct auth_throttle *s = xcalloc(1, sizeof(*s));

    s->limit = failures_per_min;
    s->oldest = s->newest = NONE;
    memset(s->buckets, 0xff, sizeof(s->buckets));
    ids_random(s->salt, sizeof(s->salt));
    return s;
}

void auth_throttle_free(struct auth_throttle *s)
{
    free(s);
}

size_t auth_throttle_count(const struct auth_throttle *s)
{
    return s->used;
}

static uint16_t *bucket_of(struct auth_throttle *s, const unsigned char *name)
{
    return &s->buckets[((size_t)name[0] << 8 | name[1]) %
                       AUTH_THROTTLE_ENTRIES];
}

static void age_remove(struct auth_throttle *s, uint16_t i)
{
    struct entry *e = &s->entries[i];

    *(e->older == NONE ? &s->oldest : &s->entries[e->older].newer) = e->newer;
    *(e->newer == NONE ? &s->newest : &s->entries[e->newer].older) = e->older;
}

/* A free entry: a new one, or that of the oldest failure. */
static uint16_t entry_take(struct auth_throttle *s)
{
    uint16_t i, *link;

    if (s->used < AUTH_THROTTLE_ENTRIES)
        return s->used++;
    i = s->oldest;
    age_remove(s, i);
    link = bucket_of(s, s->entries[i].name);
    while (*link != i)
        link = &s->entries[*link].bucket_next;
    *link = s->entries[i].bucket_next;
    return i;
}

static struct entry *entry_get(struct auth_throttle *s,
                               const unsigned char *name)
{
    uint16_t *bucket = bucket_of(s, name), i = *bucket;

    while (i != NONE && memcmp(s->entries[i].name, name, NAME_SIZE) != 0)
        i = s->entries[i].bucket_next;
    if (i == NONE) {
        i = entry_take(s);
        memset(&s->entries[i], 0, sizeof(s->entries[i]));
        memcpy(s->entries[i].name, name, NAME_SIZE);
        s->entries[i].bucket_next = *bucket;
        *bucket = i;
    } else {
        age_remove(s, i);
    }

    struct entry *e = &s->entries[i];

    e->older = s->newest;
    e->newer = NONE;
    *(s->newest == NONE ? &s->oldest : &s->entries[s->newest].newer) = i;
    s->newest = i;
    return e;
}

uint64_t auth_throttle_fail(struct auth_throttle *s, const void *name,
                            size_t len, uint64_t now_ms)
{
    unsigned char hash[HASH_SIZE];
    struct entry *e;
    uint64_t length;

    hash_hmac(s->salt, sizeof(s->salt), name, len, hash);
    e = entry_get(s, hash);
    if (now_ms < e->refused_until_ms)
        return e->refused_until_ms - now_ms;
    if (now_ms - e->last_ms >= AUTH_THROTTLE_FORGET_MS)
        e->refusals = 0;
    e->last_ms = now_ms;
    if (e->failures == 0 ||
        now_ms - e->window_start_ms >= AUTH_THROTTLE_WINDOW_MS) {
        e->window_start_ms = now_ms;
        e->failures = 0;
    }
    if (++e->failures <= s->limit)
        return 0;
    length = (uint64_t)AUTH_THROTTLE_FIRST_MS << MIN(e->refusals, 10U);
    length = MIN(length, (uint64_t)AUTH_THROTTLE_MAX_MS);
    e->refusals++;
    e->failures = 0;
    e->refused_until_ms = now_ms + length;
    return length;
}

size_t auth_throttle_source(const char *address, char ret[64])
{
    struct in6_addr v6;

    if (inet_pton(AF_INET6, address, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
        memcpy(ret, v6.s6_addr, 8);
        return 8;
    }
    (void)snprintf(ret, 64, "%s", address); /* an address is shorter */
    return strlen(ret);
}
