/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds an act for a person's approval; a repeated request learns the answer.
 * Runs in gloveboxd on the caller's thread. Each call is one transaction, so
 * that of two concurrent repeats only one uses the grant.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval_int.h"
#include "audit/audit.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"

/* Of what makes two asks the same. No part can hold the separator. */
static void fingerprint(const struct approval_spec *spec, char ret[HASH_HEX])
{
    struct buf all cleanup(buf_done) = {0};
    unsigned char sum[HASH_SIZE];

    buf_addf(&all, "%s\n%s\n%d\n%s\n", spec->who->tenant, spec->who->key,
             (int)spec->action, spec->payload);
    hash_sha256(all.data, all.len, sum);
    (void)ids_hex(sum, sizeof(sum), ret);
}

static void copy_text(char *ret, size_t size, const char *text)
{
    (void)snprintf(ret, size, "%s", text ? text : "");
}

static struct approval_info info_of(const struct approvals *a,
                                    const struct approval_spec *spec)
{
    struct approval_info info = {
        .action = spec->action,
        .policy_version = spec->by->version,
        .asked_at_ms = approval_now(a),
        .payload = (char *)(uintptr_t)spec->payload, /* borrowed */
    };
    uint32_t wait_s =
        spec->by->expires_s ? spec->by->expires_s : a->set.expires_s;

    ids_make("apr", info.id);
    copy_text(info.tenant, sizeof(info.tenant), spec->who->tenant);
    copy_text(info.asked_by, sizeof(info.asked_by), spec->who->key);
    copy_text(info.asked_by_name, sizeof(info.asked_by_name), spec->who->name);
    copy_text(info.session, sizeof(info.session), spec->session);
    copy_text(info.object, sizeof(info.object), spec->object);
    copy_text(info.pool, sizeof(info.pool), spec->pool);
    copy_text(info.workspace, sizeof(info.workspace), spec->workspace);
    copy_text(info.summary, sizeof(info.summary), spec->summary);
    copy_text(info.rule, sizeof(info.rule), spec->by->rule);
    info.expires_at_ms = info.asked_at_ms + wait_s * 1000ll;
    return info;
}

/* Clients can add waiting requests, so their number is limited. */
static int check_room(struct store_tx *tx, const struct approval_spec *spec,
                      struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t len = strlen(spec->payload);
    int rc;

    if (len > APPROVAL_PAYLOAD_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "what would have to be approved is over %u bytes",
                         APPROVAL_PAYLOAD_MAX);
    rc = store_one(tx, &rows, err,
                   "SELECT COUNT(*), COALESCE(SUM(LENGTH(payload)), 0)"
                   " FROM approvals WHERE tenant = ?1 AND " SQL_PENDING,
                   "t", spec->who->tenant);
    if (rc < 0)
        return rc;
    if (store_int(rows, 0) < APPROVAL_PENDING_MAX &&
        store_int(rows, 1) + (int64_t)len <= APPROVAL_PENDING_BYTES)
        return 0;
    (void)error_set(err, ERR_LIMIT,
                    "too much waits for approval already: %lld of %u",
                    (long long)store_int(rows, 0), APPROVAL_PENDING_MAX);
    (void)error_hint(err, "have some decided, or withdraw them");
    return error_retry(err, 60);
}

static int insert_pending(struct approvals *a, struct store_tx *tx,
                          const struct approval_spec *spec,
                          struct approval_info *ret, struct error *err)
{
    struct approval_info info = info_of(a, spec);
    char print[HASH_HEX];
    int rc = check_room(tx, spec, err);

    if (rc < 0)
        return rc;
    fingerprint(spec, print);
    rc = approval_rows_insert(a, tx, spec->who, &info, print, err);
    info.payload = NULL;
    if (rc == 0)
        *ret = info;
    return rc;
}

