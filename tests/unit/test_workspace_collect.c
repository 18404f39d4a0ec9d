/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep/collect, scrub and verify: what is no longer wanted goes, what
 * somebody refers to never does, and rot is found.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "workspace_keep.h"

/* ---- help --------------------------------------------------------------- */

static struct workspace_collected collect(struct kept *f)
{
    struct workspace_collected done;

    MUST(f, workspaces_collect(f->w, &done, &f->err));
    return done;
}

/* Collects without waiting for blobs to age. */
static int eager_set_up(void **state)
{
    struct kept *f;

    (void)kept_set_up(state);
    f = *state;
    f->w->upkeep->grace_ms = 0;
    return 0;
}

static bool text_is_there(struct kept *f, const char *text)
{
    char sha256[BLOB_NAME];

    sha_of(text, strlen(text), sha256);
    return blob_is_there(f, sha256);
}

static void rules(struct kept *f, int64_t versions, int64_t days)
{
    struct workspace_patch patch = {.quota_bytes = -1,
                                    .keep_versions = versions,
                                    .keep_days = days,
                                    .legal_hold = -1};
    struct workspace_info info;

    MUST(f, workspace_patch(f->w, &f->who, f->ws, &patch, &info, &f->err));
}

static void hold(struct kept *f, int on)
{
    ALTER(f, "UPDATE workspaces SET legal_hold = ?2 WHERE id = ?1", "ti",
          f->ws, (int64_t)on);
}

/* Makes all commits so far look that much older. */
static void age_days(struct kept *f, int64_t days)
{
    ALTER(f, "UPDATE commits SET at_ms = at_ms - ?2 WHERE workspace = ?1",
          "ti", f->ws, days * 86400000);
}

static int64_t stored(struct kept *f)
{
    return NUMBER(f, "SELECT stored_bytes FROM workspaces WHERE id = ?1",
                  f->ws);
}

static int64_t audited(struct kept *f, const char *action)
{
    return NUMBER(f, "SELECT count(*) FROM audit WHERE action = ?1", action);
}

/* ---- blobs -------------------------------------------------------------- */

static void D10_only_unreferred_blobs_go(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;
    char orphan[BLOB_NAME], code[BLOB_NAME], sha256[BLOB_NAME];
    struct workspace_change change = {
        .kind = CHANGE_PUT, .path = "b", .sha256 = sha256, .size = 1};
    struct workspace_commit_spec spec = {
        .kind = "upload", .changes = &change, .count = 1, .code_sha256 = code};
    struct workspace_commit made;

    (void)put(f, "a", "old");
    (void)put(f, "a", "current");
    (void)put(f, "gone", "deleted");
    (void)take(f, "gone");
    store_bytes_of(f, "print(1)", 8, code);
    store_bytes_of(f, "b", 1, sha256);
    MUST(f, workspace_commit(f->w, &f->who, f->ws, &spec, &made, &f->err));
    workspace_commit_done(&made);
    blob_release(f->blobs, code);
    blob_release(f->blobs, sha256);
    store_bytes_of(f, "orphan", 6, orphan);
    done = collect(f);
    assert_int_equal(done.blobs, 0); /* its writer has not let go */
    blob_release(f->blobs, orphan);
    done = collect(f);
    assert_int_equal(done.blobs, 1);
    assert_int_equal(done.bytes, 6);
    assert_false(blob_is_there(f, orphan));
    assert_true(text_is_there(f, "old"));
    assert_true(text_is_there(f, "current"));
    assert_true(text_is_there(f, "deleted"));
    assert_true(text_is_there(f, "print(1)"));
}

/* A pending blob becomes a file, with the time of that, only when a collection
 * searches for blobs; that must not make it too young for this collection. */
static void pending_blobs_go_at_once(void **state)
{
    struct kept *f = *state;
    char text[32], orphan[BLOB_NAME];

    for (int i = 0; i < 300; i++) {
        (void)snprintf(text, sizeof(text), "orphan %d", i);
        store_bytes_of(f, text, strlen(text), orphan);
        blob_release(f->blobs, orphan);
    }
    assert_int_equal(collect(f).blobs, 300);
}

