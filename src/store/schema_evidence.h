/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each execution afterwards; and the chain of events each
 * tenant has of its own, which can be checked without a secret. */
#ifndef GLOVEBOX_STORE_SCHEMA_EVIDENCE_H
#define GLOVEBOX_STORE_SCHEMA_EVIDENCE_H

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

#endif
