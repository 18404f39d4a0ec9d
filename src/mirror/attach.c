/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a bucket as files of a workspace: listed, fetched and committed
 * at once. The bucket is only read; a change there is seen when the objects
 * are attached again, which stores only what differs. Runs in gloveboxd on the
 * worker of the request.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "core/core.h"
#include "mirror/mirror_int.h"
#include "s3/s3.h"
#include "workspace/workspace.h"

struct object {
    char *key, *path; /* owned */
    uint64_t size;
    char sha256[BLOB_NAME]; /* "" : not fetched yet; else pinned */
};

struct attach {
    struct mirrors *m;
    const char *prefix, *folder;
    struct object *objects;
    size_t count, room;
    uint64_t bytes;
    struct error *err;
};

static void attach_done(struct attach *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->objects[i].sha256[0])
            blob_release(a->m->core->blobs, a->objects[i].sha256);
        free(a->objects[i].key);
        free(a->objects[i].path);
    }
    free(a->objects);
}

static int on_object(void *ctx, const char *key,
                     const struct s3_object *object)
{
    struct attach *a = ctx;
    const char *name = key + strlen(a->prefix);
    size_t len = strlen(key);
    const char *fault;
    char *path;

    if (!*name || key[len - 1] == '/') /* the mark of an empty folder */
        return 0;
    a->bytes += object->size;
    if (a->count == MIRROR_ATTACH_OBJECTS || a->bytes > MIRROR_ATTACH_BYTES)
        return error_set(a->err, ERR_LIMIT,
                         "more than %u objects or %llu GiB are below that "
                         "prefix; name a longer one",
                         MIRROR_ATTACH_OBJECTS, MIRROR_ATTACH_BYTES >> 30);
    path = xasprintf("%s%s%s", a->folder, *a->folder ? "/" : "", name);
    fault = path_fault(path, strlen(path));
    if (fault) {
        int r = error_set(a->err, ERR_INVALID,
                          "the object %.100s cannot be a file: the path %s",
                          name, fault);

        free(path);
        return r;
    }
    if (a->count == a->room) {
        a->room = a->room ? 2 * a->room : 64;
        a->objects = xrealloc(a->objects, a->room * sizeof(*a->objects));
    }
    a->objects[a->count++] = (struct object){
        .key = xstrdup(key), .path = path, .size = object->size};
    return 0;
}

struct fetching {
    struct blob_writer *w;
    uint64_t most;
    struct error *err;
};

static int on_piece(void *ctx, const void *bytes, size_t len)
{
    struct fetching *f = ctx;

    if (blob_written(f->w) + len > f->most)
        return error_set(f->err, ERR_CONFLICT,
                         "an object grew while it was read");
    return blob_write(f->w, bytes, len, f->err);
}

static int fetch_object(struct attach *a, struct s3 *s3, const char *owner,
                        struct object *o, struct error *err)
{
    struct blob_writer *w cleanup(blob_abort) = NULL;
    struct fetching f = {.most = o->size, .err = err};
    uint64_t size = 0;
    int r = blob_begin(a->m->core->blobs, owner, &w, err);

    f.w = w;
    if (r == 0)
        r = s3_get(s3, o->key, 0, UINT64_MAX, on_piece, &f, NULL, err);
    if (r > 0 || (r == 0 && blob_written(w) != o->size))
        return error_set(err, ERR_CONFLICT,
                         "the object %.200s changed while it was read",
                         o->key);
    return r < 0 ? r : blob_finish(&w, o->sha256, &size, err);
}

static int commit_objects(struct attach *a, const struct actor *who,
                          const char *workspace, const char *note,
                          struct mirror_attached *ret, struct error *err)
{
    struct workspace_change *changes cleanup(mem_free) =
        xcalloc(a->count + 1, sizeof(*changes));
    struct workspace_commit commit = {0};
    int r;

    for (size_t i = 0; i < a->count; i++)
        changes[i] = (struct workspace_change){.kind = CHANGE_PUT,
                                               .path = a->objects[i].path,
                                               .sha256 = a->objects[i].sha256,
                                               .size = a->objects[i].size,
                                               .as_was = true};
    r = workspace_commit(
        a->m->workspaces, who, workspace,
        &(struct workspace_commit_spec){.kind = "upload",
                                        .note = note,
                                        .action = "mirror.attach",
                                        .changes = changes,
                                        .count = a->count},
        &commit, err);
    if (r < 0)
        return r;
    *ret = (struct mirror_attached){.files = a->count, .bytes = a->bytes};
    memcpy(ret->commit, commit.id, sizeof(ret->commit));
    workspace_commit_done(&commit);
    return 0;
}

int mirror_attach(struct mirrors *m, const struct actor *who,
                  const char *workspace, const char *source,
                  const char *folder, struct mirror_attached *ret,
                  struct error *err)
{
    struct mirror_place place = {0};
    struct attach a cleanup(attach_done) = {
        .m = m, .prefix = place.path, .folder = folder, .err = err};
    char *note cleanup(mem_free) = xasprintf("from %.200s", source);
    char owner[BLOB_OWNER];
    struct workspace_info info;
    const char *fault = *folder ? path_fault(folder, strlen(folder)) : NULL;
    int r = workspace_get(m->workspaces, who, workspace, &info, err);

    if (r == 0)
        r = workspace_check_write(m->workspaces, who, workspace, owner, err);
    if (r == 0)
        r = mirror_place_find(m, info.tenant, source, "attach", &place, err);
    if (r == 0 && fault)
        r = error_set(err, ERR_INVALID, "the folder %s", fault);
    if (r == 0)
        r = s3_list(place.s3, place.path, on_object, &a, err);
    if (r == 0 && a.count == 0)
        r = error_set(err, ERR_NOT_FOUND, "no object is below that prefix");
    for (size_t i = 0; i < a.count && r == 0; i++)
        r = fetch_object(&a, place.s3, owner, &a.objects[i], err);
    return r < 0 ? r : commit_objects(&a, who, workspace, note, ret, err);
}
