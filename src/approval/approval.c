/* SPDX-License-Identifier: Apache-2.0 */
#include "approval/approval.h"
#include "base/error.h"
#include <stdlib.h>
void approval_info_done(struct approval_info *info)
{
    free(info->payload);
    info->payload = NULL;
}
const char *approval_state_name(enum approval_state state)
{
    (void)state;
    return "pending";
}
int approval_ask(struct approvals *a, const struct approval_spec *spec,
                 struct approval_info *ret, struct error *err)
{
    (void)a;
    (void)spec;
    (void)ret;
    return error_set(err, ERR_UNAVAILABLE, "nobody can be asked");
}
int approval_of(struct approvals *a, const struct actor *who,
                const char *object, struct approval_info *ret,
                struct error *err)
{
    (void)a;
    (void)who;
    (void)object;
    (void)ret;
    return error_set(err, ERR_NOT_FOUND, "no such approval");
}
int approvals_open(const struct approval_settings *settings,
                   struct store *store, struct audit *audit,
                   struct approvals **ret, struct error *err)
{
    (void)settings;
    (void)store;
    (void)audit;
    (void)err;
    *ret = NULL;
    return 0;
}
void approvals_close(struct approvals *a)
{
    (void)a;
}
void approvals_on_decided(struct approvals *a, approvals_fn *fn, void *ctx)
{
    (void)a;
    (void)fn;
    (void)ctx;
}
