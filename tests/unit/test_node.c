/* SPDX-License-Identifier: Apache-2.0 */
/* src/node: several nodes on one store, as leases see them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "node/node_int.h"
#include "scratch.h"
#include "store/store.h"

#define T "acme"
#define LEASE_S 12u

struct fixture {
    char dir[64];
    struct store *store;
    struct audit *audit;
    struct nodes *a, *b;
    atomic_uint lost_a;
    uint64_t free_a, free_b;
    struct error err;
};

static void on_lost(void *ctx)
{
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

static void open_node(struct fixture *f, const char *name, const char *labels,
                      struct nodes **ret)
{
    char *dir cleanup(mem_free) = xasprintf("%s/%s", f->dir, name);
    struct node_settings settings = {.data_dir = dir,
                                     .name = name,
                                     .address = "127.0.0.1:1",
                                     .labels = labels,
                                     .version = "test",
                                     .lease_s = LEASE_S};

    (void)mkdir(dir, 0700);
    if (nodes_open(&settings, f->store, f->audit, ret, &f->err) < 0 ||
        node_register(*ret, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void see_each_other(struct fixture *f)
{
    struct node_peer peer;

    /* A miss reads the table of nodes again. */
    clock_test_advance(200);
    (void)node_peer_find(f->a, "node_none", &peer);
    (void)node_peer_find(f->b, "node_none", &peer);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    if (!scratch_dir(f->dir, sizeof(f->dir), "test_node") ||
        store_open(&(struct store_settings){.data_dir = f->dir}, &f->store,
                   &f->err) < 0 ||
        audit_open(f->store, f->dir, &f->audit, &f->err) < 0)
        abort();
    open_node(f, "a", "zone=a,gpu", &f->a);
    open_node(f, "b", "zone=b", &f->b);
    see_each_other(f);
    node_request_set(NODE_REQUEST_FIRST);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    node_request_set(NODE_REQUEST_NONE);
    ids_set_tag("");
    nodes_stop(f->a);
    nodes_stop(f->b);
    nodes_close(f->a);
    nodes_close(f->b);
    audit_close(f->audit);
    store_close(f->store);
    scratch_remove(f->dir);
    free(f);
    return 0;
}

static int64_t take(struct fixture *f, struct nodes *n, const char *session)
{
    int64_t fence = 0;

    node_request_set(NODE_REQUEST_NONE); /* here, not where it is best */
    if (node_lease_take(n, T, session, "", &fence, &f->err) < 0)
        fence = -(int64_t)f->err.code;
    node_request_set(NODE_REQUEST_FIRST);
    return fence;
}

static int check(struct fixture *f, struct nodes *n, const char *session,
                 int64_t fence)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err), 0);
    return node_lease_check(n, tx, session, fence, &f->err);
}

/* The lease of a has ended and nothing has renewed it; b's holds. */
static void let_a_die(struct fixture *f)
{
    clock_test_advance(LEASE_S * 1000 - 1000);
    assert_int_equal(node_register(f->b, &f->err), 0);
    clock_test_advance(2000);
    see_each_other(f);
}

static void N1_an_awake_session_stays_with_its_node(void **state)
{
    struct fixture *f = *state;
    int64_t fence = take(f, f->a, "sess_1"), other = 0;

    assert_int_equal(fence, 1);
    assert_int_equal(
        node_lease_set(f->a, "sess_1", fence, NODE_LEASE_AWAKE, &f->err), 0);
    assert_int_equal(node_lease_take(f->b, T, "sess_1", "", &other, &f->err),
                     -ERR_ELSEWHERE);
    assert_string_equal(f->err.node, nodes_self(f->a));
    assert_int_equal(check(f, f->a, "sess_1", fence), 0);
}

