/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passwords of share links. Runs in the daemon on workers.
 *
 * They are stored as scrypt hashes: "scrypt$14$8$1$salt$hash". A hash costs
 * some 50 ms and 16 MiB by design, so hashes are computed one at a time:
 * guessing over many connections takes longer, not more memory.
 *
 * Attempts are limited. An attempt is charged before its slow hash is
 * computed, so that parallel attempts cost as much as sequential ones.
 *
 * Each source has an allowance for each link: SHARE_TRIES attempts, then a
 * pause. Each pause is twice as long as the last, up to SHARE_PAUSE_MAX_MS,
 * and ends on time whatever the source does meanwhile; after it the source has
 * SHARE_TRIES_FRESH more. So an attacker never locks out a client at another
 * address, and one behind the same address for at most a minute after the
 * attack stops.
 *
 * All sources of a link share a second allowance, which refills by one a
 * second. When it is used up, a new source still has its first
 * SHARE_TRIES_FRESH attempts: enough for a client that knows the password.
 *
 * An attempt that repeats a recent one of the same source is answered from
 * memory: a client that keeps sending its password, right or wrong, costs no
 * hash and no allowance. Memory holds only keyed hashes, with a key of this
 * process; a restart forgets them.
 *
 * Memory is fixed: sets of SHARE_ATTEMPT_WAYS entries each. A new entry
 * replaces the oldest of its set, preferring one that is not paused; which set
 * a source maps to cannot be predicted from outside.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/shares_int.h"

/* ---- hashes ----------------------------------------------------------------
 */

#define SALT_SIZE 16
#define LOG_N 14u
#define BLOCK 8u
#define PARALLEL 1u
#define MEMORY_MAX (64u << 20)

struct hashed {
    unsigned log_n, r, p;
    unsigned char salt[SALT_SIZE];
    unsigned char hash[HASH_SIZE];
};

/* Guards no state, only the machine's memory. */
static struct mutex one_at_a_time = MUTEX_INIT;

static bool derive(const char *password, struct hashed *h)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&one_at_a_time);

    return EVP_PBE_scrypt(password, strlen(password), h->salt, sizeof(h->salt),
                          UINT64_C(1) << h->log_n, h->r, h->p, MEMORY_MAX,
                          h->hash, sizeof(h->hash)) == 1;
}

static bool unhex(const char *text, unsigned char *ret, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        ret[i] = (unsigned char)byte;
    }
    return true;
}

static bool parse(const char *text, struct hashed *ret)
{
    char salt[2 * SALT_SIZE + 1], hash[2 * HASH_SIZE + 1];

    if (sscanf(text, "scrypt$%2u$%2u$%2u$%32[0-9a-f]$%64[0-9a-f]", &ret->log_n,
               &ret->r, &ret->p, salt, hash) != 5)
        return false;
    return ret->log_n >= 1 && ret->log_n <= 16 &&
           strlen(salt) == sizeof(salt) - 1 &&
           strlen(hash) == sizeof(hash) - 1 &&
           unhex(salt, ret->salt, SALT_SIZE) &&
           unhex(hash, ret->hash, HASH_SIZE);
}

char *share_password_hash(const char *password)
{
    struct hashed h = {.log_n = LOG_N, .r = BLOCK, .p = PARALLEL};
    char salt[2 * SALT_SIZE + 1], hash[2 * HASH_SIZE + 1];

    ids_random(h.salt, sizeof(h.salt));
    if (!derive(password, &h))
        abort(); /* only for want of memory, as in the x wrappers */
    return xasprintf("scrypt$%u$%u$%u$%s$%s", h.log_n, h.r, h.p,
                     ids_hex(h.salt, sizeof(h.salt), salt),
                     ids_hex(h.hash, sizeof(h.hash), hash));
}

bool share_password_matches(const char *hash, const char *password)
{
    struct hashed kept = {0}, given;

    if (strnlen(password, SHARE_PASSWORD_MAX + 1) > SHARE_PASSWORD_MAX ||
        !parse(hash, &kept))
        return false;
    given = kept;
    return derive(password, &given) &&
           hash_equal(given.hash, kept.hash, sizeof(kept.hash));
}

