/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for and from models: paths they name, output cut to what they should
 * read, words for the shell, file name patterns. Pure; runs on workers of the
 * daemon and in tests.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "doors/mcp/tool.h"

#define ROOT "/mnt/data"

/* ---- paths -------------------------------------------------------------- */

/* Without what only says that it is below /mnt/data; NULL: it is not. */
static const char *strip_prefix(const char *text)
{
    static const char sandbox[] = "sandbox:";
    size_t len = strlen(ROOT);

    if (strncmp(text, sandbox, strlen(sandbox)) == 0)
        text += strlen(sandbox);
    if (text[0] == '/') {
        if (strncmp(text, ROOT, len) != 0 ||
            (text[len] != '/' && text[len] != '\0'))
            return NULL;
        text += len;
        text += strspn(text, "/");
    }
    while (strncmp(text, "./", 2) == 0)
        text += 2 + strspn(text + 2, "/");
    return strcmp(text, ".") == 0 ? "" : text;
}

static int refuse_path(struct error *err, const char *why)
{
    (void)error_set(err, ERR_INVALID, "the path %s", why);
    return error_hint(err, "Name files by their path below /mnt/data, for "
                           "example results/chart.png.");
}

int tool_folder(struct arena *arena, const char *text, const char **ret,
                struct error *err)
{
    const char *path = strip_prefix(text);
    const char *fault;
    size_t len;

    if (!path)
        return refuse_path(err, "leads outside /mnt/data");
    len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    fault = len ? path_fault(path, len) : NULL;
    if (fault)
        return refuse_path(err, fault);
    *ret = arena_strndup(arena, path, len);
    return 0;
}

int tool_path(struct arena *arena, const char *text, const char **ret,
              struct error *err)
{
    const char *path = strip_prefix(text);
    const char *fault;

    if (!path)
        return refuse_path(err, "leads outside /mnt/data");
    fault = path_fault(path, strlen(path));
    if (fault)
        return refuse_path(err, fault);
    *ret = arena_strdup(arena, path);
    return 0;
}

/* ---- cutting ------------------------------------------------------------ */

static size_t utf8_step(const char *text, size_t len)
{
    size_t n = utf8_length(text, len);

    return n ? n : 1;
}

size_t tool_text_chars(const char *text, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i += utf8_step(text + i, len - i))
        count++;
    return count;
}

size_t tool_text_offset(const char *text, size_t len, size_t n)
{
    size_t i = 0;

    while (i < len && n-- > 0)
        i += utf8_step(text + i, len - i);
    return i;
}

size_t tool_text_cut(struct buf *out, const char *text, size_t len,
                     size_t most, const char *file)
{
    size_t chars = tool_text_chars(text, len), head, tail;

    if (chars <= most) {
        buf_add(out, text, len);
        return 0;
    }
    head = tool_text_offset(text, len, most / 2);
    tail = tool_text_offset(text, len, chars - (most - most / 2));
    buf_add(out, text, head);
    buf_addf(out, "\n[… %zu characters are left out here", chars - most);
    if (file)
        buf_addf(out, "; all of it is in " ROOT "/%s", file);
    buf_adds(out, " …]\n");
    buf_add(out, text + tail, len - tail);
    return chars - most;
}

/* ---- the shell ---------------------------------------------------------- */

void tool_text_quote(struct buf *out, const char *text)
{
    buf_adds(out, "'");
    for (const char *at = text; *at; at++) {
        if (*at == '\'')
            buf_adds(out, "'\\''");
        else
            buf_add(out, at, 1);
    }
    buf_adds(out, "'");
}

/* ---- patterns ----------------------------------------------------------- */

/* One character of text against one unit of the pattern; *ret_used: how long
 * the unit is. A set that is not closed is a plain "[". */
static bool match_unit(const char *p, char c, size_t *ret_used)
{
    const char *at = p + 1, *end;
    bool negate, found = false;

    *ret_used = 1;
    if (*p == '?')
        return c != '/';
    if (*p == '\\' && p[1]) {
        *ret_used = 2;
        return c == p[1];
    }
    if (*p != '[')
        return c == *p;
    negate = *at == '!' || *at == '^';
    at += negate;
    end = strchr(at + (*at == ']'), ']');
    if (!end || !*at)
        return c == '[';
    *ret_used = (size_t)(end - p) + 1;
    for (; at < end; at++) {
        if (at[1] == '-' && at + 2 < end) {
            found |= (unsigned char)at[0] <= (unsigned char)c &&
                     (unsigned char)c <= (unsigned char)at[2];
            at += 2;
        } else {
            found |= *at == c;
        }
    }
    return found != negate && c != '/';
}

/* Where to go on after a mismatch: the star gives one more character away. */
struct retry {
    const char *pattern, *text;
};

/* "*" retries within its part, "**" across parts; the later star is tried
 * first, and passing a later "**" forgets all before it, which is right
 * because what it matches could be anything. */
static bool match_pattern(const char *p, const char *t)
{
    struct retry star = {NULL, NULL}, stars = {NULL, NULL};

    while (*t || *p) {
        size_t used;

        if (p[0] == '*' && p[1] == '*') {
            p += strspn(p, "*");
            if (*p == '/') /* "**" and its "/" may be nothing at all */
                p++;
            stars = (struct retry){p, t};
            star = (struct retry){NULL, NULL};
            continue;
        }
        if (*p == '*') {
            star = (struct retry){++p, t};
            continue;
        }
        if (*p && *t && match_unit(p, *t, &used)) {
            p += used;
            t++;
            continue;
        }
        if (star.pattern && *star.text && *star.text != '/') {
            p = star.pattern;
            t = ++star.text;
        } else if (stars.pattern && *stars.text) {
            p = stars.pattern;
            t = ++stars.text;
            star = (struct retry){NULL, NULL};
        } else {
            return false;
        }
    }
    return true;
}

bool tool_text_match(const char *pattern, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!strchr(pattern, '/') && slash)
        path = slash + 1;
    return match_pattern(pattern, path);
}
