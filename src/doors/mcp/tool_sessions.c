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
    const char *session, *after, *sharing;
    int64_t limit;
};

#define AT(member) offsetof(struct session_args, member)

static const struct json_field session_fields[] = {
    {"session_id", JSON_KIND_STRING, .offset = AT(session), .min = 1,
     .max = ID_MAX},
};

static void encode(struct json_writer *w, const char *key,
                   const struct session_info *s)
{
    json_write_open(w, key, '{');
    json_write_string(w, "session_id", s->id);
    json_write_string(w, "name", tool_some(s->name));
    json_write_string(w, "state", session_state_name(s->state));
    json_write_string(w, "pool", s->pool);
    json_write_string(w, "runtime", s->runtime);
    json_write_string(w, "workspace", tool_some(s->workspace));
    json_write_string(w, "sharing", session_sharing_name(s->sharing));
    json_write_int(w, "executions", s->executions);
    json_write_int(w, "queued", s->queued);
    json_write_time(w, "created_at", s->created_at_ms);
    json_write_time(w, "last_used_at", s->last_used_at_ms);
    json_write_time(w, "expires_at", s->expires_at_ms);
    json_write_close(w, '}');
}

static void answer(const struct session_info *s, const char *words,
                   struct mcp_answer *ret)
{
    struct json_writer w = {.out = &ret->structured};

    mcp_answer_textf(ret, "%s [session_id: %s]", words, s->id);
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_string(&w, "session_id", s->id);
    encode(&w, "session", s);
    json_write_close(&w, '}');
    tool_files_meta(ret, s->id, NULL, 0);
}

int tool_reset_session(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_info fresh cleanup(session_info_done) = {.metadata = NULL};
    struct session_args a = {.session = NULL};
    int r =
        json_read(args, session_fields, ARRAY_SIZE(session_fields), &a, err);

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
    int r =
        json_read(args, session_fields, ARRAY_SIZE(session_fields), &a, err);

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
    static const struct json_field fields[] = {
        {"session_id", JSON_KIND_STRING, .offset = AT(session), .min = 1,
         .max = ID_MAX},
        {"sharing", JSON_KIND_STRING, .offset = AT(sharing), .min = 1,
         .max = 16},
    };
    struct session_info found cleanup(session_info_done) = {.metadata = NULL};
    struct session_info shared cleanup(session_info_done) = {.metadata = NULL};
    struct session_args a = {.sharing = "tenant"};
    enum session_sharing sharing = SESSION_SHARING_DEFAULT;
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

    if (r == 0 && (session_sharing_parse(a.sharing, &sharing) < 0 ||
                   sharing == SESSION_SHARING_DEFAULT))
        r = error_set(err, ERR_INVALID,
                      "field 'sharing' must be 'tenant' or 'principal'");
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
    struct json_writer w = {.out = &ret->structured};
    struct buf text cleanup(buf_done) = {0};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "status", "ok");
    json_write_open(&w, "sessions", '[');
    for (size_t i = 0; i < count; i++) {
        encode(&w, NULL, &list[i]);
        buf_addf(&text, "%s%s%s: %s, %u executions, pool %s\n", list[i].id,
                 list[i].name[0] ? " " : "", list[i].name,
                 session_state_name(list[i].state), list[i].executions,
                 list[i].pool);
    }
    json_write_close(&w, ']');
    json_write_string(&w, "next", more ? list[count - 1].id : NULL);
    json_write_close(&w, '}');
    if (!count)
        buf_adds(&text, "There are no sessions.\n");
    if (more)
        buf_addf(&text, "[there are more: go on with after=%s]\n",
                 list[count - 1].id);
    mcp_answer_text(ret, text.data, text.len);
}

