/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the library (library.h):
 *
 *   library_home.c     the workspace that holds it, and names of files
 *   library.c          adding, reading, removing; library_list.c lists
 *   library_sweep.c    removes what has expired
 *   library_uploads.c  multipart uploads
 *
 * A file of the library is a row of `library` beside its row of `files`. The
 * former is only good while the latter is alive and its workspace belongs to
 * the tenant it was added for, so that whatever happens to the workspace
 * (files deleted there, restored, the whole deleted) happens to the library.
 */
#ifndef GLOVEBOX_WORKSPACE_LIBRARY_INT_H
#define GLOVEBOX_WORKSPACE_LIBRARY_INT_H

#include "workspace/library.h"
#include "workspace/workspace_int.h"

/* ---- library_home.c ---------------------------------------------------- */

/* The actor's tenant's, with the role of an editor at least; made if there is
 * none. tx: WRITE. ERR_FORBIDDEN. */
int library_home_make(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, struct workspace_row *ret,
                      struct error *err);
/* ERR_NOT_FOUND when there is none or the actor may not see it. */
int library_home_find(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, struct workspace_row *ret,
                      struct error *err);

/* ---- library_home.c: names
 * ---------------------------------------------------- */

/* The last part of what was sent, as UTF-8 without control characters, at
 * most LIBRARY_NAME_MAX bytes, good as a part of a path. Owned by caller. */
char *library_name(const char *sent);
int library_purpose_check(const char *purpose, struct error *err);

/* ---- library.c --------------------------------------------------------- */

/* What library_file_read reads of `files AS f` and `library AS l`, which may
 * be NULL. */
#define LIBRARY_COLUMNS                                                       \
    "f.id, f.version, f.workspace, f.path, f.size, f.sha256, f.mime,"         \
    " f.created_at_ms, f.by_execution, l.filename, l.purpose,"                \
    " l.created_at_ms, l.expires_at_ms"
void library_file_read(struct store_rows *rows, struct library_file *ret);

/* Asks policy about the file, before the transaction. */
int library_govern(struct workspaces *w, const struct actor *who,
                   const struct library_spec *spec, const char *name,
                   struct error *err);
/* The commit, its event and the row. name: by library_name; row: of the
 * library. The caller calls workspaces_committed. */
int library_put(struct workspaces *w, struct store_tx *tx,
                const struct actor *who, struct workspace_row *row,
                const struct library_spec *spec, const char *name,
                struct library_file *ret, struct error *err);
/* Takes the file at path away, and its row of the library if it has one. */
int library_take(struct workspaces *w, struct store_tx *tx,
                 const struct actor *who, struct workspace_row *row,
                 const char *file, const char *path, const char *action,
                 struct error *err);

/* ---- library_uploads.c ------------------------------------------------- */

/* A row of library_uploads. */
struct library_parts {
    struct library_upload u;       /* status as of now */
    struct workspace_upload under; /* the row that owns the parts; its path
                                      is u.filename */
    char mime[96];                 /* "" : by the name */
    uint32_t expires_s;            /* of the file */
    bool open; /* nothing ended it yet, though its time may be over */
};
void library_parts_done(struct library_parts *p);
/* Its end; file: NULL unless completed. Its parts go. */
int library_parts_end(struct store_tx *tx, const struct library_parts *p,
                      enum library_upload_status status, const char *file,
                      struct error *err);

#endif
