/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes responses, stored completions and conversations that are over their
 * time (response_days, conversation_days). Runs in rounds of the collector,
 * which also removes what is left of deleted rows from the log of the store.
 * What belongs to a workspace under legal hold stays. Each removal is an event
 * without content.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "chat/conversations.h"
#include "conf/conf.h"
#include "core/core.h"
#include "store/store.h"
#include "workspace/workspace.h"

#define BATCH 50 /* rows in a transaction */
#define DAY_MS 86400000ll

/* One that may be over its time; the list is in the order of age. */
struct candidate {
    int64_t at_ms;
    char id[ID_MAX], tenant[64], session[ID_MAX], workspace[ID_MAX];
    char response[ID_MAX]; /* behind a completion */
};

/* What is removed by age alone. */
struct kind {
    const char *action;
    /* After ?2 and ?3, older than ?1, at most ?4: id, tenant, session, the
     * workspace of its conversation, the response behind it, its time. */
    const char *find;
    const char *remove; /* ?1 */
};

static const struct kind kinds[] = {
    {"response.expire",
     "SELECT r.id, r.tenant, r.session, coalesce(v.workspace, ''), '',"
     " r.created_at_ms FROM chat_responses AS r"
     " LEFT JOIN chat_conversations AS v ON v.id = r.conversation"
     " WHERE r.created_at_ms < ?1 AND r.completed_at_ms > 0"
     " AND (r.created_at_ms > ?2 OR (r.created_at_ms = ?2 AND r.id > ?3))"
     " ORDER BY r.created_at_ms, r.id LIMIT ?4",
     "DELETE FROM chat_responses WHERE id = ?1"},
    {"completion.expire",
     "SELECT k.id, k.tenant, k.session, '', k.response, k.created_at_ms"
     " FROM chat_completions AS k WHERE k.created_at_ms < ?1"
     " AND (k.created_at_ms > ?2 OR (k.created_at_ms = ?2 AND k.id > ?3))"
     " ORDER BY k.created_at_ms, k.id LIMIT ?4",
     "DELETE FROM chat_completions WHERE id = ?1"},
};

/* The next batch after the last one of `list`; only reads, so that commits do
 * not wait. */
static int find_batch(struct chat *c, const char *sql, int64_t before_ms,
                      struct candidate *list, size_t *count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct candidate last = {.at_ms = INT64_MIN};
    int r = store_begin(c->parts.core->store, STORE_READ,
                        "looking for what is old", &tx, err);

    if (*count)
        last = list[*count - 1];
    *count = 0;
    if (r == 0)
        r = store_query(tx, &rows, err, sql, "iiti", before_ms, last.at_ms,
                        last.id, (int64_t)BATCH);
    while (r == 0 && *count < BATCH && (r = store_next(rows, err)) > 0) {
        struct candidate *one = &list[(*count)++];

        store_copy(rows, 0, one->id, sizeof(one->id));
        store_copy(rows, 1, one->tenant, sizeof(one->tenant));
        store_copy(rows, 2, one->session, sizeof(one->session));
        store_copy(rows, 3, one->workspace, sizeof(one->workspace));
        store_copy(rows, 4, one->response, sizeof(one->response));
        one->at_ms = store_int(rows, 5);
        r = 0;
    }
    return r;
}

/* One of a batch, unless it is held or was deleted meanwhile. */
static int remove_one(struct chat *c, struct store_tx *tx,
                      const struct kind *kind, const struct candidate *one,
                      uint64_t *ret_removed, struct error *err)
{
    struct actor service = {.tenant = one->tenant, .key = "glovebox"};
    struct audit_event event = {.action = kind->action, .object = one->id};
    int r = workspace_held(tx, one->workspace, one->session, err);

    if (r != 0)
        return MIN(r, 0);
    r = store_exec(tx, err, kind->remove, "t", one->id);
    if (r <= 0)
        return r;
    ++*ret_removed;
    return audit_add(c->parts.core->audit, tx, &service, &event, err);
}

