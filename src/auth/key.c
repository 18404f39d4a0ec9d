/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, lists, narrows, rotates and revokes keys; see auth.h. Runs in the
 * daemon on a thread that serves an admin's request. The store is written
 * first and the table in memory after it, one change at a time, so that they
 * never disagree for long and a change that was answered is in both.
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

/* Refuses characters that move the cursor, reverse the line or are
 * invisible. */
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

    /* Listing sorts by this time, so no two keys share a millisecond. A clock
     * that was set back by more than a second is accepted. */
    int64_t now = clock_real_ms();

    if (now <= a->made_at_ms && now > a->made_at_ms - 1000)
        now = a->made_at_ms + 1;
    a->made_at_ms = now;
    ret_key->created_at_ms = now;
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

int auth_key_create_as(struct auth *a, const struct auth_key_spec *spec,
                       struct auth_key *ret_key, char **ret_secret,
                       struct error *err)
{
    const char *name = spec->name ? spec->name : "";
    struct auth_row like = {.scopes = spec->scopes};
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);

    if (check_tenant(spec->tenant, err) < 0 ||
        auth_key_name_check(name, err) < 0)
        return -(int)err->code;
    if (!spec->scopes || (spec->scopes & ~(uint32_t)AUTH_SCOPES_ALL))
        return error_set(err, ERR_INVALID, "a key needs at least one scope");
    if (spec->expires_in_s > AUTH_KEY_TTL_MAX_S)
        return error_set(err, ERR_INVALID, "a key may last %u seconds at most",
                         AUTH_KEY_TTL_MAX_S);

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

int auth_key_get(struct auth *a, const char *id, struct auth_key *ret,
                 struct error *err)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    size_t count = 0;
    int rc = auth_key_list(a, &keys, &count, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].id, id) == 0) {
            *ret = keys[i];
            return 0;
        }
    return error_set(err, ERR_NOT_FOUND, "no such key");
}

int auth_key_resolve(struct auth *a, const char *tenant, const char *name,
                     struct auth_key *ret, struct error *err)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    const struct auth_key *found = NULL;
    size_t count = 0, same_name = 0;
    int rc = auth_key_list(a, &keys, &count, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++) {
        const struct auth_key *key = &keys[i];

        if (key->revoked_at_ms || (tenant && strcmp(key->tenant, tenant) != 0))
            continue;
        if (strcmp(key->id, name) == 0) {
            *ret = *key;
            return 0;
        }
        if (key->name[0] && strcmp(key->name, name) == 0) {
            found = key;
            same_name++;
        }
    }
    if (!found)
        return error_set(err, ERR_NOT_FOUND, "no such key");
    if (same_name > 1) {
        (void)error_set(err, ERR_CONFLICT, "more than one key has this name");
        return error_hint(err, "Give the key's id.");
    }
    *ret = *found;
    return 0;
}

void auth_key_name(struct auth *a, const char *id, char ret[AUTH_NAME_MAX])
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct error ignored;

    bool subject = ids_valid("jwt", id);

    ret[0] = '\0';
    if (subject && auth_subject_name(a, id, ret))
        return;
    if ((subject || ids_valid("key", id) || ids_valid("tok", id)) &&
        store_begin(a->store, STORE_READ, "looking for a key's name", &tx,
                    &ignored) == 0 &&
        store_one(tx, &row, &ignored,
                  subject ? "SELECT name FROM subjects WHERE id = ?1"
                          : "SELECT name FROM keys WHERE id = ?1",
                  "t", id) > 0)
        store_copy(row, 0, ret, AUTH_NAME_MAX);
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

/* ---- changing ----------------------------------------------------------- */

/* With `changes` held: the row of a valid key. */
static int current_row(struct auth *a, const char *id, struct auth_row *ret,
                       struct error *err)
{
    const struct auth_entry *e =
        ids_valid("key", id) ? auth_entry_find(a, id) : NULL;

    if (!e || auth_row_ended(&e->key, clock_real_ms()))
        return error_set(err, ERR_NOT_FOUND, "there is no such key");
    *ret = e->key;
    return 0;
}

