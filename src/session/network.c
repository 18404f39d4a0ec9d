/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's code may reach: asked for, shown, changed while it lives.
 * Runs in gloveboxd on the caller's thread. A change is checked, permitted,
 * written down and then put in force; what is withdrawn is withdrawn before
 * anything new is given. A dormant session's holds once it wakes.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/call.h"
#include "session/network_int.h"
#include "store/store.h"

const char *const session_egress_names[] = {"none", "allowlist", "open", NULL};

const char *session_egress_name(enum session_egress mode)
{
    return session_egress_names[mode];
}

int session_egress_parse(const char *name, enum session_egress *ret)
{
    for (size_t i = 0; session_egress_names[i]; i++)
        if (strcmp(session_egress_names[i], name) == 0) {
            *ret = (enum session_egress)i;
            return 0;
        }
    return -ERR_INVALID;
}

void session_network_info_done(struct session_network_info *info)
{
    if (info->room)
        arena_free(take_ptr(info->room));
}

enum session_egress session_network_mode(const struct session *se)
{
    return (enum session_egress)atomic_load(&se->net->mode);
}

/* ---- one ---------------------------------------------------------------- */

static struct session_net *net_new(void)
{
    struct session_net *net = xcalloc(1, sizeof(*net));

    (void)pthread_mutex_init(&net->lock, NULL); /* cannot fail on Linux */
    return net;
}

void session_net_free(struct session_net *net)
{
    if (!net)
        return;
    while (net->pending) {
        struct net_pending *next = net->pending->next;

        free(net->pending);
        net->pending = next;
    }
    session_network_info_done(&net->want);
    if (net->packages_room)
        arena_free(net->packages_room);
    free(net->packages);
    (void)pthread_mutex_destroy(&net->lock);
    free(net);
}

/* want: taken, for what it was before. The lock is held, or nobody else sees
 * it; a note of its row may be under way. */
static void settle(struct sessions *m, struct session_net *net,
                   struct session_network_info *want)
{
    struct session_network_info old = net->want;

    pthread_mutex_lock(&m->networks->lock);
    net->want = *want;
    pthread_mutex_unlock(&m->networks->lock);
    *want = old;
    atomic_store(&net->mode, net->want.net.mode);
    atomic_store(&net->wanted, net->want.net.mode != SESSION_EGRESS_NONE ||
                                   net->want.net.packages);
}

struct session_net *session_net_load(const char *text)
{
    struct session_net *net = net_new();

    network_json_load(text, net);
    atomic_store(&net->wanted, net->want.net.mode != SESSION_EGRESS_NONE ||
                                   net->want.net.packages);
    return net;
}

/* Called within a transaction, and so never waits for the network's lock,
 * which is held over others. */
char *session_net_text(struct session *se)
{
    struct session_networks *n = se->m->networks;
    char *text;

    pthread_mutex_lock(&n->lock);
    text = network_json_text(se->net, &se->net->want);
    pthread_mutex_unlock(&n->lock);
    return text;
}

char *session_net_hosts(const struct session *se)
{
    struct session_networks *n = se->m->networks;
    const struct session_network *net = &se->net->want.net;
    struct buf b cleanup(buf_done) = {0};

    if (session_network_mode(se) != SESSION_EGRESS_ALLOWLIST)
        return NULL;
    buf_adds(&b, "");
    pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < net->destination_count; i++)
        buf_addf(&b, "%s%s", i ? "," : "", net->destinations[i].host);
    pthread_mutex_unlock(&n->lock);
    return buf_take(&b, NULL);
}

bool session_net_dirty(struct session *se)
{
    return atomic_exchange(&se->net->dirty, false);
}

/* ---- for a new session -------------------------------------------------- */

/* What a pool gives is missed where policy has something against it. */
static int plan_of_pool(struct network_ask *ask,
                        struct session_network_info *want, struct error *err)
{
    struct error why;
    int rc = network_pool_read(ask->pool, want, err);

    if (rc < 0)
        return rc;
    ask->of_pool = true;
    if (network_permit(ask, want, &why) == 0)
        return 0;
    session_network_info_done(want);
    *want = (struct session_network_info){0};
    (void)snprintf(want->problem, sizeof(want->problem), "%.199s",
                   why.message);
    return 0;
}

