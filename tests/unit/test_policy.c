/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy: texts are taken whole or refused with a line, the data files of
 * tests/policy are decided as they say, versions outlive a restart, and what
 * cannot be loaded denies.
 */
#include <dirent.h>
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
#include "auth/auth.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "policy/policy_int.h"
#include "scratch.h"
#include "store/store.h"
#include "store_choice.h"
#include "json/json.h"

static const struct actor ann = {.tenant = "acme", .key = "key_ann"};

/* ---- texts -------------------------------------------------------------- */

static void refused(const char *text, const char *says, const char *hint)
{
    struct error err = {0};
    int rc = policy_check(text, strlen(text), &err);

    if (rc == 0)
        fail_msg("accepted: %s", text);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" instead of \"%s\"", err.message, says);
    if (hint && !strstr(err.hint, hint))
        fail_msg("hint \"%s\" instead of \"%s\"", err.hint, hint);
}

static void accepted(const char *text, size_t len)
{
    struct error err = {0};

    if (policy_check(text, len, &err) < 0)
        fail_msg("%s (%s)", err.message, err.hint);
}

static void check_names_line_and_nearest_key(void **state)
{
    (void)state;
    refused("version: 1\ndefalt: deny\n", "line 2: unknown key \"defalt\"",
            "\"default\"");
    refused("version: 1\nrules:\n  - name: a\n    math: {}\n    then: deny\n",
            "line 4: unknown key \"math\"", "\"match\"");
    refused("version: 1\nrules:\n  - name: a\n    match:\n      langage: x\n"
            "    then: deny\n",
            "line 5: unknown key \"langage\"", "\"language\"");
    refused("version: 1\nrules:\n- {name: a, match: {language: pyhton}, "
            "then: deny}\n",
            "line 3: unknown language \"pyhton\"", "\"python\"");
    refused("version: 1\nrules:\n- {name: a, match: {action: exec}, "
            "then: deny}\n",
            "line 3: unknown action \"exec\"", NULL);
    refused("version: 1\nrules:\n- {name: a, match: {scopes: root}, "
            "then: deny}\n",
            "unknown scope", "scopes are");
    refused("version: 1\npools:\n  x:\n    rulez: []\n",
            "line 4: unknown key \"rulez\"", "\"rules\"");
    refused("version: 1\nrules:\n- {name: a, then: deny, limit: "
            "{timeout: 5}}\n",
            "unknown key \"timeout\"", "\"timeout_s\"");
}

/* A search and a report are kinds of execution: rules about "execute" cover
 * them, rules of their own may come first, and they have no code. */
static void search_and_report_are_kinds_of_execute(void **state)
{
    static const char text[] =
        "version: 1\nrules:\n"
        "- {name: free, match: {action: search}, then: allow}\n"
        "- {name: big, match: {action: execute, code_bytes: '> 10'}, "
        "then: deny}\n"
        "- {name: all, match: {action: execute}, then: ask}\n"
        "- {name: others, match: {action: '!execute'}, then: deny}\n";
    static const struct {
        const char *action, *rule;
    } cases[] = {{"search", "free"},
                 {"report", "all"},
                 {"execute", "big"},
                 {"share", "others"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *rq cleanup(json_unref) =
            json_pack("{s:s, s:s, s:i}", "action", cases[i].action, "language",
                      "shell", "code_bytes", 100);
        json_t *told cleanup(json_unref) = NULL;
        struct buf out cleanup(buf_done) = {0};
        struct error err;

        assert_int_equal(
            policy_explain_request(text, strlen(text), rq, &out, &err), 0);
        told = json_loadb(out.data, out.len, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(told, "rule")),
                            cases[i].rule);
    }
}

