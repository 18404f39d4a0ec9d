/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/run: creates a session, uploads files to it, runs one execution
 * and deletes the session; files it created stay in their workspace. Runs on a
 * worker of the daemon, which deletes the session after the answer; for a
 * stream, the end of the stream deletes it. If policy holds the execution, the
 * session is kept, because the execution runs there after the approval.
 */
#include "doors/native/native.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "json/json.h"

/* ---- files into the session --------------------------------------------- */

struct file_body {
    const char *path, *content;
};

static const struct api_field run_file_spec_fields[] = {
    {"path", API_STRING, API_REQUIRED, API_AT(struct file_body, path),
     .min = 1, .max = PATH_BYTES_MAX},
    {"content_base64", API_STRING, API_REQUIRED,
     API_AT(struct file_body, content), .max = INT64_MAX},
};
API_INPUT(native_run_file_spec, "RunFileSpec", struct file_body,
          run_file_spec_fields, "A file for a run.");

static int upload(struct doors_call *call, const char *session,
                  const char *path, const void *bytes, size_t len,
                  struct error *err)
{
    struct session_upload *u;
    struct session_file made = {.path = NULL};
    int r = session_upload_begin(call->doors->sessions, &call->actor, session,
                                 path, &u, err);

    if (r < 0)
        return r;
    if (len)
        r = session_upload_write(u, bytes, len, err);
    if (r < 0) {
        session_upload_abort(u);
        return r;
    }
    r = session_upload_commit(u, &made, err);
    if (r == 0)
        free(made.path);
    return r;
}

static int put_file(struct doors_call *call, const char *session,
                    const json_t *object, struct error *err)
{
    unsigned char *bytes cleanup(mem_free) = NULL;
    struct file_body f = {0};
    size_t len;
    int r = api_read(object, &native_run_file_spec, &f, err);

    if (r == 0)
        r = json_base64_decode(f.content, strlen(f.content), &bytes, &len,
                               err);
    if (r == 0)
        r = upload(call, session, f.path, bytes, len, err);
    return r;
}

static int put_files(struct doors_call *call, const char *session,
                     const json_t *files, struct error *err)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        int r = put_file(call, session, json_array_get(files, i), err);

        if (r < 0)
            return error_wrap(err, "files[%zu]", i);
    }
    return 0;
}

/* ---- the run ------------------------------------------------------------ */

static bool held(struct execution *e)
{
    struct exec_info info;

    execution_info(e, &info);
    return info.status == EXEC_PENDING;
}

static int run_sync(struct doors_call *call, const char *session,
                    const struct exec_spec *spec, bool *ret_held,
                    struct error *err)
{
    struct buf body = {0};
    struct execution *e;
    int r = execution_run(call->doors->sessions, &call->actor, session, spec,
                          &e, err);

    if (r < 0)
        return r;
    native_encode_execution(e, doors_url_base(call), &body);
    *ret_held = held(e);
    execution_unref(e);
    http_respond_json(call->http, *ret_held ? 202 : 200, &body);
    return 0;
}

static int run_stream(struct doors_call *call, const char *session,
                      const struct exec_spec *spec, struct error *err)
{
    struct execution *e;
    int r = execution_submit(call->doors->sessions, &call->actor, session,
                             spec, doors_submit, doors_workers(call), &e, err);

    if (r == 0)
        native_events_respond(call, e, 0, held(e) ? NULL : session);
    return r;
}

static void delete_session(struct doors_call *call, const char *session)
{
    struct error err;

    if (session_delete(call->doors->sessions, &call->actor, session, &err) <
            0 &&
        err.code != ERR_NOT_FOUND && err.code != ERR_UNAVAILABLE)
        log_event(LOG_WARN, "run_session_left", "session", session, "error",
                  err.message, NULL);
}

int native_run_session(struct doors_call *call, const char *session,
                       const struct exec_spec *spec, struct error *err)
{
    bool waits;

    return run_sync(call, session, spec, &waits, err);
}

int native_run_once(struct doors_call *call, const char *workspace,
                    const struct exec_spec *spec, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    bool waits = false;
    int r = session_create(call->doors->sessions, &call->actor,
                           &(struct session_spec){.workspace = workspace,
                                                  .transient = true,
                                                  .left = doors_left,
                                                  .left_ctx = call->http},
                           &info, err);

    if (r < 0)
        return r;
    r = run_sync(call, info.id, spec, &waits, err);
    if (!waits)
        delete_session(call, info.id);
    return r;
}

/* A mode of executions that runs do not have. */
static int check_mode(const json_t *body, struct error *err)
{
    const char *mode = json_string_value(json_object_get(body, "mode"));

    if (!mode || strcmp(mode, "async") != 0)
        return 0;
    (void)error_set(err, ERR_INVALID,
                    "a run cannot be asynchronous: its session is gone when "
                    "it ends");
    return error_hint(err, "Use 'stream', or create a session.");
}

int native_run(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    json_t *body cleanup(json_unref) = NULL;
    struct session_spec session;
    struct exec_spec spec;
    enum native_mode mode = NATIVE_SYNC;
    json_t *files = NULL;
    bool keep = false;
    int r =
        http_body_json(call->http, call->doors->conf->json_bytes, &body, err);

    if (r == 0)
        r = check_mode(body, err);
    if (r == 0)
        r = native_spec_run(call, body, &session, &spec, &mode, &files, err);
    if (r < 0)
        return r;
    r = session_create(call->doors->sessions, &call->actor, &session, &info,
                       err);
    if (r < 0)
        return r;
    r = put_files(call, info.id, files, err);
    if (r == 0)
        r = mode == NATIVE_STREAM ? run_stream(call, info.id, &spec, err)
                                  : run_sync(call, info.id, &spec, &keep, err);
    if (r < 0 || (mode == NATIVE_SYNC && !keep))
        delete_session(call, info.id);
    return r;
}
