/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace, locks: who holds one writes and nobody else, a late holder is
 * refused, a session is told path by path, and the fence only grows.
 */
#include <pthread.h>

#include "base/clock.h"
#include "workspace_fixture.h"

struct held {
    struct workspace_lock lock;
    char token[65];
};

static int take_for(struct fixture *f, const struct actor *who,
                    const char *path, uint32_t ttl_s, const char *session,
                    struct held *ret)
{
    return workspace_lock(f->w, who, f->ws.id,
                          &(struct workspace_lock_spec){.path = path,
                                                        .ttl_s = ttl_s,
                                                        .session = session,
                                                        .label = "notes"},
                          &ret->lock, ret->token, &f->err);
}

static struct held take(struct fixture *f, const struct actor *who,
                        const char *path, uint32_t ttl_s)
{
    struct held h;

    OK(f, take_for(f, who, path, ttl_s, NULL, &h));
    return h;
}

static void drop(struct held *h)
{
    workspace_lock_done(&h->lock);
}

/* Puts text with a token, or none. */
static int write_with(struct fixture *f, const struct actor *who,
                      const char *path, const char *text, const char *token)
{
    struct set s = set_new(f, "upload");
    struct workspace_commit c;
    int r;

    set_put(&s, path, text);
    s.spec.lock_tokens = &token;
    s.spec.lock_count = token ? 1 : 0;
    r = set_commit(&s, who, &c);
    if (r == 0)
        workspace_commit_done(&c);
    return r;
}

/* ---- taking ------------------------------------------------------------- */

static void lock_and_list(void **state)
{
    struct fixture *f = *state;
    struct held h = take(f, &fixture_b, "not/there/yet", 60);
    struct workspace_lock *list;
    struct audit_line line;
    size_t count;

    assert_int_equal(strlen(h.token), 64);
    assert_int_equal(h.lock.fence, 1);
    assert_string_equal(h.lock.holder, KEY_B);
    assert_int_equal(h.lock.expires_at_ms - h.lock.acquired_at_ms, 60000);
    OK(f, workspace_locks(f->w, &fixture_a, f->ws.id, &list, &count, &f->err));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].path, "not/there/yet");
    assert_string_equal(list[0].label, "notes");
    assert_string_equal(list[0].id, h.lock.id);
    workspace_locks_free(list, count);
    last_event(f, "lock.acquire", &line);
    assert_string_equal(line.object, h.lock.id);
    assert_null(strstr(line.detail, h.token));
    event_done(&line);
    drop(&h);
}

static void lock_limits(void **state)
{
    struct fixture *f = *state;
    struct held h;
    char label[140];

    REFUSED(f, ERR_INVALID, take_for(f, &fixture_a, "x", 0, NULL, &h));
    REFUSED(f, ERR_INVALID, take_for(f, &fixture_a, "x", 86401, NULL, &h));
    REFUSED(f, ERR_INVALID, take_for(f, &fixture_a, "x/", 60, NULL, &h));
    REFUSED(f, ERR_INVALID, take_for(f, &fixture_a, "", 60, NULL, &h));
    OK(f, take_for(f, &fixture_a, "x", 86400, NULL, &h));
    drop(&h);
    OK(f, take_for(f, &fixture_a, "y", 1, NULL, &h));
    REFUSED(f, ERR_INVALID,
            workspace_lock_renew(f->w, &fixture_a, f->ws.id, h.lock.id,
                                 h.token, 86401, &h.lock, &f->err));
    drop(&h);
    memset(label, 'l', sizeof(label));
    label[129] = '\0';
    REFUSED(f, ERR_INVALID,
            workspace_lock(f->w, &fixture_a, f->ws.id,
                           &(struct workspace_lock_spec){
                               .path = "z", .ttl_s = 60, .label = label},
                           &h.lock, h.token, &f->err));
    label[128] = '\0';
    OK(f, workspace_lock(f->w, &fixture_a, f->ws.id,
                         &(struct workspace_lock_spec){
                             .path = "z", .ttl_s = 60, .label = label},
                         &h.lock, h.token, &f->err));
    assert_string_equal(h.lock.label, label);
    drop(&h);
}

