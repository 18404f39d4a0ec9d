/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of what workspace/ keeps: a data directory with store, blobs,
 * audit and workspaces open, and short words for what the cases do with them.
 * Included by one test file each.
 */
#ifndef GLOVEBOX_TESTS_WORKSPACE_KEEP_H
#define GLOVEBOX_TESTS_WORKSPACE_KEEP_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "core/core.h"
#include "scratch.h"
#include "store/store.h"
#include "store_choice.h"
#include "upkeep/upkeep_int.h"
#include "workspace/workspace_int.h"

#define VIEWER "key_00000000000000000000000000000001"
#define HELPER __attribute__((unused))

struct kept {
    char dir[64];
    struct workspaces_settings settings;
    struct store *store;
    struct blobs *blobs;
    struct audit *audit;
    struct workspaces *w;
    struct actor who;
    char domain[BLOB_OWNER]; /* of who's tenant */
    char ws[ID_MAX];         /* a workspace of who's */
    struct error err;
};

#define MUST(f, call)                                                         \
    do {                                                                      \
        if ((call) < 0)                                                       \
            fail_msg("%s: %s", #call, (f)->err.message);                      \
    } while (0)

HELPER static void kept_open(struct kept *f)
{
    f->settings.data_dir = f->dir;
    MUST(f, store_choice_open(&(struct store_settings){.data_dir = f->dir},
                              &f->store, &f->err));
    MUST(f, blobs_open(&(struct blobs_settings){.data_dir = f->dir}, &f->blobs,
                       &f->err));
    MUST(f, audit_open(f->store, f->dir, &f->audit, &f->err));
    MUST(f, workspaces_open(&f->settings,
                            &(struct core){.store = f->store,
                                           .blobs = f->blobs,
                                           .audit = f->audit},
                            &f->w, &f->err));
}

HELPER static void kept_close(struct kept *f)
{
    workspaces_close(f->w);
    audit_close(f->audit);
    blobs_close(f->blobs);
    store_close(f->store);
    f->w = NULL;
    f->audit = NULL;
    f->blobs = NULL;
    f->store = NULL;
}

HELPER static void kept_reopen(struct kept *f)
{
    kept_close(f);
    kept_open(f);
}

HELPER static void make_workspace(struct kept *f, char ret[ID_MAX])
{
    struct workspace_spec spec = {.name = "test", .private_to_owner = true};
    struct workspace_info info;

    MUST(f, workspace_create(f->w, &f->who, &spec, &info, &f->err));
    memcpy(ret, info.id, ID_MAX);
}

HELPER static int kept_set_up(void **state)
{
    struct kept *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_keep"));
    f->who = (struct actor){.tenant = "t", .key = "key_a"};
    blob_owner(f->who.tenant, f->domain);
    kept_open(f);
    make_workspace(f, f->ws);
    *state = f;
    return 0;
}

HELPER static int kept_tear_down(void **state)
{
    struct kept *f = *state;

    kept_close(f);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

/* ---- bytes -------------------------------------------------------------- */

HELPER static void sha_of(const void *bytes, size_t len, char ret[BLOB_NAME])
{
    unsigned char hash[HASH_SIZE];

    hash_sha256(bytes, len, hash);
    (void)ids_hex(hash, HASH_SIZE, ret);
}

/* A stored and pinned blob. */
HELPER static void store_bytes_of(struct kept *f, const void *bytes,
                                  size_t len, char ret[BLOB_NAME])
{
    struct blob_writer *writer cleanup(blob_abort) = NULL;
    uint64_t size;

    MUST(f, blob_begin(f->blobs, f->domain, &writer, &f->err));
    MUST(f, blob_write(writer, bytes, len, &f->err));
    MUST(f, blob_finish(&writer, ret, &size, &f->err));
}

HELPER static char *blob_path(struct kept *f, const char *sha256)
{
    return xasprintf("%s/blobs/%.2s/%s", f->dir, sha256, sha256);
}

HELPER static bool blob_is_there(struct kept *f, const char *sha256)
{
    char *path cleanup(mem_free) = blob_path(f, sha256);
    struct error err;

    (void)blob_publish_now(f->blobs, sha256, &err); /* seen next */
    return access(path, F_OK) == 0;
}

HELPER static void nap_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
}

/* Small ones are in the log alone for a while; now each is a file on disk,
 * and nowhere else. */
HELPER static void place_blobs(struct kept *f)
{
    MUST(f, blob_log_scrub(f->blobs, &f->err));
}

/* Changes one bit of a blob on disk. */
HELPER static void flip(struct kept *f, const char *sha256)
{
    char *path cleanup(mem_free) = blob_path(f, sha256);
    int fd cleanup(fd_close) = -1;
    char byte;

    place_blobs(f);
    fd = open(path, O_RDWR | O_CLOEXEC);
    nap_ms(20); /* a tick of the clock that files are stamped with */
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 0), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
}

