/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences between two versions of a text, as a unified diff that patch(1)
 * accepts. Runs in the daemon on a worker. Both sides are read into memory,
 * which is why their sizes are bounded; the bytes are only compared, never
 * interpreted (F9).
 *
 * Lines that differ are found by Myers' O(ND) algorithm from both ends, which
 * meets in the middle and continues with the two halves, so that memory is
 * linear. Lines that only one side has are left out beforehand. A client
 * chooses the sizes, hence the bounds: one search gives up after COST_MAX
 * edits from each end, and all of them together after WORK_MAX steps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/utf8.h"
#include "workspace/diff_int.h"
#include "workspace/workspace_int.h"

/* ---- of two texts ----------------------------------------------------------
 */

/* ---- which lines differ ------------------------------------------------ */

#define COST_MAX 8192
#define WORK_MAX 200000000 /* some tenths of a second */
#define BOXES_MAX 64       /* halves of halves: far more than 2 * COST_MAX */
#define NOWHERE (INT64_MIN / 4)

/* A side without the lines only it has. */
struct common {
    uint32_t *lines;
    size_t *where; /* in the whole side */
    size_t count;
    bool *changed; /* of the whole side; borrowed */
};

struct walk {
    struct common a, b;
    int64_t work;       /* steps left */
    int64_t *down, *up; /* furthest line of a on a diagonal; by index 0 */
    int64_t *memory;
};

struct box { /* lines from a0 up to a1 and from b0 up to b1 */
    size_t a0, a1, b0, b1;
};

static void mark(struct walk *w, const struct box *box)
{
    for (size_t i = box->a0; i < box->a1; i++)
        w->a.changed[w->a.where[i]] = true;
    for (size_t i = box->b0; i < box->b1; i++)
        w->b.changed[w->b.where[i]] = true;
}

/* Leaves out what is equal at both ends. */
static void trim(const struct walk *w, struct box *box)
{
    while (box->a0 < box->a1 && box->b0 < box->b1 &&
           w->a.lines[box->a0] == w->b.lines[box->b0]) {
        box->a0++;
        box->b0++;
    }
    while (box->a0 < box->a1 && box->b0 < box->b1 &&
           w->a.lines[box->a1 - 1] == w->b.lines[box->b1 - 1]) {
        box->a1--;
        box->b1--;
    }
}

/* How far one more edit leads on diagonal k, inside the box of n by m. */
static int64_t reach(const int64_t *far, int64_t k, int64_t cost, int64_t n,
                     int64_t m)
{
    int64_t left = k == -cost ? NOWHERE : far[k - 1] + 1; /* drop one of a */
    int64_t right = k == cost ? NOWHERE : far[k + 1];     /* add one of b */

    if (cost == 0)
        return 0;
    if (left > n || left - k > m)
        left = NOWHERE;
    if (right > n || right - k > m)
        right = NOWHERE;
    return MAX(left, right) < 0 ? NOWHERE : MAX(left, right);
}

/* The two walks differ in their direction only: `forth` from the start. */
static int64_t slide(struct walk *w, const struct box *box, bool forth,
                     int64_t x, int64_t y)
{
    const int64_t n = (int64_t)(box->a1 - box->a0);
    const int64_t m = (int64_t)(box->b1 - box->b0);
    const uint32_t *a =
        forth ? w->a.lines + box->a0 : w->a.lines + box->a1 - 1;
    const uint32_t *b =
        forth ? w->b.lines + box->b0 : w->b.lines + box->b1 - 1;
    const int64_t way = forth ? 1 : -1;
    int64_t from = x;

    while (x < n && y < m && a[way * x] == b[way * y]) {
        x++;
        y++;
    }
    w->work -= 1 + x - from;
    return x;
}

/* One more edit from one end. True, and the place, where it meets the walk
 * from the other end, which has made `other` edits. */