static void N1_a_fence_ends_the_commits_of_the_former_node(void **state)
{
    struct fixture *f = *state;
    int64_t old = take(f, f->a, "sess_1"), new;

    assert_int_equal(
        node_lease_set(f->a, "sess_1", old, NODE_LEASE_AWAKE, &f->err), 0);
    let_a_die(f);
    new = take(f, f->b, "sess_1");
    assert_true(new > old);
    assert_int_equal(check(f, f->b, "sess_1", new), 0);
    assert_int_equal(check(f, f->a, "sess_1", old), -ERR_UNAVAILABLE);
    /* Nor does it wake the session again. */
    assert_int_equal(
        node_lease_set(f->a, "sess_1", old, NODE_LEASE_AWAKE, &f->err),
        -ERR_UNAVAILABLE);
}

static void N1_of_two_nodes_one_takes_a_sleeping_session(void **state)
{
    struct fixture *f = *state;
    int64_t a = take(f, f->a, "sess_1"), b = take(f, f->b, "sess_1");

    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(
        node_lease_set(f->a, "sess_1", a, NODE_LEASE_AWAKE, &f->err),
        -ERR_UNAVAILABLE);
    assert_int_equal(
        node_lease_set(f->b, "sess_1", b, NODE_LEASE_AWAKE, &f->err), 0);
}

static void N1_sandboxes_stop_before_the_lease_ends(void **state)
{
    struct fixture *f = *state;
    struct node_hooks hooks = {.ctx = &f->lost_a, .on_lost = on_lost};
    uint64_t start;

    assert_int_equal(nodes_start(f->a, &hooks, &f->err), 0);
    worker_stop(&f->a->renewer); /* as if it hung in the store */
    assert_true(nodes_alive(f->a));
    clock_test_advance(f->a->lease_ms - f->a->margin_ms - 500);
    assert_true(nodes_alive(f->a));
    start = clock_mono_ms();
    clock_test_advance(600);
    while (!atomic_load(&f->lost_a) && clock_mono_ms() < start + 5000)
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(atomic_load(&f->lost_a), 1);
    assert_false(nodes_alive(f->a));
    /* A margin of the lease is left: no other node may take anything yet. */
    assert_true(clock_mono_ms() < start + f->a->margin_ms);
    assert_int_equal(take(f, f->a, "sess_2"), -ERR_UNAVAILABLE);
}

static void N1_a_paused_node_starts_again_with_a_new_epoch(void **state)
{
    struct fixture *f = *state;
    int64_t before = f->a->epoch, fence = take(f, f->a, "sess_1");

    assert_int_equal(
        node_lease_set(f->a, "sess_1", fence, NODE_LEASE_AWAKE, &f->err), 0);
    let_a_die(f);
    assert_int_equal(node_register(f->a, &f->err), 0);
    assert_true(f->a->epoch > before);
    assert_int_equal(check(f, f->a, "sess_1", fence), -ERR_UNAVAILABLE);
}

static int64_t count(struct fixture *f, const char *outcome)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;

    assert_int_equal(
        store_begin(f->store, STORE_READ, "testing", &tx, &f->err), 0);
    assert_int_equal(store_one(tx, &row, &f->err,
                               "SELECT count(*) FROM outputs WHERE"
                               " outcome = ?1 AND info LIKE '%lost: %'",
                               "t", outcome),
                     1);
    return store_int(row, 0);
}

static void add_session(struct fixture *f, const char *id)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_true(
        store_exec(tx, &f->err,
                   "INSERT INTO sessions (id, tenant, owner, owner_admin,"
                   " workspace, pool, runtime, name, metadata, memory_bytes,"
                   " scratch_bytes, scratch_inodes, processes, cores,"
                   " descriptors, interpreter, executions, created_at_ms,"
                   " used_at_ms, identifier, cooldown_s, policy_version,"
                   " network, sharing) VALUES (?1, 'acme', 'key_1', 0, 'ws_1',"
                   " 'default', 'standard', '', '', 1, 1, 1, 1, 1, 1, 1, 1, 1,"
                   " 1, '', 0, 0, '', 1)",
                   "t", id) == 1);
    assert_int_equal(store_commit(&tx, &f->err), 0);
}