/* ---- commits ------------------------------------------------------------ */

HELPER static int64_t commit(struct kept *f, const char *ws,
                             const struct workspace_change *changes,
                             size_t count)
{
    struct workspace_commit_spec spec = {
        .kind = "upload", .changes = changes, .count = count};
    struct workspace_commit done;
    int64_t seq;

    MUST(f, workspace_commit(f->w, &f->who, ws, &spec, &done, &f->err));
    seq = done.seq;
    workspace_commit_done(&done);
    return seq;
}

HELPER static int64_t put_as(struct kept *f, const char *ws, const char *path,
                             const char *text, bool executable)
{
    char sha256[BLOB_NAME];
    struct workspace_change change = {.kind = CHANGE_PUT,
                                      .path = path,
                                      .sha256 = sha256,
                                      .size = strlen(text),
                                      .executable = executable};
    int64_t seq;

    store_bytes_of(f, text, strlen(text), sha256);
    seq = commit(f, ws, &change, 1);
    blob_release(f->blobs, sha256);
    return seq;
}

HELPER static int64_t put(struct kept *f, const char *path, const char *text)
{
    return put_as(f, f->ws, path, text, false);
}

HELPER static int64_t take(struct kept *f, const char *path)
{
    struct workspace_change change = {.kind = CHANGE_REMOVE, .path = path};

    return commit(f, f->ws, &change, 1);
}

HELPER static int64_t move(struct kept *f, const char *from, const char *to)
{
    struct workspace_change change = {
        .kind = CHANGE_MOVE, .path = to, .from = from};

    return commit(f, f->ws, &change, 1);
}

/* A number the store answers. sql: a literal with one text parameter. */
#define NUMBER(f, sql, text)                                                  \
    ({                                                                        \
        struct store_tx *tx_ cleanup(store_rollback) = NULL;                  \
        struct store_rows *rows_ cleanup(store_rows_done) = NULL;             \
        int64_t n_ = -1;                                                      \
        MUST(f,                                                               \
             store_begin((f)->store, STORE_READ, "a test", &tx_, &(f)->err)); \
        if (store_one(tx_, &rows_, &(f)->err, sql, "t", text) > 0)            \
            n_ = store_int(rows_, 0);                                         \
        n_;                                                                   \
    })

/* Changes rows behind everybody's back. */
#define ALTER(f, sql, types, ...)                                             \
    do {                                                                      \
        struct store_tx *tx_ cleanup(store_rollback) = NULL;                  \
        MUST(f, store_begin((f)->store, STORE_WRITE, "a test", &tx_,          \
                            &(f)->err));                                      \
        MUST(f, store_exec(tx_, &(f)->err, sql, types, __VA_ARGS__));         \
        MUST(f, store_commit(&tx_, &(f)->err));                               \
    } while (0)

#define KEPT(name)                                                            \
    cmocka_unit_test_setup_teardown(name, kept_set_up, kept_tear_down)

#endif
