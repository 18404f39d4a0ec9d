/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup while the service runs (D9). Runs in the daemon on a worker; the
 * copying, which restore.c shares, also in the program that restores.
 *
 * The store is copied first. A blob is stored before a row references it and,
 * while the collector is paused, stays: so every blob that the copy references
 * can be copied, whatever is committed meanwhile. Bytes are hashed as they are
 * copied; a damaged blob ends the backup, because a restore must be right.
 */
#include "upkeep/backup_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "upkeep/upkeep_int.h"

/* ---- copying, shared with restore.c ----------------------------- */

#define CHUNK (256u << 10)
#define TELL_MS 100

const char *const backup_secrets[BACKUP_SECRETS] = {
    "auth.secret", "audit.secret", "audit.sign.key", "vault.key", "admin.key"};

/* ---- progress ----------------------------------------------------------- */

static void report_progress(struct backup_progress *p)
{
    p->told_ms = clock_mono_ms();
    if (p->fn)
        p->fn(p->ctx, p->what, p->done, MAX(p->total, p->done));
}

void backup_progress_begin(struct backup_progress *p, const char *what,
                           uint64_t total)
{
    p->what = what;
    p->done = 0;
    p->total = total;
    report_progress(p);
}

void backup_progress_add(struct backup_progress *p, uint64_t more)
{
    p->done += more;
    if (clock_mono_ms() - p->told_ms >= TELL_MS)
        report_progress(p);
}

void backup_progress_end(struct backup_progress *p)
{
    p->done = MAX(p->done, p->total);
    report_progress(p);
}

/* ---- bytes -------------------------------------------------------------- */

int backup_copy_failed(int errnum, const char *what, struct error *err)
{
    if (errnum == ENOSPC || errnum == EDQUOT)
        return error_set(err, ERR_SPACE, "no room left to %s", what);
    return error_errno(err, ERR_INTERNAL, errnum, "cannot %s", what);
}

/* Hashes `from` to its end; to: -1, or where it is copied to. */
static int copy_and_hash(int from, int to, struct backup_progress *progress,
                         struct backup_file *ret)
{
    char *chunk cleanup(mem_free) = xmalloc(CHUNK);
    struct hash_stream *hash = hash_stream_new();
    unsigned char sum[HASH_SIZE];
    uint64_t size = 0;
    ssize_t n;
    int r = 0;

    while (r == 0 && (n = fd_read_all(from, chunk, CHUNK)) > 0) {
        hash_stream_add(hash, chunk, (size_t)n);
        if (to >= 0)
            r = fd_write_all(to, chunk, (size_t)n);
        if (progress)
            backup_progress_add(progress, (uint64_t)n);
        size += (uint64_t)n;
    }
    if (r == 0 && n < 0)
        r = (int)n;
    hash_stream_end(hash, sum);
    (void)ids_hex(sum, sizeof(sum), ret->sha256);
    ret->size = size;
    return r;
}

/* Copies the extended attributes in which blob/ records the owner of an inode.
 * Without them a restore only takes more space. */
static void copy_marks(int from, int to)
{
    static const char ours[] = "user.glovebox.";
    char names[256], value[64];
    ssize_t len = flistxattr(from, names, sizeof(names));

    for (char *at = names; len > 0 && at < names + len; at += strlen(at) + 1) {
        ssize_t n = strncmp(at, ours, strlen(ours)) == 0
                        ? fgetxattr(from, at, value, sizeof(value))
                        : -1;

        if (n >= 0)
            (void)fsetxattr(to, at, value, (size_t)n, 0);
    }
}

int backup_copy(int from, int dir, const char *name, mode_t mode,
                struct backup_progress *progress, struct backup_file *ret,
                struct error *err)
{
    int to cleanup(fd_close) = openat(
        dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = to < 0 ? -errno : copy_and_hash(from, to, progress, ret);

    if (r == 0 && fchmod(to, mode) < 0)
        r = -errno;
    if (r == 0)
        copy_marks(from, to);
    return r < 0 ? backup_copy_failed(-r, "write a copy", err) : 0;
}

int backup_copy_measure(int dir, const char *name, struct backup_file *ret,
                        struct error *err)
{
    int fd cleanup(fd_close) =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : copy_and_hash(fd, -1, NULL, ret);

