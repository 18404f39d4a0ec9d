/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renews grants after the proxy was lost, when the policy or a secret has
 * changed, and withdraws them when a quota is used up. Runs on the thread
 * "net-grants", except for a changed secret, which is handled on the thread
 * that changed it.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/network_int.h"

#define LOOK_MS 1000u
#define RETRY_MS 201u /* doubled from then on */
#define RETRY_MOST_MS 6432u

void network_renew_lost(void *ctx)
{
    struct session_networks *n = ctx;

    mutex_lock(&n->lock);
    for (size_t i = 0; i < NETWORK_BUCKETS; i++)
        for (struct session_net *net = n->buckets[i]; net; net = net->next)
            atomic_store(&net->void_, true);
    network_work_again(n);
    mutex_unlock(&n->lock);
}

/* Every session that is to have a network, or that has a grant; each
 * referenced; owned by caller. */
static struct session **wanting(struct sessions *m, size_t *ret_count)
{
    struct session **list;
    size_t count = 0;

    mutex_lock(&m->lock);
    list = xcalloc(m->table.count + 1, sizeof(struct session *));
    for (size_t i = 0; i < m->table.size; i++)
        for (struct idmap_node *node = m->table.buckets[i]; node;
             node = node->next) {
            struct session *se = container_of(node, struct session, node);

            if (atomic_load(&se->net->wanted))
                list[count++] = session_ref(se);
        }
    mutex_unlock(&m->lock);
    *ret_count = count;
    return list;
}

static struct session **granted(struct session_networks *n, size_t *ret_count)
{
    struct session **list = NULL;
    size_t count = 0;

    mutex_lock(&n->lock);
    for (size_t i = 0; i < NETWORK_BUCKETS; i++)
        for (struct session_net *net = n->buckets[i]; net; net = net->next) {
            list = xrealloc(list, (count + 1) * sizeof(struct session *));
            list[count++] = session_ref(net->session);
        }
    mutex_unlock(&n->lock);
    *ret_count = count;
    return list;
}

/* anew: also one that is in force. True: it is to be tried again. */
static bool look_at(struct session *se, bool anew)
{
    struct session_net *net = se->net;
    struct error err;
    int rc = 0;

    mutex_lock(&net->lock);
    if (net->box && !box_is_broken(net->box) &&
        (anew || !net->handle || atomic_load(&net->void_)))
        rc = network_grant_more(se, &err);
    mutex_unlock(&net->lock);
    return rc == -ERR_UNAVAILABLE;
}

static bool look_at_all(struct sessions *m, bool anew)
{
    size_t count;
    struct session **list cleanup(mem_free) = wanting(m, &count);
    bool again = false;

    for (size_t i = 0; i < count; i++) {
        again |= look_at(list[i], anew);
        session_unref(list[i]);
    }
    return again;
}

/* A policy may be stricter now: everything is decided again. */
static bool policy_changed(struct session_networks *n)
{
    int64_t now = n->m->parts.govern.policy
                      ? policy_current(n->m->parts.govern.policy)
                      : 0;
    bool changed = now != n->policy_version;

    n->policy_version = now;
    return changed;
}

/* What there is to do now, without the lock; true: some of it has to be done
 * again in a while. */
static bool work(struct session_networks *n, struct net_job *job, bool again,
                 bool all)
{
    bool anew = policy_changed(n) || all;

    if (job) {
        again |= look_at(job->session, true);
        network_work_free(job);
    }
    return anew || again ? look_at_all(n->m, anew) : false;
}

void network_renew_main(void *arg)
{
    struct net_worker *w = arg;
    struct session_networks *n = w->m->networks;
    uint64_t pause = LOOK_MS;

    mutex_lock(&n->lock);
    while (!n->stopping) {
        struct net_job *job = network_work_take(w);
        bool again = n->again, all = n->all;

        n->again = n->all = false;
        mutex_unlock(&n->lock);
        again = work(n, job, again, all);
        mutex_lock(&n->lock);
        /* What cannot be had now is asked for less and less often. */
        pause = !again ? LOOK_MS
                       : MIN(pause == LOOK_MS ? RETRY_MS : pause * 2,
                             RETRY_MOST_MS);
        if (!n->stopping && !w->first && !n->again)
            (void)cond_wait_until(&w->cond, &n->lock, clock_mono_ms() + pause);
        n->again |= again;
    }
    mutex_unlock(&n->lock);
}

static bool carries(const struct session *se, const char *tenant,
                    const char *name)
{
    const struct session_network *net = &se->net->want.net;

    if (strcmp(se->tenant->name, tenant) != 0)
        return false;
    for (size_t i = 0; i < net->destination_count; i++)
        if (net->destinations[i].secret &&
            strcmp(net->destinations[i].secret, name) == 0)
            return true;
    return false;
}

void network_renew_secret(void *ctx, const char *tenant, const char *name)
{
    size_t count;
    struct session **list cleanup(mem_free) = granted(ctx, &count);
    struct error ignored;

    for (size_t i = 0; i < count; i++) {
        struct session *se = list[i];

        mutex_lock(&se->net->lock);
        if (se->net->box && carries(se, tenant, name))
            (void)network_grant(se, &ignored); /* the session shows it */
        mutex_unlock(&se->net->lock);
        session_unref(se);
    }
}
