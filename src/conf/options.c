/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of options: the one place where an option is named, bounded,
 * given its default and explained. Read by every other file of conf/ in the
 * daemon and the command line. A new option is a field in conf.h and a row
 * here; docs/CONFIG.md and packaging/glovebox.yaml are printed from it.
 */
#include <string.h>

#include "base/mem.h"
#include "conf/conf_int.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define DAY_S 86400

#define TOP(field) offsetof(struct conf, field)
#define POOL(field) offsetof(struct conf_pool, field)
#define MODEL(field) offsetof(struct conf_model, field)
#define BUCKET(field) offsetof(struct conf_bucket, field)

static const struct conf_option top[] = {
    {"listen", CONF_LISTEN, TOP(listen_host), 0, 65535, "127.0.0.1:8650",
     .help = "Address and port to serve on: `HOST:PORT`, an IPv6 address in "
             "brackets. HOST is a numeric address or `localhost`. Port 0 "
             "takes any free one."},
    {"allow_remote", CONF_BOOL, TOP(allow_remote), 0, 1, "false",
     .help =
         "Permit a `listen` address other than loopback. Give "
         "`tls_certificate` and `tls_key`, or `tls: auto`, or put a TLS "
         "proxy in front: without TLS, keys and files cross the network in the "
         "clear."},
    {"trust_proxy", CONF_BOOL, TOP(trust_proxy), 0, 1, "false",
     .help = "A TLS proxy is in front of the service: its "
             "`X-Forwarded-Proto` and `X-Forwarded-Host` decide how URLs in "
             "answers begin. The service uses no other header of a proxy."},
    {"public_url", CONF_STRING, TOP(public_url), 0, 512, "",
     .help = "How clients reach the service, for example "
             "`https://glovebox.example.com` or, below a path of a proxy, "
             "`https://example.com/glovebox`. URLs in answers begin with it. "
             "Empty: with the address that the request was sent to (its "
             "`Host`; see `trust_proxy`). Announcements of approvals have a "
             "URL only if it is set."},
    {"tls", CONF_ENUM, TOP(tls), 0, 0, "manual", .allowed = "manual|auto",
     .help = "`manual`: HTTPS if `tls_certificate` and `tls_key` are given, "
             "else plain HTTP. `auto`: HTTPS with a certificate of a private "
             "authority that the service makes and keeps in `tls/` of the "
             "data directory. The local command line trusts it; other "
             "clients need the authority, `tls/ca.pem`."},
    {"tls_certificate", CONF_PATH, TOP(tls_certificate), 0, 1024, "",
     .help = "Certificate chain (PEM). With `tls_key` the service speaks "
             "HTTPS, and only that, on `listen`. Read once, at the start, "
             "with the rights of the account that starts it."},
    {"tls_key", CONF_PATH, TOP(tls_key), 0, 1024, "",
     .help = "Private key (PEM) of `tls_certificate`."},
    {"data_dir", CONF_PATH, TOP(data_dir), 1, 1024,
     "/var/lib/glovebox as root, otherwise ~/.local/share/glovebox",
     .find = conf_places_data,
     .help = "All durable data: keys, metadata, files. Back up this one "
             "directory. Flag: `--data`."},
    {"store", CONF_STRING, TOP(store), 1, 1024, "sqlite",
     .help = "Engine of the metadata store. `sqlite` keeps a database in "
             "`data_dir`. A URL, `postgres://user@host/database`, names a "
             "PostgreSQL database that several services may share. Keep the "
             "password out of the URL, in the file that `passfile=` names or "
             "in `~/.pgpass`; nothing of the URL is logged."},
    {"node_listen", CONF_STRING, TOP(node_listen), 0, 255, "",
     .help = "Address and port (`HOST:PORT`, HOST numeric) on which this node "
             "serves requests that other nodes forward, over mutual TLS. "
             "Needs a store that nodes can share (`postgres://`). Empty: this "
             "is the only node."},
    {"node_address", CONF_STRING, TOP(node_address), 0, 255, "",
     .help = "`HOST:PORT` under which other nodes reach `node_listen`. Empty: "
             "`node_listen` itself."},
    {"node_name", CONF_STRING, TOP(node_name), 0, 63, "",
     .allowed = "a-zA-Z0-9._-",
     .help = "Name of this node for people. Empty: the name of the host."},
    {"node_labels", CONF_STRING, TOP(node_labels), 0, 255, "",
     .allowed = "a-zA-Z0-9._,=-",
     .help = "Labels of this node, commas between, for example "
             "`zone=a,gpu`. A pool with `node_labels` makes its sessions only "
             "on nodes that have all of them."},
    {"node_lease_s", CONF_U32, TOP(node_lease_s), 3, 60, "12",
     .help = "Seconds after which a node that stopped answering is lost: its "
             "executions end as `lost` and its sessions wake elsewhere. A "
             "node that cannot reach the store stops its sandboxes after two "
             "thirds of this. The same on every node."},
    {"blob_bucket", CONF_STRING, TOP(blob_bucket), 0, 63, "",
     .allowed = "a-z0-9.-",
     .help = "Name of the entry of `buckets:` in which the bytes of files are "
             "stored; `data_dir` then only caches them. Empty: they are "
             "stored in `data_dir`."},
    {"blob_cache_bytes", CONF_SIZE, TOP(blob_cache_bytes), MIB, 1024 * TIB,
     "10GiB",
     .help = "Size of that cache. Files that sessions mount stay in it even "
             "if it is exceeded."},
    {"mirror_folders", CONF_STRING, TOP(mirror_folders), 0, 2048, "",
     .help = "Comma-separated absolute folders below which workspaces may be "
             "mirrored with `file:///…`; empty: nowhere. The service's "
             "account must be able to write to them."},
    {"runtime_dir", CONF_PATH, TOP(runtime_dir), 1, 1024,
     "/var/cache/glovebox/runtimes as root, otherwise "
     "~/.cache/glovebox/runtimes",
     .find = conf_places_runtimes,
     .help = "Built runtime images; they can be rebuilt and need no backup."},
    {"backup_dir", CONF_PATH, TOP(backup_dir), 1, 1024,
     "/var/backups/glovebox as root, otherwise ~/.local/state/glovebox/backups",
     .find = conf_places_backups,
     .help = "Folder of encrypted backups (`glovebox backup --every`). The "
             "service's account must be able to write to it. Use another "
             "disk than `data_dir`."},
    {"backup_key_file", CONF_PATH, TOP(backup_key_file), 0, 1024, "",
     .help = "File with the key or passphrase (16 to 4096 bytes) of encrypted "
             "backups, readable by the service's account. Empty: "
             "`backup.key` of `data_dir`, made when it is first needed. Keep "
             "a copy elsewhere: without it no backup can be restored."},
    {"runtime_defs", CONF_PATH, TOP(runtime_defs), 1, 1024,
     "the folder that came with the program", .find = conf_places_definitions,
     .help = "Folder of runtime definitions, one folder each."},
    {"service_user", CONF_STRING, TOP(service_user), 1, 32, "glovebox",
     .allowed = "a-z0-9_-",
     .help = "User the daemon becomes when it is started as root."},
    {"log_level", CONF_ENUM, TOP(log_level), 0, 0, "info",
     .allowed = "debug|info|warn|error",
     .help = "Lowest level that is logged."},
    {"log_format", CONF_ENUM, TOP(log_format), 0, 0, "text",
     .allowed = "text|json",
     .help = "Log lines as `key=value` text or as JSON."},
    {"accept_missing_walls", CONF_STRING, TOP(accept_missing_walls), 0, 512,
     "", .allowed = "a-z0-9_,-",
     .help = "Comma-separated names of isolation walls this host may lack. "
             "Any other missing wall refuses the start; `glovebox doctor` "
             "prints the names."},
    {"mcp_origins", CONF_STRING, TOP(mcp_origins), 0, 2048, "",
     .allowed = "a-zA-Z0-9:/.,_[]-",
     .help = "Comma-separated origins (`https://app.example`) whose web "
             "pages may use `/mcp`. Requests with any other `Origin` are "
             "refused, except those of a page served by this very loopback "
             "listener."},
    {"uid_base", CONF_U32, TOP(uid_base), 65536, 4294000000, "1700000000",
     .help = "First host user id given to sessions. No other user of the "
             "host may have an id of this range."},
    {"uid_count", CONF_U32, TOP(uid_count), 1000, 100000000, "1000000",
     .help = "Number of host user ids that sessions use in turn."},
    {"workers", CONF_U32, TOP(workers), 2, 1024, "192",
     .help = "Threads that serve requests and executions."},
    {"max_executions", CONF_U32, TOP(max_executions), 1, 1023, "160",
     .help = "Executions running or queued at once, of all sessions; more "
             "are answered with 429. One tenant alone has three quarters of "
             "it. Must be less than `workers`."},
    {"queue_per_session", CONF_U32, TOP(queue_per_session), 1, 1000, "16",
     .help = "Executions that may wait in one session."},
    {"chat_threads", CONF_U32, TOP(chat_threads), 1, 4096, "256",
     .help = "Responses of models that run at once; more wait for their "
             "turn."},
    {"chat_rounds", CONF_U32, TOP(chat_rounds), 1, 1000, "32",
     .help = "Calls of the model in one response. After these it has to "
             "answer without tools."},
    {"chat_tool_calls", CONF_U32, TOP(chat_tool_calls), 1, 1000, "64",
     .help = "Calls of the code interpreter in one response. A client may "
             "ask for fewer."},
    {"chat_turn_s", CONF_U32, TOP(chat_turn_s), 5, 86400, "900",
     .help = "Seconds that one response may take, code included."},
    {"chat_approval_wait_s", CONF_U32, TOP(chat_approval_wait_s), 0, 86400,
     "300",
     .help = "Seconds that a response waits for a person whose approval its "
             "code needs. After these it ends and says so; the code runs "
             "when it is approved."},
    {"sessions_per_tenant", CONF_U32, TOP(sessions_per_tenant), 1, 100000,
     "100",
     .help = "Live sessions of one tenant. At the limit the longest-idle one "
             "goes to sleep for a new one."},
    {"max_sessions", CONF_U32, TOP(max_sessions), 1, 100000, "1000",
     .help = "Live sessions on this machine. The start lowers it to what "
             "the limit of open files allows, and logs the change."},
    {"memory_overcommit", CONF_U32, TOP(memory_overcommit), 0, 10000, "50",
     .help =
         "Memory limits of all live sessions together, as a multiple of "
         "the machine's memory (or of the service's control group, if "
         "that is less); 0 is no limit. Sessions seldom use what they may, "
         "so 50 lets a machine of 24 GiB hold 1,200 sessions of 1 GiB. "
         "With 1 they can never use more than there is. A session beyond "
         "it is answered with 429."},
    {"creations_per_s", CONF_U32, TOP(creations_per_s), 0, 100000, "50",
     .help = "Sessions one tenant may create in a second; 0 is no limit."},
    {"mcp_key_grace_s", CONF_U32, TOP(mcp_key_grace_s), 0, DAY_S, "300",
     .help = "Seconds for which a session pool's MCP keys stay valid after "
             "they were rotated; 0 ends them at once."},
    {"final_expiry_tenants", CONF_STRING, TOP(final_expiry_tenants), 0, 4096,
     "", .allowed = "a-z0-9_,*-",
     .help = "Comma-separated tenants whose sessions end when they expire, "
             "as clients of some services expect; `*` is all. Sessions of "
             "other tenants become dormant and wake when they are used. "
             "Files are kept either way."},
    {"tenant_sharing", CONF_STRING, TOP(tenant_sharing), 0, 4096, "",
     .allowed = "a-z0-9_,=*-",
     .help = "Who sees a new session, by tenant: `TENANT=principal` for "
             "the key or person that made it and admins of the tenant, "
             "`TENANT=tenant` forevery key of the tenant; separated by "
             "commas, `*` for all other tenants. A pool's `sharing`, or "
             "the session's own, comes first. Tenants that are not listed "
             "have the default of the API: `tenant` for the OpenAI and "
             "Azure APIs, `principal` for all others."},
    {"json_bytes", CONF_SIZE, TOP(json_bytes), KIB, 64 * MIB, "4MiB",
     .help = "Largest JSON body."},
    {"code_bytes", CONF_SIZE, TOP(code_bytes), 1, 64 * MIB, "1MiB",
     .help = "Largest code of one execution. At most `json_bytes`."},
    {"upload_bytes", CONF_SIZE, TOP(upload_bytes), 1, TIB, "128MiB",
     .help = "Largest file uploaded in one request."},
    {"history_bytes", CONF_SIZE, TOP(history_bytes), MIB, 64 * GIB, "128MiB",
     .help = "Memory for finished executions that can still be fetched."},
    {"history_per_session", CONF_U32, TOP(history_per_session), 1, 10000,
     "100", .help = "Finished executions kept for one session."},
    {"stop_deadline_s", CONF_U32, TOP(stop_deadline_s), 1, 600, "10",
     .help = "Seconds a stop waits for running executions before it cancels "
             "them."},
    {"header_timeout_s", CONF_U32, TOP(header_timeout_s), 1, 600, "10",
     .help = "Seconds a client has to send its headers."},
    {"idle_timeout_s", CONF_U32, TOP(idle_timeout_s), 1, 3600, "60",
     .help = "Seconds a connection may stay open without a request."},
    {"body_timeout_s", CONF_U32, TOP(body_timeout_s), 1, 3600, "20",
     .help = "Seconds a body may pause while it is being sent."},
    {"connections", CONF_U32, TOP(connections), 8, 65536, "2000",
     .help = "Connections open at once. Those that have not sent a valid key "
             "yet share a quarter of them, one address at most an eighth of "
             "all; the oldest of these is closed when another arrives."},
    {"auth_failures_per_min", CONF_U32, TOP(auth_failures_per_min), 1, 10000,
     "10",
     .help = "Failed authentications per minute of one address or key prefix "
             "before the answers to further failures (401, as always) are "
             "delayed by up to a second, for a time that grows to ten "
             "minutes. A right key is never delayed."},
    {"jwt_issuer", CONF_STRING, TOP(jwt_issuer), 0, 512, "",
     .help = "Accept signed tokens (JWT) of this issuer, beside keys: the "
             "exact text of their `iss`. Needs `jwt_audiences` and one of "
             "`jwt_jwks_url` and `jwt_jwks_file`."},
    {"jwt_audiences", CONF_STRING, TOP(jwt_audiences), 0, 2048, "",
     .help = "Comma-separated: a token must be for one of these (`aud`). "
             "Clients of Azure dynamic sessions ask for "
             "`https://dynamicsessions.io` or, older ones, for "
             "`https://acasessions.io`."},
    {"jwt_jwks_url", CONF_STRING, TOP(jwt_jwks_url), 0, 1024, "",
     .help = "Where the issuer publishes its keys (a JWK set): `https`, or "
             "`http` to this machine. Fetched at the start, every hour, and "
             "when a token names a new key."},
    {"jwt_jwks_file", CONF_PATH, TOP(jwt_jwks_file), 0, 1024, "",
     .help = "The same from a file the service user can read; it is read "
             "again when it changes."},
    {"jwt_tenant_claim", CONF_STRING, TOP(jwt_tenant_claim), 1, 64, "tid",
     .help = "Claim that names the tenant. It is changed to lower case, "
             "and characters outside of [a-z0-9_-] become `-`."},
    {"jwt_tenant", CONF_STRING, TOP(jwt_tenant), 0, 63, "",
     .allowed = "a-z0-9_-",
     .help = "Tenant of all tokens, instead of the claim."},
    {"jwt_scope_claims", CONF_STRING, TOP(jwt_scope_claims), 0, 256,
     "scp roles",
     .help = "Claims whose words are looked up in `jwt_scopes`, separated "
             "by blanks."},
    {"jwt_scopes", CONF_STRING, TOP(jwt_scopes), 0, 4096, "",
     .help =
         "Scopes of these words, for example "
         "`SessionExecutor=execute+files:read+files:write,Reader=files:read`. "
         "Other words give no scope."},
    {"jwt_default_scopes", CONF_STRING, TOP(jwt_default_scopes), 0, 128, "",
     .allowed = "a-z:,",
     .help = "Scopes of every token of the issuer, for example "
             "`execute,files:read`. A token without any scope is answered "
             "with 403."},
    {"jwt_pool_claim", CONF_STRING, TOP(jwt_pool_claim), 0, 64, "",
     .help = "Claim with the names of the pools a token is bound to: a "
             "list, or words separated by blanks. A claim that is present "
             "but empty or unreadable refuses the token; a token without "
             "the claim is not bound to pools."},
    {"jwt_workspace_claim", CONF_STRING, TOP(jwt_workspace_claim), 0, 64, "",
     .help = "The same with the ids of workspaces."},
    {"jwt_clock_skew_s", CONF_U32, TOP(jwt_clock_skew_s), 0, 600, "60",
     .help = "Seconds by which the issuer's clock may differ."},
    {"oidc_client_id", CONF_STRING, TOP(oidc_client_id), 0, 256, "",
     .help = "People sign in to the web console with `jwt_issuer`, as this "
             "client of it (authorization code flow with PKCE). The address "
             "to register there is `public_url` and "
             "`/api/console/oidc/callback`. Empty: with keys only."},
    {"oidc_client_secret_file", CONF_PATH, TOP(oidc_client_secret_file), 0,
     1024, "",
     .help = "File with the secret of that client, for example 0600. Empty: "
             "a public client."},
    {"oidc_name", CONF_STRING, TOP(oidc_name), 0, 64, "",
     .help = "What the button says: Sign in with NAME. Empty: the issuer's "
             "host."},
    {"oidc_scopes", CONF_STRING, TOP(oidc_scopes), 0, 512,
     "openid profile email",
     .help = "Scopes that are asked of the issuer, separated by blanks; "
             "`openid` is always asked for."},
    {"oidc_authorization_url", CONF_STRING, TOP(oidc_authorization_url), 0,
     1024, "",
     .help = "The issuer's authorization endpoint. Empty, together with "
             "`oidc_token_url`: both are looked up at `jwt_issuer` and "
             "`/.well-known/openid-configuration`, once an hour."},
    {"oidc_token_url", CONF_STRING, TOP(oidc_token_url), 0, 1024, "",
     .help = "The issuer's token endpoint: `https`, or `http` to this "
             "machine."},
    {"oidc_login_s", CONF_U32, TOP(oidc_login_s), 60, 43200, "28800",
     .help = "Seconds after which a browser that signed in with the issuer "
             "must do so again; at most `console_login_s`. The issuer's "
             "token proves who signs in and may end sooner."},
    {"output_stored_bytes", CONF_SIZE, TOP(output_stored_bytes), 0, 64 * MIB,
     "8MiB",
     .help = "Bytes of output and displays stored of one finished execution, "
             "so that they can be looked at after a restart; 0 stores none. "
             "Nothing is stored of ephemeral sessions."},
    {"output_total_bytes", CONF_SIZE, TOP(output_total_bytes), 0, TIB, "4GiB",
     .help = "Bytes of all stored outputs; the oldest are removed beyond it. "
             "0 is no limit."},
    {"output_days", CONF_U32, TOP(output_days), 0, 36500, "30",
     .help = "Days after which stored outputs are removed; 0 keeps them until "
             "their session is deleted. Evidence has `evidence_days`."},
    {"console_login_s", CONF_U32, TOP(console_login_s), 60, 43200, "43200",
     .help = "Seconds after which a browser must sign in to the web console "
             "again. The token in its cookie ends then, or with the key."},
    {"console_link_s", CONF_U32, TOP(console_link_s), 1, 600, "60",
     .help = "Seconds in which a one-time link of `glovebox console` must be "
             "opened."},
    {"file_bytes", CONF_SIZE, TOP(file_bytes), 1, 16 * TIB, "8GiB",
     .help = "Largest file uploaded in parts, or kept of a session."},
    {"workspace_quota_bytes", CONF_SIZE, TOP(workspace_quota_bytes), 0,
     1024 * TIB, "20GiB",
     .help = "Bytes of all versions kept in one workspace; 0 is no limit. An "
             "admin may give a workspace another quota."},
    {"tenant_quota_bytes", CONF_SIZE, TOP(tenant_quota_bytes), 0, 1024 * TIB,
     "0", .help = "The same for all workspaces of one tenant."},
    {"workspaces_per_tenant", CONF_U32, TOP(workspaces_per_tenant), 0,
     100000000, "100000", .help = "Workspaces of one tenant; 0 is no limit."},
    {"restore_window_s", CONF_U32, TOP(restore_window_s), 0, 3650 * DAY_S,
     "2592000",
     .help = "Seconds for which a deleted workspace can be restored."},
    {"unnamed_workspace_days", CONF_U32, TOP(unnamed_workspace_days), 0, 36500,
     "30",
     .help = "Days without a change after which a workspace is deleted that "
             "was made for a session or a single run, was never named, and "
             "has no session, share link or legal hold; it can be restored "
             "for `restore_window_s`. 0 is never."},
    {"chat_code_tool", CONF_BOOL, TOP(chat_code_tool), 0, 1, "false",
     .help = "Offer the code tool to every model that is called through "
             "`/chat/completions`, also when the request does not name it. "
             "For clients that cannot add the tool `code_interpreter`."},
    {"response_days", CONF_U32, TOP(response_days), 0, 36500, "30",
     .help = "Days after which a stored response or chat completion is "
             "deleted, with items that no conversation has; 0 is never. What "
             "belongs to a workspace under legal hold stays."},
    {"conversation_days", CONF_U32, TOP(conversation_days), 0, 36500, "0",
     .help = "Days without use after which a conversation is deleted, with "
             "its responses, its session and, unless that was named, its "
             "workspace; 0 is never. Under legal hold it stays."},
    {"hibernated_days", CONF_U32, TOP(hibernated_days), 0, 36500, "30",
     .help = "Days without a use after which the memory of a hibernated "
             "session is deleted; its files stay. A legal hold on the "
             "workspace keeps it. 0 is never."},
    {"collect_every_s", CONF_U32, TOP(collect_every_s), 1, 30 * DAY_S, "600",
     .help = "Seconds between rounds of the collector, which applies "
             "retention and frees bytes without a reference."},
    {"disk_free_bytes", CONF_SIZE, TOP(disk_free_bytes), 0, TIB, "128MiB",
     .help = "Free space of the data directory's disk that is left for "
             "deletes, the audit trail and other programs, at most a "
             "quarter of it. With less free space, reads and deletes "
             "continue, requests that would store anything are answered "
             "with 507, and `/readyz` with 503. 0 uses the disk to its "
             "end."},
    {"disk_reserve_bytes", CONF_SIZE, TOP(disk_reserve_bytes), 0, 16 * GIB,
     "64MiB",
     .help = "Space set aside in the database's own files, so that deletes, "
             "the audit trail and a start work on a disk that is full to the "
             "last byte; at most a quarter of the disk, and 0 is none. Needs "
             "a file system that can preallocate (ext4, XFS, tmpfs)."},
    {"scrub_bytes_per_s", CONF_SIZE, TOP(scrub_bytes_per_s), 0, 64 * GIB,
     "4MiB",
     .help = "Bytes per second at which stored data is read again and "
             "compared with its hash; 0 never."},
    {"index_text_bytes", CONF_SIZE, TOP(index_text_bytes), KIB, GIB, "1MiB",
     .help = "Size up to which a text file is indexed for search."},
    {"index_document_bytes", CONF_SIZE, TOP(index_document_bytes), 0, 4 * GIB,
     "64MiB",
     .help = "Larger PDF and office files are found by name only; 0 leaves "
             "all of them unread."},
    {"index_pool", CONF_STRING, TOP(index_pool), 0, 32, "",
     .allowed = "a-z0-9-",
     .help = "Pool whose sessions extract the text of documents for "
             "search. Empty: the first."},
    {"index_embeddings", CONF_STRING, TOP(index_embeddings), 0, 64, "",
     .help = "Model whose embeddings search by meaning uses: the text of "
             "workspaces with intelligence is sent to it. Empty: latent "
             "semantic analysis of each tenant's own files, computed here."},
    /* the gate */
    {"accept_gate", CONF_STRING, TOP(accept_gate), 0, 256, "",
     .allowed = "a-z, ",
     .help =
         "Checks of the gate that may fail without closing it, "
         "separated by commas: environment, outbound, identity, walls, "
         "policy, audit, data, images. `glovebox doctor --gate` shows them."},
    {"keep_environment", CONF_STRING, TOP(keep_environment), 0, 1024, "",
     .help = "Environment variables the service keeps although their names "
             "indicate secrets. All others of that kind are removed when "
             "it starts."},
    {"key_scopes", CONF_STRING, TOP(key_scopes), 1, 128,
     "execute,files:read,files:write,workspaces:admin,audit:read,"
     "policy:admin,approve,admin",
     .allowed = "a-z:,",
     .help = "Scopes that keys may have here. A valid key with more closes "
             "the gate."},
    /* policy */
    {"policy_file", CONF_PATH, TOP(policy_file), 0, 1024, "",
     .help = "Policy (YAML), read at the start and on SIGHUP. A file that "
             "cannot be read or parsed denies everything. Empty: the "
             "policy last put by `glovebox policy put`, if any."},
    {"policy_zone", CONF_STRING, TOP(policy_zone), 0, 64, "",
     .help = "Time zone of the policy's `hours` and `days`, for example "
             "`Europe/Berlin`. Empty: UTC."},
    /* approvals */
    {"approval_expires_s", CONF_U32, TOP(approval_expires_s), 5, 30 * DAY_S,
     "86400",
     .help = "Seconds an approval waits for a decision; then it is denied."},
    {"four_eyes", CONF_BOOL, TOP(four_eyes), 0, 1, "false",
     .help = "Hold every change of the policy, of keys, quotas and secrets "
             "until another principal with the scope `approve` or `admin` has "
             "approved it. "
             "Create a second such key before you set it."},
    {"webhook_url", CONF_STRING, TOP(webhook_url), 0, 512, "",
     .help = "URL to which approvals are announced, by POST."},
    {"webhook_secret_file", CONF_PATH, TOP(webhook_secret_file), 0, 1024, "",
     .help = "Secret (32 bytes or more) under which announcements are "
             "signed. Required with `webhook_url`."},
    /* evidence and audit */
    {"evidence_code", CONF_BOOL, TOP(evidence_code), 0, 1, "true",
     .help = "Keep the text of executed code in the evidence; its hash is "
             "always kept."},
    {"evidence_output_bytes", CONF_SIZE, TOP(evidence_output_bytes), 0, MIB,
     "0",
     .help = "Bytes of an execution's output text (both streams, results and "
             "errors, in order) that are kept in the evidence; 0 keeps none. "
             "Output of ephemeral sessions is never kept."},
    {"evidence_days", CONF_U32, TOP(evidence_days), 0, 36500, "0",
     .help = "Days the evidence of an execution is kept; 0 forever."},
    {"audit_required", CONF_BOOL, TOP(audit_required), 0, 1, "true",
     .help = "When the audit trail cannot be written, calls that change "
             "anything are refused until it can."},
    {"accept_loss", CONF_STRING, TOP(accept_loss), 0, 64, "",
     .allowed = "0-9a-f",
     .help = "Accepts one loss of data: the token that the service printed "
             "when it refused to start because the database is older than "
             "its audit trail, or to collect because the trail is damaged. "
             "Give it once, as `--accept-loss`; it accepts nothing else and "
             "is an audit event."},
    {"audit_syslog", CONF_STRING, TOP(audit_syslog), 0, 128, "",
     .help = "Receiver of events as syslog (RFC 5424): `unix:/dev/log`, "
             "`udp:127.0.0.1:514` or `udp:[::1]:514`. Empty: none."},
    {"audit_otlp_url", CONF_STRING, TOP(audit_otlp_url), 0, 512, "",
     .help = "Receiver of events as OpenTelemetry logs (OTLP over HTTP, "
             "JSON): `https://…/v1/logs`, or `http://` on this machine. "
             "Empty: none."},
    /* quotas */
    {"quota_executions", CONF_U32, TOP(quota_executions), 0, 1000000, "0",
     .help = "Executions of one tenant queued or running at once; 0 no "
             "limit. This and the next are defaults: `glovebox quota set` "
             "sets them for one tenant."},
    {"quota_executions_per_hour", CONF_U32, TOP(quota_executions_per_hour), 0,
     1000000000, "200000", .help = "Executions of one tenant in an hour."},
    {"quota_memory_bytes", CONF_SIZE, TOP(quota_memory_bytes), 0, 1024 * TIB,
     "0", .help = "Memory granted to one tenant's live sessions together."},
    {"quota_cpu_s_per_hour", CONF_U32, TOP(quota_cpu_s_per_hour), 0,
     1000000000, "86400",
     .help = "Processor seconds of one tenant in an hour."},
    {"quota_egress_bytes_per_day", CONF_SIZE, TOP(quota_egress_bytes_per_day),
     0, 1024 * TIB, "0",
     .help = "Bytes one tenant's sessions move through the proxy in a day."},
    {"quota_model_tokens_per_day", CONF_SIZE, TOP(quota_model_tokens_per_day),
     0, 1024 * TIB, "0",
     .help = "Tokens of language models, prompts included, that a tenant may "
             "use in a day. 0: no limit."},
    {"quota_model_microcents_per_day", CONF_SIZE,
     TOP(quota_model_microcents_per_day), 0, 1024 * TIB, "0",
     .help = "Money a tenant may spend on language models in a day, in "
             "millionths of a cent at the configured prices. 0: no limit."},
    {"quota_key_model_tokens_per_day", CONF_SIZE,
     TOP(quota_key_model_tokens_per_day), 0, 1024 * TIB, "0",
     .help = "As `quota_model_tokens_per_day`, of each key. 0: no limit."},
    {"quota_key_model_microcents_per_day", CONF_SIZE,
     TOP(quota_key_model_microcents_per_day), 0, 1024 * TIB, "0",
     .help = "As `quota_model_microcents_per_day`, of each key. 0: no "
             "limit."},
    {"quota_output_tokens_per_hour", CONF_SIZE,
     TOP(quota_output_tokens_per_hour), 0, 1024 * TIB, "1GiB",
     .help = "Output of one tenant's executions in an hour, in tokens of four "
             "bytes."},
    /* network */
    {"egress_resolver", CONF_STRING, TOP(egress_resolver), 0, 63, "",
     .help = "Name server of the proxy, `ADDRESS` or `ADDRESS#PORT`. "
             "Empty: the host's."},
    {"egress_ca_file", CONF_PATH, TOP(egress_ca_file), 0, 511, "",
     .help = "Authorities (PEM) that the proxy trusts besides the host's, "
             "for destinations it inspects. Must be readable by every "
             "user."},
    {"egress_lab", CONF_STRING, TOP(egress_lab), 0, 512, "",
     .help = "For test networks only: address ranges (`10.9.0.0/24,…`) that "
             "count as public although they are private."},
    {"egress_connections", CONF_U32, TOP(egress_connections), 1, 60000, "1000",
     .help = "Connections the proxy has open at once, of all sessions."},
    {"package_index", CONF_STRING, TOP(package_index), 0, 511, "",
     .help = "Simple index (URL) `pip` in sessions may install from, as "
             "policy allows."},
    {"package_wheels", CONF_PATH, TOP(package_wheels), 0, 511, "",
     .help = "Folder of wheels to install from, before the index."},
    {"zygote_max_age_s", CONF_U32, TOP(zygote_max_age_s), 1, 7 * DAY_S, "3600",
     .help = "Seconds after which a zygote is replaced."},
    {"zygote_max_spawns", CONF_U32, TOP(zygote_max_spawns), 1, 10000000,
     "5000", .help = "Sessions after which a zygote is replaced."},
};

