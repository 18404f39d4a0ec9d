/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of small files, from the commit that refers to them until they are
 * surely on disk elsewhere; see workspace/small.c. And what waits for the
 * indexer in order of time: a new file is at the end of that, and not anywhere
 * in it. */
#ifndef GLOVEBOX_STORE_SCHEMA_SMALL_H
#define GLOVEBOX_STORE_SCHEMA_SMALL_H

#define STORE_SCHEMA_SMALL                                                    \
    "CREATE TABLE small_blobs ("                                              \
    "  slot INTEGER PRIMARY KEY," /* used again and again */                  \
    "  records BLOB NOT NULL"     /* as blobs_write gave them */              \
    ") STRICT;"                                                               \
    "DROP INDEX files_unindexed;"                                             \
    "CREATE INDEX files_unindexed ON files (modified_at_ms, id)"              \
    "  WHERE indexed = 0;"

#endif
