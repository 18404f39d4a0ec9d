/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual requests, each a few lines around one transfer: JSON in and out,
 * event streams, long jobs that report progress; the service's errors,
 * {"error":{"code","message","hint"}}, as ours; and how request paths are put
 * together.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

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
    const struct cli_stream stream = {on_job_event, NULL, &j, NULL};
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
    switch (status) { /* a code of another API than the native one */
    case 401:
        return ERR_UNAUTHENTICATED;
    case 403:
        return ERR_FORBIDDEN;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    case 413:
        return ERR_TOO_LARGE;
    case 429:
        return ERR_LIMIT;
    case 503:
        return ERR_UNAVAILABLE;
    default:
        break;
    }
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
    if (message && err->code == ERR_INVALID)
        err->errnum = EINVAL; /* the request is wrong: see cli_fail() */
    if (*hint)
        return error_hint(err, "%s", hint);
    if (status == 401)
        return error_hint(err,
                          "Run `glovebox login`, set GLOVEBOX_KEY to a valid "
                          "key, or name a file that holds one with "
                          "--key-file.");
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

/* ---- event streams ------------------------------------------------------ */

/*
 * Reads text/event-stream as it arrives: any chunk boundary, any of the three
 * line ends, comments, fields without a value, data in several lines. An
 * event that is cut off by the end of the stream is dropped, as the format
 * wants it. No I/O.
 */

void cli_sse_init(struct cli_sse *s)
{
    *s = (struct cli_sse){0};
}

void cli_sse_done(struct cli_sse *s)
{
    buf_done(&s->line);
    buf_done(&s->name);
    buf_done(&s->id);
    buf_done(&s->data);
}

static const char *text_or(const struct buf *b, const char *fallback)
{
    return b->len ? b->data : fallback;
}

static int dispatch_event(struct cli_sse *s, cli_sse_fn *on_event, void *ctx)
{
    struct cli_sse_event event = {
        .name = text_or(&s->name, "message"),
        .id = text_or(&s->id, ""),
        .data = text_or(&s->data, ""),
        .len = s->data.len,
    };
    int r = s->has_data ? on_event(ctx, &event) : 0;

    buf_reset(&s->name);
    buf_reset(&s->data);
    s->has_data = false;
    return r;
}

static bool is_field(const char *line, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(line, name, len) == 0;
}

static int end_line(struct cli_sse *s, cli_sse_fn *on_event, void *ctx)
{
    const char *line = text_or(&s->line, "");
    size_t len = s->line.len;
    size_t field;
    const char *value;

    if (!s->began && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        len -= 3;
    }
    s->began = true;
    if (len == 0) {
        buf_reset(&s->line);
        return dispatch_event(s, on_event, ctx);
    }
    field = strcspn(line, ":");
    value = line + field;
    if (field < len)
        value += value[1] == ' ' ? 2 : 1;
    len -= (size_t)(value - line);
    if (is_field(line, field, "data")) {
        if (s->data.len + len > CLI_SSE_EVENT_MAX)
            return -EFBIG;
        if (s->has_data)
            buf_adds(&s->data, "\n");
        buf_add(&s->data, value, len);
        s->has_data = true;
    } else if (is_field(line, field, "event")) {
        buf_reset(&s->name);
        buf_add(&s->name, value, len);
    } else if (is_field(line, field, "id") && !memchr(value, '\0', len)) {
        buf_reset(&s->id);
        buf_add(&s->id, value, len);
    }
    buf_reset(&s->line);
    return 0;
}

