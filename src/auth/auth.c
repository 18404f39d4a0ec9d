/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the keys and checks credentials; see auth.h. Runs in the daemon:
 * auth_check on every thread that serves requests, before anything else of
 * the request is looked at (I1). Nothing of a credential is logged or put
 * into an error (I7).
 */
#include "auth/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define WRITE_EVERY_S 60

/* ---- the table of valid keys -------------------------------------------- */

static struct auth_entry **bucket_of(struct auth *a, const unsigned char *hash)
{
    /* The hash is keyed, so its bits are uniformly distributed. */
    return &a->buckets[((size_t)hash[0] << 8 | hash[1]) % AUTH_BUCKETS];
}

bool auth_entry_lasting(const struct auth_row *key)
{
    bool bounded = false;

    for (int b = 0; b < ACTOR_BOUNDS; b++)
        bounded |= key->bounds.ids[b][0] != '\0';
    return (key->scopes & AUTH_ADMIN) && !key->parent[0] &&
           !key->expires_at_ms && !bounded;
}

/* Lock held. */
static void put_in(struct auth *a, const struct auth_row *key)
{
    struct auth_entry **bucket = bucket_of(a, key->hash);
    struct auth_entry *e = xcalloc(1, sizeof(*e));

    e->key = *key;
    e->next = *bucket;
    *bucket = e;
    a->count += !key->parent[0];
    a->tokens += key->parent[0] != '\0';
    a->admins += auth_entry_lasting(key);
}

void auth_entry_add(struct auth *a, const struct auth_row *key)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);

    put_in(a, key);
}

struct auth_entry *auth_entry_find(struct auth *a, const char *id)
{
    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i]; e; e = e->next)
            if (strcmp(e->key.id, id) == 0)
                return e;
    return NULL;
}

/* Lock held. */
static void take_out(struct auth *a, struct auth_entry *e)
{
    struct auth_entry **link = bucket_of(a, e->key.hash);

    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    a->count -= !e->key.parent[0];
    a->tokens -= e->key.parent[0] != '\0';
    a->admins -= auth_entry_lasting(&e->key);
    free(e);
}

struct generation {
    char (*ids)[ID_MAX]; /* sorted */
    size_t count;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The lock is held. Removes the entries whose parents are in `of`; ret: their
 * ids. */
static void remove_children(struct auth *a, const struct generation *of,
                            struct generation *ret)
{
    ret->ids = xcalloc(a->tokens + 1, ID_MAX);
    ret->count = 0;
    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i], *next; e; e = next) {
            next = e->next;
            if (!e->key.parent[0] ||
                !bsearch(e->key.parent, of->ids, of->count, ID_MAX, by_id))
                continue;
            memcpy(ret->ids[ret->count++], e->key.id, ID_MAX);
            take_out(a, e);
        }
    qsort(ret->ids, ret->count, ID_MAX, by_id);
}

/* Lock held. Removes the tokens derived from this key, generation by
 * generation. */
static void remove_tokens(struct auth *a, const char *id)
{
    struct generation parents = {.ids = xcalloc(1, ID_MAX), .count = 1};

    memcpy(parents.ids[0], id, strnlen(id, ID_MAX - 1));
    while (parents.count && a->tokens) {
        struct generation children;

        remove_children(a, &parents, &children);
        free(parents.ids);
        parents = children;
    }
    free(parents.ids);
}

void auth_entry_remove(struct auth *a, const char *id)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    struct auth_entry *e = auth_entry_find(a, id);

    if (e)
        take_out(a, e);
    remove_tokens(a, id);
}

void auth_entry_replace(struct auth *a, const struct auth_row *key,
                        bool tokens)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    struct auth_entry *e = auth_entry_find(a, key->id);

    if (!e) /* it has ended meanwhile */
        return;
    take_out(a, e);
    put_in(a, key);
    if (!tokens)
        remove_tokens(a, key->id);
    /* Tokens go by the key's name, which may be new. */
    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (e = a->buckets[i]; e; e = e->next)
            if (strcmp(e->key.root, key->id) == 0)
                e->named = false;
}

