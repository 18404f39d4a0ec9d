/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and HMAC over libcrypto; see hash.h. Daemon and command line. */
#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include "base/mem.h"

struct hash_stream {
    EVP_MD_CTX *ctx;
};

struct hash_stream *hash_stream_new(void)
{
    struct hash_stream *h = xcalloc(1, sizeof(*h));

    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1)
        abort();
    return h;
}

void hash_stream_add(struct hash_stream *h, const void *bytes, size_t len)
{
    if (EVP_DigestUpdate(h->ctx, bytes, len) != 1)
        abort();
}

void hash_stream_end(struct hash_stream *h, unsigned char ret[HASH_SIZE])
{
    if (EVP_DigestFinal_ex(h->ctx, ret, NULL) != 1)
        abort();
    hash_stream_free(h);
}

void hash_stream_free(struct hash_stream *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->ctx);
    free(h);
}

void hash_sha256(const void *bytes, size_t len, unsigned char ret[HASH_SIZE])
{
    if (EVP_Digest(bytes, len, ret, NULL, EVP_sha256(), NULL) != 1)
        abort();
}

void hash_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
               unsigned char ret[HASH_SIZE])
{
    if (!HMAC(EVP_sha256(), key, (int)key_len, bytes, len, ret, NULL))
        abort();
}

bool hash_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}
