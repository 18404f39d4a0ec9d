/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of an execution as an answer for a model: text first, because
 * many clients show nothing else, then images, then a link for each file, and
 * the same again structured. Output that is too long for a model is cut, and
 * the whole is stored as a file of the session. Connections that were blocked
 * are reported in one sentence, so that the model does not retry them. Runs on
 * a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/mime.h"
#include "doors/mcp/tool.h"

#define RESULT_CHARS 4000u
#define TRACEBACK_CHARS 4000u
#define MESSAGE_CHARS 1000u
#define IMAGES_MAX 8u
#define IMAGE_BYTES_MAX (1u << 20)
/* All together, in base64 and with the text, within what readers of stdio
 * accept as one message (10 MiB). */
#define IMAGES_BYTES_MAX (6u << 20)
#define OUTPUTS TOOL_KEPT_FOLDER "/outputs"
#define LOCKED_MESSAGE                                                        \
    "the code ran, but a lock kept files from being stored in the workspace"
#define LOCKED_ADVICE                                                         \
    "They are only in this session so far; the next execution after the "     \
    "lock ends stores them. " TOOL_LOCKED_ADVICE

/* One text of the execution. */
struct part {
    const char *name; /* as in "truncated" */
    const char *text;
    size_t len;
    size_t most; /* characters shown */
    size_t left_out;
    struct buf shown;
    uint64_t total;   /* bytes that were written; 0: len */
    const char *tail; /* of a stream that was not kept whole, or NULL */
    size_t tail_len;
};

enum {
    PART_STDOUT,
    PART_STDERR,
    PART_RESULT,
    PART_TRACEBACK,
    PARTS
};

struct result {
    struct mcp_call *call;
    const struct session_info *session;
    struct exec_info info;
    struct exec_digest outcome;
    struct buf output; /* stdout with what was displayed */
    size_t shown_last; /* bytes at its end displayed after all of stdout */
    struct part parts[PARTS];
    const char *kept;        /* the file with the whole, or NULL */
    struct buf message;      /* of the error, cut */
    struct tool_file *files; /* arena */
    size_t file_count;       /* those of the execution, then our own */
    size_t files_more;       /* changed by the execution, but not in files */
    bool is_inline[EXEC_IMAGES_MAX];
    size_t inlined;
};

/* ---- reading it --------------------------------------------------------- */

static void read_parts(struct result *r)
{
    const struct exec_digest *o = &r->outcome;
    const struct buf *traceback = o->brief.len ? &o->brief : &o->traceback;

    execution_digest_output(o, &r->output, &r->shown_last);
    r->shown_last = r->output.len - r->shown_last;
    r->parts[PART_STDOUT] = (struct part){.name = "stdout",
                                          .text = r->output.data,
                                          .len = r->output.len,
                                          .most = TOOL_STDOUT_CHARS};
    r->parts[PART_STDERR] = (struct part){.name = "stderr",
                                          .text = o->stderr_text.data,
                                          .len = o->stderr_text.len,
                                          .most = TOOL_STDERR_CHARS};
    r->parts[PART_RESULT] = (struct part){.name = "result",
                                          .text = o->result_text,
                                          .len = o->result_text_len,
                                          .most = RESULT_CHARS};
    r->parts[PART_TRACEBACK] = (struct part){.name = "traceback",
                                             .text = traceback->data,
                                             .len = traceback->len,
                                             .most = TRACEBACK_CHARS};
    for (size_t i = 0; i < PARTS; i++)
        if (!r->parts[i].text)
            r->parts[i].text = "";
    for (size_t i = 0; i < ARRAY_SIZE(r->info.output); i++) {
        const struct exec_output *out = &r->info.output[i];
        struct part *p = &r->parts[i ? PART_STDERR : PART_STDOUT];

        p->total = out->bytes;
        if (p->total && i == 0)
            p->total += r->output.len - o->stdout_text.len;
        p->tail = out->tail;
        p->tail_len = out->tail_len;
    }
}

