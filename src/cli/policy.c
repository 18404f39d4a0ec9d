/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox policy: what is in force at the service, its versions, putting
 * another in force. Trying one out is policy_try.c's.
 */
#include "cli/policy.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_policy *p = arg;
    bool old = p->version != UINT64_MAX;
    char *path cleanup(mem_free) =
        old ? xasprintf("/api/policy/versions/%llu",
                        (unsigned long long)p->version)
            : xstrdup("/api/policy");
    json_t *now cleanup(json_unref) = NULL;
    const char *text;
    struct error err;

    (void)words;
    if (cli_http_json(c, "GET", path, NULL, &now, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(now);
        return CLI_EXIT_OK;
    }
    text = cli_json_text(now, "text", NULL);
    if (!old && json_is_false(json_object_get(now, "loaded")))
        (void)fprintf(
            stderr, "Everything is denied: %s\n",
            cli_json_text(now, "problem", "the policy cannot be loaded"));
    else if (!text)
        (void)fprintf(stderr,
                      cli_json_number(now, "version")
                          ? "Version %llu; its text is for keys of "
                            "the tenant default.\n"
                          : "No policy was ever put.\n",
                      (unsigned long long)cli_json_number(now, "version"));
    else
        (void)fprintf(stderr, "Version %llu of %s, by %s.\n",
                      (unsigned long long)cli_json_number(now, "version"),
                      cli_json_text(now, "at", ""),
                      cli_json_text(now, "by", ""));
    if (text)
        cli_show_text(c, text, strlen(text));
    return CLI_EXIT_OK;
}

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"VERSION", "version", .kind = CLI_COLUMN_NUMBER},
        {"AT", "at", .kind = CLI_COLUMN_TEXT},
        {"BY", "by", .kind = CLI_COLUMN_TEXT},
        {"NOTE", "note", .kind = CLI_COLUMN_TEXT},
        {"SHA256", "sha256", .kind = CLI_COLUMN_TEXT},
    };
    json_t *all cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "GET", "/api/policy/versions?limit=1000", NULL, &all,
                      &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, json_object_get(all, "data"), columns,
                  ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

static int put(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_policy *p = arg;
    char *text cleanup(mem_free) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    json_t *made cleanup(json_unref) = NULL;
    size_t len = 0;
    struct error err;

    if (cli_policy_read(words->items[0], &text, &len, &err) < 0)
        return cli_fail(c, &err);
    body = json_pack("{s:s#, s:s*}", "text", text, len, "note", p->note);
    if (!body) {
        (void)error_set(&err, ERR_INVALID, "%s is not UTF-8 text",
                        words->items[0]);
        return cli_fail(c, &err);
    }
    if (cli_http_json(c, "PUT", "/api/policy", body, &made, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(made);
    else
        (void)printf("version %llu is in force\n",
                     (unsigned long long)cli_json_number(made, "version"));
    return CLI_EXIT_OK;
}

static int reload(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *now cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "POST", "/api/policy/reload", NULL, &now, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(now);
    else
        (void)printf("version %llu is in force\n",
                     (unsigned long long)cli_json_number(now, "version"));
    return CLI_EXIT_OK;
}

static int adopt(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *session cleanup(json_unref) = NULL;
    char *path cleanup(mem_free) = NULL;
    char id[ID_MAX];
    struct error err;

    (void)arg;
    if (cli_remote_find(c, words->items[0], id, &err) < 0)
        return cli_fail(c, &err);
    path = xasprintf("/api/sessions/%s/policy", id);
    if (cli_http_json(c, "POST", path, NULL, &session, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(session);
    else
        (void)printf(
            "%s is held to version %llu\n", id,
            (unsigned long long)cli_json_number(session, "policy_version"));
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"show", 0, 0, show},
    {"list", 0, 0, list},
    {"check", 1, 1, cli_policy_check},
    {"test", 1, 2, cli_policy_test},
    {"explain", 0, CLI_WORDS_MAX, cli_policy_explain},
    {"put", 1, 1, put},
    {"reload", 0, 0, reload},
    {"adopt", 1, 1, adopt},
};

int cli_policy(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct cli_policy flags = {.version = UINT64_MAX};
    const struct cli_opt table[] = {
        {"version", 0, CLI_OPT_COUNT, &flags.version, "N",
         "an earlier one, by its number", "show"},
        {"note", 'n', CLI_OPT_TEXT, &flags.note, "TEXT",
         "what changed, for the list", "put"},
        {"file", 'f', CLI_OPT_TEXT, &flags.file, "FILE",
         "ask this policy, without a service", "explain"},
        {"zone", 0, CLI_OPT_TEXT, &flags.zone, "ZONE",
         "of hours and days with --file; else UTC", "explain"},
        {"session", 's', CLI_OPT_TEXT, &flags.session, "SESSION",
         "as it would be for this session's code", "explain"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "check, test and explain --file need no service. Words of explain are "
        "those of\n`match`: action=execute language=shell pool=default "
        "tenant=acme scopes=execute\ndestination=example.org:443 "
        "file=x.csv file_type=text/csv file_bytes=1m\nat=2026-01-31T23:00Z. "
        "docs/POLICY.md has the format.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "policy");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &flags);
}
