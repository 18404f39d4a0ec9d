/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict parser for the framing of HTTP/1.1 requests (RFC 9112). It reads
 * the bytes of a connection before libmicrohttpd does (gate.c) and stops at
 * the first byte that two implementations could read in different ways, so
 * that libmicrohttpd, and any proxy in front of us, sees only messages with a
 * single meaning (H1). It also enforces the limits of a head (H3).
 *
 * The parser is a state machine over single bytes. It allocates nothing, does
 * no I/O and does not recurse; its state is a few hundred bytes for each
 * connection. Bodies are skipped, not looked at.
 */
#include "http/strict.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"
#include "base/mem.h"
#include "http/http_int.h"

enum state {
    /* the head */
    METHOD,
    TARGET,
    VERSION,
    LINE_LF,
    FIELD, /* the first byte of a header line, or of the empty line */
    NAME,
    VALUE,
    VALUE_LF,
    HEAD_LF,
    /* the body */
    BODY,
    SIZE,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    /* after a message that ends the connection; the rest is ignored */
    OVER,
};

/* Headers we know. `once`: it has one meaning only if it comes once, because
 * the doors read one value. `kept`: its value is looked at here. */
enum known {
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    EXPECT,
    CONNECTION,
    COOKIE,
    AUTHORIZATION,
};
static const struct {
    const char *name;
    bool once, kept;
} known[] = {
    [HOST] = {"host", true, true},
    [CONTENT_LENGTH] = {"content-length", true, true},
    [TRANSFER_ENCODING] = {"transfer-encoding", true, true},
    [EXPECT] = {"expect", true, true},
    [CONNECTION] = {"connection", false, true},
    [COOKIE] = {"cookie", false, false},
    [AUTHORIZATION] = {"authorization", true, false},
    {"api-key", true, false},
    {"x-api-key", true, false},
    {"x-ms-apikey", true, false},
    {"content-type", true, false},
    {"if-match", true, false},
    {"if-range", true, false},
    {"range", true, false},
    {"origin", true, false},
    {"last-event-id", true, false},
    {"mcp-protocol-version", true, false},
    {"mcp-session-id", true, false},
    {"idempotency-key", true, false},
    {"operation-id", true, false},
    {"x-glovebox-lock", true, false},
    {"x-share-password", true, false},
};

_Static_assert(ARRAY_SIZE(known) <= 32, "seen is a 32-bit set");

static bool refuse_message(struct http_strict *s, unsigned status,
                           const char *why)
{
    s->status = status;
    s->why = why;
    return false;
}

static bool refuse_malformed(struct http_strict *s, const char *why)
{
    return refuse_message(s, 400, why);
}

void http_strict_init(struct http_strict *s)
{
    *s = (struct http_strict){.state = METHOD};
}

bool http_strict_in_message(const struct http_strict *s)
{
    return (s->state >= BODY && s->state <= DATA_LF) || s->trailer;
}

/* ---- values ------------------------------------------------------------- */

