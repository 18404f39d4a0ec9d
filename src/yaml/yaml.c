/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML to a tree, by the events of libyaml; see yaml.h. Pure; runs in the
 * daemon and the command line. Anchors and aliases are refused, so that a
 * small text stays small.
 */
#include "yaml/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"

#define DEPTH_MAX 16u

struct reader {
    yaml_parser_t parser;
    struct arena *arena;
    struct yaml_node *stack[DEPTH_MAX];
    size_t depth;
    const char *key; /* of a map: read, its value is next */
    unsigned key_line;
    struct yaml_node *root;
    unsigned line; /* of the fault */
};

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
    if (map->kind != NODE_MAP)
        return NULL;
    for (const struct yaml_node *n = map->first; n; n = n->next)
        if (strcmp(n->key, key) == 0)
            return n;
    return NULL;
}

/* ---- reading ------------------------------------------------------------ */

static int refuse_line(struct reader *r, unsigned line, const char *what,
                       struct error *err)
{
    r->line = line;
    return error_set(err, ERR_INVALID, "%s", what);
}

static struct yaml_node *node_new(struct reader *r, enum yaml_kind kind,
                                  unsigned line)
{
    struct yaml_node *n = arena_alloc(r->arena, sizeof(*n));

    n->kind = kind;
    n->line = line;
    return n;
}

/* Below the one that is open, or as the root. */
static int place(struct reader *r, struct yaml_node *n, struct error *err)
{
    struct yaml_node *up = r->depth ? r->stack[r->depth - 1] : NULL;

    if (!up) {
        r->root = n;
        return 0;
    }
    if (up->kind == NODE_MAP) {
        if (yaml_get(up, r->key)) {
            r->line = r->key_line;
            return error_set(err, ERR_INVALID, "\"%.64s\" is given twice",
                             r->key);
        }
        n->key = take_ptr(r->key);
        n->key_line = r->key_line;
    }
    if (up->last)
        up->last->next = n;
    else
        up->first = n;
    up->last = n;
    up->count++;
    return 0;
}

static int open_node(struct reader *r, enum yaml_kind kind, unsigned line,
                     struct error *err)
{
    struct yaml_node *n = node_new(r, kind, line);
    int rc = place(r, n, err);

    if (rc < 0)
        return rc;
    if (r->depth == DEPTH_MAX)
        return refuse_line(r, line, "nested too deep", err);
    r->stack[r->depth++] = n;
    return 0;
}

static int take_scalar(struct reader *r, const yaml_event_t *e, unsigned line,
                       struct error *err)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    const struct yaml_node *up = r->depth ? r->stack[r->depth - 1] : NULL;
    struct yaml_node *n;

    if (memchr(text, '\0', len))
        return refuse_line(r, line, "a zero byte", err);
    if (up && up->kind == NODE_MAP && !r->key) {
        r->key = arena_strndup(r->arena, text, len);
        r->key_line = line;
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
    const struct yaml_node *up = r->depth ? r->stack[r->depth - 1] : NULL;
    bool begins = e->type == YAML_SEQUENCE_START_EVENT ||
                  e->type == YAML_MAPPING_START_EVENT;

    if (marked(e))
        return refuse_line(r, line,
                           "anchors, aliases and tags are not supported", err);
    if (begins && up && up->kind == NODE_MAP && !r->key)
        return refuse_line(r, line, "a key must be plain text", err);
    switch ((int)e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return r->root
                   ? refuse_line(r, line, "more than one YAML document", err)
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

int yaml_read(struct arena *arena, const char *text, size_t len,
              struct yaml_node **ret, unsigned *ret_line, struct error *err)
{
    struct reader r = {.arena = arena, .line = 1};
    bool over = false;
    int rc = 0;

    if (!yaml_parser_initialize(&r.parser))
        return error_set(err, ERR_INTERNAL, "no memory to read YAML");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    while (rc == 0 && !over) {
        yaml_event_t event;

        if (!yaml_parser_parse(&r.parser, &event)) {
            rc = refuse_line(&r, (unsigned)r.parser.problem_mark.line + 1,
                             r.parser.problem ? r.parser.problem : "not YAML",
                             err);
            break;
        }
        rc = take_event(&r, &event, err);
        over = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&r.parser);
    if (rc == 0)
        *ret = r.root;
    else
        *ret_line = r.line;
    return rc;
}
