/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox scorecard: ten controls, each probed now, pass or fail with what
 * was seen. Needs a running service and a key of scope admin: a verdict on an
 * embedded one would be about the wrong service. What it makes for its probes
 * it removes again.
 */
#include "cli/scorecard.h"

#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static const struct {
    const char *name, *title;
    cli_score_fn *look;
} controls[] = {
    {"isolation", "Isolation", cli_score_isolation},
    {"ephemeral", "Ephemeral execution and storage", cli_score_ephemeral},
    {"egress", "Default-deny egress", cli_score_egress},
    {"secrets", "No ambient secrets", cli_score_secrets},
    {"identity", "Short-lived scoped identity", cli_score_identity},
    {"dependencies", "Dependency controls", cli_score_dependencies},
    {"audit", "Full execution and policy audit", cli_score_audit},
    {"quotas", "Time, output and cost quotas", cli_score_quotas},
    {"approvals", "Approvals", cli_score_approvals},
    {"deployment", "Managed deployment", cli_score_deployment},
};

/* ---- what controls use -------------------------------------------------- */

bool cli_score_note(struct cli_score *s, bool holds, const char *fmt, ...)
{
    struct cli_score_line *line;
    va_list ap;

    if (s->count == CLI_SCORE_LINES)
        return holds;
    line = &s->lines[s->count++];
    line->holds = holds;
    va_start(ap, fmt);
    (void)vsnprintf(line->text, sizeof(line->text), fmt, ap); /* may cut */
    va_end(ap);
    return holds;
}

json_t *cli_score_ask(struct cli_score *s, const char *method,
                      const char *path, json_t *body)
{
    json_t *owned cleanup(json_unref) = body;
    json_t *answer = NULL;
    struct error err;

    if (cli_http_json(s->c, method, path, owned, &answer, &err) == 0)
        return answer;
    (void)cli_score_note(s, false, "%s %s: %s", method, path, err.message);
    return NULL;
}

void cli_score_refusal(struct cli_score *s, const char *as, const char *method,
                       const char *path, json_t *body, char ret[32])
{
    json_t *owned cleanup(json_unref) = body;
    char *own = s->c->key;
    struct error err;
    int r;

    if (as)
        s->c->key = xstrdup(as);
    r = cli_http_json(s->c, method, path, owned, NULL, &err);
    if (as)
        free(s->c->key);
    s->c->key = own;
    (void)snprintf(ret, 32, "%s", r < 0 ? error_code_name(err.code) : "");
}

bool cli_score_session(struct cli_score *s, bool ephemeral, char ret[ID_MAX])
{
    json_t *made cleanup(json_unref) = cli_score_ask(
        s, "POST", "/api/sessions",
        json_pack("{s:s, s:s}", "name", "scorecard", "persistence",
                  ephemeral ? "ephemeral" : "workspace"));

    (void)snprintf(ret, ID_MAX, "%s", cli_json_text(made, "id", ""));
    return ret[0] != '\0';
}

void cli_score_end(struct cli_score *s, const char *session)
{
    char *path cleanup(mem_free) = xasprintf("/api/sessions/%s", session);
    struct error ignored;

    if (session[0])
        (void)cli_http_json(s->c, "DELETE", path, NULL, NULL, &ignored);
}

json_t *cli_score_run(struct cli_score *s, const char *session,
                      const char *language, const char *code, int timeout_s)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/executions", session);

    return cli_score_ask(s, "POST", path,
                         json_pack("{s:s, s:s, s:i}", "language", language,
                                   "code", code, "timeout_s", timeout_s));
}

static const char *last_line(const char *text, size_t *ret_len)
{
    size_t len = strlen(text);
    const char *at;

    while (len && text[len - 1] == '\n')
        len--;
    at = memrchr(text, '\n', len);
    at = at ? at + 1 : text;
    *ret_len = len - (size_t)(at - text);
    return at;
}

json_t *cli_score_probe(struct cli_score *s, const char *session,
                        const char *code)
{
    json_t *run cleanup(json_unref) =
        cli_score_run(s, session, "python", code, 30);
    json_t *value;
    const char *line;
    size_t len;

    if (!run)
        return NULL;
    line = last_line(cli_json_text(run, "stdout", ""), &len);
    value = cli_json_load(line, len);
    if (!value)
        (void)cli_score_note(s, false,
                             "a probe ended with %s and said "
                             "nothing%s%.80s",
                             cli_json_text(run, "outcome", "nothing"),
                             cli_json_text(run, "failure", NULL) ? ": " : "",
                             cli_json_text(run, "failure", ""));
    return value;
}

