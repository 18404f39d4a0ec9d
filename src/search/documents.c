/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader: gets the text of PDF and office files by having extract.py
 * take them apart inside a session (F9). Runs in the daemon on a thread of
 * its own; here a document is bytes to hand over and text to take back.
 *
 * A document can do to its session what it likes, so a session only sees
 * documents of one workspace, whose members may read them all anyway, and is
 * thrown away after a failure, after a few documents, and when none is left.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "blob/blob.h"
#include "execution/execution.h"
#include "search/search_int.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define LOOK_MS 2000u
#define AGAIN_MS 10000u /* after the machine had no session for us */
#define TIMEOUT_S 60u
#define PER_SESSION 16u
#define CHUNK 262144u
#define OUTPUT "text.txt"

struct document {
    int64_t id;
    char workspace[ID_MAX], version[ID_MAX];
    char sha256[BLOB_NAME];
    char kind[16];
};

/* What became of one. */
enum result {
    RESULT_TEXT,
    RESULT_BAD,   /* its own fault; a sentence says why */
    RESULT_AGAIN, /* not its fault: later */
};

/* The session in use. */
struct box {
    char workspace[ID_MAX];
    unsigned used; /* documents it has seen */
};

/* ---- the store ---------------------------------------------------------- */

/* The next that waits, after a number; 1, 0 or -code. */
static int next_document(struct search *s, int64_t after, struct document *ret,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = 0;

    if (store_begin(s->store, STORE_READ, "finding documents to read", &tx,
                    err) < 0)
        return -(int)err->code;
    r = store_one(tx, &rows, err,
                  "SELECT d.id, d.workspace, d.version, d.kind, v.sha256"
                  " FROM documents AS d INDEXED BY documents_waiting"
                  " JOIN versions AS v ON v.id = d.version"
                  " WHERE d.state = 'waiting' AND d.id > ?1"
                  " ORDER BY d.id LIMIT 1",
                  "i", after);
    if (r <= 0)
        return r;
    ret->id = store_int(rows, 0);
    store_copy(rows, 1, ret->workspace, sizeof(ret->workspace));
    store_copy(rows, 2, ret->version, sizeof(ret->version));
    store_copy(rows, 3, ret->kind, sizeof(ret->kind));
    store_copy(rows, 4, ret->sha256, sizeof(ret->sha256));
    return 1;
}

/* Unless the file changed meanwhile. */
static int record_result(struct search *s, const struct document *d,
                         const char *state, const char *problem,
                         const struct buf *text, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int changed;

    if (store_begin(s->store, STORE_WRITE, "indexing a document", &tx, err) <
        0)
        return -(int)err->code;
    changed = store_exec(tx, err,
                         "UPDATE documents SET state = ?3, problem = ?4,"
                         " bytes = ?5, at_ms = ?6, cut = 0 WHERE id = ?1"
                         " AND version = ?2 AND state = 'waiting'",
                         "itttii", d->id, d->version, state, problem,
                         (int64_t)text->len, clock_real_ms());
    if (changed > 0 && text->len)
        changed = s->words->write(s, tx, d->id, NULL, text->data, err);
    if (changed < 0 || store_commit(&tx, err) < 0)
        return -(int)err->code;
    search_wake(s, &s->passages);
    return s->words->tend(s, err);
}

/* ---- the session -------------------------------------------------------- */

static void set_session(struct search *s, const char *id)
{
    mutex_lock(&s->lock);
    (void)snprintf(s->session, sizeof(s->session), "%s", id);
    mutex_unlock(&s->lock);
}

static void box_drop(struct search *s, struct box *box)
{
    struct error err;

    if (s->session[0]) /* only this thread changes it */
        if (session_delete(s->sessions, &search_self, s->session, &err) < 0 &&
            err.code != ERR_NOT_FOUND)
            log_event(LOG_WARN, "index_session_left", "session", s->session,
                      "error", err.message, NULL);
    set_session(s, "");
    *box = (struct box){0};
}

/* One that has seen nothing but documents of this workspace. */
static int box_take(struct search *s, struct box *box, const char *workspace,
                    struct error *err)
{
    struct session_info info = {0};
    struct session_spec spec = {.pool = s->settings.pool,
                                .name = "search",
                                .ephemeral = true,
                                .transient = true};