static bool part_is_long(const struct part *p)
{
    return tool_text_chars(p->text, p->len) > p->most;
}

static const char *const fates[] = {
    [EXEC_FILE_DONE] = NULL,
    [EXEC_FILE_CONFLICT] = "conflict",
    [EXEC_FILE_KEPT] = "kept",
    [EXEC_FILE_LOCKED] = "locked",
    [EXEC_FILE_QUOTA] = "storage_full",
    [EXEC_FILE_REFUSED] = "forbidden",
    [EXEC_FILE_SKIPPED] = "skipped",
};

/* Did a lock keep a file of code that ended well from being stored? */
static bool is_locked_out(const struct exec_info *info)
{
    if (info->outcome == OUTCOME_OK)
        for (size_t i = 0; i < info->file_count; i++)
            if (info->files[i].fate == EXEC_FILE_LOCKED)
                return true;
    return false;
}

static void add_file(struct result *r, const struct exec_file_change *c)
{
    if (r->file_count == TOOL_FILES_MAX) {
        r->files_more++;
        return;
    }
    r->files[r->file_count++] = (struct tool_file){
        .path = c->path,
        .change = c->change,
        .why = c->fate == EXEC_FILE_DONE ? NULL : c->why,
        .status = fates[c->fate],
        .wanted = c->wanted,
        .size = c->size,
        .file = c->file,
        .version = c->version,
        .sha256 = c->sha256,
        .mime = c->mime,
    };
}

/* Files that were not stored as requested come first: the model has to act on
 * them, so they must not be among those that the answer only counts. */
static void read_files(struct result *r)
{
    const struct exec_info *info = &r->info;

    r->files =
        arena_alloc(r->call->arena, (TOOL_FILES_MAX + 1 + EXEC_IMAGES_MAX) *
                                        sizeof(*r->files));
    for (size_t i = 0; i < info->file_count; i++)
        if (info->files[i].fate != EXEC_FILE_DONE)
            add_file(r, &info->files[i]);
    for (size_t i = 0; i < info->file_count; i++)
        if (info->files[i].fate == EXEC_FILE_DONE)
            add_file(r, &info->files[i]);
}

/* ---- keeping what is too long ------------------------------------------- */

/* NULL: there was no room, or it could not be; the answer is cut all the
 * same and does not promise a file. */
static const char *store_output(struct result *r, const char *path,
                                const void *bytes, size_t len)
{
    struct arena *arena = r->call->arena;
    struct session_file made = {.path = NULL};
    struct error ignored;

    if (tool_keep(r->call, r->session->id, path, bytes, len, &made, &ignored) <
        0)
        return NULL;
    r->files[r->file_count++] = (struct tool_file){
        .path = arena_strdup(arena, made.path),
        .change = "created",
        .size = made.size,
        .file = arena_strdup(arena, made.file),
        .version = arena_strdup(arena, made.version),
        .sha256 = arena_strdup(arena, made.sha256),
        .mime = mime_of_path(path),
    };
    free(made.path);
    return r->files[r->file_count - 1].path;
}

/* One file for all: as it is when there is one text, else with headings. */
static void store_long_parts(struct result *r)
{
    struct buf all cleanup(buf_done) = {0};
    size_t count = 0;

    for (size_t i = 0; i < PARTS; i++)
        count += part_is_long(&r->parts[i]);
    if (!count)
        return;
    for (size_t i = 0; i < PARTS; i++) {
        const struct part *p = &r->parts[i];

        if (!part_is_long(p))
            continue;
        if (count > 1)
            buf_addf(&all, "%s=== %s ===\n", all.len ? "\n" : "", p->name);
        buf_add(&all, p->text, p->len);
    }
    r->kept = store_output(
        r, arena_printf(r->call->arena, OUTPUTS "/%s.txt", r->info.id),
        all.data, all.len);
}

