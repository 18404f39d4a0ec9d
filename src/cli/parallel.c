/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several requests at once, on one thread. The caller decides what is sent
 * next and what happens when a request ends. The first failure that the
 * caller does not handle ends all of them.
 */
#include <curl/curl.h>
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/transfer.h"

#define PARALLEL_MAX 16u
#define POLL_MS 100

struct member {
    struct cli_transfer *t;
    struct cli_running *r; /* NULL: free */
};

struct requests {
    struct cli *c;
    const struct cli_parallel *parallel;
    CURLM *multi;
    struct member members[PARALLEL_MAX];
    size_t count;
};

static void remove_request(struct requests *g, struct member *m)
{
    (void)curl_multi_remove_handle(g->multi, cli_transfer_easy(m->r));
    cli_transfer_free(m->r);
    *m = (struct member){0};
    g->count--;
}

static void requests_done(struct requests *g)
{
    for (size_t i = 0; i < PARALLEL_MAX; i++)
        if (g->members[i].r)
            remove_request(g, &g->members[i]);
    (void)curl_multi_cleanup(g->multi);
}

static int add_request(struct requests *g, struct cli_transfer *t,
                       struct error *err)
{
    struct member *m = g->members;
    int rc;

    while (m->r)
        m++;
    rc = cli_transfer_begin(g->c, t, &m->r, err);
    if (rc < 0)
        return rc;
    m->t = t;
    g->count++;
    (void)curl_multi_add_handle(g->multi, cli_transfer_easy(m->r));
    return 0;
}

/* 1: there may be more to do; 0: all have ended. */
static int add_requests(struct requests *g, struct error *err)
{
    while (g->count < PARALLEL_MAX) {
        struct cli_transfer *t = NULL;
        int rc;

        switch (g->parallel->next(g->parallel->ctx, &t, err)) {
        case CLI_PARALLEL_READY:
            rc = add_request(g, t, err);
            if (rc < 0)
                return rc;
            break;
        case CLI_PARALLEL_LATER:
            return 1;
        case CLI_PARALLEL_NONE:
            return 0;
        case CLI_PARALLEL_FAILED:
            return -(int)err->code;
        }
    }
    return 1;
}

static int end_request(struct requests *g, const struct CURLMsg *msg,
                       struct error *err)
{
    struct member *m = g->members;
    struct cli_transfer *t;
    int rc;

    while (!m->r || cli_transfer_easy(m->r) != msg->easy_handle)
        m++;
    t = m->t;
    rc = cli_transfer_end(m->r, (int)msg->data.result, err);
    remove_request(g, m);
    return g->parallel->ended(g->parallel->ctx, t, rc, err);
}

static int run_requests(struct requests *g, struct error *err)
{
    struct curl_waitfd extra = {.fd = g->c->signal_fd,
                                .events = CURL_WAIT_POLLIN};
    struct CURLMsg *msg;
    int running, left, rc = 0;

    if (curl_multi_perform(g->multi, &running) != CURLM_OK)
        return error_set(err, ERR_INTERNAL, "sending failed");
    while (rc == 0 && (msg = curl_multi_info_read(g->multi, &left)))
        if (msg->msg == CURLMSG_DONE)
            rc = end_request(g, msg, err);
    if (rc < 0 || running < (int)g->count)
        return rc;
    (void)curl_multi_poll(g->multi, &extra, g->c->signal_fd >= 0 ? 1 : 0,
                          POLL_MS, NULL);
    if (cli_transfer_signal(g->c) == 0)
        return 0;
    g->c->interrupted = true;
    (void)error_set(err, ERR_UNAVAILABLE, "interrupted");
    err->errnum = EINTR;
    return -(int)err->code;
}

int cli_parallel_run(struct cli *c, const struct cli_parallel *parallel,
                     struct error *err)
{
    struct requests g cleanup(requests_done) = {
        .c = c, .parallel = parallel, .multi = curl_multi_init()};
    int rc;

    if (!g.multi)
        abort(); /* as every small allocation does */
    while ((rc = add_requests(&g, err)) > 0) {
        rc = run_requests(&g, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}
