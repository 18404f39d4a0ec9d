/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of the daemon: service_run() lists the steps from start to stop.
 * Runs in gloveboxd; from service_rights_drop() on without privilege.
 */
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "approval/approval.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sched.h"
#include "blob/blob.h"
#include "conf/conf.h"
#include "disk/disk.h"
#include "egress/call.h"
#include "http/http.h"
#include "policy/policy.h"
#include "search/search.h"
#include "service/service_int.h"
#include "session/session.h"
#include "store/store.h"
#include "warden/call.h"
#include "workspace/workspace.h"

#define ENDPOINT "endpoint"
#define PIN "endpoint.pin"

/* Signals come by descriptor; set after the warden has started, which must
 * not inherit any of it. */
static int take_signals(struct service *s, struct error *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return s->signal_fd < 0
               ? error_errno(err, ERR_INTERNAL, errno, "cannot take signals")
               : 0;
}

static int start_auth(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct auth_jwt_settings jwt = {
        .issuer = c->jwt_issuer,
        .audiences = c->jwt_audiences,
        .jwks_url = c->jwt_jwks_url,
        .jwks_file = c->jwt_jwks_file,
        .tenant = c->jwt_tenant,
        .tenant_claim = c->jwt_tenant_claim,
        .scope_claims = c->jwt_scope_claims,
        .scopes = c->jwt_scopes,
        .default_scopes = c->jwt_default_scopes,
        .pool_claim = c->jwt_pool_claim,
        .workspace_claim = c->jwt_workspace_claim,
        .clock_skew_s = c->jwt_clock_skew_s,
    };
    int r = auth_open(s->core.store, c->data_dir, c->auth_failures_per_min,
                      &s->auth, err);

    return r < 0 ? r : auth_jwt_open(s->auth, &jwt, err);
}

static uint64_t refill_reserve(void *ctx)
{
    const struct service *s = ctx;

    return store_reserve(s->core.store,
                         disk_share(s->disk, s->conf->disk_reserve_bytes));
}

/* The store and its audit trail, compared with what the directory holds
 * before anything there is changed; then the disk that it is on. */
static int start_storage(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    const struct disk_settings disk = {.data_dir = c->data_dir,
                                       .free_bytes = c->disk_free_bytes};
    struct audit_place place = {.data_dir = c->data_dir,
                                .accept = c->accept_loss};
    int r = store_open_checked(c->data_dir, audit_check_store, &place,
                               &s->core.store, err);

    if (r == 0)
        r = audit_open_at(s->core.store, &place, &s->core.audit, err);
    if (r == 0)
        r = disk_open(&disk, &s->disk, err);
    if (r < 0)
        return r;
    (void)refill_reserve(s); /* a full disk has what it set aside before */
    disk_refill(s->disk, refill_reserve, s);
    return 0;
}

static int start_core(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct workspaces_settings workspaces = {
        .data_dir = c->data_dir,
        .workspace_quota_bytes = c->workspace_quota_bytes,
        .tenant_quota_bytes = c->tenant_quota_bytes,
        .tenant_workspaces = c->workspaces_per_tenant,
        .restore_window_s = c->restore_window_s,
        .collect_every_s = c->collect_every_s,
        .scrub_bytes_per_s = c->scrub_bytes_per_s,
        .file_bytes = c->file_bytes,
    };
    struct search_settings search = {
        .text_bytes = c->index_text_bytes,
        .document_bytes = c->index_document_bytes,
        .pool = c->index_pool[0] ? c->index_pool : NULL,
    };
    struct sessions_parts parts;
    int r;

    search_setup();
    r = start_storage(s, err);
    search.disk = s->disk;
    if (r == 0)
        r = start_auth(s, err);
    if (r == 0)
        r = blobs_open(c->data_dir, &s->core.blobs, err);
    if (r == 0)
        blobs_admit_by(s->core.blobs, s->disk);
    if (r == 0)
        r = core_open(&s->core, c, err);
    workspaces.govern = (struct govern){.policy = s->core.policy,
                                        .approvals = s->core.approvals};
    workspaces.quotas = s->core.quotas;
    if (r == 0)
        r = workspaces_open(&workspaces, s->core.store, s->core.blobs,
                            s->core.audit, &s->workspaces, err);
    parts = (struct sessions_parts){.govern = workspaces.govern,
                                    .quotas = s->core.quotas,
                                    .evidence = s->core.evidence,
                                    .vault = s->core.vault,
                                    .egress = s->egress,
                                    .disk = s->disk};
    if (r == 0)
        r = sessions_open(c, s->warden, s->workspaces, &parts, &s->sessions,
                          err);
    if (r == 0)
        r = search_open(&search, &s->core, s->workspaces, s->sessions,
                        &s->search, err);
    if (r == 0)
        service_gate(s);
    return r;
}

