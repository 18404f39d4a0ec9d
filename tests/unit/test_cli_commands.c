/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of commands: every row refers to things that exist, and a line
 * is checked against its row before anything is asked of a service.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "cli/common.h"

/* ---- rows --------------------------------------------------------------- */

static const struct cli_option *option_named(const struct cli_command *command,
                                             const char *name, size_t len)
{
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

static bool has_verb(const struct cli_command *command, const char *name,
                     size_t len)
{
    for (const struct cli_verb *v = command->verbs; v && v->name; v++)
        if (strlen(v->name) == len && memcmp(v->name, name, len) == 0)
            return true;
    return false;
}

static bool has_word(const struct cli_verb *verb, const char *name, size_t len)
{
    const char *at = verb->words;

    while (at && (at = strstr(at, name))) {
        bool begins = at == verb->words || at[-1] == ' ' || at[-1] == '[';

        if (begins && strchr(" .]", at[len]))
            return true;
        at++;
    }
    return false;
}

/* Every {SOURCE} is a word of the verb or an option of the command that is
 * for this verb; members: of the answer are good, too. */
static void check_template(const struct cli_command *command,
                           const struct cli_verb *verb, const char *template,
                           bool members)
{
    for (const char *p = template; p && (p = strchr(p, '{')); p++) {
        char name[64] = "";
        size_t len = strcspn(p + 1, ".:}");

        assert_non_null(strchr(p, '}'));
        assert_true(len < sizeof(name));
        memcpy(name, p + 1, len);
        if (strncmp(name, "--", 2) == 0) {
            const struct cli_option *o =
                option_named(command, name + 2, len - 2);

            if (!o || (o->verbs && !cli_command_listed(o->verbs, verb->name)))
                fail_msg("%s %s: there is no %s", command->name, verb->name,
                         name);
        } else if (!has_word(verb, name, len) &&
                   !(members && name[0] >= 'a' && name[0] <= 'z')) {
            fail_msg("%s %s: there is no word %s", command->name, verb->name,
                     name);
        }
    }
}

static void check_verb(const struct cli_command *command,
                       const struct cli_verb *v)
{
    if (!v->run == !v->method || !v->method != !v->path)
        fail_msg("%s %s: a request or code", command->name, v->name);
    if (v->name[0] && (!v->help || strlen(v->help) > 62))
        fail_msg("%s %s: help of at most 62 bytes", command->name, v->name);
    check_template(command, v, v->path, false);
    check_template(command, v, v->query, false);
    check_template(command, v, v->body, false);
    check_template(command, v, v->json, false);
    check_template(command, v, v->sentence, true);
    for (const char *p = v->needs; p && *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");

        assert_non_null(option_named(command, p, len));
        p += len;
    }
    for (const struct cli_verb *w = command->verbs; w < v; w++)
        if (strcmp(w->name, v->name) == 0 ||
            cli_command_listed(w->aliases, v->name) ||
            cli_command_listed(v->aliases, w->name))
            fail_msg("%s: two verbs are called %s", command->name, v->name);
}

static void check_option(const struct cli_command *command,
                         const struct cli_option *o)
{
    assert_true(o->offset < command->flags_size);
    assert_int_equal(o->type == CLI_OPT_FLAG, o->arg == NULL);
    for (const char *p = o->verbs; p && *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");

        if (!has_verb(command, p, len)) /* or the verb has two words */
            len += 1 + strcspn(p + len + 1, " ");
        if (!has_verb(command, p, len))
            fail_msg("%s --%s: for which verb? %s", command->name, o->name, p);
        p += len;
    }
    for (const struct cli_option *other = command->options; other < o; other++)
        if (strcmp(other->name, o->name) == 0 ||
            (o->letter && other->letter == o->letter))
            fail_msg("%s: --%s is there twice", command->name, o->name);
}

static void rows_refer_to_what_exists(void **state)
{
    (void)state;
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *command = cli_commands[i];
        size_t count = 0;

        assert_ptr_equal(cli_command_find(command->name), command);
        assert_int_equal(!command->main, !command->usage);
        assert_true(command->main || command->verbs);
        for (const struct cli_verb *v = command->verbs; v && v->name; v++)
            check_verb(command, v);
        for (const struct cli_option *o = command->options; o && o->name;
             o++, count++)
            check_option(command, o);
        assert_true(count + 10 <= CLI_OPTS_MAX); /* and the common ones */
    }
}

