/* SPDX-License-Identifier: Apache-2.0 */
/* How an execution ended: the exit status, and a sentence about it. */
#include <string.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define BLOCKED_SHOWN 10u

/* A limit's value in the unit its name ends with. */
static void add_value(struct buf *out, const char *name, json_int_t value)
{
    size_t len = strlen(name);
    char text[24];

    if (len > 6 && strcmp(name + len - 6, "_bytes") == 0)
        buf_adds(out, cli_format_size((uint64_t)value, text));
    else if (len > 2 && strcmp(name + len - 2, "_s") == 0)
        buf_adds(out, cli_format_duration((uint64_t)value * 1000, text));
    else
        buf_addf(out, "%" JSON_INTEGER_FORMAT, value);
}

static void add_limit(struct buf *out, const json_t *limit)
{
    const char *name = cli_json_text(limit, "name", NULL);
    const json_t *value = json_object_get(limit, "value");
    const json_t *peak = json_object_get(limit, "peak");

    if (!name)
        return;
    buf_addf(out, " (%s", name);
    if (json_is_integer(value)) {
        buf_adds(out, ": limit ");
        add_value(out, name, json_integer_value(value));
    }
    if (json_is_integer(peak) && json_integer_value(peak) > 0) {
        buf_adds(out, ", peak ");
        add_value(out, name, json_integer_value(peak));
    }
    buf_adds(out, ")");
}

static const struct {
    const char *outcome;
    int exit;
    const char *sentence; /* NULL: the code's own doing, shown already */
} outcomes[] = {
    {"ok", CLI_EXIT_OK, NULL},
    {"error", CLI_EXIT_CODE, NULL},
    {"timeout", CLI_EXIT_TIMEOUT, "the code ran out of time"},
    {"oom", CLI_EXIT_LIMIT, "the session ran out of memory"},
    {"limit", CLI_EXIT_LIMIT, "the session reached a limit"},
    {"killed", CLI_EXIT_KILLED, "the interpreter was killed"},
    {"crashed", CLI_EXIT_KILLED, "the interpreter crashed"},
    {"cancelled", CLI_EXIT_CANCELLED, "cancelled"},
    {"isolation_failed", CLI_EXIT_ISOLATION,
     "a wall of the session could not be built, so nothing ran"},
    {"denied", CLI_EXIT_DENIED, "policy does not allow this"},
};

static size_t outcome_row(const json_t *execution)
{
    const char *outcome = cli_json_text(execution, "outcome", "");
    size_t i = 0;

    while (i < ARRAY_SIZE(outcomes) && strcmp(outcomes[i].outcome, outcome))
        i++;
    return i;
}

static bool is_held(const json_t *execution)
{
    return strcmp(cli_json_text(execution, "status", ""),
                  "pending_approval") == 0;
}

int cli_outcome_exit(const json_t *execution)
{
    size_t row = outcome_row(execution);

    if (is_held(execution))
        return CLI_EXIT_PENDING;

    return row < ARRAY_SIZE(outcomes) ? outcomes[row].exit : CLI_EXIT_FAILED;
}

bool cli_outcome_sentence(const json_t *execution, struct buf *out)
{
    size_t row = outcome_row(execution);
    const char *said =
        cli_json_text(json_object_get(execution, "error"), "message", "");

    if (is_held(execution))
        buf_addf(out,
                 "waits for approval, nothing has run: `glovebox approvals "
                 "approve %s` with another key lets it run as %s",
                 cli_json_text(execution, "approval", "?"),
                 cli_json_text(execution, "id", "?"));
    else if (row == ARRAY_SIZE(outcomes))
        buf_adds(out, "the service did not say how it ended");
    else if (!outcomes[row].sentence)
        return false;
    else if (*said)
        buf_adds(out, said);
    else {
        buf_adds(out, outcomes[row].sentence);
        add_limit(out, json_object_get(execution, "limit"));
    }
    return true;
}

/* A failure of the code that no traceback has told of: a script's status. */
static bool own_words(const struct cli_render *r, const json_t *execution,
                      struct buf *out)
{
    const json_t *error = json_object_get(execution, "error");
    const char *said = cli_json_text(error, "message", "");
    const json_t *status = json_object_get(execution, "exit_code");

    if (cli_outcome_exit(execution) != CLI_EXIT_CODE || r->error_shown)
        return false;
    if (*said)
        buf_adds(out, said);
    else if (json_is_integer(status))
        buf_addf(out, "ended with status %" JSON_INTEGER_FORMAT,
                 json_integer_value(status));
    return out->len > 0;
}

/* For outcomes whose own sentence does not speak of it, such as sys.exit(). */
static void note_lost(const struct cli_render *r, const json_t *execution)
{
    if (r->lasting && cli_outcome_exit(execution) <= CLI_EXIT_CODE &&
        json_is_true(json_object_get(execution, "interpreter_lost")))
        (void)fputs("variables are gone: the next run gets a fresh "
                    "interpreter; files are in place\n",
                    stderr);
}

/* What the code could not reach, which its own words may not tell. */
static void show_blocked(struct cli_render *r, const json_t *execution)
{
    const json_t *network = json_object_get(execution, "network");
    const json_t *blocked = json_object_get(network, "blocked");
    const json_t *one;
    size_t i;

    json_array_foreach (blocked, i, one) {
        const json_t *port = json_object_get(one, "port");
        const json_t *count = json_object_get(one, "count");

        cli_render_fresh_line(r);
        if (i == BLOCKED_SHOWN) {
            (void)fprintf(stderr, "blocked: %zu more\n",
                          json_array_size(blocked) - i);
            break;
        }
        (void)fprintf(stderr, "blocked: %s", cli_json_text(one, "host", "?"));
        if (json_is_integer(port))
            (void)fprintf(stderr, ":%" JSON_INTEGER_FORMAT,
                          json_integer_value(port));
        if (json_integer_value(count) > 1)
            (void)fprintf(stderr, " (%" JSON_INTEGER_FORMAT " times)",
                          json_integer_value(count));
        (void)fputs("\n", stderr);
    }
}

/* A limit that the code reached and outlived. */
static void show_warning(struct cli_render *r, const json_t *execution)
{
    const char *warning = cli_json_text(execution, "warning", NULL);

    if (!warning)
        return;
    cli_render_fresh_line(r);
    (void)fprintf(stderr, "warning: %s\n", warning);
}

void cli_outcome_show(struct cli_render *r, const json_t *execution)
{
    const json_t *truncated = json_object_get(execution, "truncated");
    struct buf text cleanup(buf_done) = {0};

    if (json_is_true(json_object_get(truncated, "stdout")) ||
        json_is_true(json_object_get(truncated, "stderr"))) {
        cli_render_fresh_line(r);
        (void)fputs("output was longer than is kept and has been cut\n",
                    stderr);
    }
    show_blocked(r, execution);
    show_warning(r, execution);
    if (!cli_outcome_sentence(execution, &text) &&
        !own_words(r, execution, &text)) {
        note_lost(r, execution);
        return;
    }
    cli_render_fresh_line(r);
    (void)fprintf(stderr, "%s%s: %s%s\n", r->c->color_err ? "\033[31m" : "",
                  is_held(execution)
                      ? "held"
                      : cli_json_text(execution, "outcome", "unknown"),
                  text.data, r->c->color_err ? "\033[0m" : "");
    note_lost(r, execution);
}
