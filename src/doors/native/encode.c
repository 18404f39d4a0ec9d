/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions, executions and events as JSON. Runs in the daemon, on workers and
 * (for streams) on the event thread; does not wait. Whatever a session wrote
 * comes out as valid JSON: text with U+FFFD for what is not UTF-8, binary
 * types in base64, JSON types embedded only if they are JSON (H6).
 */
#include "doors/native/native.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "wire/wire.h"
#include "json/json.h"

/* ---- sessions ----------------------------------------------------------- */

static void encode_limits(struct json_writer *w,
                          const struct session_limits *l)
{
    json_write_open(w, "limits", '{');
    json_write_int(w, "memory_bytes", (int64_t)l->memory_bytes);
    json_write_int(w, "processes", l->processes);
    json_write_int(w, "cores", l->cores);
    json_write_int(w, "scratch_bytes", (int64_t)l->scratch_bytes);
    json_write_int(w, "scratch_inodes", l->scratch_inodes);
    json_write_int(w, "descriptors", l->descriptors);
    json_write_close(w, '}');
}

/* JSON text of ours, or an empty object. */
static void encode_metadata(struct json_writer *w, const char *text)
{
    json_write_raw(w, "metadata", text ? text : "{}",
                   strlen(text ? text : "{}"));
}

void native_encode_session(struct json_writer *w, const char *key,
                           const struct session_info *info)
{
    json_write_open(w, key, '{');
    json_write_string(w, "id", info->id);
    json_write_string(w, "name", info->name[0] ? info->name : NULL);
    native_encode_text(w, "identifier", info->identifier);
    json_write_string(w, "pool", info->pool);
    json_write_string(w, "runtime", info->runtime);
    native_encode_text(w, "workspace", info->workspace);
    json_write_string(w, "persistence",
                      info->ephemeral ? "ephemeral" : "workspace");
    json_write_string(w, "owner", info->owner);
    json_write_string(w, "sharing", session_sharing_name(info->sharing));
    json_write_string(w, "state", session_state_name(info->state));
    json_write_string(w, "network", session_egress_name(info->egress));
    if (info->egress == SESSION_EGRESS_OPEN)
        json_write_string(w, "warning", SESSION_OPEN_MEANS);
    encode_limits(w, &info->limits);
    json_write_int(w, "executions", info->executions);
    json_write_int(w, "queued", info->queued);
    json_write_int(w, "interpreters", info->interpreter);
    json_write_time(w, "created_at", info->created_at_ms);
    json_write_time(w, "last_used_at", info->last_used_at_ms);
    json_write_time(w, "expires_at", info->expires_at_ms);
    json_write_int(w, "cooldown_s", info->cooldown_s);
    json_write_int(w, "policy_version", info->policy_version);
    encode_metadata(w, info->metadata);
    json_write_close(w, '}');
}

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

static void encode_error(struct json_writer *w, const char *key,
                         const struct exec_event *event)
{
    static const char line[] = "traceback";
    struct kernel_pair pair;
    size_t pos = 0;

    json_write_open(w, key, '{');
    encode_pair(w, event, "name");
    encode_pair(w, event, "message");
    json_write_open(w, line, '[');
    while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1)
        if (pair.key_len == sizeof(line) - 1 &&
            memcmp(pair.key, line, pair.key_len) == 0)
            json_write_text(w, NULL, pair.value, pair.value_len);
    json_write_close(w, ']');
    json_write_close(w, '}');
}

/* What happened to a run that did not end by itself; our words, not its. */
static void encode_failure(struct json_writer *w, const struct exec_info *info)
{
    static const char *const names[OUTCOME_ISOLATION_FAILED + 1] = {
        [OUTCOME_ERROR] = "Error",
        [OUTCOME_TIMEOUT] = "Timeout",
        [OUTCOME_OOM] = "OutOfMemory",
        [OUTCOME_KILLED] = "Killed",
        [OUTCOME_LIMIT] = "Limit",
        [OUTCOME_CRASHED] = "Crashed",
        [OUTCOME_CANCELLED] = "Cancelled",
        [OUTCOME_DENIED] = "Denied",
        [OUTCOME_ISOLATION_FAILED] = "IsolationFailed",
    };

    if (!names[info->outcome]) {
        json_write_string(w, "error", NULL);
        return;
    }
    json_write_open(w, "error", '{');
    json_write_string(w, "name", names[info->outcome]);
    json_write_string(w, "message", info->failure ? info->failure : "");
    json_write_open(w, "traceback", '[');
    json_write_close(w, ']');
    json_write_close(w, '}');
}

