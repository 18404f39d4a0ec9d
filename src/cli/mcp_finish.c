/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an exchange ends, and what is tried before it ends badly: a service
 * that has gone away is looked for again, a session it has forgotten is
 * opened anew, a stream that broke is taken up where it was left. Each of
 * them a bounded number of times, and a call never twice: nobody knows how
 * far the first one came.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/mcp.h"

#define FIND_AGAIN_MS 5000u /* after it was not found */
#define RESUME_MS 300u
#define RESUMES_MAX 20u

bool cli_mcp_finish_find(struct mcp_bridge *b)
{
    struct error err = {0};

    if (b->trouble.code != ERR_NONE &&
        clock_mono_ms() < b->trouble_ms + FIND_AGAIN_MS)
        return false;
    if (cli_connect(b->c, CLI_NEED_DATA, NULL, NULL, &err) == 0) {
        b->trouble = (struct error){0};
        return true;
    }
    b->trouble = err;
    b->trouble_ms = clock_mono_ms();
    if (err.errnum == EINTR)
        b->ended = true; /* a signal, or the host hung up */
    else
        (void)cli_fail(b->c, &err);
    return false;
}

/* No status at all: the service may have been replaced, and its address with
 * it. */
static bool find_again(struct mcp_exchange *x, CURLcode result)
{
    bool unsent = result == CURLE_COULDNT_CONNECT;

    if (x->moved || x->muted || x->heard ||
        (!unsent && !cli_mcp_message_repeatable(&x->m)))
        return false;
    x->moved = true;
    if (!cli_mcp_finish_find(x->b)) {
        cli_mcp_answer_fail(x, x->b->trouble.message);
        return false;
    }
    cli_mcp_exchange_wait(x, 0);
    return true;
}

static void fail_unreached(struct mcp_exchange *x, CURLcode result)
{
    char *sentence cleanup(mem_free) = NULL;
    struct error err;

    if (cli_transfer_explain(x->b->c, result, "", &err))
        sentence = xasprintf("%s. %s", err.message, err.hint);
    else if (result == CURLE_COULDNT_CONNECT)
        sentence =
            xasprintf("the service at %s cannot be reached", x->b->c->base);
    else
        sentence = xasprintf("the service went away before it answered (%s)",
                             curl_easy_strerror(result));
    cli_mcp_answer_fail(x, sentence);
}

/* A stream of the legacy era can be taken up again: the work goes on. */
static bool take_up_again(struct mcp_exchange *x)
{
    if (x->m.modern || !x->stream || !x->sse.id.len || x->muted ||
        x->session != x->b->session.number || x->resumed >= RESUMES_MAX)
        return false;
    x->resume = true;
    x->resumed++;
    cli_mcp_exchange_wait(x, RESUME_MS);
    return true;
}

/* True: it goes on. */
static bool good(struct mcp_exchange *x)
{
    bool wanted = x->m.kind != MCP_NOTIFICATION && x->m.kind != MCP_RESPONSE;

    cli_mcp_answer_complete(x);
    if (!x->m.modern)
        cli_mcp_session_alive(x->b);
    if (!wanted || x->answered)
        return false;
    if (x->too_large)
        cli_mcp_answer_fail(x,
                            "the answer is larger than this bridge passes on");
    else if (take_up_again(x))
        return true;
    else
        cli_mcp_answer_fail(x, "the service ended the answer before it was "
                               "complete");
    return false;
}

static bool finish(struct mcp_exchange *x, long status, CURLcode result)
{
    if (status == 0 && find_again(x, result))
        return true;
    if (status == 404 && cli_mcp_session_again(x))
        return true;
    if (status == 0)
        fail_unreached(x, result);
    else if (status / 100 == 2)
        return good(x);
    else if (x->resume)
        cli_mcp_answer_fail(x, "the connection to the service broke, and the "
                               "answer was lost with it");
    else
        cli_mcp_answer_refused(x, status);
    return false;
}

static void finished(struct mcp_exchange *x, CURLcode result)
{
    long status = 0;

    (void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (x->role == MCP_LISTEN)
        cli_mcp_session_unheard(x, status);
    else if (finish(x, status, result))
        return;
    if (x->role == MCP_HANDSHAKE)
        cli_mcp_session_shaken(x);
    if (x->role == MCP_READY)
        cli_mcp_session_ready(x, status / 100 == 2);
    cli_mcp_exchange_end(x);
}

void cli_mcp_finish_reap(struct mcp_bridge *b)
{
    struct CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(b->multi, &left))) {
        CURLcode result = msg->data.result;
        char *x = NULL;

        if (msg->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &x);
        finished((void *)x, result);
    }
}
