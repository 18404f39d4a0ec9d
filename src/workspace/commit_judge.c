/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What policy says about files that get a path from what is kept already: by
 * a copy, a move or a restore. Which files these are, and under which names,
 * is known only once the plan stands, so they are judged there, as they are
 * when they are written; an upload is judged before (govern.c). Nobody can be
 * asked while a transaction is open: what is to be asked about is handed to
 * the caller, who ends it, asks, and commits anew what was approved, if it is
 * still the same. Runs in the daemon inside the commit's transaction; writes
 * nothing but queued events.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "workspace/commit_plan.h"

static bool from_within(const struct plan_node *n)
{
    return n->want == WANT_BYTES &&
           (n->put->copied || n->put->restored || n->put->from);
}

/* The very files that somebody is asked about. */
static void add_to(struct hash_stream *hash, const struct plan_node *n)
{
    hash_stream_add(hash, n->path, strlen(n->path) + 1);
    hash_stream_add(hash, n->put->sha256, strlen(n->put->sha256) + 1);
}

static void judge_all(struct commit_plan *p, struct workspace_judged *ret)
{
    struct hash_stream *hash = hash_stream_new();
    unsigned char digest[HASH_SIZE];

    for (const struct plan_node *n = p->first; n; n = n->next) {
        struct govern_request rq;
        struct policy_decision d;

        if (!from_within(n))
            continue;
        rq = govern_file_in(&(struct govern_scope){.actor = p->who}, n->path,
                            n->put->mime, (int64_t)n->put->size);
        govern_decide(&p->w->settings.govern, &rq, &d);
        if (d.verdict != POLICY_ALLOW) {
            add_to(hash, n);
            ret->count++;
        }
        if (!ret->path || d.verdict > ret->by.verdict) {
            ret->by = d;
            free(ret->path);
            ret->path = xstrdup(n->path);
        }
    }
    hash_stream_end(hash, digest);
    (void)ids_hex(digest, sizeof(digest), ret->sha256);
}

static void record(struct commit_plan *p, const struct workspace_judged *j)
{
    struct govern_request rq = govern_file_in(
        &(struct govern_scope){.actor = p->who}, j->path, NULL, -1);

    rq.object = p->row->id;
    govern_record(&p->w->settings.govern, &rq, &j->by);
}

void workspace_judged_done(struct workspace_judged *j)
{
    free(j->path);
    j->path = NULL;
}

int commit_judge(struct commit_plan *p, struct error *err)
{
    struct workspace_judged now cleanup(workspace_judged_done) = {0};
    struct workspace_judged *before = p->spec->judged;

    if (p->spec->governed || govern_idle(&p->w->settings.govern))
        return 0;
    judge_all(p, &now);
    if (!now.path)
        return 0;
    if (before && before->approved && now.by.verdict != POLICY_DENY)
        return now.count == 0 || strcmp(now.sha256, before->sha256) == 0
                   ? 0
                   : error_set(err, ERR_CONFLICT,
                               "the files are not those that were approved");
    record(p, &now);
    if (now.by.verdict == POLICY_ALLOW)
        return 0;
    if (now.by.verdict == POLICY_DENY || !before) {
        (void)policy_refuse(&now.by, err);
        return error_wrap(err, "%.100s", now.path);
    }
    *before = now;
    now.path = NULL;
    return error_set(err, ERR_APPROVAL, "somebody must approve this");
}
