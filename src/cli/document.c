/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document that a person wrote, as JSON or as YAML, for commands that send
 * it. Plain YAML scalars get the types of YAML's core schema: null, true and
 * false, whole and decimal numbers; everything else is text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"
#include "yaml/yaml.h"

#define DEPTH_MAX 64u

static bool is_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(*words, text) == 0)
            return true;
    return false;
}

/* ret: owned; NULL for a text that is not UTF-8. */
static json_t *scalar_of(const struct yaml_node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", NULL};
    static const char *const no[] = {"false", "False", "FALSE", NULL};
    char *end;
    double real;
    long long whole;

    if (!node->plain)
        return json_stringn(node->text, node->len);
    if (is_word(node->text, nulls))
        return json_null();
    if (is_word(node->text, yes) || is_word(node->text, no))
        return json_boolean(is_word(node->text, yes));
    if (strspn(node->text, "+-0123456789.eE") == node->len &&
        strpbrk(node->text, "0123456789")) {
        whole = strtoll(node->text, &end, 10);
        if (!*end)
            return json_integer(whole);
        real = strtod(node->text, &end);
        if (!*end && isfinite(real))
            return json_real(real);
    }
    return json_stringn(node->text, node->len);
}

static json_t *value_of(const struct yaml_node *node, unsigned depth)
{
    json_t *v;

    if (depth > DEPTH_MAX)
        return NULL;
    if (node->kind == NODE_SCALAR)
        return scalar_of(node);
    v = node->kind == NODE_MAP ? json_object() : json_array();
    for (const struct yaml_node *n = node->first; n; n = n->next) {
        json_t *each = value_of(n, depth + 1);
        int r = !each                    ? -1
                : node->kind == NODE_MAP ? json_object_set_new(v, n->key, each)
                                         : json_array_append_new(v, each);

        if (r < 0) {
            json_decref(v);
            return NULL;
        }
    }
    return v;
}

static int read_yaml(const char *path, const char *text, size_t len,
                     json_t **ret, struct error *err)
{
    struct arena *arena = arena_new();
    struct yaml_node *root = NULL;
    unsigned line = 0;
    int r = yaml_read(arena, text, len, &root, &line, err);

    if (r < 0) {
        r = error_wrap(err, "%s, line %u", path, line);
    } else {
        *ret = root ? value_of(root, 0) : json_object();
        if (!*ret)
            r = error_set(err, ERR_INVALID,
                          "%s is not UTF-8 text, or is nested too deeply",
                          path);
    }
    arena_free(arena);
    return r;
}

int cli_document_read(const char *path, size_t max, json_t **ret,
                      struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    struct error ignored;
    size_t len = 0;
    int r = cli_input_read(path, max, &text, &len, err);

    if (r < 0)
        return r;
    if (json_parse(text, len, ret, &ignored) == 0)
        return 0;
    return read_yaml(path, text, len, ret, err);
}