/* An unbound key may be bound to anything, a bound one only to less. */
static int narrow_bounds(struct auth_row *key, const struct actor_bounds *to,
                         struct error *err)
{
    const struct actor before = {.bounds = &key->bounds};
    struct actor_bounds after = key->bounds;

    for (int b = 0; b < ACTOR_BOUNDS; b++) {
        enum actor_bound what = (enum actor_bound)b;
        char list[ACTOR_BOUND_MAX], *rest = list, *one;

        if (!to->ids[b][0])
            continue;
        (void)snprintf(list, sizeof(list), "%s", to->ids[b]);
        while ((one = strsep(&rest, ",")))
            if (!actor_may(&before, what, one))
                return error_set(err, ERR_INVALID,
                                 "the key may not use '%s', so it cannot be "
                                 "narrowed to it",
                                 one);
        memcpy(after.ids[b], to->ids[b], ACTOR_BOUND_MAX);
    }
    key->bounds = after;
    return 0;
}

/* Applies the patch; *ret_narrower: the key has fewer rights than before. */
static int apply_patch(struct auth_row *key,
                       const struct auth_key_patch *patch, bool *ret_narrower,
                       struct error *err)
{
    const struct auth_row before = *key;
    uint32_t most = key->scopes & AUTH_ADMIN ? AUTH_SCOPES_ALL : key->scopes;
    int64_t ends = clock_real_ms() + 1000 * (int64_t)patch->expires_in_s;

    if (patch->name) {
        if (auth_key_name_check(patch->name, err) < 0)
            return -(int)err->code;
        (void)snprintf(key->name, sizeof(key->name), "%s", patch->name);
    }
    if (patch->scopes & ~most) {
        (void)error_set(err, ERR_INVALID, "a key cannot get more scopes");
        return error_hint(err, "create another key");
    }
    if (patch->scopes)
        key->scopes = patch->scopes;
    if (patch->expires_in_s > AUTH_KEY_TTL_MAX_S)
        return error_set(err, ERR_INVALID, "a key may last %u seconds at most",
                         AUTH_KEY_TTL_MAX_S);
    if (patch->expires_in_s && key->expires_at_ms && ends > key->expires_at_ms)
        return error_set(err, ERR_INVALID,
                         "the key expires sooner; its end cannot be moved "
                         "into the future");
    if (patch->expires_in_s)
        key->expires_at_ms = ends;
    if (patch->bounds && narrow_bounds(key, patch->bounds, err) < 0)
        return -(int)err->code;
    *ret_narrower =
        key->scopes != before.scopes ||
        key->expires_at_ms != before.expires_at_ms ||
        memcmp(&key->bounds, &before.bounds, sizeof(key->bounds)) != 0;
    return 0;
}

int auth_key_narrow(struct auth *a, const char *id,
                    const struct auth_key_patch *patch, struct auth_key *ret,
                    struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);
    struct auth_row key = {.scopes = 0};
    bool lasting, narrower = false;
    int r = current_row(a, id, &key, err);

    if (r < 0)
        return r;
    lasting = auth_entry_lasting(&key);
    r = apply_patch(&key, patch, &narrower, err);
    if (r == 0 && lasting && !auth_entry_lasting(&key) && a->admins == 1) {
        (void)error_set(err, ERR_CONFLICT, "this is the last admin key");
        r = error_hint(err, "create another admin key first");
    }
    if (r == 0)
        r = auth_key_store_change(a->store, &key, !narrower, err);
    if (r < 0)
        return r;
    auth_entry_replace(a, &key, !narrower);
    auth_key_public(&key, ret);
    return 0;
}

int auth_key_rotate(struct auth *a, const char *id, struct auth_key *ret,
                    char **ret_secret, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&a->changes);
    char secret[AUTH_SECRET_LEN + 1];
    struct auth_row key = {.scopes = 0}, fresh;
    int r = current_row(a, id, &key, err);

    if (r < 0)
        return r;
    auth_key_make(a, &key, &fresh, secret);
    memcpy(key.hash, fresh.hash, sizeof(key.hash));
    r = auth_key_store_change(a->store, &key, false, err);
    if (r == 0) {
        auth_entry_replace(a, &key, false);
        auth_key_public(&key, ret);
        *ret_secret = xstrdup(secret);
    }
    explicit_bzero(secret, sizeof(secret));
    return r;
}
