/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox files: history, versions, diff, restore, info. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/files.h"

static int past(struct cli *c, const struct cli_words *words,
                const struct cli_files *f, bool versions)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    struct error err;
    size_t at = 0;

    if (cli_files_workspace(c, f, words, &at, !versions, &place, &err) < 0)
        return cli_fail(c, &err);
    if (at < words->count)
        return cli_usage_error(c, "unexpected '%s'", words->items[at]);
    if (cli_past_show(c, &place, versions, f->limit, &err) < 0)
        return cli_fail(c, &err);
    return CLI_EXIT_OK;
}

int cli_files_history(struct cli *c, const struct cli_words *words, void *arg)
{
    return past(c, words, arg, false);
}

int cli_files_versions(struct cli *c, const struct cli_words *words, void *arg)
{
    return past(c, words, arg, true);
}

/* ---- diff --------------------------------------------------------------- */

static const char *line_color(const char *line)
{
    switch (line[0]) {
    case '+':
        return "\033[32m";
    case '-':
        return "\033[31m";
    case '@':
        return "\033[36m";
    default:
        return "";
    }
}

/* Line by line, so that nothing in the file can colour what follows. */
static void show_diff(const struct cli *c, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *color = c->color_out ? line_color(text) : "";

        (void)fputs(color, stdout);
        cli_show_text(c, text, len);
        (void)printf("%s\n", *color ? "\033[0m" : "");
        text += len + (text[len] == '\n');
    }
}

int cli_files_diff(struct cli *c, const struct cli_words *words, void *arg)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *answer cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    char *base cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    const char *from = NULL, *to = NULL;
    struct error err;
    size_t at = 0;

    if (cli_files_workspace(c, f, words, &at, false, &place, &err) < 0)
        return cli_fail(c, &err);
    if (words->count > at + 2)
        return cli_usage_error(c, "diff: unexpected '%s'",
                               words->items[at + 2]);
    if (words->count > at)
        from = words->items[at];
    if (words->count > at + 1)
        to = words->items[at + 1];
    base = cli_place_url(&place, "diff");
    buf_adds(&url, base);
    cli_http_query(&url, "path", place.path);
    cli_http_query(&url, "from", from);
    cli_http_query(&url, "to", to);
    if (cli_http_ask(c, "GET", url.data, NULL, headers, &answer, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(answer);
    else
        show_diff(c, cli_json_text(answer, "diff", ""));
    return CLI_EXIT_OK;
}

/* ---- restore ------------------------------------------------------------ */

int cli_files_restore(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *commit cleanup(json_unref) = NULL;
    const struct cli_files *f = arg;
    struct error err;
    size_t at = 0;

    if (!f->version && !f->commit)
        return cli_usage_error(c, "restore wants --version or --commit; "
                                  "`files versions` and `files history` list "
                                  "them");
    if (cli_files_workspace(c, f, words, &at, f->commit != NULL, &place,
                            &err) < 0 ||
        cli_past_restore(c, &place, f->commit, f->version, f->lock, &commit,
                         &err) < 0)
        return cli_fail(c, &err);
    cli_past_restored(c, commit);
    return CLI_EXIT_OK;
}

/* ---- info --------------------------------------------------------------- */

/* The facts of a file, or of one of its versions. */
static int get_facts(struct cli *c, const struct cli_place *place,
                     const char *version, json_t **ret, struct error *err)
{
    struct buf url cleanup(buf_done) = {0};

    if (place->kind == CLI_PLACE_FILE) {
        buf_addf(&url, "/api/files/%s", place->id);
    } else {
        buf_addf(&url, "/api/workspaces/%s/info/", place->id);
        cli_http_escape(&url, place->path, true);
    }
    cli_http_query(&url, "version", version);
    return cli_http_json(c, "GET", url.data, NULL, ret, err);
}

int cli_files_info(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *facts cleanup(json_unref) = NULL;
    json_t *origin cleanup(json_unref) = NULL;
    char *url cleanup(mem_free) = NULL;
    const struct cli_files *f = arg;
    struct error err;
    size_t at = 0;

    if (cli_files_place(c, f, words, &at, false, &place, &err) < 0 ||
        (place.kind == CLI_PLACE_SESSION &&
         cli_place_to_workspace(c, &place, &err) < 0) ||
        get_facts(c, &place, f->version, &facts, &err) < 0)
        return cli_fail(c, &err);
    url = xasprintf("/api/versions/%s/provenance",
                    cli_json_text(facts, "version", ""));
    if (cli_http_json(c, "GET", url, NULL, &origin, &err) < 0)
        return cli_fail(c, &err);
    /* One object: what it is, then where it comes from. */
    (void)json_object_del(origin, "number");
    (void)json_object_update_missing(facts, origin);
    cli_show_object(c, facts);
    return CLI_EXIT_OK;
}
