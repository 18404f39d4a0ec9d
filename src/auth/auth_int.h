/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of auth/ share. Only they and their tests include this. */
#ifndef GLOVEBOX_AUTH_AUTH_INT_H
#define GLOVEBOX_AUTH_AUTH_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/auth.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/thread.h"
#include "store/store.h"

#define AUTH_PREFIX "gbx_"
#define AUTH_TOKEN_PREFIX "gbt_" /* as long as the other */
#define AUTH_SECRET_LEN (sizeof(AUTH_PREFIX) - 1 + 2 * HASH_SIZE)
/* For this long an expired key is refused as expired, then as unknown. */
#define AUTH_ENDED_KEPT_MS 600000
#define AUTH_HEADER_MAX 512 /* of Authorization; longer ones are no keys */
#define AUTH_PENALTY_PREFIX 12

/* ---- throttle.c: recent failures ---------------------------------------- */

#define AUTH_THROTTLE_ENTRIES 4096 /* of each table; the oldest gives way */
#define AUTH_THROTTLE_WINDOW_MS 60000
#define AUTH_THROTTLE_FIRST_MS 15000
#define AUTH_THROTTLE_MAX_MS 600000
#define AUTH_THROTTLE_FORGET_MS 1200000 /* without failures: as if new */

struct auth_throttle;

struct auth_throttle *auth_throttle_new(uint32_t failures_per_min);
void auth_throttle_free(struct auth_throttle *s);
/* Counts a failure of that name (any bytes). Returns 0, or how many
 * milliseconds it is refused for. Not locked. */
uint64_t auth_throttle_fail(struct auth_throttle *s, const void *name,
                            size_t len, uint64_t now_ms);
size_t auth_throttle_count(const struct auth_throttle *s); /* entries in use */
/* What stands for a peer: its address, an IPv6 one cut to the /64 that one
 * customer has. ret must hold 64 bytes. Returns its length. */
size_t auth_throttle_source(const char *address, char ret[64]);

/* ---- secret.c: the files ------------------------------------------------ */

/* Reads or, if may_make, makes DIR/auth.secret. */
int auth_secret_open(const char *data_dir, bool may_make,
                     unsigned char ret[HASH_SIZE], struct error *err);
/* The secret in DIR/admin.key: 1, or 0 where there is no such file. */
int auth_secret_admin(const char *data_dir, char ret[AUTH_SECRET_LEN + 1],
                      struct error *err);
/* Makes DIR/admin.key, on disk when it returns; fails where there is one. */
int auth_secret_publish(const char *data_dir, const char *secret,
                        struct error *err);

/* ---- key_store.c: the rows ---------------------------------------------- */

#define AUTH_REVOKED_KEPT 1000 /* revoked keys remembered, newest first */

struct auth_row {
    char id[ID_MAX];
    unsigned char hash[HASH_SIZE]; /* of the secret; unique */
    char tenant[AUTH_TENANT_MAX];
    char name[AUTH_NAME_MAX];
    uint32_t scopes;
    int64_t created_at_ms;
    int64_t revoked_at_ms;   /* 0: valid */
    int64_t last_used_at_ms; /* 0: never */
    struct actor_bounds bounds;
    char parent[ID_MAX]; /* of a token; "" for a key */
    char root[ID_MAX];
    int64_t expires_at_ms; /* 0: never */
};

struct auth_touch {
    char id[ID_MAX];
    int64_t used_at_ms;
};

/* ERR_CONFLICT if the id or the hash is there already. */
int auth_key_store_put(struct store *s, const struct auth_row *row,
                       struct error *err);
/* All keys, revoked ones included, newest first; owned by caller. */
int auth_key_store_list(struct store *s, struct auth_row **ret_rows,
                        size_t *ret_count, struct error *err);
/* With all below it. ERR_NOT_FOUND if there is no such key; an earlier
 * revocation stays. */
int auth_key_store_revoke(struct store *s, const char *id, int64_t at_ms,
                          struct error *err);
/* Stores hash, name, scopes, bounds and end of a valid key; revokes the tokens
 * below it unless they stay. ERR_NOT_FOUND. */
int auth_key_store_change(struct store *s, const struct auth_row *row,
                          bool tokens, struct error *err);
/* Moves last_used_at_ms forward, never back; unknown ids are ignored. */
int auth_key_store_touch(struct store *s, const struct auth_touch *rows,
                         size_t count, struct error *err);

/* Forgets tokens that ended before then; such keys become revoked ones. */
int auth_key_store_expire(struct store *s, const char *id, int64_t at_ms,
                          struct error *err);
