/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child process that reads an image, and what it is allowed to do. The
 * parent (`glovebox runtime import`, perhaps root) only opens the source and
 * the folders and reads back the result, a JSON object of limited size.
 *
 * Rights of the child, started by root: the account `nobody`, no groups, no
 * capability, the new root file system as its root folder. Started by an
 * ordinary user: the same in a user namespace of its own, in which it is that
 * user alone.
 */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <locale.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "image/image_int.h"

#define RESULT_MAX (8u << 20)
#define NOBODY 65534u

const struct image_limits image_limits = {
    .entries = 2000000,
    .bytes = UINT64_C(64) << 30,
    .ratio = 200,
    .ratio_from = UINT64_C(64) << 20,
    .layers = 256,
};

/* ---- in the child ------------------------------------------------------- */

/* An ordinary user may change its root folder in a user namespace. */
static int enter_user_namespace(void)
{
    char map[64];
    uid_t uid = getuid();
    gid_t gid = getgid();

    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    (void)fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
    if (fd_write_file(AT_FDCWD, "/proc/self/uid_map", map) < 0)
        return -EPERM;
    (void)snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
    return fd_write_file(AT_FDCWD, "/proc/self/gid_map", map) < 0 ? -EPERM : 0;
}

/* From here on nothing outside the new root can be named. */
static int confine(int root, struct error *err)
{
    static const struct rlimit no_core = {0, 0};
    bool privileged = geteuid() == 0;
    int r = 0;

    (void)setrlimit(RLIMIT_CORE, &no_core); /* a dump would be harmless */
    (void)umask(022);
    if (!privileged)
        r = enter_user_namespace();
    if (r == 0 && (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0))
        r = -errno;
    if (r == 0 && privileged &&
        (fchown(root, NOBODY, NOBODY) < 0 || setgroups(0, NULL) < 0 ||
         setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
         setresuid(NOBODY, NOBODY, NOBODY) < 0))
        r = -errno;
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r < 0) {
        (void)error_errno(err, ERR_INTERNAL, -r,
                          "cannot confine the import of an image");
        return error_hint(err, "import as root, or allow user namespaces");
    }
    return 0;
}

static int import(struct image *im, int source, int root, int work,
                  struct error *err)
{
    struct stat st;
    int r;

    /* Names in tar files are UTF-8, which libarchive converts. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    if (fstat(source, &st) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot read the image");
    if (geteuid() == 0 && fchown(work, NOBODY, NOBODY) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "chown");
    r = confine(root, err);
    if (r == 0 && S_ISDIR(st.st_mode)) {
        im->source = source;
    } else if (r == 0) {
        im->source = work;
        r = image_layout_unpack(im, source, work, err);
    }
    if (r == 0)
        r = image_layout_apply(im, err);
    if (r == 0)
        r = image_finish(im, err);
    return r;
}

static _Noreturn void import_child(const struct image_job *job, int source,
                                   int root, int work, int out)
{
    struct image im = {.job = job, .source = -1, .result = json_object()};
    struct error err = {0};
    char *text;
    int r = import(&im, source, root, work, &err);

    if (r < 0) {
        json_decref(im.result);
        im.result = json_pack("{s:i, s:s, s:s}", "error", (int)err.code,
                              "message", err.message, "hint", err.hint);
    } else {
        (void)json_object_set_new(im.result, "entries",
                                  json_integer((json_int_t)im.entries));
        (void)json_object_set_new(im.result, "bytes",
                                  json_integer((json_int_t)im.bytes));
        (void)json_object_set_new(im.result, "skipped",
                                  json_integer((json_int_t)im.skipped));
    }
    text = im.result ? json_dumps(im.result, JSON_COMPACT) : NULL;
    if (!text || fd_write_all(out, text, strlen(text)) < 0)
        _exit(1);
    _exit(0);
}

/* ---- in the parent ------------------------------------------------------ */

static int read_result(int fd, json_t **ret, struct error *err)
{
    char *text cleanup(mem_free) = xmalloc(RESULT_MAX);
    ssize_t n = fd_read_all(fd, text, RESULT_MAX);
    json_t *result cleanup(json_unref) = NULL;
    const char *message;

    static const struct json_limits limits = {
        .depth = 16, .members = 100000, .number = 32};

    if (n <= 0 || n == (ssize_t)RESULT_MAX ||
        json_check(text, (size_t)n, &limits, err) < 0)
        return error_set(err, ERR_INVALID,
                         "the process that read the image failed");
    result = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(result))
        return error_set(err, ERR_INVALID,
                         "the process that read the image failed");
    message = json_string_value(json_object_get(result, "message"));
    if (message) {
        json_int_t code = json_integer_value(json_object_get(result, "error"));
        const char *hint = json_string_value(json_object_get(result, "hint"));

        (void)error_set(err,
                        code > ERR_NONE && code < ERR_MAX
                            ? (enum error_code)code
                            : ERR_INVALID,
                        "%s", message);
        return hint && hint[0] ? error_hint(err, "%s", hint) : -(int)err->code;
    }
    *ret = take_ptr(result);
    return 0;
}

int image_import(const struct image_job *job, json_t **ret, struct error *err)
{
    int source cleanup(fd_close) = open(job->source, O_RDONLY | O_CLOEXEC);
    int root cleanup(fd_close) =
        open(job->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int work cleanup(fd_close) =
        open(job->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int pipe_fds[2] = {-1, -1};
    int out cleanup(fd_close) = -1;
    int in cleanup(fd_close) = -1;
    pid_t pid;
    int status, r;

    if (source < 0)
        return error_errno(err, ERR_NOT_FOUND, errno, "cannot open %.200s",
                           job->source);
    if (root < 0 || work < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot open the folders of the import");
    r = fd_pipe(pipe_fds);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "pipe");
    in = pipe_fds[0];
    out = pipe_fds[1];
    pid = fork();
    if (pid < 0)
        return error_errno(err, ERR_INTERNAL, errno, "fork");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with its parent */
        import_child(job, source, root, work, out);
    }
    fd_close(&out);
    r = read_result(in, ret, err);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return r;
}