static void young_blobs_are_left_alone(void **state)
{
    struct kept *f = *state;
    char orphan[BLOB_NAME];

    store_bytes_of(f, "orphan", 6, orphan);
    blob_release(f->blobs, orphan);
    f->w->upkeep->grace_ms = 60000;
    assert_int_equal(collect(f).blobs, 0);
    f->w->upkeep->grace_ms = 50;
    clock_test_advance(60);
    assert_int_equal(collect(f).blobs, 1);
}

static void paused_collector_removes_nothing(void **state)
{
    struct kept *f = *state;
    char orphan[BLOB_NAME];

    store_bytes_of(f, "orphan", 6, orphan);
    blob_release(f->blobs, orphan);
    upkeep_pause(f->w->upkeep);
    upkeep_pause(f->w->upkeep);
    assert_int_equal(collect(f).blobs, 0);
    upkeep_resume(f->w->upkeep);
    assert_int_equal(collect(f).blobs, 0);
    upkeep_resume(f->w->upkeep);
    assert_int_equal(collect(f).blobs, 1);
}

static void D11_nothing_goes_while_the_trail_is_damaged(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;
    char orphan[BLOB_NAME];

    (void)put(f, "a", "old");
    store_bytes_of(f, "orphan", 6, orphan);
    blob_release(f->blobs, orphan);
    ALTER(f, "UPDATE audit_head SET seal = hash WHERE one = ?1", "i",
          (int64_t)1);
    for (int i = 0; i < 2; i++) { /* found, and then told of by an event */
        assert_int_equal(workspaces_collect(f->w, &done, &f->err),
                         -ERR_CORRUPT);
        assert_non_null(strstr(f->err.message, "audit trail is damaged"));
        assert_int_equal(workspace_destroy(f->w, &f->who, f->ws, &f->err),
                         -ERR_CORRUPT);
        assert_true(blob_is_there(f, orphan));
        assert_true(text_is_there(f, "old"));
        (void)put(f, "b", i ? "more" : "new");
    }
    assert_int_equal(audited(f, "audit.damaged"), 1);
}

/* Writers and the collector at once: what was committed is always there. */
struct writer {
    struct kept own;
    unsigned number;
    atomic_bool *stop;
};

static void *write_run(void *arg)
{
    struct writer *w = arg;

    for (unsigned i = 0; i < 40; i++) {
        char path[32], text[32];

        /* Few different texts: they go, and come back, and are shared. */
        (void)snprintf(path, sizeof(path), "f%u", w->number);
        (void)snprintf(text, sizeof(text), "text %u", i % 3);
        (void)put(&w->own, path, text);
        if (i % 4 == 3)
            (void)take(&w->own, path);
    }
    return NULL;
}

static void *collect_run(void *arg)
{
    struct writer *w = arg;
    struct workspace_collected done;

    while (!atomic_load(w->stop))
        MUST(&w->own, workspaces_collect(w->own.w, &done, &w->own.err));
    return NULL;
}

static void D10_no_live_reference_is_collected_under_load(void **state)
{
    struct kept *f = *state;
    atomic_bool stop = false;
    struct writer writers[3];
    pthread_t threads[3];
    struct workspace_verified v;

    rules(f, 1, 0); /* so that much becomes nobody's */
    for (unsigned i = 0; i < 3; i++) {
        writers[i] = (struct writer){.own = *f, .number = i, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i ? write_run : collect_run,
                                        &writers[i]),
                         0);
    }
    for (unsigned i = 1; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    MUST(f, workspaces_verify(f->w, NULL, NULL, &v, &f->err));
    assert_int_equal(v.missing, 0);
    assert_int_equal(v.bad, 0);
}

/* ---- retention ---------------------------------------------------------- */

