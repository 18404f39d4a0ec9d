/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an upload become a file of the library, in the order that is
 * given now. Runs in the daemon on a worker. What is asked is checked first,
 * the bytes are joined outside of any transaction, and the file, its row and
 * the upload's end are one: until then the upload is pending, whatever fails.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/library_int.h"
#include "workspace/uploads_int.h"

#define MD5_DIGITS (2 * UPLOAD_MD5)

/* Parts stay at least so long while they are joined, should the upload's own
 * time end meanwhile. */
#define JOIN_MS (3600 * 1000ll)

static int check_md5(const char *md5, struct error *err)
{
    if (!md5 || (strnlen(md5, MD5_DIGITS + 1) == MD5_DIGITS &&
                 strspn(md5, "0123456789abcdefABCDEF") == MD5_DIGITS))
        return 0;
    return error_set(err, ERR_INVALID, "an MD5 is %u hex digits", MD5_DIGITS);
}

static int keep_parts(struct store_tx *tx, const char *upload,
                      struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE uploads SET expires_at_ms = ?2"
                       " WHERE id = ?1 AND expires_at_ms < ?2",
                       "ti", upload, clock_real_ms() + JOIN_MS);

    return MIN(r, 0);
}

/* ret_all: every part there is, for workspace_upload_done. */
static int load(struct workspaces *w, const struct actor *who,
                const char *upload, struct library_parts *ret,
                struct workspace_upload *ret_all, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_WRITE, "completing an upload", &tx, err);

    if (r == 0)
        r = library_parts_find(w, tx, who, upload, ret, &row, err);
    if (r == 0 && ret->u.status != LIBRARY_PENDING)
        r = library_parts_not_pending(ret, err);
    if (r < 0)
        return r;
    memcpy(ret_all->id, ret->upload, sizeof(ret_all->id));
    r = upload_parts(tx, ret_all, err);
    if (r == 0)
        r = keep_parts(tx, ret->upload, err);
    return r < 0 ? r : store_commit(&tx, err);
}

/* ---- the order ---------------------------------------------------------- */

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
    ret->parts = xcalloc(count + 1, sizeof(*ret->parts));
    for (size_t i = 0; i < count; i++) {
        uint32_t number = library_part_number(p->upload, parts[i]);

        if (number == 0 || number > all->part_count)
            return bad_part("the upload has no such part", parts[i], err);
        if (used[number])
            return bad_part("a part is named twice", parts[i], err);
        used[number] = true;
        ret->parts[ret->part_count++] = all->parts[number - 1];
    }
    return 0;
}

static int check_sum(const struct library_parts *p,
                     const struct workspace_upload *chosen, struct error *err)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < chosen->part_count; i++)
        sum += chosen->parts[i].size;
    if (sum == p->u.size)
        return 0;
    return error_set(err, ERR_INVALID,
                     "the parts have %" PRIu64 " bytes, %" PRIu64
                     " were declared",
                     sum, p->u.size);
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

/* ---- the end ------------------------------------------------------------ */

static int record(struct workspaces *w, struct store_tx *tx,
                  const struct actor *who, const struct library_parts *p,
                  const struct library_file *file, struct error *err)
{
    const struct audit_event event = {.action = "upload.complete",
                                      .workspace = file->workspace,
                                      .object = p->u.id,
                                      .path = p->u.filename,
                                      .after = file->file};

    return audit_add(w->audit, tx, who, &event, err);
}

/* Once begun in time it may end late, unless somebody else ended it. */
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
        r = library_parts_find(w, tx, who, upload, &p, &row, err);
    if (r == 0 && !p.open)
        r = library_parts_not_pending(&p, err);
    spec.purpose = p.u.purpose;
    spec.mime = p.mime[0] ? p.mime : NULL;
    spec.expires_s = p.expires_s;
    if (r == 0)
        r = library_put(w, tx, who, &row, &spec, p.u.filename, &file, err);
    if (r == 0)
        r = library_parts_end(tx, &p, LIBRARY_COMPLETED, file.file, err);
    if (r == 0)
        r = record(w, tx, who, &p, &file, err);
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
    int r = load(w, who, upload, &p, &all, err);

    blob_owner(who->tenant, owner);
    if (r == 0)
        r = check_md5(md5, err);
    if (r == 0)
        r = choose(&p, &all, parts, part_count, &chosen, err);
    if (r == 0)
        r = check_sum(&p, &chosen, err);
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
