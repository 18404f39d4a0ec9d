/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the module; keeps the executions that can still be found,
 * and the buffers of those that run. Runs in gloveboxd.
 *
 * Every execution is in its session's history and in the table from its
 * creation on. Finished executions are counted, and the least recently used
 * are dropped when a session has too many or all of them hold too many bytes.
 * References are dropped outside the lock.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "execution/execution_int.h"
#include "node/node.h"

/* ---- history ------------------------------------------------------------ */

static void lru_unlink(struct executions *x, struct execution *e)
{
    *(e->older ? &e->older->newer : &x->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &x->latest) = e->older;
    e->older = e->newer = NULL;
}

static void lru_push(struct executions *x, struct execution *e)
{
    e->older = x->latest;
    e->newer = NULL;
    *(x->latest ? &x->latest->newer : &x->oldest) = e;
    x->latest = e;
}

/* Out of the table and the lists; the table's reference goes to *drop. */
static void history_forget(struct executions *x, struct execution *e,
                           struct execution **drop)
{
    struct history *h = e->home;

    assert(h);
    mutex_assert_held(&x->lock);
    *(e->prev ? &e->prev->next : &h->first) = e->next;
    *(e->next ? &e->next->prev : &h->last) = e->prev;
    e->prev = e->next = NULL;
    idmap_remove(&x->runs, &e->node);
    e->home = NULL;
    if (e->recorded) {
        lru_unlink(x, e);
        x->history_bytes -= e->bytes;
        e->recorded = false;
        h->finished--;
    }
    e->history_next = *drop;
    *drop = e;
}

/* Without the lock. */
static void history_drop(struct execution *drop)
{
    while (drop) {
        struct execution *next = drop->history_next;

        execution_unref(drop);
        drop = next;
    }
}

static struct history *history_of(struct executions *x, struct session *se)
{
    struct session_facts f = session_facts(se);
    struct idmap_node *n = idmap_find(&x->histories, f.id);
    struct history *h;

    if (n) {
        h = container_of(n, struct history, node);
        h->session = se; /* another object of it, loaded again */
        return h;
    }
    h = xcalloc(1, sizeof(*h));
    memcpy(h->id, f.id, sizeof(h->id));
    h->session = se;
    idmap_add(&x->histories, &h->node, h->id);
    return h;
}

static void history_free_if_empty(struct executions *x, struct history *h)
{
    if (h->first)
        return;
    idmap_remove(&x->histories, &h->node);
    free(h);
}

void execution_history_add(struct executions *x, struct session *se,
                           struct execution *e)
{
    struct history *h;

    mutex_lock(&x->lock);
    h = history_of(x, se);
    idmap_add(&x->runs, &e->node, e->info.id);
    e->home = h;
    (void)execution_ref(e); /* the table's */
    e->prev = h->last;
    *(h->last ? &h->last->next : &h->first) = e;
    h->last = e;
    mutex_unlock(&x->lock);
}

void execution_history_remove(struct executions *x, struct execution *e)
{
    struct execution *drop = NULL;
    struct history *h;

    mutex_lock(&x->lock);
    h = e->home;
    if (h) {
        history_forget(x, e, &drop);
        history_free_if_empty(x, h);
    }
    mutex_unlock(&x->lock);
    history_drop(drop);
}

void execution_preview(const char *code, struct exec_info *ret)
{
    size_t len = 0;

    if (code)
        len = utf8_cut(code, strlen(code), sizeof(ret->preview) - 1);
    if (len)
        memcpy(ret->preview, code, len);
    ret->preview[len] = '\0';
}

/* With the lock held, for a list: what the execution owns may be freed once
 * the lock is released. */
static void list_one(struct execution *e, struct exec_info *ret)
{
    execution_info(e, ret);
    execution_preview(e->code, ret);
    ret->code = NULL;
}

int execution_list(struct sessions *s, const struct actor *who, const char *id,
                   size_t max, struct exec_info **ret, size_t *ret_count,
                   bool *ret_has_more, struct error *err)
{
    struct executions *x = sessions_hooks_ctx(s);
    struct session *se = session_acquire(s, who, id, err);
    struct idmap_node *n;
    struct exec_info *all;
    size_t count = 0;

    if (!se)
        return -(int)err->code;
    all = xcalloc(max + 1, sizeof(*all));
    *ret_has_more = false;
    mutex_lock(&x->lock);
    n = idmap_find(&x->histories, session_facts(se).id);
    if (n) {
        struct history *h = container_of(n, struct history, node);

        for (struct execution *e = h->last; e && !*ret_has_more; e = e->prev) {
            if (count < max)
                list_one(e, &all[count++]);
            else
                *ret_has_more = true;
        }
    }
    mutex_unlock(&x->lock);
    if (!*ret_has_more && !session_facts(se).ephemeral)
        execution_stored_of_session(x, who, session_facts(se).id, max, all,
                                    &count, ret_has_more);
    session_release(se);
    *ret = all;
    *ret_count = count;
    return 0;
}

/* ---- those that run ----------------------------------------------------- */

