/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's network between pid 1 and a proxy of the test's own: in which
 * order what is given and withdrawn, what failing leaves behind, and what
 * becomes of what the proxy tells and asks.
 */
#include "session_fixture.h"

#include "auth/auth.h"
#include "egress/call.h"
#include "egress/host.h"
#include "network/network_int.h"

static const struct actor ADMIN = {
    .tenant = TENANT, .key = "key_acme", .admin = true};

/* ---- the proxy ---------------------------------------------------------- */

struct egress_link {
    pthread_mutex_t lock;
    void (*report)(void *ctx, const struct egress_report *r);
    void (*lost)(void *ctx);
    void *ctx;
    bool dead, refuse;
    unsigned grants, revokes, answers;
    struct egress_grant last;
    struct egress_rule rule; /* the first of the last grant */
    int sockets;             /* came with it */
    bool allowed;
    char reason[EGRESS_TEXT_MAX];
};

static struct egress_link proxy = {.lock = PTHREAD_MUTEX_INITIALIZER};

void egress_call_listen(struct egress_link *l,
                        void (*report)(void *ctx,
                                       const struct egress_report *r),
                        void (*lost)(void *ctx), void *ctx)
{
    l->report = report;
    l->lost = lost;
    l->ctx = ctx;
}

const char *egress_call_never(const struct egress_link *l, const char *host)
{
    (void)l;
    return egress_host_never(host, NULL);
}

bool egress_call_alive(struct egress_link *l)
{
    return l && !l->dead;
}

