/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and changes agents. A change is decided by policy first, then made in
 * one transaction with its event of the trail. Runs in gloveboxd on the
 * caller's thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents_int.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/core.h"
#include "model/model.h"
#include "store/store.h"
#include "json/json.h"

#define CARD_MAX 16384u /* bytes of agent_endpoint or agent_card */

/* What is stored of a version, as text. */
struct texts {
    char *definition, *metadata;
    const char *description;
    int64_t bytes;
};

static void texts_done(struct texts *t)
{
    free(t->definition);
    free(t->metadata);
}

static int make_texts(const struct agent_spec *spec, struct texts *ret,
                      struct agents_fault *fault, struct error *err)
{
    ret->definition = json_dumps(spec->definition, JSON_COMPACT);
    ret->metadata = spec->metadata && !json_is_null(spec->metadata)
                        ? json_dumps(spec->metadata, JSON_COMPACT)
                        : xstrdup("{}");
    ret->description = spec->description ? spec->description : "";
    if (!ret->definition || !ret->metadata)
        return error_set(err, ERR_INTERNAL, "the agent cannot be encoded");
    ret->bytes = (int64_t)(strlen(ret->definition) + strlen(ret->metadata) +
                           strlen(ret->description));
    if (strlen(ret->definition) <= AGENTS_DEFINITION_MAX)
        return 0;
    if (fault)
        (void)snprintf(fault->param, sizeof(fault->param), "definition");
    return error_set(err, ERR_TOO_LARGE,
                     "the definition has %zu bytes; %u are allowed",
                     strlen(ret->definition), AGENTS_DEFINITION_MAX);
}

static int check_name(const char *name, struct agents_fault *fault,
                      struct error *err)
{
    if (name && agents_name_valid(name))
        return 0;
    return agents_invalid(fault, "name", err,
                          "the name of an agent must start and end with a "
                          "letter or digit, can have hyphens between, and "
                          "must not have more than %u characters",
                          AGENTS_NAME_MAX);
}

static int check_spec(const struct agent_spec *spec,
                      struct agents_fault *fault, struct error *err)
{
    int r = check_name(spec->name, fault, err);

    if (r == 0 && spec->description &&
        agents_characters(spec->description) > AGENTS_DESCRIPTION_MAX)
        r = agents_invalid(fault, "description", err,
                           "description must not have more than %u "
                           "characters",
                           AGENTS_DESCRIPTION_MAX);
    if (r == 0)
        r = agents_check_metadata(spec->metadata, fault, err);
    if (r == 0)
        r = agents_check_definition(spec->definition, fault, err);
    return r;
}

/* A version names a model that exists when it is made. */
static int check_model(struct agents *a, const struct actor *who,
                       const json_t *definition, struct agents_fault *fault,
                       struct error *err)
{
    const char *name = json_string_value(json_object_get(definition, "model"));
    struct model_info info = {.name = NULL};
    int r = a->models ? model_find(a->models, who, name, &info, err) : 0;

    if (r == 0 && a->models)
        model_info_clear(&info);
    if (r != -ERR_NOT_FOUND)
        return r;
    if (fault)
        (void)snprintf(fault->param, sizeof(fault->param), "definition.model");
    err->code = ERR_INVALID;
    return -ERR_INVALID;
}

static int check_card(const json_t *v, const char *name,
                      struct agents_fault *fault, struct error *err)
{
    if (!v || json_is_null(v) || json_is_object(v))
        return 0;
    return agents_invalid(fault, name, err, "%s must be an object", name);
}

/* RFC 7396: null removes. ret: owned by caller */
static json_t *merge_patch(const json_t *old, const json_t *patch)
{
    json_t *merged, *v;
    const char *key;

    if (!json_is_object(patch))
        return json_deep_copy(patch);
    merged = json_is_object(old) ? json_deep_copy(old) : json_object();
    json_object_foreach ((json_t *)(uintptr_t)patch, key, v) {
        if (json_is_null(v))
            (void)json_object_del(merged, key);
        else
            (void)json_object_set_new(
                merged, key, merge_patch(json_object_get(merged, key), v));
    }
    return merged;
}