static void dump_has_every_command(void **state)
{
    json_t *all cleanup(json_unref) = cli_help_dump();
    size_t i = 0;

    (void)state;
    for (; cli_commands[i]; i++)
        assert_string_equal(cli_json_text(json_array_get(all, i), "name", ""),
                            cli_commands[i]->name);
    assert_int_equal(json_array_size(all), i);
}

/* ---- lines -------------------------------------------------------------- */

static int called;

struct flags {
    bool create, all;
    const char *file;
};

static int on_verb(struct cli *c, const struct cli_words *words, void *flags)
{
    (void)c;
    (void)flags;
    called++;
    return 20 + (int)words->count;
}

static const struct cli_verb verbs[] = {
    {"ls", "list", "[WS]", "", .run = on_verb},
    {"put", NULL, "SIZE on|off...", "", .run = on_verb},
    {"member add", NULL, "WS", "", .run = on_verb, .needs = "file"},
    {0},
};

static const struct cli_option options[] = {
    {"create", 0, CLI_OPT_FLAG, offsetof(struct flags, create), NULL, "",
     "put"},
    {"all", 0, CLI_OPT_FLAG, offsetof(struct flags, all), NULL, "", NULL},
    {"file", 0, CLI_OPT_TEXT, offsetof(struct flags, file), "FILE", "",
     "member add"},
    {"from", 0, CLI_OPT_TEXT, offsetof(struct flags, file), "FILE", "", NULL},
    {0},
};

static const struct cli_command command = {
    .name = "files", /* so that help finds a usage */
    .options = options,
    .flags_size = sizeof(struct flags),
    .verbs = verbs,
};

#define LINE(...)                                                             \
    cli_command_run(                                                          \
        &command, (int)ARRAY_SIZE(((const char *[]){"files", __VA_ARGS__})),  \
        (char **)(const char *[]){"files", __VA_ARGS__})

static void line_counts_words(void **state)
{
    (void)state;
    called = 0;
    assert_int_equal(LINE("ls"), 20);
    assert_int_equal(LINE("list", "a"), 21);
    assert_int_equal(LINE("--all"), 20);
    assert_int_equal(LINE("put", "1k", "on"), 22);
    assert_int_equal(LINE("put", "1k", "on", "off", "x"), 24);
    assert_int_equal(called, 5);
    assert_int_equal(LINE("ls", "a", "b"), CLI_EXIT_USAGE);
    assert_int_equal(LINE("put", "1k"), CLI_EXIT_USAGE);
    assert_int_equal(LINE("pot", "1k", "on"), CLI_EXIT_USAGE);
    assert_int_equal(called, 5);
}

static void line_checks_kinds_of_words(void **state)
{
    (void)state;
    called = 0;
    assert_int_equal(LINE("put", "much", "on"), CLI_EXIT_USAGE);
    assert_int_equal(LINE("put", "1k", "maybe"), CLI_EXIT_USAGE);
    assert_int_equal(called, 0);
}

static void line_refuses_options_of_other_verbs(void **state)
{
    (void)state;
    called = 0;
    assert_int_equal(LINE("put", "1k", "on", "--create", "--all"), 22);
    assert_int_equal(called, 1);
    assert_int_equal(LINE("ls", "--create"), CLI_EXIT_USAGE);
    assert_int_equal(LINE("--create"), CLI_EXIT_USAGE);
    assert_int_equal(LINE("list", "--create"), CLI_EXIT_USAGE);
    assert_int_equal(called, 1);
}

static void line_needs_options_and_two_words(void **state)
{
    (void)state;
    called = 0;
    assert_int_equal(LINE("member", "add", "ws"), CLI_EXIT_USAGE);
    assert_int_equal(LINE("member", "ad", "ws", "--file", "f"),
                     CLI_EXIT_USAGE);
    assert_int_equal(called, 0);
    assert_int_equal(LINE("member", "add", "ws", "--file", "f"), 21);
    assert_int_equal(LINE("member", "add", "ws", "--from", "f"), 21);
    assert_int_equal(called, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_refer_to_what_exists),
        cmocka_unit_test(dump_has_every_command),
        cmocka_unit_test(line_counts_words),
        cmocka_unit_test(line_checks_kinds_of_words),
        cmocka_unit_test(line_refuses_options_of_other_verbs),
        cmocka_unit_test(line_needs_options_and_two_words),
    };

    return cmocka_run_group_tests_name("cli_commands", tests, NULL, NULL);
}
