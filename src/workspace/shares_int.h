/* SPDX-License-Identifier: Apache-2.0 */
/* Between shares.c (those who make links), visit.c and visit_files.c (those
 * who follow them) and password.c. */
#ifndef GLOVEBOX_WORKSPACE_SHARES_INT_H
#define GLOVEBOX_WORKSPACE_SHARES_INT_H

#include "workspace/workspace_int.h"

#define SHARE_PASSWORD_MAX 128u
#define SHARE_FAILURES_MAX 10 /* in a row; then refused for a while */
#define SHARE_REFUSED_MS 60000ll

/* What share_read reads, of `shares AS s`. */
#define SHARE_COLUMNS                                                         \
    "s.id, s.workspace, s.path, s.version, s.mode, s.password, s.downloads,"  \
    " s.max_downloads, s.created_by, s.created_at_ms, s.expires_at_ms,"       \
    " s.revoked_at_ms"
#define SHARE_COLUMN_COUNT 12
void share_read(struct store_rows *rows, struct workspace_share *ret);
/* A folder, or everything. */
bool share_is_folder(const struct workspace_share *s);

/* ---- visit.c ------------------------------------------------------------ */

struct share_link {
    struct workspace_share share;
    char *password; /* slow hash, or ""; owned */
    int64_t failures;
};
void share_link_done(struct share_link *l); /* for cleanup() */
int share_no_such(struct error *err);
/* The link as it is now, and its workspace. */
int share_enter(struct store_tx *tx, const char *id, struct share_link *ret,
                struct workspace_row *ret_row, struct error *err);

/* ---- password.c --------------------------------------------------------- */

/* A salted, slow hash as text; owned by caller. */
char *share_password_hash(const char *password);
/* Constant time, apart from the length of the hash. */
bool share_password_matches(const char *hash, const char *password);

#endif
