/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox search: words in names and in files, one hit a line as grep would
 * print it, so that editors can follow: WORKSPACE:PATH:LINE: snippet.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define LIMIT 50u

/* In a snippet, what was found stands between these two. */
static const char begin_mark[] = "\xe2\x81\xa8"; /* U+2068 */
static const char end_mark[] = "\xe2\x81\xa9";   /* U+2069 */

struct search {
    const char *workspace, *prefix, *type, *author, *conversation;
    int64_t after_ms, before_ms;
    uint64_t limit;
};

/* On one line, its marks as colour or gone. */
static void add_snippet(struct buf *out, const char *text, bool color)
{
    bool blank = true; /* white space at the start goes */

    while (*text) {
        if (strncmp(text, begin_mark, 3) == 0) {
            buf_adds(out, color ? "\033[1;31m" : "");
            text += 3;
        } else if (strncmp(text, end_mark, 3) == 0) {
            buf_adds(out, color ? "\033[0m" : "");
            text += 3;
        } else {
            /* Control characters too: the line is ours. */
            bool space = (unsigned char)*text <= ' ' || *text == 0x7f;

            if (!space || !blank)
                buf_add(out, space ? " " : text, 1);
            blank = space;
            text++;
        }
    }
}

void cli_search_line(const json_t *hit, const char *workspace, bool color,
                     struct buf *out)
{
    uint64_t line = cli_json_number(hit, "line");
    uint64_t page = cli_json_number(hit, "page");

    buf_addf(out, "%s%s:%s%s", color ? "\033[35m" : "", workspace,
             cli_json_text(hit, "path", ""), color ? "\033[0m" : "");
    if (line)
        buf_addf(out, ":%llu", (unsigned long long)line);
    else if (page)
        buf_addf(out, ":page %llu", (unsigned long long)page);
    buf_adds(out, ": ");
    add_snippet(out, cli_json_text(hit, "snippet", ""), color);
    while (out->len && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    buf_adds(out, "\n");
}

/* As the user named it, or its id. */
static void show(const struct cli *c, const struct search *s,
                 const json_t *hits)
{
    for (size_t i = 0; i < json_array_size(hits); i++) {
        const json_t *hit = json_array_get(hits, i);
        struct buf line cleanup(buf_done) = {0};

        cli_search_line(hit,
                        s->workspace ? s->workspace
                                     : cli_json_text(hit, "workspace", ""),
                        c->color_out, &line);
        cli_show_text(c, line.data, line.len);
    }
}

static int build_url(struct cli *c, const struct search *s, const char *words,
                     struct buf *url, struct error *err)
{
    char id[ID_MAX] = "";
    int r = s->workspace ? cli_remote_workspace(c, s->workspace, id, err) : 0;

    if (r < 0)
        return r;
    buf_adds(url, "/api/search");
    cli_http_query(url, "q", words);
    cli_http_query(url, "workspace", id);
    cli_http_query(url, "prefix", s->prefix);
    cli_http_query(url, "type", s->type);
    cli_http_query(url, "author", s->author);
    cli_http_query(url, "conversation", s->conversation);
    cli_http_query_time(url, "from", s->after_ms);
    cli_http_query_time(url, "to", s->before_ms);
    return 0;
}

static int find(struct cli *c, const struct search *s, const char *words)
{
    json_t *hits cleanup(json_unref) = NULL;
    struct buf url cleanup(buf_done) = {0};
    struct error err;

    if (build_url(c, s, words, &url, &err) < 0 ||
        cli_remote_list(c, url.data, "cursor", s->limit ? s->limit : LIMIT,
                        &hits, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(hits);
    else
        show(c, s, hits);
    if (json_array_size(hits) == 0 && c->tty_err && !c->json)
        (void)fputs("nothing was found\n", stderr);
    return CLI_EXIT_OK;
}

int cli_search(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    struct search s = {0};
    struct buf query cleanup(buf_done) = {0};
    const struct cli_opt table[] = {
        {"workspace", 'w', CLI_OPT_TEXT, &s.workspace, "WS",
         "only in this one (id or name)", NULL},
        {"prefix", 0, CLI_OPT_TEXT, &s.prefix, "PATH",
         "only paths that begin so", NULL},
        {"type", 't', CLI_OPT_TEXT, &s.type, "T", "csv, pdf, image/png, ...",
         NULL},
        {"after", 0, CLI_OPT_TIME, &s.after_ms, "TIME",
         "changed since then: 2026-01-31, or 7d", NULL},
        {"before", 0, CLI_OPT_TIME, &s.before_ms, "TIME",
         "changed before then", NULL},
        {"author", 0, CLI_OPT_TEXT, &s.author, "KEY-ID",
         "last changed by this key", NULL},
        {"conversation", 0, CLI_OPT_TEXT, &s.conversation, "ID",
         "last changed in this conversation", NULL},
        {"limit", 'n', CLI_OPT_COUNT, &s.limit, "N",
         "at most so many hits; else 50", NULL},
    };
    const struct cli_opts opts = {
        table, ARRAY_SIZE(table),
        "Every word must be there; \"several words\" in double quotes are a\n"
        "phrase, and a star at a word's end stands for any rest. Files are\n"
        "found by their names and by the text in them, seconds after they\n"
        "were stored. Prints WORKSPACE:PATH:LINE: and what is there.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "search");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    if (!words.count)
        return cli_usage_error(&c, "say what to look for");
    for (size_t i = 0; i < words.count; i++)
        buf_addf(&query, "%s%s", i ? " " : "", words.items[i]);
    return find(&c, &s, query.data);
}
