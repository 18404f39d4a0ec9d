/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of this node, its lease, and what is known of the other nodes; see
 * node.h. Runs in gloveboxd. The thread "node-lease" renews the lease and
 * reads the rows of all nodes; a slow database can delay it. The thread
 * "node-guard" only reads the clock, so it stops sandboxes in time even if the
 * database hangs. The thread "node-drain" puts the sessions of a draining node
 * to sleep, which can take longer than the lease.
 */
#include "node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "node/node_int.h"
#include "store/store.h"

#define RENEW_MS 2000u
#define GUARD_MS 200u
#define DRAIN_MS 1000u
#define LOOK_MS 100u
#define DAY_MS ((int64_t)86400000)

static const char *const state_names[] = {
    [NODE_ACTIVE] = "active",
    [NODE_DRAINING] = "draining",
    [NODE_GONE] = "gone",
};

const char *node_state_name(enum node_state state)
{
    return state_names[state];
}

static enum node_state state_of(const char *name)
{
    enum node_state s = NODE_ACTIVE;

    while (s < NODE_GONE && strcmp(state_names[s], name) != 0)
        s++;
    return s;
}

/* ---- reading ------------------------------------------------------------ */

#define COLUMNS                                                               \
    "id, tag, name, address, pin, labels, version, state, epoch,"             \
    " lease_until_ms, started_at_ms, cores, memory_bytes, free_bytes, ready," \
    " awake, queued"

static void read_row(const struct nodes *n, struct store_rows *row,
                     int64_t now, struct node_info *ret)
{
    *ret = (struct node_info){
        .state = state_of(store_text(row, 7)),
        .epoch = store_int(row, 8),
        .lease_until_ms = store_int(row, 9),
        .lease_left_ms = store_int(row, 9) - now,
        .started_at_ms = store_int(row, 10),
        .load = {.cores = (uint32_t)store_int(row, 11),
                 .memory_bytes = (uint64_t)store_int(row, 12),
                 .free_bytes = (uint64_t)store_int(row, 13),
                 .ready = (uint32_t)store_int(row, 14),
                 .awake = (uint32_t)store_int(row, 15),
                 .queued = (uint32_t)store_int(row, 16)}};
    store_copy(row, 0, ret->id, sizeof(ret->id));
    store_copy(row, 1, ret->tag, sizeof(ret->tag));
    store_copy(row, 2, ret->name, sizeof(ret->name));
    store_copy(row, 3, ret->address, sizeof(ret->address));
    store_copy(row, 4, ret->pin, sizeof(ret->pin));
    store_copy(row, 5, ret->labels, sizeof(ret->labels));
    store_copy(row, 6, ret->version, sizeof(ret->version));
    ret->self = strcmp(ret->id, n->id) == 0;
}

int nodes_list(struct nodes *n, struct node_info **ret, size_t *ret_count,
               struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct node_info *all cleanup(mem_free) = NULL;
    size_t count = 0;
    int64_t now = 0;
    int r = store_begin(n->store, STORE_READ, "listing nodes", &tx, err);

    if (r == 0)
        r = store_now(tx, &now, err);
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT " COLUMNS " FROM nodes WHERE state <> 'gone'"
                        " OR lease_until_ms > ?1 ORDER BY name, id LIMIT ?2",
                        "ii", now - DAY_MS, (int64_t)NODES_MAX);
    if (r < 0)
        return r;
    all = xcalloc(NODES_MAX, sizeof(*all));
    while ((r = store_next(rows, err)) > 0 && count < NODES_MAX)
        read_row(n, rows, now, &all[count++]);
    if (r < 0)
        return r;
    *ret = take_ptr(all);
    *ret_count = count;
    return 0;
}

int nodes_get(struct nodes *n, const char *id, struct node_info *ret,
              struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int64_t now = 0;
    int r = store_begin(n->store, STORE_READ, "looking for a node", &tx, err);

    if (r == 0)
        r = store_now(tx, &now, err);
    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT " COLUMNS " FROM nodes WHERE id = ?1"
                      " OR name = ?1 ORDER BY CASE state WHEN 'gone' THEN 1"
                      " ELSE 0 END, started_at_ms DESC",
                      "t", id);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such node");
    read_row(n, row, now, ret);
    return 0;
}

