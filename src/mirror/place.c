/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places outside: buckets and folders. Runs in gloveboxd on the mirror's
 * thread, and on a worker that checks a destination. What is allowed comes
 * from the configuration alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hex.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "mirror/mirror_int.h"
#include "s3/s3.h"
#include "workspace/workspace.h"

#define S3 "s3://"
#define FOLDER "file:///"
#define CHUNK ((size_t)256 << 10)

void mirror_place_text(const char *destination, char *ret, size_t size)
{
    size_t len = strlen(destination);

    while (len > strlen(FOLDER) && destination[len - 1] == '/')
        len--;
    (void)snprintf(ret, size, "%.*s/", (int)len, destination);
}

/* Prefixes and folders are paths as those of workspaces: no empty, "." or ".."
 * part. */
static int check_path(const char *path, struct error *err)
{
    const char *fault = *path ? path_fault(path, strlen(path)) : NULL;

    return fault ? error_set(err, ERR_INVALID,
                             "the path of the destination %s", fault)
                 : 0;
}

static int find_bucket(struct mirrors *m, const char *tenant, const char *name,
                       size_t len, const char *use, struct mirror_place *ret,
                       struct error *err)
{
    for (size_t i = 0; i < m->bucket_count; i++) {
        const struct conf_bucket *b = m->buckets[i].conf;

        if (strlen(b->name) != len || strncmp(b->name, name, len) != 0 ||
            !conf_list_has(b->use, use) ||
            (b->tenants[0] && !conf_list_has(b->tenants, tenant)))
            continue;
        ret->s3 = m->buckets[i].s3;
        return 0;
    }
    (void)error_set(err, ERR_FORBIDDEN,
                    "no bucket %.*s is configured for this", (int)len, name);
    return error_hint(err,
                      "The operator lists it under buckets, with %s in its "
                      "use and this tenant in its tenants.",
                      use);
}

static int find_folder(struct mirrors *m, const char *path, struct error *err)
{
    const char *list = m->conf->mirror_folders;

    while (*list) {
        size_t n = strcspn(list, ","), len = n;

        while (len > 1 && list[len - 1] == '/')
            len--;
        if (len > 1 && strncmp(path, list, len) == 0 && path[len] == '/' &&
            path[len + 1])
            return 0;
        list += n + (list[n] == ',');
    }
    (void)error_set(err, ERR_FORBIDDEN,
                    "no mirrors may be made to that folder");
    return error_hint(err, "The operator allows folders with mirror_folders; "
                           "name a folder below one of them.");
}

int mirror_place_find(struct mirrors *m, const char *tenant,
                      const char *destination, const char *use,
                      struct mirror_place *ret, struct error *err)
{
    char text[MIRROR_DESTINATION_MAX + 2];
    const char *rest;
    int r;

    *ret = (struct mirror_place){0};
    if (strlen(destination) > MIRROR_DESTINATION_MAX)
        return error_set(err, ERR_INVALID,
                         "a destination has at most %u bytes",
                         MIRROR_DESTINATION_MAX);
    mirror_place_text(destination, text, sizeof(text));
    text[strlen(text) - 1] = '\0';
    if (strncmp(text, S3, strlen(S3)) == 0) {
        size_t len = strcspn(text + strlen(S3), "/");

        rest = text + strlen(S3) + len;
        rest += *rest == '/';
        r = find_bucket(m, tenant, text + strlen(S3), len, use, ret, err);
    } else if (strncmp(text, FOLDER, strlen(FOLDER)) == 0 &&
               strcmp(use, "mirror") == 0) {
        rest = text + strlen(FOLDER);
        r = find_folder(m, rest - 1, err);
    } else {
        return error_set(err, ERR_INVALID, "%s",
                         strcmp(use, "mirror") == 0
                             ? "a destination begins with s3:// or file:///"
                             : "a source begins with s3://");
    }
    if (r == 0)
        r = check_path(rest, err);
    if (r == 0 && *rest)
        (void)snprintf(ret->path, sizeof(ret->path), "%s%s/",
                       ret->s3 ? "" : "/", rest); /* fits */
    return r;
}

