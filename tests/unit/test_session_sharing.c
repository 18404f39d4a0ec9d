/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who in a tenant sees and uses a session: its owner, admins, everybody when
 * it is shared, and nobody else. What is not visible is answered as what does
 * not exist, and costs as much to look for. The sandbox is a fake, the store
 * is real.
 */
#include "session_fixture.h"

#include "auth/auth.h"

#define SAME_TENANT .tenant = TENANT, .key = "key_second"

/* Another principal of the tenant; one with every scope but admin, and the
 * rights of an owner on every workspace; an admin. */
static const struct actor SECOND = {SAME_TENANT};
static const struct actor STRONG = {SAME_TENANT, .admin = true,
                                    .scopes = AUTH_SCOPES_ALL & ~AUTH_ADMIN};
static const struct actor ADMIN = {
    .tenant = TENANT, .key = "key_boss", .admin = true, .scopes = AUTH_ADMIN};
/* The same principal with another credential. */
static const struct actor TOKEN = {
    .tenant = TENANT, .key = "key_acme", .token = "tok_1"};
/* As the doors of hosted services ask. */
static const struct actor WHO_SHARES = {
    .tenant = TENANT, .key = "key_acme", .shares = true};
static const struct actor SECOND_SHARES = {SAME_TENANT, .shares = true};

static const char unknown[] = "sess_00000000000000000000000000000000";
static const char unknown_run[] = "exec_00000000000000000000000000000000";

static int create_as(struct fixture *f, const struct actor *who,
                     const struct session_spec *spec, char ret_id[ID_MAX])
{
    struct session_info info;
    int rc = session_create(f->s, who, spec, &info, &f->err);

    if (rc == 0) {
        memcpy(ret_id, info.id, ID_MAX);
        assert_string_equal(info.owner, who->key);
        session_info_done(&info);
    }
    return rc;
}

static int get_as(struct fixture *f, const struct actor *who, const char *id)
{
    struct session_info info;
    int rc = session_get(f->s, who, id, &info, &f->err);

    if (rc == 0)
        session_info_done(&info);
    return rc;
}

static int share_as(struct fixture *f, const struct actor *who, const char *id,
                    enum session_sharing sharing)
{
    struct session_info info;
    int rc = session_share(f->s, who, id, sharing, &info, &f->err);

    if (rc == 0) {
        assert_int_equal(info.sharing, sharing);
        session_info_done(&info);
    }
    return rc;
}

static size_t count_as(struct fixture *f, const struct actor *who)
{
    struct session_info *list = NULL;
    size_t count = 0;
    bool more;

    assert_int_equal(
        session_list(f->s, who, 100, NULL, &list, &count, &more, &f->err), 0);
    for (size_t i = 0; i < count; i++)
        session_info_done(&list[i]);
    free(list);
    return count;
}

/* ---- what a new session is ---------------------------------------------- */

static void sharing_precedence(void **state)
{
    static const struct {
        enum session_sharing asked;
        const char *pool, *tenants;
        bool door;
        enum session_sharing got;
    } cases[] = {
        {0, NULL, NULL, false, SESSION_SHARING_PRINCIPAL},
        {0, NULL, NULL, true, SESSION_SHARING_TENANT},
        {0, "default", "", false, SESSION_SHARING_PRINCIPAL},
        {0, "default", "", true, SESSION_SHARING_TENANT},
        /* the tenant's before the door's */
        {0, "default", "acme=tenant", false, SESSION_SHARING_TENANT},
        {0, "default", "acme=principal", true, SESSION_SHARING_PRINCIPAL},
        {0, "default", "other=tenant", false, SESSION_SHARING_PRINCIPAL},
        {0, "default", "*=tenant", false, SESSION_SHARING_TENANT},
        {0, "default", "*=tenant,acme=principal", false,
         SESSION_SHARING_PRINCIPAL},
        {0, "default", "acme=principal,*=tenant", true,
         SESSION_SHARING_PRINCIPAL},
        /* the pool's before the tenant's */
        {0, "principal", "acme=tenant", true, SESSION_SHARING_PRINCIPAL},
        {0, "tenant", "acme=principal", false, SESSION_SHARING_TENANT},
        /* its own before the pool's */
        {SESSION_SHARING_TENANT, "principal", "acme=principal", false,
         SESSION_SHARING_TENANT},
        {SESSION_SHARING_PRINCIPAL, "tenant", "acme=tenant", true,
         SESSION_SHARING_PRINCIPAL},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct conf_pool pool = {.sharing = (char *)cases[i].pool};
        struct actor who = {.tenant = TENANT, .shares = cases[i].door};

        f->conf.tenant_sharing = (char *)cases[i].tenants;
        assert_int_equal(
            session_sharing_settle(f->s, &who, &pool, cases[i].asked),
            cases[i].got);
    }
    f->conf.tenant_sharing = NULL;
}

