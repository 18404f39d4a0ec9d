/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the library that come in parts: each part a blob with an id, put
 * in order only at the end (library_join.c). Runs in the daemon on workers.
 *
 * Two rows stand for one: that of uploads.c, which the parts hang off and
 * which goes with them, and one of the library's own, which says what the
 * file is to be and outlives the former by a day, so that one can still ask
 * what became of it. Nobody is told the id of the first.
 *
 *   pending -> completed [library_upload_complete]
 *   pending -> cancelled [library_upload_cancel]
 *   pending -> expired   by time, or because its parts are gone; written down
 *                        by library_sweep
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/path.h"
#include "workspace/library_int.h"
#include "workspace/uploads_int.h"

/* Parts that were sent twice wait for the end as well, so there may be more
 * than was declared: twice as much, and one part of the usual size. */
#define SPARE_BYTES (64ull << 20)

#define NUMBER_DIGITS 8u /* of a part's id; 24 more prove it */

_Static_assert(LIBRARY_PARTS_MAX <= UPLOAD_PARTS_MAX, "the same rows");

void library_upload_done(struct library_upload *u)
{
    free(u->filename);
    u->filename = NULL;
}

void library_parts_done(struct library_parts *p)
{
    library_upload_done(&p->u);
}

/* ---- parts' ids --------------------------------------------------------- */

/* Its number, and what only the upload it belongs to can give for it. */
static void part_id(const char *upload, uint32_t number, char ret[ID_MAX])
{
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX], text[ID_MAX + 16];
    int len = snprintf(text, sizeof(text), "%s:%" PRIu32, upload, number);

    hash_sha256(text, (size_t)len, hash);
    (void)ids_hex(hash, sizeof(hash), hex);
    (void)snprintf(ret, ID_MAX, "part_%08" PRIx32 "%.24s", number, hex);
}

uint32_t library_part_number(const char *upload, const char *part)
{
    char digits[NUMBER_DIGITS + 1], want[ID_MAX];
    uint32_t number;

    if (!part || !ids_valid("part", part))
        return 0;
    (void)snprintf(digits, sizeof(digits), "%s", part + strlen("part_"));
    number = (uint32_t)strtoul(digits, NULL, 16);
    part_id(upload, number, want);
    return number <= LIBRARY_PARTS_MAX && strcmp(want, part) == 0 ? number : 0;
}

/* ---- finding ------------------------------------------------------------ */

static int no_such(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no such upload");
}

/* From l.id on; a NULL at the end: its parts are gone. */
static void read_parts(struct store_rows *rows, struct library_parts *ret)
{
    struct library_upload *u = &ret->u;

    store_copy(rows, 0, u->id, sizeof(u->id));
    store_copy(rows, 1, ret->upload, sizeof(ret->upload));
    u->filename = xstrdup(store_text(rows, 2));
    store_copy(rows, 3, u->purpose, sizeof(u->purpose));
    store_copy(rows, 4, ret->mime, sizeof(ret->mime));
    u->size = (uint64_t)store_int(rows, 5);
    ret->expires_s = (uint32_t)store_int(rows, 6);
    u->status = (enum library_upload_status)store_int(rows, 7);
    store_copy(rows, 8, u->file, sizeof(u->file));
    u->created_at_ms = store_int(rows, 9);
    u->expires_at_ms = store_int(rows, 10);
    ret->open = u->status == LIBRARY_PENDING && store_text(rows, 11) != NULL;
    if (u->status == LIBRARY_PENDING &&
        (!ret->open || u->expires_at_ms <= clock_real_ms()))
        u->status = LIBRARY_EXPIRED;
}

int library_parts_find(struct workspaces *w, struct store_tx *tx,
                       const struct actor *who, const char *id,
                       struct library_parts *ret,
                       struct workspace_row *ret_row, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int there = store_one(
        tx, &rows, err,
        "SELECT l.id, l.upload, l.filename, l.purpose, l.mime, l.size,"
        " l.file_expires_s, l.status, l.file, l.created_at_ms,"
        " l.expires_at_ms, u.id FROM library_uploads AS l"
        " LEFT JOIN uploads AS u ON u.id = l.upload"
        " WHERE l.id = ?1 AND l.tenant = ?2",
        "tt", id, who->tenant);
    int r;

    if (there < 0)
        return there;
    /* Asked even of none, so that unknown ids and those one may not see are
     * the same work (I3). */
    r = library_home_find(w, tx, who, ret_row, err);
    if (r < 0 && r != -ERR_NOT_FOUND && r != -ERR_FORBIDDEN)
        return r;
    if (there == 0 || r == -ERR_NOT_FOUND)
        return no_such(err);
    if (r < 0)
        return r;
    memset(ret, 0, sizeof(*ret));
    read_parts(rows, ret);
    return 0;
}

