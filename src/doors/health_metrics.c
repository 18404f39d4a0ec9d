/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Liveness, readiness and metrics in Prometheus's text format. Runs on a
 * worker of the daemon. /healthz and /readyz reveal nothing else and need no
 * key; metrics are sums over all tenants and need a valid key.
 */
#include "doors/doors.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "approval/approval.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "blob/blob.h"
#include "chat/chat.h"
#include "conf/conf.h"
#include "disk/disk.h"
#include "execution/execution.h"
#include "model/model.h"
#include "node/node.h"
#include "posture/posture.h"
#include "quota/quota.h"
#include "warden/call.h"
#include "workspace/workspace.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

int doors_health(struct doors_call *call, struct error *err)
{
    struct buf body = {0};

    (void)err;
    buf_adds(&body, "ok\n");
    http_respond(call->http, 200, "text/plain", &body);
    return 0;
}

/* ---- readiness ----------------------------------------------------------
 * Each check answers from memory, so that /readyz does not wait for what it
 * reports on. The first that fails is the answer: causes come before what
 * follows from them. */

static int check_disk(const struct doors *doors, struct error *err)
{
    struct disk_state state;

    disk_state(doors->disk, &state);
    if (state.mode == DISK_WORKS)
        return 0;
    (void)error_set(err, ERR_UNAVAILABLE, "%s", state.reason);
    (void)error_hint(err, state.mode == DISK_FULL
                              ? "Free space on the disk of the data "
                                "directory; the service notices by itself."
                              : "Look at the disk of the data directory; the "
                                "service notices when it works again.");
    return error_retry(err, 5);
}

static int check_storage(const struct doors *doors, struct error *err)
{
    if (!workspaces_writable(doors->workspaces))
        return error_set(err, ERR_UNAVAILABLE,
                         "a sync of the disk has failed; nothing can be "
                         "stored until the next start");
    return workspaces_reachable(doors->workspaces, err);
}

/* What is cached can be read, but neither stored nor fetched is anything. */
static int check_blobs(const struct doors *doors, struct error *err)
{
    return blobs_ready(doors->core->blobs, err);
}

static int check_pools(const struct doors *doors, struct error *err)
{
    if (sessions_ready(doors->sessions))
        return 0;
    (void)error_set(err, ERR_UNAVAILABLE, "not every pool is ready yet");
    return error_retry(err, 1);
}

/* Sessions are made and ended by the warden alone. */
static int check_warden(const struct doors *doors, struct error *err)
{
    struct warden_health health;

    warden_call_health(doors->posture->warden, &health);
    if (health.answers)
        return 0;
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the privileged helper has not answered for %" PRIu64
                    " s; sessions can be neither made nor ended",
                    health.silent_ms / 1000);
    return error_retry(err, 5);
}

/* A balancer sends nothing to a node that is being emptied, or that has lost
 * its lease. */
static int check_node(const struct doors *doors, struct error *err)
{
    if (!doors->nodes)
        return 0;
    if (!nodes_alive(doors->nodes))
        return error_set(err, ERR_UNAVAILABLE,
                         "the lease of the node has ended");
    if (nodes_state(doors->nodes) != NODE_ACTIVE)
        return error_set(err, ERR_UNAVAILABLE, "the node is draining");
    return 0;
}

const char *doors_ready(const struct doors *doors, struct error *err)
{
    static const struct {
        const char *name;
        int (*check)(const struct doors *doors, struct error *err);
    } checks[] = {
        {"storage", check_storage}, {"disk", check_disk},
        {"blobs", check_blobs},     {"audit", doors_need_audit},
        {"warden", check_warden},   {"pools", check_pools},
        {"node", check_node},
    };

    for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
        if (checks[i].check(doors, err) < 0)
            return checks[i].name;
    return NULL;
}

int doors_readiness(struct doors_call *call, struct error *err)
{
    const char *failed = doors_ready(call->doors, err);
    struct buf body = {0};

    if (failed)
        return error_wrap(err, "%s", failed);
    buf_adds(&body, "ready\n");
    http_respond(call->http, 200, "text/plain", &body);
    return 0;
}

/* ---- metrics ------------------------------------------------------------ */

