/* SPDX-License-Identifier: Apache-2.0 */
/* The strict parser of requests; see strict.c. */
#ifndef GLOVEBOX_HTTP_STRICT_H
#define GLOVEBOX_HTTP_STRICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_STRICT_VALUE 271u /* bytes of a value that is looked at */

enum http_form {
    HTTP_NO_TARGET,
    HTTP_ORIGIN,   /* /path?query */
    HTTP_ABSOLUTE, /* http://host/path?query, before its path */
    HTTP_ABSOLUTE_PATH,
};

struct http_strict {
    /* For the caller. status is 0 until a message is refused; then it is the
     * status of the answer, and why a sentence for it. */
    unsigned status;
    const char *why;
    unsigned heads; /* complete ones so far */

    /* Where the parser is. */
    uint8_t state;
    bool trailer; /* the header lines are those after the last chunk */
    size_t line;  /* bytes of this line so far */

    /* The request line. */
    enum http_form form;
    uint8_t escape; /* digits still missing after a percent sign */
    bool escape_zero, query;
    unsigned parameters;
    uint8_t version_len, minor;
    char authority[HTTP_STRICT_VALUE + 1];

    /* Header lines. */
    unsigned fields, cookies;
    size_t bytes; /* of all of them */
    char name[32];
    size_t name_len;
    uint8_t field; /* which known one this is */
    uint32_t seen; /* set of the known ones */
    bool overflow; /* the value is longer than its buffer */
    bool close, keep, chunked;
    uint64_t length;
    size_t value_len;
    char value[HTTP_STRICT_VALUE + 1];
    char host[HTTP_STRICT_VALUE + 1];

    /* The body. */
    uint64_t left; /* of it or of this chunk */
    unsigned digits;
};

void http_strict_init(struct http_strict *s);
/* Reads on, over as many messages as there are. Returns how many of the bytes
 * are part of well-formed messages: all of them, fewer when a message is
 * refused, or when it was the last one of the connection. */
size_t http_strict_feed(struct http_strict *s, const char *bytes, size_t len);
/* Is the head of a message complete and its body not? */
bool http_strict_in_message(const struct http_strict *s);

#endif
