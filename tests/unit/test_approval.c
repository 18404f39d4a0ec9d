/* SPDX-License-Identifier: Apache-2.0 */
/*
 * approval: what is held is decided once, by somebody else, in time; what was
 * approved is carried out at most once, also across a restart; deliveries
 * keep their order and their pauses.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "approval/approval_int.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "scratch.h"
#include "store_choice.h"

/* ---- help --------------------------------------------------------------- */

struct fixture {
    char dir[64], secret[96];
    struct approval_settings set;
    struct store *store;
    struct audit *audit;
    struct approvals *a;
    struct error err;
    int called, refuse;
    char last[ID_MAX];
    enum approval_state last_state;
};

static int64_t now_ms;

static int64_t now(void)
{
    return now_ms;
}

static const struct actor ann = {
    .tenant = "acme", .key = "key_ann", .scopes = AUTH_EXECUTE | AUTH_APPROVE};
static const struct actor bob = {
    .tenant = "acme", .key = "key_bob", .scopes = AUTH_APPROVE};
static const struct actor boss = {
    .tenant = "acme", .key = "key_boss", .scopes = AUTH_ADMIN};
static const struct actor clerk = {.tenant = "acme",
                                   .key = "key_clerk",
                                   .scopes = AUTH_EXECUTE,
                                   .admin = true};
static const struct actor eve = {
    .tenant = "other", .key = "key_eve", .scopes = AUTH_SCOPES_ALL};

static const struct policy_decision rule = {
    .verdict = POLICY_ASK, .rule = "ask-first", .version = 7};

static int on_decided(void *ctx, const struct approval_info *info)
{
    struct fixture *f = ctx;

    if (f->refuse)
        return f->refuse;
    f->called++;
    (void)snprintf(f->last, sizeof(f->last), "%s", info->id);
    f->last_state = info->state;
    assert_non_null(info->payload);
    return 0;
}

static void must_open(struct fixture *f)
{
    if (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0 ||
        audit_open(f->store, f->dir, &f->audit, &f->err) < 0 ||
        approvals_open(&f->set, f->store, f->audit, &f->a, &f->err) < 0)
        fail_msg("%s", f->err.message);
    approvals_on_decided(f->a, on_decided, NULL, f);
}

static void shut(struct fixture *f)
{
    approvals_close(f->a);
    audit_close(f->audit);
    store_close(f->store);
}

static void reopen(struct fixture *f)
{
    shut(f);
    must_open(f);
}

static int set_up_with(void **state, bool webhook)
{
    static const char text[] = "0123456789abcdef0123456789abcdef\n";
    struct fixture *f = xcalloc(1, sizeof(*f));
    int fd;

    now_ms = 1700000000000;
    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_approval"));
    (void)snprintf(f->secret, sizeof(f->secret), "%s/webhook.secret", f->dir);
    fd = open(f->secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    fd_close(&fd);
    f->set = (struct approval_settings){.expires_s = 600,
                                        .now_ms = now,
                                        .still = true,
                                        .webhook_secret_file = f->secret};
    if (webhook)
        f->set.webhook_url = "http://127.0.0.1:9/hook";
    must_open(f);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, false);
}

