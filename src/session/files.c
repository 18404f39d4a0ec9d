/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a live session, through the broker of its pid 1: list, open,
 * remove. Runs in gloveboxd on the caller's thread. This file never opens a
 * path. A descriptor received from a sandbox is checked before it is passed
 * on, and its size is only a claim (F1, F2, F3, F5, F7). Files of a dormant
 * session come from its workspace (workspace_files.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread.h"
#include "session/session_int.h"

#define LIST_MAX 1000u
#define ROUNDS_MAX 64u /* replies to one listing */

/* ---- one call ----------------------------------------------------------- */

struct session *session_files_begin(struct sessions *s,
                                    const struct actor *who, const char *id,
                                    struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);
    int rc;

    if (!se)
        return NULL;
    mutex_lock(&se->lock);
    rc = session_expiry_check(se, err);
    if (rc == 0) {
        se->pins++;
        session_touch(se);
    }
    mutex_unlock(&se->lock);
    if (rc == 0)
        return se;
    session_release(se);
    return NULL;
}

void session_files_end(struct session *se)
{
    mutex_lock(&se->lock);
    se->pins--;
    session_touch(se);
    mutex_unlock(&se->lock);
    session_release(se);
}

/* One request, once more in a new sandbox if the old one proves gone. */
int session_files_call(struct session *se,
                       const struct broker_request *request, char *room,
                       size_t room_len, bool want_fd, struct box **ret_box,
                       struct broker_reply *ret, struct error *err)
{
    int rc = -ERR_INTERNAL;

    for (int i = 0; i < 2; i++) {
        struct box *box;
        bool gone;

        rc = session_wake(se, &box, err);
        if (rc < 0)
            return rc;
        rc = box_broker_call(box, request, room, room_len, want_fd, ret, err);
        gone = rc < 0 && box_is_broken(box);
        if (rc == 0 && ret_box)
            *ret_box = box;
        else
            box_unref(box);
        if (!gone)
            break;
    }
    return rc;
}

static int check_path(const char *path, struct error *err)
{
    return session_path_check(path, strlen(path), err);
}

/* ---- open and remove ---------------------------------------------------- */

static int open_live(struct session *se, const char *path, int *ret_fd,
                     struct stat *ret_stat, struct error *err)
{
    struct broker_request request = {.type = INIT_OPEN, .path = path};
    struct broker_reply reply = {.fd = -1};
    int fd cleanup(fd_close) = -1;
    int rc =
        session_files_call(se, &request, NULL, 0, true, NULL, &reply, err);

    if (rc < 0)
        return rc;
    if (reply.errnum)
        return box_file_refused(reply.errnum, err);
    fd = reply.fd;
    rc = box_file_check_fd(fd, false, ret_stat, err);
    if (rc == 0)
        *ret_fd = take_fd(fd);
    return rc;
}

int session_files_open(struct sessions *s, const struct actor *who,
                       const char *id, const char *path, int *ret_fd,
                       struct stat *ret_stat, struct error *err)
{
    struct session *se = session_files_begin(s, who, id, err);
    int rc = 0;

    if (!se)
        return -(int)err->code;
    rc = check_path(path, err);
    if (rc == 0)
        rc =
            session_is_dormant(se)
                ? session_workspace_files_open(se, path, ret_fd, ret_stat, err)
                : open_live(se, path, ret_fd, ret_stat, err);
    if (rc == 0) {
        rc = session_admit_download(se, who, path, (uint64_t)ret_stat->st_size,
                                    err);
        if (rc < 0)
            fd_close(ret_fd);
    }
    session_files_end(se);
    return rc;
}

static int remove_live(struct session *se, const char *path, struct error *err)
{
    struct broker_request request = {.type = INIT_REMOVE, .path = path};
    struct broker_reply reply;
    int rc =
        session_files_call(se, &request, NULL, 0, false, NULL, &reply, err);

    if (rc == 0 && reply.errnum)
        rc = box_file_refused(reply.errnum, err);
    return rc;
}

/* Is it there to be removed, and a folder? */
static int look_live(struct session *se, const char *path, bool *ret_folder,
                     struct error *err)
{
    struct broker_request request = {.type = INIT_OPEN, .path = path};
    struct broker_reply reply = {.fd = -1};
    int rc =
        session_files_call(se, &request, NULL, 0, true, NULL, &reply, err);

    if (rc == 0 && reply.errnum == 0)
        fd_close(&reply.fd);
    *ret_folder = reply.errnum == EISDIR;
    if (rc == 0 && (reply.errnum == ENOENT || reply.errnum == ENOTDIR))
        rc = box_file_refused(reply.errnum, err);
    return rc;
}

/* The commit first, which may be refused; a folder is removed only if it is
 * empty, which only the session can tell. */
