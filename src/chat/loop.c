/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a response: the model is called with the context; the code it
 * asks for runs, and it is called again with what came of it, until it answers
 * or calls a function of the client. Everything is bounded: calls of tools,
 * rounds, seconds, tokens, and code that fails again and again (L3). Runs in
 * gloveboxd on a thread of the module.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "conf/conf.h"
#include "core/core.h"
#include "json/json.h"

#define SAME_FAILURES 3u               /* of the same code, in a row */
#define LOG_BYTES ((uint64_t)96 << 20) /* events of one response */

struct loop {
    struct chat_response *r;
    json_t *input; /* for the model; grows with each round */
    char *instructions;
    json_t *tools;
    uint64_t fixed; /* tokens of the two above */
    unsigned rounds, calls;
    bool no_tools;    /* the model has to answer now */
    bool handed_over; /* a function of the client was called */
    bool asked_again; /* after an empty answer */
    unsigned same;    /* failures of the same code */
    unsigned char failed[HASH_SIZE];
    const char *stopped; /* why there are no more tools, or NULL */
};

/* ---- ends --------------------------------------------------------------- */

static void set_status(struct chat_response *r, enum chat_status status)
{
    mutex_lock(&r->lock);
    r->status = status;
    if (status != CHAT_QUEUED && status != CHAT_IN_PROGRESS)
        r->completed_ms = clock_real_ms();
    mutex_unlock(&r->lock);
}

/* The service's own faults are not told to clients (H5). The log has them, and
 * of others the kind alone: they may repeat what the server of the model said,
 * which may quote the prompt (O2). */
static void set_failure(struct chat_response *r, const struct error *err)
{
    bool ours = err->code == ERR_INTERNAL || err->code == ERR_CORRUPT;

    mutex_lock(&r->lock);
    r->failure = *err;
    if (ours)
        (void)snprintf(r->failure.message, sizeof(r->failure.message),
                       "Something failed on our side; the log has it under "
                       "the response id %s.",
                       r->id);
    mutex_unlock(&r->lock);
    log_event(LOG_WARN, "response_failed", "response", r->id, "code",
              error_code_name(err->code), "error", ours ? err->message : NULL,
              NULL);
}

static void send_error(struct chat_response *r)
{
    json_t *error = chat_object_error(&r->failure);

    chat_event_add(r, "error", chat_pack("{s:o}", "error", error), NULL);
}

/* The last event says what is stored. */
static void finish(struct chat_response *r, enum chat_status status)
{
    struct error err;

    set_status(r, status);
    if (status == CHAT_FAILED)
        send_error(r);
    if (chat_row_finish(r, &err) < 0) {
        log_event(LOG_ERROR, "response_not_stored", "response", r->id, "error",
                  err.message, NULL);
        if (status != CHAT_FAILED) {
            set_failure(r, &err);
            set_status(r, CHAT_FAILED);
            send_error(r);
        }
        if (chat_row_fail(r, &err) < 0)
            log_event(LOG_ERROR, "response_end_not_stored", "response", r->id,
                      "error", err.message, NULL);
    }
    if (r->locked)
        chat_conversation_unlock(r->chat, r->conversation);
    r->locked = false;
    chat_object_event(r, r->status == CHAT_COMPLETED    ? "response.completed"
                         : r->status == CHAT_INCOMPLETE ? "response.incomplete"
                                                        : "response.failed");
    chat_event_end(r);
    chat_retire(r);
}

static void fail(struct chat_response *r, const struct error *err)
{
    set_failure(r, err);
    finish(r, CHAT_FAILED);
}

static void stop_incomplete(struct chat_response *r, const char *reason)
{
    r->incomplete = reason;
    finish(r, CHAT_INCOMPLETE);
}

/* It was asked to stop: by cancel, by a client that left, or because the
 * service stops. */
static void stop_cancelled(struct chat_response *r)
{
    struct error err;

    if (chat_stopped(r->chat)) {
        (void)error_set(&err, ERR_UNAVAILABLE,
                        "The service was stopped while this response was "
                        "running.");
        fail(r, &err);
    } else {
        finish(r, CHAT_CANCELLED);
    }
}

/* ---- one call of the model ---------------------------------------------- */

