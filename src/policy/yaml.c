/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML to a tree, by the events of libyaml: what is refused, and on which
 * line, is ours to say. Pure; runs in the daemon and the command line. Anchors
 * and aliases are refused, so that a small text stays small.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "policy/policy_int.h"
#include "json/json.h"

#define DEPTH_MAX 16u

struct reader {
    yaml_parser_t parser;
    struct arena *arena;
    struct policy_node *stack[DEPTH_MAX];
    size_t depth;
    const char *key; /* of a map: read, its value is next */
    struct policy_node *root;
};

int policy_yaml_at(const struct policy_node *n, struct error *err)
{
    return error_wrap(err, "line %u", n->line);
}

int policy_yaml_unknown(const struct policy_node *n, const char *what,
                        const char *name, const char *const *known,
                        size_t count, struct error *err)
{
    const char *near = json_nearest(name, known, count);

    (void)error_set(err, ERR_INVALID, "unknown %s \"%.64s\"", what, name);
    if (near)
        (void)error_hint(err, "did you mean \"%s\"?", near);
    else
        (void)error_hint(err, "docs/POLICY.md has the list");
    return policy_yaml_at(n, err);
}

const struct policy_node *policy_yaml_get(const struct policy_node *map,
                                          const char *key)
{
    if (map->kind != NODE_MAP)
        return NULL;
    for (const struct policy_node *n = map->first; n; n = n->next)
        if (strcmp(n->key, key) == 0)
            return n;
    return NULL;
}

/* ---- reading ------------------------------------------------------------ */

static int refuse_line(unsigned line, const char *what, struct error *err)
{
    return error_set(err, ERR_INVALID, "line %u: %s", line, what);
}

static int parser_said(const yaml_parser_t *p, struct error *err)
{
    return error_set(err, ERR_INVALID, "line %zu: %s",
                     p->problem_mark.line + 1,
                     p->problem ? p->problem : "not YAML");
}

static struct policy_node *node_new(struct reader *r,
                                    enum policy_node_kind kind, unsigned line)
{
    struct policy_node *n = arena_alloc(r->arena, sizeof(*n));

    n->kind = kind;
    n->line = line;
    return n;
}

/* Below the one that is open, or as the root. */
static int place(struct reader *r, struct policy_node *n, struct error *err)
{
    struct policy_node *up = r->depth ? r->stack[r->depth - 1] : NULL;

    if (!up) {
        r->root = n;
        return 0;
    }
    if (up->kind == NODE_MAP) {
        if (policy_yaml_get(up, r->key))
            return error_set(err, ERR_INVALID,
                             "line %u: \"%.64s\" is given twice", n->line,
                             r->key);
        n->key = take_ptr(r->key);
    }
    if (up->last)
        up->last->next = n;
    else
        up->first = n;
    up->last = n;
    up->count++;
    return 0;
}

static int open_node(struct reader *r, enum policy_node_kind kind,
                     unsigned line, struct error *err)
{
    struct policy_node *n = node_new(r, kind, line);
    int rc = place(r, n, err);

    if (rc < 0)
        return rc;
    if (r->depth == DEPTH_MAX)
        return refuse_line(line, "nested too deep", err);
    r->stack[r->depth++] = n;
    return 0;
}

static int take_scalar(struct reader *r, const yaml_event_t *e, unsigned line,
                       struct error *err)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    const struct policy_node *up = r->depth ? r->stack[r->depth - 1] : NULL;
    struct policy_node *n;

    if (memchr(text, '\0', len))
        return refuse_line(line, "a zero byte", err);
    if (up && up->kind == NODE_MAP && !r->key) {
        r->key = arena_strndup(r->arena, text, len);
        return 0;
    }
    n = node_new(r, NODE_SCALAR, line);
    n->text = arena_strndup(r->arena, text, len);
    n->len = len;
    n->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return place(r, n, err);
}

static bool marked(const yaml_event_t *e)
{
    switch ((int)e->type) {
    case YAML_SCALAR_EVENT:
        return e->data.scalar.anchor || e->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return e->data.sequence_start.anchor || e->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return e->data.mapping_start.anchor || e->data.mapping_start.tag;
    default:
        return e->type == YAML_ALIAS_EVENT;
    }
}

static int take_event(struct reader *r, const yaml_event_t *e,
                      struct error *err)
{
    unsigned line = (unsigned)e->start_mark.line + 1;
    const struct policy_node *up = r->depth ? r->stack[r->depth - 1] : NULL;
    bool begins = e->type == YAML_SEQUENCE_START_EVENT ||
                  e->type == YAML_MAPPING_START_EVENT;

    if (marked(e))
        return refuse_line(line, "anchors, aliases and tags are not supported",
                           err);
    if (begins && up && up->kind == NODE_MAP && !r->key)
        return refuse_line(line, "a key must be plain text", err);
    switch ((int)e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return r->root ? refuse_line(line, "more than one YAML document", err)
                       : 0;
    case YAML_SCALAR_EVENT:
        return take_scalar(r, e, line, err);
    case YAML_SEQUENCE_START_EVENT:
        return open_node(r, NODE_LIST, line, err);
    case YAML_MAPPING_START_EVENT:
        return open_node(r, NODE_MAP, line, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return 0;
    default:
        return 0;
    }
}

int policy_yaml_parse(struct arena *arena, const char *text, size_t len,
                      struct policy_node **ret, struct error *err)
{
    struct reader r = {.arena = arena};
    bool over = false;
    int rc = 0;

    if (!yaml_parser_initialize(&r.parser))
        return error_set(err, ERR_INTERNAL, "no memory to read YAML");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    while (rc == 0 && !over) {
        yaml_event_t event;

        if (!yaml_parser_parse(&r.parser, &event)) {
            rc = parser_said(&r.parser, err);
            break;
        }
        rc = take_event(&r, &event, err);
        over = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&r.parser);
    if (rc == 0 && !r.root)
        rc = error_set(err, ERR_INVALID, "line 1: there is nothing in it");
    if (rc == 0)
        *ret = r.root;
    return rc;
}

/* ---- as JSON ------------------------------------------------------------ */

static json_t *scalar_json(const struct policy_node *n)
{
    char *end;
    long long number;

    if (!n->plain)
        return json_string(n->text);
    if (strcmp(n->text, "true") == 0 || strcmp(n->text, "false") == 0)
        return json_boolean(n->text[0] == 't');
    if (strcmp(n->text, "null") == 0 || strcmp(n->text, "~") == 0 ||
        n->len == 0)
        return json_null();
    errno = 0;
    number = strtoll(n->text, &end, 10);
    if (errno == 0 && *end == '\0' && n->text[0] != ' ')
        return json_integer(number);
    return json_string(n->text);
}

/* As deep as the tree may be. */
json_t *policy_yaml_json(const struct policy_node *n)
{
    json_t *out;

    if (n->kind == NODE_SCALAR)
        return scalar_json(n);
    out = n->kind == NODE_LIST ? json_array() : json_object();
    for (const struct policy_node *i = n->first; i; i = i->next) {
        if (n->kind == NODE_LIST)
            (void)json_array_append_new(out, policy_yaml_json(i));
        else
            (void)json_object_set_new(out, i->key, policy_yaml_json(i));
    }
    return out;
}
