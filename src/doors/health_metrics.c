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
#include "conf/conf.h"
#include "disk/disk.h"
#include "posture/posture.h"
#include "quota/quota.h"
#include "session/session.h"
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
    return workspaces_writable(doors->workspaces)
               ? 0
               : error_set(err, ERR_UNAVAILABLE,
                           "a sync of the disk has failed; nothing can be "
                           "stored until the next start");
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

int doors_readiness(struct doors_call *call, struct error *err)
{
    static const struct {
        const char *name;
        int (*check)(const struct doors *doors, struct error *err);
    } checks[] = {
        {"storage", check_storage},  {"disk", check_disk},
        {"audit", doors_need_audit}, {"warden", check_warden},
        {"pools", check_pools},
    };
    struct buf body = {0};

    for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
        if (checks[i].check(call->doors, err) < 0)
            return error_wrap(err, "%s", checks[i].name);
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
             "Sessions ever created, deleted, woken and gone dormant.");
    add_row(b, "glovebox_sessions_total", "event", "created", m->created);
    add_row(b, "glovebox_sessions_total", "event", "deleted", m->deleted);
    add_row(b, "glovebox_sessions_total", "event", "woken", m->woken);
    add_row(b, "glovebox_sessions_total", "event", "expired", m->expired);
    add_histogram(b, "glovebox_session_start_seconds",
                  "Time to create a session.", &m->start);
}

static void add_executions(struct buf *b, const struct session_metrics *m)
{
    add_one(b, "glovebox_executions_active", "gauge",
            "Executions queued or running.", m->executions_active);
    add_head(b, "glovebox_executions_total", "counter",
             "Executions by outcome.");
    for (int o = OUTCOME_OK; o <= OUTCOME_ISOLATION_FAILED; o++)
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

int doors_metrics(struct doors_call *call, struct error *err)
{
    struct session_metrics *m cleanup(mem_free) = xcalloc(1, sizeof(*m));
    struct buf body = {0};

    (void)err;
    sessions_metrics(call->doors->sessions, m);
    add_sessions(&body, m);
    add_executions(&body, m);
    add_one(&body, "glovebox_approvals_pending", "gauge",
            "What waits for somebody's approval.",
            approvals_pending(call->doors->core->approvals));
    add_one(&body, "glovebox_memory_granted_bytes", "gauge",
            "Memory that live sessions may use together.", m->memory_granted);
    add_one(&body, "glovebox_memory_bytes", "gauge",
            "Memory of the machine, or of the service's control group.",
            call->doors->conf->machine_memory);
    add_quotas(&body, call->doors->core->quotas);
    add_storage(&body, call->doors->workspaces, call->doors->core->blobs);
    add_disk(&body, call->doors->disk);
    add_audit(&body, call->doors->core->audit);
    add_warden(&body, call->doors->posture->warden);
    add_process(&body, http_server_of(call->http));
    http_respond(call->http, 200, METRICS_TYPE, &body);
    return 0;
}
