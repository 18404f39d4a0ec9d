/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the changes of a commit in order and notes for each path what it
 * shall be; see commit_plan.h. What a session says is true of its own tree,
 * so there whatever is in the way is gone; anybody else is told about it.
 * Runs in the daemon inside the commit's transaction; writes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/path.h"
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
