/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources of the native door: the list that /openapi.json is made from,
 * and answers by their tables. Runs on a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "approval/approval.h"
#include "audit/format.h"
#include "base/arena.h"
#include "base/buf.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- the list ----------------------------------------------------------- */

const struct api_resource *const native_resources[] = {
    &http_error_resource, &http_error_body_resource,
    &http_error_quota_resource, &http_held_resource, &http_held_body_resource,
    /* locks and shares */
    &native_lock_spec, &native_renew_spec, &native_lock, &native_lock_made,
    &native_share_spec, &native_link_spec, &native_share, &native_share_made,
    &native_shared_file, &native_share_put,
    /* workspaces */
    &native_workspace_spec, &native_workspace_patch, &native_retention_patch,
    &native_retention, &native_workspace, &native_member, &native_role_spec,
    &native_transfer_spec, &native_offer_spec, &native_claim_spec,
    &native_offer, &native_offer_made, &native_usage, &native_mirror_spec,
    &native_mirror, &native_attach_spec, &native_attached,
    /* files */
    &native_entry, &native_file, &native_file_put, &native_move_spec,
    &native_commit, &native_change, &native_upload_spec, &native_upload,
    &native_upload_part, &native_complete_spec,
    /* versions */
    &native_version, &native_provenance, &native_diff, &native_restore_spec,
    /* conversations */
    &native_conversation, &native_conversation_spec, &native_conversation_file,
    &native_conversation_item,
    /* files of a session */
    &native_session_file, &native_session_put,
    /* approvals */
    &approval_resource, &native_approval_whole, &native_delivery,
    &native_reach, &native_reach_network, &native_approval_reason,
    /* secrets */
    &native_secret_spec, &native_secret,
    /* models */
    &native_model_spec, &native_model, &native_model_test, &native_model_trial,
    /* quotas */
    &native_quotas, &native_quota, &native_quota_values, &native_usage_hour,
    &native_usage_history_resource,
    /* keys and tokens */
    &native_key_spec, &native_key_patch, &native_key, &native_key_made,
    &native_caller, &native_execution_row, &native_token_spec, &native_token,
    &native_token_made,
    /* policy */
    &native_policy_text, &native_policy_record, &native_policy_state,
    &native_policy_checked, &native_policy_explain_body, &native_policy_cases,
    &native_policy_case, &native_policy_tested, &policy_request_resource,
    &native_policy_explained,
    /* the audit trail */
    &audit_event_resource, &native_audit_report, &native_audit_keys,
    &native_audit_key, &native_audit_checkpoint,
    /* evidence */
    &native_evidence_row, &native_evidence,
    /* search */
    &native_search_hit, &native_search_state, &native_question,
    &native_citation, &native_answer,
    /* networks */
    &network_resource, &network_destination_resource, &native_session_network,
    &native_destination, &native_package,
    /* runtimes */
    &native_node, &native_runtime, &native_runtime_whole,
    /* the service */
    &native_posture, &native_gate, &native_gate_check, &native_posture_service,
    &native_posture_sandboxes, &native_posture_memory, &native_posture_pool,
    &native_posture_setting, &native_posture_wall, &native_backup_spec,
    &native_collected, &native_purge_spec, &native_backup_schedule,
    &native_backup_schedule_spec,
    /* executions */
    &native_execution, &native_execution_error, &native_execution_truncated,
    &native_execution_limit, &native_execution_usage, &native_execution_files,
    &native_execution_network, &native_connection,
    /* sessions, and code to run */
    &native_session_spec, &native_limits_spec, &native_execution_spec,
    &native_input_spec, &native_look_spec, &native_run_spec,
    &native_run_file_spec, &native_session, &native_limits, &native_refreshed,
    &native_session_patch, &native_session_memory, &native_undone,
    &native_undo_spec, &native_branch_spec, &native_branches,
    /* pools and limits */
    &native_pool_spec, &native_pool_change, &native_pool, &native_pool_limits,
    &native_service_limits,
    /* the caller, and the web console */
    &native_me, &native_console_settings, &native_console_oidc,
    &native_console_login_body, &native_console_link_made, &native_table_spec,
    &native_table, &native_scorecard,
    /* agents */
    &native_agent_spec, &native_agent_version_spec, &native_agent_patch,
    &native_agent, &native_agent_version,
    /* tools of a workspace */
    &native_tool_spec, &native_tool_run, &native_tool, NULL};

const char *const native_pool_kinds[] = {"python", "shell", "javascript",
                                         "custom", NULL};
const char *const native_persistences[] = {"workspace", "ephemeral", NULL};
const char *const native_sharings[] = {"principal", "tenant", NULL};
const char *const native_roles[] = {"viewer", "editor", "owner", NULL};

/* Lists often name the same principal in a row. */
_Static_assert(AUTH_NAME_MAX == 64, "as json_writer has it");

struct last_name {
    struct auth *auth;
    char id[ID_MAX], name[AUTH_NAME_MAX];
};

static void name_of(void *ctx, const char *id, char ret[64])
{
    struct last_name *last = ctx;

    if (strcmp(last->id, id) != 0) {
        (void)snprintf(last->id, sizeof(last->id), "%s", id);
        auth_key_name(last->auth, id, last->name);
    }
    memcpy(ret, last->name, sizeof(last->name));
}

struct json_writer native_writer(const struct doors_call *call,
                                 struct buf *out)
{
    struct last_name *last =
        arena_alloc(http_arena(call->http), sizeof(*last));

    *last = (struct last_name){.auth = call->doors->auth};
    return (struct json_writer){.out = out,
                                .base_url = doors_url_base(call),
                                .name_of = name_of,
                                .name_ctx = last};
}

void native_respond(struct doors_call *call, unsigned status,
                    const struct api_resource *r, const void *object)
{
    struct buf body = {0};
    struct json_writer w = native_writer(call, &body);

    api_write(&w, NULL, r, object);
    http_respond_json(call->http, status, &body);
}

void native_respond_list(struct doors_call *call, const struct api_resource *r,
                         const void *objects, size_t count, bool more)
{
    struct buf body = {0};
    struct json_writer w = native_writer(call, &body);

    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        api_write(&w, NULL, r, (const char *)objects + i * r->size);
    native_encode_list_end(&w, more);
    http_respond_json(call->http, 200, &body);
}