static const struct conf_option pool[] = {
    {"name", CONF_STRING, POOL(name), 1, 32, "default", .allowed = "a-z0-9-",
     .help = "Name of the pool; required, and different from the others'. "
             "The first pool serves requests that name none."},
    {"runtime", CONF_STRING, POOL(runtime), 1, 63, "standard",
     .allowed = "a-z0-9._-", .help = "Runtime image of its sessions."},
    {"zygote", CONF_BOOL, POOL(zygote), 0, 1, "true",
     .help = "Start sessions as forks of a warm interpreter. `false` "
             "starts a fresh interpreter each time: slower, but without a "
             "common memory layout."},
    {"isolation", CONF_STRING, POOL(isolation), 1, 15, "process",
     .allowed = "a-z0-9-",
     .help =
         "Isolation tier of its sessions. `process`: namespaces, a system "
         "call filter, landlock and control groups on the host's kernel. "
         "`gvisor`: gVisor's own kernel between the code and the host's, "
         "inside the same namespaces, host uid and control groups; slower, "
         "needs root and Debian's package runsc (20240729 or newer). A "
         "host that cannot run the tier of a pool refuses to start."},
    {"persistence", CONF_ENUM, POOL(persistence), 0, 0, "workspace",
     .allowed = "workspace|ephemeral",
     .help = "`workspace` keeps every file, versioned, past the session's "
             "end. `ephemeral` keeps nothing, not even names."},
    {"sharing", CONF_ENUM, POOL(sharing), 0, 0, "default",
     .allowed = "default|principal|tenant",
     .help = "Who sees a new session of this pool that does not choose for "
             "itself: `principal`, the key or person that made it and admins "
             "of the tenant; `tenant`, every key of the tenant; `default`, "
             "what `tenant_sharing` says."},
    {"node_labels", CONF_STRING, POOL(node_labels), 0, 255, "",
     .allowed = "a-zA-Z0-9._,=-",
     .help = "Of several nodes only those with all of these labels make "
             "sessions of this pool."},
    {"memory_bytes", CONF_SIZE, POOL(memory_bytes), 16 * MIB, 16 * TIB,
     "1GiB, or less on a small machine", .find = conf_places_memory,
     .help = "Memory of a session, its temporary files included."},
    {"max_memory_bytes", CONF_SIZE, POOL(max_memory_bytes), 16 * MIB, 16 * TIB,
     "four fifths of the machine's memory", .find = conf_places_max_memory,
     .help = "Most memory a session may ask for. Follows `memory_bytes` when "
             "that is more and this is not given. The machine's memory is "
             "that of the service's control group, if that is less."},
    {"processes", CONF_U32, POOL(processes), 4, 65536, "128",
     .help = "Processes and threads of a session."},
    {"cores", CONF_U32, POOL(cores), 1, 4096, "1",
     .help = "Processor cores of a session."},
    {"max_cores", CONF_U32, POOL(max_cores), 1, 4096,
     "the number of the machine", .find = conf_places_cores,
     .help = "Most cores a session may ask for."},
    {"descriptors", CONF_U32, POOL(descriptors), 64, 1048576, "1024",
     .help = "Open files of each process of a session."},
    {"scratch_bytes", CONF_SIZE, POOL(scratch_bytes), MIB, 16 * TIB, "1GiB",
     .help = "Space for files in `/mnt/data`."},
    {"scratch_inodes", CONF_U32, POOL(scratch_inodes), 64, 100000000, "100000",
     .help = "Number of files in `/mnt/data`."},
    {"tmp_bytes", CONF_SIZE, POOL(tmp_bytes), 64 * KIB, TIB, "256MiB",
     .help = "Space in `/tmp`; counts as memory."},
    {"shm_bytes", CONF_SIZE, POOL(shm_bytes), 64 * KIB, TIB, "64MiB",
     .help = "Space in `/dev/shm`; counts as memory."},
    {"ready", CONF_U32, POOL(ready), 0, 1000,
     "4 to 32, by the memory of the machine", .find = conf_places_ready,
     .help = "Sandboxes kept ready ahead of requests, of about 3 MiB each. "
             "At most `max_sessions`, which it follows when that is less and "
             "this is not given. With `isolation: gvisor` they take 100 MiB "
             "and more each, and the default is 2."},
    {"max_sessions", CONF_U32, POOL(max_sessions), 1, 100000, "1000",
     .help = "Live sessions of this pool."},
    {"cooldown_s", CONF_U32, POOL(cooldown_s), 1, 30 * DAY_S, "1200",
     .help = "Idle seconds after which a session hibernates, or becomes "
             "dormant where `hibernate` is false."},
    {"lifetime_s", CONF_U32, POOL(lifetime_s), 1, 365 * DAY_S, "86400",
     .help = "Longest life of a sandbox, in seconds."},
    {"hibernate", CONF_BOOL, POOL(hibernate), 0, 1, "true",
     .help = "A session that goes to sleep keeps the memory of its "
             "interpreter, encrypted in the data directory, and continues "
             "with it. Ephemeral sessions and pools with `zygote: false` "
             "never do."},
    {"undo_points", CONF_U32, POOL(undo_points), 0, 64, "8",
     .help = "How many executions of a session can be undone. Each point is "
             "a copy of the interpreter within the memory limit of the "
             "session. 0 switches undo off."},
    {"python_timeout_s", CONF_U32, POOL(python_timeout_s), 1, DAY_S, "120",
     .help = "Seconds a Python execution gets by default."},
    {"python_timeout_max_s", CONF_U32, POOL(python_timeout_max_s), 1, DAY_S,
     "900", .help = "Most seconds a Python execution may ask for."},
    {"shell_timeout_s", CONF_U32, POOL(shell_timeout_s), 1, DAY_S, "120",
     .help = "Seconds a shell execution gets by default."},
    {"shell_timeout_max_s", CONF_U32, POOL(shell_timeout_max_s), 1, DAY_S,
     "240", .help = "Most seconds a shell execution may ask for."},
    {"output_bytes", CONF_SIZE, POOL(output_bytes), KIB, GIB, "1MiB",
     .help = "Output kept of each stream of an execution; the rest is cut "
             "and marked."},
    {"egress", CONF_ENUM, POOL(egress), 0, 0, "none",
     .allowed = "none|allowlist|open",
     .help = "What sessions may reach: nothing; what `egress_allow` lists; "
             "or every public address. With `open`, unreviewed code can "
             "send what it has seen anywhere."},
    {"egress_allow", CONF_STRING, POOL(egress_allow), 0, 4096, "",
     .help = "Destinations of `allowlist`, separated by commas: `HOST`, "
             "`*.HOST`, `HOST:PORT`. Ports are 80 and 443 where none is "
             "given."},
    {"packages", CONF_BOOL, POOL(packages), 0, 1, "false",
     .help = "`pip` may install what policy allows, through the proxy."},
    {"egress_bytes", CONF_SIZE, POOL(egress_bytes), 0, 1024 * TIB, "1GiB",
     .help = "Bytes a session may move through the proxy, both ways."},
    {"egress_connections", CONF_U32, POOL(egress_connections), 1, 10000, "32",
     .help = "Connections of a session at once."},
    {"egress_requests", CONF_U32, POOL(egress_requests), 1, 1000000000,
     "10000", .help = "Requests, and as many lookups, of a session."},
};

