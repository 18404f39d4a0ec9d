/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the whole audit trail again and names the first fault; see
 * audit.h. Runs in the daemon on a thread that has the time, in one read
 * transaction: what is added meanwhile is not looked at.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit_int.h"
#include "base/error.h"
#include "base/mem.h"

#define PAGE 1000

struct walk {
    const unsigned char *secret;
    unsigned char hash[HASH_SIZE]; /* of the last good event */
    int64_t seq;                   /* of the last good event */
    int64_t damaged;               /* first AUDIT_DAMAGED, or 0 */
    struct audit_report *report;
};

void audit_fault(struct audit_report *report, int64_t seq, const char *fmt,
                 ...)
{
    va_list args;

    report->first_bad = seq;
    va_start(args, fmt);
    (void)vsnprintf(report->fault, sizeof(report->fault), fmt, args);
    va_end(args);
}

static void fault_missing(struct walk *w, int64_t first, int64_t last,
                          const char *where)
{
    if (first == last)
        audit_fault(w->report, first, "event %lld%s is missing",
                    (long long)first, where);
    else
        audit_fault(w->report, first, "events %lld to %lld%s are missing",
                    (long long)first, (long long)last, where);
}

/* ---- events ------------------------------------------------------------- */

static bool is_as_written(const struct walk *w, struct store_rows *row,
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
        audit_fault(w->report, 1,
                    "an event numbered %lld was put before the first",
                    (long long)seq);
    } else if (seq != w->seq + 1) {
        fault_missing(w, w->seq + 1, seq - 1, "");
    } else if (!is_as_written(w, row, hash)) {
        audit_fault(w->report, seq, "event %lld is not as it was written",
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
        audit_fault(w->report, w->seq + 1,
                    "the record of the trail's end is missing");
    else if (head->seal == AUDIT_BROKEN)
        audit_fault(w->report, w->seq ? w->seq : 1,
                    "the record of the trail's end is not as it was written");
    else if (head->seq > w->seq)
        fault_missing(w, w->seq + 1, head->seq, " at the end");
    else if (head->seq < w->seq)
        audit_fault(w->report, head->seq + 1,
                    "event %lld is beyond the recorded end of the trail",
                    (long long)head->seq + 1);
    else if (!hash_equal(head->hash, w->hash, HASH_SIZE))
        audit_fault(w->report, w->seq ? w->seq : 1,
                    "the record of the trail's end belongs to another trail");
    else if (head->seal == AUDIT_MARKED)
        audit_fault(
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
        audit_fault(w->report, kept->seq,
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
    r = report.first_bad ? 0 : audit_verify_tenants(a, &report, err);
    if (r == 0)
        r = audit_lost(a, &report.lost, err);
    *ret = report;
    return r;
}
