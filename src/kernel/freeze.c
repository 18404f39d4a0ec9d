/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing the zygote's heap; see kernel_int.h. Runs once, in the zygote,
 * after the imports and before it serves.
 *
 * A clone copies the page tables of anonymous memory, page by page, but not
 * those of an untouched private file mapping: the child faults those in when
 * it needs them. So the heap becomes such a mapping. Between reading a range
 * and mapping it back nothing may write to it, so this file keeps its state
 * on the stack, uses no allocation there, and calls the kernel directly.
 *
 * The pages of that file are small on purpose. A fault takes the lock of the
 * page it is for, and all sessions of a runtime fault on the same ones: with
 * pages of 2 MiB, quicker as they are, a session at its memory's limit that
 * held one while the kernel looked for memory stopped everybody else's (X4).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define RANGES_MAX 4096
#define PAGE ((size_t)4096)

struct range {
    uintptr_t start, end;
    int prot;
    bool file; /* a library's data: worth moving where it was written to */
};

/* Filled before anything is moved; static because it is itself not moved:
 * the mapping that holds it is skipped. */
static struct range ranges[RANGES_MAX];

/* Is this mapping, by its first line in /proc/self/smaps, ours to move? */
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
        return false; /* a guard page, or what nobody writes */
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
 * What a mapping was asked to do at a fork would be lost with the move. Above
 * all "wf": libc keeps its random numbers in a page that the kernel wipes in
 * children, and with a plain copy of it every session would draw the same.
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

/* A mapping is a line as in maps, then lines of facts, the last of which are
 * its flags. Without flags (a kernel without smaps) nothing is moved. Data of
 * a library counts once it has pages of its own: the clone would copy them. */
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

static bool all_zero(const char *page)
{
    const uint64_t *words = (const uint64_t *)page;

    for (size_t i = 0; i < PAGE / sizeof(*words); i++)
        if (words[i])
            return false;
    return true;
}

/* Pages that hold nothing stay holes, so that frozen costs no more memory. */
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

int freeze_heap(size_t *ret_bytes)
{
    int fd cleanup(fd_close) = memfd_create("heap", MFD_CLOEXEC);
    size_t count = 0, total = 0;
    off_t at = 0;
    int r = find_ranges(&count);

    if (r < 0)
        return r;
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
    *ret_bytes = total;
    return 0;
}
