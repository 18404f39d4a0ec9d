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
#include "cli/common.h"

#define CHARTS_MAX 9999
#define KITTY_CHUNK 4096u
#define INLINE_MAX (8u << 20)

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

static void render_line(struct cli_render *r, bool is_stderr, const char *text)
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

/* The first free STEM-N.SUFFIX; nothing is ever overwritten. */
static int open_new(const char *dir, const char *stem, const char *suffix,
                    char **ret_path)
{
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return -errno;
    for (int i = 1; i <= CHARTS_MAX; i++) {
        char *path cleanup(mem_free) =
            strcmp(dir, ".") == 0
                ? xasprintf("%s-%d.%s", stem, i, suffix)
                : xasprintf("%s/%s-%d.%s", dir, stem, i, suffix);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        if (fd >= 0)
            *ret_path = take_ptr(path);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

/* Shows an image in a terminal that has the protocol of kitty or iTerm2, or
 * sixel graphics. text is base64 that decoded to raw without an error, so
 * nothing in it can end the escape sequence. */
static void show_inline(struct cli_render *r, const char *mime,
                        const char *text, const unsigned char *raw,
                        size_t raw_len)
{
    const char *term = getenv("TERM"), *program = getenv("TERM_PROGRAM");
    size_t len = strlen(text);
    bool kitty = getenv("KITTY_WINDOW_ID") || (term && strstr(term, "kitty"));
    bool iterm = program && (strcmp(program, "iTerm.app") == 0 ||
                             strcmp(program, "WezTerm") == 0);

    if (!r->c->tty_out || !r->c->color_out || len > INLINE_MAX)
        return;
    if (kitty && strcmp(mime, "image/png") == 0) {
        for (size_t at = 0; at < len; at += KITTY_CHUNK)
            (void)printf("\033_G%sm=%d;%.*s\033\\", at ? "" : "a=T,f=100,",
                         at + KITTY_CHUNK < len,
                         (int)MIN(KITTY_CHUNK, len - at), text + at);
        (void)fputc('\n', stdout);
    } else if (iterm && strncmp(mime, "image/", 6) == 0) {
        (void)printf("\033]1337;File=inline=1:%s\a\n", text);
    } else if (!kitty && !iterm && strcmp(mime, "image/png") == 0) {
        if (!r->sixel_known)
            r->sixel = cli_sixel_supported();
        r->sixel_known = true;
        if (r->sixel && cli_sixel_write(stdout, raw, raw_len))
            (void)fputc('\n', stdout);
    }
    (void)fflush(stdout);
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
        if (result == 0)
            show_inline(r, images[kind].mime, text, raw, len);
    }
    if (result == 0)
        result = fd = open_new(r->charts, "chart", images[kind].suffix, &path);
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

/* A figure or a page that has no text worth printing goes to a file; true if
 * the bundle had one. */
static bool save_page(struct cli_render *r, const json_t *bundle)
{
    const json_t *plotly =
        json_object_get(bundle, "application/vnd.plotly.v1+json");
    const char *html = cli_json_text(bundle, "text/html", NULL);
    const char *plain = cli_json_text(bundle, "text/plain", "<");
    char *dumped cleanup(mem_free) = NULL;
    char *path cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    int result;

    if (!r->charts || cli_json_text(bundle, "text/markdown", NULL) ||
        (!plotly && (!html || plain[0] != '<')))
        return false;
    if (!html)
        html = dumped = json_dumps(plotly, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!html)
        return false;
    result = fd =
        open_new(r->charts, "output", dumped ? "plotly.json" : "html", &path);
    if (result >= 0)
        result = fd_write_all(fd, html, strlen(html));
    cli_render_fresh_line(r);
    if (result < 0)
        (void)fprintf(stderr, "a page could not be saved in %s: %s\n",
                      r->charts, strerror(-result));
    else if (!r->c->json)
        (void)fprintf(stderr, "%s saved: %s\n", plotly ? "figure" : "page",
                      path);
    return true;
}

/* ---- values and errors -------------------------------------------------- */

void cli_render_bundle(struct cli_render *r, const json_t *bundle)
{
    static const char *const texts[] = {"text/markdown", "text/plain",
                                        "text/latex", "text/html"};
    void *first;

    if (save_image(r, bundle) || save_page(r, bundle))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        const char *text = cli_json_text(bundle, texts[i], NULL);

        if (text) {
            render_line(r, false, text);
            return;
        }
    }
    first = json_object_iter((json_t *)bundle);
    if (first) {
        char *text cleanup(mem_free) = json_dumps(
            json_object_iter_value(first), JSON_ENCODE_ANY | JSON_INDENT(2));

        render_line(r, false, text ? text : json_object_iter_key(first));
    }
}

/* Lines of a traceback: where it happened, the line itself, what happened. */
static void render_traceback(struct cli_render *r, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n"), blank = strspn(text, " ");
        const char *color = "";
        char *line cleanup(mem_free) = NULL;

        if (strncmp(text + blank, "File ", 5) == 0 ||
            strncmp(text + blank, "Cell ", 5) == 0)
            color = "\033[36m";
        else if (strncmp(text + blank, "---", 3) == 0)
            color = "\033[33m";
        else if (blank == 0 && strncmp(text, "Traceback", 9) != 0)
            color = "\033[31m";
        line = xasprintf("%s%.*s%s", color, (int)len, text,
                         *color ? "\033[0m" : "");
        render_line(r, true, line);
        text += len + (text[len] == '\n');
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

        if (r->c->color_err)
            render_traceback(r, one ? one : "");
        else
            render_line(r, true, one ? one : "");
    }
    if (json_array_size(lines) == 0) {
        struct buf text cleanup(buf_done) = {0};

        buf_addf(&text, "%s: %s", cli_json_text(error, "name", "error"),
                 cli_json_text(error, "message", ""));
        render_line(r, true, text.data);
    }
}

