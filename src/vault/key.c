/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIR/vault.key: the 32 bytes all secrets are sealed under. Runs in the daemon
 * at its start, as the service user. Written beside its name and renamed, so
 * that it appears whole or not at all. Reading the key and the store gives
 * access to every secret, so only the service user may read it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "vault/vault_int.h"

#define KEY_FILE "vault.key"

static int read_key(int fd, unsigned char ret[VAULT_KEY_SIZE],
                    struct error *err)
{
    unsigned char text[VAULT_KEY_SIZE + 1];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot read " KEY_FILE);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077)) {
        (void)error_set(err, ERR_INTERNAL,
                        KEY_FILE " must be a file that only its owner can "
                                 "read");
        return error_hint(err, "chmod 600 it; if others could read it, put "
                               "new values for all secrets");
    }
    n = fd_read_all(fd, text, sizeof(text));
    if (n == VAULT_KEY_SIZE)
        memcpy(ret, text, VAULT_KEY_SIZE);
    explicit_bzero(text, sizeof(text));
    return n == VAULT_KEY_SIZE
               ? 0
               : error_set(err, ERR_INTERNAL, KEY_FILE " is damaged");
}

int vault_key_open(const char *data_dir, bool may_make,
                   unsigned char ret[VAULT_KEY_SIZE], struct error *err)
{
    int dir cleanup(fd_close) =
        open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd cleanup(fd_close) = -1;
    int r;

    if (dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    fd = openat(dir, KEY_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        return read_key(fd, ret, err);
    if (errno != ENOENT)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open " KEY_FILE);
    if (!may_make) {
        (void)error_set(err, ERR_INTERNAL,
                        KEY_FILE " is missing, without it no stored secret "
                                 "can be opened");
        return error_hint(err, "restore it from the backup that glovebox.db "
                               "came from");
    }
    ids_random(ret, VAULT_KEY_SIZE);
    r = fd_write_new(dir, KEY_FILE, ret, VAULT_KEY_SIZE);
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r, "cannot write " KEY_FILE)
                 : 0;
}
