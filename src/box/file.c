/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files into a sandbox, and checks of what comes back: a new file is staged
 * without a name and published under one, so that it appears completely or
 * not at all (F4). A descriptor received from a sandbox is checked before it
 * is used. Runs in gloveboxd on any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "box/box_int.h"

#define COPY_STEP (1u << 20)

/* The meaning of pid 1's refusals for a client. */
static const struct {
    int errnum;
    enum error_code code;
    const char *text;
} refusals[] = {
    {ENOENT, ERR_NOT_FOUND, "no such file"},
    {ENOTDIR, ERR_CONFLICT, "a part of the path is not a folder"},
    {EISDIR, ERR_CONFLICT, "the path is a folder"},
    {EEXIST, ERR_CONFLICT, "the path is taken by something else"},
    {ENOTEMPTY, ERR_CONFLICT, "the folder is not empty"},
    {ELOOP, ERR_CONFLICT, "a part of the path is a symbolic link"},
    {EXDEV, ERR_CONFLICT, "the path leaves the session's files"},
    {ENXIO, ERR_CONFLICT, "the path is not a regular file"},
    {ENODEV, ERR_CONFLICT, "the path is not a regular file"},
    {EINVAL, ERR_CONFLICT, "the path is not a regular file"},
    {EACCES, ERR_CONFLICT, "the session's permissions forbid it"},
    {EPERM, ERR_CONFLICT, "the session's permissions forbid it"},
    {EBUSY, ERR_CONFLICT, "the file is in use"},
    {ENAMETOOLONG, ERR_INVALID, "the path is too long"},
    {ENOSPC, ERR_SPACE, "the session's storage is full"},
    {EDQUOT, ERR_SPACE, "the session's storage is full"},
    {EMFILE, ERR_BUSY, "too many files of this session are open"},
    {ENFILE, ERR_BUSY, "too many files of this session are open"},
};

int box_file_refused(int errnum, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
        if (refusals[i].errnum == errnum) {
            (void)error_set(err, refusals[i].code, "%s", refusals[i].text);
            err->errnum = errnum;
            return error_retry(err, refusals[i].code == ERR_BUSY ? 1 : 0);
        }
    return error_errno(err, ERR_GUEST, errnum, "the session's file broker");
}

int box_file_check_fd(int fd, bool writable, struct stat *ret,
                      struct error *err)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, ret) < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot look at a received file");
    if (!S_ISREG(ret->st_mode) || (flags & O_PATH) ||
        ((flags & O_ACCMODE) != O_RDONLY) != writable)
        return error_set(err, ERR_GUEST,
                         "the session sent something that is not a file");
    return 0;
}

static int copy_bytes(int from, int to, uint64_t size, struct error *err)
{
    off_t at = 0;

    while ((uint64_t)at < size) {
        ssize_t n = sendfile(to, from, &at,
                             (size_t)MIN(size - (uint64_t)at, COPY_STEP));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == ENOSPC || errno == EDQUOT))
            return error_set(err, ERR_SPACE, "the session's storage is full");
        if (n <= 0)
            return error_errno(err, ERR_INTERNAL, n < 0 ? errno : EIO,
                               "cannot copy a file into the session");
    }
    return 0;
}

void box_file_discard(struct box *box, uint32_t handle)
{
    struct broker_request request = {.type = INIT_DISCARD, .arg = handle};
    struct broker_reply reply;
    struct error err;

    /* A broken box has nothing left to discard. */
    (void)box_broker_call(box, &request, NULL, 0, false, &reply, &err);
}

int box_file_stage(struct box *box, int fd, uint64_t size, bool executable,
                   uint32_t *ret_handle, struct error *err)
{
    struct broker_request create = {.type = INIT_CREATE, .arg = executable};
    struct broker_reply reply;
    int to cleanup(fd_close) = -1;
    struct stat st;
    int rc = box_broker_call(box, &create, NULL, 0, true, &reply, err);

    if (rc == 0 && reply.errnum)
        rc = box_file_refused(reply.errnum, err);
    if (rc < 0)
        return rc;
    to = reply.fd;
    *ret_handle = reply.arg;
    rc = box_file_check_fd(to, true, &st, err);
    if (rc == 0)
        rc = copy_bytes(fd, to, size, err);
    if (rc < 0)
        box_file_discard(box, *ret_handle);
    return rc;
}

int box_file_publish(struct box *box, uint32_t handle, const char *path,
                     struct error *err)
{
    struct broker_request publish = {
        .type = INIT_PUBLISH, .arg = handle, .path = path};
    struct broker_reply reply;
    int rc = box_broker_call(box, &publish, NULL, 0, false, &reply, err);

    if (rc == 0 && reply.errnum)
        rc = box_file_refused(reply.errnum, err);
    if (rc < 0)
        box_file_discard(box, handle);
    return rc;
}
