/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit: each tenant's own chain and its signed checkpoints, which prove
 * themselves without the secret; what rides along; and whether events can be
 * written at all.
 */
#include <arpa/inet.h>
#include <sys/un.h>

#include "audit/format.h"
#include "audit/syslog_addr.h"
#include "audit_fixture.h"

/* ---- help --------------------------------------------------------------- */

static struct audit_report verify_of(struct fixture *f, const char *tenant)
{
    struct audit_report report;

    if (audit_verify_tenant(f->audit, tenant, &report, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return report;
}

static void tenant_good(struct fixture *f, const char *tenant, int64_t events)
{
    struct audit_report report = verify_of(f, tenant);

    if (report.first_bad)
        fail_msg("%lld: %s", (long long)report.first_bad, report.fault);
    assert_int_equal(report.events, events);
}

static void tenant_bad(struct fixture *f, const char *tenant, int64_t at,
                       const char *words)
{
    struct audit_report report = verify_of(f, tenant);

    if (report.first_bad != at || !strstr(report.fault, words))
        fail_msg("%lld, not %lld: %s", (long long)report.first_bad,
                 (long long)at, report.fault);
}

/* ann, eve, ann, eve, … */
static void mix(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++)
        note(f, i % 2 ? &eve : &ann,
             &(struct audit_event){.action = "file.put", .path = "x"});
}

static void sign(struct fixture *f, const char *tenant)
{
    if (audit_checkpoint(f->audit, tenant, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static struct page checkpoints(struct fixture *f, const char *tenant)
{
    struct page p = {0};

    if (audit_checkpoints(f->audit, tenant, 0, 100, &p.lines, &p.count,
                          &p.more, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return p;
}

static struct audit_checkpoint read_of(const struct audit_line *l)
{
    const char *const fields[AUDIT_FIELDS] = {
        [AUDIT_TENANT] = l->tenant, [AUDIT_ACTION] = l->action,
        [AUDIT_OBJECT] = l->object, [AUDIT_BEFORE] = l->before,
        [AUDIT_AFTER] = l->after,   [AUDIT_DETAIL] = l->detail};
    struct audit_checkpoint c;

    assert_true(audit_proof_read(fields, l->at_ms, &c));
    return c;
}

/* ---- the chains --------------------------------------------------------- */

/* Computed elsewhere, by what docs/AUDIT.md says: an event without a token is
 * what it was before there were any. */
static void O1_hashes_are_those_of_older_trails(void **state)
{
    static const struct {
        const char *token, *chain, *all;
    } cases[] = {
        {"",
         "16a818633a2280318383fa7a690c9910c5fe177232adaa9f418afc0b8a3926b6",
         "3d69927d6366f38c3be53dc4631c41b312c8ed1f8152827fda22806a20efa8c6"},
        {"tok_1",
         "43a2df1a7cd4f97809c839226af55c1dd93a91516ae230f4bdee7465e86e8758",
         "61ac831e0614e6a62c26beaee7ba1f3c66e3d6fe754c05f3a19c7d2e160b8af9"},
    };
    static const unsigned char none[HASH_SIZE];
    unsigned char secret[HASH_SIZE], hash[HASH_SIZE];
    char hex[2 * HASH_SIZE + 1];

    (void)state;
    memset(secret, 7, sizeof(secret));
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *const texts[AUDIT_FIELDS] = {
            "acme",  "key_1",    "file.put",    "",   "file_1",
            "a.txt", "",         "ver_1",       "ok", "",
            "req_1", "10.0.0.1", cases[i].token};
        struct audit_bytes fields[AUDIT_FIELDS];

        for (size_t k = 0; k < AUDIT_FIELDS; k++)
            fields[k] = (struct audit_bytes){texts[k], strlen(texts[k])};
        audit_proof_hash(none, 1, 1000, fields, hash);
        assert_string_equal(ids_hex(hash, HASH_SIZE, hex), cases[i].chain);
        audit_chain_hash(secret, none, 1, 1000, fields, hash);
        assert_string_equal(ids_hex(hash, HASH_SIZE, hex), cases[i].all);
    }
}

static void O1_a_token_is_found_and_cannot_be_changed(void **state)
{
    struct fixture *f = *state;
    struct actor by = ann;
    struct page p cleanup(page_done) = {0};
    static const char id[] = "tok_00112233445566778899aabbccddeeff";

    mix(f, 3);
    by.token = id;
    note(f, &by, &(struct audit_event){.action = "file.put", .path = "y"});
    if (audit_query(f->audit, &(struct audit_filter){.actor = id}, &p.lines,
                    &p.count, &p.more, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.lines[0].token, id);
    assert_string_equal(p.lines[0].actor, ann.key);
    tenant_good(f, ann.tenant, 3);
    tamper(f, "UPDATE audit SET token = '' WHERE token <> ''");
    tenant_bad(f, ann.tenant, 3, "not as it was written");
    tamper(f, "UPDATE audit SET token = 'tok_1' WHERE chain_seq = 1");
    tenant_bad(f, ann.tenant, 1, "not as it was written");
}

static void O1_each_tenant_has_a_chain_of_its_own(void **state)
{
    struct fixture *f = *state;
    struct page p cleanup(page_done) = {0};

    mix(f, 7);
    p = all(f);
    assert_int_equal(p.count, 7);
    for (size_t i = 0; i < p.count; i++)
        assert_int_equal(p.lines[i].chain_seq, i / 2 + 1);
    assert_string_not_equal(p.lines[0].chain_hash, p.lines[1].chain_hash);
    tenant_good(f, "acme", 4);
    tenant_good(f, "other", 3);
    tenant_good(f, "nobody", 0);
    reopen(f);
    mix(f, 2);
    tenant_good(f, "acme", 5);
    check_good(f, 9);
}

static void O1_a_tenants_chain_shows_every_change(void **state)
{
    static const struct {
        const char *act, *undo;
        int64_t at;
        const char *words;
    } cases[] = {
        {"UPDATE audit SET path = 'y' WHERE seq = 3",
         "UPDATE audit SET path = 'x' WHERE seq = 3", 2, "not as it was"},
        {"UPDATE audit SET tenant = 'moved' WHERE seq = 3",
         "UPDATE audit SET tenant = 'acme' WHERE seq = 3", 2, "2 to 2"},
        {"UPDATE audit SET chain_seq = 9 WHERE seq = 7",
         "UPDATE audit SET chain_seq = 4 WHERE seq = 7", 4, "4 to 8"},
        {"UPDATE audit SET chain_seq = 2 WHERE seq = 5",
         "UPDATE audit SET chain_seq = 3 WHERE seq = 5", 2, "two events"},
        {"UPDATE audit_chains SET seq = 3 WHERE tenant = 'acme'",
         "UPDATE audit_chains SET seq = 4 WHERE tenant = 'acme'", 4,
         "was changed"},
        {"UPDATE audit_chains SET tenant = 'x' WHERE tenant = 'acme'",
         "UPDATE audit_chains SET tenant = 'acme' WHERE tenant = 'x'", 4,
         "was changed"},
    };
    struct fixture *f = *state;

    mix(f, 7);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        tamper(f, cases[i].act);
        tenant_bad(f, "acme", cases[i].at, cases[i].words);
        tenant_good(f, "other", 3); /* it is not theirs */
        assert_true(verify(f).first_bad > 0);
        tamper(f, cases[i].undo);
        tenant_good(f, "acme", 4);
    }
    tamper(f, "DELETE FROM audit WHERE seq = 7");
    tenant_bad(f, "acme", 4, "4 to 4 at the end are missing");
}

/* A damaged end is gone on from, and told for ever. */
static void O1_damage_of_a_chain_still_shows_when_it_goes_on(void **state)
{
    struct fixture *f = *state;

    mix(f, 4);
    tamper(f, "DELETE FROM audit_chains WHERE tenant = 'acme'");
    mix(f, 4);
    tenant_bad(f, "acme", 4, "was changed");
    tenant_good(f, "other", 4);
}

/* ---- checkpoints -------------------------------------------------------- */

static void O1_checkpoints_are_signed_and_part_of_the_chain(void **state)
{
    struct fixture *f = *state;
    struct page p cleanup(page_done) = {0};
    struct audit_key *keys cleanup(mem_free) = NULL;
    struct audit_checkpoint c;
    size_t count = 0;

    sign(f, "acme"); /* nothing to sign */
    mix(f, 1);
    sign(f, "acme");
    sign(f, "acme"); /* only a checkpoint is new */
    mix(f, 4);
    sign(f, "acme");
    sign(f, "other");
    tenant_good(f, "acme", 5);
    tenant_good(f, "other", 3);
    p = checkpoints(f, "acme");
    assert_int_equal(p.count, 2);
    assert_int_equal(audit_keys(f->audit, &keys, &count, &f->err), 0);
    assert_int_equal(count, 1);
    c = read_of(&p.lines[0]);
    assert_int_equal(c.seq, 1);
    assert_string_equal(c.key, keys[0].id);
    assert_true(audit_proof_signed(&c, keys[0].pem));
    c.seq++;
    assert_false(audit_proof_signed(&c, keys[0].pem));
    c.seq--;
    c.at_ms++;
    assert_false(audit_proof_signed(&c, keys[0].pem));
    c.at_ms--;
    c.tenant = "other";
    assert_false(audit_proof_signed(&c, keys[0].pem));
    c.tenant = "acme";
    c.hash[0] = c.hash[0] == 'a' ? 'b' : 'a';
    assert_false(audit_proof_signed(&c, keys[0].pem));
    assert_false(audit_proof_signed(&c, "no key"));
}

/* Whoever has the secret and the store can write a chain that fits, but not
 * sign it. */
static void O1_a_chain_written_anew_lacks_the_signature(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = path_of(f, "audit.sign.key");

    mix(f, 3);
    sign(f, "acme");
    tenant_good(f, "acme", 3);
    tamper(f, "DELETE FROM audit_keys");
    tenant_bad(f, "acme", 3, "not signed by a key of ours");
    shut(f);
    assert_int_equal(unlink(path), 0);
    must_open(f);
    tenant_bad(f, "acme", 3, "not signed by a key of ours");
}

static void the_signing_key_is_private_and_a_new_one_is_told(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = path_of(f, "audit.sign.key");
    struct audit_key *keys cleanup(mem_free) = NULL;
    struct page p cleanup(page_done) = {0};
    struct stat st;
    size_t count = 0;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    mix(f, 1);
    sign(f, "acme");
    reopen(f);
    shut(f);
    assert_int_equal(chmod(path, 0640), 0);
    assert_true(try_open(f) < 0);
    assert_non_null(strstr(f->err.message, "only its owner"));
    shut(f);
    assert_int_equal(unlink(path), 0);
    must_open(f);
    assert_int_equal(audit_keys(f->audit, &keys, &count, &f->err), 0);
    assert_int_equal(count, 2);
    p = query(f, &(struct audit_filter){.action = "audit.key"});
    assert_int_equal(p.count, 1);
    assert_string_equal(p.lines[0].object, keys[0].id);
    assert_string_equal(p.lines[0].before, keys[1].id);
    mix(f, 1);
    sign(f, "acme");
    tenant_good(f, "acme", 4); /* by both keys */
}

static void checkpoints_come_by_themselves_when_due(void **state)
{
    struct fixture *f = *state;
    struct page p cleanup(page_done) = {0};
    struct page q cleanup(page_done) = {0};

    add(f, 1000);
    mix(f, 2);
    assert_int_equal(audit_sign_due(f->audit, &f->err), 0);
    p = checkpoints(f, "acme"); /* 1001 events */
    assert_int_equal(p.count, 1);
    q = checkpoints(f, "other"); /* one event, and no hour has passed */
    assert_int_equal(q.count, 0);
    tenant_good(f, "acme", 1002);
}

/* ---- writable ----------------------------------------------------------- */

static void wait_writable(struct fixture *f, bool wanted)
{
    uint64_t until = clock_mono_ms() + 20000;

    while ((audit_writable(f->audit, &f->err) == 0) != wanted) {
        if (clock_mono_ms() > until)
            fail_msg("%s", f->err.message);
        usleep(10000);
    }
}

static void O3_not_writable_while_events_cannot_be_written(void **state)
{
    struct fixture *f = *state;
    struct page p cleanup(page_done) = {0};

    assert_int_equal(audit_writable(f->audit, &f->err), 0);
    tamper(f, "ALTER TABLE audit RENAME TO gone");
    audit_later(f->audit, &ann, &(struct audit_event){.action = "a"});
    wait_writable(f, false);
    assert_int_equal(f->err.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(f->err.message, "audit trail cannot be written"));
    tamper(f, "ALTER TABLE gone RENAME TO audit");
    wait_writable(f, true);
    check_good(f, 2);
    p = query(f, &(struct audit_filter){.action = "audit.resumed"});
    assert_int_equal(p.count, 1);
}

static void O3_not_writable_while_too_many_events_wait(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f); /* the thread cannot write */

    for (unsigned i = 0; i < AUDIT_QUEUE_FULL - 1; i++)
        audit_later(f->audit, &ann, &(struct audit_event){.action = "a"});
    assert_int_equal(audit_writable(f->audit, &f->err), 0);
    audit_later(f->audit, &ann, &(struct audit_event){.action = "a"});
    assert_int_equal(audit_writable(f->audit, &f->err), -ERR_UNAVAILABLE);
    store_rollback(&tx);
    wait_writable(f, true);
}

/* ---- what rides along --------------------------------------------------- */

struct rider {
    struct fixture *f;
    bool fail;
    int writes, good, bad;
};

static int on_write(void *ctx, struct store_tx *tx, struct error *err)
{
    struct rider *r = ctx;

    r->writes++;
    if (r->fail)
        return error_set(err, ERR_INTERNAL, "it does not want to");
    return store_exec(tx, err,
                      "INSERT INTO audit_cursors (name, seq) VALUES ('r', 1)"
                      " ON CONFLICT (name) DO UPDATE SET seq ="
                      " audit_cursors.seq + 1",
                      "") < 0
               ? -(int)err->code
               : 0;
}

static void on_written(void *ctx, const struct error *err)
{
    struct rider *r = ctx;

    if (err)
        r->bad++;
    else
        r->good++;
}

static void a_rider_is_written_with_the_events(void **state)
{
    struct fixture *f = *state;
    struct rider r = {.f = f};

    audit_set_piggyback(f->audit,
                        &(struct audit_piggyback){&r, on_write, on_written});
    audit_later(f->audit, &ann, &(struct audit_event){.action = "a"});
    audit_flush_soon(f->audit);
    wait_for(f, 1);
    audit_set_piggyback(f->audit, NULL);
    assert_int_equal(r.writes, 1);
    assert_int_equal(r.good, 1);
    audit_flush_soon(f->audit); /* nobody is there */
    note(f, &ann, &(struct audit_event){.action = "b"});
    assert_int_equal(r.writes, 1);
}

static void a_rider_that_fails_holds_no_event_up(void **state)
{
    struct fixture *f = *state;
    struct rider r = {.f = f, .fail = true};

    audit_set_piggyback(f->audit,
                        &(struct audit_piggyback){&r, on_write, on_written});
    audit_later(f->audit, &ann, &(struct audit_event){.action = "a"});
    wait_for(f, 1);
    audit_set_piggyback(f->audit, NULL);
    assert_true(r.bad >= 1);
    assert_int_equal(r.good, 0);
    wait_writable(f, true);
    check_good(f, (int64_t)verify(f).events);
}

/* ---- formats and places ------------------------------------------------- */

static struct audit_line sample(void)
{
    static char tenant[] = "acme", actor[] = "key_1", action[] = "file.put",
                empty[] = "", path[] = "a\"b]c\\d", result[] = "forbidden",
                detail[] = "caf\xc3\xa9";

    return (struct audit_line){.seq = 7,
                               .at_ms = 1000,
                               .tenant = tenant,
                               .actor = actor,
                               .action = action,
                               .workspace = empty,
                               .object = empty,
                               .path = path,
                               .before = empty,
                               .after = empty,
                               .result = result,
                               .detail = detail,
                               .request = empty,
                               .source = empty,
                               .token = empty,
                               .hash = "ab",
                               .chain_seq = 3,
                               .chain_hash = "cd",
                               .chain_previous = "ef"};
}

static void O1_syslog_lines_are_escaped(void **state)
{
    struct buf out cleanup(buf_done) = {0};
    struct audit_line l = sample();

    (void)state;
    audit_format_syslog(&out, &l, "host");
    assert_string_equal(
        out.data, "<108>1 1970-01-01T00:00:01.000Z host glovebox - file.put "
                  "[glovebox@32473 seq=\"7\" tenant=\"acme\" actor=\"key_1\" "
                  "action=\"file.put\" path=\"a\\\"b\\]c\\\\d\" "
                  "result=\"forbidden\" detail=\"caf\xc3\xa9\" "
                  "chain_seq=\"3\" chain_hash=\"cd\"] file.put forbidden");
}

static void otlp_is_as_its_protocol_says(void **state)
{
    struct buf out cleanup(buf_done) = {0};
    struct audit_line l = sample();

    (void)state;
    audit_format_otlp(&out, &l, 1);
    assert_non_null(strstr(out.data, "{\"resourceLogs\":[{\"resource\":"));
    assert_non_null(strstr(out.data, "\"timeUnixNano\":\"1000000000\""));
    assert_non_null(strstr(out.data, "\"severityNumber\":13"));
    assert_non_null(strstr(out.data, "{\"key\":\"glovebox.audit.seq\","
                                     "\"value\":{\"intValue\":\"7\"}}"));
    assert_null(strchr(out.data, '\n'));
}

static void target_parse_takes_only_this_machine(void **state)
{
    static const char *const good[] = {"unix:/dev/log", "udp:127.0.0.1:514",
                                       "udp:127.9.9.9:1", "udp:[::1]:65535"};
    static const char *const bad[] = {"",
                                      "tcp:127.0.0.1:514",
                                      "unix:dev/log",
                                      "unix:",
                                      "udp:10.0.0.1:514",
                                      "udp:0.0.0.0:514",
                                      "udp:localhost:514",
                                      "udp:[::2]:514",
                                      "udp:::1:514",
                                      "udp:127.0.0.1",
                                      "udp:127.0.0.1:",
                                      "udp:127.0.0.1:0",
                                      "udp:127.0.0.1:65536",
                                      "udp:127.0.0.1:+5",
                                      "udp:127.0.0.1:5x"};
    struct audit_syslog_addr t;
    struct error err;
    char path[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_int_equal(audit_syslog_addr_parse(good[i], &t, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(audit_syslog_addr_parse(bad[i], &t, &err),
                         -ERR_INVALID);
    memset(path, 'x', sizeof(path));
    memcpy(path, "unix:/", 6);
    path[5 + 107] = '\0'; /* the longest there is room for */
    assert_int_equal(audit_syslog_addr_parse(path, &t, &err), 0);
    path[5 + 107] = 'x';
    path[5 + 108] = '\0';
    assert_int_equal(audit_syslog_addr_parse(path, &t, &err), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(O1_hashes_are_those_of_older_trails),
        CASE(O1_a_token_is_found_and_cannot_be_changed),
        CASE(O1_each_tenant_has_a_chain_of_its_own),
        CASE(O1_a_tenants_chain_shows_every_change),
        CASE(O1_damage_of_a_chain_still_shows_when_it_goes_on),
        CASE(O1_checkpoints_are_signed_and_part_of_the_chain),
        CASE(O1_a_chain_written_anew_lacks_the_signature),
        CASE(the_signing_key_is_private_and_a_new_one_is_told),
        CASE(checkpoints_come_by_themselves_when_due),
        CASE(O3_not_writable_while_events_cannot_be_written),
        CASE(O3_not_writable_while_too_many_events_wait),
        CASE(a_rider_is_written_with_the_events),
        CASE(a_rider_that_fails_holds_no_event_up),
        cmocka_unit_test(O1_syslog_lines_are_escaped),
        cmocka_unit_test(otlp_is_as_its_protocol_says),
        cmocka_unit_test(target_parse_takes_only_this_machine),
    };

    return cmocka_run_group_tests_name("audit_chain", tests, NULL, NULL);
}
