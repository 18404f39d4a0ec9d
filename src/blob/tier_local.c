/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local disk as a blob tier: DIR/blobs/ab/abcdef… . Runs in the daemon, on
 * any thread.
 *
 * A put syncs the staged file, renames it to its final name and syncs the
 * folder (D1, D2). Many files at once cost one sync of the file system and one
 * of each folder. If a file with the right bytes already has the name, the new
 * file is dropped, in the same time as a first one would take (I8): it is
 * synced, moved into the same folder and unlinked there, so that the sync of
 * the folder has a change to commit as well. A file with wrong bytes is
 * replaced.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define TRIES 4u
/* From this size on a few milliseconds matter less than a second hashing. */
#define LARGE_BYTES (1 << 20)
#define STRAY_MS 3600000 /* old enough that no writer is using it */

struct local_tier {
    struct blob_tier tier;
    struct blobs *b; /* its staging folder, copies and verified cache */
    int dir;         /* DIR/blobs */
};

static struct local_tier *local_of(struct blob_tier *t)
{
    return (struct local_tier *)t;
}

/* ---- put ---------------------------------------------------------------- */

/* Moves the staged file into its folder under a name that means nothing, and
 * removes it. */
static int drop_staged(const struct blob_tier_file *f, int folder,
                       struct error *err)
{
    char stray[sizeof(BLOB_STRAY) + BLOB_TEMP];

    (void)snprintf(stray, sizeof(stray), BLOB_STRAY "%s", f->name); /* fits */
    if (renameat(f->dir, f->name, folder, stray) < 0)
        return blob_fault(errno, "store an object", err);
    /* If it stays, local_list removes it some day. */
    (void)unlinkat(folder, stray, 0);
    return 0;
}

/* The file with wrong bytes is replaced. */
static int replace_damaged(struct local_tier *l, struct blob_tier_file *f,
                           const struct blob_name *name,
                           const struct blob_look *old, struct error *err)
{
    if (renameat(f->dir, f->name, l->dir, name->path) < 0)
        return blob_fault(errno, "store an object", err);
    f->more_bytes = (int64_t)f->size - old->st.st_size;
    log_event(LOG_WARN, "blob_healed", "sha256", f->sha256, NULL);
    return 0;
}

/* 1: the name has been taken meanwhile. */
static int rename_staged(struct local_tier *l, struct blob_tier_file *f,
                         const struct blob_name *name, struct error *err)
{
    int r = renameat2(f->dir, f->name, l->dir, name->path, RENAME_NOREPLACE);

    /* Where the file system cannot tell, the later of two equal files wins. */
    if (r < 0 && errno == EINVAL)
        r = renameat(f->dir, f->name, l->dir, name->path);
    if (r < 0 && errno == EEXIST)
        return 1;
    if (r < 0)
        return blob_fault(errno, "store an object", err);
    f->more_blobs = 1;
    f->more_bytes = (int64_t)f->size;
    return 0;
}

/* Same bytes, another owner: the staged file becomes that owner's copy, if it
 * has none yet. */
static int keep_as_copy(struct local_tier *l, const struct blob_tier_file *f,
                        const struct blob_name *name, int *folder,
                        struct error *err)
{
    int copies = l->b->tenant_copies;
    char path[BLOB_TENANT_COPY], *slash;
    int r;

    blob_tenant_copy_path(f->owner, false, name, path);
    r = blob_tenant_copy_mkdirs(l->b, path);
    if (r == 0 && renameat2(f->dir, f->name, copies, path, RENAME_NOREPLACE))
        r = -errno;
    if (r == -EEXIST || r == -EINVAL)
        return drop_staged(f, *folder, err);
    if (r < 0)
        return blob_fault(-r, "store an object", err);
    fd_close(folder);
    slash = strrchr(path, '/');
    *slash = '\0';
    *folder = openat(copies, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *folder < 0 ? blob_fault(errno, "store an object", err) : 0;
}

static bool local_owned(struct blob_tier *t, const char *sha256,
                        const char *owner);

/* old: what was found under the name. */
static int give_name(struct local_tier *l, struct blob_tier_file *f,
                     const struct blob_name *name, int *folder,
                     struct blob_look *old, struct error *err)
{
    int r = 1;

    for (unsigned i = 0; r == 1 && i < TRIES; i++) {
        if (old->state == BLOB_GOOD &&
            local_owned(&l->tier, f->sha256, f->owner))
            return drop_staged(f, *folder, err);
        if (old->state == BLOB_GOOD)
            return keep_as_copy(l, f, name, folder, err);
        if (old->state == BLOB_BAD)
            return replace_damaged(l, f, name, old, err);
        r = rename_staged(l, f, name, err);
        if (r == 1 && blob_read_look(l->b, name, old, NULL, err) < 0)
            return -(int)err->code;
    }
    if (r == 1)
        return error_set(err, ERR_INTERNAL, "a stored object comes and goes");
    return r;
}

static int open_folder(struct local_tier *l, unsigned first_byte, int *ret_fd,
                       struct error *err)
{
    char name[3];

