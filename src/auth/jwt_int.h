/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by jwt*.c. jwt_token.c parses a token and verifies its signature;
 * jwt_keys.c has the issuer's keys, which a thread fetches and keeps fresh;
 * jwt_claims.c turns the claims into a principal. jwt.c is the spine, and
 * caches verified tokens until they expire.
 */
#ifndef GLOVEBOX_AUTH_JWT_INT_H
#define GLOVEBOX_AUTH_JWT_INT_H

#include <jansson.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/auth.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"

#define JWT_TOKEN_MAX ((size_t)16 << 10)
#define JWT_SET_MAX ((size_t)256 << 10) /* of the issuer's keys as text */
#define JWT_KEYS_MAX 64
#define JWT_RSA_MIN_BITS 2048
#define JWT_RSA_MAX_BITS 8192
#define JWT_SKEW_MAX_S 600
#define JWT_LIST_MAX 64 /* audiences, claims, names of scopes */

/* ---- jwt_token.c: algorithms and signatures ----------------------------- */

enum jwt_family {
    JWT_RSA,
    JWT_EC,
};

/* All there are: no "none", nothing with a shared secret. */
struct jwt_alg {
    const char *name;
    const char *digest;
    enum jwt_family family;
    bool pss;
    const char *curve; /* as JWKs call it; EC */
    size_t half;       /* bytes of each of the signature's numbers; EC */
};

/* NULL: none of ours. */
const struct jwt_alg *auth_jwt_alg(const char *name);
/* True only when the signature is right. */
bool auth_jwt_verify(const struct jwt_alg *alg, EVP_PKEY *key,
                     const void *text, size_t text_len,
                     const unsigned char *signature, size_t signature_len);

/* ---- jwt_token.c: the compact form -------------------------------------- */

struct jwt_token {
    const struct jwt_alg *alg;
    const char *kid; /* NULL: not said; the header's */
    const char *text;
    size_t text_len; /* of what is signed; borrowed */
    unsigned char *signature;
    size_t signature_len;
    json_t *header, *claims;
};

/* text: borrowed while ret is in use. Nothing of it is believed yet. */
int auth_jwt_token_read(const char *text, struct jwt_token *ret,
                        struct error *err);
void auth_jwt_token_done(struct jwt_token *t); /* for cleanup() */
/* base64url without padding, strictly; NULL when it is not. Owned by
 * caller. */
unsigned char *auth_jwt_base64(const char *text, size_t len, size_t *ret_len);

/* ---- jwt_keys.c: the issuer's keys -------------------------------------- */

struct jwt_key {
    char *kid; /* NULL: not said */
    EVP_PKEY *key;
    enum jwt_family family;
    const char *curve;         /* EC */
    const struct jwt_alg *alg; /* the only one it may be used with, or NULL */
};

struct jwt_keys {
    size_t count;
    struct jwt_key key[JWT_KEYS_MAX];
};

/* A JWK set. What is not for verifying with one of our algorithms is left
 * out; ERR_INVALID when nothing is left. Owned by caller. */
int auth_jwt_keys_parse(const char *text, size_t len, struct jwt_keys **ret,
                        struct error *err);
void auth_jwt_keys_free(struct jwt_keys *k);
/* By kid, or without one the only key that fits. NULL: none. Borrowed. */
EVP_PKEY *auth_jwt_keys_find(const struct jwt_keys *k, const char *kid,
                             const struct jwt_alg *alg);

/* ---- jwt_claims.c: what is claimed -------------------------------------- */

struct jwt_rule { /* a name in a token, and what it allows */
    char *name;
    uint32_t scopes;
};

struct jwt_rules {
    char *issuer;
    char *audiences[JWT_LIST_MAX];
    char *tenant_claim;
    char *tenant; /* the tenant of all subjects, or NULL */
    char *scope_claims[JWT_LIST_MAX];
    struct jwt_rule scopes[JWT_LIST_MAX];
    size_t audience_count, scope_claim_count, scope_count;
    uint32_t default_scopes;
    char *bound_claims[ACTOR_BOUNDS]; /* NULL: none says so */
    uint32_t skew_s;
};