static bool walk_step(struct walk *w, const struct box *box, bool forth,
                      int64_t cost, int64_t other, int64_t *ret_x,
                      int64_t *ret_y)
{
    const int64_t n = (int64_t)(box->a1 - box->a0);
    const int64_t m = (int64_t)(box->b1 - box->b0);
    int64_t *far = forth ? w->down : w->up;
    const int64_t *facing = forth ? w->up : w->down;

    for (int64_t k = -cost; k <= cost; k += 2) {
        int64_t x = reach(far, k, cost, n, m);
        int64_t seen = n - m - k; /* the same diagonal from the other end */

        if (x >= 0)
            x = slide(w, box, forth, x, x - k);
        far[k] = x;
        if (x < 0 || seen < -other || seen > other || ((seen ^ other) & 1) ||
            facing[seen] < 0 || x + facing[seen] < n)
            continue;
        *ret_x = forth ? x : n - x;
        *ret_y = forth ? x - k : m - (x - k);
        return true;
    }
    return false;
}

/* A point on a shortest way through the box; false when it is too far. */
static bool middle(struct walk *w, const struct box *box, struct box *ret)
{
    const bool odd = ((box->a1 - box->a0) ^ (box->b1 - box->b0)) & 1;
    int64_t x, y;

    for (int64_t cost = 0; cost <= COST_MAX && w->work > 0; cost++) {
        bool met =
            walk_step(w, box, true, cost, odd ? cost - 1 : -1, &x, &y) ||
            walk_step(w, box, false, cost, odd ? -1 : cost, &x, &y);

        if (!met)
            continue;
        *ret =
            (struct box){.a0 = box->a0 + (size_t)x, .b0 = box->b0 + (size_t)y};
        return true;
    }
    return false;
}

static void walk(struct walk *w)
{
    struct box boxes[BOXES_MAX];
    size_t count = 0;

    boxes[count++] = (struct box){.a1 = w->a.count, .b1 = w->b.count};
    while (count) {
        struct box box = boxes[--count], at;

        trim(w, &box);
        if (box.a0 == box.a1 || box.b0 == box.b1 || count + 2 > BOXES_MAX ||
            !middle(w, &box, &at) || (at.a0 == box.a0 && at.b0 == box.b0) ||
            (at.a0 == box.a1 && at.b0 == box.b1)) {
            mark(w, &box);
            continue;
        }
        boxes[count++] = (struct box){box.a0, at.a0, box.b0, at.b0};
        boxes[count++] = (struct box){at.a0, box.a1, at.b0, box.b1};
    }
}

/* ---- what both have ----------------------------------------------------- */

static uint32_t highest(const struct diff_side *side)
{
    uint32_t most = 0;

    for (size_t i = 0; i < side->count; i++)
        most = MAX(most, side->lines[i]);
    return most;
}

static void keep_common(const struct diff_side *side,
                        const struct diff_side *other, struct common *ret)
{
    size_t range = (size_t)MAX(highest(side), highest(other)) + 1;
    bool *there cleanup(mem_free) = xcalloc(range, sizeof(bool));

    ret->lines = xcalloc(side->count + 1, sizeof(*ret->lines));
    ret->where = xcalloc(side->count + 1, sizeof(*ret->where));
    ret->changed = side->changed;
    for (size_t i = 0; i < other->count; i++)
        there[other->lines[i]] = true;
    for (size_t i = 0; i < side->count; i++) {
        side->changed[i] = !there[side->lines[i]];
        if (side->changed[i])
            continue;
        ret->lines[ret->count] = side->lines[i];
        ret->where[ret->count++] = i;
    }
}

static void walk_done(struct walk *w)
{
    free(w->a.lines);
    free(w->a.where);
    free(w->b.lines);
    free(w->b.where);
    free(w->memory);
}

void diff_lines(struct diff_side *a, struct diff_side *b)
{
    const size_t width = 2 * (COST_MAX + 2) + 1;
    struct walk w cleanup(walk_done) = {.work = WORK_MAX};

    keep_common(a, b, &w.a);
    keep_common(b, a, &w.b);
    w.memory = xcalloc(2 * width, sizeof(*w.memory));
    w.down = w.memory + COST_MAX + 2;
    w.up = w.memory + width + COST_MAX + 2;
    walk(&w);
}

/* ---- unified output ---------------------------------------------------- */

#define CONTEXT 3u

struct line {
    const char *text; /* borrowed */
    size_t len;       /* with its newline, if it has one */
};

