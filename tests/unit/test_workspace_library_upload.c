/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace/library_uploads: parts come in any order and are put in order at
 * the end, once; what is wrong about them leaves the upload as it was.
 */
#include "workspace_library.h"

#include <openssl/evp.h>
#include <pthread.h>

/* ---- help --------------------------------------------------------------- */

static void begin(struct kept *f, const char *name, uint64_t size,
                  char ret[ID_MAX])
{
    struct library_spec spec = {.filename = name,
                                .purpose = "user_data",
                                .size = size,
                                .expires_s = 7200};
    struct library_upload u;

    MUST(f, library_upload_begin(f->w, &f->who, &spec, &u, &f->err));
    assert_true(ids_valid("upload", u.id));
    memcpy(ret, u.id, ID_MAX);
    library_upload_done(&u);
}

static int part(struct kept *f, const char *upload, const char *text,
                char ret[ID_MAX])
{
    char sha256[BLOB_NAME];
    int64_t at_ms = 0;
    int r;

    store_bytes_of(f, text, strlen(text), sha256);
    r = library_upload_part(f->w, &f->who, upload, sha256, strlen(text), ret,
                            &at_ms, &f->err);
    blob_release(f->blobs, sha256);
    assert_true(r < 0 || (at_ms > 0 && ids_valid("part", ret)));
    return r;
}

/* ret: for library_file_done, or NULL. */
static int complete(struct kept *f, const char *upload,
                    const char *const *parts, size_t count, const char *md5,
                    struct library_file *ret)
{
    struct library_upload u;
    struct library_file file;
    int r = library_upload_complete(f->w, &f->who, upload, parts, count, md5,
                                    &u, &file, &f->err);

    if (r < 0)
        return r;
    assert_int_equal(u.status, LIBRARY_COMPLETED);
    assert_string_equal(u.file, file.file);
    library_upload_done(&u);
    if (ret)
        *ret = file;
    else
        library_file_done(&file);
    return 0;
}

static enum library_upload_status status_of(struct kept *f, const char *upload)
{
    struct library_upload u;

    MUST(f, library_upload_get(f->w, &f->who, upload, &u, &f->err));
    library_upload_done(&u);
    return u.status;
}

static int cancel(struct kept *f, const char *upload)
{
    struct library_upload u;
    int r = library_upload_cancel(f->w, &f->who, upload, &u, &f->err);

    if (r == 0) {
        assert_int_equal(u.status, LIBRARY_CANCELLED);
        library_upload_done(&u);
    }
    return r;
}

static void md5_of(const char *text, char ret[33])
{
    unsigned char md5[16];

    assert_int_equal(
        EVP_Digest(text, strlen(text), md5, NULL, EVP_md5(), NULL), 1);
    (void)ids_hex(md5, sizeof(md5), ret);
}

static int64_t rows_of(struct kept *f)
{
    return NUMBER(f,
                  "SELECT (SELECT count(*) FROM uploads) + (SELECT count(*)"
                  " FROM upload_parts) WHERE ?1 = ''",
                  "");
}

/* ---- cases -------------------------------------------------------------- */

