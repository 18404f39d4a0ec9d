/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: the service signs the end of a tenant's chain. The private key
 * is in DIR/audit.sign.key; the public keys, past and present, are in the
 * store. Runs in the daemon: on the thread of async_writer.c, and on the
 * thread of a request for a checkpoint.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit_int.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#define KEY_FILE "audit.sign.key"
#define KEY_BYTES 4096           /* more than any PEM of such a key */
#define DUE_EVENTS (int64_t)1000 /* since the last one */
#define DUE_MS (int64_t)3600000
#define DUE_BATCH 200 /* tenants signed in one transaction */

struct audit_signer {
    EVP_PKEY *key;
    char id[ID_MAX];
    char *pem; /* its public half; owned */
};

/* ---- the file ----------------------------------------------------------- */

static char *take_pem(BIO *bio)
{
    char *data = NULL;
    long len = bio ? BIO_get_mem_data(bio, &data) : 0;

    return len > 0 ? xstrndup(data, (size_t)len) : NULL;
}

/* 1, or 0 if there is none. */
static int read_key(int dir, EVP_PKEY **ret, struct error *err)
{
    int fd cleanup(fd_close) =
        openat(dir, KEY_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char text[KEY_BYTES];
    struct stat st;
    BIO *bio;
    ssize_t n;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot read " KEY_FILE);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077)) {
        (void)error_set(err, ERR_INTERNAL,
                        KEY_FILE " must be a file that only its owner can "
                                 "read");
        return error_hint(err, "chmod 600 it; if others could read it, its "
                               "signatures prove nothing: remove it, and a "
                               "new key is made");
    }
    n = fd_read_all(fd, text, sizeof(text));
    bio = n > 0 ? BIO_new_mem_buf(text, (int)n) : NULL;
    *ret = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    explicit_bzero(text, sizeof(text));
    if (*ret && EVP_PKEY_base_id(*ret) == EVP_PKEY_ED25519)
        return 1;
    EVP_PKEY_free(take_ptr(*ret));
    (void)error_set(err, ERR_INTERNAL, KEY_FILE " is damaged");
    return error_hint(err, "restore it from a backup; or remove it, and a new "
                           "key is made");
}

static int make_key(int dir, EVP_PKEY **ret, struct error *err)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    int r = -ENOMEM;

    if (key && bio &&
        PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1) {
        text = take_pem(bio);
        r = text ? fd_write_new(dir, KEY_FILE, text, strlen(text)) : -ENOMEM;
        if (text)
            explicit_bzero(text, strlen(text));
        free(text);
    }
    BIO_free(bio);
    if (r == 0) {
        *ret = key;
        return 0;
    }
    EVP_PKEY_free(key);
    return error_errno(err, ERR_INTERNAL, -r, "cannot make " KEY_FILE);
}

static int read_public(struct audit_signer *s, struct error *err)
{
    BIO *bio = BIO_new(BIO_s_mem());

    if (bio && PEM_write_bio_PUBKEY(bio, s->key) == 1)
        s->pem = take_pem(bio);
    BIO_free(bio);
    if (!s->pem)
        return error_set(err, ERR_INTERNAL, KEY_FILE " cannot be used");
    return audit_proof_key_id(s->pem, s->id, err);
}

/* ---- its public half, in the store -------------------------------------- */

/* An event when there was another before: old checkpoints stay good, but who
 * has noted the old key should know. */
static int note_key(struct audit *a, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct audit_event event = {.action = "audit.key",
                                .object = a->signer->id,
                                .detail = "checkpoints are signed by another "
                                          "key from now on"};
    int r =
        store_begin(a->store, STORE_WRITE, "noting the audit key", &tx, err);

    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT id FROM audit_keys ORDER BY since_ms DESC,"
                      " id LIMIT 1",
                      "");
    if (r == 1) {
        if (strcmp(store_text(row, 0), a->signer->id) == 0)
            return 0;
        event.before = store_text(row, 0);
        r = audit_add(a, tx, NULL, &event, err);
    }
    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO audit_keys (id, pem, since_ms)"
                       " VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE"
                       " SET since_ms = excluded.since_ms",
                       "tti", a->signer->id, a->signer->pem, clock_real_ms());
    return r < 0 ? r : store_commit(&tx, err);
}

