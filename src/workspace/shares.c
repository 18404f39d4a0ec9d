/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Share links: the holder of a link may read (or also write) a file, a folder
 * or the whole workspace without a key, until the link expires, is used up or
 * revoked. This file creates, lists and revokes links, in the daemon on
 * workers; share_access.c serves their visitors. Only hashes of the secret and
 * of the password are stored.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/path.h"
#include "workspace/shares_int.h"

#define SHARES_MAX 1000 /* of one workspace that still lead somewhere */

void workspace_share_done(struct workspace_share *s)
{
    free(s->path);
    s->path = NULL;
}

void workspace_shares_free(struct workspace_share *shares, size_t count)
{
    for (size_t i = 0; i < count; i++)
        workspace_share_done(&shares[i]);
    free(shares);
}

bool share_is_folder(const struct workspace_share *s)
{
    size_t len = strlen(s->path);

    return len == 0 || s->path[len - 1] == '/';
}

void share_read(struct store_rows *rows, struct workspace_share *ret)
{
    const char *password = store_text(rows, 5);

    *ret = (struct workspace_share){0};
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    store_copy(rows, 1, ret->workspace, sizeof(ret->workspace));
    ret->path = xstrdup(store_text(rows, 2));
    store_copy(rows, 3, ret->version, sizeof(ret->version));
    switch (store_int(rows, 4)) {
    case SHARE_WRITE:
        ret->mode = SHARE_WRITE;
        break;
    case SHARE_UPLOAD:
        ret->mode = SHARE_UPLOAD;
        break;
    default:
        ret->mode = SHARE_READ;
    }
    ret->has_password = password && password[0];
    ret->downloads = store_int(rows, 6);
    ret->max_downloads = store_int(rows, 7);
    store_copy(rows, 8, ret->created_by, sizeof(ret->created_by));
    ret->created_at_ms = store_int(rows, 9);
    ret->expires_at_ms = store_int(rows, 10);
    ret->revoked_at_ms = store_int(rows, 11);
}

/* ---- making ------------------------------------------------------------- */

static int check_upload(const struct workspace_share_spec *spec,
                        struct error *err)
{
    const char *path = spec->path ? spec->path : "";

    if (!path[0] || path[strlen(path) - 1] == '/')
        return error_set(err, ERR_INVALID,
                         "a link to upload needs the path of a file, not of a "
                         "folder");
    if (spec->expires_in_s < 1 || spec->expires_in_s > SHARE_SHORT_MAX_S)
        return error_set(err, ERR_INVALID,
                         "a link to upload works for 1 to %u seconds",
                         SHARE_SHORT_MAX_S);
    if (spec->max_downloads)
        return error_set(err, ERR_INVALID,
                         "a link to upload has no downloads: it works once");
    return 0;
}

static int check_spec(const struct workspace_share_spec *spec,
                      struct error *err)
{
    int r;
    size_t len = strnlen(spec->path ? spec->path : "", PATH_BYTES_MAX + 2);
    size_t password =
        spec->password ? strnlen(spec->password, SHARE_PASSWORD_MAX + 1) : 1;
    const char *fault;

    if (len && spec->path[len - 1] == '/')
        len--;
    fault = len || (spec->path && spec->path[0]) ? path_fault(spec->path, len)
                                                 : NULL;
    if (fault)
        return error_set(err, ERR_INVALID, "the path %s", fault);
    if (spec->mode != SHARE_READ && spec->mode != SHARE_WRITE &&
        spec->mode != SHARE_UPLOAD)
        return error_set(err, ERR_INVALID,
                         "a link is to read, to write or to upload");
    if (spec->mode == SHARE_UPLOAD) {
        r = check_upload(spec, err);
        if (r < 0)
            return r;
    }
    if (spec->mode != SHARE_READ && spec->version)
        return error_set(err, ERR_INVALID,
                         "a version does not change: a link to one can only "
                         "be to read");
    if (password < 1 || password > SHARE_PASSWORD_MAX)
        return error_set(err, ERR_INVALID, "a password has 1 to %u bytes",
                         SHARE_PASSWORD_MAX);
    if (spec->max_downloads < 0)
        return error_set(err, ERR_INVALID,
                         "the number of downloads cannot be negative");
    return 0;
}

