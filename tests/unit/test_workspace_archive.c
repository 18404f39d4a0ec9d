/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace/archive and diff: the zip of a folder holds what the folder held,
 * as of one commit, and stops when told; the diff of two versions is one of
 * text, and of these two.
 */
#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "workspace_keep.h"

/* ---- help --------------------------------------------------------------- */

static int on_bytes(void *ctx, const void *bytes, size_t len)
{
    buf_add(ctx, bytes, len);
    return 0;
}

static int zip(struct kept *f, const char *prefix, struct buf *out)
{
    buf_reset(out);
    return workspace_archive(f->w, &f->who, f->ws, prefix, on_bytes, out,
                             &f->err);
}

/* "path=text;" of each entry, "*" after the path of an executable. */
static char *unzip(const struct buf *in)
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry;
    struct buf out = {0};

    /* Only to read it back; it was written without one, as in the daemon. */
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    buf_adds(&out, "");
    assert_int_equal(archive_read_support_format_zip(a), ARCHIVE_OK);
    assert_int_equal(archive_read_open_memory(a, in->data, in->len),
                     ARCHIVE_OK);
    while (archive_read_next_header(a, &entry) == ARCHIVE_OK) {
        char text[256] = "";

        assert_true(archive_read_data(a, text, sizeof(text) - 1) >= 0);
        buf_addf(&out, "%s%s=%s;", archive_entry_pathname_utf8(entry),
                 archive_entry_perm(entry) & 0100 ? "*" : "", text);
    }
    assert_int_equal(archive_errno(a), 0);
    (void)archive_read_free(a);
    assert_non_null(setlocale(LC_CTYPE, "C"));
    return buf_take(&out, NULL);
}

#define assert_zip(f, prefix, want)                                           \
    do {                                                                      \
        struct buf out_ cleanup(buf_done) = {0};                              \
        char *got_ cleanup(mem_free) = NULL;                                  \
        MUST(f, zip(f, prefix, &out_));                                       \
        got_ = unzip(&out_);                                                  \
        assert_string_equal(got_, want);                                      \
    } while (0)

/* ---- zip ---------------------------------------------------------------- */

static void zip_holds_what_the_folder_held(void **state)
{
    struct kept *f = *state;

    (void)put(f, "a", "1");
    (void)put(f, "d/e/f", "2");
    (void)put_as(f, f->ws, "d/run", "3", true);
    (void)put(f, "d-not/x", "4");
    (void)put(f, "d/\xc3\xa4\xe2\x82\xac", "5"); /* whatever the locale */
    (void)put(f, "empty", "");
    assert_zip(f, NULL,
               "a=1;d-not/x=4;d/e/f=2;d/run*=3;d/\xc3\xa4\xe2\x82\xac=5;"
               "empty=;");
    assert_zip(f, "d", "d/e/f=2;d/run*=3;d/\xc3\xa4\xe2\x82\xac=5;");
    assert_zip(f, "d/", "d/e/f=2;d/run*=3;d/\xc3\xa4\xe2\x82\xac=5;");
    assert_zip(f, "d/e", "e/f=2;"); /* called as the folder is */
    assert_zip(f, "d/e/f", "f=2;"); /* a file is a zip of one */
}

static void zip_of_nothing(void **state)
{
    struct kept *f = *state;
    struct buf out cleanup(buf_done) = {0};
    struct actor foreign = {.tenant = "o", .key = "key_o"};

    assert_zip(f, NULL, "");
    (void)put(f, "a", "1");
    assert_int_equal(zip(f, "none", &out), -ERR_NOT_FOUND);
    assert_int_equal(out.len, 0); /* not a byte, so that 404 can be said */
    assert_int_equal(zip(f, "none/", &out), -ERR_NOT_FOUND);
    assert_int_equal(workspace_archive(f->w, &foreign, f->ws, NULL, on_bytes,
                                       &out, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(out.len, 0);
}

/* Commits in the midst of it. */
struct meddler {
    struct kept *f;
    struct buf out;
    bool done;
};

static int on_meddle(void *ctx, const void *bytes, size_t len)
{
    struct meddler *m = ctx;

    buf_add(&m->out, bytes, len);
    if (!m->done) {
        m->done = true;
        (void)put(m->f, "f0999", "changed");
        (void)take(m->f, "f0998");
        (void)put(m->f, "g", "new");
    }
    return 0;
}

static void zip_is_of_one_commit(void **state)
{
    struct kept *f = *state;
    enum {
        COUNT = 1000
    }; /* two pages */
    struct workspace_change changes[COUNT];
    char paths[COUNT][16], sha256[BLOB_NAME];
    char *noise cleanup(mem_free) = xcalloc(1, 1000);
    struct meddler m = {.f = f};
    char *got cleanup(mem_free) = NULL;
    unsigned seed = 1;

    for (int i = 0; i < 200; i++)
        noise[i] = (char)('!' + rand_r(&seed) % 90);
    store_bytes_of(f, noise, 200, sha256);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "f%04d", i);
        changes[i] = (struct workspace_change){.kind = CHANGE_PUT,
                                               .path = paths[i],
                                               .sha256 = sha256,
                                               .size = 200};
    }
    (void)commit(f, f->ws, changes, COUNT);
    blob_release(f->blobs, sha256);
    MUST(f, workspace_archive(f->w, &f->who, f->ws, NULL, on_meddle, &m,
                              &f->err));
    assert_true(m.done);
    got = unzip(&m.out);
    assert_non_null(strstr(got, "f0998="));
    assert_non_null(strstr(got, "f0999="));
    assert_null(strstr(got, "changed"));
    assert_null(strstr(got, ";g="));
    buf_done(&m.out);
}

