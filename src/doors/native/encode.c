/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions and their events as JSON: output, results, errors, limits and the
 * connections they tried. Runs on a worker of the daemon, and on the event
 * thread for streams.
 */
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "wire/wire.h"
#include "json/json.h"

/* ---- sessions ----------------------------------------------------------- */

#define LIMIT(member) API_AT(struct session_limits, member)

static const struct api_field limits_fields[] = {
    {"memory_bytes", API_INT, LIMIT(memory_bytes)},
    {"processes", API_INT, LIMIT(processes)},
    {"cores", API_INT, LIMIT(cores)},
    {"scratch_bytes", API_INT, LIMIT(scratch_bytes)},
    {"scratch_inodes", API_INT, LIMIT(scratch_inodes)},
    {"descriptors", API_INT, LIMIT(descriptors)},
};
API_OUTPUT(native_limits, "Limits", struct session_limits, limits_fields,
           "Limits as granted.");

static const char *const session_states[] = {
    "starting", "idle", "running", "dormant", "hibernated", NULL};

static void write_state(struct json_writer *w, const char *key,
                        const void *object)
{
    json_write_string(
        w, key,
        session_state_name(((const struct session_info *)object)->state));
}

static bool is_open(const void *object)
{
    return ((const struct session_info *)object)->egress ==
           SESSION_EGRESS_OPEN;
}

#define SESSION(member) API_AT(struct session_info, member)

static void write_uncarried(struct json_writer *w, const char *key,
                            const void *object)
{
    const struct session_info *info = object;
    const char *name;

    json_write_open(w, key, '[');
    for (unsigned i = 0; (name = session_uncarried_name(info->uncarried, i));
         i++)
        json_write_string(w, NULL, name);
    json_write_close(w, ']');
}

static void write_lost(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct session_info *info = object;

    json_write_string(
        w, key, info->lost_why ? session_loss_name(info->lost_why) : NULL);
}

static void write_not_kept(struct json_writer *w, const char *key,
                           const void *object)
{
    const struct session_info *info = object;

    json_write_string(
        w, key, info->kept_not ? session_loss_name(info->kept_not) : NULL);
}

static const struct api_field memory_fields[] = {
    {"hibernates", API_BOOL, SESSION(hibernates),
     .help = "it is kept when the session goes to sleep"},
    {"not_kept", API_STRING, API_NULLABLE, .write = write_not_kept,
     .help = "why not: off, no_zygote, unsupported, ephemeral, uncarried"},
    {"bytes", API_INT, SESSION(memory_bytes),
     .help = "of the interpreter, as last seen; 0: not known"},
    {"uncarried", API_ARRAY, .write = write_uncarried, .items = API_STRING,
     .help = "what would not be kept, or was not: threads, children, sockets, "
             "shared_memory, tmp, files"},
    {"image_bytes", API_INT, SESSION(image_bytes),
     .help = "on disk; counts as storage"},
    {"saved_at", API_TIME, API_NULLABLE, SESSION(image_at_ms),
     .help = "when the last image was made"},
    {"lost", API_STRING, API_NULLABLE, .write = write_lost,
     .help = "why a dormant session has none"},
    {"undo", API_INT, SESSION(undo_points),
     .help = "executions that can be undone"},
    {"redo", API_INT, SESSION(redo_points)},
};
API_OUTPUT(native_session_memory, "SessionMemory", struct session_info,
           memory_fields, "The memory of a session's interpreter.");

static void write_memory(struct json_writer *w, const char *key,
                         const void *object)
{
    api_write(w, key, &native_session_memory, object);
}

