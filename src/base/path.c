/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for names of files; see path.h. Pure; used by every process that
 * hears a path. */
#include "base/path.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

bool path_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(text + i, len - i);
        uint32_t c = n ? utf8_decode(text + i, n) : 0;

        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) /* C0, DEL and C1 */
            return false;
        i += n;
    }
    return true;
}

static const char *part_fault(const char *part, size_t len)
{
    if (len == 0)
        return "has an empty part";
    if (len > PATH_PART_MAX)
        return "has a part longer than 255 bytes";
    if ((len == 1 && part[0] == '.') ||
        (len == 2 && part[0] == '.' && part[1] == '.'))
        return "has a part that is '.' or '..'";
    return NULL;
}

const char *path_fault(const char *path, size_t len)
{
    size_t depth = 0;
    size_t start = 0;

    if (len == 0)
        return "is empty";
    if (len > PATH_BYTES_MAX)
        return "is longer than 1024 bytes";
    if (path[0] == '/')
        return "is not relative to /mnt/data";
    if (!utf8_valid(path, len))
        return "is not UTF-8";
    if (!path_plain(path, len))
        return "holds a control character";
    for (size_t i = 0; i <= len; i++) {
        const char *fault;

        if (i < len && path[i] != '/')
            continue;
        fault = part_fault(path + start, i - start);
        if (fault)
            return fault;
        if (++depth > PATH_DEPTH_MAX)
            return "is more than 32 folders deep";
        start = i + 1;
    }
    return NULL;
}

bool path_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);

    while (len && folder[len - 1] == '/')
        len--;
    return len == 0 || (strncmp(path, folder, len) == 0 &&
                        (path[len] == '\0' || path[len] == '/'));
}
