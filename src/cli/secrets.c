/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox secret: keep, list and remove secrets that the proxy adds to
 * sessions' traffic. A value comes from a file, from standard input or from
 * the terminal, never from the command line, and is never shown again.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define VALUE_MAX 8192u

struct secret_flags {
    struct cli_words to;
    const char *header, *prefix, *value_file;
};

static int read_file(const char *file, char **ret, struct error *err)
{
    size_t len = 0;
    int r = fd_read_file(AT_FDCWD, file, VALUE_MAX + 2, ret, &len);

    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read a value from %s",
                           file);
    (*ret)[strcspn(*ret, "\r\n")] = '\0'; /* the line's end is not of it */
    return 0;
}

static int read_input(char **ret, struct error *err)
{
    char *text = xcalloc(1, VALUE_MAX + 3);
    ssize_t n = fd_read_all(STDIN_FILENO, text, VALUE_MAX + 2);

    if (n < 0) {
        free(text);
        return error_errno(err, ERR_INVALID, (int)-n,
                           "cannot read a value from standard input");
    }
    text[strcspn(text, "\r\n")] = '\0';
    *ret = text;
    return 0;
}

static int read_value(struct cli *c, const struct secret_flags *flags,
                      char **ret, struct error *err)
{
    if (flags->value_file && strcmp(flags->value_file, "-") != 0)
        return read_file(flags->value_file, ret, err);
    if (!flags->value_file && isatty(STDIN_FILENO) == 1)
        return cli_secret_ask(c, "value", true, ret, err);
    return read_input(ret, err);
}

static void path_of(struct buf *path, const char *name)
{
    buf_adds(path, "/api/secrets/");
    cli_http_escape(path, name, false);
}

static json_t *make_body(const struct secret_flags *flags, const char *value)
{
    json_t *to = json_array();

    for (size_t i = 0; i < flags->to.count; i++)
        (void)json_array_append_new(to, json_string(flags->to.items[i]));
    return json_pack("{s:s, s:o, s:s*, s:s*}", "value", value, "destinations",
                     to, "header", flags->header, "prefix", flags->prefix);
}

static int put(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct secret_flags *flags = arg;
    char *value cleanup(cli_secret_free) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    json_t *secret cleanup(json_unref) = NULL;
    struct buf path cleanup(buf_done) = {0};
    struct error err;

    if (!flags->to.count)
        return cli_usage_error(c, "put wants --to HOST: where it may go");
    if (read_value(c, flags, &value, &err) < 0)
        return cli_fail(c, &err);
    body = make_body(flags, value);
    if (!body)
        return cli_usage_error(c, "what is given is not valid UTF-8");
    path_of(&path, words->items[0]);
    if (cli_http_json(c, "PUT", path.data, body, &secret, &err) < 0)
        return cli_fail(c, &err);
    cli_show_done(c, secret, "kept %s; no session can read it",
                  words->items[0]);
    return CLI_EXIT_OK;
}

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    static const struct cli_column columns[] = {
        {"NAME", "name", .kind = CLI_COLUMN_TEXT},
        {"HEADER", "header", .kind = CLI_COLUMN_TEXT},
        {"UPDATED", "updated_at", .kind = CLI_COLUMN_TEXT},
        {"USED", "used_at", .kind = CLI_COLUMN_TEXT},
    };
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    (void)arg;
    if (cli_http_json(c, "GET", "/api/secrets", NULL, &answer, &err) < 0)
        return cli_fail(c, &err);
    cli_show_list(c, json_object_get(answer, "data"), columns,
                  ARRAY_SIZE(columns));
    return CLI_EXIT_OK;
}

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *secret cleanup(json_unref) = NULL;
    struct buf path cleanup(buf_done) = {0};
    struct error err;

    (void)arg;
    path_of(&path, words->items[0]);
    if (cli_http_json(c, "GET", path.data, NULL, &secret, &err) < 0)
        return cli_fail(c, &err);
    cli_show_object(c, secret);
    return CLI_EXIT_OK;
}

static int drop(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *out cleanup(json_unref) = NULL;
    struct buf path cleanup(buf_done) = {0};
    struct error err;

    (void)arg;
    path_of(&path, words->items[0]);
    if (cli_http_json(c, "DELETE", path.data, NULL, NULL, &err) < 0)
        return cli_fail(c, &err);
    out = json_pack("{s:s}", "removed", words->items[0]);
    cli_show_done(c, out, "removed %s", words->items[0]);
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"list", 0, 0, list}, {"ls", 0, 0, list},     {"show", 1, 1, show},
    {"put", 1, 1, put},   {"remove", 1, 1, drop}, {"rm", 1, 1, drop},
};

int cli_secrets(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct secret_flags flags = {0};
    const struct cli_opt table[] = {
        {"to", 0, CLI_OPT_LIST, &flags.to, "HOST",
         "a destination it may go to; may be repeated", "put"},
        {"header", 0, CLI_OPT_TEXT, &flags.header, "NAME",
         "how it travels; else Authorization", "put"},
        {"prefix", 0, CLI_OPT_TEXT, &flags.prefix, "TEXT",
         "before the value; else 'Bearer ' with Authorization", "put"},
        {"value-file", 0, CLI_OPT_TEXT, &flags.value_file, "FILE",
         "holds the value; else standard input, or the terminal", "put"},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "These need a key of scope policy:admin. A value is kept encrypted,\n"
        "is added by the proxy to what sessions send to its destinations,\n"
        "and is never shown again, to people or to sessions.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "secret");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, &flags);
}
