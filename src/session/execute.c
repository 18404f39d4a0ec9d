/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of an execution: admit (limits, quotas, policy), wait for the
 * turn, wake the sandbox, run, commit changes, derive the outcome, repair,
 * release, record. Runs in gloveboxd on the caller's thread, or on a thread of
 * the pool given to session_submit.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "quota/quota.h"
#include "session/session_int.h"

#define TENANT_SHARE 3u /* of one tenant's executions, to what is free */

struct job {
    struct sessions *m;
    struct session *se;  /* referenced */
    struct execution *e; /* referenced */
    char *code;          /* what ran, for the record; owned */
    bool settled;        /* denied or held: there is nothing to run */
    uint32_t begun;      /* of audit_begin; 0: not */
};

/* ---- admit -------------------------------------------------------------- */

static int check_spec(const struct sessions *m, const struct exec_spec *spec,
                      struct error *err)
{
    if (spec->code_len > m->conf->code_bytes)
        return error_set(err, ERR_TOO_LARGE, "code is over %llu bytes",
                         (unsigned long long)m->conf->code_bytes);
    if (!utf8_valid(spec->code, spec->code_len) ||
        memchr(spec->code, '\0', spec->code_len))
        return error_set(err, ERR_INVALID,
                         "code must be UTF-8 without NUL characters");
    if (spec->metadata && strlen(spec->metadata) > SESSION_METADATA_MAX)
        return error_set(err, ERR_TOO_LARGE, "metadata is over %u bytes",
                         SESSION_METADATA_MAX);
    return 0;
}

static int choose_timeout(const struct conf_pool *pool,
                          const struct exec_spec *spec, uint32_t *ret,
                          struct error *err)
{
    bool shell = spec->language == EXEC_SHELL && !spec->report;
    uint32_t most =
        shell ? pool->shell_timeout_max_s : pool->python_timeout_max_s;
    uint32_t normal = shell ? pool->shell_timeout_s : pool->python_timeout_s;

    if (spec->timeout_s > most)
        return error_set(err, ERR_INVALID,
                         "timeout_s must be from %u to %u in this pool",
                         MIN(EXEC_TIMEOUT_MIN_S, most), most);
    *ret = spec->timeout_s ? spec->timeout_s : normal;
    return 0;
}

/* Both locks are held. */
static int check_room(const struct sessions *m, const struct session *se,
                      struct error *err)
{
    if (se->state == SESSION_ENDED)
        return error_set(err, ERR_NOT_FOUND, "no such session");
    if (session_expiry_check(se, err) < 0)
        return -(int)err->code;
    if (m->active >= m->conf->max_executions) {
        (void)error_set(err, ERR_BUSY,
                        "%u executions are running or waiting, which is the "
                        "most",
                        m->conf->max_executions);
        return error_retry(err, 1);
    }
    /* The fuller it is, the less of it may be one tenant's: a place is always
     * left for the others (X4). */
    if (se->tenant->active >=
        (m->conf->max_executions - m->active + 1) * TENANT_SHARE) {
        (void)error_set(err, ERR_BUSY,
                        "%u executions of this tenant are running or "
                        "waiting; what is left is for others",
                        se->tenant->active);
        return error_retry(err, 1);
    }
    if (se->queued >= m->conf->queue_per_session) {
        (void)error_set(err, ERR_LIMIT,
                        "%u executions wait in this session, which is the "
                        "most",
                        m->conf->queue_per_session);
        (void)error_hint(err, "wait for one to finish, or use more sessions");
        return error_retry(err, 1);
    }
    return 0;
}

static int enqueue(struct sessions *m, struct session *se, struct execution *e,
                   struct error *err)
{
    int rc;

    mutex_lock(&m->lock);
    mutex_lock(&se->lock);
    rc = check_room(m, se, err);
    if (rc == 0)
        rc = quota_take(m->parts.quotas, se->tenant->name, QUOTA_EXECUTIONS, 1,
                        err);
    if (rc == 0) {
        e->counted = true;
        se->tenant->active++;
        m->active++;
        session_history_add(m, se, e);
        session_queue_add(se, e);
    }
    mutex_unlock(&se->lock);
    mutex_unlock(&m->lock);
    return rc;
}

/* Policy said no: it is over before it began, and can be looked at. */
static void settle_denied(struct sessions *m, struct session *se,
                          struct execution *e)
{
    struct outcome v;

    mutex_lock(&m->lock);
    m->active++;
    session_history_add(m, se, e);
    mutex_unlock(&m->lock);
    session_admit_denied(e, &v);
    session_execution_finish(e, &v);
}

