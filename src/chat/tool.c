/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of the code tool: the code runs in the session of the response as
 * any execution does (limits, quotas, policy, approval, evidence), with the
 * rights of the principal that asked. What came of it goes three ways: outputs
 * for the client, a shorter text with advice for the model, and files. Runs in
 * gloveboxd on the thread of a response.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/size.h"
#include "base/utf8.h"
#include "chat/chat_int.h"
#include "conf/conf.h"
#include "execution/execution.h"
#include "json/json.h"

#define STDOUT_BYTES 8000u /* for the model, of each: half head, half tail */
#define STDERR_BYTES 3000u
#define RESULT_BYTES 6000u
#define TRACEBACK_BYTES 4000u
#define LOGS_BYTES ((size_t)256 << 10) /* for the client */
#define IMAGES_MAX 8u
#define IMAGE_BYTES ((size_t)4 << 20)
#define FILES_LISTED 40u
#define KEPT_FOLDER ".glovebox/outputs"
#define BUSY_TRIES 4u
#define LOOK_MS 250u

void chat_run_done(struct chat_run *run)
{
    free(run->text);
    json_decref(run->images);
    *run = (struct chat_run){0};
}

/* ---- the code in a call --------------------------------------------------
 */

/* Code between the fences of Markdown. */
static char *without_fences(const char *text, size_t len)
{
    const char *line, *end;

    if (len < 6 || strncmp(text, "```", 3) != 0)
        return xstrndup(text, len);
    line = memchr(text, '\n', len);
    if (!line)
        return xstrndup(text, len);
    line++;
    end = text + len;
    while (end > line && strchr(" \t\r\n", end[-1]))
        end--;
    if (end - line >= 3 && strncmp(end - 3, "```", 3) == 0)
        end -= 3;
    return xstrndup(line, (size_t)(end - line));
}

/* The member `code`, or the only string there is. */
static const json_t *find_code(const json_t *object)
{
    const json_t *code = json_object_get(object, "code"), *only = NULL;
    const char *key;
    json_t *value;

    if (code || !json_is_object(object))
        return code;
    json_object_foreach ((json_t *)object, key, value)
        if (json_is_string(value) && json_object_size(object) == 1)
            only = value;
    return only;
}

char *chat_tool_code(const char *arguments, char **ret_why)
{
    json_t *json cleanup(json_unref) = NULL;
    const json_t *code;
    struct error err;

    while (*arguments && strchr(" \t\r\n", *arguments))
        arguments++;
    if (!*arguments) {
        *ret_why = xstrdup("The call has no code. Call the tool with "
                           "{\"code\": \"...\"}.");
        return NULL;
    }
    if (*arguments != '{' && *arguments != '"')
        return without_fences(arguments, strlen(arguments));
    if (json_parse(arguments, strlen(arguments), &json, &err) < 0) {
        if (*arguments == '"')
            return xstrdup(arguments); /* Python that begins with a string */
        *ret_why = xasprintf("The arguments are not valid JSON (%s). Call "
                             "the tool with {\"code\": \"...\"}.",
                             err.message);
        return NULL;
    }
    code = json_is_string(json) ? json : find_code(json);
    if (!json_is_string(code)) {
        *ret_why = xstrdup("The arguments have no string \"code\". Call the "
                           "tool with {\"code\": \"...\"}.");
        return NULL;
    }
    return without_fences(json_string_value(code), json_string_length(code));
}

/* ---- running ------------------------------------------------------------ */

struct later {
    void (*job)(void *arg);
    void *arg;
};

static int on_submit(void *ctx, void (*job)(void *arg), void *arg)
{
    *(struct later *)ctx = (struct later){job, arg};
    return 0;
}

uint32_t chat_turn_s(const struct chat_response *r)
{
    uint32_t most = r->chat->parts.conf->chat_turn_s;

    return r->max_seconds > 0 && r->max_seconds < most
               ? (uint32_t)r->max_seconds
               : most;
}

uint64_t chat_deadline_ms(const struct chat_response *r)
{
    return r->started_mono_ms + (uint64_t)chat_turn_s(r) * 1000;
}

