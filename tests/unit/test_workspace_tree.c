/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree: what a session mounts is the workspace at its head,
 * whatever was committed since the tree was last looked at, whoever mounts it
 * meanwhile, and whatever became of the daemon in between.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "tree/tree_int.h"
#include "workspace_keep.h"

/* ---- help --------------------------------------------------------------- */

static void acquire(struct kept *f, const char *ws, struct workspace_tree *ret)
{
    MUST(f, workspace_tree_acquire(f->w, &f->who, ws, ret, &f->err));
}

/* Adds "path=text" or "path!" (hidden) for all below dir, sorted. */
static void list_into(int dir, const char *prefix, struct buf *out)
{
    struct dirent **names = NULL;
    char *proc cleanup(mem_free) = xasprintf("/proc/self/fd/%d", dir);
    int count = scandir(proc, &names, NULL, alphasort);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        struct stat st;

        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            char *path cleanup(mem_free) = xasprintf("%s%s", prefix, name);

            assert_int_equal(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
            if (S_ISDIR(st.st_mode)) {
                char *below cleanup(mem_free) = xasprintf("%s/", path);
                int sub cleanup(fd_close) =
                    openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                size_t before = out->len;

                list_into(sub, below, out);
                if (out->len == before) /* no folder without a file */
                    buf_addf(out, "%s/ ", path);
            } else if (S_ISCHR(st.st_mode)) {
                assert_int_equal(st.st_rdev, makedev(0, 0));
                buf_addf(out, "%s! ", path);
            } else {
                char *text cleanup(mem_free) = NULL;
                size_t len;

                assert_int_equal(fd_read_file(dir, name, 1 << 20, &text, &len),
                                 0);
                buf_addf(out, "%s%s=%s ", path, st.st_mode & 0100 ? "*" : "",
                         text);
            }
        }
        free(names[i]);
    }
    free(names);
}

static char *listing(int layer)
{
    struct buf out = {0};

    buf_adds(&out, "");
    list_into(layer, "", &out);
    if (out.len)
        out.data[--out.len] = 0;
    return buf_take(&out, NULL);
}

#define assert_layer(tree, i, want)                                           \
    do {                                                                      \
        char *got_ cleanup(mem_free) = listing((tree)->layers[i]);            \
        assert_string_equal(got_, want);                                      \
    } while (0)

/* "…/3": which layer it is. */
static void name_of(int layer, char ret[256])
{
    char *proc cleanup(mem_free) = xasprintf("/proc/self/fd/%d", layer);
    ssize_t n = readlink(proc, ret, 255);

    assert_true(n > 0);
    ret[n] = 0;
}

/* What a session would see: the layers put together by overlayfs. NULL where
 * that is not allowed. Runs in a child with a mount namespace of its own. */
