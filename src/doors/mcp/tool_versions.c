/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_history, restore_version, conversation_files: what became of files,
 * and back again. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define LIST_MAX 100
#define LIST_DEFAULT 20

struct version_args {
    const char *path, *file, *workspace, *session, *version, *commit, *after,
        *conversation, *token;
    int64_t limit;
};

#define AT(member) offsetof(struct version_args, member)

/* ---- events ------------------------------------------------------------- */

static void encode_event(struct json_writer *w, struct arena *arena,
                         const char *workspace,
                         const struct workspace_event *e)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "path", e->file.path);
    json_write_string(w, "workspace", workspace);
    json_write_string(w, "change", e->change);
    json_write_string(w, "version", tool_some(e->file.version));
    json_write_int(w, "number", e->file.number);
    json_write_int(w, "size", (int64_t)e->file.size);
    json_write_string(w, "sha256", tool_some(e->file.sha256));
    json_write_time(w, "at", e->at_ms);
    json_write_string(w, "kind", e->kind);
    json_write_string(w, "author", e->author);
    json_write_string(w, "commit", e->commit);
    json_write_string(w, "session_id", tool_some(e->session));
    json_write_string(w, "execution_id", tool_some(e->execution));
    json_write_string(w, "conversation", tool_some(e->conversation));
    json_write_string(w, "message_id", tool_some(e->message));
    json_write_string(w, "from_path", tool_some(e->from_path));
    json_write_string(w, "restored_from", tool_some(e->from_version));
    json_write_bool(w, "purged", e->purged);
    json_write_string(w, "file_id", tool_some(e->file.file));
    json_write_string(w, "url",
                      e->file.sha256[0] && !e->purged
                          ? tool_file_url(arena, e->file.file, e->file.version)
                          : NULL);
    json_write_close(w, '}');
}

static void say_event(struct buf *out, const struct workspace_event *e)
{
    char at[32], size[32];

    buf_addf(out, "%s %s %s", clock_format_ms(e->at_ms, at), e->change,
             e->file.path);
    if (e->file.sha256[0])
        buf_addf(out, ", version %s (number %lld, %s)", e->file.version,
                 (long long)e->file.number,
                 tool_text_size(e->file.size, size));
    buf_addf(out, ", by %s of %s\n", e->kind,
             e->session[0] ? e->session : e->author);
}

/* workspaces: one each, ID_MAX apart, or the same for all. */
static void answer(struct mcp_call *call, const struct workspace_event *events,
                   size_t count, bool more, const char *workspaces,
                   size_t apart, struct mcp_answer *ret)
{
    struct json_writer w = {.out = &ret->structured};
    struct buf text cleanup(buf_done) = {0};
    const char *next =
        more && count ? tool_some(events[count - 1].file.version) : NULL;

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_open(&w, "versions", '[');
    for (size_t i = 0; i < count; i++) {
        encode_event(&w, call->arena, workspaces + i * apart, &events[i]);
        say_event(&text, &events[i]);
    }
    json_write_close(&w, ']');
    json_write_string(&w, "next", next);
    json_write_close(&w, '}');
    if (!count)
        buf_adds(&text, "Nothing is known of it.\n");
    if (next)
        buf_addf(&text, "[there are more: go on with after=%s]\n", next);
    mcp_answer_text(ret, text.data, text.len);
}

/* ---- file_history ------------------------------------------------------- */

int tool_file_history(struct mcp_call *call, const json_t *args,
                      struct mcp_answer *ret, struct error *err)
{
    static const struct json_field fields[] = {
        {"path", JSON_KIND_STRING, .offset = AT(path), .min = 1,
         .max = PATH_BYTES_MAX + 32},
        {"workspace", JSON_KIND_STRING, .offset = AT(workspace), .min = 1,
         .max = ID_MAX},
        {"session_id", JSON_KIND_STRING, .offset = AT(session), .min = 1,
         .max = ID_MAX},
        {"limit", JSON_KIND_INT, .offset = AT(limit), .min = 1,
         .max = LIST_MAX},
        {"after", JSON_KIND_STRING, .offset = AT(after), .min = 1,
         .max = ID_MAX},
    };
    struct version_args a = {.limit = LIST_DEFAULT};
    struct workspace_event *events = NULL;
    char workspace[ID_MAX];
    struct page_result got = {0};
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