static void add_head(struct buf *b, const char *name, const char *type,
                     const char *help)
{
    buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_one(struct buf *b, const char *name, const char *type,
                    const char *help, uint64_t value)
{
    add_head(b, name, type, help);
    buf_addf(b, "%s %" PRIu64 "\n", name, value);
}

static void add_row(struct buf *b, const char *name, const char *label,
                    const char *value, uint64_t number)
{
    buf_addf(b, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, number);
}

static void add_histogram(struct buf *b, const char *name, const char *help,
                          const struct session_histogram *h)
{
    uint64_t below = 0;

    add_head(b, name, "histogram", help);
    for (size_t i = 0; i < SESSION_HISTOGRAM_BUCKETS; i++) {
        below += h->buckets[i];
        buf_addf(b, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
                 session_histogram_bounds_ms[i] / 1000.0, below);
    }
    buf_addf(b, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, h->count);
    buf_addf(b, "%s_sum %.6f\n", name, (double)h->sum_us / 1e6);
    buf_addf(b, "%s_count %" PRIu64 "\n", name, h->count);
}

static void add_sessions(struct buf *b, const struct session_metrics *m)
{
    add_head(b, "glovebox_sessions", "gauge", "Sessions by state.");
    for (int s = SESSION_STARTING; s < SESSION_ENDED; s++)
        add_row(b, "glovebox_sessions", "state",
                session_state_name((enum session_state)s), m->by_state[s]);
    add_head(b, "glovebox_pool_sessions", "gauge", "Sessions by pool.");
    for (size_t i = 0; i < m->pool_count; i++)
        add_row(b, "glovebox_pool_sessions", "pool", m->pools[i].name,
                m->pools[i].sessions);
    add_head(b, "glovebox_ready", "gauge", "Sandboxes kept ready.");
    for (size_t i = 0; i < m->pool_count; i++)
        add_row(b, "glovebox_ready", "pool", m->pools[i].name,
                m->pools[i].ready);
    add_head(b, "glovebox_ready_wanted", "gauge", "How many should be.");
    for (size_t i = 0; i < m->pool_count; i++)
        add_row(b, "glovebox_ready_wanted", "pool", m->pools[i].name,
                m->pools[i].wanted);
    add_head(b, "glovebox_starts_total", "counter",
             "Sandboxes taken from the ready ones, or made on demand.");
    add_row(b, "glovebox_starts_total", "from", "ready", m->ready_taken);
    add_row(b, "glovebox_starts_total", "from", "made", m->ready_missed);
    add_head(b, "glovebox_sessions_total", "counter",
             "Sessions ever created, deleted, woken, gone to sleep, "
             "hibernated, resumed, undone and branched.");
    add_row(b, "glovebox_sessions_total", "event", "created", m->created);
    add_row(b, "glovebox_sessions_total", "event", "deleted", m->deleted);
    add_row(b, "glovebox_sessions_total", "event", "woken", m->woken);
    add_row(b, "glovebox_sessions_total", "event", "expired", m->expired);
    add_row(b, "glovebox_sessions_total", "event", "made_room", m->made_room);
    for (size_t i = 0; i < ARRAY_SIZE(m->memory); i++)
        add_row(b, "glovebox_sessions_total", "event",
                session_memory_event_name(i), m->memory[i]);
    add_histogram(b, "glovebox_session_start_seconds",
                  "Time to create a session.", &m->start);
}

static void add_executions(struct buf *b, const struct session_metrics *m)
{
    add_one(b, "glovebox_executions_active", "gauge",
            "Executions queued or running.", m->executions_active);
    add_head(b, "glovebox_executions_total", "counter",
             "Executions by outcome.");
    for (int o = OUTCOME_OK; o <= OUTCOME_LOST; o++)
        add_row(b, "glovebox_executions_total", "outcome",
                exec_outcome_name((enum exec_outcome)o), m->outcomes[o]);
    add_head(b, "glovebox_refusals_total", "counter",
             "Work refused, by reason.");
    add_row(b, "glovebox_refusals_total", "reason", "limit",
            m->refusals_limit);
    add_row(b, "glovebox_refusals_total", "reason", "busy", m->refusals_busy);
    add_histogram(b, "glovebox_execution_seconds", "Time of an execution.",
                  &m->execution);
}

static void add_quotas(struct buf *b, struct quotas *quotas)
{
    uint64_t refusals[QUOTA_REFUSALS];

    quota_refusals(quotas, refusals);
    add_head(b, "glovebox_quota_refusals_total", "counter",
             "Refusals by the quota that was used up.");
    for (int k = 0; k < QUOTA_REFUSALS; k++)
        add_row(b, "glovebox_quota_refusals_total", "quota",
                quota_name((enum quota_kind)k), refusals[k]);
}

static void add_models(struct buf *b, struct models *models)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        {"glovebox_model_calls_total", "Calls of language models.",
         offsetof(struct model_counts, calls)},
        {"glovebox_model_failures_total", "Calls that failed.",
         offsetof(struct model_counts, failures)},
        {"glovebox_model_retries_total", "Requests that were repeated.",
         offsetof(struct model_counts, retries)},
        {"glovebox_model_input_tokens_total", "Tokens of prompts.",
         offsetof(struct model_counts, input)},
        {"glovebox_model_output_tokens_total", "Tokens of answers.",
         offsetof(struct model_counts, output)},
    };
    struct model_counts *counts cleanup(mem_free) = NULL;
    size_t n = model_counts(models, &counts);
    uint64_t restarts = 0;

    add_one(b, "glovebox_model_process_up", "gauge",
            "1 while the process that calls models runs.",
            model_link_alive(models, &restarts));
    add_one(b, "glovebox_model_process_restarts_total", "counter",
            "Times it was started again.", restarts);
    /* Models of tenants are left out: their names are theirs. */
    for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
        add_head(b, rows[k].name, "counter", rows[k].help);
        for (size_t i = 0; i < n; i++)
            if (!counts[i].tenant[0])
                add_row(b, rows[k].name, "model", counts[i].name,
                        *(uint64_t *)((char *)&counts[i] + rows[k].offset));
    }
    add_head(b, "glovebox_model_breaker_open", "gauge",
             "1 while calls of the model fail at once.");
    for (size_t i = 0; i < n; i++)
        if (!counts[i].tenant[0])
            add_row(b, "glovebox_model_breaker_open", "model", counts[i].name,
                    counts[i].open);
    add_head(b, "glovebox_model_up", "gauge",
             "1 if the last call of the model was answered, 0 if it failed; "
             "none while it has not been called.");
    for (size_t i = 0; i < n; i++)
        if (!counts[i].tenant[0] && counts[i].state != MODEL_STATE_UNKNOWN)
            add_row(b, "glovebox_model_up", "model", counts[i].name,
                    counts[i].state == MODEL_STATE_UP);
    add_head(b, "glovebox_model_calls_running", "gauge",
             "Calls under way by model.");
    for (size_t i = 0; i < n; i++)
        if (!counts[i].tenant[0])
            add_row(b, "glovebox_model_calls_running", "model", counts[i].name,
                    counts[i].running);
}

