/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a blob per tenant. A session can see the link count and the times
 * of a file that it mounts, so two tenants never share an inode, even if the
 * bytes are equal (I8). The file of the blob belongs to the tenant that stored
 * it first, whose tag is kept in an extended attribute; every other tenant
 * gets its own copy below DIR/blobs/v. An executable file is a copy too,
 * because of its mode. Runs in the daemon.
 *
 * Copies are derived data: they are never synced, and are recreated from the
 * blob when they are missing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define ATTRIBUTE "user.glovebox.domain"

void blob_owner(const char *tenant, char ret[BLOB_OWNER])
{
    unsigned char hash[HASH_SIZE];

    hash_sha256(tenant, strlen(tenant), hash);
    (void)ids_hex(hash, (BLOB_OWNER - 1) / 2, ret);
}

void blob_tenant_copy_mark(int fd, const char *owner)
{
    /* On a file system without attributes it has no owner: every tenant then
     * gets its own copy. */
    (void)fsetxattr(fd, ATTRIBUTE, owner, strlen(owner), 0);
}

bool blob_tenant_copy_owned(struct blobs *b, const struct blob_name *name,
                            const char *owner)
{
    int fd cleanup(fd_close) =
        openat(b->dir, name->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[BLOB_OWNER];
    ssize_t n = fd < 0 ? -1 : fgetxattr(fd, ATTRIBUTE, text, sizeof(text));

    return n >= 0 && (size_t)n == strlen(owner) &&
           memcmp(text, owner, (size_t)n) == 0;
}

void blob_tenant_copy_path(const char *owner, bool executable,
                           const struct blob_name *name,
                           char ret[BLOB_TENANT_COPY])
{
    (void)snprintf(ret, BLOB_TENANT_COPY, "%s%s/%s", owner,
                   executable ? ".x" : ".p", name->path); /* fits */
}

int blob_tenant_copy_mkdirs(struct blobs *b, const char *path)
{
    char folder[BLOB_TENANT_COPY];

    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path),
                       path);
        if (mkdirat(b->tenant_copies, folder, 0700) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

int blob_tenant_copy_remove(struct blobs *b, const struct blob_name *name)
{
    int fd cleanup(fd_close) =
        openat(b->tenant_copies, ".", O_RDONLY | O_CLOEXEC);
    DIR *dir cleanup(fd_closedir) = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir)
        return -errno;
    (void)take_fd(fd); /* dir's now */
    while ((errno = 0, e = readdir(dir))) {
        char path[512];

        if (e->d_name[0] == '.' && strlen(e->d_name) <= 2 &&
            strcmp(e->d_name, ".x") != 0 && strcmp(e->d_name, ".p") != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", e->d_name, name->path);
        if (unlinkat(b->tenant_copies, path, 0) < 0 && errno != ENOENT)
            return -errno;
    }
    return -errno;
}
