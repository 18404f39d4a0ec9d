/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox: control groups of both versions on trees of plain files, the
 * system call filter loaded into children that try what it must refuse, and
 * the steps of sandbox_enter() that need neither root nor namespaces.
 *
 * Plain folders lack what the kernel puts into a new group, so the knobs are
 * made beforehand. Each refused call is also tried without the filter, where
 * it must fail otherwise, so that a wrong argument cannot pass for a wall.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/sandbox_int.h"

#define ALL_WALLS (WARDEN_WALL_MEMORY | WARDEN_WALL_PIDS | WARDEN_WALL_CPU)

static const struct warden_limits limits = {.memory_bytes = 1073741824,
                                            .processes = 128,
                                            .cores = 3,
                                            .descriptors = 256};

/* ---- a tree of plain files ---------------------------------------------- */

static char root[64]; /* of the test that runs */

static int make_tree(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/glovebox-test-sandbox-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_tree(void **state)
{
    char *argv[] = {(char *)"rm", (char *)"-rf", root, NULL};
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        (void)execv("/bin/rm", argv);
        _exit(127);
    }
    return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static const char *in_root(const char *path)
{
    static char full[512];

    (void)snprintf(full, sizeof(full), "%s/%s", root, path);
    return full;
}

/* Makes the file and whatever folders its path names. */
static void put(const char *path, const char *text)
{
    char full[512];
    int fd;

    (void)snprintf(full, sizeof(full), "%s", in_root(path));
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void)mkdir(full, 0755); /* or it is there */
        *p = '/';
    }
    fd = open(full, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    fd_close(&fd);
}

static void assert_file(const char *path, const char *expected)
{
    char *text cleanup(mem_free) = NULL;

    if (fd_read_file(AT_FDCWD, in_root(path), 4096, &text, NULL) < 0)
        fail_msg("no %s", path);
    assert_string_equal(text, expected);
}

static struct cgroup_tree *tree_of(const char *self)
{
    struct cgroup_tree *t = NULL;

    put("self", self);
    assert_int_equal(
        sandbox_cgroup_open(root, in_root("self"), "glovebox-t", &t), 0);
    assert_non_null(t);
    return t;
}

/* A child to be killed; it also ends with us, should a test fail first. */
static pid_t sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void assert_killed(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* ---- control groups, version 2 ------------------------------------------ */

/* Background groups may use all processors but the first; with one processor
 * there is nothing to reserve. */
static void check_reserve(struct cgroup_tree *t, const char *knob)
{
    struct buf all cleanup(buf_done) = {0};
    struct buf others cleanup(buf_done) = {0};
    cpu_set_t mine;
    int count = 0, last = -1;

    assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &mine))
            continue;
        buf_addf(&all, all.len ? ",%d" : "%d", i);
        if (count++ > 0)
            buf_addf(&others, others.len ? ",%d" : "%d", i);
    }
    sandbox_cpu_reserve_apply(t, "s1", 1);
    if (count < 16) /* from there on it is more than one */
        assert_file(knob, count > 1 ? others.data : "");
    sandbox_cpu_reserve_apply(t, "s1", 0);
    if (count < 64)
        assert_file(knob, count > 1 ? all.data : "");
    /* Off the last one, where somebody else is to have that; and off the
     * first again where that is too much to ask. */
    for (int i = 0; i < 64 && count > 1 && count < 16; i++)
        if (CPU_ISSET(i, &mine))
            last = i;
    if (last >= 0) {
        uint64_t one[SANDBOX_CPU_WORDS] = {(uint64_t)1 << last};
        uint64_t many[SANDBOX_CPU_WORDS] = {UINT64_MAX};

        put(knob, ""); /* a file of the kernel forgets what was written */
        sandbox_cpu_reserve_choose(t, one);
        sandbox_cpu_reserve_apply(t, "s1", 1);
        *strrchr(all.data, ',') = '\0';
        assert_file(knob, all.data);
        put(knob, "");
        sandbox_cpu_reserve_choose(t, many);
        sandbox_cpu_reserve_apply(t, "s1", 1);
        assert_file(knob, others.data);
    }
}

static struct cgroup_tree *open_v2(void)
{
    static const char *const knobs[] = {
        "memory.max", "memory.swap.max", "pids.max",
        "cpu.max",    "cgroup.procs",    "cgroup.kill",
    };
    struct cgroup_tree *t;
    char path[64];

    put("unit/cgroup.controllers", "cpuset cpu io memory pids\n");
    put("unit/cgroup.subtree_control", "");
    put("cgroup.controllers", "cpuset cpu io memory pids\n");
    put("unit/glovebox-t/cgroup.controllers", "cpu memory pids\n");
    put("unit/glovebox-t/cgroup.subtree_control", "");
    for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
        (void)snprintf(path, sizeof(path), "unit/glovebox-t/s1/%s", knobs[i]);
        put(path, "");
    }
    t = tree_of("0::/unit\n");
    assert_int_equal(sandbox_cgroup_version(t), 2);
    assert_int_equal(sandbox_cgroup_walls(t), ALL_WALLS);
    assert_int_equal(sandbox_cgroup_make(t, "s1"), 0);
    return t;
}

