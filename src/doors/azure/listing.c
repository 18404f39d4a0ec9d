/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's files as this dialect sees them: with folders, one level or
 * all. Runs on a worker of the daemon. The core lists files only, by path, so
 * a folder is what some file's path goes through; an empty one is not seen.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/azure/azure.h"

#define PAGE 1000u
#define PAGES_MAX 100u
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

static int by_path(const void *a, const void *b)
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

static void page_done(struct azure_page *p)
{
    session_files_free(p->files, p->count);
    *p = (struct azure_page){0};
}

static int get_page(struct doors_call *call, const char *session,
                    unsigned limit, const char *after, struct azure_page *ret,
                    struct error *err)
{
    return session_files_list(call->doors->sessions, &call->actor, session,
                              limit, after, &ret->files, &ret->count,
                              &ret->more, err);
}

/* A path before all in the folder, or after; "" for the root's beginning.
 * ret: PATH_BYTES_MAX + 8. False when no path can be so long. */
static bool edge(const char *folder, const char *end, char *ret)
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
static bool take(struct walk *w, const struct session_file *f)
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
    else if (!edge(w->open, LAST, w->skip))
        w->skip[0] = '\0'; /* walked through instead */
    return true;
}

/* ret_last: where the next page goes on. */
static bool take_page(struct walk *w, const struct azure_page *page,
                      char *ret_last)
{
    for (size_t i = 0; i < page->count; i++) {
        const char *path = page->files[i].path;

        if (w->skip[0] && strcmp(path, w->skip) < 0)
            continue; /* in a folder that is noted */
        if (!take(w, &page->files[i]))
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
    else if (!edge(spec->folder, " ", last)) /* the first that is allowed */
        return 0;
    for (unsigned i = 0; r == 0 && more && i < PAGES_MAX; i++) {
        struct azure_page page cleanup(page_done) = {0};

        r = get_page(call, session, PAGE, last[0] ? last : NULL, &page, err);
        if (r == 0)
            more = page.count && take_page(w, &page, last);
    }
    if (r == 0 && more)
        ret->next = xstrdup(last);
    if (ret->count)
        qsort(ret->entries, ret->count, sizeof(*ret->entries), by_path);
    return r;
}

/* ---- one file or folder ------------------------------------------------- */

/* Is there anything below it? */
static int look_below(struct doors_call *call, const char *session,
                      const char *path, struct azure_list *ret,
                      struct error *err)
{
    struct azure_page page cleanup(page_done) = {0};
    char first[PATH_BYTES_MAX + 8];
    int r = 0;

    if (edge(path, " ", first))
        r = get_page(call, session, 1, first, &page, err);
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
        return look_below(call, session, path, ret, err);
    if (r < 0)
        return r;
    azure_list_add(ret, path, false, (uint64_t)st.st_size,
                   (int64_t)st.st_mtim.tv_sec * 1000 +
                       st.st_mtim.tv_nsec / 1000000);
    return 0;
}

/* ---- removing ----------------------------------------------------------- */

static int remove_one(struct doors_call *call, const char *session,
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
            r = remove_one(call, session, all.entries[i].path, err);
    for (size_t i = all.count; r == 0 && i > 0; i--)
        if (all.entries[i - 1].folder) {
            r = remove_one(call, session, all.entries[i - 1].path, err);
            if (r == -ERR_NOT_FOUND)
                r = 0;
        }
    if (r == 0)
        r = remove_one(call, session, path, err);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

int azure_list_remove(struct doors_call *call, const char *session,
                      const char *path, struct error *err)
{
    int r;

    if (!path[0])
        return error_set(err, ERR_INVALID,
                         "the data root itself cannot be deleted");
    r = remove_one(call, session, path, err);
    /* A folder that is not empty, or one that only paths know of. */
    if (r == -ERR_CONFLICT || r == -ERR_NOT_FOUND)
        r = remove_below(call, session, path, err);
    return r;
}
