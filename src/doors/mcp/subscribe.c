/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of changes. A modern client subscribes with one long
 * subscriptions/listen request, a legacy session with its standing stream;
 * each receives only what it asked for.
 *
 * The thread mcp-watch wakes every second while there are subscribers, and
 * reads workspaces only if something was committed since. It acts with the
 * rights of the subscriber, checked anew each time. It also expires sessions
 * and tasks.
 *
 * Other functions run on workers. A listener is reference-counted; its place
 * in the list is protected by mcp->lock, what it watches by its own lock.
 */
#include <stdio.h>
#include <string.h>

#include "agents/tools.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread.h"
#include "doors/mcp/mcp_int.h"
#include "workspace/workspace.h"

#define SNAPSHOT_MAX MCP_LISTENERS_MAX

/* ---- a listener --------------------------------------------------------- */

struct mcp_listener *mcp_listen_new(const struct principal *who)
{
    struct mcp_listener *l = xcalloc(1, sizeof(*l));

    l->refs = 1;
    l->who = *who;
    l->tag = xstrdup("");
    mutex_init(&l->lock); /* cannot fail on Linux */
    return l;
}

struct mcp_listener *mcp_listen_ref(struct mcp_listener *l)
{
    l->refs++;
    return l;
}

static void watched_done(struct mcp_watched *w)
{
    free(w->uri);
    free(w->workspace);
    free(w->path);
}

void mcp_listen_unref(struct mcp_listener *l)
{
    if (!l || --l->refs > 0)
        return;
    for (size_t i = 0; i < l->watched_count; i++)
        watched_done(&l->watched[i]);
    for (size_t i = 0; i < l->task_count; i++)
        free(l->tasks[i]);
    free(l->tasks);
    free(l->tag);
    free(l->last);
    mcp_stream_unref(l->stream);
    mutex_done(&l->lock);
    free(l);
}

int mcp_listen_add(struct mcp *m, struct mcp_listener *l, struct error *err)
{
    size_t own = 0;
    bool full;

    mutex_lock(&m->lock);
    for (struct mcp_listener *o = m->listeners; o; o = o->next)
        own += strcmp(o->who.key_id, l->who.key_id) == 0 &&
               strcmp(o->who.tenant, l->who.tenant) == 0;
    full =
        !l->listed && (own >= MCP_LISTENERS_PER_KEY ||
                       m->listener_count >= MCP_LISTENERS_MAX || m->stopping);
    if (!full && !l->listed) {
        l->listed = true;
        l->next = m->listeners;
        m->listeners = mcp_listen_ref(l);
        m->listener_count++;
        worker_wake(&m->watcher);
    }
    mutex_unlock(&m->lock);
    return full ? error_set(err, ERR_LIMIT,
                            "too many clients wait for changes already")
                : 0;
}

static void unlink_listener(struct mcp *m, struct mcp_listener **at)
{
    struct mcp_listener *l = *at;

    mutex_assert_held(&m->lock);
    *at = l->next;
    l->listed = false;
    m->listener_count--;
}

void mcp_listen_remove(struct mcp *m, struct mcp_listener *l)
{
    struct mcp_listener **at;
    bool found;

    mutex_lock(&m->lock);
    for (at = &m->listeners; *at && *at != l; at = &(*at)->next)
        ;
    found = *at != NULL;
    if (found)
        unlink_listener(m, at);
    l->session = NULL;
    mutex_unlock(&m->lock);
    if (found)
        mcp_listen_unref(l);
}

/* Removes subscribers whose stream has no reader any more. */
void mcp_listen_sweep(struct mcp *m)
{
    struct mcp_listener *gone = NULL, **at;

    mutex_lock(&m->lock);
    for (at = &m->listeners; *at;) {
        struct mcp_listener *l = *at;

        if (!(l->stream ? mcp_stream_gone(l->stream)
                        : mcp_session_left(l->session))) {
            at = &l->next;
            continue;
        }
        unlink_listener(m, at);
        l->next = gone;
        gone = l;
    }
    mutex_unlock(&m->lock);
    while (gone) {
        struct mcp_listener *l = gone;

        gone = l->next;
        mcp_listen_unref(l);
    }
}

