/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf/runtime: definitions are read strictly, the plan and its hash depend
 * on what ends up in the image and on nothing else, images are found by hash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "conf/runtime.h"

static int parse(const char *text, struct conf_runtime_def **ret,
                 struct error *err)
{
    memset(err, 0, sizeof(*err));
    return conf_runtime_parse(text, strlen(text), ret, err);
}

static void assert_refused(const char *text, const char *mention)
{
    struct conf_runtime_def *def = NULL;
    struct error err;

    assert_int_equal(parse(text, &def, &err), -ERR_INVALID);
    assert_null(def);
    if (!strstr(err.message, mention))
        fail_msg("'%s' does not mention '%s'", err.message, mention);
}

static void parse_full(void **state)
{
    struct conf_runtime_def *def;
    struct error err;

    (void)state;
    assert_int_equal(
        parse("description: a test\nsuite: sid\npackages: [python3, g++]\n"
              "fonts: [fonts-a]\npreload: [numpy, a.b_c]\n"
              "environment: [A=1, B_2=x=y]\n"
              "files:\n  - path: /etc/x\n    content: |\n      one\n",
              &def, &err),
        0);
    assert_string_equal(def->description, "a test");
    assert_string_equal(def->suite, "sid");
    assert_int_equal(def->packages_count, 2);
    assert_string_equal(def->packages[1].name, "g++");
    assert_false(def->packages[1].optional);
    assert_string_equal(def->fonts[0].name, "fonts-a");
    assert_string_equal(def->preload[1], "a.b_c");
    assert_string_equal(def->environment[1], "B_2=x=y");
    assert_string_equal(def->files[0].content, "one\n");
    assert_string_equal(def->files[0].mode, "0644");
    conf_runtime_def_free(def);
}

static void parse_items_and_sources(void **state)
{
    struct conf_runtime_def *def;
    struct error err;

    (void)state;
    assert_int_equal(
        parse("from: standard\n"
              "packages: [a, {name: b, optional: true}, {name: c, suite: sid}]"
              "\npip: [{name: 'polars>=1.0', optional: true}, 'x[y]==1']\n"
              "wheels: my/wheels\nnpm: ['@a/b@^1', ./tool]\n"
              "preload: [{name: m, optional: true}]\n"
              "files: [{path: /x, source: x.bin, mode: '755'}]\n",
              &def, &err),
        0);
    assert_string_equal(def->from, "standard");
    assert_true(def->packages[1].optional);
    assert_null(def->packages[1].suite);
    assert_string_equal(def->packages[2].suite, "sid");
    assert_string_equal(def->pip[0].name, "polars>=1.0");
    assert_true(def->pip[0].optional);
    assert_string_equal(def->wheels, "my/wheels");
    assert_string_equal(def->npm[1].name, "./tool");
    assert_true(def->imports[0].optional);
    assert_string_equal(def->preload[0], "m");
    assert_string_equal(def->files[0].source, "x.bin");
    conf_runtime_def_free(def);
}

/* A list of `count` words behind `before`. Owned by caller. */
static char *long_list(const char *before, unsigned count)
{
    struct buf b = {0};

    buf_addf(&b, "%s[", before);
    for (unsigned i = 0; i < count; i++)
        buf_adds(&b, i ? ",a" : "a");
    buf_adds(&b, "]\n");
    return buf_take(&b, NULL);
}

static void parse_list_limits(void **state)
{
    static const struct {
        const char *before;
        unsigned max;
    } rows[] = {
        {"packages: ", 2000},
        {"packages: [a]\nfonts: ", 500},
        {"packages: [a]\npip: ", 500},
        {"packages: [a]\nnpm: ", 500},
        {"packages: [a]\npreload: ", 500},
        {"packages: [a]\nalso: ", 4},
    };
    struct conf_runtime_def *def;
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        for (int over = -1; over <= 1; over++) {
            char *text cleanup(mem_free) =
                long_list(rows[i].before, (unsigned)((int)rows[i].max + over));
            int r = parse(text, &def, &err);

            assert_int_equal(r, over > 0 ? -ERR_INVALID : 0);
            if (r == 0)
                conf_runtime_def_free(def);
        }
    }
}

