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

/* The evidence record of each execution, and each tenant's chain of events,
 * which can be verified without a secret. */
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

/* Calls that outlived their request, kept while their client may poll. */
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
 * surely on disk elsewhere; see upkeep/small_blob_rows.c. And what waits
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

/* Approvals show names beside ids: as they were when it was asked and decided.
 * Searches and reports are executions, too, and run by themselves once they
 * are approved; the numbers are those of enum policy_action. */
#define STORE_SCHEMA_NAMES                                                    \
    "ALTER TABLE approvals ADD COLUMN asked_by_name TEXT NOT NULL"            \
    "  DEFAULT '';"                                                           \
    "ALTER TABLE approvals ADD COLUMN decided_by_name TEXT NOT NULL"          \
    "  DEFAULT '';"                                                           \
    "DROP INDEX approvals_due;"                                               \
    "CREATE INDEX approvals_due ON approvals (try_at_ms)"                     \
    "  WHERE state <> 0 AND run < 2 AND action IN (0, 10, 11);"

/* Settings of the configuration whose change is an audit event, as they were
 * at the last start (core/core.c). Names of the subjects of an issuer's
 * tokens, as the newest token has them (auth/subject.c). */
#define STORE_SCHEMA_REMEMBERED                                               \
    "CREATE TABLE settings ("                                                 \
    "  name TEXT PRIMARY KEY,"                                                \
    "  value TEXT NOT NULL"                                                   \
    ") STRICT;"                                                               \
    "CREATE TABLE subjects ("                                                 \
    "  id TEXT PRIMARY KEY," /* jwt_… */                                    \
    "  name TEXT NOT NULL,"                                                   \
    "  seen_at_ms INTEGER NOT NULL"                                           \
    ") STRICT;"

/* The longest execution of a pool that was made while the service ran; 0: as
 * the first configured pool has it. */
#define STORE_SCHEMA_POOL_TIMEOUT                                             \
    "ALTER TABLE pools ADD COLUMN max_timeout_s INTEGER NOT NULL DEFAULT 0;"

/* What tenants used, by the hour (quota/history.c). */
#define STORE_SCHEMA_USAGE_HOURS                                              \
    "CREATE TABLE usage_hours ("                                              \
    "  tenant TEXT NOT NULL,"                                                 \
    "  hour_ms INTEGER NOT NULL," /* when it began */                         \
    "  name TEXT NOT NULL,"       /* of the quota */                          \
    "  value INTEGER NOT NULL,"                                               \
    "  PRIMARY KEY (tenant, hour_ms, name)"                                   \
    ") STRICT;"                                                               \
    "CREATE INDEX usage_hours_by_age ON usage_hours (hour_ms);"

/* Results of the scorecard. */
#define STORE_SCHEMA_SCORECARDS                                               \
    "CREATE TABLE scorecards ("                                               \
    "  number INTEGER PRIMARY KEY AUTOINCREMENT,"                             \
    "  at_ms INTEGER NOT NULL,"                                               \
    "  made_by TEXT NOT NULL,"                                                \
    "  body TEXT NOT NULL" /* JSON */                                         \
    ") STRICT;"

/* Output, displays and results of finished executions, gone with their
 * session. */
#define STORE_SCHEMA_OUTPUTS                                                  \
    "CREATE TABLE outputs ("                                                  \
    "  execution TEXT PRIMARY KEY,"                                           \
    "  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,"     \
    "  tenant TEXT NOT NULL,"                                                 \
    "  workspace TEXT NOT NULL,"                                              \
    "  language TEXT NOT NULL,"                                               \
    "  outcome TEXT NOT NULL,"                                                \
    "  author TEXT NOT NULL," /* the key that asked */                        \
    "  author_name TEXT NOT NULL,"                                            \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  started_at_ms INTEGER NOT NULL,"                                       \
    "  finished_at_ms INTEGER NOT NULL,"                                      \
    "  bytes INTEGER NOT NULL,"                                               \
    "  code TEXT NOT NULL," /* '' where code is not kept */                   \
    "  info TEXT NOT NULL," /* JSON */                                        \
    "  events BLOB NOT NULL"                                                  \
    ") STRICT;"                                                               \
    "CREATE INDEX outputs_by_tenant ON outputs (tenant, created_at_ms,"       \
    "  execution);"                                                           \
    "CREATE INDEX outputs_by_session ON outputs (session, created_at_ms);"    \
    "CREATE INDEX outputs_by_age ON outputs (finished_at_ms);"                \
    "INSERT INTO chores (name, due) VALUES ('outputs', 0);"                   \
    "CREATE TRIGGER outputs_gone AFTER DELETE ON outputs BEGIN"               \
    "  UPDATE chores SET due = 1 WHERE name = 'outputs' AND due = 0; END;"

