/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox quota: a tenant's limits and usage, and setting the limits. */
#include <string.h>

#include "base/mem.h"
#include "cli/common.h"

/* "memory_bytes=4g", "executions=none", "cpu_s_per_hour=default". */
static bool add_limit(json_t *body, const char *word)
{
    const char *text = strchr(word, '=');
    json_t *value = NULL;
    char name[40];
    uint64_t n;

    if (!text || text == word || (size_t)(text - word) >= sizeof(name))
        return false;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(text - word), word);
    text++;
    if (strcmp(text, "default") == 0)
        value = json_null();
    else if (strcmp(text, "none") == 0)
        value = json_integer(0);
    else if (cli_values_size(text, &n) == 0 && n <= INT64_MAX)
        value = json_integer((json_int_t)n);
    return value && json_object_set_new(body, name, value) == 0;
}

static int add_limits(struct cli_call *call, struct error *err)
{
    (void)err;
    call->body = json_object();
    for (size_t i = 1; i < call->words->count; i++)
        if (!add_limit(call->body, call->words->items[i]))
            return cli_usage_error(call->c,
                                   "'%s' is not NAME=VALUE, where VALUE is a "
                                   "number, a size, none or default",
                                   call->words->items[i]);
    return 0;
}

/* Without a tenant: the key's own. */
static int choose_tenant(struct cli_call *call, struct error *err)
{
    (void)err;
    if (!call->words->count)
        call->path = xstrdup("/api/quotas");
    return 0;
}

static const struct cli_column columns[] = {
    {"QUOTA", .member = "name"},
    {"USED", "used", .kind = CLI_COLUMN_NUMBER},
    {"LIMIT", "limit", CLI_COLUMN_NUMBER, .missing = "none"},
    {"RESETS AT", "resets_at", .kind = CLI_COLUMN_TIME},
    {"SET BY", "own", CLI_COLUMN_BOOL, .missing = "default",
     .yes = "operator"},
    {0},
};

static const struct cli_verb verbs[] = {
    {"show", NULL, "[TENANT]",
     "Show the limits and usage of a tenant; else of yours", "GET",
     "/api/quotas/{TENANT}", .prepare = choose_tenant, .columns = columns,
     .list = "quotas"},
    {"set", NULL, "TENANT NAME=VALUE...", "Set limits of a tenant", "PUT",
     "/api/quotas/{TENANT}", .prepare = add_limits, .columns = columns,
     .list = "quotas"},
    {0},
};

const struct cli_command cli_quota = {
    .name = "quota",
    .summary = "Limits and usage of tenants",
    .notes =
        "NAME is one of live_sessions, executions, memory_bytes,\n"
        "creations_per_s, executions_per_hour, cpu_s_per_hour,\n"
        "egress_bytes_per_day, output_tokens_per_hour, model_tokens_per_day,\n"
        "model_microcents_per_day, key_model_tokens_per_day,\n"
        "key_model_microcents_per_day, storage_bytes. TENANT key:KEY_ID is\n"
        "a single key, for the limits whose names begin with key_. VALUE\n"
        "is a number or a size (512m, 4g), none, or default: what the\n"
        "configuration says. Other tenants' quotas, and setting any, need a\n"
        "key of scope policy:admin of the tenant default.\n",
    .online = true,
    .verbs = verbs,
};
