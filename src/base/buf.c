/* SPDX-License-Identifier: Apache-2.0 */
/* The growing byte buffer; see buf.h. Runs in every process. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void buf_init(struct buf *b)
{
    *b = (struct buf){0};
}

void buf_done(struct buf *b)
{
    free(b->data);
    buf_init(b);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void buf_reserve(struct buf *b, size_t extra)
{
    size_t want = b->len + extra + 1;
    size_t cap = b->cap ? b->cap : 64;

    if (extra > SIZE_MAX / 4 || b->len > SIZE_MAX / 4)
        abort(); /* callers bound what they add */
    if (want <= b->cap)
        return;
    while (cap < want)
        cap *= 2;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
    buf_reserve(b, len);
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    char measure[1];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(measure, sizeof(measure), fmt, ap); /* only its length */
    va_end(ap);
    if (n < 0)
        return;
    buf_reserve(b, (size_t)n);
    va_start(ap, fmt);
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap); /* it fits */
    va_end(ap);
    b->len += (size_t)n;
}

void buf_add_u16(struct buf *b, uint16_t v)
{
    unsigned char raw[2] = {(unsigned char)v, (unsigned char)(v >> 8)};

    buf_add(b, raw, sizeof(raw));
}

void buf_add_u32(struct buf *b, uint32_t v)
{
    unsigned char raw[4] = {(unsigned char)v, (unsigned char)(v >> 8),
                            (unsigned char)(v >> 16),
                            (unsigned char)(v >> 24)};

    buf_add(b, raw, sizeof(raw));
}

void buf_consume(struct buf *b, size_t n)
{
    if (n > b->len)
        n = b->len;
    if (n)
        memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    if (b->data)
        b->data[b->len] = '\0';
}

char *buf_take(struct buf *b, size_t *ret_len)
{
    char *data;

    buf_reserve(b, 0);
    b->data[b->len] = '\0';
    data = b->data;
    if (ret_len)
        *ret_len = b->len;
    buf_init(b);
    return data;
}
