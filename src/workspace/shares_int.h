/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the share links: shares.c manages them, share_access.c serves
 * them, password.c protects them. */
#ifndef GLOVEBOX_WORKSPACE_SHARES_INT_H
#define GLOVEBOX_WORKSPACE_SHARES_INT_H

#include "workspace/workspace_int.h"

#define SHARE_PASSWORD_MAX 128u

/* What share_read reads, of `shares AS s`. */
#define SHARE_COLUMNS                                                         \
    "s.id, s.workspace, s.path, s.version, s.mode, s.password, s.downloads,"  \
    " s.max_downloads, s.created_by, s.created_at_ms, s.expires_at_ms,"       \
    " s.revoked_at_ms"
#define SHARE_COLUMN_COUNT 12
void share_read(struct store_rows *rows, struct workspace_share *ret);
/* A folder, or everything. */
bool share_is_folder(const struct workspace_share *s);

/* ---- share_access.c
 * ------------------------------------------------------------ */

struct share_link {
    struct workspace_share share;
    char *password; /* slow hash, or ""; owned */
};
void share_link_done(struct share_link *l); /* for cleanup() */
int share_no_such(struct error *err);
/* Reads the link as it is now, and its workspace. */
int share_load(struct store_tx *tx, const char *id, struct share_link *ret,
               struct workspace_row *ret_row, struct error *err);

/* ---- password.c: rate limit of attempts ---------------------- */

#define SHARE_TRIES 10u      /* of a source, before its first pause */
#define SHARE_TRIES_FRESH 3u /* between pauses; and first, come what may */
#define SHARE_PAUSE_MS UINT64_C(15000)
#define SHARE_PAUSE_MAX_MS UINT64_C(60000)
#define SHARE_WIDE_TRIES 60u /* of all sources of a link */
#define SHARE_WIDE_REFILL_MS UINT64_C(1000)
#define SHARE_FORGET_MS UINT64_C(1200000) /* without a try */
#define SHARE_KNOWN_MS UINT64_C(600000)   /* a right password */
#define SHARE_HASHES 8u                   /* computed or waited for at once */
#define SHARE_HASHES_LINK 4u              /* of one link */
#define SHARE_HASHES_SOURCE 2u            /* of one source of a link */
#define SHARE_ATTEMPT_SETS 512u
#define SHARE_ATTEMPT_LINK_SETS 128u
#define SHARE_ATTEMPT_WAYS 8u
#define SHARE_ATTEMPT_NAME 16u

struct share_attempt_spec {
    const char *link;     /* id */
    const char *source;   /* address, or NULL */
    const char *hash;     /* of the right password, as stored */
    const char *password; /* the one tried */
};

enum share_attempt_answer {
    SHARE_ATTEMPT_HASH,  /* charged: compute it, then call share_attempt_end */
    SHARE_ATTEMPT_RIGHT, /* known already */
    SHARE_ATTEMPT_WRONG, /* known already */
    SHARE_ATTEMPT_WAIT,  /* not now */
};

/* Filled by share_attempt_begin, for share_attempt_end. */
struct share_attempt {
    unsigned char link[SHARE_ATTEMPT_NAME];
    unsigned char name[SHARE_ATTEMPT_NAME];
    unsigned char password[SHARE_ATTEMPT_NAME];
    bool last;
    void *running;
};

struct share_attempts *share_attempts_new(void);
void share_attempts_free(struct share_attempts *g); /* also of NULL */
/* Waits for the answer when the same source tries the same password already.
 * ret_wait_s: with SHARE_ATTEMPT_WAIT, for how long. */
enum share_attempt_answer share_attempt_begin(
    struct share_attempts *g, const struct share_attempt_spec *spec,
    uint64_t now_ms, struct share_attempt *ret, int *ret_wait_s);
void share_attempt_end(struct share_attempts *g, const struct share_attempt *t,
                       bool right, uint64_t now_ms);

/* ---- password.c --------------------------------------------------------- */

/* A salted, slow hash as text; owned by caller. */
char *share_password_hash(const char *password);
/* Constant time, apart from the length of the hash. */
bool share_password_matches(const char *hash, const char *password);

#endif
