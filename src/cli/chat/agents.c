/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox agents: named agents and their versions. A definition comes from a
 * YAML or JSON file: the definition itself, or an object with the members
 * definition, description and metadata.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define FILE_MAX (1u << 20)

struct agents_flags {
    const char *description;
    uint64_t version;
    bool draft;
};

/* The members of a body that stand beside the definition in a file. */
static const char *const beside[] = {"description", "metadata", "draft"};

static int add_definition(struct cli_call *call, struct error *err)
{
    const struct agents_flags *flags = call->flags;
    const char *file = call->words->items[1];
    json_t *document cleanup(json_unref) = NULL;
    json_t *body;
    int r = cli_document_read(file, FILE_MAX, &document, err);

    if (r < 0)
        return r;
    if (!json_is_object(document))
        return error_set(err, ERR_INVALID, "%s has no definition of an agent",
                         file);
    body = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
        json_t *v = json_object_get(document, beside[i]);

        if (!v)
            continue;
        (void)json_object_set(body, beside[i], v);
        (void)json_object_del(document, beside[i]);
    }
    (void)json_object_del(document, "name"); /* the line has it */
    (void)json_object_set(body, "definition",
                          json_object_get(document, "definition")
                              ? json_object_get(document, "definition")
                              : document);
    if (flags->description)
        (void)json_object_set_new(body, "description",
                                  json_string(flags->description));
    if (flags->draft)
        (void)json_object_set_new(body, "draft", json_true());
    call->body = body;
    return 0;
}

static int add_named(struct cli_call *call, struct error *err)
{
    int r = add_definition(call, err);

    if (r == 0)
        (void)json_object_set_new(call->body, "name",
                                  json_string(call->words->items[0]));
    return r;
}

static int set_enabled(struct cli_call *call, struct error *err)
{
    (void)err;
    call->body =
        json_pack("{s:b}", "enabled", strcmp(call->verb->name, "enable") == 0);
    return 0;
}

static int choose_version(struct cli_call *call, struct error *err)
{
    const struct agents_flags *flags = call->flags;

    struct buf path = {0};

    (void)err;
    if (!cli_command_given(call->c, "version"))
        return 0;
    buf_adds(&path, "/api/agents/");
    cli_http_escape(&path, call->words->items[0], false);
    buf_addf(&path, "/versions/%llu", (unsigned long long)flags->version);
    call->path = buf_take(&path, NULL);
    return 0;
}

static const json_t *latest_of(const json_t *row)
{
    return json_object_get(row, "latest");
}

static void add_model(const json_t *row, struct buf *out)
{
    const json_t *v = latest_of(row) ? latest_of(row) : row;

    buf_adds(out,
             cli_json_text(json_object_get(v, "definition"), "model", "-"));
}

static void add_latest(const json_t *row, struct buf *out)
{
    buf_addf(out, "%llu",
             (unsigned long long)cli_json_number(latest_of(row), "number"));
}

static void add_description(const json_t *row, struct buf *out)
{
    buf_adds(out, cli_json_text(latest_of(row), "description", ""));
}

static const struct cli_column columns[] = {
    {"NAME", .member = "name"},
    {"LATEST", .member = "latest", .cell = add_latest},
    {"MODEL", .member = "latest", .cell = add_model},
    {"ENABLED", .member = "enabled", .kind = CLI_COLUMN_BOOL, .missing = "no"},
    {"OWNER", .member = "owner_name", .missing = "-"},
    {"UPDATED", .member = "updated_at", .kind = CLI_COLUMN_TIME},
    {"DESCRIPTION", .member = "latest", .cell = add_description},
    {0},
};

static const struct cli_column version_columns[] = {
    {"VERSION", .member = "number", .kind = CLI_COLUMN_NUMBER},
    {"MODEL", .member = "definition", .cell = add_model},
    {"DRAFT", .member = "draft", .kind = CLI_COLUMN_BOOL, .missing = "no"},
    {"CREATED", .member = "created_at", .kind = CLI_COLUMN_TIME},
    {"BY", .member = "created_by_name", .missing = "-"},
    {"DESCRIPTION", .member = "description"},
    {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List agents, newest first", "GET", "/api/agents",
     .columns = columns, .cursor = "name"},
    {"show", "get", "NAME", "Show an agent and its latest version, or one",
     "GET", "/api/agents/{NAME}", .prepare = choose_version},
    {"create", "add", "NAME FILE",
     "Create an agent from a definition in YAML or JSON", "POST",
     "/api/agents", .prepare = add_named,
     .sentence = "Created the agent {NAME}."},
    {"update", NULL, "NAME FILE",
     "Add a version, unless the newest one is the same", "POST",
     "/api/agents/{NAME}/versions", .prepare = add_definition,
     .sentence = "The agent {NAME} has version {number}."},
    {"versions", NULL, "NAME", "List the versions of an agent", "GET",
     "/api/agents/{NAME}/versions", .columns = version_columns,
     .cursor = "number"},
    {"enable", NULL, "NAME", "Let responses refer to an agent again", "PATCH",
     "/api/agents/{NAME}", .prepare = set_enabled,
     .sentence = "Enabled the agent {NAME}."},
    {"disable", NULL, "NAME", "Refuse responses that refer to an agent",
     "PATCH", "/api/agents/{NAME}", .prepare = set_enabled,
     .sentence = "Disabled the agent {NAME}."},
    {"delete", "remove rm", "NAME", "Delete an agent, or one version",
     "DELETE", "/api/agents/{NAME}", .prepare = choose_version,
     .json = "deleted={NAME}", .sentence = "Deleted {NAME}."},
    {0},
};

#define AT(member) offsetof(struct agents_flags, member)

static const struct cli_option options[] = {
    {"version", 0, CLI_OPT_COUNT, AT(version), "N", "this version",
     "show delete"},
    {"description", 0, CLI_OPT_TEXT, AT(description), "TEXT",
     "of the version; else as the file says", "create update"},
    {"draft", 0, CLI_OPT_FLAG, AT(draft), NULL,
     "a version that is used only where it is named", "create update"},
    {0},
};

const struct cli_command cli_agents = {
    .name = "agents",
    .summary = "Named agents: instructions, a model and tools",
    .notes =
        "A definition has the members model, instructions, tools, limits and\n"
        "others; docs/AGENTS.md lists them. FILE is YAML or JSON, - is\n"
        "standard input. Responses refer to an agent by its name.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct agents_flags),
    .verbs = verbs,
};