static void R2_R3_cgroup_v2_limit_writes_the_exact_values(void **state)
{
    struct cgroup_tree *t = open_v2();

    (void)state;
    assert_int_equal(sandbox_cgroup_limit(t, "s1", &limits), 0);
    assert_file("unit/glovebox-t/s1/memory.max", "1073741824");
    assert_file("unit/glovebox-t/s1/memory.swap.max", "0");
    assert_file("unit/glovebox-t/s1/pids.max", "128");
    assert_file("unit/glovebox-t/s1/cpu.max", "300000 100000");
    assert_int_equal(sandbox_cgroup_add(t, "s1", 4711), 0);
    assert_file("unit/glovebox-t/s1/cgroup.procs", "4711");
    /* Not to be limited is not to be used. */
    assert_int_equal(unlink(in_root("unit/glovebox-t/s1/pids.max")), 0);
    assert_int_equal(sandbox_cgroup_limit(t, "s1", &limits), -ENOENT);
    sandbox_cgroup_close(t);
}

/* A kernel that does not swap lacks one knob; none may lack the other. */
static void R2_cgroup_v2_without_a_memory_limit_is_refused(void **state)
{
    struct cgroup_tree *t = open_v2();

    (void)state;
    assert_int_equal(unlink(in_root("unit/glovebox-t/s1/memory.swap.max")), 0);
    assert_int_equal(sandbox_cgroup_limit(t, "s1", &limits), 0);
    assert_int_equal(unlink(in_root("unit/glovebox-t/s1/memory.max")), 0);
    assert_int_equal(sandbox_cgroup_limit(t, "s1", &limits), -ENOENT);
    sandbox_cgroup_close(t);
}

static void cgroup_v2_usage_reads_the_counters(void **state)
{
    struct warden_usage u = {0};
    struct cgroup_tree *t = open_v2();

    (void)state;
    assert_int_equal(sandbox_cgroup_usage(t, "s1", 0, &u), -ENOENT);
    put("unit/glovebox-t/s1/cpu.stat", "usage_usec 12\nuser_usec 5\n");
    put("unit/glovebox-t/s1/memory.current", "4096\n");
    put("unit/glovebox-t/s1/memory.events",
        "low 0\noom 9\noom_kill 2\noom_group_kill 0\n");
    put("unit/glovebox-t/s1/pids.events", "max 7\n");
    put("unit/glovebox-t/s1/pids.current", "3\n");
    assert_int_equal(sandbox_cgroup_usage(t, "s1", 0, &u), 0);
    assert_int_equal(u.cpu_ns, 12000);
    assert_int_equal(u.memory_peak_bytes, 4096); /* a kernel without peaks */
    assert_int_equal(u.oom_kills, 2);
    assert_int_equal(u.pids_denied, 7);
    assert_int_equal(u.processes, 3);
    put("unit/glovebox-t/s1/memory.peak", "8192\n");
    assert_int_equal(sandbox_cgroup_usage(t, "s1", 0, &u), 0);
    assert_int_equal(u.memory_peak_bytes, 8192);
    put("unit/glovebox-t/s1/pids.current", "not a number\n");
    assert_int_equal(sandbox_cgroup_usage(t, "s1", 0, &u), -EINVAL);
    sandbox_cgroup_close(t);
}

static void R1_cgroup_v2_kill_takes_the_whole_group(void **state)
{
    struct cgroup_tree *t = open_v2();
    pid_t pid = sleeper();
    char text[32];

    (void)state;
    sandbox_cgroup_kill(t, "s1");
    assert_file("unit/glovebox-t/s1/cgroup.kill", "1");
    /* A kernel without cgroup.kill: freeze, kill what is listed, thaw. */
    assert_int_equal(unlink(in_root("unit/glovebox-t/s1/cgroup.kill")), 0);
    (void)snprintf(text, sizeof(text), "1\n0\n-1\n%d\n", (int)pid);
    put("unit/glovebox-t/s1/cgroup.procs", text);
    put("unit/glovebox-t/s1/cgroup.freeze", "");
    sandbox_cgroup_kill(t, "s1");
    assert_killed(pid);
    assert_file("unit/glovebox-t/s1/cgroup.freeze", "0");
    sandbox_cgroup_close(t);
}

static void R7_cgroup_remove_and_sweep_leave_nothing_of_ours(void **state)
{
    struct cgroup_tree *t = open_v2();

    (void)state;
    assert_int_equal(sandbox_cgroup_make(t, "s2"), 0);
    assert_int_equal(sandbox_cgroup_make(t, "s2"), 0); /* there is fine */
    assert_int_equal(sandbox_cgroup_remove(t, "s2"), 0);
    assert_int_equal(access(in_root("unit/glovebox-t/s2"), F_OK), -1);
    assert_int_equal(sandbox_cgroup_remove(t, "s2"), 0); /* so is gone */
    assert_int_equal(sandbox_cgroup_remove(t, "s1"), -ENOTEMPTY);
    (void)mkdir(in_root("unit/glovebox-t/s31"), 0755);
    (void)mkdir(in_root("unit/glovebox-t/s4x"), 0755);
    (void)mkdir(in_root("unit/glovebox-t/other"), 0755);
    put("unit/glovebox-t/s5", "a file");
    assert_int_equal(sandbox_cgroup_sweep(t), 2); /* s1 was tried, s31 */
    assert_int_equal(access(in_root("unit/glovebox-t/s31"), F_OK), -1);
    assert_int_equal(access(in_root("unit/glovebox-t/s4x"), F_OK), 0);
    assert_int_equal(access(in_root("unit/glovebox-t/other"), F_OK), 0);
    assert_int_equal(access(in_root("unit/glovebox-t/s5"), F_OK), 0);
    sandbox_cgroup_close(t);
}