    if (r == 0 && a.path)
        r = tool_path(call->arena, a.path, &a.path, err);
    if (r == 0)
        r = tool_workspace(call, a.workspace, a.session, workspace, err);
    if (r == 0)
        r = workspace_history(
            call->doors->workspaces, call->actor, workspace,
            &(struct workspace_history_spec){
                .path = a.path, .after = a.after, .limit = (unsigned)a.limit},
            &events, &got, err);
    if (r < 0)
        return r;
    answer(call, events, got.count, got.has_more, workspace, 0, ret);
    workspace_events_free(events, got.count);
    return 0;
}

/* ---- conversation_files ------------------------------------------------- */

int tool_conversation_files(struct mcp_call *call, const json_t *args,
                            struct mcp_answer *ret, struct error *err)
{
    static const struct json_field fields[] = {
        {"conversation", JSON_KIND_STRING, .offset = AT(conversation),
         .min = 1, .max = 256},
        {"limit", JSON_KIND_INT, .offset = AT(limit), .min = 1,
         .max = LIST_MAX},
        {"after", JSON_KIND_STRING, .offset = AT(after), .min = 1,
         .max = ID_MAX},
    };
    struct version_args a = {.limit = LIST_DEFAULT,
                             .conversation = tool_some(call->conversation)};
    char *workspaces cleanup(mem_free) = NULL;
    struct workspace_event *events = NULL;
    struct page_result got = {0};
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

    if (r == 0 && !a.conversation) {
        (void)error_set(err, ERR_INVALID, "field 'conversation' is missing");
        r = error_hint(err, "This client did not say which conversation the "
                            "call belongs to, so it must be named.");
    }
    if (r == 0)
        r = workspace_conversation(
            call->doors->workspaces, call->actor, a.conversation,
            &(struct page){.limit = (unsigned)a.limit, .after = a.after},
            &events, &workspaces, &got, err);
    if (r < 0)
        return r;
    answer(call, events, got.count, got.has_more, workspaces ? workspaces : "",
           workspaces ? ID_MAX : 0, ret);
    workspace_events_free(events, got.count);
    return 0;
}

/* ---- restore_version ---------------------------------------------------- */

static const char *fate_note(const struct workspace_result *r)
{
    switch (r->fate) {
    case FATE_SAME:
        return "it had these bytes already";
    case FATE_LOCKED:
        return "somebody holds a lock on it";
    case FATE_QUOTA:
        return "there is no room";
    case FATE_CONFLICT:
        return "kept beside what others wrote";
    case FATE_KEPT:
        return "others changed it meanwhile";
    case FATE_DONE:
        return NULL;
    }
    return NULL;
}

static void answer_restore(struct mcp_call *call, const char *workspace,
                           const struct workspace_commit *c,
                           struct mcp_answer *ret)
{
    struct json_writer w = {.out = &ret->structured};
    struct buf text cleanup(buf_done) = {0};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_string(&w, "workspace", workspace);
    json_write_string(&w, "commit", tool_some(c->id));
    json_write_open(&w, "files", '[');
    buf_adds(&text, c->id[0] ? "Restored:\n" : "Nothing had to change.\n");
    for (size_t i = 0; i < MIN(c->count, (size_t)TOOL_FILES_MAX); i++) {
        const struct workspace_result *res = &c->results[i];
        struct tool_file f = {
            .path = res->file.path,
            .change = res->change,
            .why = fate_note(res),
            .size = res->file.size,
            .file = res->file.file,
            .version = res->file.version,
            .sha256 = res->file.sha256,
            .mime = res->file.mime,
        };

        tool_file_encode(&w, NULL, call->arena, workspace, &f);
        tool_file_say(&text, &f);
    }
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    mcp_answer_text(ret, text.data, text.len);
}

