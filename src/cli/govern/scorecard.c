/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox scorecard: ten controls, each probed now. For each it reports
 * whether the mechanism works, with what the probes observed, and whether it
 * is configured as recommended, with advice. Needs a running service and a key
 * of scope admin: an embedded service would be the wrong one to judge. The
 * probes remove what they make.
 */
#include "cli/govern/scorecard.h"

#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

/* How the service words a denial by policy. */
#define CLI_SCORE_DENIED "policy does not allow this"

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

/* ---- used by controls --------------------------------------------------- */

static void add_line(struct cli_score *s, enum cli_score_state state,
                     const char *fmt, va_list ap)
{
    struct cli_score_line *line;

    if (s->count == CLI_SCORE_LINES)
        return;
    line = &s->lines[s->count++];
    line->state = state;
    (void)vsnprintf(line->text, sizeof(line->text), fmt, ap); /* may cut */
}

bool cli_score_note(struct cli_score *s, bool holds, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_line(s, holds ? CLI_SCORE_HOLDS : CLI_SCORE_FAILS, fmt, ap);
    va_end(ap);
    return holds;
}

static void note_unmeasured(struct cli_score *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void note_unmeasured(struct cli_score *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_line(s, CLI_SCORE_UNMEASURED, fmt, ap);
    va_end(ap);
}

/* A probe that waits for approval: names the rule and withdraws the request,
 * so that no approver has to look at it. */
static void note_held(struct cli_score *s, const char *approval)
{
    char *path cleanup(mem_free) = xasprintf("/api/approvals/%s", approval);
    json_t *info cleanup(json_unref) = NULL;
    struct error err;

    (void)cli_http_json(s->c, "GET", path, NULL, &info, &err);
    note_unmeasured(s, "held by rule '%s': not measured",
                    cli_json_text(info, "rule", "?"));
    if (cli_http_json(s->c, "DELETE", path, NULL, NULL, &err) < 0)
        note_unmeasured(s, "%s could not be withdrawn: %.120s", approval,
                        err.message);
}

json_t *cli_score_ask(struct cli_score *s, const char *method,
                      const char *path, json_t *body)
{
    json_t *owned cleanup(json_unref) = body;
    json_t *answer = NULL;
    char approval[ID_MAX];
    struct error err;

    if (cli_http_json(s->c, method, path, owned, &answer, &err) == 0)
        return answer;

    /* The approval's id in "this waits for approval: apr_… (rule …"; or "". */
    const char *at = strstr(err.message, "apr_");

    (void)snprintf(approval, ID_MAX, "%.*s",
                   at ? (int)strcspn(at, " ().,") : 0, at ? at : "");

    if (err.code == ERR_APPROVAL && approval[0])
        note_held(s, approval);
    else if (strncmp(err.message, CLI_SCORE_DENIED,
                     strlen(CLI_SCORE_DENIED)) == 0)
        note_unmeasured(s, "not measured: %s", err.message);
    else
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
    json_t *run =
        cli_score_ask(s, "POST", path,
                      json_pack("{s:s, s:s, s:i}", "language", language,
                                "code", code, "timeout_s", timeout_s));

    if (strcmp(cli_json_text(run, "status", ""), "pending_approval") == 0)
        note_held(s, cli_json_text(run, "approval", ""));
    else if (strcmp(cli_json_text(run, "outcome", ""), "denied") == 0)
        note_unmeasured(s, "not measured: %s",
                        cli_json_text(run, "failure", "denied"));
    else
        return run;
    json_decref(run);
    return NULL;
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
    (void)cli_score_note(s, false, "gate, %s: not reported", check);
}

/* ---- the card ----------------------------------------------------------- */

/* A control fails when one line fails. It is unmeasured when none fails and
 * one could not be measured. */
static enum cli_score_state control_state(const struct cli_score *s)
{
    enum cli_score_state state = s->count ? CLI_SCORE_HOLDS : CLI_SCORE_FAILS;

    for (size_t i = 0; i < s->count; i++) {
        if (s->lines[i].state == CLI_SCORE_FAILS)
            return CLI_SCORE_FAILS;
        if (s->lines[i].state == CLI_SCORE_UNMEASURED)
            state = CLI_SCORE_UNMEASURED;
    }
    return state;
}

/* The settings of a control that are weaker than recommended. New. */
static json_t *find_findings(const json_t *posture, const char *control)
{
    const json_t *list = json_object_get(posture, "settings"), *row;
    json_t *findings = json_array();
    size_t i;

    json_array_foreach (list, i, row)
        if (strcmp(cli_json_text(row, "control", ""), control) == 0 &&
            !json_is_true(json_object_get(row, "ok")))
            (void)json_array_append_new(
                findings, json_pack("{s:s, s:s, s:s}", "name",
                                    cli_json_text(row, "name", ""), "found",
                                    cli_json_text(row, "found", ""), "advice",
                                    cli_json_text(row, "advice", "")));
    return findings;
}

static json_t *state_json(enum cli_score_state state)
{
    return state == CLI_SCORE_UNMEASURED ? json_null() : json_boolean(state);
}

static json_t *to_json(size_t at, const struct cli_score *s, json_t *findings)
{
    static const char *const words[] = {[CLI_SCORE_FAILS] = "fail",
                                        [CLI_SCORE_HOLDS] = "pass",
                                        [CLI_SCORE_UNMEASURED] =
                                            "not_measured"};
    enum cli_score_state state = control_state(s);
    json_t *lines = json_array();

    for (size_t i = 0; i < s->count; i++)
        (void)json_array_append_new(lines,
                                    json_pack("{s:o, s:s}", "holds",
                                              state_json(s->lines[i].state),
                                              "seen", s->lines[i].text));
    return json_pack("{s:s, s:s, s:o, s:s, s:b, s:o, s:O}", "control",
                     controls[at].name, "title", controls[at].title, "pass",
                     state_json(state), "works", words[state], "configured",
                     json_array_size(findings) == 0, "evidence", lines,
                     "findings", findings);
}

static void print_one(const struct cli *c, size_t at,
                      const struct cli_score *s, const json_t *findings)
{
    static const struct {
        const char *word, *color, *mark;
    } shown[] = {[CLI_SCORE_FAILS] = {"FAILS       ", "\033[31m", "!"},
                 [CLI_SCORE_HOLDS] = {"works       ", "\033[32m", "-"},
                 [CLI_SCORE_UNMEASURED] = {"not measured", "\033[33m", "?"}};
    enum cli_score_state state = control_state(s);
    bool weak = json_array_size(findings) > 0;
    const json_t *row;
    size_t i;

    (void)printf("%s%s%s  %s%s%s  %2zu %s\n",
                 c->color_out ? shown[state].color : "", shown[state].word,
                 c->color_out ? "\033[0m" : "",
                 c->color_out ? (weak ? "\033[33m" : "\033[32m") : "",
                 weak ? "advice    " : "configured",
                 c->color_out ? "\033[0m" : "", at + 1, controls[at].title);
    for (i = 0; i < s->count; i++)
        (void)printf("      %s %s\n", shown[s->lines[i].state].mark,
                     s->lines[i].text);
    json_array_foreach (findings, i, row)
        (void)printf("      > %s\n        %s\n",
                     cli_json_text(row, "found", ""),
                     cli_json_text(row, "advice", ""));
    (void)fflush(stdout);
}

struct tally {
    size_t of, states[CLI_SCORE_UNMEASURED + 1], configured, findings;
};

static void print_tally(const struct cli *c, const struct tally *t,
                        json_t *rows)
{
    size_t passed = t->states[CLI_SCORE_HOLDS],
           failed = t->states[CLI_SCORE_FAILS],
           unmeasured = t->states[CLI_SCORE_UNMEASURED];

    if (c->json) {
        json_t *out cleanup(json_unref) = json_pack(
            "{s:b, s:i, s:i, s:{s:b, s:i, s:i, s:i}, s:{s:b, s:i, s:i},"
            " s:O}",
            "pass", !failed && !t->findings, "passed", (int)passed, "of",
            (int)t->of, "works", "pass", !failed, "passed", (int)passed,
            "failed", (int)failed, "not_measured", (int)unmeasured,
            "configured", "pass", !t->findings, "passed", (int)t->configured,
            "findings", (int)t->findings, "controls", rows);

        cli_print_json(c, out);
        return;
    }
    (void)printf("\n%zu of %zu controls work", passed, t->of);
    if (unmeasured)
        (void)printf("; %zu not measured, because policy holds or denies "
                     "their probes",
                     unmeasured);
    (void)printf(".\n%zu of %zu are configured as recommended", t->configured,
                 t->of);
    if (t->findings)
        (void)printf("; the advice above covers the other %zu",
                     t->of - t->configured);
    (void)printf(".\n");
    if (unmeasured)
        (void)printf("To measure them, give the scorecard a key of its own "
                     "and a rule that allows it\n(`match: {key: key_…}`, "
                     "docs/GOVERNANCE.md).\n");
}

/* only: the name of one control, or NULL for all. */
static int show_all(struct cli *c, const json_t *posture, const char *only)
{
    json_t *rows cleanup(json_unref) = json_array();
    struct tally t = {0};

    for (size_t i = 0; i < ARRAY_SIZE(controls); i++) {
        struct cli_score *s cleanup(mem_free) = xcalloc(1, sizeof(*s));
        json_t *findings cleanup(json_unref) = NULL;

        if (only && strcmp(only, controls[i].name) != 0)
            continue;
        s->c = c;
        s->posture = posture;
        controls[i].look(s);
        findings = find_findings(posture, controls[i].name);
        t.of++;
        t.states[control_state(s)]++;
        t.configured += json_array_size(findings) == 0;
        t.findings += json_array_size(findings);
        if (c->json)
            (void)json_array_append_new(rows, to_json(i, s, findings));
        else
            print_one(c, i, s, findings);
    }
    print_tally(c, &t, rows);
    if (t.states[CLI_SCORE_FAILS])
        return CLI_EXIT_CODE;
    return t.findings ? CLI_EXIT_FINDINGS : CLI_EXIT_OK;
}

static bool is_control(const char *name)
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
    if (*only && !is_control(*only))
        return cli_usage_error(c, "there is no control '%.40s'", *only);
    if (cli_connect(c, CLI_NEED_RUNNING, NULL, NULL, &err) < 0 ||
        cli_http_json(c, "GET", "/api/posture", NULL, &posture, &err) < 0)
        return cli_fail(c, &err);
    return show_all(c, posture, *only);
}

const struct cli_command cli_scorecard = {
    .name = "scorecard",
    .summary = "Probe ten controls of this service and its configuration",
    .notes =
        "Controls are isolation, ephemeral, egress, secrets, identity,\n"
        "dependencies, audit, quotas, approvals and deployment.\n\n"
        "For each it reports whether the control works, as probed in real\n"
        "sessions, and whether it is configured as recommended, with advice.\n"
        "A probe that policy holds or denies is reported as not measured.\n\n"
        "Takes about half a minute: it waits for time limits and for the end\n"
        "of a token. Needs a key of scope admin. Exit status: 0 when nothing\n"
        "fails and there is no advice, 1 when a control fails, 11 when none\n"
        "fails but there is advice.\n",
    .online = true,
    .options =
        (const struct cli_option[]){
            {"only", 0, CLI_OPT_TEXT, 0, "CONTROL", "only this one", NULL},
            {0},
        },
    .flags_size = sizeof(const char *),
    .verbs = (const struct cli_verb[]){{"", .run = run_scorecard}, {0}},
};