static int set_up_webhook(void **state)
{
    return set_up_with(state, true);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    shut(f);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static struct approval_spec spec_of(const struct actor *who,
                                    enum policy_action action,
                                    const char *object, const char *payload)
{
    return (struct approval_spec){.who = who,
                                  .action = action,
                                  .session = object ? "sess_1" : NULL,
                                  .object = object,
                                  .summary = "do it",
                                  .payload = payload,
                                  .by = &rule};
}

/* A held execution of ann's. */
static struct approval_info held(struct fixture *f, const char *object)
{
    struct approval_spec spec =
        spec_of(&ann, POLICY_EXECUTE, object, "{\"code\":\"1\"}");
    struct approval_info info;

    if (approval_ask(f->a, &spec, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return info;
}

static int decide(struct fixture *f, const struct actor *who, const char *id,
                  bool yes, const char *reason)
{
    struct approval_info info = {.payload = NULL};
    int rc = approval_decide(f->a, who, id, yes, reason, &info, &f->err);

    approval_info_done(&info);
    return rc;
}

static struct approval_info get(struct fixture *f, const char *id)
{
    struct approval_info info;

    if (approval_get(f->a, &boss, id, &info, &f->err) < 0)
        fail_msg("%s", f->err.message);
    approval_info_done(&info);
    return info;
}

/* ---- asking and deciding ------------------------------------------------ */

static void ask_is_kept_whole(void **state)
{
    struct fixture *f = *state;
    struct approval_info made = held(f, "exec_1"), got;

    reopen(f);
    assert_int_equal(approval_get(f->a, &ann, made.id, &got, &f->err), 0);
    assert_int_equal(got.state, APPROVAL_PENDING);
    assert_string_equal(got.asked_by, "key_ann");
    assert_string_equal(got.object, "exec_1");
    assert_string_equal(got.rule, "ask-first");
    assert_int_equal(got.policy_version, 7);
    assert_int_equal(got.expires_at_ms - got.asked_at_ms, 600000);
    assert_string_equal(got.payload, "{\"code\":\"1\"}");
    approval_info_done(&got);
    assert_int_equal(approvals_pending(f->a), 1);
}

static void decide_refuses_the_requester(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");
    /* A token acts under the key it comes from. */
    struct actor token = ann;

    assert_int_equal(decide(f, &ann, info.id, true, NULL), -ERR_FORBIDDEN);
    assert_int_equal(decide(f, &token, info.id, false, "no"), -ERR_FORBIDDEN);
    token.scopes = AUTH_SCOPES_ALL;
    assert_int_equal(decide(f, &token, info.id, true, NULL), -ERR_FORBIDDEN);
    assert_int_equal(get(f, info.id).state, APPROVAL_PENDING);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 0);
}

static void decide_needs_the_scope_and_the_tenant(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");
    struct actor plain = ann;

    assert_int_equal(decide(f, &eve, info.id, true, NULL), -ERR_NOT_FOUND);
    assert_int_equal(decide(f, &clerk, info.id, true, NULL), -ERR_NOT_FOUND);
    assert_int_equal(decide(f, &bob, "apr_00", true, NULL), -ERR_NOT_FOUND);
    assert_int_equal(
        decide(f, &bob, "apr_0123456789abcdef0123456789abcdef", true, NULL),
        -ERR_NOT_FOUND);
    plain.scopes = AUTH_EXECUTE;
    assert_int_equal(decide(f, &plain, info.id, true, NULL), -ERR_FORBIDDEN);
    assert_int_equal(decide(f, &bob, info.id, true, "fine"), 0);
    assert_int_equal(get(f, info.id).state, APPROVAL_APPROVED);
    assert_string_equal(get(f, info.id).decided_by, "key_bob");
    assert_string_equal(get(f, info.id).reason, "fine");
}

static void decide_counts_once(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");

    assert_int_equal(decide(f, &bob, info.id, false, "no"), 0);
    assert_int_equal(decide(f, &boss, info.id, true, NULL), -ERR_CONFLICT);
    assert_int_equal(approval_withdraw(f->a, &ann, info.id, &f->err),
                     -ERR_CONFLICT);
    assert_int_equal(get(f, info.id).state, APPROVAL_DENIED);
}

static void decide_checks_the_reason(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");
    char reason[APPROVAL_REASON_MAX + 2];

    memset(reason, 'x', sizeof(reason));
    reason[APPROVAL_REASON_MAX + 1] = '\0';
    assert_int_equal(decide(f, &bob, info.id, false, NULL), -ERR_INVALID);
    assert_int_equal(decide(f, &bob, info.id, false, ""), -ERR_INVALID);
    assert_int_equal(decide(f, &bob, info.id, false, "a\nb"), -ERR_INVALID);
    assert_int_equal(decide(f, &bob, info.id, false, reason), -ERR_INVALID);
    reason[APPROVAL_REASON_MAX] = '\0';
    assert_int_equal(decide(f, &bob, info.id, false, reason), 0);
    assert_int_equal(strlen(get(f, info.id).reason), APPROVAL_REASON_MAX);
}

static void bounds_hide_what_is_not_within(void **state)
{
    struct fixture *f = *state;
    struct actor_bounds bounds = {.ids = {[ACTOR_SESSIONS] = "sess_2"}};
    struct actor bound = bob;
    struct approval_info info = held(f, "exec_1");

    bound.bounds = &bounds;
    assert_int_equal(decide(f, &bound, info.id, true, NULL), -ERR_NOT_FOUND);
    (void)snprintf(bounds.ids[ACTOR_SESSIONS], ACTOR_BOUND_MAX, "sess_1");
    (void)snprintf(bounds.ids[ACTOR_POOLS], ACTOR_BOUND_MAX, "default");
    /* Of which pool it is nobody knows. */
    assert_int_equal(decide(f, &bound, info.id, true, NULL), -ERR_NOT_FOUND);
    bounds.ids[ACTOR_POOLS][0] = '\0';
    assert_int_equal(decide(f, &bound, info.id, true, NULL), 0);
}

static void withdraw_is_for_who_asked(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");

    assert_int_equal(approval_withdraw(f->a, &eve, info.id, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(approval_withdraw(f->a, &bob, info.id, &f->err),
                     -ERR_FORBIDDEN);
    assert_int_equal(approval_withdraw(f->a, &ann, info.id, &f->err), 0);
    assert_int_equal(get(f, info.id).state, APPROVAL_WITHDRAWN);
    assert_int_equal(decide(f, &bob, info.id, true, NULL), -ERR_CONFLICT);
}

static void on_withdrawn(void *ctx, const struct approval_info *info)
{
    assert_non_null(info->payload);
    ++*(int *)ctx;
}

static void withdraw_session_takes_all_of_it(void **state)
{
    struct fixture *f = *state;
    struct approval_info one = held(f, "exec_1"), two = held(f, "exec_2");
    struct approval_info done = held(f, "exec_3");
    int count = 0;

    assert_int_equal(decide(f, &bob, done.id, true, NULL), 0);
    approval_withdraw_session(f->a, &eve, "sess_1", on_withdrawn, &count);
    assert_int_equal(count, 0);
    approval_withdraw_session(f->a, &ann, "sess_1", on_withdrawn, &count);
    assert_int_equal(count, 2);
    assert_int_equal(get(f, one.id).state, APPROVAL_WITHDRAWN);
    assert_int_equal(get(f, two.id).state, APPROVAL_WITHDRAWN);
    assert_int_equal(get(f, done.id).state, APPROVAL_APPROVED);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 1); /* only the approved one */
}

static void withdraw_key_takes_what_it_asked(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");

    approval_withdraw_key(f->a, "acme", "key_bob");
    assert_int_equal(get(f, info.id).state, APPROVAL_PENDING);
    approval_withdraw_key(f->a, "acme", "key_ann");
    assert_int_equal(get(f, info.id).state, APPROVAL_WITHDRAWN);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 1);
    assert_int_equal(f->last_state, APPROVAL_WITHDRAWN);
}

/* ---- time --------------------------------------------------------------- */

static void expiry_is_a_no(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");
    int64_t wait = approvals_work(f->a);

    assert_in_range(wait, 1, 60000);
    now_ms += 600000 - 1;
    assert_int_equal(approvals_work(f->a), 1);
    assert_int_equal(get(f, info.id).state, APPROVAL_PENDING);
    now_ms += 1;
    /* Too late even before the thread has been here. */
    assert_int_equal(get(f, info.id).state, APPROVAL_EXPIRED);
    assert_int_equal(decide(f, &bob, info.id, true, NULL), -ERR_CONFLICT);
    assert_int_equal(approvals_pending(f->a), 0);
    (void)approvals_work(f->a);
    assert_int_equal(get(f, info.id).state, APPROVAL_EXPIRED);
    assert_int_equal(f->called, 1);
    assert_int_equal(f->last_state, APPROVAL_EXPIRED);
}

static void expiry_is_the_rules_if_it_says(void **state)
{
    struct fixture *f = *state;
    struct policy_decision own = rule;
    struct approval_spec spec = spec_of(&ann, POLICY_EXECUTE, "exec_1", "{}");
    struct approval_info info;

    own.expires_s = 5;
    spec.by = &own;
    assert_int_equal(approval_ask(f->a, &spec, &info, &f->err), 0);
    assert_int_equal(info.expires_at_ms - info.asked_at_ms, 5000);
}

static void settled_ones_are_forgotten_in_time(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1"), got;
    struct approval_info open = held(f, "exec_2");

    f->set.keep_days = 2;
    f->set.expires_s = 30 * 86400;
    reopen(f);
    open = held(f, "exec_2");
    assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
    (void)approvals_work(f->a);
    approval_ran(f->a, info.id, 0, "ok");
    now_ms += 2 * 86400000ll;
    (void)approvals_work(f->a);
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_DONE);
    now_ms += 3600001;
    (void)approvals_work(f->a);
    assert_int_equal(approval_get(f->a, &boss, info.id, &got, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(get(f, open.id).state, APPROVAL_PENDING);
}

/* Every way it can end takes the code out of the row, and nothing else. */
static void code_is_dropped_once_it_is_over(void **state)
{
    struct fixture *f = *state;
    struct approval_info ran = held(f, "exec_1"), failed = held(f, "exec_2");
    struct approval_info gone = held(f, "exec_3"), waits = held(f, "exec_4");
    const struct approval_info *over[] = {&ran, &failed, &gone};
    struct approval_info got;

    assert_int_equal(decide(f, &bob, ran.id, true, NULL), 0);
    assert_int_equal(decide(f, &bob, failed.id, true, NULL), 0);
    (void)approvals_work(f->a);
    approval_ran(f->a, ran.id, 0, "ok");
    approval_ran(f->a, failed.id, -ERR_NOT_FOUND, "no such session");
    assert_int_equal(approval_withdraw(f->a, &ann, gone.id, &f->err), 0);
    (void)approvals_work(f->a);
    approval_ran(f->a, gone.id, 0, "");
    for (size_t i = 0; i < ARRAY_SIZE(over); i++) {
        assert_int_equal(approval_get(f->a, &boss, over[i]->id, &got, &f->err),
                         0);
        assert_string_equal(got.payload, "{}");
        approval_info_done(&got);
    }
    assert_int_equal(approval_get(f->a, &boss, waits.id, &got, &f->err), 0);
    assert_string_equal(got.payload, "{\"code\":\"1\"}");
    approval_info_done(&got);
}

/* Of an ephemeral session the client's other text goes with the code; a NUL
 * in the code does not keep it. */
static void code_is_dropped_with_the_text_of_an_ephemeral_session(void **state)
{
    static const struct {
        const char *object, *before, *after;
    } rows[] = {
        {"exec_1",
         "{\"session\":\"s\",\"code\":\"a\\u0000b\",\"metadata\":\"m\","
         "\"conversation\":\"c\",\"message\":\"x\",\"ephemeral\":true}",
         "{\"session\":\"s\",\"ephemeral\":true}"},
        {"exec_2", "{\"code\":\"1\",\"metadata\":\"m\",\"scopes\":3}",
         "{\"metadata\":\"m\",\"scopes\":3}"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct approval_spec spec =
            spec_of(&ann, POLICY_EXECUTE, rows[i].object, rows[i].before);
        struct approval_info info, got;

        assert_int_equal(approval_ask(f->a, &spec, &info, &f->err), 0);
        assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
        (void)approvals_work(f->a);
        approval_ran(f->a, info.id, 0, "ok");
        assert_int_equal(approval_get(f->a, &boss, info.id, &got, &f->err), 0);
        assert_string_equal(got.payload, rows[i].after);
        approval_info_done(&got);
    }
}

static bool is_second(void *ctx, const struct approval_info *info)
{
    ++*(int *)ctx;
    return strcmp(info->object, "exec_2") == 0 ||
           strcmp(info->object, "exec_3") == 0;
}

static void end_gone_settles_what_has_no_session(void **state)
{
    struct fixture *f = *state;
    struct approval_info one = held(f, "exec_1"), two = held(f, "exec_2");
    struct approval_info three = held(f, "exec_3"), four = held(f, "exec_4");
    struct approval_info got;
    int asked = 0;

    assert_int_equal(decide(f, &bob, three.id, true, NULL), 0);
    assert_int_equal(decide(f, &bob, four.id, false, "no"), 0);
    reopen(f);
    assert_int_equal(approvals_end_gone(f->a, is_second, &asked, &f->err), 0);
    assert_int_equal(asked, 3); /* a denied one is over anyway */
    assert_int_equal(get(f, one.id).state, APPROVAL_PENDING);
    assert_int_equal(approval_get(f->a, &boss, two.id, &got, &f->err), 0);
    assert_int_equal(got.state, APPROVAL_WITHDRAWN);
    assert_int_equal(got.run, APPROVAL_RUN_DONE);
    assert_non_null(strstr(got.reason, "ended with the service"));
    assert_string_equal(got.payload, "{}");
    approval_info_done(&got);
    assert_int_equal(approval_get(f->a, &boss, three.id, &got, &f->err), 0);
    assert_int_equal(got.state, APPROVAL_APPROVED);
    assert_int_equal(got.run, APPROVAL_RUN_FAILED);
    assert_string_equal(got.payload, "{}");
    approval_info_done(&got);
    assert_int_equal(approvals_end_gone(f->a, is_second, &asked, &f->err), 0);
    assert_int_equal(asked, 4); /* only the first is left */
}

static void payload_is_forgotten_where_code_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1"), got;

    f->set.forget_payload = true;
    reopen(f);
    assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
    (void)approvals_work(f->a);
    approval_ran(f->a, info.id, 0, "ok");
    assert_int_equal(approval_get(f->a, &boss, info.id, &got, &f->err), 0);
    assert_null(got.payload);
}

/* ---- carrying out ------------------------------------------------------- */

static void approved_is_carried_out_once(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");

    (void)approvals_work(f->a);
    assert_int_equal(f->called, 0); /* nothing before the answer */
    assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
    (void)approvals_work(f->a);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 1);
    assert_string_equal(f->last, info.id);
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_TAKEN);
    approval_ran(f->a, info.id, 0, "ok");
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_DONE);
    assert_string_equal(get(f, info.id).outcome, "ok");
    reopen(f);
    now_ms += 86400000;
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 1);
}

