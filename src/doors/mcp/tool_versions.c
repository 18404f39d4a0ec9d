/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_history, restore_version and conversation_files: the versions of files.
 * lock_file and unlock_file: leases on paths, whose token is only in the
 * answer that created it. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/size.h"
#include "doors/mcp/tool.h"

/* ---- versions ----------------------------------------------------------- */

#define LIST_MAX 100
#define LIST_DEFAULT 20

struct version_args {
    const char *path, *file, *workspace, *session, *version, *commit, *after,
        *conversation, *token;
    int64_t limit;
};

#define ARG(member) API_AT(struct version_args, member)

static const struct api_field history_arguments[] = {
    {"path", API_STRING, ARG(path), .min = 1, .max = TOOL_PATH_MAX,
     .help = "Of the file; left out: everything"},
    TOOL_WORKSPACE(struct version_args),
    TOOL_SESSION(struct version_args),
    TOOL_LIMIT(struct version_args, LIST_MAX, LIST_DEFAULT),
    TOOL_AFTER(struct version_args),
};
TOOL_INPUT(file_history, struct version_args, history_arguments);

static const struct api_field conversation_arguments[] = {
    {"conversation", API_STRING, ARG(conversation), .min = 1, .max = 256},
    TOOL_LIMIT(struct version_args, LIST_MAX, LIST_DEFAULT),
    TOOL_AFTER(struct version_args),
};
TOOL_INPUT(conversation_files, struct version_args, conversation_arguments);

static const struct api_field restore_arguments[] = {
    {"version", API_STRING, ARG(version), .min = 1, .max = ID_MAX,
     .help = "Of a file"},
    {"commit", API_STRING, ARG(commit), .min = 1, .max = ID_MAX,
     .help = "cmt_…: as it was then"},
    {"path", API_STRING, ARG(path), .min = 1, .max = TOOL_PATH_MAX,
     .help = "With commit: only this file or folder"},
    TOOL_WORKSPACE(struct version_args),
    TOOL_SESSION(struct version_args),
    {"lock_token", API_STRING, ARG(token), .min = 1, .max = LOCK_TOKEN_MAX},
};
TOOL_INPUT(restore_version, struct version_args, restore_arguments);

/* ---- events ------------------------------------------------------------- */

struct event {
    struct workspace_event of;
    const char *workspace, *url;
};

#define EVENT(member) API_AT(struct event, member)

static const struct api_field event_fields[] = {
    {"path", API_STRING, EVENT(of.file.path)},
    {"workspace", API_STRING, EVENT(workspace)},
    {"change", API_STRING, EVENT(of.change)},
    {"version", API_STRING, API_NULLABLE, EVENT(of.file.version)},
    {"number", API_INT, EVENT(of.file.number)},
    {"size", API_INT, EVENT(of.file.size)},
    {"sha256", API_STRING, API_NULLABLE, EVENT(of.file.sha256)},
    {"at", API_TIME, API_NULLABLE, EVENT(of.at_ms)},
    {"kind", API_STRING, EVENT(of.kind)},
    {"author", API_STRING, EVENT(of.author)},
    {"commit", API_STRING, EVENT(of.commit)},
    {"session_id", API_STRING, API_NULLABLE, EVENT(of.session)},
    {"execution_id", API_STRING, API_NULLABLE, EVENT(of.execution)},
    {"conversation", API_STRING, API_NULLABLE, EVENT(of.conversation)},
    {"message_id", API_STRING, API_NULLABLE, EVENT(of.message)},
    {"from_path", API_STRING, API_NULLABLE, EVENT(of.from_path)},
    {"restored_from", API_STRING, API_NULLABLE, EVENT(of.from_version)},
    {"purged", API_BOOL, EVENT(of.purged),
     .help = "its bytes are no longer kept"},
    {"file_id", API_STRING, API_NULLABLE, EVENT(of.file.file)},
    {"url", API_STRING, API_NULLABLE, EVENT(url)},
};
static API_OUTPUT(event_resource, "version", struct event, event_fields, NULL);

struct events {
    struct tool_status status;
    const struct event *list;
    size_t count;
    const char *next;
};

static const struct api_field events_fields[] = {
    {"versions", API_ARRAY, API_LIST(struct events, list, count),
     .of = &event_resource},
    {"next", API_STRING, API_NULLABLE, API_AT(struct events, next)},
};
TOOL_OUTPUT(file_history, struct events, events_fields);
TOOL_OUTPUT(conversation_files, struct events, events_fields);

