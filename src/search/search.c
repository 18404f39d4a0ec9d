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
#include "base/mem.h"
#include "search/search_int.h"
#include "session/session.h"
#include "store/store.h"
#include "workspace/workspace.h"

const struct actor search_self = {
    .tenant = "glovebox", .key = "glovebox", .admin = true};

/* ---- waking and waiting ------------------------------------------------- */

void search_wake(struct search *s, bool *flag)
{
    pthread_mutex_lock(&s->lock);
    /* Who has been told and not come yet need not be told again: a commit
     * does not wake two threads just so. */
    if (!*flag || s->stopping)
        pthread_cond_broadcast(&s->wake);
    *flag = true;
    pthread_mutex_unlock(&s->lock);
}

static void on_commit(void *search)
{
    struct search *s = search;

    atomic_fetch_add(&s->came, 1);
    search_wake(s, &s->commits);
}

bool search_wait(struct search *s, bool *flag, unsigned ms)
{
    uint64_t until = clock_mono_ms() + ms;
    struct timespec at = {.tv_sec = (time_t)(until / 1000),
                          .tv_nsec = (long)(until % 1000) * 1000000};
    int late = 0;

    pthread_mutex_lock(&s->lock);
    while (!*flag && !s->stopping && !late)
        late = pthread_cond_timedwait(&s->wake, &s->lock, &at);
    *flag = false;
    pthread_mutex_unlock(&s->lock);
    return !s->stopping;
}

bool search_look(struct search *s, bool *flag)
{
    bool was;

    pthread_mutex_lock(&s->lock);
    was = *flag;
    *flag = false;
    pthread_mutex_unlock(&s->lock);
    return was;
}

/* ---- opening ------------------------------------------------------------ */

/* The engine merges parts of its index in one go when it thinks it is time,
 * which can hold up commits for long; we do it in small steps instead. */
static int set_pace(struct search *s, struct error *err)
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

static int start(pthread_t *thread, void *(*fn)(void *), struct search *s,
                 bool *started, struct error *err)
{
    int rc = pthread_create(thread, NULL, fn, s);

    if (rc != 0)
        return error_errno(err, ERR_INTERNAL, rc, "cannot start a thread");
    *started = true;
    return 0;
}

static void init_locks(struct search *s)
{
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail on Linux */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static void closep(struct search **s)
{
    search_close(*s);
}

int search_open(const struct search_settings *settings, struct workspaces *w,
                struct sessions *sessions, struct search **ret,
                struct error *err)
{
    struct search *s cleanup(closep) = xcalloc(1, sizeof(*s));

    s->settings = *settings;
    if (settings->pool && *settings->pool)
        s->pool = xstrdup(settings->pool);
    s->settings.pool = s->pool;
    s->workspaces = w;
    s->store = workspaces_store(w);
    s->sessions = sessions;
    init_locks(s);
    if (check_setup(s, err) < 0 || set_pace(s, err) < 0 ||
        start(&s->indexer, search_index_thread, s, &s->indexer_started, err) <
            0)
        return -(int)err->code;
    if (sessions && start(&s->reader, search_documents_thread, s,
                          &s->reader_started, err) < 0)
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

    pthread_mutex_lock(&s->lock);
    memcpy(session, s->session, sizeof(session));
    pthread_mutex_unlock(&s->lock);
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
    if (s->indexer_started)
        (void)pthread_join(s->indexer, NULL); /* ours, joined once */
    if (s->reader_started)
        (void)pthread_join(s->reader, NULL);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->pool);
    free(s);
}
