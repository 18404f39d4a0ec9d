/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 as the proxy reads it: strictly, because what two readers of the
 * same bytes understand differently is a way around a list. Heads, addresses,
 * paths and framing of bodies; pure, no copies, no acts. The bytes come from
 * sessions and from the world, and are hostile both times.
 */
#ifndef GLOVEBOX_EGRESS_HTTP_H
#define GLOVEBOX_EGRESS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/egress_msg.h"

#define HTTP_HEAD_MAX 32768u
#define HTTP_FIELDS_MAX 128u
#define HTTP_METHOD_MAX 15u

struct span {
    const char *at;
    size_t len;
};

struct http_field {
    struct span name, value;
};

enum http_framing {
    HTTP_BODY_NONE,
    HTTP_BODY_LENGTH,
    HTTP_BODY_CHUNKED,
    HTTP_BODY_CLOSE, /* of an answer: until the end of the connection */
};

struct http_head {
    struct span method, target; /* of a request */
    unsigned status;            /* of an answer */
    unsigned minor;             /* HTTP/1.minor */
    struct http_field fields[HTTP_FIELDS_MAX];
    size_t field_count;
    enum http_framing framing;
    uint64_t length;
    bool upgrade, expect; /* expect: 100-continue */
};

/* ---- head.c ------------------------------------------------------------- */

/* Length of the head with its empty line; 0: not all of it is here yet;
 * -EBADMSG: a line that ends without CR LF; -EMSGSIZE: over HTTP_HEAD_MAX. */
ssize_t egress_head_end(const char *bytes, size_t len);
/* The whole head, as egress_head_end found it. Points into bytes. NULL, or
 * what is wrong with it. */
const char *egress_head_request(const char *bytes, size_t len,
                                struct http_head *ret);
/* head_request: it answers HEAD. */
const char *egress_head_answer(const char *bytes, size_t len,
                               bool head_request, struct http_head *ret);
/* The only field of that name; NULL: none. */
const struct http_field *egress_head_field(const struct http_head *h,
                                           const char *name);
bool egress_head_is(struct span s, const char *word); /* whatever its case */
/* Meant for one hop, or for us: not to be passed on. */
bool egress_head_hop(const struct http_head *h, struct span name);
/* Bit of enum egress_method; 0: none of these. */
uint32_t egress_head_method(struct span method);

/* ---- body.c ------------------------------------------------------------- */

struct http_body {
    enum http_framing framing;
    uint64_t left;  /* of the length, or of the chunk */
    unsigned state; /* of chunked; body.c */
    unsigned digits;
    bool done;
};

void egress_body_init(struct http_body *b, enum http_framing framing,
                      uint64_t length);
/* How many of these bytes belong to it; sets done. -EBADMSG: framing that is
 * not exactly what the standard says. */
ssize_t egress_body_take(struct http_body *b, const char *bytes, size_t len);
/* Of chunked: how many of the next len bytes are content; 0: the next one is
 * framing. */
size_t egress_body_run(const struct http_body *b, size_t len);

/* ---- url.c -------------------------------------------------------------- */

struct http_target {
    char host[EGRESS_HOST_MAX]; /* canonical */
    bool address;               /* a number */
    uint16_t port;
    struct span path, query; /* query with its '?', or empty */
};

/* "host:port"; fallback: the port of one without, 0: it must have one. NULL,
 * or what is wrong. */
const char *egress_url_authority(struct span text, uint16_t fallback,
                                 struct http_target *ret);
/* "http://host[:port][/path][?query]" */
const char *egress_url_absolute(struct span text, struct http_target *ret);
/* "/path[?query]" */
const char *egress_url_origin(struct span text, struct http_target *ret);

/* ---- path.c ------------------------------------------------------------- */

/* %41 as A, %2f as %2F, "." and ".." resolved. Refused: what servers read in
 * more than one way (//, %2F, %5C, \, %00, ..;x, %25 before one of these).
 * NULL, or what is wrong. */
const char *egress_path_canonical(struct span path, char ret[EGRESS_PATH_MAX]);
/* Checks that every byte may stand in a path; bytes above 0x7f may. */
const char *egress_path_plain(struct span path);
/* Is it prefix itself, or below it? On a segment's boundary. */
bool egress_path_below(const char *path, const char *prefix);

/* ---- hello.c ------------------------------------------------------------ */

enum hello_result {
    HELLO_MORE,   /* not all of it is here yet */
    HELLO_TLS,    /* a ClientHello; ret_name "" when it names no host */
    HELLO_NOT,    /* something else */
    HELLO_BROKEN, /* begins as one and is none, or is too long */
    HELLO_HIDDEN, /* the name is encrypted */
};

/* The server name in a TLS ClientHello, as written there. */
enum hello_result egress_hello_read(const void *bytes, size_t len,
                                    char ret_name[EGRESS_HOST_MAX]);

#endif
