/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several requests at once, on one thread: what is to be sent next and what
 * becomes of each is the caller's to say. The first failure that the caller
 * does not take ends all of them.
 */
#include <curl/curl.h>
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/transfer.h"

#define MOST 16u
#define POLL_MS 100

struct member {
    struct cli_transfer *t;
    struct cli_running *r; /* NULL: free */
};

struct group {
    struct cli *c;
    const struct cli_crowd *crowd;
    CURLM *multi;
    struct member members[MOST];
    size_t count;
};

static void leave(struct group *g, struct member *m)
{
    (void)curl_multi_remove_handle(g->multi, cli_transfer_easy(m->r));
    cli_transfer_free(m->r);
    *m = (struct member){0};
    g->count--;
}

static void group_done(struct group *g)
{
    for (size_t i = 0; i < MOST; i++)
        if (g->members[i].r)
            leave(g, &g->members[i]);
    (void)curl_multi_cleanup(g->multi);
}

static int join(struct group *g, struct cli_transfer *t, struct error *err)
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
static int fill(struct group *g, struct error *err)
{
    while (g->count < MOST) {
        struct cli_transfer *t = NULL;
        int rc;

        switch (g->crowd->next(g->crowd->ctx, &t, err)) {
        case CLI_CROWD_ONE:
            rc = join(g, t, err);
            if (rc < 0)
                return rc;
            break;
        case CLI_CROWD_LATER:
            return 1;
        case CLI_CROWD_NONE:
            return 0;
        case CLI_CROWD_FAILED:
            return -(int)err->code;
        }
    }
    return 1;
}

static int settle(struct group *g, const struct CURLMsg *msg,
                  struct error *err)
{
    struct member *m = g->members;
    struct cli_transfer *t;
    int rc;

    while (!m->r || cli_transfer_easy(m->r) != msg->easy_handle)
        m++;
    t = m->t;
    rc = cli_transfer_end(m->r, (int)msg->data.result, err);
    leave(g, m);
    return g->crowd->ended(g->crowd->ctx, t, rc, err);
}

static int step(struct group *g, struct error *err)
{
    struct curl_waitfd extra = {.fd = g->c->signal_fd,
                                .events = CURL_WAIT_POLLIN};
    struct CURLMsg *msg;
    int running, left, rc = 0;

    if (curl_multi_perform(g->multi, &running) != CURLM_OK)
        return error_set(err, ERR_INTERNAL, "sending failed");
    while (rc == 0 && (msg = curl_multi_info_read(g->multi, &left)))
        if (msg->msg == CURLMSG_DONE)
            rc = settle(g, msg, err);
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

int cli_crowd_run(struct cli *c, const struct cli_crowd *crowd,
                  struct error *err)
{
    struct group g cleanup(group_done) = {
        .c = c, .crowd = crowd, .multi = curl_multi_init()};
    int rc;

    if (!g.multi)
        abort(); /* as any small allocation of ours */
    while ((rc = fill(&g, err)) > 0) {
        rc = step(&g, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}
