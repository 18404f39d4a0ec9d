/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking /mnt/data: the listing, and what changed since the last look. Runs
 * in a session's pid 1. Iterative, by descriptor, follows nothing, and ends
 * at a bound whatever the tree looks like. Names that break the rules of the
 * API are reported escaped and marked as skipped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "kernel/kernel_int.h"

#define DEPTH_MAX 32
#define ENTRIES_MAX 200000

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct scan_file *)a)->path,
                  ((const struct scan_file *)b)->path);
}

static void list_clear(struct scan_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->files[i].path);
    free(l->files);
    *l = (struct scan_list){0};
}

static struct scan_file *list_add(struct scan_list *l, const char *path)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->files = xrealloc(l->files, l->room * sizeof(*l->files));
    }
    l->files[l->count] = (struct scan_file){.path = xstrdup(path)};
    return &l->files[l->count++];
}

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

static void describe(struct scan_file *f, const struct stat *st)
{
    f->size = (uint64_t)st->st_size;
    f->mtime_ns = in_ns(&st->st_mtim);
    f->ctime_ns = in_ns(&st->st_ctim);
    f->inode = st->st_ino;
    f->kind = INIT_ENTRY_FILE;
}

/* ---- the walk
 * --------------------------------------------------------------- */

struct walk {
    DIR *dirs[DEPTH_MAX];
    size_t lens[DEPTH_MAX]; /* of path at each level */
    size_t depth;
    char path[INIT_PATH_MAX + 512];
    size_t visited; /* entries of any kind */
    struct scan_list *out;
};

static void add_skipped(struct walk *w, int why)
{
    char shown[INIT_PATH_MAX];
    struct scan_file *f;

    escape(w->path, shown, sizeof(shown));
    f = list_add(w->out, shown);
    f->kind = INIT_ENTRY_SKIPPED;
    f->size = (uint64_t)why;
}

