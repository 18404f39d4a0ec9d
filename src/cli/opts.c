/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags and words of a command, from a table: parsing, --help and complaints
 * come from the same rows. Flags and words may be mixed; `--` ends flags.
 * Called by every command but serve and runtime, which have their own.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define SECONDS_MAX 86400

struct parse {
    struct cli *c;
    const struct cli_opt *rows; /* the command's, then the common ones */
    size_t count;
    int argc;
    char **argv;
    int at;
};

static void print_help(const struct parse *p, const char *notes)
{
    const struct cli_command *command = cli_command_find(p->c->command);

    cli_help_usage(stdout, command, NULL);
    (void)printf("\n%s.\n", command->summary);
    cli_help_verbs(stdout, command);
    (void)fputs("\nOptions:\n", stdout);
    for (size_t i = 0; i < p->count; i++) {
        const struct cli_opt *o = &p->rows[i];
        char left[40];

        (void)snprintf(left, sizeof(left), "%c%c%s--%s%s%s",
                       o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                       o->letter ? ", " : "  ", o->name, o->arg ? " " : "",
                       o->arg ? o->arg : "");
        (void)printf("  %-24s %s\n", left, o->help);
    }
    (void)printf("  %-24s %s\n", "-h, --help", "this help");
    if (notes)
        (void)printf("\n%s", notes);
}

static bool set_seconds(const char *text, uint64_t *ret)
{
    char *end;
    unsigned long value;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    value = strtoul(text, &end, 10);
    if (*end == 's')
        end++;
    if (errno || *end || value < 1 || value > SECONDS_MAX)
        return false;
    *ret = value;
    return true;
}

/* Complains; false. */
static bool wants(const struct parse *p, const struct cli_opt *o,
                  const char *what, const char *value)
{
    cli_usage_error(p->c, "--%s wants %s, not '%s'", o->name, what, value);
    return false;
}

/* Stores one value; false after having complained. */
static bool set_value(struct parse *p, const struct cli_opt *o,
                      const char *value)
{
    struct cli_words *list;

    switch (o->type) {
    case CLI_OPT_FLAG:
        *(bool *)o->target = true;
        return true;
    case CLI_OPT_TEXT:
    case CLI_OPT_COMMAS:
        *(const char **)o->target = value;
        return true;
    case CLI_OPT_SWITCH:
        *(bool *)o->target = strcmp(value, "on") == 0;
        return *(bool *)o->target || strcmp(value, "off") == 0 ||
               wants(p, o, "on or off", value);
    case CLI_OPT_LIST:
        list = o->target;
        if (list->count == CLI_WORDS_MAX) {
            cli_usage_error(p->c, "more than %d of --%s", CLI_WORDS_MAX,
                            o->name);
            return false;
        }
        list->items[list->count++] = value;
        return true;
    case CLI_OPT_SECONDS:
        if (set_seconds(value, o->target))
            return true;
        cli_usage_error(p->c, "--%s wants whole seconds, 1 to %d, not '%s'",
                        o->name, SECONDS_MAX, value);
        return false;
    case CLI_OPT_DURATION:
        return cli_values_duration(value, o->target) == 0 ||
               wants(p, o, "a time such as 90s, 15m, 2h or 7d", value);
    case CLI_OPT_COUNT:
        return cli_values_count(value, o->target) == 0 ||
               wants(p, o, "a whole number", value);
    case CLI_OPT_SIZE:
        return cli_values_size(value, o->target) == 0 ||
               wants(p, o, "a size such as 512m or 4g", value);
    case CLI_OPT_TIME:
        return cli_values_time(value, clock_real_ms(), o->target) == 0 ||
               wants(p, o, "a time such as 2026-01-31, 2026-01-31T12:00 or 2h",
                     value);
    }
    return false;
}