/* The beginning of a stream and its true end, although what is between was
 * not kept; then what was displayed after it. */
static void cut_truncated(struct result *r, struct part *p)
{
    struct buf end cleanup(buf_done) = {0};
    size_t last = p == &r->parts[PART_STDOUT] ? r->shown_last : 0;
    size_t most = p->most / 2, from = 0, head, chars;

    while (from < p->tail_len && (p->tail[from] & 0xc0) == 0x80)
        from++; /* not in the middle of a character */
    execution_digest_plain(&end, p->tail + from, p->tail_len - from);
    buf_adds(&end, "");
    chars = tool_text_chars(end.data, end.len);
    head = tool_text_offset(p->text, p->len, most);
    from =
        chars > most ? tool_text_offset(end.data, end.len, chars - most) : 0;
    p->left_out = (size_t)(p->total - head - (end.len - from) - last);
    buf_add(&p->shown, p->text, head);
    buf_addf(&p->shown, "\n[… %zu of %llu bytes are left out here",
             p->left_out, (unsigned long long)p->total);
    if (r->kept)
        buf_addf(&p->shown, "; the first %zu are in /mnt/data/%s",
                 p->len - last, r->kept);
    buf_adds(&p->shown, " …]\n");
    buf_add(&p->shown, end.data + from, end.len - from);
    if (last && p->shown.data[p->shown.len - 1] != '\n')
        buf_adds(&p->shown, "\n");
    (void)tool_text_cut(&p->shown, p->text + p->len - last, last, p->most,
                        r->kept);
}

static void cut_parts(struct result *r)
{
    for (size_t i = 0; i < PARTS; i++) {
        struct part *p = &r->parts[i];

        if (p->tail && p->total > p->len)
            cut_truncated(r, p);
        else
            p->left_out =
                tool_text_cut(&p->shown, p->text, p->len, p->most, r->kept);
        buf_adds(&p->shown, "");
    }
    (void)tool_text_cut(&r->message, r->outcome.error_message,
                        r->outcome.error_message_len, MESSAGE_CHARS, NULL);
    buf_adds(&r->message, "");
}

/* ---- pictures ----------------------------------------------------------- */

static const char *image_extension(const char *type)
{
    if (strcmp(type, "image/jpeg") == 0)
        return "jpg";
    if (strcmp(type, "image/svg+xml") == 0)
        return "svg";
    return strchr(type, '/') + 1;
}

/* Which go into the answer, as far as clients can take them; the others go
 * into files. */
static void place_images(struct result *r)
{
    size_t bytes = 0;

    for (size_t i = 0; i < r->outcome.image_count; i++) {
        const struct exec_image *image = &r->outcome.images[i];
        bool drawn = strcmp(image->type, "image/svg+xml") == 0;

        if (!drawn && r->inlined < IMAGES_MAX &&
            image->len <= IMAGE_BYTES_MAX &&
            bytes + image->len <= IMAGES_BYTES_MAX) {
            r->is_inline[i] = true;
            r->inlined++;
            bytes += image->len;
            continue;
        }
        (void)store_output(r,
                           arena_printf(r->call->arena, OUTPUTS "/%s-%zu.%s",
                                        r->info.id, i + 1,
                                        image_extension(image->type)),
                           image->data, image->len);
    }
}

static void show_images(const struct result *r, struct mcp_answer *a)
{
    for (size_t i = 0; i < r->outcome.image_count; i++)
        if (r->is_inline[i])
            mcp_answer_image(a, r->outcome.images[i].type,
                             r->outcome.images[i].data,
                             r->outcome.images[i].len);
}

/* ---- blocked connections ------------------------------------------------ */

#define SAID_MAX 5u
#define LISTED_MAX 20u

#define CONNECTION(member) API_AT(struct network_connection, member)

