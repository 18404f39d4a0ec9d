/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second file system wall: even if a mount were wrong, only the listed
 * trees can be written and nothing outside this root can be opened. A step
 * of sandbox_enter(). How much it restricts depends on the ABI version of the
 * host's kernel. Without landlock the wall is missing, and the session does
 * not start unless the operator accepted that.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/sandbox_int.h"

/* Newer than the headers this may be built with. */
#define FS_REFER (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL_DEV (1ULL << 15)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

#define FS_READ                                                               \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |              \
     LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_ALL ((1ULL << 13) - 1) /* what level 1 knows */
#define FS_WRITE                                                              \
    (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE |                                \
     LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |         \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |              \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |            \
     LANDLOCK_ACCESS_FS_MAKE_SYM | FS_REFER | FS_TRUNCATE)
#define FS_DEVICE                                                             \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |             \
     LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

static const struct {
    const char *path;
    uint64_t allowed;
} rules[] = {
    {"/", FS_READ},           {"/dev", FS_DEVICE},      {"/dev/shm", FS_WRITE},
    {"/tmp", FS_WRITE},       {"/var/tmp", FS_WRITE},   {"/run", FS_WRITE},
    {SANDBOX_HOME, FS_WRITE}, {SANDBOX_DATA, FS_WRITE},
};

static int allow_below(int ruleset, int fd, uint64_t allowed)
{
    struct landlock_path_beneath_attr beneath = {.allowed_access = allowed,
                                                 .parent_fd = fd};

    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH,
                   &beneath, 0) < 0
               ? -errno
               : 0;
}

static int add_rule(int ruleset, const char *path, uint64_t allowed)
{
    int fd cleanup(fd_close) = open(path, O_PATH | O_CLOEXEC);

    return fd < 0 ? -errno : allow_below(ruleset, fd, allowed);
}

int sandbox_landlock_apply(struct sandbox_steps *s)
{
    long level = syscall(SYS_landlock_create_ruleset, NULL, 0,
                         LANDLOCK_CREATE_RULESET_VERSION);
    struct ruleset_attr attr;
    int ruleset cleanup(fd_close) = -1;
    int r;

    if (level < 1)
        return s->spec->accept_no_landlock ? 0 : -ENOSYS;
    attr = (struct ruleset_attr){.handled_access_fs = FS_ALL};
    if (level >= 2)
        attr.handled_access_fs |= FS_REFER;
    if (level >= 3)
        attr.handled_access_fs |= FS_TRUNCATE;
    if (level >= 5)
        attr.handled_access_fs |= FS_IOCTL_DEV;
    if (level >= 6)
        attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
    /* Older kernels want a shorter struct when the rest is unknown. */
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr,
                           level >= 6   ? sizeof(attr)
                           : level >= 4 ? 2 * sizeof(uint64_t)
                                        : sizeof(uint64_t),
                           0);
    if (ruleset < 0)
        return -errno;
    /* Changes are read from the overlay's upper folder, which is in no tree.
     */
    r = allow_below(ruleset, s->fds->upper, LANDLOCK_ACCESS_FS_READ_DIR);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rules); i++)
        r = add_rule(ruleset, rules[i].path,
                     rules[i].allowed & attr.handled_access_fs);
    if (r < 0)
        return r;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return -errno;
    return 0;
}
