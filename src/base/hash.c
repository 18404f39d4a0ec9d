/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and HMAC over libcrypto; see hash.h. Daemon and command line. */
#include "base/hash.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

struct hash_stream {
    EVP_MD_CTX *ctx;
};

/* The library looks an algorithm up by its name whenever it is used, under
 * locks, which takes longer than to hash a short text with it. So that is done
 * once; what was found is read only. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256;
static EVP_MAC_CTX *hmac; /* without a key; copied for each use */

static void look_up(void)
{
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(
                               OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0),
                           OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);

    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    hmac = mac ? EVP_MAC_CTX_new(mac) : NULL;
    if (!sha256 || !hmac || EVP_MAC_CTX_set_params(hmac, params) != 1)
        abort();
    EVP_MAC_free(mac); /* hmac has it */
}

static const EVP_MD *get_sha256(void)
{
    (void)pthread_once(&once, look_up); /* fails only on misuse */
    return sha256;
}

struct hash_stream *hash_stream_new(void)
{
    struct hash_stream *h = xcalloc(1, sizeof(*h));

    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, get_sha256(), NULL) != 1)
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
    if (EVP_Digest(bytes, len, ret, NULL, get_sha256(), NULL) != 1)
        abort();
}

void hash_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
               unsigned char ret[HASH_SIZE])
{
    EVP_MAC_CTX *ctx;
    size_t size;

    (void)get_sha256(); /* for both */
    ctx = EVP_MAC_CTX_dup(hmac);
    /* No key at all is a key too. */
    if (!ctx || EVP_MAC_init(ctx, key_len ? key : "", key_len, NULL) != 1 ||
        EVP_MAC_update(ctx, bytes, len) != 1 ||
        EVP_MAC_final(ctx, ret, &size, HASH_SIZE) != 1 || size != HASH_SIZE)
        abort();
    EVP_MAC_CTX_free(ctx);
}

bool hash_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}
