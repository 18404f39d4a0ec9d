/* SPDX-License-Identifier: Apache-2.0 */
/* Between uploads.c, upload_join.c and the uploads of the library. */
#ifndef GLOVEBOX_WORKSPACE_UPLOADS_INT_H
#define GLOVEBOX_WORKSPACE_UPLOADS_INT_H

#include "workspace/workspace_int.h"

#define UPLOAD_LIFE_MS (24 * 3600 * 1000ll) /* since the last sign of life */

/* ERR_NOT_FOUND for one that is unknown, foreign or expired. ret: without
 * its parts; for workspace_upload_done. */
int upload_find(struct workspaces *w, struct store_tx *tx,
                const struct actor *who, const char *id,
                struct workspace_upload *ret, struct workspace_row *ret_row,
                struct error *err);
int upload_parts(struct store_tx *tx, struct workspace_upload *u,
                 struct error *err);
/* It lives a day longer. */
int upload_extend(struct store_tx *tx, const char *id, struct error *err);
int upload_remove(struct store_tx *tx, const char *id, struct error *err);

/* ERR_TOO_LARGE for a file that parts may not make. */
int upload_size_check(const struct workspaces *w, uint64_t size,
                      struct error *err);
/* ERR_LIMIT when a workspace has too many of them. */
int upload_count_check(struct store_tx *tx, const char *workspace,
                       struct error *err);
/* The row; id, workspace, path, size and times of u. */
int upload_insert(struct store_tx *tx, const struct actor *who,
                  const struct workspace_upload *u, struct error *err);
int upload_part_insert(struct store_tx *tx, const char *id, uint32_t number,
                       const char *sha256, uint64_t size, struct error *err);
/* What this upload and all of the workspace have in parts other than this
 * number. */
int upload_add_up(struct store_tx *tx, const struct workspace_upload *u,
                  uint32_t number, uint64_t *ret_own, uint64_t *ret_all,
                  struct error *err);

/* ---- upload_join.c ------------------------------------------------------
 */

#define UPLOAD_MD5 16u

/* What parts gave together; pinned if they were joined. */
struct upload_whole {
    struct blobs *blobs;
    char sha256[BLOB_NAME];
    uint64_t size;
    bool pinned;
    unsigned char md5[UPLOAD_MD5]; /* if asked for */
};
void upload_whole_done(struct upload_whole *whole); /* for cleanup() */
/* The parts of u in the order they have there. ret: its blobs must be set. */
int upload_join(struct workspaces *w, const struct workspace_upload *u,
                const char *owner, bool with_md5, struct upload_whole *ret,
                struct error *err);

#endif
