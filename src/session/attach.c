/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching stored files to a session. The commit refers to the existing blob,
 * so nothing is copied. A sandbox created later mounts the file. A sandbox
 * that has not run code yet is created again with it. Any other sandbox gets a
 * copy in its scratch space. An ephemeral session has no workspace, so its
 * files are always copied. Runs in gloveboxd on the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

/* ---- the file ----------------------------------------------------------- */

/* Its bytes cannot go while it is held. */
struct kept {
    struct blobs *blobs;
    struct workspace_file file;
    bool pinned;
};

static void kept_done(struct kept *k)
{
    if (k->pinned)
        blob_release(k->blobs, k->file.sha256);
    workspace_file_done(&k->file);
}

/* Found, pinned, and looked up again: the second lookup shows whether the
 * bytes were removed before they were pinned. */
static int kept_find(struct session *se, const struct actor *who,
                     const char *file, struct kept *ret, struct error *err)
{
    struct workspaces *w = se->m->workspaces;
    struct workspace_file again = {0};
    char workspace[ID_MAX];
    int rc =
        workspace_file_find(w, who, file, NULL, &ret->file, workspace, err);

    ret->blobs = se->m->core->blobs;
    if (rc == 0)
        rc = blob_pin(ret->blobs, ret->file.sha256, err);
    ret->pinned = rc == 0;
    if (rc == 0)
        rc = workspace_file_find(w, who, file, ret->file.version, &again,
                                 workspace, err);
    workspace_file_done(&again);
    return rc;
}

static struct workspace_change put_of(const struct kept *k, const char *path)
{
    bool plain = strcmp(k->file.mime, "application/octet-stream") == 0;

    return (struct workspace_change){
        .kind = CHANGE_PUT,
        .path = path,
        .sha256 = k->file.sha256,
        .size = k->file.size,
        .executable = k->file.executable,
        .mime = plain ? NULL : k->file.mime, /* the name may know better */
        .from_version = k->file.version,
    };
}

/* ---- when a session is made --------------------------------------------- */

int session_attach_check(const struct session_attach *files, size_t count,
                         struct error *err)
{
    if (count > SESSION_FILES_MAX)
        return error_set(err, ERR_INVALID,
                         "a session may have at most %u files from the start",
                         SESSION_FILES_MAX);
    for (size_t i = 0; i < count; i++) {
        int rc = session_path_check(files[i].path, strlen(files[i].path), err);

        if (rc < 0)
            return rc;
        for (size_t j = 0; j < i; j++)
            if (strcmp(files[i].path, files[j].path) == 0)
                return error_set(err, ERR_INVALID,
                                 "two files have the same path: %.200s",
                                 files[i].path);
    }
    return 0;
}

static int link_all(struct session *se, const struct actor *who,
                    const struct workspace_change *puts, size_t count,
                    struct error *err)
{
    struct workspace_commit_spec spec = {.kind = "copy",
                                         .action = "file.copy",
                                         .changes = puts,
                                         .count = count,
                                         .governed = true};
    struct workspace_commit done = {0};
    int rc = session_commit_make_workspace(se, who, err);

    if (rc == 0)
        rc = workspace_commit(se->m->workspaces, who, se->workspace, &spec,
                              &done, err);
    workspace_commit_done(&done);
    return rc;
}

int session_attach_link(struct session *se, const struct actor *who,
                        const struct session_attach *files, size_t count,
                        struct error *err)
{
    struct kept kept[SESSION_FILES_MAX] = {0};
    struct workspace_change puts[SESSION_FILES_MAX];
    size_t found = 0;
    int rc = 0;

    while (found < count && rc == 0) {
        struct kept *k = &kept[found];

        rc = kept_find(se, who, files[found].file, k, err);
        puts[found] = put_of(k, files[found].path);
        if (rc == 0)
            rc = session_admit_upload(se, who, &puts[found], err);
        found++;
    }
    if (rc == 0 && count)
        rc = link_all(se, who, puts, count, err);
    for (size_t i = 0; i < found; i++)
        kept_done(&kept[i]);
    return rc;
}

