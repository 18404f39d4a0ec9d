/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the root file system of an image into one that sessions can use: the
 * account, mount points and files that every runtime has, and a look at which
 * Python and C library it has. Runs in the import's child process, whose root
 * folder it is. Nothing of the image is executed.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "image/image_int.h"

#define TEXT_MAX (1u << 20)
#define PYTHON_MIN 9 /* 3.9, which the kernel extension needs */
#define DISTRIBUTIONS_MAX 5000u

/* ---- files that every runtime has --------------------------------------- */

/* A folder of its own at path, whatever the image has there. */
static int own_folder(const char *path, mode_t mode, struct error *err)
{
    struct stat st;
    int r = image_layer_parents(path, err);

    if (r == 0 && (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))) {
        r = image_layer_remove(path, err);
        if (r == 0 && mkdir(path, mode) < 0)
            r = error_errno(err, ERR_INVALID, errno, "cannot make /%s", path);
    }
    return r;
}

static int write_text(const char *path, const char *text, size_t len,
                      struct error *err)
{
    int fd cleanup(fd_close) = -1;
    int r = image_layer_parents(path, err);

    if (r == 0)
        r = image_layer_remove(path, err);
    if (r < 0)
        return r;
    fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    r = fd < 0 ? -errno : fd_write_all(fd, text, len);
    return r < 0 ? error_errno(err, ERR_INVALID, -r, "cannot write /%s", path)
                 : 0;
}

/* Lines of a table of accounts without those of our name or number, and ours.
 */
static int write_accounts(const char *path, const char *own, struct error *err)
{
    struct buf out cleanup(buf_done) = {0};
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;

    (void)fd_read_file(AT_FDCWD, path, TEXT_MAX, &text, &len); /* or none */
    for (char *line = text, *next; line && *line; line = next) {
        const char *number;

        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        number = strchr(line, ':');
        number = number ? strchr(number + 1, ':') : NULL;
        if (!number || strncmp(number, ":1000:", 6) == 0 ||
            strncmp(line, "user:", 5) == 0)
            continue;
        buf_addf(&out, "%s\n", line);
    }
    buf_adds(&out, own);
    return write_text(path, out.data, out.len, err);
}

static int write_files(struct error *err)
{
    static const struct {
        const char *path, *text;
    } files[] = {
        {"etc/hosts", "127.0.0.1 localhost glovebox\n::1 localhost\n"},
        {"etc/hostname", "glovebox\n"},
        {"etc/resolv.conf", ""},
        {"etc/nsswitch.conf",
         "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
         "networks: files\nprotocols: files\nservices: files\n"},
    };
    static const struct {
        const char *path;
        mode_t mode;
    } folders[] = {
        {"mnt/data", 0755}, {"home/user", 0755}, {"opt/glovebox/lib", 0755},
        {"proc", 0755},     {"sys", 0755},       {"dev", 0755},
        {"run", 0755},      {"tmp", 01777},      {"var/tmp", 01777},
    };
    int r = image_layer_remove("opt/glovebox", err);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders); i++)
        r = own_folder(folders[i].path, folders[i].mode, err);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
        r = write_text(files[i].path, files[i].text, strlen(files[i].text),
                       err);
    if (r == 0)
        r = write_accounts("etc/passwd",
                           "user:x:1000:1000:user:/home/user:/bin/sh\n", err);
    if (r == 0)
        r = write_accounts("etc/group", "user:x:1000:\n", err);
    return r;
}

/* ---- C library ---------------------------------------------------------- */

/* A file in one of the usual folders of libraries; its text is borrowed. */
static char *map_library(const char *name, size_t *ret_len)
{
    static const char *const folders[] = {
        "lib/x86_64-linux-gnu",
        "lib/aarch64-linux-gnu",
        "usr/lib/x86_64-linux-gnu",
        "usr/lib/aarch64-linux-gnu",
        "lib64",
        "usr/lib64",
        "lib",
        "usr/lib",
    };

    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        char path[128];
        struct stat st;
        int fd cleanup(fd_close) = -1;
        char *text;

        (void)snprintf(path, sizeof(path), "%s/%s", folders[i], name);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
            st.st_size <= 0 || st.st_size > (32 << 20))
            continue;
        text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (text == MAP_FAILED)
            continue;
        *ret_len = (size_t)st.st_size;
        return text;
    }
    return NULL;
}

/* "2.36" from what glibc says of itself; "" when there is none. */
static void find_glibc(char ret[16])
{
    static const char mark[] = "release version ";
    size_t len = 0, n = 0;
    char *text = map_library("libc.so.6", &len);
    const char *at = text ? memmem(text, len, mark, sizeof(mark) - 1) : NULL;

    ret[0] = '\0';
    if (at) {
        at += sizeof(mark) - 1;
        while (n < 15 && at + n < text + len &&
               (isdigit((unsigned char)at[n]) || at[n] == '.'))
            n++;
        memcpy(ret, at, n);
        ret[n] = '\0';
        if (n && ret[n - 1] == '.')
            ret[n - 1] = '\0';
    }
    if (text)
        (void)munmap(text, len);
}

static bool has_musl(void)
{
    return access("lib/ld-musl-x86_64.so.1", F_OK) == 0 ||
           access("lib/ld-musl-aarch64.so.1", F_OK) == 0;
}

static bool version_below(const char *have, const char *want)
{
    unsigned h[2] = {0, 0}, w[2] = {0, 0};

    (void)sscanf(have, "%u.%u", &h[0], &h[1]);
    (void)sscanf(want, "%u.%u", &w[0], &w[1]);
    return h[0] != w[0] ? h[0] < w[0] : h[1] < w[1];
}

/* ---- Python ------------------------------------------------------------- */

