/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of the Azure dialect: what all of them carry, and an execution in
 * the shape of each family. Runs on a worker of the daemon. Errors in the
 * client's code are not HTTP errors: "stderr" has the message, then the
 * traceback, whose last line names the exception.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define TIMED_OUT "Request timed out waiting for code execution to complete"

/* ---- what all answers have ---------------------------------------------- */

void azure_encode_time(struct json_writer *w, const char *key, int64_t real_ms)
{
    char text[40];
    size_t len;

    if (real_ms <= 0) {
        json_write_string(w, key, NULL);
        return;
    }
    len = strlen(clock_format_ms(real_ms, text));
    /* "….123Z" to "….1230000Z" */
    (void)snprintf(text + len - 1, sizeof(text) - len + 1, "0000Z");
    json_write_string(w, key, text);
}

void azure_encode_headers(struct doors_call *call)
{
    struct error ignored;
    const char *version = NULL;
    char guid[37];

    if (http_query(call->http, "api-version", &version, &ignored) == 0 &&
        azure_path_version(version) >= AZURE_2024_10 &&
        azure_path_version(version) != AZURE_UNKNOWN)
        http_add_header(call->http, "api-supported-versions", version);
    http_add_header(call->http, "mise-correlation-id",
                    azure_path_guid(http_id(call->http), guid));
}

void azure_encode_respond(struct doors_call *call, unsigned status,
                          struct buf *body)
{
    azure_encode_headers(call);
    http_respond(call->http, status, "application/json; charset=utf-8", body);
}

void azure_encode_empty(struct doors_call *call, unsigned status)
{
    azure_encode_headers(call);
    http_respond_empty(call->http, status);
}

/* ---- an execution ------------------------------------------------------- */

static void line_end(struct buf *b)
{
    if (b->len && b->data[b->len - 1] != '\n')
        buf_adds(b, "\n");
}

static void add_error(const struct exec_digest *o, struct buf *out)
{
    line_end(out);
    buf_add(out, o->error_message, o->error_message_len);
    line_end(out);
    if (o->traceback.len) {
        buf_add(out, o->traceback.data, o->traceback.len);
    } else {
        buf_add(out, o->error_name, o->error_name_len);
        buf_adds(out, ": ");
        buf_add(out, o->error_message, o->error_message_len);
    }
}

/* All that went wrong, as text. */
static void add_stderr(const struct exec_info *info,
                       const struct exec_digest *o, struct buf *out)
{
    bool cell = info->exit_code < 0; /* no command, which prints its own */

    if (info->outcome == OUTCOME_TIMEOUT) /* clients look at the start */
        buf_addf(out, TIMED_OUT ": %s\n", info->failure ? info->failure : "");
    if (info->notice)
        buf_addf(out, "%s\n", info->notice);
    if (info->outcome == OUTCOME_TIMEOUT) {
        buf_add(out, o->stderr_text.data, o->stderr_text.len);
        return;
    }
    buf_add(out, o->stderr_text.data, o->stderr_text.len);
    if (info->outcome != OUTCOME_OK && info->failure &&
        (cell || info->outcome != OUTCOME_ERROR)) {
        line_end(out);
        if (info->outcome == OUTCOME_OOM)
            buf_adds(out, info->interpreter_lost ? "Kernel restarted: "
                                                 : "Execution aborted: ");
        buf_adds(out, info->failure);
    }
    if (info->warning) {
        line_end(out);
        buf_addf(out, "warning: %s\n", info->warning);
    }
    if (cell && o->has_error)
        add_error(o, out);
}

static void encode_image(struct json_writer *w, const char *key,
                         const struct exec_image *image)
{
    const char *format = strchr(image->type, '/');
    size_t len;

    format = format ? format + 1 : image->type;
    len = strcspn(format, "+"); /* "svg+xml" */
    json_write_open(w, key, '{');
    json_write_string(w, "type", "image");
    json_write_text(w, "format", format, len);
    json_write_base64(w, "base64_data", image->data, image->len);
    json_write_close(w, '}');
}

/* Of several pictures the first that was shown: no client takes more. */
static void encode_value(struct json_writer *w, const char *key,
                         const struct exec_info *info,
                         const struct exec_digest *o)
{
    if (info->outcome != OUTCOME_OK)
        json_write_string(w, key, NULL);
    else if (o->image_count)
        encode_image(w, key, &o->images[0]);
    else if (o->has_result && o->result_opaque)
        json_write_text(w, key, o->result_text, o->result_text_len);
    else if (o->has_result)
        azure_value_write(w, key, o->result, o->result_len);
    else
        json_write_string(w, key, "");
}

static void encode_stream(struct json_writer *w, const char *key,
                          const struct buf *text, int64_t max)
{
    const char *data = text->data ? text->data : "";

    json_write_text(w, key, data, azure_value_cut(data, text->len, max));
}

