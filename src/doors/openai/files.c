/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /files: the tenant's library. A form's parts come in any order, so its file
 * becomes a blob first and is filed when everything is known of it. Any other
 * file the key may see can be fetched by its id too, so that what a container
 * made outlives it. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

int openai_library(struct doors_call *call, const char *id, const char *field,
                   struct library_file *ret, struct error *err)
{
    char file[ID_MAX];
    int r = doors_file_id(id, file)
                ? library_get(call->doors->workspaces, &call->actor, file, ret,
                              err)
                : error_set(err, ERR_NOT_FOUND, "no such file");

    return r < 0 ? openai_refuse_file(call, id, field, err) : 0;
}

const char *openai_mount(struct doors_call *call,
                         const struct library_file *file)
{
    char id[ID_MAX], prefix[ID_MAX + 1];

    (void)snprintf(prefix, sizeof(prefix), "%s-",
                   doors_file_library(file->file, id));
    return openai_name_join(http_arena(call->http), prefix, file->filename);
}

static void respond(struct doors_call *call, const struct library_file *file)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    openai_encode_file(&w, NULL, file);
    openai_respond(call, &body);
}

/* ---- a new one ---------------------------------------------------------- */

struct form {
    struct openai_blob blob;
    const char *filename, *type; /* of the file; NULL until it came */
    const char *purpose, *anchor, *seconds;
};

static void form_done(struct form *f)
{
    openai_form_blob_done(&f->blob);
}

static int take_file(struct doors_call *call, struct http_multipart *m,
                     const struct http_part *part, struct form *ret,
                     struct error *err)
{
    if (ret->filename)
        return openai_form_twice(call, part->name, err);
    ret->filename = openai_name_base(part->filename);
    ret->type = part->type;
    if (!ret->filename)
        return openai_invalid(openai_fault(call), "invalid_value", "file", err,
                              "Invalid value for 'file': its name must be "
                              "UTF-8 without control characters, of at most "
                              "255 bytes.");
    return openai_form_blob(call, m, OPENAI_FILE_BYTES, &ret->blob, err);
}

static int take_part(struct doors_call *call, struct http_multipart *m,
                     const struct http_part *part, struct form *ret,
                     struct error *err)
{
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"purpose", &ret->purpose},
        {"expires_after[anchor]", &ret->anchor},
        {"expires_after[seconds]", &ret->seconds},
    };
    int r;

    if (strcmp(part->name, "file") == 0)
        return take_file(call, m, part, ret, err);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (strcmp(part->name, texts[i].name) != 0)
            continue;
        if (*texts[i].to)
            return openai_form_twice(call, part->name, err);
        r = openai_form_text(call, m, part->name, texts[i].to, err);
        if (r == 0 && i == 0) /* before a large file is read for nothing */
            r = openai_decode_purpose(ret->purpose, openai_fault(call), err);
        return r;
    }
    return openai_form_unknown(call, part->name, err);
}

static int read_form(struct doors_call *call, struct form *ret,
                     struct error *err)
{
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct http_part part;
    int r = openai_form_open(call, OPENAI_FILE_BYTES, &m, err);

    while (r == 0 && (r = http_multipart_next(m, &part, err)) > 0)
        r = take_part(call, m, &part, ret, err);
    if (r == 0 && !ret->filename)
        r = openai_form_missing(call, "file", err);
    if (r == 0 && !ret->purpose)
        r = openai_form_missing(call, "purpose", err);
    return r;
}

int openai_files_create(struct doors_call *call, struct error *err)
{
    struct library_file made cleanup(library_file_done) = {.filename = NULL};
    struct form form cleanup(form_done) = {.filename = NULL};
    struct library_spec spec = {0};
    int r = read_form(call, &form, err);

    if (r == 0)
        r = openai_decode_expiry(form.anchor, form.seconds, form.purpose,
                                 &spec.expires_s, openai_fault(call), err);
    if (r < 0)
        return r;
    spec.filename = form.filename;
    spec.purpose = form.purpose;
    spec.mime = openai_name_type(http_arena(call->http), form.type);
    spec.sha256 = form.blob.sha256;
    spec.size = form.blob.size;
    r = library_add(call->doors->workspaces, &call->actor, &spec, &made, err);
    if (r == 0)
        respond(call, &made);
    return r;
}

