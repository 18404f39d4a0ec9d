/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree/watch: a tree that is watched is checked by
 * what happened to it, and whatever happened is found as without; what cannot
 * be known is looked at.
 */
#include <sys/mman.h>

#include "tree/tree_int.h"
#include "workspace_keep.h"

enum {
    MANY = 300 /* more than are told of one by one */
};

/* ---- help --------------------------------------------------------------- */

static struct tree *tree_of(struct kept *f, const char *ws)
{
    struct tree *t = tree_use(f->w->trees, ws, false);

    assert_non_null(t);
    tree_unuse(f->w->trees, t);
    return t;
}

static void acquire(struct kept *f, const char *ws, struct workspace_tree *ret)
{
    MUST(f, workspace_tree_acquire(f->w, &f->who, ws, ret, &f->err));
}

static int check(struct kept *f, const struct workspace_tree *tree)
{
    return workspace_tree_check(f->w, tree, &f->err);
}

/* What the thread does, now. */
static bool serve(struct kept *f, const char *ws)
{
    struct tree *t = tree_use(f->w->trees, ws, false);
    bool done = tree_watcher_serve(f->w->trees, t);

    tree_unuse(f->w->trees, t);
    return done;
}

static bool is_ready(struct kept *f, const char *ws)
{
    return tree_of(f, ws)->full->watch.ready;
}

static struct tree_file *file_of(struct kept *f, const char *path)
{
    return tree_files_find(tree_of(f, f->ws)->full, path);
}

/* Acquired, checked and watched. */
static void watch(struct kept *f, struct workspace_tree *ret)
{
    place_blobs(f); /* a link less in the log's place is an event */
    acquire(f, f->ws, ret);
    assert_int_equal(check(f, ret), 0);
    assert_true(serve(f, f->ws));
    assert_true(is_ready(f, f->ws));
    assert_int_equal(check(f, ret), 0);
}

static void put_many(struct kept *f)
{
    struct workspace_change changes[MANY];
    char paths[MANY][32], names[MANY][BLOB_NAME];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "d%d/f%03d", i % 7, i);
        store_bytes_of(f, paths[i], strlen(paths[i]), names[i]);
        changes[i] = (struct workspace_change){.kind = CHANGE_PUT,
                                               .path = paths[i],
                                               .sha256 = names[i],
                                               .size = strlen(paths[i])};
    }
    (void)commit(f, f->ws, changes, MANY);
    for (int i = 0; i < MANY; i++)
        blob_release(f->blobs, names[i]);
}

/* How many descriptors of ours are such. */
static unsigned instances(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned count = 0;

    while (dir && (entry = readdir(dir))) {
        char to[64] = "";

        if (readlinkat(dirfd(dir), entry->d_name, to, sizeof(to) - 1) > 0)
            count += strstr(to, "inotify") != NULL;
    }
    (void)closedir(dir);
    return count;
}

/* ---- damage is found ---------------------------------------------------- */

static void D3_change_of_a_watched_file_is_found(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "good");
    (void)put(f, "d/b", "fine");
    watch(f, &tree);
    sha_of("good", 4, sha256);
    flip(f, sha256); /* by another name of it */
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, sha256));
    assert_int_equal(check(f, &tree), -ERR_CORRUPT); /* to all who ask */
    workspace_tree_release(f->w, &tree);
    assert_int_equal(
        workspace_tree_acquire(f->w, &f->who, f->ws, &tree, &f->err),
        -ERR_CORRUPT);
    assert_int_equal(instances(), 0);
    (void)put(f, "c", "good"); /* healed */
    watch(f, &tree);
    workspace_tree_release(f->w, &tree);
}

static void D3_change_before_the_watch_is_found(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "good");
    place_blobs(f);
    acquire(f, f->ws, &tree);
    assert_int_equal(check(f, &tree), 0);
    sha_of("good", 4, sha256);
    flip(f, sha256);
    assert_true(serve(f, f->ws));
    assert_true(is_ready(f, f->ws));
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    workspace_tree_release(f->w, &tree);
}

