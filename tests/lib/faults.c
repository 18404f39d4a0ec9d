/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails when told to: stands between a program and the C library,
 * preloaded into a real daemon (LD_PRELOAD, see faults.mjs) or included by a
 * unit test. The n-th call of some kind on some path fails with an errno, or
 * the process dies right before or after it.
 *
 * The rules are in a file, named by GLOVEBOX_FAULTS, that the test writes and
 * the program maps when it starts, as the user that it starts as; so they can
 * be armed at any time and survive a change of user. What matched and what
 * fired is counted in the same file, over all processes and restarts.
 */
#undef _FORTIFY_SOURCE /* its inline functions are in our way */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FAULTS_MAGIC 0x746c7566u
#define FAULTS_RULES 8u

enum faults_op {
    FAULTS_WRITE = 1 << 0, /* write, writev, copy_file_range */
    FAULTS_PWRITE = 1 << 1,
    FAULTS_FSYNC = 1 << 2, /* and syncfs */
    FAULTS_FDATASYNC = 1 << 3,
    FAULTS_RENAME = 1 << 4, /* either name may match */
    FAULTS_LINK = 1 << 5,
    FAULTS_UNLINK = 1 << 6, /* and rmdir */
    FAULTS_FTRUNCATE = 1 << 7,
    FAULTS_CREATE = 1 << 8, /* open with O_CREAT */
    FAULTS_MKDIR = 1 << 9,
};

enum faults_action {
    FAULTS_FAIL,
    FAULTS_KILL, /* before the call */
    FAULTS_KILL_AFTER,
};

/* The file: native byte order, as everything is on one machine. */
struct faults_rule {
    uint32_t armed; /* written last by the test */
    uint32_t ops;
    uint32_t action;
    uint32_t errnum;
    uint32_t nth; /* match that fires; the first is 1 */
    uint32_t forever;
    uint32_t seen; /* counted by the program */
    uint32_t fired;
    char path[224]; /* contained in the path; empty: any */
};

struct faults_control {
    uint32_t magic;
    uint32_t reserved[63];
    struct faults_rule rules[FAULTS_RULES];
};

_Static_assert(sizeof(struct faults_rule) == 256, "faults.mjs counts on it");

static struct faults_control *_Atomic faults_control;

__attribute__((constructor)) static void faults_map(void)
{
    const char *file = getenv("GLOVEBOX_FAULTS");
    struct faults_control *c = MAP_FAILED;
    int fd =
        file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0)
             : -1;
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(*c))
        c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)syscall(SYS_close, fd);
    if (c != MAP_FAILED && c->magic == FAULTS_MAGIC)
        faults_control = c;
}

/* ---- which rule, if any ------------------------------------------------- */

static bool faults_watched(uint32_t op)
{
    if (!faults_control)
        return false;
    for (unsigned i = 0; i < FAULTS_RULES; i++) {
        struct faults_rule *r = &faults_control->rules[i];

        if (__atomic_load_n(&r->armed, __ATOMIC_ACQUIRE) && (r->ops & op))
            return true;
    }
    return false;
}

static void faults_fd_path(int fd, char ret[PATH_MAX])
{
    char link[64];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, ret, PATH_MAX - 1);
    ret[n < 0 ? 0 : n] = '\0';
}

static void faults_at_path(int dir, const char *path, char ret[PATH_MAX])
{
    size_t len;

    ret[0] = '\0';
    if (path[0] != '/' && dir != AT_FDCWD)
        faults_fd_path(dir, ret);
    len = strlen(ret);
    (void)snprintf(ret + len, PATH_MAX - len, "%s%s", len ? "/" : "", path);
}