/* Does the version belong to the file, with bytes to be had? */
static int check_version(struct store_tx *tx, const struct workspace_share *s,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT 1 FROM versions AS v"
                      " JOIN files AS f ON f.id = v.file"
                      " WHERE v.id = ?1 AND v.workspace = ?2"
                      " AND (v.path = ?3 OR f.path = ?3)"
                      " AND v.sha256 <> '' AND v.purged = 0",
                      "ttt", s->version, s->workspace, s->path);

    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "the file has no such version");
    return MIN(r, 0);
}

/* A path without "/" at its end is a file, or else a folder with files. */
static int resolve(struct store_tx *tx, struct workspace_share *s,
                   struct error *err)
{
    struct workspace_file *files = NULL, file = {0};
    char *folder;
    struct page_result got = {0};
    int r;

    if (s->version[0])
        return share_is_folder(s)
                   ? error_set(err, ERR_INVALID,
                               "a version is one of a file, not of a folder")
                   : check_version(tx, s, err);
    if (share_is_folder(s) || s->mode == SHARE_UPLOAD)
        return 0;
    r = workspace_file_at(tx, s->workspace, s->path, &file, err);
    workspace_file_done(&file);
    if (r != -ERR_NOT_FOUND)
        return r;
    folder = xasprintf("%s/", s->path);
    r = workspace_files_list_in(
        tx, s->workspace,
        &(struct workspace_files_spec){.prefix = folder, .limit = 1}, &files,
        &got, err);
    if (r == 0) {
        workspace_files_free(files, got.count);
        free(s->path);
        s->path = folder;
        return got.count
                   ? 0
                   : error_set(err, ERR_NOT_FOUND, "no such file or folder");
    }
    free(folder);
    return r;
}

static int check_count(struct store_tx *tx, const char *workspace,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT count(*) FROM shares WHERE workspace = ?1"
                      " AND revoked_at_ms = 0"
                      " AND (expires_at_ms = 0 OR expires_at_ms > ?2)",
                      "ti", workspace, clock_real_ms());

    if (r < 0 || store_int(rows, 0) < SHARES_MAX)
        return MIN(r, 0);
    (void)error_set(err, ERR_LIMIT,
                    "the workspace has %d links, the most it may", SHARES_MAX);
    return error_hint(err, "revoke some that are no longer needed");
}

static int insert_share(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who,
                        const struct workspace_share *s,
                        const unsigned char secret_hash[HASH_SIZE],
                        const char *password, struct error *err)
{
    struct audit_event event = {
        .action = "share.create",
        .workspace = s->workspace,
        .object = s->id,
        .path = s->path,
        .after = s->version[0] ? s->version : NULL,
        .detail = s->mode == SHARE_UPLOAD  ? "to upload once"
                  : s->mode == SHARE_WRITE ? "to write"
                                           : "to read",
    };
    int r = store_exec(
        tx, err,
        "INSERT INTO shares (id, secret_hash, workspace, path, version, mode,"
        " password, max_downloads, created_at_ms, created_by, expires_at_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        "tbtttitiiti", s->id, secret_hash, (size_t)HASH_SIZE, s->workspace,
        s->path, s->version, (int64_t)s->mode, password ? password : "",
        s->max_downloads, s->created_at_ms, s->created_by, s->expires_at_ms);

    return r < 0 ? r : audit_add(w->audit, tx, who, &event, err);
}

static void fill(const struct actor *who, const char *id,
                 const struct workspace_share_spec *spec,
                 struct workspace_share *ret)
{
    ids_make("share", ret->id);
    (void)snprintf(ret->workspace, sizeof(ret->workspace), "%s", id);
    ret->path = xstrdup(spec->path ? spec->path : "");
    (void)snprintf(ret->version, sizeof(ret->version), "%s",
                   spec->version ? spec->version : "");
    ret->mode = spec->mode;
    ret->has_password = spec->password != NULL;
    ret->max_downloads = spec->mode == SHARE_UPLOAD ? 1 : spec->max_downloads;
    (void)snprintf(ret->created_by, sizeof(ret->created_by), "%s", who->key);
    ret->created_at_ms = clock_real_ms();
    if (spec->expires_in_s)
        ret->expires_at_ms =
            ret->created_at_ms + 1000 * (int64_t)spec->expires_in_s;
    /* A token leaves nothing open behind it. */
    if (who->expires_at_ms &&
        (!ret->expires_at_ms || ret->expires_at_ms > who->expires_at_ms))
        ret->expires_at_ms = who->expires_at_ms;
}

