/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversations as clients manage them; see conversations.h. Runs on workers
 * of the daemon. A call that changes items takes the lock of the conversation,
 * which a response has while it runs; calls that only read never wait.
 */
#include "chat/conversations.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "core/core.h"
#include "session/session.h"
#include "store/store.h"
#include "workspace/workspace.h"
#include "json/json.h"

#define STOP_WAIT_MS 10000u /* for a response that was told to stop */

static struct store *store_of(const struct chat *c)
{
    return c->parts.core->store;
}

static int not_found(const char *id, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "Conversation with id '%.80s' not found.", id);
}

static int item_not_found(const char *item, const char *id, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "Item with id '%.80s' not found in conversation '%.80s'.",
                     item, id);
}

static int note(const struct chat *c, struct store_tx *tx,
                const struct actor *who, const char *action,
                const struct chat_conversation *v, const char *detail,
                struct error *err)
{
    struct audit_event event = {.action = action,
                                .object = v->id,
                                .workspace =
                                    v->workspace[0] ? v->workspace : NULL,
                                .detail = detail};

    return audit_add(c->parts.core->audit, tx, who, &event, err);
}

/* ---- metadata ------------------------------------------------------------
 */

static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

int chat_metadata_check(const json_t *metadata, struct chat_fault *fault,
                        struct error *err)
{
    const char *key;
    json_t *value;

    if (!metadata || json_is_null(metadata))
        return 0;
    if (!json_is_object(metadata))
        return chat_invalid(fault, "invalid_type", "metadata", err,
                            "Invalid type for 'metadata': expected an "
                            "object.");
    if (json_object_size(metadata) > CHAT_METADATA_PAIRS)
        return chat_invalid(
            fault, "object_above_max_properties", "metadata", err,
            "Invalid 'metadata': too many properties. Expected an object with "
            "at most %u properties, but got an object with %zu properties "
            "instead.",
            CHAT_METADATA_PAIRS, json_object_size(metadata));
    json_object_foreach ((json_t *)metadata, key, value) {
        if (characters(key) > CHAT_METADATA_KEY)
            return chat_invalid(fault, "property_name_above_max_length",
                                "metadata", err,
                                "Invalid 'metadata': a key has %zu "
                                "characters; expected at most %u.",
                                characters(key), CHAT_METADATA_KEY);
        if (!json_is_string(value))
            return chat_invalid(fault, "invalid_type", "metadata", err,
                                "Invalid type for 'metadata.%.64s': expected "
                                "a string.",
                                key);
        if (characters(json_string_value(value)) > CHAT_METADATA_VALUE)
            return chat_invalid(fault, "string_above_max_length", "metadata",
                                err,
                                "Invalid 'metadata.%.64s': string too long. "
                                "Expected a string with maximum length %u, "
                                "but got a string with length %zu instead.",
                                key, CHAT_METADATA_VALUE,
                                characters(json_string_value(value)));
    }
    return 0;
}

static char *metadata_text(const json_t *metadata)
{
    return json_is_object(metadata) ? json_dumps(metadata, JSON_COMPACT)
                                    : xstrdup("{}");
}

/* ---- create -------------------------------------------------------------
 */

static int check_number(struct store_tx *tx, const struct actor *who,
                        struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT count(*) FROM chat_conversations"
                      " WHERE tenant = ?1 AND owner = ?2",
                      "tt", who->tenant, who->key);

    if (r > 0 && store_int(row, 0) >= CHAT_CONVERSATIONS) {
        (void)error_set(err, ERR_LIMIT, "there are %u conversations already",
                        CHAT_CONVERSATIONS);
        return error_hint(err, "Delete some, or set conversation_days.");
    }
    return MIN(r, 0);
}

/* Stores items and puts them at the end of a conversation. */
static int append(struct chat *c, struct store_tx *tx, const struct actor *who,
                  const char *id, struct chat_items *items, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r;

    if (items->count == 0)
        return 0;
    r = store_one(tx, &row, err,
                  "SELECT count(*) FROM chat_conversation_items"
                  " WHERE conversation = ?1",
                  "t", id);
    if (r > 0 &&
        store_int(row, 0) + (int64_t)items->count > CHAT_CONVERSATION_ITEMS) {
        (void)error_set(err, ERR_INVALID,
                        "a conversation has at most %u items",
                        CHAT_CONVERSATION_ITEMS);
        return error_hint(err, "Begin another one, or delete items of it.");
    }
    if (r >= 0)
        r = chat_items_store(c, tx, who, "", items, err);
    return r < 0 ? r : chat_conversation_append(tx, id, items, err);
}

