/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversations as clients manage them: made, listed, changed, deleted,
 * exported; their items by page. What the agent loop needs of a conversation
 * (its lock, context and session) is in chat.h. Also chat completions that
 * were stored.
 *
 *   conversations.c  conversations, their items and lists
 *   completions.c    stored chat completions
 *   retention.c      responses and conversations that are over their time
 *   export.c         a conversation as JSON, Markdown or a notebook
 *
 * A conversation belongs to the principal that made it; an id of another one
 * is answered exactly as an unknown one (ERR_NOT_FOUND). A credential that is
 * bound to a part of the tenant has none: lists are empty for it, and doors
 * refuse it what names one. Any thread may call.
 */
#ifndef GLOVEBOX_CHAT_CONVERSATIONS_H
#define GLOVEBOX_CHAT_CONVERSATIONS_H

#include "chat/chat.h"

#define CHAT_METADATA_PAIRS 16u
#define CHAT_METADATA_KEY 64u    /* characters */
#define CHAT_METADATA_VALUE 512u /* characters */
#define CHAT_ITEMS_A_CALL 20u    /* added to a conversation at once */
#define CHAT_CONVERSATION_ITEMS CHAT_ITEMS_MAX /* of one, in all */
#define CHAT_CONVERSATIONS 100000u             /* of one principal */
#define CHAT_TITLE_MAX 200u                    /* bytes */
#define CHAT_LOCK_WAIT_MS 5000u                /* for another writer */

/* An object of strings within the limits above; NULL and null: an empty one.
 */
int chat_metadata_check(const json_t *metadata, struct chat_fault *fault,
                        struct error *err);

/* items: as chat_items_read, at most CHAT_ITEMS_A_CALL; or NULL. */
int chat_conversations_create(struct chat *c, const struct actor *who,
                              const json_t *items, const json_t *metadata,
                              struct chat_conversation *ret,
                              struct chat_fault *fault, struct error *err);
/* metadata NULL, title NULL: stays. */
int chat_conversations_update(struct chat *c, const struct actor *who,
                              const char *id, const json_t *metadata,
                              const char *title, struct chat_conversation *ret,
                              struct chat_fault *fault, struct error *err);
/* With its session, and its workspace unless that was given a name.
 * ERR_CONFLICT while the workspace is under legal hold: nothing is deleted
 * then. A response that runs in it is stopped first. responses: those of the
 * conversation go too; otherwise each stays as long as responses do. */
int chat_conversations_delete(struct chat *c, const struct actor *who,
                              const char *id, bool responses,
                              struct error *err);

/* The same of one that the caller has found and locked; action: of the event.
 */
int chat_conversations_drop(struct chat *c, const struct actor *who,
                            const struct chat_conversation *v, bool responses,
                            const char *action, struct error *err);

/* ---- items -------------------------------------------------------------- */

/* Adds them at the end; ret: as they were stored. */
int chat_conversations_add(struct chat *c, const struct actor *who,
                           const char *id, const json_t *items,
                           struct chat_items *ret, struct chat_fault *fault,
                           struct error *err);
struct chat_page {
    unsigned limit;
    bool oldest_first;
    const char *after; /* an item's id; one that is not there: no items */
};
int chat_conversations_page(struct chat *c, const struct actor *who,
                            const char *id, const struct chat_page *page,
                            struct chat_items *ret, bool *ret_more,
                            struct error *err);
int chat_conversations_item(struct chat *c, const struct actor *who,
                            const char *id, const char *item,
                            struct chat_item *ret, struct error *err);
/* Takes an item out. ret: the conversation. */
int chat_conversations_remove(struct chat *c, const struct actor *who,
                              const char *id, const char *item,
                              struct chat_conversation *ret,
                              struct error *err);

/* ---- lists -------------------------------------------------------------- */

struct chat_conversation_summary {
    struct chat_conversation is;
    uint64_t messages, executions, files;
};
void chat_conversation_summaries_free(struct chat_conversation_summary *list,
                                      size_t count);
struct chat_conversation_filter {
    const char *part; /* of its id or title; "": any */
    int64_t at_ms;    /* those before this place: updated then, and */
    const char *id;   /* by id; INT64_MAX and "": from the newest */
    unsigned limit;
};
/* The most recently used first. ret: owned by caller. */
int chat_conversations_list(struct chat *c, const struct actor *who,
                            const struct chat_conversation_filter *filter,
                            struct chat_conversation_summary **ret,
                            size_t *ret_count, bool *ret_more,
                            struct error *err);
int chat_conversations_summary(struct chat *c, const struct actor *who,
                               const char *id,
                               struct chat_conversation_summary *ret,
                               struct error *err);

/* ---- completions.c ------------------------------------------------------ */

/* A chat completion that its client asked to store. Strings are JSON, owned.
 */
struct chat_completion {
    char id[ID_MAX];       /* chatcmpl-… */
    char response[ID_MAX]; /* the stored response behind it */
    char session[ID_MAX];  /* where its code ran, or "" */
    char model[132];
    char *metadata; /* an object */
    char *body;     /* the completion, without metadata */
    char *messages; /* an array: those it answers */
    int64_t created_at_ms;
};
void chat_completion_done(struct chat_completion *v); /* for cleanup() */
void chat_completions_free(struct chat_completion *list, size_t count);
int chat_completions_store(struct chat *c, const struct actor *who,
                           const struct chat_completion *v, struct error *err);
int chat_completions_find(struct chat *c, const struct actor *who,
                          const char *id, struct chat_completion *ret,
                          struct error *err);
int chat_completions_update(struct chat *c, const struct actor *who,
                            const char *id, const json_t *metadata,
                            struct chat_completion *ret,
                            struct chat_fault *fault, struct error *err);
/* With the response behind it. */
int chat_completions_delete(struct chat *c, const struct actor *who,
                            const char *id, struct error *err);
/* model: only those of this model, or NULL. Without messages. */
int chat_completions_list(struct chat *c, const struct actor *who,
                          const char *model, const struct chat_page *page,
                          struct chat_completion **ret, size_t *ret_count,
                          bool *ret_more, struct error *err);

/* ---- retention.c -------------------------------------------------------- */

/* Deletes what is over its time and under no legal hold: responses and stored
 * completions after response_days, conversations after conversation_days
 * without use. Called in rounds of the collector; ctx is the module. Adds how
 * much that was. */
int chat_retention_expire(void *ctx, uint64_t *ret_removed, struct error *err);

/* ---- export.c: pure ----------------------------------------------------- */

enum chat_export_format {
    CHAT_EXPORT_JSON,
    CHAT_EXPORT_MARKDOWN,
    CHAT_EXPORT_IPYNB
};
/* false: no such format. */
bool chat_export_format(const char *name, enum chat_export_format *ret);
const char *chat_export_type(enum chat_export_format format); /* media type */
const char *chat_export_suffix(enum chat_export_format format);
/* base: what addresses of files begin with ("http://host:port"). */
void chat_export_write(enum chat_export_format format,
                       const struct chat_conversation *conversation,
                       const struct chat_items *items, const char *base,
                       struct buf *out);

#endif
