/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of code inside a sandbox: variables and a certificate
 * authority, set when a network is granted and removed with it. Runs in
 * gloveboxd on any thread. pid 1 passes the variables to shells; the thread
 * that has the turn sends them to the kernel before the next cell (collect.c).
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "box/box_int.h"

/* ---- lines ---------------------------------------------------------------
 */

static size_t name_length(const char *line, size_t len)
{
    const char *equals = memchr(line, '=', len);

    return equals ? (size_t)(equals - line) : len;
}

static bool is_line(const char *line, size_t len)
{
    size_t name_len = name_length(line, len);

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            return false;
    for (size_t i = 0; i < name_len; i++) {
        char c = line[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
              (i > 0 && c >= '0' && c <= '9')))
            return false;
    }
    return name_len > 0;
}

/* The line at *pos without its newline; false at the end. */
static bool next_line(const char *text, size_t len, size_t *pos,
                      const char **ret_line, size_t *ret_len)
{
    const char *at = text + *pos, *end;

    if (*pos >= len)
        return false;
    end = memchr(at, '\n', len - *pos);
    *ret_line = at;
    *ret_len = end ? (size_t)(end - at) : len - *pos;
    *pos += *ret_len + 1;
    return true;
}

static bool text_names(const char *text, size_t len, const char *name,
                       size_t n)
{
    const char *line;
    size_t line_len, pos = 0;

    while (next_line(text, len, &pos, &line, &line_len))
        if (name_length(line, line_len) == n && memcmp(line, name, n) == 0)
            return true;
    return false;
}

static int check_lines(const char *text, size_t len, struct error *err)
{
    const char *line;
    size_t line_len, pos = 0;

    while (len <= INIT_ENVIRONMENT_MAX &&
           next_line(text, len, &pos, &line, &line_len))
        if (!is_line(line, line_len))
            return error_set(err, ERR_INVALID,
                             "a variable's name or value is not plain");
    if (len > INIT_ENVIRONMENT_MAX)
        return error_set(err, ERR_INVALID,
                         "the environment is longer than %u bytes",
                         INIT_ENVIRONMENT_MAX);
    return 0;
}

/* ---- to pid 1 ------------------------------------------------------------
 */

static int memfd_of(const char *bytes, size_t len)
{
    int fd cleanup(fd_close) =
        memfd_create("guest-env", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || fd_write_all(fd, bytes, len) < 0 ||
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return -1;
    return take_fd(fd);
}

static int send_guest_env(struct box *b, enum init_request_type type,
                          const char *bytes, size_t len, struct error *err)
{
    int fd cleanup(fd_close) = len ? memfd_of(bytes, len) : -1;
    struct broker_request request = {
        .type = type, .fds = &fd, .fd_count = len ? 1 : 0};
    struct broker_reply reply;
    int rc;

    if (len && fd < 0)
        return error_set(err, ERR_BUSY, "no memory for a sandbox's settings");
    rc = box_broker_call(b, &request, NULL, 0, false, &reply, err);
    if (rc == 0 && reply.errnum)
        rc = error_errno(err, ERR_GUEST, reply.errnum,
                         "the sandbox did not take its settings");
    return rc;
}

/* ---- for others ----------------------------------------------------------
 */

int box_guest_env_set(struct box *b, const char *text, size_t len,
                      struct error *err)
{
    struct buf merged = {0};
    int rc = check_lines(text, len, err);

    if (rc < 0 || len == 0)
        return rc;
    /* Held throughout, so that pid 1 and the kernel get changes in one order.
     */
    mutex_lock(&b->guest_env_lock);

    /* Variables set earlier and not set now, then those set now. */
    const char *line;
    size_t line_len, pos = 0;

    while (next_line(b->environment.data, b->environment.len, &pos, &line,
                     &line_len))
        if (!text_names(text, len, line, name_length(line, line_len))) {
            buf_add(&merged, line, line_len);
            buf_add(&merged, "\n", 1);
        }
    for (pos = 0; next_line(text, len, &pos, &line, &line_len);) {
        buf_add(&merged, line, line_len);
        buf_add(&merged, "\n", 1);
    }

    if (merged.len > INIT_ENVIRONMENT_MAX)
        rc = error_set(err, ERR_INVALID,
                       "the environment is longer than %u bytes",
                       INIT_ENVIRONMENT_MAX);
    else
        rc = send_guest_env(b, INIT_ENVIRONMENT, merged.data, merged.len, err);
    if (rc == 0) {
        buf_done(&b->environment);
        b->environment = merged;
        b->environment_told = false;
        b->environment_changes++;
    } else {
        buf_done(&merged);
    }
    mutex_unlock(&b->guest_env_lock);
    return rc;
}

int box_guest_ca_set(struct box *b, const char *pem, size_t len,
                     struct error *err)
{
    if (len > INIT_CA_MAX)
        return error_set(err, ERR_INVALID,
                         "a certificate is longer than %u bytes", INIT_CA_MAX);
    return send_guest_env(b, INIT_CA, pem, len, err);
}

void box_guest_env_take(struct box *b, struct buf *ret)
{
    struct box_helper *helper = box_helper_active(b);
    bool told;

    mutex_lock(&b->guest_env_lock);
    told = helper ? helper->environment == b->environment_changes
                  : b->environment_told;
    if (!told && b->environment.len)
        buf_add(ret, b->environment.data, b->environment.len);
    if (helper)
        helper->environment = b->environment_changes;
    else
        b->environment_told = true;
    mutex_unlock(&b->guest_env_lock);
}

void box_guest_env_reset(struct box *b)
{
    mutex_lock(&b->guest_env_lock);
    b->environment_told = false;
    mutex_unlock(&b->guest_env_lock);
}
