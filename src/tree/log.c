/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIR/trees/<workspace>/log: what is in the full layer, and the stamps of its
 * files, so that a tree outlives the daemon though not the machine. Runs in
 * the daemon for tree.c, under the tree's `building`.
 *
 *   head      magic, boot id, owner, generation
 *   records   ADD (a file, or newer stamps of it), DROP (a path),
 *             DIRTY (a change begins), CLEAN (it is done; the commit)
 *
 * Nothing is synced: within one boot the kernel keeps what was written in
 * order, whatever happens to the daemon, and a log of another boot is not
 * believed. Nor is one that ends dirty or in the midst of a record. Numbers
 * are the machine's own.
 */
#include "tree/tree_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define LOG_NAME "log"
#define LOG_NEW "log.new"
#define LOG_BYTES_MAX (1u << 30) /* far above what a workspace can have */
#define LOG_SLACK 1000u          /* records beyond twice the files */

static const char magic[8] = "gb-tree2";

struct head {
    char magic[8];
    char boot[64];
    char owner[BLOB_OWNER];
    uint32_t generation;
};

enum record_type {
    RECORD_ADD = 1,
    RECORD_DROP,
    RECORD_DIRTY,
    RECORD_CLEAN,
};

struct record {
    uint8_t type; /* enum record_type */
    uint8_t executable;
    uint16_t path_len; /* the path follows */
    uint32_t unused;
    uint64_t number; /* ADD: inode; CLEAN: seq */
    int64_t ctime_ns;
    unsigned char sha256[HASH_SIZE];
};

/* ---- writing ------------------------------------------------------------ */

static void put_record(struct buf *b, enum record_type type, uint64_t number)
{
    struct record record = {.type = (uint8_t)type, .number = number};

    buf_add(b, &record, sizeof(record));
}

static void put_file(struct buf *b, const struct tree_file *file)
{
    struct record record = {
        .type = RECORD_ADD,
        .executable = file->executable,
        .path_len = (uint16_t)strlen(file->path),
        .number = file->inode,
        .ctime_ns = file->ctime_ns,
    };

    memcpy(record.sha256, file->sha256, HASH_SIZE);
    buf_add(b, &record, sizeof(record));
    buf_add(b, file->path, record.path_len);
}

static void remove_log(int dir)
{
    (void)unlinkat(dir, LOG_NAME, 0); /* none is as good */
}

static bool log_append(int dir, const struct buf *b)
{
    int fd cleanup(fd_close) =
        openat(dir, LOG_NAME, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return false; /* there was none: nothing to be wrong */
    if (fd_write_all(fd, b->data, b->len) == 0)
        return true;
    remove_log(dir);
    return false;
}

void tree_log_write(int dir, const char *boot, struct tree_layer *layer)
{
    struct buf b cleanup(buf_done) = {0};
    struct head head = {.generation = layer->generation};
    int fd cleanup(fd_close) = -1;

    memcpy(head.magic, magic, sizeof(magic));
    memcpy(head.boot, boot, sizeof(head.boot));
    memcpy(head.owner, layer->owner, sizeof(head.owner));
    buf_add(&b, &head, sizeof(head));
    for (size_t i = 0; i < layer->count; i++)
        put_file(&b, &layer->files[i]);
    put_record(&b, RECORD_CLEAN, (uint64_t)layer->seq);
    layer->logged = layer->count + 1;
    fd = openat(dir, LOG_NEW,
                O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, b.data, b.len) < 0 ||
        renameat(dir, LOG_NEW, dir, LOG_NAME) < 0)
        remove_log(dir);
}

void tree_log_dirty(int dir, struct tree_layer *layer)
{
    struct buf b cleanup(buf_done) = {0};

    /* A log that has become long is written anew afterwards instead. */
    if (layer->logged > 2 * layer->count + LOG_SLACK)
        remove_log(dir);
    put_record(&b, RECORD_DIRTY, 0);
    (void)log_append(dir, &b); /* a failure leaves none */
}

void tree_log_forward(int dir, const char *boot, struct tree_layer *layer,
                      const struct tree_wants *wants)
{
    struct buf b cleanup(buf_done) = {0};

    for (size_t i = 0; i < wants->count; i++) {
        const struct tree_file *file =
            tree_files_find(layer, wants->wants[i].path);

        struct record drop = {.type = RECORD_DROP,
                              .path_len =
                                  (uint16_t)strlen(wants->wants[i].path)};

        if (file) {
            put_file(&b, file);
        } else {
            buf_add(&b, &drop, sizeof(drop));
            buf_add(&b, wants->wants[i].path, drop.path_len);
        }
    }
    put_record(&b, RECORD_CLEAN, (uint64_t)layer->seq);
    layer->logged += wants->count + 2;
    if (!log_append(dir, &b))
        tree_log_write(dir, boot, layer);
}