/* Language models that were added over the API. */
#define STORE_SCHEMA_MODELS                                                   \
    "CREATE TABLE models ("                                                   \
    "  tenant TEXT NOT NULL,"                                                 \
    "  name TEXT NOT NULL,"                                                   \
    "  kind TEXT NOT NULL," /* "openai-chat", … */                          \
    "  url TEXT NOT NULL,"                                                    \
    "  model TEXT NOT NULL,"                                                  \
    "  key TEXT NOT NULL," /* name of a secret */                             \
    "  is_default INTEGER NOT NULL,"                                          \
    "  images INTEGER NOT NULL,"                                              \
    "  tools INTEGER NOT NULL,"                                               \
    "  embeddings INTEGER NOT NULL,"                                          \
    "  context_tokens INTEGER NOT NULL,"                                      \
    "  max_output_tokens INTEGER NOT NULL,"                                   \
    "  concurrent INTEGER NOT NULL,"                                          \
    "  timeout_s INTEGER NOT NULL,"                                           \
    "  idle_s INTEGER NOT NULL,"                                              \
    "  price_input INTEGER NOT NULL," /* millionths per million tokens */     \
    "  price_output INTEGER NOT NULL,"                                        \
    "  price_cached INTEGER NOT NULL," /* -1: as price_input */               \
    "  made_by TEXT NOT NULL,"                                                \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  PRIMARY KEY (tenant, name)"                                            \
    ") STRICT;"

/*
 * The agent loop (chat/): responses, conversations, and the items both consist
 * of. An item's id is unique for its owner only, because clients may choose
 * it; rows refer to items by number. chat_item_files has the versions of files
 * that the execution of an item made. chat_response_items has the whole
 * context of each response, so that none depends on another. chat_items_loose
 * has the items that lost a reference and may have none left.
 */
