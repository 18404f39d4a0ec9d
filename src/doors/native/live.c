/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/events: what happens, as one stream per client, limited to what
 * the client may see.
 *
 * Two sources fill one bounded ring: sessions and executions publish their
 * changes (src/feed; node/ for those of other nodes), and the audit
 * trail is read for everything else. The
 * thread native-live reads the trail when it is told of new events, copies
 * from the ring to each listener what that one may see, adds the progress of
 * running executions every second, and ends listeners whose credential has
 * ended (U4). A listener holds a bounded buffer and its place in the ring: a
 * slow reader costs nothing more, and one that fell behind the ring is told
 * to start anew (`reset`).
 *
 * The reader's side (next, watch, close) runs on the event thread, handlers on
 * workers. Lock order: live->lock, ring_lock; a listener's lock is taken
 * after these, and before the request's (by wake).
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "approval/approval.h"
#include "audit/audit.h"
#include "audit/format.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "disk/disk.h"
#include "doors/native/native.h"
#include "feed/feed.h"
#include "node/node.h"
#include "json/json.h"

#define RING_SIZE 4096u
#define RING_BYTES ((size_t)8 << 20) /* of texts */
#define PENDING_MAX ((size_t)128 << 10)
#define LISTENERS_MAX 512u
#define LISTENERS_OF_ONE 32u /* principal */
#define TRAIL_PAGE 256u
#define GATHER_MS 40u /* so that what happens at once is read at once */
#define TICK_MS 1000u
#define LINGER_MS 120000u /* after the last reader: it may come back */
#define ACCESS_MS 2000u   /* a right to a workspace is looked up this often */

enum live_type {
    LIVE_SESSION,
    LIVE_EXECUTION,
    LIVE_PROGRESS, /* never in the ring */
    LIVE_WORKSPACE,
    LIVE_APPROVAL,
    LIVE_POLICY,
    LIVE_NETWORK,
    LIVE_ADMIN,
    LIVE_AGENT, /* agents and models of the tenant */
    LIVE_HEALTH,
    LIVE_AUDIT,
    LIVE_TYPES
};

static const char *const type_names[LIVE_TYPES + 1] = {
    [LIVE_SESSION] = "session",   [LIVE_EXECUTION] = "execution",
    [LIVE_PROGRESS] = "progress", [LIVE_WORKSPACE] = "workspace",
    [LIVE_APPROVAL] = "approval", [LIVE_POLICY] = "policy",
    [LIVE_NETWORK] = "network",   [LIVE_ADMIN] = "admin",
    [LIVE_AGENT] = "agent",       [LIVE_HEALTH] = "health",
    [LIVE_AUDIT] = "audit",
};

/* Which kind of event an act of the trail is, by the beginning of its name;
 * every one is a LIVE_AUDIT as well. */
static const struct {
    const char *prefix;
    enum live_type type;
} acts[] = {
    {"file.", LIVE_WORKSPACE},    {"workspace.", LIVE_WORKSPACE},
    {"member.", LIVE_WORKSPACE},  {"version.", LIVE_WORKSPACE},
    {"lock.", LIVE_WORKSPACE},    {"share.", LIVE_WORKSPACE},
    {"upload.", LIVE_WORKSPACE},  {"approval.", LIVE_APPROVAL},
    {"policy.put", LIVE_POLICY},  {"policy.reload", LIVE_POLICY},
    {"network.", LIVE_NETWORK},   {"package.", LIVE_NETWORK},
    {"key.", LIVE_ADMIN},         {"quota.", LIVE_ADMIN},
    {"secret.", LIVE_ADMIN},      {"pool.", LIVE_ADMIN},
    {"storage.", LIVE_ADMIN},     {"tool.", LIVE_WORKSPACE},
    {"agent.", LIVE_AGENT},       {"model.put", LIVE_AGENT},
    {"model.remove", LIVE_AGENT},
};

/* Who may see it, and what is sent. */
struct entry {
    uint64_t number; /* 0: unused */
    enum live_type type;
    char tenant[AUTH_TENANT_MAX];
    char session[ID_MAX], workspace[ID_MAX], owner[ID_MAX], object[ID_MAX];
    char pool[64];
    bool shared;
    char *data; /* JSON on one line; owned */
    size_t len;
};

