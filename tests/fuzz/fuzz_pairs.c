/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the pairs codec, the part of a kernel frame that session code can
 * fill with anything. Each pair must lie inside the payload, in order and
 * without overlap; every byte of it is read so that a sanitizer sees it.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned sum(const char *bytes, size_t len)
{
    unsigned total = 0;

    for (size_t i = 0; i < len; i++)
        total += (unsigned char)bytes[i];
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *payload = (const char *)data;
    const char *end = payload;
    struct kernel_pair pair;
    size_t pos = 0;
    int r;

    while ((r = wire_pairs_next(payload, size, &pos, &pair)) > 0) {
        assert(pair.key_len <= KERNEL_PAIR_KEY_MAX);
        assert(pair.key >= end);
        assert(pair.value == pair.key + pair.key_len);
        end = pair.value + pair.value_len;
        assert(end <= payload + size);
        assert(pos <= size);
        assert(sum(pair.key, pair.key_len) <= 255u * pair.key_len);
        assert(sum(pair.value, pair.value_len) <= 255u * pair.value_len);
    }
    assert(r < 0 || pos == size);
    return 0;
}
