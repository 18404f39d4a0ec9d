/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of model servers: any bytes, in any pieces, of every dialect. Frames
 * stay within their bounds, text is UTF-8, items are JSON, and END comes last
 * and once (L4).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "upstream/upstream.h"

static void check_frame(void *ctx, enum model_frame_type type, unsigned item,
                        const void *data, size_t len)
{
    bool *ended = ctx;
    json_t *value;

    if (*ended || len > MODEL_FRAME_MAX || item >= MODEL_TEXTS_MAX)
        abort();
    if (type == MODEL_FRAME_END) {
        *ended = true;
        if (len != sizeof(struct model_end) ||
            !memchr(((const struct model_end *)data)->message, 0,
                    MODEL_TEXT_MAX))
            abort();
    } else if (type == MODEL_FRAME_ITEM) {
        value = json_loadb(data, len, 0, NULL);
        if (!json_is_object(value))
            abort();
        json_decref(value);
    } else if (type != MODEL_FRAME_VECTOR && !utf8_valid(data, len)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first two bytes choose dialect, status and the size of the pieces. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const long statuses[] = {200, 200, 200, 429};
    struct upstream_answer *a;
    bool ended = false;
    size_t step;

    if (size < 2)
        return 0;
    a = upstream_answer_new((enum model_dialect)(1 + data[0] % 3),
                            data[0] >= 250, true, check_frame, &ended);
    upstream_answer_status(a, statuses[(data[0] >> 4) % 4]);
    step = data[1] ? data[1] : size;
    data += 2;
    size -= 2;
    for (size_t at = 0; at < size; at += step)
        if (!upstream_answer_feed(a, data + at, MIN(step, size - at)))
            break;
    upstream_answer_end(a, (enum upstream_transport)(step % 2), "why");
    if (!ended)
        abort();
    upstream_answer_free(a);
    return 0;
}
