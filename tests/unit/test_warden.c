/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warden: the second check at each of its bounds, a slot's life without the
 * mounts that need root, what ends the link instead of being answered, and
 * the daemon's stubs against a warden that misbehaves.
 */
#include <sys/types.h>

/* The stubs' own file, for its link: the archive's copy is then not taken. */
#include "warden/call.c" /* NOLINT(bugprone-suspicious-include) */

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/log.h"
#include "warden/serve.h"
#include "warden/tier.h"
#include "wire/zygote_msg.h"

#define MIB ((uint64_t)1 << 20)

/* ---- policy ------------------------------------------------------------- */

static struct warden_setup good_setup(void)
{
    return (struct warden_setup){
        .scratch_dir = "/var/lib/glovebox/scratch",
        .cache_dir = "/var/cache/glovebox",
        .kernel_dir = "/usr/lib/glovebox/kernel",
        .instance = "gb-1",
        .uid_base = 1700000000,
        .uid_count = 1000000,
        .max_slots = 1000,
        .spare_scratches = 4,
        .zygote_max_age_s = 3600,
        .zygote_max_spawns = 5000,
        .max_memory_bytes = 4096 * MIB,
        .max_scratch_bytes = 2048 * MIB,
        .max_processes = 512,
        .max_cores = 8,
    };
}

static struct warden_spawn good_spawn(void)
{
    return (struct warden_spawn){
        .tier = "process",
        .limits = {.memory_bytes = 1024 * MIB,
                   .scratch_bytes = 1024 * MIB,
                   .tmp_bytes = 256 * MIB,
                   .shm_bytes = 64 * MIB,
                   .scratch_inodes = 100000,
                   .processes = 128,
                   .cores = 1,
                   .descriptors = 1024},
    };
}

/* A field and the lowest and highest value it may have; 0: no highest. */
struct bound {
    const char *field;
    size_t offset, size;
    uint64_t low, high;
};

#define IN(type, member, low, high)                                           \
    {                                                                         \
#member, offsetof(type, member), sizeof(((type *)0)->member), low,    \
            high                                                              \
    }

static void set_field(void *object, const struct bound *b, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;

    if (b->size == sizeof(value))
        memcpy((char *)object + b->offset, &value, sizeof(value));
    else
        memcpy((char *)object + b->offset, &narrow, sizeof(narrow));
}

typedef bool (*check_fn)(const void *object);

static bool setup_passes(const void *object)
{
    const char *why = NULL;
    bool ok = warden_policy_setup(object, &why);

    assert_int_equal(ok, why == NULL);
    return ok;
}

static bool spawn_passes(const void *object)
{
    struct warden w = {
        .setup = good_setup(), .runtime_count = 2, .layers = true};
    const char *why = NULL;
    bool ok = warden_policy_spawn(&w, object, &why);

    assert_int_equal(ok, why == NULL);
    return ok;
}

static void assert_bound(void *object, const struct bound *b, check_fn passes)
{
    struct {
        uint64_t value;
        bool expected, exists;
    } const at[] = {
        {b->low, true, true},
        {b->low - 1, false, b->low > 0},
        {b->high, true, b->high > 0},
        {b->high + 1, false, b->high > 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        if (!at[i].exists)
            continue;
        set_field(object, b, at[i].value);
        if (passes(object) != at[i].expected)
            fail_msg("%s = %llu", b->field, (unsigned long long)at[i].value);
    }
}

static void C3_policy_setup_at_below_and_above_each_bound(void **state)
{
    static const struct bound bounds[] = {
        IN(struct warden_setup, uid_base, 65536, 0xefffffff),
        IN(struct warden_setup, uid_count, 1016, 0x0fffffff),
        IN(struct warden_setup, max_slots, 1, 65536),
        IN(struct warden_setup, spare_scratches, 0, 64),
        IN(struct warden_setup, max_memory_bytes, 16 * MIB, 0),
        IN(struct warden_setup, max_scratch_bytes, MIB, 0),
        IN(struct warden_setup, max_processes, 8, 32768),
        IN(struct warden_setup, max_cores, 1, 1024),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
        struct warden_setup s = good_setup();
        struct bound b = bounds[i];

        assert_true(setup_passes(&s));
        if (strcmp(b.field, "uid_count") == 0) {
            /* Its lowest value is one more than there may be slots. */
            s.max_slots = 1015;
            s.spare_scratches = 0;
        }
        assert_bound(&s, &b, setup_passes);
    }
}

static void C3_policy_keeps_host_uids_apart_from_the_system(void **state)
{
    struct warden_setup s = good_setup();

    (void)state;
    s.uid_base = 0;
    assert_false(setup_passes(&s));
    s.uid_base = 1000;
    assert_false(setup_passes(&s));
    /* The highest base and count still end below the reserved ids. */
    s.uid_base = 0xefffffff;
    s.uid_count = 0x0fffffff;
    assert_true(setup_passes(&s));
    assert_true((uint64_t)s.uid_base + s.uid_count - 1 < UINT32_MAX - 1);
}

static void policy_spawn_at_below_and_above_each_bound(void **state)
{
    static const struct bound bounds[] = {
        IN(struct warden_spawn, runtime, 0, 1),
        IN(struct warden_spawn, layers, 0, WARDEN_LAYERS_MAX),
        IN(struct warden_spawn, limits.memory_bytes, 16 * MIB, 4096 * MIB),
        IN(struct warden_spawn, limits.scratch_bytes, MIB, 2048 * MIB),
        IN(struct warden_spawn, limits.scratch_inodes, 16, 10000000),
        IN(struct warden_spawn, limits.tmp_bytes, MIB, 4096 * MIB),
        IN(struct warden_spawn, limits.shm_bytes, 4096, 4096 * MIB),
        IN(struct warden_spawn, limits.processes, 4, 512),
        IN(struct warden_spawn, limits.cores, 1, 8),
        IN(struct warden_spawn, limits.descriptors, 64, 1048576),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
        struct warden_spawn s = good_spawn();

        assert_true(spawn_passes(&s));
        assert_bound(&s, &bounds[i], spawn_passes);
    }
}

/* Where no layer can be laid the daemon copies the files instead. */
static void policy_spawn_without_the_walls_takes_no_layers(void **state)
{
    struct warden w = {.setup = good_setup(), .runtime_count = 1};
    struct warden_spawn s = good_spawn();
    const char *why = NULL;

    (void)state;
    assert_true(warden_policy_spawn(&w, &s, &why));
    s.layers = 1;
    assert_false(warden_policy_spawn(&w, &s, &why));
    assert_non_null(strstr(why, "layers"));
}

static void policy_names_and_paths_are_plain(void **state)
{
    static const struct {
        const char *name;
        bool ok;
    } names[] = {
        {"a", true},         {"standard-0c2e", true},
        {"0-9", true},       {"", false},
        {".", false},        {"..", false},
        {"a/b", false},      {"/a", false},
        {"a.b", false},      {"A", false},
        {"a b", false},      {"a\n", false},
        {"\xc3\xa9", false},
    };
    struct warden_runtime r = {.fresh_exec = 1};
    struct warden_setup s = good_setup();
    struct warden w = {.runtime_count = 2};
    const char *why = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        (void)snprintf(r.image, sizeof(r.image), "%s", names[i].name);
        assert_int_equal(warden_policy_runtime(&w, &r, &why), names[i].ok);
        (void)snprintf(s.instance, sizeof(s.instance), "%s", names[i].name);
        assert_int_equal(warden_policy_setup(&s, &why), names[i].ok);
    }
    memset(r.image, 'a', sizeof(r.image)); /* not terminated */
    assert_false(warden_policy_runtime(&w, &r, &why));
    r.image[sizeof(r.image) - 1] = '\0';
    assert_true(warden_policy_runtime(&w, &r, &why));
    r.replaces = 2;
    assert_true(warden_policy_runtime(&w, &r, &why));
    r.replaces = 3;
    assert_false(warden_policy_runtime(&w, &r, &why));
    r.replaces = 0;
    r.fresh_exec = 2;
    assert_false(warden_policy_runtime(&w, &r, &why));
    s = good_setup();
    (void)snprintf(s.cache_dir, sizeof(s.cache_dir), "relative");
    assert_false(setup_passes(&s));
    (void)snprintf(s.cache_dir, sizeof(s.cache_dir), "/a/../b");
    assert_false(setup_passes(&s));
    memset(s.cache_dir, '/', sizeof(s.cache_dir)); /* not terminated */
    assert_false(setup_passes(&s));
}