static void approved_before_a_restart_is_carried_out_after(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");

    reopen(f);
    assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
    reopen(f);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 1);
}

static void taken_at_a_crash_is_lost_and_never_run_again(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1"), no = held(f, "exec_2");

    assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
    assert_int_equal(decide(f, &bob, no.id, false, "no"), 0);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 2);
    reopen(f); /* without approval_ran: as after a kill */
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_LOST);
    assert_true(get(f, info.id).outcome[0]);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 3); /* only the record of the no */
    assert_string_equal(f->last, no.id);
    approval_ran(f->a, info.id, 0, "ok"); /* comes too late */
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_LOST);
}

static void what_could_not_begin_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");

    assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
    f->refuse = -ERR_BUSY;
    (void)approvals_work(f->a);
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_NONE);
    f->refuse = 0;
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 0); /* not at once */
    now_ms += APPROVAL_TRY_EVERY_MS;
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 1);
    approval_ran(f->a, info.id, -ERR_LIMIT, "full");
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_NONE);
    now_ms += APPROVAL_TRY_FOR_MS;
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 2);
    approval_ran(f->a, info.id, -ERR_LIMIT, "full"); /* for long enough */
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_FAILED);
    assert_string_equal(get(f, info.id).outcome, "full");
    now_ms += APPROVAL_TRY_FOR_MS;
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 2);
}

