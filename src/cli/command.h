/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of commands. Each command is one struct cli_command: its
 * options, its verbs, and for a verb that only makes a request and prints the
 * answer, the request and what is printed of it. command.c runs a command
 * from its description, help.c prints usage, help and the machine-readable
 * dump from it; cli.c lists them all.
 *
 * Templates. path, query, body, json and sentence contain {SOURCE}:
 *
 *   {WORD}       a word of the line, by its name in `words`. In path, query
 *                and body it is resolved first: WS and SESSION become ids,
 *                PLACE has parts {PLACE.workspace} and {PLACE.path}, SIZE is
 *                a number, on|off is true or false. In json and sentence it
 *                is the word as typed.
 *   {--option}   the value of an option, in the same way by the name of its
 *                argument. An option that was not given is left out.
 *   {--flag:a|b} "a" if the flag was given, else "b"; an empty one is left
 *                out.
 *   {member}     sentence only: a member of the answer. {member:size} and
 *                {member:limit} format bytes (limit: "none" for 0),
 *                {member:count file} is "1 file" or "3 files".
 *
 * query, body and json are lists of member=TEMPLATE with blanks between; a
 * member a.b is member b of the object a.
 */
#ifndef GLOVEBOX_CLI_COMMAND_H
#define GLOVEBOX_CLI_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/remote.h"

struct cli;
struct cli_call;
struct cli_words;
struct error;

enum cli_opt_type {
    CLI_OPT_FLAG,     /* bool */
    CLI_OPT_TEXT,     /* const char *, borrowed from argv */
    CLI_OPT_COMMAS,   /* the same; a list with commas between in a request */
    CLI_OPT_SWITCH,   /* bool: on or off */
    CLI_OPT_LIST,     /* struct cli_words; may be repeated */
    CLI_OPT_SECONDS,  /* uint64_t, 1 to 86400 */
    CLI_OPT_DURATION, /* uint64_t seconds: 90, 15m, 2h, 7d */
    CLI_OPT_COUNT,    /* uint64_t, 0 to 10^9 */
    CLI_OPT_SIZE,     /* uint64_t bytes: 512m, 4g */
    CLI_OPT_TIME,     /* int64_t milliseconds: see cli_values_time */
    CLI_OPT_FORMAT,   /* struct cli: json, yaml or wide */
};

struct cli_option {
    const char *name; /* without dashes */
    char letter;      /* or 0 */
    enum cli_opt_type type;
    size_t offset;   /* of its value in the command's flags */
    const char *arg; /* the value's name in help; NULL for a flag */
    const char *help;
    const char *verbs; /* verbs it is for, blanks between; NULL: all */
};

enum cli_column_kind {
    CLI_COLUMN_TEXT,
    CLI_COLUMN_NUMBER,
    CLI_COLUMN_TIME,
    CLI_COLUMN_SIZE, /* bytes */
    CLI_COLUMN_ID,
    CLI_COLUMN_BOOL, /* true, or anything that is not null or false */
    CLI_COLUMN_LIST, /* of texts, with commas between */
};

struct cli_column {
    const char *heading;
    const char *member; /* of a list's element */
    enum cli_column_kind kind;
    const char *missing; /* instead of an empty cell; or NULL */
    const char *yes;     /* BOOL: instead of "yes"; or NULL */
    /* Writes a cell that one member cannot tell; or NULL. */
    void (*cell)(const json_t *row, struct buf *out);
    bool wide; /* at a terminal only with -o wide */
};

/* A verb that is code, and every command without verbs. flags: what the
 * options said. Returns the exit status. */
typedef int cli_verb_fn(struct cli *c, const struct cli_words *words,
                        void *flags);

struct cli_verb {
    const char *name;    /* "list"; "member add" if it is two words; "" for a
                            command that has no verbs */
    const char *aliases; /* other names that work, which help does not list;
                            blanks between; or NULL */
    const char *words;   /* "WS KEY-ID ROLE", "[TENANT]", "WS..."; or NULL */
    const char *help;    /* what it does, in one line without a full stop */

    /* The request. A verb whose path has a repeated word makes one for each
     * of them. */
    const char *method, *path, *query;
    const char *body;  /* also tells which flag a field in an error is; of a
                          verb that is code, only that */
    const char *needs; /* options that must be given, blanks between */
    size_t min, max;   /* words; both 0: as `words` says */
    /* Before the request: may add to call->body, set call->path or
     * call->header, or replace call->verb. 0, a negative code with err, or an
     * exit status. */
    int (*prepare)(struct cli_call *call, struct error *err);
    cli_verb_fn *run; /* the whole verb, instead of a request */