static void lock_of_a_locked_path(void **state)
{
    struct fixture *f = *state;
    struct held h = take(f, &fixture_b, "d/e", 60), other;
    static const char *const covered[] = {"d/e", "d", "d/e/x", "d/e/x/y"};

    for (size_t i = 0; i < ARRAY_SIZE(covered); i++) {
        REFUSED(f, ERR_LOCKED,
                take_for(f, &fixture_a, covered[i], 60, NULL, &other));
        assert_non_null(strstr(f->err.message, KEY_B));
        assert_non_null(strstr(f->err.message, "fence 1"));
        assert_non_null(strstr(f->err.message, "d/e"));
        assert_non_null(strstr(f->err.message, "Z"));
    }
    /* Nor for the same key: the token is what counts. */
    REFUSED(f, ERR_LOCKED, take_for(f, &fixture_b, "d/e", 60, NULL, &other));
    other = take(f, &fixture_a, "d/e2", 60);
    drop(&other);
    other = take(f, &fixture_a, "d2", 60);
    drop(&other);
    drop(&h);
}

/* ---- writing ------------------------------------------------------------ */

static void write_needs_the_token(void **state)
{
    struct fixture *f = *state;
    struct held h = take(f, &fixture_b, "x", 60);
    struct audit_line line;

    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_a, "x", "1", NULL));
    assert_non_null(strstr(f->err.message, KEY_B));
    assert_non_null(strstr(f->err.message, "fence 1"));
    last_event(f, "commit", &line);
    assert_string_equal(line.result, "locked");
    event_done(&line);
    /* Not even for the key that holds it. */
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_b, "x", "1", NULL));
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_b, "x", "1", "wrong"));
    OK(f, write_with(f, &fixture_b, "x", "1", h.token));
    OK(f, write_with(f, &fixture_a, "x", "2", h.token)); /* handed on */
    OK(f, write_with(f, &fixture_a, "other", "3", NULL));
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_a, "other", "4", "wrong"));
    TREE_IS(f, 0, "other=3 x=2");
    OK(f, workspace_unlock(f->w, &fixture_b, f->ws.id, h.lock.id, h.token,
                           &f->err));
    OK(f, write_with(f, &fixture_a, "x", "4", NULL));
    drop(&h);
}

static void write_below_and_above_a_lock(void **state)
{
    struct fixture *f = *state;
    struct set del = set_new(f, "delete"), in = set_new(f, "move"),
               out = set_new(f, "move"), copy = set_new(f, "copy"),
               over = set_new(f, "upload");
    struct held folder, file;

    put(f, "d/x", "1", NULL);
    put(f, "e/f/y", "2", NULL);
    folder = take(f, &fixture_b, "d", 60);
    file = take(f, &fixture_b, "e/f/only-locked", 60);
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_a, "d/x", "3", NULL));
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_a, "d/new/z", "3", NULL));
    OK(f, write_with(f, &fixture_a, "d/x", "33", folder.token));
    OK(f, write_with(f, &fixture_a, "dd", "3", NULL));
    OK(f, write_with(f, &fixture_a, "e/f/y", "22", NULL));
    /* A change of a folder touches all below it. */
    set_add(&del, CHANGE_REMOVE, "e");
    COMMIT_REFUSED(&del, &fixture_a, ERR_LOCKED);
    set_from(&out, CHANGE_MOVE, "e/f", "g");
    COMMIT_REFUSED(&out, &fixture_a, ERR_LOCKED);
    set_from(&in, CHANGE_MOVE, "dd", "d/dd");
    COMMIT_REFUSED(&in, &fixture_a, ERR_LOCKED);
    set_from(&copy, CHANGE_COPY, "e", "g"); /* reading is free */
    COMMITS(&copy, &fixture_a, "done copied g/f/y < e/f/y");
    set_put(&over, "e/f/only-locked/z", "1");
    COMMIT_REFUSED(&over, &fixture_a, ERR_LOCKED);
    TREE_IS(f, 0, "d/x=33 dd=3 e/f/y=22 g/f/y=22");
    drop(&folder);
    drop(&file);
}

