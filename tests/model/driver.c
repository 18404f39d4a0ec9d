/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one call of a model through glovebox-model, without the service: for
 * tests of what no door shows.
 *
 *   model-driver PROGRAM KIND URL MODEL [CANCEL_MS] < prompt.json
 *
 * PROGRAM is glovebox-model. The prompt is an object with instructions, input,
 * tools, tool_choice and options, or texts to embed. Each event is a line of
 * JSON; the last line is the result.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "model/model.h"

static atomic_bool cancelled;
static unsigned cancel_ms;

static void *cancel_later(void *unused)
{
    (void)unused;
    (void)usleep(cancel_ms * 1000);
    atomic_store(&cancelled, true);
    return NULL;
}

static void print_line(json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);

    (void)puts(text ? text : "{}");
    (void)fflush(stdout);
    free(text);
    json_decref(line);
}

static bool on_event(void *ctx, const struct model_event *e)
{
    static const char *const names[] = {"text", "refusal",   "reasoning",
                                        "call", "arguments", "item"};
    json_t *line =
        json_pack("{s:s, s:i}", "event", names[e->kind], "item", (int)e->item);

    (void)ctx;
    if (e->text)
        (void)json_object_set_new(line, "text", json_stringn(e->text, e->len));
    if (e->name)
        (void)json_object_set_new(line, "name", json_string(e->name));
    if (e->call_id)
        (void)json_object_set_new(line, "call_id", json_string(e->call_id));
    print_line(line);
    return true;
}

static int embed(struct models *models, const struct actor *who,
                 const json_t *texts, struct error *err)
{
    const char *list[64] = {0};
    size_t n = MIN(json_array_size(texts), ARRAY_SIZE(list)), dimensions = 0;
    float *vectors = NULL;
    int r;

    for (size_t i = 0; i < n; i++)
        list[i] = json_string_value(json_array_get(texts, i));
    r = model_embed(models, who, "m", list, n, &vectors, &dimensions, err);
    if (r == 0)
        print_line(json_pack("{s:i, s:f}", "dimensions", (int)dimensions,
                             "first", (double)vectors[0]));
    free(vectors);
    return r;
}

static int call(struct models *models, const struct actor *who,
                const json_t *prompt, struct error *err)
{
    struct model_request rq = {
        .model = "m",
        .instructions =
            json_string_value(json_object_get(prompt, "instructions")),
        .input = json_object_get(prompt, "input"),
        .tools = json_object_get(prompt, "tools"),
        .tool_choice = json_object_get(prompt, "tool_choice"),
        .options = json_object_get(prompt, "options"),
        .cancel = &cancelled,
    };
    struct model_result result;
    uint64_t begun = clock_mono_ms();
    int r = model_call(models, who, &rq, on_event, NULL, &result, err);

    print_line(json_pack(
        "{s:i, s:i, s:i, s:I, s:I, s:O, s:I}", "code", r < 0 ? -r : 0,
        "finish", (int)result.finish, "attempts", (int)result.attempts,
        "input", (json_int_t)result.usage.input, "output_tokens",
        (json_int_t)result.usage.output, "output", result.output, "ms",
        (json_int_t)(clock_mono_ms() - begun)));
    model_result_clear(&result);
    return r;
}

int main(int argc, char **argv)
{
    static const struct actor who = {.tenant = "test", .key = "key_test"};
    struct conf *conf = xcalloc(1, sizeof(*conf));
    struct model_link *link = NULL;
    struct models *models = NULL;
    struct error err = {0};
    json_t *prompt = json_loadf(stdin, 0, NULL);
    pthread_t canceller;
    int r;

    log_setup("driver", LOG_ERROR, false);
    if (argc < 5 || !prompt)
        return 2;
    conf->model_count = 1;
    conf->models[0] = (struct conf_model){.name = xstrdup("m"),
                                          .kind = xstrdup(argv[2]),
                                          .url = xstrdup(argv[3]),
                                          .model = xstrdup(argv[4]),
                                          .key = xstrdup(""),
                                          .tools = true,
                                          .images = true,
                                          .embeddings = true,
                                          .concurrent = 4,
                                          .timeout_s = 60,
                                          .idle_s = 20,
                                          .price_input = xstrdup(""),
                                          .price_output = xstrdup(""),
                                          .price_cached = xstrdup("")};
    if (strcmp(argv[2], "anthropic") == 0)
        conf->models[0].embeddings = false;
    r = model_link_open(argv[1], NULL, "", &link, &err);
    if (r == 0)
        r = models_open(&(struct models_parts){.conf = conf, .link = link},
                        &models, &err);
    if (r == 0 && argc > 5) {
        cancel_ms = (unsigned)strtoul(argv[5], NULL, 10);
        if (pthread_create(&canceller, NULL, cancel_later, NULL) == 0)
            (void)pthread_detach(canceller);
    }
    if (r == 0)
        r = json_object_get(prompt, "texts")
                ? embed(models, &who, json_object_get(prompt, "texts"), &err)
                : call(models, &who, prompt, &err);
    if (r < 0)
        (void)fprintf(stderr, "%s\n", err.message);
    models_close(models);
    model_link_close(link);
    json_decref(prompt);
    conf_free(conf);
    return r < 0;
}
