/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of the proxy. They arrive on the thread of the link, where nothing
 * may wait: they are counted, handed to the running execution and written to
 * the audit trail. In a burst everything is counted, but only the first events
 * of each time window are listed, then one with the number of the others (E5).
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "egress/call.h"
#include "network/network_int.h"
#include "quota/quota.h"

/* ---- reports in an execution -------------------------------------------- */

static const char *const whats[] = {
    [EGRESS_REPORT_HTTP] = "http",      [EGRESS_REPORT_TUNNEL] = "tunnel",
    [EGRESS_REPORT_LOOKUP] = "resolve", [EGRESS_REPORT_PACKAGE] = "package",
    [EGRESS_REPORT_BUDGET] = "connect",
};

static struct network_connection as_connection(const struct egress_report *r)
{
    return (struct network_connection){
        .at_ms = r->at_ms,
        .what = whats[r->type],
        .host = r->package[0] ? r->package : r->host,
        .port = r->port,
        .allowed = r->allowed,
        .method = r->method,
        .path = r->package[0] ? r->version : r->path,
        .reason = r->allowed ? "" : r->reason,
        .count = 1,
        .bytes_out = r->bytes_out,
        .bytes_in = r->bytes_in};
}

static const char *pending_text(char **at, const char *text)
{
    char *kept = *at;
    size_t len = strlen(text) + 1;

    memcpy(kept, text, len);
    *at += len;
    return kept;
}

/* Keeps it for the next execution; networks.lock is held. */
static void pending_add(struct network *net,
                        const struct network_connection *c)
{
    struct net_pending **end = &net->pending;
    struct net_pending *p;
    char *at;

    if (net->pending_count >= NETWORK_PENDING_MAX)
        return;
    p = xcalloc(1, sizeof(*p) + strlen(c->host) + strlen(c->method) +
                       strlen(c->path) + strlen(c->reason) + 4);
    at = p->room;
    p->c = *c;
    p->c.host = pending_text(&at, c->host);
    p->c.method = pending_text(&at, c->method);
    p->c.path = pending_text(&at, c->path);
    p->c.reason = pending_text(&at, c->reason);
    while (*end)
        end = &(*end)->next;
    *end = p;
    net->pending_count++;
}

/* To the execution that runs, or the next one. */
static void show_connection(struct network *net, const struct egress_report *r)
{
    struct network_connection c = as_connection(r);
    struct networks *n = net->all;

    mutex_lock(&n->lock);
    if (!net->watcher.on_connection ||
        !net->watcher.on_connection(net->watcher.ctx, &c))
        pending_add(net, &c);
    mutex_unlock(&n->lock);
}

void network_begin(struct network *net, const struct network_watcher *watcher)
{
    struct networks *n = net->all;
    struct net_pending *p, *next;

    mutex_lock(&n->lock);
    net->watcher = *watcher;
    p = take_ptr(net->pending);
    net->pending_count = 0;
    for (; p; p = next) {
        next = p->next;
        (void)watcher->on_connection(
            watcher->ctx, &p->c); /* an execution that begins takes it */
        free(p);
    }
    mutex_unlock(&n->lock);
}

void network_end(struct network *net)
{
    mutex_lock(&net->all->lock);
    net->watcher = (struct network_watcher){0};
    mutex_unlock(&net->all->lock);
}

/* ---- reports in the audit trail ----------------------------------------- */

static const char *action_of(const struct egress_report *r)
{
    switch (r->type) {
    case EGRESS_REPORT_LOOKUP:
        return r->allowed ? NULL : "network.lookup";
    case EGRESS_REPORT_PACKAGE:
        return r->allowed ? "package.install" : "package.refused";
    case EGRESS_REPORT_BUDGET:
        return "network.budget";
    default:
        return r->allowed ? "network.request" : "network.refused";
    }
}

/* May one more audit event be written in this window? *ret_before: how many
 * were left out in the last one. */
static bool audit_room(struct network *net, uint32_t *ret_before)
{
    struct networks *n = net->all;
    uint64_t now = clock_mono_ms();
    bool room;

    *ret_before = 0;
    mutex_lock(&n->lock);
    if (now >= net->window_ms + NETWORK_LINES_MS) {
        net->window_ms = now;
        net->lines = 0;
        *ret_before = net->unlisted;
        net->unlisted = 0;
    }
    room = net->lines < NETWORK_LINES_MAX;
    if (room)
        net->lines++;
    else
        net->unlisted++;
    mutex_unlock(&n->lock);
    return room;
}

static void audit_write(struct network *net, const char *action,
                        const char *path, const char *detail, bool ok)
{
    struct actor who = network_actor(net);
    struct audit_event event = {.action = action,
                                .workspace = net->workspace,
                                .object = net->session,
                                .path = path,
                                .result = ok ? NULL : "forbidden",
                                .detail = detail};

    audit_later(net->all->core->audit, &who, &event);
}

