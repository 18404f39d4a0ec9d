/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/workspaces/{ws}/archive: a folder as a zip, written while it is
 * sent. Runs on a worker of the daemon, which the client's own pace holds
 * back; nothing is sent before the first bytes are there, so that a refusal
 * is still one.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/native/native.h"

struct zip {
    struct doors_call *call;
    struct http_pipe *pipe; /* NULL until there is something to send */
    struct error gone;      /* why the pipe took no more */
};

/* "folder.zip", or the workspace's id; a plain name. */
static void add_headers(struct doors_call *call)
{
    struct arena *arena = http_arena(call->http);
    const char *prefix = NULL, *from;
    struct error ignored;
    char *name;

    (void)http_query(call->http, "prefix", &prefix, &ignored); /* was read */
    name = arena_strdup(arena, prefix ? prefix : "");
    if (name[0] && name[strlen(name) - 1] == '/')
        name[strlen(name) - 1] = '\0';
    from = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    if (!from[0])
        from = call->params[0];
    http_add_header(call->http, "Content-Security-Policy",
                    "sandbox; default-src 'none'");
    http_add_header(call->http, "Content-Disposition",
                    http_attachment(arena, from, ".zip"));
}

static int on_bytes(void *ctx, const void *bytes, size_t len)
{
    struct zip *z = ctx;

    if (!z->pipe) {
        add_headers(z->call);
        z->pipe = http_respond_pipe(z->call->http, "application/zip");
    }
    return http_pipe_write(z->pipe, bytes, len, &z->gone);
}

int native_archive_get(struct doors_call *call, struct error *err)
{
    struct zip z = {.call = call};
    const char *prefix = NULL;
    int r = http_query(call->http, "prefix", &prefix, err);

    if (r == 0)
        r = workspace_archive(call->doors->workspaces, &call->actor,
                              call->params[0], prefix, on_bytes, &z, err);
    if (!z.pipe)
        return r;
    http_pipe_end(z.pipe, r == 0);
    /* It is too late to answer with it; the client sees a broken transfer. */
    if (r < 0 && !z.gone.code)
        log_event(LOG_ERROR, "archive_failed", "id", http_id(call->http),
                  "error", err->message, NULL);
    return 0;
}
