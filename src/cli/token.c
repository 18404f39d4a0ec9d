/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox token: mint, list and revoke tokens, the short-lived and narrower
 * kind of key. A secret is printed once, when it is minted, to standard output
 * and nowhere else.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/key.h"

struct token_flags {
    const char *scopes, *name, *session, *workspace, *pool;
    uint64_t ttl_s;
};

static int create(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct token_flags *flags = arg;
    json_t *body cleanup(json_unref) = NULL;
    json_t *token cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    body = json_pack("{s:I, s:o*, s:s*, s:s*, s:s*, s:s*}", "ttl_s",
                     (json_int_t)flags->ttl_s, "scopes",
                     cli_key_words(flags->scopes), "name", flags->name,
                     "session", flags->session, "workspace", flags->workspace,
                     "pool", flags->pool);
    if (cli_http_json(c, "POST", "/api/tokens", body, &token, &err) < 0)
        return cli_fail(c, &err);
    cli_key_show(c, "token", token);
    return CLI_EXIT_OK;
}

static void add_row(struct cli_table *table, const json_t *token)
{
    struct buf scopes cleanup(buf_done) = {0};
    struct buf bounds cleanup(buf_done) = {0};

    cli_key_join(json_object_get(token, "scopes"), &scopes);
    cli_key_bounds(token, &bounds);
    {
        const char *cells[] = {
            cli_json_text(token, "id", ""),
            cli_json_text(token, "name", ""),
            scopes.data,
            bounds.data,
            cli_json_text(token, "parent", ""),
            cli_json_text(token, "expires_at", ""),
            cli_json_text(token, "last_used_at", "never"),
        };

        cli_table_row(table, cells);
    }
}

/* All pages; owned by caller. */
static json_t *fetch(struct cli *c, struct error *err)
{
    json_t *all = json_array();
    struct buf path cleanup(buf_done) = {0};
    bool more = true;

    buf_adds(&path, "/api/tokens?limit=1000");
    while (more) {
        json_t *page cleanup(json_unref) = NULL;
        const json_t *data;

        if (cli_http_json(c, "GET", path.data, NULL, &page, err) < 0) {
            json_decref(all);
            return NULL;
        }
        data = json_object_get(page, "data");
        (void)json_array_extend(all, (json_t *)data);
        more = json_is_true(json_object_get(page, "has_more")) &&
               json_array_size(data) > 0;
        buf_done(&path);
        buf_adds(&path, "/api/tokens?limit=1000&after=");
        if (more)
            cli_http_escape(
                &path,
                cli_json_text(json_array_get(data, json_array_size(data) - 1),
                              "id", ""),
                false);
    }
    return all;
}

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const char *const headings[] = {
        "ID", "NAME", "SCOPES", "FOR", "PARENT", "EXPIRES", "LAST USED"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf text cleanup(buf_done) = {0};
    struct error err;
    json_t *all cleanup(json_unref) = fetch(c, &err);

    (void)words;
    (void)arg;
    if (!all)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(all);
        return CLI_EXIT_OK;
    }
    for (size_t i = 0; i < json_array_size(all); i++)
        add_row(table, json_array_get(all, i));
    cli_table_print(table, &text);
    (void)fputs(text.data, stdout);
    return CLI_EXIT_OK;
}

static int revoke(struct cli *c, const struct cli_words *words, void *arg)
{
    (void)arg;
    return cli_key_revoke(c, "/api/tokens/", words->items[0]);
}

static const struct cli_subverb verbs[] = {
    {"list", 0, 0, list},
    {"create", 0, 0, create},
    {"revoke", 1, 1, revoke},
};

int cli_token(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct token_flags flags = {0};
    const struct cli_opt table[] = {
        {"ttl", 0, CLI_OPT_DURATION, &flags.ttl_s, "TIME",
         "how long it is good: 5 seconds to 24h", "create"},
        {"scopes", 0, CLI_OPT_TEXT, &flags.scopes, "SCOPES",
         "some of yours; else all of them but admin", "create"},
        {"session", 's', CLI_OPT_TEXT, &flags.session, "ID",
         "for this session alone", "create"},
        {"workspace", 'w', CLI_OPT_TEXT, &flags.workspace, "WS",
         "for this workspace alone", "create"},
        {"pool", 0, CLI_OPT_TEXT, &flags.pool, "P", "for this pool alone",
         "create"},
        {"name", 'n', CLI_OPT_TEXT, &flags.name, "N",
         "what it is for, to tell tokens apart", "create"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "Any key or token can mint; what it mints is never wider, ends no "
        "later, and is\nrevoked with it. The secret is printed alone on "
        "standard output, once; the note\nabout it goes to standard error.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "token");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (words.count && strcmp(words.items[0], "create") == 0 && !flags.ttl_s)
        return cli_usage_error(&c, "create wants --ttl, for example "
                                   "--ttl 15m");
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &flags);
}