bool chat_is_left(void *ctx)
{
    struct chat_response *r = ctx;

    return atomic_load(&r->cancel) || clock_mono_ms() > chat_deadline_ms(r);
}

/* False: the response is to stop. */
static bool nap(struct chat_response *r, uint64_t ms)
{
    uint64_t until = clock_mono_ms() + ms;

    while (!chat_is_left(r)) {
        uint64_t now = clock_mono_ms();
        struct timespec t = {
            .tv_nsec = (long)MIN(LOOK_MS, until - MIN(now, until)) * 1000000L};

        if (now >= until)
            return true;
        (void)nanosleep(&t, NULL);
    }
    return false;
}

/* Admits the code; *ret_later has a job unless policy denied or held it. */
static int submit(struct chat_response *r, const char *item, const char *code,
                  struct execution **ret, struct later *ret_later,
                  struct error *err)
{
    struct exec_spec spec = {
        .language = EXEC_PYTHON,
        .code = code,
        .code_len = strlen(code),
        .left = chat_is_left,
        .left_ctx = r,
        .conversation = r->conversation[0] ? r->conversation : r->id,
        .message = item,
        .prompt = r->prompt,
    };
    int rc = 0;

    for (unsigned i = 0; i < BUSY_TRIES; i++) {
        rc = execution_submit(r->chat->parts.sessions, &r->owner.who,
                              r->session, &spec, on_submit, ret_later, ret,
                              err);
        if (rc == -ERR_NOT_FOUND && i == 0 && !r->session_explicit) {
            /* It was deleted meanwhile: another one on the same files. */
            r->session[0] = '\0';
            rc = chat_container_need(r, err);
            if (rc == 0)
                continue;
        }
        if ((rc != -ERR_BUSY && rc != -ERR_LIMIT) || err->quota ||
            !nap(r, (uint64_t)MIN(MAX(err->retry_after_s, 1), 3) * 1000))
            break;
    }
    return rc;
}

/* Nothing runs until a person has said yes; the worker of approvals runs it
 * then. False: it still waits, or the response was stopped. */
static bool wait_held(struct chat_response *r, struct execution **e)
{
    struct sessions *sessions = r->chat->parts.sessions;
    uint64_t until =
        clock_mono_ms() +
        (uint64_t)r->chat->parts.conf->chat_approval_wait_s * 1000;
    struct exec_info info;
    char id[ID_MAX];
    bool over = false;

    execution_info(*e, &info);
    memcpy(id, info.id, sizeof(id));
    chat_writer_held(r, info.approval, id);
    while (!over && clock_mono_ms() < until && nap(r, LOOK_MS)) {
        struct execution *now cleanup(execution_unrefp) = NULL;
        struct error ignored;

        if (execution_find(sessions, &r->owner.who, id, &now, &ignored) < 0)
            continue;
        execution_info(now, &info);
        over = info.status == EXEC_COMPLETED;
        if (over) {
            execution_unref(*e);
            *e = take_ptr(now);
        }
    }
    if (!over && chat_is_left(r)) { /* no client waits for it any more */
        struct error ignored;

        (void)execution_cancel(sessions, &r->owner.who, id, &ignored);
    }
    chat_writer_held(r, "", "");
    return over;
}

/* ---- what the client gets ----------------------------------------------- */

static json_t *data_uri(const struct exec_image *image)
{
    struct buf text cleanup(buf_done) = {0};
    struct json_writer w = {.out = &text};

    json_write_base64(&w, NULL, image->data, image->len); /* in quotes */
    return json_sprintf("data:%s;base64,%.*s", image->type, (int)text.len - 2,
                        text.data + 1);
}

/* Head and tail of a text that is too long; where: the file with all of it.
 */
static void add_cut(struct buf *out, const char *text, size_t len, size_t most,
                    const char *where)
{
    size_t head = utf8_cut(text, len, most / 2), tail = len - most / 2;

    if (len <= most) {
        execution_digest_plain(out, text, len);
        return;
    }
    while (tail < len && ((unsigned char)text[tail] & 0xc0) == 0x80)
        tail++;
    execution_digest_plain(out, text, head);
    buf_addf(out, "\n[… %zu bytes are left out here%s%s …]\n", tail - head,
             where ? "; all of it is in " CHAT_ROOT : "", where ? where : "");
    execution_digest_plain(out, text + tail, len - tail);
}

