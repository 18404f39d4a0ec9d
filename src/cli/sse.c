/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads text/event-stream as it arrives: any chunk boundary, any of the three
 * line ends, comments, fields without a value, data in several lines. An
 * event that is cut off by the end of the stream is dropped, as the format
 * wants it. No I/O; called by http.c.
 */
#include <errno.h>
#include <string.h>

#include "cli/cli_int.h"

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

static int dispatch(struct cli_sse *s, cli_sse_fn *on_event, void *ctx)
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
        return dispatch(s, on_event, ctx);
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
