/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The indexer: takes the files that changed since its last round, reads the
 * text ones, and writes their words. Runs in the daemon on its own thread,
 * woken by commits. It reads outside transactions and writes in slices of a
 * few milliseconds, between which commits of users are done; a file that
 * changed meanwhile is left for the next round. The queue of files is ordered
 * by the time of their change.
 */
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "blob/blob.h"
#include "search/search_int.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define PAGE_FILES 200u /* read, then written */

enum act {
    ACT_LEAVE, /* could not be read now: next round */
    ACT_DROP,  /* the file is gone */
    ACT_MOVE,  /* same bytes, another path or version */
    ACT_WRITE,
};

/* A place in the queue, the oldest first. */
struct place {
    int64_t at_ms;
    char file[ID_MAX];
};

struct item {
    int64_t modified_at_ms;
    char file[ID_MAX], workspace[ID_MAX], version[ID_MAX];
    char sha256[BLOB_NAME], mime[96];
    char *path; /* owned */
    uint64_t size;
    bool alive, same_bytes;
    int64_t document; /* 0: none yet */
    char old_kind[16], old_state[16];

    enum act act;
    const char *kind, *state, *problem;
    struct buf body;
};

struct queue_page {
    struct item items[PAGE_FILES];
    size_t count;
};

/* ---- the queue -------------------------------------------------------------
 */

static void read_row(struct store_rows *rows, struct item *ret)
{
    const char *old_sha256 = store_text(rows, 11);

    store_copy(rows, 0, ret->file, sizeof(ret->file));
    store_copy(rows, 1, ret->workspace, sizeof(ret->workspace));
    ret->path = xstrdup(store_text(rows, 2));
    ret->alive = store_int(rows, 3) != 0;
    store_copy(rows, 4, ret->version, sizeof(ret->version));
    store_copy(rows, 5, ret->sha256, sizeof(ret->sha256));
    ret->size = (uint64_t)store_int(rows, 6);
    store_copy(rows, 7, ret->mime, sizeof(ret->mime));
    ret->document = store_int(rows, 8);
    store_copy(rows, 9, ret->old_kind, sizeof(ret->old_kind));
    store_copy(rows, 10, ret->old_state, sizeof(ret->old_state));
    ret->same_bytes = old_sha256 && strcmp(old_sha256, ret->sha256) == 0;
    ret->modified_at_ms = store_int(rows, 12);
}

/* The end of the queue: files that change later are for the next round. 1, or
 * 0 when the queue is empty. */
static int queue_last(struct search *s, struct place *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_begin(s->store, STORE_READ, "finding files to index", &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT modified_at_ms, id FROM files"
                      " INDEXED BY files_unindexed WHERE indexed = 0"
                      " ORDER BY modified_at_ms DESC, id DESC LIMIT 1",
                      "");
    if (r > 0) {
        ret->at_ms = store_int(rows, 0);
        store_copy(rows, 1, ret->file, sizeof(ret->file));
    }
    return r;
}

/* The files after `after`, up to `last`, as many as a page has. */
static int queue_page_read(struct search *s, const struct place *after,
                           const struct place *last, struct queue_page *ret,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_begin(s->store, STORE_READ, "finding files to index", &tx, err) <
            0 ||
        store_query(tx, &rows, err,
                    "SELECT f.id, f.workspace, f.path, f.alive, f.version,"
                    " f.sha256, f.size, f.mime, d.id, d.kind, d.state,"
                    " v.sha256, f.modified_at_ms"
                    " FROM files AS f INDEXED BY files_unindexed"
                    " LEFT JOIN documents AS d ON d.file = f.id"
                    " LEFT JOIN versions AS v ON v.id = d.version"
                    " WHERE f.indexed = 0"
                    " AND (f.modified_at_ms, f.id) > (?1, ?2)"
                    " AND (f.modified_at_ms, f.id) <= (?3, ?4)"
                    " ORDER BY f.modified_at_ms, f.id LIMIT ?5",
                    "ititi", after->at_ms, after->file, last->at_ms,
                    last->file, (int64_t)PAGE_FILES) < 0)
        return -(int)err->code;
    while ((r = store_next(rows, err)) > 0)
        read_row(rows, &ret->items[ret->count++]);
    return r;
}

/* ---- the indexer -----------------------------------------------------------
 */

#define LOOK_MS 2000u /* also without a commit */
#define GATHER_MS 400u
#define GATHER_MOST 5u
#define PAGE_BYTES 4194304u /* of text: what is held in memory */
#define SLICE_NS 4000000ull /* of one writing transaction, about */
#define GUESS_BYTES 8192u

static void page_cut(struct queue_page *p, size_t count)
{
    while (p->count > count) {
        struct item *it = &p->items[--p->count];

        free(it->path);
        buf_done(&it->body);
    }
}