static int on_refuse(void *ctx, const void *bytes, size_t len)
{
    unsigned *calls = ctx;

    (void)bytes;
    (void)len;
    return ++*calls >= 2 ? -ERR_UNAVAILABLE : 0;
}

static void zip_stops_when_told(void **state)
{
    struct kept *f = *state;
    char *noise cleanup(mem_free) = xcalloc(1, 500001);
    unsigned calls = 0, seed = 1;

    for (int i = 0; i < 500000; i++)
        noise[i] = (char)('!' + rand_r(&seed) % 90);
    (void)put(f, "a", noise);
    (void)put(f, "b", "1");
    assert_int_equal(workspace_archive(f->w, &f->who, f->ws, NULL, on_refuse,
                                       &calls, &f->err),
                     -ERR_UNAVAILABLE);
    assert_int_equal(calls, 2); /* and is not asked again */
}

static int on_count(void *ctx, const void *bytes, size_t len)
{
    (void)bytes;
    *(uint64_t *)ctx += len;
    return 0;
}

static void zip_of_much_takes_little_memory(void **state)
{
    struct kept *f = *state;
    enum {
        SIZE = 64 << 20
    };
    struct rusage before, after;
    struct blob_writer *writer = NULL;
    char *chunk cleanup(mem_free) = xcalloc(1, 1 << 20);
    char sha256[BLOB_NAME];
    struct workspace_change change = {
        .kind = CHANGE_PUT, .path = "big", .sha256 = sha256, .size = SIZE};
    uint64_t size, sent = 0;

    MUST(f, blob_begin(f->blobs, f->domain, &writer, &f->err));
    for (int i = 0; i < SIZE >> 20; i++)
        MUST(f, blob_write(writer, chunk, 1 << 20, &f->err));
    MUST(f, blob_finish(&writer, sha256, &size, &f->err));
    (void)commit(f, f->ws, &change, 1);
    blob_release(f->blobs, sha256);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    MUST(f, workspace_archive(f->w, &f->who, f->ws, NULL, on_count, &sent,
                              &f->err));
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(sent > 1000 && sent < SIZE / 100); /* deflated */
    assert_true(after.ru_maxrss - before.ru_maxrss < 16 << 10);
}

static void D3_damaged_file_ends_the_zip(void **state)
{
    struct kept *f = *state;
    struct buf out cleanup(buf_done) = {0};
    char sha256[BLOB_NAME];

    (void)put(f, "a", "good");
    (void)put(f, "b", "bad");
    sha_of("bad", 3, sha256);
    flip(f, sha256);
    assert_int_equal(zip(f, NULL, &out), -ERR_CORRUPT);
}

/* ---- diff --------------------------------------------------------------- */

static void version_of(struct kept *f, const char *path, char ret[ID_MAX])
{
    struct workspace_file file;

    MUST(f,
         workspace_file_get(f->w, &f->who, f->ws, path, NULL, &file, &f->err));
    memcpy(ret, file.version, ID_MAX);
    workspace_file_done(&file);
}

static int diff(struct kept *f, const char *path, const char *from,
                const char *to, struct buf *out)
{
    buf_reset(out);
    return workspace_diff(f->w, &f->who, f->ws, path, from, to, out, &f->err);
}

