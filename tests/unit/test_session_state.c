/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of a session: every event in every state, allowed or not,
 * and the guards of the events that have one.
 */
#include "session_fixture.h"

/* States as two letters. Phases: Creating, Waking, Up, Saving, Dormant,
 * hibernatinG, Hibernated, Ended. Turns: Free, eXecution, cLosing, eQclusive.
 */
static const char phases[] = "CWUSDGHE", turns[] = "FXLQ";

/* The state after each event, by the state before; "--": not allowed. */
static const struct {
    enum session_event event;
    const char *after[PHASE_ENDED + 1]; /* by phase; turns F X L Q */
} drawn[] = {
    {EV_CREATED,
     {"UF -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_WAKE,
     {"-- -- -- --", "-- -- -- --", "WF WX WL WQ", "-- -- -- --",
      "WF WX WL WQ", "-- -- -- --", "WF WX WL WQ", "-- -- -- --"}},
    {EV_REPLACE,
     {"-- -- -- --", "-- -- -- --", "-- -- -- WQ", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_WOKEN,
     {"-- -- -- --", "UF UX UL UQ", "-- -- -- --", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_WAKE_FAILED,
     {"-- -- -- --", "DF DX DL DQ", "-- -- -- --", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_WAKE_BACK,
     {"-- -- -- --", "HF HX HL HQ", "-- -- -- --", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_HIBERNATE,
     {"-- -- -- --", "-- -- -- --", "GF -- -- --", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_HIBERNATED,
     {"-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --",
      "-- -- -- --", "HF HX HL HQ", "-- -- -- --", "-- -- -- --"}},
    {EV_STAY,
     {"-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --",
      "-- -- -- --", "UF UX UL UQ", "-- -- -- --", "-- -- -- --"}},
    {EV_LOSE,
     {"-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "DF DX DL DQ", "-- -- -- --"}},
    {EV_DROP,
     {"-- -- -- --", "-- -- -- --", "SF SX SL SQ", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_EXPIRE,
     {"-- -- -- --", "-- -- -- --", "SF -- -- --", "-- -- -- --",
      "-- -- -- --", "-- -- -- --", "-- -- -- --", "-- -- -- --"}},
    {EV_DROPPED,
     {"-- -- -- --", "-- -- -- --", "-- -- -- --", "DF DX DL DQ",
      "-- -- -- --", "DF DX DL DQ", "-- -- -- --", "EF EX -- --"}},
    {EV_TAKE,
     {"-- -- -- --", "WX -- -- --", "UX -- -- --", "SX -- -- --",
      "DX -- -- --", "GX -- -- --", "HX -- -- --", "-- -- -- --"}},
    {EV_RELEASE,
     {"-- -- -- --", "-- WF WQ --", "-- UF UQ --", "-- SF SQ --",
      "-- DF DQ --", "-- GF GQ --", "-- HF HQ --", "-- EF -- --"}},
    {EV_CLOSE,
     {"-- -- -- --", "WQ WL -- --", "UQ UL -- --", "SQ SL -- --",
      "DQ DL -- --", "GQ GL -- --", "HQ HL -- --", "-- -- -- --"}},
    {EV_OPEN,
     {"-- -- -- --", "-- -- WX WF", "-- -- UX UF", "-- -- SX SF",
      "-- -- DX DF", "-- -- GX GF", "-- -- HX HF", "EF EX -- --"}},
    {EV_END,
     {"EF -- -- --", "EF EX EX EF", "EF EX EX EF", "EF EX EX EF",
      "EF EX EX EF", "EF EX EX EF", "EF EX EX EF", "-- -- -- --"}},
};

static void session_state_next_is_as_drawn_for_every_event(void **state)
{
    (void)state;
    assert_int_equal(ARRAY_SIZE(drawn), EV_END + 1);
    for (size_t i = 0; i < ARRAY_SIZE(drawn); i++)
        for (unsigned p = 0; p <= PHASE_ENDED; p++)
            for (unsigned t = 0; t <= TURN_EXCLUSIVE; t++) {
                enum session_phase phase = (enum session_phase)p;
                enum session_turn turn = (enum session_turn)t;
                const char *want = drawn[i].after[p] + (size_t)t * 3;
                char got[3] = "--";

                if (session_state_next(&phase, &turn, drawn[i].event)) {
                    got[0] = phases[phase];
                    got[1] = turns[turn];
                } else {
                    assert_int_equal(phase, p); /* nothing was changed */
                    assert_int_equal(turn, t);
                }
                if (memcmp(got, want, 2) != 0)
                    fail_msg("event %u in %c%c leads to %s, not %.2s",
                             drawn[i].event, phases[p], turns[t], got, want);
            }
}

/* ---- guards ------------------------------------------------------------- */

/* Under the lock of the fixture's session, which is idle and has a sandbox. */
static void with_session(struct fixture *f, void (*check)(struct session *se))
{
    struct session *se = session_find(f->s, &WHO, f->id, &f->err);

    assert_non_null(se);
    mutex_lock(&se->lock);
    assert_int_equal(se->phase, PHASE_UP);
    session_state_check(se);
    check(se);
    session_state_check(se);
    mutex_unlock(&se->lock);
    session_unref(se);
}

static void check_expire(struct session *se)
{
    assert_true(session_state_may(se, EV_EXPIRE));
    se->pins = 1; /* an upload is under way */
    assert_false(session_state_may(se, EV_EXPIRE));
    se->pins = 0;
    session_state_event(se, EV_CLOSE); /* a reset is */
    assert_false(session_state_may(se, EV_EXPIRE));
    session_state_event(se, EV_OPEN);
    assert_true(session_state_may(se, EV_EXPIRE));
}

static void check_hibernate(struct session *se)
{
    struct box *box = se->box;
    unsigned live = atomic_load(&se->m->live);

    se->pins = 1;
    assert_false(session_state_may(se, EV_HIBERNATE));
    se->pins = 0;
    session_state_event(se, EV_HIBERNATE);
    se->box = NULL;
    session_state_check(se);
    assert_int_equal(session_state_shown(se), SESSION_IDLE);
    assert_false(session_settled(se));
    /* It keeps its place until its image is stored. */
    assert_int_equal(atomic_load(&se->m->live), live);
    session_state_event(se, EV_STAY);
    se->box = box;
    session_state_check(se);
    session_state_event(se, EV_HIBERNATE);
    se->box = NULL;
    session_state_event(se, EV_HIBERNATED);
    assert_int_equal(atomic_load(&se->m->live), live - 1);
    assert_int_equal(session_state_shown(se), SESSION_HIBERNATED);
    assert_true(session_settled(se) && session_asleep(se));
    assert_int_equal(
        session_quota_take(se->m, se->tenant->name, &se->limits, NULL), 0);
    session_state_event(se, EV_WAKE);
    session_state_event(se, EV_WAKE_BACK);
    assert_int_equal(session_state_shown(se), SESSION_HIBERNATED);
    assert_int_equal(
        session_quota_take(se->m, se->tenant->name, &se->limits, NULL), 0);
    session_state_event(se, EV_WAKE);
    se->box = box;
    session_state_event(se, EV_WOKEN);
}

static void check_wake(struct session *se)
{
    assert_false(session_state_may(se, EV_WAKE)); /* the sandbox works */
    box_break(se->box);
    assert_true(session_state_may(se, EV_WAKE));
}

static void check_replace(struct session *se)
{
    se->pins = 1; /* the attaching call's own */
    assert_false(session_state_may(se, EV_REPLACE)); /* not exclusive */
    session_state_event(se, EV_CLOSE);
    assert_true(session_state_may(se, EV_REPLACE));
    se->pins = 2;
    assert_false(session_state_may(se, EV_REPLACE));
    se->pins = 1;
    box_touch(se->box); /* code has run in it */
    assert_false(session_state_may(se, EV_REPLACE));
    session_state_event(se, EV_OPEN);
    se->pins = 0;
}

static void session_state_guards_what_is_in_use(void **state)
{
    struct fixture *f = *state;

    create(f);
    with_session(f, check_expire);
    with_session(f, check_hibernate);
    with_session(f, check_replace);
    with_session(f, check_wake);
}

static void check_shown(struct session *se)
{
    struct box *box = se->box;

    assert_int_equal(session_state_shown(se), SESSION_IDLE);
    session_state_event(se, EV_DROP);
    se->box = NULL;
    session_state_check(se);
    /* Its last files are not committed yet. */
    assert_int_equal(session_state_shown(se), SESSION_IDLE);
    assert_false(session_settled(se));
    session_state_event(se, EV_DROPPED);
    assert_int_equal(session_state_shown(se), SESSION_DORMANT);
    assert_true(session_settled(se));
    assert_int_equal(
        session_quota_take(se->m, se->tenant->name, &se->limits, NULL), 0);
    session_state_event(se, EV_WAKE);
    assert_int_equal(session_state_shown(se), SESSION_STARTING);
    se->box = box;
    session_state_event(se, EV_WOKEN);
    assert_int_equal(session_state_shown(se), SESSION_IDLE);
}

static void session_state_shown_follows_the_sandbox(void **state)
{
    struct fixture *f = *state;

    create(f);
    with_session(f, check_shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_state_next_is_as_drawn_for_every_event),
        cmocka_unit_test_setup_teardown(session_state_guards_what_is_in_use,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            session_state_shown_follows_the_sandbox, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
