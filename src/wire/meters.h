/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a session: descriptors of files of its control group. The warden
 * opens them and passes them to the daemon with the reply to SPAWN, so that
 * the end of an execution does not wait while the warden creates another
 * sandbox. Reading fails when the group is gone (-ENODEV).
 */
#ifndef GLOVEBOX_WIRE_METERS_H
#define GLOVEBOX_WIRE_METERS_H

#include <stdbool.h>
#include <stdint.h>

struct warden_usage;

enum meter {
    METER_CPU,    /* v1: nanoseconds; v2: lines, "usage_usec N" among them */
    METER_PEAK,   /* bytes; written to, it starts anew */
    METER_OOM,    /* lines, "oom_kill N" among them */
    METER_DENIED, /* lines, "max N" among them */
    METER_PROCESSES,
    METER_MEMORY, /* bytes in use now */
    METERS
};

struct meters {
    int fds[METERS]; /* -1: not counted on this host */
};

#define METERS_NONE ((struct meters){{-1, -1, -1, -1, -1, -1}})

/* Fills what is counted and leaves the rest. Negative errno; -ENODATA when
 * nothing is counted. */
int meters_read(const struct meters *m, bool reset_peak,
                struct warden_usage *ret);
/* Bytes of memory in use now; not part of meters_read, because the end of an
 * execution does not need it. As meters_read. */
int meters_read_memory(const struct meters *m, uint64_t *ret);
void meters_close(struct meters *m); /* for cleanup() */
/* For sending: the open descriptors in a row; *ret_mask has a bit for each.
 * Returns how many. */
unsigned meters_pack(const struct meters *m, int ret_fds[METERS],
                     unsigned *ret_mask);
/* The reverse; false, and nothing is taken, when they do not fit the mask. */
bool meters_unpack(struct meters *ret, unsigned mask, const int *fds,
                   unsigned count);

#endif