/* ---- look, fetch, delete ------------------------------------------------ */

static void respond_list(struct doors_call *call,
                         const struct library_file *files, size_t count,
                         bool more)
{
    char first[ID_MAX], last[ID_MAX];
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    openai_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        openai_encode_file(&w, NULL, &files[i]);
    openai_encode_list_end(
        &w, count ? doors_file_library(files[0].file, first) : NULL,
        count ? doors_file_library(files[count - 1].file, last) : NULL, more);
    openai_respond(call, &body);
}

int openai_files_list(struct doors_call *call, struct error *err)
{
    struct library_file *files = NULL;
    const char *purpose = NULL;
    struct openai_page page;
    char after[ID_MAX] = "";
    struct page_result got = {0};
    int r = openai_page(call, LIBRARY_LIST_MAX, LIBRARY_LIST_MAX, &page, err);

    if (r == 0)
        r = http_query(call->http, "purpose", &purpose, err);
    if (r == 0 && (!page.after || doors_file_id(page.after, after)))
        r = library_list(call->doors->workspaces, &call->actor, purpose,
                         page.oldest_first,
                         &(struct page){.limit = page.limit,
                                        .after = page.after ? after : NULL},
                         &files, &got, err);
    if (r < 0)
        return r;
    respond_list(call, files, got.count, got.has_more);
    library_files_free(files, got.count);
    return 0;
}

int openai_files_get(struct doors_call *call, struct error *err)
{
    struct library_file file cleanup(library_file_done) = {.filename = NULL};
    int r = openai_library(call, call->params[0], "id", &file, err);

    if (r == 0)
        respond(call, &file);
    return r;
}

int openai_respond_bytes(struct doors_call *call,
                         const struct workspace_file *f, const char *name,
                         struct error *err)
{
    int fd cleanup(fd_close) = -1;
    int r = workspace_file_open(call->doors->workspaces, &call->actor, f, &fd,
                                err);

    if (r < 0)
        return r;
    openai_stamp(call);
    r = http_respond_download(call->http,
                              &(struct http_download){
                                  .fd = fd,
                                  .size = f->size,
                                  .name = name,
                                  .type = f->mime,
                                  .etag = f->sha256,
                                  .modified_ms = f->modified_at_ms,
                                  .stable = true,
                              },
                              err);
    if (r == 0)
        (void)take_fd(fd);
    return r;
}

int openai_files_content(struct doors_call *call, struct error *err)
{
    struct library_file file cleanup(library_file_done) = {.filename = NULL};
    struct workspace_file bytes = {.path = NULL};
    int r = openai_library(call, call->params[0], "id", &file, err);

    if (r < 0)
        return r;
    bytes.path = file.filename; /* borrowed; policy goes by it */
    bytes.size = file.size;
    memcpy(bytes.file, file.file, sizeof(bytes.file));
    memcpy(bytes.version, file.version, sizeof(bytes.version));
    memcpy(bytes.sha256, file.sha256, sizeof(bytes.sha256));
    memcpy(bytes.mime, file.mime, sizeof(bytes.mime));
    bytes.modified_at_ms = file.created_at_ms;
    return openai_respond_bytes(call, &bytes, file.filename, err);
}

int openai_files_delete(struct doors_call *call, struct error *err)
{
    struct library_file file cleanup(library_file_done) = {.filename = NULL};
    char id[ID_MAX];
    int r = openai_library(call, call->params[0], "id", &file, err);

    if (r < 0)
        return r;
    r = library_remove(call->doors->workspaces, &call->actor, file.file, err);
    if (r < 0)
        return openai_refuse_file(call, call->params[0], "id", err);
    openai_respond_deleted(call, doors_file_library(file.file, id), "file");
    return 0;
}
