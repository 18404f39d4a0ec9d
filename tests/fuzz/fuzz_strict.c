/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the strict parser of HTTP requests with the bytes of a connection.
 * How they are cut into pieces must make no difference; what it accepts must
 * hold no line end but CR LF outside of bodies; and a second reading, by
 * searching instead of by states, must find the same heads with the same
 * framing.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "http/http_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t feed(struct http_strict *s, const char *bytes, size_t len,
                   size_t step)
{
    size_t good = 0;

    http_strict_init(s);
    for (size_t at = 0; at < len; at += step) {
        size_t n = http_strict_feed(s, bytes + at, MIN(step, len - at));

        assert(n <= MIN(step, len - at));
        good += n;
    }
    return good;
}

/* The value of a header line in the head, or NULL. */
static const char *field(const char *head, size_t len, const char *name)
{
    const char *at = head, *end = head + len;

    while ((at = memmem(at, (size_t)(end - at), "\r\n", 2))) {
        at += 2;
        if ((size_t)(end - at) > strlen(name) &&
            strncasecmp(at, name, strlen(name)) == 0 &&
            at[strlen(name)] == ':')
            return at + strlen(name) + 1;
    }
    return NULL;
}

/* The head of an accepted message, whose end is given. Returns the length of
 * its body, or -1 when that is in chunks. */
static long long check_head(const char *head, size_t len)
{
    const char *length = field(head, len, "content-length");
    const char *line = memmem(head, len, "\r\n", 2);

    assert(line && line - head <= HTTP_REQUEST_LINE_MAX);
    assert(memmem(line - 9, 9, " HTTP/1.", 8));
    for (size_t i = 0; i < len; i++) {
        assert(head[i] != '\0');
        assert(head[i] != '\n' || (i > 0 && head[i - 1] == '\r'));
        assert(head[i] != '\r' || head[i + 1] == '\n');
    }
    assert(!memmem(head, len, "\r\n ", 3) && !memmem(head, len, "\r\n\t", 3));
    if (field(head, len, "transfer-encoding")) {
        assert(!length);
        return -1;
    }
    return length ? atoll(length + strspn(length, " \t")) : 0;
}

/* Only messages without chunks are walked; the parser's own states must
 * agree as far as that goes. */
static void walk(const char *bytes, size_t good, unsigned heads)
{
    size_t at = 0;
    unsigned found = 0;

    while (found < heads) {
        const char *end = memmem(bytes + at, good - at, "\r\n\r\n", 4);
        long long body;

        assert(end);
        found++;
        body = check_head(bytes + at, (size_t)(end - bytes) - at + 4);
        if (body < 0 || (unsigned long long)body > good)
            return;
        at = (size_t)(end - bytes) + 4 + (size_t)body;
        if (at > good)
            return; /* the last one is not complete */
    }
    if (good - at >= 4) /* of an incomplete head */
        assert(!memmem(bytes + at, good - at, "\r\n\r\n", 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 3, 64};
    const char *bytes = (const char *)data;
    struct http_strict whole, pieces;
    size_t good;

    if (size == 0)
        return 0;
    good = feed(&whole, bytes, size, size);
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        assert(feed(&pieces, bytes, size, steps[i]) == good);
        assert(pieces.status == whole.status && pieces.heads == whole.heads);
        assert(pieces.why == whole.why);
        assert(http_strict_in_message(&pieces) ==
               http_strict_in_message(&whole));
    }
    assert((whole.status != 0) == (whole.why != NULL));
    assert(whole.status == 0 || whole.status == 400 || whole.status == 414 ||
           whole.status == 417 || whole.status == 431);
    walk(bytes, good, whole.heads);
    return 0;
}