#define STORE_SCHEMA_CHAT                                                     \
    "CREATE TABLE chat_items ("                                               \
    "  number INTEGER PRIMARY KEY AUTOINCREMENT,"                             \
    "  id TEXT NOT NULL,"                                                     \
    "  tenant TEXT NOT NULL,"                                                 \
    "  owner TEXT NOT NULL," /* key_… or jwt_… */                         \
    "  kind TEXT NOT NULL,"  /* message, code_interpreter_call, … */        \
    "  body TEXT NOT NULL,"  /* JSON, with outputs */                         \
    "  result TEXT NOT NULL DEFAULT '',"   /* what the model was told */      \
    "  response TEXT NOT NULL DEFAULT ''," /* that made it */                 \
    "  session TEXT NOT NULL DEFAULT '',"                                     \
    "  execution TEXT NOT NULL DEFAULT '',"                                   \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  UNIQUE (tenant, owner, id)"                                            \
    ") STRICT;"                                                               \
    "CREATE INDEX chat_items_by_execution ON chat_items (execution)"          \
    "  WHERE execution <> '';"                                                \
    "CREATE TABLE chat_item_files ("                                          \
    "  item INTEGER NOT NULL"                                                 \
    "    REFERENCES chat_items (number) ON DELETE CASCADE,"                   \
    "  position INTEGER NOT NULL,"                                            \
    "  file TEXT NOT NULL,"                                                   \
    "  version TEXT NOT NULL,"                                                \
    "  path TEXT NOT NULL,"                                                   \
    "  change TEXT NOT NULL,"                                                 \
    "  size INTEGER NOT NULL,"                                                \
    "  PRIMARY KEY (item, position)"                                          \
    ") STRICT;"                                                               \
    "CREATE INDEX chat_item_files_by_file ON chat_item_files (file);"         \
    "CREATE TABLE chat_conversations ("                                       \
    "  id TEXT PRIMARY KEY,"                                                  \
    "  tenant TEXT NOT NULL,"                                                 \
    "  owner TEXT NOT NULL,"                                                  \
    "  title TEXT NOT NULL DEFAULT '',"                                       \
    "  metadata TEXT NOT NULL,"           /* a JSON object */                 \
    "  session TEXT NOT NULL DEFAULT ''," /* its container */                 \
    "  workspace TEXT NOT NULL DEFAULT '',"                                   \
    "  model TEXT NOT NULL DEFAULT '',"                                       \
    "  agent TEXT NOT NULL DEFAULT '',"                                       \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  updated_at_ms INTEGER NOT NULL"                                        \
    ") STRICT;"                                                               \
    "CREATE INDEX chat_conversations_by_owner ON chat_conversations"          \
    "  (tenant, owner, updated_at_ms);"                                       \
    "CREATE INDEX chat_conversations_by_age ON chat_conversations"            \
    "  (updated_at_ms);"                                                      \
    "CREATE TABLE chat_conversation_items ("                                  \
    "  conversation TEXT NOT NULL"                                            \
    "    REFERENCES chat_conversations (id) ON DELETE CASCADE,"               \
    "  position INTEGER NOT NULL,"                                            \
    "  item INTEGER NOT NULL REFERENCES chat_items (number),"                 \
    "  PRIMARY KEY (conversation, position),"                                 \
    "  UNIQUE (conversation, item)"                                           \
    ") STRICT;"                                                               \
    "CREATE INDEX chat_conversation_items_by_item"                            \
    "  ON chat_conversation_items (item);"                                    \
    "CREATE TABLE chat_responses ("                                           \
    "  id TEXT PRIMARY KEY,"                                                  \
    "  tenant TEXT NOT NULL,"                                                 \
    "  owner TEXT NOT NULL,"                                                  \
    "  conversation TEXT NOT NULL DEFAULT '',"                                \
    "  previous TEXT NOT NULL DEFAULT '',"                                    \
    "  agent TEXT NOT NULL DEFAULT '',"                                       \
    "  model TEXT NOT NULL,"                                                  \
    "  status INTEGER NOT NULL," /* enum chat_status */                       \
    "  background INTEGER NOT NULL,"                                          \
    "  session TEXT NOT NULL DEFAULT ''," /* its container */                 \
    "  workspace TEXT NOT NULL DEFAULT '',"                                   \
    "  body TEXT NOT NULL," /* JSON: the object without output */             \
    "  input_tokens INTEGER NOT NULL DEFAULT 0,"                              \
    "  output_tokens INTEGER NOT NULL DEFAULT 0,"                             \
    "  microcents INTEGER NOT NULL DEFAULT 0,"                                \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  completed_at_ms INTEGER NOT NULL DEFAULT 0"                            \
    ") STRICT;"                                                               \
    "CREATE INDEX chat_responses_by_owner ON chat_responses"                  \
    "  (tenant, owner, created_at_ms);"                                       \
    "CREATE INDEX chat_responses_by_age ON chat_responses (created_at_ms);"   \
    "CREATE INDEX chat_responses_unfinished ON chat_responses (id)"           \
    "  WHERE completed_at_ms = 0;"                                            \
    "CREATE INDEX chat_responses_by_conversation ON chat_responses"           \
    "  (conversation) WHERE conversation <> '';"                              \
    "CREATE TABLE chat_response_items ("                                      \
    "  response TEXT NOT NULL"                                                \
    "    REFERENCES chat_responses (id) ON DELETE CASCADE,"                   \
    "  part INTEGER NOT NULL," /* 0 context, 1 input, 2 output */             \
    "  position INTEGER NOT NULL,"                                            \
    "  item INTEGER NOT NULL REFERENCES chat_items (number),"                 \
    "  PRIMARY KEY (response, part, position)"                                \
    ") STRICT;"                                                               \
    "CREATE INDEX chat_response_items_by_item"                                \
    "  ON chat_response_items (item);"                                        \
    "CREATE TABLE chat_items_loose (item INTEGER PRIMARY KEY) STRICT;"        \
    "CREATE TRIGGER chat_response_items_gone AFTER DELETE"                    \
    "  ON chat_response_items BEGIN INSERT INTO chat_items_loose (item)"      \
    "  VALUES (old.item) ON CONFLICT DO NOTHING; END;"                        \
    "CREATE TRIGGER chat_conversation_items_gone AFTER DELETE"                \
    "  ON chat_conversation_items BEGIN INSERT INTO chat_items_loose (item)"  \
    "  VALUES (old.item) ON CONFLICT DO NOTHING; END;"

