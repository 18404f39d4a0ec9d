/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models that were added over the API: in the database, by tenant, and in the
 * table of models from then on. Each change is in the audit trail. Runs in
 * gloveboxd.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/core.h"
#include "model/model_int.h"
#include "store/store.h"
#include "vault/vault.h"

#define COLUMNS                                                               \
    "tenant, name, kind, url, model, key, is_default, images, tools,"         \
    " embeddings, context_tokens, max_output_tokens, concurrent, timeout_s,"  \
    " idle_s, price_input, price_output, price_cached, made_by,"              \
    " created_at_ms"

/* ---- rows --------------------------------------------------------------- */

static bool read_row(struct store_rows *rows, struct model_spec *ret)
{
    const char *kind = store_text(rows, 2);
    int64_t cached = store_int(rows, 17);

    *ret = (struct model_spec){
        .is_default = store_int(rows, 6),
        .images = store_int(rows, 7),
        .tools = store_int(rows, 8),
        .embeddings = store_int(rows, 9),
        .context_tokens = (uint64_t)store_int(rows, 10),
        .max_output_tokens = (uint64_t)store_int(rows, 11),
        .concurrent = (uint32_t)store_int(rows, 12),
        .timeout_s = (uint32_t)store_int(rows, 13),
        .idle_s = (uint32_t)store_int(rows, 14),
        .price_input = (uint64_t)store_int(rows, 15),
        .price_output = (uint64_t)store_int(rows, 16),
        .price_cached = cached >= 0 ? (uint64_t)cached : 0,
        .has_cached_price = cached >= 0,
        .created_at_ms = store_int(rows, 19),
    };
    store_copy(rows, 0, ret->tenant, sizeof(ret->tenant));
    store_copy(rows, 1, ret->name, sizeof(ret->name));
    store_copy(rows, 3, ret->url, sizeof(ret->url));
    store_copy(rows, 4, ret->model, sizeof(ret->model));
    store_copy(rows, 5, ret->key, sizeof(ret->key));
    store_copy(rows, 18, ret->made_by, sizeof(ret->made_by));
    return kind && model_kind_find(kind, &ret->kind);
}

int model_stored_load(struct models *m, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (!m->parts.core->store)
        return 0;
    r = store_begin(m->parts.core->store, STORE_READ, "reading models", &tx,
                    err);
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT " COLUMNS " FROM models ORDER BY name", "");
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        struct model_spec spec;

        if (read_row(rows, &spec)) /* else: of a newer version */
            model_table_put(m, model_entry_new(&spec, false));
    }
    return r;
}

struct change {
    struct models *models;
    const struct actor *who;
    const struct model_spec *spec;
};

static int write_row(struct store_tx *tx, void *ctx, struct error *err)
{
    const struct change *c = ctx;
    const struct model_spec *s = c->spec;
    struct audit_event event = {.action = "model.put",
                                .object = s->name,
                                .after = model_kind_name(s->kind),
                                .detail = s->url};
    int r = 0;

    if (s->is_default)
        r = store_exec(tx, err,
                       "UPDATE models SET is_default = 0 WHERE tenant = ?1",
                       "t", s->tenant);
    if (r >= 0)
        r = store_exec(
            tx, err,
            "INSERT INTO models (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
            " ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,"
            " ?20) ON CONFLICT (tenant, name) DO UPDATE SET kind = ?3,"
            " url = ?4, model = ?5, key = ?6, is_default = ?7, images = ?8,"
            " tools = ?9, embeddings = ?10, context_tokens = ?11,"
            " max_output_tokens = ?12, concurrent = ?13, timeout_s = ?14,"
            " idle_s = ?15, price_input = ?16, price_output = ?17,"
            " price_cached = ?18, made_by = ?19",
            "ttttttiiiiiiiiiiiiti", s->tenant, s->name,
            model_kind_name(s->kind), s->url, s->model, s->key,
            (int64_t)s->is_default, (int64_t)s->images, (int64_t)s->tools,
            (int64_t)s->embeddings, (int64_t)s->context_tokens,
            (int64_t)s->max_output_tokens, (int64_t)s->concurrent,
            (int64_t)s->timeout_s, (int64_t)s->idle_s, (int64_t)s->price_input,
            (int64_t)s->price_output,
            s->has_cached_price ? (int64_t)s->price_cached : (int64_t)-1,
            s->made_by, s->created_at_ms);
    return r < 0 ? r
                 : audit_add(c->models->parts.core->audit, tx, c->who, &event,
                             err);
}

/* ---- changes ------------------------------------------------------------ */