static void sharing_of_a_pool_and_a_door(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {0};
    char id[ID_MAX];

    assert_int_equal(create_as(f, &WHO, &spec, id), 0);
    assert_int_equal(get_as(f, &SECOND, id), -ERR_NOT_FOUND);
    assert_int_equal(create_as(f, &WHO_SHARES, &spec, id), 0);
    assert_int_equal(get_as(f, &SECOND, id), 0);
    f->conf.pools[0].sharing = (char *)"principal";
    assert_int_equal(create_as(f, &WHO_SHARES, &spec, id), 0);
    assert_int_equal(get_as(f, &SECOND, id), -ERR_NOT_FOUND);
    spec.sharing = SESSION_SHARING_TENANT;
    assert_int_equal(create_as(f, &WHO, &spec, id), 0);
    assert_int_equal(get_as(f, &SECOND, id), 0);
}

/* ---- who sees it -------------------------------------------------------- */

static void I3_private_session_is_of_its_principal(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = {.ephemeral = true};
    char ephemeral[ID_MAX];

    assert_int_equal(create_as(f, &WHO, &spec, ephemeral), 0);
    assert_int_equal(get_as(f, &WHO, f->id), 0);
    assert_int_equal(get_as(f, &TOKEN, f->id), 0);
    assert_int_equal(get_as(f, &ADMIN, f->id), 0);
    assert_int_equal(get_as(f, &SECOND, f->id), -ERR_NOT_FOUND);
    assert_int_equal(get_as(f, &STRONG, f->id), -ERR_NOT_FOUND);
    assert_int_equal(get_as(f, &OTHER, f->id), -ERR_NOT_FOUND);
    assert_int_equal(get_as(f, &ADMIN, ephemeral), 0);
    assert_int_equal(get_as(f, &SECOND, ephemeral), -ERR_NOT_FOUND);
    /* Lists, of what has rows and of what has none. */
    assert_int_equal(count_as(f, &WHO), 2);
    assert_int_equal(count_as(f, &TOKEN), 2);
    assert_int_equal(count_as(f, &ADMIN), 2);
    assert_int_equal(count_as(f, &SECOND), 0);
    assert_int_equal(count_as(f, &STRONG), 0);
    assert_int_equal(share_as(f, &WHO, f->id, SESSION_SHARING_TENANT), 0);
    assert_int_equal(share_as(f, &WHO, ephemeral, SESSION_SHARING_TENANT), 0);
    assert_int_equal(count_as(f, &SECOND), 2);
    assert_int_equal(count_as(f, &OTHER), 0);
}