int audit_sign_open(struct audit *a, const char *data_dir, struct error *err)
{
    int dir cleanup(fd_close) =
        open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    a->signer = xcalloc(1, sizeof(*a->signer));
    if (dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    r = read_key(dir, &a->signer->key, err);
    if (r == 0)
        r = make_key(dir, &a->signer->key, err);
    if (r >= 0)
        r = read_public(a->signer, err);
    return r < 0 ? r : note_key(a, err);
}

void audit_sign_close(struct audit *a)
{
    if (!a->signer)
        return;
    EVP_PKEY_free(a->signer->key);
    free(a->signer->pem);
    free(take_ptr(a->signer));
}

/* ---- checkpoints -------------------------------------------------------- */

static int sign_checkpoint(const struct audit_signer *s,
                           struct audit_checkpoint *c, struct error *err)
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char signature[AUDIT_SIGNATURE];
    size_t len = sizeof(signature);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good;

    audit_proof_text(c, &text);
    good = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, s->key) == 1 &&
           EVP_DigestSign(ctx, signature, &len,
                          (const unsigned char *)text.data, text.len) == 1 &&
           len == sizeof(signature);
    EVP_MD_CTX_free(ctx);
    if (!good)
        return error_set(err, ERR_INTERNAL, "a checkpoint cannot be signed");
    (void)ids_hex(signature, sizeof(signature), c->signature);
    return 0;
}

/* Signs the newest event of the chain, by an event right behind it. */
static int add_checkpoint(struct audit *a, struct store_tx *tx,
                          const char *tenant, struct error *err)
{
    struct actor who = {.tenant = tenant, .key = "glovebox"};
    struct audit_checkpoint c = {.tenant = tenant};
    struct audit_record record cleanup(audit_record_done) = {0};
    struct audit_tenant_chain link;
    char number[24];
    struct audit_event event = {.action = AUDIT_CHECKPOINT,
                                .object = a->signer->id,
                                .before = number,
                                .after = c.hash};
    int r = audit_tenant_chain_read(a->secret, tx, tenant, &link, err);

    if (r < 0 || link.seq == 0 ||
        (link.signed_seq && link.seq == link.signed_seq + 1))
        return r;
    c.seq = link.seq;
    (void)ids_hex(link.hash, HASH_SIZE, c.hash);
    (void)snprintf(number, sizeof(number), "%lld", (long long)c.seq);
    audit_record_init(&record, &who, &event);
    c.at_ms = record.at_ms;
    r = sign_checkpoint(a->signer, &c, err);
    if (r < 0)
        return r;
    free(record.fields[AUDIT_DETAIL]);
    record.fields[AUDIT_DETAIL] = xstrdup(c.signature);
    r = audit_chain_add(a->secret, tx, &record, err);
    if (r == 0)
        r = audit_tenant_chain_read(a->secret, tx, tenant, &link, err);
    link.signed_seq = c.seq;
    link.signed_at_ms = c.at_ms;
    return r < 0 ? r
                 : audit_tenant_chain_write(a->secret, tx, tenant, &link, err);
}

/* Tenants with more than the last checkpoint itself to sign; owned. */
static int find_due(struct store_tx *tx, int64_t now_ms, char **ret,
                    size_t *ret_count, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(
        tx, &rows, err,
        "SELECT tenant FROM audit_chains WHERE (seq > signed_seq + 1"
        " OR (seq = 1 AND signed_seq = 0)) AND"
        " (seq - signed_seq > ?1 OR signed_at_ms <= ?2 OR signed_at_ms > ?3)"
        " ORDER BY tenant LIMIT ?4",
        "iiii", DUE_EVENTS, now_ms - DUE_MS, now_ms + DUE_MS,
        (int64_t)DUE_BATCH);

    *ret_count = 0;
    while (r == 0 && (r = store_next(rows, err)) == 1) {
        ret[(*ret_count)++] = xstrdup(store_text(rows, 0));
        r = 0;
    }
    return r;
}

int audit_sign_due(struct audit *a, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char *due[DUE_BATCH];
    size_t count = 0;
    int r = store_begin(a->store, STORE_READ, "signing the trail", &tx, err);

    if (r == 0)
        r = find_due(tx, clock_real_ms(), due, &count, err);
    store_rollback(&tx);
    if (r == 0 && count)
        r = store_begin(a->store, STORE_WRITE, "signing the trail", &tx, err);
    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = add_checkpoint(a, tx, due[i], err);
        free(due[i]);
    }
    return r < 0 || !tx ? r : store_commit(&tx, err);
}

int audit_checkpoint(struct audit *a, const char *tenant, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(a->store, STORE_WRITE, "signing the trail", &tx, err);

    if (r == 0)
        r = add_checkpoint(a, tx, tenant, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int audit_keys(struct audit *a, struct audit_key **ret, size_t *ret_count,
               struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct audit_key *keys = NULL;
    size_t count = 0;
    int r = store_begin(a->store, STORE_READ, "reading audit keys", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT id, pem, since_ms FROM audit_keys"
                        " ORDER BY since_ms DESC, id LIMIT 100",
                        "");
    while (r == 0 && (r = store_next(rows, err)) == 1) {
        keys = xrealloc(keys, (count + 1) * sizeof(*keys));
        store_copy(rows, 0, keys[count].id, sizeof(keys[count].id));
        store_copy(rows, 1, keys[count].pem, sizeof(keys[count].pem));
        keys[count++].since_ms = store_int(rows, 2);
        r = 0;
    }
    if (r < 0) {
        free(keys);
        return r;
    }
    *ret = keys;
    *ret_count = count;
    return 0;
}