int library_parts_not_pending(const struct library_parts *p, struct error *err)
{
    static const char *const what[] = {
        [LIBRARY_PENDING] = "pending",
        [LIBRARY_COMPLETED] = "completed",
        [LIBRARY_CANCELLED] = "cancelled",
        [LIBRARY_EXPIRED] = "expired",
    };

    return error_set(err, ERR_CONFLICT,
                     "the upload is %s and takes nothing more",
                     what[p->u.status]);
}

static int find_pending(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who, const char *id,
                        struct library_parts *ret,
                        struct workspace_row *ret_row, struct error *err)
{
    int r = library_parts_find(w, tx, who, id, ret, ret_row, err);

    if (r == 0 && ret->u.status != LIBRARY_PENDING)
        r = library_parts_not_pending(ret, err);
    return r;
}

int library_upload_get(struct workspaces *w, const struct actor *who,
                       const char *upload, struct library_upload *ret,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_parts p;
    struct workspace_row row;
    int r = store_begin(w->store, STORE_READ, "reading an upload", &tx, err);

    if (r == 0)
        r = library_parts_find(w, tx, who, upload, &p, &row, err);
    if (r == 0)
        *ret = p.u;
    return r;
}

/* ---- beginning ---------------------------------------------------------- */

static void describe(const struct library_spec *spec,
                     struct library_parts *ret)
{
    struct library_upload *u = &ret->u;
    size_t len = spec->mime ? strnlen(spec->mime, sizeof(ret->mime)) : 0;

    ids_make("upload", u->id);
    ids_make("up", ret->upload);
    u->filename = library_name(spec->filename);
    (void)snprintf(u->purpose, sizeof(u->purpose), "%s", spec->purpose);
    if (len && len < sizeof(ret->mime) && path_plain(spec->mime, len))
        memcpy(ret->mime, spec->mime, len);
    u->size = spec->size;
    ret->expires_s = spec->expires_s;
    u->created_at_ms = clock_real_ms();
    u->expires_at_ms = u->created_at_ms + 1000 * (int64_t)LIBRARY_UPLOAD_S;
}

static int insert(struct store_tx *tx, const struct actor *who,
                  const struct workspace_row *row,
                  const struct library_parts *p, struct error *err)
{
    const struct library_upload *u = &p->u;
    struct workspace_upload under = {.path = u->filename,
                                     .size = (int64_t)u->size,
                                     .created_at_ms = u->created_at_ms,
                                     .expires_at_ms = u->expires_at_ms};
    int r;

    memcpy(under.id, p->upload, sizeof(under.id));
    memcpy(under.workspace, row->id, sizeof(under.workspace));
    r = upload_insert(tx, who, &under, err);
    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO library_uploads (id, tenant, upload,"
                       " filename, purpose, mime, size, file_expires_s,"
                       " status, created_by, created_at_ms, expires_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
                       " ?11, ?12)",
                       "ttttttiiitii", u->id, row->tenant, p->upload,
                       u->filename, u->purpose, p->mime, (int64_t)u->size,
                       (int64_t)p->expires_s, (int64_t)LIBRARY_PENDING,
                       who->key, u->created_at_ms, u->expires_at_ms);
    return MIN(r, 0);
}

static int record(struct workspaces *w, struct store_tx *tx,
                  const struct actor *who, const struct workspace_row *row,
                  const struct library_parts *p, const char *action,
                  const char *detail, struct error *err)
{
    const struct audit_event event = {.action = action,
                                      .workspace = row->id,
                                      .object = p->u.id,
                                      .path = p->u.filename,
                                      .detail = detail};

    return audit_add(w->audit, tx, who, &event, err);
}

