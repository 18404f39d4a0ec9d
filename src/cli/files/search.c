/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox search: words in names and in files, one hit a line as grep prints
 * it, so that editors can follow: WORKSPACE:PATH:LINE: snippet.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

/* In a snippet these two enclose each match. */
static const char begin_mark[] = "\xe2\x81\xa8"; /* U+2068 */
static const char end_mark[] = "\xe2\x81\xa9";   /* U+2069 */

struct search_flags {
    const char *workspace, *prefix, *type, *author, *conversation, *mode;
    int64_t after_ms, before_ms;
    uint64_t limit;
};

/* The snippet on one line; its marks become colour or nothing. */
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

/* All words are one query. */
static int join_words(struct cli_call *call, struct error *err)
{
    struct buf path cleanup(buf_done) = {0};
    struct buf query cleanup(buf_done) = {0};

    (void)err;
    for (size_t i = 0; i < call->words->count; i++)
        buf_addf(&query, "%s%s", i ? " " : "", call->words->items[i]);
    buf_adds(&path, "/api/search");
    cli_http_query(&path, "q", query.data);
    call->path = buf_take(&path, NULL);
    return 0;
}

/* The workspace as the user named it, or its id. */
static int print_hits(struct cli_call *call)
{
    const struct search_flags *flags = call->flags;
    const json_t *hit;
    size_t i;

    json_array_foreach (call->answer, i, hit) {
        struct buf line cleanup(buf_done) = {0};

        cli_search_line(hit,
                        flags->workspace ? flags->workspace
                                         : cli_json_text(hit, "workspace", ""),
                        call->c->color_out, &line);
        cli_show_text(call->c, line.data, line.len);
    }
    if (json_array_size(call->answer) == 0 && call->c->tty_err)
        (void)fputs("nothing was found\n", stderr);
    return CLI_EXIT_OK;
}

static const struct cli_verb search_verbs[] = {
    {"", NULL, "WORDS...", NULL, "GET", "/api/search",
     .query = "workspace={--workspace} prefix={--prefix} type={--type} "
              "author={--author} conversation={--conversation} mode={--mode} "
              "from={--after} to={--before}",
     .cursor = "cursor", .limit = 50, .prepare = join_words,
     .print = print_hits},
    {0},
};

#define AT(member) offsetof(struct search_flags, member)

static const struct cli_option search_options[] = {
    {"workspace", 'w', CLI_OPT_TEXT, AT(workspace), "WS",
     "only in this workspace (id or name)", NULL},
    {"prefix", 0, CLI_OPT_TEXT, AT(prefix), "PATH",
     "only paths that begin with this", NULL},
    {"type", 't', CLI_OPT_TEXT, AT(type), "T", "csv, pdf, image/png, ...",
     NULL},
    {"after", 0, CLI_OPT_TIME, AT(after_ms), "TIME",
     "changed since then: 2026-01-31, or 7d", NULL},
    {"before", 0, CLI_OPT_TIME, AT(before_ms), "TIME", "changed before then",
     NULL},
    {"author", 0, CLI_OPT_TEXT, AT(author), "KEY-ID",
     "last changed by this key", NULL},
    {"conversation", 0, CLI_OPT_TEXT, AT(conversation), "ID",
     "last changed in this conversation", NULL},
    {"mode", 'm', CLI_OPT_TEXT, AT(mode), "MODE",
     "lexical, semantic or hybrid; else lexical", NULL},
    {"limit", 'n', CLI_OPT_COUNT, AT(limit), "N",
     "print at most N hits; else 50", NULL},
    {0},
};

const struct cli_command cli_search = {
    .name = "search",
    .summary = "Find files by name and by content",
    .notes =
        "A file must have all the words; \"several words\" in double quotes\n"
        "are a phrase, and a word that ends with a star matches every word\n"
        "that begins so. Files are found by name and by the text in them,\n"
        "seconds after they were stored. Prints WORKSPACE:PATH:LINE: and the\n"
        "text there. --mode hybrid ranks passages by words and meaning instead,\n"
        "in workspaces with intelligence (`glovebox workspaces set`).\n",
    .online = true,
    .options = search_options,
    .flags_size = sizeof(struct search_flags),
    .verbs = search_verbs,
};
