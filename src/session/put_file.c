/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts one stored file into a session under a name: into its workspace by a
 * commit and, if the session is live, into its sandbox. The file is staged in
 * the sandbox before the commit and named after it, so it appears completely
 * or not at all, and never without its commit. Runs in gloveboxd on the
 * caller's thread, which has pinned both the session and the blob.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "session/session_int.h"

/* The type of the path inside, as an errno: 0 a file, EISDIR a folder; and
 * whether it is executable. */
static int look_inside(struct box *box, const char *path, int *ret_errnum,
                       bool *ret_program, struct error *err)
{
    struct broker_request look = {.type = INIT_OPEN, .path = path};
    struct broker_reply reply = {.fd = -1};
    struct stat st;
    int rc = box_broker_call(box, &look, NULL, 0, true, &reply, err);

    *ret_program = false;
    if (rc == 0 && reply.errnum == 0) {
        *ret_program =
            fstat(reply.fd, &st) == 0 && (st.st_mode & S_IXUSR) != 0;
        fd_close(&reply.fd);
    }
    *ret_errnum = reply.errnum;
    return rc;
}

/* Could it get that name? Asked before the commit, which would take away a
 * folder of that name. Files and whatever else is there give way. */
static int check_place(struct box *box, const char *path, bool *ret_program,
                       struct error *err)
{
    const char *slash = strrchr(path, '/');
    int errnum = 0;
    int rc = look_inside(box, path, &errnum, ret_program, err);

    if (rc == 0 && errnum == ELOOP && slash) { /* itself, or on the way? */
        char *above cleanup(mem_free) = xstrndup(path, (size_t)(slash - path));
        bool program;

        rc = look_inside(box, above, &errnum, &program, err);
        if (errnum == EISDIR)
            errnum = 0;
    }
    if (rc == 0 &&
        (errnum == EISDIR || errnum == ENOTDIR || (errnum == ELOOP && slash)))
        rc = box_file_refused(errnum, err);
    return rc;
}

int session_put_file_stage(struct session *se, struct box *box,
                           const struct workspace_change *put,
                           uint32_t *ret_handle, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    bool program = false;
    uint64_t size;
    int rc = blob_open(se->m->core->blobs, put->sha256, &fd, &size, err);

    if (rc == 0)
        rc = check_place(box, put->path, &program, err);
    if (rc == 0)
        rc = box_file_stage(box, fd, size,
                            put->executable || (put->as_was && program),
                            ret_handle, err);
    return rc;
}

static int check_result(const struct workspace_result *r,
                        struct session_file *ret, struct error *err)
{
    if (r->fate == FATE_LOCKED)
        return session_workspace_files_locked(r, err);
    if (r->fate == FATE_QUOTA)
        return error_set(err, ERR_SPACE, "the workspace's quota is used up");
    if (r->fate == FATE_CONFLICT) /* where it is kept, beside theirs */
        ret->path = xstrdup(r->file.path);
    memcpy(ret->file, r->file.file, sizeof(ret->file));
    memcpy(ret->version, r->file.version, sizeof(ret->version));
    memcpy(ret->sha256, r->file.sha256, sizeof(ret->sha256));
    return 0;
}

int session_put_file_commit(struct session *se, const struct actor *who,
                            const struct put_file *what, bool live,
                            struct session_file *ret, struct error *err)
{
    struct workspace_commit_spec spec = {.kind = what->kind,
                                         .action = what->action,
                                         .base = live ? se->base : 0,
                                         .session = live ? se->id : NULL,
                                         .fence = atomic_load(&se->fence),
                                         .changes = &what->put,
                                         .count = 1,
                                         .if_none_match = what->fresh,
                                         .governed = true};
    struct workspace_commit done = {0};
    int rc = session_commit_make_workspace(se, who, err);

    if (rc == 0)
        rc = workspace_commit(se->m->workspaces, who, se->workspace, &spec,
                              &done, err);
    if (rc == 0 && done.count)
        rc = check_result(&done.results[0], ret, err);
    if (rc == 0 && done.count)
        session_commit_advance(se, &done);
    workspace_commit_done(&done);
    return rc;
}

static int bring_live(struct session *se, const struct actor *who,
                      const struct put_file *what, struct session_file *ret,
                      struct error *err)
{
    struct box *box = NULL;
    uint32_t handle = 0;
    int rc = session_wake(se, &box, err);

    if (rc < 0)
        return rc;
    rc = session_put_file_stage(se, box, &what->put, &handle, err);
    if (rc == 0) {
        rc = session_put_file_commit(se, who, what, true, ret, err);
        if (rc < 0)
            box_file_discard(box, handle);
        else /* a sandbox that is gone wakes with it */
            rc = box_file_publish(box, handle, what->put.path, err);
        if (rc < 0 && ret->version[0] && box_is_broken(box))
            rc = 0;
    }
    box_unref(box);
    return rc;
}

int session_put_file(struct session *se, const struct actor *who,
                     const struct put_file *what, struct session_file *ret,
                     struct error *err)
{
    return session_is_dormant(se)
               ? session_put_file_commit(se, who, what, false, ret, err)
               : bring_live(se, who, what, ret, err);
}
