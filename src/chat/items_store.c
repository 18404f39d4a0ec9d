/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items in the store. An item is stored once, whatever number of responses and
 * conversations have it; they refer to its number. Runs in gloveboxd.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "core/core.h"
#include "store/store.h"
#include "workspace/workspace.h"
#include "json/json.h"

#define COLUMNS                                                               \
    " i.number, i.body, i.result, i.execution, i.session, i.created_at_ms "

/* ---- storing ------------------------------------------------------------ */

/* 1 and the number; 0: the owner has another item of that id. */
static int insert(struct chat *c, struct store_tx *tx, const struct actor *who,
                  const char *response, struct chat_item *item,
                  struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    char *body cleanup(mem_free) = json_dumps(item->body, JSON_COMPACT);
    int r;

    if (!body)
        abort(); /* out of memory, as the x* wrappers do */
    r = workspace_storage_add(
        c->parts.workspaces, tx, who->tenant,
        strlen(body) + (item->result ? strlen(item->result) : 0), err);
    if (r < 0)
        return r;
    r = store_one(tx, &row, err,
                  "INSERT INTO chat_items (id, tenant, owner, kind, body,"
                  " result, response, session, execution, created_at_ms)"
                  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
                  " ON CONFLICT (tenant, owner, id) DO NOTHING"
                  " RETURNING number",
                  "ttttttttti", chat_item_id(item), who->tenant, who->key,
                  chat_item_type(item), body, item->result ? item->result : "",
                  response, item->session, item->execution,
                  item->created_at_ms);
    if (r > 0)
        item->number = store_int(row, 0);
    return r;
}

static int store_files(struct store_tx *tx, const struct chat_item *item,
                       struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < item->file_count && r >= 0; i++) {
        const struct chat_item_file *f = &item->files[i];

        r = store_exec(tx, err,
                       "INSERT INTO chat_item_files (item, position, file,"
                       " version, path, change, size)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                       "iitttti", item->number, (int64_t)i, f->file,
                       f->version, f->path, f->change, (int64_t)f->size);
    }
    return MIN(r, 0);
}

/* An id that the owner has given to another item is replaced. */
static int store_item(struct chat *c, struct store_tx *tx,
                      const struct actor *who, const char *response,
                      struct chat_item *item, struct error *err)
{
    char prefix[16];
    json_t *renamed;
    int r;

    if (!item->created_at_ms)
        item->created_at_ms = clock_real_ms();
    r = insert(c, tx, who, response, item, err);
    if (r == 0) {
        (void)snprintf(prefix, sizeof(prefix), "%.*s",
                       (int)strcspn(chat_item_id(item), "_"),
                       chat_item_id(item));
        renamed = json_copy(item->body);
        chat_item_make_id(renamed, prefix[0] ? prefix : "item");
        json_decref(item->body);
        item->body = renamed;
        r = insert(c, tx, who, response, item, err);
    }
    if (r == 0)
        r = error_set(err, ERR_CONFLICT, "an item of this id exists");
    return r < 0 ? r : store_files(tx, item, err);
}

int chat_items_store(struct chat *c, struct store_tx *tx,
                     const struct actor *who, const char *response,
                     struct chat_items *items, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < items->count && r == 0; i++)
        if (!items->list[i].kept)
            r = store_item(c, tx, who, response, &items->list[i], err);
    return r;
}

void chat_items_kept(struct chat_items *items)
{
    for (size_t i = 0; i < items->count; i++)
        items->list[i].kept = items->list[i].number != 0;
}

int chat_items_collect(struct store_tx *tx, struct error *err)
{
    int r =
        store_exec(tx, err,
                   "DELETE FROM chat_items WHERE number IN"
                   " (SELECT item FROM chat_items_loose)"
                   " AND NOT EXISTS (SELECT 1 FROM chat_response_items r"
                   "  WHERE r.item = chat_items.number)"
                   " AND NOT EXISTS (SELECT 1 FROM chat_conversation_items v"
                   "  WHERE v.item = chat_items.number)",
                   "");

    if (r >= 0)
        r = store_exec(tx, err, "DELETE FROM chat_items_loose", "");
    return MIN(r, 0);
}

