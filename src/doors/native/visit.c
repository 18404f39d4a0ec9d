/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /s/{secret}: somebody with a link and no key. Runs on a worker of the
 * daemon. The secret is all there is, so every way of not having it looks
 * the same (404), nothing of the workspace beyond the shared path is told,
 * and files are inert in a browser (F8).
 */
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- getting in --------------------------------------------------------- */

/* X-Share-Password, or that of Basic authentication; NULL for none. */
static const char *password_of(struct doors_call *call)
{
    const char *header = http_header(call->http, "X-Share-Password");
    const char *basic = http_header(call->http, "Authorization");
    unsigned char *bytes cleanup(mem_free) = NULL;
    const char *colon;
    struct error ignored;
    size_t len;

    if (header)
        return header;
    if (!basic || strncasecmp(basic, "Basic ", 6) != 0)
        return NULL;
    basic += 6;
    basic += strspn(basic, " ");
    if (json_base64_decode(basic, strlen(basic), &bytes, &len, &ignored) < 0)
        return NULL;
    colon = memchr(bytes, ':', len);
    if (!colon || memchr(bytes, '\0', len))
        return NULL;
    colon++;
    return arena_strndup(http_arena(call->http), colon,
                         len - (size_t)(colon - (const char *)bytes));
}

static int enter(struct doors_call *call, struct workspace_share *ret,
                 struct error *err)
{
    const char *password = password_of(call);
    int r;

    if (password && strlen(password) > SHARE_PASSWORD_MAX)
        password = ""; /* none is that long; this one is refused alike */
    r = workspace_share_open(call->doors->workspaces, call->params[0],
                             password, http_source(call->http), ret, err);
    if (r == -ERR_UNAUTHENTICATED)
        http_add_header(call->http, "WWW-Authenticate",
                        "Basic realm=\"share\", charset=\"UTF-8\"");
    return r;
}

static bool is_folder(const struct workspace_share *s)
{
    size_t len = strlen(s->path);

    return len == 0 || s->path[len - 1] == '/';
}

/* ---- looking ------------------------------------------------------------ */

/* A file of a shared folder, and the secret of the link to it. */
struct entry {
    struct workspace_file file;
    const char *secret;
};

static void write_url(struct json_writer *w, const char *key,
                      const void *object)
{
    struct buf url cleanup(buf_done) = {0};
    const struct entry *e = object;

    buf_addf(&url, "/s/%s/", e->secret);
    doors_url_escape(&url, e->file.path ? e->file.path : "", true);
    json_write_string(w, key, url.data);
}

#define ENTRY(member) API_AT(struct entry, file.member)

static const struct api_field shared_file_fields[] = {
    {"path", API_STRING, ENTRY(path)},
    {"size", API_INT, ENTRY(size)},
    {"sha256", API_STRING, ENTRY(sha256)},
    {"mime_type", API_STRING, API_NULLABLE, ENTRY(mime)},
    {"modified_at", API_TIME, ENTRY(modified_at_ms)},
    {"url", API_STRING, .write = write_url},
};
API_OUTPUT(native_shared_file, "SharedFile", struct entry, shared_file_fields,
           "A file of a shared folder.");

static int list(struct doors_call *call, const struct workspace_share *s,
                struct error *err)
{
    struct workspace_file *files = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    const char *after = NULL;
    unsigned limit = 0;
    struct page_result got = {0};
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, WORKSPACE_LIST_MAX,
                            &limit, &after, err);

    if (r == 0)
        r = workspace_share_list(
            call->doors->workspaces, s,
            &(struct page){.limit = limit, .after = after}, &files, &got, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < got.count; i++)
        api_write(&w, NULL, &native_shared_file,
                  &(struct entry){files[i], call->params[0]});
    native_encode_list_end(&w, got.has_more);
    workspace_files_free(files, got.count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

static int download(struct doors_call *call, const struct workspace_share *s,
                    struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    const char *path = call->params[1] ? call->params[1] : "";
    bool head = strcmp(http_method(call->http), "HEAD") == 0;
    int fd cleanup(fd_close) = -1;
    int r =
        workspace_share_get(call->doors->workspaces, s, path,
                            head ? NULL : http_source(call->http), &f, err);

    if (r == 0)
        r = workspace_file_open(call->doors->workspaces, NULL, &f, &fd, err);
    if (r == 0)
        r = http_respond_download(call->http,
                                  &(struct http_download){
                                      .fd = fd,
                                      .size = f.size,
                                      .name = f.path,
                                      .type = f.mime,
                                      .etag = f.sha256,
                                      .modified_ms = f.modified_at_ms,
                                      .stable = true,
                                  },
                                  err);
    if (r == 0)
        (void)take_fd(fd);
    return r;
}

int native_visit_get(struct doors_call *call, struct error *err)
{
    struct workspace_share s cleanup(workspace_share_done) = {.path = NULL};
    int r = enter(call, &s, err);

    if (r < 0)
        return r;
    return is_folder(&s) && !call->params[1] ? list(call, &s, err)
                                             : download(call, &s, err);
}

/* ---- leaving something -------------------------------------------------- */

struct put {
    const char *path; /* as the visitor called it, not where it is */
    const char *sha256;
    uint64_t size;
};

#define PUT(member) API_AT(struct put, member)

static const struct api_field share_put_fields[] = {
    {"path", API_STRING, PUT(path)},
    {"size", API_INT, PUT(size)},
    {"sha256", API_STRING, PUT(sha256)},
};
API_OUTPUT(native_share_put, "SharePut", struct put, share_put_fields,
           "A file somebody left.");

int native_visit_put(struct doors_call *call, struct error *err)
{
    struct workspace_share s cleanup(workspace_share_done) = {.path = NULL};
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    struct native_blob blob cleanup(native_receive_done) = {.blobs = NULL};
    const char *path = call->params[1] ? call->params[1] : "";
    int r = enter(call, &s, err);

    /* Before the body is read for nothing; the core decides again. */
    if (r == 0 && s.mode != SHARE_WRITE)
        r = error_set(err, ERR_FORBIDDEN, "this link is for reading only");
    if (r == 0 && is_folder(&s) && !path[0])
        r = error_set(err, ERR_INVALID,
                      "this link is a folder: add the file's name to it");
    if (r == 0)
        r = native_receive_body(call, s.workspace, &blob, err);
    if (r == 0)
        r = workspace_share_put(call->doors->workspaces, &s, path, blob.sha256,
                                blob.size, http_source(call->http), &made,
                                err);
    if (r < 0)
        return r;
    native_respond(call, native_change_is_new(&made) ? 201 : 200,
                   &native_share_put,
                   &(struct put){path, blob.sha256, blob.size});
    return 0;
}
