/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup becomes a data directory again. Runs instead of the service, with
 * its account and no rights besides. Nothing is believed that the manifest
 * does not vouch for, byte by byte: the names in it are checked against the
 * few forms there are, the bytes against their hashes while they are copied.
 * The database gets its name last, when all else is on disk; then the store
 * is opened and every blob it refers to is hashed once more.
 */
#include "workspace/backup_int.h"

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
#include "workspace/tree_int.h"
#include "workspace/workspace_int.h"

#define LINE_MAX_BYTES (HASH_HEX + 24 + BACKUP_NAME_MAX)
#define DB_NEW BACKUP_DB ".new"

struct restore {
    const char *path; /* of the data directory */
    int from, to;
    bool made; /* the data directory */
    FILE *manifest;
    struct backup_progress progress;
};

static void restore_done(struct restore *s)
{
    if (s->manifest)
        (void)fclose(s->manifest); /* only read */
    fd_close(&s->from);
    fd_close(&s->to);
}

/* ---- the manifest ------------------------------------------------------- */

static int bad_manifest(struct error *err)
{
    return error_set(err, ERR_CORRUPT, "the backup's manifest is damaged");
}

static bool is_hash(const char *text, size_t len)
{
    return len == HASH_HEX - 1 &&
           strspn(text, "0123456789abcdef") >= HASH_HEX - 1;
}

static bool is_known(const struct backup_file *f)
{
    char blob[BACKUP_NAME_MAX];

    for (size_t i = 0; i < BACKUP_SECRETS; i++)
        if (strcmp(f->name, backup_secrets[i]) == 0)
            return true;
    (void)snprintf(blob, sizeof(blob), "blobs/%.2s/%s", f->sha256, f->sha256);
    return strcmp(f->name, BACKUP_DB) == 0 || strcmp(f->name, blob) == 0;
}

static bool parse(char *line, struct backup_file *ret)
{
    char *size = strchr(line, ' '),
         *name = size ? strchr(size + 1, ' ') : NULL;
    char *end;

    if (!name || !is_hash(line, (size_t)(size - line)))
        return false;
    memcpy(ret->sha256, line, HASH_HEX - 1);
    ret->sha256[HASH_HEX - 1] = 0;
    ret->size = strtoull(size + 1, &end, 10);
    name[strcspn(name, "\n")] = 0;
    return end == name && size[1] >= '0' && size[1] <= '9' &&
           snprintf(ret->name, sizeof(ret->name), "%s", name + 1) <
               (int)sizeof(ret->name);
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
    if (!parse(line, ret))
        return bad_manifest(err);
    if (strcmp(ret->name, BACKUP_MANIFEST) == 0)
        return 2;
    return is_known(ret) ? 1 : bad_manifest(err);
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

static int backup_open(struct restore *s, const char *dir, struct error *err)
{
    int fd;

    s->from = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->from < 0)
        return backup_copy_failed(errno, "open the backup", err);
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

static int copy_all(struct restore *s, struct error *err)
{
    struct backup_file f;
    uint64_t bytes = 0;
    int r = manifest_check(s, &bytes, err);

    if (r < 0)
        return r;
    backup_progress_begin(&s->progress, "copy", bytes);
    while ((r = manifest_next(s, NULL, &f, err)) == 1) {
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
    struct refs_walk refs cleanup(workspace_refs_done) = {.store = store};
    const char *sha256;
    uint64_t size, total = s->progress.total;
    int r = 0;

    backup_progress_begin(&s->progress, "check", total);
    while (r == 0 && (r = workspace_refs_next(&refs, &sha256, err)) == 0 &&
           sha256) {
        r = blob_check(blobs, sha256, true, 0, err);
        if (workspace_refs_stat(s->path, sha256, &size))
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
    int r = store_open(s->path, &store, err);

    if (r == 0)
        r = store_check(store, err);
    if (r == 0)
        r = blobs_open(s->path, &blobs, err);
    if (r == 0)
        r = check_blobs(s, store, blobs, err);
    blobs_close(blobs);
    store_close(store);
    return r;
}

/* ---- the spine ---------------------------------------------------------- */

/* What is not right is not left for a service to start on. */
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

int workspaces_restore_backup(const char *dir, const char *data_dir,
                              void (*progress)(void *ctx, const char *what,
                                               uint64_t done, uint64_t total),
                              void *ctx, struct error *err)
{
    struct restore s cleanup(restore_done) = {
        .path = data_dir,
        .from = -1,
        .to = -1,
        .progress = {.fn = progress, .ctx = ctx},
    };
    int r = backup_open(&s, dir, err);

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
