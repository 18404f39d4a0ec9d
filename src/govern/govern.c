/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decide, record, refuse or hold; see govern.h. Runs in gloveboxd on the
 * caller's thread.
 */
#include "govern/govern.h"

#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/mime.h"
#include "json/json.h"

bool govern_idle(const struct govern *g)
{
    return policy_idle(g->policy);
}

bool govern_by_rule(const struct policy_decision *d)
{
    return d->rule[0] && strcmp(d->rule, "default") != 0;
}

static bool is_about_file(const struct policy_request *ask)
{
    return ask->file &&
           (ask->action == POLICY_FILE_IN || ask->action == POLICY_FILE_OUT ||
            ask->action == POLICY_SHARE);
}

/* A client may call any file text/plain; its name may tell otherwise. */
static void decide_file(const struct govern *g,
                        const struct govern_request *rq,
                        struct policy_decision *ret)
{
    struct policy_request ask = rq->ask;
    const char *by_name = mime_of_path(ask.file);
    struct policy_decision other;

    if (!ask.mime || !ask.mime[0])
        ask.mime = by_name;
    policy_decide(g->policy, rq->pinned, &ask, ret);
    if (strcmp(by_name, MIME_UNKNOWN) == 0 || strcmp(by_name, ask.mime) == 0)
        return;
    ask.mime = by_name;
    policy_decide(g->policy, rq->pinned, &ask, &other);
    if (other.verdict > ret->verdict)
        *ret = other;
}

void govern_decide(const struct govern *g, const struct govern_request *rq,
                   struct policy_decision *ret)
{
    *ret = (struct policy_decision){.verdict = POLICY_DENY};
    if (is_about_file(&rq->ask)) {
        decide_file(g, rq, ret);
        return;
    }
    policy_decide(g->policy, rq->pinned, &rq->ask, ret);
    /* A package is code: the default that allows the rest does not do. */
    if (rq->ask.action == POLICY_PACKAGE && ret->verdict == POLICY_ALLOW &&
        !govern_by_rule(ret)) {
        ret->verdict = POLICY_DENY;
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "no rule of the policy allows the package '%.100s'",
                       rq->ask.package);
    }
}

size_t govern_checks(const struct govern *g, const struct govern_request *rq,
                     struct policy_check ret[POLICY_CHECKS_OF])
{
    return policy_checks(g->policy, rq->pinned, &rq->ask, ret);
}

void govern_record(const struct govern *g, const struct govern_request *rq,
                   const struct policy_decision *d)
{
    policy_record(g->policy, &rq->ask, d, rq->object, false);
}

static struct approval_spec spec_of(const struct govern_request *rq,
                                    const struct policy_decision *d,
                                    const char *payload)
{
    return (struct approval_spec){.who = rq->ask.who,
                                  .action = rq->ask.action,
                                  .session = rq->ask.session,
                                  .pool = rq->ask.pool,
                                  .workspace = rq->workspace,
                                  .object = rq->object,
                                  .summary = rq->summary,
                                  .payload = payload,
                                  .by = d};
}

static void write_details(const struct govern_request *rq, struct buf *ret)
{
    struct json_writer w = {.out = ret};

    json_write_open(&w, NULL, '{');
    for (size_t i = 0; i < rq->detail_count; i++) {
        const struct govern_detail *d = &rq->details[i];

        if (d->json)
            json_write_raw(&w, d->name, d->text, strlen(d->text));
        else
            json_write_string(&w, d->name, d->text);
    }
    json_write_close(&w, '}');
}

int govern_hold(const struct govern *g, const struct govern_request *rq,
                const struct policy_decision *d, struct error *err)
{
    struct buf payload cleanup(buf_done) = {0};
    struct approval_spec spec;

    write_details(rq, &payload);
    spec = spec_of(rq, d, payload.data);
    return approval_need(g->approvals, &spec, err);
}

int govern_hold_payload(const struct govern *g,
                        const struct govern_request *rq,
                        const struct policy_decision *d, const char *payload,
                        struct approval_info *ret, struct error *err)
{
    const struct approval_spec spec = spec_of(rq, d, payload);

    return approval_ask(g->approvals, &spec, ret, err);
}

int govern_four_eyes(const struct govern *g, const struct govern_request *rq,
                     struct error *err)
{
    const struct policy_decision d = {.verdict = POLICY_ASK,
                                      .rule = "four-eyes",
                                      .layer = "configuration",
                                      .version = policy_current(g->policy)};

    return govern_hold(g, rq, &d, err);
}

int govern_apply(const struct govern *g, const struct govern_request *rq,
                 const struct policy_decision *d, struct error *err)
{
    govern_record(g, rq, d);
    if (d->verdict == POLICY_ASK)
        return govern_hold(g, rq, d, err);
    return policy_refuse(d, err);
}

int govern_enforce(const struct govern *g, const struct govern_request *rq,
                   struct error *err)
{
    struct policy_decision d;

    govern_decide(g, rq, &d);
    return govern_apply(g, rq, &d, err);
}