static void keep_versions_keeps_the_newest(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;

    (void)put(f, "a", "1");
    (void)put(f, "a", "22");
    (void)put(f, "a", "333");
    (void)put(f, "a", "4444");
    (void)put(f, "b", "other"); /* a file of its own count */
    rules(f, 3, 0);
    done = collect(f);
    assert_int_equal(done.versions, 1);
    assert_false(text_is_there(f, "1"));
    assert_true(text_is_there(f, "22"));
    assert_int_equal(stored(f), 2 + 3 + 4 + 5);
    rules(f, 1, 0);
    done = collect(f);
    assert_int_equal(done.versions, 2);
    assert_false(text_is_there(f, "333"));
    assert_true(text_is_there(f, "4444"));
    assert_true(text_is_there(f, "other"));
    assert_int_equal(stored(f), 4 + 5);
    assert_int_equal(audited(f, "version.purge"), 2);
    assert_int_equal(collect(f).versions, 0); /* nothing is left to do */
    /* That they were there is still known. */
    assert_int_equal(NUMBER(f,
                            "SELECT count(*) FROM versions WHERE path = 'a'"
                            " AND workspace = ?1",
                            f->ws),
                     4);
}

static void keep_versions_of_a_deleted_file(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "one");
    (void)put(f, "a", "two");
    (void)take(f, "a"); /* a tombstone is no version to keep */
    rules(f, 1, 0);
    assert_int_equal(collect(f).versions, 1);
    assert_false(text_is_there(f, "one"));
    assert_true(text_is_there(f, "two"));
}

static void keep_days_counts_from_being_superseded(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "one");
    (void)put(f, "d", "deleted");
    age_days(f, 100);
    (void)put(f, "a", "two"); /* one was current until now */
    rules(f, 0, 7);
    assert_int_equal(collect(f).versions, 0);
    age_days(f, 6);
    assert_int_equal(collect(f).versions, 0);
    (void)take(f, "d");
    age_days(f, 2); /* eight days superseded; d deleted for two */
    assert_int_equal(collect(f).versions, 1);
    assert_false(text_is_there(f, "one"));
    assert_true(text_is_there(f, "two")); /* current, however old */
    assert_true(text_is_there(f, "deleted"));
    age_days(f, 6);
    assert_int_equal(collect(f).versions, 1);
    assert_false(text_is_there(f, "deleted"));
    assert_int_equal(stored(f), 3);
}

static void both_rules_keep_what_either_keeps(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "one");
    (void)put(f, "a", "two");
    (void)put(f, "a", "three");
    age_days(f, 30);
    (void)put(f, "a", "four");
    rules(f, 2, 7);
    /* three: within two; one, two: superseded 30 days ago and beyond. */
    assert_int_equal(collect(f).versions, 2);
    assert_true(text_is_there(f, "three"));
    assert_false(text_is_there(f, "two"));
}

static void legal_hold_stops_everything(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "one");
    (void)put(f, "a", "two");
    rules(f, 1, 0);
    hold(f, 1);
    assert_int_equal(collect(f).versions, 0);
    /* Not even a workspace that was deleted before the hold came. */
    ALTER(f, "UPDATE workspaces SET deleted_at_ms = 1 WHERE id = ?1", "t",
          f->ws);
    assert_int_equal(collect(f).workspaces, 0);
    assert_true(text_is_there(f, "one"));
    ALTER(f, "UPDATE workspaces SET deleted_at_ms = 0 WHERE id = ?1", "t",
          f->ws);
    hold(f, 0);
    assert_int_equal(collect(f).versions, 1);
}

static void bytes_shared_by_versions_stay(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "same");
    (void)put(f, "a", "other");
    (void)put(f, "a", "same");
    (void)put(f, "copy", "other");
    (void)move(f, "a", "moved");
    rules(f, 1, 0);
    assert_int_equal(collect(f).versions, 3);
    assert_true(text_is_there(f, "same"));
    assert_true(text_is_there(f, "other")); /* another file has it */
    assert_int_equal(stored(f), 4 + 5);
}