    return r < 0 ? backup_copy_failed(-r, "read a copy", err) : 0;
}

/* ---- folders ------------------------------------------------------------ */

int backup_copy_folder(int dir, const char *sha256, struct error *err)
{
    char name[16];

    (void)snprintf(name, sizeof(name), "blobs/%.2s", sha256);
    if (mkdirat(dir, name, 0700) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT &&
        (mkdirat(dir, "blobs", 0700) == 0 || errno == EEXIST) &&
        mkdirat(dir, name, 0700) == 0)
        return 0;
    return backup_copy_failed(errno, "make a folder", err);
}

static bool is_empty(int fd)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;

    dir = own < 0 ? NULL : fdopendir(own);
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            return false;
    return dir != NULL;
}

/* The caller named the folder and can fix most faults of it. */
static int target_failed(int errnum, const char *what, struct error *err)
{
    if (errnum != EACCES && errnum != EPERM && errnum != EROFS &&
        errnum != ENOENT && errnum != ENOTDIR && errnum != ELOOP &&
        errnum != ENAMETOOLONG)
        return backup_copy_failed(errnum, "make the folder", err);
    (void)error_errno(err, ERR_INVALID, errnum, "cannot make the %s", what);
    return error_hint(err, "name one in a folder that is there and that the "
                           "account which writes it may write");
}

int backup_copy_target(const char *path, const char *what, int *ret_dir,
                       bool *ret_made, struct error *err)
{
    bool made = mkdir(path, 0700) == 0;
    int dir cleanup(fd_close) = -1;

    if (!made && errno != EEXIST)
        return target_failed(errno, what, err);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return target_failed(errno, what, err);
    if (!is_empty(dir)) {
        (void)error_set(err, ERR_CONFLICT, "the %s is not empty", what);
        return error_hint(err, "name a folder that is empty or does not "
                               "exist");
    }
    *ret_dir = take_fd(dir);
    *ret_made = made;
    return 0;
}

/* ---- the backup -------------------------------------------------------- */

#define MANIFEST_NEW BACKUP_MANIFEST ".new"

struct backup {
    struct upkeep *u;
    const char *path; /* where the copy of the store is made: the backup's
                         folder; of a sealed one, a folder of ours */
    int dir;
    struct backup_progress progress;
    struct seal *seal; /* NULL: the backup is the folder */
    FILE *manifest;
    struct hash_stream *hash; /* of the manifest's lines */
    uint64_t lines;           /* or files of a sealed one */
};

static void backup_done(struct backup *b)
{
    seal_free(&b->seal);
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
    if (b->seal) { /* which has none */
        b->lines++;
        return 0;
    }
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
    r = store_backup(b->u->store, path, on_pages, b, err);
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
    int fd cleanup(fd_close) = -1;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(extra); i++)
        if (unlinkat(b->dir, extra[i], 0) < 0 && errno != ENOENT)
            return backup_copy_failed(errno, "tidy up", err);
    if (!b->seal) {
        r = backup_copy_measure(b->dir, BACKUP_DB, &f, err);
        return r < 0 ? r : manifest_add(b, &f, err);
    }
    fd = openat(b->dir, BACKUP_DB, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return backup_copy_failed(errno, "read the copied database", err);
    r = sealed_add(b->seal, fd, NULL, &f, err);
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
    (void)blob_publish_now(b->u->blobs, sha256, err);
    r = blob_open(b->u->blobs, sha256, &fd, NULL, err);

    (void)snprintf(f.name, sizeof(f.name), "blobs/%.2s/%s", sha256, sha256);
    if (r == 0 && b->seal)
        r = sealed_add(b->seal, fd, &b->progress, &f, err);
    else if (r == 0)
        r = backup_copy_folder(b->dir, sha256, err);
    if (r == 0 && !b->seal)
        r = backup_copy(fd, b->dir, f.name, 0600, &b->progress, &f, err);
    if (r == 0 && strcmp(f.sha256, sha256) != 0)
        r = error_set(err, ERR_CORRUPT, "the stored object %s is damaged",
                      sha256);
    return r < 0 ? r : manifest_add(b, &f, err);
}

/* A stop does not wait for a backup, which would be made again anyway. */
static bool is_stopping(const struct backup *b, struct error *err)
{
    if (!b->seal || !upkeep_wait(b->u, 0))
        return false;
    (void)error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    return true;
}

static int add_up(struct backup *b, struct store *copy, uint64_t *ret,
                  struct error *err)
{
    struct refs_walk refs cleanup(upkeep_refs_done) = {.store = copy};
    const char *sha256;
    uint64_t size;
    int r;

    *ret = 0;
    while ((r = upkeep_refs_next(&refs, &sha256, err)) == 0 && sha256)
        if (blob_size(b->u->blobs, sha256, &size))
            *ret += size;
    return r;
}

