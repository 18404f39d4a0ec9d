/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An execution that policy holds, as an MCP client sees it. A question
 * tells the user what waits and who can approve it; the user may wait or
 * withdraw it. No answer of the client approves anything, because the client
 * made the request. A client that cannot ask its user gets the status
 * "pending_approval" and can call check_approval later. The agent loop waits
 * as it does for code. Runs on the call's worker, which waits for a decision
 * within bounds.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "approval/approval.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "doors/mcp/tool.h"

#define WAIT_MODERN_MS 20000u /* then the client is asked again */
#define WAIT_LEGACY_MS 60000u
#define LOOK_MS 200u

/* ---- what the client carries between rounds ----------------------------- */

struct held_state {
    char execution[ID_MAX], session[ID_MAX], hash[HASH_HEX];
    unsigned round;
};

static void code_hash(const char *code, size_t len, char ret[HASH_HEX])
{
    unsigned char sum[HASH_SIZE];

    hash_sha256(code, len, sum);
    (void)ids_hex(sum, sizeof(sum), ret);
}

/* It is signed by us and bound to this call, so that its shape is ours. */
static bool read_state(struct mcp_call *call, struct held_state *ret)
{
    const char *text = mcp_state(call);

    return text && sscanf(text, "held %63s %63s %64s %u", ret->execution,
                          ret->session, ret->hash, &ret->round) == 4;
}

static void keep_state(struct mcp_call *call, const struct held_state *s)
{
    mcp_state_keep_repeats(call, arena_printf(call->arena, "held %s %s %s %u",
                                              s->execution, s->session,
                                              s->hash, s->round));
}

const char *tool_held_session(struct mcp_call *call, const char *given)
{
    struct held_state s;

    if (given || !read_state(call, &s))
        return given;
    return arena_strdup(call->arena, s.session);
}

int tool_held_before(struct mcp_call *call, const struct exec_spec *spec,
                     struct execution **ret, struct error *err)
{
    struct held_state s;
    char hash[HASH_HEX];
    int r;

    if (!read_state(call, &s))
        return 0;
    code_hash(spec->code, spec->code_len, hash);
    if (strcmp(hash, s.hash) != 0)
        return 0;
    r = execution_find(call->doors->sessions, call->actor, s.execution, ret,
                       err);
    return r < 0 ? r : 1;
}

/* ---- waiting ------------------------------------------------------------ */

/* Looks again until it is decided and has begun, for so long at most; and
 * then until it has ended, which is bounded by itself. What is found replaces
 * *e. */
static void wait_for_decision(struct mcp_call *call, struct execution **e,
                              unsigned most_ms)
{
    const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000L};
    uint64_t since = clock_mono_ms(), until = since + most_ms;
    struct exec_info info;
    struct error ignored;

    for (;;) {
        struct execution *now = NULL;

        execution_info(*e, &info);
        if (info.status == EXEC_COMPLETED ||
            (info.status != EXEC_RUNNING && clock_mono_ms() >= until))
            return;
        if (call->cancelled(call)) { /* the client cancelled */
            (void)execution_cancel(call->doors->sessions, call->actor, info.id,
                                   &ignored);
            return;
        }
        if (call->wants_progress)
            call->progress(call, (double)(clock_mono_ms() - since) / 1000, 0,
                           exec_status_name(info.status));
        (void)nanosleep(&nap, NULL); /* woken early is as good */
        if (execution_find(call->doors->sessions, call->actor, info.id, &now,
                           &ignored) < 0)
            return; /* its session is gone */
        execution_unref(*e);
        *e = now;
    }
}

/* ---- asking ------------------------------------------------------------- */

static json_t *approval_question(const struct exec_info *info)
{
    char *text cleanup(mem_free) = xasprintf(
        "This needs approval before it runs (%s). It has not run. "
        "A person whose key has the scope 'approve', and is not the one used "
        "here, can read it with `glovebox approvals show %s` and decide it "
        "with `glovebox approvals approve %s`. Wait for that, or withdraw it?",
        info->approval, info->approval, info->approval);

    return json_pack("{s:s,s:s,s:{s:s,s:{s:{s:s,s:s,s:[s,s],s:s}},s:[s]}}",
                     "mode", "form", "message", text, "requestedSchema",
                     "type", "object", "properties", "choice", "type",
                     "string", "title", "What now?", "enum", "wait",
                     "withdraw", "default", "wait", "required", "choice");
}