static void check_refuses_what_makes_no_sense(void **state)
{
    static const char *const texts[][2] = {
        {"", "nothing in it"},
        {"# nothing\n", "nothing in it"},
        {"[]", "must be a mapping"},
        {"default: deny", "begins with version: 1"},
        {"version: 2", "the only version there is is 1"},
        {"version: [1]", "the only version"},
        {"version: 1\nversion: 1", "given twice"},
        {"version: 1\n---\nversion: 1", "more than one YAML document"},
        {"version: 1\nrules: &a []", "anchors"},
        {"version: 1\nrules: !!seq []", "anchors"},
        {"version: 1\nrules: *a", "anchors"},
        {"version: 1\n? [a]\n: 1", "key must be plain text"},
        {"version: 1\n\tdefault: deny", "line 2"},
        {"version: 1\ndefault: no", "must be allow, deny or ask"},
        {"version: 1\nrules: {}", "rules must be a list"},
        {"version: 1\nrules: [1]", "a rule must be a mapping"},
        {"version: 1\nrules: [{then: deny}]", "needs a name"},
        {"version: 1\nrules: [{name: a}]", "does not say then"},
        {"version: 1\nrules: [{name: a, then: maybe}]", "allow, deny or ask"},
        {"version: 1\nrules: [{name: a b, then: deny}]", "name of a rule"},
        {"version: 1\nrules: [{name: default, then: deny}]", "of no rule"},
        {"version: 1\nrules: [{name: a, then: deny}, {name: a, then: ask}]",
         "two rules \"a\""},
        {"version: 1\nrules: [{name: a, then: deny, expires_s: 5}]",
         "for rules that ask"},
        {"version: 1\nrules: [{name: a, then: ask, expires_s: 0}]",
         "from 1 to"},
        {"version: 1\nrules: [{name: a, then: ask, expires_s: 31d}]",
         "from 1 to"},
        {"version: 1\nrules: [{name: a, then: allow, limit: {timeout_s: 2d}}]",
         "from 1 to 86400"},
        {"version: 1\nrules: [{name: a, then: deny, match: {pool: []}}]",
         "1 to 1000 values"},
        {"version: 1\nrules: [{name: a, then: deny, match: {pool: \"\"}}]",
         "plain text"},
        {"version: 1\nrules: [{name: a, then: deny, match: {pool: \"!\"}}]",
         "plain text"},
        {"version: 1\nrules: [{name: a, then: deny, match: {pool: {}}}]",
         "a value or a list"},
        {"version: 1\nrules: [{name: a, then: deny, match: {file_bytes: x}}]",
         "is not a size"},
        {"version: 1\nrules: [{name: a, then: deny, match: {file_bytes: "
         "99999999T}}]",
         "is not a size"},
        {"version: 1\nrules: [{name: a, then: deny, match: {file_bytes: "
         "2..1}}]",
         "larger than the second"},
        {"version: 1\nrules: [{name: a, then: deny, match: {file_bytes: "
         "\"< 0\"}}]",
         "compares with nothing"},
        {"version: 1\nrules: [{name: a, then: deny, match: {timeout_s: "
         "\"=> 5\"}}]",
         "compares with nothing"},
        {"version: 1\nrules: [{name: a, then: deny, match: {hours: 9-5}}]",
         "part of the day"},
        {"version: 1\nrules: [{name: a, then: deny, match: {hours: "
         "\"09:00-09:00\"}}]",
         "part of the day"},
        {"version: 1\nrules: [{name: a, then: deny, match: {hours: "
         "\"09:00-25:00\"}}]",
         "part of the day"},
        {"version: 1\nrules: [{name: a, then: deny, match: {days: monday}}]",
         "is no day"},
        {"version: 1\nrules: [{name: a, then: deny, match: {destination: "
         "\"h:0\"}}]",
         "from 1 to 65535"},
        {"version: 1\nrules: [{name: a, then: deny, match: {destination: "
         "\"http://h/\"}}]",
         "port"},
        {"version: 1\nrules: [{name: a, then: deny, match: {destination: "
         "\"ü.example\"}}]",
         "no destination"},
        {"version: 1\ntenants: []", "mapping of names"},
        {"version: 1\ntenants: {a b: {}}", "name of a tenant"},
        {"version: 1\npools: {a: 1}", "pool:a must be a mapping"},
        {"version: 1\nrules: [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]",
         "nested too deep"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        refused(texts[i][0], texts[i][1], NULL);
}

static void check_takes_the_whole_of_the_format(void **state)
{
    static const char text[] =
        "version: 1\ndefault: ask\nrules:\n- name: a\n  match:\n    hours: "
        "[\"22:00-06:00\", \"00:00-24:00\"]\n    days: [fri-mon, \"!sun\"]\n"
        "    scopes: \"!admin\"\n    destination: [\"*:443\", "
        "\"2001:db8::1\"]\n  then: ask\n  expires_s: 30d\n  limit: {timeout_s:"
        " 1d, output_bytes: 1TiB}\n  reason: why not\npools: {}\ntenants: {t: "
        "{}}\n";

    (void)state;
    accepted(text, sizeof(text) - 1);
}

/* Each limit at its most, and one above. */
static void check_limits_at_and_above(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    char name[66];

    (void)state;
    for (unsigned n = POLICY_RULES_MAX; n <= POLICY_RULES_MAX + 1; n++) {
        buf_reset(&b);
        buf_adds(&b, "version: 1\nrules:\n");
        for (unsigned i = 0; i < n; i++)
            buf_addf(&b, "- {name: r%u, then: deny}\n", i);
        if (n == POLICY_RULES_MAX)
            accepted(b.data, b.len);
        else
            refused(b.data, "at most 1000 are allowed", NULL);
    }
    for (unsigned n = POLICY_ITEMS_MAX; n <= POLICY_ITEMS_MAX + 1; n++) {
        buf_reset(&b);
        buf_adds(&b, "version: 1\nrules:\n- name: a\n  then: deny\n  match: "
                     "{pool: [x");
        for (unsigned i = 1; i < n; i++)
            buf_adds(&b, ", x");
        buf_adds(&b, "]}\n");
        if (n == POLICY_ITEMS_MAX)
            accepted(b.data, b.len);
        else
            refused(b.data, "1 to 1000 values", NULL);
    }
    for (unsigned n = POLICY_LAYERS_MAX; n <= POLICY_LAYERS_MAX + 1; n++) {
        buf_reset(&b);
        buf_adds(&b, "version: 1\ntenants:\n");
        for (unsigned i = 0; i < n; i++)
            buf_addf(&b, "  t%u: {}\n", i);
        if (n == POLICY_LAYERS_MAX)
            accepted(b.data, b.len);
        else
            refused(b.data, "at most 1000 are allowed", NULL);
    }
    for (unsigned n = 63; n <= 64; n++) {
        memset(name, 'n', n);
        name[n] = '\0';
        buf_reset(&b);
        buf_addf(&b, "version: 1\nrules: [{name: %s, then: deny}]", name);
        if (n == 63)
            accepted(b.data, b.len);
        else
            refused(b.data, "1 to 63", NULL);
    }
    for (unsigned n = 255; n <= 256; n++) {
        buf_reset(&b);
        buf_adds(&b, "version: 1\nrules: [{name: a, then: deny, reason: ");
        for (unsigned i = 0; i < n; i++)
            buf_adds(&b, "r");
        buf_adds(&b, "}]");
        if (n == 255)
            accepted(b.data, b.len);
        else
            refused(b.data, "1 to 255 bytes", NULL);
    }
}

static void check_text_at_and_above(void **state)
{
    struct buf b cleanup(buf_done) = {0};
    struct error err = {0};

    (void)state;
    buf_adds(&b, "version: 1\n#");
    while (b.len < POLICY_TEXT_MAX - 1)
        buf_adds(&b, "x");
    buf_adds(&b, "\n");
    assert_int_equal(b.len, POLICY_TEXT_MAX);
    accepted(b.data, b.len);
    buf_adds(&b, "\n");
    assert_int_equal(policy_check(b.data, b.len, &err), -ERR_TOO_LARGE);
}

/* ---- decisions ---------------------------------------------------------- */

struct tally {
    const char *file;
    unsigned cases, bad;
};

static void on_case(void *ctx, unsigned line, const char *name,
                    const char *why)
{
    struct tally *t = ctx;

    t->cases++;
    if (why) {
        t->bad++;
        print_error("%s:%u %s: %s\n", t->file, line, name, why);
    }
}

static void decides_as_the_data_files_say(void **state)
{
    struct tally all = {0};
    struct dirent **files = NULL;
    int count = scandir("tests/policy", &files, NULL, alphasort);

    (void)state;
    assert_true(count > 2);
    for (int i = 0; i < count; i++) {
        char path[300];
        char *text = NULL;
        size_t len;
        struct error err = {0};

        if (files[i]->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "tests/policy/%s",
                           files[i]->d_name);
            all.file = path;
            assert_int_equal(
                fd_read_file(AT_FDCWD, path, 1 << 20, &text, &len), 0);
            if (policy_cases_run(NULL, 0, text, len, on_case, &all, &err) < 0)
                fail_msg("%s: %s", path, err.message);
            free(text);
        }
        free(files[i]);
    }
    free(files);
    assert_int_equal(all.bad, 0);
    assert_true(all.cases >= 60);
    assert_int_equal(policy_zone_set("", &(struct error){0}), 0);
}

static void cases_refuse_what_is_no_case(void **state)
{
    static const char *const texts[][2] = {
        {"policy: {version: 1}\ncases: []", "1 to 1000 requests"},
        {"cases: [{request: {action: share}, expect: {verdict: deny}}]",
         "no policy to test"},
        {"zone: Nowhere/Else\npolicy: {version: 1}\ncases: [1]",
         "no such time zone"},
        {"zone: Europe\npolicy: {version: 1}\ncases: [1]",
         "no such time zone"},
        {"zone: ../zoneinfo/UTC\npolicy: {version: 1}\ncases: [1]",
         "no such time zone"},
        {"policy: {version: 1}\ncases: [{request: {action: share}}]",
         "what to expect"},
        {"policy: {version: 1}\ncases: [{request: {action: share}, expect: "
         "{rule: x}}]",
         "at least a verdict"},
        {"policy: {version: 1}\ncases: [{request: {action: shar}, expect: "
         "{verdict: deny}}]",
         "action"},
        {"policy: {version: 1}\ncases: [{request: {action: share, at: noon}, "
         "expect: {verdict: deny}}]",
         "at must be a time"},
        {"policy: {version: 1}\ncases: [{pinned: 2, request: {action: share}, "
         "expect: {verdict: deny}}]",
         "pinned is the number"},
        {"policy: {version: 1}\ncases: [{requests: {}}]",
         "unknown key \"requests\""},
    };
    struct tally t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct error err = {0};

        assert_true(policy_cases_run(NULL, 0, texts[i][0], strlen(texts[i][0]),
                                     on_case, &t, &err) < 0);
        if (!strstr(err.message, texts[i][1]))
            fail_msg("\"%s\" instead of \"%s\"", err.message, texts[i][1]);
    }
    assert_int_equal(policy_zone_set("", &(struct error){0}), 0);
}

