/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4, a keyed hash for tables. A client that chooses the keys of a
 * table cannot make them collide without knowing the key of the hash. It is
 * for tables in memory only: values differ from process to process.
 */
#ifndef GLOVEBOX_BASE_SIPHASH_H
#define GLOVEBOX_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY 16

uint64_t siphash(const unsigned char key[SIPHASH_KEY], const void *bytes,
                 size_t len);
/* Under the random key of this process. Any thread may call. */
uint64_t siphash_bytes(const void *bytes, size_t len);
uint64_t siphash_text(const char *text);

#endif
