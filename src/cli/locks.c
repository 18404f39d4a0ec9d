/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox locks: leases on paths of a workspace. The token of a new lock is
 * printed once, alone, so that it can go into a file; the other verbs and
 * `files` read it from there.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

struct locks {
    const char *session, *label, *lock_file;
    uint64_t ttl_s;
};

static int ls(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"ID", "id", .kind = CLI_COLUMN_TEXT},
        {"PATH", "path", .kind = CLI_COLUMN_TEXT},
        {"HOLDER", "holder", .kind = CLI_COLUMN_TEXT},
        {"SESSION", "session", .kind = CLI_COLUMN_TEXT},
        {"LABEL", "label", .kind = CLI_COLUMN_TEXT},
        {"FENCE", "fence", .kind = CLI_COLUMN_NUMBER},
        {"UNTIL", "expires_at", .kind = CLI_COLUMN_TEXT},
    };

    (void)arg;
    return cli_remote_show(c, words->items[0], "/api/workspaces/", "/locks",
                           columns, ARRAY_SIZE(columns));
}

/* WS:PATH of a workspace, whole or not. */
static int place_of(struct cli *c, const char *word, struct cli_place *ret,
                    struct error *err)
{
    int r;

    if (!cli_place_is_address(word) && !ids_valid("file", word)) {
        (void)error_set(err, ERR_INVALID, "'%.200s' names no path", word);
        return error_hint(err, "A path is WORKSPACE:PATH.");
    }
    r = cli_place_find(c, word, NULL, ret, err);
    return r < 0 ? r : cli_place_to_workspace(c, ret, err);
}

static int take(struct cli *c, const struct cli_words *words, void *arg)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *body cleanup(json_unref) = NULL;
    json_t *lock cleanup(json_unref) = NULL;
    char *url cleanup(mem_free) = NULL;
    const struct locks *l = arg;
    char session[ID_MAX];
    struct error err;

    if (place_of(c, words->items[0], &place, &err) < 0 ||
        (l->session && cli_remote_find(c, l->session, session, &err) < 0))
        return cli_fail(c, &err);
    body = json_pack("{s:s, s:s*, s:s*}", "path", place.path, "session",
                     l->session ? session : NULL, "label", l->label);
    if (!body)
        return cli_usage_error(c, "the path or label is not valid UTF-8");
    if (l->ttl_s)
        (void)json_object_set_new(body, "ttl_s",
                                  json_integer((json_int_t)l->ttl_s));
    url = cli_place_url(&place, "locks");
    if (cli_http_json(c, "POST", url, body, &lock, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(lock);
        return CLI_EXIT_OK;
    }
    (void)printf("%s\n", cli_json_text(lock, "token", ""));
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "This is %s, fence %llu, until %s. Its token is shown this "
                  "once.\n",
                  cli_json_text(lock, "id", ""),
                  (unsigned long long)cli_json_number(lock, "fence"),
                  cli_json_text(lock, "expires_at", "?"));
    return CLI_EXIT_OK;
}

/* ---- one that is there -------------------------------------------------- */

/* The request path of the lock that a word means: WS:PATH, or WS:lock_…;
 * owned by caller. */
static int lock_url(struct cli *c, const char *word, char **ret,
                    struct error *err)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    json_t *answer cleanup(json_unref) = NULL;
    char *url cleanup(mem_free) = NULL;
    const json_t *all;
    int r = place_of(c, word, &place, err);

    if (r < 0)
        return r;
    url = cli_place_url(&place, "locks");
    if (ids_valid("lock", place.path)) {
        *ret = xasprintf("%s/%s", url, place.path);
        return 0;
    }
    r = cli_http_json(c, "GET", url, NULL, &answer, err);
    if (r < 0)
        return r;
    all = json_object_get(answer, "data");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);

        if (strcmp(cli_json_text(one, "path", ""), place.path) == 0) {
            *ret = xasprintf("%s/%s", url, cli_json_text(one, "id", ""));
            return 0;
        }
    }
    return error_set(err, ERR_NOT_FOUND, "nobody has locked %.200s",
                     place.path);
}

/* A request with the token in its header. suffix: "", "/renew" */
static int with_token(struct cli *c, const struct locks *l, const char *word,
                      const char *method, const char *suffix,
                      const json_t *body, json_t **ret, struct error *err)
{
    char *token cleanup(cli_secret_free) = NULL;
    char *line cleanup(cli_secret_free) = NULL;
    char *base cleanup(mem_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    int r = cli_secret_file(l->lock_file, "lock's token", &token, err);

    if (r == 0)
        r = lock_url(c, word, &base, err);
    if (r < 0)
        return r;
    url = xasprintf("%s%s", base, suffix);
    line = xasprintf("X-Glovebox-Lock: %s", token);
    return cli_http_ask(c, method, url, body,
                        (const char *const[]){line, NULL}, ret, err);
}

static int renew(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *body cleanup(json_unref) = json_object();
    json_t *lock cleanup(json_unref) = NULL;
    const struct locks *l = arg;
    struct error err;

    if (!l->lock_file)
        return cli_usage_error(c, "renew wants --lock-file, which holds the "
                                  "token");
    if (l->ttl_s)
        (void)json_object_set_new(body, "ttl_s",
                                  json_integer((json_int_t)l->ttl_s));
    if (with_token(c, l, words->items[0], "POST", "/renew", body, &lock,
                   &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, lock, "yours until %s",
                  cli_json_text(lock, "expires_at", "?"));
    return CLI_EXIT_OK;
}

static int release(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *out cleanup(json_unref) =
        json_pack("{s:s}", "released", words->items[0]);
    const struct locks *l = arg;
    struct error err;

    if (!l->lock_file)
        return cli_usage_error(c, "release wants --lock-file, which holds the "
                                  "token; an owner may `break` a lock");
    if (with_token(c, l, words->items[0], "DELETE", "", NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, out, "released");
    return CLI_EXIT_OK;
}

static int break_it(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *out cleanup(json_unref) =
        json_pack("{s:s}", "broken", words->items[0]);
    char *base cleanup(mem_free) = NULL;
    char *url cleanup(mem_free) = NULL;
    struct error err;

    (void)arg;
    if (lock_url(c, words->items[0], &base, &err) < 0)
        return cli_fail(c, &err);
    url = xasprintf("%s?force=true", base);
    if (cli_http_json(c, "DELETE", url, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, out, "broken; whoever held it can write no more with it");
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"ls", 1, 1, ls},           {"list", 1, 1, ls},
    {"take", 1, 1, take},       {"renew", 1, 1, renew},
    {"release", 1, 1, release}, {"break", 1, 1, break_it},
};

int cli_locks(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct locks l = {0};
    const struct cli_opt table[] = {
        {"ttl", 0, CLI_OPT_DURATION, &l.ttl_s, "TIME",
         "take, renew: how long, up to 24h; else 5m", "take renew"},
        {"session", 's', CLI_OPT_TEXT, &l.session, "S",
         "take: its runs may write, too", "take"},
        {"label", 0, CLI_OPT_TEXT, &l.label, "TEXT",
         "take: what for, for others to read", "take"},
        {"lock-file", 0, CLI_OPT_TEXT, &l.lock_file, "FILE",
         "renew, release: holds the token", "renew release"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "PLACE is WORKSPACE:PATH; the path need not exist yet. While a lock\n"
        "holds, only writes with its token go through: `locks take` prints it\n"
        "once, for example into a file that `files put --lock-file` reads.\n"
        "`break` is for owners and is noted in the audit trail.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "locks");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &l);
}