/* The key must be in the tenant's vault and may go to the server. */
static int check_key(struct models *m, const struct actor *who,
                     const struct model_spec *s, struct error *err)
{
    struct vault_info info;
    char host[256];
    int r = s->key[0]
                ? vault_get(m->parts.core->vault, who, s->key, &info, err)
                : 0;

    if (r < 0) {
        (void)error_set(err, ERR_NOT_FOUND, "there is no secret '%s'", s->key);
        return error_hint(err,
                          "Store it first: glovebox secrets put %s "
                          "--to HOST",
                          s->key);
    }
    if (!s->key[0])
        return 0;
    r = model_spec_host(s, host, err);
    if (r == 0 && !vault_goes_to(&info, host)) {
        (void)error_set(err, ERR_INVALID, "the secret '%s' must not go to %s",
                        s->key, host);
        return error_hint(err,
                          "It is bound to %.200s. Store it again with "
                          "this host.",
                          info.destinations);
    }
    return r;
}

static int check_place(struct models *m, const struct model_spec *s,
                       int64_t *ret_created_ms, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    unsigned own = 0;
    bool there = false;

    for (size_t i = 0; i < m->count; i++) {
        const struct model_entry *e = m->rows[i];
        bool same = strcmp(e->spec.name, s->name) == 0;

        if (same && e->configured)
            return error_set(err, ERR_CONFLICT,
                             "the model '%s' is %s; choose another name",
                             s->name,
                             strcmp(s->name, MODEL_ECHO_NAME) == 0
                                 ? "built in"
                                 : "of the configuration");
        if (strcmp(e->spec.tenant, s->tenant) != 0)
            continue;
        own++;
        there |= same;
        if (same)
            *ret_created_ms = e->spec.created_at_ms;
    }
    if (!there && own >= MODELS_PER_TENANT)
        return error_set(err, ERR_LIMIT,
                         "there are %u models already, which is the most",
                         MODELS_PER_TENANT);
    return 0;
}

int model_put(struct models *m, const struct actor *who,
              const struct model_spec *spec, struct model_spec *ret,
              struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->change_lock);
    struct model_spec s = *spec;
    struct change c = {.models = m, .who = who, .spec = &s};
    struct model_entry *entry;
    int r;

    (void)snprintf(s.tenant, sizeof(s.tenant), "%s", who->tenant);
    (void)snprintf(s.made_by, sizeof(s.made_by), "%s",
                   who->key ? who->key : "");
    s.created_at_ms = clock_real_ms();
    r = model_spec_check(&s, err);
    if (r == 0 && s.kind == MODEL_ECHO)
        r = error_set(err, ERR_INVALID,
                      "a model of kind echo is a matter of the configuration; "
                      "use the built-in one");
    if (r == 0)
        r = check_place(m, &s, &s.created_at_ms, err);
    if (r == 0)
        r = check_key(m, who, &s, err);
    if (r < 0)
        return r;
    entry = model_entry_new(&s, false);
    s = entry->spec; /* with its defaults */
    r = store_write(m->parts.core->store, "storing a model", write_row, &c,
                    err);
    if (r < 0) {
        model_entry_release(&entry);
        return r;
    }
    model_table_put(m, entry);
    *ret = s;
    return 0;
}

static int delete_row(struct store_tx *tx, void *ctx, struct error *err)
{
    const struct change *c = ctx;
    struct audit_event event = {.action = "model.remove",
                                .object = c->spec->name,
                                .before = model_kind_name(c->spec->kind)};
    int r = store_exec(tx, err,
                       "DELETE FROM models WHERE tenant = ?1 AND name = ?2",
                       "tt", c->spec->tenant, c->spec->name);

    return r < 0 ? r
                 : audit_add(c->models->parts.core->audit, tx, c->who, &event,
                             err);
}

int model_remove(struct models *m, const struct actor *who, const char *name,
                 struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->change_lock);
    struct model_spec spec;
    struct change c = {.models = m, .who = who, .spec = &spec};
    int r = model_get(m, who, name, &spec, err);

    if (r == 0 && !spec.tenant[0]) {
        (void)error_set(err, ERR_CONFLICT,
                        "the model '%s' is of the configuration or built in, "
                        "and cannot be removed here",
                        spec.name);
        return error_hint(err, "Remove it from models: in the configuration.");
    }
    if (r == 0)
        r = store_write(m->parts.core->store, "removing a model", delete_row,
                        &c, err);
    if (r == 0)
        (void)model_table_drop(m, spec.tenant, spec.name);
    return r;
}
