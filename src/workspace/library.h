/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that were uploaded for themselves, to be used in sessions later: the
 * tenant's library. They live in a workspace of their own, made with the
 * first of them, named "Files" and found like any other; a row beside each
 * says what it was uploaded for and when it is to go. Also the order in which
 * files came, which listings of doors go by. Any thread may call; results as
 * in workspace.h.
 */
#ifndef GLOVEBOX_WORKSPACE_LIBRARY_H
#define GLOVEBOX_WORKSPACE_LIBRARY_H

#include "workspace/workspace.h"

#define LIBRARY_NAME_MAX 255u   /* bytes of a file's name */
#define LIBRARY_PURPOSE_MAX 32u /* [a-z_-] */
#define LIBRARY_LIST_MAX 10000u
#define LIBRARY_UPLOAD_S 3600u /* an upload in parts lives so long */
#define LIBRARY_PARTS_MAX 10000u

struct library_file {
    char file[ID_MAX], version[ID_MAX], workspace[ID_MAX];
    char *filename; /* owned */
    char purpose[LIBRARY_PURPOSE_MAX + 1];
    uint64_t size;
    char sha256[BLOB_NAME];
    char mime[96];
    int64_t created_at_ms;
    int64_t expires_at_ms; /* 0: never */
};
void library_file_done(struct library_file *f);
void library_files_free(struct library_file *files, size_t count);

struct library_spec {
    const char *filename; /* its last part counts, by / and \ */
    const char *purpose;
    const char *mime;   /* NULL: by the name */
    const char *sha256; /* a blob that is there and pinned, in the owner of
                           library_blob_owner */
    uint64_t size;
    uint32_t expires_s; /* 0: never */
};

/* For blob_begin, before a body is read. Makes the library if need be. */
int library_blob_owner(struct workspaces *w, const struct actor *who,
                       char ret[BLOB_OWNER], struct error *err);
/* A new file each time, whatever it is called. */
int library_add(struct workspaces *w, const struct actor *who,
                const struct library_spec *spec, struct library_file *ret,
                struct error *err);
/* One of the library, or else any file the actor may see, by its id: a file
 * that a session created has the purpose "assistants_output", an uploaded one
 * "user_data". An expired file is not found. */
int library_get(struct workspaces *w, const struct actor *who,
                const char *file, struct library_file *ret, struct error *err);
/* Only of the library. By age, then id; page->after: a file's id, an unknown
 * one gives an empty page. purpose: NULL for all. */
int library_list(struct workspaces *w, const struct actor *who,
                 const char *purpose, bool oldest_first,
                 const struct page *page, struct library_file **ret,
                 struct page_result *ret_page, struct error *err);
/* One of the library leaves it (a commit, so history has it until retention
 * ends it); of another file only the head's entry is removed. */
int library_remove(struct workspaces *w, const struct actor *who,
                   const char *file, struct error *err);
/* Removes what has expired; called by the maintenance round. */
int library_sweep(struct workspaces *w, uint64_t *ret_removed,
                  struct error *err);

/* ---- in parts: any order, put in order at the end ---------------------- */

enum library_upload_status {
    LIBRARY_PENDING,
    LIBRARY_COMPLETED,
    LIBRARY_CANCELLED,
    LIBRARY_EXPIRED,
};

struct library_upload {
    char id[ID_MAX]; /* upload_… */
    char *filename;  /* owned */
    char purpose[LIBRARY_PURPOSE_MAX + 1];
    uint64_t size; /* as declared */
    enum library_upload_status status;
    int64_t created_at_ms, expires_at_ms;
    char file[ID_MAX]; /* "" until completed */
};
void library_upload_done(struct library_upload *u);

/* spec: without sha256; its expires_s is the file's. */
int library_upload_begin(struct workspaces *w, const struct actor *who,
                         const struct library_spec *spec,
                         struct library_upload *ret, struct error *err);
int library_upload_get(struct workspaces *w, const struct actor *who,
                       const char *upload, struct library_upload *ret,
                       struct error *err);
/* sha256: a pinned blob. ret_part: its id, part_…; every call makes a new
 * one. ERR_CONFLICT unless pending. */
int library_upload_part(struct workspaces *w, const struct actor *who,
                        const char *upload, const char *sha256, uint64_t size,
                        char ret_part[ID_MAX], int64_t *ret_created_ms,
                        struct error *err);
/* parts: ids in their final order, each once; those not named are dropped.
 * md5: hex, or NULL. A wrong sum of sizes or md5: ERR_INVALID, and the upload
 * stays pending. */
int library_upload_complete(struct workspaces *w, const struct actor *who,
                            const char *upload, const char *const *parts,
                            size_t part_count, const char *md5,
                            struct library_upload *ret,
                            struct library_file *ret_file, struct error *err);
int library_upload_cancel(struct workspaces *w, const struct actor *who,
                          const char *upload, struct library_upload *ret,
                          struct error *err);

/* ---- by age ------------------------------------------------------------ */

struct workspace_aged_file {
    struct workspace_file file;
    int64_t created_at_ms;
    bool by_execution; /* code made it first, not an upload */
};
void workspace_list_by_age_free(struct workspace_aged_file *files,
                                size_t count);

/* The files at the head by the time they first came, then id. page->after: a
 * file's id, an unknown one gives an empty page. */
int workspace_list_by_age(struct workspaces *w, const struct actor *who,
                          const char *id, bool oldest_first,
                          const struct page *page,
                          struct workspace_aged_file **ret,
                          struct page_result *ret_page, struct error *err);
/* One of them; not at the head: ERR_NOT_FOUND. ret: workspace_file_done. */
int workspace_list_by_age_find(struct workspaces *w, const struct actor *who,
                               const char *id, const char *file,
                               struct workspace_aged_file *ret,
                               struct error *err);

#endif
