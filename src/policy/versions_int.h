/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/policy/: what of it needs the store. */
#ifndef GLOVEBOX_POLICY_VERSIONS_INT_H
#define GLOVEBOX_POLICY_VERSIONS_INT_H

#include "policy/policy_int.h"

struct audit;
struct store;

/* number 0: the newest. */
int policy_versions_get(struct store *store, int64_t number,
                        struct policy_version *ret, struct error *err);
/* text, by and note are given; the rest is filled. Its event is part of it.
 * before: the number that was in force. */
int policy_versions_add(struct store *store, struct audit *audit,
                        const struct actor *who, int64_t before,
                        struct policy_version *v, struct error *err);
int policy_versions_list(struct store *store, unsigned limit, int64_t before,
                         struct policy_version **ret, size_t *ret_count,
                         bool *ret_more, struct error *err);

#endif
