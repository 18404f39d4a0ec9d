/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer. `data` is always NUL-terminated one past `len` once
 * anything was added, so text can be used in place.
 */
#ifndef GLOVEBOX_BASE_BUF_H
#define GLOVEBOX_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;
    size_t len;
    size_t cap;
};

void buf_init(struct buf *b);
void buf_done(struct buf *b);  /* usable with cleanup() */
void buf_reset(struct buf *b); /* keeps the memory */
/* Makes room for extra bytes past len; aborts when memory is out. */
void buf_reserve(struct buf *b, size_t extra);
void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_adds(struct buf *b, const char *text);
void buf_addf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void buf_add_u16(struct buf *b, uint16_t v); /* little-endian */
void buf_add_u32(struct buf *b, uint32_t v);
/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);
/* Hands the bytes on; owned by caller; the buffer is empty afterwards. */
char *buf_take(struct buf *b, size_t *ret_len);

#endif