/* Processes in the group keep its controllers from being passed on. A
 * folder in the knob's place is what even root cannot write to. */
static void cgroup_v2_steps_aside_when_its_group_is_busy(void **state)
{
    struct cgroup_tree *t;
    char me[24];

    (void)state;
    (void)snprintf(me, sizeof(me), "%d\n", (int)getpid());
    put("unit/cgroup.controllers", "memory pids cpu\n");
    put("unit/cgroup.subtree_control/busy", "");
    put("unit/cgroup.procs", me);
    put("unit/supervisor/cgroup.procs", "");
    put("cgroup.controllers", "memory pids cpu\n");
    t = tree_of("0::/unit\n");
    me[strcspn(me, "\n")] = '\0';
    assert_file("unit/supervisor/cgroup.procs", me);
    assert_int_equal(sandbox_cgroup_walls(t), 0); /* it stayed busy */
    assert_int_equal(access(in_root("unit/glovebox-t"), F_OK), -1);
    sandbox_cgroup_close(t);
}

/* A login's group holds shells, which are not ours to move. */
static void cgroup_v2_moves_nobody_elses_processes(void **state)
{
    struct cgroup_tree *t;

    (void)state;
    put("unit/cgroup.controllers", "memory pids cpu\n");
    put("unit/cgroup.subtree_control/busy", "");
    put("unit/cgroup.procs", "1\n4711\n");
    put("cgroup.controllers", "memory pids cpu\n");
    t = tree_of("0::/unit\n");
    assert_int_equal(access(in_root("unit/supervisor"), F_OK), -1);
    assert_int_equal(sandbox_cgroup_walls(t), 0);
    sandbox_cgroup_close(t);
}

static void X4_cgroup_v2_narrow_keeps_a_processor_free(void **state)
{
    struct cgroup_tree *t;

    (void)state;
    put("unit/glovebox-t/s1/cpuset.cpus", "");
    t = open_v2();
    check_reserve(t, "unit/glovebox-t/s1/cpuset.cpus");
    sandbox_cgroup_close(t);
}

/* ---- control groups, version 1 ------------------------------------------ */

#define V1_SELF                                                               \
    "5:freezer:/\n4:memory:/unit\n3:pids:/\n2:cpu,cpuacct:/not/visible\n"     \
    "1:name=systemd:/x\n0::/\n"

static struct cgroup_tree *open_v1(void)
{
    static const char *const knobs[] = {
        "memory/unit/glovebox-t/s1/memory.limit_in_bytes",
        "memory/unit/glovebox-t/s1/memory.memsw.limit_in_bytes",
        "memory/unit/glovebox-t/s1/memory.swappiness",
        "memory/unit/glovebox-t/s1/memory.kmem.tcp.limit_in_bytes",
        "memory/unit/glovebox-t/s1/cgroup.procs",
        "pids/glovebox-t/s1/pids.max",
        "pids/glovebox-t/s1/cgroup.procs",
        "cpu,cpuacct/glovebox-t/s1/cpu.cfs_period_us",
        "cpu,cpuacct/glovebox-t/s1/cpu.cfs_quota_us",
        "cpu,cpuacct/glovebox-t/s1/cgroup.procs",
        "freezer/glovebox-t/s1/freezer.state",
        "freezer/glovebox-t/s1/cgroup.procs",
    };
    struct cgroup_tree *t;

    for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
        put(knobs[i], "");
    put("unified/cgroup.controllers", "\n"); /* hybrid: v2 carries none */
    assert_int_equal(symlink("cpu,cpuacct", in_root("cpu")), 0);
    assert_int_equal(symlink("cpu,cpuacct", in_root("cpuacct")), 0);
    t = tree_of(V1_SELF);
    assert_int_equal(sandbox_cgroup_version(t), 1);
    assert_int_equal(sandbox_cgroup_walls(t), ALL_WALLS);
    return t;
}

static void R2_R3_cgroup_v1_limit_writes_the_exact_values(void **state)
{
    struct cgroup_tree *t = open_v1();

    (void)state;
    assert_int_equal(sandbox_cgroup_limit(t, "s1", &limits), 0);
    assert_file("memory/unit/glovebox-t/s1/memory.limit_in_bytes",
                "1073741824");
    assert_file("memory/unit/glovebox-t/s1/memory.memsw.limit_in_bytes",
                "1073741824");
    assert_file("memory/unit/glovebox-t/s1/memory.kmem.tcp.limit_in_bytes",
                "268435456"); /* a quarter */
    assert_file("pids/glovebox-t/s1/pids.max", "128");
    assert_file("cpu/glovebox-t/s1/cpu.cfs_period_us", "100000");
    assert_file("cpu/glovebox-t/s1/cpu.cfs_quota_us", "300000");
    assert_file("memory/unit/glovebox-t/s1/memory.swappiness", "");
    /* A host that does not count swap. */
    assert_int_equal(unlink(in_root("memory/unit/glovebox-t/s1/memory.memsw."
                                    "limit_in_bytes")),
                     0);
    assert_int_equal(sandbox_cgroup_limit(t, "s1", &limits), 0);
    assert_file("memory/unit/glovebox-t/s1/memory.swappiness", "0");
    assert_int_equal(sandbox_cgroup_add(t, "s1", 4711), 0);
    assert_file("memory/unit/glovebox-t/s1/cgroup.procs", "4711");
    assert_file("pids/glovebox-t/s1/cgroup.procs", "4711");
    assert_file("cpu/glovebox-t/s1/cgroup.procs", "4711");
    assert_file("freezer/glovebox-t/s1/cgroup.procs", "4711");
    sandbox_cgroup_close(t);
}

