/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be proven of a trail without its secret. Each tenant's events form
 * a chain of their own: SHA-256 of the event and of the hash before it. From
 * time to time the service signs (Ed25519) how far a chain is: a checkpoint,
 * which is an event of that chain itself and signs the event before it. Who
 * has the public key can check an export, and one noted checkpoint shows that
 * everything up to it is there and unchanged. Pure functions, shared by the
 * daemon and the command line; the signing half is sign.c.
 */
#ifndef GLOVEBOX_AUDIT_PROOF_H
#define GLOVEBOX_AUDIT_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/ids.h"

struct error;

/* What an event holds, in the order of the columns, which is also that of the
 * hashes. */
enum audit_field {
    AUDIT_TENANT,
    AUDIT_ACTOR,
    AUDIT_ACTION,
    AUDIT_WORKSPACE,
    AUDIT_OBJECT,
    AUDIT_PATH,
    AUDIT_BEFORE,
    AUDIT_AFTER,
    AUDIT_RESULT,
    AUDIT_DETAIL,
    AUDIT_REQUEST,
    AUDIT_SOURCE,
    /* Of the events of before there was none; so it is hashed only where
     * there is one, and older chains stay as they are. It is the last: what
     * the others are hashed to cannot be mistaken for it. */
    AUDIT_TOKEN,
    AUDIT_FIELDS
};

extern const char *const audit_field_names[AUDIT_FIELDS];

struct audit_bytes {
    const void *data;
    size_t len;
};

/* How many of them are hashed. */
static inline size_t audit_proof_fields(
    const struct audit_bytes fields[AUDIT_FIELDS])
{
    return fields[AUDIT_TOKEN].len ? AUDIT_FIELDS : AUDIT_TOKEN;
}

void audit_proof_hash(const unsigned char before[HASH_SIZE], int64_t seq,
                      int64_t at_ms,
                      const struct audit_bytes fields[AUDIT_FIELDS],
                      unsigned char ret[HASH_SIZE]);

#define AUDIT_CHECKPOINT "audit.checkpoint"
#define AUDIT_SIGNATURE 64 /* bytes */

/* As an event: object is the key, before the number, after the hash and
 * detail the signature of the event that comes before it in its chain. */
struct audit_checkpoint {
    const char *tenant;
    int64_t seq, at_ms;
    char hash[2 * HASH_SIZE + 1];
    char key[ID_MAX]; /* akey_… */
    char signature[2 * AUDIT_SIGNATURE + 1];
};

/* The text that is signed. */
void audit_proof_text(const struct audit_checkpoint *c, struct buf *out);
/* Of such an event; false when it is none. tenant is borrowed. */
bool audit_proof_read(const char *const fields[AUDIT_FIELDS], int64_t at_ms,
                      struct audit_checkpoint *ret);
/* pem: of the public key. False also for a key that is none. */
bool audit_proof_signed(const struct audit_checkpoint *c, const char *pem);
/* The name of a public key: akey_… */
int audit_proof_key_id(const char *pem, char ret[ID_MAX], struct error *err);

/* Lower-case hex to bytes; the text must be of just that length. */
bool audit_proof_unhex(const char *text, unsigned char *ret, size_t len);

#endif
