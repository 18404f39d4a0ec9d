/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored chat completions; see conversations.h. The completion is kept as it
 * was sent, with the messages it answers; its code and files are those of the
 * response behind it. Runs on workers of the daemon.
 */
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "chat/conversations.h"
#include "core/core.h"
#include "store/store.h"
#include "workspace/workspace.h"

void chat_completion_done(struct chat_completion *v)
{
    free(v->metadata);
    free(v->body);
    free(v->messages);
}

void chat_completions_free(struct chat_completion *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        chat_completion_done(&list[i]);
    free(list);
}

static int not_found(const char *id, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "Chat completion with id '%.80s' not found.", id);
}

static int note(const struct chat *c, struct store_tx *tx,
                const struct actor *who, const char *action, const char *id,
                struct error *err)
{
    return audit_add(c->parts.core->audit, tx, who,
                     &(struct audit_event){.action = action, .object = id},
                     err);
}

int chat_completions_store(struct chat *c, const struct actor *who,
                           const struct chat_completion *v, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(c->parts.core->store, STORE_WRITE,
                        "storing a completion", &tx, err);

    if (r == 0)
        r = workspace_storage_add(c->parts.workspaces, tx, who->tenant,
                                  strlen(v->body) + strlen(v->messages), err);
    if (r == 0)
        r = MIN(store_exec(tx, err,
                           "INSERT INTO chat_completions (id, tenant, owner,"
                           " response, session, model, metadata, body,"
                           " messages, created_at_ms) VALUES"
                           " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                           "ttttttttti", v->id, who->tenant, who->key,
                           v->response, v->session, v->model, v->metadata,
                           v->body, v->messages, v->created_at_ms),
                0);
    if (r == 0)
        r = note(c, tx, who, "completion.create", v->id, err);
    return r < 0 ? r : store_commit(&tx, err);
}

#define COLUMNS                                                               \
    "id, response, session, model, metadata, body, messages, created_at_ms"

static void take(struct store_rows *rows, struct chat_completion *ret)
{
    *ret = (struct chat_completion){.metadata = xstrdup(store_text(rows, 4)),
                                    .body = xstrdup(store_text(rows, 5)),
                                    .messages = xstrdup(store_text(rows, 6)),
                                    .created_at_ms = store_int(rows, 7)};
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    store_copy(rows, 1, ret->response, sizeof(ret->response));
    store_copy(rows, 2, ret->session, sizeof(ret->session));
    store_copy(rows, 3, ret->model, sizeof(ret->model));
}

static int find(struct store_tx *tx, const struct actor *who, const char *id,
                struct chat_completion *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT " COLUMNS " FROM chat_completions"
                      " WHERE id = ?1 AND tenant = ?2 AND owner = ?3",
                      "ttt", id, who->tenant, who->key);

    if (r == 0 || (r > 0 && actor_bounded(who)))
        return not_found(id, err);
    if (r > 0)
        take(row, ret);
    return MIN(r, 0);
}

int chat_completions_find(struct chat *c, const struct actor *who,
                          const char *id, struct chat_completion *ret,
                          struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(c->parts.core->store, STORE_READ,
                        "finding a completion", &tx, err);

    return r < 0 ? r : find(tx, who, id, ret, err);
}

int chat_completions_update(struct chat *c, const struct actor *who,
                            const char *id, const json_t *metadata,
                            struct chat_completion *ret,
                            struct chat_fault *fault, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_completion v cleanup(chat_completion_done) = {.body = NULL};
    char *text cleanup(mem_free) = NULL;
    int r = chat_metadata_check(metadata, fault, err);

    if (r == 0)
        r = store_begin(c->parts.core->store, STORE_WRITE,
                        "changing a completion", &tx, err);
    if (r == 0)
        r = find(tx, who, id, &v, err);
    if (r < 0)
        return r;
    text = json_dumps(metadata, JSON_COMPACT);
    r = MIN(store_exec(tx, err,
                       "UPDATE chat_completions SET metadata = ?2"
                       " WHERE id = ?1",
                       "tt", v.id, text),
            0);
    if (r == 0)
        r = note(c, tx, who, "completion.update", v.id, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    free(v.metadata);
    v.metadata = take_ptr(text);
    *ret = v;
    v = (struct chat_completion){.body = NULL};
    return 0;
}

int chat_completions_delete(struct chat *c, const struct actor *who,
                            const char *id, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_completion v cleanup(chat_completion_done) = {.body = NULL};
    int r = store_begin(c->parts.core->store, STORE_WRITE,
                        "deleting a completion", &tx, err);

    if (r == 0)
        r = find(tx, who, id, &v, err);
    if (r == 0)
        r = store_exec(tx, err, "DELETE FROM chat_completions WHERE id = ?1",
                       "t", v.id);
    if (r >= 0)
        r = store_exec(tx, err, "DELETE FROM chat_responses WHERE id = ?1",
                       "t", v.response);
    if (r >= 0)
        r = chat_items_collect(tx, err);
    if (r >= 0)
        r = note(c, tx, who, "completion.delete", v.id, err);
    if (r >= 0)
        r = store_commit(&tx, err);
    if (r == 0)
        chat_forget(c, v.response, "");
    return r;
}

/* Where the list goes on; 0: that one is not there. */
static int find_place(struct store_tx *tx, const struct actor *who,
                      const char *after, int64_t *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT created_at_ms FROM chat_completions"
                      " WHERE id = ?1 AND tenant = ?2 AND owner = ?3",
                      "ttt", after, who->tenant, who->key);

    if (r > 0)
        *ret = store_int(row, 0);
    return r;
}

int chat_completions_list(struct chat *c, const struct actor *who,
                          const char *model, const struct chat_page *page,
                          struct chat_completion **ret, size_t *ret_count,
                          bool *ret_more, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct chat_completion *list;
    int64_t at_ms = page->oldest_first ? INT64_MIN : INT64_MAX;
    size_t count = 0;
    int r = store_begin(c->parts.core->store, STORE_READ,
                        "listing completions", &tx, err);

    *ret = NULL;
    *ret_count = 0;
    *ret_more = false;
    if (r == 0 && page->after) {
        r = find_place(tx, who, page->after, &at_ms, err);
        if (r <= 0)
            return r;
        r = 0;
    }
    if (r == 0)
        r = store_query(
            tx, &rows, err,
            page->oldest_first
                ? "SELECT " COLUMNS " FROM chat_completions"
                  " WHERE tenant = ?1 AND owner = ?2"
                  " AND (?3 = '' OR model = ?3) AND (created_at_ms > ?4"
                  "  OR (created_at_ms = ?4 AND id > ?5))"
                  " ORDER BY created_at_ms, id LIMIT ?6"
                : "SELECT " COLUMNS " FROM chat_completions"
                  " WHERE tenant = ?1 AND owner = ?2"
                  " AND (?3 = '' OR model = ?3) AND (created_at_ms < ?4"
                  "  OR (created_at_ms = ?4 AND id < ?5))"
                  " ORDER BY created_at_ms DESC, id DESC LIMIT ?6",
            "tttiti", who->tenant, who->key, model ? model : "", at_ms,
            page->after ? page->after : "", (int64_t)page->limit + 1);
    if (r < 0 || actor_bounded(who))
        return r;
    list = xcalloc(page->limit, sizeof(*list));
    while ((r = store_next(rows, err)) > 0 && count < page->limit)
        take(rows, &list[count++]);
    if (r < 0) {
        chat_completions_free(list, count);
        return r;
    }
    *ret = list;
    *ret_count = count;
    *ret_more = r > 0;
    return 0;
}