/* ---- slots -------------------------------------------------------------- */

struct yard {
    struct warden w;
    char dir[64];
};

/* A warden without walls: no groups and no mounts, so no root. */
static int make_yard(void **state)
{
    struct yard *y = xcalloc(1, sizeof(*y));

    (void)snprintf(y->dir, sizeof(y->dir), "/tmp/glovebox-test-warden-XXXXXX");
    if (!mkdtemp(y->dir))
        return -1;
    y->w = (struct warden){
        .sock = -1, .signals = -1, .filter_fd = -1, .tiers = tier_list};
    y->w.setup = good_setup();
    y->w.setup.max_slots = 3;
    y->w.setup.spare_scratches = 1;
    y->w.scratch_dir = open(y->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    y->w.zygote_dir = -1;
    y->w.slots = xcalloc(4, sizeof(*y->w.slots));
    if (sandbox_cgroup_open(y->dir, "/dev/null", "none", &y->w.groups) < 0)
        return -1;
    *state = y;
    return 0;
}

static void drop_zygotes(struct yard *y)
{
    int fd = openat(y->w.scratch_dir, "zygotes", O_RDONLY | O_DIRECTORY);
    DIR *dir cleanup(fd_closedir) = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        (void)unlinkat(dirfd(dir), e->d_name, 0); /* not "." and ".." */
    (void)unlinkat(y->w.scratch_dir, "zygotes", AT_REMOVEDIR);
}

static int drop_yard(void **state)
{
    struct yard *y = *state;

    for (size_t i = 0; i < y->w.slot_count; i++)
        free(y->w.slots[i]);
    free(y->w.slots);
    sandbox_cgroup_close(y->w.groups);
    drop_zygotes(y);
    fd_close(&y->w.scratch_dir);
    (void)rmdir(y->dir);
    free(y);
    return 0;
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

static bool image_exists(struct yard *y, uint32_t number, bool make)
{
    char name[32];
    int fd;

    (void)snprintf(name, sizeof(name), "%u.img", number);
    fd = openat(y->w.scratch_dir, name,
                O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

static void slot_make_stops_at_the_limit(void **state)
{
    struct yard *y = *state;

    for (uint32_t i = 1; i <= 4; i++) {
        struct slot *s = slot_make(&y->w, MIB, 16);

        assert_non_null(s);
        assert_int_equal(s->number, i);
        assert_int_equal(s->state, SLOT_SPARE);
        assert_ptr_equal(slot_find(&y->w, i), s);
    }
    errno = 0;
    assert_null(slot_make(&y->w, MIB, 16));
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(slot_count(&y->w, SLOT_SPARE), 4);
    assert_null(slot_find(&y->w, 5));
}

static void slot_take_prefers_a_matching_spare(void **state)
{
    struct yard *y = *state;
    struct warden_limits limits = good_spawn().limits;
    struct slot *spare =
        slot_make(&y->w, limits.scratch_bytes, limits.scratch_inodes);
    struct slot *other;

    assert_ptr_equal(slot_take(&y->w, &limits, 0), spare);
    limits.scratch_bytes = MIB;
    other = slot_take(&y->w, &limits, 0);
    assert_ptr_not_equal(other, spare);
    assert_int_equal(other->scratch_bytes, MIB);
    assert_int_equal(y->w.spare_bytes, MIB); /* what spares are made for */
}

static void R7_slot_lives_dies_and_is_forgotten(void **state)
{
    struct yard *y = *state;
    struct warden_limits limits = good_spawn().limits;
    struct slot *s = slot_take(&y->w, &limits, 0);
    int status = 0;
    pid_t pid = sleeper();

    slot_spawned(s, &tier_clone, pid);
    assert_int_equal(s->state, SLOT_ALIVE);
    assert_ptr_equal(slot_by_pid(&y->w, pid), s);
    assert_true(image_exists(y, s->number, true));
    slot_release(&y->w, s);
    assert_int_equal(s->state, SLOT_DRAINING);
    assert_false(image_exists(y, s->number, false));
    assert_true(slot_drain(&y->w)); /* not before pid 1 is reaped */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    slot_reaped(s, status);
    assert_false(slot_drain(&y->w));
    assert_int_equal(y->w.slot_count, 0);
}

static void slot_dead_keeps_its_status_until_released(void **state)
{
    struct yard *y = *state;
    struct warden_limits limits = good_spawn().limits;
    struct slot *s = slot_take(&y->w, &limits, 0);

    slot_spawned(s, &tier_clone, 4194304); /* above any pid there is */
    slot_reaped(s, 9);
    assert_int_equal(s->state, SLOT_DEAD);
    assert_int_equal(s->wait_status, 9);
    assert_int_equal(s->pid, 0);
    assert_false(slot_drain(&y->w));
    assert_int_equal(s->state, SLOT_DEAD);
    slot_release(&y->w, s);
    assert_false(slot_drain(&y->w));
    assert_int_equal(y->w.slot_count, 0);
}

static void X3_slot_released_leaves_no_files(void **state)
{
    struct yard *y = *state;
    struct warden_limits limits = good_spawn().limits;
    struct slot *s = slot_take(&y->w, &limits, 0);
    uint32_t number = s->number;

    assert_true(image_exists(y, number, true));
    slot_spawned(s, &tier_clone, 4194304);
    slot_release(&y->w, s);
    assert_false(image_exists(y, number, false));
    slot_release(&y->w, s); /* while it still drains */
    slot_reaped(s, 0);
    assert_false(slot_drain(&y->w));
    assert_int_equal(y->w.slot_count, 0);
    assert_false(image_exists(y, number, false));
}

/* More slots than numbers would be a search without an end. */
static void policy_setup_leaves_a_number_for_every_slot(void **state)
{
    struct warden_setup s = good_setup();

    (void)state;
    s.uid_count = 16;
    s.max_slots = 11;
    s.spare_scratches = 4;
    assert_true(setup_passes(&s));
    s.spare_scratches = 5;
    assert_false(setup_passes(&s));
}

static void X3_slot_numbers_go_around_before_they_come_again(void **state)
{
    struct yard *y = *state;
    struct slot *kept;

    y->w.setup.uid_count = 16;
    kept = slot_make(&y->w, MIB, 16);
    for (unsigned i = 0; i < 40; i++) {
        struct slot *s = slot_make(&y->w, MIB, 16);

        assert_non_null(s);
        assert_int_not_equal(s->number, kept->number);
        assert_int_equal(s->number, 2 + i % 14); /* 0 is the zygote's */
        slot_release(&y->w, s);
        assert_false(slot_drain(&y->w));
    }
}

/* A slot whose storage a child of ours is making; we are the child. */
static struct slot *making(struct yard *y, const struct warden_limits *limits,
                           uint32_t ticket, int *ret_child)
{
    struct slot *s =
        slot_make(&y->w, limits->scratch_bytes, limits->scratch_inodes);
    int pair[2];

    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
    s->state = SLOT_MAKING;
    s->ticket = ticket;
    s->helper_sock = pair[0];
    *ret_child = pair[1];
    return s;
}

static void X4_slot_take_does_not_wait_for_slow_storage(void **state)
{
    struct yard *y = *state;
    struct warden_limits limits = good_spawn().limits;
    struct helper_result result = {.loop_index = -1, .scratch = 1, .dev = 1};
    const int fds[] = {STDERR_FILENO, STDERR_FILENO};
    int child = -1;
    struct slot *slow = making(y, &limits, 5, &child), *other;
    uint64_t started = clock_mono_ms();

    assert_null(slot_take(&y->w, &limits, 5));
    assert_int_equal(errno, EAGAIN);
    assert_true(clock_mono_ms() - started < 10000);
    other = slot_take(&y->w, &limits, 6); /* goes on meanwhile */
    assert_non_null(other);
    assert_ptr_not_equal(other, slow);
    slot_spawned(other, &tier_clone, 4194304);
    assert_int_equal(wire_send(child, &result, sizeof(result), fds, 2), 0);
    slot_made(&y->w, slow);
    assert_int_equal(slow->state, SLOT_SPARE);
    assert_true(slow->scratch_fd >= 0 && slow->dev_fd >= 0);
    other = slot_take(&y->w, &limits, 7); /* it is kept for the other */
    assert_ptr_not_equal(other, slow);
    assert_ptr_equal(slot_take(&y->w, &limits, 5), slow);
    assert_int_equal(slow->ticket, 0);
    scratch_close(slow);
    fd_close(&child);
}

static void slot_take_tells_why_storage_could_not_be_made(void **state)
{
    struct yard *y = *state;
    struct warden_limits limits = good_spawn().limits;
    struct helper_result result = {.errnum = ENOSPC, .loop_index = -1};
    int child = -1;
    struct slot *s = making(y, &limits, 5, &child);

    assert_int_equal(wire_send(child, &result, sizeof(result), NULL, 0), 0);
    assert_null(slot_take(&y->w, &limits, 5)); /* the same try */
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(s->state, SLOT_DRAINING);
    fd_close(&child);
    s = making(y, &limits, 6, &child);
    fd_close(&child); /* the child died without a word */
    slot_made(&y->w, s);
    assert_null(slot_take(&y->w, &limits, 6)); /* a later try */
    assert_int_equal(errno, EIO);
    assert_non_null(slot_take(&y->w, &limits, 6)); /* told once */
    (void)slot_drain(&y->w);
}

static void slot_spare_too_many_is_let_go(void **state)
{
    struct yard *y = *state;
    struct slot *first = slot_make(&y->w, MIB, 16);
    struct slot *second = slot_make(&y->w, MIB, 16);

    y->w.spare_bytes = MIB;
    assert_false(slot_tend_spares(&y->w)); /* both are young */
    first->made_ms = second->made_ms = clock_mono_ms() - 60000;
    assert_true(slot_tend_spares(&y->w));
    assert_false(slot_tend_spares(&y->w)); /* one is wanted */
    assert_int_equal(slot_count(&y->w, SLOT_SPARE), 1);
    (void)slot_drain(&y->w);
}

/* The mount goes with the child's last reference, not with the warden's. */
static void R7_helper_frees_what_the_warden_no_longer_holds(void **state)
{
    struct yard *y = *state;
    struct slot *s = slot_make(&y->w, MIB, 16);
    int mount[2], status = 0;
    char byte;

    assert_int_equal(fd_pipe(mount), 0);
    s->scratch_fd = mount[1];
    assert_true(image_exists(y, s->number, true));
    assert_int_equal(helper_free(&y->w, s), 0);
    assert_int_equal(s->scratch_fd, -1);
    assert_true(s->helper > 0);
    assert_ptr_equal(slot_by_helper(&y->w, s->helper), s);
    assert_int_equal(waitpid(s->helper, &status, 0), s->helper);
    assert_int_equal(status, 0);
    assert_int_equal(read(mount[0], &byte, 1), 0); /* nobody has it now */
    assert_false(image_exists(y, s->number, false));
    s->helper = 0;
    fd_close(&mount[0]);
}

static void slot_impossible_transition_aborts(void **state)
{
    struct yard *y = *state;
    struct slot *s = slot_make(&y->w, MIB, 16);
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        slot_spawned(s, &tier_clone, 4194304);
        slot_spawned(s, &tier_clone, 4194304);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* ---- the link, seen from the daemon ------------------------------------- */

/* A warden in a child of ours, not set up. */
static pid_t start_warden(int *ret_sock)
{
    int pair[2];
    pid_t pid;

    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        log_setup("test", LOG_ERROR + 1, false);
        _exit(warden_serve_run(pair[1], -1));
    }
    fd_close(&pair[1]);
    *ret_sock = pair[0];
    return pid;
}

static void serve_ends_the_link_on_nonsense(void **state)
{
    static const struct {
        const char *what;
        uint32_t type;
        int length_change;
        size_t fds;
    } cases[] = {
        {"type 0", 0, 0, 0},
        {"type too high", WARDEN_REQUEST_MAX, 0, 0},
        {"type far too high", UINT32_MAX, 0, 0},
        {"SETUP, too short", WARDEN_SETUP, -1, 0},
        {"SETUP, too long", WARDEN_SETUP, 1, 0},
        {"SETUP with a descriptor", WARDEN_SETUP, 0, 1},
        {"STATUS before SETUP", WARDEN_STATUS, 0, 0},
        {"RUNTIME before SETUP", WARDEN_RUNTIME, 0, 1},
        {"SPAWN before SETUP", WARDEN_SPAWN, 0, 2},
        {"KILL before SETUP", WARDEN_KILL, 0, 0},
    };
    const int fds[2] = {STDERR_FILENO, STDERR_FILENO};
    char room[sizeof(struct warden_request) + 1] = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t len = sizeof(struct warden_request) +
                     (size_t)(ssize_t)cases[i].length_change;
        struct warden_reply reply;
        int sock = -1, status = 0;
        pid_t pid = start_warden(&sock);

        memcpy(room, &cases[i].type, sizeof(cases[i].type));
        assert_int_equal(wire_send(sock, room, len, fds, cases[i].fds), 0);
        if (wire_recv(sock, &reply, sizeof(reply), NULL, NULL) != 0)
            fail_msg("%s was answered", cases[i].what);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        fd_close(&sock);
    }
}

static void serve_refuses_a_setup_out_of_bounds(void **state)
{
    struct warden_request req = {.type = WARDEN_SETUP, .seq = 77};
    struct warden_reply reply;
    int sock = -1, status = 0;
    pid_t pid = start_warden(&sock);

    (void)state;
    req.u.setup = good_setup();
    req.u.setup.uid_base = 0;
    assert_int_equal(wire_send(sock, &req, sizeof(req), NULL, 0), 0);
    assert_int_equal(wire_recv(sock, &reply, sizeof(reply), NULL, NULL),
                     sizeof(reply));
    assert_int_equal(reply.type, WARDEN_SETUP);
    assert_int_equal(reply.seq, 77);
    assert_int_equal(reply.result, WARDEN_REFUSED);
    assert_non_null(strstr(reply.text, "uid_base"));
    fd_close(&sock);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A link whose other end is ours to answer from. */
static int make_stub_link(struct warden_link *link)
{
    const struct timeval patience = {.tv_sec = 20};
    int pair[2];

    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
    link_init(link, pair[0], 0);
    assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &patience,
                                sizeof(patience)),
                     0);
    return pair[1];
}

static void call_maps_each_result(void **state)
{
    static const struct {
        uint32_t result;
        int expected, retry;
    } cases[] = {
        {WARDEN_OK, 0, 0},
        {WARDEN_NOT_READY, -ERR_UNAVAILABLE, 1},
        {WARDEN_REFUSED, -ERR_INVALID, 0},
        {WARDEN_FULL, -ERR_BUSY, 5},
        {WARDEN_GONE, -ERR_NOT_FOUND, 0},
        {WARDEN_FAILED, -ERR_ISOLATION, 0},
        {99, -ERR_ISOLATION, 0},
    };
    struct warden_link link;
    int other = make_stub_link(&link);

    (void)state;
    for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct warden_reply reply = {.type = WARDEN_KILL,
                                     .seq = i + 1,
                                     .result = cases[i].result,
                                     .errnum = EIO};
        struct error err = {0};

        memset(reply.text, 'x', sizeof(reply.text)); /* not terminated */
        assert_int_equal(wire_send(other, &reply, sizeof(reply), NULL, 0), 0);
        assert_int_equal(warden_call_kill(&link, 5, &err), cases[i].expected);
        assert_int_equal(err.retry_after_s, cases[i].retry);
        assert_true(warden_call_alive(&link));
    }
    link_done(&link);
    fd_close(&other);
}

static void assert_hangs_up(const struct warden_link *link)
{
    struct pollfd p = {.fd = warden_call_fd(link)};

    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_true(p.revents & POLLHUP);
}

static void call_loses_the_link_on_a_wrong_reply(void **state)
{
    static const struct {
        uint32_t type, seq;
        size_t len;
    } cases[] = {
        {WARDEN_USAGE, 1, sizeof(struct warden_reply)},
        {WARDEN_KILL, 1, sizeof(struct warden_reply) - 1},
        {0, 0, 0}, /* nothing: the warden is gone */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct warden_link link;
        int other = make_stub_link(&link);
        struct warden_reply reply = {.type = cases[i].type,
                                     .seq = cases[i].seq};
        struct error err = {0};

        if (cases[i].len)
            assert_int_equal(wire_send(other, &reply, cases[i].len, NULL, 0),
                             0);
        else
            fd_close(&other);
        assert_int_equal(warden_call_kill(&link, 5, &err), -ERR_UNAVAILABLE);
        assert_false(warden_call_alive(&link));
        assert_int_equal(warden_call_kill(&link, 5, &err), -ERR_UNAVAILABLE);
        assert_hangs_up(&link); /* by which the service notices, and stops */
        link_done(&link);
        fd_close(&other);
    }
}

static void call_spawn_sends_as_many_layers_as_it_says(void **state)
{
    struct warden_spawn spawn = good_spawn();
    struct warden_link link;
    int other = make_stub_link(&link);
    const int layers[] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
    struct meters meters = METERS_NONE;
    struct warden_spawned slot = {0};

    (void)state;
    for (uint32_t n = 0; n <= WARDEN_LAYERS_MAX; n++) {
        struct warden_reply reply = {
            .type = WARDEN_SPAWN, .seq = n + 1, .u.spawned.slot = 7};
        struct warden_request req;
        struct error err = {0};
        int fds[WIRE_FDS_MAX];
        size_t count = 0;

        spawn.layers = n;
        assert_int_equal(wire_send(other, &reply, sizeof(reply), NULL, 0), 0);
        assert_int_equal(warden_call_spawn(&link, &spawn, STDERR_FILENO,
                                           STDERR_FILENO, layers, &slot,
                                           &meters, &err),
                         0);
        assert_int_equal(slot.slot, 7);
        assert_int_equal(wire_recv(other, &req, sizeof(req), fds, &count),
                         sizeof(req));
        assert_int_equal(req.u.spawn.layers, n);
        assert_int_equal(count, 2 + n);
        for (size_t i = 0; i < count; i++)
            fd_close(&fds[i]);
    }
    spawn.layers = WARDEN_LAYERS_MAX + 1;
    assert_int_equal(warden_call_spawn(&link, &spawn, STDERR_FILENO,
                                       STDERR_FILENO, layers, &slot, &meters,
                                       &(struct error){0}),
                     -ERR_INVALID);
    link_done(&link);
    fd_close(&other);
}

static int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Descriptors come with a SPAWN that succeeded, as many as it says. */
static void call_takes_meters_that_fit_and_no_other_descriptors(void **state)
{
    static const struct {
        uint32_t type, result, mask;
        size_t sent;
        bool good;
    } cases[] = {
        {WARDEN_SPAWN, WARDEN_OK, 0, 0, true},
        {WARDEN_SPAWN, WARDEN_OK, 1u << METER_PEAK, 1, true},
        {WARDEN_SPAWN, WARDEN_OK, (1u << METERS) - 1, METERS, true},
        {WARDEN_SPAWN, WARDEN_OK, (1u << METERS) - 1, METERS - 1, false},
        {WARDEN_SPAWN, WARDEN_OK, 1, 2, false},
        {WARDEN_SPAWN, WARDEN_OK, 1u << METERS, 1, false},
        {WARDEN_SPAWN, WARDEN_FULL, 0, 0, true},
        {WARDEN_SPAWN, WARDEN_FULL, 1, 1, false},
        {WARDEN_KILL, WARDEN_OK, 0, 0, true},
        {WARDEN_KILL, WARDEN_OK, 1, 1, false},
    };
    const int fds[METERS] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO,
                             STDERR_FILENO, STDERR_FILENO};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct warden_spawn spawn = good_spawn();
        struct warden_link link;
        int other = make_stub_link(&link);
        struct warden_reply reply = {.type = cases[i].type,
                                     .seq = 1,
                                     .result = cases[i].result,
                                     .u.spawned.meters = cases[i].mask};
        struct meters meters = METERS_NONE;
        struct error err = {0};
        int before = open_descriptors();
        struct warden_spawned slot;

        assert_int_equal(
            wire_send(other, &reply, sizeof(reply), fds, cases[i].sent), 0);
        if (cases[i].type == WARDEN_SPAWN)
            (void)warden_call_spawn(&link, &spawn, STDERR_FILENO,
                                    STDERR_FILENO, NULL, &slot, &meters, &err);
        else
            (void)warden_call_kill(&link, 5, &err);
        assert_int_equal(warden_call_alive(&link), cases[i].good);
        for (uint32_t m = 0; m < METERS; m++)
            assert_int_equal(meters.fds[m] >= 0,
                             cases[i].good && cases[i].mask & 1u << m);
        meters_close(&meters);
        assert_int_equal(open_descriptors(), before);
        link_done(&link);
        fd_close(&other);
    }
}

