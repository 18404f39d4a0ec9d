/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cert.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/mem.h"

#define BEFORE_S (-3600L) /* for clocks that are behind ours */
#define NAME_MAX_BYTES 64u

EVP_PKEY *cert_key(void)
{
    return EVP_EC_gen("P-256");
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *ext;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = ext && X509_add_ext(x, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return ok;
}

static bool set_serial(X509 *x)
{
    unsigned char serial[16];
    BIGNUM *number;
    bool ok;

    if (RAND_bytes(serial, sizeof(serial)) != 1)
        return false;
    serial[0] &= 0x7f;
    number = BN_bin2bn(serial, sizeof(serial), NULL);
    ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
    BN_free(number);
    return ok;
}

/* Serial, dates, subject, issuer and key. */
static bool fill_certificate(X509 *x, EVP_PKEY *key,
                             const struct cert_spec *spec, X509 *issuer)
{
    X509_NAME *subject = X509_get_subject_name(x);
    size_t len = MIN(strlen(spec->name), NAME_MAX_BYTES);

    return set_serial(x) && X509_set_version(x, 2) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(x), BEFORE_S) &&
           X509_gmtime_adj(X509_getm_notAfter(x), spec->seconds) &&
           X509_set_pubkey(x, key) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                      (const unsigned char *)spec->name,
                                      (int)len, -1, 0) == 1 &&
           X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1;
}

static bool add_extensions(X509 *x, const struct cert_spec *spec, X509 *issuer)
{
    if (spec->authority)
        return add_extension(x, x, NID_basic_constraints,
                             "critical,CA:TRUE,pathlen:0") &&
               add_extension(x, x, NID_key_usage, "critical,keyCertSign") &&
               add_extension(x, x, NID_subject_key_identifier, "hash");
    return add_extension(x, issuer, NID_basic_constraints,
                         "critical,CA:FALSE") &&
           add_extension(x, issuer, NID_key_usage,
                         "critical,digitalSignature") &&
           add_extension(x, issuer, NID_ext_key_usage, "serverAuth") &&
           add_extension(x, issuer, NID_subject_key_identifier, "hash") &&
           add_extension(x, issuer, NID_authority_key_identifier, "keyid") &&
           add_extension(x, issuer, NID_subject_alt_name, spec->alternative);
}

X509 *cert_issue(EVP_PKEY *key, const struct cert_spec *spec, X509 *issuer,
                 EVP_PKEY *issuer_key)
{
    X509 *x = X509_new();

    if (x && fill_certificate(x, key, spec, issuer ? issuer : x) &&
        add_extensions(x, spec, issuer ? issuer : x) &&
        X509_sign(x, issuer ? issuer_key : key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

char *cert_pem(X509 *certificate)
{
    BIO *text = BIO_new(BIO_s_mem());
    char *at = NULL, *pem = NULL;
    long len;

    if (text && PEM_write_bio_X509(text, certificate) == 1) {
        len = BIO_get_mem_data(text, &at);
        pem = xstrndup(at, (size_t)len);
    }
    BIO_free(text);
    return pem;
}
