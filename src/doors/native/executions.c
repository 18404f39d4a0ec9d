/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/sessions/{id}/executions and /api/executions. Runs on a worker of the
 * daemon: a synchronous execution runs on it to its end, others are queued
 * to a worker of the same pool.
 */
#include "doors/native/native.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

static bool held(struct execution *e)
{
    struct exec_info info;

    execution_info(e, &info);
    return info.status == EXEC_PENDING;
}

static void respond(struct doors_call *call, unsigned status,
                    struct execution *e)
{
    struct buf body = {0};

    native_encode_execution(e, doors_url_base(call), &body);
    http_respond_json(call->http, status, &body);
}

int native_executions_create(struct doors_call *call, struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    json_t *body cleanup(json_unref) = NULL;
    const struct doors *doors = call->doors;
    struct exec_spec spec;
    enum native_mode mode = NATIVE_SYNC;
    int r = http_body_json(call->http, doors->conf->json_bytes, &body, err);

    if (r == 0)
        r = native_spec_execution(call, body, &spec, &mode, err);
    if (r < 0)
        return r;
    if (mode == NATIVE_SYNC)
        r = execution_run(doors->sessions, &call->actor, call->params[0],
                          &spec, &e, err);
    else
        r = execution_submit(doors->sessions, &call->actor, call->params[0],
                             &spec, doors_submit, doors_workers(call), &e,
                             err);
    if (r < 0)
        return r;
    if (mode == NATIVE_STREAM)
        native_events_respond(call, take_ptr(e), 0, NULL);
    else
        respond(call, mode == NATIVE_ASYNC || held(e) ? 202 : 200, e);
    return 0;
}

int native_executions_list(struct doors_call *call, struct error *err)
{
    struct exec_info *rows cleanup(mem_free) = NULL;
    size_t count = 0;
    bool more = false;
    int64_t limit;
    int r = doors_query_int(call, "limit", 1, 1000, 100, &limit, err);

    if (r == 0)
        r = execution_list(call->doors->sessions, &call->actor,
                           call->params[0], (size_t)limit, &rows, &count,
                           &more, err);
    if (r == 0)
        native_respond_list(call, &native_execution_row, rows, count, more);
    return r;
}

int native_executions_all(struct doors_call *call, struct error *err)
{
    struct exec_info *rows cleanup(mem_free) = NULL;
    struct exec_filter f = {.limit = 0};
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"session", &f.session},  {"workspace", &f.workspace},
        {"principal", &f.author}, {"language", &f.language},
        {"outcome", &f.outcome},  {"q", &f.text},
    };
    size_t count = 0;
    bool more = false;
    int r = native_ask_page(call, 1000, 100, &f.limit, &f.after, err);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
        r = native_ask_text(call, texts[i].name, 1000, texts[i].to, err);
    if (r == 0)
        r = native_ask_time(call, "from", &f.from_ms, err);
    if (r == 0)
        r = native_ask_time(call, "to", &f.to_ms, err);
    if (r == 0)
        r = execution_list_all(call->doors->sessions, &call->actor, &f, &rows,
                               &count, &more, err);
    if (r == 0)
        native_respond_list(call, &native_execution_row, rows, count, more);
    return r;
}

int native_executions_get(struct doors_call *call, struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    int r = execution_find(call->doors->sessions, &call->actor,
                           call->params[0], &e, err);

    if (r == 0)
        respond(call, 200, e);
    return r;
}

/* ?after=N, or the header a browser sends when it comes back. */
static int read_after(struct doors_call *call, struct execution *e,
                      uint32_t *ret, struct error *err)
{
    const char *header = http_header(call->http, "Last-Event-ID");
    struct exec_event event;
    int64_t after;
    int r = doors_query_int(call, "after", 0, UINT32_MAX, -1, &after, err);

    if (r < 0)
        return r;
    if (after < 0 && header) {
        char *end;

        after = strtoll(header, &end, 10);
        if (end == header || *end || after < 0 || after > UINT32_MAX)
            return error_set(err, ERR_INVALID,
                             "the Last-Event-ID is no event's number");
    }
    if (after > 0 && !execution_event(e, (uint32_t)after - 1, &event))
        return error_set(err, ERR_INVALID, "there is no event %lld yet",
                         (long long)after);
    *ret = after > 0 ? (uint32_t)after : 0;
    return 0;
}

int native_executions_events(struct doors_call *call, struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    uint32_t after = 0;
    int r = execution_find(call->doors->sessions, &call->actor,
                           call->params[0], &e, err);

    if (r == 0)
        r = read_after(call, e, &after, err);
    if (r == 0)
        native_events_respond(call, take_ptr(e), after, NULL);
    return r;
}

struct input_body {
    const char *text;
    bool eof;
};

static const struct api_field input_spec_fields[] = {
    {"text", API_STRING, API_AT(struct input_body, text),
     .max = EXEC_ANSWER_MAX, .help = "what was typed, without the newline"},
    {"eof", API_BOOL, API_AT(struct input_body, eof),
     .help = "instead of text: there is no more input"},
};
API_INPUT(native_input_spec, "InputSpec", struct input_body, input_spec_fields,
          "The answer to an input_request event.");

int native_executions_input(struct doors_call *call, struct error *err)
{
    struct input_body b = {0};
    json_t *json cleanup(json_unref) = NULL;
    int r = native_read(call, &native_input_spec, &b, &json, err);

    if (r == 0 && !b.text == !b.eof)
        r = error_set(err, ERR_INVALID, "give either 'text' or 'eof': true");
    if (r == 0)
        r = execution_answer(call->doors->sessions, &call->actor,
                             call->params[0], b.text,
                             b.text ? strlen(b.text) : 0, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_executions_cancel(struct doors_call *call, struct error *err)
{
    int r = execution_cancel(call->doors->sessions, &call->actor,
                             call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 202);
    return r;
}
