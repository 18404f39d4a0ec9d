/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of sessions: their bytes at rest, and sessions that hibernate and
 * wake. Warden, pid 1 and kernel are those of session_fake.h; the memory of a
 * kernel is played by a few bytes, and a woken kernel by a new one.
 */
#include <sys/mman.h>

#include "session/image.h"
#include "session_fixture.h"
#include "vault/vault.h"
#include "workspace/workspace_int.h"

/* ---- the memory of a kernel --------------------------------------------- */

static struct {
    atomic_uint woken;
    char content[64]; /* of the next image */
    struct box_memory memory;
    enum error_code fail_look, fail_save;
    unsigned saved;
    char read[64]; /* of the image that was woken last */
    enum box_image_problem problem;
    enum error_code fail_wake;
} mem;

static int mem_look(struct box *b, struct box_memory *ret, struct error *err)
{
    (void)b;
    *ret = mem.memory;
    ret->bytes = sizeof(mem.content);
    return mem.fail_look ? error_set(err, mem.fail_look, "look failed") : 0;
}

static int mem_save(struct box *b, int fd, uint64_t most,
                    struct box_memory *ret, struct error *err)
{
    (void)b;
    assert_true(most >= sizeof(mem.content));
    if (mem.fail_save)
        return error_set(err, mem.fail_save, "save failed");
    *ret = mem.memory;
    ret->bytes = sizeof(mem.content);
    if (ret->refused)
        return 0;
    assert_int_equal(fd_write_all(fd, mem.content, sizeof(mem.content)), 0);
    /* The guest cannot make the file longer than its bound. */
    assert_true(ftruncate(fd, (off_t)most + 1) < 0);
    mem.saved++;
    return 0;
}

static int mem_wake(struct box *b, const struct box_origin *origin,
                    enum box_image_problem *ret_problem, struct error *err)
{
    mem.woken++;
    if (mem.fail_wake)
        return error_set(err, mem.fail_wake, "the kernel ended");
    assert_int_equal(pread(origin->image_fd, mem.read, sizeof(mem.read), 0),
                     sizeof(mem.read));
    assert_int_equal(fcntl(origin->image_fd, F_GET_SEALS) & F_SEAL_WRITE,
                     F_SEAL_WRITE);
    *ret_problem = mem.problem;
    return mem.problem ? 0 : box_kernel_start(b, err);
}

/* Undo points: numbers of states, as box.h describes them. */
static struct {
    unsigned states[80], count, at, now;
    enum error_code fail_add, fail_undo;
} points;

static unsigned points_back(void)
{
    return points.count && points.states[points.at] != points.now
               ? points.at + 1
               : points.at;
}

static int mem_add(struct box *b, unsigned most, unsigned *ret_kept,
                   struct error *err)
{
    (void)b;
    if (points.fail_add)
        return error_set(err, points.fail_add, "no point");
    points.count = points.count ? points.at + 1 : 0;
    if (!points.count || points.states[points.at] != points.now)
        points.states[points.count++] = points.now;
    if (points.count > most) {
        memmove(points.states, points.states + points.count - most,
                most * sizeof(points.states[0]));
        points.count = most;
    }
    points.at = points.count - 1;
    *ret_kept = points.at;
    return 0;
}

static int mem_undo(struct box *b, unsigned back, struct error *err)
{
    unsigned most = points_back();

    (void)b;
    if (points.fail_undo || back > most)
        return error_set(err, ERR_CONFLICT, "no such point");
    if (points.states[points.at] != points.now) {
        points.count = points.at + 1;
        points.states[points.count++] = points.now;
    }
    points.at = most - back;
    points.now = points.states[points.at];
    return 0;
}

static int mem_redo(struct box *b, unsigned forward, struct error *err)
{
    (void)b;
    if (points.at + forward >= points.count)
        return error_set(err, ERR_CONFLICT, "no such point");
    points.at += forward;
    points.now = points.states[points.at];
    return 0;
}

static void mem_drop(struct box *b)
{
    (void)b;
    points.count = points.at = 0;
}

static const struct box_starter starter = {.fresh = box_kernel_start,
                                           .wake = mem_wake};
static const struct session_memory memory = {.look = mem_look,
                                             .save = mem_save,
                                             .starter = &starter,
                                             .point_add = mem_add,
                                             .point_undo = mem_undo,
                                             .point_redo = mem_redo,
                                             .points_drop = mem_drop};

/* ---- fixture ------------------------------------------------------------ */

static struct vault *vault;

static void open_hibernating(struct fixture *f)
{
    f->conf.data_dir = f->dir;
    f->conf.pools[0].hibernate = true;
    if (!f->w) { /* the store is opened by open_it */
        open_it(f);
        close_sessions(f, 1);
    }
    if (!vault)
        assert_int_equal(
            vault_open(f->store, f->audit, f->dir, &vault, &f->err), 0);
    f->core = (struct core){.store = f->store,
                            .audit = f->audit,
                            .blobs = f->blobs,
                            .quotas = f->quotas,
                            .vault = vault};
    if (sessions_open(&(struct sessions_parts){.conf = &f->conf,
                                               .core = &f->core,
                                               .warden = &f->link,
                                               .workspaces = f->w},
                      &f->s, &f->err) < 0)
        fail_msg("%s", f->err.message);
    f->s->memory = &memory;
    executions_open(&(struct executions_parts){.conf = &f->conf,
                                               .core = &f->core,
                                               .workspaces = f->w,
                                               .sessions = f->s},
                    &f->x);
    wait_proven(f);
}

