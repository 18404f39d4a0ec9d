/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what a session changed since the last scan, and lists all its files.
 * Runs in a session's pid 1. Changes are read from the upper folder of the
 * overlay, so that the cost depends on what changed and not on the size of the
 * workspace. Each entry of a walk is a state (a written file, a whiteout, an
 * opaque folder); a change is a state that the last scan did not have. What
 * cannot be read (an unreadable folder, the part of a tree behind the limit of
 * the walk) counts as unchanged, never as deleted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define TICK_NS 20000000 /* the longest tick of a kernel clock */
#define PAUSE_NS 500000

/* ---- packing ------------------------------------------------------------ */

static bool pack(const struct scan_file *f, char *buf, size_t size,
                 size_t *len)
{
    size_t path_len = strlen(f->path);
    struct init_entry e = {.size = f->size,
                           .mtime_ns = f->mtime_ns,
                           .inode = f->inode,
                           .stored = f->stored,
                           .kind = f->kind,
                           .path_len = (uint16_t)path_len,
                           .executable = f->executable};

    if (*len + sizeof(e) + path_len > size)
        return false;
    memcpy(buf + *len, &e, sizeof(e));
    memcpy(buf + *len + sizeof(e), f->path, path_len);
    *len += sizeof(e) + path_len;
    return true;
}

size_t scan_page(struct scan *s, char *buf, size_t size, uint32_t *ret_rest)
{
    size_t len = 0;

    while (s->next < s->changes.count &&
           pack(&s->changes.files[s->next], buf, size, &len))
        s->next++;
    if (s->next < s->changes.count) {
        *ret_rest = INIT_SCAN_MORE;
    } else {
        *ret_rest = s->changes.cut ? INIT_SCAN_CUT : 0;
        dir_walk_clear(&s->changes);
        s->next = 0;
    }
    return len;
}

int scan_tree(int data, const char *after, size_t after_len, uint32_t most,
              char *buf, size_t size, size_t *ret_len, uint32_t *ret_more)
{
    struct scan_list all = {0};
    char start[INIT_PATH_MAX + 1];
    size_t i = 0, len = 0;
    int r;

    if (after_len > INIT_PATH_MAX)
        return -EINVAL;
    r = dir_walk_tree(data, WALK_LIST, &all);
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
    dir_walk_clear(&all);
    return r;
}

/* ---- what changed ------------------------------------------------------- */

/* One comparison: known states, current states, and states to keep besides. */
struct look {
    struct scan *scan;
    struct scan_list now;
    struct scan_list extra;
    bool all;     /* report every state, not only new ones */
    bool cleared; /* a CLEARED was reported */
};

static void report(struct look *l, struct scan_file *f, uint16_t kind)
{
    struct scan_file *c = dir_walk_add(&l->scan->changes, f->path);

    c->kind = kind;
    if (kind == INIT_ENTRY_WROTE || kind == INIT_ENTRY_SKIPPED)
        c->size = f->size;
    if (kind == INIT_ENTRY_WROTE) {
        c->mtime_ns = f->mtime_ns;
        c->inode = f->inode;
        c->stored = f->stored;
        c->executable = f->executable;
    }
    f->told = true;
    l->cleared |= kind == INIT_ENTRY_CLEARED;
}

static struct scan_file *find(const struct scan_list *l, const char *path)
{
    struct scan_file key = {.path = (char *)path, .kind = INIT_ENTRY_WROTE};

    return l->count
               ? bsearch(&key, l->files, l->count, sizeof(key), dir_walk_order)
               : NULL;
}

/* The outermost ancestor of path that decides its fate: no longer a folder,
 * reported as cleared, or unreadable. Ancestors sort first, so `told` is final
 * here. */
static const struct scan_file *above(const struct look *l, const char *path)
{
    char part[INIT_PATH_MAX + 1];

    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        size_t len = (size_t)(slash - path);
        const struct scan_file *f;

        memcpy(part, path, len);
        part[len] = '\0';
        f = find(&l->now, part);
        if (f && (f->kind != INIT_ENTRY_CLEARED || f->told))
            return f;
    }
    return NULL;
}

static bool below_cleared(const struct look *l, const char *path)
{
    const struct scan_file *f = l->cleared ? above(l, path) : NULL;

    return f && f->kind == INIT_ENTRY_CLEARED;
}

static void keep(struct look *l, const struct scan_file *f, uint16_t kind)
{
    struct scan_file k = *f;

    /* Whiteouts are kept only for a scan that reports everything. */
    if (kind == INIT_ENTRY_GONE &&
        l->now.count + l->extra.count >= WALK_ENTRIES_MAX)
        return;
    k.path = xstrdup(f->path);
    k.kind = kind;
    (void)dir_walk_put(&l->extra, &k);
}

