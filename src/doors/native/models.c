/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/models: the language models that a caller may use, those of its tenant
 * changed and tried. Runs on a worker of the daemon. A key is named, never
 * shown.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "govern/govern.h"
#include "model/model.h"
#include "json/json.h"

/* ---- resources ---------------------------------------------------------- */

static const char *const kinds[] = {"openai-chat", "openai-responses",
                                    "anthropic", NULL};

struct model_body {
    const char *name, *url, *model, *key;
    int32_t kind; /* index into kinds */
    bool is_default, images, tools, embeddings;
    int64_t context_tokens, max_output_tokens, concurrent, timeout_s, idle_s;
    const char *price_input, *price_output, *price_cached;
};

#define BODY(member) API_AT(struct model_body, member)

static const struct api_field spec_fields[] = {
    {"name", API_STRING, API_REQUIRED, BODY(name), .min = 1, .max = 63,
     .help = "what callers use; [a-zA-Z0-9._:-]"},
    {"kind", API_CHOICE, API_REQUIRED, BODY(kind), .choices = kinds,
     .help = "what its server speaks"},
    {"url", API_STRING, API_REQUIRED, BODY(url), .min = 1, .max = 511,
     .help = "base URL of the server"},
    {"model", API_STRING, BODY(model), .max = 255,
     .help = "what the server calls it; else as name"},
    {"key", API_STRING, BODY(key), .max = 63,
     .help = "name of a secret that may go to the server's host"},
    {"default", API_BOOL, BODY(is_default),
     .help = "serves requests that name no model"},
    {"images", API_BOOL, BODY(images), .help = "it takes images"},
    {"tools", API_BOOL, API_DEFAULT, BODY(tools), .value = 1,
     .help = "it calls functions"},
    {"embeddings", API_BOOL, BODY(embeddings), .help = "it makes embeddings"},
    {"context_tokens", API_INT, BODY(context_tokens), .max = 100000000},
    {"max_output_tokens", API_INT, BODY(max_output_tokens), .max = 10000000},
    {"concurrent", API_INT, BODY(concurrent), .max = 1000,
     .help = "calls at once; else 16"},
    {"timeout_s", API_INT, BODY(timeout_s), .max = 86400,
     .help = "of a call; else 600"},
    {"idle_s", API_INT, BODY(idle_s), .max = 3600,
     .help = "without a byte from the server; else 120"},
    {"price_input", API_STRING, BODY(price_input), .max = 20,
     .help = "of a million tokens, as \"2.50\""},
    {"price_output", API_STRING, BODY(price_output), .max = 20},
    {"price_cached", API_STRING, BODY(price_cached), .max = 20,
     .help = "else as price_input"},
};
API_INPUT(native_model_spec, "ModelSpec", struct model_body, spec_fields,
          "A language model to be added.");

struct model_view {
    const char *name, *kind, *url, *model, *key, *source;
    bool is_default, images, tools, embeddings;
    uint64_t context_tokens, max_output_tokens;
    uint32_t concurrent, timeout_s, idle_s;
    char price_input[32], price_output[32], price_cached[32];
    const char *made_by;
    int64_t created_at_ms, answered_at_ms, failed_at_ms;
    const char *state, *failure;
};

#define VIEW(member) API_AT(struct model_view, member)

static const struct api_field model_fields[] = {
    {"name", API_STRING, VIEW(name)},
    {"kind", API_STRING, VIEW(kind)},
    {"source", API_STRING, VIEW(source),
     .help = "api, configuration or built-in"},
    {"model", API_STRING, VIEW(model), .help = "what its server calls it"},
    {"url", API_STRING, API_NULLABLE, VIEW(url)},
    {"key", API_STRING, API_NULLABLE, VIEW(key), .help = "name of a secret"},
    {"default", API_BOOL, VIEW(is_default)},
    {"images", API_BOOL, VIEW(images)},
    {"tools", API_BOOL, VIEW(tools)},
    {"embeddings", API_BOOL, VIEW(embeddings)},
    {"context_tokens", API_INT, API_NULLABLE, VIEW(context_tokens)},
    {"max_output_tokens", API_INT, API_NULLABLE, VIEW(max_output_tokens)},
    {"concurrent", API_INT, VIEW(concurrent)},
    {"timeout_s", API_INT, VIEW(timeout_s)},
    {"idle_s", API_INT, VIEW(idle_s)},
    {"price_input", API_STRING, API_NULLABLE, VIEW(price_input)},
    {"price_output", API_STRING, API_NULLABLE, VIEW(price_output)},
    {"price_cached", API_STRING, API_NULLABLE, VIEW(price_cached)},
    {"made_by", API_STRING, API_NULLABLE, VIEW(made_by)},
    {"made_by_name", API_STRING, API_NULLABLE | API_NAME_OF, VIEW(made_by)},
    {"created_at", API_TIME, API_NULLABLE, VIEW(created_at_ms)},
    {"state", API_STRING, VIEW(state),
     .help = "How its server did when it was called last: up, failing, down "
             "(calls fail at once for a while), or unknown (not called since "
             "the service started)"},
    {"answered_at", API_TIME, API_NULLABLE, VIEW(answered_at_ms),
     .help = "Its last answer"},
    {"failed_at", API_TIME, API_NULLABLE, VIEW(failed_at_ms),
     .help = "Its last failure"},
    {"failure", API_STRING, API_NULLABLE, VIEW(failure),
     .help = "Why the last call failed; null if it was answered"},
};
API_OUTPUT(native_model, "Model", struct model_view, model_fields,
           "A language model.");

