/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses in the store. A row exists from the moment a response is accepted,
 * with the whole context it was given, so that a restart loses none and no
 * response depends on an earlier one. Runs in gloveboxd.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "core/core.h"
#include "store/store.h"
#include "workspace/workspace.h"
#include "json/json.h"

enum part {
    PART_CONTEXT,
    PART_INPUT,
    PART_OUTPUT
};

static int link_items(struct store_tx *tx, const char *response,
                      enum part part, const struct chat_items *items,
                      size_t from, struct error *err)
{
    int r = 0;

    for (size_t i = from; i < items->count && r >= 0; i++)
        r = store_exec(tx, err,
                       "INSERT INTO chat_response_items (response, part,"
                       " position, item) VALUES (?1, ?2, ?3, ?4)",
                       "tiii", response, (int64_t)part, (int64_t)i,
                       items->list[i].number);
    return MIN(r, 0);
}

/* ---- a new one ---------------------------------------------------------- */

struct job {
    struct chat_response *r;
    char *body;             /* owned */
    struct chat_items done; /* outputs that are complete */
};

static int create_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct job *job = ctx;
    struct chat_response *r = job->r;
    int rc = workspace_storage_add(r->chat->parts.workspaces, tx,
                                   r->owner.tenant, strlen(job->body), err);

    if (rc < 0)
        return rc;
    rc = store_exec(
        tx, err,
        "INSERT INTO chat_responses (id, tenant, owner, conversation,"
        " previous, agent, model, status, background, session, workspace,"
        " body, created_at_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        "tttttttiittti", r->id, r->owner.tenant, r->owner.key, r->conversation,
        r->previous, r->agent, r->model, (int64_t)CHAT_IN_PROGRESS,
        (int64_t)r->background, r->session, r->workspace, job->body,
        r->created_ms);

    if (rc >= 0)
        rc =
            chat_items_store(r->chat, tx, &r->owner.who, "", &r->context, err);
    if (rc >= 0)
        rc = chat_items_store(r->chat, tx, &r->owner.who, "", &r->input, err);
    if (rc >= 0)
        rc = link_items(tx, r->id, PART_CONTEXT, &r->context, 0, err);
    if (rc >= 0)
        rc = link_items(tx, r->id, PART_INPUT, &r->input, 0, err);
    return MIN(rc, 0);
}

static char *body_text(struct chat_response *r)
{
    json_t *body cleanup(json_unref) = chat_object_body(r);
    char *text = json_dumps(body, JSON_COMPACT);

    if (!text)
        abort(); /* out of memory, as the x* wrappers do */
    return text;
}

int chat_row_create(struct chat_response *r, struct error *err)
{
    struct job job = {.r = r, .body = body_text(r)};
    int rc = store_write(r->chat->parts.core->store, "storing a response",
                         create_in, &job, err);

    free(job.body);
    if (rc == 0) {
        chat_items_kept(&r->context);
        chat_items_kept(&r->input);
    }
    return rc;
}

/* ---- while it runs, and at its end -------------------------------------- */

/* Items are complete in order; the last may still be written. */
static void copy_outputs(struct chat_response *r, bool all,
                         struct chat_items *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);

    for (size_t i = 0; i < r->output.count; i++) {
        const char *status = chat_item_status(&r->output.list[i]);

        if (!all && (strcmp(status, "in_progress") == 0 ||
                     strcmp(status, "interpreting") == 0))
            break;
        chat_items_copy(ret, &r->output.list[i]);
    }
}

/* Their numbers, once they are on disk. */
static void note_numbers(struct chat_response *r,
                         const struct chat_items *done)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);

    for (size_t i = r->linked; i < done->count; i++) {
        r->output.list[i].number = done->list[i].number;
        r->output.list[i].kept = true;
    }
    r->linked = done->count;
}

static int add_outputs(struct store_tx *tx, struct job *job, struct error *err)
{
    struct chat_response *r = job->r;
    int rc =
        chat_items_store(r->chat, tx, &r->owner.who, r->id, &job->done, err);

    return rc < 0 ? rc
                  : link_items(tx, r->id, PART_OUTPUT, &job->done, r->linked,
                               err);
}

static int set_session(struct store_tx *tx, struct chat_response *r,
                       struct error *err)
{
    int rc = store_exec(tx, err,
                        "UPDATE chat_responses SET session = ?2,"
                        " workspace = ?3 WHERE id = ?1",
                        "ttt", r->id, r->session, r->workspace);

    if (rc >= 0 && r->conversation[0] && r->session[0])
        rc = chat_conversation_own(tx, r->conversation, r->session,
                                   r->workspace, err);
    return MIN(rc, 0);
}

static int progress_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct job *job = ctx;
    int rc = add_outputs(tx, job, err);

    return rc < 0 ? rc : set_session(tx, job->r, err);
}