static void add_storage(struct buf *b, struct workspaces *workspaces,
                        struct blobs *blobs)
{
    struct workspace_scrub scrub = {0};
    uint64_t bytes = 0, count = 0;

    blobs_usage(blobs, &bytes, &count);
    workspaces_scrub_state(workspaces, &scrub);
    add_one(b, "glovebox_storage_writable", "gauge",
            "1 while files can be stored; 0 after a failed sync.",
            workspaces_writable(workspaces));
    add_one(b, "glovebox_blobs", "gauge", "Stored objects.", count);
    add_one(b, "glovebox_blob_bytes", "gauge", "Their bytes.", bytes);
    add_one(b, "glovebox_blob_inflight_bytes", "gauge",
            "Disk space reserved for bytes that are being stored.",
            blobs_inflight(blobs));
    add_one(b, "glovebox_scrub_bad", "gauge",
            "Stored objects found to be damaged or gone.", scrub.bad);
    add_one(b, "glovebox_scrub_bytes", "gauge",
            "Bytes hashed again in this round.", scrub.bytes);
    add_one(b, "glovebox_scrub_completed_timestamp_seconds", "gauge",
            "When the last round over everything ended; 0 never.",
            (uint64_t)scrub.last_full_at_ms / 1000);
}

static void add_remote(struct buf *b, struct blobs *blobs)
{
    struct blob_remote_stats st;
    struct error unsaid;

    if (!blobs_remote_stats(blobs, &st))
        return;
    add_one(b, "glovebox_object_store_up", "gauge",
            "1 if blobs can be stored and fetched.",
            blobs_ready(blobs, &unsaid) == 0);
    add_one(b, "glovebox_object_store_requests_total", "counter",
            "Requests to the object store.", st.requests);
    add_one(b, "glovebox_object_store_retries_total", "counter",
            "Requests that were repeated.", st.retries);
    add_one(b, "glovebox_object_store_failures_total", "counter",
            "Requests that failed for good.", st.failures);
    add_one(b, "glovebox_object_store_throttled_total", "counter",
            "Answers that asked for fewer requests.", st.throttled);
    add_one(b, "glovebox_object_store_sent_bytes_total", "counter",
            "Bytes of objects sent.", st.sent);
    add_one(b, "glovebox_object_store_received_bytes_total", "counter",
            "Bytes of answers received.", st.received);
    add_one(b, "glovebox_blob_cache_bytes", "gauge",
            "Bytes of blobs cached on the local disk.", st.cache_bytes);
    add_one(b, "glovebox_blob_cache_limit_bytes", "gauge",
            "As blob_cache_bytes says.", st.cache_limit);
    add_head(b, "glovebox_blob_cache_total", "counter",
             "Reads that found a cached file or not, files evicted, and "
             "damaged files fetched again.");
    add_row(b, "glovebox_blob_cache_total", "event", "hit", st.hits);
    add_row(b, "glovebox_blob_cache_total", "event", "miss", st.misses);
    add_row(b, "glovebox_blob_cache_total", "event", "evicted", st.evicted);
    add_row(b, "glovebox_blob_cache_total", "event", "repaired", st.repaired);
    add_one(b, "glovebox_blobs_not_uploaded", "gauge",
            "Blobs of the local disk that the object store does not have "
            "yet.",
            st.not_uploaded);
}