static void many_versions_go_in_batches(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "first");
    ALTER(f,
          "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n"
          " WHERE i < 1000) INSERT INTO versions (id, file, workspace, path,"
          " number, commit_id, seq, change, sha256, size, mime, executable)"
          " SELECT 'v' || i, v.file, v.workspace, v.path, i, v.commit_id,"
          " v.seq, 'modified', v.sha256, v.size, v.mime, 0 FROM n"
          " JOIN versions AS v ON v.workspace = ?1",
          "t", f->ws);
    ALTER(f,
          "UPDATE files SET version = 'v1000', number = 1000"
          " WHERE workspace = ?1",
          "t", f->ws);
    rules(f, 10, 0);
    assert_int_equal(collect(f).versions, 990);
    assert_int_equal(audited(f, "version.purge"), 5);
    assert_int_equal(NUMBER(f,
                            "SELECT min(number) FROM versions WHERE purged = 0"
                            " AND workspace = ?1",
                            f->ws),
                     991);
    assert_true(text_is_there(f, "first"));
}

/* ---- purges ------------------------------------------------------------- */

static void D10_deleted_workspace_goes_after_its_window(void **state)
{
    struct kept *f = *state;
    struct workspace_tree tree;
    struct workspace_info info;
    char *trees cleanup(mem_free) = xasprintf("%s/trees/%s", f->dir, f->ws);

    f->w->settings.restore_window_s = 1000;
    f->w->upkeep->settings.restore_window_s = 1000;
    (void)put(f, "a", "bytes");
    MUST(f, workspace_tree_acquire(f->w, &f->who, f->ws, &tree, &f->err));
    workspace_tree_release(f->w, &tree);
    assert_int_equal(access(trees, F_OK), 0);
    MUST(f, workspace_delete(f->w, &f->who, f->ws, &f->err));
    assert_int_equal(collect(f).workspaces, 0);
    MUST(f, workspace_undelete(f->w, &f->who, f->ws, &info, &f->err));
    assert_true(text_is_there(f, "bytes"));
    MUST(f, workspace_delete(f->w, &f->who, f->ws, &f->err));
    ALTER(f,
          "UPDATE workspaces SET deleted_at_ms = deleted_at_ms - 1000000"
          " WHERE id = ?1",
          "t", f->ws);
    clock_test_advance(20);
    assert_int_equal(collect(f).workspaces, 1);
    assert_int_equal(access(trees, F_OK), -1);
    assert_false(text_is_there(f, "bytes"));
    assert_int_equal(NUMBER(f,
                            "SELECT (SELECT count(*) FROM workspaces WHERE"
                            " id = ?1) + (SELECT count(*) FROM versions WHERE"
                            " workspace = ?1) + (SELECT count(*) FROM files"
                            " WHERE workspace = ?1) + (SELECT count(*) FROM"
                            " commits WHERE workspace = ?1) + (SELECT"
                            " count(*) FROM members WHERE workspace = ?1)",
                            f->ws),
                     0);
    assert_int_equal(audited(f, "workspace.purge"), 1);
    assert_int_equal(workspace_undelete(f->w, &f->who, f->ws, &info, &f->err),
                     -ERR_NOT_FOUND);
}

static void destroyed_workspace_is_gone_at_once(void **state)
{
    struct kept *f = *state;
    char other[ID_MAX];

    f->w->upkeep->grace_ms = 60000;
    make_workspace(f, other);
    (void)put_as(f, other, "x", "shared", false);
    (void)put(f, "name-of-a-secret", "secret bytes");
    (void)put(f, "b", "shared");
    MUST(f, workspace_destroy(f->w, &f->who, f->ws, &f->err));
    assert_false(text_is_there(f, "secret bytes"));
    assert_true(text_is_there(f, "shared"));
    assert_int_equal(
        NUMBER(f, "SELECT count(*) FROM versions WHERE workspace = ?1", f->ws),
        0);
    assert_int_equal(audited(f, "workspace.destroy"), 1);
}

/* What is current stays, also if its bytes are those of a version that
 * goes. */
