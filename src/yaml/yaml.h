/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as a tree of nodes with line numbers, for policies, runtime definitions
 * and the configuration. All values are text; the caller interprets them.
 */
#ifndef GLOVEBOX_YAML_YAML_H
#define GLOVEBOX_YAML_YAML_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;

enum yaml_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP
};

/* Arena's, and so is all it points to. */
struct yaml_node {
    enum yaml_kind kind;
    unsigned line;
    const char *key; /* in a map */
    unsigned key_line;
    const char *text;
    size_t len;
    bool plain; /* a scalar without quotes */
    struct yaml_node *first, *last, *next;
    size_t count;
};

/* One document without anchors, aliases, tags and keys given twice; *ret is
 * NULL when there is nothing in it. On failure *ret_line says where. */
int yaml_read(struct arena *arena, const char *text, size_t len,
              struct yaml_node **ret, unsigned *ret_line, struct error *err);
/* The member of a map; NULL when there is none, or it is no map. */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

#endif
