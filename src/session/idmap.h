/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids to objects that carry their own link; see idmap.c. Used all over
 * src/session/, under the lock of whoever has the map.
 */
#ifndef GLOVEBOX_SESSION_IDMAP_H
#define GLOVEBOX_SESSION_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct idmap_node {
    struct idmap_node *next;
    const char *key; /* borrowed from the object */
    uint32_t hash;
};

struct idmap {
    struct idmap_node **buckets;
    size_t size;
    size_t count;
};

#define container_of(ptr, type, member)                                       \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

void session_idmap_done(struct idmap *m);
void session_idmap_add(struct idmap *m, struct idmap_node *node,
                       const char *key);
struct idmap_node *session_idmap_find(const struct idmap *m, const char *key);
void session_idmap_remove(struct idmap *m, struct idmap_node *node);

#endif
