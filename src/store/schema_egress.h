/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets the proxy adds, sealed; and what a session may reach (JSON). */
#ifndef GLOVEBOX_STORE_SCHEMA_EGRESS_H
#define GLOVEBOX_STORE_SCHEMA_EGRESS_H

#define STORE_SCHEMA_EGRESS                                                   \
    "CREATE TABLE secrets ("                                                  \
    "  tenant TEXT NOT NULL,"                                                 \
    "  name TEXT NOT NULL,"                                                   \
    "  header TEXT NOT NULL,"                                                 \
    "  prefix TEXT NOT NULL,"                                                 \
    "  destinations TEXT NOT NULL,"                                           \
    "  sealed BLOB NOT NULL,"                                                 \
    "  made_by TEXT NOT NULL,"                                                \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  updated_at_ms INTEGER NOT NULL,"                                       \
    "  used_at_ms INTEGER NOT NULL DEFAULT 0,"                                \
    "  PRIMARY KEY (tenant, name)"                                            \
    ") STRICT;"                                                               \
    "ALTER TABLE sessions ADD COLUMN network TEXT NOT NULL DEFAULT '';"       \
    "ALTER TABLE pools ADD COLUMN egress TEXT NOT NULL DEFAULT 'none';"       \
    "ALTER TABLE pools ADD COLUMN egress_allow TEXT NOT NULL DEFAULT '';"     \
    "ALTER TABLE pools ADD COLUMN packages INTEGER NOT NULL DEFAULT 0;"

#endif