static int set_up_memory(void **state)
{
    memset((void *)&mem, 0, sizeof(mem));
    memset(&points, 0, sizeof(points));
    (void)snprintf(mem.content, sizeof(mem.content), "x = 1");
    (void)set_up_conf(state);
    open_hibernating(*state);
    create(*state);
    return 0;
}

static int tear_down_memory(void **state)
{
    struct fixture *f = *state;

    if (f->s)
        close_sessions(f, 1);
    vault_close(vault);
    vault = NULL;
    workspaces_close(f->w);
    blobs_close(f->blobs);
    quotas_close(f->quotas);
    audit_close(f->audit);
    store_close(f->store);
    fake_reset();
    f->conf.data_dir = NULL;
    (void)scratch_remove(f->dir);
    free(f);
    return 0;
}

/* kill -9: nothing of the sessions is written any more. */
static void crash(struct fixture *f)
{
    f->s->memory = &session_memory_of_box;
    images_close(f->s); /* so that stopping neither saves nor loses any */
    close_sessions(f, 0);
    open_hibernating(f);
}

static void restart(struct fixture *f)
{
    close_sessions(f, 5);
    open_hibernating(f);
}

static void hibernate(struct fixture *f)
{
    struct session_info info;

    if (session_hibernate(f->s, &WHO, f->id, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_string_equal(session_state_name(info.state), "hibernated");
    session_info_done(&info);
}

/* Runs a cell; what the answer says of the interpreter, and its notice. */
static int run_how(struct fixture *f, char *ret_notice, size_t size)
{
    struct execution *e = run_for(f, EXEC_PYTHON, "out hello", 0);
    struct exec_info info;
    int how;

    execution_info(e, &info);
    assert_int_equal(info.outcome, OUTCOME_OK);
    how = info.interpreter;
    (void)snprintf(ret_notice, size, "%s", info.notice ? info.notice : "");
    execution_unref(e);
    return how;
}

static void expect_run(struct fixture *f, int how, const char *notice)
{
    char got[SESSION_NOTICE];

    assert_int_equal(run_how(f, got, sizeof(got)), how);
    if (notice[0])
        assert_non_null(strstr(got, notice));
    else
        assert_string_equal(got, "");
}

static void image_path(struct fixture *f, char *ret, size_t size)
{
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);

    assert_non_null(se);
    assert_true(se->image.id[0]);
    (void)snprintf(ret, size, "%s/images/%s", f->dir, se->image.id);
    session_unref(se);
}

static unsigned count_images(struct fixture *f)
{
    char path[256];
    unsigned n = 0;
    DIR *d;

    (void)snprintf(path, sizeof(path), "%s/images", f->dir);
    d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

/* ---- at rest ------------------------------------------------------------ */

static const unsigned char key[IMAGE_KEY] = "a key of thirty-two bytes ......";
static const struct image_bound bound = {
    .tenant = "acme", .session = "sess_1", .id = "img_1", .generation = 3};

static int plain_file(size_t size)
{
    int fd = memfd_create("plain", MFD_CLOEXEC);

    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)(i * 7 + i / 251);

        assert_int_equal(pwrite(fd, &byte, 1, (off_t)i), 1);
    }
    return fd;
}

static int sealed_file(size_t size)
{
    int from cleanup(fd_close) = plain_file(size);
    int to = memfd_create("sealed", MFD_CLOEXEC);
    struct error err;

    assert_int_equal(image_seal(key, &bound, from, size, to, &err), 0);
    assert_int_equal(lseek(to, 0, SEEK_END), image_sealed_size(size));
    return to;
}

static int unseal(int fd, const struct image_bound *b, uint64_t most)
{
    int out cleanup(fd_close) = -1;
    struct error err;
    int rc = image_unseal(key, b, fd, most, &out, &err);

    assert_int_equal(rc == 0, out >= 0); /* all of it, or nothing */
    return rc;
}

static void S4_image_is_encrypted_and_comes_back_whole(void **state)
{
    static const size_t sizes[] = {1, 4096, 262144, 262145, 700001};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        int sealed cleanup(fd_close) = sealed_file(sizes[i]);
        int plain cleanup(fd_close) = plain_file(sizes[i]);
        int out cleanup(fd_close) = -1;
        char *a = xmalloc(sizes[i]), *b = xmalloc(sizes[i]);
        struct error err;

        assert_int_equal(
            image_unseal(key, &bound, sealed, sizes[i], &out, &err), 0);
        assert_int_equal(lseek(out, 0, SEEK_END), sizes[i]);
        assert_int_equal(pread(out, a, sizes[i], 0), sizes[i]);
        assert_int_equal(pread(plain, b, sizes[i], 0), sizes[i]);
        assert_memory_equal(a, b, sizes[i]);
        if (sizes[i] >= 4096) { /* no part of it is on disk as it was */
            assert_int_equal(pread(sealed, a, 4096, IMAGE_HEADER), 4096);
            assert_null(memmem(a, 4096, b, 16));
        }
        free(a);
        free(b);
    }
}

static void S1_forged_image_is_refused(void **state)
{
    size_t size = 300000, total = image_sealed_size(size);
    static const off_t places[] = {0, 8, 12, 16, 24, 40, 60, 64, 1000, 262144};

    (void)state;
    for (size_t i = 0; i <= ARRAY_SIZE(places); i++) {
        int fd cleanup(fd_close) = sealed_file(size);
        off_t at = i < ARRAY_SIZE(places) ? places[i] : (off_t)total - 1;
        unsigned char byte;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        assert_int_equal(unseal(fd, &bound, 1 << 20), -ERR_CORRUPT);
    }
}

