/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links to blobs, for the trees that sessions mount: making one, removing it,
 * and verifying that it still holds the bytes of its blob. Runs in the daemon.
 * Links are derived data: nothing is synced, and they can be made even after
 * writes are refused for good.
 *
 * Adding or removing a link changes the ctime of the file; the cache of
 * verified files (verified_cache.c) is updated, so that trees do not cause
 * their blobs to be hashed again. The cache is keyed by inode, so the blob's
 * file, a tenant's copy and a plain copy are verified alike.
 *
 * A session can see the link count and the times of a file that it mounts, so
 * two tenants never share an inode, even if the bytes are equal (I8). The file
 * of the blob belongs to the tenant that stored it first, whose tag is kept in
 * an extended attribute; every other tenant gets its own copy below
 * DIR/blobs/v. An executable file is a copy too, because of its mode. Copies
 * are derived data as well, and recreated from the blob when they are missing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define TRIES 4u

/* One file to link, and where to. */
struct link {
    struct blobs *b;
    const struct blob_name *blob;
    int dir; /* of the new name */
    const char *name;
    const char *owner;
    bool executable;
    char copy[BLOB_TENANT_COPY]; /* what to link; "" : the blob itself */
};

/* Copies the blob to a new file of that name; unlinks it if that fails. */
static int copy_to(const struct link *l, int dir, const char *name,
                   struct error *err)
{
    int from cleanup(fd_close) = -1, to cleanup(fd_close) = -1;
    struct blob_look look = {0};
    int r = blob_read_look(l->b, l->blob, &look, &from, err);

    if (r == 0 && look.state != BLOB_GOOD)
        r = blob_read_corrupt(l->blob, look.state, err);
    if (r < 0)
        return r;
    to = openat(dir, name,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0 && errno == EEXIST)
        return error_set(err, ERR_CONFLICT, "the name is taken");
    if (to < 0)
        return blob_fault(errno, "copy a stored object", err);
    r = blob_scan_copy(from, to);
    if (r == 0 && fchmod(to, l->executable ? 0755 : 0644) < 0)
        r = -errno;
    if (r == 0)
        return 0;
    (void)unlinkat(dir, name, 0); /* half a copy; the error says it all */
    return blob_fault(-r, "copy a stored object", err);
}

/* Makes or replaces DIR/blobs/v/… . */
static int make_copy(const struct link *l, struct error *err)
{
    char temp[BLOB_TEMP];
    int r;

    blob_name_temp(temp);
    r = copy_to(l, l->b->tmp, temp, err);
    if (r < 0)
        return r;
    r = blob_tenant_copy_mkdirs(l->b, l->copy);
    if (r == 0 && renameat(l->b->tmp, temp, l->b->tenant_copies, l->copy) < 0)
        r = -errno;
    if (r == 0)
        return 0;
    (void)unlinkat(l->b->tmp, temp, 0); /* the next start would */
    return blob_fault(-r, "copy a stored object", err);
}

/* Makes sure that the file to link exists and is intact. */
static int find_source(const struct link *l, struct blob_look *look,
                       struct error *err)
{
    int r = blob_read_look(l->b, l->blob, look, NULL, err);

    if (r < 0 || look->state == BLOB_GOOD)
        return r;
    if (!l->copy[0])
        return blob_read_corrupt(l->blob, look->state, err);
    r = make_copy(l, err);
    if (r == 0)
        r = blob_read_look(l->b, l->blob, look, NULL, err);
    if (r == 0 && look->state != BLOB_GOOD)
        r = blob_read_corrupt(l->blob, look->state, err);
    return r;
}

