/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace/uploads: files by parts arrive whole or not at all, in any order,
 * within their limits, and leave nothing behind.
 */
#include "workspace_keep.h"

/* ---- help --------------------------------------------------------------- */

static int begin(struct kept *f, const char *path, int64_t size,
                 struct workspace_upload *ret)
{
    return workspace_upload_begin(f->w, &f->who, f->ws, path, size, ret,
                                  &f->err);
}

static int part(struct kept *f, const char *upload, uint32_t number,
                const char *text)
{
    char sha256[BLOB_NAME];
    int r;

    store_bytes_of(f, text, strlen(text), sha256);
    r = workspace_upload_part(f->w, &f->who, upload, number, sha256,
                              strlen(text), &f->err);
    blob_release(f->blobs, sha256);
    return r;
}

static int complete(struct kept *f, const char *upload, const char *sha256)
{
    struct workspace_commit done;
    int r = workspace_upload_complete(f->w, &f->who, upload, sha256, NULL,
                                      &done, &f->err);

    if (r == 0)
        workspace_commit_done(&done);
    return r;
}

static void assert_file(struct kept *f, const char *path, const char *text)
{
    struct workspace_file file;
    int fd cleanup(fd_close) = -1;
    char got[256] = "";

    MUST(f,
         workspace_file_get(f->w, &f->who, f->ws, path, NULL, &file, &f->err));
    MUST(f, workspace_file_open(f->w, NULL, &file, &fd, &f->err));
    assert_int_equal(fd_read_all(fd, got, sizeof(got) - 1), strlen(text));
    assert_string_equal(got, text);
    workspace_file_done(&file);
}

static int64_t uploads_left(struct kept *f)
{
    return NUMBER(f, "SELECT count(*) FROM uploads WHERE id <> ?1", "");
}

/* ---- cases -------------------------------------------------------------- */

static void parts_in_any_order_make_one_file(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u, seen;
    struct workspace_commit done;
    char sha256[BLOB_NAME];

    MUST(f, begin(f, "d/big.bin", -1, &u));
    assert_int_equal(strncmp(u.id, "up_", 3), 0);
    MUST(f, part(f, u.id, 3, "three"));
    MUST(f, part(f, u.id, 1, "one"));
    assert_int_equal(complete(f, u.id, NULL), -ERR_INVALID);
    assert_non_null(strstr(f->err.message, "part 2 is missing"));
    MUST(f, part(f, u.id, 2, "TWO"));
    MUST(f, part(f, u.id, 2, "two")); /* replaced */
    MUST(f, workspace_upload_get(f->w, &f->who, u.id, &seen, &f->err));
    assert_int_equal(seen.part_count, 3);
    assert_int_equal(seen.parts[1].number, 2);
    assert_int_equal(seen.parts[2].size, 5);
    assert_string_equal(seen.path, "d/big.bin");
    workspace_upload_done(&seen);
    sha_of("onetwothree", 11, sha256);
    MUST(f, workspace_upload_complete(f->w, &f->who, u.id, sha256, NULL, &done,
                                      &f->err));
    assert_string_equal(done.results[0].file.sha256, sha256);
    assert_int_equal(done.results[0].file.size, 11);
    workspace_commit_done(&done);
    assert_file(f, "d/big.bin", "onetwothree");
    assert_int_equal(uploads_left(f), 0);
    assert_int_equal(complete(f, u.id, NULL), -ERR_NOT_FOUND);
    workspace_upload_done(&u);
}

static void single_part_and_empty_file(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u;

    MUST(f, begin(f, "one", 5, &u));
    MUST(f, part(f, u.id, 1, "alone"));
    MUST(f, complete(f, u.id, NULL));
    assert_file(f, "one", "alone");
    workspace_upload_done(&u);
    MUST(f, begin(f, "none", 0, &u));
    MUST(f, complete(f, u.id, NULL));
    assert_file(f, "none", "");
    workspace_upload_done(&u);
    MUST(f, begin(f, "unknown", -1, &u));
    assert_int_equal(complete(f, u.id, NULL), -ERR_INVALID);
    workspace_upload_done(&u);
}

static void declared_size_and_hash_must_hold(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u;
    char wrong[BLOB_NAME];

    MUST(f, begin(f, "x", 6, &u));
    MUST(f, part(f, u.id, 1, "abc"));
    assert_int_equal(complete(f, u.id, NULL), -ERR_INVALID);  /* too few */
    assert_int_equal(part(f, u.id, 2, "defg"), -ERR_INVALID); /* too many */
    MUST(f, part(f, u.id, 2, "def"));                         /* as declared */
    sha_of("abcdeF", 6, wrong);
    assert_int_equal(complete(f, u.id, wrong), -ERR_INVALID);
    assert_int_equal(uploads_left(f), 1); /* nothing is lost by it */
    sha_of("abcdef", 6, wrong);
    MUST(f, complete(f, u.id, wrong));
    assert_file(f, "x", "abcdef");
    workspace_upload_done(&u);
}

