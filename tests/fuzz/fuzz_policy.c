/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what operators and policy administrators write: policies and cases.
 * What is refused must be refused with a sentence and a line; what is taken
 * must decide about every action the same twice, and explain it as JSON that
 * names the same verdict.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "policy/policy_int.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct actor who = {.tenant = "acme",
                                 .key = "key_1",
                                 .door = "mcp",
                                 .tool = "run_shell",
                                 .scopes = AUTH_EXECUTE | AUTH_FILES_READ};

static struct policy_request request(enum policy_action action)
{
    return (struct policy_request){.action = action,
                                   .who = &who,
                                   .pool = "default",
                                   .runtime = "minimal",
                                   .language = "shell",
                                   .code_bytes = 100,
                                   .timeout_s = 30,
                                   .output_bytes = 1 << 20,
                                   .network = "allowlist",
                                   .host = "a.example.org",
                                   .port = 443,
                                   .method = "GET",
                                   .url_path = "/v1/x",
                                   .package = "Scikit_Learn",
                                   .version = "1.4.2",
                                   .sha256 = "abc",
                                   .file = "reports/a.csv",
                                   .mime = "text/csv; charset=utf-8",
                                   .file_bytes = 2048,
                                   .secret = "crm",
                                   .at_ms = INT64_C(1768212000000)};
}

static void try_action(const struct policy_rules *rules,
                       enum policy_action action)
{
    struct policy_request rq = request(action);
    struct policy_decision d, again;
    struct buf why cleanup(buf_done) = {0};
    json_t *json cleanup(json_unref) = NULL;
    struct error err = {0};

    policy_evaluate(rules, NULL, &rq, &d);
    policy_evaluate(rules, rules, &rq, &again);
    assert(memcmp(&d, &again, sizeof(d)) == 0);
    assert(d.rule[0] && d.layer[0]);
    policy_explain_rules(rules, NULL, &rq, &d, &why);
    assert(json_check(why.data, why.len, &json_limits_any, &err) == 0);
}

static void no_case(void *ctx, unsigned line, const char *name,
                    const char *why)
{
    (void)ctx;
    (void)why;
    assert(line > 0 && name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy_rules *rules cleanup(policy_rules_unrefp) = NULL;
    const char *text = (const char *)data;
    struct error err = {0};

    if (policy_compile(text, size, 1, &rules, &err) < 0) {
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        assert(err.code != ERR_INVALID ||
               strncmp(err.message, "line ", 5) == 0);
    } else {
        for (int a = 0; a < POLICY_ACTIONS; a++)
            try_action(rules, (enum policy_action)a);
    }
    if (policy_cases_run(NULL, 0, text, size, no_case, NULL, &err) < 0)
        assert(err.message[0]);
    return 0;
}
