/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema, as the steps that lead to it; see store_int.h. Used by the
 * SQLite engine when the daemon opens the store.
 */
#include "base/mem.h"
#include "store/store_int.h"

const char *const store_migrations[] = {
    "CREATE TABLE keys ("
    "  id TEXT PRIMARY KEY,"
    "  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),"
    "  tenant TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  scopes INTEGER NOT NULL,"
    "  created_at_ms INTEGER NOT NULL,"
    "  revoked_at_ms INTEGER NOT NULL DEFAULT 0,"
    "  last_used_at_ms INTEGER NOT NULL DEFAULT 0"
    ") STRICT;"
    "CREATE INDEX keys_by_age ON keys (created_at_ms);",
};

const int store_migrations_count = ARRAY_SIZE(store_migrations);
