/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands each call on to the engine; see store.h. Runs in the daemon only.
 */
#include "store/store.h"

#include "store/store_int.h"

int store_open(const char *data_dir, struct store **ret, struct error *err)
{
    return store_sqlite_open(data_dir, ret, err);
}

void store_close(struct store *s)
{
    if (s)
        s->ops->close(s);
}

int store_key_put(struct store *s, const struct store_key *key,
                  struct error *err)
{
    return s->ops->key_put(s, key, err);
}

int store_key_list(struct store *s, struct store_key **ret_keys,
                   size_t *ret_count, struct error *err)
{
    return s->ops->key_list(s, ret_keys, ret_count, err);
}

int store_key_revoke(struct store *s, const char *id, int64_t at_ms,
                     struct error *err)
{
    return s->ops->key_revoke(s, id, at_ms, err);
}

int store_key_touch(struct store *s, const struct store_touch *rows,
                    size_t count, struct error *err)
{
    return s->ops->key_touch(s, rows, count, err);
}