#define V1_CPUSET "6:cpuset:/\n" V1_SELF

static void X4_cgroup_v1_narrow_keeps_a_processor_free(void **state)
{
    struct cgroup_tree *t;

    (void)state;
    sandbox_cgroup_close(open_v1());
    put("cpuset/cpuset.mems", "0\n");
    put("cpuset/glovebox-t/cpuset.mems", "");
    put("cpuset/glovebox-t/cpuset.cpus", "");
    put("cpuset/glovebox-t/cgroup.clone_children", "0");
    put("cpuset/glovebox-t/s1/cpuset.cpus", "");
    t = tree_of(V1_CPUSET);
    check_reserve(t, "cpuset/glovebox-t/s1/cpuset.cpus");
    assert_int_equal(sandbox_cgroup_walls(t), ALL_WALLS);
    sandbox_cgroup_close(t);
}

/* Where it cannot be filled nobody could join it, so it is not used. */
static void cgroup_v1_without_a_usable_cpuset_goes_on(void **state)
{
    struct cgroup_tree *t;

    (void)state;
    sandbox_cgroup_close(open_v1());
    put("cpuset/cpuset.mems", "0\n"); /* and no knobs in ours */
    t = tree_of(V1_CPUSET);
    assert_int_equal(sandbox_cgroup_walls(t), ALL_WALLS);
    sandbox_cpu_reserve_apply(t, "s1", 1);
    assert_int_equal(access(in_root("cpuset/glovebox-t"), F_OK), -1);
    sandbox_cgroup_close(t);
}