static int check_restore(const struct version_args *a, struct error *err)
{
    if ((a->version != NULL) == (a->commit != NULL)) {
        (void)error_set(err, ERR_INVALID,
                        "give exactly one of version and commit");
        return error_hint(err, "file_history names both.");
    }
    return 0;
}

/* Where a version is, if nobody said so. */
static int place_of(struct mcp_call *call, const struct version_args *a,
                    char ret[ID_MAX], struct error *err)
{
    struct workspace_event event cleanup(workspace_event_done) = {.seq = 0};
    char base[ID_MAX];

    if (a->version && !a->workspace && !a->session)
        return workspace_provenance(call->doors->workspaces, call->actor,
                                    a->version, &event, ret, base, err);
    return tool_workspace(call, a->workspace, a->session, ret, err);
}

/* The session the model works in must not go on with what was there before:
 * its next change of the path would be a conflict with the restored one. */
static void show_restored(struct mcp_call *call, const struct version_args *a,
                          const char *workspace)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    struct session_info after cleanup(session_info_done) = {.metadata = NULL};
    struct error ignored; /* it sees it when it next wakes */
    uint32_t changed;

    if ((a->session || call->common[0]) &&
        tool_session(call, TOOL_FIND, a->session, NULL, &info, &ignored) ==
            0 &&
        strcmp(info.workspace, workspace) == 0)
        (void)session_refresh(call->doors->sessions, call->actor, info.id,
                              &changed, &after, &ignored);
}

int tool_restore_version(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    static const struct json_field fields[] = {
        {"version", JSON_KIND_STRING, .offset = AT(version), .min = 1,
         .max = ID_MAX},
        {"commit", JSON_KIND_STRING, .offset = AT(commit), .min = 1,
         .max = ID_MAX},
        {"path", JSON_KIND_STRING, .offset = AT(path), .min = 1,
         .max = PATH_BYTES_MAX + 32},
        {"workspace", JSON_KIND_STRING, .offset = AT(workspace), .min = 1,
         .max = ID_MAX},
        {"session_id", JSON_KIND_STRING, .offset = AT(session), .min = 1,
         .max = ID_MAX},
        {"lock_token", JSON_KIND_STRING, .offset = AT(token), .min = 1,
         .max = 256},
    };
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    struct version_args a = {.path = NULL};
    char workspace[ID_MAX];
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

    if (r == 0)
        r = check_restore(&a, err);
    if (r == 0 && a.path)
        r = tool_path(call->arena, a.path, &a.path, err);
    if (r == 0)
        r = place_of(call, &a, workspace, err);
    if (r == 0)
        r = workspace_restore(
            call->doors->workspaces, call->actor, workspace,
            &(struct workspace_restore_spec){
                .commit = a.commit, .version = a.version, .path = a.path},
            &a.token, a.token ? 1 : 0, &made, err);
    if (r == 0) {
        show_restored(call, &a, workspace);
        answer_restore(call, workspace, &made, ret);
    }
    return r;
}

/* ---- their words -------------------------------------------------------- */

