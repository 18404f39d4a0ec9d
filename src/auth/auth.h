/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a bearer key to a principal. A key is "gbx_" and 256 random bits in
 * hex; only HMAC-SHA-256 of it under a secret of the data directory is kept,
 * and it is looked up by that hash. Guessing is slowed per source and per
 * key prefix: failures beyond the limit are answered with ERR_LIMIT for a
 * while that grows to ten minutes. A right key is never refused, so that
 * nobody can lock a victim out by guessing beside it (I5).
 * All functions may be called from any thread.
 *
 * How the pieces work together: the store holds the keys; auth.c loads the
 * valid ones into a table in memory, so that auth_check does no I/O, and one
 * thread writes back when keys were last used; key.c makes and revokes;
 * key_store.c has the SQL; secret.c keeps the two files of the data
 * directory; slow.c remembers failures; scopes.c has the names; jwt*.c take
 * the tokens of one other issuer, when one is configured.
 */
#ifndef GLOVEBOX_AUTH_AUTH_H
#define GLOVEBOX_AUTH_AUTH_H

#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/ids.h"

struct auth;
struct error;
struct store;

enum auth_scope {
    AUTH_EXECUTE = 1 << 0,          /* "execute": sessions and executions */
    AUTH_FILES_READ = 1 << 1,       /* "files:read" */
    AUTH_FILES_WRITE = 1 << 2,      /* "files:write" */
    AUTH_ADMIN = 1 << 3,            /* "admin": everything, keys included */
    AUTH_WORKSPACES_ADMIN = 1 << 4, /* "workspaces:admin": owner of all of the
                                       tenant's, members and transfers */
    AUTH_AUDIT_READ = 1 << 5,       /* "audit:read": trail and evidence */
    AUTH_POLICY_ADMIN = 1 << 6,     /* "policy:admin": policy, quotas, secrets,
                                       networks of sessions */
    AUTH_APPROVE = 1 << 7,          /* "approve": decide what is held */
};

#define AUTH_TENANT_MAX 64
#define AUTH_NAME_MAX 64
#define AUTH_KEYS_MAX 10000 /* valid ones */
#define AUTH_SCOPES_ALL                                                       \
    (AUTH_EXECUTE | AUTH_FILES_READ | AUTH_FILES_WRITE | AUTH_ADMIN |         \
     AUTH_WORKSPACES_ADMIN | AUTH_AUDIT_READ | AUTH_POLICY_ADMIN |            \
     AUTH_APPROVE)

struct principal {
    char tenant[AUTH_TENANT_MAX];
    char key_id[ID_MAX]; /* key_…, or jwt_… for the subject of a token */
    uint32_t scopes;     /* all of them for an admin's key */
    struct actor_bounds bounds;
};

/* The same for the core; borrows from it. */
struct actor auth_actor(const struct principal *who);

struct auth_key {
    char id[ID_MAX]; /* key_… */
    char tenant[AUTH_TENANT_MAX];
    char name[AUTH_NAME_MAX];
    uint32_t scopes;
    int64_t created_at_ms;
    int64_t revoked_at_ms;   /* 0: valid */
    int64_t last_used_at_ms; /* 0: never; kept to the minute */
};

/* Opens (and on first start makes) DIR/auth.secret and DIR/admin.key (both
 * 0600); the latter holds a key of tenant "default" with scope admin. It is
 * made whenever the store has no valid admin key, and otherwise left alone.
 * Starts a thread. store: borrowed until close. */
int auth_open(struct store *store, const char *data_dir,
              uint32_t failures_per_min, struct auth **ret, struct error *err);
void auth_close(struct auth *a);

/* Tokens (JWT) of one issuer, beside our own keys. All borrowed. */
struct auth_jwt_settings {
    const char *issuer;    /* NULL or empty: none are taken */
    const char *audiences; /* with commas or blanks between */
    const char *jwks_url;  /* its keys: by https, or by http of this machine */
    const char *jwks_file; /* or in a file, which may change */
    const char *tenant;    /* of all of them; else by a claim */
    const char *tenant_claim;
    const char *scope_claims;   /* with commas or blanks between */
    const char *scopes;         /* "Name=execute+files:read,Other=admin" */
    const char *default_scopes; /* of every token; with commas between */
    uint32_t clock_skew_s;
};

/* Once, before the first check. Starts a thread. ERR_INVALID. */
int auth_jwt_open(struct auth *a, const struct auth_jwt_settings *settings,
                  struct error *err);

/* authorization: the header's value or NULL; source: the peer's address,
 * without port. ERR_UNAUTHENTICATED, or ERR_LIMIT with a retry hint while
 * slowed. Without a header nothing was guessed, and nothing is counted.
 * ERR_FORBIDDEN for a right token that allows nothing here. */
int auth_check(struct auth *a, const char *authorization, const char *source,
               struct principal *ret, struct error *err);

/* tenant: [a-z0-9_-]{1,63}; name: at most 63 bytes of printable UTF-8, NULL
 * is empty; scopes: at least one. ERR_INVALID, or ERR_LIMIT at AUTH_KEYS_MAX.
 * The secret is returned once and never kept; owned by caller. */
int auth_key_create(struct auth *a, const char *tenant, const char *name,
                    uint32_t scopes, struct auth_key *ret_key,
                    char **ret_secret, struct error *err);
/* Keys, revoked ones included, newest first; owned by caller. */
int auth_key_list(struct auth *a, struct auth_key **ret_keys,
                  size_t *ret_count, struct error *err);
/* Takes effect at once. ERR_NOT_FOUND if unknown; revoking twice is no error;
 * revoking the last valid admin key is refused with ERR_CONFLICT. */
int auth_key_revoke(struct auth *a, const char *id, struct error *err);

/* "execute,files:read" <-> bits; -ERR_INVALID names the bad one. */
int auth_scopes_parse(const char *text, uint32_t *ret, struct error *err);
/* ret must hold 96 bytes. Returns ret. */
char *auth_scopes_format(uint32_t scopes, char ret[96]);

#endif
