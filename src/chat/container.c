/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of a response: an explicit one, the one that the conversation or
 * the chain has used so far, or a new one. A session that is gone is replaced
 * by a new one on the same workspace, so that its files are in place. Files
 * and images of the input are put there. Nothing here wakes a sandbox. Runs in
 * gloveboxd.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/path.h"
#include "base/size.h"
#include "chat/chat_int.h"
#include "session/session.h"
#include "workspace/library.h"
#include "json/json.h"

#define IDLE_S 1200u /* as clients of the hosted service expect */
#define LISTED_MAX 50u

/* ---- bytes -------------------------------------------------------------- */

int chat_container_decode(const char *uri, unsigned char **ret,
                          size_t *ret_len, char ret_type[96],
                          struct error *err)
{
    const char *data = uri, *comma;
    size_t type = 0;

    ret_type[0] = '\0';
    if (strncmp(uri, "data:", 5) == 0) {
        comma = strchr(uri, ',');
        if (!comma || comma - uri < 7 || strncmp(comma - 7, ";base64", 7) != 0)
            return error_set(err, ERR_INVALID, "not a data: URI in base64");
        data = comma + 1;
        type = strcspn(uri + 5, ";,");
        (void)snprintf(ret_type, 96, "%.*s", (int)MIN(type, (size_t)95),
                       uri + 5);
    }
    return json_base64_decode(data, strlen(data), ret, ret_len, err);
}

int chat_container_read(struct chat_response *r, const char *file, size_t max,
                        char **ret, size_t *ret_len, char ret_type[96],
                        struct error *err)
{
    struct workspaces *w = r->chat->parts.workspaces;
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    char workspace[ID_MAX], *bytes cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    size_t len = 0;
    ssize_t n = 1;
    int rc =
        workspace_file_find(w, &r->owner.who, file, NULL, &f, workspace, err);

    if (rc == 0)
        rc = workspace_file_open(w, &r->owner.who, &f, &fd, err);
    if (rc < 0)
        return rc;
    if (f.size > max)
        return error_set(err, ERR_TOO_LARGE, "the file is over %zu bytes",
                         max);
    bytes = xmalloc((size_t)f.size + 1);
    while (len < f.size && (n = read(fd, bytes + len, f.size - len)) > 0)
        len += (size_t)n;
    if (n < 0)
        return error_set(err, ERR_INTERNAL, "cannot read the file");
    (void)snprintf(ret_type, 96, "%s", f.mime);
    *ret_len = len;
    *ret = take_ptr(bytes);
    return 0;
}

/* ---- the session -------------------------------------------------------- */

static void note_session(struct chat_response *r,
                         const struct session_info *info)
{
    memcpy(r->session, info->id, sizeof(r->session));
    (void)snprintf(r->workspace, sizeof(r->workspace), "%s", info->workspace);
}

static int create(struct chat_response *r, const struct chat_request *rq,
                  struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct workspace_info old = {0};
    struct error ignored;
    struct session_spec spec = {
        .container = true,
        .asleep = true,
        .name = r->conversation[0] ? r->conversation : r->id,
        .cooldown_s = IDLE_S,
        .limits.memory_bytes = r->memory_bytes,
        .files = rq ? rq->files : NULL,
        .file_count = rq ? rq->file_count : 0,
        .network = rq ? rq->network : NULL,
    };
    int rc;

    if (r->workspace[0] &&
        workspace_get(r->chat->parts.workspaces, &r->owner.who, r->workspace,
                      &old, &ignored) == 0) {
        spec.workspace = r->workspace;
    }
    rc = session_create(r->chat->parts.sessions, &r->owner.who, &spec, &info,
                        err);
    if (rc == 0)
        note_session(r, &info);
    r->session_new = rc == 0;
    return rc;
}

int chat_container_need(struct chat_response *r, struct error *err)
{
    return r->session[0] ? 0 : create(r, NULL, err);
}

