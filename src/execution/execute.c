/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine of an execution: admit (limits, quotas, policy), wait for the
 * turn, wake the sandbox, run, commit changes, derive the outcome, repair,
 * release, record. Runs in gloveboxd on the caller's thread, or on a thread of
 * the pool given to execution_submit.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "execution/execution_int.h"
#include "quota/quota.h"

struct job {
    struct executions *x;
    struct session *se;  /* referenced */
    struct execution *e; /* referenced */
    char *code;          /* what ran, for the record; owned */
    bool settled;        /* denied or held: there is nothing to run */
    uint32_t begun;      /* of audit_begin; 0: not */
};

/* ---- admit -------------------------------------------------------------- */

static int check_spec(const struct executions *x, const struct exec_spec *spec,
                      struct error *err)
{
    if (spec->code_len > x->conf->code_bytes)
        return error_set(err, ERR_TOO_LARGE, "code is over %llu bytes",
                         (unsigned long long)x->conf->code_bytes);
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
    bool shell = language_get(spec->language)->how == LANGUAGE_COMMAND &&
                 spec->action != POLICY_REPORT;
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

/* An image without the language's program cannot run it. An image that is not
 * known yet is found out about when the sandbox is made. */
static int check_offered(struct executions *x, const struct session *se,
                         const struct exec_spec *spec, struct error *err)
{
    const struct language *language = language_get(spec->language);
    struct runtime *runtime = session_facts(se).runtime;
    uint32_t offered = runtime_languages(x->conf, runtime);
    char *list cleanup(mem_free) = NULL;
    char *others cleanup(mem_free) = NULL;

    if (!offered || offered & LANGUAGE_BIT(spec->language))
        return 0;
    list = language_list(offered);
    (void)error_set(err, ERR_UNSUPPORTED,
                    "the runtime '%s' cannot run %s: it has no %s; it offers "
                    "%.120s",
                    runtime_name(runtime), language->title,
                    language->programs[0], list);
    others = runtime_with_language(x->conf, spec->language);
    if (others)
        return error_hint(err, "use a session with the runtime %s", others);
    return error_hint(err, "add the Debian package %s to a runtime",
                      language->package);
}

/* Adds the execution to the history before the queue, so that a session that
 * is deleted at the same time finds both. */
static int enqueue(struct job *job, struct error *err)
{
    struct execution *e = job->e;
    int rc;

    execution_history_add(job->x, job->se, e);
    e->counted = true;
    (void)execution_ref(e); /* the queue's */
    execution_running_add(job->x, e);
    rc = session_turn_add(job->se, &e->turn, err);
    if (rc < 0) {
        execution_running_remove(job->x, e);
        e->counted = false;
        execution_unref(e);
        execution_history_remove(job->x, e);
    } else {
        execution_publish(e, job->se);
    }
    return rc;
}

/* Policy denied the execution: it ends without having run, and is listed. */
static void settle_denied(struct job *job)
{
    struct outcome v;

    session_turn_count(job->se);
    execution_history_add(job->x, job->se, job->e);
    execution_admit_denied(job->e, &v);
    execution_finish(job->e, &v);
}

/* Queues the execution, denies it or holds it for approval, as policy says. */
static int queue_or_settle(struct job *job, const struct actor *who,
                           const struct exec_spec *spec, struct error *err)
{
    int rc = execution_admit(job->x, job->se, who, spec, job->e, err);

    if (rc < 0)
        return rc;
    job->settled = job->e->decision.verdict != POLICY_ALLOW;
    if (!job->settled) {
        rc = enqueue(job, err);
        if (rc < 0) /* it was no run */
            execution_admit_undo(job->x, job->se, job->e);
        return rc;
    }
    job->code = xstrndup(spec->code, spec->code_len);
    if (job->e->decision.verdict == POLICY_ASK)
        return execution_pending_request(job->x, job->se, who, spec, job->e,
                                         err);
    settle_denied(job);
    return 0;
}

/* ret: an execution and its session, both referenced. */
static int admit(struct executions *x, const struct actor *who, const char *id,
                 const struct exec_spec *spec, struct job *ret,
                 struct error *err)
{
    struct session *se = session_find(x->sessions, who, id, err);
    struct job job = {.x = x, .se = se};
    uint32_t timeout_s = 0;
    int rc;