static void S1_truncated_or_longer_image_is_refused(void **state)
{
    size_t size = 600000;
    off_t total = (off_t)image_sealed_size(size);
    off_t lengths[] = {0, 1, 63, 64, 65, 262224, total - 1, total + 1};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        int fd cleanup(fd_close) = sealed_file(size);

        assert_int_equal(ftruncate(fd, lengths[i]), 0);
        assert_int_equal(unseal(fd, &bound, 1 << 20), -ERR_CORRUPT);
    }
}

static void S1_foreign_or_older_image_is_refused(void **state)
{
    const struct image_bound others[] = {
        {"other", "sess_1", "img_1", 3}, {"acme", "sess_2", "img_1", 3},
        {"acme", "sess_1", "img_2", 3},  {"acme", "sess_1", "img_1", 2},
        {"acme", "sess_1", "img_1", 4},  {"acmes", "ess_1", "img_1", 3},
    };
    int fd cleanup(fd_close) = sealed_file(5000);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_int_equal(unseal(fd, &others[i], 1 << 20), -ERR_CORRUPT);
    assert_int_equal(unseal(fd, &bound, 1 << 20), 0);
}

static void S1_chunks_cannot_change_places(void **state)
{
    static char a[262160], b[262160];
    int fd cleanup(fd_close) = sealed_file(600000);

    (void)state;
    assert_int_equal(pread(fd, a, sizeof(a), 64), sizeof(a));
    assert_int_equal(pread(fd, b, sizeof(b), 64 + 262160), sizeof(b));
    assert_int_equal(pwrite(fd, b, sizeof(b), 64), sizeof(b));
    assert_int_equal(pwrite(fd, a, sizeof(a), 64 + 262160), sizeof(a));
    assert_int_equal(unseal(fd, &bound, 1 << 20), -ERR_CORRUPT);
}

static void S4_wrong_key_opens_nothing(void **state)
{
    unsigned char other[IMAGE_KEY] = {1};
    int fd cleanup(fd_close) = sealed_file(5000);
    int out = -1;
    struct error err;

    (void)state;
    assert_int_equal(image_unseal(other, &bound, fd, 1 << 20, &out, &err),
                     -ERR_CORRUPT);
    assert_int_equal(out, -1);
}

static void image_over_the_memory_limit_is_refused(void **state)
{
    int fd cleanup(fd_close) = sealed_file(5000);

    (void)state;
    assert_int_equal(unseal(fd, &bound, 4999), -ERR_TOO_LARGE);
    assert_int_equal(unseal(fd, &bound, 5000), 0);
}

/* ---- sessions ----------------------------------------------------------- */

static void session_hibernates_and_wakes_with_its_memory(void **state)
{
    struct fixture *f = *state;
    unsigned releases;

    check_run(f, "file a.txt", OUTCOME_OK, false, NULL);
    releases = fake.releases;
    hibernate(f);
    assert_int_equal(fake.releases, releases + 1); /* no sandbox is left */
    assert_int_equal(mem.saved, 1);
    assert_int_equal(count_images(f), 1);
    hibernate(f); /* once more changes nothing */
    assert_int_equal(mem.saved, 1);
    assert_int_equal(get(f).interpreter, 1);
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
    assert_string_equal(mem.read, "x = 1");
    assert_int_equal(get(f).interpreter, 1); /* it is still the first one */
    expect_run(f, SESSION_INTERPRETER_SAME, "");
    assert_int_equal(get(f).state, SESSION_IDLE);
    (void)snprintf(mem.content, sizeof(mem.content), "x = 2");
    hibernate(f);
    assert_int_equal(count_images(f), 1); /* the one before is gone */
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
    assert_string_equal(mem.read, "x = 2");
}

static void session_idle_past_its_cooldown_hibernates(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    clock_test_advance(f->conf.pools[0].cooldown_s * 1000ull + 1000);
    wait_state(f, SESSION_HIBERNATED, 0);
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
}

static void session_that_ran_nothing_is_dormant(void **state)
{
    struct fixture *f = *state;
    struct session_info info;

    assert_int_equal(session_hibernate(f->s, &WHO, f->id, &info, &f->err), 0);
    assert_int_equal(info.state, SESSION_DORMANT);
    session_info_done(&info);
    assert_int_equal(mem.saved, 0);
}

static void session_survives_a_restart_of_the_service(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    restart(f); /* idle: it hibernates by itself */
    assert_int_equal(mem.saved, 1);
    assert_int_equal(get(f).state, SESSION_HIBERNATED);
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
}

static void busy_session_hibernates_after_its_cell(void **state)
{
    struct fixture *f = *state;
    struct bg b = {.f = f, .code = "sleep 300"};

    bg_start(&b);
    wait_state(f, SESSION_RUNNING, 0);
    close_sessions(f, 5);
    (void)pthread_join(b.thread, NULL);
    assert_int_equal(b.rc, 0);
    execution_unref(b.e);
    open_hibernating(f);
    assert_int_equal(get(f).state, SESSION_HIBERNATED);
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
}

static void crash_leads_back_to_the_last_image(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    crash(f); /* while it sleeps: nothing was lost */
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
    check_run(f, "out y", OUTCOME_OK, false, NULL);
    crash(f); /* y is lost, and the answer says so */
    assert_int_equal(get(f).state, SESSION_HIBERNATED);
    expect_run(f, SESSION_INTERPRETER_WOKEN, "before it could save");
    expect_run(f, SESSION_INTERPRETER_SAME, "");
}

