/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a commit; see commit_plan.h. Takes the changes in order and
 * notes for each path what it shall be. The changes of a session describe its
 * own tree, so whatever is in their way is gone; the changes of any other
 * author are refused instead.
 *
 * Then it decides which file each path becomes: the one that is there, one
 * that moves there, one that was there before and comes back, or a new one. A
 * path that is gone and one that is new with the same bytes are a rename, if
 * there is only one of each. Last it checks the quota. Runs in the daemon
 * inside the commit's transaction; writes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/path.h"
#include "base/siphash.h"
#include "workspace/commit_plan.h"

static int in_the_way(const char *what, const struct plan_node *n,
                      struct error *err)
{
    char name[WORKSPACE_SHORT];

    return error_set(err, ERR_CONFLICT, "there is a %s at %s", what,
                     workspace_path_short(n->path, name));
}

static int no_such(const char *path, struct error *err)
{
    char name[WORKSPACE_SHORT];

    return error_set(err, ERR_NOT_FOUND, "there is no file or folder %s",
                     workspace_path_short(path, name));
}

/* ---- making room -------------------------------------------------------- */

/* No folder above may be a file. Where a file is at n in the head, none of
 * them is one there. */
static int clear_above(struct commit_plan *p, struct plan_node *n,
                       struct error *err)
{
    for (struct plan_node *a = n->parent; a; a = a->parent) {
        int r = n->head ? 0 : plan_load(p, a, err);

        if (r < 0)
            return r;
        if (!plan_is_file(a))
            continue;
        if (!p->session)
            return in_the_way("file", a, err);
        plan_want_gone(p, a);
    }
    return 0;
}

static void gone_at_and_below(struct commit_plan *p, struct plan_node *n)
{
    struct plan_node **files cleanup(mem_free) = NULL;
    size_t count = plan_files(n, &files);

    for (size_t i = 0; i < count; i++)
        plan_want_gone(p, files[i]);
}

static int clear_below(struct commit_plan *p, struct plan_node *n,
                       struct error *err)
{
    int r = n->head ? 0 : plan_load_below(p, n, err);

    if (r < 0 || n->live == (plan_is_file(n) ? 1 : 0))
        return r;
    if (!p->session)
        return in_the_way("folder", n, err);
    gone_at_and_below(p, n);
    return 0;
}

static int put_at(struct commit_plan *p, const char *path,
                  struct plan_put *put, struct error *err)
{
    struct plan_node *n;
    int r = plan_node_get(p, path, &n, err);

    if (r == 0)
        r = plan_load(p, n, err);
    if (r == 0)
        r = clear_above(p, n, err);
    if (r == 0)
        r = clear_below(p, n, err);
    if (r == 0 && put->as_was && plan_is_file(n) && n->head)
        put->executable = n->head->executable;
    if (r == 0)
        plan_want_bytes(p, n, put);
    return r;
}

/* ---- one kind each ------------------------------------------------------ */

/* A type that a header could not carry is not taken over. */
static bool mime_usable(const char *mime)
{
    size_t len = mime ? strnlen(mime, 96) : 0;

    if (len == 0 || len >= 96 || !strchr(mime, '/'))
        return false;
    for (size_t i = 0; i < len; i++)
        if (mime[i] < 0x20 || mime[i] > 0x7e)
            return false;
    return true;
}

static int change_put(struct commit_plan *p, const struct workspace_change *c,
                      struct error *err)
{
    struct plan_put *put = arena_alloc(p->arena, sizeof(*put));

    put->sha256 = c->sha256;
    put->unstored = c->unstored;
    put->size = c->size;
    put->executable = c->executable;
    put->as_was = c->as_was;
    put->mime = mime_usable(c->mime) ? c->mime : mime_of_path(c->path);
    put->from_version = c->from_version;
    put->file_id = c->file_id;
    put->restored = strcmp(p->spec->kind, "restore") == 0;
    return put_at(p, c->path, put, err);
}