void cli_score_gate(struct cli_score *s, const char *check)
{
    const json_t *list =
        json_object_get(json_object_get(s->posture, "gate"), "checks");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *state = cli_json_text(row, "state", "");

        if (strcmp(cli_json_text(row, "name", ""), check) != 0)
            continue;
        (void)cli_score_note(s, strcmp(state, "ok") == 0, "gate, %s: %s%s%s",
                             check, cli_json_text(row, "why", ""),
                             strcmp(state, "ok") ? ", " : "",
                             strcmp(state, "ok") ? state : "");
        return;
    }
    (void)cli_score_note(s, false, "gate, %s: not told", check);
}

/* ---- the card ----------------------------------------------------------- */

static bool passes(const struct cli_score *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (!s->lines[i].holds)
            return false;
    return s->count > 0;
}

static json_t *to_json(size_t at, const struct cli_score *s)
{
    json_t *lines = json_array();

    for (size_t i = 0; i < s->count; i++)
        (void)json_array_append_new(
            lines, json_pack("{s:b, s:s}", "holds", (int)s->lines[i].holds,
                             "seen", s->lines[i].text));
    return json_pack("{s:s, s:s, s:b, s:o}", "control", controls[at].name,
                     "title", controls[at].title, "pass", (int)passes(s),
                     "evidence", lines);
}

static void print_one(const struct cli *c, size_t at,
                      const struct cli_score *s)
{
    bool pass = passes(s);
    const char *color = !c->color_out ? "" : pass ? "\033[32m" : "\033[31m";

    (void)printf("%s%s%s  %2zu %s\n", color, pass ? "pass" : "FAIL",
                 *color ? "\033[0m" : "", at + 1, controls[at].title);
    for (size_t i = 0; i < s->count; i++)
        (void)printf("      %s %s\n", s->lines[i].holds ? "-" : "!",
                     s->lines[i].text);
    (void)fflush(stdout);
}

/* only: the name of one control, or NULL for all. */
static int show_all(struct cli *c, const json_t *posture, const char *only)
{
    json_t *rows cleanup(json_unref) = json_array();
    size_t good = 0, looked = 0;

    for (size_t i = 0; i < ARRAY_SIZE(controls); i++) {
        struct cli_score *s cleanup(mem_free) = xcalloc(1, sizeof(*s));

        if (only && strcmp(only, controls[i].name) != 0)
            continue;
        looked++;
        s->c = c;
        s->posture = posture;
        controls[i].look(s);
        good += passes(s);
        if (c->json)
            (void)json_array_append_new(rows, to_json(i, s));
        else
            print_one(c, i, s);
    }
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:b, s:i, s:i, s:O}", "pass", good == looked, "passed",
                      (int)good, "of", (int)looked, "controls", rows);

        cli_print_json(out);
    } else {
        (void)printf("\n%zu of %zu controls pass.\n", good, looked);
    }
    return good == looked ? CLI_EXIT_OK : CLI_EXIT_CODE;
}

static bool known(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(controls); i++)
        if (strcmp(controls[i].name, name) == 0)
            return true;
    return false;
}

static int run_scorecard(struct cli *c, const struct cli_words *words,
                         void *arg)
{
    const char *const *only = arg;
    json_t *posture cleanup(json_unref) = NULL;
    struct error err;

    (void)words;
    if (*only && !known(*only))
        return cli_usage_error(c, "there is no control '%.40s'", *only);
    if (cli_connect(c, CLI_NEED_RUNNING, NULL, NULL, &err) < 0 ||
        cli_http_json(c, "GET", "/api/posture", NULL, &posture, &err) < 0)
        return cli_fail(c, &err);
    return show_all(c, posture, *only);
}

const struct cli_command cli_scorecard = {
    .name = "scorecard",
    .summary = "Probe ten controls of this service, and say what was seen",
    .notes =
        "Controls are isolation, ephemeral, egress, secrets, identity,\n"
        "dependencies, audit, quotas, approvals and deployment.\n\n"
        "Takes about half a minute: time limits and the end of a token are\n"
        "waited for. Needs a key of scope admin. Exit status: 0 when all\n"
        "pass, 1 when one fails.\n",
    .online = true,
    .options =
        (const struct cli_option[]){
            {"only", 0, CLI_OPT_TEXT, 0, "CONTROL", "only this one", NULL},
            {0},
        },
    .flags_size = sizeof(const char *),
    .verbs = (const struct cli_verb[]){{"", .run = run_scorecard}, {0}},
};
