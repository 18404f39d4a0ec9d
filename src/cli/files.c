/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox files: list, get, put and rm of a session's files. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static void print_list(const json_t *all)
{
    static const char *const headings[] = {"PATH", "SIZE", "MODIFIED"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf text cleanup(buf_done) = {0};

    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        char size[16];
        const char *cells[] = {
            cli_json_text(one, "path", ""),
            cli_format_size(
                (uint64_t)json_integer_value(json_object_get(one, "size")),
                size),
            cli_json_text(one, "modified_at", ""),
        };

        cli_table_row(table, cells);
    }
    cli_table_print(table, &text);
    (void)fputs(text.data, stdout);
}

int cli_files_list(struct cli *c, const char *session, struct error *err)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/files", session);
    json_t *all cleanup(json_unref) = NULL;
    int r = cli_remote_list(c, path, "path", &all, err);

    if (r < 0)
        return r;
    if (c->json)
        cli_print_json(all);
    else
        print_list(all);
    return 0;
}

static int list(struct cli *c, const struct cli_words *words, void *arg)
{
    struct error *err = arg;
    char id[ID_MAX];

    if (cli_remote_find(c, words->items[0], id, err) < 0 ||
        cli_files_list(c, id, err) < 0)
        return cli_fail(c, err);
    return CLI_EXIT_OK;
}

static int get(struct cli *c, const struct cli_words *words, void *arg)
{
    const char *to = words->count > 2 ? words->items[2] : NULL;
    char *saved cleanup(mem_free) = NULL;
    struct error *err = arg;
    char id[ID_MAX];

    if (c->json && to && strcmp(to, "-") == 0)
        return cli_usage_error(c, "--json and the file both want standard "
                                  "output");
    if (cli_remote_find(c, words->items[0], id, err) < 0 ||
        cli_remote_get(c, id, words->items[1], to, &saved, err) < 0)
        return cli_fail(c, err);
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:s, s:s}", "path", words->items[1], "saved", saved);

        cli_print_json(out);
    } else if (saved && c->tty_out) {
        (void)printf("saved %s\n", saved);
    }
    return CLI_EXIT_OK;
}

static int put(struct cli *c, const struct cli_words *words, void *arg)
{
    const char *to = words->count > 2 ? words->items[2] : NULL;
    json_t *file cleanup(json_unref) = NULL;
    struct error *err = arg;
    char id[ID_MAX], size[16];

    if (cli_remote_find(c, words->items[0], id, err) < 0 ||
        cli_remote_put(c, id, words->items[1], to, &file, err) < 0)
        return cli_fail(c, err);
    if (c->json)
        cli_print_json(file);
    else if (c->tty_out)
        (void)printf("stored /mnt/data/%s, %s\n",
                     cli_json_text(file, "path", ""),
                     cli_format_size((uint64_t)json_integer_value(
                                         json_object_get(file, "size")),
                                     size));
    return CLI_EXIT_OK;
}

static int rm(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *removed cleanup(json_unref) = json_array();
    struct error *err = arg;
    char id[ID_MAX];

    if (cli_remote_find(c, words->items[0], id, err) < 0)
        return cli_fail(c, err);
    for (size_t i = 1; i < words->count; i++) {
        char *path cleanup(mem_free) =
            cli_remote_file_path(id, words->items[i]);

        if (cli_http_json(c, "DELETE", path, NULL, NULL, err) < 0)
            return cli_fail(c, err);
        (void)json_array_append_new(removed, json_string(words->items[i]));
    }
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:O}", "removed", removed);

        cli_print_json(out);
    }
    return CLI_EXIT_OK;
}

static const struct cli_verb verbs[] = {
    {"list", 1, 1, list},
    {"get", 2, 3, get},
    {"put", 2, 3, put},
    {"rm", 2, CLI_WORDS_MAX, rm},
};

int cli_files(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    const struct cli_opts opts = {
        .notes = "PATH is below /mnt/data, which may be spelled out. A "
                 "download appears\nwhole or not at all; `-` writes it to "
                 "standard output.\n"};
    struct cli_words words;
    struct error err;
    int status;

    cli_init(&c, "files");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run_online(&c, verbs, ARRAY_SIZE(verbs), &words, &err);
}
