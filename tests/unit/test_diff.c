/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace/diff: the unified diff of two texts leads from one to the other,
 * is as short as it can be while it is near, and is bounded when it is not.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workspace/diff_int.h"

/* ---- help --------------------------------------------------------------- */

static char *diff_of(const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct buf out = {0};

    diff_unified(a, a_len, b, b_len, "a", "b", &out);
    buf_add(&out, "", 0);
    return buf_take(&out, NULL);
}

static char *diff_text(const char *a, const char *b)
{
    return diff_of(a, strlen(a), b, strlen(b));
}

static const char *line_end(const char *at)
{
    const char *end = strchr(at, '\n');

    assert_non_null(end);
    return end + 1;
}

/* Adds the old lines up to line `to` (from 1) to out. */
static void copy_to_line(const char **old, const char *old_end, size_t *line,
                         size_t to, struct buf *out)
{
    while (*line < to) {
        const char *end = memchr(*old, '\n', (size_t)(old_end - *old));

        assert_true(*old < old_end);
        end = end ? end + 1 : old_end;
        buf_add(out, *old, (size_t)(end - *old));
        *old = end;
        ++*line;
    }
}

/* A line of the patch without its sign; without the newline when the next
 * line of the patch says so. */
static size_t payload(const char *at, const char **ret_next)
{
    const char *next = line_end(at);
    size_t len = (size_t)(next - at) - 1;

    if (*next == '\\') {
        len--;
        next = line_end(next);
    }
    *ret_next = next;
    return len;
}

/* Applies a patch as its format says, refusing what does not fit. */
static char *apply(const char *a, size_t a_len, const char *patch,
                   size_t *ret_len)
{
    const char *old = a, *old_end = a + a_len;
    struct buf out = {0};
    size_t line = 1, edits = 0;

    buf_add(&out, "", 0);
    if (*patch) {
        assert_int_equal(strncmp(patch, "--- a\n+++ b\n", 12), 0);
        patch += 12;
    }
    while (*patch) {
        size_t from, count = 1, to, new_count = 1;
        char *end;

        assert_int_equal(strncmp(patch, "@@ -", 4), 0);
        from = strtoul(patch + 4, &end, 10);
        if (*end == ',')
            count = strtoul(end + 1, &end, 10);
        assert_int_equal(strncmp(end, " +", 2), 0);
        to = strtoul(end + 2, &end, 10);
        if (*end == ',')
            new_count = strtoul(end + 1, &end, 10);
        assert_int_equal(strncmp(end, " @@\n", 4), 0);
        patch = end + 4;
        (void)to;
        copy_to_line(&old, old_end, &line, count ? from : from + 1, &out);
        while (count || new_count) {
            const char *next;
            size_t len = payload(patch, &next);

            assert_true(strchr(" -+", *patch) && *patch);
            if (*patch != '+') {
                assert_true((size_t)(old_end - old) >= len);
                assert_memory_equal(old, patch + 1, len);
                old += len;
                line++;
                assert_true(count-- > 0);
            }
            if (*patch != '-') {
                buf_add(&out, patch + 1, len);
                assert_true(new_count-- > 0);
            }
            edits += *patch != ' ';
            patch = next;
        }
    }
    buf_add(&out, old, (size_t)(old_end - old));
    (void)edits;
    return buf_take(&out, ret_len);
}

static void check_leads(const char *a, size_t a_len, const char *b,
                        size_t b_len)
{
    char *patch cleanup(mem_free) = diff_of(a, a_len, b, b_len);
    size_t len;
    char *got cleanup(mem_free) = apply(a, a_len, patch, &len);

    assert_int_equal(len, b_len);
    assert_memory_equal(got, b, b_len);
}

/* Random text of few different lines, sometimes without the last newline. */
static char *random_text(unsigned *seed, unsigned most_lines, unsigned kinds,
                         size_t *ret_len)
{
    unsigned lines = (unsigned)rand_r(seed) % (most_lines + 1);
    struct buf out = {0};

    buf_add(&out, "", 0);
    for (unsigned i = 0; i < lines; i++)
        buf_addf(&out, "%.*s%u\n", rand_r(seed) % 3, "xyz",
                 (unsigned)rand_r(seed) % kinds);
    if (out.len && rand_r(seed) % 4 == 0)
        out.data[--out.len] = 0;
    return buf_take(&out, ret_len);
}