    if (s->session[0] && box->used < PER_SESSION &&
        strcmp(box->workspace, workspace) == 0)
        return 0;
    box_drop(s, box);
    if (session_create(s->sessions, &search_self, &spec, &info, err) < 0)
        return -(int)err->code;
    set_session(s, info.id); /* from here on search_stop can end it */
    session_info_done(&info);
    if (s->stopping)
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    (void)snprintf(box->workspace, sizeof(box->workspace), "%s", workspace);
    return 0;
}

static int upload_bytes(struct session_upload *u, int fd, struct error *err)
{
    char *piece cleanup(mem_free) = xmalloc(CHUNK);
    ssize_t n;

    while ((n = fd_read_all(fd, piece, CHUNK)) > 0)
        if (session_upload_write(u, piece, (size_t)n, err) < 0)
            return -(int)err->code;
    if (n < 0)
        return error_errno(err, ERR_INTERNAL, (int)-n, "cannot read a file");
    return 0;
}

static int upload_document(struct search *s, const struct document *d,
                           const char *name, struct error *err)
{
    struct session_upload *u = NULL;
    struct session_file done = {0};
    int fd cleanup(fd_close) = -1;
    uint64_t size;

    if (blob_open(s->blobs, d->sha256, &fd, &size, err) < 0 ||
        session_upload_begin(s->sessions, &search_self, s->session, name, &u,
                             err) < 0)
        return -(int)err->code;
    if (upload_bytes(u, fd, err) < 0) {
        session_upload_abort(u);
        return -(int)err->code;
    }
    if (session_upload_commit(u, &done, err) < 0)
        return -(int)err->code;
    free(done.path);
    return 0;
}

/* ---- what the session says ---------------------------------------------- */

static const struct {
    const char *word, *problem;
} words[] = {
    {"no-reader", "This pool's runtime has no pdftotext to read PDF files "
                  "with."},
    {"locked", "It is protected by a password."},
    {"damaged", "It is damaged, or not of the kind its name says."},
    {"too-big", "It unpacks to more than is read."},
};

static const char *problem_of_word(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(word, words[i].word) == 0)
            return words[i].problem;
    return strcmp(word, "ok") == 0 ? NULL : "It could not be read.";
}

/* The first line it printed; the rest is ignored. */
static void first_line(struct execution *e, char *ret, size_t size)
{
    struct exec_event event;
    size_t n = 0;

    for (uint32_t at = 0; execution_event(e, at, &event); at = event.number)
        for (size_t i = 0; event.type == EVENT_STDOUT && i < event.len; i++) {
            if (event.data[i] == '\n' || n + 1 == size) {
                ret[n] = '\0';
                return;
            }
            ret[n++] = event.data[i];
        }
    ret[n] = '\0';
}

static const char *problem_of(struct execution *e)
{
    struct exec_info info;
    char word[32];

    execution_info(e, &info);
    switch (info.outcome) {
    case OUTCOME_OK:
        first_line(e, word, sizeof(word));
        return problem_of_word(word);
    case OUTCOME_TIMEOUT:
        return "Reading it took longer than a minute.";
    case OUTCOME_OOM:
        return "Reading it takes more memory than the pool gives.";
    case OUTCOME_LIMIT:
        return "Reading it takes more than the pool allows.";
    case OUTCOME_NONE:
    case OUTCOME_ERROR:
    case OUTCOME_KILLED:
    case OUTCOME_CRASHED:
    case OUTCOME_CANCELLED:
    case OUTCOME_DENIED:
    case OUTCOME_ISOLATION_FAILED:
    case OUTCOME_LOST:
        break;
    }
    return "It could not be read.";
}

static int fetch_text(struct search *s, struct buf *ret, struct error *err)
{
    struct buf bytes cleanup(buf_done) = {0};
    size_t most = (size_t)s->settings.text_bytes;
    int fd cleanup(fd_close) = -1;
    struct stat st;
    ssize_t n;

    if (session_files_open(s->sessions, &search_self, s->session, OUTPUT, &fd,
                           &st, err) < 0)
        return -(int)err->code;
    buf_reserve(&bytes, most);
    n = fd_read_all(fd, bytes.data, most);
    if (n < 0)
        return error_errno(err, ERR_GUEST, (int)-n, "cannot read the text");
    search_text_add(ret, bytes.data,
                    (size_t)n - utf8_partial(bytes.data, (size_t)n));
    return 0;
}

