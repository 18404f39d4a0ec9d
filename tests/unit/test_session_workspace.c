/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session and workspace together: every run is a commit, what is kept over a
 * restart, several sessions on one workspace. The sandbox is a fake, the
 * store is real.
 */
#include "session_fixture.h"

/* Runs it and hands out what became of its files. */
static struct execution *run(struct fixture *f, const char *code,
                             struct exec_info *ret)
{
    struct execution *e = run_for(f, EXEC_PYTHON, code, 0);

    execution_info(e, ret);
    return e;
}

static void create_as(struct fixture *f, const struct session_spec *spec,
                      char ret_id[ID_MAX], char ret_workspace[ID_MAX])
{
    struct session_info info;

    if (session_create(f->s, &WHO, spec, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    memcpy(ret_id, info.id, ID_MAX);
    memcpy(ret_workspace, info.workspace, ID_MAX);
    session_info_done(&info);
}

static size_t workspaces_of(struct fixture *f)
{
    struct workspace_info *list = NULL;
    struct page_result got = {0};

    if (workspace_list(f->w, &WHO, false, &(struct page){.limit = 100}, &list,
                       &got, &f->err) < 0)
        fail_msg("%s", f->err.message);
    free(list);
    return got.count;
}

static size_t files_of(struct fixture *f, struct session_file **ret)
{
    size_t count = 0;
    bool more;

    if (session_files_list(f->s, ACTOR(TENANT), f->id, 100, NULL, ret, &count,
                           &more, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return count;
}

static void D1_session_and_files_survive_a_restart(void **state)
{
    struct fixture *f = *state;
    struct session_file *files;
    struct session_info *page;
    struct exec_info info;
    struct execution *e;
    char version[ID_MAX];
    size_t count;
    bool more;

    e = run(f, "file a.txt\nfile d/b.txt", &info);
    (void)snprintf(version, sizeof(version), "%s", info.files[0].version);
    expect(e, OUTCOME_OK, false, NULL);
    close_it(f);
    open_it(f);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    assert_int_equal(session_list(f->s, ACTOR(TENANT), 10, NULL, &page, &count,
                                  &more, &f->err),
                     0);
    assert_int_equal(count, 1);
    assert_string_equal(page[0].id, f->id);
    session_info_done(&page[0]);
    free(page);
    /* Its files can be seen without waking it. */
    count = files_of(f, &files);
    assert_int_equal(count, 2);
    assert_string_equal(files[0].path, "a.txt");
    assert_string_equal(files[0].version, version);
    session_files_free(files, count);
    assert_int_equal(get(f).state, SESSION_DORMANT);
    /* And are there when it wakes, with a fresh interpreter. */
    e = run(f, "out x", &info);
    assert_true(info.interpreter_fresh);
    assert_int_equal(info.file_count, 0);
    expect(e, OUTCOME_OK, false, NULL);
    assert_true(get(f).interpreter > 1);
    count = files_of(f, &files);
    assert_int_equal(count, 2); /* the fake lists the folder, not b.txt */
    assert_string_equal(files[0].path, "a.txt");
    session_files_free(files, count);
}

static void session_deleted_stays_deleted_and_leaves_its_files(void **state)
{
    struct fixture *f = *state;
    struct workspace_file file;
    char workspace[ID_MAX];
    struct exec_info info;

    expect(run(f, "file a.txt", &info), OUTCOME_OK, false, NULL);
    memcpy(workspace, get(f).workspace, ID_MAX);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    close_it(f);
    open_it(f);
    assert_int_equal(session_get(f->s, ACTOR(TENANT), f->id,
                                 &(struct session_info){0}, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(workspace_file_get(f->w, &WHO, workspace, "a.txt", NULL,
                                        &file, &f->err),
                     0);
    assert_int_equal(file.size, strlen("a.txt"));
    workspace_file_done(&file);
}

static void session_without_files_leaves_no_workspace(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(workspaces_of(f), 1);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_int_equal(workspaces_of(f), 0);
}

static void session_of_a_single_run(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.transient = true};
    char workspace[ID_MAX];
    struct exec_info info;

    create_as(f, &spec, f->id, workspace);
    assert_int_equal(workspaces_of(f), 1); /* the fixture's */
    check_run(f, "out x", OUTCOME_OK, false, NULL);
    assert_int_equal(workspaces_of(f), 1);
    expect(run(f, "file a.txt", &info), OUTCOME_OK, false, NULL);
    assert_int_equal(workspaces_of(f), 2);
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_int_equal(workspaces_of(f), 2);
    /* And it is not there after a restart, whatever it left. */
    create_as(f, &spec, f->id, workspace);
    close_it(f);
    open_it(f);
    assert_int_equal(session_get(f->s, ACTOR(TENANT), f->id,
                                 &(struct session_info){0}, &f->err),
                     -ERR_NOT_FOUND);
}

static void session_ephemeral_keeps_nothing(void **state)
{
    static const struct {
        const char *code, *change;
    } steps[] = {
        {"file a.txt", "created"},
        {"file a.txt", "modified"},
        {"drop a.txt", "deleted"},
        {"file a.txt", "created"},
    };
    struct fixture *f = *state;
    struct session_spec spec = {.ephemeral = true};
    char workspace[ID_MAX];
    uint64_t bytes, blobs;
    struct exec_info info;

    create_as(f, &spec, f->id, workspace);
    assert_string_equal(workspace, "");
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        struct execution *e = run(f, steps[i].code, &info);

        assert_int_equal(info.file_count, 1);
        assert_string_equal(info.files[0].change, steps[i].change);
        assert_string_equal(info.files[0].version, "");
        assert_string_equal(info.commit, "");
        expect(e, OUTCOME_OK, false, NULL);
    }
    put(f, "b");
    assert_int_equal(session_delete(f->s, &WHO, f->id, &f->err), 0);
    assert_int_equal(workspaces_of(f), 1); /* the fixture's */
    blobs_usage(f->blobs, &bytes, &blobs);
    assert_int_equal(blobs, 0);
    spec.workspace = "ws_00000000000000000000000000000000";
    assert_int_equal(
        session_create(f->s, &WHO, &spec, &(struct session_info){0}, &f->err),
        -ERR_INVALID);
}

static void session_links_are_skipped_and_said(void **state)
{
    struct fixture *f = *state;
    struct exec_info info;
    struct execution *e;

    expect(run(f, "file a.txt", &info), OUTCOME_OK, false, NULL);
    e = run(f, "link a.txt", &info);
    assert_int_equal(info.file_count, 2);
    assert_string_equal(info.files[0].change, "deleted");
    assert_int_equal(info.files[1].fate, EXEC_FILE_SKIPPED);
    assert_string_equal(info.files[1].why, "symbolic links are not kept");
    expect(e, OUTCOME_OK, false, NULL);
}

static void session_two_on_one_workspace(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {0};
    struct session_info after;
    struct exec_info info;
    struct execution *e;
    char first[ID_MAX], second[ID_MAX], workspace[ID_MAX], other[ID_MAX];
    uint32_t changed = 0;

    memcpy(first, f->id, ID_MAX);
    memcpy(workspace, get(f).workspace, ID_MAX);
    expect(run(f, "file a.txt", &info), OUTCOME_OK, false, NULL);
    spec.workspace = workspace;
    create_as(f, &spec, second, other);
    assert_string_equal(other, workspace);
    /* The first goes on; the second has not seen it. */
    e = run(f, "drop a.txt\nfile new.txt", &info);
    assert_int_equal(info.file_count, 2);
    expect(e, OUTCOME_OK, false, NULL);
    memcpy(f->id, second, ID_MAX);
    e = run(f, "file new.txt\nfile mine.txt", &info);
    expect(execution_ref(e), OUTCOME_OK, false, NULL);
    for (size_t i = 0; i < info.file_count; i++)
        if (info.files[i].fate == EXEC_FILE_CONFLICT) {
            assert_string_equal(info.files[i].wanted, "new.txt");
            assert_string_not_equal(info.files[i].path, "new.txt");
        } else {
            assert_string_equal(info.files[i].path, "mine.txt");
        }
    execution_unref(e);
    /* Until it is brought up to date. */
    assert_int_equal(
        session_refresh(f->s, &WHO, second, &changed, &after, &f->err), 0);
    session_info_done(&after);
    assert_int_equal(changed, 2);
    e = run(f, "drop new.txt", &info);
    assert_int_equal(info.file_count, 1);
    assert_int_equal(info.files[0].fate, EXEC_FILE_DONE);
    assert_string_equal(info.files[0].change, "deleted");
    expect(e, OUTCOME_OK, false, NULL);
    /* Somebody else's is as unknown as any. */
    assert_int_equal(
        session_refresh(f->s, &OTHER, second, &changed, &after, &f->err),
        -ERR_NOT_FOUND);
    spec.workspace = workspace;
    assert_int_equal(session_create(f->s, &OTHER, &spec, &after, &f->err),
                     -ERR_NOT_FOUND);
}

static void session_viewer_cannot_write(void **state)
{
    static const struct actor viewer = {.tenant = TENANT, .key = "key_viewer"};
    struct fixture *f = *state;
    struct session_spec spec = {0};
    struct session_info made;
    struct exec_info info;
    char workspace[ID_MAX];

    expect(run(f, "file a.txt", &info), OUTCOME_OK, false, NULL);
    memcpy(workspace, get(f).workspace, ID_MAX);
    assert_int_equal(
        workspace_member_set(f->w, &WHO, workspace, "*", ROLE_VIEWER, &f->err),
        0);
    spec.workspace = workspace;
    assert_int_equal(session_create(f->s, &viewer, &spec, &made, &f->err), 0);
    memcpy(f->id, made.id, ID_MAX);
    session_info_done(&made);
    {
        struct exec_spec code = {.code = "file a.txt\nfile b.txt",
                                 .code_len = 21};
        struct execution *e;

        assert_int_equal(
            execution_run(f->s, &viewer, f->id, &code, &e, &f->err), 0);
        execution_info(e, &info);
        assert_int_equal(info.outcome, OUTCOME_DENIED);
        assert_int_equal(info.file_count, 2);
        assert_int_equal(info.files[0].fate, EXEC_FILE_REFUSED);
        execution_unref(e);
    }
}

static void session_between_executions_is_kept_too(void **state)
{
    struct fixture *f = *state;
    struct session_file *files;
    struct fake_box *b = fake.boxes;
    size_t count;

    /* As a process left in the background would. */
    fake_touch(b, "late.txt", INIT_ENTRY_WROTE);
    f->conf.pools[0].cooldown_s = 0;
    wait_state(f, SESSION_DORMANT, 0);
    f->conf.pools[0].cooldown_s = 100;
    count = files_of(f, &files);
    assert_int_equal(count, 1);
    assert_string_equal(files[0].path, "late.txt");
    session_files_free(files, count);
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(D1_session_and_files_survive_a_restart),
        LIVE(session_deleted_stays_deleted_and_leaves_its_files),
        LIVE(session_without_files_leaves_no_workspace),
        LIVE(session_of_a_single_run),
        LIVE(session_ephemeral_keeps_nothing),
        LIVE(session_links_are_skipped_and_said),
        LIVE(session_two_on_one_workspace),
        LIVE(session_viewer_cannot_write),
        LIVE(session_between_executions_is_kept_too),
    };

    return cmocka_run_group_tests_name("session_workspace", tests, NULL, NULL);
}