static void what_cannot_be_run_fails(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");

    assert_int_equal(decide(f, &bob, info.id, true, NULL), 0);
    (void)approvals_work(f->a);
    approval_ran(f->a, info.id, -ERR_NOT_FOUND, "no such session");
    assert_int_equal(get(f, info.id).run, APPROVAL_RUN_FAILED);
}

/* ---- repeats ------------------------------------------------------------ */

static void need_finds_its_grant_once(void **state)
{
    struct fixture *f = *state;
    struct approval_spec spec =
        spec_of(&ann, POLICY_SHARE, "ws_1", "{\"path\":\"a\"}");
    struct approval_spec other =
        spec_of(&ann, POLICY_SHARE, NULL, "{\"path\":\"b\"}");
    struct approval_spec else_ =
        spec_of(&clerk, POLICY_SHARE, NULL, "{\"path\":\"a\"}");
    char id[ID_MAX];

    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_APPROVAL);
    (void)snprintf(id, sizeof(id), "%s", f->err.approval);
    assert_true(ids_valid("apr", id));
    assert_non_null(strstr(f->err.message, id));
    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_APPROVAL);
    assert_string_equal(f->err.approval, id); /* the same, not another */
    assert_int_equal(approvals_pending(f->a), 1);
    assert_int_equal(decide(f, &bob, id, true, NULL), 0);
    (void)approvals_work(f->a);
    assert_int_equal(f->called, 0); /* nothing to carry out */
    assert_int_equal(approval_need(f->a, &other, &f->err), -ERR_APPROVAL);
    assert_int_equal(approval_need(f->a, &else_, &f->err), -ERR_APPROVAL);
    reopen(f);
    assert_int_equal(approval_need(f->a, &spec, &f->err), 0);
    assert_int_equal(get(f, id).run, APPROVAL_RUN_DONE);
    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_APPROVAL);
    assert_string_not_equal(f->err.approval, id);
}

