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
#ifndef GLOVEBOX_CLI_COMMON_H
#define GLOVEBOX_CLI_COMMON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/ids.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "cli/command.h"
#include "cli/remote.h"
#include "cli/term/term.h"
#include "json/json.h"

struct error;

/* ---- document.c ---------------------------------------------------------
 */

/* A file of at most max bytes as JSON, which it is written in, or YAML; "-"
 * is standard input. ret: owned by caller. */
int cli_document_read(const char *path, size_t max, json_t **ret,
                      struct error *err);

/* ---- cli.c: what one command has ---------------------------------------- */

#define CLI_OPTS_MAX 40

struct cli {
    const char *command; /* its name, for messages */
    /* common flags; borrowed from argv */
    const char *url;
    const char *data;
    const char *key_file;
    const char *cacert;
    const char *context; /* a name of contexts.json */
    bool embedded;       /* of commands that have the flag */
    bool json; /* machine-readable output: JSON, or YAML if yaml is set */
    bool yaml;
    bool wide; /* tables with all columns, whole ids and exact times */
    /* options on the line, each once, and the verbs they are for; borrowed */
    struct {
        const char *option, *only;
    } given[CLI_OPTS_MAX];
    size_t given_count;
    const struct cli_verb *verb; /* once it is known */
    /* terminals */
    bool tty_out, tty_err;
    bool color_out, color_err;
    int signal_fd;    /* SIGINT, SIGTERM, SIGHUP */
    bool interrupted; /* one of them has ended a request */
    int watch_fd;     /* no service is waited for once it hangs up; or -1 */
    /* the service, once connected; owned */
    char *base;
    char *pin; /* of its public key, from the data directory; or NULL */
    char *key;
    char *context_url, *context_cacert; /* of the context in use; owned */
    bool logging_in; /* contexts are not used: a new one is made */
    struct cli_embedded *service; /* one that this command has started */
    uint64_t upload_bytes; /* what it takes in one piece; 0: not asked */
};

void cli_init(struct cli *c, const char *command);
void cli_done(struct cli *c); /* also ends an embedded service */
/* Reports a failure of ours: a sentence and a hint on standard error, and
 * with --json the error object on standard output. Returns the exit status. */
int cli_fail(const struct cli *c, const struct error *err);
/* Prints the sentence and the usage on standard error; CLI_EXIT_USAGE. */
int cli_usage_error(const struct cli *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Sleeps; false when a signal asks the command to end. */
bool cli_sleep(const struct cli *c, unsigned ms);
/* One JSON value and a newline on standard output; or YAML, if asked for. */
void cli_print_json(const struct cli *c, const json_t *value);

/* ---- opts.c: flags and words -------------------------------------------- */

/* An option of struct cli_option and where its value goes. */
struct cli_opt {
    const char *name;
    char letter;
    enum cli_opt_type type;
    void *target;
    const char *arg;
    const char *help;
    const char *only; /* its `verbs` */
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

/* The options that every command has, or every one that talks to a service,
 * bound to c; returns how many. */
#define CLI_OPTS_COMMON 7
size_t cli_opts_common(struct cli *c, bool online,
                       struct cli_opt ret[CLI_OPTS_COMMON]);
/* Returns true to go on; false when the command is over with *ret_exit
 * (--help was printed, or the line was wrong). */
bool cli_opts_parse(struct cli *c, const struct cli_opts *opts, int argc,
                    char **argv, struct cli_words *ret_words, int *ret_exit);

/* ---- opts.c: text for people -------------------------------------------- */

/* "850 ms", "1.2 s", "3 min 20 s", "2 h 5 min", "4 d 3 h" */
char *cli_format_duration(uint64_t ms, char ret[24]);
/* The nearest of count names within two edits (fewer for short ones), or
 * NULL; stride: bytes from one name pointer to the next. */
const char *cli_format_nearest(const char *word, const void *names,
                               size_t stride, size_t count);

/* "5 min ago", "in 3 h", "just now"; at_ms: milliseconds since the epoch. */
char *cli_format_ago(int64_t at_ms, int64_t now_ms, char ret[24]);
/* -o json, yaml or wide; false for any other word. */
bool cli_opts_format(struct cli *c, const char *word);

/* ---- opts.c: what a flag's text means ----------------------------------- */

/* "512m", "4G", "1GiB", "1048576"; -EINVAL, -ERANGE. */
int cli_values_size(const char *text, uint64_t *ret);
/* "90", "90s", "15m", "2h", "7d", "4w": whole seconds, at least 1, at most
 * a hundred years. */
int cli_values_duration(const char *text, uint64_t *ret);
int cli_values_count(const char *text, uint64_t *ret); /* 0 to 10^9 */
/* "2026-01-31", "2026-01-31T12:00[:00[.123]][Z]" (UTC), or a duration: so
 * long before now_ms. Milliseconds since the epoch. */
int cli_values_time(const char *text, int64_t now_ms, int64_t *ret);

#endif