/* ---- executions --------------------------------------------------------- */

/* What the events come to. The streams are joined before they are encoded,
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
        case EVENT_DONE:
            break;
        }
}

static void encode_stream(struct json_writer *w, const char *key,
                          const struct buf *bytes)
{
    json_write_text(w, key, bytes->data ? bytes->data : "", bytes->len);
}

static void encode_output(struct json_writer *w, struct execution *e,
                          const struct exec_info *info, const struct digest *d)
{
    struct exec_event event = {0};

    encode_stream(w, "stdout", &d->streams[0]);
    encode_stream(w, "stderr", &d->streams[1]);
    json_write_open(w, "truncated", '{');
    json_write_bool(w, "stdout", info->truncated_stdout);
    json_write_bool(w, "stderr", info->truncated_stderr);
    json_write_bool(w, "displays", info->truncated_displays);
    json_write_close(w, '}');
    if (d->result.number)
        encode_bundle(w, "result", &d->result);
    else
        json_write_string(w, "result", NULL);
    json_write_open(w, "displays", '[');
    while (d->displays && execution_event(e, event.number, &event))
        if (event.type == EVENT_DISPLAY)
            encode_bundle(w, NULL, &event);
    json_write_close(w, ']');
}

static void encode_limit(struct json_writer *w, const struct exec_info *info)
{
    if (!info->limit_name) {
        json_write_string(w, "limit", NULL);
        return;
    }
    json_write_open(w, "limit", '{');
    json_write_string(w, "name", info->limit_name);
    json_write_int(w, "value", (int64_t)info->limit_value);
    json_write_int(w, "peak", (int64_t)info->limit_peak);
    json_write_close(w, '}');
}

static void encode_facts(struct json_writer *w, const struct exec_info *info)
{
    encode_limit(w, info);
    json_write_string(w, "warning", info->warning);
    json_write_open(w, "usage", '{');
    json_write_int(w, "wall_ms", (int64_t)info->wall_ms);
    json_write_int(w, "cpu_ms", (int64_t)info->cpu_ms);
    json_write_int(w, "peak_memory_bytes", (int64_t)info->peak_memory_bytes);
    json_write_close(w, '}');
    native_encode_exec_files(w, info);
    native_encode_exec_network(w, info);
    if (info->language == EXEC_SHELL && info->exit_code >= 0)
        json_write_int(w, "exit_code", info->exit_code);
    if (info->approval[0])
        json_write_string(w, "approval", info->approval);
    json_write_string(w, "interpreter",
                      info->interpreter_fresh ? "fresh" : "same");
    json_write_bool(w, "interpreter_lost", info->interpreter_lost);
    json_write_int(w, "repeats", info->repeats);
    json_write_time(w, "created_at", info->created_at_ms);
    json_write_time(w, "started_at", info->started_at_ms);
    json_write_time(w, "finished_at", info->finished_at_ms);
    encode_metadata(w, info->metadata);
}

void native_encode_execution(struct execution *e, struct buf *out)
{
    struct digest d cleanup(digest_done) = {0};
    struct json_writer w = {.out = out};
    struct exec_info info;
    const char *outcome;

    execution_info(e, &info);
    digest_events(e, &d);
    outcome = info.outcome ? exec_outcome_name(info.outcome) : NULL;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "id", info.id);
    json_write_string(&w, "session", info.session);
    json_write_string(&w, "language",
                      info.language == EXEC_SHELL ? "shell" : "python");
    json_write_string(&w, "status", exec_status_name(info.status));
    json_write_string(&w, "outcome", outcome);
    encode_output(&w, e, &info, &d);
    /* A kill outranks what the run said of itself just before. */
    if (d.error.number && !info.failure)
        encode_error(&w, "error", &d.error);
    else
        encode_failure(&w, &info);
    encode_facts(&w, &info);
    if (w.replaced)
        json_write_bool(&w, "encoding_replaced", true);
    json_write_close(&w, '}');
}

void native_encode_event(struct execution *e, const struct exec_event *event,
                         const char *text, size_t text_len, struct buf *out)
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
        native_encode_execution(e, out);
        return;
    case EVENT_STATUS:
        execution_info(e, &info);
        json_write_open(&w, NULL, '{');
        json_write_string(&w, "id", info.id);
        json_write_string(&w, "session", info.session);
        json_write_text(&w, "status", event->data, event->len);
        if (info.approval[0])
            json_write_string(&w, "approval", info.approval);
        break;
    case EVENT_CLEAR:
        json_write_open(&w, NULL, '{');
        json_write_bool(&w, "wait", event->len > 0 && event->data[0]);
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