/* ---- cases -------------------------------------------------------------- */

static void same_texts_give_nothing(void **state)
{
    (void)state;
    char *none cleanup(mem_free) = diff_text("", "");
    char *same cleanup(mem_free) = diff_text("a\nb", "a\nb");

    assert_string_equal(none, "");
    assert_string_equal(same, "");
}

static void hunks_are_as_diff_writes_them(void **state)
{
    (void)state;
    char *change cleanup(mem_free) = diff_text(
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n");
    char *added cleanup(mem_free) = diff_text("", "x\n");
    char *gone cleanup(mem_free) = diff_text("x\ny\n", "");
    char *two cleanup(mem_free) = diff_text("A\n2\n3\n4\n5\n6\n7\n8\n9\nB\n",
                                            "2\n3\n4\n5\n6\n7\n8\n9\nC\n");

    assert_string_equal(change,
                        "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n"
                        "+five\n 6\n 7\n 8\n");
    assert_string_equal(added, "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
    assert_string_equal(gone, "--- a\n+++ b\n@@ -1,2 +0,0 @@\n-x\n-y\n");
    assert_string_equal(two, "--- a\n+++ b\n@@ -1,4 +1,3 @@\n-A\n 2\n 3\n 4\n"
                             "@@ -7,4 +6,4 @@\n 7\n 8\n 9\n-B\n+C\n");
}

static void changes_six_lines_apart_share_a_hunk(void **state)
{
    (void)state;
    char *near cleanup(mem_free) =
        diff_text("A\n1\n2\n3\n4\n5\n6\nB\n", "a\n1\n2\n3\n4\n5\n6\nb\n");
    char *far cleanup(mem_free) = diff_text("A\n1\n2\n3\n4\n5\n6\n7\nB\n",
                                            "a\n1\n2\n3\n4\n5\n6\n7\nb\n");

    assert_null(strstr(strstr(near, "@@ -") + 1, "@@ -"));
    assert_non_null(strstr(strstr(far, "@@ -") + 1, "@@ -"));
}

static void missing_last_newline_is_told(void **state)
{
    (void)state;
    char *lost cleanup(mem_free) = diff_text("a\nb\n", "a\nb");
    char *kept cleanup(mem_free) = diff_text("a\nb", "c\nb");

    assert_string_equal(lost, "--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n"
                              "\\ No newline at end of file\n");
    assert_string_equal(kept, "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-a\n+c\n b\n"
                              "\\ No newline at end of file\n");
}

static void every_diff_leads_from_one_to_the_other(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        size_t a_len, b_len;
        unsigned kinds = 1 + (unsigned)i % 12;
        char *a cleanup(mem_free) = random_text(&seed, 40, kinds, &a_len);
        char *b cleanup(mem_free) = random_text(&seed, 40, kinds, &b_len);

        check_leads(a, a_len, b, b_len);
    }
}

/* Longest common subsequence, the slow and obvious way. */
static size_t common_lines(const uint32_t *a, size_t n, const uint32_t *b,
                           size_t m)
{
    size_t *row cleanup(mem_free) = xcalloc(m + 1, sizeof(*row));

    for (size_t i = 0; i < n; i++) {
        size_t before = 0;

        for (size_t k = 0; k < m; k++) {
            size_t above = row[k + 1];

            row[k + 1] = a[i] == b[k] ? before + 1 : MAX(above, row[k]);
            before = above;
        }
    }
    return row[m];
}

static void no_diff_is_shorter(void **state)
{
    unsigned seed = 11;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        uint32_t a[60], b[60];
        bool a_changed[60], b_changed[60];
        size_t n = (size_t)(rand_r(&seed) % 60), m;
        struct diff_side x = {a, a_changed, n}, y = {b, b_changed, 0};
        size_t kept = 0, at = 0;

        m = (size_t)(rand_r(&seed) % 60);
        y.count = m;
        for (size_t k = 0; k < n; k++)
            a[k] = (uint32_t)rand_r(&seed) % (2 + (unsigned)i % 9);
        for (size_t k = 0; k < m; k++)
            b[k] = (uint32_t)rand_r(&seed) % (2 + (unsigned)i % 9);
        diff_lines(&x, &y);
        for (size_t k = 0; k < n; k++) {
            if (a_changed[k])
                continue;
            kept++;
            while (at < m && b_changed[at])
                at++;
            assert_true(at < m); /* what stays is the same, in order */
            assert_int_equal(a[k], b[at++]);
        }
        while (at < m && b_changed[at])
            at++;
        assert_int_equal(at, m);
        assert_int_equal(kept, common_lines(a, n, b, m));
    }
}

