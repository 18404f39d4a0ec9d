/* SPDX-License-Identifier: Apache-2.0 */
/* Named agents as rows: limits of a tenant, versions, rights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "agents/agents.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"
#include "scratch.h"
#include "store/store.h"
#include "store_choice.h"
#include "json/json.h"

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);

    if (!v)
        fail_msg("%s: %s", why.text, text);
    return v;
}

static char *repeat(const char *text, size_t times)
{
    struct buf b = {0};

    for (size_t i = 0; i < times; i++)
        buf_adds(&b, text);
    return buf_take(&b, NULL);
}

/* ---- rows --------------------------------------------------------------- */

static const struct actor WHO = {.tenant = "acme", .key = "key_acme"};
static const struct actor PEER = {.tenant = "acme", .key = "key_peer"};
static const struct actor ADMIN = {
    .tenant = "acme", .key = "key_admin", .scopes = AUTH_ADMIN};
static const struct actor OTHER = {.tenant = "other", .key = "key_other"};

struct fixture {
    char dir[64];
    struct core core;
    struct agents *agents;
    struct error err;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_agents"));
    assert_int_equal(
        store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->core.store, &f->err),
        0);
    assert_int_equal(
        audit_open(f->core.store, f->dir, &f->core.audit, &f->err), 0);
    f->agents = agents_open(
        &(struct agents_parts){.core = &f->core},
        &(struct agents_limits){
            .agents = 3, .versions = 4, .total = 6, .bytes = 2000});
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    agents_close(f->agents);
    audit_close(f->core.audit);
    store_close(f->core.store);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static int put(struct fixture *f, const struct actor *who, const char *name,
               const char *instructions, int64_t *ret_number)
{
    json_t *definition cleanup(json_unref) =
        json_pack("{s:s,s:s,s:s}", "kind", "prompt", "model", "m",
                  "instructions", instructions);
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    bool made;
    int r =
        agents_put(f->agents, who,
                   &(struct agent_spec){
                       .name = name, .definition = definition, .enabled = -1},
                   AGENTS_EITHER, &info, &made, NULL, &f->err);

    if (r == 0 && ret_number)
        *ret_number = info.put.number;
    return r;
}

static void put_keeps_limits_of_a_tenant(void **state)
{
    struct fixture *f = *state;
    char *long_text = repeat("x", 2000);

    assert_int_equal(put(f, &WHO, "a", "1", NULL), 0);
    assert_int_equal(put(f, &WHO, "b", "1", NULL), 0);
    assert_int_equal(put(f, &WHO, "c", "1", NULL), 0);
    assert_int_equal(put(f, &WHO, "d", "1", NULL), -ERR_LIMIT);
    assert_non_null(strstr(f->err.message, "3 agents"));
    assert_int_equal(put(f, &OTHER, "d", "1", NULL), 0);
    assert_int_equal(put(f, &WHO, "a", "2", NULL), 0);
    assert_int_equal(put(f, &WHO, "a", "3", NULL), 0);
    assert_int_equal(put(f, &WHO, "a", "4", NULL), 0);
    assert_int_equal(put(f, &WHO, "a", "5", NULL), -ERR_LIMIT);
    assert_non_null(strstr(f->err.message, "4 versions"));
    assert_int_equal(put(f, &WHO, "b", "2", NULL), -ERR_LIMIT);
    assert_non_null(strstr(f->err.message, "6 versions"));
    assert_int_equal(agents_delete_version(f->agents, &WHO, "a", "1", &f->err),
                     0);
    assert_int_equal(put(f, &WHO, "b", long_text, NULL), -ERR_LIMIT);
    assert_non_null(strstr(f->err.message, "2000 bytes"));
    assert_int_equal(put(f, &WHO, "b", "2", NULL), 0);
    free(long_text);
}

static void put_numbers_versions_without_reuse(void **state)
{
    struct fixture *f = *state;
    int64_t number = 0;

    assert_int_equal(put(f, &WHO, "a", "1", &number), 0);
    assert_int_equal(put(f, &WHO, "a", "2", &number), 0);
    assert_int_equal(agents_delete_version(f->agents, &WHO, "a", "2", &f->err),
                     0);
    assert_int_equal(put(f, &WHO, "a", "1", &number), 0);
    assert_int_equal(number, 1); /* as the newest that is left */
    assert_int_equal(put(f, &WHO, "a", "2", &number), 0);
    assert_int_equal(number, 3);
    assert_int_equal(agents_delete(f->agents, &WHO, "a", &f->err), 0);
    assert_int_equal(put(f, &WHO, "a", "1", &number), 0);
    assert_int_equal(number, 4);
}

