/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands each call on to the engine, values taken off the argument list; see
 * store.h. Runs in the daemon only.
 */
#include "store/store.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/thread.h"
#include "store/store_int.h"

int store_open(const char *data_dir, struct store **ret, struct error *err)
{
    return store_open_checked(data_dir, NULL, NULL, ret, err);
}

int store_open_checked(const char *data_dir, store_check_fn *check, void *ctx,
                       struct store **ret, struct error *err)
{
    return store_sqlite_open(data_dir, check, ctx, ret, err);
}

const char *store_id(const struct store *s)
{
    return s->id;
}

void store_close(struct store *s)
{
    if (s)
        s->ops->close(s);
}

bool store_writable(struct store *s)
{
    return s->ops->writable(s);
}

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

/* ---- transactions ------------------------------------------------------- */

int store_begin(struct store *s, enum store_mode mode, const char *what,
                struct store_tx **ret, struct error *err)
{
    return s->ops->begin(s, mode, what, ret, err);
}

int store_commit(struct store_tx **tx, struct error *err)
{
    struct store_tx *ending = take_ptr(*tx);

    return ending->ops->commit(ending, err);
}

void store_rollback(struct store_tx **tx)
{
    struct store_tx *ending = take_ptr(*tx);

    if (ending)
        ending->ops->rollback(ending);
}

int store_write(struct store *s, const char *what, store_write_fn *fn,
                void *ctx, struct error *err)
{
    return s->ops->write(s, what, fn, ctx, err);
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
    return tx->ops->exec(tx, sql, values, count, err);
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
    return tx->ops->query(tx, sql, values, count, ret, err);
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
    r = tx->ops->query(tx, sql, values, count, &rows, err);
    if (r == 0)
        r = store_next(rows, err);
    *ret = r == 1 ? take_ptr(rows) : NULL;
    return r;
}

/* ---- rows --------------------------------------------------------------- */

int store_next(struct store_rows *rows, struct error *err)
{
    return rows->ops->next(rows, err);
}

void store_rows_done(struct store_rows **rows)
{
    struct store_rows *ending = take_ptr(*rows);

    if (ending)
        ending->ops->done(ending);
}

const char *store_text(struct store_rows *rows, int column)
{
    return rows->ops->text(rows, column);
}

int64_t store_int(struct store_rows *rows, int column)
{
    return rows->ops->number(rows, column);
}

const void *store_bytes(struct store_rows *rows, int column, size_t *ret_len)
{
    return rows->ops->bytes(rows, column, ret_len);
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
    return s->ops->backup(s, path, progress, ctx, err);
}

int store_check(struct store *s, struct error *err)
{
    return s->ops->check(s, err);
}

uint64_t store_reserve(struct store *s, uint64_t bytes)
{
    return s->ops->reserve(s, bytes);
}

int store_forget(struct store *s, struct error *err)
{
    return s->ops->forget(s, err);
}
