/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access through a share link, without a key. Runs in the daemon on workers.
 * The secret opens the link; each call reads the link again, so that revoking,
 * expiry and the download limit take effect at once. Password attempts are
 * limited in password.c. (The column `failures` counted wrong passwords in
 * version 0.1 and is unused now.)
 *
 * A link gives access to its path and the files below it, and to nothing else
 * (F1): paths are checked, appended to the link's path and looked up in the
 * store; no file system is walked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "workspace/shares_int.h"

void share_link_done(struct share_link *l)
{
    workspace_share_done(&l->share);
    free(l->password);
}

int share_no_such(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no such link");
}

/* Leads it anywhere? Used up is as gone as the rest. */
static bool is_live(const struct workspace_share *s)
{
    return s->revoked_at_ms == 0 &&
           (s->expires_at_ms == 0 || s->expires_at_ms > clock_real_ms()) &&
           (s->max_downloads == 0 || s->downloads < s->max_downloads);
}

static int read_link(struct store_rows *rows, struct share_link *ret,
                     struct error *err)
{
    share_read(rows, &ret->share);
    ret->password = xstrdup(store_text(rows, 5));
    return is_live(&ret->share) ? 0 : share_no_such(err);
}

static int find_secret(struct workspaces *w, const char *secret,
                       struct share_link *ret, char ret_tenant[64],
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    unsigned char hash[HASH_SIZE];
    int r;

    if (strnlen(secret, 65) != 64)
        return share_no_such(err);
    workspace_token_hash(secret, hash);
    r = store_begin(w->store, STORE_READ, "following a link", &tx, err);
    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT " SHARE_COLUMNS ", w.tenant"
                      " FROM shares AS s"
                      " JOIN workspaces AS w ON w.id = s.workspace"
                      " WHERE s.secret_hash = ?1 AND w.deleted_at_ms = 0",
                      "b", hash, sizeof(hash));
    if (r < 0)
        return r;
    if (r == 0)
        return share_no_such(err);
    store_copy(rows, SHARE_COLUMN_COUNT, ret_tenant, 64);
    return read_link(rows, ret, err);
}

static int audit_wrong(struct workspaces *w, const struct share_link *l,
                       const struct actor *who, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {.action = "share.visit",
                                .workspace = l->share.workspace,
                                .object = l->share.id,
                                .result = error_code_name(ERR_UNAUTHENTICATED),
                                .detail = "wrong password"};
    int r =
        store_begin(w->store, STORE_WRITE, "refusing a password", &tx, err);

    if (r == 0)
        r = audit_add(w->audit, tx, who, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}

static int wrong(struct error *err)
{
    return error_set(err, ERR_UNAUTHENTICATED,
                     "that is not the password of this link");
}

static int too_many(int wait_s, struct error *err)
{
    (void)error_set(err, ERR_LIMIT,
                    "too many passwords were tried; wait before the next");
    return error_retry(err, wait_s);
}

static int check_password(struct workspaces *w, const struct share_link *l,
                          const char *password, const struct actor *who,
                          struct error *err)
{
    const struct share_attempt_spec spec = {l->share.id, who->source,
                                            l->password, password};
    struct share_attempt try = {.running = NULL};
    bool right;
    int wait_s = 1, r;

    if (!l->share.has_password)
        return 0;
    if (!password)
        return error_set(err, ERR_UNAUTHENTICATED,
                         "this link needs a password");
    switch (share_attempt_begin(w->attempts, &spec, clock_mono_ms(), &try,
                                &wait_s)) {
    case SHARE_ATTEMPT_RIGHT:
        return 0;
    case SHARE_ATTEMPT_WRONG:
        return wrong(err);
    case SHARE_ATTEMPT_WAIT:
        return too_many(wait_s, err);
    case SHARE_ATTEMPT_HASH:
        break;
    }
    right = share_password_matches(l->password, password);
    share_attempt_end(w->attempts, &try, right, clock_mono_ms());
    if (right)
        return 0;
    r = audit_wrong(w, l, who, err);
    return r < 0 ? r : wrong(err);
}

int workspace_share_open(struct workspaces *w, const char *secret,
                         const char *password, const char *source,
                         struct workspace_share *ret, struct error *err)
{
    struct share_link l cleanup(share_link_done) = {0};
    char tenant[64] = "";
    struct actor who = {.tenant = tenant, .source = source};
    struct audit_event event = {.action = "share.visit"};
    int r = find_secret(w, secret, &l, tenant, err);

    if (r < 0)
        return r;
    who.key = l.share.id;
    r = check_password(w, &l, password, &who, err);
    if (r < 0)
        return r;
    event.workspace = l.share.workspace;
    event.object = l.share.id;
    event.path = l.share.path;
    audit_later(w->audit, &who, &event);
    *ret = l.share;
    l.share = (struct workspace_share){0};
    return 0;
}

int share_load(struct store_tx *tx, const char *id, struct share_link *ret,
               struct workspace_row *ret_row, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " SHARE_COLUMNS " FROM shares AS s"
                      " WHERE s.id = ?1",
                      "t", id);

    if (r == 0)
        return share_no_such(err);
    if (r > 0)
        r = read_link(rows, ret, err);
    if (r == 0)
        r = workspace_row_get(tx, ret->share.workspace, ret_row, err);
    return r == -ERR_NOT_FOUND ? share_no_such(err) : r;
}

