/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox key: make, list and revoke keys. A secret is printed once, when it
 * is made, to standard output and nowhere else.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/key.h"

#define WORDS_MAX 64

struct key_flags {
    const char *scopes, *tenant, *name;
    const char *pools, *workspaces, *sessions;
    uint64_t expires_s;
};

/* ---- with token.c ------------------------------------------------------- */

json_t *cli_key_words(const char *text)
{
    json_t *words = text ? json_array() : NULL;

    while (text && *text && json_array_size(words) < WORDS_MAX) {
        size_t len = strcspn(text, ", ");

        if (len)
            (void)json_array_append_new(words, json_stringn(text, len));
        text += len;
        text += strspn(text, ", ");
    }
    return words;
}

void cli_key_join(const json_t *list, struct buf *out)
{
    buf_adds(out, "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));

        buf_addf(out, "%s%s", i ? "," : "", one ? one : "");
    }
}

void cli_key_bounds(const json_t *key, struct buf *out)
{
    static const char *const kinds[] = {"pools", "workspaces", "sessions"};
    bool any = false;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        const json_t *list = json_object_get(key, kinds[i]);

        if (!json_array_size(list))
            continue;
        buf_adds(out, any ? " " : "");
        cli_key_join(list, out);
        any = true;
    }
    if (!any)
        buf_adds(out, "-");
}

void cli_key_show(const struct cli *c, const char *what, const json_t *made)
{
    if (c->json) {
        cli_print_json(made);
        return;
    }
    (void)printf("%s\n", cli_json_text(made, "secret", ""));
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "This is %s %s. Its secret is shown this once and kept "
                  "nowhere: store it now.\n",
                  what, cli_json_text(made, "id", ""));
}

int cli_key_revoke(struct cli *c, const char *prefix, const char *id)
{
    struct buf path cleanup(buf_done) = {0};
    struct error err;

    buf_adds(&path, prefix);
    cli_http_escape(&path, id, false);
    if (cli_http_json(c, "DELETE", path.data, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        json_t *out cleanup(json_unref) = json_pack("{s:s}", "revoked", id);

        cli_print_json(out);
    }
    return CLI_EXIT_OK;
}

/* ---- the verbs ---------------------------------------------------------- */

static int create(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct key_flags *flags = arg;
    json_t *body cleanup(json_unref) = NULL;
    json_t *key cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    body = json_pack("{s:o, s:s*, s:s*, s:o*, s:o*, s:o*}", "scopes",
                     cli_key_words(flags->scopes), "tenant", flags->tenant,
                     "name", flags->name, "pools", cli_key_words(flags->pools),
                     "workspaces", cli_key_words(flags->workspaces),
                     "sessions", cli_key_words(flags->sessions));
    if (flags->expires_s)
        (void)json_object_set_new(body, "expires_in_s",
                                  json_integer((json_int_t)flags->expires_s));
    if (cli_http_json(c, "POST", "/api/keys", body, &key, &err) < 0)
        return cli_fail(c, &err);
    cli_key_show(c, "key", key);
    return CLI_EXIT_OK;
}

static const char *state_of(const json_t *key)
{
    const char *end = cli_json_text(key, "expires_at", NULL);

    if (cli_json_text(key, "revoked_at", NULL))
        return "revoked";
    return end ? end : "valid";
}

static void add_row(struct cli_table *table, const json_t *key)
{
    struct buf scopes cleanup(buf_done) = {0};
    struct buf bounds cleanup(buf_done) = {0};

    cli_key_join(json_object_get(key, "scopes"), &scopes);
    cli_key_bounds(key, &bounds);
    {
        const char *cells[] = {
            cli_json_text(key, "id", ""),
            cli_json_text(key, "tenant", ""),
            cli_json_text(key, "name", ""),
            scopes.data,
            bounds.data,
            cli_json_text(key, "created_at", ""),
            cli_json_text(key, "last_used_at", "never"),
            state_of(key),
        };

        cli_table_row(table, cells);
    }
}

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const char *const headings[] = {"ID",        "TENANT",   "NAME",
                                           "SCOPES",    "BOUND TO", "CREATED",
                                           "LAST USED", "STATE"};
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
    (void)arg;
    return cli_key_revoke(c, "/api/keys/", words->items[0]);
}

static const struct cli_subverb verbs[] = {
    {"list", 0, 0, list},
    {"create", 0, 0, create},
    {"revoke", 1, 1, revoke},
};

int cli_key(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct key_flags flags = {0};
    const struct cli_opt table[] = {
        {"scopes", 0, CLI_OPT_TEXT, &flags.scopes, "SCOPES",
         "what it may do, with commas between; see below", "create"},
        {"scope", 0, CLI_OPT_TEXT, &flags.scopes, "SCOPES", "the same",
         "create"},
        {"tenant", 0, CLI_OPT_TEXT, &flags.tenant, "T",
         "whose key it is; else yours", "create"},
        {"name", 'n', CLI_OPT_TEXT, &flags.name, "N",
         "what it is for, to tell keys apart", "create"},
        {"pools", 0, CLI_OPT_TEXT, &flags.pools, "NAMES",
         "only sessions of these pools", "create"},
        {"workspaces", 0, CLI_OPT_TEXT, &flags.workspaces, "IDS",
         "only these workspaces, and sessions on them", "create"},
        {"sessions", 0, CLI_OPT_TEXT, &flags.sessions, "IDS",
         "only these sessions, and their workspaces", "create"},
        {"expires", 0, CLI_OPT_DURATION, &flags.expires_s, "TIME",
         "how long it is good: 90, 15m, 2h, 7d; else for ever", "create"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "Scopes: execute, files:read, files:write, workspaces:admin, "
        "audit:read,\npolicy:admin, approve, admin (all of them).\n"
        "These need a key of scope admin. The new key's secret is printed "
        "alone on\nstandard output, once; the note about it goes to standard "
        "error.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "key");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (words.count && strcmp(words.items[0], "create") == 0 && !flags.scopes)
        return cli_usage_error(&c, "create wants --scopes, for example "
                                   "--scopes execute,files:read");
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &flags);
}
