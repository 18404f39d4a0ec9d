/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch: what a session writes to /mnt/data. A sparse image with a
 * journal-less ext4 on a loop device, so that bytes and inodes have hard
 * caps and files do not count as the session's memory; kept as a detached
 * mount that appears in no mount table of the host. Images are sparse copies
 * of a template, because creating a file system for each would take longer
 * than starting a session. The device nodes of a session are created here too:
 * each session has separate inodes, so that not even a lock on /dev/null is
 * shared.
 *
 * Runs in the warden as root. It never opens anything inside a scratch by
 * name.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "warden/warden_int.h"

#define MKFS "/sbin/mke2fs"
#define DEBUGFS "/sbin/debugfs"
#define INODE_SIZE 256
#define BLOCK 4096u
#define GROUP_BLOCKS 32768u
#define LOOP_TRIES 64
#define TEMPLATES_MAX 16
#define RESERVED 11 /* inodes that ext4 keeps for itself */
/* Inodes and blocks for two folders that the session creates for /mnt/data,
 * and for a folder and the whiteout that an overlay creates. */
#define OURS 4

/* ---- the image ---------------------------------------------------------- */

static void image_name(const struct slot *s, char ret[32])
{
    (void)snprintf(ret, 32, "%u.img", s->number);
}

/* With root and every capability: runs a program of e2fsprogs on an image of
 * ours, which is one of the last two arguments. */
static int run_tool(struct warden *w, const char *const *argv)
{
    char *environment[] = {NULL};
    int status;
    pid_t pid = fork();

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);

        (void)fcntl(w->scratch_dir, F_SETFD, 0);
        (void)dup3(null, STDOUT_FILENO, 0);
        (void)dup3(null, STDERR_FILENO, 0);
        (void)execve(argv[0], (char *const *)argv, environment);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return status == 0 ? 0 : -EIO;
}

/* A file system without lost+found: removing it from each image after mounting
 * would wait for the disk each time. */
static int run_mkfs(struct warden *w, const char *name, uint64_t bytes,
                    uint32_t inodes)
{
    char count[16], blocks[24], path[64];
    const char *const make[] = {MKFS,
                                "-q",
                                "-F",
                                "-t",
                                "ext4",
                                "-b",
                                "4096",
                                "-m",
                                "0",
                                "-O",
                                "^has_journal,^resize_inode",
                                "-E",
                                "lazy_itable_init=1,nodiscard",
                                "-N",
                                count,
                                path,
                                blocks,
                                NULL};
    const char *const clear[] = {DEBUGFS, "-w", "-R", "rmdir lost+found",
                                 path,    NULL};
    int r;

    (void)snprintf(count, sizeof(count), "%u", inodes + RESERVED + OURS);
    (void)snprintf(blocks, sizeof(blocks), "%" PRIu64, bytes / 4096);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", w->scratch_dir,
                   name);
    r = run_tool(w, make);
    return r < 0 ? r : run_tool(w, clear);
}

/*
 * The size of an image in which the session can use about `bytes`. ext4 itself
 * needs the inode table, a few blocks per group and a fiftieth, at most 4096
 * blocks, as a reserve.
 */
static uint64_t image_size(uint64_t bytes, uint32_t inodes)
{
    uint64_t blocks = (bytes + BLOCK - 1) / BLOCK;
    uint64_t groups = blocks / GROUP_BLOCKS + 1;
    uint64_t table = (inodes + OURS + 16 * groups) * INODE_SIZE / BLOCK + 1;

    blocks += table + 8 * groups + 24 + OURS;
    return (blocks + MIN(blocks / 48, (uint64_t)4096)) * BLOCK;
}

/* "<number>.img" and "template-…": the files that this module creates and may
 * remove. */
static bool is_image(const char *name)
{
    size_t digits = strspn(name, "0123456789");

    return digits && strcmp(name + digits, ".img") == 0;
}

static bool is_template(const char *name)
{
    return strncmp(name, "template-", 9) == 0;
}

static bool is_unfinished(const char *name)
{
    size_t len = strlen(name);

    return len > 4 && strcmp(name + len - 4, ".new") == 0;
}

/* Sessions choose their sizes, so there could be any number of templates.
 * Beyond a few the rest is removed and created again when needed. */