/* The newest session that code of the context ran in. */
static void find_used(struct chat_response *r, const struct chat_items *items)
{
    for (size_t i = items->count; i-- > 0;) {
        const char *id = json_string_value(
            json_object_get(items->list[i].body, "container_id"));

        if (!chat_item_is(&items->list[i], "code_interpreter_call") || !id ||
            !*id)
            continue;
        if (strcmp(r->session, id) != 0) { /* its workspace is another one */
            (void)snprintf(r->session, sizeof(r->session), "%s", id);
            r->workspace[0] = '\0';
        }
        return;
    }
}

/* True: the session of earlier turns can be used. A session that is over, or
 * was deleted, is replaced. */
static bool reuse(struct chat_response *r)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct error ignored;

    if (!r->session[0])
        return false;
    if (session_visit(r->chat->parts.sessions, &r->owner.who, r->session,
                      &info, &ignored) == 0 &&
        !info.final) {
        note_session(r, &info);
        return true;
    }
    r->session[0] = '\0';
    return false;
}

static bool has_file(struct chat_response *r, const char *path)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    struct error ignored;

    return r->workspace[0] &&
           workspace_file_get(r->chat->parts.workspaces, &r->owner.who,
                              r->workspace, path, NULL, &f, &ignored) == 0;
}

/* A file that is there already stays: code may have changed it. */
static int attach(struct chat_response *r, const struct session_attach *what,
                  struct session_file *ret, struct error *err)
{
    if (has_file(r, what->path)) {
        ret->path = xstrdup(what->path);
        (void)snprintf(ret->file, sizeof(ret->file), "%s", what->file);
        return 0;
    }
    return session_attach(r->chat->parts.sessions, &r->owner.who, r->session,
                          what, ret, err);
}

static int attach_all(struct chat_response *r, const struct chat_request *rq,
                      struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < rq->file_count && rc == 0; i++) {
        struct session_file made = {.path = NULL};

        rc = attach(r, &rq->files[i], &made, err);
        free(made.path);
    }
    return rc;
}

int chat_container_settle(struct chat_response *r,
                          const struct chat_request *rq,
                          struct chat_fault *fault, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int rc;

    (void)fault;
    r->memory_bytes = rq->memory_bytes;
    if (!rq->code && !rq->box) {
        r->session[0] = r->workspace[0] = '\0';
        return 0;
    }
    if (rq->container) {
        r->session_explicit = true;
        rc = session_visit(r->chat->parts.sessions, &r->owner.who,
                           rq->container, &info, err);
        if (rc == 0 && info.final)
            rc = error_set(err, ERR_EXPIRED, "the container is over");
        if (rc == 0)
            note_session(r, &info);
        return rc;
    }
    find_used(r, &r->context);
    find_used(r, &r->input);
    if (reuse(r))
        return attach_all(r, rq, err);
    return rq->file_count || rq->network ? create(r, rq, err) : 0;
}

/* ---- files of the input ------------------------------------------------- */

int chat_container_keep(struct chat_response *r, const char *path,
                        const char *change, const void *bytes, size_t len,
                        struct chat_item *item, struct error *err)
{
    struct session_upload *u = NULL;
    struct session_file made = {.path = NULL};
    char other[256];
    int rc = session_upload_begin(r->chat->parts.sessions, &r->owner.who,
                                  r->session, path, &u, err);

    if (rc < 0)
        return rc;
    (void)snprintf(other, sizeof(other), "%.16s-%.200s",
                   chat_item_id(item) + strcspn(chat_item_id(item), "_") + 1,
                   path);
    rc = strchr(path, '/') ? 0 : session_upload_new(u, other, err);
    if (rc == 0)
        rc = session_upload_write(u, bytes, len, err);
    if (rc < 0) {
        session_upload_abort(u);
        return rc;
    }
    rc = session_upload_commit(u, &made, err);
    if (rc == 0)
        chat_item_add_file(item, made.file, made.version, made.path, change,
                           made.size);
    free(made.path);
    return rc;
}

/* The last part of the client's name for it; a usual one where that is none.
 */
