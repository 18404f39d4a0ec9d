/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes agents and versions. The row of a deleted agent stays, so that a
 * number is not used twice for a name. Runs in gloveboxd on the caller's
 * thread.
 */
#include <stdio.h>

#include "agents/agents_int.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"
#include "store/store.h"

#define REMEMBERED_MAX 1000 /* names of deleted agents of a tenant */

/* The row stays, without what it had; the oldest such rows go. */
static int bury(struct store_tx *tx, const char *tenant, const char *name,
                struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE agents SET alive = 0, endpoint = '',"
                       " card = '', updated_at_ms = ?3"
                       " WHERE tenant = ?1 AND name = ?2",
                       "tti", tenant, name, clock_real_ms());

    if (r >= 0)
        r = store_exec(tx, err,
                       "DELETE FROM agents WHERE tenant = ?1 AND alive = 0"
                       " AND updated_at_ms < (SELECT min(u) FROM"
                       "  (SELECT updated_at_ms AS u FROM agents"
                       "   WHERE tenant = ?1 AND alive = 0"
                       "   ORDER BY updated_at_ms DESC LIMIT ?2) newest)",
                       "ti", tenant, (int64_t)REMEMBERED_MAX);
    return MIN(r, 0);
}

/* number 0: all versions. */
static int remove_in(struct agents *a, struct store_tx *tx,
                     const struct actor *who, const char *name,
                     const char *version, int64_t number, struct error *err)
{
    struct agents_row row cleanup(agents_row_done) = {.alive = false};
    struct audit_event event = {.action = number ? "agent.version.delete"
                                                 : "agent.delete",
                                .object = name,
                                .before = version};
    int r = agents_rows_find(tx, who->tenant, name, &row, err);

    if (r < 0)
        return r;
    if (!row.alive)
        return agents_rows_unknown(name, err);
    r = agents_may_change(&row, who, name, err);
    if (r < 0)
        return r;
    r = number ? store_exec(tx, err,
                            "DELETE FROM agent_versions WHERE tenant = ?1"
                            " AND name = ?2 AND number = ?3",
                            "tti", who->tenant, name, number)
               : store_exec(tx, err,
                            "DELETE FROM agent_versions WHERE tenant = ?1"
                            " AND name = ?2",
                            "tt", who->tenant, name);
    if (r == 0 && number)
        return agents_rows_unknown_version(name, version, err);
    if (r >= 0 && (!number || row.versions == 1))
        r = bury(tx, who->tenant, name, err);
    return r < 0 ? r : audit_add(a->core->audit, tx, who, &event, err);
}

static int remove_agent(struct agents *a, const struct actor *who,
                        const char *name, const char *version, int64_t number,
                        struct error *err)
{
    struct agents_row row cleanup(agents_row_done) = {.alive = false};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(a->core->store, STORE_READ, "looking for an agent",
                        &tx, err);

    if (r == 0)
        r = agents_rows_find(tx, who->tenant, name, &row, err);
    store_rollback(&tx);
    if (r < 0)
        return r;
    r = row.alive ? agents_may_change(&row, who, name, err)
                  : agents_rows_unknown(name, err);
    if (r == 0)
        r = agents_enforce(a, who, number ? "delete a version of" : "delete",
                           name, NULL, err);
    if (r == 0)
        r = store_begin(a->core->store, STORE_WRITE, "deleting an agent", &tx,
                        err);
    if (r == 0)
        r = remove_in(a, tx, who, name, version, number, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int agents_delete(struct agents *a, const struct actor *who, const char *name,
                  struct error *err)
{
    return remove_agent(a, who, name, NULL, 0, err);
}

int agents_delete_version(struct agents *a, const struct actor *who,
                          const char *name, const char *version,
                          struct error *err)
{
    int64_t number = 0;

    if (!agents_rows_number(version, &number))
        return agents_rows_unknown_version(name, version, err);
    return remove_agent(a, who, name, version, number, err);
}
