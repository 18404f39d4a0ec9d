/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests and answers; see http.h. Runs in glovebox-egress. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "egress/http.h"

#define LENGTH_DIGITS_MAX 15u

static const struct {
    const char *name;
    uint32_t bit;
} methods[] = {
    {"GET", EGRESS_GET},         {"HEAD", EGRESS_HEAD},
    {"POST", EGRESS_POST},       {"PUT", EGRESS_PUT},
    {"PATCH", EGRESS_PATCH},     {"DELETE", EGRESS_DELETE},
    {"OPTIONS", EGRESS_OPTIONS},
};

ssize_t egress_head_end(const char *bytes, size_t len)
{
    size_t most = MIN(len, HTTP_HEAD_MAX);
    const char *at = bytes, *end = bytes + most;

    if (!len) /* of a connection that has said nothing, bytes is NULL */
        return 0;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        if (at == bytes || at[-1] != '\r')
            return -EBADMSG;
        if (at - bytes >= 3 && at[-2] == '\n')
            return at - bytes + 1;
        if (at - bytes == 1) /* an empty line where a head should begin */
            return -EBADMSG;
        at++;
    }
    return len > HTTP_HEAD_MAX ? -EMSGSIZE : 0;
}

static bool is_token(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.at[i];

        if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c))
            return false;
    }
    return s.len > 0;
}

static bool is_value(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.at[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

bool egress_head_is(struct span s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.at, word, s.len) == 0;
}

uint32_t egress_head_method(struct span method)
{
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
        if (method.len == strlen(methods[i].name) &&
            memcmp(method.at, methods[i].name, method.len) == 0)
            return methods[i].bit;
    return 0;
}

const struct http_field *egress_head_field(const struct http_head *h,
                                           const char *name)
{
    for (size_t i = 0; i < h->field_count; i++)
        if (egress_head_is(h->fields[i].name, name))
            return &h->fields[i];
    return NULL;
}

static size_t count_fields(const struct http_head *h, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < h->field_count; i++)
        n += egress_head_is(h->fields[i].name, name);
    return n;
}

static struct span trim_span(struct span s)
{
    while (s.len && (s.at[0] == ' ' || s.at[0] == '\t'))
        s.at++, s.len--;
    while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* The lines after the first, up to the empty one. */
static const char *parse_fields(const char *at, const char *end,
                                struct http_head *ret)
{
    while (end - at > 2) {
        const char *stop = memchr(at, '\r', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(end - at));
        struct http_field f;

        if (!stop || stop + 1 >= end || stop[1] != '\n')
            return "a line has a CR without an LF";
        if (!colon || colon > stop)
            return "a line is not a header";
        f.name = (struct span){at, (size_t)(colon - at)};
        f.value =
            trim_span((struct span){colon + 1, (size_t)(stop - colon - 1)});
        if (!is_token(f.name)) /* also what is folded, or has a blank */
            return "a header's name has a character it must not have";
        if (!is_value(f.value))
            return "a header's value has a control character";
        if (ret->field_count == HTTP_FIELDS_MAX)
            return "it has too many headers";
        ret->fields[ret->field_count++] = f;
        at = stop + 2;
    }
    return NULL;
}

static const char *parse_length(struct span s, uint64_t *ret)
{
    uint64_t v = 0;

    if (!s.len || s.len > LENGTH_DIGITS_MAX)
        return "its Content-Length is not a number we take";
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return "its Content-Length is not a number we take";
        v = v * 10 + (uint64_t)(s.at[i] - '0');
    }
    *ret = v;
    return NULL;
}

/* Where the body ends must be said once, in one way. */
static const char *parse_framing(struct http_head *h)
{
    const struct http_field *length = egress_head_field(h, "Content-Length");
    const struct http_field *coding =
        egress_head_field(h, "Transfer-Encoding");

    if (count_fields(h, "Content-Length") > 1 ||
        count_fields(h, "Transfer-Encoding") > 1)
        return "it gives its length twice";
    if (length && coding)
        return "it has both Content-Length and Transfer-Encoding";
    h->framing = HTTP_BODY_NONE;
    if (coding) {
        if (h->minor == 0 || !egress_head_is(coding->value, "chunked"))
            return "its Transfer-Encoding is not 'chunked'";
        h->framing = HTTP_BODY_CHUNKED;
    } else if (length) {
        const char *why = parse_length(length->value, &h->length);

        if (why)
            return why;
        h->framing = HTTP_BODY_LENGTH;
    }
    return NULL;
}

