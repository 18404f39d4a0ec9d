/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that workspaces put to govern/: files that are written and
 * read, and access for others. Runs in the daemon on the caller's thread,
 * before the transaction of the act: holding an act for approval is a
 * transaction of its own.
 *
 * Files that get a path from stored versions, by a copy, a move or a restore,
 * are different: their names are only known once the plan of the commit is
 * complete. They are checked inside its transaction, each like a file that is
 * written. An approval cannot be requested while the transaction is open: the
 * result goes to the caller, which ends the transaction, requests the
 * approval, and commits again if the approved files are still the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "workspace/commit_plan.h"
#include "workspace/workspace_int.h"

/* An act that the actor has no right to is refused before a person is asked
 * to approve it. True: the answer is *ret already, because no policy is in
 * force or because access is denied. */
static bool nothing_to_ask(struct workspaces *w, const struct actor *who,
                           const char *id, enum workspace_role role, int *ret,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    *ret = 0;
    if (govern_idle(&w->govern))
        return true;
    *ret = workspace_enter(w, who, id, role, STORE_READ,
                           "looking for a workspace", &tx, NULL, err);
    return *ret < 0;
}

/* ---- files -------------------------------------------------------------- */

static int govern_put(struct workspaces *w, const struct actor *who,
                      const char *id, const struct workspace_change *c,
                      struct error *err)
{
    char *summary cleanup(mem_free) =
        xasprintf("put %.200s into %s", c->path, id);
    struct govern_request rq =
        govern_file_in(&(struct govern_scope){.actor = who}, c->path, c->mime,
                       (int64_t)c->size);

    rq.object = rq.workspace = id;
    rq.summary = summary;
    govern_add(&rq, "workspace", id);
    govern_add(&rq, "path", c->path);
    govern_add(&rq, "sha256", c->sha256);
    return govern_enforce(&w->govern, &rq, err);
}

int workspace_govern_commit(struct workspaces *w, const struct actor *who,
                            const char *id,
                            const struct workspace_commit_spec *spec,
                            struct error *err)
{
    int r = 0;

    if (spec->governed || nothing_to_ask(w, who, id, ROLE_EDITOR, &r, err))
        return r;
    for (size_t i = 0; i < spec->count && r == 0; i++)
        if (spec->changes[i].kind == CHANGE_PUT)
            r = govern_put(w, who, id, &spec->changes[i], err);
    return r;
}

int workspace_govern_copied(struct workspaces *w, const struct actor *who,
                            const char *id, const char *kind,
                            struct commit_policy_result *policy,
                            struct error *err)
{
    char *summary cleanup(mem_free) =
        policy->count > 1
            ? xasprintf("%s %zu files in %s, %.200s the first", kind,
                        policy->count, id, policy->path)
            : xasprintf("%s to %.200s in %s", kind, policy->path, id);
    struct govern_request rq = govern_file_in(
        &(struct govern_scope){.actor = who}, policy->path, NULL, -1);
    int r;

    rq.object = rq.workspace = id;
    rq.summary = summary;
    govern_add(&rq, "workspace", id);
    govern_add(&rq, "change", kind);
    govern_add(&rq, "path", policy->path);
    govern_add(&rq, "files_sha256", policy->sha256);
    r = govern_hold(&w->govern, &rq, &policy->by, err);
    policy->approved = r == 0;
    return r;
}

static struct govern_request fetch_request(const struct actor *who,
                                           const struct workspace_file *f)
{
    return govern_file_out(&(struct govern_scope){.actor = who}, f->path,
                           f->mime, (int64_t)f->size);
}

int workspace_govern_fetch(struct workspaces *w, const struct actor *who,
                           const struct workspace_file *f, struct error *err)
{
    char *summary cleanup(mem_free) = NULL;
    struct govern_request rq = fetch_request(who, f);

    if (govern_idle(&w->govern))
        return 0;
    if (!f->path) /* rules about names would not see it */
        return error_set(err, ERR_INTERNAL, "a file without a name");
    summary = xasprintf("fetch %.200s (%s)", f->path, f->version);
    rq.object = f->file;
    rq.summary = summary;
    govern_add(&rq, "file", f->file);
    govern_add(&rq, "version", f->version);
    return govern_enforce(&w->govern, &rq, err);
}

bool workspace_may_fetch(struct workspaces *w, const struct actor *who,
                         const char *path, const char *mime)
{
    const struct govern_request rq =
        govern_file_out(&(struct govern_scope){.actor = who}, path, mime, -1);
    struct policy_decision d;

    govern_decide(&w->govern, &rq, &d);
    return d.verdict == POLICY_ALLOW;
}

/* ---- a folder at once --------------------------------------------------- */

struct file_page {
    struct workspace_file *files;
    struct page_result got;
};

static void file_page_done(struct file_page *p)
{
    workspace_files_free(p->files, p->got.count);
}

/* The strictest decision about any file of the folder. */
static int decide_folder(struct workspaces *w, const struct actor *who,
                         const char *id, const char *prefix, int64_t seq,
                         struct policy_decision *ret, char **ret_path,
                         struct error *err)
{
    char *after cleanup(mem_free) = NULL;
    bool more = true;

    while (more && ret->verdict != POLICY_DENY) {
        struct file_page page cleanup(file_page_done) = {0};
        int r = workspace_files_list(
            w, who, id,
            &(struct workspace_files_spec){.prefix = prefix,
                                           .at = seq,
                                           .limit = WORKSPACE_LIST_MAX,
                                           .after = after},
            &page.files, &page.got, err);

        if (r < 0)
            return r;
        for (size_t i = 0; i < page.got.count; i++) {
            const struct workspace_file *f = &page.files[i];
            const struct govern_request rq = fetch_request(who, f);
            struct policy_decision d;

            govern_decide(&w->govern, &rq, &d);
            if (d.verdict <= ret->verdict)
                continue;
            *ret = d;
            free(*ret_path);
            *ret_path = xstrdup(f->path);
        }
        more = page.got.has_more && page.got.count;
        free(after);
        after = more ? xstrdup(page.files[page.got.count - 1].path) : NULL;
    }
    return 0;
}

