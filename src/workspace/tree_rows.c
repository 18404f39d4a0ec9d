/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a workspace's tree shall look like, asked of the store: everything at
 * the head, or only what commits after some other touched. Runs in the daemon
 * for tree.c. The answer is copied out and the transaction ended before
 * anything is done to the disk.
 */
#include "workspace/tree_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c - 'a' + 10;
}

/* A blob's name as bytes; the store holds only well-formed ones. */
static int unhex(const char *text, unsigned char ret[HASH_SIZE],
                 struct error *err)
{
    if (!text || strlen(text) != 2 * (size_t)HASH_SIZE ||
        strspn(text, "0123456789abcdef") != 2 * (size_t)HASH_SIZE)
        return error_set(err, ERR_CORRUPT, "the record of a file is damaged");
    for (size_t i = 0; i < HASH_SIZE; i++)
        ret[i] =
            (unsigned char)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    return 0;
}

/* Columns: path, sha256 (NULL: not there), executable. */
static int add(struct tree_wants *wants, struct store_rows *rows, size_t *room,
               struct error *err)
{
    const char *path = store_text(rows, 0), *sha256 = store_text(rows, 1);
    struct tree_want *want;

    if (wants->count == *room) {
        *room = *room ? 2 * *room : 256;
        wants->wants = xrealloc(wants->wants, *room * sizeof(*wants->wants));
    }
    want = &wants->wants[wants->count++];
    memset(want, 0, sizeof(*want));
    want->path = arena_strdup(wants->arena, path);
    want->gone = !sha256;
    want->executable = store_int(rows, 2) != 0;
    return want->gone ? 0 : unhex(sha256, want->sha256, err);
}

static int gather(struct store_rows *rows, struct tree_wants *wants,
                  struct error *err)
{
    size_t room = 0;
    int r;

    wants->arena = arena_new();
    while ((r = store_next(rows, err)) > 0) {
        r = add(wants, rows, &room, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int begin(struct workspaces *w, const char *id, struct store_tx **tx,
                 struct tree_wants *ret, struct error *err)
{
    struct workspace_row row;
    int r = store_begin(w->store, STORE_READ, "reading a tree", tx, err);

    if (r == 0)
        r = workspace_row_get(*tx, id, &row, err);
    if (r == 0) {
        ret->seq = row.head;
        blob_owner(row.tenant, ret->owner);
    }
    return r;
}

int tree_rows_all(struct workspaces *w, const char *id, struct tree_wants *ret,
                  struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct tree_wants wants cleanup(tree_wants_done) = {0};
    int r = begin(w, id, &tx, &wants, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT path, sha256, executable FROM files"
                        " WHERE workspace = ?1 AND alive = 1 ORDER BY path",
                        "t", id);
    if (r == 0)
        r = gather(rows, &wants, err);
    if (r < 0)
        return r;
    *ret = wants;
    wants = (struct tree_wants){0};
    return 0;
}

int tree_rows_since(struct workspaces *w, const char *id, int64_t seq,
                    struct tree_wants *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct tree_wants wants cleanup(tree_wants_done) = {0};
    int r = begin(w, id, &tx, &wants, err);

    /* Whatever a commit did to a path, at it or away from it, what counts is
     * what the head has there now. */
    if (r == 0)
        r = store_query(
            tx, &rows, err,
            "SELECT t.path, f.sha256, f.executable FROM"
            " (SELECT path FROM versions WHERE workspace = ?1 AND seq > ?2"
            "  UNION SELECT from_path FROM versions"
            "  WHERE workspace = ?1 AND seq > ?2 AND from_path <> '') AS t"
            " LEFT JOIN files AS f ON f.workspace = ?1 AND f.path = t.path"
            "  AND f.alive = 1 ORDER BY t.path",
            "ti", id, seq);
    if (r == 0)
        r = gather(rows, &wants, err);
    if (r < 0)
        return r;
    *ret = wants;
    wants = (struct tree_wants){0};
    return 0;
}
