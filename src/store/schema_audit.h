/* SPDX-License-Identifier: Apache-2.0 */
/* The trail, later: the token that was shown, where it was not the key
 * itself. Rows from before have none. */
#ifndef GLOVEBOX_STORE_SCHEMA_AUDIT_H
#define GLOVEBOX_STORE_SCHEMA_AUDIT_H

#define STORE_SCHEMA_AUDIT                                                    \
    "ALTER TABLE audit ADD COLUMN token TEXT NOT NULL DEFAULT '';"            \
    "CREATE INDEX audit_by_token ON audit (token, seq) WHERE token <> '';"

#endif
