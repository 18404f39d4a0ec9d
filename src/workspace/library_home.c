/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library of a tenant is kept: an ordinary workspace, made with the
 * first file, whose `made_for` says that it is the library. Runs in the
 * daemon, inside the caller's transaction. Two callers cannot make two:
 * searching and making are one write transaction, and writers take turns. A
 * search would read all workspaces of the tenant, so the last result is
 * cached, and verified each time.
 *
 * Also the names of library files: whatever name a client sends is turned into
 * a valid path (F5); none is refused.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/siphash.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "workspace/library_int.h"

/* ---- names -----------------------------------------------------------------
 */

#define NAME_FALLBACK "file"
#define EXTENSION_MAX 32u /* with its dot; a longer one is not one */

_Static_assert(LIBRARY_NAME_MAX <= PATH_PART_MAX, "a name is a path's part");

static const char *last_part(const char *sent)
{
    const char *part = sent;

    for (const char *p = sent; *p; p++)
        if (*p == '/' || *p == '\\')
            part = p + 1;
    return part;
}

/* A low line for each byte or character that cannot stay. */
static void clean(const char *part, struct buf *out)
{
    size_t len = strlen(part);

    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(part + i, len - i);

        if (n && path_plain(part + i, n))
            buf_add(out, part + i, n);
        else
            buf_adds(out, "_");
        i += n ? n : 1;
    }
}

/* Not more than most bytes of it, by whole characters. */
static size_t whole_characters(const char *text, size_t len, size_t most)
{
    if (len <= most)
        return len;
    len = most;
    while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

/* From the middle, so that it keeps what says its type. */
static void shorten(struct buf *name)
{
    const char *dot = strrchr(name->data, '.');
    size_t tail = dot ? strlen(dot) : 0;
    size_t head;

    if (tail < 2 || tail > EXTENSION_MAX)
        tail = 0;
    head = whole_characters(name->data, name->len - tail,
                            LIBRARY_NAME_MAX - tail);
    memmove(name->data + head, name->data + name->len - tail, tail + 1);
    name->len = head + tail;
}

char *library_name(const char *sent)
{
    struct buf name cleanup(buf_done) = {0};

    buf_adds(&name, "");
    clean(last_part(sent ? sent : ""), &name);
    if (name.len > LIBRARY_NAME_MAX)
        shorten(&name);
    if (path_fault(name.data ? name.data : "", name.len))
        return xstrdup(NAME_FALLBACK); /* "", "." and ".." */
    return buf_take(&name, NULL);
}

int library_purpose_check(const char *purpose, struct error *err)
{
    size_t len = purpose ? strnlen(purpose, LIBRARY_PURPOSE_MAX + 1) : 0;

    if (len == 0 || len > LIBRARY_PURPOSE_MAX ||
        strspn(purpose, "abcdefghijklmnopqrstuvwxyz_-") != len)
        return error_set(err, ERR_INVALID,
                         "a purpose is 1 to %u of the characters a-z, _ and -",
                         LIBRARY_PURPOSE_MAX);
    return 0;
}

/* ---- the workspace ---------------------------------------------------------
 */

#define LIBRARY_TITLE "Files"
#define DAY_S 86400

/* ---- what is remembered ------------------------------------------------- */

static struct library_memo *memo_of(struct workspaces *w, const char *tenant)
{
    return &w->libraries[siphash_text(tenant) % LIBRARY_MEMOS];
}

static bool recall(struct workspaces *w, const char *tenant, char ret[ID_MAX])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);
    const struct library_memo *memo = memo_of(w, tenant);

    if (!memo->id[0] || strcmp(memo->tenant, tenant) != 0)
        return false;
    memcpy(ret, memo->id, ID_MAX);
    return true;
}

static void remember(struct workspaces *w, const char *tenant, const char *id)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);
    struct library_memo *memo = memo_of(w, tenant);

    (void)snprintf(memo->tenant, sizeof(memo->tenant), "%s", tenant);
    (void)snprintf(memo->id, sizeof(memo->id), "%s", id);
}

/* ---- finding and making ------------------------------------------------- */

/* 1, 0 or -code. */
static int still_is(struct store_tx *tx, const char *id, const char *tenant,
                    struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    return store_one(tx, &rows, err,
                     "SELECT 1 FROM workspaces WHERE id = ?1 AND tenant = ?2"
                     " AND made_for = ?3 AND deleted_at_ms = 0",
                     "ttt", id, tenant, LIBRARY_MADE_FOR);
}

/* 1, 0 or -code. There can be two of them once a deleted one was brought
 * back; files of both are found, and new ones go to the older. */
