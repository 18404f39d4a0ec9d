/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of fixtures, and those that only answer. See fixtures.h. Runs in
 * the test build of the daemon.
 */
#include "fixtures.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define STEP_US 50000

/* One red pixel; eight samples of silence. */
const unsigned char fixture_png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d,
    0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01,
    0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00,
    0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0x00,
    0x00, 0x03, 0x01, 0x01, 0x00, 0xc9, 0xfe, 0x92, 0xef, 0x00, 0x00, 0x00,
    0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
const size_t fixture_png_len = sizeof(fixture_png);
const unsigned char fixture_wav[] = {
    0x52, 0x49, 0x46, 0x46, 0x2c, 0x00, 0x00, 0x00, 0x57, 0x41, 0x56,
    0x45, 0x66, 0x6d, 0x74, 0x20, 0x10, 0x00, 0x00, 0x00, 0x01, 0x00,
    0x01, 0x00, 0x40, 0x1f, 0x00, 0x00, 0x40, 0x1f, 0x00, 0x00, 0x01,
    0x00, 0x08, 0x00, 0x64, 0x61, 0x74, 0x61, 0x08, 0x00, 0x00, 0x00,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
const size_t fixture_wav_len = sizeof(fixture_wav);

/* ---- tools that only answer --------------------------------------------- */

static int simple_text(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)err;
    mcp_answer_textf(ret, "This is a simple text response for testing.");
    return 0;
}

static int image(struct mcp_call *call, const json_t *args,
                 struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)err;
    mcp_answer_image(ret, "image/png", fixture_png, fixture_png_len);
    return 0;
}

static int audio(struct mcp_call *call, const json_t *args,
                 struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)err;
    mcp_answer_image(ret, "audio/wav", fixture_wav, fixture_wav_len);
    return 0;
}

static void embed(struct mcp_answer *ret, const char *uri, const char *mime,
                  const char *text)
{
    mcp_answer_resource(ret, uri, mime, text, strlen(text));
}

static int embedded(struct mcp_call *call, const json_t *args,
                    struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)err;
    embed(ret, "test://embedded-resource", "text/plain",
          "This is an embedded resource content.");
    return 0;
}

static int multiple(struct mcp_call *call, const json_t *args,
                    struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)err;
    mcp_answer_textf(ret, "Multiple content types test:");
    mcp_answer_image(ret, "image/png", fixture_png, fixture_png_len);
    embed(ret, "test://mixed-content-resource", "application/json",
          "{\"test\":\"data\",\"value\":123}");
    return 0;
}

static int failing(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)err;
    mcp_answer_refuse(ret, "error",
                      "This tool intentionally returns an error for testing");
    return 0;
}

static int with_progress(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)err;
    for (int i = 0; i <= 100; i += 50) {
        call->progress(call, i, 100, "working");
        (void)usleep(STEP_US);
    }
    mcp_answer_textf(ret, "done");
    return 0;
}

static int with_logging(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    static const char *const lines[] = {"Tool execution started",
                                        "Tool processing data",
                                        "Tool execution completed"};

    (void)args;
    (void)err;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        mcp_log(call, "info", json_string(lines[i]));
        (void)usleep(STEP_US);
    }
    mcp_answer_textf(ret, "logged");
    return 0;
}

static int reconnection(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)err;
    mcp_hang_up(call);
    (void)usleep(2 * STEP_US);
    mcp_answer_textf(ret, "Reconnection test completed");
    return 0;
}

static int missing_capability(struct mcp_call *call, const json_t *args,
                              struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)err;
    if (mcp_need(call, "sampling") < 0)
        return -ERR_INVALID;
    mcp_answer_textf(ret, "sampling is there");
    return 0;
}

static int streaming(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)err;
    (void)mcp_reply_begin(call->ctx);
    (void)usleep(STEP_US);
    mcp_answer_textf(ret, "streamed, and nothing was asked");
    return 0;
}

static int change_tools(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)err;
    mcp_list_changed(call, MCP_LIST_TOOLS);
    mcp_answer_textf(ret, "told");
    return 0;
}

static int change_prompts(struct mcp_call *call, const json_t *args,
                          struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)err;
    mcp_list_changed(call, MCP_LIST_PROMPTS);
    mcp_answer_textf(ret, "told");
    return 0;
}