int chat_conversations_create(struct chat *c, const struct actor *who,
                              const json_t *items, const json_t *metadata,
                              struct chat_conversation *ret,
                              struct chat_fault *fault, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_items list cleanup(chat_items_done) = {0};
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    int r = chat_metadata_check(metadata, fault, err);

    if (r == 0 && items && !json_is_null(items))
        r = chat_items_read(c, who, items, "items", CHAT_ITEMS_A_CALL, &list,
                            fault, err);
    if (r < 0)
        return r;
    ids_make_dated("conv", v.id);
    v.metadata = metadata_text(metadata);
    v.title = xstrdup("");
    v.created_at_ms = v.updated_at_ms = clock_real_ms();
    r = store_begin(store_of(c), STORE_WRITE, "making a conversation", &tx,
                    err);
    if (r == 0)
        r = check_number(tx, who, err);
    if (r == 0)
        r = MIN(store_exec(tx, err,
                           "INSERT INTO chat_conversations (id, tenant, owner,"
                           " metadata, created_at_ms, updated_at_ms)"
                           " VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
                           "tttti", v.id, who->tenant, who->key, v.metadata,
                           v.created_at_ms),
                0);
    if (r == 0)
        r = append(c, tx, who, v.id, &list, err);
    if (r == 0)
        r = note(c, tx, who, "conversation.create", &v, NULL, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0) {
        *ret = v;
        v = (struct chat_conversation){.title = NULL};
    }
    return r;
}

/* ---- change -------------------------------------------------------------
 */

static int check_title(const char *title, struct chat_fault *fault,
                       struct error *err)
{
    if (!title || strlen(title) <= CHAT_TITLE_MAX)
        return 0;
    return chat_invalid(fault, "string_above_max_length", "title", err,
                        "a title has at most %u bytes", CHAT_TITLE_MAX);
}

int chat_conversations_update(struct chat *c, const struct actor *who,
                              const char *id, const json_t *metadata,
                              const char *title, struct chat_conversation *ret,
                              struct chat_fault *fault, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    char *text cleanup(mem_free) = NULL;
    int r = chat_conversation_find(c, who, id, &v, err);

    if (r == 0)
        r = chat_metadata_check(metadata, fault, err);
    if (r == 0)
        r = check_title(title, fault, err);
    if (r < 0)
        return r;
    text = metadata ? metadata_text(metadata) : NULL;
    r = store_begin(store_of(c), STORE_WRITE, "changing a conversation", &tx,
                    err);
    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE chat_conversations SET"
                       " metadata = coalesce(?2, metadata),"
                       " title = coalesce(?3, title), updated_at_ms = ?4"
                       " WHERE id = ?1",
                       "ttti", v.id, text, title, clock_real_ms());
    if (r == 0)
        return not_found(id, err);
    if (r > 0)
        r = note(c, tx, who, "conversation.update", &v,
                 metadata && title ? "metadata, title"
                 : metadata        ? "metadata"
                                   : "title",
                 err);
    if (r == 0)
        r = store_commit(&tx, err);
    return r < 0 ? r : chat_conversation_find(c, who, v.id, ret, err);
}

/* ---- delete -------------------------------------------------------------
 */

/* Its files, unless the workspace was given a name or others use it. */
static int delete_workspace(struct chat *c, const struct actor *who,
                            const struct chat_conversation *v,
                            struct error *err)
{
    struct workspace_info info;
    int r = v->workspace[0] ? workspace_get(c->parts.workspaces, who,
                                            v->workspace, &info, err)
                            : -ERR_NOT_FOUND;

    if (r == 0 && info.legal_hold)
        return error_set(err, ERR_CONFLICT,
                         "the workspace of the conversation is under legal "
                         "hold, so the conversation stays");
    if (v->session[0] && (r == 0 || r == -ERR_NOT_FOUND)) {
        struct error ignored;
        int gone =
            session_delete(c->parts.sessions, who, v->session, &ignored);

        if (gone < 0 && gone != -ERR_NOT_FOUND) {
            *err = ignored;
            return gone;
        }
    }
    if (r == 0 && info.made_for_session && !info.name[0] &&
        info.role == ROLE_OWNER)
        r = workspace_delete(c->parts.workspaces, who, v->workspace, err);
    /* Not there any more, or never was. */
    return r == -ERR_NOT_FOUND || r == -ERR_FORBIDDEN ? 0 : r;
}

