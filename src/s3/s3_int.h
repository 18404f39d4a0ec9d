/* SPDX-License-Identifier: Apache-2.0 */
/* Private to s3/ and its tests. */
#ifndef GLOVEBOX_S3_S3_INT_H
#define GLOVEBOX_S3_S3_INT_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "s3/s3.h"

#define S3_PARAMS 8
#define S3_ANSWER_MAX                                                         \
    ((size_t)8 << 20) /* of a list; its page has 1000 keys                    \
                       */
#define S3_HOST_MAX 300

/* ---- keys.c: who we are ------------------------------------------------- */

struct s3_keys {
    char id[129];
    char secret[257];
    char token[4097]; /* "" none */
};

/* File with lines NAME=VALUE: access_key_id, secret_access_key and
 * session_token, with or without aws_ in front; [sections] and lines that
 * begin with # or ; are skipped. path "": AWS_ACCESS_KEY_ID and its like of
 * the environment. */
int s3_keys_read(const char *path, struct s3_keys *ret, struct error *err);
int s3_keys_parse(const char *text, size_t len, struct s3_keys *ret,
                  struct error *err);
void s3_keys_wipe(struct s3_keys *keys);

/* ---- sign.c: AWS Signature Version 4 ------------------------------------ */

struct s3_param {
    const char *name; /* of a header: in lower case */
    const char *value;
};

struct s3_to_sign {
    const char *method;
    const char *path;         /* as it is sent: encoded */
    const char *query;        /* as it is sent: encoded and sorted; "" none */
    struct s3_param *headers; /* all of which are signed; sorted here */
    size_t header_count;
    const char *payload; /* SHA-256 of the body in hex */
    const char *time;    /* "20130524T000000Z" */
    const char *region;
};

/* Appends the value of the header Authorization. */
void s3_sign(const struct s3_to_sign *what, const struct s3_keys *keys,
             struct buf *out);
/* Appends text with all but unreserved bytes as %XX; slash: '/' stays. */
void s3_sign_encode(const char *text, bool slash, struct buf *out);
/* Appends name=value&…, encoded and sorted. */
void s3_sign_query(struct s3_param *params, size_t count, struct buf *out);

/* ---- xml.c: answers ----------------------------------------------------- */

/* At the end of each element: its path ("ListBucketResult/Contents/Key",
 * namespaces dropped) and its text, without that of elements in it. Returns 0
 * to continue. */
typedef int (*s3_xml_fn)(void *ctx, const char *path, const char *text);
/* ERR_CORRUPT for what is no XML, has a document type, is nested more than
 * eight deep or has a text of more than S3_XML_TEXT bytes. */
#define S3_XML_TEXT (4 * S3_KEY_MAX)
#define S3_XML_DEPTH 8u
int s3_xml_parse(const char *bytes, size_t len, s3_xml_fn fn, void *ctx,
                 struct error *err);
/* "2026-01-31T23:59:59.000Z" to milliseconds; false if it is none. */
bool s3_xml_time(const char *text, int64_t *ret_ms);

/* ---- request.c ---------------------------------------------------------- */

struct s3 {
    char *name, *scheme, *region, *bucket, *prefix, *key_file;
    char host[S3_HOST_MAX]; /* with the bucket, in host style */
    bool host_style;
    unsigned deadline_ms;
    uint64_t part_bytes;
    struct fetch_client *client;
    atomic_bool stopping;
    _Atomic int64_t ahead_ms; /* the server's clock minus ours */
    _Atomic uint64_t requests, retries, failures, throttled, sent, received;
    struct mutex lock; /* around what follows */
    struct cond stopped;
    struct s3_keys keys;
    unsigned failed;        /* attempts in a row */
    uint64_t failing_since; /* monotonic ms */
    bool down, probing;
    uint64_t probe_at;
    char why[200];
};

struct s3_call {
    const char *method;
    const char *key; /* relative to the prefix; NULL: the bucket itself */
    struct s3_param query[S3_PARAMS];
    size_t query_count;
    struct s3_param headers[S3_PARAMS]; /* in lower case, all signed */
    size_t header_count;
    bool has_body;
    const void *body;
    int body_fd;
    uint64_t body_at, body_len;
    unsigned char sha256[HASH_SIZE]; /* of the body */
    /* Pieces of a successful answer; NULL: collected in `answer`. Anything
     * but 0 ends the call with that result. */
    int (*sink)(struct s3_call *call, const void *bytes, size_t len);
    /* Before each attempt; may change headers. */
    void (*before)(struct s3_call *call);
    void *ctx;
    uint64_t deadline_ms; /* monotonic; 0: as settings say, plus its bytes */
    /* Results: */
    long status;
    char code[64];  /* of an error: "NoSuchKey"; "" none */
    char text[160]; /* its message */
    struct buf head, answer;
    int ended;                /* what the sink returned */
    uint64_t got;             /* bytes that the sink took */
    struct fetch_exchange *x; /* of the attempt that runs */
};

void s3_call_done(struct s3_call *call);  /* for cleanup() */
void s3_call_reset(struct s3_call *call); /* results only */
/* 0 for a status of 200 to 299, 1 for 404 (unless it is the bucket that does
 * not exist), else an error; call->status and code are set if there was an
 * answer. */
int s3_call_run(struct s3 *s, struct s3_call *call, struct error *err);
/* Milliseconds that a client waits before attempt n (from 1), of which a
 * random part is taken: for tests. */
unsigned s3_backoff_ms(unsigned n);
/* Reads Retry-After: seconds or a date, at most 60 s; 0 none. */
unsigned s3_retry_after_ms(const char *value, int64_t now_ms);
/* "Wed, 21 Oct 2015 07:28:00 GMT"; false if it is none. */
bool s3_http_date(const char *text, int64_t *ret_ms);

/* ---- multipart.c -------------------------------------------------------- */

int s3_put_parts(struct s3 *s, const char *key, int fd, uint64_t size,
                 struct error *err);
/* Size of a part: at least `least`, so that 10,000 suffice. */
uint64_t s3_part_size(uint64_t size, uint64_t least);

/* ---- object.c ----------------------------------------------------------- */

/* Size, ETag and time of an answer. */
void s3_object_read(const struct s3_call *call, struct s3_object *ret);

#endif