static void parse_defaults(void **state)
{
    struct conf_runtime_def *def;
    struct error err;

    (void)state;
    assert_int_equal(parse("packages: [python3]\n", &def, &err), 0);
    assert_string_equal(def->suite, "trixie");
    assert_string_equal(def->description, "");
    assert_int_equal(def->fonts_count + def->files_count, 0);
    conf_runtime_def_free(def);
    conf_runtime_def_free(NULL);
}

static void parse_refuses_bad_input(void **state)
{
    static const char *const rows[][2] = {
        {"", "not a runtime"},
        {"suite: trixie\n", "packages"},
        {"packages: []\n", "packages"},
        {"from: a\nsuite: sid\n", "from"},
        {"from: a\nalso: [sid]\n", "from"},
        {"from: ../a\n", "../a"},
        {"packages: [{name: a, optional: maybe}]\n", "optional"},
        {"packages: [{optional: true}]\n", "name"},
        {"packages: [{name: a, suite: 'x y'}]\n", "suite"},
        {"packages: [a]\npip: [{name: x, suite: sid}]\n", "suite"},
        {"packages: [a]\npip: ['x @ http://h/x.whl']\n", "http"},
        {"packages: [a]\npip: [--pre]\n", "--pre"},
        {"packages: [a]\npip: ['git+https://h/x']\n", "git"},
        {"packages: [a]\nnpm: ['https://h/x.tgz']\n", "https"},
        {"packages: [a]\nnpm: [./../x]\n", "./../x"},
        {"packages: [a]\nnpm: [--global]\n", "--global"},
        {"packages: [a]\nwheels: /abs\n", "/abs"},
        {"packages: [a]\nwheels: ../up\n", "../up"},
        {"packages: [a]\nwheels: a/../b\n", "a/../b"},
        {"packages: [a]\nalso: ['a b']\n", "also"},
        {"packages: [a]\nfiles: [{path: /x, content: '', source: y}]\n",
         "one of the two"},
        {"packages: [a]\nfiles: [{path: /x, source: ../y}]\n", "../y"},
        {"packages: [a]\nfiles: [{path: /x, content: '', mode: '4755'}]\n",
         "4755"},
        {"packages: [a]\nfiles: [{path: /x, content: '', mode: '799'}]\n",
         "799"},
        {"packages: [python3]\npakages: [x]\n", "pakages"},
        {"packages: python3\n", "packages"},
        {"packages: [\"a b\"]\n", "a b"},
        {"packages: [--force]\n", "--force"},
        {"packages: [\"a/../b\"]\n", "a/../b"},
        {"packages: [\"a\\nfile /etc/x y\"]\n", "packages"},
        {"packages: [a]\nfonts: [$(x)]\n", "$(x)"},
        {"packages: [a]\nsuite: 'a b'\n", "suite"},
        {"packages: [a]\nsuite: ../x\n", "suite"},
        {"packages: [a]\npreload: ['os; x']\n", "os; x"},
        {"packages: [a]\npreload: [.a]\n", "preload"},
        {"packages: [a]\npreload: [a.]\n", "preload"},
        {"packages: [a]\npreload: [a..b]\n", "preload"},
        {"packages: [a]\nenvironment: [A]\n", "environment"},
        {"packages: [a]\nenvironment: ['=x']\n", "environment"},
        {"packages: [a]\nenvironment: ['1A=x']\n", "environment"},
        {"packages: [a]\nenvironment: [\"A=x\\ny\"]\n", "environment"},
        {"packages: [a]\nfiles: [{path: etc/x, content: ''}]\n", "etc/x"},
        {"packages: [a]\nfiles: [{path: /a/../b, content: ''}]\n", "/a/../b"},
        {"packages: [a]\nfiles: [{path: '/a b', content: ''}]\n", "/a b"},
        {"packages: [a]\nfiles: [{path: /etc/, content: ''}]\n", "/etc/"},
        {"packages: [a]\nfiles: [{path: /etc/x}]\n", "content"},
        {"packages: &a [x]\nfonts: *a\n", "not a runtime"},
        {"packages: [a\n", "not a runtime"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_refused(rows[i][0], rows[i][1]);
}

static void parse_refuses_large_file(void **state)
{
    size_t len = CONF_RUNTIME_FILE + 1;
    char *text cleanup(mem_free) = xmalloc(len);
    struct conf_runtime_def *def = NULL;
    struct error err = {0};

    (void)state;
    memset(text, '#', len);
    assert_int_equal(conf_runtime_parse(text, len, &def, &err),
                     -ERR_TOO_LARGE);
}

static void plan_escapes_content(void **state)
{
    struct conf_runtime_def *def;
    struct error err;
    char *plan cleanup(mem_free) = NULL;

    (void)state;
    assert_int_equal(parse("packages: [a, {name: b, suite: sid, optional: "
                           "true}]\nenvironment: [X=1]\n"
                           "files: [{path: /p, content: \"a\\\\tb\\nc\"}]\n",
                           &def, &err),
                     0);
    assert_int_equal(conf_runtime_plan(def, NULL, NULL, &plan, &err), 0);
    assert_string_equal(plan, "builder 2\nsuite trixie\npackage a\n"
                              "package b suite=sid optional\n"
                              "environment X=1\n"
                              "file 0644 /p a\\\\tb\\nc\n");
    conf_runtime_def_free(def);
}

static void name_valid_table(void **state)
{
    (void)state;
    assert_true(conf_runtime_name_valid("standard"));
    assert_true(conf_runtime_name_valid("a-1"));
    assert_true(conf_runtime_name_valid("abcdefghijklmnopqrstuvwxyz012345"));
    assert_false(conf_runtime_name_valid("abcdefghijklmnopqrstuvwxyz0123456"));
    assert_false(conf_runtime_name_valid(""));
    assert_false(conf_runtime_name_valid("-a"));
    assert_false(conf_runtime_name_valid("../a"));
    assert_false(conf_runtime_name_valid("A"));
    assert_false(conf_runtime_name_valid("a\n"));
}

/* --- With files: DIR/defs and DIR/cache -------------------------------- */

struct place {
    char dir[64];
    char defs[80], cache[80];
};

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void write_def(const struct place *p, const char *name,
                      const char *text)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%s", p->defs, name);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/runtime.yaml", p->defs, name);
    write_text(path, text);
}