static void limits_hold(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u;

    f->settings.file_bytes = 10;
    kept_reopen(f);
    assert_int_equal(begin(f, "x", 11, &u), -ERR_TOO_LARGE);
    assert_int_equal(begin(f, "x", -2, &u), -ERR_INVALID);
    assert_int_equal(begin(f, "../x", 1, &u), -ERR_INVALID);
    MUST(f, begin(f, "x", 10, &u));
    assert_int_equal(part(f, u.id, 0, "a"), -ERR_INVALID);
    assert_int_equal(part(f, u.id, UPLOAD_PARTS_MAX + 1, "a"), -ERR_INVALID);
    MUST(f, part(f, u.id, UPLOAD_PARTS_MAX, "a"));
    workspace_upload_done(&u);
    MUST(f, begin(f, "x", -1, &u));
    MUST(f, part(f, u.id, 1, "12345"));
    MUST(f, part(f, u.id, 2, "67890")); /* ten: the most */
    assert_int_equal(part(f, u.id, 3, "x"), -ERR_TOO_LARGE);
    assert_int_equal(part(f, u.id, 2, "678901"), -ERR_TOO_LARGE);
    MUST(f, part(f, u.id, 2, "6789"));
    MUST(f, part(f, u.id, 3, "x"));
    MUST(f, complete(f, u.id, NULL));
    assert_file(f, "x", "123456789x");
    workspace_upload_done(&u);
}

static void quota_holds_at_begin_part_and_complete(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u, other;

    f->settings.workspace_quota_bytes = 10;
    kept_reopen(f);
    assert_int_equal(begin(f, "x", 11, &u), -ERR_SPACE);
    MUST(f, begin(f, "x", 10, &u));
    MUST(f, begin(f, "y", -1, &other));
    MUST(f, part(f, u.id, 1, "12345678"));
    /* Parts of both are on the same disk. */
    assert_int_equal(part(f, other.id, 1, "123"), -ERR_SPACE);
    MUST(f, part(f, other.id, 1, "12"));
    MUST(f, put(f, "z", "1234")); /* meanwhile the room goes */
    MUST(f, part(f, u.id, 1, "12"));
    assert_int_equal(part(f, u.id, 2, "12345"), -ERR_SPACE);
    workspace_upload_done(&u);
    workspace_upload_done(&other);
}

static void unfinished_uploads_are_counted(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u;

    ALTER(f,
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
          " WHERE i < 999) INSERT INTO uploads (id, workspace, path,"
          " created_by, created_at_ms, expires_at_ms) SELECT 'up_' || i, ?1,"
          " 'p', 'key_a', 1, 9999999999999 FROM n",
          "t", f->ws);
    MUST(f, begin(f, "x", 1, &u));
    workspace_upload_done(&u);
    assert_int_equal(begin(f, "y", 1, &u), -ERR_LIMIT);
}

