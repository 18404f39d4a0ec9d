/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of one bucket of an S3-compatible store: put (in parts where the
 * body is large), get, head, delete, list. Requests are signed with AWS
 * Signature Version 4, bodies included, so that the server refuses a body that
 * was changed on its way. Runs in gloveboxd; any thread may call, and every
 * call blocks until it is done, fails for good or its deadline has passed.
 *
 * What is retried: lost connections, torn and stalled answers, 408, 429, 500,
 * 502, 503 and 504, with jittered, growing pauses that are never shorter than
 * Retry-After. A clock that the server finds wrong is corrected by the
 * server's own. Every request is safe to repeat: a put whose answer was lost
 * is put again with the same bytes.
 *
 * A store that has not answered for five seconds counts as down: calls fail at
 * once, except for one a second that finds out whether it is back.
 *
 * Errors: ERR_UNAVAILABLE when the store cannot be reached, refuses the keys
 * or has no such bucket; ERR_CORRUPT when it does not return what it should;
 * otherwise ERR_INTERNAL. No error and no log line has a key of ours in it.
 */
#ifndef GLOVEBOX_S3_S3_H
#define GLOVEBOX_S3_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_KEY_MAX 1024          /* bytes of a key, prefix included */
#define S3_ETAG 96               /* room for an ETag and NUL */
#define S3_SIZE_MAX (5ull << 40) /* bytes of an object */

struct error;
struct s3;

struct s3_settings {
    const char *name;     /* in messages; borrowed by none, copied */
    const char *endpoint; /* "https://host[:port]", or http of this machine */
    const char *region;
    const char *bucket;
    const char *prefix;   /* before every key; "" none */
    bool host_style;      /* bucket.host/key instead of host/bucket/key */
    const char *ca_file;  /* PEM; "": the host's */
    const char *key_file; /* see keys.c; "": the environment */
    unsigned connections; /* requests at once */
    unsigned deadline_ms; /* of a call, besides the time of its bytes */
    unsigned stall_ms;    /* without a byte, then a request is repeated */
    uint64_t part_bytes;  /* larger bodies are put in parts of this size */
};

/* Reads the keys; no network. */
int s3_open(const struct s3_settings *settings, struct s3 **ret,
            struct error *err);
void s3_close(struct s3 *s); /* accepts NULL; no call runs any more */
/* Calls that wait end with ERR_UNAVAILABLE, and so do later ones. */
void s3_stop(struct s3 *s);
const char *s3_name(const struct s3 *s);
/* Is it down? why: the last failure then. */
bool s3_is_down(struct s3 *s, struct error *why);
/* The server's clock minus ours, as far as it is known. */
int64_t s3_clock_ahead_ms(struct s3 *s);

struct s3_object {
    uint64_t size;
    int64_t modified_ms;
    char etag[S3_ETAG]; /* quoted, as the server sends it */
};

/* `size` bytes of fd from its start, which have that SHA-256. Stored when it
 * returns 0: the server has hashed what it received. */
int s3_put_file(struct s3 *s, const char *key, int fd, uint64_t size,
                const unsigned char sha256[32], struct error *err);
int s3_put_bytes(struct s3 *s, const char *key, const void *bytes, size_t len,
                 struct error *err);

/* Pieces come in order, each byte once. Anything but 0 ends the get. */
typedef int (*s3_sink_fn)(void *ctx, const void *bytes, size_t len);
/* From byte `at` on, at most `most` bytes (UINT64_MAX: all). An answer that
 * is torn is continued from where it was, as long as the object is the same.
 * 1: there is none. ret: may be NULL. What the sink returned, if it ended
 * it: must be negative. */
int s3_get(struct s3 *s, const char *key, uint64_t at, uint64_t most,
           s3_sink_fn sink, void *ctx, struct s3_object *ret,
           struct error *err);
/* 1: there is none. */
int s3_head(struct s3 *s, const char *key, struct s3_object *ret,
            struct error *err);
/* Also 0 if there was none. */
int s3_delete(struct s3 *s, const char *key, struct error *err);

/* In order of key; keys begin with `prefix`, without that of the settings.
 * fn returns 0 to continue; otherwise s3_list returns its result. */
typedef int (*s3_list_fn)(void *ctx, const char *key,
                          const struct s3_object *object);
int s3_list(struct s3 *s, const char *prefix, s3_list_fn fn, void *ctx,
            struct error *err);

/* Aborts uploads in parts that were begun so long ago and never completed;
 * a killed service leaves them, and they cost money. */
int s3_abort_stale(struct s3 *s, uint64_t older_ms, unsigned *ret_count,
                   struct error *err);
/* Puts, reads and deletes a small object: are bucket, keys and clock right? */
int s3_probe(struct s3 *s, struct error *err);

struct s3_counts {
    uint64_t requests, retries, failures, throttled, sent, received;
};
void s3_counts(struct s3 *s, struct s3_counts *ret);

#endif
