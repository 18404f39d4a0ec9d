/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which session or workspace a call is about: the one that its arguments name;
 * otherwise the session of the conversation (or of the legacy MCP session),
 * found by an identifier derived from what its calls have in common; otherwise
 * a new one, and the answer says so and names the latest ones. Also the tools
 * reset_session, interrupt, list_sessions, refresh_session, end_session and
 * share_session. Runs on a worker of the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "doors/mcp/tool.h"

/* ---- which session a call uses ------------------------------------------ */

#define IDENTIFIER_BYTES 16u /* of the hash */
#define LATEST_MAX 3u        /* sessions named when a new one is made */
#define AGAIN "Leave session_id out to get a new session; the answer names it."

static int find_named_session(struct mcp_call *call, const char *id,
                              struct session_info *ret, struct error *err)
{
    int r = session_visit(call->doors->sessions, call->actor, id, ret, err);

    if (r == 0 && ret->final) {
        session_info_done(ret);
        ret->metadata = NULL;
        r = error_set(err, ERR_EXPIRED, "the session %s has expired", id);
    } else if (r == -ERR_NOT_FOUND || r == -ERR_INVALID) {
        r = error_set(err, ERR_NOT_FOUND, "no session '%.80s' exists", id);
    }
    if (r == -ERR_NOT_FOUND || r == -ERR_EXPIRED)
        r = error_hint(err, AGAIN);
    return r;
}

/* Of what calls have in common; a shared workspace has a session of its own
 * in the conversation. */
static void make_identifier(const struct mcp_call *call, const char *workspace,
                            char ret[64])
{
    struct buf text cleanup(buf_done) = {0};
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];

    buf_addf(&text, "%s\n%s", call->common, workspace ? workspace : "");
    hash_sha256(text.data, text.len, hash);
    (void)snprintf(ret, 64, "mcp-%s", ids_hex(hash, IDENTIFIER_BYTES, hex));
}