    if (!se)
        return -(int)err->code;
    rc = session_gate(x->sessions, err);
    if (rc == 0)
        rc = check_spec(x, spec, err);
    if (rc == 0)
        rc = check_offered(x, se, spec, err);
    if (rc == 0)
        rc = choose_timeout(pool_conf(session_facts(se).pool), spec,
                            &timeout_s, err);
    if (rc == 0) {
        job.e = execution_new(x, se, who, spec, timeout_s);
        rc = queue_or_settle(&job, who, spec, err);
    }
    if (rc == 0) {
        *ret = job;
        return 0;
    }
    free(job.code);
    execution_unref(job.e);
    session_unref(se);
    session_metrics_refused(x->sessions, err);
    return rc;
}

/* ---- run ---------------------------------------------------------------- */

/* In the error of a cell, or in what a command wrote to stderr. */
static bool output_says(struct execution *e, const char *words)
{
    struct exec_event event;

    for (uint32_t n = 0; execution_event(e, n, &event); n++)
        if ((event.type == EVENT_ERROR || event.type == EVENT_STDERR) &&
            memmem(event.data, event.len, words, strlen(words)))
            return true;
    return false;
}

/* With the turn and a box: run the code and fill in what was observed. */
static void run_in_box(struct executions *x, struct session *se,
                       struct execution *e, struct box *box,
                       struct runner *runner, struct observations *observed)
{
    struct collect c = {
        .box = box,
        .e = e,
        .runner = runner,
        .observed = observed,
        .output_cap = e->output_cap
                          ? e->output_cap
                          : pool_conf(session_facts(se).pool)->output_bytes};
    const struct language *language = language_get(e->info.language);
    char notice[SESSION_NOTICE] = "";
    enum session_interpreter how;

    session_points_begin(se, box);
    box_touch(box);
    execution_record_base(se, e);
    e->base_cpu_ns = box_usage_base(box)->cpu_ns;
    if (language->how == LANGUAGE_HELPER) {
        bool fresh = box_helper_cells(box, language->helper) == 0;
        const char *gone = session_wake_helper_notice(
            se, language->helper, fresh, fresh && execution_stored_ran(x, e),
            e->fresh);

        how = fresh ? SESSION_INTERPRETER_FRESH : SESSION_INTERPRETER_SAME;
        (void)snprintf(notice, sizeof(notice), "%s", gone ? gone : "");
    } else {
        how = session_wake_notice(se, box_cells(box) == 0,
                                  language->how == LANGUAGE_KERNEL, e->fresh,
                                  notice);
    }
    execution_started(e, how, notice);
    network_begin(
        session_facts(se).network,
        &(struct network_watcher){.on_connection = execution_watch_add,
                                  .on_checks = execution_watch_checks,
                                  .ctx = e});
    session_sched_begin(&c.sched, se, box);
    execution_collect(&c);
    execution_results(se, &c);
    session_points_end(se, e->info.id, language->how == LANGUAGE_KERNEL,
                       language->how == LANGUAGE_HELPER);
    session_sched_end(&c.sched, observed->end == END_KERNEL, observed->cpu_ms);
    observed->said_full = output_says(e, "No space left on device");
}

/* Ends leftover processes, and drops a box that cannot be used again. */
static void repair_box(struct session *se, struct box *box,
                       const struct observations *f, const struct outcome *v)
{
    const struct language *language = language_get(f->language);
    struct error err;

    if (v->kill_all) {
        if (box_broker_signal(box, INIT_SIGNAL_KILL_ALL, BOX_KILL_MS, &err) <
            0)
            box_kill(box);
        box_helpers_lost(box);
    }
    /* One that lives on but broke its channel is killed by the next start. */
    if (v->interpreter_lost && language->how == LANGUAGE_HELPER)
        box_helper_lost(box, language->helper);
    if (v->kernel_lost)
        box_kernel_lost(box);
    if (f->end == END_GONE || box_is_broken(box) || session_wake_is_old(se))
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
    if (atomic_load(&e->turn.requests) & REQUEST_END) {
        f->cancelled = true;
        f->reason = "the session was deleted while it waited";
    }
}

/* Adds our own error name only if the kernel reported no traceback. */
static void derive_outcome(struct execution *e, const struct observations *f,
                           struct outcome *v)
{
    struct exec_event event;

    execution_outcome_derive(f, v);
    for (uint32_t n = 0; v->error_name[0] && execution_event(e, n, &event);
         n++)
        if (event.type == EVENT_ERROR)
            v->error_name[0] = '\0';
}

/* Records the start in the audit trail; without it nothing runs, unless the
 * operator has set audit_required to false. Called after the wait for the
 * turn, because the trail may have failed meanwhile. */
static int audit_start(struct job *job, struct observations *observed,
                       struct error *err)
{
    struct actor who = execution_author(job->e);
    int rc = audit_begin(job->x->core->audit, &who, job->e->info.id,
                         job->e->info.session, &job->begun, err);