static void parts_are_joined_in_the_order_given(void **state)
{
    struct kept *f = *state;
    char id[ID_MAX], parts[4][ID_MAX], md5[33];
    const char *order[] = {parts[2], parts[0], parts[3]};
    struct library_upload u;
    struct library_file file, got;

    begin(f, "dir/big.csv", 11, id);
    MUST(f, part(f, id, "two", parts[0]));
    MUST(f, part(f, id, "dropped", parts[1]));
    MUST(f, part(f, id, "one", parts[2]));
    MUST(f, part(f, id, "three", parts[3]));
    MUST(f, library_upload_get(f->w, &f->who, id, &u, &f->err));
    assert_int_equal(u.status, LIBRARY_PENDING);
    assert_int_equal(u.size, 11);
    assert_string_equal(u.filename, "big.csv");
    assert_string_equal(u.purpose, "user_data");
    assert_string_equal(u.file, "");
    assert_int_equal(u.expires_at_ms,
                     u.created_at_ms + 1000 * (int64_t)LIBRARY_UPLOAD_S);
    library_upload_done(&u);
    LISTS(f, &f->who, NULL, true, 0, NULL, "", false);
    md5_of("onetwothree", md5);
    MUST(f, complete(f, id, order, 3, md5, &file));
    assert_string_equal(file.filename, "big.csv");
    assert_string_equal(file.mime, "text/csv");
    assert_int_equal(file.size, 11);
    assert_int_equal(file.expires_at_ms, file.created_at_ms + 7200 * 1000);
    assert_bytes(f, &file, "onetwothree");
    MUST(f, library_get(f->w, &f->who, file.file, &got, &f->err));
    assert_string_equal(got.sha256, file.sha256);
    MUST(f, library_upload_get(f->w, &f->who, id, &u, &f->err));
    assert_int_equal(u.status, LIBRARY_COMPLETED);
    assert_string_equal(u.file, file.file);
    assert_int_equal(rows_of(f), 0);
    assert_int_equal(events(f, "upload.begin"), 1);
    assert_int_equal(events(f, "upload.part"), 4);
    assert_int_equal(events(f, "upload.complete"), 1);
    assert_int_equal(events(f, "file.add"), 1);
    /* What has ended stays so. */
    assert_int_equal(complete(f, id, order, 3, NULL, NULL), -ERR_CONFLICT);
    assert_int_equal(part(f, id, "x", parts[0]), -ERR_CONFLICT);
    assert_int_equal(cancel(f, id), -ERR_CONFLICT);
    assert_int_equal(status_of(f, id), LIBRARY_COMPLETED);
    LISTS(f, &f->who, NULL, true, 0, NULL, "big.csv", false);
    library_upload_done(&u);
    library_file_done(&file);
    library_file_done(&got);
}

static void single_part_and_none(void **state)
{
    struct kept *f = *state;
    char id[ID_MAX], one[ID_MAX], md5[33];
    const char *order[] = {one};
    struct library_file file;

    begin(f, "one", 5, id);
    MUST(f, part(f, id, "alone", one));
    md5_of("alonf", md5);
    assert_int_equal(complete(f, id, order, 1, md5, NULL), -ERR_INVALID);
    md5_of("alone", md5);
    MUST(f, complete(f, id, order, 1, md5, &file));
    assert_bytes(f, &file, "alone");
    library_file_done(&file);
    begin(f, "none", 0, id);
    md5_of("", md5);
    MUST(f, complete(f, id, NULL, 0, md5, &file));
    assert_int_equal(file.size, 0);
    assert_bytes(f, &file, "");
    library_file_done(&file);
    begin(f, "some", 1, id);
    assert_int_equal(complete(f, id, NULL, 0, NULL, NULL), -ERR_INVALID);
    assert_int_equal(status_of(f, id), LIBRARY_PENDING);
}

