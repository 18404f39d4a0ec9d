/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of one session: planned, loaded, shown, changed, attached to a
 * sandbox; and the tables of networks. Runs in gloveboxd on the caller's
 * thread. A change is checked, permitted, saved and then put in force; access
 * that is withdrawn ends before new access begins. For a session without a
 * sandbox the change takes effect when it wakes.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "network/network_int.h"
#include "store/store.h"

void network_info_done(struct network_info *info)
{
    if (info->room)
        arena_free(take_ptr(info->room));
}

/* ---- one network -------------------------------------------------------- */

static struct network *network_new(struct networks *n)
{
    struct network *net = xcalloc(1, sizeof(*net));

    atomic_init(&net->refs, 1);
    net->all = n;
    mutex_init(&net->lock); /* cannot fail on Linux */
    return net;
}

struct network *network_ref(struct network *net)
{
    atomic_fetch_add(&net->refs, 1);
    return net;
}

void network_unref(struct network *net)
{
    if (!net || atomic_fetch_sub(&net->refs, 1) != 1)
        return;
    while (net->pending) {
        struct net_pending *next = net->pending->next;

        free(net->pending);
        net->pending = next;
    }
    network_info_done(&net->want);
    if (net->packages_room)
        arena_free(net->packages_room);
    free(net->packages);
    pool_unref(net->pool);
    free(net->tenant);
    free(net->runtime);
    mutex_done(&net->lock);
    free(net);
}

void network_bind(struct network *net, const struct network_owner *owner)
{
    (void)snprintf(net->session, sizeof(net->session), "%s", owner->session);
    (void)snprintf(net->workspace, sizeof(net->workspace), "%s",
                   owner->workspace);
    (void)snprintf(net->key, sizeof(net->key), "%s", owner->key);
    net->tenant = xstrdup(owner->tenant);
    net->runtime = xstrdup(owner->runtime);
    net->admin = owner->admin;
    net->pool = pool_ref(owner->pool);
    atomic_store(&net->policy_version, owner->policy_version);
}

void network_set_policy(struct network *net, int64_t version)
{
    atomic_store(&net->policy_version, version);
}

struct actor network_actor(const struct network *net)
{
    return (struct actor){
        .tenant = net->tenant, .key = net->key, .admin = net->admin};
}

enum session_egress network_mode(const struct network *net)
{
    return (enum session_egress)atomic_load(&net->mode);
}

/* Swaps *want with what the network was before. network.lock is held, or no
 * other thread knows the network; network_text may be running. */
static void network_set_want(struct network *net, struct network_info *want)
{
    struct network_info old = net->want;

    mutex_lock(&net->all->lock);
    net->want = *want;
    mutex_unlock(&net->all->lock);
    *want = old;
    atomic_store(&net->mode, net->want.net.mode);
    atomic_store(&net->wanted, net->want.net.mode != SESSION_EGRESS_NONE ||
                                   net->want.net.packages);
}

struct network *network_load(struct networks *n, const char *text)
{
    struct network *net = network_new(n);

    network_json_load(text, net);
    atomic_store(&net->wanted, net->want.net.mode != SESSION_EGRESS_NONE ||
                                   net->want.net.packages);
    return net;
}

/* Called within a transaction, and so never waits for network.lock, which is
 * held while others are. */
char *network_text(struct network *net)
{
    char *text;

    mutex_lock(&net->all->lock);
    text = network_json_text(net, &net->want);
    mutex_unlock(&net->all->lock);
    return text;
}

char *network_hosts(struct network *net)
{
    const struct network_spec *want = &net->want.net;
    struct buf b cleanup(buf_done) = {0};

    if (network_mode(net) != SESSION_EGRESS_ALLOWLIST)
        return NULL;
    buf_adds(&b, "");
    mutex_lock(&net->all->lock);
    for (size_t i = 0; i < want->destination_count; i++)
        buf_addf(&b, "%s%s", i ? "," : "", want->destinations[i].host);
    mutex_unlock(&net->all->lock);
    return buf_take(&b, NULL);
}

bool network_take_dirty(struct network *net)
{
    return atomic_exchange(&net->dirty, false);
}

/* ---- tables ------------------------------------------------------------- */

static struct network **bucket_of(struct networks *n, uint64_t handle)
{
    return &n->buckets[handle % NETWORK_BUCKETS];
}

struct network *network_by_handle(struct networks *n, uint64_t handle)
{
    struct network *net;