int chat_conversations_drop(struct chat *c, const struct actor *who,
                            const struct chat_conversation *v, bool responses,
                            const char *action, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = delete_workspace(c, who, v, err);

    if (r == 0)
        r = store_begin(store_of(c), STORE_WRITE, "deleting a conversation",
                        &tx, err);
    if (r == 0)
        r = store_exec(tx, err, "DELETE FROM chat_conversations WHERE id = ?1",
                       "t", v->id);
    if (r == 0)
        return not_found(v->id, err);
    if (r > 0)
        r = responses ? store_exec(tx, err,
                                   "DELETE FROM chat_responses"
                                   " WHERE conversation = ?1",
                                   "t", v->id)
                      : 0;
    if (r >= 0)
        r = chat_items_collect(tx, err);
    if (r >= 0)
        r = note(c, tx, who, action, v, NULL, err);
    if (r >= 0)
        r = store_commit(&tx, err);
    if (r == 0 && responses)
        chat_forget(c, "", v->id);
    return r;
}

int chat_conversations_delete(struct chat *c, const struct actor *who,
                              const char *id, bool responses,
                              struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    int r = chat_conversation_find(c, who, id, &v, err);

    if (r < 0)
        return r;
    chat_cancel_conversation(c, v.id);
    r = chat_conversation_lock(c, v.id, STOP_WAIT_MS, err);
    if (r < 0)
        return r;
    r = chat_conversations_drop(c, who, &v, responses, "conversation.delete",
                                err);
    chat_conversation_unlock(c, v.id);
    return r;
}

/* ---- items --------------------------------------------------------------
 */

int chat_conversations_add(struct chat *c, const struct actor *who,
                           const char *id, const json_t *items,
                           struct chat_items *ret, struct chat_fault *fault,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_items list cleanup(chat_items_done) = {0};
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    char detail[32];
    int r = chat_conversation_find(c, who, id, &v, err);

    if (r == 0)
        r = chat_items_read(c, who, items, "items", CHAT_ITEMS_A_CALL, &list,
                            fault, err);
    if (r == 0)
        r = chat_conversation_lock(c, v.id, CHAT_LOCK_WAIT_MS, err);
    if (r < 0)
        return r;
    (void)snprintf(detail, sizeof(detail), "%zu added", list.count);
    r = store_begin(store_of(c), STORE_WRITE, "adding to a conversation", &tx,
                    err);
    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE chat_conversations SET updated_at_ms = ?2"
                       " WHERE id = ?1",
                       "ti", v.id, clock_real_ms());
    r = r == 0 ? not_found(id, err) : MIN(r, 0); /* deleted meanwhile */
    if (r == 0)
        r = append(c, tx, who, v.id, &list, err);
    if (r == 0)
        r = note(c, tx, who, "conversation.items", &v, detail, err);
    if (r == 0)
        r = store_commit(&tx, err);
    chat_conversation_unlock(c, v.id);
    if (r == 0) {
        *ret = list;
        list = (struct chat_items){0};
    }
    return r;
}

/* Where an item stands: 1, 0: it is not in the conversation, or -code. */
static int find_position(struct store_tx *tx, const struct actor *who,
                         const char *id, const char *item, int64_t *ret,
                         struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT ci.position FROM chat_items AS i"
                      " JOIN chat_conversation_items AS ci"
                      "  ON ci.item = i.number AND ci.conversation = ?1"
                      " WHERE i.tenant = ?2 AND i.owner = ?3 AND i.id = ?4",
                      "tttt", id, who->tenant, who->key, item);

    if (r > 0)
        *ret = store_int(row, 0);
    return r;
}

