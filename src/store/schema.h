/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema by subject, one macro for each later migration of migrations.c,
 * in their order. A published one is never changed.
 */
#ifndef GLOVEBOX_STORE_SCHEMA_H
#define GLOVEBOX_STORE_SCHEMA_H

/* Versions of the policy, and which of them a session is held to. */
#define STORE_SCHEMA_POLICY                                                   \
    "CREATE TABLE policies ("                                                 \
    "  number INTEGER PRIMARY KEY AUTOINCREMENT,"                             \
    "  at_ms INTEGER NOT NULL,"                                               \
    "  made_by TEXT NOT NULL,"                                                \
    "  sha256 TEXT NOT NULL,"                                                 \
    "  note TEXT NOT NULL DEFAULT '',"                                        \
    "  body TEXT NOT NULL"                                                    \
    ") STRICT;"                                                               \
    "ALTER TABLE sessions ADD COLUMN policy_version INTEGER NOT NULL"         \
    "  DEFAULT 0;"

/*
 * What keys are bound to, and tokens: keys that end by themselves. parent is
 * what a token was minted from, root the key, or the issuer's subject, it
 * stands for; both are empty for a key.
 */
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

/* What tenants may use, and what they have used. */
#define STORE_SCHEMA_QUOTA                                                    \
    "CREATE TABLE quotas ("                                                   \
    "  tenant TEXT NOT NULL,"                                                 \
    "  name TEXT NOT NULL,"                                                   \
    "  most INTEGER NOT NULL,"                                                \
    "  PRIMARY KEY (tenant, name)"                                            \
    ") STRICT;"                                                               \
    "CREATE TABLE quota_use ("                                                \
    "  tenant TEXT NOT NULL,"                                                 \
    "  name TEXT NOT NULL,"                                                   \
    "  used INTEGER NOT NULL,"                                                \
    "  since_ms INTEGER NOT NULL,"                                            \
    "  PRIMARY KEY (tenant, name)"                                            \
    ") STRICT;"

/* Approvals, and the delivery of webhooks about them. */
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

/* What is known of each execution afterwards; and the chain of events each
 * tenant has of its own, which can be checked without a secret. */
#define STORE_SCHEMA_EVIDENCE                                                 \
    "CREATE TABLE evidence ("                                                 \
    "  execution TEXT PRIMARY KEY,"                                           \
    "  tenant TEXT NOT NULL,"                                                 \
    "  session TEXT NOT NULL,"                                                \
    "  workspace TEXT NOT NULL,"                                              \
    "  pool TEXT NOT NULL,"                                                   \
    "  actor TEXT NOT NULL," /* the key that asked */                         \
    "  at_ms INTEGER NOT NULL,"                                               \
    "  outcome TEXT NOT NULL,"                                                \
    "  code_sha256 TEXT NOT NULL,"                                            \
    "  body TEXT NOT NULL,"           /* JSON */                              \
    "  code TEXT NOT NULL DEFAULT ''" /* "" where it is not kept */           \
    ") STRICT;"                                                               \
    "CREATE INDEX evidence_by_tenant ON evidence (tenant, at_ms, execution);" \
    "CREATE INDEX evidence_by_session ON evidence (session, at_ms);"          \
    "CREATE INDEX evidence_by_age ON evidence (at_ms);"                       \
                                                                              \
    "ALTER TABLE audit ADD COLUMN chain_seq INTEGER NOT NULL DEFAULT 0;"      \
    "ALTER TABLE audit ADD COLUMN chain_hash BLOB;"                           \
    "CREATE INDEX audit_by_chain ON audit (tenant, chain_seq)"                \
    "  WHERE chain_seq > 0;"                                                  \
    "CREATE INDEX audit_checkpoints ON audit (tenant, chain_seq)"             \
    "  WHERE action = 'audit.checkpoint';"                                    \
    "CREATE TABLE audit_chains (" /* where each ends, under HMAC */           \
    "  tenant TEXT PRIMARY KEY,"                                              \
    "  seq INTEGER NOT NULL,"                                                 \
    "  hash BLOB NOT NULL,"                                                   \
    "  seal BLOB NOT NULL,"                                                   \
    "  signed_seq INTEGER NOT NULL," /* of the newest checkpoint */           \
    "  signed_at_ms INTEGER NOT NULL"                                         \
    ") STRICT;"                                                               \
    "CREATE TABLE audit_keys (" /* public halves, the newest signs */         \
    "  id TEXT PRIMARY KEY,"                                                  \
    "  pem TEXT NOT NULL,"                                                    \
    "  since_ms INTEGER NOT NULL"                                             \
    ") STRICT;"                                                               \
    "CREATE TABLE audit_cursors (" /* what was sent elsewhere */              \
    "  name TEXT PRIMARY KEY,"                                                \
    "  seq INTEGER NOT NULL"                                                  \
    ") STRICT;"