struct listener {
    struct listener *next; /* live->lock */
    struct native_live *live;
    struct principal who;
    struct actor actor; /* borrows from who */
    unsigned types;     /* a bit each */
    uint64_t seen;      /* number of the last entry looked at; the thread's */
    char workspace[ID_MAX]; /* the last that was looked up; the thread's */
    bool allowed;
    uint64_t looked_ms;

    struct mutex lock;
    struct buf pending;
    bool ended;
    void (*wake)(void *arg);
    void *wake_arg;
    bool closed; /* the reader is gone: the thread frees it */
};

struct native_live {
    const struct doors *doors;
    struct worker worker;
    struct mutex lock; /* the list */
    struct listener *listeners;
    size_t count;
    bool stopping;
    _Atomic bool busy; /* has readers, or had one a moment ago */
    uint64_t left_ms;  /* when it last had one; the thread's */
    int64_t trail_seq; /* the last event read; the thread's */
    char health[256];  /* what was said last; the thread's */

    struct node_share *share; /* NULL: this is the only node */

    struct mutex ring_lock; /* a leaf */
    struct entry ring[RING_SIZE];
    uint64_t first, last; /* numbers in the ring; last < first: none */
    size_t bytes;
};

/* ---- the ring ----------------------------------------------------------- */

static struct entry *slot_of(struct native_live *l, uint64_t number)
{
    return &l->ring[number % RING_SIZE];
}

static void drop_first(struct native_live *l)
{
    struct entry *e = slot_of(l, l->first++);

    l->bytes -= e->len;
    free(take_ptr(e->data));
    e->number = 0;
}

/* e->data: taken. */
static void ring_add(struct native_live *l, const struct entry *e)
{
    mutex_lock(&l->ring_lock);
    while (l->last + 1 - l->first >= RING_SIZE ||
           (l->last >= l->first && l->bytes + e->len > RING_BYTES))
        drop_first(l);
    *slot_of(l, ++l->last) = *e;
    slot_of(l, l->last)->number = l->last;
    l->bytes += e->len;
    mutex_unlock(&l->ring_lock);
}

/* A copy of the next entry after `seen`, its text included. 1; 0: there is
 * none; -1: it is no longer there. */
static int ring_next(struct native_live *l, uint64_t seen, struct entry *ret)
{
    int r = 1;

    mutex_lock(&l->ring_lock);
    if (seen >= l->last)
        r = 0;
    else if (seen + 1 < l->first)
        r = -1;
    else {
        *ret = *slot_of(l, seen + 1);
        ret->data = xstrndup(ret->data, ret->len);
    }
    mutex_unlock(&l->ring_lock);
    return r;
}

/* Empties the ring: a reader that resumes has missed something. */
static void ring_close(struct native_live *l)
{
    mutex_lock(&l->ring_lock);
    while (l->first <= l->last)
        drop_first(l);
    l->first = ++l->last + 1;
    mutex_unlock(&l->ring_lock);
}

static uint64_t ring_last(struct native_live *l)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&l->ring_lock);

    return l->last;
}

/* ---- what is published -------------------------------------------------- */

static void keep(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text ? text : "");
}

static void entry_text(struct entry *e, struct buf *text)
{
    e->data = buf_take(text, &e->len);
}

static void keep_session(struct entry *e, const struct feed_item *item)
{
    keep(e->tenant, sizeof(e->tenant), item->tenant);
    keep(e->session, sizeof(e->session), item->session);
    keep(e->workspace, sizeof(e->workspace), item->workspace);
    keep(e->owner, sizeof(e->owner), item->owner);
    keep(e->pool, sizeof(e->pool), item->pool);
    e->shared = item->shared;
}

