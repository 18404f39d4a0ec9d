/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real sandbox without a network, from its daemon's side: what pid 1 tells
 * of attempts, who answers lookups and serves the proxy's socket, and what
 * code finds in its environment and reads.
 */
#include "layers_box.h"

#include <netinet/in.h>

#include "wire/dns.h"

static struct box box;

static int make_box(void **state)
{
    struct warden_limits limits = box_limits();

    (void)state;
    if (!boxes.missing)
        box_open(&box, &limits, NULL, NULL);
    return 0;
}

static int drop_box(void **state)
{
    (void)state;
    if (!boxes.missing)
        box_close(&box);
    return 0;
}

/* What was tried since it was last asked, as "kind host port count;" each. */
static const char *blocked(void)
{
    static char text[8192], page[INIT_REPLY_MAX];
    struct init_reply reply = box_ask(&box, INIT_NETWORK, INIT_NETWORK_BLOCKED,
                                      "", NULL, 0, page, NULL);
    size_t used = 0;

    assert_int_equal(reply.errnum, 0);
    text[0] = '\0';
    for (size_t at = 0; at < reply.payload_len;
         at += sizeof(struct init_blocked)) {
        struct init_blocked b;

        memcpy(&b, page + at, sizeof(b));
        used += (size_t)snprintf(
            text + used, sizeof(text) - used, "%s %s %u %u;",
            b.kind == INIT_BLOCKED_RESOLVE ? "resolve" : "connect", b.host,
            b.port, b.count);
        assert_true(used < sizeof(text));
    }
    return text;
}