#define PRICE                                                                 \
    "Price of a million tokens of this sort, a decimal number in the "        \
    "currency of your choice; empty: free. "

static const struct conf_option model[] = {
    {"name", CONF_STRING, MODEL(name), 1, 63, "gpt",
     .allowed = "a-zA-Z0-9._:-",
     .help = "Name that callers use; required, and different from the "
             "others'."},
    {"kind", CONF_ENUM, MODEL(kind), 0, 0, "openai-chat",
     .allowed = "openai-chat|openai-responses|anthropic|echo",
     .help = "What its server speaks: Chat Completions (also llama.cpp, vLLM, "
             "Ollama and most others), OpenAI's Responses, or Anthropic's "
             "Messages. `echo` is the built-in model for trials."},
    {"url", CONF_STRING, MODEL(url), 1, 511, "http://127.0.0.1:8080/v1",
     .help = "Base URL of the server; the default is llama.cpp's. `echo` "
             "needs none."},
    {"model", CONF_STRING, MODEL(model), 0, 255, "",
     .help = "What the server calls the model; empty: as `name`."},
    {"key", CONF_STRING, MODEL(key), 0, 63, "", .allowed = "a-zA-Z0-9_.-",
     .help = "Name of a secret in the vault of the tenant `default`, bound to "
             "the server's host; empty: no key."},
    {"default", CONF_BOOL, MODEL(is_default), 0, 1, "false",
     .help = "Serves requests that name no model. At most one model."},
    {"images", CONF_BOOL, MODEL(images), 0, 1, "false",
     .help = "The model takes images."},
    {"tools", CONF_BOOL, MODEL(tools), 0, 1, "true",
     .help = "The model calls functions."},
    {"embeddings", CONF_BOOL, MODEL(embeddings), 0, 1, "false",
     .help = "The model makes embeddings."},
    {"context_tokens", CONF_SIZE, MODEL(context_tokens), 0, 100000000, "0",
     .help = "Size of its context in tokens; 0: not known."},
    {"max_output_tokens", CONF_SIZE, MODEL(max_output_tokens), 0, 10000000,
     "0",
     .help = "Most tokens of one answer; 0: as the server has it (8192 "
             "for `anthropic`, which needs a number)."},
    {"concurrent", CONF_U32, MODEL(concurrent), 1, 1000, "16",
     .help = "Calls at once. More wait; tenants take turns."},
    {"timeout_s", CONF_U32, MODEL(timeout_s), 1, 86400, "600",
     .help = "Seconds of a call, waiting and retries included."},
    {"idle_s", CONF_U32, MODEL(idle_s), 1, 3600, "120",
     .help = "Seconds without a byte from the server after which a call "
             "fails."},
    {"price_input", CONF_STRING, MODEL(price_input), 0, 20, "",
     .allowed = "0-9.", .help = PRICE "Here: of the prompt."},
    {"price_output", CONF_STRING, MODEL(price_output), 0, 20, "",
     .allowed = "0-9.", .help = PRICE "Here: of the answer."},
    {"price_cached", CONF_STRING, MODEL(price_cached), 0, 20, "",
     .allowed = "0-9.",
     .help = PRICE "Here: of the part of the prompt that the server had in "
                   "its cache; empty: as `price_input`."},
};