static void D12_purge_frees_what_is_past_at_once(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;

    f->w->upkeep->grace_ms = 60000; /* its age does not matter */
    (void)put(f, "d/a", "first");
    (void)put(f, "d/a", "second");
    (void)put(f, "d/b", "deleted");
    (void)put(f, "d0", "other, old");
    (void)put(f, "d0", "other, new");
    (void)put(f, "d/c", "twice");
    (void)put(f, "e", "twice");
    (void)put(f, "d/c", "current");
    (void)commit(
        f, f->ws,
        &(struct workspace_change){.kind = CHANGE_REMOVE, .path = "d/b"}, 1);
    MUST(f, workspace_purge_now(f->w, &f->who, f->ws, "d", &done, &f->err));
    assert_int_equal(done.versions, 3); /* first, deleted, twice */
    assert_int_equal(done.blobs, 2);
    assert_false(text_is_there(f, "first"));
    assert_false(text_is_there(f, "deleted"));
    assert_true(text_is_there(f, "second"));
    assert_true(text_is_there(f, "current"));
    assert_true(text_is_there(f, "twice"));
    assert_true(text_is_there(f, "other, old"));
    assert_int_equal(audited(f, "version.purge"), 1);
    /* A second time there is nothing left to do, or to tell. */
    MUST(f, workspace_purge_now(f->w, &f->who, f->ws, "d", &done, &f->err));
    assert_int_equal(done.versions + done.blobs, 0);
    assert_int_equal(audited(f, "version.purge"), 1);
    MUST(f, workspace_purge_now(f->w, &f->who, f->ws, "", &done, &f->err));
    assert_int_equal(done.versions, 1);
    assert_int_equal(done.bytes, strlen("other, old"));
    assert_false(text_is_there(f, "other, old"));
    assert_int_equal(NUMBER(f,
                            "SELECT stored_bytes FROM workspaces"
                            " WHERE id = ?1",
                            f->ws),
                     strlen("second") + strlen("current") + strlen("twice") +
                         strlen("other, new"));
}

static void D12_purge_is_for_owners_and_stops_at_a_legal_hold(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;
    struct actor editor = f->who;

    (void)put(f, "a", "first");
    (void)put(f, "a", "second");
    MUST(f, workspace_member_set(f->w, &f->who, f->ws, "*", ROLE_EDITOR,
                                 &f->err));
    editor.key = "key_00000000000000000000000000000001";
    editor.admin = false;
    assert_int_equal(
        workspace_purge_now(f->w, &editor, f->ws, "", &done, &f->err),
        -ERR_FORBIDDEN);
    ALTER(f, "UPDATE workspaces SET legal_hold = 1 WHERE id = ?1", "t", f->ws);
    assert_int_equal(
        workspace_purge_now(f->w, &f->who, f->ws, "", &done, &f->err),
        -ERR_CONFLICT);
    assert_true(text_is_there(f, "first"));
    ALTER(f, "UPDATE workspaces SET legal_hold = 0 WHERE id = ?1", "t", f->ws);

    /* Of a deleted one all of it, and only if no part of it was asked for. */
    f->w->settings.restore_window_s = 1000;
    f->w->upkeep->settings.restore_window_s = 1000;
    MUST(f, workspace_delete(f->w, &f->who, f->ws, &f->err));
    assert_int_equal(
        workspace_purge_now(f->w, &f->who, f->ws, "a", &done, &f->err),
        -ERR_NOT_FOUND);
    assert_true(text_is_there(f, "second"));
    MUST(f, workspace_purge_now(f->w, &f->who, f->ws, "", &done, &f->err));
    assert_int_equal(done.workspaces, 1);
    assert_int_equal(done.bytes, strlen("first") + strlen("second"));
    assert_false(text_is_there(f, "second"));
    assert_int_equal(audited(f, "workspace.destroy"), 1);
}

static void purge_goes_on_after_a_crash(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "bytes");
    (void)put(f, "b", "more");
    /* As a crash leaves it: marked, some rows gone. */
    ALTER(f, "UPDATE workspaces SET deleted_at_ms = 1 WHERE id = ?1", "t",
          f->ws);
    ALTER(f, "DELETE FROM versions WHERE workspace = ?1 AND path = 'a'", "t",
          f->ws);
    kept_reopen(f);
    f->w->upkeep->grace_ms = 0;
    f->w->settings.restore_window_s = 1000;
    f->w->upkeep->settings.restore_window_s = 1000;
    assert_int_equal(collect(f).workspaces, 1);
    assert_false(text_is_there(f, "more"));
}

