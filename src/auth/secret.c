/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two secret files of the data directory: auth.secret, under which keys
 * are hashed, and admin.key, the first key. Runs in the daemon at its start,
 * as the service user. Each appears whole or not at all, only its owner can
 * read it, and neither is ever replaced: a file that does not fit the store is
 * a store that is not this directory's, or an operator's decision.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "auth/auth_int.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hex.h"
#include "base/ids.h"
#include "base/mem.h"

#define SECRET_FILE "auth.secret"
#define ADMIN_FILE "admin.key"
#define HEX_LEN (2 * HASH_SIZE)

static int open_dir(const char *data_dir, int *ret_fd, struct error *err)
{
    int fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    *ret_fd = fd;
    return 0;
}

static int make_secret(int dir, unsigned char ret[HASH_SIZE],
                       struct error *err)
{
    unsigned char raw[HASH_SIZE];
    char hex[HEX_LEN + 1];
    char line[HEX_LEN + 2];
    int r;

    ids_random(raw, sizeof(raw));
    (void)snprintf(line, sizeof(line), "%s\n", ids_hex(raw, sizeof(raw), hex));
    r = fd_write_new(dir, SECRET_FILE, line, strlen(line));
    if (r == 0)
        memcpy(ret, raw, sizeof(raw));
    explicit_bzero(raw, sizeof(raw));
    explicit_bzero(hex, sizeof(hex));
    explicit_bzero(line, sizeof(line));
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot write " SECRET_FILE);
    return 0;
}

static int read_secret(int fd, unsigned char ret[HASH_SIZE], struct error *err)
{
    char text[HEX_LEN + 2];
    struct stat st;
    ssize_t n;
    bool good;

    if (fstat(fd, &st) < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot read " SECRET_FILE);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077)) {
        (void)error_set(err, ERR_INTERNAL,
                        SECRET_FILE " must be a file that only its owner can "
                                    "read");
        return error_hint(err, "chmod 600 it; if others could read it, revoke "
                               "all keys");
    }
    n = fd_read_all(fd, text, sizeof(text));
    good = n == HEX_LEN + 1 && text[HEX_LEN] == '\n' &&
           hex_decode(text, ret, HASH_SIZE);
    explicit_bzero(text, sizeof(text));
    if (!good)
        return error_set(err, ERR_INTERNAL, SECRET_FILE " is damaged");
    return 0;
}

int auth_secret_open(const char *data_dir, bool may_make,
                     unsigned char ret[HASH_SIZE], struct error *err)
{
    int dir cleanup(fd_close) = -1;
    int fd cleanup(fd_close) = -1;

    if (open_dir(data_dir, &dir, err) < 0)
        return -(int)err->code;
    fd = openat(dir, SECRET_FILE,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        return read_secret(fd, ret, err);
    if (errno != ENOENT)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot open " SECRET_FILE);
    if (may_make)
        return make_secret(dir, ret, err);
    /* It is written before the first key, so no crash leads here. */
    (void)error_set(err, ERR_INTERNAL,
                    SECRET_FILE " is missing, without it no stored key can "
                                "be recognised");
    return error_hint(err, "restore it from the backup that glovebox.db came "
                           "from");
}

/* Accepts only the form in which it was written. */
static bool is_secret(const char *text, size_t len)
{
    return len == AUTH_SECRET_LEN + 1 && text[AUTH_SECRET_LEN] == '\n' &&
           strncmp(text, AUTH_PREFIX, strlen(AUTH_PREFIX)) == 0 &&
           strlen(text) == len;
}

int auth_secret_admin(const char *data_dir, char ret[AUTH_SECRET_LEN + 1],
                      struct error *err)
{
    int dir cleanup(fd_close) = -1;
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;
    int r;

    if (open_dir(data_dir, &dir, err) < 0)
        return -(int)err->code;
    r = fd_read_file(dir, ADMIN_FILE, AUTH_SECRET_LEN + 1, &text, &len);
    if (r == -ENOENT)
        return 0;
    if (r == 0 && is_secret(text, len)) {
        memcpy(ret, text, AUTH_SECRET_LEN);
        ret[AUTH_SECRET_LEN] = '\0';
    }
    if (text)
        explicit_bzero(text, len);
    if (r == 0 && ret[0])
        return 1;
    (void)error_set(err, ERR_INTERNAL,
                    "the store has no admin key, and the one in " ADMIN_FILE
                    " cannot be read");
    return error_hint(err, "move " ADMIN_FILE " away, and a new key is made");
}

int auth_secret_publish(const char *data_dir, const char *secret,
                        struct error *err)
{
    int dir cleanup(fd_close) = -1;
    char line[AUTH_SECRET_LEN + 2];
    int r;

    if (open_dir(data_dir, &dir, err) < 0)
        return -(int)err->code;
    (void)snprintf(line, sizeof(line), "%s\n", secret);
    r = fd_write_new(dir, ADMIN_FILE, line, strlen(line));
    explicit_bzero(line, sizeof(line));
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot write " ADMIN_FILE);
    return 0;
}