static void D3_write_through_a_mapping_is_found(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char *bytes;
    int fd;

    (void)put_as(f, f->ws, "run", "good", true);
    watch(f, &tree);
    nap_ms(20);
    fd = openat(tree.layers[0], "run", O_RDWR | O_CLOEXEC);
    bytes = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    assert_int_equal(check(f, &tree), 0);
    bytes[0] = 'B';
    assert_true(serve(f, f->ws)); /* not closed: by the next look at all */
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    workspace_tree_release(f->w, &tree);
    (void)munmap(bytes, 4);
    fd_close(&fd);
    watch(f, &tree); /* made again from the blob */
    nap_ms(20);
    fd = openat(tree.layers[0], "run", O_RDWR | O_CLOEXEC);
    bytes = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    bytes[0] = 'B';
    (void)munmap(bytes, 4);
    fd_close(&fd);
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    workspace_tree_release(f->w, &tree);
}

static void what_names_lead_to_is_watched(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    int dir, fd;

    (void)put(f, "a", "1");
    (void)put(f, "d/e/b", "2");
    (void)put(f, "d/e/c", "3");
    watch(f, &tree);
    dir = tree.layers[0];
    assert_int_equal(renameat(dir, "d", dir, "x"), 0); /* a folder above */
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    assert_int_equal(renameat(dir, "x", dir, "d"), 0);
    assert_int_equal(check(f, &tree), 0); /* all was looked at again */
    assert_int_equal(renameat(dir, "d/e/b", dir, "d/b"), 0);
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    assert_int_equal(renameat(dir, "d/b", dir, "d/e/b"), 0);
    assert_int_equal(check(f, &tree), 0);
    assert_int_equal(unlinkat(dir, "d/e/b", 0), 0);
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    /* Another file in its place is good if its bytes are, each time. */
    fd = openat(dir, "d/e/b", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "2", 1), 1);
    fd_close(&fd);
    assert_int_equal(check(f, &tree), 0);
    fd = openat(dir, "d/e/b", O_WRONLY | O_CLOEXEC); /* nobody watches it */
    nap_ms(20);
    assert_int_equal(write(fd, "X", 1), 1);
    fd_close(&fd);
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    workspace_tree_release(f->w, &tree);
}

static void same_bytes_under_two_names_are_both_doubted(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;

    (void)put(f, "a", "same");
    (void)put(f, "b", "same");
    (void)put(f, "c", "other");
    watch(f, &tree);
    assert_int_equal(file_of(f, "a")->watch, file_of(f, "b")->watch);
    nap_ms(20);
    assert_int_equal(fchmodat(tree.layers[0], "a", 0644, 0), 0);
    assert_int_equal(check(f, &tree), 0); /* learns stamps of both */
    assert_int_equal(tree_of(f, f->ws)->full->watch.doubts, 0);
    assert_true(file_of(f, "a")->ctime_ns == file_of(f, "b")->ctime_ns);
    workspace_tree_release(f->w, &tree);
}

/* ---- only what was touched is looked at --------------------------------- */

static void quiet_files_are_not_looked_at(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    struct tree_file *a, *b;
    int64_t stamp;

    (void)put(f, "a", "1");
    (void)put(f, "b", "2");
    watch(f, &tree);
    a = file_of(f, "a");
    b = file_of(f, "b");
    stamp = a->ctime_ns;
    a->ctime_ns = 1;
    b->ctime_ns = 1;
    assert_int_equal(check(f, &tree), 0);
    assert_true(a->ctime_ns == 1 && b->ctime_ns == 1);
    assert_int_equal(fchmodat(tree.layers[0], "b", 0644, 0), 0);
    assert_int_equal(check(f, &tree), 0);
    assert_true(a->ctime_ns == 1 && b->ctime_ns > 1);
    assert_true(serve(f, f->ws)); /* at all of them, in its own time */
    assert_true(a->ctime_ns == stamp);
    workspace_tree_release(f->w, &tree);
}

static void rolling_forward_keeps_the_watch(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "1");
    (void)put(f, "b", "2");
    watch(f, &tree);
    workspace_tree_release(f->w, &tree);
    (void)put(f, "b", "new");
    (void)put(f, "n/e/w", "newer");
    (void)take(f, "a");
    acquire(f, f->ws, &tree);
    assert_true(is_ready(f, f->ws));
    assert_true(file_of(f, "b")->watch && file_of(f, "n/e/w")->watch);
    assert_int_equal(check(f, &tree), 0);
    assert_int_equal(tree_of(f, f->ws)->full->watch.doubts, 0);
    sha_of("newer", 5, sha256);
    flip(f, sha256);
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    workspace_tree_release(f->w, &tree);
}

