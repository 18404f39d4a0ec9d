/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports and questions of the proxy. Reports arrive on the thread of the
 * link, where nothing may wait: they are counted, added to the running
 * execution and written to the audit trail. In a burst everything is counted,
 * but only the first lines of each time window are listed, then one line with
 * the number of the others (E5).
 *
 * A question of the proxy is queued for the thread "net-answers", which asks
 * policy and, where policy requires it, requests an approval; until a person
 * has approved, the answer is no, with the id of the approval. A second queue
 * holds sessions whose grant must be checked; the thread "net-grants"
 * (network_renew.c) serves it. Neither the proxy nor the thread that caused
 * the work waits.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "egress/call.h"
#include "quota/quota.h"
#include "session/network_int.h"
#include "vault/vault.h"

/* ---- queues ------------------------------------------------------------- */

void network_work_free(struct net_job *job)
{
    session_unref(job->session);
    free(job->question);
    free(job);
}

/* False: there is no room, or no worker. */
static bool add_job(struct session_networks *n, struct net_worker *w,
                    struct session *se, const struct egress_report *question)
{
    struct net_job *job = xcalloc(1, sizeof(*job));
    bool room;

    job->session = session_ref(se);
    if (question) {
        job->question = xmalloc(sizeof(*question));
        *job->question = *question;
    }
    mutex_lock(&n->lock);
    room = !n->stopping && w->count < NETWORK_QUESTIONS_MAX;
    if (room) {
        *(w->last ? &w->last->next : &w->first) = job;
        w->last = job;
        w->count++;
        cond_signal(&w->cond);
    }
    mutex_unlock(&n->lock);
    if (!room)
        network_work_free(job);
    return room;
}

struct net_job *network_work_take(struct net_worker *w)
{
    struct net_job *job = w->first;

    if (!job)
        return NULL;
    w->first = job->next;
    if (!w->first)
        w->last = NULL;
    w->count--;
    return job;
}

void network_work_question(struct session *se, const struct egress_report *r)
{
    struct session_networks *n = se->m->networks;

    if (!add_job(n, &n->answers, se, r))
        egress_call_answer(n->m->parts.egress, r->question, false,
                           "too many questions wait");
}

void network_work_again(struct session_networks *n)
{
    n->again = true;
    cond_signal(&n->grants.cond);
}

void network_work_look(struct session *se)
{
    struct session_networks *n = se->m->networks;

    if (add_job(n, &n->grants, se, NULL))
        return;
    mutex_lock(&n->lock);
    n->all = true; /* then with all the others */
    network_work_again(n);
    mutex_unlock(&n->lock);
}

void network_work_retry(struct session_networks *n)
{
    mutex_lock(&n->lock);
    network_work_again(n);
    mutex_unlock(&n->lock);
}

/* ---- starting and stopping ---------------------------------------------- */

static int check_pools(const struct sessions *m, struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < m->conf->pool_count && rc == 0; i++) {
        struct session_network_info info cleanup(session_network_info_done) = {
            0};

        rc = network_pool_read(&m->conf->pools[i], &info, err);
        if (rc == 0 && info.net.mode == SESSION_EGRESS_OPEN)
            log_event(LOG_WARN, "pool_egress_open", "pool",
                      m->conf->pools[i].name, "means", SESSION_OPEN_MEANS,
                      NULL);
    }
    return rc;
}

int session_networks_start(struct sessions *m, struct error *err)
{
    struct session_networks *n = xcalloc(1, sizeof(*n));
    int rc;

    m->networks = n;
    n->m = n->answers.m = n->grants.m = m;
    mutex_init(&n->lock); /* cannot fail on Linux */
    cond_init(&n->answers.cond);
    cond_init(&n->grants.cond);
    if (m->parts.govern.policy)
        n->policy_version = policy_current(m->parts.govern.policy);
    rc = check_pools(m, err);
    if (rc < 0 || !m->parts.egress)
        return rc;
    egress_call_listen(m->parts.egress, network_report, network_renew_lost, n);
    vault_listen(m->parts.vault, network_renew_secret, n);
    rc = thread_start(&n->answers.thread, "net-answers", network_answers_main,
                      &n->answers, err);
    return rc < 0 ? rc
                  : thread_start(&n->grants.thread, "net-grants",
                                 network_renew_main, &n->grants, err);
}