static void write_of_a_late_holder(void **state)
{
    struct fixture *f = *state;
    struct held late = take(f, &fixture_b, "x", 1), next, third;
    const char *tokens[2];
    struct set s = set_session(f, SESSION_1, 0);

    OK(f, write_with(f, &fixture_b, "x", "1", late.token));
    clock_test_advance(1100);
    /* Free for everybody, but not for who believes to hold it. */
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_b, "x", "2", late.token));
    s.spec.base = 1;
    tokens[0] = late.token;
    s.spec.lock_tokens = tokens;
    s.spec.lock_count = 1;
    set_put(&s, "x", "from a session");
    set_put(&s, "y", "else");
    COMMITS(&s, &fixture_b, "locked modified x; done created y");
    OK(f, write_with(f, &fixture_a, "x", "3", NULL));
    next = take(f, &fixture_a, "x", 60);
    assert_int_equal(next.lock.fence, 2);
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_b, "x", "4", late.token));
    REFUSED(f, ERR_LOCKED,
            workspace_lock_renew(f->w, &fixture_b, f->ws.id, next.lock.id,
                                 late.token, 60, &third.lock, &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_lock_renew(f->w, &fixture_b, f->ws.id, late.lock.id,
                                 late.token, 60, &third.lock, &f->err));
    REFUSED(f, ERR_LOCKED,
            workspace_unlock(f->w, &fixture_b, f->ws.id, next.lock.id,
                             late.token, &f->err));
    OK(f, write_with(f, &fixture_a, "x", "5", next.token));
    OK(f, workspace_unlock(f->w, &fixture_a, f->ws.id, next.lock.id,
                           next.token, &f->err));
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_b, "x", "6", late.token));
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_a, "x", "6", next.token));
    third = take(f, &fixture_a, "x", 60); /* the fence outlives the lock */
    assert_int_equal(third.lock.fence, 3);
    TREE_IS(f, 0, "x=5 y=else");
    drop(&late);
    drop(&next);
    drop(&third);
}

static void lock_survives_a_restart(void **state)
{
    struct fixture *f = *state;
    struct held h = take(f, &fixture_b, "x", 60);

    fixture_reopen(f);
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_a, "x", "1", NULL));
    OK(f, write_with(f, &fixture_b, "x", "1", h.token));
    drop(&h);
}

/* ---- keeping, giving back, breaking ------------------------------------- */

