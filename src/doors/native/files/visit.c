/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /s/{secret}: visitors with a link and no key. Runs on a worker of the
 * daemon. The secret is the only credential, so every wrong one gets the same
 * 404, answers reveal nothing of the workspace beyond the shared path, and
 * files are inert in a browser (F8).
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
    json_write_url(w, key, url.data);
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
    struct json_writer w = native_writer(call, &body);
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

/* ---- a page of ours ------------------------------------------------------
 * Its only text is ours, and it may do nothing but send its form back. */

static void respond_page(struct doors_call *call, unsigned status,
                         const char *body)
{
    struct buf page = {0};

    http_add_header(call->http, "Content-Security-Policy",
                    "default-src 'none'; form-action 'self'; base-uri 'none'; "
                    "frame-ancestors 'none'");
    http_add_header(call->http, "Referrer-Policy", "no-referrer");
    buf_addf(&page,
             "<!doctype html>\n<html lang=\"en\"><head>"
             "<meta charset=\"utf-8\"><title>Upload a file</title></head>\n"
             "<body><h1>Upload a file</h1>\n%s</body></html>\n",
             body);
    http_respond(call->http, status, "text/html; charset=utf-8", &page);
}

static void respond_form(struct doors_call *call)
{
    respond_page(call, 200,
                 "<p>This link takes one file and then ends.</p>\n"
                 "<form method=\"post\" enctype=\"multipart/form-data\">"
                 "<input type=\"file\" name=\"file\" required> "
                 "<button>Upload</button></form>\n");
}

int native_visit_get(struct doors_call *call, struct error *err)
{
    struct workspace_share s cleanup(workspace_share_done) = {.path = NULL};
    int r = enter(call, &s, err);

    if (r < 0)
        return r;
    if (s.mode == SHARE_UPLOAD && !call->params[1]) {
        respond_form(call);
        return 0;
    }
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
           "A file uploaded through a link.");

/* Before the body is read for nothing; the core decides again. */
static int check_put(const struct workspace_share *s, const char *path,
                     struct error *err)
{
    if (s->mode == SHARE_READ)
        return error_set(err, ERR_FORBIDDEN, "this link is for reading only");
    if (is_folder(s) && !path[0])
        return error_set(err, ERR_INVALID,
                         "this link is a folder: add the file's name to it");
    return 0;
}

static int store_blob(struct doors_call *call, const struct workspace_share *s,
                      const char *path, const struct native_blob *blob,
                      bool page, struct error *err)
{
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    int r =
        workspace_share_put(call->doors->workspaces, s, path, blob->sha256,
                            blob->size, http_source(call->http), &made, err);

    if (r < 0)
        return r;
    if (page)
        respond_page(call, native_change_is_new(&made) ? 201 : 200,
                     "<p>The file was stored. You can close this page.</p>\n");
    else
        native_respond(call, native_change_is_new(&made) ? 201 : 200,
                       &native_share_put,
                       &(struct put){path, blob->sha256, blob->size});
    return 0;
}

int native_visit_put(struct doors_call *call, struct error *err)
{
    struct workspace_share s cleanup(workspace_share_done) = {.path = NULL};
    struct native_blob blob cleanup(native_receive_done) = {.blobs = NULL};
    const char *path = call->params[1] ? call->params[1] : "";
    int r = enter(call, &s, err);

    if (r == 0)
        r = check_put(&s, path, err);
    if (r == 0)
        r = native_receive_body(call, s.workspace, &blob, err);
    return r < 0 ? r : store_blob(call, &s, path, &blob, false, err);
}

static ssize_t read_part(void *ctx, void *bytes, size_t len, struct error *err)
{
    return http_multipart_read(ctx, bytes, len, err);
}

/* The first file of the form. */
int native_visit_post(struct doors_call *call, struct error *err)
{
    struct workspace_share s cleanup(workspace_share_done) = {.path = NULL};
    struct native_blob blob cleanup(native_receive_done) = {.blobs = NULL};
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    const char *accept = http_header(call->http, "Accept");
    struct http_part part = {0};
    int r = enter(call, &s, err);

    if (r == 0)
        r = check_put(&s, "", err);
    if (r == 0)
        r = http_multipart_new(http_header(call->http, "Content-Type"),
                               native_receive_read, call,
                               http_arena(call->http), &m, err);
    if (r < 0)
        return r;
    r = http_multipart_next(m, &part, err);
    if (r == 0 || (r > 0 && (!part.filename || !part.filename[0])))
        r = error_set(err, ERR_INVALID, "the form has no file");
    if (r > 0)
        r = native_receive_from(call, s.workspace, read_part, m, &blob, err);
    return r < 0 ? r
                 : store_blob(call, &s, "", &blob,
                              accept && strstr(accept, "text/html"), err);
}
