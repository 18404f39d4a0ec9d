/* SPDX-License-Identifier: Apache-2.0 */
/* Work that must be finished although the service stops in between. */
#ifndef GLOVEBOX_STORE_SCHEMA_CHORES_H
#define GLOVEBOX_STORE_SCHEMA_CHORES_H

/* "words": the index still has words of files that changed or went; due once
 * something was given up for good. */
#define STORE_SCHEMA_CHORES                                                   \
    "CREATE TABLE chores ("                                                   \
    "  name TEXT PRIMARY KEY,"                                                \
    "  due INTEGER NOT NULL DEFAULT 0"                                        \
    ") STRICT;"                                                               \
    "INSERT INTO chores (name) VALUES ('words');"                             \
    "CREATE TRIGGER words_of_gone AFTER DELETE ON documents BEGIN"            \
    "  INSERT INTO chores (name) VALUES ('words') ON CONFLICT DO NOTHING;"    \
    " END;"                                                                   \
    "CREATE TRIGGER words_of_changed AFTER UPDATE OF version ON documents"    \
    " BEGIN"                                                                  \
    "  INSERT INTO chores (name) VALUES ('words') ON CONFLICT DO NOTHING;"    \
    " END;"

#endif