static void N3_executions_of_a_lost_node_end_as_lost_once(void **state)
{
    struct fixture *f = *state;
    const struct node_execution e = {.id = "exec_1",
                                     .session = "sess_1",
                                     .tenant = T,
                                     .workspace = "ws_1",
                                     .language = "python",
                                     .author = "key_1",
                                     .author_name = "",
                                     .code = "",
                                     .created_at_ms = 1};
    int64_t fence = take(f, f->a, "sess_1");
    struct node_info info;

    add_session(f, "sess_1");
    assert_int_equal(
        node_lease_set(f->a, "sess_1", fence, NODE_LEASE_AWAKE, &f->err), 0);
    assert_int_equal(node_execution_add(f->a, &e, &f->err), 0);
    node_expire_others(f->b); /* not before the lease has ended */
    assert_int_equal(count(f, "lost"), 0);
    let_a_die(f);
    node_expire_others(f->b);
    node_expire_others(f->b);
    assert_int_equal(count(f, "lost"), 1);
    assert_int_equal(nodes_get(f->b, nodes_self(f->a), &info, &f->err), 0);
    assert_int_equal(info.state, NODE_GONE);
    /* The session wakes elsewhere. */
    assert_true(take(f, f->b, "sess_1") > fence);
    /* When the node is back, its execution is not lost a second time. */
    assert_int_equal(node_register(f->a, &f->err), 0);
    assert_int_equal(count(f, "lost"), 1);
}

static void N3_a_finished_execution_is_not_lost(void **state)
{
    struct fixture *f = *state;
    const struct node_execution e = {.id = "exec_1",
                                     .session = "sess_1",
                                     .tenant = T,
                                     .workspace = "ws_1",
                                     .language = "python",
                                     .author = "key_1",
                                     .author_name = "",
                                     .code = "",
                                     .created_at_ms = 1};
    struct store_tx *tx cleanup(store_rollback) = NULL;

    add_session(f, "sess_1");
    assert_int_equal(node_execution_add(f->a, &e, &f->err), 0);
    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err), 0);
    assert_int_equal(node_execution_remove(f->a, tx, "exec_1", &f->err), 0);
    assert_int_equal(store_commit(&tx, &f->err), 0);
    let_a_die(f);
    node_expire_others(f->b);
    assert_int_equal(count(f, "lost"), 0);
}

static void place_prefers_free_memory_and_labels(void **state)
{
    struct fixture *f = *state;

    mutex_lock(&f->a->lock);
    for (size_t i = 0; i < f->a->peer_count; i++) {
        struct node_info *p = &f->a->peers[i].info;

        p->load = (struct node_load){.memory_bytes = 1000000,
                                     .free_bytes = p->self ? 100000 : 900000,
                                     .cores = 2};
    }
    mutex_unlock(&f->a->lock);
    assert_int_equal(node_place(f->a, "", &f->err), -ERR_ELSEWHERE);
    assert_string_equal(f->err.node, nodes_self(f->b));
    assert_int_equal(node_place(f->a, "gpu", &f->err), 0);
    assert_int_equal(node_place(f->a, "zone=b", &f->err), -ERR_ELSEWHERE);
    assert_int_equal(node_place(f->a, "zone=c", &f->err), -ERR_UNAVAILABLE);
    assert_int_equal(node_place(f->b, "gpu,zone=a", &f->err), -ERR_ELSEWHERE);
    /* A request of another node goes no further. */
    node_request_set(NODE_REQUEST_NONE);
    assert_int_equal(node_place(f->a, "zone=b", &f->err), 0);
}

static void place_avoids_a_node_that_cannot_be_reached(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(node_place(f->a, "zone=b", &f->err), -ERR_ELSEWHERE);
    node_avoid(f->a, nodes_self(f->b));
    assert_int_equal(node_place(f->a, "zone=b", &f->err), -ERR_UNAVAILABLE);
    assert_int_equal(node_place(f->a, "", &f->err), 0);
    clock_test_advance(NODE_AVOID_MS);
    assert_int_equal(node_place(f->a, "zone=b", &f->err), -ERR_ELSEWHERE);
}