/* *text: replaced by what the patch makes of it; "" for none. */
static int patch_card(char **text, const json_t *patch, const char *name,
                      struct agents_fault *fault, struct error *err)
{
    json_error_t why;
    json_t *old cleanup(json_unref) = json_loads(*text, 0, &why);
    json_t *merged cleanup(json_unref) = NULL;
    char *dump;

    if (!patch)
        return 0;
    merged = merge_patch(old, patch);
    dump = json_is_object(merged) ? json_dumps(merged, JSON_COMPACT)
                                  : xstrdup("");
    if (dump && strlen(dump) <= CARD_MAX) {
        free(*text);
        *text = dump;
        return 0;
    }
    free(dump);
    return agents_invalid(fault, name, err,
                          "%s must not have more than %u bytes", name,
                          CARD_MAX);
}

static int check_limits(struct agents *a, struct store_tx *tx,
                        const char *tenant, const struct agents_row *row,
                        int64_t bytes, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT (SELECT count(*) FROM agents"
                      "  WHERE tenant = ?1 AND alive = 1),"
                      " count(*), coalesce(sum(bytes), 0)"
                      " FROM agent_versions WHERE tenant = ?1",
                      "t", tenant);

    if (r <= 0)
        return r;
    if (!row->alive && store_int(rows, 0) >= a->limits.agents)
        (void)error_set(err, ERR_LIMIT, "a tenant may have %lld agents",
                        (long long)a->limits.agents);
    else if (row->versions >= a->limits.versions)
        (void)error_set(err, ERR_LIMIT, "an agent may have %lld versions",
                        (long long)a->limits.versions);
    else if (store_int(rows, 1) >= a->limits.total)
        (void)error_set(err, ERR_LIMIT,
                        "a tenant may have %lld versions of agents",
                        (long long)a->limits.total);
    else if (store_int(rows, 2) + bytes > a->limits.bytes)
        (void)error_set(err, ERR_LIMIT,
                        "the agents of a tenant may have %lld bytes together",
                        (long long)a->limits.bytes);
    else
        return 0;
    return error_hint(err, "Delete agents or versions that are not needed.");
}

static int write_row(struct store_tx *tx, const char *tenant, const char *name,
                     const struct agents_row *row, struct error *err)
{
    return MIN(store_exec(tx, err,
                          "INSERT INTO agents (tenant, name, alive, enabled,"
                          " shared, owner, number, endpoint, card,"
                          " created_at_ms, updated_at_ms)"
                          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
                          " ?10, ?11)"
                          " ON CONFLICT (tenant, name) DO UPDATE SET"
                          " alive = ?3, enabled = ?4, shared = ?5,"
                          " owner = ?6, number = ?7, endpoint = ?8,"
                          " card = ?9, created_at_ms = ?10,"
                          " updated_at_ms = ?11",
                          "ttiiititt"
                          "ii",
                          tenant, name, (int64_t)row->alive,
                          (int64_t)row->enabled, (int64_t)row->shared,
                          row->owner, row->number,
                          row->endpoint ? row->endpoint : "",
                          row->card ? row->card : "", row->created_at_ms,
                          row->updated_at_ms),
               0);
}

static int write_version(struct store_tx *tx, const struct actor *who,
                         const char *name, int64_t number, bool draft,
                         const struct texts *t, int64_t now, struct error *err)
{
    return MIN(store_exec(tx, err,
                          "INSERT INTO agent_versions (tenant, name, number,"
                          " draft, bytes, description, metadata, definition,"
                          " created_at_ms, created_by)"
                          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                          "ttiiitttit", who->tenant, name, number,
                          (int64_t)draft, t->bytes, t->description,
                          t->metadata, t->definition, now, who->key),
               0);
}

/* Does the newest version, drafts included, have the same content? */
static int same_as_newest(struct store_tx *tx, const struct actor *who,
                          const struct agent_spec *spec, const struct texts *t,
                          int64_t *ret_number, struct error *err)
{
    struct agent_version v cleanup(agent_version_done) = {.number = 0};
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    json_error_t why;
    json_t *metadata cleanup(json_unref) = json_loads(t->metadata, 0, &why);
    int r = store_one(tx, &rows, err,
                      "SELECT " AGENTS_VERSION_COLUMNS
                      " FROM agent_versions WHERE tenant = ?1 AND name = ?2"
                      " ORDER BY number DESC LIMIT 1",
                      "tt", who->tenant, spec->name);

    if (r <= 0)
        return r;
    r = agents_rows_read_version(rows, spec->name, &v, err);
    if (r < 0)
        return r;
    *ret_number = v.number;
    return v.draft == spec->draft &&
           strcmp(v.description, t->description) == 0 &&
           json_equal(v.metadata, metadata) == 1 &&
           json_equal(v.definition, spec->definition) == 1;
}