static void call_runtime_refuses_a_long_name(void **state)
{
    char name[WARDEN_NAME_MAX + 1];
    struct warden_link link;
    int other = make_stub_link(&link);
    struct error err = {0};
    uint32_t handle = 0;

    (void)state;
    memset(name, 'a', sizeof(name));
    name[WARDEN_NAME_MAX] = '\0';
    assert_int_equal(
        warden_call_runtime(&link, name, STDERR_FILENO, false, &handle, &err),
        -ERR_INVALID);
    link_done(&link);
    fd_close(&other);
}

/* ---- a warden that is slow, silent or confused -------------------------- */

#define SHORT_MS 30u
#define SLOT 7u

/* As make_stub_link, but nothing is waited for longer than SHORT_MS. */
static int make_hasty_link(struct warden_link *link)
{
    int other = make_stub_link(link);

    link->reply_ms = link->release_ms = link->silent_ms = SHORT_MS;
    return other;
}

static void say(int other, uint32_t type, uint32_t seq, size_t fd_count)
{
    const int fds[METERS] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO,
                             STDERR_FILENO, STDERR_FILENO};
    struct warden_reply reply = {.type = type, .seq = seq};

    if (type == WARDEN_SPAWN)
        reply.u.spawned = (struct warden_spawned){
            .slot = SLOT, .meters = (1u << fd_count) - 1};
    if (type == WARDEN_STATUS)
        reply.u.status.slots = seq; /* to tell replies apart */
    assert_int_equal(wire_send(other, &reply, sizeof(reply), fds, fd_count),
                     0);
}

