/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of paths and names, and the index range that holds every path with a
 * given prefix. Pure functions, used by every file of workspace/.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "workspace/workspace_int.h"

int workspace_path_check(const char *path, struct error *err)
{
    const char *fault =
        path ? path_fault(path, strnlen(path, PATH_BYTES_MAX + 1))
             : "is missing";

    if (fault)
        return error_set(err, ERR_INVALID, "the path %s", fault);
    return 0;
}

int workspace_text_check(const char *what, const char *text, size_t most,
                         struct error *err)
{
    size_t len = text ? strnlen(text, most + 1) : 0;

    if (len > most)
        return error_set(err, ERR_INVALID, "%s is longer than %zu bytes", what,
                         most);
    if (!path_plain(text, len))
        return error_set(err, ERR_INVALID,
                         "%s must be UTF-8 without control characters", what);
    return 0;
}

static size_t encode(uint32_t c, char ret[4])
{
    if (c < 0x80) {
        ret[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        ret[0] = (char)(0xc0 | c >> 6);
        ret[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        ret[0] = (char)(0xe0 | c >> 12);
        ret[1] = (char)(0x80 | (c >> 6 & 0x3f));
        ret[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    ret[0] = (char)(0xf0 | c >> 18);
    ret[1] = (char)(0x80 | (c >> 12 & 0x3f));
    ret[2] = (char)(0x80 | (c >> 6 & 0x3f));
    ret[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Past every path: a part has room for 63 of these. */
static char *last_of_all(void)
{
    char *end = xcalloc(64 * 4 + 1, 1);

    for (size_t i = 0; i < 64; i++)
        (void)encode(0x10ffff, end + 4 * i);
    return end;
}

/* The last character one higher. UTF-8 sorts as its characters do, and the
 * result is valid too, which not every engine would forgive. */
char *workspace_path_end(const char *prefix)
{
    size_t len = strlen(prefix);

    while (len) {
        size_t at = len - 1;
        uint32_t c;
        char *end;

        while (at && ((unsigned char)prefix[at] & 0xc0) == 0x80)
            at--;
        c = utf8_decode(prefix + at, len - at);
        if (c >= 0x10ffff) { /* there is no higher one: the one before */
            len = at;
            continue;
        }
        c = c == 0xd7ff ? 0xe000 : c + 1; /* no surrogates in between */
        end = xcalloc(at + 5, 1);
        memcpy(end, prefix, at);
        (void)encode(c, end + at);
        return end;
    }
    return last_of_all();
}

char *workspace_path_short(const char *path, char ret[WORKSPACE_SHORT])
{
    size_t len = strlen(path);
    static const char more[] = "\xe2\x80\xa6"; /* an ellipsis */

    if (len < WORKSPACE_SHORT) {
        memcpy(ret, path, len + 1);
        return ret;
    }
    len = WORKSPACE_SHORT - sizeof(more);
    while (len && ((unsigned char)path[len] & 0xc0) == 0x80)
        len--;
    memcpy(ret, path, len);
    memcpy(ret + len, more, sizeof(more));
    return ret;
}