static void name_file(const json_t *part, const char *type, char ret[256])
{
    const char *name = json_string_value(json_object_get(part, "filename"));
    const char *slash = name ? strrchr(name, '/') : NULL;
    const char *dot = strchr(type, '/');

    if (slash)
        name = slash + 1;
    if (name && *name && !strchr(name, '\\') &&
        !path_fault(name, strlen(name)) && strlen(name) < 200)
        (void)snprintf(ret, 256, "%s", name);
    else if (strncmp(type, "image/", 6) == 0)
        (void)snprintf(ret, 256, "image.%.8s", dot + 1);
    else
        (void)snprintf(ret, 256, "%s",
                       strcmp(type, "application/pdf") == 0 ? "document.pdf"
                                                            : "file");
}

static int put_data(struct chat_response *r, struct chat_item *item,
                    const json_t *part, const char *uri, struct error *err)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    char type[96], name[256];
    size_t len = 0;
    int rc = chat_container_decode(uri, &bytes, &len, type, err);

    if (rc < 0)
        return rc;
    name_file(part, type, name);
    return chat_container_keep(r, name, "input", bytes, len, item, err);
}

static int put_stored(struct chat_response *r, struct chat_item *item,
                      const char *id, struct error *err)
{
    const struct chat_names *names = r->chat->parts.names;
    struct library_file f cleanup(library_file_done) = {.filename = NULL};
    struct session_file made = {.path = NULL};
    char file[ID_MAX], shown[ID_MAX], path[512];
    int rc = names->file(id, file)
                 ? library_get(r->chat->parts.workspaces, &r->owner.who, file,
                               &f, err)
                 : error_set(err, ERR_NOT_FOUND, "no such file");

    if (rc == -ERR_NOT_FOUND)
        return error_set(err, ERR_NOT_FOUND, "No such File object: %.80s", id);
    if (rc < 0)
        return rc;
    (void)snprintf(path, sizeof(path), "%s-%.200s",
                   names->library(f.file, shown), f.filename);
    rc = attach(r, &(struct session_attach){f.file, path}, &made, err);
    if (rc == 0)
        chat_item_add_file(item, f.file, f.version, made.path, "input",
                           f.size);
    free(made.path);
    return rc;
}

static int put_part(struct chat_response *r, struct chat_item *item,
                    const json_t *part, struct error *err)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *id = json_string_value(json_object_get(part, "file_id"));
    const char *data = json_string_value(json_object_get(part, "file_data"));
    int rc;

    if (!type ||
        (strcmp(type, "input_file") != 0 && strcmp(type, "input_image") != 0))
        return 0;
    if (!data)
        data = json_string_value(json_object_get(part, "image_url"));
    if (!data && !id)
        data = json_string_value(json_object_get(part, "file_url"));
    rc = chat_container_need(r, err);
    if (rc < 0)
        return rc;
    return id     ? put_stored(r, item, id, err)
           : data ? put_data(r, item, part, data, err)
                  : 0;
}

int chat_container_files(struct chat_response *r, struct error *err)
{
    int rc = 0;

    if (!r->tool[0] && !r->box)
        return 0;
    for (size_t i = 0; i < r->input.count && rc == 0; i++) {
        struct chat_item *item = &r->input.list[i];
        json_t *part;
        size_t n;

        if (item->file_count || !chat_item_is(item, "message"))
            continue;
        json_array_foreach (json_object_get(item->body, "content"), n, part) {
            rc = put_part(r, item, part, err);
            if (rc < 0)
                break;
        }
    }
    return rc;
}

/* ---- the list ----------------------------------------------------------- */

void chat_container_list(struct chat_response *r, struct buf *out)
{
    struct workspace_file *files = NULL;
    struct page_result got = {0};
    struct error ignored;
    char size[32];
    const struct workspace_files_spec spec = {.limit = LISTED_MAX};

    if (!r->workspace[0] ||
        workspace_files_list(r->chat->parts.workspaces, &r->owner.who,
                             r->workspace, &spec, &files, &got, &ignored) < 0)
        return;
    for (size_t i = 0; i < got.count; i++)
        if (files[i].path[0] != '.')
            buf_addf(out, "- " CHAT_ROOT "%s (%s)\n", files[i].path,
                     size_format(files[i].size, size));
    if (got.has_more)
        buf_adds(out, "- … and more\n");
    workspace_files_free(files, got.count);
}