int session_files_remove(struct sessions *s, const struct actor *who,
                         const char *id, const char *path, struct error *err)
{
    struct session *se = session_files_begin(s, who, id, err);
    bool live, folder = false;
    int rc = 0;

    if (!se)
        return -(int)err->code;
    live = !session_is_dormant(se);
    rc = check_path(path, err);
    if (rc == 0 && live)
        rc = look_live(se, path, &folder, err);
    if (rc == 0 && folder)
        rc = remove_live(se, path, err);
    if (rc == 0 && !se->ephemeral)
        rc = session_workspace_files_remove(se, who, path, live, err);
    if (rc == 0 && live && !folder) {
        rc = remove_live(se, path, err);
        if (rc == -ERR_NOT_FOUND)
            rc = 0; /* gone meanwhile is as good */
    }
    session_files_end(se);
    return rc;
}

/* ---- list --------------------------------------------------------------- */

struct listing {
    struct session_file *files;
    size_t count, limit;
    char last[INIT_PATH_MAX + 1]; /* where the next request goes on */
    bool more;
};

/* Names that break the rules are left out (F5). Order is part of the
 * contract: a listing that does not go forward would never end. */
static int take_entry(struct listing *l, const struct init_entry *entry,
                      const char *path, struct error *err)
{
    struct error ignored;

    if (entry->kind != INIT_ENTRY_FILE ||
        session_path_check(path, entry->path_len, &ignored) < 0)
        return 0;
    if (l->count >= l->limit)
        return error_set(err, ERR_GUEST, "the session's list is too long");
    l->files[l->count++] =
        (struct session_file){.path = xstrndup(path, entry->path_len),
                              .size = entry->size,
                              .modified_at_ms = entry->mtime_ns / 1000000};
    return 0;
}

static int take_reply(struct listing *l, const struct broker_reply *reply,
                      struct error *err)
{
    struct init_entry entry;
    const char *path;
    size_t pos = 0;
    int rc;

    while ((rc = box_broker_entry(reply->payload, reply->payload_len, &pos,
                                  &entry, &path)) > 0) {
        if (entry.path_len > INIT_PATH_MAX)
            return error_set(err, ERR_GUEST, "the session's list is garbled");
        if (take_entry(l, &entry, path, err) < 0)
            return -(int)err->code;
        memcpy(l->last, path, entry.path_len);
        l->last[entry.path_len] = '\0';
    }
    l->more = reply->arg != 0;
    return rc < 0 ? error_set(err, ERR_GUEST, "the session's list is garbled")
                  : 0;
}

static int read_list(struct session *se, struct listing *l, struct error *err)
{
    char *room cleanup(mem_free) = xmalloc(SESSION_IO_SIZE);
    struct broker_reply reply;
    int rc = 0;

    l->more = true;
    for (unsigned i = 0; rc == 0 && l->more && l->count < l->limit; i++) {
        struct broker_request request = {.type = INIT_LIST,
                                         .path = l->last,
                                         .arg =
                                             (uint32_t)(l->limit - l->count)};

        if (i == ROUNDS_MAX)
            return error_set(err, ERR_GUEST, "the session's list has no end");
        rc = session_files_call(se, &request, room, SESSION_IO_SIZE, false,
                                NULL, &reply, err);
        if (rc == 0 && reply.errnum)
            rc = box_file_refused(reply.errnum, err);
        if (rc == 0)
            rc = take_reply(l, &reply, err);
    }
    return rc;
}

int session_files_list(struct sessions *s, const struct actor *who,
                       const char *id, unsigned limit, const char *after,
                       struct session_file **ret, size_t *ret_count,
                       bool *ret_more, struct error *err)
{
    struct listing l = {.limit = limit};
    struct session *se = session_files_begin(s, who, id, err);
    int rc = 0;

    if (!se)
        return -(int)err->code;
    if (limit == 0 || limit > LIST_MAX)
        rc = error_set(err, ERR_INVALID, "limit must be from 1 to %u",
                       LIST_MAX);
    if (rc == 0 && after && after[0]) {
        rc = check_path(after, err);
        if (rc == 0)
            memcpy(l.last, after, strlen(after) + 1);
    }
    if (rc == 0 && session_is_dormant(se)) {
        rc = session_workspace_files_list(se, limit, after, ret, ret_count,
                                          ret_more, err);
        session_files_end(se);
        return rc;
    }
    if (rc == 0) {
        l.files = xcalloc(limit, sizeof(*l.files));
        rc = read_list(se, &l, err);
    }
    if (rc == 0)
        session_workspace_files_describe(se, l.files, l.count);
    session_files_end(se);
    if (rc < 0) {
        session_files_free(l.files, l.count);
        return rc;
    }
    *ret = l.files;
    *ret_count = l.count;
    *ret_more = l.more;
    return 0;
}

void session_files_free(struct session_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i].path);
    free(files);
}

int session_path_check(const char *path, size_t len, struct error *err)
{
    const char *fault = path_fault(path, len);

    if (!fault)
        return 0;
    (void)error_set(err, ERR_INVALID, "the path %s", fault);
    return error_hint(err, "name files by their path below /mnt/data, for "
                           "example results/chart.png");
}
