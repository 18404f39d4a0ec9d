/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the warden: where its program and the kernel's files are, and the
 * bounds it will hold this daemon to from then on. Runs in gloveboxd while it
 * still has the starter's rights.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "service/service_int.h"
#include "warden/call.h"

#define UID_LOCKS "/run/glovebox"
#define UID_WINDOW 20000u
#define SPARES_MAX 64u /* more than the refilling ever needs at once */

/* A program or folder beside ours, in a clone or installed. */
static int find_beside(const char *const *places, size_t count, char *ret,
                       size_t size, struct error *err)
{
    char exe[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot find myself");
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < count; i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", exe, places[i]);

        if (realpath(path, real) && strlen(real) < size) {
            memcpy(ret, real, strlen(real) + 1);
            return 0;
        }
    }
    return error_set(err, ERR_INVALID, "%s is not where this program is",
                     places[0]);
}

int service_setup_beside(const char *program, char *ret, size_t size,
                         struct error *err)
{
    return find_beside(&program, 1, ret, size, err);
}

static int copy_path(char ret[WARDEN_PATH_MAX], const char *dir,
                     const char *name, struct error *err)
{
    int n = snprintf(ret, WARDEN_PATH_MAX, "%s%s", dir, name);

    if (n < 0 || n >= WARDEN_PATH_MAX)
        return error_set(err, ERR_INVALID, "the path %.80s... is too long",
                         dir);
    return 0;
}

/*
 * Host uids for our sessions: a window of the configured range that no other
 * Glovebox on this machine uses while we live. The lock goes with us.
 */
static int claim_uids(struct service *s, struct warden_setup *setup,
                      struct error *err)
{
    uint32_t windows = MAX(s->conf->uid_count / UID_WINDOW, 1u);

    setup->uid_base = s->conf->uid_base;
    setup->uid_count = MIN(s->conf->uid_count, UID_WINDOW);
    if (geteuid() != 0)
        return 0; /* every session has our own */
    if (mkdir(UID_LOCKS, 0755) < 0 && errno != EEXIST)
        return error_errno(err, ERR_INTERNAL, errno, "cannot make " UID_LOCKS);
    for (uint32_t i = 0; i < windows; i++) {
        uint32_t first = s->conf->uid_base + i * UID_WINDOW;
        char *path cleanup(mem_free) = xasprintf(UID_LOCKS "/uids-%u", first);
        int fd cleanup(fd_close) =
            open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
            return error_errno(err, ERR_INTERNAL, errno, "cannot lock %s",
                               path);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        setup->uid_base = first;
        /* The last is the proxy's, and no session's. */
        s->egress_uid = first + --setup->uid_count;
        s->uids_fd = take_fd(fd);
        return 0;
    }
    (void)error_set(err, ERR_CONFLICT,
                    "other services on this machine use every host uid of "
                    "the range %u+%u",
                    s->conf->uid_base, s->conf->uid_count);
    return error_hint(err, "Set uid_base to a range of its own.");
}

/* What the warden will hold us to from then on. */
static void fill_bounds(const struct service *s, struct warden_setup *setup)
{
    const struct conf *c = s->conf;
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];

    hash_sha256(c->data_dir, strlen(c->data_dir), hash);
    (void)snprintf(setup->instance, sizeof(setup->instance), "gb-%.16s",
                   ids_hex(hash, sizeof(hash), hex));
    setup->accepted_walls = s->accepted;
    setup->zygote_max_age_s = c->zygote_max_age_s;
    setup->zygote_max_spawns = c->zygote_max_spawns;
    setup->max_slots = c->max_sessions + 16;
    for (size_t i = 0; i < c->pool_count; i++) {
        const struct conf_pool *p = &c->pools[i];

        setup->max_slots += p->ready;
        setup->spare_scratches =
            MIN(setup->spare_scratches + p->ready, SPARES_MAX);
        setup->max_memory_bytes =
            MAX(setup->max_memory_bytes,
                MAX(p->memory_bytes, p->max_memory_bytes));
        setup->max_scratch_bytes =
            MAX(setup->max_scratch_bytes, p->scratch_bytes);
        setup->max_processes = MAX(setup->max_processes, p->processes);
        setup->max_cores = MAX(setup->max_cores, MAX(p->cores, p->max_cores));
    }
}

int service_setup_warden(struct service *s, struct error *err)
{
    static const char *const program[] = {"glovebox-warden"};
    static const char *const kernel[] = {"../lib/kernel", "kernel",
                                         "../libexec/glovebox/kernel"};
    struct warden_setup setup = {.max_slots = 0};
    char path[PATH_MAX];
    int r = find_beside(program, 1, path, sizeof(path), err);

    if (r == 0)
        r = find_beside(kernel, ARRAY_SIZE(kernel), setup.kernel_dir,
                        sizeof(setup.kernel_dir), err);
    if (r == 0)
        r = copy_path(setup.scratch_dir, s->conf->data_dir, "/scratch", err);
    if (r == 0)
        r = copy_path(setup.cache_dir, s->conf->runtime_dir, "", err);
    if (r < 0)
        return r;
    r = claim_uids(s, &setup, err);
    if (r < 0)
        return r;
    fill_bounds(s, &setup);
    return warden_call_open(path, &setup, &s->warden, err);
}
