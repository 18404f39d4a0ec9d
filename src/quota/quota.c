/* SPDX-License-Identifier: Apache-2.0 */
#include "quota/quota.h"
int quota_take(struct quotas *q, const char *tenant, enum quota_kind kind,
               uint64_t amount, struct error *err)
{
    (void)q;
    (void)tenant;
    (void)kind;
    (void)amount;
    (void)err;
    return 0;
}
int quota_check(struct quotas *q, const char *tenant, enum quota_kind kind,
                struct error *err)
{
    (void)q;
    (void)tenant;
    (void)kind;
    (void)err;
    return 0;
}
void quota_spend(struct quotas *q, const char *tenant, enum quota_kind kind,
                 uint64_t amount)
{
    (void)q;
    (void)tenant;
    (void)kind;
    (void)amount;
}
int quota_loop_check(struct quotas *q, const char *tenant, const char *session,
                     const unsigned char code[32], uint32_t *ret,
                     struct error *err)
{
    (void)q;
    (void)tenant;
    (void)session;
    (void)code;
    (void)ret;
    (void)err;
    return 0;
}
void quota_loop_note(struct quotas *q, const char *tenant, const char *session,
                     const unsigned char code[32], bool failed)
{
    (void)q;
    (void)tenant;
    (void)session;
    (void)code;
    (void)failed;
}
int quotas_open(const struct quota_limits *defaults, struct store *store,
                struct audit *audit, struct quotas **ret, struct error *err)
{
    (void)defaults;
    (void)store;
    (void)audit;
    (void)err;
    *ret = 0;
    return 0;
}
void quotas_close(struct quotas *q)
{
    (void)q;
}
