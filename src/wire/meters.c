/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the counters of a session's control group by descriptor. Runs in the
 * daemon at the end of every execution, and in the warden for ended sessions.
 * Works for both versions of control groups.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/meters.h"
#include "wire/warden_msg.h"

#define TEXT_MAX 4096 /* the longest, cpu.stat, has some twenty lines */

static int read_text(int fd, char ret[TEXT_MAX])
{
    ssize_t n;

    do
        n = pread(fd, ret, TEXT_MAX - 1, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    ret[n] = '\0';
    return 0;
}

static int parse_number(const char *text, uint64_t *ret)
{
    char *end;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno || (*end != '\n' && *end != '\0') ? -EINVAL : 0;
}

/* The value of a "key value" line. */
static int keyed_value(const char *text, const char *key, uint64_t *ret)
{
    size_t len = strlen(key);

    for (const char *line = text; line && *line;) {
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return parse_number(line + len + 1, ret);
        line = strchr(line, '\n');
        if (line)
            line++;
    }
    return -ENOENT;
}

/* key NULL: the number is all there is. */
static int read_meter(const struct meters *m, enum meter which,
                      const char *key, uint64_t *ret)
{
    char text[TEXT_MAX];
    int r;

    if (m->fds[which] < 0)
        return 0;
    r = read_text(m->fds[which], text);
    if (r < 0)
        return r;
    return key ? keyed_value(text, key, ret) : parse_number(text, ret);
}

static int read_cpu(int fd, uint64_t *ret_ns)
{
    char text[TEXT_MAX];
    int r;

    if (fd < 0)
        return 0;
    r = read_text(fd, text);
    if (r == 0 && *text >= '0' && *text <= '9')
        return parse_number(text, ret_ns);
    if (r == 0)
        r = keyed_value(text, "usage_usec", ret_ns);
    if (r == 0)
        *ret_ns *= 1000;
    return r;
}

int meters_read(const struct meters *m, bool reset_peak,
                struct warden_usage *ret)
{
    uint64_t n = ret->processes;
    bool any = false;
    int r;

    for (int i = 0; i < METERS; i++)
        any = any || m->fds[i] >= 0;
    if (!any)
        return -ENODATA;
    r = read_cpu(m->fds[METER_CPU], &ret->cpu_ns);
    if (r == 0)
        r = read_meter(m, METER_PEAK, NULL, &ret->memory_peak_bytes);
    /* Without a reset, the peak is that of the sandbox's whole life. */
    if (r == 0 && reset_peak && m->fds[METER_PEAK] >= 0)
        (void)!pwrite(m->fds[METER_PEAK], "0\n", 2, 0);
    if (r == 0)
        r = read_meter(m, METER_OOM, "oom_kill", &ret->oom_kills);
    if (r == 0)
        r = read_meter(m, METER_DENIED, "max", &ret->pids_denied);
    if (r == 0)
        r = read_meter(m, METER_PROCESSES, NULL, &n);
    ret->processes = (uint32_t)n;
    return r;
}

int meters_read_memory(const struct meters *m, uint64_t *ret)
{
    return m->fds[METER_MEMORY] < 0 ? -ENODATA
                                    : read_meter(m, METER_MEMORY, NULL, ret);
}

void meters_close(struct meters *m)
{
    for (int i = 0; i < METERS; i++)
        fd_close(&m->fds[i]);
}

unsigned meters_pack(const struct meters *m, int ret_fds[METERS],
                     unsigned *ret_mask)
{
    unsigned count = 0;

    *ret_mask = 0;
    for (unsigned i = 0; i < METERS; i++)
        if (m->fds[i] >= 0) {
            ret_fds[count++] = m->fds[i];
            *ret_mask |= 1u << i;
        }
    return count;
}

bool meters_unpack(struct meters *ret, unsigned mask, const int *fds,
                   unsigned count)
{
    if (mask >= 1u << METERS || (unsigned)__builtin_popcount(mask) != count)
        return false;
    for (unsigned i = 0, at = 0; i < METERS; i++)
        ret->fds[i] = mask & 1u << i ? fds[at++] : -1;
    return true;
}
