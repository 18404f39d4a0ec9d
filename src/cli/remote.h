/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions, workspaces and files at the service, as commands name them: a
 * session or a workspace by id or by a name only one has, a file by a place.
 */
#ifndef GLOVEBOX_CLI_REMOTE_H
#define GLOVEBOX_CLI_REMOTE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ids.h"

struct cli;
struct error;

/* ---- runtime_import.c: images of containers ------------------------------
 */

/* Makes the runtime `name` (NULL: by the source) of an image. ret_name: owned
 * by caller. */
int cli_runtime_import(const char *source, const char *name,
                       const char *defs_dir, const char *cache_dir, bool force,
                       char **ret_name, struct error *err);
/* Its definition goes with its images. */
void cli_runtime_import_forget(const char *cache_dir, const char *name);

/* ---- execute.c: one execution, shown as it goes ------------------------- */

struct cli_execute {
    const char *session;
    const char *language; /* a name of language.h */
    const char *code;
    size_t code_len;
    uint64_t timeout_s;                 /* 0: the pool's */
    const char *conversation, *message; /* or NULL */
    const char *lock;                   /* token, or NULL */
    const char *charts; /* folder for images; NULL: none are saved */
    bool quiet;         /* show nothing, only return the object */
    bool interactive;   /* Ctrl-C interrupts before it cancels */
    bool lasting;       /* the session goes on afterwards */
    bool wait;          /* until a held one has been decided and has run */
    bool asleep;        /* the session was asleep */
    bool
        has_variables; /* earlier executions made some: say if they are lost */
};

/* Starts it and does not wait; ret: the execution object, owned by caller. */
int cli_execute_detached(struct cli *c, const struct cli_execute *what,
                         json_t **ret, struct error *err);
/* Shows an execution from its beginning, and what is still to come. */
int cli_execute_follow(struct cli *c, const char *id, const char *charts,
                       json_t **ret, struct error *err);
/* notebook.c: runs the code cells of the notebook in order, in the session of
 * `what`, until one fails; its outputs replace those in *notebook. ret: the
 * last execution, owned by caller. */
int cli_notebook_run(struct cli *c, const struct cli_execute *what,
                     json_t *notebook, json_t **ret, struct error *err);
/* Runs to the end; ret: the final execution object, owned by caller. */
int cli_execute(struct cli *c, const struct cli_execute *what, json_t **ret,
                struct error *err);

/* ---- outcome ------------------------------------------------------------ */

struct cli_render;
/* Why it did not end well, in one sentence; and whether the interpreter and
 * its variables are still there. Nothing for ok and error. */
void cli_outcome_show(struct cli_render *r, const json_t *execution);
/* The exit status of an execution object. */
int cli_outcome_exit(const json_t *execution);
/* "ran longer than its limit of 2 s": the sentence for an outcome that is not
 * the code's own; false when there is nothing to say. */
bool cli_outcome_sentence(const json_t *execution, struct buf *out);

/* ---- files of an execution ---------------------------------------------- */

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

/* ---- sessions and workspaces -------------------------------------------- */

struct cli_words;

struct cli_session_spec {
    const char *pool, *runtime, *name;
    const char *workspace; /* id or name, or NULL */
    bool ephemeral;
    bool share;                    /* with every key of the tenant */
    uint64_t memory_bytes;         /* 0: the pool's */
    uint64_t cores;                /* the same */
    const struct cli_words *allow; /* hosts its code may reach; NULL or none:
                                      the pool's */
};

/* ret: the session object, owned by caller. */
int cli_remote_create(struct cli *c, const struct cli_session_spec *spec,
                      json_t **ret, struct error *err);
/* network.c: "HOST[:PORT]" and "NAME=HOST" (secrets, may be NULL) as
 * destinations of the API; owned by caller; NULL after having complained. */
json_t *cli_network_allow(const struct cli *c, const struct cli_words *allow,
                          const struct cli_words *secrets, bool inspect);
/* Objects that are named by an id, by a name that only one has, or by the
 * beginning of an id: "sess_1f2e", "1f2e". */
enum cli_noun {
    CLI_SESSION,
    CLI_WORKSPACE,
    CLI_KEY,
    CLI_TOKEN,
    CLI_APPROVAL,
};

/* A whole id is not looked up. ERR_NOT_FOUND; ERR_CONFLICT lists candidates.
 */
int cli_remote_resolve(struct cli *c, enum cli_noun which, const char *text,
                       char ret[ID_MAX], struct error *err);
/* The session that is meant. */
int cli_remote_find(struct cli *c, const char *id_or_name, char ret[ID_MAX],
                    struct error *err);
/* The same for a workspace. */
int cli_remote_workspace(struct cli *c, const char *id_or_name,
                         char ret[ID_MAX], struct error *err);
struct cli_column;
/* The workspace that a session has; ERR_CONFLICT when it is ephemeral. */
int cli_remote_session_workspace(struct cli *c, const char *session,
                                 char ret[ID_MAX], struct error *err);
