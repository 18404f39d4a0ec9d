/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes forms: the first line of the input is the Content-Type, its last
 * byte also says in pieces of which size the rest arrives. However it is cut,
 * the same bytes must come to the same parts or to a refusal, within the
 * limits; and so they must when the boundary is taken from the body itself.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct source {
    const uint8_t *bytes;
    size_t len, at, piece;
};

static ssize_t read_source(void *ctx, void *bytes, size_t len,
                           struct error *err)
{
    struct source *s = ctx;
    size_t n = MIN(MIN(len, s->piece), s->len - s->at);

    (void)err;
    assert(len > 0);
    memcpy(bytes, s->bytes + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

/* Everything that was read, as one text to compare; its return value too.
 * type: NULL when the body tells. */
static int parse(const char *type, struct source *source, struct buf *ret)
{
    struct http_multipart *m cleanup(http_multipart_free) = NULL;
    struct arena *arena = arena_new();
    struct error err = {0};
    struct http_part part;
    unsigned parts = 0;
    char bytes[333];
    ssize_t n;
    int r =
        type ? http_multipart_new(type, read_source, source, arena, &m, &err)
             : http_multipart_sniff(read_source, source, arena, &m, &err);

    while (r == 0 && (r = http_multipart_next(m, &part, &err)) > 0) {
        assert(++parts <= HTTP_PARTS_MAX && part.name);
        assert(strlen(part.name) <= HTTP_PART_HEADER_MAX);
        buf_addf(ret, "%s\n%s\n%s\n", part.name,
                 part.filename ? part.filename : "",
                 part.type ? part.type : "");
        while ((n = http_multipart_read(m, bytes, sizeof(bytes), &err)) > 0)
            buf_add(ret, bytes, (size_t)n);
        r = n < 0 ? (int)n : 0;
    }
    assert(r == 0 || (err.code == ERR_INVALID && err.message[0]));
    arena_free(arena);
    return r;
}

static void compare(const char *type, struct source source, size_t piece)
{
    struct buf whole cleanup(buf_done) = {0}, cut cleanup(buf_done) = {0};
    struct source pieces = source;
    int r = parse(type, &source, &whole);

    pieces.piece = piece;
    assert(parse(type, &pieces, &cut) == r);
    assert(r < 0 ||
           (whole.len == cut.len &&
            (whole.len == 0 || memcmp(whole.data, cut.data, whole.len) == 0)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = memchr(data, '\n', size);
    size_t head = line ? (size_t)(line - data) : size;
    char *type cleanup(mem_free) = xstrndup((const char *)data, head);
    struct source source = {data + head, size - head, 0, SIZE_MAX};
    size_t piece = size ? 1u + data[size - 1] % 97u : 1u;

    if (line) {
        source.bytes++;
        source.len--;
    }
    compare(type, source, piece);
    compare(NULL, source, piece);
    return 0;
}