enum choice {
    CHOICE_WAIT,
    CHOICE_WITHDRAW,
    CHOICE_LEAVE /* it waits, but not this call */
};

static enum choice read_choice(const json_t *answer)
{
    const char *action = json_string_value(json_object_get(answer, "action"));
    const char *choice = json_string_value(
        json_object_get(json_object_get(answer, "content"), "choice"));

    if (!action || strcmp(action, "accept") != 0)
        return CHOICE_LEAVE;
    return choice && strcmp(choice, "withdraw") == 0 ? CHOICE_WITHDRAW
                                                     : CHOICE_WAIT;
}

/* 0 with the answer, MCP_PENDING, or 0 with NULL: the client cannot ask its
 * user. */
static int ask_user(struct mcp_call *call, const struct exec_info *info,
                    const struct held_state *s, const json_t **ret)
{
    char key[24];
    struct error ignored;
    int r;

    *ret = NULL;
    (void)snprintf(key, sizeof(key), "approval-%u", s->round);
    keep_state(call, s);
    mcp_ask(call, key, "elicitation/create", approval_question(info));
    r = mcp_ask_wait(call, &ignored);
    if (r == 0)
        *ret = mcp_asked(call, key);
    return r == MCP_PENDING ? r : 0;
}

int tool_held(struct mcp_call *call, const struct exec_spec *spec,
              struct execution **e)
{
    struct held_state s = {.round = 1};
    struct exec_info info;
    struct error ignored;
    const json_t *answer;
    int r;

    for (;; s.round++) {
        execution_info(*e, &info);
        if (info.status != EXEC_PENDING) {
            wait_for_decision(call, e, WAIT_LEGACY_MS);
            return 0;
        }
        if (call->on_held) {
            call->on_held(call->held_ctx, info.approval, info.id);
            wait_for_decision(call, e, call->held_wait_ms);
            call->on_held(call->held_ctx, "", "");
            return 0;
        }
        if (!mcp_capable(call, "elicitation"))
            return 0;
        if (s.round == 1 && !read_state(call, &s)) {
            (void)snprintf(s.execution, sizeof(s.execution), "%s", info.id);
            (void)snprintf(s.session, sizeof(s.session), "%s", info.session);
            code_hash(spec->code, spec->code_len, s.hash);
        }
        r = ask_user(call, &info, &s, &answer);
        if (r != 0 || !answer)
            return r;
        switch (read_choice(answer)) {
        case CHOICE_LEAVE:
            return 0;
        case CHOICE_WITHDRAW: /* decided meanwhile: then that counts */
            (void)approval_withdraw(call->doors->core->approvals, call->actor,
                                    info.approval, &ignored);
            wait_for_decision(call, e, LOOK_MS);
            return 0;
        case CHOICE_WAIT:
            break;
        }
        wait_for_decision(call, e,
                          call->era == MCP_MODERN ? WAIT_MODERN_MS
                                                  : WAIT_LEGACY_MS);
        if (call->era == MCP_LEGACY || call->cancelled(call))
            return 0;
    }
}

/* ---- saying it ---------------------------------------------------------- */

#define HINT                                                                  \
    "It has not run. Tell the user; once a person has approved it, it runs "  \
    "by itself, and check_approval with this approval_id has its result. Do " \
    "not run it again meanwhile."

void tool_held_answer(const struct exec_info *info, struct mcp_answer *ret)
{
    mcp_answer_textf(ret,
                     "%s: %s waits for a person with the scope "
                     "'approve' who did not make the request. " HINT
                     "\n[approval_id: %s, execution_id: %s, session_id: %s]",
                     exec_status_name(info->status), info->approval,
                     info->approval, info->id, info->session);
    tool_answer(ret, &tool_run_status,
                &(struct tool_run_status){
                    {exec_status_name(info->status),
                     "this waits for the approval of a person", HINT},
                    info->session,
                    info->id,
                    info->approval});
    tool_files_meta(ret, NULL, info->session, NULL, NULL, 0);
}

/* ---- check_approval, decide_approval ------------------------------------ */

