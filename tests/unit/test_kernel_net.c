/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel: what pid 1 sees of a process that tries to reach something. A child
 * wears the filter and calls, the test is its pid 1; the same calls without
 * the filter are the control. And the table, the resolver, and what shells
 * find around them.
 */
#include "kernel/guest_env.c" /* NOLINT(bugprone-suspicious-include) */
#include "kernel/net.c"       /* NOLINT(bugprone-suspicious-include) */
#include "kernel/notify.c"    /* NOLINT(bugprone-suspicious-include) */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "sandbox/seccomp.c" /* NOLINT(bugprone-suspicious-include) */
#include "wire/wire.h"

#define LOWEST 200 /* what the child may have is below */

/* ---- a process and its pid 1 -------------------------------------------- */

typedef void attempt_fn(int results);

static void say(int results, long r)
{
    int errnum = r < 0 ? errno : 0;

    if (write(results, &errnum, sizeof(errnum)) < 0)
        _exit(3);
}

static void run_attempts(attempt_fn *fn, int hand, int results)
{
    int high = fd_dup(hand, LOWEST), watch;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        _exit(1);
    watch = apply_watch(LOWEST);
    /* By sendmsg, on a number of pid 1's: not stopped. */
    if (watch < 0 || wire_send(high, "w", 1, &watch, 1) < 0)
        _exit(2);
    (void)close(watch);
    fn(results);
    _exit(0);
}

/* Serves until the child has ended; its results, count of them. */
static void watch_attempts(struct net *n, attempt_fn *fn, int *ret,
                           size_t count)
{
    int hand[2], results[2], fds[WIRE_FDS_MAX], status = -1;
    size_t fd_count = 0;
    pid_t pid;
    char w;

    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, hand), 0);
    assert_int_equal(fd_pipe(results), 0);
    pid = fork();
    if (pid == 0)
        run_attempts(fn, hand[1], results[1]);
    fd_close(&hand[1]);
    fd_close(&results[1]);
    assert_int_equal(wire_recv(hand[0], &w, 1, fds, &fd_count), 1);
    assert_int_equal(fd_count, 1);
    n->watch = fds[0];
    n->taken = true; /* there is no resolver here */
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct pollfd p = {.fd = n->watch, .events = POLLIN};

        (void)poll(&p, 1, 10);
        net_serve(n);
    }
    assert_int_equal(status, 0);
    assert_int_equal(fd_read_all(results[0], ret, count * sizeof(*ret)),
                     count * sizeof(*ret));
    fd_close(&n->watch);
    fd_close(&hand[0]);
    fd_close(&results[0]);
}

static void assert_blocked(const struct net *n, size_t i, const char *host,
                           uint16_t port, uint32_t count)
{
    assert_true(i < n->blocked_count);
    assert_string_equal(n->blocked[i].host, host);
    assert_int_equal(n->blocked[i].port, port);
    assert_int_equal(n->blocked[i].count, count);
    assert_int_equal(n->blocked[i].kind, INIT_BLOCKED_CONNECT);
    assert_true(n->blocked[i].at_ms > 0);
}

/* ---- calls ---------------------------------------------------------------
 */

static struct sockaddr_in four(const char *address, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    (void)inet_pton(AF_INET, address, &a.sin_addr);
    return a;
}

static struct sockaddr_in6 six(const char *address, uint16_t port)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6,
                             .sin6_port = htons(port)};

    (void)inet_pton(AF_INET6, address, &a.sin6_addr);
    return a;
}

static long send_to(int fd, const void *to, socklen_t len)
{
    struct iovec iov = {(char *)"x", 1};
    struct msghdr m = {.msg_name = (void *)to,
                       .msg_namelen = len,
                       .msg_iov = &iov,
                       .msg_iovlen = 1};

    return sendmsg(fd, &m, 0);
}

static void try_outside(int results)
{
    struct sockaddr_in a = four("192.0.2.1", 443), b = four("192.0.2.2", 53);
    struct sockaddr_in6 c = six("2001:db8::1", 80),
                        mapped = six("::ffff:192.0.2.3", 81);
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    int tcp6 = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in other = b;

    other.sin_family = AF_UNSPEC; /* as good as AF_INET to send to */
    say(results, connect(tcp, (struct sockaddr *)&a, sizeof(a)));
    say(results, connect(tcp, (struct sockaddr *)&a, sizeof(a)));
    say(results, sendto(udp, "x", 1, 0, (struct sockaddr *)&b, sizeof(b)));
    say(results, send_to(udp, &b, sizeof(b)));
    say(results, send_to(udp, &other, sizeof(other)));
    say(results, connect(tcp6, (struct sockaddr *)&c, sizeof(c)));
    say(results, connect(tcp6, (struct sockaddr *)&mapped, sizeof(mapped)));
}