static void large_workspace_goes_in_steps(void **state)
{
    struct kept *f = *state;
    enum {
        COUNT = 1200
    };
    struct workspace_change *changes cleanup(mem_free) =
        xcalloc(COUNT, sizeof(*changes));
    char(*paths)[16] = xcalloc(COUNT, sizeof(*paths));
    char sha256[BLOB_NAME];

    store_bytes_of(f, "x", 1, sha256);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "f%05d", i);
        changes[i] = (struct workspace_change){
            .kind = CHANGE_PUT, .path = paths[i], .sha256 = sha256, .size = 1};
    }
    (void)commit(f, f->ws, changes, COUNT);
    blob_release(f->blobs, sha256);
    MUST(f, workspace_destroy(f->w, &f->who, f->ws, &f->err));
    assert_int_equal(
        NUMBER(f, "SELECT count(*) FROM files WHERE workspace = ?1", f->ws),
        0);
    assert_false(blob_is_there(f, sha256));
    free(paths);
}

static void thread_collects_by_itself_and_stops(void **state)
{
    struct kept *f = *state;
    uint64_t start;
    char orphan[BLOB_NAME];

    f->settings.collect_every_s = 1;
    kept_reopen(f);
    f->w->upkeep->grace_ms = 0;
    store_bytes_of(f, "orphan", 6, orphan);
    blob_release(f->blobs, orphan);
    for (int i = 0; i < 500 && blob_is_there(f, orphan); i++)
        nap_ms(10);
    assert_false(blob_is_there(f, orphan));
    f->settings.collect_every_s = 3600;
    kept_reopen(f);
    start = clock_mono_ms();
    kept_reopen(f);
    assert_true(clock_mono_ms() - start < 2000);
}

/* ---- unnamed ones ------------------------------------------------------- */

/* As a session that is over has left it, with a file, so many days ago. */
static void left_behind(struct kept *f, int64_t days)
{
    ALTER(f,
          "UPDATE workspaces SET name = '', made_for = 'sess_x',"
          " updated_at_ms = ?2 WHERE id = ?1",
          "ti", f->ws, clock_real_ms() - days * 86400000);
}

static void keep_unnamed(struct kept *f, uint32_t days)
{
    f->settings.restore_window_s = 3600; /* or it is purged at once */
    f->settings.unnamed_days = days;
    kept_reopen(f);
}

static bool expired(struct kept *f)
{
    (void)collect(f);
    return NUMBER(f, "SELECT deleted_at_ms FROM workspaces WHERE id = ?1",
                  f->ws) > 0;
}

static void unnamed_workspaces_expire(void **state)
{
    struct kept *f = *state;
    struct workspace_info info;

    keep_unnamed(f, 30);
    left_behind(f, 29);
    assert_false(expired(f)); /* below */
    left_behind(f, 31);
    f->w->settings.unnamed_days = 0;
    assert_false(expired(f)); /* for ever */
    f->w->settings.unnamed_days = 30;
    assert_true(expired(f)); /* above */
    assert_int_equal(audited(f, "workspace.expire"), 1);
    /* It can be brought back, and is not deleted again at once. */
    MUST(f, workspace_undelete(f->w, &f->who, f->ws, &info, &f->err));
    assert_false(expired(f));
}

