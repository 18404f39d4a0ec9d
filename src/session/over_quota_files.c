/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in a session that exceed the quota of its workspace and are therefore
 * not committed. Every execution tries to commit them again. Only the
 * execution that wrote such a file ends with the outcome `limit`; later
 * executions that leave it unchanged only report how many there are. Runs in
 * gloveboxd on the thread that has the turn.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "session/session_int.h"

#define OVER_QUOTA_MAX 20000u /* files beyond it count as new each time */

struct over_quota_file {
    struct idmap_node node;
    char sha256[BLOB_NAME];
    char path[];
};

static void over_quota_clear(struct idmap *m)
{
    for (size_t i = 0; i < m->size; i++)
        while (m->buckets[i]) {
            struct idmap_node *n = m->buckets[i];

            m->buckets[i] = n->next;
            free(container_of(n, struct over_quota_file, node));
        }
    session_idmap_done(m);
    *m = (struct idmap){0};
}

void session_over_quota_done(struct session *se)
{
    over_quota_clear(&se->over_quota);
}

/* Told before, and the same bytes still. */
static bool was_reported(const struct session *se,
                         const struct workspace_file *f)
{
    struct idmap_node *n = session_idmap_find(&se->over_quota, f->path);

    return n && strcmp(container_of(n, struct over_quota_file, node)->sha256,
                       f->sha256) == 0;
}

static void over_quota_add(struct idmap *m, const struct workspace_file *f)
{
    size_t len = strlen(f->path) + 1;
    struct over_quota_file *u;

    if (m->count >= OVER_QUOTA_MAX)
        return;
    u = xmalloc(sizeof(*u) + len);
    memcpy(u->path, f->path, len);
    memcpy(u->sha256, f->sha256, sizeof(u->sha256));
    session_idmap_add(m, &u->node, u->path);
}

static void observe_file(struct observations *observed,
                         const struct workspace_file *f)
{
    if (observed->over_quota_new++ == 0)
        (void)snprintf(observed->over_quota_path,
                       sizeof(observed->over_quota_path), "%s", f->path);
}

void session_over_quota_update(struct session *se,
                               const struct workspace_commit *done,
                               struct observations *observed)
{
    struct idmap now = {0};

    for (size_t i = 0; i < done->count; i++) {
        const struct workspace_result *r = &done->results[i];
        bool old;

        if (r->fate != FATE_QUOTA)
            continue;
        old = was_reported(se, &r->file);
        if (!old && observed)
            observe_file(observed, &r->file);
        if (old ||
            observed) /* between executions there is no answer to put it in */
            over_quota_add(&now, &r->file);
    }
    over_quota_clear(&se->over_quota);
    se->over_quota = now;
}