static void unlike_texts_take_bounded_time(void **state)
{
    struct buf a cleanup(buf_done) = {0}, b cleanup(buf_done) = {0};
    unsigned seed = 3;
    uint64_t start = clock_mono_ms();

    (void)state;
    /* A mebibyte a side of the same few lines in no order at all. */
    while (a.len < (1u << 20) - 8)
        buf_addf(&a, "%c\n", 'a' + rand_r(&seed) % 20);
    while (b.len < (1u << 20) - 8)
        buf_addf(&b, "%c\n", 'a' + rand_r(&seed) % 20);
    check_leads(a.data, a.len, b.data, b.len);
    /* Only newlines, against only newlines and one more. */
    memset(a.data, '\n', a.len);
    memset(b.data, '\n', b.len);
    check_leads(a.data, a.len, b.data, b.len - 1);
    assert_true(clock_mono_ms() - start < 20000); /* also under sanitizers */
}

static void scattered_changes_stay_scattered(void **state)
{
    struct buf a cleanup(buf_done) = {0}, b cleanup(buf_done) = {0};
    char *patch cleanup(mem_free) = NULL;
    size_t added = 0;

    (void)state;
    /* Far more edits than a walk would make; each line is its own. */
    for (unsigned i = 0; i < 50000; i++) {
        buf_addf(&a, "row %u\n", i);
        buf_addf(&b, i % 2 ? "row %u\n" : "ROW %u\n", i);
    }
    check_leads(a.data, a.len, b.data, b.len);
    patch = diff_of(a.data, a.len, b.data, b.len);
    for (const char *p = patch; (p = strstr(p, "\n+")); p++)
        added++;
    assert_int_equal(added, 25000 + 1); /* and the "+++" */
}

/* ---- the program people use --------------------------------------------- */

static void write_file(const char *path, const char *bytes, size_t len)
{
    int fd cleanup(fd_close) =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
}

static int run_patch(const char *file, const char *patch)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        execlp("patch", "patch", "-s", "-f", file, patch, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void patch_program_agrees(void **state)
{
    char dir[] = "/tmp/test_diff.XXXXXX";
    char file[64], patch_file[64];
    unsigned seed = 5;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(file, sizeof(file), "%s/file", dir);
    (void)snprintf(patch_file, sizeof(patch_file), "%s/patch", dir);
    for (int i = 0; i < 60; i++) {
        size_t a_len, b_len, len;
        char *a cleanup(mem_free) = random_text(&seed, 30, 9, &a_len);
        char *b cleanup(mem_free) = random_text(&seed, 30, 9, &b_len);
        char *patch cleanup(mem_free) = diff_of(a, a_len, b, b_len);
        char *got cleanup(mem_free) = NULL;
        int r;

        /* An empty result is taken for a removal, with a label that is not
         * an epoch for none: not what is tested here. */
        if (a_len == 0 || b_len == 0)
            continue;
        write_file(file, a, a_len);
        write_file(patch_file, patch, strlen(patch));
        r = run_patch(file, patch_file);
        if (r == 127) {
            print_message("# SKIP: patch(1) is not installed\n");
            (void)unlink(file);
            (void)unlink(patch_file);
            (void)rmdir(dir);
            skip();
        }
        assert_int_equal(r, 0);
        assert_int_equal(fd_read_file(AT_FDCWD, file, 1 << 20, &got, &len), 0);
        assert_int_equal(len, b_len);
        assert_memory_equal(got, b, b_len);
    }
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(patch_file), 0);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_texts_give_nothing),
        cmocka_unit_test(hunks_are_as_diff_writes_them),
        cmocka_unit_test(changes_six_lines_apart_share_a_hunk),
        cmocka_unit_test(missing_last_newline_is_told),
        cmocka_unit_test(every_diff_leads_from_one_to_the_other),
        cmocka_unit_test(no_diff_is_shorter),
        cmocka_unit_test(unlike_texts_take_bounded_time),
        cmocka_unit_test(scattered_changes_stay_scattered),
        cmocka_unit_test(patch_program_agrees),
    };

    return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
