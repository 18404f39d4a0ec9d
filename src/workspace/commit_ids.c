/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file each path of a plan will be: the one that is there, one that
 * moves there, one that was there before and comes back, or a new one. A path
 * that is gone and one that is new with the same bytes are a rename, if there
 * is only one of each. Then the room they need. Runs in the daemon inside the
 * commit's transaction.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "workspace/commit_plan.h"

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

/* Mixed with a seed: who makes the bytes knows their hash. */
static struct pair *pair_of(struct pair *pairs, size_t mask, uint64_t seed,
                            const char *sha256)
{
    uint64_t at = 0;

    for (size_t i = 0; i < 16; i++)
        at = at << 4 | (uint64_t)(sha256[i] & 15);
    at = ((at ^ seed) * (seed | 1)) >> 20;
    for (;; at++) {
        struct pair *pair = &pairs[at & mask];

        if (!pair->sha256)
            pair->sha256 = sha256;
        if (strcmp(pair->sha256, sha256) == 0)
            return pair;
    }
}

static void note(struct pair *pairs, size_t mask, uint64_t seed,
                 struct plan_node *n)
{
    if (may_have_moved(n)) {
        struct pair *pair = pair_of(pairs, mask, seed, n->head->sha256);

        pair->gone = n;
        pair->gone_count++;
    } else if (may_be_moved(n)) {
        struct pair *pair = pair_of(pairs, mask, seed, n->put->sha256);

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
        note(pairs, size - 1, p->seed, n);
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

/* Bytes that a live file of the head has are stored, whoever wrote them. */
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
