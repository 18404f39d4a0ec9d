/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that outlived their request, for as long as their client may ask. */
#ifndef GLOVEBOX_STORE_SCHEMA_TASKS_H
#define GLOVEBOX_STORE_SCHEMA_TASKS_H

#define STORE_SCHEMA_TASKS                                                    \
    "CREATE TABLE tasks ("                                                    \
    "  id TEXT PRIMARY KEY,"                                                  \
    "  tenant TEXT NOT NULL,"                                                 \
    "  caller TEXT NOT NULL," /* the key or token that may ask */             \
    "  over INTEGER NOT NULL DEFAULT 0,"                                      \
    "  body TEXT NOT NULL DEFAULT ''," /* what it came to; '': unknown */     \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  updated_at_ms INTEGER NOT NULL"                                        \
    ") STRICT;"                                                               \
    "CREATE INDEX tasks_by_age ON tasks (created_at_ms);"                     \
    "CREATE INDEX tasks_by_tenant ON tasks (tenant, created_at_ms);"

#endif
