/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox files: get, put, zip. */
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/files.h"

/* ---- get, zip ----------------------------------------------------------- */

/* The word that names the local file, or --output's; false: both. */
static bool local_of(const struct cli_files *f, const struct cli_words *words,
                     size_t at, const char **ret)
{
    *ret = at < words->count ? words->items[at] : f->output;
    return at >= words->count || !f->output;
}

static int saved(const struct cli *c, const char *path, const char *local)
{
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:s, s:s}", "path", path, "saved", local);

        cli_print_json(out);
    } else if (local && c->tty_out) {
        (void)printf("saved %s\n", local);
    }
    return CLI_EXIT_OK;
}

static int fetch(struct cli *c, const char *path,
                 const struct cli_download *what)
{
    char *local cleanup(mem_free) = NULL;
    struct error err;

    if (c->json && what->local && strcmp(what->local, "-") == 0)
        return cli_usage_error(c, "--json and the file both want standard "
                                  "output");
    if (cli_download(c, what, &local, &err) < 0)
        return cli_fail(c, &err);
    return saved(c, path, local);
}

int cli_files_fetch(struct cli *c, const struct cli_words *words, void *arg)
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
        return cli_usage_error(c, "get: something is left out");
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
    return fetch(c, place.path, &what);
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
    if (cli_files_workspace(c, f, &first, &at, true, &place, &err) < 0)
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
    return fetch(c, place.path, &what);
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
static int send(struct store *s, const char *local, char *path,
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

static int send_folder(struct store *s, const char *folder, bool several,
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
        r = send(s, local, xasprintf("%s%s%s", there, slash, tree.paths[i]),
                 NULL, err);
    }
    cli_progress_end(&bar);
    s->skipped += tree.skipped;
    return r;
}

static int send_any(struct store *s, const char *local, bool several,
                    struct error *err)
{
    const char *name = cli_place_base_name(local);
    struct stat st;

    if (stat(local, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (s->f->recursive)
            return send_folder(s, local, several, err);
        (void)error_set(err, ERR_INVALID, "%s is a folder", local);
        return error_hint(err, "-r stores a folder with all that is in it.");
    }
    if (strcmp(local, "-") == 0 &&
        (!s->place.path[0] || s->place.path[strlen(s->place.path) - 1] == '/'))
        return error_set(err, ERR_INVALID,
                         "standard input has no name: give it one behind the "
                         "workspace");
    return send(s, local, name_there(s, name, several), name, err);
}

/* What is where: FILE... PLACE, FILE [PATH] with --session, or SESSION FILE
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
        return error_set(err, ERR_INVALID, "put: something is left out");
    return cli_place_find(s->c, words->count - *ret_first > 1 ? last : "",
                          session, &s->place, err);
}

static int report(const struct store *s)
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
                      cli_format_size(cli_json_number(first, "size"), size));
    else
        cli_show_done(s->c, s->stored, "stored %zu files", count);
    return CLI_EXIT_OK;
}

int cli_files_store(struct cli *c, const struct cli_words *words, void *arg)
{
    struct store s cleanup(store_done) = {
        .c = c, .f = arg, .stored = json_array()};
    size_t first, count;
    struct error err;

    if (words->count < (s.f->session ? 1u : 2u))
        return cli_usage_error(c, "put: something is left out");
    if (split_line(&s, words, &first, &count, &err) < 0)
        return cli_fail(c, &err);
    if (s.place.kind == CLI_PLACE_FILE)
        return cli_usage_error(c, "put: a place, not the id of a file");
    for (size_t i = first; i < first + count; i++)
        if (send_any(&s, words->items[i], count > 1, &err) < 0)
            return cli_fail(c, &err);
    return report(&s);
}
