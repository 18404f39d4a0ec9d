/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual requests, each a few lines around one transfer: JSON in and out,
 * event streams, long jobs that report progress; the service's errors,
 * {"error":{"code","message","hint"}}, as ours; and how request paths are put
 * together.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

int cli_http_answer(struct cli *c, const struct cli_transfer *t, json_t **ret,
                    struct error *err)
{
    json_t *value;

    if (!ret)
        return 0;
    if (t->answer.len == 0) {
        *ret = json_null();
        return 0;
    }
    value = cli_json_load(t->answer.data, t->answer.len);
    if (!value)
        return error_set(err, ERR_INTERNAL,
                         "the service at %s did not answer JSON", c->base);
    *ret = value;
    return 0;
}

int cli_http_ask(struct cli *c, const char *method, const char *path,
                 const json_t *body, const char *const *headers, json_t **ret,
                 struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    int r;

    t.method = method;
    t.path = path;
    t.body = body;
    t.headers = headers;
    r = cli_transfer_run(c, &t, err);
    return r < 0 ? r : cli_http_answer(c, &t, ret, err);
}

int cli_http_json(struct cli *c, const char *method, const char *path,
                  const json_t *body, json_t **ret, struct error *err)
{
    return cli_http_ask(c, method, path, body, NULL, ret, err);
}

int cli_http_text(struct cli *c, const char *path, struct buf *ret,
                  struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    int r;

    t.method = "GET";
    t.path = path;
    r = cli_transfer_run(c, &t, err);
    if (r == 0)
        buf_add(ret, t.answer.data ? t.answer.data : "", t.answer.len);
    return r;
}

int cli_http_stream(struct cli *c, const char *method, const char *path,
                    const json_t *body, const struct cli_stream *stream,
                    struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;

    t.method = method;
    t.path = path;
    t.body = body;
    t.stream = stream;
    return cli_transfer_run(c, &t, err);
}

/* ---- a long job --------------------------------------------------------- */

struct job {
    struct cli *c;
    struct cli_progress progress;
    char what[48];
    json_t *done, *failed;
};

static void job_done(struct job *j)
{
    cli_progress_end(&j->progress);
    json_decref(j->done);
    json_decref(j->failed);
}

static int on_job_event(void *ctx, const struct cli_sse_event *event)
{
    struct job *j = ctx;
    json_t *data cleanup(json_unref) = cli_json_load(event->data, event->len);

    if (!data)
        return 0;
    if (strcmp(event->name, "progress") == 0) {
        const char *what = cli_json_text(data, "what", "working");
        uint64_t total = cli_json_number(data, "total");

        if (strcmp(j->what, what) != 0 || j->progress.total != total) {
            (void)snprintf(j->what, sizeof(j->what), "%s", what);
            cli_progress_end(&j->progress);
            cli_progress_count(&j->progress, j->c, j->what, total);
        }
        cli_progress_step(&j->progress, cli_json_number(data, "done"));
    } else if (strcmp(event->name, "done") == 0 && !j->done) {
        j->done = json_incref(data);
    } else if (strcmp(event->name, "error") == 0 && !j->failed) {
        j->failed = json_incref(data);
    }
    return 0;
}

int cli_http_job(struct cli *c, const char *path, const json_t *body,
                 json_t **ret, struct error *err)
{
    struct job j cleanup(job_done) = {.c = c};
    const struct cli_stream stream = {on_job_event, NULL, &j};
    int r = cli_http_stream(c, "POST", path, body, &stream, err);

    cli_progress_end(&j.progress);
    if (j.failed)
        return cli_refused(j.failed, 500, c->base, err);
    if (r < 0)
        return r;
    if (!j.done)
        return error_set(err, ERR_UNAVAILABLE,
                         "the service stopped before it was done");
    *ret = take_ptr(j.done);
    return 0;
}

/* ---- errors of the service ---------------------------------------------- */

static enum error_code error_code_of(const char *name, long status)
{
    for (int i = ERR_NONE + 1; i < ERR_MAX; i++)
        if (strcmp(error_code_name((enum error_code)i), name) == 0)
            return (enum error_code)i;
    if (status == 401)
        return ERR_UNAUTHENTICATED;
    if (status == 404)
        return ERR_NOT_FOUND;
    return status >= 500 ? ERR_INTERNAL : ERR_INVALID;
}

int cli_refused(const json_t *body, long status, const char *base,
                struct error *err)
{
    const json_t *e = json_object_get(body, "error");
    const char *message = cli_json_text(e, "message", NULL);
    const char *hint = cli_json_text(e, "hint", "");

    if (message)
        (void)error_set(err,
                        error_code_of(cli_json_text(e, "code", ""), status),
                        "%s", message);
    else
        (void)error_set(err, error_code_of("", status),
                        "the service at %s answered %ld", base, status);
    if (*hint)
        return error_hint(err, "%s", hint);
    if (status == 401)
        return error_hint(err,
                          "Set GLOVEBOX_KEY to a valid key, or name a file "
                          "that holds one with --key-file.");
    return -(int)err->code;
}

/* ---- request paths ------------------------------------------------------ */

void cli_http_escape(struct buf *out, const char *text, bool keep_slash)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

    for (; *text; text++) {
        if (strchr(plain, *text) || (*text == '/' && keep_slash))
            buf_add(out, text, 1);
        else
            buf_addf(out, "%%%02X", (unsigned char)*text);
    }
}

void cli_http_query(struct buf *path, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    buf_addf(path, "%c%s=", strchr(path->data, '?') ? '&' : '?', name);
    cli_http_escape(path, value, false);
}

void cli_http_query_number(struct buf *path, const char *name, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    if (value)
        cli_http_query(path, name, text);
}

void cli_http_query_time(struct buf *path, const char *name, int64_t ms)
{
    char text[32];

    if (ms)
        cli_http_query(path, name, clock_format_ms(ms, text));
}
