/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and numbers of a session: its ids, host name, control group view and
 * loopback. Steps of sandbox_enter(); the namespaces themselves are made by
 * the clone in kernel/zygote.c.
 */
#include <errno.h>
#include <grp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/sandbox_int.h"
#include "wire/egress_msg.h"

/*
 * The only id mapped in our user namespace is the session's; whoever we were
 * outside does not exist here. Neither the old nor the new id is root, so
 * the capabilities of the fresh namespace stay until caps.c drops them.
 */
int sandbox_ns_ids(struct sandbox_steps *s)
{
    /* An ordinary user's groups cannot be given up, but mean nothing here:
     * none of them is mapped. */
    if (setgroups(0, NULL) < 0 && s->spec->own_uid)
        return -errno;
    if (setresgid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0 ||
        setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
        return -errno;
    /* The warden's death must end us; an id change clears this, so it
     * comes after. We are init of our pid namespace: all inside goes too. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    /* A new session without a terminal, so there is none to inject into. */
    (void)setsid(); /* fails only if we lead one already, which is as good */
    return 0;
}

/* Those that can be joined from here, first of all: what is used from now on
 * is counted. We are one thread, so the thread is the process. */
int sandbox_ns_join(struct sandbox_steps *s)
{
    for (uint32_t i = 0; i < s->spec->groups; i++)
        if (write(s->fds->groups[i], "0", 1) != 1)
            return -errno;
    return 0;
}

/* Else the warden does it, which may take some milliseconds that the mounts
 * before this step used; nothing of the session's runs before it is in. */
int sandbox_ns_groups(struct sandbox_steps *s)
{
    char in;

    return fd_read_all(s->fds->go, &in, 1) == 1 ? 0 : -EPIPE;
}

int sandbox_ns_names(struct sandbox_steps *s)
{
    static const char name[] = "glovebox";

    (void)s;
    /* Only now: the root of a control group namespace is the group its
     * maker is in, and the warden moved us since the clone. */
    if (unshare(CLONE_NEWCGROUP) < 0 && errno != EINVAL)
        return -errno;
    return sethostname(name, sizeof(name) - 1) < 0 ? -errno : 0;
}

static int bound_socket(int type, uint16_t port, int *ret_fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd cleanup(fd_close) =
        socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        return -errno;
    *ret_fd = take_fd(fd);
    return 0;
}

/*
 * Programs that ask only for addresses they could use (AI_ADDRCONFIG) ask for
 * none on a machine that has but the one loopback address, and then nobody
 * would see what they looked for. A second one, of the same machine, is
 * enough for them.
 */
static int second_loopback(int fd)
{
    struct ifreq ifr = {.ifr_name = "lo:1"};
    struct sockaddr_in second = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};

    memcpy(&ifr.ifr_addr, &second, sizeof(second));
    return ioctl(fd, SIOCSIFADDR, &ifr) < 0 ? -errno : 0;
}

/* Loopback, and the two places where a session's code finds names and, if it
 * is ever granted one, a way out. There is no other interface and no route.
 * Done here because both the interface and the port need a capability. */
int sandbox_ns_network(struct sandbox_steps *s)
{
    int fd cleanup(fd_close) = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq ifr = {.ifr_name = "lo"};
    int r;

    if (fd < 0)
        return -errno;
    ifr.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
        return -errno;
    r = second_loopback(fd);
    if (r < 0)
        return r;
    r = bound_socket(SOCK_DGRAM, EGRESS_DNS_PORT, &s->fds->resolver);
    return r < 0
               ? r
               : bound_socket(SOCK_STREAM, EGRESS_PROXY_PORT, &s->fds->proxy);
}