static bool parse_version(struct span s, unsigned *ret_minor)
{
    if (s.len != 8 || memcmp(s.at, "HTTP/1.", 7) != 0 ||
        (s.at[7] != '0' && s.at[7] != '1'))
        return false;
    *ret_minor = (unsigned)(s.at[7] - '0');
    return true;
}

const char *egress_head_request(const char *bytes, size_t len,
                                struct http_head *ret)
{
    const char *line = memchr(bytes, '\r', len), *a, *b, *why;
    const struct http_field *expect;

    *ret = (struct http_head){0};
    if (!line || line + 1 >= bytes + len || line[1] != '\n')
        return "its first line is not a request";
    a = memchr(bytes, ' ', (size_t)(line - bytes));
    b = a ? memchr(a + 1, ' ', (size_t)(line - a - 1)) : NULL;
    if (!b)
        return "its first line is not a request";
    ret->method = (struct span){bytes, (size_t)(a - bytes)};
    ret->target = (struct span){a + 1, (size_t)(b - a - 1)};
    if (!is_token(ret->method) || ret->method.len > HTTP_METHOD_MAX ||
        !ret->target.len)
        return "its first line is not a request";
    if (!parse_version((struct span){b + 1, (size_t)(line - b - 1)},
                       &ret->minor))
        return "it is not HTTP/1.1";
    why = parse_fields(line + 2, bytes + len, ret);
    if (!why)
        why = parse_framing(ret);
    if (why)
        return why;
    if (count_fields(ret, "Host") > 1 ||
        (ret->minor == 1 && !egress_head_field(ret, "Host")))
        return "it must have one Host header";
    ret->upgrade = egress_head_field(ret, "Upgrade") != NULL;
    expect = egress_head_field(ret, "Expect");
    if (expect && !egress_head_is(expect->value, "100-continue"))
        return "it expects something else than 100-continue";
    ret->expect = expect != NULL;
    return NULL;
}

const char *egress_head_answer(const char *bytes, size_t len,
                               bool head_request, struct http_head *ret)
{
    const char *line = memchr(bytes, '\r', len), *why;
    const char *digits = bytes + 9;

    *ret = (struct http_head){0};
    if (!line || line - bytes < 12 || line[1] != '\n' ||
        !parse_version((struct span){bytes, 8}, &ret->minor) ||
        bytes[8] != ' ' || (line - bytes > 12 && bytes[12] != ' '))
        return "its first line is not an answer";
    for (size_t i = 0; i < 3; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return "its status is not a number";
        ret->status = ret->status * 10 + (unsigned)(digits[i] - '0');
    }
    if (ret->status < 100 || ret->status > 599)
        return "its status is not one";
    if (!is_value((struct span){bytes, (size_t)(line - bytes)}))
        return "its first line has a control character";
    why = parse_fields(line + 2, bytes + len, ret);
    if (!why)
        why = parse_framing(ret);
    if (why)
        return why;
    if (head_request || ret->status < 200 || ret->status == 204 ||
        ret->status == 304)
        ret->framing = HTTP_BODY_NONE;
    else if (ret->framing == HTTP_BODY_NONE)
        ret->framing = HTTP_BODY_CLOSE;
    return NULL;
}

/* Is name in a comma-separated list? */
static bool connection_lists(struct span list, struct span name)
{
    while (list.len) {
        const char *comma = memchr(list.at, ',', list.len);
        size_t part = comma ? (size_t)(comma - list.at) : list.len;
        struct span word = trim_span((struct span){list.at, part});

        if (word.len == name.len &&
            strncasecmp(word.at, name.at, word.len) == 0)
            return true;
        part += comma != NULL;
        list.at += part;
        list.len -= part;
    }
    return false;
}

bool egress_head_hop(const struct http_head *h, struct span name)
{
    static const char *const hops[] = {
        "Connection", "Keep-Alive",        "TE",
        "Trailer",    "Transfer-Encoding", "Upgrade",
        "Expect",     "HTTP2-Settings",    "Content-Length",
    };

    for (size_t i = 0; i < ARRAY_SIZE(hops); i++)
        if (egress_head_is(name, hops[i]))
            return true;
    if (name.len >= 6 && strncasecmp(name.at, "Proxy-", 6) == 0)
        return true;
    for (size_t i = 0; i < h->field_count; i++)
        if (egress_head_is(h->fields[i].name, "Connection") &&
            connection_lists(h->fields[i].value, name))
            return true;
    return false;
}