struct text {
    struct line *lines;
    struct diff_side side;
};

static void text_done(struct text *t)
{
    free(t->lines);
    free(t->side.lines);
    free(t->side.changed);
}

static void split(const char *bytes, size_t len, struct text *ret)
{
    size_t count = len && bytes[len - 1] != '\n', at = 0;

    if (len == 0)
        bytes = "";
    for (const char *p = bytes;
         (p = memchr(p, '\n', len - (size_t)(p - bytes))); p++)
        count++;
    ret->lines = xcalloc(count + 1, sizeof(*ret->lines));
    ret->side.lines = xcalloc(count + 1, sizeof(*ret->side.lines));
    ret->side.changed = xcalloc(count + 1, sizeof(*ret->side.changed));
    for (size_t i = 0; i < count; i++) {
        const char *end = memchr(bytes + at, '\n', len - at);
        size_t next = end ? (size_t)(end - bytes) + 1 : len;

        ret->lines[i] = (struct line){bytes + at, next - at};
        at = next;
    }
    ret->side.count = count;
}

/* ---- equal lines get equal numbers -------------------------------------- */

struct numbers {
    const struct line **slots; /* open addressing */
    uint32_t *ids;
    size_t mask;
    uint32_t next;
};

static void numbers_done(struct numbers *n)
{
    free(n->slots);
    free(n->ids);
}

static uint64_t hash_of(const struct line *line)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < line->len; i++)
        hash = (hash ^ (unsigned char)line->text[i]) * 1099511628211u;
    return hash ^ hash >> 29;
}

static uint32_t number_of(struct numbers *n, const struct line *line)
{
    size_t i = (size_t)hash_of(line) & n->mask;

    while (n->slots[i]) {
        if (n->slots[i]->len == line->len &&
            memcmp(n->slots[i]->text, line->text, line->len) == 0)
            return n->ids[i];
        i = (i + 1) & n->mask;
    }
    n->slots[i] = line;
    n->ids[i] = n->next++;
    return n->ids[i];
}

static void number(struct text *a, struct text *b)
{
    struct numbers n cleanup(numbers_done) = {.mask = 15};

    while (n.mask < 2 * (a->side.count + b->side.count))
        n.mask = 2 * n.mask + 1;
    n.slots = xcalloc(n.mask + 1, sizeof(*n.slots));
    n.ids = xcalloc(n.mask + 1, sizeof(*n.ids));
    for (size_t i = 0; i < a->side.count; i++)
        a->side.lines[i] = number_of(&n, &a->lines[i]);
    for (size_t i = 0; i < b->side.count; i++)
        b->side.lines[i] = number_of(&n, &b->lines[i]);
}

/* ---- hunks -------------------------------------------------------------- */

struct place {
    size_t a, b; /* lines before it */
};

static bool changed(const struct text *t, size_t i)
{
    return i < t->side.count && t->side.changed[i];
}

/* Past the changes that begin at p. */
static void pass(const struct text *a, const struct text *b, struct place *p)
{
    while (changed(a, p->a))
        p->a++;
    while (changed(b, p->b))
        p->b++;
}

static bool differs(const struct text *a, const struct text *b,
                    const struct place *p)
{
    return changed(a, p->a) || changed(b, p->b);
}

/* From the first change at `start` to the end of the last one that is too
 * near to the one before to be told apart. */
static struct place hunk_end(const struct text *a, const struct text *b,
                             struct place start)
{
    struct place end = start, at;

    for (;;) {
        size_t equal = 0;

        pass(a, b, &end);
        at = end;
        while (equal <= 2 * CONTEXT && at.a < a->side.count &&
               !differs(a, b, &at)) {
            at.a++;
            at.b++;
            equal++;
        }
        if (equal > 2 * CONTEXT || !differs(a, b, &at))
            return end;
        end = at;
    }
}

static void put_range(struct buf *out, char sign, size_t from, size_t to)
{
    size_t count = to - from;

    /* An empty range names the line before it. */
    buf_addf(out, "%c%zu", sign, count ? from + 1 : from);
    if (count != 1)
        buf_addf(out, ",%zu", count);
}