static void stop(struct session_networks *n, struct net_worker *w)
{
    struct net_job *job;

    thread_join(&w->thread);
    mutex_lock(&n->lock);
    job = take_ptr(w->first);
    w->last = NULL;
    w->count = 0;
    mutex_unlock(&n->lock);
    while (job) {
        struct net_job *next = job->next;

        network_work_free(job);
        job = next;
    }
}

void session_networks_stop(struct sessions *m)
{
    struct session_networks *n = m->networks;

    if (!n)
        return;
    mutex_lock(&n->lock);
    n->stopping = true;
    cond_broadcast(&n->answers.cond);
    cond_broadcast(&n->grants.cond);
    mutex_unlock(&n->lock);
    stop(n, &n->answers);
    stop(n, &n->grants);
}

void session_networks_free(struct sessions *m)
{
    struct session_networks *n = take_ptr(m->networks);

    if (!n)
        return;
    if (m->parts.egress)
        egress_call_listen(m->parts.egress, NULL, NULL, NULL);
    vault_listen(m->parts.vault, NULL, NULL);
    mutex_done(&n->lock);
    cond_done(&n->answers.cond);
    cond_done(&n->grants.cond);
    free(n);
}

/* ---- questions ---------------------------------------------------------- */

/* The text, or NULL where the proxy left it empty. */
static const char *given(const char *text)
{
    return text[0] ? text : NULL;
}

static struct govern_request question_of(const struct govern_scope *scope,
                                         const struct egress_report *r)
{
    if (r->package[0])
        return govern_package(scope, given(r->host), r->port, r->package,
                              given(r->version), given(r->sha256));
    return govern_connect(scope, given(r->host), r->port, given(r->method),
                          given(r->path));
}

/* The same destination, or package, is the same question. */
static int hold_question(const struct session *se, struct govern_request *rq,
                         const struct policy_decision *d, struct error *err)
{
    const struct policy_request *ask = &rq->ask;
    char summary[480], port[12];

    govern_add(rq, "session", se->id);
    if (ask->package) {
        govern_add(rq, "package", ask->package);
        govern_add(rq, "version", ask->version);
        govern_add(rq, "sha256", ask->sha256);
        (void)snprintf(summary, sizeof(summary), "let %s install %s %s",
                       se->id, ask->package, ask->version ? ask->version : "");
    } else {
        (void)snprintf(port, sizeof(port), "%d", ask->port);
        govern_add(rq, "host", ask->host);
        govern_add_json(rq, "port", port);
        (void)snprintf(summary, sizeof(summary), "let %s reach %s port %d",
                       se->id, ask->host ? ask->host : "?", ask->port);
    }
    rq->summary = summary;
    return govern_hold(&se->m->parts.govern, rq, d, err);
}

static void answer(struct session *se, const struct egress_report *r)
{
    const struct govern *g = &se->m->parts.govern;
    struct actor who = session_actor(se);
    const struct govern_scope scope = session_govern_scope(se, &who);
    struct govern_request rq = question_of(&scope, r);
    struct policy_decision d;
    struct error err = {0};
    int rc;

    govern_decide(g, &rq, &d);
    govern_record(g, &rq, &d);
    if (d.verdict == POLICY_ASK) {
        rc = hold_question(se, &rq, &d, &err);
        /* The session's code sees this text; the proxy has room for little. */
        if (rc == -ERR_APPROVAL)
            (void)snprintf(err.message, sizeof(err.message),
                           "somebody has to approve it first: %s",
                           err.approval);
    } else {
        rc = policy_refuse(&d, &err);
        if (rc < 0 && rq.ask.package && !govern_by_rule(&d))
            rc = error_set(&err, ERR_FORBIDDEN, "%s", d.reason);
    }
    egress_call_answer(se->m->parts.egress, r->question, rc == 0,
                       rc == 0 ? "" : err.message);
}