static int find_common_session(struct mcp_call *call, const char *identifier,
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

/* Adds the newest sessions that the caller can use, but for one ("": for
 * none). Returns how many. */
static size_t say_latest(struct mcp_call *call, const char *but, bool details,
                         struct buf *out)
{
    struct session_info *list = NULL;
    size_t count = 0, said = 0;
    struct error ignored;
    char used[32];
    bool more;

    if (session_list(call->doors->sessions, call->actor, LATEST_MAX + 1, NULL,
                     &list, &count, &more, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const struct session_info *s = &list[i];

        if (said < LATEST_MAX && strcmp(s->id, but) != 0 && !s->final) {
            buf_addf(out, "%s%s", said++ ? ", " : "", s->id);
            if (details)
                buf_addf(out, " (%s%s%u executions, last used %s)", s->name,
                         s->name[0] ? ", " : "", s->executions,
                         clock_format_ms(s->last_used_at_ms, used));
        }
        session_info_done(&list[i]);
    }
    free(list);
    return said;
}

/* Nothing but its id leads back to it, so the answer says that it is new. */
static int make_session(struct mcp_call *call, const char *workspace,
                        struct session_info *ret, struct error *err)
{
    struct session_spec spec = {
        .pool = call->pool, .workspace = workspace, .container = true};
    struct buf latest cleanup(buf_done) = {0};
    int r =
        session_create(call->doors->sessions, call->actor, &spec, ret, err);
    size_t count;

    if (r < 0)
        return r;
    count = say_latest(call, ret->id, true, &latest);
    call->new_session = arena_strdup(call->arena, ret->id);
    call->new_session_text = arena_printf(
        call->arena,
        "[new session %s: pass it as session_id to go on in it.%s%s%s]",
        ret->id, count ? " Your latest others: " : "",
        count ? latest.data : "", count ? "." : "");
    return 0;
}

static int use_common_session(struct mcp_call *call, enum tool_need need,
                              const char *workspace, struct session_info *ret,
                              struct error *err)
{
    char identifier[64];
    struct session_spec spec = {.pool = call->pool,
                                .workspace = workspace,
                                .container = true,
                                .identifier = identifier};
    bool made;

    make_identifier(call, workspace, identifier);
    if (need == TOOL_FIND || !(call->scopes & AUTH_EXECUTE))
        return find_common_session(call, identifier, ret, err);
    return session_ensure(call->doors->sessions, call->actor, &spec, &made,
                          ret, err);
}

/* The one a token was minted for need not be named again. */
static const char *only_session(const struct mcp_call *call)
{
    const char *bound = actor_bound(call->actor, ACTOR_SESSIONS);

    return bound[0] && !strchr(bound, ',') ? bound : NULL;
}

static int resolve_session(struct mcp_call *call, enum tool_need need,
                           const char *id, const char *workspace,
                           struct session_info *ret, struct error *err)
{
    int r;

    if (!id)
        id = only_session(call);
    if (!id && call->common[0])
        return use_common_session(call, need, workspace, ret, err);
    if (!id && need == TOOL_FIND) {
        struct buf latest cleanup(buf_done) = {0};
        size_t count = say_latest(call, "", false, &latest);

        (void)error_set(err, ERR_INVALID, "session_id is missing");
        return error_hint(err,
                          "Give the session_id of an earlier answer%s%s%s; "
                          "execute_python and upload_file create one.",
                          count ? " (the latest: " : "",
                          count ? latest.data : "", count ? ")" : "");
    }
    if (!id && !(call->scopes & AUTH_EXECUTE)) {
        (void)error_set(err, ERR_FORBIDDEN,
                        "this key may not create sessions");
        return error_hint(err, "Give the session_id of an existing session.");
    }
    if (!id)
        return make_session(call, workspace, ret, err);
    r = find_named_session(call, id, ret, err);
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
    int r = resolve_session(call, need, id, workspace, ret, err);

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

/* ---- the tools ---------------------------------------------------------- */

#define LIST_MAX 100
#define LIST_DEFAULT 20

struct session_args {
    const char *session, *after;
    int sharing; /* enum session_sharing */
    int64_t limit;
};

static const struct api_field one_arguments[] = {
    TOOL_SESSION(struct session_args),
};
TOOL_INPUT(reset_session, struct session_args, one_arguments);
TOOL_INPUT(interrupt, struct session_args, one_arguments);
TOOL_INPUT(refresh_session, struct session_args, one_arguments);
TOOL_INPUT(end_session, struct session_args, one_arguments);

static const struct api_field list_arguments[] = {
    TOOL_LIMIT(struct session_args, LIST_MAX, LIST_DEFAULT),
    TOOL_AFTER(struct session_args),
};
TOOL_INPUT(list_sessions, struct session_args, list_arguments);

static const char *const sharings[] = {"principal", "tenant", NULL};

static const struct api_field share_arguments[] = {
    TOOL_SESSION(struct session_args),
    {"sharing", API_CHOICE, API_DEFAULT, API_AT(struct session_args, sharing),
     .min = SESSION_SHARING_PRINCIPAL, .value = SESSION_SHARING_TENANT,
     .choices = sharings},
};
TOOL_INPUT(share_session, struct session_args, share_arguments);

static void write_session_state(struct json_writer *w, const char *key,
                                const void *object)
{
    json_write_string(
        w, key,
        session_state_name(((const struct session_info *)object)->state));
}

#define INFO(member) API_AT(struct session_info, member)

static const struct api_field session_fields[] = {
    {"session_id", API_STRING, INFO(id)},
    {"name", API_STRING, API_NULLABLE, INFO(name)},
    {"state", API_STRING, .write = write_session_state,
     .help =
         "starting, idle, running, hibernated (wakes at the next call with "
         "its variables), dormant (the same, with files only) or ended"},
    {"pool", API_STRING, INFO(pool)},
    {"runtime", API_STRING, INFO(runtime)},
    {"workspace", API_STRING, API_NULLABLE, INFO(workspace)},
    {"sharing", API_CHOICE, INFO(sharing), .min = SESSION_SHARING_PRINCIPAL,
     .choices = sharings,
     .help = "principal (its owner and admins of the tenant) or tenant (every "
             "key of it)"},
    {"executions", API_INT, INFO(executions)},
    {"queued", API_INT, INFO(queued)},
    {"created_at", API_TIME, API_NULLABLE, INFO(created_at_ms)},
    {"last_used_at", API_TIME, API_NULLABLE, INFO(last_used_at_ms)},
    {"expires_at", API_TIME, API_NULLABLE, INFO(expires_at_ms)},
};
static API_OUTPUT(session_resource, "session", struct session_info,
                  session_fields, NULL);

struct one {
    struct tool_status status;
    struct session_info session;
};

static const struct api_field one_fields[] = {
    {"session_id", API_STRING, API_AT(struct one, session.id)},
    {"session", API_OBJECT, API_AT(struct one, session),
     .of = &session_resource},
};
TOOL_OUTPUT(reset_session, struct one, one_fields);
TOOL_OUTPUT(interrupt, struct one, one_fields);
TOOL_OUTPUT(share_session, struct one, one_fields);

struct refreshed {
    struct one one;
    uint32_t changed;
};

static const struct api_field refreshed_fields[] = {
    {"session_id", API_STRING, API_AT(struct refreshed, one.session.id)},
    {"changed", API_INT, API_AT(struct refreshed, changed),
     .help = "Files that were changed or removed in the session"},
    {"session", API_OBJECT, API_AT(struct refreshed, one.session),
     .of = &session_resource},
};
TOOL_OUTPUT(refresh_session, struct refreshed, refreshed_fields);

struct ended {
    struct tool_status status;
    const char *session, *workspace;
};

static const struct api_field ended_fields[] = {
    {"session_id", API_STRING, API_AT(struct ended, session)},
    {"workspace", API_STRING, API_NULLABLE, API_AT(struct ended, workspace),
     .help = "Where its files are kept"},
};
TOOL_OUTPUT(end_session, struct ended, ended_fields);

struct listed {
    struct session_info info;
    struct tool_newest files[TOOL_NEWEST_MAX];
    const struct tool_newest *newest;
    size_t newest_count;
};

static const struct api_field listed_fields[] = {
    {"newest", API_ARRAY, API_LIST(struct listed, newest, newest_count),
     .of = &tool_newest_resource,
     .help = "Files of its workspace that changed last"},
};
static API_OUTPUT_OF(listed_resource, "listed session", &session_resource,
                     struct listed, listed_fields, NULL);

struct list {
    struct tool_status status;
    const struct listed *sessions;
    size_t count;
    const char *next;
};

static const struct api_field list_fields[] = {
    {"sessions", API_ARRAY, API_LIST(struct list, sessions, count),
     .of = &listed_resource},
    {"next", API_STRING, API_NULLABLE, API_AT(struct list, next)},
};
TOOL_OUTPUT(list_sessions, struct list, list_fields);

static void answer_session(const struct session_info *s, const char *words,
                           struct mcp_answer *ret)
{
    mcp_answer_textf(ret, "%s [session_id: %s]", words, s->id);
    tool_answer(ret, &tool_reset_session_output, &(struct one){TOOL_OK, *s});
    tool_files_meta(ret, NULL, s->id, NULL, NULL, 0);
}

int tool_reset_session(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_info fresh cleanup(session_info_done) = {.metadata = NULL};
    struct session_args a = {.session = NULL};
    int r = api_read(args, &tool_reset_session_input, &a, err);

    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &found, err);
    if (r == 0)
        r = session_reset(call->doors->sessions, call->actor, found.id, &fresh,
                          err);
    if (r == 0)
        answer_session(&fresh,
                       "The interpreter was restarted; files are kept.", ret);
    return r;
}

int tool_interrupt(struct mcp_call *call, const json_t *args,
                   struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_args a = {.session = NULL};
    int r = api_read(args, &tool_interrupt_input, &a, err);

    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &found, err);
    if (r == 0)
        r = session_interrupt(call->doors->sessions, call->actor, found.id,
                              err);
    if (r == 0)
        answer_session(
            &found,
            found.state == SESSION_RUNNING
                ? "The running execution was interrupted; variables are kept."
                : "Nothing was running.",
            ret);
    return r;
}

int tool_refresh_session(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_info now cleanup(session_info_done) = {.metadata = NULL};
    struct session_args a = {.session = NULL};
    uint32_t changed = 0;
    int r = api_read(args, &tool_refresh_session_input, &a, err);

    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &found, err);
    if (r == 0)
        r = session_refresh(call->doors->sessions, call->actor, found.id,
                            &changed, &now, err);
    if (r < 0)
        return r;
    mcp_answer_textf(ret,
                     "%u files were changed or removed in /mnt/data; the "
                     "session sees the newest commit of its workspace. "
                     "Variables are kept. [session_id: %s]",
                     changed, now.id);
    tool_answer(ret, &tool_refresh_session_output,
                &(struct refreshed){{TOOL_OK, now}, changed});
    tool_files_meta(ret, NULL, now.id, NULL, NULL, 0);
    return 0;
}

