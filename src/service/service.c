/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of the daemon: service_run() lists the steps from start to stop.
 * service_restore() runs instead of it and restores a backup into a new data
 * directory. Both run in gloveboxd, from service_rights_drop() on without
 * privilege: a backup is untrusted input and is read by an account that owns
 * nothing else.
 */
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agents/agents.h"
#include "approval/approval.h"
#include "audit/audit.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "blob/blob.h"
#include "chat/conversations.h"
#include "conf/conf.h"
#include "disk/disk.h"
#include "egress/call.h"
#include "fair/fair.h"
#include "fetch/fetch.h"
#include "http/http.h"
#include "mirror/mirror.h"
#include "model/model.h"
#include "node/node.h"
#include "policy/policy.h"
#include "search/search.h"
#include "service/service_int.h"
#include "session/session.h"
#include "store/store.h"
#include "upkeep/upkeep.h"
#include "warden/call.h"
#include "workspace/workspace.h"

/* Signals arrive by descriptor. Called after the warden has started, which
 * must not inherit the mask. */
static int open_signals(struct service *s, struct error *err)
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
               ? error_errno(err, ERR_INTERNAL, errno,
                             "cannot open a descriptor for signals")
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
    const struct auth_oidc_settings oidc = {
        .issuer = c->jwt_issuer,
        .client_id = c->oidc_client_id,
        .client_secret_file = c->oidc_client_secret_file,
        .scopes = c->oidc_scopes,
        .authorization_url = c->oidc_authorization_url,
        .token_url = c->oidc_token_url,
        .login_s = c->oidc_login_s,
    };
    int r = auth_open(s->core.store, c->data_dir, c->auth_failures_per_min,
                      &s->auth, err);

    if (r == 0)
        r = auth_jwt_open(s->auth, &jwt, err);
    return r < 0 ? r : auth_oidc_open(s->auth, &oidc, err);
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
    const struct store_settings store = {.engine = c->store,
                                         .data_dir = c->data_dir,
                                         .check = audit_check_store,
                                         .check_ctx = &place};
    int r = store_open(&store, &s->core.store, err);

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

/* Checks whether code may run at all, and tells the sessions. */
static void check_gate(struct service *s)
{
    const struct posture_row *closed;
    struct posture_row rows[POSTURE_ROWS];

    s->posture = (struct posture){.conf = s->conf,
                                  .warden = s->warden,
                                  .accepted_walls = s->accepted,
                                  .auth = s->auth,
                                  .audit = s->core.audit,
                                  .policy = s->core.policy};
    posture_look(&s->posture, rows);
    for (size_t i = 0; i < POSTURE_ROWS; i++)
        if (rows[i].state != POSTURE_OK)
            log_event(LOG_WARN, "gate", "check", rows[i].name, "state",
                      posture_state_name(rows[i].state), "why", rows[i].why,
                      NULL);
    closed = posture_barred(rows);
    sessions_gate(s->sessions, closed ? closed->name : NULL,
                  closed ? closed->why : "");
}

