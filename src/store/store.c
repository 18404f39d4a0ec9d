/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the store that is the same for every engine: choosing one,
 * unpacking arguments, hooks, and running a lost transaction again. See
 * store.h and store_int.h. Runs in the daemon only, on any thread.
 */
#include "store/store.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/store_int.h"

#define LOST_WAIT_MS 2 /* before the second try; doubled for each further */

/* ---- opening ------------------------------------------------------------ */

static const struct store_engine *const engines[] = {&store_sqlite,
                                                     &store_postgres};

/* By its name, or by a URL. */
static bool names_engine(const char *text, const char *name)
{
    size_t len = strlen(name);

    return strncmp(text, name, len) == 0 &&
           (text[len] == '\0' || strncmp(text + len, "://", 3) == 0);
}

int store_open(const struct store_settings *settings, struct store **ret,
               struct error *err)
{
    const char *name =
        settings->engine && *settings->engine ? settings->engine : "sqlite";

    if (names_engine(name, "postgresql"))
        return store_postgres.open(settings, ret, err);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
        if (names_engine(name, engines[i]->name))
            return engines[i]->open(settings, ret, err);
    /* A URL may hold a password, so the name is not repeated. */
    (void)error_set(err, ERR_INVALID,
                    "the store cannot be opened: no engine has the "
                    "configured name");
    return error_hint(err, "Set the store to sqlite, or to the URL of a "
                           "PostgreSQL database: postgres://user@host/name.");
}

void store_base_init(struct store *s, const struct store_engine *engine)
{
    s->engine = engine;
    mutex_init(&s->hooks_lock);
    store_notify_init(s);
}

void store_base_done(struct store *s)
{
    store_notify_done(s);
    mutex_done(&s->hooks_lock);
}

const char *store_id(const struct store *s)
{
    return s->id;
}

const char *store_engine(const struct store *s)
{
    return s->engine->name;
}

bool store_shared(const struct store *s)
{
    return s->engine->shared;
}

void store_close(struct store *s)
{
    if (s)
        s->engine->close(s);
}

bool store_writable(struct store *s)
{
    return s->engine->writable(s);
}

int store_ready(struct store *s, struct error *err)
{
    if (s->engine->ready)
        return s->engine->ready(s, err);
    return store_writable(s)
               ? 0
               : error_set(err, ERR_UNAVAILABLE,
                           "a sync of the disk has failed; nothing can be "
                           "stored until the next start");
}

/* ---- hooks -------------------------------------------------------------- */

void store_hook_add(struct store *s, struct store_hook *hook)
{
    struct store_hook **end = &s->hooks;

    mutex_lock(&s->hooks_lock);
    while (*end)
        end = &(*end)->next;
    hook->next = NULL;
    *end = hook;
    mutex_unlock(&s->hooks_lock);
}

void store_hook_remove(struct store *s, struct store_hook *hook)
{
    struct store_hook **at = &s->hooks;

    mutex_lock(&s->hooks_lock);
    while (*at && *at != hook)
        at = &(*at)->next;
    if (*at)
        *at = hook->next;
    mutex_unlock(&s->hooks_lock);
}

int store_hooks_before(struct store *s, struct store_tx *tx, struct error *err)
{
    int r = 0;

    mutex_lock(&s->hooks_lock);
    s->hooks_end = NULL;
    for (struct store_hook *h = s->hooks; h && r >= 0; h = h->next) {
        if (h->before)
            r = h->before(tx, h->ctx, err);
        s->hooks_end = h->next;
    }
    return r < 0 ? r : 0;
}

void store_hooks_after(struct store *s, bool kept)
{
    mutex_assert_held(&s->hooks_lock);
    for (struct store_hook *h = s->hooks; h != s->hooks_end; h = h->next)
        if (h->after)
            h->after(h->ctx, kept);
    mutex_unlock(&s->hooks_lock);
}

/* ---- transactions ------------------------------------------------------- */

int store_begin(struct store *s, enum store_mode mode, const char *what,
                struct store_tx **ret, struct error *err)
{
    int r = s->engine->begin(s, mode, what, ret, err);

    if (r == 0)
        (*ret)->store = s;
    return r;
}

int store_commit(struct store_tx **tx, struct error *err)
{
    struct store_tx *ending = take_ptr(*tx);
    struct store *s = ending->store;
    struct store_note *notes = take_ptr(ending->notes);
    int r = ending->engine->commit(ending, err);

    if (r == 0 && notes)
        store_notify_committed(s, take_ptr(notes));
    store_notify_drop(notes);
    return r;
}

void store_rollback(struct store_tx **tx)
{
    struct store_tx *ending = take_ptr(*tx);

    if (!ending)
        return;
    store_notify_drop(take_ptr(ending->notes));
    ending->engine->rollback(ending);
}

void store_tx_lost(struct store_tx *tx)
{
    if (tx->ret_lost)
        *tx->ret_lost = true;
}

static int write_once(struct store *s, const char *what, store_write_fn *fn,
                      void *ctx, bool *ret_lost, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r;

    *ret_lost = false;
    r = store_begin(s, STORE_WRITE, what, &tx, err);
    if (r < 0)
        return r;
    tx->ret_lost = ret_lost;
    r = fn(tx, ctx, err);
    if (r == 0)
        return store_commit(&tx, err);
    return MIN(r, 0);
}

