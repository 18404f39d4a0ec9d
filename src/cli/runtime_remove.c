/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing runtime images from this machine's cache, and nothing but images:
 * by descriptors, following no link, entering no other file system.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/runtime.h"
#include "conf/runtime.h"

#define IMAGES_MAX 1024
#define DEPTH_MAX 128 /* folders within folders of an image */

/* Removes a folder and all in it, by descriptors, following no link and
 * entering no other file system. -errno */
static int tree_remove(int parent, const char *name, dev_t dev, int depth)
{
    int fd cleanup(fd_close) =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != dev)
        return -EXDEV;
    if (depth > DEPTH_MAX)
        return -ELOOP;
    /* An ordinary user's own folders may lack the right to empty them. */
    if (geteuid() != 0 && fchmod(fd, 0700) < 0)
        return -errno;
    dir = fdopendir(fd);
    if (!dir)
        return -errno;
    fd = -1; /* the stream's now */
    while ((entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM)
            return -errno;
        r = tree_remove(dirfd(dir), entry->d_name, dev, depth + 1);
        if (r < 0)
            return r;
    }
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Whether a folder of the cache is an image of that runtime; its hash. */
static const char *image_hash(const char *folder, const char *name)
{
    size_t len = strlen(name);
    const char *hash = folder + len + 1;

    if (strncmp(folder, name, len) != 0 || folder[len] != '-')
        return NULL;
    if (strlen(hash) != CONF_RUNTIME_HASH ||
        strspn(hash, "0123456789abcdef") != CONF_RUNTIME_HASH)
        return NULL;
    return hash;
}

/* Renamed first, so that an image is never found half removed. What a crash
 * leaves behind the next removal or build of that name clears. */
static int image_remove(int cache, const char *folder, const char *name,
                        struct error *err)
{
    const char *hash = image_hash(folder, name);
    char *doomed cleanup(mem_free) =
        hash ? xasprintf(".build.%s.%s.removed", name, hash) : xstrdup(folder);
    struct stat st;
    int r = 0;

    if (fstatat(cache, folder, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (hash && renameat(cache, folder, cache, doomed) < 0))
        r = -errno;
    if (r == 0)
        r = tree_remove(cache, doomed, st.st_dev, 0);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot remove %s", doomed);
    return 0;
}

/* Folders of that runtime: images but the one to keep, and, as nobody else
 * holds the lock, what builds and removals left. Owned by caller. */
static size_t images_find(DIR *dir, const char *name, const char *keep,
                          char *ret_found[IMAGES_MAX])
{
    char *left cleanup(mem_free) = xasprintf(".build.%s.", name);
    struct dirent *entry;
    size_t count = 0;

    while (count < IMAGES_MAX && (entry = readdir(dir))) {
        const char *hash = image_hash(entry->d_name, name);

        if (hash ? !keep || strcmp(hash, keep) != 0
                 : strncmp(entry->d_name, left, strlen(left)) == 0)
            ret_found[count++] = xstrdup(entry->d_name);
    }
    return count;
}

int cli_runtime_remove(const struct cli_runtimes *p, const char *name,
                       const char *keep, size_t *ret_count, struct error *err)
{
    char *lock cleanup(mem_free) = xasprintf(".lock-%s", name);
    DIR *dir cleanup(fd_closedir) = opendir(p->cache);
    int fd cleanup(fd_close) = -1;
    char *found[IMAGES_MAX];
    size_t count, images = 0;
    int r = 0;

    *ret_count = 0;
    if (!dir)
        return errno == ENOENT ? 0
                               : error_errno(err, ERR_INTERNAL, errno,
                                             "cannot open %s", p->cache);
    fd = openat(dirfd(dir), lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                0644);
    if (fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot lock %s",
                           p->cache);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, ERR_CONFLICT, "%s is being built", name);
    count = images_find(dir, name, keep, found);
    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = image_remove(dirfd(dir), found[i], name, err);
        if (r == 0 && image_hash(found[i], name))
            images++;
        free(found[i]);
    }
    *ret_count = images;
    return r;
}
