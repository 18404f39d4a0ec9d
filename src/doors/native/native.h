/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native door, /api/…: every feature of the product, in JSON. A handler
 * decodes a request into the core's structures, makes one call and encodes the
 * answer; docs/API.md is the contract. Handlers of files and workspaces are in
 * files/, of policy, audit and quotas in govern/, of keys and sign-in in
 * account/; openapi/ generates /openapi.json from the tables of routes and
 * fields.
 */
#ifndef GLOVEBOX_DOORS_NATIVE_NATIVE_H
#define GLOVEBOX_DOORS_NATIVE_NATIVE_H

#include <jansson.h>

#include "doors/doors.h"
#include "execution/execution.h"
#include "language/language.h"
#include "workspace/workspace.h"

struct api_resource;
struct buf;
struct json_writer;
struct quota_use;

doors_handler_fn native_sessions_create;
doors_handler_fn native_sessions_list;
doors_handler_fn native_sessions_get;
doors_handler_fn native_sessions_delete;
doors_handler_fn native_sessions_reset;
doors_handler_fn native_sessions_refresh;
doors_handler_fn native_sessions_hibernate;
doors_handler_fn native_sessions_undo;
doors_handler_fn native_sessions_redo;
doors_handler_fn native_sessions_branch;
doors_handler_fn native_sessions_merge;
doors_handler_fn native_sessions_patch;
doors_handler_fn native_sessions_keepalive;
doors_handler_fn native_sessions_interrupt;

doors_handler_fn native_executions_create;
doors_handler_fn native_executions_list;
doors_handler_fn native_executions_all;
doors_handler_fn native_executions_get;
doors_handler_fn native_executions_events;
doors_handler_fn native_sessions_complete, native_sessions_inspect,
    native_sessions_variables;
doors_handler_fn native_executions_cancel, native_executions_input;
doors_handler_fn native_run;

doors_handler_fn native_files_list;
doors_handler_fn native_files_get;
doors_handler_fn native_files_put;
doors_handler_fn native_files_delete;

doors_handler_fn native_pools_list;
doors_handler_fn native_pools_get;
doors_handler_fn native_pools_create;
doors_handler_fn native_pools_patch;
doors_handler_fn native_pools_delete;
doors_handler_fn native_runtimes_list;
doors_handler_fn native_runtimes_get;
doors_handler_fn native_nodes_list;
doors_handler_fn native_nodes_get;
doors_handler_fn native_nodes_drain;
doors_handler_fn native_nodes_activate;
doors_handler_fn native_limits_get;

doors_handler_fn native_keys_whoami;
doors_handler_fn native_me_get;
doors_handler_fn native_scorecard_run;
doors_handler_fn native_scorecard_list;
doors_handler_fn native_table_read;
doors_handler_fn native_live_events;
doors_handler_fn native_console_config;
doors_handler_fn native_console_login;
doors_handler_fn native_console_logout;
doors_handler_fn native_console_link;
doors_handler_fn native_oidc_start;
doors_handler_fn native_oidc_callback;
doors_handler_fn native_keys_create;
doors_handler_fn native_keys_list;
doors_handler_fn native_keys_revoke;
doors_handler_fn native_keys_patch;
doors_handler_fn native_keys_rotate;

doors_handler_fn native_workspaces_create;
doors_handler_fn native_workspaces_list;
doors_handler_fn native_workspaces_get;
doors_handler_fn native_workspaces_patch;
doors_handler_fn native_workspaces_delete;
doors_handler_fn native_workspaces_undelete;
doors_handler_fn native_upkeep_purge;
doors_handler_fn native_workspaces_usage;

doors_handler_fn native_members_list;
doors_handler_fn native_members_set;
doors_handler_fn native_members_remove;
doors_handler_fn native_transfer_give;
doors_handler_fn native_transfer_offer;
doors_handler_fn native_transfer_offers;
doors_handler_fn native_mirror_set;
doors_handler_fn native_mirror_get;
doors_handler_fn native_mirror_unset;
doors_handler_fn native_mirror_attach;
doors_handler_fn native_transfer_revoke;
doors_handler_fn native_transfer_claim;

