/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret that sealed backups are encrypted under: a file of the
 * operator's, or DIR/backup.key, which the service makes. Runs in the daemon
 * with the rights of its account, and in the program that restores.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/mem.h"
#include "upkeep/backup_int.h"

#define KEY_BYTES 32u

static int read_secret(int fd, const char *path, char **ret, size_t *ret_len,
                       struct error *err)
{
    char *text = xcalloc(1, BACKUP_KEY_MAX + 2);
    ssize_t n = fd_read_all(fd, text, BACKUP_KEY_MAX + 1);
    size_t len = n < 0 ? 0 : (size_t)n;

    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    if (n >= 0 && len >= BACKUP_KEY_MIN && len <= BACKUP_KEY_MAX) {
        *ret = text;
        *ret_len = len;
        return 0;
    }
    backup_key_free(text, BACKUP_KEY_MAX + 2);
    if (n < 0)
        return error_errno(err, ERR_INVALID, (int)-n,
                           "cannot read the key file %s", path);
    (void)error_set(err, ERR_INVALID,
                    "the key file %s must have %u to %u bytes", path,
                    BACKUP_KEY_MIN, BACKUP_KEY_MAX);
    return error_hint(err, "make one with: openssl rand -hex 32");
}

int backup_key_read(const char *path, char **ret, size_t *ret_len,
                    struct error *err)
{
    int fd cleanup(fd_close) = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)error_errno(err, ERR_INVALID, errno,
                          "cannot open the key file %s", path);
        return error_hint(err, "the service's account must be able to read "
                               "it");
    }
    if (!S_ISREG(st.st_mode) || (st.st_mode & 07)) {
        (void)error_set(err, ERR_INVALID,
                        "the key file %s is not a regular file, or every "
                        "user of this machine has rights on it",
                        path);
        return error_hint(err, "Remove these rights with `chmod o=`. If "
                               "others may have read it, make a new key.");
    }
    return read_secret(fd, path, ret, ret_len, err);
}

/* As text, so that a person can copy it to paper. */
static int make_key(const char *data_dir, struct error *err)
{
    int dir cleanup(fd_close) =
        open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned char bytes[KEY_BYTES];
    char text[2 * KEY_BYTES + 2];
    int r;

    if (dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    ids_random(bytes, sizeof(bytes));
    (void)ids_hex(bytes, sizeof(bytes), text);
    text[2 * KEY_BYTES] = '\n';
    r = fd_write_new(dir, BACKUP_KEY_FILE, text, 2 * KEY_BYTES + 1);
    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(text, sizeof(text));
    return r < 0 && r != -EEXIST
               ? backup_copy_failed(-r, "write " BACKUP_KEY_FILE, err)
               : 0;
}

int backup_key_own(const char *data_dir, char **ret, size_t *ret_len,
                   struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("%s/" BACKUP_KEY_FILE, data_dir);
    int r = 0;

    if (access(path, F_OK) < 0 && errno == ENOENT)
        r = make_key(data_dir, err);
    return r < 0 ? r : backup_key_read(path, ret, ret_len, err);
}

void backup_key_free(char *secret, size_t len)
{
    if (secret)
        explicit_bzero(secret, len);
    free(secret);
}
