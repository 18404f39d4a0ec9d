/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication: finds the principal of a bearer key. A key is "gbx_" and 256
 * random bits in hex. Only its HMAC-SHA-256 under a secret of the data
 * directory is stored, and keys are looked up by that hash. Guessing is
 * slowed per source and per key prefix: answers to failures beyond the limit
 * are delayed, for a period that grows to ten minutes. A valid key is never
 * refused, so that an attacker cannot lock its owner out by guessing (I5). All
 * functions may be called from any thread.
 *
 * A token ("gbt_" and 256 bits) is a key that ends by itself, minted from a
 * key or another token and never wider than that. It acts as the key at its
 * root and may use what that key owns, within its own scopes and bounds. It
 * is revoked together with its parent.
 *
 * How the pieces work together: the store holds the keys; auth.c loads the
 * valid ones into a table in memory, so that auth_check does no I/O, and one
 * thread writes back when keys were last used and drops what has ended;
 * key.c makes and revokes; token.c mints; key_restrictions.c checks the lists
 * of pools, workspaces and sessions a key is restricted to; key_store.c has
 * the SQL; secret.c keeps the two files of the data directory; throttle.c
 * counts failures; scopes.c has the names; jwt*.c accept the tokens of one
 * other issuer, when one is configured, and subject.c keeps the names of
 * those they are for; link.c has the links that sign a browser in, once, and
 * oidc.c lets people sign in with the issuer.
 */
#ifndef GLOVEBOX_AUTH_AUTH_H
#define GLOVEBOX_AUTH_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/ids.h"

struct auth;
struct buf;
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
#define AUTH_KEY_TTL_MAX_S (3650u * 86400u)
#define AUTH_TOKEN_TTL_MIN_S 5u
#define AUTH_TOKEN_TTL_MAX_S 86400u
#define AUTH_TOKENS_MAX 10000u   /* live ones of a tenant */
#define AUTH_TOKEN_DEPTH_MAX 8u  /* tokens of tokens of … */
#define AUTH_TOKEN_LIST_MAX 1000 /* of one page */
#define AUTH_SCOPES_ALL                                                       \
    (AUTH_EXECUTE | AUTH_FILES_READ | AUTH_FILES_WRITE | AUTH_ADMIN |         \
     AUTH_WORKSPACES_ADMIN | AUTH_AUDIT_READ | AUTH_POLICY_ADMIN |            \
     AUTH_APPROVE)

struct principal {
    char tenant[AUTH_TENANT_MAX];
    char key_id[ID_MAX]; /* key_…, or jwt_… for the subject of a token of the
                            issuer; of a token of ours the one at its root */
    char name[AUTH_NAME_MAX]; /* the key's name, or what the issuer's token
                                 calls its subject; "" none */
    char token[ID_MAX];       /* tok_… when that was shown; else "" */
    uint32_t scopes;          /* all of them for an admin's key */
    int64_t expires_at_ms;    /* 0: never */
    struct actor_bounds bounds;
    bool slowed; /* after a failure: too many of them lately, so the answer
                    should be sent late */
};

/* The credential that was presented: the token's id, else the key's or the
 * subject's. */
const char *auth_shown(const struct principal *who);
/* The same for the core; borrows from it. */
struct actor auth_actor(const struct principal *who);

struct auth_key {
    char id[ID_MAX]; /* key_… or tok_… */
    char tenant[AUTH_TENANT_MAX];
    char name[AUTH_NAME_MAX];
    uint32_t scopes;
    struct actor_bounds bounds;
    char parent[ID_MAX], root[ID_MAX]; /* of a token: whose it is */
    int64_t expires_at_ms;             /* 0: never */
    int64_t created_at_ms;
    int64_t revoked_at_ms;   /* 0: valid */
    int64_t last_used_at_ms; /* 0: never; kept to the minute */
};

/* Opens (and on first start makes) DIR/auth.secret and DIR/admin.key (both
 * 0600); the latter holds a key of tenant "default" with scope admin. It is
 * made when the store has no valid admin key; a file that is there is never
 * replaced.
 * Starts a thread. store: borrowed until close. */
int auth_open(struct store *store, const char *data_dir,
              uint32_t failures_per_min, struct auth **ret, struct error *err);
/* Reads the keys again, after another node has changed them; the notification
 * is on this channel. */
#define AUTH_CHANNEL "keys"
int auth_reload(struct auth *a, struct error *err);
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
    /* Claims that name the pools or workspaces a token is bound to; NULL or
     * empty: none does. A token without its claim is bound to nothing. */
    const char *pool_claim, *workspace_claim;
    uint32_t clock_skew_s;
};