/* ---- what it watches ---------------------------------------------------- */

int mcp_listen_watch(struct mcp_exchange *x, struct mcp_listener *l,
                     const char *uri)
{
    const char *workspace = NULL, *path = NULL;
    struct workspace_info info = {0};
    struct error err;
    bool room, known = false;

    if (mcp_uri_parse(x->arena, uri, &workspace, &path)) {
        if (workspace_get(x->doors->workspaces, x->actor, workspace, &info,
                          &err) < 0)
            return mcp_resources_unknown(x, uri);
    } else if (!mcp_resources_find(uri)) {
        return mcp_resources_unknown(x, uri);
    }
    mutex_lock(&l->lock);
    for (size_t i = 0; i < l->watched_count; i++)
        known |= strcmp(l->watched[i].uri, uri) == 0;
    room = l->watched_count < MCP_LISTEN_URIS;
    if (!known && room)
        l->watched[l->watched_count++] = (struct mcp_watched){
            xstrdup(uri), xstrdup(workspace), xstrdup(path), info.head};
    mutex_unlock(&l->lock);
    return known || room ? 0
                         : mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                                         "at most %u resources can be watched",
                                         MCP_LISTEN_URIS);
}

void mcp_listen_forget(struct mcp_listener *l, const char *uri)
{
    mutex_lock(&l->lock);
    for (size_t i = 0; i < l->watched_count; i++)
        if (strcmp(l->watched[i].uri, uri) == 0) {
            watched_done(&l->watched[i]);
            l->watched[i] = l->watched[--l->watched_count];
            break;
        }
    mutex_unlock(&l->lock);
}

/* ---- telling ------------------------------------------------------------ */

void mcp_listen_tell(struct mcp_listener *l, const char *method,
                     const struct buf *params)
{
    struct buf message cleanup(buf_done) = {0};

    struct json_writer w = {.out = &message};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "jsonrpc", "2.0");
    json_write_string(&w, "method", method);
    if (l->tag[0] || params->len > 0) {
        json_write_key(&w, "params", strlen("params"));
        buf_adds(&message, "{");
        buf_add(&message, params->data, params->len);
        if (l->tag[0] && params->len > 0)
            buf_adds(&message, ",");
        buf_adds(&message, l->tag);
        buf_adds(&message, "}");
    }
    buf_adds(&message, "}");

    if (l->stream)
        mcp_stream_add(l->stream, &message, false);
    else if (l->session)
        mcp_session_tell(l->session, &message);
}

/* Told under the list's lock: a listener's session cannot go meanwhile. */
void mcp_listen_lists(struct mcp *m, unsigned lists)
{
    static const struct {
        unsigned list;
        const char *method;
    } methods[] = {
        {MCP_LIST_TOOLS, "notifications/tools/list_changed"},
        {MCP_LIST_PROMPTS, "notifications/prompts/list_changed"},
        {MCP_LIST_RESOURCES, "notifications/resources/list_changed"},
    };

    mutex_lock(&m->lock);
    for (struct mcp_listener *l = m->listeners; l; l = l->next)
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
            if (l->lists & lists & methods[i].list)
                mcp_listen_tell(l, methods[i].method, &(struct buf){0});
    mutex_unlock(&m->lock);
}

void mcp_list_changed(struct mcp_call *call, unsigned lists)
{
    struct mcp_exchange *x = call->ctx;

    mcp_listen_lists(x->mcp, lists);
}

static bool wants_task(struct mcp_listener *l, const char *task)
{
    for (size_t i = 0; i < l->task_count; i++)
        if (strcmp(l->tasks[i], task) == 0)
            return true;
    return false;
}

