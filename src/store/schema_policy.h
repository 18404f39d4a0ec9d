/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of the policy, and which of them a session is held to. */
#ifndef GLOVEBOX_STORE_SCHEMA_POLICY_H
#define GLOVEBOX_STORE_SCHEMA_POLICY_H

#define STORE_SCHEMA_POLICY                                                   \
    "CREATE TABLE policies ("                                                 \
    "  number INTEGER PRIMARY KEY AUTOINCREMENT,"                             \
    "  at_ms INTEGER NOT NULL,"                                               \
    "  made_by TEXT NOT NULL,"                                                \
    "  sha256 TEXT NOT NULL,"                                                 \
    "  note TEXT NOT NULL DEFAULT '',"                                        \
    "  body TEXT NOT NULL"                                                    \
    ") STRICT;"                                                               \
    "ALTER TABLE sessions ADD COLUMN policy_version INTEGER NOT NULL"         \
    "  DEFAULT 0;"

#endif