static int remove_batch(struct chat *c, const struct kind *kind,
                        const struct candidate *list, size_t count,
                        uint64_t *ret_removed, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    uint64_t removed = 0;
    int r = store_begin(c->parts.core->store, STORE_WRITE,
                        "deleting what is old", &tx, err);

    for (size_t i = 0; r == 0 && i < count; i++)
        r = remove_one(c, tx, kind, &list[i], &removed, err);
    if (r == 0)
        r = MIN(chat_items_collect(tx, err), 0);
    if (r == 0 && removed)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret_removed += removed;
    return r;
}

static int expire_kind(struct chat *c, const struct kind *kind,
                       int64_t before_ms, uint64_t *ret_removed,
                       struct error *err)
{
    struct candidate *list cleanup(mem_free) = xcalloc(BATCH, sizeof(*list));
    size_t count = 0;
    int r;

    do {
        r = find_batch(c, kind->find, before_ms, list, &count, err);
        if (r == 0 && count)
            r = remove_batch(c, kind, list, count, ret_removed, err);
    } while (r == 0 && count == BATCH && !chat_stopped(c));
    return r;
}

/* ---- conversations ------------------------------------------------------
 */

static const char conversations_sql[] =
    "SELECT v.id, v.tenant, v.session, v.workspace, '', v.updated_at_ms"
    " FROM chat_conversations AS v WHERE v.updated_at_ms < ?1"
    " AND (v.updated_at_ms > ?2 OR (v.updated_at_ms = ?2 AND v.id > ?3))"
    " ORDER BY v.updated_at_ms, v.id LIMIT ?4";

/* With its session and workspace, as if its owner had deleted it. One that is
 * used at this moment is left for the next round. */
static int expire_conversation(struct chat *c, const struct candidate *one,
                               uint64_t *ret_removed, struct error *err)
{
    struct actor service = {.tenant = one->tenant,
                            .key = "glovebox",
                            .admin = true,
                            .scopes = AUTH_ADMIN};
    struct chat_conversation v = {.title = NULL};
    int r;

    if (chat_conversation_lock(c, one->id, 0, err) < 0)
        return 0;
    memcpy(v.id, one->id, sizeof(v.id));
    memcpy(v.session, one->session, sizeof(v.session));
    memcpy(v.workspace, one->workspace, sizeof(v.workspace));
    r = chat_conversations_drop(c, &service, &v, true, "conversation.expire",
                                err);
    chat_conversation_unlock(c, one->id);
    *ret_removed += r == 0;
    /* Under legal hold, or deleted meanwhile. */
    return r == -ERR_CONFLICT || r == -ERR_NOT_FOUND ? 0 : r;
}

static int expire_conversations(struct chat *c, int64_t before_ms,
                                uint64_t *ret_removed, struct error *err)
{
    struct candidate *list cleanup(mem_free) = xcalloc(BATCH, sizeof(*list));
    size_t count = 0;
    int r;

    do {
        r = find_batch(c, conversations_sql, before_ms, list, &count, err);
        for (size_t i = 0; r == 0 && i < count; i++)
            r = expire_conversation(c, &list[i], ret_removed, err);
    } while (r == 0 && count == BATCH && !chat_stopped(c));
    return r;
}

int chat_retention_expire(void *ctx, uint64_t *ret_removed, struct error *err)
{
    struct chat *c = ctx;
    const struct conf *conf = c->parts.conf;
    int64_t now_ms = clock_real_ms();
    uint64_t removed = 0;
    int r = 0;

    if (conf->response_days)
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kinds); i++)
            r = expire_kind(c, &kinds[i],
                            now_ms - conf->response_days * DAY_MS, &removed,
                            err);
    if (r == 0 && conf->conversation_days)
        r = expire_conversations(c, now_ms - conf->conversation_days * DAY_MS,
                                 &removed, err);
    *ret_removed += removed;
    if (removed) {
        char count[24];

        (void)snprintf(count, sizeof(count), "%llu",
                       (unsigned long long)removed);
        log_event(LOG_INFO, "chat_expired", "count", count, NULL);
    }
    return r;
}
