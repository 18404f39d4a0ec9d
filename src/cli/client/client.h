/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the service: finding or starting it, sending requests,
 * uploads and downloads, reading event streams.
 */
#ifndef GLOVEBOX_CLI_CLIENT_H
#define GLOVEBOX_CLI_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/remote.h"
#include "cli/term/term.h"

struct cli;
struct cli_bar;
struct cli_embedded;
struct error;

/* ---- connect.c: which service a command uses ---------------------------- */

/* What a command can work with. */
enum cli_need {
    CLI_NEED_RUNNING, /* only a service that runs already */
    CLI_NEED_ANY,     /* that, or a throwaway embedded one */
    CLI_NEED_DATA,    /* that, or one started on the data directory */
};

/* What is known of the service's address. */
enum cli_endpoint {
    CLI_ENDPOINT_NONE,      /* none is named, and no data directory has one */
    CLI_ENDPOINT_NAMED,     /* --url or GLOVEBOX_URL; the request will tell */
    CLI_ENDPOINT_ANSWERS,   /* found in a data directory, and it answers */
    CLI_ENDPOINT_SILENT,    /* found, and it does not answer */
    CLI_ENDPOINT_UNTRUSTED, /* found; its certificate cannot be verified */
    CLI_ENDPOINT_HIDDEN,    /* a data directory that this user may not read */
    CLI_ENDPOINTS
};

struct cli_facts {
    enum cli_endpoint endpoint;
    bool data_dir; /* a data directory exists, or --data names one */
    bool embedded; /* --embedded was given */
};

enum cli_choice {
    CLI_CHOICE_REFUSE, /* an error that says what to do */
    CLI_CHOICE_USE,    /* the address */
    CLI_CHOICE_EMBED,  /* start a throwaway service */
    CLI_CHOICE_START,  /* start a service on the data directory */
};

enum cli_choice cli_choose(enum cli_need need, const struct cli_facts *facts);

/* ---- connect.c, embedded.c: the service --------------------------------- */

/* Finds or starts the service that cli_choose() says. pool: the one an
 * embedded service is to have, runtime: another image for it than configured;
 * NULL: as configured. With CLI_NEED_DATA it may be called again when the
 * service went away; another command may be about to start one too, and then
 * the first one's service serves both. */
int cli_connect(struct cli *c, enum cli_need need, const char *pool,
                const char *runtime, struct error *err);
/* Said of flags that contradict --embedded. */
#define CLI_EMBEDDED_ALONE                                                    \
    "--embedded starts a new service: it does not go with --session, "        \
    "--workspace, --url or --data"
/* contexts.c: the services that the user has logged in to. The file's path,
 * owned; NULL without a home. */
char *cli_contexts_path(void);
/* {"current": name, "contexts": {name: {"url", "key", "pin"?, "cacert"?}}};
 * owned by caller. Fails when other users have access to the file. */
int cli_contexts_load(json_t **ret, struct error *err);
int cli_contexts_save(const json_t *all, struct error *err);
/* Takes the address, the key and the trust of the context that --context,
 * GLOVEBOX_CONTEXT or the last login names; nothing if there is none. */
int cli_contexts_use(struct cli *c, struct error *err);
/* The file of certificates that the caller named, or NULL. */
const char *cli_connect_cacert(const struct cli *c);
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

/* ---- http.c: an event stream, cut anywhere ------------------------------ */

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
    /* Between two reads; may use the service and the terminal; or NULL. */
    void (*on_pause)(void *ctx);
};

#define CLI_ETAG_MAX 128

struct cli_transfer {
    /* what is asked; all borrowed */
    const char *method, *path;
    const json_t *body;         /* or NULL */
    const char *const *headers; /* lines, NULL at the end; or NULL */
    int in;                     /* sends in_size bytes of it; -1: none */
    uint64_t in_size;           /* UINT64_MAX: unknown */
    const char *form_name;      /* sends `in` as the file of that name of a
                                   form, with form_purpose; or NULL */
    const char *form_purpose;
    bool in_place; /* from in_from on; others read it too */
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
    bool untrusted;    /* it failed because of the service's certificate */
};

#define CLI_TRANSFER_INIT                                                     \
    {                                                                         \
        .in = -1, .out = -1                                                   \
    }

/* Finds the running service first, if that has not happened: a wrong line is
 * wrong with no service, too. Ctrl-C ends it with ERR_UNAVAILABLE and errnum
 * EINTR; errors carry the service's code, sentence and hint. */
