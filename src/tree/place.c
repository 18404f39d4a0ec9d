/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in a layer of a tree: the folder that is worked in, the making of
 * folders, links and marks there, and the removal of it all. Runs in the
 * daemon; called by build.c. Open at a time are the
 * layer's root and one folder, whatever the depth, so that a deep tree does
 * not eat descriptors.
 */
#include "tree/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"

#define FOLDER (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

void tree_place_done(struct tree_place *p)
{
    fd_close(&p->folder);
    fd_close(&p->root);
}

int tree_place_failed(struct error *err, int errnum)
{
    if (errnum == EMFILE || errnum == ENFILE)
        return error_set(err, ERR_BUSY,
                         "the service has too many files open; try again");
    if (errnum == ENOSPC || errnum == EDQUOT)
        return error_set(err, ERR_SPACE, "the disk of the service is full");
    (void)error_set(err, ERR_INTERNAL,
                    "the files of the workspace could not be laid out");
    err->errnum = errnum;
    return -ERR_INTERNAL;
}

static int make_folder(int dir, const char *path)
{
    if (mkdirat(dir, path, 0755) < 0)
        return errno == EEXIST ? 0 : -errno;
    /* The mode sessions see must not depend on our umask. */
    return fchmodat(dir, path, 0755, 0) < 0 ? -errno : 0;
}

static int folder_make(struct tree_place *p)
{
    for (size_t i = 0; i < p->len; i++) {
        int r;

        if (p->path[i] != '/')
            continue;
        p->path[i] = 0;
        r = make_folder(p->root, p->path);
        p->path[i] = '/';
        if (r < 0)
            return r;
    }
    return 0;
}

int tree_place_find(struct tree_place *p, const char *path,
                    const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) + 1 : 0;

    if (len > PATH_BYTES_MAX)
        return -ENAMETOOLONG;
    if (p->folder < 0 || len != p->len || memcmp(p->path, path, len) != 0) {
        size_t same = 0;

        while (same < len && p->path[same] == path[same])
            same++;
        fd_close(&p->folder);
        p->known = MIN(p->known, same);
        memcpy(p->path, path, len);
        p->path[len] = 0;
        p->len = len;
        p->folder = openat(p->root, len ? p->path : ".", FOLDER);
        if (p->folder < 0)
            return -errno;
    }
    *ret_name = path + len;
    return 0;
}

static int enter_folder(struct tree_place *p, const char *path,
                        const char **ret_name, struct error *err)
{
    int r = tree_place_find(p, path, ret_name);

    if (r == -ENOENT) {
        r = folder_make(p);
        if (r == 0)
            r = tree_place_find(p, path, ret_name);
    }
    return r < 0 ? tree_place_failed(err, -r) : 0;
}

int tree_place_open(struct tree_place *p, int dir, unsigned generation,
                    bool make, struct error *err)
{
    char name[16];

    p->folder = -1;
    p->len = 0;
    (void)snprintf(name, sizeof(name), "%u", generation);
    if (make && mkdirat(dir, name, 0755) < 0)
        return tree_place_failed(err, errno);
    if (make && fchmodat(dir, name, 0755, 0) < 0)
        return tree_place_failed(err, errno);
    p->root = openat(dir, name, FOLDER);
    return p->root < 0 ? tree_place_failed(err, errno) : 0;
}

/* Links one file and notes what it was like when it was verified. */
int tree_place_link(struct tree_place *p, const struct tree_want *want,
                    struct tree_file *ret, struct error *err)
{
    char sha256[BLOB_NAME];
    const char *name;
    struct stat st;
    int r = enter_folder(p, want->path, &name, err);

    if (r < 0)
        return r;
    r = blob_link(p->blobs, p->owner, ids_hex(want->sha256, HASH_SIZE, sha256),
                  p->folder, name, want->executable, err);
    if (r < 0)
        return r;
    if (fstatat(p->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return tree_place_failed(err, errno);
    *ret = (struct tree_file){
        .path = xstrdup(want->path),
        .inode = st.st_ino,
        .ctime_ns =
            (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec,
        .executable = want->executable,
    };
    memcpy(ret->sha256, want->sha256, HASH_SIZE);
    return 0;
}

int tree_place_unlink(struct tree_place *p, const struct tree_file *file,
                      struct error *err)
{
    char sha256[BLOB_NAME];
    const char *name;
    int r = tree_place_find(p, file->path, &name);

    if (r < 0)
        return tree_place_failed(err, -r);
    return blob_unlink(p->blobs, p->owner,
                       ids_hex(file->sha256, HASH_SIZE, sha256), p->folder,
                       name, file->executable, err);
}

int tree_place_hide(struct tree_place *p, const char *path, struct error *err)
{
    const char *name = "";
    int r = enter_folder(p, path, &name, err);

    if (r < 0)
        return r;
    /* What overlayfs takes for "not there"; a device of this number needs no
     * privilege since Linux 5.8. Several gone files can be hidden by one. */
    if (mknodat(p->folder, name, S_IFCHR, makedev(0, 0)) < 0 &&
        errno != EEXIST)
        return tree_place_failed(err, errno);
    return 0;
}

/* ---- removal ------------------------------------------------------------ */

/* Empties the folder behind fd as far as possible. Recursion stops at
 * PATH_DEPTH_MAX, the depth limit of paths. */
static void empty_folder(int fd, unsigned depth)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;

    dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    while ((entry = readdir(dir))) {
        int sub;

        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0 || errno != EISDIR ||
            depth == 0)
            continue;
        sub = openat(dirfd(dir), entry->d_name,
                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub >= 0)
            empty_folder(sub, depth - 1);
        (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
    }
}

void tree_place_remove(int dir, const char *name)
{
    int fd =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        empty_folder(fd, PATH_DEPTH_MAX + 3);
    /* Ours to lose: what stays is looked at again by the next tidying. */
    if (unlinkat(dir, name, fd >= 0 ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
        log_event(LOG_WARN, "tree_not_removed", "name", name, "why",
                  strerror(errno), NULL);
}
