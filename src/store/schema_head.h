/* SPDX-License-Identifier: Apache-2.0 */
/* Which store this is; and whether the trail's end is kept in a file beside
 * the database, which must be there from then on (audit/head.c). */
#ifndef GLOVEBOX_STORE_SCHEMA_HEAD_H
#define GLOVEBOX_STORE_SCHEMA_HEAD_H

#define STORE_SCHEMA_HEAD                                                     \
    "CREATE TABLE store_identity ("                                           \
    "  one INTEGER PRIMARY KEY CHECK (one = 1),"                              \
    "  id TEXT NOT NULL"                                                      \
    ") STRICT;"                                                               \
    "ALTER TABLE audit_head ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;"

#endif
