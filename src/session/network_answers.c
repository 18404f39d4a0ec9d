/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy asks is answered here, on a thread of its own: policy is
 * asked with what the session is held to, and a person where policy wants
 * that; until one has said yes the answer is no, with the approval's id.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "egress/call.h"
#include "session/network_int.h"

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