/* Every call that takes the id of a session or of an execution. */
static int call(struct fixture *f, const struct actor *who, unsigned which,
                const char *id, const char *run)
{
    struct exec_spec exec = {.code = "out x", .code_len = 5};
    struct network_spec net = {.mode = SESSION_EGRESS_NONE};
    struct network_info net_info;
    struct session_attach attach = {.file = "file_1", .path = "a"};
    struct session_info info;
    struct session_info *list;
    struct session_file file, *files;
    struct session_upload *u;
    struct execution *e;
    struct error *err = &f->err;
    struct stat st;
    size_t count;
    uint32_t changed;
    bool more;
    int fd;

    switch (which) {
    case 0:
        return session_get(f->s, who, id, &info, err);
    case 1:
        return session_visit(f->s, who, id, &info, err);
    case 2:
        return session_delete(f->s, who, id, err);
    case 3:
        return session_reset(f->s, who, id, &info, err);
    case 4:
        return session_refresh(f->s, who, id, &changed, &info, err);
    case 5:
        return session_interrupt(f->s, who, id, err);
    case 6:
        return execution_run(f->s, who, id, &exec, &e, err);
    case 7:
        return execution_submit(f->s, who, id, &exec, NULL, NULL, &e, err);
    case 8:
        return session_files_list(f->s, who, id, 10, NULL, &files, &count,
                                  &more, err);
    case 9:
        return session_files_open(f->s, who, id, "a", &fd, &st, err);
    case 10:
        return session_files_remove(f->s, who, id, "a", err);
    case 11:
        return session_upload_begin(f->s, who, id, "a", &u, err);
    case 12:
        return session_attach(f->s, who, id, &attach, &file, err);
    case 13:
        return session_network_get(f->s, who, id, &net_info, err);
    case 14:
        return session_network_set(f->s, who, id, &net, &net_info, err);
    case 15:
        return session_policy_adopt(f->s, who, id, err);
    case 16:
        return session_share(f->s, who, id, SESSION_SHARING_TENANT, &info,
                             err);
    case 17:
        return session_list(f->s, who, 10, id, &list, &count, &more, err);
    case 18:
        return execution_find(f->s, who, run, &e, err);
    default:
        return execution_cancel(f->s, who, run, err);
    }
}
#define CALLS 20u

static void I3_foreign_principal_is_told_what_an_unknown_id_is(void **state)
{
    static const struct actor *const foreign[] = {&SECOND, &STRONG, &OTHER};
    struct fixture *f = *state;
    struct execution *e = run_for(f, EXEC_PYTHON, "out x", 0);
    struct exec_info run;
    struct session_info info;

    execution_info(e, &run);
    execution_unref(e);
    put(f, "a");
    info = get(f);
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
        for (unsigned which = 0; which < CALLS; which++) {
            struct error there;
            int rc = call(f, foreign[i], which, f->id, run.id);

            there = f->err;
            assert_true(rc < 0);
            assert_int_equal(call(f, foreign[i], which, unknown, unknown_run),
                             rc);
            assert_int_equal(f->err.code, there.code);
            assert_string_equal(f->err.message, there.message);
            assert_string_equal(f->err.hint, there.hint);
        }
    /* And nothing of it did anything. */
    assert_int_equal(get(f).executions, info.executions);
    assert_int_equal(get(f).interpreter, info.interpreter);
    assert_int_equal(get(f).last_used_at_ms, info.last_used_at_ms);
    assert_int_equal(get(f).sharing, SESSION_SHARING_PRINCIPAL);
    check_run(f, "out x", OUTCOME_OK, false, NULL);
}

/* Looking for a foreign one brings nothing into memory, which would take
 * longer than for an unknown one, and cost memory. */
static void I3_foreign_principal_loads_nothing(void **state)
{
    struct fixture *f = *state;

    close_it(f);
    open_it(f);
    assert_int_equal(get_as(f, &SECOND, f->id), -ERR_NOT_FOUND);
    assert_int_equal(count_as(f, &SECOND), 0);
    assert_int_equal(f->s->table.count, 0);
    assert_int_equal(get_as(f, &WHO, f->id), 0);
    assert_int_equal(f->s->table.count, 1);
    assert_int_equal(get_as(f, &SECOND, f->id), -ERR_NOT_FOUND);
}

