/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of agents and of their versions, read inside a transaction of the
 * caller's. Runs in gloveboxd on the caller's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents_int.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/store.h"
#include "json/json.h"

int agents_rows_unknown(const char *name, struct error *err)
{
    (void)error_set(err, ERR_NOT_FOUND, "no agent is called '%.63s'", name);
    return error_hint(err, "GET /api/agents lists them.");
}

int agents_rows_unknown_version(const char *name, const char *version,
                                struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "the agent '%.63s' has no version '%.20s'", name,
                     version);
}

/* A decimal number from 1, without leading zeros. */
bool agents_rows_number(const char *text, int64_t *ret)
{
    int64_t number = 0;

    if (*text < '1' || *text > '9' || strlen(text) > 15)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        number = number * 10 + (*text - '0');
    }
    *ret = number;
    return true;
}

/* Stored JSON is ours: it was checked before. */
static int load_json(const char *text, json_t **ret, struct error *err)
{
    json_error_t why;

    *ret = json_loads(text ? text : "", 0, &why);
    return *ret ? 0
                : error_set(err, ERR_CORRUPT, "a stored agent is damaged: %s",
                            why.text);
}

int agents_rows_read_version(struct store_rows *rows, const char *name,
                             struct agent_version *ret, struct error *err)
{
    struct agent_version v cleanup(agent_version_done) = {
        .number = store_int(rows, 0),
        .draft = store_int(rows, 1) != 0,
        .created_at_ms = store_int(rows, 5)};
    int r;

    (void)snprintf(v.name, sizeof(v.name), "%s", name);
    v.description = xstrdup(store_text(rows, 2));
    r = load_json(store_text(rows, 3), &v.metadata, err);
    if (r == 0)
        r = load_json(store_text(rows, 4), &v.definition, err);
    if (r < 0)
        return r;
    store_copy(rows, 6, v.created_by, sizeof(v.created_by));
    agents_read_definition(&v);
    *ret = v;
    v = (struct agent_version){.number = 0};
    return 0;
}

/* 1, 0, or -code. number 0: the newest that is no draft, else the newest. */
int agents_rows_find_version(struct store_tx *tx, const char *tenant,
                             const char *name, int64_t number,
                             struct agent_version *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = number ? store_one(tx, &rows, err,
                               "SELECT " AGENTS_VERSION_COLUMNS
                               " FROM agent_versions WHERE tenant = ?1"
                               " AND name = ?2 AND number = ?3",
                               "tti", tenant, name, number)
                   : store_one(tx, &rows, err,
                               "SELECT " AGENTS_VERSION_COLUMNS
                               " FROM agent_versions WHERE tenant = ?1"
                               " AND name = ?2 ORDER BY draft, number DESC"
                               " LIMIT 1",
                               "tt", tenant, name);

    if (r <= 0)
        return r;
    r = agents_rows_read_version(rows, name, ret, err);
    return r < 0 ? r : 1;
}

void agents_row_done(struct agents_row *row)
{
    free(row->endpoint);
    free(row->card);
}

/* 1, 0, or -code; a deleted one is found, too. */
int agents_rows_find(struct store_tx *tx, const char *tenant, const char *name,
                     struct agents_row *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT alive, enabled, shared, owner, number,"
                      " created_at_ms, updated_at_ms, endpoint, card,"
                      " (SELECT count(*) FROM agent_versions v"
                      "  WHERE v.tenant = agents.tenant"
                      "  AND v.name = agents.name)"
                      " FROM agents WHERE tenant = ?1 AND name = ?2",
                      "tt", tenant, name);

    if (r <= 0)
        return r;
    *ret = (struct agents_row){.alive = store_int(rows, 0) != 0,
                               .enabled = store_int(rows, 1) != 0,
                               .shared = store_int(rows, 2) != 0,
                               .number = store_int(rows, 4),
                               .created_at_ms = store_int(rows, 5),
                               .updated_at_ms = store_int(rows, 6),
                               .versions = store_int(rows, 9),
                               .endpoint = xstrdup(store_text(rows, 7)),
                               .card = xstrdup(store_text(rows, 8))};
    store_copy(rows, 3, ret->owner, sizeof(ret->owner));
    return 1;
}

int agents_rows_info(struct store_tx *tx, const char *tenant, const char *name,
                     struct agent_info *ret, struct error *err)
{
    struct agents_row row cleanup(agents_row_done) = {.alive = false};
    struct agent_version latest cleanup(agent_version_done) = {.number = 0};
    int r = agents_rows_find(tx, tenant, name, &row, err);

    if (r < 0)
        return r;
    if (r == 0 || !row.alive)
        return agents_rows_unknown(name, err);
    r = agents_rows_find_version(tx, tenant, name, 0, &latest, err);
    if (r <= 0)
        return r < 0 ? r : agents_rows_unknown(name, err);
    *ret = (struct agent_info){.enabled = row.enabled,
                               .shared = row.shared,
                               .created_at_ms = row.created_at_ms,
                               .updated_at_ms = row.updated_at_ms,
                               .versions = row.versions,
                               .latest = latest};
    latest = (struct agent_version){.number = 0};
    ret->endpoint = take_ptr(row.endpoint);
    ret->card = take_ptr(row.card);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
    memcpy(ret->owner, row.owner, sizeof(ret->owner));
    return 0;
}
