/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox quota: what a tenant may have and what it has used, and an
 * operator's word on it.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

static void print_table(const json_t *quotas)
{
    static const char *const headings[] = {"QUOTA", "USED", "LIMIT",
                                           "RESETS AT", "SET BY"};
    struct cli_table *table cleanup(cli_table_free) =
        cli_table_new(headings, ARRAY_SIZE(headings));
    struct buf text cleanup(buf_done) = {0};

    for (size_t i = 0; i < json_array_size(quotas); i++) {
        const json_t *q = json_array_get(quotas, i);
        char used[24], most[24] = "none";
        const char *cells[] = {
            cli_json_text(q, "name", ""),
            used,
            most,
            cli_json_text(q, "resets_at", ""),
            json_is_true(json_object_get(q, "own")) ? "operator" : "default",
        };

        (void)snprintf(used, sizeof(used), "%" PRIu64,
                       cli_json_number(q, "used"));
        if (json_is_integer(json_object_get(q, "limit")))
            (void)snprintf(most, sizeof(most), "%" PRIu64,
                           cli_json_number(q, "limit"));
        cli_table_row(table, cells);
    }
    cli_table_print(table, &text);
    (void)fputs(text.data, stdout);
}

static void print_answer(const struct cli *c, const json_t *answer)
{
    if (c->json)
        cli_print_json(answer);
    else
        print_table(json_object_get(answer, "quotas"));
}

static int ask(struct cli *c, const char *method, const char *tenant,
               const json_t *body, json_t **ret, struct error *err)
{
    struct buf path cleanup(buf_done) = {0};

    buf_adds(&path, "/api/quotas");
    if (tenant) {
        buf_adds(&path, "/");
        cli_http_escape(&path, tenant, false);
    }
    return cli_http_json(c, method, path.data, body, ret, err);
}

static int show(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    if (ask(c, "GET", words->count ? words->items[0] : NULL, NULL, &answer,
            &err) < 0)
        return cli_fail(c, &err);
    print_answer(c, answer);
    return CLI_EXIT_OK;
}

/* "memory_bytes=4g", "executions=none", "cpu_s_per_hour=default". */
static bool add_value(json_t *body, const char *word)
{
    const char *is = strchr(word, '=');
    char name[40];
    json_t *value;
    uint64_t n;

    if (!is || is == word || (size_t)(is - word) >= sizeof(name))
        return false;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(is - word), word);
    is++;
    if (strcmp(is, "default") == 0)
        value = json_null();
    else if (strcmp(is, "none") == 0 || strcmp(is, "0") == 0)
        value = json_integer(0);
    else if (cli_values_size(is, &n) == 0 && n <= INT64_MAX)
        value = json_integer((json_int_t)n);
    else
        return false;
    (void)json_object_set_new(body, name, value);
    return true;
}

static int set(struct cli *c, const struct cli_words *words, void *arg)
{
    json_t *body cleanup(json_unref) = json_object();
    json_t *answer cleanup(json_unref) = NULL;
    struct error err;

    (void)arg;
    for (size_t i = 1; i < words->count; i++)
        if (!add_value(body, words->items[i]))
            return cli_usage_error(c,
                                   "'%s' is not NAME=VALUE, where VALUE is a "
                                   "number, a size, none or default",
                                   words->items[i]);
    if (ask(c, "PUT", words->items[0], body, &answer, &err) < 0)
        return cli_fail(c, &err);
    print_answer(c, answer);
    return CLI_EXIT_OK;
}

static const struct cli_subverb verbs[] = {
    {"show", 0, 1, show},
    {"set", 2, CLI_WORDS_MAX, set},
};

int cli_quota(int argc, char **argv)
{
    struct cli c cleanup(cli_done);
    const struct cli_opts opts = {
        NULL, 0,
        "NAME is one of live_sessions, executions, memory_bytes,\n"
        "creations_per_s, executions_per_hour, cpu_s_per_hour,\n"
        "egress_bytes_per_day, output_tokens_per_hour, storage_bytes. VALUE\n"
        "is a number or a size (512m, 4g), none, or default: what the\n"
        "configuration says. Other tenants' quotas, and setting any, need a\n"
        "key of scope policy:admin of the tenant default.\n"};
    struct cli_words words;
    int status;

    cli_init(&c, "quota");
    if (!cli_opts_parse(&c, &opts, argc, argv, &words, &status))
        return status;
    return cli_verb_run(&c, verbs, ARRAY_SIZE(verbs), &words, NULL);
}