static int change_remove(struct commit_plan *p,
                         const struct workspace_change *c, struct error *err)
{
    struct plan_node *n;
    int r = plan_node_get(p, c->path, &n, err);

    if (r == 0)
        r = plan_load(p, n, err);
    if (r == 0 && (!plan_is_file(n) || c->kind == CHANGE_CLEAR))
        r = plan_load_below(p, n, err);
    if (r < 0)
        return r;
    if (n->live == 0 && c->kind == CHANGE_REMOVE && !p->session)
        return no_such(c->path, err);
    gone_at_and_below(p, n);
    return 0;
}

static struct plan_put *put_of(struct commit_plan *p, struct plan_node *n,
                               bool move)
{
    struct plan_put *put = arena_alloc(p->arena, sizeof(*put));

    if (n->want == WANT_BYTES) { /* put by this very set */
        *put = *n->put;
        put->origin = move ? put->origin : NULL;
        put->file_id = move ? put->file_id : NULL;
    } else {
        put->sha256 = n->head->sha256;
        put->size = n->head->size;
        put->executable = n->head->executable;
        put->mime = n->head->mime;
        put->from_version = move ? NULL : n->head->version;
        put->origin = move && !p->session ? n : NULL;
    }
    put->from = put->origin ? put->origin->path : n->path;
    put->copied = !move;
    return put;
}

/* A file replaces a file; anything else that is there already is in the
 * way. */
static int check_target(struct commit_plan *p, const struct plan_node *from,
                        struct plan_node *to, struct error *err)
{
    int r = plan_load(p, to, err);

    if (r == 0 && !to->head)
        r = plan_load_below(p, to, err);
    if (r < 0 || p->session || to->live == 0)
        return r;
    if (!plan_is_file(to))
        return in_the_way("folder", to, err);
    return plan_is_file(from) ? 0 : in_the_way("file", to, err);
}

static int check_places(const struct workspace_change *c, struct error *err)
{
    int r = workspace_path_check(c->from, err);

    if (r < 0)
        return r;
    if (strcmp(c->from, c->path) == 0)
        return error_set(err, ERR_INVALID, "it is there already");
    if (path_below(c->path, c->from) || path_below(c->from, c->path))
        return error_set(err, ERR_INVALID, "one place is inside the other");
    return 0;
}

static int move_one(struct commit_plan *p, const struct workspace_change *c,
                    struct plan_node *from, struct error *err)
{
    bool move = c->kind == CHANGE_MOVE;
    struct plan_put *put = put_of(p, from, move);
    char *to =
        arena_printf(p->arena, "%s%s", c->path, from->path + strlen(c->from));
    int r = workspace_path_check(to, err); /* it may be too long there */

    if (r == 0 && move)
        plan_want_gone(p, from);
    return r < 0 ? r : put_at(p, to, put, err);
}

static int change_move(struct commit_plan *p, const struct workspace_change *c,
                       struct error *err)
{
    struct plan_node **files cleanup(mem_free) = NULL;
    struct plan_node *from = NULL, *to = NULL;
    size_t count;
    int r = check_places(c, err);

    if (r == 0)
        r = plan_node_get(p, c->from, &from, err);
    if (r == 0)
        r = plan_node_get(p, c->path, &to, err);
    if (r == 0)
        r = plan_load(p, from, err);
    if (r == 0 && !plan_is_file(from))
        r = plan_load_below(p, from, err);
    if (r == 0)
        r = check_target(p, from, to, err);
    if (r < 0)
        return r;
    count = plan_files(from, &files);
    if (count == 0)
        return no_such(c->from, err);
    for (size_t i = 0; i < count && r == 0; i++)
        r = move_one(p, c, files[i], err);
    return r;
}

/* ---- all of them -------------------------------------------------------- */

static int change_any(struct commit_plan *p, const struct workspace_change *c,
                      struct error *err)
{
    switch (c->kind) {
    case CHANGE_PUT:
        return change_put(p, c, err);
    case CHANGE_REMOVE:
    case CHANGE_CLEAR:
        return change_remove(p, c, err);
    case CHANGE_MOVE:
    case CHANGE_COPY:
        return change_move(p, c, err);
    }
    return error_set(err, ERR_INTERNAL, "no such kind of change");
}

