/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defaults that depend on the machine and on who runs us: root keeps data
 * under /var, an ordinary user under the home directory. Called by the table
 * of options in the daemon and the command line; makes no directory.
 */
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf_int.h"

#define MEMORY_USUAL (1ull << 30)
#define MEMORY_UNIT (1ull << 20)
#define MAX_MEMORY_PERCENT 80u
#define MAX_MEMORY_LEAST (64ull << 20)
#define READY_LEAST 4u
#define READY_MOST 32u
#define READY_EACH (512ull << 20) /* bytes of the machine for one */

static char *place(const char *for_root, const char *below_home)
{
    const char *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char room[4096];

    if (geteuid() == 0)
        return xstrdup(for_root);
    /* A relative or missing HOME would put data wherever we were started. */
    if (!home || home[0] != '/') {
        if (getpwuid_r(geteuid(), &entry, room, sizeof(room), &found) != 0 ||
            !found || found->pw_dir[0] != '/')
            return xstrdup(for_root);
        home = found->pw_dir;
    }
    return xasprintf("%s/%s", home, below_home);
}

#define ROOT_DATA "/var/lib/glovebox"
#define USER_DATA ".local/share/glovebox"

char *conf_places_data(void)
{
    return place(ROOT_DATA, USER_DATA);
}

bool conf_is_system_data(const char *data_dir)
{
    return strcmp(data_dir, ROOT_DATA) == 0;
}

bool conf_is_default_data(const char *data_dir)
{
    size_t len = strlen(data_dir), tail = strlen("/" USER_DATA);

    return strcmp(data_dir, ROOT_DATA) == 0 ||
           (len > tail && strcmp(data_dir + len - tail, "/" USER_DATA) == 0);
}

char *conf_places_runtimes(void)
{
    return place("/var/cache/glovebox/runtimes", ".cache/glovebox/runtimes");
}

char *conf_places_backups(void)
{
    return place("/var/backups/glovebox", ".local/state/glovebox/backups");
}

char *conf_places_config(void)
{
    return place("/etc/glovebox/glovebox.yaml",
                 ".config/glovebox/glovebox.yaml");
}

char *conf_places_definitions(void)
{
    /* From build/bin of a clone, from PREFIX/bin, from PREFIX/libexec/x. */
    static const char *const beside[] = {
        "../../runtimes",
        "../share/glovebox/runtimes",
        "../../share/glovebox/runtimes",
    };
    char exe[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    struct stat st;

    for (size_t i = 0; n > 0 && i < ARRAY_SIZE(beside); i++) {
        char *path cleanup(mem_free) = NULL;

        exe[n] = '\0';
        *(strrchr(exe, '/') + 1) = '\0';
        path = xasprintf("%s%s", exe, beside[i]);
        if (realpath(path, real) && stat(real, &st) == 0 &&
            S_ISDIR(st.st_mode))
            return xstrdup(real);
    }
    return xstrdup("/usr/share/glovebox/runtimes");
}

char *conf_places_cores(void)
{
    return xasprintf("%d", MAX(get_nprocs(), 1));
}

/* ---- memory ------------------------------------------------------------- */

/* A control group's limit: the number in the file, or none. */
static uint64_t limit_in(const char *path)
{
    char *text cleanup(mem_free) = NULL;
    char *end;
    unsigned long long n;

    if (fd_read_file(AT_FDCWD, path, 64, &text, NULL) < 0)
        return UINT64_MAX;
    n = strtoull(text, &end, 10);
    return end == text ? UINT64_MAX : n; /* "max" */
}

/* The least limit of the group at `path` below root and of those above it. */
static uint64_t least_limit(const char *root, const char *path,
                            const char *file)
{
    char *at cleanup(mem_free) = xstrdup(path);
    uint64_t least = UINT64_MAX;

    for (;;) {
        char *name cleanup(mem_free) =
            xasprintf("%s%s/%s", root, strcmp(at, "/") ? at : "", file);
        char *slash = strrchr(at, '/');

        least = MIN(least, limit_in(name));
        if (!slash || !at[1])
            return least;
        slash[slash == at] = '\0';
    }
}

uint64_t conf_memory_within(uint64_t total, const char *groups,
                            const char *root)
{
    char *copy cleanup(mem_free) = xstrdup(groups);
    char *rest = NULL;

    for (char *line = strtok_r(copy, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *kinds = strchr(line, ':');
        char *path = kinds ? strchr(kinds + 1, ':') : NULL;

        if (!path || path[1] != '/')
            continue;
        *path++ = '\0';
        if (strcmp(kinds, ":") == 0) {
            total = MIN(total, least_limit(root, path, "memory.max"));
        } else if (strcmp(kinds, ":memory") == 0) {
            char *below cleanup(mem_free) = xasprintf("%s/memory", root);

            total =
                MIN(total, least_limit(below, path, "memory.limit_in_bytes"));
        }
    }
    return total;
}

uint64_t conf_machine_memory(void)
{
    char *groups cleanup(mem_free) = NULL;
    struct sysinfo si;
    uint64_t total =
        sysinfo(&si) == 0 ? (uint64_t)si.totalram * si.mem_unit : 0;

    if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", 16384, &groups, NULL) < 0)
        return total;
    return conf_memory_within(total, groups, "/sys/fs/cgroup");
}

uint64_t conf_max_memory_for(uint64_t machine)
{
    uint64_t most = (machine / 100 * MAX_MEMORY_PERCENT) & ~(MEMORY_UNIT - 1);

    return MAX(most, MAX_MEMORY_LEAST);
}

char *conf_places_max_memory(void)
{
    return xasprintf("%llu", (unsigned long long)conf_max_memory_for(
                                 conf_machine_memory()));
}

char *conf_places_memory(void)
{
    uint64_t most = conf_max_memory_for(conf_machine_memory());

    return xasprintf("%llu", (unsigned long long)MIN(most, MEMORY_USUAL));
}

/* At most a hundredth of it on any machine. */
unsigned conf_ready_for(uint64_t memory)
{
    return (unsigned)MAX(READY_LEAST, MIN(READY_MOST, memory / READY_EACH));
}

char *conf_places_ready(void)
{
    struct sysinfo si;
    uint64_t memory =
        sysinfo(&si) == 0 ? (uint64_t)si.totalram * si.mem_unit : 0;

    return xasprintf("%u", conf_ready_for(memory));
}
