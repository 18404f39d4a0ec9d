/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way a tree changes: a set of changes becomes a commit, whole, in
 * one transaction with its audit event, on disk before it is acknowledged.
 * Spine: check what is asked, look at locks and preconditions, plan, resolve
 * conflicts, choose identities, write, record. Runs in the daemon, the
 * transaction on whichever thread commits just then (store_write).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "node/node.h"
#include "store/store.h"
#include "workspace/commit_plan.h"

#define REFERENCE_MAX 256u /* a conversation, a message */
#define NOTE_MAX 1024u

void workspace_commit_done(struct workspace_commit *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->results[i].wanted);
        free(c->results[i].from);
        workspace_file_done(&c->results[i].file);
    }
    free(c->results);
    c->results = NULL;
    c->count = 0;
}

/* ---- checking the request
 * ------------------------------------------------------ */

static bool is_sha256(const char *s)
{
    return s && strlen(s) == BLOB_NAME - 1 &&
           strspn(s, "0123456789abcdef") == BLOB_NAME - 1;
}

static int check_change(const struct workspace_change *c, bool session,
                        struct error *err)
{
    if (c->unstored && !session)
        return error_set(err, ERR_INTERNAL, "a change without its bytes");
    if (c->kind == CHANGE_PUT && !is_sha256(c->sha256))
        return error_set(err, ERR_INTERNAL, "a change without its bytes");
    if (c->size > INT64_MAX)
        return error_set(err, ERR_TOO_LARGE, "that is too large for a file");
    return 0;
}

