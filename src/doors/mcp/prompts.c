/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompts/list and prompts/get: common jobs, written for a model that has the
 * tools of this server. Also completion/complete: paths and ids by prefix, for
 * the arguments of prompts and of the resource template; at most 100 values,
 * all visible to the caller. Runs on a worker of the daemon.
 */
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"
#include "workspace/workspace.h"

#define ARGUMENT_MAX 4000u
#define TTL_MS ((int64_t)3600 * 1000)

/* ---- the texts ---------------------------------------------------------- */

static const char *const report_styles[] = {"summary", "detailed", "slides",
                                            NULL};

static const char *prompt_argument(const json_t *args, const char *name,
                                   const char *fallback)
{
    const char *text = json_string_value(json_object_get(args, name));

    return text && text[0] ? text : fallback;
}

static int analyse_csv(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)err;
    mcp_answer_textf(
        ret,
        "Analyse the data file %s in /mnt/data.\n\n"
        "Question: %s\n\n"
        "Work in one session, in small steps, with execute_python:\n"
        "1. Load it with pandas. Look at the shape, the column types, missing "
        "values and a few rows before you conclude anything; try another "
        "separator or encoding if the columns look wrong.\n"
        "2. Say in one or two sentences what one row stands for.\n"
        "3. Answer the question with numbers you computed. Check totals and "
        "outliers; say what you left out and why.\n"
        "4. Draw at most three charts that carry the answer. Title each with "
        "its finding, label the axes with units, and save them in /mnt/data.\n"
        "5. Finish with the answer in plain words, the evidence in a small "
        "table, what remains uncertain, and links to the files you made.",
        prompt_argument(args, "path", "(which one?)"),
        prompt_argument(args, "question",
                        "What are the most important things in this data?"));
    return 0;
}

static int make_report(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)err;
    mcp_answer_textf(
        ret,
        "Write a report as a PDF about: %s\n\n"
        "Sources: %s\nStyle: %s\n\n"
        "1. Use list_files and read_file to see what is there; compute what "
        "you state with execute_python. Do not invent figures.\n"
        "2. Make the charts and tables it needs as files in /mnt/data.\n"
        "3. Write it in Markdown: a summary a busy reader can stop after, "
        "then findings with their evidence, then method and limits. Embed "
        "charts as images and data as tables by their paths.\n"
        "4. Call generate_pdf_report with a title, and with a table of "
        "contents if it has more than four pages.\n"
        "5. Look at the preview it returns. If text is cut, a table runs over "
        "the edge or a chart cannot be read, fix it and make it again.\n"
        "6. Answer with the link to the PDF and its three main points.",
        prompt_argument(args, "topic", "(what about?)"),
        prompt_argument(args, "sources", "the files in /mnt/data"),
        prompt_argument(args, "style", "summary"));
    return 0;
}

static int clean_data(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)err;
    mcp_answer_textf(
        ret,
        "Clean the data file %s in /mnt/data. Goal: %s\n\n"
        "1. Load it with execute_python and list what is wrong: types, "
        "missing values, duplicates, impossible values, mixed units or "
        "spellings, stray header or total rows. Count each.\n"
        "2. Say what you will do about each before you do it. Change nothing "
        "you cannot justify; drop rows only when they cannot be repaired.\n"
        "3. Write the result to a new file beside the old one, with _clean "
        "in its name; leave the original as it is.\n"
        "4. Check: row counts before and after, sums of the main columns, no "
        "new missing values.\n"
        "5. Report each change with its count, and link the new file.",
        prompt_argument(args, "path", "(which one?)"),
        prompt_argument(args, "goal",
                        "a table that can be analysed as it is"));
    return 0;
}

static int explain_error(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)err;
    mcp_answer_textf(
        ret,
        "Find out why this fails, and fix it:\n\n%s\n\n"
        "1. Say what the error means in one sentence, and which line raised "
        "it.\n"
        "2. Reproduce it with the smallest code that does, in the session "
        "where it happened if there is one: look at the values and types "
        "involved rather than guessing.\n"
        "3. A status of timeout, oom or limit is no bug by itself: read less "
        "at a time, use less memory, or ask for a longer timeout.\n"
        "4. Fix the cause, not the symptom; run the whole thing again and "
        "show that it works.\n"
        "5. Answer with the cause, the change and how you checked it.",
        prompt_argument(args, "error", "(paste the error and the code)"));
    return 0;
}

static const struct mcp_prompt prompts[] = {
    {"analyse_csv",
     "Analyse a data file",
     "Explore a CSV (or other table) and answer a question about it with "
     "computed numbers and charts.",
     {{"path", "The file, below /mnt/data", true, true, NULL},
      {"question", "What to find out", false, false, NULL}},
     analyse_csv},
    {"make_report",
     "Make a PDF report",
     "Turn files and computed results into a PDF report with charts and "
     "tables.",
     {{"topic", "What the report is about", true, false, NULL},
      {"sources", "A file or folder to work from", false, true, NULL},
      {"style", "How long it is to be", false, false, report_styles}},
     make_report},
    {"clean_data",
     "Clean a data file",
     "Find and repair what is wrong with a table, into a new file, with an "
     "account of every change.",
     {{"path", "The file, below /mnt/data", true, true, NULL},
      {"goal", "What it is to be good for", false, false, NULL}},
     clean_data},
    {"explain_error",
     "Explain and fix an error",
     "Reproduce an error in a session, find its cause and show the fix "
     "working.",
     {{"error", "The error, and the code that raised it", true, false, NULL}},
     explain_error},
};

