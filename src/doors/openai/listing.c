/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /containers/{id}/files: looking at a container's files, and removing one.
 * They are read from its workspace, so that a container that expired lists
 * and serves them without being woken; one that keeps nothing is asked itself
 * (ephemeral.c). Runs on a worker of the daemon.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_USUAL 20

void openai_listing_encode(struct json_writer *w, const char *container,
                           const struct workspace_aged_file *f)
{
    openai_encode_listed(w, &(struct openai_listed){
                                .container = container,
                                .file = f->file.file,
                                .durable = true,
                                .path = f->file.path,
                                .size = f->file.size,
                                .created_at_ms = f->created_at_ms,
                                .by_execution = f->by_execution,
                            });
}

/* ---- the list ----------------------------------------------------------- */

static void respond_list(struct doors_call *call, const char *container,
                         const struct workspace_aged_file *files, size_t count,
                         bool more)
{
    char first[ID_MAX], last[ID_MAX];
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    openai_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        openai_listing_encode(&w, container, &files[i]);
    openai_encode_list_end(
        &w, count ? doors_file_container(files[0].file.file, first) : NULL,
        count ? doors_file_container(files[count - 1].file.file, last) : NULL,
        more);
    openai_respond(call, &body);
}

int openai_listing_list(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct workspace_aged_file *files = NULL;
    struct openai_page page;
    char after[ID_MAX] = "";
    struct page_result got = {0};
    int r = openai_page(call, LIST_MAX, LIST_USUAL, &page, err);

    if (r == 0)
        r = openai_visit(call, &info, err);
    if (r < 0)
        return r;
    if (info.ephemeral)
        return openai_ephemeral_list(call, &info, &page, err);
    if (!page.after || doors_file_id(page.after, after))
        r = workspace_list_by_age(
            call->doors->workspaces, &call->actor, info.workspace,
            page.oldest_first,
            &(struct page){.limit = page.limit,
                           .after = page.after ? after : NULL},
            &files, &got, err);
    if (r < 0 && r != -ERR_NOT_FOUND) /* nothing was ever kept of it */
        return r;
    respond_list(call, info.id, files, got.count, got.has_more);
    workspace_list_by_age_free(files, got.count);
    return 0;
}

/* ---- one of them -------------------------------------------------------- */

static int respond_info(struct doors_call *call, const char *container,
                        const struct workspace_aged_file *f)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    openai_listing_encode(&w, container, f);
    openai_respond(call, &body);
    return 0;
}

static int respond_content(struct doors_call *call,
                           const struct session_info *info,
                           const struct workspace_aged_file *f,
                           struct error *err)
{
    if (!info->final)
        return openai_respond_bytes(call, &f->file, f->file.path, err);
    /* The hosted service destroys what was in it. */
    (void)error_set(err, ERR_NOT_FOUND, "the container is over");
    return openai_refuse_listed(call->params[0], call->params[1], err);
}

static int delete_file(struct doors_call *call,
                       const struct session_info *info,
                       const struct workspace_aged_file *f, struct error *err)
{
    char id[ID_MAX];
    int r = session_files_remove(call->doors->sessions, &call->actor, info->id,
                                 f->file.path, err);

    if (r < 0)
        return openai_refuse_listed(call->params[0], call->params[1], err);
    openai_respond_deleted(call, doors_file_container(f->file.file, id),
                           "container.file.deleted");
    return 0;
}

static void aged_done(struct workspace_aged_file *f)
{
    workspace_file_done(&f->file);
}

/* The file of the path, and what is to be done with it. */
static int handle(struct doors_call *call, enum openai_deed deed,
                  struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct workspace_aged_file f cleanup(aged_done) = {.file = {.path = NULL}};
    char file[ID_MAX];
    int r = openai_visit(call, &info, err);

    if (r < 0)
        return r;
    if (info.ephemeral)
        return openai_ephemeral_one(call, &info, deed, err);
    if (doors_file_id(call->params[1], file))
        r = workspace_list_by_age_find(call->doors->workspaces, &call->actor,
                                       info.workspace, file, &f, err);
    else
        r = error_set(err, ERR_NOT_FOUND, "no such file");
    if (r < 0)
        return openai_refuse_listed(call->params[0], call->params[1], err);
    if (deed == OPENAI_CONTENT)
        return respond_content(call, &info, &f, err);
    if (deed == OPENAI_DELETE)
        return delete_file(call, &info, &f, err);
    return respond_info(call, info.id, &f);
}

int openai_listing_get(struct doors_call *call, struct error *err)
{
    return handle(call, OPENAI_LOOK, err);
}

int openai_listing_content(struct doors_call *call, struct error *err)
{
    return handle(call, OPENAI_CONTENT, err);
}

int openai_listing_delete(struct doors_call *call, struct error *err)
{
    return handle(call, OPENAI_DELETE, err);
}
