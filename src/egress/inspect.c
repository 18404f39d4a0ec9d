/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS inspection: towards the session the proxy uses a certificate of the
 * session's own authority; towards the destination it is a client that checks
 * chain and name with the host's trusted authorities. HTTP/1.1 only. Runs in
 * glovebox-egress.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/mem.h"
#include "egress/egress_int.h"

static const unsigned char alpn[] = "\x08http/1.1";

static int choose_protocol(SSL *ssl, const unsigned char **ret,
                           unsigned char *ret_len, const unsigned char *in,
                           unsigned in_len, void *ctx)
{
    unsigned char *chosen = NULL;

    (void)ssl;
    (void)ctx;
    if (SSL_select_next_proto(&chosen, ret_len, alpn, sizeof(alpn) - 1, in,
                              in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_context(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);

    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                       SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(ctx, 0);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    return ctx;
}

int egress_tls_open(struct egress *e)
{
    const char *file = e->setup.ca_file;

    e->inward = make_context(TLS_server_method());
    e->outward = make_context(TLS_client_method());
    if (!e->inward || !e->outward)
        return -ENOMEM;
    SSL_CTX_set_alpn_select_cb(e->inward, choose_protocol, NULL);
    SSL_CTX_set_verify(e->outward, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(e->outward, alpn, sizeof(alpn) - 1) != 0)
        return -ENOMEM;
    (void)SSL_CTX_set_default_verify_paths(e->outward); /* may have none */
    if (file[0] && SSL_CTX_load_verify_file(e->outward, file) != 1)
        return -ENOENT;
    ERR_clear_error();
    return 0;
}

bool egress_inspect_accept(struct conn *c)
{
    if (c->client.broken || c->client.eof) {
        egress_conn_abort(c, "the session did not take our certificate");
        return false;
    }
    if (!c->client.ready)
        return false;
    egress_conn_state(c, CONN_INNER);
    return true;
}

bool egress_inspect_connect(struct conn *c)
{
    SSL *ssl = SSL_new(c->e->outward);
    bool ok;

    if (!ssl)
        return false;
    if (c->target.address)
        ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl),
                                           c->target.host) == 1;
    else
        ok = SSL_set1_host(ssl, c->target.host) == 1 &&
             SSL_set_tlsext_host_name(ssl, c->target.host) == 1;
    if (!ok) {
        SSL_free(ssl);
        return false;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set_connect_state(ssl);
    egress_peer_secure(&c->server, ssl);
    return true;
}

bool egress_inspect_secure(struct conn *c)
{
    if (c->server.ready) {
        egress_conn_state(c, CONN_EXCHANGE);
        return true;
    }
    if (c->server.broken || c->server.eof) {
        long verify = SSL_get_verify_result(c->server.ssl);

        egress_conn_refuse(
            c, 502, "TLS with %.60s failed: %.60s", c->target.host,
            verify == X509_V_OK ? "it hung up"
                                : X509_verify_cert_error_string(verify));
        return true;
    }
    return false;
}
