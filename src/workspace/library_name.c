/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client calls a file, made fit for a path (F5) and for being shown
 * back. Whatever it sends has a name in the end; nothing is refused for it.
 * Pure.
 */
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "workspace/library_int.h"

#define NAME_FALLBACK "file"
#define EXTENSION_MAX 32u /* with its dot; a longer one is not one */

_Static_assert(LIBRARY_NAME_MAX <= PATH_PART_MAX, "a name is a path's part");

static const char *last_part(const char *sent)
{
    const char *part = sent;

    for (const char *p = sent; *p; p++)
        if (*p == '/' || *p == '\\')
            part = p + 1;
    return part;
}

/* A low line for each byte or character that cannot stay. */
static void clean(const char *part, struct buf *out)
{
    size_t len = strlen(part);

    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(part + i, len - i);

        if (n && path_plain(part + i, n))
            buf_add(out, part + i, n);
        else
            buf_adds(out, "_");
        i += n ? n : 1;
    }
}

/* Not more than most bytes of it, by whole characters. */
static size_t whole_characters(const char *text, size_t len, size_t most)
{
    if (len <= most)
        return len;
    len = most;
    while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

/* From the middle, so that it keeps what says its type. */
static void shorten(struct buf *name)
{
    const char *dot = strrchr(name->data, '.');
    size_t tail = dot ? strlen(dot) : 0;
    size_t head;

    if (tail < 2 || tail > EXTENSION_MAX)
        tail = 0;
    head = whole_characters(name->data, name->len - tail,
                            LIBRARY_NAME_MAX - tail);
    memmove(name->data + head, name->data + name->len - tail, tail + 1);
    name->len = head + tail;
}

char *library_name(const char *sent)
{
    struct buf name cleanup(buf_done) = {0};

    buf_adds(&name, "");
    clean(last_part(sent ? sent : ""), &name);
    if (name.len > LIBRARY_NAME_MAX)
        shorten(&name);
    if (path_fault(name.data ? name.data : "", name.len))
        return xstrdup(NAME_FALLBACK); /* "", "." and ".." */
    return buf_take(&name, NULL);
}

int library_purpose_check(const char *purpose, struct error *err)
{
    size_t len = purpose ? strnlen(purpose, LIBRARY_PURPOSE_MAX + 1) : 0;

    if (len == 0 || len > LIBRARY_PURPOSE_MAX ||
        strspn(purpose, "abcdefghijklmnopqrstuvwxyz_-") != len)
        return error_set(err, ERR_INVALID,
                         "a purpose is 1 to %u of the characters a-z, _ and -",
                         LIBRARY_PURPOSE_MAX);
    return 0;
}
