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
#include "base/thread.h"
#include "quota/quota_int.h"

static struct quota_loop **bucket(struct quotas *q, const char *session)
{
    return &q->loops[quota_hash(session) % QUOTA_LOOP_BUCKETS];
}

static struct quota_loop *find_session(struct quotas *q, const char *session)
{
    struct quota_loop *l = *bucket(q, session);

    while (l && strcmp(l->session, session) != 0)
        l = l->next;
    return l;
}

static struct quota_loop_code *code_of(struct quota_loop *l,
                                       const unsigned char hash[32])
{
    for (size_t i = 0; l && i < QUOTA_LOOP_CODES; i++)
        if (l->codes[i].failures && memcmp(l->codes[i].hash, hash, 32) == 0)
            return &l->codes[i];
    return NULL;
}

static void drop_oldest(struct quotas *q)
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

static struct quota_loop *make(struct quotas *q, const char *session)
{
    struct quota_loop *l, **head = bucket(q, session);

    if (q->loop_count >= QUOTA_LOOP_SESSIONS)
        drop_oldest(q);
    l = xcalloc(1, sizeof(*l));
    (void)snprintf(l->session, sizeof(l->session), "%s", session);
    l->next = *head;
    *head = l;
    q->loop_count++;
    return l;
}

/* A free place for it, or that of the one which failed least recently. */
static struct quota_loop_code *place(struct quota_loop *l,
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

static uint64_t wait_ms(uint32_t failures)
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
    l = find_session(q, session);
    c = code_of(l, code);
    if (failed) {
        if (!l)
            l = make(q, session);
        if (!c)
            c = place(l, code);
        l->noted_ms = c->noted_ms = q->mono_ms();
        if (c->failures < UINT32_MAX)
            c->failures++;
        if (c->failures >= QUOTA_LOOP_FREE)
            c->not_before_ms = c->noted_ms + wait_ms(c->failures);
    } else if (c) {
        memset(c, 0, sizeof(*c));
    }
    mutex_unlock(&q->lock);
}

static int slow_down(struct quotas *q, const struct quota_loop_code *c,
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

static void report(struct quotas *q, const char *tenant, const char *session,
                   uint32_t failures)
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
    c = code_of(find_session(q, session), code);
    if (c)
        *ret_repeats = failures = c->failures;
    if (c && now < c->not_before_ms) {
        rc = slow_down(q, c, c->not_before_ms - now, err);
        first = !c->told;
        c->told = true;
    }
    mutex_unlock(&q->lock);
    if (first)
        report(q, tenant, session, failures);
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
