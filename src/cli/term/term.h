/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal: formatted sizes, tables, progress bars and objects, prompts,
 * Markdown, images, and the output of a session.
 */
#ifndef GLOVEBOX_CLI_TERM_TERM_H
#define GLOVEBOX_CLI_TERM_TERM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

struct cli;
struct error;

/* ---- table.c: tables, objects and lists of the API ---------------------- */

struct cli_table;
struct cli_table *cli_table_new(const char *const *headings, size_t columns);
void cli_table_free(struct cli_table **t); /* for cleanup() */
/* One row; cells are copied, NULL is an empty one. */
void cli_table_row(struct cli_table *t, const char *const *cells);
/* Cuts cells of the columns that may be cut until a row has at most so many
 * columns of the terminal, if that is possible. */
void cli_table_fit(struct cli_table *t, size_t columns, const bool *may_cut);
/* Aligned columns, two blanks between, none at the end of a line. */
void cli_table_print(const struct cli_table *t, struct buf *out);

/* Columns that a terminal gives the text; bytes where the locale cannot tell.
 */
size_t cli_table_width(const char *text);
/* Columns of the terminal; 80 if it does not say. */
size_t cli_table_terminal(void);

struct cli_column;

/* A list as a table, or with --json as it is; columns end with one that has
 * no heading. At a terminal, unless -o wide was given, ids are short, times
 * relative, and the table fits the terminal. */
void cli_show_list(const struct cli *c, const json_t *rows,
                   const struct cli_column *columns);
/* Any value as a YAML document on standard output. */
void cli_show_yaml(const json_t *value);
/* Every member on a line of its own, nested ones as JSON; what is null or
 * empty is left out. With --json as it is. */
void cli_show_object(const struct cli *c, const json_t *object);
/* With --json the object; at a terminal the sentence; else nothing. */
void cli_show_done(const struct cli *c, const json_t *object, const char *fmt,
                   ...) __attribute__((format(printf, 3, 4)));
/* Text of a session or a file, filtered when it is a terminal. */
void cli_show_text(const struct cli *c, const char *text, size_t len);

/* ---- render.c: what reaches a terminal ---------------------------------- */

/* Takes terminal control out of a session's output, byte by byte: colours and
 * cursor movement stay, whatever could change the terminal itself (titles,
 * clipboard, reports, modes) goes. State lives across calls, so a sequence
 * may be cut anywhere. */
struct cli_filter {
    int state;
    bool plain; /* drop colours and movement too */
    unsigned char held[32];
    size_t held_len;
};

void cli_filter_feed(struct cli_filter *f, const char *bytes, size_t len,
                     struct buf *out);

/* ---- table.c: bars and waiting lines ------------------------------------ */

struct cli_progress {
    bool on;
    bool counts;       /* things, not bytes */
    const char *label; /* borrowed */
    uint64_t total, last_ms, start_ms;
    bool drawn;
};

/* Shows nothing unless standard error is a terminal and total > 1 MiB. */
void cli_progress_start(struct cli_progress *p, const struct cli *c,
                        const char *label, uint64_t total);
/* The same for things that are counted; any total, 0 when it is unknown. */
void cli_progress_count(struct cli_progress *p, const struct cli *c,
                        const char *label, uint64_t total);
void cli_progress_step(struct cli_progress *p, uint64_t done);
void cli_progress_end(struct cli_progress *p); /* wipes the line */

/* ---- render.c: displays and errors -------------------------------------- */

struct cli_render {
    struct cli *c;
    const char *charts; /* NULL: none are saved */
    struct cli_filter out, err;
    bool out_mid_line, err_mid_line;
    bool error_shown; /* a traceback has been */
    bool unread;      /* writing failed: the reader is gone */
    bool lasting;     /* the session goes on; a lost interpreter matters */
    bool sixel_known; /* the terminal was asked for sixel graphics */
    bool sixel;
};

void cli_render_init(struct cli_render *r, struct cli *c, const char *charts);
void cli_render_text(struct cli_render *r, bool is_stderr, const char *bytes,
                     size_t len);
/* A mime bundle: an image is saved and named, text is printed. */
void cli_render_bundle(struct cli_render *r, const json_t *bundle);
/* A traceback, on standard error. */
void cli_render_error(struct cli_render *r, const json_t *error);
/* Ends a half-written line, so that ours starts at its beginning. */
void cli_render_fresh_line(struct cli_render *r);
/* Saves every image of an execution object's displays and result. */
void cli_render_charts(struct cli_render *r, const json_t *execution);

/* ---- markdown.c: answers of a model --------------------------------------
 */

