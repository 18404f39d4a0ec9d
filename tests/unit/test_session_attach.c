/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept files in sessions: linked where that can be, copied where it must be.
 * The sandbox is a fake that counts what is copied into it; the store and the
 * blobs are real.
 */
#include "session_fixture.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

struct kept {
    char file[ID_MAX], version[ID_MAX];
};

/* "abc", uploaded into the fixture's session. */
static struct kept keep(struct fixture *f, const char *path)
{
    struct workspace_file file;
    struct kept kept;

    put(f, path);
    if (workspace_file_get(f->w, &WHO, get(f).workspace, path, NULL, &file,
                           &f->err) < 0)
        fail_msg("%s", f->err.message);
    memcpy(kept.file, file.file, ID_MAX);
    memcpy(kept.version, file.version, ID_MAX);
    workspace_file_done(&file);
    return kept;
}

static uint64_t blob_count(struct fixture *f)
{
    uint64_t count = 0;
    DIR *d, *inner;
    char path[400];

    assert_int_equal(blob_log_scrub(f->blobs, &f->err), 0); /* all are files */
    (void)snprintf(path, sizeof(path), "%s/blobs", f->dir);
    d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strlen(e->d_name) != 2 || e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/blobs/%s", f->dir, e->d_name);
        inner = opendir(path);
        for (struct dirent *b; inner && (b = readdir(inner));)
            count += strlen(b->d_name) == 64;
        (void)closedir(inner);
    }
    (void)closedir(d);
    return count;
}

/* Makes a session with files and goes on with that one. */
static int create_with(struct fixture *f, const struct session_attach *files,
                       size_t count, bool ephemeral)
{
    struct session_spec spec = {
        .files = files, .file_count = count, .ephemeral = ephemeral};
    struct session_info info;
    int rc = session_create(f->s, &WHO, &spec, &info, &f->err);

    if (rc == 0) {
        memcpy(f->id, info.id, sizeof(f->id));
        session_info_done(&info);
    }
    return rc;
}

static void must_attach(struct fixture *f, const char *file, const char *path,
                        struct kept *ret)
{
    struct session_attach what = {.file = file, .path = path};
    struct session_file done;

