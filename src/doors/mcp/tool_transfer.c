/* SPDX-License-Identifier: Apache-2.0 */
/*
 * download_file and upload_file: bytes out of and into a session. Runs on a
 * worker of the daemon. Small text and pictures are in the answer itself, the
 * rest is a link; nothing is ever fetched from elsewhere: a URL is one of
 * this service's own and is resolved without network.
 */
#include <string.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/path.h"
#include "base/size.h"
#include "base/utf8.h"
#include "doors/mcp/tool.h"

#define INLINE_TEXT_BYTES 100000u
#define INLINE_IMAGE_BYTES (1u << 20)
#define URL_MAX 2048
#define CHUNK 262144u

/* ---- download_file ------------------------------------------------------ */

struct path_args {
    const char *path, *session, *text, *base64, *url;
};

#define ARG(member) API_AT(struct path_args, member)

static const struct api_field download_arguments[] = {
    {"path", API_STRING, API_REQUIRED, ARG(path), .min = 1,
     .max = TOOL_PATH_MAX, .help = "Below /mnt/data"},
    TOOL_SESSION(struct path_args),
};
TOOL_INPUT(download_file, struct path_args, download_arguments);

static const struct api_field upload_arguments[] = {
    {"path", API_STRING, API_REQUIRED, ARG(path), .min = 1,
     .max = TOOL_PATH_MAX,
     .help = "Where it is to be, below /mnt/data; folders are made"},
    {"text", API_STRING, ARG(text), .max = INT64_MAX,
     .help = "Its content as text"},
    {"base64", API_STRING, ARG(base64), .max = INT64_MAX,
     .help = "Its content in base64"},
    {"url", API_STRING, ARG(url), .min = 1, .max = URL_MAX,
     .help = "A file of this service, such as /api/files/file_…/content"},
    TOOL_SESSION(struct path_args),
};
TOOL_INPUT(upload_file, struct path_args, upload_arguments);

/* In the answer, or not: what it is by its name and whether it is small. */
enum place {
    PLACE_LINK,
    PLACE_TEXT,
    PLACE_IMAGE,
};

static const char *const places[] = {"link", "text", "image", NULL};

static bool is_image(const char *mime)
{
    static const char *const known[] = {"image/png", "image/jpeg", "image/gif",
                                        "image/webp"};

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strcmp(mime, known[i]) == 0)
            return true;
    return false;
}

/* bytes: all of it when it is small enough for either, else empty. */
static enum place file_place(const char *mime, const struct buf *bytes)
{
    if (is_image(mime))
        return bytes->len ? PLACE_IMAGE : PLACE_LINK;
    if (bytes->len && bytes->len <= INLINE_TEXT_BYTES &&
        utf8_valid(bytes->data, bytes->len) &&
        !memchr(bytes->data, '\0', bytes->len))
        return PLACE_TEXT;
    return PLACE_LINK;
}

static int read_small(int fd, uint64_t size, struct buf *ret,
                      struct error *err)
{
    ssize_t n;

    if (size > INLINE_IMAGE_BYTES)
        return 0;
    buf_reserve(ret, size + 1);
    n = fd_read_all(fd, ret->data, size);
    if (n < 0)
        return error_set(err, ERR_GUEST, "the file could not be read");
    ret->len = (size_t)n;
    ret->data[ret->len] = '\0';
    return 0;
}

struct moved {
    struct tool_status status;
    const char *session, *place;
    struct tool_file_view file;
};

#define MOVED(member) API_AT(struct moved, member)

static const struct api_field downloaded_fields[] = {
    {"session_id", API_STRING, MOVED(session)},
    {"content", API_CHOICE, MOVED(place), .choices = places,
     .help = "How the bytes come: only by the link, or in the answer"},
    {"file", API_OBJECT, MOVED(file), .of = &tool_one_file_resource},
};
TOOL_OUTPUT(download_file, struct moved, downloaded_fields);

