/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what an execution produced: its streams as they are, values and
 * displays as text, images as files, tracebacks and typed failures on
 * standard error. Everything a session wrote passes the guard before it
 * reaches a terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli_int.h"

#define CHARTS_MAX 9999

void cli_render_init(struct cli_render *r, struct cli *c, const char *charts)
{
    *r = (struct cli_render){.c = c, .charts = charts};
    r->out.plain = !c->color_out;
    r->err.plain = !c->color_err;
}

void cli_render_text(struct cli_render *r, bool is_stderr, const char *bytes,
                     size_t len)
{
    bool tty = is_stderr ? r->c->tty_err : r->c->tty_out;
    struct buf safe cleanup(buf_done) = {0};
    FILE *to = is_stderr ? stderr : stdout;

    if (tty) {
        cli_guard_feed(is_stderr ? &r->err : &r->out, bytes, len, &safe);
        bytes = safe.data;
        len = safe.len;
    }
    if (len == 0)
        return;
    *(is_stderr ? &r->err_mid_line : &r->out_mid_line) =
        bytes[len - 1] != '\n';
    /* Live, and in order with the other stream. */
    if (fwrite(bytes, 1, len, to) != len || fflush(to) != 0)
        r->unread = true;
}

static void line(struct cli_render *r, bool is_stderr, const char *text)
{
    size_t len = strlen(text);

    cli_render_text(r, is_stderr, text, len);
    if (len == 0 || text[len - 1] != '\n')
        cli_render_text(r, is_stderr, "\n", 1);
}

/* Ends a half-written line, so that ours starts at its beginning. */
static void fresh_line(struct cli_render *r)
{
    if (r->err_mid_line || (r->out_mid_line && r->c->tty_out))
        (void)fputc('\n', stderr);
    r->err_mid_line = false;
    if (r->c->tty_out)
        r->out_mid_line = false;
}

/* ---- images ------------------------------------------------------------- */

static const struct {
    const char *mime;
    const char *suffix;
    bool base64;
} images[] = {
    {"image/png", "png", true},       {"image/jpeg", "jpg", true},
    {"image/gif", "gif", true},       {"image/webp", "webp", true},
    {"application/pdf", "pdf", true}, {"image/svg+xml", "svg", false},
};

/* The first free chart-N.suffix; nothing is ever overwritten. */
static int open_chart(const char *dir, const char *suffix, char **ret_path)
{
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return -errno;
    for (int i = 1; i <= CHARTS_MAX; i++) {
        char *path cleanup(mem_free) =
            strcmp(dir, ".") == 0
                ? xasprintf("chart-%d.%s", i, suffix)
                : xasprintf("%s/chart-%d.%s", dir, i, suffix);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        if (fd >= 0)
            *ret_path = take_ptr(path);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

static void save_chart(struct cli_render *r, size_t kind, const char *text)
{
    unsigned char *raw cleanup(mem_free) = NULL;
    char *path cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    const void *bytes = text;
    size_t len = strlen(text);
    struct error err;
    int result = 0;

    if (images[kind].base64) {
        if (json_base64_decode(text, len, &raw, &len, &err) < 0)
            result = -EBADMSG;
        bytes = raw;
    }
    if (result == 0)
        result = fd = open_chart(r->charts, images[kind].suffix, &path);
    if (result >= 0)
        result = fd_write_all(fd, bytes, len);
    fresh_line(r);
    if (result < 0)
        (void)fprintf(stderr, "a chart could not be saved in %s: %s\n",
                      r->charts, strerror(-result));
    else if (!r->c->json)
        (void)fprintf(stderr, "chart saved: %s\n", path);
}

/* Saves the bundle's image; true when it had one. */
static bool save_image(struct cli_render *r, const json_t *bundle)
{
    for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
        const char *text = cli_json_text(bundle, images[i].mime, NULL);

        if (!text)
            continue;
        if (r->charts)
            save_chart(r, i, text);
        return true;
    }
    return false;
}

void cli_render_charts(struct cli_render *r, const json_t *execution)
{
    const json_t *displays = json_object_get(execution, "displays");

    for (size_t i = 0; i < json_array_size(displays); i++)
        (void)save_image(r, json_array_get(displays, i));
    (void)save_image(r, json_object_get(execution, "result"));
}

/* ---- values, errors, failures ------------------------------------------- */

void cli_render_bundle(struct cli_render *r, const json_t *bundle)
{
    static const char *const texts[] = {"text/markdown", "text/plain",
                                        "text/latex", "text/html"};
    void *first;

    if (save_image(r, bundle))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        const char *text = cli_json_text(bundle, texts[i], NULL);

        if (text) {
            line(r, false, text);
            return;
        }
    }
    first = json_object_iter((json_t *)bundle);
    if (first) {
        char *text cleanup(mem_free) = json_dumps(
            json_object_iter_value(first), JSON_ENCODE_ANY | JSON_INDENT(2));

        line(r, false, text ? text : json_object_iter_key(first));
    }
}

void cli_render_error(struct cli_render *r, const json_t *error)
{
    const json_t *lines = json_object_get(error, "traceback");

    if (!json_is_object(error))
        return;
    r->error_shown = true;
    fresh_line(r);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *one = json_string_value(json_array_get(lines, i));

        line(r, true, one ? one : "");
    }
    if (json_array_size(lines) == 0) {
        struct buf text cleanup(buf_done) = {0};

        buf_addf(&text, "%s: %s", cli_json_text(error, "name", "error"),
                 cli_json_text(error, "message", ""));
        line(r, true, text.data);
    }
}

