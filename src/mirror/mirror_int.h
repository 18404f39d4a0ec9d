/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to mirror/ and its tests.
 *
 *   mirror.c   rows, what clients call
 *   place.c    destinations: which are allowed, putting and removing a file
 *   push.c     the thread
 *   attach.c   objects into a workspace
 */
#ifndef GLOVEBOX_MIRROR_MIRROR_INT_H
#define GLOVEBOX_MIRROR_MIRROR_INT_H

#include "base/thread.h"
#include "govern/govern.h"
#include "mirror/mirror.h"

#define MIRROR_BUCKETS 16

struct workspace_file;

struct mirrors {
    const struct conf *conf;
    const struct core *core;
    struct workspaces *workspaces;
    struct govern govern;
    struct mirror_bucket buckets[MIRROR_BUCKETS]; /* s3 owned */
    size_t bucket_count;
    struct worker worker;
};

/* ---- place.c ------------------------------------------------------------ */

struct mirror_place {
    struct s3 *s3;                         /* borrowed, or NULL: a folder */
    char path[MIRROR_DESTINATION_MAX + 2]; /* prefix, or absolute folder;
                                              ends with '/', or is "" */
};

/* use: "mirror" or "attach". ERR_INVALID: no such form; ERR_FORBIDDEN: not
 * allowed by the operator. */
int mirror_place_find(struct mirrors *m, const char *tenant,
                      const char *destination, const char *use,
                      struct mirror_place *ret, struct error *err);
/* The same place always has the same text: "s3://name/prefix/". */
void mirror_place_text(const char *destination, char *ret, size_t size);
int mirror_place_put(const struct mirror_place *p,
                     const struct workspace_file *f, int fd,
                     struct error *err);
int mirror_place_remove(const struct mirror_place *p, const char *path,
                        struct error *err);

/* ---- push.c ------------------------------------------------------------- */

void mirror_push_main(void *arg);
/* One round over all mirrors that are behind; true if any is left that can be
 * continued at once. */
bool mirror_push_round(struct mirrors *m);

#endif