static void bound_templates(struct warden *w)
{
    int copy = fd_dup(w->scratch_dir, 3);
    DIR *dir cleanup(fd_closedir) = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;
    unsigned count = 0;

    if (!dir)
        return;
    rewinddir(dir);
    while ((d = readdir(dir)))
        if (is_template(d->d_name) && !is_unfinished(d->d_name) &&
            ++count > TEMPLATES_MAX)
            (void)unlinkat(w->scratch_dir, d->d_name, 0); /* ours alone */
}

/* Other children may create the same one at the same time: the name appears
 * when it is complete, and the last one stays. */
static int make_template(struct warden *w, const struct slot *s,
                         const char *name)
{
    uint64_t size = image_size(s->scratch_bytes, s->scratch_inodes);
    char unfinished[32];
    int fd, r;

    (void)snprintf(unfinished, 32, "template-%u.new", s->number);
    fd = openat(w->scratch_dir, unfinished,
                O_CREAT | O_TRUNC | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
    if (r == 0)
        r = run_mkfs(w, unfinished, size, s->scratch_inodes);
    if (r == 0 &&
        renameat(w->scratch_dir, unfinished, w->scratch_dir, name) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(w->scratch_dir, unfinished, 0); /* ours alone */
        fd_close(&fd);
    }
    return r < 0 ? r : fd;
}

static int open_template(struct warden *w, const struct slot *s)
{
    char name[64];
    int fd;

    (void)snprintf(name, sizeof(name), "template-%" PRIu64 "-%u.img",
                   s->scratch_bytes, s->scratch_inodes);
    fd = openat(w->scratch_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd < 0 ? -errno : fd;
    bound_templates(w);
    return make_template(w, s, name);
}

/* Only what the template really holds; the rest stays a hole. */
static int copy_sparse(int from, int to)
{
    struct stat st;
    off_t at = 0;

    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -errno;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);

        while (at < end) {
            off_t out = at;
            ssize_t n =
                copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);

            if (n <= 0)
                return n < 0 ? -errno : -EIO;
        }
    }
    return errno == ENXIO ? 0 : -errno; /* ENXIO: no data after this */
}

static int open_image(struct warden *w, struct slot *s)
{
    char name[32];
    int template cleanup(fd_close) = -1;
    int fd cleanup(fd_close) = -1;
    int r;

    image_name(s, name);
    /* O_EXCL: a leftover image must never become another session's files. */
    template = open_template(w, s);
    if (template <0)
        return template;
    fd = openat(w->scratch_dir, name,
                O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = copy_sparse(template, fd);
    return r < 0 ? r : take_fd(fd);
}

/* ---- loop device and mount ---------------------------------------------- */

/* Binds the image to a free loop device with autoclear, so that the device is
 * freed with its last user. Two processes may race for one device. */
static int attach_loop(int image, const char *label, int *ret_index)
{
    int control cleanup(fd_close) =
        open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (control < 0)
        return -errno;
    for (int tries = 0; tries < LOOP_TRIES; tries++) {
        struct loop_config config = {
            .fd = (uint32_t)image,
            .block_size = 4096,
            .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO},
        };
        int index = ioctl(control, LOOP_CTL_GET_FREE);
        char path[32];
        int fd;

        if (index < 0)
            return -errno;
        (void)snprintf((char *)config.info.lo_file_name,
                       sizeof(config.info.lo_file_name), "%s", label);
        (void)snprintf(path, sizeof(path), "/dev/loop%d", index);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            *ret_index = index;
            return fd;
        }
        fd_close(&fd);
        if (errno != EBUSY)
            return -errno;
    }
    return -EBUSY;
}

