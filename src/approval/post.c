/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends webhooks, one after the other. Runs in gloveboxd on a thread of its
 * own, so that a receiver that hangs holds up nothing else. Redirects are not
 * followed and what is answered is not looked at, but for its status.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "approval/approval_int.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#define CONNECT_MS 5000L
#define WHOLE_MS 10000L

static size_t on_bytes(char *bytes, size_t size, size_t n, void *ctx)
{
    (void)bytes;
    (void)ctx;
    return size * n;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                       curl_off_t d)
{
    struct approvals *approvals = ctx;

    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return approvals->poster.stopping; /* ends the transfer */
}

static struct curl_slist *headers_of(struct approvals *a,
                                     const struct webhook_job *job)
{
    static const char *const fixed[] = {"Content-Type: application/json",
                                        "Expect:"};
    struct curl_slist *list = NULL;
    char signature[96], line[160];

    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        list = curl_slist_append(list, fixed[i]);
    approval_webhook_sign(a->secret, a->secret_len, approval_now(a) / 1000,
                          job->body, signature);
    (void)snprintf(line, sizeof(line), "Glovebox-Signature: %s", signature);
    list = curl_slist_append(list, line);
    /* The same for every attempt, for receivers that want each but once. */
    (void)snprintf(line, sizeof(line), "Glovebox-Delivery: %s-%lld",
                   job->approval, (long long)job->number);
    return curl_slist_append(list, line);
}

static void set_options(struct approvals *a, CURL *easy,
                        const struct webhook_job *job,
                        struct curl_slist *headers, char *why)
{
    bool plain = strncmp(a->url, "http:", 5) == 0;

    (void)curl_easy_setopt(easy, CURLOPT_URL, a->url);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
                           plain ? "http" : "https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, WHOLE_MS);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT,
                           "glovebox/" GLOVEBOX_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, job->body);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE,
                           (long)strlen(job->body));
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, a);
    if (plain) /* our own machine */
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

/* The status, or 0 and why there is none. */
static long post(struct approvals *a, const struct webhook_job *job,
                 char ret_why[CURL_ERROR_SIZE])
{
    struct curl_slist *headers = headers_of(a, job);
    CURL *easy = curl_easy_init();
    CURLcode code = CURLE_FAILED_INIT;
    long status = 0;

    ret_why[0] = '\0';
    if (easy) {
        set_options(a, easy, job, headers, ret_why);
        code = curl_easy_perform(easy);
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(easy);
    }
    curl_slist_free_all(headers);
    if (code == CURLE_OK) {
        (void)snprintf(ret_why, CURL_ERROR_SIZE, "status %ld", status);
        return status;
    }
    if (!ret_why[0])
        (void)snprintf(ret_why, CURL_ERROR_SIZE, "%s",
                       curl_easy_strerror(code));
    return 0;
}

/* Milliseconds until there is something to do again. */
static int64_t round_of(struct approvals *a)
{
    struct webhook_job job = {.body = NULL};
    char why[CURL_ERROR_SIZE];
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
    curl_global_cleanup();
}

int approval_post_start(struct approvals *a, struct error *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(err, ERR_INTERNAL, "libcurl does not start");
    return worker_start(&a->poster, "webhooks", approval_poster_main, a, err);
}
