/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes config.json of an OCI bundle, the input of runsc. Every path
 * is fixed (sandbox/guest_mount.c), so the file is the same for the checkpoint
 * and for each guest that is restored from it, as runsc requires. The guest's
 * first process is root of the guest without a capability; it gives up that id
 * before it runs code of a session (guest_init.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"

static const char head[] =
    "{\"ociVersion\":\"1.0.0\",\"hostname\":\"glovebox\","
    "\"root\":{\"path\":\"" SANDBOX_GUEST_IMAGE "\",\"readonly\":true},"
    "\"process\":{\"user\":{\"uid\":0,\"gid\":0},\"cwd\":\"/\","
    "\"args\":[\"/usr/bin/python3\","
    "\"/opt/glovebox/lib/glovebox_guest.py\"],"
    "\"env\":[\"PATH=/usr/local/bin:/usr/bin:/bin\",\"HOME=" SANDBOX_HOME
    "\",\"LANG=C.UTF-8\"],\"noNewPrivileges\":true,\"capabilities\":{},"
    "\"rlimits\":[{\"type\":\"RLIMIT_MEMLOCK\",\"hard\":8388608,"
    "\"soft\":8388608}]},"
    "\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"mount\"},"
    "{\"type\":\"network\"},{\"type\":\"ipc\"},{\"type\":\"uts\"}]},"
    "\"mounts\":["
    "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
    "{\"destination\":\"/sys\",\"type\":\"sysfs\",\"source\":\"sysfs\","
    "\"options\":[\"ro\"]},"
    "{\"destination\":\"/sys/fs/cgroup\",\"type\":\"cgroup\","
    "\"source\":\"cgroup\"}";

static const char tail[] = "]}\n";

static const struct {
    const char *source, *destination;
    bool writable;
    bool optional; /* only over a regular file of the image */
} binds[] = {
    {SANDBOX_GUEST_LIB, "/opt/glovebox/lib", false, false},
    {SANDBOX_DATA, SANDBOX_DATA, true, false},
    {SANDBOX_GUEST_PRIVATE "/tmp", "/tmp", true, false},
    {SANDBOX_GUEST_PRIVATE "/vartmp", "/var/tmp", true, false},
    {SANDBOX_GUEST_PRIVATE "/home", SANDBOX_HOME, true, false},
    {SANDBOX_GUEST_PRIVATE "/run", "/run", true, false},
    {SANDBOX_GUEST_SHM, "/run/shm", true, false},
    {SANDBOX_GUEST_FACTS "/resolv.conf", "/etc/resolv.conf", false, true},
};

static bool is_in_image(const char *path)
{
    char full[96];
    struct stat st;

    (void)snprintf(full, sizeof(full), SANDBOX_GUEST_IMAGE "%s", path);
    return lstat(full, &st) == 0 && S_ISREG(st.st_mode);
}

int guest_config_write(void)
{
    int fd cleanup(fd_close) =
        open(SANDBOX_GUEST_BUNDLE "/config.json",
             O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0444);
    char line[256];
    int r = fd < 0 ? -errno : fd_write_all(fd, head, sizeof(head) - 1);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(binds); i++) {
        int n;

        if (binds[i].optional && !is_in_image(binds[i].destination))
            continue;
        n = snprintf(line, sizeof(line),
                     ",{\"type\":\"bind\",\"source\":\"%s\","
                     "\"destination\":\"%s\",\"options\":[\"bind\",\"%s\","
                     "\"nosuid\",\"nodev\"]}",
                     binds[i].source, binds[i].destination,
                     binds[i].writable ? "rw" : "ro");
        r = fd_write_all(fd, line, (size_t)n);
    }
    return r < 0 ? r : fd_write_all(fd, tail, sizeof(tail) - 1);
}