/* ---- the methods -------------------------------------------------------- */

/* The product's, then what a test build added; NULL past the end. */
static const struct mcp_prompt *prompt_at(size_t i)
{
    if (i < ARRAY_SIZE(prompts))
        return &prompts[i];
    i -= ARRAY_SIZE(prompts);
    return i < mcp_fixture_prompts_count ? &mcp_fixture_prompts[i] : NULL;
}

const struct mcp_prompt *mcp_prompts_find(const char *name)
{
    const struct mcp_prompt *p;

    for (size_t i = 0; (p = prompt_at(i)); i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

static void write_prompt(struct json_writer *w, const struct mcp_prompt *p)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "name", p->name);
    if (p->title)
        json_write_string(w, "title", p->title);
    json_write_string(w, "description", p->description);
    if (p->arguments[0].name)
        json_write_open(w, "arguments", '[');
    for (size_t i = 0; i < MCP_PROMPT_ARGUMENTS && p->arguments[i].name; i++) {
        json_write_open(w, NULL, '{');
        json_write_string(w, "name", p->arguments[i].name);
        json_write_string(w, "description", p->arguments[i].description);
        json_write_bool(w, "required", p->arguments[i].required);
        json_write_close(w, '}');
    }
    if (p->arguments[0].name)
        json_write_close(w, ']');
    json_write_close(w, '}');
}

int mcp_prompts_list(struct mcp_exchange *x)
{
    const char *cursor = mcp_need_cursor(x);
    const struct mcp_prompt *p;

    if (!cursor)
        return -1;
    if (cursor[0])
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.cursor is not a cursor of this server");
    json_write_open(&x->w, "prompts", '[');
    for (size_t i = 0; (p = prompt_at(i)); i++)
        write_prompt(&x->w, p);
    json_write_close(&x->w, ']');
    mcp_write_caching(x, false, TTL_MS);
    return 0;
}

static int check_arguments(struct mcp_exchange *x, const struct mcp_prompt *p,
                           const json_t *args)
{
    const char *key;
    json_t *value;

    if (args && !json_is_object(args))
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.arguments must be an object");
    json_object_foreach ((json_t *)(uintptr_t)args, key, value)
        if (!json_is_string(value) || json_string_length(value) > ARGUMENT_MAX)
            return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                                 "the argument '%.60s' must be a string of at "
                                 "most %u bytes",
                                 key, ARGUMENT_MAX);
    for (size_t i = 0; i < MCP_PROMPT_ARGUMENTS; i++)
        if (p->arguments[i].required &&
            !json_object_get(args, p->arguments[i].name))
            return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                                 "the argument '%s' is missing",
                                 p->arguments[i].name);
    return 0;
}

/* Each block of the content is a message of the user's. */
static void write_messages(struct mcp_exchange *x, const struct mcp_answer *a)
{
    char *text cleanup(mem_free) =
        xasprintf("[%s]", a->content.data ? a->content.data : "");
    json_t *blocks cleanup(json_unref) = json_loads(text, 0, NULL), *block;
    size_t i;

    json_write_open(&x->w, "messages", '[');
    json_array_foreach (blocks, i, block) {
        json_write_open(&x->w, NULL, '{');
        json_write_string(&x->w, "role", "user");
        mcp_rpc_write_value(&x->w, "content", block);
        json_write_close(&x->w, '}');
    }
    json_write_close(&x->w, ']');
}

int mcp_prompts_get(struct mcp_exchange *x)
{
    const char *name = mcp_need_string(x, "name");
    const json_t *args = json_object_get(x->msg.params, "arguments");
    const struct mcp_prompt *p = name ? mcp_prompts_find(name) : NULL;
    struct mcp_answer answer;
    struct mcp_call call;
    struct error err;
    int r;

    if (name && !p)
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL, "no prompt '%.100s'",
                             name);
    if (!name || check_arguments(x, p, args) < 0)
        return -1;
    mcp_exchange_call(x, &call);
    mcp_answer_init(&answer);
    r = p->get(&call, args, &answer, &err);
    if (r < 0 && !x->fault.code)
        r = mcp_rpc_blame(&x->fault, &err);
    if (r == 0) {
        json_write_string(&x->w, "description", p->description);
        write_messages(x, &answer);
    }
    mcp_answer_done(&answer);
    return r;
}

/* ---- completion/complete ------------------------------------------------ */

#define VALUES_MAX 100u
#define WORKSPACES_MAX 20u /* whose files are offered when none is named */

struct values {
    struct mcp_exchange *x;
    size_t count;
    bool more;
};