static void E1_box_tells_what_was_tried(void **state)
{
    struct init_reply reply;

    (void)state;
    NEED_BOXES();
    assert_string_equal(blocked(), "");
    (void)box_try(&box, "exec 5<>/dev/tcp/192.0.2.1/80");
    assert_non_null(strstr(box.out, "Network is unreachable"));
    (void)box_try(&box, "for i in 1 2 3; do getent hosts a.example; done");
    reply = box_ask(&box, INIT_SCAN, 0, "", NULL, 0, NULL, NULL);
    assert_int_equal(reply.blocked, 2);
    assert_string_equal(blocked(),
                        "connect 192.0.2.1 80 1;resolve a.example 0 3;");
    reply = box_ask(&box, INIT_SCAN, 0, "", NULL, 0, NULL, NULL);
    assert_int_equal(reply.blocked, 0);
    box_says(&box, "getent hosts localhost | head -c 3; cat /etc/resolv.conf",
             "::1nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
    assert_string_equal(blocked(), "");
}

/* The sockets are the session's own, and whoever has them speaks in it. */
static void E1_box_hands_out_its_sockets(void **state)
{
    static const unsigned char address[4] = {127, 9, 9, 9};
    int proxy cleanup(fd_close) = -1;
    int resolver cleanup(fd_close) = -1;
    unsigned char query[DNS_QUERY_MAX], out[DNS_ANSWER_MAX];
    struct sockaddr_in from;
    socklen_t from_len = sizeof(from);
    struct dns_question q;
    pid_t pid;
    ssize_t n;

    (void)state;
    NEED_BOXES();
    (void)box_try(&box, "exec 5<>/dev/tcp/127.0.0.1/3128");
    assert_non_null(strstr(box.out, "Connection refused"));
    assert_int_equal(box_ask(&box, INIT_NETWORK, INIT_NETWORK_PROXY, "", NULL,
                             0, NULL, &proxy)
                         .errnum,
                     0);
    assert_int_equal(box_ask(&box, INIT_NETWORK, INIT_NETWORK_RESOLVER, "",
                             NULL, 0, NULL, &resolver)
                         .errnum,
                     0);
    assert_int_equal(box_ask(&box, INIT_NETWORK, INIT_NETWORK_TAKEN, "", NULL,
                             0, NULL, NULL)
                         .errnum,
                     0);
    assert_true(proxy >= 0 && resolver >= 0);
    pid = fork();
    if (pid == 0) { /* as the proxy would be: a process of the host's */
        struct pollfd p[2] = {{.fd = resolver, .events = POLLIN},
                              {.fd = proxy, .events = POLLIN}};

        if (poll(p, 1, BOX_WAIT_MS) != 1)
            _exit(1);
        n = recvfrom(resolver, query, sizeof(query), 0,
                     (struct sockaddr *)&from, &from_len);
        if (n < 0 || dns_question_parse(query, (size_t)n, &q) < 0 ||
            strcmp(q.name, "a.example") != 0 || q.type != DNS_A)
            _exit(2);
        n = (ssize_t)dns_answer_address(&q, DNS_A, address, 1, out);
        if (sendto(resolver, out, (size_t)n, 0, (struct sockaddr *)&from,
                   from_len) != n)
            _exit(3);
        if (poll(p + 1, 1, BOX_WAIT_MS) != 1)
            _exit(4);
        n = accept4(proxy, NULL, NULL, SOCK_CLOEXEC);
        _exit(n >= 0 && write((int)n, "hello", 5) == 5 ? 0 : 5);
    }
    box_says(&box, "getent ahostsv4 a.example | head -n1 | cut -d' ' -f1",
             "127.9.9.9\n");
    box_says(&box, "cat </dev/tcp/127.0.0.1/3128", "hello");
    {
        int status = -1;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    assert_string_equal(blocked(), ""); /* not pid 1's to note */
    assert_int_equal(
        box_ask(&box, INIT_NETWORK, INIT_NETWORK_BACK, "", NULL, 0, NULL, NULL)
            .errnum,
        0);
    (void)box_try(&box,
                  "cat </dev/tcp/127.0.0.1/3128; getent hosts b.example");
    assert_string_equal(blocked(), "resolve b.example 0 1;");
}

/* ---- surroundings --------------------------------------------------------
 */

static int memory_of(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return fd;
}

static void box_shells_have_the_environment(void **state)
{
    int one cleanup(fd_close) = memory_of("GB_X=a b\nHTTP_PROXY=http://p\n");
    int two cleanup(fd_close) = memory_of("GB_X\n");
    int bad cleanup(fd_close) = memory_of("GB-X=1\n");

    (void)state;
    NEED_BOXES();
    assert_int_equal(
        box_ask(&box, INIT_ENVIRONMENT, 0, "", &one, 1, NULL, NULL).errnum, 0);
    box_says(&box, "echo \"$GB_X $HTTP_PROXY\"", "a b http://p\n");
    assert_int_equal(
        box_ask(&box, INIT_ENVIRONMENT, 0, "", &two, 1, NULL, NULL).errnum, 0);
    box_says(&box, "echo \"${GB_X-gone} $HTTP_PROXY\"", "gone http://p\n");
    assert_int_equal(
        box_ask(&box, INIT_ENVIRONMENT, 0, "", &bad, 1, NULL, NULL).errnum,
        EINVAL);
    assert_int_equal(
        box_ask(&box, INIT_ENVIRONMENT, 0, "", NULL, 0, NULL, NULL).errnum,
        EINVAL);
}

static void box_certificate_is_behind_the_systems(void **state)
{
    int ca cleanup(fd_close) = memory_of("-- OURS --\n");

    (void)state;
    NEED_BOXES();
    assert_int_equal(box_ask(&box, INIT_CA, 0, "", &ca, 1, NULL, NULL).errnum,
                     0);
    box_says(&box,
             "s=/etc/ssl/certs/ca-certificates.crt; [ -r $s ] || s=/dev/null; "
             "{ cat $s; echo '-- OURS --'; } | cmp - " INIT_CA_FILE
             " && echo same",
             "same\n");
    assert_int_equal(box_ask(&box, INIT_CA, 0, "", &ca, 1, NULL, NULL).errnum,
                     0);
    assert_int_equal(box_ask(&box, INIT_CA, 0, "", NULL, 0, NULL, NULL).errnum,
                     0);
    box_says(&box, "ls -A /run/glovebox", "shell\n"); /* its own state */
    /* What code puts in the way is refused or replaced, never followed. */
    box_run(&box, "ln -s /mnt/data/t /run/glovebox/ca.pem; mkfifo "
                  "/run/glovebox/.ca.pem");
    assert_int_equal(box_ask(&box, INIT_CA, 0, "", &ca, 1, NULL, NULL).errnum,
                     0);
    box_says(&box, "ls -A /mnt/data; tail -n1 " INIT_CA_FILE, "-- OURS --\n");
    box_run(&box, "rm -r /run/glovebox; ln -s /mnt/data /run/glovebox");
    assert_int_not_equal(
        box_ask(&box, INIT_CA, 0, "", &ca, 1, NULL, NULL).errnum, 0);
    box_says(&box, "ls -A /mnt/data", "");
}

/* ---- cells ---------------------------------------------------------------
 */

/* Sends frames to a new kernel and returns the payload of its READS; len 0:
 * it sent none. */
static size_t run_cell(const char *environment, const char *code, char *ret,
                       size_t room)
{
    struct kernel_frame frame;
    int frames[2], pipe_fds[2];
    int fds[3];
    size_t len = 0;

    assert_int_equal(fd_socketpair(SOCK_STREAM, frames), 0);
    assert_int_equal(fd_pipe(pipe_fds), 0);
    fds[0] = frames[1];
    fds[1] = fds[2] = pipe_fds[1];
    assert_int_equal(
        box_ask(&box, INIT_START, 0, "", fds, 3, NULL, NULL).errnum, 0);
    fd_close(&frames[1]);
    fd_close(&pipe_fds[1]);
    if (environment)
        assert_int_equal(wire_frame_send(frames[0], KERNEL_ENVIRONMENT,
                                         environment, strlen(environment)),
                         0);
    assert_int_equal(
        wire_frame_send(frames[0], KERNEL_EXECUTE, code, strlen(code)), 0);
    (void)shutdown(frames[0], SHUT_WR);
    for (;;) {
        char *payload cleanup(mem_free) = NULL;

        wait_fd(frames[0], "frame");
        if (fd_read_all(frames[0], &frame, sizeof(frame)) != sizeof(frame))
            break;
        payload = xmalloc(frame.len + 1);
        assert_int_equal(fd_read_all(frames[0], payload, frame.len),
                         frame.len);
        if (frame.type == KERNEL_READS) {
            assert_true(len == 0 && frame.len <= room);
            len = frame.len;
            memcpy(ret, payload, len);
        }
    }
    free(box.out);
    box.out = read_pipe(pipe_fds[0]);
    fd_close(&pipe_fds[0]);
    fd_close(&frames[0]);
    assert_int_equal(box_event(&box).type, INIT_EVENT_KERNEL);
    return len;
}

static void box_cells_have_the_environment(void **state)
{
    static char reads[1u << 19];

    (void)state;
    NEED_BOXES();
    assert_int_equal(
        run_cell("GB_X=a b\nLANG\n",
                 "import os, subprocess\nprint(os.environ['GB_X'], "
                 "'LANG' in os.environ, subprocess.run('echo $GB_X', "
                 "shell=True, capture_output=True, text=True).stdout)",
                 reads, sizeof(reads)),
        0);
    assert_string_equal(box.out, "a b False a b\n\n");
}

static bool told(const char *reads, size_t len, const char *path)
{
    for (size_t at = 1; at < len; at += strlen(reads + at) + 1)
        if (strcmp(reads + at, path) == 0)
            return true;
    return false;
}

static void box_kernel_tells_what_it_read(void **state)
{
    static char reads[1u << 19];
    size_t len, count = 0;

    (void)state;
    NEED_BOXES();
    box_run(&box, "mkdir -p a/b; echo 1 >a/b/one; echo 2 >two; echo 3 >three; "
                  "echo 4 >four; for i in $(seq 300); do echo >a/$i; done");
    len =
        run_cell(NULL,
                 "import os, pathlib\nopen('/mnt/data/a/b/one').read()\n"
                 "open('two').read(); open('./a/../two').read()\n"
                 "open('three', 'w').write('x'); open('new', 'x').close()\n"
                 "open('/etc/passwd').read(); open(b'four', 'rb').read()\n"
                 "os.close(os.open('four', os.O_RDONLY))\n"
                 "[open(n) for n in ('/mnt/data/no',) if os.path.exists(n)]\n"
                 "try: open('not there')\nexcept OSError: pass\n"
                 "open(os.open('four', os.O_RDONLY)).read()\n",
                 reads, sizeof(reads));
    assert_true(told(reads, len, "a/b/one"));
    assert_true(told(reads, len, "two"));
    assert_true(told(reads, len, "four"));
    assert_int_equal(len,
                     1 + sizeof("a/b/one") + sizeof("two") + sizeof("four"));
    assert_int_equal(reads[0], 0);
    len = run_cell(NULL, "for i in range(1, 301): open(f'a/{i}').close()",
                   reads, sizeof(reads));
    for (size_t at = 1; at < len; at += strlen(reads + at) + 1)
        count++;
    assert_int_equal(count, KERNEL_READS_MAX);
    assert_int_equal(reads[0], 1);
    assert_int_equal(run_cell(NULL, "1 + 1", reads, sizeof(reads)), 0);
}

#define IN_BOX(test) cmocka_unit_test_setup_teardown(test, make_box, drop_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOX(E1_box_tells_what_was_tried),
        IN_BOX(E1_box_hands_out_its_sockets),
        IN_BOX(box_shells_have_the_environment),
        IN_BOX(box_certificate_is_behind_the_systems),
        IN_BOX(box_cells_have_the_environment),
        IN_BOX(box_kernel_tells_what_it_read),
    };

    return cmocka_run_group_tests_name("box_network", tests, boxes_start,
                                       boxes_stop);
}