static const struct api_field connection_fields[] = {
    {"what", API_STRING, CONNECTION(what)},
    {"host", API_STRING, CONNECTION(host)},
    {"port", API_INT, API_NULLABLE, CONNECTION(port)},
    {"count", API_INT, CONNECTION(count)},
    {"reason", API_STRING, CONNECTION(reason)},
};
static API_OUTPUT(connection_resource, "connection", struct network_connection,
                  connection_fields, NULL);

static bool is_blocked(const struct exec_info *info, size_t *at)
{
    while (*at < info->connection_count && info->connections[*at].allowed)
        ++*at;
    return *at < info->connection_count;
}

static void write_blocked(struct buf *out, const struct exec_info *info)
{
    size_t said = 0;

    for (size_t i = 0; is_blocked(info, &i); i++) {
        const struct network_connection *c = &info->connections[i];

        if (said++ == SAID_MAX) {
            buf_adds(out, ", …");
            break;
        }
        buf_adds(out, said == 1 ? "Blocked by the sandbox: " : ", ");
        buf_adds(out, c->host);
        if (c->port)
            buf_addf(out, ":%u", c->port);
        if (c->count > 1)
            buf_addf(out, " (%u times)", c->count);
    }
    if (said)
        buf_adds(out, info->egress == SESSION_EGRESS_NONE
                          ? ". This session has no network; trying again does "
                            "not help.\n"
                          : ". This session may reach only what it was "
                            "granted.\n");
}

/* ---- in words ----------------------------------------------------------- */

const char *tool_result_advice(const struct exec_info *info)
{
    switch (info->outcome) {
    case OUTCOME_TIMEOUT:
        return "Do less per call, or give a larger timeout.";
    case OUTCOME_OOM:
        return "Use less memory: read files in pieces and drop what is not "
               "needed.";
    case OUTCOME_LIMIT:
        return "Stay below the limit that the message names.";
    case OUTCOME_KILLED:
    case OUTCOME_LOST:
    case OUTCOME_CRASHED:
        return "The next call starts with a new interpreter: define "
               "variables again.";
    case OUTCOME_CANCELLED:
        return "It was stopped; run it again if it is still wanted.";
    case OUTCOME_DENIED:
        return "The message says what does not allow it: a policy or a "
               "person, then do not try it again; or a workspace, then write "
               "elsewhere.";
    case OUTCOME_ISOLATION_FAILED:
        return "Nothing ran; try again later.";
    case OUTCOME_NONE:
    case OUTCOME_OK:
    case OUTCOME_ERROR:
        return "";
    }
    return "";
}

static const char *interpreter_state(const struct exec_info *info)
{
    if (info->interpreter_lost)
        return "lost";
    if (info->interpreter == SESSION_INTERPRETER_WOKEN)
        return "woken";
    return info->interpreter_fresh ? "new" : "kept";
}

static void write_part(struct buf *out, const char *heading,
                       const struct part *p)
{
    if (!p->len)
        return;
    buf_addf(out, "%s:\n", heading);
    buf_add(out, p->shown.data, p->shown.len);
    if (p->shown.data[p->shown.len - 1] != '\n')
        buf_adds(out, "\n");
}

static void write_error(struct result *r, struct buf *out)
{
    const struct exec_digest *o = &r->outcome;

    if (r->parts[PART_TRACEBACK].len)
        write_part(out, "error", &r->parts[PART_TRACEBACK]);
    else if (o->has_error && !r->info.failure && r->info.exit_code < 0)
        buf_addf(out, "error: %.*s: %s\n", (int)MIN(o->error_name_len, 200u),
                 o->error_name, r->message.data);
    if (r->info.failure)
        buf_addf(out, "%s\n", r->info.failure);
    if (r->info.warning)
        buf_addf(out, "warning: %s\n", r->info.warning);
}

