/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures that ask the user: by requests of the legacy era, by results of the
 * modern one. See fixtures.h. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fixtures.h"

json_t *fixture_form(const char *message, const char *schema)
{
    return json_pack("{s:s,s:o}", "message", message, "requestedSchema",
                     json_loads(schema, 0, NULL));
}

static json_t *sample(const char *prompt, int tokens)
{
    return json_pack("{s:[{s:s,s:{s:s,s:s}}],s:i}", "messages", "role", "user",
                     "content", "type", "text", "text", prompt, "maxTokens",
                     tokens);
}

static const char *text_of(const json_t *args, const char *name)
{
    const char *text = json_string_value(json_object_get(args, name));

    return text ? text : "";
}

/* ---- requests ----------------------------------------------------------- */

static int ask_one(struct mcp_call *call, const char *method, json_t *params,
                   const char *what, struct mcp_answer *ret, struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    int r;

    mcp_ask(call, "one", method, params);
    r = mcp_ask_wait(call, err);
    if (r != 0)
        return r;
    text = json_dumps(mcp_asked(call, "one"), JSON_COMPACT);
    mcp_answer_textf(ret, "%s %s", what, text);
    return 0;
}

int fixture_sampling(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    return ask_one(call, "sampling/createMessage",
                   sample(text_of(args, "prompt"), 100), "LLM response:", ret,
                   err);
}

int fixture_elicitation(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    return ask_one(
        call, "elicitation/create",
        fixture_form(text_of(args, "message"),
                     "{\"type\":\"object\",\"properties\":{"
                     "\"username\":{\"type\":\"string\",\"description\":"
                     "\"User's response\"},"
                     "\"email\":{\"type\":\"string\",\"description\":"
                     "\"User's email address\"}},"
                     "\"required\":[\"username\",\"email\"]}"),
        "User response:", ret, err);
}

int fixture_defaults(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    (void)args;
    return ask_one(
        call, "elicitation/create",
        fixture_form("Please review the defaults",
                     "{\"type\":\"object\",\"properties\":{"
                     "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
                     "\"age\":{\"type\":\"integer\",\"default\":30},"
                     "\"score\":{\"type\":\"number\",\"default\":95.5},"
                     "\"status\":{\"type\":\"string\",\"enum\":[\"active\","
                     "\"inactive\",\"pending\"],\"default\":\"active\"},"
                     "\"verified\":{\"type\":\"boolean\",\"default\":true}},"
                     "\"required\":[]}"),
        "Elicitation completed:", ret, err);
}

#define ONE_OF                                                                \
    "[{\"const\":\"value1\",\"title\":\"First\"},"                            \
    "{\"const\":\"value2\",\"title\":\"Second\"},"                            \
    "{\"const\":\"value3\",\"title\":\"Third\"}]"
#define PLAIN "[\"option1\",\"option2\",\"option3\"]"

int fixture_enums(struct mcp_call *call, const json_t *args,
                  struct mcp_answer *ret, struct error *err)
{
    (void)args;
    return ask_one(
        call, "elicitation/create",
        fixture_form("Please choose",
                     "{\"type\":\"object\",\"properties\":{"
                     "\"untitledSingle\":{\"type\":\"string\","
                     "\"enum\":" PLAIN "},"
                     "\"titledSingle\":{\"type\":\"string\","
                     "\"oneOf\":" ONE_OF "},"
                     "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\","
                     "\"opt2\",\"opt3\"],\"enumNames\":[\"Option One\","
                     "\"Option Two\",\"Option Three\"]},"
                     "\"untitledMulti\":{\"type\":\"array\",\"items\":{"
                     "\"type\":\"string\",\"enum\":" PLAIN "}},"
                     "\"titledMulti\":{\"type\":\"array\",\"items\":{"
                     "\"anyOf\":" ONE_OF "}}},\"required\":[]}"),
        "Elicitation completed:", ret, err);
}

/* ---- results ------------------------------------------------------------ */