int auth_key_store_sweep(struct store *s, int64_t before_ms,
                         struct error *err);

/* ---- auth.c: the valid keys in memory ----------------------------------- */

struct auth_entry {
    struct auth_entry *next; /* in its bucket */
    struct auth_row key;
    bool touched; /* last_used_at_ms is newer than the store's */
    bool named;   /* `name` is known: a token's is looked up at first use */
    char name[AUTH_NAME_MAX]; /* of the key at its root */
};

#define AUTH_BUCKETS 8192

#define AUTH_LINKS_MAX 256u
#define AUTH_LINKS_OF_ONE 8u

struct auth_link {
    unsigned char hash[HASH_SIZE];
    struct principal who;
    uint64_t ends_mono_ms;
};

/* Two locks, so that no check waits for the disk: `changes` is held by who
 * adds or removes keys, store included, and taken first; `lock` is held by
 * who looks at or alters the table, and never across I/O. */
struct auth {
    struct worker writer;
    struct mutex changes;
    int64_t made_at_ms; /* the newest key */
    struct mutex lock;  /* around everything below but `secret` */
    struct store *store;
    unsigned char secret[HASH_SIZE];
    struct auth_entry *buckets[AUTH_BUCKETS];
    size_t count;  /* of keys */
    size_t tokens; /* of tokens */
    size_t admins; /* administrators' keys that do not expire */
    struct auth_throttle *sources;
    struct auth_throttle *prefixes;
    struct auth_link *links[AUTH_LINKS_MAX]; /* of link.c; NULL: unused */
    struct idmap subjects;                   /* of subject.c */
    struct auth_jwt *jwt;   /* NULL: no tokens; set before the first check */
    struct auth_oidc *oidc; /* NULL: sign-in with the issuer is off */
};

/* Does it count among `admins`? */
bool auth_entry_lasting(const struct auth_row *key);
/* With `changes` held; these three take the lock. */
void auth_entry_add(struct auth *a, const struct auth_row *key);
void auth_entry_remove(struct auth *a, const char *id); /* and all below */
/* The key with the same id becomes this one, in one step for auth_check.
 * tokens: those below it stay. */
void auth_entry_replace(struct auth *a, const struct auth_row *key,
                        bool tokens);
/* With either lock held; borrowed until it is released. */
struct auth_entry *auth_entry_find(struct auth *a, const char *id);
/* Writes the touched last_used_at_ms of all keys. */
int auth_touch_flush(struct auth *a, struct error *err);
/* Drops what ended before then, from the table and from the store. */
int auth_sweep(struct auth *a, int64_t before_ms, struct error *err);

/* Counts a wrong secret that is no key against its source. */
void auth_refuse_guess(struct auth *a, const char *source, bool *ret_slowed);

/* link.c: at the end. */
void auth_links_clear(struct auth *a);

/* ---- subject.c: names of an issuer's subjects ----------------------------
 */

#define AUTH_SUBJECTS_MAX 4096u /* in memory; the store has the others */

/* A token of that principal was checked. No I/O. */
void auth_subject_note(struct auth *a, const struct principal *who);
/* Writes the names that are new. */
int auth_subjects_flush(struct auth *a, struct error *err);
/* With the lock held: removes those that the store has, or all. */
void auth_subjects_clear(struct auth *a, bool all);
/* The name if it is in memory. */
bool auth_subject_name(struct auth *a, const char *id,
                       char ret[AUTH_NAME_MAX]);
/* The same with the lock held; NULL: it is not in memory. Borrowed. */
const char *auth_subject_peek(struct auth *a, const char *id);

/* ---- oidc.c: signing in with the issuer ---------------------------------
 */

void auth_oidc_free(struct auth_oidc *o);

/* ---- key.c -------------------------------------------------------------- */

static inline bool auth_row_ended(const struct auth_row *row, int64_t now_ms)
{
    return row->expires_at_ms && row->expires_at_ms <= now_ms;
}

/* A fresh secret and its row: key or, with a parent, token; nothing is
 * stored. With `changes` held, or before there are others. */
void auth_key_make(struct auth *a, const struct auth_row *like,
                   struct auth_row *ret_key,
                   char ret_secret[AUTH_SECRET_LEN + 1]);
/* Stores it and adds it to the table; the secret is owned by caller. */
int auth_key_keep(struct auth *a, const struct auth_row *like,
                  struct auth_key *ret, char **ret_secret, struct error *err);
int auth_key_name_check(const char *name, struct error *err);
void auth_key_public(const struct auth_row *key, struct auth_key *ret);

#endif
