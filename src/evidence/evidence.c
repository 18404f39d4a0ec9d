/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues what is known of executions and writes it along with the events of
 * the audit trail, in the same transactions and on the same thread; sweeps
 * what is older than it is to be kept. See evidence.h. Runs in the daemon.
 */
#include "evidence/evidence.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "evidence/evidence_int.h"

#define BATCH 128
#define BATCH_BYTES ((size_t)8 << 20)
#define SWEEP_MS 3600000u
#define SWEEP_ROWS 1000 /* at most, in one transaction */
#define FAILURES_MOST 5 /* of what is no fault of the disk */
#define FLUSH_S 10
#define DAY_MS ((int64_t)86400000)

/* ---- the queue; the lock is held ---------------------------------------- */

static void waiting_free(struct evidence_waiting *w)
{
    free(w->body);
    free(w->code);
    free(w);
}

static void drop_first(struct evidence *ev)
{
    struct evidence_waiting *w = ev->first;

    ev->first = w->next;
    if (!ev->first)
        ev->end = &ev->first;
    ev->count--;
    ev->bytes -= w->bytes;
    waiting_free(w);
}

/* How many of the first go into one transaction. */
static size_t choose(const struct evidence *ev)
{
    const struct evidence_waiting *w = ev->first;
    size_t count = 0, bytes = 0;

    while (w && count < BATCH && (count == 0 || bytes < BATCH_BYTES)) {
        bytes += w->bytes;
        count++;
        w = w->next;
    }
    return count;
}

/* ---- on audit's thread -------------------------------------------------- */

static int insert(struct store_tx *tx, const struct evidence_waiting *w,
                  struct error *err)
{
    int r = store_exec(
        tx, err,
        "INSERT INTO evidence (execution, tenant, session, workspace, pool,"
        " actor, at_ms, outcome, code_sha256, body, code) VALUES (?1, ?2, ?3,"
        " ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (execution) DO UPDATE"
        " SET at_ms = excluded.at_ms, outcome = excluded.outcome,"
        " body = excluded.body, code = excluded.code",
        "ttttttitttt", w->execution, w->tenant, w->session, w->workspace,
        w->pool, w->actor, w->at_ms, w->outcome, w->code_sha256, w->body,
        w->code ? w->code : "");

    return r < 0 ? r : 0;
}

static int sweep(struct evidence *ev, struct store_tx *tx, struct error *err)
{
    int64_t before = clock_real_ms() - ev->settings.days * DAY_MS;
    int r;

    if (!ev->settings.days ||
        (ev->sweep_ms && clock_mono_ms() < ev->sweep_ms + SWEEP_MS))
        return 0;
    r = store_exec(tx, err,
                   "DELETE FROM evidence WHERE execution IN (SELECT execution"
                   " FROM evidence WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
                   "ii", before, (int64_t)SWEEP_ROWS);
    if (r >= 0 && r < SWEEP_ROWS) /* else more of them next time */
        ev->sweep_ms = clock_mono_ms();
    return r < 0 ? r : 0;
}

/* Only this thread takes off the queue, so the first stay where they are. */
static int on_write(void *ctx, struct store_tx *tx, struct error *err)
{
    struct evidence *ev = ctx;
    const struct evidence_waiting *w;
    size_t count;

    mutex_lock(&ev->lock); /* fails only on misuse */
    w = ev->first;
    count = ev->aboard = choose(ev);
    mutex_unlock(&ev->lock);
    for (size_t i = 0; i < count; i++) {
        if (i) /* the last one's next may be set while we write */
            w = w->next;
        if (insert(tx, w, err) < 0)
            return -(int)err->code;
    }
    return sweep(ev, tx, err);
}

static bool worth_trying_again(struct evidence *ev, const struct error *err)
{
    bool disk = err->code == ERR_SPACE || err->code == ERR_BUSY;

    return store_writable(ev->store) &&
           (disk || ++ev->failures < FAILURES_MOST);
}

static void on_written(void *ctx, const struct error *err)
{
    struct evidence *ev = ctx;
    bool more;
    size_t lost = 0;

    mutex_lock(&ev->lock); /* fails only on misuse */
    if (err && worth_trying_again(ev, err)) {
        ev->aboard = 0;
    } else {
        lost = err ? ev->aboard : 0;
        ev->failures = 0;
        for (; ev->aboard; ev->aboard--)
            drop_first(ev);
    }
    ev->passes++;
    more = ev->count > 0;
    cond_broadcast(&ev->written);
    mutex_unlock(&ev->lock);
    if (lost)
        log_event(LOG_ERROR, "evidence_lost", "error", err->message, NULL);
    if (more)
        audit_flush_soon(ev->audit);
}