/* A feed_fn, for items of other nodes too. */
static void add_item(void *ctx, const struct feed_item *item)
{
    struct native_live *l = ctx;
    struct entry e = {.type = item->kind == FEED_SESSION ? LIVE_SESSION
                                                         : LIVE_EXECUTION};
    struct buf text = {0};
    struct json_writer w = {.out = &text};

    if (!l->busy) /* a later reader begins later */
        return;
    keep_session(&e, item);
    json_write_open(&w, NULL, '{');
    if (item->kind == FEED_EXECUTION) {
        json_write_string(&w, "execution", item->execution);
        json_write_string(&w, "status", item->state);
        json_write_string(&w, "outcome", item->outcome);
        json_write_string(&w, "language", item->language);
        json_write_string(&w, "principal", item->author);
        json_write_string(&w, "principal_name", item->author_name);
        json_write_time(&w, "created_at", item->created_at_ms);
        json_write_time(&w, "started_at", item->started_at_ms);
        json_write_time(&w, "finished_at", item->finished_at_ms);
    } else {
        json_write_string(&w, "state", item->state);
        json_write_string(&w, "pool", item->pool);
        json_write_string(&w, "owner", item->owner);
    }
    json_write_string(&w, "session", item->session);
    json_write_string(&w, "workspace", item->workspace);
    json_write_close(&w, '}');
    entry_text(&e, &text);
    ring_add(l, &e);
    worker_wake(&l->worker);
}

/* A feed_fn. */
static void on_item(void *ctx, const struct feed_item *item)
{
    struct native_live *l = ctx;

    add_item(l, item);
    node_share_item(l->share, item);
}

/* ---- the trail ---------------------------------------------------------- */

static void on_trail(void *ctx)
{
    struct native_live *l = ctx;

    if (l->busy)
        worker_wake(&l->worker);
}

static void trail_entry(const struct audit_line *line, enum live_type type,
                        struct entry *ret)
{
    struct buf text = {0};
    struct json_writer w = {.out = &text};

    *ret = (struct entry){.type = type};
    keep(ret->tenant, sizeof(ret->tenant), line->tenant);
    keep(ret->workspace, sizeof(ret->workspace), line->workspace);
    keep(ret->object, sizeof(ret->object), line->object);
    keep(ret->owner, sizeof(ret->owner), line->actor);
    if (type == LIVE_AUDIT) {
        api_write(&w, NULL, &audit_event_resource, line);
    } else {
        json_write_open(&w, NULL, '{');
        json_write_string(&w, "action", line->action);
        json_write_string(&w, "object", line->object);
        json_write_string(&w, "workspace",
                          line->workspace[0] ? line->workspace : NULL);
        json_write_string(&w, "path", line->path[0] ? line->path : NULL);
        json_write_string(&w, "principal", line->actor);
        json_write_string(&w, "principal_name", line->actor_name);
        json_write_string(&w, "result", line->result);
        if (type != LIVE_WORKSPACE)
            json_write_string(&w, "detail", line->detail);
        if (type == LIVE_NETWORK)
            json_write_string(&w, "session", line->before);
        json_write_time(&w, "at", line->at_ms);
        json_write_close(&w, '}');
    }
    entry_text(ret, &text);
}

static void add_line(struct native_live *l, struct audit_line *line)
{
    char name[AUTH_NAME_MAX] = "";
    struct entry e;

    auth_key_name(l->doors->auth, line->actor, name);
    if (name[0])
        line->actor_name = xstrdup(name);
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
        if (strncmp(line->action, acts[i].prefix, strlen(acts[i].prefix)) ==
            0) {
            trail_entry(line, acts[i].type, &e);
            ring_add(l, &e);
            break;
        }
    trail_entry(line, LIVE_AUDIT, &e);
    ring_add(l, &e);
}

/* What was committed since. A trail that cannot be read is read later. */
static void read_trail(struct native_live *l)
{
    bool more = true;

    while (more && !l->worker.stopping) {
        struct audit_filter filter = {.after = l->trail_seq,
                                      .limit = TRAIL_PAGE};
        struct audit_line *lines = NULL;
        size_t count = 0;
        struct error ignored;

        if (audit_query(l->doors->core->audit, &filter, &lines, &count, &more,
                        &ignored) < 0)
            return;
        for (size_t i = 0; i < count; i++) {
            add_line(l, &lines[i]);
            l->trail_seq = lines[i].seq;
        }
        audit_lines_free(lines, count);
    }
}