static const struct api_field uploaded_fields[] = {
    {"session_id", API_STRING, MOVED(session)},
    {"file", API_OBJECT, MOVED(file), .of = &tool_one_file_resource},
};
TOOL_OUTPUT(upload_file, struct moved, uploaded_fields);

/* place: of a download, else NULL. */
static void write_download(struct mcp_call *call,
                           const struct session_info *session,
                           const struct tool_file *f, const char *place,
                           struct mcp_answer *ret)
{
    struct moved moved = {TOOL_OK, session->id, place,
                          tool_file_view(call, session->workspace, f)};

    tool_answer(ret,
                place ? &tool_download_file_output : &tool_upload_file_output,
                &moved);
}

static void answer_download(struct mcp_call *call,
                            const struct session_info *session,
                            const struct tool_file *f, const struct buf *bytes,
                            struct mcp_answer *ret)
{
    enum place place = file_place(f->mime, bytes);
    const char *url = tool_file_url(call, f->file, f->version);
    const char *uri =
        url ? mcp_uri_make(call->arena, session->workspace, f->path)
            : arena_printf(call->arena, "sandbox:/mnt/data/%s", f->path);
    char size[32];

    mcp_answer_textf(ret, "/mnt/data/%s (%s, %s)%s%s", f->path, f->mime,
                     size_format(f->size, size), url ? ": " : "",
                     url ? url : "");
    if (place == PLACE_IMAGE)
        mcp_answer_image(ret, f->mime, bytes->data, bytes->len);
    else if (place == PLACE_TEXT)
        mcp_answer_resource(ret, uri,
                            strncmp(f->mime, "text/", 5) == 0 ? f->mime
                                                              : "text/plain",
                            bytes->data, bytes->len);
    tool_file_link(ret, call->arena, session->workspace, f);
    write_download(call, session, f, places[place], ret);
    tool_files_meta(ret, call, session->id, session->workspace, f, 1);
}

/* Its ids, when the workspace has it; a session may have changed it since. */
static void describe_file(struct mcp_call *call,
                          const struct session_info *session,
                          struct tool_file *f, struct workspace_file *ret)
{
    struct error ignored;

    if (!session->workspace[0] ||
        workspace_file_get(call->doors->workspaces, call->actor,
                           session->workspace, f->path, NULL, ret,
                           &ignored) < 0)
        return;
    f->file = ret->file;
    f->version = ret->version;
    f->sha256 = ret->sha256;
    f->mime = tool_text_or(ret->mime, f->mime);
}

int tool_download_file(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct workspace_file kept cleanup(workspace_file_done) = {.path = NULL};
    struct buf bytes cleanup(buf_done) = {0};
    struct tool_file f = {.path = NULL};
    struct path_args a = {.path = NULL};
    int fd cleanup(fd_close) = -1;
    struct stat st = {0};
    int r = api_read(args, &tool_download_file_input, &a, err);

    if (r == 0)
        r = tool_path(call->arena, a.path, &f.path, err);
    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &session, err);
    if (r == 0)
        r = session_files_open(call->doors->sessions, call->actor, session.id,
                               f.path, &fd, &st, err);
    if (r == -ERR_NOT_FOUND && session.id[0])
        (void)error_hint(err, "list_files lists the existing files.");
    if (r == 0)
        r = read_small(fd, (uint64_t)st.st_size, &bytes, err);
    if (r < 0)
        return r;
    f.size = (uint64_t)st.st_size;
    f.mime = mime_of_path(f.path);
    describe_file(call, &session, &f, &kept);
    answer_download(call, &session, &f, &bytes, ret);
    return 0;
}

/* ---- upload_file -------------------------------------------------------- */

