/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which changes of a plan may be made. Runs in the daemon inside the commit's
 * transaction.
 *
 * A session works on the tree it mounted. Where another author has changed a
 * path since, the session's bytes are kept beside it under a conflict name,
 * and what it removed stays; a path under a lock is refused; everything else
 * is done. No author's change is overwritten. An author without a session sees
 * the head; its commit is refused as a whole, and only because of locks.
 *
 * Locks are read in the commit's own transaction, so that a lock that expired
 * or was taken by another holder between the caller's check and the write is
 * seen here (fencing). A lock covers its path and everything below it. It
 * admits the token that was issued with it and the session it was taken for.
 * An author that presents a token of a lock that is no longer held is refused
 * even if the path is free, because it believes to hold the lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/path.h"
#include "workspace/commit_plan.h"

/* ---- locks -----------------------------------------------------------------
 */

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

/* The path of an expired lock is known until another holder takes it: the
 * session may not write that path. After that, the other holder's lock or
 * change refuses the write. */
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

/* ---- conflicts -------------------------------------------------------------
 */

#define NAMES_TRIED 99u
#define EXTENSION_MAX 32u

/* ---- who changed it ----------------------------------------------------- */

/* Files of one commit come together, so the last answer is remembered. */
static int made_by_us(struct commit_plan *p, int64_t seq, bool *ret,
                      struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (p->asked_seq != seq) {
        r = store_one(p->tx, &rows, err,
                      "SELECT session FROM commits WHERE workspace = ?1"
                      " AND seq = ?2",
                      "ti", p->row->id, seq);
        if (r < 0)
            return r;
        p->asked_seq = seq;
        p->asked_mine =
            r > 0 && strcmp(store_text(rows, 0), p->spec->session) == 0;
    }
    *ret = p->asked_mine;
    return 0;
}

/* The commit, at or before `until`, after which no file was at the path any
 * more; 0: there is one, INT64_MIN: there never was. */
static int gone_since(struct commit_plan *p, const char *path, int64_t until,
                      int64_t *ret, struct error *err)
{
    struct store_rows *last cleanup(store_rows_done) = NULL;
    struct store_rows *next cleanup(store_rows_done) = NULL;
    int r = store_one(p->tx, &last, err,
                      "SELECT file, number, seq, sha256 FROM versions"
                      " WHERE workspace = ?1 AND path = ?2 AND seq <= ?3"
                      " ORDER BY seq DESC,"
                      " CASE WHEN sha256 = '' THEN 1 ELSE 0 END LIMIT 1",
                      "tti", p->row->id, path, until);

    *ret = INT64_MIN;
    if (r <= 0)
        return r;
    *ret = store_int(last, 2);
    if (store_text(last, 3)[0] == '\0')
        return 0;
    /* A file was left there, which has then gone elsewhere. */
    r = store_one(p->tx, &next, err,
                  "SELECT seq FROM versions WHERE file = ?1 AND number = ?2"
                  " AND seq <= ?3",
                  "tii", store_text(last, 0), store_int(last, 1) + 1, until);
    *ret = r > 0 ? store_int(next, 0) : 0;
    return MIN(r, 0);
}

/* Was a file taken away that the session still saw? */
static int removed_by_others(struct commit_plan *p, const struct plan_node *n,
                             bool *ret, struct error *err)
{
    int64_t seq, then;
    bool ours = true;
    int r = gone_since(p, n->path, p->row->head, &seq, err);

    *ret = false;
    if (r < 0 || seq <= p->spec->base)
        return r;
    r = made_by_us(p, seq, &ours, err);
    if (r < 0 || ours)
        return r;
    r = gone_since(p, n->path, p->spec->base, &then, err);
    *ret = then == 0;
    return r;
}

static int changed_by_others(struct commit_plan *p, const struct plan_node *n,
                             bool *ret, struct error *err)
{
    bool ours = true;
    int r = 0;

    *ret = false;
    if (p->spec->base >= p->row->head)
        return 0;
    if (!n->head)
        return removed_by_others(p, n, ret, err);
    if (n->head->seq > p->spec->base)
        r = made_by_us(p, n->head->seq, &ours, err);
    *ret = !ours;
    return r;
}