static void cgroup_v1_usage_reads_and_resets(void **state)
{
    struct cgroup_tree *t = open_v1();
    struct warden_usage u = {0};

    (void)state;
    put("cpuacct/glovebox-t/s1/cpuacct.usage", "123456789\n");
    put("memory/unit/glovebox-t/s1/memory.max_usage_in_bytes", "9\n");
    put("memory/unit/glovebox-t/s1/memory.usage_in_bytes", "7\n");
    put("memory/unit/glovebox-t/s1/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    put("pids/glovebox-t/s1/pids.events", "max 4\n");
    put("pids/glovebox-t/s1/pids.current", "2\n");
    assert_int_equal(sandbox_cgroup_usage(t, "s1", 0, &u), 0);
    assert_int_equal(u.cpu_ns, 123456789);
    assert_int_equal(u.memory_peak_bytes, 9);
    assert_int_equal(u.oom_kills, 1);
    assert_int_equal(u.pids_denied, 4);
    assert_int_equal(u.processes, 2);
    assert_int_equal(sandbox_cgroup_usage(t, "s1", 1, &u), 0);
    assert_int_equal(u.memory_peak_bytes, 9); /* read before the reset */
    assert_file("memory/unit/glovebox-t/s1/memory.max_usage_in_bytes", "0\n");
    sandbox_cgroup_close(t);
}

static void R1_cgroup_v1_kill_freezes_kills_and_thaws(void **state)
{
    struct cgroup_tree *t = open_v1();
    pid_t pid = sleeper();
    char text[24];

    (void)state;
    (void)snprintf(text, sizeof(text), "%d\n", (int)pid);
    put("freezer/glovebox-t/s1/cgroup.procs", text);
    sandbox_cgroup_kill(t, "s1");
    assert_killed(pid);
    assert_file("freezer/glovebox-t/s1/freezer.state", "THAWED");
    assert_int_equal(sandbox_cgroup_make(t, "s2"), 0);
    assert_int_equal(access(in_root("pids/glovebox-t/s2"), F_OK), 0);
    assert_int_equal(sandbox_cgroup_remove(t, "s2"), 0);
    assert_int_equal(access(in_root("memory/unit/glovebox-t/s2"), F_OK), -1);
    sandbox_cgroup_close(t);
}

/* ---- no control groups -------------------------------------------------- */

static void cgroup_open_without_controllers_gives_no_walls(void **state)
{
    static const char *const selves[] = {
        "",
        "\n",
        "0::/\n",
        "0::/unit",
        "0:",
        "0::",
        "::::\n",
        "garbage\n",
        "4:memory",
        "4:memory\n",
        "4:memory:",
        "4:memory:/\n",
        ":memory:/",
        "4:memoryx,xmemory:/\n",
        "4:,,,:/\n",
        "1:name=systemd:/x\n",
        "\n\n0::/../..\n",
        "0::/nowhere (deleted)\n",
    };
    char long_path[4096];

    (void)state;
    put("cgroup.controllers", "cpuset io\n");
    put("cgroup.subtree_control", "");
    memset(long_path, 'x', sizeof(long_path));
    memcpy(long_path, "0::/", 4);
    memcpy(long_path + 2000, "\n9:memory:/", 11);
    long_path[sizeof(long_path) - 1] = '\0';
    for (size_t i = 0; i <= ARRAY_SIZE(selves); i++) {
        struct cgroup_tree *t =
            tree_of(i < ARRAY_SIZE(selves) ? selves[i] : long_path);
        struct warden_usage u = {0};

        assert_int_equal(sandbox_cgroup_walls(t), 0);
        assert_int_equal(sandbox_cgroup_version(t), 0);
        assert_int_equal(sandbox_cgroup_make(t, "s1"), 0);
        assert_int_equal(sandbox_cgroup_limit(t, "s1", &limits), 0);
        assert_int_equal(sandbox_cgroup_add(t, "s1", 1), 0);
        assert_int_equal(sandbox_cgroup_usage(t, "s1", 1, &u), 0);
        sandbox_cgroup_kill(t, "s1");
        assert_int_equal(sandbox_cgroup_remove(t, "s1"), 0);
        assert_int_equal(sandbox_cgroup_sweep(t), 0);
        sandbox_cgroup_close(t);
    }
    sandbox_cgroup_close(NULL);
}

/* ---- the system call filter --------------------------------------------- */

#define JUNK                                                                  \
    0xdeadbeef00000000ul /* where the kernel looks at 32 bits only            \
                          */

struct attempt {
    const char *name;
    long number;
    unsigned long args[5];
    int expected; /* errno under the filter; 0: anything but EPERM */
};

static const struct attempt refused[] = {
    {"mount", SYS_mount, {0}, EPERM},
    {"umount2", SYS_umount2, {0, ~0u}, EPERM},
    {"pivot_root", SYS_pivot_root, {0}, EPERM},
    {"chroot", SYS_chroot, {0}, EPERM},
    {"fsopen", SYS_fsopen, {0, ~0u}, EPERM},
    {"open_tree", SYS_open_tree, {-1ul, 0, ~0u}, EPERM},
    {"move_mount", SYS_move_mount, {-1ul, 0, -1ul, 0, ~0u}, EPERM},
    {"mount_setattr", SYS_mount_setattr, {-1ul, 0, ~0u}, EPERM},
    {"unshare", SYS_unshare, {0}, EPERM},
    {"setns", SYS_setns, {-1ul, 0}, EPERM},
    {"ptrace", SYS_ptrace, {9999, -1ul}, EPERM},
    {"process_vm_readv", SYS_process_vm_readv, {-1ul}, EPERM},
    {"process_madvise", SYS_process_madvise, {-1ul}, EPERM},
    {"pidfd_getfd", SYS_pidfd_getfd, {-1ul, -1ul, 0}, EPERM},
    {"kcmp", SYS_kcmp, {-1ul, -1ul}, EPERM},
    {"bpf", SYS_bpf, {9999}, EPERM},
    {"keyctl", SYS_keyctl, {9999}, EPERM},
    {"add_key", SYS_add_key, {0}, EPERM},
    {"request_key", SYS_request_key, {0}, EPERM},
    {"io_uring_setup", SYS_io_uring_setup, {0, 0}, EPERM},
    {"io_uring_enter", SYS_io_uring_enter, {-1ul}, EPERM},
    {"io_uring_register", SYS_io_uring_register, {-1ul}, EPERM},
    {"perf_event_open", SYS_perf_event_open, {0}, EPERM},
    {"userfaultfd", SYS_userfaultfd, {~0u}, EPERM},
    {"fanotify_init", SYS_fanotify_init, {~0u}, EPERM},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1ul, 0, 0}, EPERM},
    {"name_to_handle_at", SYS_name_to_handle_at, {-1ul, 0, 0}, EPERM},
    {"finit_module", SYS_finit_module, {-1ul}, EPERM},
    {"delete_module", SYS_delete_module, {0}, EPERM},
    {"kexec_load", SYS_kexec_load, {0, 0, 0, ~0u}, EPERM},
    {"reboot", SYS_reboot, {0}, EPERM},
    {"swapon", SYS_swapon, {0}, EPERM},
    {"sethostname", SYS_sethostname, {0, ~0u}, EPERM},
    {"clock_settime", SYS_clock_settime, {9999, 0}, EPERM},
    {"syslog", SYS_syslog, {9999}, EPERM},
    {"personality", SYS_personality, {ADDR_NO_RANDOMIZE}, EPERM},
    {"clone3", SYS_clone3, {0, 0}, ENOSYS},
    {"TIOCSTI", SYS_ioctl, {-1ul, TIOCSTI}, EPERM},
    {"TIOCSTI with junk above", SYS_ioctl, {-1ul, JUNK | TIOCSTI}, EPERM},
    {"TIOCLINUX", SYS_ioctl, {-1ul, TIOCLINUX}, EPERM},
    {"TIOCLINUX with junk", SYS_ioctl, {-1ul, JUNK | TIOCLINUX}, EPERM},
    {"AF_VSOCK", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, EPERM},
    {"AF_ALG", SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, EPERM},
    {"AF_ALG with junk", SYS_socket, {JUNK | AF_ALG, 5, 0}, EPERM},
    {"AF_PACKET", SYS_socket, {AF_PACKET, 9999, 0}, EPERM},
    {"AF_KEY", SYS_socket, {AF_KEY, 9999, 2}, EPERM},
    {"AF_XDP", SYS_socket, {AF_XDP, 9999, 0}, EPERM},
    {"netlink audit", SYS_socket, {AF_NETLINK, SOCK_RAW, 9}, EPERM},
    {"netlink netfilter", SYS_socket, {AF_NETLINK, SOCK_RAW, 12}, EPERM},
    {"netlink audit, junk", SYS_socket, {AF_NETLINK, 3, JUNK | 9}, EPERM},
    {"AF_ALG pair", SYS_socketpair, {AF_ALG, SOCK_STREAM, 0, 0}, EPERM},
};

