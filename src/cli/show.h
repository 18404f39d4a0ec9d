/* SPDX-License-Identifier: Apache-2.0 */
/* What people see: sizes, tables, bars, objects, and a session's output. */
#ifndef GLOVEBOX_CLI_SHOW_H
#define GLOVEBOX_CLI_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cli;

/* ---- values.c: text for people ------------------------------------------ */

/* "0 B", "1.5 KiB", "12 MiB"; ret must hold 16 bytes. Returns ret. */
char *cli_format_size(uint64_t bytes, char ret[16]);
/* "850 ms", "1.2 s", "3 min 20 s", "2 h 5 min", "4 d 3 h" */
char *cli_format_duration(uint64_t ms, char ret[24]);
/* The nearest of count names within two edits (fewer for short ones), or
 * NULL; stride: bytes from one name pointer to the next. */
const char *cli_format_nearest(const char *word, const void *names,
                               size_t stride, size_t count);

/* ---- show.c: tables, objects and lists of the API ----------------------- */

struct cli_table;
struct cli_table *cli_table_new(const char *const *headings, size_t columns);
void cli_table_free(struct cli_table **t); /* for cleanup() */
/* One row; cells are copied, NULL is an empty one. */
void cli_table_row(struct cli_table *t, const char *const *cells);
/* Aligned columns, two blanks between, none at the end of a line. */
void cli_table_print(const struct cli_table *t, struct buf *out);

struct cli_column;

/* A list as a table, or with --json as it is; columns end with one that has
 * no heading. */
void cli_show_list(const struct cli *c, const json_t *rows,
                   const struct cli_column *columns);
/* Every member on a line of its own, nested ones as JSON; what is null or
 * empty is left out. With --json as it is. */
void cli_show_object(const struct cli *c, const json_t *object);
/* With --json the object; at a terminal the sentence; else nothing. */
void cli_show_done(const struct cli *c, const json_t *object, const char *fmt,
                   ...) __attribute__((format(printf, 3, 4)));
/* Text of a session or a file, filtered when it is a terminal. */
void cli_show_text(const struct cli *c, const char *text, size_t len);

/* ---- search.c: one hit ----------------------------------------------------
 */

/* "ws:path:line: snippet" and a line end; color: what was found is marked. */
void cli_search_line(const json_t *hit, const char *workspace, bool color,
                     struct buf *out);

/* ---- backup.c: progress of gloveboxd ------------------------------------ */

/* "restore WHAT DONE TOTAL"; false for any other line. */
bool cli_restore_line(const char *line, char ret_what[48], uint64_t *ret_done,
                      uint64_t *ret_total);

/* ---- approvals.c ---------------------------------------------------------
 */

/* Text that a person is to judge: whatever would not show, or not where it
 * stands, is written out. */
void cli_approvals_plain(const char *text, size_t len, struct buf *out);

/* ---- terminal_filter.c: what reaches a terminal
 * ----------------------------------- */

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

void cli_filter_feed(struct cli_filter *g, const char *bytes, size_t len,
                     struct buf *out);

/* ---- progress.c: bars and waiting lines --------------------------------- */

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

/* ---- render.c, outcome.c: displays, errors, failures -------------------- */

struct cli_render {
    struct cli *c;
    const char *charts; /* NULL: none are saved */
    struct cli_filter out, err;
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
/* Ends a half-written line, so that ours starts at its beginning. */
void cli_render_fresh_line(struct cli_render *r);
/* Saves every image of an execution object's displays and result. */
void cli_render_charts(struct cli_render *r, const json_t *execution);

/* Why it did not end well, in one sentence; and whether the interpreter and
 * its variables are still there. Nothing for ok and error. */
void cli_outcome_show(struct cli_render *r, const json_t *execution);
/* The exit status of an execution object. */
int cli_outcome_exit(const json_t *execution);
/* "ran longer than its limit of 2 s": the sentence for an outcome that is not
 * the code's own; false when there is nothing to say. */
bool cli_outcome_sentence(const json_t *execution, struct buf *out);

/* ---- file_summary.c: files of an execution ------------------------------ */

/* Prints a short line for each file of an execution on standard error: what
 * was stored and under which id, what was not and why. all: also what went
 * well, which only a person wants to read. */
void cli_file_summary_print(const struct cli *c, const json_t *execution,
                            bool all);
/* The same as text; at most max lines, then how many more. */
void cli_file_summary_lines(const json_t *execution, bool all, size_t max,
                            struct buf *out);
/* How many files were created or modified. */
size_t cli_file_summary_count(const json_t *execution);

#endif
