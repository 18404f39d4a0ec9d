/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, lists and revokes keys; see auth.h. Runs in the daemon on a thread
 * that serves an admin's request. The store is written first and the table in
 * memory after it, one change at a time, so that they never disagree for long
 * and a change that was answered is in both.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "auth/auth_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

/* ---- names -------------------------------------------------------------- */

/* What would move the cursor, reverse the line or show nothing at all. */
static bool is_printable(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } refused[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
        {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
    };

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        if (c >= refused[i].first && c <= refused[i].last)
            return false;
    return true;
}

int auth_key_name_check(const char *name, struct error *err)
{
    const char *p = name;

    if (strnlen(name, AUTH_NAME_MAX) == AUTH_NAME_MAX)
        return error_set(err, ERR_INVALID, "name is longer than %d bytes",
                         AUTH_NAME_MAX - 1);
    while (*p) {
        size_t len = utf8_length(p, strlen(p));

        if (!len || !is_printable(utf8_decode(p, len)))
            return error_set(err, ERR_INVALID, "name must be printable UTF-8");
        p += len;
    }
    return 0;
}

static int check_tenant(const char *tenant, struct error *err)
{
    size_t len = strnlen(tenant, AUTH_TENANT_MAX);

    if (len == 0 || len == AUTH_TENANT_MAX ||
        strspn(tenant, "abcdefghijklmnopqrstuvwxyz0123456789_-") != len)
        return error_set(err, ERR_INVALID,
                         "tenant must be 1 to %d characters of [a-z0-9_-]",
                         AUTH_TENANT_MAX - 1);
    return 0;
}

/* ---- making ------------------------------------------------------------- */

/* Now, but no two keys of the same millisecond: listing goes by it. A clock
 * that was set back is believed. */
static int64_t made_at(struct auth *a)
{
    int64_t now = clock_real_ms();

    if (now <= a->made_at_ms && now > a->made_at_ms - 1000)
        now = a->made_at_ms + 1;
    a->made_at_ms = now;
    return now;
}

void auth_key_make(struct auth *a, const struct auth_row *like,
                   struct auth_row *ret_key,
                   char ret_secret[AUTH_SECRET_LEN + 1])
{
    bool token = like->parent[0] != '\0';
    unsigned char raw[HASH_SIZE];

    static_assert(sizeof(AUTH_PREFIX) == sizeof(AUTH_TOKEN_PREFIX), "");
    ids_random(raw, sizeof(raw));
    memcpy(ret_secret, token ? AUTH_TOKEN_PREFIX : AUTH_PREFIX,
           strlen(AUTH_PREFIX));
    (void)ids_hex(raw, sizeof(raw), ret_secret + strlen(AUTH_PREFIX));
    explicit_bzero(raw, sizeof(raw));
    *ret_key = *like;
    ids_make(token ? "tok" : "key", ret_key->id);
    hash_hmac(a->secret, sizeof(a->secret), ret_secret, AUTH_SECRET_LEN,
              ret_key->hash);
    ret_key->created_at_ms = made_at(a);
}

void auth_key_public(const struct auth_row *key, struct auth_key *ret)
{
    memset(ret, 0, sizeof(*ret));
    memcpy(ret->id, key->id, sizeof(ret->id));
    memcpy(ret->tenant, key->tenant, sizeof(ret->tenant));
    memcpy(ret->name, key->name, sizeof(ret->name));
    ret->scopes = key->scopes;
    ret->created_at_ms = key->created_at_ms;
    ret->revoked_at_ms = key->revoked_at_ms;
    ret->last_used_at_ms = key->last_used_at_ms;
    ret->bounds = key->bounds;
    memcpy(ret->parent, key->parent, sizeof(ret->parent));
    memcpy(ret->root, key->root, sizeof(ret->root));
    ret->expires_at_ms = key->expires_at_ms;
}

int auth_key_keep(struct auth *a, const struct auth_row *like,
                  struct auth_key *ret, char **ret_secret, struct error *err)
{
    char secret[AUTH_SECRET_LEN + 1];
    struct auth_row key;
    int r;

    auth_key_make(a, like, &key, secret);
    r = auth_key_store_put(a->store, &key, err);
    if (r == 0) {
        auth_entry_add(a, &key);
        auth_key_public(&key, ret);
        *ret_secret = xstrdup(secret);
    }
    explicit_bzero(secret, sizeof(secret));
    return r;
}

