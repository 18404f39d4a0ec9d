/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of each tenant's own hash chain; see audit_int.h. Runs in the
 * daemon, inside the caller's write transaction. Like the head of the global
 * chain it carries a seal. If the seal is wrong, the chain continues after the
 * newest stored event, and its head gets another kind of seal from then on,
 * which verification reports.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit_int.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

static void make_seal(const unsigned char secret[HASH_SIZE],
                      const char *tenant,
                      const struct audit_tenant_chain *link,
                      enum audit_seal kind, unsigned char ret[HASH_SIZE])
{
    struct buf b cleanup(buf_done) = {0};

    buf_addf(&b, "glovebox audit chain end 1%s\n%s\n%lld\n%lld\n%lld\n",
             kind == AUDIT_SEALED ? "" : ", damaged", tenant,
             (long long)link->seq, (long long)link->signed_seq,
             (long long)link->signed_at_ms);
    buf_add(&b, link->hash, HASH_SIZE);
    hash_hmac(secret, HASH_SIZE, b.data, b.len, ret);
}

static bool copy_hash(struct store_rows *row, int column,
                      unsigned char ret[HASH_SIZE])
{
    size_t len;
    const void *hash = store_bytes(row, column, &len);

    return hash && len == HASH_SIZE && memcpy(ret, hash, HASH_SIZE);
}

/* 1 with its seal, or 0: there is none, or it is of no use. */
static int read_sealed_head(const unsigned char secret[HASH_SIZE],
                            struct store_tx *tx, const char *tenant,
                            struct audit_tenant_chain *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    unsigned char seal[HASH_SIZE], expected[HASH_SIZE];
    int r = store_one(tx, &row, err,
                      "SELECT seq, hash, seal, signed_seq, signed_at_ms"
                      " FROM audit_chains WHERE tenant = ?1",
                      "t", tenant);

    if (r < 1)
        return r;
    ret->seq = store_int(row, 0);
    ret->signed_seq = store_int(row, 3);
    ret->signed_at_ms = store_int(row, 4);
    if (!copy_hash(row, 1, ret->hash) || !copy_hash(row, 2, seal))
        return 0;
    for (int kind = AUDIT_SEALED; kind <= AUDIT_MARKED; kind++) {
        make_seal(secret, tenant, ret, (enum audit_seal)kind, expected);
        if (hash_equal(seal, expected, HASH_SIZE)) {
            ret->seal = (enum audit_seal)kind;
            return 1;
        }
    }
    return 0;
}

int audit_tenant_chain_read(const unsigned char secret[HASH_SIZE],
                            struct store_tx *tx, const char *tenant,
                            struct audit_tenant_chain *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = read_sealed_head(secret, tx, tenant, ret, err);

    if (r != 0)
        return r < 0 ? r : 0;
    *ret = (struct audit_tenant_chain){.seal = AUDIT_SEALED,
                                       .signed_at_ms = clock_real_ms()};
    r = store_one(tx, &row, err,
                  "SELECT chain_seq, chain_hash FROM audit"
                  " WHERE tenant = ?1 AND chain_seq > 0"
                  " ORDER BY chain_seq DESC LIMIT 1",
                  "t", tenant);
    if (r == 1) { /* so there must have been an end */
        ret->seal = AUDIT_MARKED;
        ret->seq = store_int(row, 0);
        (void)copy_hash(row, 1, ret->hash); /* zeroes will show as well */
    }
    return r < 0 ? r : 0;
}

int audit_tenant_chain_write(const unsigned char secret[HASH_SIZE],
                             struct store_tx *tx, const char *tenant,
                             const struct audit_tenant_chain *link,
                             struct error *err)
{
    unsigned char seal[HASH_SIZE];
    int r;

    make_seal(secret, tenant, link, link->seal, seal);
    r = store_exec(tx, err,
                   "INSERT INTO audit_chains (tenant, seq, hash, seal,"
                   " signed_seq, signed_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                   " ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq,"
                   " hash = excluded.hash, seal = excluded.seal,"
                   " signed_seq = excluded.signed_seq,"
                   " signed_at_ms = excluded.signed_at_ms",
                   "tibbii", tenant, link->seq, link->hash, (size_t)HASH_SIZE,
                   seal, (size_t)HASH_SIZE, link->signed_seq,
                   link->signed_at_ms);
    return r < 0 ? r : 0;
}
