/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the last expression's value becomes in JSON, by the one rule that
 * fits all that is known of the service: what the interpreter shows is a
 * number if it reads as one, the content if it is a quoted text, else itself.
 * The service has numpy 1, which shows its numbers bare; numpy 2 shows
 * np.float64(1.5), and clients compare with a number all the same.
 * Pure; the text is a session's and may be anything.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define NUMBER_MAX 4300u /* digits; clients refuse to read longer ones */

/* ---- numbers ------------------------------------------------------------ */

static size_t digits(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool is_number(const char *text, size_t len)
{
    size_t at = len && text[0] == '-', n;

    if (len > NUMBER_MAX)
        return false;
    n = digits(text + at, len - at);
    if (n == 0 || (n > 1 && text[at] == '0'))
        return false;
    at += n;
    if (at < len && text[at] == '.') {
        n = digits(text + at + 1, len - at - 1);
        if (n == 0)
            return false;
        at += n + 1;
    }
    if (at < len && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        at += at < len && (text[at] == '+' || text[at] == '-');
        n = digits(text + at, len - at);
        if (n == 0)
            return false;
        at += n;
    }
    return at == len;
}

/* What stands inside of np.int64(…), np.float32(…) and their like. */
static void unwrap_number(const char **text, size_t *len)
{
    static const char *const types[] = {"np.int", "np.uint", "np.float"};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        size_t at = strlen(types[i]);

        if (*len <= at || memcmp(*text, types[i], at) != 0)
            continue;
        at += digits(*text + at, *len - at);
        if (at + 2 < *len && (*text)[at] == '(' && (*text)[*len - 1] == ')' &&
            is_number(*text + at + 1, *len - at - 2)) {
            *text += at + 1;
            *len -= at + 2;
        }
        return;
    }
}

/* ---- quoted texts ------------------------------------------------------- */

static void add_character(struct buf *out, uint32_t c)
{
    char bytes[4];

    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd; /* half a pair has no UTF-8 */
    if (c < 0x80) {
        bytes[0] = (char)c;
        buf_add(out, bytes, 1);
    } else if (c < 0x800) {
        bytes[0] = (char)(0xc0 | c >> 6);
        bytes[1] = (char)(0x80 | (c & 0x3f));
        buf_add(out, bytes, 2);
    } else if (c < 0x10000) {
        bytes[0] = (char)(0xe0 | c >> 12);
        bytes[1] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (c & 0x3f));
        buf_add(out, bytes, 3);
    } else {
        bytes[0] = (char)(0xf0 | c >> 18);
        bytes[1] = (char)(0x80 | (c >> 12 & 0x3f));
        bytes[2] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[3] = (char)(0x80 | (c & 0x3f));
        buf_add(out, bytes, 4);
    }
}

/* So many hex digits; false when they are not there. */
static bool take_hex(const char *text, size_t len, size_t count, uint32_t *ret)
{
    uint32_t value = 0;

    if (len < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        char c = text[i];

        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            value = value << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return false;
    }
    *ret = value;
    return true;
}

/* What follows a backslash; returns its length, 0 when it is none that
 * Python's repr() writes. */
static size_t take_escape(const char *text, size_t len, struct buf *out)
{
    static const char names[] = "\\'\"nrt", values[] = "\\'\"\n\r\t";
    const char *at = len && text[0] ? strchr(names, text[0]) : NULL;
    size_t count = 0;
    uint32_t c;

    if (at) {
        buf_add(out, &values[at - names], 1);
        return 1;
    }
    if (len)
        count = text[0] == 'x'   ? 2
                : text[0] == 'u' ? 4
                : text[0] == 'U' ? 8
                                 : 0;
    if (!count || !take_hex(text + 1, len - 1, count, &c))
        return 0;
    add_character(out, c);
    return count + 1;
}

/* One quoted text and nothing else? */
static bool take_quoted(const char *text, size_t len, struct buf *out)
{
    char quote = len >= 2 ? text[0] : '\0';

    if ((quote != '\'' && quote != '"') || text[len - 1] != quote)
        return false;
    for (size_t i = 1; i < len - 1;) {
        size_t n;

        if (text[i] == quote)
            return false;
        if (text[i] != '\\') {
            buf_add(out, text + i++, 1);
            continue;
        }
        /* The last quote must not be the escaped one. */
        n = take_escape(text + i + 1, len - 1 - (i + 1), out);
        if (n == 0)
            return false;
        i += n + 1;
    }
    return true;
}

void azure_value_write(struct json_writer *w, const char *key,
                       const char *text, size_t len)
{
    struct buf content cleanup(buf_done) = {0};

    unwrap_number(&text, &len);
    if (is_number(text, len))
        json_write_raw(w, key, text, len);
    else if (take_quoted(text, len, &content))
        json_write_text(w, key, content.data ? content.data : "", content.len);
    else
        json_write_text(w, key, text, len);
}

size_t azure_value_cut(const char *text, size_t len, int64_t max)
{
    size_t at = 0;

    if (max < 0)
        return len;
    while (at < len && max-- > 0) {
        size_t n = utf8_length(text + at, len - at);

        at += n ? n : 1;
    }
    return at;
}
