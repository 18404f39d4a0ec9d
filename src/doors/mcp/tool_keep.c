/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that come from a call, or are too long for an answer, as files of the
 * session: durable and named like any other. Runs on a worker of the daemon.
 */
#include "doors/mcp/tool.h"

int tool_keep(struct mcp_call *call, const char *session, const char *path,
              const void *bytes, size_t len, struct session_file *ret,
              struct error *err)
{
    struct session_upload *u = NULL;
    int r = session_upload_begin(call->doors->sessions, call->actor, session,
                                 path, &u, err);

    if (r < 0)
        return r;
    r = session_upload_write(u, bytes, len, err);
    if (r < 0) {
        session_upload_abort(u);
        return r;
    }
    return session_upload_commit(u, ret, err);
}
