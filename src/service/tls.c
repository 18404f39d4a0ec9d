/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate of the service. With tls_certificate and tls_key it is the
 * operator's, read with the rights of the user who started the service. With
 * `tls: auto` the service is its own authority and keeps these files in tls/
 * of the data directory, as the service's account:
 *
 *   ca.key, ca.pem          the authority; clients trust ca.pem
 *   server.key, server.pem  what the service presents
 *
 * Keys are created once and never replaced. A start renews a certificate that
 * has less than half of its time left or lacks a current name of the service.
 * A renewed certificate of the authority keeps its key and its name, so that
 * clients that trust an older copy need no change.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cert.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "service/service_int.h"

#define DIR_NAME "tls"
#define PEM_MAX ((size_t)1 << 20)
#define DAY_S 86400L
#define CA_S (3650 * DAY_S)
#define SERVER_S (730 * DAY_S) /* some clients refuse more than 825 days */
#define HOST_MAX 253u

struct authority {
    int dir; /* tls/ */
    const char *path;
    char host[HOST_MAX + 1]; /* of this machine; "" when it is no DNS name */
    const char *listen;      /* numeric address; NULL for any */
    X509 *ca, *server;
    EVP_PKEY *ca_key, *server_key;
};

static void authority_done(struct authority *a)
{
    fd_close(&a->dir);
    X509_free(a->ca);
    X509_free(a->server);
    EVP_PKEY_free(a->ca_key);
    EVP_PKEY_free(a->server_key);
}

/* ---- files -------------------------------------------------------------- */

static void wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(take_ptr(*text));
}

static int read_pem(const char *path, char **ret, struct error *err)
{
    size_t len = 0;
    int r = fd_read_file(AT_FDCWD, path, PEM_MAX, ret, &len);

    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read %s", path);
    if (strlen(*ret) != len)
        return error_set(err, ERR_INVALID, "%s is not in PEM", path);
    return 0;
}

static int read_own(const struct authority *a, const char *name, char **ret,
                    struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", a->path, name);

    return read_pem(path, ret, err);
}

static int unusable(const struct authority *a, const char *name,
                    const char *what, struct error *err)
{
    (void)error_set(err, ERR_INVALID, "%s/%s %s", a->path, name, what);
    return error_hint(err,
                      "Bring the folder back from a copy. Or remove it: the "
                      "next start makes a new authority, which clients must "
                      "then be told to trust.");
}

static int no_password(char *room, int size, int writing, void *ctx)
{
    (void)room;
    (void)size;
    (void)writing;
    (void)ctx;
    return -1;
}

/* Reads a certificate or, with ret_key, a private key. The result stays NULL
 * when there is no such file. */
static int read_entry(const struct authority *a, const char *name,
                      X509 **ret_certificate, EVP_PKEY **ret_key,
                      struct error *err)
{
    char *pem cleanup(wipe) = NULL;
    BIO *in;

    if (faccessat(a->dir, name, F_OK, 0) < 0 && errno == ENOENT)
        return 0;
    if (read_own(a, name, &pem, err) < 0)
        return -(int)err->code;
    in = BIO_new_mem_buf(pem, -1);
    if (in && ret_key)
        *ret_key = PEM_read_bio_PrivateKey(in, NULL, no_password, NULL);
    else if (in)
        *ret_certificate = PEM_read_bio_X509(in, NULL, NULL, NULL);
    BIO_free(in);
    if (ret_key && !*ret_key)
        return unusable(a, name, "holds no private key", err);
    if (!ret_key && !*ret_certificate)
        return unusable(a, name, "holds no certificate", err);
    return 0;
}

/* The file appears whole, synced, and for us alone. replace: over an older
 * one; else it must not exist. */
static int write_file(const struct authority *a, const char *name,
                      const char *text, bool replace, struct error *err)
{
    char *draft cleanup(mem_free) = xasprintf("%s.new", name);
    int fd cleanup(fd_close) = -1;
    int r;

    (void)unlinkat(a->dir, draft, 0); /* of a start that was cut short */
    fd = openat(a->dir, draft,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && replace && renameat(a->dir, draft, a->dir, name) < 0)
        r = -errno;
    if (r == 0 && !replace && linkat(a->dir, draft, a->dir, name, 0) < 0)
        r = -errno;
    (void)unlinkat(a->dir, draft, 0);
    if (r == 0 && fsync(a->dir) < 0)
        r = -errno;
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r, "cannot write %s/%s",
                               a->path, name)
                 : 0;
}

