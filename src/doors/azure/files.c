/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files at the Azure door: list, look, fetch, delete, in three shapes. Runs
 * on a worker of the daemon. Paths are below /mnt/data whatever the client
 * writes before them; the core's broker keeps them there.
 */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/mime.h"
#include "base/path.h"
#include "doors/azure/azure.h"
#include "workspace/workspace.h"
#include "json/json.h"

/* ---- shapes ------------------------------------------------------------- */

static void encode_legacy(struct json_writer *w, const struct azure_entry *e)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "filename", e->path);
    json_write_int(w, "size", (int64_t)e->size);
    azure_encode_time(w, "last_modified_time", e->modified_at_ms);
    json_write_close(w, '}');
}

/* "$id" counts objects in the order they stand in the document. */
static void encode_id(struct json_writer *w, unsigned id)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", id);
    json_write_string(w, "$id", text);
}

static void encode_wrapped(struct json_writer *w, const struct azure_entry *e,
                           unsigned id)
{
    json_write_open(w, NULL, '{');
    encode_id(w, id);
    json_write_open(w, "properties", '{');
    encode_id(w, id + 1);
    json_write_string(w, "filename", e->path);
    json_write_int(w, "size", (int64_t)e->size);
    azure_encode_time(w, "lastModifiedTime", e->modified_at_ms);
    json_write_close(w, '}');
    json_write_close(w, '}');
}

static void encode_type(struct json_writer *w, const struct azure_entry *e)
{
    const char *mime =
        e->folder ? "application/octet-stream" : mime_of_path(e->path);
    struct buf text cleanup(buf_done) = {0};

    buf_adds(&text, mime);
    if (strncmp(mime, "text/", 5) == 0)
        buf_adds(&text, "; charset=utf-8");
    json_write_string(w, "contentType", text.data);
}

/* The folder is told relative to the one that was listed. */
static void encode_flat(struct json_writer *w, const struct azure_entry *e,
                        const char *base, bool directory)
{
    const char *slash = strrchr(e->path, '/');
    const char *inner = e->path + strlen(base) + (base[0] != '\0');

    json_write_open(w, NULL, '{');
    json_write_string(w, "name", slash ? slash + 1 : e->path);
    json_write_string(w, "type", e->folder ? "directory" : "file");
    encode_type(w, e);
    json_write_int(w, "sizeInBytes", (int64_t)e->size);
    azure_encode_time(w, "lastModifiedAt", e->modified_at_ms);
    if (directory && slash && slash > inner)
        json_write_text(w, "directory", inner, (size_t)(slash - inner));
    else if (directory)
        json_write_string(w, "directory", ".");
    json_write_close(w, '}');
}

void azure_files_encode_one(struct json_writer *w, const struct azure_ask *ask,
                            const char *base, const struct azure_entry *entry)
{
    if (azure_path_family(ask->version) == AZURE_C)
        encode_flat(w, entry, base, ask->version == AZURE_2025_10);
    else
        encode_wrapped(w, entry, 1);
}

void azure_files_encode(struct json_writer *w, const struct azure_ask *ask,
                        enum azure_family family, const char *base,
                        const struct azure_entry *entries, size_t count,
                        const char *next)
{
    json_write_open(w, NULL, '{');
    if (family != AZURE_C)
        encode_id(w, 1);
    json_write_open(w, family == AZURE_A ? "$values" : "value", '[');
    for (size_t i = 0; i < count; i++) {
        if (family == AZURE_A)
            encode_legacy(w, &entries[i]);
        else if (family == AZURE_B)
            encode_wrapped(w, &entries[i], 2 + 2 * (unsigned)i);
        else
            encode_flat(w, &entries[i], base, ask->version == AZURE_2025_10);
    }
    json_write_close(w, ']');
    if (family == AZURE_C)
        json_write_string(w, "nextLink", next);
    json_write_close(w, '}');
}

/* ---- list --------------------------------------------------------------- */

static int ask_flag(struct doors_call *call, const char *name, bool *ret,
                    struct error *err)
{
    const char *text = NULL;
    int r = http_query(call->http, name, &text, err);

    if (r < 0)
        return r;
    if (text && strcasecmp(text, "true") != 0 &&
        strcasecmp(text, "false") != 0 && text[0])
        return error_set(err, ERR_INVALID,
                         "parameter '%s' must be true or false", name);
    *ret = text && strcasecmp(text, "true") == 0;
    return 0;
}

/* ?path; ret: PATH_BYTES_MAX + 1 */
static int ask_folder(struct doors_call *call, char *ret, struct error *err)
{
    const char *text = NULL;
    int r = http_query(call->http, "path", &text, err);

    if (r == 0)
        r = azure_path_name(text ? text : "", ret, err);
    return r;
}

/* ?after, which only our own links say. */
static int ask_after(struct doors_call *call, struct azure_list_spec *spec,
                     struct error *err)
{
    int r = http_query(call->http, "after", &spec->after, err);

    if (r == 0 && spec->after && path_fault(spec->after, strlen(spec->after)))
        r = error_set(err, ERR_INVALID, "parameter 'after' is no path");
    return r;
}