/* ---- attempts --------------------------------------------------------------
 */

#define WRONG_KEPT 4u

struct entry {
    unsigned char name[SHARE_ATTEMPT_NAME]; /* of a link and a source */
    uint64_t last_ms;                       /* last charged; 0: free */
    uint64_t paused_until_ms;
    unsigned tries;  /* since the last pause */
    unsigned pauses; /* so far */
    unsigned wrong_next;
    unsigned char wrong[WRONG_KEPT][SHARE_ATTEMPT_NAME];
    unsigned char right[SHARE_ATTEMPT_NAME];
    uint64_t right_until_ms;
};

/* All sources of a link together. */
struct wide {
    unsigned char link[SHARE_ATTEMPT_NAME];
    uint64_t last_ms; /* last filled up; 0: free */
    unsigned used;
};

/* A password whose hash is being computed. */
struct running {
    bool busy, done, right;
    unsigned waiting; /* requests with the same password */
    unsigned char link[SHARE_ATTEMPT_NAME];
    unsigned char name[SHARE_ATTEMPT_NAME];
    unsigned char password[SHARE_ATTEMPT_NAME];
};

struct share_attempts {
    struct mutex lock; /* all below; a leaf */
    struct cond done;
    unsigned char key[HASH_SIZE];
    struct running running[SHARE_HASHES];
    struct entry entries[SHARE_ATTEMPT_SETS][SHARE_ATTEMPT_WAYS];
    struct wide links[SHARE_ATTEMPT_LINK_SETS][SHARE_ATTEMPT_WAYS];
};

struct share_attempts *share_attempts_new(void)
{
    struct share_attempts *g = xcalloc(1, sizeof(*g));

    mutex_init(&g->lock);
    cond_init(&g->done);
    ids_random(g->key, sizeof(g->key));
    return g;
}

void share_attempts_free(struct share_attempts *g)
{
    if (!g)
        return;
    cond_done(&g->done);
    mutex_done(&g->lock);
    explicit_bzero(g->key, sizeof(g->key));
    free(g);
}

/* ---- names -------------------------------------------------------------- */

/* A keyed hash of two strings. */
static void name_of(const struct share_attempts *g, const char *a,
                    const char *b, size_t b_len,
                    unsigned char ret[SHARE_ATTEMPT_NAME])
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char hash[HASH_SIZE];

    buf_add(&text, a, strlen(a) + 1);
    buf_add(&text, b, b_len);
    hash_hmac(g->key, sizeof(g->key), text.data, text.len, hash);
    explicit_bzero(text.data, text.len); /* it may hold a password */
    memcpy(ret, hash, SHARE_ATTEMPT_NAME);
}

/* An IPv6 source is its network of 64 bits, all of which one host can use. */
static void name_source(const struct share_attempts *g, const char *link,
                        const char *source,
                        unsigned char ret[SHARE_ATTEMPT_NAME])
{
    struct in6_addr v6;

    if (inet_pton(AF_INET6, source, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6))
        name_of(g, link, (const char *)v6.s6_addr, 8, ret);
    else
        name_of(g, link, source, strlen(source), ret);
}

static bool same(const unsigned char *a, const unsigned char *b)
{
    return hash_equal(a, b, SHARE_ATTEMPT_NAME);
}

/* ---- the table ---------------------------------------------------------- */

static size_t number_of(const unsigned char *name)
{
    return (size_t)name[0] << 8 | name[1];
}

static struct entry *set_of(struct share_attempts *g,
                            const unsigned char *name)
{
    return g->entries[number_of(name) % SHARE_ATTEMPT_SETS];
}

static struct entry *find_entry(struct share_attempts *g,
                                const unsigned char *name)
{
    struct entry *set = set_of(g, name);

    for (size_t i = 0; i < SHARE_ATTEMPT_WAYS; i++)
        if (set[i].last_ms && same(set[i].name, name))
            return &set[i];
    return NULL;
}

/* Is a rather given up than b? */
static bool goes_first(const struct entry *a, const struct entry *b,
                       uint64_t now_ms)
{
    bool a_paused = a->paused_until_ms > now_ms;
    bool b_paused = b->paused_until_ms > now_ms;

    return a_paused != b_paused ? b_paused : a->last_ms < b->last_ms;
}

