/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/conversations: those that are kept with their messages, and those that
 * are known because executions or uploads named them. A message leads to the
 * execution it caused and to the versions of files that came of it. Runs on a
 * worker of the daemon.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "chat/conversations.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_DEFAULT 100
#define ITEMS_MAX 1000
#define ID_BYTES 256 /* of one that a client chose */

/* ---- one conversation ---------------------------------------------------
 */

struct view { /* borrows */
    const char *id, *title, *session, *workspace, *model, *agent, *metadata;
    int64_t first_at_ms, last_at_ms;
    uint64_t messages, executions, files, workspaces;
    bool kept;
};

#define VIEW(member) API_AT(struct view, member)

static const struct api_field conversation_fields[] = {
    {"id", API_STRING, VIEW(id), .help = "conv_…, or chosen by the client"},
    {"title", API_STRING, API_NULLABLE, VIEW(title)},
    {"kept", API_BOOL, VIEW(kept),
     .help = "its messages are stored; else only files are known"},
    {"first_at", API_TIME, VIEW(first_at_ms)},
    {"last_at", API_TIME, VIEW(last_at_ms)},
    {"messages", API_INT, VIEW(messages)},
    {"executions", API_INT, VIEW(executions)},
    {"files", API_INT, VIEW(files)},
    {"workspaces", API_INT, VIEW(workspaces)},
    {"session", API_STRING, API_NULLABLE, VIEW(session),
     .help = "where its code runs"},
    {"workspace", API_STRING, API_NULLABLE, VIEW(workspace)},
    {"model", API_STRING, API_NULLABLE, VIEW(model),
     .help = "of its last response"},
    {"agent", API_STRING, API_NULLABLE, VIEW(agent)},
    {"metadata", API_OBJECT, VIEW(metadata)},
};
API_OUTPUT(native_conversation, "Conversation", struct view,
           conversation_fields,
           "A conversation, with numbers of what it contains.");

static struct view of_kept(const struct chat_conversation_summary *s)
{
    return (struct view){.id = s->is.id,
                         .title = s->is.title,
                         .session = s->is.session,
                         .workspace = s->is.workspace,
                         .model = s->is.model,
                         .agent = s->is.agent,
                         .metadata = s->is.metadata,
                         .first_at_ms = s->is.created_at_ms,
                         .last_at_ms = s->is.updated_at_ms,
                         .messages = s->messages,
                         .executions = s->executions,
                         .files = s->files,
                         .workspaces = s->is.workspace[0] != '\0',
                         .kept = true};
}

static struct view of_known(const struct workspace_conversation_info *i)
{
    return (struct view){.id = i->id,
                         .first_at_ms = i->first_at_ms,
                         .last_at_ms = i->last_at_ms,
                         .messages = i->messages,
                         .executions = i->executions,
                         .files = i->files,
                         .workspaces = i->workspaces};
}

/* The one of that name among those that are only known; 1, 0 or -code. */
static int find_known(struct doors_call *call, const char *id,
                      struct workspace_conversation_info **ret,
                      struct error *err)
{
    struct page_result got = {0};
    int r = workspace_conversations(
        call->doors->workspaces, &call->actor,
        &(struct workspace_conversation_query){
            .only = id, .at_ms = INT64_MAX, .limit = 1},
        ret, &got, err);

    if (r == 0 && got.count == 0)
        workspace_conversations_free(*ret, 0);
    return r < 0 ? r : got.count > 0;
}

/* ---- the list -----------------------------------------------------------
 */

/* Where the list goes on. */
static int find_place(struct doors_call *call, const char *after,
                      int64_t *ret_ms, struct error *err)
{
    struct chat_conversation_summary kept = {0};
    struct workspace_conversation_info *known = NULL;
    int r;

    *ret_ms = INT64_MAX;
    if (!after)
        return 0;
    r = chat_conversations_summary(call->doors->chat, &call->actor, after,
                                   &kept, err);
    if (r == 0) {
        *ret_ms = kept.is.updated_at_ms;
        chat_conversation_done(&kept.is);
        return 0;
    }
    if (r != -ERR_NOT_FOUND)
        return r;
    r = find_known(call, after, &known, err);
    if (r == 0)
        return error_set(err, ERR_INVALID, "after: no such conversation");
    if (r > 0) {
        *ret_ms = known->last_at_ms;
        workspace_conversations_free(known, 1);
    }
    return MIN(r, 0);
}

static bool comes_first(const struct view *a, const struct view *b)
{
    if (a->last_at_ms != b->last_at_ms)
        return a->last_at_ms > b->last_at_ms;
    return strcmp(a->id, b->id) < 0;
}