void execution_running_add(struct executions *x, struct execution *e)
{
    mutex_lock(&x->lock);
    e->running_next = x->running;
    if (x->running)
        x->running->running_prev = e;
    x->running = e;
    e->listed = true;
    mutex_unlock(&x->lock);
}

void execution_running_remove(struct executions *x, struct execution *e)
{
    mutex_lock(&x->lock);
    if (e->listed) {
        *(e->running_prev ? &e->running_prev->running_next : &x->running) =
            e->running_next;
        if (e->running_next)
            e->running_next->running_prev = e->running_prev;
        e->running_prev = e->running_next = NULL;
        e->listed = false;
    }
    mutex_unlock(&x->lock);
}

void execution_unfinished(struct executions *x, const struct actor *who,
                          const char *text, struct exec_info **ret,
                          size_t *ret_count)
{
    size_t count = 0, n = 0;

    mutex_lock(&x->lock);
    for (struct execution *e = x->running; e; e = e->running_next)
        count++;
    *ret = xcalloc(count + 1, sizeof(**ret));
    for (struct execution *e = x->running; e; e = e->running_next)
        if (strcmp(e->tenant, who->tenant) == 0 && e->home &&
            session_visible(e->home->session, who) &&
            (!text || strstr(e->code, text))) {
            list_one(e, &(*ret)[n++]);
        }
    mutex_unlock(&x->lock);
    *ret_count = n;
}

void execution_progress(struct sessions *s,
                        void (*fn)(void *ctx, const struct exec_progress *p),
                        void *ctx)
{
    struct executions *x = sessions_hooks_ctx(s);
    struct {
        struct exec_progress p;
        struct session *session;
        uint64_t base_ns;
        int64_t started_at_ms;
    } * all;
    size_t count = 0, n = 0;
    int64_t now = clock_real_ms();

    /* Sessions are referenced under the lock and looked at without it. */
    mutex_lock(&x->lock);
    for (struct execution *e = x->running; e; e = e->running_next)
        count += e->started_at_ms != 0;
    all = xcalloc(count + 1, sizeof(*all));
    for (struct execution *e = x->running; e; e = e->running_next) {
        if (!e->started_at_ms || n == count)
            continue;
        memcpy(all[n].p.id, e->info.id, sizeof(all[n].p.id));
        all[n].session = session_ref(e->session);
        all[n].base_ns = e->base_cpu_ns;
        all[n++].started_at_ms = e->started_at_ms;
    }
    mutex_unlock(&x->lock);
    for (size_t i = 0; i < n; i++) {
        struct exec_progress *p = &all[i].p;
        struct warden_usage used;

        p->elapsed_ms = (uint64_t)MAX(now - all[i].started_at_ms, 0);
        p->counted =
            session_usage_so_far(all[i].session, &used, &p->memory_bytes);
        if (p->counted) {
            p->cpu_ms = used.cpu_ns > all[i].base_ns
                            ? (used.cpu_ns - all[i].base_ns) / 1000000
                            : 0;
            p->peak_memory_bytes = used.memory_peak_bytes;
        }
        session_feed_item(all[i].session, &p->session);
        fn(ctx, p);
        session_unref(all[i].session);
    }
    free(all);
}

/* ---- dropping ----------------------------------------------------------- */

static struct execution *oldest_finished(struct history *h)
{
    struct execution *e = h->first;

    while (e && !e->recorded)
        e = e->next;
    return e;
}

void execution_history_record(struct executions *x, struct execution *e,
                              size_t bytes)
{
    struct execution *drop = NULL;
    struct history *h;

    mutex_lock(&x->lock);
    h = e->home;
    if (h) { /* not when its session was deleted meanwhile */
        e->recorded = true;
        e->bytes = bytes;
        x->history_bytes += bytes;
        h->finished++;
        lru_push(x, e);
        while (h->finished > x->conf->history_per_session)
            history_forget(x, oldest_finished(h), &drop);
        history_free_if_empty(x, h);
        while (x->oldest && x->history_bytes > x->conf->history_bytes) {
            h = x->oldest->home;
            history_forget(x, x->oldest, &drop);
            history_free_if_empty(x, h);
        }
    }
    mutex_unlock(&x->lock);
    history_drop(drop);
}

/* A session_hooks.on_forget. */
static void on_forget(void *ctx, struct session *se)
{
    struct executions *x = ctx;
    struct session_facts f = session_facts(se);
    struct execution *drop = NULL;
    struct idmap_node *n;

    mutex_lock(&x->lock);
    n = idmap_find(&x->histories, f.id);
    if (n) {
        struct history *h = container_of(n, struct history, node);

        /* Not if the session was loaded again meanwhile. */
        if (h->session == se) {
            while (h->first)
                history_forget(x, h->first, &drop);
            history_free_if_empty(x, h);
        }
    }
    mutex_unlock(&x->lock);
    history_drop(drop);
}

int execution_lookup(struct executions *x, const struct actor *who,
                     const char *id, struct execution **ret,
                     struct session **ret_session, struct error *err)
{
    struct execution *e = NULL;
    struct idmap_node *n;