/* ---- the filter --------------------------------------------------------- */

/*
 * Removes terminal control from untrusted output. What a session prints is
 * hostile, and escape sequences can change a terminal's title, read or set
 * the clipboard, or make the terminal type. Output to a terminal passes here;
 * output to a file or a pipe is left as it is.
 */

enum {
    TEXT,
    ESCAPE,     /* after ESC */
    CONTROL,    /* inside ESC [ ... */
    STRING,     /* inside OSC, DCS, SOS, PM or APC: dropped to its end */
    STRING_ESC, /* ESC inside one: `\` ends it */
    LEAD_C2,    /* first byte of a two-byte character that may be C1 */
};

/* Colours, cursor movement and erasing; progress bars need them. */
static const char harmless[] = "ABCDEFGHJKm";

static void hold_byte(struct cli_filter *f, unsigned char b)
{
    if (f->held_len < sizeof(f->held))
        f->held[f->held_len++] = b;
    else
        f->held_len = sizeof(f->held) + 1; /* too long: dropped */
}

static void on_text(struct cli_filter *f, unsigned char b, struct buf *out)
{
    if (b == 0x1b) {
        f->held_len = 0;
        hold_byte(f, b);
        f->state = ESCAPE;
    } else if (b == 0xc2) {
        f->state = LEAD_C2;
    } else if (b == '\n' || b == '\t' || b == '\r' || b == '\b' ||
               (b >= 0x20 && b != 0x7f)) {
        buf_add(out, &b, 1);
    }
}

static void on_escape(struct cli_filter *f, unsigned char b)
{
    hold_byte(f, b);
    if (b == '[')
        f->state = CONTROL;
    else if (b && strchr("]PX^_", b))
        f->state = STRING;
    else if (b >= 0x20 && b <= 0x2f)
        f->state = ESCAPE; /* intermediates: wait for the final byte */
    else
        f->state = TEXT;
}

static void on_control(struct cli_filter *f, unsigned char b, struct buf *out)
{
    if (b == 0x1b) { /* starts over */
        f->held_len = 0;
        hold_byte(f, b);
        f->state = ESCAPE;
        return;
    }
    if (b < 0x20)
        return;
    /* Private parameters (`<=>?`) and intermediates switch modes. */
    if (b < 0x30 || (b >= 0x3c && b <= 0x3f))
        f->held_len = sizeof(f->held);
    hold_byte(f, b);
    if (b < 0x40)
        return;
    f->state = TEXT;
    if (!f->plain && f->held_len <= sizeof(f->held) && strchr(harmless, b))
        buf_add(out, f->held, f->held_len);
}

static void on_string(struct cli_filter *f, unsigned char b)
{
    if (f->state == STRING_ESC && b == '\\')
        f->state = TEXT;
    else if (b == 0x07 || b == '\n') /* an unended one must not eat it all */
        f->state = TEXT;
    else
        f->state = b == 0x1b ? STRING_ESC : STRING;
}

void cli_filter_feed(struct cli_filter *f, const char *bytes, size_t len,
                     struct buf *out)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)bytes[i];

        switch (f->state) {
        case ESCAPE:
            on_escape(f, b);
            break;
        case CONTROL:
            on_control(f, b, out);
            break;
        case STRING:
        case STRING_ESC:
            on_string(f, b);
            break;
        case LEAD_C2:
            f->state = TEXT;
            if (b >= 0xa0 && b <= 0xbf) {
                buf_add(out, "\xc2", 1);
                buf_add(out, &b, 1);
            } else if (b < 0x80 || b > 0x9f) {
                on_text(f, b, out);
            }
            break;
        default:
            on_text(f, b, out);
        }
    }
}