static const struct api_field session_fields[] = {
    {"id", API_STRING, SESSION(id), .help = "sess_… or cntr_…"},
    {"name", API_STRING, API_NULLABLE, SESSION(name)},
    {"identifier", API_STRING, API_NULLABLE, SESSION(identifier),
     .help = "unique in the pool, among shared sessions or the owner's "
             "private ones"},
    {"pool", API_STRING, SESSION(pool)},
    {"runtime", API_STRING, SESSION(runtime)},
    {"workspace", API_STRING, API_NULLABLE, SESSION(workspace),
     .help = "where its files are; null when ephemeral"},
    {"persistence", API_CHOICE, SESSION(ephemeral),
     .choices = native_persistences},
    {"owner", API_STRING, SESSION(owner),
     .help = "the key (key_…) or person (jwt_…) that made it"},
    {"owner_name", API_STRING, API_NULLABLE | API_NAME_OF, SESSION(owner)},
    {"sharing", API_CHOICE, SESSION(sharing), .min = SESSION_SHARING_PRINCIPAL,
     .choices = native_sharings,
     .help = "principal: its owner and admins of the tenant; tenant: every "
             "key"},
    {"state", API_CHOICE, .write = write_state, .choices = session_states},
    {"network", API_CHOICE, SESSION(egress), .choices = session_egress_names,
     .help = "what its code may reach"},
    {"warning", API_STRING, API_OPTIONAL, .when = is_open,
     .write = native_encode_open_means, .help = "what open means"},
    {"limits", API_OBJECT, SESSION(limits), .of = &native_limits},
    {"memory", API_OBJECT, .write = write_memory,
     .of = &native_session_memory},
    {"executions", API_INT, SESSION(executions), .help = "ever accepted"},
    {"queued", API_INT, SESSION(queued)},
    {"interpreters", API_INT, SESSION(interpreter),
     .help = "how many it has had"},
    {"created_at", API_TIME, SESSION(created_at_ms)},
    {"last_used_at", API_TIME, API_NULLABLE, SESSION(last_used_at_ms)},
    {"expires_at", API_TIME, API_NULLABLE, SESSION(expires_at_ms),
     .help = "goes to sleep then unless used"},
    {"cooldown_s", API_INT, SESSION(cooldown_s)},
    {"policy_version", API_INT, SESSION(policy_version),
     .help = "it is held to, besides the newest; 0: none"},
    {"metadata", API_OBJECT, SESSION(metadata)},
};
API_OUTPUT(native_session, "Session", struct session_info, session_fields,
           "One interpreter and its files.");

/* ---- mime bundles ------------------------------------------------------- */

enum representation {
    AS_TEXT,
    AS_JSON,
    AS_BASE64
};

static bool starts(const char *text, size_t len, const char *with)
{
    size_t n = strlen(with);

    return len >= n && memcmp(text, with, n) == 0;
}

static bool ends(const char *text, size_t len, const char *with)
{
    size_t n = strlen(with);

    return len >= n && memcmp(text + len - n, with, n) == 0;
}

static enum representation representation_of(const char *type, size_t len)
{
    if (ends(type, len, "/json") || ends(type, len, "+json"))
        return AS_JSON;
    if (starts(type, len, "text/") || ends(type, len, "+xml") ||
        ends(type, len, "/javascript") || ends(type, len, "/xml"))
        return AS_TEXT;
    return AS_BASE64;
}

/* Did this key come before in the payload? The first one wins. */
static bool repeated(const char *payload, size_t end,
                     const struct kernel_pair *pair)
{
    struct kernel_pair before;
    size_t pos = 0;

    while (pos < end && wire_pairs_next(payload, end, &pos, &before) == 1)
        if (before.key != pair->key && before.key_len == pair->key_len &&
            memcmp(before.key, pair->key, pair->key_len) == 0)
            return true;
    return false;
}

static bool plain_key(const char *key, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return false;
    return true;
}

static void encode_value(struct json_writer *w, const struct kernel_pair *p)
{
    struct error ignored;

    switch (representation_of(p->key, p->key_len)) {
    case AS_BASE64:
        json_write_base64(w, NULL, p->value, p->value_len);
        return;
    case AS_JSON:
        if (json_check(p->value, p->value_len, &json_limits_any, &ignored) ==
            0) {
            json_write_raw(w, NULL, p->value, p->value_len);
            return;
        }
        break; /* then it is just text */
    case AS_TEXT:
        break;
    }
    json_write_text(w, NULL, p->value, p->value_len);
}

static void encode_bundle(struct json_writer *w, const char *key,
                          const struct exec_event *event)
{
    struct kernel_pair pair;
    size_t pos = 0, at = 0;

    json_write_open(w, key, '{');
    while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1) {
        /* A mime type is plain text; what is not would end up as one name
         * for many, or as a name that readers refuse. */
        if (!repeated(event->data, at, &pair) && pair.key_len > 0 &&
            plain_key(pair.key, pair.key_len)) {
            json_write_key(w, pair.key, pair.key_len);
            encode_value(w, &pair);
        }
        at = pos;
    }
    json_write_close(w, '}');
}

/* ---- errors ------------------------------------------------------------- */

static void encode_pair(struct json_writer *w, const struct exec_event *event,
                        const char *name)
{
    struct kernel_pair pair;
    size_t pos = 0;

    while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1)
        if (pair.key_len == strlen(name) &&
            memcmp(pair.key, name, pair.key_len) == 0) {
            json_write_text(w, name, pair.value, pair.value_len);
            return;
        }
    json_write_string(w, name, "");
}

