/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing files of a workspace: put, delete, move, copy, restore. Runs on a
 * worker of the daemon; each is one commit of the core, which checks rights,
 * preconditions and locks in the same transaction.
 */
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/native/native.h"
#include "json/json.h"

/* ---- for all of them ---------------------------------------------------- */

static int check_path(const char *path, struct error *err)
{
    const char *fault = path_fault(path, strlen(path));

    return fault ? error_set(err, ERR_INVALID, "the path %s", fault) : 0;
}

static void respond_commit(struct doors_call *call,
                           const struct workspace_commit *c)
{
    native_respond(call, 200, &native_commit,
                   &(struct native_commit_view){*c, call->params[0]});
}

static int commit(struct doors_call *call,
                  const struct workspace_commit_spec *spec,
                  struct workspace_commit *ret, struct error *err)
{
    return workspace_commit(call->doors->workspaces, &call->actor,
                            call->params[0], spec, ret, err);
}

bool native_change_is_new(const struct workspace_commit *c)
{
    return c->count > 0 && c->results[0].fate == FATE_DONE &&
           strcmp(c->results[0].change, "created") == 0;
}

void native_change_respond_file(struct doors_call *call, const char *workspace,
                                const struct workspace_commit *c)
{
    const struct workspace_result *r = &c->results[0];
    struct native_file_put_view view = {
        .file = {r->file, workspace},
        .commit = c->id,
        .change = r->fate == FATE_SAME ? "unchanged" : r->change,
    };

    http_add_header(
        call->http, "ETag",
        arena_printf(http_arena(call->http), "\"%s\"", r->file.sha256));
    native_respond(call, native_change_is_new(c) ? 201 : 200, &native_file_put,
                   &view);
}

/* ---- put ---------------------------------------------------------------- */

/* Reads the commit's properties from the request; lock tokens go to
 * `locks`. */
static int ask_commit(struct doors_call *call, struct native_locks *locks,
                      struct workspace_commit_spec *ret, struct error *err)
{
    int r = native_ask_locks(call, locks, err);

    if (r == 0)
        r = native_ask_conditions(call, ret, err);
    ret->lock_tokens = locks->tokens;
    ret->lock_count = locks->count;
    return r;
}

static int ask_notes(struct doors_call *call,
                     struct workspace_commit_spec *ret, struct error *err)
{
    int r = native_ask_text(call, "conversation", NATIVE_NOTE_MAX,
                            &ret->conversation, err);

    if (r == 0)
        r = native_ask_text(call, "message", NATIVE_NOTE_MAX, &ret->message,
                            err);
    if (r == 0)
        r = native_ask_text(call, "note", NATIVE_NOTE_MAX, &ret->note, err);
    return r;
}

int native_change_put(struct doors_call *call, struct error *err)
{
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    struct native_blob blob cleanup(native_receive_done) = {.blobs = NULL};
    struct native_locks locks;
    struct workspace_change change = {.kind = CHANGE_PUT,
                                      .path = call->params[1]};
    struct workspace_commit_spec spec = {.kind = "upload",
                                         .action = "file.put",
                                         .changes = &change,
                                         .count = 1};
    const char *said = NULL;
    int r = check_path(change.path, err);

    if (r == 0)
        r = ask_commit(call, &locks, &spec, err);
    if (r == 0)
        r = ask_notes(call, &spec, err);
    if (r == 0)
        r = http_query(call->http, "executable", &said, err);
    if (r == 0)
        r = native_ask_flag(call, "executable", &change.executable, err);
    change.as_was = !said;
    if (r == 0)
        r = workspace_check_write(call->doors->workspaces, &call->actor,
                                  call->params[0], blob.domain, err);
    if (r == 0)
        r = native_receive_body(call, call->params[0], &blob, err);
    if (r < 0)
        return r;
    change.sha256 = blob.sha256;
    change.size = blob.size;
    change.mime =
        native_ask_type(call, http_header(call->http, "Content-Type"));
    r = commit(call, &spec, &made, err);
    if (r == 0)
        native_change_respond_file(call, call->params[0], &made);
    return r;
}

/* ---- delete ------------------------------------------------------------- */

