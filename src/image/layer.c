/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer of an image: a tar file, plain or compressed, applied to the tree
 * below /. Runs in the import's child process, in a root folder of its own and
 * without privilege. libarchive reads; what is written is decided here:
 * folders, files, symbolic and hard links, with the permission bits only.
 * Owners, set-user-id bits, extended attributes and device nodes are left out.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "image/image_int.h"

#define READ_SIZE 65536u
#define DEPTH_MAX 128
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

/* The blob is unpacked by one reader and parsed as tar by another, so that its
 * unpacked bytes can be hashed and counted between. */
struct layer {
    struct image *im;
    struct archive *raw, *tar;
    struct hash_stream *hash;
    uint64_t packed, unpacked;
    char buf[READ_SIZE];
    struct error *err; /* of a limit that was reached while reading */
};

/* ---- reading ------------------------------------------------------------ */

static int over_limits(struct layer *l, struct error *err)
{
    const struct image_limits *most = l->im->job->limits;

    if (l->im->bytes > most->bytes)
        return error_set(err, ERR_TOO_LARGE,
                         "the image unpacks to more than %llu bytes",
                         (unsigned long long)most->bytes);
    if (l->unpacked > most->ratio_from &&
        l->unpacked / MAX(l->packed, 1u) > most->ratio)
        return error_set(err, ERR_TOO_LARGE,
                         "a layer of %llu bytes unpacks to more than %llu "
                         "times its size",
                         (unsigned long long)l->packed,
                         (unsigned long long)most->ratio);
    return 0;
}

static la_ssize_t on_tar_wants(struct archive *tar, void *ctx,
                               const void **ret)
{
    struct layer *l = ctx;
    la_ssize_t n = archive_read_data(l->raw, l->buf, sizeof(l->buf));

    if (n < 0) {
        archive_set_error(tar, EIO, "%s", archive_error_string(l->raw));
        return -1;
    }
    hash_stream_add(l->hash, l->buf, (size_t)n);
    l->unpacked += (uint64_t)n;
    l->im->bytes += (uint64_t)n;
    if (over_limits(l, l->err) < 0) {
        archive_set_error(tar, EFBIG, "limit");
        return -1;
    }
    *ret = l->buf;
    return n;
}

static int broken(struct layer *l, struct archive *a, struct error *err)
{
    if (l->err->code == ERR_TOO_LARGE) {
        *err = *l->err;
        return -(int)err->code;
    }
    return error_set(err, ERR_INVALID, "a layer cannot be read: %.200s",
                     archive_error_string(a) ? archive_error_string(a)
                                             : "it is damaged");
}

/* ---- the tree ----------------------------------------------------------- */

static int system_error(const char *what, const char *path, struct error *err)
{
    return error_errno(err, errno == ENOSPC ? ERR_SPACE : ERR_INVALID, errno,
                       "cannot %s /%.150s", what, path);
}

static int remove_at(int parent, const char *name, int depth)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;
    int fd;

    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (depth > DEPTH_MAX)
        return -ELOOP;
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return -errno;
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            int r = remove_at(dirfd(dir), entry->d_name, depth + 1);

            if (r < 0)
                return r;
        }
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int image_layer_remove(const char *path, struct error *err)
{
    int r = remove_at(AT_FDCWD, path, 0);

    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot replace /%.150s",
                           path);
    return 0;
}

