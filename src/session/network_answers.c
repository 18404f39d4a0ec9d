/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy asks is answered here, on a thread of its own: policy is
 * asked with what the session is held to, and a person where policy wants
 * that; until one has said yes the answer is no, with the approval's id.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "egress/call.h"
#include "session/network_int.h"
#include "json/json.h"

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

void *network_answers_thread(void *arg)
{
    struct net_worker *w = arg;
    struct session_networks *n = w->m->networks;
    struct net_job *job;

    pthread_mutex_lock(&n->lock);
    while (!n->stopping) {
        job = network_work_take(w);
        if (!job) {
            (void)pthread_cond_wait(&w->cond, &n->lock);
            continue;
        }
        pthread_mutex_unlock(&n->lock);
        answer(job->session, job->question);
        network_work_free(job);
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}
