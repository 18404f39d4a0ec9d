/* SPDX-License-Identifier: Apache-2.0 */
/* Between uploads.c and upload_join.c. */
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

#endif