#define EVENTS_OUTPUT                                                          \
    TOOL_OUTPUT(                                                               \
        "\"versions\":{\"type\":\"array\",\"items\":{\"type\":\"object\","     \
        "\"properties\":{\"path\":{\"type\":\"string\"},"                      \
        "\"workspace\":{\"type\":\"string\"},"                                 \
        "\"change\":{\"type\":\"string\"},"                                    \
        "\"version\":{\"type\":[\"string\",\"null\"]},"                        \
        "\"number\":{\"type\":\"integer\"},\"size\":{\"type\":\"integer\"},"   \
        "\"sha256\":{\"type\":[\"string\",\"null\"]},"                         \
        "\"at\":{\"type\":[\"string\",\"null\"]},"                             \
        "\"kind\":{\"type\":\"string\"},\"author\":{\"type\":\"string\"},"     \
        "\"commit\":{\"type\":\"string\"},"                                    \
        "\"session_id\":{\"type\":[\"string\",\"null\"]},"                     \
        "\"execution_id\":{\"type\":[\"string\",\"null\"]},"                   \
        "\"conversation\":{\"type\":[\"string\",\"null\"]},"                   \
        "\"message_id\":{\"type\":[\"string\",\"null\"]},"                     \
        "\"from_path\":{\"type\":[\"string\",\"null\"]},"                      \
        "\"restored_from\":{\"type\":[\"string\",\"null\"]},"                  \
        "\"purged\":{\"type\":\"boolean\",\"description\":\"its bytes are no " \
        "longer kept\"},\"file_id\":{\"type\":[\"string\",\"null\"]},"         \
        "\"url\":{\"type\":[\"string\",\"null\"]}},"                           \
        "\"required\":[\"path\",\"workspace\",\"change\"]}},"                  \
        "\"next\":{\"type\":[\"string\",\"null\"]}")

const char tool_file_history_text[] =
    "Lists what happened to a file, or to everything in a workspace, newest "
    "first: each version with its author, time, and the session, execution "
    "and conversation that made it. Use it to find out where a file comes "
    "from, or which version to restore.";
const char tool_file_history_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"type\":\"string\",\"description\":\"Of the file; left out: "
    "everything\"}," TOOL_SCHEMA_WORKSPACE "," TOOL_SCHEMA_SESSION ","
    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,"
    "\"default\":20},"
    "\"after\":{\"type\":\"string\",\"description\":\"next of the page "
    "before\"}},\"additionalProperties\":false}";
const char tool_file_history_output[] = EVENTS_OUTPUT;

const char tool_conversation_files_text[] =
    "Lists every file version that a conversation made or changed, oldest "
    "first, in all workspaces you can see. Use it to pick up earlier work, or "
    "to tell what a conversation left behind. Without an argument it is this "
    "conversation, if the client named it.";
const char tool_conversation_files_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"conversation\":{\"type\":\"string\",\"maxLength\":256},"
    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,"
    "\"default\":20},"
    "\"after\":{\"type\":\"string\",\"description\":\"next of the page "
    "before\"}},\"additionalProperties\":false}";
const char tool_conversation_files_output[] = EVENTS_OUTPUT;

const char tool_restore_version_text[] =
    "Brings a file back as it was: by version (see file_history), or a file, "
    "a folder or the whole workspace as of a commit. The restored state is a "
    "new version, so nothing is lost by it. The session of this conversation, "
    "or that of session_id, sees it at once, other live ones when they next "
    "wake. locked: somebody holds a lock on a path; give its lock_token or "
    "wait.";
const char tool_restore_version_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"version\":{\"type\":\"string\",\"description\":\"Of a file\"},"
    "\"commit\":{\"type\":\"string\",\"description\":\"cmt_…: as it was "
    "then\"},"
    "\"path\":{\"type\":\"string\",\"description\":\"With commit: only this "
    "file or folder\"}," TOOL_SCHEMA_WORKSPACE "," TOOL_SCHEMA_SESSION ","
    "\"lock_token\":{\"type\":\"string\"}},\"additionalProperties\":false}";
const char tool_restore_version_output[] = TOOL_OUTPUT(
    "\"workspace\":{\"type\":\"string\"},"
    "\"commit\":{\"type\":[\"string\",\"null\"]},"
    "\"files\":{\"type\":\"array\",\"items\":" TOOL_SCHEMA_FILE "}");
