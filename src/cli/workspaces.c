/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox workspaces: make, list, rename, delete and bring back; history and
 * restore. Members and ownership are in members.c, rules in rules.c.
 */
#include "cli/workspaces.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

int cli_workspaces_ask(struct cli *c, const char *name, const char *method,
                       const char *suffix, const json_t *body, json_t **ret,
                       struct error *err)
{
    char *path cleanup(mem_free) = NULL;
    char id[ID_MAX];
    int r = cli_remote_workspace(c, name, id, err);

    if (r < 0)
        return r;
    path = xasprintf("/api/workspaces/%s%s", id, suffix);
    return cli_http_json(c, method, path, body, ret, err);
}

/* ---- making and looking ------------------------------------------------- */

static int ls(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column live[] = {
        {"ID", "id", .kind = CLI_COLUMN_TEXT},
        {"NAME", "name", .kind = CLI_COLUMN_TEXT},
        {"ROLE", "role", .kind = CLI_COLUMN_TEXT},
        {"FILES", "files", .kind = CLI_COLUMN_NUMBER},
        {"SIZE", "bytes", .kind = CLI_COLUMN_SIZE},
        {"STORED", "stored_bytes", .kind = CLI_COLUMN_SIZE},
        {"HOLD", "legal_hold", .kind = CLI_COLUMN_BOOL},
        {"UPDATED", "updated_at", .kind = CLI_COLUMN_TEXT},
    };
    static const struct cli_column gone[] = {
        {"ID", "id", .kind = CLI_COLUMN_TEXT},
        {"NAME", "name", .kind = CLI_COLUMN_TEXT},
        {"STORED", "stored_bytes", .kind = CLI_COLUMN_SIZE},
        {"DELETED", "deleted_at", .kind = CLI_COLUMN_TEXT},
        {"PURGED", "purge_at", .kind = CLI_COLUMN_TEXT},
    };
    const struct cli_workspaces *w = arg;
    json_t *all cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    if (cli_remote_list(
            c, w->deleted ? "/api/workspaces?deleted=true" : "/api/workspaces",
            "id", 0, &all, &err) < 0)
        return cli_fail(c, &err);
    if (w->deleted)
        cli_show_list(c, all, gone, ARRAY_SIZE(gone));
    else
        cli_show_list(c, all, live, ARRAY_SIZE(live));
    return CLI_EXIT_OK;
}