/* ---- who may see what --------------------------------------------------- */

static bool has(const struct listener *li, uint32_t scope)
{
    return (li->who.scopes & (scope | AUTH_ADMIN)) != 0;
}

static bool sees_session(const struct listener *li, const struct entry *e)
{
    const struct actor *who = &li->actor;

    return has(li, AUTH_EXECUTE) &&
           (e->shared || strcmp(e->owner, who->key) == 0 ||
            (who->scopes & AUTH_ADMIN)) &&
           actor_may(who, ACTOR_SESSIONS, e->session) &&
           actor_may(who, ACTOR_POOLS, e->pool) &&
           actor_may(who, ACTOR_WORKSPACES, e->workspace);
}

/* As of a moment ago: a role is looked up once for a burst of changes. */
static bool sees_workspace(struct listener *li, const struct entry *e)
{
    uint64_t now = clock_mono_ms();

    if (!has(li, AUTH_FILES_READ | AUTH_WORKSPACES_ADMIN) || !e->workspace[0])
        return false;
    if (strcmp(li->workspace, e->workspace) != 0 ||
        now - li->looked_ms > ACCESS_MS) {
        struct workspace_info info;
        struct error ignored;

        memcpy(li->workspace, e->workspace, sizeof(li->workspace));
        li->allowed = workspace_get(li->live->doors->workspaces, &li->actor,
                                    e->workspace, &info, &ignored) == 0;
        li->looked_ms = now;
    }
    return li->allowed;
}

static bool sees_approval(struct listener *li, const struct entry *e)
{
    struct approval_info info = {0};
    struct error ignored;
    bool seen = approval_get(li->live->doors->core->approvals, &li->actor,
                             e->object, &info, &ignored) == 0;

    if (seen)
        approval_info_done(&info);
    return seen;
}

/* The rules of the routes where the same can be asked for. */
static bool may_see(struct listener *li, const struct entry *e)
{
    bool bounded = actor_bounded(&li->actor);
    bool all = strcmp(li->who.tenant, OPERATORS) == 0 &&
               (li->who.scopes & AUTH_ADMIN) && !bounded;

    if (e->type == LIVE_HEALTH)
        return !bounded;
    if (e->type == LIVE_AUDIT)
        return has(li, AUTH_AUDIT_READ) && !bounded &&
               (all || strcmp(e->tenant, li->who.tenant) == 0);
    if (e->type == LIVE_POLICY)
        return has(li, AUTH_POLICY_ADMIN) && !bounded;
    if (strcmp(e->tenant, li->who.tenant) != 0)
        return false;
    switch (e->type) {
    case LIVE_SESSION:
    case LIVE_EXECUTION:
    case LIVE_PROGRESS:
        return sees_session(li, e);
    case LIVE_WORKSPACE:
        return sees_workspace(li, e);
    case LIVE_APPROVAL:
        return sees_approval(li, e);
    case LIVE_NETWORK: /* of one's own code, or of all for auditors */
        return (has(li, AUTH_EXECUTE) &&
                strcmp(e->owner, li->actor.key) == 0 && !bounded) ||
               (has(li, AUTH_AUDIT_READ) && !bounded);
    case LIVE_ADMIN:
        return has(li, AUTH_POLICY_ADMIN) && !bounded;
    case LIVE_AGENT:
        return has(li, AUTH_EXECUTE) && !bounded;
    case LIVE_HEALTH:
    case LIVE_POLICY:
    case LIVE_AUDIT:
    case LIVE_TYPES:
        break;
    }
    return false;
}

/* ---- a listener --------------------------------------------------------- */

static void wake_reader(struct listener *li)
{
    void (*wake)(void *arg) = take_ptr(li->wake);

    mutex_assert_held(&li->lock);
    if (wake)
        wake(li->wake_arg);
}