static void write_status_line(struct result *r, struct buf *out)
{
    const struct exec_info *info = &r->info;
    bool locked = is_locked_out(info);
    const char *advice = locked ? LOCKED_ADVICE : tool_result_advice(info);

    buf_addf(out, "[status: %s",
             locked ? "locked" : exec_outcome_name(info->outcome));
    if (info->exit_code >= 0)
        buf_addf(out, ", exit code %d", info->exit_code);
    buf_addf(out, ", %.2f s, session_id: %s]\n", (double)info->wall_ms / 1000,
             r->session->id);
    if (advice[0])
        buf_addf(out, "%s\n", advice);
    if (info->truncated_stdout || info->truncated_stderr)
        buf_adds(out, "There was more output than is kept of one execution; "
                      "write long output to a file instead.\n");
    if (info->truncated_displays)
        buf_adds(out, "More was displayed than is kept of one execution; "
                      "save large objects to files instead.\n");
    if (info->exit_code < 0 && info->interpreter_lost)
        buf_adds(out, "The interpreter is gone with its variables; files are "
                      "kept.\n");
}

static void write_files(struct result *r, struct buf *out)
{
    if (r->file_count)
        buf_adds(out, "files:\n");
    for (size_t i = 0; i < r->file_count; i++)
        tool_file_say(out, &r->files[i]);
    if (r->files_more)
        buf_addf(out,
                 "%s%zu more changed files are not listed here: call "
                 "list_files, with sort newest\n",
                 r->info.files_truncated ? "at least " : "", r->files_more);
    if (r->info.files_not_kept)
        buf_addf(out,
                 "%zu of the session's files are not kept: they are gone when "
                 "it sleeps. Make room, or remove them.\n",
                 r->info.files_not_kept);
}

static void write_words(struct result *r, struct mcp_answer *a)
{
    struct buf text cleanup(buf_done) = {0};

    if (r->info.notice)
        buf_addf(&text, "%s\n", r->info.notice);
    write_part(&text, "stdout", &r->parts[PART_STDOUT]);
    write_part(&text, "stderr", &r->parts[PART_STDERR]);
    if (r->outcome.has_result)
        write_part(&text, "result", &r->parts[PART_RESULT]);
    write_error(r, &text);
    write_files(r, &text);
    if (r->inlined)
        buf_addf(&text, "images: %zu, shown below\n", r->inlined);
    if (r->outcome.images_left_out)
        buf_addf(&text, "%zu more images are left out\n",
                 r->outcome.images_left_out);
    write_blocked(&text, &r->info);
    write_status_line(r, &text);
    mcp_answer_text_of(a, r->session->id, text.data, text.len);
}

/* ---- structured --------------------------------------------------------- */

struct run_error {
    const struct buf *name, *message, *traceback;
};

#define RUN_ERROR(member) API_AT(struct run_error, member)

static const struct api_field run_error_fields[] = {
    {"name", API_STRING, RUN_ERROR(name)},
    {"message", API_STRING, RUN_ERROR(message)},
    {"traceback", API_STRING, RUN_ERROR(traceback)},
};
static API_OUTPUT(run_error, "error", struct run_error, run_error_fields,
                  NULL);

struct run_truncated {
    const char *what, *file;
    uint64_t characters, bytes, left_out;
};

#define TRUNCATED(member) API_AT(struct run_truncated, member)

static const struct api_field run_truncated_fields[] = {
    {"what", API_STRING, TRUNCATED(what)},
    {"characters", API_INT, TRUNCATED(characters), .help = "Stored"},
    {"bytes", API_INT, TRUNCATED(bytes), .help = "Written in total"},
    {"left_out", API_INT, TRUNCATED(left_out)},
    {"file", API_STRING, API_NULLABLE, TRUNCATED(file),
     .help = "The file with all of it"},
};
static API_OUTPUT(run_truncated, "truncated", struct run_truncated,
                  run_truncated_fields, NULL);

struct run_network {
    const char *mode;
    const struct network_connection *blocked;
    size_t blocked_count;
};