/* Chat completions that a client asked to store; what retention looks at, and
 * what it leaves to the collector. */
#define STORE_SCHEMA_COMPLETIONS                                                  \
    "CREATE TABLE chat_completions ("                                             \
    "  id TEXT PRIMARY KEY,"                                                      \
    "  tenant TEXT NOT NULL,"                                                     \
    "  owner TEXT NOT NULL,"                                                      \
    "  response TEXT NOT NULL,"                                                   \
    "  session TEXT NOT NULL,"                                                    \
    "  model TEXT NOT NULL,"                                                      \
    "  metadata TEXT NOT NULL," /* a JSON object */                               \
    "  body TEXT NOT NULL,"     /* JSON: the completion */                        \
    "  messages TEXT NOT NULL," /* JSON: those it answers */                      \
    "  created_at_ms INTEGER NOT NULL"                                            \
    ") STRICT;"                                                                   \
    "CREATE INDEX chat_completions_by_owner ON chat_completions"                  \
    "  (tenant, owner, created_at_ms, id);"                                       \
    "CREATE INDEX chat_completions_by_age ON chat_completions"                    \
    "  (created_at_ms);"                                                          \
    "CREATE INDEX workspaces_held ON workspaces (id) WHERE legal_hold = 1;"       \
    "CREATE TRIGGER chat_items_forget AFTER DELETE ON chat_items"                 \
    "  BEGIN UPDATE chores SET due = 1 WHERE name = 'outputs' AND due = 0;"       \
    "  END;"                                                                      \
    "CREATE TRIGGER chat_responses_forget AFTER DELETE ON chat_responses"         \
    "  BEGIN UPDATE chores SET due = 1 WHERE name = 'outputs' AND due = 0;"       \
    "  END;"                                                                      \
    "CREATE TRIGGER chat_conversations_forget AFTER DELETE ON chat_conversations" \
    "  BEGIN UPDATE chores SET due = 1 WHERE name = 'outputs' AND due = 0;"       \
    "  END;"                                                                      \
    "CREATE TRIGGER chat_completions_forget AFTER DELETE ON chat_completions"     \
    "  BEGIN UPDATE chores SET due = 1 WHERE name = 'outputs' AND due = 0;"       \
    "  END;"

/*
 * Named agents and their versions (agents/agents.c). The row of a deleted
 * agent keeps the number of its newest version: alive is 0 then. Tools that
 * members of a workspace saved (agents/tools.c), and their versions.
 */