    mutex_lock(&x->lock);
    n = idmap_find(&x->runs, id);
    if (n)
        e = container_of(n, struct execution, node);
    if (e && strcmp(e->tenant, who->tenant) == 0 &&
        session_visible(e->home->session, who)) {
        if (e->recorded) { /* used now */
            lru_unlink(x, e);
            lru_push(x, e);
        }
        (void)execution_ref(e);
        if (ret_session)
            *ret_session = session_ref(e->home->session);
    } else {
        e = NULL;
    }
    mutex_unlock(&x->lock);
    if (!e)
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    *ret = e;
    return 0;
}

/* ---- several nodes ------------------------------------------------------ */

int execution_elsewhere(struct executions *x, const char *id,
                        struct error *err)
{
    struct error why = *err;
    int rc = node_locate(x->core->nodes, "exec", id, err);

    if (rc == 0)
        *err = why;
    return -(int)err->code;
}

int execution_note(struct executions *x, struct execution *e,
                   struct error *err)
{
    struct exec_info info;
    int rc;

    if (!x->core->nodes || atomic_load(&e->noted) || !e->info.workspace[0])
        return 0;
    execution_info(e, &info);
    rc = node_execution_add(
        x->core->nodes,
        &(struct node_execution){
            .id = info.id,
            .session = info.session,
            .tenant = e->tenant,
            .workspace = info.workspace,
            .language = execution_language_name(info.language),
            .author = info.author,
            .author_name = info.author_name,
            .code = x->conf->evidence_code && info.code ? info.code : "",
            .created_at_ms = info.created_at_ms},
        err);
    if (rc == 0)
        atomic_store(&e->noted, true);
    return rc;
}

#define NOTE_BATCH 64u

void executions_note_running(struct executions *x)
{
    struct execution *list[NOTE_BATCH];
    struct error err;
    size_t count = 0;

    mutex_lock(&x->lock);
    for (struct execution *e = x->running; e && count < NOTE_BATCH;
         e = e->running_next)
        if (!atomic_load(&e->noted))
            list[count++] = execution_ref(e);
    mutex_unlock(&x->lock);
    for (size_t i = 0; i < count; i++) {
        if (execution_note(x, list[i], &err) < 0)
            log_event(LOG_WARN, "execution_not_noted", "execution",
                      list[i]->info.id, "error", err.message, NULL);
        execution_unref(list[i]);
    }
}

/* ---- runners ------------------------------------------------------------
 * A few are cached, so that a warm execution allocates nothing and an idle
 * session holds no buffer.
 */

#define RUNNERS_MAX 16u

static void runner_free(struct runner *r)
{
    fd_close(&r->wake);
    free(r->io);
    buf_done(&r->frames);
    free(r);
}

struct runner *execution_runner_get(struct executions *x)
{
    struct runner *r;

    mutex_lock(&x->runner_lock);
    r = x->runners;
    if (r) {
        x->runners = r->next;
        x->runner_count--;
    }
    mutex_unlock(&x->runner_lock);
    if (r)
        return r;
    r = xcalloc(1, sizeof(*r));
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->io = xmalloc(SESSION_IO_SIZE);
    if (r->wake < 0) { /* out of descriptors */
        runner_free(r);
        return NULL;
    }
    return r;
}

void execution_runner_put(struct executions *x, struct runner *r,
                          bool signalled)
{
    eventfd_t count;

    if (signalled) /* by now no session knows it any more */
        (void)eventfd_read(r->wake, &count); /* a late request, or EAGAIN */
    mutex_lock(&x->runner_lock);
    if (x->runner_count < RUNNERS_MAX) {
        r->next = x->runners;
        x->runners = r;
        x->runner_count++;
        r = NULL;
    }
    mutex_unlock(&x->runner_lock);
    if (r)
        runner_free(r);
}

/* ---- opening and closing ------------------------------------------------ */

void executions_open(const struct executions_parts *parts,
                     struct executions **ret)
{
    struct executions *x = xcalloc(1, sizeof(*x));

    x->conf = parts->conf;
    x->core = parts->core;
    x->govern = (struct govern){.policy = parts->core->policy,
                                .approvals = parts->core->approvals};
    x->workspaces = parts->workspaces;
    x->sessions = parts->sessions;
    mutex_init(&x->lock); /* cannot fail on Linux */
    mutex_init(&x->runner_lock);
    execution_stored_open(x);
    sessions_set_hooks(
        x->sessions,
        &(struct session_hooks){.ctx = x,
                                .on_forget = on_forget,
                                .on_delete = execution_pending_withdraw});
    *ret = x;
}

void executions_close(struct executions *x)
{
    if (!x)
        return;
    execution_stored_close(x);
    while (x->runners) {
        struct runner *next = x->runners->next;

        runner_free(x->runners);
        x->runners = next;
    }
    idmap_done(&x->runs);
    idmap_done(&x->histories);
    mutex_done(&x->lock);
    mutex_done(&x->runner_lock);
    free(x);
}
