/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises a data directory that has been used, by what is in it besides
 * the database. All of these are made after the first commit is on disk, so
 * where one of them is, a database with something in it must be. Runs in the
 * daemon at its start.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "store/store_int.h"

static const char *const made_later[] = {
    "blobs",     "audit.head",     "audit.secret", "auth.secret",
    "admin.key", "audit.sign.key", "vault.key",    "begun.journal",
};

void store_traces(int dir, char ret[STORE_TRACES])
{
    size_t len = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(made_later); i++) {
        struct stat st;

        if (fstatat(dir, made_later[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            (S_ISREG(st.st_mode) && st.st_size == 0))
            continue;
        len += (size_t)snprintf(ret + len, STORE_TRACES - len, "%s%s",
                                len ? ", " : "", made_later[i]); /* fits */
    }
}