static const struct conf_option bucket[] = {
    {"name", CONF_STRING, BUCKET(name), 1, 63, "glovebox",
     .allowed = "a-z0-9.-",
     .help = "Name in `blob_bucket` and in `s3://NAME/…`; required, and "
             "different from the others'."},
    {"endpoint", CONF_STRING, BUCKET(endpoint), 1, 255,
     "https://s3.us-east-1.amazonaws.com",
     .help = "Scheme, host and perhaps port of the store. https, or http to a "
             "loopback address."},
    {"region", CONF_STRING, BUCKET(region), 1, 63, "us-east-1",
     .allowed = "a-zA-Z0-9_-", .help = "Region that requests are signed for."},
    {"bucket", CONF_STRING, BUCKET(bucket), 0, 63, "",
     .allowed = "a-zA-Z0-9._-",
     .help = "What the store calls the bucket; empty: as `name`."},
    {"prefix", CONF_STRING, BUCKET(prefix), 0, 255, "",
     .allowed = "a-zA-Z0-9._/=-",
     .help = "What every key in it begins with, for example `glovebox/`."},
    {"style", CONF_ENUM, BUCKET(style), 0, 0, "path", .allowed = "path|host",
     .help = "`path` for `https://host/bucket/key`, `host` for "
             "`https://bucket.host/key`."},
    {"key_file", CONF_PATH, BUCKET(key_file), 0, 1024, "",
     .help = "File with the lines `access_key_id=…`, `secret_access_key=…` "
             "and, for temporary keys, `session_token=…`, readable by the "
             "service's account only. It is read again when the store refuses "
             "the keys. Empty: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` "
             "and `AWS_SESSION_TOKEN` of the environment, which "
             "`keep_environment` must name."},
    {"ca_file", CONF_PATH, BUCKET(ca_file), 0, 1024, "",
     .help = "PEM file with the certificates that are trusted for this store "
             "instead of the host's; empty: the host's."},
    {"use", CONF_STRING, BUCKET(use), 0, 63, "blobs", .allowed = "a-z,",
     .help = "Comma-separated: `blobs` (bytes of files), `mirror` (workspaces "
             "may be mirrored to it), `attach` (objects may be attached as "
             "inputs)."},
    {"tenants", CONF_STRING, BUCKET(tenants), 0, 1024, "",
     .help = "Comma-separated tenants. With `blobs`: those whose files are "
             "stored here instead of in `blob_bucket`. With `mirror` and "
             "`attach`: those that may use it; empty: all."},
    {"connections", CONF_U32, BUCKET(connections), 1, 256, "32",
     .help = "Requests at once; more wait."},
    {"deadline_s", CONF_U32, BUCKET(deadline_s), 1, 3600, "30",
     .help = "Seconds after which a request fails, retries included; a large "
             "object has more time, one second for each 256 KiB."},
    {"part_bytes", CONF_SIZE, BUCKET(part_bytes), 5 * MIB, 5 * GIB, "32MiB",
     .help = "Objects larger than this are uploaded in parts of this size."},
};

