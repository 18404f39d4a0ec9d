/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes a tenant's own chain again, with its checkpoints, and names the
 * first fault; see audit.h. Runs in the daemon on a thread that has the time,
 * in one read transaction.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit_int.h"
#include "base/error.h"
#include "base/mem.h"

#define PAGE 1000

struct walk {
    const char *tenant;
    unsigned char hash[HASH_SIZE]; /* of the last good event */
    int64_t seq;                   /* of the last good event */

    const struct audit_key *keys;
    size_t key_count;
    struct audit_report *report;
};

/* ---- events ------------------------------------------------------------- */

/* It signs the event before it. */
static bool checkpoint_fits(const struct walk *w, struct store_rows *row)
{
    const char *fields[AUDIT_FIELDS];
    struct audit_checkpoint c;
    unsigned char hash[HASH_SIZE];

    for (int i = 0; i < AUDIT_FIELDS; i++)
        fields[i] = store_text(row, AUDIT_FIRST_FIELD + i);
    if (!audit_proof_read(fields, store_int(row, 1), &c) || c.seq != w->seq ||
        !audit_proof_unhex(c.hash, hash, sizeof(hash)) ||
        !hash_equal(hash, w->hash, HASH_SIZE))
        return false;
    for (size_t i = 0; i < w->key_count; i++)
        if (strcmp(w->keys[i].id, c.key) == 0)
            return audit_proof_signed(&c, w->keys[i].pem);
    return false;
}

static bool is_as_written(const struct walk *w, struct store_rows *row,
                          unsigned char ret_hash[HASH_SIZE])
{
    struct audit_bytes fields[AUDIT_FIELDS];
    const void *stored;
    size_t len;

    for (int i = 0; i < AUDIT_FIELDS; i++)
        fields[i].data =
            store_bytes(row, AUDIT_FIRST_FIELD + i, &fields[i].len);
    audit_proof_hash(w->hash, store_int(row, AUDIT_CHAIN_COLUMN),
                     store_int(row, 1), fields, ret_hash);
    stored = store_bytes(row, AUDIT_CHAIN_COLUMN + 1, &len);
    return stored && len == HASH_SIZE && hash_equal(stored, ret_hash, len);
}

static void check_event(struct walk *w, struct store_rows *row)
{
    int64_t seq = store_int(row, AUDIT_CHAIN_COLUMN);
    const char *action = store_text(row, AUDIT_FIRST_FIELD + AUDIT_ACTION);
    unsigned char hash[HASH_SIZE];

    w->report->events++;
    if (seq <= w->seq)
        audit_fault(w->report, seq, "there are two events numbered %lld",
                    (long long)seq);
    else if (seq != w->seq + 1)
        audit_fault(w->report, w->seq + 1, "events %lld to %lld are missing",
                    (long long)w->seq + 1, (long long)seq - 1);
    else if (!is_as_written(w, row, hash))
        audit_fault(w->report, seq, "event %lld is not as it was written",
                    (long long)seq);
    else if (action && strcmp(action, AUDIT_CHECKPOINT) == 0 &&
             !checkpoint_fits(w, row))
        audit_fault(w->report, seq,
                    "checkpoint %lld is not signed by a key of ours",
                    (long long)seq);
    if (w->report->first_bad)
        return;
    w->seq = seq;
    memcpy(w->hash, hash, sizeof(hash));
}

/* 1 after a full page, 0 at the end or a fault. */
static int check_page(struct walk *w, struct store_tx *tx, int64_t *after,
                      struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int count = 0, r;

    if (store_query(tx, &rows, err,
                    "SELECT " AUDIT_COLUMNS " FROM audit WHERE tenant = ?1"
                    " AND chain_seq > 0 AND chain_seq > ?2"
                    " ORDER BY chain_seq, seq LIMIT ?3",
                    "tii", w->tenant, *after, (int64_t)PAGE) < 0)
        return -(int)err->code;
    while ((r = store_next(rows, err)) == 1 && !w->report->first_bad) {
        check_event(w, rows);
        count++;
    }
    *after = w->seq;
    return r < 0 ? r : count == PAGE && !w->report->first_bad;
}

/* ---- the end ------------------------------------------------------------ */

static int check_end(struct walk *w, const unsigned char secret[HASH_SIZE],
                     struct store_tx *tx, struct error *err)
{
    struct audit_tenant_chain end;
    int r = audit_tenant_chain_read(secret, tx, w->tenant, &end, err);

    if (r < 0)
        return r;
    if (end.seal != AUDIT_SEALED)
        audit_fault(w->report, w->seq ? w->seq : 1,
                    "the record of the chain's end was changed; events may be "
                    "missing");
    else if (end.seq > w->seq)
        audit_fault(w->report, w->seq + 1,
                    "events %lld to %lld at the end are missing",
                    (long long)w->seq + 1, (long long)end.seq);
    else if (end.seq < w->seq)
        audit_fault(w->report, end.seq + 1,
                    "event %lld is beyond the recorded end",
                    (long long)end.seq + 1);
    else if (!hash_equal(end.hash, w->hash, HASH_SIZE))
        audit_fault(w->report, w->seq,
                    "the recorded end belongs to another chain");
    return 0;
}

static int verify(struct audit *a, struct store_tx *tx, struct walk *w,
                  struct error *err)
{
    int64_t after = 0;
    int r;

    do
        r = check_page(w, tx, &after, err);
    while (r == 1);
    if (r == 0 && !w->report->first_bad)
        r = check_end(w, a->secret, tx, err);
    return r;
}

int audit_verify_tenant(struct audit *a, const char *tenant,
                        struct audit_report *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_key *keys cleanup(mem_free) = NULL;
    struct audit_report report = {0};
    struct walk w = {.tenant = tenant, .report = &report};
    int r = audit_keys(a, &keys, &w.key_count, err);

    w.keys = keys;
    if (r == 0)
        r = store_begin(a->store, STORE_READ, "checking a tenant's trail", &tx,
                        err);
    if (r == 0)
        r = verify(a, tx, &w, err);
    (void)ids_hex(w.hash, HASH_SIZE, report.head);
    *ret = report;
    return r;
}

/* The next of them in order of name; 1, or 0 after the last. */
static int next_tenant(struct audit *a, char **name, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_begin(a->store, STORE_READ, "looking for tenants", &tx, err);

    if (r == 0 && !*name)
        r = store_one(tx, &row, err,
                      "SELECT tenant FROM audit WHERE chain_seq > 0"
                      " ORDER BY tenant LIMIT 1",
                      "");
    else if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT tenant FROM audit WHERE chain_seq > 0"
                      " AND tenant > ?1 ORDER BY tenant LIMIT 1",
                      "t", *name);
    if (r == 1) {
        free(*name);
        *name = xstrdup(store_text(row, 0));
    }
    return r;
}

int audit_verify_tenants(struct audit *a, struct audit_report *ret,
                         struct error *err)
{
    char *name cleanup(mem_free) = NULL;
    int r;

    while ((r = next_tenant(a, &name, err)) == 1) {
        struct audit_report one;

        r = audit_verify_tenant(a, name, &one, err);
        if (r < 0)
            return r;
        if (one.first_bad) {
            ret->first_bad = one.first_bad;
            (void)snprintf(ret->fault, sizeof(ret->fault),
                           "tenant '%.40s': %.100s", name, one.fault);
            return 0;
        }
    }
    return r;
}