/* ---- files behind a link ---------------------------------------------------
 */

#define VISITORS "native" /* the door they come by */

static int check_readable(const struct workspace_share *s, struct error *err)
{
    return s->mode == SHARE_UPLOAD
               ? error_set(err, ERR_FORBIDDEN,
                           "this link is for uploading only")
               : 0;
}

/* Where `path` of the link is in the workspace; owned by caller. */
static int locate(const struct workspace_share *s, const char *path,
                  char **ret, struct error *err)
{
    char *full cleanup(mem_free) = NULL;
    int r = 0;

    if (!share_is_folder(s)) {
        if (path[0])
            return error_set(err, ERR_NOT_FOUND, "no such file");
        *ret = xstrdup(s->path);
        return 0;
    }
    r = workspace_path_check(path, err);
    if (r < 0)
        return r;
    full = xasprintf("%s%s", s->path, path);
    r = workspace_path_check(full, err);
    if (r == 0)
        *ret = take_ptr(full);
    return r;
}

static int read_pinned(struct store_tx *tx, const struct workspace_share *s,
                       struct workspace_file *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " WORKSPACE_VERSION_COLUMNS
                      " FROM versions AS v JOIN commits AS c"
                      " ON c.workspace = v.workspace AND c.seq = v.seq"
                      " WHERE v.id = ?1 AND v.workspace = ?2"
                      " AND v.sha256 <> '' AND v.purged = 0",
                      "tt", s->version, s->workspace);

    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such file");
    if (r > 0)
        workspace_file_read(rows, 0, ret);
    return MIN(r, 0);
}

/* As the visitor may know it: without what is in front of the link's path. */
static void shorten(const struct workspace_share *s, struct workspace_file *f)
{
    char *full = f->path ? f->path : xstrdup("");
    const char *slash = strrchr(full, '/');
    size_t skip = s->path ? strlen(s->path) : 0;

    if (share_is_folder(s))
        f->path = xstrdup(full + MIN(skip, strlen(full)));
    else
        f->path = xstrdup(slash ? slash + 1 : full);
    free(full);
}

static int find_file(struct store_tx *tx, const struct workspace_share *s,
                     const char *path, struct workspace_file *ret,
                     struct error *err)
{
    char *full cleanup(mem_free) = NULL;
    int r = locate(s, path, &full, err);

    if (r == 0)
        r = s->version[0]
                ? read_pinned(tx, s, ret, err)
                : workspace_file_at(tx, s->workspace, full, ret, err);
    if (r == 0)
        shorten(s, ret);
    return r;
}

