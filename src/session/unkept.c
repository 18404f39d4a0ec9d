/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files a session has and its workspace had no room for. They are tried again
 * with each execution; only the one that wrote them ends with `limit`, those
 * that leave them as they were only say how many there are. Runs in gloveboxd
 * on the thread that has the turn.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "session/session_int.h"

#define UNKEPT_MAX 20000u /* those above are told of as new each time */

struct unkept {
    struct idmap_node node;
    char sha256[BLOB_NAME];
    char path[];
};

static void forget_all(struct idmap *m)
{
    for (size_t i = 0; i < m->size; i++)
        while (m->buckets[i]) {
            struct idmap_node *n = m->buckets[i];

            m->buckets[i] = n->next;
            free(container_of(n, struct unkept, node));
        }
    session_idmap_done(m);
    *m = (struct idmap){0};
}

void session_unkept_done(struct session *se)
{
    forget_all(&se->unkept);
}

/* Told before, and the same bytes still. */
static bool is_old(const struct session *se, const struct workspace_file *f)
{
    struct idmap_node *n = session_idmap_find(&se->unkept, f->path);

    return n && strcmp(container_of(n, struct unkept, node)->sha256,
                       f->sha256) == 0;
}

static void remember(struct idmap *m, const struct workspace_file *f)
{
    size_t len = strlen(f->path) + 1;
    struct unkept *u;

    if (m->count >= UNKEPT_MAX)
        return;
    u = xmalloc(sizeof(*u) + len);
    memcpy(u->path, f->path, len);
    memcpy(u->sha256, f->sha256, sizeof(u->sha256));
    session_idmap_add(m, &u->node, u->path);
}

static void tell(struct facts *facts, const struct workspace_file *f)
{
    if (facts->unkept_new++ == 0)
        (void)snprintf(facts->unkept_path, sizeof(facts->unkept_path), "%s",
                       f->path);
}

void session_unkept_weigh(struct session *se,
                          const struct workspace_commit *done,
                          struct facts *facts)
{
    struct idmap now = {0};

    for (size_t i = 0; i < done->count; i++) {
        const struct workspace_result *r = &done->results[i];
        bool old;

        if (r->fate != FATE_QUOTA)
            continue;
        old = is_old(se, &r->file);
        if (!old && facts)
            tell(facts, &r->file);
        if (old || facts) /* between executions nobody is told */
            remember(&now, &r->file);
    }
    forget_all(&se->unkept);
    se->unkept = now;
}