static int check_spec(const struct auth_key_spec *spec, const char *name,
                      struct error *err)
{
    if (check_tenant(spec->tenant, err) < 0 ||
        auth_key_name_check(name, err) < 0)
        return -(int)err->code;
    if (!spec->scopes || (spec->scopes & ~(uint32_t)AUTH_SCOPES_ALL))
        return error_set(err, ERR_INVALID, "a key needs at least one scope");
    if (spec->expires_in_s > AUTH_KEY_TTL_MAX_S)
        return error_set(err, ERR_INVALID, "a key may last %u seconds at most",
                         AUTH_KEY_TTL_MAX_S);
    return 0;
}

int auth_key_create_as(struct auth *a, const struct auth_key_spec *spec,
                       struct auth_key *ret_key, char **ret_secret,
                       struct error *err)
{
    const char *name = spec->name ? spec->name : "";
    struct auth_row like = {.scopes = spec->scopes};
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);

    if (check_spec(spec, name, err) < 0)
        return -(int)err->code;
    if (a->count >= AUTH_KEYS_MAX) {
        (void)error_set(err, ERR_LIMIT, "there are %d keys already",
                        AUTH_KEYS_MAX);
        return error_hint(err, "revoke some that are no longer used");
    }
    (void)snprintf(like.tenant, sizeof(like.tenant), "%s", spec->tenant);
    (void)snprintf(like.name, sizeof(like.name), "%s", name);
    if (spec->bounds)
        like.bounds = *spec->bounds;
    if (spec->expires_in_s)
        like.expires_at_ms =
            clock_real_ms() + 1000 * (int64_t)spec->expires_in_s;
    return auth_key_keep(a, &like, ret_key, ret_secret, err);
}

int auth_key_create(struct auth *a, const char *tenant, const char *name,
                    uint32_t scopes, struct auth_key *ret_key,
                    char **ret_secret, struct error *err)
{
    const struct auth_key_spec spec = {
        .tenant = tenant, .name = name, .scopes = scopes};

    return auth_key_create_as(a, &spec, ret_key, ret_secret, err);
}

/* ---- listing and revoking ----------------------------------------------- */

int auth_key_list(struct auth *a, struct auth_key **ret_keys,
                  size_t *ret_count, struct error *err)
{
    struct auth_row *rows cleanup(mem_free) = NULL;
    struct auth_key *keys;
    size_t count;

    if (auth_touch_flush(a, err) < 0 ||
        auth_key_store_list(a->store, &rows, &count, err) < 0)
        return -(int)err->code;
    keys = xcalloc(MAX(count, (size_t)1), sizeof(*keys));
    *ret_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!rows[i].parent[0])
            auth_key_public(&rows[i], &keys[(*ret_count)++]);
    *ret_keys = keys;
    return 0;
}

int auth_key_revoke(struct auth *a, const char *id, struct error *err)
{
    const struct auth_entry *e;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);

    if (!ids_valid("key", id))
        return error_set(err, ERR_NOT_FOUND, "there is no such key");
    e = auth_entry_find(a, id);
    if (e && auth_entry_lasting(&e->key) && a->admins == 1) {
        (void)error_set(err, ERR_CONFLICT, "this is the last admin key");
        return error_hint(err, "create another admin key first");
    }
    if (auth_key_store_revoke(a->store, id, clock_real_ms(), err) < 0)
        return -(int)err->code;
    auth_entry_remove(a, id);
    return 0;
}

static void end_by(struct auth *a, const char *id, int64_t at_ms)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->lock);

    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        for (struct auth_entry *e = a->buckets[i]; e; e = e->next)
            if ((strcmp(e->key.id, id) == 0 || strcmp(e->key.root, id) == 0) &&
                (!e->key.expires_at_ms || e->key.expires_at_ms > at_ms))
                e->key.expires_at_ms = at_ms;
}

int auth_key_expire(struct auth *a, const char *id, int64_t at_ms,
                    struct error *err)
{
    const struct auth_entry *e;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);

    e = ids_valid("key", id) ? auth_entry_find(a, id) : NULL;
    if (!e)
        return error_set(err, ERR_NOT_FOUND, "there is no such key");
    if (auth_entry_lasting(&e->key)) /* revoking is for those */
        return error_set(err, ERR_CONFLICT, "this key has no end");
    if (auth_key_store_expire(a->store, id, at_ms, err) < 0)
        return -(int)err->code;
    end_by(a, id, at_ms);
    return 0;
}
