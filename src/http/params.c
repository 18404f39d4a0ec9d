/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of a header: first word; name=token; name="text". As standards
 * have them, and as clients write them all the same. Runs on any thread.
 */
#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "http/http_int.h"

bool http_is_token(char c)
{
    return isascii(c) && (isalnum(c) || strchr("!#$%&'*+-.^_`|~", c)) && c;
}

/* Before a quote or another one a backslash is an escape, elsewhere it stands
 * for itself: clients differ. */
static bool is_escape(const char *p)
{
    return p[0] == '\\' && (p[1] == '"' || p[1] == '\\');
}

/* How browsers, and those that do as they do, write what a quoted text cannot
 * hold; 0: nothing of that. */
static char percent_escape(const char *p)
{
    static const struct {
        const char *text;
        char means;
    } known[] = {{"%22", '"'}, {"%0d", '\r'}, {"%0a", '\n'}};

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strncasecmp(p, known[i].text, 3) == 0)
            return known[i].means;
    return 0;
}

/* Text in quotes at *p, behind the first one; NULL when it has no end. */
static char *take_quoted(struct arena *arena, const char **p)
{
    const char *from = *p, *end = from;
    char *text, *out;

    while (*end && *end != '"')
        end += is_escape(end) ? 2 : 1;
    if (!*end)
        return NULL;
    *p = end + 1;
    text = out = arena_alloc(arena, (size_t)(end - from) + 1);
    while (from < end) {
        char c = percent_escape(from);

        if (c) {
            *out++ = c;
            from += 3;
            continue;
        }
        from += is_escape(from);
        *out++ = *from++;
    }
    return text;
}

/* Of a value without quotes: more than the standard's, as clients do it. */
static bool is_plain(char c)
{
    return http_is_token(c) || !isascii(c) || (c && strchr("/:?=()@,[]", c));
}

bool http_param_find(struct arena *arena, const char *text, const char *name,
                     const char **ret)
{
    const char *p = text + strcspn(text, ";");

    *ret = NULL;
    while (*p) {
        const char *key, *value;
        size_t len;

        p++; /* the semicolon */
        p += strspn(p, " \t");
        key = p;
        while (http_is_token(*p))
            p++;
        len = (size_t)(p - key);
        if (len == 0 || *p++ != '=')
            return false;
        if (*p == '"') {
            p++;
            value = take_quoted(arena, &p);
            if (!value)
                return false;
        } else {
            const char *from = p;

            while (is_plain(*p))
                p++;
            value = arena_strndup(arena, from, (size_t)(p - from));
        }
        if (len == strlen(name) && strncasecmp(key, name, len) == 0) {
            if (*ret)
                return false;
            *ret = value;
        }
        p += strspn(p, " \t");
        if (*p && *p != ';')
            return false;
    }
    return true;
}