int egress_call_grant(struct egress_link *l, const struct egress_grant *grant,
                      const struct egress_rule *rules, int tcp, int udp,
                      char ret_ca[EGRESS_CA_MAX], struct error *err)
{
    int rc = 0;

    fake_told(tcp >= 0 && udp >= 0 ? "grant" : "again");
    pthread_mutex_lock(&l->lock);
    l->grants++;
    l->last = *grant;
    if (grant->rule_count)
        l->rule = rules[0];
    ret_ca[0] = '\0';
    if (l->refuse)
        rc = error_set(err, ERR_UNAVAILABLE, "not today");
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int egress_call_revoke(struct egress_link *l, uint64_t handle,
                       struct error *err)
{
    (void)handle;
    (void)err;
    fake_told("revoke");
    l->revokes++;
    return 0;
}

void egress_call_answer(struct egress_link *l, uint64_t question, bool allow,
                        const char *reason)
{
    (void)question;
    pthread_mutex_lock(&l->lock);
    l->allowed = allow;
    (void)snprintf(l->reason, sizeof(l->reason), "%s", reason);
    l->answers++;
    pthread_mutex_unlock(&l->lock);
}

/* ---- help --------------------------------------------------------------- */

/* What was told so far; valid until the next call. */
static const char *words_so_far(void)
{
    static char copy[sizeof(fake_net.words)];

    pthread_mutex_lock(&fake_net.lock);
    memcpy(copy, fake_net.words, sizeof(copy));
    pthread_mutex_unlock(&fake_net.lock);
    return copy;
}

static void forget(void)
{
    pthread_mutex_lock(&fake_net.lock);
    fake_net.words[0] = '\0';
    pthread_mutex_unlock(&fake_net.lock);
}

static int set_up_network(void **state)
{
    struct fixture *f;

    (void)set_up_conf(state);
    f = *state;
    proxy = (struct egress_link){.lock = PTHREAD_MUTEX_INITIALIZER};
    fake_net.no_sockets = false;
    for (int i = 0; i < 2; i++) {
        f->conf.pools[i].egress = (char *)"none";
        f->conf.pools[i].egress_allow = (char *)"";
        f->conf.pools[i].egress_bytes = 1000;
        f->conf.pools[i].egress_connections = 4;
        f->conf.pools[i].egress_requests = 10;
    }
    open_it(f);
    close_sessions(f, 1);
    assert_int_equal(open_sessions(f, &proxy), 0);
    wait_proven(f);
    forget();
    return 0;
}

static struct network_spec listed(struct network_destination *d, size_t n)
{
    return (struct network_spec){.mode = SESSION_EGRESS_ALLOWLIST,
                                 .destinations = d,
                                 .destination_count = n};
}

static int make(struct fixture *f, const struct network_spec *net)
{
    struct session_spec spec = {.network = net};
    struct session_info info;
    int rc = session_create(f->s, &ADMIN, &spec, &info, &f->err);

    if (rc == 0) {
        memcpy(f->id, info.id, sizeof(f->id));
        session_info_done(&info);
    }
    return rc;
}

static int give(struct fixture *f, const struct actor *who,
                const struct network_spec *net)
{
    struct network_info info = {0};
    int rc = session_network_set(f->s, who, f->id, net, &info, &f->err);

    network_info_done(&info);
    return rc;
}

static bool in_force(struct fixture *f, char problem[200])
{
    struct network_info info = {0};
    bool granted;

    assert_int_equal(session_network_get(f->s, &ADMIN, f->id, &info, &f->err),
                     0);
    granted = info.granted;
    memcpy(problem, info.problem, 200);
    network_info_done(&info);
    return granted;
}

/* ---- order -------------------------------------------------------------- */

static void session_network_grants_in_order(void **state)
{
    struct network_destination d[2] = {{.host = "a.org"}, {.host = "b.org"}};
    struct network_spec net = listed(d, 1);
    struct fixture *f = *state;
    char why[200];

    assert_int_equal(make(f, &net), 0);
    assert_string_equal(words_so_far(),
                        "proxy resolver taken grant ca environment");
    assert_true(in_force(f, why));
    assert_int_equal(proxy.last.bytes, 1000);
    assert_int_equal(proxy.last.requests, 10);
    /* more: nothing is cut */
    forget();
    net = listed(d, 2);
    assert_int_equal(give(f, &ADMIN, &net), 0);
    assert_string_equal(words_so_far(), "again ca environment");
    /* E4: less: withdrawn before anything is given */
    forget();
    net = listed(d + 1, 1);
    assert_int_equal(give(f, &ADMIN, &net), 0);
    assert_string_equal(words_so_far(),
                        "revoke back ca environment proxy resolver taken "
                        "grant ca environment");
    assert_string_equal(proxy.rule.host, "b.org");
    forget();
    net = (struct network_spec){.mode = SESSION_EGRESS_NONE};
    assert_int_equal(give(f, &ADMIN, &net), 0);
    assert_string_equal(words_so_far(), "revoke back ca environment");
    assert_false(in_force(f, why));
    assert_string_equal(why, "");
}

static void session_network_revokes_with_the_session(void **state)
{
    struct network_destination d[1] = {{.host = "a.org"}};
    struct network_spec net = listed(d, 1);
    struct fixture *f = *state;

    assert_int_equal(make(f, &net), 0);
    forget();
    assert_int_equal(session_delete(f->s, &ADMIN, f->id, &f->err), 0);
    assert_string_equal(words_so_far(), "revoke");
}

/* ---- failing ------------------------------------------------------------ */

static void E4_a_grant_that_fails_leaves_no_network(void **state)
{
    struct network_destination d[2] = {{.host = "a.org"}, {.host = "b.org"}};
    struct network_spec net = listed(d, 1);
    struct fixture *f = *state;
    char why[200];

    /* asked for: no session at all */
    proxy.refuse = true;
    assert_int_equal(make(f, &net), -ERR_UNAVAILABLE);
    proxy.refuse = false;
    assert_int_equal(make(f, &net), 0);
    /* of a change: even one that only adds */
    proxy.refuse = true;
    forget();
    net = listed(d, 2);
    assert_int_equal(give(f, &ADMIN, &net), -ERR_UNAVAILABLE);
    /* what follows is tried again by itself */
    assert_memory_equal(words_so_far(), "again revoke back ca environment",
                        strlen("again revoke back ca environment"));
    assert_false(in_force(f, why));
    assert_string_equal(why, "not today");
    /* pid 1 has no sockets, or there is no proxy */
    fake_net.no_sockets = true;
    proxy.refuse = false;
    assert_true(give(f, &ADMIN, &net) < 0);
    assert_false(in_force(f, why));
    proxy.dead = true;
    fake_net.no_sockets = false;
    assert_int_equal(give(f, &ADMIN, &net), -ERR_UNAVAILABLE);
    assert_false(in_force(f, why));
    proxy.dead = false;
    assert_int_equal(give(f, &ADMIN, &net), 0);
    assert_true(in_force(f, why));
}

static void E4_a_lost_proxy_voids_grants_and_a_new_one_gets_them(void **state)
{
    struct network_destination d[1] = {{.host = "a.org"}};
    struct network_spec net = listed(d, 1);
    struct fixture *f = *state;
    uint64_t handle;
    char why[200];

    assert_int_equal(make(f, &net), 0);
    handle = proxy.last.handle;
    proxy.dead = true;
    proxy.lost(proxy.ctx);
    assert_false(in_force(f, why));
    assert_true(why[0] != '\0');
    proxy.dead = false;
    for (int i = 0; i < 2000 && !in_force(f, why); i++)
        fake_nap(5);
    assert_true(in_force(f, why));
    assert_true(proxy.last.handle != handle);
}

/* ---- who ---------------------------------------------------------------- */

static void session_network_stays_within_the_pool(void **state)
{
    struct network_destination d[1] = {{.host = "a.org"}};
    struct network_spec net = listed(d, 1);
    struct fixture *f = *state;
    struct actor policy = WHO;

    create(f);
    assert_int_equal(give(f, &WHO, &net), -ERR_FORBIDDEN);
    net.mode = SESSION_EGRESS_OPEN;
    assert_int_equal(give(f, &WHO, &net), -ERR_FORBIDDEN);
    assert_int_equal(proxy.grants, 0);
    policy.scopes = AUTH_POLICY_ADMIN;
    assert_int_equal(give(f, &policy, &net), 0);
    assert_int_equal(give(f, &OTHER, &net), -ERR_NOT_FOUND);
}

static void network_spec_within_compares_all_of_it(void **state)
{
    struct network_destination wide[] = {{.host = "*.x.org"},
                                         {.host = "y.org", .ports = {8080}}};
    struct network_destination in = {.host = "a.x.org"};
    struct network_spec outer = listed(wide, 2), inner = listed(&in, 1);

    (void)state;
    assert_true(network_spec_within(&outer, &inner));
    in = (struct network_destination){.host = "x.org"};
    assert_false(network_spec_within(&outer, &inner));
    in = (struct network_destination){.host = "a.x.org", .ports = {8080}};
    assert_false(network_spec_within(&outer, &inner));
    in = (struct network_destination){.host = "y.org"};
    assert_false(network_spec_within(&outer, &inner));
    in.ports[0] = 8080;
    assert_true(network_spec_within(&outer, &inner));
    in.methods = "GET";
    assert_true(network_spec_within(&outer, &inner));
    wide[1].methods = "GET,HEAD";
    assert_true(network_spec_within(&outer, &inner));
    in.methods = "POST";
    assert_false(network_spec_within(&outer, &inner));
    in.methods = NULL;
    assert_false(network_spec_within(&outer, &inner));
    wide[1].methods = NULL;
    wide[1].path = "/v1";
    in.path = "/v1/x";
    assert_true(network_spec_within(&outer, &inner));
    in.path = "/v10";
    assert_false(network_spec_within(&outer, &inner));
    inner = (struct network_spec){.packages = true};
    assert_false(network_spec_within(&outer, &inner));
    inner.packages = false;
    assert_true(network_spec_within(&outer, &inner));
    inner.mode = SESSION_EGRESS_OPEN;
    assert_false(network_spec_within(&outer, &inner));
}

static void network_pool_read_takes_words(void **state)
{
    struct network_info info = {0};
    struct conf_pool pool = {.name = (char *)"p",
                             .egress = (char *)"allowlist",
                             .egress_allow = (char *)"A.org:443, *.b.org,a.org"
                                                     ":8443,[2001:db8::1]:80"};
    struct error err;

    (void)state;
    assert_int_equal(network_pool_read(&pool, &info, &err), 0);
    assert_int_equal(info.net.destination_count, 4);
    assert_string_equal(info.net.destinations[0].host, "a.org");
    assert_int_equal(info.net.destinations[0].ports[0], 443);
    assert_string_equal(info.net.destinations[1].host, "*.b.org");
    assert_string_equal(info.net.destinations[3].host, "2001:db8::1");
    network_info_done(&info);
    pool.egress_allow = (char *)"a.org:70000";
    assert_int_equal(network_pool_read(&pool, &info, &err), -ERR_INVALID);
    pool.egress_allow = (char *)"a..org";
    assert_int_equal(network_pool_read(&pool, &info, &err), -ERR_INVALID);
}

/* ---- what the proxy tells and asks ---------------------------------------
 */

struct answered {
    unsigned count;
    bool allowed;
    char reason[sizeof(proxy.reason)];
};

/* The last answer, once there are that many. */
static struct answered wait_answers(unsigned count)
{
    struct answered a = {.count = 0};

    for (int i = 0; i < 2000 && a.count < count; i++) {
        if (i)
            fake_nap(5);
        pthread_mutex_lock(&proxy.lock);
        a.count = proxy.answers;
        a.allowed = proxy.allowed;
        memcpy(a.reason, proxy.reason, sizeof(a.reason));
        pthread_mutex_unlock(&proxy.lock);
    }
    assert_int_equal(a.count, count);
    return a;
}

static void network_report_counts_asks_and_remembers(void **state)
{
    struct network_destination d[1] = {{.host = "a.org"}};
    struct network_spec net = listed(d, 1);
    struct network_info info = {0};
    struct fixture *f = *state;
    struct egress_report r = {.type = EGRESS_REPORT_HTTP, .allowed = 1};
    struct answered last;

    assert_int_equal(make(f, &net), 0);
    r.handle = proxy.last.handle;
    r.bytes_out = 100;
    r.bytes_in = 300;
    (void)snprintf(r.host, sizeof(r.host), "a.org");
    proxy.report(proxy.ctx, &r);
    r.type = EGRESS_REPORT_PACKAGE;
    (void)snprintf(r.package, sizeof(r.package), "six");
    (void)snprintf(r.version, sizeof(r.version), "1.0");
    proxy.report(proxy.ctx, &r);
    proxy.report(proxy.ctx, &r); /* the same again is one */
    r.handle += 17;
    proxy.report(proxy.ctx, &r); /* of nobody */
    assert_int_equal(session_network_get(f->s, &ADMIN, f->id, &info, &f->err),
                     0);
    assert_int_equal(info.bytes_used, 1200);
    assert_int_equal(info.requests_used, 3);
    assert_int_equal(info.installed_count, 1);
    assert_string_equal(info.installed[0].name, "six");
    network_info_done(&info);
    /* what was used is gone after a change: bytes are over, requests not */
    net.requests = 9;
    assert_int_equal(give(f, &ADMIN, &net), 0);
    assert_int_equal(proxy.last.bytes, 0);
    assert_int_equal(proxy.last.requests, 6);
    /* questions: a package that no rule names, a destination, nobody's */
    r = (struct egress_report){.type = EGRESS_QUESTION,
                               .handle = proxy.last.handle};
    (void)snprintf(r.package, sizeof(r.package), "six");
    proxy.report(proxy.ctx, &r);
    last = wait_answers(1);
    assert_false(last.allowed);
    assert_non_null(strstr(last.reason, "no rule of the policy"));
    r.package[0] = '\0';
    (void)snprintf(r.host, sizeof(r.host), "a.org");
    proxy.report(proxy.ctx, &r);
    assert_true(wait_answers(2).allowed);
    r.handle += 17;
    proxy.report(proxy.ctx, &r);
    assert_false(wait_answers(3).allowed);
    /* nonsense tells nothing */
    r.handle = proxy.last.handle;
    memset(r.host, 'x', sizeof(r.host));
    proxy.report(proxy.ctx, &r);
    r.type = 99;
    proxy.report(proxy.ctx, &r);
    fake_nap(20);
    (void)wait_answers(3);
}

static void session_network_is_kept_over_a_restart(void **state)
{
    struct network_destination d[1] = {
        {.host = "a.org", .ports = {80}, .methods = "GET,PUT", .path = "/x"}};
    struct network_spec net = listed(d, 1);
    struct network_info info = {0};
    struct fixture *f = *state;

    net.packages = true;
    net.bytes = 500;
    assert_int_equal(make(f, &net), 0);
    close_it(f);
    open_it(f);
    close_sessions(f, 1);
    assert_int_equal(open_sessions(f, &proxy), 0);
    assert_int_equal(session_network_get(f->s, &ADMIN, f->id, &info, &f->err),
                     0);
    assert_int_equal(info.net.mode, SESSION_EGRESS_ALLOWLIST);
    assert_true(info.net.packages);
    assert_int_equal(info.net.bytes, 500);
    assert_string_equal(info.net.destinations[0].host, "a.org");
    assert_string_equal(info.net.destinations[0].methods, "GET,PUT");
    assert_string_equal(info.net.destinations[0].path, "/x");
    assert_int_equal(info.net.destinations[0].ports[0], 80);
    assert_false(info.granted);
    network_info_done(&info);
}

int main(void)
{
#define CASE(name)                                                            \
    cmocka_unit_test_setup_teardown(name, set_up_network, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(session_network_grants_in_order),
        CASE(session_network_revokes_with_the_session),
        CASE(E4_a_grant_that_fails_leaves_no_network),
        CASE(E4_a_lost_proxy_voids_grants_and_a_new_one_gets_them),
        CASE(session_network_stays_within_the_pool),
        cmocka_unit_test(network_spec_within_compares_all_of_it),
        cmocka_unit_test(network_pool_read_takes_words),
        CASE(network_report_counts_asks_and_remembers),
        CASE(session_network_is_kept_over_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
