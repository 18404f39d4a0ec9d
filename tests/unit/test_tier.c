/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the warden and an isolation tier, with a second tier that
 * starts a plain child of the test, and fails at the step it is told to. The
 * requests go through the warden's own answers; no root is needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "warden/tier.h"

#define MIB ((uint64_t)1 << 20)

/* ---- the second tier ---------------------------------------------------- */

static struct {
    struct buf calls; /* "prepare start " */
    enum warden_result refuse_prepare;
    bool fail_start, fail_started, fail_usage;
    unsigned slow_release; /* so many calls say that it is not over */
    int last_signal;
} fake;

static void note(const char *call)
{
    buf_addf(&fake.calls, "%s ", call);
}

static bool fake_prepare(struct warden *w, const struct warden_spawn *spawn,
                         struct warden_reply *reply)
{
    (void)w;
    note("prepare");
    if (fake.refuse_prepare)
        warden_reply_fail(reply, fake.refuse_prepare, 0, "%s is not ready",
                          spawn->tier);
    return !fake.refuse_prepare;
}

extern const struct tier tier_fake;

/* A child that also ends with us, should a test fail first. */
static bool fake_start(struct warden *w, const struct warden_spawn *spawn,
                       struct slot *s, int *fds, struct warden_reply *reply)
{
    pid_t pid;

    (void)w;
    (void)spawn;
    note("start");
    assert_int_equal(s->state, SLOT_SPARE);
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    if (fake.fail_start) {
        warden_reply_fail(reply, WARDEN_FAILED, EPERM, "it does not start");
        return false;
    }
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    slot_spawned(s, &tier_fake, pid);
    if (fake.fail_started)
        warden_reply_fail(reply, WARDEN_FAILED, EIO, "it ended at once");
    return !fake.fail_started;
}

static void fake_signal(struct warden *w, struct slot *s, int sig)
{
    (void)w;
    note("signal");
    fake.last_signal = sig;
    if (s->pid)
        (void)kill(s->pid, sig);
}

static int fake_usage(struct warden *w, struct slot *s, bool reset_peak,
                      struct warden_usage *ret)
{
    (void)w;
    note(reset_peak ? "usage-reset" : "usage");
    if (fake.fail_usage)
        return -EIO;
    *ret = (struct warden_usage){.alive = s->state == SLOT_ALIVE,
                                 .wait_status = s->wait_status,
                                 .cpu_ns = 42};
    return 0;
}

static bool fake_release(struct warden *w, struct slot *s)
{
    note("release");
    if (s->pid && s->state != SLOT_DRAINING)
        fake_signal(w, s, SIGKILL);
    if (s->pid)
        return false;
    if (!fake.slow_release)
        return true;
    fake.slow_release--;
    return false;
}

const struct tier tier_fake = {
    .name = "fake",
    .prepare = fake_prepare,
    .start = fake_start,
    .signal = fake_signal,
    .usage = fake_usage,
    .release = fake_release,
};

static const struct tier *const tiers[] = {&tier_clone, &tier_fake, NULL};

/* ---- fixture ------------------------------------------------------------ */

struct yard {
    struct warden w;
    char dir[64];
};

