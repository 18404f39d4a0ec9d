/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox ask: a question about files, answered by a model from their text,
 * with the passages it cites below the answer.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

struct ask_flags {
    const char *workspace, *prefix, *model;
    uint64_t limit;
};

/* All words are one question. */
static int add_question(struct cli_call *call, struct error *err)
{
    struct buf question cleanup(buf_done) = {0};

    for (size_t i = 0; i < call->words->count; i++)
        buf_addf(&question, "%s%s", i ? " " : "", call->words->items[i]);
    call->body = json_pack("{s:s}", "question", question.data);
    return call->body ? 0
                      : error_set(err, ERR_INVALID,
                                  "the question is not valid UTF-8");
}

/* "[1] WORKSPACE:PATH:12-30", or ":page 3". */
static void add_citation(struct buf *out, const json_t *citation)
{
    uint64_t page = cli_json_number(citation, "page");
    uint64_t line = cli_json_number(citation, "line");
    uint64_t end = cli_json_number(citation, "line_end");

    buf_addf(out, "[%llu] %s:%s",
             (unsigned long long)cli_json_number(citation, "number"),
             cli_json_text(citation, "workspace", ""),
             cli_json_text(citation, "path", ""));
    if (page)
        buf_addf(out, ":page %llu", (unsigned long long)page);
    else if (line)
        buf_addf(out, ":%llu", (unsigned long long)line);
    if (!page && end > line)
        buf_addf(out, "-%llu", (unsigned long long)end);
    buf_addf(out, "  (%s)\n", cli_json_text(citation, "version", ""));
}

static int print_answer(struct cli_call *call)
{
    struct buf text cleanup(buf_done) = {0};
    const json_t *citations = json_object_get(call->answer, "citations");
    const char *reason = cli_json_text(call->answer, "reason", NULL);
    const json_t *one;
    size_t i;

    buf_addf(&text, "%s\n", cli_json_text(call->answer, "answer", ""));
    if (json_array_size(citations))
        buf_adds(&text, "\n");
    json_array_foreach (citations, i, one)
        add_citation(&text, one);
    if (json_is_string(json_object_get(call->answer, "answer")))
        cli_show_text(call->c, text.data, text.len);
    if (reason)
        (void)fprintf(stderr, "%s\n", reason);
    return CLI_EXIT_OK;
}

static const struct cli_verb verbs[] = {
    {"", NULL, "QUESTION...", NULL, "POST", "/api/ask",
     .body = "workspace={--workspace} prefix={--prefix} model={--model} "
             "limit={--limit}",
     .prepare = add_question, .print = print_answer},
    {0},
};

#define AT(member) offsetof(struct ask_flags, member)

static const struct cli_option options[] = {
    {"workspace", 'w', CLI_OPT_TEXT, AT(workspace), "WS",
     "only from this workspace (id or name)", NULL},
    {"prefix", 0, CLI_OPT_TEXT, AT(prefix), "PATH",
     "only from paths that begin with this", NULL},
    {"model", 'm', CLI_OPT_TEXT, AT(model), "MODEL",
     "ask this model, not the default one", NULL},
    {"limit", 'n', CLI_OPT_COUNT, AT(limit), "N",
     "show the model at most N passages; else 8", NULL},
    {0},
};

const struct cli_command cli_ask = {
    .name = "ask",
    .summary = "Ask a question about your files",
    .notes =
        "A model answers from the passages that fit the question best, in\n"
        "workspaces with intelligence (`glovebox workspaces set WS\n"
        "--intelligence on`). Below the answer are the passages it cites:\n"
        "workspace, path, lines or page, and the version. `glovebox model`\n"
        "adds a model.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct ask_flags),
    .verbs = verbs,
};