#define STORE_SCHEMA_AGENTS                                                   \
    "CREATE TABLE agents ("                                                   \
    "  tenant TEXT NOT NULL,"                                                 \
    "  name TEXT NOT NULL,"                                                   \
    "  alive INTEGER NOT NULL,"                                               \
    "  enabled INTEGER NOT NULL,"                                             \
    "  shared INTEGER NOT NULL,"                                              \
    "  owner TEXT NOT NULL,"     /* a key's id */                             \
    "  number INTEGER NOT NULL," /* of its newest version, ever */            \
    "  endpoint TEXT NOT NULL DEFAULT '',"                                    \
    "  card TEXT NOT NULL DEFAULT '',"                                        \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  updated_at_ms INTEGER NOT NULL,"                                       \
    "  PRIMARY KEY (tenant, name)"                                            \
    ") STRICT;"                                                               \
    "CREATE INDEX agents_by_age ON agents (tenant, alive, created_at_ms,"     \
    "  name);"                                                                \
    "CREATE TABLE agent_versions ("                                           \
    "  tenant TEXT NOT NULL,"                                                 \
    "  name TEXT NOT NULL,"                                                   \
    "  number INTEGER NOT NULL,"                                              \
    "  draft INTEGER NOT NULL,"                                               \
    "  bytes INTEGER NOT NULL," /* of the texts that follow */                \
    "  description TEXT NOT NULL,"                                            \
    "  metadata TEXT NOT NULL,"   /* JSON */                                  \
    "  definition TEXT NOT NULL," /* JSON, as sent */                         \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  created_by TEXT NOT NULL,"                                             \
    "  PRIMARY KEY (tenant, name, number),"                                   \
    "  FOREIGN KEY (tenant, name) REFERENCES agents (tenant, name)"           \
    "    ON DELETE CASCADE"                                                   \
    ") STRICT;"                                                               \
    "CREATE TABLE tools ("                                                    \
    "  workspace TEXT NOT NULL REFERENCES workspaces (id)"                    \
    "    ON DELETE CASCADE,"                                                  \
    "  name TEXT NOT NULL,"                                                   \
    "  number INTEGER NOT NULL," /* of its newest version */                  \
    "  created_by TEXT NOT NULL,"                                             \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  updated_at_ms INTEGER NOT NULL,"                                       \
    "  PRIMARY KEY (workspace, name)"                                         \
    ") STRICT;"                                                               \
    "CREATE TABLE tool_versions ("                                            \
    "  workspace TEXT NOT NULL,"                                              \
    "  name TEXT NOT NULL,"                                                   \
    "  number INTEGER NOT NULL,"                                              \
    "  language TEXT NOT NULL,"                                               \
    "  description TEXT NOT NULL,"                                            \
    "  parameters TEXT NOT NULL," /* JSON Schema */                           \
    "  code TEXT NOT NULL,"                                                   \
    "  timeout_s INTEGER NOT NULL," /* 0: the pool's */                       \
    "  execution TEXT NOT NULL,"    /* it was kept from, or '' */             \
    "  created_by TEXT NOT NULL,"                                             \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  PRIMARY KEY (workspace, name, number),"                                \
    "  FOREIGN KEY (workspace, name) REFERENCES tools (workspace, name)"      \
    "    ON DELETE CASCADE"                                                   \
    ") STRICT;"

/* Passages of the files of workspaces with `intelligence`: where each is in
 * the text of its document, and the hashes of its terms. The text itself is in
 * `words` alone. intelligence: 0 off, 1 on, 2 off with passages that are still
 * to be removed. documents.cut: 1 when its passages are there, 2 when
 * the tenant has too many. A passage goes with its document, with its tenant,
 * and when the text of its document changes; passages_gone lists them for
 * the copy in memory. */
#define STORE_SCHEMA_PASSAGES                                                 \
    "ALTER TABLE workspaces"                                                  \
    "  ADD COLUMN intelligence INTEGER NOT NULL DEFAULT 0;"                   \
    "CREATE INDEX workspaces_intelligent ON workspaces (tenant, id)"          \
    "  WHERE intelligence > 0;"                                               \
    "ALTER TABLE documents ADD COLUMN cut INTEGER NOT NULL DEFAULT 0;"        \
    "CREATE INDEX documents_uncut ON documents (workspace, id)"               \
    "  WHERE cut = 0 AND state = 'ready';"                                    \
    "CREATE INDEX documents_cut ON documents (workspace, id)"                 \
    "  WHERE cut > 0;"                                                        \
    "CREATE TABLE passages ("                                                 \
    "  id INTEGER PRIMARY KEY AUTOINCREMENT," /* never a second time */       \
    "  document INTEGER NOT NULL REFERENCES documents (id)"                   \
    "    ON DELETE CASCADE,"                                                  \
    "  page INTEGER NOT NULL,"                                                \
    "  line INTEGER NOT NULL,"                                                \
    "  line_end INTEGER NOT NULL,"                                            \
    "  start INTEGER NOT NULL," /* bytes, in words.body */                    \
    "  bytes INTEGER NOT NULL,"                                               \
    "  terms BLOB NOT NULL"                                                   \
    ") STRICT;"                                                               \
    "CREATE INDEX passages_by_document ON passages (document);"               \
    "CREATE TABLE passages_gone ("                                            \
    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"                                \
    "  passage INTEGER NOT NULL"                                              \
    ") STRICT;"                                                               \
    "CREATE TRIGGER passages_gone AFTER DELETE ON passages BEGIN"             \
    "  INSERT INTO passages_gone (passage) VALUES (old.id); END;"             \
    "CREATE TRIGGER passages_of_changed AFTER UPDATE OF cut ON documents"     \
    "  WHEN new.cut = 0 BEGIN"                                                \
    "  DELETE FROM passages WHERE document = new.id; END;"                    \
    "CREATE TRIGGER passages_of_transferred AFTER UPDATE OF tenant"           \
    "  ON workspaces WHEN new.tenant <> old.tenant BEGIN"                     \
    "  UPDATE documents SET cut = 0 WHERE workspace = new.id AND cut > 0;"    \
    " END;" /* Vectors of a model's embeddings; those of latent semantic      \
             * analysis are computed when passages are loaded. */             \
    "CREATE TABLE passage_vectors ("                                          \
    "  passage INTEGER PRIMARY KEY REFERENCES passages (id)"                  \
    "    ON DELETE CASCADE,"                                                  \
    "  model TEXT NOT NULL,"                                                  \
    "  vector BLOB NOT NULL"                                                  \
    ") STRICT;" /* What latent semantic analysis learned from a tenant's      \
                 * passages. passages: that were there, up to the id `upto`.  \
                 */                                                           \
    "CREATE TABLE meanings ("                                                 \
    "  tenant TEXT PRIMARY KEY,"                                              \
    "  number INTEGER NOT NULL,"                                              \
    "  trained_at_ms INTEGER NOT NULL,"                                       \
    "  took_ms INTEGER NOT NULL,"                                             \
    "  passages INTEGER NOT NULL,"                                            \
    "  upto INTEGER NOT NULL,"                                                \
    "  data BLOB NOT NULL"                                                    \
    ") STRICT;"

