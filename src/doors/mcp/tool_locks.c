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

#define AT(member) offsetof(struct lock_args, member)

static void answer(const char *workspace, const struct workspace_lock *l,
                   const char *token, struct mcp_answer *ret)
{
    struct json_writer w = {.out = &ret->structured};
    char until[32];

    mcp_answer_textf(ret,
                     "/mnt/data/%s is locked until %s. [lock_id: %s, "
                     "lock_token: %s, fence: %lld, workspace: %s]",
                     l->path, clock_format_ms(l->expires_at_ms, until), l->id,
                     token, (long long)l->fence, workspace);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_string(&w, "workspace", workspace);
    json_write_string(&w, "path", l->path);
    json_write_string(&w, "lock_id", l->id);
    json_write_string(&w, "lock_token", token);
    json_write_int(&w, "fence", l->fence);
    json_write_string(&w, "session_id", tool_some(l->session));
    json_write_time(&w, "expires_at", l->expires_at_ms);
    json_write_close(&w, '}');
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
    static const struct json_field fields[] = {
        {"path", JSON_KIND_STRING, .required = true, .offset = AT(path),
         .min = 1, .max = PATH_BYTES_MAX + 32},
        {"workspace", JSON_KIND_STRING, .offset = AT(workspace), .min = 1,
         .max = ID_MAX},
        {"session_id", JSON_KIND_STRING, .offset = AT(session), .min = 1,
         .max = ID_MAX},
        {"seconds", JSON_KIND_INT, .offset = AT(seconds),
         .min = LOCK_TTL_MIN_S, .max = LOCK_TTL_MAX_S},
        {"label", JSON_KIND_STRING, .offset = AT(label), .max = 128},
    };
    struct lock_args a = {.seconds = SECONDS_DEFAULT};
    const char *path = NULL;
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

    if (r == 0)
        r = tool_path(call->arena, a.path, &path, err);
    return r < 0 ? r : lock(call, &a, path, ret, err);
}

int tool_unlock_file(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    static const struct json_field fields[] = {
        {"lock_id", JSON_KIND_STRING, .required = true, .offset = AT(lock),
         .min = 1, .max = ID_MAX},
        {"lock_token", JSON_KIND_STRING, .offset = AT(token), .min = 1,
         .max = 256},
        {"force", JSON_KIND_BOOL, .offset = AT(force)},
        {"workspace", JSON_KIND_STRING, .offset = AT(workspace), .min = 1,
         .max = ID_MAX},
        {"session_id", JSON_KIND_STRING, .offset = AT(session), .min = 1,
         .max = ID_MAX},
    };
    struct json_writer w = {.out = &ret->structured};
    struct lock_args a = {.lock = NULL};
    char workspace[ID_MAX];
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

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
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_string(&w, "lock_id", a.lock);
    json_write_close(&w, '}');
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
const char tool_lock_file_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"type\":\"string\",\"description\":\"Below /mnt/data\"}," TOOL_SCHEMA_WORKSPACE
    "," TOOL_SCHEMA_SESSION ","
    "\"seconds\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,"
    "\"default\":300},"
    "\"label\":{\"type\":\"string\",\"maxLength\":128,\"description\":\"What "
    "it is for, shown to others\"}},"
    "\"required\":[\"path\"],\"additionalProperties\":false}";
const char tool_lock_file_output[] = TOOL_OUTPUT(
    "\"workspace\":{\"type\":\"string\"},\"path\":{\"type\":\"string\"},"
    "\"lock_id\":{\"type\":\"string\"},\"lock_token\":{\"type\":\"string\"},"
    "\"fence\":{\"type\":\"integer\",\"description\":\"Rises with every lock "
    "of the path\"},\"session_id\":{\"type\":[\"string\",\"null\"]},"
    "\"expires_at\":{\"type\":[\"string\",\"null\"]}");

const char tool_unlock_file_text[] =
    "Releases a lock that lock_file took. Give its lock_token; the "
    "workspace's owner may use force instead, which is recorded.";
const char tool_unlock_file_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"lock_id\":{\"type\":\"string\"},\"lock_token\":{\"type\":\"string\"},"
    "\"force\":{\"type\":\"boolean\",\"default\":false}," TOOL_SCHEMA_WORKSPACE
    "," TOOL_SCHEMA_SESSION "},"
    "\"required\":[\"lock_id\"],\"additionalProperties\":false}";
const char tool_unlock_file_output[] =
    TOOL_OUTPUT("\"lock_id\":{\"type\":\"string\"}");
