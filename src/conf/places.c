/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defaults that depend on the machine and on who runs us: root keeps data
 * under /var, an ordinary user under the home directory. Called by the table
 * of options in the daemon and the command line; makes no directory.
 */
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/mem.h"
#include "conf/conf_int.h"

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

char *conf_places_data(void)
{
    return place("/var/lib/glovebox", ".local/share/glovebox");
}

char *conf_places_runtimes(void)
{
    return place("/var/cache/glovebox/runtimes", ".cache/glovebox/runtimes");
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

/* Below a hundredth of it, whatever the machine. */
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