/* Memory of sessions that sleep (session/image.c): one row for a session, so
 * that its generation only grows. No reference to sessions: a legal hold keeps
 * an image when its session is deleted. branches: sessions that were branched,
 * for merging their files back. */
#define STORE_SCHEMA_IMAGES                                                   \
    "CREATE TABLE images ("                                                   \
    "  session TEXT PRIMARY KEY,"                                             \
    "  id TEXT NOT NULL," /* of its file; '' for none */                      \
    "  tenant TEXT NOT NULL,"                                                 \
    "  workspace TEXT NOT NULL,"                                              \
    "  generation INTEGER NOT NULL,"                                          \
    "  state INTEGER NOT NULL,"     /* enum image_state */                    \
    "  why INTEGER NOT NULL,"       /* enum session_memory_loss */            \
    "  run TEXT NOT NULL,"          /* of the service that woke it, or '' */  \
    "  bytes INTEGER NOT NULL,"     /* of the file */                         \
    "  uncarried INTEGER NOT NULL," /* enum box_uncarried */                  \
    "  cells INTEGER NOT NULL,"     /* executions that it holds */            \
    "  made_at_ms INTEGER NOT NULL"                                           \
    ") STRICT;"                                                               \
    "CREATE INDEX images_by_tenant ON images (tenant, bytes);"                \
    "CREATE INDEX images_by_age ON images (made_at_ms) WHERE id <> '';"       \
    "CREATE TABLE branches ("                                                 \
    "  session TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,"  \
    "  origin TEXT NOT NULL,"    /* the session */                            \
    "  workspace TEXT NOT NULL," /* of the origin */                          \
    "  base INTEGER NOT NULL,"   /* its commit that was branched or merged */ \
    "  since INTEGER NOT NULL"   /* the same of the branch's workspace */     \
    ") STRICT;"

/* The zygote in whose forks the memory can continue, or ''. */
#define STORE_SCHEMA_ZYGOTES                                                  \
    "ALTER TABLE images ADD COLUMN zygote TEXT NOT NULL DEFAULT '';"

/* Bytes that responses, their items and completions take, by tenant: they
 * count for its storage (workspace/quota.c). */
