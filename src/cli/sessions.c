/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox sessions: list, show, create, delete, reset, interrupt. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const char *const headings[] = {
        "ID", "NAME", "POOL", "RUNTIME", "STATE", "RUNS", "LAST USED"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf text cleanup(buf_done) = {0};
    json_t *all cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_remote_list(c, "/api/sessions", "id", &all, &err) < 0)
        return cli_fail(c, &err);
    if (c->json) {
        cli_print_json(all);
        return CLI_EXIT_OK;
    }
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        char *runs cleanup(mem_free) =
            xasprintf("%" JSON_INTEGER_FORMAT,
                      json_integer_value(json_object_get(one, "executions")));
        const char *cells[] = {
            cli_json_text(one, "id", ""),
            cli_json_text(one, "name", ""),
            cli_json_text(one, "pool", ""),
            cli_json_text(one, "runtime", ""),
            cli_json_text(one, "state", ""),
            runs,
            cli_json_text(one, "last_used_at", ""),
        };

        cli_table_row(table, cells);
    }
    cli_table_print(table, &text);
    (void)fputs(text.data, stdout);
    return CLI_EXIT_OK;
}

/* Every member on a line of its own, nested ones as JSON. */
static void print_object(const json_t *object)
{
    static const char *const headings[] = {"", ""};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, 2);
    struct buf text cleanup(buf_done) = {0};
    void *at = json_object_iter((json_t *)object);

    for (; at; at = json_object_iter_next((json_t *)object, at)) {
        const json_t *value = json_object_iter_value(at);
        char *dumped cleanup(mem_free) = NULL;
        const char *cells[2] = {json_object_iter_key(at),
                                json_string_value(value)};

        if (!cells[1])
            cells[1] = dumped =
                json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (!json_is_null(value))
            cli_table_row(table, cells);
    }
    cli_table_print(table, &text);
    (void)fputs(text.data + 1, stdout); /* past the empty headings */
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
    if (c->json)
        cli_print_json(session);
    else
        print_object(session);
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
    if (c->json)
        cli_print_json(session);
    else if (c->tty_out)
        (void)puts("a fresh interpreter; files are in place");
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

static const struct cli_verb verbs[] = {
    {"list", 0, 0, list},     {"show", 1, 1, show},
    {"create", 0, 0, create}, {"delete", 1, CLI_WORDS_MAX, delete},
    {"reset", 1, 1, reset},   {"interrupt", 1, 1, interrupt},
};

int cli_sessions(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct cli_session_spec spec = {0};
    const struct cli_opt table[] = {
        {"name", 'n', CLI_OPT_TEXT, &spec.name, "N", "name of a new session"},
        {"pool", 0, CLI_OPT_TEXT, &spec.pool, "P", "pool of a new session"},
        {"runtime", 0, CLI_OPT_TEXT, &spec.runtime, "R",
         "runtime image of a new session"},
        {"memory", 'm', CLI_OPT_SIZE, &spec.memory_bytes, "M",
         "memory of a new session, such as 512m"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "SESSION is an id or, if only one has it, a name. `reset` gives the\n"
        "session a fresh interpreter and keeps its files; `interrupt` stops\n"
        "what runs and keeps its variables.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "sessions");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run_online(&c, verbs, ARRAY_SIZE(verbs), &words, &spec);
}
