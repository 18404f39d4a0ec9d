/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of models: the built-in one, those of the configuration and those
 * that were added over the API. Runs in gloveboxd.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "fair/fair.h"
#include "model/model_int.h"

#define CONCURRENT 16u
#define TIMEOUT_S 600u
#define IDLE_S 120u

/* ---- entries ------------------------------------------------------------ */

struct model_entry *model_entry_new(const struct model_spec *spec,
                                    bool configured)
{
    struct model_entry *e = xcalloc(1, sizeof(*e));
    struct model_spec *s = &e->spec;

    *s = *spec;
    if (!s->model[0])
        (void)snprintf(s->model, sizeof(s->model), "%s", s->name);
    s->concurrent = s->concurrent ? s->concurrent : CONCURRENT;
    s->timeout_s = s->timeout_s ? s->timeout_s : TIMEOUT_S;
    s->idle_s = s->idle_s ? s->idle_s : IDLE_S;
    e->configured = configured;
    atomic_store(&e->refs, 1);
    mutex_init(&e->lock);
    mutex_init(&e->key_lock);
    e->queue = fair_queue_new(s->concurrent);
    return e;
}

void model_entry_release(struct model_entry **entry)
{
    struct model_entry *e = *entry;

    *entry = NULL;
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1)
        return;
    if (e->key_value)
        explicit_bzero(e->key_value, strlen(e->key_value));
    free(e->key_value);
    fair_queue_free(e->queue);
    mutex_done(&e->key_lock);
    mutex_done(&e->lock);
    free(e);
}

/* ---- the table ---------------------------------------------------------- */

static bool is_named(const struct model_entry *e, const char *tenant,
                     const char *name)
{
    return strcmp(e->spec.tenant, tenant) == 0 &&
           strcmp(e->spec.name, name) == 0;
}

bool model_table_drop(struct models *m, const char *tenant, const char *name)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);

    for (size_t i = 0; i < m->count; i++)
        if (is_named(m->rows[i], tenant, name)) {
            model_entry_release(&m->rows[i]);
            memmove(&m->rows[i], &m->rows[i + 1],
                    (m->count - i - 1) * sizeof(struct model_entry *));
            m->count--;
            return true;
        }
    return false;
}

/* A tenant has one default model. */
static void drop_default(struct models *m, const struct model_entry *entry)
{
    mutex_assert_held(&m->lock);
    for (size_t i = 0; entry->spec.is_default && i < m->count; i++)
        if (strcmp(m->rows[i]->spec.tenant, entry->spec.tenant) == 0)
            m->rows[i]->spec.is_default = false;
}

void model_table_put(struct models *m, struct model_entry *entry)
{
    size_t at;

    (void)model_table_drop(m, entry->spec.tenant, entry->spec.name);
    mutex_lock(&m->lock);
    drop_default(m, entry);
    m->rows = xrealloc(m->rows, (m->count + 1) * sizeof(struct model_entry *));
    at = m->count++;
    while (at > 0 &&
           strcmp(m->rows[at - 1]->spec.name, entry->spec.name) > 0) {
        m->rows[at] = m->rows[at - 1];
        at--;
    }
    m->rows[at] = entry;
    mutex_unlock(&m->lock);
}

static int add_configured(struct models *m, const struct conf *conf,
                          struct error *err)
{
    static const struct model_spec echo = {
        .name = MODEL_ECHO_NAME,
        .model = "echo, a built-in model for trials",
        .kind = MODEL_ECHO,
        .images = true,
        .tools = true,
        .embeddings = true,
        .concurrent = 1000,
    };

    model_table_put(m, model_entry_new(&echo, true));
    for (size_t i = 0; conf && i < conf->model_count; i++) {
        struct model_spec spec;
        int r = model_spec_of_conf(&conf->models[i], &spec, err);

        if (r < 0)
            return r;
        model_table_put(m, model_entry_new(&spec, true));
    }
    return 0;
}

/* ---- the module --------------------------------------------------------- */

int models_open(const struct models_parts *parts, struct models **ret,
                struct error *err)
{
    struct models *m = xcalloc(1, sizeof(*m));
    int r;

    m->parts = *parts;
    mutex_init(&m->lock);
    mutex_init(&m->change_lock);
    r = add_configured(m, parts->conf, err);
    if (r == 0 && parts->core)
        r = model_stored_load(m, err);
    if (r < 0) {
        models_close(m);
        return r;
    }
    *ret = m;
    return 0;
}

void models_stop(struct models *m)
{
    if (m)
        atomic_store(&m->stopping, true);
}

void models_close(struct models *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        model_entry_release(&m->rows[i]);
    free(m->rows);
    mutex_done(&m->change_lock);
    mutex_done(&m->lock);
    free(m);
}

/* ---- finding ------------------------------------------------------------ */

static bool may_use(const struct model_entry *e, const struct actor *who)
{
    return !e->spec.tenant[0] ||
           (who && strcmp(e->spec.tenant, who->tenant) == 0);
}