/* As the copy of the store has it, not as it is by now. */
static int copy_blobs(struct backup *b, struct error *err)
{
    struct store *copy = NULL;
    const char *sha256;
    uint64_t total;
    int r =
        store_open(&(struct store_settings){.data_dir = b->path}, &copy, err);

    if (r < 0)
        return r;
    r = audit_head_forget(copy, err);
    if (r == 0) {
        struct refs_walk refs cleanup(upkeep_refs_done) = {.store = copy};

        r = add_up(b, copy, &total, err);
        if (r == 0)
            backup_progress_begin(&b->progress, "objects", total);
        while (r == 0 && (r = upkeep_refs_next(&refs, &sha256, err)) == 0 &&
               sha256)
            r = is_stopping(b, err) ? -(int)err->code
                                    : copy_blob(b, sha256, err);
    }
    store_close(copy);
    if (r == 0)
        backup_progress_end(&b->progress);
    return r;
}

static int copy_secret(struct backup *b, const char *name, struct error *err)
{
    char *path cleanup(mem_free) =
        xasprintf("%s/%s", b->u->settings.data_dir, name);
    int fd cleanup(fd_close) = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct backup_file f = {.size = 0};
    int r;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return backup_copy_failed(errno, "read a secret", err);
    (void)snprintf(f.name, sizeof(f.name), "%s", name);
    r = b->seal ? sealed_add(b->seal, fd, NULL, &f, err)
                : backup_copy(fd, b->dir, name, 0600, NULL, &f, err);
    return r < 0 ? r : manifest_add(b, &f, err);
}

/* ---- the spine ---------------------------------------------------------- */

static int backup_all(struct backup *b, struct error *err)
{
    int r = b->seal ? 0 : manifest_open(b, err);

    if (r == 0)
        r = copy_store(b, err);
    if (r == 0)
        r = copy_blobs(b, err);
    for (size_t i = 0; i < BACKUP_SECRETS && r == 0; i++)
        r = copy_secret(b, backup_secrets[i], err);
    if (r == 0)
        r = settle_store(b, err);
    if (r == 0)
        r = b->seal ? sealed_end(b->seal, b->lines, err)
                    : manifest_close(b, err);
    return r;
}

int upkeep_backup(struct upkeep *u, const char *dir,
                  void (*progress)(void *ctx, const char *what, uint64_t done,
                                   uint64_t total),
                  void *ctx, struct error *err)
{
    struct backup b cleanup(backup_done) = {
        .u = u,
        .path = dir,
        .dir = -1,
        .progress = {.fn = progress, .ctx = ctx},
    };
    bool made;
    int r =
        backup_copy_target(dir, "folder for the backup", &b.dir, &made, err);

    if (r < 0)
        return r;
    upkeep_pause(u);
    r = backup_all(&b, err);
    upkeep_resume(u);
    if (r < 0 && !err->hint[0])
        (void)error_hint(err, "the folder holds no backup; remove it before "
                              "the next try");
    return r;
}

/* ---- a sealed backup ---------------------------------------------------- */

#define WORK "backup.work" /* in the data directory: the copy of the store */
#define WORK_PATH "%s/" WORK

/* Into a folder of ours, because the copy is not encrypted. */
static int work_open(struct backup *b, int data, struct error *err)
{
    tree_place_remove(data, WORK); /* of a service that was killed */
    if (mkdirat(data, WORK, 0700) < 0)
        return backup_copy_failed(errno, "make a folder", err);
    b->dir = openat(data, WORK, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return b->dir < 0 ? backup_copy_failed(errno, "open a folder", err) : 0;
}

int backup_sealed(struct upkeep *u, int to, const char *secret, size_t len,
                  struct backup_progress progress, struct error *err)
{
    char *work cleanup(mem_free) = xasprintf(WORK_PATH, u->settings.data_dir);
    int data cleanup(fd_close) =
        open(u->settings.data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct backup b cleanup(backup_done) = {
        .u = u, .path = work, .dir = -1, .progress = progress};
    int r = data < 0
                ? backup_copy_failed(errno, "open the data directory", err)
                : work_open(&b, data, err);

    if (r == 0)
        r = seal_create(to, secret, len, &b.seal, err);
    if (r == 0) {
        upkeep_pause(u);
        r = backup_all(&b, err);
        upkeep_resume(u);
    }
    if (data >= 0)
        tree_place_remove(data, WORK);
    if (r == 0 && fsync(to) < 0)
        r = backup_copy_failed(errno, "sync the backup", err);
    return r;
}
