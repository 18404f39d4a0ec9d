/* SPDX-License-Identifier: Apache-2.0 */
/* The table of languages: names, suffixes, and what a folder offers. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "language/language.h"
#include "scratch.h"
#include "wire/kernel_msg.h"

static void names_agree_with_the_table(void **state)
{
    unsigned count = 0;

    (void)state;
    for (; language_canonical_names[count]; count++) {
        const struct language *l = language_get((enum exec_language)count);

        assert_string_equal(language_canonical_names[count], l->name);
        assert_string_equal(language_names[count], l->name);
        assert_int_equal(language_find(l->name), count);
        if (l->how == LANGUAGE_HELPER) {
            size_t len;

            assert_in_range(l->helper, 1, INIT_HELPERS_MAX);
            assert_true(strlen(l->command) < INIT_PATH_MAX);
            assert_non_null(language_driver((enum exec_language)count, &len));
            assert_in_range(len, 1000, 100000);
        }
    }
    assert_int_equal(count, EXEC_LANGUAGES);
    assert_int_equal(language_find("bash"), EXEC_SHELL);
    assert_int_equal(language_find("cobol"), -1);
    assert_int_equal(language_find(""), -1);
}

static void of_file_knows_suffixes(void **state)
{
    static const struct {
        const char *file;
        int language;
    } rows[] = {
        {"x.js", EXEC_JAVASCRIPT},
        {"a/b.mjs", EXEC_JAVASCRIPT},
        {"x.R", EXEC_R},
        {"x.r", EXEC_R},
        {"main.go", EXEC_GO},
        {"main.c", EXEC_C},
        {"A.java", EXEC_JAVA},
        {"x.py", EXEC_PYTHON},
        {"x.sh", EXEC_SHELL},
        {"x.j", -1},
        {"x.jsx", -1},
        {"x", -1},
        {"a.js/x", -1},
        {"x.", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(language_of_file(rows[i].file), rows[i].language);
    assert_int_equal(language_of_file(NULL), -1);
}

static void put_program(const char *root, const char *name, mode_t mode)
{
    char path[512];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/usr/bin/%s", root, name);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void offered_looks_inside_the_folder_only(void **state)
{
    char room[256];
    const char *root = scratch_dir(room, sizeof(room), "language");
    char path[512];
    char *list;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/usr", root);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/usr/bin", root);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(language_offered(root), 0);
    put_program(root, "bash", 0755);
    put_program(root, "gcc", 0644); /* not executable */
    /* A link leads within the folder, not to the machine's own program. */
    (void)snprintf(path, sizeof(path), "%s/usr/bin/python3", root);
    assert_int_equal(symlink("/bin/sh", path), 0);
    assert_int_equal(language_offered(root), LANGUAGE_BIT(EXEC_SHELL));
    put_program(root, "node22", 0755);
    (void)snprintf(path, sizeof(path), "%s/usr/bin/node", root);
    assert_int_equal(symlink("/usr/bin/node22", path), 0);
    assert_int_equal(language_offered(root),
                     LANGUAGE_BIT(EXEC_SHELL) | LANGUAGE_BIT(EXEC_JAVASCRIPT));
    list = language_list(language_offered(root));
    assert_string_equal(list, "shell, javascript");
    free(list);
    assert_int_equal(language_offered("/nonexistent"), 0);
    (void)scratch_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_agree_with_the_table),
        cmocka_unit_test(of_file_knows_suffixes),
        cmocka_unit_test(offered_looks_inside_the_folder_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