/* A detached mount of a new file system instance. */
static int mount_detached(const char *type, const char *const options[][2],
                          unsigned attributes)
{
    int fs cleanup(fd_close) = fsopen(type, FSOPEN_CLOEXEC);
    int fd;

    if (fs < 0)
        return -errno;
    for (size_t i = 0; options[i][0]; i++)
        if (fsconfig(fs,
                     options[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
                     options[i][0], options[i][1], 0) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    fd = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    return fd < 0 ? -errno : fd;
}

static int mount_image(struct warden *w, struct slot *s)
{
    uid_t uid = w->setup.uid_base + s->number;
    int image cleanup(fd_close) = open_image(w, s);
    int loop cleanup(fd_close) = -1;
    int fd cleanup(fd_close) = -1;
    char source[32], label[LO_NAME_SIZE];
    const char *const options[][2] = {
        {"source", source}, {"noinit_itable", NULL}, {NULL, NULL}};

    if (image < 0)
        return image;
    /* The label is the backing file that sysfs shows for the loop device. */
    (void)snprintf(label, LO_NAME_SIZE, "%.40s/%u", w->setup.instance,
                   s->number);
    loop = attach_loop(image, label, &s->loop_index);
    if (loop < 0)
        return loop;
    (void)snprintf(source, sizeof(source), "/dev/loop%d", s->loop_index);
    fd = mount_detached("ext4", options,
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                            MOUNT_ATTR_NOATIME);
    if (fd < 0)
        return fd;
    if (fchownat(fd, "", uid, uid, AT_EMPTY_PATH) < 0)
        return -errno;
    s->scratch_fd = take_fd(fd);
    return 0;
}

static int mount_devices(struct slot *s)
{
    static const struct {
        const char *name;
        unsigned minor_number;
    } nodes[] = {
        {"null", 3}, {"zero", 5}, {"full", 7}, {"random", 8}, {"urandom", 9},
    };
    static const char *const links[][2] = {
        {"/proc/self/fd", "fd"},
        {"/proc/self/fd/0", "stdin"},
        {"/proc/self/fd/1", "stdout"},
        {"/proc/self/fd/2", "stderr"},
    };
    static const char *const options[][2] = {
        {"size", "64k"}, {"mode", "0755"}, {NULL, NULL}};
    int fd cleanup(fd_close) = mount_detached(
        "tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

    if (fd < 0)
        return fd;
    for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
        if (mknodat(fd, nodes[i].name, S_IFCHR | 0666,
                    makedev(1, nodes[i].minor_number)) < 0 ||
            fchmodat(fd, nodes[i].name, 0666, 0) < 0)
            return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        if (symlinkat(links[i][0], fd, links[i][1]) < 0)
            return -errno;
    if (mkdirat(fd, "shm", 0755) < 0)
        return -errno;
    s->dev_fd = take_fd(fd);
    return 0;
}

/* ---- for slot.c --------------------------------------------------------- */

int scratch_open(struct warden *w, struct slot *s)
{
    int r;

    if (!(w->walls & WARDEN_WALL_SCRATCH))
        return 0; /* accepted: the session gets a sized tmpfs */
    r = mount_image(w, s);
    return r < 0 ? r : mount_devices(s);
}

void scratch_close(struct slot *s)
{
    fd_close(&s->scratch_fd);
    fd_close(&s->dev_fd);
}

/* Reads sysfs: opening the device would wait for the process that closes it,
 * and then be its last user. */
bool scratch_busy(const struct warden *w, const struct slot *s)
{
    char path[64], folder[WARDEN_PATH_MAX], image[WARDEN_PATH_MAX + 32];
    char *backing cleanup(mem_free) = NULL;
    ssize_t n;

    if (s->loop_index < 0)
        return false;
    (void)snprintf(path, sizeof(path), "/sys/block/loop%d/loop/backing_file",
                   s->loop_index);
    if (fd_read_file(AT_FDCWD, path, 8192, &backing, NULL) < 0)
        return false; /* bound to nothing */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", w->scratch_dir);
    n = readlink(path, folder, sizeof(folder) - 1);
    if (n < 0)
        return false;
    folder[n] = '\0';
    (void)snprintf(image, sizeof(image), "%s/%u.img", folder, s->number);
    n = (ssize_t)strlen(image);
    return strncmp(backing, image, (size_t)n) == 0 &&
           strchr(" \n", backing[n]); /* " (deleted)" may come after it */
}

void scratch_remove(struct warden *w, const struct slot *s)
{
    char name[32];

    image_name(s, name);
    if (unlinkat(w->scratch_dir, name, 0) < 0 && errno != ENOENT)
        return; /* swept at the next start */
}

void scratch_sweep(struct warden *w)
{
    int copy = fd_dup(w->scratch_dir, 3);
    DIR *dir cleanup(fd_closedir) = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    if (!dir)
        return;
    rewinddir(dir);
    while ((d = readdir(dir)))
        if (is_image(d->d_name) || is_template(d->d_name))
            (void)unlinkat(w->scratch_dir, d->d_name, 0); /* ours alone */
}