/* Into the queue, or settled, as policy says. */
static int seat(struct job *job, const struct actor *who,
                const struct exec_spec *spec, struct error *err)
{
    int rc = session_admit_execution(job->m, job->se, who, spec, job->e, err);

    if (rc < 0)
        return rc;
    job->settled = job->e->decision.verdict != POLICY_ALLOW;
    if (!job->settled) {
        rc = enqueue(job->m, job->se, job->e, err);
        if (rc < 0) /* it was no run */
            session_admit_undo(job->m, job->se, job->e);
        return rc;
    }
    job->code = xstrndup(spec->code, spec->code_len);
    if (job->e->decision.verdict == POLICY_ASK)
        return session_pending_request(job->m, job->se, who, spec, job->e,
                                       err);
    settle_denied(job->m, job->se, job->e);
    return 0;
}

/* ret: an execution and its session, both referenced. */
static int admit(struct sessions *m, const struct actor *who, const char *id,
                 const struct exec_spec *spec, struct job *ret,
                 struct error *err)
{
    struct session *se = session_find(m, who, id, err);
    struct job job = {.m = m, .se = se};
    uint32_t timeout_s = 0;
    int rc;

    if (!se)
        return -(int)err->code;
    rc = session_gate(m, err);
    if (rc == 0)
        rc = check_spec(m, spec, err);
    if (rc == 0)
        rc = choose_timeout(pool_conf(se->pool), spec, &timeout_s, err);
    if (rc == 0) {
        job.e = session_execution_new(se, who, spec, timeout_s);
        rc = seat(&job, who, spec, err);
    }
    if (rc == 0) {
        *ret = job;
        return 0;
    }
    free(job.code);
    execution_unref(job.e);
    session_unref(se);
    session_metrics_refused(m, err);
    return rc;
}

/* ---- run ---------------------------------------------------------------- */

/* In the error of a cell, or in what a command wrote to stderr. */
static bool said(struct execution *e, const char *words)
{
    struct exec_event event;

    for (uint32_t n = 0; execution_event(e, n, &event); n++)
        if ((event.type == EVENT_ERROR || event.type == EVENT_STDERR) &&
            memmem(event.data, event.len, words, strlen(words)))
            return true;
    return false;
}

/* With the turn and a box: run the code and fill in what was observed. */
static void run_in_box(struct session *se, struct execution *e,
                       struct box *box, struct runner *runner,
                       struct observations *observed)
{
    struct collect c = {.box = box,
                        .e = e,
                        .runner = runner,
                        .observed = observed,
                        .output_cap = e->output_cap
                                          ? e->output_cap
                                          : pool_conf(se->pool)->output_bytes};

    box_touch(box);
    session_record_base(se, e);
    session_execution_started(e, box_cells(box) == 0);
    session_net_begin(se, e);
    session_sched_begin(se, &c);
    session_collect(&c);
    session_after_run(se, &c);
    session_sched_end(se, &c);
    observed->said_full = said(e, "No space left on device");
}

/* Leaves nothing half-dead inside, and no box that is of no use. */
static void repair_box(struct session *se, struct box *box,
                       const struct observations *f, const struct outcome *v)
{
    uint64_t born_ms;
    struct error err;

    if (v->kill_all &&
        box_broker_signal(box, INIT_SIGNAL_KILL_ALL, BOX_KILL_MS, &err) < 0)
        box_kill(box);
    if (v->interpreter_lost)
        box_kernel_lost(box);
    mutex_lock(&se->lock);
    born_ms = se->woken_ms;
    mutex_unlock(&se->lock);
    if (f->end == END_GONE || box_is_broken(box) ||
        clock_left_ms(born_ms + pool_conf(se->pool)->lifetime_s * 1000ull) ==
            0)
        (void)session_wake_drop(se, box, false);
}

static void observe_unmade(struct execution *e, struct observations *f,
                           const struct error *err)
{
    f->end = END_UNMADE;
    f->reason = err->message;
    /* Its workspace was deleted, or is no longer the actor's to see. */
    f->commit_denied =
        err->code == ERR_NOT_FOUND || err->code == ERR_FORBIDDEN;
    f->overloaded = err->code == ERR_BUSY || err->code == ERR_LIMIT ||
                    (err->code == ERR_UNAVAILABLE && err->retry_after_s > 0);
    f->quota = err->quota;
    f->quota_most = err->quota_most;
    f->quota_used = err->quota_used;
    if (atomic_load(&e->requests) & REQUEST_END) {
        f->cancelled = true;
        f->reason = "the session was deleted while it waited";
    }
}

/* Only the kernel can show a traceback; ours is for when it did not. */
static void derive_outcome(struct execution *e, const struct observations *f,
                           struct outcome *v)
{
    struct exec_event event;

    session_outcome_derive(f, v);
    for (uint32_t n = 0; v->error_name[0] && execution_event(e, n, &event);
         n++)
        if (event.type == EVENT_ERROR)
            v->error_name[0] = '\0';
}

/* Nothing runs that could not be told of later. An operator may do without.
 * Asked once it has the turn: the trail may have failed while it waited. */
static int begin(struct job *job, struct observations *observed,
                 struct error *err)
{
    struct actor who = session_execution_author(job->se, job->e);
    int rc = audit_begin(workspaces_audit(job->m->workspaces), &who,
                         job->e->info.id, job->se->id, &job->begun, err);

