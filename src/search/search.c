/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing the index, and how far it is; see search.h. Runs in
 * the daemon.
 */
#include "search/search.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "core/core.h"
#include "disk/disk.h"
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
    /* Who has been told and not come yet need not be told again: a commit
     * does not wake two threads just so. */
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

/* The engine merges parts of its index in one go when it thinks it is time,
 * which can hold up commits for long; we do it in small steps instead. */
static int write_pace(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s->store, STORE_WRITE, "opening the index", &tx, err) <
            0 ||
        store_exec(tx, err,
                   "INSERT INTO words (words, rank) VALUES ('automerge', 0)",
                   "") < 0 ||
        store_exec(tx, err,
                   "INSERT INTO words (words, rank)"
                   " VALUES ('crisismerge', 256)",
                   "") < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

/* An earlier start has written the same; a full disk is no reason to refuse
 * this one (D12). */
static int set_pace(struct search *s, struct error *err)
{
    int r = write_pace(s, err);

    if (r == -ERR_SPACE)
        log_event(LOG_WARN, "search_pace_not_set", "error", err->message,
                  NULL);
    return r == -ERR_SPACE ? 0 : r;
}

/* Were our functions made known before the store was opened? */
static int check_setup(struct search *s, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    if (store_begin(s->store, STORE_READ, "opening the index", &tx, err) < 0)
        return -(int)err->code;
    if (store_one(tx, &rows, err,
                  "SELECT found_rank(words, 0) FROM words"
                  " WHERE words MATCH '\"glovebox\"' LIMIT 1",
                  "") < 0)
        return error_hint(err, "search_setup comes before store_open");
    return 0;
}

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
    s->workspaces = w;
    s->store = core->store;
    s->blobs = core->blobs;
    s->sessions = sessions;
    mutex_init(&s->lock);
    cond_init(&s->wake);
    if (check_setup(s, err) < 0 || set_pace(s, err) < 0 ||
        thread_start(&s->indexer, "indexer", search_indexer_main, s, err) < 0)
        return -(int)err->code;
    if (sessions && thread_start(&s->reader, "index-documents",
                                 search_documents_main, s, err) < 0)
        return -(int)err->code;
    workspaces_on_commit(w, on_commit, s);
    *ret = take_ptr(s);
    return 0;
}

/* A document that is being read is given up, to be read another time. */
static void stop_reading(struct search *s)
{
    char session[ID_MAX];
    struct error err;

    mutex_lock(&s->lock);
    memcpy(session, s->session, sizeof(session));
    mutex_unlock(&s->lock);
    if (session[0]) /* it may end on its own meanwhile */
        (void)session_delete(s->sessions, &search_self, session, &err);
}

void search_stop(struct search *s)
{
    if (!s || atomic_exchange(&s->stopping, true))
        return;
    workspaces_on_commit(s->workspaces, NULL, NULL);
    search_wake(s, &s->commits);
    stop_reading(s);
}

void search_close(struct search *s)
{
    if (!s)
        return;
    search_stop(s);
    thread_join(&s->indexer);
    thread_join(&s->reader);
    cond_done(&s->wake);
    mutex_done(&s->lock);
    free(s->pool);
    free(s);
}