int tool_end_session(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_args a = {.session = NULL};
    int r = api_read(args, &tool_end_session_input, &a, err);

    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &found, err);
    if (r == 0)
        r = session_delete(call->doors->sessions, call->actor, found.id, err);
    if (r < 0)
        return r;
    if (found.workspace[0])
        mcp_answer_textf(ret,
                         "The session %s has ended; its variables are gone. "
                         "Its files are kept in the workspace %s.",
                         found.id, found.workspace);
    else
        mcp_answer_textf(ret,
                         "The session %s has ended; its variables and files "
                         "are gone.",
                         found.id);
    tool_answer(
        ret, &tool_end_session_output,
        &(struct ended){TOOL_OK, found.id, tool_some(found.workspace)});
    return 0;
}

int tool_share_session(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_info shared cleanup(session_info_done) = {.metadata = NULL};
    struct session_args a = {0};
    enum session_sharing sharing;
    int r = api_read(args, &tool_share_session_input, &a, err);

    sharing = (enum session_sharing)a.sharing;
    if (r == 0)
        r = tool_session(call, TOOL_FIND, a.session, NULL, &found, err);
    if (r == 0)
        r = session_share(call->doors->sessions, call->actor, found.id,
                          sharing, &shared, err);
    if (r == 0)
        answer_session(
            &shared,
            sharing == SESSION_SHARING_TENANT
                ? "Every key of the tenant can see and use the session now."
                : "Only its owner and admins of the tenant can see and use "
                  "it now.",
            ret);
    return r;
}

