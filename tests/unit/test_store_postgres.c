/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the PostgreSQL engine does: daemons that share a database, a
 * connection that is lost at each step, settings that are refused, and
 * notifications. Runs on the server of tools/test-postgres and is skipped
 * without one; what both engines do is in test_store.c.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/audit.h"
#include "base/error.h"
#include "base/mem.h"
#include "quota/quota.h"
#include "scratch.h"
#include "store/postgres_int.h"
#include "store_choice.h"

#define NODES 8u
#define EACH 12 /* events of each node */

/* Several data directories, one database. */
struct fixture {
    char dirs[NODES][64];
    char url[512];
    struct store *stores[NODES];
    struct error err;
};

static int try_open(struct fixture *f, unsigned i)
{
    return store_open(
        &(struct store_settings){.engine = f->url, .data_dir = f->dirs[i]},
        &f->stores[i], &f->err);
}

static void open_node(struct fixture *f, unsigned i)
{
    if (try_open(f, i) < 0)
        fail_msg("%s", f->err.message);
}

static void close_node(struct fixture *f, unsigned i)
{
    store_close(take_ptr(f->stores[i]));
}

static int set_up(void **state)
{
    struct fixture *f = *state = xcalloc(1, sizeof(*f));

    if (!store_choice_server())
        return 0;
    for (unsigned i = 0; i < NODES; i++)
        assert_non_null(
            scratch_dir(f->dirs[i], sizeof(f->dirs[i]), "test_store_pg"));
    (void)store_choice_url(f->dirs[0], f->url, sizeof(f->url));
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < NODES && f->dirs[i][0]; i++) {
        close_node(f, i);
        assert_int_equal(scratch_remove(f->dirs[i]), 0);
    }
    free(f);
    return 0;
}

/* SQL as another program would do it, in the store's schema. */
static PGresult *ask(struct fixture *f, const char *sql)
{
    PGconn *pg = PQconnectdb(f->url);
    PGresult *res = PQexec(pg, sql);

    if (PQresultStatus(res) != PGRES_COMMAND_OK &&
        PQresultStatus(res) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    PQfinish(pg);
    return res;
}

static void run(struct fixture *f, const char *sql)
{
    PQclear(ask(f, sql));
}

static int64_t number(struct fixture *f, const char *sql)
{
    PGresult *res = ask(f, sql);
    int64_t n = PQntuples(res) ? strtoll(PQgetvalue(res, 0, 0), NULL, 10) : -1;

    PQclear(res);
    return n;
}

#define SETTINGS "SELECT count(*) FROM settings"

static int put_in(struct store_tx *tx, const char *name, struct error *err)
{
    return store_exec(tx, err,
                      "INSERT INTO settings (name, value) VALUES (?1, 'v')",
                      "t", name);
}

static int put_job(struct store_tx *tx, void *ctx, struct error *err)
{
    int r = put_in(tx, ctx, err);

    return MIN(r, 0);
}

/* Ends every other connection of the test's database, as a restart does. */
static void cut(struct fixture *f)
{
    run(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
           " WHERE pid <> pg_backend_pid()"
           " AND datname = current_database()");
}

/* ---- daemons that share a database -------------------------------------- */

static void *open_main(void *arg)
{
    void **args = arg;
    struct fixture *f = args[0];
    unsigned i = (unsigned)(uintptr_t)args[1];
    struct error err;

    return store_open(&(struct store_settings){.engine = f->url,
                                               .data_dir = f->dirs[i]},
                      &f->stores[i], &err) == 0
               ? NULL
               : arg;
}

static void D7_nodes_that_start_together_migrate_once(void **state)
{
    struct fixture *f = *state;
    void *args[NODES][2];
    pthread_t threads[NODES];
    void *bad;

    for (unsigned i = 0; i < NODES; i++) {
        args[i][0] = f;
        args[i][1] = (void *)(uintptr_t)i;
        assert_int_equal(pthread_create(&threads[i], NULL, open_main, args[i]),
                         0);
    }
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
        assert_string_equal(store_id(f->stores[i]), store_id(f->stores[0]));
    }
    assert_int_equal(number(f, "SELECT version FROM schema_version"),
                     store_migrations_count);
    assert_int_equal(number(f, "SELECT count(*) FROM store_identity"), 1);
}

