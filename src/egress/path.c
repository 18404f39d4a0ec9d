/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths in the one form a rule's prefix is compared with; see http.h. What is
 * compared is also what is sent, so a server cannot see another one. Pure;
 * runs in glovebox-egress, on requests and on the prefixes of rules.
 */
#include <ctype.h>
#include <string.h>

#include "base/hex.h"
#include "egress/http.h"

const char *egress_path_plain(struct span path)
{
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.at[i];

        if (c <= ' ' || c >= 0x7f)
            return "the path has a byte it must not have";
    }
    return NULL;
}

/* %41 as A, %c3 as %C3; then no two spellings of a byte are left. */
static const char *decode_path(struct span path, char ret[EGRESS_PATH_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (size_t i = 0; i < path.len; i++) {
        int hi, lo, c;

        if (n + 4 > EGRESS_PATH_MAX)
            return "the path is longer than 509 bytes";
        if (path.at[i] == '\\')
            return "the path has a '\\'";
        if (path.at[i] != '%') {
            ret[n++] = path.at[i];
            continue;
        }
        hi = i + 2 < path.len ? hex_digit(path.at[i + 1]) : -1;
        lo = i + 2 < path.len ? hex_digit(path.at[i + 2]) : -1;
        if (hi < 0 || lo < 0)
            return "the path has a '%' that stands for nothing";
        c = hi * 16 + lo;
        i += 2;
        if (c == '/' || c == '\\' || c == 0)
            return "the path has an encoded slash or NUL";
        if (c == '%' && i + 2 < path.len && hex_digit(path.at[i + 1]) >= 0 &&
            hex_digit(path.at[i + 2]) >= 0)
            return "the path is encoded twice";
        if (isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
            ret[n++] = (char)c;
        } else {
            ret[n++] = '%';
            ret[n++] = digits[hi];
            ret[n++] = digits[lo];
        }
    }
    ret[n] = '\0';
    return NULL;
}

/* Is a segment "." (1) or ".." (2)? Some servers cut it at a ';' first, so
 * that with one it is an attempt (-1). */
static int dot_segment(const char *at, size_t len)
{
    size_t n = strspn(at, ".");

    if (n == 0 || n > 2 || n > len)
        return 0;
    if (n == len)
        return (int)n;
    return at[n] == ';' || strncmp(at + n, "%3B", 3) == 0 ? -1 : 0;
}

const char *egress_path_canonical(struct span path, char ret[EGRESS_PATH_MAX])
{
    char plain[EGRESS_PATH_MAX] = "";
    const char *why = egress_path_plain(path), *at = plain;
    size_t n = 0;

    if (!why)
        why = decode_path(path, plain);
    if (why)
        return why;
    if (plain[0] != '/')
        return "the path does not begin with '/'";
    while (*at) {
        size_t len = strcspn(at + 1, "/");
        int d = dot_segment(at + 1, len);
        bool last = at[1 + len] == '\0';

        if (d < 0)
            return "the path has dots before a ';'";
        if (len == 0 && !last)
            return "the path has '//'";
        if (d == 2) /* up one; above the root is the root */
            while (n > 0 && ret[--n] != '/')
                ;
        if (d == 0) {
            memcpy(ret + n, at, 1 + len);
            n += 1 + len;
        } else if (last) {
            ret[n++] = '/';
        }
        at += 1 + len;
    }
    ret[n] = '\0';
    return NULL;
}

bool egress_path_below(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);

    if (len == 0)
        return true;
    if (strncmp(path, prefix, len) != 0)
        return false;
    return prefix[len - 1] == '/' || path[len] == '\0' || path[len] == '/';
}
