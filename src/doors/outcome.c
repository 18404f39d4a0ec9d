/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution came to, for doors whose clients want one answer instead
 * of events: the streams joined, the last value's text, the pictures, the
 * traceback. Runs on a worker of the daemon, after the end; what it reads was
 * written by the session and may be anything.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/doors.h"
#include "session/session.h"
#include "wire/wire.h"

#define ESC '\x1b'

static bool is(const struct kernel_pair *p, const char *key)
{
    return p->key_len == strlen(key) && memcmp(p->key, key, p->key_len) == 0;
}

/* What stands between ESC [ and its last letter, and other two-byte escapes,
 * is for terminals. */
void doors_outcome_plain(struct buf *out, const char *text, size_t len)
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

/* One picture of a bundle, the first type of the list that it has. */
static void note_image(struct doors_outcome *o, const struct exec_event *event)
{
    for (size_t i = 0; i < ARRAY_SIZE(image_types); i++) {
        struct kernel_pair pair;
        size_t pos = 0;

        while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1) {
            if (!is(&pair, image_types[i]))
                continue;
            if (o->image_count < DOORS_IMAGES_MAX)
                o->images[o->image_count++] = (struct doors_image){
                    image_types[i], pair.value, pair.value_len};
            return;
        }
    }
}

static void note_result(struct doors_outcome *o,
                        const struct exec_event *event)
{
    struct kernel_pair pair;
    size_t pos = 0;

    o->has_result = true;
    o->result = "";
    o->result_len = 0;
    while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1)
        if (is(&pair, "text/plain")) {
            o->result = pair.value;
            o->result_len = pair.value_len;
            return;
        }
}

static void note_error(struct doors_outcome *o, const struct exec_event *event)
{
    struct kernel_pair pair;
    size_t pos = 0;

    o->has_error = true;
    o->error_name = o->error_message = "";
    o->error_name_len = o->error_message_len = 0;
    buf_reset(&o->traceback);
    while (wire_pairs_next(event->data, event->len, &pos, &pair) == 1) {
        if (is(&pair, "name")) {
            o->error_name = pair.value;
            o->error_name_len = pair.value_len;
        } else if (is(&pair, "message")) {
            o->error_message = pair.value;
            o->error_message_len = pair.value_len;
        } else if (is(&pair, "traceback")) {
            if (o->traceback.len)
                buf_adds(&o->traceback, "\n");
            doors_outcome_plain(&o->traceback, pair.value, pair.value_len);
        }
    }
}

void doors_outcome_read(struct execution *e, struct doors_outcome *ret)
{
    struct exec_event event = {0}, result = {0};

    memset(ret, 0, sizeof(*ret));
    while (execution_event(e, event.number, &event))
        switch (event.type) {
        case EVENT_STDOUT:
            buf_add(&ret->stdout_text, event.data, event.len);
            break;
        case EVENT_STDERR:
            buf_add(&ret->stderr_text, event.data, event.len);
            break;
        case EVENT_DISPLAY:
            note_image(ret, &event);
            break;
        case EVENT_RESULT:
            result = event;
            note_result(ret, &event);
            break;
        case EVENT_ERROR:
            note_error(ret, &event);
            break;
        case EVENT_STATUS:
        case EVENT_CLEAR:
        case EVENT_DONE:
            break;
        }
    if (result.number)
        note_image(ret, &result);
}

void doors_outcome_done(struct doors_outcome *o)
{
    buf_done(&o->stdout_text);
    buf_done(&o->stderr_text);
    buf_done(&o->traceback);
}
