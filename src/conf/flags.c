/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the flags: `--option-name VALUE` or `--option-name=VALUE` for every
 * option of the top level, and a few of their own. Runs in the daemon and the
 * command line, called by conf_load; keeps no text, only points into argv.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "conf/conf_int.h"

static const struct {
    const char *name;
    enum conf_mode mode;
} modes[] = {
    {"check", CONF_CHECK},         {"dump", CONF_DUMP},
    {"reference", CONF_REFERENCE}, {"sample", CONF_SAMPLE},
    {"help", CONF_HELP},
};

#define FLAG_MAX 64

/* The option's name of a flag: without dashes in front, _ for -. */
static bool flag_name(const char *arg, char ret[FLAG_MAX])
{
    size_t len = strcspn(arg + 2, "=");

    if (len == 0 || len >= FLAG_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        ret[i] = arg[2 + i] == '-' ? '_' : arg[2 + i];
    ret[len] = '\0';
    if (strcmp(ret, "data") == 0)
        memcpy(ret, "data_dir", sizeof("data_dir"));
    return true;
}

static int unknown_flag(const char *arg, const char *name, struct error *err)
{
    const char *near = conf_options_nearest(&conf_options_top, name);
    char flag[FLAG_MAX];
    size_t i;

    (void)error_set(err, ERR_INVALID, "unknown flag \"%.64s\"", arg);
    if (!near)
        return error_hint(err, "--help lists the flags");
    for (i = 0; i < sizeof(flag) - 1 && near[i]; i++)
        flag[i] = near[i] == '_' ? '-' : near[i];
    flag[i] = '\0';
    return error_hint(err, "did you mean \"--%s\"?", flag);
}

static bool read_mode(const char *arg, const char *name,
                      struct conf_flags *flags)
{
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
        if (strcmp(name, modes[i].name) == 0 && !strchr(arg, '=')) {
            flags->mode = modes[i].mode;
            return true;
        }
    return false;
}

/* The flag's value: after "=", or the next argument, which is then used up.
 * A boolean alone means true. */
static const char *read_value(int argc, char *const *argv, int *i,
                              bool boolean)
{
    const char *equals = strchr(argv[*i], '=');
    bool more = *i + 1 < argc;

    if (equals)
        return equals + 1;
    if (boolean && (!more || strncmp(argv[*i + 1], "--", 2) == 0))
        return "true";
    return more ? argv[++*i] : NULL;
}

static int read_flag(int argc, char *const *argv, int *i,
                     struct conf_flags *flags, struct error *err)
{
    const char *arg = argv[*i], *value;
    const struct conf_option *o;
    char name[FLAG_MAX] = "";

    if (strncmp(arg, "--", 2) != 0)
        return error_set(err, ERR_INVALID, "unexpected argument \"%.64s\"",
                         arg);
    if (!flag_name(arg, name))
        return unknown_flag(arg, name, err);
    if (read_mode(arg, name, flags))
        return 0;
    o = conf_options_find(&conf_options_top, name);
    if (!o && strcmp(name, "config") != 0)
        return unknown_flag(arg, name, err);
    value = read_value(argc, argv, i, o && o->type == CONF_BOOL);
    if (!value)
        return error_set(err, ERR_INVALID, "%.64s needs a value", arg);
    if (o)
        flags->values[o - conf_options_top.row] = value;
    else
        flags->config = value;
    return 0;
}

int conf_flags_read(int argc, char *const *argv, struct conf_flags *ret,
                    struct error *err)
{
    struct conf_flags flags = {0};

    for (int i = 0; i < argc; i++)
        if (read_flag(argc, argv, &i, &flags, err) < 0)
            return -(int)err->code;
    *ret = flags;
    return 0;
}

int conf_flags_apply(const struct conf_flags *flags, struct conf *c,
                     struct error *err)
{
    for (size_t k = 0; k < conf_options_top.count; k++)
        if (flags->values[k] && conf_value_set(c, &conf_options_top.row[k],
                                               flags->values[k], err) < 0)
            return error_wrap(err, "flag");
    return 0;
}