static struct entry *find_or_make(struct share_attempts *g,
                                  const unsigned char *name, uint64_t now_ms)
{
    struct entry *e = find_entry(g, name), *set = set_of(g, name);

    if (e)
        return e;
    e = &set[0];
    for (size_t i = 1; i < SHARE_ATTEMPT_WAYS; i++)
        if (goes_first(&set[i], e, now_ms))
            e = &set[i];
    *e = (struct entry){.last_ms = now_ms};
    memcpy(e->name, name, SHARE_ATTEMPT_NAME);
    return e;
}

/* ---- charging ----------------------------------------------------------- */

static struct wide *find_wide(struct share_attempts *g,
                              const unsigned char *link)
{
    struct wide *set = g->links[number_of(link) % SHARE_ATTEMPT_LINK_SETS];

    for (size_t i = 0; i < SHARE_ATTEMPT_WAYS; i++)
        if (set[i].last_ms && same(set[i].link, link))
            return &set[i];
    return NULL;
}

/* With what has filled up since. */
static struct wide *wide_now(struct share_attempts *g,
                             const unsigned char *link, uint64_t now_ms)
{
    struct wide *set = g->links[number_of(link) % SHARE_ATTEMPT_LINK_SETS];
    struct wide *w = find_wide(g, link);
    uint64_t back;

    if (!w) {
        w = &set[0];
        for (size_t i = 1; i < SHARE_ATTEMPT_WAYS; i++)
            if (set[i].last_ms < w->last_ms)
                w = &set[i];
        *w = (struct wide){.last_ms = now_ms};
        memcpy(w->link, link, SHARE_ATTEMPT_NAME);
    }
    back = (now_ms - w->last_ms) / SHARE_WIDE_REFILL_MS;
    w->used -= (unsigned)MIN(back, (uint64_t)w->used);
    w->last_ms += back * SHARE_WIDE_REFILL_MS;
    return w;
}

/* One try of e; 0, or for how many milliseconds there is none. ret_last: it
 * was the last before a pause. */
static uint64_t charge(struct entry *e, struct wide *all, uint64_t now_ms,
                       bool *ret_last)
{
    bool fresh = e->pauses == 0 && e->tries < SHARE_TRIES_FRESH;
    unsigned allowed = e->pauses ? SHARE_TRIES_FRESH : SHARE_TRIES;
    uint64_t pause;

    if (all->used >= SHARE_WIDE_TRIES && !fresh)
        return SHARE_WIDE_REFILL_MS;
    if (all->used < SHARE_WIDE_TRIES)
        all->used++;
    e->last_ms = now_ms;
    *ret_last = ++e->tries >= allowed;
    if (!*ret_last)
        return 0;
    pause = SHARE_PAUSE_MS << MIN(e->pauses, 10u);
    e->paused_until_ms = now_ms + MIN(pause, SHARE_PAUSE_MAX_MS);
    e->pauses++;
    e->tries = 0;
    return 0;
}

/* ---- the hashes under way ----------------------------------------------- */

static struct running *find_running(struct share_attempts *g,
                                    const struct share_attempt *t)
{
    for (size_t i = 0; i < SHARE_HASHES; i++) {
        struct running *r = &g->running[i];

        if (r->busy && same(r->name, t->name) &&
            same(r->password, t->password))
            return r;
    }
    return NULL;
}

/* A free one, or NULL: too many wait for a hash; of this source, of this link
 * or of all. */
static struct running *take_running(struct share_attempts *g,
                                    const struct share_attempt *t)
{
    struct running *free_one = NULL;
    unsigned of_link = 0, of_source = 0;

    for (size_t i = 0; i < SHARE_HASHES; i++) {
        if (!g->running[i].busy) {
            free_one = &g->running[i];
            continue;
        }
        of_link += same(g->running[i].link, t->link);
        of_source += same(g->running[i].name, t->name);
    }
    return of_link < SHARE_HASHES_LINK && of_source < SHARE_HASHES_SOURCE
               ? free_one
               : NULL;
}