static int start_http(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct http_settings settings = {
        .host = c->listen_host,
        .port = c->listen_port,
        .workers = c->workers,
        .connections = c->connections,
        .header_timeout_s = c->header_timeout_s,
        .idle_timeout_s = c->idle_timeout_s,
        .body_timeout_s = c->body_timeout_s,
        .body_bytes = doors_body_bytes(c),
    };
    int r;

    s->doors = (struct doors){.conf = c,
                              .auth = s->auth,
                              .sessions = s->sessions,
                              .workspaces = s->workspaces,
                              .core = &s->core,
                              .search = s->search,
                              .disk = s->disk,
                              .posture = &s->posture};
    if (session_pending_resume(s->sessions, err) < 0)
        return -err->code;
    approvals_on_decided(s->core.approvals, session_pending_decided,
                         s->sessions);
    if (doors_open(&s->doors, err) < 0)
        return -err->code;
    if (service_tls_auto(s, err) < 0)
        return -err->code;
    service_tls_pin(s);
    settings.tls_certificate = s->tls_certificate;
    settings.tls_key = s->tls_key;
    r = http_start(&settings, serve_request, &s->doors, &s->http, err);
    service_tls_forget(s);
    return r;
}

/* A line in a file of the data directory, which appears whole. It reuses the
 * file that was set aside, so that a start on a full disk needs no block. */
static int write_line(struct service *s, const char *name, const char *text,
                      struct error *err)
{
    char *spare cleanup(mem_free) = xasprintf("%s.new", name);
    char *line cleanup(mem_free) = xasprintf("%s\n", text);
    size_t len = strlen(line);
    int fd cleanup(fd_close) = -1;
    int r = 0;

    fd = openat(s->data_fd, spare, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0)
        r = -errno;
    if (r == 0)
        r = fd_write_all(fd, line, len);
    if (r == 0 && (ftruncate(fd, (off_t)len) < 0 ||
                   renameat(s->data_fd, spare, s->data_fd, name) < 0))
        r = -errno;
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r, "cannot write %s/%s",
                               s->conf->data_dir, name)
                 : 0;
}

/* Sets a file of write_line aside, ours or one that a killed service left:
 * clients no longer find it. */
static void set_line_aside(struct service *s, const char *name)
{
    char *spare cleanup(mem_free) = xasprintf("%s.new", name);

    (void)renameat(s->data_fd, name, s->data_fd, spare);
}

/* Tells people and programs where we are. */
static int announce(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    bool v6 = strchr(c->listen_host, ':') != NULL;
    char *url cleanup(mem_free) = xasprintf(
        "http%s://%s%s%s:%u", conf_speaks_tls(c) ? "s" : "", v6 ? "[" : "",
        c->listen_host, v6 ? "]" : "", http_port(s->http));

    set_line_aside(s, ENDPOINT);
    set_line_aside(s, PIN);
    if ((s->tls_pin[0] && write_line(s, PIN, s->tls_pin, err) < 0) ||
        write_line(s, ENDPOINT, url, err) < 0)
        return -(int)err->code;
    (void)printf("glovebox " GLOVEBOX_VERSION " listening on %s\n"
                 "key in %s/admin.key\n",
                 url, c->data_dir);
    if (conf_tls_is_auto(c))
        (void)printf("clients must trust %s/tls/ca.pem\n", c->data_dir);
    (void)printf("try: glovebox run -c 'print(6 * 7)'\n");
    (void)fflush(stdout);
    log_event(LOG_INFO, "listening", "url", url, NULL);
    return 0;
}