static void end_line(struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '\n')
        buf_adds(out, "\n");
}

/* What one execution came to, read once. */
struct came {
    struct chat_response *r;
    struct exec_info info;
    struct exec_digest digest;
    struct buf output; /* stdout with displays in their places */
    struct chat_item *item;
    const char *kept; /* the file with the whole of a long output, or NULL */
    char kept_path[128];
};

static const char *extension(const char *type)
{
    return strcmp(type, "image/jpeg") == 0      ? "jpg"
           : strcmp(type, "image/svg+xml") == 0 ? "svg"
                                                : strchr(type, '/') + 1;
}

/* Figures are files, too, so that they can be cited and fetched. */
static void keep_images(struct came *c, json_t *outputs, json_t *for_model)
{
    const char *id = chat_item_id(c->item);

    for (size_t i = 0; i < c->digest.image_count && i < IMAGES_MAX; i++) {
        const struct exec_image *image = &c->digest.images[i];
        json_t *uri;
        struct error err;
        char path[128];

        if (image->len > IMAGE_BYTES)
            continue;
        uri = data_uri(image);
        (void)json_array_append_new(
            outputs, chat_pack("{s:s, s:O}", "type", "image", "url", uri));
        if (strcmp(image->type, "image/svg+xml") != 0)
            (void)json_array_append(for_model, uri);
        json_decref(uri);
        (void)snprintf(path, sizeof(path), "figure_%.8s_%zu.%.8s",
                       id + strcspn(id, "_") + 1, i + 1,
                       extension(image->type));
        if (c->r->workspace[0] &&
            chat_container_keep(c->r, path, "created", image->data, image->len,
                                c->item, &err) < 0)
            log_event(LOG_WARN, "figure_not_kept", "session", c->r->session,
                      "error", err.message, NULL);
    }
}

static void add_section(struct buf *out, const char *text, size_t len,
                        size_t most)
{
    if (!len)
        return;
    end_line(out);
    add_cut(out, text, len, most, NULL);
}

static json_t *make_logs(const struct came *c)
{
    struct buf logs cleanup(buf_done) = {0};
    const struct exec_digest *d = &c->digest;

    add_section(&logs, c->output.data, c->output.len, LOGS_BYTES);
    add_section(&logs, d->stderr_text.data, d->stderr_text.len,
                LOGS_BYTES / 4);
    add_section(&logs, d->result, d->result_len, LOGS_BYTES);
    add_section(&logs, d->traceback.data, d->traceback.len, LOGS_BYTES / 4);
    if (c->info.failure)
        add_section(&logs, c->info.failure, strlen(c->info.failure),
                    LOGS_BYTES);
    return logs.len ? chat_pack("{s:s, s:o}", "type", "logs", "logs",
                                chat_text(logs.data, logs.len))
                    : NULL;
}

/* ---- the result for the model ---------------------------------------------
 */

static const char *advice(const struct exec_info *info)
{
    switch (info->outcome) {
    case OUTCOME_ERROR:
        return "Read the error, correct the code and run it again.";
    case OUTCOME_TIMEOUT:
        return "The code ran too long. Do less in one call.";
    case OUTCOME_OOM:
        return "The code used too much memory. Read files in pieces, and "
               "delete large objects.";
    case OUTCOME_LIMIT:
        return "The code reached a limit. Use less of it.";
    case OUTCOME_KILLED:
    case OUTCOME_LOST:
    case OUTCOME_CRASHED:
        return "The interpreter ended. Variables are lost, files are kept; "
               "define variables again.";
    case OUTCOME_DENIED:
        return "This is not allowed here. Do not try the same again; tell "
               "the user what is not possible.";
    case OUTCOME_ISOLATION_FAILED:
        return "Nothing ran. Try again once; then tell the user.";
    case OUTCOME_NONE:
    case OUTCOME_OK:
    case OUTCOME_CANCELLED:
        break;
    }
    return NULL;
}

