/* SPDX-License-Identifier: Apache-2.0 */
/* What tenants may use, and what they have used. */
#ifndef GLOVEBOX_STORE_SCHEMA_QUOTA_H
#define GLOVEBOX_STORE_SCHEMA_QUOTA_H

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

#endif
