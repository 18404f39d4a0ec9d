/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of an upload, for uploads.c and library_uploads.c. tx is a WRITE
 * transaction of the caller. */
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
/* The upload lives for at least that long from now on. */
int upload_extend(struct store_tx *tx, const char *id, int64_t life_ms,
                  struct error *err);
int upload_remove(struct store_tx *tx, const char *id, struct error *err);

/* ERR_TOO_LARGE for a file that parts may not make. */
int upload_size_check(const struct workspaces *w, uint64_t size,
                      struct error *err);
/* ERR_INVALID unless the parts of u have the declared size together. */
int upload_sum_check(const struct workspace_upload *u, struct error *err);
/* shown: the id that clients know it by; NULL: u->id. */
int upload_audit(struct workspaces *w, struct store_tx *tx,
                 const struct actor *who, const struct workspace_upload *u,
                 const char *shown, const char *action, const char *detail,
                 struct error *err);
/* Inserts u, of which path and size are set, and audits it. ERR_LIMIT when the
 * workspace has too many; ERR_SPACE. */
int upload_start(struct workspaces *w, struct store_tx *tx,
                 const struct actor *who, const struct workspace_row *row,
                 const char *shown, int64_t life_ms,
                 struct workspace_upload *u, struct error *err);

struct upload_part {
    uint32_t number;
    const char *sha256; /* a pinned blob */
    uint64_t size;
};
/* Adds or replaces a part. spare: bytes that parts may have beyond the
 * declared size, because some will be dropped; 0: the limit of a file applies
 * to their sum. ERR_INVALID, ERR_TOO_LARGE, ERR_SPACE. */
int upload_put_part(struct workspaces *w, struct store_tx *tx,
                    const struct workspace_row *row,
                    const struct workspace_upload *u,
                    const struct upload_part *part, uint64_t spare,
                    struct error *err);

#define UPLOAD_MD5 16u

/* The joined parts; pinned if a blob was written for them. */
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