/* ---- folders ------------------------------------------------------------ */

/* Opens the folder of dir/path, the last part being the file's name, which
 * *ret_name is then. Links are not followed. make: missing ones are made. */
static int open_parent(const char *dir, const char *path, bool make,
                       const char **ret_name, int *ret_fd)
{
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *whole cleanup(mem_free) = xasprintf("%s%s", dir + 1, path);
    char *part = whole, *slash;

    while (fd >= 0 && (slash = strchr(part, '/'))) {
        int next;

        *slash = '\0';
        next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0 && errno == ENOENT && make &&
            (mkdirat(fd, part, 0755) == 0 || errno == EEXIST))
            next = openat(fd, part,
                          O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            int r = -errno;

            (void)close(fd);
            return r;
        }
        (void)close(fd);
        fd = next;
        part = slash + 1;
    }
    if (fd < 0)
        return -errno;
    *ret_name = path + strlen(path) - strlen(part);
    *ret_fd = fd;
    return 0;
}

static int copy_bytes(int from, int to)
{
    char *bytes cleanup(mem_free) = xmalloc(CHUNK);
    off_t at = 0;

    for (;;) {
        ssize_t n = pread(from, bytes, CHUNK, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        if (fd_write_all(to, bytes, (size_t)n) < 0)
            return -errno;
        at += n;
    }
}

/* Whole or not at all: written beside its place, synced, renamed. */
static int put_in_folder(const struct mirror_place *p,
                         const struct workspace_file *f, int from,
                         struct error *err)
{
    int dir cleanup(fd_close) = -1, to cleanup(fd_close) = -1;
    char temp[ID_MAX + 1] = ".", *end = temp + 1;
    const char *name;
    int r = open_parent(p->path, f->path, true, &name, &dir);

    ids_make("mirror", end);
    if (r == 0) {
        to = openat(dir, temp,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    f->executable ? 0755 : 0644);
        r = to < 0 ? -errno : copy_bytes(from, to);
        if (r == 0 && fsync(to) < 0)
            r = -errno;
        if (r == 0 && renameat(dir, temp, dir, name) < 0)
            r = -errno;
        if (r < 0 && to >= 0)
            (void)unlinkat(dir, temp, 0); /* half a copy */
    }
    if (r == -ENOSPC || r == -EDQUOT)
        return error_set(err, ERR_SPACE,
                         "the disk of the destination is full");
    return r < 0
               ? error_errno(err, ERR_UNAVAILABLE, -r,
                             "cannot write %.200s to the destination", f->path)
               : 0;
}

int mirror_place_put(const struct mirror_place *p,
                     const struct workspace_file *f, int fd, struct error *err)
{
    char *key cleanup(mem_free) = NULL;
    unsigned char hash[32];

    if (!p->s3)
        return put_in_folder(p, f, fd, err);
    key = xasprintf("%s%s", p->path, f->path);
    if (!hex_decode(f->sha256, hash, sizeof(hash)))
        return error_set(err, ERR_INTERNAL, "a file has no hash");
    return s3_put_file(p->s3, key, fd, f->size, hash, err);
}

int mirror_place_remove(const struct mirror_place *p, const char *path,
                        struct error *err)
{
    char *key cleanup(mem_free) = NULL;
    int dir cleanup(fd_close) = -1;
    const char *name;
    int r;

    if (p->s3) {
        key = xasprintf("%s%s", p->path, path);
        return s3_delete(p->s3, key, err);
    }
    r = open_parent(p->path, path, false, &name, &dir);
    if (r == 0 && unlinkat(dir, name, 0) < 0)
        r = -errno;
    return r < 0 && r != -ENOENT && r != -ENOTDIR && r != -EISDIR
               ? error_errno(err, ERR_UNAVAILABLE, -r,
                             "cannot remove %.200s from the destination", path)
               : 0;
}