int commit_plan_changes(struct commit_plan *p, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < p->spec->count && r == 0; i++) {
        const struct workspace_change *c = &p->spec->changes[i];
        bool everything =
            c->kind == CHANGE_CLEAR && c->path && c->path[0] == '\0';

        r = everything ? 0 : workspace_path_check(c->path, err);
        if (r == 0)
            r = change_any(p, c, err);
    }
    return r;
}

/* ---- which file each path becomes ------------------------------------------
 */

bool plan_is_removal(const struct plan_node *n)
{
    return n->want == WANT_GONE && n->head && n->fate == FATE_DONE;
}

bool plan_is_write(const struct plan_node *n)
{
    return n->want == WANT_BYTES && !n->unchanged &&
           (n->fate == FATE_DONE || n->fate == FATE_CONFLICT);
}

/* ---- ids ---------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

void plan_ids_make(struct commit_plan *p, struct plan_ids *ids,
                   const char *prefix, plan_ids_maker *make, size_t count)
{
    ids->prefix = prefix;
    ids->count = count;
    ids->made = arena_alloc(p->arena, count * sizeof(*ids->made));
    for (size_t i = 0; i < count; i++)
        make(prefix, ids->made[i]);
    qsort(ids->made, count, sizeof(*ids->made), compare_ids);
}

void plan_ids_take(struct plan_ids *ids, char ret[ID_MAX])
{
    if (ids->next < ids->count)
        memcpy(ret, ids->made[ids->next++], ID_MAX);
    else
        ids_make(ids->prefix, ret);
}

/* ---- renames ------------------------------------------------------------ */

struct pair {
    const char *sha256; /* NULL: free */
    struct plan_node *gone, *come;
    unsigned gone_count, come_count;
};

static bool may_have_moved(const struct plan_node *n)
{
    return plan_is_removal(n) && !n->moved && n->head->size > 0;
}

static bool may_be_moved(const struct plan_node *n)
{
    return plan_is_write(n) && n->fate == FATE_DONE && !n->head &&
           n->put->size > 0 && !n->put->origin && !n->put->file_id &&
           !n->put->copied && !n->put->restored;
}

/* Keyed: a client that makes the bytes knows their SHA-256. */
static struct pair *pair_of(struct pair *pairs, size_t mask,
                            const char *sha256)
{
    for (uint64_t at = siphash_text(sha256);; at++) {
        struct pair *pair = &pairs[at & mask];

        if (!pair->sha256)
            pair->sha256 = sha256;
        if (strcmp(pair->sha256, sha256) == 0)
            return pair;
    }
}

static void pair_add(struct pair *pairs, size_t mask, struct plan_node *n)
{
    if (may_have_moved(n)) {
        struct pair *pair = pair_of(pairs, mask, n->head->sha256);

        pair->gone = n;
        pair->gone_count++;
    } else if (may_be_moved(n)) {
        struct pair *pair = pair_of(pairs, mask, n->put->sha256);

        pair->come = n;
        pair->come_count++;
    }
}

static void find_renames(struct commit_plan *p)
{
    struct pair *pairs cleanup(mem_free) = NULL;
    size_t size = 16, gone = 0, come = 0;

    for (struct plan_node *n = p->first; n; n = n->next) {
        gone += may_have_moved(n);
        come += may_be_moved(n);
    }
    if (gone == 0 || come == 0)
        return;
    while (size < 2 * (gone + come))
        size *= 2;
    pairs = xcalloc(size, sizeof(*pairs));
    for (struct plan_node *n = p->first; n; n = n->next)
        pair_add(pairs, size - 1, n);
    for (size_t i = 0; i < size; i++) {
        if (pairs[i].gone_count != 1 || pairs[i].come_count != 1)
            continue;
        pairs[i].come->put->origin = pairs[i].gone;
        pairs[i].come->put->from = pairs[i].gone->path;
        pairs[i].gone->moved = true;
    }
}

/* ---- identities --------------------------------------------------------- */