/* An error of the code, or what ended a run that did not end by itself. */
struct execution_error {
    const char *name; /* NULL: that of the event */
    const char *message;
    const struct exec_event *event; /* NULL: none */
};

static void write_error_pair(struct json_writer *w, const char *key,
                             const void *object)
{
    const struct execution_error *e = object;
    const char *text = strcmp(key, "name") == 0 ? e->name : e->message;

    if (e->event)
        encode_pair(w, e->event, key);
    else
        json_write_string(w, key, text ? text : "");
}

static void write_traceback(struct json_writer *w, const char *key,
                            const void *object)
{
    const struct exec_event *event =
        ((const struct execution_error *)object)->event;
    struct kernel_pair pair;
    size_t pos = 0;

    json_write_open(w, key, '[');
    while (event && wire_pairs_next(event->data, event->len, &pos, &pair) == 1)
        if (pair.key_len == strlen(key) &&
            memcmp(pair.key, key, pair.key_len) == 0)
            json_write_text(w, NULL, pair.value, pair.value_len);
    json_write_close(w, ']');
}

static const struct api_field execution_error_fields[] = {
    {"name", API_STRING, .write = write_error_pair},
    {"message", API_STRING, .write = write_error_pair},
    {"traceback", API_ARRAY, .write = write_traceback},
};
API_OUTPUT(native_execution_error, "ExecutionError", struct execution_error,
           execution_error_fields,
           "What went wrong in the code, or in running it.");

static void encode_error(struct json_writer *w, const char *key,
                         const struct exec_event *event)
{
    api_write(w, key, &native_execution_error,
              &(struct execution_error){.event = event});
}

/* Describes an execution that did not end by itself; the text is ours. */
static void encode_failure(struct json_writer *w, const char *key,
                           const struct exec_info *info)
{
    static const char *const names[OUTCOME_LOST + 1] = {
        [OUTCOME_ERROR] = "Error",
        [OUTCOME_TIMEOUT] = "Timeout",
        [OUTCOME_OOM] = "OutOfMemory",
        [OUTCOME_KILLED] = "Killed",
        [OUTCOME_LIMIT] = "Limit",
        [OUTCOME_CRASHED] = "Crashed",
        [OUTCOME_CANCELLED] = "Cancelled",
        [OUTCOME_DENIED] = "Denied",
        [OUTCOME_ISOLATION_FAILED] = "IsolationFailed",
        [OUTCOME_LOST] = "Lost",
    };

    if (!names[info->outcome]) {
        json_write_string(w, key, NULL);
        return;
    }
    api_write(w, key, &native_execution_error,
              &(struct execution_error){
                  .name = names[info->outcome],
                  .message = info->failure ? info->failure : ""});
}

/* ---- executions --------------------------------------------------------- */

/* The events, combined. The streams are joined before they are encoded,
 * because a character may be split between two writes. */
struct digest {
    struct buf streams[2];
    struct exec_event result, error; /* number 0: none */
    bool displays;
};

static void digest_done(struct digest *d)
{
    buf_done(&d->streams[0]);
    buf_done(&d->streams[1]);
}

static void digest_events(struct execution *e, struct digest *ret)
{
    struct exec_event event = {0};

    while (execution_event(e, event.number, &event))
        switch (event.type) {
        case EVENT_STDOUT:
        case EVENT_STDERR:
            buf_add(&ret->streams[event.type == EVENT_STDERR], event.data,
                    event.len);
            break;
        case EVENT_RESULT:
            ret->result = event;
            break;
        case EVENT_ERROR:
            ret->error = event;
            break;
        case EVENT_DISPLAY:
            ret->displays = true;
            break;
        case EVENT_STATUS:
        case EVENT_CLEAR:
        case EVENT_INPUT:
        case EVENT_DONE:
            break;
        }
}

static void encode_stream(struct json_writer *w, const char *key,
                          const struct buf *bytes)
{
    json_write_text(w, key, bytes->data ? bytes->data : "", bytes->len);
}

/* An execution as it is to be written. */
struct run {
    struct exec_info info;
    struct execution *e;
    struct digest d;
    const struct json_writer *w;
};

static void write_stdout(struct json_writer *w, const char *key,
                         const void *object)
{
    encode_stream(w, key, &((const struct run *)object)->d.streams[0]);
}

