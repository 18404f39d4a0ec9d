/* SPDX-License-Identifier: Apache-2.0 */
/* Until approvals are there: nobody can be asked, so the answer is no. */
#include "approval/approval.h"
#include "base/error.h"

__attribute__((weak)) int approval_need(struct approvals *a,
                                        const struct approval_spec *spec,
                                        struct error *err)
{
    (void)a;
    (void)spec;
    return error_set(err, ERR_UNAVAILABLE, "nobody can be asked");
}
