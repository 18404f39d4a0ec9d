/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tools of the MCP door share; for tool*.c only. How the pieces work
 * together:
 *
 *   tool_sessions.c    which session or workspace a call is about
 *   tool_text.c        paths, cutting, quoting, patterns: pure functions
 *   tool_execute.c     runs something in a session and reports its progress
 *   tool_held.c        executions that policy holds until they are approved
 *   tool_result.c      an execution as an answer
 *   tool_files.c       files as answers name them
 *   the others         the tools; tools.c is their table
 *
 * A tool reads its arguments by a table, so that a wrong one is named; every
 * failure it returns becomes a tool error the model can act on.
 */
#ifndef GLOVEBOX_DOORS_MCP_TOOL_H
#define GLOVEBOX_DOORS_MCP_TOOL_H

#include "api/api.h"
#include "base/path.h"
#include "doors/mcp/mcp.h"
#include "execution/execution.h"
#include "workspace/workspace.h"

#define TOOL_STDOUT_CHARS 4000u /* shown to a model */
#define TOOL_STDERR_CHARS 2000u
#define TOOL_KEPT_FOLDER ".glovebox" /* ours, below /mnt/data */

/* ---- tool_sessions.c ---------------------------------------------------- */

enum tool_need {
    TOOL_FIND, /* only one that is there */
    TOOL_MAKE, /* a new one if need be */
};

/* id, workspace: of the arguments, or NULL. Without an id it is the session
 * of the conversation, or (TOOL_MAKE) a new one. ret: session_info_done. */
int tool_session(struct mcp_call *call, enum tool_need need, const char *id,
                 const char *workspace, struct session_info *ret,
                 struct error *err);
/* The workspace asked for, or that of the session as above. */
int tool_workspace(struct mcp_call *call, const char *workspace,
                   const char *session, char ret[ID_MAX], struct error *err);

/* ---- tool_text.c -------------------------------------------------------- */

/* "a/b", "/mnt/data/a/b" and "sandbox:/mnt/data/a/b" to "a/b"; anything that
 * leads elsewhere is refused. arena */
int tool_path(struct arena *arena, const char *text, const char **ret,
              struct error *err);
/* The same for a folder, where "" is /mnt/data itself. */
int tool_folder(struct arena *arena, const char *text, const char **ret,
                struct error *err);
/* Characters; a byte that is no UTF-8 counts as one. */
size_t tool_text_chars(const char *text, size_t len);
/* Where the first n of them end. */
size_t tool_text_offset(const char *text, size_t len, size_t n);
/* Appends text, or its head and tail with a mark between that says what was
 * cut and, unless NULL, the file with the whole. Returns the number of
 * characters left out. */
size_t tool_text_cut(struct buf *out, const char *text, size_t len,
                     size_t most, const char *file);
/* Appends text as one word of the shell. */
void tool_text_quote(struct buf *out, const char *text);
/* "*" and "?" within a part, "**" across parts, [sets]; a pattern without a
 * "/" is of the last part alone. Time is bounded by the product of lengths. */
bool tool_text_match(const char *pattern, const char *path);

/* ---- tool_execute.c ----------------------------------------------------- */

struct tool_watch {
    struct tool_watch *next, **at; /* of the watcher */
    bool busy;                     /* the watcher looks at it now */
    struct mcp_call *call;
    struct execution *e;
    char execution[ID_MAX];
    uint64_t since_ms, told_ms;
    uint32_t seen; /* number of the event looked at last */
    bool running, cancelled;
    char line[200]; /* the last of its output */
    size_t line_len;
    bool line_ended;
};

/* The caller's own thread must not use w->call between the two. */
void tool_watch_begin(struct tool_watch *w, struct mcp_call *call,
                      struct execution *e);
void tool_watch_end(struct tool_watch *w);

/* To its end, or as far as policy lets it; ret: referenced, completed or
 * pending. MCP_PENDING: the user is asked first. */
int tool_execute(struct mcp_call *call, const char *session,
                 const struct exec_spec *spec, struct execution **ret,
                 struct error *err);

/* ---- tool_held.c: what waits for approval ------------------------------- */

/* The session of a round before, where the arguments name none. arena */
const char *tool_held_session(struct mcp_call *call, const char *given);
/* 1: this very code was held in a round before, and *ret is it, referenced;
 * 0: it was not; or -code: it was, and is gone. */