/* The path of a URL of this service, or NULL: it leads elsewhere. */
static const char *own_path(const struct mcp_call *call, const char *url)
{
    const char *host =
        call->door ? http_header(call->door->http, "Host") : NULL;
    size_t base = strlen(call->base_url), len;

    if (url[0] == '/' && url[1] != '/')
        return url;
    if (strncasecmp(url, call->base_url, base) == 0 && url[base] == '/')
        return url + base;
    /* By the name the client used for this request, not by public_url. */
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return NULL;
    url = strstr(url, "://") + 3;
    len = strcspn(url, "/");
    return host && len == strlen(host) && strncasecmp(url, host, len) == 0
               ? url + len
               : NULL;
}

/* ".../files/{id}/content?version={v}" of any door. */
static int read_url(struct mcp_call *call, const char *url,
                    char ret_file[ID_MAX], const char **ret_version,
                    struct error *err)
{
    const char *path = own_path(call, url), *at, *end;
    char id[128];

    *ret_version = NULL;
    at = path ? strstr(path, "/files/") : NULL;
    end = at ? strchr(at + 7, '/') : NULL;
    if (end && (size_t)(end - at - 7) < sizeof(id) &&
        strncmp(end, "/content", 8) == 0 && (!end[8] || end[8] == '?')) {
        memcpy(id, at + 7, (size_t)(end - at - 7));
        id[end - at - 7] = '\0';
        at = strstr(end, "version=");
        if (at)
            *ret_version =
                arena_strndup(call->arena, at + 8, strcspn(at + 8, "&#"));
        if (doors_file_id(id, ret_file))
            return 0;
    }
    (void)error_set(err, ERR_INVALID, "the URL is not one of a file here");
    return error_hint(err, "Give the url of a file as answers of this service "
                           "name it, /api/files/…/content, or its "
                           "workspace:// uri. Nothing is fetched from "
                           "elsewhere: send the content as text or base64.");
}

/* A version that is not the newest: copied. */
static int copy_version(struct mcp_call *call, const char *session,
                        const char *path, const struct workspace_file *from,
                        struct session_file *ret, struct error *err)
{
    char *chunk cleanup(mem_free) = xmalloc(CHUNK);
    struct session_upload *u = NULL;
    int fd cleanup(fd_close) = -1;
    ssize_t n = 1;
    int r = workspace_file_open(call->doors->workspaces, NULL, from, &fd, err);

    if (r == 0)
        r = session_upload_begin(call->doors->sessions, call->actor, session,
                                 path, &u, err);
    if (r < 0)
        return r;
    while (r == 0 && n > 0) {
        n = fd_read_all(fd, chunk, CHUNK);
        if (n < 0)
            r = error_set(err, ERR_CORRUPT, "the file could not be read");
        else if (n > 0)
            r = session_upload_write(u, chunk, (size_t)n, err);
    }
    if (r == 0)
        return session_upload_commit(u, ret, err);
    session_upload_abort(u);
    return r;
}

static int attach_file(struct mcp_call *call, const char *session,
                       const char *path, const char *url,
                       struct session_file *ret, struct error *err)
{
    struct workspace_file from cleanup(workspace_file_done) = {.path = NULL};
    struct workspace_file head cleanup(workspace_file_done) = {.path = NULL};
    const char *workspace, *inside, *version = NULL;
    char file[ID_MAX], at[ID_MAX];
    int r;

    if (!(call->scopes & AUTH_FILES_READ))
        return error_set(err, ERR_FORBIDDEN, "this key may not read files");
    if (mcp_uri_parse(call->arena, url, &workspace, &inside)) {
        r = workspace_file_get(call->doors->workspaces, call->actor, workspace,
                               inside, NULL, &from, err);
    } else {
        r = read_url(call, url, file, &version, err);
        if (r == 0)
            r = workspace_file_find(call->doors->workspaces, call->actor, file,
                                    version, &from, at, err);
        if (r == 0 && version)
            r = workspace_file_find(call->doors->workspaces, call->actor, file,
                                    NULL, &head, at, err);
        /* An old version, or one whose file is gone from the head. */
        if (version && (r == -ERR_NOT_FOUND ||
                        (r == 0 && strcmp(head.version, from.version) != 0)))
            return from.version[0]
                       ? copy_version(call, session, path, &from, ret, err)
                       : r;
    }
    if (r < 0)
        return r;
    return session_attach(
        call->doors->sessions, call->actor, session,
        &(struct session_attach){.file = from.file, .path = path}, ret, err);
}

