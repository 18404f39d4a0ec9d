/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names, paths and code may be made of (F5), and the waits everyone in
 * this folder uses. Runs in gloveboxd; pure but for the waits. Paths are
 * checked here both on their way in and when a session tells us its own.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "session/session_int.h"

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