static void send_text(struct listener *li, uint64_t number, const char *type,
                      const char *data, size_t len)
{
    mutex_lock(&li->lock);
    if (!li->closed && !li->ended) {
        if (number)
            buf_addf(&li->pending, "id: %llu\n", (unsigned long long)number);
        buf_addf(&li->pending, "event: %s\ndata: ", type);
        buf_add(&li->pending, data, len);
        buf_adds(&li->pending, "\n\n");
        wake_reader(li);
    }
    mutex_unlock(&li->lock);
}

static bool has_room(struct listener *li)
{
    bool room;

    mutex_lock(&li->lock);
    room = li->pending.len < PENDING_MAX;
    mutex_unlock(&li->lock);
    return room;
}

/* Everything before is unknown to the client: it asks for lists again. */
static void send_reset(struct listener *li)
{
    li->seen = ring_last(li->live);
    send_text(li, li->seen, "reset", "{}", 2);
}

static void serve_listener(struct listener *li)
{
    struct entry e;
    int r;

    while (has_room(li) && (r = ring_next(li->live, li->seen, &e)) != 0) {
        if (r < 0) {
            send_reset(li);
            continue;
        }
        li->seen = e.number;
        if ((li->types & (1u << e.type)) && may_see(li, &e))
            send_text(li, e.number, type_names[e.type], e.data, e.len);
        free(e.data);
    }
}

static void end_listener(struct listener *li)
{
    mutex_lock(&li->lock);
    li->ended = true;
    wake_reader(li);
    mutex_unlock(&li->lock);
}

static int on_next(void *ctx, struct buf *out)
{
    struct listener *li = ctx;
    int more;

    mutex_lock(&li->lock);
    more = li->pending.len ? 1 : li->ended ? -1 : 0;
    if (li->pending.len) {
        buf_add(out, li->pending.data, li->pending.len);
        buf_done(&li->pending);
    }
    mutex_unlock(&li->lock);
    if (more > 0)
        worker_wake(&li->live->worker); /* there is room again */
    return more;
}

static void on_watch(void *ctx, void (*wake)(void *arg), void *arg)
{
    struct listener *li = ctx;

    mutex_lock(&li->lock);
    if (li->pending.len || li->ended) {
        wake(arg);
    } else {
        li->wake = wake;
        li->wake_arg = arg;
    }
    mutex_unlock(&li->lock);
}

static void on_close(void *ctx)
{
    struct listener *li = ctx;
    struct native_live *l = li->live;

    mutex_lock(&li->lock);
    li->wake = NULL;
    li->closed = true;
    mutex_unlock(&li->lock);
    worker_wake(&l->worker);
}

static void listener_free(struct listener *li)
{
    buf_done(&li->pending);
    mutex_done(&li->lock);
    free(li);
}

/* Frees those whose reader has gone. */
static void sweep_listeners(struct native_live *l)
{
    struct listener **at = &l->listeners;

    mutex_lock(&l->lock);
    while (*at) {
        struct listener *li = *at;
        bool closed;

        mutex_lock(&li->lock);
        closed = li->closed;
        mutex_unlock(&li->lock);
        if (closed) {
            *at = li->next;
            l->count--;
            listener_free(li);
        } else {
            at = &li->next;
        }
    }
    if (l->count)
        l->left_ms = clock_mono_ms();
    else if (l->busy && clock_mono_ms() - l->left_ms > LINGER_MS) {
        l->busy = false;
        ring_close(l);
    }
    mutex_unlock(&l->lock);
}

/* ---- the thread --------------------------------------------------------- */

/* Handlers only add at the front and only the thread removes, so the list can
 * be walked from its head as it was. */
static struct listener *list_head(struct native_live *l)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&l->lock);

    return l->listeners;
}

static void on_progress(void *ctx, const struct exec_progress *p)
{
    struct native_live *l = ctx;
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = &text};
    struct entry e = {.type = LIVE_PROGRESS};

    keep_session(&e, &p->session);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "execution", p->id);
    json_write_string(&w, "session", p->session.session);
    json_write_int(&w, "elapsed_ms", (int64_t)p->elapsed_ms);
    if (p->counted) {
        json_write_int(&w, "cpu_ms", (int64_t)p->cpu_ms);
        json_write_int(&w, "peak_memory_bytes", (int64_t)p->peak_memory_bytes);
        if (p->memory_bytes)
            json_write_int(&w, "memory_bytes", (int64_t)p->memory_bytes);
    }
    json_write_close(&w, '}');
    for (struct listener *li = list_head(l); li; li = li->next)
        if ((li->types & (1u << LIVE_PROGRESS)) && has_room(li) &&
            may_see(li, &e))
            send_text(li, 0, type_names[LIVE_PROGRESS], text.data, text.len);
}