void tree_log_stamps(int dir, struct tree_layer *layer,
                     const struct tree_file *const *files, size_t count)
{
    struct buf b cleanup(buf_done) = {0};

    for (size_t i = 0; i < count; i++)
        put_file(&b, files[i]);
    layer->logged += count;
    (void)log_append(dir, &b); /* without it they are looked at once more */
}

/* ---- reading ------------------------------------------------------------ */

struct reading {
    const char *at;
    size_t left;
    struct tree_file *files; /* as they come */
    size_t count, room, records;
    bool clean;
    int64_t seq;
};

static void reading_done(struct reading *g)
{
    tree_files_free(g->files, g->count);
}

static bool read_path(struct reading *g, const struct record *record)
{
    struct tree_file *file;

    if (record->path_len == 0 || record->path_len > PATH_BYTES_MAX ||
        record->path_len > g->left || memchr(g->at, 0, record->path_len))
        return false;
    if (g->count == g->room) {
        g->room = g->room ? 2 * g->room : 256;
        g->files = xrealloc(g->files, g->room * sizeof(*g->files));
    }
    file = &g->files[g->count++];
    *file = (struct tree_file){
        .path = xstrndup(g->at, record->path_len),
        .inode = record->number,
        .ctime_ns = record->ctime_ns,
        .executable = record->executable != 0,
        .gone = record->type == RECORD_DROP,
    };
    memcpy(file->sha256, record->sha256, HASH_SIZE);
    g->at += record->path_len;
    g->left -= record->path_len;
    return true;
}

static bool read_record(struct reading *g)
{
    struct record record;

    if (g->left < sizeof(record))
        return false;
    memcpy(&record, g->at, sizeof(record));
    g->at += sizeof(record);
    g->left -= sizeof(record);
    g->records++;
    switch (record.type) {
    case RECORD_ADD:
    case RECORD_DROP:
        return read_path(g, &record);
    case RECORD_DIRTY:
        g->clean = false;
        return true;
    case RECORD_CLEAN:
        g->clean = true;
        g->seq = (int64_t)record.number;
        return true;
    default:
        return false;
    }
}

/* By path, then by place in the log. */
static int by_path(const void *a, const void *b)
{
    const struct tree_file *x = *(struct tree_file *const *)a;
    const struct tree_file *y = *(struct tree_file *const *)b;
    int order = strcmp(x->path, y->path);

    return order ? order : (x > y) - (x < y);
}

/* Sorted; of several records of a path the last one counts. */
static void sort_records(struct reading *g)
{
    struct tree_file **order cleanup(mem_free) =
        xcalloc(g->count + 1, sizeof(struct tree_file *));
    struct tree_file *files = xcalloc(g->count + 1, sizeof(*files));
    size_t kept = 0;

    for (size_t i = 0; i < g->count; i++)
        order[i] = &g->files[i];
    qsort(order, g->count, sizeof(struct tree_file *), by_path);
    for (size_t i = 0; i < g->count; i++) {
        if (order[i]->gone ||
            (i + 1 < g->count &&
             strcmp(order[i]->path, order[i + 1]->path) == 0))
            continue;
        files[kept] = *order[i];
        files[kept++].path = take_ptr(order[i]->path);
    }
    tree_files_free(g->files, g->count);
    g->files = files;
    g->count = kept;
}

/* All of the log, or false. */
static bool load_log(int dir, char **ret, size_t *ret_len)
{
    int fd cleanup(fd_close) =
        openat(dir, LOG_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > LOG_BYTES_MAX)
        return false;
    *ret = malloc((size_t)st.st_size + 1);
    if (!*ret)
        return false;
    n = fd_read_all(fd, *ret, (size_t)st.st_size);
    *ret_len = n > 0 ? (size_t)n : 0;
    return n >= 0;
}

int tree_log_read(int dir, const char *boot, struct tree_layer *ret)
{
    struct reading g cleanup(reading_done) = {0};
    char *bytes cleanup(mem_free) = NULL;
    struct head head;

    if (!load_log(dir, &bytes, &g.left) || g.left < sizeof(head))
        return 0;
    memcpy(&head, bytes, sizeof(head));
    if (memcmp(head.magic, magic, sizeof(magic)) != 0 ||
        memcmp(head.boot, boot, sizeof(head.boot)) != 0)
        return 0;
    g.at = bytes + sizeof(head);
    g.left -= sizeof(head);
    while (g.left)
        if (!read_record(&g))
            return 0;
    if (!g.clean)
        return 0;
    sort_records(&g);
    ret->generation = head.generation;
    memcpy(ret->owner, head.owner, sizeof(ret->owner) - 1);
    ret->seq = g.seq;
    ret->files = take_ptr(g.files);
    ret->count = g.count;
    ret->logged = g.records;
    g.count = 0;
    return 1;
}
