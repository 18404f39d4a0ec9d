/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One secret under the key, by AES-256-GCM of libcrypto: a version byte, a
 * random nonce, the bytes, a tag. The other columns of its row (tenant, name,
 * header, destinations) are authenticated with it: a row that was moved to
 * another tenant, or whose destinations were changed in the store, does not
 * open.
 */
#include <openssl/evp.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/mem.h"
#include "vault/vault_int.h"

#define VERSION 1
#define NONCE 12
#define TAG 16
_Static_assert(VAULT_SEAL_EXTRA == 1 + NONCE + TAG, "what a seal adds");

static void context_free(EVP_CIPHER_CTX **ctx)
{
    EVP_CIPHER_CTX_free(*ctx);
}

/* Each part with its NUL, so that none runs into the next. */
static void add_bound(struct buf *b, const char *tenant,
                      const struct vault_info *row)
{
    const char *const parts[] = {"glovebox secret 1", tenant,
                                 row->name,           row->header,
                                 row->prefix,         row->destinations};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        buf_add(b, parts[i], strlen(parts[i]) + 1);
}

int vault_seal(const unsigned char key[VAULT_KEY_SIZE], const char *tenant,
               const struct vault_info *row, const char *value, size_t len,
               unsigned char ret[VAULT_SEALED_MAX], size_t *ret_len,
               struct error *err)
{
    EVP_CIPHER_CTX *ctx cleanup(context_free) = EVP_CIPHER_CTX_new();
    struct buf bound cleanup(buf_done) = {0};
    unsigned char *nonce = ret + 1, *out = nonce + NONCE;
    int n = 0, end = 0;

    ret[0] = VERSION;
    ids_random(nonce, NONCE);
    add_bound(&bound, tenant, row);
    if (!ctx || len > VAULT_VALUE_MAX ||
        EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) != 1 ||
        EVP_EncryptUpdate(ctx, NULL, &n, (unsigned char *)bound.data,
                          (int)bound.len) != 1 ||
        EVP_EncryptUpdate(ctx, out, &n, (const unsigned char *)value,
                          (int)len) != 1 ||
        EVP_EncryptFinal_ex(ctx, out + n, &end) != 1 ||
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, out + n + end) !=
            1)
        return error_set(err, ERR_INTERNAL, "a secret cannot be sealed");
    *ret_len = VAULT_SEAL_EXTRA + (size_t)n;
    return 0;
}

static bool open_sealed(const unsigned char key[VAULT_KEY_SIZE],
                        const struct buf *bound, const unsigned char *sealed,
                        size_t len, char *out)
{
    EVP_CIPHER_CTX *ctx cleanup(context_free) = EVP_CIPHER_CTX_new();
    const unsigned char *nonce = sealed + 1, *in = nonce + NONCE;
    unsigned char tag[TAG];
    int n = 0, end = 0;

    memcpy(tag, in + len, TAG);
    return ctx &&
           EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
           EVP_DecryptUpdate(ctx, NULL, &n, (unsigned char *)bound->data,
                             (int)bound->len) == 1 &&
           EVP_DecryptUpdate(ctx, (unsigned char *)out, &n, in, (int)len) ==
               1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
           EVP_DecryptFinal_ex(ctx, (unsigned char *)out + n, &end) == 1;
}

int vault_unseal(const unsigned char key[VAULT_KEY_SIZE], const char *tenant,
                 const struct vault_info *row, const void *sealed, size_t len,
                 char **ret, struct error *err)
{
    const unsigned char *bytes = sealed;
    struct buf bound cleanup(buf_done) = {0};
    char *out = NULL;
    bool good = false;

    if (len > VAULT_SEAL_EXTRA && len <= VAULT_SEALED_MAX &&
        bytes[0] == VERSION) {
        add_bound(&bound, tenant, row);
        out = xcalloc(1, len - VAULT_SEAL_EXTRA + 1);
        good = open_sealed(key, &bound, bytes, len - VAULT_SEAL_EXTRA, out);
    }
    if (!good) {
        if (out)
            explicit_bzero(out, len - VAULT_SEAL_EXTRA);
        free(out);
        return error_set(err, ERR_CORRUPT,
                         "secret '%s' does not open: it, or what it is bound "
                         "to, is not what was stored",
                         row->name);
    }
    *ret = out;
    return 0;
}
