/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 and HMAC-SHA-256 by libcrypto. Not for the warden, which does not
 * link libcrypto.
 */
#ifndef GLOVEBOX_BASE_HASH_H
#define GLOVEBOX_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>

#define HASH_SIZE 32
#define HASH_HEX (2 * HASH_SIZE + 1)

struct hash_stream;

struct hash_stream *hash_stream_new(void);
void hash_stream_add(struct hash_stream *h, const void *bytes, size_t len);
/* Also frees the stream. */
void hash_stream_end(struct hash_stream *h, unsigned char ret[HASH_SIZE]);
void hash_stream_free(struct hash_stream *h);

void hash_sha256(const void *bytes, size_t len, unsigned char ret[HASH_SIZE]);
void hash_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
               unsigned char ret[HASH_SIZE]);
/* Constant time. */
bool hash_equal(const void *a, const void *b, size_t len);

#endif
