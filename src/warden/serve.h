/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The privileged side. One process, one thread, no parser: it reads
 * fixed-size messages from the daemon, checks every field again as if the
 * daemon had been taken over (policy.c), and acts on descriptors it opened
 * itself.
 */
#ifndef GLOVEBOX_WARDEN_SERVE_H
#define GLOVEBOX_WARDEN_SERVE_H

/* Serves the daemon at the other end of sock until it goes away, then ends
 * every session and cleans up. mounts (borrowed): the mount namespace the
 * daemon's folders are in, -1 when it is ours. Returns the exit status of
 * the process. */
int warden_serve_run(int sock, int mounts);

/* Prints one line per wall and host setting, tab-separated: name, state (ok,
 * warn, missing), required (yes, no), why, what to do. Returns 1 when a
 * required one is missing. */
int warden_doctor_print(void);

#endif