/* ---- when keys were last used ------------------------------------------- */

/* Takes the notes off the table; owned by caller. */
static struct auth_touch *collect_touches(struct auth *a, size_t *ret_count)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    struct auth_touch *rows = xcalloc(a->count + a->tokens + 1, sizeof(*rows));
    size_t count = 0;

    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i]; e; e = e->next)
            if (e->touched) {
                memcpy(rows[count].id, e->key.id, sizeof(rows[count].id));
                rows[count++].used_at_ms = e->key.last_used_at_ms;
                e->touched = false;
            }
    *ret_count = count;
    return rows;
}

int auth_touch_flush(struct auth *a, struct error *err)
{
    size_t count;
    struct auth_touch *rows cleanup(mem_free) = collect_touches(a, &count);

    return count ? auth_key_store_touch(a->store, rows, count, err) : 0;
}

/* ---- what has ended ------------------------------------------------------
 */

/* Returns whether there was any. */
static bool sweep_table(struct auth *a, int64_t before_ms)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    bool any = false;

    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i], *next; e; e = next) {
            next = e->next;
            if (auth_row_ended(&e->key, before_ms)) {
                take_out(a, e); /* those below have ended no later */
                any = true;
            }
        }
    return any;
}

int auth_sweep(struct auth *a, int64_t before_ms, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);

    return sweep_table(a, before_ms)
               ? auth_key_store_sweep(a->store, before_ms, err)
               : 0;
}

static void auth_writer_main(void *arg)
{
    struct auth *a = arg;
    bool go_on;

    do {
        struct error err = {0};

        go_on = worker_wait(&a->writer, 1000u * WRITE_EVERY_S);
        if (auth_touch_flush(a, &err) < 0)
            log_event(LOG_WARN, "key_use_not_noted", "error", err.message,
                      NULL);
        if (auth_subjects_flush(a, &err) < 0)
            log_event(LOG_WARN, "subjects_not_noted", "error", err.message,
                      NULL);
        if (auth_sweep(a, clock_real_ms() - AUTH_ENDED_KEPT_MS, &err) < 0)
            log_event(LOG_WARN, "keys_not_swept", "error", err.message, NULL);
    } while (go_on);
}

/* ---- changes of other nodes ----------------------------------------------
 */

static bool same_key(const struct auth_row *a, const struct auth_row *b)
{
    return memcmp(a->hash, b->hash, sizeof(a->hash)) == 0 &&
           strcmp(a->name, b->name) == 0 && a->scopes == b->scopes &&
           a->expires_at_ms == b->expires_at_ms &&
           memcmp(&a->bounds, &b->bounds, sizeof(a->bounds)) == 0;
}

/* The ids of all that are in memory; owned by caller. */
static char (*known_ids(struct auth *a, size_t *ret_count))[ID_MAX]
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    char(*ids)[ID_MAX] = xcalloc(a->count + a->tokens + 1, ID_MAX);
    size_t n = 0;

    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i]; e; e = e->next)
            memcpy(ids[n++], e->key.id, ID_MAX);
    qsort(ids, n, ID_MAX, by_id);
    *ret_count = n;
    return ids;
}

