/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores a backup, a folder or a sealed file, into a new data directory.
 * Runs instead of the service, with its account and no other rights. Only what
 * the manifest lists is copied: its names are checked against the few valid
 * forms, the bytes against their hashes while they are copied. The database
 * gets its name last, when all else is on disk; then the store is opened and
 * every blob it refers to is hashed once more.
 */
#include "upkeep/backup_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "upkeep/upkeep_int.h"

#define LINE_MAX_BYTES (HASH_HEX + 24 + BACKUP_NAME_MAX)
#define DB_NEW BACKUP_DB ".new"

struct restore {
    const char *path; /* of the data directory */
    int from, to;
    bool made;      /* the data directory */
    FILE *manifest; /* NULL: the backup is sealed */
    struct seal *seal;
    struct backup_progress progress;
};

static void restore_done(struct restore *s)
{
    if (s->manifest)
        (void)fclose(s->manifest); /* only read */
    seal_free(&s->seal);
    fd_close(&s->from);
    fd_close(&s->to);
}

/* ---- the manifest ------------------------------------------------------- */

static int bad_manifest(struct error *err)
{
    return error_set(err, ERR_CORRUPT, "the backup's manifest is damaged");
}

bool backup_name_known(const struct backup_file *f)
{
    char blob[BACKUP_NAME_MAX];

    for (size_t i = 0; i < BACKUP_SECRETS; i++)
        if (strcmp(f->name, backup_secrets[i]) == 0)
            return true;
    (void)snprintf(blob, sizeof(blob), "blobs/%.2s/%s", f->sha256, f->sha256);
    return strcmp(f->name, BACKUP_DB) == 0 || strcmp(f->name, blob) == 0;
}

/* The next line: 1 a file, 2 the manifest's own end, 0 no more. */
static int manifest_next(struct restore *s, struct hash_stream *hash,
                         struct backup_file *ret, struct error *err)
{
    char line[LINE_MAX_BYTES];
    size_t len;

    if (!fgets(line, sizeof(line), s->manifest))
        return ferror(s->manifest) ? bad_manifest(err) : 0;
    len = strlen(line);
    if (len == 0 || line[len - 1] != '\n')
        return bad_manifest(err);
    if (hash && !strstr(line, " " BACKUP_MANIFEST "\n"))
        hash_stream_add(hash, line, len);

    char *size = strchr(line, ' '),
         *name = size ? strchr(size + 1, ' ') : NULL;
    char *end;

    if (!name || size - line != HASH_HEX - 1 ||
        strspn(line, "0123456789abcdef") < HASH_HEX - 1)
        return bad_manifest(err);
    memcpy(ret->sha256, line, HASH_HEX - 1);
    ret->sha256[HASH_HEX - 1] = 0;
    ret->size = strtoull(size + 1, &end, 10);
    name[strcspn(name, "\n")] = 0;
    if (end != name || size[1] < '0' || size[1] > '9' ||
        snprintf(ret->name, sizeof(ret->name), "%s", name + 1) >=
            (int)sizeof(ret->name))
        return bad_manifest(err);

    if (strcmp(ret->name, BACKUP_MANIFEST) == 0)
        return 2;
    return backup_name_known(ret) ? 1 : bad_manifest(err);
}

/* Is it whole, and what is all of it together? */
static int manifest_check(struct restore *s, uint64_t *ret_bytes,
                          struct error *err)
{
    struct hash_stream *hash = hash_stream_new();
    struct backup_file f;
    unsigned char sum[HASH_SIZE];
    char hex[HASH_HEX];
    uint64_t lines = 0, bytes = 0;
    bool has_db = false;
    int r;

