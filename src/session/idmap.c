/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of ids to objects that carry their own node: sessions,
 * executions, tenants. Runs in gloveboxd under the caller's lock; owns the
 * buckets only, never an object or a key.
 */
#include <string.h>

#include "base/mem.h"
#include "session/session_int.h"

#define FIRST_SIZE 64

/* Ids are ours and random, tenants are the operator's: nobody outside can
 * choose keys that collide, so a plain hash will do. */
static uint32_t hash_of(const char *key)
{
    uint32_t h = 2166136261u;

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return h;
}

static void grow(struct idmap *m)
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

void session_idmap_done(struct idmap *m)
{
    free(m->buckets);
    *m = (struct idmap){0};
}

void session_idmap_add(struct idmap *m, struct idmap_node *node,
                       const char *key)
{
    struct idmap_node **bucket;

    if (m->count >= m->size)
        grow(m);
    node->key = key;
    node->hash = hash_of(key);
    bucket = &m->buckets[node->hash & (m->size - 1)];
    node->next = *bucket;
    *bucket = node;
    m->count++;
}

struct idmap_node *session_idmap_find(const struct idmap *m, const char *key)
{
    uint32_t hash = hash_of(key);

    if (!m->size)
        return NULL;
    for (struct idmap_node *n = m->buckets[hash & (m->size - 1)]; n;
         n = n->next)
        if (n->hash == hash && strcmp(n->key, key) == 0)
            return n;
    return NULL;
}

void session_idmap_remove(struct idmap *m, struct idmap_node *node)
{
    struct idmap_node **at = &m->buckets[node->hash & (m->size - 1)];

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    m->count--;
}