static void answer_session_list(struct mcp_call *call,
                                const struct session_info *list, size_t count,
                                bool more, struct mcp_answer *ret)
{
    const char *next = more ? list[count - 1].id : NULL;
    struct listed *listed =
        arena_alloc(call->arena, (count + 1) * sizeof(*listed));
    struct buf text cleanup(buf_done) = {0};
    char used[32];

    for (size_t i = 0; i < count; i++) {
        const struct session_info *s = &list[i];

        listed[i].info = *s;
        listed[i].newest = listed[i].files;
        listed[i].newest_count =
            tool_newest(call, s->workspace, listed[i].files);
        buf_addf(&text, "%s%s%s%s: %s, last used %s, %u executions, pool %s",
                 s->id, s->name[0] ? " \"" : "", s->name,
                 s->name[0] ? "\"" : "", session_state_name(s->state),
                 clock_format_ms(s->last_used_at_ms, used), s->executions,
                 s->pool);
        if (s->workspace[0])
            buf_addf(&text, ", workspace %s", s->workspace);
        tool_newest_say(&text, listed[i].files, listed[i].newest_count);
        buf_adds(&text, "\n");
    }
    tool_answer(ret, &tool_list_sessions_output,
                &(struct list){TOOL_OK, listed, count, next});
    if (!count)
        buf_adds(&text, "There are no sessions.\n");
    if (next)
        buf_addf(&text, "[there are more: go on with after=%s]\n", next);
    mcp_answer_text(ret, text.data, text.len);
}

int tool_list_sessions(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    struct session_args a = {.limit = 0};
    struct session_info *list = NULL;
    size_t count = 0;
    bool more = false;
    int r = api_read(args, &tool_list_sessions_input, &a, err);

    if (r == 0)
        r = session_list(call->doors->sessions, call->actor, (unsigned)a.limit,
                         a.after, &list, &count, &more, err);
    if (r < 0)
        return r;
    answer_session_list(call, list, count, more && count, ret);
    for (size_t i = 0; i < count; i++)
        session_info_done(&list[i]);
    free(list);
    return 0;
}

/* ---- their words -------------------------------------------------------- */

const char tool_reset_session_text[] =
    "Gives a session a fresh interpreter: variables and imports are gone, "
    "files stay. What runs or waits in it is cancelled. Use it when the "
    "interpreter is in a bad state, such as after running out of memory.";

const char tool_interrupt_text[] =
    "Interrupts what runs in a session now, as Ctrl-C would; variables and "
    "files stay, and the interrupted call answers with an error. Use it when "
    "something takes too long. It does nothing when nothing runs.";

const char tool_list_sessions_text[] =
    "Lists the sessions you can use, newest first, with their state, last use, "
    "workspace and newest files, to go on in one by its session_id. At the next call a "
    "hibernated one wakes with its variables, a dormant one with its files only.";

const char tool_refresh_session_text[] =
    "Brings files that others have committed to the workspace meanwhile (other "
    "agents, uploads, a restored version) into the running session, without "
    "losing variables. Use it when another session works on the same "
    "workspace. A sleeping session sees them anyway when it wakes.";

const char tool_end_session_text[] =
    "Ends a session: what runs in it is cancelled, its variables are gone, and "
    "it no longer counts against limits. Its files stay in its workspace, "
    "unless the pool keeps none. Use it when the work is done. To only clear "
    "variables use reset_session.";

const char tool_share_session_text[] =
    "Lets every key of the tenant see and use a session: its variables, files "
    "and output. With sharing principal it is its owner's alone again. Use it "
    "only when the user asks for it. Only the owner of the session and admins "
    "of the tenant can.";