int library_upload_begin(struct workspaces *w, const struct actor *who,
                         const struct library_spec *spec,
                         struct library_upload *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_parts p cleanup(library_parts_done) = {0};
    struct workspace_row row;
    int r = library_purpose_check(spec->purpose, err);

    if (r == 0)
        r = upload_size_check(w, spec->size, err);
    if (r == 0)
        r = store_begin(w->store, STORE_WRITE, "beginning an upload", &tx,
                        err);
    if (r == 0)
        r = library_home_make(w, tx, who, &row, err);
    if (r == 0)
        r = upload_count_check(tx, row.id, err);
    if (r == 0)
        r = workspace_quota_take(w, tx, &row, 0, spec->size, err);
    if (r < 0)
        return r;
    describe(spec, &p);
    r = insert(tx, who, &row, &p, err);
    if (r == 0)
        r = record(w, tx, who, &row, &p, "upload.begin", NULL, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    *ret = p.u;
    p.u.filename = NULL;
    return 0;
}

/* ---- parts -------------------------------------------------------------- */

static int next_number(struct store_tx *tx, const char *upload, uint32_t *ret,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT coalesce(max(number), 0) FROM upload_parts"
                      " WHERE upload = ?1",
                      "t", upload);

    if (r < 0)
        return r;
    if (store_int(rows, 0) >= LIBRARY_PARTS_MAX)
        return error_set(err, ERR_INVALID,
                         "an upload may have at most %u parts",
                         LIBRARY_PARTS_MAX);
    *ret = (uint32_t)store_int(rows, 0) + 1;
    return 0;
}

static int check_room(struct workspaces *w, struct store_tx *tx,
                      const struct workspace_row *row,
                      const struct library_parts *p, uint64_t size,
                      struct error *err)
{
    struct workspace_upload under = {0};
    uint64_t own, all, most = 2 * p->u.size + SPARE_BYTES;
    int r;

    memcpy(under.id, p->upload, sizeof(under.id));
    memcpy(under.workspace, row->id, sizeof(under.workspace));
    r = upload_add_up(tx, &under, 0, &own, &all, err);
    if (r < 0)
        return r;
    if (size > most || own > most - size)
        return error_set(err, ERR_INVALID,
                         "the parts would have %" PRIu64
                         " bytes, where %" PRIu64 " were declared",
                         own + size, p->u.size);
    /* Parts are not in the library yet, but they are on our disk. */
    return workspace_quota_take(w, tx, row, all, size, err);
}

int library_upload_part(struct workspaces *w, const struct actor *who,
                        const char *upload, const char *sha256, uint64_t size,
                        char ret_part[ID_MAX], int64_t *ret_created_ms,
                        struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_parts p cleanup(library_parts_done) = {0};
    struct workspace_row row;
    char part[ID_MAX] = "";
    uint32_t number = 0;
    int r = store_begin(w->store, STORE_WRITE, "storing a part", &tx, err);

    if (r == 0)
        r = find_pending(w, tx, who, upload, &p, &row, err);
    if (r == 0)
        r = next_number(tx, p.upload, &number, err);
    if (r == 0)
        r = check_room(w, tx, &row, &p, size, err);
    if (r == 0)
        r = upload_part_insert(tx, p.upload, number, sha256, size, err);
    part_id(p.upload, number, part);
    if (r == 0)
        r = record(w, tx, who, &row, &p, "upload.part", part, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    memcpy(ret_part, part, ID_MAX);
    *ret_created_ms = clock_real_ms();
    return 0;
}

/* ---- the end ------------------------------------------------------------ */

int library_parts_end(struct store_tx *tx, const struct library_parts *p,
                      enum library_upload_status status, const char *file,
                      struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE library_uploads SET status = ?2, file = ?3"
                       " WHERE id = ?1 AND status = ?4",
                       "titi", p->u.id, (int64_t)status, file ? file : "",
                       (int64_t)LIBRARY_PENDING);

    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_CONFLICT, "the upload has ended meanwhile");
    return upload_remove(tx, p->upload, err);
}

int library_upload_cancel(struct workspaces *w, const struct actor *who,
                          const char *upload, struct library_upload *ret,
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_parts p cleanup(library_parts_done) = {0};
    struct workspace_row row;
    bool again;
    int r =
        store_begin(w->store, STORE_WRITE, "cancelling an upload", &tx, err);

    if (r == 0)
        r = library_parts_find(w, tx, who, upload, &p, &row, err);
    if (r < 0)
        return r;
    again = p.u.status == LIBRARY_CANCELLED;
    if (!again && p.u.status != LIBRARY_PENDING)
        return library_parts_not_pending(&p, err);
    if (!again) {
        r = library_parts_end(tx, &p, LIBRARY_CANCELLED, NULL, err);
        if (r == 0)
            r = record(w, tx, who, &row, &p, "upload.abort", NULL, err);
        if (r == 0)
            r = store_commit(&tx, err);
    }
    if (r < 0)
        return r;
    *ret = p.u;
    ret->status = LIBRARY_CANCELLED;
    p.u.filename = NULL;
    return 0;
}