static void S2_image_resumes_once(void **state)
{
    struct fixture *f = *state;
    struct session *se;
    enum session_loss why;
    int first = -1, second = -1;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    se = session_find(f->s, &WHO, f->id, &f->err);
    assert_int_equal(session_image_take(se, &first, &why, &f->err), 0);
    assert_true(first >= 0);
    se->image.state = IMAGE_READY; /* a copy of the past */
    assert_int_equal(session_image_take(se, &second, &why, &f->err), 0);
    assert_int_equal(second, -1);
    assert_int_equal(why, SESSION_LOSS_TAKEN);
    fd_close(&first);
    session_unref(se);
}

static void S2_two_calls_at_once_wake_one_sandbox(void **state)
{
    struct fixture *f = *state;
    struct bg all[4];

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        all[i] = (struct bg){.f = f, .code = "out y"};
        bg_start(&all[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        (void)pthread_join(all[i].thread, NULL);
        assert_int_equal(all[i].rc, 0);
        execution_unref(all[i].e);
    }
    assert_int_equal(mem.woken, 1);
}

static void unusable_image_gives_a_fresh_interpreter_and_the_reason(
    void **state)
{
    static const struct {
        enum box_image_problem problem;
        const char *says;
    } table[] = {
        {BOX_IMAGE_MISMATCH, "another runtime"},
        {BOX_IMAGE_DAMAGED, "damaged"},
        {BOX_IMAGE_TOO_LARGE, "memory limit"},
        {BOX_IMAGE_UNSUPPORTED, "does not support it"},
    };
    struct fixture *f = *state;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        hibernate(f);
        mem.problem = table[i].problem;
        expect_run(f, SESSION_INTERPRETER_FRESH, table[i].says);
        mem.problem = BOX_IMAGE_USABLE;
        assert_int_equal(count_images(f), 0);
        expect_run(f, SESSION_INTERPRETER_SAME, "");
    }
}

static void kernel_that_dies_of_its_image_is_replaced(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    mem.fail_wake = ERR_GUEST;
    expect_run(f, SESSION_INTERPRETER_FRESH, "ended while it started");
}

static void wake_that_fails_for_now_keeps_the_image(void **state)
{
    struct fixture *f = *state;
    struct exec_spec spec = {.code = "out x", .code_len = 5};
    struct execution *e;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    mem.fail_wake = ERR_BUSY;
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err),
                     -ERR_BUSY);
    assert_int_equal(get(f).state, SESSION_HIBERNATED);
    mem.fail_wake = ERR_NONE;
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
    assert_string_equal(mem.read, "x = 1");
}

static void S1_changed_file_is_refused_before_it_is_parsed(void **state)
{
    struct fixture *f = *state;
    char path[256];
    int fd;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    image_path(f, path, sizeof(path));
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "evil", 4, 70), 4);
    fd_close(&fd);
    expect_run(f, SESSION_INTERPRETER_FRESH, "damaged");
    assert_int_equal(mem.woken, 0); /* no process saw it */
}

static void S1_older_image_of_the_same_session_is_refused(void **state)
{
    struct fixture *f = *state;
    char old[256], kept[300], now[256];

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    image_path(f, old, sizeof(old));
    (void)snprintf(kept, sizeof(kept), "%s/kept", f->dir);
    assert_int_equal(link(old, kept), 0);
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
    hibernate(f);
    image_path(f, now, sizeof(now));
    assert_int_equal(rename(kept, now), 0);
    mem.woken = 0;
    expect_run(f, SESSION_INTERPRETER_FRESH, "damaged");
    assert_int_equal(mem.woken, 0);
}