void mcp_listen_task(struct mcp *m, const char *task, const char *tenant,
                     const char *credential, const struct buf *members)
{
    mutex_lock(&m->lock);
    for (struct mcp_listener *l = m->listeners; l; l = l->next)
        if (strcmp(l->who.tenant, tenant) == 0 &&
            strcmp(auth_shown(&l->who), credential) == 0 &&
            wants_task(l, task))
            mcp_listen_tell(l, "notifications/tasks", members);
    mutex_unlock(&m->lock);
}

/* The service stops: each subscription gets its result. */
void mcp_listen_stop(struct mcp *m)
{
    mutex_lock(&m->lock);
    for (struct mcp_listener *l = m->listeners; l; l = l->next)
        if (l->stream) {
            struct buf last = {.data = l->last, .len = strlen(l->last)};

            mcp_stream_add(l->stream, &last, true);
            mcp_stream_end(l->stream);
        }
    mutex_unlock(&m->lock);
}

/* ---- subscriptions/listen ----------------------------------------------- */

static const struct {
    const char *name;
    unsigned list;
} wishes[] = {
    {"toolsListChanged", MCP_LIST_TOOLS},
    {"promptsListChanged", MCP_LIST_PROMPTS},
    {"resourcesListChanged", MCP_LIST_RESOURCES},
};

static int take_uris(struct mcp_exchange *x, struct mcp_listener *l,
                     const json_t *uris)
{
    size_t i;
    json_t *uri;

    if (uris && !json_is_array(uris))
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "resourceSubscriptions must be an array");
    json_array_foreach (uris, i, uri)
        if (!json_is_string(uri))
            return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                                 "resourceSubscriptions must hold strings");
        else if (mcp_listen_watch(x, l, json_string_value(uri)) < 0)
            return -1;
    return 0;
}

/* Of others' tasks nothing is said, so that their ids may as well be kept. */
static int take_tasks(struct mcp_exchange *x, struct mcp_listener *l,
                      const json_t *ids)
{
    size_t i;
    json_t *id;

    if (ids &&
        (!json_is_array(ids) || json_array_size(ids) > MCP_TASKS_PER_KEY))
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "taskIds must be an array of at most %u",
                             MCP_TASKS_PER_KEY);
    l->tasks = xcalloc(json_array_size(ids) + 1, sizeof(*l->tasks));
    json_array_foreach (ids, i, id)
        if (json_is_string(id))
            l->tasks[l->task_count++] = xstrdup(json_string_value(id));
    return 0;
}

static int take_wishes(struct mcp_exchange *x, struct mcp_listener *l)
{
    const json_t *wanted = json_object_get(x->msg.params, "notifications");
    const json_t *uris = json_object_get(wanted, "resourceSubscriptions");

    if (!json_is_object(wanted))
        return mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                             "params.notifications must be an object");
    for (size_t i = 0; i < ARRAY_SIZE(wishes); i++)
        if (json_is_true(json_object_get(wanted, wishes[i].name)))
            l->lists |= wishes[i].list;
    if ((uris || (l->lists & MCP_LIST_RESOURCES)) &&
        mcp_need_scope(x, AUTH_FILES_READ) < 0)
        return -1;
    if (take_uris(x, l, uris) < 0)
        return -1;
    return take_tasks(x, l, json_object_get(wanted, "taskIds"));
}

/* Confirms the subscriptions as they were requested. */
static void acknowledge(struct mcp_listener *l)
{
    struct buf params cleanup(buf_done) = {0};
    struct json_writer w = {.out = &params};

    json_write_open(&w, "notifications", '{');
    for (size_t i = 0; i < ARRAY_SIZE(wishes); i++)
        if (l->lists & wishes[i].list)
            json_write_bool(&w, wishes[i].name, true);
    if (l->watched_count > 0) {
        json_write_open(&w, "resourceSubscriptions", '[');
        for (size_t i = 0; i < l->watched_count; i++)
            json_write_string(&w, NULL, l->watched[i].uri);
        json_write_close(&w, ']');
    }
    if (l->task_count > 0) {
        json_write_open(&w, "taskIds", '[');
        for (size_t i = 0; i < l->task_count; i++)
            json_write_string(&w, NULL, l->tasks[i]);
        json_write_close(&w, ']');
    }
    json_write_close(&w, '}');
    mcp_listen_tell(l, "notifications/subscriptions/acknowledged", &params);
}

