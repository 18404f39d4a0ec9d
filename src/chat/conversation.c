/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversations as the loop needs them: found, locked for one writer at a
 * time, read as a context, added to, and the session that each owns. The lock
 * is in memory, because one process owns the store. Runs in gloveboxd.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "core/core.h"
#include "store/store.h"

struct chat_lock {
    struct chat_lock *next;
    char id[ID_MAX];
};

void chat_conversation_done(struct chat_conversation *v)
{
    free(v->metadata);
    free(v->title);
    *v = (struct chat_conversation){.id = ""};
}

int chat_conversation_find(struct chat *c, const struct actor *who,
                           const char *id, struct chat_conversation *ret,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_begin(c->parts.core->store, STORE_READ,
                        "finding a conversation", &tx, err);

    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT id, metadata, title, session, workspace, model,"
                      " agent, created_at_ms, updated_at_ms"
                      " FROM chat_conversations"
                      " WHERE id = ?1 AND tenant = ?2 AND owner = ?3",
                      "ttt", id, who->tenant, who->key);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND,
                         "Conversation with id '%.80s' not found.", id);
    *ret = (struct chat_conversation){.metadata = xstrdup(store_text(row, 1)),
                                      .title = xstrdup(store_text(row, 2)),
                                      .created_at_ms = store_int(row, 7),
                                      .updated_at_ms = store_int(row, 8)};
    store_copy(row, 0, ret->id, sizeof(ret->id));
    store_copy(row, 3, ret->session, sizeof(ret->session));
    store_copy(row, 4, ret->workspace, sizeof(ret->workspace));
    store_copy(row, 5, ret->model, sizeof(ret->model));
    store_copy(row, 6, ret->agent, sizeof(ret->agent));
    return 0;
}

/* ---- one writer --------------------------------------------------------- */

static struct chat_lock **find_lock(struct chat *c, const char *id)
{
    struct chat_lock **at = &c->locks;

    mutex_assert_held(&c->lock);
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static int refuse_busy(struct error *err)
{
    (void)error_set(err, ERR_CONFLICT,
                    "Another process is currently operating on this "
                    "conversation. Please retry in a few seconds.");
    return error_retry(err, 2);
}

int chat_conversation_lock(struct chat *c, const char *id, unsigned wait_ms,
                           struct error *err)
{
    uint64_t deadline = clock_mono_ms() + wait_ms;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);

    for (;;) {
        struct chat_lock **at = find_lock(c, id);

        if (!*at) {
            struct chat_lock *made = xcalloc(1, sizeof(*made));

            (void)snprintf(made->id, sizeof(made->id), "%s", id);
            *at = made;
            return 0;
        }
        if (c->stopping || !cond_wait_until(&c->gone, &c->lock, deadline))
            return refuse_busy(err);
    }
}

void chat_conversation_unlock(struct chat *c, const char *id)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);
    struct chat_lock **at = find_lock(c, id), *gone = *at;

    if (!gone)
        return;
    *at = gone->next;
    free(gone);
    cond_broadcast(&c->gone);
}

/* ---- its items ---------------------------------------------------------- */

int chat_conversation_items(struct chat *c, const struct actor *who,
                            const char *id, struct chat_items *ret,
                            struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.id = ""};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = chat_conversation_find(c, who, id, &v, err);

    if (r == 0)
        r = store_begin(c->parts.core->store, STORE_READ,
                        "reading a conversation", &tx, err);
    return r < 0 ? r : chat_items_of_conversation(tx, id, ret, err);
}

int chat_conversation_append(struct store_tx *tx, const char *id,
                             const struct chat_items *items, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < items->count && r >= 0; i++)
        r = store_exec(
            tx, err,
            "INSERT INTO chat_conversation_items (conversation, position,"
            " item) VALUES (?1, (SELECT coalesce(max(position), 0) + 1"
            " FROM chat_conversation_items WHERE conversation = ?1), ?2)"
            " ON CONFLICT (conversation, item) DO NOTHING",
            "ti", id, items->list[i].number);
    if (r >= 0)
        r = store_exec(tx, err,
                       "UPDATE chat_conversations SET updated_at_ms = ?2"
                       " WHERE id = ?1",
                       "ti", id, clock_real_ms());
    return MIN(r, 0);
}

int chat_conversation_own(struct store_tx *tx, const char *id,
                          const char *session, const char *workspace,
                          struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE chat_conversations SET session = ?2,"
                       " workspace = ?3 WHERE id = ?1",
                       "ttt", id, session, workspace);

    return MIN(r, 0);
}
