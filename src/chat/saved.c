/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved tools in the loop: those of the workspace that the response's code
 * works on are offered to the model beside the code tool. A call of one
 * becomes code of the code tool, so that it runs, is governed, shown and
 * stored like any other code. Runs in gloveboxd on the thread of a response.
 */
#include <string.h>

#include "agents/tools.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "json/json.h"

#define PREFIX "saved_"
#define OFFERED_MAX 32u /* each costs tokens in every round */

void chat_saved_done(struct chat_response *r)
{
    saved_tools_free(take_ptr(r->saved), r->saved_count);
    r->saved_count = 0;
}

/* Python alone: the code tool is a Python interpreter. */
static void keep_python(struct chat_response *r)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->saved_count; i++) {
        if (r->saved[i].language == EXEC_PYTHON && kept < OFFERED_MAX) {
            struct saved_tool t = r->saved[i];

            r->saved[i] = (struct saved_tool){.number = 0};
            r->saved[kept++] = t;
        } else {
            saved_tool_done(&r->saved[i]);
        }
    }
    r->saved_count = kept;
}

static void load(struct chat_response *r)
{
    struct error err;

    if (r->saved || !r->tool[0] || !r->workspace[0] || !r->chat->parts.agents)
        return;
    if (saved_tools_list(r->chat->parts.agents, &r->owner.who, r->workspace,
                         &r->saved, &r->saved_count, &err) < 0)
        log_event(LOG_DEBUG, "saved_tools_not_offered", "response", r->id,
                  "error", err.message, NULL);
    else
        keep_python(r);
}

void chat_saved_offer(struct chat_response *r, json_t *tools)
{
    load(r);
    for (size_t i = 0; i < r->saved_count; i++) {
        const struct saved_tool *t = &r->saved[i];
        char *name cleanup(mem_free) = xasprintf(PREFIX "%s", t->name);
        char *text cleanup(mem_free) =
            xasprintf("%s%sA saved tool of this workspace.", t->description,
                      t->description[0] ? " " : "");

        (void)json_array_append_new(
            tools,
            chat_pack("{s:s, s:s, s:o, s:O, s:b}", "type", "function", "name",
                      name, "description", chat_text(text, strlen(text)),
                      "parameters", t->parameters, "strict", 0));
    }
}

static const struct saved_tool *find(const struct chat_response *r,
                                     const char *name)
{
    if (!name || strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return NULL;
    for (size_t i = 0; i < r->saved_count; i++)
        if (strcmp(r->saved[i].name, name + strlen(PREFIX)) == 0)
            return &r->saved[i];
    return NULL;
}

bool chat_saved_is(const struct chat_response *r, const char *name)
{
    return find(r, name) != NULL;
}

char *chat_saved_code(const struct chat_response *r, const char *name,
                      const char *arguments, char **ret_why)
{
    struct saved_tool_call c cleanup(saved_tool_call_done) = {.timeout_s = 0};
    json_t *json cleanup(json_unref) = NULL;
    struct error err;
    int rc =
        *arguments ? json_parse(arguments, strlen(arguments), &json, &err) : 0;

    if (rc == 0)
        rc = saved_tool_call(find(r, name), json, &c, &err);
    if (rc == 0)
        return buf_take(&c.code, NULL);
    *ret_why = xasprintf("The tool did not run: %s.", err.message);
    return NULL;
}