/* ---- reading ------------------------------------------------------------ */

static int read_item(struct store_rows *row, struct chat_item *ret,
                     struct error *err)
{
    const char *body = store_text(row, 1), *result = store_text(row, 2);
    json_t *json = NULL;
    int r = json_parse(body, strlen(body), &json, err);

    if (r < 0)
        return error_wrap(err, "item %lld", (long long)store_int(row, 0));
    *ret = (struct chat_item){.number = store_int(row, 0),
                              .kept = true,
                              .body = json,
                              .created_at_ms = store_int(row, 5)};
    if (result && *result)
        ret->result = xstrdup(result);
    store_copy(row, 3, ret->execution, sizeof(ret->execution));
    store_copy(row, 4, ret->session, sizeof(ret->session));
    return 0;
}

static int read_files(struct store_tx *tx, struct chat_item *item,
                      struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(tx, &rows, err,
                        "SELECT file, version, path, change, size"
                        " FROM chat_item_files WHERE item = ?1"
                        " ORDER BY position",
                        "i", item->number);

    while (r >= 0 && (r = store_next(rows, err)) > 0)
        chat_item_add_file(item, store_text(rows, 0), store_text(rows, 1),
                           store_text(rows, 2), store_text(rows, 3),
                           (uint64_t)store_int(rows, 4));
    return r;
}

/* Adds every row; rows: taken. */
static int read_all(struct store_tx *tx, struct store_rows *rows,
                    struct chat_items *ret, struct error *err)
{
    size_t first = ret->count;
    int r;

    while ((r = store_next(rows, err)) > 0) {
        struct chat_item item = {0};

        r = read_item(rows, &item, err);
        if (r < 0)
            break;
        *chat_items_add(ret, NULL) = item;
    }
    store_rows_done(&rows);
    for (size_t i = first; i < ret->count && r >= 0; i++)
        r = read_files(tx, &ret->list[i], err);
    return MIN(r, 0);
}

int chat_items_of_response(struct store_tx *tx, const char *response, int part,
                           struct chat_items *ret, struct error *err)
{
    struct store_rows *rows = NULL;
    int r = store_query(tx, &rows, err,
                        "SELECT" COLUMNS "FROM chat_response_items l"
                        " JOIN chat_items i ON i.number = l.item"
                        " WHERE l.response = ?1 AND l.part = ?2"
                        " ORDER BY l.position",
                        "ti", response, (int64_t)part);

    return r < 0 ? r : read_all(tx, rows, ret, err);
}

int chat_items_of_conversation(struct store_tx *tx, const char *conversation,
                               struct chat_items *ret, struct error *err)
{
    struct store_rows *rows = NULL;
    int r = store_query(tx, &rows, err,
                        "SELECT" COLUMNS "FROM chat_conversation_items l"
                        " JOIN chat_items i ON i.number = l.item"
                        " WHERE l.conversation = ?1 ORDER BY l.position",
                        "t", conversation);

    return r < 0 ? r : read_all(tx, rows, ret, err);
}

int chat_items_lookup(struct store_tx *tx, const struct actor *who,
                      const char *id, struct chat_item *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT" COLUMNS
                      "FROM chat_items i WHERE i.tenant = ?1 AND i.owner = ?2"
                      " AND i.id = ?3",
                      "ttt", who->tenant, who->key, id);

    if (r <= 0)
        return r;
    r = read_item(row, ret, err);
    if (r == 0)
        r = read_files(tx, ret, err);
    if (r < 0) {
        chat_item_done(ret);
        return r;
    }
    return 1;
}

int chat_items_find(struct chat *c, const struct actor *who, const char *id,
                    struct chat_item *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(c->parts.core->store, STORE_READ, "finding an item",
                        &tx, err);

    if (r == 0)
        r = chat_items_lookup(tx, who, id, ret, err);
    if (r == 0)
        r = error_set(err, ERR_NOT_FOUND, "no such item");
    return MIN(r, 0);
}
