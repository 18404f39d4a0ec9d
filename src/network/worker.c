/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the module and runs its two threads, so that neither the
 * proxy nor the thread that caused the work waits.
 *
 * "net-answers" answers questions of the proxy: it asks policy and, where
 * policy requires it, requests an approval; until a person has approved, the
 * answer is no, with the id of the approval. "net-grants" renews grants after
 * the proxy was lost and when the policy has changed, and withdraws them when
 * a quota is used up. A changed secret is handled on the thread that changed
 * it.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "egress/call.h"
#include "network/network_int.h"
#include "vault/vault.h"

#define CHECK_MS 1000u
#define RETRY_MS 201u /* doubled from then on */
#define RETRY_MAX_MS 6432u

/* ---- queues ------------------------------------------------------------- */

static void job_free(struct net_job *job)
{
    network_unref(job->net);
    free(job->question);
    free(job);
}

/* False: the queue is full, or the module stops. */
static bool job_add(struct net_worker *w, struct network *net,
                    const struct egress_report *question)
{
    struct networks *n = w->all;
    struct net_job *job = xcalloc(1, sizeof(*job));
    bool room;

    job->net = network_ref(net);
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
        job_free(job);
    return room;
}

/* networks.lock is held. */
static struct net_job *job_take(struct net_worker *w)
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

void network_ask_policy(struct network *net, const struct egress_report *r)
{
    struct networks *n = net->all;

    if (!job_add(&n->answers, net, r))
        egress_call_answer(n->egress, r->question, false,
                           "too many questions wait");
}

/* networks.lock is held. */
static void retry_soon(struct networks *n)
{
    n->again = true;
    cond_signal(&n->grants.cond);
}

void network_check_later(struct network *net)
{
    struct networks *n = net->all;

    if (job_add(&n->grants, net, NULL))
        return;
    mutex_lock(&n->lock);
    n->all = true; /* then with all the others */
    retry_soon(n);
    mutex_unlock(&n->lock);
}

void network_retry_later(struct networks *n)
{
    mutex_lock(&n->lock);
    retry_soon(n);
    mutex_unlock(&n->lock);
}

/* ---- the thread "net-answers" ------------------------------------------- */

/* The text, or NULL where the proxy left it empty. */
static const char *text_or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static struct govern_request question_of(const struct govern_scope *scope,
                                         const struct egress_report *r)
{
    if (r->package[0])
        return govern_package(scope, text_or_null(r->host), r->port,
                              r->package, text_or_null(r->version),
                              text_or_null(r->sha256));
    return govern_connect(scope, text_or_null(r->host), r->port,
                          text_or_null(r->method), text_or_null(r->path));
}

/* Requests about the same destination or package share one approval. */
static int hold_question(const struct network *net, struct govern_request *rq,
                         const struct policy_decision *d, struct error *err)
{
    const struct policy_request *ask = &rq->ask;
    char summary[480], port[12];
    int r;

    govern_add(rq, "session", net->session);
    if (ask->package) {
        govern_add(rq, "package", ask->package);
        govern_add(rq, "version", ask->version);
        govern_add(rq, "sha256", ask->sha256);
        (void)snprintf(summary, sizeof(summary),
                       "let session %s install %s %s", net->session,
                       ask->package, ask->version ? ask->version : "");
    } else {
        (void)snprintf(port, sizeof(port), "%d", ask->port);
        govern_add(rq, "host", ask->host);
        govern_add_json(rq, "port", port);
        (void)snprintf(summary, sizeof(summary),
                       "let session %s reach %s port %d", net->session,
                       ask->host ? ask->host : "?", ask->port);
    }
    rq->summary = summary;
    r = govern_hold(&net->all->govern, rq, d, err);
    rq->summary = NULL;
    return r;
}

/* To the execution that runs; without one they are in no evidence. */
static void note_checks(struct network *net, const struct govern_request *rq)
{
    struct policy_check checks[POLICY_CHECKS_OF];
    size_t count = govern_checks(&net->all->govern, rq, checks);

    mutex_lock(&net->all->lock);
    if (net->watcher.on_checks)
        net->watcher.on_checks(net->watcher.ctx, checks, count);
    mutex_unlock(&net->all->lock);
}