void network_answers_main(void *arg)
{
    struct net_worker *w = arg;
    struct session_networks *n = w->m->networks;
    struct net_job *job;

    mutex_lock(&n->lock);
    while (!n->stopping) {
        job = network_work_take(w);
        if (!job) {
            cond_wait(&w->cond, &n->lock);
            continue;
        }
        mutex_unlock(&n->lock);
        answer(job->session, job->question);
        network_work_free(job);
        mutex_lock(&n->lock);
    }
    mutex_unlock(&n->lock);
}

/* ---- handles ------------------------------------------------------------ */

static struct session_net **bucket(struct session_networks *n, uint64_t handle)
{
    return &n->buckets[handle % NETWORK_BUCKETS];
}

struct session *network_report_find(struct session_networks *n,
                                    uint64_t handle)
{
    struct session_net *net;
    struct session *se = NULL;

    mutex_lock(&n->lock);
    net = *bucket(n, handle);
    while (net && net->handle != handle)
        net = net->next;
    if (net) /* its box holds a reference as long as it is here */
        se = session_ref(net->session);
    mutex_unlock(&n->lock);
    return se;
}

void network_report_enter(struct session *se)
{
    struct session_networks *n = se->m->networks;
    struct session_net *net = se->net;

    mutex_lock(&n->lock);
    net->handle = ++n->next_handle;
    net->session = se;
    net->next = *bucket(n, net->handle);
    *bucket(n, net->handle) = net;
    mutex_unlock(&n->lock);
}

void network_report_leave(struct session *se)
{
    struct session_networks *n = se->m->networks;
    struct session_net *net = se->net, **at;

    mutex_lock(&n->lock);
    at = bucket(n, net->handle);
    while (*at && *at != net)
        at = &(*at)->next;
    if (*at)
        *at = net->next;
    net->next = NULL;
    net->session = NULL;
    net->handle = 0;
    mutex_unlock(&n->lock);
}

/* ---- reports in an execution -------------------------------------------- */

static const char *const whats[] = {
    [EGRESS_REPORT_HTTP] = "http",      [EGRESS_REPORT_TUNNEL] = "tunnel",
    [EGRESS_REPORT_LOOKUP] = "resolve", [EGRESS_REPORT_PACKAGE] = "package",
    [EGRESS_REPORT_BUDGET] = "connect",
};

static struct exec_connection as_connection(const struct egress_report *r)
{
    return (struct exec_connection){
        .at_ms = r->at_ms,
        .what = whats[r->type],
        .host = r->package[0] ? r->package : r->host,
        .port = r->port,
        .allowed = r->allowed,
        .method = r->method,
        .path = r->package[0] ? r->version : r->path,
        .reason = r->allowed ? "" : r->reason,
        .count = 1,
        .bytes_out = r->bytes_out,
        .bytes_in = r->bytes_in};
}

static struct execution *running(struct session *se)
{
    struct execution *e;

    mutex_lock(&se->lock);
    e = se->running ? execution_ref(se->running) : NULL;
    mutex_unlock(&se->lock);
    return e;
}

static const char *keep_text(char **at, const char *text)
{
    char *kept = *at;
    size_t len = strlen(text) + 1;

    memcpy(kept, text, len);
    *at += len;
    return kept;
}