struct cli_markdown;
/* width: columns at which words are wrapped; 0: not at all. */
struct cli_markdown *cli_markdown_new(size_t width);
void cli_markdown_free(struct cli_markdown *m);
/* Adds what can be shown by now, with colours, to out. A text may be cut
 * anywhere. Control characters and sequences in it are dropped. */
void cli_markdown_feed(struct cli_markdown *m, const char *text, size_t len,
                       struct buf *out);
/* The end of the text: adds the rest, and ends its last line. */
void cli_markdown_finish(struct cli_markdown *m, struct buf *out);

/* ---- sixel.c: images in terminals with sixel graphics ------------------- */

/* Asks the controlling terminal; waits a fraction of a second at most. */
bool cli_sixel_supported(void);
/* Writes a PNG as sixels; false if it is no PNG, too large, or out fails. */
bool cli_sixel_write(FILE *out, const unsigned char *png, size_t len);

/* ---- input.c: files, and what must not be an argument ------------------- */

/* A whole file; "-" is standard input. ERR_TOO_LARGE beyond max bytes. ret:
 * owned, a NUL after its end. */
int cli_input_read(const char *path, size_t max, char **ret, size_t *ret_len,
                   struct error *err);

/* From a file (its first line), or typed twice at the terminal without being
 * shown; NULL file: the terminal. ret: owned, wipe with cli_secret_free. */
int cli_secret_file(const char *file, const char *what, char **ret,
                    struct error *err);
/* The header line with the lock's token of that file; none for NULL. ret:
 * owned, wipe with cli_secret_free. */
int cli_secret_header(const char *lock_file, char **ret, struct error *err);
int cli_secret_ask(struct cli *c, const char *prompt, bool twice, char **ret,
                   struct error *err);
void cli_secret_free(char **secret); /* for cleanup() */
/* A line that is typed at the terminal, for code of a session: its prompt is
 * filtered. 0; 1 at the end of input (Ctrl-D); -EINTR when a signal came,
 * which is left for others; -ENOTTY. ret: owned, wipe with cli_secret_free. */
int cli_input_line(struct cli *c, const char *prompt, bool hidden, char **ret);

/* ---- complete.c: words that Tab completes --------------------------------
 */

struct cli_completion;
struct cli_completion *cli_completion_new(void);
void cli_completion_free(struct cli_completion *k);
/* Remembers the names in a statement; at most 5,000. */
void cli_completion_learn(struct cli_completion *k, const char *text);
/* The n-th word (from 0) that begins with prefix, or NULL; owned by caller. */
char *cli_completion_match(const struct cli_completion *k, bool python,
                           const char *prefix, size_t n);

/* ---- prompt.c: a line of input ------------------------------------------ */

enum cli_prompt_result {
    CLI_PROMPT_LINE,
    CLI_PROMPT_INTERRUPTED, /* Ctrl-C: what was typed is dropped */
    CLI_PROMPT_END,
    CLI_PROMPT_STOPPED, /* another signal: leave */
};

struct cli_prompt;
struct cli_prompt_hooks {
    unsigned idle_s;            /* between two calls of on_idle */
    void (*on_idle)(void *ctx); /* while a person does not type */
    /* The n-th completion (from 0) of a word of the line; owned by caller,
     * NULL when there are no more. */
    char *(*complete)(void *ctx, const char *line, const char *word, size_t n);
    void *ctx;
    const char *history;     /* name of the file of earlier lines */
    const char *files_after; /* a line that begins so completes names of files
                                of this machine */
    bool prose;              /* Tab never indents */
};

/* c and wanted->ctx: borrowed. */
struct cli_prompt *cli_prompt_open(struct cli *c,
                                   const struct cli_prompt_hooks *wanted);
void cli_prompt_close(struct cli_prompt *p); /* keeps the history */
bool cli_prompt_interactive(const struct cli_prompt *p);
/* ret: owned by caller, set for CLI_PROMPT_LINE. */
enum cli_prompt_result cli_prompt_read(struct cli_prompt *p,
                                       const char *prompt, char **ret);

/* ---- statement.c: is this input complete?
 * ----------------------------------- */

/* Python: open brackets, an open triple quote or a trailing backslash want
 * more; so does a block until its blank line. */
bool cli_statement_python_wants_more(const char *text);
/* Shell: open quotes, a trailing backslash, pipe, && or ||, an unclosed
 * do/then/{ block or a here-document. */
bool cli_statement_shell_wants_more(const char *text);
/* JavaScript and R: a bracket or a quote is open. */
bool cli_statement_brackets_want_more(const char *text);

#endif
