/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of the namespaces of a session: ids, host name, control group view
 * and loopback. Steps of sandbox_enter(); the clone in kernel/zygote.c creates
 * the namespaces.
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
 * The only id mapped in this user namespace is the session's; the outer id
 * does not exist here. The capabilities in the new namespace stay until caps.c
 * drops them.
 */
int sandbox_ns_ids(struct sandbox_steps *s)
{
    unsigned id = sandbox_id(s->spec);

    /* An ordinary user cannot drop groups, but none of them is mapped here, so
     * they have no effect. */
    if (setgroups(0, NULL) < 0 && s->spec->own_uid)
        return -errno;
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return -errno;
    /* When the warden dies, this process must die. Changing ids clears the
     * setting, so it comes after that. As init of the pid namespace it takes
     * all others along. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    /* A new process session without a terminal: input cannot be injected. */
    (void)setsid(); /* fails only if we lead one already */
    return 0;
}

/* Joins the groups that can be joined from inside (v1), first of all: from
 * here on usage is accounted. This process has one thread, so writing 0 moves
 * all of it. */
int sandbox_ns_join(struct sandbox_steps *s)
{
    for (uint32_t i = 0; i < s->spec->groups; i++)
        if (write(s->fds->groups[i], "0", 1) != 1)
            return -errno;
    return 0;
}

/* Otherwise the warden moves us, meanwhile; no code of the session runs before
 * that. */
int sandbox_ns_groups(struct sandbox_steps *s)
{
    char in;

    return fd_read_all(s->fds->go, &in, 1) == 1 ? 0 : -EPIPE;
}

int sandbox_ns_names(struct sandbox_steps *s)
{
    static const char name[] = "glovebox";

    (void)s;
    /* Only now: the root of a control group namespace is the group of its
     * creator, and the warden moved us after the clone. */
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
 * Programs that resolve only usable address families (AI_ADDRCONFIG) send no
 * query on a machine with loopback only, and their attempts would go
 * unrecorded. A second local address is enough to make them ask.
 */
static int second_loopback(int fd)
{
    struct ifreq ifr = {.ifr_name = "lo:1"};
    struct sockaddr_in second = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};

    memcpy(&ifr.ifr_addr, &second, sizeof(second));
    return ioctl(fd, SIOCSIFADDR, &ifr) < 0 ? -errno : 0;
}

/* Loopback with the two sockets for lookups and, if the session is granted a
 * network, for the proxy. There is no other interface and no route. Done here
 * because both the interface and port 53 need a capability. */
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