static int check_spec(const struct workspace_row *row,
                      const struct workspace_commit_spec *spec,
                      struct error *err)
{
    const struct {
        const char *what, *text;
        size_t most;
    } texts[] = {
        {"kind", spec->kind, 15},
        {"session", spec->session, ID_MAX - 1},
        {"execution", spec->execution, ID_MAX - 1},
        {"language", spec->language, 15},
        {"code_sha256", spec->code_sha256, BLOB_NAME - 1},
        {"conversation", spec->conversation, REFERENCE_MAX},
        {"message", spec->message, REFERENCE_MAX},
        {"note", spec->note, NOTE_MAX},
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
        r = workspace_text_check(texts[i].what, texts[i].text, texts[i].most,
                                 err);
    for (size_t i = 0; i < spec->count && r == 0; i++)
        r = check_change(&spec->changes[i], spec->session && spec->session[0],
                         err);
    if (r == 0 && (spec->base < 0 || spec->base > row->head))
        r = error_set(err, ERR_INVALID,
                      "the base is not a commit of this "
                      "workspace");
    return r;
}

/* ---- preconditions ------------------------------------------------------ */

/* Says what is there instead, so that one can look and try again. */
static int not_as_expected(struct commit_plan *p, const struct plan_node *n,
                           struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char name[WORKSPACE_SHORT], at[32];
    int r;

    if (!n->head)
        return error_set(err, ERR_PRECONDITION, "there is no file %s",
                         workspace_path_short(n->path, name));
    r = store_one(p->tx, &rows, err,
                  "SELECT author, at_ms FROM commits WHERE workspace = ?1"
                  " AND seq = ?2",
                  "ti", p->row->id, n->head->seq);
    if (r < 0)
        return r;
    return error_set(err, ERR_PRECONDITION,
                     "the current version is %s, by %s of %s: %s",
                     n->head->version, r ? store_text(rows, 0) : "nobody",
                     clock_format_ms(r ? store_int(rows, 1) : 0, at),
                     workspace_path_short(n->path, name));
}

static int check_precondition(struct commit_plan *p, struct error *err)
{
    const char *want = p->spec->if_match;
    struct plan_node *n = NULL;
    bool holds;
    int r;

    if ((!want && !p->spec->if_none_match) || p->spec->count == 0)
        return 0;
    r = workspace_path_check(p->spec->changes[0].path, err);
    if (r == 0)
        r = plan_node_get(p, p->spec->changes[0].path, &n, err);
    if (r == 0)
        r = plan_load(p, n, err);
    if (r != 0 || !n)
        return r;
    holds = !p->spec->if_none_match || !n->head;
    if (want)
        holds =
            holds && n->head &&
            (strcmp(want, "*") == 0 || strcmp(want, n->head->version) == 0 ||
             strcmp(want, n->head->sha256) == 0);
    return holds ? 0 : not_as_expected(p, n, err);
}

/* ---- the audit event ---------------------------------------------------- */

static void count_changes(const struct workspace_commit *c, struct buf *ret)
{
    static const char *const changes[] = {"created", "modified", "deleted",
                                          "renamed", "copied",   "restored"};
    static const struct {
        enum workspace_fate fate;
        const char *name;
    } fates[] = {{FATE_CONFLICT, "in conflict"},
                 {FATE_KEPT, "kept"},
                 {FATE_LOCKED, "locked"},
                 {FATE_QUOTA, "over quota"}};
    size_t done[ARRAY_SIZE(changes)] = {0};
    size_t other[FATE_QUOTA + 1] = {0};
    size_t from = ret->len;

    for (size_t i = 0; i < c->count; i++) {
        other[c->results[i].fate]++;
        for (size_t k = 0; k < ARRAY_SIZE(changes); k++)
            done[k] += c->results[i].fate == FATE_DONE &&
                       strcmp(c->results[i].change, changes[k]) == 0;
    }
    for (size_t k = 0; k < ARRAY_SIZE(changes); k++)
        if (done[k])
            buf_addf(ret, "%s%zu %s", ret->len > from ? ", " : "", done[k],
                     changes[k]);
    for (size_t k = 0; k < ARRAY_SIZE(fates); k++)
        if (other[fates[k].fate])
            buf_addf(ret, "%s%zu %s", ret->len > from ? ", " : "",
                     other[fates[k].fate], fates[k].name);
}

static const char *version_before(const struct plan_node *n)
{
    if (n->want == WANT_BYTES && n->same)
        return n->same->version;
    return n->head ? n->head->version : NULL;
}

/* One file by hand: what it was and what it is. Else the commit and counts;
 * the paths are in its versions. */
static int audit_commit(struct commit_plan *p,
                        const struct workspace_commit *c, struct error *err)
{
    struct buf detail cleanup(buf_done) = {0};
    const struct workspace_result *one = &c->results[0];
    struct audit_event event = {
        .action = p->spec->action ? p->spec->action : "commit",
        .workspace = p->row->id,
        .object = c->id,
        .after = c->id,
    };

    if (!p->session && c->count == 1) {
        const struct plan_node *n = p->first;

        while (n->next && strcmp(n->path, one->file.path) != 0)
            n = n->next;
        event.object = one->file.file;
        event.path = one->file.path;
        event.before = version_before(n);
        event.after = one->file.version;
        buf_addf(&detail, "%s in %s", one->change, c->id);
    } else {
        if (p->spec->execution)
            buf_addf(&detail, "%s: ", p->spec->execution);
        count_changes(c, &detail);
    }
    event.detail = detail.data;
    return audit_add(p->w->audit, p->tx, p->who, &event, err);
}

/* ---- the spine ---------------------------------------------------------- */

static int run_plan(struct commit_plan *p, struct workspace_commit *ret,
                    struct error *err)
{
    int r = check_spec(p->row, p->spec, err);

    if (r == 0)
        r = commit_locks_load(p, err);
    if (r == 0)
        r = check_precondition(p, err);
    if (r == 0)
        r = commit_plan_changes(p, err);
    if (r == 0)
        r = commit_policy_check(p, err);
    if (r == 0)
        r = commit_conflicts(p, err);
    if (r == 0)
        r = commit_ids(p, err);
    if (r == 0)
        r = commit_write(p, ret, err);
    if (r == 0 && ret->id[0])
        r = audit_commit(p, ret, err);
    return r;
}

int workspace_commit_in(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who, struct workspace_row *row,
                        const struct workspace_commit_spec *spec,
                        struct workspace_commit *ret, struct error *err)
{
    struct commit_plan plan cleanup(plan_done) = {
        .w = w,
        .tx = tx,
        .who = who,
        .row = row,
        .spec = spec,
        .session = spec->session && spec->session[0],
        .now_ms = clock_real_ms(),
    };
    struct workspace_commit commit = {0};
    int r;