    mutex_lock(&n->lock);
    net = *bucket_of(n, handle);
    while (net && net->handle != handle)
        net = net->next;
    if (net) /* its box holds a reference as long as it is in the table */
        (void)network_ref(net);
    mutex_unlock(&n->lock);
    return net;
}

void network_handle_add(struct network *net)
{
    struct networks *n = net->all;

    mutex_lock(&n->lock);
    net->handle = ++n->next_handle;
    net->next = *bucket_of(n, net->handle);
    *bucket_of(n, net->handle) = net;
    mutex_unlock(&n->lock);
}

void network_handle_remove(struct network *net)
{
    struct networks *n = net->all;
    struct network **at;

    mutex_lock(&n->lock);
    at = bucket_of(n, net->handle);
    while (*at && *at != net)
        at = &(*at)->next;
    if (*at)
        *at = net->next;
    net->next = NULL;
    net->handle = 0;
    mutex_unlock(&n->lock);
}

struct network **network_list(struct networks *n, bool granted,
                              size_t *ret_count)
{
    struct network **list;
    size_t count = 0;

    mutex_lock(&n->lock);
    for (struct network *net = n->attached; net; net = net->older)
        count++;
    list = xcalloc(count + 1, sizeof(struct network *));
    count = 0;
    for (struct network *net = n->attached; net; net = net->older)
        if (granted ? net->handle != 0 : atomic_load(&net->wanted))
            list[count++] = network_ref(net);
    mutex_unlock(&n->lock);
    *ret_count = count;
    return list;
}

/* ---- for a new session -------------------------------------------------- */

/* A pool's network that policy forbids is left out, with the problem set. */
static int plan_of_pool(struct network_ask *ask, struct network_info *want,
                        struct error *err)
{
    struct error why;
    int rc = network_pool_read(ask->pool, want, err);

    if (rc < 0)
        return rc;
    ask->of_pool = true;
    if (network_permit(ask, want, &why) == 0)
        return 0;
    network_info_done(want);
    *want = (struct network_info){0};
    (void)snprintf(want->problem, sizeof(want->problem), "%.199s",
                   why.message);
    return 0;
}

int network_plan(struct networks *n, const struct actor *who,
                 const struct network_spec *asked, struct pool *pool,
                 const char *runtime, struct network **ret, struct error *err)
{
    struct network_info want cleanup(network_info_done) = {0};
    struct network_ask ask = {
        .all = n, .who = who, .pool = pool_conf(pool), .runtime = runtime};
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
    *ret = network_new(n);
    network_set_want(*ret, &want);
    return 0;
}

static void warn_open(const struct network *net, const struct actor *who)
{
    log_event(LOG_WARN, "session_egress_open", "session", net->session,
              "tenant", who->tenant, "means", SESSION_OPEN_MEANS, NULL);
}

void network_announce(struct network *net, const struct actor *who)
{
    struct audit_event event = {.action = "session.network",
                                .workspace = net->workspace,
                                .object = net->session,
                                .after =
                                    session_egress_name(SESSION_EGRESS_OPEN),
                                .detail = SESSION_OPEN_MEANS};

    if (network_mode(net) != SESSION_EGRESS_OPEN)
        return;
    warn_open(net, who);
    audit_later(net->all->core->audit, who, &event);
}

/* ---- boxes -------------------------------------------------------------- */

/* The box is released. Drops the references that network_attach took. */
static void network_on_release(void *ctx, struct box *box)
{
    struct network *net = ctx;
    bool attached;

    mutex_lock(&net->lock);
    attached = net->box == box;
    if (attached) {
        network_revoke(net);
        net->box = NULL;

        struct networks *n = net->all;

        mutex_lock(&n->lock);
        *(net->newer ? &net->newer->older : &n->attached) = net->older;
        if (net->older)
            net->older->newer = net->newer;
        net->newer = net->older = NULL;
        mutex_unlock(&n->lock);
    }
    mutex_unlock(&net->lock);
    if (attached)
        box_unref(box); /* the caller has another */
    network_unref(net);
}

int network_attach(struct network *net, struct box *box, struct error *err)
{
    int rc;

    mutex_lock(&net->lock);
    if (!net->box) {
        struct networks *n = net->all;

        mutex_lock(&n->lock);
        net->older = n->attached;
        net->newer = NULL;
        if (net->older)
            net->older->newer = net;
        n->attached = net;
        mutex_unlock(&n->lock);
    }
    net->box = box_ref(box);
    box_on_release(box, network_on_release, network_ref(net));
    rc = atomic_load(&net->wanted) ? network_grant(net, err) : 0;
    mutex_unlock(&net->lock);
    if (rc == -ERR_UNAVAILABLE)
        network_retry_later(net->all);
    return rc;
}