static struct warden_request hear(int other)
{
    struct warden_request req = {0};

    assert_int_equal(wire_recv(other, &req, sizeof(req), NULL, NULL),
                     sizeof(req));
    return req;
}

static int ask_status(struct warden_link *link, uint32_t *ret_slots,
                      struct error *err)
{
    struct warden_status status = {0};
    int r = warden_call_status(link, &status, err);

    *ret_slots = status.slots;
    return r;
}

static int ask_spawn(struct warden_link *link, struct meters *meters,
                     uint32_t *ret_slot, struct error *err)
{
    struct warden_spawn spawn = good_spawn();
    struct warden_spawned spawned = {0};
    int r = warden_call_spawn(link, &spawn, STDERR_FILENO, STDERR_FILENO, NULL,
                              &spawned, meters, err);

    *ret_slot = spawned.slot;
    return r;
}

static struct warden_health health_of(struct warden_link *link)
{
    struct warden_health health;

    warden_call_health(link, &health);
    return health;
}

/* Until the tender has come so far; it has ten seconds. */
static void await_health(struct warden_link *link, uint64_t reclaimed,
                         bool answers)
{
    for (int i = 0; i < 1000; i++) {
        struct warden_health h = health_of(link);

        if (h.reclaimed == reclaimed && h.answers == answers && !h.owed)
            return;
        (void)poll(NULL, 0, 10);
    }
    fail_msg("the tender did not get there");
}

