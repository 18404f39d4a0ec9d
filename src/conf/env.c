/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the environment: GLOVEBOX_ and the option's name in capitals. Runs in
 * the daemon and the command line, called by conf_load before any thread is
 * started. Other variables of that prefix are left alone (clients have some),
 * unless they look like an option misspelt.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "conf/conf_int.h"

#define PREFIX "GLOVEBOX_"
#define NAME_MAX_LEN 64
#define TYPO 2 /* changes that still count as a misspelling */

static void upper(const char *name, char ret[NAME_MAX_LEN])
{
    size_t i;

    for (i = 0; i < NAME_MAX_LEN - 1 && name[i]; i++)
        ret[i] = (char)toupper((unsigned char)name[i]);
    ret[i] = '\0';
}

/* Refuses GLOVEBOX_WORKRES=4, which would otherwise do nothing, silently. */
static int check_variable(const char *entry, struct error *err)
{
    char name[NAME_MAX_LEN], near_name[NAME_MAX_LEN];
    size_t len = strcspn(entry, "=");
    const char *near;

    if (len >= sizeof(name))
        return 0;
    for (size_t i = 0; i < len; i++)
        name[i] = (char)tolower((unsigned char)entry[i]);
    name[len] = '\0';
    near = conf_options_nearest(&conf_options_top, name);
    if (!near || conf_options_distance(name, near) > TYPO ||
        conf_options_find(&conf_options_top, name))
        return 0;
    upper(near, near_name);
    (void)error_set(err, ERR_INVALID, "unknown variable " PREFIX "%.*s",
                    (int)len, entry);
    return error_hint(err, "did you mean " PREFIX "%s?", near_name);
}

int conf_env_apply(struct conf *c, struct error *err)
{
    for (size_t k = 0; k < conf_options_top.count; k++) {
        const struct conf_option *o = &conf_options_top.row[k];
        char name[NAME_MAX_LEN];
        char *variable cleanup(mem_free) = NULL;
        const char *value;

        upper(o->name, name);
        variable = xasprintf(PREFIX "%s", name);
        value = getenv(variable);
        if (value && conf_value_set(c, o, value, err) < 0)
            return error_wrap(err, "environment %s", variable);
    }
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, PREFIX, strlen(PREFIX)) == 0 &&
            check_variable(*e + strlen(PREFIX), err) < 0)
            return -(int)err->code;
    return 0;
}