    if (session_attach(f->s, &WHO, f->id, &what, &done, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_string_equal(done.path, path);
    assert_string_equal(done.sha256, ABC);
    assert_int_equal(done.size, 3);
    if (ret) {
        memcpy(ret->file, done.file, ID_MAX);
        memcpy(ret->version, done.version, ID_MAX);
    }
    free(done.path);
}

/* In the session, and told of with its hash. */
static void expect_inside(struct fixture *f, const char *path, bool committed)
{
    struct session_file *files;
    struct stat st;
    char text[4] = "";
    size_t count = 0;
    bool more, found = false;
    int fd;

    if (session_files_open(f->s, ACTOR(TENANT), f->id, path, &fd, &st,
                           &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(read(fd, text, sizeof(text)), 3);
    assert_string_equal(text, "abc");
    fd_close(&fd);
    assert_int_equal(session_files_list(f->s, ACTOR(TENANT), f->id, 100, NULL,
                                        &files, &count, &more, &f->err),
                     0);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(files[i].path, path) != 0)
            continue;
        found = true;
        assert_string_equal(files[i].sha256, committed ? ABC : "");
    }
    session_files_free(files, count);
    assert_true(found);
}

static size_t workspaces_of(struct fixture *f)
{
    struct workspace_info *list = NULL;
    struct page_result got = {0};

    assert_int_equal(workspace_list(f->w, &WHO, false,
                                    &(struct page){.limit = 100}, &list, &got,
                                    &f->err),
                     0);
    free(list);
    return got.count;
}

/* ---- from the start ----------------------------------------------------- */

static void session_files_from_the_start_are_linked(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct session_attach files[] = {{.file = kept.file, .path = "data.csv"},
                                     {.file = kept.file, .path = "b"}};
    struct workspace_event *events;
    struct workspace_history_spec which = {.path = "data.csv", .limit = 5};
    uint64_t blobs = blob_count(f);
    unsigned creates = atomic_load(&fake.creates);
    struct page_result got = {0};

    atomic_store(&fake.walls, UINT32_MAX);
    assert_int_equal(create_with(f, files, 2, false), 0);
    assert_int_equal(atomic_load(&fake.mounts), 1);
    assert_int_equal(atomic_load(&fake.creates), creates);
    assert_int_equal(blob_count(f), blobs);
    expect_inside(f, "data.csv", true);
    expect_inside(f, "b", true);
    assert_int_equal(get(f).interpreter, 1);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    /* Where it came from is known. */
    assert_int_equal(workspace_history(f->w, &WHO, get(f).workspace, &which,
                                       &events, &got, &f->err),
                     0);
    assert_int_equal(got.count, 1);
    assert_string_equal(events[0].from_version, kept.version);
    assert_string_equal(events[0].kind, "copy");
    assert_string_equal(events[0].execution, "");
    assert_string_not_equal(events[0].file.file, kept.file);
    workspace_events_free(events, got.count);
    /* And there after a restart. */
    close_it(f);
    open_it(f);
    expect_inside(f, "data.csv", true);
}

static void session_files_from_the_start_without_mounts(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct session_attach file = {.file = kept.file, .path = "a.csv"};

    assert_int_equal(create_with(f, &file, 1, false), 0);
    assert_int_equal(atomic_load(&fake.mounts), 0);
    expect_inside(f, "a.csv", true);
}

static void session_files_into_an_ephemeral_one_are_copied(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct session_attach file = {.file = kept.file, .path = "a.csv"};
    uint64_t blobs = blob_count(f);
    size_t workspaces = workspaces_of(f);
    unsigned creates = atomic_load(&fake.creates);

    assert_int_equal(create_with(f, &file, 1, true), 0);
    assert_int_equal(atomic_load(&fake.creates), creates + 1);
    expect_inside(f, "a.csv", false);
    must_attach(f, kept.file, "b.csv", NULL);
    assert_int_equal(atomic_load(&fake.creates), creates + 2);
    expect_inside(f, "b.csv", false);
    assert_int_equal(blob_count(f), blobs);
    assert_int_equal(workspaces_of(f), workspaces);
}

static void session_files_limits(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct session_attach files[SESSION_FILES_MAX + 1];
    char paths[SESSION_FILES_MAX + 1][16];
    size_t workspaces = workspaces_of(f);
    unsigned live = atomic_load(&f->s->live);

    for (unsigned i = 0; i <= SESSION_FILES_MAX; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "f%u", i);
        files[i] =
            (struct session_attach){.file = kept.file, .path = paths[i]};
    }
    assert_int_equal(create_with(f, files, SESSION_FILES_MAX + 1, false),
                     -ERR_INVALID);
    files[7].path = "f8"; /* twice */
    assert_int_equal(create_with(f, files, 9, false), -ERR_INVALID);
    files[7].path = "../f7";
    assert_int_equal(create_with(f, files, 9, false), -ERR_INVALID);
    files[7].path = "f8/x"; /* below a file */
    assert_true(create_with(f, files, 9, false) < 0);
    files[7].path = "f7";
    files[7].file = "file_00000000000000000000000000000000";
    assert_int_equal(create_with(f, files, 9, false), -ERR_NOT_FOUND);
    assert_int_equal(create_with(f, files, 9, true), -ERR_NOT_FOUND);
    files[7].file = "nonsense";
    assert_int_equal(create_with(f, files, 9, false), -ERR_NOT_FOUND);
    files[7].file = kept.file;
    /* Neither a sandbox nor a workspace nor a place is left of these. */
    atomic_store(&fake.fault, FAULT_FULL);
    assert_int_equal(create_with(f, files, 9, false), -ERR_BUSY);
    atomic_store(&fake.fault, FAULT_NONE);
    assert_int_equal(workspaces_of(f), workspaces);
    assert_int_equal(atomic_load(&f->s->live), live);
    assert_int_equal(atomic_load(&f->s->creating), 0);
    assert_int_equal(create_with(f, files, SESSION_FILES_MAX, false), 0);
    expect_inside(f, "f49", true);
}

static void I3_session_files_of_others_are_unknown(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct session_attach file = {.file = kept.file, .path = "a"};
    struct session_spec spec = {.files = &file, .file_count = 1};
    struct session_spec bare = {0};
    struct session_file done;
    struct session_info info;

    assert_int_equal(session_create(f->s, &OTHER, &spec, &info, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(session_create(f->s, &OTHER, &bare, &info, &f->err), 0);
    assert_int_equal(
        session_attach(f->s, &OTHER, info.id, &file, &done, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(
        session_attach(f->s, &WHO, info.id, &file, &done, &f->err),
        -ERR_NOT_FOUND);
    session_info_done(&info);
}

/* ---- later -------------------------------------------------------------- */

static void session_attach_before_the_first_execution(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    uint64_t blobs = blob_count(f);
    unsigned creates, spawns;

    atomic_store(&fake.walls, UINT32_MAX);
    create(f);
    creates = atomic_load(&fake.creates);
    spawns = atomic_load(&fake.spawns);
    must_attach(f, kept.file, "a.csv", NULL);
    assert_int_equal(atomic_load(&fake.spawns), spawns + 1);
    assert_int_equal(atomic_load(&fake.mounts), 1);
    assert_int_equal(get(f).state, SESSION_IDLE);
    assert_int_equal(get(f).interpreter, 1);
    must_attach(f, kept.file, "b.csv", NULL);
    assert_int_equal(atomic_load(&fake.mounts), 2);
    assert_int_equal(atomic_load(&fake.creates), creates);
    assert_int_equal(blob_count(f), blobs);
    expect_inside(f, "a.csv", true);
    expect_inside(f, "b.csv", true);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(atomic_load(&fake.spawns), spawns + 2);
    assert_int_equal(get(f).interpreter, 1);
    /* A commit by code of the session afterwards is no conflict. */
    check_run(f, "file a.csv", OUTCOME_OK, false, NULL);
    assert_int_equal(get(f).executions, 2);
}

static void session_attach_to_a_used_sandbox(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct kept first, second;
    uint64_t blobs = blob_count(f);
    unsigned creates, spawns;

    atomic_store(&fake.walls, UINT32_MAX);
    create(f);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    creates = atomic_load(&fake.creates);
    spawns = atomic_load(&fake.spawns);
    must_attach(f, kept.file, "a.csv", &first);
    assert_int_equal(atomic_load(&fake.spawns), spawns);
    assert_int_equal(atomic_load(&fake.creates), creates + 1);
    assert_int_equal(blob_count(f), blobs);
    expect_inside(f, "a.csv", true);
    check_run(f, "out x", OUTCOME_OK, false, NULL); /* state is as it was */
    assert_int_equal(get(f).interpreter, 1);
    /* A file at the path is replaced, and stays the same file. */
    check_run(f, "file a.csv", OUTCOME_OK, false, NULL);
    must_attach(f, kept.file, "a.csv", &second);
    assert_string_equal(second.file, first.file);
    assert_string_not_equal(second.version, first.version);
    expect_inside(f, "a.csv", true);
    /* An upload counts as a use of the sandbox as well. */
    create(f);
    put(f, "mine");
    spawns = atomic_load(&fake.spawns);
    must_attach(f, kept.file, "b.csv", NULL);
    assert_int_equal(atomic_load(&fake.spawns), spawns);
    expect_inside(f, "mine", true);
    expect_inside(f, "b.csv", true);
}

static void session_attach_while_something_runs(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct bg b = {.f = f, .code = "sleep 300"};

    atomic_store(&fake.walls, UINT32_MAX);
    create(f);
    bg_start(&b);
    wait_state(f, SESSION_RUNNING, 0);
    must_attach(f, kept.file, "a.csv", NULL);
    assert_int_equal(get(f).state, SESSION_RUNNING);
    pthread_join(b.thread, NULL);
    expect(b.e, OUTCOME_OK, false, NULL);
    expect_inside(f, "a.csv", true);
}

static void session_attach_to_a_dormant_one(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    unsigned creates, spawns;

    create(f);
    close_it(f);
    open_it(f);
    wait_proven(f);
    atomic_store(&fake.walls, UINT32_MAX);
    creates = atomic_load(&fake.creates);
    spawns = atomic_load(&fake.spawns);
    must_attach(f, kept.file, "a.csv", NULL);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    assert_int_equal(atomic_load(&fake.spawns), spawns);
    expect_inside(f, "a.csv", true);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(atomic_load(&fake.mounts), 1);
    assert_int_equal(atomic_load(&fake.creates), creates);
    expect_inside(f, "a.csv", true);
}

static void session_attach_refusals(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "dir/in.csv");
    struct session_attach what = {.file = kept.file, .path = "../x"};
    struct session_file done;

    assert_int_equal(session_attach(f->s, &WHO, f->id, &what, &done, &f->err),
                     -ERR_INVALID);
    what.path = "dir"; /* a folder is in the way */
    assert_int_equal(session_attach(f->s, &WHO, f->id, &what, &done, &f->err),
                     -ERR_CONFLICT);
    what = (struct session_attach){.file = "file_0", .path = "x"};
    assert_int_equal(session_attach(f->s, &WHO, f->id, &what, &done, &f->err),
                     -ERR_NOT_FOUND);
    /* A sandbox that cannot be made again: the file is kept, the session
     * sleeps, and has it when it wakes. */
    atomic_store(&fake.walls, UINT32_MAX);
    create(f);
    atomic_store(&fake.fault, FAULT_FULL);
    must_attach(f, kept.file, "a.csv", NULL);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    atomic_store(&fake.fault, FAULT_NONE);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    expect_inside(f, "a.csv", true);
}

/* Its bytes are held by the session's own version from then on. */
static void D10_session_attach_outlives_the_file(void **state)
{
    struct fixture *f = *state;
    struct kept kept = keep(f, "in.csv");
    struct session_attach file = {.file = kept.file, .path = "a.csv"};
    struct workspace_collected done;
    char workspace[ID_MAX], first[ID_MAX];

    memcpy(workspace, get(f).workspace, ID_MAX);
    memcpy(first, f->id, ID_MAX);
    assert_int_equal(create_with(f, &file, 1, false), 0);
    assert_int_equal(session_delete(f->s, &WHO, first, &f->err), 0);
    assert_int_equal(workspace_destroy(f->w, &WHO, workspace, &f->err), 0);
    assert_int_equal(workspaces_collect(f->w, &done, &f->err), 0);
    expect_inside(f, "a.csv", true);
    close_it(f);
    open_it(f);
    expect_inside(f, "a.csv", true);
    assert_int_equal(create_with(f, &file, 1, false), -ERR_NOT_FOUND);
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(session_files_from_the_start_are_linked),
        LIVE(session_files_from_the_start_without_mounts),
        LIVE(session_files_into_an_ephemeral_one_are_copied),
        LIVE(session_files_limits),
        LIVE(I3_session_files_of_others_are_unknown),
        LIVE(session_attach_before_the_first_execution),
        LIVE(session_attach_to_a_used_sandbox),
        LIVE(session_attach_while_something_runs),
        LIVE(session_attach_to_a_dormant_one),
        LIVE(session_attach_refusals),
        LIVE(D10_session_attach_outlives_the_file),
    };

    return cmocka_run_group_tests_name("session_attach", tests, NULL, NULL);
}
