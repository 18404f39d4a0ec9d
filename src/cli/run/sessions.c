/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox sessions: list, show, create, share, delete, reset, interrupt. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/common.h"

#define SESSION "/api/sessions/{SESSION}"

static int sessions_check(struct cli *c, const struct cli_words *words,
                          void *arg)
{
    const struct cli_session_spec *spec = arg;

    (void)words;
    if (spec->workspace && spec->ephemeral)
        return cli_usage_error(c, "--workspace keeps files, --ephemeral does "
                                  "not: use one of them");
    return CLI_EXIT_OK;
}

struct sessions_flags {
    struct cli_session_spec spec; /* of create */
    const char *at;               /* of branch */
    uint64_t count;
};

static const struct cli_column columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"NAME", .member = "name"},
    {"POOL", .member = "pool"},
    {"RUNTIME", .member = "runtime", .wide = true},
    {"STATE", .member = "state"},
    {"RUNS", "executions", .kind = CLI_COLUMN_NUMBER},
    {"WORKSPACE", "workspace", .kind = CLI_COLUMN_ID},
    {"SHARING", .member = "sharing", .wide = true},
    {"LAST USED", "last_used_at", .kind = CLI_COLUMN_TIME},
    {0},
};

static const struct cli_verb verbs[] = {
    {"list", "ls", NULL, "List sessions", "GET", "/api/sessions",
     .cursor = "id", .columns = columns},
    {"show", NULL, "SESSION", "Show a session", "GET", .path = SESSION},
    {"create", NULL, NULL, "Create a session and print its id", "POST",
     "/api/sessions",
     .body = "pool={--pool} runtime={--runtime} name={--name} "
             "workspace={--workspace} persistence={--ephemeral:ephemeral} "
             "limits.memory_bytes={--memory} "
             "limits.cores={--cores} sharing={--share:tenant}",
     .value = "id", .sentence = "Created a session in the pool {pool}."},
    {"share", NULL, "SESSION", "Let every key of the tenant use a session",
     "PATCH", SESSION, .body = "sharing=tenant",
     .sentence = "Shared {SESSION}: every key of the tenant can use it now."},
    {"unshare", NULL, "SESSION", "Keep a session to its owner again", "PATCH",
     SESSION, .body = "sharing=principal",
     .sentence = "Unshared {SESSION}: only its owner and admins of the tenant "
                 "can use it now."},
    {"delete", "rm", "SESSION...", "Delete sessions; their workspaces stay",
     "DELETE", SESSION, .json = "deleted={SESSION}",
     .sentence = "Deleted the session {SESSION}."},
    {"reset", NULL, "SESSION", "Start a new interpreter and keep the files",
     "POST", SESSION "/reset",
     .sentence = "Reset {SESSION}: a new interpreter, the same files."},
    {"hibernate", NULL, "SESSION",
     "Put a session to sleep and keep its memory", "POST",
     SESSION "/hibernate",
     .sentence = "Hibernated {SESSION}: the next call wakes it with its "
                 "variables."},
    {"branch", NULL, "SESSION", "Make sessions with the same memory and files",
     "POST", SESSION "/branch",
     .body = "at={--at} name={--name} count={--count}", .list = "sessions",
     .columns = columns},
    {"merge", NULL, "SESSION",
     "Merge the files of a branch into its origin's workspace", "POST",
     SESSION "/merge", .sentence = "Merged {SESSION}."},
    {"refresh", NULL, "SESSION",
     "Bring in what others committed to the workspace", "POST",
     SESSION "/refresh",
     .sentence = "Refreshed {SESSION}: {changed:count file} changed."},
    {"interrupt", NULL, "SESSION", "Stop what runs and keep the variables",
     "POST", SESSION "/interrupt", .json = "interrupted={SESSION}",
     .sentence = "Interrupted {SESSION}."},
    {0},
};

#define AT(member) offsetof(struct sessions_flags, spec.member)

static const struct cli_option options[] = {
    {"name", 'n', CLI_OPT_TEXT, AT(name), "N", "name of the new session",
     "create branch"},
    {"workspace", 'w', CLI_OPT_TEXT, AT(workspace), "WS",
     "use this workspace (id or name), not a new one", "create"},
    {"ephemeral", 0, CLI_OPT_FLAG, AT(ephemeral), NULL,
     "keep no files when the session ends", "create"},
    {"pool", 0, CLI_OPT_TEXT, AT(pool), "P", "pool of the new session",
     "create"},
    {"runtime", 0, CLI_OPT_TEXT, AT(runtime), "R",
     "runtime image of the new session", "create"},
    {"memory", 'm', CLI_OPT_SIZE, AT(memory_bytes), "M",
     "memory of the new session, such as 512m", "create"},
    {"cores", 0, CLI_OPT_COUNT, AT(cores), "N",
     "processor cores of the new session", "create"},
    {"share", 0, CLI_OPT_FLAG, AT(share), NULL,
     "let every key of the tenant use the new session", "create"},
    {"at", 0, CLI_OPT_TEXT, offsetof(struct sessions_flags, at), "EXECUTION",
     "branch the state after this execution", "branch"},
    {"count", 0, CLI_OPT_COUNT, offsetof(struct sessions_flags, count), "N",
     "number of new sessions", "branch"},
    {0},
};

/* ---- glovebox undo, glovebox redo --------------------------------------- */

struct undo_flags {
    uint64_t executions;
};

static const struct cli_option undo_options[] = {
    {"executions", 'n', CLI_OPT_COUNT, offsetof(struct undo_flags, executions),
     "N", "how many; 1 if not given", NULL},
    {0},
};

static const struct cli_verb undo_verbs[] = {
    {"", NULL, "SESSION", "Undo the last executions of a session", "POST",
     SESSION "/undo", .body = "executions={--executions}",
     .sentence = "Undid {executions:count execution} of {SESSION}: "
                 "{files:count file} changed back."},
    {0},
};

static const struct cli_verb redo_verbs[] = {
    {"", NULL, "SESSION", "Redo executions that were undone", "POST",
     SESSION "/redo", .body = "executions={--executions}",
     .sentence = "Redid {executions:count execution} of {SESSION}: "
                 "{files:count file} changed."},
    {0},
};

const struct cli_command cli_undo = {
    .name = "undo",
    .summary = "Undo the last executions of a session: memory and files",
    .notes =
        "SESSION is an id or a name. Variables and files are as they were\n"
        "before the executions; files that others changed since stay. `redo`\n"
        "takes it back until the next execution.\n",
    .online = true,
    .options = undo_options,
    .flags_size = sizeof(struct undo_flags),
    .verbs = undo_verbs,
};

const struct cli_command cli_redo = {
    .name = "redo",
    .summary = "Redo executions of a session that were undone",
    .online = true,
    .options = undo_options,
    .flags_size = sizeof(struct undo_flags),
    .verbs = redo_verbs,
};

const struct cli_command cli_sessions = {
    .name = "sessions",
    .summary = "List, create, branch, hibernate, reset and delete sessions",
    .notes =
        "SESSION is an id or, if only one session has it, a name. A session\n"
        "belongs to the key that made it, unless the pool or the tenant is set\n"
        "up otherwise. `delete` keeps the session's workspace, unless the\n"
        "session is ephemeral.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct sessions_flags),
    .verbs = verbs,
    .check = sessions_check,
};
