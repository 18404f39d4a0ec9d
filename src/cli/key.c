/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox key: make, list and revoke keys. A secret is printed once, when it
 * is made, to standard output and nowhere else.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define SCOPES_MAX 16

struct key_flags {
    const char *scope, *tenant, *name;
};

/* "execute,files:read" as an array. */
static json_t *scopes_json(const char *text)
{
    json_t *scopes = json_array();

    while (*text && json_array_size(scopes) < SCOPES_MAX) {
        size_t len = strcspn(text, ", ");

        if (len)
            (void)json_array_append_new(scopes, json_stringn(text, len));
        text += len;
        text += strspn(text, ", ");
    }
    return scopes;
}

static int create(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct key_flags *flags = arg;
    json_t *body cleanup(json_unref) = NULL;
    json_t *key cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    body = json_pack("{s:o, s:s*, s:s*}", "scopes", scopes_json(flags->scope),
                     "tenant", flags->tenant, "name", flags->name);
    if (cli_http_json(c, "POST", "/api/keys", body, &key, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(key);
        return CLI_EXIT_OK;
    }
    (void)printf("%s\n", cli_json_text(key, "secret", ""));
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "This is key %s. Its secret is shown this once and kept "
                  "nowhere: store it now.\n",
                  cli_json_text(key, "id", ""));
    return CLI_EXIT_OK;
}

static void add_row(struct cli_table *table, const json_t *key)
{
    const json_t *list = json_object_get(key, "scopes");
    struct buf scopes cleanup(buf_done) = {0};

    buf_adds(&scopes, "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));

        buf_addf(&scopes, "%s%s", i ? "," : "", one ? one : "");
    }
    {
        const char *cells[] = {
            cli_json_text(key, "id", ""),
            cli_json_text(key, "tenant", ""),
            cli_json_text(key, "name", ""),
            scopes.data,
            cli_json_text(key, "created_at", ""),
            cli_json_text(key, "last_used_at", "never"),
            cli_json_text(key, "revoked_at", NULL) ? "revoked" : "valid",
        };

        cli_table_row(table, cells);
    }
}

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const char *const headings[] = {
        "ID", "TENANT", "NAME", "SCOPES", "CREATED", "LAST USED", "STATE"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf text cleanup(buf_done) = {0};
    json_t *answer cleanup(json_unref) = NULL;
    const json_t *all;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "GET", "/api/keys", NULL, &answer, &err) < 0)
        return cli_fail(c, &err);
    all = json_object_get(answer, "data");
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
    struct buf path cleanup(buf_done) = {0};
    struct error err;

    (void)arg;
    buf_adds(&path, "/api/keys/");
    cli_http_escape(&path, words->items[0], false);
    if (cli_http_json(c, "DELETE", path.data, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:s}", "revoked", words->items[0]);

        cli_print_json(out);
    }
    return CLI_EXIT_OK;
}

static const struct cli_verb verbs[] = {
    {"list", 0, 0, list},
    {"create", 0, 0, create},
    {"revoke", 1, 1, revoke},
};

int cli_key(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct key_flags flags = {0};
    const struct cli_opt table[] = {
        {"scope", 0, CLI_OPT_TEXT, &flags.scope, "SCOPES",
         "some of execute,files:read,files:write,admin", "create"},
        {"tenant", 0, CLI_OPT_TEXT, &flags.tenant, "T",
         "whose key it is; else yours", "create"},
        {"name", 'n', CLI_OPT_TEXT, &flags.name, "N",
         "what it is for, to tell keys apart", "create"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "These need a key of scope admin. The new key's secret is printed "
        "alone on\nstandard output, once; the note about it goes to standard "
        "error.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "key");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (words.count && strcmp(words.items[0], "create") == 0 && !flags.scope)
        return cli_usage_error(&c, "create wants --scope, for example "
                                   "--scope execute,files:read");
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &flags);
}
