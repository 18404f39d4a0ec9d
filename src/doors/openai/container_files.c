/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /containers/{id}/files: the files of a container. They are read from its
 * workspace, so that a container that expired lists and serves them without
 * being woken. A container that keeps nothing has only paths in a sandbox: the
 * id of such a file is derived from container and path and is valid as long as
 * the file exists; who created it is unknown, and all count as the code's.
 * Runs on a worker of the daemon.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/hash.h"
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

/* ---- containers that keep nothing --------------------------------------- */

#define PAGE 1000u
#define FILES_MAX 10000u /* more are not looked at */

/* ---- all of them -------------------------------------------------------- */

struct listing {
    struct session_file *files; /* in the order asked for; owned */
    size_t count;
};

static void listing_done(struct listing *l)
{
    session_files_free(l->files, l->count);
}

static void make_file_id(const char *container, const char *path,
                         char ret[ID_MAX])
{
    struct hash_stream *h = hash_stream_new();
    unsigned char digest[HASH_SIZE];

    hash_stream_add(h, container, strlen(container) + 1);
    hash_stream_add(h, path, strlen(path));
    hash_stream_end(h, digest);
    memcpy(ret, "file_", 5);
    (void)ids_hex(digest, 16, ret + 5);
}

/* Moves the files of one page behind those there are. */
static void append_files(struct listing *l, struct session_file *files,
                         size_t count)
{
    l->files = xrealloc(l->files, (l->count + count + 1) * sizeof(*files));
    if (count)
        memcpy(l->files + l->count, files, count * sizeof(*files));
    l->count += count;
    free(files); /* only the array: its strings moved */
}

static int oldest_first(const void *a, const void *b)
{
    const struct session_file *x = a, *y = b;

    if (x->modified_at_ms != y->modified_at_ms)
        return x->modified_at_ms < y->modified_at_ms ? -1 : 1;
    return strcmp(x->path, y->path);
}

static int newest_first(const void *a, const void *b)
{
    return oldest_first(b, a);
}

static int read_listing(struct doors_call *call,
                        const struct session_info *info, bool oldest,
                        struct listing *ret, struct error *err)
{
    bool more = !info->expired && info->state != SESSION_DORMANT &&
                info->state != SESSION_HIBERNATED;

    while (more && ret->count < FILES_MAX) {
        const char *after =
            ret->count ? ret->files[ret->count - 1].path : NULL;
        struct session_file *files = NULL;
        size_t count = 0;
        int r =
            session_files_list(call->doors->sessions, &call->actor, info->id,
                               PAGE, after, &files, &count, &more, err);

        if (r < 0)
            return openai_refuse_container(call->params[0], err);
        more = more && count > 0;
        append_files(ret, files, count);
    }
    if (ret->count)
        qsort(ret->files, ret->count, sizeof(*ret->files),
              oldest ? oldest_first : newest_first);
    return 0;
}

/* The place of an id in the list, or its end. */
static size_t find_file_id(const struct listing *l, const char *container,
                           const char *file)
{
    size_t i;

    for (i = 0; i < l->count; i++) {
        char id[ID_MAX];

        make_file_id(container, l->files[i].path, id);
        if (strcmp(id, file) == 0)
            break;
    }
    return i;
}

static void encode_ephemeral(struct json_writer *w, const char *container,
                             const struct session_file *file)
{
    char id[ID_MAX];

    make_file_id(container, file->path, id);
    openai_encode_listed(w, &(struct openai_listed){
                                .container = container,
                                .file = id,
                                .path = file->path,
                                .size = file->size,
                                .created_at_ms = file->modified_at_ms,
                                .by_execution = true,
                            });
}

int openai_ephemeral_list(struct doors_call *call,
                          const struct session_info *info,
                          const struct openai_page *page, struct error *err)
{
    struct listing l cleanup(listing_done) = {.files = NULL};
    char after[ID_MAX] = "", first[ID_MAX] = "", last[ID_MAX] = "";
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t from = 0, to;
    int r = read_listing(call, info, page->oldest_first, &l, err);

    if (r < 0)
        return r;
    if (page->after)
        from = doors_file_id(page->after, after)
                   ? MIN(find_file_id(&l, info->id, after) + 1, l.count)
                   : l.count;
    to = MIN(from + page->limit, l.count);
    openai_encode_list(&w);
    for (size_t i = from; i < to; i++)
        encode_ephemeral(&w, info->id, &l.files[i]);
    if (to > from) {
        char id[ID_MAX];

        make_file_id(info->id, l.files[from].path, id);
        (void)doors_file_container(id, first);
        make_file_id(info->id, l.files[to - 1].path, id);
        (void)doors_file_container(id, last);
    }
    openai_encode_list_end(&w, to > from ? first : NULL,
                           to > from ? last : NULL, to < l.count);
    openai_respond(call, &body);
    return 0;
}