/* The one file of a link that is no folder. */
static int list_one(struct store_tx *tx, const struct workspace_share *s,
                    struct workspace_file **ret, struct page_result *ret_page,
                    struct error *err)
{
    struct workspace_file *files cleanup(mem_free) =
        xcalloc(1, sizeof(*files));
    int r = find_file(tx, s, "", files, err);

    if (r < 0)
        return r;
    files->path[0] = 0; /* the link itself */
    *ret = take_ptr(files);
    *ret_page = (struct page_result){.count = 1};
    return 0;
}

int workspace_share_list(struct workspaces *w, const struct workspace_share *s,
                         const struct page *page, struct workspace_file **ret,
                         struct page_result *ret_page, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct share_link l cleanup(share_link_done) = {0};
    char *full cleanup(mem_free) = NULL;
    struct workspace_row row;
    int r = store_begin(w->store, STORE_READ, "listing a link", &tx, err);

    if (r == 0)
        r = share_load(tx, s->id, &l, &row, err);
    if (r == 0)
        r = check_readable(&l.share, err);
    if (r < 0)
        return r;
    if (!share_is_folder(&l.share))
        return list_one(tx, &l.share, ret, ret_page, err);
    if (page->after && page->after[0])
        full = xasprintf("%s%s", l.share.path, page->after);
    r = workspace_files_list_in(
        tx, row.id,
        &(struct workspace_files_spec){
            .prefix = l.share.path, .limit = page->limit, .after = full},
        ret, ret_page, err);
    for (size_t i = 0; r == 0 && i < ret_page->count; i++)
        shorten(&l.share, &(*ret)[i]);
    return r;
}

/* The transaction that saw a download left takes it. */
static int count_download(struct workspaces *w, struct store_tx *tx,
                          const struct workspace_share *s, const char *tenant,
                          const char *source, const struct workspace_file *f,
                          struct error *err)
{
    struct actor who = {.tenant = tenant, .key = s->id, .source = source};
    struct audit_event event = {.action = "share.download",
                                .workspace = s->workspace,
                                .object = f->file,
                                .path = f->path,
                                .after = f->version};
    int r = store_exec(tx, err,
                       "UPDATE shares SET downloads = downloads + 1"
                       " WHERE id = ?1",
                       "t", s->id);

    return r < 0 ? r : audit_add(w->audit, tx, &who, &event, err);
}

/* Asks policy about the file by its whole path. Uses a snapshot of its own,
 * because a request for approval is a transaction too. */
static int govern_get(struct workspaces *w, const struct workspace_share *s,
                      const char *path, const char *source, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct share_link l cleanup(share_link_done) = {0};
    struct workspace_file f cleanup(workspace_file_done) = {0};
    char *full cleanup(mem_free) = NULL;
    struct workspace_row row;
    struct actor who = {.key = s->id, .door = VISITORS, .source = source};
    int r;

    if (govern_idle(&w->govern))
        return 0;
    r = store_begin(w->store, STORE_READ, "downloading by a link", &tx, err);
    if (r == 0)
        r = share_load(tx, s->id, &l, &row, err);
    if (r == 0)
        r = locate(&l.share, path, &full, err);
    if (r == 0)
        r = find_file(tx, &l.share, path, &f, err);
    store_rollback(&tx);
    if (r < 0)
        return r;
    free(f.path);
    f.path = take_ptr(full);
    who.tenant = row.tenant;
    return workspace_govern_fetch(w, &who, &f, err);
}