static int make_key(const struct authority *a, const char *name,
                    EVP_PKEY **ret, struct error *err)
{
    EVP_PKEY *key = cert_key();
    BIO *out = BIO_new(BIO_s_secmem());
    char *at = NULL, *pem cleanup(wipe) = NULL;
    long len;
    int r = -1;

    if (key && out &&
        PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1) {
        len = BIO_get_mem_data(out, &at);
        pem = xstrndup(at, (size_t)len);
        r = write_file(a, name, pem, false, err);
    } else {
        (void)error_set(err, ERR_INTERNAL, "cannot make a key for TLS");
        r = -(int)err->code;
    }
    BIO_free(out);
    if (r < 0)
        EVP_PKEY_free(key);
    else
        *ret = key;
    return r;
}

static int write_certificate(const struct authority *a, const char *name,
                             X509 *certificate, struct error *err)
{
    char *pem cleanup(mem_free) = certificate ? cert_pem(certificate) : NULL;

    if (!pem)
        return error_set(err, ERR_INTERNAL, "cannot make a certificate");
    return write_file(a, name, pem, true, err);
}

/* ---- checks ------------------------------------------------ */

static bool is_valid_for(X509 *x, long seconds)
{
    time_t then = time(NULL) + seconds;

    return X509_cmp_time(X509_get0_notAfter(x), &then) > 0;
}

/* Would a client that trusts the authority accept the certificate? */
static bool is_usable(const struct authority *a)
{
    EVP_PKEY *by = a->ca ? X509_get0_pubkey(a->ca) : NULL;

    return by && a->server && a->server_key && is_valid_for(a->server, 0) &&
           X509_check_private_key(a->server, a->server_key) == 1 &&
           X509_verify(a->server, by) == 1;
}

static bool has_all_names(const struct authority *a)
{
    return X509_check_host(a->server, "localhost", 0, 0, NULL) == 1 &&
           X509_check_ip_asc(a->server, "127.0.0.1", 0) == 1 &&
           X509_check_ip_asc(a->server, "::1", 0) == 1 &&
           (!a->host[0] ||
            X509_check_host(a->server, a->host, 0, 0, NULL) == 1) &&
           (!a->listen || X509_check_ip_asc(a->server, a->listen, 0) == 1);
}

/* ---- renewal --------------------------------------------- */

static int renew_authority(struct authority *a, struct error *err)
{
    struct cert_spec spec = {.seconds = CA_S, .authority = true};
    unsigned char *spki = NULL, hash[HASH_SIZE];
    char hex[HASH_HEX], name[64];
    int len, r = read_entry(a, "ca.key", NULL, &a->ca_key, err);

    if (r == 0 && !a->ca_key && a->ca)
        return unusable(a, "ca.key", "is missing, and ca.pem is there", err);
    if (r == 0 && !a->ca_key)
        r = make_key(a, "ca.key", &a->ca_key, err);
    if (r < 0)
        return r;
    if (a->ca && X509_check_private_key(a->ca, a->ca_key) != 1)
        return unusable(a, "ca.key", "is not the key of ca.pem", err);
    if (a->ca && is_valid_for(a->ca, SERVER_S))
        return 0;
    /* The name depends on the key alone. */
    len = i2d_PUBKEY(a->ca_key, &spki);
    if (len <= 0)
        return error_set(err, ERR_INTERNAL, "cannot make a certificate");
    hash_sha256(spki, (size_t)len, hash);
    OPENSSL_free(spki);
    (void)snprintf(name, sizeof(name), "Glovebox authority %.16s",
                   ids_hex(hash, sizeof(hash), hex));
    spec.name = name;
    X509_free(a->ca);
    a->ca = cert_issue(a->ca_key, &spec, NULL, NULL);
    return write_certificate(a, "ca.pem", a->ca, err);
}

