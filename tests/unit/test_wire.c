/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire: descriptors arrive close-on-exec and never leak, a packet that does
 * not fit is refused whole, frames survive short writes, and the pairs codec
 * accepts exactly what lies inside its payload.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "wire/meters.h"
#include "wire/warden_msg.h"
#include "wire/wire.h"

static unsigned open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n;
}

struct link {
    int ends[2];
    unsigned before; /* descriptors open when only the link is */
};

static int make_link(void **state)
{
    struct link *l = xcalloc(1, sizeof(*l));

    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, l->ends), 0);
    l->before = open_fds();
    *state = l;
    return 0;
}

static int drop_link(void **state)
{
    struct link *l = *state;

    fd_close(&l->ends[0]);
    fd_close(&l->ends[1]);
    free(l);
    return 0;
}

/* ---- packets ------------------------------------------------------------ */

static void C5_wire_recv_descriptors_are_close_on_exec(void **state)
{
    struct link *l = *state;
    int given[WIRE_FDS_MAX], got[WIRE_FDS_MAX];
    size_t count = 0;
    char msg[8];

    for (size_t i = 0; i < WIRE_FDS_MAX; i++)
        given[i] = STDERR_FILENO;
    assert_int_equal(wire_send(l->ends[0], "hello", 5, given, WIRE_FDS_MAX),
                     0);
    assert_int_equal(wire_recv(l->ends[1], msg, sizeof(msg), got, &count), 5);
    assert_memory_equal(msg, "hello", 5);
    assert_int_equal(count, WIRE_FDS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
        fd_close(&got[i]);
    }
    assert_int_equal(open_fds(), l->before);
}

static void wire_send_refuses_too_many_descriptors(void **state)
{
    struct link *l = *state;
    int given[WIRE_FDS_MAX + 1] = {0};

    assert_int_equal(wire_send(l->ends[0], "x", 1, given, WIRE_FDS_MAX + 1),
                     -EINVAL);
}

static void wire_recv_at_and_above_the_room(void **state)
{
    struct link *l = *state;
    int fd = STDERR_FILENO, got[WIRE_FDS_MAX];
    size_t count = 9;
    char msg[4];

    assert_int_equal(wire_send(l->ends[0], "1234", 4, &fd, 1), 0);
    assert_int_equal(wire_send(l->ends[0], "12345", 5, &fd, 1), 0);
    assert_int_equal(wire_send(l->ends[0], "12", 2, NULL, 0), 0);
    assert_int_equal(wire_recv(l->ends[1], msg, sizeof(msg), got, &count), 4);
    assert_int_equal(count, 1);
    fd_close(&got[0]);
    assert_int_equal(wire_recv(l->ends[1], msg, sizeof(msg), got, &count),
                     -EMSGSIZE);
    assert_int_equal(count, 0);
    assert_int_equal(open_fds(), l->before);
    /* The link itself is whole: the next packet is the next packet. */
    assert_int_equal(wire_recv(l->ends[1], msg, sizeof(msg), got, &count), 2);
    assert_int_equal(count, 0);
}

/* A peer is free to attach more than we have room for. */
static void wire_recv_drops_descriptors_beyond_its_room(void **state)
{
    enum {
        MANY = WIRE_FDS_MAX + 3
    };
    struct link *l = *state;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * MANY)];
    } control = {0};
    struct iovec iov = {(void *)"x", 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof(control.room)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    int got[WIRE_FDS_MAX], given[MANY];
    size_t count = 9;
    char byte;

    for (size_t i = 0; i < MANY; i++)
        given[i] = STDERR_FILENO;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(given));
    memcpy(CMSG_DATA(c), given, sizeof(given));
    assert_int_equal(sendmsg(l->ends[0], &msg, 0), 1);
    assert_int_equal(wire_recv(l->ends[1], &byte, 1, got, &count), -EMSGSIZE);
    assert_int_equal(count, 0);
    assert_int_equal(open_fds(), l->before);
}

static void wire_recv_without_room_for_descriptors_closes_them(void **state)
{
    struct link *l = *state;
    int fd = STDERR_FILENO;
    size_t count = 9;
    char byte;

    assert_int_equal(wire_send(l->ends[0], "x", 1, &fd, 1), 0);
    assert_int_equal(wire_recv(l->ends[1], &byte, 1, NULL, &count), 1);
    assert_int_equal(count, 0);
    assert_int_equal(wire_send(l->ends[0], "x", 1, &fd, 1), 0);
    assert_int_equal(wire_recv(l->ends[1], &byte, 1, NULL, NULL), 1);
    assert_int_equal(open_fds(), l->before);
}

static void wire_send2_is_one_packet(void **state)
{
    struct link *l = *state;
    char msg[16];

    assert_int_equal(wire_send2(l->ends[0], "head", 4, "body", 4, NULL, 0), 0);
    assert_int_equal(wire_recv(l->ends[1], msg, sizeof(msg), NULL, NULL), 8);
    assert_memory_equal(msg, "headbody", 8);
    assert_int_equal(wire_send2(l->ends[0], "head", 4, NULL, 0, NULL, 0), 0);
    assert_int_equal(wire_recv(l->ends[1], msg, sizeof(msg), NULL, NULL), 4);
}