/* The policy again; one that cannot be used has been complained of. */
static void on_hangup(struct service *s)
{
    struct error err;

    (void)policy_reload(s->core.policy, &err);
}

/* Until we are told to stop (0) or the warden is gone (-1). */
static int wait_for_end(struct service *s)
{
    struct pollfd fds[] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = warden_call_fd(s->warden)}, /* only its hanging up */
    };

    for (;;) {
        struct signalfd_siginfo info;

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
            return -1;
        if (fds[1].revents) {
            log_event(LOG_ERROR, "warden_gone", NULL);
            return -1;
        }
        /* Taken, or it would end us when signals are let through again. */
        if (!fds[0].revents ||
            read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
            continue;
        /* The kernel sends it when our terminal is gone: then we go too. */
        if (info.ssi_signo != SIGHUP || info.ssi_code == SI_KERNEL)
            return 0;
        on_hangup(s);
    }
}

/* Without root we cannot start another one; a new start can. */
static int warden_gone(struct error *err)
{
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the privileged helper (glovebox-warden) has ended, and "
                    "without it no session can run");
    return error_hint(err, "Start the service again; under systemd it "
                           "restarts by itself. The log says why it ended.");
}

/* Also of a service that is half started. */
static void stop(struct service *s)
{
    sigset_t none;

    /* A second signal ends us at once; the next start cleans up. */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (s->http) {
        set_line_aside(s, ENDPOINT);
        set_line_aside(s, PIN);
    }
    http_quiesce(s->http);
    doors_stop(&s->doors); /* or http_stop would wait for their streams */
    if (s->core.blobs)
        blobs_stop(
            s->core.blobs); /* a check of hours need not be waited for */
    if (s->search)
        search_stop(s->search); /* or a document being read is waited for */
    approvals_stop(s->core.approvals); /* or it would begin new ones */
    sessions_stop(s->sessions, s->conf->stop_deadline_s);
    http_stop(s->http, 2); /* answers what the stop has ended */
    doors_close(&s->doors);
    search_close(s->search);
    sessions_close(s->sessions, 0);
    workspaces_close(s->workspaces);
    egress_call_close(s->egress);
    core_close(&s->core);
    audit_close(s->core.audit);
    auth_close(s->auth);
    blobs_close(s->core.blobs); /* a commit may have asked for it until now */
    if (s->disk)
        disk_refill(s->disk, NULL, NULL);
    store_close(s->core.store);
    disk_close(s->disk);
    warden_call_close(s->warden);
    service_tls_forget(s);
    fd_close(&s->signal_fd);
    fd_close(&s->uids_fd);
    fd_close(&s->lock_fd);
    fd_close(&s->data_fd);
}

int service_run(const struct conf *conf, struct error *err)
{
    struct conf own = *conf; /* the start may lower a limit */
    struct service s = {.conf = &own,
                        .data_fd = -1,
                        .lock_fd = -1,
                        .signal_fd = -1,
                        .uids_fd = -1};
    int r = service_rights_walls(&s, err);

    if (r == 0)
        r = service_rights_user(&s, err);
    if (r == 0)
        r = service_rights_data(&s, err);
    if (r == 0)
        r = service_rights_descriptors(&own, err);
    if (r == 0)
        r = service_setup_warden(&s, err);
    sched_prompt(); /* not before: what the warden starts is ordinary */
    if (r == 0)
        r = service_setup_egress(&s, err);
    if (r == 0)
        r = service_tls_read(&s, err);
    if (r == 0)
        r = service_rights_drop(&s, err);
    if (r == 0)
        r = take_signals(&s, err);
    if (r == 0)
        r = warden_call_tend(s.warden, err);
    if (r == 0)
        r = start_core(&s, err);
    if (r == 0)
        r = start_http(&s, err);
    if (r == 0)
        r = announce(&s, err);
    if (r == 0 && wait_for_end(&s) < 0)
        r = warden_gone(err);
    if (s.http)
        log_event(LOG_INFO, "stopping", NULL);
    stop(&s);
    return r;
}