struct python {
    char path[64];       /* "/usr/local/bin/python3" */
    char real[PATH_MAX]; /* what that leads to */
    int minor;           /* -1: unknown */
};

/* The version is in the name of the program, or of its library folder. */
static int python_minor(const struct python *p)
{
    const char *last = strrchr(p->real, '/');
    char prefix[80];
    size_t len;
    unsigned minor;

    if (last && sscanf(last, "/python3.%u", &minor) == 1)
        return (int)minor;
    len = (size_t)(strstr(p->path, "/bin/") - p->path);
    for (minor = 50; minor-- > 0;) {
        (void)snprintf(prefix, sizeof(prefix), "%.*s/lib/python3.%u/os.py",
                       (int)len, p->path, minor);
        if (access(prefix, F_OK) == 0)
            return (int)minor;
    }
    return -1;
}

static bool find_python(struct python *ret)
{
    static const char *const paths[] = {
        "/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3",
        "/opt/conda/bin/python3", "/opt/venv/bin/python3"};

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        struct stat st;

        if (stat(paths[i], &st) < 0 || !S_ISREG(st.st_mode) ||
            !(st.st_mode & 0111) || !realpath(paths[i], ret->real))
            continue;
        (void)snprintf(ret->path, sizeof(ret->path), "%s", paths[i]);
        ret->minor = python_minor(ret);
        return true;
    }
    return false;
}

/* Sessions start from a copy that may be run but not read, so that they do not
 * share its inode; the link says where Python thinks it is. */
static int copy_python(const struct python *p, struct error *err)
{
    int from cleanup(fd_close) = open(p->real, O_RDONLY | O_CLOEXEC);
    int to cleanup(fd_close) =
        open("opt/glovebox/python",
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0711);
    char *buf cleanup(mem_free) = xmalloc(TEXT_MAX);
    ssize_t n = 0;

    if (from < 0 || to < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot copy %.150s",
                           p->real);
    while ((n = fd_read_all(from, buf, TEXT_MAX)) > 0)
        if (fd_write_all(to, buf, (size_t)n) < 0)
            return error_set(err, ERR_SPACE, "cannot copy %.150s", p->real);
    if (n < 0 || fchmod(to, 0711) < 0 ||
        symlink(p->path, "opt/glovebox/python3") < 0)
        return error_set(err, ERR_INVALID, "cannot copy %.150s", p->real);
    return 0;
}

/* Names and versions from the folders NAME-VERSION.dist-info. */
static void add_distributions(const char *folder, json_t *list)
{
    DIR *dir cleanup(fd_closedir) = opendir(folder);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) &&
           json_array_size(list) < DISTRIBUTIONS_MAX) {
        const char *end = strstr(entry->d_name, ".dist-info");
        const char *dash =
            end ? memrchr(entry->d_name, '-', (size_t)(end - entry->d_name))
                : NULL;

        if (dash && !end[strlen(".dist-info")])
            (void)json_array_append_new(
                list, json_pack("{s:s%, s:s%}", "name", entry->d_name,
                                (size_t)(dash - entry->d_name), "version",
                                dash + 1, (size_t)(end - dash - 1)));
    }
}

static void list_distributions(struct image *im, const struct python *p)
{
    json_t *list = json_array();
    char folder[128];
    int prefix = (int)(strstr(p->path, "/bin/") - p->path);

    (void)snprintf(folder, sizeof(folder), "%.*s/lib/python3.%d/site-packages",
                   prefix, p->path, p->minor);
    add_distributions(folder, list);
    add_distributions("/usr/lib/python3/dist-packages", list);
    (void)json_object_set_new(im->result, "distributions", list);
}

/* ---- which mode --------------------------------------------------------- */

/* NULL: sessions may be clones of the image's Python. */
static const char *why_not_zygote(const struct image *im,
                                  const struct python *p, bool found,
                                  const char *glibc, char room[160])
{
    if (!found)
        return "the image has no python3";
    if (p->minor < 0)
        return "the version of the image's python3 is unknown";
    if (p->minor < PYTHON_MIN) {
        (void)snprintf(room, 160, "the image has Python 3.%d; 3.%d is needed",
                       p->minor, PYTHON_MIN);
        return room;
    }
    if (!glibc[0])
        return has_musl() ? "the image's C library is musl; glibc is needed"
                          : "the image has no glibc";
    if (version_below(glibc, im->job->glibc)) {
        (void)snprintf(room, 160, "the image has glibc %s; %s is needed",
                       glibc, im->job->glibc);
        return room;
    }
    return NULL;
}

int image_finish(struct image *im, struct error *err)
{
    struct python p = {.minor = -1};
    bool found = find_python(&p);
    char glibc[16], room[160], text[48];
    const char *reason;
    int r;

    find_glibc(glibc);
    reason = why_not_zygote(im, &p, found, glibc, room);
    r = write_files(err);
    if (r == 0 && !reason)
        r = copy_python(&p, err);
    if (r < 0)
        return error_wrap(err, "the root file system");
    if (glibc[0])
        (void)snprintf(text, sizeof(text), "glibc %s", glibc);
    else
        (void)snprintf(text, sizeof(text), "%s",
                       has_musl() ? "musl" : "unknown");
    (void)json_object_set_new(im->result, "libc", json_string(text));
    if (found && p.minor >= 0) {
        (void)snprintf(text, sizeof(text), "3.%d", p.minor);
        (void)json_object_set_new(im->result, "python", json_string(text));
        (void)json_object_set_new(im->result, "python_path",
                                  json_string(p.path));
        list_distributions(im, &p);
    }
    (void)json_object_set_new(im->result, "mode",
                              json_string(reason ? "exec" : "zygote"));
    if (reason)
        (void)json_object_set_new(im->result, "reason", json_string(reason));
    return 0;
}