int auth_reload(struct auth *a, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);
    struct auth_row *rows cleanup(mem_free) = NULL;
    char(*ids)[ID_MAX];
    size_t count = 0, known = 0;
    int r = auth_key_store_list(a->store, &rows, &count, err);

    if (r < 0)
        return r;
    ids = known_ids(a, &known);
    for (size_t i = 0; i < count; i++) {
        char *at =
            known ? bsearch(rows[i].id, ids, known, ID_MAX, by_id) : NULL;
        struct auth_entry *e = at ? auth_entry_find(a, rows[i].id) : NULL;

        if (rows[i].revoked_at_ms)
            continue;
        if (!e)
            auth_entry_add(a, &rows[i]);
        else if (!same_key(&e->key, &rows[i]))
            auth_entry_replace(a, &rows[i], true);
        if (at)
            at[ID_MAX - 1] = 1; /* it is still there */
    }
    for (size_t i = 0; i < known; i++)
        if (!ids[i][ID_MAX - 1])
            auth_entry_remove(a, ids[i]);
    free(ids);
    return 0;
}

/* ---- opening ------------------------------------------------------------ */

/* The file before the row: cut between the two, the next start finds a file
 * and no key at all, and takes the key of the file. A file beside other keys
 * holds one that is valid no longer; it is neither replaced nor revived. */
static int make_admin(struct auth *a, const char *data_dir, bool first,
                      struct error *err)
{
    static const struct auth_row like = {
        .tenant = "default", .name = "admin", .scopes = AUTH_ADMIN};
    char secret[AUTH_SECRET_LEN + 1], found[AUTH_SECRET_LEN + 1] = "";
    struct auth_row key;
    int r = auth_secret_admin(data_dir, found, err);

    if (r == 1 && !first) {
        (void)error_set(err, ERR_INTERNAL,
                        "the store has no valid admin key, and admin.key "
                        "holds one that is not valid");
        r = error_hint(err, "move admin.key away, and a new key is made");
    }
    if (r >= 0)
        auth_key_make(a, &like, &key, secret);
    if (r == 1)
        hash_hmac(a->secret, sizeof(a->secret), found, AUTH_SECRET_LEN,
                  key.hash);
    else if (r == 0)
        r = auth_secret_publish(data_dir, secret, err);
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(found, sizeof(found));
    if (r >= 0)
        r = auth_key_store_put(a->store, &key, err);
    if (r == 0)
        auth_entry_add(a, &key);
    return r;
}

/* Tokens of an issuer's subjects act under the names of these, which the
 * check of a token looks up in memory only. */
static void load_names(struct auth *a, const struct auth_row *keys,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct principal who = {.scopes = 0};

        if (keys[i].revoked_at_ms || strncmp(keys[i].root, "jwt_", 4) != 0)
            continue;
        memcpy(who.key_id, keys[i].root, sizeof(who.key_id));
        auth_key_name(a, who.key_id, who.name);
        auth_subject_note(a, &who);
    }
}

static void closep(struct auth **a)
{
    auth_close(*a);
}

int auth_open(struct store *store, const char *data_dir,
              uint32_t failures_per_min, struct auth **ret, struct error *err)
{
    struct auth *a cleanup(closep) = xcalloc(1, sizeof(*a));
    struct auth_row *keys cleanup(mem_free) = NULL;
    size_t count = 0;

    mutex_init(&a->lock);
    mutex_init(&a->changes);
    worker_init(&a->writer);
    a->store = store;
    a->sources = auth_throttle_new(failures_per_min);
    a->prefixes = auth_throttle_new(failures_per_min);
    if (auth_key_store_list(store, &keys, &count, err) < 0 ||
        auth_secret_open(data_dir, count == 0, a->secret, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < count; i++)
        if (!keys[i].revoked_at_ms)
            auth_entry_add(a, &keys[i]);
    load_names(a, keys, count);
    if (!a->admins && make_admin(a, data_dir, count == 0, err) < 0)
        return -(int)err->code;
    if (worker_start(&a->writer, "auth-writer", auth_writer_main, a, err) < 0)
        return -(int)err->code;
    *ret = take_ptr(a);
    return 0;
}

void auth_close(struct auth *a)
{
    if (!a)
        return;
    worker_stop(&a->writer);
    worker_done(&a->writer);
    auth_oidc_free(a->oidc);
    auth_jwt_free(a->jwt);
    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i], *next; e; e = next) {
            next = e->next;
            free(e);
        }
    mutex_lock(&a->lock);
    auth_subjects_clear(a, true);
    auth_links_clear(a);
    mutex_unlock(&a->lock);
    auth_throttle_free(a->sources);
    auth_throttle_free(a->prefixes);
    mutex_done(&a->lock);
    mutex_done(&a->changes);
    explicit_bzero(a->secret, sizeof(a->secret));
    free(a);
}

