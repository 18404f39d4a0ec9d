/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-egress, the process that reaches the network for sessions; see
 * wire/egress_msg.h for its protocol. One thread, one loop.
 *
 * How the pieces work together: loop.c waits; serve.c answers gloveboxd;
 * grant.c holds what each session was granted and has used; conn.c is the
 * state machine of one connection of a session, whose steps are in request.c,
 * tunnel.c, inspect.c and packages.c; dial.c resolves, checks and connects to
 * the destination; peer.c moves bytes, with TLS or without; lookup.c answers
 * names; report.c reports to gloveboxd. host.c, rule.c and http.h are pure.
 */
#ifndef GLOVEBOX_EGRESS_SERVE_H
#define GLOVEBOX_EGRESS_SERVE_H

/* Both taken. Returns the exit status, once gloveboxd hung up or said
 * something malformed. */
int egress_serve_run(int ctl, int report);

#endif
