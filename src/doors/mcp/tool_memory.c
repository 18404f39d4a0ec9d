/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools for the memory of a session: hibernate_session, undo, branch_session
 * and merge_branch. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/tool.h"

struct memory_args {
    const char *session, *at, *name;
    int64_t executions, count;
    bool redo;
};

#define ARG(member) API_AT(struct memory_args, member)

static const struct api_field one_arguments[] = {
    TOOL_SESSION(struct memory_args),
};
TOOL_INPUT(hibernate_session, struct memory_args, one_arguments);
TOOL_INPUT(merge_branch, struct memory_args, one_arguments);

static const struct api_field undo_arguments[] = {
    TOOL_SESSION(struct memory_args),
    {"executions", API_INT, API_DEFAULT, ARG(executions), .min = 1, .max = 64,
     .value = 1, .help = "How many of the last executions"},
    {"redo", API_BOOL, API_DEFAULT, ARG(redo),
     .help = "Redo what was undone, until the next execution"},
};
TOOL_INPUT(undo, struct memory_args, undo_arguments);

static const struct api_field branch_arguments[] = {
    TOOL_SESSION(struct memory_args),
    {"at", API_STRING, ARG(at), .max = 64,
     .help = "exec_…: the state after that execution; else the present one"},
    {"name", API_STRING, ARG(name), .max = 110, .help = "Of the new sessions"},
    {"count", API_INT, API_DEFAULT, ARG(count), .min = 1, .max = 16,
     .value = 1, .help = "How many"},
};
TOOL_INPUT(branch_session, struct memory_args, branch_arguments);

struct slept {
    struct tool_status status;
    const char *session, *state;
};

static const struct api_field slept_fields[] = {
    {"session_id", API_STRING, API_AT(struct slept, session)},
    {"state", API_STRING, API_AT(struct slept, state)},
};
TOOL_OUTPUT(hibernate_session, struct slept, slept_fields);

struct undone {
    struct tool_status status;
    const char *session, *commit;
    uint32_t executions, files, kept;
};

static const struct api_field undone_fields[] = {
    {"session_id", API_STRING, API_AT(struct undone, session)},
    {"executions", API_INT, API_AT(struct undone, executions)},
    {"files", API_INT, API_AT(struct undone, files),
     .help = "Files that changed back"},
    {"kept", API_INT, API_AT(struct undone, kept),
     .help = "Files that others changed since, and that stayed"},
    {"commit", API_STRING, API_OPTIONAL, API_AT(struct undone, commit)},
};
TOOL_OUTPUT(undo, struct undone, undone_fields);

struct branched {
    struct tool_status status;
    const char *session;
    const struct session_info *made;
    size_t count;
};

static void write_branches(struct json_writer *w, const char *key,
                           const void *object)
{
    const struct branched *b = object;

    json_write_open(w, key, '[');
    for (size_t i = 0; i < b->count; i++)
        json_write_string(w, NULL, b->made[i].id);
    json_write_close(w, ']');
}

static const struct api_field branched_fields[] = {
    {"session_id", API_STRING, API_AT(struct branched, session),
     .help = "The one that was branched"},
    {"branches", API_ARRAY, .write = write_branches, .items = API_STRING,
     .help = "Ids of the new sessions"},
};
TOOL_OUTPUT(branch_session, struct branched, branched_fields);

struct merged {
    struct tool_status status;
    const char *session, *workspace, *commit;
    int64_t files, conflicts;
};

static const struct api_field merged_fields[] = {
    {"session_id", API_STRING, API_AT(struct merged, session)},
    {"workspace", API_STRING, API_AT(struct merged, workspace)},
    {"commit", API_STRING, API_OPTIONAL, API_AT(struct merged, commit)},
    {"files", API_INT, API_AT(struct merged, files)},
    {"conflicts", API_INT, API_AT(struct merged, conflicts),
     .help = "Files that were kept beside those of others"},
};
TOOL_OUTPUT(merge_branch, struct merged, merged_fields);

/* Reads the arguments and finds the session. */
static int begin(struct mcp_call *call, const json_t *args,
                 const struct api_resource *input, struct memory_args *ret,
                 struct session_info *ret_found, struct error *err)
{
    int r = api_read(args, input, ret, err);

    return r < 0 ? r
                 : tool_session(call, TOOL_FIND, ret->session, NULL, ret_found,
                                err);
}