static void add_backups(struct buf *b, struct workspaces *workspaces)
{
    struct upkeep_backup_state s;

    workspaces_backup_state(workspaces, &s);
    add_one(b, "glovebox_backup_interval_seconds", "gauge",
            "Time between scheduled backups; 0 without a schedule.",
            s.every_s);
    add_one(b, "glovebox_backup_last_success_timestamp_seconds", "gauge",
            "When the last encrypted backup was made; 0 never.",
            (uint64_t)s.succeeded_at_ms / 1000);
    add_one(b, "glovebox_backup_last_attempt_timestamp_seconds", "gauge",
            "When the last one was tried; 0 never.",
            (uint64_t)s.attempted_at_ms / 1000);
    add_one(b, "glovebox_backup_failures", "gauge",
            "Attempts that failed since the last success.", s.failures);
    add_one(b, "glovebox_backup_bytes", "gauge", "Size of the last one.",
            s.bytes);
    add_one(b, "glovebox_backup_kept", "gauge",
            "Encrypted backups in the folder.", s.kept);
    add_head(b, "glovebox_backups_total", "counter",
             "Encrypted backups by result, since the start.");
    add_row(b, "glovebox_backups_total", "result", "ok", s.made);
    add_row(b, "glovebox_backups_total", "result", "failed", s.failed);
}

static void add_disk(struct buf *b, struct disk *disk)
{
    struct disk_state state;

    disk_state(disk, &state);
    add_head(b, "glovebox_disk_mode", "gauge",
             "1 for the mode of the data directory's disk: works, full "
             "(reads and deletes only) or failed.");
    for (int m = DISK_WORKS; m <= DISK_FAILED; m++)
        add_row(b, "glovebox_disk_mode", "mode",
                disk_mode_name((enum disk_mode)m),
                state.mode == (enum disk_mode)m);
    add_one(b, "glovebox_disk_free_bytes", "gauge",
            "Free space of the data directory's disk.", state.free_bytes);
    add_one(b, "glovebox_disk_kept_bytes", "gauge",
            "Free space that new work leaves unused.", state.kept_bytes);
    add_one(b, "glovebox_disk_reserve_bytes", "gauge",
            "Space set aside in the database's files.", state.reserve_bytes);
    add_one(b, "glovebox_disk_refusals_total", "counter",
            "Requests and writes refused because the disk is full.",
            state.refused);
}