int chat_row_progress(struct chat_response *r, struct error *err)
{
    struct job job = {.r = r};
    int rc;

    if (!r->stored)
        return 0;
    copy_outputs(r, false, &job.done);
    rc = store_write(r->chat->parts.core->store, "storing an item",
                     progress_in, &job, err);
    if (rc == 0)
        note_numbers(r, &job.done);
    chat_items_done(&job.done);
    return rc;
}

static int finish_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct job *job = ctx;
    struct chat_response *r = job->r;
    int rc = add_outputs(tx, job, err);

    if (rc >= 0)
        rc = store_exec(
            tx, err,
            "UPDATE chat_responses SET status = ?2, body = ?3,"
            " input_tokens = ?4, output_tokens = ?5, microcents = ?6,"
            " completed_at_ms = ?7 WHERE id = ?1",
            "titiiii", r->id, (int64_t)r->status, job->body,
            (int64_t)r->usage.input, (int64_t)r->usage.output,
            (int64_t)r->usage.microcents, r->completed_ms);
    if (rc >= 0)
        rc = set_session(tx, r, err);
    if (rc >= 0 && r->conversation[0]) {
        rc = chat_conversation_append(tx, r->conversation, &r->input, err);
        if (rc >= 0)
            rc =
                chat_conversation_append(tx, r->conversation, &job->done, err);
        if (rc >= 0)
            rc = store_exec(tx, err,
                            "UPDATE chat_conversations SET model = ?2,"
                            " agent = ?3 WHERE id = ?1",
                            "ttt", r->conversation, r->model, r->agent);
    }
    return MIN(rc, 0);
}

int chat_row_finish(struct chat_response *r, struct error *err)
{
    struct job job = {.r = r};
    int rc;

    if (!r->stored)
        return 0;
    job.body = body_text(r);
    copy_outputs(r, true, &job.done);
    rc = store_write(r->chat->parts.core->store, "storing a response",
                     finish_in, &job, err);
    if (rc == 0)
        note_numbers(r, &job.done);
    chat_items_done(&job.done);
    free(job.body);
    return rc;
}

/* Only that it failed, with what is stored by now: on a disk, or in a quota,
 * that has no room for more. */
static int fail_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct job *job = ctx;

    return MIN(store_exec(tx, err,
                          "UPDATE chat_responses SET status = ?2, body = ?3,"
                          " completed_at_ms = ?4 WHERE id = ?1",
                          "titi", job->r->id, (int64_t)CHAT_FAILED, job->body,
                          job->r->completed_ms),
               0);
}

int chat_row_fail(struct chat_response *r, struct error *err)
{
    struct job job = {.r = r};
    int rc;

    if (!r->stored)
        return 0;
    job.body = body_text(r);
    rc = store_write(r->chat->parts.core->store, "ending a response", fail_in,
                     &job, err);
    free(job.body);
    return rc;
}

/* ---- reading ------------------------------------------------------------ */

static int refuse_unknown(const char *id, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "Response with id '%.80s' not found.",
                     id);
}

/* One that does not run, and whose end could not be stored. */
static void mark_lost(struct chat_response *r, const char *why)
{
    (void)error_set(&r->failure, ERR_UNAVAILABLE, "%s", why);
    r->status = CHAT_FAILED;
    r->completed_ms = clock_real_ms();
    (void)json_object_set_new(r->echo, "status", json_string("failed"));
    (void)json_object_set_new(r->echo, "error",
                              chat_object_error(&r->failure));
}

static int read_row(struct store_rows *row, struct chat_response *r,
                    struct error *err)
{
    const char *body = store_text(row, 7);
    int rc;

    store_copy(row, 0, r->id, sizeof(r->id));
    r->status = (enum chat_status)store_int(row, 1);
    r->background = store_int(row, 2) != 0;
    store_copy(row, 3, r->session, sizeof(r->session));
    store_copy(row, 4, r->workspace, sizeof(r->workspace));
    store_copy(row, 5, r->conversation, sizeof(r->conversation));
    r->model = xstrdup(store_text(row, 6));
    rc = json_parse(body, strlen(body), &r->echo, err);
    r->created_ms = store_int(row, 8);
    r->completed_ms = store_int(row, 9);
    r->stored = r->loaded = true;
    r->last_number =
        json_integer_value(json_object_get(r->echo, "last_event"));
    return rc < 0 ? error_wrap(err, "response %s", r->id) : 0;
}

#define ROW                                                                   \
    "id, status, background, session, workspace, conversation, model, body,"  \
    " created_at_ms, completed_at_ms"

