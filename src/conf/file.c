/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads glovebox.yaml. libcyaml parses it against a schema that is built from
 * the table of options when needed: every value arrives as text and goes
 * through conf_value_set like the texts of flags and environment. Runs in the
 * daemon and the command line, called by conf_load; never follows aliases and
 * never takes part of a file.
 */
#include <cyaml/cyaml.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf_int.h"

/* What libcyaml fills: one text for each row of the tables, NULL if absent. */
struct loaded_pool {
    char *values[CONF_OPTIONS_MAX];
};

struct loaded {
    char *values[CONF_OPTIONS_MAX];
    struct loaded_pool *pools;
    unsigned pool_count;
};

struct schema {
    cyaml_schema_field_t pool_fields[CONF_OPTIONS_MAX + 1];
    cyaml_schema_field_t top_fields[CONF_OPTIONS_MAX + 2];
    cyaml_schema_value_t pool;
    cyaml_schema_value_t top;
};

/* What libcyaml said: its first complaint and where that was. */
struct complaint {
    char text[256];
    unsigned line;
    bool in_pool;
};

/* ---- the schema --------------------------------------------------------- */

static void fields_init(cyaml_schema_field_t *fields,
                        const struct conf_options *table)
{
    for (size_t i = 0; i < table->count; i++)
        fields[i] = (cyaml_schema_field_t){
            .key = table->row[i].name,
            .data_offset = (uint32_t)(i * sizeof(char *)),
            .value = {.type = CYAML_STRING,
                      .flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                      .data_size = sizeof(char),
                      .string = {.min = 0, .max = CONF_TEXT_MAX}},
        };
}

static void schema_init(struct schema *s)
{
    memset(s, 0, sizeof(*s));
    fields_init(s->pool_fields, &conf_options_pool);
    s->pool = (cyaml_schema_value_t){
        CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct loaded_pool,
                            s->pool_fields),
    };
    fields_init(s->top_fields, &conf_options_top);
    s->top_fields[conf_options_top.count] =
        (cyaml_schema_field_t)CYAML_FIELD_SEQUENCE_COUNT(
            "pools", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct loaded,
            pools, pool_count, &s->pool, 1, CONF_POOLS_MAX);
    s->top = (cyaml_schema_value_t){
        CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct loaded, s->top_fields),
    };
}

__attribute__((format(printf, 3, 0))) static void on_log(cyaml_log_t level,
                                                         void *ctx,
                                                         const char *fmt,
                                                         va_list args)
{
    struct complaint *seen = ctx;
    char text[sizeof(seen->text)];
    const char *line;

    (void)level; /* warnings, such as a second document, are errors here */
    (void)vsnprintf(text, sizeof(text), fmt, args); /* may cut */
    text[strcspn(text, "\n")] = '\0';
    line = strstr(text, "(line: ");
    if (!seen->text[0])
        (void)snprintf(seen->text, sizeof(seen->text), "%s",
                       strncmp(text, "Load: ", 6) == 0 ? text + 6 : text);
    else if (line && !seen->line)
        seen->line = (unsigned)strtoul(line + 7, NULL, 10);
    if (strstr(text, "in sequence entry"))
        seen->in_pool = true;
}

/* ---- errors with a line ------------------------------------------------- */

/* Whether the line that starts here sets that key, and at which level. */
static bool line_sets(const char *line, const char *key, bool in_pool)
{
    size_t indent = strspn(line, " -"), len = strlen(key);
    const char *p = line + indent;

    if ((indent > 0) != in_pool)
        return false;
    p += *p == '"' || *p == '\'';
    if (strncmp(p, key, len) != 0)
        return false;
    p += len;
    p += *p == '"' || *p == '\'';
    p += strspn(p, " ");
    return *p == ':';
}

/* The line of the nth (from 1) setting of a key in block style, or 0:
 * libcyaml keeps no position of a value and reports an unknown key at the
 * line of the one before. */
