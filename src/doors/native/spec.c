/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of the native door to the core's own specs, by tables of fields.
 * Runs on a worker of the daemon. Shapes are checked here; what a pool or a
 * tenant allows is the core's to say.
 */
#include "doors/native/native.h"

#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

#define METADATA_MAX 16384
#define FILES_MAX 1000
#define BYTES_MAX ((int64_t)1 << 50)
#define COUNT_MAX ((int64_t)1 << 30)
#define COOLDOWN_MAX_S (30 * 86400)

/* All that any of the three bodies may say. */
struct body {
    const char *pool, *name, *runtime, *code, *workspace, *identifier;
    const char *retry_of;
    json_t *limits, *metadata, *files, *network;
    int language;      /* enum exec_language */
    int mode;          /* enum native_mode */
    int approval;      /* 1: wanted in any case */
    int on_disconnect; /* enum leaving; -1: not said */
    int persistence;
    const char *sharing;
    int64_t timeout_s, cooldown_s;
};

static const char *const languages[] = {"python", "shell", NULL};
static const char *const modes[] = {"sync", "stream", "async", NULL};
static const char *const leavings[] = {"cancel", "continue", NULL};
static const char *const approvals[] = {"policy", "required", NULL};
static const char *const persistences[] = {"workspace", "ephemeral", NULL};

enum leaving {
    LEAVING_CANCEL,
    LEAVING_CONTINUE
};

enum {
    SESSION = 1,
    EXEC = 2,
    RUN = 4
};

#define AT(member) offsetof(struct body, member)

/* Every field, and which of the bodies may have it. */
static const struct {
    unsigned bodies;
    struct json_field field;
} rows[] = {
    {EXEC | RUN,
     {"language", JSON_KIND_CHOICE, false, AT(language), 0, 0, languages}},
    {EXEC | RUN,
     {"code", JSON_KIND_STRING, true, AT(code), 0, INT64_MAX, NULL}},
    {EXEC | RUN,
     {"timeout_s", JSON_KIND_INT, false, AT(timeout_s), EXEC_TIMEOUT_MIN_S, 0,
      NULL}},
    {EXEC | RUN, {"mode", JSON_KIND_CHOICE, false, AT(mode), 0, 0, modes}},
    {EXEC | RUN,
     {"on_disconnect", JSON_KIND_CHOICE, false, AT(on_disconnect), 0, 0,
      leavings}},
    {EXEC | RUN,
     {"retry_of", JSON_KIND_STRING, false, AT(retry_of), 1, ID_MAX, NULL}},
    {EXEC,
     {"approval", JSON_KIND_CHOICE, false, AT(approval), 0, 0, approvals}},
    {SESSION | RUN, {"pool", JSON_KIND_STRING, false, AT(pool), 1, 64, NULL}},
    {SESSION, {"name", JSON_KIND_STRING, false, AT(name), 1, 128, NULL}},
    {SESSION,
     {"identifier", JSON_KIND_STRING, false, AT(identifier), 1, 128, NULL}},
    {SESSION,
     {"cooldown_s", JSON_KIND_INT, false, AT(cooldown_s), 1, COOLDOWN_MAX_S,
      NULL}},
    {SESSION, {"sharing", JSON_KIND_STRING, false, AT(sharing), 1, 16, NULL}},
    {SESSION | RUN,
     {"runtime", JSON_KIND_STRING, false, AT(runtime), 1, 64, NULL}},
    {SESSION | RUN,
     {"workspace", JSON_KIND_STRING, false, AT(workspace), 1, ID_MAX, NULL}},
    {SESSION | RUN,
     {"persistence", JSON_KIND_CHOICE, false, AT(persistence), 0, 0,
      persistences}},
    {SESSION | RUN,
     {"limits", JSON_KIND_OBJECT, false, AT(limits), 0, 0, NULL}},
    {SESSION | RUN,
     {"network", JSON_KIND_OBJECT, false, AT(network), 0, 0, NULL}},
    {SESSION | EXEC | RUN,
     {"metadata", JSON_KIND_OBJECT, false, AT(metadata), 0, 0, NULL}},
    {RUN, {"files", JSON_KIND_ARRAY, false, AT(files), 0, FILES_MAX, NULL}},
};

/* ---- limits ------------------------------------------------------------- */

struct limits_body {
    int64_t memory_bytes, scratch_bytes, scratch_inodes, processes, cores,
        descriptors;
    int memory; /* index into sizes, or -1 */
};

/* The sizes people know from elsewhere. */
static const char *const sizes[] = {"1g", "4g", "16g", "64g", NULL};
static const uint64_t size_bytes[] = {1ull << 30, 4ull << 30, 16ull << 30,
                                      64ull << 30};