int tool_held_before(struct mcp_call *call, const struct exec_spec *spec,
                     struct execution **ret, struct error *err);
/* Of one that is held: 0, with *e as it is then, or MCP_PENDING. */
int tool_held(struct mcp_call *call, const struct exec_spec *spec,
              struct execution **e);
void tool_held_answer(const struct exec_info *info, struct mcp_answer *ret);

/* ---- tool_files.c ------------------------------------------------------- */

/* A file as answers name it; strings borrowed, "" for none. */
struct tool_file {
    const char *path;
    const char *change; /* "created", …, or NULL */
    const char *why;    /* it was not kept as asked: a sentence; or NULL */
    const char *status; /* the same as a word: "locked", …; or NULL */
    const char *wanted; /* the path meant, when a conflict changed it */
    uint64_t size;
    const char *file, *version, *sha256, *mime;
};

/* What to do when a lock keeps a file from being stored. */
#define TOOL_LOCKED_ADVICE                                                    \
    "Wait until the lock ends, or write to another name. If it is your own "  \
    "lock, work in the session that lock_file named, or release it with "     \
    "unlock_file."

/* Files that an answer lists; it counts the others. A model pays for every
 * entry, and list_files has them all in pages. */
#define TOOL_FILES_MAX 20u

/* A tool_file as answers have it, with what is worked out from it. */
struct tool_file_view {
    struct tool_file file;
    const char *name, *container_file, *sandbox_path, *uri, *url;
};
extern const struct api_resource tool_file_resource, tool_one_file_resource;
struct tool_file_view tool_file_view(const struct mcp_call *call,
                                     const char *workspace,
                                     const struct tool_file *f);
/* A resource link, if the file is kept. */
void tool_file_link(struct mcp_answer *a, struct arena *arena,
                    const char *workspace, const struct tool_file *f);
/* The whole _meta of an answer. */
void tool_files_meta(struct mcp_answer *a, const struct mcp_call *call,
                     const char *session, const char *workspace,
                     const struct tool_file *files, size_t count);
/* "/mnt/data/x.csv (created, 1.2 KiB)" and a line end */
void tool_file_say(struct buf *out, const struct tool_file *f);
/* Where this service serves the bytes of a version, or NULL. arena */
const char *tool_file_url(const struct mcp_call *call, const char *file,
                          const char *version);

/* ---- tool_files.c: the newest files of a workspace ---------------------- */

#define TOOL_NEWEST_MAX 3u

struct tool_newest {
    const char *path;
    int64_t modified_at_ms;
};
extern const struct api_resource tool_newest_resource;
/* The files changed last, newest first; workspace "" has none. Returns their
 * number. Paths are of the arena. */
size_t tool_newest(struct mcp_call *call, const char *workspace,
                   struct tool_newest ret[TOOL_NEWEST_MAX]);
/* Adds ", newest: a.csv, b.png", or nothing. */
void tool_newest_say(struct buf *out, const struct tool_newest *newest,
                     size_t count);

/* ---- tool_files.c: storing ---------------------------------------------- */

/* Puts bytes into a session's files. ret: path owned by caller (free). */
int tool_keep(struct mcp_call *call, const char *session, const char *path,
              const void *bytes, size_t len, struct session_file *ret,
              struct error *err);

/* ---- tool_result.c ------------------------------------------------------ */

/* output: the table of the tool, one of tool_result.c. */
void tool_result(struct mcp_call *call, const struct session_info *session,
                 struct execution *e, const struct api_resource *output,
                 struct mcp_answer *ret);
/* What to do about an outcome, for a model; "" for ok. */
const char *tool_result_advice(const struct exec_info *info);

/* ---- small things ------------------------------------------------------- */

static inline const char *tool_text_or(const char *text, const char *other)
{
    return text && text[0] ? text : other;
}

static inline const char *tool_some(const char *text)
{
    return text && text[0] ? text : NULL;
}

/* ---- the tools ---------------------------------------------------------- */

typedef int tool_run_fn(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err);

#define TOOL_DECLARE(name)                                                    \
    tool_run_fn tool_##name;                                                  \
    extern const char tool_##name##_text[];                                   \
    extern const struct api_resource tool_##name##_input, tool_##name##_output

