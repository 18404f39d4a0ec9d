/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/cli/pool*.c: what `glovebox pool` was told. */
#ifndef GLOVEBOX_CLI_POOL_H
#define GLOVEBOX_CLI_POOL_H

#include "cli/cli_int.h"

#define POOL_NOT_SAID UINT64_MAX

struct pool_flags {
    const char *name; /* or the word after the verb */
    const char *container_type, *network_status, *lifecycle_type;
    const char *runtime, *persistence;
    const char *egress, *egress_allow, *packages, *sharing;
    uint64_t max_sessions, cooldown_s, ready, memory_bytes;
    bool yes;
};

/* The body for the API, owned by caller; NULL after having complained. */
json_t *cli_pool_body(const struct cli *c, const struct pool_flags *flags);

#endif
