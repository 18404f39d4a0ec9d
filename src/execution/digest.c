/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution came to, for callers that want one answer instead
 * of events: the streams joined, what was displayed, the last value's text,
 * the pictures, the traceback. Runs on a worker of the daemon, after the end;
 * what it reads was written by the session and may be anything.
 */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "execution/execution.h"
#include "wire/wire.h"

#define ESC '\x1b'
#define PLOTLY "application/vnd.plotly.v1+json"
#define DISPLAY_ID "application/x.glovebox.display-id"

static bool is(const struct kernel_pair *p, const char *key)
{
    return p->key_len == strlen(key) && memcmp(p->key, key, p->key_len) == 0;
}

/* Skips everything between ESC [ and its last letter, and two-byte escapes:
 * they are for terminals. */
void execution_digest_plain(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0, from = 0; i <= len; i++) {
        if (i < len && text[i] != ESC)
            continue;
        buf_add(out, text + from, i - from);
        if (i == len)
            break;
        if (i + 1 < len && text[i + 1] == '[') {
            i += 2;
            while (i < len && (text[i] < '@' || text[i] > '~'))
                i++;
        } else {
            i++;
        }
        from = MIN(i + 1, len);
        if (i >= len)
            break;
    }
}

/* In the order people would rather see. */
static const char *const image_types[] = {
    "image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml",
};

/* One picture of a bundle, the first type of the list that it has; false: it
 * has none. */
static bool note_image(struct exec_digest *o, const struct exec_event *event)
{
    for (size_t i = 0; i < ARRAY_SIZE(image_types); i++) {
        struct kernel_pair pair;
        size_t pos = 0;

        while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1) {
            if (!is(&pair, image_types[i]))
                continue;
            if (o->image_count < EXEC_IMAGES_MAX)
                o->images[o->image_count++] = (struct exec_image){
                    image_types[i], pair.value, pair.value_len};
            else
                o->images_left_out++;
            return true;
        }
    }
    return false;
}

/* The pair of a bundle with this key; false: it has none. */
static bool find_pair(const struct exec_event *event, const char *key,
                      struct kernel_pair *ret)
{
    size_t pos = 0;

    while (wire_pairs_next(event->data, event->len, &pos, ret) == 1)
        if (is(ret, key))
            return true;
    *ret = (struct kernel_pair){.key = "", .value = ""};
    return false;
}

/* The text of a bundle that says most in little room. */
static struct kernel_pair best_text(const struct exec_event *event)
{
    static const char *const types[] = {KERNEL_BRIEF, "text/markdown",
                                        "text/plain"};
    struct kernel_pair pair = {.value = ""};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (find_pair(event, types[i], &pair))
            break;
    return pair;
}

static void note_result(struct exec_digest *o, const struct exec_event *event)
{
    struct kernel_pair plain, other, best = best_text(event);

    (void)find_pair(event, "text/plain", &plain);
    o->has_result = true;
    o->result = plain.value;
    o->result_len = plain.value_len;
    o->result_text = best.value;
    o->result_text_len = best.value_len;
    o->result_opaque = find_pair(event, KERNEL_BRIEF, &other) &&
                       (plain.value_len == 0 || plain.value[0] == '<' ||
                        find_pair(event, PLOTLY, &other));
}

/* One with the id of an earlier one takes its place: it is an update. */
static void note_display(struct exec_digest *o, const struct exec_event *event)
{
    struct kernel_pair id, best = best_text(event);
    struct exec_display d = {
        .at = o->stdout_text.len, .text = best.value, .len = best.value_len};

    if (find_pair(event, DISPLAY_ID, &id)) {
        d.id = id.value;
        d.id_len = id.value_len;
        for (size_t i = 0; i < o->display_count; i++) {
            struct exec_display *old = &o->displays[i];

            if (!old->id || old->id_len != d.id_len ||
                memcmp(old->id, d.id, d.id_len) != 0)
                continue;
            old->text = d.text;
            old->len = d.len;
            return;
        }
    }
    if (o->display_count < EXEC_DISPLAYS_MAX)
        o->displays[o->display_count++] = d;
    else
        o->displays_left_out++;
}