int chat_row_load(struct chat *c, const struct actor *who, const char *id,
                  bool items, struct chat_response **ret, struct error *err)
{
    struct chat_response *r cleanup(chat_response_unref) = NULL;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int rc = store_begin(c->parts.core->store, STORE_READ,
                         "finding a response", &tx, err);

    if (rc == 0)
        rc = store_one(tx, &row, err,
                       "SELECT " ROW " FROM chat_responses"
                       " WHERE id = ?1 AND tenant = ?2 AND owner = ?3",
                       "ttt", id, who->tenant, who->key);
    if (rc <= 0)
        return rc < 0 ? rc : refuse_unknown(id, err);
    r = chat_response_new(c, who);
    rc = read_row(row, r, err);
    if (rc == 0)
        rc = chat_items_of_response(tx, id, PART_CONTEXT, &r->context, err);
    if (rc == 0)
        rc = chat_items_of_response(tx, id, PART_INPUT, &r->input, err);
    if (rc == 0)
        rc = chat_items_of_response(tx, id, PART_OUTPUT, &r->output, err);
    if (rc < 0)
        return rc;
    if (items && r->completed_ms == 0)
        mark_lost(r, "How this response ended could not be stored.");
    if (items)
        chat_object_replay(r);
    *ret = take_ptr(r);
    return 0;
}

int chat_response_input(struct chat *c, const struct actor *who,
                        const char *id, struct chat_items *ret,
                        struct error *err)
{
    struct chat_response *r cleanup(chat_response_unref) = NULL;
    int rc = chat_row_load(c, who, id, false, &r, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < r->context.count; i++)
        chat_items_copy(ret, &r->context.list[i]);
    for (size_t i = 0; i < r->input.count; i++)
        chat_items_copy(ret, &r->input.list[i]);
    return 0;
}

/* ---- deleting ----------------------------------------------------------- */

struct deletion {
    struct chat *c;
    const struct actor *who;
    const char *id;
};

static int delete_in(struct store_tx *tx, void *ctx, struct error *err)
{
    const struct deletion *d = ctx;
    struct audit_event event = {.action = "response.delete", .object = d->id};
    int rc = store_exec(tx, err,
                        "DELETE FROM chat_responses"
                        " WHERE id = ?1 AND tenant = ?2 AND owner = ?3",
                        "ttt", d->id, d->who->tenant, d->who->key);

    if (rc == 0)
        return refuse_unknown(d->id, err);
    if (rc > 0)
        rc = chat_items_collect(tx, err);
    if (rc >= 0 && d->c->parts.core->audit)
        rc = audit_add(d->c->parts.core->audit, tx, d->who, &event, err);
    return MIN(rc, 0);
}

int chat_row_delete(struct chat *c, const struct actor *who, const char *id,
                    struct error *err)
{
    struct deletion d = {c, who, id};

    return store_write(c->parts.core->store, "deleting a response", delete_in,
                       &d, err);
}

/* ---- after a restart ---------------------------------------------------- */

/* The ids and owners of those that did not end. */
struct unfinished {
    char id[ID_MAX], tenant[64], owner[ID_MAX];
};

static int list_unfinished(struct chat *c, struct unfinished **ret,
                           size_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(c->parts.core->store, STORE_READ,
                        "finding unfinished responses", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT id, tenant, owner FROM chat_responses"
                        " WHERE completed_at_ms = 0",
                        "");
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        struct unfinished *u;

        *ret = xrealloc(*ret, (*ret_count + 1) * sizeof(**ret));
        u = &(*ret)[(*ret_count)++];
        store_copy(rows, 0, u->id, sizeof(u->id));
        store_copy(rows, 1, u->tenant, sizeof(u->tenant));
        store_copy(rows, 2, u->owner, sizeof(u->owner));
    }
    return r;
}

/* It becomes failed; what it had done by then stays, also in its
 * conversation. */
static int fail_unfinished(struct chat *c, const struct unfinished *u,
                           struct error *err)
{
    struct actor who = {.tenant = u->tenant, .key = u->owner};
    struct chat_response *r cleanup(chat_response_unref) = NULL;
    struct job job;
    int rc = chat_row_load(c, &who, u->id, false, &r, err);

    if (rc < 0)
        return rc;
    mark_lost(r, "The service was restarted while this response was "
                 "running.");
    job = (struct job){.r = r, .body = json_dumps(r->echo, JSON_COMPACT)};
    for (size_t i = 0; i < r->output.count; i++)
        chat_items_copy(&job.done, &r->output.list[i]);
    r->linked = r->output.count;
    rc = store_write(c->parts.core->store, "ending a response", finish_in,
                     &job, err);
    chat_items_done(&job.done);
    free(job.body);
    return rc;
}

int chat_row_recover(struct chat *c, struct error *err)
{
    struct unfinished *list cleanup(mem_free) = NULL;
    size_t count = 0;
    int r = list_unfinished(c, &list, &count, err);

    for (size_t i = 0; i < count && r == 0; i++) {
        bool ended = fail_unfinished(c, &list[i], err) == 0;

        log_event(LOG_WARN, "response_lost", "response", list[i].id, "error",
                  ended ? NULL : err->message, NULL);
    }
    return r;
}
