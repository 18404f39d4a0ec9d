/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call to a model: found, checked against budgets, queued, made, counted;
 * see model.h. Runs in gloveboxd on the caller's thread.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/core.h"
#include "fair/fair.h"
#include "model/model_int.h"
#include "quota/quota.h"

#define STEP_MS 20u
#define EMBED_MAX 2048u
#define EMBED_BATCH 64u
#define EMBED_TEXT_MAX ((size_t)1 << 20)

int model_call_check(const struct model_call_state *c, struct error *err)
{
    if (c->request && c->request->cancel && atomic_load(c->request->cancel))
        return error_set(err, ERR_CONFLICT, "cancelled");
    if (atomic_load(&c->models->stopping))
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    if (clock_mono_ms() >= c->deadline_ms)
        return error_set(err, ERR_TIMEOUT,
                         "model %s did not finish within its time",
                         c->entry->spec.name);
    return 0;
}

int model_call_sleep(const struct model_call_state *c, uint64_t ms,
                     struct error *err)
{
    uint64_t until = clock_mono_ms() + ms;
    int r = model_call_check(c, err);

    while (r == 0 && clock_mono_ms() < until) {
        uint64_t left = until - clock_mono_ms();
        struct timespec pause = {0, (long)MIN(left, STEP_MS) * 1000000};

        (void)nanosleep(&pause, NULL);
        r = model_call_check(c, err);
    }
    return r;
}

int model_call_event(struct model_call_state *c,
                     const struct model_event *event, struct error *err)
{
    c->forwarded = true;
    c->said += event->len;
    if (event->kind == MODEL_EVENT_ITEM)
        (void)json_array_append(c->result->output,
                                (json_t *)(uintptr_t)event->done);
    if (c->on_event && !c->on_event(c->ctx, event))
        return error_set(err, ERR_CONFLICT, "cancelled");
    return 0;
}

/* ---- budgets ------------------------------------------------------------ */

static struct quotas *quotas_of(const struct models *m)
{
    return m->parts.core ? m->parts.core->quotas : NULL;
}

static int check_budgets(struct models *m, const struct actor *who,
                         struct error *err)
{
    struct quotas *q = quotas_of(m);
    char key[QUOTA_KEY_NAME];
    int r;

    if (!q || !who)
        return 0;
    r = quota_check(q, who->tenant, QUOTA_MODEL_TOKENS, err);
    if (r == 0)
        r = quota_check(q, who->tenant, QUOTA_MODEL_COST, err);
    if (r < 0 || !who->key)
        return r;
    (void)quota_key_name(who->key, key);
    r = quota_check(q, key, QUOTA_KEY_TOKENS, err);
    return r < 0 ? r : quota_check(q, key, QUOTA_KEY_COST, err);
}

/* Prices are millionths of a unit per million tokens; a unit is a hundred
 * million millionths of a cent. */
static uint64_t cost_of(const struct model_spec *s,
                        const struct model_usage *u)
{
    uint64_t cached = MIN(u->cached, u->input);
    uint64_t price = s->has_cached_price ? s->price_cached : s->price_input;

    return ((u->input - cached) * s->price_input + cached * price +
            u->output * s->price_output) /
           10000;
}

static void spend(struct models *m, const struct actor *who,
                  const struct model_usage *u)
{
    struct quotas *q = quotas_of(m);
    uint64_t tokens = u->input + u->output;
    char key[QUOTA_KEY_NAME];

    if (!q || !who || !tokens)
        return;
    quota_spend(q, who->tenant, QUOTA_MODEL_TOKENS, tokens);
    if (u->microcents)
        quota_spend(q, who->tenant, QUOTA_MODEL_COST, u->microcents);
    if (!who->key)
        return;
    (void)quota_key_name(who->key, key);
    quota_spend(q, key, QUOTA_KEY_TOKENS, tokens);
    if (u->microcents)
        quota_spend(q, key, QUOTA_KEY_COST, u->microcents);
}