static void I3_agents_are_changed_by_owner_and_admin(void **state)
{
    struct fixture *f = *state;
    struct agent_version v cleanup(agent_version_done) = {.number = 0};

    assert_int_equal(put(f, &WHO, "a", "1", NULL), 0);
    assert_int_equal(put(f, &PEER, "a", "2", NULL), -ERR_FORBIDDEN);
    assert_int_equal(agents_delete(f->agents, &PEER, "a", &f->err),
                     -ERR_FORBIDDEN);
    assert_int_equal(agents_delete(f->agents, &OTHER, "a", &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(
        agents_find(f->agents, &OTHER, "a", NULL, AGENTS_LATEST, &v, &f->err),
        -ERR_NOT_FOUND);
    assert_int_equal(
        agents_find(f->agents, &PEER, "a", NULL, AGENTS_LATEST, &v, &f->err),
        0);
    assert_string_equal(v.instructions, "1");
    assert_int_equal(put(f, &ADMIN, "a", "2", NULL), 0);
}

static void find_picks_the_version_of_the_endpoint(void **state)
{
    struct fixture *f = *state;
    json_t *endpoint cleanup(json_unref) =
        parse("{\"version_selector\":{\"version_selection_rules\":[{\"type\":"
              "\"FixedRatio\",\"agent_version\":\"1\",\"traffic_percentage\":"
              "100}]}}");
    struct agent_spec spec = {.name = "a", .enabled = -1};
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    struct agent_info off cleanup(agent_info_done) = {.enabled = false};
    static const struct {
        const char *version;
        enum agents_pick pick;
        int64_t expected; /* 0: not found */
    } cases[] = {
        {NULL, AGENTS_LATEST, 2},  {NULL, AGENTS_ENDPOINT, 1},
        {"2", AGENTS_ENDPOINT, 2}, {"1", AGENTS_LATEST, 1},
        {"3", AGENTS_LATEST, 0},   {"01", AGENTS_LATEST, 0},
        {"x", AGENTS_ENDPOINT, 0},
    };

    assert_int_equal(put(f, &WHO, "a", "1", NULL), 0);
    assert_int_equal(put(f, &WHO, "a", "2", NULL), 0);
    spec.endpoint = endpoint;
    assert_int_equal(
        agents_change(f->agents, &WHO, &spec, &info, NULL, &f->err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct agent_version v cleanup(agent_version_done) = {.number = 0};
        int r = agents_find(f->agents, &WHO, "a", cases[i].version,
                            cases[i].pick, &v, &f->err);

        assert_int_equal(r, cases[i].expected ? 0 : -ERR_NOT_FOUND);
        assert_int_equal(v.number, cases[i].expected);
    }
    assert_int_equal(agents_delete_version(f->agents, &WHO, "a", "1", &f->err),
                     0);
    {
        struct agent_version v cleanup(agent_version_done) = {.number = 0};

        assert_int_equal(agents_find(f->agents, &WHO, "a", NULL,
                                     AGENTS_ENDPOINT, &v, &f->err),
                         0);
        assert_int_equal(v.number, 2); /* it names a deleted one */
    }
    spec = (struct agent_spec){.name = "a", .enabled = 0};
    assert_int_equal(
        agents_change(f->agents, &WHO, &spec, &off, NULL, &f->err), 0);
    {
        struct agent_version v cleanup(agent_version_done) = {.number = 0};

        assert_int_equal(agents_find(f->agents, &WHO, "a", NULL, AGENTS_LATEST,
                                     &v, &f->err),
                         -ERR_FORBIDDEN);
        assert_string_equal(f->err.message, "agent 'a' is disabled");
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(put_keeps_limits_of_a_tenant),
        CASE(put_numbers_versions_without_reuse),
        CASE(I3_agents_are_changed_by_owner_and_admin),
        CASE(find_picks_the_version_of_the_endpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