/* ---- shown -------------------------------------------------------------- */

/* network.lock is held. */
static void fill_info(struct network *net, struct network_info *ret)
{
    const struct conf_pool *pool = pool_conf(net->pool);

    network_spec_copy(&net->want, ret);
    ret->granted = net->handle != 0 && !atomic_load(&net->proxy_lost);
    if (atomic_load(&net->proxy_lost) && net->handle)
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
    mutex_lock(&net->all->lock);

    struct network_package *list =
        arena_alloc(ret->room, (net->package_count + 1) * sizeof(*list));

    for (size_t i = 0; i < net->package_count; i++) {
        const struct network_package *p = &net->packages[i];

        list[i] = (struct network_package){
            .name = arena_strdup(ret->room, p->name),
            .version = arena_strdup(ret->room, p->version),
            .sha256 = arena_strdup(ret->room, p->sha256),
            .at_ms = p->at_ms};
    }
    ret->installed = list;
    ret->installed_count = net->package_count;

    mutex_unlock(&net->all->lock);
}

void network_show(struct network *net, struct network_info *ret)
{
    mutex_lock(&net->lock);
    fill_info(net, ret);
    mutex_unlock(&net->lock);
}

/* ---- changed ------------------------------------------------------------ */

struct network_edit {
    const struct actor *who;
    struct network_info want;
    network_save_fn *save;
    void *ctx;
};

/* The session's row and the audit event, before anything is granted. */
static int save_change(struct network *net, const struct network_edit *c,
                       struct error *err)
{
    const struct core *core = net->all->core;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char *text cleanup(mem_free) = NULL;
    enum session_egress mode = c->want.net.mode;
    char detail[200];
    struct audit_event event = {.action = "session.network",
                                .workspace = net->workspace,
                                .object = net->session,
                                .before =
                                    session_egress_name(net->want.net.mode),
                                .after = session_egress_name(mode),
                                .detail = detail};
    int rc = store_begin(core->store, STORE_WRITE,
                         "storing a session's network", &tx, err);

    (void)snprintf(detail, sizeof(detail), "%zu destinations%s%s",
                   c->want.net.destination_count,
                   c->want.net.packages ? ", packages" : "",
                   mode == SESSION_EGRESS_OPEN ? "; " SESSION_OPEN_MEANS : "");
    mutex_lock(&net->all->lock);
    text = network_json_text(net, &c->want);
    mutex_unlock(&net->all->lock);
    if (rc == 0)
        rc = c->save(c->ctx, tx, text, err);
    if (rc == 0)
        rc = audit_add(core->audit, tx, c->who, &event, err);
    return rc < 0 ? rc : store_commit(&tx, err);
}

/* network.lock is held. A change that only adds leaves open connections alone;
 * any other revokes the grant before anything can fail. */
static int apply_change(struct network *net, struct network_edit *c,
                        struct error *err)
{
    bool wider = network_spec_wider(&net->want.net, &c->want.net);
    struct error ignored;
    int rc;

    if (!wider)
        network_revoke(net);
    rc = save_change(net, c, err);
    if (rc < 0) { /* it stays as it was */
        if (!wider && net->box)
            (void)network_grant(net, &ignored); /* network_show tells */
        return rc;
    }
    network_set_want(net, &c->want);
    return wider ? network_grant_more(net, err) : network_grant(net, err);
}

static void edit_done(struct network_edit *c)
{
    network_info_done(&c->want);
}

int network_change(struct network *net, const struct actor *who,
                   const struct network_spec *spec, network_save_fn *save,
                   void *ctx, struct network_info *ret, struct error *err)
{
    struct network_edit c cleanup(edit_done) = {
        .who = who, .save = save, .ctx = ctx};
    struct network_ask ask = network_ask_of(net, who);
    int rc = network_spec_check(spec, ask.pool, &c.want, err);

    if (rc == 0)
        rc = network_permit(&ask, &c.want, err);
    if (rc < 0)
        return rc;
    mutex_lock(&net->lock);
    rc = apply_change(net, &c, err);
    if (rc == 0)
        fill_info(net, ret);
    mutex_unlock(&net->lock);
    if (rc == -ERR_UNAVAILABLE)
        network_retry_later(net->all);
    if (rc == 0 && spec->mode == SESSION_EGRESS_OPEN)
        warn_open(net, who);
    return rc;
}