static void missing_file_and_orphans_are_dealt_with(void **state)
{
    struct fixture *f = *state;
    char path[256], orphan[300];
    int fd;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    (void)snprintf(orphan, sizeof(orphan), "%s/images/img_0.part", f->dir);
    fd = open(orphan, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    fd_close(&fd);
    assert_int_equal(count_images(f), 2);
    restart(f);
    assert_int_equal(count_images(f), 1);
    image_path(f, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
    expect_run(f, SESSION_INTERPRETER_FRESH, "missing");
}

static void what_cannot_be_carried_keeps_a_session_up(void **state)
{
    struct fixture *f = *state;
    struct session_info info;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    mem.memory = (struct box_memory){.refused = true,
                                     .uncarried = BOX_UNCARRIED_THREADS};
    assert_int_equal(session_hibernate(f->s, &WHO, f->id, &info, &f->err),
                     -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "thread"));
    assert_int_equal(get(f).state, SESSION_IDLE);
    assert_false(get(f).hibernates);
    assert_string_equal(session_uncarried_name(get(f).uncarried, 0),
                        "threads");
    /* Before it is lost, the answers say so. */
    expect_run(f, SESSION_INTERPRETER_SAME, "cannot hibernate");
    /* It must go: without its memory, and it says why. */
    clock_test_advance(f->conf.pools[0].cooldown_s * 1000ull + 1000);
    wait_state(f, SESSION_DORMANT, 0);
    assert_string_equal(session_loss_name(get(f).lost_why), "uncarried");
    expect_run(f, SESSION_INTERPRETER_FRESH, "a thread or a child process");
}

static void what_was_not_carried_is_told(void **state)
{
    struct fixture *f = *state;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    mem.memory.uncarried = BOX_UNCARRIED_SOCKETS | BOX_UNCARRIED_TMP;
    hibernate(f);
    expect_run(f, SESSION_INTERPRETER_WOKEN,
               "Not carried over: sockets and pipes, files outside "
               "/mnt/data.");
}

static void D5_image_that_cannot_be_written_loses_no_file(void **state)
{
    struct fixture *f = *state;
    struct session_info info;
    char path[256], away[256];

    check_run(f, "file a.txt", OUTCOME_OK, false, NULL);
    /* Writing fails: the folder is gone. */
    (void)snprintf(path, sizeof(path), "%s/images", f->dir);
    (void)snprintf(away, sizeof(away), "%s/away", f->dir);
    assert_int_equal(rmdir(path), 0);
    assert_true(session_hibernate(f->s, &WHO, f->id, &info, &f->err) < 0);
    assert_int_equal(get(f).state, SESSION_IDLE); /* told to: it stays up */
    clock_test_advance(f->conf.pools[0].cooldown_s * 1000ull + 1000);
    wait_state(f, SESSION_DORMANT, 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_run(f, SESSION_INTERPRETER_FRESH, "writing it failed");
}

static void images_count_as_storage(void **state)
{
    struct fixture *f = *state;
    struct workspace_usage before, after;
    struct session_info info;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(workspace_usage(f->w, &WHO, &before, &f->err), 0);
    hibernate(f);
    assert_int_equal(workspace_usage(f->w, &WHO, &after, &f->err), 0);
    assert_int_equal(after.stored_bytes - before.stored_bytes,
                     image_sealed_size(sizeof(mem.content)));
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
    f->w->settings.tenant_quota_bytes = 16;
    memset(f->w->memos, 0, sizeof(f->w->memos));
    (void)snprintf(mem.content, sizeof(mem.content), "larger");
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    create(f);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(session_hibernate(f->s, &WHO, f->id, &info, &f->err),
                     -ERR_SPACE);
    assert_int_equal(get(f).state, SESSION_IDLE);
    assert_int_equal(count_images(f), 0);
}

static void D10_image_is_deleted_with_its_session(void **state)
{
    struct fixture *f = *state;

    check_run(f, "file a.txt", OUTCOME_OK, false, NULL);
    hibernate(f);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_int_equal(count_images(f), 0);
}

static void D10_legal_hold_keeps_the_image(void **state)
{
    struct fixture *f = *state;
    const struct actor admin = {
        .tenant = WHO.tenant, .key = WHO.key, .admin = true};
    struct workspace_patch patch = {.quota_bytes = -1,
                                    .keep_versions = -1,
                                    .keep_days = -1,
                                    .legal_hold = 1};
    struct workspace_info ws;
    char workspace[ID_MAX];

    check_run(f, "file a.txt", OUTCOME_OK, false, NULL);
    hibernate(f);
    (void)snprintf(workspace, sizeof(workspace), "%s", get(f).workspace);
    if (workspace_patch(f->w, &admin, workspace, &patch, &ws, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    images_sweep(f->s);
    assert_int_equal(count_images(f), 1);
    patch.legal_hold = 0;
    assert_int_equal(
        workspace_patch(f->w, &admin, workspace, &patch, &ws, &f->err), 0);
    images_sweep(f->s);
    assert_int_equal(count_images(f), 0);
}

static void old_image_is_deleted_and_the_answer_says_so(void **state)
{
    struct fixture *f = *state;

    f->conf.hibernated_days = 30;
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    images_sweep(f->s);
    assert_int_equal(count_images(f), 1);
    clock_test_advance(31 * 86400000ull);
    images_sweep(f->s);
    assert_int_equal(count_images(f), 0);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    expect_run(f, SESSION_INTERPRETER_FRESH, "slept for so long");
}

static void reset_gives_up_the_image(void **state)
{
    struct fixture *f = *state;
    struct session_info info;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    assert_int_equal(session_reset(f->s, &WHO, f->id, &info, &f->err), 0);
    assert_int_equal(info.state, SESSION_DORMANT);
    session_info_done(&info);
    assert_int_equal(count_images(f), 0);
    expect_run(f, SESSION_INTERPRETER_FRESH, "reset");
}

static void fresh_interpreter_on_request_forgets_the_image(void **state)
{
    struct fixture *f = *state;
    struct exec_spec spec = {.code = "out x", .code_len = 5, .fresh = true};
    struct execution *e;
    struct exec_info info;

    check_run(f, "out x", OUTCOME_OK, false, NULL);
    hibernate(f);
    assert_int_equal(execution_run(f->s, &WHO, f->id, &spec, &e, &f->err), 0);
    execution_info(e, &info);
    assert_int_equal(info.interpreter, SESSION_INTERPRETER_FRESH);
    execution_unref(e);
    assert_int_equal(count_images(f), 0);
}

static void ephemeral_session_is_never_written(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.ephemeral = true};
    struct session_info info;

    assert_int_equal(session_create(f->s, &WHO, &spec, &info, &f->err), 0);
    memcpy(f->id, info.id, sizeof(f->id));
    session_info_done(&info);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(session_hibernate(f->s, &WHO, f->id, &info, &f->err),
                     -ERR_CONFLICT);
    clock_test_advance(f->conf.pools[0].cooldown_s * 1000ull + 1000);
    wait_state(f, SESSION_DORMANT, 0);
    assert_int_equal(mem.saved, 0);
    assert_int_equal(count_images(f), 0);
}

static void pool_that_does_not_hibernate_drops_memory(void **state)
{
    struct fixture *f = *state;
    struct session_info info;

    f->conf.pools[0].hibernate = false;
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(session_hibernate(f->s, &WHO, f->id, &info, &f->err),
                     -ERR_CONFLICT);
    clock_test_advance(f->conf.pools[0].cooldown_s * 1000ull + 1000);
    wait_state(f, SESSION_DORMANT, 0);
    expect_run(f, SESSION_INTERPRETER_FRESH, "asleep");
}

static void I3_foreign_session_cannot_be_hibernated(void **state)
{
    struct fixture *f = *state;
    const struct actor other = {.tenant = "other", .key = "key_other"};
    struct session_info info;

    assert_int_equal(session_hibernate(f->s, &other, f->id, &info, &f->err),
                     -ERR_NOT_FOUND);
}

/* ---- undo --------------------------------------------------------------- */

/* A cell that makes the next state of memory. */
static void cell(struct fixture *f, const char *code)
{
    struct execution *e = run_for(f, EXEC_PYTHON, code, 0);

    points.now++;
    expect(e, OUTCOME_OK, false, NULL);
}

/* ret_kept: files that stayed because others changed them. */
static int undo(struct fixture *f, unsigned count, bool redo,
                unsigned *ret_files, unsigned *ret_kept)
{
    struct session_undone done;
    int rc = session_undo(f->s, &WHO, f->id, count, redo, &done, &f->err);

    if (rc == 0) {
        *ret_files = done.files;
        *ret_kept = done.kept_count;
        session_undone_done(&done);
    }
    return rc;
}

static bool in_workspace(struct fixture *f, const char *path)
{
    struct workspace_file file = {0};
    int rc = workspace_file_get(f->w, &WHO, get(f).workspace, path, NULL,
                                &file, &f->err);

    workspace_file_done(&file);
    return rc == 0;
}

static int set_up_undo(void **state)
{
    struct fixture *f;

    (void)set_up_memory(state);
    f = *state;
    f->conf.pools[0].undo_points = 3;
    /* The next execution makes the points, on the thread of the test. */
    session_points_stop(f->s);
    return 0;
}

static void undo_takes_memory_and_files_back_together(void **state)
{
    struct fixture *f = *state;
    unsigned files, kept;

    cell(f, "file a.txt");
    cell(f, "file b.txt");
    cell(f, "drop a.txt");
    assert_int_equal(points.now, 3);
    assert_int_equal(undo(f, 1, false, &files, &kept), 0);
    assert_int_equal(points.now, 2);
    assert_int_equal(files, 1);
    assert_true(in_workspace(f, "a.txt"));
    assert_true(in_workspace(f, "b.txt"));
    assert_int_equal(undo(f, 1, false, &files, &kept), 0);
    assert_int_equal(points.now, 1);
    assert_true(in_workspace(f, "a.txt"));
    assert_false(in_workspace(f, "b.txt"));
    assert_int_equal(undo(f, 2, true, &files, &kept), 0);
    assert_int_equal(points.now, 3);
    assert_false(in_workspace(f, "a.txt"));
    assert_true(in_workspace(f, "b.txt"));
    assert_int_equal(kept, 0);
}

static void undo_goes_back_to_a_new_interpreter(void **state)
{
    struct fixture *f = *state;
    unsigned files, kept;

    cell(f, "file a.txt");
    assert_int_equal(get(f).undo_points, 1);
    assert_int_equal(undo(f, 1, false, &files, &kept), 0);
    assert_false(in_workspace(f, "a.txt"));
    assert_int_equal(get(f).interpreter, 2);
    expect_run(f, SESSION_INTERPRETER_FRESH, "");
}

static void undo_keeps_what_others_changed_since(void **state)
{
    struct fixture *f = *state;
    unsigned files, kept;
    struct workspace_change remove = {.kind = CHANGE_REMOVE, .path = "b.txt"};
    struct workspace_commit_spec spec = {
        .kind = "delete", .changes = &remove, .count = 1};
    struct workspace_commit done;

    cell(f, "file a.txt");
    cell(f, "drop a.txt\nfile b.txt");
    assert_int_equal(
        workspace_commit(f->w, &WHO, get(f).workspace, &spec, &done, &f->err),
        0);
    workspace_commit_done(&done);
    assert_int_equal(undo(f, 1, false, &files, &kept), 0);
    assert_int_equal(kept, 1); /* b.txt stays deleted, and it is said */
    assert_int_equal(files, 1);
    assert_true(in_workspace(f, "a.txt"));
    assert_false(in_workspace(f, "b.txt"));
}

static void undo_says_how_far_it_can_go(void **state)
{
    struct fixture *f = *state;
    unsigned files, kept;

    assert_int_equal(undo(f, 1, false, &files, &kept), -ERR_CONFLICT);
    for (int i = 0; i < 6; i++)
        cell(f, "out x");
    assert_int_equal(get(f).undo_points, 3); /* the pool's setting */
    assert_int_equal(undo(f, 4, false, &files, &kept), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "3 executions"));
    assert_int_equal(undo(f, 1, true, &files, &kept), -ERR_CONFLICT);
    assert_int_equal(undo(f, 3, false, &files, &kept), 0);
    assert_int_equal(points.now, 3);
    assert_int_equal(get(f).redo_points, 3);
    cell(f, "out y"); /* another future */
    assert_int_equal(undo(f, 1, true, &files, &kept), -ERR_CONFLICT);
}

static void undo_without_a_point_changes_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned files, kept;

    cell(f, "out x");
    points.fail_add = ERR_CONFLICT; /* a thread is alive */
    cell(f, "file a.txt");
    cell(f, "out y");
    assert_int_equal(undo(f, 1, false, &files, &kept), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "no undo point"));
    assert_true(in_workspace(f, "a.txt"));
    assert_int_equal(points.now, 3);
}