    while ((r = manifest_next(s, hash, &f, err)) == 1) {
        lines++;
        bytes += f.size;
        has_db |= strcmp(f.name, BACKUP_DB) == 0;
    }
    hash_stream_end(hash, sum);
    if (r < 0)
        return r;
    if (r != 2 || !has_db || f.size != lines ||
        strcmp(f.sha256, ids_hex(sum, sizeof(sum), hex)) != 0 ||
        fgetc(s->manifest) != EOF)
        return bad_manifest(err);
    rewind(s->manifest);
    *ret_bytes = bytes;
    return 0;
}

static int sealed_open(struct restore *s, const struct upkeep_secret *secret,
                       struct error *err)
{
    if (!secret) {
        (void)error_set(err, ERR_INVALID, "the backup is encrypted");
        return error_hint(err, "give its key: --backup-key FILE");
    }
    return seal_open(s->from, secret->text, secret->len, &s->seal, err);
}

static int backup_open(struct restore *s, const char *path,
                       const struct upkeep_secret *secret, struct error *err)
{
    struct stat st;
    int fd;

    s->from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (s->from < 0 || fstat(s->from, &st) < 0)
        return backup_copy_failed(errno, "open the backup", err);
    if (S_ISREG(st.st_mode)) {
        s->progress.total = (uint64_t)st.st_size;
        return sealed_open(s, secret, err);
    }
    fd = openat(s->from, BACKUP_MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    s->manifest = fd < 0 ? NULL : fdopen(fd, "r");
    if (!s->manifest && errno == ENOENT)
        return error_set(err, ERR_INVALID,
                         "the folder has no manifest: it is not a backup, or "
                         "one that was not finished");
    if (!s->manifest)
        return backup_copy_failed(errno, "read the manifest", err);
    return 0;
}

/* ---- copying ------------------------------------------------------------ */

/* Blobs are linked into the trees of sessions, which see their mode; the
 * folders around them keep everybody else out. */
static int copy_one(struct restore *s, const struct backup_file *want,
                    struct error *err)
{
    bool is_blob = strncmp(want->name, "blobs/", 6) == 0;
    bool is_db = strcmp(want->name, BACKUP_DB) == 0;
    int fd cleanup(fd_close) =
        openat(s->from, want->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct backup_file got;
    int r = 0;

    if (fd < 0 && errno == ENOENT)
        return error_set(err, ERR_CORRUPT, "the backup lacks %s", want->name);
    if (fd < 0)
        return backup_copy_failed(errno, "read the backup", err);
    if (is_blob)
        r = backup_copy_folder(s->to, want->sha256, err);
    if (r == 0)
        r = backup_copy(fd, s->to, is_db ? DB_NEW : want->name,
                        is_blob ? 0644 : 0600, &s->progress, &got, err);
    if (r == 0 &&
        (got.size != want->size || strcmp(got.sha256, want->sha256) != 0))
        r = error_set(err, ERR_CORRUPT, "%s of the backup is damaged",
                      want->name);
    return r;
}

/* ---- a sealed one ------------------------------------------------------ */

static int extract_one(struct restore *s, struct backup_file *f,
                       struct error *err)
{
    bool is_blob = strncmp(f->name, "blobs/", 6) == 0;
    bool is_db = strcmp(f->name, BACKUP_DB) == 0;
    char want[HASH_HEX];
    int r = is_blob ? backup_copy_folder(s->to, f->sha256, err) : 0;

    memcpy(want, f->sha256, sizeof(want));
    if (r == 0)
        r = sealed_extract(s->seal, s->to, is_db ? DB_NEW : f->name,
                           is_blob ? 0644 : 0600, &s->progress, f, err);
    if (r == 0 && is_blob && strcmp(f->sha256, want) != 0)
        r = error_set(err, ERR_CORRUPT, "%s of the backup is damaged",
                      f->name);
    return r;
}

static int extract_all(struct restore *s, struct error *err)
{
    struct backup_file f;
    uint64_t files = 0;
    bool has_db = false;
    int r;

    backup_progress_begin(&s->progress, "copy", s->progress.total);
    while ((r = sealed_next(s->seal, &files, &f, err)) == 1) {
        has_db |= strcmp(f.name, BACKUP_DB) == 0;
        r = extract_one(s, &f, err);
        if (r < 0)
            return r;
    }
    if (r == 0 && !has_db)
        r = error_set(err, ERR_CORRUPT, "the backup has no database");
    return r;
}

static int copy_all(struct restore *s, struct error *err)
{
    struct backup_file f;
    uint64_t bytes = 0;
    int r = s->seal ? extract_all(s, err) : manifest_check(s, &bytes, err);

    if (r < 0)
        return r;
    if (!s->seal)
        backup_progress_begin(&s->progress, "copy", bytes);
    while (!s->seal && (r = manifest_next(s, NULL, &f, err)) == 1) {
        r = copy_one(s, &f, err);
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    if (syncfs(s->to) < 0 || renameat(s->to, DB_NEW, s->to, BACKUP_DB) < 0 ||
        fsync(s->to) < 0)
        return backup_copy_failed(errno, "sync the data directory", err);
    backup_progress_end(&s->progress);
    return 0;
}

/* ---- checking ----------------------------------------------------------- */

static int check_blobs(struct restore *s, struct store *store,
                       struct blobs *blobs, struct error *err)
{
    struct refs_walk refs cleanup(upkeep_refs_done) = {.store = store};
    const char *sha256;
    uint64_t size, total = s->progress.total;
    int r = 0;

    backup_progress_begin(&s->progress, "check", total);
    while (r == 0 && (r = upkeep_refs_next(&refs, &sha256, err)) == 0 &&
           sha256) {
        r = blob_check(blobs, sha256, true, 0, err);
        if (blob_size(blobs, sha256, &size))
            backup_progress_add(&s->progress, size);
    }
    if (r == 0)
        backup_progress_end(&s->progress);
    return r;
}

static int check_all(struct restore *s, struct error *err)
{
    struct store *store = NULL;
    struct blobs *blobs = NULL;
    int r =
        store_open(&(struct store_settings){.data_dir = s->path}, &store, err);

    if (r == 0)
        r = store_check(store, err);
    if (r == 0)
        r = blobs_open(&(struct blobs_settings){.data_dir = s->path}, &blobs,
                       err);
    if (r == 0)
        r = check_blobs(s, store, blobs, err);
    blobs_close(blobs);
    store_close(store);
    return r;
}

/* ---- the spine ---------------------------------------------------------- */

/* Removes an invalid restore, so that no service starts on it. */
static void take_back(struct restore *s)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int own = openat(s->to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;

    dir = own < 0 ? NULL : fdopendir(own);
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            tree_place_remove(s->to, entry->d_name);
    if (s->made)
        (void)rmdir(s->path); /* empty, or it says what is left */
}

int upkeep_secret_read(const char *path, struct upkeep_secret *ret,
                       struct error *err)
{
    return backup_key_read(path, &ret->text, &ret->len, err);
}

void upkeep_secret_done(struct upkeep_secret *secret)
{
    backup_key_free(take_ptr(secret->text), secret->len);
}

int upkeep_restore(const char *from, const char *data_dir,
                   const struct upkeep_secret *secret,
                   void (*progress)(void *ctx, const char *what, uint64_t done,
                                    uint64_t total),
                   void *ctx, struct error *err)
{
    struct restore s cleanup(restore_done) = {
        .path = data_dir,
        .from = -1,
        .to = -1,
        .progress = {.fn = progress, .ctx = ctx},
    };
    int r = backup_open(&s, from, secret, err);

    if (r == 0)
        r = backup_copy_target(data_dir, "data directory", &s.to, &s.made,
                               err);
    if (r < 0)
        return r;
    r = copy_all(&s, err);
    if (r == 0)
        r = check_all(&s, err);
    if (r < 0)
        take_back(&s);
    return r;
}
