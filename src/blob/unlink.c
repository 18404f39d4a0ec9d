/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fewer names for a blob: what blob_link gave is taken away again. Runs in
 * the daemon. A name less moves the blob's ctime, as one more does; known.c
 * is told, lest every tree that goes costs a hashing of all that was in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "blob/blob_int.h"

int blob_unlink(struct blobs *b, const char *domain, const char *sha256,
                int dir, const char *name, bool executable, struct error *err)
{
    char variant[BLOB_VARIANT];
    struct stat before, after;
    struct blob_name blob;
    int r = blob_name_parse(sha256, &blob, err);

    if (r < 0)
        return r;
    if (fstatat(dir, name, &before, AT_SYMLINK_NOFOLLOW) < 0 ||
        unlinkat(dir, name, 0) < 0)
        return blob_fault(errno, "remove a link to a stored object", err);
    /* A copy, or a blob that is gone, has nothing that could be known. */
    blob_variant_path(domain, executable, &blob, variant);
    if ((fstatat(b->dir, blob.path, &after, AT_SYMLINK_NOFOLLOW) == 0 &&
         after.st_ino == before.st_ino) ||
        (fstatat(b->variants, variant, &after, AT_SYMLINK_NOFOLLOW) == 0 &&
         after.st_ino == before.st_ino))
        blob_known_move(b, &blob, &before, &after);
    return 0;
}
