/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution came to, as an answer for a model: words first, since
 * many clients show nothing else, then pictures, then a link for each file,
 * and the same again structured. What is too long for a model is cut, and the
 * whole put into a file of the session. Runs on a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

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

/* One text of the execution. */
struct part {
    const char *name; /* as in "truncated" */
    const char *text;
    size_t len;
    size_t most; /* characters shown */
    size_t left_out;
    struct buf shown;
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
    struct doors_outcome outcome;
    struct part parts[PARTS];
    const char *kept;        /* the file with the whole, or NULL */
    struct buf message;      /* of the error, cut */
    struct tool_file *files; /* arena */
    size_t file_count;       /* those of the execution, then our own */
    bool is_inline[DOORS_IMAGES_MAX];
    size_t inlined;
};

/* ---- reading it --------------------------------------------------------- */

static void read_parts(struct result *r)
{
    const struct doors_outcome *o = &r->outcome;

    r->parts[PART_STDOUT] = (struct part){"stdout",
                                          o->stdout_text.data,
                                          o->stdout_text.len,
                                          TOOL_STDOUT_CHARS,
                                          0,
                                          {0}};
    r->parts[PART_STDERR] = (struct part){"stderr",
                                          o->stderr_text.data,
                                          o->stderr_text.len,
                                          TOOL_STDERR_CHARS,
                                          0,
                                          {0}};
    r->parts[PART_RESULT] = (struct part){
        "result", o->result, o->result_len, RESULT_CHARS, 0, {0}};
    r->parts[PART_TRACEBACK] = (struct part){
        "traceback", o->traceback.data, o->traceback.len, TRACEBACK_CHARS, 0,
        {0}};
    for (size_t i = 0; i < PARTS; i++)
        if (!r->parts[i].text)
            r->parts[i].text = "";
}

static bool is_long(const struct part *p)
{
    return tool_text_chars(p->text, p->len) > p->most;
}

static void read_files(struct result *r)
{
    const struct exec_info *info = &r->info;
    size_t count = MIN(info->file_count, (size_t)TOOL_FILES_MAX);

    r->files =
        arena_alloc(r->call->arena, (TOOL_FILES_MAX + 1 + DOORS_IMAGES_MAX) *
                                        sizeof(*r->files));
    for (size_t i = 0; i < count; i++) {
        const struct exec_file_change *c = &info->files[i];

        r->files[r->file_count++] = (struct tool_file){
            .path = c->path,
            .change = c->change,
            .why = c->fate == EXEC_FILE_DONE ? NULL : c->why,
            .wanted = c->wanted,
            .size = c->size,
            .file = c->file,
            .version = c->version,
            .sha256 = c->sha256,
            .mime = c->mime,
        };
    }
}

/* ---- keeping what is too long ------------------------------------------- */

/* NULL: there was no room, or it could not be; the answer is cut all the
 * same and does not promise a file. */
static const char *keep(struct result *r, const char *path, const void *bytes,
                        size_t len)
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
static void keep_whole(struct result *r)
{
    struct buf all cleanup(buf_done) = {0};
    size_t count = 0;

    for (size_t i = 0; i < PARTS; i++)
        count += is_long(&r->parts[i]);
    if (!count)
        return;
    for (size_t i = 0; i < PARTS; i++) {
        const struct part *p = &r->parts[i];

        if (!is_long(p))
            continue;
        if (count > 1)
            buf_addf(&all, "%s=== %s ===\n", all.len ? "\n" : "", p->name);
        buf_add(&all, p->text, p->len);
    }
    r->kept =
        keep(r, arena_printf(r->call->arena, OUTPUTS "/%s.txt", r->info.id),
             all.data, all.len);
}

static void cut(struct result *r)
{
    for (size_t i = 0; i < PARTS; i++) {
        struct part *p = &r->parts[i];

        p->left_out =
            tool_text_cut(&p->shown, p->text, p->len, p->most, r->kept);
        buf_adds(&p->shown, "");
    }
    (void)tool_text_cut(&r->message, r->outcome.error_message,
                        r->outcome.error_message_len, MESSAGE_CHARS, NULL);
    buf_adds(&r->message, "");
}

/* ---- pictures ----------------------------------------------------------- */

