/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the service's answers. They are trusted and always JSON, but they
 * carry values that a session made, and jansson refuses some of what JSON
 * allows: a zero byte in a name, half a surrogate pair, a number beyond its
 * types. Those are mended, so that no output can hide how a run ended.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli_int.h"

#define ESCAPE 6        /* length of \uXXXX */
#define INTEGER_SAFE 18 /* digits that always fit json_int_t */

const char *cli_json_text(const json_t *object, const char *key,
                          const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : fallback;
}

uint64_t cli_json_number(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 ? (uint64_t)value : 0;
}

json_t *cli_json_commas(const char *text)
{
    json_t *list = json_array();

    while (*text) {
        size_t len = strcspn(text, ", ");

        if (len)
            (void)json_array_append_new(list, json_stringn(text, len));
        text += len;
        text += strspn(text, ", ");
    }
    return list;
}

/* The code unit of the escape at p, or -1 when there is none. */
static long escape_at(const char *p, const char *end)
{
    char digits[5] = {0};

    if (end - p < ESCAPE || p[0] != '\\' || p[1] != 'u')
        return -1;
    memcpy(digits, p + 2, 4);
    return strtol(digits, NULL, 16);
}

/* p: an escape in a string. Returns what is behind it and, for a surrogate
 * pair, its other half. */
static char *mend_escape(char *p, char *end)
{
    long unit = escape_at(p, end);
    long next = unit >= 0 ? escape_at(p + ESCAPE, end) : -1;

    if (unit < 0)
        return p + 2; /* a short one, such as \n */
    if (unit >= 0xd800 && unit <= 0xdbff && next >= 0xdc00 && next <= 0xdfff)
        return p + 2 * ESCAPE;
    if (unit == 0 || (unit >= 0xd800 && unit <= 0xdfff))
        memcpy(p, "\\ufffd", ESCAPE);
    return p + ESCAPE;
}

/* p: a number. One beyond a double becomes null, an integer beyond
 * json_int_t a real, as exact as a double can tell. */
static char *mend_number(char *p, const char *end)
{
    char text[512] = "";
    size_t len = 0;

    while (p + len < end && p[len] && strchr("+-.eE0123456789", p[len]))
        len++;
    if (len >= sizeof(text))
        return p + len;
    memcpy(text, p, len);
    if (isinf(strtod(text, NULL))) {
        memset(p, ' ', len);
        memcpy(p, "null", 4); /* no shorter number is that large */
    } else if (len > INTEGER_SAFE + (size_t)(*p == '-') &&
               !strpbrk(text, ".eE")) {
        memcpy(p + len - 2, "e2", 2);
    }
    return p + len;
}

static void mend(char *text, size_t len)
{
    char *end = text + len;
    bool quoted = false;

    for (char *p = text; p < end;) {
        if (quoted && *p == '\\') {
            p = mend_escape(p, end);
        } else if (!quoted && (*p == '-' || isdigit((unsigned char)*p))) {
            p = mend_number(p, end);
        } else {
            quoted ^= *p == '"';
            p++;
        }
    }
}

json_t *cli_json_load(const char *text, size_t len)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *value = json_loadb(text, len, flags, NULL);
    char *mended cleanup(mem_free) = NULL;

    if (value || len == 0)
        return value;
    mended = xmalloc(len);
    memcpy(mended, text, len);
    mend(mended, len);
    return json_loadb(mended, len, flags, NULL);
}