static int start_chat(struct service *s, struct error *err)
{
    static const struct chat_names names = {
        .file = doors_file_id,
        .container = doors_file_container,
        .library = doors_file_library,
    };

    int r = chat_open(&(struct chat_parts){.conf = s->conf,
                                           .names = &names,
                                           .core = &s->core,
                                           .workspaces = s->workspaces,
                                           .sessions = s->sessions,
                                           .models = s->models,
                                           .agents = s->agents},
                      &s->chat, err);

    if (r == 0)
        workspaces_on_expire(s->workspaces, chat_retention_expire, s->chat);
    return r;
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
        .unnamed_days = c->unnamed_workspace_days,
        .collect_every_s = c->collect_every_s,
        .scrub_bytes_per_s = c->scrub_bytes_per_s,
        .backup_dir = c->backup_dir,
        .backup_key_file = c->backup_key_file,
        .backup_free_bytes = c->disk_free_bytes,
        .file_bytes = c->file_bytes,
    };
    struct search_settings search = {
        .text_bytes = c->index_text_bytes,
        .document_bytes = c->index_document_bytes,
        .pool = c->index_pool[0] ? c->index_pool : NULL,
        .embeddings = c->index_embeddings,
    };
    struct sessions_parts parts;
    int r;

    search_setup();
    r = start_storage(s, err);
    search.disk = s->disk;
    if (r == 0)
        r = start_auth(s, err);
    if (r == 0)
        r = service_blobs_open(s, err);
    if (r == 0)
        r = service_nodes_open(s, err);
    if (r == 0)
        r = core_open(&s->core, c, err);
    if (r == 0)
        r = models_open(&(struct models_parts){.conf = c,
                                               .core = &s->core,
                                               .link = s->model_link},
                        &s->models, err);
    if (r == 0)
        r = workspaces_open(&workspaces, &s->core, &s->workspaces, err);
    if (r == 0)
        r = service_blobs_mirrors(s, err);
    parts = (struct sessions_parts){.conf = c,
                                    .core = &s->core,
                                    .warden = s->warden,
                                    .workspaces = s->workspaces,
                                    .egress = s->egress,
                                    .disk = s->disk};
    if (r == 0)
        r = sessions_open(&parts, &s->sessions, err);
    if (r == 0)
        executions_open(&(struct executions_parts){.conf = c,
                                                   .core = &s->core,
                                                   .workspaces = s->workspaces,
                                                   .sessions = s->sessions},
                        &s->executions);
    search.models = s->models;
    if (r == 0)
        r = search_open(&search, &s->core, s->workspaces, s->sessions,
                        &s->search, err);
    if (r == 0)
        s->agents =
            agents_open(&(struct agents_parts){.core = &s->core,
                                               .models = s->models,
                                               .workspaces = s->workspaces,
                                               .sessions = s->sessions},
                        NULL);
    if (r == 0)
        r = start_chat(s, err);
    if (r == 0)
        check_gate(s);
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
        .keep_bodies = s->core.nodes != NULL,
    };
    int r;

    s->doors = (struct doors){.conf = c,
                              .auth = s->auth,
                              .sessions = s->sessions,
                              .workspaces = s->workspaces,
                              .core = &s->core,
                              .search = s->search,
                              .agents = s->agents,
                              .chat = s->chat,
                              .models = s->models,
                              .mirrors = s->mirrors,
                              .disk = s->disk,
                              .posture = &s->posture,
                              .nodes = s->core.nodes};
    if (execution_pending_resume(s->sessions, err) < 0)
        return -err->code;
    approvals_on_decided(s->core.approvals, execution_pending_decided,
                         execution_pending_mine, s->sessions);
    if (doors_open(&s->doors, err) < 0)
        return -err->code;
    if (service_tls_auto(s, err) < 0)
        return -err->code;
    service_tls_pin(s);
    if (service_nodes_start(s, err) < 0 ||
        service_nodes_listen(s, &settings, err) < 0)
        return -err->code;
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

/* Replaces the text of a file that every user may read, if it is open. */
static void set_public_line(const struct service *s, enum service_public i,
                            const char *text)
{
    int fd = s->public_fds[i];

    if (fd >= 0 && (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
                    fd_write_all(fd, text, strlen(text)) < 0))
        log_event(LOG_WARN, "endpoint_not_published", "file",
                  service_public_names[i], NULL);
}

/* Says where the service is, in the data directory and to every user. */
static int publish_line(struct service *s, enum service_public i,
                        const char *text, struct error *err)
{
    char *line cleanup(mem_free) = xasprintf("%s\n", text);
    int r = write_line(s, service_public_names[i], text, err);

    if (r == 0)
        set_public_line(s, i, line);
    return r;
}

