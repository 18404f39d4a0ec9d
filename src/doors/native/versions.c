/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened to files: history, provenance, differences, and what a
 * conversation caused. Runs on a worker of the daemon; changes nothing.
 */
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "json/json.h"

#define LIST_DEFAULT 100
#define CONVERSATION_MAX 256

/* ---- history ------------------------------------------------------------ */

int native_versions_history(struct doors_call *call, struct error *err)
{
    struct workspace_history_spec spec = {.path = NULL};
    struct workspace_event *events = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct page_result got = {0};
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, LIST_DEFAULT,
                            &spec.limit, &spec.after, err);

    if (r == 0)
        r = http_query(call->http, "path", &spec.path, err);
    if (r == 0)
        r = http_query(call->http, "file", &spec.file_id, err);
    if (r == 0)
        r = workspace_history(call->doors->workspaces, &call->actor,
                              call->params[0], &spec, &events, &got, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < got.count; i++) {
        json_write_open(&w, NULL, '{');
        native_encode_version(&w, call->params[0], &events[i]);
        json_write_close(&w, '}');
    }
    native_encode_list_end(&w, got.has_more);
    workspace_events_free(events, got.count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_versions_conversation(struct doors_call *call, struct error *err)
{
    char *workspaces cleanup(mem_free) = NULL;
    struct workspace_event *events = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    const char *after = NULL;
    unsigned limit = 0;
    struct page_result got = {0};
    int r = native_ask_page(call, WORKSPACE_LIST_MAX, LIST_DEFAULT, &limit,
                            &after, err);

    if (r == 0 && strlen(call->params[0]) > CONVERSATION_MAX)
        r = error_set(err, ERR_INVALID,
                      "a conversation's id has at most %d bytes",
                      CONVERSATION_MAX);
    if (r == 0)
        r = workspace_conversation(
            call->doors->workspaces, &call->actor, call->params[0],
            &(struct page){.limit = limit, .after = after}, &events,
            &workspaces, &got, err);
    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < got.count; i++) {
        json_write_open(&w, NULL, '{');
        native_encode_version(&w, workspaces + i * ID_MAX, &events[i]);
        json_write_close(&w, '}');
    }
    native_encode_list_end(&w, got.has_more);
    workspace_events_free(events, got.count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* ---- provenance --------------------------------------------------------- */

/* The text that ran; null when there was none or it is not there. Whoever may
 * see the version may see what made it. */
static void encode_code(struct json_writer *w, struct doors_call *call,
                        const char *sha256)
{
    struct blobs *blobs = call->doors->core->blobs;
    char *text cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    struct error ignored;
    uint64_t size = 0;
    ssize_t n = -1;

    if (sha256[0] && blob_open(blobs, sha256, &fd, &size, &ignored) == 0 &&
        size <= call->doors->conf->code_bytes) {
        text = xmalloc(size + 1);
        n = fd_read_all(fd, text, size);
    }
    if (n < 0)
        json_write_string(w, "code", NULL);
    else
        json_write_text(w, "code", text, (size_t)n);
}

int native_versions_provenance(struct doors_call *call, struct error *err)
{
    struct workspace_event event cleanup(workspace_event_done) = {.seq = 0};
    char workspace[ID_MAX], base[ID_MAX];
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r =
        workspace_provenance(call->doors->workspaces, &call->actor,
                             call->params[0], &event, workspace, base, err);

    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    native_encode_version(&w, workspace, &event);
    native_encode_text(&w, "base_commit", base);
    native_encode_text(&w, "code_sha256", event.code_sha256);
    encode_code(&w, call, event.code_sha256);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* ---- differences -------------------------------------------------------- */

static void respond_diff(struct doors_call *call, const char *path,
                         const char *from, const char *to, struct buf *diff)
{
    const char *accept = http_header(call->http, "Accept");
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    if (!accept || !strstr(accept, "application/json")) {
        http_add_header(call->http, "Content-Security-Policy",
                        "sandbox; default-src 'none'");
        http_respond(call->http, 200, "text/x-diff; charset=utf-8", diff);
        return;
    }
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "path", path);
    json_write_string(&w, "from", from);
    json_write_string(&w, "to", to);
    json_write_text(&w, "diff", diff->data ? diff->data : "", diff->len);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
}

int native_versions_diff(struct doors_call *call, struct error *err)
{
    struct workspace_file head cleanup(workspace_file_done) = {.path = NULL};
    struct buf diff cleanup(buf_done) = {0};
    const char *path = NULL, *from = NULL, *to = NULL;
    int r = http_query(call->http, "path", &path, err);

    if (r == 0)
        r = http_query(call->http, "from", &from, err);
    if (r == 0)
        r = http_query(call->http, "to", &to, err);
    if (r == 0 && !to) {
        r = workspace_file_get(call->doors->workspaces, &call->actor,
                               call->params[0], path, NULL, &head, err);
        to = head.version;
    }
    if (r == 0)
        r = workspace_diff(call->doors->workspaces, &call->actor,
                           call->params[0], path, from, to, &diff, err);
    if (r == 0)
        respond_diff(call, path, from, to, &diff);
    return r;
}