static void R9_call_late_reply_is_nobody_elses(void **state)
{
    struct warden_link link;
    int other = make_hasty_link(&link);
    struct error err = {0};
    uint32_t slots = 0;

    (void)state;
    assert_int_equal(ask_status(&link, &slots, &err), -ERR_UNAVAILABLE);
    assert_int_equal(err.retry_after_s, RETRY_S);
    assert_true(warden_call_alive(&link));
    assert_int_equal(health_of(&link).timeouts, 1);
    assert_false(health_of(&link).answers);
    say(other, WARDEN_STATUS, 1, 0); /* late */
    say(other, WARDEN_STATUS, 2, 0);
    link.silent_ms = 60000; /* or it would not be asked again so soon */
    assert_int_equal(ask_status(&link, &slots, &err), 0);
    assert_int_equal(slots, 2);
    assert_int_equal(health_of(&link).late_replies, 1);
    assert_true(health_of(&link).answers);
    link_done(&link);
    fd_close(&other);
}

/* Numbers that were never used, replies said twice, descriptors that nobody
 * asked for: dropped, and the descriptors closed. */
static void R9_call_takes_no_reply_but_its_own(void **state)
{
    struct warden_link link;
    int other = make_stub_link(&link);
    int before = open_descriptors();
    struct meters meters = METERS_NONE;
    struct error err = {0};
    uint32_t slot = 0, slots = 0;

    (void)state;
    say(other, WARDEN_STATUS, 99, 0);
    say(other, WARDEN_SPAWN, 0, METERS);
    say(other, WARDEN_SPAWN, 1, METERS);
    say(other, WARDEN_SPAWN, 1, METERS); /* again */
    say(other, WARDEN_STATUS, 2, 0);
    assert_int_equal(ask_spawn(&link, &meters, &slot, &err), 0);
    assert_int_equal(slot, SLOT);
    assert_int_equal(ask_status(&link, &slots, &err), 0);
    assert_int_equal(slots, 2);
    assert_int_equal(health_of(&link).owed, 0); /* it has its owner */
    assert_true(warden_call_alive(&link));
    meters_close(&meters);
    assert_int_equal(open_descriptors(), before);
    link_done(&link);
    fd_close(&other);
}

static void R7_call_ends_a_sandbox_that_came_too_late(void **state)
{
    struct warden_link link;
    int other = make_hasty_link(&link);
    int before = open_descriptors();
    struct meters meters = METERS_NONE;
    struct error err = {0};
    struct warden_request req;
    uint32_t slot = 0;

    (void)state;
    assert_int_equal(ask_spawn(&link, &meters, &slot, &err), -ERR_UNAVAILABLE);
    assert_int_equal(err.retry_after_s, RETRY_S);
    req = hear(other);
    assert_int_equal(req.type, WARDEN_SPAWN);
    say(other, WARDEN_SPAWN, req.seq, METERS);
    link.reply_ms = 10000;
    assert_int_equal(warden_call_tend(&link, &err), 0);
    req = hear(other);
    if (req.type == WARDEN_STATUS) { /* by which the late reply was found */
        say(other, WARDEN_STATUS, req.seq, 0);
        req = hear(other);
    }
    assert_int_equal(req.type, WARDEN_RELEASE);
    assert_int_equal(req.u.slot.slot, SLOT);
    say(other, WARDEN_RELEASE, req.seq, 0);
    await_health(&link, 1, true);
    assert_int_equal(meters.fds[0], -1);
    assert_int_equal(open_descriptors(), before);
    stop_tender(&link);
    link_done(&link);
    fd_close(&other);
}

/* While the warden is silent callers are refused at once; what must be done
 * is done when it answers again. */
static void R7_call_forgets_no_release(void **state)
{
    struct warden_link link;
    int other = make_hasty_link(&link);
    struct error err = {0};
    struct warden_request req;
    uint32_t slots = 0, released = 0;
    uint64_t started;

    (void)state;
    assert_int_equal(ask_status(&link, &slots, &err), -ERR_UNAVAILABLE);
    link.release_ms = link.reply_ms = 60000;
    started = clock_mono_ms();
    assert_int_equal(ask_status(&link, &slots, &err), -ERR_UNAVAILABLE);
    assert_int_equal(err.retry_after_s, RETRY_S);
    for (uint32_t slot = 1; slot <= 40; slot++)
        assert_int_equal(warden_call_release(&link, slot, &err),
                         -ERR_UNAVAILABLE);
    assert_true(clock_mono_ms() - started < 30000);
    assert_int_equal(health_of(&link).owed, 40);
    assert_int_equal(warden_call_tend(&link, &err), 0);
    req = hear(other);
    assert_int_equal(req.type, WARDEN_STATUS);
    say(other, WARDEN_STATUS, req.seq, 0); /* at last */
    while (released < 40) {
        req = hear(other);
        if (req.type == WARDEN_RELEASE)
            assert_int_equal(req.u.slot.slot, ++released);
        say(other, req.type, req.seq, 0);
    }
    await_health(&link, 40, true);
    assert_int_equal(health_of(&link).late_replies, 1);
    stop_tender(&link);
    link_done(&link);
    fd_close(&other);
}