static void audit_report(struct network *net, const struct egress_report *r)
{
    const char *action = action_of(r);
    char place[EGRESS_HOST_MAX + 8], detail[480];
    uint32_t before;

    if (!action)
        return;
    if (!audit_room(net, &before))
        return;
    if (before) {
        (void)snprintf(detail, sizeof(detail),
                       "%u more were not listed one by one", before);
        audit_write(net, "network.more", NULL, detail, true);
    }
    (void)snprintf(place, sizeof(place), r->port ? "%s:%u" : "%s", r->host,
                   r->port);

    if (r->package[0])
        (void)snprintf(detail, sizeof(detail), "%s %s sha256 %s%s%s",
                       r->package, r->version, r->sha256,
                       r->allowed ? "" : ": ", r->allowed ? "" : r->reason);
    else if (!r->allowed)
        (void)snprintf(detail, sizeof(detail), "%s%s%s", r->method,
                       r->method[0] ? ": " : "", r->reason);
    else
        (void)snprintf(detail, sizeof(detail),
                       "%s%s%.300s to %s, status %u, %llu bytes out, %llu in, "
                       "rule %u",
                       r->method[0] ? r->method : "CONNECT",
                       r->path[0] ? " " : "", r->path, r->address, r->status,
                       (unsigned long long)r->bytes_out,
                       (unsigned long long)r->bytes_in, r->rule);

    audit_write(net, action, place, detail,
                r->allowed && r->type != EGRESS_REPORT_BUDGET);
}

/* ---- usage -------------------------------------------------------------- */

static void add_package(struct network *net, const struct egress_report *r)
{
    struct networks *n = net->all;
    size_t i = 0;

    mutex_lock(&n->lock);
    if (!net->packages) {
        net->packages_room = arena_new();
        net->packages = xcalloc(NETWORK_PACKAGES_MAX, sizeof(*net->packages));
    }
    while (i < net->package_count &&
           (strcmp(net->packages[i].name, r->package) != 0 ||
            strcmp(net->packages[i].version, r->version) != 0 ||
            strcmp(net->packages[i].sha256, r->sha256) != 0))
        i++;
    if (i == net->package_count && i < NETWORK_PACKAGES_MAX)
        net->packages[net->package_count++] = (struct network_package){
            .name = arena_strdup(net->packages_room, r->package),
            .version = arena_strdup(net->packages_room, r->version),
            .sha256 = arena_strdup(net->packages_room, r->sha256),
            .at_ms = r->at_ms};
    mutex_unlock(&n->lock);
}

/* Reports come from another process; a malformed one is ignored. */
static bool plausible(const struct egress_report *r)
{
    return r->type >= EGRESS_REPORT_HTTP && r->type <= EGRESS_QUESTION &&
           memchr(r->host, 0, sizeof(r->host)) &&
           memchr(r->address, 0, sizeof(r->address)) &&
           memchr(r->method, 0, sizeof(r->method)) &&
           memchr(r->path, 0, sizeof(r->path)) &&
           memchr(r->package, 0, sizeof(r->package)) &&
           memchr(r->version, 0, sizeof(r->version)) &&
           memchr(r->sha256, 0, sizeof(r->sha256)) &&
           memchr(r->reason, 0, sizeof(r->reason));
}

void network_report(void *ctx, const struct egress_report *r)
{
    struct networks *n = ctx;
    struct network *net;

    if (!plausible(r))
        return;
    net = network_by_handle(n, r->handle);
    if (!net) {
        if (r->type == EGRESS_QUESTION)
            egress_call_answer(n->egress, r->question, false,
                               "the session is gone");
        return;
    }
    if (r->type == EGRESS_QUESTION) {
        network_ask_policy(net, r);
    } else {
        struct quotas *q = net->all->core->quotas;
        const char *tenant = net->tenant;
        uint64_t bytes = r->bytes_out + r->bytes_in;
        struct error ignored;

        if (bytes)
            atomic_fetch_add(&net->bytes_used, bytes);
        if (r->allowed && r->type != EGRESS_REPORT_LOOKUP)
            atomic_fetch_add(&net->requests_used, 1);
        atomic_store(&net->dirty, true);
        quota_spend(q, tenant, QUOTA_EGRESS, bytes);
        if (bytes && quota_check(q, tenant, QUOTA_EGRESS, &ignored) < 0)
            network_check_later(
                net); /* the quota is used up: it loses its network */

        if (r->type == EGRESS_REPORT_PACKAGE && r->allowed)
            add_package(net, r);
        if (r->type != EGRESS_REPORT_LOOKUP || !r->allowed)
            show_connection(net, r);
        audit_report(net, r);
    }
    network_unref(net);
}