static json_t *make_options(const struct loop *l, int64_t left)
{
    json_t *options = l->r->options ? json_copy(l->r->options) : json_object();

    if (left > 0)
        (void)json_object_set_new(options, "max_output_tokens",
                                  json_integer(left));
    return options;
}

void chat_add_usage(struct chat_response *r, const struct model_usage *u)
{
    mutex_lock(&r->lock);
    r->usage.input += u->input;
    r->usage.cached += u->cached;
    r->usage.cache_write += u->cache_write;
    r->usage.output += u->output;
    r->usage.reasoning += u->reasoning;
    r->usage.microcents += u->microcents;
    mutex_unlock(&r->lock);
}

/* Tokens that the response may still have; -1: any number. */
static int64_t tokens_left(const struct chat_response *r)
{
    if (!r->max_output_tokens)
        return -1;
    return MAX(r->max_output_tokens - (int64_t)r->usage.output, 0);
}

static int call_model(struct loop *l, struct chat_writer *w,
                      struct model_result *ret, struct error *err)
{
    struct chat_response *r = l->r;
    uint64_t now = clock_mono_ms(), deadline = chat_deadline_ms(r);
    bool offered = !l->no_tools && json_array_size(l->tools) > 0;
    json_t *options cleanup(json_unref) = make_options(l, tokens_left(r));
    json_t *choice cleanup(json_unref) =
        chat_view_choice(r, l->rounds == 0, offered);
    struct model_request rq = {
        .model = r->model,
        .instructions = l->instructions,
        .input = l->input,
        /* Calls of earlier rounds need their tools described. */
        .tools = json_array_size(l->tools) ? l->tools : NULL,
        .tool_choice = json_array_size(l->tools) ? choice : NULL,
        .options = options,
        .total_ms = (uint32_t)(deadline > now ? deadline - now : 1),
        .cancel = &r->cancel,
    };
    int rc;

    chat_compact_outputs(r, l->input, l->fixed);
    rc = model_call(r->chat->parts.models, &r->owner.who, &rq,
                    chat_writer_event, w, ret, err);
    chat_add_usage(r, &ret->usage);
    if (rc < 0 && chat_writer_error(w)) {
        *err = *chat_writer_error(w);
        rc = -(int)err->code;
    }
    return rc;
}

/* ---- results for the model ---------------------------------------------- */

static void add_output(struct loop *l, const char *call_id, const char *text,
                       const json_t *images)
{
    json_t *output, *uri;
    size_t i;

    if (l->r->images && json_array_size(images) > 0) {
        output = chat_pack("[{s:s, s:o}]", "type", "input_text", "text",
                           chat_text(text, strlen(text)));
        json_array_foreach ((json_t *)images, i, uri)
            (void)json_array_append_new(output, chat_pack("{s:s, s:O}", "type",
                                                          "input_image",
                                                          "image_url", uri));
    } else {
        output = chat_text(text, strlen(text));
    }
    (void)json_array_append_new(
        l->input, chat_pack("{s:s, s:s, s:o}", "type", "function_call_output",
                            "call_id", call_id, "output", output));
}

/* Is this the same code again, and does it fail again? */
static void count_failure(struct loop *l, const char *code, bool failed)
{
    unsigned char digest[HASH_SIZE];

    hash_sha256(code, strlen(code), digest);
    if (!failed) {
        l->same = 0;
        return;
    }
    l->same =
        l->same && hash_equal(digest, l->failed, HASH_SIZE) ? l->same + 1 : 1;
    memcpy(l->failed, digest, HASH_SIZE);
    if (l->same >= SAME_FAILURES) {
        l->no_tools = true;
        l->stopped = "The same code failed three times in a row, so no more "
                     "code runs in this turn. Tell the user what failed.";
    }
}

static bool may_call(struct loop *l)
{
    const struct chat_response *r = l->r;
    int64_t most = r->chat->parts.conf->chat_tool_calls;

    if (r->max_tool_calls >= 0)
        most = MIN(most, r->max_tool_calls);
    if ((int64_t)l->calls < most)
        return true;
    l->no_tools = true;
    l->stopped = "The limit of tool calls for this turn is reached: nothing "
                 "more runs. Answer with what is known.";
    return false;
}