/* 1: what was linked is not what was looked at; again. */
static int link_once(const struct link *l, struct error *err)
{
    struct blob_look look = {.copy = l->copy[0] ? l->copy : NULL};
    struct blob_tier *tier = l->b->tier;
    struct stat st;
    int r = find_source(l, &look, err);

    if (r < 0)
        return r;
    if (!l->copy[0])
        r = tier->ops->link(tier, blob_name_hex(l->blob), l->dir, l->name);
    else if (linkat(l->b->tenant_copies, l->copy, l->dir, l->name, 0) < 0)
        r = -errno;
    switch (r) {
    case 0:
        break;
    case -EMLINK:
    case -EXDEV:
    case -EPERM:
    case -EOPNOTSUPP:
        return copy_to(l, l->dir, l->name, err);
    case -EEXIST:
        return error_set(err, ERR_CONFLICT, "the name is taken");
    case -ENOENT: /* the source, or the folder, is gone */
        return 1;
    default:
        return blob_fault(-r, "link a stored object", err);
    }
    if (fstatat(l->dir, l->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return blob_fault(errno, "link a stored object", err);
    if (st.st_ino == look.st.st_ino && st.st_dev == look.st.st_dev) {
        blob_verified_cache_update(l->b, l->blob, &look.st, &st);
        return 0;
    }
    /* The blob was healed in between: verify the new file. */
    (void)unlinkat(l->dir, l->name, 0); /* else the next try says so */
    return 1;
}

int blob_link(struct blobs *b, const char *owner, const char *sha256, int dir,
              const char *name, bool executable, struct error *err)
{
    struct blob_name blob;
    struct link l = {.b = b,
                     .blob = &blob,
                     .dir = dir,
                     .name = name,
                     .owner = owner,
                     .executable = executable};
    int r = blob_name_parse(sha256, &blob, err);

    if (r < 0)
        return r;
    if (!*name || strchr(name, '/'))
        return error_set(err, ERR_INVALID, "not the name of one file");
    blob_pin_add(b, blob.hash); /* a copy must not outlive the blob */
    r = blob_pending_publish(b, &blob, err); /* what is linked is a file */
    if (executable || !b->tier->ops->owned ||
        !b->tier->ops->owned(b->tier, sha256, owner))
        blob_tenant_copy_path(owner, executable, &blob, l.copy);
    if (r >= 0)
        r = 1;
    for (unsigned i = 0; r == 1 && i < TRIES; i++)
        r = link_once(&l, err);
    blob_pin_remove(b, blob.hash);
    return r == 1 ? error_set(err, ERR_INTERNAL, "cannot link a stored object")
                  : r;
}

/* ---- removing a link --------------------------------------------------- */

int blob_unlink(struct blobs *b, const char *owner, const char *sha256,
                int dir, const char *name, bool executable, struct error *err)
{
    char copy[BLOB_TENANT_COPY];
    struct stat before, after;
    struct blob_name blob;
    int r = blob_name_parse(sha256, &blob, err);

    if (r < 0)
        return r;
    if (fstatat(dir, name, &before, AT_SYMLINK_NOFOLLOW) < 0 ||
        unlinkat(dir, name, 0) < 0)
        return blob_fault(errno, "remove a link to a stored object", err);
    /* A copy, or a blob that is gone, has nothing that could be known. */
    blob_tenant_copy_path(owner, executable, &blob, copy);
    if ((b->tier->ops->file &&
         b->tier->ops->file(b->tier, sha256, &after) == 0 &&
         after.st_ino == before.st_ino) ||
        (fstatat(b->tenant_copies, copy, &after, AT_SYMLINK_NOFOLLOW) == 0 &&
         after.st_ino == before.st_ino))
        blob_verified_cache_update(b, &blob, &before, &after);
    return 0;
}

/* ---- verifying a link -------------------------------------------------- */

static int on_piece(void *ctx, const void *bytes, uint64_t len)
{
    blob_scan_hash(ctx, bytes, len);
    return 0;
}

static bool is_right(struct blobs *b, const struct blob_name *name, int fd,
                     struct stat *st)
{
    unsigned char found[HASH_SIZE];
    struct hash_stream *hash = hash_stream_new();
    bool settled = blob_verified_cacheable(st);
    struct stat after;
    int r = blob_scan(fd, (uint64_t)st->st_size + 1, on_piece, hash);

    hash_stream_end(hash, found);
    if (r != 0 || !hash_equal(found, name->hash, sizeof(found)))
        return false;
    if (settled && fstat(fd, &after) == 0 && after.st_size == st->st_size &&
        after.st_ctim.tv_sec == st->st_ctim.tv_sec &&
        after.st_ctim.tv_nsec == st->st_ctim.tv_nsec)
        blob_verified_cache_add(b, name, st);
    return true;
}

int blob_verify_link(struct blobs *b, const char *sha256, int dir,
                     const char *file, struct stat *ret, struct error *err)
{
    struct blob_name name;
    struct stat st;
    int fd cleanup(fd_close) = -1;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        blob_verified_cache_has(b, &name, &st)) {
        *ret = st;
        return 0;
    }
    fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        !is_right(b, &name, fd, &st))
        return blob_read_corrupt(
            &name, fd < 0 && errno == ENOENT ? BLOB_ABSENT : BLOB_BAD, err);
    *ret = st;
    return 0;
}

/* ---- copies per tenant -----------------------------------------------------
 */

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

bool blob_tenant_copy_claim(int fd, const char *owner)
{
    return fsetxattr(fd, ATTRIBUTE, owner, strlen(owner), XATTR_CREATE) == 0;
}

void blob_tenant_copy_owner(int fd, char ret[BLOB_OWNER])
{
    ssize_t n = fgetxattr(fd, ATTRIBUTE, ret, BLOB_OWNER - 1);

    ret[n > 0 ? n : 0] = '\0';
}

bool blob_tenant_copy_marked(int fd, const char *owner)
{
    char text[BLOB_OWNER];
    ssize_t n = fgetxattr(fd, ATTRIBUTE, text, sizeof(text));

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
