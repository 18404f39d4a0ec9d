/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox sessions: list, show, create, delete, reset, interrupt. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"ID", "id", .kind = CLI_COLUMN_TEXT},
        {"NAME", "name", .kind = CLI_COLUMN_TEXT},
        {"POOL", "pool", .kind = CLI_COLUMN_TEXT},
        {"RUNTIME", "runtime", .kind = CLI_COLUMN_TEXT},
        {"STATE", "state", .kind = CLI_COLUMN_TEXT},
        {"RUNS", "executions", .kind = CLI_COLUMN_NUMBER},
        {"WORKSPACE", "workspace", .kind = CLI_COLUMN_TEXT},
        {"LAST USED", "last_used_at", .kind = CLI_COLUMN_TEXT},
    };
    json_t *all cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_remote_list(c, "/api/sessions", "id", 0, &all, &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, all, columns, ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

/* A request on one session; suffix: "", "/reset", ... */
static int on_session(struct cli *c, const char *name, const char *method,
                      const char *suffix, json_t **ret, struct error *err)
{
    char *path cleanup(mem_free) = NULL;
    char id[ID_MAX];
    int r = cli_remote_find(c, name, id, err);

    if (r < 0)
        return r;
    path = xasprintf("/api/sessions/%s%s", id, suffix);
    return cli_http_json(c, method, path, NULL, ret, err);
}

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *session cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (on_session(c, words->items[0], "GET", "", &session, &err) < 0)
        return cli_fail(c, &err);
    cli_show_object(c, session);
    return CLI_EXIT_OK;
}

static int create(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *session cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    if (cli_remote_create(c, arg, &session, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(session);
    else
        (void)printf("%s\n", cli_json_text(session, "id", ""));
    return CLI_EXIT_OK;
}

static int delete (struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *deleted cleanup(json_unref) = json_array();
    struct error err;

    (void)arg;
    for (size_t i = 0; i < words->count; i++) {
        if (on_session(c, words->items[i], "DELETE", "", NULL, &err) < 0)
            return cli_fail(c, &err);
        (void)json_array_append_new(deleted, json_string(words->items[i]));
        if (!c->json && c->tty_out)
            (void)printf("deleted %s\n", words->items[i]);
    }
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:O}", "deleted", deleted);

        cli_print_json(out);
    }
    return CLI_EXIT_OK;
}

static int reset(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *session cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (on_session(c, words->items[0], "POST", "/reset", &session, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, session, "a fresh interpreter; files are in place");
    return CLI_EXIT_OK;
}

/* What others have committed to its workspace since. */
static int refresh(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *answer cleanup(json_unref) = NULL;
    uint64_t changed;
    struct error err;

    (void)arg;
    if (on_session(c, words->items[0], "POST", "/refresh", &answer, &err) < 0)
        return cli_fail(c, &err);
    changed = cli_json_number(answer, "changed");
    cli_show_done(c, answer, "%llu file%s changed",
                  (unsigned long long)changed, changed == 1 ? "" : "s");
    return CLI_EXIT_OK;
}

static int interrupt(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (on_session(c, words->items[0], "POST", "/interrupt", &answer, &err) <
        0)
        return cli_fail(c, &err);
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:s}", "interrupted", words->items[0]);

        cli_print_json(out);
    }
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"list", 0, 0, list},
    {"ls", 0, 0, list},
    {"show", 1, 1, show},
    {"create", 0, 0, create},
    {"delete", 1, CLI_WORDS_MAX, delete},
    {"reset", 1, 1, reset},
    {"refresh", 1, 1, refresh},
    {"interrupt", 1, 1, interrupt},
};

int cli_sessions(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct cli_session_spec spec = {0};
    const struct cli_opt table[] = {
        {"name", 'n', CLI_OPT_TEXT, &spec.name, "N", "name of a new session",
         "create"},
        {"workspace", 'w', CLI_OPT_TEXT, &spec.workspace, "WS",
         "create: on this workspace (id or name), not its own", "create"},
        {"ephemeral", 0, CLI_OPT_FLAG, &spec.ephemeral, NULL,
         "create: nothing is kept after its end", "create"},
        {"pool", 0, CLI_OPT_TEXT, &spec.pool, "P", "pool of a new session",
         "create"},
        {"runtime", 0, CLI_OPT_TEXT, &spec.runtime, "R",
         "runtime image of a new session", "create"},
        {"memory", 'm', CLI_OPT_SIZE, &spec.memory_bytes, "M",
         "memory of a new session, such as 512m", "create"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "SESSION is an id or, if only one has it, a name. `delete` keeps the\n"
        "session's workspace, unless it is ephemeral. `reset` gives the\n"
        "session a fresh interpreter and keeps its files; `refresh` brings in\n"
        "what others committed to its workspace; `interrupt` stops what runs\n"
        "and keeps its variables.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "sessions");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (spec.workspace && spec.ephemeral)
        return cli_usage_error(&c, "--workspace keeps what --ephemeral would "
                                   "not: one of them");
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &spec);
}