static void enter_dir(struct walk *w, size_t len)
{
    DIR *parent = w->dirs[w->depth - 1];
    const char *name = w->path + (w->lens[w->depth - 1]);
    int fd;

    if (w->depth == DEPTH_MAX) {
        add_skipped(w, ENAMETOOLONG);
        return;
    }
    fd = openat(dirfd(parent), name,
                O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    w->dirs[w->depth] = fd < 0 ? NULL : fdopendir(fd);
    if (!w->dirs[w->depth]) {
        add_skipped(w, errno);
        fd_close(&fd);
        return;
    }
    w->path[len] = '/';
    w->path[len + 1] = '\0';
    w->lens[w->depth++] = len + 1;
}

static void visit(struct walk *w, const char *name)
{
    size_t base = w->lens[w->depth - 1], len = base + strlen(name);
    struct scan_file *f;
    struct stat st;

    w->visited++;
    if (len > INIT_PATH_MAX + 255)
        return; /* deeper than the API's paths reach; its folder is listed */
    memcpy(w->path + base, name, strlen(name) + 1);
    if (fstatat(dirfd(w->dirs[w->depth - 1]), name, &st, AT_SYMLINK_NOFOLLOW) <
        0)
        return; /* gone meanwhile */
    if (S_ISDIR(st.st_mode)) {
        enter_dir(w, len);
    } else if (!S_ISREG(st.st_mode)) {
        return; /* links, sockets, FIFOs are the session's own affair */
    } else if (len > INIT_PATH_MAX || clean_prefix(w->path) != len) {
        add_skipped(w, EILSEQ);
    } else {
        f = list_add(w->out, w->path);
        describe(f, &st);
    }
}

static int collect(int data, struct scan_list *out)
{
    struct walk w = {.out = out};
    int fd = openat(data, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    w.dirs[0] = fd < 0 ? NULL : fdopendir(fd);
    if (!w.dirs[0]) {
        fd_close(&fd);
        return -errno;
    }
    w.depth = 1;
    while (w.depth) {
        struct dirent *d = readdir(w.dirs[w.depth - 1]);

        if (!d || w.visited >= ENTRIES_MAX) {
            fd_closedir(&w.dirs[--w.depth]);
            continue;
        }
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
            strncmp(d->d_name, ".glovebox-upload-", 17) != 0 &&
            !(w.depth == 1 && strcmp(d->d_name, "lost+found") == 0))
            visit(&w, d->d_name);
    }
    if (out->count)
        qsort(out->files, out->count, sizeof(*out->files), by_path);
    out->cut = w.visited >= ENTRIES_MAX;
    return 0;
}

/* ---- packing
 * ----------------------------------------------------------------- */

static bool pack(const struct scan_file *f, char *buf, size_t size,
                 size_t *len)
{
    size_t path_len = strlen(f->path);
    struct init_entry e = {.size = f->size,
                           .mtime_ns = f->mtime_ns,
                           .kind = f->kind,
                           .path_len = (uint16_t)path_len};

    if (*len + sizeof(e) + path_len > size)
        return false;
    memcpy(buf + *len, &e, sizeof(e));
    memcpy(buf + *len + sizeof(e), f->path, path_len);
    *len += sizeof(e) + path_len;
    return true;
}

size_t scan_page(struct scan *s, char *buf, size_t size, uint32_t *ret_more)
{
    size_t len = 0;

    while (s->next < s->changes.count &&
           pack(&s->changes.files[s->next], buf, size, &len))
        s->next++;
    *ret_more = s->next < s->changes.count;
    if (!*ret_more) {
        list_clear(&s->changes);
        s->next = 0;
    }
    return len;
}

int scan_tree(int data, const char *after, size_t after_len, uint32_t most,
              char *buf, size_t size, size_t *ret_len, uint32_t *ret_more)
{
    struct scan_list all = {0};
    char start[INIT_PATH_MAX + 1];
    int r = collect(data, &all);
    size_t i = 0, len = 0;

    if (after_len > INIT_PATH_MAX)
        return -EINVAL;
    memcpy(start, after, after_len);
    start[after_len] = '\0';
    while (i < all.count && strcmp(all.files[i].path, start) <= 0)
        i++;
    while (i < all.count && most && pack(&all.files[i], buf, size, &len)) {
        i++;
        most--;
    }
    *ret_more = i < all.count;
    *ret_len = len;
    list_clear(&all);
    return r;
}

/* ---- what changed
 * -------------------------------------------------------------- */

static void change(struct scan *s, const struct scan_file *f, uint16_t kind)
{
    struct scan_file *c = list_add(&s->changes, f->path);

    c->size = f->size;
    c->mtime_ns = f->mtime_ns;
    c->kind = kind;
}

/* A name shown escaped is not the file that really has that name. */
static int order_of(const struct scan_file *a, const struct scan_file *b)
{
    int order = strcmp(a->path, b->path);

    return order ? order
                 : (b->kind == INIT_ENTRY_SKIPPED) -
                       (a->kind == INIT_ENTRY_SKIPPED);
}

/* Of a tree that is larger than the walk's bound nothing is said to be
 * deleted: what is missing may only not have been reached. */
static void compare(struct scan *s, const struct scan_list *now)
{
    const struct scan_list *was = &s->known;
    size_t i = 0, j = 0;

    while (i < was->count || j < now->count) {
        const struct scan_file *a = i < was->count ? &was->files[i] : NULL;
        const struct scan_file *b = j < now->count ? &now->files[j] : NULL;
        int order = a && b ? order_of(a, b) : a ? -1 : 1;

        if (a && order < 0) {
            if (a->kind != INIT_ENTRY_SKIPPED && !now->cut)
                change(s, a, INIT_ENTRY_DELETED);
            i++;
        } else if (b && order > 0) {
            change(s, b,
                   b->kind == INIT_ENTRY_SKIPPED ? INIT_ENTRY_SKIPPED
                                                 : INIT_ENTRY_CREATED);
            j++;
        } else if (a && b) {
            /* Anyone may put mtime back; ctime is the kernel's own. */
            if (b->kind != INIT_ENTRY_SKIPPED &&
                (a->size != b->size || a->ctime_ns != b->ctime_ns ||
                 a->inode != b->inode))
                change(s, b, INIT_ENTRY_MODIFIED);
            i++;
            j++;
        }
    }
}

int scan_start(struct scan *s, int data)
{
    return collect(data, &s->known);
}

int scan_compare(struct scan *s, int data)
{
    struct scan_list now = {0};
    int r = collect(data, &now);

    if (r < 0)
        return r;
    list_clear(&s->changes);
    s->next = 0;
    compare(s, &now);
    list_clear(&s->known);
    s->known = now;
    return 0;
}

void scan_note(struct scan *s, int data, const char *path, size_t len)
{
    char name[INIT_PATH_MAX + 1];
    struct scan_file key = {.path = name}, *f;
    struct stat st;
    bool there;

    memcpy(name, path, len);
    name[len] = '\0';
    there = broker_stat(data, name, &st) == 0 && S_ISREG(st.st_mode);
    f = s->known.count ? bsearch(&key, s->known.files, s->known.count,
                                 sizeof(*f), by_path)
                       : NULL;
    if (!there) {
        if (f) {
            free(f->path);
            memmove(f, f + 1,
                    (size_t)(s->known.files + s->known.count - f - 1) *
                        sizeof(*f));
            s->known.count--;
        }
        return;
    }
    if (!f)
        f = list_add(&s->known, name);
    describe(f, &st);
    qsort(s->known.files, s->known.count, sizeof(*s->known.files), by_path);
}