static const struct cli_opt *find_row(const struct parse *p, const char *name,
                                      size_t len, char letter)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct cli_opt *o = &p->rows[i];

        if (letter ? o->letter == letter
                   : strlen(o->name) == len && !memcmp(o->name, name, len))
            return o;
    }
    return NULL;
}

static bool unknown(struct parse *p, const char *word, const char *name)
{
    const char *near =
        cli_format_nearest(name, &p->rows[0].name, sizeof(*p->rows), p->count);

    if (near && name[0])
        cli_usage_error(p->c, "unknown option '%s'; did you mean --%s?", word,
                        near);
    else
        cli_usage_error(p->c, "unknown option '%s'", word);
    return false;
}

/* One argument that starts with a dash; false after having complained. */
static bool parse_flag(struct parse *p)
{
    const char *word = p->argv[p->at];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t len = is_long ? strcspn(name, "=") : 1;
    const char *value = NULL;
    const struct cli_opt *o = find_row(p, name, len, is_long ? '\0' : name[0]);

    if (!o)
        return unknown(p, word, is_long ? name : "");
    if (!cli_command_given(p->c, o->name)) { /* at most one for each row */
        p->c->given[p->c->given_count].option = o->name;
        p->c->given[p->c->given_count++].only = o->only;
    }
    if (name[len])
        value = name + len + (is_long ? 1 : 0);
    if (o->type == CLI_OPT_FLAG) {
        if (!value)
            return set_value(p, o, NULL);
        cli_usage_error(p->c, "--%s takes no value", o->name);
        return false;
    }
    if (!value && p->at + 1 < p->argc)
        value = p->argv[++p->at];
    if (!value) {
        cli_usage_error(p->c, "--%s wants a value: %s", o->name, o->arg);
        return false;
    }
    return set_value(p, o, value);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

bool cli_opts_parse(struct cli *c, const struct cli_opts *opts, int argc,
                    char **argv, struct cli_words *ret_words, int *ret_exit)
{
    const struct cli_opt common[] = {
        {"json", 0, CLI_OPT_FLAG, &c->json, NULL,
         "machine-readable: one JSON value on standard output", NULL},
        {"url", 0, CLI_OPT_TEXT, &c->url, "URL",
         "where the service is; else GLOVEBOX_URL", NULL},
        {"key-file", 0, CLI_OPT_TEXT, &c->key_file, "FILE",
         "a file holding the key; else GLOVEBOX_KEY", NULL},
        {"data", 0, CLI_OPT_TEXT, &c->data, "DIR",
         "data directory that says where the service is", NULL},
        {"cacert", 0, CLI_OPT_TEXT, &c->cacert, "FILE",
         "trusted certificates (PEM); else GLOVEBOX_CACERT", NULL},
    };
    struct cli_opt rows[CLI_OPTS_MAX];
    struct parse p = {.c = c, .rows = rows, .argc = argc, .argv = argv};
    bool online = cli_command_find(c->command)->online;
    bool flags_over = false;

    for (size_t i = 0; i < opts->count; i++)
        rows[p.count++] = opts->table[i];
    for (size_t i = 0; i < (online ? ARRAY_SIZE(common) : 1); i++)
        rows[p.count++] = common[i];
    *ret_words = (struct cli_words){0};
    *ret_exit = CLI_EXIT_USAGE;
    c->given_count = 0;
    for (p.at = 1; p.at < argc; p.at++) {
        const char *word = argv[p.at];

        if (!flags_over && strcmp(word, "--") == 0) {
            flags_over = true;
        } else if (!flags_over && is_help(word)) {
            print_help(&p, opts->notes);
            *ret_exit = CLI_EXIT_OK;
            return false;
        } else if (!flags_over && word[0] == '-' && word[1]) {
            if (!parse_flag(&p))
                return false;
        } else if (ret_words->count == CLI_WORDS_MAX) {
            cli_usage_error(c, "more than %d arguments", CLI_WORDS_MAX);
            return false;
        } else {
            ret_words->items[ret_words->count++] = word;
        }
    }
    return true;
}
