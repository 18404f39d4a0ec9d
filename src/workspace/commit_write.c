/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decided plan becomes rows: one commit, a version for each path that
 * changes, the files' newest state, the workspace's head and counts; and the
 * results the caller gets. First all that leave their paths, then all that
 * come, so that files may change places. Runs in the daemon inside the
 * commit's transaction.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "workspace/commit_plan.h"

struct writer {
    struct commit_plan *p;
    struct workspace_commit *commit;
    int64_t files, bytes; /* change of the counts */
};

static const char *text(const char *s)
{
    return s ? s : "";
}

/* ---- rows --------------------------------------------------------------- */

static int insert_commit(struct writer *wr, struct error *err)
{
    const struct workspace_commit_spec *s = wr->p->spec;
    int r = store_exec(
        wr->p->tx, err,
        "INSERT INTO commits (id, workspace, seq, kind, author, at_ms, base,"
        " session, execution, language, code_sha256, conversation, message,"
        " note) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
        " ?13, ?14)",
        "ttittiittttttt", wr->commit->id, wr->p->row->id, wr->commit->seq,
        s->kind, wr->p->who->key, wr->commit->at_ms,
        s->session || s->base ? s->base : wr->p->row->head, text(s->session),
        text(s->execution), text(s->language), text(s->code_sha256),
        text(s->conversation), text(s->message), text(s->note));

    return MIN(r, 0);
}

static int insert_version(struct writer *wr,
                          const struct workspace_result *result,
                          const char *from_path, const char *from_version,
                          struct error *err)
{
    const struct workspace_file *f = &result->file;
    int r = store_exec(
        wr->p->tx, err,
        "INSERT INTO versions (id, file, workspace, path, number, commit_id,"
        " seq, change, from_path, from_version, sha256, size, mime,"
        " executable) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
        " ?12, ?13, ?14)",
        "ttttitittttiti", f->version, f->file, wr->p->row->id, f->path,
        f->number, wr->commit->id, f->seq, result->change, text(from_path),
        text(from_version), f->sha256, (int64_t)f->size, f->mime,
        (int64_t)f->executable);

    return MIN(r, 0);
}

/* The file's row follows its newest version. */
static int update_file(struct writer *wr, const struct workspace_file *f,
                       bool alive, struct error *err)
{
    int r = store_exec(
        wr->p->tx, err,
        "UPDATE files SET path = ?2, alive = ?3, version = ?4, number = ?5,"
        " seq = ?6, sha256 = ?7, size = ?8, mime = ?9, executable = ?10,"
        " modified_at_ms = ?11, indexed = 0 WHERE id = ?1",
        "ttitiititii", f->file, f->path, (int64_t)alive, f->version, f->number,
        f->seq, f->sha256, (int64_t)f->size, f->mime, (int64_t)f->executable,
        f->modified_at_ms);

    return MIN(r, 0);
}

/* The same where it stays, without touching the indexes of paths. */
static int update_in_place(struct writer *wr, const struct workspace_file *f,
                           struct error *err)
{
    int r = store_exec(
        wr->p->tx, err,
        "UPDATE files SET version = ?2, number = ?3, seq = ?4, sha256 = ?5,"
        " size = ?6, mime = ?7, executable = ?8, modified_at_ms = ?9,"
        " indexed = 0 WHERE id = ?1",
        "ttiititii", f->file, f->version, f->number, f->seq, f->sha256,
        (int64_t)f->size, f->mime, (int64_t)f->executable, f->modified_at_ms);

    return MIN(r, 0);
}

/* When and by whom it first came is set here and never again. */
static int insert_file(struct writer *wr, const struct workspace_file *f,
                       struct error *err)
{
    const char *execution = wr->p->spec->execution;
    int r = store_exec(
        wr->p->tx, err,
        "INSERT INTO files (id, workspace, path, alive, version, number, seq,"
        " sha256, size, mime, executable, modified_at_ms, created_at_ms,"
        " by_execution)"
        " VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12)",
        "ttttiititiii", f->file, wr->p->row->id, f->path, f->version,
        f->number, f->seq, f->sha256, (int64_t)f->size, f->mime,
        (int64_t)f->executable, f->modified_at_ms,
        (int64_t)(execution && execution[0]));

    return MIN(r, 0);
}