    if (rc == 0 || !job->m->conf->audit_required)
        return 0;
    observed->cancelled = true;
    return rc;
}

/* 0, or why no sandbox could be had: a reason the caller may retry on. */
static int run(struct job *job, struct error *err)
{
    struct session *se = job->se;
    struct execution *e = job->e;
    struct runner *runner = session_runner_get(job->m);
    struct observations observed = {.language = e->info.language,
                                    .limits = &se->limits};
    struct outcome outcome;
    struct box *box = NULL;
    int rc = 0;

    if (session_queue_wait(se, e, runner)) {
        if (!runner)
            rc = error_set(err, ERR_BUSY, "out of descriptors");
        else
            rc = begin(job, &observed, err);
        if (rc == 0)
            rc = session_wake_kernel(se, e->fresh, &box, err);
        if (box)
            run_in_box(se, e, box, runner, &observed);
        else
            observe_unmade(e, &observed, err);
        derive_outcome(e, &observed, &outcome);
        if (box)
            repair_box(se, box, &observed, &outcome);
        session_queue_release(se);
        job->code = take_ptr(e->code);
        session_execution_finish(e, &outcome);
    }
    box_unref(box);
    if (runner)
        session_runner_put(job->m, runner);
    return rc;
}

/* For the operator's log and, by ids alone, for the audit trail. */
static void record_end(const struct job *job)
{
    struct exec_info info;
    struct actor who = session_execution_author(job->se, job->e);
    struct audit_event event = {.action = "execution.run",
                                .workspace = job->se->workspace};

    execution_info(job->e, &info);
    if (info.status == EXEC_PENDING) { /* the approval is in the trail */
        session_account_execution(job->m, job->se, job->e, job->code,
                                  job->e->code_len);
        return;
    }
    log_event(info.outcome == OUTCOME_ISOLATION_FAILED ? LOG_ERROR : LOG_INFO,
              "execution", "execution", info.id, "session", info.session,
              "outcome", exec_outcome_name(info.outcome), "failure",
              info.failure, NULL);
    event.object = info.id;
    event.before = info.session;
    event.after = info.commit;
    event.result = exec_outcome_name(info.outcome);
    audit_end(workspaces_audit(job->m->workspaces), &who, &event, job->begun);
    session_watch_audit(job->m, job->se, &who, &info);
    session_account_execution(job->m, job->se, job->e, job->code,
                              job->e->code_len);
}

static void job_done(struct job *job)
{
    free(job->code);
    session_unref(job->se);
}

int session_execute(struct sessions *s, const struct actor *who,
                    const char *id, const struct exec_spec *spec,
                    struct execution **ret, struct error *err)
{
    struct job job = {0};
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = admit(s, who, id, spec, &job, err);
    if (job.e) {
        if (!job.settled)
            rc = run(&job, err);
        record_end(&job);
        job_done(&job);
        /* A full machine is worth trying again, anything else is an answer. */
        if (rc != -ERR_BUSY && rc != -ERR_UNAVAILABLE && rc != -ERR_LIMIT) {
            *ret = job.e;
            rc = 0;
        } else {
            session_metrics_refused(s, err);
            execution_unref(job.e);
        }
    }
    session_leave(s);
    return rc;
}

/* ---- on another thread -------------------------------------------------- */

static void job_free(struct job *job)
{
    struct sessions *m = job->m;

    execution_unref(job->e);
    job_done(job);
    free(job);
    session_leave(m);
}

static void on_job(void *arg)
{
    struct job *job = arg;
    struct error err;

    (void)run(job, &err); /* the execution says it */
    record_end(job);
    job_free(job);
}

static int withdraw(struct job *job, struct error *err)
{
    bool mine;

    mutex_lock(&job->se->lock);
    mine = session_queue_remove(job->se, job->e);
    mutex_unlock(&job->se->lock);
    if (mine) {
        session_execution_cancelled(job->e, "no thread was free to run it");
        execution_unref(job->e); /* the queue's */
    }
    (void)error_set(err, ERR_BUSY, "no thread is free to run it");
    session_metrics_refused(job->m, err);
    return error_retry(err, 1);
}

int session_submit(struct sessions *s, const struct actor *who, const char *id,
                   const struct exec_spec *spec, session_submit_fn *submit,
                   void *submit_ctx, struct execution **ret, struct error *err)
{
    struct execution *e;
    struct job *job;
    int rc = session_enter(s, err); /* left by the job */

    if (rc < 0)
        return rc;
    job = xcalloc(1, sizeof(*job));
    rc = admit(s, who, id, spec, job, err);
    if (rc < 0) {
        free(job);
        session_leave(s);
        return rc;
    }
    e = execution_ref(job->e);
    if (job->settled) {
        record_end(job);
        job_free(job);
    } else if (submit(submit_ctx, on_job, job) < 0) {
        rc = withdraw(job, err);
        execution_unref(e);
        job_free(job);
        return rc;
    }
    *ret = e;
    return 0;
}