doors_handler_fn native_tree_list;
doors_handler_fn native_tree_info;
doors_handler_fn native_tree_get;
doors_handler_fn native_tree_find;
doors_handler_fn native_tree_content;
doors_handler_fn native_change_put;
doors_handler_fn native_change_delete;
doors_handler_fn native_change_move;
doors_handler_fn native_change_copy;
doors_handler_fn native_change_restore;
doors_handler_fn native_form_post;
doors_handler_fn native_archive_get;

doors_handler_fn native_versions_history;
doors_handler_fn native_versions_provenance;
doors_handler_fn native_versions_diff;
doors_handler_fn native_versions_conversation;

doors_handler_fn native_locks_create;
doors_handler_fn native_locks_list;
doors_handler_fn native_locks_renew;
doors_handler_fn native_locks_release;

doors_handler_fn native_shares_create;
doors_handler_fn native_shares_link;
doors_handler_fn native_shares_list;
doors_handler_fn native_shares_revoke;
doors_handler_fn native_visit_get;
doors_handler_fn native_visit_put;
doors_handler_fn native_visit_post;

doors_handler_fn native_uploads_create;
doors_handler_fn native_uploads_get;
doors_handler_fn native_uploads_part;
doors_handler_fn native_uploads_complete;
doors_handler_fn native_uploads_abort;

doors_handler_fn native_search_query;
doors_handler_fn native_search_status;
doors_handler_fn native_questions_ask;

doors_handler_fn native_tools_save;
doors_handler_fn native_tools_list;
doors_handler_fn native_tools_all;
doors_handler_fn native_tools_get;
doors_handler_fn native_tools_versions;
doors_handler_fn native_tools_delete;
doors_handler_fn native_tools_run;

doors_handler_fn native_agents_create;
doors_handler_fn native_agents_list;
doors_handler_fn native_agents_get;
doors_handler_fn native_agents_patch;
doors_handler_fn native_agents_delete;
doors_handler_fn native_agents_add_version;
doors_handler_fn native_agents_versions;
doors_handler_fn native_agents_version;
doors_handler_fn native_agents_delete_version;

doors_handler_fn native_audit_query;
doors_handler_fn native_audit_verify;
doors_handler_fn native_upkeep_collect;
doors_handler_fn native_upkeep_verify;
doors_handler_fn native_upkeep_backup;
doors_handler_fn native_upkeep_seal;
doors_handler_fn native_upkeep_schedule;
doors_handler_fn native_upkeep_set_schedule;

doors_handler_fn native_quotas_own;
doors_handler_fn native_usage_history;
doors_handler_fn native_conversations_list;
doors_handler_fn native_conversations_create;
doors_handler_fn native_conversations_get;
doors_handler_fn native_conversations_patch;
doors_handler_fn native_conversations_delete;
doors_handler_fn native_conversations_items;
doors_handler_fn native_conversations_export;
doors_handler_fn native_policy_test;
doors_handler_fn native_quotas_get;
doors_handler_fn native_quotas_put;

doors_handler_fn native_openapi_get;

/* ---- shared within the door --------------------------------------------- */

enum native_mode {
    NATIVE_SYNC,
    NATIVE_STREAM,
    NATIVE_ASYNC
};

#define NATIVE_LOCKS_MAX 16u
#define NATIVE_SCOPES_MAX 16u
#define NATIVE_NOTE_MAX 256u /* bytes of a conversation, message or note */
#define NATIVE_QUOTAS_BYTES 4096u /* of a body that sets some */
#define NATIVE_CHUNK ((size_t)64 << 10)

/* spec.c: a body to the core's own structures, which borrow from the body
 * and from the request. */
int native_spec_session(struct doors_call *call, const json_t *body,
                        struct session_spec *ret, struct error *err);
int native_spec_execution(struct doors_call *call, const json_t *body,
                          struct exec_spec *ret, enum native_mode *ret_mode,
                          struct error *err);
/* A run is both, and files (may be NULL). */
int native_spec_run(struct doors_call *call, const json_t *body,
                    struct session_spec *ret_session,
                    struct exec_spec *ret_exec, enum native_mode *ret_mode,
                    json_t **ret_files, struct error *err);

/* ask.c: what a request says. Strings are the request's or the body's, which
 * is owned by caller (NULL when it was left out). */
/* The body by its resource, which the route's row names. */
int native_read(struct doors_call *call, const struct api_resource *r,
                void *ret, json_t **ret_json, struct error *err);
