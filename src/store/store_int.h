/* SPDX-License-Identifier: Apache-2.0 */
/* What the engines of store/ fill in; nobody else includes this. */
#ifndef GLOVEBOX_STORE_STORE_INT_H
#define GLOVEBOX_STORE_STORE_INT_H

#include "store/store.h"

/* One function per call of store.h, with the same contract. */
struct store_ops {
    void (*close)(struct store *s);
    int (*key_put)(struct store *s, const struct store_key *key,
                   struct error *err);
    int (*key_list)(struct store *s, struct store_key **ret_keys,
                    size_t *ret_count, struct error *err);
    int (*key_revoke)(struct store *s, const char *id, int64_t at_ms,
                      struct error *err);
    int (*key_touch)(struct store *s, const struct store_touch *rows,
                     size_t count, struct error *err);
};

/* The first member of every engine's own struct. */
struct store {
    const struct store_ops *ops;
};

int store_sqlite_open(const char *data_dir, struct store **ret,
                      struct error *err);

/* Migration n brings the schema from version n to n + 1. Each is run once, in
 * a transaction of its own; a published one is never changed. */
extern const char *const store_migrations[];
extern const int store_migrations_count;

#endif