/* For whichever execution comes next. */
static void keep_pending(struct session *se, const struct exec_connection *c)
{
    struct session_networks *n = se->m->networks;
    size_t size = strlen(c->host) + strlen(c->method) + strlen(c->path) +
                  strlen(c->reason) + 4;
    struct net_pending *p = xcalloc(1, sizeof(*p) + size);
    char *at = p->room;

    p->c = *c;
    p->c.host = keep_text(&at, c->host);
    p->c.method = keep_text(&at, c->method);
    p->c.path = keep_text(&at, c->path);
    p->c.reason = keep_text(&at, c->reason);
    mutex_lock(&n->lock);
    if (se->net->pending_count < NETWORK_PENDING_MAX) {
        struct net_pending **end = &se->net->pending;

        while (*end)
            end = &(*end)->next;
        p->next = NULL;
        *end = p;
        se->net->pending_count++;
        p = NULL;
    }
    mutex_unlock(&n->lock);
    free(p);
}

static void show(struct session *se, const struct egress_report *r)
{
    struct exec_connection c = as_connection(r);
    struct execution *e cleanup(execution_unrefp) = running(se);

    if (!e || !session_watch_add(e, &c))
        keep_pending(se, &c);
}

void session_net_begin(struct session *se, struct execution *e)
{
    struct session_networks *n = se->m->networks;
    struct net_pending *p, *next;

    mutex_lock(&n->lock);
    p = take_ptr(se->net->pending);
    se->net->pending_count = 0;
    mutex_unlock(&n->lock);
    for (; p; p = next) {
        next = p->next;
        (void)session_watch_add(e, &p->c); /* it has only begun */
        free(p);
    }
}

/* ---- reports in the audit trail ----------------------------------------- */

static const char *action_of(const struct egress_report *r)
{
    switch (r->type) {
    case EGRESS_REPORT_LOOKUP:
        return r->allowed ? NULL : "network.lookup";
    case EGRESS_REPORT_PACKAGE:
        return r->allowed ? "package.install" : "package.refused";
    case EGRESS_REPORT_BUDGET:
        return "network.budget";
    default:
        return r->allowed ? "network.request" : "network.refused";
    }
}

/* Is there room for a line now? *ret_before: so many had none. */
static bool line_room(struct session *se, uint32_t *ret_before)
{
    struct session_networks *n = se->m->networks;
    struct session_net *net = se->net;
    uint64_t now = clock_mono_ms();
    bool room;

    *ret_before = 0;
    mutex_lock(&n->lock);
    if (now >= net->window_ms + NETWORK_LINES_MS) {
        net->window_ms = now;
        net->lines = 0;
        *ret_before = net->unlisted;
        net->unlisted = 0;
    }
    room = net->lines < NETWORK_LINES_MAX;
    if (room)
        net->lines++;
    else
        net->unlisted++;
    mutex_unlock(&n->lock);
    return room;
}

static void write_line(struct session *se, const char *action,
                       const char *path, const char *detail, bool ok)
{
    struct actor who = session_actor(se);
    struct audit_event event = {.action = action,
                                .workspace = se->workspace,
                                .object = se->id,
                                .path = path,
                                .result = ok ? NULL : "forbidden",
                                .detail = detail};

    audit_later(workspaces_audit(se->m->workspaces), &who, &event);
}

static void describe(const struct egress_report *r, char *ret, size_t size)
{
    if (r->package[0])
        (void)snprintf(ret, size, "%s %s sha256 %s%s%s", r->package,
                       r->version, r->sha256, r->allowed ? "" : ": ",
                       r->allowed ? "" : r->reason);
    else if (!r->allowed)
        (void)snprintf(ret, size, "%s%s%s", r->method,
                       r->method[0] ? ": " : "", r->reason);
    else
        (void)snprintf(ret, size,
                       "%s%s%.300s to %s, status %u, %llu bytes out, %llu in, "
                       "rule %u",
                       r->method[0] ? r->method : "CONNECT",
                       r->path[0] ? " " : "", r->path, r->address, r->status,
                       (unsigned long long)r->bytes_out,
                       (unsigned long long)r->bytes_in, r->rule);
}

