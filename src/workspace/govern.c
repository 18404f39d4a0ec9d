/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What policy says about files that come and go and about who else gets a
 * workspace; see workspace.h. Runs in the daemon on the caller's thread,
 * before the transaction of the act: holding something for a person is one of
 * its own.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"
#include "json/json.h"

#define UNKNOWN_TYPE "application/octet-stream"

/* ---- one act ------------------------------------------------------------ */

static bool about_file(const struct policy_request *rq)
{
    return rq->file &&
           (rq->action == POLICY_FILE_IN || rq->action == POLICY_FILE_OUT ||
            rq->action == POLICY_SHARE);
}

void workspace_govern_weigh(struct workspaces *w,
                            const struct workspace_act *act,
                            struct policy_decision *ret)
{
    struct policy *policy = w->settings.policy;
    struct policy_request rq = act->rq;
    const char *by_name = about_file(&rq) ? workspace_mime(rq.file) : NULL;
    struct policy_decision other;

    if (by_name && (!rq.mime || !rq.mime[0]))
        rq.mime = by_name;
    policy_decide(policy, act->pinned, &rq, ret);
    if (!by_name || strcmp(by_name, UNKNOWN_TYPE) == 0 ||
        strcmp(by_name, rq.mime) == 0)
        return;
    rq.mime = by_name;
    policy_decide(policy, act->pinned, &rq, &other);
    if (other.verdict > ret->verdict)
        *ret = other;
}

/* What is to be approved, whole: the same again is the same. */
static void describe(va_list pairs, struct buf *ret)
{
    struct json_writer w = {.out = ret};
    const char *key;

    json_write_open(&w, NULL, '{');
    while ((key = va_arg(pairs, const char *))) {
        const char *value = va_arg(pairs, const char *);

        if (value && value[0])
            json_write_string(&w, key, value);
    }
    json_write_close(&w, '}');
}

int workspace_govern(struct workspaces *w, const struct workspace_act *act,
                     struct error *err, ...)
{
    struct buf payload cleanup(buf_done) = {0};
    struct policy_decision d;
    struct approval_spec spec = {.who = act->rq.who,
                                 .action = act->rq.action,
                                 .session = act->rq.session,
                                 .pool = act->rq.pool,
                                 .object = act->object,
                                 .summary = act->summary,
                                 .by = &d};
    va_list pairs;

    if (act->object && ids_valid("ws", act->object))
        spec.workspace = act->object;
    workspace_govern_weigh(w, act, &d);
    policy_record(w->settings.policy, &act->rq, &d, act->object, false);
    if (d.verdict != POLICY_ASK)
        return policy_refuse(&d, err);
    va_start(pairs, err);
    describe(pairs, &payload);
    va_end(pairs);
    spec.payload = payload.data;
    return approval_need(w->settings.approvals, &spec, err);
}

/* Nobody is asked about what the actor could not do anyway. True: there is
 * nothing to ask, or err says why not. */
static bool settled(struct workspaces *w, const struct actor *who,
                    const char *id, enum workspace_role role, int *ret,
                    struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    *ret = 0;
    if (policy_idle(w->settings.policy))
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
    const struct workspace_act act = {.rq = {.action = POLICY_FILE_IN,
                                             .who = who,
                                             .code_bytes = -1,
                                             .file = c->path,
                                             .mime = c->mime,
                                             .file_bytes = (int64_t)c->size},
                                      .object = id,
                                      .summary = summary};

    return workspace_govern(w, &act, err, "workspace", id, "path", c->path,
                            "sha256", c->sha256, NULL);
}

int workspace_govern_commit(struct workspaces *w, const struct actor *who,
                            const char *id,
                            const struct workspace_commit_spec *spec,
                            struct error *err)
{
    int r = 0;

    if (spec->governed || settled(w, who, id, ROLE_EDITOR, &r, err))
        return r;
    for (size_t i = 0; i < spec->count && r == 0; i++)
        if (spec->changes[i].kind == CHANGE_PUT)
            r = govern_put(w, who, id, &spec->changes[i], err);
    return r;
}

