/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may ask of a project besides agents: the configured models as
 * deployments; connections, datasets and indexes, of which there are none.
 * Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "doors/foundry/foundry.h"
#include "model/model.h"
#include "json/json.h"

#define PUBLISHER "local"

int foundry_empty_list(struct doors_call *call, struct error *err)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    (void)err;
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "value", '[');
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    foundry_respond(call, &body);
    return 0;
}

int foundry_connection_get(struct doors_call *call, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no connection is called '%.63s'",
                     call->params[0]);
}

/* ---- deployments: one for each model ------------------------------------
 */

static void write_deployment(struct json_writer *w,
                             const struct model_info *model)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "type", "ModelDeployment");
    json_write_string(w, "name", model->name);
    json_write_string(w, "modelName", model->model);
    json_write_string(w, "modelVersion", "1");
    json_write_string(w, "modelPublisher", PUBLISHER);
    json_write_open(w, "capabilities", '{');
    json_write_string(w, "chat_completion", "true");
    if (model->embeddings)
        json_write_string(w, "embeddings", "true");
    json_write_close(w, '}');
    json_write_open(w, "sku", '{');
    json_write_string(w, "name", PUBLISHER);
    json_write_int(w, "capacity", 1);
    json_write_string(w, "family", "");
    json_write_string(w, "size", "");
    json_write_string(w, "tier", "");
    json_write_close(w, '}');
    json_write_close(w, '}');
}

/* The filters of the query; each may be absent. */
struct wanted {
    const char *publisher, *model, *type;
};

static bool is_wanted(const struct wanted *f, const struct model_info *model)
{
    return (!f->publisher || strcmp(f->publisher, PUBLISHER) == 0) &&
           (!f->model || strcmp(f->model, model->model) == 0) &&
           (!f->type || strcmp(f->type, "ModelDeployment") == 0);
}

int foundry_deployments_list(struct doors_call *call, struct error *err)
{
    struct model_info *list cleanup(mem_free) = NULL;
    struct wanted filter = {0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r = http_query(call->http, "modelPublisher", &filter.publisher, err);

    if (r == 0)
        r = http_query(call->http, "modelName", &filter.model, err);
    if (r == 0)
        r = http_query(call->http, "deploymentType", &filter.type, err);
    if (r == 0)
        r = model_list(call->doors->models, &call->actor, &list, &count, err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "value", '[');
    for (size_t i = 0; i < count; i++) {
        if (is_wanted(&filter, &list[i]))
            write_deployment(&w, &list[i]);
        model_info_clear(&list[i]);
    }
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    foundry_respond(call, &body);
    return 0;
}

int foundry_deployments_get(struct doors_call *call, struct error *err)
{
    struct model_info model = {.name = NULL};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = model_find(call->doors->models, &call->actor, call->params[0],
                       &model, err);

    if (r < 0)
        return r;
    write_deployment(&w, &model);
    model_info_clear(&model);
    foundry_respond(call, &body);
    return 0;
}
