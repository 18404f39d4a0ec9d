/* SPDX-License-Identifier: Apache-2.0 */
/* Names of variables that hold secrets, and the rows of the gate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "posture/posture.h"

static void names_of_secrets_are_known(void **state)
{
    static const char *const secret[] = {
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "OPENAI_API_KEY",
        "PGPASSWORD",
        "MYSQL_PASSWD",
        "db_password",
        "DATABASE_URL",
        "SENTRY_DSN",
        "GLOVEBOX_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_STORAGE_CONNECTION_STRING",
    };
    static const char *const plain[] = {
        "PATH",
        "HOME",
        "LANG",
        "TERM",
        "GLOVEBOX_TLS_KEY",
        "KEYBOARD",
        "GLOVEBOX_WEBHOOK_SECRET_FILE",
        "MONKEY",
        "",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
        if (!posture_secret_name(secret[i], strlen(secret[i])))
            fail_msg("%s passes", secret[i]);
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        if (posture_secret_name(plain[i], strlen(plain[i])))
            fail_msg("%s does not pass", plain[i]);
}

static const struct posture_row *row(const struct posture_row *rows,
                                     const char *name)
{
    for (size_t i = 0; i < POSTURE_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

/* What cannot be looked at is not fine. */
static void what_cannot_be_asked_fails(void **state)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    char *const flags[] = {(char *)"--config", (char *)"none",
                           (char *)"--data", (char *)"/nonexistent"};
    struct posture p = {.conf = NULL};
    struct posture_row rows[POSTURE_ROWS];
    struct error err;

    (void)state;
    assert_int_equal(conf_load(ARRAY_SIZE(flags), flags, &conf, &err), 0);
    p.conf = conf;
    posture_look(&p, rows);
    assert_int_equal(row(rows, "identity")->state, POSTURE_FAILED);
    assert_int_equal(row(rows, "walls")->state, POSTURE_FAILED);
    assert_int_equal(row(rows, "policy")->state, POSTURE_FAILED);
    assert_int_equal(row(rows, "audit")->state, POSTURE_FAILED);
    assert_int_equal(row(rows, "data")->state, POSTURE_FAILED);
    assert_int_equal(row(rows, "outbound")->state, POSTURE_OK);
    assert_non_null(posture_closed(rows));
    for (size_t i = 0; i < POSTURE_ROWS; i++)
        assert_true((rows[i].state == POSTURE_OK) == (rows[i].fix[0] == '\0'));
}

static void open_egress_and_a_lab_fail(void **state)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    char *const flags[] = {(char *)"--config", (char *)"none",
                           (char *)"--egress-lab", (char *)"10.0.0.0/8"};
    struct posture p = {.conf = NULL};
    struct posture_row rows[POSTURE_ROWS];
    struct error err;

    (void)state;
    assert_int_equal(conf_load(ARRAY_SIZE(flags), flags, &conf, &err), 0);
    p.conf = conf;
    posture_look(&p, rows);
    assert_int_equal(row(rows, "outbound")->state, POSTURE_FAILED);
    free(conf->egress_lab);
    conf->egress_lab = xstrdup("");
    free(conf->pools[0].egress);
    conf->pools[0].egress = xstrdup("open");
    posture_look(&p, rows);
    assert_int_equal(row(rows, "outbound")->state, POSTURE_FAILED);
    free(conf->accept_gate);
    conf->accept_gate = xstrdup("walls, outbound");
    posture_look(&p, rows);
    assert_int_equal(row(rows, "outbound")->state, POSTURE_ACCEPTED);
    assert_int_equal(row(rows, "walls")->state, POSTURE_ACCEPTED);
    assert_int_equal(row(rows, "policy")->state, POSTURE_FAILED);
}

/* ---- settings ------------------------------------------------------------
 */

static const struct posture_setting *setting(
    const struct posture_setting *list, const char *control, const char *name)
{
    for (size_t i = 0; i < POSTURE_SETTINGS; i++)
        if (strcmp(list[i].control, control) == 0 &&
            strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("no setting %s/%s", control, name);
    return NULL;
}

static void set_text(char **field, const char *text)
{
    free(*field);
    *field = xstrdup(text);
}

/* Each setting, weak by itself, is found and comes with advice. */
static void weak_settings_are_found(void **state)
{
    struct conf *conf cleanup(conf_freep) = NULL;
    char *const flags[] = {(char *)"--config", (char *)"none"};
    struct posture p = {.conf = NULL};
    struct posture_setting list[POSTURE_SETTINGS];
    struct error err;

    (void)state;
    assert_int_equal(conf_load(ARRAY_SIZE(flags), flags, &conf, &err), 0);
    p.conf = conf;
    posture_settings_check(&p, list);
    for (size_t i = 0; i < POSTURE_SETTINGS; i++) {
        assert_true(list[i].found[0]);
        assert_int_equal(list[i].ok, list[i].advice[0] == '\0');
    }
    /* as it comes */
    assert_true(setting(list, "ephemeral", "files")->ok);
    assert_non_null(strstr(setting(list, "ephemeral", "files")->found, "30"));
    assert_false(setting(list, "ephemeral", "evidence")->ok);
    assert_false(setting(list, "audit", "sink")->ok);
    assert_false(setting(list, "quotas", "memory")->ok);
    assert_false(setting(list, "quotas", "storage")->ok);
    assert_false(setting(list, "approvals", "webhook")->ok);
    assert_true(setting(list, "isolation", "walls")->ok);
    assert_true(setting(list, "egress", "egress")->ok);
    assert_true(setting(list, "egress", "egress_quota")->ok);
    assert_true(setting(list, "deployment", "tls")->ok);
    /* what cannot be read is not fine */
    assert_false(setting(list, "identity", "admin_keys")->ok);
    assert_false(setting(list, "approvals", "policy")->ok);
    assert_false(setting(list, "deployment", "backup")->ok);

    conf->unnamed_workspace_days = 0;
    posture_settings_check(&p, list);
    assert_false(setting(list, "ephemeral", "files")->ok);

    conf->evidence_days = 30;
    conf->quota_memory_bytes = 1;
    conf->tenant_quota_bytes = 1;
    set_text(&conf->audit_syslog, "unix:/dev/log");
    set_text(&conf->webhook_url, "https://example.com/");
    set_text(&conf->pools[0].persistence, "ephemeral");
    set_text(&conf->pools[0].egress, "open");
    set_text(&conf->accept_missing_walls, "landlock");
    set_text(&conf->accept_gate, "outbound");
    set_text(&conf->listen_host, "192.0.2.1");
    posture_settings_check(&p, list);
    assert_true(setting(list, "ephemeral", "files")->ok);
    assert_true(setting(list, "ephemeral", "evidence")->ok);
    assert_true(setting(list, "audit", "sink")->ok);
    assert_true(setting(list, "quotas", "memory")->ok);
    assert_true(setting(list, "quotas", "storage")->ok);
    assert_true(setting(list, "approvals", "webhook")->ok);
    assert_false(setting(list, "isolation", "walls")->ok);
    assert_false(setting(list, "egress", "egress")->ok);
    assert_false(setting(list, "egress", "egress_quota")->ok);
    assert_false(setting(list, "deployment", "gate")->ok);
    assert_false(setting(list, "deployment", "tls")->ok);
    conf->trust_proxy = true;
    posture_settings_check(&p, list);
    assert_true(setting(list, "deployment", "tls")->ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_secrets_are_known),
        cmocka_unit_test(what_cannot_be_asked_fails),
        cmocka_unit_test(open_egress_and_a_lab_fail),
        cmocka_unit_test(weak_settings_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
