/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which session or workspace a call is about. One that is named is that one;
 * otherwise calls of one conversation (or one legacy MCP session) share the
 * session whose identifier is made of what they have in common; otherwise
 * there is a new one, and the answer says its id. Runs on a worker of the
 * daemon.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "doors/mcp/tool.h"

#define IDENTIFIER_BYTES 16u /* of the hash */
#define AGAIN                                                                 \
    "Leave session_id out to get a new session; its id is in the answer."

static int named(struct mcp_call *call, const char *id,
                 struct session_info *ret, struct error *err)
{
    int r = session_visit(call->doors->sessions, call->actor, id, ret, err);

    if (r == 0 && ret->final) {
        session_info_done(ret);
        ret->metadata = NULL;
        r = error_set(err, ERR_EXPIRED, "the session %s has expired", id);
    } else if (r == -ERR_NOT_FOUND || r == -ERR_INVALID) {
        r = error_set(err, ERR_NOT_FOUND, "there is no session '%.80s'", id);
    }
    if (r == -ERR_NOT_FOUND || r == -ERR_EXPIRED)
        r = error_hint(err, AGAIN);
    return r;
}

/* Of what calls have in common; a shared workspace has a session of its own
 * in the conversation. */
static void identify(const struct mcp_call *call, const char *workspace,
                     char ret[64])
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];

    buf_addf(&text, "%s\n%s", call->common, workspace ? workspace : "");
    hash_sha256(text.data, text.len, hash);
    (void)snprintf(ret, 64, "mcp-%s", ids_hex(hash, IDENTIFIER_BYTES, hex));
}

static int find(struct mcp_call *call, const char *identifier,
                struct session_info *ret, struct error *err)
{
    int r = session_identify(call->doors->sessions, call->actor, call->pool,
                             identifier, ret, err);

    if (r == -ERR_NOT_FOUND) {
        (void)error_set(err, ERR_NOT_FOUND,
                        "this conversation has no session yet");
        r = error_hint(err, "Run something or upload a file first, or name "
                            "the session by session_id.");
    }
    return r;
}

static int make(struct mcp_call *call, const char *workspace,
                struct session_info *ret, struct error *err)
{
    struct session_spec spec = {
        .pool = call->pool, .workspace = workspace, .container = true};

    return session_create(call->doors->sessions, call->actor, &spec, ret, err);
}

static int common(struct mcp_call *call, enum tool_need need,
                  const char *workspace, struct session_info *ret,
                  struct error *err)
{
    char identifier[64];
    struct session_spec spec = {.pool = call->pool,
                                .workspace = workspace,
                                .container = true,
                                .identifier = identifier};
    bool made;

    identify(call, workspace, identifier);
    if (need == TOOL_FIND || !(call->scopes & AUTH_EXECUTE))
        return find(call, identifier, ret, err);
    return session_ensure(call->doors->sessions, call->actor, &spec, &made,
                          ret, err);
}

/* The one a token was minted for need not be named again. */
static const char *only_session(const struct mcp_call *call)
{
    const char *bound = actor_bound(call->actor, ACTOR_SESSIONS);

    return bound[0] && !strchr(bound, ',') ? bound : NULL;
}

static int resolve(struct mcp_call *call, enum tool_need need, const char *id,
                   const char *workspace, struct session_info *ret,
                   struct error *err)
{
    int r;

    if (!id)
        id = only_session(call);
    if (!id && call->common[0])
        return common(call, need, workspace, ret, err);
    if (!id && need == TOOL_FIND) {
        (void)error_set(err, ERR_INVALID, "session_id is missing");
        return error_hint(err, "Give the session_id an earlier answer named; "
                               "execute_python and upload_file make one.");
    }
    if (!id && !(call->scopes & AUTH_EXECUTE)) {
        (void)error_set(err, ERR_FORBIDDEN, "this key may not make sessions");
        return error_hint(err, "Give the session_id of one that is there.");
    }
    if (!id)
        return make(call, workspace, ret, err);
    r = named(call, id, ret, err);
    if (r == 0 && workspace && strcmp(ret->workspace, workspace) != 0) {
        session_info_done(ret);
        ret->metadata = NULL;
        (void)error_set(err, ERR_CONFLICT,
                        "the session works on another workspace");
        r = error_hint(err, "Leave out session_id for a session on that "
                            "workspace, or leave out workspace.");
    }
    return r;
}

int tool_session(struct mcp_call *call, enum tool_need need, const char *id,
                 const char *workspace, struct session_info *ret,
                 struct error *err)
{
    int r = resolve(call, need, id, workspace, ret, err);

    if (r == 0 && ret->ephemeral)
        mcp_task_unkept(call);
    return r;
}

int tool_workspace(struct mcp_call *call, const char *workspace,
                   const char *session, char ret[ID_MAX], struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r;

    if (workspace && strlen(workspace) >= ID_MAX)
        return error_set(err, ERR_NOT_FOUND, "no such workspace");
    if (workspace) {
        (void)snprintf(ret, ID_MAX, "%s", workspace);
        return 0;
    }
    r = tool_session(call, TOOL_FIND, session, NULL, &info, err);
    if (r < 0) {
        if (!session)
            (void)error_hint(err, "Give workspace (list_workspaces names "
                                  "them) or session_id.");
        return r;
    }
    if (!info.workspace[0]) {
        (void)error_set(err, ERR_CONFLICT,
                        "this session is ephemeral: it has no workspace");
        return error_hint(err, "Use a session of a pool that keeps files.");
    }
    (void)snprintf(ret, ID_MAX, "%s", info.workspace);
    return 0;
}