int image_layer_parents(const char *path, struct error *err)
{
    char part[IMAGE_PATH_MAX];
    struct stat st;

    for (const char *slash = strchr(path, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        /* A link to a folder is one, as in a running container. */
        if (stat(part, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                continue;
            return error_set(err, ERR_INVALID,
                             "/%.150s is below a file of the image", path);
        }
        if (mkdir(part, 0755) < 0)
            return system_error("make the folder", part, err);
    }
    return 0;
}

/* Relative to the root, without "." and empty parts; false: it leads out of
 * the tree or is too long. The root itself is "". */
static bool clean_path(const char *name, char ret[IMAGE_PATH_MAX])
{
    size_t len = 0;
    unsigned depth = 0;

    while (*name) {
        size_t part = strcspn(name, "/");

        if (part == 2 && name[0] == '.' && name[1] == '.')
            return false;
        if (part > 0 && !(part == 1 && name[0] == '.')) {
            if (part > 255 || len + part + 2 > IMAGE_PATH_MAX ||
                ++depth > DEPTH_MAX)
                return false;
            if (len)
                ret[len++] = '/';
            memcpy(ret + len, name, part);
            len += part;
        }
        name += part + (name[part] == '/');
    }
    ret[len] = '\0';
    return true;
}

/* ---- entries ------------------------------------------------------------ */

static int put_folder(const char *path, mode_t mode, struct error *err)
{
    struct stat st;

    /* The owner may always work in it: later layers do. */
    mode = (mode & 01777) | 0700;
    if (!path[0])
        return 0;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && stat(path, &st) == 0 &&
        S_ISDIR(st.st_mode))
        return 0; /* a link to a folder stays */
    if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        int r = image_layer_remove(path, err);

        if (r < 0)
            return r;
    }
    if (mkdir(path, mode) < 0 && errno != EEXIST)
        return system_error("make the folder", path, err);
    if (chmod(path, mode) < 0)
        return system_error("set the mode of", path, err);
    return 0;
}

static int put_bytes(struct layer *l, int fd, const char *path,
                     struct error *err)
{
    const void *block;
    la_int64_t at;
    size_t size;
    int r;

    while ((r = archive_read_data_block(l->tar, &block, &size, &at)) ==
           ARCHIVE_OK) {
        size_t done = 0;

        if (at < 0 || (uint64_t)at + size > l->im->job->limits->bytes)
            return error_set(err, ERR_TOO_LARGE,
                             "/%.150s is larger than an image may be", path);
        while (done < size) {
            ssize_t n = pwrite(fd, (const char *)block + done, size - done,
                               at + (la_int64_t)done);

            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return system_error("write", path, err);
            done += (size_t)n;
        }
    }
    return r == ARCHIVE_EOF ? 0 : broken(l, l->tar, err);
}

static int put_file(struct layer *l, struct archive_entry *entry,
                    const char *path, struct error *err)
{
    mode_t mode = (mode_t)archive_entry_perm(entry) & 0777;
    int64_t size = archive_entry_size(entry);
    int fd cleanup(fd_close) = -1;
    int r = image_layer_remove(path, err);

    if (r < 0)
        return r;
    /* A hole counts as what it stands for. */
    if (size < 0 || (uint64_t)size > l->im->job->limits->bytes)
        return error_set(err, ERR_TOO_LARGE,
                         "/%.150s is larger than an image may be", path);
    fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return system_error("make", path, err);
    r = put_bytes(l, fd, path, err);
    if (r == 0 && (ftruncate(fd, size) < 0 || fchmod(fd, mode) < 0))
        r = system_error("write", path, err);
    return r;
}

static int put_hard_link(struct archive_entry *entry, const char *path,
                         struct error *err)
{
    const char *name = archive_entry_hardlink(entry);
    char target[IMAGE_PATH_MAX];
    struct stat st;
    int r;

    if (!name || !clean_path(name, target) || !target[0] ||
        lstat(target, &st) < 0 || S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVALID,
                         "the hard link /%.150s leads to no file of the image",
                         path);
    if (strcmp(target, path) == 0)
        return 0;
    r = image_layer_remove(path, err);
    if (r == 0 && linkat(AT_FDCWD, target, AT_FDCWD, path, 0) < 0)
        r = system_error("link", path, err);
    return r;
}

static int put_link(struct archive_entry *entry, const char *path,
                    struct error *err)
{
    const char *target = archive_entry_symlink(entry);
    int r;

