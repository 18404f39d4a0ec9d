/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we do of TLS ourselves; the rest is libmicrohttpd's, by GnuTLS. The
 * certificate is tried before the server starts, so that a wrong one is
 * named; and an answer in the middle of a body (early_response.c) is written
 * to the session, which only the event thread may do.
 */
#include "http/http_int.h"

#include <gnutls/gnutls.h>
#include <string.h>

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

ssize_t http_tls_send(void *session, const void *bytes, size_t len)
{
    ssize_t n = gnutls_record_send(session, bytes, len);

    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
        return 0;
    return n < 0 ? -1 : n;
}

void http_tls_end(void *session)
{
    /* Whether it is told or not, the connection ends. */
    (void)gnutls_bye(session, GNUTLS_SHUT_WR);
}