static void put_line(struct buf *out, char sign, const struct line *line)
{
    buf_add(out, &sign, 1);
    buf_add(out, line->text, line->len);
    if (line->len == 0 || line->text[line->len - 1] != '\n')
        buf_adds(out, "\n\\ No newline at end of file\n");
}

static void put_hunk(const struct text *a, const struct text *b,
                     struct place from, struct place to, struct buf *out)
{
    buf_adds(out, "@@ ");
    put_range(out, '-', from.a, to.a);
    buf_adds(out, " ");
    put_range(out, '+', from.b, to.b);
    buf_adds(out, " @@\n");
    while (from.a < to.a || from.b < to.b) {
        if (changed(a, from.a)) {
            put_line(out, '-', &a->lines[from.a++]);
        } else if (changed(b, from.b)) {
            put_line(out, '+', &b->lines[from.b++]);
        } else {
            put_line(out, ' ', &a->lines[from.a++]);
            from.b++;
        }
    }
}

static void put_hunks(const struct text *a, const struct text *b,
                      struct buf *out)
{
    struct place at = {0};

    while (at.a < a->side.count || at.b < b->side.count) {
        struct place from, to;
        size_t before;

        if (!differs(a, b, &at)) {
            at.a++;
            at.b++;
            continue;
        }
        at = (struct place){at.a, at.b};
        to = hunk_end(a, b, at);
        before = MIN((size_t)CONTEXT, at.a);
        from = (struct place){at.a - before, at.b - before};
        at = to;
        for (size_t i = 0; i < CONTEXT && to.a < a->side.count; i++) {
            to.a++;
            to.b++;
        }
        put_hunk(a, b, from, to, out);
    }
}

void diff_unified(const char *a, size_t a_len, const char *b, size_t b_len,
                  const char *a_label, const char *b_label, struct buf *out)
{
    struct text old cleanup(text_done) = {0}, new cleanup(text_done) = {0};

    if (a_len == b_len && memcmp(a, b, a_len) == 0)
        return;
    split(a, a_len, &old);
    split(b, b_len, &new);
    number(&old, &new);
    diff_lines(&old.side, &new.side);
    buf_addf(out, "--- %s\n+++ %s\n", a_label, b_label);
    put_hunks(&old, &new, out);
}

/* ---- of two versions -------------------------------------------------------
 */

#define SIDE_MAX (1u << 20)

struct version {
    char id[ID_MAX], file[ID_MAX], sha256[BLOB_NAME];
    char *path; /* owned */
    int64_t number, size;
    bool purged;
    char *bytes; /* owned */
    size_t len;
};

static void version_done(struct version *v)
{
    free(v->path);
    free(v->bytes);
}

static void version_read(struct store_rows *rows, struct version *ret)
{
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    store_copy(rows, 1, ret->file, sizeof(ret->file));
    store_copy(rows, 2, ret->sha256, sizeof(ret->sha256));
    ret->path = xstrdup(store_text(rows, 3));
    ret->number = store_int(rows, 4);
    ret->size = store_int(rows, 5);
    ret->purged = store_int(rows, 6) != 0;
}

#define COLUMNS "v.id, v.file, v.sha256, v.path, v.number, v.size, v.purged"

/* By its id if it is of the file at path (or was there itself); the head's
 * without one. */
static int version_find(struct store_tx *tx, const char *workspace,
                        const char *path, const char *id, struct version *ret,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = id ? store_one(tx, &rows, err,
                           "SELECT " COLUMNS " FROM versions AS v"
                           " JOIN files AS f ON f.id = v.file"
                           " WHERE v.id = ?1 AND v.workspace = ?2"
                           " AND (f.path = ?3 OR v.path = ?3)",
                           "ttt", id, workspace, path)
               : store_one(tx, &rows, err,
                           "SELECT " COLUMNS " FROM files AS f"
                           " JOIN versions AS v ON v.id = f.version"
                           " WHERE f.workspace = ?1 AND f.path = ?2"
                           " AND f.alive = 1",
                           "tt", workspace, path);

    if (r == 0)
        return id ? error_set(err, ERR_NOT_FOUND,
                              "the file has no such version")
                  : error_set(err, ERR_NOT_FOUND, "no such file");
    if (r > 0)
        version_read(rows, ret);
    return MIN(r, 0);
}