/* Every element of a paged list, at most 100,000; path may have a query. ret:
 * owned array. Pages by the member `cursor` of the last element. most: stop
 * after so many; 0: all. */
int cli_remote_list(struct cli *c, const char *path, const char *cursor,
                    size_t most, json_t **ret, struct error *err);
/* "a:b" at its last colon; a file that exists under the whole text is not
 * cut. ret_left: owned by caller; ret_right borrowed from text, or NULL. */
void cli_remote_split(const char *text, bool left_is_file, char **ret_left,
                      const char **ret_right);

/* ---- places: where a file is -------------------------------------------- */

enum cli_place_kind {
    CLI_PLACE_SESSION,
    CLI_PLACE_WORKSPACE,
    CLI_PLACE_FILE, /* by its own id, in any workspace */
};

struct cli_place {
    enum cli_place_kind kind;
    char id[ID_MAX];
    char *path; /* owned; "" for the whole, never for a file id */
};

/* "ws:path", "name:path", "file_…"; session not NULL: a path below that
 * session's /mnt/data, which may be spelled out. */
int cli_place_find(struct cli *c, const char *text, const char *session,
                   struct cli_place *ret, struct error *err);
void cli_place_done(struct cli_place *p); /* for cleanup() */
/* Does text look like "ws:path"? No slash before the colon, and something. */
bool cli_place_is_address(const char *text);
/* A session's place becomes its workspace's, for what only those have. */
int cli_place_to_workspace(struct cli *c, struct cli_place *p,
                           struct error *err);
/* Request paths; owned by caller. suffix: "files", "history", ... */
char *cli_place_file_url(const struct cli_place *p);
char *cli_place_url(const struct cli_place *p, const char *suffix);
/* The part after the last slash; borrowed. */
const char *cli_place_base_name(const char *path);
/* `path` without "/mnt/data/", "sandbox:/mnt/data/" and "./" in front. */
const char *cli_place_below_data(const char *path);

/* ---- files_transfer.c: a folder of this machine ------------------------- */

struct cli_tree {
    char **paths; /* below the folder; owned */
    size_t count, skipped;
    uint64_t bytes;
};

/* Regular files below it in order of name; links, devices and the like are
 * counted as skipped. ERR_TOO_LARGE beyond 1,000,000. */
int cli_tree_read(const char *folder, struct cli_tree *ret, struct error *err);
void cli_tree_done(struct cli_tree *t);

/* ---- a session for one command ------------------------------------------ */

struct cli_temp_session {
    char session[ID_MAX];
    char workspace[ID_MAX]; /* "": ephemeral, or not known */
    bool is_new;            /* created here, so deleted here */
    bool asleep;            /* it was dormant when it was opened */
    bool has_variables;     /* it has run code before */
    uint64_t cooldown_s;    /* idle seconds until it sleeps */
};

/* The session that is named, or a new one. */
int cli_temp_session_open(struct cli *c, const char *session,
                          const struct cli_session_spec *spec,
                          struct cli_temp_session *ret, struct error *err);
/* Counts as a use, so that an attached session does not go to sleep. Best
 * effort: an execution reports what is wrong. */
void cli_temp_session_keep_awake(struct cli *c,
                                 const struct cli_temp_session *t);
/* Deletes a new session; a failure is reported on standard error. */
void cli_temp_session_close(struct cli *c, const struct cli_temp_session *t);

/* ---- files.c, files_transfer.c: for run and shell ----------------------- */

/* Prints the table of a place's files, or with --json the list. */
int cli_files_list(struct cli *c, const struct cli_place *place,
                   struct error *err);
/* remote NULL: local's own name. */
int cli_files_put(struct cli *c, const char *session, const char *local,
                  const char *remote, json_t **ret, struct error *err);
int cli_files_get(struct cli *c, const char *session, const char *remote,
                  const char *local, char **ret_local, struct error *err);

/* ---- search.c: one hit -------------------------------------------------- */

/* "ws:path:line: snippet" and a line end; color: what was found is marked. */
void cli_search_line(const json_t *hit, const char *workspace, bool color,
                     struct buf *out);

/* ---- backup.c: progress of gloveboxd ------------------------------------ */

/* "restore WHAT DONE TOTAL"; false for any other line. */
bool cli_restore_line(const char *line, char ret_what[48], uint64_t *ret_done,
                      uint64_t *ret_total);
/* The daemon, which is beside this program; owned by caller. */
int cli_daemon_find(char **ret, struct error *err);
/* Runs it to its end and shows its progress. failure: the error, when it
 * fails; what it prints is shown. */
int cli_daemon_run(struct cli *c, char *const argv[], const char *failure,
                   struct error *err);

/* ---- approvals.c -------------------------------------------------------- */

/* Text that a person is to judge: whatever would not show, or not where it
 * stands, is written out. */
void cli_approvals_plain(const char *text, size_t len, struct buf *out);

#endif