/* Replaces what is known of the nodes. */
static void know_peers(struct nodes *n, const struct node_info *all,
                       size_t count, uint64_t read_ms)
{
    struct node_peer *made = xcalloc(count + 1, sizeof(*made));
    struct node_peer *old;

    for (size_t i = 0; i < count; i++) {
        made[i].info = all[i];
        made[i].lease_until_mono_ms =
            all[i].lease_left_ms > 0 ? read_ms + (uint64_t)all[i].lease_left_ms
                                     : 0;
    }
    mutex_lock(&n->lock);
    old = n->peers;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < n->peer_count; j++)
            if (strcmp(made[i].info.id, old[j].info.id) == 0)
                made[i].avoid_until_ms = old[j].avoid_until_ms;
    n->peers = made;
    n->peer_count = count;
    mutex_unlock(&n->lock);
    free(old);
}

static int refresh_peers(struct nodes *n, struct error *err)
{
    struct node_info *all cleanup(mem_free) = NULL;
    size_t count = 0;
    uint64_t now = clock_mono_ms();
    int r = nodes_list(n, &all, &count, err);

    if (r == 0)
        know_peers(n, all, count, now);
    return r;
}

/* The first that is not gone and has that id or that pin. */
static bool find_peer(struct nodes *n, const char *id, const char *pin,
                      struct node_peer *ret)
{
    bool found = false;

    mutex_lock(&n->lock);
    for (size_t i = 0; i < n->peer_count && !found; i++) {
        const struct node_info *p = &n->peers[i].info;

        found =
            p->state != NODE_GONE &&
            (id ? strcmp(p->id, id) == 0 : pin && strcmp(p->pin, pin) == 0);
        if (found)
            *ret = n->peers[i];
    }
    mutex_unlock(&n->lock);
    return found;
}

void nodes_look(struct nodes *n)
{
    struct error err;

    if (refresh_peers(n, &err) < 0)
        log_event(LOG_WARN, "nodes_not_read", "error", err.message, NULL);
}

void nodes_changed(struct nodes *n)
{
    worker_wake(&n->renewer);
}

bool node_peer_get(struct nodes *n, const char *id, struct node_peer *ret)
{
    return find_peer(n, id, NULL, ret);
}

/* Looks in the store for a node that has just started. Strangers can cause
 * this by connecting, so it happens at most ten times a second. */
static bool look_again(struct nodes *n)
{
    uint64_t now = clock_mono_ms(), last = atomic_load(&n->looked_ms);
    struct error err;

    return now >= last + LOOK_MS &&
           atomic_compare_exchange_strong(&n->looked_ms, &last, now) &&
           refresh_peers(n, &err) == 0;
}

bool node_peer_find(struct nodes *n, const char *id, struct node_peer *ret)
{
    return find_peer(n, id, NULL, ret) ||
           (look_again(n) && find_peer(n, id, NULL, ret));
}

bool nodes_by_pin(struct nodes *n, const char *pin, struct node_info *ret)
{
    struct node_peer peer;
    bool found = pin[0] && (find_peer(n, NULL, pin, &peer) ||
                            (look_again(n) && find_peer(n, NULL, pin, &peer)));

    if (found)
        *ret = peer.info;
    return found;
}

void node_avoid(struct nodes *n, const char *id)
{
    mutex_lock(&n->lock);
    for (size_t i = 0; i < n->peer_count; i++)
        if (strcmp(n->peers[i].info.id, id) == 0)
            n->peers[i].avoid_until_ms = clock_mono_ms() + NODE_AVOID_MS;
    mutex_unlock(&n->lock);
}

/* ---- the lease ---------------------------------------------------------- */

struct registration {
    struct nodes *n;
    struct node_load load;
    int64_t epoch;
    char state[16]; /* to be stored, or as read */
};

