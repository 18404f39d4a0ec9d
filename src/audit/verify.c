/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputes the audit trail and names the first fault; see audit.h: first the
 * chain of all events, then the chain of each tenant with its checkpoints.
 * Runs in the daemon on a thread that can take its time. Each chain is read in
 * one transaction: events added meanwhile are not checked.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit_int.h"
#include "base/error.h"
#include "base/mem.h"

#define PAGE 1000 /* events */

/* Records the first fault, and where. */
__attribute__((format(printf, 3, 4))) static void set_fault(
    struct audit_report *report, int64_t seq, const char *fmt, ...)
{
    va_list args;

    report->first_bad = seq;
    va_start(args, fmt);
    (void)vsnprintf(report->fault, sizeof(report->fault), fmt, args);
    va_end(args);
}

/* ---- a tenant's chain --------------------------------------------------- */

struct tenant_walk {
    const char *tenant;
    unsigned char hash[HASH_SIZE]; /* of the last good event */
    int64_t seq;                   /* of the last good event */

    const struct audit_key *keys;
    size_t key_count;
    struct audit_report *report;
};

/* Does the checkpoint in this row sign the event before it? */
static bool checkpoint_fits(const struct tenant_walk *w,
                            struct store_rows *row)
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

static bool tenant_event_is_intact(const struct tenant_walk *w,
                                   struct store_rows *row,
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

static void tenant_check_event(struct tenant_walk *w, struct store_rows *row)
{
    int64_t seq = store_int(row, AUDIT_CHAIN_COLUMN);
    const char *action = store_text(row, AUDIT_FIRST_FIELD + AUDIT_ACTION);
    unsigned char hash[HASH_SIZE];

    w->report->events++;
    if (seq <= w->seq)
        set_fault(w->report, seq, "there are two events numbered %lld",
                  (long long)seq);
    else if (seq != w->seq + 1)
        set_fault(w->report, w->seq + 1, "events %lld to %lld are missing",
                  (long long)w->seq + 1, (long long)seq - 1);
    else if (!tenant_event_is_intact(w, row, hash))
        set_fault(w->report, seq, "event %lld is not as it was written",
                  (long long)seq);
    else if (action && strcmp(action, AUDIT_CHECKPOINT) == 0 &&
             !checkpoint_fits(w, row))
        set_fault(w->report, seq,
                  "checkpoint %lld is not signed by a key of ours",
                  (long long)seq);
    if (w->report->first_bad)
        return;
    w->seq = seq;
    memcpy(w->hash, hash, sizeof(hash));
}

/* 1 after a full page, 0 at the end or a fault. */
static int tenant_check_page(struct tenant_walk *w, struct store_tx *tx,
                             int64_t *after, struct error *err)
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
        tenant_check_event(w, rows);
        count++;
    }
    *after = w->seq;
    return r < 0 ? r : count == PAGE && !w->report->first_bad;
}

static int tenant_check_head(struct tenant_walk *w,
                             const unsigned char secret[HASH_SIZE],
                             struct store_tx *tx, struct error *err)
{
    struct audit_tenant_chain end;
    int r = audit_tenant_chain_read(secret, tx, w->tenant, &end, err);

    if (r < 0)
        return r;
    if (end.seal != AUDIT_SEALED)
        set_fault(w->report, w->seq ? w->seq : 1,
                  "the record of the chain's end was changed; events may be "
                  "missing");
    else if (end.seq > w->seq)
        set_fault(w->report, w->seq + 1,
                  "events %lld to %lld at the end are missing",
                  (long long)w->seq + 1, (long long)end.seq);
    else if (end.seq < w->seq)
        set_fault(w->report, end.seq + 1,
                  "event %lld is beyond the recorded end",
                  (long long)end.seq + 1);
    else if (!hash_equal(end.hash, w->hash, HASH_SIZE))
        set_fault(w->report, w->seq,
                  "the recorded end belongs to another chain");
    return 0;
}