/* ---- counting ----------------------------------------------------------- */

/* In the trail without content. */
static void record(const struct model_call_state *c, int r,
                   const struct error *err)
{
    const struct core *core = c->models->parts.core;
    const struct model_usage *u = &c->result->usage;
    struct model_entry *e = c->entry;
    char detail[160];
    struct audit_event event = {
        .action = c->texts ? "model.embed" : "model.call",
        .object = e->spec.name,
        .result = r < 0 ? error_code_name(err->code) : NULL,
        .detail = detail};

    atomic_fetch_add(&e->calls, 1);
    if (r < 0 && !c->cancelled)
        atomic_fetch_add(&e->failed, 1);
    atomic_fetch_add(&e->input, u->input);
    atomic_fetch_add(&e->output, u->output);
    if (!core || !core->audit)
        return;
    (void)snprintf(detail, sizeof(detail),
                   "%llu tokens in, %llu tokens out, %u requests",
                   (unsigned long long)u->input, (unsigned long long)u->output,
                   c->result->attempts);
    audit_later(core->audit, c->who, &event);
}

/* ---- the call ----------------------------------------------------------- */

/* Waits for one of the model's places, then makes the call. */
static int call_in_turn(struct model_call_state *c, struct error *err)
{
    struct model_entry *e = c->entry;
    const char *tenant = c->who ? c->who->tenant : "";
    int r;

    if (!fair_queue_enter_unless(e->queue, tenant, c->deadline_ms,
                                 c->request ? c->request->cancel : NULL)) {
        r = model_call_check(c, err);
        return r < 0 ? r
                     : error_set(err, ERR_BUSY,
                                 "model %s: too many calls wait for it",
                                 e->spec.name);
    }
    atomic_fetch_add(&e->running, 1);
    if (e->spec.kind == MODEL_ECHO) {
        c->result->attempts = 1;
        r = model_echo(c, err);
    } else {
        r = model_remote(c, err);
    }
    atomic_fetch_sub(&e->running, 1);
    fair_queue_leave(e->queue, tenant);
    return r;
}

static bool has_images(const struct model_request *rq)
{
    const json_t *item, *part;
    size_t i, k;

    json_array_foreach (rq->input, i, item) {
        const json_t *content = json_object_get(item, "content");

        if (!content)
            content = json_object_get(item, "output");
        json_array_foreach (content, k, part)
            if (json_object_get(part, "image_url"))
                return true;
    }
    return false;
}

static int check_request(const struct model_entry *e,
                         const struct model_request *rq, struct error *err)
{
    int r = model_items_check(rq, err);

    if (r == 0 && json_array_size(rq->tools) > 0 && !e->spec.tools)
        r = error_set(err, ERR_UNSUPPORTED,
                      "model %s calls no functions (tools: false)",
                      e->spec.name);
    if (r == 0 && !e->spec.images && has_images(rq))
        r = error_set(err, ERR_UNSUPPORTED,
                      "model %s takes no images (images: false)",
                      e->spec.name);
    return r;
}

int model_call(struct models *m, const struct actor *who,
               const struct model_request *request, model_event_fn *on_event,
               void *ctx, struct model_result *ret, struct error *err)
{
    struct model_entry *entry cleanup(model_entry_release) = NULL;
    struct model_call_state c = {.models = m,
                                 .who = who,
                                 .request = request,
                                 .on_event = on_event,
                                 .ctx = ctx,
                                 .result = ret};
    uint64_t most_ms;
    int r;

    *ret = (struct model_result){.output = json_array()};
    r = model_entry_find(m, who, request->model, &entry, err);
    if (r == 0)
        r = check_request(entry, request, err);
    if (r == 0)
        r = check_budgets(m, who, err);
    if (r < 0)
        return r;
    c.entry = entry;
    most_ms = entry->spec.timeout_s * 1000ull;
    if (request->total_ms)
        most_ms = MIN(most_ms, request->total_ms);
    c.deadline_ms = clock_mono_ms() + most_ms;
    r = call_in_turn(&c, err);
    ret->usage.microcents = cost_of(&entry->spec, &ret->usage);
    spend(m, who, &ret->usage);
    record(&c, r, err);
    return r;
}