/* An event when readiness changes, and what is wrong. */
static void check_health(struct native_live *l)
{
    struct buf text = {0};
    struct json_writer w = {.out = &text};
    struct error err;
    const char *failed = doors_ready(l->doors, &err);
    struct entry e = {.type = LIVE_HEALTH};
    char now[sizeof(l->health)];

    (void)snprintf(now, sizeof(now), "%s", failed ? failed : "ready");
    if (strcmp(now, l->health) == 0)
        return;
    keep(l->health, sizeof(l->health), now);
    json_write_open(&w, NULL, '{');
    json_write_bool(&w, "ready", !failed);
    json_write_string(&w, "failed", failed);
    json_write_string(&w, "reason", failed ? err.message : NULL);
    json_write_close(&w, '}');
    entry_text(&e, &text);
    ring_add(l, &e);
}

static void serve_all(struct native_live *l, bool tick)
{
    read_trail(l);
    if (tick)
        check_health(l);
    for (struct listener *li = list_head(l); li; li = li->next) {
        if (!auth_still_valid(l->doors->auth, &li->who))
            end_listener(li);
        else
            serve_listener(li);
    }
    if (tick)
        execution_progress(l->doors->sessions, on_progress, l);
}

/* Reading starts at the end of the trail: earlier events had no listener. */
static void skip_trail(struct native_live *l)
{
    struct error ignored;
    int64_t last;

    if (audit_last(l->doors->core->audit, &last, &ignored) == 0)
        l->trail_seq = last;
}

static void native_live_main(void *arg)
{
    struct native_live *l = arg;
    uint64_t tick_ms = 0;
    bool was_busy = false;

    while (worker_wait(&l->worker, l->busy ? TICK_MS : 3600u * 1000u)) {
        uint64_t now = clock_mono_ms();
        bool tick = now - tick_ms >= TICK_MS;

        sweep_listeners(l);
        if (!l->busy) {
            was_busy = false;
            continue;
        }
        if (!was_busy)
            skip_trail(l);
        was_busy = true;
        if (tick) {
            tick_ms = now;
            node_share_want(l->share);
        }
        serve_all(l, tick);
        (void)poll(NULL, 0, GATHER_MS);
    }
}

/* ---- the route ---------------------------------------------------------- */

static int ask_types(struct doors_call *call, unsigned *ret, struct error *err)
{
    const char *text;
    int r = native_ask_text(call, "types", 200, &text, err);

    if (r < 0)
        return r;
    /* The trail has everything once more, so it is only sent if asked for. */
    *ret = text ? 0 : (1u << LIVE_AUDIT) - 1;
    while (text && *text) {
        size_t n = strcspn(text, ","), i = 0;

        while (i < LIVE_TYPES && (strlen(type_names[i]) != n ||
                                  strncmp(type_names[i], text, n) != 0))
            i++;
        if (i == LIVE_TYPES) {
            (void)error_set(err, ERR_INVALID,
                            "parameter 'types' has an unknown type '%.*s'",
                            (int)MIN(n, (size_t)40), text);
            return error_hint(err, "Known: session, execution, progress, "
                                   "workspace, approval, policy, network, "
                                   "admin, agent, health, audit.");
        }
        *ret |= 1u << i;
        text += n + (text[n] == ',');
    }
    return 0;
}

/* 0: from now on. */
static int ask_after(struct doors_call *call, uint64_t *ret, struct error *err)
{
    const char *header = http_header(call->http, "Last-Event-ID");
    int64_t after = 0;
    int r = doors_query_int(call, "after", 0, INT64_MAX, 0, &after, err);

    if (r < 0)
        return r;
    if (!after && header && *header) {
        char *end;

        after = strtoll(header, &end, 10);
        if (*end || after < 0)
            return error_set(err, ERR_INVALID,
                             "the Last-Event-ID is no event's number");
    }
    *ret = (uint64_t)after;
    return 0;
}

