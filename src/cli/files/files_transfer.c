/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox files: get, put, zip; and the same for one file of a session, for
 * `run` and `shell`.
 */
#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/files/files.h"

/* ---- a folder of this machine ------------------------------------------- */

#define FILES_MAX 1000000u

void cli_tree_done(struct cli_tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->paths[i]);
    free(t->paths);
    *t = (struct cli_tree){0};
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void fts_done(FTS **fts)
{
    if (*fts)
        (void)fts_close(*fts);
}

static int tree_add(struct cli_tree *t, const FTSENT *entry, size_t root,
                    struct error *err)
{
    const char *path = entry->fts_path + root;

    switch (entry->fts_info) {
    case FTS_F:
        if (!S_ISREG(entry->fts_statp->st_mode)) {
            t->skipped++;
            return 0;
        }
        if (t->count == FILES_MAX)
            return error_set(err, ERR_TOO_LARGE, "more than %u files",
                             FILES_MAX);
        if ((t->count & (t->count - 1)) == 0)
            t->paths = xrealloc(t->paths, MAX(t->count * 2, (size_t)16) *
                                              sizeof(*t->paths));
        t->paths[t->count++] = xstrdup(path + strspn(path, "/"));
        t->bytes += (uint64_t)entry->fts_statp->st_size;
        return 0;
    case FTS_SL:
    case FTS_SLNONE:
    case FTS_DEFAULT:
        t->skipped++;
        return 0;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return error_errno(err, ERR_INVALID, entry->fts_errno,
                           "cannot read %s", entry->fts_path);
    default:
        return 0; /* folders, before and after */
    }
}

int cli_tree_read(const char *folder, struct cli_tree *ret, struct error *err)
{
    char *copy cleanup(mem_free) = xstrdup(folder);
    char *roots[] = {copy, NULL};
    struct cli_tree t = {0};
    FTS *fts cleanup(fts_done) =
        fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    FTSENT *entry;
    int r = 0;

    if (!fts)
        return error_errno(err, ERR_INVALID, errno, "cannot read %s", folder);
    while (r == 0 && (entry = fts_read(fts)))
        if (entry->fts_level > 0 || entry->fts_info != FTS_D)
            r = tree_add(&t, entry, strlen(folder), err);
    if (r < 0) {
        cli_tree_done(&t);
        return r;
    }
    *ret = t;
    return 0;
}

/* ---- get, zip ----------------------------------------------------------- */

/* The word that names the local file, or --output's; false: both. */
static bool local_of(const struct cli_files *f, const struct cli_words *words,
                     size_t at, const char **ret)
{
    *ret = at < words->count ? words->items[at] : f->output;
    return at >= words->count || !f->output;
}

static int save_download(struct cli *c, const char *path,
                         const struct cli_download *what)
{
    char *local cleanup(mem_free) = NULL;
    struct error err;

    if (c->json && what->local && strcmp(what->local, "-") == 0)
        return cli_usage_error(c, "--json and the file both want standard "
                                  "output");
    if (cli_download(c, what, &local, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:s, s:s}", "path", path, "saved", local);

        cli_print_json(c, out);
    } else if (local && c->tty_out) {
        (void)printf("saved %s\n", local);
    }
    return CLI_EXIT_OK;
}

int cli_files_download(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    struct buf url cleanup(buf_done) = {0};
    char *base cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    struct cli_download what = {.keep = f->go_on};
    struct error err;
    size_t at = 0;

    /* "get SESSION" has no path; "get SESSION PATH" has. */
    if (!f->session && words->count == 1 &&
        !cli_place_is_address(words->items[0]) &&
        !ids_valid("file", words->items[0]))
        return cli_usage_error(c, "get: PLACE is missing");
    if (cli_files_place(c, f, words, &at, false, &place, &err) < 0)
        return cli_fail(c, &err);
    if (words->count > at + 1)
        return cli_usage_error(c, "get: unexpected '%s'",
                               words->items[at + 1]);
    if (!local_of(f, words, at, &what.local))
        return cli_usage_error(c, "get: both '%s' and --output",
                               words->items[at]);
    if ((f->version && place.kind == CLI_PLACE_SESSION) ||
        place.kind == CLI_PLACE_FILE)
        if (cli_place_to_workspace(c, &place, &err) < 0)
            return cli_fail(c, &err);
    base = cli_place_file_url(&place);
    buf_adds(&url, base);
    cli_http_query(&url, "version", f->version);
    what.url = url.data;
    what.name = cli_place_base_name(place.path);
    return save_download(c, place.path, &what);
}