static void D6_a_data_directory_is_of_one_process(void **state)
{
    struct fixture *f = *state;
    struct store *second = NULL;

    open_node(f, 0);
    assert_int_equal(
        store_open(
            &(struct store_settings){.engine = f->url, .data_dir = f->dirs[0]},
            &second, &f->err),
        -ERR_CONFLICT);
    open_node(f, 1); /* another directory is another daemon */
}

struct writer {
    struct audit *audit;
    struct store *store;
    unsigned number;
    int failed;
};

static int add_job(struct store_tx *tx, void *ctx, struct error *err)
{
    struct writer *w = ctx;
    const struct actor who = {.tenant = w->number % 2 ? "odd" : "even",
                              .key = "key_x"};

    return audit_add(w->audit, tx, &who,
                     &(struct audit_event){.action = "file.put"}, err);
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    struct error err = {0};

    for (int i = 0; i < EACH; i++) {
        struct store_tx *tx cleanup(store_rollback) = NULL;
        int r;

        if (i % 2) {
            r = store_write(w->store, "testing", add_job, w, &err);
        } else {
            r = store_begin(w->store, STORE_WRITE, "testing", &tx, &err);
            if (r == 0)
                r = add_job(tx, w, &err);
            if (r == 0)
                r = store_commit(&tx, &err);
        }
        if (r < 0) {
            (void)fprintf(stderr, "%s\n", err.message);
            w->failed++;
        }
    }
    return NULL;
}

/* The nodes of an installation have the same secrets. */
static void copy_secret(struct fixture *f, unsigned to)
{
    static const char *const names[] = {"audit.secret", "audit.sign.key"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char *from cleanup(mem_free) =
            xasprintf("%s/%s", f->dirs[0], names[i]);
        char *path cleanup(mem_free) =
            xasprintf("%s/%s", f->dirs[to], names[i]);
        char bytes[4096];
        int in = open(from, O_RDONLY | O_CLOEXEC);
        int out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ssize_t n = read(in, bytes, sizeof(bytes));

        assert_true(n > 0 && write(out, bytes, (size_t)n) == n);
        assert_int_equal(close(in), 0);
        assert_int_equal(close(out), 0);
    }
}

