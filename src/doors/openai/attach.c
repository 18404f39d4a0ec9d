/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /containers/{id}/files: a file of the form, or one that is already
 * kept, by its id, as JSON or as the form's only field (as older clients say
 * it). Where both are given the bytes win. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

struct attach {
    struct doors_call *call;
    struct session_info info;
    struct session_upload *upload; /* under way, or NULL */
    const char *file_id;           /* or NULL */
};

static void attach_done(struct attach *a)
{
    session_upload_abort(a->upload);
    session_info_done(&a->info);
}

/* Answers with a file that is in the container now; frees what made has. */
static int respond(struct attach *a, struct session_file *made,
                   struct error *err)
{
    struct doors_call *call = a->call;
    struct workspace_aged_file f = {.file = {.path = NULL}};
    char *path cleanup(mem_free) = made->path;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r;

    (void)path;
    if (a->info.ephemeral) {
        openai_ephemeral_respond(call, &a->info, made);
        return 0;
    }
    r = workspace_list_by_age_find(call->doors->workspaces, &call->actor,
                                   a->info.workspace, made->file, &f, err);
    if (r < 0)
        return openai_refuse_container(call->params[0], err);
    openai_listing_encode(&w, a->info.id, &f);
    workspace_file_done(&f.file);
    openai_respond(call, &body);
    return 0;
}

/* ---- bytes -------------------------------------------------------------- */

/* Of a container that keeps nothing only the sandbox knows. */
static int is_free_inside(struct attach *a, const char *name, bool *ret,
                          struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r = session_files_open(a->call->doors->sessions, &a->call->actor,
                               a->info.id, name, &fd, &st, err);

    *ret = r == -ERR_NOT_FOUND;
    return *ret || r == -ERR_INVALID ? 0 : r; /* a folder, a device */
}

/* Is there no file and no folder of that name? */
static int is_free(struct attach *a, const char *name, bool *ret,
                   struct error *err)
{
    struct workspaces *w = a->call->doors->workspaces;
    struct workspace_file f = {.path = NULL}, *below = NULL;
    const char *prefix = arena_printf(http_arena(a->call->http), "%s/", name);
    struct page_result got = {0};
    int r;

    if (a->info.ephemeral)
        return is_free_inside(a, name, ret, err);
    r = workspace_file_get(w, &a->call->actor, a->info.workspace, name, NULL,
                           &f, err);
    workspace_file_done(&f);
    *ret = false;
    if (r != -ERR_NOT_FOUND)
        return r;
    r = workspace_files_list(
        w, &a->call->actor, a->info.workspace,
        &(struct workspace_files_spec){.prefix = prefix, .limit = 1}, &below,
        &got, err);
    workspace_files_free(below, got.count);
    *ret = got.count == 0;
    /* A session that has kept nothing yet may have no workspace either. */
    return r == -ERR_NOT_FOUND ? 0 : r;
}

/* The name the bytes get: their own, unless that is taken or the tenant wants
 * what the hosted service does. ret_other: if another upload takes it before
 * this one is done; each is a file of its own. */
static int choose_name(struct attach *a, const char *filename,
                       const char **ret, const char **ret_other,
                       struct error *err)
{
    const char *name = openai_name_base(filename);
    unsigned char random[16];
    char prefix[2 * sizeof(random) + 2];
    bool unused = false;
    int r = 0;

    if (!name)
        return openai_invalid(openai_fault(a->call), "invalid_value", "file",
                              err,
                              "Invalid value for 'file': its name must be "
                              "UTF-8 without control characters, of at most "
                              "255 bytes.");
    if (!session_expiry_final(a->call->doors->sessions, a->call->who.tenant))
        r = is_free(a, name, &unused, err);
    ids_random(random, sizeof(random));
    (void)ids_hex(random, sizeof(random), prefix);
    prefix[2 * sizeof(random)] = '-';
    prefix[2 * sizeof(random) + 1] = '\0';
    *ret_other = openai_name_join(http_arena(a->call->http), prefix, name);
    *ret = unused ? name : *ret_other;
    return r;
}

static int write_upload(void *ctx, const void *bytes, size_t len,
                        struct error *err)
{
    return session_upload_write(ctx, bytes, len, err);
}

static int take_file(struct attach *a, struct http_multipart *m,
                     const struct http_part *part, struct error *err)
{
    const char *name = NULL, *other = NULL;
    int r;

    if (a->upload)
        return openai_form_twice(a->call, part->name, err);
    r = choose_name(a, part->filename, &name, &other, err);
    if (r == 0)
        r = session_upload_begin(a->call->doors->sessions, &a->call->actor,
                                 a->info.id, name, &a->upload, err);
    if (r == 0)
        r = session_upload_new(a->upload, other, err);
    if (r < 0)
        return openai_refuse_container(a->call->params[0], err);
    session_upload_most(a->upload, OPENAI_FILE_BYTES);
    return openai_form_pass(m, OPENAI_FILE_BYTES, write_upload, a->upload,
                            err);
}

static int commit(struct attach *a, struct error *err)
{
    struct session_file made = {.path = NULL};
    int r = session_upload_commit(take_ptr(a->upload), &made, err);

    if (r < 0)
        return openai_refuse_container(a->call->params[0], err);
    return respond(a, &made, err);
}

/* ---- by an id ----------------------------------------------------------- */

static int attach_kept(struct attach *a, struct error *err)
{
    struct doors_call *call = a->call;
    struct library_file file cleanup(library_file_done) = {.filename = NULL};
    struct session_file made = {.path = NULL};
    struct session_attach what;
    int r = openai_library(call, a->file_id, "file_id", &file, err);

    if (r < 0)
        return r;
    what = (struct session_attach){file.file, openai_mount(call, &file)};
    r = session_attach(call->doors->sessions, &call->actor, a->info.id, &what,
                       &made, err);
    if (r < 0)
        return openai_refuse_container(call->params[0], err);
    return respond(a, &made, err);
}

/* ---- both --------------------------------------------------------------- */

static int read_form(struct attach *a, struct error *err)
{
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct http_part part;
    int r = openai_form_open(a->call, OPENAI_FILE_BYTES, &m, err);

    while (r == 0 && (r = http_multipart_next(m, &part, err)) > 0) {
        if (strcmp(part.name, "file") == 0)
            r = take_file(a, m, &part, err);
        else if (strcmp(part.name, "file_id") == 0)
            r = openai_form_text(a->call, m, part.name, &a->file_id, err);
        else
            r = openai_form_unknown(a->call, part.name, err);
    }
    if (r == 0 && !a->upload && !a->file_id)
        r = openai_form_missing(a->call, "file", err);
    return r;
}

int openai_attach_post(struct doors_call *call, struct error *err)
{
    struct attach a cleanup(attach_done) = {.call = call};
    json_t *json cleanup(json_unref) = NULL;
    int r = openai_visit(call, &a.info, err);

    if (r == 0 && a.info.final) {
        (void)error_set(err, ERR_EXPIRED, "the container is over");
        return openai_refuse_container(call->params[0], err);
    }
    if (r == 0 && openai_form_is(call)) {
        r = read_form(&a, err);
    } else if (r == 0) {
        r = openai_body(call, &json, err);
        if (r == 0)
            r = openai_decode_attach(json, &a.file_id, openai_fault(call),
                                     err);
    }
    if (r < 0)
        return r;
    return a.upload ? commit(&a, err) : attach_kept(&a, err);
}
