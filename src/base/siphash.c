/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 as Aumasson and Bernstein define it: two rounds for each word of
 * eight bytes, four at the end. The key of the process is made at the first
 * use and never leaves this file.
 */
#include "base/siphash.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "base/ids.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char process_key[SIPHASH_KEY]; /* written once, by make_key */

static void make_key(void)
{
    ids_random(process_key, sizeof(process_key));
}

static uint64_t load_word(const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return le64toh(word);
}

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned count)
{
    while (count--) {
        v[0] += v[1];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[3];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[2] = rotate_left(v[2], 32);
    }
}

uint64_t siphash(const unsigned char key[SIPHASH_KEY], const void *bytes,
                 size_t len)
{
    const uint64_t k0 = load_word(key), k1 = load_word(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d,
                     k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
    const unsigned char *p = bytes;
    unsigned char last[8] = {0};
    size_t whole = len / 8;

    /* The last word has the bytes that are left, and the length on top. */
    if (len % 8)
        memcpy(last, p + 8 * whole, len % 8);
    last[7] = (unsigned char)len;
    for (size_t i = 0; i <= whole; i++) {
        uint64_t word = load_word(i < whole ? p + 8 * i : last);

        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t siphash_bytes(const void *bytes, size_t len)
{
    (void)pthread_once(&once, make_key); /* fails only on misuse */
    return siphash(process_key, bytes, len);
}

uint64_t siphash_text(const char *text)
{
    return siphash_bytes(text, strlen(text));
}
