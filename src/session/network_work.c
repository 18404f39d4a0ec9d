/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads beside the proxy's link. One answers its questions: policy is
 * asked with what the session is held to, and a person where policy wants
 * that; until one has said yes the answer is no, with the approval's id. The
 * other makes grants anew after a proxy was lost, when a policy has changed,
 * when a secret has, and takes them away when a quota is used up.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/call.h"
#include "session/network_int.h"
#include "vault/vault.h"
#include "json/json.h"

#define LOOK_MS 1000u
#define RETRY_MS 201u /* doubled from then on */
#define RETRY_MOST_MS 6432u

/* ---- queues ------------------------------------------------------------- */

static void job_free(struct net_job *job)
{
    session_unref(job->session);
    free(job->question);
    free(job);
}

/* False: there is no room, or nobody to do it. */
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
    pthread_mutex_lock(&n->lock);
    room = !n->stopping && w->count < NETWORK_QUESTIONS_MAX;
    if (room) {
        *(w->last ? &w->last->next : &w->first) = job;
        w->last = job;
        w->count++;
        pthread_cond_signal(&w->cond);
    }
    pthread_mutex_unlock(&n->lock);
    if (!room)
        job_free(job);
    return room;
}

/* networks.lock is held. */
static struct net_job *take_job(struct net_worker *w)
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

/* networks.lock is held. */
static void look_again(struct session_networks *n)
{
    n->again = true;
    pthread_cond_signal(&n->grants.cond);
}

void network_work_look(struct session *se)
{
    struct session_networks *n = se->m->networks;

    if (add_job(n, &n->grants, se, NULL))
        return;
    pthread_mutex_lock(&n->lock);
    n->all = true; /* then with all the others */
    look_again(n);
    pthread_mutex_unlock(&n->lock);
}

void network_work_retry(struct session_networks *n)
{
    pthread_mutex_lock(&n->lock);
    look_again(n);
    pthread_mutex_unlock(&n->lock);
}

/* ---- answers ------------------------------------------------------------ */

static struct policy_request question_of(const struct session *se,
                                         const struct actor *who,
                                         const struct egress_report *r)
{
    bool package = r->package[0] != '\0';

    return (struct policy_request){
        .action = package ? POLICY_PACKAGE : POLICY_CONNECT,
        .who = who,
        .session = se->id,
        .pool = se->pool->conf->name,
        .runtime = se->runtime->name,
        .code_bytes = -1,
        .timeout_s = -1,
        .output_bytes = -1,
        .file_bytes = -1,
        .network = session_egress_name(session_network_mode(se)),
        .host = r->host[0] ? r->host : NULL,
        .port = r->port,
        .method = r->method[0] ? r->method : NULL,
        .url_path = r->path[0] ? r->path : NULL,
        .package = package ? r->package : NULL,
        .version = package && r->version[0] ? r->version : NULL,
        .sha256 = package && r->sha256[0] ? r->sha256 : NULL,
    };
}

/* The same destination, or package, is the same question. */
static int need_approval(struct session *se, const struct policy_request *rq,
                         const struct policy_decision *d, struct error *err)
{
    struct buf payload cleanup(buf_done) = {0};
    struct json_writer w = {.out = &payload};
    char summary[480];
    struct approval_spec spec = {.who = rq->who,
                                 .action = rq->action,
                                 .session = se->id,
                                 .summary = summary,
                                 .by = d};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "session", se->id);
    if (rq->package) {
        json_write_string(&w, "package", rq->package);
        json_write_string(&w, "version", rq->version);
        json_write_string(&w, "sha256", rq->sha256);
        (void)snprintf(summary, sizeof(summary), "let %s install %s %s",
                       se->id, rq->package, rq->version ? rq->version : "");
    } else {
        json_write_string(&w, "host", rq->host);
        json_write_int(&w, "port", rq->port);
        (void)snprintf(summary, sizeof(summary), "let %s reach %s port %d",
                       se->id, rq->host ? rq->host : "?", rq->port);
    }
    json_write_close(&w, '}');
    spec.payload = payload.data;
    return approval_need(se->m->parts.approvals, &spec, err);
}