static const char *ending(const char *type)
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
        const struct doors_image *image = &r->outcome.images[i];
        bool drawn = strcmp(image->type, "image/svg+xml") == 0;

        if (!drawn && r->inlined < IMAGES_MAX &&
            image->len <= IMAGE_BYTES_MAX &&
            bytes + image->len <= IMAGES_BYTES_MAX) {
            r->is_inline[i] = true;
            r->inlined++;
            bytes += image->len;
            continue;
        }
        (void)keep(r,
                   arena_printf(r->call->arena, OUTPUTS "/%s-%zu.%s",
                                r->info.id, i + 1, ending(image->type)),
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

static const char *interpreter(const struct exec_info *info)
{
    if (info->interpreter_lost)
        return "lost";
    return info->interpreter_fresh ? "new" : "kept";
}

static void say_part(struct buf *out, const char *heading,
                     const struct part *p)
{
    if (!p->len)
        return;
    buf_addf(out, "%s:\n", heading);
    buf_add(out, p->shown.data, p->shown.len);
    if (p->shown.data[p->shown.len - 1] != '\n')
        buf_adds(out, "\n");
}

static void say_error(struct result *r, struct buf *out)
{
    const struct doors_outcome *o = &r->outcome;

    if (r->parts[PART_TRACEBACK].len)
        say_part(out, "error", &r->parts[PART_TRACEBACK]);
    else if (o->has_error && !r->info.failure && r->info.exit_code < 0)
        buf_addf(out, "error: %.*s: %s\n", (int)MIN(o->error_name_len, 200u),
                 o->error_name, r->message.data);
    if (r->info.failure)
        buf_addf(out, "%s\n", r->info.failure);
    if (r->info.warning)
        buf_addf(out, "warning: %s\n", r->info.warning);
}

static void say_end(struct result *r, struct buf *out)
{
    const struct exec_info *info = &r->info;
    const char *advice = tool_result_advice(info);

    buf_addf(out, "[status: %s", exec_outcome_name(info->outcome));
    if (info->exit_code >= 0)
        buf_addf(out, ", exit code %d", info->exit_code);
    buf_addf(out, ", %.2f s, session_id: %s]\n", (double)info->wall_ms / 1000,
             r->session->id);
    if (advice[0])
        buf_addf(out, "%s\n", advice);
    if (info->truncated_stdout || info->truncated_stderr)
        buf_adds(out, "There was more output than is kept of one execution; "
                      "write long output to a file instead.\n");
    if (info->language == EXEC_PYTHON && info->interpreter_lost)
        buf_adds(out, "The interpreter is gone with its variables; files are "
                      "kept.\n");
    else if (info->language == EXEC_PYTHON && info->interpreter_fresh &&
             r->session->executions > 0)
        buf_adds(out, "This ran on a new interpreter: variables of earlier "
                      "calls are gone, files are kept.\n");
}

static void say_files(struct result *r, struct buf *out)
{
    if (r->file_count)
        buf_adds(out, "files:\n");
    for (size_t i = 0; i < r->file_count; i++)
        tool_file_say(out, &r->files[i]);
    if (r->info.files_truncated || r->info.file_count > TOOL_FILES_MAX)
        buf_adds(out, "and more: list_files names them all\n");
    if (r->info.files_not_kept)
        buf_addf(out,
                 "%zu of the session's files are not kept: they are gone when "
                 "it sleeps. Make room, or remove them.\n",
                 r->info.files_not_kept);
}

static void say(struct result *r, struct mcp_answer *a)
{
    struct buf text cleanup(buf_done) = {0};

    say_part(&text, "stdout", &r->parts[PART_STDOUT]);
    say_part(&text, "stderr", &r->parts[PART_STDERR]);
    if (r->outcome.has_result)
        say_part(&text, "result", &r->parts[PART_RESULT]);
    say_error(r, &text);
    say_files(r, &text);
    if (r->inlined)
        buf_addf(&text, "images: %zu, shown below\n", r->inlined);
    tool_network_say(&text, &r->info);
    say_end(r, &text);
    mcp_answer_text_of(a, r->session->id, text.data, text.len);
}

/* ---- structured --------------------------------------------------------- */

static void encode_error(struct json_writer *w, const struct result *r)
{
    const struct doors_outcome *o = &r->outcome;

    if (!o->has_error) {
        json_write_string(w, "error", NULL);
        return;
    }
    json_write_open(w, "error", '{');
    json_write_text(w, "name", o->error_name, MIN(o->error_name_len, 200u));
    json_write_text(w, "message", r->message.data, r->message.len);
    json_write_text(w, "traceback", r->parts[PART_TRACEBACK].shown.data,
                    r->parts[PART_TRACEBACK].shown.len);
    json_write_close(w, '}');
}

static void encode_truncated(struct json_writer *w, const struct result *r)
{
    json_write_open(w, "truncated", '[');
    for (size_t i = 0; i < PARTS; i++) {
        const struct part *p = &r->parts[i];

        if (!p->left_out)
            continue;
        json_write_open(w, NULL, '{');
        json_write_string(w, "what", p->name);
        json_write_int(w, "characters",
                       (int64_t)tool_text_chars(p->text, p->len));
        json_write_int(w, "left_out", (int64_t)p->left_out);
        json_write_string(w, "file", r->kept);
        json_write_close(w, '}');
    }
    json_write_close(w, ']');
}

static void encode(const struct result *r, struct mcp_answer *a)
{
    struct json_writer w = {.out = &a->structured};
    const struct exec_info *info = &r->info;
    const struct part *p = r->parts;
    const char *advice = tool_result_advice(info);

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", exec_outcome_name(info->outcome));
    if (info->failure)
        json_write_string(&w, "message", info->failure);
    if (info->warning)
        json_write_string(&w, "warning", info->warning);
    if (advice[0])
        json_write_string(&w, "hint", advice);
    json_write_string(&w, "session_id", r->session->id);
    json_write_string(&w, "execution_id", info->id);
    if (info->exit_code >= 0)
        json_write_int(&w, "exit_code", info->exit_code);
    else
        json_write_string(&w, "exit_code", NULL);
    json_write_text(&w, "stdout", p[PART_STDOUT].shown.data,
                    p[PART_STDOUT].shown.len);
    json_write_text(&w, "stderr", p[PART_STDERR].shown.data,
                    p[PART_STDERR].shown.len);
    if (r->outcome.has_result)
        json_write_text(&w, "result", p[PART_RESULT].shown.data,
                        p[PART_RESULT].shown.len);
    else
        json_write_string(&w, "result", NULL);
    encode_error(&w, r);
    encode_truncated(&w, r);
    json_write_int(&w, "duration_ms", (int64_t)info->wall_ms);
    json_write_string(&w, "interpreter", interpreter(info));
    json_write_int(&w, "images", (int64_t)r->outcome.image_count);
    tool_network_encode(&w, info);
    json_write_open(&w, "files", '[');
    for (size_t i = 0; i < r->file_count; i++)
        tool_file_encode(&w, NULL, r->call->arena, info->workspace,
                         &r->files[i]);
    json_write_close(&w, ']');
    json_write_close(&w, '}');
}

/* ---- spine -------------------------------------------------------------- */

void tool_result(struct mcp_call *call, const struct session_info *session,
                 struct execution *e, struct mcp_answer *ret)
{
    struct result r = {.call = call, .session = session};

    if (session->ephemeral)
        mcp_task_unkept(call);
    execution_info(e, &r.info);
    if (r.info.status != EXEC_COMPLETED) {
        tool_held_answer(&r.info, ret);
        return;
    }
    doors_outcome_read(e, &r.outcome);
    read_parts(&r);
    read_files(&r);
    keep_whole(&r);
    cut(&r);
    place_images(&r);
    say(&r, ret);
    show_images(&r, ret);
    for (size_t i = 0; i < MIN(r.file_count, (size_t)TOOL_LINKS_MAX); i++)
        tool_file_link(ret, call->arena, r.info.workspace, &r.files[i]);
    encode(&r, ret);
    tool_files_meta(ret, session->id, r.files, r.file_count);
    ret->is_error = r.info.outcome != OUTCOME_OK;
    for (size_t i = 0; i < PARTS; i++)
        buf_done(&r.parts[i].shown);
    buf_done(&r.message);
    doors_outcome_done(&r.outcome);
}