static void renew_and_release(void **state)
{
    struct fixture *f = *state;
    struct held h = take(f, &fixture_b, "x", 1);
    struct workspace_lock renewed;

    OK(f, workspace_lock_renew(f->w, &fixture_b, f->ws.id, h.lock.id, h.token,
                               60, &renewed, &f->err));
    assert_int_equal(renewed.fence, 1);
    assert_true(renewed.expires_at_ms > h.lock.expires_at_ms);
    workspace_lock_done(&renewed);
    clock_test_advance(1100);
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_a, "x", "1", NULL));
    REFUSED(f, ERR_LOCKED,
            workspace_lock_renew(f->w, &fixture_b, f->ws.id, h.lock.id,
                                 "wrong", 60, &renewed, &f->err));
    REFUSED(f, ERR_LOCKED,
            workspace_unlock(f->w, &fixture_a, f->ws.id, h.lock.id, "wrong",
                             &f->err));
    OK(f, workspace_unlock(f->w, &fixture_b, f->ws.id, h.lock.id, h.token,
                           &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_unlock(f->w, &fixture_b, f->ws.id, h.lock.id, h.token,
                             &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            workspace_lock_renew(f->w, &fixture_b, f->ws.id, h.lock.id,
                                 h.token, 60, &renewed, &f->err));
    drop(&h);
    /* One that ran out can be taken again, not renewed. */
    h = take(f, &fixture_b, "x", 1);
    clock_test_advance(1100);
    REFUSED(f, ERR_LOCKED,
            workspace_lock_renew(f->w, &fixture_b, f->ws.id, h.lock.id,
                                 h.token, 60, &renewed, &f->err));
    drop(&h);
    h = take(f, &fixture_a, "x", 1);
    drop(&h);
}

static void O1_break_is_the_owners_and_audited(void **state)
{
    struct fixture *f = *state;
    struct held h = take(f, &fixture_b, "x", 60);
    struct audit_line line;

    REFUSED(f, ERR_FORBIDDEN,
            workspace_unlock(f->w, &fixture_c, f->ws.id, h.lock.id, NULL,
                             &f->err));
    REFUSED(f, ERR_FORBIDDEN,
            workspace_unlock(f->w, &fixture_b, f->ws.id, h.lock.id, NULL,
                             &f->err));
    OK(f,
       workspace_unlock(f->w, &fixture_a, f->ws.id, h.lock.id, NULL, &f->err));
    last_event(f, "lock.break", &line);
    assert_string_equal(line.actor, KEY_A);
    assert_string_equal(line.before, KEY_B);
    assert_string_equal(line.path, "x");
    event_done(&line);
    OK(f, write_with(f, &fixture_c, "x", "1", NULL));
    REFUSED(f, ERR_LOCKED, write_with(f, &fixture_b, "x", "2", h.token));
    drop(&h);
}

/* ---- sessions ----------------------------------------------------------- */

static void session_is_refused_path_by_path(void **state)
{
    struct fixture *f = *state;
    struct set one = set_session(f, SESSION_1, 2),
               two = set_session(f, SESSION_2, 2);
    struct held h;
    struct workspace_commit c;

    put(f, "x", "1", NULL);
    put(f, "gone", "1", NULL);
    OK(f, take_for(f, &fixture_b, "x", 60, SESSION_1, &h));
    set_put(&two, "x", "two");
    set_put(&two, "y", "two");
    set_put(&two, "x/z", "two"); /* x must go for that */
    OK(f, set_commit(&two, &fixture_a, &c));
    RESULTS_ARE(&c, "locked deleted x; done created y; locked created x/z");
    assert_string_equal(c.results[0].holder, KEY_B);
    assert_int_equal(c.results[0].lock_expires_at_ms, h.lock.expires_at_ms);
    workspace_commit_done(&c);
    TREE_IS(f, 0, "gone=1 x=1 y=two");
    /* The one it was taken for passes, with no token. */
    set_put(&one, "x", "one");
    COMMITS(&one, &fixture_b, "done modified x");
    two = set_session(f, SESSION_2, 4);
    two.spec.lock_tokens = (const char *const[]){h.token};
    two.spec.lock_count = 1;
    set_put(&two, "x", "two"); /* and who has the token */
    COMMITS(&two, &fixture_a, "done modified x");
    two = set_session(f, SESSION_2, 5);
    set_add(&two, CHANGE_CLEAR, "");
    COMMITS(&two, &fixture_a,
            "done deleted gone; locked deleted x; done deleted y");
    TREE_IS(f, 0, "x=two");
    drop(&h);
}

static void conflict_copy_under_a_lock(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_2, 0);
    struct held h;

    put(f, "x", "1", NULL);
    h = take(f, &fixture_a, "x (conflict 22222222)", 60);
    set_put(&s, "x", "2");
    COMMITS(&s, &fixture_b, "locked modified x");
    drop(&h);
}

static void tokens_at_most_so_many(void **state)
{
    struct fixture *f = *state;
    struct set s = set_session(f, SESSION_1, 0);
    const char *tokens[101];

    for (size_t i = 0; i < ARRAY_SIZE(tokens); i++)
        tokens[i] = "unknown to everybody";
    set_put(&s, "x", "1");
    s.spec.lock_tokens = tokens;
    s.spec.lock_count = 101;
    COMMIT_REFUSED(&s, &fixture_a, ERR_INVALID);
    s.spec.lock_count = 100;
    COMMITS(&s, &fixture_a, "done created x");
}

/* ---- how many ----------------------------------------------------------- */

static void fill(struct fixture *f, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    OK(f, store_begin(f->store, STORE_WRITE, "filling", &tx, &f->err));
    OK(f, store_exec(tx, &f->err, sql, "t", f->ws.id));
    OK(f, store_commit(&tx, &f->err));
}

