/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads: an unnamed file inside the session, written by descriptor, synced,
 * and named in one step by the session's pid 1, so it appears whole or not at
 * all and never writes through an existing name (F4). Runs in gloveboxd on
 * the caller's thread, one thread at a time. Bytes pass through, none are
 * kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "session/session_int.h"

struct session_upload {
    struct session *se; /* pinned */
    struct box *box;    /* referenced; the handle is this box's */
    uint32_t handle;
    bool created;
    int fd;
    uint64_t size;
    struct hash_stream *hash;
    char path[INIT_PATH_MAX + 1];
};

static void upload_free(struct session_upload *u)
{
    fd_close(&u->fd);
    hash_stream_free(u->hash);
    session_box_unref(u->box);
    session_files_end(u->se);
    free(u);
}

static void discard(struct session_upload *u)
{
    struct broker_request request = {.type = INIT_DISCARD, .arg = u->handle};
    struct broker_reply reply;
    struct error err;

    if (u->created) /* a broken box has nothing left to discard */
        (void)session_broker_call(u->box, &request, NULL, 0, false, &reply,
                                  &err);
}

static int create_file(struct session_upload *u, struct error *err)
{
    struct broker_request request = {.type = INIT_CREATE};
    struct broker_reply reply;
    struct stat st;
    int rc = session_files_call(u->se, &request, NULL, 0, true, &u->box,
                                &reply, err);

    if (rc < 0)
        return rc;
    if (reply.errnum)
        return session_files_refused(reply.errnum, err);
    u->fd = reply.fd;
    u->handle = reply.arg;
    u->created = true;
    return session_files_check_fd(u->fd, true, &st, err);
}

int session_upload_begin(struct sessions *s, const char *tenant,
                         const char *id, const char *path,
                         struct session_upload **ret, struct error *err)
{
    struct session_upload *u;
    struct session *se = session_files_begin(s, tenant, id, err);
    int rc = 0;

    if (!se)
        return -(int)err->code;
    u = xcalloc(1, sizeof(*u));
    u->se = se;
    u->fd = -1;
    rc = session_text_path(path, strlen(path), err);
    if (rc == 0) {
        memcpy(u->path, path, strlen(path) + 1);
        rc = create_file(u, err);
    }
    if (rc < 0) {
        session_upload_abort(u);
        return rc;
    }
    u->hash = hash_stream_new();
    *ret = u;
    return 0;
}

static int write_failed(int errnum, struct error *err)
{
    if (errnum == ENOSPC || errnum == EDQUOT)
        return error_set(err, ERR_SPACE, "the session's storage is full");
    return error_errno(err, ERR_INTERNAL, errnum, "cannot write the file");
}

int session_upload_write(struct session_upload *u, const void *bytes,
                         size_t len, struct error *err)
{
    uint64_t most = u->se->m->conf->upload_bytes;
    int rc;

    if (len > most || u->size > most - len)
        return error_set(err, ERR_TOO_LARGE, "a file may have %llu bytes",
                         (unsigned long long)most);
    rc = fd_write_all(u->fd, bytes, len);
    if (rc < 0)
        return write_failed(-rc, err);
    hash_stream_add(u->hash, bytes, len);
    u->size += len;
    return 0;
}

static int publish(struct session_upload *u, struct error *err)
{
    struct broker_request request = {
        .type = INIT_PUBLISH, .arg = u->handle, .path = u->path};
    struct broker_reply reply;
    int rc;

    if (fdatasync(u->fd) < 0)
        return write_failed(errno, err);
    rc = session_broker_call(u->box, &request, NULL, 0, false, &reply, err);
    if (rc < 0)
        return rc;
    if (reply.errnum)
        return session_files_refused(reply.errnum, err);
    u->created = false; /* it has a name now */
    return 0;
}

int session_upload_commit(struct session_upload *u, uint64_t *ret_size,
                          char *ret_sha256, struct error *err)
{
    unsigned char digest[HASH_SIZE];
    int rc = publish(u, err);

    if (rc == 0) {
        hash_stream_end(take_ptr(u->hash), digest);
        (void)ids_hex(digest, sizeof(digest), ret_sha256);
        *ret_size = u->size;
    }
    session_upload_abort(u); /* discards only what was not published */
    return rc;
}

void session_upload_abort(struct session_upload *u)
{
    if (!u)
        return;
    discard(u);
    upload_free(u);
}
