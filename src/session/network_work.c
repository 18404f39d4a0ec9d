/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two threads beside the proxy's link have to do, and their beginning and
 * end: network_answers.c answers its questions, network_renew.c  makes grants
 * anew. Any thread of gloveboxd may leave them something; neither the proxy
 * nor whoever changes something waits for it.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "egress/call.h"
#include "session/network_int.h"
#include "vault/vault.h"

/* ---- queues ------------------------------------------------------------- */

void network_work_free(struct net_job *job)
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