int session_net_plan(struct sessions *m, const struct actor *who,
                     const struct session_network *asked, struct pool *pool,
                     const char *runtime, struct session_net **ret,
                     struct error *err)
{
    struct session_network_info want cleanup(session_network_info_done) = {0};
    struct network_ask ask = {
        .m = m, .who = who, .pool = pool->conf, .runtime = runtime};
    int rc;

    if (asked) {
        rc = network_spec_check(asked, ask.pool, &want, err);
        if (rc == 0)
            rc = network_permit(&ask, &want, err);
    } else {
        rc = plan_of_pool(&ask, &want, err);
    }
    if (rc < 0)
        return rc;
    *ret = net_new();
    settle(m, *ret, &want);
    return 0;
}

static void warn_open(const struct session *se, const struct actor *who)
{
    log_event(LOG_WARN, "session_egress_open", "session", se->id, "tenant",
              who->tenant, "means", SESSION_OPEN_MEANS, NULL);
}

void session_net_announce(const struct session *se, const struct actor *who)
{
    struct audit_event event = {.action = "session.network",
                                .workspace = se->workspace,
                                .object = se->id,
                                .after =
                                    session_egress_names[SESSION_EGRESS_OPEN],
                                .detail = SESSION_OPEN_MEANS};

    if (session_network_mode(se) != SESSION_EGRESS_OPEN)
        return;
    warn_open(se, who);
    audit_later(workspaces_audit(se->m->workspaces), who, &event);
}

/* ---- boxes -------------------------------------------------------------- */

int session_net_attach(struct session *se, struct box *box, struct error *err)
{
    struct session_net *net = se->net;
    int rc;

    pthread_mutex_lock(&net->lock);
    net->box = session_box_ref(box);
    box->network = session_ref(se);
    rc = atomic_load(&net->wanted) ? network_grant(se, err) : 0;
    pthread_mutex_unlock(&net->lock);
    if (rc == -ERR_UNAVAILABLE)
        network_work_retry(se->m->networks);
    return rc;
}

void session_net_detach(struct session *se, struct box *box)
{
    struct session_net *net = se->net;
    bool mine;

    pthread_mutex_lock(&net->lock);
    box->network = NULL;
    mine = net->box == box;
    if (mine) {
        network_revoke(se);
        net->box = NULL;
    }
    pthread_mutex_unlock(&net->lock);
    if (mine)
        session_box_unref(box); /* the caller has another */
    session_unref(se);
}

/* ---- shown -------------------------------------------------------------- */

static void copy_packages(const struct session_net *net,
                          struct session_network_info *ret)
{
    struct session_package *list =
        arena_alloc(ret->room, (net->package_count + 1) * sizeof(*list));

    for (size_t i = 0; i < net->package_count; i++) {
        const struct session_package *p = &net->packages[i];

        list[i] = (struct session_package){
            .name = arena_strdup(ret->room, p->name),
            .version = arena_strdup(ret->room, p->version),
            .sha256 = arena_strdup(ret->room, p->sha256),
            .at_ms = p->at_ms};
    }
    ret->installed = list;
    ret->installed_count = net->package_count;
}

/* The lock is held. */
static void fill_info(const struct session *se,
                      struct session_network_info *ret)
{
    struct session_networks *n = se->m->networks;
    const struct conf_pool *pool = se->pool->conf;
    struct session_net *net = se->net;

    network_spec_copy(&net->want, ret);
    ret->granted = net->handle != 0 && !atomic_load(&net->void_);
    if (atomic_load(&net->void_) && net->handle)
        (void)snprintf(ret->problem, sizeof(ret->problem),
                       "the proxy was lost; it is started again");
    ret->bytes_used = atomic_load(&net->bytes_used);
    ret->requests_used = atomic_load(&net->requests_used);
    if (!ret->net.bytes)
        ret->net.bytes = pool->egress_bytes;
    if (!ret->net.connections)
        ret->net.connections = pool->egress_connections;
    if (!ret->net.requests)
        ret->net.requests = pool->egress_requests;
    pthread_mutex_lock(&n->lock);
    copy_packages(net, ret);
    pthread_mutex_unlock(&n->lock);
}