static void write_stderr(struct json_writer *w, const char *key,
                         const void *object)
{
    encode_stream(w, key, &((const struct run *)object)->d.streams[1]);
}

static void write_result(struct json_writer *w, const char *key,
                         const void *object)
{
    const struct run *r = object;

    if (r->d.result.number)
        encode_bundle(w, key, &r->d.result);
    else
        json_write_string(w, key, NULL);
}

static void write_displays(struct json_writer *w, const char *key,
                           const void *object)
{
    const struct run *r = object;
    struct exec_event event = {0};

    json_write_open(w, key, '[');
    while (r->d.displays && execution_event(r->e, event.number, &event))
        if (event.type == EVENT_DISPLAY)
            encode_bundle(w, NULL, &event);
    json_write_close(w, ']');
}

static void write_error(struct json_writer *w, const char *key,
                        const void *object)
{
    const struct run *r = object;

    /* A kill outranks what the run said of itself just before. */
    if (r->d.error.number && !r->info.failure)
        encode_error(w, key, &r->d.error);
    else
        encode_failure(w, key, &r->info);
}

#define INFO(member) API_AT(struct exec_info, member)

static const struct api_field execution_truncated_fields[] = {
    {"stdout", API_BOOL, INFO(truncated_stdout)},
    {"stderr", API_BOOL, INFO(truncated_stderr)},
    {"displays", API_BOOL, INFO(truncated_displays)},
};
API_OUTPUT(native_execution_truncated, "ExecutionTruncated", struct exec_info,
           execution_truncated_fields, "What was longer than is kept.");

static const struct api_field execution_limit_fields[] = {
    {"name", API_STRING, INFO(limit_name)},
    {"value", API_INT, INFO(limit_value)},
    {"peak", API_INT, INFO(limit_peak)},
};
API_OUTPUT(native_execution_limit, "ExecutionLimit", struct exec_info,
           execution_limit_fields, "The limit that ended it.");

static void write_limit(struct json_writer *w, const char *key,
                        const void *object)
{
    const struct run *r = object;

    if (r->info.limit_name)
        api_write(w, key, &native_execution_limit, &r->info);
    else
        json_write_string(w, key, NULL);
}

static const struct api_field execution_usage_fields[] = {
    {"wall_ms", API_INT, INFO(wall_ms)},
    {"cpu_ms", API_INT, INFO(cpu_ms)},
    {"peak_memory_bytes", API_INT, INFO(peak_memory_bytes)},
};
API_OUTPUT(native_execution_usage, "ExecutionUsage", struct exec_info,
           execution_usage_fields, "What it took.");

static bool has_exit_code(const void *object)
{
    const struct run *r = object;

    return r->info.exit_code >= 0; /* of a command or a compiled program */
}

static bool was_replaced(const void *object)
{
    const struct run *r = object;

    return r->w && r->w->replaced;
}

static void write_true(struct json_writer *w, const char *key,
                       const void *object)
{
    (void)object;
    json_write_bool(w, key, true);
}

static const char *const statuses[] = {"queued", "running", "completed",
                                       "pending_approval", NULL};
static const char *const outcomes[] = {
    "ok",    "error",   "timeout",   "oom",    "killed",
    "limit", "crashed", "cancelled", "denied", "isolation_failed",
    "lost",  NULL};
static const char *const interpreters[] = {"same", "fresh", "woken", NULL};

#define RUN(member) API_AT(struct run, member)

