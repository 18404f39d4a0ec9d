/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox policy: show the policy in force and its versions, put another in
 * force; and check, test and explain a policy with the service's own code,
 * without a service.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"
#include "policy/policy.h"

#define FILE_MAX (1u << 20) /* of a policy, and of cases */

struct policy_flags {
    const char *file, *note, *zone, *session;
    uint64_t version;
};

static int read_policy(const char *path, char **ret, size_t *ret_len,
                       struct error *err)
{
    return cli_input_read(path, FILE_MAX, ret, ret_len, err);
}

/* ---- show, put ---------------------------------------------------------- */

static int choose_version(struct cli_call *call, struct error *err)
{
    const struct policy_flags *flags = call->flags;

    (void)err;
    if (cli_command_given(call->c, "version"))
        call->path = xasprintf("/api/policy/versions/%llu",
                               (unsigned long long)flags->version);
    return 0;
}

/* The name of the key that put it, else its id, or "file". */
static const char *author_of(const json_t *version)
{
    return cli_json_text(version, "by_name",
                         cli_json_text(version, "by", "-"));
}

static void add_author(const json_t *version, struct buf *out)
{
    buf_adds(out, author_of(version));
}

static int print_policy(struct cli_call *call)
{
    const json_t *policy = call->answer;
    unsigned long long version = cli_json_number(policy, "version");
    const char *text = cli_json_text(policy, "text", NULL);

    if (!call->path && json_is_false(json_object_get(policy, "loaded")))
        (void)fprintf(
            stderr, "Everything is denied: %s\n",
            cli_json_text(policy, "problem", "the policy cannot be loaded"));
    else if (!text && version)
        (void)fprintf(stderr,
                      "Version %llu. Only keys of the tenant default can read "
                      "its text.\n",
                      version);
    else if (!text)
        (void)fputs("No policy was ever put.\n", stderr);
    else
        (void)fprintf(stderr, "Version %llu of %s, by %s.\n", version,
                      cli_json_text(policy, "at", ""), author_of(policy));
    if (text)
        cli_show_text(call->c, text, strlen(text));
    return CLI_EXIT_OK;
}

static int add_text(struct cli_call *call, struct error *err)
{
    const char *file = call->words->items[0];
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;
    int r = read_policy(file, &text, &len, err);

    if (r < 0)
        return r;
    call->body = json_pack("{s:s%}", "text", text, len);
    return call->body
               ? 0
               : error_set(err, ERR_INVALID, "%s is not UTF-8 text", file);
}

/* ---- check -------------------------------------------------------------- */

static int check_policy(struct cli *c, const struct cli_words *words,
                        void *arg)
{
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;
    struct error err;

    (void)arg;
    if (read_policy(words->items[0], &text, &len, &err) < 0)
        return cli_fail(c, &err);
    if (policy_check(text, len, &err) < 0) {
        (void)error_wrap(&err, "%s", words->items[0]);
        (void)cli_fail(c, &err);
        return CLI_EXIT_CODE;
    }
    if (c->json) {
        json_t *out cleanup(json_unref) = json_pack("{s:b}", "ok", 1);

        cli_print_json(c, out);
    } else {
        (void)printf("%s: a policy\n", words->items[0]);
    }
    return CLI_EXIT_OK;
}

/* ---- test --------------------------------------------------------------- */

struct tally {
    const char *file;
    bool json;
    unsigned passed, failed;
    json_t *faults;
};

static void on_case(void *ctx, unsigned line, const char *name,
                    const char *why)
{
    struct tally *t = ctx;

    if (!why) {
        t->passed++;
        return;
    }
    t->failed++;
    (void)json_array_append_new(t->faults,
                                json_pack("{s:i, s:s, s:s}", "line", (int)line,
                                          "case", name, "problem", why));
    if (!t->json)
        (void)printf("%s:%u: %s: %s\n", t->file, line, name, why);
}

