/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipart uploads to the library, on top of uploads.c. Runs in the daemon on
 * workers. Each part is a blob with an id; completing gives the order of the
 * parts. The bytes are joined outside of any transaction; the file, its row
 * and the end of the upload are one transaction, and until then the upload is
 * pending, whatever fails.
 *
 * An upload has two rows. The row of uploads.c owns the parts and is removed
 * with them; clients never see its id. The row of library_uploads describes
 * the file and is kept for a day after the end, so that clients can ask for
 * the result.
 *
 *   pending -> completed [library_upload_complete]
 *   pending -> cancelled [library_upload_cancel]
 *   pending -> expired   by time, or because its parts are gone; recorded by
 *                        library_sweep
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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

/* Parts are kept for at least that long while they are joined, even if the
 * upload expires meanwhile. */
#define JOIN_MS (3600 * 1000ll)

#define MD5_DIGITS (2 * UPLOAD_MD5)
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

static uint32_t part_number(const char *upload, const char *part)
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
    store_copy(rows, 1, ret->under.id, sizeof(ret->under.id));
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

static int find_upload(struct workspaces *w, struct store_tx *tx,
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
    memcpy(ret->under.workspace, ret_row->id, sizeof(ret->under.workspace));
    ret->under.path = ret->u.filename;
    ret->under.size = (int64_t)ret->u.size;
    return 0;
}

static int not_pending(const struct library_parts *p, struct error *err)
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
    int r = find_upload(w, tx, who, id, ret, ret_row, err);

    if (r == 0 && ret->u.status != LIBRARY_PENDING)
        r = not_pending(ret, err);
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
        r = find_upload(w, tx, who, upload, &p, &row, err);
    if (r == 0)
        *ret = p.u;
    return r;
}

/* ---- beginning ---------------------------------------------------------- */

static void describe_upload(const struct library_spec *spec,
                            struct library_parts *ret)
{
    struct library_upload *u = &ret->u;
    size_t len = spec->mime ? strnlen(spec->mime, sizeof(ret->mime)) : 0;

    ids_make("upload", u->id);
    u->filename = library_name(spec->filename);
    (void)snprintf(u->purpose, sizeof(u->purpose), "%s", spec->purpose);
    if (len && len < sizeof(ret->mime) && path_plain(spec->mime, len))
        memcpy(ret->mime, spec->mime, len);
    u->size = spec->size;
    ret->expires_s = spec->expires_s;
    ret->under.path = u->filename;
    ret->under.size = (int64_t)u->size;
}