static int find_id(struct workspaces *w, struct store_tx *tx,
                   const char *tenant, char ret[ID_MAX], struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = 0;

    if (recall(w, tenant, ret))
        r = still_is(tx, ret, tenant, err);
    if (r != 0)
        return r;
    r = store_one(tx, &rows, err,
                  "SELECT id FROM workspaces WHERE tenant = ?1"
                  " AND made_for = ?2 AND deleted_at_ms = 0"
                  " ORDER BY created_at_ms, id LIMIT 1",
                  "tt", tenant, LIBRARY_MADE_FOR);
    if (r <= 0)
        return r;
    store_copy(rows, 0, ret, ID_MAX);
    remember(w, tenant, ret);
    return 1;
}

int library_home_find(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, struct workspace_row *ret,
                      struct error *err)
{
    char id[ID_MAX] = "";
    int r = find_id(w, tx, who->tenant, id, err);

    /* Asked even of none: the same work either way (I3). */
    if (r >= 0)
        r = workspace_access(tx, w, who, id, ROLE_EDITOR, ret, err);
    return r;
}

/* The actor has no role: the library's members were restricted. */
static int not_shared(struct workspaces *w, const struct actor *who,
                      const char *id, struct error *err)
{
    (void)error_set(err, ERR_FORBIDDEN,
                    "the tenant's library is not shared with this key");
    workspace_refused(w, who, "workspace.access", id, NULL, err);
    return -ERR_FORBIDDEN;
}

/* A client that deletes a file of the library means its bytes too, so old
 * versions are kept only as long as a deleted workspace. */
static int make(struct workspaces *w, struct store_tx *tx,
                const struct actor *who, char ret[ID_MAX], struct error *err)
{
    const struct workspace_spec spec = {.name = LIBRARY_TITLE,
                                        .made_for = LIBRARY_MADE_FOR};
    int64_t days = ((int64_t)w->settings.restore_window_s + DAY_S - 1) / DAY_S;
    struct workspace_info info;
    int r = workspace_create_in(w, tx, who, &spec, &info, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE workspaces SET keep_days = ?2 WHERE id = ?1",
                       "ti", info.id, MAX(days, (int64_t)1));
    if (r < 0)
        return r;
    memcpy(ret, info.id, ID_MAX);
    return 0;
}

int library_home_make(struct workspaces *w, struct store_tx *tx,
                      const struct actor *who, struct workspace_row *ret,
                      struct error *err)
{
    char id[ID_MAX];
    int r = find_id(w, tx, who->tenant, id, err);

    if (r == 0 && workspace_bounded(who)) /* as if there were one */
        return not_shared(w, who, "", err);
    if (r == 0)
        r = make(w, tx, who, id, err);
    if (r < 0)
        return r;
    r = workspace_access(tx, w, who, id, ROLE_EDITOR, ret, err);
    return r == -ERR_NOT_FOUND ? not_shared(w, who, id, err) : r;
}

/* ---- before a body is read ---------------------------------------------- */

/* 1: it is there, and open to the actor. */
static int look_for_home(struct workspaces *w, const struct actor *who,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    char id[ID_MAX];
    int r =
        store_begin(w->store, STORE_READ, "looking for the library", &tx, err);

    if (r == 0)
        r = find_id(w, tx, who->tenant, id, err);
    if (r <= 0)
        return r;
    r = workspace_access(tx, w, who, id, ROLE_EDITOR, &row, err);
    if (r == -ERR_NOT_FOUND)
        return not_shared(w, who, id, err);
    return r < 0 ? r : 1;
}

int library_blob_owner(struct workspaces *w, const struct actor *who,
                       char ret[BLOB_OWNER], struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = look_for_home(w, who, err);

    if (r == 0) {
        r = store_begin(w->store, STORE_WRITE, "making the library", &tx, err);
        if (r == 0)
            r = library_home_make(w, tx, who, &row, err);
        if (r == 0)
            r = store_commit(&tx, err);
    }
    if (r < 0)
        return r;
    blob_owner(who->tenant, ret);
    return 0;
}

/* ---- going to another tenant -------------------------------------------- */

int library_leave(struct store_tx *tx, const struct workspace_row *row,
                  struct error *err)
{
    int r;

    if (strcmp(row->made_for, LIBRARY_MADE_FOR) != 0)
        return 0;
    r = store_exec(tx, err,
                   "DELETE FROM library WHERE file IN (SELECT id FROM files"
                   " WHERE workspace = ?1)",
                   "t", row->id);
    if (r >= 0)
        r = store_exec(tx, err,
                       "UPDATE workspaces SET made_for = '' WHERE id = ?1",
                       "t", row->id);
    return MIN(r, 0);
}