static void explain_says_which_condition_failed(void **state)
{
    static const char text[] =
        "version: 1\nrules:\n- {name: a, match: {language: shell, pool: x}, "
        "then: deny}\n- {name: b, then: ask}\n- {name: c, then: deny}\n";
    struct buf b cleanup(buf_done) = {0};
    struct policy_request rq = {.action = POLICY_EXECUTE,
                                .who = &ann,
                                .language = "python",
                                .code_bytes = -1};
    json_t *json cleanup(json_unref) = NULL;
    json_t *rules, *conditions;
    struct error err = {0};

    (void)state;
    assert_int_equal(
        policy_explain_text(text, sizeof(text) - 1, &rq, &b, &err), 0);
    assert_int_equal(json_parse(b.data, b.len, &json, &err), 0);
    assert_string_equal(json_string_value(json_object_get(json, "verdict")),
                        "ask");
    assert_string_equal(json_string_value(json_object_get(json, "rule")), "b");
    rules = json_object_get(
        json_array_get(
            json_object_get(
                json_array_get(json_object_get(json, "versions"), 0),
                "layers"),
            0),
        "rules");
    assert_int_equal(json_array_size(rules), 3);
    conditions = json_object_get(json_array_get(rules, 0), "conditions");
    assert_int_equal(json_array_size(conditions), 2);
    assert_true(json_is_false(
        json_object_get(json_array_get(conditions, 0), "holds")));
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(conditions, 0), "is")),
                        "python");
    assert_true(
        json_is_null(json_object_get(json_array_get(conditions, 1), "is")));
    assert_true(
        json_is_true(json_object_get(json_array_get(rules, 1), "matches")));
    assert_true(
        json_is_false(json_object_get(json_array_get(rules, 2), "asked")));
}