/* Each of these alone keeps it. */
static void unnamed_workspaces_that_are_wanted_stay(void **state)
{
    static const struct {
        const char *begin, *end;
    } reasons[] = {
        {"UPDATE workspaces SET name = 'desk' WHERE id = ?1",
         "UPDATE workspaces SET name = '' WHERE id = ?1"},
        {"UPDATE workspaces SET made_for = '' WHERE id = ?1",
         "UPDATE workspaces SET made_for = 'sess_x' WHERE id = ?1"},
        {"UPDATE workspaces SET made_for = 'library' WHERE id = ?1",
         "UPDATE workspaces SET made_for = 'sess_x' WHERE id = ?1"},
        {"UPDATE workspaces SET legal_hold = 1 WHERE id = ?1",
         "UPDATE workspaces SET legal_hold = 0 WHERE id = ?1"},
        {"INSERT INTO sessions (id, tenant, owner, owner_admin, workspace,"
         " pool, runtime, memory_bytes, scratch_bytes, scratch_inodes,"
         " processes, cores, descriptors, interpreter, created_at_ms,"
         " used_at_ms) VALUES ('sess_x', 'a', 'k', 0, ?1, 'p', 'r', 1, 1, 1,"
         " 1, 1, 1, 1, 1, 1)",
         "DELETE FROM sessions WHERE workspace = ?1"},
        {"INSERT INTO shares (id, secret_hash, workspace, path, mode,"
         " created_at_ms, created_by) VALUES ('shr', (SELECT hash FROM audit_head), ?1, '', 1, 1,"
         " 'k')",
         "UPDATE shares SET revoked_at_ms = 1 WHERE workspace = ?1"},
        {"UPDATE shares SET revoked_at_ms = 0,"
         " expires_at_ms = 99999999999999 WHERE workspace = ?1",
         "UPDATE shares SET expires_at_ms = 1 WHERE workspace = ?1"},
        {"INSERT INTO transfers VALUES ('t', (SELECT hash FROM audit_head), ?1, 'k', 1,"
         " 99999999999999)",
         "UPDATE transfers SET expires_at_ms = 1 WHERE workspace = ?1"},
        {"INSERT INTO uploads (id, workspace, path, created_by,"
         " created_at_ms, expires_at_ms) VALUES ('u', ?1, 'p', 'k', 1,"
         " 99999999999999)",
         "DELETE FROM uploads WHERE workspace = ?1"},
    };
    struct kept *f = *state;

    keep_unnamed(f, 30);
    left_behind(f, 365);
    for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
        ALTER(f, reasons[i].begin, "t", f->ws);
        if (expired(f))
            fail_msg("reason %zu did not keep it", i);
        ALTER(f, reasons[i].end, "t", f->ws);
    }
    assert_true(expired(f));
}

/* ---- verify and scrub --------------------------------------------------- */

static unsigned steps;

static void on_step(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;

    assert_true(done >= *last && done <= total);
    *last = done;
    steps++;
}

static void D8_verify_finds_damage_loss_and_orphans(void **state)
{
    struct kept *f = *state;
    struct workspace_verified v;
    uint64_t last = 0;
    char sha256[BLOB_NAME], orphan[BLOB_NAME];
    char *path cleanup(mem_free) = NULL;

    (void)put(f, "a", "one");
    (void)put(f, "b", "two");
    (void)put(f, "c", "three");
    store_bytes_of(f, "orphan", 6, orphan);
    steps = 0;
    MUST(f, workspaces_verify(f->w, on_step, &last, &v, &f->err));
    assert_int_equal(v.blobs, 3);
    assert_int_equal(v.bytes, 11);
    assert_int_equal(v.bad + v.missing, 0);
    assert_int_equal(v.orphans, 1);
    assert_string_equal(v.first_bad, "");
    assert_int_equal(steps, 3);
    assert_int_equal(last, 11);
    blob_release(f->blobs, orphan);
    sha_of("two", 3, sha256);
    flip(f, sha256);
    MUST(f, workspaces_verify(f->w, NULL, NULL, &v, &f->err));
    assert_int_equal(v.bad, 1);
    assert_string_equal(v.first_bad, sha256);
    sha_of("one", 3, sha256);
    path = blob_path(f, sha256);
    assert_int_equal(unlink(path), 0);
    MUST(f, workspaces_verify(f->w, NULL, NULL, &v, &f->err));
    assert_int_equal(v.bad, 1);
    assert_int_equal(v.missing, 1);
    assert_int_equal(v.blobs, 3);
}