#define LIMIT(member) offsetof(struct limits_body, member)

static const struct json_field limits_fields[] = {
    {"memory_bytes", JSON_KIND_INT, false, LIMIT(memory_bytes), 1, BYTES_MAX,
     NULL},
    {"scratch_bytes", JSON_KIND_INT, false, LIMIT(scratch_bytes), 1, BYTES_MAX,
     NULL},
    {"scratch_inodes", JSON_KIND_INT, false, LIMIT(scratch_inodes), 1,
     COUNT_MAX, NULL},
    {"processes", JSON_KIND_INT, false, LIMIT(processes), 1, COUNT_MAX, NULL},
    {"cores", JSON_KIND_INT, false, LIMIT(cores), 1, COUNT_MAX, NULL},
    {"descriptors", JSON_KIND_INT, false, LIMIT(descriptors), 1, COUNT_MAX,
     NULL},
    {"memory", JSON_KIND_CHOICE, false, LIMIT(memory), 0, 0, sizes},
};

static int read_limits(const json_t *object, struct session_limits *ret,
                       struct error *err)
{
    struct limits_body b = {.memory = -1};
    int r =
        json_read(object, limits_fields, ARRAY_SIZE(limits_fields), &b, err);

    if (r < 0)
        return error_wrap(err, "limits");
    if (b.memory >= 0 && b.memory_bytes)
        return error_set(err, ERR_INVALID,
                         "limits: give either 'memory' or 'memory_bytes'");
    *ret = (struct session_limits){
        .memory_bytes =
            b.memory >= 0 ? size_bytes[b.memory] : (uint64_t)b.memory_bytes,
        .scratch_bytes = (uint64_t)b.scratch_bytes,
        .scratch_inodes = (uint32_t)b.scratch_inodes,
        .processes = (uint32_t)b.processes,
        .cores = (uint32_t)b.cores,
        .descriptors = (uint32_t)b.descriptors,
    };
    return 0;
}

/* ---- the three bodies --------------------------------------------------- */

/* The longest any pool grants; the session's own may say less. */
static int64_t timeout_max(const struct conf *conf)
{
    uint32_t most = EXEC_TIMEOUT_MIN_S;

    for (size_t i = 0; i < conf->pool_count; i++)
        most = MAX(most, MAX(conf->pools[i].python_timeout_max_s,
                             conf->pools[i].shell_timeout_max_s));
    return most;
}

static int read_body(struct doors_call *call, const json_t *json,
                     unsigned body, struct body *ret, struct error *err)
{
    struct json_field fields[ARRAY_SIZE(rows)];
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (!(rows[i].bodies & body))
            continue;
        fields[count] = rows[i].field;
        if (fields[count].offset == AT(timeout_s))
            fields[count].max = timeout_max(call->doors->conf);
        count++;
    }
    return json_read(json, fields, count, ret, err);
}

/* An object as text again, in the request's arena. */
static int metadata_text(struct doors_call *call, const json_t *object,
                         const char **ret, struct error *err)
{
    char *text cleanup(mem_free) = NULL;

    if (!object)
        return 0;
    text = json_dumps(object, JSON_COMPACT);
    if (!text)
        return error_set(err, ERR_INTERNAL, "metadata cannot be written");
    if (strlen(text) > METADATA_MAX)
        return error_set(err, ERR_INVALID,
                         "field 'metadata' must not be longer than %d bytes "
                         "as JSON",
                         METADATA_MAX);
    *ret = arena_strdup(http_arena(call->http), text);
    return 0;
}

/* What it may reach, in the request's arena. */
static int read_network(struct doors_call *call, const json_t *object,
                        const struct session_network **ret, struct error *err)
{
    struct arena *arena = http_arena(call->http);
    struct session_network *net = arena_alloc(arena, sizeof(*net));
    int r = session_network_read(object, arena, net, err);

    if (r < 0)
        return error_wrap(err, "network");
    *ret = net;
    return 0;
}

int native_spec_sharing(const char *text, enum session_sharing *ret,
                        struct error *err)
{
    if (session_sharing_parse(text, ret) < 0 ||
        *ret == SESSION_SHARING_DEFAULT)
        return error_set(err, ERR_INVALID,
                         "field 'sharing' must be 'principal' or 'tenant'");
    return 0;
}

