/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory in which a unit test keeps its store, blobs and logs. It is in
 * memory where the machine has /dev/shm: a test waits for thousands of syncs,
 * and what a sync is worth after a power cut is proved elsewhere, by faults
 * that are injected between the program and the file system. TEST_TMPDIR
 * chooses another place, such as a file system to try the tests on.
 */
#ifndef GLOVEBOX_TESTS_SCRATCH_H
#define GLOVEBOX_TESTS_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SCRATCH_SHM "/dev/shm"
#define SCRATCH_SHM_LEAST ((unsigned long long)1 << 30) /* bytes free */

static inline const char *scratch_base(void)
{
    const char *chosen = getenv("TEST_TMPDIR");
    struct statvfs v;

    if (chosen && *chosen)
        return chosen;
    if (access(SCRATCH_SHM, W_OK | X_OK) == 0 &&
        statvfs(SCRATCH_SHM, &v) == 0 &&
        (unsigned long long)v.f_bavail * v.f_frsize >= SCRATCH_SHM_LEAST)
        return SCRATCH_SHM;
    return "/tmp";
}

/* Makes the directory and returns its path, ret; NULL if it cannot. The
 * caller removes it with scratch_remove. */
static inline char *scratch_dir(char *ret, size_t size, const char *name)
{
    int len = snprintf(ret, size, "%s/%s.XXXXXX", scratch_base(), name);

    return len > 0 && (size_t)len < size ? mkdtemp(ret) : NULL;
}

static inline int scratch_remove_entry(const char *path, const struct stat *st,
                                       int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Removes a directory and all in it; 0 on success. */
static inline int scratch_remove(const char *dir)
{
    return nftw(dir, scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