static const struct attempt allowed[] = {
    {"getpid", SYS_getpid, {0}, 0},
    {"openat", SYS_openat, {AT_FDCWD, (unsigned long)"/dev/null", 0}, 0},
    {"openat2", SYS_openat2, {AT_FDCWD, 0, 0, 0}, 0},
    {"mmap", SYS_mmap, {0, 4096, 0, 0x22, -1ul}, 0},
    {"madvise", SYS_madvise, {0, 0, 0}, 0},
    {"memfd_create", SYS_memfd_create, {(unsigned long)"m", 0}, 0},
    {"epoll_create1", SYS_epoll_create1, {0}, 0},
    {"pidfd_open", SYS_pidfd_open, {1, 0}, 0},
    {"personality, asking", SYS_personality, {0xffffffff}, 0},
    {"AF_UNIX", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, 0},
    {"AF_INET", SYS_socket, {AF_INET, SOCK_STREAM, 0}, 0},
    {"AF_INET6", SYS_socket, {AF_INET6, SOCK_DGRAM, 0}, 0},
    {"netlink route", SYS_socket, {AF_NETLINK, 3, NETLINK_ROUTE}, 0},
    {"TIOCGWINSZ", SYS_ioctl, {-1ul, TIOCGWINSZ}, EBADF},
    {"TIOCEXCL, before page", SYS_ioctl, {-1ul, 0x5402}, EBADF},
    {"one below TIOCSTI", SYS_ioctl, {-1ul, TIOCSTI - 1}, EBADF},
    {"FIONREAD, beside TIOCLINUX", SYS_ioctl, {-1ul, FIONREAD}, EBADF},
    {"TIOCSTI in another page", SYS_ioctl, {-1ul, 0x80005412}, EBADF},
};

static void wear_filter(void)
{
    static struct sock_filter code[4096];
    struct sock_fprog program = {.filter = code};
    struct sandbox_fds fds = {.lowest = 0}; /* nobody is there to be told */
    struct sandbox_steps s = {.filter = &program, .fds = &fds};
    int fd = -1;
    ssize_t n;

    if (sandbox_seccomp_build(&fd) < 0)
        _exit(90);
    n = pread(fd, code, sizeof(code), 0);
    if (n <= 0 || (size_t)n == sizeof(code))
        _exit(91);
    program.len = (unsigned short)((size_t)n / sizeof(code[0]));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        sandbox_seccomp_apply(&s) < 0)
        _exit(92);
}