int cli_files_zip(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    struct buf url cleanup(buf_done) = {0};
    char *base cleanup(mem_free) = NULL;
    char *name cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    struct cli_download what = {0};
    struct cli_words first = {.items = {words->items[0]}, .count = 1};
    struct error err;
    size_t at = 0;

    if (!local_of(f, words, 1, &what.local))
        return cli_usage_error(c, "zip: both '%s' and --output",
                               words->items[1]);
    if (cli_files_place(c, f, &first, &at, true, &place, &err) < 0 ||
        cli_place_to_workspace(c, &place, &err) < 0)
        return cli_fail(c, &err);
    base = cli_place_url(&place, "archive");
    buf_adds(&url, base);
    cli_http_query(&url, "prefix", place.path);
    while (place.path[0] && place.path[strlen(place.path) - 1] == '/')
        place.path[strlen(place.path) - 1] = '\0';
    name = xasprintf("%s.zip", place.path[0] ? cli_place_base_name(place.path)
                                             : place.id);
    what.url = url.data;
    what.name = name;
    return save_download(c, place.path, &what);
}

/* ---- put ---------------------------------------------------------------- */

struct store {
    struct cli *c;
    const struct cli_files *f;
    struct cli_place place; /* owned path: where all of it goes */
    json_t *stored;         /* the files, as the service answered */
    size_t skipped;
};

static void store_done(struct store *s)
{
    cli_place_done(&s->place);
    json_decref(s->stored);
}

/* path: taken. */
static int store_file(struct store *s, const char *local, char *path,
                      const char *label, struct error *err)
{
    struct cli_place place cleanup(cli_place_done) = s->place;
    struct cli_upload what = {
        .local = local,
        .label = label,
        .if_match = s->f->if_match,
        .create = s->f->create,
        .lock = s->f->lock,
        .conversation = s->f->conversation,
        .message = s->f->message,
    };
    json_t *file cleanup(json_unref) = NULL;
    int r;

    place.path = path;
    r = cli_upload(s->c, &place, &what, &file, err);
    if (r == 0)
        (void)json_array_append(s->stored, file);
    return r;
}

/* Its name there: the place's own, or its own below the place. */
static char *name_there(const struct store *s, const char *own, bool several)
{
    const char *path = s->place.path;
    size_t len = strlen(path);

    if (len && path[len - 1] != '/')
        return several && *own ? xasprintf("%s/%s", path, own) : xstrdup(path);
    return xasprintf("%s%s", path, own);
}

static int store_folder(struct store *s, const char *folder, bool several,
                        struct error *err)
{
    char *there cleanup(mem_free) =
        name_there(s, cli_place_base_name(folder), several);
    struct cli_tree tree cleanup(cli_tree_done) = {0};
    struct cli_progress bar = {0};
    size_t len = strlen(there);
    int r = cli_tree_read(folder, &tree, err);

    cli_progress_count(&bar, s->c, cli_place_base_name(folder), tree.count);
    for (size_t i = 0; r == 0 && i < tree.count; i++) {
        char *local cleanup(mem_free) =
            xasprintf("%s/%s", folder, tree.paths[i]);
        const char *slash = len && there[len - 1] != '/' ? "/" : "";

        cli_progress_step(&bar, i);
        r = store_file(s, local,
                       xasprintf("%s%s%s", there, slash, tree.paths[i]), NULL,
                       err);
    }
    cli_progress_end(&bar);
    s->skipped += tree.skipped;
    return r;
}

static int store_any(struct store *s, const char *local, bool several,
                     struct error *err)
{
    const char *name = cli_place_base_name(local);
    struct stat st;