#define TRIAL(member) API_AT(struct model_trial, member)

static const struct api_field trial_fields[] = {
    {"ok", API_BOOL, TRIAL(ok)},
    {"why", API_STRING, TRIAL(why), .help = "a sentence"},
};
API_OUTPUT(native_model_trial, "ModelTrial", struct model_trial, trial_fields,
           "Whether something works.");

#define TEST(member)                                                          \
    API_OBJECT, API_AT(struct model_test, member), .of = &native_model_trial

static const struct api_field test_fields[] = {
    {"answer", TEST(answer)},
    {"streaming", TEST(streaming)},
    {"tools", TEST(tools)},
    {"images", TEST(images)},
    {"embeddings", TEST(embeddings)},
    {"first_ms", API_INT, API_AT(struct model_test, first_ms),
     .help = "until the first piece of the answer"},
};
API_OUTPUT(native_model_test, "ModelTest", struct model_test, test_fields,
           "What works, tried with small calls.");

/* ---- views -------------------------------------------------------------- */

static void format_price(uint64_t price, bool given, char ret[32])
{
    ret[0] = '\0';
    if (given)
        (void)model_price_format(price, ret);
}

/* Callers without the right to change models see no address and no key. */
static struct model_view view_of(const struct doors_call *call,
                                 const struct model_spec *s)
{
    bool all = (call->who.scopes & (AUTH_POLICY_ADMIN | AUTH_ADMIN)) != 0 &&
               (s->tenant[0] || strcmp(call->who.tenant, OPERATORS) == 0);
    struct model_health health;
    struct model_view v = {
        .name = s->name,
        .kind = model_kind_name(s->kind),
        .url = all ? s->url : "",
        .model = s->model,
        .key = all ? s->key : "",
        .source = s->tenant[0] ? "api"
                  : s->kind == MODEL_ECHO && strcmp(s->name, "echo") == 0
                      ? "built-in"
                      : "configuration",
        .is_default = s->is_default,
        .images = s->images,
        .tools = s->tools,
        .embeddings = s->embeddings,
        .context_tokens = s->context_tokens,
        .max_output_tokens = s->max_output_tokens,
        .concurrent = s->concurrent,
        .timeout_s = s->timeout_s,
        .idle_s = s->idle_s,
        .made_by = s->made_by,
        .created_at_ms = s->created_at_ms,
    };

    model_health(call->doors->models, s, &health);
    v.state = model_state_name(health.state);
    v.answered_at_ms = health.answered_at_ms;
    v.failed_at_ms = health.failed_at_ms;
    v.failure = health.why;
    format_price(s->price_input, s->price_input, v.price_input);
    format_price(s->price_output, s->price_output, v.price_output);
    format_price(s->price_cached, s->has_cached_price, v.price_cached);
    return v;
}

/* ---- routes ------------------------------------------------------------- */

int native_models_list(struct doors_call *call, struct error *err)
{
    struct model_spec *specs cleanup(mem_free) = NULL;
    struct model_view *views cleanup(mem_free) = NULL;
    size_t count = 0;
    int r =
        model_specs(call->doors->models, &call->actor, &specs, &count, err);

    if (r < 0)
        return r;
    views = xcalloc(count + 1, sizeof(*views));
    for (size_t i = 0; i < count; i++)
        views[i] = view_of(call, &specs[i]);
    native_respond_list(call, &native_model, views, count, false);
    return 0;
}

