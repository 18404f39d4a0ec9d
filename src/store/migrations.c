/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema, as the steps that lead to it; see store_int.h. Used by the
 * SQLite engine when the daemon opens the store.
 */
#include "base/mem.h"
#include "store/schema.h"
#include "store/schema_nodes.h"
#include "store/store_int.h"

const char *const store_migrations[] = {
    "CREATE TABLE keys ("
    "  id TEXT PRIMARY KEY,"
    "  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),"
    "  tenant TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  scopes INTEGER NOT NULL,"
    "  created_at_ms INTEGER NOT NULL,"
    "  revoked_at_ms INTEGER NOT NULL DEFAULT 0,"
    "  last_used_at_ms INTEGER NOT NULL DEFAULT 0"
    ") STRICT;"
    "CREATE INDEX keys_by_age ON keys (created_at_ms);",

    /* Workspaces and what hangs off them; sessions; the audit trail. Ids are
     * text, times milliseconds since 1970, 0 for never, booleans 0 and 1. */
    "CREATE TABLE workspaces ("
    "  id TEXT PRIMARY KEY,"
    "  tenant TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  owner TEXT NOT NULL,"               /* a key's id */
    "  made_for TEXT NOT NULL DEFAULT ''," /* session it was made for */
    "  created_at_ms INTEGER NOT NULL,"
    "  updated_at_ms INTEGER NOT NULL,"
    "  deleted_at_ms INTEGER NOT NULL DEFAULT 0,"
    "  head INTEGER NOT NULL DEFAULT 0,"          /* seq of the last commit */
    "  files INTEGER NOT NULL DEFAULT 0,"         /* at the head */
    "  bytes INTEGER NOT NULL DEFAULT 0,"         /* at the head */
    "  stored_bytes INTEGER NOT NULL DEFAULT 0,"  /* of all kept versions */
    "  quota_bytes INTEGER NOT NULL DEFAULT 0,"   /* 0: the default */
    "  keep_versions INTEGER NOT NULL DEFAULT 0," /* 0: all */
    "  keep_days INTEGER NOT NULL DEFAULT 0,"     /* 0: no limit */
    "  legal_hold INTEGER NOT NULL DEFAULT 0"
    ") STRICT;"
    "CREATE INDEX workspaces_by_tenant ON workspaces (tenant, id);"
    "CREATE INDEX workspaces_deleted ON workspaces (deleted_at_ms)"
    "  WHERE deleted_at_ms > 0;"

    "CREATE TABLE members ("
    "  workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,"
    "  principal TEXT NOT NULL," /* a key's id, or * for the whole tenant */
    "  role INTEGER NOT NULL,"   /* enum workspace_role */
    "  added_at_ms INTEGER NOT NULL,"
    "  added_by TEXT NOT NULL,"
    "  PRIMARY KEY (workspace, principal)"
    ") STRICT;"
    "CREATE INDEX members_by_principal ON members (principal);"

    "CREATE TABLE commits ("
    "  id TEXT PRIMARY KEY,"
    "  workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,"
    "  seq INTEGER NOT NULL," /* 1, 2, … within the workspace */
    "  kind TEXT NOT NULL,"   /* execution, upload, delete, move, … */
    "  author TEXT NOT NULL,"
    "  at_ms INTEGER NOT NULL,"
    "  base INTEGER NOT NULL," /* the head its author had seen */
    "  session TEXT NOT NULL DEFAULT '',"
    "  execution TEXT NOT NULL DEFAULT '',"
    "  language TEXT NOT NULL DEFAULT '',"
    "  code_sha256 TEXT NOT NULL DEFAULT ''," /* also a blob */
    "  conversation TEXT NOT NULL DEFAULT '',"
    "  message TEXT NOT NULL DEFAULT '',"
    "  note TEXT NOT NULL DEFAULT '',"
    "  UNIQUE (workspace, seq)"
    ") STRICT;"
    "CREATE INDEX commits_by_conversation ON commits (conversation)"
    "  WHERE conversation <> '';"
    "CREATE INDEX commits_by_code ON commits (code_sha256)"
    "  WHERE code_sha256 <> '';"

    /* A file keeps its id through overwriting, renaming and coming back. */
    "CREATE TABLE files ("
    "  id TEXT PRIMARY KEY,"
    "  workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,"
    "  path TEXT NOT NULL,"      /* the last one it had */
    "  alive INTEGER NOT NULL,"  /* is in the head */
    "  version TEXT NOT NULL,"   /* its newest; a tombstone when not alive */
    "  number INTEGER NOT NULL," /* of that version: 1, 2, … */
    "  seq INTEGER NOT NULL,"    /* of the commit that made it */
    "  sha256 TEXT NOT NULL,"
    "  size INTEGER NOT NULL,"
    "  mime TEXT NOT NULL,"
    "  executable INTEGER NOT NULL,"
    "  modified_at_ms INTEGER NOT NULL,"
    "  indexed INTEGER NOT NULL DEFAULT 0" /* search has seen this version */
    ") STRICT;"
    /* One file at a path in the head; any number that were there. */
    "CREATE UNIQUE INDEX files_by_path ON files (workspace, alive, path,"
    "  (CASE WHEN alive = 1 THEN '' ELSE id END));"
    "CREATE INDEX files_unindexed ON files (id) WHERE indexed = 0;"

    "CREATE TABLE versions ("
    "  id TEXT PRIMARY KEY,"
    "  file TEXT NOT NULL REFERENCES files (id) ON DELETE CASCADE,"
    "  workspace TEXT NOT NULL,"
    "  path TEXT NOT NULL," /* as of then */
    "  number INTEGER NOT NULL,"
    "  commit_id TEXT NOT NULL,"
    "  seq INTEGER NOT NULL," /* of that commit */
    "  change TEXT NOT NULL," /* created, modified, deleted, renamed, … */
    "  from_path TEXT NOT NULL DEFAULT '',"    /* renamed, copied, conflict */
    "  from_version TEXT NOT NULL DEFAULT ''," /* restored, copied */
    "  sha256 TEXT NOT NULL,"                  /* empty: a tombstone */
    "  size INTEGER NOT NULL,"
    "  mime TEXT NOT NULL,"
    "  executable INTEGER NOT NULL,"
    "  purged INTEGER NOT NULL DEFAULT 0" /* bytes given up by retention */
    ") STRICT;"
    "CREATE INDEX versions_by_file ON versions (file, number);"
    "CREATE INDEX versions_by_path ON versions (workspace, path, seq);"
    "CREATE INDEX versions_by_seq ON versions (workspace, seq);"
    "CREATE INDEX versions_by_blob ON versions (sha256) WHERE purged = 0;"

    /* The row of a path stays after the release: the fence only grows. */
    "CREATE TABLE locks ("
    "  workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,"
    "  path TEXT NOT NULL,"
    "  fence INTEGER NOT NULL,"
    "  id TEXT NOT NULL DEFAULT ''," /* empty: not held */
    "  token_hash BLOB,"
    "  holder TEXT NOT NULL DEFAULT '',"  /* a key's id */
    "  session TEXT NOT NULL DEFAULT ''," /* whose executions pass */
    "  label TEXT NOT NULL DEFAULT '',"
    "  acquired_at_ms INTEGER NOT NULL DEFAULT 0,"
    "  expires_at_ms INTEGER NOT NULL DEFAULT 0,"
    "  PRIMARY KEY (workspace, path)"
    ") STRICT;"
    "CREATE INDEX locks_held ON locks (workspace, id) WHERE id <> '';"

    "CREATE TABLE shares ("
    "  id TEXT PRIMARY KEY,"
    "  secret_hash BLOB NOT NULL UNIQUE,"
    "  workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,"
    "  path TEXT NOT NULL," /* a file, a folder with / at its end, or empty */
    "  version TEXT NOT NULL DEFAULT '',"  /* pinned; empty: the newest */
    "  mode INTEGER NOT NULL,"             /* enum share_mode */
    "  password TEXT NOT NULL DEFAULT ''," /* slow hash, or empty */
    "  failures INTEGER NOT NULL DEFAULT 0,"
    "  downloads INTEGER NOT NULL DEFAULT 0,"
    "  max_downloads INTEGER NOT NULL DEFAULT 0," /* 0: any number */
    "  created_at_ms INTEGER NOT NULL,"
    "  created_by TEXT NOT NULL,"
    "  expires_at_ms INTEGER NOT NULL DEFAULT 0,"
    "  revoked_at_ms INTEGER NOT NULL DEFAULT 0"
    ") STRICT;"
    "CREATE INDEX shares_by_workspace ON shares (workspace);"

    /* Uploads in parts; each part is a blob until the whole is put. */
    "CREATE TABLE uploads ("
    "  id TEXT PRIMARY KEY,"
    "  workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,"
    "  path TEXT NOT NULL,"
    "  size INTEGER NOT NULL DEFAULT -1," /* as declared; -1: unknown */
    "  created_by TEXT NOT NULL,"
    "  created_at_ms INTEGER NOT NULL,"
    "  expires_at_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE TABLE upload_parts ("
    "  upload TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,"
    "  number INTEGER NOT NULL,"
    "  sha256 TEXT NOT NULL,"
    "  size INTEGER NOT NULL,"
    "  PRIMARY KEY (upload, number)"
    ") STRICT;"
    "CREATE INDEX upload_parts_by_blob ON upload_parts (sha256);"

    "CREATE TABLE transfers (" /* offers that wait to be claimed */
    "  id TEXT PRIMARY KEY,"
    "  token_hash BLOB NOT NULL UNIQUE,"
    "  workspace TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,"
    "  offered_by TEXT NOT NULL,"
    "  created_at_ms INTEGER NOT NULL,"
    "  expires_at_ms INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE sessions ("
    "  id TEXT PRIMARY KEY,"
    "  tenant TEXT NOT NULL,"
    "  owner TEXT NOT NULL," /* a key's id */
    "  owner_admin INTEGER NOT NULL,"
    "  workspace TEXT NOT NULL,"
    "  pool TEXT NOT NULL,"
    "  runtime TEXT NOT NULL,"
    "  name TEXT NOT NULL DEFAULT '',"
    "  metadata TEXT NOT NULL DEFAULT '',"
    "  memory_bytes INTEGER NOT NULL," /* limits, as granted */
    "  scratch_bytes INTEGER NOT NULL,"
    "  scratch_inodes INTEGER NOT NULL,"
    "  processes INTEGER NOT NULL,"
    "  cores INTEGER NOT NULL,"
    "  descriptors INTEGER NOT NULL,"
    "  interpreter INTEGER NOT NULL,"
    "  executions INTEGER NOT NULL DEFAULT 0,"
    "  created_at_ms INTEGER NOT NULL,"
    "  used_at_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX sessions_by_tenant ON sessions (tenant, created_at_ms);"
    "CREATE INDEX sessions_by_workspace ON sessions (workspace);"

    "CREATE TABLE audit ("
    "  seq INTEGER PRIMARY KEY,"
    "  at_ms INTEGER NOT NULL,"
    "  tenant TEXT NOT NULL,"
    "  actor TEXT NOT NULL,"
    "  action TEXT NOT NULL,"
    "  workspace TEXT NOT NULL,"
    "  object TEXT NOT NULL,"
    "  path TEXT NOT NULL,"
    "  before_id TEXT NOT NULL,"
    "  after_id TEXT NOT NULL,"
    "  result TEXT NOT NULL,"
    "  detail TEXT NOT NULL,"
    "  request TEXT NOT NULL,"
    "  source TEXT NOT NULL,"
    "  hash BLOB NOT NULL"
    ") STRICT;"
    "CREATE INDEX audit_by_tenant ON audit (tenant, seq);"
    "CREATE INDEX audit_by_workspace ON audit (workspace, seq);"
    "CREATE INDEX audit_by_actor ON audit (actor, seq);"
    "CREATE INDEX audit_by_time ON audit (at_ms);"
    "CREATE TABLE audit_head (" /* what the newest event is, under HMAC too */
    "  one INTEGER PRIMARY KEY CHECK (one = 1),"
    "  seq INTEGER NOT NULL,"
    "  hash BLOB NOT NULL,"
    "  seal BLOB NOT NULL"
    ") STRICT;",

    /* Search: what was indexed of which version, and its words. Full text is
     * the engine's own (FTS5 here, tsvector in PostgreSQL). */
    "CREATE TABLE documents ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT," /* never a second time */
    "  file TEXT NOT NULL UNIQUE REFERENCES files (id) ON DELETE CASCADE,"
    "  workspace TEXT NOT NULL,"
    "  version TEXT NOT NULL,"
    "  path TEXT NOT NULL,"
    "  kind TEXT NOT NULL,"  /* text, code, csv, json, …, pdf, none */
    "  state TEXT NOT NULL," /* ready, failed, names_only, waiting */
    "  problem TEXT NOT NULL DEFAULT '',"
    "  bytes INTEGER NOT NULL DEFAULT 0," /* of text: long ones rank lower */
    "  at_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX documents_by_workspace ON documents (workspace);"
    "CREATE INDEX documents_waiting ON documents (id)"
    "  WHERE state = 'waiting';"
    /* Documents whose words must be removed; a trigger may not touch a virtual
     * table. */
    "CREATE TABLE documents_gone (id INTEGER PRIMARY KEY) STRICT;"
    "CREATE TRIGGER documents_gone AFTER DELETE ON documents BEGIN"
    "  INSERT INTO documents_gone (id) VALUES (old.id); END;"
    "CREATE VIRTUAL TABLE words USING fts5 ("
    "  path, body, tokenize = \"unicode61 remove_diacritics 2\");",

    /* Sessions by the names clients give them, pools made while serving, and
     * files uploaded for themselves. */
    "ALTER TABLE sessions ADD COLUMN identifier TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sessions ADD COLUMN cooldown_s INTEGER NOT NULL DEFAULT 0;"
    "CREATE UNIQUE INDEX sessions_by_identifier"
    "  ON sessions (tenant, pool, identifier) WHERE identifier <> '';"

    "CREATE TABLE pools ("
    "  name TEXT PRIMARY KEY,"
    "  tenant TEXT NOT NULL,"
    "  made_by TEXT NOT NULL," /* a key's id */
    "  kind INTEGER NOT NULL," /* enum pool_kind */
    "  runtime TEXT NOT NULL,"
    "  persistence TEXT NOT NULL,"
    "  ready INTEGER NOT NULL,"
    "  max_sessions INTEGER NOT NULL,"
    "  cooldown_s INTEGER NOT NULL,"
    "  memory_bytes INTEGER NOT NULL,"
    "  details TEXT NOT NULL DEFAULT '',"
    "  created_at_ms INTEGER NOT NULL,"
    "  updated_at_ms INTEGER NOT NULL"
    ") STRICT;"

    "ALTER TABLE files ADD COLUMN created_at_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE files ADD COLUMN by_execution INTEGER NOT NULL DEFAULT 0;"
    "UPDATE files SET"
    "  created_at_ms = coalesce((SELECT c.at_ms FROM versions v"
    "    JOIN commits c ON c.id = v.commit_id"
    "    WHERE v.file = files.id ORDER BY v.number LIMIT 1), modified_at_ms),"
    "  by_execution = coalesce((SELECT c.execution <> '' FROM versions v"
    "    JOIN commits c ON c.id = v.commit_id"
    "    WHERE v.file = files.id ORDER BY v.number LIMIT 1), 0);"

    "CREATE TABLE library ("
    "  file TEXT PRIMARY KEY REFERENCES files (id) ON DELETE CASCADE,"
    "  tenant TEXT NOT NULL,"
    "  purpose TEXT NOT NULL,"
    "  filename TEXT NOT NULL,"
    "  created_at_ms INTEGER NOT NULL,"
    "  expires_at_ms INTEGER NOT NULL DEFAULT 0" /* 0: never */
    ") STRICT;"
    "CREATE INDEX library_by_age ON library (tenant, created_at_ms, file);"
    "CREATE INDEX library_expiring ON library (expires_at_ms)"
    "  WHERE expires_at_ms > 0;"
    /* The purpose of a multipart upload; kept a while after its end. */
    "CREATE TABLE library_uploads ("
    "  id TEXT PRIMARY KEY,"
    "  tenant TEXT NOT NULL,"
    "  upload TEXT NOT NULL," /* its parts; of uploads while pending */
    "  filename TEXT NOT NULL,"
    "  purpose TEXT NOT NULL,"
    "  mime TEXT NOT NULL,"
    "  size INTEGER NOT NULL,"
    "  file_expires_s INTEGER NOT NULL,"
    "  status INTEGER NOT NULL," /* enum library_upload_status */
    "  file TEXT NOT NULL DEFAULT '',"
    "  created_by TEXT NOT NULL,"
    "  created_at_ms INTEGER NOT NULL,"
    "  expires_at_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX library_uploads_ending ON library_uploads (expires_at_ms);",

    /* Governance, an area a version. */
    STORE_SCHEMA_POLICY,
    STORE_SCHEMA_IDENTITY,
    STORE_SCHEMA_QUOTA,
    STORE_SCHEMA_APPROVAL,
    STORE_SCHEMA_EVIDENCE,
    STORE_SCHEMA_EGRESS,
    STORE_SCHEMA_AUDIT,
    STORE_SCHEMA_CHORES,
    STORE_SCHEMA_TASKS,
    STORE_SCHEMA_SMALL,
    STORE_SCHEMA_SHARING,
    STORE_SCHEMA_HEAD,
    STORE_SCHEMA_NAMES,
    STORE_SCHEMA_REMEMBERED,
    STORE_SCHEMA_POOL_TIMEOUT,
    STORE_SCHEMA_USAGE_HOURS,
    STORE_SCHEMA_OUTPUTS,
    STORE_SCHEMA_SCORECARDS,
    STORE_SCHEMA_MODELS,
    STORE_SCHEMA_AGENTS,
    STORE_SCHEMA_CHAT,
    STORE_SCHEMA_COMPLETIONS,
    STORE_SCHEMA_PASSAGES,
    STORE_SCHEMA_IMAGES,
    STORE_SCHEMA_ZYGOTES,
    STORE_SCHEMA_NODES,
    STORE_SCHEMA_CHAT_USE,
    STORE_SCHEMA_MIRRORS,
};

const int store_migrations_count = ARRAY_SIZE(store_migrations);
