/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision in the trail and as an error. Runs in the daemon, on whatever
 * thread asked; queues, never waits.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "policy/manager_int.h"

/* What was asked for, without anything a guest or a client wrote but names. */
static void describe(const struct policy_request *rq,
                     const struct policy_decision *d, struct buf *ret)
{
    buf_addf(ret, "%s: rule '%s' of %s", policy_action_name(rq->action),
             d->rule, d->layer);
    if (d->reason[0])
        buf_addf(ret, " (%s)", d->reason);
    if (rq->host)
        buf_addf(ret, "; %.100s:%d", rq->host, rq->port);
    if (rq->package)
        buf_addf(ret, "; %.100s %.40s", rq->package,
                 rq->version ? rq->version : "");
    if (rq->secret)
        buf_addf(ret, "; secret %.64s", rq->secret);
}

void policy_record(struct policy *p, const struct policy_request *rq,
                   const struct policy_decision *d, const char *object,
                   bool always)
{
    static const char *const actions[] = {[POLICY_ALLOW] = "policy.allow",
                                          [POLICY_ASK] = "policy.ask",
                                          [POLICY_DENY] = "policy.deny"};
    struct buf detail cleanup(buf_done) = {0};
    char version[24];
    struct audit_event event = {.action = actions[d->verdict],
                                .object = object ? object : rq->session,
                                .path = rq->file,
                                .before = rq->session,
                                .after = version,
                                .result = d->verdict == POLICY_DENY
                                              ? error_code_name(ERR_FORBIDDEN)
                                              : NULL};
    bool plain = d->verdict == POLICY_ALLOW && strcmp(d->rule, "default") == 0;

    if (!p || !p->audit || (plain && !always))
        return;
    describe(rq, d, &detail);
    event.detail = detail.data;
    (void)snprintf(version, sizeof(version), "%lld", (long long)d->version);
    audit_later(p->audit, rq->who, &event);
}

int policy_refuse(const struct policy_decision *d, struct error *err)
{
    if (d->verdict == POLICY_ALLOW)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "policy does not allow this: rule '%s' of %s, version "
                    "%lld",
                    d->rule, d->layer, (long long)d->version);
    return error_hint(err, "%s", d->reason);
}