/* In a child, each call in turn; ret holds their errnos. */
static void try_all(const struct attempt *a, size_t count, bool filtered,
                    int *ret)
{
    int pair[2], status = 0;
    pid_t pid;

    assert_int_equal(fd_pipe(pair), 0);
    pid = fork();
    if (pid == 0) {
        if (filtered)
            wear_filter();
        for (size_t i = 0; i < count; i++) {
            const unsigned long *v = a[i].args;
            long r = syscall(a[i].number, v[0], v[1], v[2], v[3], v[4], 0ul);
            int errnum = r < 0 ? errno : 0;

            if (write(pair[1], &errnum, sizeof(errnum)) < 0)
                _exit(93);
        }
        _exit(0);
    }
    fd_close(&pair[1]);
    assert_int_equal(fd_read_all(pair[0], ret, count * sizeof(*ret)),
                     count * sizeof(*ret));
    fd_close(&pair[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void C4_filter_refuses_what_is_not_listed(void **state)
{
    int with[ARRAY_SIZE(refused)], without[ARRAY_SIZE(refused)];
    unsigned unproven = 0;

    (void)state;
    try_all(refused, ARRAY_SIZE(refused), true, with);
    try_all(refused, ARRAY_SIZE(refused), false, without);
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        if (with[i] != refused[i].expected)
            fail_msg("%s: errno %d under the filter", refused[i].name,
                     with[i]);
        /* Without root or a feature the kernel may say the same. */
        if (without[i] == refused[i].expected) {
            print_message("# no control for %s here\n", refused[i].name);
            unproven++;
        }
    }
    if (geteuid() == 0)
        assert_true(unproven < ARRAY_SIZE(refused) / 4);
}

static void C4_filter_allows_what_programs_need(void **state)
{
    int with[ARRAY_SIZE(allowed)];

    (void)state;
    try_all(allowed, ARRAY_SIZE(allowed), true, with);
    for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
        if (with[i] == EPERM || with[i] == ENOSYS ||
            (allowed[i].expected && with[i] != allowed[i].expected))
            fail_msg("%s: errno %d under the filter", allowed[i].name,
                     with[i]);
}

/* The exit status of a filtered child that clones with these flags. */
static int clone_filtered(unsigned long flags)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        long child;

        wear_filter();
        child = syscall(SYS_clone, flags | SIGCHLD, 0ul, 0ul, 0ul, 0ul);
        if (child == 0)
            _exit(0);
        _exit(child > 0 ? 0 : errno);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void C4_clone_makes_no_namespace(void **state)
{
    static const unsigned long kinds[] = {
        CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
        CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET,
    };

    (void)state;
    assert_int_equal(clone_filtered(0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        assert_int_equal(clone_filtered(kinds[i]), EPERM);
        assert_int_equal(clone_filtered(JUNK | kinds[i]), EPERM);
        assert_int_equal(clone_filtered(CLONE_NEWUSER | kinds[i]), EPERM);
    }
}

static void C4_foreign_abi_kills(void **state)
{
#ifdef __x86_64__
    (void)state;
    for (int x32 = 0; x32 < 2; x32++) {
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            struct rlimit no_core = {0, 0};
            long r = 20; /* getpid of the 32-bit table */

            (void)setrlimit(RLIMIT_CORE, &no_core);
            wear_filter();
            if (x32)
                (void)syscall(0x40000000 | SYS_getpid);
            else
                __asm__ volatile("int $0x80" : "+a"(r) : : "memory");
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        if (x32)
            assert_int_equal(WTERMSIG(status), SIGSYS);
    }
#else
    (void)state;
    print_message("# SKIP: foreign ABIs are tried on x86-64 only\n");
    skip();
#endif
}

/* ---- steps -------------------------------------------------------------- */

static void C11_seccomp_apply_without_a_filter_fails(void **state)
{
    struct sock_fprog empty = {.len = 0};
    struct sandbox_steps s = {.filter = NULL};

    (void)state;
    assert_int_equal(sandbox_seccomp_apply(&s), -ENOEXEC);
    s.filter = &empty;
    assert_int_equal(sandbox_seccomp_apply(&s), -ENOEXEC);
}

static void assert_child(void (*body)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void close_then_look(void)
{
    struct sandbox_spec spec = {.limits = limits};
    struct sandbox_fds fds = {.runsc = -1,
                              .spec = -1,
                              .ctl = fd_dup(2, 90),
                              .events = fd_dup(2, 3),
                              .scratch = fd_dup(2, 10),
                              .dev = fd_dup(2, 200),
                              .layers = {fd_dup(2, 5), fd_dup(2, 60)},
                              .upper = fd_dup(2, 4),
                              /* in the way of what is to go there */
                              .resolver = fd_dup(2, (int)limits.descriptors),
                              .proxy = fd_dup(2, 32)};
    struct sandbox_steps s = {.spec = &spec, .fds = &fds};
    int lowest = (int)limits.descriptors;

    if (sandbox_fds_close(&s) < 0 || fds.lowest != limits.descriptors ||
        fds.ctl != lowest || fds.events != lowest + 1 ||
        fds.resolver != lowest + 2 || fds.proxy != lowest + 3 ||
        fds.upper != 3 || fds.scratch != -1 || fds.dev != -1 ||
        fds.layers[0] != -1 || fds.layers[1] != -1)
        _exit(1);
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        bool kept = fd <= 3 || (fd >= lowest && fd <= lowest + 3);

        if ((flags >= 0) != kept || (fd > 2 && kept && flags != 1))
            _exit(2);
    }
}

static void C5_fds_close_leaves_eight_descriptors(void **state)
{
    (void)state;
    assert_child(close_then_look);
}

/* The supervisor of a guest keeps the program it runs, and nothing else more.
 */
static void close_for_a_guest(void)
{
    struct sandbox_spec spec = {.limits = limits,
                                .guest = SANDBOX_GUEST_SESSION};
    struct sandbox_fds fds = {.runsc = fd_dup(2, 7),
                              .spec = -1,
                              .image = fd_dup(2, 8),
                              .ctl = fd_dup(2, 90),
                              .events = fd_dup(2, 3),
                              .scratch = -1,
                              .dev = -1,
                              .upper = fd_dup(2, 4),
                              .resolver = fd_dup(2, 60),
                              .proxy = fd_dup(2, 32)};
    struct sandbox_steps s = {.spec = &spec, .fds = &fds};
    int lowest = (int)limits.descriptors;

    if (sandbox_fds_close(&s) < 0 || fds.runsc != lowest + 4 ||
        fds.image != -1)
        _exit(1);
    for (int fd = 0; fd < 1024; fd++) {
        bool kept = fd <= 3 || (fd >= lowest && fd <= lowest + 4);

        if ((fcntl(fd, F_GETFD) >= 0) != kept)
            _exit(2);
    }
}

static void C5_a_guests_supervisor_keeps_one_more(void **state)
{
    (void)state;
    assert_child(close_for_a_guest);
}

/* A machine without room above what was asked for: a few less are granted,
 * and pid 1's numbers are still above all a session can have. */
static void close_in_little_room(void)
{
    struct warden_limits wanted = limits;
    struct sandbox_spec spec;
    struct sandbox_fds fds = {.runsc = -1,
                              .spec = -1,
                              .ctl = fd_dup(2, 20),
                              .events = fd_dup(2, 20),
                              .upper = fd_dup(2, 20),
                              .resolver = fd_dup(2, 20),
                              .proxy = fd_dup(2, 20)};
    struct sandbox_steps s = {.spec = &spec, .fds = &fds};
    struct rlimit r = {wanted.descriptors, wanted.descriptors};

    spec = (struct sandbox_spec){.limits = wanted};
    if (setrlimit(RLIMIT_NOFILE, &r) < 0 || sandbox_fds_close(&s) < 0 ||
        sandbox_rlimit_apply(&s) < 0)
        _exit(1);
    if (fds.lowest >= wanted.descriptors || fds.ctl < (int)fds.lowest ||
        getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max != fds.lowest)
        _exit(2);
    if (fcntl(0, F_DUPFD, (int)fds.lowest) >= 0 || dup2(0, fds.ctl + 9) >= 0)
        _exit(3);
    r = (struct rlimit){8, 8};
    if (setrlimit(RLIMIT_NOFILE, &r) < 0 || sandbox_fds_close(&s) >= 0)
        _exit(4);
}

static void E1_no_session_process_has_pid_1s_numbers(void **state)
{
    (void)state;
    assert_child(close_in_little_room);
}

static void limit_then_look(void)
{
    struct sandbox_spec spec = {.limits = limits};
    struct sandbox_fds fds = {.lowest = limits.descriptors};
    struct sandbox_steps s = {.spec = &spec, .fds = &fds};
    struct rlimit r;

    if (sandbox_rlimit_apply(&s) < 0)
        _exit(1);
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max != 256 ||
        getrlimit(RLIMIT_NPROC, &r) < 0 || r.rlim_max != 130 ||
        getrlimit(RLIMIT_CORE, &r) < 0 || r.rlim_max != 0 ||
        getrlimit(RLIMIT_RTPRIO, &r) < 0 || r.rlim_max != 0)
        _exit(2);
    if (umask(022) != 022)
        _exit(3);
}

static void R5_rlimit_apply_caps_hard_and_soft(void **state)
{
    (void)state;
    assert_child(limit_then_look);
}

static void drop_then_look(void)
{
    struct sandbox_steps s = {0};

    if (sandbox_caps_drop(&s) < 0)
        _exit(1);
    for (unsigned long cap = 0; cap < 41; cap++)
        if (prctl(PR_CAPBSET_READ, cap) > 0)
            _exit(2);
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ||
        prctl(PR_GET_DUMPABLE) != 0)
        _exit(3);
    if (mknod("/tmp/glovebox-test-node", S_IFCHR | 0600, 0x103) == 0)
        _exit(4); /* root by number, but without the right to */
}

static void C3_caps_drop_leaves_root_without_rights(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("# SKIP: needs capabilities to drop\n");
        skip();
    }
    assert_child(drop_then_look);
}

