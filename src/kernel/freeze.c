/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezes the zygote's heap; see kernel_int.h. Runs once, in the zygote, after
 * the imports and before it serves.
 *
 * A clone copies the page tables of anonymous memory, page by page, but not
 * those of an untouched private file mapping: the child faults those in when
 * it needs them. So the heap becomes such a mapping. Between reading a range
 * and mapping it back nothing may write to it, so this file keeps its state
 * on the stack, uses no allocation there, and calls the kernel directly.
 *
 * The file has small pages on purpose. A fault locks its page, and all
 * sessions of a runtime fault on the same pages. With 2 MiB pages, although
 * faster, a session at its memory limit held such a lock during reclaim and
 * stalled all other sessions (X4).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define RANGES_MAX 4096
#define PAGE ((size_t)4096)

struct range {
    uintptr_t start, end;
    int prot;
    bool file; /* data of a library: moved if it was written to */
};

/* Filled before anything is moved. Static, because the mapping that holds it
 * is skipped. */
static struct range ranges[RANGES_MAX];

/* May this mapping be moved, by its first line in /proc/self/smaps? */
static bool movable(const char *line, struct range *ret)
{
    uintptr_t start, end;
    unsigned long offset, inode;
    unsigned major, minor;
    char perms[8], name[256] = "";
    int n =
        sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %lx %x:%x %lu %255[^\n]",
               &start, &end, perms, &offset, &major, &minor, &inode, name);

    if (n < 7 || perms[3] != 'p' || perms[0] != 'r' || perms[2] == 'x')
        return false;
    if (inode == 0 && perms[1] != 'w')
        return false; /* a guard page, or read-only */
    if (name[0] == '[' && strcmp(name, "[heap]") != 0 &&
        strncmp(name, "[anon", 5) != 0)
        return false; /* stack, vdso and the like */
    if ((uintptr_t)ranges >= start && (uintptr_t)ranges < end)
        return false;
    *ret = (struct range){start, end,
                          PROT_READ | (perms[1] == 'w' ? PROT_WRITE : 0),
                          inode != 0};
    return true;
}

/*
 * Moving a mapping loses its madvise settings for forks. Above all "wf" (wipe
 * on fork): libc keeps random state in such a page, and with a plain copy of
 * it every session would draw the same numbers.
 */
static bool plain(const char *flags)
{
    static const char *const special[] = {
        " wf", /* wiped on fork */
        " dp", /* may be dropped at any time */
        " dc", /* not there after a fork */
        " gd", /* grows */
        " lo", /* locked */
        " ht", /* huge pages of their own kind */
        " io", " pf",
    };

    for (size_t i = 0; i < ARRAY_SIZE(special); i++)
        if (strstr(flags, special[i]))
            return false;
    return true;
}

/* A mapping is a line as in maps, then lines of details, the last of which are
 * its flags. Without flags (a kernel without smaps) nothing is moved. Data of
 * a library is moved if it has anonymous pages: the clone would copy them. */
static int find_ranges(size_t *ret_count)
{
    static const char key[] = "VmFlags:";
    char line[512];
    FILE *maps = fopen("/proc/self/smaps", "re");
    size_t count = 0;
    bool candidate = false;
    unsigned long own;

    if (!maps)
        return -errno;
    while (fgets(line, sizeof(line), maps) && count < RANGES_MAX) {
        bool flags = strncmp(line, key, sizeof(key) - 1) == 0;

        if (sscanf(line, "Anonymous: %lu", &own) == 1 && candidate &&
            ranges[count].file && own == 0)
            candidate = false;
        else if (flags && candidate && plain(line + sizeof(key) - 1))
            count++;
        if (flags)
            candidate = false;
        else if (!candidate)
            candidate = movable(line, &ranges[count]);
    }
    (void)fclose(maps); /* was only read */
    *ret_count = count;
    return 0;
}

/*
 * Can every page be read? The stacks of ended threads, which glibc keeps for
 * later, have guard pages inside the mapping (MADV_GUARD_INSTALL, from glibc
 * 2.42 and Linux 6.13 on) that neither the permissions nor, before Linux 6.17,
 * the flags tell of. The kernel reads a byte of each page here, because a read
 * by this process would end it.
 */
static bool readable(const struct range *r)
{
    struct iovec remote[256];
    char bytes[ARRAY_SIZE(remote)];

    for (uintptr_t at = r->start; at < r->end;) {
        struct iovec local = {.iov_base = bytes};
        size_t n = 0;

        for (; n < ARRAY_SIZE(remote) && at < r->end; at += PAGE)
            remote[n++] = (struct iovec){(void *)at, 1};
        local.iov_len = n;
        if (process_vm_readv(getpid(), &local, 1, remote, n, 0) != (ssize_t)n)
            return false;
    }
    return true;
}

/* Without those that hold a page that cannot be read: these stay as they are,
 * and clones copy their few pages. */
static size_t drop_unreadable(size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (readable(&ranges[i]))
            ranges[kept++] = ranges[i];
    return kept;
}

static bool all_zero(const char *page)
{
    const uint64_t *words = (const uint64_t *)page;

    for (size_t i = 0; i < PAGE / sizeof(*words); i++)
        if (words[i])
            return false;
    return true;
}

/* Zero pages stay holes, so that freezing needs no more memory. */
static int copy_out(int fd, off_t at, const struct range *r)
{
    const char *p = (const char *)r->start;
    size_t len = r->end - r->start;

    for (size_t done = 0; done < len;) {
        size_t run = 0;

        while (done + run < len && !all_zero(p + done + run))
            run += PAGE;
        if (run == 0) {
            done += PAGE;
            continue;
        }
        for (size_t out = 0; out < run;) {
            ssize_t n = pwrite(fd, p + done + out, run - out,
                               at + (off_t)(done + out));

            if (n <= 0)
                return n < 0 ? -errno : -EIO;
            out += (size_t)n;
        }
        done += run;
    }
    return 0;
}

int freeze_heap(int *ret_fd)
{
    int fd cleanup(fd_close) =
        memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t count = 0, total = 0;
    off_t at = 0;
    int r = find_ranges(&count);

    if (r < 0)
        return r;
    count = drop_unreadable(count);
    if (fd < 0)
        return -errno;
    for (size_t i = 0; i < count; i++)
        total += ranges[i].end - ranges[i].start;
    if (ftruncate(fd, (off_t)total) < 0)
        return -errno;
    for (size_t i = 0; i < count; i++) {
        size_t len = ranges[i].end - ranges[i].start;

        r = copy_out(fd, at, &ranges[i]);
        if (r < 0)
            return r;
        if (mmap((void *)ranges[i].start, len, ranges[i].prot,
                 MAP_PRIVATE | MAP_FIXED, fd, at) == MAP_FAILED)
            return -errno;
        at += (off_t)len;
    }
    *ret_fd = take_fd(fd);
    return 0;
}