_Static_assert(ARRAY_SIZE(top) <= CONF_OPTIONS_MAX, "table too long");
_Static_assert(ARRAY_SIZE(pool) <= CONF_OPTIONS_MAX, "table too long");

const struct conf_options conf_options_top = {top, ARRAY_SIZE(top)};
const struct conf_options conf_options_pool = {pool, ARRAY_SIZE(pool)};
const struct conf_options conf_options_model = {model, ARRAY_SIZE(model)};
const struct conf_options conf_options_bucket = {bucket, ARRAY_SIZE(bucket)};

const struct conf_option *conf_options_find(const struct conf_options *table,
                                            const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->row[i].name, name) == 0)
            return &table->row[i];
    return NULL;
}

#define DISTANCE_MAX 64

unsigned conf_options_distance(const char *a, const char *b)
{
    unsigned row[DISTANCE_MAX + 1];
    size_t len_a = strlen(a), len_b = strlen(b);

    if (len_a > DISTANCE_MAX || len_b > DISTANCE_MAX)
        return DISTANCE_MAX;
    for (size_t j = 0; j <= len_b; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= len_a; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= len_b; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            row[j] = MIN(change, MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[len_b];
}

const char *conf_options_nearest(const struct conf_options *table,
                                 const char *name)
{
    /* A third of the letters wrong is no longer the same word. */
    unsigned best = (unsigned)MAX((size_t)2, strnlen(name, 64) / 3) + 1;
    const char *ret = NULL;

    for (size_t i = 0; i < table->count; i++) {
        unsigned d = conf_options_distance(name, table->row[i].name);

        if (d < best) {
            best = d;
            ret = table->row[i].name;
        }
    }
    return ret;
}