static void respond(struct doors_call *call, unsigned status,
                    const struct model_spec *spec)
{
    struct model_view v = view_of(call, spec);

    native_respond(call, status, &native_model, &v);
}

int native_models_get(struct doors_call *call, struct error *err)
{
    struct model_spec spec;
    int r = model_get(call->doors->models, &call->actor, call->params[0],
                      &spec, err);

    if (r == 0)
        respond(call, 200, &spec);
    return r;
}

static int read_price(const char *name, const char *text, uint64_t *ret,
                      struct error *err)
{
    if (!text || !*text || model_price_parse(text, ret))
        return 0;
    return error_set(err, ERR_INVALID,
                     "field '%s' must be a number like \"2.50\"", name);
}

static int read_spec(const struct model_body *b, struct model_spec *ret,
                     struct error *err)
{
    *ret = (struct model_spec){
        .is_default = b->is_default,
        .images = b->images,
        .tools = b->tools,
        .embeddings = b->embeddings,
        .context_tokens = (uint64_t)b->context_tokens,
        .max_output_tokens = (uint64_t)b->max_output_tokens,
        .concurrent = (uint32_t)b->concurrent,
        .timeout_s = (uint32_t)b->timeout_s,
        .idle_s = (uint32_t)b->idle_s,
        .has_cached_price = b->price_cached && b->price_cached[0],
    };
    if (!model_kind_find(kinds[b->kind], &ret->kind))
        return error_set(err, ERR_INVALID, "field 'kind' is unknown");
    /* The table bounds each. */
    (void)snprintf(ret->name, sizeof(ret->name), "%s", b->name);
    (void)snprintf(ret->url, sizeof(ret->url), "%s", b->url);
    (void)snprintf(ret->model, sizeof(ret->model), "%s",
                   b->model ? b->model : "");
    (void)snprintf(ret->key, sizeof(ret->key), "%s", b->key ? b->key : "");
    if (read_price("price_input", b->price_input, &ret->price_input, err) <
            0 ||
        read_price("price_output", b->price_output, &ret->price_output, err) <
            0 ||
        read_price("price_cached", b->price_cached, &ret->price_cached, err) <
            0)
        return -(int)err->code;
    return 0;
}

/* Approvers see where prompts would go, with which key. */
static int hold_model(struct doors_call *call, const char *change,
                      const struct model_spec *s, struct error *err)
{
    struct govern_request rq = govern_change(&call->actor);
    char *summary cleanup(mem_free) =
        strcmp(change, "model.put") == 0
            ? xasprintf("send prompts for the model '%s' to %s", s->name,
                        s->url)
            : xasprintf("remove the model '%s'", s->name);

    rq.object = s->name;
    rq.summary = summary;
    govern_add(&rq, "change", change);
    govern_add(&rq, "name", s->name);
    govern_add(&rq, "kind", model_kind_name(s->kind));
    govern_add(&rq, "url", s->url);
    govern_add(&rq, "model", s->model);
    govern_add(&rq, "key", s->key);
    return doors_need_second(call, &rq, err);
}

int native_models_create(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct model_spec spec, old, made;
    struct model_body b = {0};
    struct error ignored;
    bool there;
    int r = native_read(call, &native_model_spec, &b, &json, err);

    if (r == 0)
        r = read_spec(&b, &spec, err);
    if (r == 0 && call->doors->core->four_eyes)
        r = hold_model(call, "model.put", &spec, err);
    if (r < 0)
        return r;
    there = model_get(call->doors->models, &call->actor, spec.name, &old,
                      &ignored) == 0;
    r = model_put(call->doors->models, &call->actor, &spec, &made, err);
    if (r == 0)
        respond(call, there ? 200 : 201, &made);
    return r;
}

int native_models_remove(struct doors_call *call, struct error *err)
{
    struct model_spec spec;
    int r = model_get(call->doors->models, &call->actor, call->params[0],
                      &spec, err);

    if (r == 0 && call->doors->core->four_eyes)
        r = hold_model(call, "model.remove", &spec, err);
    if (r == 0)
        r = model_remove(call->doors->models, &call->actor, call->params[0],
                         err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_models_test(struct doors_call *call, struct error *err)
{
    struct model_test test;
    int r = model_test(call->doors->models, &call->actor, call->params[0],
                       &test, err);

    if (r == 0)
        native_respond(call, 200, &native_model_test, &test);
    return r;
}