int workspace_share(struct workspaces *w, const struct actor *who,
                    const char *id, const struct workspace_share_spec *spec,
                    struct workspace_share *ret, char ret_secret[65],
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_share s cleanup(workspace_share_done) = {0};
    char *password cleanup(mem_free) = NULL;
    unsigned char hash[HASH_SIZE];
    char secret[65];
    int r = check_spec(spec, err);

    if (r == 0)
        r = workspace_govern_share(w, who, id, spec, err);
    if (r < 0)
        return r;
    if (spec->password) /* slow: before the transaction */
        password = share_password_hash(spec->password);
    workspace_token_make(secret, hash);
    r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_WRITE, "making a link",
                        &tx, NULL, err);
    fill(who, id, spec, &s);
    if (r == 0)
        r = check_count(tx, id, err);
    if (r == 0)
        r = resolve(tx, &s, err);
    if (r == 0)
        r = insert_share(w, tx, who, &s, hash, password, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    memcpy(ret_secret, secret, sizeof(secret));
    explicit_bzero(secret, sizeof(secret));
    *ret = s;
    s = (struct workspace_share){0};
    return 0;
}

/* ---- listing, revoking -------------------------------------------------- */

int workspace_shares(struct workspaces *w, const struct actor *who,
                     const char *id, struct workspace_share **ret,
                     size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_share *shares = NULL;
    size_t count = 0, room = 0;
    int r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_READ,
                            "listing links", &tx, NULL, err);

    /* Newest first, also those that are expired or revoked. */
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT " SHARE_COLUMNS " FROM shares AS s"
                        " WHERE s.workspace = ?1"
                        " ORDER BY s.created_at_ms DESC, s.id LIMIT ?2",
                        "ti", id, (int64_t)(2 * SHARES_MAX));
    while (r == 0 && (r = store_next(rows, err)) > 0) {
        if (count == room) {
            room = room ? 2 * room : 16;
            shares = xrealloc(shares, room * sizeof(*shares));
        }
        share_read(rows, &shares[count++]);
        r = 0;
    }
    if (r < 0) {
        workspace_shares_free(shares, count);
        return r;
    }
    *ret = shares;
    *ret_count = count;
    return 0;
}

/* Foreign and unknown ones alike, after the same work (I3). */
static int find_own(struct workspaces *w, struct store_tx *tx,
                    const struct actor *who, const char *id,
                    struct workspace_share *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " SHARE_COLUMNS " FROM shares AS s"
                      " WHERE s.id = ?1",
                      "t", id);
    bool there = r > 0;

    if (r < 0)
        return r;
    if (there)
        share_read(rows, ret);
    r = workspace_access(tx, w, who, ret->workspace, ROLE_EDITOR, NULL, err);
    if (r == -ERR_NOT_FOUND || (r == 0 && !there))
        return error_set(err, ERR_NOT_FOUND, "no such link");
    return r;
}

int workspace_share_revoke(struct workspaces *w, const struct actor *who,
                           const char *share, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_share s cleanup(workspace_share_done) = {0};
    struct audit_event event = {.action = "share.revoke"};
    int r = store_begin(w->store, STORE_WRITE, "revoking a link", &tx, err);

    if (r == 0)
        r = find_own(w, tx, who, share, &s, err);
    if (r < 0 || s.revoked_at_ms)
        return r; /* once is enough */
    r = store_exec(tx, err,
                   "UPDATE shares SET revoked_at_ms = ?2 WHERE id = ?1", "ti",
                   s.id, clock_real_ms());
    event.workspace = s.workspace;
    event.object = s.id;
    event.path = s.path;
    if (r >= 0)
        r = audit_add(w->audit, tx, who, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}
