/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags and words of a command, from a table: parsing, --help and complaints
 * come from the same rows. Flags and words may be mixed; `--` ends flags.
 * Called by every command but serve and runtime, which have their own.
 * Then what the values mean: sizes, durations, counts and times, from text and
 * for people, and the name that a mistyped word is nearest to.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/common.h"

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
static bool invalid_value(const struct parse *p, const struct cli_opt *o,
                          const char *what, const char *value)
{
    cli_usage_error(p->c, "--%s wants %s, not '%s'", o->name, what, value);
    return false;
}

bool cli_opts_format(struct cli *c, const char *word)
{
    bool json = strcmp(word, "json") == 0, yaml = strcmp(word, "yaml") == 0;
    bool wide = strcmp(word, "wide") == 0;

    c->json |= json || yaml;
    c->yaml |= yaml;
    c->wide |= wide;
    return json || yaml || wide;
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
               invalid_value(p, o, "on or off", value);
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
               invalid_value(p, o, "a time such as 90s, 15m, 2h or 7d", value);
    case CLI_OPT_COUNT:
        return cli_values_count(value, o->target) == 0 ||
               invalid_value(p, o, "a whole number", value);
    case CLI_OPT_SIZE:
        return cli_values_size(value, o->target) == 0 ||
               invalid_value(p, o, "a size such as 512m or 4g", value);
    case CLI_OPT_TIME:
        return cli_values_time(value, clock_real_ms(), o->target) == 0 ||
               invalid_value(
                   p, o, "a time such as 2026-01-31, 2026-01-31T12:00 or 2h",
                   value);
    case CLI_OPT_FORMAT:
        return cli_opts_format(o->target, value) ||
               invalid_value(p, o, "json, yaml or wide", value);
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

static bool unknown_option(struct parse *p, const char *word, const char *name)
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
        return unknown_option(p, word, is_long ? name : "");
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

size_t cli_opts_common(struct cli *c, bool online,
                       struct cli_opt ret[CLI_OPTS_COMMON])
{
    const struct cli_opt common[CLI_OPTS_COMMON] = {
        {"json", 0, CLI_OPT_FLAG, &c->json, NULL,
         "machine-readable: one JSON value on standard output", NULL},
        {"output", 'o', CLI_OPT_FORMAT, c, "FORMAT",
         "json, yaml, or wide: tables with all columns", NULL},
        {"url", 0, CLI_OPT_TEXT, &c->url, "URL",
         "where the service is; else GLOVEBOX_URL", NULL},
        {"key-file", 0, CLI_OPT_TEXT, &c->key_file, "FILE",
         "a file holding the key; else GLOVEBOX_KEY", NULL},
        {"context", 0, CLI_OPT_TEXT, &c->context, "NAME",
         "a service you are logged in to; else GLOVEBOX_CONTEXT", NULL},
        {"data", 0, CLI_OPT_TEXT, &c->data, "DIR",
         "data directory that says where the service is", NULL},
        {"cacert", 0, CLI_OPT_TEXT, &c->cacert, "FILE",
         "trusted certificates (PEM); else GLOVEBOX_CACERT", NULL},
    };

    memcpy(ret, common, sizeof(common));
    return online ? CLI_OPTS_COMMON : 2; /* the output is for all */
}

bool cli_opts_parse(struct cli *c, const struct cli_opts *opts, int argc,
                    char **argv, struct cli_words *ret_words, int *ret_exit)
{
    struct cli_opt rows[CLI_OPTS_MAX];
    struct parse p = {.c = c, .rows = rows, .argc = argc, .argv = argv};
    bool online = cli_command_find(c->command)->online;
    bool flags_over = false;
    struct cli_opt common[CLI_OPTS_COMMON];
    size_t common_count;

    for (size_t i = 0; i < opts->count; i++)
        rows[p.count++] = opts->table[i];
    common_count = cli_opts_common(c, online, common);
    for (size_t i = 0; i < common_count; i++)
        if (!find_row(&p, common[i].name, strlen(common[i].name), '\0'))
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

#define NAME_MAX_LEN 32
#define DURATION_MAX (100ull * 366 * 86400)
#define COUNT_MAX 1000000000ull

/* ---- values from text --------------------------------------------------- */

/* Digits at the start; *ret_end is behind them. */
static int parse_number(const char *text, const char **ret_end, uint64_t *ret)
{
    char *end;
    unsigned long long value;

    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno)
        return -ERANGE;
    *ret_end = end;
    *ret = value;
    return 0;
}

int cli_values_size(const char *text, uint64_t *ret)
{
    static const char units[] = "kmgt";
    const char *end;
    uint64_t value;
    unsigned shift = 0;
    int r = parse_number(text, &end, &value);

    if (r < 0)
        return r;
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end));

        if (unit) {
            shift = 10 * (unsigned)(unit - units + 1);
            end++;
            if (*end == 'i')
                end++;
        }
        if (*end == 'b' || *end == 'B')
            end++;
    }
    if (*end)
        return -EINVAL;
    if (value > (UINT64_MAX >> 1 >> shift))
        return -ERANGE;
    *ret = value << shift;
    return 0;
}

int cli_values_duration(const char *text, uint64_t *ret)
{
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = {
        {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400},
    };
    const char *end;
    uint64_t value, each = 1;
    int r = parse_number(text, &end, &value);

    if (r < 0)
        return r;
    for (size_t i = 0; *end && i < ARRAY_SIZE(units); i++)
        if (units[i].unit == *end) {
            each = units[i].seconds;
            end++;
            break;
        }
    if (*end)
        return -EINVAL;
    if (value < 1 || value > DURATION_MAX / each)
        return -ERANGE;
    *ret = value * each;
    return 0;
}

