/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a body ends; see http.h. Chunks are checked and passed on as they
 * are: no extensions, no trailers, no more digits than a length has. Runs in
 * glovebox-egress; resumes at any byte.
 */
#include <errno.h>

#include "base/hex.h"
#include "base/mem.h"
#include "egress/http.h"

#define CHUNK_DIGITS_MAX 12u

enum chunk_state {
    CHUNK_SIZE,    /* digits, at least one */
    CHUNK_SIZE_LF, /* after the CR of the size */
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_END_CR, /* after the size 0: the empty line */
    CHUNK_END_LF,
};

void egress_body_init(struct http_body *b, enum http_framing framing,
                      uint64_t length)
{
    *b = (struct http_body){.framing = framing};
    if (framing == HTTP_BODY_LENGTH)
        b->left = length;
    b->done = framing == HTTP_BODY_NONE ||
              (framing == HTTP_BODY_LENGTH && length == 0);
}

static bool size_byte(struct http_body *b, char c)
{
    int digit = hex_digit(c);

    if (digit >= 0 && b->digits < CHUNK_DIGITS_MAX) {
        b->left = b->left * 16 + (unsigned)digit;
        b->digits++;
        return true;
    }
    b->state = CHUNK_SIZE_LF;
    return c == '\r' && b->digits > 0;
}

/* One byte that is not data. */
static bool frame_byte(struct http_body *b, char c)
{
    switch ((enum chunk_state)b->state) {
    case CHUNK_SIZE:
        return size_byte(b, c);
    case CHUNK_SIZE_LF:
        b->state = b->left ? CHUNK_DATA : CHUNK_END_CR;
        return c == '\n';
    case CHUNK_DATA_CR:
        b->state = CHUNK_DATA_LF;
        return c == '\r';
    case CHUNK_DATA_LF:
        b->state = CHUNK_SIZE;
        b->digits = 0;
        return c == '\n';
    case CHUNK_END_CR:
        b->state = CHUNK_END_LF;
        return c == '\r';
    case CHUNK_END_LF:
        b->done = true;
        return c == '\n';
    case CHUNK_DATA:
        break;
    }
    return false;
}

static ssize_t take_chunked(struct http_body *b, const char *bytes, size_t len)
{
    size_t i = 0;

    while (i < len && !b->done) {
        if (b->state == CHUNK_DATA) {
            size_t n = MIN(b->left, (uint64_t)(len - i));

            i += n;
            b->left -= n;
            if (b->left == 0)
                b->state = CHUNK_DATA_CR;
        } else if (!frame_byte(b, bytes[i++])) {
            return -EBADMSG;
        }
    }
    return (ssize_t)i;
}

size_t egress_body_run(const struct http_body *b, size_t len)
{
    return b->state == CHUNK_DATA ? (size_t)MIN(b->left, (uint64_t)len) : 0;
}

ssize_t egress_body_take(struct http_body *b, const char *bytes, size_t len)
{
    size_t n;

    if (b->done)
        return 0;
    switch (b->framing) {
    case HTTP_BODY_NONE:
        return 0;
    case HTTP_BODY_CLOSE:
        return (ssize_t)len;
    case HTTP_BODY_CHUNKED:
        return take_chunked(b, bytes, len);
    case HTTP_BODY_LENGTH:
        break;
    }
    n = MIN(b->left, (uint64_t)len);
    b->left -= n;
    b->done = b->left == 0;
    return (ssize_t)n;
}
