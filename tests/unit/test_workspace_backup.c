/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep/backup: what was backed up while the service worked restores to
 * verified data, and what is not whole does not restore at all (D9).
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "upkeep/backup_int.h"
#include "workspace_keep.h"

/* ---- help --------------------------------------------------------------- */

static char *beside(struct kept *f, const char *name)
{
    return xasprintf("%s/%s", f->dir, name);
}

static void backup(struct kept *f, const char *dir)
{
    MUST(f, workspaces_backup(f->w, dir, NULL, NULL, &f->err));
}

/* Another service on what was restored; close with kept_close. */
static void open_restored(struct kept *f, const char *dir, struct kept *ret)
{
    *ret = (struct kept){.who = f->who};
    assert_true(strlen(dir) < sizeof(ret->dir));
    (void)snprintf(ret->dir, sizeof(ret->dir), "%s", dir);
    memcpy(ret->ws, f->ws, sizeof(ret->ws));
    memcpy(ret->domain, f->domain, sizeof(ret->domain));
    kept_open(ret);
}

static int restore(struct kept *f, const char *from, const char *to)
{
    return upkeep_restore(from, to, NULL, NULL, NULL, &f->err);
}

static char *text_of(struct kept *f, const char *path)
{
    struct workspace_file file;
    int fd cleanup(fd_close) = -1;
    char *text = xcalloc(1, 256);

    MUST(f,
         workspace_file_get(f->w, &f->who, f->ws, path, NULL, &file, &f->err));
    MUST(f, workspace_file_open(f->w, NULL, &file, &fd, &f->err));
    assert_true(fd_read_all(fd, text, 255) >= 0);
    workspace_file_done(&file);
    return text;
}

static mode_t mode_of(const char *dir, const char *name)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", dir, name);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void write_text(const char *path, const char *text)
{
    int fd cleanup(fd_close) =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

/* ---- there and back ----------------------------------------------------- */

struct seen {
    char last[32];
    uint64_t done;
    struct buf parts;
};

static void on_progress(void *ctx, const char *what, uint64_t done,
                        uint64_t total)
{
    struct seen *s = ctx;

    assert_true(done <= total);
    if (strcmp(s->last, what) != 0) {
        (void)snprintf(s->last, sizeof(s->last), "%s", what);
        buf_addf(&s->parts, "%s ", what);
        s->done = 0;
    }
    assert_true(done >= s->done);
    s->done = done;
}

static void D9_backup_restores_to_verified_data(void **state)
{
    struct kept *f = *state;
    struct kept other;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *back cleanup(mem_free) = beside(f, "back");
    char *secret cleanup(mem_free) = beside(f, "auth.secret");
    char *key cleanup(mem_free) = beside(f, "admin.key");
    char *text cleanup(mem_free) = NULL, *blob cleanup(mem_free) = NULL;
    struct seen seen = {.last = ""};
    struct workspace_verified v;
    struct audit_report report;
    struct workspace_tree tree;
    struct stat st, st_blob;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "one");
    (void)put(f, "a", "two");
    (void)put_as(f, f->ws, "d/run", "three", true);
    write_text(secret, "secret of keys");
    write_text(key, "key");
    MUST(f, workspaces_backup(f->w, to, on_progress, &seen, &f->err));
    assert_string_equal(seen.parts.data, "database objects ");
    assert_int_equal(mode_of(to, "."), 0700);
    assert_int_equal(mode_of(to, "glovebox.db"), 0600);
    assert_int_equal(mode_of(to, "manifest"), 0600);
    buf_reset(&seen.parts);
    seen.last[0] = 0;
    MUST(f, upkeep_restore(to, back, NULL, on_progress, &seen, &f->err));
    assert_string_equal(seen.parts.data, "copy check ");
    buf_done(&seen.parts);
    assert_int_equal(mode_of(back, "."), 0700);
    assert_int_equal(mode_of(back, "auth.secret"), 0600);
    assert_int_equal(mode_of(back, "admin.key"), 0600);
    assert_int_equal(mode_of(back, "blobs"), 0700);
    sha_of("two", 3, sha256);
    blob = xasprintf("blobs/%.2s/%s", sha256, sha256);
    assert_int_equal(mode_of(back, blob), 0644); /* as the blob store has it */

    open_restored(f, back, &other);
    text = text_of(&other, "a");
    assert_string_equal(text, "two");
    /* Mounted by links again, not by copies. */
    MUST(&other, workspace_tree_acquire(other.w, &other.who, other.ws, &tree,
                                        &other.err));
    assert_int_equal(fstatat(tree.layers[0], "a", &st, 0), 0);
    free(blob);
    blob = blob_path(&other, sha256);
    assert_int_equal(stat(blob, &st_blob), 0);
    assert_int_equal(st.st_ino, st_blob.st_ino);
    workspace_tree_release(other.w, &tree);
    MUST(&other, workspaces_verify(other.w, NULL, NULL, &v, &other.err));
    assert_int_equal(v.blobs, 3);
    assert_int_equal(v.bad + v.missing + v.orphans, 0);
    MUST(&other, audit_verify(other.audit, NULL, NULL, &report, &other.err));
    assert_int_equal(report.first_bad, 0);
    assert_true(report.events > 0);
    (void)put(&other, "b", "and it goes on");
    kept_close(&other);
}