/* Output that the model does not get whole is kept as a file. */
static void keep_long(struct came *c)
{
    struct chat_item unlisted = {.body = c->item->body};
    struct error ignored;

    if (c->output.len <= STDOUT_BYTES || !c->r->workspace[0])
        return;
    (void)snprintf(c->kept_path, sizeof(c->kept_path), KEPT_FOLDER "/%s.txt",
                   c->info.id);
    if (chat_container_keep(c->r, c->kept_path, "created", c->output.data,
                            c->output.len, &unlisted, &ignored) == 0)
        c->kept = c->kept_path;
    json_incref(unlisted.body);
    chat_item_done(&unlisted);
}

static void tell_files(const struct came *c, struct buf *out)
{
    char size[SIZE_TEXT_MAX];
    size_t listed = 0;

    for (size_t i = 0; i < c->item->file_count && listed < FILES_LISTED; i++) {
        const struct chat_item_file *f = &c->item->files[i];

        if (f->path[0] == '.')
            continue;
        if (listed++ == 0) {
            end_line(out);
            buf_adds(out, "Files:\n");
        }
        buf_addf(out, "- " CHAT_ROOT "%s (%s, %s)\n", f->path, f->change,
                 size_format(f->size, size));
    }
    for (size_t i = 0; i < c->info.file_count; i++)
        if (c->info.files[i].fate != EXEC_FILE_DONE && c->info.files[i].why &&
            c->info.files[i].why[0])
            buf_addf(out, "- %s was not kept: %s\n", c->info.files[i].path,
                     c->info.files[i].why);
}

static void tell_blocked(const struct came *c, struct buf *out)
{
    for (size_t i = 0; i < c->info.connection_count; i++) {
        const struct network_connection *n = &c->info.connections[i];

        if (n->allowed)
            continue;
        end_line(out);
        buf_addf(out,
                 "The network connection to %s was blocked: %s. Do not "
                 "try it again.\n",
                 n->host, n->reason);
        return;
    }
}

static char *tell_model(struct came *c)
{
    const struct exec_digest *d = &c->digest;
    const struct buf *trace = d->brief.len ? &d->brief : &d->traceback;
    struct buf out = {0};

    if (c->info.notice)
        buf_addf(&out, "Note: %s\n", c->info.notice);
    if (c->output.len)
        add_cut(&out, c->output.data, c->output.len, STDOUT_BYTES, c->kept);
    if (d->stderr_text.len) {
        end_line(&out);
        buf_adds(&out, "stderr:\n");
        add_cut(&out, d->stderr_text.data, d->stderr_text.len, STDERR_BYTES,
                NULL);
    }
    add_section(&out, d->result_text, d->result_text_len, RESULT_BYTES);
    add_section(&out, trace->data, trace->len, TRACEBACK_BYTES);
    if (c->info.failure) {
        end_line(&out);
        buf_addf(&out, "%s: %s\n", exec_outcome_name(c->info.outcome),
                 c->info.failure);
    }
    if (c->info.warning) {
        end_line(&out);
        buf_addf(&out, "Warning: %s\n", c->info.warning);
    }
    tell_blocked(c, &out);
    if (d->image_count) {
        end_line(&out);
        buf_addf(&out, "%zu image%s shown to the user.\n", d->image_count,
                 d->image_count == 1 ? " was" : "s were");
    }
    tell_files(c, &out);
    if (advice(&c->info)) {
        end_line(&out);
        buf_addf(&out, "%s\n", advice(&c->info));
    }
    if (!out.len)
        buf_adds(&out, "(no output)");
    return buf_take(&out, NULL);
}

/* ---- closing the item --------------------------------------------------- */

static json_t *code_body(const struct chat_response *r, const char *id,
                         const char *status, const char *code, json_t *outputs)
{
    return chat_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "id", id, "type",
                     "code_interpreter_call", "status", status, "container_id",
                     r->session, "code",
                     code ? chat_text(code, strlen(code)) : json_null(),
                     "outputs", outputs);
}

/* A code that ran and raised has completed. */
static const char *status_of(enum exec_outcome outcome)
{
    return outcome == OUTCOME_OK || outcome == OUTCOME_ERROR ? "completed"
           : outcome == OUTCOME_CANCELLED                    ? "incomplete"
                                                             : "failed";
}