    if (rc == 0 || !job->x->conf->audit_required)
        return 0;
    observed->cancelled = true;
    return rc;
}

/* Whatever the code did: its files are not kept, and another node may have the
 * session by now (N1, N3). */
static void say_lost(struct outcome *v)
{
    v->outcome = OUTCOME_LOST;
    v->interpreter_lost = true;
    (void)snprintf(v->failure, sizeof(v->failure),
                   "lost: this node could not renew its lease and stopped the "
                   "session; it wakes on another node");
}

/* 0, or the reason why no sandbox was available; the caller may retry. */
static int run_job(struct job *job, struct error *err)
{
    struct session *se = job->se;
    struct execution *e = job->e;
    struct runner *runner = execution_runner_get(job->x);
    struct observations observed = {.language = e->info.language,
                                    .limits = session_facts(se).limits};
    struct outcome outcome;
    struct box *box = NULL;
    int rc = 0;

    e->turn.wake = runner ? runner->wake : -1;
    if (session_turn_wait(se, &e->turn)) {
        execution_unref(e); /* the queue's */
        if (!runner)
            rc = error_set(err, ERR_BUSY, "out of descriptors");
        else
            rc = audit_start(job, &observed, err);
        if (rc == 0)
            rc = session_wake_kernel(se, e->fresh, &box, err);
        if (box)
            run_in_box(job->x, se, e, box, runner, &observed);
        else
            observe_unmade(e, &observed, err);
        derive_outcome(e, &observed, &outcome);
        if (session_is_lost(se))
            say_lost(&outcome);
        if (box)
            repair_box(se, box, &observed, &outcome);
        network_end(
            session_facts(se)
                .network); /* reports that come now are the next one's */
        session_turn_release(se);
        job->code = xstrndup(e->code, e->code_len);
        execution_finish(e, &outcome);
        session_points_due(se);
    } else {
        execution_wait(e);
    }
    box_unref(box);
    if (runner)
        execution_runner_put(job->x, runner, e->turn.signalled);
    return rc;
}

/* For the operator's log and, by ids alone, for the audit trail. */
static void record_end(const struct job *job)
{
    struct exec_info info;
    struct actor who = execution_author(job->e);
    struct audit_event event = {.action = "execution.run",
                                .workspace = session_facts(job->se).workspace};

    execution_info(job->e, &info);
    if (info.status == EXEC_PENDING) { /* the approval is in the trail */
        execution_account(job->x, job->se, job->e, job->code,
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
    audit_end(job->x->core->audit, &who, &event, job->begun);
    execution_stored_add(job->x, job->se, job->e);
    execution_watch_audit(job->x, event.workspace, &who, &info);
    execution_account(job->x, job->se, job->e, job->code, job->e->code_len);
}

static void job_done(struct job *job)
{
    free(job->code);
    session_unref(job->se);
}

int execution_run(struct sessions *s, const struct actor *who, const char *id,
                  const struct exec_spec *spec, struct execution **ret,
                  struct error *err)
{
    struct executions *x = sessions_hooks_ctx(s);
    struct job job = {0};
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = admit(x, who, id, spec, &job, err);
    if (job.e) {
        if (!job.settled)
            rc = run_job(&job, err);
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
    struct sessions *s = job->x->sessions;

    execution_unref(job->e);
    job_done(job);
    free(job);
    session_leave(s);
}

static void on_job(void *arg)
{
    struct job *job = arg;
    struct error err;

    (void)run_job(job, &err); /* the execution says it */
    record_end(job);
    job_free(job);
}

static int withdraw(struct job *job, struct error *err)
{
    if (session_turn_remove(job->se, &job->e->turn)) {
        execution_finish_cancelled(job->e, "no thread was free to run it");
        execution_unref(job->e); /* the queue's */
    }
    (void)error_set(err, ERR_BUSY, "no thread is free to run it");
    session_metrics_refused(job->x->sessions, err);
    return error_retry(err, 1);
}

int execution_submit(struct sessions *s, const struct actor *who,
                     const char *id, const struct exec_spec *spec,
                     execution_submit_fn *submit, void *submit_ctx,
                     struct execution **ret, struct error *err)
{
    struct execution *e;
    struct job *job;
    int rc = session_enter(s, err); /* left by the job */

    if (rc < 0)
        return rc;
    job = xcalloc(1, sizeof(*job));
    rc = admit(sessions_hooks_ctx(s), who, id, spec, job, err);
    if (rc < 0) {
        free(job);
        session_leave(s);
        return rc;
    }
    e = execution_ref(job->e);
    /* The client learns its id now, and may ask for it at any node. */
    if (!job->settled && execution_note(job->x, e, err) < 0) {
        (void)withdraw(job, &(struct error){0});
        execution_unref(e);
        job_free(job);
        return -(int)err->code;
    }
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
