/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the table `policies`: every text that was ever in force, by its
 * number. Rows are only added. Runs in the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "policy/policy_int.h"
#include "store/store.h"

#define LIST_MAX 1000u
#define COLUMNS "number, at_ms, made_by, sha256, note"

void policy_version_done(struct policy_version *v)
{
    free(v->text);
    v->text = NULL;
}

static void read_row(struct store_rows *rows, bool whole,
                     struct policy_version *ret)
{
    *ret = (struct policy_version){.number = store_int(rows, 0),
                                   .at_ms = store_int(rows, 1)};
    store_copy(rows, 2, ret->by, sizeof(ret->by));
    store_copy(rows, 3, ret->sha256, sizeof(ret->sha256));
    store_copy(rows, 4, ret->note, sizeof(ret->note));
    if (whole)
        ret->text = xstrdup(store_text(rows, 5));
}

int policy_versions_get(struct store *store, int64_t number,
                        struct policy_version *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(store, STORE_READ, "looking for a policy", &tx, err);

    if (rc == 0)
        rc = store_one(tx, &rows, err,
                       "SELECT " COLUMNS ", body FROM policies"
                       " WHERE ?1 = 0 OR number = ?1"
                       " ORDER BY number DESC LIMIT 1",
                       "i", number);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return error_set(err, ERR_NOT_FOUND, "no such version of the policy");
    read_row(rows, true, ret);
    return 0;
}

static int insert(struct store_tx *tx, const struct policy_version *v,
                  int64_t *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_exec(tx, err,
                        "INSERT INTO policies (at_ms, made_by, sha256, note,"
                        " body) VALUES (?1, ?2, ?3, ?4, ?5)",
                        "itttt", v->at_ms, v->by, v->sha256, v->note, v->text);

    if (rc >= 0)
        rc = store_one(tx, &rows, err, "SELECT max(number) FROM policies", "");
    if (rc < 0)
        return rc;
    *ret = store_int(rows, 0);
    return store_notify(tx, POLICY_CHANNEL, "", err);
}

int policy_versions_add(struct store *store, struct audit *audit,
                        const struct actor *who, int64_t before,
                        struct policy_version *v, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    unsigned char digest[HASH_SIZE];
    char was[24], is[24];
    struct audit_event event = {.action = "policy.put",
                                .object = v->sha256,
                                .before = was,
                                .after = is,
                                .detail = v->note};
    int rc;

    hash_sha256(v->text, strlen(v->text), digest);
    (void)ids_hex(digest, sizeof(digest), v->sha256);
    v->at_ms = clock_real_ms();
    rc = store_begin(store, STORE_WRITE, "keeping a policy", &tx, err);
    if (rc == 0)
        rc = insert(tx, v, &v->number, err);
    if (rc < 0)
        return rc;
    (void)snprintf(was, sizeof(was), "%lld", (long long)before);
    (void)snprintf(is, sizeof(is), "%lld", (long long)v->number);
    if (audit)
        rc = audit_add(audit, tx, who, &event, err);
    return rc < 0 ? rc : store_commit(&tx, err);
}

int policy_versions_list(struct store *store, unsigned limit, int64_t before,
                         struct policy_version **ret, size_t *ret_count,
                         bool *ret_more, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct policy_version *list cleanup(mem_free) = NULL;
    size_t count = 0;
    int rc;

    if (limit < 1 || limit > LIST_MAX)
        return error_set(err, ERR_INVALID, "limit must be from 1 to %u",
                         LIST_MAX);
    rc = store_begin(store, STORE_READ, "listing policies", &tx, err);
    if (rc == 0)
        rc = store_query(tx, &rows, err,
                         "SELECT " COLUMNS " FROM policies"
                         " WHERE ?1 = 0 OR number < ?1"
                         " ORDER BY number DESC LIMIT ?2",
                         "ii", before, (int64_t)limit + 1);
    if (rc < 0)
        return rc;
    list = xcalloc(limit + 1, sizeof(*list));
    while ((rc = store_next(rows, err)) > 0)
        read_row(rows, false, &list[count++]);
    if (rc < 0)
        return rc;
    *ret_more = count > limit;
    *ret_count = MIN(count, (size_t)limit);
    *ret = take_ptr(list);
    return 0;
}
