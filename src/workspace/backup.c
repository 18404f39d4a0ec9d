/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup while the service works (D9). Runs in the daemon on a worker. The
 * store is copied first; a blob is there before a row refers to it and, while
 * nothing is collected, stays: so every blob the copy refers to is there to be
 * copied, whatever is committed meanwhile. Blobs are hashed as they are read;
 * a damaged one ends the backup, for what restores must be right.
 */
#include "workspace/backup_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

#define MANIFEST_NEW BACKUP_MANIFEST ".new"

struct backup {
    struct workspaces *w;
    const char *path;
    int dir;
    struct backup_progress progress;
    FILE *manifest;
    struct hash_stream *hash; /* of the manifest's lines */
    uint64_t lines;
};

static void backup_done(struct backup *b)
{
    if (b->manifest)
        (void)fclose(b->manifest); /* left without its end if it failed */
    hash_stream_free(b->hash);
    fd_close(&b->dir);
}

/* ---- the manifest ------------------------------------------------------- */

static int manifest_open(struct backup *b, struct error *err)
{
    int fd =
        openat(b->dir, MANIFEST_NEW,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    b->manifest = fd < 0 ? NULL : fdopen(fd, "w");
    if (!b->manifest)
        return backup_copy_failed(errno, "write the manifest", err);
    b->hash = hash_stream_new();
    return 0;
}

static int manifest_add(struct backup *b, const struct backup_file *f,
                        struct error *err)
{
    char line[HASH_HEX + 24 + BACKUP_NAME_MAX];
    int len = snprintf(line, sizeof(line), "%s %" PRIu64 " %s\n", f->sha256,
                       f->size, f->name);

    if (b->hash)
        hash_stream_add(b->hash, line, (size_t)len);
    b->lines++;
    if (fputs(line, b->manifest) == EOF)
        return backup_copy_failed(errno, "write the manifest", err);
    return 0;
}

/* Everything else is on disk before the manifest says so. */
static int manifest_close(struct backup *b, struct error *err)
{
    struct backup_file end = {.name = BACKUP_MANIFEST, .size = b->lines};
    unsigned char sum[HASH_SIZE];
    FILE *file;
    int r;

    if (syncfs(b->dir) < 0)
        return backup_copy_failed(errno, "sync the copies", err);
    hash_stream_end(take_ptr(b->hash), sum);
    (void)ids_hex(sum, sizeof(sum), end.sha256);
    r = manifest_add(b, &end, err);
    if (r < 0)
        return r;
    r = fflush(b->manifest) == 0 && fsync(fileno(b->manifest)) == 0 ? 0
                                                                    : -errno;
    file = take_ptr(b->manifest);
    if (fclose(file) != 0 && r == 0)
        r = -errno;
    if (r == 0 &&
        (renameat(b->dir, MANIFEST_NEW, b->dir, BACKUP_MANIFEST) < 0 ||
         fsync(b->dir) < 0))
        r = -errno;
    return r < 0 ? backup_copy_failed(-r, "write the manifest", err) : 0;
}

/* ---- the store ---------------------------------------------------------- */

static void on_pages(void *ctx, uint64_t done, uint64_t total)
{
    struct backup *b = ctx;

    b->progress.total = total;
    if (done > b->progress.done)
        backup_progress_add(&b->progress, done - b->progress.done);
}

static int copy_store(struct backup *b, struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("%s/" BACKUP_DB, b->path);
    int r;

    backup_progress_begin(&b->progress, "database", 1);
    r = store_backup(b->w->store, path, on_pages, b, err);
    if (r == 0)
        backup_progress_end(&b->progress);
    return r;
}

/* Opening the copy proves that it can be, and leaves files of no use. */
static int settle_store(struct backup *b, struct error *err)
{
    static const char *const extra[] = {"glovebox.lock", BACKUP_DB "-wal",
                                        BACKUP_DB "-shm"};
    struct backup_file f = {.name = BACKUP_DB};
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(extra); i++)
        if (unlinkat(b->dir, extra[i], 0) < 0 && errno != ENOENT)
            return backup_copy_failed(errno, "tidy up", err);
    r = backup_copy_measure(b->dir, BACKUP_DB, &f, err);
    return r < 0 ? r : manifest_add(b, &f, err);
}