static int test_policy(struct cli *c, const struct cli_words *words, void *arg)
{
    bool apart = words->count > 1;
    const char *cases = words->items[apart ? 1 : 0];
    char *policy cleanup(mem_free) = NULL;
    char *text cleanup(mem_free) = NULL;
    json_t *faults cleanup(json_unref) = json_array();
    struct tally t = {.file = cases, .json = c->json, .faults = faults};
    size_t policy_len = 0, len = 0;
    struct error err;

    (void)arg;
    if ((apart &&
         read_policy(words->items[0], &policy, &policy_len, &err) < 0) ||
        read_policy(cases, &text, &len, &err) < 0)
        return cli_fail(c, &err);
    if (policy_cases_run(policy, policy_len, text, len, on_case, &t, &err) <
        0) {
        (void)error_wrap(&err, "%s", cases);
        (void)cli_fail(c, &err);
        return CLI_EXIT_CODE;
    }
    if (c->json) {
        json_t *out cleanup(json_unref) =
            json_pack("{s:i, s:i, s:O}", "passed", (int)t.passed, "failed",
                      (int)t.failed, "faults", faults);

        cli_print_json(c, out);
    } else {
        (void)printf("%u passed, %u failed\n", t.passed, t.failed);
    }
    return t.failed ? CLI_EXIT_CODE : CLI_EXIT_OK;
}

/* ---- explain ------------------------------------------------------------ */

/* key=value words as the object the service takes too. */
static int parse_request(struct cli *c, const struct cli_words *words,
                         json_t *ret)
{
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        const char *equals = strchr(word, '=');
        char *key cleanup(mem_free) = NULL;
        json_t *value;
        uint64_t number;

        if (!equals || equals == word)
            return cli_usage_error(c, "'%s' is not KEY=VALUE", word);
        key = xstrndup(word, (size_t)(equals - word));
        if (strcmp(key, "scopes") == 0) {
            value = cli_json_commas(equals + 1);
        } else if (cli_command_listed("code_bytes file_bytes timeout_s "
                                      "output_bytes port",
                                      key)) {
            if (cli_values_size(equals + 1, &number) < 0)
                return cli_usage_error(c, "%s needs a number, not '%s'", key,
                                       equals + 1);
            value = json_integer((json_int_t)number);
        } else {
            value = json_string(equals + 1);
        }
        if (!value)
            return cli_usage_error(c, "'%s' is not text", word);
        (void)json_object_set_new(ret, key, value);
    }
    if (!json_object_get(ret, "action"))
        (void)json_object_set_new(ret, "action", json_string("execute"));
    return CLI_EXIT_OK;
}

static int explain_file(const struct policy_flags *p, json_t *request,
                        json_t **ret, struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    struct buf out cleanup(buf_done) = {0};
    size_t len = 0;
    int r = policy_zone_set(p->zone ? p->zone : "", err);

    if (r == 0)
        r = read_policy(p->file, &text, &len, err);
    if (r == 0 &&
        (r = policy_explain_request(text, len, request, &out, err)) < 0)
        (void)error_wrap(err, "%s", p->file);
    if (r == 0)
        *ret = cli_json_load(out.data, out.len);
    return r;
}

static void print_layer(const json_t *layer)
{
    const json_t *rule, *one;
    size_t i, k;

    (void)printf("  %s: %s, by %s\n", cli_json_text(layer, "layer", ""),
                 cli_json_text(layer, "verdict", ""),
                 cli_json_text(layer, "rule", ""));
    json_array_foreach (json_object_get(layer, "rules"), i, rule) {
        if (!json_is_true(json_object_get(rule, "asked")))
            break;
        (void)printf("    %s: %s\n", cli_json_text(rule, "rule", ""),
                     json_is_true(json_object_get(rule, "matches"))
                         ? cli_json_text(rule, "then", "")
                         : "does not match");
        json_array_foreach (json_object_get(rule, "conditions"), k, one)
            (void)printf(
                "      %s %s: wants %s, is %s\n",
                json_is_true(json_object_get(one, "holds")) ? "yes" : "no ",
                cli_json_text(one, "key", ""), cli_json_text(one, "wants", ""),
                cli_json_text(one, "is", "not there"));
    }
}

static void print_explanation(const json_t *why)
{
    const json_t *limit = json_object_get(why, "limit");
    const json_t *versions = json_object_get(why, "versions");

    (void)printf("%s: rule '%s' of %s", cli_json_text(why, "verdict", ""),
                 cli_json_text(why, "rule", ""),
                 cli_json_text(why, "layer", ""));
    if (cli_json_number(why, "version"))
        (void)printf(", version %llu",
                     (unsigned long long)cli_json_number(why, "version"));
    if (cli_json_text(why, "reason", NULL))
        (void)printf(": %s", cli_json_text(why, "reason", ""));
    (void)puts("");
    if (cli_json_number(limit, "timeout_s"))
        (void)printf("at most %llu seconds\n",
                     (unsigned long long)cli_json_number(limit, "timeout_s"));
    if (cli_json_number(limit, "output_bytes"))
        (void)printf(
            "at most %llu bytes of output\n",
            (unsigned long long)cli_json_number(limit, "output_bytes"));
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const json_t *one = json_array_get(versions, i);
        const json_t *layers = json_object_get(one, "layers");

        if (json_array_size(versions) > 1)
            (void)printf("version %llu (%s)\n",
                         (unsigned long long)cli_json_number(one, "version"),
                         cli_json_text(one, "held", ""));
        for (size_t k = 0; k < json_array_size(layers); k++)
            print_layer(json_array_get(layers, k));
    }
}