static int make_yard(void **state)
{
    struct yard *y = xcalloc(1, sizeof(*y));

    memset(&fake, 0, sizeof(fake));
    (void)snprintf(y->dir, sizeof(y->dir), "/tmp/glovebox-test-tier-XXXXXX");
    if (!mkdtemp(y->dir))
        return -1;
    y->w = (struct warden){.sock = -1,
                           .signals = -1,
                           .filter_fd = -1,
                           .meters = METERS_NONE,
                           .tiers = tiers,
                           .runtime_count = 1,
                           .setup = {.uid_base = 1700000000,
                                     .uid_count = 1000,
                                     .max_slots = 2,
                                     .max_memory_bytes = 1024 * MIB,
                                     .max_scratch_bytes = 1024 * MIB,
                                     .max_processes = 64,
                                     .max_cores = 4}};
    y->w.scratch_dir = open(y->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    y->w.slots = xcalloc(2, sizeof(*y->w.slots));
    if (sandbox_cgroup_open(y->dir, "/dev/null", "none", &y->w.groups) < 0)
        return -1;
    *state = y;
    return 0;
}

/* Fails when a test has left a slot, or a child. */
static int drop_yard(void **state)
{
    struct yard *y = *state;
    int leaks = 0;

    for (size_t i = 0; i < y->w.slot_count; i++) {
        leaks += y->w.slots[i]->state != SLOT_SPARE;
        free(y->w.slots[i]);
    }
    leaks += waitpid(-1, NULL, WNOHANG) >= 0;
    free(y->w.slots);
    sandbox_cgroup_close(y->w.groups);
    meters_close(&y->w.meters);
    fd_close(&y->w.scratch_dir);
    (void)rmdir(y->dir);
    buf_done(&fake.calls);
    free(y);
    return leaks;
}

static const char *calls(void)
{
    return fake.calls.len ? fake.calls.data : "";
}

static struct warden_reply ask(struct yard *y, uint32_t type, uint32_t slot)
{
    struct warden_request req = {.type = type, .u.slot.slot = slot};
    struct warden_reply reply = {0};

    warden_answers[type].answer(&y->w, &req, NULL, &reply);
    return reply;
}

static struct warden_reply spawn_as(struct yard *y, const char *tier)
{
    struct warden_request req = {
        .type = WARDEN_SPAWN,
        .u.spawn = {.limits = {.memory_bytes = 64 * MIB,
                               .scratch_bytes = MIB,
                               .tmp_bytes = MIB,
                               .shm_bytes = MIB,
                               .scratch_inodes = 16,
                               .processes = 8,
                               .cores = 1,
                               .descriptors = 64}}};
    struct warden_reply reply = {0};
    int fds[2] = {STDERR_FILENO, STDERR_FILENO};

    (void)snprintf(req.u.spawn.tier, sizeof(req.u.spawn.tier), "%s", tier);
    warden_answers[WARDEN_SPAWN].answer(&y->w, &req, fds, &reply);
    return reply;
}

/* As the warden's loop does. */
static void reap_one(struct yard *y)
{
    int status = 0;
    pid_t pid = waitpid(-1, &status, 0);
    struct slot *s = slot_by_pid(&y->w, pid);

    assert_true(pid > 0);
    assert_non_null(s);
    slot_reaped(s, status);
}

/* ---- tests -------------------------------------------------------------- */

static void tier_from_prepare_to_release(void **state)
{
    struct yard *y = *state;
    struct warden_reply reply = spawn_as(y, "fake");
    uint32_t slot = reply.u.spawned.slot;
    struct warden_request peak = {.type = WARDEN_USAGE,
                                  .u.slot = {.slot = slot, .reset_peak = 1}};

    assert_int_equal(reply.result, WARDEN_OK);
    assert_int_equal(slot_find(&y->w, slot)->state, SLOT_ALIVE);
    assert_string_equal(calls(), "prepare start ");

    reply = ask(y, WARDEN_USAGE, slot);
    assert_int_equal(reply.result, WARDEN_OK);
    assert_int_equal(reply.u.usage.alive, 1);
    assert_int_equal(reply.u.usage.cpu_ns, 42);
    warden_answers[WARDEN_USAGE].answer(&y->w, &peak, NULL, &reply);

    assert_int_equal(ask(y, WARDEN_KILL, slot).result, WARDEN_OK);
    assert_int_equal(fake.last_signal, SIGKILL);
    reap_one(y);
    assert_int_equal(slot_find(&y->w, slot)->state, SLOT_DEAD);
    reply = ask(y, WARDEN_USAGE, slot);
    assert_int_equal(reply.u.usage.alive, 0);
    assert_true(WIFSIGNALED(reply.u.usage.wait_status));
    assert_string_equal(calls(), "prepare start usage usage-reset signal "
                                 "usage ");

    /* Late: the process is gone already. */
    assert_int_equal(ask(y, WARDEN_RELEASE, slot).result, WARDEN_OK);
    assert_int_equal(slot_find(&y->w, slot)->state, SLOT_DRAINING);
    assert_false(slot_drain(&y->w));
    assert_null(slot_find(&y->w, slot));
    assert_int_equal(ask(y, WARDEN_RELEASE, slot).result, WARDEN_GONE);
}

static void tier_release_ends_a_living_one(void **state)
{
    struct yard *y = *state;
    uint32_t slot = spawn_as(y, "fake").u.spawned.slot;

    assert_int_equal(ask(y, WARDEN_RELEASE, slot).result, WARDEN_OK);
    assert_int_equal(fake.last_signal, SIGKILL);
    assert_true(slot_drain(&y->w)); /* not reaped yet */
    /* A second one changes nothing, nor does a kill. */
    fake.last_signal = 0;
    assert_int_equal(ask(y, WARDEN_RELEASE, slot).result, WARDEN_OK);
    assert_int_equal(fake.last_signal, 0);
    reap_one(y);
    assert_false(slot_drain(&y->w));
    assert_null(slot_find(&y->w, slot));
}

/* The slot's number, and with it its host uid, stays taken until the tier
 * says that nothing is left. */
static void X3_tier_slow_release_keeps_the_slot(void **state)
{
    struct yard *y = *state;
    uint32_t slot = spawn_as(y, "fake").u.spawned.slot;

    fake.slow_release = 3;
    assert_int_equal(ask(y, WARDEN_RELEASE, slot).result, WARDEN_OK);
    reap_one(y);
    for (int i = 0; i < 3; i++) {
        assert_true(slot_drain(&y->w));
        assert_non_null(slot_find(&y->w, slot));
    }
    assert_false(slot_drain(&y->w));
    assert_null(slot_find(&y->w, slot));
}

static void tier_unknown_is_refused(void **state)
{
    struct yard *y = *state;
    struct warden_reply reply = spawn_as(y, "vm");

    assert_int_equal(reply.result, WARDEN_REFUSED);
    assert_string_equal(reply.text, "isolation vm is not in this build");
    /* Names that are not plain are refused before they are looked up. */
    assert_int_equal(spawn_as(y, "").result, WARDEN_REFUSED);
    assert_int_equal(spawn_as(y, "Fake").result, WARDEN_REFUSED);
    assert_int_equal(spawn_as(y, "fake/x").result, WARDEN_REFUSED);
    assert_int_equal(y->w.slot_count, 0);
    assert_string_equal(calls(), "");
}

/* Where runsc or a wall is missing, nothing is started and no slot is taken.
 */
static void tier_gvisor_needs_runsc(void **state)
{
    static const struct tier *const all[] = {&tier_clone, &tier_runsc, NULL};
    struct yard *y = *state;
    struct warden_reply reply;

    y->w.tiers = all;
    y->w.runsc_fd = -1;
    y->w.walls = ~0u;
    assert_non_null(strstr(tier_runsc_missing(&y->w), "package runsc"));
    reply = spawn_as(y, WARDEN_TIER_GUEST);
    assert_int_equal(reply.result, WARDEN_REFUSED);
    assert_non_null(strstr(reply.text, "/usr/bin/runsc"));
    y->w.walls = 0;
    tier_runsc_open(&y->w);
    assert_int_equal(y->w.runsc_fd, -1);
    assert_non_null(strstr(tier_runsc_missing(&y->w), "walls"));
    assert_int_equal(y->w.slot_count, 0);
}

static void tier_name_at_and_above_its_length(void **state)
{
    struct yard *y = *state;
    struct warden_spawn spawn = {.runtime = 0};
    const char *why = NULL;

    memset(spawn.tier, 'a', sizeof(spawn.tier)); /* not terminated */
    assert_false(warden_policy_spawn(&y->w, &spawn, &why));
    assert_non_null(strstr(why, "tier"));
    spawn.tier[sizeof(spawn.tier) - 1] = '\0';
    assert_false(warden_policy_spawn(&y->w, &spawn, &why));
    assert_null(strstr(why, "tier")); /* what comes next is refused */
}

/* This build's own list has the one tier. */
static void tier_list_of_this_build(void **state)
{
    (void)state;
    assert_ptr_equal(tier_list[0], &tier_clone);
    assert_ptr_equal(tier_list[1], &tier_runsc);
    assert_null(tier_list[2]);
    assert_string_equal(tier_clone.name, "process");
    assert_string_equal(tier_runsc.name, "gvisor");
}

static void tier_prepare_fails_before_a_slot_is_taken(void **state)
{
    struct yard *y = *state;

    fake.refuse_prepare = WARDEN_NOT_READY;
    assert_int_equal(spawn_as(y, "fake").result, WARDEN_NOT_READY);
    fake.refuse_prepare = WARDEN_FAILED;
    assert_int_equal(spawn_as(y, "fake").result, WARDEN_FAILED);
    assert_int_equal(y->w.slot_count, 0);
    assert_string_equal(calls(), "prepare prepare ");
    /* Nor does the tier of this build without its zygote. */
    assert_int_equal(spawn_as(y, "process").result, WARDEN_NOT_READY);
    assert_int_equal(y->w.slot_count, 0);
}

static void tier_start_fails_and_the_slot_is_used_again(void **state)
{
    struct yard *y = *state;
    struct warden_reply reply;

    fake.fail_start = true;
    reply = spawn_as(y, "fake");
    assert_int_equal(reply.result, WARDEN_FAILED);
    assert_int_equal(reply.errnum, EPERM);
    assert_int_equal(slot_count(&y->w, SLOT_SPARE), 1);
    assert_null(y->w.slots[0]->tier);
    /* A spare is no slot for the daemon. */
    assert_int_equal(ask(y, WARDEN_KILL, y->w.slots[0]->number).result,
                     WARDEN_GONE);
    fake.fail_start = false;
    reply = spawn_as(y, "fake");
    assert_int_equal(reply.result, WARDEN_OK);
    assert_int_equal(reply.u.spawned.slot, 1);
    assert_int_equal(ask(y, WARDEN_RELEASE, 1).result, WARDEN_OK);
    reap_one(y);
    assert_false(slot_drain(&y->w));
}

static void R7_tier_start_fails_late_and_the_slot_is_released(void **state)
{
    struct yard *y = *state;
    struct warden_reply reply;

    fake.fail_started = true;
    reply = spawn_as(y, "fake");
    assert_int_equal(reply.result, WARDEN_FAILED);
    assert_int_equal(reply.errnum, EIO);
    assert_int_equal(reply.u.spawned.slot, 0);
    assert_int_equal(slot_count(&y->w, SLOT_DRAINING), 1);
    assert_int_equal(fake.last_signal, SIGKILL);
    reap_one(y);
    assert_false(slot_drain(&y->w));
    assert_int_equal(y->w.slot_count, 0);
}

static void tier_usage_fails_alone(void **state)
{
    struct yard *y = *state;
    uint32_t slot = spawn_as(y, "fake").u.spawned.slot;
    struct warden_reply reply;

    fake.fail_usage = true;
    reply = ask(y, WARDEN_USAGE, slot);
    assert_int_equal(reply.result, WARDEN_FAILED);
    assert_int_equal(reply.errnum, EIO);
    assert_int_equal(slot_find(&y->w, slot)->state, SLOT_ALIVE);
    assert_int_equal(ask(y, WARDEN_RELEASE, slot).result, WARDEN_OK);
    reap_one(y);
    assert_false(slot_drain(&y->w));
}

#define YARD(test) cmocka_unit_test_setup_teardown(test, make_yard, drop_yard)

int main(void)
{
    const struct CMUnitTest tests[] = {
        YARD(tier_from_prepare_to_release),
        YARD(tier_release_ends_a_living_one),
        YARD(X3_tier_slow_release_keeps_the_slot),
        YARD(tier_unknown_is_refused),
        YARD(tier_gvisor_needs_runsc),
        YARD(tier_name_at_and_above_its_length),
        cmocka_unit_test(tier_list_of_this_build),
        YARD(tier_prepare_fails_before_a_slot_is_taken),
        YARD(tier_start_fails_and_the_slot_is_used_again),
        YARD(R7_tier_start_fails_late_and_the_slot_is_released),
        YARD(tier_usage_fails_alone),
    };

    return cmocka_run_group_tests_name("tier", tests, NULL, NULL);
}
