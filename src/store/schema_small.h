/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of small files, from the commit that refers to them until they are
 * surely on disk elsewhere; see workspace/small.c. */
#ifndef GLOVEBOX_STORE_SCHEMA_SMALL_H
#define GLOVEBOX_STORE_SCHEMA_SMALL_H

#define STORE_SCHEMA_SMALL                                                    \
    "CREATE TABLE small_blobs ("                                              \
    "  slot INTEGER PRIMARY KEY," /* used again and again */                  \
    "  records BLOB NOT NULL"     /* as blobs_write gave them */              \
    ") STRICT;"

#endif
