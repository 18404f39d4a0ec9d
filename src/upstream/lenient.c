/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON of a model's server. Servers cut characters and surrogate pairs in two
 * and send control characters; that is repaired, since the rest is usable.
 * Depth and number of members are bounded before jansson sees the text. Runs
 * in glovebox-model.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "upstream/upstream_int.h"
#include "json/json.h"

static const struct json_limits limits = {64, 400000, 64};

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
           (c >= 'A' && c <= 'F');
}

/* The value of "\uXXXX" at text, or -1. */
static int32_t unit(const char *text, size_t len)
{
    int32_t v = 0;

    if (len < 6 || text[0] != '\\' || text[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        if (!is_hex(text[i]))
            return -1;
        v = v * 16 +
            (text[i] <= '9' ? text[i] - '0' : (text[i] | 32) - 'a' + 10);
    }
    return v;
}

/* Copies one escape sequence; returns the bytes read. */
static size_t copy_escape(const char *text, size_t len, struct buf *out)
{
    int32_t high = unit(text, len), low;

    if (high < 0) {
        size_t n = MIN(len, (size_t)2);

        buf_add(out, text, n);
        return n;
    }
    if (high < 0xd800 || high > 0xdfff) {
        buf_add(out, text, 6);
        return 6;
    }
    low = high < 0xdc00 ? unit(text + 6, len - 6) : -1;
    if (low >= 0xdc00 && low <= 0xdfff) {
        buf_add(out, text, 12);
        return 12;
    }
    buf_adds(out, "\\ufffd");
    return 6;
}

static void repair(const char *text, size_t len, struct buf *out)
{
    bool quoted = false;

    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        size_t n;

        if (quoted && c == '\\') {
            i += copy_escape(text + i, len - i, out);
            continue;
        }
        if (c == '"')
            quoted = !quoted;
        if (quoted && c < 0x20) {
            buf_addf(out, "\\u%04x", c);
            i++;
            continue;
        }
        n = utf8_length(text + i, len - i);
        if (n == 0) {
            buf_adds(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        buf_add(out, text + i, n);
        i += n;
    }
}

static json_t *parse(const char *text, size_t len)
{
    struct error ignored;

    return json_check(text, len, &limits, &ignored) < 0
               ? NULL
               : json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

json_t *upstream_json(const char *text, size_t len)
{
    struct buf fixed cleanup(buf_done) = {0};
    json_t *value = parse(text, len);

    if (value)
        return value;
    buf_adds(&fixed, "");
    repair(text, len, &fixed);
    return parse(fixed.data, fixed.len);
}

const char *upstream_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

uint64_t upstream_number(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    double d = json_is_number(v) ? json_number_value(v) : 0;

    return d > 0 && d < 1e15 ? (uint64_t)d : 0;
}
