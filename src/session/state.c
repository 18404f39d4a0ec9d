/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of a session: the one place that assigns session.phase
 * and session.turn. Runs in gloveboxd under session.lock. Checks, assigns and
 * counts; does nothing that waits.
 *
 * A state is a pair: where the sandbox is (phase), and which thread may use it
 * (turn).
 *
 *    CREATING ──CREATED──▶ UP ◀──────WOKEN────── WAKING
 *                          │ ╲                   ▲   │
 *             DROP, EXPIRE │  ╲──WAKE, REPLACE───╯   │ WAKE_FAILED
 *                          ▼                     ▲   ▼
 *                       SAVING ──DROPPED──▶ DORMANT ─╯ WAKE
 *
 *    UP ──HIBERNATE──▶ HIBERNATING ──HIBERNATED──▶ HIBERNATED ──WAKE──▶ WAKING
 *     ▲                 │   │ DROPPED                │    ▲              │
 *     ╰──────STAY───────╯   ╰──────▶ DORMANT ◀──LOSE─╯    ╰──WAKE_BACK───╯
 *
 *                 any phase ──END──▶ ENDED
 *
 *    FREE ──TAKE──▶ EXECUTION ──RELEASE──▶ FREE
 *    FREE ──CLOSE──▶ EXCLUSIVE ──OPEN──▶ FREE
 *    EXECUTION ──CLOSE──▶ CLOSING ──RELEASE──▶ EXCLUSIVE
 *                         CLOSING ──OPEN──▶ EXECUTION
 *
 * `transitions` is the whole machine: an event that no row allows in a state
 * is a bug and asserts. A session that hibernates keeps its place under the
 * limits until its image is stored, so that it can stay up if that fails.
 */
#include <assert.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "feed/feed.h"
#include "session/session_int.h"

#define BIT(value) (1u << (value))
#define ANY_TURN (BIT(TURN_EXCLUSIVE + 1) - 1)
#define SAME (-1)

/* A sandbox that does not work is replaced where it stands. */
static bool has_broken_box(const struct session *se)
{
    return se->box && box_is_broken(se->box);
}

/* No execution waits, no upload or file call is under way. */
static bool is_unused(const struct session *se)
{
    return !se->queue_head && !se->pins;
}

bool session_untouched(const struct session *se)
{
    return se->phase == PHASE_UP && !se->running && se->pins == 1 &&
           !box_is_touched(se->box);
}

