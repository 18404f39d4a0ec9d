/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named agents: found, and who may change them; put.c, delete.c and list.c do
 * the rest. Runs in gloveboxd on the caller's thread. Events of the trail have
 * names and numbers, never instructions.
 */
#include "agents/agents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents_int.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "core/core.h"
#include "govern/govern.h"
#include "store/store.h"
#include "json/json.h"

#define INSTRUCTIONS_SHOWN 2000 /* bytes, to an approver */

struct agents *agents_open(const struct agents_parts *parts,
                           const struct agents_limits *limits)
{
    struct agents *a = xcalloc(1, sizeof(*a));

    a->core = parts->core;
    a->models = parts->models;
    a->workspaces = parts->workspaces;
    a->sessions = parts->sessions;
    a->limits =
        limits ? *limits
               : (struct agents_limits){.agents = AGENTS_PER_TENANT,
                                        .versions = AGENTS_VERSIONS_MAX,
                                        .total = AGENTS_VERSIONS_PER_TENANT,
                                        .bytes = AGENTS_BYTES_PER_TENANT};
    return a;
}

void agents_close(struct agents *a)
{
    free(a);
}

void agent_version_done(struct agent_version *v)
{
    free(take_ptr(v->description));
    json_decref(take_ptr(v->metadata));
    json_decref(take_ptr(v->definition));
}

void agent_versions_free(struct agent_version *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        agent_version_done(&list[i]);
    free(list);
}

void agent_info_done(struct agent_info *info)
{
    free(take_ptr(info->endpoint));
    free(take_ptr(info->card));
    agent_version_done(&info->latest);
    agent_version_done(&info->put);
}

void agent_infos_free(struct agent_info *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        agent_info_done(&list[i]);
    free(list);
}

/* ---- looking ------------------------------------------------------------
 */

int agents_get(struct agents *a, const struct actor *who, const char *name,
               struct agent_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(a->core->store, STORE_READ, "looking for an agent",
                        &tx, err);

    return r < 0 ? r : agents_rows_info(tx, who->tenant, name, ret, err);
}

int agents_version(struct agents *a, const struct actor *who, const char *name,
                   const char *version, struct agent_version *ret,
                   struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t number = 0;
    int r = store_begin(a->core->store, STORE_READ, "looking for an agent",
                        &tx, err);

    if (r == 0)
        r = agents_rows_info(tx, who->tenant, name, &info, err);
    if (r < 0)
        return r;
    if (!agents_rows_number(version, &number))
        return agents_rows_unknown_version(name, version, err);
    r = agents_rows_find_version(tx, who->tenant, name, number, ret, err);
    if (r == 0)
        return agents_rows_unknown_version(name, version, err);
    return MIN(r, 0);
}

/* ---- for responses ------------------------------------------------------
 */

/* The version with the largest share of the endpoint's traffic; 0: none. */
static int64_t selected_version(const char *endpoint)
{
    json_error_t why;
    json_t *json cleanup(json_unref) = json_loads(endpoint, 0, &why);
    const json_t *rules = json_object_get(
        json_object_get(json, "version_selector"), "version_selection_rules");
    int64_t found = 0;
    double most = 0;

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i);
        const char *version =
            json_string_value(json_object_get(rule, "agent_version"));
        double share =
            json_number_value(json_object_get(rule, "traffic_percentage"));
        int64_t number = 0;

        if (version && share > most && agents_rows_number(version, &number)) {
            most = share;
            found = number;
        }
    }
    return found;
}

int agents_find(struct agents *a, const struct actor *who, const char *name,
                const char *version, enum agents_pick pick,
                struct agent_version *ret, struct error *err)
{
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t number = 0;
    int r = store_begin(a->core->store, STORE_READ, "looking for an agent",
                        &tx, err);

    if (r == 0)
        r = agents_rows_info(tx, who->tenant, name, &info, err);
    if (r < 0)
        return r;
    if (!info.enabled) {
        (void)error_set(err, ERR_FORBIDDEN, "agent '%s' is disabled", name);
        return error_hint(err, "Enable it with: glovebox agents enable %s",
                          name);
    }
    if (version && !agents_rows_number(version, &number))
        return agents_rows_unknown_version(name, version, err);
    if (!version && pick == AGENTS_ENDPOINT)
        number = selected_version(info.endpoint);
    if (number) {
        r = agents_rows_find_version(tx, who->tenant, name, number, ret, err);
        if (r != 0 || version)
            return r == 0 ? agents_rows_unknown_version(name, version, err)
                          : MIN(r, 0);
    }
    *ret = info.latest;
    info.latest = (struct agent_version){.number = 0};
    return 0;
}

/* ---- rights -------------------------------------------------------------
 */

int agents_may_change(const struct agents_row *row, const struct actor *who,
                      const char *name, struct error *err)
{
    if (row->shared || (who->scopes & AUTH_ADMIN) ||
        strcmp(row->owner, who->key) == 0)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "the agent '%.63s' belongs to another principal", name);
    return error_hint(err, "Its owner and admins of the tenant may change "
                           "it.");
}

/* Policy, and approval where a rule asks for it. */
int agents_enforce(struct agents *a, const struct actor *who,
                   const char *change, const char *name,
                   const json_t *definition, struct error *err)
{
    struct govern govern = {a->core->policy, a->core->approvals};
    struct govern_request rq =
        govern_agent(&(struct govern_scope){.actor = who});
    char *summary cleanup(mem_free) =
        xasprintf("%s the agent '%s'", change, name);
    char *text cleanup(mem_free) =
        definition ? json_dumps(definition, JSON_COMPACT | JSON_SORT_KEYS)
                   : NULL;
    const char *instructions =
        json_string_value(json_object_get(definition, "instructions"));
    char *shown cleanup(mem_free) =
        instructions ? xasprintf("%.*s", INSTRUCTIONS_SHOWN, instructions)
                     : NULL;
    unsigned char hash[HASH_SIZE];
    char hex[2 * HASH_SIZE + 1] = "";

    if (text) {
        hash_sha256(text, strlen(text), hash);
        (void)ids_hex(hash, sizeof(hash), hex);
    }
    rq.object = name;
    rq.summary = summary;
    govern_add(&rq, "change", change);
    govern_add(&rq, "agent", name);
    govern_add(&rq, "model",
               json_string_value(json_object_get(definition, "model")));
    govern_add(&rq, "instructions", shown);
    govern_add(&rq, "definition_sha256", hex);
    return govern_enforce(&govern, &rq, err);
}
