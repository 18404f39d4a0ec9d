/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel counts of a session, read through descriptors of its
 * control group's own files. The warden opens them and hands them to the
 * daemon with the reply to SPAWN, so that the end of an execution does not
 * wait for a warden that is busy making somebody's sandbox. They say nothing
 * once the group is gone (-ENODEV).
 */
#ifndef GLOVEBOX_WIRE_METERS_H
#define GLOVEBOX_WIRE_METERS_H

#include <stdbool.h>

struct warden_usage;

enum meter {
    METER_CPU,    /* v1: nanoseconds; v2: lines, "usage_usec N" among them */
    METER_PEAK,   /* bytes; written to, it starts anew */
    METER_OOM,    /* lines, "oom_kill N" among them */
    METER_DENIED, /* lines, "max N" among them */
    METER_PROCESSES,
    METERS
};

struct meters {
    int fds[METERS]; /* -1: not counted on this host */
};

#define METERS_NONE ((struct meters){{-1, -1, -1, -1, -1}})

/* Fills what is counted, leaves the rest. Negative errno; -ENODATA where
 * nothing is. */
int meters_read(const struct meters *m, bool reset_peak,
                struct warden_usage *ret);
void meters_close(struct meters *m); /* for cleanup() */
/* To send: those there are, one after another; *ret_mask has a bit each.
 * Returns how many. */
unsigned meters_pack(const struct meters *m, int ret_fds[METERS],
                     unsigned *ret_mask);
/* The reverse; false, and nothing is taken, when they do not fit the mask. */
bool meters_unpack(struct meters *ret, unsigned mask, const int *fds,
                   unsigned count);

#endif
