/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named agents as Foundry's project client sees them. Clients check the
 * status of each answer exactly: 200 for everything but enabling and
 * disabling, which is 204. Runs on a worker of the daemon.
 */
#include "agents/agents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/foundry/foundry.h"
#include "json/json.h"

#define LIST_MAX 100
#define VERSION_ID (AGENTS_NAME_MAX + 24)

/* ---- answers ------------------------------------------------------------ */

static const char *version_id(const struct agent_version *v,
                              char ret[VERSION_ID])
{
    (void)snprintf(ret, VERSION_ID, "%s:%lld", v->name, (long long)v->number);
    return ret;
}

static void write_json(struct json_writer *w, const char *key, const json_t *v)
{
    char *text cleanup(mem_free) = json_dumps(v, JSON_COMPACT);

    json_write_raw(w, key, text ? text : "null", text ? strlen(text) : 4);
}

static void write_version(struct json_writer *w, const char *key,
                          const struct agent_version *v)
{
    char id[VERSION_ID], number[24];

    (void)snprintf(number, sizeof(number), "%lld", (long long)v->number);
    json_write_open(w, key, '{');
    json_write_string(w, "object", "agent.version");
    json_write_string(w, "id", version_id(v, id));
    json_write_string(w, "name", v->name);
    json_write_string(w, "version", number);
    json_write_string(w, "description", v->description);
    write_json(w, "metadata", v->metadata);
    json_write_int(w, "created_at", v->created_at_ms / 1000);
    json_write_string(w, "status", "active");
    json_write_bool(w, "draft", v->draft);
    write_json(w, "definition", v->definition);
    json_write_close(w, '}');
}

static void write_agent(struct json_writer *w, const struct agent_info *info)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "object", "agent");
    json_write_string(w, "id", info->name);
    json_write_string(w, "name", info->name);
    json_write_string(w, "state", info->enabled ? "enabled" : "disabled");
    json_write_open(w, "versions", '{');
    write_version(w, "latest", &info->latest);
    json_write_close(w, '}');
    if (info->endpoint[0])
        json_write_raw(w, "agent_endpoint", info->endpoint,
                       strlen(info->endpoint));
    if (info->card[0])
        json_write_raw(w, "agent_card", info->card, strlen(info->card));
    json_write_close(w, '}');
}

static void respond_agent(struct doors_call *call,
                          const struct agent_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    write_agent(&w, info);
    foundry_respond(call, &body);
}

static void respond_version(struct doors_call *call,
                            const struct agent_version *v)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    write_version(&w, NULL, v);
    foundry_respond(call, &body);
}

static void list_begin(struct json_writer *w)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "object", "list");
    json_write_open(w, "data", '[');
}

static void list_end(struct json_writer *w, const char *first,
                     const char *last, bool more)
{
    json_write_close(w, ']');
    json_write_string(w, "first_id", first);
    json_write_string(w, "last_id", last);
    json_write_bool(w, "has_more", more);
    json_write_close(w, '}');
}

/* ---- bodies ------------------------------------------------------------- */

/* The name of the path, as Foundry's clients know its rules. */
static int need_name(struct doors_call *call, const char *name,
                     struct error *err)
{
    struct foundry_fault *fault = foundry_fault(call);

    if (agents_name_valid(name))
        return 0;
    fault->code = "invalid_parameters";
    (void)snprintf(fault->param, sizeof(fault->param), "agent_name");
    return error_set(err, ERR_INVALID,
                     "agentName{%.80s}: Must start and end with alphanumeric "
                     "characters, can contain hyphens in the middle, and "
                     "must not exceed 63 characters.",
                     name);
}

static int mismatch(struct doors_call *call, const char *param,
                    struct error *err)
{
    (void)snprintf(foundry_fault(call)->param,
                   sizeof(foundry_fault(call)->param), "%s", param);
    return error_set(err, ERR_INVALID,
                     "The provided data does not match the expected schema");
}

static int read_body(struct doors_call *call, json_t **ret, struct error *err)
{
    int r =
        http_body_json(call->http, call->doors->conf->json_bytes, ret, err);

    if (r == 0 && !json_is_object(*ret))
        return mismatch(call, "/", err);
    return r;
}

/* Members of a body that are not the definition's; each may be absent. */
static int read_spec(struct doors_call *call, const json_t *body,
                     struct agent_spec *ret, struct error *err)
{
    const json_t *description = json_object_get(body, "description");
    const json_t *draft = json_object_get(body, "draft");
    const json_t *state = json_object_get(body, "state");