/* Clients no longer find the service. */
static void withdraw_lines(struct service *s)
{
    for (unsigned i = 0; i < SERVICE_PUBLIC_FILES; i++) {
        set_line_aside(s, service_public_names[i]);
        set_public_line(s, i, "");
    }
}

/*
 * The command line as it must be typed in this service's terminal: the name
 * alone if the folder is on the path, else its path, relative if it is below
 * the working directory. A user who started the service with sudo needs sudo
 * to read its key.
 */
static char *command_line_path(void)
{
    const char *path = getenv("PATH"), *sudo = getenv("SUDO_USER");
    static const char installed[] = "/libexec/glovebox";
    char dir[PATH_MAX], cwd[PATH_MAX], *slash;
    ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    size_t len;

    sudo = sudo && *sudo ? "sudo " : "";
    if (n <= 0)
        return xasprintf("%sglovebox", sudo);
    dir[n] = '\0';
    slash = strrchr(dir, '/');
    *slash = '\0';
    len = strlen(dir);
    /* PREFIX/libexec/glovebox has the daemon, PREFIX/bin the command line. */
    if (len >= strlen(installed) &&
        strcmp(dir + len - strlen(installed), installed) == 0) {
        len -= strlen(installed);
        memcpy(dir + len, "/bin", sizeof("/bin"));
        len += strlen("/bin");
    }
    for (const char *p = path; p; p = strchr(p, ':')) {
        p += *p == ':';
        if (strncmp(p, dir, len) == 0 && (p[len] == ':' || p[len] == '\0'))
            return xasprintf("%sglovebox", sudo);
    }
    if (!getcwd(cwd, sizeof(cwd)))
        return xasprintf("%s%s/glovebox", sudo, dir);
    len = strlen(cwd);
    return strncmp(dir, cwd, len) == 0 && dir[len] == '/'
               ? xasprintf("%s%s/glovebox", sudo, dir + len + 1)
               : xasprintf("%s%s/glovebox", sudo, dir);
}

static const char *without_sudo(const char *command)
{
    return strncmp(command, "sudo ", 5) == 0 ? command + 5 : command;
}

/* Where the console is. At a terminal, a link that signs in as the first
 * administrator; elsewhere output may be kept, so it holds no secret (U3). */
static void announce_console(struct service *s, const char *url,
                             const char *command)
{
    char *path cleanup(mem_free) =
        xasprintf("%s/admin.key", s->conf->data_dir);
    char key[128] = "", authorization[160], secret[AUTH_LINK_SIZE] = "";
    int fd cleanup(fd_close) = open(path, O_RDONLY | O_CLOEXEC);
    struct principal who;
    struct error ignored;

    if (isatty(STDOUT_FILENO) == 1 && fd >= 0 &&
        read(fd, key, sizeof(key) - 1) > 0) {
        key[strcspn(key, "\n")] = '\0';
        (void)snprintf(authorization, sizeof(authorization), "Bearer %s", key);
        if (auth_check(s->auth, authorization, "", &who, &ignored) < 0 ||
            auth_link_make(s->auth, &who, s->conf->console_link_s, secret,
                           &ignored) < 0)
            secret[0] = '\0';
    }
    (void)printf("console: %s/%s%s\n", url, secret[0] ? "#/link/" : "",
                 secret);
    (void)printf(
        "%s: %s console%s%s\n",
        secret[0] ? "the link works once, for a minute; for another"
                  : "for a link that signs you in",
        command, conf_is_default_data(s->conf->data_dir) ? "" : " --data ",
        conf_is_default_data(s->conf->data_dir) ? "" : s->conf->data_dir);
    explicit_bzero(key, sizeof(key));
    explicit_bzero(authorization, sizeof(authorization));
    explicit_bzero(secret, sizeof(secret));
}

