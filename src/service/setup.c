/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the warden and the proxy. The warden gets the location of the
 * kernel's files and the bounds that it enforces on this daemon from then on;
 * the proxy gets its settings and the addresses of this host, which sessions
 * must not reach. Runs in gloveboxd while it still has the rights of the user
 * who started it. A service without the proxy still serves; its sessions then
 * have no network (E4).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
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
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "egress/call.h"
#include "model/model.h"
#include "service/service_int.h"
#include "warden/call.h"

#define UID_LOCKS SERVICE_RUN_DIR
#define UID_WINDOW 20000u
#define SPARES_MAX 64u /* more than a refill ever needs at once */

/* ---- the warden ----------------------------------------------------------
 */

/* Finds a program or folder relative to this program, in a clone or
 * installed. */
static int find_beside(const char *const *places, size_t count, char *ret,
                       size_t size, struct error *err)
{
    char exe[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (n < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot find the path of this program");
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
 * Host uids of sessions: a window of the configured range that no other
 * Glovebox on this machine uses. The lock ends with this process.
 */
static int claim_uids(struct service *s, struct warden_setup *setup,
                      struct error *err)
{
    uint32_t windows = MAX(s->conf->uid_count / UID_WINDOW, 1u);

    setup->uid_base = s->conf->uid_base;
    setup->uid_count = MIN(s->conf->uid_count, UID_WINDOW);
    if (geteuid() != 0)
        return 0; /* every session has this process's uid */
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
        /* The last one is the proxy's, the one before it glovebox-model's.
         */
        s->egress_uid = first + --setup->uid_count;
        s->model_uid = first + --setup->uid_count;
        s->uids_fd = take_fd(fd);
        return 0;
    }
    (void)error_set(err, ERR_CONFLICT,
                    "other services on this machine use every host uid of "
                    "the range %u+%u",
                    s->conf->uid_base, s->conf->uid_count);
    return error_hint(err, "Set uid_base to a range of its own.");
}

/* The bounds that the warden enforces. */
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

/* Fail closed: no pool falls back to a weaker tier than it names. */
static int check_tiers(const struct service *s, struct error *err)
{
    if (warden_call_tiers(s->warden) & WARDEN_TIER_GVISOR)
        return 0;
    for (size_t i = 0; i < s->conf->pool_count; i++) {
        const struct conf_pool *pool = &s->conf->pools[i];

        if (strcmp(pool->isolation, WARDEN_TIER_GUEST) != 0)
            continue;
        (void)error_set(err, ERR_ISOLATION,
                        "pool %s: isolation gvisor is not possible on this "
                        "host: it needs /usr/bin/runsc and a service that "
                        "root starts",
                        pool->name);
        return error_hint(err, "Install Debian's package runsc, version "
                               "20240729 or newer, or set isolation to "
                               "process.");
    }
    return 0;
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
    r = warden_call_open(path, &setup, &s->warden, err);
    return r < 0 ? r : check_tiers(s, err);
}

/* ---- the proxy -----------------------------------------------------------
 */

static int add_net(struct egress_net nets[EGRESS_NETS_MAX], int family,
                   const void *address, unsigned bits)
{
    size_t len = family == AF_INET ? 4 : 16;

    for (size_t i = 0; i < EGRESS_NETS_MAX; i++) {
        struct egress_net *n = &nets[i];

        if (n->family == (family == AF_INET ? 4 : 6) && n->bits == bits &&
            memcmp(n->address, address, len) == 0)
            return 0;
        if (n->family)
            continue;
        n->family = family == AF_INET ? 4 : 6;
        n->bits = (uint8_t)bits;
        memcpy(n->address, address, len);
        return 0;
    }
    return -ENOSPC;
}

/* Every address of this host, because a session must not reach what listens
 * here, and the address the service listens on, which may be one that another
 * machine forwards here. */
static int refuse_host_addresses(struct egress_setup *setup,
                                 const char *listen)
{
    static const unsigned char any[16];
    unsigned char a[16];
    struct ifaddrs *all = NULL;
    int r = 0;

    if (getifaddrs(&all) < 0)
        return -errno;
    for (struct ifaddrs *i = all; i && r == 0; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

        if (family == AF_INET)
            r = add_net(setup->refused, family,
                        &((struct sockaddr_in *)i->ifa_addr)->sin_addr, 32);
        else if (family == AF_INET6)
            r = add_net(setup->refused, family,
                        &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, 128);
    }
    freeifaddrs(all);
    if (r == 0 && inet_pton(AF_INET, listen, a) == 1 && memcmp(a, any, 4) != 0)
        r = add_net(setup->refused, AF_INET, a, 32);
    else if (r == 0 && inet_pton(AF_INET6, listen, a) == 1 &&
             memcmp(a, any, 16) != 0)
        r = add_net(setup->refused, AF_INET6, a, 128);
    return r;
}

/* One "address/bits" of egress_lab. */
static int add_lab_net(const char *text, size_t len,
                       struct egress_net nets[EGRESS_NETS_MAX])
{
    char copy[64], *slash, *end;
    unsigned char a[16];
    unsigned long bits;
    int family;

    if (len >= sizeof(copy))
        return -EINVAL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    slash = strchr(copy, '/');
    if (!slash)
        return -EINVAL;
    *slash = '\0';
    family = strchr(copy, ':') ? AF_INET6 : AF_INET;
    bits = strtoul(slash + 1, &end, 10);
    if (end == slash + 1 || *end || bits > (family == AF_INET ? 32u : 128u) ||
        inet_pton(family, copy, a) != 1)
        return -EINVAL;
    return add_net(nets, family, a, (unsigned)bits);
}

static int add_lab_nets(struct egress_setup *setup, const char *text,
                        struct error *err)
{
    while (*(text += strspn(text, ", "))) {
        size_t len = strcspn(text, ", ");

        if (add_lab_net(text, len, setup->lab) < 0) {
            (void)error_set(err, ERR_INVALID,
                            "egress_lab: '%.*s' is not a range",
                            (int)MIN(len, (size_t)60), text);
            return error_hint(err, "Write ranges as 10.9.0.0/24,fd00:9::/64.");
        }
        text += len;
    }
    if (setup->lab[0].family)
        log_event(LOG_WARN, "egress_lab", "means",
                  "sessions may reach private addresses", NULL);
    return 0;
}

int service_setup_egress(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct egress_setup setup = {.max_connections = c->egress_connections};
    struct priv_user user = {s->egress_uid, s->egress_uid};
    const char *const program = "glovebox-egress";
    char path[PATH_MAX];
    struct error why;
    int r = add_lab_nets(&setup, c->egress_lab, err);

    if (r < 0)
        return r; /* a wrong setting is an error; a missing proxy is not */
    (void)snprintf(setup.resolver, sizeof(setup.resolver), "%s",
                   c->egress_resolver);
    (void)snprintf(setup.index_url, sizeof(setup.index_url), "%s",
                   c->package_index);
    (void)snprintf(setup.wheels_dir, sizeof(setup.wheels_dir), "%s",
                   c->package_wheels);
    (void)snprintf(setup.ca_file, sizeof(setup.ca_file), "%s",
                   c->egress_ca_file);
    r = find_beside(&program, 1, path, sizeof(path), &why);
    if (r == 0) {
        r = refuse_host_addresses(&setup, c->listen_host);
        if (r < 0)
            r = error_errno(&why, ERR_UNAVAILABLE, -r,
                            "cannot list the addresses of this host");
    }
    if (r == 0)
        r = egress_call_open(path, s->egress_uid ? &user : NULL, &setup,
                             &s->egress, &why);
    if (r < 0)
        log_event(LOG_ERROR, "egress_not_started", "why", why.message, "means",
                  "sessions have no network", NULL);
    return 0;
}

/* ---- the process that calls models ---------------------------------------
 */

void service_setup_model(struct service *s)
{
    static const char *const program = "glovebox-model";
    struct priv_user user = {s->model_uid, s->model_uid};
    char path[PATH_MAX];
    struct error why;
    int r = find_beside(&program, 1, path, sizeof(path), &why);

    if (r == 0)
        r = model_link_open(path, s->model_uid ? &user : NULL,
                            s->conf->egress_ca_file, &s->model_link, &why);
    if (r < 0)
        log_event(LOG_ERROR, "model_process_not_started", "why", why.message,
                  "means", "only the built-in model works", NULL);
}