/* A key that is bound to things of the tenant is not their owner for that. */
static void I3_bounds_narrow_and_grant_nothing(void **state)
{
    struct fixture *f = *state;
    struct actor_bounds bounds = {0};
    struct actor bound = {SAME_TENANT, .bounds = &bounds};
    struct actor own = {
        .tenant = TENANT, .key = "key_acme", .bounds = &bounds};

    (void)snprintf(bounds.ids[ACTOR_SESSIONS],
                   sizeof(bounds.ids[ACTOR_SESSIONS]), "%s", f->id);
    assert_int_equal(get_as(f, &bound, f->id), -ERR_NOT_FOUND);
    assert_int_equal(get_as(f, &own, f->id), 0);
    /* It uses the session, and does not let others in. */
    assert_int_equal(share_as(f, &own, f->id, SESSION_SHARING_TENANT),
                     -ERR_FORBIDDEN);
    assert_int_equal(share_as(f, &own, f->id, SESSION_SHARING_PRINCIPAL), 0);
    assert_int_equal(share_as(f, &WHO, f->id, SESSION_SHARING_TENANT), 0);
    assert_int_equal(get_as(f, &bound, f->id), 0);
    (void)snprintf(bounds.ids[ACTOR_SESSIONS],
                   sizeof(bounds.ids[ACTOR_SESSIONS]), "%s", unknown);
    assert_int_equal(get_as(f, &bound, f->id), -ERR_NOT_FOUND);
    assert_int_equal(get_as(f, &own, f->id), -ERR_NOT_FOUND);
}

/* ---- sharing it --------------------------------------------------------- */

static int64_t events(struct fixture *f)
{
    struct audit_filter filter = {.action = "session.share"};
    struct audit_line *lines = NULL;
    size_t count = 0;
    bool more;

    assert_int_equal(
        audit_query(f->audit, &filter, &lines, &count, &more, &f->err), 0);
    if (count) {
        assert_string_equal(lines[0].object, f->id);
        assert_string_equal(lines[0].before, "principal");
        assert_string_equal(lines[0].after, "tenant");
        assert_string_equal(lines[0].actor, "key_acme");
    }
    audit_lines_free(lines, count);
    return (int64_t)count;
}

static void sharing_is_for_owner_and_admin(void **state)
{
    struct fixture *f = *state;
    struct error unseen;

    assert_int_equal(share_as(f, &SECOND, f->id, SESSION_SHARING_TENANT),
                     -ERR_NOT_FOUND);
    unseen = f->err;
    assert_int_equal(share_as(f, &SECOND, unknown, SESSION_SHARING_TENANT),
                     -ERR_NOT_FOUND);
    assert_string_equal(f->err.message, unseen.message);
    assert_int_equal(share_as(f, &WHO, f->id, SESSION_SHARING_DEFAULT),
                     -ERR_INVALID);
    assert_int_equal(events(f), 0);
    assert_int_equal(share_as(f, &WHO, f->id, SESSION_SHARING_TENANT), 0);
    assert_int_equal(share_as(f, &WHO, f->id, SESSION_SHARING_TENANT), 0);
    assert_int_equal(events(f), 1); /* the second changed nothing */
    /* Who it is shared with uses it, and has no say in that. */
    assert_int_equal(get_as(f, &SECOND, f->id), 0);
    assert_int_equal(share_as(f, &SECOND, f->id, SESSION_SHARING_PRINCIPAL),
                     -ERR_FORBIDDEN);
    assert_int_equal(share_as(f, &STRONG, f->id, SESSION_SHARING_PRINCIPAL),
                     -ERR_FORBIDDEN);
    close_it(f);
    open_it(f);
    assert_int_equal(get_as(f, &SECOND, f->id), 0);
    assert_int_equal(share_as(f, &ADMIN, f->id, SESSION_SHARING_PRINCIPAL), 0);
    assert_int_equal(get_as(f, &SECOND, f->id), -ERR_NOT_FOUND);
    assert_int_equal(get_as(f, &WHO, f->id), 0);
    assert_int_equal(events(f), 2);
    close_it(f);
    open_it(f);
    assert_int_equal(get_as(f, &SECOND, f->id), -ERR_NOT_FOUND);
    assert_int_equal(get_as(f, &WHO, f->id), 0);
}