    (void)snprintf(name, sizeof(name), "%02x", first_byte & 0xff); /* fits */
    *ret_fd = openat(l->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? blob_fault(errno, "store an object", err) : 0;
}

static int put_one(struct local_tier *l, struct blob_tier_file *f,
                   bool durable, struct error *err)
{
    struct blob_look old = {0};
    int folder cleanup(fd_close) = -1;
    struct blob_name name;
    int r = blob_name_parse(f->sha256, &name, err);

    if (r == 0)
        r = open_folder(l, name.hash[0], &folder, err);
    if (r < 0)
        return r;
    /* While the disk writes the new file, the stored one is hashed if need
     * be. The sync reports what goes wrong here. */
    if (durable && f->size >= LARGE_BYTES)
        (void)sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    r = blob_read_look(l->b, &name, &old, NULL, err);
    if (r == 0 && durable)
        r = blob_fault_sync(l->b, f->fd, err);
    if (r == 0)
        r = give_name(l, f, &name, &folder, &old, err);
    f->stored = r == 0;
    if (r == 0 && durable)
        r = blob_fault_sync(l->b, folder, err);
    if (r == 0 && durable && old.state != BLOB_GOOD)
        blob_verified_settle(l->b, &name, f->fd);
    return r;
}

/* Syncs the file system of that folder. */
static int sync_disk(struct local_tier *l, int dir, struct error *err)
{
    int r = blob_fault_refuse(l->b, err);

    if (r == 0 && syncfs(dir) < 0)
        r = blob_fault_final(l->b, errno, err);
    return r;
}

static int local_sync(struct blob_tier *t, struct error *err)
{
    return sync_disk(local_of(t), local_of(t)->dir, err);
}

/* All are written, then the file system is synced once, then all get their
 * names, then the folders are synced: the order that one alone has. */
static int put_many(struct local_tier *l, struct blob_tier_file *files,
                    size_t count, struct error *err)
{
    bool touched[BLOB_FOLDERS] = {0};
    int r = sync_disk(l, files[0].dir, err);

    for (size_t i = 0; i < count && r == 0; i++) {
        struct blob_name name;

        r = blob_name_parse(files[i].sha256, &name, err);
        if (r == 0)
            r = put_one(l, &files[i], false, err);
        if (r == 0)
            touched[name.hash[0]] = true;
    }
    for (unsigned i = 0; i < BLOB_FOLDERS && r == 0; i++) {
        int folder cleanup(fd_close) = -1;

        if (!touched[i])
            continue;
        r = open_folder(l, i, &folder, err);
        if (r == 0)
            r = blob_fault_sync(l->b, folder, err);
    }
    return r;
}

static int local_put(struct blob_tier *t, struct blob_tier_file *files,
                     size_t count, bool durable, struct error *err)
{
    int r = 0;

    if (durable && (count > 1 || (count == 1 && files[0].fd < 0)))
        return put_many(local_of(t), files, count, err);
    for (size_t i = 0; i < count && r == 0; i++)
        r = put_one(local_of(t), &files[i], durable, err);
    return r;
}

/* ---- get, stat, link ---------------------------------------------------- */

static int local_get(struct blob_tier *t, const char *sha256, int *ret_fd,
                     struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    fd = openat(local_of(t)->dir, name.path,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0 && (errno == EIO || errno == ELOOP))
        return error_set(err, ERR_CORRUPT, "cannot read a stored object");
    if (fd < 0)
        return blob_fault(errno, "open a stored object", err);
    *ret_fd = take_fd(fd);
    return 0;
}

static int local_stat(struct blob_tier *t, const char *sha256,
                      struct stat *ret, struct error *err)
{
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    if (fstatat(local_of(t)->dir, name.path, ret, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    return errno == ENOENT ? 1
                           : blob_fault(errno, "look at a stored object", err);
}

static int local_file(struct blob_tier *t, const char *sha256,
                      struct stat *ret)
{
    struct error unsaid;

    return local_stat(t, sha256, ret, &unsaid) == 0 ? 0 : 1;
}

static bool local_owned(struct blob_tier *t, const char *sha256,
                        const char *owner)
{
    int fd cleanup(fd_close) = -1;
    struct error unsaid;

    return local_get(t, sha256, &fd, &unsaid) == 0 &&
           blob_tenant_copy_marked(fd, owner);
}

static int local_link(struct blob_tier *t, const char *sha256, int dir,
                      const char *name)
{
    struct blob_name blob;
    struct error unsaid;

    if (blob_name_parse(sha256, &blob, &unsaid) < 0)
        return -EINVAL;
    return linkat(local_of(t)->dir, blob.path, dir, name, 0) < 0 ? -errno : 0;
}

/* ---- remove, list ------------------------------------------------------- */

static int local_remove(struct blob_tier *t, const char *sha256,
                        struct error *err)
{
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    if (unlinkat(local_of(t)->dir, name.path, 0) == 0)
        return 0;
    return errno == ENOENT ? 1
                           : blob_fault(errno, "remove a stored object", err);
}

static int64_t mtime_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* A writer that was killed while it dropped a second copy left this. */
static void remove_stray(int dir, const char *name)
{
    struct stat st;

    if (strncmp(name, BLOB_STRAY, sizeof(BLOB_STRAY) - 1) != 0 ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        clock_real_ms() - mtime_ms(&st) < STRAY_MS)
        return;
    (void)unlinkat(dir, name, 0); /* there is a next time */
}

static bool is_blob(const char *name, unsigned first_byte)
{
    struct blob_name parsed;
    struct error err;

    return strlen(name) == BLOB_NAME - 1 &&
           blob_name_parse(name, &parsed, &err) == 0 &&
           parsed.hash[0] == first_byte;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The names of one folder, read and sorted at once, so that blobs may be put
 * and removed while the caller goes through them. ret_names: owned by caller,
 * also on failure. Negative errno. */
static int read_names(int folder, unsigned first_byte,
                      char (**ret_names)[BLOB_NAME], size_t *ret_count)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    int fd cleanup(fd_close) = fd_dup(folder, 0);
    size_t count = 0, room = 0;
    struct dirent *e;

    if (fd < 0)
        return fd;
    dir = fdopendir(fd);
    if (!dir)
        return -errno;
    (void)take_fd(fd); /* dir's now */
    while ((errno = 0, e = readdir(dir))) {
        if (!is_blob(e->d_name, first_byte)) {
            remove_stray(dirfd(dir), e->d_name);
            continue;
        }
        if (count == room) {
            room = room ? 2 * room : 64;
            *ret_names = xrealloc(*ret_names, room * sizeof(**ret_names));
        }
        memcpy((*ret_names)[count++], e->d_name, BLOB_NAME);
    }
    if (errno)
        return -errno;
    if (count)
        qsort(*ret_names, count, sizeof(**ret_names), by_name);
    *ret_count = count;
    return 0;
}

static int local_list(struct blob_tier *t, unsigned first_byte,
                      blob_iterate_fn fn, void *ctx, struct error *err)
{
    char(*names)[BLOB_NAME] cleanup(mem_free) = NULL;
    int folder cleanup(fd_close) = -1;
    size_t count = 0;
    int r = open_folder(local_of(t), first_byte, &folder, err);

    if (r < 0)
        return r;
    r = read_names(folder, first_byte, &names, &count);
    if (r < 0)
        return blob_fault(-r, "list the stored objects", err);
    for (size_t i = 0; i < count; i++) {
        struct blob_info info;
        struct stat st;

        if (fstatat(folder, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT) /* removed meanwhile */
                continue;
            return blob_fault(errno, "list the stored objects", err);
        }
        memcpy(info.sha256, names[i], BLOB_NAME);
        info.size = (uint64_t)st.st_size;
        info.stored_at_ms = mtime_ms(&st);
        r = fn(ctx, &info);
        if (r)
            return r;
    }
    return 0;
}

/* ---- open and close ----------------------------------------------------- */

static void local_close(struct blob_tier *t)
{
    struct local_tier *l = local_of(t);

    fd_close(&l->dir);
    free(l);
}

static const struct blob_tier_ops local_ops = {
    .name = "local disk",
    .behind_log = true,
    .put = local_put,
    .sync = local_sync,
    .get = local_get,
    .stat = local_stat,
    .file = local_file,
    .remove = local_remove,
    .list = local_list,
    .close = local_close,
    .owned = local_owned,
    .link = local_link,
};

int blob_tier_local_open(struct blobs *b, struct blob_tier **ret,
                         struct error *err)
{
    struct local_tier *l = xcalloc(1, sizeof(*l));

    l->tier.ops = &local_ops;
    l->b = b;
    l->dir = fd_dup(b->dir, 0);
    *ret = &l->tier;
    if (l->dir < 0)
        return blob_fault(-l->dir, "open the folders of stored objects", err);
    for (unsigned i = 0; i < BLOB_FOLDERS; i++) {
        char name[3];

        (void)snprintf(name, sizeof(name), "%02x", i & 0xff); /* fits */
        if (mkdirat(l->dir, name, 0700) < 0 && errno != EEXIST)
            return blob_fault(errno, "make the folders of stored objects",
                              err);
    }
    /* An earlier run may have been killed before it synced them. */
    return blob_fault_sync(b, l->dir, err);
}