static bool is_digits(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

/* host [ ":" port ] of RFC 3986, without user information. */
static bool is_host(const char *text)
{
    char copy[HTTP_STRICT_VALUE + 1];
    const char *port;
    size_t len;

    if (text[0] == '[') {
        struct in6_addr address;

        len = strcspn(text, "]");
        if (text[len] != ']')
            return false;
        memcpy(copy, text + 1, len - 1);
        copy[len - 1] = '\0';
        if (inet_pton(AF_INET6, copy, &address) != 1)
            return false;
        port = text + len + 1;
    } else {
        len = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~");
        if (len == 0 || len > 255)
            return false;
        port = text + len;
    }
    if (*port == '\0')
        return true;
    return *port == ':' && is_digits(port + 1) && strlen(port + 1) <= 5 &&
           strtoul(port + 1, NULL, 10) <= 65535;
}

/* Is the word one of a comma-separated list? */
static bool has_word(const char *list, const char *word)
{
    while (*list) {
        size_t len, end;

        list += strspn(list, " \t,");
        end = len = strcspn(list, ",");
        while (len > 0 && strchr(" \t", list[len - 1]))
            len--;
        if (len == strlen(word) && strncasecmp(list, word, len) == 0)
            return true;
        list += end;
    }
    return false;
}

/* ---- the request line --------------------------------------------------- */

static bool in_method(struct http_strict *s, unsigned char c)
{
    if (c == ' ' && s->line > 1) {
        s->state = TARGET;
        return true;
    }
    if (!http_is_token((char)c) || s->line > HTTP_METHOD_MAX)
        return refuse_malformed(
            s, "the request line does not begin with a method");
    return true;
}

/* The target began with something other than a slash: only a URL whose
 * authority is ours is accepted (absolute-form); c ends the authority or
 * belongs to it. */
static bool in_authority(struct http_strict *s, unsigned char c)
{
    static const char *const schemes[] = {"http://", "https://"};
    size_t scheme = 0;

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
        if (strncasecmp(s->value, schemes[i], strlen(schemes[i])) == 0)
            scheme = strlen(schemes[i]);
    if (scheme && strchr("/? ", c)) {
        if (!is_host(s->value + scheme))
            return refuse_malformed(s,
                                    "the request target names no valid host");
        memcpy(s->authority, s->value + scheme, s->value_len - scheme + 1);
        s->form = HTTP_ABSOLUTE_PATH;
        return true;
    }
    if (c == ' ' || s->value_len == HTTP_STRICT_VALUE)
        return refuse_malformed(
            s, "the request target must be a path that begins with "
               "'/'");
    s->value[s->value_len++] = (char)c;
    s->value[s->value_len] = '\0';
    return true;
}

static bool in_escape(struct http_strict *s, unsigned char c)
{
    int digit = hex_digit((char)c);

    if (digit < 0)
        return refuse_malformed(
            s, "a percent sign in the request target is not followed "
               "by two hexadecimal digits");
    if (s->escape == 1 && digit == 0 && s->escape_zero)
        return refuse_malformed(s,
                                "the request target contains an encoded NUL");
    s->escape_zero = digit == 0;
    s->escape--;
    return true;
}

static bool in_target(struct http_strict *s, unsigned char c)
{
    if (s->escape)
        return in_escape(s, c);
    if (c < ' ' || c == 0x7f || c == '#')
        return refuse_malformed(
            s, "the request target contains a control character or a "
               "fragment");
    if (s->form == HTTP_NO_TARGET) {
        s->form = c == '/' ? HTTP_ORIGIN : HTTP_ABSOLUTE;
        if (c == ' ')
            return refuse_malformed(
                s, "the request line has more than one space between "
                   "its parts");
    }
    if (s->form == HTTP_ABSOLUTE && !in_authority(s, c))
        return false;
    if (s->form == HTTP_ABSOLUTE)
        return true;
    if (c == ' ') {
        s->state = VERSION;
        s->version_len = 0;
    } else if (c == '%') {
        s->escape = 2;
    } else if (c == '?') {
        s->query = true;
    } else if (c == '&' && s->query && ++s->parameters == HTTP_QUERY_MAX) {
        return refuse_malformed(s, "the query has more than 32 parameters");
    }
    return true;
}

static bool in_version(struct http_strict *s, unsigned char c)
{
    static const char expected[] = "HTTP/1.";
    size_t at = s->version_len++;

    if (at < sizeof(expected) - 1 && c == (unsigned char)expected[at])
        return true;
    if (at == sizeof(expected) - 1 && (c == '0' || c == '1')) {
        s->minor = c - '0';
        return true;
    }
    if (at == sizeof(expected) && c == '\r') {
        s->state = LINE_LF;
        return true;
    }
    return refuse_malformed(
        s, "the request line does not end with HTTP/1.1 or HTTP/1.0");
}

/* ---- header lines ------------------------------------------------------- */

static bool start_field(struct http_strict *s, unsigned char c)
{
    unsigned most = s->trailer ? HTTP_TRAILERS_MAX : HTTP_HEADERS_MAX;

    if (c == '\r') {
        s->state = HEAD_LF;
        return true;
    }
    if (c == ' ' || c == '\t')
        return refuse_malformed(
            s, "a header line begins with a space: folded header lines "
               "are not accepted");
    if (!http_is_token((char)c))
        return refuse_malformed(
            s, "a header name contains a character that is not "
               "allowed");
    if (s->fields++ == most)
        return refuse_message(s, 431,
                              s->trailer ? "more than 16 trailer fields"
                                         : "more than 100 headers");
    s->state = NAME;
    s->line = 1;
    s->name[0] = (char)c;
    s->name_len = 1;
    return true;
}

static bool end_name(struct http_strict *s)
{
    s->field = ARRAY_SIZE(known);
    s->value_len = 0;
    s->value[0] = '\0';
    s->overflow = false;
    s->state = VALUE;
    if (s->name_len > sizeof(s->name))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strlen(known[i].name) == s->name_len &&
            strncasecmp(known[i].name, s->name, s->name_len) == 0)
            s->field = (uint8_t)i;
    if (s->field == ARRAY_SIZE(known))
        return true;
    if (s->trailer && (known[s->field].once || known[s->field].kept))
        return refuse_malformed(s,
                                "a trailer field changes what the head said");
    if (known[s->field].once && (s->seen & (1u << s->field)))
        return refuse_malformed(
            s, "a header that may be sent only once is repeated");
    s->seen |= 1u << s->field;
    return true;
}