/* ---- versions ----------------------------------------------------------- */

struct fixture {
    char dir[64];
    char file[96];
    struct store *store;
    struct audit *audit;
    struct policy *policy;
    struct error err;
};

static void start(struct fixture *f, bool with_file)
{
    struct policy_settings settings = {.file = with_file ? f->file : "",
                                       .zone = ""};

    if (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0 ||
        audit_open(f->store, f->dir, &f->audit, &f->err) < 0 ||
        policy_open(&settings, f->store, f->audit, &f->policy, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void stop(struct fixture *f)
{
    policy_close(f->policy);
    audit_close(f->audit);
    store_close(f->store);
    f->policy = NULL;
    f->audit = NULL;
    f->store = NULL;
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_policy"));
    (void)snprintf(f->file, sizeof(f->file), "%s/policy.yaml", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    stop(f);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static void write_file(struct fixture *f, const char *text)
{
    FILE *out = fopen(f->file, "we");

    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static int64_t put(struct fixture *f, const char *text)
{
    struct policy_version v = {0};
    int64_t number;

    if (policy_put(f->policy, &ann, text, strlen(text), "a note", &v,
                   &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_string_equal(v.by, "key_ann");
    number = v.number;
    policy_version_done(&v);
    return number;
}

static struct policy_decision ask_shell(struct fixture *f, int64_t pinned)
{
    struct policy_request rq = {
        .action = POLICY_EXECUTE, .who = &ann, .language = "shell"};
    struct policy_decision d;

    policy_decide(f->policy, pinned, &rq, &d);
    return d;
}

#define LOOSE "version: 1\n"
#define TIGHT                                                                 \
    "version: 1\nrules:\n- {name: no-shell, match: {language: shell}, "       \
    "then: deny}\n"

static void decide_without_a_policy_allows(void **state)
{
    struct fixture *f = *state;
    struct policy_decision d;

    start(f, false);
    d = ask_shell(f, 0);
    assert_int_equal(d.verdict, POLICY_ALLOW);
    assert_int_equal(d.version, 0);
    assert_string_equal(d.rule, "default");
    assert_true(policy_idle(f->policy));
    policy_decide(NULL, 0, &(struct policy_request){0}, &d);
    assert_int_equal(d.verdict, POLICY_ALLOW);
}

static void put_numbers_versions_and_survives_a_restart(void **state)
{
    struct fixture *f = *state;
    struct policy_version v = {0}, *list = NULL;
    size_t count;
    bool more;

    start(f, false);
    assert_int_equal(put(f, LOOSE), 1);
    assert_int_equal(put(f, TIGHT), 2);
    assert_int_equal(put(f, TIGHT), 2);
    assert_int_equal(ask_shell(f, 0).verdict, POLICY_DENY);
    assert_int_equal(ask_shell(f, 0).version, 2);
    stop(f);
    start(f, false);
    assert_int_equal(policy_current(f->policy), 2);
    assert_int_equal(ask_shell(f, 0).verdict, POLICY_DENY);
    assert_int_equal(put(f, LOOSE), 3);
    assert_int_equal(ask_shell(f, 0).verdict, POLICY_ALLOW);
    assert_int_equal(policy_get(f->policy, 2, &v, &f->err), 0);
    assert_string_equal(v.text, TIGHT);
    assert_string_equal(v.note, "a note");
    policy_version_done(&v);
    assert_int_equal(policy_get(f->policy, 9, &v, &f->err), -ERR_NOT_FOUND);
    assert_int_equal(
        policy_list(f->policy, 2, 0, &list, &count, &more, &f->err), 0);
    assert_int_equal(count, 2);
    assert_true(more);
    assert_int_equal(list[0].number, 3);
    free(list);
    assert_int_equal(
        policy_list(f->policy, 2, 2, &list, &count, &more, &f->err), 0);
    assert_int_equal(count, 1);
    assert_false(more);
    free(list);
    assert_int_equal(
        policy_list(f->policy, 1001, 0, &list, &count, &more, &f->err),
        -ERR_INVALID);
}

static void put_of_nonsense_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct policy_version v = {0};
    char note[200];

    start(f, false);
    assert_int_equal(put(f, TIGHT), 1);
    assert_int_equal(
        policy_put(f->policy, &ann, "version: 3", 10, NULL, &v, &f->err),
        -ERR_INVALID);
    assert_non_null(strstr(f->err.message, "line 1"));
    assert_int_equal(
        policy_put(f->policy, &ann, "version: 1\0", 11, NULL, &v, &f->err),
        -ERR_INVALID);
    memset(note, 'n', sizeof(note));
    note[129] = '\0';
    assert_int_equal(
        policy_put(f->policy, &ann, LOOSE, strlen(LOOSE), note, &v, &f->err),
        -ERR_INVALID);
    note[128] = '\0';
    assert_int_equal(policy_put(f->policy, &ann, TIGHT " ", strlen(TIGHT) + 1,
                                note, &v, &f->err),
                     0);
    policy_version_done(&v);
    assert_int_equal(ask_shell(f, 0).verdict, POLICY_DENY);
}

static void decide_takes_the_strictest_of_pinned_and_current(void **state)
{
    struct fixture *f = *state;

    start(f, false);
    (void)put(f, LOOSE);
    (void)put(f, TIGHT);
    assert_int_equal(ask_shell(f, 1).verdict, POLICY_DENY);
    assert_int_equal(ask_shell(f, 1).version, 2);
    (void)put(f, LOOSE);
    assert_int_equal(ask_shell(f, 2).verdict, POLICY_DENY);
    assert_int_equal(ask_shell(f, 2).version, 2);
    assert_int_equal(ask_shell(f, 3).verdict, POLICY_ALLOW);
    /* One nobody knows cannot be decided. */
    assert_int_equal(ask_shell(f, 77).verdict, POLICY_DENY);
    assert_string_equal(ask_shell(f, 77).rule, "unloadable");
}

static void decide_keeps_a_bounded_number_of_old_versions(void **state)
{
    struct fixture *f = *state;

    start(f, false);
    for (int i = 0; i < 40; i++) {
        char *text = xasprintf(
            "version: 1\nrules:\n- {name: r%d, match: {language: %s}, then: "
            "deny}\n",
            i, i % 2 ? "python" : "shell");

        (void)put(f, text);
        free(text);
    }
    for (int round = 0; round < 2; round++)
        for (int i = 1; i < 40; i++) {
            struct policy_decision d = ask_shell(f, i);

            assert_int_equal(d.verdict, i % 2 ? POLICY_DENY : POLICY_ALLOW);
        }
}

static void unloadable_file_denies_until_a_reload_works(void **state)
{
    struct fixture *f = *state;
    struct policy_state now;
    struct policy_version v;

    write_file(f, "version: 1\nnonsense: 1\n");
    start(f, true);
    assert_int_equal(ask_shell(f, 0).verdict, POLICY_DENY);
    assert_string_equal(ask_shell(f, 0).rule, "unloadable");
    policy_state(f->policy, &now);
    assert_false(now.loaded);
    assert_non_null(strstr(now.problem, "line 2"));
    assert_int_equal(
        policy_put(f->policy, &ann, LOOSE, strlen(LOOSE), "", &v, &f->err),
        -ERR_CONFLICT);
    write_file(f, LOOSE);
    assert_int_equal(policy_reload(f->policy, &f->err), 0);
    assert_int_equal(ask_shell(f, 0).verdict, POLICY_ALLOW);
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(policy_reload(f->policy, &f->err), -ERR_INVALID);
    assert_int_equal(ask_shell(f, 0).verdict, POLICY_DENY);
    policy_state(f->policy, &now);
    assert_int_equal(now.version, 1);
    write_file(f, TIGHT);
    assert_int_equal(policy_reload(f->policy, &f->err), 0);
    assert_string_equal(ask_shell(f, 0).rule, "no-shell");
    assert_int_equal(policy_current(f->policy), 2);
}

static void open_refuses_an_unknown_zone(void **state)
{
    struct fixture *f = *state;
    struct policy_settings settings = {.file = "", .zone = "Mars/Base"};

    start(f, false);
    assert_int_equal(policy_open(&settings, f->store, f->audit,
                                 &(struct policy *){NULL}, &f->err),
                     -ERR_INVALID);
}

static void record_names_rule_and_version(void **state)
{
    struct fixture *f = *state;
    struct policy_request rq = {
        .action = POLICY_EXECUTE, .who = &ann, .language = "shell"};
    struct policy_decision d;
    struct audit_filter filter = {.action = "policy.deny"};
    struct audit_line *lines = NULL;
    size_t count = 0;
    bool more;

    start(f, false);
    (void)put(f, TIGHT);
    policy_decide(f->policy, 0, &rq, &d);
    policy_record(f->policy, &rq, &d, "exec_1", false);
    rq.language = "python"; /* allowed by default: not worth a line */
    policy_decide(f->policy, 0, &rq, &d);
    policy_record(f->policy, &rq, &d, "exec_2", false);
    stop(f); /* writes what waits */
    start(f, false);
    assert_int_equal(
        audit_query(f->audit, &filter, &lines, &count, &more, &f->err), 0);
    assert_int_equal(count, 1);
    assert_string_equal(lines[0].object, "exec_1");
    assert_string_equal(lines[0].after, "1");
    assert_non_null(strstr(lines[0].detail, "rule 'no-shell' of global"));
    audit_lines_free(lines, count);
    filter.action = "policy.";
    assert_int_equal(
        audit_query(f->audit, &filter, &lines, &count, &more, &f->err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(lines[0].action, "policy.put");
    audit_lines_free(lines, count);
}

/* ---- at once ------------------------------------------------------------ */

#define READS 2000

static void *read_on(void *arg)
{
    struct fixture *f = arg;
    size_t bad = 0;

    for (int i = 0; i < READS; i++) {
        struct policy_decision d = ask_shell(f, 1 + i % 2);

        bad += d.verdict != POLICY_DENY;
    }
    return (void *)bad;
}

static void decide_while_it_changes(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[4];

    start(f, false);
    (void)put(f, TIGHT);
    (void)put(f, TIGHT "#\n");
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, f), 0);
    for (int i = 0; i < 10; i++)
        (void)put(f, i % 2 ? LOOSE : TIGHT);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        void *bad = NULL;

        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
}

/* Every hour around each change, and every few days of a century and a half,
 * as the C library has it. */
static void zones_are_as_the_c_library_has_them(void **state)
{
    static const char *const zones[] = {
        "UTC",           "Europe/Berlin",       "Europe/Dublin",
        "Asia/Tokyo",    "America/New_York",    "Australia/Lord_Howe",
        "Asia/Kolkata",  "Africa/Casablanca",   "America/Sao_Paulo",
        "America/Nuuk",  "Pacific/Apia",        "Asia/Gaza",
        "Asia/Tehran",   "America/St_Johns",    "Pacific/Chatham",
        "Africa/Cairo",  "Antarctica/Troll",    "Asia/Kathmandu",
        "Europe/London", "America/Los_Angeles", "Australia/Sydney"};
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(zones); i++) {
        struct arena *arena = arena_new();
        const struct policy_zone *z = NULL;

        if (policy_zone_load(arena, zones[i], &z, &err) < 0 ||
            policy_zone_set(zones[i], &err) < 0)
            fail_msg("%s: %s", zones[i], err.message);
        for (time_t at = -2208988800; at < 4102444800; at += 3600 * 5 + 1799) {
            struct tm tm;

            assert_non_null(localtime_r(&at, &tm));
            if (policy_zone_ahead(z, at) != tm.tm_gmtoff)
                fail_msg("%s at %lld: %d, not %ld", zones[i], (long long)at,
                         policy_zone_ahead(z, at), tm.tm_gmtoff);
        }
        arena_free(arena);
    }
    assert_int_equal(policy_zone_set("", &err), 0);
}

static void zones_that_are_none_are_refused(void **state)
{
    (void)state;
    refused("version: 1\ntimezone: Europe/Berln\n",
            "line 2: no such time zone: Europe/Berln", "tzdata");
    refused("version: 1\ntimezone: ''\n", "no such time zone", "tzdata");
    refused("version: 1\ntimezone: ../zoneinfo/UTC\n", "no such time zone",
            "tzdata");
    refused("version: 1\ntimezone: /usr/share/zoneinfo/UTC\n",
            "no such time zone", "tzdata");
    refused("version: 1\ntimezone: tzdata.zi\n", "cannot be read", "");
    refused("version: 1\ntimezone: Europe\n", "no such time zone", "tzdata");
    refused("version: 1\ntimezone: [UTC]\n", "must be a name", "");
    refused("version: 1\ntenants: {a: {timezone: Nowhere}}\n",
            "no such time zone: Nowhere", "tzdata");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_are_as_the_c_library_has_them),
        cmocka_unit_test(zones_that_are_none_are_refused),
        cmocka_unit_test(check_names_line_and_nearest_key),
        cmocka_unit_test(search_and_report_are_kinds_of_execute),
        cmocka_unit_test(check_refuses_what_makes_no_sense),
        cmocka_unit_test(check_takes_the_whole_of_the_format),
        cmocka_unit_test(check_limits_at_and_above),
        cmocka_unit_test(check_text_at_and_above),
        cmocka_unit_test(decides_as_the_data_files_say),
        cmocka_unit_test(cases_refuse_what_is_no_case),
        cmocka_unit_test(explain_says_which_condition_failed),
#define WITH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        WITH(decide_without_a_policy_allows),
        WITH(put_numbers_versions_and_survives_a_restart),
        WITH(put_of_nonsense_changes_nothing),
        WITH(decide_takes_the_strictest_of_pinned_and_current),
        WITH(decide_keeps_a_bounded_number_of_old_versions),
        WITH(unloadable_file_denies_until_a_reload_works),
        WITH(open_refuses_an_unknown_zone),
        WITH(record_names_rule_and_version),
        WITH(decide_while_it_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
