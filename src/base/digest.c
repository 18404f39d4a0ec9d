/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE2b; see digest.h. Plain C without tables of its own beyond the two of
 * the specification; about a gigabyte a second.
 */
#include "base/digest.h"

#include <string.h>

#include "base/mem.h"

#define ROUNDS 12

static const uint64_t start[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b,
                                  0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                  0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                  0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

static const unsigned char order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static inline uint64_t turn(uint64_t v, unsigned by)
{
    return v >> by | v << (64 - by);
}

#define MIX(a, b, c, d, x, y)                                                 \
    do {                                                                      \
        v[a] += v[b] + (x);                                                   \
        v[d] = turn(v[d] ^ v[a], 32);                                         \
        v[c] += v[d];                                                         \
        v[b] = turn(v[b] ^ v[c], 24);                                         \
        v[a] += v[b] + (y);                                                   \
        v[d] = turn(v[d] ^ v[a], 16);                                         \
        v[c] += v[d];                                                         \
        v[b] = turn(v[b] ^ v[c], 63);                                         \
    } while (0)

static void compress(struct digest *d, const unsigned char *block,
                     uint64_t last)
{
    uint64_t v[16], m[16];

    memcpy(m, block, sizeof(m)); /* little-endian machines only */
    memcpy(v, d->state, sizeof(d->state));
    memcpy(v + 8, start, sizeof(start));
    v[12] ^= d->bytes;
    v[14] ^= last;
    for (size_t i = 0; i < ROUNDS; i++) {
        const unsigned char *s = order[i % ARRAY_SIZE(order)];

        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(d->state); i++)
        d->state[i] ^= v[i] ^ v[i + 8];
}

void digest_begin(struct digest *d)
{
    *d = (struct digest){.used = 0};
    memcpy(d->state, start, sizeof(start));
    d->state[0] ^= 0x01010000u ^ DIGEST_SIZE;
}

/* The last block is compressed at the end only, and may be a full one. */
void digest_add(struct digest *d, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;

    while (len > 0) {
        size_t part = MIN(len, sizeof(d->block) - d->used);

        if (d->used == sizeof(d->block)) {
            d->bytes += sizeof(d->block);
            compress(d, d->block, 0);
            d->used = 0;
            continue;
        }
        if (d->used == 0 && len > sizeof(d->block)) {
            d->bytes += sizeof(d->block);
            compress(d, p, 0);
            p += sizeof(d->block);
            len -= sizeof(d->block);
            continue;
        }
        memcpy(d->block + d->used, p, part);
        d->used += part;
        p += part;
        len -= part;
    }
}

void digest_end(struct digest *d, unsigned char ret[DIGEST_SIZE])
{
    memset(d->block + d->used, 0, sizeof(d->block) - d->used);
    d->bytes += d->used;
    compress(d, d->block, ~UINT64_C(0));
    memcpy(ret, d->state, DIGEST_SIZE);
}
