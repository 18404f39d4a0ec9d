/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this node is: node.id in the data directory, which stays locked while
 * the node runs, so that a copied directory is no second node of that name on
 * this machine; and its key in node/, made on the first start. Other nodes
 * know the key by its pin in the store, so no authority has to sign it. Runs
 * in gloveboxd while it starts.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cert.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "node/node_int.h"

#define ID_FILE "node.id"
#define KEY_DIR "node"
#define KEY_SECONDS (3650L * 86400L)
#define PEM_MAX ((size_t)64 << 10)
/* The same of all nodes: a server says whose certificates it accepts. */
#define KEY_NAME "Glovebox node"

static int read_id(struct nodes *n, int dir, struct error *err)
{
    char *text cleanup(mem_free) = NULL;
    char made[ID_MAX + 1];
    size_t len = 0;
    int r = fd_read_file(dir, ID_FILE, ID_MAX, &text, &len);

    if (r == -ENOENT) {
        ids_make("node", n->id);
        (void)snprintf(made, sizeof(made), "%s\n", n->id);
        r = fd_write_new(dir, ID_FILE, made, strlen(made));
    } else if (r == 0) {
        text[strcspn(text, "\n")] = '\0';
        if (!ids_valid("node", text))
            return error_set(err, ERR_CORRUPT,
                             "%s holds no id of a node; remove it to give the "
                             "node a new one",
                             ID_FILE);
        (void)snprintf(n->id, sizeof(n->id), "%s", text);
    }
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r, "cannot use %s", ID_FILE)
                 : 0;
}

static int lock_id(struct nodes *n, int dir, struct error *err)
{
    n->id_fd = openat(dir, ID_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (n->id_fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           ID_FILE);
    if (flock(n->id_fd, LOCK_EX | LOCK_NB) < 0)
        return error_errno(err, ERR_CONFLICT, errno,
                           "another process is this node: %s is locked",
                           ID_FILE);
    return 0;
}

static char *key_pem(EVP_PKEY *key)
{
    BIO *out = BIO_new(BIO_s_secmem());
    char *at = NULL, *pem = NULL;
    long len;

    if (out &&
        PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1) {
        len = BIO_get_mem_data(out, &at);
        pem = xstrndup(at, (size_t)len);
    }
    BIO_free(out);
    return pem;
}

static int write_pem(int dir, const char *name, char *pem, struct error *err)
{
    int r = pem ? fd_write_new(dir, name, pem, strlen(pem)) : -ENOMEM;

    if (pem)
        explicit_bzero(pem, strlen(pem));
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r,
                               "cannot write " KEY_DIR "/%s", name)
                 : 0;
}

static int make_key(int dir, struct error *err)
{
    struct cert_spec own = {
        .name = KEY_NAME, .seconds = KEY_SECONDS, .authority = true};
    struct cert_spec spec = {.name = KEY_NAME,
                             .seconds = KEY_SECONDS,
                             .alternative = "DNS:node.invalid"};
    EVP_PKEY *key = cert_key();
    /* A server may not show the certificate of an authority. */
    X509 *issuer = key ? cert_issue(key, &own, NULL, NULL) : NULL;
    X509 *certificate = issuer ? cert_issue(key, &spec, issuer, key) : NULL;
    char *secret cleanup(mem_free) = key ? key_pem(key) : NULL;
    char *shown cleanup(mem_free) = certificate ? cert_pem(certificate) : NULL;
    int r;

    X509_free(certificate);
    X509_free(issuer);
    EVP_PKEY_free(key);
    /* The key last: where it is, so is the certificate. */
    r = write_pem(dir, "node.pem", shown, err);
    return r < 0 ? r : write_pem(dir, "node.key", secret, err);
}

static int read_pin(struct nodes *n, int dir, struct error *err)
{
    char *pem cleanup(mem_free) = NULL;
    unsigned char *spki = NULL, hash[HASH_SIZE];
    X509 *certificate = NULL;
    size_t len = 0;
    BIO *in = NULL;
    int size = -1, r = fd_read_file(dir, "node.pem", PEM_MAX, &pem, &len);

    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r,
                           "cannot read " KEY_DIR "/node.pem");
    in = BIO_new_mem_buf(pem, (int)len);
    certificate = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
    BIO_free(in);
    if (certificate)
        size = i2d_PUBKEY(X509_get0_pubkey(certificate), &spki);
    X509_free(certificate);
    if (size <= 0)
        return error_set(err, ERR_CORRUPT,
                         KEY_DIR "/node.pem holds no certificate; remove the "
                                 "folder to make a new key");
    hash_sha256(spki, (size_t)size, hash);
    OPENSSL_free(spki);
    (void)ids_hex(hash, sizeof(hash), n->pin);
    return 0;
}

static int open_key(struct nodes *n, const char *data_dir, int data,
                    struct error *err)
{
    int dir cleanup(fd_close) = -1;
    int r = 0;

    if (mkdirat(data, KEY_DIR, 0700) < 0 && errno != EEXIST)
        return error_errno(err, ERR_INTERNAL, errno, "cannot make %s/" KEY_DIR,
                           data_dir);
    dir =
        openat(data, KEY_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s/" KEY_DIR,
                           data_dir);
    if (faccessat(dir, "node.key", F_OK, 0) < 0) {
        (void)unlinkat(dir, "node.pem", 0); /* of a start that was cut */
        r = make_key(dir, err);
    }
    n->key_file = xasprintf("%s/" KEY_DIR "/node.key", data_dir);
    n->certificate_file = xasprintf("%s/" KEY_DIR "/node.pem", data_dir);
    return r < 0 ? r : read_pin(n, dir, err);
}

int node_identity_open(struct nodes *n, const char *data_dir,
                       struct error *err)
{
    int data cleanup(fd_close) =
        open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (data < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    r = read_id(n, data, err);
    if (r == 0)
        r = lock_id(n, data, err);
    if (r == 0)
        r = open_key(n, data_dir, data, err);
    (void)snprintf(n->tag, sizeof(n->tag), "%s", n->id + strlen("node_"));
    return r;
}