static void undo_that_cannot_restore_files_restores_memory(void **state)
{
    struct fixture *f = *state;
    struct workspace_lock_spec lock = {.path = "a.txt", .ttl_s = 60};
    struct workspace_lock held;
    char token[65];
    unsigned files, kept;

    cell(f, "out x");
    cell(f, "file a.txt");
    assert_int_equal(workspace_lock(f->w, &WHO, get(f).workspace, &lock, &held,
                                    token, &f->err),
                     0);
    workspace_lock_done(&held);
    assert_int_equal(undo(f, 1, false, &files, &kept), -ERR_LOCKED);
    assert_int_equal(points.now, 2);
    assert_true(in_workspace(f, "a.txt"));
}

static void undo_of_a_shell_command_takes_files_back_only(void **state)
{
    struct fixture *f = *state;
    unsigned files, kept;

    cell(f, "file a.txt");
    expect(run_for(f, EXEC_SHELL, "exit 0", 0), OUTCOME_OK, false, NULL);
    assert_int_equal(undo(f, 1, false, &files, &kept), 0);
    assert_int_equal(points.now, 1);
    assert_true(in_workspace(f, "a.txt"));
}

static void burst_of_executions_leaves_points_out(void **state)
{
    struct fixture *f = *state;
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);
    unsigned files, kept;

    for (int i = 0; i < 24; i++)
        cell(f, "out x");
    assert_true(points.count <= 4);
    assert_true(points.states[points.at] < 20);
    assert_int_equal(undo(f, 1, false, &files, &kept), -ERR_CONFLICT);
    session_unref(se);
}