/* A session that was read from its row just before somebody changed that. */
static void sharing_is_looked_at_again_once_it_is_in_the_table(void **state)
{
    struct fixture *f = *state;
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);
    struct store_tx *tx cleanup(store_rollback) = NULL;

    assert_non_null(se);
    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_int_equal(store_exec(tx, &f->err,
                                "UPDATE sessions SET sharing = 2"
                                " WHERE id = ?1",
                                "t", f->id),
                     1);
    assert_int_equal(store_commit(&tx, &f->err), 0);
    assert_int_equal(get_as(f, &SECOND, f->id), -ERR_NOT_FOUND);
    assert_int_equal(session_sharing_renew(se, &f->err), 1);
    assert_int_equal(get_as(f, &SECOND, f->id), 0);
    session_unref(se);
}

/* Rows from before there was a choice are the whole tenant's. */
static void D7_sessions_of_before_stay_the_tenants(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    const char *id = "sess_11111111111111111111111111111111";

    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_int_equal(
        store_exec(tx, &f->err,
                   "INSERT INTO sessions (id, tenant, owner, owner_admin,"
                   " workspace, pool, runtime, memory_bytes, scratch_bytes,"
                   " scratch_inodes, processes, cores, descriptors,"
                   " interpreter, created_at_ms, used_at_ms) SELECT ?1,"
                   " tenant, owner, owner_admin, workspace, pool, runtime,"
                   " memory_bytes, scratch_bytes, scratch_inodes, processes,"
                   " cores, descriptors, interpreter, 1, 1 FROM sessions"
                   " WHERE id = ?2",
                   "tt", id, f->id),
        1);
    assert_int_equal(store_commit(&tx, &f->err), 0);
    assert_int_equal(get_as(f, &SECOND, id), 0);
    assert_int_equal(count_as(f, &SECOND), 1);
    assert_int_equal(get_as(f, &OTHER, id), -ERR_NOT_FOUND);
}

/* ---- identifiers -------------------------------------------------------- */

static bool ensure_as(struct fixture *f, const struct actor *who,
                      enum session_sharing sharing, char ret_id[ID_MAX])
{
    struct session_spec spec = {.identifier = "same", .sharing = sharing};
    struct session_info info;
    bool made = false;