static void wrong_parts_sums_and_md5_leave_it_pending(void **state)
{
    struct kept *f = *state;
    char id[ID_MAX], other[ID_MAX], parts[3][ID_MAX], foreign[ID_MAX];
    char made_up[ID_MAX], changed[ID_MAX], md5[33], upper[33];
    const char *good[] = {parts[0], parts[1]};
    struct library_file file;

    begin(f, "x", 4, id);
    begin(f, "y", 4, other);
    MUST(f, part(f, id, "ab", parts[0]));
    MUST(f, part(f, id, "cd", parts[1]));
    MUST(f, part(f, id, "e", parts[2]));
    MUST(f, part(f, other, "cd", foreign));
    ids_make("part", made_up);
    memcpy(changed, parts[1], ID_MAX);
    changed[12] = changed[12] == '3' ? '1' : '3'; /* the number, not proven */
    md5_of("abcd", md5);
    {
        const struct {
            const char *a, *b;
            size_t count;
            const char *md5;
        } cases[] = {
            {parts[0], NULL, 1, NULL},      /* too few bytes */
            {parts[0], parts[2], 2, NULL},  /* one short */
            {parts[0], parts[0], 2, NULL},  /* twice; the sum is right */
            {parts[0], foreign, 2, NULL},   /* of another upload */
            {parts[0], made_up, 2, NULL},   /* of none */
            {parts[0], changed, 2, NULL},   /* an id of nobody's making */
            {parts[0], "", 2, NULL},        /* no id */
            {parts[0], "part_zz", 2, NULL}, /* no id */
            {parts[0], NULL, 2, NULL},      /* none at all */
            {parts[1], parts[0], 2, md5},   /* another order */
            {parts[0], parts[1], 2, "abc"}, /* no md5 */
            {parts[0], parts[1], 2, ""},    /* no md5 */
            {parts[0], parts[1], 2, "zz000000000000000000000000000000"},
            {parts[0], parts[1], 2,
             "00000000000000000000000000000000"}, /* a wrong one */
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
            const char *order[] = {cases[i].a, cases[i].b};

            assert_int_equal(
                complete(f, id, order, cases[i].count, cases[i].md5, NULL),
                -ERR_INVALID);
            assert_int_equal(status_of(f, id), LIBRARY_PENDING);
        }
    }
    LISTS(f, &f->who, NULL, true, 0, NULL, "", false);
    for (size_t i = 0; i < sizeof(upper); i++)
        upper[i] = md5[i] >= 'a' ? (char)(md5[i] - 'a' + 'A') : md5[i];
    MUST(f, complete(f, id, good, 2, upper, &file));
    assert_bytes(f, &file, "abcd");
    assert_int_equal(status_of(f, other), LIBRARY_PENDING);
    library_file_done(&file);
}

static void cancelled_takes_nothing_more(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;
    char id[ID_MAX], one[ID_MAX], sha256[BLOB_NAME];
    const char *order[] = {one};

    f->w->upkeep->grace_ms = 0;
    begin(f, "x", 3, id);
    MUST(f, part(f, id, "abc", one));
    sha_of("abc", 3, sha256);
    MUST(f, cancel(f, id));
    assert_int_equal(status_of(f, id), LIBRARY_CANCELLED);
    assert_int_equal(rows_of(f), 0);
    assert_int_equal(part(f, id, "abc", one), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "cancelled"));
    assert_int_equal(complete(f, id, order, 1, NULL, NULL), -ERR_CONFLICT);
    MUST(f, cancel(f, id)); /* it is, and stays */
    assert_int_equal(events(f, "upload.abort"), 1);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_false(blob_is_there(f, sha256));
    assert_int_equal(status_of(f, id), LIBRARY_CANCELLED);
}

