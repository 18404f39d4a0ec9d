/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox model: the language models of the service; adding, trying and
 * removing those of a tenant.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

struct model_flags {
    const char *kind, *url, *model, *key;
    const char *price_input, *price_output, *price_cached;
    bool standard, images, no_tools, embeddings;
    uint64_t context, output, concurrent, timeout, idle;
};

static const struct cli_column columns[] = {
    {"NAME", .member = "name"},
    {"KIND", .member = "kind"},
    {"MODEL", .member = "model"},
    {"DEFAULT", "default", .kind = CLI_COLUMN_BOOL},
    {"STATE", .member = "state"},
    {"SOURCE", .member = "source"},
    {"FAILURE", .member = "failure", .wide = true},
    {"URL", .member = "url", .wide = true},
    {0},
};

static void add_number(json_t *body, const char *name, uint64_t value)
{
    if (value)
        (void)json_object_set_new(body, name, json_integer((json_int_t)value));
}

static int add_settings(struct cli_call *call, struct error *err)
{
    const struct model_flags *f = call->flags;
    json_t *body = json_pack("{s:b, s:b, s:b, s:b}", "default", f->standard,
                             "images", f->images, "tools", !f->no_tools,
                             "embeddings", f->embeddings);

    (void)err;
    add_number(body, "context_tokens", f->context);
    add_number(body, "max_output_tokens", f->output);
    add_number(body, "concurrent", f->concurrent);
    add_number(body, "timeout_s", f->timeout);
    add_number(body, "idle_s", f->idle);
    call->body = body;
    return 0;
}

/* One line for each of what was tried; the exit status is that of the answer.
 */
static int print_test(struct cli_call *call)
{
    static const char *const tried[] = {"answer", "streaming", "tools",
                                        "images", "embeddings"};
    bool works = false;

    for (size_t i = 0; i < ARRAY_SIZE(tried); i++) {
        const json_t *t = json_object_get(call->answer, tried[i]);
        bool ok = json_is_true(json_object_get(t, "ok"));
        const char *why = json_string_value(json_object_get(t, "why"));

        (void)printf("%-10s  %-3s  %s\n", tried[i], ok ? "yes" : "no",
                     why ? why : "");
        works |= i == 0 && ok;
    }
    return works ? 0 : 1;
}

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List the models you may use", "GET", "/api/models",
     .columns = columns},
    {"show", NULL, "NAME", "Show a model and its limits", "GET",
     .path = "/api/models/{NAME}"},
    {"add", "put create", "NAME", "Add a model, or replace it", "POST",
     "/api/models", .needs = "kind url",
     .body = "name={NAME} kind={--kind} url={--url} model={--model} "
             "key={--key} price_input={--price-input} "
             "price_output={--price-output} price_cached={--price-cached}",
     .prepare = add_settings,
     .sentence = "Added the model {NAME}. Try it: glovebox model test {NAME}"},
    {"test", NULL, "NAME",
     "Try what works: answers, streaming, functions, images", "POST",
     "/api/models/{NAME}/test", .print = print_test},
    {"remove", "delete rm", "NAME", "Remove a model that was added", "DELETE",
     "/api/models/{NAME}", .json = "removed={NAME}",
     .sentence = "Removed the model {NAME}."},
    {0},
};

#define AT(member) offsetof(struct model_flags, member)

static const struct cli_option options[] = {
    {"kind", 0, CLI_OPT_TEXT, AT(kind), "KIND",
     "openai-chat, openai-responses or anthropic", "add"},
    {"url", 0, CLI_OPT_TEXT, AT(url), "URL",
     "base URL of the server, as http://127.0.0.1:8080/v1", "add"},
    {"model", 0, CLI_OPT_TEXT, AT(model), "ID",
     "what the server calls the model; else NAME", "add"},
    {"key", 0, CLI_OPT_TEXT, AT(key), "SECRET",
     "name of the secret that holds its key", "add"},
    {"default", 0, CLI_OPT_FLAG, AT(standard), NULL,
     "serves requests that name no model", "add"},
    {"images", 0, CLI_OPT_FLAG, AT(images), NULL, "the model takes images",
     "add"},
    {"no-tools", 0, CLI_OPT_FLAG, AT(no_tools), NULL,
     "the model calls no functions", "add"},
    {"embeddings", 0, CLI_OPT_FLAG, AT(embeddings), NULL,
     "the model makes embeddings", "add"},
    {"context-tokens", 0, CLI_OPT_COUNT, AT(context), "N",
     "size of its context", "add"},
    {"max-output-tokens", 0, CLI_OPT_COUNT, AT(output), "N",
     "most tokens of an answer", "add"},
    {"concurrent", 0, CLI_OPT_COUNT, AT(concurrent), "N",
     "calls at once; else 16", "add"},
    {"timeout", 0, CLI_OPT_DURATION, AT(timeout), "TIME",
     "of a call; else 10m", "add"},
    {"idle", 0, CLI_OPT_DURATION, AT(idle), "TIME",
     "without a byte from the server; else 2m", "add"},
    {"price-input", 0, CLI_OPT_TEXT, AT(price_input), "PRICE",
     "of a million tokens of the prompt, as 2.50", "add"},
    {"price-output", 0, CLI_OPT_TEXT, AT(price_output), "PRICE",
     "of a million tokens of the answer", "add"},
    {"price-cached", 0, CLI_OPT_TEXT, AT(price_cached), "PRICE",
     "of a million cached tokens of the prompt", "add"},
    {0},
};

const struct cli_command cli_model = {
    .name = "model",
    .summary = "Language models that answer questions",
    .notes =
        "Adding, trying and removing need a key of scope policy:admin. A key\n"
        "of the model's server is a secret of the vault that is bound to the\n"
        "server's host: glovebox secret put NAME --to HOST. The model echo is\n"
        "built in, for trials. See docs/MODELS.md.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct model_flags),
    .verbs = verbs,
};
