/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The indexer: takes the files that changed since it last looked, reads the
 * text ones, and writes their words. Runs in the daemon on a thread of its
 * own, woken by commits. It reads outside transactions and writes in slices
 * of a few milliseconds, between which commits of users get in; a file that
 * changed meanwhile is left for the next round.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "blob/blob.h"
#include "search/index_int.h"
#include "search/search_int.h"
#include "store/store.h"
#include "workspace/workspace.h"

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

/* True when the bytes are to become the body. */
static bool take_text(struct item *it, const struct search_kind *kind,
                      const struct buf *bytes)
{
    if (kind->how == READ_GUESS &&
        !search_text_plain(bytes->data, MIN(bytes->len, GUESS_BYTES))) {
        it->kind = "none";
        names_only(it, "");
        return false;
    }
    if (memchr(bytes->data, 0, bytes->len)) {
        names_only(it, "It is not text.");
        return false;
    }
    return true;
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
    if (!take_text(it, kind, &bytes))
        return 0;
    if (bytes.len == most) /* perhaps cut off within a character */
        bytes.len -= utf8_partial(bytes.data, bytes.len);
    if (kind->how == READ_HTML) {
        search_html_strip(&stripped, bytes.data, bytes.len);
        text = &stripped;
    }
    search_text_add(&it->body, text->data, text->len);
    return 0;
}

static void plan_document(struct search *s, struct item *it)
{
    if (!s->sessions || s->settings.document_bytes == 0)
        names_only(it, "Documents are not read here.");
    else if (it->size > s->settings.document_bytes)
        names_only(it, "It is larger than documents that are read.");
    else
        it->state = "waiting";
}

/* Decides what to write of a file, and reads it. */
static void prepare(struct search *s, struct item *it)
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
    else if (kind->how == READ_DOCUMENT)
        plan_document(s, it);
    else if (read_text(s, it, kind, &err) < 0) {
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

static int write_words(struct store_tx *tx, const struct item *it, int64_t id,
                       struct error *err)
{
    struct buf path cleanup(buf_done) = {0};

    search_text_add(&path, it->path, strlen(it->path));
    if (it->act == ACT_MOVE)
        return store_exec(tx, err,
                          "UPDATE words SET path = ?2 WHERE rowid = ?1", "it",
                          id, path.data);
    return store_exec(tx, err,
                      "REPLACE INTO words (rowid, path, body)"
                      " VALUES (?1, ?2, ?3)",
                      "itt", id, path.data,
                      it->body.data ? it->body.data : "");
}

static int write_document(struct store_tx *tx, const struct item *it,
                          struct error *err)
{
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
                          " bytes = excluded.bytes, at_ms = excluded.at_ms",
                          "tttttttii", it->file, it->workspace, it->version,
                          it->path, it->kind, it->state, it->problem,
                          (int64_t)it->body.len, clock_real_ms()) < 0) {
        return -(int)err->code;
    }
    if (find_document(tx, it->file, &id, err) < 0)
        return -(int)err->code;
    return write_words(tx, it, id, err) < 0 ? -(int)err->code : 0;
}

/* One file, if it is still the one that was read. */
static int write_item(struct store_tx *tx, const struct item *it,
                      struct error *err)
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
        return write_document(tx, it, err);
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
        if (write_item(tx, &p->items[*at], err) < 0)
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
        if (search_housekeeping_merge(s, err) < 0)
            return -(int)err->code;
        search_housekeeping_rest(s);
    }
    for (size_t i = 0; i < p->count; i++)
        waiting |=
            p->items[i].state && strcmp(p->items[i].state, "waiting") == 0;
    if (waiting)
        search_wake(s, &s->documents);
    return 0;
}

/* Reads the files of a page; those that would be too much at once are left
 * for the next page. */
static void prepare_page(struct search *s, struct queue_page *p)
{
    size_t bytes = 0, n = 0;

    while (n < p->count && bytes < PAGE_BYTES && !s->stopping) {
        prepare(s, &p->items[n]);
        bytes += p->items[n++].body.len;
    }
    page_cut(p, n);
}

static struct place place_of(const struct item *it)
{
    struct place place = {.at_ms = it->modified_at_ms};

    memcpy(place.file, it->file, sizeof(place.file));
    return place;
}

/* Everything that waits, once. */
static int index_round(struct search *s, struct error *err)
{
    struct place after = {.at_ms = INT64_MIN}, last;
    int r = search_queue_last(s, &last, err);

    while (r > 0 && !s->stopping) {
        struct queue_page *p cleanup(page_free) = xcalloc(1, sizeof(*p));

        if (!search_has_room(s))
            break; /* the next round finds it again */
        r = search_queue_page(s, &after, &last, p, err);
        if (r < 0 || p->count == 0)
            break;
        prepare_page(s, p);
        if (p->count > 0)
            after = place_of(&p->items[p->count - 1]);
        r = write_page(s, p, err) < 0 ? -(int)err->code : 1;
    }
    return r < 0 || s->stopping ? MIN(r, 0)
                                : search_housekeeping_sweep(s, err);
}

/* Many commits in a row are one round, not one each: a round is transactions
 * that the next commit has to wait for. While they keep coming it waits, a few
 * times. False: it is to end. */
static bool gather(struct search *s)
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
        if (!gather(s))
            break;
    } while (search_wait(s, &s->commits, LOOK_MS));
}
