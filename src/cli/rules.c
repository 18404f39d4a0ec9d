/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox workspaces: retention, legal hold, quota, usage. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/workspaces.h"

static int patch(struct cli *c, const char *ws, const json_t *body,
                 json_t **ret)
{
    struct error err;

    if (cli_workspaces_ask(c, ws, "PATCH", "", body, ret, &err) < 0)
        return cli_fail(c, &err);
    return CLI_EXIT_OK;
}

static void say_rules(struct cli *c, const json_t *info)
{
    const json_t *rules = json_object_get(info, "retention");
    uint64_t versions = cli_json_number(rules, "keep_versions");
    uint64_t days = cli_json_number(rules, "keep_days");

    if (c->json) {
        cli_print_json(info);
        return;
    }
    if (versions)
        (void)printf("versions of a file kept: %llu\n",
                     (unsigned long long)versions);
    else
        (void)puts("versions of a file kept: all");
    if (days)
        (void)printf("days a version is kept: %llu\n",
                     (unsigned long long)days);
    else
        (void)puts("days a version is kept: for ever");
    if (json_is_true(json_object_get(info, "legal_hold")))
        (void)puts("under legal hold: nothing goes");
}

int cli_rules_retention(struct cli *c, const struct cli_words *words,
                        void *arg)
{
    const struct cli_workspaces *w = arg;
    bool change = w->versions != UINT64_MAX || w->days != UINT64_MAX;
    json_t *rules = json_object();
    json_t *body cleanup(json_unref) = json_pack("{s:o}", "retention", rules);
    json_t *info cleanup(json_unref) = NULL;
    struct error err;

    if (w->versions != UINT64_MAX)
        (void)json_object_set_new(rules, "keep_versions",
                                  json_integer((json_int_t)w->versions));
    if (w->days != UINT64_MAX)
        (void)json_object_set_new(rules, "keep_days",
                                  json_integer((json_int_t)w->days));
    if (cli_workspaces_ask(c, words->items[0], change ? "PATCH" : "GET", "",
                           change ? body : NULL, &info, &err) < 0)
        return cli_fail(c, &err);
    say_rules(c, info);
    return CLI_EXIT_OK;
}

int cli_rules_hold(struct cli *c, const struct cli_words *words, void *arg)
{
    bool on = strcmp(words->items[1], "on") == 0;
    json_t *body cleanup(json_unref) = json_pack("{s:b}", "legal_hold", on);
    json_t *info cleanup(json_unref) = NULL;
    int status;

    (void)arg;
    if (!on && strcmp(words->items[1], "off") != 0)
        return cli_usage_error(c, "hold is on or off, not '%s'",
                               words->items[1]);
    status = patch(c, words->items[0], body, &info);
    if (status == CLI_EXIT_OK)
        cli_show_done(c, info,
                      on ? "under legal hold: nothing goes"
                         : "no longer under legal hold");
    return status;
}

int cli_rules_quota(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *body cleanup(json_unref) = NULL;
    json_t *info cleanup(json_unref) = NULL;
    uint64_t bytes;
    char size[16];
    int status;

    (void)arg;
    if (cli_values_size(words->items[1], &bytes) < 0)
        return cli_usage_error(c,
                               "quota wants a size such as 20g, or 0 for "
                               "none, not '%s'",
                               words->items[1]);
    body = json_pack("{s:I}", "quota_bytes", (json_int_t)bytes);
    status = patch(c, words->items[0], body, &info);
    if (status == CLI_EXIT_OK)
        cli_show_done(c, info, "quota: %s",
                      bytes ? cli_format_size(bytes, size) : "none");
    return status;
}

int cli_rules_usage(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *usage cleanup(json_unref) = NULL;
    uint64_t quota, most;
    char have[16], all[16];
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "GET", "/api/usage", NULL, &usage, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(usage);
        return CLI_EXIT_OK;
    }
    quota = cli_json_number(usage, "quota_bytes");
    most = cli_json_number(usage, "max_workspaces");
    (void)printf("workspaces: %llu",
                 (unsigned long long)cli_json_number(usage, "workspaces"));
    if (most)
        (void)printf(" of %llu", (unsigned long long)most);
    (void)printf(
        "\nstored: %s",
        cli_format_size(cli_json_number(usage, "stored_bytes"), have));
    if (quota)
        (void)printf(" of %s", cli_format_size(quota, all));
    (void)puts("");
    return CLI_EXIT_OK;
}