TOOL_DECLARE(execute_python);
TOOL_DECLARE(run_shell);
TOOL_DECLARE(run_code);
TOOL_DECLARE(generate_pdf_report);
TOOL_DECLARE(read_file);
TOOL_DECLARE(search_files);
TOOL_DECLARE(list_files);
TOOL_DECLARE(download_file);
TOOL_DECLARE(upload_file);
TOOL_DECLARE(reset_session);
TOOL_DECLARE(interrupt);
TOOL_DECLARE(list_sessions);
TOOL_DECLARE(refresh_session);
TOOL_DECLARE(hibernate_session);
TOOL_DECLARE(undo);
TOOL_DECLARE(branch_session);
TOOL_DECLARE(merge_branch);
TOOL_DECLARE(end_session);
TOOL_DECLARE(share_session);
TOOL_DECLARE(check_approval);
TOOL_DECLARE(decide_approval);
TOOL_DECLARE(list_workspaces);
TOOL_DECLARE(create_workspace);
TOOL_DECLARE(search_workspace);
TOOL_DECLARE(file_history);
TOOL_DECLARE(restore_version);
TOOL_DECLARE(lock_file);
TOOL_DECLARE(unlock_file);
TOOL_DECLARE(share_file);
TOOL_DECLARE(upload_link);
TOOL_DECLARE(transfer_workspace);
TOOL_DECLARE(conversation_files);
TOOL_DECLARE(launch_shell);
TOOL_DECLARE(run_python_remote);
TOOL_DECLARE(run_shell_remote);

/* The three report*.py, joined, in the daemon's read-only data. */
extern const char tool_report_program[];

/* ---- arguments and answers -----------------------------------------------
 * Each tool has a table of its arguments and one of its answer (api/api.h). */

#define TOOL_PATH_MAX (PATH_BYTES_MAX + 32) /* with /mnt/data before it */

/* The first fields of every answer. A failure has only these. */
struct tool_status {
    const char *status, *message, *hint;
};
extern const struct api_resource tool_status;

/* The same of a tool that runs something, which policy may hold back. */
struct tool_run_status {
    struct tool_status status;
    const char *session, *execution, *approval;
};
extern const struct api_resource tool_run_status;

#define TOOL_OK                                                               \
    {                                                                         \
        .status = "ok"                                                        \
    }
#define TOOL_INPUT(tool, type, rows)                                          \
    API_INPUT(tool_##tool##_input, #tool " arguments", type, rows, NULL)
/* The struct begins with a struct tool_status. */
#define TOOL_OUTPUT(tool, type, rows)                                         \
    const struct api_resource tool_##tool##_output = {                        \
        .name = #tool " answer",                                              \
        .base = &tool_status,                                                 \
        .fields = (rows),                                                     \
        .count = ARRAY_SIZE(rows),                                            \
        .size = sizeof(type),                                                 \
        .partial = true}
/* The struct begins with a struct tool_run_status. */
#define TOOL_RUN_OUTPUT(tool, type, rows)                                     \
    const struct api_resource tool_##tool##_output = {                        \
        .name = #tool " answer",                                              \
        .base = &tool_run_status,                                             \
        .fields = (rows),                                                     \
        .count = ARRAY_SIZE(rows),                                            \
        .size = sizeof(type),                                                 \
        .partial = true}
/* The structured part of an answer. */
void tool_answer(struct mcp_answer *ret, const struct api_resource *r,
                 const void *object);

/* Arguments that many tools have; the struct's members have these names. */
#define TOOL_SESSION(type)                                                    \
    {                                                                         \
        "session_id", API_STRING, API_AT(type, session),                      \
            .min = 1, .max = ID_MAX,                                          \
            .help = "The session to work in, as an earlier answer named it. " \
                    "Without it: the one of this conversation, where the "    \
                    "host keeps one, else a new one, and the answer says so." \
    }
#define TOOL_WORKSPACE(type)                                                  \
    {                                                                         \
        "workspace", API_STRING, API_AT(type, workspace),                     \
            .min = 1, .max = ID_MAX,                                          \
            .help = "The workspace, ws_…. Leave it out for the one of the " \
                    "session."                                                \
    }
#define TOOL_LIMIT(type, most, usual)                                         \
    {                                                                         \
        "limit", API_INT, API_DEFAULT, API_AT(type, limit),                   \
            .min = 1, .max = (most), .value = (usual)                         \
    }
#define TOOL_AFTER(type)                                                      \
    {                                                                         \
        "after", API_STRING, API_AT(type, after),                             \
            .min = 1, .max = ID_MAX, .help = "next of the page before"        \
    }

#endif