static void answer_question(struct network *net, const struct egress_report *r)
{
    const struct govern *g = &net->all->govern;
    struct actor who = network_actor(net);
    const struct network_ask ask = network_ask_of(net, &who);
    const struct govern_scope scope = network_scope(&ask, network_mode(net));
    struct govern_request rq = question_of(&scope, r);
    struct policy_decision d;
    struct error err = {0};
    const char *never;
    int rc;

    govern_decide(g, &rq, &d);
    govern_record(g, &rq, &d);
    note_checks(net, &rq);
    never = rq.ask.host && !rq.ask.package
                ? egress_call_never(net->all->egress, rq.ask.host)
                : NULL;
    if (d.verdict == POLICY_ASK && never) {
        rc = error_set(&err, ERR_FORBIDDEN,
                       "never reachable, with or without approval: %s address",
                       never);
    } else if (d.verdict == POLICY_ASK) {
        rc = hold_question(net, &rq, &d, &err);
        /* The session's code sees this text; the proxy keeps little of it. */
        if (rc == -ERR_APPROVAL)
            (void)snprintf(err.message, sizeof(err.message),
                           "waits for approval: %s", err.approval);
    } else {
        rc = policy_refuse(&d, &err);
        if (rc < 0 && rq.ask.package && !govern_by_rule(&d))
            rc = error_set(&err, ERR_FORBIDDEN, "%s", d.reason);
    }
    egress_call_answer(net->all->egress, r->question, rc == 0,
                       rc == 0 ? "" : err.message);
}

static void network_answers_main(void *arg)
{
    struct net_worker *w = arg;
    struct networks *n = w->all;
    struct net_job *job;

    mutex_lock(&n->lock);
    while (!n->stopping) {
        job = job_take(w);
        if (!job) {
            cond_wait(&w->cond, &n->lock);
            continue;
        }
        mutex_unlock(&n->lock);
        answer_question(job->net, job->question);
        job_free(job);
        mutex_lock(&n->lock);
    }
    mutex_unlock(&n->lock);
}

/* ---- the thread "net-grants" -------------------------------------------- */

/* anew: also a grant that is in force. True: try again later. */
static bool check_grant(struct network *net, bool anew)
{
    struct error err;
    int rc = 0;

    mutex_lock(&net->lock);
    if (net->box && !box_is_broken(net->box) &&
        (anew || !net->handle || atomic_load(&net->proxy_lost)))
        rc = network_grant_more(net, &err);
    mutex_unlock(&net->lock);
    return rc == -ERR_UNAVAILABLE;
}

static bool check_all_grants(struct networks *n, bool anew)
{
    size_t count;
    struct network **list cleanup(mem_free) = network_list(n, false, &count);
    bool again = false;

    for (size_t i = 0; i < count; i++) {
        again |= check_grant(list[i], anew);
        network_unref(list[i]);
    }
    return again;
}

/* One round, without the lock; true: some of it must be tried again. */
static bool check_round(struct networks *n, struct net_job *job, bool again,
                        bool all)
{
    struct policy *policy = n->govern.policy;
    int64_t version = policy ? policy_current(policy) : 0;
    /* A new policy may be stricter: every grant is decided again. */
    bool anew = version != n->policy_version || all;

    n->policy_version = version;
    if (job) {
        again |= check_grant(job->net, true);
        job_free(job);
    }
    return anew || again ? check_all_grants(n, anew) : false;
}

static void network_grants_main(void *arg)
{
    struct net_worker *w = arg;
    struct networks *n = w->all;
    uint64_t pause = CHECK_MS;

    mutex_lock(&n->lock);
    while (!n->stopping) {
        struct net_job *job = job_take(w);
        bool again = n->again, all = n->all;

        n->again = n->all = false;
        mutex_unlock(&n->lock);
        again = check_round(n, job, again, all);
        mutex_lock(&n->lock);
        /* A grant that keeps failing is tried less and less often. */
        pause = !again ? CHECK_MS
                       : MIN(pause == CHECK_MS ? RETRY_MS : pause * 2,
                             RETRY_MAX_MS);
        if (!n->stopping && !w->first && !n->again)
            (void)cond_wait_until(&w->cond, &n->lock, clock_mono_ms() + pause);
        n->again |= again;
    }
    mutex_unlock(&n->lock);
}

