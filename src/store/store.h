/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata that must survive: now the keys. One table of functions stands
 * between callers and the engine (struct store_ops in store_int.h); sqlite.c
 * fills it, another engine can. Every call is one transaction that is on disk
 * when it returns. Any thread may call; writers take turns.
 *
 * Errors: ERR_NOT_FOUND and ERR_CONFLICT as said below; ERR_INTERNAL when the
 * engine failed, the store staying usable; ERR_UNAVAILABLE for every write
 * after a failed sync, since what is on disk is then unknown (D4).
 */
#ifndef GLOVEBOX_STORE_STORE_H
#define GLOVEBOX_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct error;
struct store;

#define STORE_HASH_SIZE 32
#define STORE_TENANT_MAX 64
#define STORE_NAME_MAX 64
#define STORE_REVOKED_KEPT 1000 /* revoked keys remembered, newest first */

struct store_key {
    char id[ID_MAX];
    unsigned char hash[STORE_HASH_SIZE]; /* of the secret; unique */
    char tenant[STORE_TENANT_MAX];
    char name[STORE_NAME_MAX];
    uint32_t scopes;
    int64_t created_at_ms;
    int64_t revoked_at_ms;   /* 0: valid */
    int64_t last_used_at_ms; /* 0: never */
};

struct store_touch {
    char id[ID_MAX];
    int64_t used_at_ms;
};

/* Opens DIR/glovebox.db, making and migrating it as needed, and checks it.
 * The directory must exist. Only one process can have it open (ERR_CONFLICT);
 * one written by a newer version is refused (ERR_CONFLICT). */
int store_open(const char *data_dir, struct store **ret, struct error *err);
void store_close(struct store *s);

/* ERR_CONFLICT if the id or the hash is there already. */
int store_key_put(struct store *s, const struct store_key *key,
                  struct error *err);
/* All keys, revoked ones included, newest first; owned by caller. */
int store_key_list(struct store *s, struct store_key **ret_keys,
                   size_t *ret_count, struct error *err);
/* ERR_NOT_FOUND if there is no such key; an earlier revocation stays. */
int store_key_revoke(struct store *s, const char *id, int64_t at_ms,
                     struct error *err);
/* Moves last_used_at_ms forward, never back; unknown ids are ignored. */
int store_key_touch(struct store *s, const struct store_touch *rows,
                    size_t count, struct error *err);

#endif
