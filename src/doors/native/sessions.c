/* SPDX-License-Identifier: Apache-2.0 */
/* /api/sessions. Runs on a worker of the daemon; see native.h. */
#include "doors/native/native.h"

#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

#define LIST_MAX 100
#define LIST_DEFAULT 20

struct refreshed {
    uint32_t changed;
    struct session_info session;
};

static const struct api_field refreshed_fields[] = {
    {"changed", API_INT, API_AT(struct refreshed, changed),
     .help = "files changed or removed in it"},
    {"session", API_OBJECT, API_AT(struct refreshed, session),
     .of = &native_session},
};
API_OUTPUT(native_refreshed, "Refreshed", struct refreshed, refreshed_fields,
           "A session after others' commits came in.");

static void respond(struct doors_call *call, unsigned status,
                    const struct session_info *info)
{
    native_respond(call, status, &native_session, info);
}

int native_sessions_create(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    json_t *body cleanup(json_unref) = NULL;
    struct session_spec spec;
    int r =
        http_body_json(call->http, call->doors->conf->json_bytes, &body, err);

    if (r == 0)
        r = native_spec_session(call, body, &spec, err);
    if (r == 0)
        r = session_create(call->doors->sessions, &call->actor, &spec, &info,
                           err);
    if (r == 0)
        respond(call, 201, &info);
    return r;
}