/* The ids of a page, one more than it has if there are more. ret: owned. */
static int page_ids(struct store_tx *tx, const char *id,
                    const struct chat_page *page, int64_t from,
                    char (**ret)[CHAT_ITEM_ID], size_t *ret_count,
                    struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char(*list)[CHAT_ITEM_ID] = xcalloc(page->limit + 1, sizeof(*list));
    size_t count = 0;
    int r = store_query(
        tx, &rows, err,
        page->oldest_first ? "SELECT i.id FROM chat_conversation_items AS ci"
                             " JOIN chat_items AS i ON i.number = ci.item"
                             " WHERE ci.conversation = ?1 AND ci.position > ?2"
                             " ORDER BY ci.position LIMIT ?3"
                           : "SELECT i.id FROM chat_conversation_items AS ci"
                             " JOIN chat_items AS i ON i.number = ci.item"
                             " WHERE ci.conversation = ?1 AND ci.position < ?2"
                             " ORDER BY ci.position DESC LIMIT ?3",
        "tii", id, from, (int64_t)page->limit + 1);

    while (r == 0 && count <= page->limit && (r = store_next(rows, err)) > 0) {
        store_copy(rows, 0, list[count++], CHAT_ITEM_ID);
        r = 0;
    }
    if (r < 0) {
        free(list);
        return r;
    }
    *ret = list;
    *ret_count = count;
    return 0;
}

int chat_conversations_page(struct chat *c, const struct actor *who,
                            const char *id, const struct chat_page *page,
                            struct chat_items *ret, bool *ret_more,
                            struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    int64_t from = page->oldest_first ? INT64_MIN : INT64_MAX;
    char(*list)[CHAT_ITEM_ID] = NULL;
    size_t count = 0;
    int r = chat_conversation_find(c, who, id, &v, err);

    *ret_more = false;
    if (r == 0)
        r = store_begin(store_of(c), STORE_READ, "listing items", &tx, err);
    if (r == 0 && page->after) {
        r = find_position(tx, who, v.id, page->after, &from, err);
        if (r <= 0)
            return r; /* whatever it was, nothing comes after it */
        r = 0;
    }
    if (r == 0)
        r = page_ids(tx, v.id, page, from, &list, &count, err);
    *ret_more = r == 0 && count > page->limit;
    for (size_t i = 0; r == 0 && i < MIN(count, (size_t)page->limit); i++) {
        struct chat_item item cleanup(chat_item_done) = {0};

        r = chat_items_lookup(tx, who, list[i], &item, err);
        if (r > 0)
            chat_items_copy(ret, &item);
        r = MIN(r, 0);
    }
    free(list);
    return r;
}

int chat_conversations_item(struct chat *c, const struct actor *who,
                            const char *id, const char *item,
                            struct chat_item *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    int64_t ignored;
    int r = chat_conversation_find(c, who, id, &v, err);

    if (r == 0)
        r = store_begin(store_of(c), STORE_READ, "finding an item", &tx, err);
    if (r < 0)
        return r;
    r = find_position(tx, who, v.id, item, &ignored, err);
    if (r > 0)
        r = chat_items_lookup(tx, who, item, ret, err);
    return r == 0 ? item_not_found(item, id, err) : MIN(r, 0);
}

int chat_conversations_remove(struct chat *c, const struct actor *who,
                              const char *id, const char *item,
                              struct chat_conversation *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    int64_t position = 0;
    int r = chat_conversation_find(c, who, id, &v, err);

    if (r == 0)
        r = chat_conversation_lock(c, v.id, CHAT_LOCK_WAIT_MS, err);
    if (r < 0)
        return r;
    r = store_begin(store_of(c), STORE_WRITE, "deleting an item", &tx, err);
    if (r == 0) {
        r = find_position(tx, who, v.id, item, &position, err);
        r = r == 0 ? item_not_found(item, id, err) : MIN(r, 0);
    }
    if (r == 0)
        r = MIN(store_exec(tx, err,
                           "DELETE FROM chat_conversation_items"
                           " WHERE conversation = ?1 AND position = ?2",
                           "ti", v.id, position),
                0);
    if (r == 0)
        r = chat_items_collect(tx, err);
    if (r >= 0)
        r = note(c, tx, who, "conversation.items", &v, "1 deleted", err);
    if (r == 0)
        r = store_commit(&tx, err);
    chat_conversation_unlock(c, v.id);
    if (r == 0) {
        *ret = v;
        v = (struct chat_conversation){.title = NULL};
    }
    return r;
}