static void locks_at_most_so_many(void **state)
{
    struct fixture *f = *state;
    struct held h, last;

    fill(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            " WHERE i < 9999) INSERT INTO locks (workspace, path, fence, id,"
            " holder, expires_at_ms) SELECT ?1, 'p' || i, 1, 'lock_' || i,"
            " 'key_x', 9999999999999 FROM n");
    OK(f, take_for(f, &fixture_a, "x", 60, NULL, &last));
    REFUSED(f, ERR_LIMIT, take_for(f, &fixture_a, "y", 60, NULL, &h));
    OK(f, workspace_unlock(f->w, &fixture_a, f->ws.id, last.lock.id,
                           last.token, &f->err));
    OK(f, take_for(f, &fixture_a, "y", 60, NULL, &h));
    drop(&h);
    drop(&last);
}

static void locked_paths_at_most_so_many(void **state)
{
    struct fixture *f = *state;
    struct held h;

    fill(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            " WHERE i < 99999) INSERT INTO locks (workspace, path, fence)"
            " SELECT ?1, 'p' || i, 7 FROM n");
    OK(f, take_for(f, &fixture_a, "x", 60, NULL, &h));
    drop(&h);
    REFUSED(f, ERR_LIMIT, take_for(f, &fixture_a, "y", 60, NULL, &h));
    OK(f, take_for(f, &fixture_a, "p5", 60, NULL, &h)); /* had one before */
    assert_int_equal(h.lock.fence, 8);
    drop(&h);
}

/* ---- two at once -------------------------------------------------------- */

struct racer {
    struct fixture *f;
    const struct actor *who;
    int64_t fences[10];
    unsigned wins;
    bool bad;
};

/* Adds one to a counter ten times, each under a lock. */
static void *count_up(void *arg)
{
    struct racer *r = arg;

    for (unsigned tries = 0; r->wins < 10 && tries < 20000; tries++) {
        struct fixture own = *r->f;
        struct workspace_file file;
        struct held h;
        char text[24] = "";
        int fd = -1;
        int got = take_for(&own, r->who, "counter", 60, NULL, &h);

        if (got == -ERR_LOCKED) {
            usleep(1000);
            continue;
        }
        if (got < 0 ||
            workspace_file_get(own.w, r->who, own.ws.id, "counter", NULL,
                               &file, &own.err) < 0 ||
            workspace_file_open(own.w, NULL, &file, &fd, &own.err) < 0 ||
            read(fd, text, sizeof(text) - 1) < 0) {
            r->bad = true;
            return NULL;
        }
        close(fd);
        workspace_file_done(&file);
        (void)snprintf(text, sizeof(text), "%ld", strtol(text, NULL, 10) + 1);
        if (write_with(&own, r->who, "counter", text, h.token) < 0 ||
            workspace_unlock(own.w, r->who, own.ws.id, h.lock.id, h.token,
                             &own.err) < 0)
            r->bad = true;
        r->fences[r->wins++] = h.lock.fence;
        drop(&h);
    }
    return NULL;
}

static void race_for_a_lock(void **state)
{
    struct fixture *f = *state;
    struct racer racers[2] = {{.f = f, .who = &fixture_a},
                              {.f = f, .who = &fixture_b}};
    pthread_t threads[2];
    bool seen[21] = {false};

    put(f, "counter", "0", NULL);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, count_up, &racers[i]), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_false(racers[i].bad);
        assert_int_equal(racers[i].wins, 10);
        for (size_t k = 0; k < 10; k++) {
            assert_in_range(racers[i].fences[k], 1, 20);
            assert_false(seen[racers[i].fences[k]]); /* each once */
            seen[racers[i].fences[k]] = true;
        }
    }
    TREE_IS(f, 0, "counter=20"); /* no update was lost */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lock_and_list),
        CASE(lock_limits),
        CASE(lock_of_a_locked_path),
        CASE(write_needs_the_token),
        CASE(write_below_and_above_a_lock),
        CASE(write_of_a_late_holder),
        CASE(lock_survives_a_restart),
        CASE(renew_and_release),
        CASE(O1_break_is_the_owners_and_audited),
        CASE(session_is_refused_path_by_path),
        CASE(conflict_copy_under_a_lock),
        CASE(tokens_at_most_so_many),
        CASE(locks_at_most_so_many),
        CASE(locked_paths_at_most_so_many),
        CASE(race_for_a_lock),
    };

    return cmocka_run_group_tests_name("workspace_locks", tests, NULL, NULL);
}