/* Into a sandbox, under its name. */
static int copy_in(struct session *se, struct box *box,
                   const struct workspace_change *put, struct error *err)
{
    uint32_t handle;
    int rc = session_put_file_stage(se, box, put, &handle, err);

    return rc < 0 ? rc : box_file_publish(box, handle, put->path, err);
}

int session_attach_copy(struct session *se, const struct actor *who,
                        struct box *box, const struct session_attach *files,
                        size_t count, struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++) {
        struct kept k cleanup(kept_done) = {0};

        rc = kept_find(se, who, files[i].file, &k, err);
        if (rc == 0) {
            struct workspace_change put = put_of(&k, files[i].path);

            rc = session_admit_upload(se, who, &put, err);
            if (rc == 0)
                rc = copy_in(se, box, &put, err);
        }
    }
    return rc;
}

/* ---- later -------------------------------------------------------------- */

/* True if the sandbox was never used and no turn waits for it, so that it may
 * be created again. Keeps new turns out. */
static bool take_untouched(struct session *se)
{
    bool mine;

    mutex_lock(&se->lock);
    mine = session_untouched(se) && se->turn == TURN_FREE && !se->queue_head;
    if (mine)
        session_state_event(se, EV_CLOSE);
    mutex_unlock(&se->lock);
    return mine;
}

static void attach_reopen(struct session *se)
{
    mutex_lock(&se->lock);
    session_state_event(se, EV_OPEN);
    mutex_unlock(&se->lock);
}

static int copy_live(struct session *se, const struct workspace_change *put,
                     struct error *err)
{
    struct box *box = NULL;
    int rc = session_wake(se, &box, err);

    if (rc == 0)
        rc = copy_in(se, box, put, err);
    box_unref(box);
    return rc;
}

/* The file is stored, so a sandbox that cannot be created now gets it when one
 * is needed. A sandbox that is in use by now gets a copy. */
static int link_below(struct session *se, const struct actor *who,
                      const struct put_file *what, struct session_file *ret,
                      struct error *err)
{
    struct error later;
    int rc = session_put_file_commit(se, who, what, false, ret, err);
    int made = rc < 0 ? 0 : session_wake_replace(se, &later);

    if (made < 0)
        log_event(LOG_WARN, "sandbox_not_replaced", "session", se->id, "error",
                  later.message, NULL);
    return made > 0 ? copy_live(se, &what->put, err) : rc;
}

static int attach_file(struct session *se, const struct actor *who,
                       const struct session_attach *file,
                       struct session_file *ret, struct error *err)
{
    struct kept k cleanup(kept_done) = {0};
    struct put_file what = {.kind = "copy", .action = "file.copy"};
    int rc = session_attach_check(file, 1, err);

    if (rc == 0)
        rc = kept_find(se, who, file->file, &k, err);
    if (rc < 0)
        return rc;
    what.put = put_of(&k, file->path);
    rc = session_admit_upload(se, who, &what.put, err);
    if (rc < 0)
        return rc;
    *ret = (struct session_file){.size = k.file.size,
                                 .modified_at_ms = clock_real_ms()};
    if (se->ephemeral) {
        rc = copy_live(se, &what.put, err);
        memcpy(ret->sha256, k.file.sha256, sizeof(ret->sha256));
    } else if (take_untouched(se)) {
        rc = link_below(se, who, &what, ret, err);
        attach_reopen(se);
    } else {
        rc = session_put_file(se, who, &what, ret, err);
    }
    if (rc == 0 && !ret->path)
        ret->path = xstrdup(file->path);
    if (rc < 0)
        free(take_ptr(ret->path));
    return rc;
}

int session_attach(struct sessions *s, const struct actor *who, const char *id,
                   const struct session_attach *what, struct session_file *ret,
                   struct error *err)
{
    struct session *se = session_files_begin(s, who, id, err);
    int rc;

    if (!se)
        return -(int)err->code;
    rc = attach_file(se, who, what, ret, err);
    session_files_end(se);
    return rc;
}