/* ---- calls of tools ----------------------------------------------------- */

static int run_code(struct loop *l, const struct chat_call *call,
                    struct error *err)
{
    struct chat_run run cleanup(chat_run_done) = {.text = NULL};
    bool allowed = may_call(l);
    int rc;

    if (!allowed || !call->code) {
        const char *why = !allowed ? l->stopped : call->why;

        chat_tool_refuse(l->r, call->output, call->code, why);
        l->calls += allowed;
        add_output(l, call->call_id, why, NULL);
        return 0;
    }
    l->calls++;
    rc = chat_tool_run(l->r, call->output, call->code, &run, err);
    if (rc < 0)
        return rc;
    if (run.held) {
        l->no_tools = true;
    } else {
        count_failure(l, call->code, run.failed);
    }
    if (l->stopped) {
        char *both cleanup(mem_free) =
            xasprintf("%s\n%s", run.text, l->stopped);

        add_output(l, call->call_id, both, run.images);
    } else {
        add_output(l, call->call_id, run.text, run.images);
    }
    return chat_row_progress(l->r, err);
}

static int run_box(struct loop *l, const struct chat_call *call,
                   struct error *err)
{
    struct chat_run run cleanup(chat_run_done) = {.text = NULL};
    bool allowed = may_call(l);

    if (!allowed || call->why) {
        const char *why = !allowed ? l->stopped : call->why;

        chat_toolbox_refuse(l->r, call->output, call->name, call->arguments,
                            why);
        l->calls += allowed;
        add_output(l, call->call_id, why, NULL);
        return 0;
    }
    l->calls++;
    chat_toolbox_run(l->r, call->output, call->name, call->arguments, &run);
    if (run.held)
        l->no_tools = true;
    else
        count_failure(l, call->arguments, run.failed);
    add_output(l, call->call_id, run.text, run.images);
    return chat_row_progress(l->r, err);
}

static void name_tools(struct loop *l, const struct chat_call *call)
{
    struct buf text cleanup(buf_done) = {0};
    json_t *tool;
    size_t i;

    buf_addf(&text, "There is no tool '%.64s'. ", call->name);
    buf_adds(&text, json_array_size(l->tools) ? "The tools are:"
                                              : "There are no tools.");
    json_array_foreach (l->tools, i, tool)
        buf_addf(&text, " %s",
                 json_string_value(json_object_get(tool, "name")));
    add_output(l, call->call_id, text.data, NULL);
}

static int do_calls(struct loop *l, struct chat_writer *w, struct error *err)
{
    struct chat_call call;
    int rc = 0;

    while (rc == 0 && chat_writer_next(w, &call)) {
        if (atomic_load(&l->r->cancel)) {
            if (call.kind == CHAT_CALL_CODE)
                chat_tool_refuse(l->r, call.output, NULL,
                                 "the response was stopped");
            if (call.kind == CHAT_CALL_BOX)
                chat_toolbox_refuse(l->r, call.output, call.name,
                                    call.arguments,
                                    "the response was stopped");
            return 0;
        }
        switch (call.kind) {
        case CHAT_CALL_CODE:
            rc = run_code(l, &call, err);
            break;
        case CHAT_CALL_BOX:
            rc = run_box(l, &call, err);
            break;
        case CHAT_CALL_FUNCTION:
            l->handed_over = true;
            mutex_lock(&l->r->lock);
            l->r->ran = true;
            mutex_unlock(&l->r->lock);
            break;
        case CHAT_CALL_UNKNOWN:
            l->calls++;
            (void)may_call(l);
            name_tools(l, &call);
            break;
        }
    }
    if (rc == 0 && chat_writer_error(w)) {
        *err = *chat_writer_error(w);
        rc = -(int)err->code;
    }
    return rc;
}

/* ---- rounds ------------------------------------------------------------- */

enum step {
    STEP_AGAIN,
    STEP_DONE /* the response has ended */
};

