/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4 as S3 uses it: the path is encoded once and not
 * normalized. Computation only.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/ids.h"
#include "base/mem.h"
#include "s3/s3_int.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define DAY 8 /* digits of the date in a time */

void s3_sign_encode(const char *text, bool slash, struct buf *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~";

    for (; *text; text++) {
        if (strchr(plain, *text) || (slash && *text == '/'))
            buf_add(out, text, 1);
        else
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct s3_param *)a)->name,
                  ((const struct s3_param *)b)->name);
}

void s3_sign_query(struct s3_param *params, size_t count, struct buf *out)
{
    /* Names are ours and need no encoding, so their order is that of the
     * encoded ones. */
    qsort(params, count, sizeof(*params), by_name);
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_adds(out, "&");
        s3_sign_encode(params[i].name, false, out);
        buf_adds(out, "=");
        s3_sign_encode(params[i].value, false, out);
    }
}

static void add_signed_names(const struct s3_to_sign *what, struct buf *out)
{
    for (size_t i = 0; i < what->header_count; i++)
        buf_addf(out, "%s%s", i ? ";" : "", what->headers[i].name);
}

/* SHA-256 in hex of the canonical request. */
static void hash_request(const struct s3_to_sign *what, char ret[HASH_HEX])
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char hash[HASH_SIZE];

    buf_addf(&text, "%s\n%s\n%s\n", what->method, what->path, what->query);
    for (size_t i = 0; i < what->header_count; i++)
        buf_addf(&text, "%s:%s\n", what->headers[i].name,
                 what->headers[i].value);
    buf_adds(&text, "\n");
    add_signed_names(what, &text);
    buf_addf(&text, "\n%s", what->payload);
    hash_sha256(text.data, text.len, hash);
    (void)ids_hex(hash, sizeof(hash), ret);
}

/* The key of that day, region and service. */
static void derive_key(const struct s3_to_sign *what,
                       const struct s3_keys *keys,
                       unsigned char ret[HASH_SIZE])
{
    static const char service[] = "s3", end[] = "aws4_request";
    char first[sizeof(keys->secret) + 4];
    unsigned char a[HASH_SIZE], b[HASH_SIZE];

    (void)snprintf(first, sizeof(first), "AWS4%s", keys->secret); /* fits */
    hash_hmac(first, strlen(first), what->time, DAY, a);
    hash_hmac(a, sizeof(a), what->region, strlen(what->region), b);
    hash_hmac(b, sizeof(b), service, sizeof(service) - 1, a);
    hash_hmac(a, sizeof(a), end, sizeof(end) - 1, ret);
    OPENSSL_cleanse(first, sizeof(first));
    OPENSSL_cleanse(a, sizeof(a));
    OPENSSL_cleanse(b, sizeof(b));
}

void s3_sign(const struct s3_to_sign *what, const struct s3_keys *keys,
             struct buf *out)
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char key[HASH_SIZE], mac[HASH_SIZE];
    char request[HASH_HEX], scope[96], signature[HASH_HEX];

    qsort(what->headers, what->header_count, sizeof(*what->headers), by_name);
    (void)snprintf(scope, sizeof(scope), "%.8s/%.63s/s3/aws4_request",
                   what->time, what->region);
    hash_request(what, request);
    buf_addf(&text, ALGORITHM "\n%s\n%s\n%s", what->time, scope, request);
    derive_key(what, keys, key);
    hash_hmac(key, sizeof(key), text.data, text.len, mac);
    OPENSSL_cleanse(key, sizeof(key));
    buf_addf(out, ALGORITHM " Credential=%s/%s,SignedHeaders=", keys->id,
             scope);
    add_signed_names(what, out);
    buf_addf(out, ",Signature=%s", ids_hex(mac, sizeof(mac), signature));
}
