/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy check of files that get a path from stored versions: by a copy, a
 * move or a restore. Their names are only known once the plan of the commit is
 * complete, so they are checked here, each like a file that is written; an
 * upload is checked before its transaction (govern.c). An approval cannot be
 * requested while the transaction is open: the result goes to the caller,
 * which ends the transaction, requests the approval, and commits again if the
 * approved files are still the same. Runs in the daemon inside the commit's
 * transaction; writes nothing but queued events.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "workspace/commit_plan.h"

static bool is_copied(const struct plan_node *n)
{
    return n->want == WANT_BYTES &&
           (n->put->copied || n->put->restored || n->put->from);
}

/* The digest identifies the files that the approval covers. */
static void add_to(struct hash_stream *hash, const struct plan_node *n)
{
    hash_stream_add(hash, n->path, strlen(n->path) + 1);
    hash_stream_add(hash, n->put->sha256, strlen(n->put->sha256) + 1);
}

static void decide_all(struct commit_plan *p, struct commit_policy_result *ret)
{
    struct hash_stream *hash = hash_stream_new();
    unsigned char digest[HASH_SIZE];

    for (const struct plan_node *n = p->first; n; n = n->next) {
        struct govern_request rq;
        struct policy_decision d;

        if (!is_copied(n))
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

static void record(struct commit_plan *p, const struct commit_policy_result *j)
{
    struct govern_request rq = govern_file_in(
        &(struct govern_scope){.actor = p->who}, j->path, NULL, -1);

    rq.object = p->row->id;
    govern_record(&p->w->settings.govern, &rq, &j->by);
}

void commit_policy_result_done(struct commit_policy_result *j)
{
    free(j->path);
    j->path = NULL;
}

int commit_policy_check(struct commit_plan *p, struct error *err)
{
    struct commit_policy_result now cleanup(commit_policy_result_done) = {0};
    struct commit_policy_result *before = p->spec->policy;

    if (p->spec->governed || govern_idle(&p->w->settings.govern))
        return 0;
    decide_all(p, &now);
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