/* A folder goes only when that was asked for. */
static int check_folder(struct doors_call *call, const char *path,
                        bool recursive, struct error *err)
{
    struct workspace_file f cleanup(workspace_file_done) = {.path = NULL};
    struct workspace_file *files = NULL;
    struct page_result got = {0};
    int r = workspace_file_get(call->doors->workspaces, &call->actor,
                               call->params[0], path, NULL, &f, err);

    if (r == 0 || recursive || err->code != ERR_NOT_FOUND)
        return recursive ? 0 : r;
    r = workspace_files_list(
        call->doors->workspaces, &call->actor, call->params[0],
        &(struct workspace_files_spec){
            .prefix = arena_printf(http_arena(call->http), "%s/", path),
            .limit = 1},
        &files, &got, err);
    workspace_files_free(files, got.count);
    if (r < 0)
        return r;
    if (got.count == 0)
        return error_set(err, ERR_NOT_FOUND, "no such file");
    (void)error_set(err, ERR_CONFLICT, "this is a folder with files in it");
    return error_hint(err, "Add recursive=true to delete all of it.");
}

int native_change_delete(struct doors_call *call, struct error *err)
{
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    struct native_locks locks;
    struct workspace_change change = {.kind = CHANGE_REMOVE,
                                      .path = call->params[1]};
    struct workspace_commit_spec spec = {.kind = "delete",
                                         .action = "file.delete",
                                         .changes = &change,
                                         .count = 1};
    bool recursive = false;
    int r = check_path(change.path, err);

    if (r == 0)
        r = ask_commit(call, &locks, &spec, err);
    if (r == 0)
        r = native_ask_flag(call, "recursive", &recursive, err);
    if (r == 0)
        r = check_folder(call, change.path, recursive, err);
    if (r == 0)
        r = commit(call, &spec, &made, err);
    if (r == 0)
        respond_commit(call, &made);
    return r;
}

/* ---- move and copy ------------------------------------------------------ */

struct move_body {
    const char *from, *to;
};

static const struct api_field move_spec_fields[] = {
    {"from", API_STRING, API_REQUIRED, API_AT(struct move_body, from),
     .min = 1, .max = PATH_BYTES_MAX},
    {"to", API_STRING, API_REQUIRED, API_AT(struct move_body, to), .min = 1,
     .max = PATH_BYTES_MAX},
};
API_INPUT(native_move_spec, "MoveSpec", struct move_body, move_spec_fields,
          "From where to where.");

static int move_or_copy(struct doors_call *call,
                        enum workspace_change_kind kind, struct error *err)
{
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    json_t *json cleanup(json_unref) = NULL;
    bool move = kind == CHANGE_MOVE;
    struct move_body b = {0};
    struct native_locks locks;
    struct workspace_change change = {.kind = kind};
    struct workspace_commit_spec spec = {
        .kind = move ? "move" : "copy",
        .action = move ? "file.move" : "file.copy",
        .changes = &change,
        .count = 1,
    };
    int r = native_read(call, &native_move_spec, &b, &json, err);

    if (r == 0 && check_path(b.from, err) < 0)
        r = error_wrap(err, "from");
    if (r == 0 && check_path(b.to, err) < 0)
        r = error_wrap(err, "to");
    if (r == 0)
        r = ask_commit(call, &locks, &spec, err);
    if (r < 0)
        return r;
    change.from = b.from;
    change.path = b.to;
    r = commit(call, &spec, &made, err);
    if (r == 0)
        respond_commit(call, &made);
    return r;
}

int native_change_move(struct doors_call *call, struct error *err)
{
    return move_or_copy(call, CHANGE_MOVE, err);
}

int native_change_copy(struct doors_call *call, struct error *err)
{
    return move_or_copy(call, CHANGE_COPY, err);
}

/* ---- restore ------------------------------------------------------------ */

#define RESTORE(member) API_AT(struct workspace_restore_spec, member)

static const struct api_field restore_spec_fields[] = {
    {"commit", API_STRING, RESTORE(commit), .min = 1, .max = ID_MAX},
    {"version", API_STRING, RESTORE(version), .min = 1, .max = ID_MAX},
    {"path", API_STRING, RESTORE(path), .min = 1, .max = PATH_BYTES_MAX + 1,
     .help = "a file or folder; else everything"},
};
API_INPUT(native_restore_spec, "RestoreSpec", struct workspace_restore_spec,
          restore_spec_fields, "To which state: a commit or a version.");

int native_change_restore(struct doors_call *call, struct error *err)
{
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    json_t *json cleanup(json_unref) = NULL;
    struct workspace_restore_spec b = {0};
    struct native_locks locks;
    int r = native_read(call, &native_restore_spec, &b, &json, err);

    if (r == 0 && !b.commit == !b.version)
        r = error_set(err, ERR_INVALID,
                      "give either 'commit' or 'version' to restore");
    if (r == 0)
        r = native_ask_locks(call, &locks, err);
    if (r == 0)
        r = workspace_restore(call->doors->workspaces, &call->actor,
                              call->params[0], &b, locks.tokens, locks.count,
                              &made, err);
    if (r == 0)
        respond_commit(call, &made);
    return r;
}