    /* The output: the first of these that is set, else the answer's members,
     * one a line. With --json: the answer, or `json`. */
    int (*print)(struct cli_call *call); /* returns the exit status */
    const struct cli_column *columns;    /* a table; no heading at the end */
    const char *list;   /* the answer's member that is the list; NULL: "data",
                           which is then all that --json prints */
    const char *cursor; /* the list comes in pages by this member */
    size_t limit;       /* elements unless --limit says; 0: all */
    const char *value;  /* the member printed alone on standard output; the
                           sentence then goes to standard error, if that is
                           a terminal or `always` */
    const char *sentence; /* to a terminal only, unless `always` */
    bool always;
    const char *json; /* instead of the answer */
};

/* What a word or an option's argument of that name means: parse or resolve.
 */
struct cli_word_kind {
    const char *name;
    /* The value, owned; NULL for a text that is not `expected`. */
    json_t *(*parse)(const char *text);
    const char *expected; /* "on or off" */
    bool is_noun;         /* an object of the service, by id, name or prefix */
    enum cli_noun noun;
    /* Asks the service. ret: owned; an object if it has parts, whose member
     * "id" is meant by {WORD} and others by {WORD.part}. */
    int (*resolve)(struct cli *c, const char *text, json_t **ret,
                   struct error *err);
};

struct cli_command {
    const char *name;
    const char *summary; /* one line, no full stop */
    const char *notes;   /* below the options in --help; or NULL */
    bool online; /* talks to a service: has the options that say to which */
    const struct cli_option *options; /* no name at the end; or NULL */
    size_t flags_size;                /* of the struct that options fill */
    /* The first one is meant when a line has no words. */
    const struct cli_verb *verbs;      /* no name at the end */
    const struct cli_word_kind *kinds; /* its own; no name at the end */
    cli_verb_fn *check;                /* options that exclude one another */
    void (*flags_done)(void *flags);
    cli_command_fn *main; /* parses its own line; all above is for help */
    const char *usage;    /* with main: one line per form */
};

/* One verb at work. */
struct cli_call {
    struct cli *c;
    const struct cli_command *command;
    const struct cli_verb *verb;
    const struct cli_words *words; /* after the verb */
    void *flags;
    size_t repeat;    /* which one of a repeated word the request is for */
    char *path;       /* owned; NULL: as the verb says */
    char *header;     /* one more line of the request, wiped; owned, or NULL */
    json_t *body;     /* owned, or NULL */
    json_t *resolved; /* words and arguments by their text; owned */
    json_t *answer;   /* owned; a list with columns: the list */
};

/* ---- command.c ---------------------------------------------------------- */

/* Runs a command from its description; argv[0] is its name. */
int cli_command_run(const struct cli_command *command, int argc, char **argv);
/* Was the option given on the line? */
bool cli_command_given(const struct cli *c, const char *option);
/* Is the word, or the pair of words, in list, blanks between? list may be
 * NULL. */
bool cli_command_listed(const char *list, const char *word);

/* ---- cli.c -------------------------------------------------------------- */

/* All commands, in the order of the help; NULL at the end. */
extern const struct cli_command *const cli_commands[];

/* Each in the file of its name; logout, whoami, contexts and version in
 * login.c, key and token in credentials.c, restore and
 * verify in backup.c. */
extern const struct cli_command cli_login, cli_logout, cli_whoami,
    cli_contexts, cli_version, cli_console, cli_executions, cli_run, cli_shell,
    cli_sessions, cli_pool, cli_files, cli_workspaces, cli_search, cli_locks,
    cli_share, cli_conversations, cli_approvals, cli_audit, cli_policy,
    cli_backup, cli_restore, cli_verify, cli_migrate, cli_key, cli_token,
    cli_network, cli_secrets, cli_model, cli_quota, cli_runtime, cli_mcp,
    cli_doctor, cli_scorecard, cli_agents, cli_tools, cli_ask, cli_chat,
    cli_undo, cli_redo, cli_nodes;

/* ---- help.c ------------------------------------------------------------- */

/* The synopsis; verb: of this one alone, or NULL. */
void cli_help_usage(FILE *out, const struct cli_command *command,
                    const struct cli_verb *verb);
/* What each verb does, a line each. */
void cli_help_verbs(FILE *out, const struct cli_command *command);
void cli_help_program(FILE *out);
/* Every command, verb, option and column; owned by caller. */
json_t *cli_help_dump(void);

#endif