int native_conversations_list(struct doors_call *call, struct error *err)
{
    struct chat_conversation_summary *kept = NULL;
    struct workspace_conversation_info *known = NULL;
    struct view *list cleanup(mem_free) = NULL;
    const char *after = NULL, *part = NULL;
    size_t kept_count = 0, count = 0, i = 0, j = 0;
    struct page_result got = {0};
    bool more = false;
    unsigned limit = 0;
    int64_t at_ms = 0;
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, LIST_DEFAULT, &limit,
                            &after, err);

    if (r == 0)
        r = native_ask_text(call, "q", ID_BYTES, &part, err);
    if (r == 0)
        r = find_place(call, after, &at_ms, err);
    if (r == 0)
        r = chat_conversations_list(
            call->doors->chat, &call->actor,
            &(struct chat_conversation_filter){.part = part ? part : "",
                                               .at_ms = at_ms,
                                               .id = after ? after : "",
                                               .limit = limit},
            &kept, &kept_count, &more, err);
    if (r == 0)
        r = workspace_conversations(
            call->doors->workspaces, &call->actor,
            &(struct workspace_conversation_query){
                .part = part, .at_ms = at_ms, .after = after, .limit = limit},
            &known, &got, err);
    if (r == 0) {
        list = xcalloc(limit, sizeof(*list));
        while (count < limit && (i < kept_count || j < got.count)) {
            struct view a =
                i < kept_count ? of_kept(&kept[i]) : (struct view){0};
            struct view b =
                j < got.count ? of_known(&known[j]) : (struct view){0};

            if (j == got.count || (i < kept_count && comes_first(&a, &b))) {
                list[count++] = a;
                i++;
            } else {
                list[count++] = b;
                j++;
            }
        }
        more = more || got.has_more || i < kept_count || j < got.count;
        native_respond_list(call, &native_conversation, list, count, more);
    }
    chat_conversation_summaries_free(kept, kept_count);
    workspace_conversations_free(known, got.count);
    return r;
}

/* ---- make, look, change, delete -----------------------------------------
 */

static int respond(struct doors_call *call, unsigned status, const char *id,
                   struct error *err)
{
    struct chat_conversation_summary kept = {0};
    struct workspace_conversation_info *known = NULL;
    struct view v;
    int r = chat_conversations_summary(call->doors->chat, &call->actor, id,
                                       &kept, err);

    if (r == 0) {
        v = of_kept(&kept);
        native_respond(call, status, &native_conversation, &v);
        chat_conversation_done(&kept.is);
        return 0;
    }
    if (r != -ERR_NOT_FOUND)
        return r;
    r = find_known(call, id, &known, err);
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such conversation");
    if (r > 0) {
        v = of_known(known);
        native_respond(call, status, &native_conversation, &v);
        workspace_conversations_free(known, 1);
    }
    return MIN(r, 0);
}

struct spec {
    const char *title;
    json_t *metadata;
};

static const struct api_field spec_fields[] = {
    {"title", API_STRING, API_AT(struct spec, title), .max = CHAT_TITLE_MAX},
    {"metadata", API_OBJECT, API_AT(struct spec, metadata),
     .help = "up to 16 strings; replaces what was there"},
};
API_INPUT(native_conversation_spec, "ConversationSpec", struct spec,
          spec_fields, "What can be set of a conversation.");

int native_conversations_create(struct doors_call *call, struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct chat_fault fault = {0};
    struct spec s = {0};
    int r = native_read_maybe(call, &native_conversation_spec, &s, &json, err);

    if (r == 0)
        r = chat_conversations_create(call->doors->chat, &call->actor, NULL,
                                      s.metadata, &v, &fault, err);
    if (r == 0 && s.title) {
        struct chat_conversation named cleanup(chat_conversation_done) = {
            .title = NULL};

        r = chat_conversations_update(call->doors->chat, &call->actor, v.id,
                                      NULL, s.title, &named, &fault, err);
    }
    return r < 0 ? r : respond(call, 201, v.id, err);
}

int native_conversations_get(struct doors_call *call, struct error *err)
{
    return respond(call, 200, call->params[0], err);
}

int native_conversations_patch(struct doors_call *call, struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct chat_fault fault = {0};
    struct spec s = {0};
    int r = native_read(call, &native_conversation_spec, &s, &json, err);

    if (r == 0 && !s.title && !s.metadata)
        r = error_set(err, ERR_INVALID,
                      "there is nothing to change: give a "
                      "title or metadata");
    if (r == 0)
        r = chat_conversations_update(call->doors->chat, &call->actor,
                                      call->params[0], s.metadata, s.title, &v,
                                      &fault, err);
    return r < 0 ? r : respond(call, 200, v.id, err);
}