static int register_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct registration *g = ctx;
    struct nodes *n = g->n;
    struct audit_event event = {.action = "node.start", .object = n->id};
    struct store_rows *row cleanup(store_rows_done) = NULL;
    const struct node_load *l = &g->load;
    int64_t now = 0;
    int r = store_now(tx, &now, err);

    /* What an earlier process of this node, or this one before it lost its
     * lease, had under way has ended. */
    if (r == 0)
        r = node_end_work(n, tx, n->id, "the node has started again", err);
    if (r == 0)
        r = store_exec(
            tx, err,
            "INSERT INTO nodes (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
            " ?7, ?16, 1, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
            " ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
            " address = excluded.address, pin = excluded.pin,"
            " labels = excluded.labels, version = excluded.version,"
            " state = excluded.state, epoch = nodes.epoch + 1,"
            " lease_until_ms = excluded.lease_until_ms,"
            " started_at_ms = excluded.started_at_ms,"
            " cores = excluded.cores, memory_bytes = excluded.memory_bytes,"
            " free_bytes = excluded.free_bytes, ready = 0, awake = 0,"
            " queued = 0",
            "tttttttiiiiiiiit", n->id, n->tag, n->name, n->address, n->pin,
            n->labels, n->version, now + (int64_t)n->lease_ms, now,
            (int64_t)l->cores, (int64_t)l->memory_bytes,
            (int64_t)l->free_bytes, (int64_t)0, (int64_t)0, (int64_t)0,
            g->state);
    if (r >= 0)
        r = store_one(tx, &row, err, "SELECT epoch FROM nodes WHERE id = ?1",
                      "t", n->id);
    if (r > 0)
        g->epoch = store_int(row, 0);
    store_rows_done(&row);
    if (r >= 0)
        r = store_notify(tx, NODE_CHANNEL, "", err);
    return r < 0 ? r : audit_add(n->audit, tx, NULL, &event, err);
}

static void ask_load(struct nodes *n, struct node_load *ret)
{
    *ret = (struct node_load){.cores = 1};
    if (n->hooks.load)
        n->hooks.load(n->hooks.ctx, ret);
}

int node_register(struct nodes *n, struct error *err)
{
    struct registration g = {.n = n};
    uint64_t before;
    int r;

    /* A draining node that loses its lease comes back draining. */
    (void)snprintf(g.state, sizeof(g.state), "%s",
                   node_state_name(nodes_state(n)));
    ask_load(n, &g.load);
    before = clock_mono_ms();
    r = store_write(n->store, "registering the node", register_in, &g, err);
    if (r < 0)
        return r;
    atomic_store(&n->epoch, g.epoch);
    atomic_store(&n->good_until_ms, before + n->lease_ms - n->margin_ms);
    log_event(LOG_INFO, "node_registered", "node", n->id, "name", n->name,
              "address", n->address, NULL);
    return 0;
}

static int renew_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct registration *g = ctx;
    struct nodes *n = g->n;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    const struct node_load *l = &g->load;
    int64_t now = 0;
    int r = store_now(tx, &now, err);

    if (r == 0)
        r = store_exec(
            tx, err,
            "UPDATE nodes SET lease_until_ms = ?3, cores = ?4,"
            " memory_bytes = ?5, free_bytes = ?6, ready = ?7, awake = ?8,"
            " queued = ?9 WHERE id = ?1 AND epoch = ?2 AND state <> 'gone'"
            " AND lease_until_ms >= ?10",
            "tiiiiiiiii", n->id, g->epoch, now + (int64_t)n->lease_ms,
            (int64_t)l->cores, (int64_t)l->memory_bytes,
            (int64_t)l->free_bytes, (int64_t)l->ready, (int64_t)l->awake,
            (int64_t)l->queued, now);
    if (r == 0)
        return error_set(err, ERR_CONFLICT, "the lease has ended");
    if (r > 0)
        r = store_one(tx, &row, err, "SELECT state FROM nodes WHERE id = ?1",
                      "t", n->id);
    if (r > 0)
        store_copy(row, 0, g->state, sizeof(g->state));
    return MIN(r, 0);
}

/* A renewal counts from before it was sent: by then the database cannot have
 * begun to count. */
static int renew(struct nodes *n, struct error *err)
{
    struct registration g = {.n = n, .epoch = atomic_load(&n->epoch)};
    uint64_t before;
    int r;

    ask_load(n, &g.load);
    before = clock_mono_ms();
    r = store_write(n->store, "renewing the node's lease", renew_in, &g, err);
    if (r < 0)
        return r;
    /* Unless the guard has given up meanwhile. */
    if (nodes_alive(n))
        atomic_store(&n->good_until_ms, before + n->lease_ms - n->margin_ms);
    if (!atomic_load(&n->retired))
        atomic_store(&n->state, state_of(g.state));
    return 0;
}