static int renew_server(struct authority *a, struct error *err)
{
    struct buf names cleanup(buf_done) = {0};
    struct cert_spec spec = {.name = a->host[0] ? a->host : "localhost",
                             .seconds = SERVER_S};
    X509 *made;
    int r = a->server_key ? 0 : make_key(a, "server.key", &a->server_key, err);

    if (r < 0)
        return r;
    buf_adds(&names, "DNS:localhost,IP:127.0.0.1,IP:::1");
    if (a->host[0] && strcmp(a->host, "localhost") != 0)
        buf_addf(&names, ",DNS:%s", a->host);
    if (a->listen && strcmp(a->listen, "127.0.0.1") != 0 &&
        strcmp(a->listen, "::1") != 0)
        buf_addf(&names, ",IP:%s", a->listen);
    spec.alternative = names.data;
    made = cert_issue(a->server_key, &spec, a->ca, a->ca_key);
    r = write_certificate(a, "server.pem", made, err);
    if (r < 0) {
        X509_free(made);
        return r;
    }
    X509_free(a->server);
    a->server = made;
    log_event(LOG_INFO, "tls_certificate_made", "names", names.data, NULL);
    return 0;
}

/* A full disk must not stop a service whose certificate is still valid. */
static int renew_certificates(struct authority *a, struct error *err)
{
    bool usable = is_usable(a);
    int r = renew_authority(a, err);

    if (r == 0)
        r = renew_server(a, err);
    if (r == 0 || !usable)
        return r;
    log_event(LOG_WARN, "tls_certificate_not_renewed", "error", err->message,
              NULL);
    return 0;
}

/* ---- tls: auto ---------------------------------------------------------- */

static void find_names(struct authority *a, const char *listen)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";

    if (gethostname(a->host, sizeof(a->host)) < 0)
        a->host[0] = '\0';
    a->host[sizeof(a->host) - 1] = '\0';
    if (a->host[strspn(a->host, plain)] != '\0' || a->host[0] == '.')
        a->host[0] = '\0';
    if (strcmp(listen, "0.0.0.0") != 0 && strcmp(listen, "::") != 0)
        a->listen = listen;
}

int service_tls_auto(struct service *s, struct error *err)
{
    char *path cleanup(mem_free) =
        xasprintf("%s/" DIR_NAME, s->conf->data_dir);
    struct authority a cleanup(authority_done) = {.dir = -1, .path = path};
    int r;

    if (!conf_tls_is_auto(s->conf))
        return 0;
    find_names(&a, s->conf->listen_host);
    if (mkdirat(s->data_fd, DIR_NAME, 0700) < 0 && errno != EEXIST)
        return error_errno(err, ERR_INTERNAL, errno, "cannot make %s", path);
    a.dir = openat(s->data_fd, DIR_NAME,
                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (a.dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s", path);
    r = read_entry(&a, "ca.pem", &a.ca, NULL, err);
    if (r == 0)
        r = read_entry(&a, "server.pem", &a.server, NULL, err);
    if (r == 0)
        r = read_entry(&a, "server.key", NULL, &a.server_key, err);
    if (r == 0 && !(is_usable(&a) && is_valid_for(a.server, SERVER_S / 2) &&
                    has_all_names(&a)))
        r = renew_certificates(&a, err);
    if (r == 0)
        r = read_own(&a, "server.pem", &s->tls_certificate, err);
    return r < 0 ? r : read_own(&a, "server.key", &s->tls_key, err);
}

/* ---- the operator's certificate
 * ----------------------------------------------------- */

int service_tls_read(struct service *s, struct error *err)
{
    int r;

    if (!s->conf->tls_certificate[0])
        return 0;
    r = read_pem(s->conf->tls_certificate, &s->tls_certificate, err);
    return r < 0 ? r : read_pem(s->conf->tls_key, &s->tls_key, err);
}

void service_tls_forget(struct service *s)
{
    wipe(&s->tls_key);
    free(take_ptr(s->tls_certificate));
}

/* ---- the pin for the local command line
 * ------------------------------------- */

/* The pin is the SHA-256 of the certificate's public key, as libcurl takes it.
 * A certificate that cannot be read has none; starting HTTP refuses it. */
void service_tls_pin(struct service *s)
{
    BIO *in =
        s->tls_certificate ? BIO_new_mem_buf(s->tls_certificate, -1) : NULL;
    X509 *x = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
    unsigned char *spki = NULL, hash[HASH_SIZE], text[64];
    int len = x ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &spki) : -1;

    BIO_free(in);
    X509_free(x);
    s->tls_pin[0] = '\0';
    if (len <= 0)
        return;
    hash_sha256(spki, (size_t)len, hash);
    OPENSSL_free(spki);
    (void)EVP_EncodeBlock(text, hash, sizeof(hash));
    (void)snprintf(s->tls_pin, sizeof(s->tls_pin), "sha256//%s", (char *)text);
}
