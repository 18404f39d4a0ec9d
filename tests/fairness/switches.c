/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches of the fairness benchmark. Linked into build/fairness/ only, where
 * this definition of fair_enabled wins over the weak one of src/fair/fair.c.
 * A file "switches" beside the program has one character per mechanism, '0'
 * for off. It is mapped at start, so that the benchmark can switch while the
 * service runs; the daemon and the warden map the same file. Without the file
 * every mechanism is on.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fair/fair.h"

static const volatile char *switches;

__attribute__((constructor)) static void map_switches(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
    char *slash;
    void *at;
    int fd;

    if (n < 0)
        return;
    path[n] = '\0';
    slash = strrchr(path, '/');
    (void)snprintf(slash + 1, 16, "switches");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    at = mmap(NULL, FAIR_MECHANISMS, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED)
        switches = at;
    (void)close(fd);
}

bool fair_enabled(enum fair_mechanism m)
{
    return !switches || switches[m] != '0';
}