static _Noreturn void faults_die(void)
{
    (void)syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

/* 0, the errno to fail with, or -1: call, then die. */
static int faults_decide(uint32_t op, const char *one, const char *two)
{
    for (unsigned i = 0; i < FAULTS_RULES; i++) {
        struct faults_rule *r = &faults_control->rules[i];
        uint32_t seen;

        if (!__atomic_load_n(&r->armed, __ATOMIC_ACQUIRE) || !(r->ops & op) ||
            (!strstr(one, r->path) && !(two && strstr(two, r->path))))
            continue;
        seen = __atomic_add_fetch(&r->seen, 1, __ATOMIC_SEQ_CST);
        if (seen < r->nth || (seen > r->nth && !r->forever))
            continue;
        (void)__atomic_add_fetch(&r->fired, 1, __ATOMIC_SEQ_CST);
        if (r->action == FAULTS_KILL)
            faults_die();
        return r->action == FAULTS_KILL_AFTER ? -1 : (int)r->errnum;
    }
    return 0;
}

static int faults_on_fd(uint32_t op, int fd)
{
    int kept = errno, verdict;
    char path[PATH_MAX];

    if (!faults_watched(op))
        return 0;
    faults_fd_path(fd, path);
    verdict = faults_decide(op, path, NULL);
    errno = kept;
    return verdict;
}

static int faults_on_path(uint32_t op, int dir, const char *name)
{
    int kept = errno, verdict;
    char path[PATH_MAX];

    if (!faults_watched(op))
        return 0;
    faults_at_path(dir, name, path);
    verdict = faults_decide(op, path, NULL);
    errno = kept;
    return verdict;
}

static int faults_on_two(uint32_t op, int dir, const char *name, int dir2,
                         const char *name2)
{
    int kept = errno, verdict;
    char one[PATH_MAX], two[PATH_MAX];

    if (!faults_watched(op))
        return 0;
    faults_at_path(dir, name, one);
    faults_at_path(dir2, name2, two);
    verdict = faults_decide(op, one, two);
    errno = kept;
    return verdict;
}

/* The verdict carried out around the real call. */
#define FAULTS_CALL(type, verdict, ...)                                       \
    do {                                                                      \
        int verdict_ = (verdict);                                             \
        type result_;                                                         \
        if (verdict_ > 0) {                                                   \
            errno = verdict_;                                                 \
            return -1;                                                        \
        }                                                                     \
        result_ = (type)syscall(__VA_ARGS__);                                 \
        if (verdict_ < 0)                                                     \
            faults_die();                                                     \
        return result_;                                                       \
    } while (0)

/* ---- the calls ---------------------------------------------------------- */

ssize_t write(int fd, const void *bytes, size_t len)
{
    FAULTS_CALL(ssize_t, faults_on_fd(FAULTS_WRITE, fd), SYS_write, fd, bytes,
                len);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    FAULTS_CALL(ssize_t, faults_on_fd(FAULTS_WRITE, fd), SYS_writev, fd, parts,
                count);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at,
                        size_t len, unsigned flags)
{
    FAULTS_CALL(ssize_t, faults_on_fd(FAULTS_WRITE, to), SYS_copy_file_range,
                from, from_at, to, to_at, len, flags);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    FAULTS_CALL(ssize_t, faults_on_fd(FAULTS_PWRITE, fd), SYS_pwrite64, fd,
                bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    FAULTS_CALL(ssize_t, faults_on_fd(FAULTS_PWRITE, fd), SYS_pwrite64, fd,
                bytes, len, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    FAULTS_CALL(ssize_t, faults_on_fd(FAULTS_PWRITE, fd), SYS_pwritev, fd,
                parts, count, at, 0L);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
    FAULTS_CALL(ssize_t, faults_on_fd(FAULTS_PWRITE, fd), SYS_pwritev, fd,
                parts, count, at, 0L);
}

int fsync(int fd)
{
    FAULTS_CALL(int, faults_on_fd(FAULTS_FSYNC, fd), SYS_fsync, fd);
}

int syncfs(int fd)
{
    FAULTS_CALL(int, faults_on_fd(FAULTS_FSYNC, fd), SYS_syncfs, fd);
}

int fdatasync(int fd)
{
    FAULTS_CALL(int, faults_on_fd(FAULTS_FDATASYNC, fd), SYS_fdatasync, fd);
}

int renameat2(int from, const char *old, int to, const char *new,
              unsigned flags)
{
    FAULTS_CALL(int, faults_on_two(FAULTS_RENAME, from, old, to, new),
                SYS_renameat2, from, old, to, new, flags);
}

int renameat(int from, const char *old, int to, const char *new)
{
    return renameat2(from, old, to, new, 0);
}

int rename(const char *old, const char *new)
{
    return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0);
}

int linkat(int from, const char *old, int to, const char *new, int flags)
{
    FAULTS_CALL(int, faults_on_two(FAULTS_LINK, from, old, to, new),
                SYS_linkat, from, old, to, new, flags);
}

int link(const char *old, const char *new)
{
    return linkat(AT_FDCWD, old, AT_FDCWD, new, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
    FAULTS_CALL(int, faults_on_path(FAULTS_UNLINK, dir, path), SYS_unlinkat,
                dir, path, flags);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int ftruncate(int fd, off_t size)
{
    FAULTS_CALL(int, faults_on_fd(FAULTS_FTRUNCATE, fd), SYS_ftruncate, fd,
                size);
}

int ftruncate64(int fd, off64_t size)
{
    FAULTS_CALL(int, faults_on_fd(FAULTS_FTRUNCATE, fd), SYS_ftruncate, fd,
                size);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    FAULTS_CALL(int, faults_on_path(FAULTS_MKDIR, dir, path), SYS_mkdirat, dir,
                path, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

static int faults_open(int dir, const char *path, int flags, mode_t mode)
{
    FAULTS_CALL(int,
                flags &(O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
                    ? faults_on_path(FAULTS_CREATE, dir, path)
                    : 0,
                SYS_openat, dir, path, flags, mode);
}

/* The mode is there only where a file may be made. */
#define FAULTS_MODE(flags, ret)                                               \
    do {                                                                      \
        if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) {               \
            va_list ap_;                                                      \
            va_start(ap_, flags);                                             \
            (ret) = va_arg(ap_, mode_t);                                      \
            va_end(ap_);                                                      \
        }                                                                     \
    } while (0)

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;

    FAULTS_MODE(flags, mode);
    return faults_open(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;

    FAULTS_MODE(flags, mode);
    return faults_open(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;

    FAULTS_MODE(flags, mode);
    return faults_open(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;

    FAULTS_MODE(flags, mode);
    return faults_open(dir, path, flags, mode);
}