/* Tells people and programs the address of the service. */
static int announce(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    bool v6 = strchr(c->listen_host, ':') != NULL;
    char *url cleanup(mem_free) = xasprintf(
        "http%s://%s%s%s:%u", conf_speaks_tls(c) ? "s" : "", v6 ? "[" : "",
        c->listen_host, v6 ? "]" : "", http_port(s->http));
    char *command cleanup(mem_free) = command_line_path();

    withdraw_lines(s); /* those of a service that was killed */
    if ((s->tls_pin[0] && publish_line(s, SERVICE_PIN, s->tls_pin, err) < 0) ||
        publish_line(s, SERVICE_ENDPOINT, url, err) < 0)
        return -(int)err->code;
    (void)printf("glovebox " GLOVEBOX_VERSION " listening on %s\n"
                 "key in %s/admin.key\n",
                 url, c->data_dir);
    if (conf_tls_is_auto(c))
        (void)printf("clients must trust %s/tls/ca.pem\n", c->data_dir);
    (void)printf("try: %s run%s%s -c 'print(6 * 7)'\n", command,
                 conf_is_default_data(c->data_dir) ? "" : " --data ",
                 conf_is_default_data(c->data_dir) ? "" : c->data_dir);
    announce_console(s, url, command);
    if (s->public_fds[SERVICE_ENDPOINT] >= 0)
        (void)printf("once, to use it without sudo: sudo cat %s/admin.key | "
                     "%s login\n",
                     c->data_dir, without_sudo(command));
    (void)fflush(stdout);
    log_event(LOG_INFO, "listening", "url", url, NULL);
    return 0;
}

/* Returns 0 when told to stop, -1 when the warden has ended. SIGHUP reloads
 * the policy; policy_reload logs a policy that cannot be used. */
static int wait_for_stop(struct service *s)
{
    struct pollfd fds[] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = warden_call_fd(s->warden)}, /* reports only POLLHUP */
    };

    for (;;) {
        struct signalfd_siginfo info;
        struct error err;

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
            return -1;
        if (fds[1].revents) {
            log_event(LOG_ERROR, "warden_gone", NULL);
            return -1;
        }
        /* Read it, or it would end us when signals are unblocked again. */
        if (!fds[0].revents ||
            read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
            continue;
        /* The kernel sends SIGHUP when the terminal closes: stop then. */
        if (info.ssi_signo != SIGHUP || info.ssi_code == SI_KERNEL)
            return 0;
        (void)policy_reload(s->core.policy, &err);
    }
}

/* Without root this process cannot start another warden. */
static int warden_ended(struct error *err)
{
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the privileged helper (glovebox-warden) has ended, and "
                    "without it no session can run");
    return error_hint(err, "Start the service again; under systemd it "
                           "restarts by itself. The log says why it ended.");
}