static void E1_notify_refuses_and_notes_every_way_out(void **state)
{
    struct net n = {.proxy = -1};
    int got[7];

    (void)state;
    watch_attempts(&n, try_outside, got, ARRAY_SIZE(got));
    for (size_t i = 0; i < ARRAY_SIZE(got); i++)
        assert_int_equal(got[i], ENETUNREACH);
    assert_int_equal(n.blocked_count, 4);
    assert_blocked(&n, 0, "192.0.2.1", 443, 2);
    assert_blocked(&n, 1, "192.0.2.2", 53, 3);
    assert_blocked(&n, 2, "2001:db8::1", 80, 1);
    assert_blocked(&n, 3, "::ffff:192.0.2.3", 81, 1);
}

/* One of three hundred has an address that leads out. */
static void try_many(int results)
{
    static struct mmsghdr m[300];
    static struct iovec iov = {(char *)"x", 1};
    struct sockaddr_in here = four("127.0.0.1", 9), out = four("192.0.2.9", 9);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);

    for (size_t i = 0; i < ARRAY_SIZE(m); i++)
        m[i].msg_hdr = (struct msghdr){.msg_name = &here,
                                       .msg_namelen = sizeof(here),
                                       .msg_iov = &iov,
                                       .msg_iovlen = 1};
    say(results, sendmmsg(udp, m, ARRAY_SIZE(m), 0));
    m[299].msg_hdr.msg_name = &out;
    say(results, sendmmsg(udp, m, ARRAY_SIZE(m), 0));
    say(results, sendmmsg(udp, m, 0, 0));
    say(results, syscall(SYS_sendmmsg, udp, 8L, 5, 0));
}

static void E1_notify_looks_at_every_message(void **state)
{
    struct net n = {.proxy = -1};
    int got[4];

    (void)state;
    watch_attempts(&n, try_many, got, ARRAY_SIZE(got));
    assert_true(got[0] == 0 || got[0] == ECONNREFUSED);
    assert_int_equal(got[1], ENETUNREACH);
    assert_int_equal(got[2], 0);
    assert_int_equal(got[3], EFAULT);
    assert_int_equal(n.blocked_count, 1);
    assert_blocked(&n, 0, "192.0.2.9", 9, 1);
}

/* What never leaves, or is nonsense, is left to the kernel. */
static void try_inside(int results)
{
    struct sockaddr_in here = four("127.1.2.3", 9), any = four("0.0.0.0", 9);
    struct sockaddr_in6 one = six("::1", 9),
                        mapped = six("::ffff:127.0.0.1", 9);
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    int tcp6 = socket(AF_INET6, SOCK_STREAM, 0);
    int local = socket(AF_UNIX, SOCK_STREAM, 0), pair[2];

    (void)socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    say(results, connect(udp, (struct sockaddr *)&here, sizeof(here)));
    say(results, connect(udp, &none, sizeof(none)));
    say(results, connect(tcp, (struct sockaddr *)&any, sizeof(any)));
    say(results, connect(tcp6, (struct sockaddr *)&one, sizeof(one)));
    say(results, connect(tcp6, (struct sockaddr *)&mapped, sizeof(mapped)));
    say(results, connect(local, (struct sockaddr *)&un, sizeof(un)));
    say(results, send_to(pair[0], NULL, 0));
    say(results, syscall(SYS_connect, tcp, 16L, 16));
    say(results, syscall(SYS_connect, tcp, &here, 1L << 31));
    say(results, syscall(SYS_connect, tcp, &here, 129));
    say(results, syscall(SYS_connect, tcp, -1L, 16));
    say(results, syscall(SYS_sendmsg, tcp, 16L, 0));
    say(results, syscall(SYS_connect, -1, &here, sizeof(here)));
}

static void E1_notify_lets_pass_what_stays_inside(void **state)
{
    static const int expected[] = {
        0,      0,      ECONNREFUSED, ECONNREFUSED, ECONNREFUSED, ENOENT, 0,
        EFAULT, EINVAL, EINVAL,       EFAULT,       EFAULT,       EBADF,
    };
    struct net n = {.proxy = -1};
    int got[ARRAY_SIZE(expected)];

    (void)state;
    watch_attempts(&n, try_inside, got, ARRAY_SIZE(got));
    for (size_t i = 0; i < ARRAY_SIZE(got); i++)
        if (got[i] != expected[i])
            fail_msg("call %zu: %s", i, strerrorname_np(got[i]));
    assert_int_equal(net_pending(&n), 0);
}