int workspace_govern_judged(struct workspaces *w, const struct actor *who,
                            const char *id, const char *kind,
                            struct workspace_judged *judged, struct error *err)
{
    char *summary cleanup(mem_free) = NULL;
    struct buf payload cleanup(buf_done) = {0};
    struct json_writer json = {.out = &payload};
    struct approval_spec spec = {.who = who,
                                 .action = POLICY_FILE_IN,
                                 .workspace = id,
                                 .object = id,
                                 .by = &judged->by};
    int r;

    json_write_open(&json, NULL, '{');
    json_write_string(&json, "workspace", id);
    json_write_string(&json, "change", kind);
    json_write_string(&json, "path", judged->path);
    json_write_string(&json, "files_sha256", judged->sha256);
    json_write_close(&json, '}');
    summary = judged->count > 1
                  ? xasprintf("%s %zu files in %s, %.200s the first", kind,
                              judged->count, id, judged->path)
                  : xasprintf("%s to %.200s in %s", kind, judged->path, id);
    spec.summary = summary;
    spec.payload = payload.data;
    r = approval_need(w->settings.approvals, &spec, err);
    judged->approved = r == 0;
    return r;
}

int workspace_govern_fetch(struct workspaces *w, const struct actor *who,
                           const struct workspace_file *f, struct error *err)
{
    char *summary cleanup(mem_free) = NULL;
    struct workspace_act act = {.rq = {.action = POLICY_FILE_OUT,
                                       .who = who,
                                       .code_bytes = -1,
                                       .file = f->path,
                                       .mime = f->mime,
                                       .file_bytes = (int64_t)f->size},
                                .object = f->file};

    if (policy_idle(w->settings.policy))
        return 0;
    if (!f->path) /* rules about names would not see it */
        return error_set(err, ERR_INTERNAL, "a file without a name");
    summary = xasprintf("fetch %.200s (%s)", f->path, f->version);
    act.summary = summary;
    return workspace_govern(w, &act, err, "file", f->file, "version",
                            f->version, NULL);
}

bool workspace_may_fetch(struct workspaces *w, const struct actor *who,
                         const char *path, const char *mime)
{
    const struct workspace_act act = {.rq = {.action = POLICY_FILE_OUT,
                                             .who = who,
                                             .code_bytes = -1,
                                             .file = path,
                                             .mime = mime,
                                             .file_bytes = -1}};
    struct policy_decision d;

    workspace_govern_weigh(w, &act, &d);
    return d.verdict == POLICY_ALLOW;
}

/* ---- a folder at once --------------------------------------------------- */

struct page {
    struct workspace_file *files;
    size_t count;
    bool more;
};

static void page_done(struct page *p)
{
    workspace_files_free(p->files, p->count);
}

/* The strictest that is said about any of the files. */
static int weigh_folder(struct workspaces *w, const struct actor *who,
                        const char *id, const char *prefix, int64_t seq,
                        struct policy_decision *ret, char **ret_path,
                        struct error *err)
{
    char *after cleanup(mem_free) = NULL;
    bool more = true;

