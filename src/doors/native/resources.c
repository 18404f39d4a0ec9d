/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources of the native door: the list that /openapi.json is made from,
 * and answers by their tables. Runs on a worker of the daemon.
 */
#include "api/api.h"
#include "approval/approval.h"
#include "audit/format.h"
#include "base/buf.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- errors, as http/ writes them --------------------------------------- */

#define ERROR_FIELDS(code_)                                                   \
    {"code", API_STRING, .help = (code_)},                                    \
        {"message", API_STRING, .help = "for people"},                        \
    {                                                                         \
        "hint", API_STRING, API_OPTIONAL, .help = "what to do about it"       \
    }

static const struct api_field error_body_fields[] = {
    ERROR_FIELDS("stable, for programs"),
};
static API_SCHEMA(error_body, "ErrorBody", NULL, error_body_fields,
                  "What went wrong, and what to do about it.");
static const struct api_field error_fields[] = {
    {"error", API_OBJECT, .of = &error_body},
};
static API_SCHEMA(error, "Error", NULL, error_fields,
                  "Every refusal and failure.");
static const struct api_field held_body_fields[] = {
    ERROR_FIELDS("pending_approval"),
    {"approval", API_STRING, .help = "its id, apr_…"},
};
static API_SCHEMA(held_body, "HeldBody", NULL, held_body_fields,
                  "Ask the same again once it is approved.");
static const struct api_field held_fields[] = {
    {"error", API_OBJECT, .of = &held_body},
};
static API_SCHEMA(held, "Held", NULL, held_fields,
                  "Not done: policy wants somebody to approve it first.");

/* ---- the list ----------------------------------------------------------- */

const struct api_resource *const native_resources[] = {
    &error, &error_body, &held, &held_body,
    /* locks and shares */
    &native_lock_spec, &native_renew_spec, &native_lock, &native_lock_made,
    &native_share_spec, &native_share, &native_share_made, &native_shared_file,
    &native_share_put,
    /* workspaces */
    &native_workspace_spec, &native_workspace_patch, &native_retention_patch,
    &native_retention, &native_workspace, &native_member, &native_role_spec,
    &native_transfer_spec, &native_offer_spec, &native_claim_spec,
    &native_offer, &native_offer_made, &native_usage,
    /* files */
    &native_entry, &native_file, &native_file_put, &native_move_spec,
    &native_commit, &native_change, &native_upload_spec, &native_upload,
    &native_upload_part, &native_complete_spec,
    /* versions */
    &native_version, &native_provenance, &native_diff, &native_restore_spec,
    /* files of a session */
    &native_session_file, &native_session_put,
    /* approvals */
    &approval_resource, &native_approval_whole, &native_delivery,
    &native_approval_reason,
    /* secrets */
    &native_secret_spec, &native_secret,
    /* quotas */
    &native_quotas, &native_quota, &native_quota_values,
    /* keys and tokens */
    &native_key_spec, &native_key, &native_key_made, &native_token_spec,
    &native_token, &native_token_made,
    /* policy */
    &native_policy_text, &native_policy_record, &native_policy_state,
    &native_policy_checked, &native_policy_explain_body,
    &native_policy_explained,
    /* the audit trail */
    &audit_event_resource, &native_audit_report, &native_audit_keys,
    &native_audit_key, &native_audit_checkpoint,
    /* evidence */
    &native_evidence_row, &native_evidence,
    /* search */
    &native_search_hit, &native_search_state,
    /* networks */
    &session_network_spec, &session_destination_spec, &native_session_network,
    &native_destination, &native_package,
    /* runtimes */
    &native_runtime, &native_runtime_whole,
    /* the service */
    &native_posture, &native_gate, &native_gate_check, &native_posture_service,
    &native_posture_sandboxes, &native_posture_memory, &native_posture_pool,
    &native_backup_spec, &native_collected, &native_purge_spec,
    /* executions */
    &native_execution, &native_execution_error, &native_execution_truncated,
    &native_execution_limit, &native_execution_usage, &native_execution_files,
    &native_execution_network, &native_connection,
    /* sessions, and code to run */
    &native_session_spec, &native_limits_spec, &native_execution_spec,
    &native_run_spec, &native_run_file_spec, &native_session, &native_limits,
    &native_refreshed, &native_session_patch,
    /* pools and limits */
    &native_pool_spec, &native_pool_change, &native_pool, &native_pool_limits,
    &native_service_limits, NULL};

const char *const native_languages[] = {"python", "shell", NULL};
const char *const native_persistences[] = {"workspace", "ephemeral", NULL};
const char *const native_sharings[] = {"principal", "tenant", NULL};
const char *const native_roles[] = {"viewer", "editor", "owner", NULL};

void native_respond(struct doors_call *call, unsigned status,
                    const struct api_resource *r, const void *object)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    api_write(&w, NULL, r, object);
    http_respond_json(call->http, status, &body);
}

void native_respond_list(struct doors_call *call, const struct api_resource *r,
                         const void *objects, size_t count, bool more)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        api_write(&w, NULL, r, (const char *)objects + i * r->size);
    native_encode_list_end(&w, more);
    http_respond_json(call->http, 200, &body);
}