static int not_found(const char *name, struct error *err)
{
    if (name) {
        (void)error_set(err, ERR_NOT_FOUND, "there is no model '%.63s'", name);
        return error_hint(err,
                          "List the models with: glovebox model list. Add one "
                          "with: glovebox model add (docs/MODELS.md).");
    }
    (void)error_set(err, ERR_NOT_FOUND, "no model is configured");
    return error_hint(
        err,
        "Add one: glovebox model add NAME --kind openai-chat --url "
        "http://127.0.0.1:8080/v1 --default, or list it below models: in "
        "the configuration (docs/MODELS.md). For trials, use the built-in "
        "model echo.");
}

int model_entry_find(struct models *m, const struct actor *who,
                     const char *name, struct model_entry **ret,
                     struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct model_entry *found = NULL;

    for (size_t i = 0; i < m->count; i++) {
        struct model_entry *e = m->rows[i];

        if (!may_use(e, who) ||
            (name ? strcmp(e->spec.name, name) != 0 : !e->spec.is_default))
            continue;
        if (!found || e->spec.tenant[0]) /* the tenant's own comes first */
            found = e;
    }
    if (!found)
        return not_found(name && *name ? name : NULL, err);
    atomic_fetch_add(&found->refs, 1);
    *ret = found;
    return 0;
}

static void copy_info(const struct model_entry *e, struct model_info *ret)
{
    *ret = (struct model_info){.name = xstrdup(e->spec.name),
                               .model = xstrdup(e->spec.model),
                               .kind = e->spec.kind,
                               .context_tokens = e->spec.context_tokens,
                               .images = e->spec.images,
                               .tools = e->spec.tools,
                               .embeddings = e->spec.embeddings,
                               .is_default = e->spec.is_default};
}

int model_find(struct models *m, const struct actor *who, const char *name,
               struct model_info *ret, struct error *err)
{
    struct model_entry *e cleanup(model_entry_release) = NULL;
    int r = model_entry_find(m, who, name, &e, err);

    if (r < 0)
        return r;
    mutex_lock(&m->lock); /* a change may take is_default away */
    copy_info(e, ret);
    mutex_unlock(&m->lock);
    return 0;
}

void model_info_clear(struct model_info *info)
{
    free((char *)(uintptr_t)info->name);
    free((char *)(uintptr_t)info->model);
    *info = (struct model_info){0};
}

int model_list(struct models *m, const struct actor *who,
               struct model_info **ret, size_t *ret_count, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct model_info *list = xcalloc(m->count + 1, sizeof(*list));
    size_t n = 0;

    (void)err;
    for (size_t i = 0; i < m->count; i++)
        if (may_use(m->rows[i], who))
            copy_info(m->rows[i], &list[n++]);
    *ret = list;
    *ret_count = n;
    return 0;
}

int model_get(struct models *m, const struct actor *who, const char *name,
              struct model_spec *ret, struct error *err)
{
    struct model_entry *e cleanup(model_entry_release) = NULL;
    int r = model_entry_find(m, who, name, &e, err);

    if (r < 0)
        return r;
    mutex_lock(&m->lock); /* a change may take is_default away */
    *ret = e->spec;
    mutex_unlock(&m->lock);
    return 0;
}

int model_specs(struct models *m, const struct actor *who,
                struct model_spec **ret, size_t *ret_count, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct model_spec *list = xcalloc(m->count + 1, sizeof(*list));
    size_t n = 0;

    (void)err;
    for (size_t i = 0; i < m->count; i++)
        if (may_use(m->rows[i], who))
            list[n++] = m->rows[i]->spec;
    *ret = list;
    *ret_count = n;
    return 0;
}

void model_health(struct models *m, const struct model_spec *spec,
                  struct model_health *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);

    *ret = (struct model_health){.why = ""};
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->rows[i]->spec.name, spec->name) == 0 &&
            strcmp(m->rows[i]->spec.tenant, spec->tenant) == 0)
            model_health_of(m->rows[i], ret);
}

size_t model_counts(struct models *m, struct model_counts **ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct model_counts *list = xcalloc(m->count + 1, sizeof(*list));

    for (size_t i = 0; i < m->count; i++) {
        struct model_entry *e = m->rows[i];
        struct model_counts *c = &list[i];
        struct model_health health;

        memcpy(c->name, e->spec.name, sizeof(c->name));
        memcpy(c->tenant, e->spec.tenant, sizeof(c->tenant));
        c->calls = atomic_load(&e->calls);
        c->failures = atomic_load(&e->failed);
        c->retries = atomic_load(&e->retries);
        c->input = atomic_load(&e->input);
        c->output = atomic_load(&e->output);
        c->running = atomic_load(&e->running);
        model_health_of(e, &health);
        c->state = health.state;
        c->open = health.state == MODEL_STATE_DOWN;
    }
    *ret = list;
    return m->count;
}
