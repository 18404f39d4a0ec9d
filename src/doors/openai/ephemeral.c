/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a container that keeps nothing: they have no ids and no history,
 * only paths in a sandbox. An id is made of container and path, so that the
 * same file is found by it again; it is good as long as the file is there.
 * Who made one nobody wrote down; all count as the code's. Nothing is woken
 * to look. Runs on a worker of the daemon.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "doors/openai/openai.h"
#include "json/json.h"

#define PAGE 1000u
#define FILES_MAX 10000u /* more are not looked at */

/* ---- all of them -------------------------------------------------------- */

struct listing {
    struct session_file *files; /* in the order asked for; owned */
    size_t count;
};

static void listing_done(struct listing *l)
{
    session_files_free(l->files, l->count);
}

static void make_id(const char *container, const char *path, char ret[ID_MAX])
{
    struct hash_stream *h = hash_stream_new();
    unsigned char digest[HASH_SIZE];

    hash_stream_add(h, container, strlen(container) + 1);
    hash_stream_add(h, path, strlen(path));
    hash_stream_end(h, digest);
    memcpy(ret, "file_", 5);
    (void)ids_hex(digest, 16, ret + 5);
}

/* Moves the files of one page behind those there are. */
static void append(struct listing *l, struct session_file *files, size_t count)
{
    l->files = xrealloc(l->files, (l->count + count + 1) * sizeof(*files));
    if (count)
        memcpy(l->files + l->count, files, count * sizeof(*files));
    l->count += count;
    free(files); /* only the array: its strings moved */
}

static int oldest_first(const void *a, const void *b)
{
    const struct session_file *x = a, *y = b;

    if (x->modified_at_ms != y->modified_at_ms)
        return x->modified_at_ms < y->modified_at_ms ? -1 : 1;
    return strcmp(x->path, y->path);
}

static int newest_first(const void *a, const void *b)
{
    return oldest_first(b, a);
}

static int read_listing(struct doors_call *call,
                        const struct session_info *info, bool oldest,
                        struct listing *ret, struct error *err)
{
    bool more = !info->expired && info->state != SESSION_DORMANT;

    while (more && ret->count < FILES_MAX) {
        const char *after =
            ret->count ? ret->files[ret->count - 1].path : NULL;
        struct session_file *files = NULL;
        size_t count = 0;
        int r =
            session_files_list(call->doors->sessions, &call->actor, info->id,
                               PAGE, after, &files, &count, &more, err);

        if (r < 0)
            return openai_refuse_container(call->params[0], err);
        more = more && count > 0;
        append(ret, files, count);
    }
    if (ret->count)
        qsort(ret->files, ret->count, sizeof(*ret->files),
              oldest ? oldest_first : newest_first);
    return 0;
}

/* The place of an id in the list, or its end. */
static size_t find_id(const struct listing *l, const char *container,
                      const char *file)
{
    size_t i;

    for (i = 0; i < l->count; i++) {
        char id[ID_MAX];

        make_id(container, l->files[i].path, id);
        if (strcmp(id, file) == 0)
            break;
    }
    return i;
}

static void encode(struct json_writer *w, const char *container,
                   const struct session_file *file)
{
    char id[ID_MAX];

    make_id(container, file->path, id);
    openai_encode_listed(w, &(struct openai_listed){
                                .container = container,
                                .file = id,
                                .path = file->path,
                                .size = file->size,
                                .created_at_ms = file->modified_at_ms,
                                .by_execution = true,
                            });
}

int openai_ephemeral_list(struct doors_call *call,
                          const struct session_info *info,
                          const struct openai_page *page, struct error *err)
{
    struct listing l cleanup(listing_done) = {.files = NULL};
    char after[ID_MAX] = "", first[ID_MAX] = "", last[ID_MAX] = "";
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t from = 0, to;
    int r = read_listing(call, info, page->oldest_first, &l, err);

    if (r < 0)
        return r;
    if (page->after)
        from = doors_file_id(page->after, after)
                   ? MIN(find_id(&l, info->id, after) + 1, l.count)
                   : l.count;
    to = MIN(from + page->limit, l.count);
    openai_encode_list(&w);
    for (size_t i = from; i < to; i++)
        encode(&w, info->id, &l.files[i]);
    if (to > from) {
        char id[ID_MAX];

        make_id(info->id, l.files[from].path, id);
        (void)doors_file_container(id, first);
        make_id(info->id, l.files[to - 1].path, id);
        (void)doors_file_container(id, last);
    }
    openai_encode_list_end(&w, to > from ? first : NULL,
                           to > from ? last : NULL, to < l.count);
    openai_respond(call, &body);
    return 0;
}

/* ---- one of them -------------------------------------------------------- */

void openai_ephemeral_respond(struct doors_call *call,
                              const struct session_info *info,
                              const struct session_file *file)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    encode(&w, info->id, file);
    openai_respond(call, &body);
}

static int respond_bytes(struct doors_call *call,
                         const struct session_info *info, const char *path,
                         struct error *err)
{
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r = session_files_open(call->doors->sessions, &call->actor, info->id,
                               path, &fd, &st, err);

    if (r < 0)
        return openai_refuse_listed(call->params[0], call->params[1], err);
    openai_stamp(call);
    r = http_respond_file(call->http, fd, &st, path, err);
    if (r == 0)
        (void)take_fd(fd);
    return r;
}

static int delete_file(struct doors_call *call,
                       const struct session_info *info, const char *path,
                       struct error *err)
{
    char id[ID_MAX], shown[ID_MAX];
    int r = session_files_remove(call->doors->sessions, &call->actor, info->id,
                                 path, err);

    if (r < 0)
        return openai_refuse_listed(call->params[0], call->params[1], err);
    make_id(info->id, path, id);
    openai_respond_deleted(call, doors_file_container(id, shown),
                           "container.file.deleted");
    return 0;
}

int openai_ephemeral_one(struct doors_call *call,
                         const struct session_info *info,
                         enum openai_deed deed, struct error *err)
{
    struct listing l cleanup(listing_done) = {.files = NULL};
    char file[ID_MAX] = "";
    size_t at = 0;
    int r = read_listing(call, info, false, &l, err);

    if (r < 0)
        return r;
    if (doors_file_id(call->params[1], file))
        at = find_id(&l, info->id, file);
    if (!file[0] || at == l.count) {
        (void)error_set(err, ERR_NOT_FOUND, "no such file");
        return openai_refuse_listed(call->params[0], call->params[1], err);
    }
    if (deed == OPENAI_CONTENT)
        return respond_bytes(call, info, l.files[at].path, err);
    if (deed == OPENAI_DELETE)
        return delete_file(call, info, l.files[at].path, err);
    openai_ephemeral_respond(call, info, &l.files[at]);
    return 0;
}