/* Without a body every field is absent. */
int native_read_maybe(struct doors_call *call, const struct api_resource *r,
                      void *ret, json_t **ret_json, struct error *err);
/* ?limit and ?after */
int native_ask_page(struct doors_call *call, unsigned max, unsigned fallback,
                    unsigned *ret_limit, const char **ret_after,
                    struct error *err);
int native_ask_flag(struct doors_call *call, const char *name, bool *ret,
                    struct error *err);
int native_ask_time(struct doors_call *call, const char *name, int64_t *ret,
                    struct error *err); /* 0 when absent */
int native_ask_text(struct doors_call *call, const char *name, size_t max,
                    const char **ret, struct error *err);
struct native_locks {
    const char *tokens[NATIVE_LOCKS_MAX];
    size_t count;
};
int native_ask_locks(struct doors_call *call, struct native_locks *ret,
                     struct error *err); /* X-Glovebox-Lock */
int native_ask_conditions(struct doors_call *call,
                          struct workspace_commit_spec *ret,
                          struct error *err); /* If-Match, If-None-Match */
/* A media type worth keeping, of a Content-Type header, or NULL. */
const char *native_ask_type(struct doors_call *call, const char *header);

/* receive.c: bytes of a client into a blob, at most upload_bytes. Durable with
 * the transaction that refers to it (blob_finish_soon). */
struct native_blob {
    struct blobs *blobs;     /* NULL: nothing to release */
    char domain[BLOB_OWNER]; /* whose, where that is known before; or "" */
    char sha256[BLOB_NAME];
    uint64_t size;
};
int native_receive_body(struct doors_call *call, const char *workspace,
                        struct native_blob *ret, struct error *err);
int native_receive_from(struct doors_call *call, const char *workspace,
                        http_read_fn *read, void *ctx, struct native_blob *ret,
                        struct error *err);
http_read_fn native_receive_read; /* the request's body; ctx: doors_call */
void native_receive_done(struct native_blob *b); /* for cleanup() */

/* run.c: runs to the end and answers with the execution: 200, or 202 while it
 * waits for approval. In that session, or in one that is made for the run. */
int native_run_session(struct doors_call *call, const char *session,
                       const struct exec_spec *spec, struct error *err);
int native_run_once(struct doors_call *call, const char *workspace,
                    const struct exec_spec *spec, struct error *err);

/* change.c */
bool native_change_is_new(const struct workspace_commit *c);
/* A commit of one file: 201 when it is new, else 200. */
void native_change_respond_file(struct doors_call *call, const char *workspace,
                                const struct workspace_commit *c);

/* resources.c: every resource that /openapi.json describes, ended by NULL;
 * their tables stand beside the code that reads or writes them. */
extern const struct api_resource *const native_resources[];
extern const struct api_resource native_lock_spec, native_renew_spec,
    native_lock, native_lock_made, native_share_spec, native_link_spec,
    native_share, native_share_made, native_shared_file, native_share_put,
    native_workspace_spec, native_workspace_patch, native_retention_patch,
    native_retention, native_workspace, native_member, native_role_spec,
    native_transfer_spec, native_offer_spec, native_claim_spec, native_offer,
    native_offer_made, native_usage, native_mirror_spec, native_mirror,
    native_attach_spec, native_attached, native_entry, native_file,
    native_file_put, native_move_spec, native_commit, native_change,
    native_upload_spec, native_upload, native_upload_part,
    native_complete_spec, native_version, native_provenance, native_diff,
    native_restore_spec, native_session_file, native_session_put,
    native_approval_whole, native_delivery, native_approval_reason,
    native_reach, native_reach_network, native_secret_spec, native_secret,
    native_usage_hour, native_usage_history_resource, native_policy_cases,
    native_policy_case, native_conversation, native_policy_tested,
    native_quotas, native_quota, native_quota_values, native_key_spec,
    native_key_patch, native_key, native_key_made, native_caller,
    native_execution_row, native_token_spec, native_token, native_token_made,
    native_policy_text, native_policy_record, native_policy_state,
    native_policy_checked, native_policy_explain_body, native_policy_explained,
    native_audit_report, native_audit_keys, native_audit_key,
    native_audit_checkpoint, native_evidence_row, native_evidence,
    native_search_hit, native_search_state, native_session_network,
    native_destination, native_package, native_node, native_runtime,
    native_runtime_whole, native_posture, native_gate, native_gate_check,
    native_posture_service, native_question, native_citation, native_answer,
    native_posture_sandboxes, native_posture_memory, native_posture_pool,
    native_posture_wall, native_posture_setting, native_backup_spec,
    native_purge_spec, native_session_patch, native_collected,
    native_execution, native_execution_error, native_execution_truncated,
    native_execution_limit, native_execution_usage, native_execution_files,
    native_execution_network, native_connection, native_session_spec,
    native_limits_spec, native_execution_spec, native_input_spec,
    native_look_spec, native_run_spec, native_run_file_spec, native_session,
    native_limits, native_refreshed, native_pool_spec, native_pool_change,
    native_pool, native_pool_limits, native_service_limits, native_me,
    native_console_settings, native_console_oidc, native_console_login_body,
    native_console_link_made, native_table_spec, native_table,
    native_scorecard, native_backup_schedule, native_backup_schedule_spec,
    native_model_spec, native_model, native_model_test, native_model_trial,
    native_tool_spec, native_tool_run, native_tool, native_agent_spec,
    native_agent_version_spec, native_agent_patch, native_agent,
    native_agent_version, native_conversation_spec, native_conversation_file,
    native_conversation_item, native_session_memory, native_undone,
    native_undo_spec, native_branch_spec, native_branches;
