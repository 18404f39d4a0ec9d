/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a commit's plan; see commit_plan.h. Runs in the daemon inside
 * the commit's transaction; reads the head, changes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "workspace/commit_plan.h"

#define TABLE_FIRST 64u

void plan_init(struct commit_plan *p)
{
    p->arena = arena_new();
    p->root.path = "";
    p->root.known = true; /* no file is called "" */
    p->size = TABLE_FIRST;
    p->table = xcalloc(p->size, sizeof(struct plan_node *));
    p->asked_seq = -1;
}

void plan_done(struct commit_plan *p)
{
    arena_free(p->arena);
    free(p->table);
}

/* ---- by name ------------------------------------------------------------ */

static struct plan_node *find_node(const struct commit_plan *p,
                                   const char *path, size_t len, uint64_t hash)
{
    struct plan_node *n = p->table[hash & (p->size - 1)];

    while (n && (n->hash != hash || strncmp(n->path, path, len) != 0 ||
                 n->path[len] != '\0'))
        n = n->chain;
    return n;
}

static void grow(struct commit_plan *p)
{
    size_t size = 2 * p->size;
    struct plan_node **table = xcalloc(size, sizeof(struct plan_node *));

    for (size_t i = 0; i < p->size; i++) {
        struct plan_node *next;

        for (struct plan_node *n = p->table[i]; n; n = next) {
            next = n->chain;
            n->chain = table[n->hash & (size - 1)];
            table[n->hash & (size - 1)] = n;
        }
    }
    free(p->table);
    p->table = table;
    p->size = size;
}

static struct plan_node *add_node(struct commit_plan *p,
                                  struct plan_node *parent, const char *path,
                                  size_t len, uint64_t hash)
{
    struct plan_node *n = arena_alloc(p->arena, sizeof(*n));

    if (p->count >= p->size)
        grow(p);
    n->path = arena_strndup(p->arena, path, len);
    n->hash = hash;
    n->parent = parent;
    n->below_known = parent->below_known;
    n->sibling = parent->child;
    parent->child = n;
    n->chain = p->table[hash & (p->size - 1)];
    p->table[hash & (p->size - 1)] = n;
    p->count++;
    return n;
}

/* Recurses once for each folder; paths are at most 32 deep. */
static struct plan_node *get(struct commit_plan *p, const char *path,
                             size_t len)
{
    uint64_t hash = siphash_bytes(path, len);
    struct plan_node *n;
    size_t at = len;

    if (len == 0)
        return &p->root;
    n = find_node(p, path, len, hash);
    if (n)
        return n;
    while (at && path[at - 1] != '/')
        at--;
    return add_node(p, get(p, path, at ? at - 1 : 0), path, len, hash);
}

int plan_node_get(struct commit_plan *p, const char *path,
                  struct plan_node **ret, struct error *err)
{
    if (p->count >= PLAN_NODES_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "one commit can touch at most %u files and folders",
                         PLAN_NODES_MAX);
    *ret = get(p, path, strlen(path));
    return 0;
}

/* ---- what is there ------------------------------------------------------ */

static void link_live(struct plan_node *n)
{
    struct plan_node *folder = n->parent;

    n->live_next = NULL;
    n->live_before = folder->live_last;
    if (folder->live_last)
        folder->live_last->live_next = n;
    else
        folder->live_first = n;
    folder->live_last = n;
}

static void unlink_live(struct plan_node *n)
{
    struct plan_node *folder = n->parent;

    *(n->live_before ? &n->live_before->live_next : &folder->live_first) =
        n->live_next;
    *(n->live_next ? &n->live_next->live_before : &folder->live_last) =
        n->live_before;
}

static void one_more(struct plan_node *n)
{
    for (; n; n = n->parent)
        if (n->live++ == 0 && n->parent)
            link_live(n);
}

static void one_less(struct plan_node *n)
{
    for (; n; n = n->parent)
        if (--n->live == 0 && n->parent)
            unlink_live(n);
}

static struct plan_file *read_file(struct commit_plan *p,
                                   struct store_rows *rows)
{
    struct plan_file *f = arena_alloc(p->arena, sizeof(*f));

    store_copy(rows, 0, f->file, sizeof(f->file));
    store_copy(rows, 1, f->version, sizeof(f->version));
    f->number = store_int(rows, 2);
    f->seq = store_int(rows, 3);
    store_copy(rows, 5, f->sha256, sizeof(f->sha256));
    f->size = (uint64_t)store_int(rows, 6);
    f->mime = arena_strdup(p->arena, store_text(rows, 7));
    f->executable = store_int(rows, 8) != 0;
    f->modified_at_ms = store_int(rows, 9);
    return f;
}

