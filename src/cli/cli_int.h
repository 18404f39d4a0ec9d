/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command files share. A command has one struct cli: what the
 * common flags said, whether each stream is a terminal, the signals, and the
 * service it talks to. It is passed down; nothing here is global.
 *
 * Signals that end a program are blocked and read from cli->signal_fd, so
 * that waiting for the service and waiting for Ctrl-C are one poll and every
 * clean-up is ordinary code.
 */
#ifndef GLOVEBOX_CLI_CLI_INT_H
#define GLOVEBOX_CLI_CLI_INT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/ids.h"
#include "cli/cli.h"
#include "json/json.h"

struct error;
struct cli_embedded;

/* ---- cli.c: what one command has ---------------------------------------- */

struct cli {
    const char *command; /* its name, for messages */
    /* common flags; borrowed from argv */
    const char *url;
    const char *data;
    const char *key_file;
    bool json;
    /* terminals */
    bool tty_out, tty_err;
    bool color_out, color_err;
    int signal_fd;    /* SIGINT, SIGTERM, SIGHUP */
    bool interrupted; /* one of them has ended a request */
    /* the service, once connected; owned */
    char *base;
    char *key;
    struct cli_embedded *embedded;
};

void cli_init(struct cli *c, const char *command);
void cli_done(struct cli *c); /* also ends an embedded service */
/* Reports a failure of ours: a sentence and a hint on standard error, and
 * with --json the error object on standard output. Returns the exit status. */
