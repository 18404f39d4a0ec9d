/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the index, and reports how far it is, for one workspace or
 * for all that the actor may see; see search.h. Runs in the daemon.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "core/core.h"
#include "disk/disk.h"
#include "search/search.h"
#include "search/search_int.h"
#include "session/session.h"
#include "store/store.h"
#include "workspace/workspace.h"

const struct actor search_self = {
    .tenant = "glovebox", .key = "glovebox", .admin = true};

/* ---- waking and waiting ------------------------------------------------- */

void search_wake(struct search *s, bool *flag)
{
    mutex_lock(&s->lock);
    /* A thread that was woken and has not run yet needs no second wake-up. */
    if (!*flag || s->stopping)
        cond_broadcast(&s->wake);
    *flag = true;
    mutex_unlock(&s->lock);
}

static void on_commit(void *search)
{
    struct search *s = search;

    atomic_fetch_add(&s->came, 1);
    search_wake(s, &s->commits);
}

bool search_wait(struct search *s, bool *flag, unsigned ms)
{
    uint64_t deadline = clock_mono_ms() + ms;

    mutex_lock(&s->lock);
    while (!*flag && !s->stopping &&
           cond_wait_until(&s->wake, &s->lock, deadline))
        ;
    *flag = false;
    mutex_unlock(&s->lock);
    return !s->stopping;
}

bool search_look(struct search *s, bool *flag)
{
    bool was;

    mutex_lock(&s->lock);
    was = *flag;
    *flag = false;
    mutex_unlock(&s->lock);
    return was;
}

bool search_has_room(const struct search *s)
{
    struct disk_state state;

    if (!s->settings.disk)
        return true;
    disk_state(s->settings.disk, &state);
    return state.mode == DISK_WORKS;
}

/* ---- opening ------------------------------------------------------------ */

static void closep(struct search **s)
{
    search_close(*s);
}

int search_open(const struct search_settings *settings,
                const struct core *core, struct workspaces *w,
                struct sessions *sessions, struct search **ret,
                struct error *err)
{
    struct search *s cleanup(closep) = xcalloc(1, sizeof(*s));

    s->settings = *settings;
    if (settings->pool && *settings->pool)
        s->pool = xstrdup(settings->pool);
    s->settings.pool = s->pool;
    if (settings->embeddings && *settings->embeddings)
        s->embeddings = xstrdup(settings->embeddings);
    s->settings.embeddings = s->embeddings;
    s->workspaces = w;
    s->store = core->store;
    s->blobs = core->blobs;
    s->sessions = sessions;
    mutex_init(&s->lock);
    cond_init(&s->wake);
    s->recall = search_recall_new();
    if (search_words_of(s->store, &s->words, err) < 0 ||
        s->words->open(s, err) < 0 ||
        thread_start(&s->indexer, "indexer", search_indexer_main, s, err) < 0)
        return -(int)err->code;
    if (sessions && thread_start(&s->reader, "index-documents",
                                 search_documents_main, s, err) < 0)
        return -(int)err->code;
    if (thread_start(&s->keeper, "index-passages", search_passages_main, s,
                     err) < 0)
        return -(int)err->code;
    workspaces_on_commit(w, on_commit, s);
    *ret = take_ptr(s);
    return 0;
}

void search_stop(struct search *s)
{
    if (!s || atomic_exchange(&s->stopping, true))
        return;
    workspaces_on_commit(s->workspaces, NULL, NULL);
    search_wake(s, &s->commits);

    /* Abandon the document being read; a later run reads it again. */
    char session[ID_MAX];
    struct error err;

    mutex_lock(&s->lock);
    memcpy(session, s->session, sizeof(session));
    mutex_unlock(&s->lock);
    if (session[0]) /* it may end on its own meanwhile */
        (void)session_delete(s->sessions, &search_self, session, &err);
}

void search_close(struct search *s)
{
    if (!s)
        return;
    search_stop(s);
    thread_join(&s->indexer);
    thread_join(&s->reader);
    thread_join(&s->keeper);
    if (s->words && s->words->close)
        s->words->close(s);
    search_recall_free(s->recall);
    cond_done(&s->wake);
    mutex_done(&s->lock);
    free(s->pool);
    free(s->embeddings);
    free(s);
}

/* ---- progress of the index -------------------------------------------------
 */

/* ?4: a workspace, or NULL for all. */
#define OF_WORKSPACE(table)                                                   \
    " AND (?4 IS NULL OR " table ".workspace = ?4) AND " table                \
    ".workspace IN (SELECT w.id FROM workspaces AS w WHERE " SEARCH_SEEN(     \
        "?5", "?6") ")"