int workspace_govern_archive(struct workspaces *w, const struct actor *who,
                             const char *id, const char *prefix, int64_t seq,
                             struct error *err)
{
    struct policy_decision d = {.verdict = POLICY_ALLOW};
    char *path cleanup(mem_free) = NULL;
    char *summary cleanup(mem_free) = NULL;
    char commit[24];
    struct govern_request rq;
    int r;

    if (govern_idle(&w->govern))
        return 0;
    r = decide_folder(w, who, id, prefix, seq, &d, &path, err);
    if (r < 0 || d.verdict == POLICY_ALLOW)
        return r;
    summary = xasprintf("fetch %.200s of %s as a zip",
                        prefix[0] ? prefix : "everything", id);
    (void)snprintf(commit, sizeof(commit), "%" PRId64, seq);
    rq = govern_file_out(&(struct govern_scope){.actor = who}, path, NULL, -1);
    rq.object = id;
    rq.summary = summary;
    govern_add(&rq, "archive", id);
    govern_add(&rq, "prefix", prefix);
    govern_add(&rq, "commit", commit);
    r = govern_apply(&w->govern, &rq, &d, err);
    return r == -ERR_FORBIDDEN && d.verdict == POLICY_DENY
               ? error_wrap(err, "%.100s", path)
               : r;
}

/* ---- others ------------------------------------------------------------- */

int workspace_govern_share(struct workspaces *w, const struct actor *who,
                           const char *id,
                           const struct workspace_share_spec *spec,
                           struct error *err)
{
    const char *path = spec->path ? spec->path : "";
    char expires[24], downloads[24];
    char *summary cleanup(mem_free) =
        xasprintf("make a link to %s%.200s of %s",
                  spec->mode == SHARE_UPLOAD ? "upload to " : "",
                  path[0] ? path : "everything", id);
    struct govern_request rq =
        govern_share(&(struct govern_scope){.actor = who}, path);
    int r;

    if (nothing_to_ask(w, who, id, ROLE_EDITOR, &r, err))
        return r;
    (void)snprintf(expires, sizeof(expires), "%u", spec->expires_in_s);
    (void)snprintf(downloads, sizeof(downloads), "%" PRId64,
                   spec->max_downloads);
    rq.object = rq.workspace = id;
    rq.summary = summary;
    govern_add(&rq, "workspace", id);
    govern_add(&rq, "path", path);
    govern_add(&rq, "version", spec->version);
    govern_add(&rq, "mode",
               spec->mode == SHARE_UPLOAD  ? "upload"
               : spec->mode == SHARE_WRITE ? "write"
                                           : "read");
    govern_add(&rq, "expires_in_s", expires);
    govern_add(&rq, "max_downloads", downloads);
    govern_add(&rq, "password", spec->password ? "yes" : "no");
    return govern_enforce(&w->govern, &rq, err);
}

int workspace_govern_member(struct workspaces *w, const struct actor *who,
                            const char *id, const char *principal,
                            enum workspace_role role, struct error *err)
{
    char *summary cleanup(mem_free) = xasprintf("make %s %s of %s", principal,
                                                workspace_role_name(role), id);
    struct govern_request rq =
        govern_share(&(struct govern_scope){.actor = who}, NULL);
    int r = 0;

    /* Taking access away needs no policy's consent. */
    if (role == ROLE_NONE || nothing_to_ask(w, who, id, ROLE_OWNER, &r, err))
        return r;
    rq.object = rq.workspace = id;
    rq.summary = summary;
    govern_add(&rq, "workspace", id);
    govern_add(&rq, "principal", principal);
    govern_add(&rq, "role", workspace_role_name(role));
    return govern_enforce(&w->govern, &rq, err);
}

int workspace_govern_transfer(struct workspaces *w, const struct actor *who,
                              const char *id, const char *to,
                              struct error *err)
{
    char *summary cleanup(mem_free) = xasprintf(
        "give %s to %s", id, to ? to : "the holder of a claim token");
    struct govern_request rq =
        govern_transfer(&(struct govern_scope){.actor = who});
    int r;

    if (nothing_to_ask(w, who, id, ROLE_OWNER, &r, err))
        return r;
    rq.object = rq.workspace = id;
    rq.summary = summary;
    govern_add(&rq, "workspace", id);
    govern_add(&rq, "to", to ? to : "*");
    return govern_enforce(&w->govern, &rq, err);
}

/* The transfer was decided when it was offered; a policy that denies it since
 * then wins. */
int workspace_govern_claim(struct workspaces *w, const struct actor *who,
                           struct error *err)
{
    const struct govern_request rq =
        govern_transfer(&(struct govern_scope){.actor = who});
    struct policy_decision d;

    govern_decide(&w->govern, &rq, &d);
    return d.verdict == POLICY_DENY ? govern_apply(&w->govern, &rq, &d, err)
                                    : 0;
}

/* ---- files that a commit copies --------------------------------------------
 */

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
        govern_decide(&p->w->govern, &rq, &d);
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
    govern_record(&p->w->govern, &rq, &j->by);
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

    if (p->spec->governed || govern_idle(&p->w->govern))
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
    return error_set(err, ERR_APPROVAL, "this requires an approval");
}