/* A function that an engine runs, perhaps several times: the notes of its last
 * run count. */
struct noted_write {
    struct store *store;
    store_write_fn *fn;
    void *ctx;
    struct store_note *notes;
};

static int run_noted(struct store_tx *tx, void *ctx, struct error *err)
{
    struct noted_write *w = ctx;
    int r;

    store_notify_drop(take_ptr(w->notes));
    tx->store = w->store;
    r = w->fn(tx, w->ctx, err);
    w->notes = take_ptr(tx->notes);
    return r;
}

int store_write(struct store *s, const char *what, store_write_fn *fn,
                void *ctx, struct error *err)
{
    struct noted_write noted = {.store = s, .fn = fn, .ctx = ctx};
    struct timespec wait = {.tv_nsec = LOST_WAIT_MS * 1000000l};
    bool lost;
    int r;

    if (s->engine->write) {
        r = s->engine->write(s, what, run_noted, &noted, err);
        if (r == 0 && noted.notes)
            store_notify_committed(s, take_ptr(noted.notes));
        store_notify_drop(noted.notes);
        return r;
    }
    for (unsigned tries = 1;; tries++) {
        r = write_once(s, what, fn, ctx, &lost, err);
        if (!lost || tries == STORE_LOST_TRIES)
            return r;
        (void)nanosleep(&wait, NULL); /* a shorter sleep does no harm */
        wait.tv_nsec *= 2;
    }
}

/* ---- statements --------------------------------------------------------- */

static size_t take_values(const char *types, va_list *args,
                          struct store_value ret[STORE_VALUES_MAX])
{
    size_t count = 0;

    for (; *types; types++, count++) {
        struct store_value *v = &ret[count];

        assert(count < STORE_VALUES_MAX);
        *v = (struct store_value){.type = *types};
        switch (*types) {
        case 't':
            v->bytes = va_arg(*args, const char *);
            break;
        case 'i':
            v->number = va_arg(*args, int64_t);
            break;
        case 'b':
            v->bytes = va_arg(*args, const void *);
            v->len = va_arg(*args, size_t);
            break;
        default:
            assert(!"a type that store.h knows");
        }
    }
    return count;
}

int store_exec(struct store_tx *tx, struct error *err, const char *sql,
               const char *types, ...)
{
    struct store_value values[STORE_VALUES_MAX];
    size_t count;
    va_list args;

    va_start(args, types);
    count = take_values(types, &args, values);
    va_end(args);
    return tx->engine->exec(tx, sql, values, count, err);
}

int store_query(struct store_tx *tx, struct store_rows **ret,
                struct error *err, const char *sql, const char *types, ...)
{
    struct store_value values[STORE_VALUES_MAX];
    size_t count;
    va_list args;

    va_start(args, types);
    count = take_values(types, &args, values);
    va_end(args);
    return tx->engine->query(tx, sql, values, count, ret, err);
}

int store_one(struct store_tx *tx, struct store_rows **ret, struct error *err,
              const char *sql, const char *types, ...)
{
    struct store_value values[STORE_VALUES_MAX];
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t count;
    va_list args;
    int r;

    va_start(args, types);
    count = take_values(types, &args, values);
    va_end(args);
    r = tx->engine->query(tx, sql, values, count, &rows, err);
    if (r == 0)
        r = store_next(rows, err);
    *ret = r == 1 ? take_ptr(rows) : NULL;
    return r;
}

/* ---- rows --------------------------------------------------------------- */

int store_next(struct store_rows *rows, struct error *err)
{
    return rows->engine->next(rows, err);
}

void store_rows_done(struct store_rows **rows)
{
    struct store_rows *ending = take_ptr(*rows);

    if (ending)
        ending->engine->done(ending);
}

int store_now(struct store_tx *tx, int64_t *ret_ms, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r;

    if (!tx->engine->now_sql) {
        *ret_ms = clock_real_ms();
        return 0;
    }
    r = store_one(tx, &row, err, tx->engine->now_sql, "");
    if (r == 0)
        return error_set(err, ERR_INTERNAL, "the database told no time");
    if (r > 0)
        *ret_ms = store_int(row, 0);
    return MIN(r, 0);
}

const char *store_text(struct store_rows *rows, int column)
{
    return rows->engine->text(rows, column);
}

int64_t store_int(struct store_rows *rows, int column)
{
    return rows->engine->number(rows, column);
}

const void *store_bytes(struct store_rows *rows, int column, size_t *ret_len)
{
    return rows->engine->bytes(rows, column, ret_len);
}

void store_copy(struct store_rows *rows, int column, char *ret, size_t size)
{
    const char *text = store_text(rows, column);

    (void)snprintf(ret, size, "%s", text ? text : ""); /* cut as promised */
}

/* ---- the whole ---------------------------------------------------------- */

int store_backup(struct store *s, const char *path,
                 void (*progress)(void *ctx, uint64_t done, uint64_t total),
                 void *ctx, struct error *err)
{
    return s->engine->backup(s, path, progress, ctx, err);
}

int store_check(struct store *s, struct error *err)
{
    return s->engine->check(s, err);
}

uint64_t store_reserve(struct store *s, uint64_t bytes)
{
    return s->engine->reserve(s, bytes);
}

int store_forget(struct store *s, struct error *err)
{
    return s->engine->forget(s, err);
}
