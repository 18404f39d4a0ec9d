/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox executions: list, show, follow and cancel what runs or ran in
 * sessions, such as what `run --detach` started.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define SESSIONS_MAX 100u /* that a list without --session looks at */
#define LIST_MAX 100u
#define EXECUTION "/api/executions/{EXECUTION}"

struct execution_flags {
    const char *session, *charts;
    uint64_t limit;
    bool follow;
};

static const struct cli_column columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"SESSION", "session", .kind = CLI_COLUMN_ID},
    {"LANGUAGE", .member = "language", .wide = true},
    {"STATUS", .member = "status"},
    {"OUTCOME", .member = "outcome"},
    {"STARTED", "started_at", .kind = CLI_COLUMN_TIME},
    {"FINISHED", "finished_at", .kind = CLI_COLUMN_TIME, .wide = true},
    {0},
};

/* Adds the executions of one session. */
static int add_session(struct cli *c, const char *session, json_t *rows,
                       struct error *err)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/executions?limit=%u", session, LIST_MAX);
    json_t *answer cleanup(json_unref) = NULL;
    int r = cli_http_json(c, "GET", path, NULL, &answer, err);

    if (r < 0)
        return r;
    (void)json_array_extend(rows, json_object_get(answer, "data"));
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;

    return strcmp(cli_json_text(*y, "created_at", ""),
                  cli_json_text(*x, "created_at", ""));
}

/* Sorts the rows and cuts them to so many; owned by caller. */
static json_t *newest_rows(const json_t *rows, size_t most)
{
    size_t count = json_array_size(rows);
    json_t **all cleanup(mem_free) = xcalloc(count + 1, sizeof(*all));
    json_t *sorted = json_array();

    for (size_t i = 0; i < count; i++)
        all[i] = json_array_get(rows, i);
    qsort(all, count, sizeof(*all), newest_first);
    for (size_t i = 0; i < MIN(count, most); i++)
        (void)json_array_append(sorted, all[i]);
    return sorted;
}

static int list_executions(struct cli *c, const struct cli_words *words,
                           void *arg)
{
    const struct execution_flags *flags = arg;
    json_t *rows cleanup(json_unref) = json_array();
    json_t *sessions cleanup(json_unref) = NULL;
    json_t *sorted cleanup(json_unref) = NULL;
    struct error err;
    char id[ID_MAX];
    int r = 0;

    (void)words;
    if (flags->session) {
        r = cli_remote_find(c, flags->session, id, &err);
        if (r == 0)
            r = add_session(c, id, rows, &err);
    } else {
        r = cli_remote_list(c, "/api/sessions", "id", SESSIONS_MAX, &sessions,
                            &err);
    }
    for (size_t i = 0; r == 0 && i < json_array_size(sessions); i++) {
        const json_t *one = json_array_get(sessions, i);

        if (!cli_json_number(one, "executions"))
            continue;
        r = add_session(c, cli_json_text(one, "id", ""), rows, &err);
        if (r < 0 && err.code == ERR_NOT_FOUND)
            r = 0; /* deleted meanwhile */
    }
    if (r < 0)
        return cli_fail(c, &err);
    sorted = newest_rows(rows, flags->limit ? flags->limit : LIST_MAX);
    cli_show_list(c, sorted, columns);
    return CLI_EXIT_OK;
}

/* Prints the output so far; with -f also the output to come. */
static int show_logs(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct execution_flags *flags = arg;
    json_t *execution cleanup(json_unref) = NULL;
    char *path cleanup(mem_free) = NULL;
    struct buf url cleanup(buf_done) = {0};
    struct error err;
    int r;

    buf_adds(&url, "/api/executions/");
    cli_http_escape(&url, words->items[0], false);
    r = cli_http_json(c, "GET", url.data, NULL, &execution, &err);
    if (r < 0)
        return cli_fail(c, &err);
    if (!c->json &&
        (flags->follow ||
         strcmp(cli_json_text(execution, "status", ""), "completed") == 0)) {
        json_decref(take_ptr(execution));
        if (cli_execute_follow(c, words->items[0], flags->charts, &execution,
                               &err) < 0)
            return cli_fail(c, &err);
        return cli_outcome_exit(execution);
    }
    if (c->json) {
        cli_print_json(c, execution);
        return CLI_EXIT_OK;
    }
    cli_show_text(c, cli_json_text(execution, "stdout", ""),
                  strlen(cli_json_text(execution, "stdout", "")));
    (void)fflush(stdout);
    (void)fputs(cli_json_text(execution, "stderr", ""), stderr);
    return CLI_EXIT_OK;
}

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List executions, newest first",
     .run = list_executions},
    {"show", NULL, "EXECUTION", "Show an execution", "GET", .path = EXECUTION},
    {"logs", NULL, "EXECUTION", "Print the output of an execution",
     .run = show_logs},
    {"cancel", NULL, "EXECUTION...", "Cancel executions", "POST",
     EXECUTION "/cancel", .json = "cancelled={EXECUTION}",
     .sentence = "Cancelled the execution {EXECUTION}."},
    {0},
};

#define AT(member) offsetof(struct execution_flags, member)

static const struct cli_option options[] = {
    {"session", 's', CLI_OPT_TEXT, AT(session), "SESSION",
     "only of this session (id or name)", "list"},
    {"limit", 0, CLI_OPT_COUNT, AT(limit), "N", "list at most N; else 100",
     "list"},
    {"follow", 'f', CLI_OPT_FLAG, AT(follow), NULL,
     "wait for more output until it ends", "logs"},
    {"charts", 0, CLI_OPT_TEXT, AT(charts), "DIR",
     "save charts in this folder", "logs"},
    {0},
};

const struct cli_command cli_executions = {
    .name = "executions",
    .summary = "List, show, follow and cancel executions",
    .notes =
        "`list` looks at your newest 100 sessions. The service keeps the\n"
        "latest executions of a session while the session exists; `glovebox\n"
        "audit` has the evidence of all. `logs` of an execution that has ended\n"
        "exits as `run` would have; Ctrl-C ends `logs -f`, not the execution.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct execution_flags),
    .verbs = verbs,
};