static int add_listener(struct native_live *l, struct listener *li,
                        struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&l->lock);
    size_t own = 0;

    for (struct listener *o = l->listeners; o; o = o->next) {
        mutex_lock(&o->lock);
        own += strcmp(o->who.key_id, li->who.key_id) == 0 && !o->closed;
        mutex_unlock(&o->lock);
    }
    if (l->stopping)
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    if (own >= LISTENERS_OF_ONE || l->count >= LISTENERS_MAX) {
        (void)error_set(err, ERR_LIMIT,
                        "too many streams of events are open already");
        return error_retry(err, 5);
    }
    li->next = l->listeners;
    l->listeners = li;
    l->count++;
    l->busy = true;
    return 0;
}

/* Where the stream begins, for a client that comes back later. */
static void send_hello(struct listener *li, uint64_t after)
{
    struct native_live *l = li->live;
    uint64_t last = ring_last(l);

    if (after && after <= last) {
        li->seen = after; /* too old: serve_listener notices */
        return;
    }
    li->seen = last;
    send_text(li, last, after ? "reset" : "hello", "{}", 2);
}

int native_live_events(struct doors_call *call, struct error *err)
{
    static const struct http_feed feed = {on_next, on_watch, on_close};
    struct native_live *l = call->doors->live;
    unsigned types = 0;
    uint64_t after = 0;
    struct listener *li;
    int r = ask_types(call, &types, err);

    if (r == 0)
        r = ask_after(call, &after, err);
    if (r < 0)
        return r;
    li = xcalloc(1, sizeof(*li));
    li->live = l;
    li->who = call->who;
    li->actor = auth_actor(&li->who);
    li->actor.door = "native";
    li->types = types;
    mutex_init(&li->lock);
    send_hello(li, after);
    r = add_listener(l, li, err);
    if (r < 0) {
        listener_free(li);
        return r;
    }
    http_respond_stream(call->http, &feed, li);
    worker_wake(&l->worker);
    return 0;
}

/* ---- opening and closing ------------------------------------------------ */

int native_live_open(struct doors *doors, struct error *err)
{
    struct native_live *l = xcalloc(1, sizeof(*l));

    l->doors = doors;
    mutex_init(&l->lock);
    mutex_init(&l->ring_lock);
    worker_init(&l->worker);
    /* Numbers of an earlier life are all smaller: who comes back with one is
     * told to start anew. */
    l->last = (uint64_t)clock_real_ms() * 1000u;
    l->first = l->last + 1;
    doors->live = l;
    if (doors->nodes &&
        node_share_open(doors->nodes, add_item, l, &l->share, err) < 0)
        return -(int)err->code;
    feed_subscribe(doors->core->feed, on_item, l);
    audit_on_event(doors->core->audit, on_trail, l);
    return worker_start(&l->worker, "native-live", native_live_main, l, err);
}

void native_live_stop(struct doors *doors)
{
    struct native_live *l = doors->live;

    if (!l)
        return;
    mutex_lock(&l->lock);
    l->stopping = true;
    for (struct listener *li = l->listeners; li; li = li->next)
        end_listener(li);
    mutex_unlock(&l->lock);
}

void native_live_close(struct doors *doors)
{
    struct native_live *l = take_ptr(doors->live);

    if (!l)
        return;
    feed_subscribe(doors->core->feed, NULL, NULL);
    audit_on_event(doors->core->audit, NULL, NULL);
    node_share_close(l->share);
    worker_stop(&l->worker);
    worker_done(&l->worker);
    while (l->listeners) {
        struct listener *next = l->listeners->next;

        listener_free(l->listeners);
        l->listeners = next;
    }
    while (l->first <= l->last)
        drop_first(l);
    mutex_done(&l->lock);
    mutex_done(&l->ring_lock);
    free(l);
}
