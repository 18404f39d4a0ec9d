/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of strings to objects that carry their own node. Runs under
 * the caller's lock; owns the buckets only, never an object or a key.
 */
#include "base/idmap.h"

#include <string.h>

#include "base/mem.h"
#include "base/siphash.h"

#define FIRST_SIZE 64

static void idmap_grow(struct idmap *m)
{
    size_t size = m->size ? m->size * 2 : FIRST_SIZE;
    struct idmap_node **buckets = xcalloc(size, sizeof(struct idmap_node *));

    for (size_t i = 0; i < m->size; i++) {
        struct idmap_node *next;

        for (struct idmap_node *n = m->buckets[i]; n; n = next) {
            next = n->next;
            n->next = buckets[n->hash & (size - 1)];
            buckets[n->hash & (size - 1)] = n;
        }
    }
    free(m->buckets);
    m->buckets = buckets;
    m->size = size;
}

void idmap_done(struct idmap *m)
{
    free(m->buckets);
    *m = (struct idmap){0};
}

void idmap_add(struct idmap *m, struct idmap_node *node, const char *key)
{
    struct idmap_node **bucket;

    if (m->count >= m->size)
        idmap_grow(m);
    node->key = key;
    node->hash = siphash_text(key);
    bucket = &m->buckets[node->hash & (m->size - 1)];
    node->next = *bucket;
    *bucket = node;
    m->count++;
}

struct idmap_node *idmap_find(const struct idmap *m, const char *key)
{
    uint64_t hash;

    if (!m->size)
        return NULL;
    hash = siphash_text(key);
    for (struct idmap_node *n = m->buckets[hash & (m->size - 1)]; n;
         n = n->next)
        if (n->hash == hash && strcmp(n->key, key) == 0)
            return n;
    return NULL;
}

void idmap_remove(struct idmap *m, struct idmap_node *node)
{
    struct idmap_node **at = &m->buckets[node->hash & (m->size - 1)];

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    m->count--;
}
