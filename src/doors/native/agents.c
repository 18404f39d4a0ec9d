/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/agents: named agents and their versions. Runs on a worker of the
 * daemon. A definition goes in and comes out as JSON; agents/ checks it.
 */
#include <string.h>

#include "agents/agents.h"
#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_MAX 1000
#define LIST_USUAL 50

/* ---- bodies ------------------------------------------------------------- */

struct agent_body {
    const char *name, *description;
    json_t *definition, *metadata;
    bool draft, enabled;
};

#define BODY(member) API_AT(struct agent_body, member)

static const struct api_field version_spec_fields[] = {
    {"definition", API_OBJECT, API_REQUIRED, BODY(definition),
     .help = "model, instructions, tools, limits and others; docs/AGENTS.md"},
    {"description", API_STRING, BODY(description),
     .max = 4 * AGENTS_DESCRIPTION_MAX, .help = "at most 512 characters"},
    {"metadata", API_OBJECT, BODY(metadata),
     .help = "at most 16 strings by name"},
    {"draft", API_BOOL, BODY(draft),
     .help = "used only where it is named; false unless set"},
};
API_INPUT(native_agent_version_spec, "AgentVersionSpec", struct agent_body,
          version_spec_fields, "A version of an agent.");

static const struct api_field agent_spec_fields[] = {
    {"name", API_STRING, API_REQUIRED, BODY(name), .min = 1,
     .max = AGENTS_NAME_MAX,
     .help = "letters, digits and hyphens, no hyphen at either end"},
};
API_INPUT_OF(native_agent_spec, "AgentSpec", &native_agent_version_spec,
             struct agent_body, agent_spec_fields,
             "An agent and its first version.");

static const struct api_field agent_patch_fields[] = {
    {"enabled", API_BOOL, API_REQUIRED, BODY(enabled),
     .help = "false: responses that refer to it are refused"},
};
API_INPUT(native_agent_patch, "AgentPatch", struct agent_body,
          agent_patch_fields, "What of an agent can be changed.");

/* ---- answers ------------------------------------------------------------ */

struct version_view {
    const char *name, *description, *created_by;
    int64_t number, created_at_ms;
    bool draft;
    const char *metadata, *definition; /* JSON */
};

#define VERSION(member) API_AT(struct version_view, member)

static const struct api_field version_fields[] = {
    {"name", API_STRING, VERSION(name)},
    {"number", API_INT, VERSION(number)},
    {"description", API_STRING, VERSION(description)},
    {"metadata", API_OBJECT, VERSION(metadata)},
    {"draft", API_BOOL, VERSION(draft)},
    {"definition", API_OBJECT, VERSION(definition), .help = "as it was sent"},
    {"created_by", API_STRING, VERSION(created_by)},
    {"created_by_name", API_STRING, API_NULLABLE | API_NAME_OF,
     VERSION(created_by)},
    {"created_at", API_TIME, VERSION(created_at_ms)},
};
API_OUTPUT(native_agent_version, "AgentVersion", struct version_view,
           version_fields, "A version of an agent; it never changes.");

struct agent_view {
    const char *name, *owner;
    bool enabled, shared;
    int64_t versions, created_at_ms, updated_at_ms;
    struct version_view latest;
};

#define AGENT(member) API_AT(struct agent_view, member)

static const struct api_field agent_fields[] = {
    {"name", API_STRING, AGENT(name)},
    {"enabled", API_BOOL, AGENT(enabled)},
    {"shared", API_BOOL, AGENT(shared),
     .help = "every principal of the tenant may change it"},
    {"owner", API_STRING, AGENT(owner)},
    {"owner_name", API_STRING, API_NULLABLE | API_NAME_OF, AGENT(owner)},
    {"versions", API_INT, AGENT(versions), .help = "how many there are"},
    {"latest", API_OBJECT, AGENT(latest), .of = &native_agent_version,
     .help = "the newest that is no draft"},
    {"created_at", API_TIME, AGENT(created_at_ms)},
    {"updated_at", API_TIME, AGENT(updated_at_ms)},
};
API_OUTPUT(native_agent, "Agent", struct agent_view, agent_fields,
           "Instructions, a model and tools under a name.");

static const char *json_text(struct doors_call *call, const json_t *v)
{
    char *text cleanup(mem_free) = json_dumps(v, JSON_COMPACT);

    return arena_strdup(http_arena(call->http), text ? text : "{}");
}

static struct version_view view_version(struct doors_call *call,
                                        const struct agent_version *v)
{
    return (struct version_view){.name = v->name,
                                 .description = v->description,
                                 .created_by = v->created_by,
                                 .number = v->number,
                                 .created_at_ms = v->created_at_ms,
                                 .draft = v->draft,
                                 .metadata = json_text(call, v->metadata),
                                 .definition = json_text(call, v->definition)};
}

static struct agent_view view_agent(struct doors_call *call,
                                    const struct agent_info *info)
{
    return (struct agent_view){.name = info->name,
                               .owner = info->owner,
                               .enabled = info->enabled,
                               .shared = info->shared,
                               .versions = info->versions,
                               .created_at_ms = info->created_at_ms,
                               .updated_at_ms = info->updated_at_ms,
                               .latest = view_version(call, &info->latest)};
}