static void backup_of_an_empty_service(void **state)
{
    struct kept *f = *state;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *back cleanup(mem_free) = beside(f, "back");
    struct kept other;

    backup(f, to);
    MUST(f, restore(f, to, back));
    open_restored(f, back, &other);
    kept_close(&other);
}

/* Commits, deletions and collections all the while. */
struct load {
    struct kept own;
    atomic_bool stop;
    unsigned rounds;
};

static void *load_run(void *arg)
{
    struct load *l = arg;
    struct workspace_collected done;

    for (unsigned i = 0; !atomic_load(&l->stop); i++) {
        char path[16], text[32];

        (void)snprintf(path, sizeof(path), "f%u", i % 5);
        (void)snprintf(text, sizeof(text), "round %u", i);
        (void)put(&l->own, path, text);
        if (i % 3 == 2)
            (void)take(&l->own, path);
        MUST(&l->own, workspaces_collect(l->own.w, &done, &l->own.err));
        l->rounds = i + 1;
    }
    return NULL;
}

static void D9_backup_under_load(void **state)
{
    struct kept *f = *state;
    struct load load = {.own = *f};
    struct workspace_patch rules = {.quota_bytes = -1,
                                    .keep_versions = 1,
                                    .keep_days = -1,
                                    .legal_hold = -1};
    struct workspace_info info;
    pthread_t thread;

    /* So that blobs become nobody's while they are copied. */
    MUST(f, workspace_patch(f->w, &f->who, f->ws, &rules, &info, &f->err));
    f->w->upkeep->grace_ms = 0;
    (void)put(f, "steady", "as a rock");
    assert_int_equal(pthread_create(&thread, NULL, load_run, &load), 0);
    for (int i = 0; i < 4; i++) {
        char name[16];
        char *to cleanup(mem_free) = NULL, *back cleanup(mem_free) = NULL;
        char *text cleanup(mem_free) = NULL;
        struct workspace_verified v;
        struct kept other;

        nap_ms(30);
        (void)snprintf(name, sizeof(name), "to%d", i);
        to = beside(f, name);
        (void)snprintf(name, sizeof(name), "back%d", i);
        back = beside(f, name);
        backup(f, to);
        MUST(f, restore(f, to, back));
        open_restored(f, back, &other);
        text = text_of(&other, "steady");
        assert_string_equal(text, "as a rock");
        MUST(&other, workspaces_verify(other.w, NULL, NULL, &v, &other.err));
        assert_int_equal(v.bad + v.missing + v.orphans, 0);
        kept_close(&other);
    }
    atomic_store(&load.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(load.rounds > 3);
}

/* ---- what does not do --------------------------------------------------- */

static void folder_must_be_empty(void **state)
{
    struct kept *f = *state;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *back cleanup(mem_free) = beside(f, "back");
    char *in_to cleanup(mem_free) = beside(f, "backup/x");
    char *in_back cleanup(mem_free) = beside(f, "back/x");

    assert_int_equal(mkdir(to, 0700), 0);
    write_text(in_to, "x");
    assert_int_equal(workspaces_backup(f->w, to, NULL, NULL, &f->err),
                     -ERR_CONFLICT);
    assert_int_equal(unlink(in_to), 0);
    backup(f, to); /* empty will do */
    assert_int_equal(workspaces_backup(f->w, to, NULL, NULL, &f->err),
                     -ERR_CONFLICT);
    assert_int_equal(mkdir(back, 0700), 0);
    write_text(in_back, "x");
    assert_int_equal(restore(f, to, back), -ERR_CONFLICT);
    assert_int_equal(access(in_back, F_OK), 0); /* not ours to remove */
    assert_int_equal(unlink(in_back), 0);
    MUST(f, restore(f, to, back));
}

static void folder_without_manifest_is_no_backup(void **state)
{
    struct kept *f = *state;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *back cleanup(mem_free) = beside(f, "back");
    char *manifest cleanup(mem_free) = beside(f, "backup/manifest");

    (void)put(f, "a", "one");
    backup(f, to);
    assert_int_equal(unlink(manifest), 0);
    assert_int_equal(restore(f, to, back), -ERR_INVALID);
    assert_int_equal(access(back, F_OK), -1);
    assert_int_equal(restore(f, "/nowhere/at/all", back), -ERR_INTERNAL);
}

static void damaged_blob_ends_the_backup(void **state)
{
    struct kept *f = *state;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *manifest cleanup(mem_free) = beside(f, "backup/manifest");
    char orphan[BLOB_NAME], sha256[BLOB_NAME];
    struct workspace_collected done;

    (void)put(f, "a", "one");
    sha_of("one", 3, sha256);
    flip(f, sha256);
    assert_int_equal(workspaces_backup(f->w, to, NULL, NULL, &f->err),
                     -ERR_CORRUPT);
    assert_int_equal(access(manifest, F_OK), -1);
    /* And collecting goes on afterwards. */
    f->w->upkeep->grace_ms = 0;
    store_bytes_of(f, "orphan", 6, orphan);
    blob_release(f->blobs, orphan);
    clock_test_advance(20);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(done.blobs, 1);
}

/* Changes, cuts or removes each file of a backup in turn. */
static void D9_damaged_backup_does_not_restore(void **state)
{
    struct kept *f = *state;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *back cleanup(mem_free) = beside(f, "back");
    char sha256[BLOB_NAME];
    char names[3][BACKUP_NAME_MAX + 16];

    (void)put(f, "a", "one");
    backup(f, to);
    sha_of("one", 3, sha256);
    (void)snprintf(names[0], sizeof(names[0]), "blobs/%.2s/%s", sha256,
                   sha256);
    (void)snprintf(names[1], sizeof(names[1]), "glovebox.db");
    (void)snprintf(names[2], sizeof(names[2]), "manifest");
    for (int i = 0; i < 3; i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", to, names[i]);
        char *whole cleanup(mem_free) = NULL;
        size_t len;

        assert_int_equal(fd_read_file(AT_FDCWD, path, 64 << 20, &whole, &len),
                         0);
        for (int way = 0; way < 4; way++) {
            int fd cleanup(fd_close) =
                open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
            int want = way == 3 && i == 2 ? -ERR_INVALID : -ERR_CORRUPT;

            assert_int_equal(fd_write_all(fd, whole, len), 0);
            if (way == 0) /* one bit */
                assert_int_equal(
                    pwrite(fd, (char[]){(char)(whole[0] ^ 1)}, 1, 0), 1);
            else if (way == 1) /* one byte less */
                assert_int_equal(ftruncate(fd, (off_t)len - 1), 0);
            else if (way == 2) /* one more */
                assert_int_equal(pwrite(fd, "x", 1, (off_t)len), 1);
            else
                assert_int_equal(unlink(path), 0);
            assert_int_equal(restore(f, to, back), want);
            assert_int_equal(access(back, F_OK), -1); /* nothing stays */
        }
        write_text(path, "");
        {
            int fd cleanup(fd_close) = open(path, O_WRONLY | O_CLOEXEC);

            assert_int_equal(fd_write_all(fd, whole, len), 0);
        }
    }
    MUST(f, restore(f, to, back));
}

/* A manifest with its own hash right, but saying something else. */
static void forge(const char *dir, const char *lines, unsigned count)
{
    char *path cleanup(mem_free) = xasprintf("%s/manifest", dir);
    char sum[BLOB_NAME];
    char *text cleanup(mem_free) = NULL;

    sha_of(lines, strlen(lines), sum);
    text = xasprintf("%s%s %u manifest\n", lines, sum, count);
    write_text(path, text);
}

static void F1_manifest_cannot_name_other_files(void **state)
{
    static const char *const names[] = {"../escaped",
                                        "/tmp/escaped",
                                        "blobs/../../escaped",
                                        "blobs/aa/b",
                                        "trees/x",
                                        "blobs/ab/abc/../../../escaped",
                                        "glovebox.db-wal",
                                        "",
                                        "manifest "};
    struct kept *f = *state;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *back cleanup(mem_free) = beside(f, "back");
    char *manifest cleanup(mem_free) = beside(f, "backup/manifest");
    char *whole cleanup(mem_free) = NULL;
    char sha256[BLOB_NAME];
    size_t len;

    (void)put(f, "a", "one");
    backup(f, to);
    assert_int_equal(fd_read_file(AT_FDCWD, manifest, 1 << 20, &whole, &len),
                     0);
    *strstr(whole, " manifest\n") = 0;
    *(strrchr(whole, '\n') + 1) = 0; /* without its end */
    sha_of("x", 1, sha256);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char *lines cleanup(mem_free) =
            xasprintf("%s%s 1 %s\n", whole, sha256, names[i]);

        forge(to, lines, 5);
        assert_int_equal(restore(f, to, back), -ERR_CORRUPT);
        assert_int_equal(access(back, F_OK), -1);
    }
    forge(to, whole, 4); /* the forgery itself is fine */
    MUST(f, restore(f, to, back));
}

