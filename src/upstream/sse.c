/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-sent events as model servers write them: lines that end with LF, CR
 * or CRLF, comments, several data lines, a last event without its empty line,
 * and the field "error" that some servers put in place of "data". Pure; goes
 * on at any byte. Runs in glovebox-model.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "upstream/upstream_int.h"

static bool flush_event(struct sse *s, sse_event_fn *fn, void *ctx)
{
    bool go_on = true;

    if (s->has_data)
        go_on = fn(ctx, s->error_field ? "error" : s->event,
                   s->data.data ? s->data.data : "", s->data.len);
    buf_reset(&s->data);
    s->event[0] = '\0';
    s->has_data = s->error_field = false;
    return go_on;
}

/* Text after "name:", without the one blank that may follow. */
static bool is_field(const char *line, size_t len, const char *name,
                     const char **ret, size_t *ret_len)
{
    size_t n = strlen(name);

    if (len < n || memcmp(line, name, n) != 0 || (len > n && line[n] != ':'))
        return false;
    n += len > n;
    if (n < len && line[n] == ' ')
        n++;
    *ret = line + n;
    *ret_len = len - n;
    return true;
}

/* -1: too long; 0: stop; 1: go on. */
static int take_line(struct sse *s, sse_event_fn *fn, void *ctx)
{
    const char *line = s->line.data ? s->line.data : "", *value;
    size_t len = s->line.len, n;

    if (len == 0)
        return flush_event(s, fn, ctx);
    if (is_field(line, len, "data", &value, &n) ||
        (!s->has_data && is_field(line, len, "error", &value, &n) &&
         (s->error_field = true))) {
        if (s->data.len + n + 1 > SSE_LINE_MAX)
            return -1;
        if (s->has_data)
            buf_add(&s->data, "\n", 1);
        buf_add(&s->data, value, n);
        s->has_data = true;
    } else if (is_field(line, len, "event", &value, &n)) {
        (void)snprintf(s->event, sizeof(s->event), "%.*s",
                       (int)MIN(n, sizeof(s->event) - 1), value);
    }
    return 1; /* comments, ids and others mean nothing here */
}

int sse_feed(struct sse *s, const char *bytes, size_t len, sse_event_fn *fn,
             void *ctx)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t at = 0;

    while (at < len) {
        size_t n = 0;
        int r;

        if (s->seen < 3 && bytes[at] == mark[s->seen]) {
            s->seen++;
            at++;
            continue;
        }
        s->seen = 3;
        if (s->after_cr && bytes[at] == '\n') {
            s->after_cr = false;
            at++;
            continue;
        }
        s->after_cr = false;
        while (at + n < len && bytes[at + n] != '\n' && bytes[at + n] != '\r')
            n++;
        if (s->line.len + n > SSE_LINE_MAX)
            return -1;
        buf_add(&s->line, bytes + at, n);
        at += n;
        if (at == len)
            break;
        s->after_cr = bytes[at++] == '\r';
        r = take_line(s, fn, ctx);
        buf_reset(&s->line);
        if (r <= 0)
            return r;
    }
    return 1;
}

int sse_end(struct sse *s, sse_event_fn *fn, void *ctx)
{
    int r = s->line.len ? take_line(s, fn, ctx) : 1;

    buf_reset(&s->line);
    return r <= 0 ? r : flush_event(s, fn, ctx);
}

void sse_done(struct sse *s)
{
    buf_done(&s->line);
    buf_done(&s->data);
}