static void respond_agent(struct doors_call *call, unsigned status,
                          const struct agent_info *info)
{
    struct agent_view view = view_agent(call, info);

    native_respond(call, status, &native_agent, &view);
}

/* ---- making and changing ------------------------------------------------ */

/* The native door lets the kind out: there is one. */
static struct agent_spec spec_of(const struct agent_body *b, const char *name)
{
    if (!json_object_get(b->definition, "kind"))
        (void)json_object_set_new(b->definition, "kind",
                                  json_string("prompt"));
    return (struct agent_spec){.name = name,
                               .definition = b->definition,
                               .description = b->description,
                               .metadata = b->metadata,
                               .draft = b->draft,
                               .enabled = -1};
}

int native_agents_create(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    json_t *json cleanup(json_unref) = NULL;
    struct agent_body b = {0};
    struct agent_spec spec;
    bool made;
    int r = native_read(call, &native_agent_spec, &b, &json, err);

    if (r < 0)
        return r;
    spec = spec_of(&b, b.name);
    r = agents_put(call->doors->agents, &call->actor, &spec, AGENTS_CREATE,
                   &info, &made, NULL, err);
    if (r == 0)
        respond_agent(call, 201, &info);
    return r;
}

int native_agents_patch(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    json_t *json cleanup(json_unref) = NULL;
    struct agent_body b = {0};
    int r = native_read(call, &native_agent_patch, &b, &json, err);

    if (r == 0)
        r = agents_change(call->doors->agents, &call->actor,
                          &(struct agent_spec){.name = call->params[0],
                                               .enabled = b.enabled},
                          &info, NULL, err);
    if (r == 0)
        respond_agent(call, 200, &info);
    return r;
}

/* 200 when the newest version says the same already. */
int native_agents_add_version(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    json_t *json cleanup(json_unref) = NULL;
    struct version_view view;
    struct agent_body b = {0};
    struct agent_spec spec;
    bool is_new = false;
    int r = native_read(call, &native_agent_version_spec, &b, &json, err);

    if (r < 0)
        return r;
    spec = spec_of(&b, call->params[0]);
    r = agents_put(call->doors->agents, &call->actor, &spec, AGENTS_UPDATE,
                   &info, &is_new, NULL, err);
    if (r < 0)
        return r;
    view = view_version(call, &info.put);
    native_respond(call, is_new ? 201 : 200, &native_agent_version, &view);
    return 0;
}

int native_agents_delete(struct doors_call *call, struct error *err)
{
    int r =
        agents_delete(call->doors->agents, &call->actor, call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_agents_delete_version(struct doors_call *call, struct error *err)
{
    int r = agents_delete_version(call->doors->agents, &call->actor,
                                  call->params[0], call->params[1], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

/* ---- looking ------------------------------------------------------------ */

int native_agents_get(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    int r = agents_get(call->doors->agents, &call->actor, call->params[0],
                       &info, err);

    if (r == 0)
        respond_agent(call, 200, &info);
    return r;
}

int native_agents_list(struct doors_call *call, struct error *err)
{
    struct agents_page page = {.drafts = true};
    struct agent_info *list = NULL;
    struct agent_view *views cleanup(mem_free) = NULL;
    size_t count = 0;
    bool more = false;
    int r = native_ask_page(call, LIST_MAX, LIST_USUAL, &page.limit,
                            &page.after, err);

    if (r == 0)
        r = agents_list(call->doors->agents, &call->actor, &page, &list,
                        &count, &more, err);
    if (r < 0)
        return r;
    views = xcalloc(count + 1, sizeof(*views));
    for (size_t i = 0; i < count; i++)
        views[i] = view_agent(call, &list[i]);
    native_respond_list(call, &native_agent, views, count, more);
    agent_infos_free(list, count);
    return 0;
}

int native_agents_version(struct doors_call *call, struct error *err)
{
    struct agent_version v cleanup(agent_version_done) = {.number = 0};
    struct version_view view;
    int r = agents_version(call->doors->agents, &call->actor, call->params[0],
                           call->params[1], &v, err);

    if (r < 0)
        return r;
    view = view_version(call, &v);
    native_respond(call, 200, &native_agent_version, &view);
    return 0;
}

int native_agents_versions(struct doors_call *call, struct error *err)
{
    struct agents_page page = {.drafts = true};
    struct version_view *views cleanup(mem_free) = NULL;
    struct agent_version *list = NULL;
    size_t count = 0;
    bool more = false;
    int r = native_ask_page(call, LIST_MAX, LIST_USUAL, &page.limit,
                            &page.after, err);

    if (r == 0)
        r = agents_versions(call->doors->agents, &call->actor, call->params[0],
                            &page, &list, &count, &more, err);
    if (r < 0)
        return r;
    views = xcalloc(count + 1, sizeof(*views));
    for (size_t i = 0; i < count; i++)
        views[i] = view_version(call, &list[i]);
    native_respond_list(call, &native_agent_version, views, count, more);
    agent_versions_free(list, count);
    return 0;
}
