/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names, paths and code may be made of (F5), and the waits everyone in
 * this folder uses. Runs in gloveboxd; pure but for the waits. Paths are
 * checked here both on their way in and when a session tells us its own.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "session/session_int.h"

#define PART_MAX 255u
#define DEPTH_MAX 32u

/* Length of the well-formed UTF-8 sequence at p (no overlong form, no
 * surrogate, nothing above U+10FFFF), or 0. */
static size_t utf8_step(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char first, last, low, high, extra;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 0x80, 0xbf, 1},
        {0xe0, 0xe0, 0xa0, 0xbf, 2}, {0xe1, 0xec, 0x80, 0xbf, 2},
        {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2},
        {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3},
        {0xf4, 0xf4, 0x80, 0x8f, 3},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (p[0] < forms[i].first || p[0] > forms[i].last)
            continue;
        if (forms[i].extra >= left)
            return 0;
        for (size_t k = 1; k <= forms[i].extra; k++)
            if (p[k] < (k == 1 ? forms[i].low : 0x80) ||
                p[k] > (k == 1 ? forms[i].high : 0xbf))
                return 0;
        return 1u + forms[i].extra;
    }
    return 0;
}

static bool text_valid(const char *text, size_t len, bool controls)
{
    const unsigned char *p = (const unsigned char *)text;

    for (size_t i = 0; i < len;) {
        size_t n = p[i] < 0x80 ? 1 : utf8_step(p + i, len - i);

        if (n == 0)
            return false;
        /* C0, DEL and (two bytes long) C1 */
        if (!controls && (p[i] < 0x20 || p[i] == 0x7f ||
                          (p[i] == 0xc2 && n == 2 && p[i + 1] < 0xa0)))
            return false;
        i += n;
    }
    return true;
}

bool session_text_utf8(const char *text, size_t len)
{
    return text_valid(text, len, true);
}

bool session_text_plain(const char *text, size_t len)
{
    return text_valid(text, len, false);
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
    if (!session_text_utf8(path, len))
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