static bool in_name(struct http_strict *s, unsigned char c)
{
    if (c == ':')
        return end_name(s);
    if (c == ' ' || c == '\t')
        return refuse_malformed(s, "a header name is followed by a space");
    if (!http_is_token((char)c))
        return refuse_malformed(
            s, "a header name contains a character that is not "
               "allowed");
    if (s->name_len < sizeof(s->name))
        s->name[s->name_len] = (char)c;
    s->name_len++;
    return true;
}

static bool in_value(struct http_strict *s, unsigned char c)
{
    if (c == '\r') {
        s->state = VALUE_LF;
        return true;
    }
    if ((c < ' ' && c != '\t') || c == 0x7f)
        return refuse_malformed(s,
                                "a header value contains a control character");
    if (s->field == COOKIE && (c == ';' || c == ',') &&
        ++s->cookies == HTTP_COOKIES_MAX)
        return refuse_message(s, 431, "more than 100 cookies");
    if (s->field == ARRAY_SIZE(known) || !known[s->field].kept)
        return true;
    if (s->value_len == 0 && (c == ' ' || c == '\t'))
        return true;
    if (s->value_len == HTTP_STRICT_VALUE) {
        s->overflow = true;
        return true;
    }
    s->value[s->value_len++] = (char)c;
    s->value[s->value_len] = '\0';
    return true;
}

/* Digits and nothing else, so that no other reader can find another number
 * in it. Spaces after it are not accepted either: libmicrohttpd refuses
 * them with a different answer. */
static bool end_length(struct http_strict *s)
{
    if (!is_digits(s->value))
        return refuse_malformed(s,
                                "the Content-Length is not a decimal number");
    if (s->value_len > 18)
        return refuse_malformed(s, "the Content-Length is too large");
    s->length = strtoull(s->value, NULL, 10);
    return true;
}

static bool end_value(struct http_strict *s)
{
    s->state = FIELD;
    if (s->overflow)
        return s->field == EXPECT
                   ? refuse_message(s, 417,
                                    "only Expect: 100-continue is supported")
                   : refuse_malformed(
                         s, "the value of a framing header is too long");
    switch (s->field) {
    case HOST:
        if (!is_host(s->value))
            return refuse_malformed(
                s, "the Host header is not a valid host and port");
        memcpy(s->host, s->value, s->value_len + 1);
        return true;
    case CONTENT_LENGTH:
        return end_length(s);
    case TRANSFER_ENCODING:
        if (strcasecmp(s->value, "chunked") != 0)
            return refuse_malformed(
                s, "the only supported transfer coding is chunked");
        s->chunked = true;
        return true;
    case EXPECT:
        if (strcasecmp(s->value, "100-continue") != 0)
            return refuse_message(s, 417,
                                  "only Expect: 100-continue is supported");
        return true;
    case CONNECTION:
        s->close |= has_word(s->value, "close");
        s->keep |= has_word(s->value, "keep-alive");
        return true;
    default:
        return true;
    }
}

static void end_message(struct http_strict *s)
{
    if (s->close || (s->minor == 0 && !s->keep))
        s->state = OVER;
    else
        *s = (struct http_strict){.state = METHOD, .heads = s->heads};
}

static bool end_head(struct http_strict *s)
{
    bool has_length = s->seen & (1u << CONTENT_LENGTH);

    if (s->trailer) {
        s->trailer = false;
        end_message(s);
        return true;
    }
    if (s->minor == 1 && !(s->seen & (1u << HOST)))
        return refuse_malformed(s, "the Host header is missing");
    if (s->authority[0] && s->host[0] &&
        strcasecmp(s->authority, s->host) != 0)
        return refuse_malformed(
            s, "the request target and the Host header name different "
               "hosts");
    if (s->chunked && has_length)
        return refuse_malformed(
            s, "both Content-Length and Transfer-Encoding are present");
    if (s->chunked && s->minor == 0)
        return refuse_malformed(s, "HTTP/1.0 has no Transfer-Encoding");
    s->heads++;
    if (s->chunked) {
        s->state = SIZE;
        s->digits = 0;
        s->left = 0;
    } else if (s->length > 0) {
        s->state = BODY;
        s->left = s->length;
    } else {
        end_message(s);
    }
    return true;
}

