/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of events and its head; see audit_int.h. Runs in the daemon, in
 * the caller's write transaction. The head is read from its row each time, so
 * rolling a transaction back removes its events too.
 *
 * The head names the newest event under a seal, so that a truncated chain is
 * detected. If a head that was tampered with were simply continued, the next
 * seal would hide the change. So the seal is checked first. If it is wrong,
 * the trail continues (no act waits for an inquiry), but with an event that
 * records the damage and from then on with another kind of seal, which
 * audit_verify reports.
 */
#include <string.h>

#include "audit/audit_int.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

#define SEQ_MAX (INT64_MAX - 16)

/* ---- hashing ------------------------------------------------------------ */

static void add_number(struct buf *b, uint64_t number)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    buf_add(b, bytes, sizeof(bytes));
}

/* Each of the three uses of the secret starts with a different label. */
static void begin_label(struct buf *b, const char *label)
{
    buf_init(b);
    buf_add(b, label, strlen(label) + 1);
}

void audit_chain_hash(const unsigned char secret[HASH_SIZE],
                      const unsigned char before[HASH_SIZE], int64_t seq,
                      int64_t at_ms,
                      const struct audit_bytes fields[AUDIT_FIELDS],
                      unsigned char ret[HASH_SIZE])
{
    struct buf b cleanup(buf_done) = {0};

    begin_label(&b, "glovebox audit event 1");
    buf_add(&b, before, HASH_SIZE);
    add_number(&b, (uint64_t)seq);
    add_number(&b, (uint64_t)at_ms);
    for (size_t i = 0; i < audit_proof_fields(fields); i++) {
        add_number(&b, fields[i].len);
        buf_add(&b, fields[i].data, fields[i].len);
    }
    hash_hmac(secret, HASH_SIZE, b.data, b.len, ret);
}

static void make_seal(const unsigned char secret[HASH_SIZE],
                      const struct audit_head *head, enum audit_seal kind,
                      unsigned char ret[HASH_SIZE])
{
    struct buf b cleanup(buf_done) = {0};

    begin_label(&b, kind == AUDIT_SEALED ? "glovebox audit head 1"
                                         : "glovebox audit head 1, damaged");
    add_number(&b, (uint64_t)head->seq);
    buf_add(&b, head->hash, HASH_SIZE);
    hash_hmac(secret, HASH_SIZE, b.data, b.len, ret);
}

/* ---- the head ----------------------------------------------------------- */

static bool read_hash(struct store_rows *rows, int column,
                      unsigned char ret[HASH_SIZE])
{
    size_t len;
    const void *hash = store_bytes(rows, column, &len);

    if (!hash || len != HASH_SIZE)
        return false;
    memcpy(ret, hash, HASH_SIZE);
    return true;
}

int audit_chain_head(const unsigned char secret[HASH_SIZE],
                     struct store_tx *tx, struct audit_head *ret,
                     struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    unsigned char stored[HASH_SIZE], expected[HASH_SIZE];
    struct audit_head head = {.seal = AUDIT_BROKEN};
    int r =
        store_one(tx, &row, err,
                  "SELECT seq, hash, seal FROM audit_head WHERE one = 1", "");

    if (r < 0)
        return r;
    if (r == 1) {
        head.there = true;
        head.seq = store_int(row, 0);
        if (read_hash(row, 1, head.hash) && read_hash(row, 2, stored))
            for (int kind = AUDIT_SEALED;
                 kind <= AUDIT_MARKED && head.seal == AUDIT_BROKEN; kind++) {
                make_seal(secret, &head, (enum audit_seal)kind, expected);
                if (hash_equal(stored, expected, HASH_SIZE))
                    head.seal = (enum audit_seal)kind;
            }
    }
    *ret = head;
    return 0;
}

static int head_write(const unsigned char secret[HASH_SIZE],
                      struct store_tx *tx, const struct audit_head *head,
                      struct error *err)
{
    unsigned char seal[HASH_SIZE];
    int r;

    make_seal(secret, head, head->seal, seal);
    r = store_exec(tx, err,
                   "INSERT INTO audit_head (one, seq, hash, seal)"
                   " VALUES (1, ?1, ?2, ?3) ON CONFLICT (one) DO UPDATE"
                   " SET seq = excluded.seq, hash = excluded.hash,"
                   " seal = excluded.seal",
                   "ibb", head->seq, head->hash, (size_t)HASH_SIZE, seal,
                   (size_t)HASH_SIZE);
    return r < 0 ? r : 0;
}

