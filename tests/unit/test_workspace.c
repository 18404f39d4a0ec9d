/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace: who may see and do what, workspaces made, changed, handed over
 * and deleted, and what can be read of them: files, lists, history, what
 * changed, what a conversation made, and how it was before.
 */
#include "workspace_fixture.h"

#include "base/clock.h"

static const struct workspace_patch leave = {
    .quota_bytes = -1, .keep_versions = -1, .keep_days = -1, .legal_hold = -1};

static void member(struct fixture *f, const char *principal,
                   enum workspace_role role)
{
    OK(f, workspace_member_set(f->w, &fixture_a, f->ws.id, principal, role,
                               &f->err));
}

/* ---- making and finding ------------------------------------------------- */

static void create_and_get(void **state)
{
    struct fixture *f = *state;
    struct workspace_info got;
    struct workspace_spec spec = {.id = "ws_nonsense"};
    char id[ID_MAX];

    assert_string_equal(f->ws.name, "desk");
    assert_string_equal(f->ws.owner, KEY_A);
    assert_int_equal(f->ws.role, ROLE_OWNER);
    OK(f, workspace_get(f->w, &fixture_a, f->ws.id, &got, &f->err));
    assert_memory_equal(&got, &f->ws, sizeof(got));

    REFUSED(f, ERR_INVALID,
            workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    ids_make("ws", id);
    spec.id = id;
    spec.made_for = SESSION_1;
    OK(f, workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    assert_string_equal(got.id, id);
    assert_true(got.made_for_session);
    REFUSED(f, ERR_CONFLICT,
            workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
}

static void create_name_limits(void **state)
{
    struct fixture *f = *state;
    char name[140];
    struct workspace_spec spec = {.name = name};
    struct workspace_info got;

    memset(name, 'n', sizeof(name));
    name[128] = '\0';
    OK(f, workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    assert_string_equal(got.name, name);
    name[128] = 'n';
    name[129] = '\0';
    REFUSED(f, ERR_INVALID,
            workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    spec.name = "two\nlines";
    REFUSED(f, ERR_INVALID,
            workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    spec.name = "\xff";
    REFUSED(f, ERR_INVALID,
            workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
}

static void create_at_most_so_many(void **state)
{
    struct fixture *f = *state;
    struct workspace_spec spec = {0};
    struct workspace_info got;

    f->settings.tenant_workspaces = 3;
    fixture_reopen(f);
    OK(f, workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    OK(f, workspace_create(f->w, &fixture_b, &spec, &got, &f->err));
    REFUSED(f, ERR_LIMIT,
            workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    OK(f, workspace_create(f->w, &fixture_x, &spec, &got, &f->err));
    /* One that is deleted makes room, and must find room to come back. */
    OK(f, workspace_delete(f->w, &fixture_a, f->ws.id, &f->err));
    OK(f, workspace_create(f->w, &fixture_a, &spec, &got, &f->err));
    REFUSED(f, ERR_LIMIT,
            workspace_undelete(f->w, &fixture_a, f->ws.id, &got, &f->err));
}

static void list_pages_newest_first(void **state)
{
    struct fixture *f = *state;
    struct workspace_info *infos, made[5];
    struct page_result got = {.has_more = true};
    size_t seen = 0;
    char after[ID_MAX] = "", seen_ids[8][ID_MAX];

    for (size_t i = 0; i < 5; i++) {
        struct workspace_spec spec = {.private_to_owner = i % 2};

        OK(f, workspace_create(f->w, &fixture_a, &spec, &made[i], &f->err));
    }
    while (got.has_more) {
        OK(f, workspace_list(
                  f->w, &fixture_a, false,
                  &(struct page){.limit = 2, .after = after[0] ? after : NULL},
                  &infos, &got, &f->err));
        assert_true(got.count > 0 && got.count <= 2);
        for (size_t i = 0; i < got.count; i++)
            memcpy(seen_ids[seen++], infos[i].id, ID_MAX);
        memcpy(after, infos[got.count - 1].id, ID_MAX);
        free(infos);
    }
    assert_int_equal(seen, 6);
    for (size_t i = 0; i < seen; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(seen_ids[i], seen_ids[k]);
    assert_string_equal(seen_ids[5], f->ws.id);
    /* Not the private ones. */
    OK(f, workspace_list(f->w, &fixture_b, false, &(struct page){.limit = 0},
                         &infos, &got, &f->err));
    assert_int_equal(got.count, 4);
    assert_int_equal(infos[0].role, ROLE_EDITOR);
    free(infos);
    OK(f, workspace_list(f->w, &fixture_r, false, &(struct page){.limit = 0},
                         &infos, &got, &f->err));
    assert_int_equal(got.count, 6);
    assert_int_equal(infos[0].role, ROLE_OWNER);
    free(infos);
    OK(f, workspace_list(f->w, &fixture_x, false, &(struct page){.limit = 0},
                         &infos, &got, &f->err));
    assert_int_equal(got.count, 0);
    free(infos);
    REFUSED(f, ERR_INVALID,
            workspace_list(f->w, &fixture_x, false,
                           &(struct page){.after = f->ws.id}, &infos, &got,
                           &f->err));
}

/* ---- roles -------------------------------------------------------------- */

static enum workspace_role role_of(struct fixture *f, const struct actor *who)
{
    struct workspace_info got = {0};

    return workspace_get(f->w, who, f->ws.id, &got, &f->err) < 0 ? ROLE_NONE
                                                                 : got.role;
}

static void roles_of_everybody(void **state)
{
    struct fixture *f = *state;
    struct actor foreign_admin = fixture_x;

    foreign_admin.admin = true;
    assert_int_equal(role_of(f, &fixture_a), ROLE_OWNER);
    assert_int_equal(role_of(f, &fixture_b), ROLE_EDITOR); /* by "*" */
    assert_int_equal(role_of(f, &fixture_r), ROLE_OWNER);  /* an admin */
    assert_int_equal(role_of(f, &fixture_x), ROLE_NONE);
    assert_int_equal(role_of(f, &foreign_admin), ROLE_NONE);
    member(f, "*", ROLE_NONE);
    assert_int_equal(role_of(f, &fixture_b), ROLE_NONE);
    member(f, KEY_B, ROLE_VIEWER);
    assert_int_equal(role_of(f, &fixture_b), ROLE_VIEWER);
    member(f, "*", ROLE_EDITOR); /* its own entry comes first */
    assert_int_equal(role_of(f, &fixture_b), ROLE_VIEWER);
    member(f, KEY_X, ROLE_EDITOR); /* of another tenant, asked in */
    assert_int_equal(role_of(f, &fixture_x), ROLE_EDITOR);
    assert_int_equal(workspace_role_parse("editor"), ROLE_EDITOR);
    assert_int_equal(workspace_role_parse("none"), ROLE_NONE);
    assert_int_equal(workspace_role_parse(NULL), ROLE_NONE);
    assert_string_equal(workspace_role_name(ROLE_OWNER), "owner");
}

static void members_are_listed_and_checked(void **state)
{
    struct fixture *f = *state;
    struct workspace_member *list;
    struct audit_line line;
    size_t count;

    member(f, KEY_B, ROLE_VIEWER);
    OK(f,
       workspace_members(f->w, &fixture_b, f->ws.id, &list, &count, &f->err));
    assert_int_equal(count, 3);
    assert_string_equal(list[0].principal, KEY_A);
    assert_int_equal(list[0].role, ROLE_OWNER);
    assert_string_equal(list[1].principal, "*");
    assert_string_equal(list[2].principal, KEY_B);
    assert_string_equal(list[2].added_by, KEY_A);
    free(list);
    last_event(f, "member.set", &line);
    assert_string_equal(line.object, KEY_B);
    assert_string_equal(line.before, "none");
    assert_string_equal(line.after, "viewer");
    event_done(&line);

    REFUSED(f, ERR_INVALID,
            workspace_member_set(f->w, &fixture_a, f->ws.id, "somebody",
                                 ROLE_VIEWER, &f->err));
    REFUSED(f, ERR_INVALID,
            workspace_member_set(f->w, &fixture_a, f->ws.id, "*", ROLE_OWNER,
                                 &f->err));
    REFUSED(f, ERR_CONFLICT,
            workspace_member_set(f->w, &fixture_a, f->ws.id, KEY_A,
                                 ROLE_VIEWER, &f->err));
    REFUSED(f, ERR_FORBIDDEN,
            workspace_member_set(f->w, &fixture_c, f->ws.id, KEY_C, ROLE_OWNER,
                                 &f->err));
    /* A second owner may; anybody may leave. */
    member(f, KEY_C, ROLE_OWNER);
    OK(f, workspace_member_set(f->w, &fixture_c, f->ws.id, "*", ROLE_NONE,
                               &f->err));
    OK(f, workspace_member_set(f->w, &fixture_b, f->ws.id, KEY_B, ROLE_NONE,
                               &f->err));
    assert_int_equal(role_of(f, &fixture_b), ROLE_NONE);
}

static void members_at_most_so_many(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = NULL;

    /* "*" is one of them. */
    OK(f, store_begin(f->store, STORE_WRITE, "filling", &tx, &f->err));
    OK(f, store_exec(tx, &f->err,
                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
                     " FROM n WHERE i < 998) INSERT INTO members (workspace,"
                     " principal, role, added_at_ms, added_by) SELECT ?1,"
                     " 'key_' || i, 1, 1, 'key_x' FROM n",
                     "t", f->ws.id));
    OK(f, store_commit(&tx, &f->err));
    member(f, KEY_B, ROLE_VIEWER);
    REFUSED(f, ERR_LIMIT,
            workspace_member_set(f->w, &fixture_a, f->ws.id, KEY_C,
                                 ROLE_VIEWER, &f->err));
    member(f, KEY_B, ROLE_EDITOR); /* one that is there may change */
    member(f, KEY_B, ROLE_NONE);
    member(f, KEY_C, ROLE_VIEWER);
}

static void viewer_cannot_write(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload");
    struct workspace_restore_spec restore = {.commit = "x"};
    struct workspace_patch patch = leave;
    struct workspace_lock lock;
    struct workspace_commit c;
    struct workspace_info got;
    struct workspace_offer offer;
    struct audit_line line;
    char token[65];

    put(f, "x", "1", NULL);
    member(f, KEY_B, ROLE_VIEWER);
    TREE_IS(f, 0, "x=1");
    set_put(&s, "x", "2");
    COMMIT_REFUSED(&s, &fixture_b, ERR_FORBIDDEN);
    REFUSED(f, ERR_FORBIDDEN,
            workspace_restore(f->w, &fixture_b, f->ws.id, &restore, NULL, 0,
                              &c, &f->err));
    REFUSED(
        f, ERR_FORBIDDEN,
        workspace_lock(f->w, &fixture_b, f->ws.id,
                       &(struct workspace_lock_spec){.path = "x", .ttl_s = 60},
                       &lock, token, &f->err));
    /* An editor writes but does not rule. */
    patch.name = "renamed";
    REFUSED(
        f, ERR_FORBIDDEN,
        workspace_patch(f->w, &fixture_c, f->ws.id, &patch, &got, &f->err));
    REFUSED(f, ERR_FORBIDDEN,
            workspace_delete(f->w, &fixture_c, f->ws.id, &f->err));
    REFUSED(f, ERR_FORBIDDEN,
            workspace_destroy(f->w, &fixture_c, f->ws.id, &f->err));
    REFUSED(f, ERR_FORBIDDEN,
            workspace_transfer(f->w, &fixture_c, f->ws.id, KEY_C, "acme", &got,
                               &f->err));
    REFUSED(f, ERR_FORBIDDEN,
            workspace_offer(f->w, &fixture_c, f->ws.id, 60, &offer, token,
                            &f->err));
    TREE_IS(f, 0, "x=1");
    last_event(f, "workspace.access", &line);
    assert_string_equal(line.result, "forbidden");
    assert_string_equal(line.workspace, f->ws.id);
    event_done(&line);
}

/* ---- I3 ----------------------------------------------------------------- */

/* Every call that names a workspace, by number; -code, or 0. */
static int call_by_number(struct fixture *f, const struct actor *who,
                          unsigned n, const char *id)
{
    struct workspace_history_spec history = {.limit = 1};
    struct workspace_restore_spec restore = {.commit = "cmt_x"};
    struct workspace_commit_spec commit = {.kind = "upload"};
    struct workspace_patch patch = leave;
    union {
        struct workspace_info info;
        struct workspace_file file;
        struct workspace_commit commit;
        struct workspace_offer offer;
        struct workspace_lock lock;
    } out;
    void *list = NULL;
    struct page_result got = {0};
    int64_t head;
    char token[65];

    switch (n) {
    case 0:
        return workspace_get(f->w, who, id, &out.info, &f->err);
    case 1:
        return workspace_patch(f->w, who, id, &patch, &out.info, &f->err);
    case 2:
        return workspace_delete(f->w, who, id, &f->err);
    case 3:
        return workspace_undelete(f->w, who, id, &out.info, &f->err);
    case 4:
        return workspace_destroy(f->w, who, id, &f->err);
    case 5:
        return workspace_members(f->w, who, id,
                                 (struct workspace_member **)&list, &got.count,
                                 &f->err);
    case 6:
        return workspace_member_set(f->w, who, id, KEY_C, ROLE_EDITOR,
                                    &f->err);
    case 7:
        return workspace_transfer(f->w, who, id, KEY_X, "other", &out.info,
                                  &f->err);
    case 8:
        return workspace_offer(f->w, who, id, 60, &out.offer, token, &f->err);
    case 9:
        return workspace_offers(f->w, who, id,
                                (struct workspace_offer **)&list, &got.count,
                                &f->err);
    case 10:
        return workspace_offer_revoke(f->w, who, id, "xfer_x", &f->err);
    case 11:
        return workspace_commit(f->w, who, id, &commit, &out.commit, &f->err);
    case 12:
        return workspace_file_get(f->w, who, id, "x", NULL, &out.file,
                                  &f->err);
    case 13:
        return workspace_files_list(
            f->w, who, id, &(struct workspace_files_spec){.limit = 1},
            (struct workspace_file **)&list, &got, &f->err);
    case 14:
        return workspace_history(f->w, who, id, &history,
                                 (struct workspace_event **)&list, &got,
                                 &f->err);
    case 15:
        return workspace_restore(f->w, who, id, &restore, NULL, 0, &out.commit,
                                 &f->err);
    case 16:
        return workspace_lock(
            f->w, who, id,
            &(struct workspace_lock_spec){.path = "x", .ttl_s = 60}, &out.lock,
            token, &f->err);
    case 17:
        return workspace_locks(f->w, who, id, (struct workspace_lock **)&list,
                               &got.count, &f->err);
    case 18:
        return workspace_lock_renew(f->w, who, id, "lock_x", "t", 60,
                                    &out.lock, &f->err);
    case 19:
        return workspace_unlock(f->w, who, id, "lock_x", NULL, &f->err);
    case 20:
        return workspace_changes(f->w, who, id, 0, NULL,
                                 (struct workspace_file **)&list, &got.count,
                                 &head, &f->err);
    default:
        return 1;
    }
}

#define CALLS 21u

static void I3_foreign_and_unknown_are_the_same(void **state)
{
    struct fixture *f = *state;
    struct workspace_spec spec = {.private_to_owner = true};
    struct workspace_info private, deleted;
    const struct {
        const struct actor *who;
        const char *id;
    } hidden[] = {
        {&fixture_x, f->ws.id},   /* another tenant's */
        {&fixture_b, private.id}, /* the same tenant's, not for this key */
        {&fixture_a, deleted.id}, /* one's own, past its time */
    };

    put(f, "x", "1", NULL);
    OK(f, workspace_create(f->w, &fixture_a, &spec, &private, &f->err));
    OK(f, workspace_create(f->w, &fixture_a, &spec, &deleted, &f->err));
    f->settings.restore_window_s = 0;
    fixture_reopen(f);
    OK(f, workspace_delete(f->w, &fixture_a, deleted.id, &f->err));
    for (unsigned n = 0; n < CALLS; n++) {
        char unknown[ID_MAX];
        struct error want;
        int code;

        ids_make("ws", unknown);
        memset(&f->err, 0, sizeof(f->err));
        code = call_by_number(f, &fixture_x, n, unknown);
        want = f->err;
        assert_int_equal(code, -ERR_NOT_FOUND);
        assert_string_equal(want.message, "no such workspace");
        for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
            memset(&f->err, 0, sizeof(f->err));
            assert_int_equal(call_by_number(f, hidden[i].who, n, hidden[i].id),
                             code);
            assert_memory_equal(&f->err, &want, sizeof(want));
        }
    }
    assert_int_equal(call_by_number(f, &fixture_x, CALLS, ""), 1);
    TREE_IS(f, 0, "x=1");
}

static void I3_files_and_versions_by_id(void **state)
{
    struct fixture *f = *state;
    struct workspace_file file, other;
    struct workspace_event event;
    char version[ID_MAX], ws[ID_MAX], base[ID_MAX], unknown[ID_MAX];
    struct error want;

    put(f, "x", "1", version);
    OK(f, workspace_file_get(f->w, &fixture_a, f->ws.id, "x", NULL, &file,
                             &f->err));
    OK(f, workspace_file_find(f->w, &fixture_b, file.file, NULL, &other, ws,
                              &f->err));
    assert_string_equal(other.path, "x");
    assert_string_equal(ws, f->ws.id);
    workspace_file_done(&other);
    OK(f, workspace_file_find(f->w, &fixture_b, file.file, version, &other, ws,
                              &f->err));
    workspace_file_done(&other);
    OK(f, workspace_provenance(f->w, &fixture_b, version, &event, ws, base,
                               &f->err));
    workspace_event_done(&event);

    ids_make("file", unknown);
    for (int i = 0; i < 2; i++) {
        const char *v = i ? version : NULL;

        memset(&f->err, 0, sizeof(f->err));
        REFUSED(f, ERR_NOT_FOUND,
                workspace_file_find(f->w, &fixture_x, unknown, v, &other, ws,
                                    &f->err));
        want = f->err;
        memset(&f->err, 0, sizeof(f->err));
        REFUSED(f, ERR_NOT_FOUND,
                workspace_file_find(f->w, &fixture_x, file.file, v, &other, ws,
                                    &f->err));
        assert_memory_equal(&f->err, &want, sizeof(want));
    }
    memset(&f->err, 0, sizeof(f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_provenance(f->w, &fixture_x, "ver_unknown", &event, ws,
                                 base, &f->err));
    want = f->err;
    memset(&f->err, 0, sizeof(f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_provenance(f->w, &fixture_x, version, &event, ws, base,
                                 &f->err));
    assert_memory_equal(&f->err, &want, sizeof(want));
    workspace_file_done(&file);
}

/* ---- rules, deleting, bringing back ------------------------------------- */

static void patch_rules(void **state)
{
    struct fixture *f = *state;
    struct workspace_patch p = leave;
    struct workspace_info got;

    p.name = "new name";
    p.keep_versions = 5;
    p.keep_days = 30;
    OK(f, workspace_patch(f->w, &fixture_a, f->ws.id, &p, &got, &f->err));
    assert_string_equal(got.name, "new name");
    assert_int_equal(got.keep_versions, 5);
    assert_int_equal(got.keep_days, 30);
    assert_int_equal(got.quota_bytes, 0);

    p = leave; /* nothing said, nothing changed */
    OK(f, workspace_patch(f->w, &fixture_a, f->ws.id, &p, &got, &f->err));
    assert_string_equal(got.name, "new name");
    assert_int_equal(got.keep_versions, 5);

    p.quota_bytes = 100;
    REFUSED(f, ERR_FORBIDDEN,
            workspace_patch(f->w, &fixture_a, f->ws.id, &p, &got, &f->err));
    p.legal_hold = 1;
    OK(f, workspace_patch(f->w, &fixture_r, f->ws.id, &p, &got, &f->err));
    assert_int_equal(got.quota_bytes, 100);
    assert_true(got.legal_hold);
    REFUSED(f, ERR_CONFLICT,
            workspace_delete(f->w, &fixture_a, f->ws.id, &f->err));
    REFUSED(f, ERR_CONFLICT,
            workspace_destroy(f->w, &fixture_a, f->ws.id, &f->err));

    p = leave;
    p.keep_versions = 1000000;
    p.keep_days = 36500;
    OK(f, workspace_patch(f->w, &fixture_a, f->ws.id, &p, &got, &f->err));
    p.keep_days = 36501;
    REFUSED(f, ERR_INVALID,
            workspace_patch(f->w, &fixture_a, f->ws.id, &p, &got, &f->err));
    p.keep_days = -2;
    REFUSED(f, ERR_INVALID,
            workspace_patch(f->w, &fixture_a, f->ws.id, &p, &got, &f->err));
    p = leave;
    p.keep_versions = 1000001;
    REFUSED(f, ERR_INVALID,
            workspace_patch(f->w, &fixture_a, f->ws.id, &p, &got, &f->err));
}

static void D10_delete_hides_and_undelete_brings_back(void **state)
{
    struct fixture *f = *state;
    struct workspace_info *infos, back;
    struct workspace_file file;
    struct workspace_event event;
    char version[ID_MAX], id[ID_MAX], ws[ID_MAX], base[ID_MAX];
    struct page_result got = {0};

    put(f, "x", "1", version);
    OK(f, workspace_file_get(f->w, &fixture_a, f->ws.id, "x", NULL, &file,
                             &f->err));
    memcpy(id, file.file, sizeof(id));
    workspace_file_done(&file);
    OK(f, workspace_delete(f->w, &fixture_a, f->ws.id, &f->err));
    for (unsigned n = 0; n < CALLS; n++)
        if (n != 3)
            assert_int_equal(call_by_number(f, &fixture_a, n, f->ws.id),
                             -ERR_NOT_FOUND);
    REFUSED(
        f, ERR_NOT_FOUND,
        workspace_file_find(f->w, &fixture_a, id, NULL, &file, ws, &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_provenance(f->w, &fixture_a, version, &event, ws, base,
                                 &f->err));
    OK(f, workspace_list(f->w, &fixture_a, false, &(struct page){.limit = 0},
                         &infos, &got, &f->err));
    assert_int_equal(got.count, 0);
    free(infos);
    OK(f, workspace_list(f->w, &fixture_a, true, &(struct page){.limit = 0},
                         &infos, &got, &f->err));
    assert_int_equal(got.count, 1);
    assert_true(infos[0].deleted_at_ms > 0);
    assert_int_equal(infos[0].purge_at_ms - infos[0].deleted_at_ms, 3600000);
    free(infos);

    REFUSED(f, ERR_FORBIDDEN,
            workspace_undelete(f->w, &fixture_b, f->ws.id, &back, &f->err));
    OK(f, workspace_undelete(f->w, &fixture_a, f->ws.id, &back, &f->err));
    assert_int_equal(back.deleted_at_ms, 0);
    TREE_IS(f, 0, "x=1");
    REFUSED(f, ERR_NOT_FOUND,
            workspace_undelete(f->w, &fixture_a, f->ws.id, &back, &f->err));
}

static int count_blob(void *ctx, const struct blob_info *i)
{
    (void)i;
    ++*(unsigned *)ctx;
    return 0;
}

static int64_t rows_of(struct fixture *f, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    OK(f, store_begin(f->store, STORE_READ, "counting", &tx, &f->err));
    OK(f, store_one(tx, &rows, &f->err, sql, "t", f->ws.id));
    return store_int(rows, 0);
}

static void destroy_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned blobs = 0;
    struct set s = set_new(f, "upload");
    struct audit_line line;
    char sum[BLOB_NAME];

    set_put(&s, "secret", "bytes of this one");
    COMMITS(&s, &fixture_a, "done created secret");
    memcpy(sum, s.sums[0], sizeof(sum));
    blob_release(f->blobs, sum);
    OK(f, workspace_destroy(f->w, &fixture_a, f->ws.id, &f->err));
    for (unsigned n = 0; n < CALLS; n++)
        assert_int_equal(call_by_number(f, &fixture_a, n, f->ws.id),
                         -ERR_NOT_FOUND);
    assert_int_equal(
        rows_of(f, "SELECT (SELECT count(*) FROM workspaces WHERE id = ?1)"
                   " + (SELECT count(*) FROM files WHERE workspace = ?1)"
                   " + (SELECT count(*) FROM versions WHERE workspace = ?1)"
                   " + (SELECT count(*) FROM commits WHERE workspace = ?1)"
                   " + (SELECT count(*) FROM members WHERE workspace = ?1)"),
        0);
    OK(f, blob_iterate(f->blobs, count_blob, &blobs, &f->err));
    assert_int_equal(blobs, 0);
    last_event(f, "workspace.destroy", &line);
    assert_string_equal(line.workspace, f->ws.id);
    event_done(&line);
}

/* ---- handing over ------------------------------------------------------- */

static void transfer_makes_the_former_owner_an_editor(void **state)
{
    struct fixture *f = *state;
    struct workspace_info got;
    struct audit_line line;
    struct set s = set_new(f, "upload");

    member(f, "*", ROLE_NONE);
    put(f, "x", "1", NULL);
    OK(f, workspace_transfer(f->w, &fixture_a, f->ws.id, KEY_B, "acme", &got,
                             &f->err));
    assert_string_equal(got.owner, KEY_B);
    assert_int_equal(got.role, ROLE_EDITOR);
    assert_int_equal(role_of(f, &fixture_b), ROLE_OWNER);
    assert_int_equal(role_of(f, &fixture_a), ROLE_EDITOR);
    set_put(&s, "x", "2");
    COMMITS(&s, &fixture_a, "done modified x"); /* still writes */
    REFUSED(f, ERR_FORBIDDEN,
            workspace_delete(f->w, &fixture_a, f->ws.id, &f->err));
    last_event(f, "workspace.transfer", &line);
    assert_string_equal(line.before, KEY_A);
    assert_string_equal(line.after, KEY_B);
    event_done(&line);

    REFUSED(f, ERR_CONFLICT,
            workspace_transfer(f->w, &fixture_b, f->ws.id, KEY_B, "acme", &got,
                               &f->err));
    REFUSED(f, ERR_INVALID,
            workspace_transfer(f->w, &fixture_b, f->ws.id, "me", "acme", &got,
                               &f->err));
    REFUSED(f, ERR_FORBIDDEN,
            workspace_transfer(f->w, &fixture_b, f->ws.id, KEY_X, "other",
                               &got, &f->err));
    /* An admin hands it to any tenant. */
    OK(f, workspace_transfer(f->w, &fixture_r, f->ws.id, KEY_X, "other", &got,
                             &f->err));
    assert_string_equal(got.tenant, "other");
    assert_int_equal(role_of(f, &fixture_x), ROLE_OWNER);
    assert_int_equal(role_of(f, &fixture_b), ROLE_EDITOR);
    assert_int_equal(role_of(f, &fixture_r), ROLE_NONE);
}

static void transfer_counts_against_the_new_tenant(void **state)
{
    struct fixture *f = *state;
    struct workspace_info got;
    struct workspace_spec spec = {0};

    put(f, "x", "12345", NULL);
    f->settings.tenant_quota_bytes = 4;
    fixture_reopen(f);
    REFUSED(f, ERR_SPACE,
            workspace_transfer(f->w, &fixture_r, f->ws.id, KEY_X, "other",
                               &got, &f->err));
    f->settings.tenant_quota_bytes = 5;
    f->settings.tenant_workspaces = 1;
    fixture_reopen(f);
    OK(f, workspace_create(f->w, &fixture_x, &spec, &got, &f->err));
    REFUSED(f, ERR_LIMIT,
            workspace_transfer(f->w, &fixture_r, f->ws.id, KEY_X, "other",
                               &got, &f->err));
    assert_int_equal(role_of(f, &fixture_a), ROLE_OWNER);
    OK(f, workspace_destroy(f->w, &fixture_x, got.id, &f->err));
    OK(f, workspace_transfer(f->w, &fixture_r, f->ws.id, KEY_X, "other", &got,
                             &f->err));
}

static void offer_is_claimed_once(void **state)
{
    struct fixture *f = *state;
    struct workspace_offer offer, *list;
    struct workspace_info got;
    char token[65], second[65];
    size_t count;

    OK(f,
       workspace_offer(f->w, &fixture_a, f->ws.id, 0, &offer, token, &f->err));
    assert_int_equal(offer.expires_at_ms - offer.created_at_ms, 72 * 3600000);
    assert_int_equal(strlen(token), 64);
    REFUSED(f, ERR_INVALID,
            workspace_offer(f->w, &fixture_a, f->ws.id, 72 * 3600 + 1, &offer,
                            second, &f->err));
    OK(f, workspace_offer(f->w, &fixture_a, f->ws.id, 72 * 3600, &offer,
                          second, &f->err));
    OK(f,
       workspace_offers(f->w, &fixture_a, f->ws.id, &list, &count, &f->err));
    assert_int_equal(count, 2);
    free(list);
    REFUSED(f, ERR_CONFLICT,
            workspace_claim(f->w, &fixture_a, token, &got, &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_claim(f->w, &fixture_x, "wrong", &got, &f->err));
    OK(f, workspace_claim(f->w, &fixture_x, token, &got, &f->err));
    assert_string_equal(got.owner, KEY_X);
    assert_string_equal(got.tenant, "other");
    assert_int_equal(got.role, ROLE_OWNER);
    assert_int_equal(role_of(f, &fixture_a), ROLE_EDITOR);
    /* Neither again, nor the other one that was open. */
    REFUSED(f, ERR_NOT_FOUND,
            workspace_claim(f->w, &fixture_b, token, &got, &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_claim(f->w, &fixture_b, second, &got, &f->err));
}

static void offers_run_out_and_are_revoked(void **state)
{
    struct fixture *f = *state;
    struct workspace_offer offer, *list;
    struct workspace_info got;
    char token[65], short_one[65];
    size_t count;

    OK(f, workspace_offer(f->w, &fixture_a, f->ws.id, 1, &offer, short_one,
                          &f->err));
    for (int i = 0; i < 4; i++)
        OK(f, workspace_offer(f->w, &fixture_a, f->ws.id, 60, &offer, token,
                              &f->err));
    REFUSED(f, ERR_LIMIT,
            workspace_offer(f->w, &fixture_a, f->ws.id, 60, &offer, token,
                            &f->err));
    OK(f,
       workspace_offer_revoke(f->w, &fixture_a, f->ws.id, offer.id, &f->err));
    REFUSED(
        f, ERR_NOT_FOUND,
        workspace_offer_revoke(f->w, &fixture_a, f->ws.id, offer.id, &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_claim(f->w, &fixture_b, token, &got, &f->err));
    clock_test_advance(1100);
    REFUSED(f, ERR_NOT_FOUND,
            workspace_claim(f->w, &fixture_b, short_one, &got, &f->err));
    OK(f,
       workspace_offers(f->w, &fixture_a, f->ws.id, &list, &count, &f->err));
    assert_int_equal(count, 3);
    free(list);
}

/* ---- listing ------------------------------------------------------------ */

/* As "path path …", with "+" at the end when there are more. */
static void list_is(struct fixture *f, const char *prefix, int64_t at,
                    bool level, unsigned limit, const char *after,
                    const char *want)
{
    struct buf out cleanup(buf_done) = {0};
    struct workspace_file *files;
    struct page_result got = {0};

    buf_adds(&out, "");
    OK(f, workspace_files_list(f->w, &fixture_b, f->ws.id,
                               &(struct workspace_files_spec){.prefix = prefix,
                                                              .at = at,
                                                              .level = level,
                                                              .limit = limit,
                                                              .after = after},
                               &files, &got, &f->err));
    for (size_t i = 0; i < got.count; i++)
        buf_addf(&out, "%s%s", i ? " " : "", files[i].path);
    workspace_files_free(files, got.count);
    if (got.has_more)
        buf_adds(&out, " +");
    assert_string_equal(out.data, want);
}

static void list_by_prefix_level_and_page(void **state)
{
    static const char *const paths[] = {
        "a.txt", "a/1", "a/2/x", "a/2/y", "a0", "b", "\xc3\xa4/z", "z/1/2/3"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        put(f, paths[ARRAY_SIZE(paths) - 1 - i], "x", NULL);
    list_is(f, NULL, 0, false, 0, NULL,
            "a.txt a/1 a/2/x a/2/y a0 b z/1/2/3 \xc3\xa4/z");
    list_is(f, "a", 0, false, 0, NULL, "a.txt a/1 a/2/x a/2/y a0");
    list_is(f, "a/", 0, false, 0, NULL, "a/1 a/2/x a/2/y");
    list_is(f, "a/2", 0, false, 0, NULL, "a/2/x a/2/y");
    list_is(f, "\xc3\xa4", 0, false, 0, NULL, "\xc3\xa4/z");
    list_is(f, "nothing", 0, false, 0, NULL, "");
    list_is(f, NULL, 0, false, 3, NULL, "a.txt a/1 a/2/x +");
    list_is(f, NULL, 0, false, 3, "a/2/x", "a/2/y a0 b +");
    list_is(f, NULL, 0, false, 3, "b", "z/1/2/3 \xc3\xa4/z");
    list_is(f, NULL, 0, false, 8, NULL,
            "a.txt a/1 a/2/x a/2/y a0 b z/1/2/3 \xc3\xa4/z");
    list_is(f, NULL, 0, true, 0, NULL, "a.txt a/ a0 b z/ \xc3\xa4/");
    list_is(f, NULL, 0, true, 2, NULL, "a.txt a/ +");
    list_is(f, NULL, 0, true, 2, "a/", "a0 b +");
    list_is(f, "a/", 0, true, 0, NULL, "a/1 a/2/");
    list_is(f, "a/", 0, true, 1, "a/1", "a/2/");
    list_is(f, "z/1/", 0, true, 0, NULL, "z/1/2/");
    /* As of the first commits. */
    list_is(f, NULL, 2, false, 0, NULL, "z/1/2/3 \xc3\xa4/z");
    list_is(f, NULL, 5, true, 2, NULL, "a/ a0 +");
    list_is(f, "a/", 5, false, 0, NULL, "a/2/y");
    {
        struct workspace_file *files;
        struct page_result got = {0};

        REFUSED(f, ERR_NOT_FOUND,
                workspace_files_list(f->w, &fixture_a, f->ws.id,
                                     &(struct workspace_files_spec){.at = 9},
                                     &files, &got, &f->err));
        REFUSED(f, ERR_INVALID,
                workspace_files_list(
                    f->w, &fixture_a, f->ws.id,
                    &(struct workspace_files_spec){.prefix = "\xff"}, &files,
                    &got, &f->err));
    }
}

static void file_get_by_version(void **state)
{
    struct fixture *f = *state;
    struct set move = set_new(f, "move"), del = set_new(f, "delete");
    struct workspace_file file;
    char first[ID_MAX], other[ID_MAX], gone[ID_MAX];
    struct workspace_commit c;

    put(f, "x", "1", first);
    put(f, "y", "other", other);
    put(f, "x", "22", NULL);
    OK(f, workspace_file_get(f->w, &fixture_b, f->ws.id, "x", first, &file,
                             &f->err));
    assert_int_equal(file.size, 1);
    assert_int_equal(file.number, 1);
    workspace_file_done(&file);
    REFUSED(f, ERR_NOT_FOUND,
            workspace_file_get(f->w, &fixture_b, f->ws.id, "x", other, &file,
                               &f->err));
    /* A version from before the file was called so is still its own. */
    set_from(&move, CHANGE_MOVE, "x", "z");
    COMMITS(&move, &fixture_a, "done renamed z < x");
    OK(f, workspace_file_get(f->w, &fixture_b, f->ws.id, "z", first, &file,
                             &f->err));
    assert_string_equal(file.path, "x");
    workspace_file_done(&file);
    set_add(&del, CHANGE_REMOVE, "z");
    OK(f, set_commit(&del, &fixture_a, &c));
    memcpy(gone, c.results[0].file.version, sizeof(gone));
    workspace_commit_done(&c);
    REFUSED(f, ERR_NOT_FOUND,
            workspace_file_get(f->w, &fixture_b, f->ws.id, "z", NULL, &file,
                               &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_file_get(f->w, &fixture_b, f->ws.id, "z", gone, &file,
                               &f->err));
}

/* ---- history, provenance, conversations --------------------------------- */

static void history_is(struct fixture *f, struct workspace_history_spec spec,
                       const char *want)
{
    struct buf out cleanup(buf_done) = {0};
    struct workspace_event *events;
    struct page_result got = {0};

    buf_adds(&out, "");
    OK(f, workspace_history(f->w, &fixture_b, f->ws.id, &spec, &events, &got,
                            &f->err));
    for (size_t i = 0; i < got.count; i++)
        buf_addf(&out, "%s%lld %s %s", i ? "; " : "", (long long)events[i].seq,
                 events[i].change, events[i].file.path);
    if (got.has_more)
        buf_adds(&out, " +");
    workspace_events_free(events, got.count);
    assert_string_equal(out.data, want);
}

static void history_pages_newest_first(void **state)
{
    struct fixture *f = *state;
    struct set s = set_new(f, "upload"), m = set_new(f, "move");
    struct workspace_file file;
    char version[ID_MAX];
    struct workspace_commit c;

    put(f, "x", "1", NULL);
    set_put(&s, "b", "b");
    set_put(&s, "a", "a");
    set_put(&s, "c", "c");
    OK(f, set_commit(&s, &fixture_a, &c));
    memcpy(version, c.results[1].file.version, sizeof(version)); /* a's */
    workspace_commit_done(&c);
    set_from(&m, CHANGE_MOVE, "x", "y");
    COMMITS(&m, &fixture_a, "done renamed y < x");
    put(f, "y", "2", NULL);

    history_is(f, (struct workspace_history_spec){0},
               "4 modified y; 3 renamed y; 2 created a; 2 created b; 2 "
               "created c; 1 created x");
    history_is(f, (struct workspace_history_spec){.limit = 3},
               "4 modified y; 3 renamed y; 2 created a +");
    history_is(f,
               (struct workspace_history_spec){.limit = 2, .after = version},
               "2 created b; 2 created c +");
    history_is(f, (struct workspace_history_spec){.before_seq = 3},
               "2 created a; 2 created b; 2 created c; 1 created x");
    history_is(f, (struct workspace_history_spec){.path = "y"},
               "4 modified y; 3 renamed y");
    OK(f, workspace_file_get(f->w, &fixture_a, f->ws.id, "y", NULL, &file,
                             &f->err));
    history_is(f, (struct workspace_history_spec){.file_id = file.file},
               "4 modified y; 3 renamed y; 1 created x");
    history_is(f,
               (struct workspace_history_spec){
                   .file_id = file.file, .limit = 1, .before_seq = 4},
               "3 renamed y +");
    workspace_file_done(&file);
    {
        struct workspace_history_spec bad = {.after = "ver_unknown"};
        struct workspace_event *events;
        struct page_result got = {0};

        REFUSED(f, ERR_INVALID,
                workspace_history(f->w, &fixture_a, f->ws.id, &bad, &events,
                                  &got, &f->err));
    }
}

static void provenance_of_an_execution(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 1);
    struct workspace_commit c;
    struct workspace_event e;
    struct workspace_info info;
    char ws[ID_MAX], base[ID_MAX], code[BLOB_NAME];

    put(f, "input.csv", "1", NULL);
    OK(f, workspace_get(f->w, &fixture_a, f->ws.id, &info, &f->err));
    fixture_blob(f, "print(1)", code);
    s.spec.execution = "exec_00000000000000000000000000000001";
    s.spec.language = "python";
    s.spec.code_sha256 = code;
    s.spec.conversation = "conv-7";
    s.spec.message = "msg-9";
    s.spec.note = "a chart";
    set_put(&s, "chart.png", "png");
    OK(f, set_commit(&s, &fixture_b, &c));
    OK(f, workspace_provenance(f->w, &fixture_a, c.results[0].file.version, &e,
                               ws, base, &f->err));
    assert_string_equal(e.commit, c.id);
    assert_string_equal(e.kind, "execution");
    assert_string_equal(e.author, KEY_B);
    assert_string_equal(e.session, SESSION_1);
    assert_string_equal(e.execution, s.spec.execution);
    assert_string_equal(e.language, "python");
    assert_string_equal(e.code_sha256, code);
    assert_string_equal(e.conversation, "conv-7");
    assert_string_equal(e.message, "msg-9");
    assert_string_equal(e.note, "a chart");
    assert_string_equal(e.change, "created");
    assert_string_equal(e.file.path, "chart.png");
    assert_false(e.purged);
    assert_string_equal(ws, f->ws.id);
    assert_string_equal(base, info.head_commit); /* what it could read */
    workspace_event_done(&e);
    workspace_commit_done(&c);
}

static void talk(struct fixture *f, const struct actor *who,
                 const char *conversation, const char *path)
{
    struct set s = set_new(f, "upload");
    struct workspace_commit c;

    s.spec.conversation = conversation;
    set_put(&s, path, path);
    OK(f, set_commit(&s, who, &c));
    workspace_commit_done(&c);
    clock_test_advance(2); /* the order is by time */
}

static void conversation_over_workspaces(void **state)
{
    struct fixture *f = *state;
    struct workspace_info first = f->ws, second, foreign;
    struct workspace_spec spec = {0};
    struct workspace_event *events;
    char *ids, after[ID_MAX];
    struct page_result got = {0};

    OK(f, workspace_create(f->w, &fixture_a, &spec, &second, &f->err));
    OK(f, workspace_create(f->w, &fixture_x, &spec, &foreign, &f->err));
    talk(f, &fixture_a, "c1", "one");
    talk(f, &fixture_a, "c2", "not this");
    f->ws = second;
    talk(f, &fixture_a, "c1", "two");
    f->ws = foreign;
    talk(f, &fixture_x, "c1", "theirs");
    f->ws = first;
    talk(f, &fixture_b, "c1", "three");

    OK(f, workspace_conversation(f->w, &fixture_b, "c1",
                                 &(struct page){.limit = 0}, &events, &ids,
                                 &got, &f->err));
    assert_int_equal(got.count, 3);
    assert_string_equal(events[0].file.path, "one");
    assert_string_equal(events[1].file.path, "two");
    assert_string_equal(ids + ID_MAX, second.id);
    assert_string_equal(events[2].file.path, "three");
    assert_false(got.has_more);
    memcpy(after, events[0].file.version, sizeof(after));
    workspace_events_free(events, got.count);
    free(ids);
    OK(f, workspace_conversation(f->w, &fixture_b, "c1",
                                 &(struct page){.limit = 1, .after = after},
                                 &events, &ids, &got, &f->err));
    assert_int_equal(got.count, 1);
    assert_true(got.has_more);
    assert_string_equal(events[0].file.path, "two");
    workspace_events_free(events, got.count);
    free(ids);
    OK(f, workspace_conversation(f->w, &fixture_x, "c1",
                                 &(struct page){.limit = 0}, &events, &ids,
                                 &got, &f->err));
    assert_int_equal(got.count, 1);
    assert_string_equal(events[0].file.path, "theirs");
    workspace_events_free(events, got.count);
    free(ids);
    REFUSED(f, ERR_INVALID,
            workspace_conversation(f->w, &fixture_x, "c1",
                                   &(struct page){.after = after}, &events,
                                   &ids, &got, &f->err));
    OK(f,
       workspace_conversation(f->w, &fixture_x, "", &(struct page){.limit = 0},
                              &events, &ids, &got, &f->err));
    assert_int_equal(got.count, 0);
    workspace_events_free(events, got.count);
    free(ids);
}

/* ---- what changed ------------------------------------------------------- */

static void changes_are(struct fixture *f, int64_t from, const char *except,
                        const char *want)
{
    struct buf out cleanup(buf_done) = {0};
    struct workspace_file *files;
    size_t count;
    int64_t head;

    buf_adds(&out, "");
    OK(f, workspace_changes(f->w, &fixture_b, f->ws.id, from, except, &files,
                            &count, &head, &f->err));
    assert_int_equal(head, head_of(f));
    for (size_t i = 0; i < count; i++)
        buf_addf(&out, "%s%s%s", i ? " " : "", files[i].sha256[0] ? "" : "-",
                 files[i].path);
    workspace_files_free(files, count);
    assert_string_equal(out.data, want);
}

static void changes_since_a_commit(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 3);
    struct set m = set_new(f, "move"), d = set_new(f, "delete");

    put(f, "keep", "1", NULL);
    put(f, "old", "2", NULL);
    put(f, "gone", "3", NULL);
    set_put(&s, "mine", "4");
    set_put(&s, "keep", "5");
    COMMITS(&s, &fixture_a, "done created mine; done modified keep");
    set_from(&m, CHANGE_MOVE, "old", "new");
    COMMITS(&m, &fixture_a, "done renamed new < old");
    set_add(&d, CHANGE_REMOVE, "gone");
    COMMITS(&d, &fixture_a, "done deleted gone");
    changes_are(f, 3, NULL, "-gone keep mine new -old");
    changes_are(f, 3, SESSION_1, "-gone new -old");
    changes_are(f, 3, SESSION_2, "-gone keep mine new -old");
    changes_are(f, 5, NULL, "-gone");
    changes_are(f, 6, NULL, "");
    put(f, "old", "back", NULL);
    changes_are(f, 4, NULL, "-gone new old");
}

/* ---- restoring ---------------------------------------------------------- */

static void commit_id(struct fixture *f, int64_t seq, char ret[ID_MAX])
{
    struct workspace_history_spec spec = {.before_seq = seq + 1, .limit = 1};
    struct workspace_event *events;
    struct page_result got = {0};

    OK(f, workspace_history(f->w, &fixture_a, f->ws.id, &spec, &events, &got,
                            &f->err));
    assert_int_equal(got.count, 1);
    memcpy(ret, events[0].commit, ID_MAX);
    workspace_events_free(events, got.count);
}

static int restore(struct fixture *f, int64_t seq, const char *version,
                   const char *path, const char *want)
{
    char id[ID_MAX];
    struct workspace_restore_spec spec = {.version = version, .path = path};
    struct workspace_commit c;
    int r;

    if (seq) {
        commit_id(f, seq, id);
        spec.commit = id;
    }
    r = workspace_restore(f->w, &fixture_b, f->ws.id, &spec, NULL, 0, &c,
                          &f->err);
    if (r == 0) {
        RESULTS_ARE(&c, want);
        workspace_commit_done(&c);
    }
    return r;
}

static void ids_are(struct fixture *f, const char *path, const char *id)
{
    struct workspace_file file;

    OK(f, workspace_file_get(f->w, &fixture_a, f->ws.id, path, NULL, &file,
                             &f->err));
    assert_string_equal(file.file, id);
    workspace_file_done(&file);
}

static void restore_a_file(void **state)
{
    struct fixture *f = *state;
    struct set m = set_new(f, "move"), d = set_new(f, "delete");
    struct workspace_info before, after;
    struct workspace_file file;
    char first[ID_MAX], id[ID_MAX];

    put(f, "x", "1", first);
    put(f, "x", "22", NULL);
    OK(f, workspace_file_get(f->w, &fixture_a, f->ws.id, "x", NULL, &file,
                             &f->err));
    memcpy(id, file.file, sizeof(id));
    workspace_file_done(&file);
    OK(f, workspace_get(f->w, &fixture_a, f->ws.id, &before, &f->err));
    OK(f, restore(f, 0, first, NULL, "done restored x"));
    TREE_IS(f, 0, "x=1");
    ids_are(f, "x", id);
    OK(f, workspace_get(f->w, &fixture_a, f->ws.id, &after, &f->err));
    assert_int_equal(after.stored_bytes, before.stored_bytes);
    OK(f, restore(f, 0, first, NULL, "same  x"));
    {
        struct workspace_history_spec spec = {.path = "x", .limit = 1};
        struct workspace_event *events;
        struct page_result got = {0};

        OK(f, workspace_history(f->w, &fixture_a, f->ws.id, &spec, &events,
                                &got, &f->err));
        assert_string_equal(events[0].kind, "restore");
        assert_string_equal(events[0].change, "restored");
        assert_string_equal(events[0].from_version, first);
        workspace_events_free(events, got.count);
    }
    /* Under its new name; deleted, under its old one. */
    put(f, "x", "333", NULL);
    set_from(&m, CHANGE_MOVE, "x", "y");
    COMMITS(&m, &fixture_a, "done renamed y < x");
    OK(f, restore(f, 0, first, NULL, "done restored y"));
    TREE_IS(f, 0, "y=1");
    set_add(&d, CHANGE_REMOVE, "y");
    COMMITS(&d, &fixture_a, "done deleted y");
    OK(f, restore(f, 0, first, NULL, "done restored x"));
    ids_are(f, "x", id);
    OK(f, restore(f, 2, NULL, "x", "done restored x"));
    TREE_IS(f, 0, "x=22");
}

static void restore_a_folder_or_everything(void **state)
{
    struct fixture *f = *state;
    struct set m = set_new(f, "move"), d = set_new(f, "delete");
    struct workspace_file file;
    char id[ID_MAX];

    put(f, "d/1", "1", NULL);
    put(f, "d/2", "2", NULL);
    put(f, "d-neighbour", "n", NULL); /* 3 */
    OK(f, workspace_file_get(f->w, &fixture_a, f->ws.id, "d/2", NULL, &file,
                             &f->err));
    memcpy(id, file.file, sizeof(id));
    workspace_file_done(&file);
    set_from(&m, CHANGE_MOVE, "d/2", "e/2"); /* 4 */
    COMMITS(&m, &fixture_a, "done renamed e/2 < d/2");
    put(f, "d/3", "3", NULL);          /* 5 */
    put(f, "d/1", "11", NULL);         /* 6 */
    put(f, "d-neighbour", "nn", NULL); /* 7 */

    OK(f, restore(f, 3, NULL, "d",
                  "done deleted d/3; done restored d/1; done restored d/2"));
    TREE_IS(f, 0, "d-neighbour=nn d/1=1 d/2=2 e/2=2");
    OK(f, restore(f, 3, NULL, NULL,
                  "done deleted e/2; done restored d-neighbour"));
    TREE_IS(f, 0, "d-neighbour=n d/1=1 d/2=2");
    /* Everything: the one that went elsewhere comes back as itself. */
    OK(f, restore(f, 7, NULL, NULL,
                  "done deleted d/2; done restored d-neighbour; done "
                  "restored d/1; done restored d/3; done restored e/2"));
    TREE_IS(f, 0, "d-neighbour=nn d/1=11 d/3=3 e/2=2");
    ids_are(f, "e/2", id);
    set_add(&d, CHANGE_REMOVE, "d");
    COMMITS(&d, &fixture_a, "done deleted d/1; done deleted d/3");
    OK(f, restore(f, 2, NULL, NULL,
                  "done deleted d-neighbour; done restored d/1; done "
                  "restored d/2 < e/2"));
    ids_are(f, "d/2", id);
    TREE_IS(f, 0, "d/1=1 d/2=2");
    TREE_IS(f, 7, "d-neighbour=nn d/1=11 d/3=3 e/2=2");
}

static void restore_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    struct workspace_restore_spec both = {.commit = "c", .version = "v"};
    struct set d = set_new(f, "delete");
    struct store_tx *tx = NULL;
    struct workspace_commit c;
    char version[ID_MAX], gone[ID_MAX];

    put(f, "x", "1", version);
    put(f, "y", "1", NULL);
    put(f, "x", "2", NULL);
    REFUSED(f, ERR_INVALID,
            workspace_restore(f->w, &fixture_a, f->ws.id, &both, NULL, 0, &c,
                              &f->err));
    both = (struct workspace_restore_spec){0};
    REFUSED(f, ERR_INVALID,
            workspace_restore(f->w, &fixture_a, f->ws.id, &both, NULL, 0, &c,
                              &f->err));
    both.commit = "cmt_unknown";
    REFUSED(f, ERR_NOT_FOUND,
            workspace_restore(f->w, &fixture_a, f->ws.id, &both, NULL, 0, &c,
                              &f->err));
    REFUSED(f, ERR_NOT_FOUND, restore(f, 0, "ver_unknown", NULL, ""));
    REFUSED(f, ERR_NOT_FOUND, restore(f, 1, NULL, "y", ""));
    set_add(&d, CHANGE_REMOVE, "y");
    OK(f, set_commit(&d, &fixture_a, &c));
    memcpy(gone, c.results[0].file.version, sizeof(gone));
    workspace_commit_done(&c);
    REFUSED(f, ERR_INVALID, restore(f, 0, gone, NULL, ""));

    /* What retention gave up is named, and nothing is half restored. */
    OK(f, store_begin(f->store, STORE_WRITE, "purging", &tx, &f->err));
    OK(f,
       store_exec(tx, &f->err, "UPDATE versions SET purged = 1 WHERE id = ?1",
                  "t", version));
    OK(f, store_commit(&tx, &f->err));
    REFUSED(f, ERR_CONFLICT, restore(f, 0, version, NULL, ""));
    REFUSED(f, ERR_CONFLICT, restore(f, 2, NULL, NULL, ""));
    assert_non_null(strstr(f->err.message, "retention: x"));
    {
        struct workspace_file file;

        REFUSED(f, ERR_NOT_FOUND,
                workspace_file_get(f->w, &fixture_a, f->ws.id, "x", version,
                                   &file, &f->err));
    }
    assert_int_equal(head_of(f), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(create_and_get),
        CASE(create_name_limits),
        CASE(create_at_most_so_many),
        CASE(list_pages_newest_first),
        CASE(roles_of_everybody),
        CASE(members_are_listed_and_checked),
        CASE(members_at_most_so_many),
        CASE(viewer_cannot_write),
        CASE(I3_foreign_and_unknown_are_the_same),
        CASE(I3_files_and_versions_by_id),
        CASE(patch_rules),
        CASE(D10_delete_hides_and_undelete_brings_back),
        CASE(destroy_leaves_nothing),
        CASE(transfer_makes_the_former_owner_an_editor),
        CASE(transfer_counts_against_the_new_tenant),
        CASE(offer_is_claimed_once),
        CASE(offers_run_out_and_are_revoked),
        CASE(list_by_prefix_level_and_page),
        CASE(file_get_by_version),
        CASE(history_pages_newest_first),
        CASE(provenance_of_an_execution),
        CASE(conversation_over_workspaces),
        CASE(changes_since_a_commit),
        CASE(restore_a_file),
        CASE(restore_a_folder_or_everything),
        CASE(restore_that_cannot_be),
    };

    return cmocka_run_group_tests_name("workspace", tests, NULL, NULL);
}
