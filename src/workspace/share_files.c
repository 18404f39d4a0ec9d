/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files behind a share link (share_access.c): listing, downloading and
 * uploading. Runs in the daemon on workers. A link gives access to its path
 * and the files below it, and nothing else (F1): paths are checked, appended
 * to the link's path and looked up in the store; no file system is walked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/shares_int.h"

#define VISITORS "native" /* the door they come by */

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

/* Policy's say, of the file by its whole path; on a snapshot of its own, since
 * asking somebody is a transaction too. */
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

    if (govern_idle(&w->settings.govern))
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
    int r = govern_get(w, s, path, source, err);

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

static int put(struct workspaces *w, struct store_tx *tx,
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

    if (l->share.mode != SHARE_WRITE) {
        (void)error_set(err, ERR_FORBIDDEN, "this link is for reading only");
        workspace_refused(w, &who, "share.put", row->id, NULL, err);
        return -ERR_FORBIDDEN;
    }
    r = locate(&l->share, path, &full, err);
    if (r < 0)
        return r;
    change->path = full;
    return workspace_commit_in(w, tx, &who, row, &spec, ret, err);
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

    if (govern_idle(&w->settings.govern) || s->mode != SHARE_WRITE)
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
    return govern_enforce(&w->settings.govern, &rq, err);
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
        r = put(w, tx, &l, &row, &change, path, source, &commit, err);
    if (r == 0 && commit.id[0])
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