/* Callers that are killed while they wait leave pid 1 as it was. */
static void try_and_die(int results)
{
    struct sockaddr_in out = four("192.0.2.1", 1);
    int tcp = socket(AF_INET, SOCK_STREAM, 0);

    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();

        if (pid == 0)
            for (;;)
                (void)connect(tcp, (struct sockaddr *)&out, sizeof(out));
        (void)usleep(500);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    say(results, connect(tcp, (struct sockaddr *)&out, sizeof(out)));
}

static void E1_notify_survives_callers_that_die(void **state)
{
    struct net n = {.proxy = -1};
    int got;

    (void)state;
    watch_attempts(&n, try_and_die, &got, 1);
    assert_int_equal(got, ENETUNREACH);
    assert_int_equal(n.blocked_count, 1);
}

/* ---- the table -----------------------------------------------------------
 */

static void E1_net_table_does_not_grow(void **state)
{
    static char payload[INIT_REPLY_MAX];
    static struct net n;
    struct init_reply reply = {0};
    struct init_blocked b;
    char host[32];
    int fd = -1;

    (void)state;
    n = (struct net){.proxy = -1};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < NET_BLOCKED_MAX + 3; i++) {
            (void)snprintf(host, sizeof(host), "host-%d", i);
            net_note(&n, INIT_BLOCKED_RESOLVE, host, 0, 1);
        }
    assert_int_equal(n.blocked_count, NET_BLOCKED_MAX);
    assert_int_equal(n.dropped, 6);
    assert_int_equal(net_pending(&n), NET_BLOCKED_MAX + 1);
    assert_int_equal(
        net_request(&n, INIT_NETWORK_BLOCKED, payload, &reply, &fd), 0);
    assert_int_equal(reply.payload_len, NET_BLOCKED_MAX * sizeof(b));
    assert_int_equal(reply.arg, 6);
    assert_int_equal(fd, -1);
    memcpy(&b, payload + 63 * sizeof(b), sizeof(b));
    assert_string_equal(b.host, "host-63");
    assert_int_equal(b.count, 2);
    assert_int_equal(net_pending(&n), 0);
    net_note(&n, INIT_BLOCKED_CONNECT, "a", 1, 1);
    n.blocked[0].count = UINT32_MAX - 1;
    net_note(&n, INIT_BLOCKED_CONNECT, "a", 1, 1);
    net_note(&n, INIT_BLOCKED_CONNECT, "a", 1, 1);
    assert_int_equal(n.blocked[0].count, UINT32_MAX);
    net_note(&n, INIT_BLOCKED_CONNECT, "a", 2, 1); /* another port */
    net_note(&n, INIT_BLOCKED_RESOLVE, "a", 1, 1); /* another kind */
    assert_int_equal(n.blocked_count, 3);
    assert_int_equal(net_request(&n, 99, payload, &reply, &fd), EINVAL);
}

/* ---- lookups -------------------------------------------------------------
 */

static int bound(int type, struct sockaddr_in *ret)
{
    socklen_t len = sizeof(*ret);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *ret = four("127.0.0.1", 0);
    assert_int_equal(bind(fd, (struct sockaddr *)ret, sizeof(*ret)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &len), 0);
    return fd;
}

/* Asks, lets pid 1 serve, and returns the code of the answer; -1: none. */
static int look_up(struct net *n, int client, const void *query, size_t len)
{
    unsigned char out[DNS_ANSWER_MAX];
    ssize_t got;

    assert_int_equal(send(client, query, len, 0), len);
    net_serve(n);
    got = recv(client, out, sizeof(out), MSG_DONTWAIT);
    return got < 12 ? -1 : out[3] & 0xf;
}

static void E1_net_resolver_notes_and_refuses_names(void **state)
{
    static const unsigned char a[] = "\0\1\1\0\0\1\0\0\0\0\0\0"
                                     "\7example\3com\0\0\1\0\1";
    static const unsigned char aaaa[] = "\0\2\1\0\0\1\0\0\0\0\0\0"
                                        "\7example\3com\0\0\34\0\1";
    static const unsigned char own[] = "\0\3\1\0\0\1\0\0\0\0\0\0"
                                       "\11localhost\0\0\1\0\1";
    struct sockaddr_in at;
    struct net n = {.watch = -1, .proxy = -1};
    int client = socket(AF_INET, SOCK_DGRAM, 0);

    (void)state;
    n.resolver = bound(SOCK_DGRAM, &at);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(look_up(&n, client, a, sizeof(a) - 1), DNS_NXDOMAIN);
    assert_int_equal(look_up(&n, client, aaaa, sizeof(aaaa) - 1),
                     DNS_NXDOMAIN);
    assert_int_equal(look_up(&n, client, own, sizeof(own) - 1), DNS_OK);
    assert_int_equal(look_up(&n, client, "nonsense", 8), -1);
    assert_int_equal(look_up(&n, client, "", 0), -1);
    assert_int_equal(n.blocked_count, 1);
    assert_string_equal(n.blocked[0].host, "example.com");
    assert_int_equal(n.blocked[0].count, 1); /* both kinds of address */
    assert_int_equal(n.blocked[0].kind, INIT_BLOCKED_RESOLVE);
    n.taken = true; /* then it is somebody else's to answer */
    assert_int_equal(look_up(&n, client, a, sizeof(a) - 1), -1);
    fd_close(&client);
    fd_close(&n.resolver);
}

