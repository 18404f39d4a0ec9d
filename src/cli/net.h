/* SPDX-License-Identifier: Apache-2.0 */
/* The service: finding it, asking it, reading its streams. */
#ifndef GLOVEBOX_CLI_NET_H
#define GLOVEBOX_CLI_NET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/show.h"

struct cli;
struct cli_bar;
struct cli_embedded;
struct error;

/* ---- connect.c, embedded.c: the service --------------------------------- */

/* May a command start a service of its own when there is none? */
enum cli_connect_mode {
    CLI_CONNECT_RUNNING,
    CLI_CONNECT_OR_EMBED
};

/* pool: the one an embedded service is to have, runtime: another image for
 * it than configured; NULL: as configured. */
int cli_connect(struct cli *c, enum cli_connect_mode mode, const char *pool,
                const char *runtime, struct error *err);
/* For a command that goes on for long: the running service, or one of our own
 * on the usual data directory. Another command may be about to do the same:
 * the first one's service then serves both. Asked again when it went away. */
int cli_connect_lasting(struct cli *c, struct error *err);
/* The data directory meant by flag, environment or default; owned. */
char *cli_connect_data_dir(const struct cli *c);
/* A program of ours beside this one or in ../libexec/glovebox; owned by
 * caller. -ENOENT */
int cli_connect_program(const char *name, char **ret_path);
/* The same for a file, by its path from there. */
int cli_connect_file(const char *name, char **ret_path);
/* A key or a token is one line of a small file: printable, no blanks; owned.
 * -errno, -EINVAL, -ENODATA */
int cli_connect_line(int dirfd, const char *path, size_t cap, char **ret);

/* data: a data directory that stays; NULL: a private one that goes with it. */
int cli_embedded_start(const char *pool, const char *runtime, const char *data,
                       struct cli_embedded **ret, struct error *err);
/* Its data directory; borrowed. */
const char *cli_embedded_dir(const struct cli_embedded *e);
/* False once it has ended by itself. */
bool cli_embedded_alive(struct cli_embedded *e);
/* Once it has: because another service has its data directory. */
bool cli_embedded_taken(struct cli_embedded *e);
/* The last lines it logged, for a failure's hint; owned by caller. */
char *cli_embedded_log_tail(const struct cli_embedded *e);
void cli_embedded_stop(struct cli_embedded *e);

/* ---- sse.c: an event stream, cut anywhere ------------------------------- */

#define CLI_SSE_EVENT_MAX (64u << 20)

struct cli_sse_event {
    const char *name; /* "message" when the stream names none */
    const char *id;   /* last id seen, or "" */
    const char *data; /* lines joined by \n; NUL-terminated */
    size_t len;
};

/* 0 to go on; anything else ends the feed and is returned by it. */
typedef int cli_sse_fn(void *ctx, const struct cli_sse_event *event);

struct cli_sse {
    struct buf line, name, id, data;
    bool after_cr, began, has_data;
};

void cli_sse_init(struct cli_sse *s);
void cli_sse_done(struct cli_sse *s);
/* -EFBIG when an event or a line exceeds CLI_SSE_EVENT_MAX. */
int cli_sse_feed(struct cli_sse *s, const char *bytes, size_t len,
                 cli_sse_fn *on_event, void *ctx);

/* ---- transfer.c: one request and its answer ----------------------------- */

struct cli_stream {
    cli_sse_fn *on_event;
    /* A signal came; true: give up. May use the service meanwhile. */
    bool (*on_signal)(void *ctx, int signal);
    void *ctx;
};

#define CLI_ETAG_MAX 128

struct cli_transfer {
    /* what is asked; all borrowed */
    const char *method, *path;
    const json_t *body;         /* or NULL */
    const char *const *headers; /* lines, NULL at the end; or NULL */
    int in;                     /* sends in_size bytes of it; -1: none */
    uint64_t in_size;           /* UINT64_MAX: whatever comes */
    bool in_place;              /* from in_from on; others read it too */
    uint64_t in_from;
    int out;           /* a good answer's bytes go there; -1: into answer */
    const char *label; /* of a bar; NULL: none */
    uint64_t from;     /* only what follows so many bytes, and only if it
                          still has the ETag `of`; else ESTALE */
    const char *of;
    uint64_t bar_before; /* bytes of the whole that are done already */
    uint64_t bar_total;  /* the whole; 0: as long as the answer says */
    struct cli_bar *bar; /* one that several have, instead; or NULL */
    const struct cli_stream *stream; /* or NULL */
    bool unhurried;                  /* may take longer than two minutes */
    /* what came of it */
    long status;
    uint64_t moved; /* bytes of a good answer or of the upload */
    char etag[CLI_ETAG_MAX];
    int64_t length;    /* of the answer's body, as it said; -1 */
    struct buf answer; /* owned */
    bool broken;       /* the connection failed; going on may work */
};

#define CLI_TRANSFER_INIT                                                     \
    {                                                                         \
        .in = -1, .out = -1                                                   \
    }

/* Finds the running service first, if nobody has: a wrong line is wrong with
 * no service, too. Ctrl-C ends it with ERR_UNAVAILABLE and errnum EINTR;
 * errors carry the service's code, sentence and hint. */
int cli_transfer_run(struct cli *c, struct cli_transfer *t, struct error *err);
void cli_transfer_done(struct cli_transfer *t); /* for cleanup() */
/* Does the address lead to this machine itself? */
bool cli_transfer_loopback(const char *url);

/* ---- http.c: the usual requests ----------------------------------------- */

/* Fills err from an answer that is no good; body may be NULL. Returns the
 * negative code. */
int cli_refused(const json_t *body, long status, const char *base,
                struct error *err);
/* body: borrowed, may be NULL; ret: owned by caller, may be NULL when the
 * answer is of no interest. */
int cli_http_json(struct cli *c, const char *method, const char *path,
                  const json_t *body, json_t **ret, struct error *err);
/* The same with more header lines (NULL at the end). */
int cli_http_ask(struct cli *c, const char *method, const char *path,
                 const json_t *body, const char *const *headers, json_t **ret,
                 struct error *err);
/* Reads an event stream to its end. */
int cli_http_stream(struct cli *c, const char *method, const char *path,
                    const json_t *body, const struct cli_stream *stream,
                    struct error *err);
/* A long job at the service: an event stream of `progress`, then `done` or
 * `error`. Shows the progress; ret: the data of `done`, owned by caller. */
int cli_http_job(struct cli *c, const char *path, const json_t *body,
                 json_t **ret, struct error *err);
/* Text of the answer that is not JSON; ret: owned by caller. */
int cli_http_text(struct cli *c, const char *path, struct buf *ret,
                  struct error *err);
/* The answer's JSON; null for none. */
int cli_http_answer(struct cli *c, const struct cli_transfer *t, json_t **ret,
                    struct error *err);
/* Adds text with everything but unreserved characters escaped; a slash stays
 * when keep_slash is set. */
void cli_http_escape(struct buf *out, const char *text, bool keep_slash);
/* Adds "?name=value" or "&name=value", escaped; nothing for NULL and "". */
void cli_http_query(struct buf *path, const char *name, const char *value);
void cli_http_query_number(struct buf *path, const char *name, uint64_t value);
/* As the API writes times; nothing for 0. */
void cli_http_query_time(struct buf *path, const char *name, int64_t ms);

#endif
