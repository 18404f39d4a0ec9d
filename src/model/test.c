/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trying a model: small calls that show whether it answers, streams, calls
 * functions, sees images and makes embeddings, each with a sentence about what
 * happened. Runs in gloveboxd on the caller's thread; counts against budgets
 * as any call.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/model_int.h"

#define TRIAL_MS 60000u

/* A red square of 8 by 8 pixels. */
#define IMAGE                                                                 \
    "data:image/png;base64,"                                                  \
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8"          \
    "CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII="

struct watch {
    uint64_t begun_ms, first_ms;
    unsigned pieces;
};

static bool on_event(void *ctx, const struct model_event *event)
{
    struct watch *w = ctx;

    if (event->kind != MODEL_EVENT_TEXT &&
        event->kind != MODEL_EVENT_REASONING)
        return true;
    if (w->pieces++ == 0)
        w->first_ms = clock_mono_ms() - w->begun_ms;
    return true;
}

static int try_call(struct models *m, const struct actor *who,
                    const char *name, json_t *input, json_t *tools,
                    struct watch *w, struct model_result *ret,
                    struct error *err)
{
    json_t *options = json_pack("{s:i}", "max_output_tokens", 300);
    struct model_request rq = {.model = name,
                               .input = input,
                               .tools = tools,
                               .options = options,
                               .total_ms = TRIAL_MS};
    int r;

    *w = (struct watch){.begun_ms = clock_mono_ms()};
    r = model_call(m, who, &rq, on_event, w, ret, err);
    json_decref(options);
    json_decref(input);
    json_decref(tools);
    return r;
}

static void note(struct model_trial *t, bool ok, const char *why)
{
    t->ok = ok;
    (void)snprintf(t->why, sizeof(t->why), "%s", why);
}

static void try_answer(struct models *m, const struct actor *who,
                       const struct model_spec *s, struct model_test *ret)
{
    struct model_result result;
    struct watch w;
    struct error err;
    json_t *input = json_pack("[{s:s, s:s}]", "role", "user", "content",
                              s->kind == MODEL_ECHO
                                  ? "long: 20"
                                  : "Count from one to twenty in words.");
    int r = try_call(m, who, s->name, input, NULL, &w, &result, &err);

    ret->first_ms = w.first_ms;
    if (r < 0) {
        note(&ret->answer, false, err.message);
        note(&ret->streaming, false, "Not tried, because it did not answer.");
    } else {
        char why[160];

        (void)snprintf(why, sizeof(why),
                       "It answered; %llu tokens in, %llu out.",
                       (unsigned long long)result.usage.input,
                       (unsigned long long)result.usage.output);
        note(&ret->answer, true, why);
        (void)snprintf(why, sizeof(why),
                       w.pieces > 1
                           ? "The answer came in %u pieces."
                           : "The answer came in %u piece; the server does "
                             "not stream, or the answer was short.",
                       w.pieces);
        note(&ret->streaming, w.pieces > 1, why);
    }
    model_result_clear(&result);
}

static void try_tools(struct models *m, const struct actor *who,
                      const struct model_spec *s, struct model_trial *ret)
{
    json_t *tools = json_pack("[{s:s, s:s, s:s, s:{s:s, s:{s:{s:s}}, s:[s]}}]",
                              "type", "function", "name", "weather",
                              "description", "Tells the weather of a city.",
                              "parameters", "type", "object", "properties",
                              "city", "type", "string", "required", "city");
    json_t *input =
        json_pack("[{s:s, s:s}]", "role", "user", "content",
                  s->kind == MODEL_ECHO
                      ? "call: weather {\"city\":\"Bonn\"}"
                      : "What is the weather in Bonn? Use the function.");
    struct model_result result;
    struct watch w;
    struct error err;
    const json_t *item;
    bool called = false;
    size_t i;
    int r;

    if (!s->tools) {
        json_decref(tools);
        json_decref(input);
        note(ret, false, "Switched off in its settings (tools: false).");
        return;
    }
    r = try_call(m, who, s->name, input, tools, &w, &result, &err);
    json_array_foreach (result.output, i, item)
        called |= strcmp(model_item_type(item), "function_call") == 0;
    note(ret, r == 0 && called,
         r < 0    ? err.message
         : called ? "It called a function."
                  : "It answered in words instead of calling the function. "
                    "The server may need a switch for it (llama.cpp: --jinja; "
                    "vLLM: --enable-auto-tool-choice), or the model is too "
                    "small.");
    model_result_clear(&result);
}

static void try_images(struct models *m, const struct actor *who,
                       const struct model_spec *s, struct model_trial *ret)
{
    struct model_result result;
    struct watch w;
    struct error err;
    json_t *input;
    int r;

    if (!s->images) {
        note(ret, false,
             "Switched off in its settings; set images: true if the model "
             "takes them.");
        return;
    }
    input = json_pack("[{s:s, s:[{s:s, s:s}, {s:s, s:s}]}]", "role", "user",
                      "content", "type", "input_text", "text",
                      "Which colour is this?", "type", "input_image",
                      "image_url", IMAGE);
    r = try_call(m, who, s->name, input, NULL, &w, &result, &err);
    note(ret, r == 0,
         r < 0 ? err.message : "It accepted a message with an image.");
    model_result_clear(&result);
}

static void try_embeddings(struct models *m, const struct actor *who,
                           const struct model_spec *s, struct model_trial *ret)
{
    static const char *const texts[] = {"one", "two"};
    float *vectors cleanup(mem_free) = NULL;
    size_t dimensions = 0;
    struct error err;
    char why[64];

    if (!s->embeddings) {
        note(ret, false, "Switched off in its settings.");
        return;
    }
    if (model_embed(m, who, s->name, texts, 2, &vectors, &dimensions, &err) <
        0) {
        note(ret, false, err.message);
        return;
    }
    (void)snprintf(why, sizeof(why), "Vectors have %zu dimensions.",
                   dimensions);
    note(ret, true, why);
}

int model_test(struct models *m, const struct actor *who, const char *name,
               struct model_test *ret, struct error *err)
{
    struct model_spec spec;
    int r = model_get(m, who, name, &spec, err);

    *ret = (struct model_test){0};
    if (r < 0)
        return r;
    try_answer(m, who, &spec, ret);
    if (ret->answer.ok) {
        try_tools(m, who, &spec, &ret->tools);
        try_images(m, who, &spec, &ret->images);
    } else {
        note(&ret->tools, false, "Not tried, because it did not answer.");
        note(&ret->images, false, "Not tried, because it did not answer.");
    }
    try_embeddings(m, who, &spec, &ret->embeddings);
    return 0;
}
