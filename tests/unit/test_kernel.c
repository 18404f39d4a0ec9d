/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel: the file broker on hostile trees, what a scan says of them, the
 * answers of pid 1 that fork nothing, and the heap before and after it is
 * frozen. These files are part of the extension, not of an archive, so they
 * are compiled in here.
 *
 * Nothing here may reach kill_all(): outside a session it means everybody.
 */
#include "kernel/broker.c"      /* NOLINT(bugprone-suspicious-include) */
#include "kernel/dir_walk.c"    /* NOLINT(bugprone-suspicious-include) */
#include "kernel/freeze.c"      /* NOLINT(bugprone-suspicious-include) */
#include "kernel/guest_env.c"   /* NOLINT(bugprone-suspicious-include) */
#include "kernel/init.c"        /* NOLINT(bugprone-suspicious-include) */
#include "kernel/net.c"         /* NOLINT(bugprone-suspicious-include) */
#include "kernel/notify.c"      /* NOLINT(bugprone-suspicious-include) */
#include "kernel/points.c"      /* NOLINT(bugprone-suspicious-include) */
#include "kernel/scan.c"        /* NOLINT(bugprone-suspicious-include) */
#include "kernel/shell_state.c" /* NOLINT(bugprone-suspicious-include) */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

/* ---- no guest runs here ------------------------------------------------- */

/* The supervisor of a guest needs runsc; tests/sandbox and tests/wire try it
 * on the tier "gvisor". init.c calls these only where a guest is. */
void guest_setup(struct guest *g, const struct sandbox_fds *fds,
                 const struct sandbox_spec *spec)
{
    (void)fds;
    *g = (struct guest){.runsc = -1, .ctl = -1, .events = -1, .spec = *spec};
}

bool guest_answers(uint32_t type)
{
    fail_msg("request %u for a guest", type);
    return false;
}

int guest_forward(struct guest *g, int events, const struct init_request *req,
                  const int *fds, size_t fd_count, struct init_reply *reply)
{
    (void)g, (void)events, (void)req, (void)fds, (void)fd_count, (void)reply;
    fail_msg("a request for a guest");
    return ENOSYS;
}

void guest_open_proxy(struct guest *g, int events)
{
    (void)g, (void)events;
    fail_msg("a proxy for a guest");
}

void guest_on_event(struct guest *g, int events)
{
    (void)g, (void)events;
    fail_msg("an event of a guest");
}

void guest_lost(struct guest *g, int events)
{
    (void)g, (void)events;
    fail_msg("the loss of a guest");
}

int relay_listen(struct relay *r)
{
    (void)r;
    fail_msg("a relay without a guest");
    return ENOSYS;
}

size_t relay_polls(struct relay *r, struct pollfd *polls)
{
    (void)r, (void)polls;
    fail_msg("a relay without a guest");
    return 0;
}

bool relay_serve(struct relay *r, const struct pollfd *polls)
{
    (void)r, (void)polls;
    fail_msg("a relay without a guest");
    return false;
}

/* ---- a folder as a session might leave it ------------------------------- */

struct yard {
    char dir[64];
    struct broker broker;
    struct scan scan;
};

static int make_yard(void **state)
{
    struct yard *y = xcalloc(1, sizeof(*y));

    (void)snprintf(y->dir, sizeof(y->dir), "/tmp/glovebox-test-kernel-XXXXXX");
    if (!mkdtemp(y->dir))
        return -1;
    y->broker.data = open(y->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < BROKER_UPLOADS_MAX; i++)
        y->broker.uploads[i] = -1;
    scan_start(&y->scan, y->broker.data, false);
    *state = y;
    return y->broker.data < 0 ? -1 : 0;
}

static int drop_yard(void **state)
{
    struct yard *y = *state;
    char *argv[] = {(char *)"rm", (char *)"-rf", y->dir, NULL};
    pid_t pid = fork();

    if (pid == 0) {
        (void)execv("/bin/rm", argv);
        _exit(127);
    }
    (void)waitpid(pid, NULL, 0);
    for (size_t i = 0; i < BROKER_UPLOADS_MAX; i++)
        fd_close(&y->broker.uploads[i]);
    fd_close(&y->broker.data);
    dir_walk_clear(&y->scan.known);
    dir_walk_clear(&y->scan.changes);
    free(y);
    return 0;
}

