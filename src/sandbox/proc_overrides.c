/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc and /sys show a session: the processors and memory that it was
 * granted, not those of the host. Writes small files, which mount.c binds over
 * those in /proc, and the few files of /sys from which libraries count
 * processors. A step of sandbox_enter(); the zygote reads the processor's
 * model name once.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/sandbox_int.h"

/* Written once by the zygote, read by its clones. */
static char cpu_block[4096];

void sandbox_proc_learn(void)
{
    int fd cleanup(fd_close) = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : fd_read_all(fd, cpu_block, sizeof(cpu_block) - 1);
    char *line, *end;

    cpu_block[n < 0 ? 0 : n] = '\0';
    /* Keep the first processor's block without its number. */
    end = strstr(cpu_block, "\n\n");
    if (end)
        end[1] = '\0';
    line = strchr(cpu_block, '\n');
    if (line && strncmp(cpu_block, "processor", 9) == 0)
        memmove(cpu_block, line + 1, strlen(line + 1) + 1);
}

static int write_fact(const char *path, const char *text, size_t len)
{
    int fd cleanup(fd_close) =
        open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0444);

    return fd < 0 ? -errno : fd_write_all(fd, text, len);
}

static int write_cpuinfo(uint32_t cores)
{
    char text[4352];
    char path[] = STAGE_FACTS "/cpuinfo";
    int fd cleanup(fd_close) =
        open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0444);

    if (fd < 0)
        return -errno;
    for (uint32_t i = 0; i < cores; i++) {
        int n = snprintf(text, sizeof(text), "processor\t: %u\n%s\n", i,
                         cpu_block);
        int r = fd_write_all(fd, text, (size_t)n);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Boot time: process start times are relative to it. */
static long long boot_time(void)
{
    struct timespec now, up;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* neither can fail */
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    return (long long)now.tv_sec - up.tv_sec;
}

static int write_stat(uint32_t cores)
{
    char text[8192];
    size_t used = 0;

    for (uint32_t i = 0; i <= cores && used < sizeof(text) - 256; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 i ? "cpu%u 0 0 0 0 0 0 0 0 0 0\n"
                                   : "cpu  0 0 0 0 0 0 0 0 0 0\n",
                                 i - 1);
    used += (size_t)snprintf(text + used, sizeof(text) - used,
                             "intr 0\nctxt 0\nbtime %lld\nprocesses 1\n"
                             "procs_running 1\nprocs_blocked 0\n",
                             boot_time());
    return write_fact(STAGE_FACTS "/stat", text, used);
}

static int write_meminfo(uint64_t bytes)
{
    char text[512];
    uint64_t kib = bytes / 1024;
    int n = snprintf(text, sizeof(text),
                     "MemTotal:       %8" PRIu64 " kB\n"
                     "MemFree:        %8" PRIu64 " kB\n"
                     "MemAvailable:   %8" PRIu64 " kB\n"
                     "Buffers:               0 kB\n"
                     "Cached:                0 kB\n"
                     "SwapCached:            0 kB\n"
                     "SwapTotal:             0 kB\n"
                     "SwapFree:              0 kB\n"
                     "Shmem:                 0 kB\n"
                     "SReclaimable:          0 kB\n",
                     kib, kib, kib);

    return write_fact(STAGE_FACTS "/meminfo", text, (size_t)n);
}

static int write_sys(uint32_t cores)
{
    static const char *const dirs[] = {"/sys", "/sys/devices",
                                       "/sys/devices/system",
                                       "/sys/devices/system/cpu"};
    static const char *const files[] = {"online", "present", "possible"};
    char path[96], range[32];
    int n, r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        (void)snprintf(path, sizeof(path), STAGE_FACTS "%s", dirs[i]);
        if (mkdir(path, 0755) < 0)
            return -errno;
    }
    n = cores > 1 ? snprintf(range, sizeof(range), "0-%u\n", cores - 1)
                  : snprintf(range, sizeof(range), "0\n");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++) {
        (void)snprintf(path, sizeof(path),
                       STAGE_FACTS "/sys/devices/system/cpu/%s", files[i]);
        r = write_fact(path, range, (size_t)n);
    }
    return r;
}

int sandbox_proc_write(struct sandbox_steps *s)
{
    /* pid 1, or the proxy if there is a network. It always answers, so one
     * attempt suffices. */
    static const char resolver[] = "nameserver 127.0.0.1\n"
                                   "options timeout:1 attempts:1\n";
    uint32_t cores = s->spec->limits.cores;
    int r = write_cpuinfo(cores);

    if (r == 0)
        r = write_stat(cores);
    if (r == 0)
        r = write_meminfo(s->spec->limits.memory_bytes);
    if (r == 0)
        r = write_fact(STAGE_FACTS "/loadavg", "0.00 0.00 0.00 1/1 1\n", 21);
    if (r == 0)
        r = write_fact(STAGE_FACTS "/empty", "", 0);
    if (r == 0)
        r = write_fact(STAGE_FACTS "/resolv.conf", resolver,
                       sizeof(resolver) - 1);
    if (r == 0)
        r = write_sys(cores);
    if (r < 0)
        return r;
    /* Read-only from now on; so is whatever is bound from here. */
    if (mount(STAGE_FACTS, STAGE_FACTS, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, STAGE_FACTS, NULL,
              MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV |
                  MS_NOEXEC,
              NULL) < 0)
        return -errno;
    return 0;
}
