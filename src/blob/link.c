/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More names for a blob, for the trees that sessions mount. Runs in the
 * daemon. What is made here is derived: nothing is synced, and it may be made
 * even after writing has ended for good, for it stores nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
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

static int open_plain(const struct link *l, int *ret_fd, struct error *err)
{
    struct blob_look look = {0};
    int r = blob_read_look(l->b, l->blob, &look, ret_fd, err);

    if (r == 0 && look.state != BLOB_GOOD)
        r = blob_read_corrupt(l->blob, look.state, err);
    return r;
}

/* Copies the blob to a new file of that name; unlinks it if that fails. */
static int copy_to(const struct link *l, int dir, const char *name,
                   struct error *err)
{
    int from cleanup(fd_close) = -1, to cleanup(fd_close) = -1;
    int r = open_plain(l, &from, err);

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
static int make_variant(const struct link *l, struct error *err)
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

/* The file to link is there and right; the state tells. */
static int find_source(const struct link *l, struct blob_look *look,
                       struct error *err)
{
    int r = blob_read_look(l->b, l->blob, look, NULL, err);

    if (r < 0 || look->state == BLOB_GOOD)
        return r;
    if (!l->copy[0])
        return blob_read_corrupt(l->blob, look->state, err);
    r = make_variant(l, err);
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
    struct stat st;
    int r = find_source(l, &look, err);

    if (r < 0)
        return r;
    if (linkat(l->copy[0] ? l->b->tenant_copies : l->b->dir,
               l->copy[0] ? l->copy : l->blob->path, l->dir, l->name, 0) < 0) {
        switch (errno) {
        case EMLINK:
        case EXDEV:
        case EPERM:
        case EOPNOTSUPP:
            return copy_to(l, l->dir, l->name, err);
        case EEXIST:
            return error_set(err, ERR_CONFLICT, "the name is taken");
        case ENOENT: /* the source; or the folder is gone: tried in vain */
            return 1;
        default:
            return blob_fault(errno, "link a stored object", err);
        }
    }
    if (fstatat(l->dir, l->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return blob_fault(errno, "link a stored object", err);
    if (st.st_ino == look.st.st_ino && st.st_dev == look.st.st_dev) {
        blob_verified_cache_update(l->b, l->blob, &look.st, &st);
        return 0;
    }
    /* Healed in between; the new one wants looking at. */
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
    if (executable || !blob_tenant_copy_owned(b, &blob, owner))
        blob_tenant_copy_path(owner, executable, &blob, l.copy);
    if (r >= 0)
        r = 1;
    for (unsigned i = 0; r == 1 && i < TRIES; i++)
        r = link_once(&l, err);
    blob_pin_remove(b, blob.hash);
    return r == 1 ? error_set(err, ERR_INTERNAL, "cannot link a stored object")
                  : r;
}