int cli_fail(const struct cli *c, const struct error *err);
/* Prints the sentence and the usage on standard error; CLI_EXIT_USAGE. */
int cli_usage_error(const struct cli *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* One JSON value and a newline on standard output. */
void cli_print_json(const json_t *value);

/* ---- json.c: the service's answers -------------------------------------- */

/* Any value; NULL when it is not JSON. Owned by caller. */
json_t *cli_json_load(const char *text, size_t len);
/* The member as text, or fallback when it is missing or not a string. */
const char *cli_json_text(const json_t *object, const char *key,
                          const char *fallback);

/* ---- opts.c: flags and words -------------------------------------------- */

enum cli_opt_type {
    CLI_OPT_FLAG,    /* bool */
    CLI_OPT_TEXT,    /* const char *, borrowed from argv */
    CLI_OPT_LIST,    /* struct cli_words; may be repeated */
    CLI_OPT_SECONDS, /* uint64_t, 1 to 86400 */
    CLI_OPT_SIZE,    /* uint64_t bytes: 512m, 4g */
};

struct cli_opt {
    const char *name; /* without dashes */
    char letter;      /* or 0 */
    enum cli_opt_type type;
    void *target;
    const char *arg; /* its name in the help, or NULL for a flag */
    const char *help;
};

#define CLI_WORDS_MAX 64

struct cli_words {
    const char *items[CLI_WORDS_MAX];
    size_t count;
};

/* More text for --help, below the options; may be NULL. */
struct cli_opts {
    const struct cli_opt *table;
    size_t count;
    const char *notes;
};

/* Returns true to go on; false when the command is over with *ret_exit
 * (--help was printed, or the line was wrong). */
bool cli_opts_parse(struct cli *c, const struct cli_opts *opts, int argc,
                    char **argv, struct cli_words *ret_words, int *ret_exit);
/* The command's synopsis. */
void cli_opts_usage(FILE *out, const struct cli_command *command);
/* "512m", "4G", "1GiB", "1048576"; -EINVAL, -ERANGE. */
int cli_opts_size(const char *text, uint64_t *ret);

/* ---- verb.c: a word after the command ----------------------------------- */

struct cli_verb {
    const char *name;
    size_t least, most; /* words after it */
    int (*run)(struct cli *c, const struct cli_words *words, void *arg);
};

/* Runs the verb that words begin with (the first of the table when there are
 * none); the words passed on do not include it. */
int cli_verb_run(struct cli *c, const struct cli_verb *verbs, size_t count,
                 const struct cli_words *words, void *arg);
/* The same, connected to a running service. */
int cli_verb_run_online(struct cli *c, const struct cli_verb *verbs,
                        size_t count, const struct cli_words *words,
                        void *arg);

/* ---- format.c: text for people ------------------------------------------ */

/* "0 B", "1.5 KiB", "12 MiB"; ret must hold 16 bytes. Returns ret. */
char *cli_format_size(uint64_t bytes, char ret[16]);
/* "850 ms", "1.2 s", "3 min 20 s", "2 h 5 min", "4 d 3 h" */
char *cli_format_duration(uint64_t ms, char ret[24]);
/* The nearest of count names within two edits (fewer for short ones), or
 * NULL; stride: bytes from one name pointer to the next. */
const char *cli_format_nearest(const char *word, const void *names,
                               size_t stride, size_t count);

/* ---- table.c: aligned columns ------------------------------------------- */

struct cli_table;
struct cli_table *cli_table_new(const char *const *headings, size_t columns);
void cli_table_free(struct cli_table **t); /* for cleanup() */
/* One row; cells are copied, NULL is an empty one. */
void cli_table_row(struct cli_table *t, const char *const *cells);
/* Aligned columns, two blanks between, none at the end of a line. */
void cli_table_print(const struct cli_table *t, struct buf *out);

/* ---- guard.c: what reaches a terminal ----------------------------------- */

/* Takes terminal control out of a session's output, byte by byte: colours and
 * cursor movement stay, whatever could change the terminal itself (titles,
 * clipboard, reports, modes) goes. State lives across calls, so a sequence
 * may be cut anywhere. */
struct cli_guard {
    int state;
    bool plain; /* drop colours and movement too */
    unsigned char held[32];
    size_t held_len;
};

void cli_guard_feed(struct cli_guard *g, const char *bytes, size_t len,
                    struct buf *out);

/* ---- progress.c: bars and waiting lines --------------------------------- */

struct cli_progress {
    bool on;
    const char *label; /* borrowed */
    uint64_t total, last_ms, start_ms;
    bool drawn;
};

/* Shows nothing unless standard error is a terminal and total > 1 MiB. */
void cli_progress_start(struct cli_progress *p, const struct cli *c,
                        const char *label, uint64_t total);
void cli_progress_step(struct cli_progress *p, uint64_t done);
void cli_progress_end(struct cli_progress *p); /* wipes the line */

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
/* The data directory meant by flag, environment or default; owned. */
char *cli_connect_data_dir(const struct cli *c);
/* A program of ours beside this one or in ../libexec/glovebox; owned by
 * caller. -ENOENT */
int cli_connect_program(const char *name, char **ret_path);
/* The same for a file, by its path from there. */
int cli_connect_file(const char *name, char **ret_path);

int cli_embedded_start(const char *pool, const char *runtime,
                       struct cli_embedded **ret, struct error *err);
/* Its data directory; borrowed. */
const char *cli_embedded_dir(const struct cli_embedded *e);
/* False once it has ended by itself. */
bool cli_embedded_alive(struct cli_embedded *e);
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

/* ---- http.c: requests to the service ------------------------------------ */

/* body: borrowed, may be NULL; ret: owned by caller, may be NULL when the
 * answer is of no interest. Errors carry the service's code, sentence and
 * hint. Ctrl-C ends it with ERR_UNAVAILABLE and errnum EINTR. */
int cli_http_json(struct cli *c, const char *method, const char *path,
                  const json_t *body, json_t **ret, struct error *err);
/* Sends size bytes of fd, from where it stands. */
int cli_http_put(struct cli *c, const char *path, int fd, uint64_t size,
                 const char *label, json_t **ret, struct error *err);
/* Writes the body to fd. */
int cli_http_get(struct cli *c, const char *path, int fd, const char *label,
                 struct error *err);

struct cli_stream {
    cli_sse_fn *on_event;
    /* A signal came; true: give up. May use the service meanwhile. */
    bool (*on_signal)(void *ctx, int signal);
    void *ctx;
};

/* Reads an event stream to its end. */
int cli_http_stream(struct cli *c, const char *method, const char *path,
                    const json_t *body, const struct cli_stream *stream,
                    struct error *err);
/* Adds text with everything but unreserved characters escaped; a slash stays
 * when keep_slash is set. */
void cli_http_escape(struct buf *out, const char *text, bool keep_slash);

/* ---- execute.c: one execution, shown as it goes ------------------------- */

struct cli_execute {
    const char *session;
    const char *language; /* "python" or "shell" */
    const char *code;
    size_t code_len;
    uint64_t timeout_s; /* 0: the pool's */
    const char *charts; /* folder for images; NULL: none are saved */
    bool quiet;         /* show nothing, only return the object */
    bool interactive;   /* Ctrl-C interrupts before it cancels */
    bool lasting;       /* the session goes on afterwards */
};

/* Runs to the end; ret: the final execution object, owned by caller. */
int cli_execute(struct cli *c, const struct cli_execute *what, json_t **ret,
                struct error *err);

/* ---- render.c: displays, errors, failures ------------------------------- */

struct cli_render {
    struct cli *c;
    const char *charts; /* NULL: none are saved */
    struct cli_guard out, err;
    bool out_mid_line, err_mid_line;
    bool error_shown; /* a traceback has been */
    bool unread;      /* writing failed: nobody is there any more */
    bool lasting;     /* the session goes on; a lost interpreter matters */
};

void cli_render_init(struct cli_render *r, struct cli *c, const char *charts);
void cli_render_text(struct cli_render *r, bool is_stderr, const char *bytes,
                     size_t len);
/* A mime bundle: an image is saved and named, text is printed. */
void cli_render_bundle(struct cli_render *r, const json_t *bundle);
/* A traceback, on standard error. */
void cli_render_error(struct cli_render *r, const json_t *error);
/* Why it did not end well, in one sentence; and whether the interpreter and
 * its variables are still there. Nothing for ok and error. */
void cli_render_end(struct cli_render *r, const json_t *execution);
/* Saves every image of an execution object's displays and result. */
void cli_render_charts(struct cli_render *r, const json_t *execution);
/* The exit status of an execution object. */
int cli_render_exit(const json_t *execution);
/* "ran longer than its limit of 2 s": the sentence for an outcome that is not
 * the code's own; false when there is nothing to say. */
bool cli_render_sentence(const json_t *execution, struct buf *out);

/* ---- remote.c: sessions and files by name ------------------------------- */

struct cli_session_spec {
    const char *pool, *runtime, *name;
    uint64_t memory_bytes; /* 0: the pool's */
};

/* ret: the session object, owned by caller. */
int cli_remote_create(struct cli *c, const struct cli_session_spec *spec,
                      json_t **ret, struct error *err);
/* An id as it is, or the id of the one session of that name. */
int cli_remote_find(struct cli *c, const char *id_or_name, char ret[ID_MAX],
                    struct error *err);
/* Every element of a paged list, at most 10,000; ret: owned array. Pages by
 * the member `cursor` of the last element. */
int cli_remote_list(struct cli *c, const char *path, const char *cursor,
                    json_t **ret, struct error *err);
/* The request path of a session's file; owned by caller. */
char *cli_remote_file_path(const char *session, const char *remote);
/* remote: below /mnt/data, which may be spelled out; NULL: local's own name.
 * ret: the file object, owned by caller, or NULL. */
int cli_remote_put(struct cli *c, const char *session, const char *local,
                   const char *remote, json_t **ret, struct error *err);
/* local: NULL: the remote's own name here; "-": standard output. The file
 * appears whole or not at all. ret_local: where it is; owned, may be NULL. */
int cli_remote_get(struct cli *c, const char *session, const char *remote,
                   const char *local, char **ret_local, struct error *err);
/* Prints the table of a session's files, or with --json the list. */
int cli_files_list(struct cli *c, const char *session, struct error *err);
/* "a:b" at its last colon; a file that exists under the whole text is not
 * cut. ret_left: owned by caller; ret_right borrowed from text, or NULL. */
void cli_remote_split(const char *text, bool left_is_file, char **ret_left,
                      const char **ret_right);

/* ---- prompt.c: a line of input ------------------------------------------ */

enum cli_prompt_result {
    CLI_PROMPT_LINE,
    CLI_PROMPT_INTERRUPTED, /* Ctrl-C: what was typed is dropped */
    CLI_PROMPT_END,
    CLI_PROMPT_STOPPED, /* another signal: leave */
};

struct cli_prompt;
struct cli_prompt *cli_prompt_open(struct cli *c); /* c: borrowed */
void cli_prompt_close(struct cli_prompt *p);       /* keeps the history */
bool cli_prompt_interactive(const struct cli_prompt *p);
/* ret: owned by caller, set for CLI_PROMPT_LINE. */
enum cli_prompt_result cli_prompt_read(struct cli_prompt *p,
                                       const char *prompt, char **ret);

/* ---- lines.c: is this input complete? ----------------------------------- */

/* Python: open brackets, an open triple quote or a trailing backslash want
 * more; so does a block until its blank line. */
bool cli_lines_python_wants_more(const char *text);
/* Shell: open quotes, a trailing backslash, pipe, && or ||, an unclosed
 * do/then/{ block or a here-document. */
bool cli_lines_shell_wants_more(const char *text);

/* ---- checks.c: doctor's own rows ---------------------------------------- */

struct cli_check {
    char name[32];
    char state[8]; /* "ok", "warn", "missing" */
    bool required;
    char why[240];
    char fix[240];
};

#define CLI_CHECKS_MAX 96

struct cli_checks {
    struct cli_check rows[CLI_CHECKS_MAX];
    size_t count;
};

/* One `name\tstate\trequired\twhy\tfix` line of the warden's; false when it is
 * not one. */
bool cli_checks_line(struct cli_checks *k, const char *line, size_t len);
void cli_checks_add(struct cli_checks *k, const char *name, const char *state,
                    bool required, const char *why, const char *fix);
/* What this side can see: programs, images, user, service, disk. */
void cli_checks_host(struct cli *c, struct cli_checks *k);

#endif
