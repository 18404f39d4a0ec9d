/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for a person. */
#ifndef GLOVEBOX_STORE_SCHEMA_APPROVAL_H
#define GLOVEBOX_STORE_SCHEMA_APPROVAL_H

#define STORE_SCHEMA_APPROVAL                                                 \
    "CREATE TABLE approvals ("                                                \
    "  id TEXT PRIMARY KEY,"                                                  \
    "  tenant TEXT NOT NULL,"                                                 \
    "  action INTEGER NOT NULL," /* enum policy_action */                     \
    "  state INTEGER NOT NULL,"  /* enum approval_state */                    \
    "  asked_by TEXT NOT NULL,"                                               \
    "  session TEXT NOT NULL DEFAULT '',"                                     \
    "  object TEXT NOT NULL DEFAULT '',"                                      \
    "  summary TEXT NOT NULL,"                                                \
    "  payload TEXT NOT NULL,"                                                \
    "  fingerprint TEXT NOT NULL," /* of tenant, asker, action, payload */    \
    "  rule TEXT NOT NULL,"                                                   \
    "  policy_version INTEGER NOT NULL,"                                      \
    "  asked_at_ms INTEGER NOT NULL,"                                         \
    "  expires_at_ms INTEGER NOT NULL,"                                       \
    "  decided_at_ms INTEGER NOT NULL DEFAULT 0,"                             \
    "  decided_by TEXT NOT NULL DEFAULT '',"                                  \
    "  reason TEXT NOT NULL DEFAULT '',"                                      \
    "  carried_out INTEGER NOT NULL DEFAULT 0"                                \
    ") STRICT;"                                                               \
    "CREATE INDEX approvals_by_tenant ON approvals (tenant, asked_at_ms);"    \
    "CREATE INDEX approvals_by_object ON approvals (object);"                 \
    "CREATE INDEX approvals_open ON approvals (expires_at_ms)"                \
    "  WHERE state = 0;"

#endif
