/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the store of blobs; see blob.h. Runs in the daemon, as the
 * service's user, in a data directory that belongs to this daemon alone.
 *
 * Also names: every path below DIR/blobs is made from a name checked here. And
 * the meaning of failed calls: a full disk or a failed write costs the one
 * blob that was being written (D5). A failed sync is different: the kernel may
 * have dropped the pages it could not write and marked them clean, so that the
 * next sync would succeed without a byte on disk. Nothing is tried again;
 * writing ends until the service is restarted (D4). Reading, which verifies,
 * goes on.
 */
#include "blob/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hex.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"
#include "disk/disk.h"
#include "s3/s3.h"

#define MARK "tier"

/* ---- names -----------------------------------------------------------------
 */

int blob_name_parse(const char *sha256, struct blob_name *ret,
                    struct error *err)
{
    unsigned char hash[HASH_SIZE];

    if (!hex_decode(sha256, hash, sizeof(hash)) || sha256[2 * sizeof(hash)])
        return error_set(err, ERR_INVALID, "not a SHA-256 in hex");
    blob_name_of(hash, ret);
    return 0;
}

void blob_name_of(const unsigned char hash[HASH_SIZE], struct blob_name *ret)
{
    memcpy(ret->hash, hash, sizeof(ret->hash));
    (void)ids_hex(hash, HASH_SIZE, ret->path + 3);
    memcpy(ret->path, ret->path + 3, 2);
    ret->path[2] = '/';
}

void blob_name_temp(char ret[BLOB_TEMP])
{
    unsigned char bytes[(BLOB_TEMP - 1) / 2];

    ids_random(bytes, sizeof(bytes));
    (void)ids_hex(bytes, sizeof(bytes), ret);
}

/* ---- failed calls ----------------------------------------------------------
 */

int blob_fault(int errnum, const char *what, struct error *err)
{
    if (errnum != ENOSPC && errnum != EDQUOT)
        return error_errno(err, ERR_INTERNAL, errnum, "cannot %s", what);
    (void)disk_refuse(err);
    err->errnum = errnum;
    return -ERR_SPACE;
}

static int refuse_writes(struct error *err)
{
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the disk failed to keep what was written, so nothing "
                    "more is stored");
    return error_hint(err, "What is stored can be read. The operator has to "
                           "look at the disk and restart the service.");
}

int blob_fault_refuse(struct blobs *b, struct error *err)
{
    return atomic_load(&b->failed) ? refuse_writes(err) : 0;
}

int blob_fault_final(struct blobs *b, int errnum, struct error *err)
{
    /* Not only an error of the one request: the whole service changes. */
    if (!atomic_exchange(&b->failed, true))
        log_event(LOG_ERROR, "blob_sync_failed", "why",
                  strerrordesc_np(errnum), NULL);
    (void)refuse_writes(err);
    err->errnum = errnum;
    return -(int)err->code;
}

int blob_fault_sync(struct blobs *b, int fd, struct error *err)
{
    int r = blob_fault_refuse(b, err);

    if (r < 0)
        return r;
    if (fsync(fd) < 0)
        return blob_fault_final(b, errno, err);
    return 0;
}

bool blobs_writable(struct blobs *b)
{
    return !atomic_load(&b->failed);
}

int blobs_ready(struct blobs *b, struct error *err)
{
    return b->tier->ops->ready ? b->tier->ops->ready(b->tier, err) : 0;
}

bool blobs_remote_stats(struct blobs *b, struct blob_remote_stats *ret)
{
    if (!b->tier->ops->stats)
        return false;
    *ret = (struct blob_remote_stats){0};
    b->tier->ops->stats(b->tier, ret);
    return true;
}

void blobs_on_full(struct blobs *b, bool (*fn)(void *ctx), void *ctx)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->full_lock);

    b->on_full = fn;
    b->on_full_ctx = ctx;
}

/* ---- open and close --------------------------------------------------------
 */

static int open_folder(int dir, const char *name, int *ret_fd,
                       struct error *err)
{
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return blob_fault(errno, "make the folders of stored objects", err);
    *ret_fd =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret_fd < 0)
        return blob_fault(errno, "open the folders of stored objects", err);
    return 0;
}

/* Files that were being written when the service ended. */
static int clear_tmp(struct blobs *b, struct error *err)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int fd cleanup(fd_close) = fd_dup(b->tmp, 0);
    struct dirent *e;

    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return blob_fault(errno, "list half-written objects", err);
    (void)take_fd(fd); /* dir's now */
    while ((errno = 0, e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(b->tmp, e->d_name, 0) < 0)
            log_event(LOG_WARN, "blob_leftover", "file", e->d_name, NULL);
    return errno ? blob_fault(errno, "list half-written objects", err) : 0;
}

