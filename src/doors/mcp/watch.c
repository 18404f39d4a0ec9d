/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for changes that somebody waits for: a thread of the daemon that
 * wakes every second while anybody does, and then only looks at workspaces
 * when something was committed since. It acts with the rights of whoever
 * waits, asked anew each time. Also sweeps what is over.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/mcp_int.h"
#include "workspace/workspace.h"

#define IDLE_S 30
#define LISTED 50u /* workspaces whose files make up the list */

static struct actor actor_of(const struct mcp_listener *l)
{
    return auth_actor(&l->who);
}

static void tell_updated(struct mcp *m, struct mcp_listener *l,
                         const char *uri)
{
    struct buf params cleanup(buf_done) = {0};
    struct json_writer w = {.out = &params};

    json_write_string(&w, "uri", uri);
    (void)pthread_mutex_lock(&m->lock); /* its session stays meanwhile */
    if (l->listed)
        mcp_listen_tell(l, "notifications/resources/updated", &params);
    (void)pthread_mutex_unlock(&m->lock);
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

static void look_at_files(struct mcp *m, struct mcp_listener *l)
{
    struct actor who = actor_of(l);
    char *changed[MCP_LISTEN_URIS];
    size_t count = 0;

    (void)pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->watched_count; i++)
        if (l->watched[i].workspace && has_changed(m, &who, &l->watched[i]))
            changed[count++] = xstrdup(l->watched[i].uri);
    (void)pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < count; i++) {
        tell_updated(m, l, changed[i]);
        free(changed[i]);
    }
}

/* A number that differs when the list of files may. */
static uint64_t mark_of(struct mcp *m, const struct actor *who)
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

static void look_at_list(struct mcp *m, struct mcp_listener *l)
{
    struct actor who = actor_of(l);
    uint64_t mark = mark_of(m, &who), before = l->mark;

    l->mark = mark;
    if (before == 0 || mark == 0 || before == mark)
        return;
    (void)pthread_mutex_lock(&m->lock);
    if (l->listed)
        mcp_listen_tell(l, "notifications/resources/list_changed",
                        &(struct buf){0});
    (void)pthread_mutex_unlock(&m->lock);
}

/* Everybody who waits now; each referenced. */
static size_t everybody(struct mcp *m, struct mcp_listener ***ret)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&m->lock);
    *ret = xcalloc(m->listener_count + 1, sizeof(**ret));
    for (struct mcp_listener *l = m->listeners; l; l = l->next)
        (*ret)[count++] = mcp_listen_ref(l);
    (void)pthread_mutex_unlock(&m->lock);
    return count;
}

static void look(struct mcp *m, bool committed)
{
    struct mcp_listener **all cleanup(mem_free) = NULL;
    size_t count = everybody(m, &all);

    for (size_t i = 0; i < count; i++) {
        if (committed)
            look_at_files(m, all[i]);
        /* The first look only notes how things are. */
        if ((all[i]->lists & MCP_LIST_RESOURCES) &&
            (committed || all[i]->mark == 0))
            look_at_list(m, all[i]);
        mcp_listen_unref(all[i]);
    }
}

static bool sleep_a_while(struct mcp *m)
{
    struct timespec until;
    bool go_on;

    (void)pthread_mutex_lock(&m->lock);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += m->listeners ? 1 : IDLE_S;
    if (!m->stopping)
        (void)pthread_cond_timedwait(&m->tick, &m->lock, &until);
    go_on = !m->stopping;
    (void)pthread_mutex_unlock(&m->lock);
    return go_on;
}

void *mcp_watch_run(void *arg)
{
    struct mcp *m = arg;
    uint64_t seen = workspaces_commits(m->doors->workspaces);
    uint64_t swept = clock_mono_ms();

    while (sleep_a_while(m)) {
        uint64_t now = workspaces_commits(m->doors->workspaces);

        mcp_listen_sweep(m);
        look(m, now != seen);
        seen = now;
        if (clock_mono_ms() - swept >= IDLE_S * 1000ull) {
            swept = clock_mono_ms();
            mcp_session_sweep(m, false);
            mcp_task_sweep(m);
            mcp_task_kept_sweep(m);
        }
    }
    return NULL;
}