static json_t *one_log(const char *text)
{
    return chat_pack("[{s:s, s:o}]", "type", "logs", "logs",
                     chat_text(text, strlen(text)));
}

static void close_with(struct chat_response *r, size_t output,
                       const char *status, const char *code, const char *text,
                       const char *execution)
{
    struct chat_item item = {.created_at_ms = clock_real_ms()};

    item.body = code_body(r, chat_item_id(&r->output.list[output]), status,
                          code, one_log(text));
    item.result = xstrdup(text);
    memcpy(item.session, r->session, sizeof(item.session));
    (void)snprintf(item.execution, sizeof(item.execution), "%s", execution);
    chat_writer_code_done(r, output, &item);
}

void chat_tool_refuse(struct chat_response *r, size_t output, const char *code,
                      const char *why)
{
    close_with(r, output, code ? "failed" : "incomplete", code ? code : "",
               why, "");
}

static void close_held(struct chat_response *r, size_t output,
                       const char *code, struct execution *e,
                       struct chat_run *ret)
{
    struct exec_info info;

    execution_info(e, &info);
    ret->held = true;
    ret->text = xasprintf(
        "The code has not run: it waits until a person approves it "
        "(approval %s). Tell the user so. It runs by itself once it is "
        "approved, and its result can be asked for then.",
        info.approval);
    close_with(r, output, "incomplete", code, ret->text, info.id);
}

static void close_ran(struct chat_response *r, size_t output, const char *code,
                      struct execution *e, struct chat_run *ret)
{
    struct chat_item item = {.created_at_ms = clock_real_ms()};
    struct came c = {.r = r, .item = &item};
    json_t *outputs = json_array(), *logs;
    size_t tail;

    execution_info(e, &c.info);
    execution_digest_read(e, &c.digest);
    execution_digest_output(&c.digest, &c.output, &tail);
    item.body = code_body(r, chat_item_id(&r->output.list[output]),
                          status_of(c.info.outcome), code, outputs);
    memcpy(item.session, r->session, sizeof(item.session));
    memcpy(item.execution, c.info.id, sizeof(item.execution));
    for (size_t i = 0; i < c.info.file_count; i++) {
        const struct exec_file_change *f = &c.info.files[i];

        if (f->fate == EXEC_FILE_DONE || f->fate == EXEC_FILE_CONFLICT)
            chat_item_add_file(&item, f->file, f->version, f->path, f->change,
                               f->size);
    }
    ret->images = json_array();
    keep_images(&c, outputs, ret->images);
    logs = make_logs(&c);
    if (logs)
        (void)json_array_append_new(outputs, logs);
    keep_long(&c);
    ret->text = tell_model(&c);
    ret->failed = c.info.outcome != OUTCOME_OK;
    item.result = xstrdup(ret->text);
    chat_writer_code_done(r, output, &item);
    execution_digest_done(&c.digest);
    buf_done(&c.output);
}

int chat_tool_run(struct chat_response *r, size_t output, const char *code,
                  struct chat_run *ret, struct error *err)
{
    char *item cleanup(mem_free) =
        xstrdup(chat_item_id(&r->output.list[output]));
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct later later = {NULL, NULL};
    struct exec_info info;
    int rc = submit(r, item, code, &e, &later, err);

    if (rc < 0) {
        char *text cleanup(mem_free) =
            xasprintf("The code did not run: %s. %s", err->message, err->hint);

        chat_tool_refuse(r, output, code, text);
        ret->text = xstrdup(text);
        ret->failed = true;
        return err->code == ERR_UNAVAILABLE || err->code == ERR_INTERNAL ? rc
                                                                         : 0;
    }
    mutex_lock(&r->lock);
    r->ran = true;
    mutex_unlock(&r->lock);
    if (later.job) {
        chat_writer_code_runs(r, output);
        later.job(later.arg);
    }
    execution_info(e, &info);
    if (info.status == EXEC_PENDING && !wait_held(r, &e))
        close_held(r, output, code, e, ret);
    else
        close_ran(r, output, code, e, ret);
    return 0;
}
