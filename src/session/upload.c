/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads into a session. The bytes become a blob, are copied into the live
 * sandbox, committed, and only then named inside, in one step of pid 1: the
 * file appears completely or not at all, never writes through an existing name
 * (F4), and is absent if the commit was refused. An upload does not wake a
 * dormant session. An ephemeral session gets the bytes directly. Runs in
 * gloveboxd on the caller's thread, one thread at a time; bytes are streamed,
 * not buffered.
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
    struct actor who;   /* strings ours */
    char key[ID_MAX], token[ID_MAX];
    char path[INIT_PATH_MAX + 1];
    char other[INIT_PATH_MAX + 1]; /* its name if path is taken; "": any */
    uint64_t size, most;
    struct blob_writer *blob; /* NULL when ephemeral, or finished */
    struct box *box;          /* NULL, or referenced: the handle is its */
    uint32_t handle;
    bool created;
    int fd;
    struct hash_stream *hash;
};

void session_upload_abort(struct session_upload *u)
{
    if (!u)
        return;
    if (u->created)
        box_file_discard(u->box, u->handle);
    blob_abort(&u->blob);
    fd_close(&u->fd);
    hash_stream_free(u->hash);
    box_unref(u->box);
    session_files_end(u->se);
    free(u);
}

/* ---- begin and write ---------------------------------------------------- */

static int create_inside(struct session_upload *u, struct error *err)
{
    struct broker_request request = {.type = INIT_CREATE};
    struct broker_reply reply;
    struct stat st;
    int rc = session_files_call(u->se, &request, NULL, 0, true, &u->box,
                                &reply, err);

    if (rc < 0)
        return rc;
    if (reply.errnum)
        return box_file_refused(reply.errnum, err);
    u->fd = reply.fd;
    u->handle = reply.arg;
    u->created = true;
    u->hash = hash_stream_new();
    return box_file_check_fd(u->fd, true, &st, err);
}

static int begin_blob(struct session_upload *u, struct error *err)
{
    char domain[BLOB_OWNER];
    int rc = session_commit_domain(u->se, domain, err);

    if (rc == 0)
        rc = blob_begin(u->se->m->core->blobs, domain, &u->blob, err);
    return rc;
}

int session_upload_begin(struct sessions *s, const struct actor *who,
                         const char *id, const char *path,
                         struct session_upload **ret, struct error *err)
{
    struct session_upload *u;
    struct session *se = session_files_begin(s, who, id, err);
    int rc = 0;

    if (!se)
        return -(int)err->code;
    u = xcalloc(1, sizeof(*u));
    u->se = se;
    u->fd = -1;
    u->most = s->conf->upload_bytes;
    u->who = session_actor(se);
    (void)snprintf(u->key, sizeof(u->key), "%s", who->key);
    u->who.key = u->key;
    if (who->token) {
        (void)snprintf(u->token, sizeof(u->token), "%s", who->token);
        u->who.token = u->token;
    }
    u->who.admin = who->admin;
    u->who.scopes = who->scopes;
    u->who.door = who->door; /* names of doors and tools are there for ever */
    u->who.tool = who->tool;
    rc = session_path_check(path, strlen(path), err);
    if (rc == 0) {
        memcpy(u->path, path, strlen(path) + 1);
        rc = se->ephemeral ? create_inside(u, err) : begin_blob(u, err);
    }
    if (rc < 0) {
        session_upload_abort(u);
        return rc;
    }
    *ret = u;
    return 0;
}

static int write_inside(struct session_upload *u, const void *bytes,
                        size_t len, struct error *err)
{
    int rc = fd_write_all(u->fd, bytes, len);

    if (rc == -ENOSPC || rc == -EDQUOT)
        return error_set(err, ERR_SPACE, "the session's storage is full");
    if (rc < 0)
        return error_errno(err, ERR_INTERNAL, -rc, "cannot write the file");
    hash_stream_add(u->hash, bytes, len);
    return 0;
}

void session_upload_most(struct session_upload *u, uint64_t bytes)
{
    u->most = bytes;
}

int session_upload_new(struct session_upload *u, const char *other,
                       struct error *err)
{
    int rc = session_path_check(other, strlen(other), err);

    if (rc == 0)
        memcpy(u->other, other, strlen(other) + 1);
    return rc;
}

int session_upload_write(struct session_upload *u, const void *bytes,
                         size_t len, struct error *err)
{
    uint64_t most = u->most;
    int rc;

    if (len > most || u->size > most - len)
        return error_set(err, ERR_TOO_LARGE, "a file may have %llu bytes",
                         (unsigned long long)most);
    rc = u->blob ? blob_write(u->blob, bytes, len, err)
                 : write_inside(u, bytes, len, err);
    if (rc == 0)
        u->size += len;
    return rc;
}

/* ---- commit ------------------------------------------------------------- */

/* Ephemeral: it only gets its name. */
static int publish_inside(struct session_upload *u, struct session_file *ret,
                          struct error *err)
{
    struct broker_request request = {
        .type = INIT_PUBLISH, .arg = u->handle, .path = u->path};
    struct workspace_change put = {
        .path = u->path, .sha256 = ret->sha256, .size = u->size};
    unsigned char digest[HASH_SIZE];
    struct broker_reply reply = {0};
    int rc;

    hash_stream_end(take_ptr(u->hash), digest);
    (void)ids_hex(digest, sizeof(digest), ret->sha256);
    rc = session_admit_upload(u->se, &u->who, &put, err);
    if (rc == 0)
        rc = box_broker_call(u->box, &request, NULL, 0, false, &reply, err);
    if (rc < 0)
        return rc;
    if (reply.errnum)
        return box_file_refused(reply.errnum, err);
    u->created = false; /* it has a name now */
    return 0;
}

static int commit_upload(struct session_upload *u, struct session_file *ret,
                         struct error *err)
{
    struct blobs *blobs = u->se->m->core->blobs;
    char sha256[BLOB_NAME];
    struct put_file what = {.kind = "upload", .action = "file.put"};
    int rc = blob_finish(&u->blob, sha256, &u->size, err);

    if (rc < 0)
        return rc;
    what.put = (struct workspace_change){.kind = CHANGE_PUT,
                                         .path = u->path,
                                         .sha256 = sha256,
                                         .size = u->size,
                                         .as_was = true};
    rc = session_admit_upload(u->se, &u->who, &what.put, err);
    what.fresh = u->other[0] != '\0';
    if (rc == 0)
        rc = session_put_file(u->se, &u->who, &what, ret, err);
    if (rc == -ERR_PRECONDITION &&
        what.fresh) { /* another upload took the name */
        memcpy(u->path, u->other, sizeof(u->path));
        rc = session_admit_upload(u->se, &u->who, &what.put, err);
        if (rc == 0)
            rc = session_put_file(u->se, &u->who, &what, ret, err);
    }
    blob_release(blobs, sha256);
    return rc;
}

int session_upload_commit(struct session_upload *u, struct session_file *ret,
                          struct error *err)
{
    int rc;

    *ret = (struct session_file){.size = u->size,
                                 .modified_at_ms = clock_real_ms()};
    rc = u->blob ? commit_upload(u, ret, err) : publish_inside(u, ret, err);
    if (rc == 0 && !ret->path)
        ret->path = xstrdup(u->path);
    if (rc < 0)
        free(take_ptr(ret->path));
    session_upload_abort(u); /* discards only what was not published */
    return rc;
}