/* ---- one of them -------------------------------------------------------- */

void openai_ephemeral_respond(struct doors_call *call,
                              const struct session_info *info,
                              const struct session_file *file)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    encode_ephemeral(&w, info->id, file);
    openai_respond(call, &body);
}

static int respond_ephemeral(struct doors_call *call,
                             const struct session_info *info, const char *path,
                             struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r = session_files_open(call->doors->sessions, &call->actor, info->id,
                               path, &fd, &st, err);

    if (r < 0)
        return openai_refuse_listed(call->params[0], call->params[1], err);
    openai_stamp(call);
    r = http_respond_file(call->http, fd, &st, path, err);
    if (r == 0)
        (void)take_fd(fd);
    return r;
}

static int delete_ephemeral(struct doors_call *call,
                            const struct session_info *info, const char *path,
                            struct error *err)
{
    char id[ID_MAX], shown[ID_MAX];
    int r = session_files_remove(call->doors->sessions, &call->actor, info->id,
                                 path, err);

    if (r < 0)
        return openai_refuse_listed(call->params[0], call->params[1], err);
    make_file_id(info->id, path, id);
    openai_respond_deleted(call, doors_file_container(id, shown),
                           "container.file.deleted");
    return 0;
}

int openai_ephemeral_one(struct doors_call *call,
                         const struct session_info *info,
                         enum openai_deed deed, struct error *err)
{
    struct listing l cleanup(listing_done) = {.files = NULL};
    char file[ID_MAX] = "";
    size_t at = 0;
    int r = read_listing(call, info, false, &l, err);

    if (r < 0)
        return r;
    if (doors_file_id(call->params[1], file))
        at = find_file_id(&l, info->id, file);
    if (!file[0] || at == l.count) {
        (void)error_set(err, ERR_NOT_FOUND, "no such file");
        return openai_refuse_listed(call->params[0], call->params[1], err);
    }
    if (deed == OPENAI_CONTENT)
        return respond_ephemeral(call, info, l.files[at].path, err);
    if (deed == OPENAI_DELETE)
        return delete_ephemeral(call, info, l.files[at].path, err);
    openai_ephemeral_respond(call, info, &l.files[at]);
    return 0;
}

/* ---- adding a file ------------------------------------------------------ */

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
static int respond_attached(struct attach *a, struct session_file *made,
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
static int name_is_free_inside(struct attach *a, const char *name, bool *ret,
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
static int name_is_free(struct attach *a, const char *name, bool *ret,
                        struct error *err)
{
    struct workspaces *w = a->call->doors->workspaces;
    struct workspace_file f = {.path = NULL}, *below = NULL;
    const char *prefix = arena_printf(http_arena(a->call->http), "%s/", name);
    struct page_result got = {0};
    int r;

    if (a->info.ephemeral)
        return name_is_free_inside(a, name, ret, err);
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
        r = name_is_free(a, name, &unused, err);
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

static int take_attached_file(struct attach *a, struct http_multipart *m,
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

static int commit_file(struct attach *a, struct error *err)
{
    struct session_file made = {.path = NULL};
    int r = session_upload_commit(take_ptr(a->upload), &made, err);

    if (r < 0)
        return openai_refuse_container(a->call->params[0], err);
    return respond_attached(a, &made, err);
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
    return respond_attached(a, &made, err);
}

/* ---- both --------------------------------------------------------------- */

static int read_attach_form(struct attach *a, struct error *err)
{
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct http_part part;
    int r = openai_form_open(a->call, OPENAI_FILE_BYTES, &m, err);

    while (r == 0 && (r = http_multipart_next(m, &part, err)) > 0) {
        if (strcmp(part.name, "file") == 0)
            r = take_attached_file(a, m, &part, err);
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
        r = read_attach_form(&a, err);
    } else if (r == 0) {
        r = openai_body(call, &json, err);
        if (r == 0)
            r = openai_decode_attach(json, &a.file_id, openai_fault(call),
                                     err);
    }
    if (r < 0)
        return r;
    return a.upload ? commit_file(&a, err) : attach_kept(&a, err);
}