static void add_audit(struct buf *b, struct audit *audit)
{
    struct error ignored;

    add_one(b, "glovebox_audit_writable", "gauge",
            "1 while the audit trail can be written.",
            audit_writable(audit, &ignored) == 0);
}

static void add_warden(struct buf *b, struct warden_link *link)
{
    struct warden_health health;

    warden_call_health(link, &health);
    add_one(b, "glovebox_warden_answers", "gauge",
            "1 while the privileged helper answers; 0 when it is silent.",
            health.answers);
    add_head(b, "glovebox_warden_silent_seconds", "gauge",
             "Age of the request it has not answered yet.");
    buf_addf(b, "glovebox_warden_silent_seconds %.3f\n",
             (double)health.silent_ms / 1000.0);
    add_one(b, "glovebox_warden_timeouts_total", "counter",
            "Calls to it that gave up waiting.", health.timeouts);
    add_one(b, "glovebox_warden_late_replies_total", "counter",
            "Its replies that came after that.", health.late_replies);
    add_one(b, "glovebox_warden_reclaimed_total", "counter",
            "Sandboxes ended after their caller gave up waiting.",
            health.reclaimed);
    add_one(b, "glovebox_warden_owed", "gauge",
            "Sandboxes that are still to be ended so.", health.owed);
}

