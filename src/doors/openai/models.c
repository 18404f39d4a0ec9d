/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /models and /models/{model}: the models that a caller may use, as this
 * dialect lists them. Runs on a worker of the daemon; only looks.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "doors/openai/openai.h"
#include "model/model.h"
#include "json/json.h"

static void encode(struct json_writer *w, const struct model_spec *s)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "id", s->name);
    json_write_string(w, "object", "model");
    json_write_int(w, "created", s->created_at_ms / 1000);
    json_write_string(w, "owned_by",
                      s->kind == MODEL_ECHO
                          ? "glovebox (echo, a built-in model for trials)"
                          : "operator");
    json_write_close(w, '}');
}

int openai_models_list(struct doors_call *call, struct error *err)
{
    struct model_spec *specs cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r =
        model_specs(call->doors->models, &call->actor, &specs, &count, err);

    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "object", "list");
    json_write_open(&w, "data", '[');
    for (size_t i = 0; i < count; i++)
        encode(&w, &specs[i]);
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    openai_respond(call, &body);
    return 0;
}

int openai_models_get(struct doors_call *call, struct error *err)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct model_spec spec;
    int r = model_get(call->doors->models, &call->actor, call->params[0],
                      &spec, err);

    if (r < 0) {
        struct openai_fault *fault = openai_fault(call);

        fault->code = "model_not_found";
        (void)snprintf(fault->param, sizeof(fault->param), "model");
        return r;
    }
    encode(&w, &spec);
    openai_respond(call, &body);
    return 0;
}
