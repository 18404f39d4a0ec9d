/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a directory tree that a session wrote. Runs in a session's pid 1.
 * Iterative, by descriptor, without following links, and with a limit on the
 * number of entries. Names that break the rules of the API are reported
 * escaped and marked as skipped; a folder with such a name is not entered.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "kernel/kernel_int.h"

#define DEPTH_MAX 32
#define OPAQUE "user.overlay.opaque"

/* ---- lists -------------------------------------------------------------- */

/* A name shown escaped is not the file that really has that name. */
static int shown(const struct scan_file *f)
{
    return f->kind == INIT_ENTRY_SKIPPED && f->size == EILSEQ;
}

int dir_walk_order(const void *a, const void *b)
{
    const struct scan_file *x = a, *y = b;
    int order = strcmp(x->path, y->path);

    return order ? order : shown(x) - shown(y);
}

void dir_walk_clear(struct scan_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->files[i].path);
    free(l->files);
    *l = (struct scan_list){0};
}

struct scan_file *dir_walk_put(struct scan_list *l, const struct scan_file *f)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->files = xrealloc(l->files, l->room * sizeof(*l->files));
    }
    l->files[l->count] = *f;
    return &l->files[l->count++];
}

struct scan_file *dir_walk_add(struct scan_list *l, const char *path)
{
    return dir_walk_put(l, &(struct scan_file){.path = xstrdup(path)});
}

void dir_walk_sort(struct scan_list *l)
{
    if (l->count)
        qsort(l->files, l->count, sizeof(*l->files), dir_walk_order);
}

/* ---- names and files ---------------------------------------------------- */

/* UTF-8 without control characters? Returns the length of the valid start. */
static size_t clean_prefix(const char *name)
{
    size_t at = 0, len = strlen(name);

    while (at < len) {
        size_t n = utf8_length(name + at, len - at);

        if (n == 0 || (unsigned char)name[at] < 0x20 || name[at] == 0x7f)
            break;
        at += n;
    }
    return at;
}

static void escape(const char *path, char *ret, size_t size)
{
    size_t used = 0;

    while (*path && used + 5 < size) {
        size_t room = size - used - 5, ok = clean_prefix(path);

        if (ok > room) /* cut between characters */
            for (ok = room; ok && ((unsigned char)path[ok] & 0xc0) == 0x80;)
                ok--;
        memcpy(ret + used, path, ok);
        used += ok;
        path += ok;
        if (*path && clean_prefix(path) > 0)
            break; /* out of room */
        if (*path && used + 5 < size)
            used += (size_t)snprintf(ret + used, size - used, "\\x%02x",
                                     (unsigned char)*path++);
    }
    ret[used] = '\0';
}

static int64_t in_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

void dir_walk_describe(struct scan_file *f, const struct stat *st,
                       uint16_t kind)
{
    f->size = (uint64_t)st->st_size;
    f->mtime_ns = in_ns(&st->st_mtim);
    f->ctime_ns = in_ns(&st->st_ctim);
    f->inode = st->st_ino;
    f->stored = (uint64_t)st->st_blocks * 512;
    f->executable = (st->st_mode & S_IXUSR) != 0;
    f->kind = kind;
}

bool dir_walk_is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

bool dir_walk_is_opaque(int dir)
{
    char mark[2];

    return fgetxattr(dir, OPAQUE, mark, sizeof(mark)) == 1 && mark[0] == 'y';
}

/* ---- the walk ----------------------------------------------------------- */

struct walk {
    enum walk_view view;
    DIR *dirs[DEPTH_MAX];
    size_t lens[DEPTH_MAX]; /* of path at each level */
    size_t depth;
    char path[INIT_PATH_MAX + 512];
    size_t visited; /* entries of any kind */
    struct scan_list *out;
};

static void add_skipped(struct walk *w, const struct stat *st, int why)
{
    char text[INIT_PATH_MAX];
    struct scan_file *f;

    escape(w->path, text, sizeof(text));
    f = dir_walk_add(w->out, text);
    dir_walk_describe(f, st, INIT_ENTRY_SKIPPED);
    f->size = (uint64_t)why;
}

static void add(struct walk *w, const struct stat *st, uint16_t kind)
{
    dir_walk_describe(dir_walk_add(w->out, w->path), st, kind);
}

static void enter_dir(struct walk *w, const struct stat *st, size_t len)
{
    DIR *parent = w->dirs[w->depth - 1];
    const char *name = w->path + w->lens[w->depth - 1];
    int fd;

    if (w->depth == DEPTH_MAX) {
        add_skipped(w, st, ENAMETOOLONG);
        return;
    }
    fd = openat(dirfd(parent), name,
                O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    w->dirs[w->depth] = fd < 0 ? NULL : fdopendir(fd);
    if (!w->dirs[w->depth]) {
        fd_close(&fd);
        if (w->view != WALK_LIST)
            add(w, st, SCAN_BLIND);
        return;
    }
    if (w->view == WALK_LAYERED && dir_walk_is_opaque(fd))
        add(w, st, INIT_ENTRY_CLEARED);
    w->path[len] = '/';
    w->path[len + 1] = '\0';
    w->lens[w->depth++] = len + 1;
}

/* Links, sockets and FIFOs are not reported as files, but one may have
 * replaced a file. */
static void visit_odd(struct walk *w, const struct stat *st)
{
    if (w->view == WALK_LIST)
        return;
    if (w->view == WALK_LAYERED && dir_walk_is_whiteout(st))
        add(w, st, INIT_ENTRY_GONE);
    else
        add_skipped(w, st, S_ISLNK(st->st_mode) ? ELOOP : ENODEV);
}

static void visit(struct walk *w, const char *name)
{
    size_t base = w->lens[w->depth - 1], len = base + strlen(name);
    struct stat st;

    w->visited++;
    memcpy(w->path + base, name, strlen(name) + 1);
    if (fstatat(dirfd(w->dirs[w->depth - 1]), name, &st, AT_SYMLINK_NOFOLLOW) <
        0)
        return; /* gone meanwhile */
    if (w->view == WALK_LIST && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return;
    if (len > INIT_PATH_MAX || clean_prefix(w->path) != len)
        add_skipped(w, &st, EILSEQ);
    else if (S_ISDIR(st.st_mode))
        enter_dir(w, &st, len);
    else if (S_ISREG(st.st_mode))
        add(w, &st, w->view == WALK_LIST ? INIT_ENTRY_FILE : INIT_ENTRY_WROTE);
    else
        visit_odd(w, &st);
}

int dir_walk_tree(int dir, enum walk_view view, struct scan_list *out)
{
    struct walk w = {.view = view, .out = out};
    int fd = openat(dir, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    w.dirs[0] = fd < 0 ? NULL : fdopendir(fd);
    if (!w.dirs[0]) {
        int r = -errno;

        fd_close(&fd);
        return r;
    }
    w.depth = 1;
    while (w.depth) {
        struct dirent *d = readdir(w.dirs[w.depth - 1]);

        if (!d || w.visited >= WALK_ENTRIES_MAX) {
            out->cut |= d != NULL;
            fd_closedir(&w.dirs[--w.depth]);
            continue;
        }
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
            strncmp(d->d_name, BROKER_TEMP, sizeof(BROKER_TEMP) - 1) != 0)
            visit(&w, d->d_name);
    }
    dir_walk_sort(out);
    return 0;
}