static int explain_policy(struct cli *c, const struct cli_words *words,
                          void *arg)
{
    const struct policy_flags *p = arg;
    json_t *request cleanup(json_unref) = json_object();
    json_t *body cleanup(json_unref) = NULL;
    json_t *why cleanup(json_unref) = NULL;
    struct error err;
    int status = parse_request(c, words, request);
    int r;

    if (status != CLI_EXIT_OK)
        return status;
    if (p->file) {
        r = explain_file(p, request, &why, &err);
    } else {
        body = json_pack("{s:O, s:s*}", "request", request, "session",
                         p->session);
        r = cli_http_json(c, "POST", "/api/policy/explain", body, &why, &err);
    }
    if (r < 0)
        return cli_fail(c, &err);
    if (c->json)
        cli_print_json(c, why);
    else
        print_explanation(why);
    return CLI_EXIT_OK;
}

/* ---- the command -------------------------------------------------------- */

static const struct cli_column columns[] = {
    {"VERSION", "version", .kind = CLI_COLUMN_NUMBER},
    {"AT", "at", .kind = CLI_COLUMN_TIME},
    {"BY", .cell = add_author},
    {"NOTE", .member = "note"},
    {"SHA256", .member = "sha256", .wide = true},
    {0},
};

static const struct cli_verb verbs[] = {
    {"show", NULL, NULL, "Show the policy in force, or an earlier version",
     "GET", "/api/policy", .prepare = choose_version, .print = print_policy},
    {"list", "ls", NULL, "List all versions, newest first", "GET",
     "/api/policy/versions", .query = "limit=1000", .columns = columns},
    {"check", NULL, "FILE", "Check that a file is a valid policy",
     .run = check_policy},
    {"test", NULL, "FILE [CASES]", "Run the test cases of a policy",
     .run = test_policy},
    {"explain", NULL, "[KEY=VALUE...]",
     "Explain which rule decides about a request, and why",
     .run = explain_policy},
    {"put", NULL, "FILE", "Put a policy in force", "PUT", "/api/policy",
     .body = "note={--note}", .prepare = add_text,
     .sentence = "Version {version} is in force.", .always = true},
    {"reload", NULL, NULL, "Read the service's policy_file again", "POST",
     "/api/policy/reload", .sentence = "Version {version} is in force.",
     .always = true},
    {"adopt", NULL, "SESSION", "Apply only the newest version to a session",
     "POST", "/api/sessions/{SESSION}/policy",
     .sentence = "{SESSION} now uses version {policy_version} of the policy.",
     .always = true},
    {0},
};

#define AT(member) offsetof(struct policy_flags, member)

static const struct cli_option options[] = {
    {"version", 0, CLI_OPT_COUNT, AT(version), "N", "this earlier version",
     "show"},
    {"note", 'n', CLI_OPT_TEXT, AT(note), "TEXT", "what changed, for the list",
     "put"},
    {"file", 'f', CLI_OPT_TEXT, AT(file), "FILE",
     "use this policy, without a service", "explain"},
    {"zone", 0, CLI_OPT_TEXT, AT(zone), "ZONE",
     "time zone of hours and days with --file; else UTC", "explain"},
    {"session", 's', CLI_OPT_TEXT, AT(session), "SESSION",
     "as if this session's code asked", "explain"},
    {0},
};

const struct cli_command cli_policy = {
    .name = "policy",
    .summary = "Policies: show, check, test, explain, put in force",
    .notes =
        "check, test and explain --file need no service. The words of explain\n"
        "are those of `match`: action=execute language=shell pool=default\n"
        "tenant=acme scopes=execute destination=example.org:443 file=x.csv\n"
        "file_type=text/csv file_bytes=1m at=2026-01-31T23:00Z.\n"
        "docs/POLICY.md has the format.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct policy_flags),
    .verbs = verbs,
};