static int setup(void **state)
{
    struct place *p = xcalloc(1, sizeof(*p));

    snprintf(p->dir, sizeof(p->dir), "/tmp/test_conf_runtime.XXXXXX");
    if (!mkdtemp(p->dir))
        return -1;
    snprintf(p->defs, sizeof(p->defs), "%s/defs", p->dir);
    snprintf(p->cache, sizeof(p->cache), "%s/cache", p->dir);
    *state = p;
    return mkdir(p->defs, 0700) | mkdir(p->cache, 0700);
}

/* What each case may have made, deepest first. */
static int teardown(void **state)
{
    static const char *const made[] = {"defs/one/runtime.yaml",
                                       "defs/one",
                                       "defs/two/runtime.yaml",
                                       "defs/two",
                                       "defs/three/runtime.yaml",
                                       "defs/three",
                                       "defs/one/x.bin",
                                       "defs/one",
                                       "defs/none",
                                       "cache/definitions/kept/runtime.yaml",
                                       "cache/definitions/kept",
                                       "cache/definitions",
                                       "defs/UPPER/runtime.yaml",
                                       "defs/UPPER",
                                       "defs",
                                       "cache",
                                       ""};
    struct place *p = *state;
    char path[200];

    for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
        snprintf(path, sizeof(path), "%s/%s", p->dir, made[i]);
        (void)remove(path); /* not every case makes every file */
    }
    free(p);
    return 0;
}

static void hash_of(const struct place *p, const char *text,
                    char ret[CONF_RUNTIME_HASH + 1])
{
    struct conf_runtime rt;
    struct error err = {0};

    write_def(p, "one", text);
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     0);
    memcpy(ret, rt.hash, CONF_RUNTIME_HASH + 1);
    conf_runtime_done(&rt);
}

static void find_hash_follows_content(void **state)
{
    struct place *p = *state;
    char a[CONF_RUNTIME_HASH + 1], b[CONF_RUNTIME_HASH + 1];

    hash_of(p, "packages: [python3]\n", a);
    assert_int_equal(strlen(a), CONF_RUNTIME_HASH);
    hash_of(p,
            "# a note\ndescription: x\nsuite: trixie\n"
            "packages:\n  - python3\n",
            b);
    assert_string_equal(a, b);
    hash_of(p, "packages: [python3, jq]\n", b);
    assert_string_not_equal(a, b);
    hash_of(p, "packages: [python3]\nsuite: sid\n", b);
    assert_string_not_equal(a, b);
    hash_of(p, "packages: [python3]\nfiles: [{path: /x, content: ''}]\n", b);
    assert_string_not_equal(a, b);
}