int audit_verify_tenant(struct audit *a, const char *tenant,
                        struct audit_report *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_key *keys cleanup(mem_free) = NULL;
    struct audit_report report = {0};
    struct tenant_walk w = {.tenant = tenant, .report = &report};
    int r = audit_keys(a, &keys, &w.key_count, err);

    w.keys = keys;
    if (r == 0)
        r = store_begin(a->store, STORE_READ, "checking a tenant's trail", &tx,
                        err);
    if (r == 0) {
        int64_t after = 0;

        do
            r = tenant_check_page(&w, tx, &after, err);
        while (r == 1);
        if (r == 0 && !w.report->first_bad)
            r = tenant_check_head(&w, a->secret, tx, err);
    }
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

/* Every tenant's chain. The number of a fault is that of the tenant's chain,
 * and its text names the tenant. */
static int verify_tenants(struct audit *a, struct audit_report *ret,
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

/* ---- the chain of all events -------------------------------------------- */

struct walk {
    const unsigned char *secret;
    unsigned char hash[HASH_SIZE]; /* of the last good event */
    int64_t seq;                   /* of the last good event */
    int64_t damaged;               /* first AUDIT_DAMAGED, or 0 */
    struct audit_report *report;
};

static void fault_missing(struct walk *w, int64_t first, int64_t last,
                          const char *where)
{
    if (first == last)
        set_fault(w->report, first, "event %lld%s is missing",
                  (long long)first, where);
    else
        set_fault(w->report, first, "events %lld to %lld%s are missing",
                  (long long)first, (long long)last, where);
}

/* ---- events ------------------------------------------------------------- */

static bool event_is_intact(const struct walk *w, struct store_rows *row,
                            unsigned char ret_hash[HASH_SIZE])
{
    struct audit_bytes fields[AUDIT_FIELDS];
    const void *stored;
    size_t len;

    /* Bytes, not text: something may have been hidden behind a NUL. */
    for (int i = 0; i < AUDIT_FIELDS; i++)
        fields[i].data =
            store_bytes(row, AUDIT_FIRST_FIELD + i, &fields[i].len);
    audit_chain_hash(w->secret, w->hash, store_int(row, 0), store_int(row, 1),
                     fields, ret_hash);
    stored = store_bytes(row, AUDIT_HASH_COLUMN, &len);
    return stored && len == HASH_SIZE && hash_equal(stored, ret_hash, len);
}

static void check_event(struct walk *w, struct store_rows *row)
{
    int64_t seq = store_int(row, 0);
    unsigned char hash[HASH_SIZE];
    const char *action = store_text(row, AUDIT_FIRST_FIELD + AUDIT_ACTION);

    w->report->events++;
    if (seq <= w->seq) {
        set_fault(w->report, 1,
                  "an event numbered %lld was put before the first",
                  (long long)seq);
    } else if (seq != w->seq + 1) {
        fault_missing(w, w->seq + 1, seq - 1, "");
    } else if (!event_is_intact(w, row, hash)) {
        set_fault(w->report, seq, "event %lld is not as it was written",
                  (long long)seq);
    } else {
        w->seq = seq;
        memcpy(w->hash, hash, sizeof(hash));
        if (!w->damaged && action && strcmp(action, AUDIT_DAMAGED) == 0)
            w->damaged = seq;
    }
}

/* 1 after a full page, 0 at the end or a fault. */
static int check_page(struct walk *w, struct store_tx *tx, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int64_t after = w->report->events ? w->seq : INT64_MIN;
    int count = 0, r;

    if (store_query(tx, &rows, err,
                    "SELECT " AUDIT_COLUMNS " FROM audit"
                    " WHERE seq > ?1 ORDER BY seq LIMIT ?2",
                    "ii", after, (int64_t)PAGE) < 0)
        return -(int)err->code;
    while ((r = store_next(rows, err)) == 1 && !w->report->first_bad) {
        check_event(w, rows);
        count++;
    }
    if (r < 0)
        return r;
    return count == PAGE && !w->report->first_bad;
}

/* ---- the end ------------------------------------------------------------ */

static void check_head(struct walk *w, const struct audit_head *head)
{
    if (!head->there)
        set_fault(w->report, w->seq + 1,
                  "the record of the trail's end is missing");
    else if (head->seal == AUDIT_BROKEN)
        set_fault(w->report, w->seq ? w->seq : 1,
                  "the record of the trail's end is not as it was written");
    else if (head->seq > w->seq)
        fault_missing(w, w->seq + 1, head->seq, " at the end");
    else if (head->seq < w->seq)
        set_fault(w->report, head->seq + 1,
                  "event %lld is beyond the recorded end of the trail",
                  (long long)head->seq + 1);
    else if (!hash_equal(head->hash, w->hash, HASH_SIZE))
        set_fault(w->report, w->seq ? w->seq : 1,
                  "the record of the trail's end belongs to another trail");
    else if (head->seal == AUDIT_MARKED)
        set_fault(
            w->report, w->damaged ? w->damaged : 1,
            "the record of the trail's end was found changed before event "
            "%lld; events before it may be missing",
            (long long)w->damaged);
}

/* The trail has what audit.head says, or more. */
static int check_kept(struct walk *w, struct store_tx *tx,
                      const struct audit_mark *kept, struct error *err)
{
    int r = audit_head_has(tx, kept, err);

    if (r == 0 && kept->seq > w->seq)
        fault_missing(w, w->seq + 1, kept->seq,
                      " at the end, which audit.head says were written,");
    else if (r == 0)
        set_fault(w->report, kept->seq,
                  "event %lld is not the one that audit.head names",
                  (long long)kept->seq);
    return MIN(r, 0);
}

int audit_verify(struct audit *a,
                 void (*progress)(void *ctx, int64_t done, int64_t total),
                 void *ctx, struct audit_report *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_report report = {0};
    struct walk w = {.secret = a->secret, .report = &report};
    struct audit_mark kept = audit_head_last(a); /* before the snapshot */
    struct audit_head head;
    int r;

    if (store_begin(a->store, STORE_READ, "checking the audit trail", &tx,
                    err) < 0 ||
        audit_chain_head(a->secret, tx, &head, err) < 0)
        return -(int)err->code;
    do {
        r = check_page(&w, tx, err);
        if (r < 0)
            return r;
        if (progress)
            progress(ctx, report.events, MAX(head.seq, report.events));
    } while (r == 1);
    if (!report.first_bad)
        check_head(&w, &head);
    if (!report.first_bad && check_kept(&w, tx, &kept, err) < 0)
        return -(int)err->code;
    (void)ids_hex(w.hash, HASH_SIZE, report.head);
    store_rollback(&tx);
    r = report.first_bad ? 0 : verify_tenants(a, &report, err);
    if (r == 0)
        r = audit_lost(a, &report.lost, err);
    *ret = report;
    return r;
}
