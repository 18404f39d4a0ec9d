/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE2b (RFC 7693) with 32 bytes of result, for programs that do not link
 * libcrypto: the warden. Others use base/hash.h.
 */
#ifndef GLOVEBOX_BASE_DIGEST_H
#define GLOVEBOX_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_SIZE 32

struct digest {
    uint64_t state[8];
    uint64_t bytes;
    unsigned char block[128];
    size_t used;
};

void digest_begin(struct digest *d);
void digest_add(struct digest *d, const void *bytes, size_t len);
void digest_end(struct digest *d, unsigned char ret[DIGEST_SIZE]);

#endif