/* Blobs in an object store leave a mark, because without the store they would
 * all count as lost. */
static int check_mark(struct blobs *b, bool remote, struct error *err)
{
    static const char text[] = "The blobs of this data directory are in an "
                               "object store.\n";
    int fd cleanup(fd_close) = -1;

    if (!remote && faccessat(b->dir, MARK, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT
                   ? 0
                   : blob_fault(errno, "look at the stored objects", err);
    if (!remote) {
        (void)error_set(err, ERR_INVALID,
                        "the blobs of this data directory are in an object "
                        "store, and blob_bucket names none");
        return error_hint(err, "Set blob_bucket as it was. To return to the "
                               "local disk, restore a backup into a new data "
                               "directory.");
    }
    fd = openat(b->dir, MARK, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0 || fd_write_all(fd, text, sizeof(text) - 1) < 0)
        return blob_fault(errno, "mark the stored objects", err);
    return blob_fault_sync(b, fd, err);
}

static int open_tier(struct blobs *b, const struct blobs_s3 *s3,
                     struct error *err)
{
    int r = check_mark(b, s3 != NULL, err);

    if (r < 0)
        return r;
    return s3 ? blob_tier_s3_open(b, s3, &b->tier, err)
              : blob_tier_local_open(b, &b->tier, err);
}

static int open_folders(struct blobs *b, const char *data_dir,
                        const struct blobs_s3 *s3, struct error *err)
{
    int data cleanup(fd_close) =
        open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (data < 0)
        return blob_fault(errno, "open the data directory", err);
    r = open_folder(data, "blobs", &b->dir, err);
    if (r == 0)
        r = open_folder(b->dir, "tmp", &b->tmp, err);
    if (r == 0)
        r = open_folder(b->dir, "v", &b->tenant_copies, err);
    if (r == 0) /* before a thread of the tier uses it */
        r = clear_tmp(b, err);
    if (r == 0 && !b->tier)
        r = open_tier(b, s3, err);
    if (r == 0)
        r = blob_fault_sync(b, data, err);
    return r;
}

/* Where the file system cannot tell, writing finds out. */
static uint64_t free_bytes(void *ctx)
{
    const struct blobs *b = ctx;
    struct statvfs st;

    if (fstatvfs(b->tmp, &st) < 0)
        return UINT64_MAX;
    return (uint64_t)st.f_bavail * st.f_frsize;
}

uint64_t blobs_inflight(struct blobs *b)
{
    return inflight_bytes(b->inflight);
}

int blobs_open(const struct blobs_settings *settings, struct blobs **ret,
               struct error *err)
{
    struct blobs *b = xcalloc(1, sizeof(*b));
    int r;

    b->tier = settings->tier;
    b->disk = settings->disk;
    b->dir = b->tmp = b->tenant_copies = -1;
    b->log.fd[0] = b->log.fd[1] = -1;
    mutex_init(&b->log.lock);
    cond_init(&b->log.changed);
    cond_init(&b->log.work);
    mutex_init(&b->full_lock);
    mutex_init(&b->looking);
    mutex_init(&b->lock);
    cond_init(&b->removed);
    b->verified = xcalloc(BLOB_VERIFIED_SETS * (size_t)BLOB_VERIFIED_WAYS,
                          sizeof(*b->verified));
    b->inflight = inflight_new(free_bytes, b);
    r = open_folders(b, settings->data_dir, settings->s3, err);
    if (r == 0)
        r = blob_log_open(b, err);
    if (r < 0) {
        for (size_t i = 0; settings->s3 && !b->tier && i < settings->s3->count;
             i++)
            s3_close(settings->s3->buckets[i].s3);
        blobs_close(b);
        return r;
    }
    *ret = b;
    return 0;
}

void blobs_stop(struct blobs *b)
{
    atomic_store(&b->stopping, true);
}

void blobs_close(struct blobs *b)
{
    if (!b)
        return;
    blob_log_close(b);
    if (b->tier) /* its thread may pin */
        b->tier->ops->close(b->tier);
    for (unsigned i = 0; i < BLOB_PINS; i++)
        while (b->pins[i]) {
            struct blob_pin *pin = b->pins[i];

            b->pins[i] = pin->next;
            free(pin);
        }
    cond_done(&b->removed); /* no waiters are left */
    mutex_done(&b->lock);
    mutex_done(&b->looking);
    mutex_done(&b->full_lock);
    mutex_done(&b->log.lock);
    cond_done(&b->log.changed);
    cond_done(&b->log.work);
    inflight_free(b->inflight);
    free(b->verified);
    fd_close(&b->tenant_copies);
    fd_close(&b->tmp);
    fd_close(&b->dir);
    free(b);
}
