/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the configuration: defaults, file, environment, flags, then the
 * checks. Called once by main of the daemon and of the command line, before
 * any thread; the result is never changed afterwards.
 */
#include "conf/conf.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "conf/conf_int.h"

int conf_defaults(void *base, const struct conf_options *table,
                  struct error *err)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct conf_option *o = &table->row[i];
        char *found cleanup(mem_free) = o->find ? o->find() : NULL;

        if (conf_value_set(base, o, found ? found : o->standard, err) < 0)
            return error_wrap(err, "default");
    }
    return 0;
}

/* The file named by a flag or the environment must be there; the default one
 * need not. "none" reads none. */
static int load_file(const char *named, struct conf *c, struct error *err)
{
    char *usual cleanup(mem_free) = NULL;

    if (!named)
        named = getenv("GLOVEBOX_CONFIG");
    if (named && strcmp(named, "none") == 0)
        return 0;
    if (named)
        return conf_file_load(named, c, err);
    usual = conf_places_config();
    if (access(usual, F_OK) < 0)
        return 0;
    return conf_file_load(usual, c, err);
}

int conf_load(int argc, char *const *argv, struct conf **ret,
              struct error *err)
{
    struct conf *c cleanup(conf_freep) = xcalloc(1, sizeof(*c));
    struct conf_flags flags;

    if (conf_flags_read(argc, argv, &flags, err) < 0)
        return -(int)err->code;
    c->mode = flags.mode;
    if (conf_defaults(c, &conf_options_top, err) < 0 ||
        conf_defaults(&c->pools[0], &conf_options_pool, err) < 0)
        return -(int)err->code;
    c->pool_count = 1;
    c->machine_memory = conf_machine_memory();
    if (c->mode != CONF_REFERENCE && c->mode != CONF_SAMPLE &&
        c->mode != CONF_HELP &&
        (load_file(flags.config, c, err) < 0 || conf_env_apply(c, err) < 0 ||
         conf_flags_apply(&flags, c, err) < 0 || conf_check(c, err) < 0))
        return -(int)err->code;
    *ret = take_ptr(c);
    return 0;
}

static void values_free(void *base, const struct conf_options *table)
{
    for (size_t i = 0; i < table->count; i++)
        conf_value_free(base, &table->row[i]);
}

void conf_free(struct conf *c)
{
    if (!c)
        return;
    values_free(c, &conf_options_top);
    for (size_t i = 0; i < CONF_POOLS_MAX; i++)
        values_free(&c->pools[i], &conf_options_pool);
    for (size_t i = 0; i < CONF_MODELS_MAX; i++)
        values_free(&c->models[i], &conf_options_model);
    for (size_t i = 0; i < CONF_BUCKETS_MAX; i++)
        values_free(&c->buckets[i], &conf_options_bucket);
    free(c->file);
    free(c);
}

void conf_freep(struct conf **c)
{
    conf_free(*c);
}

const struct conf_bucket *conf_bucket_find(const struct conf *c,
                                           const char *name)
{
    for (size_t i = 0; i < c->bucket_count; i++)
        if (strcmp(c->buckets[i].name, name) == 0)
            return &c->buckets[i];
    return NULL;
}

bool conf_list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list) {
        size_t n = strcspn(list, ",");

        if (n == len && memcmp(list, word, len) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* The list's value for the tenant, if the list is valid; see conf_int.h. */
bool conf_sharing_read(const char *list, const char *tenant, const char **ret)
{
    static const char *const values[] = {"principal", "tenant"};
    bool named = false;

    *ret = NULL;
    if (!list)
        return true;
    while (*list) {
        size_t len = strcspn(list, ","), name = strcspn(list, "=,");
        const char *value = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(values); i++)
            if (name < len && strlen(values[i]) == len - name - 1 &&
                memcmp(list + name + 1, values[i], len - name - 1) == 0)
                value = values[i];
        if (!value || name == 0)
            return false;
        if (name == 1 && *list == '*') {
            *ret = named ? *ret : value;
        } else if (tenant && strlen(tenant) == name &&
                   memcmp(list, tenant, name) == 0) {
            *ret = value;
            named = true;
        }
        list += len;
        if (*list == ',' && !*++list)
            return false; /* nothing after the comma */
    }
    return true;
}

const char *conf_tenant_sharing(const struct conf *c, const char *tenant)
{
    const char *found;

    /* A list that cannot be read was refused when it was loaded. */
    return conf_sharing_read(c->tenant_sharing, tenant, &found) ? found : NULL;
}

const struct conf_pool *conf_pool_find(const struct conf *c, const char *name)
{
    if (!name || !name[0])
        return &c->pools[0];
    for (size_t i = 0; i < c->pool_count; i++)
        if (strcmp(c->pools[i].name, name) == 0)
            return &c->pools[i];
    return NULL;
}

bool conf_show(const struct conf *c, FILE *out)
{
    switch (c->mode) {
    case CONF_SERVE:
        return false;
    case CONF_CHECK:
        fprintf(out, "configuration is valid (%s)\n",
                c->file ? c->file : "no file");
        return true;
    case CONF_DUMP:
        conf_dump(c, out);
        return true;
    case CONF_REFERENCE:
        conf_reference(out);
        return true;
    case CONF_SAMPLE:
        conf_sample(out);
        return true;
    case CONF_HELP:
        conf_help_flags(out);
        return true;
    }
    return false;
}
