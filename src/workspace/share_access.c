/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a share link, without a key. Runs in the daemon on workers. The
 * secret opens the link; each call reads the link again, so that revoking,
 * expiry and the download limit take effect at once. Access to the files
 * behind the link is in share_files.c, the limit of password attempts in
 * password_attempts.c. (The column `failures` counted wrong passwords in
 * version 0.1 and is unused now.)
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