    ret->definition = json_object_get(body, "definition");
    ret->metadata = json_object_get(body, "metadata");
    ret->endpoint = json_object_get(body, "agent_endpoint");
    ret->card = json_object_get(body, "agent_card");
    ret->description = json_string_value(description);
    ret->draft = json_is_true(draft);
    ret->enabled = -1;
    if (description && !json_is_null(description) &&
        !json_is_string(description))
        return mismatch(call, "description", err);
    if (draft && !json_is_null(draft) && !json_is_boolean(draft))
        return mismatch(call, "draft", err);
    if (state && !json_is_null(state)) {
        const char *word = json_string_value(state);

        if (!word ||
            (strcmp(word, "enabled") != 0 && strcmp(word, "disabled") != 0))
            return mismatch(call, "state", err);
        ret->enabled = strcmp(word, "enabled") == 0;
    }
    if (json_is_null(ret->endpoint))
        ret->endpoint = NULL;
    if (json_is_null(ret->card))
        ret->card = NULL;
    return ret->definition ? 0 : mismatch(call, "definition", err);
}

static int put(struct doors_call *call, struct agent_spec *spec,
               enum agents_mode mode, struct agent_info *ret,
               struct error *err)
{
    struct foundry_fault *fault = foundry_fault(call);
    struct agents_fault found = {.param = ""};
    bool made = false;
    int r = agents_put(call->doors->agents, &call->actor, spec, mode, ret,
                       &made, &found, err);

    if (r < 0 && found.param[0])
        memcpy(fault->param, found.param, sizeof(fault->param));
    return r;
}

/* ---- agents ------------------------------------------------------------- */

int foundry_agents_create(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    json_t *body cleanup(json_unref) = NULL;
    struct agent_spec spec = {.name = NULL};
    int r = read_body(call, &body, err);

    if (r < 0)
        return r;
    spec.name = json_string_value(json_object_get(body, "name"));
    if (!spec.name)
        return mismatch(call, "name", err);
    r = need_name(call, spec.name, err);
    if (r == 0)
        r = read_spec(call, body, &spec, err);
    if (r == 0)
        r = put(call, &spec, AGENTS_EITHER, &info, err);
    if (r == 0)
        respond_agent(call, &info);
    return r;
}

/* "name:enable" or "name:disable", cut at the colon. -1: neither. */
static int split_verb(struct doors_call *call, const char **ret_name)
{
    const char *name = call->params[0], *colon = strrchr(name, ':');
    int enabled = !colon                           ? -1
                  : strcmp(colon, ":enable") == 0  ? 1
                  : strcmp(colon, ":disable") == 0 ? 0
                                                   : -1;

    *ret_name = enabled < 0 ? name
                            : arena_printf(http_arena(call->http), "%.*s",
                                           (int)(colon - name), name);
    return enabled;
}

int foundry_agents_update(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    json_t *body cleanup(json_unref) = NULL;
    struct agent_spec spec = {.enabled = -1};
    int enabled = split_verb(call, &spec.name);
    int r;

    if (enabled < 0 && strchr(spec.name, ':'))
        return error_set(err, ERR_NOT_FOUND, "no such path");
    r = need_name(call, spec.name, err);
    if (r < 0)
        return r;
    if (enabled >= 0) {
        spec.enabled = enabled;
        r = agents_change(call->doors->agents, &call->actor, &spec, &info,
                          NULL, err);
        if (r == 0)
            foundry_respond_empty(call);
        return r;
    }
    r = read_body(call, &body, err);
    if (r == 0)
        r = read_spec(call, body, &spec, err);
    if (r == 0)
        r = put(call, &spec, AGENTS_UPDATE, &info, err);
    if (r == 0)
        respond_agent(call, &info);
    return r;
}

int foundry_agents_patch(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    json_t *body cleanup(json_unref) = NULL;
    struct agent_spec spec = {.name = call->params[0], .enabled = -1};
    struct agents_fault found = {.param = ""};
    int r = need_name(call, spec.name, err);

    if (r == 0)
        r = read_body(call, &body, err);
    if (r < 0)
        return r;
    spec.endpoint = json_object_get(body, "agent_endpoint");
    spec.card = json_object_get(body, "agent_card");
    r = agents_change(call->doors->agents, &call->actor, &spec, &info, &found,
                      err);
    if (r < 0 && found.param[0])
        memcpy(foundry_fault(call)->param, found.param, sizeof(found.param));
    if (r == 0)
        respond_agent(call, &info);
    return r;
}

int foundry_agents_get(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    int r = need_name(call, call->params[0], err);

    if (r == 0)
        r = agents_get(call->doors->agents, &call->actor, call->params[0],
                       &info, err);
    if (r == 0)
        respond_agent(call, &info);
    return r;
}

int foundry_agents_delete(struct doors_call *call, struct error *err)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = need_name(call, call->params[0], err);

    if (r == 0)
        r = agents_delete(call->doors->agents, &call->actor, call->params[0],
                          err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "object", "agent.deleted");
    json_write_string(&w, "name", call->params[0]);
    json_write_bool(&w, "deleted", true);
    json_write_close(&w, '}');
    foundry_respond(call, &body);
    return 0;
}

