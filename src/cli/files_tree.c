/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox files: ls, rm, mv, cp. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/files.h"

/* ---- ls ----------------------------------------------------------------- */

/* A session's list knows no prefix: what does not start with it goes. */
static json_t *below(const json_t *all, const char *prefix)
{
    json_t *some = json_array();
    size_t len = strlen(prefix);

    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *one = json_array_get(all, i);

        if (strncmp(cli_json_text(one, "path", ""), prefix, len) == 0)
            (void)json_array_append(some, one);
    }
    return some;
}

static int list(struct cli *c, const struct cli_place *place, const char *at,
                bool level, json_t **ret, struct error *err)
{
    char *base cleanup(mem_free) = cli_place_url(place, "files");
    json_t *all cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    int r;

    buf_adds(&url, base);
    if (place->kind == CLI_PLACE_WORKSPACE) {
        cli_http_query(&url, "prefix", place->path);
        cli_http_query(&url, "commit", at);
        cli_http_query(&url, "delimiter", level ? "/" : NULL);
    }
    r = cli_remote_list(c, url.data, "path", 0, &all, err);
    if (r < 0)
        return r;
    *ret = place->kind == CLI_PLACE_WORKSPACE ? json_incref(all)
                                              : below(all, place->path);
    return 0;
}

static void show(struct cli *c, const json_t *files, bool versions)
{
    static const struct cli_column columns[] = {
        {"PATH", "path", .kind = CLI_COLUMN_TEXT},
        {"SIZE", "size", .kind = CLI_COLUMN_SIZE},
        {"MODIFIED", "modified_at", .kind = CLI_COLUMN_TEXT},
        {"VERSION", "version", .kind = CLI_COLUMN_TEXT},
    };

    cli_show_list(c, files, columns,
                  versions ? ARRAY_SIZE(columns) : ARRAY_SIZE(columns) - 1);
}

int cli_files_list(struct cli *c, const struct cli_place *place,
                   struct error *err)
{
    json_t *files cleanup(json_unref) = NULL;
    int r = list(c, place, NULL, false, &files, err);

    if (r == 0)
        show(c, files, place->kind == CLI_PLACE_WORKSPACE);
    return r;
}

int cli_files_ls(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *files cleanup(json_unref) = NULL;
    const struct cli_files *f = arg;
    struct error err;
    size_t at = 0;

    if (!words->count && !f->session)
        return cli_usage_error(c, "ls: something is left out");
    if (cli_files_place(c, f, words, &at, true, &place, &err) < 0)
        return cli_fail(c, &err);
    if ((f->at || f->level) && cli_place_to_workspace(c, &place, &err) < 0)
        return cli_fail(c, &err);
    if (list(c, &place, f->at, f->level, &files, &err) < 0)
        return cli_fail(c, &err);
    show(c, files, place.kind == CLI_PLACE_WORKSPACE);
    return CLI_EXIT_OK;
}

/* ---- rm ----------------------------------------------------------------- */

static int remove_one(struct cli *c, const struct cli_files *f,
                      const struct cli_place *place, struct error *err)
{
    char *base cleanup(mem_free) = cli_place_file_url(place);
    struct cli_upload what = {.if_match = f->if_match, .lock = f->lock};
    struct buf room cleanup(buf_done) = {0};
    struct buf url cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    int r;

    buf_adds(&url, base);
    if (url.data[url.len - 1] == '/') /* a folder, as people write it */
        url.data[--url.len] = '\0';
    cli_http_query(&url, "recursive", f->recursive ? "true" : NULL);
    cli_upload_headers(&what, &room, headers);
    r = cli_http_ask(c, "DELETE", url.data, NULL, headers, NULL, err);
    if (r < 0 && err->code == ERR_CONFLICT && !f->recursive)
        return error_hint(err, "-r removes a folder with all that is in it.");
    return r;
}

int cli_files_rm(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *removed cleanup(json_unref) = json_array();
    struct cli_files f = *(const struct cli_files *)arg;
    struct error err;
    size_t at = 0;

    /* SESSION PATH PATH...: the session is said once. */
    if (!f.session && !cli_place_is_address(words->items[0]) &&
        !ids_valid("file", words->items[0])) {
        f.session = words->items[0];
        at = 1;
        if (words->count < 2)
            return cli_usage_error(c, "rm: something is left out");
    }
    while (at < words->count) {
        struct cli_place place cleanup(cli_place_done) = {0};
        const char *word = words->items[at];

        if (cli_files_place(c, &f, words, &at, false, &place, &err) < 0)
            return cli_fail(c, &err);
        if (place.kind == CLI_PLACE_FILE &&
            cli_place_to_workspace(c, &place, &err) < 0)
            return cli_fail(c, &err);
        if (remove_one(c, &f, &place, &err) < 0)
            return cli_fail(c, &err);
        (void)json_array_append_new(removed, json_string(word));
    }
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:O}", "removed", removed);

        cli_print_json(out);
    }
    return CLI_EXIT_OK;
}

/* ---- mv, cp ------------------------------------------------------------- */

/* Where it goes: a place in the same workspace, or just a path in it. A
 * folder, which ends with a slash, keeps the name. */
static int target_of(struct cli *c, const struct cli_files *f,
                     const char *word, const struct cli_place *from,
                     char **ret, struct error *err)
{
    struct cli_place to cleanup(cli_place_done) = {0};
    bool address = !f->session && cli_place_is_address(word);
    int r;

    if (address) {
        r = cli_place_find(c, word, NULL, &to, err);
        if (r < 0)
            return r;
        if (strcmp(to.id, from->id) != 0)
            return error_set(err, ERR_INVALID,
                             "the two places are not in one workspace");
    } else {
        to.path = xstrdup(cli_place_below_data(word));
    }
    if (to.path[0] && to.path[strlen(to.path) - 1] != '/')
        *ret = take_ptr(to.path);
    else
        *ret = xasprintf("%s%s", to.path, cli_place_base_name(from->path));
    return 0;
}

static int relocate(struct cli *c, const struct cli_words *words,
                    const struct cli_files *f, const char *verb,
                    const char *done)
{
    struct cli_place from cleanup(cli_place_done) = {0};
    json_t *body cleanup(json_unref) = NULL;
    json_t *commit cleanup(json_unref) = NULL;
    struct cli_upload what = {.lock = f->lock};
    struct buf room cleanup(buf_done) = {0};
    const char *headers[CLI_UPLOAD_HEADERS];
    char *to cleanup(mem_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    struct cli_words first = {.items = {words->items[0]}, .count = 1};
    struct error err;
    size_t at = 0;

    if (cli_files_workspace(c, f, &first, &at, false, &from, &err) < 0 ||
        target_of(c, f, words->items[1], &from, &to, &err) < 0)
        return cli_fail(c, &err);
    body = json_pack("{s:s, s:s}", "from", from.path, "to", to);
    if (!body)
        return cli_usage_error(c, "a path is not valid UTF-8");
    url = cli_place_url(&from, verb);
    cli_upload_headers(&what, &room, headers);
    if (cli_http_ask(c, "POST", url, body, headers, &commit, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, commit, "%s %s to %s", done, from.path, to);
    return CLI_EXIT_OK;
}

int cli_files_mv(struct cli *c, const struct cli_words *words, void *arg)
{
    return relocate(c, words, arg, "move", "moved");
}

int cli_files_cp(struct cli *c, const struct cli_words *words, void *arg)
{
    return relocate(c, words, arg, "copy", "copied");
}