#define VALUES(who, workspace)                                                \
    "titttt", (who)->key, (int64_t)(who)->admin, (who)->tenant, (workspace),  \
        WORKSPACE_BOUNDS(who)

struct pending {
    uint64_t files;
    int64_t since_ms; /* of the oldest; 0: none */
};

static int count_states(struct store_tx *tx, const struct actor *who,
                        const char *workspace, struct search_state *ret,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_query(
            tx, &rows, err,
            "SELECT d.state, count(*) FROM documents AS d"
            " JOIN files AS f ON f.id = d.file"
            " WHERE f.indexed = 1" OF_WORKSPACE("d") " GROUP BY d.state",
            VALUES(who, workspace)) < 0)
        return -(int)err->code;
    while ((r = store_next(rows, err)) > 0) {
        const char *state = store_text(rows, 0);
        uint64_t count = (uint64_t)store_int(rows, 1);

        if (strcmp(state, "ready") == 0)
            ret->ready = count;
        else if (strcmp(state, "failed") == 0)
            ret->failed = count;
        else if (strcmp(state, "names_only") == 0)
            ret->names_only = count;
    }
    return r;
}

/* sql: gives a count and the time of the oldest commit. */
static int count_pending(struct store_tx *tx, const char *sql,
                         const struct actor *who, const char *workspace,
                         struct pending *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err, sql, VALUES(who, workspace));
    int64_t since;

    if (r <= 0)
        return r;
    ret->files += (uint64_t)store_int(rows, 0);
    since = store_int(rows, 1);
    if (since && (!ret->since_ms || since < ret->since_ms))
        ret->since_ms = since;
    return 0;
}

static const char unindexed_sql[] =
    "SELECT count(*), min(c.at_ms) FROM files AS f INDEXED BY files_unindexed"
    " JOIN commits AS c ON c.workspace = f.workspace AND c.seq = f.seq"
    " WHERE f.indexed = 0" OF_WORKSPACE("f");
static const char waiting_sql[] =
    "SELECT count(*), min(c.at_ms)"
    " FROM documents AS d INDEXED BY documents_waiting"
    " JOIN files AS f ON f.id = d.file"
    " JOIN commits AS c ON c.workspace = f.workspace AND c.seq = f.seq"
    " WHERE d.state = 'waiting' AND f.indexed = 1" OF_WORKSPACE("d");

#define INTELLIGENT                                                           \
    " w.intelligence = 1 AND (?4 IS NULL OR w.id = ?4) AND " SEARCH_SEEN(     \
        "?5", "?6")

/* What is known of passages; trained_at_ms is that of the caller's tenant. */
static int count_cut(struct store_tx *tx, const struct actor *who,
                     const char *workspace, struct search_state *ret,
                     struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(
        tx, &rows, err,
        /* From the few workspaces to the many passages, in this order. */
        "SELECT (SELECT count(*) FROM workspaces AS w CROSS JOIN documents"
        "  AS d ON d.workspace = w.id AND d.cut = 1"
        "  CROSS JOIN passages AS p ON p.document = d.id WHERE" INTELLIGENT
        "),"
        " (SELECT count(*) FROM workspaces AS w CROSS JOIN documents"
        "  AS d ON d.workspace = w.id AND d.cut = 0 AND d.state = 'ready'"
        "  WHERE" INTELLIGENT "),"
        " (SELECT m.trained_at_ms FROM meanings AS m WHERE m.tenant = ?3)",
        VALUES(who, workspace));

    if (r <= 0)
        return r;
    ret->passages = (uint64_t)store_int(rows, 0);
    ret->uncut = (uint64_t)store_int(rows, 1);
    ret->trained_at_ms = store_int(rows, 2);
    return 0;
}

int search_state(struct search *s, const struct actor *who,
                 const char *workspace, struct search_state *ret,
                 struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct search_state state = {0};
    struct pending pending = {0};
    struct workspace_info info;

    if (workspace &&
        workspace_get(s->workspaces, who, workspace, &info, err) < 0)
        return -(int)err->code;
    if (store_begin(s->store, STORE_READ, "looking at the index", &tx, err) <
            0 ||
        count_states(tx, who, workspace, &state, err) < 0 ||
        count_cut(tx, who, workspace, &state, err) < 0 ||
        count_pending(tx, unindexed_sql, who, workspace, &pending, err) < 0 ||
        count_pending(tx, waiting_sql, who, workspace, &pending, err) < 0)
        return -(int)err->code;
    state.pending = pending.files;
    if (pending.since_ms)
        state.behind_ms = MAX(clock_real_ms() - pending.since_ms, 0);
    *ret = state;
    return 0;
}