static void need_remembers_a_no_for_an_hour(void **state)
{
    struct fixture *f = *state;
    struct approval_spec spec = spec_of(&ann, POLICY_TRANSFER, NULL, "{}");
    char id[ID_MAX];

    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_APPROVAL);
    (void)snprintf(id, sizeof(id), "%s", f->err.approval);
    assert_int_equal(decide(f, &bob, id, false, "not now"), 0);
    now_ms += APPROVAL_DENIED_FOR_MS - 1;
    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_FORBIDDEN);
    assert_non_null(strstr(f->err.message, "not now"));
    now_ms += 1;
    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_APPROVAL);
    assert_string_not_equal(f->err.approval, id);
}

static void need_lets_a_grant_lapse(void **state)
{
    struct fixture *f = *state;
    struct approval_spec spec = spec_of(&ann, POLICY_SHARE, NULL, "{}");
    char id[ID_MAX];

    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_APPROVAL);
    (void)snprintf(id, sizeof(id), "%s", f->err.approval);
    now_ms += 599999; /* at the last moment */
    assert_int_equal(decide(f, &bob, id, true, NULL), 0);
    now_ms += 600000;
    assert_int_equal(approval_need(f->a, &spec, &f->err), -ERR_APPROVAL);
    assert_string_not_equal(f->err.approval, id);
}