/* ---- one document ------------------------------------------------------- */

/* The names are ours: a kind is one of kinds.c. */
static int run_extractor(struct search *s, const struct document *d,
                         const char *name, struct execution **ret,
                         struct error *err)
{
    struct buf code cleanup(buf_done) = {0};
    struct exec_spec spec = {.language = EXEC_PYTHON, .timeout_s = TIMEOUT_S};

    buf_adds(&code, search_script);
    buf_addf(&code, "\nmain('%s', '/mnt/data/%s', '/mnt/data/%s', %llu)\n",
             d->kind, name, OUTPUT,
             (unsigned long long)s->settings.text_bytes);
    spec.code = code.data;
    spec.code_len = code.len;
    return execution_run(s->sessions, &search_self, s->session, &spec, ret,
                         err);
}

/* Is the machine short of capacity now, rather than the document bad? */
static bool is_passing(const struct error *err)
{
    return err->code == ERR_LIMIT || err->code == ERR_BUSY ||
           err->code == ERR_UNAVAILABLE;
}

static enum result read_in_session(struct search *s, const struct document *d,
                                   struct buf *text, const char **ret_problem,
                                   struct error *err)
{
    struct execution *e = NULL;
    char name[32];

    (void)snprintf(name, sizeof(name), "document.%s", d->kind);
    *ret_problem = NULL;
    if (upload_document(s, d, name, err) < 0 ||
        run_extractor(s, d, name, &e, err) < 0) {
        *ret_problem = err->code == ERR_CORRUPT
                           ? "Its stored bytes are damaged."
                       : err->code == ERR_SPACE || err->code == ERR_TOO_LARGE
                           ? "It does not fit into a session."
                           : "It could not be read.";
        return is_passing(err) ? RESULT_AGAIN : RESULT_BAD;
    }
    *ret_problem = problem_of(e);
    execution_unref(e);
    if (!*ret_problem && fetch_text(s, text, err) < 0)
        *ret_problem = "It could not be read.";
    return *ret_problem ? RESULT_BAD : RESULT_TEXT;
}

/* Twice if the session had seen others: one of them may have broken it. */
static enum result read_document(struct search *s, struct box *box,
                                 const struct document *d, struct buf *text,
                                 const char **ret_problem, struct error *err)
{
    enum result result;
    bool fresh;

    do {
        buf_reset(text);
        if (box_take(s, box, d->workspace, err) < 0)
            return RESULT_AGAIN;
        fresh = box->used++ == 0;
        result = read_in_session(s, d, text, ret_problem, err);
        if (result != RESULT_TEXT)
            box_drop(s, box);
    } while (result == RESULT_BAD && !fresh && !s->stopping);
    return result;
}

/* ---- the thread --------------------------------------------------------- */

/* Everything that waits; false when there was no session to be had. */
static bool read_round(struct search *s, struct box *box, struct error *err)
{
    struct document d = {0};
    int r = 0;

    while (!s->stopping && (r = next_document(s, d.id, &d, err)) > 0) {
        struct buf text cleanup(buf_done) = {0};
        const char *problem = "";
        enum result result = read_document(s, box, &d, &text, &problem, err);

        if (s->stopping)
            return true;
        if (result == RESULT_AGAIN)
            return false;
        if (record_result(s, &d, result == RESULT_TEXT ? "ready" : "failed",
                          problem ? problem : "", &text, err) < 0)
            return false;
    }
    box_drop(s, box);
    return r == 0 || s->stopping;
}

void search_documents_main(void *search)
{
    struct search *s = search;
    struct box box = {0};
    struct error err;
    unsigned wait_ms = 0;

    while (search_wait(s, &s->documents, wait_ms)) {
        wait_ms = LOOK_MS;
        if (!sessions_ready(s->sessions) || !search_has_room(s))
            continue;
        if (!read_round(s, &box, &err)) {
            log_event(LOG_WARN, "index_documents_wait", "error", err.message,
                      NULL);
            wait_ms = AGAIN_MS;
        }
    }
    box_drop(s, &box);
}