static int find_file(struct commit_plan *p, const char *file,
                     struct plan_file *ret, const char **ret_path,
                     bool *ret_alive, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(p->tx, &rows, err,
                      "SELECT version, number, sha256, path, alive FROM files"
                      " WHERE id = ?1 AND workspace = ?2",
                      "tt", file, p->row->id);

    if (r <= 0)
        return r;
    (void)snprintf(ret->file, sizeof(ret->file), "%s", file);
    store_copy(rows, 0, ret->version, sizeof(ret->version));
    ret->number = store_int(rows, 1);
    store_copy(rows, 2, ret->sha256, sizeof(ret->sha256));
    *ret_path = arena_strdup(p->arena, store_text(rows, 3));
    *ret_alive = store_int(rows, 4) != 0;
    return 1;
}

/* A restore says whose bytes these are. If that file lives on elsewhere and
 * is to stay there, it cannot be here as well. */
static int claim(struct commit_plan *p, struct plan_node *n, struct error *err)
{
    struct plan_file *f = arena_alloc(p->arena, sizeof(*f));
    struct plan_node *there;
    const char *path;
    bool alive;
    int r;

    if (n->head && strcmp(n->head->file, n->put->file_id) == 0) {
        n->same = n->head;
        return 0;
    }
    r = find_file(p, n->put->file_id, f, &path, &alive, err);
    if (r <= 0)
        return r;
    if (!alive) {
        n->same = f;
        return 0;
    }
    r = plan_node_get(p, path, &there, err);
    if (r == 0 && plan_is_removal(there)) {
        there->moved = true;
        n->put->origin = there;
        n->put->from = there->path;
        n->same = there->head;
    }
    return r;
}

static void choose(struct commit_plan *p, struct plan_node *n)
{
    if (n->put->origin)
        n->same = n->put->origin->head;
    else if (!n->same && n->head && !n->moved)
        n->same = n->head;
    else if (!n->same && n->past && !n->put->file_id)
        n->same = n->past;
    if (n->same)
        memcpy(n->file, n->same->file, sizeof(n->file));
    else
        plan_ids_take(&p->file_ids, n->file);
    /* A file's bytes count once, however often it has had them in a row. */
    n->cost = n->put->size;
    if (n->same && strcmp(n->same->sha256, n->put->sha256) == 0)
        n->cost = 0;
    if (n->put->restored && n->same && n->put->file_id &&
        strcmp(n->same->file, n->put->file_id) == 0)
        n->cost = 0;
}

/* ---- room --------------------------------------------------------------- */

/* Bytes that a live file of the head has are stored already. */
static bool is_stored(const struct plan_node *n)
{
    const struct plan_node *from = n->put->origin ? n->put->origin : n;

    return !n->put->unstored ||
           (from->head && strcmp(from->head->sha256, n->put->sha256) == 0);
}

static int take_each(struct commit_plan *p, struct error *err)
{
    for (struct plan_node *n = p->first; n; n = n->next) {
        int r;

        if (!plan_is_write(n))
            continue;
        if (!is_stored(n)) {
            n->fate = FATE_QUOTA;
            continue;
        }
        r = workspace_quota_take(p->w, p->tx, p->row, p->stored, n->cost, err);
        if (r == -ERR_SPACE)
            n->fate = FATE_QUOTA;
        else if (r < 0)
            return r;
        else
            p->stored += n->cost;
    }
    return 0;
}

static int take_all(struct commit_plan *p, struct error *err)
{
    for (struct plan_node *n = p->first; n; n = n->next)
        if (plan_is_write(n))
            p->stored += n->cost;
    return workspace_quota_take(p->w, p->tx, p->row, 0, p->stored, err);
}

int commit_ids(struct commit_plan *p, struct error *err)
{
    size_t created = 0;

    find_renames(p);
    for (struct plan_node *n = p->first; n; n = n->next) {
        int r = 0;

        if (plan_is_write(n) && n->put->file_id)
            r = claim(p, n, err);
        if (r < 0)
            return r;
    }
    for (struct plan_node *n = p->first; n; n = n->next)
        created += plan_is_write(n) && !n->head && !n->past;
    plan_ids_make(p, &p->file_ids, "file", ids_make, created);
    for (struct plan_node *n = p->first; n; n = n->next)
        if (plan_is_write(n))
            choose(p, n);
    return p->session ? take_each(p, err) : take_all(p, err);
}
