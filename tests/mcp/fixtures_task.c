/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures that are tasks. See fixtures.h. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixtures.h"

static const char *text_of(const json_t *args, const char *name)
{
    const char *text = json_string_value(json_object_get(args, name));

    return text ? text : "";
}

/* False: cancelled meanwhile. */
static bool take(struct mcp_call *call, double seconds)
{
    uint64_t until = clock_mono_ms() + (uint64_t)(seconds * 1000);

    while (clock_mono_ms() < until) {
        if (call->cancelled(call))
            return false;
        (void)usleep(20000);
    }
    return true;
}

int fixture_greet(struct mcp_call *call, const json_t *args,
                  struct mcp_answer *ret, struct error *err)
{
    (void)call;
    (void)err;
    mcp_answer_textf(ret, "Hello, %s!", text_of(args, "name"));
    return 0;
}

int fixture_slow(struct mcp_call *call, const json_t *args,
                 struct mcp_answer *ret, struct error *err)
{
    double seconds = json_number_value(json_object_get(args, "seconds"));

    (void)err;
    if (seconds > 0)
        (void)mcp_task_now(call);
    if (take(call, seconds))
        mcp_answer_textf(ret, "%s: done", text_of(args, "label"));
    else
        mcp_answer_refuse(ret, "cancelled", "it was cancelled");
    return 0;
}

int fixture_failing(struct mcp_call *call, const json_t *args,
                    struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)err;
    (void)mcp_task_now(call);
    (void)take(call, 1);
    mcp_answer_refuse(ret, "failed", "this job always fails");
    return 0;
}

int fixture_broken(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    (void)args;
    (void)ret;
    (void)mcp_task_now(call);
    (void)take(call, 0.2);
    (void)error_set(err, ERR_INTERNAL, "broken");
    return mcp_fail(call, RPC_INTERNAL, "the job crashed");
}

#define YES                                                                   \
    "{\"type\":\"object\",\"properties\":{\"confirm\":{\"type\":"             \
    "\"boolean\"}},\"required\":[\"confirm\"]}"
#define NAME                                                                  \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},"   \
    "\"required\":[\"name\"]}"

int fixture_confirm(struct mcp_call *call, const json_t *args,
                    struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)mcp_task_now(call);
    mcp_ask(call, "confirm", "elicitation/create",
            fixture_form("Delete the file?", YES));
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "Deleted %s", text_of(args, "filename"));
    return r;
}

int fixture_multi(struct mcp_call *call, const json_t *args,
                  struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    (void)mcp_task_now(call);
    mcp_ask(call, "first", "elicitation/create", fixture_form("First?", NAME));
    mcp_ask(call, "second", "elicitation/create",
            fixture_form("Second?", NAME));
    r = mcp_ask_wait(call, err);
    if (r == 0)
        mcp_answer_textf(ret, "Both answered");
    return r;
}

int fixture_with_task(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    int r;

    (void)args;
    mcp_ask(call, "user_name", "elicitation/create",
            fixture_form("What is your name?", NAME));
    r = mcp_ask_wait(call, err);
    if (r != 0)
        return r;
    (void)mcp_task_now(call);
    (void)take(call, 0.3);
    mcp_answer_textf(
        ret, "Done for %s",
        text_of(json_object_get(mcp_asked(call, "user_name"), "content"),
                "name"));
    return 0;
}