static void need_without_anybody_is_a_no(void **state)
{
    struct fixture *f = *state;
    struct approval_spec spec = spec_of(&ann, POLICY_SHARE, NULL, "{}");
    struct approval_info info;

    assert_int_equal(approval_need(NULL, &spec, &f->err), -ERR_FORBIDDEN);
    assert_int_equal(approval_ask(NULL, &spec, &info, &f->err),
                     -ERR_FORBIDDEN);
}

static void what_waits_has_an_end(void **state)
{
    struct fixture *f = *state;
    char *big cleanup(mem_free) = xmalloc(APPROVAL_PAYLOAD_MAX + 2);
    struct approval_spec spec = spec_of(&ann, POLICY_EXECUTE, "exec_1", big);
    struct approval_info info;
    unsigned held_count = 0;
    int rc;

    memset(big, 'x', APPROVAL_PAYLOAD_MAX + 1);
    big[APPROVAL_PAYLOAD_MAX + 1] = '\0';
    assert_int_equal(approval_ask(f->a, &spec, &info, &f->err),
                     -ERR_TOO_LARGE);
    big[APPROVAL_PAYLOAD_MAX] = '\0';
    while ((rc = approval_ask(f->a, &spec, &info, &f->err)) == 0)
        held_count++;
    assert_int_equal(rc, -ERR_LIMIT);
    assert_int_equal(held_count,
                     APPROVAL_PENDING_BYTES / APPROVAL_PAYLOAD_MAX);
    /* Another tenant's room is its own. */
    spec = spec_of(&eve, POLICY_EXECUTE, "exec_2", "{}");
    assert_int_equal(approval_ask(f->a, &spec, &info, &f->err), 0);
}

/* ---- listing ------------------------------------------------------------ */