extern const char *const native_pool_kinds[]; /* by enum pool_kind */
extern const char *const native_persistences[];
/* By enum session_sharing, from SESSION_SHARING_PRINCIPAL on. */
extern const char *const native_sharings[];
extern const char *const native_roles[]; /* from ROLE_VIEWER on */
/* A writer of an answer whose URLs begin as doors_url_base says. */
struct json_writer native_writer(const struct doors_call *call,
                                 struct buf *out);
/* Answers with one, or with {"data":[ … ],"has_more":…}. */
void native_respond(struct doors_call *call, unsigned status,
                    const struct api_resource *r, const void *object);
void native_respond_list(struct doors_call *call, const struct api_resource *r,
                         const void *objects, size_t count, bool more);

/* encode.c */
/* base_url: as doors_url_base. */
void native_encode_execution(struct execution *e, const char *base_url,
                             struct buf *out);
/* One event as JSON; text is that of a stdout or stderr event. */
void native_encode_event(struct execution *e, const struct exec_event *event,
                         const char *text, size_t text_len,
                         const char *base_url, struct buf *out);

/* encode_files.c: workspaces and what is in them. */
/* The URL of a version's bytes; null without a file. */
void native_encode_url(struct json_writer *w, const char *key,
                       const char *file, const char *version);
/* {"data":[ … ],"has_more":…} */
void native_encode_list(struct json_writer *w);
void native_encode_list_end(struct json_writer *w, bool more);
/* What the resources of the same names are written from; copies that borrow.
 */
struct native_file_view { /* native_file, native_entry */
    struct workspace_file file;
    const char *workspace;
};
struct native_file_put_view {
    struct native_file_view file;
    const char *commit, *change;
};
struct native_commit_view {
    struct workspace_commit commit;
    const char *workspace;
};
struct native_version_view {
    struct workspace_event event;
    const char *workspace;
};
/* A field "warning" of what may reach everything; as api_write_fn. */
void native_encode_open_means(struct json_writer *w, const char *key,
                              const void *object);

/* The tenant of the first key: its administrators are the operators, who see
 * and set what concerns the service as a whole. */
#define OPERATORS "default"
/* me.c */
bool native_operates(const struct doors_call *call);
/* ERR_FORBIDDEN for all others; what: what they may not do, "make backups". */
int native_operators_only(const struct doors_call *call, const char *what,
                          struct error *err);

/* policy.c */
doors_handler_fn native_policy_get;
doors_handler_fn native_policy_put;
doors_handler_fn native_policy_versions;
doors_handler_fn native_policy_version;
doors_handler_fn native_policy_check;
doors_handler_fn native_policy_explain;
doors_handler_fn native_policy_reload;
doors_handler_fn native_policy_adopt;