int workspace_share_get(struct workspaces *w, const struct workspace_share *s,
                        const char *path, const char *source,
                        struct workspace_file *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct share_link l cleanup(share_link_done) = {0};
    struct workspace_file f cleanup(workspace_file_done) = {0};
    struct workspace_row row;
    int r = check_readable(s, err);

    if (r == 0)
        r = govern_get(w, s, path, source, err);
    if (r == 0)
        r = store_begin(w->store, source ? STORE_WRITE : STORE_READ,
                        "downloading by a link", &tx, err);
    if (r == 0)
        r = share_load(tx, s->id, &l, &row, err);
    if (r == 0)
        r = find_file(tx, &l.share, path, &f, err);
    if (r == 0 && source)
        r = count_download(w, tx, &l.share, row.tenant, source, &f, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    *ret = f;
    f = (struct workspace_file){0};
    return 0;
}

/* ---- leaving something -------------------------------------------------- */

static int share_put(struct workspaces *w, struct store_tx *tx,
                     const struct share_link *l, struct workspace_row *row,
                     struct workspace_change *change, const char *path,
                     const char *source, struct workspace_commit *ret,
                     struct error *err)
{
    char *full cleanup(mem_free) = NULL;
    struct actor who = {
        .tenant = row->tenant, .key = l->share.id, .source = source};
    struct workspace_commit_spec spec = {
        .kind = "share", .action = "share.put", .changes = change, .count = 1};
    int r;

    if (l->share.mode == SHARE_READ) {
        (void)error_set(err, ERR_FORBIDDEN, "this link is for reading only");
        workspace_refused(w, &who, "share.put", row->id, NULL, err);
        return -ERR_FORBIDDEN;
    }
    r = locate(&l->share, path, &full, err);
    if (r < 0)
        return r;
    change->path = full;
    r = workspace_commit_in(w, tx, &who, row, &spec, ret, err);
    if (r == 0 && l->share.mode == SHARE_UPLOAD) /* it worked once: used up */
        r = store_exec(tx, err,
                       "UPDATE shares SET downloads = downloads + 1"
                       " WHERE id = ?1",
                       "t", l->share.id);
    return MIN(r, 0);
}

static int govern_put(struct workspaces *w, const struct workspace_share *s,
                      const char *path, const struct workspace_change *change,
                      const char *source, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct share_link l cleanup(share_link_done) = {0};
    char *full cleanup(mem_free) = NULL;
    struct workspace_row row;
    struct actor who = {.key = s->id, .door = VISITORS, .source = source};
    struct govern_request rq;
    int r;

    if (govern_idle(&w->govern) || s->mode == SHARE_READ)
        return 0; /* the rest says no to reading links */
    r = store_begin(w->store, STORE_READ, "uploading by a link", &tx, err);
    if (r == 0)
        r = share_load(tx, s->id, &l, &row, err);
    if (r == 0)
        r = locate(&l.share, path, &full, err);
    store_rollback(&tx);
    if (r < 0)
        return r;
    who.tenant = row.tenant;
    rq = govern_file_in(&(struct govern_scope){.actor = &who}, full, NULL,
                        (int64_t)change->size);
    rq.object = s->id;
    rq.summary = "put a file by a link";
    govern_add(&rq, "share", s->id);
    govern_add(&rq, "path", full);
    govern_add(&rq, "sha256", change->sha256);
    return govern_enforce(&w->govern, &rq, err);
}

int workspace_share_put(struct workspaces *w, const struct workspace_share *s,
                        const char *path, const char *sha256, uint64_t size,
                        const char *source, struct workspace_commit *ret,
                        struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct share_link l cleanup(share_link_done) = {0};
    struct workspace_change change = {
        .kind = CHANGE_PUT, .sha256 = sha256, .size = size, .as_was = true};
    struct workspace_commit commit = {0};
    struct workspace_row row;
    int r = govern_put(w, s, path, &change, source, err);

    if (r == 0)
        r = store_begin(w->store, STORE_WRITE, "uploading by a link", &tx,
                        err);
    if (r == 0)
        r = share_load(tx, s->id, &l, &row, err);
    if (r == 0)
        r = share_put(w, tx, &l, &row, &change, path, source, &commit, err);
    if (r == 0 && (commit.id[0] || l.share.mode == SHARE_UPLOAD))
        r = store_commit(&tx, err);
    if (r < 0) {
        workspace_commit_done(&commit);
        return r;
    }
    if (commit.id[0])
        workspaces_committed(w);
    *ret = commit;
    return 0;
}
