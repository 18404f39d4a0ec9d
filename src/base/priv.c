/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up privilege; see priv.h. Runs in gloveboxd, single-threaded. */
#include "base/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

int priv_find(const char *name, struct priv_user *ret_user)
{
    struct passwd entry, *found = NULL;
    char room[4096];
    int r = getpwnam_r(name, &entry, room, sizeof(room), &found);

    if (!found)
        return r ? -r : -ENOENT;
    if (entry.pw_uid == 0)
        return -EINVAL;
    *ret_user = (struct priv_user){entry.pw_uid, entry.pw_gid};
    return 0;
}

/* mkdir -p of the folders above; every user may enter those. */
static int make_parents(const char *path)
{
    char *part cleanup(mem_free) = xstrdup(path);

    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    return 0;
}

static bool dir_is_empty(int fd)
{
    DIR *dir cleanup(fd_closedir) = NULL;
    struct dirent *entry;
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir) {
        fd_close(&copy);
        return false;
    }
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            return false;
    return true;
}

int priv_claim_dir(const char *path, const struct priv_user *user, int *ret_fd)
{
    int fd cleanup(fd_close) = -1;
    struct stat st;
    int r = make_parents(path);

    if (r < 0)
        return r;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (((st.st_uid != geteuid() && st.st_uid != user->uid) ||
         (st.st_mode & 077)) &&
        !dir_is_empty(fd))
        return -ENOTEMPTY;
    if (geteuid() == 0 && fchown(fd, user->uid, user->gid) < 0)
        return -errno;
    if (fchmod(fd, 0700) < 0)
        return -errno;
    *ret_fd = take_fd(fd);
    return 0;
}

/* As root, every capability; then the service's account, none, for good. */
static int become_user(const struct priv_user *user)
{
    uid_t real, effective, saved;

    if (setgroups(0, NULL) < 0 ||
        setresgid(user->gid, user->gid, user->gid) < 0 ||
        setresuid(user->uid, user->uid, user->uid) < 0)
        return -errno;
    if (getresuid(&real, &effective, &saved) < 0)
        return -errno;
    if (real != user->uid || effective != user->uid || saved != user->uid)
        return -EPERM;
    if (setuid(0) == 0 || setgid(0) == 0) /* root must be out of reach */
        return -EPERM;
    return 0;
}

int priv_drop(const struct priv_user *user)
{
    int r = geteuid() == 0 ? become_user(user) : 0;

    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
#ifndef __SANITIZE_ADDRESS__ /* whose leak check reads our own memory so */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
#endif
    return 0;
}
