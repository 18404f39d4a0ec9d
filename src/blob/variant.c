/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose inode it is. A session sees of a mounted blob its number of links
 * and its times, so no two domains (tenants) may share an inode, though the
 * bytes are the same (I8). The blob itself belongs to the domain that stored
 * it first and says so in an attribute; every other has a file of its own in
 * DIR/blobs/v. So has an executable one, for its mode. Runs in the daemon.
 *
 * Variants are derived: never synced, and made again by copying the blob.
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

void blob_domain(const char *tenant, char ret[BLOB_DOMAIN])
{
    unsigned char hash[HASH_SIZE];

    hash_sha256(tenant, strlen(tenant), hash);
    (void)ids_hex(hash, (BLOB_DOMAIN - 1) / 2, ret);
}

void blob_variant_mark(int fd, const char *domain)
{
    /* A file system without attributes leaves it nobody's: every domain then
     * gets a copy of its own. */
    (void)fsetxattr(fd, ATTRIBUTE, domain, strlen(domain), 0);
}

bool blob_variant_owned(struct blobs *b, const struct blob_name *name,
                        const char *domain)
{
    int fd cleanup(fd_close) =
        openat(b->dir, name->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[BLOB_DOMAIN];
    ssize_t n = fd < 0 ? -1 : fgetxattr(fd, ATTRIBUTE, text, sizeof(text));

    return n >= 0 && (size_t)n == strlen(domain) &&
           memcmp(text, domain, (size_t)n) == 0;
}

void blob_variant_path(const char *domain, bool executable,
                       const struct blob_name *name, char ret[BLOB_VARIANT])
{
    (void)snprintf(ret, BLOB_VARIANT, "%s%s/%s", domain,
                   executable ? ".x" : ".p", name->path); /* fits */
}

int blob_variant_folders(struct blobs *b, const char *path)
{
    char folder[BLOB_VARIANT];

    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path),
                       path);
        if (mkdirat(b->variants, folder, 0700) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

int blob_variant_remove(struct blobs *b, const struct blob_name *name)
{
    int fd cleanup(fd_close) = openat(b->variants, ".", O_RDONLY | O_CLOEXEC);
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
        if (unlinkat(b->variants, path, 0) < 0 && errno != ENOENT)
            return -errno;
    }
    return -errno;
}