static void list_pages_newest_first(void **state)
{
    struct fixture *f = *state;
    struct approval_info *list = NULL, made[3];
    size_t count;
    bool more;

    for (int i = 0; i < 3; i++) {
        char object[24];

        now_ms += i % 2; /* two of the same moment */
        (void)snprintf(object, sizeof(object), "exec_%d", i);
        made[i] = held(f, object);
    }
    assert_int_equal(decide(f, &bob, made[0].id, false, "no"), 0);
    assert_int_equal(
        approval_list(f->a, &bob, -1, 2, NULL, &list, &count, &more, &f->err),
        0);
    assert_int_equal(count, 2);
    assert_true(more);
    assert_null(list[0].payload);
    (void)snprintf(made[1].id, ID_MAX, "%s", list[1].id);
    free(list);
    assert_int_equal(approval_list(f->a, &bob, -1, 2, made[1].id, &list,
                                   &count, &more, &f->err),
                     0);
    assert_int_equal(count, 1);
    assert_false(more);
    assert_string_equal(list[0].id, made[0].id);
    free(list);
    assert_int_equal(approval_list(f->a, &bob, APPROVAL_PENDING, 10, NULL,
                                   &list, &count, &more, &f->err),
                     0);
    assert_int_equal(count, 2);
    free(list);
    assert_int_equal(approval_list(f->a, &clerk, -1, 10, NULL, &list, &count,
                                   &more, &f->err),
                     0);
    assert_int_equal(count, 0); /* neither asked nor may decide */
    free(list);
    assert_int_equal(approval_list(f->a, &bob, -1, 10, "apr_1", &list, &count,
                                   &more, &f->err),
                     -ERR_INVALID);
}

/* ---- webhooks ----------------------------------------------------------- */

static void webhook_needs_a_secret(void **state)
{
    struct fixture *f = *state;
    struct approvals *a = NULL;
    struct approval_settings set = f->set;

    set.webhook_secret_file = "";
    assert_int_equal(approvals_open(&set, f->store, f->audit, &a, &f->err),
                     -ERR_INVALID);
    set.webhook_secret_file = "/nonexistent/secret";
    assert_int_equal(approvals_open(&set, f->store, f->audit, &a, &f->err),
                     -ERR_INVALID);
    assert_int_equal(truncate(f->secret, WEBHOOK_SECRET_MIN - 1), 0);
    set.webhook_secret_file = f->secret;
    assert_int_equal(approvals_open(&set, f->store, f->audit, &a, &f->err),
                     -ERR_INVALID);
}

static void webhook_signature_is_the_documented_one(void **state)
{
    char text[96];

    (void)state;
    approval_webhook_sign("secret", 6, 1700000000, "{\"a\":1}", text);
    /* printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret */
    assert_string_equal(
        text,
        "t=1700000000,v1="
        "49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686");
}

static void webhook_pauses_grow_to_an_hour(void **state)
{
    (void)state;
    assert_int_equal(approval_webhook_pause(1), 1000);
    assert_int_equal(approval_webhook_pause(2), 2000);
    assert_int_equal(approval_webhook_pause(12), 2048000);
    assert_int_equal(approval_webhook_pause(13), 3600000);
    assert_int_equal(approval_webhook_pause(1000000), 3600000);
}

static int next(struct fixture *f, struct webhook_job *job)
{
    int64_t wait_ms;

    return approval_webhook_next(f->a, job, &wait_ms, &f->err);
}

static void webhook_has_the_url_of_the_approval(void **state)
{
    struct fixture *f = *state;
    struct webhook_job job = {.body = NULL};
    struct approval_info one;
    char url[160];

    f->set.public_url = "https://glovebox.example.com/at/";
    reopen(f);
    one = held(f, "exec_1");
    assert_int_equal(next(f, &job), 1);
    (void)snprintf(url, sizeof(url),
                   "\"url\":\"https://glovebox.example.com/at/api/approvals/%s"
                   "\"",
                   one.id);
    assert_non_null(strstr(job.body, url));
    free(job.body);
}