static enum share_attempt_answer await(struct share_attempts *g,
                                       struct running *r)
{
    bool right;

    r->waiting++;
    while (!r->done)
        cond_wait(&g->done, &g->lock);
    right = r->right;
    if (--r->waiting == 0)
        r->busy = false;
    return right ? SHARE_ATTEMPT_RIGHT : SHARE_ATTEMPT_WRONG;
}

/* ---- the calls ---------------------------------------------------------- */

static int seconds(uint64_t ms)
{
    return (int)((ms + 999) / 1000);
}

/* The answer if it needs no hash, else SHARE_ATTEMPT_HASH. */
static enum share_attempt_answer recall(struct entry *e,
                                        const struct share_attempt *t,
                                        uint64_t now_ms, int *ret_wait_s)
{
    if (now_ms - e->last_ms >= SHARE_FORGET_MS) {
        e->tries = e->pauses = 0;
        memset(e->wrong, 0, sizeof(e->wrong));
    }
    if (e->paused_until_ms > now_ms) {
        *ret_wait_s = seconds(e->paused_until_ms - now_ms);
        return SHARE_ATTEMPT_WAIT;
    }
    if (e->right_until_ms > now_ms && same(e->right, t->password))
        return SHARE_ATTEMPT_RIGHT;
    for (size_t i = 0; i < WRONG_KEPT; i++)
        if (same(e->wrong[i], t->password))
            return SHARE_ATTEMPT_WRONG;
    return SHARE_ATTEMPT_HASH;
}

enum share_attempt_answer share_attempt_begin(
    struct share_attempts *g, const struct share_attempt_spec *spec,
    uint64_t now_ms, struct share_attempt *ret, int *ret_wait_s)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&g->lock);
    enum share_attempt_answer known;
    struct running *r;
    struct entry *e;
    uint64_t wait_ms;

    name_of(g, spec->link, "", 0, ret->link);
    name_source(g, spec->link, spec->source ? spec->source : "-", ret->name);
    name_of(g, spec->hash, spec->password, strlen(spec->password),
            ret->password);
    e = find_entry(g, ret->name);
    known = e ? recall(e, ret, now_ms, ret_wait_s) : SHARE_ATTEMPT_HASH;
    if (known != SHARE_ATTEMPT_HASH)
        return known;
    r = find_running(g, ret);
    if (r)
        return await(g, r);
    r = take_running(g, ret);
    wait_ms = r ? charge(find_or_make(g, ret->name, now_ms),
                         wide_now(g, ret->link, now_ms), now_ms, &ret->last)
                : SHARE_WIDE_REFILL_MS;
    if (wait_ms) {
        *ret_wait_s = seconds(wait_ms);
        return SHARE_ATTEMPT_WAIT;
    }
    *r = (struct running){.busy = true};
    memcpy(r->link, ret->link, SHARE_ATTEMPT_NAME);
    memcpy(r->name, ret->name, SHARE_ATTEMPT_NAME);
    memcpy(r->password, ret->password, SHARE_ATTEMPT_NAME);
    ret->running = r;
    return SHARE_ATTEMPT_HASH;
}

void share_attempt_end(struct share_attempts *g, const struct share_attempt *t,
                       bool right, uint64_t now_ms)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&g->lock);
    struct entry *e = find_entry(g, t->name);
    struct wide *all = find_wide(g, t->link);
    struct running *r = t->running;

    if (e && right) {
        e->tries = 0;
        e->pauses -= t->last && e->pauses > 0; /* it was none */
        e->paused_until_ms = 0;
        memcpy(e->right, t->password, SHARE_ATTEMPT_NAME);
        e->right_until_ms = now_ms + SHARE_KNOWN_MS;
    } else if (e) {
        memcpy(e->wrong[e->wrong_next], t->password, SHARE_ATTEMPT_NAME);
        e->wrong_next = (e->wrong_next + 1) % WRONG_KEPT;
    }
    if (all && right && all->used > 0)
        all->used--;
    r->done = true;
    r->right = right;
    r->busy = r->waiting > 0;
    cond_broadcast(&g->done);
}