static const struct transition {
    enum session_event event;
    unsigned phases, turns; /* sets of BIT() */
    int to_phase, to_turn;
    bool (*guard)(const struct session *se); /* NULL: none */
} transitions[] = {
    /* The sandbox. */
    {EV_CREATED, BIT(PHASE_CREATING), BIT(TURN_FREE), PHASE_UP, SAME, NULL},
    {EV_WAKE, BIT(PHASE_DORMANT) | BIT(PHASE_HIBERNATED), ANY_TURN,
     PHASE_WAKING, SAME, NULL},
    {EV_WAKE, BIT(PHASE_UP), ANY_TURN, PHASE_WAKING, SAME, has_broken_box},
    {EV_REPLACE, BIT(PHASE_UP), BIT(TURN_EXCLUSIVE), PHASE_WAKING, SAME,
     session_untouched},
    {EV_WOKEN, BIT(PHASE_WAKING), ANY_TURN, PHASE_UP, SAME, NULL},
    {EV_WAKE_FAILED, BIT(PHASE_WAKING), ANY_TURN, PHASE_DORMANT, SAME, NULL},
    {EV_WAKE_BACK, BIT(PHASE_WAKING), ANY_TURN, PHASE_HIBERNATED, SAME, NULL},
    {EV_DROP, BIT(PHASE_UP), ANY_TURN, PHASE_SAVING, SAME, NULL},
    {EV_EXPIRE, BIT(PHASE_UP), BIT(TURN_FREE), PHASE_SAVING, SAME, is_unused},
    {EV_DROPPED, BIT(PHASE_SAVING), ANY_TURN, PHASE_DORMANT, SAME, NULL},
    /* Its memory. */
    {EV_HIBERNATE, BIT(PHASE_UP), BIT(TURN_FREE), PHASE_HIBERNATING, SAME,
     is_unused},
    {EV_HIBERNATED, BIT(PHASE_HIBERNATING), ANY_TURN, PHASE_HIBERNATED, SAME,
     NULL},
    {EV_STAY, BIT(PHASE_HIBERNATING), ANY_TURN, PHASE_UP, SAME, NULL},
    {EV_DROPPED, BIT(PHASE_HIBERNATING), ANY_TURN, PHASE_DORMANT, SAME, NULL},
    {EV_LOSE, BIT(PHASE_HIBERNATED), ANY_TURN, PHASE_DORMANT, SAME, NULL},
    /* Deleted while its files were saved. */
    {EV_DROPPED, BIT(PHASE_ENDED), BIT(TURN_FREE) | BIT(TURN_EXECUTION), SAME,
     SAME, NULL},

/* The turn. */
#define EXISTS                                                                \
    (BIT(PHASE_WAKING) | BIT(PHASE_UP) | BIT(PHASE_SAVING) |                  \
     BIT(PHASE_DORMANT) | BIT(PHASE_HIBERNATING) | BIT(PHASE_HIBERNATED))
    {EV_TAKE, EXISTS, BIT(TURN_FREE), SAME, TURN_EXECUTION, NULL},
    {EV_RELEASE, EXISTS | BIT(PHASE_ENDED), BIT(TURN_EXECUTION), SAME,
     TURN_FREE, NULL},
    {EV_RELEASE, EXISTS, BIT(TURN_CLOSING), SAME, TURN_EXCLUSIVE, NULL},
    {EV_CLOSE, EXISTS, BIT(TURN_FREE), SAME, TURN_EXCLUSIVE, NULL},
    {EV_CLOSE, EXISTS, BIT(TURN_EXECUTION), SAME, TURN_CLOSING, NULL},
    {EV_OPEN, EXISTS, BIT(TURN_EXCLUSIVE), SAME, TURN_FREE, NULL},
    {EV_OPEN, EXISTS, BIT(TURN_CLOSING), SAME, TURN_EXECUTION, NULL},
    /* END has opened it. */
    {EV_OPEN, BIT(PHASE_ENDED), BIT(TURN_FREE) | BIT(TURN_EXECUTION), SAME,
     SAME, NULL},

    /* The end. What still runs has been asked to end, and releases later. */
    {EV_END, EXISTS | BIT(PHASE_CREATING), BIT(TURN_FREE), PHASE_ENDED, SAME,
     NULL},
    {EV_END, EXISTS, BIT(TURN_EXECUTION), PHASE_ENDED, SAME, NULL},
    {EV_END, EXISTS, BIT(TURN_EXCLUSIVE), PHASE_ENDED, TURN_FREE, NULL},
    {EV_END, EXISTS, BIT(TURN_CLOSING), PHASE_ENDED, TURN_EXECUTION, NULL},
};

static const char *const phase_names[] = {
    [PHASE_CREATING] = "creating",
    [PHASE_WAKING] = "waking",
    [PHASE_UP] = "up",
    [PHASE_SAVING] = "saving",
    [PHASE_DORMANT] = "dormant",
    [PHASE_HIBERNATING] = "hibernating",
    [PHASE_HIBERNATED] = "hibernated",
    [PHASE_ENDED] = "ended",
};

static const char *const turn_names[] = {
    [TURN_FREE] = "free",
    [TURN_EXECUTION] = "execution",
    [TURN_CLOSING] = "closing",
    [TURN_EXCLUSIVE] = "exclusive",
};

static const struct transition *find_row(enum session_phase phase,
                                         enum session_turn turn,
                                         enum session_event event)
{
    for (size_t i = 0; i < ARRAY_SIZE(transitions); i++) {
        const struct transition *t = &transitions[i];

        if (t->event == event && (t->phases & BIT(phase)) &&
            (t->turns & BIT(turn)))
            return t;
    }
    return NULL;
}

bool session_state_next(enum session_phase *phase, enum session_turn *turn,
                        enum session_event event)
{
    const struct transition *t = find_row(*phase, *turn, event);

    if (!t)
        return false;
    if (t->to_phase != SAME)
        *phase = (enum session_phase)t->to_phase;
    if (t->to_turn != SAME)
        *turn = (enum session_turn)t->to_turn;
    return true;
}

bool session_state_may(const struct session *se, enum session_event event)
{
    const struct transition *t = find_row(se->phase, se->turn, event);

    return t && (!t->guard || t->guard(se));
}

/* Counted under the limits (R8). A session that is being saved is not: its
 * place is free for others. */
static bool is_live(enum session_phase phase)
{
    return phase == PHASE_CREATING || phase == PHASE_WAKING ||
           phase == PHASE_UP || phase == PHASE_HIBERNATING;
}