static int make(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_workspaces *w = arg;
    json_t *body cleanup(json_unref) =
        json_pack("{s:s}", "name", words->items[0]);
    json_t *made cleanup(json_unref) = NULL;
    struct error err;

    if (!body)
        return cli_usage_error(c, "the name is not valid UTF-8");
    if (w->is_private)
        (void)json_object_set_new(body, "private", json_true());
    if (cli_http_json(c, "POST", "/api/workspaces", body, &made, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(made);
    else
        (void)printf("%s\n", cli_json_text(made, "id", ""));
    return CLI_EXIT_OK;
}

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *info cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (cli_workspaces_ask(c, words->items[0], "GET", "", NULL, &info, &err) <
        0)
        return cli_fail(c, &err);
    cli_show_object(c, info);
    return CLI_EXIT_OK;
}

static int rename_it(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *body cleanup(json_unref) =
        json_pack("{s:s}", "name", words->items[1]);
    json_t *info cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (!body)
        return cli_usage_error(c, "the name is not valid UTF-8");
    if (cli_workspaces_ask(c, words->items[0], "PATCH", "", body, &info,
                           &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, info, "renamed to %s", words->items[1]);
    return CLI_EXIT_OK;
}

/* ---- deleting and bringing back ----------------------------------------- */

static int rm(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *deleted cleanup(json_unref) = json_array();
    json_t *out cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    for (size_t i = 0; i < words->count; i++) {
        if (cli_workspaces_ask(c, words->items[i], "DELETE", "", NULL, NULL,
                               &err) < 0)
            return cli_fail(c, &err);
        (void)json_array_append_new(deleted, json_string(words->items[i]));
    }
    out = json_pack("{s:O}", "deleted", deleted);
    cli_show_done(c, out,
                  "deleted; `glovebox workspaces ls --deleted` says how long "
                  "it can be brought back");
    return CLI_EXIT_OK;
}

/* By id, or by the name it had. */
static int undelete(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *gone cleanup(json_unref) = NULL;
    json_t *info cleanup(json_unref) = NULL;
    char *path cleanup(mem_free) = NULL;
    const char *id = words->items[0], *found = NULL;
    struct error err;
    size_t count = 0;

    (void)arg;
    if (!ids_valid("ws", id)) {
        if (cli_remote_list(c, "/api/workspaces?deleted=true", "id", 0, &gone,
                            &err) < 0)
            return cli_fail(c, &err);
        for (size_t i = 0; i < json_array_size(gone); i++) {
            const json_t *one = json_array_get(gone, i);

            if (strcmp(cli_json_text(one, "name", ""), id) != 0)
                continue;
            count++;
            found = cli_json_text(one, "id", "");
        }
        if (count != 1) {
            (void)error_set(&err, count ? ERR_CONFLICT : ERR_NOT_FOUND,
                            "%zu deleted workspaces had the name '%.128s'",
                            count, id);
            (void)error_hint(&err, "`glovebox workspaces ls --deleted` lists "
                                   "them.");
            return cli_fail(c, &err);
        }
        id = found;
    }
    path = xasprintf("/api/workspaces/%s/undelete", id);
    if (cli_http_json(c, "POST", path, NULL, &info, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, info, "%s is back", id);
    return CLI_EXIT_OK;
}

/* ---- history ------------------------------------------------------------ */

static int history(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_workspaces *w = arg;
    struct cli_place place cleanup(cli_place_done) = {
        .kind = CLI_PLACE_WORKSPACE, .path = xstrdup("")};
    struct error err;

    if (cli_remote_workspace(c, words->items[0], place.id, &err) < 0 ||
        cli_past_show(c, &place, false, w->limit, &err) < 0)
        return cli_fail(c, &err);
    return CLI_EXIT_OK;
}

static int restore(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_workspaces *w = arg;
    struct cli_place place cleanup(cli_place_done) = {
        .kind = CLI_PLACE_WORKSPACE, .path = xstrdup("")};
    json_t *commit cleanup(json_unref) = NULL;
    char *lock cleanup(cli_secret_free) = NULL;
    struct error err;

    if (!w->commit)
        return cli_usage_error(c, "restore wants --commit: history lists "
                                  "them");
    if ((w->lock_file &&
         cli_secret_file(w->lock_file, "lock's token", &lock, &err) < 0) ||
        cli_remote_workspace(c, words->items[0], place.id, &err) < 0 ||
        cli_past_restore(c, &place, w->commit, NULL, lock, &commit, &err) < 0)
        return cli_fail(c, &err);
    cli_past_restored(c, commit);
    return CLI_EXIT_OK;
}

/* ---- the command -------------------------------------------------------- */

static const struct cli_subverb verbs[] = {
    {"ls", 0, 0, ls},
    {"list", 0, 0, ls},
    {"new", 1, 1, make},
    {"create", 1, 1, make},
    {"show", 1, 1, show},
    {"rename", 2, 2, rename_it},
    {"rm", 1, CLI_WORDS_MAX, rm},
    {"delete", 1, CLI_WORDS_MAX, rm},
    {"undelete", 1, 1, undelete},
    {"members", 1, 1, cli_members_list},
    {"member", 3, 4, cli_members_change},
    {"transfer", 2, 2, cli_members_transfer},
    {"offer", 1, 1, cli_members_offer},
    {"offers", 1, 1, cli_members_offers},
    {"claim", 0, 0, cli_members_claim},
    {"history", 1, 1, history},
    {"restore", 1, 1, restore},
    {"retention", 1, 1, cli_rules_retention},
    {"hold", 2, 2, cli_rules_hold},
    {"quota", 2, 2, cli_rules_quota},
    {"usage", 0, 0, cli_rules_usage},
};

static const char notes[] =
    "WS is an id or, if only one has it, a name. ROLE is viewer, editor or\n"
    "owner; KEY-ID may be a key's name, and '*' stands for every key of the\n"
    "tenant. `transfer` gives a workspace to another key; `offer` prints a\n"
    "token, once, with which whoever gets it can `claim` the workspace. A\n"
    "deleted workspace can be brought back for a while. `retention` says how\n"
    "many versions of a file are kept and for how many days, 0 for all and\n"
    "for ever; under a legal hold nothing goes.\n";

int cli_workspaces(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct cli_workspaces w = {.versions = UINT64_MAX, .days = UINT64_MAX};
    const struct cli_opt table[] = {
        {"deleted", 0, CLI_OPT_FLAG, &w.deleted, NULL,
         "ls: those that can be brought back", "ls list"},
        {"private", 0, CLI_OPT_FLAG, &w.is_private, NULL,
         "new: for you alone, not for your tenant", "new create"},
        {"commit", 0, CLI_OPT_TEXT, &w.commit, "C",
         "restore: all of it as of this commit", "restore"},
        {"lock-file", 0, CLI_OPT_TEXT, &w.lock_file, "FILE",
         "restore: holds the token of a lock", "restore"},
        {"limit", 0, CLI_OPT_COUNT, &w.limit, "N", "history: at most so many",
         "history"},
        {"ttl", 0, CLI_OPT_DURATION, &w.ttl_s, "TIME",
         "offer: how long it holds; else 72h", "offer"},
        {"revoke", 0, CLI_OPT_TEXT, &w.revoke, "OFFER",
         "offer: take this one back", "offer"},
        {"token-file", 0, CLI_OPT_TEXT, &w.token_file, "FILE",
         "claim: holds the token; else it is asked for", "claim"},
        {"versions", 0, CLI_OPT_COUNT, &w.versions, "N",
         "retention: how many of a file", "retention"},
        {"days", 0, CLI_OPT_COUNT, &w.days, "D", "retention: how long",
         "retention"},
    };
    const struct cli_opts opts = {table, ARRAY_SIZE(table), notes};
    struct cli_words words;
    int status;

    cli_init(&c, "workspaces");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &w);
}