/* Known, and not there now. */
static void missing(struct look *l, struct scan_file *a)
{
    const struct scan_file *f = above(l, a->path);

    if (a->kind == SCAN_BLIND)
        return;
    if ((f && f->kind == SCAN_BLIND) || l->now.cut) {
        keep(l, a, a->kind);
        return;
    }
    if (f || a->kind == INIT_ENTRY_SKIPPED || a->kind == INIT_ENTRY_CLEARED)
        return; /* reported with its ancestor, or nothing to report */
    if (a->kind == INIT_ENTRY_WROTE || l->all)
        report(l, a, INIT_ENTRY_GONE);
    keep(l, a, INIT_ENTRY_GONE);
}

/* There now, and not known as this. */
static void appeared(struct look *l, struct scan_file *b)
{
    if (b->kind == SCAN_BLIND)
        return;
    if (b->kind == INIT_ENTRY_CLEARED && below_cleared(l, b->path))
        return;
    report(l, b, b->kind);
}

static bool same(const struct scan_file *a, const struct scan_file *b)
{
    switch (b->kind) {
    case INIT_ENTRY_WROTE:
        /* Programs can set mtime; only the kernel sets ctime. */
        return a->size == b->size && a->ctime_ns == b->ctime_ns &&
               a->inode == b->inode;
    case INIT_ENTRY_SKIPPED:
        return a->size == b->size && a->inode == b->inode;
    default:
        return true;
    }
}

static void both(struct look *l, struct scan_file *a, struct scan_file *b)
{
    bool news = a->kind != b->kind || !same(a, b);

    /* An entry that was deleted before hides nothing when it is created again.
     */
    if (b->kind == INIT_ENTRY_CLEARED && a->kind == INIT_ENTRY_GONE)
        news = false;
    /* A recreated folder has only the entries that follow. */
    if (b->kind == INIT_ENTRY_WROTE && !news)
        news = below_cleared(l, b->path);
    if (b->kind == SCAN_BLIND && a->kind == INIT_ENTRY_WROTE)
        report(l, a, INIT_ENTRY_GONE);
    b->hides = a->kind == INIT_ENTRY_CLEARED;
    if (news || l->all)
        appeared(l, b);
}

static void compare(struct look *l)
{
    struct scan_list *was = &l->scan->known;
    size_t i = 0, j = 0;

    while (i < was->count || j < l->now.count) {
        struct scan_file *a = i < was->count ? &was->files[i] : NULL;
        struct scan_file *b = j < l->now.count ? &l->now.files[j] : NULL;
        int order = a && b ? dir_walk_order(a, b) : a ? -1 : 1;

        if (a && order < 0)
            missing(l, a);
        else if (b && order > 0)
            appeared(l, b);
        else if (a && b)
            both(l, a, b);
        i += order <= 0;
        j += order >= 0;
    }
}

/* Keeps the states for the next scan. */
static void learn(struct look *l)
{
    struct scan_list *now = &l->now;

    for (size_t i = 0; i < l->extra.count; i++)
        (void)dir_walk_put(now, &l->extra.files[i]); /* and its path */
    if (l->extra.count)
        dir_walk_sort(now);
    l->extra.count = 0;
    dir_walk_clear(&l->extra);
    for (size_t i = 0; i < now->count; i++) {
        struct scan_file *f = &now->files[i];

        f->told = false;
        if (f->kind == SCAN_BLIND && f->hides)
            f->kind = INIT_ENTRY_CLEARED; /* still, as far as we know */
    }
    dir_walk_clear(&l->scan->known);
    l->scan->known = *now;
}

/* Does a change after a stat always get a later ctime, as since Linux 6.13?
 * Tested on a file in memory. */
static bool times_are_fine(void)
{
    int fd cleanup(fd_close) = memfd_create("times", MFD_CLOEXEC);
    struct stat before, after;

    for (unsigned i = 0; i < 4; i++)
        if (fd < 0 || fstat(fd, &before) < 0 ||
            fchmod(fd, i % 2 ? 0600 : 0400) < 0 || fstat(fd, &after) < 0 ||
            memcmp(&before.st_ctim, &after.st_ctim, sizeof(after.st_ctim)) ==
                0)
            return false;
    return true;
}

/*
 * On older kernels ctime has the granularity of a tick: a change after the
 * scan but within the tick would not show in the next scan. So the reply waits
 * for the end of the tick; contents are read after that.
 */
static void outlast(struct scan *s, int64_t ctime_ns)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    if (!s->tried_times) {
        s->tried_times = true;
        s->fine_times = times_are_fine();
    }
    for (int64_t waited = 0; !s->fine_times && waited < TICK_NS;
         waited += PAUSE_NS) {
        struct timespec t;
        int64_t now;

        (void)clock_gettime(CLOCK_REALTIME_COARSE, &t); /* cannot fail */
        now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        if (now > ctime_ns || ctime_ns - now > TICK_NS)
            return; /* it is over, or the clock was put back */
        (void)nanosleep(&pause, NULL);
    }
}