/* With its responses: nothing of it can be read afterwards. */
int native_conversations_delete(struct doors_call *call, struct error *err)
{
    int r = chat_conversations_delete(call->doors->chat, &call->actor,
                                      call->params[0], true, err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

/* ---- items --------------------------------------------------------------
 */

static void write_file_url(struct json_writer *w, const char *key,
                           const void *object)
{
    const struct chat_item_file *f = object;

    native_encode_url(w, key,
                      strcmp(f->change, "deleted") == 0 ? NULL : f->file,
                      f->version);
}

#define FILE_AT(member) API_AT(struct chat_item_file, member)

static const struct api_field file_fields[] = {
    {"path", API_STRING, FILE_AT(path)},
    {"change", API_STRING, FILE_AT(change)},
    {"file", API_STRING, API_NULLABLE, FILE_AT(file)},
    {"version", API_STRING, API_NULLABLE, FILE_AT(version)},
    {"size", API_INT, FILE_AT(size)},
    {"url", API_STRING, API_NULLABLE, .write = write_file_url},
};
API_OUTPUT(native_conversation_file, "ConversationFile", struct chat_item_file,
           file_fields,
           "A version of a file that the execution of an item made.");

struct item_view { /* borrows */
    const char *id, *type, *session, *execution;
    int64_t created_at_ms;
    const struct chat_item_file *files;
    size_t file_count;
    const char *item;
};

#define ITEM(member) API_AT(struct item_view, member)

static const struct api_field item_fields[] = {
    {"id", API_STRING, ITEM(id)},
    {"type", API_STRING, ITEM(type)},
    {"created_at", API_TIME, ITEM(created_at_ms)},
    {"session", API_STRING, API_NULLABLE, ITEM(session),
     .help = "where its code ran"},
    {"execution", API_STRING, API_NULLABLE, ITEM(execution)},
    {"files", API_ARRAY, API_LIST(struct item_view, files, file_count),
     .of = &native_conversation_file},
    {"item", API_OBJECT, ITEM(item),
     .help = "as in the Responses API, with the outputs of code"},
};
API_OUTPUT(native_conversation_item, "ConversationItem", struct item_view,
           item_fields,
           "A message, a call or its result, with what came of it.");

static void respond_items(struct doors_call *call,
                          const struct chat_items *items, bool more)
{
    struct buf body = {0};
    struct json_writer w = native_writer(call, &body);

    native_encode_list(&w);
    for (size_t i = 0; i < items->count; i++) {
        const struct chat_item *item = &items->list[i];
        char *text cleanup(mem_free) = json_dumps(item->body, JSON_COMPACT);

        api_write(&w, NULL, &native_conversation_item,
                  &(struct item_view){.id = chat_item_id(item),
                                      .type = chat_item_type(item),
                                      .session = item->session,
                                      .execution = item->execution,
                                      .created_at_ms = item->created_at_ms,
                                      .files = item->files,
                                      .file_count = item->file_count,
                                      .item = text});
    }
    native_encode_list_end(&w, more);
    http_respond_json(call->http, 200, &body);
}

int native_conversations_items(struct doors_call *call, struct error *err)
{
    struct chat_items items cleanup(chat_items_done) = {0};
    struct chat_page page = {.oldest_first = true};
    bool more = false;
    int r = native_ask_page(call, ITEMS_MAX, LIST_DEFAULT, &page.limit,
                            &page.after, err);

    if (r == 0)
        r = chat_conversations_page(call->doors->chat, &call->actor,
                                    call->params[0], &page, &items, &more,
                                    err);
    if (r == 0)
        respond_items(call, &items, more);
    return r;
}

/* ---- export -------------------------------------------------------------
 */

int native_conversations_export(struct doors_call *call, struct error *err)
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.title =
                                                                      NULL};
    struct chat_items items cleanup(chat_items_done) = {0};
    enum chat_export_format format = CHAT_EXPORT_JSON;
    const char *name = NULL;
    struct buf body = {0};
    int r = http_query(call->http, "format", &name, err);

    if (r == 0 && name && !chat_export_format(name, &format))
        r = error_set(err, ERR_INVALID,
                      "format must be json, markdown or ipynb");
    if (r == 0)
        r = chat_conversation_find(call->doors->chat, &call->actor,
                                   call->params[0], &v, err);
    if (r == 0)
        r = chat_conversation_items(call->doors->chat, &call->actor, v.id,
                                    &items, err);
    if (r < 0)
        return r;
    chat_export_write(format, &v, &items, doors_url_base(call), &body);
    http_add_header(call->http, "Content-Disposition",
                    http_attachment(http_arena(call->http), v.id,
                                    chat_export_suffix(format)));
    http_add_header(call->http, "Content-Security-Policy",
                    "sandbox; default-src 'none'");
    http_respond(call->http, 200, chat_export_type(format), &body);
    return 0;
}