struct put {
    struct agents_row row;
    bool is_new;    /* the agent itself */
    bool version;   /* a new one is needed */
    int64_t number; /* of it, or of the one that is equal */
};

static void put_done(struct put *p)
{
    agents_row_done(&p->row);
}

/* What a put would do; the same before policy is asked and in the transaction
 * that does it. */
static int plan_put(struct agents *a, struct store_tx *tx,
                    const struct actor *who, const struct agent_spec *spec,
                    enum agents_mode mode, const struct texts *t,
                    struct put *ret, struct agents_fault *fault,
                    struct error *err)
{
    int r = agents_rows_find(tx, who->tenant, spec->name, &ret->row, err);

    if (r < 0)
        return r;
    ret->is_new = r == 0 || !ret->row.alive;
    if (ret->is_new && mode == AGENTS_UPDATE)
        return agents_rows_unknown(spec->name, err);
    if (!ret->is_new && mode == AGENTS_CREATE) {
        (void)error_set(err, ERR_CONFLICT,
                        "there is an agent called '%s' already", spec->name);
        return error_hint(err, "Add a version to it instead.");
    }
    r = ret->is_new ? 0 : agents_may_change(&ret->row, who, spec->name, err);
    if (r == 0 && !ret->is_new)
        r = same_as_newest(tx, who, spec, t, &ret->number, err);
    if (r < 0)
        return r;
    ret->version = r == 0;
    if (ret->is_new) {
        int64_t number = ret->row.number;

        agents_row_done(&ret->row);
        ret->row = (struct agents_row){.enabled = true,
                                       .shared = who->shares,
                                       .number = number,
                                       .endpoint = xstrdup(""),
                                       .card = xstrdup("")};
        (void)snprintf(ret->row.owner, sizeof(ret->row.owner), "%s", who->key);
    }
    r = ret->version
            ? check_limits(a, tx, who->tenant, &ret->row, t->bytes, err)
            : 0;
    if (r == 0)
        r = patch_card(&ret->row.endpoint, spec->endpoint, "agent_endpoint",
                       fault, err);
    if (r == 0)
        r = patch_card(&ret->row.card, spec->card, "agent_card", fault, err);
    if (r == 0 && spec->enabled >= 0)
        ret->row.enabled = spec->enabled != 0;
    return r;
}

static int do_put(struct agents *a, struct store_tx *tx,
                  const struct actor *who, const struct agent_spec *spec,
                  struct put *p, const struct texts *t, struct error *err)
{
    int64_t now = clock_real_ms();
    char before[ID_MAX + 24] = "", after[AGENTS_NAME_MAX + 24];
    struct audit_event event = {.action = p->is_new ? "agent.create"
                                                    : "agent.version",
                                .object = spec->name,
                                .after = after};
    int r;

    if (!p->is_new) {
        (void)snprintf(before, sizeof(before), "%lld",
                       (long long)p->row.number);
        event.before = before;
    } else {
        p->row.alive = true;
        p->row.created_at_ms = now;
    }
    p->row.updated_at_ms = now;
    if (p->version)
        p->number = ++p->row.number;
    else
        event.action = "agent.update";
    (void)snprintf(after, sizeof(after), "%lld", (long long)p->row.number);
    r = write_row(tx, who->tenant, spec->name, &p->row, err);
    if (r == 0 && p->version)
        r = write_version(tx, who, spec->name, p->row.number, spec->draft, t,
                          now, err);
    if (r == 0)
        r = audit_add(a->core->audit, tx, who, &event, err);
    return r;
}

