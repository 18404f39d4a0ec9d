/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes a name made by blob_link. Runs in the daemon. Removing a link
 * changes the ctime of the file, as adding one does; the cache of verified
 * files is updated, so that removing a tree does not cause its blobs to be
 * hashed again.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "blob/blob_int.h"

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
    if ((fstatat(b->dir, blob.path, &after, AT_SYMLINK_NOFOLLOW) == 0 &&
         after.st_ino == before.st_ino) ||
        (fstatat(b->tenant_copies, copy, &after, AT_SYMLINK_NOFOLLOW) == 0 &&
         after.st_ino == before.st_ino))
        blob_verified_cache_update(b, &blob, &before, &after);
    return 0;
}
