/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed between two versions of a text. Runs in the daemon on a
 * worker; reads both sides into memory, which is why they are bounded. The
 * bytes are only compared, never interpreted (F9).
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/utf8.h"
#include "workspace/diff_int.h"
#include "workspace/workspace_int.h"

#define SIDE_MAX (1u << 20)

struct version {
    char id[ID_MAX], file[ID_MAX], sha256[BLOB_NAME];
    char *path; /* owned */
    int64_t number, size;
    bool purged;
    char *bytes; /* owned */
    size_t len;
};

static void version_done(struct version *v)
{
    free(v->path);
    free(v->bytes);
}

static void version_read(struct store_rows *rows, struct version *ret)
{
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    store_copy(rows, 1, ret->file, sizeof(ret->file));
    store_copy(rows, 2, ret->sha256, sizeof(ret->sha256));
    ret->path = xstrdup(store_text(rows, 3));
    ret->number = store_int(rows, 4);
    ret->size = store_int(rows, 5);
    ret->purged = store_int(rows, 6) != 0;
}

#define COLUMNS "v.id, v.file, v.sha256, v.path, v.number, v.size, v.purged"

/* By its id if it is of the file at path (or was there itself); the head's
 * without one. */
static int version_find(struct store_tx *tx, const char *workspace,
                        const char *path, const char *id, struct version *ret,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = id ? store_one(tx, &rows, err,
                           "SELECT " COLUMNS " FROM versions AS v"
                           " JOIN files AS f ON f.id = v.file"
                           " WHERE v.id = ?1 AND v.workspace = ?2"
                           " AND (f.path = ?3 OR v.path = ?3)",
                           "ttt", id, workspace, path)
               : store_one(tx, &rows, err,
                           "SELECT " COLUMNS " FROM files AS f"
                           " JOIN versions AS v ON v.id = f.version"
                           " WHERE f.workspace = ?1 AND f.path = ?2"
                           " AND f.alive = 1",
                           "tt", workspace, path);

    if (r == 0)
        return id ? error_set(err, ERR_NOT_FOUND,
                              "the file has no such version")
                  : error_set(err, ERR_NOT_FOUND, "no such file");
    if (r > 0)
        version_read(rows, ret);
    return MIN(r, 0);
}

/* The version before; of a first one, nothing. */
static int version_before(struct store_tx *tx, const struct version *v,
                          struct version *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT " COLUMNS " FROM versions AS v"
                      " WHERE v.file = ?1 AND v.number < ?2"
                      " ORDER BY v.number DESC LIMIT 1",
                      "ti", v->file, v->number);

    if (r > 0)
        version_read(rows, ret);
    return MIN(r, 0);
}

static int not_text(struct error *err, const struct version *v)
{
    return error_set(err, ERR_INVALID,
                     "version %s is not text: only UTF-8 without NUL can be "
                     "compared",
                     v->id);
}

static int version_load(struct workspaces *w, struct version *v,
                        struct error *err)
{
    int fd cleanup(fd_close) = -1;
    ssize_t n;
    int r;

    if (!v->sha256[0])
        return 0; /* there was nothing, or it was deleted */
    if (v->purged)
        return error_set(err, ERR_NOT_FOUND,
                         "the bytes of version %s were given up by the "
                         "workspace's rules",
                         v->id);
    if (v->size > (int64_t)SIDE_MAX)
        return error_set(err, ERR_INVALID,
                         "version %s is larger than 1 MiB, too large to "
                         "compare",
                         v->id);
    r = blob_open(w->blobs, v->sha256, &fd, NULL, err);
    if (r < 0)
        return r;
    v->bytes = xmalloc((size_t)v->size + 1);
    n = fd_read_all(fd, v->bytes, (size_t)v->size);
    if (n != v->size)
        return error_set(err, ERR_INTERNAL, "a stored file cannot be read");
    v->len = (size_t)n;
    if (memchr(v->bytes, 0, v->len) || !utf8_valid(v->bytes, v->len))
        return not_text(err, v);
    return 0;
}

/* Either side may show all of it. */
static int govern(struct workspaces *w, const struct actor *who,
                  const struct version *v, struct error *err)
{
    struct workspace_file f = {.path = v->path, .size = (uint64_t)v->size};

    if (!v->sha256[0])
        return 0;
    (void)snprintf(f.version, sizeof(f.version), "%s", v->id);
    (void)snprintf(f.mime, sizeof(f.mime), "%s", mime_of_path(v->path));
    return workspace_govern_fetch(w, who, &f, err);
}

static char *label(const char *side, const struct version *v)
{
    return v->sha256[0] ? xasprintf("%s/%s\t%s", side, v->path, v->id)
                        : xstrdup("/dev/null");
}

static int find_both(struct workspaces *w, const struct actor *who,
                     const char *id, const char *path, const char *from,
                     const char *to, struct version *old, struct version *new,
                     struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = workspace_path_check(path, err);

    if (r == 0)
        r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "comparing versions", &tx, NULL, err);
    if (r == 0)
        r = version_find(tx, id, path, to, new, err);
    if (r == 0)
        r = from ? version_find(tx, id, path, from, old, err)
                 : version_before(tx, new, old, err);
    return r;
}

int workspace_diff(struct workspaces *w, const struct actor *who,
                   const char *id, const char *path, const char *from,
                   const char *to, struct buf *out, struct error *err)
{
    struct version old cleanup(version_done) = {0};
    struct version new cleanup(version_done) = {0};
    char *old_label cleanup(mem_free) = NULL;
    char *new_label cleanup(mem_free) = NULL;
    int r = find_both(w, who, id, path, from, to, &old, &new, err);

    if (r == 0)
        r = govern(w, who, &old, err);
    if (r == 0)
        r = govern(w, who, &new, err);
    if (r == 0)
        r = version_load(w, &old, err);
    if (r == 0)
        r = version_load(w, &new, err);
    if (r < 0)
        return r;
    old_label = label("a", &old);
    new_label = label("b", &new);
    diff_unified(old.bytes ? old.bytes : "", old.len,
                 new.bytes ? new.bytes : "", new.len, old_label, new_label,
                 out);
    return 0;
}
