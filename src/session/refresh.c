/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refresh: brings commits of other writers from the workspace into a live
 * session, through its broker. Runs in gloveboxd on the caller's thread,
 * between executions, so a running execution never sees files change.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define WAIT_MS 10000u

int session_exclusive_begin(struct session *se, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + WAIT_MS;
    bool in_time = true;
    int rc = 0;

    mutex_lock(&se->lock);
    while ((!session_settled(se) || se->running || session_closed(se)) &&
           in_time)
        in_time = cond_wait_until(&se->cond, &se->lock, deadline);
    if (se->phase == PHASE_ENDED)
        rc = session_error_ended(se, err);
    else if (!in_time) {
        (void)error_set(err, ERR_CONFLICT, "an execution is running");
        rc = error_hint(err, "wait for it to finish, or cancel it");
    } else {
        session_state_event(se, EV_CLOSE);
    }
    mutex_unlock(&se->lock);
    return rc;
}

void session_exclusive_end(struct session *se)
{
    mutex_lock(&se->lock);
    session_state_event(se, EV_OPEN);
    session_touch(se);
    mutex_unlock(&se->lock);
}

static int take_away(struct box *box, const char *path, struct error *err)
{
    struct broker_request remove = {.type = INIT_REMOVE, .path = path};
    struct broker_reply reply;

    /* A refusal means it is not there: as good as gone. */
    return box_broker_call(box, &remove, NULL, 0, false, &reply, err);
}

/* Takes away the folders on the way to a file that went, if it was the last
 * in them: another's file may have their name now. Those in use refuse. */
static int take_folders(struct box *box, const char *path, struct error *err)
{
    char *folder cleanup(mem_free) = xstrdup(path);
    char *slash;
    int rc = 0;

    while (rc == 0 && (slash = strrchr(folder, '/'))) {
        *slash = '\0';
        rc = take_away(box, folder, err);
    }
    return rc;
}

/* Removals come first: a file may replace a folder. */
static int apply_changes(struct session *se, struct box *box,
                         const struct workspace_file *files, size_t count,
                         struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        if (!files[i].sha256[0])
            rc = take_away(box, files[i].path, err);
    for (size_t i = 0; i < count && rc == 0; i++)
        if (!files[i].sha256[0])
            rc = take_folders(box, files[i].path, err);
    for (size_t i = 0; i < count && rc == 0; i++)
        if (files[i].sha256[0])
            rc = session_sandbox_put(se, box, &files[i], err);
    return rc;
}

int session_keep_own(struct session *se, struct box *box, struct error *err)
{
    session_commit_rest(se, box);
    if (!se->rescan)
        return 0;
    (void)error_set(err, ERR_CONFLICT,
                    "files of the session are not committed yet, and a "
                    "refresh could overwrite them");
    return error_hint(err, "see `files.refused` of the last execution: "
                           "another author holds a lock, or there is no room");
}

int session_refresh_box(struct session *se, const struct actor *who,
                        struct box *box, uint32_t *ret_count,
                        struct error *err)
{
    struct workspace_file *files = NULL;
    size_t count = 0;
    int64_t head = 0;
    int rc = session_keep_own(se, box, err);

    if (rc == 0)
        rc = workspace_changes(se->m->workspaces, who, se->workspace, se->base,
                               se->id, &files, &count, &head, err);
    if (rc < 0)
        return rc;
    rc = apply_changes(se, box, files, count, err);
    workspace_files_free(files, count);
    if (rc == 0) {
        se->base = head;
        *ret_count = (uint32_t)count;
    }
    return rc;
}

int session_refresh(struct sessions *s, const struct actor *who,
                    const char *id, uint32_t *ret_count,
                    struct session_info *ret, struct error *err)
{
    struct session *se = session_files_begin(s, who, id, err);
    struct box *box = NULL;
    int rc;

    if (!se)
        return -(int)err->code;
    *ret_count = 0;
    rc = session_exclusive_begin(se, err);
    if (rc == 0) {
        mutex_lock(&se->lock);
        if (se->box && se->made)
            box = box_ref(se->box);
        mutex_unlock(&se->lock);
        if (box) /* dormant: it wakes on the head anyway */
            rc = session_refresh_box(se, who, box, ret_count, err);
        box_unref(box);
        session_exclusive_end(se);
    }
    if (rc == 0)
        session_fill_info(se, ret);
    session_files_end(se);
    return rc;
}
