/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backoff for repeated failures: a model that ignores error messages submits
 * the same failing code again and again. From the third failure of the same
 * code in one session, the next run has to wait, twice as long each time, up
 * to a minute. A success, or different code, has no delay. Runs in gloveboxd
 * under the quotas' lock; the state is not persisted. It is bounded: a fixed
 * number of codes per session and of sessions; the least recent is evicted.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/thread.h"
#include "quota/quota_int.h"

static struct quota_loop **loop_bucket(struct quotas *q, const char *session)
{
    return &q->loops[siphash_text(session) % QUOTA_LOOP_BUCKETS];
}

static struct quota_loop *loop_find(struct quotas *q, const char *session)
{
    struct quota_loop *l = *loop_bucket(q, session);

    while (l && strcmp(l->session, session) != 0)
        l = l->next;
    return l;
}

static struct quota_loop_code *loop_code_find(struct quota_loop *l,
                                              const unsigned char hash[32])
{
    for (size_t i = 0; l && i < QUOTA_LOOP_CODES; i++)
        if (l->codes[i].failures && memcmp(l->codes[i].hash, hash, 32) == 0)
            return &l->codes[i];
    return NULL;
}

static void loop_drop_oldest(struct quotas *q)
{
    struct quota_loop **oldest = NULL, *l;

    for (size_t i = 0; i < QUOTA_LOOP_BUCKETS; i++)
        for (struct quota_loop **at = &q->loops[i]; *at; at = &(*at)->next)
            if (!oldest || (*at)->noted_ms < (*oldest)->noted_ms)
                oldest = at;
    if (!oldest)
        return;
    l = *oldest;
    *oldest = l->next;
    free(l);
    q->loop_count--;
}

static struct quota_loop *loop_new(struct quotas *q, const char *session)
{
    struct quota_loop *l, **head = loop_bucket(q, session);

    if (q->loop_count >= QUOTA_LOOP_SESSIONS)
        loop_drop_oldest(q);
    l = xcalloc(1, sizeof(*l));
    (void)snprintf(l->session, sizeof(l->session), "%s", session);
    l->next = *head;
    *head = l;
    q->loop_count++;
    return l;
}

/* Uses a free entry, or that of the code that failed least recently. */
static struct quota_loop_code *loop_code_new(struct quota_loop *l,
                                             const unsigned char hash[32])
{
    struct quota_loop_code *at = &l->codes[0];

    for (size_t i = 0; i < QUOTA_LOOP_CODES && at->failures; i++)
        if (!l->codes[i].failures || l->codes[i].noted_ms < at->noted_ms)
            at = &l->codes[i];
    memset(at, 0, sizeof(*at));
    memcpy(at->hash, hash, sizeof(at->hash));
    return at;
}

static uint64_t loop_wait_ms(uint32_t failures)
{
    uint64_t ms = QUOTA_LOOP_FIRST_MS;

    for (; failures > QUOTA_LOOP_FREE && ms < QUOTA_LOOP_MOST_MS; failures--)
        ms *= 2;
    return MIN(ms, QUOTA_LOOP_MOST_MS);
}

void quota_repeat_note(struct quotas *q, const char *tenant,
                       const char *session, const unsigned char code[32],
                       bool failed)
{
    struct quota_loop_code *c;
    struct quota_loop *l;

    (void)tenant;
    if (!q)
        return;
    mutex_lock(&q->lock);
    l = loop_find(q, session);
    c = loop_code_find(l, code);
    if (failed) {
        if (!l)
            l = loop_new(q, session);
        if (!c)
            c = loop_code_new(l, code);
        l->noted_ms = c->noted_ms = q->mono_ms();
        if (c->failures < UINT32_MAX)
            c->failures++;
        if (c->failures >= QUOTA_LOOP_FREE)
            c->not_before_ms = c->noted_ms + loop_wait_ms(c->failures);
    } else if (c) {
        memset(c, 0, sizeof(*c));
    }
    mutex_unlock(&q->lock);
}

static int refuse_loop(struct quotas *q, const struct quota_loop_code *c,
                       uint64_t left_ms, struct error *err)
{
    int seconds = (int)((left_ms + 999) / 1000);

    (void)error_set(err, ERR_LIMIT,
                    "this exact code has failed %u times in a row in this "
                    "session and is not run again for %d s",
                    c->failures, seconds);
    (void)error_hint(err, "It would fail the same way: read the last error, "
                          "then change the code or what it depends on. Other "
                          "code runs at once.");
    err->quota = QUOTA_LOOP_NAME;
    err->quota_most = QUOTA_LOOP_FREE;
    err->quota_used = c->failures;
    err->quota_until_ms = q->real_ms() + (int64_t)left_ms;
    q->refusals[QUOTA_KINDS]++;
    return error_retry(err, seconds);
}

static void report_loop(struct quotas *q, const char *tenant,
                        const char *session, uint32_t failures)
{
    struct actor who = {.tenant = tenant, .key = "glovebox"};
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "the same code failed %u times",
                   failures);
    log_event(LOG_WARN, "execution_repeated", "tenant", tenant, "session",
              session, NULL);
    if (q->audit)
        audit_later(q->audit, &who,
                    &(struct audit_event){.action = "execution.repeated",
                                          .object = session,
                                          .result = QUOTA_LOOP_NAME,
                                          .detail = detail});
}

int quota_repeat_check(struct quotas *q, const char *tenant,
                       const char *session, const unsigned char code[32],
                       uint32_t *ret_repeats, struct error *err)
{
    struct quota_loop_code *c;
    uint32_t failures = 0;
    bool first = false;
    uint64_t now;
    int rc = 0;

    *ret_repeats = 0;
    if (!q)
        return 0;
    mutex_lock(&q->lock);
    now = q->mono_ms();
    c = loop_code_find(loop_find(q, session), code);
    if (c)
        *ret_repeats = failures = c->failures;
    if (c && now < c->not_before_ms) {
        rc = refuse_loop(q, c, c->not_before_ms - now, err);
        first = !c->told;
        c->told = true;
    }
    mutex_unlock(&q->lock);
    if (first)
        report_loop(q, tenant, session, failures);
    return rc;
}

void quota_repeats_done(struct quotas *q)
{
    for (size_t i = 0; i < QUOTA_LOOP_BUCKETS; i++)
        while (q->loops[i]) {
            struct quota_loop *l = q->loops[i];

            q->loops[i] = l->next;
            free(l);
        }
}