/* ---- checking ----------------------------------------------------------- */

/* The key in "Bearer KEY", borrowed, or "" when there is none. */
static const char *bearer_key(const char *authorization)
{
    static const char scheme[] = "Bearer";
    size_t len = sizeof(scheme) - 1, blanks;

    if (strncasecmp(authorization, scheme, len) != 0)
        return "";
    blanks = strspn(authorization + len, " ");
    return blanks ? authorization + len + blanks : "";
}

enum known {
    UNKNOWN,
    VALID,
    ENDED
};

static bool is_subject(const char *id)
{
    return strncmp(id, "jwt_", 4) == 0;
}

/* A token acts as the key or person at its root, and so under that name. */
static const char *name_of_entry(struct auth *a, struct auth_entry *e)
{
    if (!e->named && is_subject(e->key.root)) {
        const char *name = auth_subject_peek(a, e->key.root);

        (void)snprintf(e->name, sizeof(e->name), "%s", name ? name : "");
        e->named = name != NULL;
    } else if (!e->named) {
        const struct auth_entry *root =
            e->key.parent[0] ? auth_entry_find(a, e->key.root) : e;

        (void)snprintf(e->name, sizeof(e->name), "%s",
                       root ? root->key.name : "");
        e->named = true;
    }
    return e->name;
}

/* Does the same work for every secret of the right length, known or not. */
static enum known recognise(struct auth *a, const char *secret,
                            struct principal *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    unsigned char hash[HASH_SIZE];
    int64_t now = clock_real_ms();
    struct auth_entry *e;

    if (strnlen(secret, AUTH_SECRET_LEN + 1) != AUTH_SECRET_LEN)
        return UNKNOWN;
    hash_hmac(a->secret, sizeof(a->secret), secret, AUTH_SECRET_LEN, hash);
    e = *bucket_of(a, hash);
    while (e && !hash_equal(e->key.hash, hash, HASH_SIZE))
        e = e->next;
    if (!e)
        return UNKNOWN;
    if (auth_row_ended(&e->key, now))
        return ENDED;
    if (now - e->key.last_used_at_ms >= WRITE_EVERY_S * 1000) {
        e->key.last_used_at_ms = now;
        e->touched = true;
    }

    bool token = e->key.parent[0] != '\0';

    memset(ret, 0, sizeof(*ret));
    memcpy(ret->tenant, e->key.tenant, sizeof(ret->tenant));
    memcpy(ret->key_id, token ? e->key.root : e->key.id, sizeof(ret->key_id));
    if (token)
        memcpy(ret->token, e->key.id, sizeof(ret->token));
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name_of_entry(a, e));
    ret->scopes = e->key.scopes & AUTH_ADMIN ? AUTH_SCOPES_ALL : e->key.scopes;
    ret->expires_at_ms = e->key.expires_at_ms;
    ret->bounds = e->key.bounds;

    return VALID;
}

/* The client had the secret, so this does not count as a guess. */
static int refuse_ended(const char *secret, struct error *err)
{
    bool token =
        strncmp(secret, AUTH_TOKEN_PREFIX, strlen(AUTH_TOKEN_PREFIX)) == 0;

    (void)error_set(err, ERR_UNAUTHENTICATED, "the %s has expired",
                    token ? "token" : "key");
    return error_hint(err, token ? "mint another with POST /api/tokens"
                                 : "ask an administrator for another");
}

