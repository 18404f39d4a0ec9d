/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's state machine: the one place that assigns session.state.
 * Runs in gloveboxd under session.lock. Does nothing but check and count.
 *
 *              create                       turn taken
 *                │            made  ┌──────┐ ────────▶ ┌─────────┐
 *                ▼          ┌─────▶ │ IDLE │           │ RUNNING │
 *          ┌──────────┐ ────┘       └──────┘ ◀──────── └─────────┘
 *          │ STARTING │ ───────── made, turn waiting ──────▲ │ │
 *          └──────────┘ ◀── box found dead ── IDLE, RUNNING ──┘ │
 *             ▲    │ could not be made                          │
 *        wake │    ▼                                            │
 *          ┌─────────┐ ◀── cooldown, lifetime: IDLE ─ box lost ─┘
 *          │ DORMANT │
 *          └─────────┘        any ── delete ──▶ ENDED
 *
 *   STARTING  moving; no box yet             [session_wake, session_create]
 *   IDLE      box; nothing runs              [session_wake, execute: release]
 *   RUNNING   box; running is set            [execute: take turn, wake]
 *   DORMANT   no box; the workspace has all  [session_wake_drop, load]
 *   ENDED     out of the tables; final       [session_end]
 */
#include <assert.h>

#include "base/log.h"
#include "session/session_int.h"

#define BIT(state) (1u << (state))

static const unsigned allowed[SESSION_ENDED + 1] = {
    [SESSION_STARTING] = BIT(SESSION_IDLE) | BIT(SESSION_RUNNING) |
                         BIT(SESSION_DORMANT) | BIT(SESSION_ENDED),
    [SESSION_IDLE] = BIT(SESSION_RUNNING) | BIT(SESSION_STARTING) |
                     BIT(SESSION_DORMANT) | BIT(SESSION_ENDED),
    [SESSION_RUNNING] = BIT(SESSION_IDLE) | BIT(SESSION_STARTING) |
                        BIT(SESSION_DORMANT) | BIT(SESSION_ENDED),
    [SESSION_DORMANT] = BIT(SESSION_STARTING) | BIT(SESSION_ENDED),
    [SESSION_ENDED] = 0,
};

static const char *const names[SESSION_ENDED + 1] = {
    [SESSION_STARTING] = "starting", [SESSION_IDLE] = "idle",
    [SESSION_RUNNING] = "running",   [SESSION_DORMANT] = "dormant",
    [SESSION_ENDED] = "ended",
};

const char *session_state_name(enum session_state state)
{
    return names[state];
}

bool session_state_live(enum session_state state)
{
    return state != SESSION_DORMANT && state != SESSION_ENDED;
}

bool session_state_allows(enum session_state from, enum session_state to)
{
    return (allowed[from] & BIT(to)) != 0;
}

void session_state_check(const struct session *se)
{
    switch (se->state) {
    case SESSION_STARTING:
        assert(se->moving && !se->box);
        break;
    case SESSION_IDLE:
        assert(se->box && !se->running && !se->moving);
        break;
    case SESSION_RUNNING:
        assert(se->box && se->running && !se->moving);
        break;
    case SESSION_DORMANT:
        assert(!se->box);
        break;
    case SESSION_ENDED:
        assert(!se->box && !se->queue_head);
        break;
    }
}

void session_state_set(struct session *se, enum session_state to)
{
    enum session_state from = se->state;

    assert(session_state_allows(from, to));
    se->state = to;
    if (session_state_live(from) && !session_state_live(to)) {
        session_quota_give(se->m, se->tenant->name, &se->limits);
        pool_sessions_add(se->pool, -1);
        atomic_fetch_sub(&se->m->live, 1);
        session_limits_live(se->m, &se->limits, false);
    } else if (!session_state_live(from) && session_state_live(to)) {
        /* Its tenant's quotas have been taken by who wakes it. */
        pool_sessions_add(se->pool, 1);
        atomic_fetch_add(&se->m->live, 1);
        session_limits_live(se->m, &se->limits, true);
    }
    log_event(LOG_DEBUG, "session_state", "session", se->id, "from",
              names[from], "to", names[to], NULL);
}