/* A release that was sent is not sent again: by then its number may be
 * another session's. */
static void X3_call_releases_once(void **state)
{
    struct warden_link link;
    int other = make_hasty_link(&link);
    struct error err = {0};
    struct warden_request req;

    (void)state;
    assert_int_equal(warden_call_release(&link, SLOT, &err), -ERR_UNAVAILABLE);
    assert_int_equal(health_of(&link).owed, 0);
    req = hear(other);
    assert_int_equal(req.type, WARDEN_RELEASE);
    link.reply_ms = 60000;
    assert_int_equal(warden_call_tend(&link, &err), 0);
    say(other, WARDEN_RELEASE, req.seq, 0);
    for (int i = 0; i < 2; i++) {
        req = hear(other);
        assert_int_equal(req.type, WARDEN_STATUS);
        say(other, WARDEN_STATUS, req.seq, 0);
    }
    stop_tender(&link);
    link_done(&link);
    fd_close(&other);
}

/* No other request is read while the first is being answered. */
static void *ask_from_a_thread(void *arg)
{
    struct error err = {0};
    uint32_t slots = 0;

    return ask_status(arg, &slots, &err) == 0 ? arg : NULL;
}

static void R8_call_waits_its_turn_and_goes_on_after_a_stall(void **state)
{
    struct warden_link link;
    int other = make_stub_link(&link);
    pthread_t threads[8];
    void *fine = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, ask_from_a_thread, &link), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        struct warden_request req = hear(other), none;

        (void)poll(NULL, 0, 20);
        assert_int_equal(recv(other, &none, sizeof(none), MSG_DONTWAIT), -1);
        say(other, req.type, req.seq, 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &fine), 0);
        assert_ptr_equal(fine, &link);
    }
    link_done(&link);
    fd_close(&other);
}

/* The reply's descriptors do not fit into the daemon's table. */
static void R8_call_with_a_full_table_is_refused_and_leaks_nothing(
    void **state)
{
    struct warden_link link;
    int other = make_stub_link(&link);
    int before = open_descriptors();
    struct rlimit limit, low;
    struct error err = {0};

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (unsigned room = 0; room <= METERS; room++) {
        struct meters meters = METERS_NONE;
        uint32_t slot = 0;
        int next = fd_dup(STDERR_FILENO, 0);

        assert_true(next >= 0);
        (void)close(next);
        say(other, WARDEN_SPAWN, room + 1, METERS);
        low = limit;
        low.rlim_cur = (rlim_t)next + room;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        assert_int_equal(ask_spawn(&link, &meters, &slot, &err),
                         room == METERS ? 0 : -ERR_BUSY);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_true(warden_call_alive(&link));
        assert_int_equal(health_of(&link).owed,
                         room == METERS ? METERS : room + 1);
        meters_close(&meters);
        assert_int_equal(open_descriptors(), before);
        if (room < METERS)
            assert_int_equal(err.retry_after_s, RETRY_S);
    }
    link_done(&link);
    fd_close(&other);
}

static void send_many(int other, const struct warden_reply *reply, size_t n)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * 64)];
    } control = {0};
    struct iovec iov = {(void *)reply, sizeof(*reply)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    int fds[64];

    for (size_t i = 0; i < n; i++)
        fds[i] = STDERR_FILENO;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
    assert_int_equal(sendmsg(other, &msg, 0), sizeof(*reply));
}

/* More than any reply has: that is no full table but a broken warden. */
static void call_loses_the_link_on_too_many_descriptors(void **state)
{
    struct warden_reply reply = {.type = WARDEN_SPAWN, .seq = 1};
    struct warden_link link;
    int other = make_stub_link(&link);
    int before = open_descriptors();
    struct meters meters = METERS_NONE;
    struct error err = {0};
    uint32_t slot = 0;

    (void)state;
    send_many(other, &reply, WIRE_FDS_MAX + 1);
    assert_int_equal(ask_spawn(&link, &meters, &slot, &err), -ERR_UNAVAILABLE);
    assert_false(warden_call_alive(&link));
    assert_int_equal(open_descriptors(), before);
    assert_hangs_up(&link);
    link_done(&link);
    fd_close(&other);
}

/* ---- a zygote, as the warden sees it ------------------------------------ */

static void Z6_zygote_that_misbehaves_is_retired(void **state)
{
    static const struct {
        struct zygote_reply reply;
        size_t len;
        int expected;
        bool retired;
    } cases[] = {
        {{.type = ZYGOTE_SPAWNED, .pid = 1}, 0, 0, false},
        {{.type = ZYGOTE_SPAWNED, .errnum = ENOSPC}, 0, -ENOSPC, false},
        {{.type = ZYGOTE_READY, .pid = 5}, 0, -EAGAIN, true},
        {{.type = 99}, 0, -EAGAIN, true},
        {{.type = ZYGOTE_SPAWNED}, 4, -EAGAIN, true},
    };
    struct yard *y = *state;
    struct sandbox_spec spec = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct runtime rt = {.spec_fd = -1};
        struct zygote_reply reply = cases[i].reply;
        pid_t pid = 0, zygote = sleeper();
        int pair[2];
        int fd = STDERR_FILENO;

        assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
        rt.next.sock = -1;
        rt.current =
            (struct zygote){.pid = zygote, .image = {-1, -1}, .sock = pair[0]};
        assert_int_equal(
            zygote_spawn(&y->w, &rt, NULL, &spec, &fd, 1, &pid, NULL),
            -EAGAIN); /* not ready yet */
        rt.current.ready = true;
        if (reply.pid == 1)
            reply.pid = zygote; /* the one child there is */
        assert_int_equal(wire_send(pair[1], &reply,
                                   cases[i].len ? cases[i].len : sizeof(reply),
                                   NULL, 0),
                         0);
        assert_int_equal(
            zygote_spawn(&y->w, &rt, NULL, &spec, &fd, 1, &pid, NULL),
            cases[i].expected);
        assert_int_equal(rt.current.pid == 0, cases[i].retired);
        (void)kill(zygote, SIGKILL); /* unless it was retired */
        assert_int_equal(waitpid(zygote, NULL, 0), zygote);
        fd_close(&rt.current.sock);
        fd_close(&pair[1]);
    }
}

/* ---- images of zygotes -------------------------------------------------- */

#define TABLES_BYTES 5000u
#define HEAP_BYTES (3u << 20)