/* ---- names of conflict copies ------------------------------------------- */

/* Where in a part its extension begins; len when it has none. */
static size_t extension(const char *part, size_t len)
{
    for (size_t at = len; at-- > 1;)
        if (part[at] == '.')
            return len - at <= EXTENSION_MAX ? at : len;
    return len;
}

/* path with "(conflict …)" in the part that ends at `end`: the same for the
 * same session, so that its next change goes to the same copy. */
static char *marked(struct commit_plan *p, const char *path, size_t start,
                    size_t end, unsigned attempt)
{
    const char *session = p->spec->session;
    size_t id_len = strlen(session);
    const char *id = session + (id_len > 8 ? id_len - 8 : 0);
    char mark[64];
    size_t stem = end - start, dot = stem, most;

    if (path[end] == '\0') /* folders have no extension */
        dot = extension(path + start, stem);
    if (attempt > 1)
        (void)snprintf(mark, sizeof(mark), " (conflict %s %u)", id, attempt);
    else
        (void)snprintf(mark, sizeof(mark), " (conflict %s)", id);
    most = PATH_PART_MAX - strlen(mark) - (stem - dot);
    stem = MIN(dot, most);
    while (stem < dot && stem &&
           ((unsigned char)path[start + stem] & 0xc0) == 0x80)
        stem--;
    return arena_printf(p->arena, "%.*s%.*s%s%s", (int)start, path, (int)stem,
                        path + start, mark, path + start + dot);
}

static char *conflict_name(struct commit_plan *p, const struct plan_node *n,
                           const struct plan_node *at, unsigned attempt)
{
    const char *slash = strrchr(at->path, '/');
    size_t start = slash ? (size_t)(slash - at->path) + 1 : 0;
    char *name = marked(p, n->path, start, strlen(at->path), attempt);

    if (!path_fault(name, strlen(name)))
        return name;
    /* Too long where it was: beside everything else. */
    slash = strrchr(n->path, '/');
    return marked(p, slash ? slash + 1 : n->path, 0,
                  strlen(slash ? slash + 1 : n->path), attempt);
}

/* ---- keeping it beside -------------------------------------------------- */

static bool same_bytes(const struct plan_node *n, const struct plan_put *put)
{
    return n->head && !n->moved && !put->origin &&
           strcmp(n->head->sha256, put->sha256) == 0 &&
           n->head->executable == put->executable &&
           (!put->file_id || strcmp(put->file_id, n->head->file) == 0);
}

/* Free, or a copy that this session made and no one changed since. */
static int name_usable(struct commit_plan *p, struct plan_node *c, bool *ret,
                       struct error *err)
{
    int r = plan_load(p, c, err);

    *ret = false;
    for (struct plan_node *a = c->parent; a && r == 0; a = a->parent) {
        r = plan_load(p, a, err);
        if (r == 0 && plan_is_file(a))
            return 0;
    }
    if (r < 0 || c->want != WANT_NOTHING)
        return r;
    if (c->head)
        return made_by_us(p, c->head->seq, ret, err);
    r = plan_load_below(p, c, err);
    *ret = c->live == 0;
    return r;
}

static int find_name(struct commit_plan *p, const struct plan_node *n,
                     const struct plan_node *at, struct plan_node **ret,
                     struct error *err)
{
    for (unsigned attempt = 1; attempt <= NAMES_TRIED; attempt++) {
        bool usable = false;
        int r = plan_node_get(p, conflict_name(p, n, at, attempt), ret, err);

        if (r == 0)
            r = name_usable(p, *ret, &usable, err);
        if (r < 0 || usable)
            return r;
    }
    return error_set(err, ERR_CONFLICT, "there are too many conflict copies");
}

static void refuse_locked(struct plan_node *n, struct plan_lock *lock)
{
    n->fate = FATE_LOCKED;
    n->refused_by = lock;
}

