/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each execution afterwards. */
#ifndef GLOVEBOX_STORE_SCHEMA_EVIDENCE_H
#define GLOVEBOX_STORE_SCHEMA_EVIDENCE_H

#define STORE_SCHEMA_EVIDENCE                                                 \
    "CREATE TABLE evidence ("                                                 \
    "  execution TEXT PRIMARY KEY,"                                           \
    "  tenant TEXT NOT NULL,"                                                 \
    "  session TEXT NOT NULL,"                                                \
    "  at_ms INTEGER NOT NULL,"                                               \
    "  outcome TEXT NOT NULL,"                                                \
    "  code_sha256 TEXT NOT NULL,"                                            \
    "  body TEXT NOT NULL" /* JSON */                                         \
    ") STRICT;"                                                               \
    "CREATE INDEX evidence_by_tenant ON evidence (tenant, at_ms);"            \
    "CREATE INDEX evidence_by_age ON evidence (at_ms);"

#endif