static const struct api_field run_network_fields[] = {
    {"mode", API_STRING, API_AT(struct run_network, mode)},
    {"blocked", API_ARRAY,
     API_LIST(struct run_network, blocked, blocked_count),
     .of = &connection_resource},
};
static API_OUTPUT(run_network, "network", struct run_network,
                  run_network_fields, "Only if a connection was blocked");

struct run_answer {
    struct tool_run_status status;
    const char *environment;              /* of an Azure tool */
    const struct approval_info *approval; /* of check_approval */
    const char *warning, *notice, *interpreter;
    int32_t exit_code; /* -1: none */
    const struct buf *stdout_text, *stderr_text, *result;
    const struct run_error *error;
    const struct run_truncated *truncated;
    size_t truncated_count;
    uint64_t duration_ms, images;
    const struct run_network *network;
    const struct tool_file_view *files;
    size_t file_count;
    uint64_t files_more;
};

static bool has_more_files(const void *object)
{
    return ((const struct run_answer *)object)->files_more > 0;
}

static const char *const interpreters[] = {"kept", "woken", "new", "lost",
                                           NULL};

#define RUN(member) API_AT(struct run_answer, member)
#define RUN_FIELDS                                                            \
    {"warning", API_STRING, API_OPTIONAL, RUN(warning),                       \
     .help = "A limit that the code reached but survived"},                   \
        {"notice", API_STRING, API_OPTIONAL, RUN(notice),                     \
         .help = "Variables of earlier calls are gone, and why"},             \
        {"exit_code", API_INT, API_NULLABLE, RUN(exit_code), .none = -1},     \
        {"stdout", API_STRING, RUN(stdout_text),                              \
         .help = "What was printed, with displays in their place"},           \
        {"stderr", API_STRING, RUN(stderr_text)},                             \
        {"result", API_STRING, API_NULLABLE, RUN(result),                     \
         .help = "Value of the last expression"},                             \
        {"error", API_OBJECT, API_NULLABLE,                                   \
         API_POINTER(struct run_answer, error), .of = &run_error},            \
        {"truncated", API_ARRAY,                                              \
         API_LIST(struct run_answer, truncated, truncated_count),             \
         .of = &run_truncated},                                               \
        {"duration_ms", API_INT, RUN(duration_ms)},                           \
        {"interpreter", API_CHOICE, RUN(interpreter),                         \
         .choices = interpreters,                                             \
         .help = "woken: the session slept and its variables are back; new: " \
                 "variables of earlier calls are lost; lost: those of "       \
                 "this call as well"},                                        \
        {"images", API_INT, RUN(images)},                                     \
        {"network", API_OBJECT, API_OPTIONAL,                                 \
         API_POINTER(struct run_answer, network), .of = &run_network},        \
        {"files", API_ARRAY, API_LIST(struct run_answer, files, file_count),  \
         .of = &tool_file_resource},                                          \
    {                                                                         \
        "files_more", API_INT, API_OPTIONAL, RUN(files_more),                 \
            .when = has_more_files,                                           \
            .help = "Changed files that are not in files; list_files has "    \
                    "them"                                                    \
    }

static const struct api_field run_fields[] = {RUN_FIELDS};
TOOL_RUN_OUTPUT(execute_python, struct run_answer, run_fields);
TOOL_RUN_OUTPUT(run_shell, struct run_answer, run_fields);
TOOL_RUN_OUTPUT(run_code, struct run_answer, run_fields);

/* For Azure a session is an environment. */
static const struct api_field remote_fields[] = {
    {"environmentId", API_STRING, RUN(environment)},
    RUN_FIELDS,
};
TOOL_RUN_OUTPUT(run_python_remote, struct run_answer, remote_fields);
TOOL_RUN_OUTPUT(run_shell_remote, struct run_answer, remote_fields);

/* Of an execution that was approved and has ended; before that the answer has
 * the fields of decide_approval. */
static const struct api_field approved_fields[] = {
    {"approval", API_OBJECT, API_OPTIONAL,
     API_POINTER(struct run_answer, approval), .of = &approval_resource,
     .help = "state is pending, approved, denied, expired or withdrawn"},
    RUN_FIELDS,
};
TOOL_RUN_OUTPUT(check_approval, struct run_answer, approved_fields);

