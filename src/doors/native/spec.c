/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of the native door to the core's own specs, by tables of fields.
 * Runs on a worker of the daemon. Shapes are checked here; what a pool or a
 * tenant allows is the core's to say.
 */
#include "doors/native/native.h"

#include <string.h>

#include "api/api.h"
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
    int sharing; /* enum session_sharing; 0: not said */
    int64_t timeout_s, cooldown_s;
    bool input;
};

static const char *const modes[] = {"sync", "stream", "async", NULL};
static const char *const run_modes[] = {"sync", "stream", NULL};
static const char *const leavings[] = {"cancel", "continue", NULL};
static const char *const approvals[] = {"policy", "required", NULL};

enum leaving {
    LEAVING_CANCEL,
    LEAVING_CONTINUE
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

#define LIMIT(member) API_AT(struct limits_body, member)

static const struct api_field limits_spec_fields[] = {
    {"memory_bytes", API_INT, LIMIT(memory_bytes), .min = 1, .max = BYTES_MAX},
    {"memory", API_CHOICE, LIMIT(memory), .choices = sizes,
     .help = "instead of memory_bytes"},
    {"processes", API_INT, LIMIT(processes), .min = 1, .max = COUNT_MAX},
    {"cores", API_INT, LIMIT(cores), .min = 1, .max = COUNT_MAX},
    {"scratch_bytes", API_INT, LIMIT(scratch_bytes), .min = 1,
     .max = BYTES_MAX},
    {"scratch_inodes", API_INT, LIMIT(scratch_inodes), .min = 1,
     .max = COUNT_MAX},
    {"descriptors", API_INT, LIMIT(descriptors), .min = 1, .max = COUNT_MAX},
};
API_INPUT(native_limits_spec, "LimitsSpec", struct limits_body,
          limits_spec_fields, "What a session asks for; else its pool's.");

static int read_limits(const json_t *object, struct session_limits *ret,
                       struct error *err)
{
    struct limits_body b = {.memory = -1};
    int r = api_read(object, &native_limits_spec, &b, err);

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

#define BODY(member) API_AT(struct body, member)
#define SHARED_HELP "a workspace to share; else one of its own"
/* Where it runs; sessions and runs. */
#define POOL_FIELD                                                            \
    {                                                                         \
        "pool", API_STRING, BODY(pool),                                       \
            .min = 1, .max = 64, .help = "name of a pool; else the first"     \
    }
#define PLACE_FIELDS                                                          \
    {"runtime",     API_STRING,                                               \
     BODY(runtime), .min = 1,                                                 \
     .max = 64,     .help = "the pool's, or one that another pool has"},      \
        {"workspace", API_STRING,    BODY(workspace),                         \
         .min = 1,    .max = ID_MAX, .help = SHARED_HELP},                    \
        {"persistence", API_CHOICE, BODY(persistence),                        \
         .choices = native_persistences,                                      \
         .help = "ephemeral keeps nothing; else as the pool"},                \
        {"limits", API_OBJECT, BODY(limits), .of = &native_limits_spec},      \
    {                                                                         \
        "network", API_OBJECT, BODY(network), .of = &network_resource,        \
                                              .help = "else the pool's"       \
    }
/* What runs; executions and runs. */
#define CODE_FIELDS(modes_)                                                   \
    {"code", API_STRING, API_REQUIRED, BODY(code), .max = INT64_MAX},         \
        {"language", API_CHOICE, API_DEFAULT, BODY(language),                 \
         .choices = language_names},                                          \
        {"timeout_s",                                                         \
         API_INT,                                                             \
         BODY(timeout_s),                                                     \
         .min = EXEC_TIMEOUT_MIN_S,                                           \
         .max = POOL_TIMEOUT_MAX_S,                                           \
         .help = "at most what the pool allows; else its default"},           \
    {                                                                         \
        "mode", API_CHOICE, API_DEFAULT, BODY(mode), .choices = (modes_)      \
    }
#define END_FIELDS                                                            \
    {"metadata", API_OBJECT, BODY(metadata),                                  \
     .help = "its conversation and message are kept with every file made"},   \
        {"on_disconnect", API_CHOICE, BODY(on_disconnect),                    \
         .choices = leavings,                                                 \
         .help = "sync only: what becomes of it when the client goes away"},  \
    {                                                                         \
        "retry_of", API_STRING, BODY(retry_of),                               \
            .min = 1, .max = ID_MAX, .help = "exec_… this tries again"      \
    }

static const struct api_field session_spec_fields[] = {
    POOL_FIELD,
    {"name", API_STRING, BODY(name), .min = 1, .max = 128},
    {"identifier", API_STRING, BODY(identifier), .min = 1, .max = 128,
     .help =
         "a name of yours, unique in the pool: printable ASCII, no blanks"},
    {"cooldown_s", API_INT, BODY(cooldown_s), .min = 1, .max = COOLDOWN_MAX_S,
     .help = "idle until it expires; else the pool's"},
    {"sharing", API_CHOICE, BODY(sharing), .min = SESSION_SHARING_PRINCIPAL,
     .choices = native_sharings,
     .help = "who in the tenant sees it; else by the pool, the tenant, the "
             "API"},
    PLACE_FIELDS,
    {"metadata", API_OBJECT, BODY(metadata),
     .help = "comes back as it is; 16 KiB"},
};
API_INPUT(native_session_spec, "SessionSpec", struct body, session_spec_fields,
          "A session to be made.");

#define INPUT_FIELD                                                           \
    {                                                                         \
        "input", API_BOOL, BODY(input),                                       \
            .help = "the client answers input(), see input_request"           \
    }

static const struct api_field execution_spec_fields[] = {
    CODE_FIELDS(modes),
    INPUT_FIELD,
    {"approval", API_CHOICE, API_DEFAULT, BODY(approval), .choices = approvals,
     .help = "required: hold it for a person even where policy would not"},
    END_FIELDS,
};
API_INPUT(native_execution_spec, "ExecutionSpec", struct body,
          execution_spec_fields, "Code to run.");

static const struct api_field run_spec_fields[] = {
    CODE_FIELDS(run_modes),
    INPUT_FIELD,
    POOL_FIELD,
    PLACE_FIELDS,
    END_FIELDS,
    {"files", API_ARRAY, BODY(files), .max = FILES_MAX,
     .of = &native_run_file_spec, .help = "put below /mnt/data first"},
};
API_INPUT(native_run_spec, "RunSpec", struct body, run_spec_fields,
          "Code to run in a session of its own.");

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
                        const struct network_spec **ret, struct error *err)
{
    struct arena *arena = http_arena(call->http);
    struct network_spec *net = arena_alloc(arena, sizeof(*net));
    int r = network_spec_read(object, arena, net, err);

    if (r < 0)
        return error_wrap(err, "network");
    *ret = net;
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
                                 .sharing = (enum session_sharing)b->sharing,
                                 .ephemeral = b->persistence == 1};
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

/* A synchronous execution is cancelled when its client disconnects, unless the
 * request says otherwise. Others can be fetched later. */
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
        .language = language_canonical((unsigned)b->language),
        .code = b->code,
        .code_len = strlen(b->code),
        .timeout_s = (uint32_t)b->timeout_s,
        .lock_tokens = locks->tokens,
        .lock_count = locks->count,
        .retry_of = b->retry_of,
        .input = b->input,
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
    int r = api_read(body, &native_session_spec, &b, err);

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
    int r = api_read(body, &native_execution_spec, &b, err);

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
    int r = api_read(body, &native_run_spec, &b, err);

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
