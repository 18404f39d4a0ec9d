/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's own certificate authority, and the certificates of the hosts
 * that the session reaches through inspection. The keys are made here, exist
 * only in this process's memory and are destroyed with the grant; only that
 * session trusts them. Runs in glovebox-egress.
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/cert.h"
#include "base/mem.h"
#include "egress/egress_int.h"

#define LEAVES_MAX 256u
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

static bool make_ca(struct cert_authority *m)
{
    const struct cert_spec spec = {.name = "Glovebox session authority",
                                   .seconds = CA_S,
                                   .authority = true};

    m->ca = cert_issue(m->ca_key, &spec, NULL, NULL);
    m->pem = m->ca ? cert_pem(m->ca) : NULL;
    return m->pem && strlen(m->pem) < EGRESS_CA_MAX;
}

struct cert_authority *egress_ca_new(void)
{
    struct cert_authority *m = xcalloc(1, sizeof(*m));

    m->ca_key = cert_key();
    m->leaf_key = cert_key();
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
    const struct cert_spec spec = {
        .name = host, .seconds = LEAF_S, .alternative = alternative};

    return cert_issue(m->leaf_key, &spec, m->ca, m->ca_key);
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
