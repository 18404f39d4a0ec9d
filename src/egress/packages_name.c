/* SPDX-License-Identifier: Apache-2.0 */
/* Names of projects and of their files; see packages_int.h. Pure; runs in
 * glovebox-egress. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "egress/packages_int.h"

bool egress_packages_normal(struct span name, char ret[PACKAGE_NAME_MAX])
{
    size_t n = 0;

    if (!name.len || name.len >= PACKAGE_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = (char)tolower((unsigned char)name.at[i]);
        bool mark = c == '-' || c == '_' || c == '.';

        if (!mark && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return false;
        if (!mark)
            ret[n++] = c;
        else if (n == 0 || i + 1 == name.len)
            return false; /* a name begins and ends with a letter or digit */
        else if (ret[n - 1] != '-')
            ret[n++] = '-';
    }
    ret[n] = '\0';
    return true;
}

static bool ends_with(const char *text, const char *tail)
{
    size_t a = strlen(text), b = strlen(tail);

    return a > b && strcmp(text + a - b, tail) == 0;
}

bool egress_packages_file(const char *file, char ret_project[PACKAGE_NAME_MAX],
                          char ret_version[PACKAGE_VERSION_MAX])
{
    const char *dash, *end;
    size_t len = strlen(file);

    if (len == 0 || len >= PACKAGE_FILE_MAX || file[0] == '.' ||
        strspn(file, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789._+!-") != len)
        return false;

    if (ends_with(file, ".whl")) { /* name-version-…: neither has a dash */
        dash = strchr(file, '-');
        end = dash ? strchr(dash + 1, '-') : NULL;
    } else if (ends_with(file, ".tar.gz") || ends_with(file, ".zip")) {
        end = file + strlen(file) - (ends_with(file, ".zip") ? 4 : 7);
        for (dash = end; dash > file && *dash != '-'; dash--)
            ;
        if (dash == file)
            return false;
    } else {
        return false;
    }
    if (!dash || !end || end <= dash + 1 ||
        (size_t)(end - dash - 1) >= PACKAGE_VERSION_MAX)
        return false;
    memcpy(ret_version, dash + 1, (size_t)(end - dash - 1));
    ret_version[end - dash - 1] = '\0';
    return egress_packages_normal((struct span){file, (size_t)(dash - file)},
                                  ret_project);
}
