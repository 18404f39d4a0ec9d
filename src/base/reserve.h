/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of this process's table of file descriptors that those who would
 * fill it leave free for everyone else.
 */
#ifndef GLOVEBOX_BASE_RESERVE_H
#define GLOVEBOX_BASE_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* Set once, at the start. At most half of the table counts. */
void reserve_set(uint64_t descriptors);
/* Is so much still free? fd: one that was just opened. The kernel gives the
 * lowest number there is, so all below it are taken. */
bool reserve_holds(int fd);

#endif
