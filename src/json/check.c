/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a text one well-formed JSON value, and not too deep, too many or too
 * long? Runs in the daemon on every foreign JSON before anything parses it,
 * and on JSON a session made before it is passed on. One pass, no recursion,
 * no allocation; the stack of brackets is an array.
 */
#include "json/json.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

const struct json_limits json_limits_body = {64, 10000, 64};
const struct json_limits json_limits_any = {JSON_DEPTH_CAP, SIZE_MAX, 400};

enum expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* just after [ */
    EXPECT_KEY,
    EXPECT_KEY_OR_END, /* just after { */
    EXPECT_COMMA_OR_END,
};

struct scan {
    const char *start, *at, *end;
    const struct json_limits *limits;
    struct error *err;
    enum expect expect;
    size_t members;
    unsigned depth;
    char open[JSON_DEPTH_CAP]; /* the brackets we are in */
};

static int bad(struct scan *s, const char *what)
{
    return error_set(s->err, ERR_INVALID, "not valid JSON: %s at byte %zu",
                     what, (size_t)(s->at - s->start));
}

static bool is_digit(const struct scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

static int scan_escape(struct scan *s)
{
    static const char hex[] = "0123456789abcdefABCDEF";

    s->at++; /* the backslash */
    if (s->at == s->end || *s->at == '\0' || !strchr("\"\\/bfnrtu", *s->at))
        return bad(s, "unknown escape");
    if (*s->at++ != 'u')
        return 0;
    for (int i = 0; i < 4; i++, s->at++)
        if (s->at == s->end || *s->at == '\0' || !strchr(hex, *s->at))
            return bad(s, "\\u needs four hex digits");
    return 0;
}

static int scan_string(struct scan *s)
{
    s->at++; /* the quote */
    while (s->at < s->end && *s->at != '"') {
        unsigned char c = (unsigned char)*s->at;

        if (c == '\\') {
            int r = scan_escape(s);

            if (r < 0)
                return r;
        } else if (c < 0x20) {
            return bad(s, "a control character in a string");
        } else if (c < 0x80) {
            s->at++;
        } else {
            size_t n = utf8_length(s->at, (size_t)(s->end - s->at));

            if (n == 0)
                return bad(s, "a string that is not UTF-8");
            s->at += n;
        }
    }
    if (s->at == s->end)
        return bad(s, "a string without end");
    s->at++;
    return 0;
}

static int scan_digits(struct scan *s)
{
    if (!is_digit(s))
        return bad(s, "a digit is missing");
    while (is_digit(s))
        s->at++;
    return 0;
}

static int scan_number(struct scan *s)
{
    const char *from = s->at;
    int r;

    if (*s->at == '-')
        s->at++;
    if (s->at < s->end && *s->at == '0')
        s->at++;
    else if ((r = scan_digits(s)) < 0)
        return r;
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if ((r = scan_digits(s)) < 0)
            return r;
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        if ((r = scan_digits(s)) < 0)
            return r;
    }
    if ((size_t)(s->at - from) > s->limits->number)
        return error_set(s->err, ERR_INVALID,
                         "a number in the JSON is longer than %zu characters",
                         s->limits->number);
    return 0;
}

static int scan_word(struct scan *s)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
            s->at += n;
            return 0;
        }
    }
    return bad(s, "a value is expected");
}

static int scan_open(struct scan *s)
{
    if (s->depth == s->limits->depth)
        return error_set(s->err, ERR_INVALID,
                         "the JSON is nested deeper than %u levels",
                         s->limits->depth);
    s->open[s->depth++] = *s->at;
    s->expect = *s->at == '{' ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    s->at++;
    return 0;
}

static int scan_close(struct scan *s)
{
    if (s->open[s->depth - 1] != (*s->at == '}' ? '{' : '['))
        return bad(s, "the wrong closing bracket");
    s->depth--;
    s->at++;
    s->expect = EXPECT_COMMA_OR_END;
    return 0;
}

static int scan_value(struct scan *s)
{
    char c = *s->at;

    if (++s->members > s->limits->members)
        return error_set(s->err, ERR_INVALID,
                         "the JSON has more than %zu values",
                         s->limits->members);
    if (c == '{' || c == '[')
        return scan_open(s);
    s->expect = EXPECT_COMMA_OR_END;
    if (c == '"')
        return scan_string(s);
    if (c == '-' || is_digit(s))
        return scan_number(s);
    return scan_word(s);
}

static void scan_space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' ||
                              *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static int scan_key(struct scan *s)
{
    int r;

    if (*s->at != '"')
        return bad(s, "a name in quotes is expected");
    r = scan_string(s);
    if (r < 0)
        return r;
    scan_space(s);
    if (s->at == s->end || *s->at != ':')
        return bad(s, "a colon is expected");
    s->at++;
    s->expect = EXPECT_VALUE;
    return 0;
}

static int scan_comma(struct scan *s)
{
    if (*s->at != ',')
        return bad(s, "a comma or a closing bracket is expected");
    s->at++;
    s->expect = s->open[s->depth - 1] == '{' ? EXPECT_KEY : EXPECT_VALUE;
    return 0;
}

static int scan_step(struct scan *s)
{
    bool closing = *s->at == '}' || *s->at == ']';

    switch (s->expect) {
    case EXPECT_VALUE_OR_END:
        return closing ? scan_close(s) : scan_value(s);
    case EXPECT_VALUE:
        return scan_value(s);
    case EXPECT_KEY_OR_END:
        return closing ? scan_close(s) : scan_key(s);
    case EXPECT_KEY:
        return scan_key(s);
    case EXPECT_COMMA_OR_END:
        return closing ? scan_close(s) : scan_comma(s);
    }
    return bad(s, "nonsense");
}

int json_check(const char *text, size_t len, const struct json_limits *limits,
               struct error *err)
{
    struct scan s = {.start = text,
                     .at = text,
                     .end = text + len,
                     .limits = limits,
                     .err = err,
                     .expect = EXPECT_VALUE};

    do {
        int r;

        scan_space(&s);
        if (s.at == s.end)
            return bad(&s, "it ends too early");
        r = scan_step(&s);
        if (r < 0)
            return r;
    } while (s.depth > 0);
    scan_space(&s);
    return s.at == s.end ? 0 : bad(&s, "something follows the value");
}