/* Once, before the first check. Starts a thread. ERR_INVALID. */
int auth_jwt_open(struct auth *a, const struct auth_jwt_settings *settings,
                  struct error *err);

/* ---- signing in with the issuer (OpenID Connect) -------------------------
 */

struct auth_oidc_settings {         /* all borrowed */
    const char *issuer;             /* of auth_jwt_settings */
    const char *client_id;          /* NULL or empty: sign-in is off */
    const char *client_secret_file; /* empty: a public client */
    const char *scopes;             /* with blanks between */
    const char *authorization_url, *token_url; /* empty: discovered */
    uint32_t login_s;
};

/* Once, after auth_jwt_open and before the first request. ERR_INVALID. */
int auth_oidc_open(struct auth *a, const struct auth_oidc_settings *settings,
                   struct error *err);
bool auth_oidc_offered(const struct auth *a);

#define AUTH_OIDC_TICKET_SIZE 64u
#define AUTH_OIDC_TTL_S 600u /* from the start to the return */
#define AUTH_OIDC_WORD 44u   /* 256 bits in base64url, with its end */

/* ret_ticket: for a cookie of the browser; ret_url: where it goes next. May
 * look up the issuer's endpoints. ERR_UNAVAILABLE, ERR_BUSY. */
int auth_oidc_start(struct auth *a, const char *redirect_uri,
                    char ret_ticket[AUTH_OIDC_TICKET_SIZE],
                    struct buf *ret_url, struct error *err);

struct auth_oidc_login {
    char verifier[AUTH_OIDC_WORD], nonce[AUTH_OIDC_WORD];
};
/* A browser comes back with its cookie and a state; good once.
 * ERR_UNAUTHENTICATED, counted as a guess of that source. */
int auth_oidc_take(struct auth *a, const char *ticket, const char *state,
                   const char *source, struct auth_oidc_login *ret,
                   bool *ret_slowed, struct error *err);
/* Exchanges the code and checks who signed in. The principal ends after
 * login_s. ERR_UNAUTHENTICATED, ERR_FORBIDDEN as of auth_check,
 * ERR_UNAVAILABLE, ERR_BUSY; the messages have nothing of code and token. */
int auth_oidc_finish(struct auth *a, const struct auth_oidc_login *login,
                     const char *code, const char *redirect_uri,
                     struct principal *ret, struct error *err);
/* Is it the issuer that answered (RFC 9207)? */
bool auth_oidc_is_issuer(const struct auth *a, const char *issuer);

/* authorization: the header's value or NULL; source: the peer's address,
 * without port. ERR_UNAUTHENTICATED, and ret->slowed after too many failures.
 * Without a header nothing was guessed, and nothing is counted.
 * ERR_FORBIDDEN for a right token that allows nothing here. */
int auth_check(struct auth *a, const char *authorization, const char *source,
               struct principal *ret, struct error *err);

/* Is what the principal has shown still good? For those who act on a request
 * for long. No I/O. */
bool auth_still_valid(struct auth *a, const struct principal *who);

/* tenant: [a-z0-9_-]{1,63}; name: at most 63 bytes of printable UTF-8, NULL
 * is empty; scopes: at least one. ERR_INVALID, or ERR_LIMIT at AUTH_KEYS_MAX.
 * The secret is returned once and never kept; owned by caller. */
int auth_key_create(struct auth *a, const char *tenant, const char *name,
                    uint32_t scopes, struct auth_key *ret_key,
                    char **ret_secret, struct error *err);

struct auth_key_spec {
    const char *tenant, *name;
    uint32_t scopes;
    const struct actor_bounds *bounds; /* NULL: none */
    uint32_t expires_in_s;             /* 0: never; else at most
                                          AUTH_KEY_TTL_MAX_S */
};
/* The same, narrowed. Bounds are checked for their form only. */
int auth_key_create_as(struct auth *a, const struct auth_key_spec *spec,
                       struct auth_key *ret_key, char **ret_secret,
                       struct error *err);
/* Keys, revoked ones included, newest first; owned by caller. */
int auth_key_list(struct auth *a, struct auth_key **ret_keys,
                  size_t *ret_count, struct error *err);
/* By id, revoked or not. ERR_NOT_FOUND. */
int auth_key_get(struct auth *a, const char *id, struct auth_key *ret,
                 struct error *err);
/* The valid key that a user means by an id or by a name that only one key
 * has. tenant NULL: of any. ERR_NOT_FOUND; ERR_CONFLICT for a name that
 * several keys have. */
int auth_key_resolve(struct auth *a, const char *tenant, const char *name,
                     struct auth_key *ret, struct error *err);
