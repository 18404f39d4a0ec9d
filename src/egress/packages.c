/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_int.h"
void egress_packages_serve(struct conn *c)
{
    egress_conn_refuse(c, 501, "there is no package index here");
}
bool egress_packages_step(struct conn *c)
{
    (void)c;
    return false;
}
bool egress_packages_answer(struct conn *c, const struct egress_answer *a)
{
    (void)c;
    (void)a;
    return false;
}
void egress_packages_free(struct package_job *job)
{
    (void)job;
}