static void note(struct session *se, const struct egress_report *r)
{
    const char *action = action_of(r);
    char place[EGRESS_HOST_MAX + 8], detail[480];
    uint32_t before;

    if (!action)
        return;
    if (!line_room(se, &before))
        return;
    if (before) {
        (void)snprintf(detail, sizeof(detail),
                       "%u more were not listed one by one", before);
        write_line(se, "network.more", NULL, detail, true);
    }
    (void)snprintf(place, sizeof(place), r->port ? "%s:%u" : "%s", r->host,
                   r->port);
    describe(r, detail, sizeof(detail));
    write_line(se, action, place, detail,
               r->allowed && r->type != EGRESS_REPORT_BUDGET);
}

/* ---- usage -------------------------------------------------------------- */

static bool same_package(const struct session_package *p,
                         const struct egress_report *r)
{
    return strcmp(p->name, r->package) == 0 &&
           strcmp(p->version, r->version) == 0 &&
           strcmp(p->sha256, r->sha256) == 0;
}

static void keep_package(struct session *se, const struct egress_report *r)
{
    struct session_networks *n = se->m->networks;
    struct session_net *net = se->net;
    size_t i = 0;

    mutex_lock(&n->lock);
    if (!net->packages) {
        net->packages_room = arena_new();
        net->packages = xcalloc(NETWORK_PACKAGES_MAX, sizeof(*net->packages));
    }
    while (i < net->package_count && !same_package(&net->packages[i], r))
        i++;
    if (i == net->package_count && i < NETWORK_PACKAGES_MAX)
        net->packages[net->package_count++] = (struct session_package){
            .name = arena_strdup(net->packages_room, r->package),
            .version = arena_strdup(net->packages_room, r->version),
            .sha256 = arena_strdup(net->packages_room, r->sha256),
            .at_ms = r->at_ms};
    mutex_unlock(&n->lock);
}

static void count(struct session *se, const struct egress_report *r)
{
    struct quotas *q = se->m->parts.quotas;
    const char *tenant = se->tenant->name;
    uint64_t bytes = r->bytes_out + r->bytes_in;
    struct error ignored;

    if (bytes)
        atomic_fetch_add(&se->net->bytes_used, bytes);
    if (r->allowed && r->type != EGRESS_REPORT_LOOKUP)
        atomic_fetch_add(&se->net->requests_used, 1);
    atomic_store(&se->net->dirty, true);
    quota_spend(q, tenant, QUOTA_EGRESS, bytes);
    if (bytes && quota_check(q, tenant, QUOTA_EGRESS, &ignored) < 0)
        network_work_look(se); /* nothing is left: it loses its network */
}

/* Of the other process's; a report that makes no sense tells nothing. */
static bool plausible(const struct egress_report *r)
{
    return r->type >= EGRESS_REPORT_HTTP && r->type <= EGRESS_QUESTION &&
           memchr(r->host, 0, sizeof(r->host)) &&
           memchr(r->address, 0, sizeof(r->address)) &&
           memchr(r->method, 0, sizeof(r->method)) &&
           memchr(r->path, 0, sizeof(r->path)) &&
           memchr(r->package, 0, sizeof(r->package)) &&
           memchr(r->version, 0, sizeof(r->version)) &&
           memchr(r->sha256, 0, sizeof(r->sha256)) &&
           memchr(r->reason, 0, sizeof(r->reason));
}

void network_report(void *ctx, const struct egress_report *r)
{
    struct session_networks *n = ctx;
    struct session *se;

    if (!plausible(r))
        return;
    se = network_report_find(n, r->handle);
    if (!se) {
        if (r->type == EGRESS_QUESTION)
            egress_call_answer(n->m->parts.egress, r->question, false,
                               "the session is gone");
        return;
    }
    if (r->type == EGRESS_QUESTION) {
        network_work_question(se, r);
    } else {
        count(se, r);
        if (r->type == EGRESS_REPORT_PACKAGE && r->allowed)
            keep_package(se, r);
        if (r->type != EGRESS_REPORT_LOOKUP || !r->allowed)
            show(se, r);
        note(se, r);
    }
    session_unref(se);
}
