/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running code at the Azure door: python/execute, code/execute, executions.
 * Runs on a worker of the daemon: a synchronous run runs on it to its end,
 * whether or not the client waits for it; an asynchronous one is queued to a
 * worker of the same pool and asked for by its id.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define OPERATION_MAX 128u /* bytes of a caller's own id that are kept */

/* ---- the request -------------------------------------------------------- */

/* Which calls a shell pool takes. */
static int check_kind(struct doors_call *call, const struct azure_ask *ask,
                      enum azure_family family, struct error *err)
{
    if (ask->pool.kind != POOL_SHELL ||
        (family == AZURE_C &&
         (ask->version == AZURE_NONE || ask->version >= AZURE_2025_02)))
        return 0;
    azure_refuse_as(call, AZURE_UNSUPPORTED, "api-version");
    return error_set(err, ERR_INVALID,
                     "shell execution is not supported in this API version");
}

static int read_run(struct doors_call *call, const struct azure_ask *ask,
                    enum azure_family family, json_t **ret_json,
                    struct azure_run *ret, struct error *err)
{
    const char *code = NULL;
    int r = http_body_json(call->http, call->doors->conf->json_bytes, ret_json,
                           err);

    if (r < 0)
        return r;
    r = azure_body_run(*ret_json, family, ask->pool.kind,
                       http_arena(call->http), ret, &code, err);
    if (r == -ERR_INVALID)
        azure_refuse_as(call, code, NULL);
    if (r == 0 && ret->async && family != AZURE_C) {
        azure_refuse_as(call, AZURE_UNSUPPORTED, "executionType");
        return error_set(err, ERR_INVALID,
                         "asynchronous execution is not supported in this "
                         "API version");
    }
    return r;
}

static uint32_t choose_timeout(const struct pool_info *pool,
                               const struct azure_run *run)
{
    bool shell = run->language == EXEC_SHELL;
    uint32_t most =
        shell ? pool->shell_timeout_max_s : pool->python_timeout_max_s;
    uint32_t wish = run->timeout_s ? run->timeout_s
                    : shell        ? AZURE_SHELL_TIMEOUT_S
                                   : AZURE_TIMEOUT_MAX_S;

    wish = MIN(wish, AZURE_TIMEOUT_MAX_S);
    return most ? MIN(wish, most) : wish;
}

/* Streams are cut by default only where clients could ask for more. */
static int64_t choose_output(const struct azure_ask *ask, int64_t asked)
{
    if (asked >= 0)
        return asked;
    return ask->version == AZURE_2025_10 || ask->pool.kind == POOL_SHELL
               ? AZURE_OUTPUT_DEFAULT
               : -1;
}

/* ---- what is remembered of an asynchronous run -------------------------- */

/* arena */
static const char *note_shape(struct doors_call *call,
                              const struct azure_shape *shape)
{
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = &text};
    const char *own = http_header(call->http, "operation-id");

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "executionType", shape->type_text);
    json_write_int(&w, "outputStreamsMaxLength", shape->output_max);
    if (own && strlen(own) <= OPERATION_MAX)
        json_write_string(&w, "operationId", own);
    json_write_close(&w, '}');
    return arena_strdup(http_arena(call->http), text.data);
}

static void recall_shape(struct doors_call *call, const char *metadata,
                         struct azure_shape *shape)
{
    json_t *json cleanup(json_unref) = NULL;
    struct error ignored;
    const char *type;

    if (!metadata ||
        json_parse(metadata, strlen(metadata), &json, &ignored) < 0)
        return;
    type = json_string_value(json_object_get(json, "executionType"));
    if (!type) /* another door's */
        return;
    shape->type_text = arena_strdup(http_arena(call->http), type);
    shape->output_max =
        json_integer_value(json_object_get(json, "outputStreamsMaxLength"));
}

/* ---- the answer --------------------------------------------------------- */

static void add_number(struct doors_call *call, const char *name,
                       uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    http_add_header(call->http, name, text);
}

/* The time of the service's own work, in milliseconds. */
static void add_timings(struct doors_call *call, const struct azure_ask *ask,
                        const struct exec_info *info)
{
    uint64_t all = (clock_mono_ns() - call->started_ns) / 1000000;
    char guid[37];

    add_number(call, "x-ms-overall-execution-time", all);
    add_number(call, "x-ms-preparation-time", ask->allocated_ms);
    add_number(call, "x-ms-execution-request-time", info->wall_ms);
    add_number(call, "x-ms-execution-read-response-time", 0);
    add_number(call, "x-ms-container-execution-duration", info->wall_ms);
    add_number(call, "x-ms-allocation-time", ask->allocated_ms);
    add_number(call, "x-ms-allocation-retries", 0);
    add_number(call, "x-ms-total-execution-service-time", all);
    http_add_header(call->http, "x-ms-session-guid",
                    azure_path_guid(ask->session.id, guid));
}

