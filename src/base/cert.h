/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X.509 certificates of private authorities: of the service for its own
 * address, and of the proxy for the hosts that a session reaches. By OpenSSL.
 */
#ifndef GLOVEBOX_BASE_CERT_H
#define GLOVEBOX_BASE_CERT_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>

struct cert_spec {
    const char *name; /* common name; cut at 64 bytes */
    long seconds;     /* valid from an hour ago until so long from now */
    bool authority;   /* may issue certificates that issue no others */
    /* Else a server's: its names as in "DNS:a.example,IP:::1"; with
     * "critical," in front when clients must heed them. */
    const char *alternative;
};

/* A new P-256 key; NULL for want of memory or randomness. */
EVP_PKEY *cert_key(void);
/* A certificate for key, signed by issuer with issuer_key; an authority signs
 * itself and has no issuer (NULL). NULL when it cannot be made. */
X509 *cert_issue(EVP_PKEY *key, const struct cert_spec *spec, X509 *issuer,
                 EVP_PKEY *issuer_key);
/* In PEM; owned by caller; NULL when it cannot be made. */
char *cert_pem(X509 *certificate);

#endif