/* The name of a key or token, revoked ones included, or what the newest token
 * of an issuer's subject (jwt_…) calls it; "" when it has none or there is no
 * such key. */
void auth_key_name(struct auth *a, const char *id, char ret[AUTH_NAME_MAX]);
/* Takes effect at once, for its tokens too. ERR_NOT_FOUND if unknown;
 * revoking twice is no error; revoking the last valid admin key is refused
 * with ERR_CONFLICT. */
int auth_key_revoke(struct auth *a, const char *id, struct error *err);
/* Changes of a key; NULL, 0 and an empty list leave a property as it is. */
struct auth_key_patch {
    const char *name;
    uint32_t scopes;                   /* a subset of the key's */
    const struct actor_bounds *bounds; /* each list within the key's */
    uint32_t expires_in_s;             /* no later than now */
};
/* Renames or narrows a valid key, at once. Narrowing revokes its tokens, which
 * could have more rights than the key. ERR_NOT_FOUND; ERR_INVALID for a wider
 * key; ERR_CONFLICT for the last admin key. */
int auth_key_narrow(struct auth *a, const char *id,
                    const struct auth_key_patch *patch, struct auth_key *ret,
                    struct error *err);
/* Replaces the secret of a valid key. The old secret and the key's tokens end
 * at once; what the key owns stays its own. The secret as of auth_key_create.
 * ERR_NOT_FOUND. */
int auth_key_rotate(struct auth *a, const char *id, struct auth_key *ret,
                    char **ret_secret, struct error *err);
/* It and its tokens end then, or when they would have, if that is sooner. */
int auth_key_expire(struct auth *a, const char *id, int64_t at_ms,
                    struct error *err);

/* ---- tokens ------------------------------------------------------------- */

struct auth_token_spec {
    const char *name; /* as a key's; NULL is empty */
    uint32_t ttl_s;   /* AUTH_TOKEN_TTL_MIN_S to _MAX_S; ends with the parent
                         where that is sooner */
    uint32_t scopes;  /* 0: the parent's, but admin only by name */
    /* Narrowed to this one; NULL: as the parent is. The caller has seen to it
     * that the parent may use it. */
    const char *only[ACTOR_BOUNDS];
};
/* ERR_INVALID, ERR_FORBIDDEN for what the parent has not, ERR_LIMIT,
 * ERR_UNAUTHENTICATED when the parent has ended meanwhile. The secret as of
 * auth_key_create. */
int auth_token_mint(struct auth *a, const struct principal *parent,
                    const struct auth_token_spec *spec,
                    struct auth_key *ret_token, char **ret_secret,
                    struct error *err);
/* The live tokens that the principal may revoke, newest first: a key sees the
 * tokens derived from it, a token itself and those below it, an admin all
 * tokens of its tenant. after:
 * an id or NULL (unknown: ERR_INVALID). Owned by caller. */
int auth_token_list(struct auth *a, const struct principal *who,
                    unsigned limit, const char *after,
                    struct auth_key **ret_tokens, size_t *ret_count,
                    bool *ret_more, struct error *err);
/* With all below it, at once. An admin's key revokes any. ERR_NOT_FOUND. */
int auth_token_revoke(struct auth *a, const struct principal *who,
                      const char *id, struct error *err);

/* ---- one-time links ----------------------------------------------------- */

#define AUTH_LINK_PREFIX "gbl_"
#define AUTH_LINK_SIZE 69u /* of the secret, with its end */

/* A secret that can be exchanged once for who, within ttl_s. A principal has
 * a few at a time; one more ends its oldest. ERR_LIMIT when the table is
 * full. */
int auth_link_make(struct auth *a, const struct principal *who, uint32_t ttl_s,
                   char ret_secret[AUTH_LINK_SIZE], struct error *err);
/* Ends the link. ERR_UNAUTHENTICATED, counted as a guess of that source; see
 * auth_check about ret->slowed. */
int auth_link_take(struct auth *a, const char *secret, const char *source,
                   struct principal *ret, struct error *err);

/* ---- key_restrictions.c ------------------------------------------------- */

/* Adds an id, or a pool's name, to a list. ERR_INVALID for a bad form or when
 * the list is full; twice is no error. */
int auth_restriction_add(struct actor_bounds *b, enum actor_bound what,
                         const char *id, struct error *err);
const char *auth_restriction_name(enum actor_bound what); /* "pools", … */

/* "execute,files:read" <-> bits; -ERR_INVALID names the bad one. */
int auth_scopes_parse(const char *text, uint32_t *ret, struct error *err);
/* ret must hold 96 bytes. Returns ret. */
char *auth_scopes_format(uint32_t scopes, char ret[96]);

#endif
