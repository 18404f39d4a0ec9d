/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names, paths and code may be made of (F5), and the waits everyone in
 * this folder uses. Runs in gloveboxd; pure but for the waits. Paths are
 * checked here both on their way in and when a session tells us its own.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "session/session_int.h"

#define PART_MAX 255u
#define DEPTH_MAX 32u

bool session_text_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(text + i, len - i);
        uint32_t c = n ? utf8_decode(text + i, n) : 0;

        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) /* C0, DEL and C1 */
            return false;
        i += n;
    }
    return true;
}

static const char *part_fault(const char *part, size_t len)
{
    if (len == 0)
        return "has an empty part";
    if (len > PART_MAX)
        return "has a part longer than 255 bytes";
    if ((len == 1 && part[0] == '.') ||
        (len == 2 && part[0] == '.' && part[1] == '.'))
        return "has a part that is '.' or '..'";
    return NULL;
}

static const char *path_fault(const char *path, size_t len)
{
    size_t depth = 0;
    size_t start = 0;

    if (len == 0)
        return "is empty";
    if (len > INIT_PATH_MAX)
        return "is longer than 1024 bytes";
    if (path[0] == '/')
        return "is not relative to /mnt/data";
    if (!utf8_valid(path, len))
        return "is not UTF-8";
    if (!session_text_plain(path, len))
        return "holds a control character";
    for (size_t i = 0; i <= len; i++) {
        const char *fault;

        if (i < len && path[i] != '/')
            continue;
        fault = part_fault(path + start, i - start);
        if (fault)
            return fault;
        if (++depth > DEPTH_MAX)
            return "is more than 32 folders deep";
        start = i + 1;
    }
    return NULL;
}

int session_text_path(const char *path, size_t len, struct error *err)
{
    const char *fault = path_fault(path, len);

    if (!fault)
        return 0;
    (void)error_set(err, ERR_INVALID, "the path %s", fault);
    return error_hint(err, "name files by their path below /mnt/data, for "
                           "example results/chart.png");
}

void session_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    /* None of these can fail on Linux with these arguments. */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

bool session_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                       uint64_t deadline_ms)
{
    struct timespec ts = {.tv_sec = (time_t)(deadline_ms / 1000),
                          .tv_nsec = (long)(deadline_ms % 1000) * 1000000};

    return pthread_cond_timedwait(cond, lock, &ts) != ETIMEDOUT;
}
