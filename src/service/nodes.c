/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon as one node of several (node/): opens the module, tells it what
 * this machine has free, and serves requests that other nodes forward. Runs
 * in gloveboxd; the hooks run on threads of node/.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "approval/approval.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "fetch/fetch.h"
#include "node/node.h"
#include "policy/policy.h"
#include "quota/quota.h"
#include "service/service_int.h"
#include "store/store.h"

#define PEM_MAX ((size_t)64 << 10)

int service_nodes_open(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    const struct node_settings settings = {
        .data_dir = c->data_dir,
        .name = c->node_name,
        .address = c->node_address[0] ? c->node_address : c->node_listen,
        .labels = c->node_labels,
        .version = GLOVEBOX_VERSION,
        .lease_s = c->node_lease_s,
    };
    int r;

    if (!c->node_listen[0])
        return 0;
    if (strncmp(c->store, "postgres", strlen("postgres")) != 0) {
        (void)error_set(err, ERR_INVALID,
                        "node_listen is set, but the store is not one that "
                        "several nodes can share");
        return error_hint(err, "Set store to a postgres:// URL, or leave "
                               "node_listen empty.");
    }
    r = fetch_start(err);
    if (r == 0)
        r = nodes_open(&settings, s->core.store, s->core.audit, &s->core.nodes,
                       err);
    return r;
}

/* ---- what other nodes change (N5) ----------------------------------------
 */

static void on_keys(void *ctx, const char *payload)
{
    struct service *s = ctx;
    struct error err;

    (void)payload;
    if (auth_reload(s->auth, &err) < 0)
        log_event(LOG_ERROR, "keys_not_read", "error", err.message, NULL);
}

static void on_policy(void *ctx, const char *payload)
{
    struct service *s = ctx;
    struct error err;

    (void)payload;
    if (policy_follow(s->core.policy, &err) < 0)
        log_event(LOG_ERROR, "policy_not_read", "error", err.message, NULL);
}

static void on_quotas(void *ctx, const char *payload)
{
    struct service *s = ctx;
    struct error err;

    (void)payload;
    if (quotas_reload(s->core.quotas, &err) < 0)
        log_event(LOG_ERROR, "quotas_not_read", "error", err.message, NULL);
}

static void on_nodes(void *ctx, const char *payload)
{
    struct service *s = ctx;

    (void)payload;
    nodes_changed(s->core.nodes);
}

static void on_approvals(void *ctx, const char *payload)
{
    struct service *s = ctx;

    (void)payload;
    approvals_decided(s->core.approvals);
}

static struct store_listener listeners[] = {
    {.channel = APPROVAL_CHANNEL, .on_notice = on_approvals},
    {.channel = NODE_CHANNEL, .on_notice = on_nodes},
    {.channel = AUTH_CHANNEL, .on_notice = on_keys},
    {.channel = POLICY_CHANNEL, .on_notice = on_policy},
    {.channel = QUOTA_CHANNEL, .on_notice = on_quotas},
};

static int listen_to_changes(struct service *s, struct error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(listeners); i++) {
        listeners[i].ctx = s;
        r = store_listen(s->core.store, &listeners[i], err);
    }
    return r;
}

void service_nodes_unlisten(struct service *s)
{
    for (size_t i = 0; s->core.nodes && i < ARRAY_SIZE(listeners); i++)
        if (listeners[i].ctx)
            store_unlisten(s->core.store, &listeners[i]);
}

/* ---- hooks -------------------------------------------------------------- */

/* Bytes of MemAvailable: what can be used without swapping. */
static uint64_t available_bytes(void)
{
    char *text cleanup(mem_free) = NULL;
    const char *at;
    size_t len = 0;

    if (fd_read_file(AT_FDCWD, "/proc/meminfo", 16384, &text, &len) < 0)
        return 0;
    at = strstr(text, "MemAvailable:");
    return at ? strtoull(at + strlen("MemAvailable:"), NULL, 10) * 1024 : 0;
}

static void tell_load(void *ctx, struct node_load *ret)
{
    struct service *s = ctx;
    struct sysinfo info = {0};

    (void)sysinfo(&info);
    ret->cores = (uint32_t)get_nprocs();
    ret->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    ret->free_bytes = MIN(available_bytes(), ret->memory_bytes);
    sessions_node_load(s->sessions, ret);
    executions_note_running(s->executions);
}

static void stop_sandboxes(void *ctx)
{
    struct service *s = ctx;

    sessions_lost(s->sessions);
}

static void drain(void *ctx)
{
    struct service *s = ctx;

    sessions_drain(s->sessions);
}

int service_nodes_start(struct service *s, struct error *err)
{
    const struct node_hooks hooks = {.ctx = s,
                                     .load = tell_load,
                                     .on_lost = stop_sandboxes,
                                     .on_drain = drain};

    int r;

    if (!s->core.nodes)
        return 0;
    r = listen_to_changes(s, err);
    return r < 0 ? r : nodes_start(s->core.nodes, &hooks, err);
}

/* ---- the listener ------------------------------------------------------- */

static int parse_listen(const char *text, char host[64], uint16_t *ret_port,
                        struct error *err)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    char *end = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;

    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (!colon || !len || len > 63 || !colon[1] || *end || port > 65535 ||
        port == 0)
        return error_set(err, ERR_INVALID,
                         "node_listen must be HOST:PORT with a numeric host "
                         "and a port from 1 to 65535");
    (void)snprintf(host, 64, "%.*s", (int)len, text);
    *ret_port = (uint16_t)port;
    return 0;
}

int service_nodes_listen(struct service *s,
                         const struct http_settings *settings,
                         struct error *err)
{
    struct nodes *n = s->core.nodes;
    struct http_settings own = *settings;
    char *certificate cleanup(mem_free) = NULL;
    char *key cleanup(mem_free) = NULL;
    char host[64];
    size_t len;
    int r;

    if (!n)
        return 0;
    r = parse_listen(s->conf->node_listen, host, &own.port, err);
    if (r < 0)
        return r;
    r = fd_read_file(AT_FDCWD, nodes_certificate_file(n), PEM_MAX,
                     &certificate, &len);
    if (r == 0)
        r = fd_read_file(AT_FDCWD, nodes_key_file(n), PEM_MAX, &key, &len);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r,
                           "cannot read the key of the node");
    own.host = host;
    own.tls_certificate = own.tls_clients = certificate;
    own.tls_key = key;
    own.keep_bodies = false;
    r = http_start(&own, serve_forwarded, &s->doors, &s->node_http, err);
    explicit_bzero(key, len);
    return r;
}