static int64_t newest(const struct scan_list *l)
{
    int64_t ns = 0;

    for (size_t i = 0; i < l->count; i++)
        if (l->files[i].kind == INIT_ENTRY_WROTE)
            ns = MAX(ns, l->files[i].ctime_ns);
    return ns;
}

void scan_start(struct scan *s, int upper, bool layered)
{
    *s = (struct scan){.upper = upper, .layered = layered};
}

int scan_compare(struct scan *s, bool all)
{
    struct look l = {.scan = s, .all = all};
    int r =
        dir_walk_tree(s->upper, s->layered ? WALK_LAYERED : WALK_BARE, &l.now);

    if (r < 0) {
        dir_walk_clear(&l.now);
        return r;
    }
    dir_walk_clear(&s->changes);
    s->next = 0;
    compare(&l);
    s->changes.cut = l.now.cut;
    l.now.cut = false;
    outlast(s, newest(&l.now));
    learn(&l);
    return 0;
}

/* ---- changes of the daemon's own ---------------------------------------- */

/* Where path is, or is to be. */
static struct scan_file *place(struct scan_list *l, const char *path)
{
    struct scan_file *f = find(l, path), moved;
    size_t low = 0, high;

    if (f)
        return f;
    (void)dir_walk_add(l, path);
    moved = l->files[l->count - 1];
    moved.kind = INIT_ENTRY_WROTE;
    for (high = l->count - 1; low < high;) {
        size_t middle = low + (high - low) / 2;

        if (dir_walk_order(&l->files[middle], &moved) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&l->files[low + 1], &l->files[low],
            (l->count - 1 - low) * sizeof(moved));
    l->files[low] = moved;
    return &l->files[low];
}

struct scan_mark scan_before(struct scan *s, int data, const char *path,
                             size_t len)
{
    struct scan_mark mark = {.note = true};
    char name[INIT_PATH_MAX + 1];
    struct stat st;

    if (len == 0 || len > INIT_PATH_MAX || memchr(path, 0, len))
        return (struct scan_mark){0}; /* the broker refuses it */
    memcpy(name, path, len);
    name[len] = '\0';
    /* A removed folder may hold deletions that were not reported yet. */
    if (broker_stat(data, name, &st) == 0 && S_ISDIR(st.st_mode))
        return (struct scan_mark){0};
    for (char *slash = name; (slash = strchr(slash, '/')); slash++) {
        const struct scan_file *f;
        int r;

        *slash = '\0';
        r = broker_stat(s->upper, name, &st);
        f = find(&s->known, name);
        *slash = '/';
        if (r == 0 && S_ISDIR(st.st_mode))
            continue;
        /* The session deleted what was here since the last scan: report all of
         * it. */
        if (r == 0 && !(f && f->kind == INIT_ENTRY_GONE))
            return (struct scan_mark){0};
        mark.fresh = (size_t)(slash - name);
        break;
    }
    return mark;
}

/* Folders created for path; an overlay marks new folders as opaque even when
 * they hide nothing. */
static void note_folders(struct scan *s, char *name, size_t fresh)
{
    if (!s->layered || !fresh)
        return;
    for (char *slash = name + fresh; slash; slash = strchr(slash + 1, '/')) {
        int fd cleanup(fd_close) = -1;

        *slash = '\0';
        fd = broker_beneath(s->upper, name, O_DIRECTORY | O_RDONLY);
        if (fd >= 0 && dir_walk_is_opaque(fd))
            place(&s->known, name)->kind = INIT_ENTRY_CLEARED;
        *slash = '/';
    }
}

void scan_after(struct scan *s, const char *path, size_t len,
                struct scan_mark mark)
{
    char name[INIT_PATH_MAX + 1];
    struct scan_file *f;
    struct stat st;
    int r;

    if (!mark.note)
        return;
    memcpy(name, path, len);
    name[len] = '\0';
    note_folders(s, name, mark.fresh);
    r = broker_stat(s->upper, name, &st);
    if (r == 0 && S_ISREG(st.st_mode)) {
        f = place(&s->known, name);
        dir_walk_describe(f, &st, INIT_ENTRY_WROTE);
        outlast(s, f->ctime_ns);
    } else if (r == 0 && s->layered && dir_walk_is_whiteout(&st)) {
        dir_walk_describe(place(&s->known, name), &st, INIT_ENTRY_GONE);
    } else if ((f = find(&s->known, name))) {
        struct scan_file *end = s->known.files + s->known.count--;

        free(f->path);
        memmove(f, f + 1, (size_t)(end - f - 1) * sizeof(*f));
    }
}