static void D8_scrub_finds_rot_and_its_healing(void **state)
{
    struct kept *f = *state;
    struct workspace_scrub s;
    char sha256[BLOB_NAME];

    (void)put(f, "a", "one");
    (void)put(f, "b", "two");
    assert_int_equal(upkeep_scrub_round(f->w->upkeep), 0);
    workspaces_scrub_state(f->w, &s);
    assert_int_equal(s.bad, 0);
    assert_int_equal(s.blobs, 2);
    assert_int_equal(s.bytes, 6);
    assert_true(s.last_full_at_ms >= s.round_started_at_ms);
    sha_of("two", 3, sha256);
    flip(f, sha256);
    assert_int_equal(upkeep_scrub_round(f->w->upkeep), 0);
    assert_int_equal(upkeep_scrub_round(f->w->upkeep), 0);
    workspaces_scrub_state(f->w, &s);
    assert_int_equal(s.bad, 1); /* one, though found twice */
    upkeep_scrub_again(f->w->upkeep);
    workspaces_scrub_state(f->w, &s);
    assert_int_equal(s.bad, 1);
    (void)put(f, "c", "two"); /* storing it again heals */
    upkeep_scrub_again(f->w->upkeep);
    workspaces_scrub_state(f->w, &s);
    assert_int_equal(s.bad, 0);
    flip(f, sha256);
    assert_int_equal(upkeep_scrub_round(f->w->upkeep), 0);
    workspaces_scrub_state(f->w, &s);
    assert_int_equal(s.bad, 1);
    MUST(f, workspace_destroy(f->w, &f->who, f->ws, &f->err));
    assert_int_equal(upkeep_scrub_round(f->w->upkeep), 0);
    workspaces_scrub_state(f->w, &s);
    assert_int_equal(s.bad, 0); /* nobody's any more */
}

static void D8_scrubber_runs_by_itself_and_stops(void **state)
{
    struct kept *f = *state;
    struct workspace_scrub s = {0};
    char *large cleanup(mem_free) = xcalloc(1, 3 << 20);
    uint64_t start;

    memset(large, 'x', (3 << 20) - 1);
    (void)put(f, "a", large);
    f->settings.scrub_bytes_per_s = 1 << 20;
    kept_reopen(f);
    nap_ms(200); /* in the midst of it */
    workspaces_scrub_state(f->w, &s);
    assert_int_equal(s.last_full_at_ms, 0); /* at its pace: three seconds */
    start = clock_mono_ms();
    kept_close(f);
    assert_true(clock_mono_ms() - start < 1500);
    f->settings.scrub_bytes_per_s = 1 << 30;
    kept_open(f);
    for (int i = 0; i < 500 && s.last_full_at_ms == 0; i++) {
        nap_ms(10);
        workspaces_scrub_state(f->w, &s);
    }
    assert_true(s.last_full_at_ms > 0);
    assert_int_equal(s.blobs, 1);
}

#define EAGER(name)                                                           \
    cmocka_unit_test_setup_teardown(name, eager_set_up, kept_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EAGER(D10_only_unreferred_blobs_go),
        EAGER(pending_blobs_go_at_once),
        EAGER(young_blobs_are_left_alone),
        EAGER(paused_collector_removes_nothing),
        EAGER(D11_nothing_goes_while_the_trail_is_damaged),
        EAGER(D10_no_live_reference_is_collected_under_load),
        EAGER(keep_versions_keeps_the_newest),
        EAGER(keep_versions_of_a_deleted_file),
        EAGER(keep_days_counts_from_being_superseded),
        EAGER(both_rules_keep_what_either_keeps),
        EAGER(legal_hold_stops_everything),
        EAGER(bytes_shared_by_versions_stay),
        EAGER(many_versions_go_in_batches),
        EAGER(D10_deleted_workspace_goes_after_its_window),
        EAGER(destroyed_workspace_is_gone_at_once),
        EAGER(D12_purge_frees_what_is_past_at_once),
        EAGER(D12_purge_is_for_owners_and_stops_at_a_legal_hold),
        EAGER(purge_goes_on_after_a_crash),
        EAGER(large_workspace_goes_in_steps),
        EAGER(thread_collects_by_itself_and_stops),
        EAGER(unnamed_workspaces_expire),
        EAGER(unnamed_workspaces_that_are_wanted_stay),
        EAGER(D8_verify_finds_damage_loss_and_orphans),
        EAGER(D8_scrub_finds_rot_and_its_healing),
        EAGER(D8_scrubber_runs_by_itself_and_stops),
    };

    return cmocka_run_group_tests_name("workspace_collect", tests, NULL, NULL);
}
