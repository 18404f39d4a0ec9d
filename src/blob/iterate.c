/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterates over the stored blobs, and removes one: for the collector and for
 * verify. Runs in the daemon. The names of a folder are read and sorted first,
 * so that blobs may be added and removed while the callback runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define STRAY_MS 3600000 /* old enough that nobody is at work on it */

static int64_t mtime_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* What a writer left that was killed while it dropped a second copy. */
static void remove_stray(int dir, const char *name)
{
    struct stat st;

    if (strncmp(name, BLOB_STRAY, sizeof(BLOB_STRAY) - 1) != 0 ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        clock_real_ms() - mtime_ms(&st) < STRAY_MS)
        return;
    (void)unlinkat(dir, name, 0); /* there is a next time */
}

static bool is_blob(const char *name, unsigned folder)
{
    struct blob_name parsed;
    struct error err;

    return strlen(name) == BLOB_NAME - 1 &&
           blob_name_parse(name, &parsed, &err) == 0 &&
           parsed.hash[0] == folder;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int read_names(DIR *dir, unsigned folder, struct blob_listing *l)
{
    size_t room = 0;
    struct dirent *e;

    while ((errno = 0, e = readdir(dir))) {
        if (!is_blob(e->d_name, folder)) {
            remove_stray(dirfd(dir), e->d_name);
            continue;
        }
        if (l->count == room) {
            room = room ? 2 * room : 64;
            l->names = xrealloc(l->names, room * sizeof(*l->names));
        }
        memcpy(l->names[l->count++], e->d_name, BLOB_NAME);
    }
    return -errno;
}

int blob_iterate_list(struct blobs *b, unsigned folder, int *ret_dir,
                      struct blob_listing *ret)
{
    struct blob_listing l cleanup(blob_iterate_free) = {0};
    DIR *dir cleanup(fd_closedir) = NULL;
    int fd cleanup(fd_close) = -1, own cleanup(fd_close) = -1;
    char name[3];
    int r;

    (void)snprintf(name, sizeof(name), "%02x", folder & 0xff); /* fits */
    own = openat(b->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0)
        return -errno;
    fd = fd_dup(own, 0);
    if (fd < 0)
        return fd;
    dir = fdopendir(fd);
    if (!dir)
        return -errno;
    (void)take_fd(fd); /* dir's now */
    r = read_names(dir, folder, &l);
    if (r < 0)
        return r;
    if (l.count)
        qsort(l.names, l.count, sizeof(*l.names), by_name);
    *ret_dir = take_fd(own);
    ret->count = l.count;
    ret->names = take_ptr(l.names);
    return 0;
}

void blob_iterate_free(struct blob_listing *l)
{
    free(l->names);
}

static int iterate_folder(struct blobs *b, unsigned folder,
                          int (*fn)(void *ctx, const struct blob_info *i),
                          void *ctx, struct error *err)
{
    struct blob_listing l cleanup(blob_iterate_free) = {0};
    int dir cleanup(fd_close) = -1;
    int r = blob_iterate_list(b, folder, &dir, &l);

    if (r < 0)
        return blob_fault(-r, "list the stored objects", err);
    for (size_t i = 0; i < l.count; i++) {
        struct blob_info info;
        struct stat st;

        if (fstatat(dir, l.names[i], &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT) /* removed meanwhile */
                continue;
            return blob_fault(errno, "list the stored objects", err);
        }
        memcpy(info.sha256, l.names[i], BLOB_NAME);
        info.size = (uint64_t)st.st_size;
        info.stored_at_ms = mtime_ms(&st);
        r = fn(ctx, &info);
        if (r)
            return r;
    }
    return 0;
}

int blob_iterate(struct blobs *b,
                 int (*fn)(void *ctx, const struct blob_info *i), void *ctx,
                 struct error *err)
{
    struct error why;
    int r = 0;

    /* What cannot be put in its place now, on a full disk, is left out: it
     * must be possible to remove others. */
    if (blob_pending_all(b, &why) < 0)
        log_event(LOG_WARN, "blob_publish_failed", "error", why.message, NULL);
    for (unsigned folder = 0; r == 0 && folder < BLOB_FOLDERS; folder++)
        r = iterate_folder(b, folder, fn, ctx, err);
    return r;
}

static int remove_files(struct blobs *b, const struct blob_name *name,
                        struct error *err)
{
    struct stat st;
    /* Copies first: none must be there without the other. */
    int r = blob_tenant_copy_remove(b, name);

    if (r < 0)
        return blob_fault(-r, "remove a stored object", err);
    if (fstatat(b->dir, name->path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        unlinkat(b->dir, name->path, 0) < 0)
        return errno == ENOENT
                   ? 0
                   : blob_fault(errno, "remove a stored object", err);
    blob_usage_add(b, name, -1, -(int64_t)st.st_size);
    return 0;
}

int blob_remove(struct blobs *b, const char *sha256, struct error *err)
{
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r == 0)
        r = blob_fault_refuse(b, err);
    if (r < 0)
        return r;
    if (!blob_pin_removal_begin(b, name.hash))
        return 1;
    blob_pending_drop(b, &name);
    r = remove_files(b, &name, err);
    blob_pin_removal_end(b, name.hash);
    return r;
}
