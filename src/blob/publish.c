/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes a blob: the second half of blob_finish. Syncs the temporary file,
 * renames it to its final name and syncs the folder (D1, D2). Runs in the
 * daemon.
 *
 * If a file with the right bytes already has the name, the new file is
 * dropped, in the same time as a first one would take (I8): it is synced,
 * moved into the same folder and unlinked there, so that the sync of the
 * folder has a change to commit as well. A file with wrong bytes is replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define TRIES 4u
/* From this size on a few milliseconds matter less than a second hashing. */
#define LARGE_BYTES (1 << 20)
#define SETTLE_TRIES 20u

/* Moves it into its folder under a name that means nothing, and removes it. */
static int drop(struct blobs *b, const char *temp, int folder,
                struct error *err)
{
    char stray[sizeof(BLOB_STRAY) + BLOB_TEMP];

    (void)snprintf(stray, sizeof(stray), BLOB_STRAY "%s", temp); /* fits */
    if (renameat(b->tmp, temp, folder, stray) < 0)
        return blob_fault(errno, "store an object", err);
    /* If it stays, blob_iterate removes it some day. */
    (void)unlinkat(folder, stray, 0);
    return 0;
}

static int heal(struct blobs *b, const char *temp,
                const struct blob_name *name, const struct blob_look *old,
                off_t size, struct error *err)
{
    if (renameat(b->tmp, temp, b->dir, name->path) < 0)
        return blob_fault(errno, "store an object", err);
    blob_usage_add(b, name, 0, size - old->st.st_size);
    log_event(LOG_WARN, "blob_healed", "sha256", blob_name_hex(name), NULL);
    return 0;
}

/* 1: the name has been taken meanwhile. */
static int move(struct blobs *b, const char *temp,
                const struct blob_name *name, off_t size, struct error *err)
{
    int r = renameat2(b->tmp, temp, b->dir, name->path, RENAME_NOREPLACE);

    /* Where the file system cannot tell, the later of two equal files wins. */
    if (r < 0 && errno == EINVAL)
        r = renameat(b->tmp, temp, b->dir, name->path);
    if (r < 0 && errno == EEXIST)
        return 1;
    if (r < 0)
        return blob_fault(errno, "store an object", err);
    blob_usage_add(b, name, 1, size);
    return 0;
}

/* Same bytes, another owner: an inode of its own, if it has none yet. */
static int keep_variant(struct blobs *b, const char *temp,
                        const struct blob_name *name, const char *owner,
                        int *folder, struct error *err)
{
    char path[BLOB_TENANT_COPY], *slash;
    int r;

    blob_tenant_copy_path(owner, false, name, path);
    r = blob_tenant_copy_mkdirs(b, path);
    if (r == 0 &&
        renameat2(b->tmp, temp, b->tenant_copies, path, RENAME_NOREPLACE) < 0)
        r = -errno;
    if (r == -EEXIST || r == -EINVAL)
        return drop(b, temp, *folder, err);
    if (r < 0)
        return blob_fault(-r, "store an object", err);
    fd_close(folder);
    slash = strrchr(path, '/');
    *slash = '\0';
    *folder =
        openat(b->tenant_copies, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *folder < 0 ? blob_fault(errno, "store an object", err) : 0;
}

static int give_name(struct blobs *b, const char *temp,
                     const struct blob_name *name, const char *owner,
                     int *folder, struct blob_look *old, off_t size,
                     struct error *err)
{
    int r = 1;

    for (unsigned i = 0; r == 1 && i < TRIES; i++) {
        if (old->state == BLOB_GOOD && blob_tenant_copy_owned(b, name, owner))
            return drop(b, temp, *folder, err);
        if (old->state == BLOB_GOOD)
            return keep_variant(b, temp, name, owner, folder, err);
        if (old->state == BLOB_BAD)
            return heal(b, temp, name, old, size, err);
        r = move(b, temp, name, size, err);
        if (r == 1 && blob_read_look(b, name, old, NULL, err) < 0)
            return -(int)err->code;
    }
    if (r == 1)
        return error_set(err, ERR_INTERNAL, "a stored object comes and goes");
    return r;
}

static int open_folder(struct blobs *b, const struct blob_name *name,
                       int *ret_fd, struct error *err)
{
    char folder[3] = {name->path[0], name->path[1], '\0'};

    *ret_fd = openat(b->dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? blob_fault(errno, "store an object", err) : 0;
}

int blob_publish_name(struct blobs *b, const char temp[BLOB_TEMP],
                      const struct blob_name *name, const char *owner,
                      off_t size, int *ret_folder, struct error *err)
{
    struct blob_look old = {0};
    int folder cleanup(fd_close) = -1;
    int r = open_folder(b, name, &folder, err);

    if (r == 0)
        r = blob_read_look(b, name, &old, NULL, err);
    if (r == 0)
        r = give_name(b, temp, name, owner, &folder, &old, size, err);
    if (r == 0)
        *ret_folder = take_fd(folder);
    return r;
}

/* We know what is in it; see blob_verified_cacheable for why it may not count.
 */
static void remember(struct blobs *b, const struct blob_name *name, int fd)
{
    const struct timespec tick = {.tv_nsec = 1000000};
    struct stat st;
    bool settled;

    if (fstat(fd, &st) < 0)
        return;
    settled = blob_verified_cacheable(&st);
    for (unsigned i = 0;
         !settled && st.st_size >= LARGE_BYTES && i < SETTLE_TRIES; i++) {
        (void)nanosleep(&tick, NULL); /* shorter is as good */
        settled = blob_verified_cacheable(&st);
    }
    if (settled)
        blob_verified_cache_add(b, name, &st);
}

int blob_publish(struct blobs *b, int fd, const char temp[BLOB_TEMP],
                 const struct blob_name *name, const char *owner,
                 struct error *err)
{
    struct blob_look old = {0};
    int folder cleanup(fd_close) = -1;
    struct stat st;
    int r = open_folder(b, name, &folder, err);

    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return blob_fault(errno, "store an object", err);
    /* While the disk is busy with ours, the other is hashed if need be. What
     * goes wrong with it the sync reports. */
    if (st.st_size >= LARGE_BYTES)
        (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    r = blob_read_look(b, name, &old, NULL, err);
    if (r == 0)
        r = blob_fault_sync(b, fd, err);
    if (r == 0)
        r = give_name(b, temp, name, owner, &folder, &old, st.st_size, err);
    if (r == 0)
        r = blob_fault_sync(b, folder, err);
    /* Another writer's sync may have failed while ours went on. */
    if (r == 0)
        r = blob_fault_refuse(b, err);
    if (r == 0 && old.state != BLOB_GOOD)
        remember(b, name, fd);
    return r;
}

int blob_publish_now(struct blobs *b, const char *sha256, struct error *err)
{
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r == 0)
        r = blob_pending_publish(b, &name, err);
    return MIN(r, 0);
}