static void uploads_expire_and_are_forgotten(void **state)
{
    struct kept *f = *state;
    struct workspace_collected done;
    struct library_upload u;
    char id[ID_MAX], late[ID_MAX], one[ID_MAX], sha256[BLOB_NAME];
    const char *order[] = {one};
    int64_t now = clock_real_ms();

    f->w->upkeep->grace_ms = 0;
    begin(f, "x", 3, id);
    begin(f, "late", 3, late);
    MUST(f, part(f, id, "abc", one));
    sha_of("abc", 3, sha256);
    ALTER(f, "UPDATE library_uploads SET expires_at_ms = ?2 WHERE id = ?1",
          "ti", id, now - 1);
    ALTER(f,
          "UPDATE uploads SET expires_at_ms = ?2 WHERE id = (SELECT upload"
          " FROM library_uploads WHERE id = ?1)",
          "ti", id, now - 1);
    assert_int_equal(status_of(f, id), LIBRARY_EXPIRED);
    assert_int_equal(part(f, id, "x", one), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "expired"));
    assert_int_equal(complete(f, id, order, 1, NULL, NULL), -ERR_CONFLICT);
    assert_int_equal(cancel(f, id), -ERR_CONFLICT);
    assert_true(blob_is_there(f, sha256));
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(status_of(f, id), LIBRARY_EXPIRED);
    assert_int_equal(events(f, "upload.expire"), 1);
    assert_int_equal(rows_of(f), 1); /* the late one's */
    clock_test_advance(20);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_false(blob_is_there(f, sha256));
    /* A day later nobody remembers. */
    ALTER(f, "UPDATE library_uploads SET expires_at_ms = ?2 WHERE id = ?1",
          "ti", id, now - 24 * 3600 * 1000ll + 60000);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(status_of(f, id), LIBRARY_EXPIRED);
    ALTER(f, "UPDATE library_uploads SET expires_at_ms = ?2 WHERE id = ?1",
          "ti", id, now - 24 * 3600 * 1000ll);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(library_upload_get(f->w, &f->who, id, &u, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(status_of(f, late), LIBRARY_PENDING);
}

/* Its parts are kept while they are joined, though its time is over. */
static void parts_being_joined_are_not_swept(void **state)
{
    struct kept *f = *state;
    char id[ID_MAX], one[ID_MAX];
    const char *order[] = {one};
    uint64_t removed;

    begin(f, "x", 3, id);
    MUST(f, part(f, id, "ab", one));
    assert_int_equal(complete(f, id, order, 1, NULL, NULL), -ERR_INVALID);
    ALTER(f, "UPDATE library_uploads SET expires_at_ms = ?2 WHERE id = ?1",
          "ti", id, clock_real_ms() - 1);
    MUST(f, library_sweep(f->w, &removed, &f->err));
    assert_int_equal(rows_of(f), 2);
    assert_int_equal(status_of(f, id), LIBRARY_EXPIRED);
    ALTER(f, "UPDATE uploads SET expires_at_ms = 1 WHERE id <> ?1", "t", "");
    MUST(f, library_sweep(f->w, &removed, &f->err));
    assert_int_equal(rows_of(f), 0);
}

static void limits_of_parts_hold(void **state)
{
    struct kept *f = *state;
    struct library_spec spec = {.filename = "x", .purpose = "p", .size = 11};
    char id[ID_MAX], one[ID_MAX], sha256[BLOB_NAME];
    struct library_upload u;
    int64_t at_ms;
    uint64_t most = (64ull << 20) + 2 * 10;

    f->settings.file_bytes = 10;
    kept_reopen(f);
    assert_int_equal(library_upload_begin(f->w, &f->who, &spec, &u, &f->err),
                     -ERR_TOO_LARGE);
    spec.size = UINT64_MAX;
    assert_int_equal(library_upload_begin(f->w, &f->who, &spec, &u, &f->err),
                     -ERR_TOO_LARGE);
    spec.size = 10;
    spec.purpose = "P";
    assert_int_equal(library_upload_begin(f->w, &f->who, &spec, &u, &f->err),
                     -ERR_INVALID);
    begin(f, "x", 10, id);
    store_bytes_of(f, "x", 1, sha256); /* whose size is only said */
    assert_int_equal(library_upload_part(f->w, &f->who, id, sha256, most + 1,
                                         one, &at_ms, &f->err),
                     -ERR_INVALID);
    assert_int_equal(library_upload_part(f->w, &f->who, id, sha256, UINT64_MAX,
                                         one, &at_ms, &f->err),
                     -ERR_INVALID);
    MUST(f, library_upload_part(f->w, &f->who, id, sha256, most - 1, one,
                                &at_ms, &f->err));
    MUST(f, part(f, id, "x", one));
    assert_int_equal(part(f, id, "x", one), -ERR_INVALID);
    blob_release(f->blobs, sha256);
    /* The last part there may be, and one more. */
    begin(f, "y", 10, id);
    ALTER(f,
          "INSERT INTO upload_parts (upload, number, sha256, size)"
          " SELECT upload, ?2, ?3, 1 FROM library_uploads WHERE id = ?1",
          "tit", id, (int64_t)LIBRARY_PARTS_MAX - 1, sha256);
    MUST(f, part(f, id, "x", one));
    assert_int_equal(part(f, id, "x", one), -ERR_INVALID);
}

static void I3_foreign_library_uploads_are_unknown_ones(void **state)
{
    struct kept *f = *state;
    char id[ID_MAX], one[ID_MAX], unknown[ID_MAX], sha256[BLOB_NAME];
    const char *order[] = {one};
    struct library_upload u;
    struct library_file file;
    struct error err;
    int64_t at_ms;

    begin(f, "x", 1, id);
    MUST(f, part(f, id, "x", one));
    sha_of("x", 1, sha256);
    ids_make("upload", unknown);
    for (int own = 0; own < 2; own++) { /* with a library of its own too */
        assert_int_equal(
            library_upload_get(f->w, &f->who, unknown, &u, &f->err),
            -ERR_NOT_FOUND);
        assert_int_equal(library_upload_get(f->w, &stranger, id, &u, &err),
                         -ERR_NOT_FOUND);
        assert_string_equal(err.message, f->err.message);
        assert_int_equal(library_upload_part(f->w, &stranger, id, sha256, 1,
                                             one, &at_ms, &err),
                         -ERR_NOT_FOUND);
        assert_string_equal(err.message, f->err.message);
        assert_int_equal(library_upload_cancel(f->w, &stranger, id, &u, &err),
                         -ERR_NOT_FOUND);
        assert_int_equal(library_upload_complete(f->w, &stranger, id, order, 1,
                                                 NULL, &u, &file, &err),
                         -ERR_NOT_FOUND);
        assert_string_equal(err.message, f->err.message);
        MUST(f,
             add_spec(f, &stranger,
                      (struct library_spec){.filename = "y", .purpose = "p"},
                      "y", &file));
        library_file_done(&file);
    }
    MUST(f, library_upload_get(f->w, &colleague, id, &u, &f->err));
    library_upload_done(&u);
}

static void D3_damaged_part_is_not_joined(void **state)
{
    struct kept *f = *state;
    char id[ID_MAX], parts[3][ID_MAX], sha256[BLOB_NAME], md5[33];
    const char *order[] = {parts[0], parts[1]};
    struct library_file file;

    begin(f, "x", 7, id);
    MUST(f, part(f, id, "good", parts[0]));
    MUST(f, part(f, id, "bad", parts[1]));
    sha_of("bad", 3, sha256);
    flip(f, sha256);
    md5_of("goodnew", md5);
    assert_int_equal(complete(f, id, order, 2, NULL, NULL), -ERR_CORRUPT);
    assert_int_equal(complete(f, id, order, 2, md5, NULL), -ERR_CORRUPT);
    MUST(f, part(f, id, "new", parts[2]));
    order[1] = parts[2];
    MUST(f, complete(f, id, order, 2, md5, &file));
    assert_bytes(f, &file, "goodnew");
    library_file_done(&file);
}

struct ender {
    struct kept *f;
    const char *id;
    const char *const *parts;
    int r;
    pthread_barrier_t *start;
};

static void *end(void *arg)
{
    struct ender *e = arg;
    struct library_upload u;
    struct library_file file;
    struct error err;

    (void)pthread_barrier_wait(e->start);
    e->r = library_upload_complete(e->f->w, &e->f->who, e->id, e->parts, 2,
                                   NULL, &u, &file, &err);
    if (e->r == 0) {
        library_upload_done(&u);
        library_file_done(&file);
    }
    return NULL;
}

static void completed_by_two_at_once_is_one_file(void **state)
{
    struct kept *f = *state;
    char id[ID_MAX], parts[2][ID_MAX];
    const char *order[] = {parts[0], parts[1]};
    struct ender enders[2];
    pthread_t threads[2];
    pthread_barrier_t start;

    (void)pthread_barrier_init(&start, NULL, 2);
    for (int round = 0; round < 5; round++) {
        begin(f, "x", 4, id);
        MUST(f, part(f, id, "ab", parts[0]));
        MUST(f, part(f, id, "cd", parts[1]));
        for (int i = 0; i < 2; i++) {
            enders[i] = (struct ender){
                .f = f, .id = id, .parts = order, .start = &start};
            assert_int_equal(
                pthread_create(&threads[i], NULL, end, &enders[i]), 0);
        }
        for (int i = 0; i < 2; i++)
            (void)pthread_join(threads[i], NULL);
        assert_int_equal(enders[0].r + enders[1].r, -ERR_CONFLICT);
        assert_int_equal(events(f, "file.add"), round + 1);
    }
    (void)pthread_barrier_destroy(&start);
}

/* More than a piece each, so that the loops go round. */
static void large_parts_with_and_without_md5(void **state)
{
    struct kept *f = *state;
    const size_t len = 700001;
    char *bytes cleanup(mem_free) = xmalloc(3 * len);
    char sha256[BLOB_NAME], whole[BLOB_NAME], md5[33];
    unsigned char sum[16];
    int64_t at_ms;

    for (size_t i = 0; i < 3 * len; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    sha_of(bytes, 3 * len, whole);
    assert_int_equal(EVP_Digest(bytes, 3 * len, sum, NULL, EVP_md5(), NULL),
                     1);
    (void)ids_hex(sum, sizeof(sum), md5);
    for (int with = 0; with < 2; with++) {
        char id[ID_MAX], parts[3][ID_MAX];
        const char *order[] = {parts[2], parts[1], parts[0]};
        struct library_file file;

        begin(f, "x", 3 * len, id);
        for (size_t i = 0; i < 3; i++) { /* the last one first */
            store_bytes_of(f, bytes + (2 - i) * len, len, sha256);
            MUST(f, library_upload_part(f->w, &f->who, id, sha256, len,
                                        parts[i], &at_ms, &f->err));
            blob_release(f->blobs, sha256);
        }
        MUST(f, complete(f, id, order, 3, with ? md5 : NULL, &file));
        assert_string_equal(file.sha256, whole);
        library_file_done(&file);
    }
}

static void backup_has_the_library(void **state)
{
    struct kept *f = *state;
    struct kept back = *f;
    char file[ID_MAX], id[ID_MAX], one[ID_MAX];
    const char *order[] = {one};
    char *copy cleanup(mem_free) = xasprintf("%s.copy", f->dir);
    struct library_file got;

    add(f, "x.txt", "fine-tune", "bytes", file);
    begin(f, "u", 4, id);
    MUST(f, part(f, id, "part", one));
    MUST(f, workspaces_backup(f->w, copy, NULL, NULL, &f->err));
    (void)snprintf(back.dir, sizeof(back.dir), "%.48s.back", f->dir);
    MUST(f, upkeep_restore(copy, back.dir, NULL, NULL, NULL, &f->err));
    assert_int_equal(scratch_remove(copy), 0);
    kept_open(&back);
    MUST(&back, library_get(back.w, &back.who, file, &got, &back.err));
    assert_string_equal(got.filename, "x.txt");
    assert_string_equal(got.purpose, "fine-tune");
    assert_bytes(&back, &got, "bytes");
    library_file_done(&got);
    MUST(&back, complete(&back, id, order, 1, NULL, &got));
    assert_bytes(&back, &got, "part");
    library_file_done(&got);
    kept_close(&back);
    assert_int_equal(scratch_remove(back.dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(parts_are_joined_in_the_order_given),
        KEPT(single_part_and_none),
        KEPT(wrong_parts_sums_and_md5_leave_it_pending),
        KEPT(cancelled_takes_nothing_more),
        KEPT(uploads_expire_and_are_forgotten),
        KEPT(parts_being_joined_are_not_swept),
        KEPT(limits_of_parts_hold),
        KEPT(I3_foreign_library_uploads_are_unknown_ones),
        KEPT(D3_damaged_part_is_not_joined),
        KEPT(large_parts_with_and_without_md5),
        KEPT(completed_by_two_at_once_is_one_file),
        KEPT(backup_has_the_library),
    };

    return cmocka_run_group_tests_name("workspace_library_upload", tests, NULL,
                                       NULL);
}