#define ON_TREE(test)                                                         \
    cmocka_unit_test_setup_teardown(test, make_tree, drop_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_TREE(R2_R3_cgroup_v2_limit_writes_the_exact_values),
        ON_TREE(R2_cgroup_v2_without_a_memory_limit_is_refused),
        ON_TREE(cgroup_v2_usage_reads_the_counters),
        ON_TREE(R1_cgroup_v2_kill_takes_the_whole_group),
        ON_TREE(R7_cgroup_remove_and_sweep_leave_nothing_of_ours),
        ON_TREE(cgroup_v2_steps_aside_when_its_group_is_busy),
        ON_TREE(cgroup_v2_moves_nobody_elses_processes),
        ON_TREE(R2_R3_cgroup_v1_limit_writes_the_exact_values),
        ON_TREE(X4_cgroup_v2_narrow_keeps_a_processor_free),
        ON_TREE(X4_cgroup_v1_narrow_keeps_a_processor_free),
        ON_TREE(cgroup_v1_without_a_usable_cpuset_goes_on),
        ON_TREE(cgroup_v1_usage_reads_and_resets),
        ON_TREE(R1_cgroup_v1_kill_freezes_kills_and_thaws),
        ON_TREE(cgroup_open_without_controllers_gives_no_walls),
        cmocka_unit_test(C4_filter_refuses_what_is_not_listed),
        cmocka_unit_test(C4_filter_allows_what_programs_need),
        cmocka_unit_test(C4_clone_makes_no_namespace),
        cmocka_unit_test(C4_foreign_abi_kills),
        cmocka_unit_test(C11_seccomp_apply_without_a_filter_fails),
        cmocka_unit_test(C5_fds_close_leaves_eight_descriptors),
        cmocka_unit_test(C5_a_guests_supervisor_keeps_one_more),
        cmocka_unit_test(E1_no_session_process_has_pid_1s_numbers),
        cmocka_unit_test(R5_rlimit_apply_caps_hard_and_soft),
        cmocka_unit_test(C3_caps_drop_leaves_root_without_rights),
    };

    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