/* A source that is refused already may not add prefixes to the table, else one
 * attacker could fill it. All tokens share a prefix, so for them only the
 * source counts. */
static int refuse_credential(struct auth *a, const char *secret, bool token,
                             const char *source, bool *ret_slowed,
                             struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    uint64_t now = clock_mono_ms(), wait;
    size_t prefix = strnlen(secret, AUTH_PENALTY_PREFIX);
    char peer[64];

    wait = auth_throttle_fail(a->sources, peer,
                              auth_throttle_source(source, peer), now);
    if (!wait && !token && prefix == AUTH_PENALTY_PREFIX)
        wait = auth_throttle_fail(a->prefixes, secret, prefix, now);
    *ret_slowed = wait > 0;
    (void)error_set(err, ERR_UNAUTHENTICATED, "the key is not valid");
    /* Never 429: clients would wait and try the same key again. */
    if (wait)
        return error_hint(err, "Too many wrong keys were sent lately; "
                               "answers to further ones are delayed.");
    return -ERR_UNAUTHENTICATED;
}

void auth_refuse_guess(struct auth *a, const char *source, bool *ret_slowed)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    char peer[64];

    *ret_slowed = auth_throttle_fail(a->sources, peer,
                                     auth_throttle_source(source, peer),
                                     clock_mono_ms()) > 0;
}

const char *auth_shown(const struct principal *who)
{
    return who->token[0] ? who->token : who->key_id;
}

#define AUTH_OWNERS (AUTH_ADMIN | AUTH_WORKSPACES_ADMIN)

struct actor auth_actor(const struct principal *who)
{
    return (struct actor){.tenant = who->tenant,
                          .key = who->key_id,
                          .name = who->name[0] ? who->name : NULL,
                          .token = who->token[0] ? who->token : NULL,
                          .admin = (who->scopes & AUTH_OWNERS) != 0,
                          .scopes = who->scopes,
                          .expires_at_ms = who->expires_at_ms,
                          .bounds = &who->bounds};
}

bool auth_still_valid(struct auth *a, const struct principal *who)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);
    int64_t now = clock_real_ms();
    const struct auth_entry *e;

    if (who->expires_at_ms && who->expires_at_ms <= now)
        return false;
    if (is_subject(auth_shown(who)))
        return true;
    e = auth_entry_find(a, auth_shown(who));
    return e && !auth_row_ended(&e->key, now);
}

int auth_check(struct auth *a, const char *authorization, const char *source,
               struct principal *ret, struct error *err)
{
    enum known known = UNKNOWN;
    const char *secret;
    bool token;

    ret->slowed = false;
    if (!authorization) {
        (void)error_set(err, ERR_UNAUTHENTICATED, "no key was sent");
        return error_hint(err, "send the header Authorization: Bearer KEY");
    }
    secret = bearer_key(authorization);
    if (strnlen(authorization, AUTH_HEADER_MAX + 1) <= AUTH_HEADER_MAX)
        known = recognise(a, secret, ret);
    if (known != UNKNOWN)
        return known == VALID ? 0 : refuse_ended(secret, err);
    /* A secret with our prefix is never a JWT. */
    token = a->jwt && strchr(secret, '.') &&
            strncmp(secret, AUTH_PREFIX, strlen(AUTH_PREFIX)) != 0 &&
            strncmp(secret, AUTH_TOKEN_PREFIX, strlen(AUTH_TOKEN_PREFIX)) != 0;
    if (token) {
        int r = auth_jwt_check(a->jwt, secret, ret, err);

        if (r == 0)
            auth_subject_note(a, ret);
        if (r == 0 || r == -ERR_FORBIDDEN)
            return r;
        /* The client learns only that it failed, never the cause. */
        log_event(LOG_INFO, "token_refused", "why", err->message, "source",
                  source, NULL);
    }
    return refuse_credential(a, secret, token, source, &ret->slowed, err);
}