static void drain_lets_sessions_go_elsewhere(void **state)
{
    struct fixture *f = *state;
    const struct actor who = {.tenant = T, .key = "key_1"};
    int64_t fence = take(f, f->a, "sess_1"), got = 0;
    struct node_info info;

    assert_int_equal(
        node_lease_set(f->a, "sess_1", fence, NODE_LEASE_MEMORY, &f->err), 0);
    assert_int_equal(node_lease_take(f->b, T, "sess_1", "", &got, &f->err),
                     -ERR_ELSEWHERE);
    assert_int_equal(nodes_drain(f->b, &who, "a", true, &info, &f->err), 0);
    assert_int_equal(info.state, NODE_DRAINING);
    assert_int_equal(nodes_drain(f->b, &who, "c", true, &info, &f->err),
                     -ERR_NOT_FOUND);
    see_each_other(f);
    assert_int_equal(node_place(f->b, "gpu", &f->err), -ERR_UNAVAILABLE);
    assert_true(take(f, f->b, "sess_1") > fence);
}

static void locate_finds_the_node_of_an_id(void **state)
{
    struct fixture *f = *state;
    char id[ID_MAX];

    ids_set_tag(f->a->tag);
    ids_make_tagged("exec", id);
    assert_true(ids_valid("exec", id));
    assert_int_equal(node_locate(f->a, "exec", id, &f->err), 0);
    assert_int_equal(node_locate(f->b, "exec", id, &f->err), -ERR_ELSEWHERE);
    assert_string_equal(f->err.node, nodes_self(f->a));
    let_a_die(f);
    assert_int_equal(node_locate(f->b, "exec", id, &f->err), 0);
}

static void N4_a_pin_names_a_node(void **state)
{
    struct fixture *f = *state;
    struct node_info info;
    char wrong[NODE_PIN];

    assert_true(nodes_by_pin(f->b, f->a->pin, &info));
    assert_string_equal(info.id, nodes_self(f->a));
    memcpy(wrong, f->a->pin, sizeof(wrong));
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    assert_false(nodes_by_pin(f->b, wrong, &info));
    assert_false(nodes_by_pin(f->b, "", &info));
    nodes_stop(f->a);
    see_each_other(f);
    assert_false(nodes_by_pin(f->b, f->a->pin, &info));
}

static void a_data_directory_is_one_node(void **state)
{
    struct fixture *f = *state;
    char *dir cleanup(mem_free) = xasprintf("%s/a", f->dir);
    struct node_settings settings = {.data_dir = dir,
                                     .name = "twin",
                                     .address = "127.0.0.1:1",
                                     .labels = "",
                                     .version = "test",
                                     .lease_s = LEASE_S};
    struct nodes *twin = NULL;

    assert_int_equal(nodes_open(&settings, f->store, f->audit, &twin, &f->err),
                     -ERR_CONFLICT);
}

static void without_nodes_nothing_is_asked(void **state)
{
    struct error err;
    int64_t fence = 7;

    (void)state;
    assert_int_equal(node_lease_take(NULL, T, "s", "", &fence, &err), 0);
    assert_int_equal(node_lease_check(NULL, NULL, "s", 1, &err), 0);
    assert_int_equal(node_lease_set(NULL, "s", 1, NODE_LEASE_AWAKE, &err), 0);
    assert_int_equal(node_place(NULL, "gpu", &err), 0);
    assert_int_equal(node_locate(NULL, "exec", "x", &err), 0);
    assert_int_equal(fence, 7);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(N1_an_awake_session_stays_with_its_node),
        CASE(N1_a_fence_ends_the_commits_of_the_former_node),
        CASE(N1_of_two_nodes_one_takes_a_sleeping_session),
        CASE(N1_sandboxes_stop_before_the_lease_ends),
        CASE(N1_a_paused_node_starts_again_with_a_new_epoch),
        CASE(N3_executions_of_a_lost_node_end_as_lost_once),
        CASE(N3_a_finished_execution_is_not_lost),
        CASE(N4_a_pin_names_a_node),
        CASE(place_prefers_free_memory_and_labels),
        CASE(place_avoids_a_node_that_cannot_be_reached),
        CASE(drain_lets_sessions_go_elsewhere),
        CASE(locate_finds_the_node_of_an_id),
        CASE(a_data_directory_is_one_node),
        cmocka_unit_test(without_nodes_nothing_is_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