static int insert_upload(struct store_tx *tx, const struct actor *who,
                         const struct workspace_row *row,
                         const struct library_parts *p, struct error *err)
{
    const struct library_upload *u = &p->u;
    int r = store_exec(tx, err,
                       "INSERT INTO library_uploads (id, tenant, upload,"
                       " filename, purpose, mime, size, file_expires_s,"
                       " status, created_by, created_at_ms, expires_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
                       " ?11, ?12)",
                       "ttttttiiitii", u->id, row->tenant, p->under.id,
                       u->filename, u->purpose, p->mime, (int64_t)u->size,
                       (int64_t)p->expires_s, (int64_t)LIBRARY_PENDING,
                       who->key, u->created_at_ms, u->expires_at_ms);

    return MIN(r, 0);
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
    if (r < 0)
        return r;
    describe_upload(spec, &p);
    r = upload_start(w, tx, who, &row, p.u.id,
                     1000 * (int64_t)LIBRARY_UPLOAD_S, &p.under, err);
    p.u.created_at_ms = p.under.created_at_ms;
    p.u.expires_at_ms = p.under.expires_at_ms;
    if (r == 0)
        r = insert_upload(tx, who, &row, &p, err);
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

int library_upload_part(struct workspaces *w, const struct actor *who,
                        const char *upload, const char *sha256, uint64_t size,
                        char ret_part[ID_MAX], int64_t *ret_created_ms,
                        struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_parts p cleanup(library_parts_done) = {0};
    struct workspace_row row;
    struct upload_part part = {.sha256 = sha256, .size = size};
    char id[ID_MAX] = "";
    int r = store_begin(w->store, STORE_WRITE, "storing a part", &tx, err);

    if (r == 0)
        r = find_pending(w, tx, who, upload, &p, &row, err);
    if (r == 0)
        r = next_number(tx, p.under.id, &part.number, err);
    if (r == 0)
        r = upload_put_part(w, tx, &row, &p.under, &part,
                            p.u.size + SPARE_BYTES, err);
    part_id(p.under.id, part.number, id);
    if (r == 0)
        r = upload_audit(w, tx, who, &p.under, p.u.id, "upload.part", id, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    memcpy(ret_part, id, ID_MAX);
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
    return upload_remove(tx, p->under.id, err);
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
        r = find_upload(w, tx, who, upload, &p, &row, err);
    if (r < 0)
        return r;
    again = p.u.status == LIBRARY_CANCELLED;
    if (!again && p.u.status != LIBRARY_PENDING)
        return not_pending(&p, err);
    if (!again) {
        r = library_parts_end(tx, &p, LIBRARY_CANCELLED, NULL, err);
        if (r == 0)
            r = upload_audit(w, tx, who, &p.under, p.u.id, "upload.abort",
                             NULL, err);
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

/* ---- completing --------------------------------------------------------- */

static int check_md5(const char *md5, struct error *err)
{
    if (!md5 || (strnlen(md5, MD5_DIGITS + 1) == MD5_DIGITS &&
                 strspn(md5, "0123456789abcdefABCDEF") == MD5_DIGITS))
        return 0;
    return error_set(err, ERR_INVALID, "an MD5 is %u hex digits", MD5_DIGITS);
}

/* ret_all: every part there is, for workspace_upload_done. */
static int load_pending(struct workspaces *w, const struct actor *who,
                        const char *upload, struct library_parts *ret,
                        struct workspace_upload *ret_all, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_WRITE, "completing an upload", &tx, err);

    if (r == 0)
        r = find_pending(w, tx, who, upload, ret, &row, err);
    if (r < 0)
        return r;
    memcpy(ret_all->id, ret->under.id, sizeof(ret_all->id));
    r = upload_parts(tx, ret_all, err);
    if (r == 0)
        r = upload_extend(tx, ret->under.id, JOIN_MS, err);
    return r < 0 ? r : store_commit(&tx, err);
}

static int bad_part(const char *what, const char *part, struct error *err)
{
    char name[WORKSPACE_SHORT];

    return error_set(err, ERR_INVALID, "%s: %s", what,
                     workspace_path_short(part ? part : "", name));
}

/* Numbers count from 1 without a gap: parts are never replaced or removed. */
static int choose(const struct library_parts *p,
                  const struct workspace_upload *all, const char *const *parts,
                  size_t count, struct workspace_upload *ret,
                  struct error *err)
{
    bool *used cleanup(mem_free) = xcalloc(all->part_count + 1, sizeof(*used));

    if (count > LIBRARY_PARTS_MAX)
        return error_set(err, ERR_INVALID, "an upload has at most %u parts",
                         LIBRARY_PARTS_MAX);
    ret->size = p->under.size;
    ret->parts = xcalloc(count + 1, sizeof(*ret->parts));
    for (size_t i = 0; i < count; i++) {
        uint32_t number = part_number(p->under.id, parts[i]);

        if (number == 0 || number > all->part_count)
            return bad_part("the upload has no such part", parts[i], err);
        if (used[number])
            return bad_part("a part is named twice", parts[i], err);
        used[number] = true;
        ret->parts[ret->part_count++] = all->parts[number - 1];
    }
    return 0;
}

static int compare_md5(const struct upload_whole *whole, const char *md5,
                       struct error *err)
{
    char is[MD5_DIGITS + 1];

    if (!md5 ||
        strcasecmp(md5, ids_hex(whole->md5, sizeof(whole->md5), is)) == 0)
        return 0;
    return error_set(err, ERR_INVALID,
                     "the parts together have the MD5 %s, not the one given",
                     is);
}

static int govern(struct workspaces *w, const struct actor *who,
                  const struct library_parts *p,
                  const struct upload_whole *whole, struct error *err)
{
    const struct library_spec spec = {.purpose = p->u.purpose,
                                      .mime = p->mime[0] ? p->mime : NULL,
                                      .sha256 = whole->sha256,
                                      .size = whole->size};

    return library_govern(w, who, &spec, p->u.filename, err);
}

static int record_complete(struct workspaces *w, struct store_tx *tx,
                           const struct actor *who,
                           const struct library_parts *p,
                           const struct library_file *file, struct error *err)
{
    const struct audit_event event = {.action = "upload.complete",
                                      .workspace = file->workspace,
                                      .object = p->u.id,
                                      .path = p->u.filename,
                                      .after = file->file};

    return audit_add(w->audit, tx, who, &event, err);
}

/* An upload whose completion began in time may end late, unless another call
 * ended it. */
static int finish(struct workspaces *w, const struct actor *who,
                  const char *upload, const struct upload_whole *whole,
                  struct library_parts *ret, struct library_file *ret_file,
                  struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct library_file file cleanup(library_file_done) = {0};
    struct library_parts p cleanup(library_parts_done) = {0};
    struct library_spec spec = {.sha256 = whole->sha256, .size = whole->size};
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_WRITE, "completing an upload", &tx, err);

    if (r == 0)
        r = find_upload(w, tx, who, upload, &p, &row, err);
    if (r == 0 && !p.open)
        r = not_pending(&p, err);
    spec.purpose = p.u.purpose;
    spec.mime = p.mime[0] ? p.mime : NULL;
    spec.expires_s = p.expires_s;
    if (r == 0)
        r = library_put(w, tx, who, &row, &spec, p.u.filename, &file, err);
    if (r == 0)
        r = library_parts_end(tx, &p, LIBRARY_COMPLETED, file.file, err);
    if (r == 0)
        r = record_complete(w, tx, who, &p, &file, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    workspaces_committed(w);
    p.u.status = LIBRARY_COMPLETED;
    memcpy(p.u.file, file.file, sizeof(p.u.file));
    *ret = p;
    *ret_file = file;
    p.u.filename = file.filename = NULL;
    return 0;
}

int library_upload_complete(struct workspaces *w, const struct actor *who,
                            const char *upload, const char *const *parts,
                            size_t part_count, const char *md5,
                            struct library_upload *ret,
                            struct library_file *ret_file, struct error *err)
{
    struct library_parts p cleanup(library_parts_done) = {0};
    struct library_parts done;
    struct workspace_upload all cleanup(workspace_upload_done) = {0};
    struct workspace_upload chosen cleanup(workspace_upload_done) = {0};
    struct upload_whole whole cleanup(upload_whole_done) = {.blobs = w->blobs};
    char owner[BLOB_OWNER];
    int r = load_pending(w, who, upload, &p, &all, err);

    blob_owner(who->tenant, owner);
    if (r == 0)
        r = check_md5(md5, err);
    if (r == 0)
        r = choose(&p, &all, parts, part_count, &chosen, err);
    if (r == 0)
        r = upload_sum_check(&chosen, err);
    if (r == 0)
        r = upload_join(w, &chosen, owner, md5 != NULL, &whole, err);
    if (r == 0)
        r = compare_md5(&whole, md5, err);
    if (r == 0)
        r = govern(w, who, &p, &whole, err);
    if (r == 0)
        r = finish(w, who, upload, &whole, &done, ret_file, err);
    if (r == 0)
        *ret = done.u;
    return r;
}