/* At, below and above what is told of one by one. */
static void many_changes_at_once_are_all_found(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    struct tree_layer *full;
    char sha256[BLOB_NAME];

    put_many(f);
    watch(f, &tree);
    full = tree_of(f, f->ws)->full;
    for (size_t count = 255; count <= 257; count++) {
        nap_ms(20);
        for (size_t i = 0; i < count; i++) {
            full->files[i].ctime_ns = 1;
            assert_int_equal(
                fchmodat(tree.layers[0], full->files[i].path, 0644, 0), 0);
        }
        full->files[MANY - 1].ctime_ns = 1;
        assert_int_equal(check(f, &tree), 0);
        for (size_t i = 0; i < count; i++)
            assert_true(full->files[i].ctime_ns > 1);
        /* All are looked at when there were too many. */
        assert_int_equal(full->files[MANY - 1].ctime_ns > 1, count > 256);
        assert_false(full->watch.whole);
    }
    sha_of("d0/f000", 7, sha256);
    flip(f, sha256);
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    workspace_tree_release(f->w, &tree);
}

static void events_the_kernel_dropped_are_made_up_for(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char *text cleanup(mem_free) = NULL;
    char sha256[BLOB_NAME];
    long kept;

    (void)put(f, "a", "1");
    (void)put(f, "b", "2");
    (void)put(f, "c", "3");
    watch(f, &tree);
    assert_int_equal(fd_read_file(AT_FDCWD,
                                  "/proc/sys/fs/inotify/max_queued_events", 32,
                                  &text, NULL),
                     0);
    kept = strtol(text, NULL, 10);
    if (kept > 1000000) {
        print_message("# SKIP: the queue of inotify is too long to fill\n");
        skip();
    }
    for (long i = 0; i < kept + 10; i++)
        assert_int_equal(fchmodat(tree.layers[0], i % 2 ? "a" : "b", 0644, 0),
                         0);
    sha_of("3", 1, sha256);
    flip(f, sha256); /* of this one nothing was told */
    assert_int_equal(check(f, &tree), -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, sha256));
    workspace_tree_release(f->w, &tree);
}

static void hidden_damage_is_kept_in_mind(void **state)
{
    struct kept *f = *state;
    struct workspace_tree first, second;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "old");
    (void)put(f, "b", "b");
    watch(f, &first);
    (void)put(f, "a", "new");
    acquire(f, f->ws, &second); /* a difference over it */
    sha_of("old", 3, sha256);
    flip(f, sha256);
    assert_int_equal(check(f, &second), 0);
    assert_int_equal(check(f, &first), -ERR_CORRUPT);
    workspace_tree_release(f->w, &second);
    workspace_tree_release(f->w, &first);
}

/* ---- who is watched ------------------------------------------------------
 */

static void small_trees_are_not_watched(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;

    f->w->trees->watch_pause_ms = 600000; /* not in this test */
    (void)put(f, "a", "1");
    (void)put(f, "b", "2");
    f->w->trees->watch_least = 3;
    acquire(f, f->ws, &tree);
    assert_int_equal(check(f, &tree), 0);
    assert_true(tree_of(f, f->ws)->wanted_ms == 0);
    f->w->trees->watch_least = 2;
    assert_int_equal(check(f, &tree), 0);
    assert_true(tree_of(f, f->ws)->wanted_ms > 0);
    workspace_tree_release(f->w, &tree);
}

static void watcher_comes_by_itself(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    bool ready = false;

    f->w->trees->watch_least = 1;
    f->w->trees->watch_pause_ms = 1;
    (void)put(f, "a", "1");
    acquire(f, f->ws, &tree);
    assert_int_equal(check(f, &tree), 0);
    for (int i = 0; i < 3000 && !ready; i++) {
        struct tree_layer *full = tree_of(f, f->ws)->full;

        nap_ms(10);
        mutex_lock(&full->watch.lock);
        ready = full->watch.ready;
        mutex_unlock(&full->watch.lock);
    }
    assert_true(ready);
    assert_int_equal(check(f, &tree), 0);
    workspace_tree_release(f->w, &tree);
    kept_reopen(f); /* the thread ends, and the watch with it */
    assert_int_equal(instances(), 0);
}

