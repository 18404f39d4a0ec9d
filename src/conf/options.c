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
             "`X-Forwarded-Proto` decides whether addresses in answers "
             "begin with `https`. The service uses no other header of a "
             "proxy."},
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
    {"runtime_dir", CONF_PATH, TOP(runtime_dir), 1, 1024,
     "/var/cache/glovebox/runtimes as root, otherwise "
     "~/.cache/glovebox/runtimes",
     .find = conf_places_runtimes,
     .help = "Built runtime images; they can be rebuilt and need no backup."},
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
    {"sessions_per_tenant", CONF_U32, TOP(sessions_per_tenant), 1, 100000,
     "100", .help = "Live sessions of one tenant."},
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
             "`TENANT=tenant` for every key of the tenant; separated by "
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
    /* the gate */
    {"accept_gate", CONF_STRING, TOP(accept_gate), 0, 256, "",
     .allowed = "a-z, ",
     .help = "Checks of the gate that may fail without closing it, "
             "separated by commas: environment, outbound, identity, walls, "
             "policy, audit, data. `glovebox doctor --gate` shows them."},
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
    {"webhook_url", CONF_STRING, TOP(webhook_url), 0, 512, "",
     .help = "URL to which approvals are announced, by POST."},
    {"webhook_secret_file", CONF_PATH, TOP(webhook_secret_file), 0, 1024, "",
     .help = "Secret (32 bytes or more) under which announcements are "
             "signed. Required with `webhook_url`."},
    /* evidence and audit */
    {"evidence_code", CONF_BOOL, TOP(evidence_code), 0, 1, "true",
     .help = "Keep the text of executed code in the evidence; its hash is "
             "always kept."},
    {"evidence_days", CONF_U32, TOP(evidence_days), 0, 36500, "0",
     .help = "Days the evidence of an execution is kept; 0 for ever."},
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
             "this is not given."},
    {"max_sessions", CONF_U32, POOL(max_sessions), 1, 100000, "1000",
     .help = "Live sessions of this pool."},
    {"cooldown_s", CONF_U32, POOL(cooldown_s), 1, 30 * DAY_S, "1200",
     .help = "Idle seconds after which a session becomes dormant."},
    {"lifetime_s", CONF_U32, POOL(lifetime_s), 1, 365 * DAY_S, "86400",
     .help = "Longest life of a sandbox, in seconds."},
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

_Static_assert(ARRAY_SIZE(top) <= CONF_OPTIONS_MAX, "table too long");
_Static_assert(ARRAY_SIZE(pool) <= CONF_OPTIONS_MAX, "table too long");

const struct conf_options conf_options_top = {top, ARRAY_SIZE(top)};
const struct conf_options conf_options_pool = {pool, ARRAY_SIZE(pool)};

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