    if (stat(local, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (s->f->recursive)
            return store_folder(s, local, several, err);
        (void)error_set(err, ERR_INVALID, "%s is a folder", local);
        return error_hint(err, "-r stores a folder with all that is in it.");
    }
    if (strcmp(local, "-") == 0 &&
        (!s->place.path[0] || s->place.path[strlen(s->place.path) - 1] == '/'))
        return error_set(err, ERR_INVALID,
                         "standard input has no name: give it one behind the "
                         "workspace");
    return store_file(s, local, name_there(s, name, several), name, err);
}

/* Splits the words: FILE... PLACE, FILE [PATH] with --session, or SESSION FILE
 * [PATH]. first, count: of the files. */
static int split_line(struct store *s, const struct cli_words *words,
                      size_t *ret_first, size_t *ret_count, struct error *err)
{
    const char *last = words->items[words->count - 1];
    const char *session = s->f->session;

    *ret_first = 0;
    if (!session && words->count > 1 && cli_place_is_address(last)) {
        *ret_count = words->count - 1;
        return cli_place_find(s->c, last, NULL, &s->place, err);
    }
    if (!session) {
        session = words->items[0];
        *ret_first = 1;
    }
    *ret_count = words->count - *ret_first > 1 ? words->count - *ret_first - 1
                                               : words->count - *ret_first;
    if (*ret_count == 0)
        return error_set(err, ERR_INVALID, "put: PLACE is missing");
    return cli_place_find(s->c, words->count - *ret_first > 1 ? last : "",
                          session, &s->place, err);
}

static int report_stored(const struct store *s)
{
    const json_t *first = json_array_get(s->stored, 0);
    size_t count = json_array_size(s->stored);
    char size[16];

    if (s->skipped)
        (void)fprintf(stderr, "%zu link%s and other special files skipped\n",
                      s->skipped, s->skipped == 1 ? "" : "s");
    if (count == 1 && !s->f->recursive)
        cli_show_done(s->c, first, "stored %s%s, %s",
                      s->place.kind == CLI_PLACE_SESSION ? "/mnt/data/" : "",
                      cli_json_text(first, "path", ""),
                      size_format(cli_json_number(first, "size"), size));
    else
        cli_show_done(s->c, s->stored, "stored %zu files", count);
    return CLI_EXIT_OK;
}

int cli_files_upload(struct cli *c, const struct cli_words *words, void *arg)
{
    struct store s cleanup(store_done) = {
        .c = c, .f = arg, .stored = json_array()};
    size_t first, count;
    struct error err;

    if (words->count < (s.f->session ? 1u : 2u))
        return cli_usage_error(c, "put: PLACE is missing");
    if (split_line(&s, words, &first, &count, &err) < 0)
        return cli_fail(c, &err);
    if (s.place.kind == CLI_PLACE_FILE)
        return cli_usage_error(c, "put: a place, not the id of a file");
    for (size_t i = first; i < first + count; i++)
        if (store_any(&s, words->items[i], count > 1, &err) < 0)
            return cli_fail(c, &err);
    return report_stored(&s);
}

/* ---- for run and shell -------------------------------------------------- */

int cli_files_put(struct cli *c, const char *session, const char *local,
                  const char *remote, json_t **ret, struct error *err)
{
    const char *name = cli_place_base_name(local);
    struct cli_upload what = {.local = local, .label = name};
    struct cli_place place cleanup(cli_place_done) = {0};
    int r = cli_place_find(c, remote ? remote : name, session, &place, err);

    return r < 0 ? r : cli_upload(c, &place, &what, ret, err);
}

int cli_files_get(struct cli *c, const char *session, const char *remote,
                  const char *local, char **ret_local, struct error *err)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    char *url cleanup(mem_free) = NULL;
    struct cli_download what = {.name = cli_place_base_name(remote),
                                .local = local};
    int r = cli_place_find(c, remote, session, &place, err);

    if (r < 0)
        return r;
    what.url = url = cli_place_file_url(&place);
    return cli_download(c, &what, ret_local, err);
}