static void watcher_gives_way(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    struct tree *t;

    put_many(f);
    acquire(f, f->ws, &tree);
    t = tree_use(f->w->trees, f->ws, false); /* somebody waits */
    assert_false(serve(f, f->ws));
    assert_false(is_ready(f, f->ws));
    tree_unuse(f->w->trees, t);
    assert_true(serve(f, f->ws));
    assert_true(is_ready(f, f->ws));
    assert_int_equal(check(f, &tree), 0);
    workspace_tree_release(f->w, &tree);
}

static void watches_are_bounded(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree, held;
    char other[ID_MAX];

    make_workspace(f, other);
    for (int i = 0; i < 3; i++) {
        char path[2] = {(char)('a' + i), 0};

        (void)put(f, path, path);
        (void)put_as(f, other, path, path, false);
    }
    acquire(f, f->ws, &tree);
    f->w->trees->watch_max = 2; /* above */
    assert_true(serve(f, f->ws));
    assert_false(is_ready(f, f->ws));
    assert_int_equal(check(f, &tree), 0);
    f->w->trees->watch_max = 3; /* at */
    assert_true(serve(f, f->ws));
    assert_true(is_ready(f, f->ws));
    workspace_tree_release(f->w, &tree);
    acquire(f, other, &held);
    assert_true(serve(f, other)); /* the first was used just now */
    assert_false(is_ready(f, other));
    tree_of(f, f->ws)->used_ms -= 120000;
    assert_true(serve(f, other));
    assert_true(is_ready(f, other));
    assert_false(is_ready(f, f->ws));
    assert_int_equal(instances(), 1);
    workspace_tree_release(f->w, &held);
    trees_forget(f->w->trees, other);
    assert_int_equal(instances(), 0);
}

/* Files that came and went leave watches behind; some are enough. */
static void stale_watches_are_dropped(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    struct tree_layer *full;

    (void)put(f, "a", "1");
    watch(f, &tree);
    full = tree_of(f, f->ws)->full;
    assert_int_equal(full->watch.needed, 1);
    full->watch.added = 1002; /* at the bound */
    assert_true(serve(f, f->ws));
    assert_int_equal(full->watch.added, 1002);
    full->watch.added = 1003;
    assert_true(serve(f, f->ws));
    assert_int_equal(full->watch.added, 1);
    assert_true(is_ready(f, f->ws));
    assert_int_equal(check(f, &tree), 0);
    workspace_tree_release(f->w, &tree);
}

static void tree_dropped_from_memory_has_no_watch(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;

    (void)put(f, "a", "1");
    watch(f, &tree);
    workspace_tree_release(f->w, &tree);
    f->w->trees->files_max = 0;
    trees_evict(f->w->trees);
    assert_int_equal(instances(), 0);
    acquire(f, f->ws, &tree); /* by its log */
    assert_false(is_ready(f, f->ws));
    assert_int_equal(check(f, &tree), 0);
    workspace_tree_release(f->w, &tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(D3_change_of_a_watched_file_is_found),
        KEPT(D3_change_before_the_watch_is_found),
        KEPT(D3_write_through_a_mapping_is_found),
        KEPT(what_names_lead_to_is_watched),
        KEPT(same_bytes_under_two_names_are_both_doubted),
        KEPT(quiet_files_are_not_looked_at),
        KEPT(rolling_forward_keeps_the_watch),
        KEPT(many_changes_at_once_are_all_found),
        KEPT(events_the_kernel_dropped_are_made_up_for),
        KEPT(hidden_damage_is_kept_in_mind),
        KEPT(small_trees_are_not_watched),
        KEPT(watcher_comes_by_itself),
        KEPT(watcher_gives_way),
        KEPT(watches_are_bounded),
        KEPT(stale_watches_are_dropped),
        KEPT(tree_dropped_from_memory_has_no_watch),
    };

    return cmocka_run_group_tests_name("workspace_watch", tests, NULL, NULL);
}