static void answer(struct session *se, const struct egress_report *r)
{
    struct actor who = session_actor(se);
    struct policy_request rq = question_of(se, &who, r);
    struct policy_decision d = {.verdict = POLICY_DENY};
    struct error err = {0};
    int rc;

    policy_decide(se->m->parts.policy, atomic_load(&se->policy_version), &rq,
                  &d);
    /* A package is code: one that no rule names is not installed. */
    if (rq.package && d.verdict == POLICY_ALLOW &&
        (!d.rule[0] || strcmp(d.rule, "default") == 0)) {
        d.verdict = POLICY_DENY;
        rc = error_set(&err, ERR_FORBIDDEN,
                       "no rule of the policy allows the package '%s'",
                       rq.package);
    } else if (d.verdict == POLICY_ASK) {
        rc = need_approval(se, &rq, &d, &err);
        /* Code is told this much of it, and no more fits. */
        if (rc == -ERR_APPROVAL)
            (void)snprintf(err.message, sizeof(err.message),
                           "somebody has to approve it first: %s",
                           err.approval);
    } else {
        rc = policy_refuse(&d, &err);
    }
    policy_record(se->m->parts.policy, &rq, &d, se->id, false);
    egress_call_answer(se->m->parts.egress, r->question, rc == 0,
                       rc == 0 ? "" : err.message);
}

static void *answers_thread(void *arg)
{
    struct net_worker *w = arg;
    struct session_networks *n = w->m->networks;
    struct net_job *job;

    pthread_mutex_lock(&n->lock);
    while (!n->stopping) {
        job = take_job(w);
        if (!job) {
            (void)pthread_cond_wait(&w->cond, &n->lock);
            continue;
        }
        pthread_mutex_unlock(&n->lock);
        answer(job->session, job->question);
        job_free(job);
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* ---- grants ------------------------------------------------------------- */

void network_report_lost(void *ctx)
{
    struct session_networks *n = ctx;

    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < NETWORK_BUCKETS; i++)
        for (struct session_net *net = n->buckets[i]; net; net = net->next)
            atomic_store(&net->void_, true);
    look_again(n);
    pthread_mutex_unlock(&n->lock);
}

/* Every session that is to have a network, or that has a grant; each
 * referenced; owned by caller. */
static struct session **wanting(struct sessions *m, size_t *ret_count)
{
    struct session **list;
    size_t count = 0;

    pthread_mutex_lock(&m->lock);
    list = xcalloc(m->table.count + 1, sizeof(struct session *));
    for (size_t i = 0; i < m->table.size; i++)
        for (struct idmap_node *node = m->table.buckets[i]; node;
             node = node->next) {
            struct session *se = container_of(node, struct session, node);

            if (atomic_load(&se->net->wanted))
                list[count++] = session_ref(se);
        }
    pthread_mutex_unlock(&m->lock);
    *ret_count = count;
    return list;
}

static struct session **granted(struct session_networks *n, size_t *ret_count)
{
    struct session **list = NULL;
    size_t count = 0;

    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < NETWORK_BUCKETS; i++)
        for (struct session_net *net = n->buckets[i]; net; net = net->next) {
            list = xrealloc(list, (count + 1) * sizeof(struct session *));
            list[count++] = session_ref(net->session);
        }
    pthread_mutex_unlock(&n->lock);
    *ret_count = count;
    return list;
}

/* anew: also one that is in force. True: it is to be tried again. */
static bool look_at(struct session *se, bool anew)
{
    struct session_net *net = se->net;
    struct error err;
    int rc = 0;

    pthread_mutex_lock(&net->lock);
    if (net->box && !atomic_load(&net->box->broken) &&
        (anew || !net->handle || atomic_load(&net->void_)))
        rc = network_grant_more(se, &err);
    pthread_mutex_unlock(&net->lock);
    return rc == -ERR_UNAVAILABLE;
}

static bool look_at_all(struct sessions *m, bool anew)
{
    size_t count;
    struct session **list cleanup(mem_free) = wanting(m, &count);
    bool again = false;

    for (size_t i = 0; i < count; i++) {
        again |= look_at(list[i], anew);
        session_unref(list[i]);
    }
    return again;
}

/* A policy may be stricter now: everything is decided again. */
static bool policy_changed(struct session_networks *n)
{
    int64_t now = n->m->parts.policy ? policy_current(n->m->parts.policy) : 0;
    bool changed = now != n->policy_version;

    n->policy_version = now;
    return changed;
}

/* What there is to do now, without the lock; true: some of it has to be done
 * again in a while. */
static bool work(struct session_networks *n, struct net_job *job, bool again,
                 bool all)
{
    bool anew = policy_changed(n) || all;

    if (job) {
        again |= look_at(job->session, true);
        job_free(job);
    }
    return anew || again ? look_at_all(n->m, anew) : false;
}