/* What a client sees: the errno of connecting, or of reading then. */
static int knock(struct net *n, const struct sockaddr_in *at)
{
    int client cleanup(fd_close) = socket(AF_INET, SOCK_STREAM, 0);
    char c;

    if (connect(client, (const struct sockaddr *)at, sizeof(*at)) < 0)
        return errno;
    net_serve(n);
    return recv(client, &c, 1, MSG_DONTWAIT) < 0 ? errno : 0;
}

static void E1_net_proxy_turns_away_when_it_is_not_served(void **state)
{
    struct init_reply reply = {0};
    struct sockaddr_in at;
    struct net n = {.watch = -1, .resolver = -1};
    int fd = -1;

    (void)state;
    n.proxy = bound(SOCK_STREAM, &at);
    assert_int_equal(knock(&n, &at), ECONNREFUSED);
    for (int i = 0; i < 2; i++) {
        int client;

        assert_int_equal(
            net_request(&n, INIT_NETWORK_PROXY, NULL, &reply, &fd), 0);
        assert_int_equal(fd, n.proxy);
        assert_int_equal(
            net_request(&n, INIT_NETWORK_TAKEN, NULL, &reply, &fd), 0);
        assert_int_equal(knock(&n, &at), EAGAIN); /* somebody will answer */
        client = accept4(n.proxy, NULL, NULL, SOCK_CLOEXEC);
        assert_true(client >= 0);
        fd_close(&client);
        assert_int_equal(net_request(&n, INIT_NETWORK_BACK, NULL, &reply, &fd),
                         0);
        assert_int_equal(knock(&n, &at), ECONNRESET);
    }
    fd_close(&n.proxy);
}

/* ---- environment ---------------------------------------------------------
 */

static int set(const char *text, size_t len)
{
    int fd = memfd_create("test", MFD_CLOEXEC), r;

    assert_int_equal(fd_write_all(fd, text, len), 0);
    r = guest_env_set(fd);
    fd_close(&fd);
    return r;
}

static void guest_env_set_sets_and_takes_away(void **state)
{
    char *big cleanup(mem_free) = xcalloc(1, INIT_ENVIRONMENT_MAX + 2);

    (void)state;
    assert_int_equal(set("GB_A=1\nGB_b2=x=y z\n", 19), 0);
    assert_string_equal(getenv("GB_A"), "1");
    assert_string_equal(getenv("GB_b2"), "x=y z");
    assert_int_equal(set("GB_A\nGB_NOT\n", 12), 0);
    assert_null(getenv("GB_A"));
    assert_int_equal(set("", 0), 0);
    assert_int_equal(set("GB_A=1", 6), EINVAL); /* no end */
    assert_int_equal(set("GB A=1\n", 7), EINVAL);
    assert_int_equal(set("1A=1\n", 5), EINVAL);
    assert_int_equal(set("=1\n", 3), EINVAL);
    assert_int_equal(set("\n", 1), EINVAL);
    assert_int_equal(set("GB_A=\0\n", 7), EINVAL);
    memset(big, 'x', INIT_ENVIRONMENT_MAX);
    memcpy(big, "GB_BIG=", 7);
    big[INIT_ENVIRONMENT_MAX - 1] = '\n';
    assert_int_equal(set(big, INIT_ENVIRONMENT_MAX), 0);
    assert_int_equal(strlen(getenv("GB_BIG")), INIT_ENVIRONMENT_MAX - 8);
    big[INIT_ENVIRONMENT_MAX] = '\n';
    assert_int_equal(set(big, INIT_ENVIRONMENT_MAX + 1), EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E1_notify_refuses_and_notes_every_way_out),
        cmocka_unit_test(E1_notify_looks_at_every_message),
        cmocka_unit_test(E1_notify_lets_pass_what_stays_inside),
        cmocka_unit_test(E1_notify_survives_callers_that_die),
        cmocka_unit_test(E1_net_table_does_not_grow),
        cmocka_unit_test(E1_net_resolver_notes_and_refuses_names),
        cmocka_unit_test(E1_net_proxy_turns_away_when_it_is_not_served),
        cmocka_unit_test(guest_env_set_sets_and_takes_away),
    };

    return cmocka_run_group_tests_name("kernel_net", tests, NULL, NULL);
}