int cli_sse_feed(struct cli_sse *s, const char *bytes, size_t len,
                 cli_sse_fn *on_event, void *ctx)
{
    size_t at = 0;

    while (at < len) {
        size_t n = 0;
        int r;

        if (s->after_cr && bytes[at] == '\n') { /* the second half of CRLF */
            s->after_cr = false;
            at++;
            continue;
        }
        s->after_cr = false;
        while (at + n < len && bytes[at + n] != '\n' && bytes[at + n] != '\r')
            n++;
        if (s->line.len + n > CLI_SSE_EVENT_MAX)
            return -EFBIG;
        if (n)
            buf_add(&s->line, bytes + at, n);
        at += n;
        if (at == len)
            break;
        s->after_cr = bytes[at++] == '\r';
        r = end_line(s, on_event, ctx);
        if (r != 0)
            return r;
    }
    return 0;
}

/* ---- JSON --------------------------------------------------------------- */

/*
 * Reading the service's answers. They are trusted and always JSON, but they
 * carry values that a session made, and jansson refuses some of what JSON
 * allows: a zero byte in a name, half a surrogate pair, a number beyond its
 * types. Those are mended, so that no output can hide how a run ended.
 */

#define ESCAPE 6        /* length of \uXXXX */
#define INTEGER_SAFE 18 /* digits that always fit json_int_t */

const char *cli_json_text(const json_t *object, const char *key,
                          const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : fallback;
}

uint64_t cli_json_number(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 ? (uint64_t)value : 0;
}

json_t *cli_json_commas(const char *text)
{
    json_t *list = json_array();

    while (*text) {
        size_t len = strcspn(text, ", ");

        if (len)
            (void)json_array_append_new(list, json_stringn(text, len));
        text += len;
        text += strspn(text, ", ");
    }
    return list;
}

/* The code unit of the escape at p, or -1 when there is none. */
static long escape_at(const char *p, const char *end)
{
    char digits[5] = {0};

    if (end - p < ESCAPE || p[0] != '\\' || p[1] != 'u')
        return -1;
    memcpy(digits, p + 2, 4);
    return strtol(digits, NULL, 16);
}

/* p: an escape in a string. Returns what is behind it and, for a surrogate
 * pair, its other half. */
static char *mend_escape(char *p, char *end)
{
    long unit = escape_at(p, end);
    long next = unit >= 0 ? escape_at(p + ESCAPE, end) : -1;

    if (unit < 0)
        return p + 2; /* a short one, such as \n */
    if (unit >= 0xd800 && unit <= 0xdbff && next >= 0xdc00 && next <= 0xdfff)
        return p + 2 * ESCAPE;
    if (unit == 0 || (unit >= 0xd800 && unit <= 0xdfff))
        memcpy(p, "\\ufffd", ESCAPE);
    return p + ESCAPE;
}

/* p: a number. One beyond a double becomes null, an integer beyond
 * json_int_t a real, as exact as a double can tell. */
static char *mend_number(char *p, const char *end)
{
    char text[512] = "";
    size_t len = 0;

    while (p + len < end && p[len] && strchr("+-.eE0123456789", p[len]))
        len++;
    if (len >= sizeof(text))
        return p + len;
    memcpy(text, p, len);
    if (isinf(strtod(text, NULL))) {
        memset(p, ' ', len);
        memcpy(p, "null", 4); /* no shorter number is that large */
    } else if (len > INTEGER_SAFE + (size_t)(*p == '-') &&
               !strpbrk(text, ".eE")) {
        memcpy(p + len - 2, "e2", 2);
    }
    return p + len;
}

static void mend_json(char *text, size_t len)
{
    char *end = text + len;
    bool quoted = false;

    for (char *p = text; p < end;) {
        if (quoted && *p == '\\') {
            p = mend_escape(p, end);
        } else if (!quoted && (*p == '-' || isdigit((unsigned char)*p))) {
            p = mend_number(p, end);
        } else {
            quoted ^= *p == '"';
            p++;
        }
    }
}

json_t *cli_json_load(const char *text, size_t len)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *value = json_loadb(text, len, flags, NULL);
    char *mended cleanup(mem_free) = NULL;

    if (value || len == 0)
        return value;
    mended = xmalloc(len);
    memcpy(mended, text, len);
    mend_json(mended, len);
    return json_loadb(mended, len, flags, NULL);
}