static void put(struct yard *y, const char *path, const char *text)
{
    int fd =
        openat(y->broker.data, path,
               O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    fd_close(&fd);
}

static void assert_content(struct yard *y, const char *path,
                           const char *expected)
{
    char *text cleanup(mem_free) = NULL;

    assert_int_equal(fd_read_file(y->broker.data, path, 4096, &text, NULL), 0);
    assert_string_equal(text, expected);
}

static int try_open(struct yard *y, const char *path)
{
    int fd = -1;
    int r = broker_open(&y->broker, path, strlen(path), &fd);

    assert_int_equal(r == 0, fd >= 0);
    fd_close(&fd);
    return r;
}

/* Uploads text under path; what broker_publish() answered. */
static int publish(struct yard *y, const char *path, const char *text)
{
    uint32_t handle = 0;
    int fd = -1, r;

    assert_int_equal(broker_create(&y->broker, false, &handle, &fd), 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    r = broker_publish(&y->broker, handle, path, strlen(path));
    assert_int_equal(broker_discard(&y->broker, handle), r ? 0 : EBADF);
    return r;
}

/* ---- the broker --------------------------------------------------------- */

static void F1_broker_open_never_leaves_the_folder(void **state)
{
    static const char *const ways_out[] = {
        "../etc/passwd", "..",           "sub/../../etc/passwd",
        "/etc/passwd",   "link",         "dirlink/passwd",
        "sub/up/passwd", "self/environ", "/",
        "//etc/passwd",
    };
    struct yard *y = *state;
    int fd = -1;

    assert_int_equal(mkdirat(y->broker.data, "sub", 0755), 0);
    assert_int_equal(symlinkat("/etc/passwd", y->broker.data, "link"), 0);
    assert_int_equal(symlinkat("/etc", y->broker.data, "dirlink"), 0);
    assert_int_equal(symlinkat("../../etc", y->broker.data, "sub/up"), 0);
    assert_int_equal(symlinkat("/proc/self", y->broker.data, "self"), 0);
    put(y, "inside", "1");
    assert_int_equal(symlinkat("inside", y->broker.data, "harmless"), 0);
    for (size_t i = 0; i < ARRAY_SIZE(ways_out); i++)
        if (try_open(y, ways_out[i]) == 0)
            fail_msg("%s could be opened", ways_out[i]);
    assert_int_equal(try_open(y, "harmless"), ELOOP); /* links, all of them */
    assert_int_equal(try_open(y, "inside"), 0);
    assert_int_equal(try_open(y, "sub/../inside"), 0); /* stays within */
    assert_int_equal(broker_open(&y->broker, "inside\0x", 8, &fd), EINVAL);
    assert_int_equal(broker_open(&y->broker, "", 0, &fd), EINVAL);
}

static void F1_broker_path_at_and_above_the_limit(void **state)
{
    struct yard *y = *state;
    char path[INIT_PATH_MAX + 1];
    int fd = -1;

    for (size_t i = 0; i < sizeof(path); i += 2)
        memcpy(path + i, "./", MIN((size_t)2, sizeof(path) - i));
    memcpy(path + INIT_PATH_MAX - 6, "inside", 6);
    put(y, "inside", "1");
    assert_int_equal(broker_open(&y->broker, path, INIT_PATH_MAX, &fd), 0);
    fd_close(&fd);
    assert_int_equal(broker_open(&y->broker, path, INIT_PATH_MAX + 1, &fd),
                     EINVAL);
}

static void F1_broker_publish_and_remove_never_leave_the_folder(void **state)
{
    static const char *const ways_out[] = {
        "../escaped",
        "/tmp/escaped",
        "dirlink/escaped",
        "a/../../escaped",
        "..",
        ".",
        "a/..",
        "a/.",
        "a//escaped",
        "a/",
    };
    struct yard *y = *state;
    char outside[80];

    (void)snprintf(outside, sizeof(outside), "%s-outside", y->dir);
    assert_int_equal(mkdir(outside, 0755), 0);
    assert_int_equal(symlinkat(outside, y->broker.data, "dirlink"), 0);
    assert_int_equal(mkdirat(y->broker.data, "a", 0755), 0);
    for (size_t i = 0; i < ARRAY_SIZE(ways_out); i++) {
        if (publish(y, ways_out[i], "x") == 0)
            fail_msg("%s was published", ways_out[i]);
        if (broker_remove(&y->broker, ways_out[i], strlen(ways_out[i])) == 0)
            fail_msg("%s was removed", ways_out[i]);
    }
    assert_int_equal(access("/tmp/escaped", F_OK), -1);
    assert_int_equal(rmdir(outside), 0); /* still empty */
    assert_int_equal(faccessat(y->broker.data, "a", F_OK, 0), 0);
}

static void F2_broker_open_serves_regular_files_only(void **state)
{
    struct yard *y = *state;
    struct timespec before, after;

    assert_int_equal(mkfifoat(y->broker.data, "fifo", 0666), 0);
    assert_int_equal(mkdirat(y->broker.data, "dir", 0755), 0);
    assert_int_equal(mknodat(y->broker.data, "socket", S_IFSOCK | 0666, 0), 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(try_open(y, "fifo"), ENODEV); /* and does not wait */
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(after.tv_sec - before.tv_sec < 2);
    assert_int_equal(try_open(y, "dir"), EISDIR);
    assert_int_not_equal(try_open(y, "socket"), 0);
    assert_int_equal(try_open(y, "absent"), ENOENT);
    if (geteuid() == 0 &&
        mknodat(y->broker.data, "null", S_IFCHR | 0666, 0x103) == 0)
        assert_int_not_equal(try_open(y, "null"), 0);
}

static void F4_broker_publish_replaces_and_makes_folders(void **state)
{
    struct yard *y = *state;
    char *old cleanup(mem_free) = NULL;
    int reader;

    assert_int_equal(publish(y, "a/b/c.txt", "one"), 0);
    assert_content(y, "a/b/c.txt", "one");
    reader = openat(y->broker.data, "a/b/c.txt", O_RDONLY | O_CLOEXEC);
    assert_int_equal(publish(y, "a/b/c.txt", "two"), 0);
    assert_content(y, "a/b/c.txt", "two");
    old = xcalloc(1, 8); /* whoever had the old one open still reads it */
    assert_int_equal(fd_read_all(reader, old, 7), 3);
    assert_string_equal(old, "one");
    fd_close(&reader);
    /* No name but the real one is left. */
    assert_int_equal(
        faccessat(y->broker.data, "a/b/.glovebox-upload-0", F_OK, 0), -1);
}

static void F4_broker_publish_replaces_a_link_not_its_target(void **state)
{
    struct yard *y = *state;
    struct stat st;

    put(y, "victim", "kept");
    assert_int_equal(symlinkat("victim", y->broker.data, "link"), 0);
    assert_int_equal(
        linkat(y->broker.data, "victim", y->broker.data, "hard", 0), 0);
    assert_int_equal(publish(y, "link", "new"), 0);
    assert_int_equal(publish(y, "hard", "new"), 0);
    assert_content(y, "victim", "kept");
    assert_content(y, "link", "new");
    assert_int_equal(fstatat(y->broker.data, "link", &st, AT_SYMLINK_NOFOLLOW),
                     0);
    assert_true(S_ISREG(st.st_mode));
    /* A leftover or a trap under the name used on the way. */
    assert_int_equal(symlinkat("victim", y->broker.data, ".glovebox-upload-0"),
                     0);
    assert_int_equal(publish(y, "fine", "new"), 0);
    assert_content(y, "victim", "kept");
    assert_content(y, "fine", "new");
}

static void F4_broker_publish_over_a_folder_fails_and_keeps_it(void **state)
{
    struct yard *y = *state;

    assert_int_equal(mkdirat(y->broker.data, "dir", 0755), 0);
    put(y, "dir/file", "kept");
    put(y, "file", "kept");
    assert_int_equal(publish(y, "dir", "new"), EISDIR);
    assert_content(y, "dir/file", "kept");
    assert_int_equal(publish(y, "file/below", "new"), ENOTDIR);
    assert_content(y, "file", "kept");
    assert_int_equal(faccessat(y->broker.data, ".glovebox-upload-0", F_OK, 0),
                     -1);
}

/* Where files without a name cannot be made. */
static void F4_broker_upload_with_a_name_is_as_good(void **state)
{
    struct yard *y = *state;
    struct broker *b = &y->broker;
    struct stat st;

    put(y, "victim", "kept");
    assert_int_equal(symlinkat("victim", b->data, ".glovebox-upload-2"), 0);
    put(y, "there", "old");
    assert_int_equal(create_named(b, 2, 0644), 0);
    assert_int_equal(fd_write_all(b->uploads[2], "new", 3), 0);
    assert_int_equal(broker_publish(b, 2, "dir/", 4), EINVAL);
    assert_int_equal(broker_publish(b, 2, "victim/x", 8), ENOTDIR);
    assert_int_equal(broker_publish(b, 2, "a/b/there", 9), 0);
    assert_content(y, "a/b/there", "new");
    assert_int_equal(create_named(b, 2, 0644), 0);
    assert_int_equal(broker_publish(b, 2, "there", 5), 0);
    assert_content(y, "there", "");
    assert_int_equal(create_named(b, 2, 0644), 0);
    assert_int_equal(broker_discard(b, 2), 0);
    assert_int_equal(
        fstatat(b->data, ".glovebox-upload-2", &st, AT_SYMLINK_NOFOLLOW), -1);
    assert_content(y, "victim", "kept");
    assert_int_equal(publish(y, "unnamed", "again"), 0);
}

static void broker_uploads_are_counted_and_discarded(void **state)
{
    struct yard *y = *state;
    uint32_t handle = 0;
    int fd = -1;

    for (uint32_t i = 0; i < BROKER_UPLOADS_MAX; i++) {
        assert_int_equal(broker_create(&y->broker, false, &handle, &fd), 0);
        assert_int_equal(handle, i);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
    assert_int_equal(broker_create(&y->broker, false, &handle, &fd), EMFILE);
    assert_int_equal(broker_discard(&y->broker, 3), 0);
    assert_int_equal(broker_discard(&y->broker, 3), EBADF);
    assert_int_equal(broker_discard(&y->broker, BROKER_UPLOADS_MAX), EBADF);
    assert_int_equal(broker_publish(&y->broker, 3, "x", 1), EBADF);
    assert_int_equal(broker_publish(&y->broker, UINT32_MAX, "x", 1), EBADF);
    assert_int_equal(broker_create(&y->broker, false, &handle, &fd), 0);
    assert_int_equal(handle, 3);
}

static void broker_create_makes_programs_when_told_to(void **state)
{
    struct yard *y = *state;
    mode_t mask = umask(022);

    for (int program = 0; program < 2; program++) {
        uint32_t handle = 0;
        struct stat st;
        int fd = -1;

        assert_int_equal(broker_create(&y->broker, program != 0, &handle, &fd),
                         0);
        assert_int_equal(broker_publish(&y->broker, handle, "p", 1), 0);
        assert_int_equal(broker_stat(y->broker.data, "p", &st), 0);
        assert_int_equal(st.st_mode & 0777, program ? 0755 : 0644);
    }
    (void)umask(mask);
}

static void broker_remove_takes_files_links_and_empty_folders(void **state)
{
    struct yard *y = *state;

    put(y, "victim", "kept");
    assert_int_equal(symlinkat("victim", y->broker.data, "link"), 0);
    assert_int_equal(mkdirat(y->broker.data, "dir", 0755), 0);
    put(y, "dir/file", "1");
    assert_int_equal(broker_remove(&y->broker, "link", 4), 0);
    assert_content(y, "victim", "kept");
    assert_int_equal(broker_remove(&y->broker, "dir", 3), ENOTEMPTY);
    assert_int_equal(broker_remove(&y->broker, "dir/file", 8), 0);
    assert_int_equal(broker_remove(&y->broker, "dir", 3), 0);
    assert_int_equal(broker_remove(&y->broker, "dir", 3), ENOENT);
    assert_int_equal(broker_remove(&y->broker, "no/such", 7), ENOENT);
}

/* ---- scans -------------------------------------------------------------- */

/* All changes since the last look, as "kind:path " each, by small pages. */
static const char *changes_of(struct yard *y, bool all)
{
    static char text[8192];
    char page[sizeof(struct init_entry) + 300];
    uint32_t more = 1;

    text[0] = '\0';
    assert_int_equal(scan_compare(&y->scan, all), 0);
    while (more) {
        size_t len = scan_page(&y->scan, page, sizeof(page), &more);

        assert_true(len > 0 || !more);
        for (size_t at = 0; at < len;) {
            struct init_entry e;
            size_t used = strlen(text);

            memcpy(&e, page + at, sizeof(e));
            at += sizeof(e);
            (void)snprintf(text + used, sizeof(text) - used, "%s%c:%.*s",
                           used ? " " : "", ".FWGCS"[e.kind], (int)e.path_len,
                           page + at);
            at += e.path_len;
            assert_true(at <= len);
        }
    }
    return text;
}

static const char *changes(struct yard *y)
{
    return changes_of(y, false);
}

static void scan_compare_finds_created_modified_deleted(void **state)
{
    struct yard *y = *state;
    const struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

    assert_int_equal(mkdirat(y->broker.data, "d", 0755), 0);
    put(y, "d/b", "1");
    put(y, "a", "1");
    put(y, "z", "1");
    assert_string_equal(changes(y), "W:a W:d/b W:z");
    assert_string_equal(changes(y), "");
    put(y, "a", "22");
    assert_int_equal(unlinkat(y->broker.data, "d/b", 0), 0);
    put(y, "d-after", "1");
    assert_int_equal(utimensat(y->broker.data, "z", past, 0), 0);
    assert_string_equal(changes(y), "W:a W:d-after G:d/b W:z");
    /* The same name, size and time, but another file. */
    put(y, "other", "1");
    assert_int_equal(utimensat(y->broker.data, "other", past, 0), 0);
    assert_string_equal(changes(y), "W:other");
    assert_int_equal(renameat(y->broker.data, "other", y->broker.data, "z"),
                     0);
    assert_string_equal(changes(y), "G:other W:z");
}

static void scan_compare_of_an_empty_tree_finds_nothing(void **state)
{
    assert_string_equal(changes(*state), "");
}

/* Anyone may put a time back; when the inode changed the kernel decides. */
static void scan_compare_notices_what_put_its_time_back(void **state)
{
    struct yard *y = *state;
    const struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

    put(y, "f", "1");
    assert_int_equal(utimensat(y->broker.data, "f", past, 0), 0);
    assert_string_equal(changes(y), "W:f");
    put(y, "f", "2");
    assert_int_equal(utimensat(y->broker.data, "f", past, 0), 0);
    assert_string_equal(changes(y), "W:f");
}

/* A name shown escaped is not the file that really has that name. */
static void scan_compare_skipped_then_file_is_created(void **state)
{
    struct yard *y = *state;

    put(y, "a\x01", "1");
    assert_string_equal(changes(y), "S:a\\x01");
    assert_int_equal(unlinkat(y->broker.data, "a\x01", 0), 0);
    put(y, "a\\x01", "1");
    assert_string_equal(changes(y), "W:a\\x01");
}

/* Too long to carry, and cut where a character may end only by luck. */
static void F5_scan_cuts_a_long_path_between_characters(void **state)
{
    struct yard *y = *state;
    int dir = fd_dup(y->broker.data, 3), fd;
    char part[64 * 4 - 3] = "", page[4096];
    size_t len, head = sizeof(struct init_entry);
    uint32_t more = 0;

    for (size_t i = 0; i + 4 < sizeof(part); i += 4)
        memcpy(part + i, "\xf0\x9f\x98\x80", 5);
    for (unsigned depth = 0; depth < 4; depth++) {
        int next;

        assert_int_equal(mkdirat(dir, part, 0755), 0);
        next = openat(dir, part, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        fd_close(&dir);
        dir = next;
    }
    fd = openat(dir, part, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    fd_close(&fd);
    fd_close(&dir);
    assert_int_equal(scan_compare(&y->scan, false), 0);
    len = scan_page(&y->scan, page, sizeof(page) - 1, &more);
    assert_true(len > head);
    page[len] = '\0';
    assert_int_equal(clean_prefix(page + head), len - head);
}

static void F5_scan_shows_odd_names_escaped_and_skipped(void **state)
{
    struct yard *y = *state;

    put(y, "line\nbreak", "1");
    put(y, "tab\there", "1");
    put(y, "bad\xff\xc3(utf", "1");
    put(y, "over\xc0\xaf", "1");
    put(y, "half\xed\xa0\x80", "1");
    put(y, "cut\xe2\x82", "1");
    put(y, "\xc3\xa9t\xc3\xa9.txt", "1");
    put(y, "del\x7f", "1");
    assert_string_equal(changes(y),
                        "S:bad\\xff\\xc3(utf S:cut\\xe2\\x82 S:del\\x7f "
                        "S:half\\xed\\xa0\\x80 S:line\\x0abreak "
                        "S:over\\xc0\\xaf S:tab\\x09here "
                        "W:\xc3\xa9t\xc3\xa9.txt");
    assert_string_equal(changes(y), ""); /* said once */
}

static void F7_scan_skips_what_is_no_file_and_follows_nothing(void **state)
{
    struct yard *y = *state;

    put(y, "file", "1");
    assert_int_equal(symlinkat("/etc", y->broker.data, "etc"), 0);
    assert_int_equal(symlinkat(".", y->broker.data, "loop"), 0);
    assert_int_equal(symlinkat("file", y->broker.data, "link"), 0);
    assert_int_equal(mkfifoat(y->broker.data, "fifo", 0666), 0);
    assert_int_equal(mkdirat(y->broker.data, "empty", 0755), 0);
    put(y, ".glovebox-upload-3", "1");
    assert_string_equal(changes(y), "S:etc S:fifo W:file S:link S:loop");
    assert_string_equal(changes(y), ""); /* said once */
    assert_int_equal(unlinkat(y->broker.data, "file", 0), 0);
    assert_int_equal(symlinkat("x", y->broker.data, "file"), 0);
    assert_int_equal(unlinkat(y->broker.data, "link", 0), 0);
    assert_string_equal(changes(y), "S:file"); /* it took the file's place */
    assert_int_equal(unlinkat(y->broker.data, "file", 0), 0);
    put(y, "file", "1");
    assert_string_equal(changes(y), "W:file");
}

/* ---- marks of an overlay, made by hand ---------------------------------- */

static void mark(struct yard *y, const char *path)
{
    if (mknodat(y->broker.data, path, S_IFCHR | 0600, 0) < 0) {
        print_message("# SKIP: this kernel gives no whiteouts to users\n");
        skip();
    }
}

static void make_folder(struct yard *y, const char *path, bool opaque)
{
    int fd cleanup(fd_close) = -1;

    assert_int_equal(mkdirat(y->broker.data, path, 0755), 0);
    fd = openat(y->broker.data, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (opaque && fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0) {
        print_message("# SKIP: no attributes on the file system of /tmp\n");
        skip();
    }
}

static void drop(struct yard *y, const char *path)
{
    assert_int_equal(unlinkat(y->broker.data, path, 0), 0);
}

static void scan_tells_deletions_of_what_lies_below(void **state)
{
    struct yard *y = *state;

    y->scan.layered = true;
    mark(y, "gone");
    make_folder(y, "d", false);
    mark(y, "d/gone");
    put(y, "d/own", "1");
    assert_string_equal(changes(y), "G:d/gone W:d/own G:gone");
    assert_string_equal(changes(y), "");
    drop(y, "gone");
    put(y, "gone", "1"); /* made again */
    drop(y, "d/own");
    mark(y, "d/own");
    assert_string_equal(changes(y), "G:d/own W:gone");
    drop(y, "d/own");
    drop(y, "d/gone");
    assert_int_equal(unlinkat(y->broker.data, "d", AT_REMOVEDIR), 0);
    mark(y, "d");
    assert_string_equal(changes(y), "G:d");
}

static void scan_tells_folders_that_begin_anew(void **state)
{
    struct yard *y = *state;

    y->scan.layered = true;
    make_folder(y, "d", true);
    make_folder(y, "d/e", true); /* nothing is left below for it to hide */
    put(y, "d/e/f", "1");
    put(y, "d-before", "1");
    assert_string_equal(changes(y), "C:d W:d-before W:d/e/f");
    assert_string_equal(changes(y), "");
    put(y, "d/e/g", "1");
    assert_string_equal(changes(y), "W:d/e/g");
    /* Files that a folder takes along are told, changed or not. */
    make_folder(y, "x", false);
    put(y, "x/f", "1");
    assert_string_equal(changes(y), "W:x/f");
    assert_int_equal(renameat(y->broker.data, "x", y->broker.data, "y"), 0);
    make_folder(y, "x", true);
    assert_int_equal(renameat(y->broker.data, "y/f", y->broker.data, "x/f"),
                     0);
    assert_int_equal(unlinkat(y->broker.data, "y", AT_REMOVEDIR), 0);
    assert_string_equal(changes(y), "C:x W:x/f");
    /* A file that became a folder, a folder that became a file. */
    drop(y, "d-before");
    make_folder(y, "d-before", true);
    drop(y, "x/f");
    assert_int_equal(unlinkat(y->broker.data, "x", AT_REMOVEDIR), 0);
    put(y, "x", "1");
    assert_string_equal(changes(y), "C:d-before W:x");
}

static void scan_without_layers_knows_no_marks(void **state)
{
    struct yard *y = *state;

    make_folder(y, "d", true);
    put(y, "d/f", "1");
    mark(y, "c");
    assert_string_equal(changes(y), "S:c W:d/f");
}

static void scan_file_and_folder_change_places(void **state)
{
    struct yard *y = *state;

    put(y, "a", "1");
    make_folder(y, "d", false);
    put(y, "d/f", "1");
    put(y, "d-x", "1");
    assert_string_equal(changes(y), "W:a W:d-x W:d/f");
    drop(y, "a");
    make_folder(y, "a", false);
    put(y, "a/f", "1");
    drop(y, "d/f");
    assert_int_equal(unlinkat(y->broker.data, "d", AT_REMOVEDIR), 0);
    put(y, "d", "1");
    assert_string_equal(changes(y), "G:a W:a/f W:d");
}

static void scan_of_all_remembers_what_is_gone(void **state)
{
    struct yard *y = *state;

    put(y, "a", "1");
    put(y, "b", "1");
    assert_string_equal(changes(y), "W:a W:b");
    drop(y, "a");
    assert_string_equal(changes(y), "G:a");
    assert_string_equal(changes_of(y, true), "G:a W:b");
    assert_string_equal(changes_of(y, true), "G:a W:b");
    put(y, "a", "1");
    assert_string_equal(changes(y), "W:a");
    assert_string_equal(changes_of(y, true), "W:a W:b");
    assert_string_equal(changes(y), "");
}

static void scan_counts_a_closed_folder_as_unchanged(void **state)
{
    struct yard *y = *state;

    uid_t us = geteuid();

    make_folder(y, "d", false);
    put(y, "d/f", "1");
    put(y, "d/g", "1");
    assert_string_equal(changes(y), "W:d/f W:d/g");
    assert_int_equal(fchmodat(y->broker.data, "d", 0, 0), 0);
    if (us == 0) { /* to root no folder is closed */
        assert_int_equal(fchmodat(y->broker.data, ".", 0755, 0), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    assert_string_equal(changes(y), "");
    assert_int_equal(seteuid(us), 0);
    assert_int_equal(fchmodat(y->broker.data, "d", 0755, 0), 0);
    drop(y, "d/g");
    assert_string_equal(changes(y), "G:d/g");
}

static void F7_scan_says_when_it_ended_at_its_bound(void **state)
{
    struct yard *y = *state;
    uint32_t rest = 0;
    char page[64];

    put(y, "a", "1");
    assert_int_equal(scan_compare(&y->scan, false), 0);
    y->scan.changes.cut = true; /* as after too many entries */
    assert_int_equal(scan_page(&y->scan, page, sizeof(page), &rest),
                     sizeof(struct init_entry) + 1);
    assert_int_equal(rest, INIT_SCAN_CUT);
    assert_int_equal(scan_page(&y->scan, page, sizeof(page), &rest), 0);
    assert_int_equal(rest, 0);
}

static void F7_scan_of_a_deep_tree_ends_at_its_bound(void **state)
{
    struct yard *y = *state;
    int dir = fd_dup(y->broker.data, 3);
    char expected[600] = "", deep[256] = "";

    for (unsigned depth = 1; depth <= 40; depth++) {
        int next, fd;

        assert_int_equal(mkdirat(dir, "d", 0755), 0);
        next = openat(dir, "d", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        fd_close(&dir);
        dir = next;
        (void)snprintf(deep + strlen(deep), sizeof(deep) - strlen(deep), "%sd",
                       depth > 1 ? "/" : "");
        if (depth == 31 || depth == 32) {
            fd = openat(dir, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
            assert_true(fd >= 0);
            fd_close(&fd);
        }
        /* The 32nd component is the last the API can name. */
        if (depth == 32)
            (void)snprintf(expected, sizeof(expected), "S:%s W:%.*s/f", deep,
                           (int)strlen(deep) - 2, deep);
    }
    fd_close(&dir);
    assert_string_equal(changes(y), expected);
}

static void F7_scan_page_hands_out_many_in_small_pages(void **state)
{
    struct yard *y = *state;
    char page[sizeof(struct init_entry) + 4];
    uint32_t more = 1;
    unsigned pages = 0;

    for (unsigned i = 0; i < 500; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "%04u", i);
        put(y, name, "");
    }
    assert_int_equal(scan_compare(&y->scan, false), 0);
    while (more) {
        char name[16];

        assert_int_equal(scan_page(&y->scan, page, sizeof(page), &more),
                         sizeof(page)); /* exactly one fits */
        (void)snprintf(name, sizeof(name), "%04u", pages++);
        assert_memory_equal(page + sizeof(struct init_entry), name, 4);
    }
    assert_int_equal(pages, 500);
    assert_int_equal(scan_page(&y->scan, page, sizeof(page), &more), 0);
    assert_int_equal(more, 0);
}

static void F7_scan_tree_pages_in_byte_order(void **state)
{
    struct yard *y = *state;
    char page[4096];
    size_t len = 0;
    uint32_t more = 0;
    struct init_entry e;

    put(y, "b", "22");
    put(y, "a", "1");
    put(y, "a.txt", "1");
    assert_int_equal(mkdirat(y->broker.data, "a-dir", 0755), 0);
    put(y, "a-dir/x", "1");
    assert_int_equal(
        scan_tree(y->broker.data, "", 0, 2, page, sizeof(page), &len, &more),
        0);
    assert_int_equal(more, 1);
    assert_int_equal(len, 2 * sizeof(e) + strlen("a") + strlen("a-dir/x"));
    assert_int_equal(scan_tree(y->broker.data, "a-dir/x", 7, 100, page,
                               sizeof(page), &len, &more),
                     0);
    assert_int_equal(more, 0);
    memcpy(&e, page, sizeof(e));
    assert_int_equal(e.kind, INIT_ENTRY_FILE);
    assert_int_equal(e.path_len, 5);
    assert_memory_equal(page + sizeof(e), "a.txt", 5);
    memcpy(&e, page + sizeof(e) + 5, sizeof(e));
    assert_int_equal(e.size, 2);
    assert_int_equal(scan_tree(y->broker.data, "zzz", 3, 100, page,
                               sizeof(page), &len, &more),
                     0);
    assert_int_equal(len, 0);
}

/* ---- pid 1 -------------------------------------------------------------- */

static struct init *init_without_guest(void)
{
    struct init *in = xcalloc(1, sizeof(*in));

    in->guest.runsc = -1;
    return in;
}

static int ask(struct init *in, struct call *c, uint32_t type,
               const char *path)
{
    c->req.type = type;
    c->req.path_len = (uint32_t)strlen(path);
    memcpy(c->req.path, path, strlen(path));
    return dispatch(in, c);
}

static void init_answers_without_doing_harm(void **state)
{
    struct yard *y = *state;
    struct init *in = init_without_guest();
    struct call c = {.reply_fd = -1};

    in->broker = y->broker;
    assert_int_equal(ask(in, &c, 0, ""), EINVAL);
    assert_int_equal(ask(in, &c, 999, ""), EINVAL);
    assert_int_equal(ask(in, &c, INIT_START, ""), EINVAL); /* no descriptors */
    assert_int_equal(ask(in, &c, INIT_SHELL, ""), EINVAL);
    c.fd_count = 3;
    in->shell = 4194304; /* above any pid there is */
    assert_int_equal(ask(in, &c, INIT_SHELL, ""), EBUSY);
    in->shell = 0;
    c.fd_count = 0;
    c.req.arg = INIT_SIGNAL_INTERRUPT;
    assert_int_equal(ask(in, &c, INIT_SIGNAL, ""), ESRCH);
    c.req.arg = INIT_SIGNAL_KILL_SHELL;
    assert_int_equal(ask(in, &c, INIT_SIGNAL, ""), ESRCH);
    c.req.arg = 99;
    assert_int_equal(ask(in, &c, INIT_SIGNAL, ""), EINVAL);
    assert_int_equal(ask(in, &c, INIT_OPEN, "../x"), EXDEV);
    free(in);
}

static void init_upload_is_not_a_change_of_the_session(void **state)
{
    struct yard *y = *state;
    struct init *in = init_without_guest();
    struct call c = {.reply_fd = -1};

    in->broker = y->broker;
    scan_start(&in->scan, y->broker.data, false);
    put(y, "own", "1");
    assert_int_equal(ask(in, &c, INIT_CREATE, ""), 0);
    assert_int_equal(fd_write_all(c.reply_fd, "up", 2), 0);
    c.req.arg = c.reply.arg;
    assert_int_equal(ask(in, &c, INIT_PUBLISH, "dir/up"), 0);
    c.req.arg = 0;
    assert_int_equal(ask(in, &c, INIT_SCAN, ""), 0);
    assert_int_equal(c.reply.arg, 0);
    assert_int_equal(c.reply.payload_len, sizeof(struct init_entry) + 3);
    assert_memory_equal(in->payload + sizeof(struct init_entry), "own", 3);
    assert_true(c.reply.scratch_free_bytes > 0);
    assert_int_equal(ask(in, &c, INIT_REMOVE, "dir/up"), 0);
    assert_int_equal(ask(in, &c, INIT_SCAN, ""), 0);
    assert_int_equal(c.reply.payload_len, 0);
    put(y, "late", "1");
    assert_int_equal(ask(in, &c, INIT_SCAN, ""), 0);
    assert_int_equal(c.reply.payload_len, sizeof(struct init_entry) + 4);
    dir_walk_clear(&in->scan.known);
    dir_walk_clear(&in->scan.changes);
    y->broker = in->broker;
    free(in);
}

/* ---- the heap ----------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOWED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHADOWED 1
#endif
#endif
#ifndef SHADOWED
#define SHADOWED 0
#endif

static unsigned sum(const unsigned char *p, size_t len)
{
    unsigned total = 0;

    for (size_t i = 0; i < len; i++)
        total = total * 31 + p[i];
    return total;
}

/* In a child: 0, or which expectation did not hold. */
static int freeze_and_look(void)
{
    const size_t big = 4u << 20;
    unsigned char *small = malloc(1000), *mapped;
    unsigned before[2];
    int heap = -1;
    char *maps cleanup(mem_free) = NULL;
    int status = 0;
    pid_t pid;

    mapped = mmap(NULL, big, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!small || mapped == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < 1000; i++)
        small[i] = (unsigned char)(i * 7);
    for (size_t i = big / 2; i < big; i++) /* one half is never touched */
        mapped[i] = (unsigned char)(i * 13);
    before[0] = sum(small, 1000);
    before[1] = sum(mapped, big);
    if (freeze_heap(&heap) < 0 || lseek(heap, 0, SEEK_END) < (off_t)big)
        return 2;
    if (sum(small, 1000) != before[0] || sum(mapped, big) != before[1])
        return 3;
    if (fd_read_file(AT_FDCWD, "/proc/self/maps", 1u << 20, &maps, NULL) < 0 ||
        !strstr(maps, "memfd:heap"))
        return 4;
    pid = fork();
    if (pid == 0) {
        memset(mapped, 0xff, big);
        memset(small, 0xff, 1000);
        _exit(sum(mapped, big) == before[1]);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return 5;
    if (sum(small, 1000) != before[0] || sum(mapped, big) != before[1])
        return 6; /* what one clone writes, another must not see */
    free(small);
    small = malloc(100000);
    if (!small)
        return 7; /* the allocator still works on its frozen heap */
    memset(small, 1, 100000);
    free(small);
    return 0;
}

/* In a child: 0 when memory to be wiped at a fork still is. */
static int freeze_and_fork(void)
{
    unsigned char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int heap = -1;
    int status = 0;
    pid_t pid;

    if (p == MAP_FAILED || madvise(p, PAGE, MADV_WIPEONFORK) < 0)
        return 1;
    memset(p, 7, PAGE);
    if (freeze_heap(&heap) < 0 || p[0] != 7)
        return 2;
    pid = fork();
    if (pid == 0)
        _exit(p[0]);
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 3;
}

/* The C library's random state lives in such pages: were it moved like the
 * rest, every session would draw the same numbers. */
static void Z2_freeze_heap_keeps_what_a_fork_must_wipe(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    if (SHADOWED) {
        print_message("# SKIP: the sanitizer's shadow memory is too large "
                      "to move\n");
        skip();
    }
    pid = fork();
    if (pid == 0)
        _exit(freeze_and_fork());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void Z4_freeze_heap_keeps_content_and_stays_private(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    if (SHADOWED) {
        print_message("# SKIP: the sanitizer's shadow memory is too large "
                      "to move\n");
        skip();
    }
    pid = fork();
    if (pid == 0)
        _exit(freeze_and_look());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define IN_YARD(test)                                                         \
    cmocka_unit_test_setup_teardown(test, make_yard, drop_yard)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_YARD(F1_broker_open_never_leaves_the_folder),
        IN_YARD(F1_broker_path_at_and_above_the_limit),
        IN_YARD(F1_broker_publish_and_remove_never_leave_the_folder),
        IN_YARD(F2_broker_open_serves_regular_files_only),
        IN_YARD(F4_broker_publish_replaces_and_makes_folders),
        IN_YARD(F4_broker_publish_replaces_a_link_not_its_target),
        IN_YARD(F4_broker_publish_over_a_folder_fails_and_keeps_it),
        IN_YARD(F4_broker_upload_with_a_name_is_as_good),
        IN_YARD(broker_uploads_are_counted_and_discarded),
        IN_YARD(broker_create_makes_programs_when_told_to),
        IN_YARD(broker_remove_takes_files_links_and_empty_folders),
        IN_YARD(scan_compare_finds_created_modified_deleted),
        IN_YARD(scan_compare_of_an_empty_tree_finds_nothing),
        IN_YARD(scan_compare_notices_what_put_its_time_back),
        IN_YARD(scan_compare_skipped_then_file_is_created),
        IN_YARD(F5_scan_cuts_a_long_path_between_characters),
        IN_YARD(F5_scan_shows_odd_names_escaped_and_skipped),
        IN_YARD(F7_scan_skips_what_is_no_file_and_follows_nothing),
        IN_YARD(scan_tells_deletions_of_what_lies_below),
        IN_YARD(scan_tells_folders_that_begin_anew),
        IN_YARD(scan_without_layers_knows_no_marks),
        IN_YARD(scan_file_and_folder_change_places),
        IN_YARD(scan_of_all_remembers_what_is_gone),
        IN_YARD(scan_counts_a_closed_folder_as_unchanged),
        IN_YARD(F7_scan_says_when_it_ended_at_its_bound),
        IN_YARD(F7_scan_of_a_deep_tree_ends_at_its_bound),
        IN_YARD(F7_scan_page_hands_out_many_in_small_pages),
        IN_YARD(F7_scan_tree_pages_in_byte_order),
        IN_YARD(init_answers_without_doing_harm),
        IN_YARD(init_upload_is_not_a_change_of_the_session),
        cmocka_unit_test(Z4_freeze_heap_keeps_content_and_stays_private),
        cmocka_unit_test(Z2_freeze_heap_keeps_what_a_fork_must_wipe),
    };

    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