int agents_put(struct agents *a, const struct actor *who,
               const struct agent_spec *spec, enum agents_mode mode,
               struct agent_info *ret, bool *ret_new,
               struct agents_fault *fault, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct texts t cleanup(texts_done) = {.definition = NULL};
    struct put first cleanup(put_done) = {.is_new = false};
    struct put second cleanup(put_done) = {.is_new = false};
    struct agent_info info cleanup(agent_info_done) = {.enabled = false};
    bool changes;
    int r = check_spec(spec, fault, err);

    if (r == 0)
        r = check_model(a, who, spec->definition, fault, err);
    if (r == 0)
        r = make_texts(spec, &t, fault, err);
    if (r == 0)
        r = check_card(spec->endpoint, "agent_endpoint", fault, err);
    if (r == 0)
        r = check_card(spec->card, "agent_card", fault, err);
    if (r == 0)
        r = store_begin(a->core->store, STORE_READ, "looking for an agent",
                        &tx, err);
    if (r == 0)
        r = plan_put(a, tx, who, spec, mode, &t, &first, fault, err);
    store_rollback(&tx);
    if (r != 0)
        return r;
    changes =
        first.version || spec->endpoint || spec->card || spec->enabled >= 0;
    if (changes) {
        r = agents_enforce(a, who, first.is_new ? "create" : "change",
                           spec->name, spec->definition, err);
        if (r < 0)
            return r;
    }
    r = store_begin(a->core->store, changes ? STORE_WRITE : STORE_READ,
                    "storing an agent", &tx, err);
    if (r == 0 && changes) {
        r = plan_put(a, tx, who, spec, mode, &t, &second, fault, err);
        if (r == 0)
            r = do_put(a, tx, who, spec, &second, &t, err);
    }
    if (r == 0)
        r = agents_rows_info(tx, who->tenant, spec->name, &info, err);
    if (r == 0)
        r = agents_rows_find_version(tx, who->tenant, spec->name,
                                     changes ? second.number : first.number,
                                     &info.put, err);
    if (r >= 0 && changes)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    *ret = info;
    info = (struct agent_info){.enabled = false};
    *ret_new = second.version;
    return 0;
}

int agents_change(struct agents *a, const struct actor *who,
                  const struct agent_spec *spec, struct agent_info *ret,
                  struct agents_fault *fault, struct error *err)
{
    struct agents_row row cleanup(agents_row_done) = {.alive = false};
    struct agents_row fresh cleanup(agents_row_done) = {.alive = false};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {.action = "agent.update",
                                .object = spec->name};
    int r = check_card(spec->endpoint, "agent_endpoint", fault, err);

    if (r == 0)
        r = check_card(spec->card, "agent_card", fault, err);
    if (r == 0)
        r = store_begin(a->core->store, STORE_READ, "looking for an agent",
                        &tx, err);
    if (r == 0)
        r = agents_rows_find(tx, who->tenant, spec->name, &row, err);
    store_rollback(&tx);
    if (r < 0)
        return r;
    r = row.alive ? agents_may_change(&row, who, spec->name, err)
                  : agents_rows_unknown(spec->name, err);
    if (r == 0)
        r = agents_enforce(a, who,
                           spec->enabled < 0 ? "change"
                           : spec->enabled   ? "enable"
                                             : "disable",
                           spec->name, NULL, err);
    if (r == 0)
        r = store_begin(a->core->store, STORE_WRITE, "changing an agent", &tx,
                        err);
    if (r == 0)
        r = agents_rows_find(tx, who->tenant, spec->name, &fresh, err);
    if (r < 0)
        return r;
    if (!fresh.alive) /* deleted meanwhile */
        return agents_rows_unknown(spec->name, err);
    if (spec->enabled >= 0) {
        fresh.enabled = spec->enabled != 0;
        event.action = spec->enabled ? "agent.enable" : "agent.disable";
    }
    fresh.updated_at_ms = clock_real_ms();
    r = patch_card(&fresh.endpoint, spec->endpoint, "agent_endpoint", fault,
                   err);
    if (r == 0)
        r = patch_card(&fresh.card, spec->card, "agent_card", fault, err);
    if (r == 0)
        r = write_row(tx, who->tenant, spec->name, &fresh, err);
    if (r == 0)
        r = audit_add(a->core->audit, tx, who, &event, err);
    if (r == 0)
        r = agents_rows_info(tx, who->tenant, spec->name, ret, err);
    return r < 0 ? r : store_commit(&tx, err);
}