static void backup_that_lacks_a_blob_does_not_restore(void **state)
{
    struct kept *f = *state;
    char *to cleanup(mem_free) = beside(f, "backup");
    char *back cleanup(mem_free) = beside(f, "back");
    char *manifest cleanup(mem_free) = beside(f, "backup/manifest");
    char *whole cleanup(mem_free) = NULL, *lines cleanup(mem_free) = NULL;
    char *blob, *end;
    size_t len;

    (void)put(f, "a", "one");
    backup(f, to);
    assert_int_equal(fd_read_file(AT_FDCWD, manifest, 1 << 20, &whole, &len),
                     0);
    *strstr(whole, " manifest\n") = 0;
    *(strrchr(whole, '\n') + 1) = 0;
    /* The line of the blob taken out: the rest is still consistent. */
    blob = strstr(whole, "blobs/");
    assert_non_null(blob);
    end = strchr(blob, '\n') + 1;
    while (blob > whole && blob[-1] != '\n')
        blob--;
    lines = xasprintf("%.*s%s", (int)(blob - whole), whole, end);
    forge(to, lines, 2);
    assert_int_equal(restore(f, to, back), -ERR_CORRUPT);
    assert_int_equal(access(back, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(D9_backup_restores_to_verified_data),
        KEPT(backup_of_an_empty_service),
        KEPT(D9_backup_under_load),
        KEPT(folder_must_be_empty),
        KEPT(folder_without_manifest_is_no_backup),
        KEPT(damaged_blob_ends_the_backup),
        KEPT(D9_damaged_backup_does_not_restore),
        KEPT(F1_manifest_cannot_name_other_files),
        KEPT(backup_that_lacks_a_blob_does_not_restore),
    };

    return cmocka_run_group_tests_name("workspace_backup", tests, NULL, NULL);
}