static void page_free(struct queue_page **p)
{
    page_cut(*p, 0);
    free(*p);
}

/* ---- reading ------------------------------------------------------------ */

/* The start of the file's bytes, at most `most`. */
static int read_bytes(struct search *s, const struct item *it, size_t most,
                      struct buf *ret, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    uint64_t size;
    ssize_t n;

    if (blob_open(s->blobs, it->sha256, &fd, &size, err) < 0)
        return -(int)err->code;
    most = MIN(most, size);
    buf_reserve(ret, most);
    n = fd_read_all(fd, ret->data, most);
    if (n < 0)
        return error_errno(err, ERR_INTERNAL, (int)-n, "cannot read a file");
    ret->len = (size_t)n;
    return 0;
}

static void names_only(struct item *it, const char *problem)
{
    it->state = "names_only";
    it->problem = problem;
}

static int read_text(struct search *s, struct item *it,
                     const struct search_kind *kind, struct error *err)
{
    struct buf bytes cleanup(buf_done) = {0};
    struct buf stripped cleanup(buf_done) = {0};
    const struct buf *text = &bytes;
    size_t most = (size_t)s->settings.text_bytes;

    if (it->size == 0)
        return 0;
    if (read_bytes(s, it, most, &bytes, err) < 0)
        return -(int)err->code;

    if (kind->how == READ_GUESS &&
        !search_text_plain(bytes.data, MIN(bytes.len, GUESS_BYTES))) {
        it->kind = "none";
        names_only(it, "");
        return 0;
    }
    if (bytes.len && memchr(bytes.data, 0, bytes.len)) {
        names_only(it, "It is not text.");
        return 0;
    }

    if (bytes.len == most) /* perhaps cut off within a character */
        bytes.len -= utf8_partial(bytes.data, bytes.len);
    if (kind->how == READ_HTML) {
        search_html_strip(&stripped, bytes.data, bytes.len);
        text = &stripped;
    }
    search_text_add(&it->body, text->data, text->len);
    return 0;
}

/* Decides what to write of a file, and reads it. */
static void prepare_item(struct search *s, struct item *it)
{
    const struct search_kind *kind = search_kind_of(it->path, it->mime);
    struct error err;

    if (!it->alive) {
        it->act = ACT_DROP;
        return;
    }
    it->act = ACT_WRITE;
    it->kind = kind->name;
    it->state = "ready";
    it->problem = "";
    if (it->document && it->same_bytes &&
        strcmp(it->old_kind, it->kind) == 0 &&
        strcmp(it->old_state, "failed") != 0)
        it->act = ACT_MOVE;
    else if (kind->how == READ_NOTHING)
        names_only(it, "");
    else if (kind->how == READ_DOCUMENT) {
        if (!s->sessions || s->settings.document_bytes == 0)
            names_only(it, "Documents are not read here.");
        else if (it->size > s->settings.document_bytes)
            names_only(it, "It is larger than documents that are read.");
        else
            it->state = "waiting";
    } else if (read_text(s, it, kind, &err) < 0) {
        it->act = err.code == ERR_CORRUPT ? ACT_WRITE : ACT_LEAVE;
        it->state = "failed";
        it->problem = "Its stored bytes are damaged.";
        log_event(it->act == ACT_LEAVE ? LOG_DEBUG : LOG_WARN, "index_unread",
                  "file", it->file, "error", err.message, NULL);
    }
}

/* ---- writing ------------------------------------------------------------ */

static int find_document(struct store_tx *tx, const char *file, int64_t *ret,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    if (store_one(tx, &rows, err, "SELECT id FROM documents WHERE file = ?1",
                  "t", file) < 0)
        return -(int)err->code;
    *ret = rows ? store_int(rows, 0) : 0;
    return 0;
}

static int write_document(struct search *s, struct store_tx *tx,
                          const struct item *it, struct error *err)
{
    struct buf path cleanup(buf_done) = {0};
    int64_t id = 0;

    if (it->act == ACT_MOVE) {
        if (store_exec(tx, err,
                       "UPDATE documents SET version = ?2, path = ?3,"
                       " at_ms = ?4 WHERE file = ?1",
                       "ttti", it->file, it->version, it->path,
                       clock_real_ms()) < 0)
            return -(int)err->code;
    } else if (store_exec(tx, err,
                          "INSERT INTO documents (file, workspace, version,"
                          " path, kind, state, problem, bytes, at_ms)"
                          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
                          " ON CONFLICT (file) DO UPDATE SET"
                          " version = excluded.version, path = excluded.path,"
                          " kind = excluded.kind, state = excluded.state,"
                          " problem = excluded.problem,"
                          " bytes = excluded.bytes, at_ms = excluded.at_ms,"
                          " cut = 0",
                          "tttttttii", it->file, it->workspace, it->version,
                          it->path, it->kind, it->state, it->problem,
                          (int64_t)it->body.len, clock_real_ms()) < 0) {
        return -(int)err->code;
    }
    if (find_document(tx, it->file, &id, err) < 0)
        return -(int)err->code;
    search_text_add(&path, it->path, strlen(it->path));
    return s->words->write(s, tx, id, path.data,
                           it->act == ACT_MOVE ? NULL
                           : it->body.data     ? it->body.data
                                               : "",
                           err);
}

