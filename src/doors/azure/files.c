/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in the Azure dialect: list, describe, fetch and delete, in three
 * shapes. Paths are below /mnt/data whatever the client writes before them;
 * the core's broker keeps them there. The core lists files only, by path, so a
 * folder is a prefix of some file's path; an empty folder does not appear.
 * Runs on a worker of the daemon.
 */
#include <stdlib.h>
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
static void encode_file_id(struct json_writer *w, unsigned id)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", id);
    json_write_string(w, "$id", text);
}

static void encode_wrapped(struct json_writer *w, const struct azure_entry *e,
                           unsigned id)
{
    json_write_open(w, NULL, '{');
    encode_file_id(w, id);
    json_write_open(w, "properties", '{');
    encode_file_id(w, id + 1);
    json_write_string(w, "filename", e->path);
    json_write_int(w, "size", (int64_t)e->size);
    azure_encode_time(w, "lastModifiedTime", e->modified_at_ms);
    json_write_close(w, '}');
    json_write_close(w, '}');
}

static void encode_file_type(struct json_writer *w,
                             const struct azure_entry *e)
{
    const char *mime =
        e->folder ? "application/octet-stream" : mime_of_path(e->path);
    struct buf text cleanup(buf_done) = {0};

    buf_adds(&text, mime);
    if (strncmp(mime, "text/", 5) == 0)
        buf_adds(&text, "; charset=utf-8");
    json_write_string(w, "contentType", text.data);
}

/* The folder is relative to the one that was listed. */
static void encode_flat(struct json_writer *w, const struct azure_entry *e,
                        const char *base, bool directory)
{
    const char *slash = strrchr(e->path, '/');
    const char *inner = e->path + strlen(base) + (base[0] != '\0');

    json_write_open(w, NULL, '{');
    json_write_string(w, "name", slash ? slash + 1 : e->path);
    json_write_string(w, "type", e->folder ? "directory" : "file");
    encode_file_type(w, e);
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
        encode_file_id(w, 1);
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
    buf_adds(&url, doors_url_base(call));
    buf_addf(&url, "%s?api-version=%s&identifier=", http_path(call->http),
             version ? version : "");
    doors_url_escape(&url, ask->identifier, false);
    buf_adds(&url, "&path=");
    doors_url_escape(&url, spec->folder, false);
    buf_addf(&url, "&recursive=%s&after=", spec->recursive ? "true" : "false");
    doors_url_escape(&url, after, false);
    return arena_strdup(http_arena(call->http), url.data);
}

static int list_files(struct doors_call *call, enum azure_family family,
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
    /* Older families have no folders: they list all files by path. */
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

    return r < 0 ? r : list_files(call, AZURE_A, &ask, err);
}

int azure_files_list(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    int r = azure_ask(call, &ask, err);

    return r < 0 ? r
                 : list_files(call, azure_path_family(ask.version), &ask, err);
}

/* ---- one file ----------------------------------------------------------- */

static int download_file(struct doors_call *call, const char *session,
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

static int get_file(struct doors_call *call, const struct azure_ask *ask,
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
        get_file(call, &ask, path, err) == 0)
        return 0;
    r = azure_path_join(folder, name, path, err);
    if (r < 0)
        return r;
    return content ? download_file(call, ask.session.id, path, err)
                   : get_file(call, &ask, path, err);
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
        r = download_file(call, ask.session.id, path, err);
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

/* ---- folders ------------------------------------------------------------ */

#define LIST_PAGE 1000u
#define LIST_PAGES_MAX 100u
#define LAST "\xf4\x8f\xbf\xbf" /* no name comes after one that begins so */

/* ---- the list ----------------------------------------------------------- */

void azure_list_done(struct azure_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->entries[i].path);
    free(l->entries);
    free(l->next);
    *l = (struct azure_list){0};
}

void azure_list_add(struct azure_list *l, const char *path, bool folder,
                    uint64_t size, int64_t modified_at_ms)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->entries = xrealloc(l->entries, l->room * sizeof(*l->entries));
    }
    l->entries[l->count++] =
        (struct azure_entry){.path = xstrdup(path),
                             .folder = folder,
                             .size = size,
                             .modified_at_ms = modified_at_ms};
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct azure_entry *)a)->path,
                  ((const struct azure_entry *)b)->path);
}