static void node_lease_main(void *arg)
{
    struct nodes *n = arg;
    struct error err;

    do {
        bool leased = atomic_load(&n->good_until_ms) != 0;
        int r = leased ? renew(n, &err) : node_register(n, &err);

        atomic_fetch_add(r < 0 ? &n->renewals_failed : &n->renewals, 1);
        if (r == -ERR_CONFLICT && leased) { /* taken: stop at once */
            atomic_store(&n->good_until_ms, 1);
            worker_wake(&n->guard);
        }
        if (r < 0)
            log_event(LOG_WARN, "node_lease_not_renewed", "error", err.message,
                      NULL);
        if (r == 0) {
            nodes_look(n);
            node_expire_others(n);
        }
        if (r == 0 && nodes_state(n) == NODE_DRAINING)
            worker_wake(&n->drainer);
    } while (worker_wait(&n->renewer, n->renew_ms));
}

static void node_drain_main(void *arg)
{
    struct nodes *n = arg;

    while (worker_wait(&n->drainer, DRAIN_MS))
        if (nodes_state(n) == NODE_DRAINING && nodes_alive(n) &&
            n->hooks.on_drain)
            n->hooks.on_drain(n->hooks.ctx);
}

static void node_guard_main(void *arg)
{
    struct nodes *n = arg;

    while (worker_wait(&n->guard, GUARD_MS)) {
        uint64_t good = atomic_load(&n->good_until_ms);

        if (!good || clock_mono_ms() < good)
            continue;
        log_event(LOG_ERROR, "node_lease_lost", "node", n->id, NULL);
        atomic_fetch_add(&n->lost, 1);
        if (n->hooks.on_lost)
            n->hooks.on_lost(n->hooks.ctx);
        /* From here on the node may register again. */
        atomic_store(&n->good_until_ms, 0);
    }
}

bool nodes_alive(struct nodes *n)
{
    uint64_t good = atomic_load(&n->good_until_ms);

    return good && clock_mono_ms() < good;
}

enum node_state nodes_state(struct nodes *n)
{
    return atomic_load(&n->state);
}

/* ---- draining ----------------------------------------------------------- */

struct drain {
    struct nodes *n;
    const struct actor *who;
    const struct node_info *info;
    bool drain;
};

static int drain_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct drain *d = ctx;
    struct audit_event event = {.action =
                                    d->drain ? "node.drain" : "node.activate",
                                .object = d->info->id,
                                .detail = d->info->name};
    int r = store_exec(tx, err,
                       "UPDATE nodes SET state = ?2 WHERE id = ?1"
                       " AND state <> 'gone'",
                       "tt", d->info->id, d->drain ? "draining" : "active");

    if (r == 0)
        return error_set(err, ERR_CONFLICT, "the node is gone");
    if (r > 0)
        r = store_notify(tx, NODE_CHANNEL, "", err);
    return r < 0 ? r : audit_add(d->n->audit, tx, d->who, &event, err);
}

int nodes_drain(struct nodes *n, const struct actor *who, const char *id,
                bool drain, struct node_info *ret, struct error *err)
{
    struct drain d = {.n = n, .who = who, .info = ret, .drain = drain};
    int r = nodes_get(n, id, ret, err);

    if (r == 0)
        r = store_write(n->store, "draining a node", drain_in, &d, err);
    if (r < 0)
        return r;
    worker_wake(&n->renewer); /* also if notifications are late */
    return nodes_get(n, d.info->id, ret, err);
}

struct retirement {
    struct nodes *n;
    bool final;
};

static int retire_in(struct store_tx *tx, void *ctx, struct error *err)
{
    struct retirement *t = ctx;
    struct audit_event event = {.action = "node.stop", .object = t->n->id};
    int r = 0;

    if (t->final)
        r = node_end_work(t->n, tx, t->n->id, "the node was stopped", err);
    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE nodes SET state = ?3 WHERE id = ?1"
                       " AND epoch = ?2",
                       "tit", t->n->id, atomic_load(&t->n->epoch),
                       t->final ? "gone" : "draining");
    if (r > 0)
        r = store_notify(tx, NODE_CHANNEL, "", err);
    if (r == 0 && t->final)
        r = audit_add(t->n->audit, tx, NULL, &event, err);
    return MIN(r, 0);
}

void nodes_retire(struct nodes *n)
{
    struct retirement t = {.n = n};
    struct error err;

    if (!n || atomic_exchange(&n->retired, true))
        return;
    atomic_store(&n->state, NODE_DRAINING);
    if (store_write(n->store, "draining the node", retire_in, &t, &err) < 0)
        log_event(LOG_WARN, "node_not_drained", "error", err.message, NULL);
}

