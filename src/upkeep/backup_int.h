/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup is a folder:
 *
 *   glovebox.db                 a copy of the store
 *   auth.secret audit.secret audit.sign.key vault.key admin.key   those
 *                               there are
 *   blobs/ab/abcdef…            every blob that copy refers to
 *   manifest                    "<sha256> <size> <name>" for each of them, and
 *                               at its end the same of all lines above
 *
 * The manifest is made last, under another name, and renamed when all else is
 * on disk: a folder without one is no backup.
 *
 * A sealed backup is one encrypted file (seal.c) with the same files in it
 * (sealed.c) and no manifest, because it authenticates itself.
 */
#ifndef GLOVEBOX_WORKSPACE_BACKUP_INT_H
#define GLOVEBOX_WORKSPACE_BACKUP_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"

struct error;
struct seal;
struct upkeep;

#define BACKUP_DB "glovebox.db"
#define BACKUP_MANIFEST "manifest"
#define BACKUP_NAME_MAX 80

/* Files beside the store and the blobs; any may be missing. */
extern const char *const backup_secrets[];
#define BACKUP_SECRETS 5

typedef void backup_progress_fn(void *ctx, const char *what, uint64_t done,
                                uint64_t total);

/* Reports progress, at most ten times a second. */
struct backup_progress {
    backup_progress_fn *fn; /* or NULL */
    void *ctx;
    const char *what;
    uint64_t done, total;
    uint64_t told_ms;
};
/* The next part; what: one word. */
void backup_progress_begin(struct backup_progress *p, const char *what,
                           uint64_t total);
void backup_progress_add(struct backup_progress *p, uint64_t more);
void backup_progress_end(struct backup_progress *p);

/* ---- copying ------------------------------------------------------------ */

struct backup_file {
    char name[BACKUP_NAME_MAX]; /* in the folder */
    char sha256[HASH_HEX];
    uint64_t size;
};

int backup_copy_failed(int errnum, const char *what, struct error *err);
/* All of `from` (at its offset) into a new file `name` of dir, readable
 * by the owner alone unless mode says otherwise; not synced. ret: hash and
 * size. */
int backup_copy(int from, int dir, const char *name, mode_t mode,
                struct backup_progress *progress, struct backup_file *ret,
                struct error *err);
/* Hash and size of a file. */
int backup_copy_measure(int dir, const char *name, struct backup_file *ret,
                        struct error *err);
/* blobs/ and blobs/ab for a blob's name. */
int backup_copy_folder(int dir, const char *sha256, struct error *err);
/* Makes the folder if there is none; ERR_CONFLICT if there is something in
 * it. ret_made: it was made. */
int backup_copy_target(const char *path, const char *what, int *ret_dir,
                       bool *ret_made, struct error *err);

/* ---- seal.c: an encrypted stream ---------------------------------------- */

/* fd: borrowed. secret: borrowed for the call. */
int seal_create(int fd, const char *secret, size_t len, struct seal **ret,
                struct error *err);
int seal_write(struct seal *s, const void *bytes, size_t len,
               struct error *err);
/* The last chunk; not synced. */
int seal_finish(struct seal *s, struct error *err);
/* ERR_INVALID for a file that is no sealed backup, ERR_CORRUPT for another
 * key or damage. */
int seal_open(int fd, const char *secret, size_t len, struct seal **ret,
              struct error *err);
/* Exactly len bytes; fewer are ERR_CORRUPT. */
int seal_read(struct seal *s, void *ret, size_t len, struct error *err);
/* Nothing may follow. */
int seal_read_end(struct seal *s, struct error *err);
void seal_free(struct seal **s); /* for cleanup() */

/* ---- sealed.c: files in a sealed stream --------------------------------- */

/* Adds the file, of which name is set; sets hash and size. */
int sealed_add(struct seal *s, int from, struct backup_progress *progress,
               struct backup_file *f, struct error *err);
/* The end, after `files` of them. */
int sealed_end(struct seal *s, uint64_t files, struct error *err);
/* The next file: 1 and its name and size, or 0 at the end, which was checked.
 * Names are of the few valid forms. */
int sealed_next(struct seal *s, uint64_t *files, struct backup_file *ret,
                struct error *err);
/* Its bytes, into a new file of dir; sets the hash. */
int sealed_extract(struct seal *s, int dir, const char *name, mode_t mode,
                   struct backup_progress *progress, struct backup_file *f,
                   struct error *err);

/* A sealed backup of everything into an empty file, which is synced. */
int backup_sealed(struct upkeep *u, int to, const char *secret, size_t len,
                  struct backup_progress progress, struct error *err);

/* Is it a name that a backup may contain? */
bool backup_name_known(const struct backup_file *f);

/* ---- backup_key.c ------------------------------------------------------- */

#define BACKUP_KEY_MIN 16u
#define BACKUP_KEY_MAX 4096u
#define BACKUP_KEY_FILE "backup.key"

/* The secret in a file: its bytes without line ends at the end, from
 * BACKUP_KEY_MIN to BACKUP_KEY_MAX. A file that every user may read is
 * refused. ret: freed by backup_key_free. */
int backup_key_read(const char *path, char **ret, size_t *ret_len,
                    struct error *err);
/* The same of DIR/backup.key, which is made if it is not there. */
int backup_key_own(const char *data_dir, char **ret, size_t *ret_len,
                   struct error *err);
void backup_key_free(char *secret, size_t len); /* accepts NULL */

#endif