static int update_workspace(struct writer *wr, struct error *err)
{
    struct workspace_row *row = wr->p->row;
    int r;

    row->head = wr->commit->seq;
    row->updated_at_ms = wr->commit->at_ms;
    row->files += wr->files;
    row->bytes += wr->bytes;
    row->stored_bytes += (int64_t)wr->p->stored;
    r = store_exec(wr->p->tx, err,
                   "UPDATE workspaces SET head = ?2, updated_at_ms = ?3,"
                   " files = ?4, bytes = ?5, stored_bytes = ?6 WHERE id = ?1",
                   "tiiiii", row->id, row->head, row->updated_at_ms,
                   row->files, row->bytes, row->stored_bytes);
    return MIN(r, 0);
}

/* ---- leaving ------------------------------------------------------------ */

static void new_version(struct writer *wr, const char *file, int64_t number,
                        const char *path, struct workspace_file *ret)
{
    memcpy(ret->file, file, sizeof(ret->file));
    plan_ids_take(&wr->p->version_ids, ret->version);
    ret->number = number;
    ret->seq = wr->commit->seq;
    ret->path = xstrdup(path);
    ret->modified_at_ms = wr->commit->at_ms;
}

static int bury(struct writer *wr, const struct plan_node *n,
                struct workspace_result *ret, struct error *err)
{
    struct workspace_file *f = &ret->file;
    int r;

    new_version(wr, n->head->file, n->head->number + 1, n->path, f);
    (void)snprintf(ret->change, sizeof(ret->change), "deleted");
    (void)snprintf(f->mime, sizeof(f->mime), "%s", n->head->mime);
    r = insert_version(wr, ret, NULL, NULL, err);
    if (r == 0)
        r = update_file(wr, f, false, err);
    return r;
}

/* Its file moves elsewhere or another takes its place. */
static int vacate(struct writer *wr, const struct plan_node *n,
                  struct error *err)
{
    struct workspace_result unseen = {0};
    int r;

    if (n->moved) {
        r = store_exec(wr->p->tx, err,
                       "UPDATE files SET alive = 0 WHERE id = ?1", "t",
                       n->head->file);
        return MIN(r, 0);
    }
    r = bury(wr, n, &unseen, err);
    workspace_file_done(&unseen.file);
    return r;
}

static int leave(struct writer *wr, struct plan_node *n,
                 struct workspace_result *ret, struct error *err)
{
    bool displaced = n->head && plan_is_write(n) && n->same != n->head;

    if (!n->head || (!n->moved && !displaced && !plan_is_removal(n)))
        return 0;
    wr->files--;
    wr->bytes -= (int64_t)n->head->size;
    if (n->moved || displaced || !ret)
        return vacate(wr, n, err);
    return bury(wr, n, ret, err);
}

/* ---- coming ------------------------------------------------------------- */

static const char *change_name(const struct plan_node *n)
{
    if (n->put->restored)
        return "restored";
    if (n->put->origin)
        return "renamed";
    if (n->put->copied)
        return "copied";
    return n->head && n->same == n->head ? "modified" : "created";
}

static void describe_put(const struct plan_node *n, struct workspace_file *ret)
{
    memcpy(ret->sha256, n->put->sha256, BLOB_NAME - 1);
    ret->size = n->put->size;
    ret->executable = n->put->executable;
    (void)snprintf(ret->mime, sizeof(ret->mime), "%s", n->put->mime);
}

static int come(struct writer *wr, struct plan_node *n,
                struct workspace_result *ret, struct error *err)
{
    struct workspace_file *f = &ret->file;
    bool stays;
    int r;

    new_version(wr, n->file, n->same ? n->same->number + 1 : 1, n->path, f);
    describe_put(n, f);
    (void)snprintf(ret->change, sizeof(ret->change), "%s", change_name(n));
    if (n->put->origin || n->put->copied) {
        free(ret->from);
        ret->from = xstrdup(n->put->from);
    }
    stays = n->head && n->same == n->head;
    if (stays)
        wr->bytes -= (int64_t)n->head->size;
    else
        wr->files++;
    wr->bytes += (int64_t)f->size;
    if (stays)
        r = update_in_place(wr, f, err);
    else
        r = n->same ? update_file(wr, f, true, err) : insert_file(wr, f, err);
    if (r == 0)
        r = insert_version(wr, ret, n->put->from, n->put->from_version, err);
    return r;
}