static void write_event(struct buf *out, const struct workspace_event *e)
{
    char at[32], size[32];

    buf_addf(out, "%s %s %s", clock_format_ms(e->at_ms, at), e->change,
             e->file.path);
    if (e->file.sha256[0])
        buf_addf(out, ", version %s (number %lld, %s)", e->file.version,
                 (long long)e->file.number, size_format(e->file.size, size));
    buf_addf(out, ", by %s of %s\n", e->kind,
             e->session[0] ? e->session : e->author);
}

/* workspaces: one each, ID_MAX apart, or the same for all. */
static void answer_history(struct mcp_call *call,
                           const struct workspace_event *events, size_t count,
                           bool more, const char *workspaces, size_t apart,
                           struct mcp_answer *ret)
{
    struct event *list cleanup(mem_free) = xcalloc(count + 1, sizeof(*list));
    struct buf text cleanup(buf_done) = {0};
    const char *next =
        more && count ? tool_some(events[count - 1].file.version) : NULL;

    for (size_t i = 0; i < count; i++) {
        const struct workspace_file *f = &events[i].file;

        list[i] = (struct event){events[i], workspaces + i * apart, NULL};
        if (f->sha256[0] && !events[i].purged)
            list[i].url = tool_file_url(call, f->file, f->version);
        write_event(&text, &events[i]);
    }
    tool_answer(ret, &tool_file_history_output,
                &(struct events){TOOL_OK, list, count, next});
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
    struct version_args a = {.path = NULL};
    struct workspace_event *events = NULL;
    char workspace[ID_MAX];
    struct page_result got = {0};
    int r = api_read(args, &tool_file_history_input, &a, err);

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
    answer_history(call, events, got.count, got.has_more, workspace, 0, ret);
    workspace_events_free(events, got.count);
    return 0;
}

/* ---- conversation_files ------------------------------------------------- */

int tool_conversation_files(struct mcp_call *call, const json_t *args,
                            struct mcp_answer *ret, struct error *err)
{
    struct version_args a = {.conversation = tool_some(call->conversation)};
    char *workspaces cleanup(mem_free) = NULL;
    struct workspace_event *events = NULL;
    struct page_result got = {0};
    int r = api_read(args, &tool_conversation_files_input, &a, err);

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
    answer_history(call, events, got.count, got.has_more,
                   workspaces ? workspaces : "", workspaces ? ID_MAX : 0, ret);
    workspace_events_free(events, got.count);
    return 0;
}

/* ---- restore_version ---------------------------------------------------- */