    if (!target || !target[0] || strlen(target) >= IMAGE_PATH_MAX)
        return error_set(err, ERR_INVALID,
                         "the link /%.150s has no target or one that is too "
                         "long",
                         path);
    r = image_layer_remove(path, err);
    if (r == 0 && symlink(target, path) < 0)
        r = system_error("link", path, err);
    return r;
}

/* ".wh.name" removes what lower layers have at name, ".wh..wh..opq" all that
 * they have in its folder. Other names with two marks are of old tools. */
static int apply_whiteout(const char *path, const char *last,
                          struct error *err)
{
    char target[IMAGE_PATH_MAX];
    size_t folder = (size_t)(last - path);
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;

    memcpy(target, path, folder);
    if (strcmp(last, OPAQUE) != 0) {
        const char *name = last + strlen(WHITEOUT);

        if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            return error_set(err, ERR_INVALID, "/%.150s is no valid whiteout",
                             path);
        if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
            return 0;
        (void)snprintf(target + folder, sizeof(target) - folder, "%s", name);
        return image_layer_remove(target, err);
    }
    (void)snprintf(target + folder, sizeof(target) - folder, ".");
    dir = opendir(target);
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0 &&
            remove_at(dirfd(dir), entry->d_name, 0) < 0)
            return system_error("empty", target, err);
    return 0;
}

static int apply_entry(struct layer *l, struct archive_entry *entry,
                       struct error *err)
{
    const char *name = archive_entry_pathname(entry);
    char path[IMAGE_PATH_MAX] = "";
    const char *last;
    int r;

    if (++l->im->entries > l->im->job->limits->entries)
        return error_set(err, ERR_TOO_LARGE,
                         "the image has more than %llu files",
                         (unsigned long long)l->im->job->limits->entries);
    if (!name || !clean_path(name, path))
        return error_set(err, ERR_INVALID,
                         "the path '%.150s' leads out of the image or is too "
                         "long",
                         name ? name : "");
    last = strrchr(path, '/');
    last = last ? last + 1 : path;
    r = image_layer_parents(path, err);
    if (r < 0)
        return r;
    if (strncmp(last, WHITEOUT, strlen(WHITEOUT)) == 0)
        return apply_whiteout(path, last, err);
    if (archive_entry_hardlink(entry))
        return put_hard_link(entry, path, err);
    switch (archive_entry_filetype(entry)) {
    case AE_IFDIR:
        return put_folder(path, (mode_t)archive_entry_perm(entry), err);
    case AE_IFREG:
        return path[0] ? put_file(l, entry, path, err) : 0;
    case AE_IFLNK:
        return path[0] ? put_link(entry, path, err) : 0;
    default: /* devices, pipes and sockets */
        l->im->skipped++;
        return 0;
    }
}

/* ---- for others --------------------------------------------------------- */

/* The opaque mark of a folder removes what lower layers have, but may come
 * after entries of its own layer; so whiteouts are applied in a pass before.
 */
static int read_entries(struct layer *l, bool whiteouts, struct error *err)
{
    struct archive_entry *entry;
    int r;

    while ((r = archive_read_next_header(l->tar, &entry)) == ARCHIVE_OK ||
           r == ARCHIVE_WARN) {
        const char *name = archive_entry_pathname(entry);
        const char *last = name ? strrchr(name, '/') : NULL;
        bool mark;

        last = last ? last + 1 : name ? name : "";
        mark = strncmp(last, WHITEOUT, strlen(WHITEOUT)) == 0;
        if (mark != whiteouts)
            continue;
        r = apply_entry(l, entry, err);
        if (r < 0)
            return r;
    }
    return r == ARCHIVE_EOF ? 0 : broken(l, l->tar, err);
}

static void layer_close(struct layer *l)
{
    (void)archive_read_free(l->tar); /* only memory; NULL is fine */
    (void)archive_read_free(l->raw);
    hash_stream_free(l->hash);
    l->tar = l->raw = NULL;
    l->hash = NULL;
}