static const struct api_field execution_fields[] = {
    {"id", API_STRING, RUN(info.id), .help = "exec_…"},
    {"session", API_STRING, RUN(info.session)},
    {"language", API_CHOICE, RUN(info.language), .choices = language_names},
    {"status", API_CHOICE, RUN(info.status), .choices = statuses},
    {"outcome", API_CHOICE, API_NULLABLE, RUN(info.outcome), .min = OUTCOME_OK,
     .choices = outcomes,
     .help = "from the supervisor, never from what the session wrote"},
    {"principal", API_STRING, RUN(info.author), .help = "the requester"},
    {"principal_name", API_STRING, API_NULLABLE, RUN(info.author_name)},
    {"code", API_STRING, API_NULLABLE, RUN(info.code),
     .help = "null where code is not kept"},
    {"stdout", API_STRING, .write = write_stdout},
    {"stderr", API_STRING, .write = write_stderr},
    {"truncated", API_OBJECT, RUN(info), .of = &native_execution_truncated},
    {"result", API_OBJECT, API_NULLABLE, .write = write_result,
     .help = "the last expression's value, by media type"},
    {"displays", API_ARRAY, .write = write_displays, .items = API_OBJECT,
     .help = "the same, of what was shown"},
    {"error", API_OBJECT, API_NULLABLE, .write = write_error,
     .of = &native_execution_error},
    {"limit", API_OBJECT, API_NULLABLE, .write = write_limit,
     .of = &native_execution_limit},
    {"warning", API_STRING, API_NULLABLE, RUN(info.warning),
     .help = "a limit that the code reached and outlived"},
    {"usage", API_OBJECT, RUN(info), .of = &native_execution_usage},
    {"workspace", API_STRING, API_NULLABLE, RUN(info.workspace),
     .help = "where its files went"},
    {"commit", API_STRING, API_NULLABLE, RUN(info.commit),
     .help = "null when nothing was kept"},
    {"files", API_OBJECT, RUN(info), .of = &native_execution_files},
    {"network", API_OBJECT, RUN(info), .of = &native_execution_network},
    {"exit_code", API_INT, API_OPTIONAL, RUN(info.exit_code),
     .when = has_exit_code, .help = "shell only"},
    {"approval", API_STRING, API_OPTIONAL, RUN(info.approval),
     .help = "apr_…: the approval that was requested first"},
    {"interpreter", API_CHOICE, RUN(info.interpreter), .choices = interpreters,
     .help = "woken: it continues from memory that was saved"},
    {"interpreter_lost", API_BOOL, RUN(info.interpreter_lost)},
    {"notice", API_STRING, API_NULLABLE, RUN(info.notice),
     .help = "what happened to the variables of earlier executions, or what "
             "would be lost when the session goes to sleep"},
    {"repeats", API_INT, RUN(info.repeats),
     .help = "so often in a row the same code had failed before"},
    {"created_at", API_TIME, RUN(info.created_at_ms)},
    {"started_at", API_TIME, API_NULLABLE, RUN(info.started_at_ms)},
    {"finished_at", API_TIME, API_NULLABLE, RUN(info.finished_at_ms)},
    {"metadata", API_OBJECT, RUN(info.metadata)},
    {"encoding_replaced", API_BOOL, API_OPTIONAL, .write = write_true,
     .when = was_replaced, .help = "output was not UTF-8"},
};
API_OUTPUT(native_execution, "Execution", struct run, execution_fields,
           "One run: what it said, how it ended, what it made.");

#define ROW(member) API_AT(struct exec_info, member)

static const struct api_field execution_row_fields[] = {
    {"id", API_STRING, ROW(id), .help = "exec_…"},
    {"session", API_STRING, ROW(session)},
    {"language", API_CHOICE, ROW(language), .choices = language_names},
    {"status", API_CHOICE, ROW(status), .choices = statuses},
    {"outcome", API_CHOICE, API_NULLABLE, ROW(outcome), .min = OUTCOME_OK,
     .choices = outcomes},
    {"workspace", API_STRING, API_NULLABLE, ROW(workspace)},
    {"principal", API_STRING, ROW(author), .help = "the requester"},
    {"principal_name", API_STRING, API_NULLABLE, ROW(author_name)},
    {"code_preview", API_STRING, API_NULLABLE, ROW(preview),
     .help = "how the code begins, at most 127 bytes"},
    {"created_at", API_TIME, ROW(created_at_ms)},
    {"started_at", API_TIME, API_NULLABLE, ROW(started_at_ms)},
    {"finished_at", API_TIME, API_NULLABLE, ROW(finished_at_ms)},
};
API_OUTPUT(native_execution_row, "ExecutionRow", struct exec_info,
           execution_row_fields, "An execution in a list.");

void native_encode_execution(struct execution *e, const char *base_url,
                             struct buf *out)
{
    struct json_writer w = {.out = out, .base_url = base_url};
    struct run r = {.e = e, .w = &w};

    execution_info(e, &r.info);
    digest_events(e, &r.d);
    api_write(&w, NULL, &native_execution, &r);
    digest_done(&r.d);
}