int approval_ask(struct approvals *a, const struct approval_spec *spec,
                 struct approval_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct approval_info info;
    int rc;

    if (!a) /* no approvals here, so it is denied */
        return error_set(err, ERR_FORBIDDEN, "this needs an approval");
    rc = store_begin(a->store, STORE_WRITE, "holding it for approval", &tx,
                     err);
    if (rc == 0)
        rc = insert_pending(a, tx, spec, &info, err);
    if (rc == 0)
        rc = store_commit(&tx, err);
    if (rc < 0)
        return rc;
    *ret = info;
    worker_wake(&a->worker); /* its end may be the next thing due */
    worker_wake(&a->poster);
    return 0;
}

/* ---- for what the client repeats ---------------------------------------- */

/* The newest ask of the same that still means something. */
static int find_same(struct approvals *a, struct store_tx *tx,
                     const struct approval_spec *spec,
                     struct approval_info *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char print[HASH_HEX];
    int rc;

    fingerprint(spec, print);
    rc = store_one(tx, &rows, err,
                   "SELECT " APPROVAL_COLUMNS
                   " FROM approvals WHERE fingerprint = ?1 AND ("
                   "  (" SQL_PENDING " AND expires_at_ms > ?2)"
                   "  OR (" SQL_APPROVED " AND " SQL_NOT_RUN
                   "      AND expires_at_ms > ?2)"
                   "  OR (" SQL_DENIED " AND decided_at_ms > ?3))"
                   " ORDER BY asked_at_ms DESC, id DESC LIMIT 1",
                   "tii", print, approval_now(a),
                   approval_now(a) - APPROVAL_DENIED_FOR_MS);
    if (rc > 0)
        approval_rows_read(a, rows, false, ret);
    return rc;
}

static int use_up(struct approvals *a, struct store_tx *tx,
                  const struct approval_spec *spec,
                  const struct approval_info *info, struct error *err)
{
    int rc = store_exec(tx, err,
                        "UPDATE approvals SET run = ?2, outcome = 'used'"
                        " WHERE id = ?1 AND " SQL_APPROVED " AND " SQL_NOT_RUN,
                        "ti", info->id, (int64_t)APPROVAL_RUN_DONE);

    if (rc == 0)
        return error_set(err, ERR_CONFLICT, "%s is used up", info->id);
    return rc < 0 ? rc
                  : approval_note(a, tx, spec->who, "approval.use", info,
                                  info->summary, err);
}

static int say_held(const struct approval_info *info, struct error *err)
{
    (void)error_set(err, ERR_APPROVAL,
                    "this waits for approval: %s (rule '%s', policy version "
                    "%lld)",
                    info->id, info->rule, (long long)info->policy_version);
    (void)error_hint(err,
                     "Once it is approved (glovebox approvals approve %s, by "
                     "another key with the scope 'approve'), send the same "
                     "request again.",
                     info->id);
    (void)snprintf(err->approval, sizeof(err->approval), "%s", info->id);
    return -ERR_APPROVAL;
}

int approval_need(struct approvals *a, const struct approval_spec *spec,
                  struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct approval_info info = {.state = APPROVAL_PENDING};
    bool granted = false;
    int rc;

    if (!a)
        return error_set(err, ERR_FORBIDDEN, "this needs an approval");
    rc = store_begin(a->store, STORE_WRITE, "holding it for approval", &tx,
                     err);
    if (rc == 0)
        rc = find_same(a, tx, spec, &info, err);
    if (rc > 0 && info.state == APPROVAL_DENIED) {
        (void)error_set(err, ERR_FORBIDDEN, "%s was denied by %s%s%s", info.id,
                        approval_decider(&info), info.reason[0] ? ": " : "",
                        info.reason);
        return error_hint(err, "It can be requested again an hour after the "
                               "denial.");
    }
    if (rc > 0) {
        granted = info.state == APPROVAL_APPROVED;
        rc = granted ? use_up(a, tx, spec, &info, err) : 0;
    } else if (rc == 0) {
        rc = insert_pending(a, tx, spec, &info, err);
    }
    if (rc == 0)
        rc = store_commit(&tx, err);
    if (rc < 0 || granted)
        return rc;
    worker_wake(&a->worker);
    worker_wake(&a->poster);
    return say_held(&info, err);
}