/* keys.c: names of scopes, and of what a key is bound to */
int native_keys_scopes(const json_t *array, uint32_t *ret, struct error *err);
/* The fields keys and tokens share. */
void native_keys_write_scopes(struct json_writer *w, const char *key,
                              const void *object);
#define NATIVE_KEY_FIELDS(id_, expiry)                                        \
    {"id", API_STRING, API_AT(struct auth_key, id), .help = (id_)},           \
        {"tenant", API_STRING, API_AT(struct auth_key, tenant)},              \
        {"name", API_STRING, API_NULLABLE, API_AT(struct auth_key, name)},    \
        {"scopes", API_ARRAY, .write = native_keys_write_scopes},             \
        {"pools", API_ARRAY, API_NULLABLE,                                    \
         API_AT(struct auth_key, bounds.ids[ACTOR_POOLS]),                    \
         .help = "null: not bound to any"},                                   \
        {"workspaces", API_ARRAY, API_NULLABLE,                               \
         API_AT(struct auth_key, bounds.ids[ACTOR_WORKSPACES])},              \
        {"sessions", API_ARRAY, API_NULLABLE,                                 \
         API_AT(struct auth_key, bounds.ids[ACTOR_SESSIONS])},                \
        {"created_at", API_TIME, API_AT(struct auth_key, created_at_ms)},     \
        {"expires_at", API_TIME, (expiry),                                    \
         API_AT(struct auth_key, expires_at_ms)},                             \
    {                                                                         \
        "last_used_at", API_TIME, API_NULLABLE,                               \
            API_AT(struct auth_key, last_used_at_ms)                          \
    }

/* The credential of a request; the key comes first, for its writers. */
struct native_caller {
    struct auth_key key;
    char token[ID_MAX];
};
void native_keys_caller(const struct principal *who,
                        struct native_caller *ret);

/* console.c: mints the console's token from a credential that was checked and
 * sets the cookie; scopes 0: all of parent's. Fills call->who. */
int native_console_sign_in(struct doors_call *call,
                           const struct principal *parent, uint32_t scopes,
                           struct error *err);

/* live.c: the doors_door's lifecycle. */
int native_live_open(struct doors *doors, struct error *err);
void native_live_stop(struct doors *doors);
void native_live_close(struct doors *doors);

/* me.c: answers with who that is. */
int native_me_respond(struct doors_call *call, const struct principal *who,
                      struct error *err);

/* quotas.c: the quotas of a tenant with their use, its storage included;
 * ret: QUOTA_KINDS of them. */
int native_quotas_uses(struct doors_call *call, const char *tenant,
                       struct quota_use *ret, struct error *err);

/* tokens.c */
doors_handler_fn native_tokens_create;
doors_handler_fn native_tokens_list;
doors_handler_fn native_tokens_revoke;

/* approvals.c */
doors_handler_fn native_approvals_list;
doors_handler_fn native_approvals_get;
doors_handler_fn native_approvals_approve;
doors_handler_fn native_approvals_deny;
doors_handler_fn native_approvals_withdraw;

/* evidence.c */
doors_handler_fn native_evidence_get;
doors_handler_fn native_evidence_list;

/* export.c: the audit trail for others, and what proves it */
doors_handler_fn native_export_get;
doors_handler_fn native_export_key;
doors_handler_fn native_export_checkpoints;
doors_handler_fn native_export_sign;

/* audit.c: whose events are asked for: *ret NULL for all (operators only) */
int native_audit_tenant(struct doors_call *call, const char **ret,
                        struct error *err);

/* network.c */
doors_handler_fn native_network_get;
doors_handler_fn native_network_put;

/* secrets.c */
doors_handler_fn native_secrets_put;
doors_handler_fn native_secrets_get;
doors_handler_fn native_secrets_list;
doors_handler_fn native_secrets_remove;

/* models.c */
doors_handler_fn native_models_list;
doors_handler_fn native_models_get;
doors_handler_fn native_models_create;
doors_handler_fn native_models_remove;
doors_handler_fn native_models_test;

/* posture.c */
doors_handler_fn native_posture_get;

/* events.c: answers with the events after number `after`. e: taken. When the
 * answer is over session (may be NULL) is deleted. */
void native_events_respond(struct doors_call *call, struct execution *e,
                           uint32_t after, const char *session);

#endif