static const char *restore_note(const struct workspace_result *r)
{
    switch (r->fate) {
    case FATE_SAME:
        return "it had these bytes already";
    case FATE_LOCKED:
        return "another key holds a lock on it";
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

struct restored {
    struct tool_status status;
    const char *workspace, *commit;
    struct tool_file_view *files;
    size_t count;
    uint64_t more;
};

static bool has_more_restored(const void *object)
{
    return ((const struct restored *)object)->more > 0;
}

#define RESTORED(member) API_AT(struct restored, member)

static const struct api_field restored_fields[] = {
    {"workspace", API_STRING, RESTORED(workspace)},
    {"commit", API_STRING, API_NULLABLE, RESTORED(commit)},
    {"files", API_ARRAY, API_LIST(struct restored, files, count),
     .of = &tool_file_resource},
    {"files_more", API_INT, API_OPTIONAL, RESTORED(more),
     .when = has_more_restored,
     .help = "Restored files that are not in files; list_files has them"},
};
TOOL_OUTPUT(restore_version, struct restored, restored_fields);

static void answer_restore(struct mcp_call *call, const char *workspace,
                           const struct workspace_commit *c,
                           struct mcp_answer *ret)
{
    struct restored restored = {TOOL_OK, workspace, c->id,
                                .count = MIN(c->count, TOOL_FILES_MAX)};
    struct buf text cleanup(buf_done) = {0};

    restored.more = c->count - restored.count;
    restored.files = arena_alloc(call->arena, (restored.count + 1) *
                                                  sizeof(*restored.files));
    buf_adds(&text, c->id[0] ? "Restored:\n" : "Nothing had to change.\n");
    for (size_t i = 0; i < restored.count; i++) {
        const struct workspace_result *res = &c->results[i];
        struct tool_file f = {
            .path = res->file.path,
            .change = res->change,
            .why = restore_note(res),
            .size = res->file.size,
            .file = res->file.file,
            .version = res->file.version,
            .sha256 = res->file.sha256,
            .mime = res->file.mime,
        };

        restored.files[i] = tool_file_view(call, workspace, &f);
        tool_file_say(&text, &f);
    }
    if (restored.more)
        buf_addf(&text,
                 "%llu more restored files are not listed here: call "
                 "list_files\n",
                 (unsigned long long)restored.more);
    tool_answer(ret, &tool_restore_version_output, &restored);
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

/* Finds the workspace of a version that was given without one. */
static int restore_place(struct mcp_call *call, const struct version_args *a,
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
    struct workspace_commit made cleanup(workspace_commit_done) = {.count = 0};
    struct version_args a = {.path = NULL};
    char workspace[ID_MAX];
    int r = api_read(args, &tool_restore_version_input, &a, err);

    if (r == 0)
        r = check_restore(&a, err);
    if (r == 0 && a.path)
        r = tool_path(call->arena, a.path, &a.path, err);
    if (r == 0)
        r = restore_place(call, &a, workspace, err);
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

const char tool_file_history_text[] =
    "Lists what happened to a file, or to everything in a workspace, newest "
    "first: each version with its author, time, and the session, execution "
    "and conversation that made it. Use it to find out where a file comes "
    "from, or which version to restore.";

const char tool_conversation_files_text[] =
    "Lists every file version that a conversation made or changed, oldest "
    "first, in all workspaces you can see. Use it to pick up earlier work, or "
    "to tell what a conversation left behind. Without an argument it is this "
    "conversation, if the client named it.";

const char tool_restore_version_text[] =
    "Brings a file back as it was: by version (see file_history), or a file, "
    "a folder or the whole workspace as of a commit. The restored state is a "
    "new version, so nothing is lost by it. The session of this conversation, "
    "or that of session_id, sees it at once, other live ones when they next "
    "wake. locked: another key holds a lock on a path; give its lock_token or "
    "wait.";

/* ---- locks -------------------------------------------------------------- */

#define SECONDS_DEFAULT 300

struct lock_args {
    const char *path, *workspace, *session, *label, *lock, *token;
    int64_t seconds;
    bool force;
};

#define LOCK_ARG(member) API_AT(struct lock_args, member)

static const struct api_field lock_arguments[] = {
    {"path", API_STRING, API_REQUIRED, LOCK_ARG(path), .min = 1,
     .max = TOOL_PATH_MAX, .help = "Below /mnt/data"},
    TOOL_WORKSPACE(struct lock_args),
    TOOL_SESSION(struct lock_args),
    {"seconds", API_INT, API_DEFAULT, LOCK_ARG(seconds), .min = LOCK_TTL_MIN_S,
     .max = LOCK_TTL_MAX_S, .value = SECONDS_DEFAULT},
    {"label", API_STRING, LOCK_ARG(label), .max = LOCK_LABEL_MAX,
     .help = "What it is for, shown to others"},
};
TOOL_INPUT(lock_file, struct lock_args, lock_arguments);

static const struct api_field unlock_arguments[] = {
    {"lock_id", API_STRING, API_REQUIRED, LOCK_ARG(lock), .min = 1,
     .max = ID_MAX},
    {"lock_token", API_STRING, LOCK_ARG(token), .min = 1,
     .max = LOCK_TOKEN_MAX},
    {"force", API_BOOL, API_DEFAULT, LOCK_ARG(force), .value = false},
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

static void answer_lock(const char *workspace, const struct workspace_lock *l,
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
static int run_lock(struct mcp_call *call, const struct lock_args *a,
                    const char *path, struct mcp_answer *ret,
                    struct error *err)
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
        answer_lock(workspace, &made, token, ret);
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
    return r < 0 ? r : run_lock(call, &a, path, ret, err);
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
    "no other session or key can write it. The lock ends by itself after seconds "
    "(1 to 86,400, 300 unless given). Code of the session it was taken for "
    "may write the path; every other write is refused. Keep lock_id and "
    "lock_token for unlock_file: they are shown only once. locked: another "
    "key holds the lock; the message names it and says until when.";

const char tool_unlock_file_text[] =
    "Releases a lock that lock_file took. Give its lock_token; the "
    "workspace's owner may use force instead, which is recorded.";