static uint64_t resident_bytes(void)
{
    char *text cleanup(mem_free) = NULL;
    unsigned long size = 0, resident = 0;
    size_t len;

    if (fd_read_file(AT_FDCWD, "/proc/self/statm", 256, &text, &len) < 0 ||
        sscanf(text, "%lu %lu", &size, &resident) != 2)
        return 0;
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_descriptors(void)
{
    DIR *dir cleanup(fd_closedir) = opendir("/proc/self/fd");
    uint64_t n = 0;

    while (dir && readdir(dir))
        n++;
    return n > 3 ? n - 3 : 0; /* ".", ".." and the folder's own */
}

static uint64_t max_descriptors(void)
{
    struct rlimit files;

    return getrlimit(RLIMIT_NOFILE, &files) < 0 ? 0 : files.rlim_cur;
}

static void add_process(struct buf *b, struct http_server *http)
{
    uint64_t classes[6];
    size_t queued;
    unsigned threads;

    http_counts(http, classes);
    http_work_load(http_workers(http), &queued, &threads);
    add_head(b, "glovebox_http_requests_total", "counter",
             "Answers by class of status.");
    for (size_t i = 2; i < ARRAY_SIZE(classes); i++)
        buf_addf(b,
                 "glovebox_http_requests_total{code=\"%zuxx\"} %" PRIu64 "\n",
                 i, classes[i]);
    add_one(b, "glovebox_workers", "gauge", "Worker threads.", threads);
    add_one(b, "glovebox_workers_queued", "gauge",
            "Jobs waiting for a worker.", queued);
    add_one(b, "process_resident_memory_bytes", "gauge",
            "Resident memory of the daemon.", resident_bytes());
    add_one(b, "process_open_fds", "gauge", "Open descriptors of the daemon.",
            open_descriptors());
    add_one(b, "process_max_fds", "gauge",
            "How many the daemon may have open.", max_descriptors());
    add_head(b, "glovebox_build_info", "gauge", "Version of the daemon.");
    add_row(b, "glovebox_build_info", "version", GLOVEBOX_VERSION, 1);
}

static void add_responses(const struct doors *doors, struct buf *out)
{
    struct chat_metrics m;

    if (!doors->chat)
        return;
    chat_metrics(doors->chat, &m);
    add_one(out, "glovebox_responses_running", "gauge",
            "Responses of models that run.", m.running);
    add_one(out, "glovebox_responses_waiting", "gauge",
            "Responses that wait for a thread.", m.waiting);
    add_one(out, "glovebox_responses_completed_total", "counter",
            "Responses that were completed.", m.completed);
    add_one(out, "glovebox_responses_incomplete_total", "counter",
            "Responses that a limit ended.", m.incomplete);
    add_one(out, "glovebox_responses_failed_total", "counter",
            "Responses that failed.", m.failed);
    add_one(out, "glovebox_responses_cancelled_total", "counter",
            "Responses that were cancelled.", m.cancelled);
}

static void add_nodes(struct buf *b, struct nodes *nodes)
{
    struct node_metrics m;

    if (!nodes)
        return;
    nodes_metrics(nodes, &m);
    add_one(b, "glovebox_node_active", "gauge",
            "This node takes new sessions.", m.state == NODE_ACTIVE);
    add_one(b, "glovebox_node_lease_seconds", "gauge",
            "Until this node stops its sandboxes, unless it renews its lease.",
            (uint64_t)m.lease_left_ms / 1000);
    add_one(b, "glovebox_node_renewals_total", "counter",
            "Renewals of the lease.", m.renewals);
    add_one(b, "glovebox_node_renewals_failed_total", "counter",
            "Renewals that failed.", m.renewals_failed);
    add_one(b, "glovebox_node_lost_total", "counter",
            "Times that this node stopped its sandboxes.", m.lost);
    add_one(b, "glovebox_node_takeovers_total", "counter",
            "Sessions taken over from lost nodes.", m.takeovers);
    add_one(b, "glovebox_node_fenced_total", "counter",
            "Commits refused because another node has the session.", m.fenced);
    add_one(b, "glovebox_node_forwarded_total", "counter",
            "Requests that another node answered.", m.carried);
    add_one(b, "glovebox_node_forward_failures_total", "counter",
            "Requests that another node did not answer.", m.carried_failed);
    add_one(b, "glovebox_nodes_active", "gauge",
            "Nodes that take new sessions.", m.active);
    add_one(b, "glovebox_nodes_draining", "gauge", "Nodes that are emptied.",
            m.draining);
    add_one(b, "glovebox_nodes_memory_bytes", "gauge",
            "Memory of the active nodes together.", m.all.memory_bytes);
    add_one(b, "glovebox_nodes_free_bytes", "gauge",
            "What of it is available.", m.all.free_bytes);
    add_one(b, "glovebox_nodes_awake", "gauge",
            "Sessions with a sandbox on the active nodes.", m.all.awake);
    add_one(b, "glovebox_nodes_queued", "gauge",
            "Executions queued or running on the active nodes.", m.all.queued);
    add_one(b, "glovebox_nodes_ready", "gauge",
            "Sandboxes kept ready on the active nodes.", m.all.ready);
}

int doors_metrics(struct doors_call *call, struct error *err)
{
    struct session_metrics *m cleanup(mem_free) = xcalloc(1, sizeof(*m));
    struct buf body = {0};

    (void)err;
    sessions_metrics(call->doors->sessions, m);
    add_sessions(&body, m);
    add_executions(&body, m);
    add_responses(call->doors, &body);
    add_one(&body, "glovebox_approvals_pending", "gauge",
            "Requests that wait for an approval.",
            approvals_pending(call->doors->core->approvals));
    add_one(&body, "glovebox_memory_granted_bytes", "gauge",
            "Memory that live sessions may use together.", m->memory_granted);
    add_one(&body, "glovebox_memory_bytes", "gauge",
            "Memory of the machine, or of the service's control group.",
            call->doors->conf->machine_memory);
    add_quotas(&body, call->doors->core->quotas);
    add_models(&body, call->doors->models);
    add_storage(&body, call->doors->workspaces, call->doors->core->blobs);
    add_remote(&body, call->doors->core->blobs);
    add_backups(&body, call->doors->workspaces);
    add_disk(&body, call->doors->disk);
    add_audit(&body, call->doors->core->audit);
    add_warden(&body, call->doors->posture->warden);
    add_nodes(&body, call->doors->nodes);
    add_process(&body, http_server_of(call->http));
    http_respond(call->http, 200, METRICS_TYPE, &body);
    return 0;
}