/* The fields that are the same everywhere; value: what the last expression
 * came to is called, or NULL. */
static void encode_fields(struct json_writer *w, struct execution *e,
                          const struct exec_info *info, const char *value,
                          int64_t max)
{
    struct buf output cleanup(buf_done) = {0};
    struct buf errors cleanup(buf_done) = {0};
    size_t tail;
    struct exec_digest o cleanup(execution_digest_done) = {.has_error = false};

    execution_digest_read(e, &o);
    execution_digest_output(&o, &output, &tail);
    add_stderr(info, &o, &errors);
    encode_stream(w, "stdout", &output, max);
    encode_stream(w, "stderr", &errors, max);
    if (value)
        encode_value(w, value, info, &o);
    /* Documents of Node pools name it so in every family. */
    if (value && info->language == EXEC_JAVASCRIPT &&
        strcmp(value, "result") == 0)
        encode_value(w, "executionResult", info, &o);
    json_write_int(w, "executionTimeInMilliseconds", (int64_t)info->wall_ms);
}

static const char *status_name(const struct exec_info *info)
{
    if (info->status == EXEC_QUEUED || info->status == EXEC_PENDING)
        return "NotStarted";
    if (info->status == EXEC_RUNNING)
        return "Running";
    if (info->outcome == OUTCOME_OK)
        return "Succeeded";
    return info->outcome == OUTCOME_CANCELLED ? "Canceled" : "Failed";
}

/* Families A and B: the same fields, flat or wrapped. */
static void encode_plain(struct json_writer *w, struct execution *e,
                         const struct exec_info *info,
                         const struct azure_shape *shape)
{
    json_write_string(w, "$id", "1");
    if (shape->family == AZURE_B) {
        json_write_open(w, "properties", '{');
        json_write_string(w, "$id", "2");
    }
    json_write_string(w, "status",
                      info->outcome == OUTCOME_OK ? "Success" : "Failure");
    encode_fields(w, e, info, "result", shape->output_max);
    if (shape->family == AZURE_B)
        json_write_close(w, '}');
}

static void encode_resource(struct json_writer *w, struct execution *e,
                            const struct exec_info *info,
                            const struct azure_shape *shape)
{
    char guid[37];

    json_write_string(w, "$id", "1");
    json_write_string(w, "id", azure_path_guid(info->id, guid));
    json_write_string(w, "identifier", shape->identifier);
    json_write_string(w, "executionType",
                      shape->type_text ? shape->type_text : "Synchronous");
    json_write_string(w, "status", status_name(info));
    if (info->status != EXEC_COMPLETED)
        return;
    json_write_open(w, "result", '{');
    json_write_string(w, "$id", "2");
    encode_fields(w, e, info, "executionResult", shape->output_max);
    json_write_close(w, '}');
}

/* A command: its status is the exit code, in digits; -1 when it has none. */
static void encode_command(struct json_writer *w, struct execution *e,
                           const struct exec_info *info,
                           const struct azure_shape *shape)
{
    int code = info->outcome == OUTCOME_TIMEOUT ? -1 : info->exit_code;
    char text[16];

    (void)snprintf(text, sizeof(text), "%d", code);
    json_write_string(w, "identifier", shape->identifier);
    json_write_string(w, "status", text);
    json_write_int(w, "exitCode", code);
    json_write_open(w, "result", '{');
    encode_fields(w, e, info, NULL, shape->output_max);
    json_write_close(w, '}');
}

/* This dialect has no word for it, so it is a failure that says what to do. */
static void say_held(struct exec_info *info, char *text, size_t size)
{
    char guid[37];

    (void)snprintf(text, size,
                   "Pending approval: this has not run. %s waits for a person "
                   "with the scope 'approve' who did not make the request "
                   "(glovebox approvals approve %s). Once approved it runs by "
                   "itself, as execution %s.",
                   info->approval, info->approval,
                   azure_path_guid(info->id, guid));
    info->status = EXEC_COMPLETED;
    info->outcome = OUTCOME_DENIED;
    info->failure = text;
}

void azure_encode_execution(struct execution *e,
                            const struct azure_shape *shape, struct buf *out)
{
    struct json_writer w = {.out = out};
    struct exec_info info;
    char held[512];

    execution_info(e, &info);
    if (info.status == EXEC_PENDING && shape->last)
        say_held(&info, held, sizeof(held));
    json_write_open(&w, NULL, '{');
    if (shape->family != AZURE_C)
        encode_plain(&w, e, &info, shape);
    else if (info.language == EXEC_SHELL && info.status == EXEC_COMPLETED)
        encode_command(&w, e, &info, shape);
    else
        encode_resource(&w, e, &info, shape);
    json_write_close(&w, '}');
}