/* ---- pages of the core -------------------------------------------------- */

struct azure_page {
    struct session_file *files;
    size_t count;
    bool more;
};

static void files_page_done(struct azure_page *p)
{
    session_files_free(p->files, p->count);
    *p = (struct azure_page){0};
}

static int get_files_page(struct doors_call *call, const char *session,
                          unsigned limit, const char *after,
                          struct azure_page *ret, struct error *err)
{
    return session_files_list(call->doors->sessions, &call->actor, session,
                              limit, after, &ret->files, &ret->count,
                              &ret->more, err);
}

/* A path before all in the folder, or after; "" for the root's beginning.
 * ret: PATH_BYTES_MAX + 8. False when no path can be so long. */
static bool folder_edge(const char *folder, const char *end, char *ret)
{
    size_t len = strlen(folder), add = strlen(end);

    ret[0] = '\0';
    if (!folder[0])
        return true;
    if (len + 1 + add > PATH_BYTES_MAX)
        return false;
    memcpy(ret, folder, len);
    ret[len] = '/';
    memcpy(ret + len + 1, end, add + 1);
    return true;
}

/* ---- collecting --------------------------------------------------------- */

struct walk {
    const struct azure_list_spec *spec;
    struct azure_list *out;
    char open[PATH_BYTES_MAX + 1]; /* the deepest folder noted so far */
    char skip[PATH_BYTES_MAX + 8]; /* where to go on, or "" */
};

/* Notes the folders a path goes through, each once: what is below one comes
 * together. The newest file in it is its time. */
static void note_folders(struct walk *w, const struct session_file *f,
                         size_t base)
{
    const char *slash = f->path + base - 1;
    size_t levels = 0;

    while ((slash = strchr(slash + 1, '/')) &&
           (w->spec->recursive || levels++ == 0)) {
        size_t len = (size_t)(slash - f->path);
        char *folder cleanup(mem_free) = xstrndup(f->path, len);

        if (path_below(w->open, folder))
            continue;
        azure_list_add(w->out, folder, true, AZURE_FOLDER_SIZE,
                       f->modified_at_ms);
        (void)memcpy(w->open, folder, len + 1);
    }
}

/* False: that was past the folder. */
static bool take_file(struct walk *w, const struct session_file *f)
{
    size_t base = strlen(w->spec->folder);
    bool nested;

    w->skip[0] = '\0';
    if (base && !path_below(f->path, w->spec->folder))
        return strcmp(f->path, w->spec->folder) < 0;
    if (base && strlen(f->path) == base)
        return true; /* it is a file itself */
    base += base != 0;
    nested = strchr(f->path + base, '/') != NULL;
    if (nested && !w->spec->files_only)
        note_folders(w, f, base);
    if (!nested || w->spec->recursive)
        azure_list_add(w->out, f->path, false, f->size, f->modified_at_ms);
    else if (!folder_edge(w->open, LAST, w->skip))
        w->skip[0] = '\0'; /* walked through instead */
    return true;
}

/* ret_last: where the next page goes on. */
static bool take_files(struct walk *w, const struct azure_page *page,
                       char *ret_last)
{
    for (size_t i = 0; i < page->count; i++) {
        const char *path = page->files[i].path;

        if (w->skip[0] && strcmp(path, w->skip) < 0)
            continue; /* in a folder that is noted */
        if (!take_file(w, &page->files[i]))
            return false;
        (void)memcpy(ret_last, path, strlen(path) + 1);
    }
    if (w->skip[0])
        (void)memcpy(ret_last, w->skip, strlen(w->skip) + 1);
    return page->more;
}

int azure_list_collect(struct doors_call *call, const char *session,
                       const struct azure_list_spec *spec,
                       struct azure_list *ret, struct error *err)
{
    struct walk *w cleanup(mem_free) = xcalloc(1, sizeof(*w));
    char last[PATH_BYTES_MAX + 8] = "";
    bool more = true;
    int r = 0;