static char *mounted(const struct kept *f, const struct workspace_tree *tree)
{
    char *at cleanup(mem_free) = xasprintf("%s/mnt", f->dir);
    char upper[256], lower[256];
    int pair[2];
    struct buf out = {0};
    char chunk[4096];
    ssize_t n;
    pid_t pid;
    int status;

    assert_int_equal(tree->count, 2);
    /* By name: descriptors belong to the other mount namespace. */
    name_of(tree->layers[0], upper);
    name_of(tree->layers[1], lower);
    (void)mkdir(at, 0700);
    assert_int_equal(fd_pipe(pair), 0);
    pid = fork();
    if (pid == 0) {
        char *options = xasprintf("lowerdir=%s:%s", upper, lower);
        char *text;
        int dir;

        if (unshare(CLONE_NEWNS) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("overlay", at, "overlay", MS_RDONLY, options) < 0)
            _exit(1);
        dir = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        text = listing(dir);
        _exit(fd_write_all(pair[1], text, strlen(text)) < 0);
    }
    close(pair[1]);
    buf_adds(&out, "");
    while ((n = read(pair[0], chunk, sizeof(chunk))) > 0)
        buf_add(&out, chunk, (size_t)n);
    close(pair[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        buf_done(&out);
        return NULL;
    }
    return buf_take(&out, NULL);
}

/* Names in DIR/trees, or below it. */
static unsigned count_in(struct kept *f, const char *below)
{
    char *path cleanup(mem_free) = xasprintf("%s/trees/%s", f->dir, below);
    DIR *dir = opendir(path);
    struct dirent *entry;
    unsigned count = 0;

    while (dir && (entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    if (dir)
        (void)closedir(dir);
    return count;
}

static uint64_t inode_of(const struct workspace_tree *tree, const char *path)
{
    struct stat st;

    assert_int_equal(fstatat(tree->layers[0], path, &st, AT_SYMLINK_NOFOLLOW),
                     0);
    return st.st_ino;
}

/* ---- one mounter at a time ---------------------------------------------- */

static void empty_workspace_has_no_layer(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;

    acquire(f, f->ws, &tree);
    assert_int_equal(tree.count, 0);
    assert_int_equal(tree.seq, 0);
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
    (void)put(f, "x", "1");
    (void)take(f, "x");
    acquire(f, f->ws, &tree); /* empty again, at another commit */
    assert_int_equal(tree.count, 0);
    assert_int_equal(tree.seq, 2);
    workspace_tree_release(f->w, &tree);
}

static void full_tree_shows_the_head(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    struct stat st;

    (void)put(f, "a", "1");
    (void)put(f, "d/e/f", "2");
    (void)put(f, "d/e-f", "3");
    (void)put(f, "d/\xc3\xa4 b", "4");
    (void)put_as(f, f->ws, "run", "5", true);
    acquire(f, f->ws, &tree);
    assert_int_equal(tree.count, 1);
    assert_int_equal(tree.seq, 5);
    assert_string_equal(tree.workspace, f->ws);
    assert_layer(&tree, 0, "a=1 d/e/f=2 d/e-f=3 d/\xc3\xa4 b=4 run*=5");
    assert_int_equal(fstatat(tree.layers[0], "d/e", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(fstatat(tree.layers[0], "a", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_nlink, 2); /* linked, not copied */
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
}

static void foreign_workspace_is_unknown(void **state)
{
    struct kept *f = *state;
    struct actor other = {.tenant = "o", .key = "key_o"};
    struct workspace_tree tree;
    char unknown[ID_MAX];

    (void)put(f, "a", "1");
    ids_make("ws", unknown);
    assert_int_equal(
        workspace_tree_acquire(f->w, &other, f->ws, &tree, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(
        workspace_tree_acquire(f->w, &f->who, unknown, &tree, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(count_in(f, ""), 0);
}

static void unmounted_tree_rolls_forward_in_place(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    uint64_t root, kept_inode;
    struct stat st;

    (void)put(f, "stays", "s");
    (void)put(f, "goes/deep/er", "g");
    (void)put(f, "changes", "1");
    (void)put(f, "file", "f");
    (void)put(f, "folder/x", "x");
    acquire(f, f->ws, &tree);
    assert_int_equal(fstat(tree.layers[0], &st), 0);
    root = st.st_ino;
    kept_inode = inode_of(&tree, "stays");
    workspace_tree_release(f->w, &tree);

    (void)take(f, "goes/deep/er");
    (void)put(f, "changes", "2");
    (void)put_as(f, f->ws, "stays2", "s", false); /* the same bytes */
    (void)take(f, "file");
    (void)put(f, "file/now/folder", "ff"); /* a file becomes a folder */
    (void)take(f, "folder");
    (void)put(f, "folder", "fx"); /* and a folder a file */
    (void)move(f, "stays2", "moved/here");
    acquire(f, f->ws, &tree);
    assert_int_equal(tree.count, 1);
    assert_layer(&tree, 0,
                 "changes=2 file/now/folder=ff folder=fx "
                 "moved/here=s stays=s");
    assert_int_equal(fstat(tree.layers[0], &st), 0);
    assert_int_equal(st.st_ino, root);
    assert_int_equal(inode_of(&tree, "stays"), kept_inode);
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
    assert_int_equal(count_in(f, f->ws), 2); /* one layer and its log */
}

static void mode_alone_is_a_change(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;

    (void)put_as(f, f->ws, "run", "5", false);
    acquire(f, f->ws, &tree);
    workspace_tree_release(f->w, &tree);
    (void)put_as(f, f->ws, "run", "5", true);
    acquire(f, f->ws, &tree);
    assert_layer(&tree, 0, "run*=5");
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
}

/* ---- several ------------------------------------------------------------ */

static void mounted_tree_stays_and_gets_a_difference(void **state)
{
    struct kept *f = *state;
    struct workspace_tree first, second, third, fourth;
    char *seen cleanup(mem_free) = NULL;

    (void)put(f, "a", "1");
    (void)put(f, "b", "1");
    (void)put(f, "d/x", "1");
    (void)put(f, "d/y", "1");
    (void)put(f, "e/all/gone", "1");
    (void)put(f, "e/all/too", "1");
    (void)put(f, "file", "1");
    (void)put(f, "folder/in", "1");
    (void)put(f, "again/x", "1");
    acquire(f, f->ws, &first);

    (void)put(f, "a", "2");
    (void)take(f, "b");
    (void)take(f, "d/x");
    (void)take(f, "e");
    (void)take(f, "file");
    (void)put(f, "file/as/folder", "2");
    (void)take(f, "folder");
    (void)put(f, "folder", "2");
    (void)put(f, "new/one", "2");
    (void)put(f, "passing", "2");
    (void)take(f, "passing");
    (void)take(f, "again");
    (void)put(f, "again/z", "2"); /* a folder that went and came back */
    acquire(f, f->ws, &second);
    assert_int_equal(second.count, 2);
    assert_layer(&second, 0,
                 "a=2 again/x! again/z=2 b! d/x! e! file/as/folder=2 "
                 "folder=2 new/one=2");
    assert_layer(&second, 1,
                 "a=1 again/x=1 b=1 d/x=1 d/y=1 e/all/gone=1 e/all/too=1 "
                 "file=1 folder/in=1");
    assert_layer(&first, 0,
                 "a=1 again/x=1 b=1 d/x=1 d/y=1 e/all/gone=1 e/all/too=1 "
                 "file=1 folder/in=1");
    assert_int_equal(workspace_tree_check(f->w, &second, &f->err), 0);
    seen = mounted(f, &second);
    if (seen)
        assert_string_equal(seen, "a=2 again/z=2 d/y=1 file/as/folder=2 "
                                  "folder=2 new/one=2");
    else
        print_message("overlayfs cannot be mounted here: not looked at\n");

    acquire(f, f->ws, &third); /* at the same head: the same layers */
    assert_int_equal(third.count, 2);
    assert_int_equal(inode_of(&third, "a"), inode_of(&second, "a"));
    assert_int_equal(count_in(f, f->ws), 3);

    (void)put(f, "a", "3");
    acquire(f, f->ws, &fourth); /* another head, while both are mounted */
    assert_int_equal(fourth.seq, second.seq + 1);
    assert_layer(&second, 0,
                 "a=2 again/x! again/z=2 b! d/x! e! file/as/folder=2 "
                 "folder=2 new/one=2");
    assert_int_equal(count_in(f, f->ws), 4);
    workspace_tree_release(f->w, &second);
    workspace_tree_release(f->w, &third);
    assert_int_equal(count_in(f, f->ws), 3); /* with its last mounter */
    workspace_tree_release(f->w, &fourth);
    workspace_tree_release(f->w, &first);

    acquire(f, f->ws, &first); /* nobody is left: forward again */
    assert_int_equal(first.count, 1);
    assert_layer(&first, 0,
                 "a=3 again/z=2 d/y=1 file/as/folder=2 folder=2 "
                 "new/one=2");
    assert_int_equal(count_in(f, f->ws), 2);
    workspace_tree_release(f->w, &first);
}

static void everything_gone_is_no_layer(void **state)
{
    struct kept *f = *state;
    struct workspace_tree first, second;

    (void)put(f, "a", "1");
    (void)put(f, "b/c", "1");
    acquire(f, f->ws, &first);
    (void)take(f, "a");
    (void)take(f, "b");
    acquire(f, f->ws, &second);
    assert_int_equal(second.count, 0);
    assert_int_equal(second.seq, 4);
    workspace_tree_release(f->w, &second);
    workspace_tree_release(f->w, &first);
}

static void large_difference_becomes_a_new_tree(void **state)
{
    struct kept *f = *state;
    struct workspace_tree first, second;

    f->w->trees->diff_max = 2;
    (void)put(f, "a", "1");
    (void)put(f, "b", "1");
    acquire(f, f->ws, &first);
    (void)put(f, "c", "1");
    (void)put(f, "d", "1");
    acquire(f, f->ws, &second);
    assert_int_equal(second.count, 2); /* two: not more than the bound */
    workspace_tree_release(f->w, &second);
    (void)put(f, "e", "1");
    acquire(f, f->ws, &second);
    assert_int_equal(second.count, 1);
    assert_layer(&second, 0, "a=1 b=1 c=1 d=1 e=1");
    assert_layer(&first, 0, "a=1 b=1");
    assert_int_equal(count_in(f, f->ws), 3);
    workspace_tree_release(f->w, &first);
    assert_int_equal(count_in(f, f->ws), 2);
    workspace_tree_release(f->w, &second);
}

/* Commits, wakes and ends all at once. */
struct crowd {
    struct kept *f;
    unsigned number;
    char bad[400];
};

static void *crowd_run(void *arg)
{
    struct crowd *c = arg;
    struct error err = {0};

    for (unsigned i = 0; i < 30 && !c->bad[0]; i++) {
        struct workspace_tree tree;
        char path[32], *text cleanup(mem_free) = NULL;
        size_t len;

        (void)snprintf(path, sizeof(path), "%u/%u", c->number, i % 7);
        (void)put(c->f, path, path);
        if (workspace_tree_acquire(c->f->w, &c->f->who, c->f->ws, &tree,
                                   &err) < 0 ||
            workspace_tree_check(c->f->w, &tree, &err) < 0) {
            (void)snprintf(c->bad, sizeof(c->bad), "%s", err.message);
            return NULL;
        }
        /* What was committed before is in some layer. */
        if (fd_read_file(tree.layers[0], path, 100, &text, &len) < 0 &&
            (tree.count < 2 ||
             fd_read_file(tree.layers[1], path, 100, &text, &len) < 0))
            (void)snprintf(c->bad, sizeof(c->bad), "%s is missing", path);
        if (i % 3)
            nap_ms(1);
        workspace_tree_release(c->f->w, &tree);
    }
    return NULL;
}

static void many_at_once(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    struct crowd crowd[4];
    pthread_t threads[4];
    struct kept own[4];

    f->w->trees->watch_least = 1; /* the watcher among them */
    f->w->trees->watch_pause_ms = 0;
    for (unsigned i = 0; i < 4; i++) {
        own[i] = *f; /* an error of its own each */
        crowd[i] = (struct crowd){.f = &own[i], .number = i};
        assert_int_equal(
            pthread_create(&threads[i], NULL, crowd_run, &crowd[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_string_equal(crowd[i].bad, "");
    }
    acquire(f, f->ws, &tree);
    assert_int_equal(tree.count, 1);
    workspace_tree_release(f->w, &tree);
    assert_int_equal(count_in(f, f->ws), 2);
}

/* ---- after a restart ---------------------------------------------------- */

static void tree_survives_the_daemon(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    uint64_t root;
    struct stat st;

    (void)put(f, "a/b", "1");
    acquire(f, f->ws, &tree);
    assert_int_equal(fstat(tree.layers[0], &st), 0);
    root = st.st_ino;
    workspace_tree_release(f->w, &tree);
    (void)put(f, "a/c", "2");
    acquire(f, f->ws, &tree); /* so that the log has grown */
    workspace_tree_release(f->w, &tree);
    kept_reopen(f);
    (void)put(f, "a/d", "3");
    (void)take(f, "a/b");
    acquire(f, f->ws, &tree);
    assert_int_equal(fstat(tree.layers[0], &st), 0);
    assert_int_equal(st.st_ino, root);
    assert_layer(&tree, 0, "a/c=2 a/d=3");
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
}

static void tree_survives_a_kill(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    uint64_t root;
    struct stat st;
    int status;
    pid_t pid;

    (void)put(f, "a", "1");
    acquire(f, f->ws, &tree);
    assert_int_equal(fstat(tree.layers[0], &st), 0);
    root = st.st_ino;
    workspace_tree_release(f->w, &tree);
    kept_close(f);
    pid = fork();
    if (pid == 0) {
        kept_open(f);
        (void)put(f, "b", "2");
        acquire(f, f->ws, &tree);
        (void)put(f, "b", "3");
        acquire(f, f->ws, &tree); /* mounted, with a difference */
        (void)raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    kept_open(f);
    acquire(f, f->ws, &tree);
    assert_int_equal(fstat(tree.layers[0], &st), 0);
    assert_int_equal(st.st_ino, root);
    assert_layer(&tree, 0, "a=1 b=3");
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    assert_int_equal(count_in(f, f->ws), 2); /* the difference is gone */
    workspace_tree_release(f->w, &tree);
}

static char *log_path(struct kept *f)
{
    return xasprintf("%s/trees/%s/log", f->dir, f->ws);
}

/* Each way a log can be unfit; the tree is built anew and right. */
static void unfit_log_is_not_believed(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;

    (void)put(f, "a", "1");
    for (int way = 0; way < 6; way++) {
        char *path cleanup(mem_free) = log_path(f);
        int fd cleanup(fd_close) = -1;
        char before[256], after[256];
        struct stat st;

        acquire(f, f->ws, &tree);
        name_of(tree.layers[0], before);
        workspace_tree_release(f->w, &tree);
        kept_close(f);
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        switch (way) {
        case 0: /* none */
            assert_int_equal(unlink(path), 0);
            break;
        case 1: /* cut in a record */
            assert_int_equal(ftruncate(fd, st.st_size - 1), 0);
            break;
        case 2: /* cut before the last word */
            assert_int_equal(ftruncate(fd, st.st_size - 56), 0);
            break;
        case 3: /* of another boot */
            assert_int_equal(pwrite(fd, "another", 7, 8), 7);
            break;
        case 4: /* not ours */
            assert_int_equal(pwrite(fd, "?", 1, 0), 1);
            break;
        case 5: /* empty */
            assert_int_equal(ftruncate(fd, 0), 0);
            break;
        }
        kept_open(f);
        acquire(f, f->ws, &tree);
        name_of(tree.layers[0], after);
        assert_string_not_equal(before, after);
        assert_layer(&tree, 0, "a=1");
        assert_int_equal(count_in(f, f->ws), 2);
        workspace_tree_release(f->w, &tree);
    }
}

static void tree_that_is_not_as_logged_is_built_anew(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char *link_path cleanup(mem_free) = NULL;

    (void)put(f, "a", "1");
    (void)put(f, "b", "1");
    acquire(f, f->ws, &tree);
    link_path = xasprintf("/proc/self/fd/%d/a", tree.layers[0]);
    assert_int_equal(unlink(link_path), 0);
    workspace_tree_release(f->w, &tree);
    (void)put(f, "a", "2"); /* to be replaced, but not there */
    acquire(f, f->ws, &tree);
    assert_layer(&tree, 0, "a=2 b=1");
    workspace_tree_release(f->w, &tree);
}

static void long_log_is_written_anew(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char *path cleanup(mem_free) = log_path(f);
    struct stat st;

    (void)put(f, "a", "1");
    acquire(f, f->ws, &tree);
    workspace_tree_release(f->w, &tree);
    for (unsigned i = 0; i < TREE_BUCKETS; i++)
        if (f->w->trees->buckets[i])
            f->w->trees->buckets[i]->full->logged = 5000;
    (void)put(f, "a", "2");
    acquire(f, f->ws, &tree);
    workspace_tree_release(f->w, &tree);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 300); /* a head, a file, an end */
    kept_reopen(f);
    acquire(f, f->ws, &tree);
    assert_layer(&tree, 0, "a=2");
    workspace_tree_release(f->w, &tree);
}

/* ---- damage ------------------------------------------------------------- */

static void D3_changed_bytes_are_found_before_they_are_mounted(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "good");
    (void)put(f, "b", "fine");
    acquire(f, f->ws, &tree);
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    sha_of("good", 4, sha256);
    flip(f, sha256);
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, sha256));
    workspace_tree_release(f->w, &tree);
    /* And it is not handed out again. */
    assert_int_equal(
        workspace_tree_acquire(f->w, &f->who, f->ws, &tree, &f->err),
        -ERR_CORRUPT);
    /* Until it is right again: storing the same bytes heals. */
    (void)put(f, "c", "good");
    acquire(f, f->ws, &tree);
    assert_layer(&tree, 0, "a=good b=fine c=good");
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
}

static void D8_trees_with_rot_are_not_handed_out(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree, held;
    char other[ID_MAX], sha256[BLOB_NAME];

    (void)put(f, "a", "good");
    make_workspace(f, other);
    (void)put_as(f, other, "x", "unharmed", false);
    acquire(f, f->ws, &held);
    acquire(f, other, &tree);
    workspace_tree_release(f->w, &tree);
    sha_of("good", 4, sha256);
    flip(f, sha256);
    assert_int_equal(upkeep_scrub_round(f->w->upkeep), 0);
    assert_int_equal(
        workspace_tree_acquire(f->w, &f->who, f->ws, &tree, &f->err),
        -ERR_CORRUPT); /* though nobody checked the tree */
    workspace_tree_release(f->w, &held);
    acquire(f, other, &tree);
    workspace_tree_release(f->w, &tree);
    kept_reopen(f);
    assert_int_equal(
        workspace_tree_acquire(f->w, &f->who, f->ws, &tree, &f->err),
        -ERR_CORRUPT);
    (void)put(f, "b", "good");
    acquire(f, f->ws, &tree);
    assert_layer(&tree, 0, "a=good b=good");
    workspace_tree_release(f->w, &tree);
}

static void roll_forward_that_fails_is_mended(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "1");
    (void)put(f, "z", "1");
    acquire(f, f->ws, &tree);
    workspace_tree_release(f->w, &tree);
    (void)put(f, "b", "bad");
    sha_of("bad", 3, sha256);
    flip(f, sha256);
    assert_int_equal(
        workspace_tree_acquire(f->w, &f->who, f->ws, &tree, &f->err),
        -ERR_CORRUPT);
    assert_true(count_in(f, f->ws) <= 1); /* nothing half-made is left */
    (void)put(f, "b", "fine");
    acquire(f, f->ws, &tree);
    assert_layer(&tree, 0, "a=1 b=fine z=1");
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
}

/* I8: what a session sees of links and times is its own tenant's. */
static void I8_trees_of_two_tenants_share_no_inode(void **state)
{
    struct kept *f = *state;
    struct kept other = *f;
    struct workspace_tree mine, theirs, moved;
    struct workspace_info info;
    struct stat st;

    other.who = (struct actor){.tenant = "o", .key = "key_o", .admin = true};
    blob_owner("o", other.domain);
    make_workspace(&other, other.ws);
    (void)put(f, "a", "the same");
    (void)put_as(&other, other.ws, "b", "the same", false);
    acquire(f, f->ws, &mine);
    acquire(&other, other.ws, &theirs);
    assert_int_not_equal(inode_of(&mine, "a"), inode_of(&theirs, "b"));
    assert_int_equal(fstatat(theirs.layers[0], "b", &st, 0), 0);
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(workspace_tree_check(f->w, &mine, &f->err), 0);
    assert_int_equal(workspace_tree_check(f->w, &theirs, &f->err), 0);
    workspace_tree_release(f->w, &theirs);
    /* One that changes hands gets links of its new tenant's. */
    f->who.admin = true;
    MUST(f, workspace_transfer(f->w, &f->who, f->ws, VIEWER, "o", &info,
                               &f->err));
    other.who.key = VIEWER;
    acquire(&other, f->ws, &moved);
    assert_int_not_equal(inode_of(&mine, "a"), inode_of(&moved, "a"));
    assert_layer(&mine, 0, "a=the same");
    assert_layer(&moved, 0, "a=the same");
    workspace_tree_release(f->w, &mine);
    workspace_tree_release(f->w, &moved);
    kept_reopen(f);
    other.w = f->w;
    acquire(&other, f->ws, &moved); /* and keeps them over a restart */
    assert_int_equal(workspace_tree_check(f->w, &moved, &f->err), 0);
    workspace_tree_release(f->w, &moved);
}

static void D3_changed_copy_of_an_executable_is_found(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    int fd cleanup(fd_close) = -1;

    (void)put_as(f, f->ws, "run", "good", true);
    acquire(f, f->ws, &tree);
    nap_ms(20);
    fd = openat(tree.layers[0], "run", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "B", 1, 0), 1);
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), -ERR_CORRUPT);
    workspace_tree_release(f->w, &tree);
    acquire(f, f->ws, &tree); /* the blob is right: made again from it */
    assert_layer(&tree, 0, "run*=good");
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &tree);
}

static void touched_but_unchanged_files_pass(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char other[ID_MAX];
    struct workspace_tree theirs;

    (void)put(f, "a", "shared");
    acquire(f, f->ws, &tree);
    make_workspace(f, other);
    nap_ms(20);
    (void)put_as(f, other, "b", "shared", false);
    acquire(f, other, &theirs); /* one link more: another ctime */
    assert_int_equal(inode_of(&theirs, "b"), inode_of(&tree, "a"));
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    assert_int_equal(workspace_tree_check(f->w, &theirs, &f->err), 0);
    nap_ms(20);
    assert_int_equal(fchmodat(tree.layers[0], "a", 0644, 0), 0);
    assert_int_equal(workspace_tree_check(f->w, &tree, &f->err), 0);
    workspace_tree_release(f->w, &theirs);
    workspace_tree_release(f->w, &tree);
}

static void hidden_damage_does_not_matter(void **state)
{
    struct kept *f = *state;
    struct workspace_tree first, second;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "old");
    (void)put(f, "b", "b");
    acquire(f, f->ws, &first);
    (void)put(f, "a", "new");
    acquire(f, f->ws, &second);
    sha_of("old", 3, sha256);
    flip(f, sha256);
    assert_int_equal(workspace_tree_check(f->w, &second, &f->err), 0);
    assert_int_equal(workspace_tree_check(f->w, &first, &f->err),
                     -ERR_CORRUPT);
    workspace_tree_release(f->w, &second);
    workspace_tree_release(f->w, &first);
}

/* ---- bounds ------------------------------------------------------------- */

static void forgotten_tree_goes(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;

    (void)put(f, "a", "1");
    acquire(f, f->ws, &tree);
    workspace_tree_release(f->w, &tree);
    assert_int_equal(count_in(f, ""), 1);
    trees_forget(f->w->trees, f->ws);
    assert_int_equal(count_in(f, ""), 0);
    acquire(f, f->ws, &tree);
    trees_forget(f->w->trees, f->ws);
    assert_layer(&tree, 0, "a=1"); /* mounted: it waits */
    workspace_tree_release(f->w, &tree);
    assert_int_equal(count_in(f, ""), 0);
    trees_forget(f->w->trees, "ws_of_nobody");
}

static void tidying_removes_what_nobody_has(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    char *stray cleanup(mem_free) = xasprintf("%s/trees/gone-7", f->dir);
    char gone[ID_MAX];

    make_workspace(f, gone);
    (void)put(f, "a", "1");
    (void)put_as(f, gone, "a", "1", false);
    acquire(f, f->ws, &tree);
    workspace_tree_release(f->w, &tree);
    acquire(f, gone, &tree);
    workspace_tree_release(f->w, &tree);
    assert_int_equal(mkdir(stray, 0700), 0);
    ALTER(f, "DELETE FROM workspaces WHERE id = ?1", "t", gone);
    kept_reopen(f);
    assert_int_equal(count_in(f, ""), 3);
    MUST(f, trees_tidy(f->w->trees, &f->err));
    assert_int_equal(count_in(f, ""), 1);
    assert_int_equal(count_in(f, f->ws), 2);
}

static void least_used_trees_give_way(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree, held;
    char other[3][ID_MAX];

    f->w->trees->count_max = 2;
    f->w->trees->files_max = 1;
    (void)put(f, "a", "1");
    (void)put(f, "b", "1");
    acquire(f, f->ws, &held); /* mounted: never removed */
    for (int i = 0; i < 3; i++) {
        make_workspace(f, other[i]);
        (void)put_as(f, other[i], "a", "1", false);
        (void)put_as(f, other[i], "b", "2", false);
        acquire(f, other[i], &tree);
        workspace_tree_release(f->w, &tree);
        clock_test_advance(3);
    }
    assert_int_equal(count_in(f, ""), 2);
    assert_int_equal(count_in(f, f->ws), 2);
    assert_int_equal(count_in(f, other[0]), 0);
    assert_int_equal(count_in(f, other[1]), 0);
    assert_layer(&held, 0, "a=1 b=1");
    workspace_tree_release(f->w, &held);
    (void)put_as(f, other[2], "c", "3", false);
    acquire(f, other[2], &tree); /* dropped from memory: by its log */
    assert_layer(&tree, 0, "a=1 b=2 c=3");
    workspace_tree_release(f->w, &tree);
}

static void ten_thousand_files(void **state)
{
    struct kept *f = *state;
    enum {
        COUNT = 10000
    };
    struct workspace_change *changes cleanup(mem_free) =
        xcalloc(COUNT, sizeof(*changes));
    char(*paths)[32] = xcalloc(COUNT, sizeof(*paths));
    char sha256[BLOB_NAME];
    struct workspace_tree tree;
    uint64_t start, build_ms, again_ms, check_ms;

    store_bytes_of(f, "x", 1, sha256);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "d%02d/f%05d", i % 50, i);
        changes[i] = (struct workspace_change){
            .kind = CHANGE_PUT, .path = paths[i], .sha256 = sha256, .size = 1};
    }
    (void)commit(f, f->ws, changes, COUNT);
    blob_release(f->blobs, sha256);
    nap_ms(20);
    start = clock_mono_ms();
    acquire(f, f->ws, &tree);
    build_ms = clock_mono_ms() - start;
    MUST(f, workspace_tree_check(f->w, &tree, &f->err)); /* learns stamps */
    start = clock_mono_ms();
    MUST(f, workspace_tree_check(f->w, &tree, &f->err));
    check_ms = clock_mono_ms() - start;
    workspace_tree_release(f->w, &tree);
    start = clock_mono_ms();
    acquire(f, f->ws, &tree);
    again_ms = clock_mono_ms() - start;
    workspace_tree_release(f->w, &tree);
    print_message("10,000 files: built in %d ms, checked in %d ms, "
                  "found unchanged in %d ms\n",
                  (int)build_ms, (int)check_ms, (int)again_ms);
    assert_true(build_ms < 10000); /* generous: sanitizers, a busy machine */
    assert_true(again_ms < 500);
    free(paths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(empty_workspace_has_no_layer),
        KEPT(full_tree_shows_the_head),
        KEPT(foreign_workspace_is_unknown),
        KEPT(unmounted_tree_rolls_forward_in_place),
        KEPT(mode_alone_is_a_change),
        KEPT(mounted_tree_stays_and_gets_a_difference),
        KEPT(everything_gone_is_no_layer),
        KEPT(large_difference_becomes_a_new_tree),
        KEPT(many_at_once),
        KEPT(tree_survives_the_daemon),
        KEPT(tree_survives_a_kill),
        KEPT(unfit_log_is_not_believed),
        KEPT(tree_that_is_not_as_logged_is_built_anew),
        KEPT(long_log_is_written_anew),
        KEPT(D3_changed_bytes_are_found_before_they_are_mounted),
        KEPT(D8_trees_with_rot_are_not_handed_out),
        KEPT(roll_forward_that_fails_is_mended),
        KEPT(I8_trees_of_two_tenants_share_no_inode),
        KEPT(D3_changed_copy_of_an_executable_is_found),
        KEPT(touched_but_unchanged_files_pass),
        KEPT(hidden_damage_does_not_matter),
        KEPT(forgotten_tree_goes),
        KEPT(tidying_removes_what_nobody_has),
        KEPT(least_used_trees_give_way),
        KEPT(ten_thousand_files),
    };

    return cmocka_run_group_tests_name("workspace_tree", tests, NULL, NULL);
}