static void webhook_keeps_the_order_of_one_approval(void **state)
{
    struct fixture *f = *state;
    struct approval_info one = held(f, "exec_1"), two;
    struct approval_delivery *list = NULL;
    struct webhook_job job = {.body = NULL};
    size_t count;

    assert_int_equal(decide(f, &bob, one.id, true, NULL), 0);
    assert_int_equal(next(f, &job), 1);
    assert_string_equal(job.type, "approval.asked");
    assert_non_null(strstr(job.body, one.id));
    assert_null(strstr(job.body, "payload"));
    assert_null(strstr(job.body, "\"code\""));
    assert_null(strstr(job.body, "\"url\"")); /* public_url is not set */
    assert_int_equal(
        approval_webhook_note(f->a, &job, 500, "status 500", &f->err), 0);
    free(job.body);
    assert_int_equal(next(f, &job), 0); /* not past the one that waits */
    now_ms += 1;
    two = held(f, "exec_2");
    assert_int_equal(next(f, &job), 1);
    assert_string_equal(job.approval, two.id); /* others go on */
    assert_int_equal(approval_webhook_note(f->a, &job, 204, "", &f->err), 0);
    free(job.body);
    reopen(f);
    now_ms += 1000;
    assert_int_equal(next(f, &job), 1);
    assert_string_equal(job.approval, one.id);
    assert_int_equal(job.attempts, 1);
    assert_int_equal(approval_webhook_note(f->a, &job, 200, "", &f->err), 0);
    free(job.body);
    assert_int_equal(next(f, &job), 1);
    assert_string_equal(job.type, "approval.approved");
    free(job.body);
    assert_int_equal(
        approval_deliveries(f->a, &ann, one.id, &list, &count, &f->err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(list[0].state, "delivered");
    assert_int_equal(list[0].attempts, 2);
    assert_int_equal(list[0].status, 200);
    assert_string_equal(list[1].state, "waiting");
    free(list);
    assert_int_equal(
        approval_deliveries(f->a, &eve, one.id, &list, &count, &f->err),
        -ERR_NOT_FOUND);
}

static void webhook_is_given_up_after_a_day(void **state)
{
    struct fixture *f = *state;
    struct approval_info info = held(f, "exec_1");
    struct approval_delivery *list = NULL;
    struct webhook_job job = {.body = NULL};
    size_t count;

    now_ms += WEBHOOK_FOR_MS;
    assert_int_equal(next(f, &job), 1);
    assert_int_equal(approval_webhook_note(f->a, &job, 0, "refused", &f->err),
                     0);
    free(job.body);
    assert_int_equal(next(f, &job), 0);
    assert_int_equal(
        approval_deliveries(f->a, &ann, info.id, &list, &count, &f->err), 0);
    assert_string_equal(list[0].state, "given_up");
    assert_string_equal(list[0].error, "refused");
    free(list);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define HOOK(name)                                                            \
    cmocka_unit_test_setup_teardown(name, set_up_webhook, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(ask_is_kept_whole),
        TEST(decide_refuses_the_requester),
        TEST(decide_needs_the_scope_and_the_tenant),
        TEST(decide_counts_once),
        TEST(decide_checks_the_reason),
        TEST(bounds_hide_what_is_not_within),
        TEST(withdraw_is_for_who_asked),
        TEST(withdraw_session_takes_all_of_it),
        TEST(withdraw_key_takes_what_it_asked),
        TEST(expiry_is_a_no),
        TEST(expiry_is_the_rules_if_it_says),
        TEST(settled_ones_are_forgotten_in_time),
        TEST(code_is_dropped_once_it_is_over),
        TEST(end_gone_settles_what_has_no_session),
        TEST(code_is_dropped_with_the_text_of_an_ephemeral_session),
        TEST(payload_is_forgotten_where_code_is_not_kept),
        TEST(approved_is_carried_out_once),
        TEST(approved_before_a_restart_is_carried_out_after),
        TEST(taken_at_a_crash_is_lost_and_never_run_again),
        TEST(what_could_not_begin_is_tried_again),
        TEST(what_cannot_be_run_fails),
        TEST(need_finds_its_grant_once),
        TEST(need_remembers_a_no_for_an_hour),
        TEST(need_lets_a_grant_lapse),
        TEST(need_without_anybody_is_a_no),
        TEST(what_waits_has_an_end),
        TEST(list_pages_newest_first),
        HOOK(webhook_needs_a_secret),
        TEST(webhook_signature_is_the_documented_one),
        TEST(webhook_pauses_grow_to_an_hour),
        HOOK(webhook_has_the_url_of_the_approval),
        HOOK(webhook_keeps_the_order_of_one_approval),
        HOOK(webhook_is_given_up_after_a_day),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