static void I3_foreign_upload_is_an_unknown_one(void **state)
{
    struct kept *f = *state;
    struct actor foreign = {.tenant = "o", .key = "key_o"};
    struct actor viewer = {.tenant = "t", .key = VIEWER};
    struct workspace_upload u, ret;
    struct workspace_commit done;
    struct error err;
    char unknown[ID_MAX], sha256[BLOB_NAME];

    MUST(f, begin(f, "x", -1, &u));
    MUST(f, part(f, u.id, 1, "x"));
    ids_make("up", unknown);
    sha_of("x", 1, sha256);
    assert_int_equal(
        workspace_upload_get(f->w, &f->who, unknown, &ret, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(workspace_upload_get(f->w, &foreign, u.id, &ret, &err),
                     -ERR_NOT_FOUND);
    assert_string_equal(err.message, f->err.message);
    assert_int_equal(
        workspace_upload_part(f->w, &foreign, u.id, 1, sha256, 1, &err),
        -ERR_NOT_FOUND);
    assert_string_equal(err.message, f->err.message);
    assert_int_equal(workspace_upload_abort(f->w, &foreign, u.id, &err),
                     -ERR_NOT_FOUND);
    assert_int_equal(workspace_upload_complete(f->w, &foreign, u.id, NULL,
                                               NULL, &done, &err),
                     -ERR_NOT_FOUND);
    MUST(f, workspace_member_set(f->w, &f->who, f->ws, VIEWER, ROLE_VIEWER,
                                 &f->err));
    assert_int_equal(workspace_upload_get(f->w, &viewer, u.id, &ret, &err),
                     -ERR_FORBIDDEN);
    workspace_upload_done(&u);
}

static void aborted_and_expired_uploads_leave_nothing(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;
    struct workspace_upload u;
    char sha256[2][BLOB_NAME];

    f->w->upkeep->grace_ms = 0;
    sha_of("aborted", 7, sha256[0]);
    sha_of("expired", 7, sha256[1]);
    MUST(f, begin(f, "a", -1, &u));
    MUST(f, part(f, u.id, 1, "aborted"));
    MUST(f, workspace_upload_abort(f->w, &f->who, u.id, &f->err));
    assert_int_equal(part(f, u.id, 2, "aborted"), -ERR_NOT_FOUND);
    workspace_upload_done(&u);
    MUST(f, begin(f, "b", -1, &u));
    MUST(f, part(f, u.id, 1, "expired"));
    clock_test_advance(20);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_false(blob_is_there(f, sha256[0]));
    assert_true(blob_is_there(f, sha256[1])); /* a part is a reference */
    ALTER(f, "UPDATE uploads SET expires_at_ms = 1 WHERE id = ?1", "t", u.id);
    assert_int_equal(part(f, u.id, 2, "x"), -ERR_NOT_FOUND);
    assert_int_equal(complete(f, u.id, NULL), -ERR_NOT_FOUND);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(done.uploads, 1);
    assert_int_equal(uploads_left(f), 0);
    clock_test_advance(20);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_false(blob_is_there(f, sha256[1]));
    workspace_upload_done(&u);
}

static void D3_damaged_part_is_never_joined(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u;
    char sha256[BLOB_NAME];

    MUST(f, begin(f, "x", -1, &u));
    MUST(f, part(f, u.id, 1, "good"));
    MUST(f, part(f, u.id, 2, "bad"));
    sha_of("bad", 3, sha256);
    flip(f, sha256);
    assert_int_equal(complete(f, u.id, NULL), -ERR_CORRUPT);
    MUST(f, part(f, u.id, 2, "new"));
    MUST(f, complete(f, u.id, NULL));
    assert_file(f, "x", "goodnew");
    workspace_upload_done(&u);
}

static void conditions_of_the_commit_hold(void **state)
{
    struct kept *f = *state;
    struct workspace_commit_spec spec = {.if_none_match = true};
    struct workspace_commit done;
    struct workspace_upload u;

    (void)put(f, "x", "old");
    MUST(f, begin(f, "x", -1, &u));
    MUST(f, part(f, u.id, 1, "new"));
    assert_int_equal(workspace_upload_complete(f->w, &f->who, u.id, NULL,
                                               &spec, &done, &f->err),
                     -ERR_PRECONDITION);
    assert_file(f, "x", "old");
    assert_int_equal(uploads_left(f), 1);
    spec.if_none_match = false;
    MUST(f, workspace_upload_complete(f->w, &f->who, u.id, NULL, &spec, &done,
                                      &f->err));
    workspace_commit_done(&done);
    assert_file(f, "x", "new");
    workspace_upload_done(&u);
}

static void same_bytes_again_end_the_upload_too(void **state)
{
    struct kept *f = *state;
    struct workspace_upload u;
    int64_t seq = put(f, "x", "same");

    MUST(f, begin(f, "x", -1, &u));
    MUST(f, part(f, u.id, 1, "same"));
    MUST(f, complete(f, u.id, NULL));
    assert_int_equal(uploads_left(f), 0);
    assert_int_equal(
        NUMBER(f, "SELECT head FROM workspaces WHERE id = ?1", f->ws), seq);
    workspace_upload_done(&u);
}

/* Bytes another tenant has stored count and answer as if nobody had. */
static void I8_known_bytes_are_as_new_ones(void **state)
{
    struct kept *f = *state;
    struct kept other = *f;
    struct workspace_upload u;
    struct workspace_commit done[2];

    other.who = (struct actor){.tenant = "o", .key = "key_o"};
    blob_owner("o", other.domain);
    make_workspace(&other, other.ws);
    for (int i = 0; i < 2; i++) {
        struct kept *k = i ? &other : f;

        MUST(k, begin(k, "x", 5, &u));
        MUST(k, part(k, u.id, 1, "kn"));
        MUST(k, part(k, u.id, 2, "own"));
        MUST(k, workspace_upload_complete(k->w, &k->who, u.id, NULL, NULL,
                                          &done[i], &k->err));
        assert_file(k, "x", "known");
        assert_int_equal(
            NUMBER(k, "SELECT stored_bytes FROM workspaces WHERE id = ?1",
                   k->ws),
            5);
        workspace_upload_done(&u);
    }
    assert_int_equal(done[0].results[0].fate, done[1].results[0].fate);
    assert_string_equal(done[0].results[0].change, done[1].results[0].change);
    assert_int_equal(done[0].results[0].file.number,
                     done[1].results[0].file.number);
    workspace_commit_done(&done[0]);
    workspace_commit_done(&done[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(parts_in_any_order_make_one_file),
        KEPT(single_part_and_empty_file),
        KEPT(declared_size_and_hash_must_hold),
        KEPT(limits_hold),
        KEPT(quota_holds_at_begin_part_and_complete),
        KEPT(unfinished_uploads_are_counted),
        KEPT(I3_foreign_upload_is_an_unknown_one),
        KEPT(aborted_and_expired_uploads_leave_nothing),
        KEPT(D3_damaged_part_is_never_joined),
        KEPT(conditions_of_the_commit_hold),
        KEPT(I8_known_bytes_are_as_new_ones),
        KEPT(same_bytes_again_end_the_upload_too),
    };

    return cmocka_run_group_tests_name("workspace_upload", tests, NULL, NULL);
}