static unsigned find_line(const char *text, const char *key, bool in_pool,
                          unsigned nth)
{
    unsigned number = 1;

    for (const char *line = text; *line; number++) {
        if (line_sets(line, key, in_pool) && --nth == 0)
            return number;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return 0;
}

static int at_line(const char *label, unsigned line, struct error *err)
{
    if (line)
        return error_wrap(err, "%s:%u", label, line);
    return error_wrap(err, "%s", label);
}

static int unknown_key(const char *key, bool in_pool, struct error *err)
{
    const struct conf_options *here =
        in_pool ? &conf_options_pool : &conf_options_top;
    const struct conf_options *there =
        in_pool ? &conf_options_top : &conf_options_pool;
    const char *near = conf_options_nearest(here, key);

    (void)error_set(err, ERR_INVALID, "unknown key \"%.64s\"", key);
    if (conf_options_find(there, key))
        return error_hint(err,
                          in_pool ? "%s is not set per pool; it belongs "
                                    "at the top level"
                                  : "%s is a setting of a pool; it "
                                    "belongs below `pools`",
                          key);
    if (!in_pool && conf_options_distance(key, "pools") <= 2)
        near = "pools";
    if (near)
        return error_hint(err, "did you mean \"%s\"?", near);
    return error_hint(err, "see docs/CONFIG.md or `gloveboxd --reference`");
}

/* Turns libcyaml's complaint into ours. */
static int explain(const struct complaint *seen, cyaml_err_t why,
                   const char *text, const char *label, struct error *err)
{
    const char *name = strstr(seen->text, ": ");
    unsigned line = 0;

    name = name ? name + 2 : "";
    if (why == CYAML_ERR_INVALID_KEY) {
        (void)unknown_key(name, seen->in_pool, err);
        line = find_line(text, name, seen->in_pool, 1);
    } else if (strstr(seen->text, "already seen")) {
        (void)error_set(err, ERR_INVALID, "\"%.64s\" is given twice", name);
        if (!seen->in_pool)
            line = find_line(text, name, false, 2);
    } else if (why == CYAML_ERR_ALIAS) {
        (void)error_set(err, ERR_INVALID, "YAML aliases are not supported");
    } else if (why == CYAML_OK) {
        (void)error_set(err, ERR_INVALID, "more than one YAML document");
    } else if (why == CYAML_ERR_INVALID_VALUE) {
        (void)error_set(err, ERR_INVALID, "a value of the wrong kind (%s)",
                        seen->text);
    } else {
        (void)error_set(err, ERR_INVALID, "%s",
                        seen->text[0] ? seen->text : cyaml_strerror(why));
    }
    return at_line(label, line ? line : seen->line, err);
}

/* ---- values ------------------------------------------------------------- */

static int set_value(void *base, const struct conf_option *o,
                     const char *value, struct error *err)
{
    /* A service's working directory is nobody's intention. */
    if (o->type == CONF_PATH && value[0] && value[0] != '/')
        return error_set(err, ERR_INVALID,
                         "%s: \"%.64s\" must start with / in a file", o->name,
                         value);
    return conf_value_set(base, o, value, err);
}

static int apply_pools(const struct loaded *data, const char *text,
                       const char *label, struct conf *c, struct error *err)
{
    unsigned seen[CONF_OPTIONS_MAX] = {0};
    const struct conf_options *table = &conf_options_pool;

    if (data->pool_count == 0)
        return 0;
    c->pool_count = data->pool_count;
    for (size_t i = 0; i < data->pool_count; i++) {
        char *const *values = data->pools[i].values;

        if (conf_defaults(&c->pools[i], table, err) < 0)
            return -(int)err->code;
        if (!values[0]) /* the first row is the name */
            return error_set(err, ERR_INVALID, "%s: pool %zu has no name",
                             label, i + 1);
        for (size_t k = 0; k < table->count; k++) {
            const struct conf_option *o = &table->row[k];

            if (!values[k])
                continue;
            seen[k]++;
            if (set_value(&c->pools[i], o, values[k], err) < 0)
                return at_line(label, find_line(text, o->name, true, seen[k]),
                               err);
        }
        if (!values[conf_options_find(table, "ready") - table->row])
            c->pools[i].ready =
                MIN(c->pools[i].ready, c->pools[i].max_sessions);
        if (!values[conf_options_find(table, "max_memory_bytes") - table->row])
            c->pools[i].max_memory_bytes =
                MAX(c->pools[i].max_memory_bytes, c->pools[i].memory_bytes);
    }
    return 0;
}

static int apply(const struct loaded *data, const char *text,
                 const char *label, struct conf *c, struct error *err)
{
    const struct conf_options *table = &conf_options_top;

    for (size_t k = 0; k < table->count; k++) {
        const struct conf_option *o = &table->row[k];

        if (data->values[k] && set_value(c, o, data->values[k], err) < 0)
            return at_line(label, find_line(text, o->name, false, 1), err);
    }
    return apply_pools(data, text, label, c, err);
}

int conf_file_parse(const char *text, size_t len, const char *label,
                    struct conf *c, struct error *err)
{
    struct schema *schema cleanup(mem_free) = xmalloc(sizeof(*schema));
    struct complaint seen = {0};
    const cyaml_config_t config = {
        .log_fn = on_log,
        .log_ctx = &seen,
        .log_level = CYAML_LOG_WARNING,
        .mem_fn = cyaml_mem,
        .flags = CYAML_CFG_NO_ALIAS,
    };
    struct loaded *data = NULL;
    cyaml_err_t why;
    int r;

    if (memchr(text, '\0', len))
        return error_set(err, ERR_INVALID, "%s holds a zero byte", label);
    schema_init(schema);
    why = cyaml_load_data((const uint8_t *)text, len, &config, &schema->top,
                          (cyaml_data_t **)&data, NULL);
    if (why != CYAML_OK || seen.text[0])
        r = explain(&seen, why, text, label, err);
    else
        r = data ? apply(data, text, label, c, err) : 0; /* an empty file */
    if (data)
        (void)cyaml_free(&config, &schema->top, data, 0); /* cannot fail */
    return r;
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