static void find_tells_whether_built(void **state)
{
    struct place *p = *state;
    struct conf_runtime rt;
    struct error err = {0};
    char image[200];

    write_def(p, "one", "packages: [python3]\n");
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     0);
    assert_false(rt.built);
    snprintf(image, sizeof(image), "%s/one-%s", p->cache, rt.hash);
    assert_string_equal(rt.image_path, image);
    assert_int_equal(mkdir(rt.image_path, 0700), 0);
    write_text(rt.manifest_path, "{}");
    conf_runtime_done(&rt);

    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     0);
    assert_true(rt.built);
    unlink(rt.manifest_path);
    rmdir(rt.image_path);
    conf_runtime_done(&rt);
}

static void find_inherits_from_base(void **state)
{
    struct place *p = *state;
    struct conf_runtime one, two;
    struct error err = {0};
    char before[CONF_RUNTIME_HASH + 1];

    write_def(p, "one",
              "suite: sid\nalso: [forky]\npackages: [python3]\n"
              "preload: [a]\nenvironment: [X=1, Y=2]\n");
    write_def(p, "two", "from: one\npreload: [b]\nenvironment: [X=3, XX=4]\n");
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "two", &two, &err),
                     0);
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &one, &err),
                     0);
    assert_string_equal(two.def->suite, "sid");
    assert_string_equal(two.def->also[0], "forky");
    assert_int_equal(two.def->preload_count, 2);
    assert_string_equal(two.def->preload[0], "a");
    assert_string_equal(two.def->preload[1], "b");
    assert_int_equal(two.def->environment_count, 3);
    assert_string_equal(two.def->environment[0], "Y=2");
    assert_string_equal(two.def->environment[1], "X=3");
    assert_string_equal(two.base_image_path, one.image_path);
    assert_non_null(strstr(two.plan, one.hash));
    memcpy(before, two.hash, sizeof(before));
    conf_runtime_done(&one);
    conf_runtime_done(&two);

    /* Another base is another image. */
    write_def(p, "one", "suite: sid\npackages: [python3, jq]\n");
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "two", &two, &err),
                     0);
    assert_string_not_equal(two.hash, before);
    conf_runtime_done(&two);
}

static void find_refuses_endless_bases(void **state)
{
    struct place *p = *state;
    struct conf_runtime rt;
    struct error err = {0};

    write_def(p, "one", "from: two\n");
    write_def(p, "two", "from: one\n");
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     -ERR_INVALID);
    assert_non_null(strstr(err.message, "back to itself"));
    write_def(p, "two", "from: nosuch\n");
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     -ERR_NOT_FOUND);
}

static void find_hash_follows_sources(void **state)
{
    static const char text[] =
        "packages: [a]\nfiles: [{path: /x, source: x.bin}]\n";
    struct place *p = *state;
    char a[CONF_RUNTIME_HASH + 1], b[CONF_RUNTIME_HASH + 1];
    struct conf_runtime rt;
    struct error err = {0};
    char path[200];

    write_def(p, "one", text);
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     -ERR_INVALID); /* the file is not there */
    snprintf(path, sizeof(path), "%s/one/x.bin", p->defs);
    write_text(path, "1");
    hash_of(p, text, a);
    hash_of(p, text, b);
    assert_string_equal(a, b);
    write_text(path, "12");
    hash_of(p, text, b);
    assert_string_not_equal(a, b);
}

static void find_follows_link_to_newer_image(void **state)
{
    static const struct {
        const char *target; /* behind NAME-HASH */
        bool followed;
    } rows[] = {{"-2", true},  {"-17", true},    {"-", false},
                {"-x", false}, {"/../x", false}, {"", false}};
    struct place *p = *state;
    struct conf_runtime rt;
    struct error err = {0};

    write_def(p, "one", "packages: [python3]\n");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char link[300], target[200], want[300];

        assert_int_equal(
            conf_runtime_find(p->defs, p->cache, "one", &rt, &err), 0);
        snprintf(link, sizeof(link), "%s/one-%s.current", p->cache, rt.hash);
        snprintf(target, sizeof(target), "one-%s%s", rt.hash, rows[i].target);
        snprintf(want, sizeof(want), "%s/one-%s%s", p->cache, rt.hash,
                 rows[i].followed ? rows[i].target : "");
        conf_runtime_done(&rt);
        assert_int_equal(symlink(target, link), 0);
        assert_int_equal(
            conf_runtime_find(p->defs, p->cache, "one", &rt, &err), 0);
        assert_string_equal(rt.image_path, want);
        conf_runtime_done(&rt);
        assert_int_equal(unlink(link), 0);
    }
}