static void diff_is_of_these_two_versions(void **state)
{
    struct kept *f = *state;
    struct buf out cleanup(buf_done) = {0};
    char first[ID_MAX], second[ID_MAX], third[ID_MAX];
    char *want cleanup(mem_free) = NULL;

    (void)put(f, "d/a", "1\n2\n3\n");
    version_of(f, "d/a", first);
    (void)put(f, "d/a", "1\ntwo\n3\n");
    version_of(f, "d/a", second);
    (void)put(f, "d/a", "1\ntwo\n3\n4\n");
    version_of(f, "d/a", third);
    MUST(f, diff(f, "d/a", first, third, &out));
    want = xasprintf("--- a/d/a\t%s\n+++ b/d/a\t%s\n"
                     "@@ -1,3 +1,4 @@\n 1\n-2\n+two\n 3\n+4\n",
                     first, third);
    assert_string_equal(out.data, want);
    MUST(f, diff(f, "d/a", NULL, third, &out)); /* the one before */
    assert_non_null(strstr(out.data, second));
    assert_null(strstr(out.data, "-2"));
    MUST(f, diff(f, "d/a", NULL, NULL, &out)); /* of the head */
    assert_non_null(strstr(out.data, third));
    MUST(f, diff(f, "d/a", NULL, first, &out)); /* of the first: all new */
    assert_non_null(strstr(out.data, "--- /dev/null\n"));
    assert_non_null(strstr(out.data, "@@ -0,0 +1,3 @@\n"));
    MUST(f, diff(f, "d/a", third, first, &out)); /* backwards */
    assert_non_null(strstr(out.data, "-4\n"));
    (void)move(f, "d/a", "b"); /* also from before it was called so */
    MUST(f, diff(f, "b", first, NULL, &out));
    assert_non_null(strstr(out.data, "--- a/d/a\t"));
}

static void diff_is_of_text_of_bounded_size(void **state)
{
    struct kept *f = *state;
    struct buf out cleanup(buf_done) = {0};
    char *large cleanup(mem_free) = xcalloc(1, (1 << 20) + 2);
    char other[ID_MAX];
    struct actor foreign = {.tenant = "o", .key = "key_o"};
    struct workspace_collected done;
    char first[ID_MAX];

    (void)put(f, "bin", "\xff\xfe");
    assert_int_equal(diff(f, "bin", NULL, NULL, &out), -ERR_INVALID);
    memset(large, 'x', 1 << 20);
    (void)put(f, "large", large); /* at the limit */
    MUST(f, diff(f, "large", NULL, NULL, &out));
    large[1 << 20] = 'x';
    (void)put(f, "large", large);
    assert_int_equal(diff(f, "large", NULL, NULL, &out), -ERR_INVALID);
    assert_int_equal(diff(f, "none", NULL, NULL, &out), -ERR_NOT_FOUND);
    assert_int_equal(diff(f, "../x", NULL, NULL, &out), -ERR_INVALID);
    version_of(f, "bin", other);
    assert_int_equal(diff(f, "large", NULL, other, &out), -ERR_NOT_FOUND);
    assert_int_equal(workspace_diff(f->w, &foreign, f->ws, "large", NULL, NULL,
                                    &out, &f->err),
                     -ERR_NOT_FOUND);
    (void)put(f, "kept", "one\n");
    version_of(f, "kept", first);
    (void)put(f, "kept", "two\n");
    ALTER(f, "UPDATE workspaces SET keep_versions = 1 WHERE id = ?1", "t",
          f->ws);
    MUST(f, workspaces_collect(f->w, &done, &f->err));
    assert_int_equal(diff(f, "kept", first, NULL, &out), -ERR_NOT_FOUND);
    assert_non_null(strstr(f->err.message, "given up"));
}

static void diff_to_a_deletion(void **state)
{
    struct kept *f = *state;
    struct buf out cleanup(buf_done) = {0};
    struct workspace_event *events;
    struct page_result got = {0};

    (void)put(f, "a", "1\n");
    (void)take(f, "a");
    MUST(f, workspace_history(
                f->w, &f->who, f->ws,
                &(struct workspace_history_spec){.path = "a", .limit = 1},
                &events, &got, &f->err));
    MUST(f, diff(f, "a", NULL, events[0].file.version, &out));
    assert_non_null(strstr(out.data, "+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"));
    workspace_events_free(events, got.count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEPT(zip_holds_what_the_folder_held),
        KEPT(zip_of_nothing),
        KEPT(zip_is_of_one_commit),
        KEPT(zip_stops_when_told),
        KEPT(zip_of_much_takes_little_memory),
        KEPT(D3_damaged_file_ends_the_zip),
        KEPT(diff_is_of_these_two_versions),
        KEPT(diff_is_of_text_of_bounded_size),
        KEPT(diff_to_a_deletion),
    };

    return cmocka_run_group_tests_name("workspace_archive", tests, NULL, NULL);
}