/* A limit's value in the unit its name ends with. */
static void add_value(struct buf *out, const char *name, json_int_t value)
{
    size_t len = strlen(name);
    char text[24];

    if (len > 6 && strcmp(name + len - 6, "_bytes") == 0)
        buf_adds(out, cli_format_size((uint64_t)value, text));
    else if (len > 2 && strcmp(name + len - 2, "_s") == 0)
        buf_adds(out, cli_format_duration((uint64_t)value * 1000, text));
    else
        buf_addf(out, "%" JSON_INTEGER_FORMAT, value);
}

static void add_limit(struct buf *out, const json_t *limit)
{
    const char *name = cli_json_text(limit, "name", NULL);
    const json_t *value = json_object_get(limit, "value");
    const json_t *peak = json_object_get(limit, "peak");

    if (!name)
        return;
    buf_addf(out, " (%s", name);
    if (json_is_integer(value)) {
        buf_adds(out, ": limit ");
        add_value(out, name, json_integer_value(value));
    }
    if (json_is_integer(peak) && json_integer_value(peak) > 0) {
        buf_adds(out, ", peak ");
        add_value(out, name, json_integer_value(peak));
    }
    buf_adds(out, ")");
}

static const struct {
    const char *outcome;
    int exit;
    const char *sentence; /* NULL: the code's own doing, shown already */
} outcomes[] = {
    {"ok", CLI_EXIT_OK, NULL},
    {"error", CLI_EXIT_CODE, NULL},
    {"timeout", CLI_EXIT_TIMEOUT, "the code ran out of time"},
    {"oom", CLI_EXIT_LIMIT, "the session ran out of memory"},
    {"limit", CLI_EXIT_LIMIT, "the session reached a limit"},
    {"killed", CLI_EXIT_KILLED, "the interpreter was killed"},
    {"crashed", CLI_EXIT_KILLED, "the interpreter crashed"},
    {"cancelled", CLI_EXIT_CANCELLED, "cancelled"},
    {"isolation_failed", CLI_EXIT_ISOLATION,
     "a wall of the session could not be built, so nothing ran"},
    {"denied", CLI_EXIT_DENIED, "policy does not allow this"},
};

static size_t outcome_row(const json_t *execution)
{
    const char *outcome = cli_json_text(execution, "outcome", "");
    size_t i = 0;

    while (i < ARRAY_SIZE(outcomes) && strcmp(outcomes[i].outcome, outcome))
        i++;
    return i;
}

int cli_render_exit(const json_t *execution)
{
    size_t row = outcome_row(execution);

    return row < ARRAY_SIZE(outcomes) ? outcomes[row].exit : CLI_EXIT_FAILED;
}

bool cli_render_sentence(const json_t *execution, struct buf *out)
{
    size_t row = outcome_row(execution);
    const char *said =
        cli_json_text(json_object_get(execution, "error"), "message", "");

    if (row == ARRAY_SIZE(outcomes))
        buf_adds(out, "the service did not say how it ended");
    else if (!outcomes[row].sentence)
        return false;
    else if (*said)
        buf_adds(out, said);
    else {
        buf_adds(out, outcomes[row].sentence);
        add_limit(out, json_object_get(execution, "limit"));
    }
    return true;
}

/* A failure of the code that no traceback has told of: a script's status. */
static bool own_words(const struct cli_render *r, const json_t *execution,
                      struct buf *out)
{
    const json_t *error = json_object_get(execution, "error");
    const char *said = cli_json_text(error, "message", "");
    const json_t *status = json_object_get(execution, "exit_code");

    if (cli_render_exit(execution) != CLI_EXIT_CODE || r->error_shown)
        return false;
    if (*said)
        buf_adds(out, said);
    else if (json_is_integer(status))
        buf_addf(out, "ended with status %" JSON_INTEGER_FORMAT,
                 json_integer_value(status));
    return out->len > 0;
}

/* For outcomes whose own sentence does not speak of it, such as sys.exit(). */
static void note_lost(const struct cli_render *r, const json_t *execution)
{
    if (r->lasting && cli_render_exit(execution) <= CLI_EXIT_CODE &&
        json_is_true(json_object_get(execution, "interpreter_lost")))
        (void)fputs("variables are gone: the next run gets a fresh "
                    "interpreter; files are in place\n",
                    stderr);
}

void cli_render_end(struct cli_render *r, const json_t *execution)
{
    const json_t *truncated = json_object_get(execution, "truncated");
    struct buf text cleanup(buf_done) = {0};

    if (json_is_true(json_object_get(truncated, "stdout")) ||
        json_is_true(json_object_get(truncated, "stderr"))) {
        fresh_line(r);
        (void)fputs("output was longer than is kept and has been cut\n",
                    stderr);
    }
    if (!cli_render_sentence(execution, &text) &&
        !own_words(r, execution, &text)) {
        note_lost(r, execution);
        return;
    }
    fresh_line(r);
    (void)fprintf(stderr, "%s%s: %s%s\n", r->c->color_err ? "\033[31m" : "",
                  cli_json_text(execution, "outcome", "unknown"), text.data,
                  r->c->color_err ? "\033[0m" : "");
    note_lost(r, execution);
}