static int decode_content(struct mcp_call *call, const char *session,
                          const char *path, const char *base64,
                          struct session_file *ret, struct error *err)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    size_t len = 0;
    int r = json_base64_decode(base64, strlen(base64), &bytes, &len, err);

    if (r < 0) {
        (void)error_set(err, ERR_INVALID, "base64 is not valid");
        return error_hint(err, "Standard base64 with padding and no line "
                               "ends, without a data: prefix; plain text can "
                               "be given as text.");
    }
    return tool_keep(call, session, path, bytes, len, ret, err);
}

static int check_upload(const struct path_args *a, struct error *err)
{
    int given = (a->text != NULL) + (a->base64 != NULL) + (a->url != NULL);

    if (given == 1)
        return 0;
    return error_set(err, ERR_INVALID,
                     "give exactly one of text, base64 and url");
}

static void answer_upload(struct mcp_call *call,
                          const struct session_info *session,
                          const struct session_file *made,
                          struct mcp_answer *ret)
{
    struct tool_file f = {
        .path = made->path,
        .size = made->size,
        .file = made->file,
        .version = made->version,
        .sha256 = made->sha256,
        .mime = mime_of_path(made->path),
    };
    char size[32];

    mcp_answer_textf(ret, "/mnt/data/%s is there (%s). [session_id: %s]",
                     f.path, size_format(f.size, size), session->id);
    tool_file_link(ret, call->arena, session->workspace, &f);
    write_download(call, session, &f, NULL, ret);
    tool_files_meta(ret, call, session->id, session->workspace, &f, 1);
}

int tool_upload_file(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct session_file made = {.path = NULL};
    struct path_args a = {.path = NULL};
    const char *path = NULL;
    int r = api_read(args, &tool_upload_file_input, &a, err);

    if (r == 0)
        r = check_upload(&a, err);
    if (r == 0)
        r = tool_path(call->arena, a.path, &path, err);
    if (r == 0)
        r = tool_session(call, TOOL_MAKE, a.session, NULL, &session, err);
    if (r < 0)
        return r;
    if (a.text)
        r = tool_keep(call, session.id, path, a.text, strlen(a.text), &made,
                      err);
    else if (a.base64)
        r = decode_content(call, session.id, path, a.base64, &made, err);
    else
        r = attach_file(call, session.id, path, a.url, &made, err);
    if (r == -ERR_LOCKED)
        (void)error_hint(err, TOOL_LOCKED_ADVICE);
    if (r < 0)
        return r;
    answer_upload(call, &session, &made, ret);
    free(made.path);
    return 0;
}

/* ---- their words -------------------------------------------------------- */

const char tool_download_file_text[] =
    "Gets a file of the session for the user or for you: a resource link with "
    "a stable URL and, when it is text of at most 100,000 bytes or a PNG, JPEG, GIF "
    "or WebP of at most 1 MiB, its content in the answer. Use it to hand over "
    "a result or to look at a picture; to page through long text use "
    "read_file. It works on sleeping sessions without waking them. not_found: "
    "ask list_files what there is.";

const char tool_upload_file_text[] =
    "Puts a file into the session's /mnt/data, where code finds it at once, "
    "and keeps it with its versions. Give exactly one of text (UTF-8 as it "
    "is), base64 (anything; standard, padded) or url (a file this service "
    "already has: the url or workspace:// uri an answer named; nothing is "
    "fetched from elsewhere). A file at the path is replaced; its old version "
    "stays in the history. Without a session one is made, and the answer names "
    "its session_id. locked: another key holds a lock on the path; try later or "
    "another name; storage_full or limit_reached: delete something first.";
