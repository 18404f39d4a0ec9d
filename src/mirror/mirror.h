/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces and places outside: a mirror copies a workspace to a bucket or a
 * folder after each commit; an attachment copies objects of a bucket into a
 * workspace. Runs in gloveboxd, with one thread that copies.
 *
 * The operator decides where to: buckets of the configuration whose use is
 * mirror or attach, for the tenants they name, and folders below
 * mirror_folders. A client chooses among these by name (s3://NAME/prefix,
 * file:///folder), never a host. Policy is asked as for sharing the whole
 * workspace.
 *
 * A mirror is a row: what was copied last, and how far the next copy is. It
 * continues after a restart. Of several commits only the last state of each
 * file is copied. A mirror that fails is tried again with growing pauses and
 * holds up no other one. Any thread may call.
 */
#ifndef GLOVEBOX_MIRROR_MIRROR_H
#define GLOVEBOX_MIRROR_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

#define MIRROR_DESTINATION_MAX 1024u /* bytes */
#define MIRROR_PER_TENANT 1000
#define MIRROR_ATTACH_OBJECTS 10000u /* of one attachment */
#define MIRROR_ATTACH_BYTES (8ull << 30)

struct actor;
struct conf;
struct conf_bucket;
struct core;
struct error;
struct mirrors;
struct s3;
struct workspaces;

struct mirror_bucket {
    const struct conf_bucket *conf; /* borrowed */
    struct s3 *s3;                  /* taken, also when opening fails */
};

struct mirrors_parts {
    const struct conf *conf;
    const struct core *core;
    struct workspaces *workspaces;
    const struct mirror_bucket *buckets;
    size_t bucket_count;
};

/* Starts the thread. Borrows conf, core and workspaces until close. */
int mirrors_open(const struct mirrors_parts *parts, struct mirrors **ret,
                 struct error *err);
void mirrors_close(struct mirrors *m); /* accepts NULL */

struct mirror_info {
    char workspace[ID_MAX];
    char destination[MIRROR_DESTINATION_MAX + 1];
    bool remove; /* what is deleted here is deleted there */
    char created_by[ID_MAX];
    int64_t created_at_ms;
    char commit[ID_MAX];    /* the last one copied; "" none yet */
    int64_t mirrored_at_ms; /* 0: never */
    uint64_t files, bytes;  /* copied since it was set */
    int64_t lag;            /* commits that are not copied yet */
    char error[320];        /* "" none */
    int64_t retry_at_ms;    /* when it is tried again; 0: not waiting */
};

/* Sets or replaces it; the owner of the workspace may. ERR_FORBIDDEN: the
 * operator does not allow that destination; ERR_CONFLICT: it overlaps another
 * workspace's. A new destination begins with a full copy. */
int mirror_set(struct mirrors *m, const struct actor *who,
               const char *workspace, const char *destination, bool remove,
               struct mirror_info *ret, struct error *err);
/* ERR_NOT_FOUND: it has none. */
int mirror_get(struct mirrors *m, const struct actor *who,
               const char *workspace, struct mirror_info *ret,
               struct error *err);
/* Ends it; what was copied stays. */
int mirror_unset(struct mirrors *m, const struct actor *who,
                 const char *workspace, struct error *err);

struct mirror_attached {
    char commit[ID_MAX]; /* "" nothing changed */
    uint64_t files, bytes;
};
/* Copies the objects below s3://NAME/prefix into a folder ("": the top), as
 * one commit. The bucket is only read. ERR_LIMIT: more than
 * MIRROR_ATTACH_OBJECTS objects or MIRROR_ATTACH_BYTES. */
int mirror_attach(struct mirrors *m, const struct actor *who,
                  const char *workspace, const char *source,
                  const char *folder, struct mirror_attached *ret,
                  struct error *err);

#endif
