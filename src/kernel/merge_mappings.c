/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges adjacent read-only mappings; see kernel_int.h. Runs once, in the
 * zygote, before the freeze.
 *
 * A clone copies each mapping and an exit removes each, and a session does
 * both twice. Of the five mappings that the loader makes of a library, the
 * first three (tables, code, constants) are one contiguous, read-only range
 * of one file; they are separate only because two of them are not executable.
 * That protects nothing here, since a session may run any code. So the three
 * become one. Writable mappings stay separate and not executable.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "kernel/kernel_int.h"

#define READ_ONLY "r--p"
#define CODE "r-xp"
#define TURN_MAX 1024 /* far more than libraries; the rest stays apart */

struct piece {
    uintptr_t start, end;
    unsigned long offset, inode;
    unsigned major, minor;
    char perms[8];
};

static bool parse(const char *line, struct piece *ret)
{
    return sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %lx %x:%x %lu",
                  &ret->start, &ret->end, ret->perms, &ret->offset,
                  &ret->major, &ret->minor, &ret->inode) == 7 &&
           ret->inode != 0;
}

static bool follows(const struct piece *a, const struct piece *b)
{
    return a->end == b->start && a->inode == b->inode &&
           a->major == b->major && a->minor == b->minor &&
           a->offset + (a->end - a->start) == b->offset;
}

static bool joins(const struct piece *constants, const struct piece *code)
{
    return strcmp(constants->perms, READ_ONLY) == 0 &&
           strcmp(code->perms, CODE) == 0;
}

void merge_library_mappings(void)
{
    static struct piece turn[TURN_MAX];
    struct piece before = {0}, now;
    size_t count = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");

    if (!maps)
        return; /* more mappings, nothing else */
    while (count < TURN_MAX && fgets(line, sizeof(line), maps)) {
        if (!parse(line, &now))
            now = (struct piece){0};
        else if (follows(&before, &now) && joins(&before, &now))
            turn[count++] = before;
        else if (follows(&before, &now) && joins(&now, &before))
            turn[count++] = now;
        before = now;
    }
    (void)fclose(maps); /* was only read */
    for (size_t i = 0; i < count; i++)
        (void)mprotect((void *)turn[i].start, turn[i].end - turn[i].start,
                       PROT_READ | PROT_EXEC);
}