int cli_values_count(const char *text, uint64_t *ret)
{
    const char *end;
    uint64_t value;
    int r = parse_number(text, &end, &value);

    if (r < 0)
        return r;
    if (*end)
        return -EINVAL;
    if (value > COUNT_MAX)
        return -ERANGE;
    *ret = value;
    return 0;
}

/* "[.123][Z]" and the end; milliseconds, or -1. */
static int parse_fraction(const char *text)
{
    int ms = 0, each = 100;

    if (*text == '.') {
        if (!isdigit((unsigned char)*++text))
            return -1;
        for (; isdigit((unsigned char)*text); text++, each /= 10)
            ms += (*text - '0') * each;
    }
    if (*text == 'Z' || *text == 'z')
        text++;
    return *text ? -1 : ms;
}

int cli_values_time(const char *text, int64_t now_ms, int64_t *ret)
{
    static const char *const forms[] = {
        "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M",    "%Y-%m-%d",
    };
    uint64_t before;

    if (cli_values_duration(text, &before) == 0) {
        *ret = now_ms - (int64_t)before * 1000;
        return *ret > 0 ? 0 : -ERANGE;
    }
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        struct tm tm = {0}, same;
        const char *end = strptime(text, forms[i], &tm);
        int ms = end ? parse_fraction(end) : -1;
        time_t at;

        if (ms < 0)
            continue;
        same = tm;
        at = timegm(&same);
        /* strptime takes the 31st of every month. */
        if (at <= 0 || same.tm_mday != tm.tm_mday)
            return -ERANGE;
        *ret = (int64_t)at * 1000 + ms;
        return 0;
    }
    return -EINVAL;
}

/* ---- values for people -------------------------------------------------- */

/* "1 h 5 min"; the smaller unit is left out when it is zero. */
static void format_units(uint64_t large, const char *large_unit,
                         uint64_t small, const char *small_unit, char ret[24])
{
    if (small)
        (void)snprintf(ret, 24, "%u %s %u %s", (unsigned)(large % 1000000),
                       large_unit, (unsigned)small, small_unit);
    else
        (void)snprintf(ret, 24, "%u %s", (unsigned)(large % 1000000),
                       large_unit);
}

char *cli_format_duration(uint64_t ms, char ret[24])
{
    uint64_t s = ms / 1000;

    if (ms < 1000)
        (void)snprintf(ret, 24, "%u ms", (unsigned)ms);
    else if (s < 60 && ms % 1000 >= 100)
        (void)snprintf(ret, 24, "%u.%u s", (unsigned)s,
                       (unsigned)(ms % 1000 / 100));
    else if (s < 60)
        (void)snprintf(ret, 24, "%u s", (unsigned)s);
    else if (s < 3600)
        format_units(s / 60, "min", s % 60, "s", ret);
    else if (s < 86400)
        format_units(s / 3600, "h", s % 3600 / 60, "min", ret);
    else
        format_units(s / 86400, "d", s % 86400 / 3600, "h", ret);
    return ret;
}

char *cli_format_ago(int64_t at_ms, int64_t now_ms, char ret[24])
{
    static const struct {
        int64_t least, unit;
        const char *name;
    } steps[] = {
        {2 * 365 * 86400, 365 * 86400, "years"},
        {60 * 86400, 30 * 86400, "months"},
        {2 * 86400, 86400, "d"},
        {2 * 3600, 3600, "h"},
        {120, 60, "min"},
        {0, 1, "s"},
    };
    bool past = at_ms <= now_ms;
    int64_t s = (past ? now_ms - at_ms : at_ms - now_ms) / 1000;
    size_t i = 0;

    if (past && s < 2) {
        (void)snprintf(ret, 24, "just now");
        return ret;
    }
    while (s < steps[i].least)
        i++;
    (void)snprintf(ret, 24, past ? "%lld %s ago" : "in %lld %s",
                   (long long)(s / steps[i].unit), steps[i].name);
    return ret;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned rows[3][NAME_MAX_LEN + 1];
    unsigned *old = rows[0], *prev = rows[1], *now = rows[2];
    size_t la = strlen(a), lb = strlen(b);

    if (la > NAME_MAX_LEN || lb > NAME_MAX_LEN)
        return NAME_MAX_LEN;
    for (unsigned j = 0; j <= lb; j++)
        old[j] = prev[j] = j;
    for (unsigned i = 1; i <= la; i++) {
        unsigned *spare = old;

        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            unsigned best = prev[j - 1] + (a[i - 1] != b[j - 1]);

            best = MIN(best, prev[j] + 1);
            best = MIN(best, now[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = MIN(best, old[j - 2] + 1);
            now[j] = best;
        }
        old = prev;
        prev = now;
        now = spare;
    }
    return prev[lb];
}

const char *cli_format_nearest(const char *word, const void *names,
                               size_t stride, size_t count)
{
    const char *best = NULL;
    size_t len = strlen(word);
    unsigned least = len < 3 ? 2 : 3; /* exclusive */

    for (size_t i = 0; i < count; i++) {
        const char *name =
            *(const char *const *)((const char *)names + i * stride);
        unsigned n = edit_distance(word, name);

        /* A prefix counts as near too: "sess" for "sessions". */
        if (len >= 3 && strncmp(word, name, len) == 0)
            n = MIN(n, 1u);
        if (n < least) {
            least = n;
            best = name;
        }
    }
    return best;
}