/* Where to ask again: the same path with the id behind it. */
static void add_location(struct doors_call *call, const struct azure_ask *ask,
                         const char *guid)
{
    struct buf url cleanup(buf_done) = {0};
    const char *path = http_path(call->http), *version = NULL;
    struct error ignored;
    size_t len = strlen(path);

    while (len && path[len - 1] == '/')
        len--;
    buf_adds(&url, doors_url_base(call));
    buf_add(&url, path, len);
    buf_addf(&url, "/%s?", guid);
    if (http_query(call->http, "api-version", &version, &ignored) == 0 &&
        version)
        buf_addf(&url, "api-version=%s&", version);
    buf_adds(&url, "identifier=");
    doors_url_escape(&url, ask->identifier, false);
    http_add_header(call->http, "Operation-Location", url.data);
    http_add_header(call->http, "operation-id", guid);
}

static void respond(struct doors_call *call, const struct azure_ask *ask,
                    const struct azure_shape *shape, struct execution *e,
                    bool async)
{
    struct buf body = {0};
    struct exec_info info;
    unsigned status = 200;
    char guid[37];

    execution_info(e, &info);
    if (async) {
        add_location(call, ask, azure_path_guid(info.id, guid));
        status = 202;
    } else if (shape->family == AZURE_C && ask->version == AZURE_2024_10) {
        status = 202; /* though it is over; as the service does */
    }
    add_timings(call, ask, &info);
    azure_encode_execution(e, shape, &body);
    azure_encode_respond(call, status, &body);
}

/* ---- the calls ---------------------------------------------------------- */

static int run(struct doors_call *call, const struct azure_ask *ask,
               const struct azure_run *what, struct azure_shape *shape,
               struct error *err)
{
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct exec_spec spec = {
        .language = what->language,
        .code = what->code,
        .code_len = what->code_len,
        .timeout_s = choose_timeout(&ask->pool, what),
        .fresh = what->fresh,
    };
    int r;

    if (what->async) {
        spec.metadata = note_shape(call, shape);
        r = execution_submit(call->doors->sessions, &call->actor,
                             ask->session.id, &spec, doors_submit,
                             doors_workers(call), &e, err);
    } else {
        /* No one would read the answer, and the next call would wait for it.
         */
        spec.left = doors_left;
        spec.left_ctx = call->http;
        r = execution_run(call->doors->sessions, &call->actor, ask->session.id,
                          &spec, &e, err);
    }
    if (r == 0)
        respond(call, ask, shape, e, what->async);
    return r;
}

static int execute(struct doors_call *call, enum azure_family family,
                   struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    json_t *json cleanup(json_unref) = NULL;
    struct azure_run what = {.code = NULL};
    struct azure_shape shape;
    int r = azure_ask_begin(call, &ask, err);

    if (r == 0)
        r = check_kind(call, &ask, family, err);
    if (r == 0)
        r = read_run(call, &ask, family, &json, &what, err);
    if (r == 0)
        r = azure_ask_identifier(call, what.identifier, &ask, err);
    if (r == 0)
        r = azure_ask_session(call, &ask, err);
    if (r < 0)
        return r;
    shape = (struct azure_shape){
        .family = family,
        .identifier = ask.identifier,
        .type_text = what.type_text,
        .output_max = family == AZURE_C ? choose_output(&ask, what.output_max)
                                        : what.output_max,
        .last = !what.async,
    };
    return run(call, &ask, &what, &shape, err);
}

int azure_executions_legacy(struct doors_call *call, struct error *err)
{
    return execute(call, AZURE_A, err);
}

int azure_executions_wrapped(struct doors_call *call, struct error *err)
{
    return execute(call, AZURE_B, err);
}

int azure_executions_create(struct doors_call *call, struct error *err)
{
    return execute(call, AZURE_C, err);
}

/* Runs are a session's own: another's is as unknown. */
static int find(struct doors_call *call, struct azure_ask *ask,
                struct execution **ret, struct error *err)
{
    struct exec_info info;
    char id[ID_MAX];
    int r = azure_ask_existing(call, ask, err);

    if (r == -ERR_NOT_FOUND ||
        (r == 0 && !azure_path_unguid(call->params[0], "exec", id)))
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    if (r == 0)
        r = execution_find(call->doors->sessions, &call->actor, id, ret, err);
    if (r < 0)
        return r;
    execution_info(*ret, &info);
    return strcmp(info.session, ask->session.id) == 0
               ? 0
               : error_set(err, ERR_NOT_FOUND, "no such execution");
}

int azure_executions_get(struct doors_call *call, struct error *err)
{
    struct azure_ask ask cleanup(azure_ask_done) = {.version = AZURE_NONE};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct azure_shape shape;
    struct exec_info info;
    struct buf body = {0};
    int r = azure_ask_begin(call, &ask, err);

    if (r == 0)
        r = azure_ask_since(call, &ask, AZURE_2024_10, err);
    if (r == 0)
        r = azure_ask_identifier(call, NULL, &ask, err);
    if (r == 0)
        r = find(call, &ask, &e, err);
    if (r < 0)
        return r;
    shape = (struct azure_shape){.family = AZURE_C,
                                 .identifier = ask.identifier,
                                 .output_max = choose_output(&ask, -1)};
    execution_info(e, &info);
    recall_shape(call, info.metadata, &shape);
    add_timings(call, &ask, &info);
    azure_encode_execution(e, &shape, &body);
    azure_encode_respond(call, 200, &body);
    return 0;
}