static int layer_open(struct layer *l, int file, struct error *err)
{
    struct archive_entry *whole;

    l->raw = archive_read_new();
    l->tar = archive_read_new();
    l->hash = hash_stream_new();
    l->unpacked = 0;
    if (!l->raw || !l->tar)
        return error_set(err, ERR_INTERNAL, "out of memory");
    (void)archive_read_support_filter_gzip(l->raw); /* of this build */
    (void)archive_read_support_filter_zstd(l->raw);
    (void)archive_read_support_format_raw(l->raw);
    (void)archive_read_support_format_empty(l->raw);
    (void)archive_read_support_format_tar(l->tar);
    (void)archive_read_support_format_empty(l->tar);
    if (lseek(file, 0, SEEK_SET) < 0 ||
        archive_read_open_fd(l->raw, file, READ_SIZE) != ARCHIVE_OK)
        return broken(l, l->raw, err);
    if (archive_read_next_header(l->raw, &whole) < ARCHIVE_WARN)
        return broken(l, l->raw, err);
    if (archive_read_open(l->tar, l, NULL, on_tar_wants, NULL) != ARCHIVE_OK)
        return broken(l, l->tar, err);
    return 0;
}

/* Reads on to the end, for the hash. */
static int layer_verify(struct layer *l, const char *diff_id,
                        struct error *err)
{
    unsigned char digest[HASH_SIZE];
    char hex[IMAGE_DIGEST];
    const void *ignored;
    la_ssize_t n;

    do
        n = on_tar_wants(l->tar, l, &ignored);
    while (n > 0);
    if (n < 0)
        return broken(l, l->tar, err);
    hash_stream_end(take_ptr(l->hash), digest);
    for (int i = 0; i < HASH_SIZE; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    if (diff_id && strcmp(hex, diff_id) != 0)
        return error_set(err, ERR_INVALID,
                         "a layer unpacks to other bytes than the image "
                         "promises: sha256 %.12s… instead of %.12s…",
                         hex, diff_id);
    return 0;
}

int image_layer_apply(struct image *im, int file, const char *diff_id,
                      struct error *err)
{
    struct error limit = {0};
    struct layer *l = xcalloc(1, sizeof(*l));
    uint64_t bytes = im->bytes, entries = im->entries;
    struct stat st;
    int r = 0;

    l->im = im;
    l->err = &limit;
    if (fstat(file, &st) < 0)
        r = error_errno(err, ERR_INTERNAL, errno, "fstat");
    else
        l->packed = (uint64_t)st.st_size;
    for (int pass = 0; r == 0 && pass < 2; pass++) {
        im->bytes = bytes; /* counted once */
        im->entries = pass ? im->entries : entries;
        r = layer_open(l, file, err);
        if (r == 0)
            r = read_entries(l, pass == 0, err);
        /* Verified before anything but whiteouts is written. */
        if (r == 0)
            r = layer_verify(l, diff_id, err);
        layer_close(l);
    }
    layer_close(l);
    free(l);
    return r;
}

int image_layer_hash(int file, char ret_hex[IMAGE_DIGEST], uint64_t *ret_size,
                     struct error *err)
{
    struct hash_stream *hash = hash_stream_new();
    unsigned char digest[HASH_SIZE];
    char *buf cleanup(mem_free) = xmalloc(READ_SIZE);
    uint64_t size = 0;
    ssize_t n;

    while ((n = fd_read_all(file, buf, READ_SIZE)) > 0) {
        hash_stream_add(hash, buf, (size_t)n);
        size += (uint64_t)n;
    }
    hash_stream_end(hash, digest);
    if (n < 0)
        return error_errno(err, ERR_INVALID, (int)-n, "cannot read a blob");
    for (int i = 0; i < HASH_SIZE; i++)
        (void)snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
    *ret_size = size;
    return 0;
}
