/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of a tenant's chain and signatures of checkpoints; see proof.h. */
#include "audit/proof.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/mem.h"

#define RAW_KEY 32

const char *const audit_field_names[AUDIT_FIELDS] = {
    "tenant", "actor",  "action", "workspace", "object", "path", "before",
    "after",  "result", "detail", "request",   "source", "token"};

/* ---- the chain ---------------------------------------------------------- */

static void add_number(struct buf *b, uint64_t number)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    buf_add(b, bytes, sizeof(bytes));
}

void audit_proof_hash(const unsigned char before[HASH_SIZE], int64_t seq,
                      int64_t at_ms,
                      const struct audit_bytes fields[AUDIT_FIELDS],
                      unsigned char ret[HASH_SIZE])
{
    static const char label[] = "glovebox audit chain 1";
    struct buf b cleanup(buf_done) = {0};

    buf_add(&b, label, sizeof(label));
    buf_add(&b, before, HASH_SIZE);
    add_number(&b, (uint64_t)seq);
    add_number(&b, (uint64_t)at_ms);
    for (size_t i = 0; i < audit_proof_fields(fields); i++) {
        add_number(&b, fields[i].len);
        buf_add(&b, fields[i].data, fields[i].len);
    }
    hash_sha256(b.data, b.len, ret);
}

/* ---- checkpoints -------------------------------------------------------- */

bool audit_proof_unhex(const char *text, unsigned char *ret, size_t len)
{
    return text && strlen(text) == 2 * len && hex_decode(text, ret, len);
}

void audit_proof_text(const struct audit_checkpoint *c, struct buf *out)
{
    buf_addf(out, "glovebox audit checkpoint 1\n%s\n%lld\n%s\n%lld\n",
             c->tenant, (long long)c->seq, c->hash, (long long)c->at_ms);
}

static bool copy_field(const char *text, char *ret, size_t size)
{
    return text && strlen(text) == size - 1 && memcpy(ret, text, size);
}

bool audit_proof_read(const char *const fields[AUDIT_FIELDS], int64_t at_ms,
                      struct audit_checkpoint *ret)
{
    const char *number = fields[AUDIT_BEFORE], *key = fields[AUDIT_OBJECT];
    char *end;

    if (!fields[AUDIT_TENANT] || !fields[AUDIT_ACTION] || !number || !key ||
        strcmp(fields[AUDIT_ACTION], AUDIT_CHECKPOINT) != 0 ||
        !copy_field(fields[AUDIT_AFTER], ret->hash, sizeof(ret->hash)) ||
        !copy_field(fields[AUDIT_DETAIL], ret->signature,
                    sizeof(ret->signature)) ||
        strlen(key) >= sizeof(ret->key))
        return false;
    (void)snprintf(ret->key, sizeof(ret->key), "%s", key);
    ret->tenant = fields[AUDIT_TENANT];
    ret->at_ms = at_ms;
    ret->seq = strtoll(number, &end, 10);
    return end != number && !*end && ret->seq > 0;
}

static EVP_PKEY *read_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    if (key && EVP_PKEY_base_id(key) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(key);
        return NULL;
    }
    return key;
}

bool audit_proof_signed(const struct audit_checkpoint *c, const char *pem)
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char signature[AUDIT_SIGNATURE];
    EVP_PKEY *key = read_key(pem);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = false;

    audit_proof_text(c, &text);
    if (key && ctx &&
        audit_proof_unhex(c->signature, signature, sizeof(signature)))
        good =
            EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
            EVP_DigestVerify(ctx, signature, sizeof(signature),
                             (const unsigned char *)text.data, text.len) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    return good;
}

int audit_proof_key_id(const char *pem, char ret[ID_MAX], struct error *err)
{
    unsigned char raw[RAW_KEY], hash[HASH_SIZE];
    size_t len = sizeof(raw);
    EVP_PKEY *key = read_key(pem);
    bool good = key && EVP_PKEY_get_raw_public_key(key, raw, &len) == 1 &&
                len == sizeof(raw);

    EVP_PKEY_free(key);
    if (!good)
        return error_set(err, ERR_INVALID,
                         "this is not the public half of an Ed25519 key");
    hash_sha256(raw, sizeof(raw), hash);
    memcpy(ret, "akey_", 5);
    (void)ids_hex(hash, 16, ret + 5);
    return 0;
}