void model_result_clear(struct model_result *result)
{
    json_decref(result->output);
    *result = (struct model_result){0};
}

/* ---- embeddings --------------------------------------------------------- */

static int embed_batch(struct model_call_state *c, float **all,
                       size_t *dimensions, size_t done, size_t total,
                       struct error *err)
{
    int r = call_in_turn(c, err);

    if (r == 0 && c->vector_count != c->text_count)
        r = error_set(err, ERR_UNAVAILABLE,
                      "model %s: its server sent %zu vectors for %zu texts",
                      c->entry->spec.name, c->vector_count, c->text_count);
    if (r == 0 && *all && *dimensions != c->dimensions)
        r = error_set(err, ERR_UNAVAILABLE,
                      "model %s: its vectors differ in length",
                      c->entry->spec.name);
    if (r < 0)
        return r;
    *dimensions = c->dimensions;
    if (!*all)
        *all = xcalloc(total * c->dimensions, sizeof(float));
    memcpy(*all + done * c->dimensions, c->vectors,
           c->text_count * c->dimensions * sizeof(float));
    return 0;
}

static int embed_remote(struct model_call_state *c, const char *const *texts,
                        size_t count, float **ret, size_t *ret_dim,
                        struct error *err)
{
    float *all cleanup(mem_free) = NULL;

    for (size_t at = 0; at < count; at += c->text_count) {
        struct model_result part = {0};
        int r;

        c->texts = texts + at;
        c->text_count = MIN(count - at, (size_t)EMBED_BATCH);
        c->vectors = NULL;
        c->vector_count = c->dimensions = 0;
        c->result = &part;
        r = embed_batch(c, &all, ret_dim, at, count, err);
        part.usage.microcents = cost_of(&c->entry->spec, &part.usage);
        spend(c->models, c->who, &part.usage);
        record(c, r, err);
        free(c->vectors);
        c->result = NULL;
        if (r < 0)
            return r;
    }
    *ret = take_ptr(all);
    return 0;
}

int model_embed(struct models *m, const struct actor *who, const char *model,
                const char *const *texts, size_t count, float **ret,
                size_t *ret_dim, struct error *err)
{
    struct model_entry *entry cleanup(model_entry_release) = NULL;
    struct model_call_state c = {.models = m, .who = who};
    int r = model_entry_find(m, who, model, &entry, err);

    if (r < 0)
        return r;
    if (!entry->spec.embeddings)
        return error_set(err, ERR_UNSUPPORTED,
                         "model %s has no embeddings (embeddings: false)",
                         entry->spec.name);
    if (count == 0 || count > EMBED_MAX)
        return error_set(err, ERR_INVALID, "embed 1 to %u texts at once",
                         EMBED_MAX);
    for (size_t i = 0; i < count; i++)
        if (strnlen(texts[i], EMBED_TEXT_MAX + 1) > EMBED_TEXT_MAX)
            return error_set(err, ERR_TOO_LARGE,
                             "text %zu is larger than %zu bytes", i,
                             EMBED_TEXT_MAX);
    r = check_budgets(m, who, err);
    if (r < 0)
        return r;
    c.entry = entry;
    c.deadline_ms = clock_mono_ms() + entry->spec.timeout_s * 1000ull;
    if (entry->spec.kind != MODEL_ECHO)
        return embed_remote(&c, texts, count, ret, ret_dim, err);
    *ret_dim = MODEL_ECHO_DIMENSIONS;
    *ret = xcalloc(count * MODEL_ECHO_DIMENSIONS, sizeof(**ret));
    for (size_t i = 0; i < count; i++)
        model_echo_embed(texts[i], *ret + i * MODEL_ECHO_DIMENSIONS);
    return 0;
}