/* ---- lists --------------------------------------------------------------
 */

#define SUMMARY_SQL                                                           \
    "SELECT v.id, v.metadata, v.title, v.session, v.workspace, v.model,"      \
    " v.agent, v.created_at_ms, v.updated_at_ms,"                             \
    " (SELECT count(*) FROM chat_conversation_items AS ci"                    \
    "  JOIN chat_items AS i ON i.number = ci.item"                            \
    "  WHERE ci.conversation = v.id AND i.kind = 'message'),"                 \
    " (SELECT count(*) FROM chat_conversation_items AS ci"                    \
    "  JOIN chat_items AS i ON i.number = ci.item"                            \
    "  WHERE ci.conversation = v.id AND i.execution <> ''),"                  \
    " (SELECT count(DISTINCT f.file) FROM chat_conversation_items AS ci"      \
    "  JOIN chat_item_files AS f ON f.item = ci.item"                         \
    "  WHERE ci.conversation = v.id)"                                         \
    " FROM chat_conversations AS v"                                           \
    " WHERE v.tenant = ?1 AND v.owner = ?2"

static void take_summary(struct store_rows *rows,
                         struct chat_conversation_summary *ret)
{
    *ret = (struct chat_conversation_summary){
        .is = {.metadata = xstrdup(store_text(rows, 1)),
               .title = xstrdup(store_text(rows, 2)),
               .created_at_ms = store_int(rows, 7),
               .updated_at_ms = store_int(rows, 8)},
        .messages = (uint64_t)store_int(rows, 9),
        .executions = (uint64_t)store_int(rows, 10),
        .files = (uint64_t)store_int(rows, 11)};
    store_copy(rows, 0, ret->is.id, sizeof(ret->is.id));
    store_copy(rows, 3, ret->is.session, sizeof(ret->is.session));
    store_copy(rows, 4, ret->is.workspace, sizeof(ret->is.workspace));
    store_copy(rows, 5, ret->is.model, sizeof(ret->is.model));
    store_copy(rows, 6, ret->is.agent, sizeof(ret->is.agent));
}

void chat_conversation_summaries_free(struct chat_conversation_summary *list,
                                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        chat_conversation_done(&list[i].is);
    free(list);
}

int chat_conversations_list(struct chat *c, const struct actor *who,
                            const struct chat_conversation_filter *filter,
                            struct chat_conversation_summary **ret,
                            size_t *ret_count, bool *ret_more,
                            struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct chat_conversation_summary *list =
        xcalloc(filter->limit + 1, sizeof(*list));
    size_t count = 0;
    int r = store_begin(store_of(c), STORE_READ, "listing conversations", &tx,
                        err);

    if (r == 0 && !actor_bounded(who))
        r = store_query(
            tx, &rows, err,
            SUMMARY_SQL
            " AND (?3 = '' OR replace(v.id, ?3, '') <> v.id"
            "  OR replace(lower(v.title), lower(?3), '') <> lower(v.title))"
            " AND (v.updated_at_ms < ?4"
            "  OR (v.updated_at_ms = ?4 AND v.id > ?5))"
            " ORDER BY v.updated_at_ms DESC, v.id LIMIT ?6",
            "tttiti", who->tenant, who->key, filter->part, filter->at_ms,
            filter->id, (int64_t)filter->limit + 1);
    while (r == 0 && rows && count <= filter->limit &&
           (r = store_next(rows, err)) > 0) {
        take_summary(rows, &list[count++]);
        r = 0;
    }
    if (r < 0) {
        chat_conversation_summaries_free(list, count);
        return r;
    }
    *ret_more = count > filter->limit;
    if (*ret_more)
        chat_conversation_done(&list[--count].is);
    *ret = list;
    *ret_count = count;
    return 0;
}

int chat_conversations_summary(struct chat *c, const struct actor *who,
                               const char *id,
                               struct chat_conversation_summary *ret,
                               struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_begin(store_of(c), STORE_READ, "finding a conversation", &tx,
                        err);

    if (r == 0)
        r = store_one(tx, &row, err, SUMMARY_SQL " AND v.id = ?3", "ttt",
                      who->tenant, who->key, id);
    if (r < 0)
        return r;
    if (r == 0 || actor_bounded(who))
        return not_found(id, err);
    take_summary(row, ret);
    return 0;
}