static void sleep_ends_undo_points(void **state)
{
    struct fixture *f = *state;
    unsigned files, kept;

    cell(f, "out x");
    cell(f, "out y");
    hibernate(f);
    mem_drop(NULL);
    assert_int_equal(get(f).undo_points, 0);
    assert_int_equal(undo(f, 1, false, &files, &kept), -ERR_CONFLICT);
    cell(f, "out z"); /* woken: the state before it can be returned to */
    assert_int_equal(undo(f, 1, false, &files, &kept), 0);
    assert_int_equal(points.now, 2);
}

/* ---- branches ----------------------------------------------------------- */

static struct session_info *branch(struct fixture *f, const char *at,
                                   unsigned count)
{
    struct session_info *made = NULL;
    size_t got = 0;

    if (session_branch(f->s, &WHO, f->id,
                       &(struct session_branch_spec){
                           .at = at, .name = "b", .count = count},
                       &made, &got, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(got, count);
    return made;
}

static void branches_have_the_memory_and_the_files(void **state)
{
    struct fixture *f = *state;
    char origin[ID_MAX], branched[ID_MAX];
    struct session_info *made;
    struct workspace_commit done;
    char workspace[ID_MAX];

    cell(f, "file a.txt");
    memcpy(origin, f->id, sizeof(origin));
    made = branch(f, NULL, 3);
    assert_int_equal(mem.saved, 1); /* written once, stored never */
    assert_int_equal(mem.woken, 3);
    assert_int_equal(count_images(f), 0);
    assert_string_equal(made[1].name, "b-2");
    for (int i = 0; i < 3; i++) {
        memcpy(f->id, made[i].id, sizeof(f->id));
        assert_string_not_equal(made[i].workspace, get(f).id);
        assert_true(in_workspace(f, "a.txt"));
        session_info_done(&made[i]);
    }
    free(made);
    expect_run(f, SESSION_INTERPRETER_WOKEN, "");
    check_run(f, "file new.txt\ndrop a.txt", OUTCOME_OK, false, NULL);
    memcpy(branched, f->id, sizeof(branched));
    memcpy(f->id, origin, sizeof(f->id));
    assert_false(in_workspace(f, "new.txt"));
    assert_true(in_workspace(f, "a.txt"));
    if (session_merge(f->s, &WHO, branched, &done, workspace, &f->err) < 0)
        fail_msg("%s", f->err.message);
    workspace_commit_done(&done);
    assert_string_equal(workspace, get(f).workspace);
    assert_true(in_workspace(f, "new.txt"));
    assert_false(in_workspace(f, "a.txt"));
    /* Again: there is nothing left to merge. */
    assert_int_equal(
        session_merge(f->s, &WHO, branched, &done, workspace, &f->err), 0);
    assert_string_equal(done.id, "");
    workspace_commit_done(&done);
    assert_int_equal(
        session_merge(f->s, &WHO, origin, &done, workspace, &f->err),
        -ERR_CONFLICT);
}

static void merge_keeps_conflicts_beside(void **state)
{
    struct fixture *f = *state;
    char origin[ID_MAX], branched[ID_MAX], workspace[ID_MAX];
    struct session_info *made;
    struct workspace_commit done;
    unsigned conflicts = 0;

    cell(f, "file x/a.txt");
    memcpy(origin, f->id, sizeof(origin));
    made = branch(f, NULL, 1);
    memcpy(branched, made->id, sizeof(branched));
    session_info_done(made);
    free(made);
    put(f, "same.txt");
    memcpy(f->id, branched, sizeof(f->id));
    check_run(f, "file same.txt", OUTCOME_OK, false, NULL);
    assert_int_equal(
        session_merge(f->s, &WHO, branched, &done, workspace, &f->err), 0);
    for (size_t i = 0; i < done.count; i++)
        conflicts += done.results[i].fate == FATE_CONFLICT;
    assert_int_equal(conflicts, 1);
    workspace_commit_done(&done);
}

static void branch_at_an_execution_has_its_state(void **state)
{
    struct fixture *f = *state;
    struct execution *e;
    struct exec_info info;
    struct session_info *made;
    char at[ID_MAX], origin[ID_MAX];

    cell(f, "out x");
    e = run_for(f, EXEC_PYTHON, "file a.txt", 0);
    points.now++;
    execution_info(e, &info);
    memcpy(at, info.id, sizeof(at));
    execution_unref(e);
    cell(f, "file b.txt");
    memcpy(origin, f->id, sizeof(origin));
    made = branch(f, at, 1);
    assert_int_equal(points.now, 3); /* the session itself is where it was */
    memcpy(f->id, made->id, sizeof(f->id));
    session_info_done(made);
    free(made);
    assert_true(in_workspace(f, "a.txt"));
    assert_false(in_workspace(f, "b.txt"));
}

static void branch_that_cannot_be_made_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct session_info *made;
    size_t got;
    unsigned live;

    cell(f, "out x");
    live = atomic_load(&f->s->live);
    mem.problem = BOX_IMAGE_MISMATCH;
    assert_int_equal(session_branch(f->s, &WHO, f->id,
                                    &(struct session_branch_spec){.count = 3},
                                    &made, &got, &f->err),
                     -ERR_UNAVAILABLE);
    mem.problem = BOX_IMAGE_USABLE;
    assert_int_equal(session_branch(f->s, &WHO, f->id,
                                    &(struct session_branch_spec){.count = 20},
                                    &made, &got, &f->err),
                     -ERR_LIMIT); /* of the tenant's sessions */
    assert_int_equal(session_branch(f->s, &WHO, f->id,
                                    &(struct session_branch_spec){.count = 65},
                                    &made, &got, &f->err),
                     -ERR_INVALID);
    assert_int_equal(atomic_load(&f->s->live), live);
    expect_run(f, SESSION_INTERPRETER_SAME, "");
}

int main(void)
{
#define CASE(name)                                                            \
    cmocka_unit_test_setup_teardown(name, set_up_memory, tear_down_memory)
#define UNDO(name)                                                            \
    cmocka_unit_test_setup_teardown(name, set_up_undo, tear_down_memory)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S4_image_is_encrypted_and_comes_back_whole),
        cmocka_unit_test(S1_forged_image_is_refused),
        cmocka_unit_test(S1_truncated_or_longer_image_is_refused),
        cmocka_unit_test(S1_foreign_or_older_image_is_refused),
        cmocka_unit_test(S1_chunks_cannot_change_places),
        cmocka_unit_test(S4_wrong_key_opens_nothing),
        cmocka_unit_test(image_over_the_memory_limit_is_refused),
        CASE(session_hibernates_and_wakes_with_its_memory),
        CASE(session_idle_past_its_cooldown_hibernates),
        CASE(session_that_ran_nothing_is_dormant),
        CASE(session_survives_a_restart_of_the_service),
        CASE(busy_session_hibernates_after_its_cell),
        CASE(crash_leads_back_to_the_last_image),
        CASE(S2_image_resumes_once),
        CASE(S2_two_calls_at_once_wake_one_sandbox),
        CASE(unusable_image_gives_a_fresh_interpreter_and_the_reason),
        CASE(kernel_that_dies_of_its_image_is_replaced),
        CASE(wake_that_fails_for_now_keeps_the_image),
        CASE(S1_changed_file_is_refused_before_it_is_parsed),
        CASE(S1_older_image_of_the_same_session_is_refused),
        CASE(missing_file_and_orphans_are_dealt_with),
        CASE(what_cannot_be_carried_keeps_a_session_up),
        CASE(what_was_not_carried_is_told),
        CASE(D5_image_that_cannot_be_written_loses_no_file),
        CASE(images_count_as_storage),
        CASE(D10_image_is_deleted_with_its_session),
        CASE(D10_legal_hold_keeps_the_image),
        CASE(old_image_is_deleted_and_the_answer_says_so),
        CASE(reset_gives_up_the_image),
        CASE(fresh_interpreter_on_request_forgets_the_image),
        CASE(ephemeral_session_is_never_written),
        CASE(pool_that_does_not_hibernate_drops_memory),
        CASE(I3_foreign_session_cannot_be_hibernated),
        UNDO(undo_takes_memory_and_files_back_together),
        UNDO(undo_goes_back_to_a_new_interpreter),
        UNDO(undo_keeps_what_others_changed_since),
        UNDO(undo_says_how_far_it_can_go),
        UNDO(undo_without_a_point_changes_nothing),
        UNDO(undo_that_cannot_restore_files_restores_memory),
        UNDO(undo_of_a_shell_command_takes_files_back_only),
        UNDO(burst_of_executions_leaves_points_out),
        UNDO(sleep_ends_undo_points),
        UNDO(branches_have_the_memory_and_the_files),
        UNDO(merge_keeps_conflicts_beside),
        UNDO(branch_at_an_execution_has_its_state),
        UNDO(branch_that_cannot_be_made_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
