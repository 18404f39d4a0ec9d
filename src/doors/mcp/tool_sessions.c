/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reset_session, interrupt, list_sessions, share_session. Runs on a worker of
 * the daemon.
 */
#include <string.h>

#include "base/mem.h"
#include "doors/mcp/tool.h"

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

static void write_state(struct json_writer *w, const char *key,
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
    {"state", API_STRING, .write = write_state,
     .help = "starting, idle, running, dormant (wakes at the next call, files "
             "kept) or ended"},
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

struct list {
    struct tool_status status;
    const struct session_info *sessions;
    size_t count;
    const char *next;
};

static const struct api_field list_fields[] = {
    {"sessions", API_ARRAY, API_LIST(struct list, sessions, count),
     .of = &session_resource},
    {"next", API_STRING, API_NULLABLE, API_AT(struct list, next)},
};
TOOL_OUTPUT(list_sessions, struct list, list_fields);

static void answer(const struct session_info *s, const char *words,
                   struct mcp_answer *ret)
{
    mcp_answer_textf(ret, "%s [session_id: %s]", words, s->id);
    tool_answer(ret, &tool_reset_session_output, &(struct one){TOOL_OK, *s});
    tool_files_meta(ret, s->id, NULL, 0);
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
        answer(&fresh, "The interpreter is new; files are kept.", ret);
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
        answer(&found,
               found.state == SESSION_RUNNING
                   ? "What runs is interrupted; variables are kept."
                   : "Nothing was running.",
               ret);
    return r;
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
        answer(&shared,
               sharing == SESSION_SHARING_TENANT
                   ? "Every key of the tenant can see and use it now."
                   : "Only its owner and admins of the tenant can see and use "
                     "it now.",
               ret);
    return r;
}

static void answer_list(const struct session_info *list, size_t count,
                        bool more, struct mcp_answer *ret)
{
    const char *next = more ? list[count - 1].id : NULL;
    struct buf text cleanup(buf_done) = {0};

    tool_answer(ret, &tool_list_sessions_output,
                &(struct list){TOOL_OK, list, count, next});
    for (size_t i = 0; i < count; i++)
        buf_addf(&text, "%s%s%s: %s, %u executions, pool %s\n", list[i].id,
                 list[i].name[0] ? " " : "", list[i].name,
                 session_state_name(list[i].state), list[i].executions,
                 list[i].pool);
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
    answer_list(list, count, more && count, ret);
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
    "Lists the sessions you can use, newest first, with their state and "
    "workspace, to go on in one by its session_id. A dormant one wakes with "
    "its files, but without its variables, at the next call.";

const char tool_share_session_text[] =
    "Lets every key of the tenant see and use a session: its variables, files "
    "and output. With sharing principal it is its owner's alone again. Use it "
    "only when the user asks for it. Only the owner of the session and admins "
    "of the tenant can.";
