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

/* ---- execute.c: one execution, shown as it goes ------------------------- */

struct cli_execute {
    const char *session;
    const char *language; /* "python" or "shell" */
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
};

/* Runs to the end; ret: the final execution object, owned by caller. */
int cli_execute(struct cli *c, const struct cli_execute *what, json_t **ret,
                struct error *err);

/* ---- remote.c: sessions and workspaces ---------------------------------- */

struct cli_words;

struct cli_session_spec {
    const char *pool, *runtime, *name;
    const char *workspace; /* id or name, or NULL */
    bool ephemeral;
    bool share;                    /* with every key of the tenant */
    uint64_t memory_bytes;         /* 0: the pool's */
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
/* An id as it is, or the id of the one session of that name. */
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

/* ---- place.c: where a file is ------------------------------------------- */

enum cli_place_kind {
    CLI_PLACE_SESSION,
    CLI_PLACE_WORKSPACE,
    CLI_PLACE_FILE, /* by its own id, whatever workspace it is in */
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
/* What is behind the last slash; borrowed. */
const char *cli_place_base_name(const char *path);
/* `path` without "/mnt/data/", "sandbox:/mnt/data/" and "./" in front. */
const char *cli_place_below_data(const char *path);

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

/* ---- upload.c, multipart_upload.c --------------------------------------- */

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

/* ---- temp_session.c: a session for one command -------------------------- */

struct cli_temp_session {
    char session[ID_MAX];
    char workspace[ID_MAX]; /* "": ephemeral, or not known */
    bool is_new;            /* created here, so deleted here */
};

/* The session that is named, or a new one. */
int cli_temp_session_open(struct cli *c, const char *session,
                          const struct cli_session_spec *spec,
                          struct cli_temp_session *ret, struct error *err);
/* Deletes a new session; a failure is reported on standard error. */
void cli_temp_session_close(struct cli *c, const struct cli_temp_session *t);

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

/* ---- files.c, files_transfer.c: for run and shell ----------------------- */

/* Prints the table of a place's files, or with --json the list. */
int cli_files_list(struct cli *c, const struct cli_place *place,
                   struct error *err);
/* remote NULL: local's own name. */
int cli_files_put(struct cli *c, const char *session, const char *local,
                  const char *remote, json_t **ret, struct error *err);
int cli_files_get(struct cli *c, const char *session, const char *remote,
                  const char *local, char **ret_local, struct error *err);

#endif
