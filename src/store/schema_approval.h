/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for a person, and who is told of it. */
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
    "  pool TEXT NOT NULL DEFAULT '',"                                        \
    "  workspace TEXT NOT NULL DEFAULT '',"                                   \
    "  summary TEXT NOT NULL,"                                                \
    "  payload TEXT NOT NULL,"     /* '' once it need not be kept */          \
    "  fingerprint TEXT NOT NULL," /* of tenant, asker, action, payload */    \
    "  rule TEXT NOT NULL,"                                                   \
    "  policy_version INTEGER NOT NULL,"                                      \
    "  asked_at_ms INTEGER NOT NULL,"                                         \
    "  expires_at_ms INTEGER NOT NULL," /* of a grant: its end */             \
    "  decided_at_ms INTEGER NOT NULL DEFAULT 0,"                             \
    "  decided_by TEXT NOT NULL DEFAULT '',"                                  \
    "  reason TEXT NOT NULL DEFAULT '',"                                      \
    "  run INTEGER NOT NULL DEFAULT 0," /* enum approval_run */               \
    "  try_at_ms INTEGER NOT NULL DEFAULT 0,"                                 \
    "  outcome TEXT NOT NULL DEFAULT ''" /* of what was carried out */        \
    ") STRICT;"                                                               \
    "CREATE INDEX approvals_by_tenant ON approvals (tenant, asked_at_ms, "    \
    "id);"                                                                    \
    "CREATE INDEX approvals_by_object ON approvals (object);"                 \
    "CREATE INDEX approvals_by_print ON approvals (fingerprint);"             \
    "CREATE INDEX approvals_open ON approvals (expires_at_ms)"                \
    "  WHERE state = 0;"                                                      \
    "CREATE INDEX approvals_of_session ON approvals (session)"                \
    "  WHERE state = 0;"                                                      \
    "CREATE INDEX approvals_due ON approvals (try_at_ms)"                     \
    "  WHERE state <> 0 AND run < 2 AND action = 0;"                          \
    "CREATE TABLE webhook_deliveries ("                                       \
    "  approval TEXT NOT NULL,"                                               \
    "  number INTEGER NOT NULL," /* of the approval: 1, 2, … */             \
    "  type TEXT NOT NULL,"      /* 'approval.asked', … */                  \
    "  body TEXT NOT NULL,"                                                   \
    "  at_ms INTEGER NOT NULL,"                                               \
    "  attempts INTEGER NOT NULL DEFAULT 0,"                                  \
    "  next_at_ms INTEGER NOT NULL,"                                          \
    "  state INTEGER NOT NULL DEFAULT 0," /* enum approval_delivered */       \
    "  status INTEGER NOT NULL DEFAULT 0,"                                    \
    "  error TEXT NOT NULL DEFAULT '',"                                       \
    "  done_at_ms INTEGER NOT NULL DEFAULT 0,"                                \
    "  PRIMARY KEY (approval, number)"                                        \
    ") STRICT;"                                                               \
    "CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at_ms)"  \
    "  WHERE state = 0;"

#endif
