/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of programs inside, and the certificates they trust. Runs in
 * pid 1 with the session's rights; the session can change both, so they are no
 * wall. The input comes from the daemon and is checked all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

#define FOLDER "/run/glovebox"
#define FILE_NAME "ca.pem"
#define TEMP_NAME ".ca.pem"
#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"
#define SYSTEM_CA_MAX (4u << 20)

static int read_memfd(int fd, size_t most, char **ret_text, size_t *ret_len)
{
    char *text cleanup(mem_free) = xmalloc(most + 1);
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return errno;
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)most)
        return EINVAL;
    n = pread(fd, text, most, 0); /* of memory: whole */
    if (n < 0)
        return errno;
    text[n] = '\0';
    *ret_len = (size_t)n;
    *ret_text = take_ptr(text);
    return 0;
}

/* ---- environment -------------------------------------------------------- */

static bool is_name(const char *s)
{
    size_t len = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                           "wxyz0123456789_");

    return len > 0 && s[len] == '\0' && !(s[0] >= '0' && s[0] <= '9');
}

static int set_line(char *line)
{
    char *value = strchr(line, '=');

    if (value)
        *value++ = '\0';
    if (!is_name(line))
        return EINVAL;
    if ((value ? setenv(line, value, 1) : unsetenv(line)) < 0)
        return errno;
    return 0;
}

/* Sets pid 1's own environment, which its children inherit. */
int guest_env_set(int fd)
{
    char *text cleanup(mem_free) = NULL;
    size_t len = 0;
    int r = read_memfd(fd, INIT_ENVIRONMENT_MAX, &text, &len);

    if (r || !text)
        return r;
    if (memchr(text, '\0', len))
        return EINVAL;
    for (char *line = text; r == 0 && *line;) {
        char *end = strchr(line, '\n');

        if (!end)
            return EINVAL;
        *end = '\0';
        r = set_line(line);
        line = end + 1;
    }
    return r;
}

/* ---- certificates ------------------------------------------------------- */

/* An image without certificates is no error. */
static int copy_system(int to)
{
    int from cleanup(fd_close) = open(SYSTEM_CA, O_RDONLY | O_CLOEXEC);
    char buf[16384];
    size_t copied = 0;
    ssize_t n = 0;

    while (from >= 0 && copied < SYSTEM_CA_MAX &&
           (n = fd_read_all(from, buf, sizeof(buf))) > 0) {
        int r = fd_write_all(to, buf, (size_t)n);

        if (r < 0)
            return -r;
        copied += (size_t)n;
    }
    return n < 0 ? (int)-n : 0;
}

static int write_ca(int folder, const char *pem, size_t len)
{
    int fd cleanup(fd_close) = -1;
    int r;

    (void)unlinkat(folder, TEMP_NAME, 0); /* of an attempt that failed */
    fd = openat(folder, TEMP_NAME,
                O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno;
    r = copy_system(fd);
    if (r == 0)
        r = -fd_write_all(fd, pem, len);
    if (r == 0 && renameat(folder, TEMP_NAME, folder, FILE_NAME) < 0)
        r = errno;
    return r;
}

int guest_ca_set(int fd)
{
    int folder cleanup(fd_close) = -1;
    char *pem cleanup(mem_free) = NULL;
    size_t len = 0;
    int r;

    if (fd < 0)
        return unlink(INIT_CA_FILE) < 0 && errno != ENOENT ? errno : 0;
    r = read_memfd(fd, INIT_CA_MAX, &pem, &len);
    if (r)
        return r;
    (void)mkdir(FOLDER, 0755); /* there already, or the next step fails */
    folder = open(FOLDER, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return folder < 0 ? errno : write_ca(folder, pem, len);
}