struct approval_args {
    const char *id, *reason;
    int decision; /* -1: none */
};

#define ARG(member) API_AT(struct approval_args, member)

static const char *const decisions[] = {"deny", "approve", NULL};

static const struct api_field check_arguments[] = {
    {"approval_id", API_STRING, API_REQUIRED, ARG(id), .min = 1, .max = ID_MAX,
     .help = "apr_…, as the answer named it"},
};
TOOL_INPUT(check_approval, struct approval_args, check_arguments);

static const struct api_field decide_arguments[] = {
    {"approval_id", API_STRING, API_REQUIRED, ARG(id), .min = 1, .max = ID_MAX,
     .help = "apr_…"},
    {"decision", API_CHOICE, API_REQUIRED, ARG(decision),
     .choices = decisions},
    {"reason", API_STRING, ARG(reason), .max = APPROVAL_REASON_MAX},
};
TOOL_INPUT(decide_approval, struct approval_args, decide_arguments);

struct approval {
    struct tool_status status;
    struct approval_info info;
};

#define APPROVAL(member) API_AT(struct approval, member)

static const struct api_field approval_answer[] = {
    {"approval_id", API_STRING, APPROVAL(info.id)},
    {"approval", API_OBJECT, APPROVAL(info), .of = &approval_resource,
     .help = "state is pending, approved, denied, expired or withdrawn"},
};
TOOL_OUTPUT(decide_approval, struct approval, approval_answer);

/* For check_approval as well: its table (tool_result.c) has these fields. */
static void say_approval(const struct approval_info *info,
                         struct mcp_answer *ret)
{
    bool pending = info->state == APPROVAL_PENDING;

    mcp_answer_textf(ret, "%s is %s%s%s: %s", info->id,
                     approval_state_name(info->state),
                     info->reason[0] ? ", " : "", info->reason, info->summary);
    tool_answer(
        ret, &tool_decide_approval_output,
        &(struct approval){
            {.status = pending ? exec_status_name(EXEC_PENDING) : "ok"},
            *info});
}

/* The execution's result, once it has one. */
int tool_check_approval(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct session_info session cleanup(session_info_done) = {.metadata =
                                                                  NULL};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct approval_args a = {.id = NULL};
    struct exec_info run;
    struct error ignored;
    int r = api_read(args, &tool_check_approval_input, &a, err);

    if (r == 0)
        r = approval_get(call->doors->core->approvals, call->actor, a.id,
                         &info, err);
    if (r < 0)
        return r;
    if (info.state == APPROVAL_APPROVED &&
        approval_is_execution(info.action) &&
        execution_find(call->doors->sessions, call->actor, info.object, &e,
                       &ignored) == 0 &&
        session_get(call->doors->sessions, call->actor, info.session, &session,
                    &ignored) == 0) {
        wait_for_decision(call, &e, WAIT_MODERN_MS);
        execution_info(e, &run);
        if (run.status == EXEC_COMPLETED) {
            tool_result(call, &session, e, &tool_check_approval_output, ret);
            return 0;
        }
    }
    say_approval(&info, ret);
    return 0;
}

int tool_decide_approval(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct approval_args a = {.decision = -1};
    int r = api_read(args, &tool_decide_approval_input, &a, err);

    if (r == 0)
        r = approval_decide(call->doors->core->approvals, call->actor, a.id,
                            a.decision == 1, a.reason, &info, err);
    if (r == 0)
        say_approval(&info, ret);
    return r;
}

/* ---- their words -------------------------------------------------------- */

const char tool_check_approval_text[] =
    "Looks at something that waits for a person's approval, as an answer with "
    "status pending_approval named it. Once it has been approved and has run, "
    "this returns what the run returned; until then its state. Nothing is run "
    "or decided by it. Use it when the user says it was approved, not in a "
    "loop: approvals take minutes or hours. not_found: there is no such "
    "approval for this key.";

const char tool_decide_approval_text[] =
    "Approves or denies a request that another key has made. It "
    "needs the scope approve, and is refused for requests of the same key "
    "or of a token of it. Only decide what the user has read and told you "
    "to decide. A denial needs a reason, which the requester will read. "
    "conflict: the request was decided already.";