int tool_hibernate_session(struct mcp_call *call, const json_t *args,
                           struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_info now cleanup(session_info_done) = {.metadata = NULL};
    struct memory_args a = {.session = NULL};
    int r = begin(call, args, &tool_hibernate_session_input, &a, &found, err);

    if (r == 0)
        r = session_hibernate(call->doors->sessions, call->actor, found.id,
                              &now, err);
    if (r < 0)
        return r;
    mcp_answer_textf(ret,
                     now.state == SESSION_HIBERNATED
                         ? "The session sleeps. The next call wakes it with "
                           "its variables. [session_id: %s]"
                         : "The session sleeps; it had no variables. "
                           "[session_id: %s]",
                     now.id);
    tool_answer(
        ret, &tool_hibernate_session_output,
        &(struct slept){TOOL_OK, now.id, session_state_name(now.state)});
    return 0;
}

int tool_undo(struct mcp_call *call, const json_t *args,
              struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct memory_args a = {.executions = 1};
    struct session_undone done;
    int r = begin(call, args, &tool_undo_input, &a, &found, err);

    if (r == 0)
        r = session_undo(call->doors->sessions, call->actor, found.id,
                         (uint32_t)a.executions, a.redo, &done, err);
    if (r < 0)
        return r;
    mcp_answer_textf(
        ret,
        "%u executions were %s: variables and files are as they "
        "were %s. %u files changed%s. [session_id: %s]",
        done.executions, a.redo ? "redone" : "undone",
        a.redo ? "after them" : "before them", done.files,
        done.kept_count ? "; files that others changed since stayed" : "",
        found.id);
    tool_answer(ret, &tool_undo_output,
                &(struct undone){TOOL_OK, found.id, tool_some(done.commit),
                                 done.executions, done.files,
                                 done.kept_count});
    tool_files_meta(ret, NULL, found.id, NULL, NULL, 0);
    session_undone_done(&done);
    return 0;
}

int tool_branch_session(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_info *made cleanup(mem_free) = NULL;
    struct memory_args a = {.count = 1};
    size_t count = 0;
    int r = begin(call, args, &tool_branch_session_input, &a, &found, err);

    if (r == 0)
        r = session_branch(
            call->doors->sessions, call->actor, found.id,
            &(struct session_branch_spec){
                .at = a.at, .name = a.name, .count = (uint32_t)a.count},
            &made, &count, err);
    if (r < 0)
        return r;
    mcp_answer_textf(ret,
                     "%zu new sessions have the variables and files of %s. "
                     "The first one is %s.",
                     count, found.id, made[0].id);
    tool_answer(ret, &tool_branch_session_output,
                &(struct branched){TOOL_OK, found.id, made, count});
    for (size_t i = 0; i < count; i++)
        session_info_done(&made[i]);
    return 0;
}

int tool_merge_branch(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct workspace_commit done cleanup(workspace_commit_done) = {.count = 0};
    struct memory_args a = {.session = NULL};
    char workspace[ID_MAX] = "";
    int64_t conflicts = 0;
    int r = begin(call, args, &tool_merge_branch_input, &a, &found, err);

    if (r == 0)
        r = session_merge(call->doors->sessions, call->actor, found.id, &done,
                          workspace, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < done.count; i++)
        conflicts += done.results[i].fate == FATE_CONFLICT ||
                     done.results[i].fate == FATE_KEPT;
    mcp_answer_textf(ret,
                     "%zu files were merged into the workspace %s, %d of them "
                     "in conflict with changes of others.",
                     done.count, workspace, (int)conflicts);
    tool_answer(ret, &tool_merge_branch_output,
                &(struct merged){TOOL_OK, found.id, workspace,
                                 tool_some(done.id), (int64_t)done.count,
                                 conflicts});
    return 0;
}

/* ---- their words -------------------------------------------------------- */

const char tool_hibernate_session_text[] =
    "Puts a session to sleep and keeps its variables; the next call wakes it "
    "where it was. Idle sessions go to sleep by themselves.";

const char tool_undo_text[] =
    "Undoes the last executions of a session: variables and files are as they "
    "were before them. Use it when code spoiled data. redo takes it back until "
    "the next execution.";

const char tool_branch_session_text[] =
    "Makes new sessions that continue from the variables and files of a "
    "session, to try something without changing it. merge_branch brings the "
    "files of a branch back.";

const char tool_merge_branch_text[] =
    "Brings the files that changed in a branch into the workspace that it was "
    "branched from. Files that others changed there are kept, and those of the "
    "branch are stored beside them.";