void nodes_stop(struct nodes *n)
{
    struct retirement t = {.n = n, .final = true};
    struct error err;

    if (!n)
        return;
    worker_stop(&n->drainer);
    worker_stop(&n->renewer);
    worker_stop(&n->guard);
    if (atomic_load(&n->epoch) &&
        store_write(n->store, "stopping the node", retire_in, &t, &err) < 0)
        log_event(LOG_WARN, "node_not_stopped", "error", err.message, NULL);
    atomic_store(&n->good_until_ms, 0);
}

/* ---- opening and closing ------------------------------------------------ */

int nodes_open(const struct node_settings *settings, struct store *store,
               struct audit *audit, struct nodes **ret, struct error *err)
{
    struct nodes *n = xcalloc(1, sizeof(*n));
    char host[64] = "";
    int r;

    n->store = store;
    n->audit = audit;
    n->id_fd = -1;
    mutex_init(&n->lock);
    mutex_init(&n->hint_lock);
    worker_init(&n->renewer);
    worker_init(&n->guard);
    worker_init(&n->drainer);
    if (gethostname(host, sizeof(host)) < 0 || !host[0])
        (void)snprintf(host, sizeof(host), "node");
    host[sizeof(host) - 1] = '\0';
    n->name = xstrdup(settings->name[0] ? settings->name : host);
    n->address = xstrdup(settings->address);
    n->labels = xstrdup(settings->labels);
    n->version = xstrdup(settings->version);
    n->lease_ms = settings->lease_s * 1000ull;
    n->margin_ms = n->lease_ms / 3;
    n->renew_ms = MIN(n->lease_ms / 6, RENEW_MS);
    r = node_identity_open(n, settings->data_dir, err);
    if (r < 0) {
        nodes_close(n);
        return r;
    }
    ids_set_tag(n->tag);
    *ret = n;
    return 0;
}

int nodes_start(struct nodes *n, const struct node_hooks *hooks,
                struct error *err)
{
    int r;

    n->hooks = *hooks;
    r = node_register(n, err);
    if (r == 0)
        r = refresh_peers(n, err);
    if (r == 0)
        r = worker_start(&n->guard, "node-guard", node_guard_main, n, err);
    if (r == 0)
        r = worker_start(&n->drainer, "node-drain", node_drain_main, n, err);
    if (r == 0)
        r = worker_start(&n->renewer, "node-lease", node_lease_main, n, err);
    return r;
}

void nodes_close(struct nodes *n)
{
    if (!n)
        return;
    node_channels_close(n);
    worker_done(&n->renewer);
    worker_done(&n->guard);
    worker_done(&n->drainer);
    node_hints_free(n);
    mutex_done(&n->hint_lock);
    mutex_done(&n->lock);
    fd_close(&n->id_fd);
    free(n->peers);
    free(n->name);
    free(n->address);
    free(n->labels);
    free(n->version);
    free(n->key_file);
    free(n->certificate_file);
    free(n);
}

/* ---- looking ------------------------------------------------------------ */

const char *nodes_self(const struct nodes *n)
{
    return n->id;
}

const char *nodes_key_file(const struct nodes *n)
{
    return n->key_file;
}

const char *nodes_certificate_file(const struct nodes *n)
{
    return n->certificate_file;
}

void nodes_metrics(struct nodes *n, struct node_metrics *ret)
{
    uint64_t good = atomic_load(&n->good_until_ms), now = clock_mono_ms();

    *ret = (struct node_metrics){
        .renewals = atomic_load(&n->renewals),
        .renewals_failed = atomic_load(&n->renewals_failed),
        .lost = atomic_load(&n->lost),
        .takeovers = atomic_load(&n->takeovers),
        .fenced = atomic_load(&n->fenced),
        .carried = atomic_load(&n->carried),
        .carried_failed = atomic_load(&n->carried_failed),
        .lease_left_ms = good > now ? (int64_t)(good - now) : 0,
        .state = nodes_state(n)};
    mutex_lock(&n->lock);
    for (size_t i = 0; i < n->peer_count; i++) {
        const struct node_info *p = &n->peers[i].info;

        if (p->state == NODE_DRAINING)
            ret->draining++;
        if (p->state != NODE_ACTIVE || p->lease_left_ms <= 0)
            continue;
        ret->active++;
        ret->all.memory_bytes += p->load.memory_bytes;
        ret->all.free_bytes += p->load.free_bytes;
        ret->all.cores += p->load.cores;
        ret->all.ready += p->load.ready;
        ret->all.awake += p->load.awake;
        ret->all.queued += p->load.queued;
    }
    mutex_unlock(&n->lock);
}