static void wire_recv_tells_the_end_and_send_does_not_signal(void **state)
{
    struct link *l = *state;
    int got[WIRE_FDS_MAX];
    size_t count = 9;
    char byte;

    fd_close(&l->ends[0]);
    assert_int_equal(wire_recv(l->ends[1], &byte, 1, got, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(wire_send(l->ends[1], "x", 1, NULL, 0), -EPIPE);
    assert_int_equal(wire_frame_send(l->ends[1], 1, "x", 1), -EPIPE);
}

/* ---- frames ------------------------------------------------------------- */

/* More than a socket takes at once, so that the sender has to go on. */
static void wire_frame_send_survives_short_writes(void **state)
{
    const size_t len = 3u << 20;
    char *out cleanup(mem_free) = xmalloc(len);
    char *in cleanup(mem_free) = xmalloc(len);
    struct kernel_frame head;
    int pair[2], status = 0;
    pid_t pid;

    (void)state;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(i * 7 + i / 251);
    assert_int_equal(fd_socketpair(SOCK_STREAM, pair), 0);
    pid = fork();
    if (pid == 0)
        _exit(wire_frame_send(pair[0], KERNEL_DISPLAY, out, len) != 0);
    fd_close(&pair[0]);
    assert_int_equal(fd_read_all(pair[1], &head, sizeof(head)), sizeof(head));
    assert_int_equal(head.type, KERNEL_DISPLAY);
    assert_int_equal(head.len, len);
    assert_int_equal(fd_read_all(pair[1], in, len), len);
    assert_memory_equal(in, out, len);
    assert_int_equal(fd_read_all(pair[1], in, 1), 0);
    fd_close(&pair[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void wire_frame_send_refuses_above_the_limit(void **state)
{
    int pair[2];
    char byte;

    (void)state;
    assert_int_equal(fd_socketpair(SOCK_STREAM, pair), 0);
    assert_int_equal(wire_frame_send(pair[0], 1, "", KERNEL_FRAME_MAX + 1),
                     -EMSGSIZE);
    fd_close(&pair[0]);
    assert_int_equal(fd_read_all(pair[1], &byte, 1), 0); /* not one byte */
    fd_close(&pair[1]);
}

/* ---- pairs -------------------------------------------------------------- */

static void add_pair(struct buf *b, const char *key, size_t key_len,
                     const char *value, size_t value_len)
{
    uint32_t lens[2] = {(uint32_t)key_len, (uint32_t)value_len};

    buf_add(b, lens, sizeof(lens));
    buf_add(b, key, key_len);
    buf_add(b, value, value_len);
}

static void wire_pairs_next_gives_back_what_was_packed(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct kernel_pair p;
    size_t pos = 0;

    (void)state;
    add_pair(&b, "text/plain", 10, "2", 1);
    add_pair(&b, "", 0, "", 0);
    add_pair(&b, "image/png", 9, "\x89PNG\0\n", 6);
    assert_int_equal(wire_pairs_next(b.data, b.len, &pos, &p), 1);
    assert_int_equal(p.key_len, 10);
    assert_memory_equal(p.key, "text/plain", 10);
    assert_memory_equal(p.value, "2", 1);
    assert_int_equal(wire_pairs_next(b.data, b.len, &pos, &p), 1);
    assert_int_equal(p.key_len, 0);
    assert_int_equal(p.value_len, 0);
    assert_int_equal(wire_pairs_next(b.data, b.len, &pos, &p), 1);
    assert_memory_equal(p.value, "\x89PNG\0\n", 6);
    assert_int_equal(wire_pairs_next(b.data, b.len, &pos, &p), 0);
    assert_int_equal(pos, b.len);
    pos = 0;
    assert_int_equal(wire_pairs_next(b.data, 0, &pos, &p), 0);
}

/* Cut after every byte; copied to a block of that size for the sanitizer. */
static void H3_wire_pairs_next_at_every_truncation(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    size_t first;

    (void)state;
    add_pair(&b, "name", 4, "ValueError", 10);
    first = b.len;
    add_pair(&b, "message", 7, "no", 2);
    for (size_t len = 0; len <= b.len; len++) {
        char *cut cleanup(mem_free) = xmalloc(len);
        struct kernel_pair p;
        size_t pos = 0;
        int whole = 0, r;

        memcpy(cut, b.data, len);
        while ((r = wire_pairs_next(cut, len, &pos, &p)) > 0)
            whole++;
        assert_int_equal(whole, (len >= first) + (len == b.len));
        assert_int_equal(
            r, len == 0 || len == first || len == b.len ? 0 : -EBADMSG);
    }
}

static void H3_wire_pairs_next_key_at_and_above_the_limit(void **state)
{
    char key[KERNEL_PAIR_KEY_MAX + 1];

    (void)state;
    memset(key, 'k', sizeof(key));
    for (size_t len = KERNEL_PAIR_KEY_MAX - 1; len <= sizeof(key); len++) {
        struct buf b cleanup(buf_done) = {0};
        struct kernel_pair p;
        size_t pos = 0;

        add_pair(&b, key, len, "v", 1);
        assert_int_equal(wire_pairs_next(b.data, b.len, &pos, &p),
                         len <= KERNEL_PAIR_KEY_MAX ? 1 : -EBADMSG);
    }
}

static void H3_wire_pairs_next_refuses_lengths_that_wrap(void **state)
{
    static const uint32_t odd[][2] = {
        {0, UINT32_MAX}, {255, UINT32_MAX - 254},    {UINT32_MAX, 0},
        {1, UINT32_MAX}, {0x80000000u, 0x80000000u},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
        char payload[sizeof(odd[0]) + 300] = {0};
        struct kernel_pair p;
        size_t pos = 0;

        memcpy(payload, odd[i], sizeof(odd[i]));
        assert_int_equal(wire_pairs_next(payload, sizeof(payload), &pos, &p),
                         -EBADMSG);
        assert_int_equal(pos, 0);
    }
}

/* ---- meters ------------------------------------------------------------- */

static int file_of(const char *text)
{
    int fd = memfd_create("meter", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static void meters_read_knows_both_versions(void **state)
{
    static const char *const texts[2][METERS] = {
        {"123456\n", "9000\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
         "max 4\n", "2\n", "8000\n"},
        {"usage_usec 123\nuser_usec 7\n", "9000\n",
         "low 0\noom 8\noom_kill 3\n", "max 4\n", "2\n", "8000\n"},
    };
    static const uint64_t cpu[] = {123456, 123000};

    (void)state;
    for (int v = 0; v < 2; v++) {
        struct meters m = METERS_NONE;
        struct warden_usage u = {.alive = 1, .locks = 5};
        char peak[8] = "";
        uint64_t memory = 0;

        for (int i = 0; i < METERS; i++)
            m.fds[i] = file_of(texts[v][i]);
        assert_int_equal(meters_read(&m, false, &u), 0);
        assert_int_equal(meters_read(&m, true, &u), 0); /* and again */
        assert_int_equal(u.cpu_ns, cpu[v]);
        assert_int_equal(u.memory_peak_bytes, 9000);
        assert_int_equal(u.oom_kills, 3);
        assert_int_equal(u.pids_denied, 4);
        assert_int_equal(u.processes, 2);
        assert_int_equal(u.locks, 5); /* not theirs to say */
        assert_int_equal(pread(m.fds[METER_PEAK], peak, 2, 0), 2);
        assert_string_equal(peak, "0\n"); /* a new one begun */
        assert_int_equal(meters_read_memory(&m, &memory), 0);
        assert_int_equal(memory, 8000);
        meters_close(&m);
    }
}

static void meters_read_tells_what_it_cannot(void **state)
{
    static const char *const bad[] = {"", "x\n", "-1\n", "12 34\n",
                                      "99999999999999999999999\n"};
    struct warden_usage u = {.oom_kills = 6};
    struct meters m = METERS_NONE;

    (void)state;
    assert_int_equal(meters_read(&m, true, &u), -ENODATA);
    assert_int_equal(meters_read_memory(&m, &u.cpu_ns), -ENODATA);
    m.fds[METER_PROCESSES] = file_of("17\n");
    assert_int_equal(meters_read(&m, true, &u), 0);
    assert_int_equal(u.processes, 17);
    assert_int_equal(u.oom_kills, 6);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        fd_close(&m.fds[METER_PEAK]);
        m.fds[METER_PEAK] = file_of(bad[i]);
        assert_int_equal(meters_read(&m, false, &u), -EINVAL);
    }
    fd_close(&m.fds[METER_PEAK]);
    m.fds[METER_OOM] = file_of("oom_kill_disable 0\n");
    assert_int_equal(meters_read(&m, false, &u), -ENOENT);
    meters_close(&m);
}

#define ON_LINK(test)                                                         \
    cmocka_unit_test_setup_teardown(test, make_link, drop_link)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LINK(C5_wire_recv_descriptors_are_close_on_exec),
        ON_LINK(wire_send_refuses_too_many_descriptors),
        ON_LINK(wire_recv_at_and_above_the_room),
        ON_LINK(wire_recv_drops_descriptors_beyond_its_room),
        ON_LINK(wire_recv_without_room_for_descriptors_closes_them),
        ON_LINK(wire_send2_is_one_packet),
        ON_LINK(wire_recv_tells_the_end_and_send_does_not_signal),
        cmocka_unit_test(wire_frame_send_survives_short_writes),
        cmocka_unit_test(wire_frame_send_refuses_above_the_limit),
        cmocka_unit_test(wire_pairs_next_gives_back_what_was_packed),
        cmocka_unit_test(H3_wire_pairs_next_at_every_truncation),
        cmocka_unit_test(H3_wire_pairs_next_key_at_and_above_the_limit),
        cmocka_unit_test(H3_wire_pairs_next_refuses_lengths_that_wrap),
        cmocka_unit_test(meters_read_knows_both_versions),
        cmocka_unit_test(meters_read_tells_what_it_cannot),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