/* Also stops a service that started only in part. */
static void stop_service(struct service *s)
{
    sigset_t none;

    /* A second signal ends the process at once; the next start cleans up. */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (s->http)
        withdraw_lines(s);
    nodes_retire(s->core.nodes); /* the others send no new session */
    http_quiesce(s->http);
    doors_stop(&s->doors);  /* or http_stop would wait for their streams */
    models_stop(s->models); /* or an answer of minutes is waited for */
    chat_stop(s->chat, s->conf->stop_deadline_s);
    if (s->core.blobs)
        blobs_stop(
            s->core.blobs); /* a check of hours need not be waited for */
    if (s->search)
        search_stop(s->search); /* or a document being read is waited for */
    approvals_stop(s->core.approvals); /* or it would begin new ones */
    sessions_stop(s->sessions, s->conf->stop_deadline_s);
    http_quiesce(s->node_http);
    http_stop(s->http, 2); /* answers what the stop has ended */
    http_stop(s->node_http, 2);
    doors_close(&s->doors);
    if (s->workspaces)
        workspaces_on_expire(s->workspaces, NULL, NULL);
    chat_close(s->chat);
    agents_close(s->agents);
    search_close(s->search);
    models_close(s->models);
    if (sessions_close(s->sessions, 0))
        executions_close(s->executions);
    service_nodes_unlisten(s);
    nodes_stop(s->core.nodes);
    mirrors_close(s->mirrors);
    workspaces_close(s->workspaces);
    egress_call_close(s->egress);
    model_link_close(s->model_link);
    core_close(&s->core);
    audit_close(s->core.audit);
    auth_close(s->auth);
    blobs_close(s->core.blobs); /* a commit may have asked for it until now */
    if (s->fetches)
        fetch_stop();
    if (s->disk)
        disk_refill(s->disk, NULL, NULL);
    nodes_close(s->core.nodes);
    store_close(s->core.store);
    disk_close(s->disk);
    warden_call_close(s->warden);
    service_tls_forget(s);
    for (unsigned i = 0; i < SERVICE_PUBLIC_FILES; i++)
        fd_close(&s->public_fds[i]);
    fd_close(&s->signal_fd);
    fd_close(&s->uids_fd);
    fd_close(&s->defs_fd);
    free(s->defs_path);
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
                        .public_fds = {-1, -1},
                        .uids_fd = -1,
                        .defs_fd = -1};
    int r = service_rights_walls(&s, err);

    if (r == 0)
        r = service_rights_user(&s, err);
    if (r == 0)
        r = service_rights_data(&s, err);
    if (r == 0)
        r = service_rights_descriptors(&own, err);
    if (r == 0)
        r = service_setup_warden(&s, err);
    fair_priority_raise(); /* after the warden has started, which must not
                              inherit it */
    if (r == 0)
        r = service_setup_egress(&s, err);
    if (r == 0)
        service_setup_model(&s);
    if (r == 0)
        r = service_tls_read(&s, err);
    if (r == 0) {
        service_rights_publish(&s);
        service_rights_definitions(&s);
        r = service_rights_drop(&s, err);
    }
    if (r == 0)
        service_rights_definitions_keep(&s, &own);
    if (r == 0)
        r = open_signals(&s, err);
    if (r == 0)
        r = warden_call_tend(s.warden, err);
    if (r == 0)
        r = start_core(&s, err);
    if (r == 0)
        r = start_http(&s, err);
    if (r == 0)
        r = announce(&s, err);
    if (r == 0 && wait_for_stop(&s) < 0)
        r = warden_ended(err);
    if (s.http)
        log_event(LOG_INFO, "stopping", NULL);
    stop_service(&s);
    return r;
}

/* ---- gloveboxd --restore-from ---------------------------------------------
 */

/* One line per step; the command line shows them as a progress bar. */
static void print_restore_progress(void *ctx, const char *what, uint64_t done,
                                   uint64_t total)
{
    (void)ctx;
    (void)printf("restore %s %" PRIu64 " %" PRIu64 "\n", what, done, total);
    (void)fflush(stdout);
}

int service_restore(const struct conf *conf, const char *from,
                    const char *key_file, struct error *err)
{
    struct upkeep_secret secret cleanup(upkeep_secret_done) = {0};
    struct service s = {.conf = conf, .data_fd = -1};
    /* With the rights of the person who restores. */
    int r = key_file ? upkeep_secret_read(key_file, &secret, err) : 0;

    if (r == 0)
        r = service_rights_walls(&s, err);

    if (r == 0)
        r = service_rights_user(&s, err);
    if (r < 0)
        return r;
    r = priv_claim_dir(conf->data_dir, &s.user, &s.data_fd);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r,
                           "cannot use %s as data directory", conf->data_dir);
    r = service_rights_drop(&s, err);
    if (r == 0)
        r = upkeep_restore(from, conf->data_dir, key_file ? &secret : NULL,
                           print_restore_progress, NULL, err);
    /* A backup holds a database of SQLite. */
    if (r == 0 && strstr(conf->store, "://"))
        r = service_migrate_restored(conf, s.data_fd, err);
    fd_close(&s.data_fd);
    return r;
}