int native_sessions_get(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_get(call->doors->sessions, &call->actor, call->params[0],
                        &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

/* ---- looking into the interpreter --------------------------------------- */

struct look_body {
    const char *code;
    int64_t cursor;
};

static const struct api_field look_spec_fields[] = {
    {"code", API_STRING, API_REQUIRED, API_AT(struct look_body, code),
     .max = EXEC_LOOK_CODE_MAX},
    {"cursor", API_INT, API_AT(struct look_body, cursor), .min = 0,
     .max = EXEC_LOOK_CODE_MAX,
     .help = "in characters of the code; else its end"},
};
API_INPUT(native_look_spec, "LookSpec", struct look_body, look_spec_fields,
          "Code and the place of the cursor in it.");

static size_t count_characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static int look(struct doors_call *call, enum exec_look what, const char *code,
                uint32_t cursor, struct error *err)
{
    json_t *seen cleanup(json_unref) = NULL;
    char *text cleanup(mem_free) = NULL;
    struct buf body = {0};
    int r =
        execution_look(call->doors->sessions, &call->actor, call->params[0],
                       what, code, strlen(code), cursor, &seen, err);

    if (r < 0)
        return r;
    text = json_dumps(seen, JSON_COMPACT);
    buf_adds(&body, text ? text : "{}");
    http_respond_json(call->http, 200, &body);
    return 0;
}

static int look_at_code(struct doors_call *call, enum exec_look what,
                        struct error *err)
{
    struct look_body b = {.cursor = -1};
    json_t *json cleanup(json_unref) = NULL;
    int r = native_read(call, &native_look_spec, &b, &json, err);
    int64_t most;

    if (r < 0)
        return r;
    most = (int64_t)count_characters(b.code);
    if (b.cursor > most)
        return error_set(err, ERR_INVALID,
                         "field 'cursor' must not be larger than the code");
    return look(call, what, b.code, (uint32_t)(b.cursor < 0 ? most : b.cursor),
                err);
}

int native_sessions_complete(struct doors_call *call, struct error *err)
{
    return look_at_code(call, LOOK_COMPLETE, err);
}

int native_sessions_inspect(struct doors_call *call, struct error *err)
{
    return look_at_code(call, LOOK_INSPECT, err);
}

int native_sessions_variables(struct doors_call *call, struct error *err)
{
    return look(call, LOOK_VARIABLES, "", 0, err);
}

/* ---- changing ----------------------------------------------------------- */

struct patch_body {
    int sharing; /* enum session_sharing */
};

static const struct api_field session_patch_fields[] = {
    {"sharing", API_CHOICE, API_REQUIRED, API_AT(struct patch_body, sharing),
     .min = SESSION_SHARING_PRINCIPAL, .choices = native_sharings,
     .help = "who in the tenant sees it"},
};
API_INPUT(native_session_patch, "SessionPatch", struct patch_body,
          session_patch_fields, "What of a session is to be changed.");

int native_sessions_patch(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct patch_body b = {0};
    int r = native_read(call, &native_session_patch, &b, &json, err);

    if (r == 0)
        r = session_share(call->doors->sessions, &call->actor, call->params[0],
                          (enum session_sharing)b.sharing, &info, err);
    if (r == 0)
        respond(call, 200, &info);
    return r;
}

int native_sessions_list(struct doors_call *call, struct error *err)
{
    struct session_info *infos cleanup(mem_free) = NULL;
    const char *after = NULL;
    int64_t limit = 0;
    size_t count = 0;
    bool more = false;
    int r =
        doors_query_int(call, "limit", 1, LIST_MAX, LIST_DEFAULT, &limit, err);

    if (r == 0)
        r = http_query(call->http, "after", &after, err);
    if (r == 0)
        r = session_list(call->doors->sessions, &call->actor, (unsigned)limit,
                         after, &infos, &count, &more, err);
    if (r < 0)
        return r;
    native_respond_list(call, &native_session, infos, count, more);
    for (size_t i = 0; i < count; i++)
        session_info_done(&infos[i]);
    return 0;
}

int native_sessions_delete(struct doors_call *call, struct error *err)
{
    int r = session_delete(call->doors->sessions, &call->actor,
                           call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_sessions_reset(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_reset(call->doors->sessions, &call->actor, call->params[0],
                          &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

int native_sessions_refresh(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    uint32_t changed = 0;
    int r = session_refresh(call->doors->sessions, &call->actor,
                            call->params[0], &changed, &info, err);

    if (r < 0)
        return r;
    native_respond(call, 200, &native_refreshed,
                   &(struct refreshed){changed, info});
    return 0;
}

/* ---- memory: hibernate, undo, branch ------------------------------------
 */

int native_sessions_hibernate(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_hibernate(call->doors->sessions, &call->actor,
                              call->params[0], &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

static void write_kept(struct json_writer *w, const char *key,
                       const void *object)
{
    const struct session_undone *u = object;
    const char *at = u->kept.len ? u->kept.data : NULL;
    const char *end = at + u->kept.len;

    json_write_open(w, key, '[');
    while (at && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);

        json_write_text(w, NULL, at, len);
        at += len + 1;
    }
    json_write_close(w, ']');
}

#define UNDONE(member) API_AT(struct session_undone, member)

static const struct api_field undone_fields[] = {
    {"executions", API_INT, UNDONE(executions),
     .help = "how many were undone or redone"},
    {"commit", API_STRING, API_NULLABLE, UNDONE(commit),
     .help =
         "cmt_…, which has the files as they were; null when none changed"},
    {"files", API_INT, UNDONE(files), .help = "that the commit changed"},
    {"kept", API_ARRAY, .write = write_kept, .items = API_STRING,
     .help = "paths that others changed since, and that stayed"},
    {"other_languages", API_BOOL, UNDONE(helpers),
     .help = "an interpreter of another language ran; it keeps its variables"},
    {"session", API_OBJECT, UNDONE(session), .of = &native_session},
};
API_OUTPUT(native_undone, "Undone", struct session_undone, undone_fields,
           "A session after executions were undone or redone.");

struct undo_body {
    int64_t executions;
};

static const struct api_field undo_fields[] = {
    {"executions", API_INT, API_DEFAULT, API_AT(struct undo_body, executions),
     .min = 1, .max = 64, .value = 1, .help = "how many"},
};
API_INPUT(native_undo_spec, "UndoSpec", struct undo_body, undo_fields,
          "How many executions are to be undone or redone.");

static int undo(struct doors_call *call, bool redo, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct undo_body b = {.executions = 1};
    struct session_undone done;
    int r = native_read_maybe(call, &native_undo_spec, &b, &json, err);

    if (r < 0)
        return r;
    r = session_undo(call->doors->sessions, &call->actor, call->params[0],
                     (uint32_t)b.executions, redo, &done, err);
    if (r < 0)
        return r;
    native_respond(call, 200, &native_undone, &done);
    session_undone_done(&done);
    return 0;
}

int native_sessions_undo(struct doors_call *call, struct error *err)
{
    return undo(call, false, err);
}

int native_sessions_redo(struct doors_call *call, struct error *err)
{
    return undo(call, true, err);
}

struct branch_body {
    const char *at, *name;
    int64_t count;
};

static const struct api_field branch_fields[] = {
    {"at", API_STRING, API_AT(struct branch_body, at), .max = 64,
     .help = "exec_…: the state after that execution; else the present one"},
    {"name", API_STRING, API_AT(struct branch_body, name), .max = 110,
     .help = "of the new sessions, with a number if there are "
             "several"},
    {"count", API_INT, API_DEFAULT, API_AT(struct branch_body, count),
     .min = 1, .max = SESSION_BRANCHES_MAX, .value = 1},
};
API_INPUT(native_branch_spec, "BranchSpec", struct branch_body, branch_fields,
          "Which state is branched, and how often.");

struct branches {
    const struct session_info *list;
    size_t count;
};

static void write_branches(struct json_writer *w, const char *key,
                           const void *object)
{
    const struct branches *b = object;

    json_write_open(w, key, '[');
    for (size_t i = 0; i < b->count; i++)
        api_write(w, NULL, &native_session, &b->list[i]);
    json_write_close(w, ']');
}

static const struct api_field branches_fields[] = {
    {"sessions", API_ARRAY, .write = write_branches, .of = &native_session},
};
API_OUTPUT(native_branches, "Branches", struct branches, branches_fields,
           "Sessions that continue from another one.");

int native_sessions_branch(struct doors_call *call, struct error *err)
{
    struct session_info *made cleanup(mem_free) = NULL;
    json_t *json cleanup(json_unref) = NULL;
    struct branch_body b = {.count = 1};
    size_t count = 0;
    int r = native_read_maybe(call, &native_branch_spec, &b, &json, err);

    if (r == 0)
        r = session_branch(
            call->doors->sessions, &call->actor, call->params[0],
            &(struct session_branch_spec){
                .at = b.at, .name = b.name, .count = (uint32_t)b.count},
            &made, &count, err);
    if (r < 0)
        return r;
    native_respond(call, 201, &native_branches,
                   &(struct branches){made, count});
    for (size_t i = 0; i < count; i++)
        session_info_done(&made[i]);
    return 0;
}

int native_sessions_merge(struct doors_call *call, struct error *err)
{
    struct workspace_commit done = {0};
    char workspace[ID_MAX];
    int r = session_merge(call->doors->sessions, &call->actor, call->params[0],
                          &done, workspace, err);

    if (r == 0)
        native_respond(call, 200, &native_commit,
                       &(struct native_commit_view){done, workspace});
    workspace_commit_done(&done);
    return r;
}

int native_sessions_keepalive(struct doors_call *call, struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r = session_keep_awake(call->doors->sessions, &call->actor,
                               call->params[0], &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

int native_sessions_interrupt(struct doors_call *call, struct error *err)
{
    int r = session_interrupt(call->doors->sessions, &call->actor,
                              call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 202);
    return r;
}