int auth_jwt_rules_init(struct jwt_rules *r,
                        const struct auth_jwt_settings *settings,
                        struct error *err);
void auth_jwt_rules_done(struct jwt_rules *r);
/* Checks every claim at that time. ret_until_ms: when it stops being good.
 * ERR_UNAUTHENTICATED with the cause; ERR_FORBIDDEN when all is right but
 * nothing is allowed. */
int auth_jwt_claims(const struct jwt_rules *r, const json_t *claims,
                    int64_t now_ms, struct principal *ret,
                    int64_t *ret_until_ms, struct error *err);

/* ---- jwt.c: verified tokens --------------------------------------------- */

#define JWT_CACHE_SETS 1024
#define JWT_CACHE_WAYS 4

struct jwt_cached {
    unsigned char hash[HASH_SIZE]; /* of the token */
    struct principal who;
    int64_t until_ms; /* 0: empty */
    uint64_t keys;    /* the generation it was verified with */
    uint64_t used;
};

struct jwt_cache {
    uint64_t uses;
    struct jwt_cached slot[JWT_CACHE_SETS][JWT_CACHE_WAYS];
};

/* Not locked. keys: the generation of now; what older ones verified is no
 * longer believed. */
bool auth_jwt_cache_get(struct jwt_cache *c,
                        const unsigned char hash[HASH_SIZE], uint64_t keys,
                        int64_t now_ms, struct principal *ret);
void auth_jwt_cache_put(struct jwt_cache *c,
                        const unsigned char hash[HASH_SIZE], uint64_t keys,
                        int64_t now_ms, int64_t until_ms,
                        const struct principal *who);

/* ---- jwt_keys.c: fetching ----------------------------------------------- */

#define JWT_FETCH_EVERY_S 3600
#define JWT_FETCH_MS 10000 /* for one attempt */
#define JWT_FILE_EVERY_S 2
#define JWT_RETRY_FIRST_S 5 /* after a failure; twice as long each time */
#define JWT_RETRY_MAX_S 300
#define JWT_ASK_MAX 4u      /* attempts that tokens may ask for in a row */
#define JWT_ASK_REGAIN_S 60 /* until one more */
#define JWT_WAITERS_MAX 8u  /* requests that wait for such an attempt */

/* ---- jwt.c -------------------------------------------------------------- */

struct auth_jwt {
    struct jwt_rules rules;
    char *url, *file; /* one of them */
    struct thread thread;
    struct mutex lock;     /* of what follows */
    struct cond wake;      /* of the thread */
    struct cond tried;     /* an attempt is over */
    _Atomic bool stopping; /* also read without the lock */
    bool wanted;           /* an attempt should start now */
    bool trying;           /* one is under way */
    uint64_t attempts;     /* that are over */
    unsigned asks_left;    /* of JWT_ASK_MAX */
    uint64_t asks_at_ms;
    unsigned waiters;
    struct jwt_keys *keys;          /* NULL: none yet */
    uint64_t generation;            /* of the keys */
    unsigned char known[HASH_SIZE]; /* of their text */
    struct jwt_cache *cache;
};

int auth_jwt_fetch_start(struct auth_jwt *j, struct error *err);
void auth_jwt_fetch_stop(struct auth_jwt *j);
/* Has the keys looked for once more, unless that was asked for too often, and
 * waits for it. Lock held; let go of meanwhile. False: not done. */
bool auth_jwt_fetch_again(struct auth_jwt *j);

/* ERR_UNAUTHENTICATED with the cause, for the log only; ERR_FORBIDDEN. */
int auth_jwt_check(struct auth_jwt *j, const char *token,
                   struct principal *ret, struct error *err);
/* The same for the proof that somebody has signed in (an ID token): it is for
 * this client alone, and of the sign-in with this nonce. Never cached. */
int auth_jwt_check_id(struct auth_jwt *j, const char *token, char *client,
                      const char *nonce, struct principal *ret,
                      struct error *err);
void auth_jwt_free(struct auth_jwt *j);

#endif
