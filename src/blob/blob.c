/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the store of blobs; see blob.h. Runs in the daemon, as the
 * service's user, in a data directory that belongs to this daemon alone.
 */
#include "blob/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"

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

static int make_folders(struct blobs *b, struct error *err)
{
    for (unsigned i = 0; i < BLOB_FOLDERS; i++) {
        char name[3];

        (void)snprintf(name, sizeof(name), "%02x", i & 0xff); /* fits */
        if (mkdirat(b->dir, name, 0700) < 0 && errno != EEXIST)
            return blob_fault(errno, "make the folders of stored objects",
                              err);
    }
    /* Whoever made them may have been killed before it synced them. */
    return blob_fault_sync(b, b->dir, err);
}

static int open_all(struct blobs *b, const char *data_dir, struct error *err)
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
    if (r == 0)
        r = make_folders(b, err);
    if (r == 0)
        r = blob_fault_sync(b, data, err);
    return r < 0 ? r : clear_tmp(b, err);
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

int blobs_open(const char *data_dir, struct blobs **ret, struct error *err)
{
    struct blobs *b = xcalloc(1, sizeof(*b));
    int r;

    b->dir = b->tmp = b->tenant_copies = -1;
    b->log.fd[0] = b->log.fd[1] = -1;
    mutex_init(&b->log.lock);
    cond_init(&b->log.changed);
    cond_init(&b->log.work);
    mutex_init(&b->looking);
    mutex_init(&b->lock);
    cond_init(&b->removed);
    b->verified = xcalloc(BLOB_VERIFIED_SETS * (size_t)BLOB_VERIFIED_WAYS,
                          sizeof(*b->verified));
    b->inflight = inflight_new(free_bytes, b);
    r = open_all(b, data_dir, err);
    if (r == 0)
        r = blob_log_open(b, err);
    if (r < 0) {
        blobs_close(b);
        return r;
    }
    *ret = b;
    return 0;
}

void blobs_admit_by(struct blobs *b, struct disk *disk)
{
    b->disk = disk;
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
    for (unsigned i = 0; i < BLOB_PINS; i++)
        while (b->pins[i]) {
            struct blob_pin *pin = b->pins[i];

            b->pins[i] = pin->next;
            free(pin);
        }
    cond_done(&b->removed); /* no waiters are left */
    mutex_done(&b->lock);
    mutex_done(&b->looking);
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