/* One file, if it is still the one that was read. */
static int write_item(struct search *s, struct store_tx *tx,
                      const struct item *it, struct error *err)
{
    int changed;

    if (it->act == ACT_LEAVE)
        return 0;
    changed = store_exec(tx, err,
                         "UPDATE files SET indexed = 1"
                         " WHERE id = ?1 AND version = ?2 AND indexed = 0",
                         "tt", it->file, it->version);
    if (changed <= 0)
        return changed;
    if (it->act != ACT_DROP)
        return write_document(s, tx, it, err);
    changed = store_exec(tx, err, "DELETE FROM documents WHERE file = ?1", "t",
                         it->file);
    return MIN(changed, 0);
}

/* Items from *at on until the time is up or all are done. */
static int write_slice(struct search *s, const struct queue_page *p,
                       size_t *at, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    uint64_t end;

    if (store_begin(s->store, STORE_WRITE, "indexing files", &tx, err) < 0)
        return -(int)err->code;
    end = clock_mono_ns() + SLICE_NS;
    do {
        if (write_item(s, tx, &p->items[*at], err) < 0)
            return -(int)err->code;
        (*at)++;
    } while (*at < p->count && clock_mono_ns() < end);
    return store_commit(&tx, err);
}

/* ---- the thread --------------------------------------------------------- */

static int write_page(struct search *s, const struct queue_page *p,
                      struct error *err)
{
    bool waiting = false;

    for (size_t at = 0; at < p->count && !s->stopping;) {
        if (write_slice(s, p, &at, err) < 0)
            return -(int)err->code;
        search_housekeeping_rest(s);
        if (s->words->tend(s, err) < 0)
            return -(int)err->code;
        search_housekeeping_rest(s);
    }
    for (size_t i = 0; i < p->count; i++)
        waiting |=
            p->items[i].state && strcmp(p->items[i].state, "waiting") == 0;
    if (waiting)
        search_wake(s, &s->documents);
    search_wake(s, &s->passages);
    return 0;
}

/* Everything that waits, once. */
static int index_round(struct search *s, struct error *err)
{
    struct place after = {.at_ms = INT64_MIN}, last;
    int r = queue_last(s, &last, err);

    while (r > 0 && !s->stopping) {
        struct queue_page *p cleanup(page_free) = xcalloc(1, sizeof(*p));

        if (!search_has_room(s))
            break; /* the next round finds it again */
        r = queue_page_read(s, &after, &last, p, err);
        if (r < 0 || p->count == 0)
            break;

        /* Files beyond PAGE_BYTES are left for the next page. */
        size_t bytes = 0, n = 0;

        while (n < p->count && bytes < PAGE_BYTES && !s->stopping) {
            prepare_item(s, &p->items[n]);
            bytes += p->items[n++].body.len;
        }
        page_cut(p, n);

        if (p->count > 0) {
            const struct item *end = &p->items[p->count - 1];

            after.at_ms = end->modified_at_ms;
            memcpy(after.file, end->file, sizeof(after.file));
        }
        r = write_page(s, p, err) < 0 ? -(int)err->code : 1;
    }
    return r < 0 || s->stopping ? MIN(r, 0)
                                : search_housekeeping_sweep(s, err);
}

/* Many commits in a row are one round, not one each: a round is transactions
 * that the next commit has to wait for. While they keep coming it waits, a few
 * times. False: it is to end. */
static bool gather_commits(struct search *s)
{
    bool go_on = true, never = false, came = false, more = true;

    for (unsigned i = 0; go_on && more && i < GATHER_MOST; i++) {
        came |= search_look(s, &s->commits);
        go_on = search_wait(s, &never, GATHER_MS);
        more = search_look(s, &s->commits);
        came |= more;
    }
    if (came)
        search_wake(s, &s->commits);
    return go_on;
}

void search_indexer_main(void *search)
{
    struct search *s = search;
    struct error err;
    bool failed = false;

    do {
        /* Nothing is lost: what is left is found again. Said once. */
        bool well = index_round(s, &err) == 0;

        if (!well && !failed)
            log_event(LOG_WARN, "index_round_failed", "error", err.message,
                      NULL);
        failed = !well;
        if (!gather_commits(s))
            break;
    } while (search_wait(s, &s->commits, LOOK_MS));
}