static enum step end_of_call(struct loop *l, struct chat_writer *w,
                             const struct model_result *result, bool called)
{
    struct chat_response *r = l->r;
    struct error err;

    if (result->finish == MODEL_FINISH_LENGTH) {
        stop_incomplete(r, "max_output_tokens");
        return STEP_DONE;
    }
    if (result->finish == MODEL_FINISH_FILTER) {
        stop_incomplete(r, "content_filter");
        return STEP_DONE;
    }
    if (l->handed_over) {
        finish(r, CHAT_COMPLETED);
        return STEP_DONE;
    }
    if (called)
        return STEP_AGAIN;
    if (!chat_writer_some(w)) {
        if (!l->asked_again) {
            l->asked_again = true;
            return STEP_AGAIN;
        }
        if (r->output.count == 0) {
            (void)error_set(&err, ERR_UNAVAILABLE,
                            "the model gave an empty answer");
            fail(r, &err);
            return STEP_DONE;
        }
        chat_writer_message(r, "", "final_answer");
    }
    finish(r, CHAT_COMPLETED);
    return STEP_DONE;
}

/* May there be another round? False: the response has ended. */
static bool check_limits(struct loop *l)
{
    struct chat_response *r = l->r;
    struct error err;

    if (atomic_load(&r->cancel)) {
        stop_cancelled(r);
        return false;
    }
    if (clock_mono_ms() >= chat_deadline_ms(r)) {
        (void)error_set(&err, ERR_TIMEOUT,
                        "The turn took longer than %u seconds.",
                        chat_turn_s(r));
        fail(r, &err);
        return false;
    }
    if (tokens_left(r) == 0) {
        stop_incomplete(r, "max_output_tokens");
        return false;
    }
    if (r->line_bytes > LOG_BYTES) {
        (void)error_set(&err, ERR_TOO_LARGE, "The response is too long.");
        fail(r, &err);
        return false;
    }
    if (l->rounds >= r->chat->parts.conf->chat_rounds) {
        if (l->rounds > r->chat->parts.conf->chat_rounds) {
            (void)error_set(&err, ERR_LIMIT,
                            "The turn took more than %u rounds.",
                            r->chat->parts.conf->chat_rounds);
            fail(r, &err);
            return false;
        }
        l->no_tools = true; /* one more, to answer */
    }
    return true;
}

static enum step do_round(struct loop *l)
{
    struct chat_response *r = l->r;
    struct chat_writer *w cleanup(chat_writer_free) = chat_writer_new(r);
    struct model_result result cleanup(model_result_clear) = {.output = NULL};
    struct error err = {.code = ERR_NONE};
    size_t before;
    json_t *item;
    size_t i;
    int rc = call_model(l, w, &result, &err);

    if (rc < 0) {
        chat_writer_abort(w);
        if (atomic_load(&r->cancel))
            stop_cancelled(r);
        else
            fail(r, &err);
        return STEP_DONE;
    }
    l->rounds++;
    json_array_foreach (result.output, i, item)
        (void)json_array_append(l->input, item);
    before = json_array_size(l->input);
    chat_writer_finish(w, result.output, result.finish != MODEL_FINISH_STOP);
    rc = do_calls(l, w, &err);
    if (rc < 0) {
        chat_writer_abort(w);
        fail(r, &err);
        return STEP_DONE;
    }
    if (atomic_load(&r->cancel)) {
        chat_writer_abort(w);
        stop_cancelled(r);
        return STEP_DONE;
    }
    return end_of_call(l, w, &result, json_array_size(l->input) > before);
}

/* Tokens of what every call has, about. */
static uint64_t fixed_tokens(const struct loop *l)
{
    char *tools cleanup(mem_free) = json_dumps(l->tools, JSON_COMPACT);
    size_t bytes = (l->instructions ? strlen(l->instructions) : 0) +
                   (tools ? strlen(tools) : 0);

    return bytes / 3;
}

static void loop_done(struct loop *l)
{
    json_decref(l->input);
    json_decref(l->tools);
    free(l->instructions);
}

void chat_loop_run(struct chat_response *r)
{
    struct loop l cleanup(loop_done) = {.r = r};

    set_status(r, CHAT_IN_PROGRESS);
    chat_object_event(r, "response.in_progress");
    l.tools = chat_view_offered(r);
    l.instructions = chat_view_instructions(r);
    l.fixed = fixed_tokens(&l);
    l.input = chat_compact_view(r, l.fixed);
    chat_toolbox_list(r);
    while (check_limits(&l) && do_round(&l) == STEP_AGAIN) {
    }
}