int tool_list_sessions(struct mcp_call *call, const json_t *args,
                       struct mcp_answer *ret, struct error *err)
{
    static const struct json_field fields[] = {
        {"limit", JSON_KIND_INT, .offset = AT(limit), .min = 1,
         .max = LIST_MAX},
        {"after", JSON_KIND_STRING, .offset = AT(after), .min = 1,
         .max = ID_MAX},
    };
    struct session_args a = {.limit = LIST_DEFAULT};
    struct session_info *list = NULL;
    size_t count = 0;
    bool more = false;
    int r = json_read(args, fields, ARRAY_SIZE(fields), &a, err);

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

#define SESSION_SCHEMA                                                        \
    "{\"type\":\"object\",\"properties\":{"                                   \
    "\"session_id\":{\"type\":\"string\"},"                                   \
    "\"name\":{\"type\":[\"string\",\"null\"]},"                              \
    "\"state\":{\"type\":\"string\",\"description\":\"starting, idle, "       \
    "running, dormant (wakes at the next call, files kept) or ended\"},"      \
    "\"pool\":{\"type\":\"string\"},\"runtime\":{\"type\":\"string\"},"       \
    "\"workspace\":{\"type\":[\"string\",\"null\"]},"                         \
    "\"sharing\":{\"type\":\"string\",\"description\":\"principal (its "      \
    "owner and admins of the tenant) or tenant (every key of it)\"},"         \
    "\"executions\":{\"type\":\"integer\"},\"queued\":{\"type\":\"integer\"}" \
    ",\"created_at\":{\"type\":[\"string\",\"null\"]},"                       \
    "\"last_used_at\":{\"type\":[\"string\",\"null\"]},"                      \
    "\"expires_at\":{\"type\":[\"string\",\"null\"]}},"                       \
    "\"required\":[\"session_id\",\"state\"]}"

#define ONE_OUTPUT                                                            \
    TOOL_OUTPUT("\"session_id\":{\"type\":\"string\"},"                       \
                "\"session\":" SESSION_SCHEMA)

const char tool_reset_session_text[] =
    "Gives a session a fresh interpreter: variables and imports are gone, "
    "files stay. What runs or waits in it is cancelled. Use it when the "
    "interpreter is in a bad state, such as after running out of memory.";
const char tool_reset_session_input[] =
    "{\"type\":\"object\",\"properties\":{" TOOL_SCHEMA_SESSION
    "},\"additionalProperties\":false}";
const char tool_reset_session_output[] = ONE_OUTPUT;

const char tool_interrupt_text[] =
    "Interrupts what runs in a session now, as Ctrl-C would; variables and "
    "files stay, and the interrupted call answers with an error. Use it when "
    "something takes too long. It does nothing when nothing runs.";
const char tool_interrupt_input[] =
    "{\"type\":\"object\",\"properties\":{" TOOL_SCHEMA_SESSION
    "},\"additionalProperties\":false}";
const char tool_interrupt_output[] = ONE_OUTPUT;

const char tool_list_sessions_text[] =
    "Lists the sessions you can use, newest first, with their state and "
    "workspace, to go on in one by its session_id. A dormant one wakes with "
    "its files, but without its variables, at the next call.";
const char tool_list_sessions_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,"
    "\"default\":20},"
    "\"after\":{\"type\":\"string\",\"description\":\"next of the page "
    "before\"}},\"additionalProperties\":false}";
const char tool_list_sessions_output[] = TOOL_OUTPUT(
    "\"sessions\":{\"type\":\"array\",\"items\":" SESSION_SCHEMA "},"
    "\"next\":{\"type\":[\"string\",\"null\"]}");

const char tool_share_session_text[] =
    "Lets every key of the tenant see and use a session: its variables, files "
    "and output. With sharing principal it is its owner's alone again. Use it "
    "only when the user asks for it. Only the owner of the session and admins "
    "of the tenant can.";
const char tool_share_session_input[] =
    "{\"type\":\"object\",\"properties\":{" TOOL_SCHEMA_SESSION ","
    "\"sharing\":{\"type\":\"string\",\"enum\":[\"tenant\",\"principal\"],"
    "\"default\":\"tenant\"}},\"additionalProperties\":false}";
const char tool_share_session_output[] = ONE_OUTPUT;