/* ---- what the proxy and the vault call ---------------------------------- */

/* The proxy is gone, and every grant with it. */
static void on_proxy_lost(void *ctx)
{
    struct networks *n = ctx;

    mutex_lock(&n->lock);
    for (struct network *net = n->attached; net; net = net->older)
        if (net->handle)
            atomic_store(&net->proxy_lost, true);
    retry_soon(n);
    mutex_unlock(&n->lock);
}

static bool uses_secret(const struct network *net, const char *tenant,
                        const char *name)
{
    const struct network_spec *want = &net->want.net;

    if (strcmp(net->tenant, tenant) != 0)
        return false;
    for (size_t i = 0; i < want->destination_count; i++)
        if (want->destinations[i].secret &&
            strcmp(want->destinations[i].secret, name) == 0)
            return true;
    return false;
}

/* A secret was changed or removed. A network that uses it gets the new value,
 * or is lost, before the call that changed the secret returns. */
static void on_secret_changed(void *ctx, const char *tenant, const char *name)
{
    size_t count;
    struct network **list cleanup(mem_free) = network_list(ctx, true, &count);
    struct error ignored;

    for (size_t i = 0; i < count; i++) {
        struct network *net = list[i];

        mutex_lock(&net->lock);
        if (net->box && uses_secret(net, tenant, name))
            (void)network_grant(net, &ignored); /* network_show tells */
        mutex_unlock(&net->lock);
        network_unref(net);
    }
}

/* ---- opening and closing ------------------------------------------------ */

static int check_pools(const struct conf *conf, struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < conf->pool_count && rc == 0; i++) {
        struct network_info info cleanup(network_info_done) = {0};

        rc = network_pool_read(&conf->pools[i], &info, err);
        if (rc == 0 && info.net.mode == SESSION_EGRESS_OPEN)
            log_event(LOG_WARN, "pool_egress_open", "pool",
                      conf->pools[i].name, "means", SESSION_OPEN_MEANS, NULL);
    }
    return rc;
}

int networks_open(const struct networks_parts *parts, struct networks **ret,
                  struct error *err)
{
    struct networks *n = xcalloc(1, sizeof(*n));
    const struct core *core = parts->core;
    int rc;

    *ret = n;
    n->conf = parts->conf;
    n->core = core;
    n->govern =
        (struct govern){.policy = core->policy, .approvals = core->approvals};
    n->egress = parts->egress;
    n->answers.all = n->grants.all = n;
    mutex_init(&n->lock); /* cannot fail on Linux */
    cond_init(&n->answers.cond);
    cond_init(&n->grants.cond);
    if (core->policy)
        n->policy_version = policy_current(core->policy);
    rc = check_pools(n->conf, err);
    if (rc < 0 || !n->egress)
        return rc;
    egress_call_listen(n->egress, network_report, on_proxy_lost, n);
    vault_listen(core->vault, on_secret_changed, n);
    rc = thread_start(&n->answers.thread, "net-answers", network_answers_main,
                      &n->answers, err);
    return rc < 0 ? rc
                  : thread_start(&n->grants.thread, "net-grants",
                                 network_grants_main, &n->grants, err);
}

static void worker_join(struct net_worker *w)
{
    struct networks *n = w->all;
    struct net_job *job;

    thread_join(&w->thread);
    mutex_lock(&n->lock);
    job = take_ptr(w->first);
    w->last = NULL;
    w->count = 0;
    mutex_unlock(&n->lock);
    while (job) {
        struct net_job *next = job->next;

        job_free(job);
        job = next;
    }
}

void networks_stop(struct networks *n)
{
    if (!n)
        return;
    mutex_lock(&n->lock);
    n->stopping = true;
    cond_broadcast(&n->answers.cond);
    cond_broadcast(&n->grants.cond);
    mutex_unlock(&n->lock);
    worker_join(&n->answers);
    worker_join(&n->grants);
}

void networks_close(struct networks *n)
{
    if (!n)
        return;
    if (n->egress)
        egress_call_listen(n->egress, NULL, NULL, NULL);
    vault_listen(n->core->vault, NULL, NULL);
    mutex_done(&n->lock);
    cond_done(&n->answers.cond);
    cond_done(&n->grants.cond);
    free(n);
}
