/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloveboxd's side of glovebox-egress: starts it, asks it, listens to it, and
 * starts it again when it dies. Any thread may call.
 */
#ifndef GLOVEBOX_EGRESS_CALL_H
#define GLOVEBOX_EGRESS_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/priv.h"
#include "wire/egress_msg.h"

struct egress_link;
struct error;

/* program: path of glovebox-egress. Starts it as `user` (NULL: as we are);
 * called before root is given up. A process that dies later is started again
 * by a small helper that kept the right to do that and nothing else; until
 * then, and while there is none, grants fail. */
int egress_call_open(const char *program, const struct priv_user *user,
                     const struct egress_setup *setup,
                     struct egress_link **ret, struct error *err);
void egress_call_close(struct egress_link *l); /* accepts NULL */
/* Set before the first grant. report runs on the link's thread and must not
 * wait; a QUESTION is answered by egress_call_answer, now or later, from any
 * thread. lost: the process died; every grant is void and must be made anew.
 * Call again with report NULL to stop: no callback runs, and grants fail. */
void egress_call_listen(struct egress_link *l,
                        void (*report)(void *ctx,
                                       const struct egress_report *r),
                        void (*lost)(void *ctx), void *ctx);
/* tcp, udp: borrowed; -1 when it has them already. rules: grant->rule_count.
 * ret_ca: "" when nothing is inspected. ERR_UNAVAILABLE: no network. */
int egress_call_grant(struct egress_link *l, const struct egress_grant *grant,
                      const struct egress_rule *rules, int tcp, int udp,
                      char ret_ca[EGRESS_CA_MAX], struct error *err);
int egress_call_revoke(struct egress_link *l, uint64_t handle,
                       struct error *err);
void egress_call_answer(struct egress_link *l, uint64_t question, bool allow,
                        const char *reason);
int egress_call_status(struct egress_link *l, struct egress_status *ret,
                       struct error *err);
bool egress_call_alive(struct egress_link *l); /* NULL: false */
/* egress_host_never() under the settings of this link; l may be NULL. */
const char *egress_call_never(const struct egress_link *l, const char *host);

#endif