static int sealed_file(const void *bytes, size_t len, size_t at, size_t size)
{
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
    assert_int_equal(
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    return fd;
}

/* A zygote that came with an image; its heap is mostly a hole. */
static struct zygote with_image(unsigned char id)
{
    struct zygote z = {.sock = -1, .spawns = 7};

    memset(z.id, id, sizeof(z.id));
    z.image[0] = sealed_file("tables", 6, 0, TABLES_BYTES);
    z.image[1] = sealed_file("heap", 4, HEAP_BYTES / 2 + 3, HEAP_BYTES);
    return z;
}

static struct runtime plain_runtime(void)
{
    struct runtime rt = {.image = "minimal-1",
                         .spec_fd = memfd_create("spec", MFD_CLOEXEC)};

    assert_int_equal(pwrite(rt.spec_fd, "{}", 2, 0), 2);
    return rt;
}

/* Waits for the child; its exit code. */
static int store_image(struct yard *y, const struct runtime *rt,
                       struct zygote *z)
{
    int status = 0;
    pid_t saver;

    zygote_image_store(&y->w, rt, z);
    assert_int_equal(z->image[0], -1);
    assert_int_equal(z->image[1], -1);
    saver = y->w.saver;
    y->w.saver = 0;
    if (!saver)
        return -1;
    assert_int_equal(waitpid(saver, &status, 0), saver);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int find_image(struct yard *y, const struct runtime *rt,
                      unsigned char id)
{
    unsigned char wanted[WARDEN_ZYGOTE_ID];
    uint64_t age_ms = 0;
    uint32_t spawns = 0;
    int fd;

    memset(wanted, id, sizeof(wanted));
    fd = zygote_image_find(&y->w, rt, wanted, &age_ms, &spawns);
    if (fd >= 0) {
        assert_int_equal(spawns, 7);
        assert_true(age_ms < 600000);
    }
    return fd;
}

static int load_image(int fd)
{
    int loaded[2] = {-1, -1};
    int r = zygote_image_load(fd, loaded);

    fd_close(&loaded[0]);
    fd_close(&loaded[1]);
    return r;
}

static void zygote_image_comes_back_as_it_was(void **state)
{
    struct yard *y = *state;
    struct runtime rt = plain_runtime(), other = plain_runtime();
    struct zygote z = with_image(5);
    int loaded[2] = {-1, -1};
    char bytes[8] = "";
    struct stat st;
    int fd;

    zygote_images_open(&y->w);
    assert_true(y->w.zygote_dir >= 0);
    assert_int_equal(store_image(y, &rt, &z), 0);
    assert_int_equal(zygote_images_count(&y->w), 1);
    fd = find_image(y, &rt, 0); /* the newest */
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_blocks * 512 < HEAP_BYTES / 2); /* holes stay */
    assert_int_equal(zygote_image_load(fd, loaded), 0);
    assert_int_equal(pread(loaded[0], bytes, 6, 0), 6);
    assert_memory_equal(bytes, "tables", 6);
    assert_int_equal(pread(loaded[1], bytes, 4, HEAP_BYTES / 2 + 3), 4);
    assert_memory_equal(bytes, "heap", 4);
    assert_int_equal(lseek(loaded[0], 0, SEEK_END), TABLES_BYTES);
    assert_int_equal(lseek(loaded[1], 0, SEEK_END), HEAP_BYTES);
    assert_int_not_equal(fcntl(loaded[1], F_GET_SEALS) & F_SEAL_WRITE, 0);
    fd_close(&loaded[0]);
    fd_close(&loaded[1]);
    fd_close(&fd);
    fd = find_image(y, &rt, 5);
    assert_true(fd >= 0);
    fd_close(&fd);
    assert_int_equal(find_image(y, &rt, 6), -1);
    /* Another runtime, other imports, no zygote at all. */
    memcpy(other.image, "minimal-2", 10);
    assert_int_equal(find_image(y, &other, 0), -1);
    memcpy(other.image, rt.image, sizeof(rt.image));
    assert_int_equal(pwrite(other.spec_fd, "[]", 2, 0), 2);
    assert_int_equal(find_image(y, &other, 0), -1);
    rt.fresh_exec = true;
    assert_int_equal(find_image(y, &rt, 0), -1);
    fd_close(&rt.spec_fd);
    fd_close(&other.spec_fd);
    fd_close(&y->w.zygote_dir);
}

/* Each byte that matters, one after the other; and each length. */
static void S1_zygote_image_that_was_changed_is_refused(void **state)
{
    static const off_t places[] = {
        0,   8,   16,   32,   96,   128,  140,
        150, 160, 3000, 4096, 4100, 9095, 12288 + HEAP_BYTES / 2 + 4};
    struct yard *y = *state;
    struct runtime rt = plain_runtime();
    struct zygote z = with_image(9);
    char name[] = "09090909090909090909090909090909";
    unsigned char byte;
    struct stat st;
    int file, fd;

    zygote_images_open(&y->w);
    assert_int_equal(store_image(y, &rt, &z), 0);
    file = openat(y->w.zygote_dir, name, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(fstat(file, &st), 0);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        assert_int_equal(pread(file, &byte, 1, places[i]), 1);
        byte ^= 1;
        assert_int_equal(pwrite(file, &byte, 1, places[i]), 1);
        fd = find_image(y, &rt, 0);
        if (fd >= 0)
            assert_true(load_image(fd) < 0);
        fd_close(&fd);
        byte ^= 1;
        assert_int_equal(pwrite(file, &byte, 1, places[i]), 1);
    }
    for (off_t size = 0; size < st.st_size; size += 40000) {
        assert_int_equal(ftruncate(file, size), 0);
        assert_int_equal(find_image(y, &rt, 0), -1);
    }
    fd_close(&file);
    /* What cannot be used is removed. */
    zygote_images_trim(&y->w, NULL);
    assert_int_equal(zygote_images_count(&y->w), 0);
    fd_close(&rt.spec_fd);
    fd_close(&y->w.zygote_dir);
}

static void zygote_image_of_another_owner_or_mode_is_not_used(void **state)
{
    struct yard *y = *state;
    struct runtime rt = plain_runtime();
    struct zygote z = with_image(3);
    char name[] = "03030303030303030303030303030303";
    int fd;

    zygote_images_open(&y->w);
    assert_int_equal(store_image(y, &rt, &z), 0);
    assert_int_equal(fchmodat(y->w.zygote_dir, name, 0640, 0), 0);
    assert_int_equal(find_image(y, &rt, 0), -1);
    assert_int_equal(fchmodat(y->w.zygote_dir, name, 0600, 0), 0);
    fd = find_image(y, &rt, 0);
    assert_true(fd >= 0);
    fd_close(&fd);
    assert_int_equal(
        linkat(y->w.zygote_dir, name, y->w.zygote_dir, "a-second-name", 0), 0);
    assert_int_equal(find_image(y, &rt, 0), -1);
    assert_int_equal(unlinkat(y->w.zygote_dir, "a-second-name", 0), 0);
    if (geteuid() == 0) {
        assert_int_equal(fchownat(y->w.zygote_dir, name, 1, 1, 0), 0);
        assert_int_equal(find_image(y, &rt, 0), -1);
    }
    fd_close(&rt.spec_fd);
    fd_close(&y->w.zygote_dir);
    /* Nor a folder that others may write to. */
    assert_int_equal(fchmodat(y->w.scratch_dir, "zygotes", 0770, 0), 0);
    zygote_images_open(&y->w);
    assert_int_equal(y->w.zygote_dir, -1);
}

/* A disk without room, or one that fails, leaves nothing behind; nor does a
 * file that can still change. */
static void zygote_image_that_cannot_be_written_leaves_nothing(void **state)
{
    struct yard *y = *state;
    struct runtime rt = plain_runtime();
    struct zygote z = with_image(4);
    struct rlimit old, small;

    zygote_images_open(&y->w);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){4096, old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(store_image(y, &rt, &z), 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(zygote_images_count(&y->w), 0);
    z = with_image(4);
    fd_close(&z.image[1]);
    z.image[1] = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(z.image[1], 4096), 0);
    assert_int_equal(store_image(y, &rt, &z), -1);
    assert_int_equal(zygote_images_count(&y->w), 0);
    /* What an interrupted start left. */
    z.image[0] =
        openat(y->w.zygote_dir, "0404.part", O_CREAT | O_WRONLY, 0600);
    fd_close(&z.image[0]);
    fd_close(&y->w.zygote_dir);
    zygote_images_open(&y->w);
    assert_int_equal(faccessat(y->w.zygote_dir, "0404.part", F_OK, 0), -1);
    fd_close(&rt.spec_fd);
    fd_close(&y->w.zygote_dir);
}

/* Images that stored memory is of stay, and the newest of each runtime; their
 * number is bounded in any case. */
static void zygote_images_are_few(void **state)
{
    struct yard *y = *state;
    struct warden_zygotes used = {.count = 1};
    int fd;

    zygote_images_open(&y->w);
    y->w.runtimes[0] = plain_runtime();
    y->w.runtime_count = 1;
    memset(used.ids[0], 2, sizeof(used.ids[0]));
    for (unsigned char id = 1; id <= 20; id++) {
        struct zygote z = with_image(id);

        assert_int_equal(store_image(y, &y->w.runtimes[0], &z), 0);
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    assert_in_range(zygote_images_count(&y->w), 15, 16);
    assert_int_equal(find_image(y, &y->w.runtimes[0], 4), -1); /* the oldest */
    memset(used.ids[0], 18, sizeof(used.ids[0]));
    zygote_images_trim(&y->w, &used);
    assert_int_equal(zygote_images_count(&y->w), 2);
    fd = find_image(y, &y->w.runtimes[0], 18);
    assert_true(fd >= 0);
    fd_close(&fd);
    fd = find_image(y, &y->w.runtimes[0], 20);
    assert_true(fd >= 0);
    fd_close(&fd);
    used.count = 0;
    zygote_images_trim(&y->w, &used);
    assert_int_equal(zygote_images_count(&y->w), 1);
    fd_close(&y->w.runtimes[0].spec_fd);
    y->w.runtime_count = 0;
    fd_close(&y->w.zygote_dir);
}

/* The warden kills and maps what it is told is a session: only a child of
 * its own may be named, or a bad image could aim at any process. */
static void C3_zygote_cannot_name_a_process_that_is_not_ours(void **state)
{
    static const int32_t pids[] = {-1, 0, 1, 4194304};
    struct yard *y = *state;
    struct sandbox_spec spec = {0};

    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        struct zygote_reply reply = {.type = ZYGOTE_SPAWNED, .pid = pids[i]};
        struct runtime rt = {.spec_fd = -1, .next = {.sock = -1}};
        int pair[2], fd = STDERR_FILENO;
        pid_t pid = 0, zygote = sleeper();

        assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
        rt.current = (struct zygote){
            .pid = zygote, .image = {-1, -1}, .sock = pair[0], .ready = true};
        assert_int_equal(wire_send(pair[1], &reply, sizeof(reply), NULL, 0),
                         0);
        assert_int_not_equal(
            zygote_spawn(&y->w, &rt, NULL, &spec, &fd, 1, &pid, NULL), 0);
        assert_int_equal(rt.current.pid, 0);
        assert_int_equal(waitpid(zygote, NULL, 0), zygote);
        fd_close(&pair[1]);
    }
}

/* Nor one that works on another session's storage, which is root's. */
static void C3_zygote_cannot_name_a_helper(void **state)
{
    struct yard *y = *state;
    struct slot *s = slot_make(&y->w, MIB, 16);
    struct sandbox_spec spec = {0};
    struct runtime rt = {.spec_fd = -1, .next = {.sock = -1}};
    pid_t pid = 0, zygote = sleeper();
    struct zygote_reply reply = {.type = ZYGOTE_SPAWNED};
    int pair[2], fd = STDERR_FILENO;

    reply.pid = s->helper = sleeper();
    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
    rt.current = (struct zygote){
        .pid = zygote, .image = {-1, -1}, .sock = pair[0], .ready = true};
    assert_int_equal(wire_send(pair[1], &reply, sizeof(reply), NULL, 0), 0);
    assert_int_not_equal(
        zygote_spawn(&y->w, &rt, NULL, &spec, &fd, 1, &pid, NULL), 0);
    assert_int_equal(rt.current.pid, 0);
    (void)kill(s->helper, SIGKILL);
    assert_int_equal(waitpid(zygote, NULL, 0), zygote);
    assert_int_equal(waitpid(s->helper, NULL, 0), s->helper);
    s->helper = 0;
    fd_close(&pair[1]);
}

#define IN_YARD(test)                                                         \
    cmocka_unit_test_setup_teardown(test, make_yard, drop_yard)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(C3_policy_setup_at_below_and_above_each_bound),
        cmocka_unit_test(C3_policy_keeps_host_uids_apart_from_the_system),
        cmocka_unit_test(policy_spawn_at_below_and_above_each_bound),
        cmocka_unit_test(policy_spawn_without_the_walls_takes_no_layers),
        cmocka_unit_test(policy_names_and_paths_are_plain),
        IN_YARD(slot_make_stops_at_the_limit),
        IN_YARD(slot_take_prefers_a_matching_spare),
        IN_YARD(R7_slot_lives_dies_and_is_forgotten),
        IN_YARD(slot_dead_keeps_its_status_until_released),
        IN_YARD(X3_slot_released_leaves_no_files),
        cmocka_unit_test(policy_setup_leaves_a_number_for_every_slot),
        IN_YARD(X3_slot_numbers_go_around_before_they_come_again),
        IN_YARD(X4_slot_take_does_not_wait_for_slow_storage),
        IN_YARD(slot_take_tells_why_storage_could_not_be_made),
        IN_YARD(slot_spare_too_many_is_let_go),
        IN_YARD(R7_helper_frees_what_the_warden_no_longer_holds),
        IN_YARD(slot_impossible_transition_aborts),
        cmocka_unit_test(serve_ends_the_link_on_nonsense),
        cmocka_unit_test(serve_refuses_a_setup_out_of_bounds),
        cmocka_unit_test(call_maps_each_result),
        cmocka_unit_test(call_loses_the_link_on_a_wrong_reply),
        cmocka_unit_test(call_spawn_sends_as_many_layers_as_it_says),
        cmocka_unit_test(call_takes_meters_that_fit_and_no_other_descriptors),
        cmocka_unit_test(call_runtime_refuses_a_long_name),
        cmocka_unit_test(R9_call_late_reply_is_nobody_elses),
        cmocka_unit_test(R9_call_takes_no_reply_but_its_own),
        cmocka_unit_test(R7_call_ends_a_sandbox_that_came_too_late),
        cmocka_unit_test(R7_call_forgets_no_release),
        cmocka_unit_test(X3_call_releases_once),
        cmocka_unit_test(R8_call_waits_its_turn_and_goes_on_after_a_stall),
        cmocka_unit_test(
            R8_call_with_a_full_table_is_refused_and_leaks_nothing),
        cmocka_unit_test(call_loses_the_link_on_too_many_descriptors),
        IN_YARD(Z6_zygote_that_misbehaves_is_retired),
        IN_YARD(zygote_image_comes_back_as_it_was),
        IN_YARD(S1_zygote_image_that_was_changed_is_refused),
        IN_YARD(zygote_image_of_another_owner_or_mode_is_not_used),
        IN_YARD(zygote_image_that_cannot_be_written_leaves_nothing),
        IN_YARD(zygote_images_are_few),
        IN_YARD(C3_zygote_cannot_name_a_process_that_is_not_ours),
        IN_YARD(C3_zygote_cannot_name_a_helper),
    };

    return cmocka_run_group_tests_name("warden", tests, NULL, NULL);
}