/* Limits of header lines, line ends not counted. */
static bool check_field_size(struct http_strict *s)
{
    bool credential = s->state != NAME && s->field == AUTHORIZATION;
    size_t one = credential ? HTTP_CREDENTIAL_BYTES : HTTP_HEADER_BYTES;
    size_t all = s->trailer ? HTTP_TRAILER_BYTES : HTTP_HEADERS_BYTES;

    if (s->line > one)
        return refuse_message(s, 431,
                              credential
                                  ? "the Authorization header is longer than "
                                    "24576 bytes"
                                  : "a header is longer than 8192 bytes");
    if (++s->bytes > all)
        return refuse_message(s, 431,
                              s->trailer
                                  ? "the trailer is longer than 4096 bytes"
                                  : "the headers are longer than 32768 bytes "
                                    "in all");
    return true;
}

/* ---- chunks ------------------------------------------------------------- */

/* Chunk extensions are refused although they may be ignored: no known
 * client sends them, and libmicrohttpd 1.0.1 takes the line feed after one for
 * the first byte of the chunk. */
static bool in_size(struct http_strict *s, unsigned char c)
{
    int digit = hex_digit((char)c);

    if (digit >= 0 && s->digits < 15) {
        s->digits++;
        s->left = s->left * 16 + (unsigned)digit;
        return true;
    }
    if (s->digits > 0 && c == '\r') {
        s->state = SIZE_LF;
        return true;
    }
    if (s->digits > 0 && c == ';')
        return refuse_malformed(s, "chunk extensions are not accepted");
    return refuse_malformed(s,
                            "the size of a chunk is malformed or too large");
}

static void start_data(struct http_strict *s)
{
    if (s->left > 0) {
        s->state = DATA;
        return;
    }
    s->state = FIELD;
    s->trailer = true;
    s->fields = 0;
    s->bytes = 0;
}

/* ---- one byte after the other ------------------------------------------- */

static bool expect_byte(struct http_strict *s, unsigned char c, char wanted)
{
    if (c == (unsigned char)wanted)
        return true;
    if (s->state == DATA_CR || s->state == DATA_LF)
        return refuse_malformed(s, "a chunk is not followed by a line end");
    return refuse_malformed(
        s, "a carriage return is not followed by a line feed");
}

static bool in_request_line(struct http_strict *s, unsigned char c)
{
    if (++s->line > HTTP_REQUEST_LINE_MAX && c != '\r')
        return refuse_message(s, 414,
                              "the request line is longer than 8192 bytes");
    switch (s->state) {
    case METHOD:
        return in_method(s, c);
    case TARGET:
        return in_target(s, c);
    default:
        return in_version(s, c);
    }
}

static bool in_field(struct http_strict *s, unsigned char c)
{
    if (s->state != FIELD && c != '\r') {
        s->line++;
        if (!check_field_size(s))
            return false;
    }
    switch (s->state) {
    case FIELD:
        s->bytes += c != '\r'; /* cannot be the one too many: see below */
        return start_field(s, c);
    case NAME:
        return in_name(s, c);
    default:
        return in_value(s, c);
    }
}

static bool in_line_end(struct http_strict *s, unsigned char c)
{
    uint8_t state = s->state;

    if (!expect_byte(s, c, state == DATA_CR ? '\r' : '\n'))
        return false;
    switch (state) {
    case VALUE_LF:
        return end_value(s);
    case HEAD_LF:
        return end_head(s);
    case SIZE_LF:
        start_data(s);
        return true;
    case DATA_CR:
        s->state = DATA_LF;
        return true;
    case DATA_LF:
        s->state = SIZE;
        s->digits = 0;
        s->left = 0;
        return true;
    default: /* LINE_LF */
        s->state = FIELD;
        return true;
    }
}

static bool parse_byte(struct http_strict *s, unsigned char c)
{
    switch (s->state) {
    case METHOD:
    case TARGET:
    case VERSION:
        return in_request_line(s, c);
    case FIELD:
    case NAME:
    case VALUE:
        return in_field(s, c);
    case SIZE:
        return in_size(s, c);
    default:
        return in_line_end(s, c);
    }
}

/* Bytes of a body at once. Returns how many there were. */
static size_t skip_body(struct http_strict *s, size_t len)
{
    size_t n = (size_t)MIN(s->left, (uint64_t)len);

    s->left -= n;
    if (s->left > 0)
        return n;
    if (s->state == DATA)
        s->state = DATA_CR;
    else
        end_message(s);
    return n;
}

size_t http_strict_feed(struct http_strict *s, const char *bytes, size_t len)
{
    size_t at = 0;

    while (at < len && !s->status && s->state != OVER) {
        if (s->state == BODY || s->state == DATA)
            at += skip_body(s, len - at);
        else if (parse_byte(s, (unsigned char)bytes[at]))
            at++;
    }
    return at;
}