#define NAME_SCHEMA                                                           \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},"   \
    "\"required\":[\"name\"]}"

static const char *content_of(struct mcp_call *call, const char *key,
                              const char *member)
{
    return text_of(json_object_get(mcp_asked(call, key), "content"), member);
}

int fixture_ask_elicitation(struct mcp_call *call, const json_t *args,
                            struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    mcp_ask(call, "user_name", "elicitation/create",
            fixture_form("What is your name?", NAME_SCHEMA));
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "Hello, %s!",
                         content_of(call, "user_name", "name"));
    return r;
}

int fixture_ask_sampling(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    mcp_ask(call, "capital_question", "sampling/createMessage",
            sample("What is the capital of France?", 100));
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "The model says: %s",
                         content_of(call, "capital_question", "text"));
    return r;
}

int fixture_ask_roots(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    mcp_ask(call, "client_roots", "roots/list", json_object());
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "%zu roots",
                         json_array_size(json_object_get(
                             mcp_asked(call, "client_roots"), "roots")));
    return r;
}

#define OK_SCHEMA                                                             \
    "{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}},"    \
    "\"required\":[\"ok\"]}"

int fixture_ask_state(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    const char *state = mcp_state(call);
    int r;

    (void)args;
    mcp_ask(call, "confirm", "elicitation/create",
            fixture_form("Please confirm", OK_SCHEMA));
    mcp_state_keep(call, "confirming");
    r = mcp_ask_wait(call, err);
    if (r != 0)
        return r;
    mcp_answer_textf(ret, "%s",
                     state && strcmp(state, "confirming") == 0
                         ? "state-ok"
                         : "state-missing");
    return 0;
}

int fixture_ask_many(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    mcp_ask(call, "user_name", "elicitation/create",
            fixture_form("What is your name?", NAME_SCHEMA));
    mcp_ask(call, "greeting", "sampling/createMessage",
            sample("Generate a greeting", 50));
    mcp_ask(call, "client_roots", "roots/list", json_object());
    mcp_state_keep(call, "many");
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "All answered by %s",
                         content_of(call, "user_name", "name"));
    return r;
}

int fixture_ask_rounds(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    const char *state = mcp_state(call);
    int r = 0;

    (void)args;
    if (!state || strncmp(state, "2 ", 2) != 0) {
        mcp_ask(call, "step1", "elicitation/create",
                fixture_form("Step 1: What is your name?", NAME_SCHEMA));
        mcp_state_keep(call, "1");
        r = mcp_ask_wait(call, err);
        if (r != 0)
            return r;
        state = NULL;
    }
    mcp_ask(call, "step2", "elicitation/create",
            fixture_form("Step 2: What is your favorite color?",
                         "{\"type\":\"object\",\"properties\":{\"color\":{"
                         "\"type\":\"string\"}},\"required\":[\"color\"]}"));
    if (!state) {
        char *keep cleanup(mem_free) =
            xasprintf("2 %s", content_of(call, "step1", "name"));

        mcp_state_keep(call, keep);
    } else {
        mcp_state_keep(call, state);
    }
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "%s likes %s", state ? state + 2 : "?",
                         content_of(call, "step2", "color"));
    return r;
}

int fixture_ask_capabilities(struct mcp_call *call, const json_t *args,
                             struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    if (mcp_capable(call, "elicitation"))
        mcp_ask(call, "user_name", "elicitation/create",
                fixture_form("What is your name?", NAME_SCHEMA));
    if (mcp_capable(call, "sampling"))
        mcp_ask(call, "capital_question", "sampling/createMessage",
                sample("What is the capital of France?", 100));
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "asked what could be asked");
    return r;
}

int fixture_ask_prompt(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    mcp_ask(call, "user_context", "elicitation/create",
            fixture_form("What context should the prompt use?",
                         "{\"type\":\"object\",\"properties\":{\"context\":{"
                         "\"type\":\"string\"}},\"required\":[\"context\"]}"));
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "Use this context: %s",
                         content_of(call, "user_context", "context"));
    return r;
}
