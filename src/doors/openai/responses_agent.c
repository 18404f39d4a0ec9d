/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A response of a named agent: the definition of the agent fills the body of
 * the request, with templates expanded. What the definition settles, the
 * request may repeat but not change. Runs on a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "agents/agents.h"
#include "base/mem.h"
#include "doors/openai/responses.h"
#include "json/json.h"

/* The reference of the body, or of the path. false: there is none. */
static bool find_reference(struct doors_call *call, const json_t *body,
                           const char **ret_name, const char **ret_version,
                           bool *ret_endpoint)
{
    const char *place = call->place[OPENAI_PLACE_AGENT];
    const json_t *ref = json_object_get(body, "agent_reference");

    if (!json_is_object(ref))
        ref = json_object_get(body, "agent");
    *ret_version = json_string_value(json_object_get(ref, "version"));
    *ret_name = json_string_value(json_object_get(ref, "name"));
    *ret_endpoint = place != NULL;
    if (place && !*ret_name)
        *ret_name = place;
    return *ret_name != NULL;
}

static int refuse_fixed(struct doors_call *call, const char *param,
                        struct error *err)
{
    return openai_invalid(openai_fault(call), "invalid_payload", param, err,
                          "Not allowed when agent is specified.");
}

/* A member that the definition settles. */
static int settle(struct doors_call *call, json_t *body, const char *key,
                  const json_t *value, struct error *err)
{
    const json_t *given = json_object_get(body, key);

    if (given && !json_is_null(given)) {
        if (!value || !json_equal(given, (json_t *)value))
            return refuse_fixed(call, key, err);
        return 0;
    }
    if (value)
        (void)json_object_set(body, key, (json_t *)value);
    return 0;
}

static int expand_instructions(const struct agent_version *v,
                               const json_t *values, json_t *body,
                               struct error *err)
{
    const char *own = json_string_value(json_object_get(body, "instructions"));
    struct buf text cleanup(buf_done) = {0};
    int r = v->instructions
                ? agents_expand(v->instructions, values, &text, err)
                : 0;

    if (r == 0 && own && *own) {
        if (text.len)
            buf_adds(&text, "\n\n");
        r = agents_expand(own, values, &text, err);
    }
    if (r == 0 && text.len)
        (void)json_object_set_new(body, "instructions",
                                  json_stringn(text.data, text.len));
    return r;
}

/* The smaller of two limits, where there are two. */
static void settle_limit(json_t *body, const char *key, int64_t most)
{
    const json_t *given = json_object_get(body, key);

    if (most < 0)
        return;
    if (!json_is_integer(given) || json_integer_value(given) > most)
        (void)json_object_set_new(body, key, json_integer(most));
}

static int apply(struct doors_call *call, const struct agent_version *v,
                 const json_t *values, json_t *body, struct error *err)
{
    json_t *tools = NULL, *input = NULL;
    json_t *model cleanup(json_unref) =
        v->model ? json_string(v->model) : NULL;
    int r;

    if (json_array_size(json_object_get(body, "tools")) > 0)
        return refuse_fixed(call, "tools", err);
    if (json_is_object(json_object_get(body, "text")) &&
        !(v->text &&
          json_equal(json_object_get(body, "text"), (json_t *)v->text)))
        return refuse_fixed(call, "text", err);
    r = settle(call, body, "model", model, err);
    if (r == 0)
        r = settle(call, body, "temperature", v->temperature, err);
    if (r == 0)
        r = settle(call, body, "top_p", v->top_p, err);
    if (r == 0)
        r = settle(call, body, "reasoning", v->reasoning, err);
    if (r == 0 && v->text)
        (void)json_object_set(body, "text", (json_t *)v->text);
    if (r == 0 && v->tool_choice && !json_object_get(body, "tool_choice"))
        (void)json_object_set(body, "tool_choice", (json_t *)v->tool_choice);
    if (r == 0)
        r = expand_instructions(v, values, body, err);
    if (r == 0)
        r = agents_expand_tools(v->tools, values, &tools, err);
    if (r == 0 && tools)
        (void)json_object_set_new(body, "tools", tools);
    if (r == 0 && json_object_get(body, "input"))
        r = agents_expand_input(json_object_get(body, "input"), values, &input,
                                err);
    if (r == 0 && input)
        (void)json_object_set_new(body, "input", input);
    settle_limit(body, "max_tool_calls", v->max_tool_calls);
    settle_limit(body, "max_output_tokens", v->max_output_tokens);
    return r;
}

/* Inputs of a request without an agent fill its own instructions, messages and
 * tools. */
static int expand_request(const json_t *values, json_t *body,
                          struct error *err)
{
    const char *own = json_string_value(json_object_get(body, "instructions"));
    const json_t *tools = json_object_get(body, "tools");
    const json_t *input = json_object_get(body, "input");
    struct buf text cleanup(buf_done) = {0};
    json_t *expanded = NULL;
    int r = own ? agents_expand(own, values, &text, err) : 0;

    if (r == 0 && own)
        (void)json_object_set_new(body, "instructions",
                                  json_stringn(text.data, text.len));
    if (r == 0 && json_is_array(tools)) {
        r = agents_expand_tools(tools, values, &expanded, err);
        if (r == 0)
            (void)json_object_set_new(body, "tools", expanded);
    }
    if (r == 0 && json_is_array(input)) {
        r = agents_expand_input(input, values, &expanded, err);
        if (r == 0)
            (void)json_object_set_new(body, "input", expanded);
    }
    return r;
}

int responses_agent(struct doors_call *call, const json_t *body,
                    struct responses_request *ret, struct error *err)
{
    struct agent_version v cleanup(agent_version_done) = {.description = NULL};
    json_t *values cleanup(json_unref) = NULL;
    const char *name, *version, *place = call->place[OPENAI_PLACE_AGENT];
    bool endpoint;
    int r;

    ret->body = json_deep_copy((json_t *)body);
    if (!json_is_object(body))
        return 0;
    if (!find_reference(call, body, &name, &version, &endpoint)) {
        const json_t *given = json_object_get(body, "structured_inputs");

        return json_object_size(given) ? expand_request(given, ret->body, err)
                                       : 0;
    }
    if (place && strcmp(place, name) != 0)
        return openai_invalid(
            openai_fault(call), "invalid_payload", "agent_reference", err,
            "This endpoint belongs to the agent '%.64s'.", place);
    r = agents_find(call->doors->agents, &call->actor, name, version,
                    endpoint ? AGENTS_ENDPOINT : AGENTS_LATEST, &v, err);
    if (r == -ERR_NOT_FOUND)
        openai_fault(call)->code = "not_found";
    if (r == -ERR_FORBIDDEN)
        openai_fault(call)->code = "agent_disabled";
    if (r == 0)
        r = agents_inputs(v.structured_inputs,
                          json_object_get(body, "structured_inputs"), &values,
                          openai_fault(call)->param, err);
    if (r == 0)
        r = apply(call, &v, values, ret->body, err);
    if (r < 0)
        return r;
    ret->agent = true;
    ret->agent_seconds = v.max_seconds;
    (void)snprintf(ret->agent_name, sizeof(ret->agent_name), "%s", v.name);
    (void)snprintf(ret->agent_version, sizeof(ret->agent_version), "%lld",
                   (long long)v.number);
    return 0;
}
