/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many sessions fit into the daemon's table of file descriptors. The same
 * sum is made when the service starts and by `glovebox doctor`.
 */
#ifndef GLOVEBOX_CONF_DESCRIPTORS_H
#define GLOVEBOX_CONF_DESCRIPTORS_H

#include <stdint.h>

struct conf;

/* How many of a table of so many are kept for everything but sessions. */
uint64_t conf_descriptors_reserve(const struct conf *c, uint64_t limit);
/* How many sessions fit into the rest, beside those kept ready. */
uint64_t conf_descriptors_sessions(const struct conf *c, uint64_t limit);
/* A table in which all that the configuration allows has room. */
uint64_t conf_descriptors_needed(const struct conf *c);

#endif