/* at: the part of its path that is taken, itself or a folder above it. */
static int keep_beside(struct commit_plan *p, struct plan_node *n,
                       const struct plan_node *at, struct error *err)
{
    struct plan_put *put = arena_alloc(p->arena, sizeof(*put));
    struct plan_node *c;
    struct plan_lock *lock;
    int r = find_name(p, n, at, &c, err);

    if (r < 0)
        return r;
    lock = commit_lock_over(c, true);
    if (lock) {
        refuse_locked(n, lock);
        return 0;
    }
    *put = *n->put;
    put->wanted = n;
    put->from = n->path;
    put->copied = false;
    plan_want_bytes(p, c, put);
    c->fate = FATE_CONFLICT;
    c->unchanged = same_bytes(c, put);
    n->want = WANT_NOTHING; /* what is there stays there */
    return 0;
}

/* ---- a session's commit ------------------------------------------------- */

static int resolve_removal(struct commit_plan *p, struct plan_node *n,
                           struct error *err)
{
    struct plan_lock *lock = commit_lock_over(n, false);
    bool others = false;
    int r = lock ? 0 : changed_by_others(p, n, &others, err);

    if (lock)
        refuse_locked(n, lock);
    else if (others)
        n->fate = FATE_KEPT;
    for (struct plan_node *a = n; a && n->fate != FATE_DONE; a = a->parent)
        a->stays++;
    return r;
}

static struct plan_node *stays_above(struct plan_node *n)
{
    for (struct plan_node *a = n->parent; a; a = a->parent)
        if (a->want == WANT_GONE && a->fate != FATE_DONE)
            return a;
    return NULL;
}

static int resolve_put(struct commit_plan *p, struct plan_node *n,
                       struct error *err)
{
    struct plan_node *above = stays_above(n);
    struct plan_lock *lock = commit_lock_over(n, true);
    bool others = false;
    int r;

    if (same_bytes(n, n->put)) {
        n->fate = FATE_SAME;
        return 0;
    }
    if (above && above->fate == FATE_LOCKED)
        lock = above->refused_by;
    if (lock) {
        refuse_locked(n, lock);
        return 0;
    }
    if (above)
        return keep_beside(p, n, above, err);
    r = changed_by_others(p, n, &others, err);
    if (r < 0 || (!others && n->stays == 0))
        return r;
    return keep_beside(p, n, n, err);
}

static int resolve_session(struct commit_plan *p, struct error *err)
{
    int r = 0;

    for (struct plan_node *n = p->first; n && r == 0; n = n->next)
        if (n->want == WANT_GONE && n->head)
            r = resolve_removal(p, n, err);
    /* Copies are appended as they are made, resolved already. */
    for (struct plan_node *n = p->first; n && r == 0; n = n->next)
        if (n->want == WANT_BYTES && !n->put->wanted)
            r = resolve_put(p, n, err);
    return r;
}

/* ---- authors without a session ------------------------------------------ */

static int check_lock(struct commit_plan *p, const char *path,
                      struct error *err)
{
    struct plan_node *n;
    struct plan_lock *lock;
    int r = plan_node_get(p, path, &n, err);

    if (r < 0)
        return r;
    lock = commit_lock_over(n, true);
    return lock ? commit_lock_error(p, lock, path, err) : 0;
}

/* A change of a folder touches all below it, also what is only locked. */
static int check_locks(struct commit_plan *p, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < p->spec->count && r == 0; i++) {
        const struct workspace_change *c = &p->spec->changes[i];

        r = check_lock(p, c->path, err);
        if (r == 0 && c->kind == CHANGE_MOVE)
            r = check_lock(p, c->from, err);
    }
    return r;
}

int commit_conflicts(struct commit_plan *p, struct error *err)
{
    int r = 0;

    if (p->session)
        return resolve_session(p, err);
    if (p->locked)
        r = check_locks(p, err);
    for (struct plan_node *n = p->first; n; n = n->next)
        if (n->want == WANT_BYTES && n->put->origin)
            n->put->origin->moved = true;
    for (struct plan_node *n = p->first; n; n = n->next)
        if (n->want == WANT_BYTES && same_bytes(n, n->put))
            n->fate = FATE_SAME;
    return r;
}