/* ---- blobs and secrets -------------------------------------------------- */

static int copy_blob(struct backup *b, const char *sha256, struct error *err)
{
    struct backup_file f = {.size = 0};
    int fd cleanup(fd_close) = -1;
    int r;

    /* Where that cannot be, the bytes are backed up all the same, only not
     * whose inode it was; which costs a copy some day. */
    (void)blob_publish_now(b->w->blobs, sha256, err);
    r = blob_open(b->w->blobs, sha256, &fd, NULL, err);

    (void)snprintf(f.name, sizeof(f.name), "blobs/%.2s/%s", sha256, sha256);
    if (r == 0)
        r = backup_copy_folder(b->dir, sha256, err);
    if (r == 0)
        r = backup_copy(fd, b->dir, f.name, 0600, &b->progress, &f, err);
    if (r == 0 && strcmp(f.sha256, sha256) != 0)
        r = error_set(err, ERR_CORRUPT, "the stored object %s is damaged",
                      sha256);
    return r < 0 ? r : manifest_add(b, &f, err);
}

static int add_up(struct backup *b, struct store *copy, uint64_t *ret,
                  struct error *err)
{
    struct refs_walk refs cleanup(workspace_refs_done) = {.store = copy};
    const char *sha256;
    uint64_t size;
    int r;

    *ret = 0;
    while ((r = workspace_refs_next(&refs, &sha256, err)) == 0 && sha256)
        if (workspace_refs_stat(b->w->data_dir, sha256, &size))
            *ret += size;
    return r;
}

/* As the copy of the store has it, not as it is by now. */
static int copy_blobs(struct backup *b, struct error *err)
{
    struct store *copy = NULL;
    const char *sha256;
    uint64_t total;
    int r = store_open(b->path, &copy, err);

    if (r < 0)
        return r;
    r = audit_head_forget(copy, err);
    if (r == 0) {
        struct refs_walk refs cleanup(workspace_refs_done) = {.store = copy};

        r = add_up(b, copy, &total, err);
        if (r == 0)
            backup_progress_begin(&b->progress, "objects", total);
        while (r == 0 && (r = workspace_refs_next(&refs, &sha256, err)) == 0 &&
               sha256)
            r = copy_blob(b, sha256, err);
    }
    store_close(copy);
    if (r == 0)
        backup_progress_end(&b->progress);
    return r;
}

static int copy_secret(struct backup *b, const char *name, struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", b->w->data_dir, name);
    int fd cleanup(fd_close) = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct backup_file f = {.size = 0};
    int r;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return backup_copy_failed(errno, "read a secret", err);
    (void)snprintf(f.name, sizeof(f.name), "%s", name);
    r = backup_copy(fd, b->dir, name, 0600, NULL, &f, err);
    return r < 0 ? r : manifest_add(b, &f, err);
}

/* ---- the spine ---------------------------------------------------------- */

static int run(struct backup *b, struct error *err)
{
    int r = manifest_open(b, err);

    if (r == 0)
        r = copy_store(b, err);
    if (r == 0)
        r = copy_blobs(b, err);
    for (size_t i = 0; i < BACKUP_SECRETS && r == 0; i++)
        r = copy_secret(b, backup_secrets[i], err);
    if (r == 0)
        r = settle_store(b, err);
    if (r == 0)
        r = manifest_close(b, err);
    return r;
}

int workspaces_backup(struct workspaces *w, const char *dir,
                      void (*progress)(void *ctx, const char *what,
                                       uint64_t done, uint64_t total),
                      void *ctx, struct error *err)
{
    struct backup b cleanup(backup_done) = {
        .w = w,
        .path = dir,
        .dir = -1,
        .progress = {.fn = progress, .ctx = ctx},
    };
    bool made;
    int r =
        backup_copy_target(dir, "folder for the backup", &b.dir, &made, err);

    if (r < 0)
        return r;
    workspace_maintenance_pause(w);
    r = run(&b, err);
    workspace_maintenance_resume(w);
    if (r < 0 && !err->hint[0])
        (void)error_hint(err, "the folder holds no backup; remove it before "
                              "the next try");
    return r;
}
