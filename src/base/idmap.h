/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of strings to objects that embed a struct idmap_node. Not
 * thread-safe: the caller's lock protects the map. The hash is keyed, so that
 * a client which chooses the strings cannot make them collide.
 */
#ifndef GLOVEBOX_BASE_IDMAP_H
#define GLOVEBOX_BASE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct idmap_node {
    struct idmap_node *next;
    const char *key; /* borrowed from the object */
    uint64_t hash;
};

struct idmap {
    struct idmap_node **buckets;
    size_t size;
    size_t count;
};

#define container_of(ptr, type, member)                                       \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

void idmap_done(struct idmap *m);
void idmap_add(struct idmap *m, struct idmap_node *node, const char *key);
struct idmap_node *idmap_find(const struct idmap *m, const char *key);
void idmap_remove(struct idmap *m, struct idmap_node *node);

#endif