static int to_session(struct doors_call *call, const struct body *b,
                      struct session_spec *ret, struct error *err)
{
    *ret = (struct session_spec){.pool = b->pool,
                                 .name = b->name,
                                 .runtime = b->runtime,
                                 .workspace = b->workspace,
                                 .identifier = b->identifier,
                                 .cooldown_s = (uint32_t)b->cooldown_s,
                                 .ephemeral = b->persistence == 1};
    if (b->sharing && native_spec_sharing(b->sharing, &ret->sharing, err) < 0)
        return -(int)err->code;
    if (ret->ephemeral && ret->workspace)
        return error_set(err, ERR_INVALID,
                         "an ephemeral session has no workspace to share");
    if (b->network && read_network(call, b->network, &ret->network, err) < 0)
        return -(int)err->code;
    return b->limits ? read_limits(b->limits, &ret->limits, err) : 0;
}

/* The first of two names that is a string there. */
static int find_mark(const json_t *metadata, const char *name,
                     const char *other, const char **ret, struct error *err)
{
    const json_t *value = json_object_get(metadata, name);

    if (!json_is_string(value))
        value = json_object_get(metadata, other);
    if (!json_is_string(value))
        return 0;
    if (json_string_length(value) > NATIVE_NOTE_MAX)
        return error_set(err, ERR_INVALID,
                         "metadata.%s must not be longer than %u bytes", name,
                         NATIVE_NOTE_MAX);
    *ret = json_string_value(value);
    return 0;
}

/* Who waits for a synchronous one and goes away wants it no more, unless it
 * was said that it shall go on. Others can be asked for later. */
static int read_leaving(struct doors_call *call, const struct body *b,
                        struct exec_spec *ret, struct error *err)
{
    bool sync = b->mode == NATIVE_SYNC;

    if (!sync && b->on_disconnect == LEAVING_CANCEL) {
        (void)error_set(err, ERR_INVALID,
                        "field 'on_disconnect' can be 'cancel' only for mode "
                        "'sync'");
        return error_hint(err, "cancel it by its id");
    }
    if (sync && b->on_disconnect != LEAVING_CONTINUE) {
        ret->left = doors_left;
        ret->left_ctx = call->http;
    }
    return 0;
}

static int to_execution(struct doors_call *call, const struct body *b,
                        struct exec_spec *ret, enum native_mode *ret_mode,
                        struct error *err)
{
    struct native_locks *locks =
        arena_alloc(http_arena(call->http), sizeof(*locks));
    int r = native_ask_locks(call, locks, err);

    *ret = (struct exec_spec){
        .language = (enum exec_language)b->language,
        .code = b->code,
        .code_len = strlen(b->code),
        .timeout_s = (uint32_t)b->timeout_s,
        .lock_tokens = locks->tokens,
        .lock_count = locks->count,
        .retry_of = b->retry_of,
        .ask = b->approval == 1,
    };
    *ret_mode = (enum native_mode)b->mode;
    if (r == 0)
        r = read_leaving(call, b, ret, err);
    if (r == 0 && b->retry_of && !ids_valid("exec", b->retry_of))
        r = error_set(err, ERR_INVALID,
                      "field 'retry_of' must be the id of an execution "
                      "(exec_…)");
    if (r == 0)
        r = find_mark(b->metadata, "conversation", "conversation_id",
                      &ret->conversation, err);
    if (r == 0)
        r = find_mark(b->metadata, "message", "message_id", &ret->message,
                      err);
    return r < 0 ? r : metadata_text(call, b->metadata, &ret->metadata, err);
}

int native_spec_session(struct doors_call *call, const json_t *body,
                        struct session_spec *ret, struct error *err)
{
    struct body b = {0};
    int r = read_body(call, body, SESSION, &b, err);

    if (r == 0)
        r = to_session(call, &b, ret, err);
    ret->left = doors_left;
    ret->left_ctx = call->http;
    return r < 0 ? r : metadata_text(call, b.metadata, &ret->metadata, err);
}

int native_spec_execution(struct doors_call *call, const json_t *body,
                          struct exec_spec *ret, enum native_mode *ret_mode,
                          struct error *err)
{
    struct body b = {.on_disconnect = -1};
    int r = read_body(call, body, EXEC, &b, err);

    if (r < 0)
        return r;
    return to_execution(call, &b, ret, ret_mode, err);
}

int native_spec_run(struct doors_call *call, const json_t *body,
                    struct session_spec *ret_session,
                    struct exec_spec *ret_exec, enum native_mode *ret_mode,
                    json_t **ret_files, struct error *err)
{
    struct body b = {.on_disconnect = -1};
    int r = read_body(call, body, RUN, &b, err);

    if (r < 0)
        return r;
    *ret_files = b.files;
    r = to_execution(call, &b, ret_exec, ret_mode, err);
    if (r == 0)
        r = to_session(call, &b, ret_session, err);
    ret_session->transient = true;
    ret_session->left = ret_exec->left;
    ret_session->left_ctx = ret_exec->left_ctx;
    return r;
}