void session_state_init(struct session *se, enum session_phase phase)
{
    assert(phase == PHASE_CREATING || phase == PHASE_DORMANT ||
           phase == PHASE_HIBERNATED);
    se->phase = phase;
    se->turn = TURN_FREE;
}

/* By phase and turn alone: `running` is set after the turn was taken. */
static enum session_state shown_by(enum session_phase phase,
                                   enum session_turn turn)
{
    switch (phase) {
    case PHASE_CREATING:
    case PHASE_WAKING:
        return SESSION_STARTING;
    case PHASE_UP:
        return turn == TURN_EXECUTION || turn == TURN_CLOSING ? SESSION_RUNNING
                                                              : SESSION_IDLE;
    case PHASE_SAVING:
    case PHASE_HIBERNATING:
        return SESSION_IDLE;
    case PHASE_DORMANT:
        return SESSION_DORMANT;
    case PHASE_HIBERNATED:
        return SESSION_HIBERNATED;
    case PHASE_ENDED:
        break;
    }
    return SESSION_ENDED;
}

void session_state_publish(const struct session *se)
{
    struct feed_item item;

    session_feed_item(se, &item);
    item.kind = FEED_SESSION;
    item.state = session_state_name(shown_by(se->phase, se->turn));
    item.created_at_ms = se->created_at_ms;
    feed_publish(se->m->core->feed, &item);
}

void session_state_event(struct session *se, enum session_event event)
{
    enum session_phase was = se->phase;
    enum session_state shown = shown_by(se->phase, se->turn);

    assert(session_state_may(se, event));
    (void)session_state_next(&se->phase, &se->turn, event);
    if (is_live(was) && !is_live(se->phase)) {
        session_quota_give(se->m, se->tenant->name, &se->limits);
        pool_sessions_add(se->pool, -1);
        atomic_fetch_sub(&se->m->live, 1);
        session_limits_live(se->m, &se->limits, false);
    } else if (!is_live(was) && is_live(se->phase)) {
        /* session_wake has taken the tenant's quotas. */
        pool_sessions_add(se->pool, 1);
        atomic_fetch_add(&se->m->live, 1);
        session_limits_live(se->m, &se->limits, true);
    }
    cond_broadcast(&se->cond);
    /* One that is being created cannot be found yet. */
    if (was != PHASE_CREATING && shown != shown_by(se->phase, se->turn))
        session_state_publish(se);
    log_event(LOG_DEBUG, "session_state", "session", se->id, "phase",
              phase_names[se->phase], "turn", turn_names[se->turn], NULL);
}

void session_state_check(const struct session *se)
{
    bool executes = se->turn == TURN_EXECUTION || se->turn == TURN_CLOSING;

    assert((se->box != NULL) == (se->phase == PHASE_UP));
    assert((se->running != NULL) == executes);
    if (se->phase == PHASE_CREATING)
        assert(se->turn == TURN_FREE && !se->queue_head && !se->pins);
    if (se->phase == PHASE_ENDED)
        assert(!se->queue_head && se->turn != TURN_CLOSING &&
               se->turn != TURN_EXCLUSIVE);
}

bool session_settled(const struct session *se)
{
    return se->phase == PHASE_UP || session_asleep(se) ||
           se->phase == PHASE_ENDED;
}

bool session_asleep(const struct session *se)
{
    return se->phase == PHASE_DORMANT || se->phase == PHASE_HIBERNATED;
}

bool session_closed(const struct session *se)
{
    return se->turn == TURN_CLOSING || se->turn == TURN_EXCLUSIVE;
}

/* ---- what clients see --------------------------------------------------- */

const char *session_state_name(enum session_state state)
{
    static const char *const names[SESSION_ENDED + 1] = {
        [SESSION_STARTING] = "starting",     [SESSION_IDLE] = "idle",
        [SESSION_RUNNING] = "running",       [SESSION_DORMANT] = "dormant",
        [SESSION_HIBERNATED] = "hibernated", [SESSION_ENDED] = "ended",
    };

    return names[state];
}

enum session_state session_state_shown(const struct session *se)
{
    switch (se->phase) {
    case PHASE_CREATING:
    case PHASE_WAKING:
        return SESSION_STARTING;
    case PHASE_UP:
        return se->running ? SESSION_RUNNING : SESSION_IDLE;
    case PHASE_SAVING: /* dormant once its last files are committed */
    case PHASE_HIBERNATING:
        return SESSION_IDLE;
    case PHASE_DORMANT:
        return SESSION_DORMANT;
    case PHASE_HIBERNATED:
        return SESSION_HIBERNATED;
    case PHASE_ENDED:
        break;
    }
    return SESSION_ENDED;
}
