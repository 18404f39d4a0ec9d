/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: checks at the start whether code may run at all. Runs in gloveboxd
 * once sessions are open.
 */
#include "base/log.h"
#include "service/service_int.h"

void service_gate(struct service *s)
{
    const struct posture_row *closed;
    struct posture_row rows[POSTURE_ROWS];

    s->posture = (struct posture){.conf = s->conf,
                                  .warden = s->warden,
                                  .accepted_walls = s->accepted,
                                  .auth = s->auth,
                                  .audit = s->core.audit,
                                  .policy = s->core.policy};
    posture_look(&s->posture, rows);
    for (size_t i = 0; i < POSTURE_ROWS; i++)
        if (rows[i].state != POSTURE_OK)
            log_event(LOG_WARN, "gate", "check", rows[i].name, "state",
                      posture_state_name(rows[i].state), "why", rows[i].why,
                      NULL);
    closed = posture_barred(rows);
    sessions_gate(s->sessions, closed ? closed->name : NULL,
                  closed ? closed->why : "");
}