static void O1_chains_of_eight_nodes_have_no_gap(void **state)
{
    struct fixture *f = *state;
    struct writer writers[NODES] = {{0}};
    pthread_t threads[NODES];
    struct audit_report report;

    for (unsigned i = 0; i < NODES; i++) {
        open_node(f, i);
        if (i)
            copy_secret(f, i);
        writers[i] = (struct writer){.store = f->stores[i], .number = i};
        if (audit_open(f->stores[i], f->dirs[i], &writers[i].audit, &f->err) <
            0)
            fail_msg("%s", f->err.message);
    }
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, writer_main, &writers[i]), 0);
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(writers[i].failed, 0);
    }
    assert_int_equal(
        number(f, "SELECT count(*) FROM audit WHERE action = 'file.put'"),
        NODES * EACH);
    for (int i = 0; i < 2; i++) {
        if (audit_verify_tenant(writers[0].audit, i ? "odd" : "even", &report,
                                &f->err) < 0)
            fail_msg("%s", f->err.message);
        assert_int_equal(report.first_bad, 0);
    }
    if (audit_verify(writers[3].audit, NULL, NULL, &report, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(report.first_bad, 0);
    for (unsigned i = 0; i < NODES; i++)
        audit_close(writers[i].audit);
}

/* Each node spends; each knows the sum about a second later. */
static void nodes_add_up_what_a_tenant_spent(void **state)
{
    struct fixture *f = *state;
    struct quota_limits limits = {{0}};
    struct quotas *q[2] = {NULL};
    struct audit *audit[2];
    struct quota_use uses[QUOTA_KINDS];
    uint64_t seen = 0;

    for (unsigned i = 0; i < 2; i++) {
        open_node(f, i);
        if (i)
            copy_secret(f, i);
        if (audit_open(f->stores[i], f->dirs[i], &audit[i], &f->err) < 0 ||
            quotas_open(&limits, f->stores[i], audit[i], &q[i], &f->err) < 0)
            fail_msg("%s", f->err.message);
    }
    for (int round = 1; round <= 2; round++) {
        quota_spend(q[0], "acme", QUOTA_CPU, 5);
        quota_spend(q[1], "acme", QUOTA_CPU, 7);
        for (unsigned i = 0; i < 2; i++) {
            for (int n = 0; n < 2000; n++) {
                quota_uses(q[i], "acme", uses);
                seen = uses[QUOTA_CPU].used;
                if (seen == 12u * (unsigned)round)
                    break;
                usleep(5000);
            }
            assert_int_equal(seen, 12 * round);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        quotas_close(q[i]);
        audit_close(audit[i]);
    }
    assert_int_equal(number(f, "SELECT used FROM quota_use"), 24);
}

/* ---- opening ------------------------------------------------------------ */

static void open_newer_is_refused(void **state)
{
    struct fixture *f = *state;

    open_node(f, 0);
    close_node(f, 0);
    run(f, "UPDATE schema_version SET version = version + 1");
    assert_int_equal(try_open(f, 0), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "knows up to"));
}

static void D11_a_used_directory_with_an_empty_database_is_refused(
    void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/audit.secret", f->dirs[0]);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fputs("x", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(try_open(f, 0), -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, "audit.secret"));
    assert_int_equal(number(f, "SELECT count(*) FROM pg_tables"
                               " WHERE schemaname = current_schema()"),
                     0);
}

static void D11_a_database_of_another_program_is_refused(void **state)
{
    struct fixture *f = *state;

    run(f, "CREATE TABLE theirs (a int)");
    assert_int_equal(try_open(f, 0), -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, "not a database of Glovebox"));
}

static void D6_a_server_that_may_lose_commits_is_refused(void **state)
{
    struct fixture *f = *state;
    char *url = xasprintf("%s%%20-csynchronous_commit%%3Doff", f->url);

    (void)snprintf(f->url, sizeof(f->url), "%s", url);
    free(url);
    assert_int_equal(try_open(f, 0), -ERR_INVALID);
    assert_non_null(strstr(f->err.message, "synchronous_commit = off"));
}

static void an_unreachable_server_is_said_to_be(void **state)
{
    struct fixture *f = *state;

    (void)snprintf(f->url, sizeof(f->url), "postgres://u:hunter2@/x?host=%s",
                   f->dirs[1]);
    assert_int_equal(try_open(f, 0), -ERR_UNAVAILABLE);
    assert_null(strstr(f->err.message, "hunter2"));
    assert_null(strstr(f->err.hint, "hunter2"));
}

/* ---- lost connections --------------------------------------------------- */

