/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads glovebox.yaml by the table of options: every value is text and goes
 * through conf_value_set like the texts of flags and environment. Runs in the
 * daemon and the command line, called by conf_load; never takes part of a
 * file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf_int.h"
#include "yaml/yaml.h"

#define READY_GVISOR 2u /* each is some 100 MiB */

/* ---- errors with a line ------------------------------------------------- */

static int at_line(const char *label, unsigned line, struct error *err)
{
    if (line)
        return error_wrap(err, "%s:%u", label, line);
    return error_wrap(err, "%s", label);
}

/* The lists of the file: what their elements are called, and their keys. */
static const struct {
    const char *name, *one;
    const struct conf_options *table;
} lists[] = {
    {"pools", "pool", &conf_options_pool},
    {"models", "model", &conf_options_model},
    {"buckets", "bucket", &conf_options_bucket},
};

static int unknown_key(const char *key, const struct conf_options *here,
                       struct error *err)
{
    const char *near = conf_options_nearest(here, key);
    bool top = here == &conf_options_top;

    (void)error_set(err, ERR_INVALID, "unknown key \"%.64s\"", key);
    if (!top && conf_options_find(&conf_options_top, key))
        return error_hint(
            err, "%s is not set per %s; it belongs at the top level", key,
            here == &conf_options_pool    ? "pool"
            : here == &conf_options_model ? "model"
                                          : "bucket");
    for (size_t i = 0; top && i < ARRAY_SIZE(lists); i++)
        if (conf_options_find(lists[i].table, key))
            return error_hint(err,
                              "%s is a setting of a %s; it belongs below "
                              "`%s`",
                              key, lists[i].one, lists[i].name);
    for (size_t i = 0; top && i < ARRAY_SIZE(lists); i++)
        if (conf_options_distance(key, lists[i].name) <= 2)
            near = lists[i].name;
    if (near)
        return error_hint(err, "did you mean \"%s\"?", near);
    return error_hint(err, "see docs/CONFIG.md or `gloveboxd --reference`");
}

static bool is_list(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (strcmp(key, lists[i].name) == 0)
            return true;
    return false;
}

/* ---- values ------------------------------------------------------------- */

static int set_value(void *base, const struct conf_option *o,
                     const char *value, struct error *err)
{
    /* A service's working directory is accidental. */
    if (o->type == CONF_PATH && value[0] && value[0] != '/')
        return error_set(err, ERR_INVALID,
                         "%s: \"%.64s\" must start with / in a file", o->name,
                         value);
    return conf_value_set(base, o, value, err);
}

/* One mapping: each key is an option of the table. given: which were. */
static int apply_map(const struct yaml_node *map, void *base,
                     const struct conf_options *table, const char *label,
                     bool given[CONF_OPTIONS_MAX], struct error *err)
{
    bool top = table == &conf_options_top;

    for (const struct yaml_node *n = map->first; n; n = n->next) {
        const struct conf_option *o = conf_options_find(table, n->key);
        int r = 0;

        if (top && is_list(n->key))
            continue;
        if (!o)
            r = unknown_key(n->key, table, err);
        else if (n->kind != NODE_SCALAR)
            r = error_set(err, ERR_INVALID,
                          "a value of the wrong kind: %s is not a %s", o->name,
                          n->kind == NODE_LIST ? "list" : "mapping");
        else if (n->len > CONF_TEXT_MAX)
            r = error_set(err, ERR_INVALID, "%s is longer than %d bytes",
                          o->name, CONF_TEXT_MAX);
        else
            r = set_value(base, o, n->text, err);
        if (r < 0)
            return at_line(label, n->key_line, err);
        given[o - table->row] = true;
    }
    return 0;
}

static int apply_pool(const struct yaml_node *n, struct conf_pool *pool,
                      size_t number, const char *label, struct error *err)
{
    const struct conf_options *table = &conf_options_pool;
    bool given[CONF_OPTIONS_MAX] = {0};

    if (conf_defaults(pool, table, err) < 0)
        return -(int)err->code;
    if (n->kind != NODE_MAP) {
        (void)error_set(err, ERR_INVALID,
                        "a value of the wrong kind: a pool is a mapping");
        return at_line(label, n->line, err);
    }
    if (apply_map(n, pool, table, label, given, err) < 0)
        return -(int)err->code;
    if (!given[0]) /* the first row is the name */
        return error_set(err, ERR_INVALID, "%s: pool %zu has no name", label,
                         number);
    if (!given[conf_options_find(table, "ready") - table->row]) {
        pool->ready = MIN(pool->ready, pool->max_sessions);
        if (strcmp(pool->isolation, "gvisor") == 0)
            pool->ready = MIN(pool->ready, READY_GVISOR);
    }
    if (!given[conf_options_find(table, "max_memory_bytes") - table->row])
        pool->max_memory_bytes =
            MAX(pool->max_memory_bytes, pool->memory_bytes);
    return 0;
}

