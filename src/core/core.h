/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct core: the modules that all modules above them share. The daemon fills
 * it once at start and passes it down, so that no module fetches one through
 * another.
 */
#ifndef GLOVEBOX_CORE_CORE_H
#define GLOVEBOX_CORE_CORE_H

#include <stdbool.h>

struct approvals;
struct audit;
struct blobs;
struct conf;
struct error;
struct evidence;
struct feed;
struct nodes;
struct policy;
struct quotas;
struct store;
struct vault;

/* Constant once core_open returned, until core_close. Unit tests fill the
 * members they need; the others are NULL. */
struct core {
    struct store *store;
    struct audit *audit;
    struct blobs *blobs;
    struct policy *policy;
    struct quotas *quotas;
    struct approvals *approvals;
    struct evidence *evidence;
    struct vault *vault;
    struct nodes *nodes; /* NULL: this is the only node */
    struct feed *feed;   /* what happens, for live events */
    bool four_eyes;      /* changes need a second principal */
};

/* Opens policy, quotas, approvals, evidence, the senders of audit events and
 * the vault. The caller has opened store, audit and blobs, because the data
 * directory is checked in between. On failure: core_close. */
int core_open(struct core *core, const struct conf *conf, struct error *err);
/* Closes what core_open opened; accepts a core that is partly open. */
void core_close(struct core *core);

#endif
