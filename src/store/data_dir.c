/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data directory as every engine sees it: one daemon has it open, and
 * traces show that it has been used. Runs in the daemon when the store is
 * opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/store_int.h"

#define LOCK_MS 3000 /* for a daemon that is stopping */
#define LOCK_STEP_MS 20

/* Files that are created after the first commit is on disk: where one of them
 * is, a database with content must be. */
static const char *const made_later[] = {
    "blobs",     "audit.head",     "audit.secret", "auth.secret",
    "admin.key", "audit.sign.key", "vault.key",    "begun.journal",
};

void store_data_dir_traces(int dir, char ret[STORE_TRACES_MAX])
{
    size_t len = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(made_later); i++) {
        struct stat st;

        if (fstatat(dir, made_later[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            (S_ISREG(st.st_mode) && st.st_size == 0))
            continue;
        len += (size_t)snprintf(ret + len, STORE_TRACES_MAX - len, "%s%s",
                                len ? ", " : "", made_later[i]); /* fits */
    }
}

static int take_lock(int fd)
{
    uint64_t until = clock_mono_ms() + LOCK_MS;
    const struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000};

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (clock_mono_ms() >= until)
            return -EBUSY;
        (void)nanosleep(&step, NULL); /* a shorter sleep does no harm */
    }
    return 0;
}

int store_data_dir_lock(int dir, int *ret_fd, struct error *err)
{
    int fd cleanup(fd_close) = openat(
        dir, "glovebox.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : take_lock(fd);

    if (r == -EBUSY)
        return error_set(err, ERR_CONFLICT,
                         "another process has the data directory open");
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot lock glovebox.lock");
    *ret_fd = take_fd(fd);
    return 0;
}
