/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox workspaces: members, transfer, offer, claim. A token is printed
 * once, alone, and read from a file or the terminal, never from the line.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/workspaces.h"

int cli_members_list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"KEY", "principal", .kind = CLI_COLUMN_TEXT},
        {"ROLE", "role", .kind = CLI_COLUMN_TEXT},
        {"ADDED", "added_at", .kind = CLI_COLUMN_TEXT},
        {"BY", "added_by", .kind = CLI_COLUMN_TEXT},
    };
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (cli_workspaces_ask(c, words->items[0], "GET", "/members", NULL,
                           &answer, &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, json_object_get(answer, "data"), columns,
                  ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

/* member add WS KEY ROLE, member rm WS KEY */
int cli_members_change(struct cli *c, const struct cli_words *words, void *arg)
{
    bool add = strcmp(words->items[0], "add") == 0;
    struct buf suffix cleanup(buf_done) = {0};
    json_t *body cleanup(json_unref) = NULL;
    json_t *out cleanup(json_unref) = NULL;
    const char *ws = words->items[1], *key = words->items[2];
    struct error err;

    (void)arg;
    if (!add && strcmp(words->items[0], "rm") != 0)
        return cli_usage_error(c, "member add or member rm, not member %s",
                               words->items[0]);
    if (words->count != (add ? 4u : 3u))
        return cli_usage_error(c, add ? "member add: WS KEY-ID ROLE"
                                      : "member rm: WS KEY-ID");
    buf_adds(&suffix, "/members/");
    cli_http_escape(&suffix, key, false);
    if (add)
        body = json_pack("{s:s}", "role", words->items[3]);
    if (cli_workspaces_ask(c, ws, add ? "PUT" : "DELETE", suffix.data, body,
                           NULL, &err) < 0)
        return cli_fail(c, &err);
    out = add ? json_pack("{s:s, s:s}", "principal", key, "role",
                          words->items[3])
              : json_pack("{s:s}", "removed", key);
    cli_show_done(c, out, add ? "%s is %s now" : "%s is no member any more",
                  key, add ? words->items[3] : "");
    return CLI_EXIT_OK;
}

int cli_members_transfer(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    json_t *body cleanup(json_unref) =
        json_pack("{s:s}", "to", words->items[1]);
    json_t *info cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (!body)
        return cli_usage_error(c, "the key's name is not valid UTF-8");
    if (cli_workspaces_ask(c, words->items[0], "POST", "/transfer", body,
                           &info, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, info, "it belongs to %s now; you stay an editor",
                  cli_json_text(info, "owner", words->items[1]));
    return CLI_EXIT_OK;
}

static int revoke_offer(struct cli *c, const char *ws, const char *offer)
{
    struct buf suffix cleanup(buf_done) = {0};
    json_t *out cleanup(json_unref) = json_pack("{s:s}", "revoked", offer);
    struct error err;

    buf_adds(&suffix, "/offers/");
    cli_http_escape(&suffix, offer, false);
    if (cli_workspaces_ask(c, ws, "DELETE", suffix.data, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, out, "%s holds no longer", offer);
    return CLI_EXIT_OK;
}

int cli_members_offer(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_workspaces *w = arg;
    json_t *body cleanup(json_unref) = json_object();
    json_t *offer cleanup(json_unref) = NULL;
    struct error err;

    if (w->revoke)
        return revoke_offer(c, words->items[0], w->revoke);
    if (w->ttl_s)
        (void)json_object_set_new(body, "expires_in_s",
                                  json_integer((json_int_t)w->ttl_s));
    if (cli_workspaces_ask(c, words->items[0], "POST", "/offers", body, &offer,
                           &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(offer);
        return CLI_EXIT_OK;
    }
    (void)printf("%s\n", cli_json_text(offer, "token", ""));
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "This is offer %s, until %s. Its token is shown this once; "
                  "`glovebox workspaces claim` takes it.\n",
                  cli_json_text(offer, "id", ""),
                  cli_json_text(offer, "expires_at", "?"));
    return CLI_EXIT_OK;
}

int cli_members_offers(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"ID", "id", .kind = CLI_COLUMN_TEXT},
        {"BY", "offered_by", .kind = CLI_COLUMN_TEXT},
        {"MADE", "created_at", .kind = CLI_COLUMN_TEXT},
        {"UNTIL", "expires_at", .kind = CLI_COLUMN_TEXT},
    };
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (cli_workspaces_ask(c, words->items[0], "GET", "/offers", NULL, &answer,
                           &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, json_object_get(answer, "data"), columns,
                  ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

int cli_members_claim(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_workspaces *w = arg;
    char *token cleanup(cli_secret_free) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    json_t *info cleanup(json_unref) = NULL;
    struct error err;
    int r = w->token_file
                ? cli_secret_file(w->token_file, "token", &token, &err)
                : cli_secret_ask(c, "token", false, &token, &err);

    (void)words;
    if (r < 0)
        return cli_fail(c, &err);
    body = json_pack("{s:s}", "token", token);
    if (!body)
        return cli_usage_error(c, "the token is not valid UTF-8");
    if (cli_http_json(c, "POST", "/api/workspaces/claim", body, &info, &err) <
        0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(info);
    else
        (void)printf("%s\n", cli_json_text(info, "id", ""));
    return CLI_EXIT_OK;
}