/* ---- lists -------------------------------------------------------------- */

static int read_page(struct doors_call *call, struct agents_page *ret,
                     struct error *err)
{
    const char *order = NULL, *drafts = NULL;
    int64_t limit = LIST_MAX;
    int r = doors_query_int(call, "limit", 1, LIST_MAX, LIST_MAX, &limit, err);

    if (r == 0)
        r = http_query(call->http, "order", &order, err);
    if (r == 0)
        r = http_query(call->http, "after", &ret->after, err);
    if (r == 0)
        r = http_query(call->http, "before", &ret->before, err);
    if (r == 0)
        r = http_query(call->http, "include_drafts", &drafts, err);
    if (r < 0)
        return r;
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        (void)snprintf(foundry_fault(call)->param,
                       sizeof(foundry_fault(call)->param), "order");
        return error_set(err, ERR_INVALID, "order must be asc or desc");
    }
    if (ret->after && !*ret->after)
        ret->after = NULL;
    if (ret->before && !*ret->before)
        ret->before = NULL;
    ret->limit = (unsigned)limit;
    ret->oldest_first = order && strcmp(order, "asc") == 0;
    ret->drafts = drafts && strcmp(drafts, "true") == 0;
    return 0;
}

/* Agents of another kind than "prompt" do not exist here. */
static bool other_kind(struct doors_call *call)
{
    struct error ignored;
    const char *kind = NULL;

    return http_query(call->http, "kind", &kind, &ignored) == 0 && kind &&
           *kind && strcmp(kind, "prompt") != 0;
}

int foundry_agents_list(struct doors_call *call, struct error *err)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct agents_page page = {.limit = 0};
    struct agent_info *list = NULL;
    size_t count = 0;
    bool more = false;
    int r = read_page(call, &page, err);

    if (r == 0 && !other_kind(call))
        r = agents_list(call->doors->agents, &call->actor, &page, &list,
                        &count, &more, err);
    if (r < 0)
        return r;
    list_begin(&w);
    for (size_t i = 0; i < count; i++)
        write_agent(&w, &list[i]);
    list_end(&w, count ? list[0].name : NULL,
             count ? list[count - 1].name : NULL, more);
    foundry_respond(call, &body);
    agent_infos_free(list, count);
    return 0;
}

/* ---- versions ----------------------------------------------------------- */

int foundry_versions_create(struct doors_call *call, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    json_t *body cleanup(json_unref) = NULL;
    struct agent_spec spec = {.name = call->params[0]};
    int r = need_name(call, spec.name, err);

    if (r == 0)
        r = read_body(call, &body, err);
    if (r == 0)
        r = read_spec(call, body, &spec, err);
    if (r == 0)
        r = put(call, &spec, AGENTS_EITHER, &info, err);
    if (r == 0)
        respond_version(call, &info.put);
    return r;
}

int foundry_versions_get(struct doors_call *call, struct error *err)
{
    struct agent_version v cleanup(agent_version_done) = {.number = 0};
    int r = need_name(call, call->params[0], err);

    if (r == 0)
        r = agents_version(call->doors->agents, &call->actor, call->params[0],
                           call->params[1], &v, err);
    if (r == 0)
        respond_version(call, &v);
    return r;
}

int foundry_versions_delete(struct doors_call *call, struct error *err)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = need_name(call, call->params[0], err);

    if (r == 0)
        r = agents_delete_version(call->doors->agents, &call->actor,
                                  call->params[0], call->params[1], err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "object", "agent.version.deleted");
    json_write_string(&w, "name", call->params[0]);
    json_write_string(&w, "version", call->params[1]);
    json_write_bool(&w, "deleted", true);
    json_write_close(&w, '}');
    foundry_respond(call, &body);
    return 0;
}

int foundry_versions_list(struct doors_call *call, struct error *err)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct agents_page page = {.limit = 0};
    struct agent_version *list = NULL;
    char first[VERSION_ID], last[VERSION_ID];
    size_t count = 0;
    bool more = false;
    int r = need_name(call, call->params[0], err);

    if (r == 0)
        r = read_page(call, &page, err);
    if (r == 0)
        r = agents_versions(call->doors->agents, &call->actor, call->params[0],
                            &page, &list, &count, &more, err);
    if (r < 0)
        return r;
    list_begin(&w);
    for (size_t i = 0; i < count; i++)
        write_version(&w, NULL, &list[i]);
    list_end(&w, count ? version_id(&list[0], first) : NULL,
             count ? version_id(&list[count - 1], last) : NULL, more);
    foundry_respond(call, &body);
    agent_versions_free(list, count);
    return 0;
}