    if (session_ensure(f->s, who, &spec, &made, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    memcpy(ret_id, info.id, ID_MAX);
    session_info_done(&info);
    return made;
}

static int identify_as(struct fixture *f, const struct actor *who,
                       char ret_id[ID_MAX])
{
    struct session_info info;
    int rc = session_identify(f->s, who, NULL, "same", &info, &f->err);

    if (rc == 0) {
        memcpy(ret_id, info.id, ID_MAX);
        session_info_done(&info);
    }
    return rc;
}

static void I3_identifiers_of_principals_do_not_meet(void **state)
{
    struct fixture *f = *state;
    char mine[ID_MAX], theirs[ID_MAX], id[ID_MAX];

    assert_true(ensure_as(f, &WHO, 0, mine));
    assert_int_equal(identify_as(f, &SECOND, id), -ERR_NOT_FOUND);
    assert_int_equal(identify_as(f, &ADMIN, id), -ERR_NOT_FOUND);
    assert_true(ensure_as(f, &SECOND, 0, theirs));
    assert_string_not_equal(mine, theirs);
    for (int i = 0; i < 2; i++) { /* from memory, and from their rows */
        assert_false(ensure_as(f, &WHO, 0, id));
        assert_string_equal(id, mine);
        assert_int_equal(identify_as(f, &TOKEN, id), 0);
        assert_string_equal(id, mine);
        assert_false(ensure_as(f, &SECOND, 0, id));
        assert_string_equal(id, theirs);
        close_it(f);
        open_it(f);
    }
    /* One end is not the other's. */
    assert_int_equal(session_delete(f->s, &SECOND, theirs, &f->err), 0);
    assert_int_equal(identify_as(f, &WHO, id), 0);
    assert_string_equal(id, mine);
}

static void identifiers_are_shared_where_sessions_are(void **state)
{
    struct fixture *f = *state;
    char first[ID_MAX], id[ID_MAX];

    assert_true(ensure_as(f, &WHO_SHARES, 0, first));
    for (int i = 0; i < 2; i++) {
        assert_false(ensure_as(f, &SECOND_SHARES, 0, id));
        assert_string_equal(id, first);
        close_it(f);
        open_it(f);
    }
    /* Its maker has it at every door, and cannot have a second one. */
    assert_false(ensure_as(f, &WHO, 0, id));
    assert_string_equal(id, first);
    assert_int_equal(
        create_as(f, &WHO,
                  &(struct session_spec){.identifier = "same",
                                         .sharing = SESSION_SHARING_PRINCIPAL},
                  id),
        -ERR_CONFLICT);
}

/* Where sessions are private, whoever shares one by a name that somebody else
 * is about to use does not get their code. */
static void I3_shared_identifier_lures_nobody(void **state)
{
    struct fixture *f = *state;
    char bait[ID_MAX], id[ID_MAX];

    assert_true(ensure_as(f, &SECOND, SESSION_SHARING_TENANT, bait));
    assert_int_equal(get_as(f, &WHO, bait), 0); /* by its id it is there */
    assert_int_equal(identify_as(f, &WHO, id), -ERR_NOT_FOUND);
    assert_true(ensure_as(f, &WHO, 0, id));
    assert_string_not_equal(id, bait);
    assert_false(ensure_as(f, &WHO_SHARES, 0, bait)); /* one's own first */
    assert_string_equal(id, bait);
}

static void sharing_takes_the_identifier_along(void **state)
{
    struct fixture *f = *state;
    char mine[ID_MAX], theirs[ID_MAX], id[ID_MAX];

    assert_true(ensure_as(f, &WHO, 0, mine));
    assert_true(ensure_as(f, &SECOND, 0, theirs));
    assert_int_equal(share_as(f, &WHO, mine, SESSION_SHARING_TENANT), 0);
    assert_false(ensure_as(f, &WHO, 0, id));
    assert_string_equal(id, mine);
    assert_int_equal(identify_as(f, &SECOND, id), 0);
    assert_string_equal(id, theirs);
    /* The tenant has one of that name now. */
    assert_int_equal(share_as(f, &SECOND, theirs, SESSION_SHARING_TENANT),
                     -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, mine));
    close_it(f);
    open_it(f);
    assert_int_equal(share_as(f, &SECOND, theirs, SESSION_SHARING_TENANT),
                     -ERR_CONFLICT);
    assert_int_equal(get_as(f, &WHO, theirs), -ERR_NOT_FOUND);
    assert_int_equal(share_as(f, &ADMIN, mine, SESSION_SHARING_PRINCIPAL), 0);
    assert_int_equal(share_as(f, &SECOND, theirs, SESSION_SHARING_TENANT), 0);
    assert_false(ensure_as(f, &WHO, 0, id));
    assert_string_equal(id, mine);
    assert_null(f->s->claims);
}

#define LIVE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(sharing_precedence),
        LIVE(sharing_of_a_pool_and_a_door),
        LIVE(I3_private_session_is_of_its_principal),
        LIVE(I3_foreign_principal_is_told_what_an_unknown_id_is),
        LIVE(I3_foreign_principal_loads_nothing),
        LIVE(I3_bounds_narrow_and_grant_nothing),
        LIVE(sharing_is_for_owner_and_admin),
        LIVE(sharing_is_looked_at_again_once_it_is_in_the_table),
        LIVE(D7_sessions_of_before_stay_the_tenants),
        LIVE(I3_identifiers_of_principals_do_not_meet),
        LIVE(identifiers_are_shared_where_sessions_are),
        LIVE(I3_shared_identifier_lures_nobody),
        LIVE(sharing_takes_the_identifier_along),
    };

    return cmocka_run_group_tests_name("session_sharing", tests, NULL, NULL);
}
