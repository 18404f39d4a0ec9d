/* SPDX-License-Identifier: Apache-2.0 */
/* Who in a tenant sees a session, see session/sharing.c: 1 is its owner alone,
 * 2 the whole tenant. Sessions from before there was a choice stay the whole
 * tenant's. An identifier is unique among the sessions a tenant shares, and
 * among the private ones of each owner. */
#ifndef GLOVEBOX_STORE_SCHEMA_SHARING_H
#define GLOVEBOX_STORE_SCHEMA_SHARING_H

#define STORE_SCHEMA_SHARING                                                   \
    "ALTER TABLE sessions ADD COLUMN sharing INTEGER NOT NULL DEFAULT 2;"      \
    "DROP INDEX sessions_by_identifier;"                                       \
    "CREATE UNIQUE INDEX sessions_by_identifier ON sessions"                   \
    "  (tenant, pool, identifier, CASE sharing WHEN 2 THEN '' ELSE owner END)" \
    "  WHERE identifier <> '';"                                                \
    "ALTER TABLE pools ADD COLUMN sharing TEXT NOT NULL DEFAULT '';"

#endif
