/* SPDX-License-Identifier: Apache-2.0 */
/*
 * govern: each constructor sets the fields of its action and no other; a
 * decision is recorded, refused or held as policy says.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "approval/approval.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/mem.h"
#include "govern/govern.h"
#include "policy/policy.h"
#include "scratch.h"
#include "store/store.h"
#include "store_choice.h"

static const char rules[] =
    "version: 1\n"
    "rules:\n"
    "  - name: no-scripts\n"
    "    match: {action: file.in, file_type: text/x-shellscript}\n"
    "    then: deny\n"
    "    reason: scripts come through review\n"
    "  - name: ask-share\n"
    "    match: {action: share}\n"
    "    then: ask\n"
    "  - name: good-package\n"
    "    match: {action: package, package: six}\n"
    "    then: allow\n"
    "default: allow\n";

struct fixture {
    char dir[64];
    struct store *store;
    struct audit *audit;
    struct govern govern;
    struct error err;
};

static const struct actor ann = {
    .tenant = "acme", .key = "key_ann", .scopes = AUTH_EXECUTE};
static const struct actor bob = {
    .tenant = "acme", .key = "key_bob", .scopes = AUTH_APPROVE};
static const struct actor boss = {.tenant = "acme",
                                  .key = "key_boss",
                                  .scopes = AUTH_SCOPES_ALL,
                                  .admin = true};
static const struct govern_scope by_ann = {.actor = &ann};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct approval_settings approvals = {.expires_s = 60, .still = true};
    struct policy_settings policy = {.file = "", .zone = ""};
    struct policy_version version = {0};

    approvals.webhook_url = approvals.webhook_secret_file = "";
    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_govern"));
    if (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0 ||
        audit_open(f->store, f->dir, &f->audit, &f->err) < 0 ||
        policy_open(&policy, f->store, f->audit, &f->govern.policy, &f->err) <
            0 ||
        approvals_open(&approvals, f->store, f->audit, &f->govern.approvals,
                       &f->err) < 0 ||
        policy_put(f->govern.policy, &boss, rules, strlen(rules), "", &version,
                   &f->err) < 0)
        fail_msg("%s", f->err.message);
    policy_version_done(&version);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    approvals_close(f->govern.approvals);
    policy_close(f->govern.policy);
    audit_close(f->audit);
    store_close(f->store);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static enum policy_verdict decide(struct fixture *f, struct govern_request rq)
{
    struct policy_decision d;

    govern_decide(&f->govern, &rq, &d);
    return d.verdict;
}

static void constructors_leave_other_fields_out(void **state)
{
    const struct govern_scope scope = {.actor = &ann,
                                       .session = "sess_1",
                                       .pool = "p",
                                       .runtime = "minimal",
                                       .network = "open",
                                       .pinned = 3};
    const struct {
        struct govern_request rq;
        enum policy_action action;
        bool file, host, network;
    } table[] = {
        {govern_execute(&scope, "python", 7, 30, 100), POLICY_EXECUTE,
         .network = true},
        {govern_search(&scope, 30, 100), POLICY_SEARCH, .network = true},
        {govern_report(&scope, 30, 100), POLICY_REPORT, .network = true},
        {govern_create_session(&scope), POLICY_SESSION, .network = true},
        {govern_memory(&scope, POLICY_HIBERNATE), POLICY_HIBERNATE,
         .network = true},
        {govern_memory(&scope, POLICY_UNDO), POLICY_UNDO, .network = true},
        {govern_memory(&scope, POLICY_BRANCH), POLICY_BRANCH, .network = true},
        {govern_file_in(&scope, "a.txt", NULL, 5), POLICY_FILE_IN,
         .file = true},
        {govern_file_out(&scope, "a.txt", NULL, 5), POLICY_FILE_OUT,
         .file = true},
        {govern_share(&scope, "a.txt"), POLICY_SHARE, .file = true},
        {govern_transfer(&scope), POLICY_TRANSFER, .network = true},
        {govern_network(&scope, "h", 443), POLICY_EGRESS, .host = true,
         .network = true},
        {govern_secret(&scope, "h", "s"), POLICY_SECRET, .host = true,
         .network = true},
        {govern_connect(&scope, "h", 443, NULL, NULL), POLICY_CONNECT,
         .host = true, .network = true},
        {govern_package(&scope, "h", 443, "six", "1", NULL), POLICY_PACKAGE,
         .host = true, .network = true},
        {govern_agent(&scope), POLICY_AGENT, .network = true},
        {govern_tool(&scope, "python", 7), POLICY_TOOL, .network = true},
    };

    (void)state;
    assert_int_equal(ARRAY_SIZE(table), POLICY_ACTIONS);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct policy_request *ask = &table[i].rq.ask;
        bool code = table[i].action == POLICY_EXECUTE;
        bool execute = code || table[i].action == POLICY_SEARCH ||
                       table[i].action == POLICY_REPORT;

        assert_int_equal(ask->action, table[i].action);
        assert_ptr_equal(ask->who, &ann);
        assert_string_equal(ask->session, "sess_1");
        assert_int_equal(table[i].rq.pinned, 3);
        assert_int_equal(ask->code_bytes,
                         code || ask->action == POLICY_TOOL ? 7 : -1);
        assert_int_equal(ask->timeout_s, execute ? 30 : -1);
        assert_int_equal(ask->output_bytes, execute ? 100 : -1);
        assert_int_equal(ask->file != NULL, table[i].file);
        assert_int_equal(ask->host != NULL, table[i].host);
        assert_int_equal(ask->network != NULL, table[i].network);
        if (!table[i].file)
            assert_int_equal(ask->file_bytes, -1);
    }
}

static void decide_counts_the_type_that_the_name_implies(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        decide(f, govern_file_in(&by_ann, "a.txt", "text/plain", 1)),
        POLICY_ALLOW);
    assert_int_equal(
        decide(f, govern_file_in(&by_ann, "a.sh", "text/plain", 1)),
        POLICY_DENY);
    assert_int_equal(
        decide(f, govern_file_in(&by_ann, "a.txt", "text/x-shellscript", 1)),
        POLICY_DENY);
    assert_int_equal(decide(f, govern_file_in(&by_ann, "a.sh", NULL, 1)),
                     POLICY_DENY);
    assert_int_equal(decide(f, govern_file_out(&by_ann, "a.sh", NULL, 1)),
                     POLICY_ALLOW);
}

static void decide_denies_a_package_that_no_rule_names(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        decide(f, govern_package(&by_ann, "h", 443, "six", "1", NULL)),
        POLICY_ALLOW);
    assert_int_equal(
        decide(f, govern_package(&by_ann, "h", 443, "other", "1", NULL)),
        POLICY_DENY);
    assert_int_equal(decide(f, govern_connect(&by_ann, "h", 443, NULL, NULL)),
                     POLICY_ALLOW);
}

static void enforce_refuses_with_rule_and_reason(void **state)
{
    struct fixture *f = *state;
    struct govern_request rq = govern_file_in(&by_ann, "a.sh", NULL, 1);

    assert_int_equal(govern_enforce(&f->govern, &rq, &f->err), -ERR_FORBIDDEN);
    assert_non_null(strstr(f->err.message, "no-scripts"));
    assert_string_equal(f->err.hint, "scripts come through review");
}

static void enforce_holds_until_a_person_approves_once(void **state)
{
    struct fixture *f = *state;
    struct govern_request rq = govern_share(&by_ann, "a.txt");
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    char id[ID_MAX];

    rq.summary = "make a link";
    govern_add(&rq, "path", "a.txt");
    govern_add(&rq, "version", NULL);
    govern_add(&rq, "empty", "");
    govern_add_json(&rq, "limits", "{\"downloads\": 3}");
    assert_int_equal(govern_enforce(&f->govern, &rq, &f->err), -ERR_APPROVAL);
    (void)snprintf(id, sizeof(id), "%s", f->err.approval);
    /* The same request finds the same approval. */
    assert_int_equal(govern_enforce(&f->govern, &rq, &f->err), -ERR_APPROVAL);
    assert_string_equal(f->err.approval, id);
    assert_int_equal(
        approval_get(f->govern.approvals, &bob, id, &info, &f->err), 0);
    assert_string_equal(info.payload,
                        "{\"path\":\"a.txt\",\"limits\":{\"downloads\": 3}}");
    approval_info_done(&info);
    assert_int_equal(approval_decide(f->govern.approvals, &bob, id, true, "ok",
                                     &info, &f->err),
                     0);
    assert_int_equal(govern_enforce(&f->govern, &rq, &f->err), 0);
    assert_int_equal(govern_enforce(&f->govern, &rq, &f->err), -ERR_APPROVAL);
}

static void without_a_policy_everything_is_allowed(void **state)
{
    const struct govern none = {0};
    struct govern_request rq = govern_transfer(&by_ann);
    struct error err;

    (void)state;
    assert_true(govern_idle(&none));
    assert_int_equal(govern_enforce(&none, &rq, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructors_leave_other_fields_out),
        cmocka_unit_test_setup_teardown(
            decide_counts_the_type_that_the_name_implies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            decide_denies_a_package_that_no_rule_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(enforce_refuses_with_rule_and_reason,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            enforce_holds_until_a_person_approves_once, set_up, tear_down),
        cmocka_unit_test(without_a_policy_everything_is_allowed),
    };

    return cmocka_run_group_tests_name("govern", tests, NULL, NULL);
}