    plan_init(&plan);
    r = spec->session
            ? node_lease_check(w->nodes, tx, spec->session, spec->fence, err)
            : 0;
    if (r == 0)
        r = run_plan(&plan, &commit, err);
    if (r < 0)
        workspace_commit_done(&commit);
    else
        *ret = commit;
    return r;
}

struct commit_call {
    struct workspaces *w;
    const struct actor *who;
    const char *id;
    const struct workspace_commit_spec *spec;
    struct workspace_commit commit;
};

/* 1: nothing changes. */
static int commit_in_group(struct store_tx *tx, void *arg, struct error *err)
{
    struct commit_call *a = arg;
    struct workspace_row row;
    int r;

    workspace_commit_done(&a->commit); /* of an earlier time */
    a->commit = (struct workspace_commit){0};
    r = workspace_access(tx, a->w, a->who, a->id, ROLE_EDITOR, &row, err);

    if (r == 0)
        r = workspace_commit_in(a->w, tx, a->who, &row, a->spec, &a->commit,
                                err);
    return r == 0 && !a->commit.id[0] ? 1 : r;
}

static int commit_once(struct workspaces *w, const struct actor *who,
                       const char *id,
                       const struct workspace_commit_spec *spec,
                       struct workspace_commit *ret, struct error *err)
{
    struct commit_call a = {.w = w, .who = who, .id = id, .spec = spec};
    int r =
        store_write(w->store, "committing files", commit_in_group, &a, err);

    if (r < 0) {
        workspace_commit_done(&a.commit);
        return r;
    }
    *ret = a.commit;
    if (ret->id[0])
        workspaces_committed(w);
    return 0;
}

int workspace_commit(struct workspaces *w, const struct actor *who,
                     const char *id, const struct workspace_commit_spec *spec,
                     struct workspace_commit *ret, struct error *err)
{
    struct commit_policy_result policy cleanup(commit_policy_result_done) = {
        0};
    struct workspace_commit_spec own = *spec;
    int r = workspace_govern_commit(w, who, id, spec, err);

    own.policy = &policy;
    if (r == 0)
        r = commit_once(w, who, id, &own, ret, err);
    if (r == -ERR_APPROVAL && policy.path) {
        r = workspace_govern_copied(w, who, id, spec->kind, &policy, err);
        if (r == 0)
            r = commit_once(w, who, id, &own, ret, err);
    }
    return r;
}

/* ---- commit ids and numbers ------------------------------------------------
 */

bool workspaces_writable(struct workspaces *w)
{
    return store_writable(w->store) && blobs_writable(w->blobs);
}

int workspaces_reachable(struct workspaces *w, struct error *err)
{
    return store_ready(w->store, err);
}

int workspace_commit_id(struct workspaces *w, const char *id, int64_t seq,
                        char ret[ID_MAX], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r =
        store_begin(w->store, STORE_READ, "looking for a commit", &tx, err);

    ret[0] = '\0';
    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT id FROM commits WHERE workspace = ?1"
                      " AND seq = ?2",
                      "ti", id, seq);
    if (r == 1)
        store_copy(row, 0, ret, ID_MAX);
    return r < 0 ? r : 0;
}

int workspace_commit_number(struct workspaces *w, const struct actor *who,
                            const char *id, const char *commit, int64_t *ret,
                            struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_info info;
    int r = workspace_get(w, who, id, &info, err); /* may it be seen? */

    if (r == 0)
        r = store_begin(w->store, STORE_READ, "looking for a commit", &tx,
                        err);
    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT seq FROM commits WHERE id = ?1 AND"
                      " workspace = ?2",
                      "tt", commit, id);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such commit");
    *ret = store_int(rows, 0);
    return 0;
}