#define STRING "{\"type\":\"string\"}"
#define TOOL(id, fn, text)                                                    \
    {                                                                         \
        .name = id, .description = text, .schema = NO_ARGUMENTS,              \
        .groups = MCP_FIXTURE, .run = fn                                      \
    }
#define TOOL_OF(id, fn, text, arguments)                                      \
    {                                                                         \
        .name = id, .description = text, .schema = arguments,                 \
        .groups = MCP_FIXTURE, .run = fn                                      \
    }
#define TASK(id, fn, text, arguments)                                         \
    {                                                                         \
        .name = id, .description = text, .schema = arguments,                 \
        .groups = MCP_FIXTURE, .long_run = true, .task_after_ms = 300,        \
        .run = fn                                                             \
    }

static const struct mcp_tool tools[] = {
    TOOL("test_simple_text", simple_text, "One text."),
    TOOL("test_image_content", image, "One picture."),
    TOOL("test_audio_content", audio, "One sound."),
    TOOL("test_embedded_resource", embedded, "One embedded resource."),
    TOOL("test_multiple_content_types", multiple, "Several kinds of content."),
    TOOL("test_error_handling", failing, "Fails as a tool does."),
    TOOL("test_tool_with_progress", with_progress, "Three steps."),
    TOOL("test_tool_with_logging", with_logging, "Three lines."),
    TOOL("test_logging_tool", with_logging, "Three lines, if wanted."),
    TOOL("test_reconnection", reconnection, "Hangs up, then answers."),
    TOOL("test_missing_capability", missing_capability, "Needs sampling."),
    TOOL("test_streaming_elicitation", streaming, "Streams."),
    TOOL("test_trigger_tool_change", change_tools, "Tells of new tools."),
    TOOL("test_trigger_prompt_change", change_prompts,
         "Tells of new prompts."),
    TOOL_OF("json_schema_2020_12_tool", simple_text, "Every keyword.",
            "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
            "\"type\":\"object\",\"$defs\":{\"address\":{\"$anchor\":"
            "\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":"
            "{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
            "\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{"
            "\"$ref\":\"#/$defs/address\"},\"contactMethod\":{\"type\":"
            "\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":" STRING
            ",\"email\":" STRING "},\"allOf\":[{\"anyOf\":[{\"required\":["
            "\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{\"properties\":"
            "{\"contactMethod\":{\"const\":\"phone\"}},\"required\":["
            "\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},\"else\":"
            "{\"required\":[\"email\"]},\"additionalProperties\":false}"),
    TOOL_OF("test_header_tool", simple_text, "An argument that is a header.",
            "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":"
            "\"string\",\"x-mcp-header\":\"Region\"}}}"),
    TOOL_OF("test_sampling", fixture_sampling, "Asks the model.",
            "{\"type\":\"object\",\"properties\":{\"prompt\":" STRING
            "},\"required\":[\"prompt\"]}"),
    TOOL_OF("test_elicitation", fixture_elicitation, "Asks the user.",
            "{\"type\":\"object\",\"properties\":{\"message\":" STRING
            "},\"required\":[\"message\"]}"),
    TOOL("test_elicitation_sep1034_defaults", fixture_defaults, "Defaults."),
    TOOL("test_elicitation_sep1330_enums", fixture_enums, "Choices."),
    TOOL("test_input_required_result_elicitation", fixture_ask_elicitation,
         "Asks for a name."),
    TOOL("test_input_required_result_sampling", fixture_ask_sampling,
         "Asks the model."),
    TOOL("test_input_required_result_list_roots", fixture_ask_roots,
         "Asks for roots."),
    TOOL("test_input_required_result_request_state", fixture_ask_state,
         "Keeps a state."),
    TOOL("test_input_required_result_multiple_inputs", fixture_ask_many,
         "Asks three things."),
    TOOL("test_input_required_result_multi_round", fixture_ask_rounds,
         "Asks twice."),
    TOOL("test_input_required_result_tampered_state", fixture_ask_state,
         "Keeps a signed state."),
    TOOL("test_input_required_result_capabilities", fixture_ask_capabilities,
         "Asks what can be asked."),
    TOOL_OF("greet", fixture_greet, "Greets.",
            "{\"type\":\"object\",\"properties\":{\"name\":" STRING
            "},\"required\":[\"name\"]}"),
    TASK("slow_compute", fixture_slow, "Takes its time.",
         "{\"type\":\"object\",\"properties\":{\"seconds\":{\"type\":"
         "\"number\"},\"label\":" STRING "}}"),
    {.name = "failing_job",
     .description = "Fails, late.",
     .schema = NO_ARGUMENTS,
     .groups = MCP_FIXTURE,
     .task_only = true,
     .run = fixture_failing},
    TASK("protocol_error_job", fixture_broken, "Breaks.", NO_ARGUMENTS),
    TASK("confirm_delete", fixture_confirm, "Asks before it acts.",
         "{\"type\":\"object\",\"properties\":{\"filename\":" STRING "}}"),
    TASK("multi_input", fixture_multi, "Asks two things.", NO_ARGUMENTS),
    {.name = "test_tool_with_task",
     .description = "Asks, then takes time.",
     .schema = NO_ARGUMENTS,
     .groups = MCP_FIXTURE,
     .task_only = true,
     .run = fixture_with_task},
};