static int apply_pools(const struct yaml_node *list, const char *label,
                       struct conf *c, struct error *err)
{
    size_t number = 0;

    if (list->kind != NODE_LIST || list->count < 1 ||
        list->count > CONF_POOLS_MAX) {
        (void)error_set(err, ERR_INVALID,
                        "a value of the wrong kind: pools is a list of 1 to "
                        "%d pools",
                        CONF_POOLS_MAX);
        return at_line(label, list->key_line, err);
    }
    c->pool_count = list->count;
    for (const struct yaml_node *n = list->first; n; n = n->next, number++)
        if (apply_pool(n, &c->pools[number], number + 1, label, err) < 0)
            return -(int)err->code;
    return 0;
}

/* One element of the list `what`s; `to` is its struct. */
static int apply_element(const struct yaml_node *n, const char *what, void *to,
                         const struct conf_options *table, size_t number,
                         const char *label, struct error *err)
{
    bool given[CONF_OPTIONS_MAX] = {0};

    if (conf_defaults(to, table, err) < 0)
        return -(int)err->code;
    if (n->kind != NODE_MAP) {
        (void)error_set(err, ERR_INVALID,
                        "a value of the wrong kind: a %s is a mapping", what);
        return at_line(label, n->line, err);
    }
    if (apply_map(n, to, table, label, given, err) < 0)
        return -(int)err->code;
    if (!given[0]) /* the first row is the name */
        return error_set(err, ERR_INVALID, "%s: %s %zu has no name", label,
                         what, number);
    return 0;
}

static int check_list(const struct yaml_node *list, const char *what, int most,
                      const char *label, struct error *err)
{
    if (list->kind == NODE_LIST && list->count <= (size_t)most)
        return 0;
    (void)error_set(err, ERR_INVALID,
                    "a value of the wrong kind: %ss is a list of at most %d "
                    "%ss",
                    what, most, what);
    return at_line(label, list->key_line, err);
}

static int apply_models(const struct yaml_node *list, const char *label,
                        struct conf *c, struct error *err)
{
    size_t number = 0;

    if (check_list(list, "model", CONF_MODELS_MAX, label, err) < 0)
        return -(int)err->code;
    c->model_count = list->count;
    for (const struct yaml_node *n = list->first; n; n = n->next, number++)
        if (apply_element(n, "model", &c->models[number], &conf_options_model,
                          number + 1, label, err) < 0)
            return -(int)err->code;
    return 0;
}

static int apply_buckets(const struct yaml_node *list, const char *label,
                         struct conf *c, struct error *err)
{
    size_t number = 0;

    if (check_list(list, "bucket", CONF_BUCKETS_MAX, label, err) < 0)
        return -(int)err->code;
    c->bucket_count = list->count;
    for (const struct yaml_node *n = list->first; n; n = n->next, number++)
        if (apply_element(n, "bucket", &c->buckets[number],
                          &conf_options_bucket, number + 1, label, err) < 0)
            return -(int)err->code;
    return 0;
}

static void arena_freep(struct arena **a)
{
    arena_free(*a);
}

int conf_file_parse(const char *text, size_t len, const char *label,
                    struct conf *c, struct error *err)
{
    struct arena *arena cleanup(arena_freep) = arena_new();
    bool given[CONF_OPTIONS_MAX] = {0};
    const struct yaml_node *pools, *models, *buckets;
    struct yaml_node *root = NULL;
    unsigned line = 0;

    if (memchr(text, '\0', len))
        return error_set(err, ERR_INVALID, "%s holds a zero byte", label);
    if (yaml_read(arena, text, len, &root, &line, err) < 0)
        return at_line(label, line, err);
    if (!root)
        return 0; /* an empty file */
    if (root->kind != NODE_MAP) {
        (void)error_set(err, ERR_INVALID,
                        "a configuration is a mapping of keys to values");
        return at_line(label, root->line, err);
    }
    if (apply_map(root, c, &conf_options_top, label, given, err) < 0)
        return -(int)err->code;
    pools = yaml_get(root, "pools");
    if (pools && apply_pools(pools, label, c, err) < 0)
        return -(int)err->code;
    models = yaml_get(root, "models");
    if (models && apply_models(models, label, c, err) < 0)
        return -(int)err->code;
    buckets = yaml_get(root, "buckets");
    return buckets ? apply_buckets(buckets, label, c, err) : 0;
}

int conf_file_load(const char *path, struct conf *c, struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    size_t len;
    int r = fd_read_file(AT_FDCWD, path, CONF_FILE_MAX, &text, &len);

    if (r == -EFBIG)
        return error_set(err, ERR_INVALID, "%s is larger than %zu KiB", path,
                         CONF_FILE_MAX / 1024);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read %s", path);
    r = conf_file_parse(text, len, path, c, err);
    if (r == 0) {
        free(c->file);
        c->file = xstrdup(path);
    }
    return r;
}