#define STORE_SCHEMA_CHAT_USE                                                      \
    "CREATE TABLE chat_use ("                                                      \
    "  tenant TEXT PRIMARY KEY,"                                                   \
    "  bytes INTEGER NOT NULL"                                                     \
    ") STRICT;"                                                                    \
    "INSERT INTO chat_use (tenant, bytes) SELECT tenant, sum(bytes) FROM ("        \
    "  SELECT tenant, length(CAST(body AS BLOB))"                                  \
    "    + length(CAST(result AS BLOB)) AS bytes FROM chat_items"                  \
    "  UNION ALL SELECT tenant, length(CAST(body AS BLOB))"                        \
    "    FROM chat_responses"                                                      \
    "  UNION ALL SELECT tenant, length(CAST(body AS BLOB))"                        \
    "    + length(CAST(messages AS BLOB)) FROM chat_completions) AS t"             \
    "  GROUP BY tenant;"                                                           \
    "CREATE TRIGGER chat_items_used AFTER INSERT ON chat_items BEGIN"              \
    "  INSERT INTO chat_use (tenant, bytes) VALUES (new.tenant,"                   \
    "    length(CAST(new.body AS BLOB))"                                           \
    "    + length(CAST(new.result AS BLOB))) ON CONFLICT (tenant) DO UPDATE"       \
    "  SET bytes = chat_use.bytes + excluded.bytes; END;"                          \
    "CREATE TRIGGER chat_items_freed AFTER DELETE ON chat_items BEGIN"             \
    "  UPDATE chat_use SET bytes = bytes - ("                                      \
    "    length(CAST(old.body AS BLOB))"                                           \
    "    + length(CAST(old.result AS BLOB)))"                                      \
    "  WHERE tenant = old.tenant; END;"                                            \
    "CREATE TRIGGER chat_responses_used AFTER INSERT ON chat_responses BEGIN"      \
    "  INSERT INTO chat_use (tenant, bytes) VALUES (new.tenant,"                   \
    "    length(CAST(new.body AS BLOB))) ON CONFLICT (tenant) DO UPDATE"           \
    "  SET bytes = chat_use.bytes + excluded.bytes; END;"                          \
    "CREATE TRIGGER chat_responses_freed AFTER DELETE ON chat_responses BEGIN"     \
    "  UPDATE chat_use SET bytes = bytes - ("                                      \
    "    length(CAST(old.body AS BLOB)))"                                          \
    "  WHERE tenant = old.tenant; END;"                                            \
    "CREATE TRIGGER chat_completions_used AFTER INSERT ON chat_completions BEGIN"  \
    "  INSERT INTO chat_use (tenant, bytes) VALUES (new.tenant,"                   \
    "    length(CAST(new.body AS BLOB))"                                           \
    "    + length(CAST(new.messages AS BLOB))) ON CONFLICT (tenant) DO UPDATE"     \
    "  SET bytes = chat_use.bytes + excluded.bytes; END;"                          \
    "CREATE TRIGGER chat_completions_freed AFTER DELETE ON chat_completions BEGIN" \
    "  UPDATE chat_use SET bytes = bytes - ("                                      \
    "    length(CAST(old.body AS BLOB))"                                           \
    "    + length(CAST(old.messages AS BLOB)))"                                    \
    "  WHERE tenant = old.tenant; END;"                                            \
    "CREATE TRIGGER chat_responses_changed"                                        \
    "  AFTER UPDATE OF body ON chat_responses BEGIN"                               \
    "  UPDATE chat_use SET bytes = bytes + length(CAST(new.body AS BLOB))"         \
    "    - length(CAST(old.body AS BLOB))"                                         \
    "  WHERE tenant = new.tenant; END;"

/* Workspaces that are copied to a place outside after each commit (mirror/):
 * seq is the last commit that was copied as a whole; a copy up to to_seq was
 * begun and is at the path `place`. */
#define STORE_SCHEMA_MIRRORS                                                  \
    "CREATE TABLE mirrors ("                                                  \
    "  workspace TEXT PRIMARY KEY"                                            \
    "   REFERENCES workspaces (id) ON DELETE CASCADE,"                        \
    "  destination TEXT NOT NULL," /* ends with '/' */                        \
    "  removes INTEGER NOT NULL,"                                             \
    "  created_by TEXT NOT NULL,"                                             \
    "  created_at_ms INTEGER NOT NULL,"                                       \
    "  seq INTEGER NOT NULL DEFAULT 0,"                                       \
    "  commit_id TEXT NOT NULL DEFAULT '',"                                   \
    "  mirrored_at_ms INTEGER NOT NULL DEFAULT 0,"                            \
    "  to_seq INTEGER NOT NULL DEFAULT 0,"                                    \
    "  place TEXT NOT NULL DEFAULT '',"                                       \
    "  files INTEGER NOT NULL DEFAULT 0,"                                     \
    "  bytes INTEGER NOT NULL DEFAULT 0,"                                     \
    "  error TEXT NOT NULL DEFAULT '',"                                       \
    "  failures INTEGER NOT NULL DEFAULT 0,"                                  \
    "  retry_at_ms INTEGER NOT NULL DEFAULT 0,"                               \
    "  touched_at_ms INTEGER NOT NULL DEFAULT 0"                              \
    ") STRICT;"

#endif