static void an_idle_connection_that_was_cut_is_opened_again(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = NULL;
    struct store_rows *row = NULL;

    open_node(f, 0);
    assert_int_equal(
        store_write(f->stores[0], "testing", put_job, (void *)"a", &f->err),
        0);
    cut(f);
    assert_int_equal(
        store_begin(f->stores[0], STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_int_equal(put_in(tx, "b", &f->err), 1);
    assert_int_equal(store_commit(&tx, &f->err), 0);
    cut(f);
    assert_int_equal(
        store_begin(f->stores[0], STORE_READ, "testing", &tx, &f->err), 0);
    assert_int_equal(store_one(tx, &row, &f->err, SETTINGS, ""), 1);
    assert_int_equal(store_int(row, 0), 2);
    store_rows_done(&row);
    store_rollback(&tx);
}

static void a_cut_transaction_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = NULL;

    open_node(f, 0);
    assert_int_equal(
        store_begin(f->stores[0], STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_int_equal(put_in(tx, "a", &f->err), 1);
    cut(f);
    assert_int_equal(put_in(tx, "b", &f->err), -ERR_UNAVAILABLE);
    assert_non_null(strstr(f->err.message, "nothing was changed"));
    assert_int_equal(store_commit(&tx, &f->err), -ERR_UNAVAILABLE);
    assert_int_equal(number(f, SETTINGS), 0);
    /* And the store goes on. */
    assert_int_equal(
        store_write(f->stores[0], "testing", put_job, (void *)"c", &f->err),
        0);
    assert_int_equal(number(f, SETTINGS), 1);
}

struct cut_job {
    struct fixture *f;
    int runs;
};

static int cut_once(struct store_tx *tx, void *ctx, struct error *err)
{
    struct cut_job *job = ctx;
    int r = put_in(tx, "a", err);

    if (r > 0 && ++job->runs == 1)
        cut(job->f);
    return r < 0 ? r : MIN(put_in(tx, "b", err), 0);
}

static void a_function_that_was_cut_runs_again(void **state)
{
    struct fixture *f = *state;
    struct cut_job job = {.f = f};

    open_node(f, 0);
    assert_int_equal(
        store_write(f->stores[0], "testing", cut_once, &job, &f->err), 0);
    assert_int_equal(job.runs, 2);
    assert_int_equal(number(f, SETTINGS), 2);
}

/* The connection goes between the last statement and COMMIT: the answer is
 * looked up, and the transaction was not committed. */
static int cut_before_commit(struct store_tx *tx, void *ctx, struct error *err)
{
    struct cut_job *job = ctx;

    (void)tx;
    (void)err;
    if (++job->runs == 1)
        cut(job->f);
    return 0;
}

static void D2_a_commit_without_an_answer_is_looked_up(void **state)
{
    struct fixture *f = *state;
    struct cut_job job = {.f = f};
    struct store_hook hook = {.before = cut_before_commit, .ctx = &job};

    open_node(f, 0);
    store_hook_add(f->stores[0], &hook);
    /* Run again, since it is known that nothing was committed. */
    assert_int_equal(
        store_write(f->stores[0], "testing", put_job, (void *)"a", &f->err),
        0);
    assert_int_equal(job.runs, 2);
    store_hook_remove(f->stores[0], &hook);
    assert_int_equal(number(f, SETTINGS), 1);
}

/* Committed on the server, but the answer did not arrive: the number in
 * store_writers tells. */
static void D2_a_commit_is_known_by_its_number(void **state)
{
    struct fixture *f = *state;
    struct postgres_store *s;

    open_node(f, 0);
    s = (struct postgres_store *)f->stores[0];
    for (int64_t i = 1; i <= 3; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "%d", (int)i);
        assert_int_equal(
            store_write(f->stores[0], "testing", put_job, name, &f->err), 0);
        assert_int_equal(number(f, "SELECT commits FROM store_writers"), i);
        assert_int_equal(s->commits, i);
    }
}

/* A client that stops in a transaction has the lock of all writers: the
 * server ends it, and the others go on. */
static void a_silent_writer_is_ended(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = NULL;

    open_node(f, 0);
    open_node(f, 1);
    assert_int_equal(
        store_begin(f->stores[0], STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_int_equal(put_in(tx, "a", &f->err), 1);
    assert_int_equal(
        store_write(f->stores[1], "testing", put_job, (void *)"b", &f->err),
        0); /* after STORE_POSTGRES_IDLE_MS */
    assert_int_equal(store_commit(&tx, &f->err), -ERR_BUSY);
    assert_non_null(strstr(f->err.message, "nothing was changed"));
    assert_int_equal(number(f, SETTINGS), 1);
}

/* ---- constraints within a group ----------------------------------------- */

static int conflict_twice(struct store_tx *tx, void *ctx, struct error *err)
{
    (void)ctx;
    if (put_in(tx, "a", err) != 1 || put_in(tx, "a", err) != -ERR_CONFLICT ||
        put_in(tx, "b", err) != 1)
        return error_set(err, ERR_INTERNAL, "not as it should be");
    return 0;
}

static void a_refused_insert_leaves_the_transaction(void **state)
{
    struct fixture *f = *state;

    open_node(f, 0);
    assert_int_equal(
        store_write(f->stores[0], "testing", conflict_twice, NULL, &f->err),
        0);
    assert_int_equal(number(f, SETTINGS), 2);
}

/* ---- notifications ------------------------------------------------------ */

struct heard {
    _Atomic int notices, resyncs;
    char last[64];
};

static void on_notice(void *ctx, const char *payload)
{
    struct heard *h = ctx;

    if (payload)
        (void)snprintf(h->last, sizeof(h->last), "%s", payload);
    if (payload)
        h->notices++;
    else
        h->resyncs++;
}

static int tell_job(struct store_tx *tx, void *ctx, struct error *err)
{
    return store_notify(tx, "test", ctx, err);
}

static void wait_until(_Atomic int *value, int least)
{
    for (int i = 0; i < 2000 && *value < least; i++)
        usleep(5000);
    assert_true(*value >= least);
}

static void notices_reach_every_node_and_losses_show(void **state)
{
    struct fixture *f = *state;
    struct heard heard[2] = {{0}};
    struct store_listener l[2];

    for (unsigned i = 0; i < 2; i++) {
        open_node(f, i);
        l[i] = (struct store_listener){
            .channel = "test", .on_notice = on_notice, .ctx = &heard[i]};
        assert_int_equal(store_listen(f->stores[i], &l[i], &f->err), 0);
    }
    usleep(300000); /* the threads listen by then, or a notice is missed */
    for (int i = 0; i < 200 && heard[1].notices < 1; i++) {
        assert_int_equal(store_write(f->stores[0], "testing", tell_job,
                                     (void *)"hello", &f->err),
                         0);
        usleep(50000);
    }
    wait_until(&heard[0].notices, 1);
    wait_until(&heard[1].notices, 1);
    assert_string_equal(heard[1].last, "hello");
    cut(f);
    wait_until(&heard[0].resyncs, 1);
    wait_until(&heard[1].resyncs, 1);
    for (unsigned i = 0; i < 2; i++)
        store_unlisten(f->stores[i], &l[i]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void no_server(void **state)
{
    (void)state;
    print_message("# SKIP: no server; see tools/test-postgres\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest none[] = {cmocka_unit_test(no_server)};
    const struct CMUnitTest tests[] = {
        CASE(D7_nodes_that_start_together_migrate_once),
        CASE(D6_a_data_directory_is_of_one_process),
        CASE(O1_chains_of_eight_nodes_have_no_gap),
        CASE(nodes_add_up_what_a_tenant_spent),
        CASE(open_newer_is_refused),
        CASE(D11_a_used_directory_with_an_empty_database_is_refused),
        CASE(D11_a_database_of_another_program_is_refused),
        CASE(D6_a_server_that_may_lose_commits_is_refused),
        CASE(an_unreachable_server_is_said_to_be),
        CASE(an_idle_connection_that_was_cut_is_opened_again),
        CASE(a_cut_transaction_changes_nothing),
        CASE(a_function_that_was_cut_runs_again),
        CASE(D2_a_commit_without_an_answer_is_looked_up),
        CASE(D2_a_commit_is_known_by_its_number),
        CASE(a_silent_writer_is_ended),
        CASE(a_refused_insert_leaves_the_transaction),
        CASE(notices_reach_every_node_and_losses_show),
    };

    if (!store_choice_server())
        return cmocka_run_group_tests_name("store_postgres", none, NULL, NULL);
    return cmocka_run_group_tests_name("store_postgres", tests, NULL, NULL);
}
