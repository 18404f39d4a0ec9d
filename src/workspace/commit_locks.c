/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks, as a commit meets them: read in its own transaction, so that a lock
 * that ran out or went to someone else between the caller's check and the
 * write is seen here (fencing). A lock covers its path and all below it, and
 * opens to the token it was given for, or to the session it was taken for.
 * Whoever shows a token that no longer holds believes to have a lock it has
 * not, and is refused even if the path is free.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "workspace/commit_plan.h"

#define TOKENS_MAX 100u

struct token {
    unsigned char hash[HASH_SIZE];
    bool used;
};

static struct plan_lock *read_lock(struct commit_plan *p,
                                   struct store_rows *rows)
{
    struct plan_lock *lock = arena_alloc(p->arena, sizeof(*lock));

    lock->path = arena_strdup(p->arena, store_text(rows, 0));
    store_copy(rows, 1, lock->holder, sizeof(lock->holder));
    lock->fence = store_int(rows, 2);
    lock->expires_at_ms = store_int(rows, 3);
    return lock;
}

static bool opens(const struct commit_plan *p, struct store_rows *rows,
                  struct token *tokens)
{
    const char *session = store_text(rows, 4);
    size_t len;
    const void *hash = store_bytes(rows, 5, &len);
    bool open = p->spec->session && session && session[0] &&
                strcmp(session, p->spec->session) == 0;

    for (size_t i = 0; hash && len == HASH_SIZE && i < p->spec->lock_count;
         i++) {
        if (!hash_equal(tokens[i].hash, hash, HASH_SIZE))
            continue;
        tokens[i].used = true;
        open = true;
    }
    return open;
}

static int place(struct commit_plan *p, struct plan_lock *lock,
                 struct error *err)
{
    struct plan_node *n;
    int r = plan_node_get(p, lock->path, &n, err);

    if (r < 0)
        return r;
    n->lock = lock;
    p->locked = true;
    for (; n && !lock->open; n = n->parent)
        n->shut++;
    return 0;
}

static int load_held(struct commit_plan *p, struct token *tokens,
                     struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(p->tx, &rows, err,
                        "SELECT path, holder, fence, expires_at_ms, session,"
                        " token_hash FROM locks WHERE workspace = ?1"
                        " AND id <> ''",
                        "t", p->row->id);

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        struct plan_lock *lock;

        if (store_int(rows, 3) <= p->now_ms)
            continue;
        lock = read_lock(p, rows);
        lock->open = opens(p, rows, tokens);
        r = place(p, lock, err);
    }
    return r;
}

/* The path it was for is known as long as nobody else got it: for a session
 * that path is shut. If someone did, their lock or their change says so. */
static int refuse_stale(struct commit_plan *p, const struct token *token,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct plan_lock *lock = NULL;
    int r = store_one(p->tx, &rows, err,
                      "SELECT path, holder, fence, expires_at_ms FROM locks"
                      " WHERE workspace = ?1 AND token_hash = ?2",
                      "tb", p->row->id, token->hash, sizeof(token->hash));

    if (r < 0)
        return r;
    if (r > 0)
        lock = read_lock(p, rows);
    if (p->session)
        return lock ? place(p, lock, err) : 0;
    (void)error_set(err, ERR_LOCKED,
                    "the lock token no longer holds: the lock was released, "
                    "ran out or went to someone else");
    return error_hint(err, "look at the file again, then take a new lock");
}

int commit_locks_load(struct commit_plan *p, struct error *err)
{
    const struct workspace_commit_spec *spec = p->spec;
    struct token *tokens;
    int r;

    if (spec->lock_count > TOKENS_MAX)
        return error_set(err, ERR_INVALID, "at most %u lock tokens at a time",
                         TOKENS_MAX);
    tokens = arena_alloc(p->arena, (spec->lock_count + 1) * sizeof(*tokens));
    for (size_t i = 0; i < spec->lock_count; i++)
        workspace_token_hash(spec->lock_tokens[i], tokens[i].hash);
    r = load_held(p, tokens, err);
    for (size_t i = 0; r == 0 && i < spec->lock_count; i++)
        if (!tokens[i].used)
            r = refuse_stale(p, &tokens[i], err);
    return r;
}

static struct plan_lock *first_shut(struct plan_node *n)
{
    struct plan_lock *found = n->lock && !n->lock->open ? n->lock : NULL;

    for (struct plan_node *c = n->child; c && !found; c = c->sibling)
        if (c->shut)
            found = first_shut(c);
    return found;
}

struct plan_lock *commit_lock_over(struct plan_node *n, bool below)
{
    struct plan_lock *lock = below && n->shut ? first_shut(n) : NULL;

    for (; n; n = n->parent)
        if (n->lock && !n->lock->open)
            lock = n->lock;
    return lock;
}

int commit_lock_error(struct commit_plan *p, const struct plan_lock *lock,
                      const char *path, struct error *err)
{
    char until[32], name[WORKSPACE_SHORT];

    (void)error_set(err, ERR_LOCKED, "locked by %s until %s, fence %lld: %s",
                    lock->holder, clock_format_ms(lock->expires_at_ms, until),
                    (long long)lock->fence,
                    workspace_path_short(lock->path, name));
    workspace_refused(p->w, p->who,
                      p->spec->action ? p->spec->action : "commit", p->row->id,
                      path, err);
    return error_hint(err, "wait until it is released, or write with its "
                           "token");
}