int mcp_listen(struct mcp_exchange *x)
{
    struct mcp_listener *l = mcp_listen_new(&x->door->who);
    struct error err;
    int r = take_wishes(x, l);

    if (r == 0) {
        struct buf tag = {0}, last = {0};
        struct json_writer w = {.out = &tag}, end = {.out = &x->meta};

        json_write_open(&w, "_meta", '{');
        mcp_rpc_write_value(&w, META_SUBSCRIPTION, x->msg.id);
        json_write_close(&w, '}');
        mcp_rpc_write_value(&end, META_SUBSCRIPTION, x->msg.id);
        mcp_reply_write(x, &last);
        free(l->tag);
        l->tag = buf_take(&tag, &(size_t){0});
        l->last = buf_take(&last, &(size_t){0});

        l->stream = mcp_stream_new(0, false);
        acknowledge(l);
        x->answered = true;
        if (mcp_listen_add(x->mcp, l, &err) < 0) {
            x->answered = false;
            buf_reset(&x->meta);
            r = mcp_rpc_fault(&x->fault, RPC_INTERNAL, NULL, "%s",
                              err.message);
        } else {
            mcp_stream_attach(l->stream, x->door->http, 0);
            r = MCP_TAKEN;
        }
    }
    mcp_listen_unref(l);
    return r;
}

/* ---- the thread that finds changes -------------------------------------- */

#define IDLE_S 30
#define LISTED 50u /* workspaces whose files make up the list */

static struct actor listener_actor(const struct mcp_listener *l)
{
    return auth_actor(&l->who);
}

static void notify_updated(struct mcp *m, struct mcp_listener *l,
                           const char *uri)
{
    struct buf params cleanup(buf_done) = {0};
    struct json_writer w = {.out = &params};

    json_write_string(&w, "uri", uri);
    mutex_lock(&m->lock); /* its session stays meanwhile */
    if (l->listed)
        mcp_listen_tell(l, "notifications/resources/updated", &params);
    mutex_unlock(&m->lock);
}

/* Did anything at or below the watched path change after its seq? */
static bool has_changed(struct mcp *m, const struct actor *who,
                        struct mcp_watched *w)
{
    struct workspace_file *files = NULL;
    struct workspace_info info;
    size_t count = 0;
    int64_t head = w->seq;
    bool found = false;
    struct error err;

    if (workspace_get(m->doors->workspaces, who, w->workspace, &info, &err) <
            0 ||
        info.head <= w->seq)
        return false;
    if (workspace_changes(m->doors->workspaces, who, w->workspace, w->seq,
                          NULL, &files, &count, &head, &err) < 0)
        return false;
    for (size_t i = 0; i < count && !found; i++)
        found = path_below(files[i].path, w->path);
    workspace_files_free(files, count);
    w->seq = head;
    return found;
}

static void check_files(struct mcp *m, struct mcp_listener *l)
{
    struct actor who = listener_actor(l);
    char *changed[MCP_LISTEN_URIS];
    size_t count = 0;

    mutex_lock(&l->lock);
    for (size_t i = 0; i < l->watched_count; i++)
        if (l->watched[i].workspace && has_changed(m, &who, &l->watched[i]))
            changed[count++] = xstrdup(l->watched[i].uri);
    mutex_unlock(&l->lock);
    for (size_t i = 0; i < count; i++) {
        notify_updated(m, l, changed[i]);
        free(changed[i]);
    }
}

