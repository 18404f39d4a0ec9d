/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keys are bound to, and tokens: keys that end by themselves. parent is
 * what a token was minted from, root the key, or the issuer's subject, it
 * stands for; both are empty for a key.
 */
#ifndef GLOVEBOX_STORE_SCHEMA_IDENTITY_H
#define GLOVEBOX_STORE_SCHEMA_IDENTITY_H

#define STORE_SCHEMA_IDENTITY                                                 \
    "ALTER TABLE keys ADD COLUMN pools TEXT NOT NULL DEFAULT '';"             \
    "ALTER TABLE keys ADD COLUMN workspaces TEXT NOT NULL DEFAULT '';"        \
    "ALTER TABLE keys ADD COLUMN sessions TEXT NOT NULL DEFAULT '';"          \
    "ALTER TABLE keys ADD COLUMN parent TEXT NOT NULL DEFAULT '';"            \
    "ALTER TABLE keys ADD COLUMN root TEXT NOT NULL DEFAULT '';"              \
    "ALTER TABLE keys ADD COLUMN expires_at_ms INTEGER NOT NULL DEFAULT 0;"   \
    "CREATE INDEX keys_by_parent ON keys (parent) WHERE parent <> '';"        \
    "CREATE INDEX keys_ending ON keys (expires_at_ms)"                        \
    "  WHERE expires_at_ms > 0;"

#endif
