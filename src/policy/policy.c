/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"
#include <string.h>
void policy_decide(struct policy *p, int64_t pinned,
                   const struct policy_request *rq,
                   struct policy_decision *ret)
{
    (void)p;
    (void)pinned;
    (void)rq;
    memset(ret, 0, sizeof(*ret));
}
void policy_record(struct policy *p, const struct policy_request *rq,
                   const struct policy_decision *d, const char *object,
                   bool always)
{
    (void)p;
    (void)rq;
    (void)d;
    (void)object;
    (void)always;
}
int policy_open(const struct policy_settings *settings, struct store *store,
                struct audit *audit, struct policy **ret, struct error *err)
{
    (void)settings;
    (void)store;
    (void)audit;
    (void)err;
    *ret = NULL;
    return 0;
}
void policy_close(struct policy *p)
{
    (void)p;
}