static void add_completion(struct values *v, const char *text)
{
    if (v->count == VALUES_MAX) {
        v->more = true;
        return;
    }
    v->count++;
    json_write_string(&v->x->w, NULL, text);
}

static bool has_prefix(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* A path of a session's own kind is one of the workspace. */
static const char *below_data(const char *value)
{
    static const char *const roots[] = {"sandbox:/mnt/data/", "/mnt/data/"};

    for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
        if (strncmp(value, roots[i], strlen(roots[i])) == 0)
            return value + strlen(roots[i]);
    return value;
}

static void complete_paths(struct values *v, const char *workspace,
                           const char *value)
{
    struct workspace_file *files = NULL;
    struct page_result got = {0};
    struct error err;

    if (workspace_files_list(v->x->doors->workspaces, v->x->actor, workspace,
                             &(struct workspace_files_spec){
                                 .prefix = below_data(value),
                                 .limit = VALUES_MAX - (unsigned)v->count},
                             &files, &got, &err) < 0)
        return; /* not one of the caller's: nothing to offer */
    for (size_t i = 0; i < got.count; i++)
        add_completion(v, files[i].path);
    v->more |= got.has_more;
    workspace_files_free(files, got.count);
}

/* Ids of workspaces, or the files of the newest. */
static void complete_workspaces(struct values *v, const char *value,
                                bool files)
{
    struct workspace_info *found cleanup(mem_free) = NULL;
    struct page_result got = {0};
    struct error err;

    if (workspace_list(v->x->doors->workspaces, v->x->actor, false,
                       &(struct page){.limit = files ? WORKSPACES_MAX
                                                     : WORKSPACE_LIST_MAX},
                       &found, &got, &err) < 0)
        return;
    for (size_t i = 0; i < got.count; i++)
        if (!files && has_prefix(found[i].id, value))
            add_completion(v, found[i].id);
        else if (files && found[i].files > 0 && v->count < VALUES_MAX)
            complete_paths(v, found[i].id, value);
}

static const char *context_argument(const struct mcp_exchange *x,
                                    const char *name)
{
    const json_t *args = json_object_get(
        json_object_get(x->msg.params, "context"), "arguments");

    return json_string_value(json_object_get(args, name));
}

static void complete_files(struct values *v, const char *value)
{
    const char *workspace = context_argument(v->x, "workspace");

    if (!mcp_has_scope(v->x, AUTH_FILES_READ))
        return;
    if (workspace)
        complete_paths(v, workspace, value);
    else
        complete_workspaces(v, value, true);
}

static int complete_prompt(struct values *v, const json_t *ref,
                           const char *argument, const char *value)
{
    const char *name = json_string_value(json_object_get(ref, "name"));
    const struct mcp_prompt *prompt = name ? mcp_prompts_find(name) : NULL;

    if (!prompt)
        return mcp_rpc_fault(&v->x->fault, RPC_PARAMS, NULL,
                             "params.ref names no prompt");
    for (size_t i = 0; i < MCP_PROMPT_ARGUMENTS; i++) {
        const struct mcp_prompt_argument *a = &prompt->arguments[i];

        if (!a->name || strcmp(a->name, argument) != 0)
            continue;
        if (a->path)
            complete_files(v, value);
        for (const char *const *c = a->choices; c && *c; c++)
            if (has_prefix(*c, value))
                add_completion(v, *c);
        return 0;
    }
    return mcp_rpc_fault(&v->x->fault, RPC_PARAMS, NULL,
                         "the prompt has no argument '%.100s'", argument);
}

static int complete_ref(struct values *v, const json_t *ref,
                        const char *argument, const char *value)
{
    const char *type = json_string_value(json_object_get(ref, "type"));

    if (type && strcmp(type, "ref/prompt") == 0)
        return complete_prompt(v, ref, argument, value);
    if (!type || strcmp(type, "ref/resource") != 0)
        return mcp_rpc_fault(&v->x->fault, RPC_PARAMS, NULL,
                             "params.ref.type must be ref/prompt or "
                             "ref/resource");
    if (strcmp(argument, "workspace") == 0) {
        if (mcp_has_scope(v->x, AUTH_FILES_READ))
            complete_workspaces(v, value, false);
    } else if (strcmp(argument, "path") == 0) {
        complete_files(v, value);
    }
    return 0;
}

int mcp_complete(struct mcp_exchange *x)
{
    const json_t *asked = json_object_get(x->msg.params, "argument");
    const char *argument = json_string_value(json_object_get(asked, "name"));
    const char *value = json_string_value(json_object_get(asked, "value"));
    struct values v = {.x = x};

    if (!argument || !value)
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.argument must have a name and a value");
    json_write_open(&x->w, "completion", '{');
    json_write_open(&x->w, "values", '[');
    if (complete_ref(&v, json_object_get(x->msg.params, "ref"), argument,
                     value) < 0)
        return -1;
    json_write_close(&x->w, ']');
    json_write_bool(&x->w, "hasMore", v.more);
    json_write_close(&x->w, '}');
    return 0;
}