int audit_chain_start(const unsigned char secret[HASH_SIZE],
                      struct store_tx *tx, struct error *err)
{
    struct audit_head head = {.seal = AUDIT_SEALED};

    return head_write(secret, tx, &head, err);
}

/* Continues after the newest event, even if the head names another. */
static int head_recover(struct store_tx *tx, struct audit_head *ret,
                        struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct audit_head head = {.seal = AUDIT_MARKED};
    int r =
        store_one(tx, &row, err,
                  "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", "");

    if (r < 0)
        return r;
    if (r == 1) {
        head.seq = store_int(row, 0);
        (void)read_hash(row, 1, head.hash); /* zeroes will show as well */
    }
    if (head.seq < 0)
        head.seq = 0;
    if (head.seq > SEQ_MAX)
        return error_set(err, ERR_CORRUPT,
                         "the audit trail is damaged at its end");
    *ret = head;
    return 0;
}

/* ---- adding ------------------------------------------------------------- */

/* 1, or 0 if an event with that number is there already. */
static int insert_event(const unsigned char secret[HASH_SIZE],
                        struct store_tx *tx, struct audit_head *head,
                        const struct audit_record *record, struct error *err)
{
    const char *tenant = record->fields[AUDIT_TENANT];
    struct audit_bytes bytes[AUDIT_FIELDS];
    int64_t seq = head->seq + 1;
    unsigned char hash[HASH_SIZE];
    struct audit_tenant_chain link;
    int r = audit_tenant_chain_read(secret, tx, tenant, &link, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < AUDIT_FIELDS; i++)
        bytes[i] =
            (struct audit_bytes){record->fields[i], strlen(record->fields[i])};
    audit_chain_hash(secret, head->hash, seq, record->at_ms, bytes, hash);
    link.seq++;
    audit_proof_hash(link.hash, link.seq, record->at_ms, bytes, link.hash);
    char *const *f = record->fields;
    r = store_exec(
        tx, err,
        "INSERT INTO audit (" AUDIT_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5,"
        " ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
        " ON CONFLICT (seq) DO NOTHING",
        "iitttttttttttttbib", seq, record->at_ms, f[AUDIT_TENANT],
        f[AUDIT_ACTOR], f[AUDIT_ACTION], f[AUDIT_WORKSPACE], f[AUDIT_OBJECT],
        f[AUDIT_PATH], f[AUDIT_BEFORE], f[AUDIT_AFTER], f[AUDIT_RESULT],
        f[AUDIT_DETAIL], f[AUDIT_REQUEST], f[AUDIT_SOURCE], f[AUDIT_TOKEN],
        hash, (size_t)HASH_SIZE, link.seq, link.hash, (size_t)HASH_SIZE);
    if (r == 1 && audit_tenant_chain_write(secret, tx, tenant, &link, err) < 0)
        return -(int)err->code;
    if (r != 1)
        return r;
    head->seq = seq;
    memcpy(head->hash, hash, HASH_SIZE);
    return 1;
}

static int insert_damage(const unsigned char secret[HASH_SIZE],
                         struct store_tx *tx, struct audit_head *head,
                         struct error *err)
{
    static const struct audit_event event = {
        .action = AUDIT_DAMAGED,
        .result = "corrupt",
        .detail = "the record of the trail's end was not as it was written",
    };
    struct audit_record record cleanup(audit_record_done) = {0};
    int r = head_recover(tx, head, err);

    if (r < 0)
        return r;
    audit_record_init(&record, NULL, &event);
    return insert_event(secret, tx, head, &record, err);
}

int audit_chain_add(const unsigned char secret[HASH_SIZE], struct store_tx *tx,
                    const struct audit_record *record, struct error *err)
{
    struct audit_head head;
    int r = audit_chain_head(secret, tx, &head, err);

    if (r < 0)
        return r;
    r = 0;
    if (head.seal != AUDIT_BROKEN && head.seq >= 0 && head.seq <= SEQ_MAX)
        r = insert_event(secret, tx, &head, record, err);
    if (r == 0) { /* a broken head, or an event beyond it */
        r = insert_damage(secret, tx, &head, err);
        if (r == 1)
            r = insert_event(secret, tx, &head, record, err);
    }
    if (r == 0)
        return error_set(err, ERR_CORRUPT, "the audit trail is damaged");
    return r < 0 ? r : head_write(secret, tx, &head, err);
}