static void write_structured(const struct result *r,
                             const struct api_resource *output,
                             struct mcp_answer *ret)
{
    const struct exec_digest *o = &r->outcome;
    const struct exec_info *info = &r->info;
    bool locked = is_locked_out(info);
    const struct part *p = r->parts;
    struct buf name = {.data = (char *)(uintptr_t)o->error_name,
                       .len = MIN(o->error_name_len, (size_t)200)};
    struct run_error error = {&name, &r->message, &p[PART_TRACEBACK].shown};
    struct network_connection blocked[LISTED_MAX];
    struct run_network network = {session_egress_name(info->egress), blocked,
                                  0};
    struct run_truncated truncated[PARTS];
    struct tool_file_view *files =
        arena_alloc(r->call->arena, (r->file_count + 1) * sizeof(*files));
    struct run_answer answer = {
        .status = {{locked ? "locked" : exec_outcome_name(info->outcome),
                    locked ? LOCKED_MESSAGE : info->failure,
                    locked ? LOCKED_ADVICE : tool_result_advice(info)},
                   r->session->id,
                   info->id,
                   NULL},
        .environment = r->session->id,
        .warning = info->warning,
        .notice = info->notice,
        .interpreter = interpreter_state(info),
        .exit_code = info->exit_code < 0 ? -1 : info->exit_code,
        .stdout_text = &p[PART_STDOUT].shown,
        .stderr_text = &p[PART_STDERR].shown,
        .result = o->has_result ? &p[PART_RESULT].shown : NULL,
        .error = o->has_error ? &error : NULL,
        .truncated = truncated,
        .duration_ms = (uint64_t)info->wall_ms,
        .images = o->image_count,
        .files = files,
        .file_count = r->file_count,
        .files_more = r->files_more,
    };

    for (size_t i = 0; i < PARTS; i++)
        if (p[i].left_out)
            truncated[answer.truncated_count++] = (struct run_truncated){
                p[i].name, r->kept, tool_text_chars(p[i].text, p[i].len),
                p[i].total ? p[i].total : p[i].len, p[i].left_out};
    for (size_t i = 0;
         network.blocked_count < LISTED_MAX && is_blocked(info, &i); i++)
        blocked[network.blocked_count++] = info->connections[i];
    if (network.blocked_count)
        answer.network = &network;
    for (size_t i = 0; i < r->file_count; i++)
        files[i] = tool_file_view(r->call, info->workspace, &r->files[i]);
    tool_answer(ret, output, &answer);
}

/* ---- spine -------------------------------------------------------------- */

void tool_result(struct mcp_call *call, const struct session_info *session,
                 struct execution *e, const struct api_resource *output,
                 struct mcp_answer *ret)
{
    struct result r = {.call = call, .session = session};

    if (session->ephemeral)
        mcp_task_unkept(call);
    execution_info(e, &r.info);
    if (r.info.status != EXEC_COMPLETED) {
        tool_held_answer(&r.info, ret);
        return;
    }
    execution_digest_read(e, &r.outcome);
    read_parts(&r);
    read_files(&r);
    store_long_parts(&r);
    cut_parts(&r);
    place_images(&r);
    write_words(&r, ret);
    show_images(&r, ret);
    for (size_t i = 0; i < r.file_count; i++)
        tool_file_link(ret, call->arena, r.info.workspace, &r.files[i]);
    write_structured(&r, output, ret);
    tool_files_meta(ret, call, session->id, session->workspace, r.files,
                    r.file_count);
    ret->is_error = r.info.outcome != OUTCOME_OK;
    for (size_t i = 0; i < PARTS; i++)
        buf_done(&r.parts[i].shown);
    buf_done(&r.output);
    buf_done(&r.message);
    execution_digest_done(&r.outcome);
}
