/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The circuit breaker of a model: after several failed calls in a row, calls
 * fail at once for a while; then a single call tries again. A server that is
 * down so costs its callers no minutes, and is not besieged when it returns.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/model_int.h"

#define FAILURES 5u
#define PAUSE_LEAST_MS 5000u
#define PAUSE_MOST_MS 120000u

int model_breaker_enter(struct model_entry *e, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&e->lock);
    uint64_t now = clock_mono_ms();

    if (!e->open_until_ms)
        return 0;
    if (now >= e->open_until_ms && !e->probing) {
        e->probing = true;
        return 0;
    }
    (void)error_set(err, ERR_UNAVAILABLE,
                    "model %s failed %u times in a row and is not called for "
                    "the moment",
                    e->spec.name, e->failures);
    (void)error_hint(err, "See what its server says: glovebox model test %s",
                     e->spec.name);
    return error_retry(err, now < e->open_until_ms
                                ? (int)((e->open_until_ms - now) / 1000) + 1
                                : 1);
}

void model_breaker_leave(struct model_entry *e, bool counts, bool good,
                         const char *why)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&e->lock);

    if (good) {
        e->good_at_ms = clock_real_ms();
    } else if (why) {
        e->bad_at_ms = clock_real_ms();
        e->why = why;
    }
    if (e->open_until_ms)
        e->probing = false;
    if (!counts)
        return;
    if (good) {
        if (e->open_until_ms)
            log_event(LOG_INFO, "model_works_again", "model", e->spec.name,
                      NULL);
        e->failures = 0;
        e->open_until_ms = e->pause_ms = 0;
        return;
    }
    if (++e->failures < FAILURES)
        return;
    e->pause_ms =
        e->pause_ms ? MIN(e->pause_ms * 2, PAUSE_MOST_MS) : PAUSE_LEAST_MS;
    if (!e->open_until_ms)
        log_event(LOG_WARN, "model_given_up", "model", e->spec.name, "means",
                  "calls fail at once until it works again", NULL);
    e->open_until_ms = clock_mono_ms() + e->pause_ms;
}

/* ---- for people --------------------------------------------------------- */

const char *model_state_name(enum model_state state)
{
    static const char *const names[] = {
        [MODEL_STATE_UNKNOWN] = "unknown",
        [MODEL_STATE_UP] = "up",
        [MODEL_STATE_FAILING] = "failing",
        [MODEL_STATE_DOWN] = "down",
    };

    return names[state];
}

void model_health_of(struct model_entry *e, struct model_health *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&e->lock);
    bool bad = e->bad_at_ms > e->good_at_ms;

    *ret = (struct model_health){
        .state = e->spec.kind == MODEL_ECHO ? MODEL_STATE_UP
                 : e->open_until_ms         ? MODEL_STATE_DOWN
                 : bad                      ? MODEL_STATE_FAILING
                 : e->good_at_ms            ? MODEL_STATE_UP
                                            : MODEL_STATE_UNKNOWN,
        .answered_at_ms = e->good_at_ms,
        .failed_at_ms = e->bad_at_ms,
        .why = bad ? e->why : "",
    };
}