/* A number that differs when the list of files may. */
static uint64_t list_fingerprint(struct mcp *m, const struct actor *who)
{
    struct workspace_info *found = NULL;
    uint64_t mark = 1469598103934665603ull; /* FNV-1a */
    struct page_result got = {0};
    struct error err;

    if (workspace_list(m->doors->workspaces, who, false,
                       &(struct page){.limit = LISTED}, &found, &got,
                       &err) < 0)
        return 0;
    for (size_t i = 0; i < got.count; i++) {
        for (const char *at = found[i].id; *at; at++)
            mark = (mark ^ (unsigned char)*at) * 1099511628211ull;
        mark = (mark ^ (uint64_t)found[i].head) * 1099511628211ull;
    }
    free(found);
    return mark;
}

static void check_list(struct mcp *m, struct mcp_listener *l)
{
    struct actor who = listener_actor(l);
    uint64_t mark = list_fingerprint(m, &who), before = l->mark;

    l->mark = mark;
    if (before == 0 || mark == 0 || before == mark)
        return;
    mutex_lock(&m->lock);
    if (l->listed)
        mcp_listen_tell(l, "notifications/resources/list_changed",
                        &(struct buf){0});
    mutex_unlock(&m->lock);
}

/* Saved tools were changed; did those that this caller sees? */
static void check_tools(struct mcp *m, struct mcp_listener *l)
{
    struct actor who = listener_actor(l);
    uint64_t mark = saved_tools_mark(m->doors->agents, &who);
    uint64_t before = l->tools_mark;

    l->tools_mark = mark;
    if (before == 0 || mark == 0 || before == mark)
        return;
    mutex_lock(&m->lock);
    if (l->listed)
        mcp_listen_tell(l, "notifications/tools/list_changed",
                        &(struct buf){0});
    mutex_unlock(&m->lock);
}

/* All listeners that wait now, each referenced. */
static size_t copy_listeners(struct mcp *m, struct mcp_listener ***ret)
{
    size_t count = 0;

    mutex_lock(&m->lock);
    *ret = xcalloc(m->listener_count + 1, sizeof(**ret));
    for (struct mcp_listener *l = m->listeners; l; l = l->next)
        (*ret)[count++] = mcp_listen_ref(l);
    mutex_unlock(&m->lock);
    return count;
}

static void look_for_listeners(struct mcp *m, bool committed, bool saved)
{
    struct mcp_listener **all cleanup(mem_free) = NULL;
    size_t count = copy_listeners(m, &all);

    for (size_t i = 0; i < count; i++) {
        if (committed)
            check_files(m, all[i]);
        /* The first look only notes how things are. */
        if ((all[i]->lists & MCP_LIST_RESOURCES) &&
            (committed || all[i]->mark == 0))
            check_list(m, all[i]);
        if ((all[i]->lists & MCP_LIST_TOOLS) &&
            (saved || all[i]->tools_mark == 0))
            check_tools(m, all[i]);
        mcp_listen_unref(all[i]);
    }
}

static uint64_t ms_until_next_look(struct mcp *m)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);

    return m->listeners ? 1000 : IDLE_S * 1000ull;
}

void mcp_watch_run(void *arg)
{
    struct mcp *m = arg;
    uint64_t seen = workspaces_commits(m->doors->workspaces);
    uint64_t saved_seen = saved_tools_changes(m->doors->agents);
    uint64_t swept = clock_mono_ms();

    while (worker_wait(&m->watcher, ms_until_next_look(m))) {
        uint64_t now = workspaces_commits(m->doors->workspaces);

        uint64_t saved = saved_tools_changes(m->doors->agents);

        mcp_listen_sweep(m);
        look_for_listeners(m, now != seen, saved != saved_seen);
        seen = now;
        saved_seen = saved;
        if (clock_mono_ms() - swept >= IDLE_S * 1000ull) {
            swept = clock_mono_ms();
            mcp_session_sweep(m, false);
            mcp_task_sweep(m);
            mcp_task_kept_sweep(m);
        }
    }
}
