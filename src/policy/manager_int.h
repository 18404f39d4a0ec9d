/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/policy/: what is in force. */
#ifndef GLOVEBOX_POLICY_MANAGER_INT_H
#define GLOVEBOX_POLICY_MANAGER_INT_H

#include "base/thread.h"
#include "policy/versions_int.h"

/* Old versions that sessions are held to, ready compiled. */
#define POLICY_KEPT 16

struct policy_kept {
    struct policy_rules *rules; /* NULL: free */
    uint64_t used;              /* the least is given up */
};

struct policy {
    struct store *store;   /* borrowed */
    struct audit *audit;   /* borrowed */
    char *file;            /* owned; "" none */
    struct mutex changing; /* one put or reload at a time */

    struct mutex lock; /* the rest; a leaf, held for pointers only */
    bool loaded;       /* false: everything is denied */
    struct policy_rules *current; /* NULL and loaded: none was ever put */
    struct policy_kept kept[POLICY_KEPT];
    uint64_t clock;
    char problem[320];
};

#endif
