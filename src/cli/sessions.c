/* SPDX-License-Identifier: Apache-2.0 */
/* glovebox sessions: list, show, create, share, delete, reset, interrupt. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/cli_int.h"

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

static const struct cli_column columns[] = {
    {"ID", "id", .kind = CLI_COLUMN_ID},
    {"NAME", .member = "name"},
    {"POOL", .member = "pool"},
    {"RUNTIME", .member = "runtime"},
    {"STATE", .member = "state"},
    {"RUNS", "executions", .kind = CLI_COLUMN_NUMBER},
    {"WORKSPACE", "workspace", .kind = CLI_COLUMN_ID},
    {"SHARING", .member = "sharing"},
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
             "limits.memory_bytes={--memory} sharing={--share:tenant}",
     .value = "id"},
    {"share", NULL, "SESSION", "Let every key of the tenant use a session",
     "PATCH", SESSION, .body = "sharing=tenant",
     .sentence = "Shared {SESSION}: every key of the tenant can use it now."},
    {"unshare", NULL, "SESSION", "Keep a session to its owner again", "PATCH",
     SESSION, .body = "sharing=principal",
     .sentence = "Unshared {SESSION}: only its owner and admins of the tenant "
                 "can use it now."},
    {"delete", NULL, "SESSION...", "Delete sessions; their workspaces stay",
     "DELETE", SESSION, .json = "deleted={SESSION}",
     .sentence = "Deleted the session {SESSION}."},
    {"reset", NULL, "SESSION", "Start a new interpreter and keep the files",
     "POST", SESSION "/reset",
     .sentence = "Reset {SESSION}: a new interpreter, the same files."},
    {"refresh", NULL, "SESSION",
     "Bring in what others committed to the workspace", "POST",
     SESSION "/refresh",
     .sentence = "Refreshed {SESSION}: {changed:count file} changed."},
    {"interrupt", NULL, "SESSION", "Stop what runs and keep the variables",
     "POST", SESSION "/interrupt", .json = "interrupted={SESSION}",
     .sentence = "Interrupted {SESSION}."},
    {0},
};

#define AT(member) offsetof(struct cli_session_spec, member)

static const struct cli_option options[] = {
    {"name", 'n', CLI_OPT_TEXT, AT(name), "N", "name of the new session",
     "create"},
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
    {"share", 0, CLI_OPT_FLAG, AT(share), NULL,
     "let every key of the tenant use the new session", "create"},
    {0},
};

const struct cli_command cli_sessions = {
    .name = "sessions",
    .summary = "List, create, share, refresh, reset and delete sessions",
    .notes =
        "SESSION is an id or, if only one session has it, a name. A session\n"
        "belongs to the key that made it, unless the pool or the tenant is set\n"
        "up otherwise. `delete` keeps the session's workspace, unless the\n"
        "session is ephemeral.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct cli_session_spec),
    .verbs = verbs,
    .check = sessions_check,
};