/* ---- results ------------------------------------------------------------ */

static void describe_head(const struct plan_node *n,
                          struct workspace_file *ret)
{
    const struct plan_file *h = n->head;

    memcpy(ret->file, h->file, sizeof(ret->file));
    memcpy(ret->version, h->version, sizeof(ret->version));
    memcpy(ret->sha256, h->sha256, sizeof(ret->sha256));
    ret->number = h->number;
    ret->seq = h->seq;
    ret->size = h->size;
    ret->executable = h->executable;
    (void)snprintf(ret->mime, sizeof(ret->mime), "%s", h->mime);
    ret->modified_at_ms = h->modified_at_ms;
}

/* Describes a change that was refused or has no effect. */
static void describe_refused(const struct plan_node *n,
                             struct workspace_result *ret)
{
    const char *change = n->head ? "modified" : "created";

    ret->file.path = xstrdup(n->path);
    if (n->head)
        describe_head(n, &ret->file);
    if (n->want == WANT_GONE)
        change = "deleted";
    else if (n->fate == FATE_LOCKED || n->fate == FATE_QUOTA)
        describe_put(n, &ret->file);
    if (n->fate == FATE_SAME || n->fate == FATE_CONFLICT)
        change = "";
    (void)snprintf(ret->change, sizeof(ret->change), "%s", change);
    if (n->refused_by) {
        memcpy(ret->holder, n->refused_by->holder, sizeof(ret->holder));
        ret->lock_expires_at_ms = n->refused_by->expires_at_ms;
    }
}

static bool has_result(const struct plan_node *n)
{
    return n->want == WANT_BYTES ||
           (n->want == WANT_GONE && n->head && !n->moved);
}

static struct workspace_result *next_result(struct workspace_commit *c,
                                            const struct plan_node *n)
{
    struct workspace_result *r = &c->results[c->count++];

    r->fate = n->fate;
    r->wanted = xstrdup(n->put && n->put->wanted ? n->put->wanted->path : "");
    r->from = xstrdup("");
    return r;
}

/* ---- all of it ---------------------------------------------------------- */

static int write_leaving(struct writer *wr, struct error *err)
{
    size_t at = 0;
    int r = 0;

    for (struct plan_node *n = wr->p->first; n && r == 0; n = n->next) {
        struct workspace_result *result = NULL;

        if (has_result(n))
            result = &wr->commit->results[at++];
        r = leave(wr, n, result, err);
    }
    return r;
}

static int write_coming(struct writer *wr, struct error *err)
{
    size_t at = 0;
    int r = 0;

    for (struct plan_node *n = wr->p->first; n && r == 0; n = n->next)
        if (has_result(n) && plan_is_write(n))
            r = come(wr, n, &wr->commit->results[at++], err);
        else if (has_result(n))
            at++;
    return r;
}

/* How many there are, and whether one of them changes anything. */
static bool make_results(struct commit_plan *p, struct workspace_commit *ret)
{
    bool changes = false;
    size_t count = 0;

    for (struct plan_node *n = p->first; n; n = n->next)
        count += has_result(n);
    ret->results = xcalloc(MAX(count, (size_t)1), sizeof(*ret->results));
    for (struct plan_node *n = p->first; n; n = n->next) {
        struct workspace_result *result;

        if (!has_result(n))
            continue;
        result = next_result(ret, n);
        if (plan_is_write(n) || plan_is_removal(n))
            changes = true;
        else
            describe_refused(n, result);
    }
    return changes;
}

int commit_write(struct commit_plan *p, struct workspace_commit *ret,
                 struct error *err)
{
    struct writer wr = {.p = p, .commit = ret};
    int r;

    ret->seq = p->row->head;
    ret->at_ms = p->now_ms;
    if (!make_results(p, ret))
        return 0;
    ids_make_near("cmt", ret->id);
    plan_ids_make(p, &p->version_ids, "ver", ids_make_near, ret->count);
    ret->seq = p->row->head + 1;
    r = insert_commit(&wr, err);
    if (r == 0)
        r = write_leaving(&wr, err);
    if (r == 0)
        r = write_coming(&wr, err);
    if (r == 0)
        r = update_workspace(&wr, err);
    return r;
}
