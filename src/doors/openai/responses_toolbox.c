/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool {"type": "mcp", "server_label": "glovebox"} of a request: the
 * service's own tools for files, search and reports (chat/toolbox.c). Other
 * MCP servers are not called. Runs on a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "doors/openai/responses.h"
#include "json/json.h"

#define NAMES_MAX 64u

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int refuse(struct doors_call *call, const char *code, const char *at,
                  const char *member, const char *why, struct error *err)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "%.48s.%.40s", at, member);
    return openai_invalid(openai_fault(call), code, path, err, "%s: '%s'. %s",
                          strcmp(code, "unknown_parameter") == 0
                              ? "Unknown parameter"
                              : "Invalid value",
                          path, why);
}

static int check_members(struct doors_call *call, const json_t *tool,
                         const char *at, struct error *err)
{
    static const char *const known[] = {
        "type",          "server_label",     "server_url",
        "allowed_tools", "require_approval", "server_description",
        "defer_loading", "tool_configs",     NULL};
    const char *key;
    json_t *v;

    json_object_foreach ((json_t *)tool, key, v) {
        bool found = json_is_null(v);

        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (!found)
            return refuse(call, "unknown_parameter", at, key,
                          "The server '" CHAT_BOX_LABEL
                          "' is this service: it takes no credentials and no "
                          "headers.",
                          err);
    }
    return 0;
}

/* Names, or a filter {tool_names, read_only}. */
static int read_allowed(struct doors_call *call, const json_t *allowed,
                        const char *at, struct responses_request *ret,
                        struct error *err)
{
    const json_t *names = allowed;
    json_t *v;
    size_t i;

    if (!allowed || json_is_null(allowed))
        return 0;
    if (json_is_object(allowed)) {
        ret->chat.box_read_only =
            json_is_true(json_object_get(allowed, "read_only"));
        names = json_object_get(allowed, "tool_names");
        if (!names || json_is_null(names))
            return 0;
    }
    if (!json_is_array(names) || json_array_size(names) > NAMES_MAX)
        return refuse(call, "invalid_type", at, "allowed_tools",
                      "Expected an array of at most 64 names, or an object "
                      "with 'tool_names' and 'read_only'.",
                      err);
    json_array_foreach ((json_t *)names, i, v)
        if (!json_is_string(v))
            return refuse(call, "invalid_type", at, "allowed_tools",
                          "Expected names.", err);
    ret->chat.box_names = names;
    return 0;
}

int responses_toolbox(struct doors_call *call, const json_t *tool,
                      const char *at, struct responses_request *ret,
                      struct error *err)
{
    const char *label = text_of(tool, "server_label");
    const json_t *url = json_object_get(tool, "server_url");
    const json_t *approval = json_object_get(tool, "require_approval");
    int r;

    if (!label || strcmp(label, CHAT_BOX_LABEL) != 0)
        return refuse(
            call, "unsupported_value", at, "server_label",
            "This service calls no other MCP servers; the server '" CHAT_BOX_LABEL
            "' has its own tools.",
            err);
    if (url && !json_is_null(url) &&
        (!json_is_string(url) ||
         strcmp(json_string_value(url), CHAT_BOX_URL) != 0))
        return refuse(call, "unsupported_value", at, "server_url",
                      "Leave it out, or send '" CHAT_BOX_URL "'.", err);
    if (approval && !json_is_null(approval) &&
        (!json_is_string(approval) ||
         strcmp(json_string_value(approval), "never") != 0))
        return refuse(call, "unsupported_value", at, "require_approval",
                      "The policy of this service decides what a person has "
                      "to approve; send 'never' or leave it out.",
                      err);
    if (ret->chat.box)
        return refuse(call, "invalid_value", at, "server_label",
                      "A request names the server '" CHAT_BOX_LABEL "' once.",
                      err);
    r = check_members(call, tool, at, err);
    if (r == 0)
        r = read_allowed(call, json_object_get(tool, "allowed_tools"), at, ret,
                         err);
    ret->chat.box = true;
    ret->chat.scopes = call->who.scopes;
    ret->chat.base_url = doors_url_base(call);
    return r;
}
