/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's own certificate authority, and the certificates of the hosts
 * that the session reaches through inspection. The keys are made here, exist
 * only in this process's memory and are destroyed with the grant; only that
 * session trusts them. Runs in glovebox-egress.
 */
#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/mem.h"
#include "egress/egress_int.h"

#define LEAVES_MAX 256u
#define BEFORE_S (-3600L)
#define CA_S (90L * 86400)
#define LEAF_S (7L * 86400)

struct leaf {
    char *host;
    X509 *certificate;
};

struct cert_authority {
    EVP_PKEY *ca_key, *leaf_key;
    X509 *ca;
    char *pem;
    struct leaf leaves[LEAVES_MAX];
    size_t count, oldest;
};

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

/* Serial, dates, subject and key; issued by whom set_issuer names. */
static X509 *begin(EVP_PKEY *key, const char *name, long seconds)
{
    X509 *x = X509_new();
    unsigned char serial[16];
    BIGNUM *number;
    X509_NAME *subject = x ? X509_get_subject_name(x) : NULL;

    if (!x || RAND_bytes(serial, sizeof(serial)) != 1)
        goto fail;
    serial[0] &= 0x7f;
    number = BN_bin2bn(serial, sizeof(serial), NULL);
    if (!number || !BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x))) {
        BN_free(number);
        goto fail;
    }
    BN_free(number);
    /* A name is at most 64 bytes there; the alternative names count. */
    if (X509_set_version(x, 2) != 1 ||
        !X509_gmtime_adj(X509_getm_notBefore(x), BEFORE_S) ||
        !X509_gmtime_adj(X509_getm_notAfter(x), seconds) ||
        X509_set_pubkey(x, key) != 1 ||
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                   (const unsigned char *)name,
                                   (int)MIN(strlen(name), 64u), -1, 0) != 1)
        goto fail;
    return x;
fail:
    X509_free(x);
    return NULL;
}

static bool make_ca(struct cert_authority *m)
{
    X509_NAME *name;
    BIO *text = NULL;
    char *at = NULL;
    long len;

    m->ca = begin(m->ca_key, "Glovebox session authority", CA_S);
    if (!m->ca)
        return false;
    name = X509_get_subject_name(m->ca);
    if (X509_set_issuer_name(m->ca, name) != 1 ||
        !add_extension(m->ca, m->ca, NID_basic_constraints,
                       "critical,CA:TRUE,pathlen:0") ||
        !add_extension(m->ca, m->ca, NID_key_usage, "critical,keyCertSign") ||
        !add_extension(m->ca, m->ca, NID_subject_key_identifier, "hash") ||
        X509_sign(m->ca, m->ca_key, EVP_sha256()) <= 0)
        return false;
    text = BIO_new(BIO_s_mem());
    if (!text || PEM_write_bio_X509(text, m->ca) != 1) {
        BIO_free(text);
        return false;
    }
    len = BIO_get_mem_data(text, &at);
    m->pem = xstrndup(at, (size_t)len);
    BIO_free(text);
    return strlen(m->pem) < EGRESS_CA_MAX;
}

struct cert_authority *egress_ca_new(void)
{
    struct cert_authority *m = xcalloc(1, sizeof(*m));

    m->ca_key = EVP_EC_gen("P-256");
    m->leaf_key = EVP_EC_gen("P-256");
    if (!m->ca_key || !m->leaf_key || !make_ca(m)) {
        egress_ca_free(m);
        return NULL;
    }
    return m;
}

void egress_ca_free(struct cert_authority *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        free(m->leaves[i].host);
        X509_free(m->leaves[i].certificate);
    }
    X509_free(m->ca);
    EVP_PKEY_free(m->ca_key);
    EVP_PKEY_free(m->leaf_key);
    free(m->pem);
    free(m);
}

const char *egress_ca_certificate(const struct cert_authority *m)
{
    return m->pem;
}

static X509 *make_leaf(struct cert_authority *m, const char *host,
                       bool address)
{
    char *alternative cleanup(mem_free) =
        xasprintf("critical,%s:%s", address ? "IP" : "DNS", host);
    X509 *x = begin(m->leaf_key, host, LEAF_S);

    if (x && X509_set_issuer_name(x, X509_get_subject_name(m->ca)) == 1 &&
        add_extension(x, m->ca, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(x, m->ca, NID_key_usage, "critical,digitalSignature") &&
        add_extension(x, m->ca, NID_ext_key_usage, "serverAuth") &&
        add_extension(x, m->ca, NID_subject_key_identifier, "hash") &&
        add_extension(x, m->ca, NID_authority_key_identifier, "keyid") &&
        add_extension(x, m->ca, NID_subject_alt_name, alternative) &&
        X509_sign(x, m->ca_key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

/* Made once per host; the oldest makes room. */
static X509 *find_leaf(struct cert_authority *m, const char *host,
                       bool address)
{
    struct leaf *l;
    X509 *x;

    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->leaves[i].host, host) == 0)
            return m->leaves[i].certificate;
    x = make_leaf(m, host, address);
    if (!x)
        return NULL;
    if (m->count < LEAVES_MAX) {
        l = &m->leaves[m->count++];
    } else {
        l = &m->leaves[m->oldest];
        m->oldest = (m->oldest + 1) % LEAVES_MAX;
        free(l->host);
        X509_free(l->certificate);
    }
    *l = (struct leaf){xstrdup(host), x};
    return x;
}

SSL *egress_ca_accept(struct cert_authority *m, SSL_CTX *ctx, const char *host,
                      bool address)
{
    X509 *x = find_leaf(m, host, address);
    SSL *ssl = x ? SSL_new(ctx) : NULL;

    if (!ssl)
        return NULL;
    if (SSL_use_certificate(ssl, x) != 1 ||
        SSL_use_PrivateKey(ssl, m->leaf_key) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_accept_state(ssl);
    return ssl;
}