void native_encode_event(struct execution *e, const struct exec_event *event,
                         const char *text, size_t text_len,
                         const char *base_url, struct buf *out)
{
    struct json_writer w = {.out = out};
    struct exec_info info;

    switch (event->type) {
    case EVENT_DISPLAY:
    case EVENT_RESULT:
        encode_bundle(&w, NULL, event);
        return;
    case EVENT_ERROR:
        encode_error(&w, NULL, event);
        return;
    case EVENT_DONE:
        native_encode_execution(e, base_url, out);
        return;
    case EVENT_STATUS:
        execution_info(e, &info);
        json_write_open(&w, NULL, '{');
        json_write_string(&w, "id", info.id);
        json_write_string(&w, "session", info.session);
        json_write_text(&w, "status", event->data, event->len);
        if (event->len == strlen("running") &&
            memcmp(event->data, "running", event->len) == 0) {
            json_write_string(&w, "interpreter",
                              interpreters[info.interpreter]);
            if (info.notice)
                json_write_string(&w, "notice", info.notice);
        }
        if (info.approval[0])
            json_write_string(&w, "approval", info.approval);
        break;
    case EVENT_CLEAR:
        json_write_open(&w, NULL, '{');
        json_write_bool(&w, "wait", event->len > 0 && event->data[0]);
        break;
    case EVENT_INPUT:
        json_write_open(&w, NULL, '{');
        json_write_text(&w, "prompt", event->data + 1, event->len - 1);
        json_write_bool(&w, "password", event->data[0] != 0);
        break;
    case EVENT_STDOUT:
    case EVENT_STDERR:
        json_write_open(&w, NULL, '{');
        json_write_text(&w, "text", text, text_len);
        if (w.replaced)
            json_write_bool(&w, "encoding_replaced", true);
        break;
    }
    json_write_close(&w, '}');
}

/* ---- network ------------------------------------------------------------ */

void native_encode_open_means(struct json_writer *w, const char *key,
                              const void *object)
{
    (void)object;
    json_write_string(w, key, SESSION_OPEN_MEANS);
}

static const char *const connection_kinds[] = {"connect", "resolve", "http",
                                               "tunnel",  "package", NULL};

static bool was_allowed(const void *object)
{
    return ((const struct network_connection *)object)->allowed;
}

static bool was_blocked(const void *object)
{
    return !was_allowed(object);
}

#define CONNECTION(member) API_AT(struct network_connection, member)

static const struct api_field connection_fields[] = {
    {"at", API_TIME, CONNECTION(at_ms), .help = "the first time"},
    {"what", API_CHOICE, CONNECTION(what), .choices = connection_kinds},
    {"host", API_STRING, CONNECTION(host),
     .help = "a name or an address; ? when it could not be read"},
    {"port", API_INT, API_NULLABLE, CONNECTION(port)},
    {"count", API_INT, CONNECTION(count)},
    {"method", API_STRING, API_OPTIONAL, CONNECTION(method)},
    {"path", API_STRING, API_OPTIONAL, CONNECTION(path)},
    {"bytes_out", API_INT, API_OPTIONAL, CONNECTION(bytes_out),
     .when = was_allowed, .help = "allowed: sent"},
    {"bytes_in", API_INT, API_OPTIONAL, CONNECTION(bytes_in),
     .when = was_allowed, .help = "allowed: received"},
    {"reason", API_STRING, API_OPTIONAL, CONNECTION(reason),
     .when = was_blocked, .help = "blocked: why"},
};
API_OUTPUT(native_connection, "Connection", struct network_connection,
           connection_fields, "One destination, and how often it was tried.");

static void write_connections(struct json_writer *w, const char *key,
                              const struct exec_info *info, bool allowed)
{
    json_write_open(w, key, '[');
    for (size_t i = 0; i < info->connection_count; i++)
        if (info->connections[i].allowed == allowed)
            api_write(w, NULL, &native_connection, &info->connections[i]);
    json_write_close(w, ']');
}

static void write_blocked(struct json_writer *w, const char *key,
                          const void *object)
{
    write_connections(w, key, object, false);
}

static void write_allowed(struct json_writer *w, const char *key,
                          const void *object)
{
    write_connections(w, key, object, true);
}

#define NETWORK(member) API_AT(struct exec_info, member)

static const struct api_field execution_network_fields[] = {
    {"mode", API_CHOICE, NETWORK(egress), .choices = session_egress_names,
     .help = "what it could reach, at its end"},
    {"blocked", API_ARRAY, .write = write_blocked, .of = &native_connection,
     .help = "refused, each destination once"},
    {"allowed", API_ARRAY, .write = write_allowed, .of = &native_connection,
     .help = "let through"},
    {"truncated", API_BOOL, NETWORK(connections_truncated),
     .help = "there were more than are listed"},
};
API_OUTPUT(native_execution_network, "ExecutionNetwork", struct exec_info,
           execution_network_fields, "What an execution tried to reach.");