const struct mcp_tool *const mcp_fixture_tools = tools;
const size_t mcp_fixture_tools_count = ARRAY_SIZE(tools);

/* ---- resources ---------------------------------------------------------- */

static int read_text(struct mcp_call *call, const char *uri, struct buf *ret,
                     struct error *err)
{
    (void)call;
    (void)err;
    buf_addf(ret, "This is the content of %s.", uri);
    return 0;
}

static int read_binary(struct mcp_call *call, const char *uri, struct buf *ret,
                       struct error *err)
{
    (void)call;
    (void)uri;
    (void)err;
    buf_add(ret, fixture_png, fixture_png_len);
    return 0;
}

static int read_data(struct mcp_call *call, const char *uri, struct buf *ret,
                     struct error *err)
{
    const char *id = uri + strlen("test://template/");

    (void)call;
    (void)err;
    buf_addf(ret, "{\"id\":\"%.*s\",\"templateTest\":true}",
             (int)strcspn(id, "/"), id);
    return 0;
}

static const struct mcp_resource resources[] = {
    {"test://static-text", "static-text", "A text.", "text/plain", false,
     read_text},
    {"test://static-binary", "static-binary", "A picture.", "image/png", false,
     read_binary},
    {"test://watched-resource", "watched-resource", "To be watched.",
     "text/plain", false, read_text},
    {"test://template/{id}/data", "template", "By its id.", "application/json",
     true, read_data},
};

const struct mcp_resource *const mcp_fixture_resources = resources;
const size_t mcp_fixture_resources_count = ARRAY_SIZE(resources);

/* ---- prompts ------------------------------------------------------------ */

static const char *arg(const json_t *args, const char *name)
{
    const char *text = json_string_value(json_object_get(args, name));

    return text ? text : "";
}

static int prompt_simple(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)args;
    (void)err;
    mcp_answer_textf(ret, "This is a simple prompt for testing.");
    return 0;
}

static int prompt_arguments(struct mcp_call *call, const json_t *args,
                            struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)err;
    mcp_answer_textf(ret, "Prompt with arguments: arg1='%s', arg2='%s'",
                     arg(args, "arg1"), arg(args, "arg2"));
    return 0;
}

static int prompt_resource(struct mcp_call *call, const json_t *args,
                           struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)err;
    embed(ret, arg(args, "resourceUri"), "text/plain",
          "Embedded resource content for testing.");
    mcp_answer_textf(ret, "Please process the embedded resource above.");
    return 0;
}

static int prompt_image(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    (void)image(call, args, ret, err);
    mcp_answer_textf(ret, "Please analyze the image above.");
    return 0;
}

static const char *const cities[] = {"paris", "park",  "party",
                                     "test1", "test2", NULL};

static const struct mcp_prompt prompts[] = {
    {"test_simple_prompt", NULL, "A text.", {{0}}, prompt_simple},
    {"test_prompt_with_arguments",
     NULL,
     "Says what it was given.",
     {{"arg1", "The first", true, false, cities},
      {"arg2", "The second", true, false, NULL}},
     prompt_arguments},
    {"test_prompt_with_embedded_resource",
     NULL,
     "A resource and a text.",
     {{"resourceUri", "Its name", true, false, NULL}},
     prompt_resource},
    {"test_prompt_with_image",
     NULL,
     "A picture and a text.",
     {{0}},
     prompt_image},
    {"test_input_required_result_prompt",
     NULL,
     "Asks first.",
     {{0}},
     fixture_ask_prompt},
};

const struct mcp_prompt *const mcp_fixture_prompts = prompts;
const size_t mcp_fixture_prompts_count = ARRAY_SIZE(prompts);