static void set_head(struct plan_node *n, const struct plan_file *f)
{
    n->known = true;
    n->head = f;
    if (n->want == WANT_NOTHING)
        one_more(n);
}

/* Both are found by the index alone: were they one query in the order of what
 * is wanted, each would be sorted first, a row or none. */
static int find_head(struct commit_plan *p, const struct plan_node *n,
                     struct store_rows **ret, struct error *err)
{
    return store_one(p->tx, ret, err,
                     "SELECT " WORKSPACE_FILE_COLUMNS " FROM files AS f"
                     " WHERE f.workspace = ?1 AND f.alive = 1"
                     " AND f.path = ?2",
                     "tt", p->row->id, n->path);
}

static int find_past(struct commit_plan *p, const struct plan_node *n,
                     struct store_rows **ret, struct error *err)
{
    return store_one(p->tx, ret, err,
                     "SELECT " WORKSPACE_FILE_COLUMNS " FROM files AS f"
                     " WHERE f.workspace = ?1 AND f.alive = 0"
                     " AND f.path = ?2 AND f.seq = (SELECT max(o.seq)"
                     " FROM files AS o WHERE o.workspace = ?1"
                     " AND o.alive = 0 AND o.path = ?2)",
                     "tt", p->row->id, n->path);
}

/* The file that is there or, if none is, the last one that was. */
int plan_load(struct commit_plan *p, struct plan_node *n, struct error *err)
{
    struct store_rows *head cleanup(store_rows_done) = NULL;
    struct store_rows *past cleanup(store_rows_done) = NULL;
    int r;

    if (n->known)
        return 0;
    r = find_head(p, n, &head, err);
    if (r > 0)
        set_head(n, read_file(p, head));
    else if (r == 0)
        r = find_past(p, n, &past, err);
    if (r < 0)
        return r;
    if (past)
        n->past = read_file(p, past);
    n->known = true;
    return 0;
}

static void mark_below(struct plan_node *n)
{
    n->below_known = true;
    for (struct plan_node *c = n->child; c; c = c->sibling)
        mark_below(c);
}

int plan_load_below(struct commit_plan *p, struct plan_node *n,
                    struct error *err)
{
    char *start cleanup(mem_free) = NULL, *end cleanup(mem_free) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (n->below_known)
        return 0;
    start = xasprintf("%s%s", n->path, n->path[0] ? "/" : "");
    end = workspace_path_end(start);
    r = store_query(p->tx, &rows, err,
                    "SELECT " WORKSPACE_FILE_COLUMNS " FROM files AS f"
                    " WHERE f.workspace = ?1 AND f.alive = 1"
                    " AND f.path >= ?2 AND f.path < ?3 ORDER BY f.path",
                    "ttt", p->row->id, start, end);
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        struct plan_node *file = NULL;

        r = plan_node_get(p, store_text(rows, 4), &file, err);
        if (r == 0 && !file->known)
            set_head(file, read_file(p, rows));
    }
    if (r == 0)
        mark_below(n);
    return r;
}

/* ---- what shall be ------------------------------------------------------ */

bool plan_is_file(const struct plan_node *n)
{
    return n->want == WANT_BYTES || (n->want == WANT_NOTHING && n->head);
}

void plan_list(struct commit_plan *p, struct plan_node *n)
{
    if (n->listed)
        return;
    n->listed = true;
    if (p->last)
        p->last->next = n;
    else
        p->first = n;
    p->last = n;
    p->listed++;
}

void plan_want_gone(struct commit_plan *p, struct plan_node *n)
{
    plan_list(p, n);
    if (plan_is_file(n))
        one_less(n);
    n->want = WANT_GONE;
    n->put = NULL;
}

void plan_want_bytes(struct commit_plan *p, struct plan_node *n,
                     struct plan_put *put)
{
    plan_list(p, n);
    if (!plan_is_file(n))
        one_more(n);
    n->want = WANT_BYTES;
    n->put = put;
}

static size_t collect(struct plan_node *n, struct plan_node **out)
{
    size_t count = 0;

    if (plan_is_file(n))
        out[count++] = n;
    for (struct plan_node *c = n->live_first; c; c = c->live_next)
        count += collect(c, out + count);
    return count;
}

size_t plan_files(struct plan_node *n, struct plan_node ***ret)
{
    *ret = xcalloc(MAX(n->live, 1u), sizeof(struct plan_node *));
    return collect(n, *ret);
}
