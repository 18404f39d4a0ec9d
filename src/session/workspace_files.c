/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a session as its workspace has them: the listing of a dormant
 * session, which need not be woken for it, and the ids in the listing of a
 * live one. Runs in gloveboxd on the caller's thread, which has pinned the
 * session.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

bool session_is_dormant(struct session *se)
{
    bool dormant;

    if (se->ephemeral)
        return false;
    mutex_lock(&se->lock);
    dormant = session_asleep(se);
    mutex_unlock(&se->lock);
    return dormant;
}

int session_workspace_files_open(struct session *se, const char *path,
                                 int *ret_fd, struct stat *ret_stat,
                                 struct error *err)
{
    struct actor who = session_actor(se);
    struct workspace_file f = {0};
    int fd cleanup(fd_close) = -1;
    int rc = workspace_file_get(se->m->workspaces, &who, se->workspace, path,
                                NULL, &f, err);

    if (rc < 0)
        return rc;
    rc = workspace_file_open(se->m->workspaces, NULL, &f, &fd, err);
    workspace_file_done(&f);
    if (rc < 0)
        return rc;
    if (fstat(fd, ret_stat) < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot look at a stored file");
    *ret_fd = take_fd(fd);
    return 0;
}

int session_workspace_files_locked(const struct workspace_result *r,
                                   struct error *err)
{
    char until[32];

    return error_set(err, ERR_LOCKED, "%s holds a lock on it until %s",
                     r->holder, clock_format_ms(r->lock_expires_at_ms, until));
}

/* was_live: it is inside, so nothing committed to remove is fine. */
int session_workspace_files_remove(struct session *se, const struct actor *who,
                                   const char *path, bool was_live,
                                   struct error *err)
{
    struct workspace_change change = {.kind = CHANGE_REMOVE, .path = path};
    struct workspace_commit_spec spec = {.kind = "delete",
                                         .action = "file.delete",
                                         .base = was_live ? se->base : 0,
                                         .session = was_live ? se->id : NULL,
                                         .fence = atomic_load(&se->fence),
                                         .changes = &change,
                                         .count = 1};
    struct workspace_commit done = {0};
    int rc = workspace_commit(se->m->workspaces, who, se->workspace, &spec,
                              &done, err);

    if (rc == 0 && done.count == 0 && !was_live)
        rc = error_set(err, ERR_NOT_FOUND, "no such file");
    if (rc == -ERR_NOT_FOUND && was_live)
        rc = 0; /* never committed: a folder, or of a single run */
    if (rc == 0 && done.count && done.results[0].fate == FATE_LOCKED)
        rc = session_workspace_files_locked(&done.results[0], err);
    if (rc == 0 && done.count && done.results[0].fate == FATE_KEPT) {
        (void)error_set(err, ERR_CONFLICT,
                        "others changed it since this session saw it");
        rc = error_hint(err, "refresh the session first");
    }
    if (rc == 0 && was_live)
        session_commit_advance(se, &done);
    workspace_commit_done(&done);
    return rc;
}

static void describe(struct session_file *ret, const struct workspace_file *f)
{
    memcpy(ret->file, f->file, sizeof(ret->file));
    memcpy(ret->version, f->version, sizeof(ret->version));
    memcpy(ret->sha256, f->sha256, sizeof(ret->sha256));
}

int session_workspace_files_list(struct session *se, unsigned limit,
                                 const char *after, struct session_file **ret,
                                 size_t *ret_count, bool *ret_more,
                                 struct error *err)
{
    struct actor who = session_actor(se);
    struct workspace_file *files = NULL;
    struct page_result got = {0};
    int rc = workspace_files_list(
        se->m->workspaces, &who, se->workspace,
        &(struct workspace_files_spec){.limit = limit, .after = after}, &files,
        &got, err);

    if (rc < 0)
        return rc;
    *ret = xcalloc(MAX(got.count, (size_t)1), sizeof(**ret));
    for (size_t i = 0; i < got.count; i++) {
        (*ret)[i].path = take_ptr(files[i].path);
        (*ret)[i].size = files[i].size;
        (*ret)[i].modified_at_ms = files[i].modified_at_ms;
        describe(&(*ret)[i], &files[i]);
    }
    *ret_count = got.count;
    *ret_more = got.has_more;
    workspace_files_free(files, got.count);
    return 0;
}

void session_workspace_files_describe(struct session *se,
                                      struct session_file *files, size_t count)
{
    struct actor who = session_actor(se);

    for (size_t i = 0; i < count && se->made && !se->ephemeral; i++) {
        struct workspace_file f = {0};
        struct error ignored; /* not committed yet: it has no id */

        if (workspace_file_get(se->m->workspaces, &who, se->workspace,
                               files[i].path, NULL, &f, &ignored) < 0)
            continue;
        if (f.size == files[i].size)
            describe(&files[i], &f);
        workspace_file_done(&f);
    }
}
