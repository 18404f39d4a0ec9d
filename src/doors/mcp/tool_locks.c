/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_file and unlock_file: leases on paths. Runs on a worker of the daemon.
 * A token is in the answer that made it and nowhere else.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define SECONDS_DEFAULT 300

struct lock_args {
    const char *path, *workspace, *session, *label, *lock, *token;
    int64_t seconds;
    bool force;
};

#define ARG(member) API_AT(struct lock_args, member)

static const struct api_field lock_arguments[] = {
    {"path", API_STRING, API_REQUIRED, ARG(path), .min = 1,
     .max = TOOL_PATH_MAX, .help = "Below /mnt/data"},
    TOOL_WORKSPACE(struct lock_args),
    TOOL_SESSION(struct lock_args),
    {"seconds", API_INT, API_DEFAULT, ARG(seconds), .min = LOCK_TTL_MIN_S,
     .max = LOCK_TTL_MAX_S, .value = SECONDS_DEFAULT},
    {"label", API_STRING, ARG(label), .max = LOCK_LABEL_MAX,
     .help = "What it is for, shown to others"},
};
TOOL_INPUT(lock_file, struct lock_args, lock_arguments);

static const struct api_field unlock_arguments[] = {
    {"lock_id", API_STRING, API_REQUIRED, ARG(lock), .min = 1, .max = ID_MAX},
    {"lock_token", API_STRING, ARG(token), .min = 1, .max = LOCK_TOKEN_MAX},
    {"force", API_BOOL, API_DEFAULT, ARG(force), .value = false},
    TOOL_WORKSPACE(struct lock_args),
    TOOL_SESSION(struct lock_args),
};
TOOL_INPUT(unlock_file, struct lock_args, unlock_arguments);

struct locked {
    struct tool_status status;
    struct workspace_lock lock;
    const char *workspace, *token;
};

#define LOCKED(member) API_AT(struct locked, member)

static const struct api_field locked_fields[] = {
    {"workspace", API_STRING, LOCKED(workspace)},
    {"path", API_STRING, LOCKED(lock.path)},
    {"lock_id", API_STRING, LOCKED(lock.id)},
    {"lock_token", API_STRING, LOCKED(token)},
    {"fence", API_INT, LOCKED(lock.fence),
     .help = "Rises with every lock of the path"},
    {"session_id", API_STRING, API_NULLABLE, LOCKED(lock.session)},
    {"expires_at", API_TIME, API_NULLABLE, LOCKED(lock.expires_at_ms)},
};
TOOL_OUTPUT(lock_file, struct locked, locked_fields);

struct unlocked {
    struct tool_status status;
    const char *lock;
};

static const struct api_field unlocked_fields[] = {
    {"lock_id", API_STRING, API_AT(struct unlocked, lock)},
};
TOOL_OUTPUT(unlock_file, struct unlocked, unlocked_fields);

static void answer(const char *workspace, const struct workspace_lock *l,
                   const char *token, struct mcp_answer *ret)
{
    char until[32];

    mcp_answer_textf(ret,
                     "/mnt/data/%s is locked until %s. [lock_id: %s, "
                     "lock_token: %s, fence: %lld, workspace: %s]",
                     l->path, clock_format_ms(l->expires_at_ms, until), l->id,
                     token, (long long)l->fence, workspace);
    tool_answer(ret, &tool_lock_file_output,
                &(struct locked){TOOL_OK, *l, workspace, token});
}

/* The session that may write it: the one named, or the conversation's if it
 * works on that very workspace. */
static int lock(struct mcp_call *call, const struct lock_args *a,
                const char *path, struct mcp_answer *ret, struct error *err)
{
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct workspace_lock made cleanup(workspace_lock_done) = {.path = NULL};
    struct error ignored;
    char workspace[ID_MAX], token[65];
    bool known = false;
    int r = tool_workspace(call, a->workspace, a->session, workspace, err);

    if (r < 0)
        return r;
    if (a->session || call->common[0])
        known = tool_session(call, TOOL_FIND, a->session,
                             a->session ? workspace : NULL, &session,
                             a->session ? err : &ignored) == 0;
    if (a->session && !known)
        return -(int)err->code;
    r = workspace_lock(
        call->doors->workspaces, call->actor, workspace,
        &(struct workspace_lock_spec){.path = path,
                                      .ttl_s = (uint32_t)a->seconds,
                                      .session = known ? session.id : NULL,
                                      .label = a->label},
        &made, token, err);
    if (r == 0)
        answer(workspace, &made, token, ret);
    else if (r == -ERR_LOCKED && !err->hint[0])
        (void)error_hint(err, "Wait until it ends, or work on another file.");
    return r;
}

int tool_lock_file(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    struct lock_args a = {.path = NULL};
    const char *path = NULL;
    int r = api_read(args, &tool_lock_file_input, &a, err);

    if (r == 0)
        r = tool_path(call->arena, a.path, &path, err);
    return r < 0 ? r : lock(call, &a, path, ret, err);
}

int tool_unlock_file(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    struct lock_args a = {.lock = NULL};
    char workspace[ID_MAX];
    int r = api_read(args, &tool_unlock_file_input, &a, err);

    if (r == 0 && (a.token != NULL) == a.force) {
        (void)error_set(err, ERR_INVALID,
                        "give exactly one of lock_token and force");
        r = error_hint(err, "lock_file returned the token; force is for the "
                            "workspace's owner.");
    }
    if (r == 0)
        r = tool_workspace(call, a.workspace, a.session, workspace, err);
    if (r == 0)
        r = workspace_unlock(call->doors->workspaces, call->actor, workspace,
                             a.lock, a.token, err);
    if (r < 0)
        return r;
    mcp_answer_textf(ret, "The lock %s is released.", a.lock);
    tool_answer(ret, &tool_unlock_file_output,
                &(struct unlocked){TOOL_OK, a.lock});
    return 0;
}

/* ---- their words -------------------------------------------------------- */

const char tool_lock_file_text[] =
    "Takes a lock on a path of a workspace, which may not exist yet, so that "
    "nobody else writes it meanwhile. The lock ends by itself after seconds "
    "(1 to 86,400, 300 unless given). Code of the session it was taken for "
    "may write the path; everybody else is refused. Keep lock_id and "
    "lock_token for unlock_file: they are shown only once. locked: somebody "
    "else has it; the message says who and until when.";

const char tool_unlock_file_text[] =
    "Releases a lock that lock_file took. Give its lock_token; the "
    "workspace's owner may use force instead, which is recorded.";
