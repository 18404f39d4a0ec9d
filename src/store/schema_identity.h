/* SPDX-License-Identifier: Apache-2.0 */
/* What keys are bound to, and tokens: keys that end by themselves. */
#ifndef GLOVEBOX_STORE_SCHEMA_IDENTITY_H
#define GLOVEBOX_STORE_SCHEMA_IDENTITY_H

#define STORE_SCHEMA_IDENTITY                                                 \
    "ALTER TABLE keys ADD COLUMN pools TEXT NOT NULL DEFAULT '';"             \
    "ALTER TABLE keys ADD COLUMN workspaces TEXT NOT NULL DEFAULT '';"        \
    "ALTER TABLE keys ADD COLUMN sessions TEXT NOT NULL DEFAULT '';"          \
    "ALTER TABLE keys ADD COLUMN parent TEXT NOT NULL DEFAULT '';"            \
    "ALTER TABLE keys ADD COLUMN expires_at_ms INTEGER NOT NULL DEFAULT 0;"

#endif
