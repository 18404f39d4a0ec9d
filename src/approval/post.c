/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends webhooks, one after the other. Runs in gloveboxd on a thread of its
 * own, so that a receiver that hangs delays nothing else. Only the status of
 * the answer counts.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval_int.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "fetch/fetch.h"

#define CONNECT_MS 5000u
#define WHOLE_MS 10000u

/* The status, or 0; ret_why tells what came of it. */
static long post(struct approvals *a, const struct webhook_job *job,
                 char ret_why[WEBHOOK_WHY_MAX])
{
    char signature[96], signed_by[128], delivery[128];
    const char *const headers[] = {"Content-Type: application/json", signed_by,
                                   delivery, NULL};
    const struct fetch_request rq = {.url = a->url,
                                     .headers = headers,
                                     .body = job->body,
                                     .body_len = strlen(job->body),
                                     .connect_ms = CONNECT_MS,
                                     .total_ms = WHOLE_MS,
                                     .cancel = &a->poster.stopping};
    struct error err;
    long status = 0;

    approval_webhook_sign(a->secret, a->secret_len, approval_now(a) / 1000,
                          job->body, signature);
    (void)snprintf(signed_by, sizeof(signed_by), "Glovebox-Signature: %s",
                   signature);
    /* The same for every attempt, so that a receiver can drop repeats. */
    (void)snprintf(delivery, sizeof(delivery), "Glovebox-Delivery: %s-%lld",
                   job->approval, (long long)job->number);
    if (fetch(&rq, NULL, &status, &err) < 0)
        (void)snprintf(ret_why, WEBHOOK_WHY_MAX, "%s", err.message);
    else
        (void)snprintf(ret_why, WEBHOOK_WHY_MAX, "status %ld", status);
    return status;
}

/* Milliseconds until there is something to do again. */
static int64_t round_of(struct approvals *a)
{
    struct webhook_job job = {.body = NULL};
    char why[WEBHOOK_WHY_MAX];
    struct error err;
    int64_t wait_ms;
    long status;
    int rc = approval_webhook_next(a, &job, &wait_ms, &err);

    if (rc > 0) {
        status = post(a, &job, why);
        /* Cut short by our own end: it was no attempt. */
        rc = status == 0 && a->poster.stopping
                 ? 0
                 : approval_webhook_note(a, &job, status, why, &err);
        if (rc == 0 && (status < 200 || status > 299))
            log_event(LOG_WARN, "webhook_not_delivered", "approval",
                      job.approval, "type", job.type, "error", why, NULL);
        free(job.body);
        wait_ms = 0;
    }
    if (rc < 0) {
        log_event(LOG_WARN, "webhooks_not_read", "error", err.message, NULL);
        wait_ms = WEBHOOK_PAUSE_FIRST_MS;
    }
    return wait_ms;
}

static void approval_poster_main(void *arg)
{
    struct approvals *a = arg;

    while (worker_wait(&a->poster, round_of(a)))
        ;
    fetch_stop();
}

int approval_post_start(struct approvals *a, struct error *err)
{
    int r = fetch_start(err);

    return r < 0 ? r
                 : worker_start(&a->poster, "webhooks", approval_poster_main,
                                a, err);
}
