/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we do of TLS ourselves; the rest is libmicrohttpd's, by GnuTLS. The
 * certificate is tried before the server starts, so that a wrong one is
 * named; and an answer in the middle of a body (early_response.c) is written
 * to the session, which only the event thread may do.
 */
#include "http/http_int.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>

#include "base/hash.h"

bool http_tls_supported(void)
{
    return MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES;
}

int http_tls_check(const char *certificate, const char *key, struct error *err)
{
    gnutls_datum_t cert = {(unsigned char *)(uintptr_t)certificate,
                           (unsigned)strlen(certificate)};
    gnutls_datum_t secret = {(unsigned char *)(uintptr_t)key,
                             (unsigned)strlen(key)};
    gnutls_certificate_credentials_t both;
    int r = gnutls_certificate_allocate_credentials(&both);

    if (r == 0) {
        r = gnutls_certificate_set_x509_key_mem(both, &cert, &secret,
                                                GNUTLS_X509_FMT_PEM);
        gnutls_certificate_free_credentials(both);
    }
    if (r < 0) {
        (void)error_set(err, ERR_INVALID,
                        "the certificate and its key cannot be used: %s",
                        gnutls_strerror(r));
        return error_hint(err, "tls_certificate is a chain and tls_key its "
                               "first one's private key, both in PEM.");
    }
    return 0;
}

void *http_tls_session(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    return info ? info->tls_session : NULL;
}

void http_tls_pin(void *session, char ret[65])
{
    unsigned char hash[HASH_SIZE];
    gnutls_datum_t spki = {0};
    gnutls_x509_crt_t certificate;
    const gnutls_datum_t *shown;
    unsigned count = 0;
    gnutls_pubkey_t key = NULL;

    ret[0] = '\0';
    shown = gnutls_certificate_get_peers(session, &count);
    if (!shown || count == 0 || gnutls_x509_crt_init(&certificate) < 0)
        return;
    if (gnutls_x509_crt_import(certificate, &shown[0], GNUTLS_X509_FMT_DER) ==
            0 &&
        gnutls_pubkey_init(&key) == 0 &&
        gnutls_pubkey_import_x509(key, certificate, 0) == 0 &&
        gnutls_pubkey_export2(key, GNUTLS_X509_FMT_DER, &spki) == 0) {
        hash_sha256(spki.data, spki.size, hash);
        (void)ids_hex(hash, sizeof(hash), ret);
    }
    gnutls_free(spki.data);
    if (key)
        gnutls_pubkey_deinit(key);
    gnutls_x509_crt_deinit(certificate);
}

ssize_t http_tls_send(void *session, const void *bytes, size_t len)
{
    ssize_t n = gnutls_record_send(session, bytes, len);

    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
        return 0;
    return n < 0 ? -1 : n;
}

void http_tls_end(void *session)
{
    /* The connection ends whether or not the client gets the notice. */
    (void)gnutls_bye(session, GNUTLS_SHUT_WR);
}