    while (more && ret->verdict != POLICY_DENY) {
        struct page page cleanup(page_done) = {0};
        int r = workspace_files_list(w, who, id, prefix, seq, false,
                                     WORKSPACE_LIST_MAX, after, &page.files,
                                     &page.count, &page.more, err);

        if (r < 0)
            return r;
        for (size_t i = 0; i < page.count; i++) {
            const struct workspace_file *f = &page.files[i];
            const struct workspace_act act = {
                .rq = {.action = POLICY_FILE_OUT,
                       .who = who,
                       .code_bytes = -1,
                       .file = f->path,
                       .mime = f->mime,
                       .file_bytes = (int64_t)f->size}};
            struct policy_decision d;

            workspace_govern_weigh(w, &act, &d);
            if (d.verdict <= ret->verdict)
                continue;
            *ret = d;
            free(*ret_path);
            *ret_path = xstrdup(f->path);
        }
        more = page.more && page.count;
        free(after);
        after = more ? xstrdup(page.files[page.count - 1].path) : NULL;
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
    char at[24];
    struct buf payload cleanup(buf_done) = {0};
    struct json_writer json = {.out = &payload};
    struct policy_request rq = {
        .action = POLICY_FILE_OUT, .who = who, .file_bytes = -1};
    struct approval_spec spec = {
        .who = who, .action = POLICY_FILE_OUT, .object = id, .by = &d};
    int r;

    if (policy_idle(w->settings.policy))
        return 0;
    r = weigh_folder(w, who, id, prefix, seq, &d, &path, err);
    if (r < 0 || d.verdict == POLICY_ALLOW)
        return r;
    rq.file = path;
    policy_record(w->settings.policy, &rq, &d, id, false);
    if (d.verdict == POLICY_DENY) {
        (void)policy_refuse(&d, err);
        return error_wrap(err, "%.100s", path);
    }
    (void)snprintf(at, sizeof(at), "%" PRId64, seq);
    json_write_open(&json, NULL, '{');
    json_write_string(&json, "archive", id);
    json_write_string(&json, "prefix", prefix);
    json_write_string(&json, "commit", at);
    json_write_close(&json, '}');
    summary = xasprintf("fetch %.200s of %s as a zip",
                        prefix[0] ? prefix : "everything", id);
    spec.summary = summary;
    spec.payload = payload.data;
    return approval_need(w->settings.approvals, &spec, err);
}

/* ---- others ------------------------------------------------------------- */

int workspace_govern_share(struct workspaces *w, const struct actor *who,
                           const char *id,
                           const struct workspace_share_spec *spec,
                           struct error *err)
{
    const char *path = spec->path ? spec->path : "";
    char expires[24], downloads[24];
    char *summary cleanup(mem_free) = xasprintf(
        "make a link to %.200s of %s", path[0] ? path : "everything", id);
    const struct workspace_act act = {.rq = {.action = POLICY_SHARE,
                                             .who = who,
                                             .code_bytes = -1,
                                             .file = path,
                                             .file_bytes = -1},
                                      .object = id,
                                      .summary = summary};
    int r;

    if (settled(w, who, id, ROLE_EDITOR, &r, err))
        return r;
    (void)snprintf(expires, sizeof(expires), "%u", spec->expires_in_s);
    (void)snprintf(downloads, sizeof(downloads), "%" PRId64,
                   spec->max_downloads);
    return workspace_govern(
        w, &act, err, "workspace", id, "path", path, "version", spec->version,
        "mode", spec->mode == SHARE_WRITE ? "write" : "read", "expires_in_s",
        expires, "max_downloads", downloads, "password",
        spec->password ? "yes" : "no", NULL);
}

int workspace_govern_member(struct workspaces *w, const struct actor *who,
                            const char *id, const char *principal,
                            enum workspace_role role, struct error *err)
{
    char *summary cleanup(mem_free) = xasprintf("make %s %s of %s", principal,
                                                workspace_role_name(role), id);
    const struct workspace_act act = {.rq = {.action = POLICY_SHARE,
                                             .who = who,
                                             .code_bytes = -1,
                                             .file_bytes = -1},
                                      .object = id,
                                      .summary = summary};
    int r = 0;

    /* What takes away is nobody's to forbid. */
    if (role == ROLE_NONE || settled(w, who, id, ROLE_OWNER, &r, err))
        return r;
    return workspace_govern(w, &act, err, "workspace", id, "principal",
                            principal, "role", workspace_role_name(role),
                            NULL);
}

int workspace_govern_transfer(struct workspaces *w, const struct actor *who,
                              const char *id, const char *to,
                              struct error *err)
{
    char *summary cleanup(mem_free) =
        xasprintf("give %s to %s", id, to ? to : "whoever brings the token");
    const struct workspace_act act = {.rq = {.action = POLICY_TRANSFER,
                                             .who = who,
                                             .code_bytes = -1,
                                             .file_bytes = -1},
                                      .object = id,
                                      .summary = summary};
    int r;

    if (settled(w, who, id, ROLE_OWNER, &r, err))
        return r;
    return workspace_govern(w, &act, err, "workspace", id, "to", to ? to : "*",
                            NULL);
}

/* It was asked about when it was offered; what is denied since then is. */
int workspace_govern_claim(struct workspaces *w, const struct actor *who,
                           struct error *err)
{
    const struct policy_request rq = {.action = POLICY_TRANSFER,
                                      .who = who,
                                      .code_bytes = -1,
                                      .file_bytes = -1};
    struct policy_decision d;

    policy_decide(w->settings.policy, 0, &rq, &d);
    if (d.verdict != POLICY_DENY)
        return 0;
    policy_record(w->settings.policy, &rq, &d, NULL, false);
    return policy_refuse(&d, err);
}
