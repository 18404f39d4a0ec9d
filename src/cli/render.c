/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what an execution produced: its streams as they are, values and
 * displays as text, images as files, tracebacks on standard error. Everything
 * a session wrote is filtered before it reaches a terminal.
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
        cli_filter_feed(is_stderr ? &r->err : &r->out, bytes, len, &safe);
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

void cli_render_fresh_line(struct cli_render *r)
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
    cli_render_fresh_line(r);
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

/* ---- values and errors ------------------------------------------------- */

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
    cli_render_fresh_line(r);
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