    w->spec = spec;
    w->out = ret;
    if (spec->after)
        (void)memcpy(last, spec->after, strlen(spec->after) + 1);
    else if (!folder_edge(spec->folder, " ",
                          last)) /* the first that is allowed */
        return 0;
    for (unsigned i = 0; r == 0 && more && i < LIST_PAGES_MAX; i++) {
        struct azure_page page cleanup(files_page_done) = {0};

        r = get_files_page(call, session, LIST_PAGE, last[0] ? last : NULL,
                           &page, err);
        if (r == 0)
            more = page.count && take_files(w, &page, last);
    }
    if (r == 0 && more)
        ret->next = xstrdup(last);
    if (ret->count)
        qsort(ret->entries, ret->count, sizeof(*ret->entries), compare_paths);
    return r;
}

/* ---- one file or folder ------------------------------------------------- */

/* Is there anything below it? */
static int find_below(struct doors_call *call, const char *session,
                      const char *path, struct azure_list *ret,
                      struct error *err)
{
    struct azure_page page cleanup(files_page_done) = {0};
    char first[PATH_BYTES_MAX + 8];
    int r = 0;

    if (folder_edge(path, " ", first))
        r = get_files_page(call, session, 1, first, &page, err);
    if (r < 0)
        return r;
    if (page.count == 0 || !path_below(page.files[0].path, path))
        return error_set(err, ERR_NOT_FOUND, "no such file");
    azure_list_add(ret, path, true, AZURE_FOLDER_SIZE,
                   page.files[0].modified_at_ms);
    return 0;
}

int azure_list_look(struct doors_call *call, const char *session,
                    const char *path, struct azure_list *ret,
                    struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r;

    if (!path[0])
        return error_set(err, ERR_NOT_FOUND, "no such file");
    r = session_files_open(call->doors->sessions, &call->actor, session, path,
                           &fd, &st, err);
    if (r == -ERR_NOT_FOUND || r == -ERR_CONFLICT)
        return find_below(call, session, path, ret, err);
    if (r < 0)
        return r;
    azure_list_add(ret, path, false, (uint64_t)st.st_size,
                   (int64_t)st.st_mtim.tv_sec * 1000 +
                       st.st_mtim.tv_nsec / 1000000);
    return 0;
}

/* ---- removing ----------------------------------------------------------- */

static int remove_file(struct doors_call *call, const char *session,
                       const char *path, struct error *err)
{
    return session_files_remove(call->doors->sessions, &call->actor, session,
                                path, err);
}

/* Files first, then folders from the inside out: the core removes a folder
 * only when it is empty. In a session that sleeps they are gone by then. err:
 * why it could not be removed as a file. */
static int remove_below(struct doors_call *call, const char *session,
                        const char *path, struct error *err)
{
    struct azure_list all cleanup(azure_list_done) = {0};
    int r = azure_list_collect(
        call, session,
        &(struct azure_list_spec){.folder = path, .recursive = true}, &all,
        err);

    if (r == 0 && all.count == 0)
        return -(int)err->code; /* as it was */
    for (size_t i = 0; r == 0 && i < all.count; i++)
        if (!all.entries[i].folder)
            r = remove_file(call, session, all.entries[i].path, err);
    for (size_t i = all.count; r == 0 && i > 0; i--)
        if (all.entries[i - 1].folder) {
            r = remove_file(call, session, all.entries[i - 1].path, err);
            if (r == -ERR_NOT_FOUND)
                r = 0;
        }
    if (r == 0)
        r = remove_file(call, session, path, err);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

int azure_list_remove(struct doors_call *call, const char *session,
                      const char *path, struct error *err)
{
    int r;

    if (!path[0])
        return error_set(err, ERR_INVALID,
                         "the data root itself cannot be deleted");
    r = remove_file(call, session, path, err);
    /* A folder that is not empty, or one that only paths know of. */
    if (r == -ERR_CONFLICT || r == -ERR_NOT_FOUND)
        r = remove_below(call, session, path, err);
    return r;
}