int cli_transfer_run(struct cli *c, struct cli_transfer *t, struct error *err);
void cli_transfer_done(struct cli_transfer *t); /* for cleanup() */
/* Sets what every request to the service has in common: the address, time
 * limits, proxies, and which certificates are trusted. easy: a CURL handle. */
void cli_transfer_prepare(const struct cli *c, void *easy, const char *url);
/* Explains a request that got no answer. result: a CURLcode; detail: curl's
 * own words, or "". Returns true when the certificate is the reason. */
bool cli_transfer_explain(const struct cli *c, int result, const char *detail,
                          struct error *err);

/* One bar for several transfers; `done` counts the bytes of all. */
struct cli_bar {
    struct cli_progress progress;
    uint64_t done;
};

struct cli_running;

/* Finds the service, if that has not happened, and sets the request up; the
 * handle is ready for a multi handle. */
int cli_transfer_begin(struct cli *c, struct cli_transfer *t,
                       struct cli_running **ret, struct error *err);
void *cli_transfer_easy(struct cli_running *r); /* a CURL handle; borrowed */
/* Finishes the transfer; result: a CURLcode. */
int cli_transfer_end(struct cli_running *r, int result, struct error *err);
/* Cut off or ended; frees it. Accepts NULL. */
void cli_transfer_free(struct cli_running *r);
/* Reads one pending signal; 0 when there is none. */
int cli_transfer_signal(struct cli *c);

/* ---- transfer.c: several at once ---------------------------------------- */

enum cli_parallel_next {
    CLI_PARALLEL_READY,  /* *ret is the next request */
    CLI_PARALLEL_LATER,  /* none now; ask again */
    CLI_PARALLEL_NONE,   /* all have ended */
    CLI_PARALLEL_FAILED, /* err says why */
};

struct cli_parallel {
    enum cli_parallel_next (*next)(void *ctx, struct cli_transfer **ret,
                                   struct error *err);
    /* One ended, with r. 0: go on; else the rest is cut off. */
    int (*ended)(void *ctx, struct cli_transfer *t, int r, struct error *err);
    void *ctx;
};

/* Uploads only. Ctrl-C ends all, as it does one. */
int cli_parallel_run(struct cli *c, const struct cli_parallel *parallel,
                     struct error *err);

/* ---- http.c: the service's answers -------------------------------------- */

/* Any value; NULL when it is not JSON. Owned by caller. */
json_t *cli_json_load(const char *text, size_t len);
/* The member as text, or fallback when it is missing or not a string. */
const char *cli_json_text(const json_t *object, const char *key,
                          const char *fallback);
/* "a,b" as a list of texts; owned by caller. */
json_t *cli_json_commas(const char *text);
/* The member as a number; 0 when it is none or negative. */
uint64_t cli_json_number(const json_t *object, const char *key);

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

/* ---- download.c --------------------------------------------------------- */

struct cli_download {
    const char *url;   /* request path */
    const char *name;  /* the file's own name */
    const char *local; /* NULL: its own name here; "-": standard output */
    bool keep; /* an unfinished download is kept and gone on with later */
};

/* The file appears whole or not at all. A connection that breaks is taken up
 * again where it broke. ret_local: where it is, owned; NULL for "-". */
int cli_download(struct cli *c, const struct cli_download *what,
                 char **ret_local, struct error *err);

/* ---- upload.c ----------------------------------------------------------- */

struct cli_upload {
    const char *local;
    const char *label;        /* of the bar */
    const char *if_match;     /* a version or ETag, or NULL */
    bool create;              /* must not exist yet */
    const char *lock;         /* token, or NULL */
    const char *conversation; /* or NULL */
    const char *message;
    bool executable; /* of the file itself; filled by cli_upload */
};

/* place->path: where it goes, never "". ret: the file object, owned by
 * caller, or NULL. A file over the service's limit goes in parts. */
int cli_upload(struct cli *c, const struct cli_place *place,
               const struct cli_upload *what, json_t **ret, struct error *err);
/* In parts; resumes an interrupted upload. */
int cli_multipart_upload(struct cli *c, const struct cli_place *place, int fd,
                         uint64_t size, const struct cli_upload *what,
                         json_t **ret, struct error *err);
/* How large part number n (from 1) of a file is; 0 beyond its end. */
uint64_t cli_multipart_part_size(uint64_t size, uint64_t part,
                                 uint64_t number);
/* Header lines of a write, NULL at the end; room: owned, done by caller. */
#define CLI_UPLOAD_HEADERS 4
void cli_upload_headers(const struct cli_upload *what, struct buf *room,
                        const char *ret[CLI_UPLOAD_HEADERS]);

#endif