static void *grants_thread(void *arg)
{
    struct net_worker *w = arg;
    struct session_networks *n = w->m->networks;
    uint64_t pause = LOOK_MS;

    pthread_mutex_lock(&n->lock);
    while (!n->stopping) {
        struct net_job *job = take_job(w);
        bool again = n->again, all = n->all;

        n->again = n->all = false;
        pthread_mutex_unlock(&n->lock);
        again = work(n, job, again, all);
        pthread_mutex_lock(&n->lock);
        /* What cannot be had now is asked for less and less often. */
        pause = !again ? LOOK_MS
                       : MIN(pause == LOOK_MS ? RETRY_MS : pause * 2,
                             RETRY_MOST_MS);
        if (!n->stopping && !w->first && !n->again)
            (void)session_cond_wait(&w->cond, &n->lock,
                                    clock_mono_ms() + pause);
        n->again |= again;
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* A secret was changed or removed: who carries it gets the new one, or loses
 * its network; before the call that changed it returns. */
static bool carries(const struct session *se, const char *tenant,
                    const char *name)
{
    const struct session_network *net = &se->net->want.net;

    if (strcmp(se->tenant->name, tenant) != 0)
        return false;
    for (size_t i = 0; i < net->destination_count; i++)
        if (net->destinations[i].secret &&
            strcmp(net->destinations[i].secret, name) == 0)
            return true;
    return false;
}

static void secret_changed(void *ctx, const char *tenant, const char *name)
{
    size_t count;
    struct session **list cleanup(mem_free) = granted(ctx, &count);
    struct error ignored;

    for (size_t i = 0; i < count; i++) {
        struct session *se = list[i];

        pthread_mutex_lock(&se->net->lock);
        if (se->net->box && carries(se, tenant, name))
            (void)network_grant(se, &ignored); /* the session shows it */
        pthread_mutex_unlock(&se->net->lock);
        session_unref(se);
    }
}

/* ---- starting and stopping ---------------------------------------------- */

static int start(struct net_worker *w, void *(*thread)(void *),
                 struct error *err)
{
    int rc = pthread_create(&w->thread, NULL, thread, w);

    if (rc != 0)
        return error_errno(err, ERR_INTERNAL, rc, "cannot start a thread");
    w->started = true;
    return 0;
}

static int check_pools(const struct sessions *m, struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < m->pool_count && rc == 0; i++) {
        struct session_network_info info cleanup(session_network_info_done) = {
            0};

        rc = network_pool_read(m->pools[i].conf, &info, err);
        if (rc == 0 && info.net.mode == SESSION_EGRESS_OPEN)
            log_event(LOG_WARN, "pool_egress_open", "pool",
                      m->pools[i].conf->name, "means", SESSION_OPEN_MEANS,
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
    (void)pthread_mutex_init(&n->lock, NULL); /* cannot fail on Linux */
    session_cond_init(&n->answers.cond);
    session_cond_init(&n->grants.cond);
    if (m->parts.policy)
        n->policy_version = policy_current(m->parts.policy);
    rc = check_pools(m, err);
    if (rc < 0 || !m->parts.egress)
        return rc;
    egress_call_listen(m->parts.egress, network_report, network_report_lost,
                       n);
    vault_listen(m->parts.vault, secret_changed, n);
    rc = start(&n->answers, answers_thread, err);
    return rc < 0 ? rc : start(&n->grants, grants_thread, err);
}

static void stop(struct session_networks *n, struct net_worker *w)
{
    struct net_job *job;

    if (w->started)
        (void)pthread_join(w->thread, NULL); /* ours, joined once */
    w->started = false;
    pthread_mutex_lock(&n->lock);
    job = take_ptr(w->first);
    w->last = NULL;
    w->count = 0;
    pthread_mutex_unlock(&n->lock);
    while (job) {
        struct net_job *next = job->next;

        job_free(job);
        job = next;
    }
}

void session_networks_stop(struct sessions *m)
{
    struct session_networks *n = m->networks;

    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->stopping = true;
    pthread_cond_broadcast(&n->answers.cond);
    pthread_cond_broadcast(&n->grants.cond);
    pthread_mutex_unlock(&n->lock);
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
    (void)pthread_mutex_destroy(&n->lock);
    (void)pthread_cond_destroy(&n->answers.cond);
    (void)pthread_cond_destroy(&n->grants.cond);
    free(n);
}