static void note_error(struct exec_digest *o, const struct exec_event *event)
{
    struct kernel_pair pair;
    size_t pos = 0;

    o->has_error = true;
    o->error_name = o->error_message = "";
    o->error_name_len = o->error_message_len = 0;
    buf_reset(&o->traceback);
    buf_reset(&o->brief);
    while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1) {
        if (is(&pair, "name")) {
            o->error_name = pair.value;
            o->error_name_len = pair.value_len;
        } else if (is(&pair, "message")) {
            o->error_message = pair.value;
            o->error_message_len = pair.value_len;
        } else if (is(&pair, "brief")) {
            execution_digest_plain(&o->brief, pair.value, pair.value_len);
        } else if (is(&pair, "traceback")) {
            if (o->traceback.len)
                buf_adds(&o->traceback, "\n");
            execution_digest_plain(&o->traceback, pair.value, pair.value_len);
        }
    }
}

void execution_digest_read(struct execution *e, struct exec_digest *ret)
{
    struct exec_event event = {0}, result = {0};
    bool clears = false; /* with the next output */

    memset(ret, 0, sizeof(*ret));
    while (execution_event(e, event.number, &event)) {
        if (clears &&
            (event.type == EVENT_STDOUT || event.type == EVENT_DISPLAY)) {
            ret->display_count = ret->displays_left_out = 0;
            clears = false;
        }
        switch (event.type) {
        case EVENT_STDOUT:
            buf_add(&ret->stdout_text, event.data, event.len);
            break;
        case EVENT_STDERR:
            buf_add(&ret->stderr_text, event.data, event.len);
            break;
        case EVENT_DISPLAY:
            if (!note_image(ret, &event))
                note_display(ret, &event);
            break;
        case EVENT_RESULT:
            result = event;
            note_result(ret, &event);
            break;
        case EVENT_ERROR:
            note_error(ret, &event);
            break;
        case EVENT_CLEAR:
            clears = event.len > 0 && event.data[0];
            if (!clears)
                ret->display_count = ret->displays_left_out = 0;
            break;
        case EVENT_STATUS:
        case EVENT_INPUT:
        case EVENT_DONE:
            break;
        }
    }
    if (result.number)
        (void)note_image(ret, &result);
}

static void end_line(struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '\n')
        buf_adds(out, "\n");
}

static void add_display(struct buf *out, const struct exec_display *d)
{
    size_t len = MIN(d->len, (size_t)EXEC_DISPLAY_BYTES);

    if (len < d->len)
        len -= utf8_partial(d->text, len);
    end_line(out);
    execution_digest_plain(out, d->text, len);
    end_line(out);
    if (len < d->len)
        buf_addf(out, "[… %zu more bytes are left out here …]\n",
                 d->len - len);
}

void execution_digest_output(const struct exec_digest *o, struct buf *out,
                             size_t *ret_tail)
{
    size_t at = 0, i = 0;

    for (; i < o->display_count && o->displays[i].at < o->stdout_text.len;
         i++) {
        buf_add(out, o->stdout_text.data + at, o->displays[i].at - at);
        at = o->displays[i].at;
        add_display(out, &o->displays[i]);
    }
    buf_add(out, o->stdout_text.data + at, o->stdout_text.len - at);
    if (i < o->display_count)
        end_line(out);
    *ret_tail = out->len;
    for (; i < o->display_count; i++)
        add_display(out, &o->displays[i]);
    if (o->displays_left_out) {
        end_line(out);
        buf_addf(out, "[… %zu more displays are left out here …]\n",
                 o->displays_left_out);
    }
}

void execution_digest_done(struct exec_digest *o)
{
    buf_done(&o->stdout_text);
    buf_done(&o->stderr_text);
    buf_done(&o->traceback);
    buf_done(&o->brief);
}