/* The version before; of a first one, nothing. */
static int version_before(struct store_tx *tx, const struct version *v,
                          struct version *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " COLUMNS " FROM versions AS v"
                      " WHERE v.file = ?1 AND v.number < ?2"
                      " ORDER BY v.number DESC LIMIT 1",
                      "ti", v->file, v->number);

    if (r > 0)
        version_read(rows, ret);
    return MIN(r, 0);
}

static int not_text(struct error *err, const struct version *v)
{
    return error_set(err, ERR_INVALID,
                     "version %s is not text: only UTF-8 without NUL can be "
                     "compared",
                     v->id);
}

static int version_load(struct workspaces *w, struct version *v,
                        struct error *err)
{
    int fd cleanup(fd_close) = -1;
    ssize_t n;
    int r;

    if (!v->sha256[0])
        return 0; /* there was nothing, or it was deleted */
    if (v->purged)
        return error_set(err, ERR_NOT_FOUND,
                         "the bytes of version %s were given up by the "
                         "workspace's rules",
                         v->id);
    if (v->size > (int64_t)SIDE_MAX)
        return error_set(err, ERR_INVALID,
                         "version %s is larger than 1 MiB, too large to "
                         "compare",
                         v->id);
    r = blob_open(w->blobs, v->sha256, &fd, NULL, err);
    if (r < 0)
        return r;
    v->bytes = xmalloc((size_t)v->size + 1);
    n = fd_read_all(fd, v->bytes, (size_t)v->size);
    if (n != v->size)
        return error_set(err, ERR_INTERNAL, "a stored file cannot be read");
    v->len = (size_t)n;
    if (memchr(v->bytes, 0, v->len) || !utf8_valid(v->bytes, v->len))
        return not_text(err, v);
    return 0;
}

/* Either side may show all of it. */
static int govern(struct workspaces *w, const struct actor *who,
                  const struct version *v, struct error *err)
{
    struct workspace_file f = {.path = v->path, .size = (uint64_t)v->size};

    if (!v->sha256[0])
        return 0;
    (void)snprintf(f.version, sizeof(f.version), "%s", v->id);
    (void)snprintf(f.mime, sizeof(f.mime), "%s", mime_of_path(v->path));
    return workspace_govern_fetch(w, who, &f, err);
}

static char *label(const char *side, const struct version *v)
{
    return v->sha256[0] ? xasprintf("%s/%s\t%s", side, v->path, v->id)
                        : xstrdup("/dev/null");
}

static int find_both(struct workspaces *w, const struct actor *who,
                     const char *id, const char *path, const char *from,
                     const char *to, struct version *old, struct version *new,
                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = workspace_path_check(path, err);

    if (r == 0)
        r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "comparing versions", &tx, NULL, err);
    if (r == 0)
        r = version_find(tx, id, path, to, new, err);
    if (r == 0)
        r = from ? version_find(tx, id, path, from, old, err)
                 : version_before(tx, new, old, err);
    return r;
}

int workspace_diff(struct workspaces *w, const struct actor *who,
                   const char *id, const char *path, const char *from,
                   const char *to, struct buf *out, struct error *err)
{
    struct version old cleanup(version_done) = {0};
    struct version new cleanup(version_done) = {0};
    char *old_label cleanup(mem_free) = NULL;
    char *new_label cleanup(mem_free) = NULL;
    int r = find_both(w, who, id, path, from, to, &old, &new, err);

    if (r == 0)
        r = govern(w, who, &old, err);
    if (r == 0)
        r = govern(w, who, &new, err);
    if (r == 0)
        r = version_load(w, &old, err);
    if (r == 0)
        r = version_load(w, &new, err);
    if (r < 0)
        return r;
    old_label = label("a", &old);
    new_label = label("b", &new);
    diff_unified(old.bytes ? old.bytes : "", old.len,
                 new.bytes ? new.bytes : "", new.len, old_label, new_label,
                 out);
    return 0;
}