int session_network_get(struct sessions *s, const struct actor *who,
                        const char *id, struct session_network_info *ret,
                        struct error *err)
{
    struct session *se = session_hold(s, who, id, err);

    if (!se)
        return -(int)err->code;
    pthread_mutex_lock(&se->net->lock);
    fill_info(se, ret);
    pthread_mutex_unlock(&se->net->lock);
    session_let(se);
    return 0;
}

/* ---- changed ------------------------------------------------------------ */

/* Its row and the trail, before anything is given. */
static int write_down(struct session *se, const struct actor *who,
                      const struct session_network_info *want,
                      struct error *err)
{
    struct workspaces *w = se->m->workspaces;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char *text cleanup(mem_free) = NULL;
    enum session_egress mode = want->net.mode;
    char detail[200];
    struct audit_event event = {
        .action = "session.network",
        .workspace = se->workspace,
        .object = se->id,
        .before = session_egress_names[se->net->want.net.mode],
        .after = session_egress_names[mode],
        .detail = detail};
    int rc = store_begin(workspaces_store(w), STORE_WRITE,
                         "storing a session's network", &tx, err);

    (void)snprintf(detail, sizeof(detail), "%zu destinations%s%s",
                   want->net.destination_count,
                   want->net.packages ? ", packages" : "",
                   mode == SESSION_EGRESS_OPEN ? "; " SESSION_OPEN_MEANS : "");
    pthread_mutex_lock(&se->m->networks->lock);
    text = network_json_text(se->net, want);
    pthread_mutex_unlock(&se->m->networks->lock);
    if (rc == 0 && se->stored)
        rc = MIN(store_exec(tx, err,
                            "UPDATE sessions SET network = ?2 WHERE id = ?1",
                            "tt", se->id, text),
                 0);
    if (rc == 0)
        rc = audit_add(workspaces_audit(w), tx, who, &event, err);
    return rc < 0 ? rc : store_commit(&tx, err);
}

/* It could not be written down, so it stays as it was. */
static int unchanged(struct session *se, bool revoked, int rc)
{
    struct error ignored;

    if (revoked && se->net->box)
        (void)network_grant(se, &ignored); /* the session shows it */
    return rc;
}

/* The lock is held. want: taken once it is written down. */
static int change(struct session *se, const struct actor *who,
                  struct session_network_info *want, struct error *err)
{
    bool wider = network_spec_wider(&se->net->want.net, &want->net);
    int rc;

    if (!wider)
        network_revoke(se); /* before anything can go wrong */
    rc = write_down(se, who, want, err);
    if (rc < 0)
        return unchanged(se, !wider, rc);
    settle(se->m, se->net, want);
    return wider ? network_grant_more(se, err) : network_grant(se, err);
}

int session_network_set(struct sessions *s, const struct actor *who,
                        const char *id, const struct session_network *net,
                        struct session_network_info *ret, struct error *err)
{
    struct session_network_info want cleanup(session_network_info_done) = {0};
    struct session *se = session_hold(s, who, id, err);
    struct network_ask ask = {.m = s, .who = who};
    int rc;

    if (!se)
        return -(int)err->code;
    ask.pool = se->pool->conf;
    ask.runtime = se->runtime->name;
    ask.session = se->id;
    ask.pinned = atomic_load(&se->policy_version);
    rc = network_spec_check(net, ask.pool, &want, err);
    if (rc == 0)
        rc = network_permit(&ask, &want, err);
    if (rc == 0) {
        pthread_mutex_lock(&se->net->lock);
        rc = change(se, who, &want, err);
        if (rc == 0)
            fill_info(se, ret);
        pthread_mutex_unlock(&se->net->lock);
        if (rc == -ERR_UNAVAILABLE)
            network_work_retry(s->networks);
    }
    if (rc == 0 && net->mode == SESSION_EGRESS_OPEN)
        warn_open(se, who);
    session_let(se);
    return rc;
}