/* The same call, going on after a path; arena, NULL when that was all. */
static const char *next_link(struct doors_call *call,
                             const struct azure_ask *ask,
                             const struct azure_list_spec *spec,
                             const char *after)
{
    struct buf url cleanup(buf_done) = {0};
    const char *version = NULL;
    struct error ignored;

    if (!after)
        return NULL;
    (void)http_query(call->http, "api-version", &version, &ignored);
    buf_adds(&url, doors_url_origin(call));
    buf_addf(&url, "%s?api-version=%s&identifier=", http_path(call->http),
             version ? version : "");
    doors_url_escape(&url, ask->identifier, false);
    buf_adds(&url, "&path=");
    doors_url_escape(&url, spec->folder, false);
    buf_addf(&url, "&recursive=%s&after=", spec->recursive ? "true" : "false");
    doors_url_escape(&url, after, false);
    return arena_strdup(http_arena(call->http), url.data);
}

static int list(struct doors_call *call, enum azure_family family,
                const struct azure_ask *ask, struct error *err)
{
    struct azure_list found cleanup(azure_list_done) = {0};
    struct azure_list_spec spec = {.files_only = family != AZURE_C};
    char folder[PATH_BYTES_MAX + 1] = "";
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = ask_folder(call, folder, err);

    spec.folder = folder;
    if (r == 0)
        r = ask_flag(call, "recursive", &spec.recursive, err);
    if (r == 0)
        r = ask_after(call, &spec, err);
    /* Older families know no folders: there, all files are told by path. */
    spec.recursive |= family != AZURE_C;
    if (r == 0)
        r = azure_list_collect(call, ask->session.id, &spec, &found, err);
    if (r < 0)
        return r;
    azure_files_encode(&w, ask, family, folder, found.entries, found.count,
                       next_link(call, ask, &spec, found.next));
    azure_encode_respond(call, 200, &body);
    return 0;
}

int azure_files_legacy(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    int r = azure_ask(call, &ask, err);

    return r < 0 ? r : list(call, AZURE_A, &ask, err);
}

int azure_files_list(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    int r = azure_ask(call, &ask, err);

    return r < 0 ? r : list(call, azure_path_family(ask.version), &ask, err);
}

/* ---- one file ----------------------------------------------------------- */

static int download(struct doors_call *call, const char *session,
                    const char *path, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct http_download d;
    struct stat st;
    int r = session_files_open(call->doors->sessions, &call->actor, session,
                               path, &fd, &st, err);

    if (r == -ERR_CONFLICT) /* a folder, or nothing we serve */
        r = error_set(err, ERR_NOT_FOUND, "no such file");
    if (r < 0)
        return r;
    d = (struct http_download){
        .fd = fd,
        .size = (uint64_t)st.st_size,
        .name = path,
        .type = "application/octet-stream", /* whatever it is */
        .etag = arena_printf(
            http_arena(call->http), "%llx-%llx-%llx",
            (unsigned long long)st.st_ino, (unsigned long long)st.st_size,
            (unsigned long long)st.st_mtim.tv_sec * 1000000000u +
                (unsigned long long)st.st_mtim.tv_nsec),
        .modified_ms =
            (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000,
    };
    azure_encode_headers(call);
    r = http_respond_download(call->http, &d, err);
    if (r == 0)
        (void)take_fd(fd);
    return r;
}

static int look(struct doors_call *call, const struct azure_ask *ask,
                const char *path, struct error *err)
{
    struct azure_list found cleanup(azure_list_done) = {0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    const char *slash = strrchr(path, '/');
    char *base = arena_strndup(http_arena(call->http), path,
                               slash ? (size_t)(slash - path) : 0);
    int r = azure_list_look(call, ask->session.id, path, &found, err);

    if (r < 0)
        return r;
    azure_files_encode_one(&w, ask, base, &found.entries[0]);
    azure_encode_respond(call, 200, &body);
    return 0;
}

int azure_files_get(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    char folder[PATH_BYTES_MAX + 1], path[PATH_BYTES_MAX + 1];
    const char *rest = call->params[0];
    char *name = arena_alloc(http_arena(call->http), strlen(rest) + 1);
    bool content = false, doubt = false;
    int r = azure_ask(call, &ask, err);

    if (r == 0)
        r = ask_folder(call, folder, err);
    if (r < 0)
        return r;
    azure_path_file(rest, ask.version, name, &content, &doubt);
    if (doubt && azure_path_join(folder, rest, path, err) == 0 &&
        look(call, &ask, path, err) == 0)
        return 0;
    r = azure_path_join(folder, name, path, err);
    if (r < 0)
        return r;
    return content ? download(call, ask.session.id, path, err)
                   : look(call, &ask, path, err);
}

int azure_files_fetch(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    char path[PATH_BYTES_MAX + 1];
    const char *name = NULL;
    int r = azure_ask(call, &ask, err);

    if (r == 0)
        r = http_query(call->http, "filename", &name, err);
    if (r == 0 && (!name || !name[0]))
        r = error_set(err, ERR_INVALID, "the parameter 'filename' is missing");
    if (r == 0)
        r = azure_path_name(name, path, err);
    if (r == 0)
        r = download(call, ask.session.id, path, err);
    return r;
}

int azure_files_delete(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    char folder[PATH_BYTES_MAX + 1], path[PATH_BYTES_MAX + 1];
    int r = azure_ask(call, &ask, err);

    if (r == 0)
        r = ask_folder(call, folder, err);
    if (r == 0)
        r = azure_path_join(folder, call->params[0], path, err);
    if (r == 0)
        r = azure_list_remove(call, ask.session.id, path, err);
    if (r == 0)
        azure_encode_empty(call, 204);
    return r;
}