static void find_definition_kept_in_cache(void **state)
{
    struct place *p = *state;
    struct conf_runtime rt;
    struct error err = {0};
    char **names = NULL;
    char path[200];

    write_def(p, "one", "packages: [python3]\n");
    snprintf(path, sizeof(path), "%s/definitions", p->cache);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/definitions/kept", p->cache);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/definitions/kept/runtime.yaml", p->cache);
    write_text(path, "from: one\n");
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "kept", &rt, &err),
                     0);
    assert_string_equal(rt.definition_path, path);
    conf_runtime_done(&rt);
    assert_int_equal(conf_runtime_names(p->defs, p->cache, &names, &err), 0);
    assert_string_equal(names[0], "kept");
    assert_string_equal(names[1], "one");
    assert_null(names[2]);
    conf_runtime_names_free(&names);
}

static void find_refuses(void **state)
{
    struct place *p = *state;
    struct conf_runtime rt;
    struct error err = {0};

    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     -ERR_NOT_FOUND);
    assert_int_equal(
        conf_runtime_find(p->defs, p->cache, "../defs", &rt, &err),
        -ERR_INVALID);
    write_def(p, "one", "packages: [python3]\nnosuch: 1\n");
    assert_int_equal(conf_runtime_find(p->defs, p->cache, "one", &rt, &err),
                     -ERR_INVALID);
    assert_non_null(strstr(err.message, "runtime one"));
}

static void names_sorted_and_filtered(void **state)
{
    struct place *p = *state;
    char **names = NULL;
    struct error err = {0};
    char path[200];

    write_def(p, "two", "");
    write_def(p, "one", "");
    write_def(p, "UPPER", "");
    snprintf(path, sizeof(path), "%s/none", p->defs);
    mkdir(path, 0700);
    assert_int_equal(conf_runtime_names(p->defs, NULL, &names, &err), 0);
    assert_string_equal(names[0], "one");
    assert_string_equal(names[1], "two");
    assert_null(names[2]);
    conf_runtime_names_free(&names);
    assert_int_equal(conf_runtime_names("/nonexistent", NULL, &names, &err),
                     -ERR_NOT_FOUND);
}

static void places_follow_environment(void **state)
{
    char *path = NULL;
    struct error err = {0};

    (void)state;
    setenv("GLOVEBOX_RUNTIME_DIR", "/x/cache", 1);
    setenv("GLOVEBOX_RUNTIME_DEFS", "/x/defs", 1);
    setenv("GLOVEBOX_RUNTIME_BUILD", "/x/build", 1);
    path = conf_runtime_cache_dir();
    assert_string_equal(path, "/x/cache");
    free(path);
    path = conf_runtime_defs_dir();
    assert_string_equal(path, "/x/defs");
    free(path);
    assert_int_equal(conf_runtime_builder(&path, &err), 0);
    assert_string_equal(path, "/x/build");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_full),
        cmocka_unit_test(parse_defaults),
        cmocka_unit_test(parse_items_and_sources),
        cmocka_unit_test(parse_list_limits),
        cmocka_unit_test(parse_refuses_bad_input),
        cmocka_unit_test(parse_refuses_large_file),
        cmocka_unit_test(plan_escapes_content),
        cmocka_unit_test(name_valid_table),
        cmocka_unit_test_setup_teardown(find_hash_follows_content, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(find_tells_whether_built, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(find_inherits_from_base, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(find_refuses_endless_bases, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(find_hash_follows_sources, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(find_follows_link_to_newer_image,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(find_definition_kept_in_cache, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(find_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(names_sorted_and_filtered, setup,
                                        teardown),
        cmocka_unit_test(places_follow_environment),
    };

    return cmocka_run_group_tests_name("conf_runtime", tests, NULL, NULL);
}
