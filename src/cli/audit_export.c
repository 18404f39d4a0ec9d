/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox audit export: the trail for other programs, page by page, so that
 * a long one needs no room here; and on and on with --follow.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/format.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/audit.h"
#include "cli/cli_int.h"

#define PAGE 500u

struct export
{
    struct cli *c;
    const struct cli_audit *flags;
    const char *format;
    char host[256];
    int fd;
    uint64_t after;
};

/* The lines of a page, one JSON value each. */
static int parse(const struct buf *text, json_t *ret, struct error *err)
{
    for (size_t at = 0; at < text->len;) {
        const char *end = memchr(text->data + at, '\n', text->len - at);
        size_t len = end ? (size_t)(end - text->data) - at : text->len - at;
        json_t *line = cli_json_load(text->data + at, len);

        if (!line)
            return error_set(err, ERR_INTERNAL,
                             "the service sent a line that is no event");
        (void)json_array_append_new(ret, line);
        at += len + 1;
    }
    return 0;
}

static void add_syslog(const struct export *x, const json_t *events,
                       struct buf *out)
{
    struct audit_line l;

    for (size_t i = 0; i < json_array_size(events); i++)
        if (cli_audit_line(json_array_get(events, i), &l)) {
            audit_format_syslog(out, &l, x->host);
            buf_adds(out, "\n");
        }
}

static void add_otlp(const json_t *events, struct buf *out)
{
    struct audit_line *lines cleanup(mem_free) =
        xcalloc(json_array_size(events) + 1, sizeof(*lines));
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(events); i++)
        count += cli_audit_line(json_array_get(events, i), &lines[count]);
    if (!count)
        return;
    audit_format_otlp(out, lines, count);
    buf_adds(out, "\n");
}

/* How many events came. */
static int write_page(struct export *x, const struct buf *text, size_t *ret,
                      struct error *err)
{
    json_t *events cleanup(json_unref) = json_array();
    struct buf other cleanup(buf_done) = {0};
    const struct buf *out = &other;
    int r = parse(text, events, err);

    *ret = json_array_size(events);
    if (r < 0 || *ret == 0)
        return r;
    x->after = cli_json_number(json_array_get(events, *ret - 1), "seq");
    if (strcmp(x->format, "syslog") == 0)
        add_syslog(x, events, &other);
    else if (strcmp(x->format, "otlp") == 0)
        add_otlp(events, &other);
    else
        out = text;
    r = fd_write_all(x->fd, out->data, out->len);
    return r < 0 ? error_errno(err, ERR_INTERNAL, -r, "cannot write it") : 0;
}

static int page(struct export *x, size_t *ret, struct error *err)
{
    struct buf url cleanup(buf_done) = {0}, text cleanup(buf_done) = {0};
    int r;

    buf_adds(&url, "/api/audit/export");
    cli_http_query_time(&url, "from", x->flags->from_ms);
    cli_http_query_time(&url, "to", x->flags->to_ms);
    cli_http_query_number(&url, "limit", PAGE);
    cli_http_query_number(&url, "after", x->after);
    r = cli_http_text(x->c, url.data, &text, err);
    return r < 0 ? r : write_page(x, &text, ret, err);
}

static int run(struct export *x, struct error *err)
{
    size_t count = 0;
    int r;

    do {
        do
            r = page(x, &count, err);
        while (r == 0 && count == PAGE);
    } while (r == 0 && x->flags->follow && cli_audit_nap(x->c));
    return x->c->interrupted ? 0 : r;
}

int cli_audit_export(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct cli_audit *a = arg;
    const char *format = a->format ? a->format : "jsonl";
    struct export x = {.c = c, .flags = a, .format = format};
    int fd cleanup(fd_close) = -1;
    struct error err;

    (void)words;
    if (strcmp(format, "jsonl") != 0 && strcmp(format, "otlp") != 0 &&
        strcmp(format, "syslog") != 0)
        return cli_usage_error(c, "--format is jsonl, otlp or syslog");
    x.fd = STDOUT_FILENO;
    if (a->output && strcmp(a->output, "-") != 0) {
        fd = open(a->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0) {
            (void)error_errno(&err, ERR_INVALID, errno, "cannot write %s",
                              a->output);
            return cli_fail(c, &err);
        }
        x.fd = fd;
    }
    if (gethostname(x.host, sizeof(x.host) - 1) < 0 || !x.host[0])
        x.host[0] = '-';
    return run(&x, &err) < 0 ? cli_fail(c, &err) : CLI_EXIT_OK;
}