/* Secrets the proxy adds, sealed; and what a session may reach (JSON). */
#define STORE_SCHEMA_EGRESS                                                   \
    "CREATE TABLE secrets ("                                                  \
    "  tenant TEXT NOT NULL,"                                                 \
    "  name TEXT NOT NULL,"                                                   \
    "  header TEXT NOT NULL,"                                                 \
    "  prefix TEXT NOT NULL,"                                                 \
    "  destinations TEXT NOT NULL,"                                           \
    "  sealed BLOB NOT NULL,"                                                 \
    "  made_by TEXT NOT NULL,"                                                \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  updated_at_ms INTEGER NOT NULL,"                                       \
    "  used_at_ms INTEGER NOT NULL DEFAULT 0,"                                \
    "  PRIMARY KEY (tenant, name)"                                            \
    ") STRICT;"                                                               \
    "ALTER TABLE sessions ADD COLUMN network TEXT NOT NULL DEFAULT '';"       \
    "ALTER TABLE pools ADD COLUMN egress TEXT NOT NULL DEFAULT 'none';"       \
    "ALTER TABLE pools ADD COLUMN egress_allow TEXT NOT NULL DEFAULT '';"     \
    "ALTER TABLE pools ADD COLUMN packages INTEGER NOT NULL DEFAULT 0;"

/* The trail, later: the token that was shown, where it was not the key
 * itself. Rows from before have none. */
#define STORE_SCHEMA_AUDIT                                                    \
    "ALTER TABLE audit ADD COLUMN token TEXT NOT NULL DEFAULT '';"            \
    "CREATE INDEX audit_by_token ON audit (token, seq) WHERE token <> '';"

/* Work that must be finished although the service stops in between. */
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

/* Calls that outlived their request, for as long as their client may ask. */
#define STORE_SCHEMA_TASKS                                                    \
    "CREATE TABLE tasks ("                                                    \
    "  id TEXT PRIMARY KEY,"                                                  \
    "  tenant TEXT NOT NULL,"                                                 \
    "  caller TEXT NOT NULL," /* the key or token that may ask */             \
    "  over INTEGER NOT NULL DEFAULT 0,"                                      \
    "  body TEXT NOT NULL DEFAULT ''," /* what it came to; '': unknown */     \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  updated_at_ms INTEGER NOT NULL"                                        \
    ") STRICT;"                                                               \
    "CREATE INDEX tasks_by_age ON tasks (created_at_ms);"                     \
    "CREATE INDEX tasks_by_tenant ON tasks (tenant, created_at_ms);"

/* Bytes of small files, from the commit that refers to them until they are
 * surely on disk elsewhere; see workspace/small_blob_rows.c. And what waits
 * for the indexer in order of time: a new file is at the end of that, and not
 * anywhere in it. */
#define STORE_SCHEMA_SMALL                                                    \
    "CREATE TABLE small_blobs ("                                              \
    "  slot INTEGER PRIMARY KEY," /* used again and again */                  \
    "  records BLOB NOT NULL"     /* as blobs_write gave them */              \
    ") STRICT;"                                                               \
    "DROP INDEX files_unindexed;"                                             \
    "CREATE INDEX files_unindexed ON files (modified_at_ms, id)"              \
    "  WHERE indexed = 0;"

/* Who in a tenant sees a session, see session/sharing.c: 1 is its owner alone,
 * 2 the whole tenant. Sessions from before there was a choice stay the whole
 * tenant's. An identifier is unique among the sessions a tenant shares, and
 * among the private ones of each owner. */
#define STORE_SCHEMA_SHARING                                                   \
    "ALTER TABLE sessions ADD COLUMN sharing INTEGER NOT NULL DEFAULT 2;"      \
    "DROP INDEX sessions_by_identifier;"                                       \
    "CREATE UNIQUE INDEX sessions_by_identifier ON sessions"                   \
    "  (tenant, pool, identifier, CASE sharing WHEN 2 THEN '' ELSE owner END)" \
    "  WHERE identifier <> '';"                                                \
    "ALTER TABLE pools ADD COLUMN sharing TEXT NOT NULL DEFAULT '';"

/* Which store this is; and whether the trail's end is kept in a file beside
 * the database, which must be there from then on (audit/head.c). */
#define STORE_SCHEMA_HEAD                                                     \
    "CREATE TABLE store_identity ("                                           \
    "  one INTEGER PRIMARY KEY CHECK (one = 1),"                              \
    "  id TEXT NOT NULL"                                                      \
    ") STRICT;"                                                               \
    "ALTER TABLE audit_head ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;"

#endif
