/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-egress, the process that talks to the world for sessions; see
 * wire/egress_msg.h for what it is told and tells. One thread, one loop.
 *
 * How the pieces work together: loop.c waits; serve.c answers gloveboxd;
 * grant.c holds what each session was granted and has used; conn.c is one
 * connection of a session, a machine of states that request.c, tunnel.c,
 * inspect.c and packages.c take steps of; dial.c finds, judges and reaches
 * the destination; peer.c moves bytes, with TLS or without; lookup.c answers
 * names; report.c tells gloveboxd. host.c, rule.c and http.h decide, purely.
 */
#ifndef GLOVEBOX_EGRESS_SERVE_H
#define GLOVEBOX_EGRESS_SERVE_H

/* Both taken. Returns the exit status, once gloveboxd hung up or said
 * something malformed. */
int egress_serve_run(int ctl, int report);
/* The helper that starts the former again: waits for socket pairs on
 * `control` and starts `program` on each. */
int egress_supervise_run(int control, int program);

#endif