/* ---- opening and closing ------------------------------------------------ */

int evidence_open(const struct evidence_settings *settings,
                  struct store *store, struct audit *audit,
                  struct evidence **ret, struct error *err)
{
    struct evidence *ev = xcalloc(1, sizeof(*ev));

    (void)err;
    ev->settings = *settings;
    ev->store = store;
    ev->audit = audit;
    ev->end = &ev->first;
    mutex_init(&ev->lock); /* cannot fail on Linux */
    cond_init(&ev->written);
    audit_set_piggyback(
        audit, &(struct audit_piggyback){
                   .ctx = ev, .write = on_write, .written = on_written});
    audit_flush_soon(audit); /* what is too old goes now */
    *ret = ev;
    return 0;
}

void evidence_flush(struct evidence *ev)
{
    uint64_t deadline = clock_mono_ms() + 1000u * FLUSH_S;
    uint64_t most; /* passes that must do, or it cannot be written */

    if (!ev)
        return;
    mutex_lock(&ev->lock);
    most = ev->passes + 3 + ev->count / BATCH + ev->bytes / BATCH_BYTES;
    while (ev->count > 0 && ev->passes < most &&
           cond_wait_until(&ev->written, &ev->lock, deadline))
        continue;
    mutex_unlock(&ev->lock);
}

void evidence_close(struct evidence *ev)
{
    if (!ev)
        return;
    evidence_flush(ev);
    audit_set_piggyback(ev->audit, NULL);
    if (ev->count)
        log_event(LOG_ERROR, "evidence_lost", "error",
                  "it could not be written before the end", NULL);
    while (ev->first)
        drop_first(ev);
    cond_done(&ev->written); /* no waiters are left */
    mutex_done(&ev->lock);
    free(ev);
}

/* ---- recording ---------------------------------------------------------- */

static void copy_text(char *ret, size_t size, const char *text)
{
    (void)snprintf(ret, size, "%s", text ? text : "");
}

static struct evidence_waiting *make(const struct evidence *ev,
                                     const struct evidence_run *run)
{
    struct evidence_waiting *w = xcalloc(1, sizeof(*w));
    unsigned char hash[HASH_SIZE];
    struct buf body = {0};
    bool keep = ev->settings.code && run->code && !run->ephemeral;

    hash_sha256(run->code ? run->code : "", run->code ? run->code_len : 0,
                hash);
    (void)ids_hex(hash, HASH_SIZE, w->code_sha256);
    copy_text(w->execution, sizeof(w->execution), run->execution);
    copy_text(w->session, sizeof(w->session), run->session);
    copy_text(w->workspace, sizeof(w->workspace), run->workspace);
    copy_text(w->tenant, sizeof(w->tenant), run->who->tenant);
    copy_text(w->pool, sizeof(w->pool), run->pool);
    copy_text(w->actor, sizeof(w->actor), run->who->key);
    copy_text(w->outcome, sizeof(w->outcome), run->outcome);
    w->at_ms = run->finished_at_ms ? run->finished_at_ms : clock_real_ms();
    if (keep)
        w->code = xstrndup(
            run->code, utf8_cut(run->code, run->code_len, EVIDENCE_CODE_MAX));
    evidence_body(run, w->code_sha256, keep, ev->settings.output, &body);
    w->body = buf_take(&body, &w->bytes);
    w->bytes += sizeof(*w) + (w->code ? strlen(w->code) : 0);
    return w;
}

static void tell_dropped(struct evidence *ev, uint64_t dropped)
{
    char detail[96];

    (void)snprintf(detail, sizeof(detail),
                   "evidence of %llu executions was not kept: too many at "
                   "once",
                   (unsigned long long)dropped);
    audit_later(ev->audit, NULL,
                &(struct audit_event){.action = "evidence.dropped",
                                      .result = "limit",
                                      .detail = detail});
}

void evidence_record(struct evidence *ev, const struct evidence_run *run)
{
    struct evidence_waiting *w;
    uint64_t dropped = 0;

    if (!ev)
        return;
    w = make(ev, run);
    mutex_lock(&ev->lock); /* fails only on misuse */
    if (ev->count < EVIDENCE_QUEUE_MAX &&
        ev->bytes + w->bytes <= EVIDENCE_QUEUE_BYTES) {
        *ev->end = w;
        ev->end = &w->next;
        ev->count++;
        ev->bytes += w->bytes;
        dropped = ev->dropped;
        ev->dropped = 0;
        w = NULL;
    } else {
        ev->dropped++;
    }
    mutex_unlock(&ev->lock);
    if (w)
        waiting_free(w);
    if (dropped)
        tell_dropped(ev, dropped);
    audit_flush_soon(ev->audit);
}
